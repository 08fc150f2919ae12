"""The exercise `warmup_rate`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import numpy as np
import torch

from course_lib import training
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, is_close, sentence
from course_lib.exercises.training.shared import (
    expect_number,
)

warmup_rate = Exercise(
    training.warmup_rate,
    cases=[
        {"step": 2, "d_model": 4, "warmup": 5},
        {"step": 9, "d_model": 25, "warmup": 3},
        {"step": 6, "d_model": 9, "warmup": 6},
        {"step": 4000, "d_model": 512, "warmup": 4000},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Draw it: a straight line from the origin, and a curve that falls like one over the root of the step. Which of "
        "the two is smaller before they meet, and which after?",
        "Two numbers, step · warmup^(-1.5) and step^(-0.5). They are equal at step = warmup. The smaller one counts.",
        "Python's power is **, and -1.5 is the exponent: warmup**-1.5.",
        "return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)",
    ],
)


def expect_rate(got, want: float, what: str) -> None:
    """`got` is `want` up to rounding, however small the rates are."""
    number = expect_number(got, what)
    if not is_close(torch.tensor(number), torch.tensor(want), rtol=1e-4, atol=0.0):
        raise Failure(
            f"{sentence(what)} should be {want:.6g}, but it is {number:.6g} ({number / want:.4g} times as much)."
        )


def expect_ratio(subject, d_model: int, warmup: int, early: int, late: int, ratio: float) -> None:
    """The rate at the late step is `ratio` times that at the early one; both are the student's."""
    before, after = (
        expect_number(subject(step, d_model, warmup), f"the rate at step {step}") for step in (early, late)
    )
    expect(
        is_close(torch.tensor(after), torch.tensor(ratio * before), rtol=1e-4, atol=0.0),
        f"With d_model = {d_model}, warmup = {warmup} the rate at step {late} is {ratio:.4g} times that at step "
        f"{early}. Yours is {before:.6g} at step {early} and {after:.6g} at step {late}.",
    )


@warmup_rate.property("the rate is a positive number", points=1)
def rate_is_positive(subject, case):
    got = expect_number(subject(*case.values()), "the rate")
    expect(got > 0, f"The rate is {got:g}. A learning rate is positive, even at the first step.")


@warmup_rate.property("its peak is 1 / √(d_model · warmup), at step = warmup", points=1)
def rate_at_the_top(subject, case):
    _, d_model, warmup = case.values()
    expect_rate(subject(warmup, d_model, warmup), (d_model * warmup) ** -0.5, rate_at(warmup, case))


def rate_at(step: int, case) -> str:
    """What is asked about: the rate of the case, or that of another step."""
    if step == case["step"]:
        return "the rate"
    return f"with the same d_model and warmup, but at step {step}, the rate"


@warmup_rate.property("during the warm-up it rises in a straight line from 0", points=1)
def rate_rises(subject, case):
    _, d_model, warmup = case.values()
    for step in (2, warmup - 1, warmup):
        expect_ratio(subject, d_model, warmup, 1, step, step)


@warmup_rate.property("after the warm-up it falls as one over the root of the step", points=1)
def rate_falls(subject, case):
    _, d_model, warmup = case.values()
    for factor in (4, 9):
        expect_ratio(subject, d_model, warmup, warmup, factor * warmup, factor**-0.5)


@warmup_rate.property("it is d_model^-½ · min(step^-½, step · warmup^-1½) at every step", points=1)
def rate_values(subject, case):
    step, d_model, warmup = case.values()
    steps = (step, step + 1, 2 * warmup, 100_000)
    for at, got in [(at, subject(at, d_model, warmup)) for at in steps]:
        want = training.warmup_rate(at, d_model, warmup)
        expect_rate(got, want, rate_at(at, case))


@warmup_rate.misconception
def takes_the_larger(step, d_model, warmup):
    """You take the larger of the two parts. The smaller one counts.

    Your rate is huge at the beginning, falls until the end of the warm-up and rises forever after it."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * max(rising, falling)


@warmup_rate.misconception
def rises_with_the_root(step, d_model, warmup):
    """Your second part is the root of the step, which rises. It has to fall: the exponent is -0.5."""
    rising = step * warmup**-1.5
    falling = step**0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_with_the_step(step, d_model, warmup):
    """Your second part is 1 / step. It falls as one over the root of the step.

    Only then do the two parts meet at step = warmup."""
    rising = step * warmup**-1.5
    falling = step**-1.0
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def warms_up_with_the_root_of_warmup(step, d_model, warmup):
    """You give warmup the exponent -0.5 in the rising part. It should be -1.5.

    There is hardly any warm-up: the two parts meet long before step = warmup."""
    rising = step * warmup**-0.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def warms_up_by_the_share(step, d_model, warmup):
    """Your rising part is step / warmup. It has to reach warmup^(-0.5) at the end of the warm-up, not 1.

    The two parts do not meet at step = warmup."""
    rising = step / warmup
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_relative_to_the_top(step, d_model, warmup):
    """Your curve is scaled by its peak, which is d_model^(-0.5) whatever the warm-up. A longer warm-up has a lower
    peak: 1 / √(d_model · warmup)."""
    rising = step / warmup
    falling = (warmup / step) ** 0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def forgets_d_model(step, d_model, warmup):
    """d_model plays no part in your rate. Wider models get smaller steps: there is a factor d_model^(-0.5)."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return min(rising, falling)


@warmup_rate.misconception
def multiplies_by_the_root_of_d_model(step, d_model, warmup):
    """You multiply by the root of d_model. Wider models get smaller steps: the exponent is -0.5."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**0.5 * min(rising, falling)


@warmup_rate.misconception
def divides_by_d_model(step, d_model, warmup):
    """You divide by d_model itself. The exponent is -0.5, its root."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-1.0 * min(rising, falling)


@warmup_rate.misconception
def halves_instead_of_taking_the_root(step, d_model, warmup):
    """You divide by d_model and by 2: in Python `d_model ** -1 / 2` is (d_model ** -1) / 2. The exponent -1/2 needs
    brackets."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-1 / 2 * min(rising, falling)


@warmup_rate.misconception
def halves_every_power(step, d_model, warmup):
    """Your exponents lack brackets: in Python `x ** -1 / 2` is (x ** -1) / 2."""
    rising = step * (warmup**-3 / 2)
    falling = step**-1 / 2
    return d_model**-1 / 2 * min(rising, falling)


@warmup_rate.misconception
def gives_d_model_the_exponent_of_warmup(step, d_model, warmup):
    """The exponent -1.5 belongs to warmup. That of d_model is -0.5."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-1.5 * min(rising, falling)


@warmup_rate.misconception
def scales_only_the_falling_part(step, d_model, warmup):
    """The factor with d_model stands before one of the two parts only. It belongs before the whole minimum: mind the
    brackets."""
    rising = step * warmup**-1.5
    falling = d_model**-0.5 * step**-0.5
    return min(rising, falling)


@warmup_rate.misconception
def scales_only_the_rising_part(step, d_model, warmup):
    """The factor with d_model stands before one of the two parts only. It belongs before the whole minimum: mind the
    brackets."""
    rising = d_model**-0.5 * step * warmup**-1.5
    falling = step**-0.5
    return min(rising, falling)


@warmup_rate.misconception
def counts_steps_from_zero(step, d_model, warmup):
    """You add 1 to the step. Steps are counted from 1 here, as in the paper: the first call has step = 1."""
    step = step + 1
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def one_step_behind(step, d_model, warmup):
    """You count one step too few. Steps are counted from 1: use step as it is.

    The first two steps have the same rate."""
    step = max(step - 1, 1)
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def only_falls(step, d_model, warmup):
    """The rising part is missing, or it is so steep that it is never the smaller one: step is *multiplied* by warmup to
    the power -1.5.

    There is no warm-up: your rate is largest at the first step."""
    falling = step**-0.5
    return d_model**-0.5 * falling


@warmup_rate.misconception
def only_rises(step, d_model, warmup):
    """The falling part is missing. After the warm-up the rate falls as one over the root of the step.

    Your rate never stops rising."""
    rising = step * warmup**-1.5
    return d_model**-0.5 * rising


@warmup_rate.misconception
def stays_at_the_top(step, d_model, warmup):
    """After the warm-up your rate stays where it is. It falls as one over the root of the step."""
    rising = step * warmup**-1.5
    falling = warmup**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_in_a_straight_line(step, d_model, warmup):
    """After the warm-up your rate falls in a straight line. It falls as one over the root of the step.

    Your rate reaches 0; the paper's never does."""
    rising = step * warmup**-1.5
    falling = warmup**-0.5 * max(0.0, 2 - step / warmup)
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def swaps_step_and_warmup(step, d_model, warmup):
    """Step and warmup are swapped. The straight line is a multiple of step, and warmup says how steep it is."""
    rising = warmup * step**-1.5
    falling = warmup**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def multiplies_by_a_usual_rate(step, d_model, warmup):
    """You multiply by a usual learning rate on top. The formula is the whole rate, not a factor for another one.

    The steps are so small that hardly anything is learned."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return 1e-3 * d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def drops_the_fraction(step, d_model, warmup):
    """You divide whole numbers and drop the fraction (//).

    During the whole warm-up the rate is 0."""
    rising = step // warmup * warmup**-0.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def multiplies_by_the_exponent(step, d_model, warmup):
    """You multiply by -1.5 where it should be the exponent: a power is written with two stars."""
    rising = step * warmup * -1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_from_the_end_of_the_warmup(step, d_model, warmup):
    """Your falling part counts steps from the end of the warm-up. It counts all steps, from the first.

    The two parts do not meet at step = warmup."""
    rising = step * warmup**-1.5
    falling = max(step - warmup, 1) ** -0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def loses_both_minus_signs(step, d_model, warmup):
    """The minus is missing in both exponents inside the minimum: they are -0.5 and -1.5.

    Your rate rises with the root of the step, forever."""
    rising = step * warmup**1.5
    falling = step**0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.alternative
def with_two_branches(step, d_model, warmup):
    top = 1 / math.sqrt(d_model * warmup)
    if step < warmup:
        return top * step / warmup
    return top * math.sqrt(warmup / step)


@warmup_rate.alternative
def in_tensors(step, d_model, warmup):
    step = torch.tensor(float(step))
    return torch.minimum(step.rsqrt(), step / warmup**1.5) / d_model**0.5


@warmup_rate.alternative
def in_numpy(step, d_model, warmup):
    return np.float64(d_model) ** -0.5 * np.min([step**-0.5, step * warmup**-1.5])


@warmup_rate.alternative
def by_logarithms(step, d_model, warmup):
    return math.exp(-0.5 * math.log(d_model) + min(-0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup)))
