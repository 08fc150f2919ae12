"""The exercise `softmax`: what must hold, and what people really write instead."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from course_lib import start_here
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
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


@softmax.property("the numbers along dim are not negative and add up to 1", points=1)
def softmax_sums_to_one(subject, case):
    x, dim = case.values()
    got = softmax_of(subject, x, dim)
    expect(got.min() >= 0, f"There is a negative share, {got.min():.4g}. exp(x) is never negative.")
    sums = got.sum(dim=dim)
    expect_close(sums, torch.ones_like(sums), f"the sum of the result along dim = {dim}")


@softmax.property("along dim it is exp(x) divided by the sum of exp(x)", points=1)
def softmax_values(subject, case):
    x, dim = case.values()
    expect_close(subject(x, dim), start_here.softmax(x, dim), "the softmax")


@softmax.property("a gradient flows through it", points=1)
def softmax_gradient(subject, case):
    x, dim = case.values()
    first = (0,) * x.dim()
    slope = subject.gradient(x, dim, wrt=0, at=first)
    expect(slope.any(), "No gradient reaches x: somewhere the numbers leave torch's graph.")
    want = Subject(start_here.softmax).gradient(x, dim, wrt=0, at=first)
    expect_close(slope, want, "the gradient of the first share with respect to x")


@softmax.property("numbers near ±10 000 do no harm", points=2)
def softmax_far_from_zero(subject, case):
    """The same numbers moved far away keep their shares; one number far above the others takes everything."""
    x, dim = case.values()
    x = (4 * x).round() / 4
    want = start_here.softmax(x, dim)
    expect_close(subject(x + FAR, dim), want, f"the softmax of x + {FAR:g} (the shares are those of x)")
    slices = x.select(dim, 0)
    signs = 1 - 2 * (torch.arange(slices.numel()) % 2)  # +1, -1, +1, …
    levels = FAR * signs.reshape(slices.shape).unsqueeze(dim)
    far = f"x {FAR:g} up in one slice along dim, {FAR:g} down in the next"
    expect_close(subject(x + levels, dim), want, f"the softmax of {far} (the shares are those of x)")
    expect_close(subject(x - FAR, dim), want, f"the softmax of x - {FAR:g} (the shares are those of x)")
    for gap in (800.0, FAR):
        lonely = x.clone()
        lonely.select(dim, 0).add_(gap)
        want = start_here.softmax(lonely, dim)
        expect_close(subject(lonely, dim), want, f"the softmax of x with {gap:g} added to the first number along dim")


@softmax.misconception
def always_the_last_axis(x, dim):
    """You always normalise along the last axis. The caller says in dim which axis it shall be."""
    largest = x.max(dim=-1, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total


@softmax.misconception
def always_axis_0(x, dim):
    """You always normalise along axis 0, so different examples of a batch share out one total. The caller says in
    dim which axis it shall be."""
    largest = x.max(dim=0, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=0, keepdim=True)
    return exponentials / total


@softmax.misconception
def always_axis_1(x, dim):
    """You always normalise along axis 1. The caller says in dim which axis it shall be."""
    largest = x.max(dim=1, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=1, keepdim=True)
    return exponentials / total


@softmax.misconception
def sum_without_keepdim(x, dim):
    """Your sum has lost its axis, so broadcasting lines it up with another one: an error at best, and with a square
    x a silent division by the wrong row's total. Keep the axis, with length 1."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim)
    return exponentials / total


@softmax.misconception
def maximum_without_keepdim(x, dim):
    """Your maximum has lost its axis, so broadcasting subtracts it along another one: an error, or with a square x
    the wrong row's maximum. Keep the axis, with length 1."""
    largest = x.max(dim=dim).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def puts_the_axis_back_at_the_end(x, dim):
    """Your sum gets its lost axis back at the end. It has to come back where it was, at dim: only for the last axis is
    that the same place."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim).unsqueeze(-1)
    return exponentials / total


@softmax.misconception
def drops_the_minus_sign(x, dim):
    """You treat dim = -2 like dim = 2. A negative dim counts from the end: -1 is the last axis. Torch's functions
    understand it as it is."""
    dim = abs(dim)
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def subtracts_the_overall_maximum(x, dim):
    """You subtract the largest number of the whole tensor. A slice that lies far below it becomes all zeros, and
    0 / 0 is NaN: each slice along dim needs a maximum of its own."""
    largest = x.max()
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def one_total_for_everything(x, dim):
    """Your whole tensor adds up to 1 together. Each slice along dim is a distribution of its own and has its own
    total."""
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
    """Your sum always runs along the last axis. The caller says in dim which axis it shall be."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total


@softmax.misconception
def adds_up_along_axis_0(x, dim):
    """Your sum always runs along axis 0. The caller says in dim which axis it shall be."""
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
    """You subtract the mean along dim. A number far above the mean still overflows: only the maximum makes every
    exponent at most 0."""
    largest = x.mean(dim=dim, keepdim=True)
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def subtracts_the_smallest(x, dim):
    """You subtract the smallest number along dim, so no exponent is negative, but the large ones still overflow. It is
    the large exponents that do harm."""
    largest = x.min(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def clips_large_numbers(x, dim):
    """You cut large numbers off before the exponential. Nothing overflows, but all numbers beyond the limit become
    equal: cutting off changes the shares, subtracting does not."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x.clamp(min=-50, max=50))
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def replaces_nan_afterwards(x, dim):
    """You replace NaN after the division. By then the overflow has destroyed the shares: prevent it before the
    exponential."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return torch.nan_to_num(exponentials / total)


@softmax.misconception
def divides_by_the_maximum(x, dim):
    """You divide by the largest number instead of subtracting it. Division changes how far apart the numbers are, and
    with that the shares."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x / largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def turns_the_sign_around(x, dim):
    """Your signs are turned around: the smallest number gets the largest share."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(largest - x)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def forgets_the_exponential(x, dim):
    """There is no exponential: x divided by its sum can be negative, and the sum can be 0."""
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
    """You divide by the mean of the exponentials, so the shares average 1. Their sum has to be 1."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.mean(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def divides_by_the_length(x, dim):
    """You divide by the Euclidean length, so the squares add up to 1. The shares themselves have to."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.norm(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def returns_the_exponentials(x, dim):
    """You return the exponentials: the largest of them is 1, and their sum is not. They still have to be divided by
    their sum."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials


@softmax.misconception
def returns_logarithms(x, dim):
    """These are the logarithms of the shares (a log-softmax): negative numbers. The shares themselves are wanted."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return torch.log(exponentials / total)


@softmax.misconception
def normalises_twice(x, dim):
    """This is a softmax of a softmax: the shares of the shares, which are nearly all alike. Once is enough."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return torch.softmax(exponentials / total, dim)


@softmax.misconception
def takes_what_max_returns(x, dim):
    """x.max(dim) returns two tensors, the largest numbers and their places. Take the values, or use x.amax."""
    largest = x.max(dim=dim, keepdim=True)
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def winner_takes_all(x, dim):
    """You give 1 to the largest number and 0 to the others. A softmax is soft: every number gets its share."""
    largest = x.max(dim=dim, keepdim=True).values
    return (x == largest).to(x.dtype)


@softmax.misconception
def divides_by_the_root_of_the_size(x, dim):
    """You divide x by the square root of its size first. That belongs to attention, where it is done outside of the
    softmax."""
    x = x / x.shape[dim] ** 0.5
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@softmax.misconception
def is_a_sigmoid(x, dim):
    """This is a sigmoid: each number by itself between 0 and 1. In a softmax the numbers along dim compete for one
    total of 1."""
    return torch.sigmoid(x)


@softmax.misconception
def leaves_the_axis_moved(x, dim):
    """You moved dim to the end and did not move it back: the axes of the result are in another order than those of
    x."""
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
    """The numbers are right, but no gradient comes back through them: they were cut out of torch's graph (by detach,
    item, tolist, or a new tensor made of plain numbers). Nothing below this softmax could learn."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)
    return (exponentials / total).detach()


@softmax.misconception
def computes_in_numpy(x, dim):
    """You compute in numpy, which knows no gradients, so torch refuses as soon as x needs one. Use torch's own
    functions all the way."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.from_numpy(np.exp((x - largest).numpy()))
    total = exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


# Last, so that in a pair the coarser mistake is told first.
@softmax.misconception
def overflows(x, dim):
    """exp of a large number is inf, and inf / inf is NaN. Subtracting one number from all the numbers along dim
    changes no share: choose it so that no exponent is large."""
    largest = x.max(dim=dim, keepdim=True).values
    exponentials = torch.exp(x)
    total = exponentials.sum(dim=dim, keepdim=True)
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
