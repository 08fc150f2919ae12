"""The exercise `bpe_decode`."""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect


exercise = Exercise(
    language_model.bpe_decode,
    cases=[{"ids": [32, 257, 101, 114], "merges": [(108, 111), (256, 119)]}],
    minutes=6,
    difficulty=2,
    hints=["One.", "Two.", "Three."],
)


@exercise.property("there is an answer", points=6)
def answers(subject, case):
    expect(subject(*case.values()) is not None, "None.")
