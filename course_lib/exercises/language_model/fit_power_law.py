"""The exercise `fit_power_law`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect_tuple, name_of_type
from course_lib.exercises.decoding.shared import as_number, asked

fitting = Exercise(
    language_model.fit_power_law,
    cases=[
        {
            "sizes": torch.tensor([2.0, 4.0, 16.0]).double(),
            "losses": torch.tensor([3.0, 2.5, 1.6]).double(),
        },
        {
            "sizes": torch.tensor([900.0, 12000.0, 55000.0, 300000.0, 7000.0]).double(),
            "losses": torch.tensor([2.9, 2.1, 1.75, 1.3, 2.35]).double(),
        },
        {
            "sizes": torch.tensor([5.0, 0.5, 3.0, 20.0]).double(),
            "losses": torch.tensor([0.7, 0.2, 0.45, 3.1]).double(),  # rising: the exponent is negative
        },
    ],
    minutes=5,
    difficulty=2,
    hints=[
        "Take the logarithm of both sides of loss = scale · size^(-exponent). What kind of curve is it in log(size) "
        "and log(loss)?",
        "A straight line y = intercept + slope · x, with x = log(size) and y = log(loss). Compare with log(scale) - "
        "exponent · log(size): which of the two numbers is which?",
        "The slope of the best line is the sum of (x - mean of x) · (y - mean of y), divided by the sum of "
        "(x - mean of x)². The line goes through the point of both means.",
        "exponent = -slope; scale = exp(mean of y - slope · mean of x).",
    ],
)


def as_numbers(answer):
    """A scale and an exponent as a tuple of two numbers, however they are packed; everything else as it is."""
    if isinstance(answer, torch.Tensor) and answer.dim() == 1:
        answer = tuple(answer)
    return tuple(finite(as_number(value)) for value in answer) if isinstance(answer, list | tuple) else answer


def finite(value):
    """A scale that overflows counts as a very large one."""
    return math.copysign(1e300, value) if isinstance(value, float) and math.isinf(value) else value


def fitted(subject, sizes, losses):
    """The student's scale and exponent, as two numbers."""
    answer = as_numbers(asked(subject, (sizes, losses), as_numbers))
    found = expect_tuple(answer, ("scale", "exponent"))
    for value, name in zip(found, ("scale", "exponent")):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Failure(f"The {name} should be a number, but it is {name_of_type(value)}.")
        if value != value:
            raise Failure(f"The {name} is NaN (not a number).")
    return found


def differs(got, want):
    return abs(got - want) > 1e-5 + 1e-4 * abs(want)


def expect_law(subject, sizes, losses, where, exponent_alone=False):
    scale, exponent = fitted(subject, sizes, losses)
    want_scale, want_exponent = language_model.fit_power_law(sizes, losses)
    points = f"{where}, sizes {sizes.tolist()} and losses {[float(f'{loss:.4g}') for loss in losses.tolist()]}"
    if differs(exponent, want_exponent):
        raise Failure(f"For {points}: the exponent should be {want_exponent:.5g}, but it is {exponent:.5g}.")
    if not exponent_alone and differs(scale, want_scale):
        raise Failure(f"For {points}: the scale should be {want_scale:.5g}, but it is {scale:.5g}.")


def on_a_law(sizes, scale, exponent):
    return scale * sizes ** (-exponent)


@fitting.property("points that lie on a power law: its exponent", points=2)
def fitting_exponent(subject, case):
    sizes = case["sizes"]
    for scale, exponent in ((3.0, 0.5), (0.8, 0.25)):
        expect_law(subject, sizes, on_a_law(sizes, scale, exponent), "points on one law", exponent_alone=True)


@fitting.property("points that lie on a power law: its scale", points=1)
def fitting_scale(subject, case):
    sizes = case["sizes"]
    for scale, exponent in ((3.0, 0.5), (0.8, 0.25)):
        expect_law(subject, sizes, on_a_law(sizes, scale, exponent), "points on one law")


@fitting.property("points that do not: the straight line with the least squares", points=2)
def fitting_squares(subject, case):
    expect_law(subject, *case.values(), "these points")


@fitting.property("a loss that grows with the size has a negative exponent; two points are enough", points=1)
def fitting_rising(subject, case):
    sizes, losses = case["sizes"], case["losses"]
    expect_law(subject, sizes, on_a_law(sizes, 1.5, -0.3), "a loss that grows")
    expect_law(subject, sizes[:2], losses[:2], "two points")


@fitting.misconception
def without_logarithms(sizes, losses):
    """You fit a straight line through the sizes and losses themselves. A power law is a straight line in the logarithms
    of both."""
    x = sizes.double()
    y = losses.double()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.item(), -slope.item()


@fitting.misconception
def logarithm_of_the_sizes_alone(sizes, losses):
    """You take the logarithm of the sizes but not of the losses. A power law is a straight line only if both axes are
    logarithmic."""
    x = sizes.double().log()
    y = losses.double()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def logarithm_of_the_losses_alone(sizes, losses):
    """You take the logarithm of the losses but not of the sizes: that fits an exponential. A power law is a straight
    line only if both axes are logarithmic."""
    x = sizes.double()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def returns_the_slope(sizes, losses):
    """You return the slope as the exponent. The law has a minus: loss = scale · size^(-exponent), so the exponent is
    the slope with the opposite sign."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), slope.item()


@fitting.misconception
def absolute_exponent(sizes, losses):
    """You take the absolute value of the slope. If the loss grows with the size, the exponent is negative."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), slope.abs().item()


@fitting.misconception
def returns_the_intercept(sizes, losses):
    """You return the intercept of the line as the scale. It is the logarithm of the scale."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.item(), -slope.item()


@fitting.misconception
def power_of_ten(sizes, losses):
    """You take natural logarithms, but turn the intercept into a scale by a power of 10. Use one base for both ways: e
    here."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return 10 ** intercept.item(), -slope.item()


@fitting.misconception
def exponential_of_a_decimal_logarithm(sizes, losses):
    """You take logarithms to base 10, but turn the intercept into a scale by exp. Use one base for both ways: 10 to the
    power of it here."""
    x = sizes.double().log10()
    y = losses.double().log10()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def mixes_the_bases(sizes, losses):
    """Your logarithms have two bases: those of the sizes are decimal, those of the losses natural. Take one base for
    both.

    The slope comes out wrong by a factor of ln(10)."""
    x = sizes.double().log10()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def sizes_from_losses(sizes, losses):
    """You divide by the sum of squares of the losses' logarithms: that line predicts sizes from losses. Divide by the
    sum of squares of the sizes' logarithms."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (y_away * y_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def line_through_the_origin(sizes, losses):
    """You do not subtract the means: that is the slope of a line through the origin. This line may cross the axis
    anywhere."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x, y
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def first_and_last_point(sizes, losses):
    """Your line goes through the first and the last point. All points count: the line with the least squares is
    wanted."""
    x = sizes.double().log()
    y = losses.double().log()
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    intercept = y[0] - slope * x[0]
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def mean_of_slopes(sizes, losses):
    """You take the mean of the slopes between neighbouring points. The line with the least squares is wanted."""
    x = sizes.double().log()
    y = losses.double().log()
    slope = ((y[1:] - y[:-1]) / (x[1:] - x[:-1])).mean()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def scale_is_the_mean(sizes, losses):
    """Your scale is that of the mean loss. The line goes through the point of both means, and the scale is where it
    crosses log(size) = 0."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def intercept_with_the_wrong_sign(sizes, losses):
    """You add slope · mean of x to the mean of y. It has to be subtracted to come back to x = 0."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() + slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def exponent_first(sizes, losses):
    """You return the exponent first. The order is scale, exponent."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return -slope.item(), intercept.exp().item()


@fitting.misconception
def mixes_n_and_n_minus_1(sizes, losses):
    """One of your two sums is divided by n, the other by n - 1 (torch.var does that by default). Divide both by the
    same number, or neither."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).mean() / x.var()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.misconception
def divides_by_the_spread(sizes, losses):
    """You divide by the spreads of both axes: that is a correlation, between -1 and 1. A slope is divided by the sum of
    squares of the sizes' logarithms."""
    x = sizes.double().log()
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / ((x_away * x_away).sum() * (y_away * y_away).sum()).sqrt()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()


@fitting.alternative
def by_numpy(sizes, losses):
    slope, intercept = np.polyfit(np.log10(sizes.numpy()), np.log10(losses.numpy()), deg=1)
    return 10**intercept, -slope


@fitting.alternative
def by_least_squares(sizes, losses):
    table = torch.stack([torch.ones_like(sizes), -sizes.log()], dim=1)
    solution = torch.linalg.lstsq(table, losses.log()[:, None]).solution[:, 0]
    return solution[0].exp(), solution[1]


@fitting.alternative
def by_normal_equations(sizes, losses):
    n, x, y = len(sizes), torch.log2(sizes), torch.log2(losses)
    slope = (n * (x @ y) - x.sum() * y.sum()) / (n * (x @ x) - x.sum() ** 2)
    return [float(2 ** ((y.sum() - slope * x.sum()) / n)), float(-slope)]


@fitting.alternative
def by_covariance(sizes, losses):
    both = torch.stack([sizes, losses]).log()
    covariance = both.cov()
    exponent = -covariance[0, 1] / covariance[0, 0]
    return torch.stack([(both[1] + exponent * both[0]).mean().exp(), exponent])
