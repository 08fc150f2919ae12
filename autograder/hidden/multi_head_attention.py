"""Hidden cases on multi-head attention."""

from __future__ import annotations

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import multi_head_attention as exercises
from course_lib.exercises.multi_head_attention.multi_head_attention import partial_mask
from course_lib.exercises.multi_head_attention.multi_head_einsum import matrices

Hidden(
    exercises.split_heads,
    points=1,
    cases=[
        {"x": normal(3, 2, 8, seed=101), "num_heads": 2},
        {"x": normal(2, 7, 15, seed=102), "num_heads": 5},
        {"x": normal(1, 6, 20, seed=103), "num_heads": 4},
    ],
)

Hidden(
    exercises.merge_heads,
    points=1,
    cases=[
        {"x": normal(3, 4, 2, 5, seed=111)},
        {"x": normal(1, 2, 7, 3, seed=112)},
        {"x": normal(4, 6, 3, 2, seed=113)},
    ],
)

Hidden(
    exercises.multi_head_parameters,
    points=1,
    cases=[
        {"d_model": 8, "num_heads": 4, "bias": True},
        {"d_model": 512, "num_heads": 8, "bias": True},
        {"d_model": 30, "num_heads": 3, "bias": True},
    ],
)

Hidden(
    exercises.multi_head_attention,
    points=2,
    cases=[
        {
            "d_model": 28,
            "num_heads": 4,
            "dropout": 0.35,
            "query": normal(2, 3, 28, seed=121),
            "key": normal(2, 6, 28, seed=122),
            "value": normal(2, 6, 28, seed=123),
            "mask": partial_mask(2, 3, 6, seed=124),
        },
        {
            "d_model": 12,
            "num_heads": 2,
            "dropout": 0.6,
            "query": normal(3, 5, 12, seed=125, scale=2),
            "key": normal(3, 4, 12, seed=126),
            "value": normal(3, 4, 12, seed=127),
            "mask": partial_mask(5, 4, seed=128),
        },
        {
            "d_model": 25,
            "num_heads": 5,
            "dropout": 0.25,
            "query": normal(2, 4, 25, seed=129),
            "key": normal(2, 3, 25, seed=130),
            "value": normal(2, 3, 25, seed=131),
            "mask": None,
        },
    ],
)

Hidden(
    exercises.multi_head_einsum,
    points=1,
    cases=[
        {"x": normal(2, 7, 6, seed=141), **matrices(6, 142), "num_heads": 3},
        {"x": normal(3, 4, 20, seed=151), **matrices(20, 152), "num_heads": 5},
    ],
)

Hidden(
    exercises.grouped_query_attention,
    points=1,
    cases=[
        {"q": normal(2, 4, 3, 6, seed=161), "k": normal(2, 2, 5, 6, seed=162), "v": normal(2, 2, 5, 4, seed=163)},
        {"q": normal(1, 9, 4, 2, seed=164), "k": normal(1, 3, 6, 2, seed=165), "v": normal(1, 3, 6, 5, seed=166)},
    ],
)
