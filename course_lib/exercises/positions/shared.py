"""What the exercises of this topic have in common."""

from __future__ import annotations

import functools

import torch

from course_lib.checking.expect import expect, expect_close, is_close


def for_an_even_width(holds):
    """A property that leaves out the cases with an odd d_model: they have a property of their own."""

    @functools.wraps(holds)
    def holds_if_even(subject, case):
        if case["d_model"] % 2 == 0:
            holds(subject, case)

    return holds_if_even


def expect_nothing_else_happens(built, x, want):
    """The module only adds something to x, in training too, and the gradient passes back to x unchanged."""
    built.train()
    with built.unobserved():  # every dropout drops something else
        got = built(x)
    is_right = isinstance(got, torch.Tensor) and is_close(got, want, atol=1e-4)
    built.note("right in training", is_right)
    expect(
        is_right,
        "In evaluation your module is right, but in training mode (after module.train()) the result is different. "
        "Does it contain dropout?",
    )
    built.train(False)
    slope = built.gradient(x, wrt=0)
    expect(slope.any(), "No gradient reaches x: the layers before it would never learn.")
    expect_close(slope, torch.ones_like(slope), "the gradient of the sum of the result with respect to x")
