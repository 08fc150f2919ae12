"""The exercise `masked_attention`: what must hold, and what people really write instead."""

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
    expect_tuple,
)
from course_lib.checking.inputs import normal, random_mask
from course_lib.exercises.masks.shared import first_place

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
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Three steps: scores, weights, output. The mask belongs to exactly one of them. To which?",
        "A hidden key must not take part in the normalisation, so it has to be gone before the softmax.",
        "You have masked_softmax from the exercise before: it does the second step. The first is q kᵀ / √d_k.",
        "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]); weights = masked_softmax(scores, mask); "
        "return weights @ v, weights.",
    ],
)


def attention_of(subject, case):
    return expect_tuple(subject(*case.values()), ("output", "weights"))


@masked_attention.property("output and weights have the right shapes", points=1)
def masked_attention_shapes(subject, case):
    output, weights = attention_of(subject, case)
    want_output, want_weights = masks.masked_attention(**case)
    expect_floats(output, tuple(want_output.shape), "the output")
    expect_floats(weights, tuple(want_weights.shape), "the weights")


@masked_attention.property("a hidden key gets weight 0", points=1)
def masked_attention_hides(subject, case):
    _, weights = attention_of(subject, case)
    leak = weights.masked_fill(case["mask"].expand(weights.shape), 0.0).abs()
    if leak.max() >= 1e-6:
        place = first_place(leak >= 1e-6)
        expect(False, f"The mask hides the key at index {list(place)}, but it gets weight {float(leak[place]):.3g}.")


@masked_attention.property("each row of the weights is a probability distribution", points=1)
def masked_attention_rows(subject, case):
    _, weights = attention_of(subject, case)
    sums = weights.sum(dim=-1)
    expect(weights.min() >= -1e-6, "There is a negative weight.")
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


@masked_attention.property("the weights are softmax(q kᵀ / √d_k) over the allowed keys", points=1)
def masked_attention_weights(subject, case):
    _, weights = attention_of(subject, case)
    expect_close(weights, masks.masked_attention(**case)[1], "the weights")


@masked_attention.property("the output is the weighted sum of the values", points=1)
def masked_attention_output(subject, case):
    output, _ = attention_of(subject, case)
    expect_close(output, masks.masked_attention(**case)[0], "the output")


@masked_attention.misconception
def ignores_the_mask(q, k, v, mask):
    """The mask is accepted but never used: every key is visible."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def masks_after_the_softmax(q, k, v, mask):
    """You multiply by the mask after the softmax, so the rest no longer sums to 1. Hide the scores before it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1) * mask
    output = weights @ v
    return output, weights


@masked_attention.misconception
def masks_the_values_only(q, k, v, mask):
    """The mask reaches the output but not the weights you return: the hidden keys still take part in the softmax."""
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
    """You fill the scores where the mask is True, so the allowed keys are hidden, and a row with nothing but allowed
    keys becomes NaN. True means: attention is allowed here."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(mask, -math.inf).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def inverts_the_mask_with_a_large_number(q, k, v, mask):
    """You fill the scores where the mask is True, so exactly the allowed keys are hidden. True means: attention is
    allowed here."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(mask, -1e9).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def adds_the_truth_values(q, k, v, mask):
    """You add the boolean mask to the scores: an allowed key gets 1 more, and a hidden one stays where it was. Only an
    additive mask (0 and -inf) can be added."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k) + mask
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_zero(q, k, v, mask):
    """You set hidden scores to 0, or to a number close to it. But exp(0) = 1 is no small weight: a hidden score has to
    be far below 0."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = (scores * mask).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_minus_ten(q, k, v, mask):
    """-10 is not negative enough: where the real scores are large, or very negative too, hidden keys come through."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -10.0).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def fills_with_plus_infinity(q, k, v, mask):
    """You fill hidden scores with a huge positive number. That gives them all the attention; the sign is wrong."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, 1e9).softmax(dim=-1)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def masks_the_query_axis(q, k, v, mask):
    """Your mask lies the wrong way round: its rows belong to the queries and its columns to the keys."""
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
    """The scores are not divided by √d_k."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def divides_by_d_k(q, k, v, mask):
    """You divide by d_k; its square root is wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / d_k
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def multiplies_by_the_root(q, k, v, mask):
    """You multiply the scores by √d_k; they have to be divided by it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores * math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_the_number_of_keys(q, k, v, mask):
    """You divide by the root of the number of keys. The scale is the root of d_k, the length of one query vector."""
    d_k = k.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def scales_by_d_v(q, k, v, mask):
    """You divide by the root of d_v, the length of a value. The scale is the root of d_k, the length of a query."""
    d_k = v.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def reverses_all_axes(q, k, v, mask):
    """.T turns round all axes, batch and heads too. Only the last two of k have to change places."""
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
def normalises_over_everything(q, k, v, mask):
    """Your weights sum to 1 over the whole tensor. Every query has a whole unit of attention to share out."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).flatten().softmax(dim=0).view_as(scores)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def compares_directions_only(q, k, v, mask):
    """You divide queries and keys by their lengths (cosine similarity). Scores are plain dot products, over √d_k."""
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
    """The output is made of keys. Keys only decide the weights; what is averaged are the values."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ k
    return output, weights


@masked_attention.misconception
def applies_softmax_twice(q, k, v, mask):
    """You apply softmax twice: the second one sees numbers between 0 and 1 only, and makes them nearly equal."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(masks.masked_softmax(scores, mask), mask)
    output = weights @ v
    return output, weights


@masked_attention.misconception
def returns_scores_as_weights(q, k, v, mask):
    """You return the scores in place of the weights: what comes before the softmax, not after it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, scores


@masked_attention.misconception
def returns_weights_first(q, k, v, mask):
    """The two results stand in the wrong order: the output comes first, the weights second."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return weights, output


@masked_attention.misconception
def returns_the_output_alone(q, k, v, mask):
    """Only the output comes back. The weights are wanted too: return the pair (output, weights)."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output


@masked_attention.misconception
def scales_the_query_in_place(q, k, v, mask):
    """You scale the caller's q in place: a second call with the same q gives another result."""
    d_k = q.shape[-1]
    scores = q.div_(math.sqrt(d_k)) @ k.transpose(-2, -1)
    weights = masks.masked_softmax(scores, mask)
    output = weights @ v
    return output, weights


@masked_attention.alternative
def with_a_large_negative_number(q, k, v, mask):
    scores = torch.einsum("...id,...jd->...ij", q * q.shape[-1] ** -0.5, k)
    weights = torch.where(mask, scores, torch.tensor(-1e9, dtype=q.dtype)).softmax(-1)
    return torch.einsum("...ij,...jd->...id", weights, v), weights


@masked_attention.alternative
def with_an_additive_mask(q, k, v, mask):
    bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(mask.logical_not(), torch.finfo(q.dtype).min)
    weights = F.softmax(q.matmul(k.mT) / q.size(-1) ** 0.5 + bias, dim=-1)
    return weights.matmul(v), weights


@masked_attention.alternative
def renormalised(q, k, v, mask):
    scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ v, weights


@masked_attention.alternative
def with_the_fused_operator(q, k, v, mask):
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    identity = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-1], k.shape[-2])
    return output, F.scaled_dot_product_attention(q, k, identity, attn_mask=mask)


@masked_attention.alternative
def scale_on_both_sides_and_mask_first(q, k, v, mask):
    root = q.shape[-1] ** 0.25
    scores = ((q / root) @ (k / root).mT).masked_fill(mask == 0, -1e4)
    weights = scores.softmax(-1)
    return (v.mT @ weights.mT).mT, weights
