"""The exercise `padding_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_mask
from course_lib.exercises.masks.shared import first_place, mask_from, refuse
from course_lib.masks import require_lengths

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
    return mask_from(subject, (lengths, max_len), (len(lengths), max_len))


@padding_mask.property("the mask has shape (batch, max_len) and holds True and False", points=1)
def padding_shape(subject, case):
    padding_answer(subject, case)


@padding_mask.property("each row has as many True values as the sentence has tokens", points=1)
def padding_counts(subject, case):
    answer, lengths = padding_answer(subject, case), case["lengths"].tolist()
    counts = answer.sum(dim=-1).tolist()
    if counts != lengths:
        message = f"The lengths are {lengths}, but the numbers of True values in your rows are {counts}."
        refuse(message, answer, padding_mask.want(case))


@padding_mask.property("no padding is marked as real", points=1)
def padding_hides(subject, case):
    answer, want = padding_answer(subject, case), padding_mask.want(case)
    wrong = answer & ~want
    if wrong.any():
        row, place = first_place(wrong)
        length = int(case["lengths"][row])
        refuse(f"Sentence {row} has length {length}, but its place {place} (counted from 0) is True.", answer, want)


@padding_mask.property("exactly the real tokens are True", points=1)
def padding_exact(subject, case):
    expect_mask(padding_answer(subject, case), padding_mask.want(case))


@padding_mask.misconception
def marks_the_padding(lengths, max_len):
    """Your mask is True on the padding. In this course True means: a real token, attention is allowed."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions >= lengths[:, None]


@padding_mask.misconception
def marks_the_padding_but_one(lengths, max_len):
    """Your mask is True on the padding, but not on its first place. In this course True means: a real token."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions > lengths[:, None]


@padding_mask.misconception
def lets_one_pad_through(lengths, max_len):
    """You count the place that equals the length as real. Positions count from 0: a sentence of length 3 ends at 2.

    As it is, one padded place is visible in each row that has padding."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions <= lengths[:, None]


@padding_mask.misconception
def hides_the_last_token(lengths, max_len):
    """You count the positions from 1 (or take one off the length). They count from 0: a sentence of length 3 has the
    positions 0, 1 and 2.

    As it is, the last real token of each sentence is hidden."""
    require_lengths(lengths, max_len)
    positions = torch.arange(1, max_len + 1, device=lengths.device)
    return positions < lengths[:, None]


@padding_mask.misconception
def positions_down_the_rows(lengths, max_len):
    """Sentences and positions are swapped: each sentence is a row, and its positions run along the row."""
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
    """The new axis is in the wrong place. Lengths have to form a column, one row per sentence, and positions a row."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions < lengths[None, :]


@padding_mask.misconception
def as_long_as_the_longest(lengths, max_len):
    """Your mask is as wide as the longest sentence of this batch. It should be max_len wide, which can be more."""
    require_lengths(lengths, max_len)
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return positions < lengths[:, None]


@padding_mask.misconception
def padding_on_the_left(lengths, max_len):
    """You expect the padding in front. Here the real tokens come first, and the padding comes last."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions >= max_len - lengths[:, None]


@padding_mask.misconception
def one_length_for_all(lengths, max_len):
    """You give every row the length of the longest sentence. Each sentence has its own."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths.max()).expand(len(lengths), max_len)


@padding_mask.misconception
def everything_is_real(lengths, max_len):
    """You mark every place as real: the lengths are not used."""
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
    """You cut off the padding with a slice that starts at minus the number of padded places. Where there is no padding
    it starts at -0, and that is 0, the beginning.

    As it is, a sentence without padding is hidden completely."""
    mask = torch.ones(len(lengths), max_len, dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        mask[row, -(max_len - length) :] = False
    return mask


@padding_mask.misconception
def a_square_for_each_sentence(lengths, max_len):
    """You return a mask for pairs of positions, with an axis for the queries. Return one truth value per token: shape
    (batch, max_len)."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths[:, None])[:, None, :].expand(-1, max_len, -1)


@padding_mask.misconception
def has_an_axis_too_many(lengths, max_len):
    """Your mask has more axes than (batch, max_len). Further axes are added later, where they are needed.

    Its entries are right."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths[:, None])[:, None, :]


@padding_mask.misconception
def is_additive(lengths, max_len):
    """You return an additive mask (0 and -inf), to be added to the scores. Return a boolean one."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return torch.zeros(len(lengths), max_len).masked_fill(positions >= lengths[:, None], -math.inf)


@padding_mask.misconception
def nothing_is_real(lengths, max_len):
    """You mark no place as real: nothing in your mask is True."""
    require_lengths(lengths, max_len)
    return torch.zeros(len(lengths), max_len, dtype=torch.bool)


@padding_mask.misconception
def marks_the_place_after_the_end(lengths, max_len):
    """You mark one place in each row, the first one after the sentence. The real tokens are all those before it."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions == lengths[:, None]


@padding_mask.misconception
def padding_on_the_left_but_one(lengths, max_len):
    """You expect the padding in front, and take its last place for a real one. Here the real tokens come first, and the
    padding comes last."""
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)
    return positions >= max_len - lengths[:, None] - 1


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
