"""Exercises on dot product attention: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.dot_product_attention.soft_lookup import soft_lookup
from course_lib.exercises.dot_product_attention.self_attention import self_attention
from course_lib.exercises.dot_product_attention.batched_self_attention import batched_self_attention
from course_lib.exercises.dot_product_attention.attention_scores import attention_scores
from course_lib.exercises.dot_product_attention.scaled_dot_product_attention import scaled_dot_product_attention
from course_lib.exercises.dot_product_attention.project_qkv import project_qkv
from course_lib.exercises.dot_product_attention.attention_cost import attention_cost

__all__ = [
    "soft_lookup",
    "self_attention",
    "batched_self_attention",
    "attention_scores",
    "scaled_dot_product_attention",
    "project_qkv",
    "attention_cost",
]
