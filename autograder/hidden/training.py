"""Hidden cases on training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.settings import TinyTraining
from course_lib.exercises import training

BOS, EOS = 1, 2


@hidden(training.shift_right)
def shift_right(draw: Draw) -> list[Case]:
    """Always among them: padding, EOS at the end and EOS before other tokens."""
    batch, time = draw.sizes((3, 5), (3, 7))
    ends_early = draw.ids(2, 5, vocab=10, without=[EOS])
    ends_early[0, 2:] = torch.tensor([EOS, 0, 0])
    ends_early[1, -2:] = EOS
    return [
        {"targets": ends_early, "bos_id": draw.integer(3, 9)},
        {"targets": draw.ids(batch, time, vocab=10), "bos_id": 0},
        {"targets": draw.ids(draw.integer(2, 4), 1, vocab=10), "bos_id": draw.integer(3, 9)},
        {"targets": draw.ids(1, draw.integer(8, 20), vocab=10), "bos_id": BOS},
    ]


def loss_cases(draw: Draw) -> list[dict[str, Any]]:
    """Each with padding between real targets, and rows with different numbers of real targets."""

    def case(batch: int, time: int, vocab: int, scale: float, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
        pad_id = draw.integer(0, vocab - 1)
        targets = draw.ids(batch, time, vocab=vocab, without=[pad_id])
        targets[0, draw.integer(0, time - 2)] = pad_id
        for row in range(2, batch):
            targets[row, draw.integer(1, time - 1) :] = pad_id
        return {
            "logits": draw.normal(batch, time, vocab, scale=scale, dtype=dtype),
            "targets": targets,
            "pad_id": pad_id,
        }

    return [
        case(2, *draw.sizes((3, 5), (4, 7)), scale=2),
        case(*draw.sizes((3, 5), (3, 6), (4, 8)), scale=1),
        case(*draw.sizes((3, 4), (3, 5), (5, 9)), scale=1, dtype=torch.float32),
    ]


@hidden(training.sequence_loss)
def sequence_loss(draw: Draw) -> list[Case]:
    return [*loss_cases(draw)]


@hidden(training.smoothed_loss)
def smoothed_loss(draw: Draw) -> list[Case]:
    return [{**case, "epsilon": draw.number(0.05, 0.45)} for case in loss_cases(draw)]


@hidden(training.warmup_rate)
def warmup_rate(draw: Draw) -> list[Case]:
    """During the warm-up, at its end, and after it."""
    early, late = draw.integer(2, 6), draw.integer(30, 90)
    warmup = draw.integer(3, 9)
    return [
        {"step": early, "d_model": draw.integer(8, 40), "warmup": early + draw.integer(2, 9)},
        {"step": late, "d_model": draw.integer(8, 40), "warmup": draw.integer(5, 20)},
        {"step": warmup, "d_model": draw.integer(5, 15), "warmup": warmup},
        {"step": draw.integer(5000, 90_000), "d_model": draw.choice([256, 768, 1024]), "warmup": 4000},
    ]


def tiny_training(draw: Draw, vocab: int, d_model: int, learning_rate: float | None = None) -> TinyTraining:
    weights = {
        "source_table": draw.normal(vocab, d_model),
        "target_table": draw.normal(vocab, d_model),
        "output": draw.normal(d_model, vocab),
        "output_bias": draw.normal(vocab),
    }
    return TinyTraining(weights, learning_rate)


def sentences(draw: Draw, vocab: int, pad_id: int, width: int, *lengths: int) -> Tensor:
    """Each ends with EOS; after it there is padding."""
    ids = torch.full((len(lengths), width), pad_id)
    for row, length in enumerate(lengths):
        ids[row, : length - 1] = draw.ids(length - 1, vocab=vocab, without=[BOS, EOS, pad_id])
        ids[row, length - 1] = EOS
    return ids


@hidden(training.train_step)
def train_step(draw: Draw) -> list[Case]:
    def case(vocab: int, d_model: int, pad_id: int, source: Tensor, targets: Tensor) -> Case:
        return {
            "model": tiny_training(draw, vocab, d_model, learning_rate=draw.choice([0.1, 0.2, 0.3, 0.4])),
            "source": source,
            "targets": targets,
            "bos_id": BOS,
            "pad_id": pad_id,
            "max_norm": draw.number(0.1, 0.2),
        }

    vocab, width = draw.sizes((7, 9), (3, 4))
    large, pad_id = draw.integer(9, 11), draw.integer(3, 8)
    return [
        case(
            vocab,
            draw.integer(3, 4),
            0,
            sentences(draw, vocab, 0, width + 1, width + 1, width - 1),
            sentences(draw, vocab, 0, width, width, draw.integer(1, width - 1)),
        ),
        case(
            large,
            2,
            pad_id,
            draw.ids(4, 2, vocab=large, without=[pad_id]),
            sentences(draw, large, pad_id, 5, *draw.shuffled([5, draw.integer(1, 4), 1, draw.integer(2, 4)])),
        ),
    ]


@hidden(training.accumulate_gradients)
def accumulate_gradients(draw: Draw) -> list[Case]:
    """Batches with different numbers of sentences and of real targets."""

    def batch(vocab: int, pad_id: int, source: int, width: int, *lengths: int) -> tuple[Tensor, Tensor]:
        ids = draw.ids(len(lengths), source, vocab=vocab, without=[pad_id])
        return ids, sentences(draw, vocab, pad_id, width, *lengths)

    small, large = draw.sizes((6, 7), (8, 10))
    pad_id = draw.integer(3, 7)
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
                batch(large, pad_id, 2, 3, *draw.shuffled([1, 3, 2])),
                batch(large, pad_id, 4, 5, 5, draw.integer(2, 4)),
                batch(large, pad_id, 1, 4, 1),
            ],
            "bos_id": BOS,
            "pad_id": pad_id,
        },
    ]
