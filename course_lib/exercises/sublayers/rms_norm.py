"""The exercise `RMSNorm`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.sublayers.shared import (
    expect_count,
    expect_own_norm,
    expect_start,
    filled,
    has_flat_position,
    just_built,
    norm_numbers,
    slope,
)
from course_lib.sublayers import check_width

rms_norm = Exercise(
    reference.RMSNorm,
    cases=[
        {"d_model": 4, "eps": 1e-6, "x": torch.tensor([[1.0, 1.0, 3.0, 5.0], [2.0, -2.0, 2.0, -2.0]]).double()},
        {"d_model": 5, "eps": 0.4, "x": normal(2, 3, 5, seed=51) + 1.0},
        {"d_model": 3, "eps": 0.01, "x": torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, -4.0]]]).double()},
        {"d_model": 7, "eps": 1e-3, "x": normal(2, 3, 5, 7, seed=52, scale=0.05)},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "The name is the recipe, read from right to left: square the features, take their mean, take the "
        "root. Then divide.",
        "No mean is subtracted and no bias is added. eps stands under the root, as before.",
        "The mean of the squares goes along the last axis, with keepdim=True.",
        "mean_square = x.pow(2).mean(dim=-1, keepdim=True); self.gain * x / torch.sqrt(mean_square + self.eps)",
    ],
)


def right_rms_norm(case, x=None):
    x = case["x"] if x is None else x
    return F.rms_norm(x, (case["d_model"],), norm_numbers(case["d_model"])["gain"], case["eps"])


def rms_norm_with(subject, case, must_fit=True):
    numbers = {"gain": norm_numbers(case["d_model"])["gain"]}
    return filled(subject, (case["d_model"], case["eps"]), numbers, [case["x"]], right_rms_norm(case), must_fit)


@rms_norm.property("the result has the shape of x", points=1)
def rms_norm_shape(subject, case):
    built = rms_norm_with(subject, case, must_fit=False)
    expect_floats(built(case["x"]), tuple(case["x"].shape))


@rms_norm.property("the formula is written out, without torch's own norms", points=1)
def rms_norm_is_own_work(subject, case):
    expect_own_norm(subject, subject.build(case["d_model"], case["eps"]), case["x"].float())


@rms_norm.property("a gain for each feature and nothing else, which changes nothing at the start", points=1)
def rms_norm_parameters(subject, case):
    built = subject.build(case["d_model"], case["eps"])
    expect_count(built, case["d_model"])
    expect_start(built)


@rms_norm.property("each position is normalised by itself", points=1)
def rms_norm_locality(subject, case):
    if has_flat_position(case):
        return
    built = rms_norm_with(subject, case)
    position = tuple(size - 1 for size in case["x"].shape[:-1])
    got = built.gradient(case["x"], wrt=0, at=(*position, 1))
    got[position] = 0.0
    expect(
        got.abs().max() < 1e-6,
        f"Position {list(position)} of the result depends on other positions of x: the mean is taken over too "
        "much, or "
        "along the wrong axis.",
    )


@rms_norm.property("just built, it gives every position a mean square of 1 (but for eps)", points=1)
def rms_norm_statistics(subject, case):
    got = expect_floats(just_built(subject, case)(case["x"]), tuple(case["x"].shape)).double()
    mean_square = case["x"].pow(2).mean(dim=-1)
    want = mean_square / (mean_square + case["eps"])
    expect_close(got.pow(2).mean(dim=-1), want, "the mean square of each position of the result")


@rms_norm.property("the values, with gain and eps in their places, and their gradients", points=1)
def rms_norm_values(subject, case):
    built = rms_norm_with(subject, case)
    expect_close(built(case["x"]), right_rms_norm(case))
    if not subject.changed_inputs and not has_flat_position(case):
        at = (*(-1 for _ in case["x"].shape[:-1]), 1)
        want = slope(lambda x: right_rms_norm(case, x), case["x"], at)
        expect_close(built.gradient(case["x"], wrt=0, at=at), want, "the gradient of the result at the last position")


@rms_norm.misconception
class RmsPlusEps(nn.Module):
    """You add eps to the root mean square. In the formula it is added to the mean square, under the root."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / (torch.sqrt(mean_square) + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class UsesTheVariance(nn.Module):
    """You use the variance, that is squares of x minus its mean. RMSNorm squares x itself."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.var(dim=-1, keepdim=True, unbiased=False)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class UsesTheUnbiasedVarianceInstead(nn.Module):
    """You use torch.var: it subtracts the mean and divides by d_model - 1. RMSNorm takes the plain mean of x²."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.var(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class TakesTheRootTwice(nn.Module):
    """You take a root twice: under your root there is already a root mean square (or a standard deviation). Under the
    root stands the mean square.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(torch.sqrt(mean_square) + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class RootOfTheStandardDeviation(nn.Module):
    """Under your root stands the standard deviation of x. It should be the mean of x²."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.std(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class ForgetsTheRoot(nn.Module):
    """You divide by the mean square and forget the root: the result is not of size 1."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / (mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class MultipliesByTheRms(nn.Module):
    """You multiply by the root mean square; large positions should become smaller. rsqrt is 1 divided by the root."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x * torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class SubtractsTheMean(nn.Module):
    """You subtract the mean first: that is LayerNorm without its bias. RMSNorm leaves the mean where it is."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        x = x - x.mean(dim=-1, keepdim=True)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class DividesTheCentred(nn.Module):
    """You divide x minus its mean. RMSNorm divides x itself."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = (x - x.mean(dim=-1, keepdim=True)) / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class DividesByTheLength(nn.Module):
    """You divide by the length of the vector, the root of the *sum* of squares. It is the root of their mean: √d_model
    times less.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).sum(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class SquaresTheMean(nn.Module):
    """You square the mean. It is the mean of the squares: first square, then average."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.mean(dim=-1, keepdim=True).pow(2)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class AveragesAbsoluteValues(nn.Module):
    """You average absolute values. The root mean square squares first, and takes the root at the end."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.abs().mean(dim=-1, keepdim=True).pow(2)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class MeanSquareOverTime(nn.Module):
    """Your mean of squares goes along the time axis. It goes over the features of each position, the last axis."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-2, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class MeanSquareAlongAxisOne(nn.Module):
    """Your mean of squares goes along axis 1. That is the time axis of (batch, time, d_model); the features are the
    last one, dim=-1.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class MeanSquareOverTheBatch(nn.Module):
    """Your mean of squares goes along the first axis, the batch. It goes over the features of each position."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=0, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class MeanSquareOfASentence(nn.Module):
    """You take one mean square for all positions of a sentence. Each position has its own."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=(-2, -1), keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class MeanSquareOfEverything(nn.Module):
    """You take one mean square for the whole tensor. Each position has its own: say along which axis."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean()
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class LosesTheAxis(nn.Module):
    """Your mean square has lost an axis, so it is lined up with the wrong one. keepdim=True keeps it with length 1."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class HasABias(nn.Module):
    """Your norm has a bias. RMSNorm has a gain alone."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised + self.bias


@rms_norm.misconception
class HasNoGain(nn.Module):
    """There is nothing to learn in your norm: the gain is missing, or it is a plain tensor. nn.Parameter makes it
    trainable.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = torch.ones(d_model)
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class NeverAppliesTheGain(nn.Module):
    """The gain is there but never used."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return normalised


@rms_norm.misconception
class AddsOneToTheFactor(nn.Module):
    """You multiply by 1 + gain. Then the gain would have to start at 0; here it starts at 1 and is the factor."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return (1 + self.gain) * normalised


@rms_norm.misconception
class SharesOneGainForAll(nn.Module):
    """You have one gain for all features. Each feature has its own."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.eps = eps

    def forward(self, x):
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class StartsTheGainAtZero(nn.Module):
    """Your gain starts at 0, so the norm answers 0 to everything. It starts at 1."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class BoundsTheMeanSquare(nn.Module):
    """You use eps as a lower bound of the mean square. In the formula it is added, always."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square.clamp(min=self.eps))
        return self.gain * normalised


@rms_norm.misconception
class LeavesEpsOut(nn.Module):
    """There is no eps in your formula: a position of zeros (padding!) divides 0 by 0."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square)
        return self.gain * normalised


@rms_norm.misconception
class IgnoresTheGivenEps(nn.Module):
    """You do not use the eps that you are given, but a fixed one."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = 1e-06

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class AddsTheSquareOfEps(nn.Module):
    """You add eps². In the formula eps itself is added to the mean square."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps**2)
        return self.gain * normalised


@rms_norm.misconception
class DetachesTheMeanSquare(nn.Module):
    """The values are right, but the mean square is cut off from the gradient: it depends on x, and the gradient has to
    know.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.detach().pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class TorchsOwnRmsNorm(nn.Module):
    """torch's own RMSNorm does the work. Using it is right everywhere else; here the exercise is to write the formula
    out: squares, mean, root, gain.
    """

    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.norm = nn.RMSNorm(d_model, eps=eps)

    def forward(self, x):
        return self.norm(x)


@rms_norm.alternative
class ByTheReciprocalRoot(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.variance_epsilon = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon))


@rms_norm.alternative
class ByTheLength(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1, 1, d_model))
        self.eps = eps

    def forward(self, x):
        d_model = x.shape[-1]
        length = torch.sqrt(x.square().sum(-1, keepdim=True) + d_model * self.eps)
        return (x / length * self.g * d_model**0.5).reshape(x.shape)


@rms_norm.alternative
class InSinglePrecisionInside(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y / (y.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()
        return y.type_as(x) * self.scale


@rms_norm.alternative
class ByEinsum(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        squares = torch.einsum("...d,...d->...", x, x) / x.size(-1)
        return torch.einsum("...d,...,d->...d", x, (squares + self.eps).pow(-0.5), self.gain)


# --- masked_batch_statistics ----------------------------------------------------------------------------
