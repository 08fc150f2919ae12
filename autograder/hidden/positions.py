"""Hidden cases on positions."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import positions

Hidden(
    positions.sinusoidal_encoding,
    points=1,
    cases=[{"n": 6, "d_model": 4}, {"n": 9, "d_model": 5}, {"n": 48, "d_model": 20}],
)

Hidden(
    positions.positional_encoding,
    points=1,
    cases=[
        {"d_model": 10, "max_len": 12, "x": normal(3, 5, 10, seed=101).float()},
        {"d_model": 7, "max_len": 6, "x": normal(2, 6, 7, seed=102).float()},
        {"d_model": 4, "max_len": 40, "x": normal(5, 9, 4, seed=103)},
    ],
)

Hidden(
    positions.shift_matrix,
    points=1,
    cases=[{"k": 5, "d_model": 6}, {"k": -1, "d_model": 4}, {"k": 9, "d_model": 12}],
)

Hidden(
    positions.learned_positions,
    points=1,
    cases=[
        {"max_len": 8, "d_model": 6, "x": normal(2, 5, 6, seed=104), "table": normal(8, 6, seed=105)},
        {"max_len": 7, "d_model": 5, "x": normal(4, 7, 5, seed=106), "table": normal(7, 5, seed=107)},
        {"max_len": 6, "d_model": 9, "x": normal(3, 2, 9, seed=108), "table": normal(6, 9, seed=109)},
    ],
)

Hidden(
    positions.apply_rope,
    points=2,
    cases=[
        {"x": normal(4, 6, seed=110), "positions": torch.tensor([5, 1, 2, 9])},
        {"x": normal(3, 2, 4, 10, seed=111), "positions": torch.tensor([3, 4, 5, 6])},
    ],
)

Hidden(
    positions.alibi_bias,
    points=1,
    cases=[{"num_heads": 4, "n": 7}, {"num_heads": 6, "n": 4}, {"num_heads": 12, "n": 5}],
)
