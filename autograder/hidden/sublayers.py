"""Hidden cases on sub-layers."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.inputs import AffineMap, RowNorm
from course_lib.exercises import sublayers as exercises


@hidden(exercises.token_embedding)
def token_embedding(draw: Draw) -> list[Case]:
    def case(batch: int, time: int, vocab_size: int, d_model: int, pad_id: int) -> Case:
        ids = draw.ids(batch, time, vocab=vocab_size, without=[pad_id])
        ids[-1, -1] = pad_id
        return {"vocab_size": vocab_size, "d_model": d_model, "pad_id": pad_id, "ids": ids}

    batch, time, vocab_size, d_model = draw.sizes((2, 4), (3, 6), (8, 12), (12, 20))
    return [
        case(batch, time, vocab_size, d_model, draw.integer(1, vocab_size - 2)),
        case(2, time, vocab_size + 3, draw.integer(4, 6), vocab_size + 2),
        case(1, 2, draw.integer(4, 6), 9, 0),
    ]


@hidden(exercises.feed_forward)
def feed_forward(draw: Draw) -> list[Case]:
    def case(batch: int, time: int, d_model: int, d_ff: int, scale: float = 1.0) -> Case:
        x = draw.normal(batch, time, d_model, scale=scale)
        return {"d_model": d_model, "d_ff": d_ff, "dropout": draw.number(0.15, 0.6), "x": x}

    return [
        case(*draw.sizes((2, 4), (4, 6), (7, 9), (5, 8))),
        case(*draw.sizes((2, 4), (2, 5), (4, 6), (9, 14)), scale=2),
        case(2, 2, *draw.sizes((5, 8), (9, 12)), scale=2),
    ]


@hidden(exercises.layer_norm)
def layer_norm(draw: Draw) -> list[Case]:
    """Always among them: a position whose features are all equal."""
    return norm_cases(draw, flat=draw.number(1, 9))


@hidden(exercises.rms_norm)
def rms_norm(draw: Draw) -> list[Case]:
    """Always among them: a position whose features are all 0."""
    return norm_cases(draw, flat=0.0)


def norm_cases(draw: Draw, flat: float) -> list[Case]:
    d_model = draw.integer(6, 8)
    shift = draw.choice([-2.0, -1.0, 1.0, 2.0])
    with_flat = torch.tensor([[flat, flat, flat], [-1.0, 0.5, 0.0]]).double()
    return [
        {"d_model": d_model, "eps": draw.number(0.1, 0.4), "x": draw.normal(3, 4, d_model, scale=2) + shift},
        {"d_model": 8, "eps": 0.02, "x": draw.normal(*draw.sizes((2, 4), (2, 4), (2, 4)), 8, scale=0.1)},
        {"d_model": 3, "eps": draw.number(0.02, 0.1), "x": with_flat},
        {"d_model": 5, "eps": 1e-3, "x": draw.normal(draw.integer(2, 4), 5, scale=30)},
    ]


@hidden(exercises.masked_batch_statistics)
def masked_batch_statistics(draw: Draw) -> list[Case]:
    def real(lengths: Tensor, width: int) -> Tensor:
        return torch.arange(width) < lengths[:, None]

    batch, time, d_model = draw.sizes((3, 5), (5, 8), (2, 4))
    return [
        {"x": draw.normal(batch, time, d_model) + 3.0, "mask": real(draw.lengths(batch, time), time)},
        {"x": draw.normal(3, time, 2, scale=2) - 1.0, "mask": real(draw.lengths(3, time), time).flip(1)},
        {"x": draw.normal(2, time, d_model + 1), "mask": draw.mask(2, time)},
        {"x": draw.normal(2, 9, 3) + 1.0, "mask": real(torch.tensor([1, draw.integer(5, 8)]), 9)},
    ]


def residual_case(draw: Draw, *shape: int, scale: float = 1.0) -> Case:
    d_model = shape[-1]
    return {
        "x": draw.normal(*shape, scale=scale) + 0.5,
        "sublayer": AffineMap(draw.normal(d_model, d_model, scale=0.7), draw.normal(d_model)),
        "norm": RowNorm(draw.normal(d_model) + 1.5, draw.normal(d_model)),
    }


def residual_cases(draw: Draw) -> list[Case]:
    return [
        residual_case(draw, *draw.sizes((2, 4), (5, 7))),
        residual_case(draw, *draw.sizes((2, 4), (5, 6), (3, 6), (3, 4)), scale=0.5),
        residual_case(draw, 1, 1, draw.integer(4, 6), scale=2),
    ]


hidden(exercises.residual_post_norm)(residual_cases)
hidden(exercises.residual_pre_norm)(residual_cases)
