"""The exercise `generate`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect
from course_lib.checking.inputs import NextTokenTable

exercise = Exercise(
    language_model.generate,
    cases=[{"model": NextTokenTable(torch.zeros(1, 3), torch.zeros(1, 3, 3)), "prompt": torch.tensor([1]), "new_tokens": 0, "temperature": 1.0, "top_k": 2, "draws": torch.zeros(0), "max_len": 4}],
    minutes=12,
    difficulty=2,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
