"""The exercise `SequenceClassifier`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

sequence_classifier = Exercise(
    classification.SequenceClassifier,
    cases=[
        {
            "vocab_size": 7,
            "num_classes": 3,
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 8,
            "num_layers": 1,
            "max_len": 5,
            "pad_id": 0,
            "ids": torch.tensor([[3, 6, 2], [4, 1, 0]]),
        }
    ],
    minutes=15,
    difficulty=2,
    hints=["to be written", "to be written", "to be written"],
)


@sequence_classifier.property("it answers", points=4)
def answers(subject, case):
    pass
