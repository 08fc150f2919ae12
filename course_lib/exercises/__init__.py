"""The exercises: one folder a topic, named as its notebook and its reference are; one file an exercise."""

from __future__ import annotations

import functools
import importlib

from course_lib.checking.exercise import REGISTRY, Exercise

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
    "long_sequences",
)


@functools.cache
def all_exercises() -> dict[str, Exercise]:
    """name -> exercise, in the order of the course."""
    for topic in TOPICS:
        importlib.import_module(f"{__name__}.{topic}")
    return dict(sorted(REGISTRY.items(), key=lambda item: TOPICS.index(item[1].topic)))
