"""Exercises on positions: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.positions.sinusoidal_encoding import sinusoidal_encoding
from course_lib.exercises.positions.shift_matrix import shift_matrix
from course_lib.exercises.positions.positional_encoding import positional_encoding
from course_lib.exercises.positions.learned_positions import learned_positions
from course_lib.exercises.positions.apply_rope import apply_rope
from course_lib.exercises.positions.alibi_bias import alibi_bias

__all__ = [
    "sinusoidal_encoding",
    "shift_matrix",
    "positional_encoding",
    "learned_positions",
    "apply_rope",
    "alibi_bias",
]
