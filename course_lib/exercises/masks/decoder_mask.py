"""The exercise `decoder_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_mask
from course_lib.exercises.masks.shared import first_place, keys_in, mask_from, refuse

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
    return mask_from(subject, (lengths, n), (len(lengths), n, n))


@decoder_mask.property("the mask has shape (batch, n, n) and holds True and False", points=1)
def decoder_shape(subject, case):
    decoder_answer(subject, case)


@decoder_mask.property("the last real query of a sentence sees all its tokens", points=1)
def decoder_last_query(subject, case):
    answer, want = decoder_answer(subject, case), decoder_mask.want(case)
    for sample, length in enumerate(case["lengths"].tolist()):
        last = length - 1
        if not answer[sample, last].equal(want[sample, last]):
            message = (
                f"Sentence {sample} has {length} real tokens. The query at position {last}, its last, sees "
                f"{keys_in(answer[sample, last])}; it should see {keys_in(want[sample, last])}."
            )
            refuse(message, answer, want)


@decoder_mask.property("no query sees a padded key", points=1)
def decoder_padding(subject, case):
    lengths, n = case.values()
    answer = decoder_answer(subject, case)
    seen = answer & ~masks.padding_mask(lengths, n)[:, None, :]
    if seen.any():
        sample, query, key = first_place(seen)
        real = int(lengths[sample])
        message = f"Sentence {sample} has {real} real tokens, but its query {query} sees key {key}, which is padding."
        refuse(message, answer, decoder_mask.want(case))


@decoder_mask.property("no query sees its future", points=1)
def decoder_future(subject, case):
    answer = decoder_answer(subject, case)
    future = torch.triu(answer, diagonal=1)
    if future.any():
        sample, query, key = first_place(future)
        message = f"In sentence {sample} query {query} sees key {key}, which lies in its future."
        refuse(message, answer, decoder_mask.want(case))


@decoder_mask.property("no row is empty: keys are hidden, queries are not", points=1)
def decoder_rows(subject, case):
    answer = decoder_answer(subject, case)
    empty = ~answer.any(dim=-1)
    if empty.any():
        sample, query = first_place(empty)
        message = f"In sentence {sample} query {query} may look at nothing at all. Its softmax would be NaN."
        refuse(message, answer, decoder_mask.want(case))


@decoder_mask.property("a real query sees all real tokens up to itself", points=1)
def decoder_exact(subject, case):
    answer = decoder_answer(subject, case)
    for sample, length in enumerate(case["lengths"].tolist()):  # rows of padded queries are not checked
        expect_mask(answer[sample, :length], masks.causal_mask(case["n"])[:length], f"the mask of sentence {sample}")


@decoder_mask.misconception
def forgets_the_padding(lengths, n):
    """You leave the padding visible: your mask does not depend on the lengths."""
    past = masks.causal_mask(n).to(lengths.device)
    return past.expand(len(lengths), n, n)


@decoder_mask.misconception
def forgets_the_future(lengths, n):
    """You leave the future visible: the causal mask is missing."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, n, -1)


@decoder_mask.misconception
def hides_queries_too(lengths, n):
    """You apply the lengths to the rows of your mask, the queries. Hide keys only: what a padded query computes is
    thrown away later.

    As it is, the row of a padded query has no key left, and its softmax is NaN."""
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
    """You keep the upper triangle. A query may look back (to the left of the diagonal), not ahead."""
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
    """You invert the padding mask: the padded keys are allowed and the real ones hidden. True means a real token."""
    real = ~masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def inverts_the_triangle(lengths, n):
    """You invert the causal mask: the future is allowed, and the past and the present are hidden."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = ~masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def cannot_see_itself(lengths, n):
    """You leave out the diagonal. A position may see itself.

    As it is, the first query has no key at all."""
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
    """You count the position that equals the length as real. Positions count from 0: a sentence of length 3 ends at 2.

    As it is, one padded key is visible in each sentence that has padding."""
    real = torch.arange(n, device=lengths.device) <= lengths[:, None]
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def last_token_is_hidden(lengths, n):
    """Your padding mask ends one position too early. Positions count from 0: a sentence of length 3 has the keys 0, 1
    and 2.

    As it is, the last real token of each sentence is hidden, even from itself."""
    real = torch.arange(n, device=lengths.device) < lengths[:, None] - 1
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def looks_one_step_ahead(lengths, n):
    """Your triangle reaches one diagonal too far: each query sees the step after its own."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = torch.ones(n, n, dtype=torch.bool, device=lengths.device).tril(1)
    return real_keys & past


@decoder_mask.misconception
def padding_on_the_left_of_the_target(lengths, n):
    """You expect the padding in front. Here the real tokens come first, and the padding comes last."""
    real = torch.arange(n, device=lengths.device) >= n - lengths[:, None]
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def one_length_for_the_batch(lengths, n):
    """You use the length of the longest sentence for all of them. Each sentence has its own."""
    real = (torch.arange(n, device=lengths.device) < lengths.max()).expand(len(lengths), n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def inverts_both(lengths, n):
    """You invert both masks before you combine them: only padded keys in the future are left."""
    real = ~masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = ~masks.causal_mask(n).to(lengths.device)
    return real_keys & past


@decoder_mask.misconception
def adds_the_two(lengths, n):
    """You add the two masks as numbers. Where both allow a key you get 2, where one does you get 1. But both have to
    allow it."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :].int()
    past = masks.causal_mask(n).to(lengths.device).int()
    return real_keys + past


@decoder_mask.misconception
def is_additive(lengths, n):
    """You return an additive mask (0 and -inf), to be added to the scores. Return a boolean one."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return torch.zeros(len(lengths), n, n).masked_fill(~(real_keys & past), -math.inf)


@decoder_mask.misconception
def an_axis_for_the_heads(lengths, n):
    """Your mask has more axes than (batch, n, n). Further axes are added later, where they are needed.

    Its entries are right."""
    real = masks.padding_mask(lengths, n)
    real_keys = real[:, None, :]
    past = masks.causal_mask(n).to(lengths.device)
    return (real_keys & past)[:, None]


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
def multiplied(lengths, n):
    return masks.padding_mask(lengths, n)[:, None] * torch.ones(n, n).tril()


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
