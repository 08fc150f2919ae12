"""Exercises on masks: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.masks.padding_mask import padding_mask
from course_lib.exercises.masks.masked_softmax import masked_softmax
from course_lib.exercises.masks.masked_attention import masked_attention
from course_lib.exercises.masks.causal_mask import causal_mask
from course_lib.exercises.masks.decoder_mask import decoder_mask
from course_lib.exercises.masks.cross_mask import cross_mask
from course_lib.exercises.masks.additive_mask import additive_mask
from course_lib.exercises.masks.window_mask import window_mask

__all__ = [
    "padding_mask",
    "masked_softmax",
    "masked_attention",
    "causal_mask",
    "decoder_mask",
    "cross_mask",
    "additive_mask",
    "window_mask",
]
