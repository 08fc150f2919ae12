"""What the exercises of this topic have in common."""

from __future__ import annotations

import torch

from course_lib.checking.difference import Difference
from course_lib.checking.expect import RTOL, Differs, Failure, expect, expect_truth_values, is_close


def first_place(found):
    """The index of the first True, as a tuple of numbers."""
    return tuple(int(i) for i in found.nonzero()[0])


def mask_from(subject, args, shape):
    """The subject's answer as truth values of this shape.

    Axes may be missing or have length 1, but there must not be too many: attention would refuse such a mask.
    """
    got = subject(*args)
    answer = expect_truth_values(got, shape)
    if got.dim() > len(shape):
        subject.note("too many axes", True)
        raise Failure(
            f"The mask should have shape {shape}, but it has shape {tuple(got.shape)}: more axes than asked for. "
            "Further axes are added later, where they are needed."
        )
    return answer


def refuse(message, got, want):
    """Fail with this message and a picture of the two masks."""
    raise Failure(message, Difference(got, want))


def keys_in(row):
    """The keys that a row of a mask allows, in words."""
    keys = row.nonzero().flatten().tolist()
    return f"the keys {keys}" if len(keys) > 1 else f"key {keys[0]} alone" if keys else "no key at all"


# --- weights of attention; rows without an allowed key are checked last --------------------------------------------


def expect_shares(weights, mask, want):
    """Among the allowed keys of a row the weights are in the right proportion, whatever the hidden ones get."""
    allowed = mask.expand(weights.shape)
    has_keys = allowed.any(dim=-1, keepdim=True)
    broken = weights.isnan() & has_keys
    if broken.any():
        raise Failure(
            f"A row in which some keys are allowed contains NaN, first at index {list(first_place(broken))}. "
            "NaN comes from inf/inf, 0/0 or inf - inf, and exp of a large number is inf."
        )
    kept = weights.masked_fill(~allowed, 0.0)
    total = kept.sum(dim=-1, keepdim=True)
    shares = torch.where(has_keys & (total != 0), kept / total, 0.0)
    if not is_close(shares, want):
        message = "In a row, the weights of the allowed keys are not in the proportion of exp(score)."
        raise Differs(f"{message} As shares of their sum:", shares, want)


def expect_hidden_is_zero(weights, mask):
    """A hidden key gets no weight, in a row in which others are allowed."""
    allowed = mask.expand(weights.shape)
    leak = weights.masked_fill(allowed | ~allowed.any(dim=-1, keepdim=True), 0.0).abs()
    if leak.max() >= 1e-6:
        place = first_place(leak >= 1e-6)
        expect(False, f"The key at index {list(place)} is hidden, but it gets weight {float(leak[place]):.3g}.")


def expect_rows_sum_to_one(weights, mask):
    """A row in which some keys are allowed sums to 1."""
    has_keys = mask.expand(weights.shape).any(dim=-1)
    expect(not (weights[has_keys] < -1e-6).any(), "There is a negative weight.")
    sums = torch.where(has_keys, weights.sum(dim=-1), 1.0)
    wrong = ~torch.isclose(sums, torch.ones_like(sums), rtol=RTOL)
    if wrong.any():
        row = first_place(wrong)
        expect(
            False, f"The weights of row {list(row)} sum to {float(sums[row]):.4g}. A row with an allowed key sums to 1."
        )
