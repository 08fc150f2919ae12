"""The exercise `cross_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_mask
from course_lib.exercises.masks.shared import first_place, keys_in, mask_from, refuse

cross_mask = Exercise(
    masks.cross_mask,
    cases=[
        {"key_lengths": torch.tensor([2, 4]), "query_len": 3, "key_len": 4},
        {"key_lengths": torch.tensor([1, 5, 3]), "query_len": 4, "key_len": 6},
        {"key_lengths": torch.tensor([3, 1, 2, 2]), "query_len": 5, "key_len": 3},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "Which sequence do the keys come from? Only its padding matters here.",
        "The source is complete before the first target token is written. Is any of it in the future?",
        "padding_mask(key_lengths, key_len) is (batch, key). All queries share it: give it an axis for them.",
        "padding_mask(key_lengths, key_len)[:, None, :] and, if you like, .expand(-1, query_len, -1).",
    ],
)


def cross_answer(subject, case):
    key_lengths, query_len, key_len = case.values()
    return mask_from(subject, (key_lengths, query_len, key_len), (len(key_lengths), query_len, key_len))


@cross_mask.property("the mask has shape (batch, query_len, key_len), or 1 in place of query_len", points=1)
def cross_shape(subject, case):
    cross_answer(subject, case)


@cross_mask.property("the first query sees every real key, and no other", points=1)
def cross_first_query(subject, case):
    answer, want = cross_answer(subject, case), cross_mask.want(case)
    wrong = (answer[:, 0] != want[:, 0]).any(dim=-1)
    if wrong.any():
        (sample,) = first_place(wrong)
        real = int(case["key_lengths"][sample])
        message = (
            f"In sentence {sample} the first query sees {keys_in(answer[sample, 0])}. "
            f"The real positions of its source are {list(range(real))}."
        )
        refuse(message, answer, want)


@cross_mask.property("no query sees a padded key", points=1)
def cross_padding(subject, case):
    answer, want = cross_answer(subject, case), cross_mask.want(case)
    seen = answer & ~want
    if seen.any():
        sample, query, key = first_place(seen)
        real = int(case["key_lengths"][sample])
        message = f"Source {sample} has {real} real positions, but query {query} sees key {key}, which is padding."
        refuse(message, answer, want)


@cross_mask.property("every query sees every real key", points=1)
def cross_exact(subject, case):
    expect_mask(cross_answer(subject, case), cross_mask.want(case))


@cross_mask.misconception
def source_in_order_of_time(key_lengths, query_len, key_len):
    """You apply a causal mask to the source. The whole source is known before the target begins: none of it is in the
    future."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1).tril()


@cross_mask.misconception
def queries_and_keys_swapped(key_lengths, query_len, key_len):
    """Queries and keys are swapped: queries are rows, keys are columns."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, :, None]
    return real_keys.expand(-1, -1, query_len)


@cross_mask.misconception
def lengths_along_the_queries(key_lengths, query_len, key_len):
    """You use the source's lengths on the query axis. They belong to the keys.

    As it is, target positions are hidden, and the source's padding stays visible."""
    real = torch.arange(query_len, device=key_lengths.device) < key_lengths[:, None]
    real_keys = real[:, :, None]
    return real_keys.expand(-1, -1, key_len)


@cross_mask.misconception
def as_wide_as_the_target(key_lengths, query_len, key_len):
    """You make the last axis as long as the target. The keys come from the source: it has key_len columns."""
    real = torch.arange(query_len, device=key_lengths.device) < key_lengths[:, None]
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def square_over_the_source(key_lengths, query_len, key_len):
    """You make a row for every source position. The queries are the target's positions: query_len rows."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, key_len, -1)


@cross_mask.misconception
def no_axis_for_the_target(key_lengths, query_len, key_len):
    """You leave out the axis of the queries. (batch, key_len) does not line up with scores of shape (batch, query_len,
    key_len): shapes are compared from the right."""
    real = masks.padding_mask(key_lengths, key_len)
    return real


@cross_mask.misconception
def true_on_the_source_padding(key_lengths, query_len, key_len):
    """Your mask is True on the padding. In this course True means allowed."""
    real = ~masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def nothing_hidden_in_the_source(key_lengths, query_len, key_len):
    """You do not use the lengths: the padding is visible."""
    real = torch.ones(len(key_lengths), key_len, dtype=torch.bool)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def one_source_pad_visible(key_lengths, query_len, key_len):
    """You count the position that equals the length as real. Positions count from 0: a source of length 3 ends at 2.

    As it is, one padded key is visible wherever there is padding."""
    real = torch.arange(key_len, device=key_lengths.device) <= key_lengths[:, None]
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def last_source_token_hidden(key_lengths, query_len, key_len):
    """Your padding mask ends one position too early. Positions count from 0: a source of length 3 has the keys 0, 1
    and 2.

    As it is, the last real key of each source is hidden."""
    real = torch.arange(key_len, device=key_lengths.device) < key_lengths[:, None] - 1
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def target_positions_hidden_too(key_lengths, query_len, key_len):
    """You use the source's lengths on both axes. They say nothing about the target: every query keeps its row."""
    real = masks.padding_mask(key_lengths, key_len)
    real_queries = torch.arange(query_len) < key_lengths[:, None]
    real_keys = real[:, None, :] & real_queries[:, :, None]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def padding_on_the_left_of_the_source(key_lengths, query_len, key_len):
    """You expect the padding in front. Here the real positions come first, and the padding comes last."""
    real = torch.arange(key_len, device=key_lengths.device) >= key_len - key_lengths[:, None]
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def one_length_for_all_sources(key_lengths, query_len, key_len):
    """You use the length of the longest source for all of them. Each source has its own."""
    real = (torch.arange(key_len, device=key_lengths.device) < key_lengths.max()).expand(len(key_lengths), key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def is_additive(key_lengths, query_len, key_len):
    """You return an additive mask (0 and -inf), to be added to the scores. Return a boolean one."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return torch.zeros(len(key_lengths), query_len, key_len).masked_fill(~real_keys, -math.inf)


@cross_mask.misconception
def an_axis_for_the_heads(key_lengths, query_len, key_len):
    """Your mask has more axes than (batch, query_len, key_len). Further axes are added later, where they are needed.

    Its entries are right."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)[:, None]


@cross_mask.misconception
def true_on_the_source_padding_but_one(key_lengths, query_len, key_len):
    """Your mask is True on the padding, but not on its first place. In this course True means allowed."""
    real = torch.arange(key_len, device=key_lengths.device) > key_lengths[:, None]
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.alternative
def broadcastable(key_lengths, query_len, key_len):
    return masks.padding_mask(key_lengths, key_len).unsqueeze(1)


@cross_mask.alternative
def broadcastable_numbers(key_lengths, query_len, key_len):
    return (torch.arange(key_len) < key_lengths.view(-1, 1, 1)).float()


@cross_mask.alternative
def zeros_behind_each_source(key_lengths, query_len, key_len):
    mask = torch.ones(len(key_lengths), query_len, key_len, dtype=torch.int)
    for row, length in enumerate(key_lengths):
        mask[row, :, length:] = 0
    return mask


@cross_mask.alternative
def outer_product(key_lengths, query_len, key_len):
    return torch.einsum("q,bk->bqk", torch.ones(query_len), masks.padding_mask(key_lengths, key_len).float())


@cross_mask.alternative
def transposed_view(key_lengths, query_len, key_len):
    return masks.padding_mask(key_lengths, key_len).repeat(query_len, 1, 1).transpose(0, 1)
