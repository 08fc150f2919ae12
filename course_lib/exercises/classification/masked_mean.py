"""The exercise `masked_mean`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

masked_mean = Exercise(
    classification.masked_mean,
    cases=[{"x": normal(2, 3, 4, seed=1), "real": torch.tensor([[True, True, False], [False, True, True]])}],
    minutes=8,
    difficulty=1,
    hints=["to be written", "to be written", "to be written"],
)


@masked_mean.property("it answers", points=4)
def answers(subject, case):
    pass
