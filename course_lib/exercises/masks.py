"""Exercises on masks: what must hold, and what people really write instead."""

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
    expect_mask,
    expect_truth_values,
    expect_tuple,
)
from course_lib.checking.inputs import normal, random_mask

# --- causal_mask ----------------------------------------------------------------------------------------

causal_mask = Exercise(
    masks.causal_mask,
    cases=[{"n": 4}, {"n": 1}, {"n": 7}],
    minutes=5,
    difficulty=1,
    hints=[
        "Row i is the question of position i. Write the four rows of the 4 × 4 mask on paper: what is allowed?",
        "The allowed places form a triangle, and the diagonal belongs to it. torch has a function for triangles.",
        "torch.tril keeps the lower triangle of a matrix. What matrix do you give it, and of which dtype?",
        "One line: torch.tril(torch.ones(n, n, dtype=torch.bool)).",
    ],
)


def causal_answer(subject, case):
    return expect_truth_values(subject(case["n"]), (case["n"], case["n"]))


@causal_mask.property("the mask is n × n, True or False", points=1)
def causal_shape(subject, case):
    causal_answer(subject, case)


@causal_mask.property("every position may look at itself", points=1)
def causal_diagonal(subject, case):
    diagonal = causal_answer(subject, case).diagonal()
    expect(diagonal.all(), "A position on the diagonal is hidden: position i must see position i.")


@causal_mask.property("no position may look at a later one", points=1)
def causal_future(subject, case):
    future = torch.triu(causal_answer(subject, case), diagonal=1)
    expect(not future.any(), "There is a True above the diagonal: a position sees its own future.")


@causal_mask.property("every position may look at all earlier ones", points=1)
def causal_past(subject, case):
    expect_mask(subject(case["n"]), masks.causal_mask(case["n"]))


@causal_mask.misconception
def shows_the_future(n):
    """Your triangle is the wrong one: row i is the query, and it may look left (to the past), not right."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.triu(everything, diagonal=0)


@causal_mask.misconception
def hides_the_diagonal(n):
    """A position must see itself: your first row can attend to nothing at all. Keep the diagonal."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=-1)


@causal_mask.misconception
def peeks_one_ahead(n):
    """Each position sees one step into the future: your triangle reaches one diagonal too far."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=1)


@causal_mask.misconception
def marks_what_is_hidden(n):
    """Your mask is True where attention is forbidden. In this course True means allowed."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return ~torch.tril(everything, diagonal=0)


@causal_mask.misconception
def allows_everything(n):
    """Nothing is hidden: every position sees the whole sequence, its own future included."""
    return torch.ones(n, n, dtype=torch.bool)


@causal_mask.misconception
def sees_only_itself(n):
    """Each position sees itself alone: the past is hidden too."""
    return torch.eye(n, dtype=torch.bool)


@causal_mask.misconception
def is_additive(n):
    """This is an additive mask (0 and -inf), meant to be added to the scores. Here a boolean one is wanted."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.zeros(n, n).masked_fill(~torch.tril(everything, diagonal=0), -math.inf)


@causal_mask.alternative
def by_comparison(n):
    positions = torch.arange(n)
    return positions[:, None] >= positions


@causal_mask.alternative
def row_by_row(n):
    rows = [[1] * (i + 1) + [0] * (n - 1 - i) for i in range(n)]
    return torch.tensor(rows)


@causal_mask.alternative
def inverted_upper_triangle(n):
    return ~torch.triu(torch.ones(n, n), diagonal=1).bool()


@causal_mask.alternative
def by_indices(n):
    mask = torch.ones(n, n)
    mask[tuple(torch.triu_indices(n, n, offset=1))] = 0
    return mask


# --- masked_attention -----------------------------------------------------------------------------------

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
    minutes=12,
    difficulty=2,
    hints=[
        "Three steps: scores, weights, output. The mask belongs to exactly one of them. To which?",
        "A hidden key must not take part in the normalisation, so it has to be gone before the softmax.",
        "You have masked_softmax from the exercise before: it does the second step.",
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
    hidden = ~case["mask"].expand(weights.shape)
    expect(
        weights[hidden].abs().max() < 1e-6,
        f"A key that the mask hides still gets weight {weights[hidden].abs().max():.3g}.",
    )


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
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@masked_attention.misconception
def masks_after_the_softmax(q, k, v, mask):
    """You multiply by the mask after the softmax, so the rest no longer sums to 1. Hide the scores before it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1) * mask
    return weights @ v, weights


@masked_attention.misconception
def inverts_the_mask(q, k, v, mask):
    """You hide exactly the keys that are allowed. True means: attention is allowed here."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, ~mask)
    return weights @ v, weights


@masked_attention.misconception
def fills_with_zero(q, k, v, mask):
    """You set hidden scores to 0, but exp(0) = 1 is no small weight. A hidden score has to be very negative."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = (scores * mask).softmax(dim=-1)
    return weights @ v, weights


@masked_attention.misconception
def fills_with_minus_ten(q, k, v, mask):
    """-10 is not negative enough: where the real scores are large, or very negative too, hidden keys come through."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -10.0).softmax(dim=-1)
    return weights @ v, weights


@masked_attention.misconception
def forgets_the_scale(q, k, v, mask):
    """The scores are not divided by √d_k."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = masks.masked_softmax(scores, mask)
    return weights @ v, weights


@masked_attention.misconception
def divides_by_d_k(q, k, v, mask):
    """You divide by d_k; its square root is wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / d_k
    weights = masks.masked_softmax(scores, mask)
    return weights @ v, weights


@masked_attention.misconception
def normalises_over_the_queries(q, k, v, mask):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-2)
    return weights @ v, weights


@masked_attention.misconception
def returns_weights_first(q, k, v, mask):
    """The two results stand in the wrong order: the output comes first, the weights second."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = masks.masked_softmax(scores, mask)
    return weights, weights @ v


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
