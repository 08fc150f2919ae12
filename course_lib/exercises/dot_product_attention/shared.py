"""What the exercises of this topic have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.checking.expect import expect_floats


def attended(subject, x):
    return expect_floats(subject(x), tuple(x.shape), "the result")


def shown(vector: Tensor) -> str:
    """A small vector for a sentence."""
    return "[" + ", ".join(f"{value:.4g}" for value in vector.tolist()) + "]"


FAR = 32.0  # as a feature of query and key it adds 1024 to their score, and exp(1024) is inf
ROUNDED = 0.01  # scores of that size have few digits left in float32


def with_feature(x: Tensor, value: float | Tensor = FAR) -> Tensor:
    """x with one more feature at the end, which has this value everywhere (or these, if they broadcast)."""
    column = torch.as_tensor(value).to(x).expand(*x.shape[:-1], 1)
    return torch.cat([x, column], dim=-1)
