"""The exercise `decoder_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
    expect_mask,
    expect_truth_values,
)
from course_lib.exercises.masks.shared import first_place

decoder_mask = Exercise(
    masks.decoder_mask,
    cases=[
        {"lengths": torch.tensor([3, 2]), "n": 3},
        {"lengths": torch.tensor([5, 1, 3, 2]), "n": 5},
        {"lengths": torch.tensor([2, 4, 1, 3]), "n": 4},
        {"lengths": torch.tensor([2, 4, 1]), "n": 6},
    ],
    minutes=7,
    difficulty=2,
    hints=[
        "Two conditions have to hold at once: the key is a real token, and it is not in the future. "
        "You have a mask for each.",
        "Which axes does each of the two have? padding_mask: (batch, key). causal_mask: (query, key). "
        "The answer has all three.",
        "Give the padding mask an axis of length 1 where the queries belong: real[:, None, :] is (batch, 1, key). "
        "Broadcasting does the rest.",
        "One line: padding_mask(lengths, n)[:, None, :] & causal_mask(n).",
    ],
)


def decoder_answer(subject, case):
    lengths, n = case.values()
    return expect_truth_values(subject(lengths, n), (len(lengths), n, n))


@decoder_mask.property("the mask has shape (batch, n, n) and holds True and False", points=1)
def decoder_shape(subject, case):
    decoder_answer(subject, case)


@decoder_mask.property("no query sees its future", points=1)
def decoder_future(subject, case):
    future = torch.triu(decoder_answer(subject, case), diagonal=1)
    if future.any():
        sample, query, key = first_place(future)
        expect(False, f"In sentence {sample} query {query} sees key {key}, which lies in its future.")


@decoder_mask.property("no query sees a padded key", points=1)
def decoder_padding(subject, case):
    lengths, n = case.values()
    seen = decoder_answer(subject, case) & ~masks.padding_mask(lengths, n)[:, None, :]
    if seen.any():
        sample, query, key = first_place(seen)
        expect(
            False,
            f"Sentence {sample} has {int(lengths[sample])} real tokens, but its query {query} sees key {key}, which "
            "is padding.",
        )


@decoder_mask.property("no row is empty: keys are hidden, queries are not", points=1)
def decoder_rows(subject, case):
    empty = ~decoder_answer(subject, case).any(dim=-1)
    if empty.any():
        sample, query = first_place(empty)
        expect(False, f"In sentence {sample} query {query} may look at nothing at all. Its softmax would be NaN.")


@decoder_mask.property("a real query sees all real tokens up to itself", points=2)
def decoder_exact(subject, case):
    answer = decoder_answer(subject, case)
    for sample, length in enumerate(case["lengths"].tolist()):  # rows of padded queries are nobody's business
        expect_mask(answer[sample, :length], masks.causal_mask(case["n"])[:length], f"the mask of sentence {sample}")


@decoder_mask.misconception
def forgets_the_padding(lengths, n):
    """Only the future is hidden. The padding is visible: your mask does not depend on the lengths."""
    past = masks.causal_mask(n).to(lengths.device)
    return past.expand(len(lengths), n, n)


@decoder_mask.misconception
def forgets_the_future(lengths, n):
    """Only the padding is hidden. Every position still sees its own future."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, n, -1)


@decoder_mask.misconception
def hides_queries_too(lengths, n):
    """You hide the rows of padded queries: the padding lies on the query axis in your mask. Such a row has no key
    left, and its softmax is NaN. Hide keys only: what a padded query computes is thrown away later."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :] & real[:, :, None]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def either_is_enough(lengths, n):
    """You allow a key if one of the two conditions holds. Both have to hold: real and not in the future."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys | past


@decoder_mask.misconception
def looks_into_the_future(lengths, n):
    """Your triangle is the wrong one: a query may look back (to the left of the diagonal), not ahead."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device).mT
    return real_keys & past


@decoder_mask.misconception
def true_means_hidden(lengths, n):
    """Your mask is True where attention is forbidden. In this course True means allowed."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return ~(real_keys & past)


@decoder_mask.misconception
def shows_the_padding_only(lengths, n):
    """The padding mask is the wrong way round in your answer: exactly the padded keys are visible."""
    real = ~masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def inverts_the_triangle(lengths, n):
    """The causal part is the wrong way round in your answer: exactly the future is visible."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = ~masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def cannot_see_itself(lengths, n):
    """A position must see itself: with your triangle the first query has no key at all. Keep the diagonal."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device).tril(-1)
    return real_keys & past


@decoder_mask.misconception
def no_axis_for_the_queries(lengths, n):
    """You combine (batch, n) with (n, n) as they are: sentences are taken for queries. The padding mask needs an axis
    for the queries between its two."""
    real = masks.padding_mask(lengths, n)
    real_keys = real
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def one_pad_is_visible(lengths, n):
    """One padded key is visible in each sentence: positions count from 0, so a sentence of length 3 ends at 2."""
    real = torch.arange(n, device=lengths.device) <= lengths[:, None]
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def last_token_is_hidden(lengths, n):
    """The last real token of each sentence is hidden, even from itself: one position is lost in your padding mask."""
    real = torch.arange(n, device=lengths.device) < lengths[:, None] - 1
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.alternative
def three_loops(lengths, n):
    mask = torch.zeros(len(lengths), n, n)
    for b, length in enumerate(lengths.tolist()):
        for i in range(n):
            for j in range(n):
                mask[b, i, j] = j <= i and j < length
    return mask


@decoder_mask.alternative
def smaller_of_two_limits(lengths, n):
    positions = torch.arange(n)
    last_allowed = torch.minimum(positions, lengths[:, None] - 1)  # (batch, query)
    return (positions <= last_allowed[..., None]).int()


@decoder_mask.alternative
def with_an_axis_for_the_heads(lengths, n):
    return (masks.padding_mask(lengths, n)[:, None, None, :] * torch.ones(n, n).tril()).bool()


@decoder_mask.alternative
def stacked(lengths, n):
    rows = [torch.ones(n, n).tril() for _ in lengths]
    for mask, length in zip(rows, lengths):
        mask[:, length:] = 0
    return torch.stack(rows)


@decoder_mask.alternative
def without_what_is_hidden(lengths, n):
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) | (torch.arange(n) >= lengths[:, None])[:, None]
    return hidden.logical_not()
