"""The exercise `text_windows`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.text_windows,
    cases=[{"ids": torch.arange(10, 22), "starts": torch.tensor([0, 3]), "length": 4}],
    minutes=5,
    difficulty=1,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
