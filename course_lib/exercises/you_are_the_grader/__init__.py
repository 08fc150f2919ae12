"""Exercises on testing: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.you_are_the_grader.accepts_causal_mask import accepts_causal_mask

__all__ = [
    "accepts_causal_mask",
]
