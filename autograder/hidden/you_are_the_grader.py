"""Hidden cases on finding mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from autograder.hidden.training import sentences, tiny_training
from course_lib.checking.inputs import CausalTable
from course_lib.exercises import you_are_the_grader

BOS = 1


@hidden(you_are_the_grader.next_token_loss)
def next_token_loss(draw: Draw) -> list[Case]:
    """Rows of different lengths with padding after them, and a real token 0 where 0 is not the padding."""

    def case(vocab: int, time: int, pad_id: int, *lengths: int) -> Case:
        ids = torch.full((len(lengths), time), pad_id)
        for row, length in enumerate(lengths):
            ids[row, :length] = draw.ids(length, vocab=vocab, without=[pad_id])
        if pad_id:
            ids[0, draw.integer(1, lengths[0] - 1)] = 0
        model = CausalTable(draw.normal(vocab), draw.normal(2, vocab, vocab))
        return {"model": model, "ids": ids, "pad_id": pad_id}

    return [
        case(*draw.sizes((6, 8), (4, 5)), 0, 4, draw.integer(2, 3)),
        case(draw.integer(7, 9), 6, draw.integer(2, 5), 6, *draw.shuffled([draw.integer(3, 5), 2])),
    ]


@hidden(you_are_the_grader.causal_heads)
def causal_heads(draw: Draw) -> list[Case]:
    """Always several sequences, several positions and several heads of several features."""

    def case(batch: int, time: int, num_heads: int, d_k: int, dtype: torch.dtype = torch.float64) -> Case:
        q, k, v = (draw.normal(batch, time, num_heads * d_k, dtype=dtype) for _ in range(3))
        return {"q": q, "k": k, "v": v, "num_heads": num_heads}

    return [
        case(2, draw.integer(4, 5), 3, draw.choice([2, 7])),
        case(3, draw.integer(5, 7), 2, draw.choice([3, 4]), torch.float32),
    ]


@hidden(you_are_the_grader.dropout)
def dropout(draw: Draw) -> list[Case]:
    """In each, something is dropped and something kept, and not the whole row."""

    def noise(p: float, *shape: int) -> Tensor:
        kept = draw.mask(*shape)
        far = torch.tensor(draw.number(0.3, 0.9))  # of the way from p to the end
        return torch.where(kept, p + (1 - p) * far, p * (1 - far)).double()

    def case(p: float, training: bool, *shape: int) -> dict[str, Any]:
        return {"x": draw.normal(*shape), "noise": noise(p, *shape), "p": p, "training": training}

    return [
        case(draw.choice([0.1, 0.25]), True, *draw.sizes((3, 5), (4, 7))),
        case(draw.choice([0.6, 0.75]), False, 2, *draw.sizes((3, 5), (4, 7))),
    ]


@hidden(you_are_the_grader.perplexity)
def perplexity(draw: Draw) -> list[Case]:
    """Batches with different numbers of sentences, of real targets and of padding."""

    def batch(vocab: int, pad_id: int, source: int, width: int, *lengths: int) -> tuple[Tensor, Tensor]:
        ids = draw.ids(len(lengths), source, vocab=vocab, without=[pad_id])
        return ids, sentences(draw, vocab, pad_id, width, *lengths)

    small, large = draw.sizes((6, 7), (8, 10))
    pad_id = draw.integer(3, 7)
    second = batch(large, pad_id, 2, 3, *draw.shuffled([1, 3, 2]))
    second[1][second[1] == 2] = 0  # a word here, the padding elsewhere
    return [
        {
            "model": tiny_training(draw, small, draw.integer(3, 4)),
            "batches": [batch(small, 0, 1, 4, 4, 1), batch(small, 0, 2, 3, 2)],
            "bos_id": BOS,
            "pad_id": 0,
        },
        {
            "model": tiny_training(draw, large, 2),
            "batches": [
                batch(large, pad_id, draw.integer(2, 3), 2, 2),
                second,
                batch(large, pad_id, 4, 5, 5, draw.integer(2, 4)),
            ],
            "bos_id": BOS,
            "pad_id": pad_id,
        },
    ]
