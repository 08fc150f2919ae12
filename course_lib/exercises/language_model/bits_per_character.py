"""The exercise `bits_per_character`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.bits_per_character,
    cases=[{"log_probabilities": torch.tensor([0.5, 0.25]).double().log(), "lengths": torch.tensor([1, 2])}],
    minutes=5,
    difficulty=1,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
