"""Exercises on language models: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.language_model.ngram_model import ngrams
from course_lib.exercises.language_model.bits_per_character import bits
from course_lib.exercises.language_model.text_windows import windows
from course_lib.exercises.language_model.gpt import gpt
from course_lib.exercises.language_model.generate import writing
from course_lib.exercises.language_model.train_bpe import training
from course_lib.exercises.language_model.bpe_encode import encoding
from course_lib.exercises.language_model.bpe_decode import decoding_pieces
from course_lib.exercises.language_model.fit_power_law import fitting

__all__ = [
    "ngrams",
    "bits",
    "windows",
    "gpt",
    "writing",
    "training",
    "encoding",
    "decoding_pieces",
    "fitting",
]
