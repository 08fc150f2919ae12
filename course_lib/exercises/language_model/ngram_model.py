"""The exercise `ngram_model`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.ngram_model,
    cases=[{"ids": torch.tensor([0, 1, 2, 0, 1, 1]), "n": 2, "vocab_size": 3, "smoothing": 0.5}],
    minutes=10,
    difficulty=2,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
