"""The exercise `masked_softmax`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
    expect_close,
    expect_floats,
    expect_tensor,
)
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.exercises.masks.shared import first_place
from course_lib.masks import allowed_places

masked_softmax = Exercise(
    masks.masked_softmax,
    cases=[
        {
            "scores": torch.tensor([[1.0, 2.0, 0.5, -1.0], [0.3, -0.7, 1.2, 0.4], [-2.0, 0.1, 0.6, 1.5]]).double(),
            "mask": torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]).bool(),
        },
        {
            "scores": normal(3, 2, 5, seed=31, scale=2),
            "mask": torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, :],
        },
        {
            "scores": torch.tensor([[-300, 600, -301], [3, 2, 1], [990, 991, -999], [-500, -501, -499]]).double(),
            "mask": torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 0], [1, 1, 1]]).bool(),
        },
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "A hidden key must not take part in the sum below the fraction. What would its score have to be, so that "
        "exp(score) is 0?",
        "Fill the hidden scores with -inf before the softmax: scores.masked_fill(…, -math.inf). masked_fill fills "
        "where its mask is True, and ours is True where attention is allowed.",
        "An empty row is now NaN. Find such rows with mask.any(dim=-1, keepdim=True) and fill them with 0, in a new "
        "tensor (masked_fill again), because autograd still needs the old one.",
        "weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1); "
        "return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0).",
    ],
)


def softmax_answer(subject, case):
    """The weights, with the rows that have something to look at: (..., query, key) and (..., query)."""
    scores, mask = case.values()
    weights = expect_tensor(subject(scores, mask), tuple(scores.shape), "the weights")
    expect_floats(weights.nan_to_num() if weights.is_floating_point() else weights, what="the weights")
    return weights, mask.expand(scores.shape).any(dim=-1)


@masked_softmax.property("the weights have the shape of the scores", points=1)
def softmax_shape(subject, case):
    softmax_answer(subject, case)


@masked_softmax.property("a hidden key gets weight 0", points=1)
def softmax_hides(subject, case):
    weights, has_keys = softmax_answer(subject, case)
    expect(not weights[has_keys].isnan().any(), "There is NaN in a row in which some keys are allowed.")
    leak = weights.masked_fill(case["mask"].expand(weights.shape) | ~has_keys[..., None], 0.0).abs()
    if leak.max() >= 1e-6:
        place = first_place(leak >= 1e-6)
        expect(False, f"The key at index {list(place)} is hidden, but it gets weight {float(leak[place]):.3g}.")


@masked_softmax.property("the weights of a row sum to 1", points=1)
def softmax_rows(subject, case):
    weights, has_keys = softmax_answer(subject, case)
    sums = weights[has_keys].sum(dim=-1)
    expect(weights[has_keys].min() >= -1e-6, "There is a negative weight.")
    expect_close(sums, torch.ones_like(sums), "the sum of each row that has an allowed key")


@masked_softmax.property("the weights are the softmax over the allowed keys", points=1)
def softmax_values(subject, case):
    weights, has_keys = softmax_answer(subject, case)
    expect_close(weights[has_keys], masks.masked_softmax(**case)[has_keys], "the rows that have an allowed key")


@masked_softmax.property("a row in which everything is hidden is all 0", points=2)
def softmax_empty(subject, case):
    weights, _ = softmax_answer(subject, case)
    expect_close(weights, masks.masked_softmax(**case), "the result")


@masked_softmax.property("gradients are right, and finite although a row is empty", points=1)
def softmax_gradient(subject, case):
    softmax_empty(subject, case)  # where the weights are wrong, nothing is to be learned from the gradient
    scores, mask = case.values()
    place = first_place(mask.expand(scores.shape))
    want = Subject(masks.masked_softmax).gradient(scores, mask, wrt=0, at=place)
    slope = subject.gradient(scores, mask, wrt=0, at=place)
    expect_close(slope, want, f"the gradient of the weight at index {list(place)} with respect to the scores")


@masked_softmax.misconception
def empty_rows_are_nan(scores, mask):
    """A row in which everything is hidden becomes NaN: the softmax of -inf alone is 0/0. Such a row has to be 0."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def empty_rows_are_shared_out(scores, mask):
    """With a large negative number a row in which everything is hidden becomes uniform: it attends equally to keys
    that are all forbidden. Such a row has to be 0."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -1e9)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def empty_rows_follow_the_scores(scores, mask):
    """You add a number to the hidden scores. In a row in which everything is hidden all of them move alike, and the
    softmax comes out as if there were no mask. Such a row has to be 0."""
    allowed = allowed_places(mask, scores)
    visible = scores + (~allowed) * -1e9
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def gradient_is_nan(scores, mask):
    """The weights are right, but the gradient is NaN: in an empty row the NaN of the softmax flows back into the
    scores. Adding -inf lets it through; filling with -inf stops it."""
    allowed = allowed_places(mask, scores)
    visible = scores + torch.zeros_like(scores).masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def writes_into_the_weights(scores, mask):
    """The weights are right, but you wrote the zeros into them in place, and autograd needs the old values for the
    gradient. Make a new tensor instead."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill_(empty, 0.0)


@masked_softmax.misconception
def changes_the_scores(scores, mask):
    """You fill the caller's scores in place. The caller still needs them, and autograd forbids it."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill_(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def loses_the_gradient(scores, mask):
    """The weights are right, but no gradient reaches the scores: somewhere you leave the graph (detach, item, tolist,
    torch.tensor, no_grad)."""
    allowed = allowed_places(mask, scores)
    visible = scores.detach().masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def multiplies_after_the_softmax(scores, mask):
    """You set weights to 0 after the softmax. The hidden keys have already taken their share, so the rest no longer
    sums to 1."""
    allowed = allowed_places(mask, scores)
    weights = scores.softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0)


@masked_softmax.misconception
def hides_the_allowed(scores, mask):
    """You hide exactly the keys that are allowed. True means: attention is allowed here; masked_fill fills where its
    mask is True."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def inverts_everything(scores, mask):
    """You read the mask the other way round throughout. True means: attention is allowed here."""
    allowed = ~allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def hidden_score_is_zero(scores, mask):
    """You set hidden scores to 0, or to a number close to it. But exp(0) = 1 is no small weight: a hidden score has to
    be far below 0."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, 0.0)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def hidden_score_is_minus_ten(scores, mask):
    """-10 is not negative enough: exp(-10) is 0.00005, and where the allowed scores are very negative too, hidden keys
    win."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -10.0)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def ignores_the_hidden(scores, mask):
    """The mask changes nothing in the rows that have allowed keys: hidden keys keep their weights."""
    allowed = allowed_places(mask, scores)
    visible = scores
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def over_the_queries(scores, mask):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-2)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def over_the_first_axis(scores, mask):
    """Your softmax runs over the first axis. Each query shares out its attention over the keys: the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=0)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def over_everything_at_once(scores, mask):
    """Your weights sum to 1 over the whole tensor. Every query has a whole unit of attention to share out."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.flatten().softmax(dim=0).view_as(scores)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def exponential_overflows(scores, mask):
    """You take exp of the raw scores. Beyond about 700 it overflows to inf, and inf / inf is NaN. Subtract the row's
    maximum first, or let softmax do it."""
    allowed = allowed_places(mask, scores)
    exponentials = scores.exp() * allowed
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@masked_softmax.misconception
def exponential_overflows_despite_eps(scores, mask):
    """You take exp of the raw scores. Beyond about 700 it overflows to inf, and for very negative scores the small
    number below the fraction swallows everything. Subtract the row's maximum first, or let softmax do it."""
    allowed = allowed_places(mask, scores)
    exponentials = scores.exp() * allowed
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-9)


@masked_softmax.misconception
def maximum_of_hidden_scores(scores, mask):
    """You subtract the row's maximum over all keys. A huge hidden score pushes the allowed ones down until exp of them
    is 0. The maximum has to be taken over the allowed keys only."""
    allowed = allowed_places(mask, scores)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp() * allowed
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@masked_softmax.misconception
def maximum_of_hidden_scores_despite_eps(scores, mask):
    """You subtract the row's maximum over all keys, hidden ones included. A huge hidden score pushes the allowed ones
    down until exp of them is 0. The maximum has to be taken over the allowed keys only."""
    allowed = allowed_places(mask, scores)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp() * allowed
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-9)


@masked_softmax.misconception
def maximum_of_the_whole_tensor(scores, mask):
    """You subtract the maximum of the whole tensor. A row with much smaller scores then vanishes: exp of it is 0.
    Each row needs the maximum of its own allowed keys."""
    allowed = allowed_places(mask, scores)
    exponentials = (scores - scores.max()).exp() * allowed
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@masked_softmax.misconception
def one_hidden_key_empties_the_row(scores, mask):
    """You set a row to 0 as soon as one of its keys is hidden. A row is empty only if all of them are."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.all(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.misconception
def normalises_twice(scores, mask):
    """You apply softmax twice: the second one sees numbers between 0 and 1 only, and makes them nearly equal."""
    allowed = allowed_places(mask, scores)
    visible = scores.softmax(dim=-1).masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0)


@masked_softmax.alternative
def nan_becomes_zero(scores, mask):
    return torch.nan_to_num(F.softmax(torch.where(mask, scores, float("-inf")), dim=-1))


@masked_softmax.alternative
def large_negative_then_multiplied(scores, mask):
    return scores.masked_fill(mask == 0, -1e9).softmax(-1) * mask


@masked_softmax.alternative
def smallest_float_by_where(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    weights = torch.where(mask, scores, lowest).softmax(-1)
    return torch.where(mask, weights, 0.0)


@masked_softmax.alternative
def by_hand_with_safe_division(scores, mask):
    largest = scores.masked_fill(~mask, -1e9).amax(dim=-1, keepdim=True)
    exponentials = torch.where(mask, torch.exp(torch.where(mask, scores - largest, 0.0)), 0.0)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / torch.where(total == 0, 1.0, total)


@masked_softmax.alternative
def row_by_row_in_a_loop(scores, mask):
    flat, allowed = scores.reshape(-1, scores.shape[-1]), mask.expand(scores.shape).reshape(-1, scores.shape[-1])
    rows = []
    for row, keep in zip(flat, allowed):
        weights = torch.zeros_like(row)
        if keep.any():
            weights = weights.masked_scatter(keep, row[keep].softmax(0))
        rows.append(weights)
    return torch.stack(rows).reshape(scores.shape)


@masked_softmax.alternative
def in_single_precision(scores, mask):
    weights = torch.softmax(scores.float().masked_fill(~mask, -1e4), -1)
    return weights.masked_fill(~mask, 0)
