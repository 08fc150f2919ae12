"""Exercises on language models."""

from course_lib.exercises.language_model.text_windows import exercise as text_windows
from course_lib.exercises.language_model.ngram_model import exercise as ngram_model
from course_lib.exercises.language_model.bits_per_character import exercise as bits_per_character
from course_lib.exercises.language_model.gpt import exercise as gpt
from course_lib.exercises.language_model.train_bpe import exercise as train_bpe
from course_lib.exercises.language_model.bpe_encode import exercise as bpe_encode
from course_lib.exercises.language_model.bpe_decode import exercise as bpe_decode
from course_lib.exercises.language_model.generate import exercise as generate
from course_lib.exercises.language_model.fit_power_law import exercise as fit_power_law
