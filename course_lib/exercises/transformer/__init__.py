"""Exercises on transformer: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.transformer.transformer import transformer
from course_lib.exercises.transformer.transformer_parameters import transformer_parameters
from course_lib.exercises.transformer.torch_state import torch_state
from course_lib.exercises.transformer.find_the_leak import find_the_leak
from course_lib.exercises.transformer.subsampled_lengths import subsampled_lengths

__all__ = ["transformer", "transformer_parameters", "torch_state", "find_the_leak", "subsampled_lengths"]
