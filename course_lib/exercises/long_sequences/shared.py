"""What the exercises of this topic have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.checking.expect import Failure, expect, expect_floats, is_close, name_of_type


def whole_number(value, what):
    """`value` as an int, from an int, a whole float or a tensor with one entry."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if value is None:
        raise Failure(f"{what} is None. Does every path through your code end in a `return`?")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Failure(f"{what} should be a whole number, but it is {name_of_type(value)}.")
    expect(value == round(value), f"{what} should be a whole number, but it is {value!r}.")
    return round(value)


def expect_nothing_from_the_future(subject, args, wrt, got, what):
    """Row i of the result depends on rows 0 to i of args[wrt] alone: later ones are exchanged for others, and row i
    stays as it is. `what`: what is in these rows.
    """
    row = got.shape[-2] // 2
    changed = list(args)
    later = torch.arange(args[wrt].shape[-2])[:, None] > row  # (n, 1)
    changed[wrt] = torch.where(later, 1.0 - args[wrt], args[wrt])
    moved = expect_floats(subject(*changed), tuple(got.shape))
    same = is_close(moved[..., : row + 1, :], got[..., : row + 1, :])
    expect(same, f"If causal, queries up to {row} should not depend on later {what}, but they do.")
