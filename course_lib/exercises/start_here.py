"""Warm-up exercises: what must hold, and what people really write instead."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from course_lib import start_here
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_close,
    expect_floats,
    expect_tensor,
    expect_tuple,
    sentence,
)
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject

# --- softmax --------------------------------------------------------------------------------------------

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


# --- squared_distances ----------------------------------------------------------------------------------

squared_distances = Exercise(
    start_here.squared_distances,
    cases=[
        {"a": normal(1, 2, 2, seed=11), "b": normal(1, 3, 2, seed=12)},
        {"a": normal(2, 3, 5, seed=13), "b": normal(2, 4, 5, seed=14)},
        {"a": normal(3, 4, 2, seed=15, scale=3), "b": normal(3, 4, 2, seed=16, scale=3)},
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Write down the shape you want in the end, (batch, n, m), and the one before the sum, (batch, n, m, d). "
        "Which axis is missing in a, which in b?",
        "a needs an axis of length 1 where the m points of b will go, b one where the n points of a will go.",
        "a.unsqueeze(2) has shape (batch, n, 1, d). Subtract a b of shape (batch, 1, m, d), square, add up over d.",
        "(a.unsqueeze(2) - b.unsqueeze(1)).pow(2).sum(dim=3)",
    ],
)


@squared_distances.property("one number for each pair of points: (batch, n, m)", points=1)
def distances_shape(subject, case):
    a, b = case.values()
    expect_floats(subject(a, b), (a.shape[0], a.shape[1], b.shape[1]), "the table of distances")


@squared_distances.property("a point is at distance 0 from itself, and no distance is negative", points=1)
def distances_to_oneself(subject, case):
    a, _ = case.values()
    got = expect_floats(subject(a, a), (a.shape[0], a.shape[1], a.shape[1]), "the table of distances from a to a")
    expect(got.min() > -1e-4, f"With b = a there is a negative number, {got.min():.4g}. Squares are never negative.")
    own = got.diagonal(dim1=1, dim2=2)
    expect(
        own.abs().max() < 1e-4,
        f"With b = a the diagonal should be 0 (each point compared with itself), but it holds {own.abs().max():.4g}.",
    )


@squared_distances.property("the examples of a batch do not mix", points=1)
def distances_batch(subject, case):
    a, b = case.values()
    together = expect_floats(subject(a, b), (a.shape[0], a.shape[1], b.shape[1]), "the table of distances")
    alone = subject(a[-1:], b[-1:])
    expect_close(alone, together[-1:], "the table of the last example alone, compared with its table in the batch,")


@squared_distances.property("entry [s, i, j] is the sum over k of (a[s, i, k] - b[s, j, k])²", points=2)
def distances_values(subject, case):
    expect_close(subject(*case.values()), start_here.squared_distances(**case), "the table of distances")


@squared_distances.misconception
def has_a_and_b_exchanged(a, b):
    """Your table is turned over: a runs along the columns and b along the rows. Entry [i, j] belongs to point i of a
    and point j of b."""
    left = a.unsqueeze(1)
    right = b.unsqueeze(2)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def compares_point_by_point(a, b):
    """You compare point i of a with point i of b only. Each point of a has to meet every point of b: without a new
    axis in both, broadcasting has nothing to spread."""
    left = a
    right = b
    differences = left - right
    return differences.pow(2).sum(dim=2)


@squared_distances.misconception
def unsqueezes_the_batch(a, b):
    """Your new axes stand before the batch axis, so examples are compared with one another. The new axes belong
    behind it."""
    left = a.unsqueeze(1)
    right = b.unsqueeze(0)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def unsqueezes_the_end(a, b):
    """Your new axes stand beside the coordinates, so coordinates are compared with one another instead of points."""
    left = a.unsqueeze(3)
    right = b.unsqueeze(2)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def both_new_axes_in_front(a, b):
    """Both tensors got their new axis in the same place, in front of the points, so points are still compared one to
    one. The new axis of a has to stand where the points of b are, and the other way round."""
    left = a.unsqueeze(1)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def both_new_axes_behind(a, b):
    """Both tensors got their new axis in the same place, behind the points, so points are still compared one to one.
    The new axis of a has to stand where the points of b are, and the other way round."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(2)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def takes_the_root(a, b):
    """You took the square root: these are the distances. Their squares are wanted."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3).sqrt()


@squared_distances.misconception
def takes_absolute_values(a, b):
    """You add up absolute values. Each difference has to be squared."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.abs().sum(dim=3)


@squared_distances.misconception
def forgets_the_square(a, b):
    """The differences are added up without being squared, so positive and negative ones cancel out."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.sum(dim=3)


@squared_distances.misconception
def squares_the_sum(a, b):
    """You add up first and square afterwards, so positive and negative differences cancel out. Square each difference,
    then add up."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.sum(dim=3).pow(2)


@squared_distances.misconception
def squares_before_subtracting(a, b):
    """You square the coordinates and then subtract. It is the difference that has to be squared."""
    left = a.unsqueeze(2).pow(2)
    right = b.unsqueeze(1).pow(2)
    differences = left - right
    return differences.sum(dim=3)


@squared_distances.misconception
def takes_the_mean(a, b):
    """You take the mean over the coordinates. The sum is wanted."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).mean(dim=3)


@squared_distances.misconception
def adds_the_points(a, b):
    """You add the two points. A distance comes from their difference."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left + right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def takes_dot_products(a, b):
    """These are dot products, which are large for vectors that agree. A distance is small for them."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left * right
    return differences.sum(dim=3)


@squared_distances.misconception
def sums_over_the_points_of_b(a, b):
    """Your sum runs over the points of b, not over the coordinates: the axis of length d is still there."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=2)


@squared_distances.misconception
def sums_over_the_points_of_a(a, b):
    """Your sum runs over the points of a, not over the coordinates: the axis of length d is still there."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=1)


@squared_distances.misconception
def forgets_the_sum(a, b):
    """You return the squares of the single coordinates: they still have to be added up over the last axis."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2)


@squared_distances.misconception
def keeps_the_summed_axis(a, b):
    """The axis you added up is still there with length 1. Here it has to go."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3, keepdim=True)


@squared_distances.misconception
def sums_everything(a, b):
    """You added up everything there is: one number is left. Only the coordinates, the last axis, have to go."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum()


@squared_distances.misconception
def drops_the_batch(a, b):
    """You return the table of the first example only. There is one for each example of the batch."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3)[0]


@squared_distances.misconception
def forgets_the_two(a, b):
    """In (a - b)² = a² - 2ab + b² you forgot the factor 2 of the middle term."""
    left = a.pow(2).sum(dim=2).unsqueeze(2)
    right = b.pow(2).sum(dim=2).unsqueeze(1)
    return left + right - a @ b.transpose(1, 2)


@squared_distances.misconception
def only_the_first_example(a, b):
    """Every example of a is compared with the points of b's first example. Example s of a belongs to example s of
    b."""
    left = a.unsqueeze(2)
    right = b[0].unsqueeze(0)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.alternative
def by_three_loops(a, b):
    batch, n, _ = a.shape
    result = torch.zeros(batch, n, b.shape[1], dtype=a.dtype)
    for s in range(batch):
        for i in range(n):
            for j in range(b.shape[1]):
                result[s, i, j] = ((a[s, i] - b[s, j]) ** 2).sum()
    return result


@squared_distances.alternative
def with_none(a, b):
    return torch.square(a[:, :, None] - b[:, None]).sum(-1)


@squared_distances.alternative
def with_cdist(a, b):
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist") ** 2


@squared_distances.alternative
def by_the_binomial_formula(a, b):
    return (a**2).sum(-1, keepdim=True) + (b**2).sum(-1).unsqueeze(1) - 2 * torch.bmm(a, b.transpose(1, 2))


@squared_distances.alternative
def turned_over_and_back(a, b):
    differences = b[:, :, None, :] - a[:, None, :, :]
    return torch.einsum("smnd,smnd->snm", differences, differences).float()


@squared_distances.alternative
def by_repetition(a, b):
    n, m = a.size(1), b.size(1)
    repeated_a = a.repeat_interleave(m, dim=1)
    repeated_b = b.repeat(1, n, 1)
    return F.mse_loss(repeated_a, repeated_b, reduction="none").sum(-1).reshape(-1, n, m)


# --- batch_matmul ---------------------------------------------------------------------------------------

batch_matmul = Exercise(
    start_here.batch_matmul,
    cases=[
        {"a": normal(1, 2, 3, seed=21), "b": normal(1, 3, 2, seed=22)},
        {"a": normal(2, 3, 4, seed=23), "b": normal(2, 4, 5, seed=24)},
        {"a": normal(3, 2, 2, seed=25, scale=3), "b": normal(3, 2, 2, seed=26, scale=3)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Do it for one example first: a[0] @ b[0]. Then for all of them, one after the other, in a loop.",
        "In the loop version, collect the products in a list; torch.stack makes one tensor (batch, n, m) of them.",
        "Now without the loop: torch treats all axes but the last two as batch axes. Which operator does that?",
        "a @ b, or torch.bmm(a, b), or torch.einsum('snk,skm->snm', a, b).",
    ],
)


@batch_matmul.property("one matrix n × m for each example: (batch, n, m)", points=1)
def matmul_shape(subject, case):
    a, b = case.values()
    expect_floats(subject(a, b), (a.shape[0], a.shape[1], b.shape[2]), "the product")


@batch_matmul.property("a product with the unit matrix changes nothing", points=1)
def matmul_with_identity(subject, case):
    a, _ = case.values()
    identity = torch.eye(a.shape[2], dtype=a.dtype).repeat(a.shape[0], 1, 1)
    expect_close(subject(a, identity), a, "the product of a with unit matrices")


@batch_matmul.property("the examples of a batch do not mix", points=1)
def matmul_batch(subject, case):
    a, b = case.values()
    together = expect_floats(subject(a, b), (a.shape[0], a.shape[1], b.shape[2]), "the product")
    alone = subject(a[-1:], b[-1:])
    expect_close(alone, together[-1:], "the product of the last example alone, compared with its product in the batch,")


@batch_matmul.property("entry [s, i, j] is the sum over k of a[s, i, k] · b[s, k, j]", points=2)
def matmul_values(subject, case):
    expect_close(subject(*case.values()), start_here.batch_matmul(**case), "the product")


@batch_matmul.misconception
def multiplies_entry_by_entry(a, b):
    """* multiplies entry by entry. A matrix product adds up products of a row with a column."""
    return a * b


@batch_matmul.misconception
def transposes_b(a, b):
    """You multiply rows of a with rows of b: b is transposed once too often."""
    return a @ b.transpose(1, 2)


@batch_matmul.misconception
def transposes_each_b(a, b):
    """You multiply rows of a with rows of b: each matrix of b is transposed once too often."""
    return torch.stack([one @ other.T for one, other in zip(a, b, strict=True)])


@batch_matmul.misconception
def reshapes_b(a, b):
    """You reshape b. A reshape does not exchange rows and columns, it deals the numbers out anew, and b has the right
    shape already."""
    return a @ b.reshape(b.shape[0], b.shape[2], b.shape[1])


@batch_matmul.misconception
def transposes_a(a, b):
    """You multiply columns of a with columns of b: a is transposed once too often."""
    return a.transpose(1, 2) @ b


@batch_matmul.misconception
def takes_the_first_b_for_all(a, b):
    """Every example is multiplied with the first matrix of b. Example s of a belongs to example s of b."""
    return a @ b[0]


@batch_matmul.misconception
def takes_the_first_a_for_all(a, b):
    """Only the first matrix of a is used, for every example. Example s of a belongs to example s of b."""
    return a[0] @ b


@batch_matmul.misconception
def multiplies_every_example_with_every_other(a, b):
    """Each example of a is multiplied with each example of b, so there are two batch axes. Example s belongs to
    example s alone."""
    return torch.tensordot(a, b, dims=([2], [1]))


@batch_matmul.misconception
def adds_up_over_the_batch(a, b):
    """You add up over the examples too, so every result holds the matrices of all of them."""
    return a @ b.sum(dim=0)


@batch_matmul.misconception
def loses_the_batch(a, b):
    """You added up over the batch: one matrix is left. Each example keeps a product of its own."""
    return (a @ b).sum(dim=0)


@batch_matmul.misconception
def keeps_only_the_last_example(a, b):
    """Only the product of the last example is left: a loop has to collect the products of all its rounds."""
    return (a @ b)[-1]


@batch_matmul.misconception
def keeps_only_the_first_example(a, b):
    """Only the product of the first example comes back, perhaps because a `return` stands inside the loop. Collect the
    products of all examples."""
    return (a @ b)[0]


@batch_matmul.misconception
def returns_a_list(a, b):
    """You return a list of matrices. One tensor of shape (batch, n, m) is wanted: stack them."""
    return list(a @ b)


@batch_matmul.misconception
def keeps_only_the_last_term(a, b):
    """Only the last term of each sum over k is left: every term overwrites the one before it. Add them up."""
    return a[:, :, -1:] @ b[:, -1:]


@batch_matmul.misconception
def returns_the_transpose(a, b):
    """Each product comes out transposed: rows belong to a, columns to b."""
    return (a @ b).transpose(1, 2)


@batch_matmul.misconception
def multiplies_in_the_wrong_order(a, b):
    """You compute b times a. A matrix product depends on the order: a comes first."""
    return b @ a


@batch_matmul.misconception
def averages(a, b):
    """You take the mean over the shared axis. A matrix product takes the sum."""
    return a @ b / a.shape[2]


@batch_matmul.misconception
def forgets_the_sum_over_k(a, b):
    """You return the single products a[s, i, k] · b[s, k, j]: they still have to be added up over k."""
    return a.unsqueeze(3) * b.unsqueeze(1)


@batch_matmul.misconception
def sums_over_the_columns(a, b):
    """You added up over the columns of b. The axis that a and b share, of length k, has to go."""
    return (a.unsqueeze(3) * b.unsqueeze(1)).sum(dim=3)


@batch_matmul.misconception
def sums_over_the_rows(a, b):
    """You added up over the rows of a. The axis that a and b share, of length k, has to go."""
    return (a.unsqueeze(3) * b.unsqueeze(1)).sum(dim=1)


@batch_matmul.misconception
def glues_the_products_together(a, b):
    """The products are joined along an axis that they have already, so the batch axis is gone. They need a new axis:
    torch.stack, not torch.cat."""
    return (a @ b).flatten(0, 1)


@batch_matmul.misconception
def stacks_along_axis_1(a, b):
    """The batch axis has come to stand second. It belongs in front: (batch, n, m)."""
    return (a @ b).movedim(0, 1)


@batch_matmul.misconception
def stacks_along_the_end(a, b):
    """The batch axis has come to stand last. It belongs in front: (batch, n, m)."""
    return (a @ b).movedim(0, -1)


@batch_matmul.misconception
def takes_torch_mm(a, b):
    """torch.mm knows no batches, only two matrices. There is a function for batches of matrices, and an operator."""
    return torch.mm(a, b)


@batch_matmul.misconception
def reverses_all_axes(a, b):
    """.T turns all axes around, the batch axis too. Here nothing has to be transposed."""
    return a @ b.T


@batch_matmul.alternative
def by_broadcasting(a, b):
    products = a.unsqueeze(3) * b.unsqueeze(1)  # (batch, n, k, m)
    return products.sum(dim=2)


@batch_matmul.alternative
def with_bmm(a, b):
    return torch.bmm(a, b)


@batch_matmul.alternative
def by_a_loop(a, b):
    return torch.stack([one @ other for one, other in zip(a, b, strict=True)])


@batch_matmul.alternative
def with_einsum(a, b):
    return torch.einsum("zij,zjk->zik", a, b)


@batch_matmul.alternative
def by_four_loops(a, b):
    (batch, n, _), m = a.shape, b.shape[2]
    result = torch.zeros(batch, n, m)
    for s in range(batch):
        for i in range(n):
            for j in range(m):
                for left, right in zip(a[s, i], b[s, :, j], strict=True):
                    result[s, i, j] += left * right
    return result


@batch_matmul.alternative
def transposed_twice(a, b):
    return (b.mT @ a.mT).mT


@batch_matmul.alternative
def by_outer_products(a, b):
    return sum(a[:, :, k, None] * b[:, None, k, :] for k in range(a.shape[-1]))


# --- pad_batch ------------------------------------------------------------------------------------------

pad_batch = Exercise(
    start_here.pad_batch,
    cases=[
        {
            "sequences": [torch.tensor([5, 6]), torch.tensor([7, 8, 9, 3]), torch.tensor([4])],
            "pad_id": 1,
            "max_len": None,
        },
        {
            "sequences": [torch.tensor([3, 2, 5, 6, 8]), torch.tensor([7, 9]), torch.tensor([6, 3, 4])],
            "pad_id": 2,
            "max_len": 4,
        },
        {
            "sequences": [torch.tensor([8, 0]), torch.tensor([5, 0, 7, 0])],
            "pad_id": 0,
            "max_len": 6,
        },
        {
            "sequences": [
                torch.tensor([4, 5, 9]),
                torch.tensor([6, 7, 8, 5, 4]),
                torch.tensor([9]),
                torch.tensor([8, 6]),
            ],
            "pad_id": 7,
            "max_len": 2,
        },
    ],
    minutes=15,
    difficulty=2,
    hints=[
        "First settle the width of the rectangle. There are two cases: max_len is None, or it is a number.",
        "Begin with a rectangle that is all pad_id (torch.full) and write each sequence over the start of its row.",
        "sequence[:width] cuts off what is too long and leaves the rest as it is. Its len is the length you want.",
        "batch[row, : len(kept)] = kept, and lengths.append(len(kept)), in a loop over enumerate(sequences).",
    ],
)


def padded(subject, case):
    """What the subject makes of a case: batch and lengths, examined as far as type and shape. None is left out."""
    sequences, pad_id, max_len = case.values()
    limit = () if max_len is None else (max_len,)
    batch, lengths = expect_tuple(subject(sequences, pad_id, *limit), ("batch", "lengths"))
    want, _ = start_here.pad_batch(**case)
    return expect_integers(batch, tuple(want.shape), "the batch"), expect_integers(
        lengths, (len(sequences),), "the tensor of lengths"
    )


def expect_integers(got, shape, what):
    """`got` is a tensor of whole numbers of this shape."""
    got = expect_tensor(got, shape, what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contains NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold integers, but its dtype is {got.dtype}.")
    return got


@pad_batch.property("a batch (batch, width) and lengths (batch,), both of integers", points=1)
def padded_shapes(subject, case):
    padded(subject, case)


@pad_batch.property("the lengths count the real entries of each row", points=1)
def padded_lengths(subject, case):
    _, lengths = padded(subject, case)
    _, want = start_here.pad_batch(**case)
    expect(
        lengths.tolist() == want.tolist(),
        f"The lengths should be {want.tolist()}, but they are {lengths.tolist()}.",
    )


@pad_batch.property("each row begins with its sequence, or with as much of it as fits", points=2)
def padded_content(subject, case):
    batch, _ = padded(subject, case)
    want, lengths = start_here.pad_batch(**case)
    for row, length in enumerate(lengths.tolist()):
        begins, should = batch[row, :length].tolist(), want[row, :length].tolist()
        expect(begins == should, f"Row {row} should begin with {should}, but it begins with {begins}.")


@pad_batch.property("everything behind it is pad_id", points=1)
def padded_rest(subject, case):
    batch, _ = padded(subject, case)
    _, lengths = start_here.pad_batch(**case)
    for row, length in enumerate(lengths.tolist()):
        rest = batch[row, length:].tolist()
        expect(
            rest == [case["pad_id"]] * len(rest),
            f"Row {row} has {length} real entries; behind them should be {case['pad_id']} (pad_id) only, "
            f"but there is {rest}.",
        )


@pad_batch.misconception
def ignores_max_len(sequences, pad_id, max_len=None):
    """max_len is accepted but never used: the batch is always as wide as its longest sequence."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def never_wider_than_the_longest(sequences, pad_id, max_len=None):
    """You use max_len only to cut off. If it is given the batch is exactly so wide, also when no sequence is that
    long."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else min(longest, max_len)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def never_truncates(sequences, pad_id, max_len=None):
    """You use max_len only to widen. If it is given the batch is exactly so wide: longer sequences lose their end."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max(longest, max_len)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def forgets_to_cut(sequences, pad_id, max_len=None):
    """A sequence longer than max_len does not fit into its row: it has to be cut off before it is written there."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def lengths_before_truncation(sequences, pad_id, max_len=None):
    """Your lengths are those before the cut, so some are larger than the batch is wide. Count what is really in the
    row."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(sequence)
    return batch, lengths


@pad_batch.misconception
def lengths_are_the_width(sequences, pad_id, max_len=None):
    """Every length of yours is the width of the batch. A length counts the real entries of its row, without the
    padding."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = width
    return batch, lengths


@pad_batch.misconception
def lengths_count_the_padding(sequences, pad_id, max_len=None):
    """You count the padding of each row. The lengths count what is real."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = width - len(kept)
    return batch, lengths


@pad_batch.misconception
def lengths_are_last_positions(sequences, pad_id, max_len=None):
    """Your lengths are one too small: they are the positions of the last real entries, counted from 0."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept) - 1
    return batch, lengths


@pad_batch.misconception
def lengths_by_value(sequences, pad_id, max_len=None):
    """You count the entries that differ from pad_id, but a real entry may have the same value. Count the entries of
    the sequence itself."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = (kept != pad_id).sum()
    return batch, lengths


@pad_batch.misconception
def lengths_by_nonzero(sequences, pad_id, max_len=None):
    """You count the entries that are not 0, but padding need not be 0, and a real entry may be. Count the entries of
    the sequence itself."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = (batch[row] != 0).sum()
    return batch, lengths


@pad_batch.misconception
def keeps_the_end(sequences, pad_id, max_len=None):
    """You cut off the beginning of a sequence that is too long. Its end has to go, its beginning stays."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[-width:]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def pads_on_the_left(sequences, pad_id, max_len=None):
    """Your padding stands before the sequence. Here it belongs behind it."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, width - len(kept) :] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def pads_with_zero(sequences, pad_id, max_len=None):
    """You pad with 0 whatever pad_id is. The caller says which value marks a free place."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), 0)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def repeats_the_last_entry(sequences, pad_id, max_len=None):
    """You fill a row by repeating its last entry. A free place has to hold pad_id."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row] = kept[-1]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def pads_with_minus_one(sequences, pad_id, max_len=None):
    """You pad with -1 whatever pad_id is. The caller says which value marks a free place."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), -1)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def keeps_room_for_padding(sequences, pad_id, max_len=None):
    """You cut off one entry too many: a sequence may fill its row to the last place."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[: width - 1]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def one_column_too_many(sequences, pad_id, max_len=None):
    """Your batch is one column too wide: even the longest row ends in padding."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width + 1), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def as_wide_as_the_first(sequences, pad_id, max_len=None):
    """You take the length of the first sequence as the width. Another one may be longer."""
    longest = len(sequences[0])
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def as_wide_as_the_shortest(sequences, pad_id, max_len=None):
    """You cut everything down to the shortest sequence. The longest one sets the width, and the others are padded."""
    longest = min((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def as_wide_as_the_batch_is_large(sequences, pad_id, max_len=None):
    """You take the number of sequences for the width. The batch size counts sequences (rows); the width counts time
    steps (columns)."""
    longest = len(sequences)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def puts_time_first(sequences, pad_id, max_len=None):
    """Your batch is (time, batch): each sequence stands in a column. In this course the batch axis comes first."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch.T, lengths


@pad_batch.misconception
def drops_long_sequences(sequences, pad_id, max_len=None):
    """You leave out the sequences that are too long. They stay in the batch, without their end."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    sequences = [sequence for sequence in sequences if len(sequence) <= width]
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def sorts_by_length(sequences, pad_id, max_len=None):
    """You sort the sequences by length, so row i no longer belongs to sequence i. Keep their order."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    sequences = sorted(sequences, key=len, reverse=True)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def makes_floats(sequences, pad_id, max_len=None):
    """Your ids have become floating point numbers (torch.zeros and torch.ones make them by default). An id is an
    index, and an embedding accepts integers only."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), float(pad_id))
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def returns_lengths_first(sequences, pad_id, max_len=None):
    """The two results stand in the wrong order: the batch comes first, the lengths second."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return lengths, batch


@pad_batch.misconception
def returns_only_the_batch(sequences, pad_id, max_len=None):
    """The lengths are missing. Without them nobody can tell real entries from padding: return (batch, lengths)."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch


@pad_batch.alternative
def with_pad_sequence(sequences, pad_id, max_len=None):
    kept = [sequence[:max_len] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in kept])
    batch = pad_sequence(kept, batch_first=True, padding_value=pad_id)
    if max_len is not None:
        batch = F.pad(batch, (0, max_len - batch.shape[1]), value=pad_id)
    return batch, lengths


@pad_batch.alternative
def with_lists(sequences, pad_id, max_len=None):
    width = max(map(len, sequences)) if max_len is None else max_len
    rows = [(sequence.tolist() + [pad_id] * width)[:width] for sequence in sequences]
    return torch.tensor(rows), torch.tensor([min(len(sequence), width) for sequence in sequences])


@pad_batch.alternative
def with_concatenation(sequences, pad_id, max_len=None):
    if max_len is None:
        max_len = max(s.numel() for s in sequences)
    rows = [torch.cat([s[:max_len], s.new_full((max(0, max_len - len(s)),), pad_id)]) for s in sequences]
    lengths = torch.tensor([s.numel() for s in sequences]).clamp(max=max_len)
    return torch.stack(rows, dim=1).T, lengths.int()


@pad_batch.alternative
def entry_by_entry(sequences, pad_id, max_len=None):
    width = max_len or max(len(s) for s in sequences)
    batch = torch.ones(len(sequences), width, dtype=torch.int32) * pad_id
    lengths = []
    for i, s in enumerate(sequences):
        n = 0
        for j in range(width):
            if j < len(s):
                batch[i, j] = s[j]
                n += 1
        lengths.append(n)
    return [batch, torch.tensor(lengths)]


@pad_batch.alternative
def by_indexing_one_long_tensor(sequences, pad_id, max_len=None):
    lengths = torch.tensor([len(s) for s in sequences])
    width = int(lengths.max()) if max_len is None else max_len
    flat = torch.cat(list(sequences))
    starts = lengths.cumsum(0) - lengths
    columns = torch.arange(width)
    places = (starts[:, None] + columns).clamp(max=len(flat) - 1)
    return torch.where(columns < lengths[:, None], flat[places], pad_id), lengths.clamp(max=width)
