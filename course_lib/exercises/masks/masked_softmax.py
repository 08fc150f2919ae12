"""The exercise `masked_softmax`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats, expect_tensor
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.exercises.masks.shared import (
    expect_hidden_is_zero,
    expect_rows_sum_to_one,
    expect_shares,
    first_place,
)
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
            "scores": torch.tensor(
                [[-300, 600, -301], [3, 2, 1], [990, 991, -999], [-500, -501, -499], [-999, 5, -1000], [0, 40, -1]]
            ).double(),
            "mask": torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 0, 1]]).bool(),
        },
        {
            "scores": torch.tensor([[-300, -299], [-301, 5], [-302, -298]]).double(),  # a column of low ones, too
            "mask": torch.tensor([[1, 1], [1, 0], [0, 1]]).bool(),
        },
        {
            "scores": normal(2, 3, 4, seed=32, scale=2),
            "mask": torch.tensor(
                [[[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]], [[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]]
            ).bool(),
        },
        {"scores": normal(2, 4, seed=32), "mask": torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0]]).bool()},  # no row is empty
    ],
    minutes=10,
    difficulty=2,
    hidden_points=2,
    hints=[
        "A hidden key must not take part in the sum in the denominator. What would its score have to be, so that "
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
    """The weights. They may contain NaN: rows without an allowed key are checked last."""
    scores, mask = case.values()
    weights = expect_tensor(subject(scores, mask), tuple(scores.shape), "the result")
    expect_floats(weights.nan_to_num() if weights.is_floating_point() else weights)
    return weights


@masked_softmax.property("the weights have the shape of the scores", points=1)
def softmax_shape(subject, case):
    softmax_answer(subject, case)


@masked_softmax.property("the allowed keys of a row share the attention in proportion to exp(score)", points=1)
def softmax_shares(subject, case):
    expect_shares(softmax_answer(subject, case), case["mask"], masked_softmax.want(case))


@masked_softmax.property("a hidden key gets weight 0", points=1)
def softmax_hides(subject, case):
    expect_hidden_is_zero(softmax_answer(subject, case), case["mask"])


@masked_softmax.property("the weights of a row sum to 1", points=1)
def softmax_rows(subject, case):
    expect_rows_sum_to_one(softmax_answer(subject, case), case["mask"])


@masked_softmax.property("a row in which everything is hidden is all 0", points=2)
def softmax_empty(subject, case):
    expect_close(softmax_answer(subject, case), masked_softmax.want(case))


@masked_softmax.property("gradients are right, and finite even if a row is empty", points=1)
def softmax_gradient(subject, case):
    softmax_empty(subject, case)  # where the weights are wrong, nothing is to be learned from the gradient
    scores, mask = case.values()
    place = first_place(mask.expand(scores.shape))
    want = Subject(masks.masked_softmax).gradient(scores, mask, wrt=0, at=place)
    slope = subject.gradient(scores, mask, wrt=0, at=place)
    expect_close(slope, want, f"the gradient of the weight at index {list(place)} with respect to the scores")


@masked_softmax.misconception
def empty_rows_are_nan(scores, mask):
    """A row in which everything is hidden stays as your softmax leaves it. Such a row has to be 0.

    The softmax of -inf alone is 0/0, so it becomes NaN."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def empty_rows_are_shared_out(scores, mask):
    """You fill hidden scores with a large negative number and do nothing for a row in which everything is hidden. Such
    a row has to be 0.

    All its scores are then equal, and it attends equally to keys that are all forbidden."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -1e9)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def empty_rows_follow_the_scores(scores, mask):
    """You add a large negative number to the hidden scores and do nothing for a row in which everything is hidden. Such
    a row has to be 0.

    All its scores move alike, and its softmax comes out as if there were no mask."""
    allowed = allowed_places(mask, scores)
    visible = scores + (~allowed) * -1e9
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def gradient_is_nan(scores, mask):
    """You add -inf to the hidden scores. In an empty row the NaN of the softmax then flows back into the scores;
    filling with -inf stops it.

    The weights are right, but the gradient is NaN."""
    allowed = allowed_places(mask, scores)
    visible = scores + torch.zeros_like(scores).masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def writes_into_the_weights(scores, mask):
    """You write the zeros into the weights in place, and autograd needs the old values for the gradient. Make a new
    tensor instead.

    The weights themselves are right."""
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
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def loses_the_gradient(scores, mask):
    """No gradient reaches the scores: somewhere you leave the graph (detach, item, tolist, torch.tensor, no_grad).

    The weights themselves are right."""
    allowed = allowed_places(mask, scores)
    visible = scores.detach().masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def multiplies_after_the_softmax(scores, mask):
    """You set weights to 0 after the softmax. The hidden keys have already taken their share by then; they have to be
    gone before it.

    As it is, the remaining weights no longer sum to 1."""
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
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def inverts_everything(scores, mask):
    """You read the mask the other way round throughout. True means: attention is allowed here."""
    allowed = ~allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def hidden_score_is_zero(scores, mask):
    """You hide a score by setting it to 0, or to a number close to it. But exp(0) = 1 is not a small weight: it has to
    be far below 0."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, 0.0)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def hidden_score_is_minus_ten(scores, mask):
    """You hide a score by filling in a number that is not negative enough, such as -10.

    exp(-10) is 0.00005, and where the allowed scores are very negative too, hidden keys win."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -10.0)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def ignores_the_hidden(scores, mask):
    """You use the mask only for the empty rows. In the other rows, hidden keys keep their weights."""
    allowed = allowed_places(mask, scores)
    visible = scores
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def over_the_queries(scores, mask):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-2)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def over_the_first_axis(scores, mask):
    """Your softmax runs over the first axis. Each query shares out its attention over the keys: the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=0)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def over_everything_at_once(scores, mask):
    """Your weights sum to 1 over the whole tensor. Every query has a whole unit of attention to share out."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.flatten().softmax(dim=0).view_as(scores)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def exponential_overflows(scores, mask):
    """You take exp of the raw scores. Subtract the maximum of the row's allowed scores first, or let softmax do it.

    Beyond about 700 exp overflows to inf, and inf / inf is NaN."""
    allowed = allowed_places(mask, scores)
    exponentials = scores.exp() * allowed
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@masked_softmax.misconception
def exponential_overflows_despite_eps(scores, mask):
    """You take exp of the raw scores. Subtract the maximum of the row's allowed scores first, or let softmax do it.

    Beyond about 700 exp overflows to inf, and for very negative scores the small number in the denominator
    swallows everything."""
    allowed = allowed_places(mask, scores)
    exponentials = scores.exp() * allowed
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-9)


@masked_softmax.misconception
def maximum_of_hidden_scores(scores, mask):
    """You take the exponentials relative to the maximum of the whole row, hidden scores included. (A softmax over the
    whole row does that too.) The maximum has to be taken over the allowed keys only.

    A huge hidden score pushes the allowed ones down until exp of them is 0."""
    allowed = allowed_places(mask, scores)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp() * allowed
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@masked_softmax.misconception
def maximum_of_hidden_scores_despite_eps(scores, mask):
    """You take the exponentials relative to the maximum of the whole row, hidden scores included. (A softmax over the
    whole row does that too.) The maximum has to be taken over the allowed keys only.

    A huge hidden score pushes the allowed ones down until the small number in the denominator outweighs them."""
    allowed = allowed_places(mask, scores)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp() * allowed
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-9)


@masked_softmax.misconception
def maximum_of_the_whole_tensor(scores, mask):
    """You subtract the maximum of the whole tensor. Each row needs the maximum of its own allowed keys.

    A row with much smaller scores vanishes: exp of it is 0."""
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
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def normalises_twice(scores, mask):
    """You apply a softmax before the mask and another after it. One is enough.

    The second one sees numbers between 0 and 1 only, and makes them nearly equal."""
    allowed = allowed_places(mask, scores)
    visible = scores.softmax(dim=-1).masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def ignores_the_mask(scores, mask):
    """You do not use the mask: every key is visible."""
    visible = scores
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def hidden_score_is_zero_in_empty_rows_too(scores, mask):
    """You set hidden scores to 0, or to a number close to it, even in a row in which everything is hidden. But exp(0) =
    1 is not a small weight: a hidden score has to be far below 0."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, 0.0)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def adds_the_truth_values(scores, mask):
    """You add the mask to the scores: that raises allowed scores by 1 and leaves hidden ones as they are. Only an
    additive mask (0 and -inf) can be added."""
    allowed = allowed_places(mask, scores)
    visible = scores + allowed
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def hidden_score_is_huge(scores, mask):
    """You hide a score by filling in a huge positive number. It has to be far below 0: the sign is wrong.

    As it is, the hidden keys get all the attention."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, 1e9)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def hidden_score_is_minus_hundred(scores, mask):
    """You hide a score by filling in a number that is not negative enough, such as -100: the others may lie below
    it."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -100.0)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def hidden_score_is_minus_thousand(scores, mask):
    """You hide a score by filling in -1000. That is not negative enough: the others may be just as low."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -1000.0)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def looks_for_empty_rows_along_axis_1(scores, mask):
    """You look for empty rows along axis 1. With a batch axis in front that is the axis of the queries; a row runs
    along the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~allowed.any(dim=1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def exponential_of_visible_scores(scores, mask):
    """You take exp of the scores as they are. Subtract the maximum of the row's allowed scores first, or let softmax do
    it.

    Beyond about 700 exp overflows to inf, below about -700 it is 0, and inf / inf and 0 / 0 are NaN."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.exp() / visible.exp().sum(dim=-1, keepdim=True)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def exponential_overflows_to_zero(scores, mask):
    """You take exp of the scores as they are and turn NaN into 0. Subtract the maximum of the row's allowed scores
    first, or let softmax do it.

    Beyond about 700 exp overflows to inf, and inf / inf is NaN too: such a row comes out as 0."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.exp() / visible.exp().sum(dim=-1, keepdim=True)
    return weights.nan_to_num()


@masked_softmax.misconception
def returns_logarithms(scores, mask):
    """You return the logarithms of the weights. Return the weights themselves."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.log_softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def applies_softmax_to_the_weights(scores, mask):
    """You apply a second softmax to the weights. One is enough.

    The second one sees numbers between 0 and 1 only: it makes them nearly equal and gives hidden keys a share again."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1).softmax(dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


@masked_softmax.misconception
def minus_hundred_then_multiplied(scores, mask):
    """You hide a score by filling in a number that is not negative enough, such as -100: the others may lie below it.

    Such a row loses its weights to the hidden keys, even if you set these to 0 afterwards."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -100.0)
    weights = visible.softmax(dim=-1)
    return weights * allowed


@masked_softmax.misconception
def over_the_queries_then_multiplied(scores, mask):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -1e9)
    weights = visible.softmax(dim=-2)
    return weights * allowed


@masked_softmax.misconception
def over_the_first_axis_then_multiplied(scores, mask):
    """Your softmax runs over the first axis. Each query shares out its attention over the keys: the last axis."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(~allowed, -1e9)
    weights = visible.softmax(dim=0)
    return weights * allowed


@masked_softmax.misconception
def hides_the_allowed_and_gets_nan(scores, mask):
    """You fill the scores with -inf where the mask is True, so the allowed keys are hidden. True means: attention is
    allowed here.

    A row with nothing but allowed keys becomes NaN."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(allowed, -math.inf)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def hides_the_allowed_with_a_large_number(scores, mask):
    """You fill the scores with a large negative number where the mask is True, so the allowed keys are hidden. True
    means: attention is allowed here."""
    allowed = allowed_places(mask, scores)
    visible = scores.masked_fill(allowed, -1e9)
    weights = visible.softmax(dim=-1)
    return weights


@masked_softmax.misconception
def lowers_the_allowed(scores, mask):
    """You add a large negative number where the mask is True, so the allowed keys are hidden. True means: attention is
    allowed here."""
    allowed = allowed_places(mask, scores)
    visible = scores + allowed * -1e9
    weights = visible.softmax(dim=-1)
    return weights


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
def mask_as_a_factor(scores, mask):
    keep = mask.float()
    largest = torch.where(mask, scores, torch.full(scores.shape, -1e9)).max(dim=-1, keepdim=True).values
    exponentials = torch.exp((scores - largest).clamp(max=0.0)) * keep
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-12)


@masked_softmax.alternative
def in_single_precision(scores, mask):
    weights = torch.softmax(scores.float().masked_fill(~mask, -1e4), -1)
    return weights.masked_fill(~mask, 0)
