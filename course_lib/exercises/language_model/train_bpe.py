"""The exercise `train_bpe`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.train_bpe,
    cases=[{"counts": {" low": 5, " lower": 2, " new": 6}, "num_merges": 4}],
    minutes=15,
    difficulty=3,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
