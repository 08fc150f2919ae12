"""The exercise `top_k_filter`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import torch

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
)
from course_lib.exercises.decoding.shared import (
    FAR_BELOW,
    distinct,
    expect_kept_unchanged,
    expect_tokens_left,
    filtered,
)

top_k = Exercise(
    decoding.top_k_filter,
    cases=[
        {"logits": torch.tensor([[1.0, 3.0, -2.0, 2.0]]).double(), "k": 2},
        {"logits": distinct(3, 6, seed=77), "k": 3},
        {"logits": distinct(2, 4, 7, seed=72, scale=3) - 4, "k": 1},
        {"logits": distinct(5, seed=73, scale=2) + 2, "k": 4},
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "How large is the smallest logit that stays? Everything below it has to go.",
        "logits.topk(k, dim=-1).values are the k largest of each row, in falling order. The last of them is the limit.",
        "Keep an axis of length 1 for the limit, (..., 1), so that each row is compared with its own. k may be larger "
        "than the vocabulary: min(k, logits.shape[-1]).",
        "logits.masked_fill(logits < smallest_kept, -math.inf).",
    ],
)


@top_k.property("the result has the shape of the logits", points=1)
def top_k_shape(subject, case):
    filtered(subject, *case.values())


@top_k.property("in each row exactly k tokens are left; the others have probability 0", points=1)
def top_k_count(subject, case):
    logits, k = case.values()
    for lower, asked_with in ((0.0, ""), (FAR_BELOW, f", if all logits are {FAR_BELOW:g} lower,")):
        _, left = filtered(subject, logits - lower, k)
        counts = left.sum(dim=-1).flatten().tolist()
        expect(
            set(counts) == {k},
            f"k is {k}, but after the softmax{asked_with} the numbers of tokens with a probability above 0, row by "
            f"row, are {counts}.",
        )


@top_k.property("these are the k most likely ones", points=1)
def top_k_which(subject, case):
    _, left = filtered(subject, *case.values())
    expect_tokens_left(left, decoding.top_k_filter(*case.values()).isfinite(), case["logits"])


@top_k.property("their logits are unchanged", points=1)
def top_k_values(subject, case):
    got, left = filtered(subject, *case.values())
    expect_kept_unchanged(got, left, case["logits"])


@top_k.property("if k is larger than the vocabulary, everything is left", points=1)
def top_k_all(subject, case):
    logits = case["logits"]
    k = logits.shape[-1] + 2
    got, left = filtered(subject, logits, k)
    expect_tokens_left(left, torch.ones_like(left), logits, f"With k = {k}, more than there are tokens: ")
    expect_kept_unchanged(got, left, logits)


@top_k.misconception
def fills_with_zero(logits, k):
    """The removed tokens get a logit of about 0. To remove a token its logit has to be -inf, or very far below zero.

    0 is an ordinary logit: exp(0) = 1."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, 0.0)


@top_k.misconception
def fills_with_plus_infinity(logits, k):
    """The removed tokens get the logit +inf. It is -inf that removes a token."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, math.inf)


@top_k.misconception
def compares_with_the_largest(logits, k):
    """You compare with the largest of the k. The limit is the smallest of them.

    Only the best token is left."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., :1]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def drops_the_last_one(logits, k):
    """You remove the k-th best token as well. It has to stay.

    Only k - 1 tokens are left."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits <= smallest_kept, -math.inf)


@top_k.misconception
def keeps_the_best_of_all_rows(logits, k):
    """You keep the k largest logits of the whole tensor. Each row keeps its own k."""
    largest = logits.flatten().topk(min(k, logits.numel())).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def keeps_one_more(logits, k):
    """You take the (k + 1)-th largest logit as the limit. The k-th largest is the last that stays."""
    largest = logits.topk(min(k + 1, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def removes_the_best(logits, k):
    """It is the other way round: you remove the k most likely tokens and leave the others."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits >= smallest_kept, -math.inf)


@top_k.misconception
def keeps_the_smallest(logits, k):
    """The k least likely tokens are left. Take the largest logits."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1, largest=False).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits > smallest_kept, -math.inf)


@top_k.misconception
def one_limit_for_all(logits, k):
    """You take the k largest of the whole batch. Each row has its own k, and its own limit."""
    largest = logits.flatten().topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def along_the_first_axis(logits, k):
    """You compare along the first axis, across the sentences. The vocabulary is the last axis."""
    largest = logits.topk(min(k, logits.shape[0]), dim=0).values
    smallest_kept = largest[-1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def returns_the_k_values(logits, k):
    """You return the k values alone. The result has the whole vocabulary, -inf where a token is removed.

    Which tokens the values belong to is lost."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    return largest


@top_k.misconception
def returns_in_falling_order(logits, k):
    """Your result is sorted.

    The logits are no longer at their tokens' places."""
    logits = logits.sort(dim=-1, descending=True).values
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def returns_probabilities(logits, k):
    """These are probabilities. Return logits: the softmax comes later, when a token is drawn."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf).softmax(dim=-1)


@top_k.misconception
def returns_log_probabilities(logits, k):
    """You normalised the logits that are left. They stay as they are; leave that to the softmax before sampling."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf).log_softmax(dim=-1)


@top_k.misconception
def fails_for_a_large_k(logits, k):
    """topk raises an error if k is larger than the vocabulary. In that case everything
    stays."""
    largest = logits.topk(k, dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def removes_nothing(logits, k):
    """You remove no token. (masked_fill returns a new tensor: what it returns has to be used.)

    Your result is the logits as they came in."""
    return logits.clone()


@top_k.misconception
def fills_with_minus_a_thousand(logits, k):
    """The removed tokens get a fixed negative logit. To remove a token for certain its logit has to be -inf, or lower
    than any logit can be.

    Where all logits are lower than yours, the removed tokens win."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -1000.0)


@top_k.misconception
def compares_with_k(logits, k):
    """You compare each logit with k. k is how many tokens stay, not how large their logits are."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = k
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.alternative
def by_sorting(logits, k):
    limit = logits.sort(dim=-1, descending=True).values[..., :k][..., -1].unsqueeze(-1)
    return torch.where(logits >= limit, logits, torch.finfo(logits.dtype).min)


@top_k.alternative
def by_scattering(logits, k):
    values, places = torch.topk(logits, min(k, logits.size(-1)))
    return torch.full_like(logits, -1e9).scatter_(-1, places, values)


@top_k.alternative
def by_rank(logits, k):
    rank = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
    return logits + torch.zeros_like(logits).masked_fill(rank >= k, -math.inf)


@top_k.alternative
def by_kthvalue(logits, k):
    vocab = logits.shape[-1]
    if k >= vocab:
        return logits.clone()
    limit = logits.kthvalue(vocab - k + 1, dim=-1, keepdim=True).values
    result = logits.clone()
    result[result < limit] = float("-inf")
    return result.float()
