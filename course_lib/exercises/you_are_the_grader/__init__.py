"""Exercises on finding mistakes: one module each, in the order of the notebook."""

# ruff: noqa: I001, RUF022  the order of these lines is the order of the exercises
from course_lib.exercises.you_are_the_grader.next_token_loss import next_token_loss
from course_lib.exercises.you_are_the_grader.causal_heads import causal_heads
from course_lib.exercises.you_are_the_grader.dropout import dropout
from course_lib.exercises.you_are_the_grader.perplexity import perplexity
from course_lib.exercises.you_are_the_grader.accepts_causal_mask import accepts_causal_mask
from course_lib.exercises.you_are_the_grader.accepts_attention import accepts_attention
from course_lib.exercises.you_are_the_grader.accepts_positional_encoding import accepts_positional_encoding
from course_lib.exercises.you_are_the_grader.accepts_decoder_layer import accepts_decoder_layer
from course_lib.exercises.you_are_the_grader.accepts_train_step import accepts_train_step

__all__ = [
    "next_token_loss",
    "causal_heads",
    "dropout",
    "perplexity",
    "accepts_causal_mask",
    "accepts_attention",
    "accepts_positional_encoding",
    "accepts_decoder_layer",
    "accepts_train_step",
]
