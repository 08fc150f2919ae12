"""Exercises on decoding: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.decoding.greedy_decode import greedy
from course_lib.exercises.decoding.beam_search import beam
from course_lib.exercises.decoding.sample import sampling
from course_lib.exercises.decoding.top_k_filter import top_k
from course_lib.exercises.decoding.top_p_filter import top_p
from course_lib.exercises.decoding.count_scores import counting
from course_lib.exercises.decoding.cached_attention import caching
from course_lib.exercises.decoding.rnn_influence import forgetting
from course_lib.exercises.decoding.bleu import measuring

__all__ = [
    "greedy",
    "beam",
    "sampling",
    "top_k",
    "top_p",
    "counting",
    "caching",
    "forgetting",
    "measuring",
]
