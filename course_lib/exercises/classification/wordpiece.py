"""The exercise `wordpiece`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

wordpiece = Exercise(
    classification.wordpiece,
    cases=[{"word": "walking", "vocabulary": {"walk", "##ing"}}],
    minutes=15,
    difficulty=2,
    hints=["to be written", "to be written", "to be written"],
)


@wordpiece.property("it answers", points=4)
def answers(subject, case):
    pass
