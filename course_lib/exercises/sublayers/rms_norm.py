"""The exercise `RMSNorm`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.multi_head_attention.shared import expect_count
from course_lib.exercises.sublayers.shared import (
    FORBIDDEN_NORMS,
    expect_gradients,
    expect_own_norm,
    expect_positions_apart,
    expect_same_in_training,
    expect_start,
    filled,
    has_flat_position,
    just_built,
    norm_numbers,
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
    forbids=FORBIDDEN_NORMS,
    minutes=6,
    difficulty=1,
    hints=[
        "The name is the recipe, read from right to left: square the features, take their mean, take the "
        "root. Then divide.",
        "No mean is subtracted and no bias is added. eps is under the root, as before.",
        "The mean of the squares is taken along the last axis, with keepdim=True.",
        "mean_square = x.pow(2).mean(dim=-1, keepdim=True); self.gain * x / torch.sqrt(mean_square + self.eps)",
    ],
)


def gain_of(case):
    return {"gain": norm_numbers(case["d_model"])["gain"]}


def right_rms_norm(case):
    return formula(case)(gain_of(case), case["x"])


def rms_norm_with(subject, case, must_fit=True):
    return filled(subject, (case["d_model"], case["eps"]), gain_of(case), [case["x"]], right_rms_norm(case), must_fit)


@rms_norm.property(
    "the shape of x comes back, by a formula of your own, with a gain for each feature and no bias", points=1
)
def rms_norm_shape(subject, case):
    built = rms_norm_with(subject, case, must_fit=False)
    expect_floats(built(case["x"]), tuple(case["x"].shape))
    untouched = subject.build(case["d_model"], case["eps"])
    expect_own_norm(subject, untouched, case["x"].float())
    expect_count(untouched, case["d_model"])
    expect_start(untouched)


@rms_norm.property("a new norm gives each position by itself a mean square of 1 (apart from eps)", points=2)
def rms_norm_statistics(subject, case):
    built = just_built(subject, case)
    expect_positions_apart(built, case)
    got = expect_floats(built(case["x"]), tuple(case["x"].shape)).double()
    mean_square = case["x"].pow(2).mean(dim=-1)
    want = mean_square / (mean_square + case["eps"])
    expect_close(got.pow(2).mean(dim=-1), want, "the mean square of each position of the result")


@rms_norm.property("the values, with gain and eps in their places", points=2)
def rms_norm_values(subject, case):
    built = rms_norm_with(subject, case)
    expect_close(built(case["x"]), right_rms_norm(case))
    expect_same_in_training(built, case["x"], right_rms_norm(case))


@rms_norm.property("gradients reach x and the gain", points=1)
def rms_norm_gradients(subject, case):
    built = rms_norm_with(subject, case)
    expect_close(built(case["x"]), right_rms_norm(case))
    if not has_flat_position(case):
        at = (*(0 for _ in case["x"].shape[:-1]), 1)
        expect_gradients(built, case["x"], formula(case), gain_of(case), at)


def formula(case):
    return lambda numbers, x: F.rms_norm(x, (case["d_model"],), numbers["gain"], case["eps"])


@rms_norm.misconception
class RmsPlusEps(nn.Module):
    """You add eps beside the root. In the formula it is added to the mean square, under the root."""

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
    """You take the variance, as torch.var does: it subtracts the mean and divides by d_model - 1. RMSNorm takes the
    plain mean of x²."""

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
    """You take a root twice: under your root there is already a root mean square. The mean square belongs under the
    root.
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
    """Under your root is the standard deviation of x. It should be the mean of x²."""

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
    """You divide by the mean square. Its root is wanted.

    As it is, the result is not of size 1.
    """

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
    """You multiply by the root mean square. x is divided by it (and rsqrt is 1 divided by the root).

    As it is, a large position becomes even larger.
    """

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
    """You subtract the mean first. RMSNorm leaves the mean where it is.

    That is LayerNorm without its bias.
    """

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
    """You divide by the length of the vector, the root of the *sum* of squares. It should be the root of their mean.

    As it is, the result is smaller by the factor √d_model.
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
    """You square the mean. What is wanted is the mean of the squares: first square, then average."""

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
    """Your mean of squares is taken along the time axis. It should run over each position's features, the last axis."""

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
    """Your mean of squares is taken along axis 1, counted from the front. The features are the last axis, however many
    come before it: dim=-1.
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
    """Your mean of squares is taken along the first axis, the batch. It should run over each position's features."""

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
    """What you divide by has lost the axis over which it was taken. keepdim=True keeps it with length 1.

    As it is, it is lined up with the wrong axis.
    """

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
    """Your norm has a bias. RMSNorm has only a gain."""

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
    """The gain is there but has no effect."""

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
    """You multiply by 1 + gain. Here the gain itself is the factor.

    It starts at 1, so your factor starts at 2.
    """

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
    """Your gain starts at 0. It should start at 1.

    As it is, the norm returns 0 for everything.
    """

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
    """There is no eps in your formula. It is added to the mean square.

    As it is, a position of zeros (padding!) divides 0 by 0.
    """

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
    """The mean square is cut off from the gradient. It depends on x, and the gradient has to include that.

    The values are right.
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


@rms_norm.misconception
class MeanSquareAlongAxisTwo(nn.Module):
    """Your mean of squares is taken along axis 2, counted from the front. The features are the last axis, however many
    come before it: dim=-1.

    With (batch, time, d_model) that is the same; x may have more axes in front, or fewer.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=2, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class StartsTheGainAroundZero(nn.Module):
    """You multiply by 1 + gain, and your gain starts at 0. Here the gain itself is the factor, and it starts at 1.

    At the start the two norms are the same; with other gains they are not.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return (1 + self.gain) * normalised


@rms_norm.misconception
class SubtractsEps(nn.Module):
    """You subtract eps from the mean square. It should be added."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square - self.eps)
        return self.gain * normalised


@rms_norm.misconception
class DividesByOneLess(nn.Module):
    """You divide the sum of squares by d_model - 1. It is their mean: divide by d_model."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class CutsOffTheGain(nn.Module):
    """The gain is cut off from the gradient (.detach(), .data).

    The values are right, but the norm could not learn.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain.detach() * normalised


@rms_norm.misconception
class CutsOffItsInput(nn.Module):
    """x is cut off from the gradient (.detach(), .data).

    The values are right, but nothing below the norm could learn.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        x = x.detach()
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norm.misconception
class CutsOffEveryGradient(nn.Module):
    """The result is detached: no gradient comes back through it (.detach(), .data, no_grad, a new tensor).

    The values are right, but nothing could learn.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return (self.gain * normalised).detach()


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
