"""The exercise `masked_lm_loss`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

masked_lm_loss = Exercise(
    classification.masked_lm_loss,
    cases=[{"logits": normal(1, 2, 3, seed=1), "targets": torch.tensor([[2, -100]])}],
    minutes=10,
    difficulty=2,
    hints=["to be written", "to be written", "to be written"],
)


@masked_lm_loss.property("it answers", points=4)
def answers(subject, case):
    pass
