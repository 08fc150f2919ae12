"""The exercise `additive_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import masks
from course_lib.checking.difference import Difference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_floats, is_close
from course_lib.checking.inputs import random_mask
from course_lib.exercises.masks.shared import first_place

additive_mask = Exercise(
    masks.additive_mask,
    cases=[
        {"mask": torch.tensor([[1, 0, 1], [1, 1, 1]]).bool()},
        {"mask": masks.causal_mask(5)},
        {"mask": random_mask(2, 3, 4, 6, seed=41)},
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "What do you add to a score to leave it as it is? What do you add so that its exponential becomes 0?",
        "Begin with zeros in the shape of the mask, and fill the hidden places.",
        "torch.zeros(mask.shape).masked_fill(…, -math.inf) fills where its first argument is True: that has to be "
        "where the mask is False.",
    ],
)


def additive_answer(subject, case):
    return expect_floats(subject(case["mask"]), tuple(case["mask"].shape), "the additive mask")


def probe_scores(mask, scale):
    """Scores of about this size, the largest of them on hidden places."""
    spread = torch.linspace(-1.0, 1.0, mask.shape[-1], dtype=torch.float64).expand(mask.shape)
    return scale * torch.where(mask, spread.flip(-1) - 0.5, spread.abs()).clamp(-1, 1)


@additive_mask.property("it holds floating point numbers, in the shape of the mask, and no NaN", points=1)
def additive_shape(subject, case):
    additive_answer(subject, case)


@additive_mask.property("0 where attention is allowed, something negative where it is hidden", points=1)
def additive_signs(subject, case):
    answer, mask = additive_answer(subject, case), case["mask"]
    wrong = (mask & (answer != 0)) | (~mask & (answer >= 0))
    if wrong.any():
        place = first_place(wrong)
        kind = "allowed" if mask[place] else "hidden"
        message = f"The place {list(place)} is {kind}, but {float(answer[place]):g} is added to its score."
        raise Failure(message, Difference(answer, masks.additive_mask(mask)))


@additive_mask.property("softmax(scores + additive mask) is the masked softmax, for scores up to 1", points=1)
def additive_softmax_of_small_scores(subject, case):
    hides_scores_up_to(1.0, additive_answer(subject, case), case["mask"])


@additive_mask.property("… and for scores up to 1000", points=2)
def additive_softmax_of_large_scores(subject, case):
    hides_scores_up_to(1000.0, additive_answer(subject, case), case["mask"])


def hides_scores_up_to(scale, answer, mask):
    scores = probe_scores(mask, scale)
    weights = (scores + answer.double()).softmax(dim=-1)
    expect(
        is_close(weights, masks.masked_softmax(scores, mask)),
        f"For scores between -{scale:g} and {scale:g} a hidden score can lie {2 * scale:g} above the allowed ones. "
        f"You add {float(answer[~mask].max()):g} to it, and it still gets attention.",
    )


@additive_mask.misconception
def adds_to_the_allowed(mask):
    """You take the allowed places for the hidden ones. It should be the other way round."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(allowed, -math.inf)


@additive_mask.misconception
def plus_infinity(mask):
    """You add +inf. The sign is wrong: a score that has to vanish is pulled down.

    As it is, the hidden keys get all the attention."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, math.inf)


@additive_mask.misconception
def zero_times_infinity(mask):
    """You multiply by -inf. Where the other factor is 0, the product is NaN, not 0."""
    allowed = mask.bool()
    return (~allowed).float() * -math.inf


@additive_mask.misconception
def one_on_the_allowed(mask):
    """You put a 1 where a score is meant to stay as it is. That takes a 0.

    Your hidden places are right."""
    allowed = mask.bool()
    nothing = torch.ones(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -math.inf)


@additive_mask.misconception
def minus_infinity_everywhere(mask):
    """You put -inf on every place, the allowed ones too. They need 0, so that their scores stay as they are."""
    allowed = mask.bool()
    nothing = torch.full(mask.shape, -math.inf, device=mask.device)
    return nothing


@additive_mask.misconception
def mask_as_numbers(mask):
    """You return the mask itself, as truth values or as 1 and 0.

    Added to the scores it raises the allowed ones by 1 and hides nothing."""
    allowed = mask.bool()
    return allowed.float()


@additive_mask.misconception
def only_minus_one(mask):
    """Your negative number is -1. That is not negative enough.

    It makes a weight about three times smaller, not 0."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -1.0)


@additive_mask.misconception
def only_minus_ten(mask):
    """Your negative number is -10. That is not negative enough.

    A hidden key whose score is 10 higher than the others still wins."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -10.0)


@additive_mask.misconception
def only_minus_hundred(mask):
    """Your negative number is -100. That is not negative enough for large scores.

    A hidden key whose score is 100 higher than the others still wins."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -100.0)


@additive_mask.misconception
def only_minus_thousand(mask):
    """Your negative number is -1000. Scores go from -1000 to 1000 here, so a hidden one can be 2000 above the
    others."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -1000.0)


@additive_mask.misconception
def tiny_instead_of_negative(mask):
    """You put 0 or a number very close to it on the hidden places. It takes a large negative number. (The most negative
    number of a dtype is its finfo.min, not finfo.tiny.)

    As it is, nothing is hidden."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -1e-9)


@additive_mask.misconception
def lowers_the_allowed(mask):
    """You put your large negative number on the allowed places. It belongs on the hidden ones."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(allowed, -1e9)


@additive_mask.misconception
def holds_whole_numbers(mask):
    """You return integers. The mask is added to scores: return floating point numbers, which can also be -inf."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device, dtype=torch.int64)
    return nothing.masked_fill(~allowed, -(10**9))


@additive_mask.misconception
def inverts_the_callers_mask(mask):
    """You invert the caller's mask in place. The caller still needs it: invert a copy."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(mask.logical_not_(), -math.inf)


@additive_mask.alternative
def logarithm_of_the_mask(mask):
    return torch.log(mask.float())


@additive_mask.alternative
def minus_a_billion(mask):
    return (1.0 - mask.to(torch.float64)) * -1e9


@additive_mask.alternative
def minus_ten_thousand(mask):
    return -10000.0 * mask.logical_not()


@additive_mask.alternative
def most_negative_float(mask):
    return torch.where(mask, 0.0, torch.finfo(torch.float32).min)


@additive_mask.alternative
def filled_twice(mask):
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


@additive_mask.alternative
def written_into_place(mask):
    bias = torch.zeros_like(mask, dtype=torch.float16)
    bias[~mask] = float("-inf")
    return bias
