"""Hidden cases on masks."""

from __future__ import annotations

from autograder.hidden import Hidden
from course_lib import masks as reference
from course_lib.checking.inputs import normal, random_mask
from course_lib.exercises import masks

Hidden(masks.causal_mask, points=1, cases=[{"n": 2}, {"n": 5}, {"n": 33}])

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
