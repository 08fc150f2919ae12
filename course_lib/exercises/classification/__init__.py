"""Exercises on classification: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.classification.masked_mean import masked_mean
from course_lib.exercises.classification.sequence_classifier import sequence_classifier
from course_lib.exercises.classification.confusion_matrix import confusion_matrix
from course_lib.exercises.classification.wordpiece import wordpiece
from course_lib.exercises.classification.mask_tokens import mask_tokens
from course_lib.exercises.classification.masked_lm_loss import masked_lm_loss
from course_lib.exercises.classification.fine_tune import fine_tune
from course_lib.exercises.classification.bert_parameters import bert_parameters

__all__ = [
    "masked_mean",
    "sequence_classifier",
    "confusion_matrix",
    "wordpiece",
    "mask_tokens",
    "masked_lm_loss",
    "fine_tune",
    "bert_parameters",
]
