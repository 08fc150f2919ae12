"""The exercise `text_windows`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_tuple
from course_lib.exercises.decoding.shared import asked, expect_ids
from course_lib.exercises.language_model.shared import as_tensors

windows = Exercise(
    language_model.text_windows,
    cases=[
        {
            "ids": torch.tensor([7, 2, 9, 4, 4, 1, 8, 3, 6, 5]),
            "starts": torch.tensor([3, 0]),
            "length": 4,
        },
        {
            "ids": torch.tensor([5, 0, 3, 3, 8, 1, 2, 9, 6, 4, 7, 0, 5, 2, 8]),
            "starts": torch.tensor([2, 9, 4, 1, 9]),
            "length": 3,
        },
        {
            "ids": torch.tensor([12, 30, 11, 25, 40, 18, 33]),
            "starts": torch.tensor([1, 4, 0]),
            "length": 1,
        },
        {
            "ids": torch.tensor([3, 14, 15, 9, 26, 5, 35, 8, 97, 93, 23, 84]),
            "starts": torch.tensor([2]),
            "length": 8,
        },
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "Take one window first: its inputs are `length` tokens of the text, beginning at its start. Its targets are "
        "`length` tokens too. Where do they begin?",
        "ids[places] with a tensor of places takes all windows at once. places has shape (batch, length): each row "
        "counts on from its own start.",
        "starts[:, None] + torch.arange(length) is that tensor. The token after place p is at place p + 1.",
        "inputs = ids[places], targets = ids[places + 1].",
    ],
)


def cut(subject, ids, starts, length):
    """The student's inputs and targets."""
    answer = asked(subject, (ids, starts, length), as_tensors)
    inputs, targets = expect_tuple(as_tensors(answer), ("inputs", "targets"))
    shape = (len(starts), length)
    return expect_ids(inputs, shape, "the tensor of inputs"), expect_ids(targets, shape, "the tensor of targets")


def expect_rows(got, want, ids, starts, what):
    for row, (mine, right) in enumerate(zip(got.tolist(), want.tolist(), strict=True)):
        expect(
            mine == right,
            f"The text is {ids.tolist()}. For the window that begins at place {int(starts[row])} the {what} should be "
            f"{right}, but yours are {mine}.",
        )


@windows.property("inputs and targets are tensors of ids, both (batch, length)", points=1)
def windows_shape(subject, case):
    cut(subject, *case.values())


@windows.property("each row of the inputs is the text from its start on", points=2)
def windows_inputs(subject, case):
    inputs, _ = cut(subject, *case.values())
    expect_rows(inputs, language_model.text_windows(*case.values())[0], case["ids"], case["starts"], "inputs")


@windows.property("each target is the token after its input", points=2)
def windows_targets(subject, case):
    _, targets = cut(subject, *case.values())
    expect_rows(targets, language_model.text_windows(*case.values())[1], case["ids"], case["starts"], "targets")


@windows.property("a window may end where the text ends", points=1)
def windows_end(subject, case):
    ids, length = case["ids"], case["length"]
    last = len(ids) - length - 1
    starts = torch.tensor([last, 0, last])
    inputs, targets = cut(subject, ids, starts, length)
    want_inputs, want_targets = language_model.text_windows(ids, starts, length)
    expect_rows(inputs, want_inputs, ids, starts, "inputs")
    expect_rows(targets, want_targets, ids, starts, "targets")


@windows.misconception
def targets_are_the_inputs(ids, starts, length):
    """Your targets are the inputs themselves. The target of a place is the token after it.

    A model would only have to repeat what it reads."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[places]
    return inputs, targets


@windows.misconception
def shifted_the_wrong_way(ids, starts, length):
    """Your targets are one place before the inputs. The model is asked for the token that comes next, one place
    later.

    The target of every place but the first is a token that the model has just read."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[places - 1]
    return inputs, targets


@windows.misconception
def shifted_twice(ids, starts, length):
    """Your targets are two places after the inputs. They are one place ahead: the very next token."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[(places + 2) % len(ids)]
    return inputs, targets


@windows.misconception
def rolls_the_window(ids, starts, length):
    """The last target of each window is the window's own first token: you turn the window round in a circle. The last
    target is the token of the text after the window."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = inputs.roll(-1, dims=1)
    return inputs, targets


@windows.misconception
def repeats_the_last_target(ids, starts, length):
    """The last target of each window is the last input once more. It is the token of the text after the window."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = torch.cat([inputs[:, 1:], inputs[:, -1:]], dim=1)
    return inputs, targets


@windows.misconception
def rolls_the_batch(ids, starts, length):
    """The last target of each window is the first token of the next window in the batch: you turn the whole batch round
    in a circle (torch.roll without dims). The last target is the token of the text after the window."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = inputs.roll(-1)
    return inputs, targets


@windows.misconception
def pads_the_last_target(ids, starts, length):
    """The last target of each window is 0, as if there were nothing after the window. It is the token of the text that
    is there."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = torch.cat([inputs[:, 1:], torch.zeros_like(inputs[:, :1])], dim=1)
    return inputs, targets


@windows.misconception
def one_token_too_short(ids, starts, length):
    """Your windows have length - 1 tokens: you cut `length` tokens and lose one of them to the shift. Inputs and
    targets both have `length`, so a window takes length + 1 tokens of the text."""
    steps = torch.arange(length - 1, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[places + 1]
    return inputs, targets


@windows.misconception
def one_token_too_long(ids, starts, length):
    """Your windows have length + 1 tokens. That is what is needed of the text; inputs and targets have `length`
    each."""
    steps = torch.arange(length + 1, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[(places + 1) % len(ids)]
    return inputs, targets


@windows.misconception
def begins_one_place_late(ids, starts, length):
    """Your windows begin one place after their starts. Inputs begin at the start itself: places count from 0."""
    steps = torch.arange(1, length + 1, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[(places + 1) % len(ids)]
    return inputs, targets


@windows.misconception
def swaps_inputs_and_targets(ids, starts, length):
    """You return the targets first. The order is inputs, targets."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[places + 1]
    return targets, inputs


@windows.misconception
def time_first(ids, starts, length):
    """Your result is (length, batch). Each window is a row: (batch, length)."""
    steps = torch.arange(length, device=starts.device)
    places = starts[None, :] + steps[:, None]
    inputs = ids[places]
    targets = ids[places + 1]
    return inputs, targets


@windows.misconception
def starts_count_windows(ids, starts, length):
    """You multiply the starts by the length, as if they were numbers of windows. A start is a place in the text."""
    steps = torch.arange(length, device=starts.device)
    places = (starts[:, None] * length + steps[None, :]) % (len(ids) - 1)
    inputs = ids[places]
    targets = ids[places + 1]
    return inputs, targets


@windows.misconception
def ignores_the_starts(ids, starts, length):
    """Your windows begin at 0, length, 2 · length, …, whatever the starts are. Each window begins at its own start."""
    steps = torch.arange(length, device=starts.device)
    places = (torch.arange(len(starts))[:, None] * length + steps[None, :]) % (len(ids) - 1)
    inputs = ids[places]
    targets = ids[places + 1]
    return inputs, targets


@windows.misconception
def first_start_for_all(ids, starts, length):
    """Every window begins at the first start. Each has its own."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:1, None].expand(len(starts), 1) + steps[None, :]
    inputs = ids[places]
    targets = ids[places + 1]
    return inputs, targets


@windows.misconception
def returns_the_places(ids, starts, length):
    """You return the places in the text. The tokens at these places are wanted."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = places
    targets = places + 1
    return inputs, targets


@windows.misconception
def adds_one_to_the_token(ids, starts, length):
    """You add 1 to the tokens. It belongs to the places: the token one place further on is wanted, not the next id."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[places] + 1
    return inputs, targets


@windows.misconception
def one_target_a_window(ids, starts, length):
    """There is one target for each window, the token after its end. Every place has a target: (batch, length).

    A model learns from all places of a window at once."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[starts + length]
    return inputs, targets


@windows.misconception
def targets_behind_the_window(ids, starts, length):
    """Your targets are the window that follows. They are the same window moved on by one token."""
    steps = torch.arange(length, device=starts.device)
    places = starts[:, None] + steps[None, :]
    inputs = ids[places]
    targets = ids[(places + length) % len(ids)]
    return inputs, targets


@windows.alternative
def by_slices(ids, starts, length):
    inputs = torch.stack([ids[start : start + length] for start in starts.tolist()])
    targets = torch.stack([ids[start + 1 : start + 1 + length] for start in starts.tolist()])
    return inputs, targets


@windows.alternative
def one_cut_for_both(ids, starts, length):
    pieces = ids.unfold(0, length + 1, 1)[starts]
    return pieces[:, :-1], pieces[:, 1:]


@windows.alternative
def in_plain_lists(ids, starts, length):
    text = ids.tolist()
    inputs, targets = [], []
    for start in starts:
        inputs.append([text[start + t] for t in range(length)])
        targets.append([text[start + t + 1] for t in range(length)])
    return [torch.tensor(inputs), torch.tensor(targets, dtype=torch.int32)]


@windows.alternative
def stacked(ids, starts, length):
    places = starts.repeat(length, 1).T + torch.arange(length)
    return torch.stack([ids.take(places), ids.roll(-1).take(places)])
