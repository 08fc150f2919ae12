"""Hidden cases on the warm-ups."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import start_here

Hidden(
    start_here.softmax,
    points=1,
    cases=[
        {"x": normal(5, 2, seed=31), "dim": 0},
        {"x": normal(4, 4, seed=32, scale=2), "dim": -1},
        {"x": normal(2, 5, 3, 4, seed=33, scale=3), "dim": 2},
        {"x": normal(3, 2, 4, seed=34), "dim": -3},
    ],
)

Hidden(
    start_here.squared_distances,
    points=1,
    cases=[
        {"a": normal(2, 5, 3, seed=41), "b": normal(2, 4, 3, seed=42)},
        {"a": normal(3, 3, 5, seed=43, scale=3), "b": normal(3, 3, 5, seed=44, scale=3)},
        {"a": normal(4, 1, 2, seed=45), "b": normal(4, 6, 2, seed=46)},
    ],
)

Hidden(
    start_here.batch_matmul,
    points=1,
    cases=[
        {"a": normal(2, 5, 3, seed=51), "b": normal(2, 3, 4, seed=52)},
        {"a": normal(4, 3, 3, seed=53, scale=3), "b": normal(4, 3, 3, seed=54, scale=3)},
        {"a": normal(3, 1, 6, seed=55), "b": normal(3, 6, 2, seed=56)},
    ],
)

Hidden(
    start_here.pad_batch,
    points=1,
    cases=[
        {
            "sequences": [torch.tensor([7, 3]), torch.tensor([3, 8, 3, 6, 7, 5]), torch.tensor([4])],
            "pad_id": 3,
            "max_len": None,
        },
        {
            "sequences": [torch.tensor([1, 2, 6, 4, 5]), torch.tensor([9, 8]), torch.tensor([5, 5, 7, 1])],
            "pad_id": 2,
            "max_len": 4,
        },
        {
            "sequences": [torch.tensor([6, 0, 2]), torch.tensor([4])],
            "pad_id": 9,
            "max_len": 7,
        },
    ],
)
