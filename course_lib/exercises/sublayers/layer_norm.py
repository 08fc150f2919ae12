"""The exercise `LayerNorm`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

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

layer_norm = Exercise(
    reference.LayerNorm,
    cases=[
        {"d_model": 4, "eps": 1e-5, "x": torch.tensor([[1.0, 2.0, 3.0, 6.0], [4.0, 0.0, -2.0, 2.0]]).double()},
        {"d_model": 5, "eps": 0.4, "x": normal(2, 3, 5, seed=41) + 1.0},
        {"d_model": 3, "eps": 0.01, "x": torch.tensor([[[2.0, 2.0, 2.0], [1.0, 0.0, -4.0]]]).double()},
        {"d_model": 7, "eps": 1e-3, "x": normal(2, 3, 5, 7, seed=42, scale=0.05)},
    ],
    forbids=FORBIDDEN_NORMS,
    minutes=12,
    difficulty=2,
    hints=[
        "Each position is normalised by its own features: mean and variance are taken along the last axis, "
        "and that axis "
        "is kept with length 1, so that they can be subtracted and divided.",
        "The formula divides the sum of squares by d_model. torch.var and torch.std divide by d_model - 1 unless you "
        "pass unbiased=False (or correction=0).",
        "Where does the formula have eps: under the root or beside it? And what is under the root: variance "
        "or deviation?",
        "In __init__: self.gain = nn.Parameter(torch.ones(d_model)), and the bias likewise with zeros.",
        "mean = x.mean(dim=-1, keepdim=True); variance = (x - mean).pow(2).mean(dim=-1, keepdim=True); "
        "self.gain * (x - mean) / torch.sqrt(variance + self.eps) + self.bias",
    ],
)


def right_layer_norm(case):
    return formula(case)(norm_numbers(case["d_model"]), case["x"])


def layer_norm_with(subject, case, must_fit=True):
    numbers = norm_numbers(case["d_model"])
    return filled(subject, (case["d_model"], case["eps"]), numbers, [case["x"]], right_layer_norm(case), must_fit)


@layer_norm.property(
    "the shape of x comes back, by a formula of your own, with a gain and a bias for each feature", points=1
)
def layer_norm_shape(subject, case):
    built = layer_norm_with(subject, case, must_fit=False)
    expect_floats(built(case["x"]), tuple(case["x"].shape))
    untouched = subject.build(case["d_model"], case["eps"])
    expect_own_norm(subject, untouched, case["x"].float())
    expect_count(untouched, 2 * case["d_model"])
    expect_start(untouched)


@layer_norm.property("a new norm gives each position by itself mean 0 and variance 1 (apart from eps)", points=3)
def layer_norm_statistics(subject, case):
    built = just_built(subject, case)
    expect_positions_apart(built, case)
    got = expect_floats(built(case["x"]), tuple(case["x"].shape)).double()
    variance = case["x"].var(dim=-1, unbiased=False)
    means = got.mean(dim=-1)
    expect_close(means, torch.zeros_like(means), "the mean of each position of the result")
    want = variance / (variance + case["eps"])
    expect_close(got.var(dim=-1, unbiased=False), want, "the variance of each position of the result")


@layer_norm.property("the values, with gain, bias and eps in their places", points=2)
def layer_norm_values(subject, case):
    built = layer_norm_with(subject, case)
    expect_close(built(case["x"]), right_layer_norm(case))
    expect_same_in_training(built, case["x"], right_layer_norm(case))


@layer_norm.property("gradients reach x, the gain and the bias", points=1)
def layer_norm_gradients(subject, case):
    built = layer_norm_with(subject, case)
    expect_close(built(case["x"]), right_layer_norm(case))
    if not has_flat_position(case):
        at = (*(0 for _ in case["x"].shape[:-1]), 1)
        expect_gradients(built, case["x"], formula(case), norm_numbers(case["d_model"]), at)


def formula(case):
    return lambda numbers, x: F.layer_norm(x, (case["d_model"],), numbers["gain"], numbers["bias"], case["eps"])


@layer_norm.misconception
class UsesStdPlusEps(nn.Module):
    """This is a norm found in many public programs: `x.std()`, which divides by d_model - 1, and eps beside the
    root. The formula divides by d_model and has eps under the root.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = x.var(dim=-1, keepdim=True)
        normalised = centred / (torch.sqrt(variance) + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class UsesTheUnbiasedVariance(nn.Module):
    """Your variance divides by d_model - 1 (as torch.var does unless told otherwise). The formula divides by d_model:
    it describes these features and does not estimate those of a larger population.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class PutsEpsBesideTheRoot(nn.Module):
    """You add eps to the standard deviation. In the formula it is added to the variance, under the root."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / (torch.sqrt(variance) + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class TakesTheRootOfTheDeviation(nn.Module):
    """You take a root twice: under your root there is already the standard deviation. The variance belongs under the
    root.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(torch.sqrt(variance) + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class DividesByTheVariance(nn.Module):
    """You divide by the variance. Its root, the standard deviation, is wanted.

    As it is, the result does not have variance 1.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / (variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class MultipliesByTheDeviation(nn.Module):
    """You multiply by the standard deviation. x minus its mean is divided by it.

    As it is, a position with a large spread gets an even larger one.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred * torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class ForgetsEps(nn.Module):
    """There is no eps in your formula. It is added to the variance.

    As it is, where all features of a position are equal, 0 is divided by 0.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class FixesEps(nn.Module):
    """You do not use the eps that you are given, but a fixed one."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = 1e-05

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class TakesEpsForABound(nn.Module):
    """You use eps as a lower bound of the standard deviation. In the formula it is added to the variance, always."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance).clamp(min=self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class BoundsTheVariance(nn.Module):
    """You use eps as a lower bound of the variance. In the formula it is added, always."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance.clamp(min=self.eps))
        return self.gain * normalised + self.bias


@layer_norm.misconception
class SquaresEps(nn.Module):
    """You add eps². In the formula eps itself is added to the variance."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps**2)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NormalisesOverTime(nn.Module):
    """Your mean and variance are taken along the time axis, for each feature. LayerNorm takes them over the features
    of each position, the last axis.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-2, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-2, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NormalisesOverTheBatch(nn.Module):
    """Your mean and variance are taken along the first axis, over the batch: that is batch normalisation. LayerNorm
    takes them over the features of each position.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=0, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=0, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NormalisesWholeSentences(nn.Module):
    """You take one mean and one variance for all positions of a sentence. Each position has its own."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=(-2, -1), keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=(-2, -1), keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NormalisesEverythingAtOnce(nn.Module):
    """You take one mean and one variance for the whole tensor. Each position has its own: say along which axis."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean()
        centred = x - mean
        variance = centred.pow(2).mean()
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NormalisesLikeABatchNorm(nn.Module):
    """You take one mean and one variance for each feature, over batch and time: that is batch normalisation. LayerNorm
    takes them over the features of each position.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=tuple(range(x.dim() - 1)), keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=tuple(range(x.dim() - 1)), keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NormalisesAlongAxisOne(nn.Module):
    """You take mean and variance along axis 1, counted from the front. The features are the last axis, however many
    come before it: dim=-1.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class ForgetsKeepdim(nn.Module):
    """Your statistics have lost the axis over which they were taken. keepdim=True keeps it with length 1.

    As it is, they are lined up with the wrong axis.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class SumsInsteadOfAveraging(nn.Module):
    """You add the squares up and never divide by d_model."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).sum(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class UsesAbsoluteDeviations(nn.Module):
    """You average absolute deviations. The variance is the mean of the squared ones."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.abs().mean(dim=-1, keepdim=True).pow(2)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class NeverSubtractsTheMean(nn.Module):
    """The mean is never subtracted: you divide by the root of the mean square.

    That is RMSNorm, which comes next.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class DividesTheRawInput(nn.Module):
    """The variance is right, but you divide x itself by its root. What is divided is x minus its mean."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class OnlyCentres(nn.Module):
    """You subtract the mean and never divide by the standard deviation."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred
        return self.gain * normalised + self.bias


@layer_norm.misconception
class HasNothingToLearn(nn.Module):
    """There is nothing to learn in your norm: gain and bias are missing, or they are plain tensors. nn.Parameter makes
    them trainable.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = torch.ones(d_model)
        self.bias = torch.zeros(d_model)
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class HasNoBiasAtAll(nn.Module):
    """Your norm has a gain and no bias."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised


@layer_norm.misconception
class ForgetsToApplyThem(nn.Module):
    """Gain and bias are there but have no effect."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return normalised


@layer_norm.misconception
class ForgetsTheGain(nn.Module):
    """The gain is there but has no effect."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return normalised + self.bias


@layer_norm.misconception
class ForgetsTheBias(nn.Module):
    """The bias is there but has no effect."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised


@layer_norm.misconception
class MultipliesTheBiasToo(nn.Module):
    """The gain multiplies your bias too. The bias is added at the end."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * (normalised + self.bias)


@layer_norm.misconception
class AddsOneToTheGain(nn.Module):
    """You multiply by 1 + gain. Here the gain itself is the factor.

    It starts at 1, so your factor starts at 2.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return (1 + self.gain) * normalised + self.bias


@layer_norm.misconception
class SharesOneGain(nn.Module):
    """You have one gain and one bias for all features. Each feature has its own: d_model of each."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class StartsAtZero(nn.Module):
    """Your gain starts at 0. It should start at 1.

    As it is, the norm gives the same result for every x.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class StartsTheBiasAtOne(nn.Module):
    """Your bias starts at 1. It should start at 0, so that at first the norm only normalises."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class DetachesTheStatistics(nn.Module):
    """Mean and variance are cut off from the gradient. They depend on x, and the gradient has to include that.

    The values are right.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.detach().mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.detach().pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class TorchsOwnModule(nn.Module):
    """torch's own layer norm does the work. Using it is right everywhere else; here the exercise is to write the
    formula out: mean, variance, root, gain and bias.
    """

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)

    def forward(self, x):
        return self.norm(x)


@layer_norm.misconception
class NormalisesAlongAxisTwo(nn.Module):
    """You take mean and variance along axis 2, counted from the front. The features are the last axis, however many
    come before it: dim=-1.

    With (batch, time, d_model) that is the same; x may have more axes in front, or fewer.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=2, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=2, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class StartsTheGainAroundZero(nn.Module):
    """You multiply by 1 + gain, and your gain starts at 0. Here the gain itself is the factor, and it starts at 1.

    At the start the two norms are the same; with other gains they are not.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return (1 + self.gain) * normalised + self.bias


@layer_norm.misconception
class SquaresTheRawInput(nn.Module):
    """Under your root is the mean of x², not the variance: the mean of the squared distances from the mean."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class AddsTheMean(nn.Module):
    """You add the mean to x. It should be subtracted."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x + mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class SubtractsEps(nn.Module):
    """You subtract eps from the variance. It should be added."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance - self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class CutsOffItsParameters(nn.Module):
    """Gain and bias are cut off from the gradient (.detach(), .data).

    The values are right, but the norm could not learn.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain.detach() * normalised + self.bias.detach()


@layer_norm.misconception
class CutsOffItsInput(nn.Module):
    """x is cut off from the gradient (.detach(), .data).

    The values are right, but nothing below the norm could learn.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        x = x.detach()
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norm.misconception
class CutsOffEveryGradient(nn.Module):
    """The result is detached: no gradient comes back through it (.detach(), .data, no_grad, a new tensor).

    The values are right, but nothing could learn.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return (self.gain * normalised + self.bias).detach()


@layer_norm.alternative
class ByVarMean(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.gamma + self.beta


@layer_norm.alternative
class MeanOfSquaresMinusSquareOfMean(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(1, d_model))
        self.q = nn.Parameter(torch.ones(1, d_model))
        self.eps = eps

    def forward(self, x):
        mean = x.sum(-1, keepdim=True) / x.size(-1)
        variance = (x * x).sum(-1, keepdim=True) / x.size(-1) - mean**2
        return torch.addcmul(self.p, (x - mean) / (variance + self.eps) ** 0.5, self.q).reshape(x.shape)


@layer_norm.alternative
class RowAfterRow(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        rows = []
        for row in x.reshape(-1, x.shape[-1]):
            centred = row - row.mean()
            rows.append(centred / (centred.dot(centred) / len(row) + self.eps).sqrt())
        return torch.stack(rows).view(*x.shape) * self.weight + self.bias


@layer_norm.alternative
class ByLengthOfTheCentred(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(d_model))
        self.b_2 = nn.Parameter(torch.zeros(d_model))
        self.eps, self.d_model = eps, d_model

    def forward(self, x):
        centring = torch.eye(self.d_model, dtype=x.dtype) - 1 / self.d_model
        centred = x @ centring
        squares = torch.einsum("...d,...d->...", centred, centred).unsqueeze(-1)
        return self.a_2 * centred * math.sqrt(self.d_model) / (squares + self.d_model * self.eps).sqrt() + self.b_2
