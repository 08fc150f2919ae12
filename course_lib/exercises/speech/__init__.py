"""Exercises on speech: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.speech.frames import framing
from course_lib.exercises.speech.mel_filterbank import filters
from course_lib.exercises.speech.log_mel import features
from course_lib.exercises.speech.pad_features import padding
from course_lib.exercises.speech.conv_front_end import front_end
from course_lib.exercises.speech.ctc_collapse import collapsing
from course_lib.exercises.speech.ctc_loss import ctc
from course_lib.exercises.speech.edit_distance import edits

__all__ = [
    "framing",
    "filters",
    "features",
    "padding",
    "front_end",
    "collapsing",
    "ctc",
    "edits",
]
