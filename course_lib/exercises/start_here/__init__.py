"""Warm-up exercises: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.start_here.softmax import softmax
from course_lib.exercises.start_here.squared_distances import squared_distances
from course_lib.exercises.start_here.batch_matmul import batch_matmul
from course_lib.exercises.start_here.pad_batch import pad_batch

__all__ = ["softmax", "squared_distances", "batch_matmul", "pad_batch"]
