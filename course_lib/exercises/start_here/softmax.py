"""The exercise `softmax`: what must hold, and what people really write instead."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from course_lib import start_here
from course_lib.checking.difference import Difference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_close,
    expect_floats,
    expect_tensor,
)
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject

softmax = Exercise(
    start_here.softmax,
    cases=[
        {"x": normal(3, seed=1), "dim": 0},
        {"x": normal(3, 3, seed=2), "dim": 1},
        {"x": normal(2, 4, seed=3), "dim": 0},
        {"x": normal(2, 3, 4, seed=4, scale=2), "dim": -2},
        {"x": normal(3, 2, 5, 4, seed=5, scale=3), "dim": -1},
        {"x": normal(4, 4, seed=6), "dim": 0},
    ],
    minutes=12,
    difficulty=1,
    hints=[
        "Take [0, log 3] and work it out on paper: exponentials 1 and 3, their sum 4, the shares 1/4 and 3/4. "
        "Which of these steps needs to know dim?",
        "The sum has to be broadcast back over x. That works only if it keeps an axis of length 1 where it added up: "
        "keepdim=True.",
        "exp(1000) is inf. Subtracting the same number from everything along dim changes no share. Which number "
        "makes every exponent at most 0?",
        "largest = x.amax(dim=dim, keepdim=True); exponentials = torch.exp(x - largest); then divide by "
        "exponentials.sum(dim=dim, keepdim=True).",
    ],
)


FAR = 9984.0  # with quarters, every number near it is exact in float32 too


def softmax_of(subject, x, dim):
    return expect_floats(subject(x, dim), tuple(x.shape), "the softmax")


@softmax.property("the result has the shape of x", points=1)
def softmax_shape(subject, case):
    x, dim = case.values()
    got = expect_tensor(subject(x, dim), what="the softmax")
    expect_tensor(got, tuple(x.shape), "the softmax")


@softmax.property("the numbers along dim are not negative, add up to 1, and a larger x has a larger share", points=1)
def softmax_shares(subject, case):
    x, dim = case.values()
    got = softmax_of(subject, x, dim)
    expect(got.min() >= 0, f"There is a negative share, {got.min():.4g}. exp(x) is never negative.")
    sums = got.sum(dim=dim)
    expect_close(sums, torch.ones_like(sums), f"the sum of the result along dim = {dim}")
    expect_larger_shares_for_larger_numbers(got, x, dim)


def expect_larger_shares_for_larger_numbers(got, x, dim):
    """Of two numbers along `dim` the larger one has the larger share."""
    order = x.argsort(dim=dim)
    want = start_here.softmax(x, dim)
    numbers, shares, wanted = (t.take_along_dim(order, dim) for t in (x, got, want))
    wrong = (wanted.diff(dim=dim) > 1e-6) & (shares.diff(dim=dim) <= 0)  # two tiny shares may be equal by rounding
    if not wrong.any():
        return
    first = tuple(wrong.movedim(dim, -1).nonzero()[0].tolist())
    (low, high), (low_share, high_share) = (t.movedim(dim, -1)[first[:-1]][first[-1] :][:2] for t in (numbers, shares))
    raise Failure(
        f"Along dim = {dim} there are x = {low:.4g} and x = {high:.4g}. The larger one should have the larger share, "
        f"but its share is {high_share:.4g}, and that of the smaller one {low_share:.4g}.",
        Difference(got, want),
    )


@softmax.property("along dim it is exp(x) divided by the sum of exp(x)", points=1)
def softmax_values(subject, case):
    x, dim = case.values()
    expect_close(subject(x, dim), start_here.softmax(x, dim), "the softmax")


@softmax.property("gradients flow back through it", points=1)
def softmax_gradient(subject, case):
    x, dim = case.values()
    first = (0,) * x.dim()
    subject(x, dim)
    subject.require_untouched_inputs()
    slope = subject.gradient(x, dim, wrt=0, at=first)
    want = Subject(start_here.softmax).gradient(x, dim, wrt=0, at=first)
    expect(slope.any() or not want.any(), "No gradient reaches x: somewhere the numbers leave torch's graph.")
    expect_close(slope, want, "the gradient of the first share with respect to x")


def expect_shares(got, want, what):
    """Near 10 000 a float32 has only three digits left after the decimal point."""
    expect_close(got, want, what, rtol=1e-3, atol=1e-3)


@softmax.property("numbers near ±10 000 give the right shares too", points=2)
def softmax_far_from_zero(subject, case):
    """The same numbers moved far away keep their shares; one number far above the others takes everything."""
    x, dim = case.values()
    x = (4 * x).round() / 4
    want = start_here.softmax(x, dim)
    expect_shares(subject(x + FAR, dim), want, f"the softmax of x + {FAR:g} (the shares are those of x)")
    slices = x.select(dim, 0)
    signs = 1 - 2 * (torch.arange(slices.numel()) % 2)  # +1, -1, +1, …
    levels = FAR * signs.reshape(slices.shape).unsqueeze(dim)
    far = f"x, moved up by {FAR:g} in one slice along dim and down by {FAR:g} in the next,"
    expect_shares(subject(x + levels, dim), want, f"the softmax of {far} (the shares are those of x)")
    expect_shares(subject(x - FAR, dim), want, f"the softmax of x - {FAR:g} (the shares are those of x)")
    for gap in (800.0, FAR):
        lonely = x.clone()
        lonely.select(dim, 0).add_(gap)
        want = start_here.softmax(lonely, dim)
        expect_shares(subject(lonely, dim), want, f"the softmax of x with {gap:g} added to the first number along dim")


@softmax.misconception
def always_the_last_axis(x, dim):
    """You always normalise along the last axis. The caller chooses the axis, with dim."""
    largest = x.max(dim=-1, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total


@softmax.misconception
def always_axis_0(x, dim):
    """You always normalise along axis 0. The caller chooses the axis, with dim.

    On an axis 0 that counts the examples of a batch, different examples share one total.
    """
    largest = x.max(dim=0, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=0, keepdim=True)
    return exponentials / total


@softmax.misconception
def always_axis_1(x, dim):
    """You always normalise along axis 1. The caller chooses the axis, with dim."""
    largest = x.max(dim=1, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=1, keepdim=True)
    return exponentials / total


@softmax.misconception
def sum_without_keepdim(x, dim):
    """Your sum has lost its axis. Keep it, with length 1.

    Broadcasting lines the sum up with another axis: an error at best, and with a square x a silent division by the
    wrong row's total.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim)
    return exponentials / total


@softmax.misconception
def maximum_without_keepdim(x, dim):
    """Your maximum has lost its axis. Keep it, with length 1.

    Broadcasting subtracts the maximum along another axis: an error, or with a square x the wrong row's maximum.
    """
    largest = x.max(dim=dim).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def puts_the_axis_back_at_the_end(x, dim):
    """You put the lost axis of your sum back at the end. It has to come back where it was, at dim: only for the last
    axis is that the same place."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim).unsqueeze(-1)
    return exponentials / total


@softmax.misconception
def puts_the_maximum_back_at_the_end(x, dim):
    """You put the lost axis of your maximum back at the end. It has to come back where it was, at dim."""
    largest = x.max(dim=dim).values.unsqueeze(-1)
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def drops_the_minus_sign(x, dim):
    """You treat dim = -2 like dim = 2. A negative dim counts from the end: -1 is the last axis. Torch's functions take
    it as it is."""
    dim = abs(dim)
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def subtracts_the_overall_maximum(x, dim):
    """You subtract the largest number of the whole tensor. Each slice along dim needs a maximum of its own.

    A slice that lies far below the overall maximum becomes all zeros, and 0 / 0 is NaN.
    """
    largest = x.max()
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def one_total_for_everything(x, dim):
    """You take one maximum and one total for the whole tensor. Each slice along dim is a distribution of its own and
    has its own total.

    All your shares together add up to 1.
    """
    largest = x.max()
    exponentials = torch.exp(x - largest)
    total = exponentials.sum()
    return exponentials / total


@softmax.misconception
def adds_up_everything(x, dim):
    """You divide by the sum over the whole tensor. Each slice along dim is a distribution of its own and has its own
    total."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum()
    return exponentials / total


@softmax.misconception
def adds_up_along_the_last_axis(x, dim):
    """Your sum always runs along the last axis. The caller chooses the axis, with dim."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total


@softmax.misconception
def adds_up_along_axis_0(x, dim):
    """Your sum always runs along axis 0. The caller chooses the axis, with dim."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=0, keepdim=True)
    return exponentials / total


@softmax.misconception
def maximum_along_the_last_axis(x, dim):
    """You subtract the maximum along the last axis. Only a number that is the same all along dim cancels out: take
    the maximum along dim."""
    largest = x.max(dim=-1, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def subtracts_the_mean(x, dim):
    """You subtract the mean along dim. Only the maximum makes every exponent at most 0.

    A number far above the mean still overflows.
    """
    largest = x.mean(dim=dim, keepdim=True)
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def subtracts_the_overall_mean(x, dim):
    """You subtract the mean of the whole tensor. Each slice along dim needs a number of its own, and only its maximum
    makes every exponent at most 0.

    Numbers far above that mean overflow.
    """
    largest = x.mean()
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def subtracts_the_smallest(x, dim):
    """You subtract the smallest number along dim. It is large exponents that overflow.

    No exponent is negative, but the large ones still overflow.
    """
    largest = x.min(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def clips_large_numbers(x, dim):
    """You clip large numbers before the exponential. Clipping changes the shares, subtracting does not.

    Nothing overflows, but all numbers beyond the limit become equal.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x.clamp(min=-50, max=50))
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def replaces_nan_afterwards(x, dim):
    """You replace NaN after the division. Overflow has to be prevented before the exponential.

    By then the overflow has destroyed the shares.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return torch.nan_to_num(exponentials / total)


@softmax.misconception
def divides_by_the_maximum(x, dim):
    """You divide by the largest number instead of subtracting it. Division changes the differences between the numbers,
    and with them the shares."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x / largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def turns_the_sign_around(x, dim):
    """You flip the sign of x.

    The smallest number gets the largest share.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(largest - x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def forgets_the_exponential(x, dim):
    """There is no exponential: the numbers themselves are divided by their sum.

    A share can be negative, and the sum can be 0.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = x
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def takes_powers_of_two(x, dim):
    """You take powers of 2. The exponential function has the base e = 2.718…"""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp2(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def divides_by_the_mean(x, dim):
    """You divide by the mean of the exponentials. Divide by their sum.

    The mean of your shares is 1, but their sum has to be 1.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.mean(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def divides_by_the_length(x, dim):
    """You divide by the Euclidean length of the exponentials. Divide by their sum.

    The squares of your shares add up to 1, but the shares themselves have to.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.norm(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def returns_the_exponentials(x, dim):
    """You return the exponentials. They still have to be divided by their sum.

    The largest of them is 1, and their sum is not.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials


@softmax.misconception
def returns_exp_of_x(x, dim):
    """You return exp(x), the numerator of the formula. It still has to be divided by the sum along dim."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials


@softmax.misconception
def returns_x(x, dim):
    """You return x as it is: what was computed from it, if anything, is thrown away."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return x


@softmax.misconception
def all_shares_are_equal(x, dim):
    """You give every number along dim the same share, whatever the numbers are. The share of a number depends on
    its size."""
    return torch.full_like(x, 1 / x.shape[dim])


@softmax.misconception
def takes_squares(x, dim):
    """You divide the squares by their sum. A softmax takes the exponential of each number, not its square."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = x**2
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def takes_powers_of_ten(x, dim):
    """You take powers of 10. The exponential function has the base e = 2.718…"""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = 10 ** (x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def returns_logarithms(x, dim):
    """You return the logarithms of the shares (a log-softmax). Return the shares themselves.

    Logarithms of shares are never positive.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return torch.log(exponentials / total)


@softmax.misconception
def normalises_twice(x, dim):
    """You apply a softmax to the result of a softmax. Once is enough.

    These are the shares of the shares, which are all nearly equal.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return torch.softmax(exponentials / total, dim)


@softmax.misconception
def takes_what_max_returns(x, dim):
    """x.max(dim) returns two tensors, the largest numbers and their positions. Take the values, or use x.amax."""
    largest = x.max(dim=dim, keepdim=True)
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def winner_takes_all(x, dim):
    """You give 1 to the largest number and 0 to the others. A softmax is soft: every number gets its share."""
    return F.one_hot(x.argmax(dim=dim), x.shape[dim]).to(x.dtype).movedim(-1, dim)


@softmax.misconception
def divides_by_the_root_of_the_size(x, dim):
    """You divide x by the square root of its size first. That belongs to attention, where it happens outside the
    softmax."""
    x = x / x.shape[dim] ** 0.5
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def is_a_sigmoid(x, dim):
    """This is a sigmoid: each number is treated by itself. In a softmax the numbers along dim compete for one total of
    1."""
    return torch.sigmoid(x)


@softmax.misconception
def leaves_the_axis_moved(x, dim):
    """You move dim to the end and do not move it back.

    The axes of the result are in a different order from those of x.
    """
    x = x.transpose(dim, -1)
    largest = x.max(dim=-1, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total


@softmax.misconception
def changes_x_in_place(x, dim):
    """You write into x itself, and the caller still needs it. Make a new tensor: x - largest, not x -= largest."""
    largest = x.max(dim=dim, keepdim=True).values
    x -= largest
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def leaves_the_graph(x, dim):
    """You take the numbers out of torch's graph (by detach, item, tolist, or a new tensor made of plain numbers). No
    gradient comes back through them.

    The shares are right, but nothing below this softmax could learn.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return (exponentials / total).detach()


@softmax.misconception
def computes_in_numpy(x, dim):
    """You compute in numpy, which does not track gradients. Use torch's own functions throughout.

    Torch refuses as soon as x needs a gradient.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.from_numpy(np.exp((x - largest).numpy()))
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


# Last, so that in a pair the coarser mistake is told first.
@softmax.misconception
def overflows(x, dim):
    """You take the exponential of numbers that can be large. Subtracting one number from all the numbers along dim
    changes no share: choose it so that no exponent is large.

    exp of a large number is inf, and inf / inf is NaN.
    """
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def last_axis_and_overflows(x, dim):
    """You always normalise along the last axis; the caller chooses the axis, with dim. And you take the exponential of
    numbers that can be large."""
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total


@softmax.misconception
def one_total_and_overflows(x, dim):
    """You take one total for the whole tensor; each slice along dim is a distribution of its own. And you take the
    exponential of numbers that can be large."""
    exponentials = torch.exp(x)
    total = exponentials.sum()
    return exponentials / total


@softmax.misconception
def adds_up_the_exponents(x, dim):
    """You divide by the sum of the exponents. Divide by the sum of their exponentials, exp of each."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = (x - largest).sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.alternative
def with_torch(x, dim):
    return torch.softmax(x, dim)


@softmax.alternative
def by_logarithms(x, dim):
    return (x - torch.logsumexp(x, dim, keepdim=True)).exp()


@softmax.alternative
def with_the_axis_at_the_end(x, dim):
    moved = x.movedim(dim, -1)
    moved = moved - moved.max(-1).values[..., None].detach()
    weights = moved.exp() / moved.exp().sum(-1)[..., None]
    return weights.movedim(-1, dim)


@softmax.alternative
def slice_by_slice(x, dim):
    result = torch.zeros_like(x)
    rows, shares = x.movedim(dim, 0), result.movedim(dim, 0)
    largest = rows[0]
    for row in rows:
        largest = torch.maximum(largest, row)
    total = sum(torch.exp(row - largest) for row in rows)
    for i, row in enumerate(rows):
        shares[i] = torch.exp(row - largest) / total
    return result


@softmax.alternative
def in_single_precision(x, dim):
    return F.softmax(x, dim=dim, dtype=torch.float32)


@softmax.alternative
def by_unsqueezing(x, dim):
    largest, _ = x.max(dim)
    exponentials = (x - largest.unsqueeze(dim)).exp()
    return exponentials / exponentials.sum(dim).unsqueeze(dim)


@softmax.alternative
def by_pairwise_differences(x, dim):
    x = x.movedim(dim, -1)
    # exp of a difference may be inf, and 1 / inf = 0 is the right share
    return (1 / torch.exp(x.unsqueeze(-2) - x.unsqueeze(-1)).sum(-1)).movedim(-1, dim)
