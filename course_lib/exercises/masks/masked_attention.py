"""The exercise `masked_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats, expect_tensor, expect_tuple
from course_lib.checking.inputs import normal, random_mask
from course_lib.checking.subject import Subject
from course_lib.exercises.masks.shared import (
    expect_hidden_is_zero,
    expect_rows_sum_to_one,
    expect_shares,
    first_place,
)


def with_first_feature(tensor, values):
    """The vectors with another first feature: with ±40 in queries and 35.2 in keys their products are large."""
    return torch.cat([torch.as_tensor(values).expand(tensor.shape[:-1])[..., None], tensor[..., 1:]], dim=-1)


HALF_HIDDEN = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 0, 0, 0]]).bool()

masked_attention = Exercise(
    masks.masked_attention,
    cases=[
        {
            "q": normal(2, 3, seed=1),
            "k": normal(4, 3, seed=2),
            "v": normal(4, 5, seed=3),
            "mask": random_mask(2, 4, seed=4),
        },
        {
            "q": normal(2, 3, 5, 4, seed=5),
            "k": normal(2, 3, 6, 4, seed=6),
            "v": normal(2, 3, 6, 7, seed=7),
            "mask": random_mask(2, 1, 5, 6, seed=8),
        },
        {
            "q": normal(2, 5, 5, 4, seed=9, scale=6),
            "k": normal(2, 5, 5, 4, seed=10, scale=6),
            "v": normal(2, 5, 5, 3, seed=11),
            "mask": masks.causal_mask(5),
        },
        {
            "q": with_first_feature(normal(3, 4, 2, seed=12), [40.0, -40.0, 40.0, -40.0]),
            "k": with_first_feature(normal(3, 5, 2, seed=13), 35.2),
            "v": normal(3, 5, 6, seed=14),
            "mask": random_mask(3, 4, 5, seed=15) & (torch.arange(12) != 6).view(3, 4, 1),
        },
        # In each of these, half of the work makes no difference: the scale if all scores are 0, the mask if nothing is
        # hidden.
        {"q": torch.zeros(3, 4).double(), "k": normal(5, 4, seed=16), "v": normal(5, 2, seed=17), "mask": HALF_HIDDEN},
        {
            "q": normal(3, 4, seed=18),
            "k": normal(5, 4, seed=19),
            "v": normal(5, 2, seed=20),
            "mask": torch.ones(3, 5).bool(),
        },
    ],
    minutes=10,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Three steps: scores, weights, output. The mask belongs to exactly one of them. To which?",
        "A hidden key must not take part in the normalisation, so it has to be gone before the softmax.",
        "You have masked_softmax from the exercise before: it does the second step. The first is q kᵀ / √d_k.",
        "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]); weights = masked_softmax(scores, mask); "
        "return weights @ v, weights.",
    ],
)


def attention_of(subject, case):
    """Output and weights. They may contain NaN: queries without an allowed key are checked last."""
    got = expect_tuple(subject(*case.values()), ("output", "weights"))
    for tensor, want, what in zip(got, masked_attention.want(case), ("the output", "the matrix of weights")):
        expect_tensor(tensor, tuple(want.shape), what)
        expect_floats(tensor.nan_to_num() if tensor.is_floating_point() else tensor, what=what)
    return got


@masked_attention.property("output and weights have the right shapes", points=1)
def masked_attention_shapes(subject, case):
    attention_of(subject, case)


@masked_attention.property("the allowed keys share a query's attention in proportion to exp(q·k / √d_k)", points=1)
def masked_attention_shares(subject, case):
    _, weights = attention_of(subject, case)
    expect_shares(weights, case["mask"], masked_attention.want(case)[1])


@masked_attention.property("a hidden key gets weight 0, and each row sums to 1", points=1)
def masked_attention_hides(subject, case):
    _, weights = attention_of(subject, case)
    expect_hidden_is_zero(weights, case["mask"])
    expect_rows_sum_to_one(weights, case["mask"])


@masked_attention.property("the output is the weighted sum of the values", points=1)
def masked_attention_output(subject, case):
    output, weights = attention_of(subject, case)
    has_keys = case["mask"].expand(weights.shape).any(dim=-1, keepdim=True)
    expect_close(torch.where(has_keys, output, 0.0), masked_attention.want(case)[0], "the output")


@masked_attention.property("a query that may look at nothing gets 0, and gradients are right", points=1)
def masked_attention_empty(subject, case):
    got = attention_of(subject, case)
    for tensor, want, what in zip(got, masked_attention.want(case), ("the output", "the matrix of weights")):
        expect_close(tensor, want, what)
    query = first_place(case["mask"].expand(got[1].shape))[:-1]
    want = Subject(masks.masked_attention).gradient(*case.values(), wrt=0, at=query)
    slope = subject.gradient(*case.values(), wrt=0, at=query)
    expect_close(slope, want, f"the gradient of the output of query {list(query)} with respect to q")


@masked_attention.misconception
def ignores_the_mask(q, k, v, mask):
    """You do not use the mask: every key is visible."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def masks_after_the_softmax(q, k, v, mask):
    """You multiply by the mask after the softmax. Hide the scores before it.

    As it is, the remaining weights no longer sum to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1) * mask
    output = weights @ v
    return output, weights


@masked_attention.misconception
def masks_the_values_only(q, k, v, mask):
    """You use the mask for the output, but not for the weights that you return: the hidden keys still take part in the
    softmax."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = (weights * mask) @ v
    return output, weights


@masked_attention.misconception
def inverts_the_mask(q, k, v, mask):
    """You hide exactly the keys that are allowed. True means: attention is allowed here."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, ~mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def inverts_the_mask_and_gets_nan(q, k, v, mask):
    """You fill the scores with -inf where the mask is True, so the allowed keys are hidden. True means: attention is
    allowed here.

    A row with nothing but allowed keys becomes NaN."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(mask, -math.inf).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def inverts_the_mask_with_a_large_number(q, k, v, mask):
    """You fill the scores with a large negative number where the mask is True, so the allowed keys are hidden. True
    means: attention is allowed here."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(mask, -1e9).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def adds_the_truth_values(q, k, v, mask):
    """You add the boolean mask to the scores: that raises allowed scores by 1 and leaves hidden ones as they are. Only
    an additive mask (0 and -inf) can be added."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k) + mask
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_zero(q, k, v, mask):
    """You set hidden scores to 0, or to a number close to it. But exp(0) = 1 is not a small weight: a hidden score has
    to be far below 0."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = (scores * mask).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_minus_ten(q, k, v, mask):
    """You fill hidden scores with a number that is not negative enough, such as -10.

    Where the real scores are large, or very negative too, hidden keys come through."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -10.0).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_plus_infinity(q, k, v, mask):
    """You fill hidden scores with a huge positive number. They have to be far below 0: the sign is wrong.

    As it is, the hidden keys get all the attention."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, 1e9).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def masks_the_query_axis(q, k, v, mask):
    """You transpose the mask. Its rows already belong to the queries and its columns to the keys."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask.transpose(-2, -1))
    output = weights @ v
    return output, weights


@masked_attention.misconception
def always_causal(q, k, v, mask):
    """You hide the future, whatever the mask says. The caller decides what is hidden: use the mask you are given."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, torch.ones_like(scores).tril())
    output = weights @ v
    return output, weights


@masked_attention.misconception
def forgets_the_scale(q, k, v, mask):
    """You do not divide the scores by √d_k."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def divides_by_d_k(q, k, v, mask):
    """You divide by d_k instead of its square root."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / d_k
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def multiplies_by_the_root(q, k, v, mask):
    """You multiply the scores by √d_k. Divide them by it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores * math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_the_number_of_keys(q, k, v, mask):
    """You divide by the root of the number of keys. The scale is the root of d_k, the width of one query vector."""
    d_k = k.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_d_v(q, k, v, mask):
    """You divide by the root of d_v, the width of a value. The scale is the root of d_k, the width of a query."""
    d_k = v.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def reverses_all_axes(q, k, v, mask):
    """You reverse all axes of k, as .T does, the batch included. Only the last two have to be swapped."""
    d_k = q.shape[-1]
    scores = q @ k.T
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def normalises_over_the_queries(q, k, v, mask):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-2)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def normalises_over_the_queries_then_multiplies(q, k, v, mask):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-2) * mask
    output = weights @ v
    return output, weights


@masked_attention.misconception
def normalises_over_everything(q, k, v, mask):
    """You normalise over the whole tensor, so that all weights together sum to 1. Every query has a whole unit of
    attention to share out."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).flatten().softmax(dim=0).view_as(scores)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def compares_directions_only(q, k, v, mask):
    """You divide queries and keys by their lengths (cosine similarity) before the division by √d_k. Scores are plain
    dot products over √d_k."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def infinity_times_zero(q, k, v, mask):
    """You make the additive mask by multiplying with -inf. On allowed places that is 0 · (-inf), which is NaN."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = (scores + ~mask * -math.inf).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def averages_the_keys(q, k, v, mask):
    """You average the keys. Keys only decide the weights; it is the values that are averaged."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ k
    return output, weights


@masked_attention.misconception
def applies_softmax_twice(q, k, v, mask):
    """You apply softmax twice. One is enough.

    The second one sees numbers between 0 and 1 only, and makes them nearly equal."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(masks.masked_softmax(scores, mask), mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def returns_scores_as_weights(q, k, v, mask):
    """You return the scores instead of the weights: what goes into the softmax, not what comes out."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, scores


@masked_attention.misconception
def returns_weights_first(q, k, v, mask):
    """You return the two results in the wrong order: the output comes first, the weights second."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return weights, output


@masked_attention.misconception
def returns_the_output_alone(q, k, v, mask):
    """You return only the output. Return the pair (output, weights)."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output


@masked_attention.misconception
def scales_the_query_in_place(q, k, v, mask):
    """You scale the caller's q in place.

    A second call with the same q gives another result."""
    d_k = q.shape[-1]
    scores = q.div_(math.sqrt(d_k)) @ k.transpose(-2, -1)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def empty_rows_are_nan(q, k, v, mask):
    """You leave NaN in the row of a query that may look at nothing. Its weights and its output have to be 0.

    NaN comes from 0/0: the softmax of -inf alone, or a division by a sum that is 0."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def empty_rows_are_shared_out(q, k, v, mask):
    """You fill hidden scores with a large negative number and do nothing for a query that may look at nothing. Its
    weights and its output have to be 0.

    All its scores are then equal, and it attends equally to keys that are all forbidden."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def empty_rows_follow_the_scores(q, k, v, mask):
    """You add a large negative number to the hidden scores and do nothing for a query that may look at nothing. Its
    weights and its output have to be 0.

    All its scores move alike, and it attends as if there were no mask."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = (scores + ~mask * -1e9).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def exponential_overflows(q, k, v, mask):
    """You take exp of the scores as they are. Subtract the row's maximum first, or let softmax do it.

    Beyond about 700 exp overflows to inf, below about -700 it is 0, and inf / inf and 0 / 0 are NaN."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -math.inf).exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def exponential_overflows_at_hidden_keys_too(q, k, v, mask):
    """You take exp of all scores as they are and multiply by the mask. Subtract the row's maximum first, or let softmax
    do it.

    Beyond about 700 exp overflows to inf, and inf · 0 is NaN."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.exp() * mask
    weights = weights / weights.sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def exponential_overflows_despite_eps(q, k, v, mask):
    """You take exp of the scores as they are and add a small number to the denominator. Subtract the row's maximum
    first, or let softmax do it.

    Beyond about 700 exp overflows to inf, and for very negative scores the small number swallows everything."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.exp() * mask
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def exponential_overflows_despite_a_floor(q, k, v, mask):
    """You take exp of the scores as they are and keep their sum above a small number. Subtract the row's maximum
    first, or let softmax do it.

    Beyond about 700 exp overflows to inf, and for very negative scores the small number takes the place of the sum."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.exp() * mask
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def exponential_overflows_to_zero(q, k, v, mask):
    """You take exp of the scores as they are and turn NaN into 0. Subtract the row's maximum first, or let softmax do
    it.

    Beyond about 700 exp overflows to inf, and inf / inf is NaN too: such a row comes out as 0."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -math.inf).exp()
    weights = (weights / weights.sum(dim=-1, keepdim=True)).nan_to_num()
    output = weights @ v
    return output, weights


@masked_attention.misconception
def maximum_of_hidden_scores_despite_eps(q, k, v, mask):
    """You take the softmax over the whole row, set hidden weights to 0 and divide by their sum plus a small number. The
    hidden keys have to be gone before the softmax.

    A huge hidden score pushes the allowed ones down until the small number in the denominator outweighs them."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1) * mask
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def applies_softmax_to_the_weights(q, k, v, mask):
    """You apply a second softmax to the weights. One is enough.

    The second one sees numbers between 0 and 1 only: it makes them nearly equal and gives hidden keys a share again."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_minus_hundred(q, k, v, mask):
    """You fill hidden scores with a number that is not negative enough, such as -100: allowed scores may lie below
    it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -100.0).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_minus_thousand(q, k, v, mask):
    """You fill hidden scores with -1000. That is not negative enough: allowed scores may be just as low."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1000.0).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_the_number_of_queries(q, k, v, mask):
    """You divide by the root of the number of queries. The scale is the root of d_k, the width of one query vector."""
    d_k = q.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_axis_1(q, k, v, mask):
    """You take the size of axis 1 for d_k. That works for a single matrix; with a batch in front, d_k is the last
    axis."""
    d_k = q.shape[1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_the_first_axis(q, k, v, mask):
    """You divide by the root of the length of the first axis. The scale is the root of d_k, the last axis."""
    d_k = q.shape[0]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def divides_by_eight(q, k, v, mask):
    """You divide by 8. That is √64, right only for vectors of 64 features: use the width of these vectors."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / 8
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def power_before_division(q, k, v, mask):
    """You divide by d_k / 2. If you wrote d_k ** 1/2: powers bind tighter than /, so it is half of d_k and not its
    root."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (d_k / 2)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def rounds_the_root(q, k, v, mask):
    """You round √d_k to a whole number. The scale is the root itself."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / int(math.sqrt(d_k))
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_the_weights(q, k, v, mask):
    """You divide by √d_k after the softmax. Scale the scores, before it.

    As it is, the rows no longer sum to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = masks.masked_softmax(scores, mask)
    weights = weights / math.sqrt(d_k)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def normalises_over_the_first_axis(q, k, v, mask):
    """Your softmax runs over the first axis. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=0)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def normalises_over_axis_1(q, k, v, mask):
    """Your softmax runs over axis 1. That is the key axis of one matrix only; with a batch in front, the keys are the
    last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def uses_a_sigmoid(q, k, v, mask):
    """You use a sigmoid, which decides each weight on its own. The keys have to compete: use softmax.

    As it is, the rows do not sum to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.sigmoid() * mask
    output = weights @ v
    return output, weights


@masked_attention.misconception
def returns_logarithms(q, k, v, mask):
    """You use log_softmax, which gives the logarithms of the weights. Return the weights themselves."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).log_softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def turns_the_sign(q, k, v, mask):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The keys that fit least get the most."""
    d_k = q.shape[-1]
    scores = -q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def picks_the_best_key(q, k, v, mask):
    """Each of your queries takes only its best key. In soft attention every key has a share."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    best = scores.masked_fill(~mask, -math.inf).argmax(dim=-1)
    weights = F.one_hot(best, scores.shape[-1]).to(scores) * mask
    output = weights @ v
    return output, weights


@masked_attention.misconception
def has_no_softmax(q, k, v, mask):
    """You leave out the softmax: the values are multiplied by the scores themselves."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, 0.0)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def does_not_transpose(q, k, v, mask):
    """You do not transpose k. Row i of q has to meet the rows of k, so these have to become columns."""
    d_k = q.shape[-1]
    scores = q @ k
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def reshapes_the_keys(q, k, v, mask):
    """You reshape k where it has to be transposed: view and reshape cut the same numbers into other pieces."""
    d_k = q.shape[-1]
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def sums_with_the_scores(q, k, v, mask):
    """You multiply the values by the scores. They have to be averaged with the weights."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = scores.masked_fill(~mask, 0.0) @ v
    return output, weights


@masked_attention.misconception
def drops_weights(q, k, v, mask):
    """You apply dropout, and it is always on. This exercise has no dropout."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.dropout(masks.masked_softmax(scores, mask), 0.1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def cuts_the_gradient(q, k, v, mask):
    """You cut the weights off from the gradient (detach, .data, no_grad, item).

    The numbers are right, but q and k cannot learn."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask).detach()
    output = weights @ v
    return output, weights


@masked_attention.misconception
def writes_into_the_weights(q, k, v, mask):
    """You write the zeros into the weights in place, and autograd needs the old values for the gradient. Make a new
    tensor.

    The numbers themselves are right."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    weights[weights.isnan()] = 0.0
    output = weights @ v
    return output, weights


@masked_attention.misconception
def returns_no_weights(q, k, v, mask):
    """You return None instead of the weights. They should be the second result."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, None


@masked_attention.misconception
def returns_transposed_weights(q, k, v, mask):
    """Your weights have one row per key. A row belongs to a query, a column to a key."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights.transpose(-2, -1)


@masked_attention.misconception
def returns_the_weights_of_another_softmax(q, k, v, mask):
    """You use the mask for the output, but the weights that you return come from a softmax without it. Return the
    weights that the output was made with."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, scores.softmax(dim=-1)


@masked_attention.alternative
def with_a_large_negative_number(q, k, v, mask):
    scores = torch.einsum("...id,...jd->...ij", q * q.shape[-1] ** -0.5, k)
    weights = torch.where(mask, scores, torch.tensor(-1e9, dtype=q.dtype)).softmax(-1) * mask
    return torch.einsum("...ij,...jd->...id", weights, v), weights


@masked_attention.alternative
def with_an_additive_mask(q, k, v, mask):
    bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(mask.logical_not(), torch.finfo(q.dtype).min)
    weights = F.softmax(q.matmul(k.mT) / q.size(-1) ** 0.5 + bias, dim=-1).masked_fill(~mask, 0.0)
    return weights.matmul(v), weights


@masked_attention.alternative
def renormalised(q, k, v, mask):
    scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    total = exponentials.sum(-1, keepdim=True)
    weights = exponentials / torch.where(total == 0, 1.0, total)
    return weights @ v, weights


@masked_attention.alternative
def query_by_query(q, k, v, mask):
    batch, mask = q.shape[:-2], mask.expand(*q.shape[:-1], k.shape[-2])
    weights = torch.zeros(*batch, q.shape[-2], k.shape[-2])
    for i in range(q.shape[-2]):
        scores = (q[..., i : i + 1, :] * k).sum(dim=-1) / math.sqrt(q.shape[-1])
        weights[..., i, :] = masks.masked_softmax(scores, mask[..., i, :])
    return (weights[..., None] * v[..., None, :, :]).sum(dim=-2), weights


@masked_attention.alternative
def with_the_fused_operator(q, k, v, mask):
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    identity = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-1], k.shape[-2])
    return output, F.scaled_dot_product_attention(q, k, identity, attn_mask=mask)


@masked_attention.alternative
def scale_on_both_sides_and_mask_first(q, k, v, mask):
    root = q.shape[-1] ** 0.25
    scores = ((q / root) @ (k / root).mT).masked_fill(mask == 0, -1e4)
    weights = scores.softmax(-1) * mask.float()
    return (v.mT @ weights.mT).mT, weights
