"""The exercise `squared_distances`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from course_lib import start_here
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal

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


@squared_distances.property("there is one number for each pair of points: (batch, n, m)", points=1)
def distances_shape(subject, case):
    a, b = case.values()
    expect_floats(subject(a, b), (a.shape[0], a.shape[1], b.shape[1]), "the table of distances")


@squared_distances.property("a point is at distance 0 from itself, and further away from every other point", points=1)
def distances_to_oneself(subject, case):
    a, _ = case.values()
    got = expect_floats(subject(a, a), (a.shape[0], a.shape[1], a.shape[1]), "the table of distances from a to a")
    expect(got.min() > -1e-4, f"With b = a there is a negative number, {got.min():.4g}. Squares are never negative.")
    own = got.diagonal(dim1=1, dim2=2)
    expect(
        own.abs().max() < 1e-4,
        f"With b = a the diagonal should be 0 (each point compared with itself), but it holds {own.abs().max():.4g}.",
    )
    merged = (start_here.squared_distances(a, a) > 1e-3) & (got <= 1e-6)
    expect(
        not merged.any(),
        "With b = a there is a 0 off the diagonal, as if two different points were the same.",
    )


@squared_distances.property("it is right for a batch of one example", points=1)
def distances_of_one_example(subject, case):
    a, b = (points[-1:] for points in case.values())
    what = f"for the last example alone (a {tuple(a.shape)}, b {tuple(b.shape)}), the table of distances"
    expect_close(subject(a, b), start_here.squared_distances(a, b), what)


@squared_distances.property("entry [s, i, j] is the sum over f of (a[s, i, f] - b[s, j, f])²", points=2)
def distances_values(subject, case):
    expect_close(subject(*case.values()), squared_distances.want(case), "the table of distances")


@squared_distances.misconception
def has_a_and_b_exchanged(a, b):
    """Your table is transposed: a runs along the columns and b along the rows. Entry [i, j] belongs to point i of a and
    point j of b."""
    left = a.unsqueeze(1)
    right = b.unsqueeze(2)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def compares_point_by_point(a, b):
    """You compare point i of a with point i of b only. Each point of a has to meet every point of b: without a new axis
    in both, broadcasting has nothing to expand."""
    left = a
    right = b
    differences = left - right
    return differences.pow(2).sum(dim=2)


@squared_distances.misconception
def unsqueezes_the_batch(a, b):
    """Your new axes come before the batch axis. They belong after it.

    Examples are compared with one another.
    """
    left = a.unsqueeze(1)
    right = b.unsqueeze(0)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def unsqueezes_the_end(a, b):
    """Your new axes are next to the coordinates. They belong next to the points.

    Coordinates are compared with one another instead of points.
    """
    left = a.unsqueeze(3)
    right = b.unsqueeze(2)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def new_axis_of_b_at_the_end(a, b):
    """Your new axis of b comes after its coordinates. It belongs where the points of a are.

    Coordinates are compared with one another instead of points.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(3)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def both_new_axes_in_front(a, b):
    """Both tensors got their new axis in the same place, before the points. The new axis of a has to be where the
    points of b are, and the other way round.

    Points are still compared one to one.
    """
    left = a.unsqueeze(1)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def both_new_axes_behind(a, b):
    """Both tensors got their new axis in the same place, after the points. The new axis of a has to be where the points
    of b are, and the other way round.

    Points are still compared one to one.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(2)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def takes_the_root(a, b):
    """You take a square root. Return the squared distances.

    These are the distances themselves.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3).sqrt()


@squared_distances.misconception
def takes_absolute_values(a, b):
    """You take the absolute value of each difference. Square it instead."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.abs().sum(dim=3)


@squared_distances.misconception
def forgets_the_square(a, b):
    """You do not square the differences.

    Positive and negative ones cancel out.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.sum(dim=3)


@squared_distances.misconception
def squares_the_sum(a, b):
    """You add up first and square afterwards. Square each difference, then add up.

    Positive and negative differences cancel out.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.sum(dim=3).pow(2)


@squared_distances.misconception
def squares_before_subtracting(a, b):
    """You square the coordinates and then subtract. Square the differences instead."""
    left = a.unsqueeze(2).pow(2)
    right = b.unsqueeze(1).pow(2)
    differences = left - right
    return differences.sum(dim=3)


@squared_distances.misconception
def takes_the_mean(a, b):
    """You take the mean over the coordinates. Take the sum."""
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
    """You add up products of the coordinates: these are dot products.

    They are large for vectors that agree, but a distance is small for them.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left * right
    return differences.sum(dim=3)


@squared_distances.misconception
def sums_over_the_points_of_b(a, b):
    """Your sum runs over the points of b, not over the coordinates.

    The axis of length d is still there.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=2)


@squared_distances.misconception
def sums_over_the_points_of_a(a, b):
    """Your sum runs over the points of a, not over the coordinates.

    The axis of length d is still there.
    """
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=1)


@squared_distances.misconception
def forgets_the_sum(a, b):
    """You do not sum over the coordinates, the last axis. Return one number for each pair of points."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2)


@squared_distances.misconception
def keeps_the_summed_axis(a, b):
    """You keep the axis that you summed over, with length 1. Here it has to disappear."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3, keepdim=True)


@squared_distances.misconception
def sums_everything(a, b):
    """You sum over everything. Sum over the coordinates only, the last axis.

    One number is left.
    """
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
    """You leave out the factor 2 of the middle term in (a - b)² = a² - 2ab + b²."""
    left = a.pow(2).sum(dim=2).unsqueeze(2)
    right = b.pow(2).sum(dim=2).unsqueeze(1)
    return left + right - a @ b.transpose(1, 2)


@squared_distances.misconception
def leaves_out_the_products(a, b):
    """You add a² and b² without the middle term of (a - b)² = a² - 2ab + b²."""
    left = a.pow(2).sum(dim=2).unsqueeze(2)
    right = b.pow(2).sum(dim=2).unsqueeze(1)
    return left + right


@squared_distances.misconception
def only_the_first_example_of_a(a, b):
    """Every example of b is compared with the points of a's first example. Example s of a belongs to example s of
    b."""
    left = a[:1].unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=3)


@squared_distances.misconception
def turns_the_distances_negative(a, b):
    """Your distances have the wrong sign. A square is never negative, and neither is a sum of squares."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return -differences.pow(2).sum(dim=3)


@squared_distances.misconception
def takes_the_largest_coordinate(a, b):
    """You keep the largest of the squares. Add up all of them."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).amax(dim=3)


@squared_distances.misconception
def adds_up_over_the_batch(a, b):
    """You sum over the examples of the batch too. Each of them has a table of its own."""
    left = a.unsqueeze(2)
    right = b.unsqueeze(1)
    differences = left - right
    return differences.pow(2).sum(dim=(0, 3))


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
    result = torch.zeros(batch, n, b.shape[1])
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
