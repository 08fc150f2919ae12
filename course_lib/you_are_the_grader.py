"""Tests of implementations: is it right? Each is given a function or class and says True or False."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def accepts_causal_mask(causal_mask: Callable[[int], Tensor]) -> bool:
    """Is this implementation of `causal_mask(n)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """
    for n in (1, 2, 5):
        mask = causal_mask(n)
        if mask.shape != (n, n) or not mask.eq(mask.bool()).all():  # 0 and 1 are as good as False and True
            return False
        if any(bool(mask[i, j]) != (j <= i) for i in range(n) for j in range(n)):
            return False
    return True
