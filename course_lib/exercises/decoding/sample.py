"""The exercise `sample`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
)
from course_lib.checking.inputs import normal
from course_lib.exercises.decoding.shared import expect_ids

sampling = Exercise(
    decoding.sample,
    cases=[
        {
            "logits": torch.tensor([[2.0, 1.0, 0.5, -1.0]]).double(),
            "temperature": 0.5,
            "u": torch.tensor([0.9]).double(),
        },
        {
            "logits": normal(3, 5, seed=61),
            "temperature": 2.0,
            "u": torch.tensor([0.15, 0.62, 0.93]).double(),
        },
        {
            "logits": normal(6, 4, seed=62, scale=2),
            "temperature": 0.7,
            "u": torch.tensor([0.03, 0.97, 0.48, 0.71, 0.22, 0.55]).double(),
        },
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Three steps: divide the logits by the temperature, softmax, and then find the piece of the line on which u "
        "lies.",
        "probabilities.cumsum(dim=-1) says where each token's piece ends. Which pieces lie wholly before u?",
        "The number of pieces that end at or before u is the id of the token that is drawn. Count them with a "
        "comparison and a sum. Temperature 0 is a case of its own: the best token.",
        "(probabilities.cumsum(dim=-1) <= u[:, None]).sum(dim=-1).",
    ],
)


def sampled(subject, logits, temperature, u):
    return expect_ids(subject(logits, temperature, u), (len(logits),))


@sampling.property("one token id for each row, shape (batch,)", points=1)
def sample_shape(subject, case):
    got = sampled(subject, *case.values())
    vocab = case["logits"].shape[-1]
    expect(
        bool(((got >= 0) & (got < vocab)).all()),
        f"The ids run from 0 to {vocab - 1}, but yours are {got.tolist()}.",
    )


@sampling.property("at temperature 1, u falls into the piece of the token that is drawn", points=1)
def sample_pieces(subject, case):
    logits, _, u = case.values()
    compare_draws(sampled(subject, logits, 1.0, u), logits, 1.0, u)


@sampling.property(
    "over 200 evenly spread u, each token comes as often as softmax(logits / temperature) says", points=2
)
def sample_frequencies(subject, case):
    logits, temperature, _ = case.values()
    u = (torch.arange(200).double() + 0.5) / 200
    many = logits[:1].expand(200, -1).clone()
    got = sampled(subject, many, temperature, u)
    want = decoding.sample(many, temperature, u)
    vocab = logits.shape[-1]
    counts, right = (torch.bincount(ids.clamp(0, vocab - 1).long(), minlength=vocab).tolist() for ids in (got, want))
    expect(
        counts == right,
        f"For the logits {logits[0].tolist()} and temperature {temperature:g}, the {vocab} tokens should be drawn "
        f"{right} times, but yours are drawn {counts} times.",
    )
    compare_draws(sampled(subject, *case.values()), *case.values())


@sampling.property("at temperature 0 it is the best token, whatever u is", points=1)
def sample_cold(subject, case):
    logits, _, u = case.values()
    got, want = sampled(subject, logits, 0.0, u), logits.argmax(dim=-1)
    expect(
        torch.equal(got.long(), want),
        f"At temperature 0 the best tokens are {want.tolist()}, but yours are {got.tolist()}.",
    )


@sampling.property("a token with probability 0 is never drawn, not even for u = 0; logits of 1000 do no harm", points=1)
def sample_impossible(subject, case):
    logits, temperature, u = case.values()
    logits = torch.cat([torch.full((len(logits), 2), -math.inf).double(), logits], dim=1)
    compare_draws(sampled(subject, logits, temperature, 0 * u), logits, temperature, 0 * u)
    compare_draws(sampled(subject, logits + 1000, temperature, u), logits + 1000, temperature, u)


def compare_draws(got, logits, temperature, u):
    want = decoding.sample(logits, temperature, u)
    if torch.equal(got.long(), want):
        return
    row = int((got != want).nonzero()[0])
    ends = (logits[row] / temperature).softmax(dim=-1).cumsum(dim=-1)
    shown = [round(value, 2) for value in logits[row].tolist()]
    raise Failure(
        f"With temperature {temperature:g} and the logits {shown} in row {row} the tokens' pieces end at "
        f"{[round(float(e), 3) for e in ends]}, and u is {u[row]:.3g}: "
        f"that is token {int(want[row])}, but you draw {int(got[row])}."
    )


@sampling.misconception
def multiplies_by_the_temperature(logits, temperature, u):
    """You multiply by the temperature. Divide: a high temperature flattens.

    As it is, a high temperature makes the distribution sharper."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits * temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def ignores_the_temperature(logits, temperature, u):
    """The temperature changes nothing in your probabilities. (Dividing them after the softmax, and normalising again,
    undoes itself.)"""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = logits.softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def ignores_the_temperature_at_zero_too(logits, temperature, u):
    """The temperature changes nothing in your result, not even where it is 0, which means: always the best token."""
    probabilities = logits.softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def divides_the_probabilities(logits, temperature, u):
    """You divide the probabilities by the temperature. The logits are divided, before the softmax.

    The probabilities no longer sum to 1."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = logits.softmax(dim=-1) / temperature
    ends = probabilities.cumsum(dim=-1)
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def divides_by_zero(logits, temperature, u):
    """You divide by the temperature even if it is 0. 0 is the limit of ever sharper distributions: the best token,
    without any draw."""
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def always_the_best(logits, temperature, u):
    """You always take the most likely token. u decides which one is drawn."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    return probabilities.argmax(dim=-1)


@sampling.misconception
def draws_by_its_own(logits, temperature, u):
    """You draw with a random number of your own. Here the number is given: u decides, so that the draw can be
    repeated."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    return torch.multinomial(probabilities, num_samples=1).squeeze(-1)


@sampling.misconception
def all_tokens_alike(logits, temperature, u):
    """Every token has the same chance: you cut the line into equal pieces, and the probabilities play no part."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits * 0).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def does_not_accumulate(logits, temperature, u):
    """You compare u with the probabilities themselves. It has to be compared with their running sum, the ends of the
    pieces."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def one_token_too_early(logits, temperature, u):
    """You take the last piece that ends before u. The token drawn is the next one, on whose piece u lies."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return (passed.sum(dim=-1) - 1).clamp(min=0)


@sampling.misconception
def one_token_too_late(logits, temperature, u):
    """You take the token after the one on whose piece u lies. If no piece lies before u, the draw is token 0."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return (passed.sum(dim=-1) + 1).clamp(max=logits.shape[-1] - 1)


@sampling.misconception
def from_the_other_end(logits, temperature, u):
    """You lay the pieces out from the last token to the first. Token 0 begins at 0."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= 1 - u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def returns_the_rank(logits, temperature, u):
    """You sort the probabilities first, and what you return is a place in the sorted list, not the token's own id."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1).sort(dim=-1, descending=True).values
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def sorted_first(logits, temperature, u):
    """You lay the pieces out in order of falling probability. Here the order is that of the ids, token 0 first, so that
    everybody draws the same.

    Your draw is fair too."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities, order = (logits / temperature).softmax(dim=-1).sort(dim=-1, descending=True)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return order.gather(1, passed.sum(dim=-1, keepdim=True)).squeeze(1)


@sampling.misconception
def softmax_over_the_batch(logits, temperature, u):
    """Your softmax runs over the rows of the batch. Each row is a distribution of its own, over the vocabulary."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=0)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def one_lot_for_all(logits, temperature, u):
    """Every row is drawn with the first number of u. Each row has its own."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[0]
    return passed.sum(dim=-1)


@sampling.misconception
def lots_along_the_vocabulary(logits, temperature, u):
    """Your u runs along the vocabulary instead of down the rows: it needs a new last axis, (batch, 1)."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u
    return passed.sum(dim=-1)


@sampling.misconception
def draws_the_impossible(logits, temperature, u):
    """You stop at the first running sum that is greater than u *or equal to it*. It has to be greater.

    For u = 0 you draw a token whose probability is 0: its piece has no length."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends < u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def keeps_an_axis(logits, temperature, u):
    """Your result has an axis of length 1 left over. Return one number for each row: (batch,)."""
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1, keepdim=True)


@sampling.misconception
def returns_the_probability(logits, temperature, u):
    """You return the probability of the token that was drawn. Return its id."""
    if temperature == 0:
        return logits.softmax(dim=-1).amax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return probabilities.gather(1, passed.sum(dim=-1, keepdim=True)).squeeze(1)


@sampling.misconception
def counts_what_lies_behind(logits, temperature, u):
    """Your comparison is reversed: you count the pieces that end after u. Those that end at or before u are to be
    counted."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends > u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def first_piece_that_has_ended(logits, temperature, u):
    """Unless the temperature is 0, you draw token 0, whatever u is. The first piece that ends after u is drawn.

    A reversed comparison does that: among the pieces that end before u, the first is always the first of all."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.int().argmax(dim=-1)


@sampling.misconception
def exponentials_of_the_scores_as_they_are(logits, temperature, u):
    """You take exponentials of the logits as they are, without subtracting the largest first. The softmax of torch does
    that for you.

    The exponential of 1000 is too large to be stored."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).exp() / (logits / temperature).exp().sum(dim=-1, keepdim=True)
    ends = probabilities.cumsum(dim=-1)
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.alternative
def by_searchsorted(logits, temperature, u):
    if temperature == 0:
        return logits.max(dim=-1).indices
    ends = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
    return torch.searchsorted(ends, u.unsqueeze(1), right=True).squeeze(1)


@sampling.alternative
def walking_along_the_line(logits, temperature, u):
    drawn = []
    for row, lot in zip(logits.tolist(), u.tolist(), strict=True):
        if temperature == 0:
            drawn.append(row.index(max(row)))
            continue
        weights = [math.exp((value - max(row)) / temperature) for value in row]
        rest = lot * sum(weights)
        for token, weight in enumerate(weights):  # noqa: B007
            if rest < weight:
                break
            rest -= weight
        drawn.append(token)
    return torch.tensor(drawn)


@sampling.alternative
def first_end_behind_u(logits, temperature, u):
    if temperature < 1e-6:
        return logits.argmax(-1).int()
    p = F.softmax(logits.float() / temperature, dim=1)
    return (p.cumsum(1) > u.float()[:, None]).int().argmax(dim=1)


@sampling.alternative
def by_comparing_with_a_triangle(logits, temperature, u):
    if temperature == 0:
        best = logits == logits.max(dim=1, keepdim=True).values
        return best.nonzero()[:, 1]
    p = (logits / temperature - (logits / temperature).logsumexp(1, keepdim=True)).exp()
    before = p @ torch.ones(p.shape[1], p.shape[1]).to(p).triu(1)  # the sum of the earlier ones
    inside = (before <= u[:, None]) & (u[:, None] < before + p)
    return inside.double().argmax(dim=1)
