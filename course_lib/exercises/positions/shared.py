"""What the exercises of this topic have in common."""

from __future__ import annotations

import functools


def for_an_even_width(holds):
    """A property that leaves out the cases with an odd d_model: they have a property of their own."""

    @functools.wraps(holds)
    def holds_if_even(subject, case):
        if case["d_model"] % 2 == 0:
            holds(subject, case)

    return holds_if_even
