"""Tools for testing tests: what a test says of many programs, and a model that remembers how it was used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

Test = Callable[[Any], bool]


def known_mistakes(exercise: str) -> list[Any]:
    """The wrong answers that the check of this exercise knows."""
    from course_lib.exercises import all_exercises

    return list(all_exercises()[exercise].misconceptions)


def right_answers(exercise: str) -> list[Any]:
    """The course's own answer and other right ones."""
    from course_lib.exercises import all_exercises

    return [all_exercises()[exercise].reference, *all_exercises()[exercise].alternatives]


def accepts(test: Test, program: Any) -> bool:
    """What the test says of the program. An error, of either of them, counts as a rejection."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # wrong programs make torch complain
        try:
            return bool(test(program))
        except Exception:
            return False


def caught_by(test: Test, programs: Iterable[Any]) -> set[str]:
    """The names of the programs that the test rejects."""
    return {program.__name__ for program in programs if not accepts(test, program)}


class WatchedModel(nn.Module):
    """Source ids and target ids in, logits out, as a Transformer; as small as can be, without dropout.

    `modes` remembers for each call whether the model was in training mode.
    """

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        self.source_table = nn.Parameter(torch.randn(vocab_size, d_model))
        self.target_table = nn.Parameter(torch.randn(vocab_size, d_model))
        self.output = nn.Parameter(torch.randn(d_model, vocab_size))
        self.modes: list[bool] = []

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """src_ids: (batch, source); tgt_ids: (batch, target). Returns: logits (batch, target, vocab)."""
        self.modes.append(self.training)
        memory = self.source_table[src_ids].mean(dim=1, keepdim=True)  # (batch, 1, d_model)
        return torch.tanh(self.target_table[tgt_ids] + memory) @ self.output
