"""The exercises: one folder a topic, named as its notebook and its reference are; one file an exercise."""

from __future__ import annotations

import functools
import importlib

from course_lib.checking.exercise import REGISTRY, Exercise
from course_lib.checking.written_test import WrittenTest

TOPICS = (
    "start_here",
    "dot_product_attention",
    "masks",
    "positions",
    "multi_head_attention",
    "sublayers",
    "encoder_decoder",
    "transformer",
    "training",
    "decoding",
    "classification",
    "language_model",
    "speech",
    "long_sequences",
    "you_are_the_grader",
)


@functools.cache
def all_exercises() -> dict[str, Exercise]:
    """name -> exercise, in the order of the course."""
    for topic in TOPICS:
        importlib.import_module(f"{__name__}.{topic}")
    return dict(sorted(REGISTRY.items(), key=lambda item: TOPICS.index(item[1].topic)))


def exercises_to_build() -> dict[str, Exercise]:
    """Those in which a function or class is to be written that does something."""
    return {name: exercise for name, exercise in all_exercises().items() if not isinstance(exercise, WrittenTest)}


def written_tests() -> dict[str, WrittenTest]:
    """Those in which a test of another exercise is to be written."""
    return {name: exercise for name, exercise in all_exercises().items() if isinstance(exercise, WrittenTest)}
