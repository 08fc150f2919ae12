"""The exercise `GPT`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.GPT,
    cases=[{"vocab_size": 7, "d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 2, "ids": torch.tensor([[1, 2, 3]])}],
    minutes=15,
    difficulty=2,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject.build(*list(case.values())[:-1]) is not None, "None.")
