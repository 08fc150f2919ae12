"""Hidden cases on masks."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib import masks as reference
from course_lib.checking.inputs import normal, random_mask
from course_lib.exercises import masks

Hidden(
    masks.padding_mask,
    points=1,
    cases=[
        {"lengths": torch.tensor([1, 3, 2, 3]), "max_len": 3},
        {"lengths": torch.tensor([4, 7, 0, 2, 6]), "max_len": 9},
    ],
)

Hidden(masks.causal_mask, points=1, cases=[{"n": 2}, {"n": 5}, {"n": 33}])

Hidden(
    masks.decoder_mask,
    points=1,
    cases=[
        {"lengths": torch.tensor([1, 4, 2]), "n": 4},
        {"lengths": torch.tensor([3, 6, 1, 5, 2]), "n": 7},
        {"lengths": torch.tensor([2, 1, 3]), "n": 3},
    ],
)

Hidden(
    masks.cross_mask,
    points=1,
    cases=[
        {"key_lengths": torch.tensor([4, 1, 3]), "query_len": 2, "key_len": 5},
        {"key_lengths": torch.tensor([2, 7]), "query_len": 9, "key_len": 7},
    ],
)

Hidden(
    masks.masked_softmax,
    points=2,
    cases=[
        {
            "scores": normal(2, 3, 4, 5, seed=51, scale=2),
            "mask": random_mask(2, 1, 4, 5, seed=52) & torch.tensor([1, 0, 1, 1]).bool()[:, None],
        },
        {
            "scores": torch.tensor([[-400.0, -402.0, 500.0, -400.5], [5.0, 6.0, 7.0, 8.0]]).double(),
            "mask": torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0]]).bool(),
        },
        {
            "scores": torch.tensor([[1200.0, 1201.0, -900.0], [0.5, 0.1, -0.4]]).double(),
            "mask": torch.tensor([[1, 1, 0], [1, 0, 1]]).bool(),
        },
    ],
)

Hidden(
    masks.masked_attention,
    points=2,
    cases=[
        {
            "q": normal(3, 2, 4, 8, seed=21),
            "k": normal(3, 2, 7, 8, seed=22),
            "v": normal(3, 2, 7, 5, seed=23),
            "mask": random_mask(3, 1, 4, 7, seed=24),
        },
        {
            "q": normal(2, 6, 3, seed=25, scale=5),
            "k": normal(2, 6, 3, seed=26, scale=5),
            "v": normal(2, 6, 4, seed=27),
            "mask": reference.causal_mask(6),
        },
    ],
)

Hidden(
    masks.additive_mask,
    points=1,
    cases=[{"mask": reference.causal_mask(4)}, {"mask": random_mask(3, 2, 5, seed=61)}],
)

Hidden(
    masks.window_mask,
    points=1,
    cases=[{"n": 6, "radius": 1}, {"n": 9, "radius": 3}, {"n": 5, "radius": 0}, {"n": 10, "radius": 4}],
)
