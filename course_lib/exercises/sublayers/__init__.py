"""Exercises on sub-layers: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.sublayers.token_embedding import token_embedding
from course_lib.exercises.sublayers.feed_forward import feed_forward
from course_lib.exercises.sublayers.layer_norm import layer_norm
from course_lib.exercises.sublayers.rms_norm import rms_norm
from course_lib.exercises.sublayers.masked_batch_statistics import masked_batch_statistics
from course_lib.exercises.sublayers.residual_post_norm import residual_post_norm
from course_lib.exercises.sublayers.residual_pre_norm import residual_pre_norm

__all__ = [
    "token_embedding",
    "feed_forward",
    "layer_norm",
    "rms_norm",
    "masked_batch_statistics",
    "residual_post_norm",
    "residual_pre_norm",
]
