"""The exercise `mask_tokens`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

mask_tokens = Exercise(
    classification.mask_tokens,
    cases=[
        {
            "ids": torch.tensor([[5, 6]]),
            "may_be_chosen": torch.tensor([[True, True]]),
            "choice": torch.tensor([[0.1, 0.5]]),
            "action": torch.tensor([[0.1, 0.5]]),
            "random_ids": torch.tensor([[7, 8]]),
            "mask_id": 3,
        }
    ],
    minutes=12,
    difficulty=2,
    hints=["to be written", "to be written", "to be written"],
)


@mask_tokens.property("it answers", points=4)
def answers(subject, case):
    pass
