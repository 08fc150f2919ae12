"""Hidden cases on dot-product attention."""

from __future__ import annotations

import torch

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import dot_product_attention


@hidden(dot_product_attention.soft_lookup, by_chance=True)
def soft_lookup(draw: Draw) -> list[Case]:
    """By chance: one key has to stand out."""

    def case(d: int, n: int, d_v: int, scale: float) -> Case:
        query, keys = draw.normal(d, scale=scale), draw.normal(n, d, scale=scale)
        return {"query": query, "keys": keys, "values": draw.normal(n, d_v)}

    square = draw.integer(3, 4)
    return [case(*draw.sizes((2, 6), (3, 8), (2, 6)), scale=1.0), case(2, 5, 4, scale=3), case(square, square, 2, 1.5)]


@hidden(dot_product_attention.self_attention)
def self_attention(draw: Draw) -> list[Case]:
    return [
        {"x": draw.normal(2, draw.integer(3, 5))},
        {"x": draw.normal(*draw.sizes((5, 8), (3, 7)), scale=0.6)},
        {"x": draw.normal(draw.integer(12, 20), 3)},
        {"x": draw.normal(draw.integer(4, 6), 2, dtype=torch.float32)},
    ]


@hidden(dot_product_attention.batched_self_attention)
def batched_self_attention(draw: Draw) -> list[Case]:
    same = draw.integer(3, 5)
    return [
        {"x": draw.normal(*draw.sizes((2, 5), (4, 7), (2, 6)))},
        {"x": draw.normal(5, 2, draw.integer(6, 8), scale=0.6)},
        {"x": draw.normal(same, same, same, scale=0.7)},
        {"x": draw.normal(1, *draw.sizes((5, 8), (2, 4)), dtype=torch.float32)},
    ]


@hidden(dot_product_attention.attention_scores)
def attention_scores(draw: Draw) -> list[Case]:
    n, m, d = draw.sizes((4, 8), (3, 7), (5, 7))  # with d = 4, a mistaken factor of d / 2 would be √d
    first, second, third = draw.sizes((2, 4), (2, 4), (2, 4))
    return [
        {"q": draw.normal(n, d), "k": draw.normal(m, d)},
        {"q": draw.normal(first, second, n, d, scale=3), "k": draw.normal(first, second, m, d, scale=3)},
        {
            "q": draw.normal(first, second, third, 1, d, dtype=torch.float32),
            "k": draw.normal(first, second, third, m, d, dtype=torch.float32),
        },
        {"q": draw.normal(second, n, d), "k": draw.normal(second, n, d)},
    ]


@hidden(dot_product_attention.scaled_dot_product_attention)
def scaled_dot_product_attention(draw: Draw) -> list[Case]:
    def case(*leading: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Case:
        n, m, d, d_v = draw.sizes((2, 7), (2, 7), (5, 8), (2, 7))
        return {
            "q": draw.normal(*leading, n, d, scale=scale, dtype=dtype),
            "k": draw.normal(*leading, m, d, scale=scale, dtype=dtype),
            "v": draw.normal(*leading, m, d_v, dtype=dtype),
        }

    return [case(), case(*draw.sizes((2, 4), (2, 4)), scale=2), case(2, 1, 3), case(3, dtype=torch.float32)]


@hidden(dot_product_attention.project_qkv)
def project_qkv(draw: Draw) -> list[Case]:
    def case(*leading: int, dtype: torch.dtype = torch.float64, wide_values: bool = False) -> Case:
        n, d, d_k, d_v = draw.sizes((2, 7), (2, 7), (2, 7), (2, 7))
        if wide_values:  # only then do three equal parts always cut elsewhere
            d_k, d_v = sorted((d_k, d_v))
        return {
            "x": draw.normal(*leading, n, d, dtype=dtype),
            "w_q": draw.normal(d, d_k, dtype=dtype),
            "w_k": draw.normal(d, d_k, dtype=dtype),
            "w_v": draw.normal(d, d_v, dtype=dtype),
        }

    square = draw.integer(3, 5)
    matrices = {name: draw.normal(square, square) for name in ("w_q", "w_k", "w_v")}
    return [
        case(),
        case(*draw.sizes((2, 4), (2, 4)), wide_values=True),
        case(1, dtype=torch.float32),
        {"x": draw.normal(2, square + 1, square), **matrices},
    ]


@hidden(dot_product_attention.attention_cost)
def attention_cost(draw: Draw) -> list[Case]:
    pairs = [draw.sizes((2, 9), (2, 9)), draw.sizes((10, 99), (3, 30)), draw.sizes((1000, 9000), (256, 999))]
    return [{"n": n, "d": d} for n, d in pairs]
