"""The exercise `fit_power_law`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.fit_power_law,
    cases=[{"sizes": torch.tensor([1.0, 10.0, 100.0]).double(), "losses": torch.tensor([4.0, 2.0, 1.0]).double()}],
    minutes=8,
    difficulty=2,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
