"""The exercise `accepts_causal_mask`: which mistakes a test has to catch, and what people really test instead."""

from __future__ import annotations

import torch

from course_lib import you_are_the_grader
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises.masks import causal_mask as tested

accepts_causal_mask = WrittenTest(
    you_are_the_grader.accepts_causal_mask,
    tested=tested,
    shown=(
        "shows_the_future",
        "hides_the_diagonal",
        "peeks_one_ahead",
        "allows_everything",
        "sees_only_the_last_step",
        "is_additive",
        "has_an_axis_too_many",
    ),
    minutes=10,
    difficulty=1,
    hints=[
        "What is true of every right mask of n = 4? Its shape; which places are allowed; that it says no more than yes "
        "and no. Each mistake breaks one of these.",
        "Compare all n × n places with j <= i, for two or three sizes: at n = 1 most mistakes cannot be seen.",
        "Right masks come as bool, as 0 and 1 in whole numbers, or as floats: mask.eq(want) is the same for all of "
        "them. But it also stretches a shape that does not fit, so look at the shape as well.",
        "want = torch.arange(n) <= torch.arange(n)[:, None]; accept if mask.shape == want.shape and "
        "mask.eq(want).all(), for n = 1, 2 and 5.",
    ],
)


@accepts_causal_mask.misconception
def accepts_everything(causal_mask):
    """Your test accepts whatever it is given: it has not caught a single mistake."""
    causal_mask(3)
    return True


@accepts_causal_mask.misconception
def rejects_everything(causal_mask):
    """Your test rejects whatever it is given. A right implementation has to pass."""
    return False


@accepts_causal_mask.misconception
def looks_at_the_shape(causal_mask):
    """Your test catches no more than a look at the shape does. Which entries are True?"""
    return causal_mask(4).shape == (4, 4)


@accepts_causal_mask.misconception
def looks_at_the_future(causal_mask):
    """Your test accepts every mask that hides the future. The past and the present have to be visible, too."""
    return not causal_mask(4).triu(diagonal=1).any()


@accepts_causal_mask.misconception
def tries_one_position(causal_mask):
    """Your test catches no more than a sequence of one position shows. There, nearly all masks look right."""
    return bool(causal_mask(1).all())


@accepts_causal_mask.misconception
def wants_booleans(causal_mask):
    """Your test rejects masks of 0 and 1, which are as right as True and False. It tells everything else apart."""
    mask = causal_mask(5)
    return mask.dtype == torch.bool and mask.equal(torch.ones(5, 5).tril().bool())


@accepts_causal_mask.alternative
def by_an_own_implementation(causal_mask):
    for n in (1, 2, 6):
        mask, want = causal_mask(n), torch.tril(torch.ones(n, n))
        if mask.shape != want.shape or not mask.double().equal(want.double()):
            return False
    return True


@accepts_causal_mask.alternative
def by_assertions(causal_mask):
    for n in (1, 3, 4):
        mask = causal_mask(n)
        assert tuple(mask.shape) == (n, n)
        assert set(mask.flatten().tolist()) <= {0, 1}
        assert [int(row.sum()) for row in mask] == list(range(1, n + 1))
        assert not mask.triu(1).any()
    return True


@accepts_causal_mask.alternative
def by_rows(causal_mask):
    rows = causal_mask(4).tolist()
    return rows == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
