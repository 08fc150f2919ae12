"""Exercises on long sequences: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.long_sequences.attention_memory import memory
from course_lib.exercises.long_sequences.online_softmax import online
from course_lib.exercises.long_sequences.tiled_attention import tiled
from course_lib.exercises.long_sequences.strided_mask import strided
from course_lib.exercises.long_sequences.linear_attention import linear
from course_lib.exercises.long_sequences.segment_memory import segments
from course_lib.exercises.long_sequences.block_table import block_table
from course_lib.exercises.long_sequences.checkpointed import checkpoints

__all__ = [
    "memory",
    "online",
    "tiled",
    "strided",
    "linear",
    "segments",
    "block_table",
    "checkpoints",
]
