"""What the exercises of this topic have in common."""

from __future__ import annotations

import contextlib
import math

import torch

from course_lib.checking.bench import StudentError
from course_lib.checking.difference import Difference
from course_lib.checking.expect import Failure, expect, expect_close, is_close


def expect_only_moved(got, x):
    """Every number of x is in the result, and nothing else: heads are cut and put together, nothing is computed."""
    found, given = got.flatten().sort().values, x.flatten().sort().values
    if not is_close(found, given):
        where = Difference(found, given).where().nonzero()[0, 0]
        expect(
            False,
            "The result does not hold the same numbers as x. Here numbers only move to another place: none is changed, "
            f"lost or used twice. Sorted by size, the first that differ are {given[where]:.5g} in x and "
            f"{found[where]:.5g} in the result.",
        )


def expect_tokens_apart(got, want):
    """got, want: (batch, time, d_model). Every time step holds the numbers that belong there, in any order."""
    wrong = ~same_members(got, want)  # (batch, time)
    if wrong.any():
        batch, time = (int(i) for i in wrong.nonzero()[0])
        shown = [round(number, 4) for number in got[batch, time].tolist()]
        right = [round(number, 4) for number in want[batch, time].tolist()]
        expect(
            False,
            f"Tokens were mixed. In sequence {batch}, time step {time} should hold {right}, all heads together and in "
            f"whatever order, but it holds {shown}.",
        )


def same_members(got, want):
    """For each row: are the numbers the same, whatever their order?"""
    return (got.double().sort(dim=-1).values - want.double().sort(dim=-1).values).abs().amax(dim=-1) < 1e-5


def expect_distributions(weights):
    """Each row holds numbers that are not negative and sum to 1."""
    sums = weights.sum(dim=-1)
    expect(weights.min() >= -1e-6, f"There is a negative weight: {weights.min():.3g}.")
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


# --- parameters -----------------------------------------------------------------------------------------


def listing(shapes):
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items()) or "none"


def count_of(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


def expect_count(built, want):
    """The module has this many trainable numbers."""
    shapes = built.shapes()
    got = count_of(shapes)
    advice = " Layers in a plain Python list are not found; nn.ModuleList keeps them." if got < want / 2 else ""
    expect(
        got == want,
        f"There should be {want} trainable numbers, but there are {got}. They are: {listing(shapes)}.{advice}",
    )


@contextlib.contextmanager
def layers_in_plain_lists_explained(built, want):
    """Layers that the module does not find keep the precision in which they were made, and torch's error on that
    would not help anybody.
    """
    try:
        yield
    except StudentError as error:
        shapes = built.shapes()
        if "dtype" not in error.message or count_of(shapes) >= want:
            raise
        raise Failure(
            f"There should be {want} trainable numbers, but your module finds {count_of(shapes)}: {listing(shapes)}. "
            "Layers in a plain Python list or dict are not found, and no optimizer would train them: nn.ModuleList "
            "keeps them. (A tensor is found if it is an nn.Parameter.)"
        ) from None
