"""Hidden cases on sub-layers."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import sublayers as exercises
from course_lib.exercises.sublayers.masked_batch_statistics import real_positions
from course_lib.exercises.sublayers.shared import residual_case

Hidden(
    exercises.token_embedding,
    points=1,
    cases=[
        {"vocab_size": 9, "d_model": 16, "pad_id": 2, "ids": torch.tensor([[8, 2, 2], [1, 0, 3]])},
        {
            "vocab_size": 13,
            "d_model": 5,
            "pad_id": 12,
            "ids": torch.tensor([[0, 0, 11, 4, 12, 12], [5, 6, 7, 8, 9, 10]]),
        },
    ],
)

Hidden(
    exercises.feed_forward,
    points=1,
    cases=[
        {"d_model": 8, "d_ff": 6, "dropout": 0.35, "x": normal(3, 5, 8, seed=131)},
        {"d_model": 5, "d_ff": 11, "dropout": 0.2, "x": normal(2, 3, 5, seed=132, scale=2)},
    ],
)

Hidden(
    exercises.layer_norm,
    points=1,
    cases=[
        {"d_model": 6, "eps": 0.2, "x": normal(3, 4, 6, seed=141, scale=2) - 1.0},
        {"d_model": 8, "eps": 0.02, "x": normal(4, 3, 2, 8, seed=142, scale=0.1)},
        {"d_model": 3, "eps": 0.05, "x": torch.tensor([[5.0, 5.0, 5.0], [-1.0, 0.5, 0.0]]).double()},
    ],
)

Hidden(
    exercises.rms_norm,
    points=1,
    cases=[
        {"d_model": 6, "eps": 0.2, "x": normal(3, 4, 6, seed=151, scale=2) - 1.0},
        {"d_model": 8, "eps": 0.02, "x": normal(4, 3, 2, 8, seed=152, scale=0.1)},
        {"d_model": 3, "eps": 0.05, "x": torch.tensor([[0.0, 0.0, 0.0], [-1.0, 0.5, 0.0]]).double()},
    ],
)

Hidden(
    exercises.masked_batch_statistics,
    points=1,
    cases=[
        {"x": normal(4, 6, 3, seed=161) + 3.0, "mask": real_positions(2, 6, 1, 4)},
        {"x": normal(3, 7, 2, seed=162, scale=2), "mask": real_positions(7, 3, 5).flip(1)},
    ],
)

Hidden(
    exercises.residual_post_norm,
    points=1,
    cases=[residual_case(3, 5, seed=171), residual_case(2, 5, 4, 3, seed=176, scale=0.5)],
)

Hidden(
    exercises.residual_pre_norm,
    points=1,
    cases=[residual_case(3, 5, seed=181), residual_case(2, 5, 4, 3, seed=186, scale=0.5)],
)
