"""The exercise `shift_right`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from course_lib import training
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_tensor
from course_lib.exercises.training.shared import (
    expect_ids,
)

shift_right = Exercise(
    training.shift_right,
    cases=[
        {"targets": torch.tensor([[5, 2]]), "bos_id": 1},
        {"targets": torch.tensor([[7, 4, 2, 0], [6, 2, 0, 0], [3, 9, 8, 2]]), "bos_id": 1},
        {"targets": torch.tensor([[4, 4, 6, 0, 3], [8, 0, 5, 3, 9]]), "bos_id": 7},
        {"targets": torch.tensor([[6], [8]]), "bos_id": 3},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Write the two rows below each other on paper. Targets: le, chat, dort, EOS. Before each of them the decoder "
        "has seen everything that comes before it. What has it seen last?",
        "In front of the first word there is nothing, so BOS stands in for it. And the last target is never given: "
        "nothing comes after it.",
        "You need a column (batch, 1) that is full of bos_id, and targets without the last column. torch.full_like "
        "keeps the dtype, torch.cat(…, dim=1) puts them side by side.",
        "first = torch.full_like(targets[:, :1], bos_id); return torch.cat([first, targets[:, :-1]], dim=1)",
    ],
)


@shift_right.property("the result has the shape of targets, and whole numbers in it", points=1)
def shifted_shape(subject, case):
    targets, bos_id = case.values()
    got = expect_tensor(subject(targets, bos_id), tuple(targets.shape), "what the decoder is given")
    expect_ids(got, got, "what the decoder is given")


@shift_right.property("position t holds target t - 1", points=2)
def shifted_values(subject, case):
    targets, bos_id = case.values()
    got, want = subject(targets, bos_id), training.shift_right(targets, bos_id)
    expect(
        torch.equal(got[:, 1:].long(), want[:, 1:]),
        f"From position 1 on the decoder should be given {want[:, 1:].tolist()}, but yours is {got[:, 1:].tolist()}.",
    )


@shift_right.property("every row begins with BOS", points=1)
def shifted_begins_with_bos(subject, case):
    targets, bos_id = case.values()
    got = subject(targets, bos_id)
    expect_ids(got[:, 0], torch.full((len(targets),), bos_id), "the first column")


@shift_right.property("padding and EOS are moved like any other token", points=1)
def shifted_is_blind_to_values(subject, case):
    """The same, with other ids everywhere: no id has a meaning here, not even 0, 1 or 2."""
    targets, bos_id = case.values()
    for offset in (1, 11):
        want = training.shift_right(targets + offset, bos_id + 3)
        what = f"what the decoder is given if {offset} is added to every target, and bos_id is {bos_id + 3},"
        expect_ids(subject(targets + offset, bos_id + 3), want, what)
    zeros = torch.zeros_like(targets)
    got = subject(zeros, bos_id)
    expect_ids(got, training.shift_right(zeros, bos_id), "what the decoder is given if every target is 0")


@shift_right.misconception
def is_not_shifted(targets, bos_id):
    """You give the decoder the targets themselves, unmoved.

    At position t it sees the very token it is asked for and learns to copy it: the loss falls to 0 and nothing is
    learned."""
    return targets


@shift_right.misconception
def overwrites_the_first_target(targets, bos_id):
    """You put BOS in the place of the first target and move nothing.

    From the second position on the decoder still sees the very token it is asked for."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets[:, 1:]], dim=1)


@shift_right.misconception
def keeps_the_last_target(targets, bos_id):
    """You put BOS in front and drop nothing. The last target is never given to the decoder: nothing comes after it.

    As it is, there is one position more than there are targets."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets], dim=1)


@shift_right.misconception
def drops_the_last_and_no_more(targets, bos_id):
    """You drop the last target and put nothing in front. The first position needs BOS.

    What stands at position 0 is still the token that is asked for there."""
    return targets[:, :-1]


@shift_right.misconception
def shifts_to_the_left(targets, bos_id):
    """You shift to the left. The decoder is given the past: shift to the right.

    Now it sees the token *after* the one it is asked for."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([targets[:, 1:], first], dim=1)


@shift_right.misconception
def bos_in_front_of_the_left_shift(targets, bos_id):
    """BOS is in front, but the first two targets are gone and the rest has not moved to the right."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets[:, 2:], targets[:, -1:]], dim=1)


@shift_right.misconception
def bos_at_the_end(targets, bos_id):
    """You put BOS after the targets. It stands for the beginning: the first position has seen nothing but BOS."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([targets[:, :-1], first], dim=1)


@shift_right.misconception
def shifts_the_batch(targets, bos_id):
    """You shift along the batch axis. Time is axis 1.

    As it is, every sentence is paired with the sentence before it."""
    first = torch.full_like(targets[:1], bos_id)
    return torch.cat([first, targets[:-1]], dim=0)


@shift_right.misconception
def shifts_twice(targets, bos_id):
    """You shift by two places instead of one.

    The nearest word of the past is missing at every position."""
    first = torch.full_like(targets[:, :2], bos_id)
    return torch.cat([first, targets[:, :-2]], dim=1)


@shift_right.misconception
def rolls_around(targets, bos_id):
    """You rolled the row: what falls out at the end comes back at the beginning. The first position has to hold BOS."""
    return targets.roll(1, dims=1)


@shift_right.misconception
def rolls_everything_around(targets, bos_id):
    """You roll without naming an axis, which flattens the batch. And the first position has to hold BOS.

    As it is, the end of one sentence becomes the beginning of the next."""
    return targets.roll(1)


@shift_right.misconception
def starts_with_zeros(targets, bos_id):
    """Your first column holds zeros. Zero may be the padding or a word; the beginning is marked by bos_id."""
    first = torch.zeros_like(targets[:, :1])
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def starts_with_one(targets, bos_id):
    """Your first column holds ones, whatever bos_id is. The caller says which id marks the beginning."""
    first = torch.full_like(targets[:, :1], 1)
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def starts_with_the_first_target(targets, bos_id):
    """You repeat the first target at the beginning. BOS belongs there.

    The decoder is given the first answer at the very position where it is asked for it."""
    first = targets[:, :1]
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def turns_around(targets, bos_id):
    """You reverse the targets. The decoder reads them in their order, one place later."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets.flip(1)[:, :-1]], dim=1)


@shift_right.misconception
def makes_floats(targets, bos_id):
    """Your result holds floating point numbers. Ids are whole numbers: a new tensor of ids needs a whole-number
    dtype."""
    first = torch.full((targets.shape[0], 1), float(bos_id))
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def writes_into_targets(targets, bos_id):
    """You write into targets itself. The loss still needs them as they were: make a new tensor."""
    targets[:, 1:] = targets[:, :-1].clone()
    targets[:, 0] = bos_id
    return targets


@shift_right.misconception
def writes_over_what_it_reads(targets, bos_id):
    """You copy from left to right inside one tensor.

    So the first token is written over the second before the second has been read, and every position after BOS holds
    the same token."""
    shifted = targets.clone()
    for t in range(1, targets.shape[1]):
        shifted[:, t] = shifted[:, t - 1]
    shifted[:, 0] = bos_id
    return shifted


@shift_right.misconception
def one_column_of_the_wrong_shape(targets, bos_id):
    """The BOS column has no time axis. It has to be (batch, 1) to be put beside the targets."""
    first = torch.full_like(targets[:, 0], bos_id)
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def one_bos_for_the_whole_batch(targets, bos_id):
    """There is one BOS for the whole batch. Every row needs its own: the column is (batch, 1)."""
    first = torch.full_like(targets[:1, :1], bos_id)
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def puts_bos_on_top(targets, bos_id):
    """You put BOS above the batch instead of in front of each row. The two parts are joined along time, axis 1."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets[:, :-1]], dim=0)


@shift_right.misconception
def fills_everything_with_bos(targets, bos_id):
    """Every position holds BOS. Only the first should; after it come the targets, one place later."""
    first = torch.full_like(targets[:, :1], bos_id)
    return first.expand(targets.shape).clone()


@shift_right.misconception
def rolls_the_batch(targets, bos_id):
    """You roll the batch, so the sentences change places and the tokens do not. Time is axis 1, and the first position
    has to hold BOS."""
    return targets.roll(1, dims=0)


@shift_right.misconception
def makes_the_first_sentence_bos(targets, bos_id):
    """You write BOS into the whole first sentence instead of the first position of every sentence."""
    return torch.cat([targets[:, -1:], targets[:, :-1]], dim=1).index_fill(0, torch.tensor(0), bos_id)


@shift_right.alternative
def by_padding(targets, bos_id):
    return F.pad(targets, (1, 0), value=bos_id)[:, :-1]


@shift_right.alternative
def by_rolling(targets, bos_id):
    shifted = targets.roll(1, dims=1)
    shifted[:, 0] = bos_id
    return shifted


@shift_right.alternative
def by_copying(targets, bos_id):
    shifted = torch.empty_like(targets)
    shifted[:, 0] = bos_id
    shifted[:, 1:] = targets[:, :-1]
    return shifted


@shift_right.alternative
def out_of_lists(targets, bos_id):
    return torch.tensor([[bos_id, *row[:-1]] for row in targets.tolist()])


@shift_right.alternative
def row_by_row_in_int32(targets, bos_id):
    rows = []
    for row in targets:
        rows.append(torch.cat([torch.tensor([bos_id]), row[:-1]]).to(torch.int32))
    return torch.stack(rows)
