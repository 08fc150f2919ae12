"""Hidden cases on masks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib import masks as reference
from course_lib.exercises import masks


@hidden(masks.padding_mask)
def padding_mask(draw: Draw) -> list[Case]:
    batch, longest = draw.sizes((4, 6), (3, 8))
    return [
        {"lengths": draw.lengths(batch, longest), "max_len": longest},
        {"lengths": draw.lengths(batch + 1, longest, shortest=0), "max_len": longest + draw.integer(1, 3)},
        {"lengths": torch.tensor(draw.shuffled([0, 1, longest])), "max_len": longest},
        {"lengths": torch.tensor([draw.integer(3, 20)]), "max_len": draw.integer(21, 40)},
    ]


@hidden(masks.causal_mask)
def causal_mask(draw: Draw) -> list[Case]:
    return [{"n": 2}, {"n": draw.integer(3, 9)}, {"n": draw.integer(20, 60)}]


@hidden(masks.decoder_mask)
def decoder_mask(draw: Draw) -> list[Case]:
    batch, n = draw.sizes((2, 6), (4, 8))
    square = draw.integer(3, 5)
    return [
        {"lengths": draw.lengths(batch, n), "n": n},
        {"lengths": draw.lengths(batch + 1, n), "n": n + draw.integer(1, 3)},
        {"lengths": draw.lengths(square, square), "n": square},
        {"lengths": torch.tensor([1]), "n": draw.integer(2, 4)},
    ]


@hidden(masks.cross_mask)
def cross_mask(draw: Draw) -> list[Case]:
    batch, key_len = draw.sizes((2, 4), (4, 8))
    return [
        {"key_lengths": draw.lengths(batch, key_len), "query_len": 2, "key_len": key_len + 1},
        {"key_lengths": draw.lengths(2, key_len), "query_len": key_len + draw.integer(1, 4), "key_len": key_len},
        {"key_lengths": draw.lengths(key_len, key_len), "query_len": key_len, "key_len": key_len},
        {"key_lengths": draw.lengths(3, 5), "query_len": 1, "key_len": draw.integer(6, 30)},
    ]


@hidden(masks.masked_softmax)
def masked_softmax(draw: Draw) -> list[Case]:
    """Always among them: rows in which everything is hidden, scores near ±1000, hidden ones far above the allowed."""
    batch, heads, queries, keys = draw.sizes((2, 3), (2, 4), (3, 5), (4, 6))
    several = draw.mask(batch, 1, queries, keys)
    several[:, :, draw.integer(0, queries - 1)] = False
    low, high = draw.number(300, 500), draw.number(900, 1300)
    far = torch.tensor([[-low, -low - 2, low + 100, -low - 0.5], [5.0, 6.0, 7.0, 8.0], [-999.0, high, -1000.0, 3.0]])
    near = torch.tensor([[high, high + 1, -high], [0.5, 0.1, -0.4], [-high, -high - 1, 1 - high]])
    ordinary = draw.mask(2, queries, keys)
    ordinary[0, 0] = ordinary[1, -1] = False
    return [
        {"scores": draw.normal(batch, heads, queries, keys, scale=2), "mask": several},
        {"scores": far.double(), "mask": torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]]).bool()},
        {"scores": near.double(), "mask": torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1]]).bool()},
        {"scores": draw.normal(2, queries, keys, dtype=torch.float32), "mask": ordinary},
    ]


@hidden(masks.masked_attention)
def masked_attention(draw: Draw) -> list[Case]:
    def case(leading: list[int], mask_leading: list[int], dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        n, m, d, d_v = draw.sizes((2, 8), (2, 8), (2, 8), (2, 8))
        return {
            "q": draw.normal(*leading, n, d, dtype=dtype),
            "k": draw.normal(*leading, m, d, dtype=dtype),
            "v": draw.normal(*leading, m, d_v, dtype=dtype),
            "mask": draw.mask(*mask_leading, n, m),
        }

    batch, heads = draw.sizes((2, 4), (2, 4))
    n = draw.integer(5, 7)
    large = case([3], [3])  # scores near 1000 and near -1000, and a row in which everything is hidden
    _, queries, d_k = large["q"].shape
    large["q"][..., 0] = draw.number(28.1, 28.3) * math.sqrt(d_k) * (-1.0) ** torch.arange(queries)
    large["k"][..., 0] = 35.2
    large["mask"][1, 0] = False
    return [
        case([batch, heads], [batch, 1]),
        large,
        {
            "q": draw.normal(2, n, 3, scale=5),
            "k": draw.normal(2, n, 3, scale=5),
            "v": draw.normal(2, n, 4),
            "mask": reference.causal_mask(n),
        },
        case([2, batch, heads], [1, batch, 1]),
        case([heads], [heads], dtype=torch.float32),
    ]


@hidden(masks.additive_mask)
def additive_mask(draw: Draw) -> list[Case]:
    return [
        {"mask": reference.causal_mask(draw.integer(3, 9))},
        {"mask": draw.mask(*draw.sizes((2, 5), (2, 5), (3, 6)))},
        {"mask": draw.mask(draw.integer(4, 9))},
        {"mask": draw.mask(2, 1, *draw.sizes((3, 5), (3, 5)))},
    ]


@hidden(masks.window_mask)
def window_mask(draw: Draw) -> list[Case]:
    n = draw.integer(6, 9)
    return [
        {"n": n, "radius": 1},
        {"n": n + draw.integer(2, 4), "radius": draw.integer(2, 4)},
        {"n": draw.integer(4, 8), "radius": 0},
        {"n": n, "radius": n - 2},
        {"n": draw.integer(20, 40), "radius": draw.integer(5, 15)},
    ]
