"""Hidden cases on classification."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import classification


@hidden(classification.masked_mean)
def masked_mean(draw: Draw) -> list[Case]:
    """Always among them: padding in front, a sequence without any real position, one without padding, and no batch."""
    batch, time, d = draw.sizes((4, 6), (3, 7), (2, 5))
    real = draw.mask(batch, time)
    real[0] = False
    real[1] = True
    real[2, 0], real[2, -1] = False, True
    heads, rows, long, wide = draw.sizes((2, 3), (2, 4), (4, 6), (3, 7))
    return [
        {"x": draw.normal(batch, time, d, dtype=torch.float32) + 1, "real": real},
        {"x": draw.normal(heads, rows, long, wide, dtype=torch.float32) - 1, "real": draw.mask(heads, rows, long)},
        {"x": draw.normal(time + 1, d, scale=3, dtype=torch.float32), "real": draw.mask(time + 1)},
    ]
