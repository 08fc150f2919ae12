"""What the exercises of this topic have in common."""

from __future__ import annotations

from torch import Tensor

from course_lib.checking.expect import expect_floats


def attended(subject, x):
    return expect_floats(subject(x), tuple(x.shape), "the result")


def shown(vector: Tensor) -> str:
    """A small vector for a sentence."""
    return "[" + ", ".join(f"{value:.4g}" for value in vector.tolist()) + "]"
