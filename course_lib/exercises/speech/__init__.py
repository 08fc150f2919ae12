"""Exercises on speech: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.speech.frames import framing

__all__ = [
    "framing",
]
