"""The exercise `FeedForward`: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.exercises.multi_head_attention.shared import expect_count, layers_in_plain_lists_explained
from course_lib.exercises.sublayers.shared import expect_gradients, filled

feed_forward = Exercise(
    reference.FeedForward,
    cases=[
        {"d_model": 3, "d_ff": 5, "dropout": 0.4, "x": normal(2, 4, 3, seed=31)},
        {"d_model": 6, "d_ff": 4, "dropout": 0.25, "x": normal(3, 2, 6, seed=32)},
        {"d_model": 4, "d_ff": 16, "dropout": 0.3, "x": normal(2, 7, 4, seed=33, scale=3)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Read the formula from the inside out: one Linear, the maximum with 0, one Linear. What are their widths?",
        "nn.Linear(d_in, d_out) works on the last axis, whatever comes before it: no loop over positions.",
        "In __init__: self.w_1, self.w_2 and self.dropout = nn.Dropout(dropout). In forward, dropout is applied to "
        "the hidden values, after the ReLU and before the second Linear.",
        "return self.w_2(self.dropout(torch.relu(self.w_1(x))))",
    ],
)


@functools.cache
def feed_forward_numbers(d_model, d_ff):
    """Matrices as in nn.Linear: (out, in)."""
    return {
        "w_1.weight": normal(d_ff, d_model, seed=d_ff, scale=0.8),
        "w_1.bias": normal(d_ff, seed=d_ff + 1, scale=0.5),
        "w_2.weight": normal(d_model, d_ff, seed=d_ff + 2, scale=0.8),
        "w_2.bias": normal(d_model, seed=d_ff + 3, scale=0.5),
    }


def right_hidden(numbers, x):
    return torch.relu(x @ numbers["w_1.weight"].T + numbers["w_1.bias"])


def right_feed_forward(numbers, x):
    return right_hidden(numbers, x) @ numbers["w_2.weight"].T + numbers["w_2.bias"]


def feed_forward_with(subject, case, must_fit=True):
    numbers = feed_forward_numbers(case["d_model"], case["d_ff"])
    sizes = (case["d_model"], case["d_ff"], case["dropout"])
    return filled(subject, sizes, numbers, [case["x"]], right_feed_forward(numbers, case["x"]), must_fit), numbers


@feed_forward.property("the shape of x comes back; 2 · d_model · d_ff + d_ff + d_model numbers are learned", points=1)
def feed_forward_shape(subject, case):
    d_model, d_ff = case["d_model"], case["d_ff"]
    count = 2 * d_model * d_ff + d_ff + d_model
    built, _ = feed_forward_with(subject, case, must_fit=False)
    with layers_in_plain_lists_explained(built, count):
        expect_floats(built(case["x"]), tuple(case["x"].shape))
    expect_count(built, count)


@feed_forward.property("each position by itself becomes max(0, x W_1 + b_1) W_2 + b_2", points=3)
def feed_forward_values(subject, case):
    built, numbers = feed_forward_with(subject, case)
    got = built(case["x"])
    built.require_untouched_inputs()
    others = built.gradient(case["x"], wrt=0, at=(0, 1))
    others[0, 1] = 0.0
    expect(
        others.abs().max() < 1e-9,
        "The result at position 1 depends on other positions of x. The same small network works on each position "
        "alone.",
    )
    expect_close(got, right_feed_forward(numbers, case["x"]))


@feed_forward.property("gradients reach x and all parameters", points=1)
def feed_forward_gradients(subject, case):
    built, numbers = feed_forward_with(subject, case)
    expect_close(built(case["x"]), right_feed_forward(numbers, case["x"]))
    expect_gradients(built, case["x"], right_feed_forward, numbers, at=(1, 0))


@feed_forward.property("dropout is applied to the hidden values, in training only", points=1)
def feed_forward_dropout(subject, case):
    x, numbers = normal(3, 9, 7, seed=34), feed_forward_numbers(7, 5)
    built = filled(subject, (7, 5, case["dropout"]), numbers, [x], right_feed_forward(numbers, x))
    expect_close(built(x), right_feed_forward(numbers, x), "the result in evaluation")
    built.train()
    # Right answers differ in what they drop at random. So the answer itself is not recorded, only what it shows.
    with built.unobserved():
        result = expect_floats(built(x), tuple(x.shape))
    outcome = what_is_dropped(result, numbers, x, case["dropout"])
    # An answer that cannot be explained equals no other.
    built.note("dropout", result if outcome == "something else" else outcome)
    messages = {
        "nothing": f"With dropout {case['dropout']} the module answers in training as it does in evaluation.",
        "not rescaled": "In training hidden values are dropped, but what is left is not divided by 1 - dropout.",
        "kept instead of dropped": "What is left in training is divided by dropout; divide by 1 - dropout, "
        "as nn.Dropout does.",
        "the result": "In training, entries of the result are dropped. Here the hidden values should be.",
    }
    messages |= {
        "the input": "In training, entries of x are dropped. Here the hidden values should be.",
        "hidden values at another rate": f"Hidden values are dropped, but not with the probability {case['dropout']}.",
    }
    other = "Something is dropped in training, but not just the hidden values between the ReLU and the second Linear."
    expect(outcome == "hidden values", messages.get(outcome, other))
    built.train(False)
    expect_close(built(x), right_feed_forward(numbers, x), "the result in evaluation, after training")


def what_is_dropped(result, numbers, x, dropout):
    """With fewer hidden values than features, the hidden values can be read off the result."""
    hidden = right_hidden(numbers, x)
    result, whole = result.double(), right_feed_forward(numbers, x)
    if is_close(result, whole):
        return "nothing"
    seen = (result - numbers["w_2.bias"]) @ torch.linalg.pinv(numbers["w_2.weight"]).T  # (batch, time, d_ff)
    if is_close(seen @ numbers["w_2.weight"].T + numbers["w_2.bias"], result):
        factors = (seen / hidden)[hidden > 1e-3]
        possible = {"hidden values": 1 / (1 - dropout), "not rescaled": 1.0, "kept instead of dropped": 1 / dropout}
        for name, kept in possible.items():
            if ((factors.abs() < 1e-4) | ((factors - kept).abs() < 1e-4)).all():
                return name
        kept = factors[factors.abs() > 1e-4]
        if len(kept) and is_close(kept, kept[:1].expand_as(kept)):
            return "hidden values at another rate"
        if comes_from_dropped_input(result, numbers, x, dropout):
            return "the input"
        if comes_from_dropped_input_and_hidden(seen, numbers, x, dropout):
            return "the input and hidden values"
    kept = result != 0
    if not kept.all():
        return "the result" if is_close(result[kept], whole[kept] / (1 - dropout)) else "the result and more"
    return "something else"


def with_features_dropped(x, dropout):
    """Everything that dropout can make of each position of x: (batch, time, 2^d_model, d_model)."""
    every = torch.tensor(list(product((0.0, 1 / (1 - dropout)), repeat=x.shape[-1])), dtype=x.dtype)
    return x.unsqueeze(-2) * every


def comes_from_dropped_input(result, numbers, x, dropout):
    """Whether each position of the result is the answer to x with some of its features missing."""
    possible = right_feed_forward(numbers, with_features_dropped(x, dropout))
    return bool(((possible - result.unsqueeze(-2)).abs().amax(dim=-1).amin(dim=-1) < 1e-4).all())


def comes_from_dropped_input_and_hidden(seen, numbers, x, dropout):
    """Whether these hidden values are those of x with some features missing, and then some of them missing too."""
    possible = right_hidden(numbers, with_features_dropped(x, dropout)) / (1 - dropout)  # (batch, time, 2^d, d_ff)
    seen = seen.unsqueeze(-2)
    fits = (seen.abs() < 1e-4) | ((seen - possible).abs() < 1e-4)
    return bool(fits.all(dim=-1).any(dim=-1).all())


@feed_forward.misconception
class HasNoActivation(nn.Module):
    """There is nothing between your two matrices. The ReLU belongs there.

    As it is, in the end they are one matrix: the ReLU is what makes the network more than a Linear.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class ActivatesAtTheEnd(nn.Module):
    """Your ReLU comes after the second Linear. It belongs on the hidden values, before it.

    As it is, no output can be negative, and between the two matrices there is nothing.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = self.dropout(hidden)
        return torch.relu(self.w_2(hidden))


@feed_forward.misconception
class ActivatesTwice(nn.Module):
    """There is a second ReLU after the second Linear. The formula has only one, in between.

    As it is, no output can be negative.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return torch.relu(self.w_2(hidden))


@feed_forward.misconception
class ActivatesTheInput(nn.Module):
    """You apply the ReLU to x, before the first Linear. It belongs between the two Linears."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(torch.relu(x))
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class ActivatesTheInputToo(nn.Module):
    """You apply a ReLU to x as well. The formula has only one, between the two Linears.

    As it is, everything negative in x is lost before the first Linear sees it.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(torch.relu(x))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesGelu(nn.Module):
    """You use GELU, as GPT and BERT do. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.gelu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesGeluApproximately(nn.Module):
    """You use the approximate GELU of GPT-2. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.gelu(hidden, approximate="tanh")
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesSilu(nn.Module):
    """You use SiLU (swish), as LLaMA does. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.silu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesTanh(nn.Module):
    """You use tanh. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.tanh(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesSigmoid(nn.Module):
    """You use the sigmoid. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.sigmoid(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesLeakyRelu(nn.Module):
    """Your ReLU lets a little of the negative numbers through (leaky ReLU). The formula cuts them off: max(0, ·)."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.leaky_relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesSoftmax(nn.Module):
    """You use a softmax between the two Linears. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.softmax(dim=-1)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class TakesTheMinimum(nn.Module):
    """You keep the negative numbers and cut the positive ones: max(0, ·) does the opposite."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.clamp(max=0)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class TakesAbsoluteValues(nn.Module):
    """You take absolute values; max(0, ·) turns negative numbers into 0."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.abs()
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class AddsTheResidual(nn.Module):
    """You add x to the result. The residual connection is built around this network later.

    As it is, x would be counted twice.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden) + x


@feed_forward.misconception
class NormalisesInside(nn.Module):
    """You normalise inside the network. The norm belongs outside, in the residual connection."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return nn.functional.layer_norm(self.w_2(hidden), x.shape[-1:])


@feed_forward.misconception
class IsAWholeSubLayer(nn.Module):
    """You have built the whole sub-layer, with residual connection and norm. Here it is the network alone; what
    surrounds it comes later.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.norm(x + self.w_2(hidden))


@feed_forward.misconception
class HasNoBiasesInside(nn.Module):
    """Your two Linears have no biases: b_1 and b_2 are missing."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class HasNoFirstBias(nn.Module):
    """The first Linear has no bias: b_1 is missing."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class HasNoSecondBias(nn.Module):
    """The second Linear has no bias: b_2 is missing."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class NeverWidens(nn.Module):
    """Your hidden layer has d_model values. It should have d_ff: the network widens and narrows again."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_model)
        self.w_2 = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class TakesDFfForARatio(nn.Module):
    """You take d_ff for a factor and make the hidden layer d_ff · d_model wide. It is the width itself."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff * d_model)
        self.w_2 = nn.Linear(d_ff * d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class StaysWide(nn.Module):
    """The second Linear does not come back to d_model.

    A residual connection needs the shape that came in.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class ForgetsTheSecondLinear(nn.Module):
    """You return the hidden values. The second Linear brings them back to d_model."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return hidden


@feed_forward.misconception
class LooksAtItsNeighbours(nn.Module):
    """Your convolutions are 3 positions wide. With width 1 they are what a Linear is.

    As it is, each position mixes with its neighbours.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 3, padding=1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 3, padding=1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x.transpose(1, 2))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden).transpose(1, 2)


@feed_forward.misconception
class ConvolvesWithoutTransposing(nn.Module):
    """You give Conv1d the axes as they come. It wants the channels in the middle: (batch, d_model, time).

    As it is, it takes your time axis for channels.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class LeavesTheChannelsInTheMiddle(nn.Module):
    """The result still has the channels in the middle: (batch, d_model, time). Swap the axes back."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x.transpose(1, 2))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class AveragesOverTime(nn.Module):
    """You average the hidden values over the positions. Each position has its own."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x).mean(dim=1, keepdim=True).expand(-1, x.shape[1], -1)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class ForgetsDropout(nn.Module):
    """Nothing is dropped in training. Dropout is applied to the hidden values."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class DropsTheResult(nn.Module):
    """You apply dropout to the result, after the second Linear. Here it is applied to the hidden values, before it."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        return self.dropout(self.w_2(hidden))


@feed_forward.misconception
class DropsTwice(nn.Module):
    """You drop hidden values and entries of the result. Here it is the hidden values alone."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.dropout(self.w_2(hidden))


@feed_forward.misconception
class DropsTheInput(nn.Module):
    """You apply dropout to x. Here it is applied to the hidden values, after the ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(self.dropout(x))
        hidden = torch.relu(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class FixesTheDropout(nn.Module):
    """You drop with a probability of your own instead of the given one."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class DropsInputAndHidden(nn.Module):
    """You drop entries of x as well as hidden values. Here it is the hidden values alone."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(self.dropout(x))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class DropsInEvaluationToo(nn.Module):
    """You drop values in evaluation too. nn.Dropout knows by itself; the function F.dropout has to be told:
    training=self.training.

    As it is, the answers are random.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = nn.functional.dropout(hidden, self.dropout.p)
        return self.w_2(hidden)


@feed_forward.misconception
class DropsWithoutRescaling(nn.Module):
    """What is kept in training is not divided by 1 - dropout.

    So in evaluation the second Linear would see larger values than it was trained on.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden) * (1 - self.dropout.p if self.training else 1)
        return self.w_2(hidden)


@feed_forward.misconception
class KeepsWithTheProbability(nn.Module):
    """You take dropout for the probability of keeping a value. It is the probability of dropping one."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(1 - dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class KeepsItsLayersInAList(nn.Module):
    """Your layers are in a plain Python list, where a module does not find them: nn.ModuleList or nn.Sequential keeps
    layers that it knows.

    So no optimizer trains them, and .to(device) and state_dict() miss them.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.layers = [nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.layers[0](x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.layers[1](hidden)


@feed_forward.misconception
class CutsOffItsInput(nn.Module):
    """x is detached before the first Linear.

    The values are right, but nothing below this network could learn.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x.detach())
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class CutsOffTheHiddenValues(nn.Module):
    """The hidden values are detached.

    The values are right, but the first Linear could not learn, nor anything below it.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden.detach())


@feed_forward.misconception
class ClampsFromAbove(nn.Module):
    """You cut the hidden values off at 1 as well. max(0, ·) cuts off what is negative, and nothing else."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.clamp(0, 1)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesRelu6(nn.Module):
    """You use ReLU6, which cuts the hidden values off at 6 as well. max(0, ·) cuts off what is negative, and nothing
    else.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.relu6(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesElu(nn.Module):
    """You use ELU. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.elu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class UsesSoftplus(nn.Module):
    """You use softplus. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.softplus(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class SquaresTheRelu(nn.Module):
    """You square what the ReLU leaves. The formula here has max(0, ·) as it is."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden).pow(2)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feed_forward.misconception
class CutsOffEveryGradient(nn.Module):
    """The result is detached: no gradient comes back through it (.detach(), .data, no_grad, a new tensor).

    The values are right, but nothing could learn.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden).detach()


@feed_forward.alternative
class AsOneSequence(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


@feed_forward.alternative
class AsTwoConvolutions(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.conv1 = nn.Conv1d(d_model, d_ff, kernel_size=1)
        self.conv2 = nn.Conv1d(d_ff, d_model, kernel_size=1)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.conv2(self.drop(F.relu(self.conv1(x.transpose(1, 2))))).transpose(1, 2)


@feed_forward.alternative
class WithItsOwnMatrices(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.W1 = nn.Parameter(torch.randn(d_model, d_ff) * d_model**-0.5)
        self.b1 = nn.Parameter(torch.zeros(d_ff))
        self.W2 = nn.Parameter(torch.randn(d_ff, d_model) * d_ff**-0.5)
        self.b2 = nn.Parameter(torch.zeros(1, 1, d_model))
        self.p = dropout

    def forward(self, x):
        hidden = (torch.einsum("btm,mf->btf", x, self.W1) + self.b1).clamp(min=0)
        return F.dropout(hidden, self.p, self.training) @ self.W2 + self.b2


@feed_forward.alternative
class DropsBeforeTheRelu(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.outer = nn.Linear(d_ff, d_model)
        self.inner = nn.Linear(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        # max(0, c·h) = c·max(0, h) for c ≥ 0: the order of the two makes no difference
        hidden = self.dropout(self.inner(x))
        return self.outer(torch.maximum(hidden, torch.zeros_like(hidden)))


@feed_forward.alternative
class PositionByPosition(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x):
        results = []
        for t in range(x.shape[1]):
            hidden = self.up(x[:, t])
            hidden = hidden * (hidden > 0)
            if self.training:
                hidden = hidden * (torch.rand_like(hidden) >= self.dropout) / (1 - self.dropout)
            results.append(self.down(hidden))
        return torch.stack(results, dim=1)
