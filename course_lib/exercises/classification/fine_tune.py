"""The exercise `fine_tune`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

fine_tune = Exercise(
    classification.fine_tune,
    cases=[{"model": None, "num_classes": 3, "body_rate": 0.01, "head_rate": 0.1, "frozen_layers": 1}],
    minutes=15,
    difficulty=2,
    hints=["to be written", "to be written", "to be written"],
)


@fine_tune.property("it answers", points=4)
def answers(subject, case):
    pass
