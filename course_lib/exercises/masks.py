"""Exercises on masks: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

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
    expect_tensor,
    expect_truth_values,
    expect_tuple,
    is_close,
)
from course_lib.checking.inputs import normal, random_mask
from course_lib.checking.subject import Subject
from course_lib.masks import allowed_places, require_lengths


def first_place(found):
    """The index of the first True, as a tuple of numbers."""
    return tuple(int(i) for i in found.nonzero()[0])


# --- padding_mask ---------------------------------------------------------------------------------------

padding_mask = Exercise(
    masks.padding_mask,
    cases=[
        {"lengths": torch.tensor([2, 4]), "max_len": 4},
        {"lengths": torch.tensor([3, 1, 5]), "max_len": 6},
        {"lengths": torch.tensor([5, 0, 2, 1]), "max_len": 5},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "Position j of a sentence is real exactly if j is smaller than the sentence's length. Positions count from 0.",
        "A loop does it: begin with all False and set the first `length` places of each row to True.",
        "Without a loop: compare torch.arange(max_len) with the lengths. One of the two needs an extra axis, "
        "so that the comparison makes a row for every sentence.",
        "One line: torch.arange(max_len) < lengths[:, None].",
    ],
)


def padding_answer(subject, case):
    lengths, max_len = case.values()
    return expect_truth_values(subject(lengths, max_len), (len(lengths), max_len))


@padding_mask.property("the mask has shape (batch, max_len) and holds True and False", points=1)
def padding_shape(subject, case):
    padding_answer(subject, case)


@padding_mask.property("no padding is marked as real", points=1)
def padding_hides(subject, case):
    answer = padding_answer(subject, case)
    wrong = answer & ~masks.padding_mask(*case.values())
    if wrong.any():
        row, place = first_place(wrong)
        length = int(case["lengths"][row])
        expect(False, f"Sentence {row} has length {length}, but its place {place} (counted from 0) is True.")


@padding_mask.property("each row has as many True as the sentence has tokens", points=1)
def padding_counts(subject, case):
    counts = padding_answer(subject, case).sum(dim=-1)
    expect(
        torch.equal(counts, case["lengths"]),
        f"The lengths are {case['lengths'].tolist()}, but your rows hold {counts.tolist()} times True.",
    )


@padding_mask.property("exactly the real tokens are True", points=1)
def padding_exact(subject, case):
    expect_mask(subject(*case.values()), masks.padding_mask(*case.values()))


@padding_mask.misconception
def marks_the_padding(lengths, max_len):
    """Your mask is True on the padding. In this course True means: a real token, attention is allowed."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions >= lengths[:, None]


@padding_mask.misconception
def marks_the_padding_but_one(lengths, max_len):
    """Your mask is True on the padding, and it begins one place too late. In this course True means: a real token."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions > lengths[:, None]


@padding_mask.misconception
def lets_one_pad_through(lengths, max_len):
    """One padded place is visible in each row: positions count from 0, so a sentence of length 3 ends at position 2."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions <= lengths[:, None]


@padding_mask.misconception
def hides_the_last_token(lengths, max_len):
    """The last real token of each sentence is hidden: your positions count from 1, but they have to count from 0."""
    require_lengths(lengths, max_len)
    positions = torch.arange(1, max_len + 1, device=lengths.device)
    return positions < lengths[:, None]


@padding_mask.misconception
def positions_down_the_rows(lengths, max_len):
    """The axes have changed places: each sentence is a row, and its positions run along the row."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions[:, None] < lengths


@padding_mask.misconception
def forgets_the_batch_axis(lengths, max_len):
    """You compare positions and lengths one to one. Every position has to meet every length: one of the two needs
    a new axis."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions < lengths


@padding_mask.misconception
def axis_on_the_wrong_side(lengths, max_len):
    """The new axis is in the wrong place. Lengths have to stand in a column, one row for each sentence, and positions
    in a row."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions < lengths[None, :]


@padding_mask.misconception
def as_long_as_the_longest(lengths, max_len):
    """Your mask is as wide as the longest sentence of this batch. The width that is asked for is max_len, which can
    be larger."""
    require_lengths(lengths, max_len)
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return positions < lengths[:, None]


@padding_mask.misconception
def padding_on_the_left(lengths, max_len):
    """You expect the padding in front. Here the real tokens come first, and the padding stands behind them."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions >= max_len - lengths[:, None]


@padding_mask.misconception
def one_length_for_all(lengths, max_len):
    """Every row of yours has the length of the longest sentence. Each sentence has its own."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths.max()).expand(len(lengths), max_len)


@padding_mask.misconception
def everything_is_real(lengths, max_len):
    """Every place is marked as real: the lengths are not used."""
    require_lengths(lengths, max_len)
    return torch.ones(len(lengths), max_len, dtype=torch.bool)


@padding_mask.misconception
def marks_one_token_only(lengths, max_len):
    """You mark one place in each row, the one at which the sentence ends. All places before it are real as well."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions == lengths[:, None] - 1


@padding_mask.misconception
def slices_from_minus_zero(lengths, max_len):
    """A sentence without padding comes out wholly hidden: you cut off the last 0 places with a slice that starts at
    -0, and -0 is 0, the beginning."""
    mask = torch.ones(len(lengths), max_len, dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        mask[row, -(max_len - length) :] = False
    return mask


@padding_mask.misconception
def a_square_for_each_sentence(lengths, max_len):
    """That is a mask for pairs of positions, with an axis for the queries. Here one truth value for each token is
    wanted: shape (batch, max_len)."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths[:, None])[:, None, :].expand(-1, max_len, -1)


@padding_mask.alternative
def filled_row_by_row(lengths, max_len):
    mask = torch.zeros(len(lengths), max_len)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    return mask


@padding_mask.alternative
def from_lists(lengths, max_len):
    return torch.tensor([[j < length for j in range(max_len)] for length in lengths.tolist()])


@padding_mask.alternative
def inverted_at_the_end(lengths, max_len):
    return ~(torch.arange(max_len).expand(len(lengths), max_len) >= lengths.unsqueeze(1))


@padding_mask.alternative
def rows_of_a_triangle(lengths, max_len):
    return torch.ones(max_len + 1, max_len).tril(diagonal=-1)[lengths].int()


@padding_mask.alternative
def transposed_at_the_end(lengths, max_len):
    return (torch.arange(max_len)[:, None] < lengths).T


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
def sees_only_the_last_step(n):
    """Each position sees itself and the one before it. It may see the whole past, back to position 0."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0) & torch.triu(everything, diagonal=-1)


@causal_mask.misconception
def counts_the_keys_backwards(n):
    """Your triangle leans to the wrong side: the last query sees one key, the first sees all. The first sees least."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0).flip(0)


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


@causal_mask.alternative
def with_axes_for_batch_and_heads(n):
    return torch.ones(n, n, dtype=torch.uint8).triu().mT[None, None]


# --- decoder_mask ---------------------------------------------------------------------------------------

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


# --- cross_mask -----------------------------------------------------------------------------------------

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
        "The source is all there before the first target token is made. So is anything of it in the future?",
        "padding_mask(key_lengths, key_len) is (batch, key). All queries share it: give it an axis for them.",
        "padding_mask(key_lengths, key_len)[:, None, :] and, if you like, .expand(-1, query_len, -1).",
    ],
)


def cross_answer(subject, case):
    key_lengths, query_len, key_len = case.values()
    return expect_truth_values(subject(key_lengths, query_len, key_len), (len(key_lengths), query_len, key_len))


@cross_mask.property("the mask has shape (batch, query_len, key_len), or 1 in place of query_len", points=1)
def cross_shape(subject, case):
    cross_answer(subject, case)


@cross_mask.property("no query sees a padded key", points=1)
def cross_padding(subject, case):
    key_lengths, _, key_len = case.values()
    seen = cross_answer(subject, case) & ~masks.padding_mask(key_lengths, key_len)[:, None, :]
    if seen.any():
        sample, query, key = first_place(seen)
        expect(
            False,
            f"Source {sample} has {int(key_lengths[sample])} real positions, but query {query} sees key {key}, which "
            "is padding.",
        )


@cross_mask.property("all queries of a sentence see the same keys", points=1)
def cross_queries_alike(subject, case):
    answer = cross_answer(subject, case)
    different = (answer != answer[:, :1]).any(dim=-1)
    if different.any():
        sample, query = first_place(different)
        expect(False, f"In sentence {sample} query {query} sees other keys than query 0 does.")


@cross_mask.property("every query sees every real key", points=1)
def cross_exact(subject, case):
    expect_mask(subject(*case.values()), masks.cross_mask(*case.values()))


@cross_mask.misconception
def source_in_order_of_time(key_lengths, query_len, key_len):
    """You apply a causal mask to the source. The source is known as a whole before the target begins: nothing of it
    is in the future."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1).tril()


@cross_mask.misconception
def queries_and_keys_swapped(key_lengths, query_len, key_len):
    """The last two axes have changed places: queries are rows, keys are columns."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, :, None]
    return real_keys.expand(-1, -1, query_len)


@cross_mask.misconception
def lengths_along_the_queries(key_lengths, query_len, key_len):
    """You use the source's lengths on the query axis: target positions are hidden, and the source's padding stays
    visible."""
    real = torch.arange(query_len, device=key_lengths.device) < key_lengths[:, None]
    real_keys = real[:, :, None]
    return real_keys.expand(-1, -1, key_len)


@cross_mask.misconception
def as_wide_as_the_target(key_lengths, query_len, key_len):
    """Your last axis is as long as the target. The keys come from the source: it has key_len columns."""
    real = torch.arange(query_len, device=key_lengths.device) < key_lengths[:, None]
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def square_over_the_source(key_lengths, query_len, key_len):
    """Your mask has a row for every source position. The queries are the target's positions: query_len rows."""
    real = masks.padding_mask(key_lengths, key_len)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, key_len, -1)


@cross_mask.misconception
def no_axis_for_the_target(key_lengths, query_len, key_len):
    """The axis of the queries is missing. (batch, key_len) does not line up with scores of shape (batch, query_len,
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
    """Every key is visible, the padding too: the lengths are not used."""
    real = torch.ones(len(key_lengths), key_len, dtype=torch.bool)
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def one_source_pad_visible(key_lengths, query_len, key_len):
    """One padded key is visible: positions count from 0, so a source of length 3 ends at position 2."""
    real = torch.arange(key_len, device=key_lengths.device) <= key_lengths[:, None]
    real_keys = real[:, None, :]
    return real_keys.expand(-1, query_len, -1)


@cross_mask.misconception
def last_source_token_hidden(key_lengths, query_len, key_len):
    """The last real key of each source is hidden: one position is lost in your padding mask."""
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


@cross_mask.alternative
def broadcastable(key_lengths, query_len, key_len):
    return masks.padding_mask(key_lengths, key_len).unsqueeze(1)


@cross_mask.alternative
def broadcastable_with_heads(key_lengths, query_len, key_len):
    return (torch.arange(key_len) < key_lengths.view(-1, 1, 1, 1)).float()


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


# --- masked_softmax -------------------------------------------------------------------------------------

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


# --- additive_mask --------------------------------------------------------------------------------------

additive_mask = Exercise(
    masks.additive_mask,
    cases=[
        {"mask": torch.tensor([[1, 0, 1], [1, 1, 1]]).bool()},
        {"mask": masks.causal_mask(5)},
        {"mask": random_mask(2, 3, 4, 6, seed=41)},
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "What do you add to a score to leave it as it is? What do you add so that its exponential becomes 0?",
        "Begin with zeros in the shape of the mask, and fill the hidden places.",
        "torch.zeros(mask.shape).masked_fill(…, -math.inf) fills where its first argument is True: that has to be "
        "where the mask is False.",
    ],
)


def additive_answer(subject, case):
    return expect_floats(subject(case["mask"]), tuple(case["mask"].shape), "the additive mask")


def probe_scores(mask, scale):
    """Scores of about this size, the largest of them on hidden places."""
    spread = torch.linspace(-1.0, 1.0, mask.shape[-1], dtype=torch.float64).expand(mask.shape)
    return scale * torch.where(mask, spread.flip(-1) - 0.5, spread.abs()).clamp(-1, 1)


@additive_mask.property("it holds floating point numbers, as many as the mask has places, and no NaN", points=1)
def additive_shape(subject, case):
    additive_answer(subject, case)


@additive_mask.property("0 where attention is allowed", points=1)
def additive_zero(subject, case):
    answer = additive_answer(subject, case)
    wrong = case["mask"] & (answer != 0)
    if wrong.any():
        place = first_place(wrong)
        expect(False, f"The place {list(place)} is allowed, but {float(answer[place]):g} is added to its score.")


@additive_mask.property("something negative where it is hidden", points=1)
def additive_negative(subject, case):
    answer = additive_answer(subject, case)
    wrong = ~case["mask"] & (answer >= 0)
    if wrong.any():
        place = first_place(wrong)
        expect(False, f"The place {list(place)} is hidden, but {float(answer[place]):g} is added to its score.")


@additive_mask.property("softmax(scores + additive mask) is the masked softmax, for scores up to 1000", points=2)
def additive_softmax(subject, case):
    answer = additive_answer(subject, case).double()
    for scale in (1.0, 1000.0):
        scores = probe_scores(case["mask"], scale)
        weights = (scores + answer).softmax(dim=-1)
        expect(
            is_close(weights, masks.masked_softmax(scores, case["mask"])),
            f"For scores between -{scale:g} and {scale:g} a hidden score can lie {2 * scale:g} above the allowed ones. "
            f"You add {float(answer[~case['mask']].max()):g} to it, and it still gets attention.",
        )


@additive_mask.misconception
def adds_to_the_allowed(mask):
    """Your numbers are the wrong way round: the allowed places get -inf and the hidden ones 0."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(allowed, -math.inf)


@additive_mask.misconception
def plus_infinity(mask):
    """The sign is wrong: +inf on a hidden score gives that key everything. It has to be pulled down."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, math.inf)


@additive_mask.misconception
def zero_times_infinity(mask):
    """You multiply by -inf. On the allowed places that is 0 · (-inf), and that is NaN, not 0."""
    allowed = mask.bool()
    return (~allowed).float() * -math.inf


@additive_mask.misconception
def one_on_the_allowed(mask):
    """The hidden places are right, but an allowed place holds 1, left over from the mask. It has to be 0: allowed
    scores stay as they are."""
    allowed = mask.bool()
    nothing = torch.ones(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -math.inf)


@additive_mask.misconception
def minus_infinity_everywhere(mask):
    """Every place holds -inf, the allowed ones too. They need 0, so that their scores stay as they are."""
    allowed = mask.bool()
    nothing = torch.full(mask.shape, -math.inf, device=mask.device)
    return nothing


@additive_mask.misconception
def mask_as_numbers(mask):
    """You return the mask itself, as truth values or as 1 and 0. Added to the scores it raises the allowed ones by 1
    and hides nothing."""
    allowed = mask.bool()
    return allowed.float()


@additive_mask.misconception
def only_minus_one(mask):
    """Hidden places hold -1: that makes a weight about three times smaller, not 0."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -1.0)


@additive_mask.misconception
def only_minus_ten(mask):
    """-10 is not negative enough: a hidden key whose score is 10 higher than the others still wins."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -10.0)


@additive_mask.misconception
def only_minus_hundred(mask):
    """-100 is not negative enough for large scores: a hidden key whose score is 100 higher than the others still
    wins."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -100.0)


@additive_mask.misconception
def only_minus_thousand(mask):
    """-1000 is not negative enough: scores up to 1000 are allowed here, so a hidden one can lie 2000 above the
    others."""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -1000.0)


@additive_mask.misconception
def tiny_instead_of_negative(mask):
    """Your number for hidden places is 0 or very close to it, so nothing is hidden. What is wanted lies far below 0:
    large in size, negative. (The most negative number of a dtype is its finfo.min, not finfo.tiny.)"""
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -1e-9)


@additive_mask.alternative
def logarithm_of_the_mask(mask):
    return torch.log(mask.float())


@additive_mask.alternative
def minus_a_billion(mask):
    return (1.0 - mask.to(torch.float64)) * -1e9


@additive_mask.alternative
def minus_ten_thousand(mask):
    return -10000.0 * mask.logical_not()


@additive_mask.alternative
def most_negative_float(mask):
    return torch.where(mask, 0.0, torch.finfo(torch.float32).min)


@additive_mask.alternative
def filled_twice(mask):
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


@additive_mask.alternative
def written_into_place(mask):
    bias = torch.zeros_like(mask, dtype=torch.float16)
    bias[~mask] = float("-inf")
    return bias


# --- window_mask ----------------------------------------------------------------------------------------

window_mask = Exercise(
    masks.window_mask,
    cases=[
        {"n": 5, "radius": 1},
        {"n": 8, "radius": 2},
        {"n": 4, "radius": 0},
        {"n": 7, "radius": 3},
        {"n": 3, "radius": 9},
    ],
    minutes=6,
    difficulty=2,
    hints=[
        "Which keys may query 3 see if the radius is 1? And query 0, at the edge?",
        "The distance between query i and key j is |i - j|. Make a matrix of all distances first.",
        "positions[:, None] - positions is the matrix of all i - j.",
        "(torch.arange(n)[:, None] - torch.arange(n)).abs() <= radius.",
    ],
)


def window_answer(subject, case):
    n, radius = case.values()
    return expect_truth_values(subject(n, radius), (n, n))


@window_mask.property("the mask is n × n, True or False", points=1)
def window_shape(subject, case):
    window_answer(subject, case)


@window_mask.property("every position may look at itself", points=1)
def window_diagonal(subject, case):
    expect(window_answer(subject, case).diagonal().all(), "A position on the diagonal is hidden: |i - i| = 0.")


@window_mask.property("nobody looks further than the radius", points=1)
def window_far(subject, case):
    n, radius = case.values()
    far = window_answer(subject, case) & ~masks.window_mask(n, radius)
    if far.any():
        query, key = first_place(far)
        steps = abs(query - key)
        expect(False, f"Query {query} sees key {key}, which is {steps} steps away; the radius is {radius}.")


@window_mask.property("every position sees all keys up to the radius, on both sides", points=1)
def window_exact(subject, case):
    expect_mask(subject(*case.values()), masks.window_mask(*case.values()))


@window_mask.misconception
def stops_one_short(n, radius):
    """Your window is one step too small on each side: a key exactly `radius` away belongs to it."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance < radius


@window_mask.misconception
def reaches_one_too_far(n, radius):
    """Your window is one step too large on each side: the last key of it is `radius` steps away, no further."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance <= radius + 1


@window_mask.misconception
def outside_the_window(n, radius):
    """Your mask is True outside of the window. In this course True means allowed."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance > radius


@window_mask.misconception
def past_without_limit(n, radius):
    """You compare j - i without its absolute value: the future is limited to the radius, the past is not."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = -steps
    return distance <= radius


@window_mask.misconception
def future_without_limit(n, radius):
    """You compare i - j without its absolute value: the past is limited to the radius, the future is not."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps
    return distance <= radius


@window_mask.misconception
def window_of_the_past(n, radius):
    """Your window reaches back only. It is meant to reach `radius` steps to both sides; hiding the future is another
    mask's work."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius) & (steps >= 0)


@window_mask.misconception
def window_of_the_future(n, radius):
    """Your window reaches ahead only. It is meant to reach `radius` steps to both sides."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius) & (steps <= 0)


@window_mask.misconception
def edge_of_the_window_only(n, radius):
    """You allow only keys exactly `radius` steps away. All nearer ones belong to the window too."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance == radius


@window_mask.misconception
def radius_taken_for_width(n, radius):
    """You take the radius for the whole width of the window. It is the reach to each side: 2 · radius + 1 keys."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance <= radius // 2


@window_mask.misconception
def not_itself(n, radius):
    """A position belongs to its own window: the distance 0 is allowed."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius) & (distance > 0)


@window_mask.misconception
def goes_round_the_corner(n, radius):
    """Your window goes round: the first position sees the last one. A sequence has ends, it is not a ring."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = torch.minimum(steps % n, -steps % n)
    return distance <= radius


@window_mask.misconception
def slice_begins_below_zero(n, radius):
    """Near the beginning your slice starts at a negative index, and Python counts that from the end. Cut it off at
    0."""
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, i - radius : i + radius + 1] = True
    return mask


@window_mask.misconception
def fixed_blocks(n, radius):
    """You cut the sequence into fixed blocks. A window moves along: each position is in the middle of its own."""
    positions = torch.arange(n)
    block = positions // (radius + 1)
    return block[:, None] == block


@window_mask.misconception
def first_keys_for_everyone(n, radius):
    """Every query of yours sees the same first keys. The window depends on the query's own position."""
    positions = torch.arange(n)
    return (positions <= radius).expand(n, n)


@window_mask.alternative
def two_triangles(n, radius):
    everything = torch.ones(n, n)
    return everything.tril(radius) * everything.triu(-radius)


@window_mask.alternative
def slices_of_rows(n, radius):
    mask = torch.zeros(n, n, dtype=torch.int)
    for i in range(n):
        mask[i, max(0, i - radius) : i + radius + 1] = 1
    return mask


@window_mask.alternative
def nested_lists(n, radius):
    return torch.tensor([[abs(i - j) <= radius for j in range(n)] for i in range(n)])


@window_mask.alternative
def from_squares(n, radius):
    positions = torch.arange(n, dtype=torch.float64)
    return torch.cdist(positions[:, None], positions[:, None]) < radius + 0.5
