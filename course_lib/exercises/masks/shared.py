"""What the exercises of this topic have in common."""

from __future__ import annotations

from course_lib.checking.difference import Difference
from course_lib.checking.expect import Failure, expect_truth_values


def first_place(found):
    """The index of the first True, as a tuple of numbers."""
    return tuple(int(i) for i in found.nonzero()[0])


def mask_from(subject, args, shape):
    """The subject's answer as truth values of this shape.

    Axes may be missing or of length 1, but there may be none too many: attention would refuse such a mask.
    """
    got = subject(*args)
    answer = expect_truth_values(got, shape)
    if got.dim() > len(shape):
        subject.note("too many axes", True)
        raise Failure(
            f"The mask should have shape {shape}, but it has shape {tuple(got.shape)}: more axes than asked for. "
            "Whoever needs one more (for the queries, for the heads) adds it later."
        )
    return answer


def refuse(message, got, want):
    """Fail with this message and a picture of the two masks."""
    raise Failure(message, Difference(got, want))


def keys_in(row):
    """The keys that a row of a mask allows, in words."""
    keys = row.nonzero().flatten().tolist()
    return f"the keys {keys}" if len(keys) > 1 else f"key {keys[0]} alone" if keys else "no key at all"
