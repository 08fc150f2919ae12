"""Exercises on multi head attention: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.multi_head_attention.split_heads import split_heads
from course_lib.exercises.multi_head_attention.merge_heads import merge_heads
from course_lib.exercises.multi_head_attention.multi_head_parameters import multi_head_parameters
from course_lib.exercises.multi_head_attention.multi_head_attention import multi_head_attention
from course_lib.exercises.multi_head_attention.multi_head_einsum import multi_head_einsum
from course_lib.exercises.multi_head_attention.grouped_query_attention import grouped_query_attention

__all__ = [
    "split_heads",
    "merge_heads",
    "multi_head_parameters",
    "multi_head_attention",
    "multi_head_einsum",
    "grouped_query_attention",
]
