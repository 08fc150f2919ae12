"""Exercises on training: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.training.shift_right import shift_right
from course_lib.exercises.training.sequence_loss import sequence_loss
from course_lib.exercises.training.smoothed_loss import smoothed_loss
from course_lib.exercises.training.warmup_rate import warmup_rate
from course_lib.exercises.training.train_step import train_step
from course_lib.exercises.training.accumulate_gradients import accumulate_gradients

__all__ = [
    "shift_right",
    "sequence_loss",
    "smoothed_loss",
    "warmup_rate",
    "train_step",
    "accumulate_gradients",
]
