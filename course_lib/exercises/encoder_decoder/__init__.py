"""Exercises on encoder and decoder: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.encoder_decoder.encoder_layer import encoder_layer
from course_lib.exercises.encoder_decoder.encoder import encoder
from course_lib.exercises.encoder_decoder.decoder_layer import decoder_layer
from course_lib.exercises.encoder_decoder.decoder import decoder

__all__ = ["encoder_layer", "encoder", "decoder_layer", "decoder"]
