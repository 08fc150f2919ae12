"""The exercise `dropout`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import you_are_the_grader as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal


def uniform(*shape: int, seed: int) -> Tensor:
    """Noise that is never close to a p of the cases: 0.05, 0.15, …, 0.95."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 10, shape, generator=generator).double() / 10 + 0.05


dropout = Exercise(
    reference.dropout,
    cases=[
        {
            "x": torch.tensor([[2.0, -4.0, 1.0, 3.0]]),
            "noise": torch.tensor([[0.7, 0.1, 0.9, 0.4]]),
            "p": 0.5,
            "training": True,
        },
        {"x": normal(3, 5, seed=1), "noise": uniform(3, 5, seed=2), "p": 0.2, "training": True},
        {"x": normal(2, 4, 3, seed=3), "noise": uniform(2, 4, 3, seed=6), "p": 0.7, "training": False},
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "With p = 0.5, half of the features become 0. What happens to the mean of the layer's output, and what does "
        "the next layer meet when nothing is dropped in evaluation?",
        "On average a share of 1 - p of the features is kept. What must the kept ones be multiplied by for the mean to "
        "stay what it is?",
        "In training: x * (noise >= p) / (1 - p). In evaluation: x.",
    ],
)


def dropped(subject, case, training: bool) -> Tensor:
    x, noise, p, _ = case.values()
    return expect_floats(subject(x, noise, p, training), tuple(x.shape), "the result")


@dropout.property("the result has the shape of x", points=1)
def dropout_shape(subject, case):
    x, noise, p, training = case.values()
    expect_floats(subject(x, noise, p, training), tuple(x.shape), "the result")


@dropout.property("in training, what is kept is larger, so that the expected value stays", points=3)
def dropout_in_training(subject, case):
    x, noise, p, _ = case.values()
    got = dropped(subject, case, training=True)
    expect_close(got, reference.dropout(x, noise, p, True), f"the result in training with p = {p}")


@dropout.property("in evaluation nothing is dropped and nothing is scaled", points=2)
def dropout_in_evaluation(subject, case):
    got = dropped(subject, case, training=False)
    expect_close(got, case["x"], f"the result in evaluation with p = {case['p']}")


@dropout.property("with p = 0, training is like evaluation", points=1)
def dropout_of_nothing(subject, case):
    x, noise, _, _ = case.values()
    for training in (True, False):
        got = expect_floats(subject(x, noise, 0.0, training), tuple(x.shape), "the result with p = 0")
        expect_close(got, x, "the result with p = 0")


@dropout.property("gradients reach what was kept, and nothing else", points=1)
def dropout_gradient(subject, case):
    x, noise, p, _ = case.values()
    slope = subject.gradient(x, noise, p, True, wrt=0)
    expect(slope.any(), "No gradient reaches x: somewhere the numbers leave torch's graph.")
    expect_close(slope, (noise >= p).to(x) / (1 - p), "the gradient of the result with respect to x")
    slope = subject.gradient(x, noise, p, False, wrt=0)
    expect_close(slope, torch.ones_like(x), "the gradient with respect to x in evaluation")


@dropout.misconception
def does_not_scale(x, noise, p, training):
    """What is kept stays as it is. In training it has to grow, so that the expected value stays the same.

    In evaluation the next layer meets numbers that are larger on average than those it was trained on."""
    if not training:
        return x
    kept = noise >= p
    return x * kept


@dropout.misconception
def scales_in_evaluation_instead(x, noise, p, training):
    """You shrink everything in evaluation, and what is kept in training stays as it is. The original paper did that.

    The two fit each other, but here evaluation should leave x alone, as torch does: scale in training."""
    if not training:
        return x * (1 - p)
    kept = noise >= p
    return x * kept


@dropout.misconception
def shrinks_what_is_kept(x, noise, p, training):
    """You multiply what is kept by 1 - p. It has to grow: divide by 1 - p."""
    if not training:
        return x
    kept = noise >= p
    return x * kept * (1 - p)


@dropout.misconception
def divides_by_p(x, noise, p, training):
    """You divide by p. The share that is kept is 1 - p.

    With p = 0.5 nobody notices."""
    if not training:
        return x
    kept = noise >= p
    return x * kept / p


@dropout.misconception
def keeps_with_probability_p(x, noise, p, training):
    """You keep what should be dropped: p is the probability of being dropped."""
    if not training:
        return x
    kept = noise < p
    return x * kept / (1 - p)


@dropout.misconception
def keeps_p_and_divides_by_it(x, noise, p, training):
    """You take p for the probability of being kept. It is the probability of being dropped.

    The expected value stays, but another share is dropped."""
    if not training:
        return x
    kept = noise < p
    return x * kept / p


@dropout.misconception
def leaves_it_to_torch(x, noise, p, training):
    """You call torch's dropout, which draws its own noise. Here the noise is given, and it decides what is kept."""
    if not training:
        return x
    return F.dropout(x, p)


@dropout.misconception
def always_drops(x, noise, p, training):
    """You drop in evaluation, too. There the result should be x.

    With new noise, the same input gives another result every time."""
    kept = noise >= p
    return x * kept / (1 - p)


@dropout.misconception
def never_drops(x, noise, p, training):
    """Nothing is ever dropped: `training` and `noise` play no part."""
    return x


@dropout.misconception
def drops_in_evaluation_alone(x, noise, p, training):
    """The two modes are swapped: you drop in evaluation and not in training."""
    if training:
        return x
    kept = noise >= p
    return x * kept / (1 - p)


@dropout.misconception
def scales_in_evaluation_too(x, noise, p, training):
    """In evaluation you drop nothing, but you still divide by 1 - p. There the result should be x."""
    if not training:
        return x / (1 - p)
    kept = noise >= p
    return x * kept / (1 - p)


@dropout.misconception
def scales_by_what_was_kept(x, noise, p, training):
    """You divide by the share that this noise happens to keep. Divide by the share that is kept on average, 1 - p.

    The factor should not depend on chance, nor one token's factor on the other tokens."""
    if not training:
        return x
    kept = noise >= p
    return x * kept / kept.double().mean().clamp(min=1e-9)


@dropout.misconception
def drops_whole_vectors(x, noise, p, training):
    """You look at the first number of the noise in each row and drop the whole row. Each feature has its own noise."""
    if not training:
        return x
    kept = noise[..., :1] >= p
    return x * kept / (1 - p)


@dropout.misconception
def fills_with_p(x, noise, p, training):
    """What is dropped gets the value p. It should be 0."""
    if not training:
        return x
    kept = noise >= p
    return torch.where(kept, x / (1 - p), p)


@dropout.misconception
def cuts_the_graph(x, noise, p, training):
    """You compute with x.detach(), so no gradient reaches x. Detach nothing."""
    if not training:
        return x
    kept = noise >= p
    return x.detach() * kept / (1 - p)


@dropout.alternative
def by_filling(x, noise, p, training):
    return torch.masked_fill(x / (1 - p), noise < p, 0.0) if training else x.clone()


@dropout.alternative
def by_a_sign(x, noise, p, training):
    mask = F.relu(torch.sign(noise - p))
    return x * (mask / (1.0 - p)) ** int(training) if training else x


@dropout.alternative
def by_where(x, noise, p, training):
    if training:
        return torch.where(noise > p, x * (1 / (1 - p)), torch.zeros(()).to(x))
    return x * 1.0


@dropout.alternative
def as_a_layer_would(x, noise, p, training):
    p = p if training else 0.0
    return x.mul((noise >= p).to(x.dtype)).div(1 - p)
