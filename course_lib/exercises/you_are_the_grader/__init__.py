"""Exercises on finding mistakes: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.you_are_the_grader.next_token_loss import next_token_loss
from course_lib.exercises.you_are_the_grader.causal_heads import causal_heads
from course_lib.exercises.you_are_the_grader.dropout import dropout
from course_lib.exercises.you_are_the_grader.perplexity import perplexity

__all__ = [
    "next_token_loss",
    "causal_heads",
    "dropout",
    "perplexity",
]
