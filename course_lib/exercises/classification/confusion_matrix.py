"""The exercise `confusion_matrix`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

confusion_matrix = Exercise(
    classification.confusion_matrix,
    cases=[{"predicted": torch.tensor([0, 1, 1]), "actual": torch.tensor([0, 1, 2]), "num_classes": 3}],
    minutes=8,
    difficulty=1,
    hints=["to be written", "to be written", "to be written"],
)


@confusion_matrix.property("it answers", points=4)
def answers(subject, case):
    pass
