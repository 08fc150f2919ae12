"""Hidden cases on multi-head attention."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import multi_head_attention as exercises


@hidden(exercises.split_heads)
def split_heads(draw: Draw) -> list[Case]:
    def case(batch: int, time: int, heads: int, d_k: int, dtype: torch.dtype = torch.float64) -> Case:
        return {"x": draw.normal(batch, time, heads * d_k, dtype=dtype), "num_heads": heads}

    return [
        case(3, *draw.sizes((2, 2), (4, 5), (3, 6))),
        case(*draw.sizes((2, 7), (2, 7), (2, 7), (2, 7))),
        case(1, *draw.sizes((4, 7), (2, 5), (2, 7)), dtype=torch.float32),
        case(2, 2, *draw.sizes((3, 5), (4, 6))),
    ]


@hidden(exercises.merge_heads)
def merge_heads(draw: Draw) -> list[Case]:
    return [
        {"x": draw.normal(*draw.sizes((2, 6), (2, 6), (2, 6), (2, 6)))},
        {"x": draw.normal(1, *draw.sizes((2, 4), (5, 8), (3, 6)))},
        {"x": draw.normal(4, *draw.sizes((5, 7), (3, 4), (2, 5)), dtype=torch.float32)},
        {"x": draw.normal(2, *draw.sizes((3, 5), (2, 6)), 1)},
    ]


@hidden(exercises.multi_head_parameters)
def multi_head_parameters(draw: Draw) -> list[Case]:
    shapes = [draw.sizes((2, 5), (2, 6)), draw.sizes((8, 16), (32, 128)), draw.sizes((3, 7), (8, 20))]
    return [{"d_model": heads * d_k, "num_heads": heads, "bias": True} for heads, d_k in shapes]


@hidden(exercises.multi_head_attention)
def multi_head_attention(draw: Draw) -> list[Case]:
    # d_k is 4 or more: the (3, d_model) matrix of one head has as many numbers as three biases, and is taken for them.
    def case(heads: int, d_k: int, batch: int, queries: int, keys: int, mask: Tensor | None, scale: float) -> Case:
        d_model = heads * d_k
        return {
            "d_model": d_model,
            "num_heads": heads,
            "dropout": draw.number(0.2, 0.7),
            "query": draw.normal(batch, queries, d_model, scale=scale),
            "key": draw.normal(batch, keys, d_model, scale=scale),
            "value": draw.normal(batch, keys, d_model),
            "mask": mask,
        }

    heads, batch, queries, keys, d_k = draw.sizes((2, 4), (2, 3), (3, 5), (4, 7), (5, 7))
    return [
        case(heads, d_k, batch, queries, keys, draw.mask(batch, queries, keys), 1),
        case(2, d_k, 3, keys, queries, draw.mask(keys, queries), 2),
        case(5, draw.integer(4, 6), 2, queries, keys, None, 1),
        case(heads + 1, 4, 2, queries, keys, draw.mask(2, queries, keys), 40),  # scores beyond 1000
    ]


@hidden(exercises.multi_head_einsum)
def multi_head_einsum(draw: Draw) -> list[Case]:
    def case(batch: int, time: int, heads: int, d_k: int, scale: float = 1.0) -> Case:
        d_model = heads * d_k
        matrices = {name: draw.normal(d_model, d_model, scale=0.5) for name in ("w_q", "w_k", "w_v", "w_o")}
        return {"x": draw.normal(batch, time, d_model, scale=scale), **matrices, "num_heads": heads}

    return [
        case(2, *draw.sizes((5, 8), (3, 4), (2, 3))),
        case(*draw.sizes((2, 4), (3, 6), (3, 5), (3, 6))),
        case(2, *draw.sizes((4, 6), (2, 3), (2, 4)), scale=40),  # scores beyond 1000
    ]


@hidden(exercises.grouped_query_attention)
def grouped_query_attention(draw: Draw) -> list[Case]:
    def case(batch: int, groups: int, share: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Case:
        queries, keys, d_k, d_v = draw.sizes((2, 7), (2, 7), (5, 8), (2, 7))
        return {
            "q": draw.normal(batch, groups * share, queries, d_k, scale=scale, dtype=dtype),
            "k": draw.normal(batch, groups, keys, d_k, scale=scale, dtype=dtype),
            "v": draw.normal(batch, groups, keys, d_v, dtype=dtype),
        }

    return [
        case(2, 2, 2),
        case(1, 3, draw.integer(2, 3)),
        case(3, draw.integer(2, 4), 3, dtype=torch.float32),
        case(2, 2, draw.integer(2, 3), scale=50),  # scores beyond 1000
    ]
