"""Exercises on training: what must hold, and what people really write instead."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import training
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_tensor, is_close, name_of_type, sentence
from course_lib.checking.inputs import normal
from course_lib.checking.settings import TinyTraining
from course_lib.checking.subject import Subject

# --- shift_right ----------------------------------------------------------------------------------------

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
        "has seen everything that stands in front of it. What has it seen last?",
        "In front of the first word there is nothing, so BOS stands in for it. And the last target is never given: "
        "nothing comes after it.",
        "You need a column (batch, 1) that is full of bos_id, and targets without the last column. torch.full_like "
        "keeps the dtype, torch.cat(…, dim=1) puts them side by side.",
        "first = torch.full_like(targets[:, :1], bos_id); return torch.cat([first, targets[:, :-1]], dim=1)",
    ],
)


def expect_ids(got, want: Tensor, what: str) -> None:
    """`got` holds the whole numbers of `want`."""
    expect_tensor(got, what=what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contains NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold ids, whole numbers, but its dtype is {got.dtype}.")
    expect_close(got.double(), want.double(), what)


@shift_right.property("the result has the shape of targets, and whole numbers in it", points=1)
def shifted_shape(subject, case):
    targets, bos_id = case.values()
    got = expect_tensor(subject(targets, bos_id), tuple(targets.shape), "what the decoder is given")
    expect_ids(got, got, "what the decoder is given")


@shift_right.property("every row begins with BOS", points=1)
def shifted_begins_with_bos(subject, case):
    targets, bos_id = case.values()
    got = subject(targets, bos_id)
    expect_ids(got[:, 0], torch.full((len(targets),), bos_id), "the first column")


@shift_right.property("position t holds target t - 1", points=2)
def shifted_values(subject, case):
    targets, bos_id = case.values()
    expect_ids(subject(targets, bos_id), training.shift_right(targets, bos_id), "what the decoder is given")


@shift_right.property("padding and EOS are moved like any other token", points=1)
def shifted_is_blind_to_values(subject, case):
    """The same, with other ids everywhere: no id has a meaning here, not even 0, 1 or 2."""
    targets, bos_id = case.values()
    for offset in (1, 11):
        want = training.shift_right(targets + offset, bos_id + 3)
        expect_ids(subject(targets + offset, bos_id + 3), want, "what the decoder is given")
    zeros = torch.zeros_like(targets)
    expect_ids(subject(zeros, bos_id), training.shift_right(zeros, bos_id), "what the decoder is given, of zeros alone")


@shift_right.misconception
def is_not_shifted(targets, bos_id):
    """You give the decoder the targets themselves. At position t it then sees the very token it is asked for, and
    learns to copy it: the loss falls to 0 and nothing is learned."""
    return targets


@shift_right.misconception
def overwrites_the_first_target(targets, bos_id):
    """You put BOS in the place of the first target and move nothing. From the second position on the decoder still
    sees the very token it is asked for."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets[:, 1:]], dim=1)


@shift_right.misconception
def keeps_the_last_target(targets, bos_id):
    """You put BOS in front and drop nothing, so there is one position more than there are targets. The last target is
    never given to the decoder: nothing comes after it."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets], dim=1)


@shift_right.misconception
def drops_the_last_and_no_more(targets, bos_id):
    """You drop the last target and put nothing in front. What stands at position 0 is still the token that is asked
    for there; the first position needs BOS."""
    return targets[:, :-1]


@shift_right.misconception
def shifts_to_the_left(targets, bos_id):
    """You shift to the left: the decoder sees the token *after* the one it is asked for. It is given the past: shift to
    the right."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([targets[:, 1:], first], dim=1)


@shift_right.misconception
def bos_in_front_of_the_left_shift(targets, bos_id):
    """BOS is in front, but the first two targets are gone and the rest has not moved to the right."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets[:, 2:], targets[:, -1:]], dim=1)


@shift_right.misconception
def bos_at_the_end(targets, bos_id):
    """You put BOS behind the targets. It stands for the beginning: the first position has seen nothing but BOS."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([targets[:, :-1], first], dim=1)


@shift_right.misconception
def shifts_the_batch(targets, bos_id):
    """You shift along the batch axis, so every sentence is paired with another sentence. Time is axis 1."""
    first = torch.full_like(targets[:1], bos_id)
    return torch.cat([first, targets[:-1]], dim=0)


@shift_right.misconception
def shifts_twice(targets, bos_id):
    """You shift by two places: each position sees the token before the last one, and the nearest word of the past is
    missing."""
    first = torch.full_like(targets[:, :2], bos_id)
    return torch.cat([first, targets[:, :-2]], dim=1)


@shift_right.misconception
def rolls_around(targets, bos_id):
    """You rolled the row: what falls out at the end comes back at the beginning. The first position has to hold BOS."""
    return targets.roll(1, dims=1)


@shift_right.misconception
def rolls_everything_around(targets, bos_id):
    """roll without dims flattens the batch, so the end of one sentence becomes the beginning of the next. And the first
    position has to hold BOS."""
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
    """You repeat the first target at the beginning. Then the decoder is given the first answer at the position where it
    is asked for it; BOS belongs there."""
    first = targets[:, :1]
    return torch.cat([first, targets[:, :-1]], dim=1)


@shift_right.misconception
def turns_around(targets, bos_id):
    """You reverse the targets. The decoder reads them in their order, one place later."""
    first = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([first, targets.flip(1)[:, :-1]], dim=1)


@shift_right.misconception
def makes_floats(targets, bos_id):
    """Your result holds floating point numbers: torch.full and torch.ones make them unless a dtype is given. Ids are
    whole numbers."""
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
    """You copy from left to right inside one tensor, so the first token is written over the second before the second
    has been read: every position holds the same token."""
    shifted = targets.clone()
    for t in range(1, targets.shape[1]):
        shifted[:, t] = shifted[:, t - 1]
    shifted[:, 0] = bos_id
    return shifted


@shift_right.misconception
def one_column_of_the_wrong_shape(targets, bos_id):
    """The BOS column has no time axis, so it cannot be put beside the targets: it has to be (batch, 1)."""
    first = torch.full_like(targets[:, 0], bos_id)
    return torch.cat([first, targets[:, :-1]], dim=1)


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


# --- sequence_loss --------------------------------------------------------------------------------------

LOSS_CASES = [
    {"logits": normal(1, 2, 3, seed=1), "targets": torch.tensor([[2, 1]]), "pad_id": 1},
    {"logits": normal(2, 4, 5, seed=2, scale=2), "targets": torch.tensor([[3, 0, 4, 2], [1, 2, 2, 2]]), "pad_id": 2},
    {
        "logits": normal(3, 5, 7, seed=3, scale=2),
        "targets": torch.tensor([[4, 1, 6, 2, 0], [5, 0, 0, 0, 0], [3, 3, 2, 0, 0]]),
        "pad_id": 0,
    },
]

sequence_loss = Exercise(
    training.sequence_loss,
    cases=LOSS_CASES,
    minutes=15,
    difficulty=2,
    hints=[
        "Three things in turn: log-probabilities along the last axis, the one that belongs to each target, and the "
        "mean over those targets that are not padding.",
        "logits.log_softmax(dim=-1) gives the log-probabilities without underflow. gather(dim=-1, index=…) picks one "
        "number in each row; its index needs as many axes as the tensor: targets.unsqueeze(-1).",
        "Not by zeroing the padding and taking the mean over everything: then more padding makes the loss smaller. "
        "losses[targets != pad_id] holds the real ones alone.",
        "With torch's own function: F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id). It "
        "wants one axis for all positions.",
    ],
)

LARGE = 1000.0


def one_number(got, what: str) -> Tensor:
    """`got` is a tensor with one number in it."""
    got = expect_tensor(got, what=what)
    return got.reshape(()) if got.numel() == 1 else expect_tensor(got, (), what)


def without_padding(targets: Tensor, pad_id: int, vocab: int) -> Tensor:
    """The same targets with a real token wherever there was padding."""
    return targets.masked_fill(targets == pad_id, (pad_id + 1) % vocab)


def real_rows(logits: Tensor, targets: Tensor, pad_id: int) -> str:
    real = int((targets != pad_id).sum())
    return f"({real} of {targets.numel()} targets are real)"


@sequence_loss.property("the loss is one number, a tensor", points=1)
def loss_is_a_number(subject, case):
    logits, targets, pad_id = case.values()
    one_number(subject(logits, targets, pad_id), "the loss")


@sequence_loss.property("without padding it is the mean of -log p(target)", points=2)
def loss_without_padding(subject, case):
    logits, targets, pad_id = case.values()
    targets = without_padding(targets, pad_id, logits.shape[-1])
    want = training.sequence_loss(logits, targets, pad_id)
    got = one_number(subject(logits, targets, pad_id), "the loss")
    expect_close(got, want, "the loss of targets among which there is no padding")


@sequence_loss.property("padding does not count, neither above nor below the fraction line", points=2)
def loss_with_padding(subject, case):
    logits, targets, pad_id = case.values()
    want = training.sequence_loss(logits, targets, pad_id)
    what = f"the loss {real_rows(logits, targets, pad_id)}"
    expect_close(one_number(subject(logits, targets, pad_id), what), want, what)


@sequence_loss.property("its gradient is (p - y) / n at the n real targets, and 0 at padding", points=1)
def loss_gradient(subject, case):
    logits, targets, pad_id = case.values()
    slope = subject.gradient(logits, targets, pad_id, wrt=0, at=(...,))
    expect(slope.any(), "No gradient reaches the logits: somewhere the numbers leave torch's graph.")
    want = Subject(training.sequence_loss).gradient(logits, targets, pad_id, wrt=0)
    expect_close(slope, want, "the gradient of the loss with respect to the logits")


@sequence_loss.property("logits of ±1000 do no harm", points=1)
def loss_of_large_logits(subject, case):
    logits, targets, pad_id = case.values()
    large = LARGE * logits.sign() + logits
    want = training.sequence_loss(large, targets, pad_id)
    got = one_number(subject(large, targets, pad_id), "the loss")
    expect_close(got, want, "the loss of logits of about ±1000")


@sequence_loss.misconception
def counts_padding(logits, targets, pad_id):
    """Padding is counted like a word: the model is trained to say PAD, and most of the gradient goes there. Only real
    targets count."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    return losses.mean()


@sequence_loss.misconception
def mean_over_padding_too(logits, targets, pad_id):
    """You set the losses of padding to 0 but still divide by all positions: the more padding, the smaller the loss.
    Divide by the number of real targets."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return (losses * real).mean()


@sequence_loss.misconception
def sums_over_targets(logits, targets, pad_id):
    """This is the sum over the real targets, which grows with the batch. The mean is asked for."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].sum()


@sequence_loss.misconception
def divides_by_the_batch(logits, targets, pad_id):
    """You divide the sum by the number of sentences. Then long sentences count for more, and the loss depends on their
    length: divide by the number of real targets."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].sum() / len(targets)


@sequence_loss.misconception
def mean_of_sentence_means(logits, targets, pad_id):
    """You take the mean of each sentence first and then the mean of the sentences: a word in a short sentence counts
    for more than one in a long sentence. Every real target counts the same."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@sequence_loss.misconception
def counts_only_padding(logits, targets, pad_id):
    """Your mask is inverted: you keep the padding and leave the words out."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets == pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_zero_for_padding(logits, targets, pad_id):
    """You take the id 0 for padding, whatever pad_id says. The caller says which id it is; 0 may be a word."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != 0
    return losses[real].mean()


@sequence_loss.misconception
def drops_targets_whose_best_guess_is_padding(logits, targets, pad_id):
    """You leave out the positions where the model *says* padding. It is the target that decides what is real."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = logits.argmax(dim=-1) != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def has_no_minus(logits, targets, pad_id):
    """The sign is missing: log p is negative, and training would make the right word *less* likely. A loss is
    -log p."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_logits_for_log_probabilities(logits, targets, pad_id):
    """There is no softmax: you take the logits for log-probabilities. They are not normalised, so the model could lower
    this loss for ever by making all logits larger."""
    log_probabilities = logits
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_probabilities(logits, targets, pad_id):
    """There is no logarithm: this is the mean of -p, which lies between -1 and 0. Where the model is confident and
    wrong its gradient vanishes; that of -log p does not."""
    log_probabilities = logits.softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_softmax_twice(logits, targets, pad_id):
    """There are two softmaxes. torch's cross-entropy (and log_softmax) wants the logits as they are and does the
    softmax itself."""
    log_probabilities = logits.softmax(dim=-1).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def softmax_over_time(logits, targets, pad_id):
    """Your softmax runs over the positions of the sentence. Each position is a choice between words of its own: the
    words are the last axis."""
    log_probabilities = logits.log_softmax(dim=1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def softmax_over_the_batch(logits, targets, pad_id):
    """Your softmax runs over the batch, so sentences compete with each other. The words are the last axis."""
    log_probabilities = logits.log_softmax(dim=0)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def counts_in_bits(logits, targets, pad_id):
    """This is the loss in bits: the logarithm to the base 2. Nats are asked for, the natural logarithm."""
    log_probabilities = logits.log_softmax(dim=-1) / math.log(2)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_decimal_logarithms(logits, targets, pad_id):
    """This is the logarithm to the base 10. The natural one is asked for."""
    log_probabilities = logits.log_softmax(dim=-1) / math.log(10)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def returns_the_perplexity(logits, targets, pad_id):
    """This is the perplexity, e to the power of the loss. The loss itself is asked for."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean().exp()


@sequence_loss.misconception
def shifts_again(logits, targets, pad_id):
    """You shift the targets once more. The decoder's input was shifted already, so that logits[:, t] is about
    targets[:, t]: like this the model is trained to predict two words ahead."""
    logits = logits[:, :-1]
    targets = targets[:, 1:]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def shifts_the_other_way(logits, targets, pad_id):
    """You compare the logits of one position with the target of the position before. logits[:, t] is about
    targets[:, t]."""
    logits = logits[:, 1:]
    targets = targets[:, :-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def leaves_the_last_position_out(logits, targets, pad_id):
    """You leave the last position out. Its target counts as well: often it is EOS, and a model that never learns EOS
    never stops."""
    logits = logits[:, :-1]
    targets = targets[:, :-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def returns_one_loss_a_target(logits, targets, pad_id):
    """You return one loss for each target. One number is asked for, their mean: backward() needs one."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real]


@sequence_loss.misconception
def returns_a_python_number(logits, targets, pad_id):
    """You return a plain Python number. It has no graph behind it, so nothing can be learned from it: return the
    tensor."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean().item()


@sequence_loss.misconception
def detaches_the_loss(logits, targets, pad_id):
    """The number is right, but no gradient comes back through it: it was cut out of torch's graph (by detach, item, or
    a new tensor made of plain numbers)."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean().detach()


@sequence_loss.misconception
def averages_over_the_vocabulary(logits, targets, pad_id):
    """You divide by the size of the vocabulary as well. Each target has one loss, not one for each word: KLDivLoss with
    reduction="mean" does this too."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean() / logits.shape[-1]


@sequence_loss.misconception
def blames_every_word(logits, targets, pad_id):
    """You take the mean of -log p over the whole vocabulary and never look at the targets. Only the target's own
    log-probability counts."""
    log_probabilities = logits.log_softmax(dim=-1)
    losses = -log_probabilities.mean(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def mixes_up_positions(logits, targets, pad_id):
    """Logits and targets are flattened in different orders, so that most targets meet the logits of another position.
    Flatten both as they are; a view cannot exchange two axes."""
    log_probabilities = logits.transpose(0, 1).reshape(logits.shape).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def turns_classes_into_axis_1_by_view(logits, targets, pad_id):
    """torch's cross-entropy wants the words on axis 1, and you got them there with view or reshape: that keeps the
    order of the numbers and mixes words with positions. transpose(1, 2) exchanges axes, or flatten both."""
    batch, time, vocab = logits.shape
    return F.cross_entropy(logits.reshape(batch, vocab, time), targets, ignore_index=pad_id)


@sequence_loss.misconception
def leaves_classes_on_the_last_axis(logits, targets, pad_id):
    """torch's cross-entropy looks for the words on axis 1, and yours are on the last axis. Flatten positions:
    (batch · time, vocab) and (batch · time)."""
    return F.cross_entropy(logits, targets, ignore_index=pad_id)


@sequence_loss.misconception
def misspells_ignore_index(logits, targets, pad_id):
    """There is no argument of this name: torch calls it ignore_index."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_idx=pad_id)


@sequence_loss.misconception
def removes_the_padding_column(logits, targets, pad_id):
    """You forbid the model the *word* PAD in its softmax. That changes the loss of every real target. It is the
    positions whose target is PAD that must not count."""
    logits = logits.index_fill(-1, torch.tensor(pad_id), float("-inf"))
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def zeroes_the_logits_of_padding(logits, targets, pad_id):
    """You set the logits of padding to 0. Equal logits still have a loss, ln V, and it is counted: leave these
    positions out of the mean."""
    real = targets != pad_id
    logits = logits * real.unsqueeze(-1)
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    return losses.mean()


@sequence_loss.misconception
def squares_the_difference(logits, targets, pad_id):
    """This is a squared error between probabilities and one-hot targets. The cross-entropy is -log of the target's
    probability."""
    probabilities = logits.softmax(dim=-1)
    chosen = F.one_hot(targets, logits.shape[-1])
    losses = ((probabilities - chosen) ** 2).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def subtracts_distributions(logits, targets, pad_id):
    """You subtract one distribution from the other. Both add up to 1, so the differences add up to 0 whatever the model
    says. Compare by -log p of the target."""
    probabilities = logits.softmax(dim=-1)
    chosen = F.one_hot(targets, logits.shape[-1])
    losses = (probabilities - chosen).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def adds_a_little_before_the_logarithm(logits, targets, pad_id):
    """You add a small number before the logarithm. Then no loss can be larger than its logarithm, and where the model
    is very wrong the gradient disappears. log_softmax needs no such help."""
    log_probabilities = torch.log(logits.softmax(dim=-1) + 1e-9)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


# Last, so that in a pair the coarser mistake is told first.
@sequence_loss.misconception
def logarithm_of_a_softmax(logits, targets, pad_id):
    """You take the softmax first and its logarithm afterwards. Where a probability is too small to be stored it becomes
    0, and the loss infinite. log_softmax does both in one and loses nothing."""
    log_probabilities = logits.softmax(dim=-1).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.alternative
def with_torch(logits, targets, pad_id):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id)


@sequence_loss.alternative
def with_classes_on_axis_1(logits, targets, pad_id):
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id)


@sequence_loss.alternative
def on_log_probabilities(logits, targets, pad_id):
    log_probabilities = F.log_softmax(logits, dim=-1)
    loss = nn.CrossEntropyLoss(ignore_index=pad_id)  # a second log_softmax changes nothing
    return loss(log_probabilities.reshape(-1, logits.size(-1)), targets.reshape(-1))


@sequence_loss.alternative
def in_loops(logits, targets, pad_id):
    total, count = 0.0, 0
    for row, row_targets in zip(logits, targets):
        for scores, target in zip(row, row_targets.tolist()):
            if target != pad_id:
                total = total + torch.logsumexp(scores, 0) - scores[target]
                count += 1
    return total / count


@sequence_loss.alternative
def with_one_hot_targets(logits, targets, pad_id):
    wanted = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    wanted = wanted * (targets != pad_id).unsqueeze(-1)
    return -torch.einsum("btv,btv->", wanted, logits.log_softmax(-1)) / wanted.sum()


@sequence_loss.alternative
def with_class_weights_in_single_precision(logits, targets, pad_id):
    weight = torch.ones(logits.shape[-1])
    weight[pad_id] = 0
    return F.nll_loss(logits.float().log_softmax(-1).flatten(0, 1), targets.flatten(), weight=weight)


# --- smoothed_loss --------------------------------------------------------------------------------------

smoothed_loss = Exercise(
    training.smoothed_loss,
    cases=[{**case, "epsilon": epsilon} for case, epsilon in zip(LOSS_CASES, (0.3, 0.1, 0.2))],
    minutes=12,
    difficulty=2,
    hints=[
        "Start from your sequence_loss. One thing is new: beside -log p of the target there is a second term that "
        "looks at all words alike.",
        "The soft target is (1 - ε) times the one-hot target plus ε times the uniform distribution, so its "
        "cross-entropy is (1 - ε) times one cross-entropy plus ε times the other.",
        "The cross-entropy with the uniform distribution is the mean of -log p over the vocabulary: "
        "-log_probabilities.mean(dim=-1).",
        "losses = -(1 - epsilon) * chosen - epsilon * log_probabilities.mean(dim=-1), then the mean over real targets.",
    ],
)


@smoothed_loss.property("the loss is one number, a tensor", points=1)
def smoothed_is_a_number(subject, case):
    one_number(subject(*case.values()), "the loss")


@smoothed_loss.property("with ε = 0 it is the cross-entropy over the real targets", points=1)
def smoothed_by_nothing(subject, case):
    logits, targets, pad_id, _ = case.values()
    want = training.sequence_loss(logits, targets, pad_id)
    what = f"the loss with epsilon = 0 {real_rows(logits, targets, pad_id)}"
    expect_close(one_number(subject(logits, targets, pad_id, 0.0), what), want, what)


@smoothed_loss.property("the soft targets add up to 1: equal logits cost ln V, whatever ε", points=1)
def smoothed_mass_is_one(subject, case):
    logits, targets, pad_id, epsilon = case.values()
    equal = torch.zeros_like(logits)
    want = torch.tensor(math.log(logits.shape[-1]), dtype=logits.dtype)
    for e in (epsilon, 0.5):
        what = f"the loss of equal logits (vocabulary {logits.shape[-1]}, epsilon = {e})"
        expect_close(one_number(subject(equal, targets, pad_id, e), what), want, what)


@smoothed_loss.property("it is (1 - ε) · (-log p of the target) + ε · the mean of all -log p", points=2)
def smoothed_values(subject, case):
    logits, targets, pad_id, epsilon = case.values()
    for e in (epsilon, 1.0):
        want = training.smoothed_loss(logits, targets, pad_id, e)
        what = f"the loss with epsilon = {e} {real_rows(logits, targets, pad_id)}"
        expect_close(one_number(subject(logits, targets, pad_id, e), what), want, what)


@smoothed_loss.property("its gradient is (p - q) / n, with the soft target q, and 0 at padding", points=1)
def smoothed_gradient(subject, case):
    slope = subject.gradient(*case.values(), wrt=0, at=(...,))
    expect(slope.any(), "No gradient reaches the logits: somewhere the numbers leave torch's graph.")
    want = Subject(training.smoothed_loss).gradient(*case.values(), wrt=0)
    expect_close(slope, want, "the gradient of the loss with respect to the logits")


@smoothed_loss.property("logits of ±1000 do no harm", points=1)
def smoothed_of_large_logits(subject, case):
    logits, targets, pad_id, epsilon = case.values()
    large = LARGE * logits.sign() + logits
    want = training.smoothed_loss(large, targets, pad_id, epsilon)
    got = one_number(subject(large, targets, pad_id, epsilon), "the loss")
    expect_close(got, want, "the loss of logits of about ±1000")


@smoothed_loss.misconception
def smooths_the_wrong_classes_only(logits, targets, pad_id, epsilon):
    """You spread ε over the V - 1 wrong words. Here it is spread over all V, the right one included, as in torch's
    label_smoothing."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.sum(dim=-1) - chosen) / (vocab - 1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_neither_target_nor_padding(logits, targets, pad_id, epsilon):
    """You spread ε over V - 2 words, without the right one and without PAD. Here it is spread over all V."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.sum(dim=-1) - chosen - log_probabilities[..., pad_id]) / (vocab - 2)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_without_padding(logits, targets, pad_id, epsilon):
    """You spread ε over all words but PAD. Here it is spread over all V, PAD too; it is the *positions* whose target is
    PAD that do not count."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.sum(dim=-1) - log_probabilities[..., pad_id]) / (vocab - 1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def exchanges_the_shares(logits, targets, pad_id, epsilon):
    """The two shares have changed places: the target gets ε and all words together 1 - ε. The target keeps the larger
    part, 1 - ε."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -epsilon * chosen - (1 - epsilon) * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def gives_every_word_epsilon(logits, targets, pad_id, epsilon):
    """Every word gets ε, so the soft targets add up to more than 1. All words together get ε: each of them ε / V."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.sum(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def takes_nothing_from_the_target(logits, targets, pad_id, epsilon):
    """The target keeps its full 1 and the other words get ε on top, so the soft targets add up to 1 + ε. What is given
    to all words has to be taken from the target."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def loses_the_share_of_the_others(logits, targets, pad_id, epsilon):
    """You take ε away from the target and give it to nobody. That only makes the loss smaller; the other words have to
    get it."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    losses = -(1 - epsilon) * chosen
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def does_not_smooth(logits, targets, pad_id, epsilon):
    """Nothing is smoothed: epsilon plays no part in your result."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    losses = -chosen
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def always_smooths_by_a_tenth(logits, targets, pad_id, epsilon):
    """You always smooth by 0.1. The caller says in epsilon how much."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - 0.1) * chosen - 0.1 * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def adds_instead_of_subtracting(logits, targets, pad_id, epsilon):
    """The second term has the wrong sign: it rewards the model for making all words unlikely. Both terms are
    -log p."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen + epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def loss_has_no_minus(logits, targets, pad_id, epsilon):
    """The sign is missing: logarithms of probabilities are negative. A loss is -log p."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = (1 - epsilon) * chosen + epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def averages_the_logits(logits, targets, pad_id, epsilon):
    """Your second term takes the mean of the logits. It has to be the mean of the log-probabilities."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = logits.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_the_prediction(logits, targets, pad_id, epsilon):
    """You smooth what the model says, (1 - ε) p + ε / V, and take its logarithm. It is the target that is smoothed: the
    mix is of two losses, not of two probabilities."""
    vocab = logits.shape[-1]
    log_probabilities = ((1 - epsilon) * logits.softmax(dim=-1) + epsilon / vocab).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    losses = -chosen
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_with_entropy(logits, targets, pad_id, epsilon):
    """Your second term is the entropy of the prediction, the mean of -log p weighted by p. All words count the same
    here: a plain mean."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.exp() * log_probabilities).sum(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def subtracts_the_entropy(logits, targets, pad_id, epsilon):
    """This is the KL divergence: the cross-entropy less the entropy of the soft targets. The gradient is the same, the
    number is not: the cross-entropy is asked for."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    soft = (1 - epsilon) * F.one_hot(targets, vocab) + epsilon / vocab
    losses = (torch.xlogy(soft, soft) - soft * log_probabilities).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def divides_by_the_vocabulary_too(logits, targets, pad_id, epsilon):
    """You divide by the size of the vocabulary once too often (KLDivLoss with reduction="mean" does this): the loss is
    V times too small."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    soft = (1 - epsilon) * F.one_hot(targets, vocab) + epsilon / vocab
    losses = -(soft * log_probabilities).mean(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def mixes_probabilities(logits, targets, pad_id, epsilon):
    """There is no logarithm: the terms are made of probabilities. -log p is needed in both of them."""
    log_probabilities = logits.softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def mixes_logits(logits, targets, pad_id, epsilon):
    """There is no softmax: you take the logits for log-probabilities."""
    log_probabilities = logits
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_over_time(logits, targets, pad_id, epsilon):
    """You take the mean of the log-probabilities over the positions of the sentence. The mean runs over the words, the
    last axis."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_padding_too(logits, targets, pad_id, epsilon):
    """Padding is counted like a word. Only real targets count."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    return losses.mean()


@smoothed_loss.misconception
def smooths_all_positions(logits, targets, pad_id, epsilon):
    """The first term leaves padding out, but the second is averaged over all positions, padding included. Both are
    about the real targets alone."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    real = targets != pad_id
    return -(1 - epsilon) * chosen[real].mean() - epsilon * average.mean()


@smoothed_loss.misconception
def divides_by_all_positions(logits, targets, pad_id, epsilon):
    """You set the losses of padding to 0 but still divide by all positions: the more padding, the smaller the loss.
    Divide by the number of real targets."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return (losses * real).mean()


@smoothed_loss.misconception
def adds_up_all_targets(logits, targets, pad_id, epsilon):
    """This is the sum over the real targets, which grows with the batch. The mean is asked for."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].sum()


@smoothed_loss.misconception
def smooths_zero_as_padding(logits, targets, pad_id, epsilon):
    """You take the id 0 for padding, whatever pad_id says. The caller says which id it is; 0 may be a word."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != 0
    return losses[real].mean()


@smoothed_loss.misconception
def one_smoothed_loss_a_target(logits, targets, pad_id, epsilon):
    """You return one loss for each target. One number is asked for, their mean."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real]


@smoothed_loss.misconception
def cuts_the_graph(logits, targets, pad_id, epsilon):
    """The number is right, but no gradient comes back through it: it was cut out of torch's graph."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean().detach()


@smoothed_loss.misconception
def logarithm_after_the_softmax(logits, targets, pad_id, epsilon):
    """You take the softmax first and its logarithm afterwards. Where a probability is too small to be stored it becomes
    0, and the loss infinite; smoothing looks at all words, the most unlikely too. log_softmax does both in one."""
    log_probabilities = logits.softmax(dim=-1).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.alternative
def with_label_smoothing(logits, targets, pad_id, epsilon):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, label_smoothing=epsilon)


@smoothed_loss.alternative
def with_soft_targets(logits, targets, pad_id, epsilon):
    vocab = logits.shape[-1]
    soft = torch.full_like(logits, epsilon / vocab)
    soft.scatter_(-1, targets[..., None], 1 - epsilon + epsilon / vocab)
    real = targets != pad_id
    return F.cross_entropy(logits[real], soft[real])


@smoothed_loss.alternative
def target_by_target(logits, targets, pad_id, epsilon):
    losses = []
    for scores, target in zip(logits.flatten(0, 1), targets.flatten()):
        if target != pad_id:
            total = scores.logsumexp(0)
            losses.append((1 - epsilon) * (total - scores[target]) + epsilon * (total - scores.mean()))
    return torch.stack(losses).mean()


@smoothed_loss.alternative
def as_kl_plus_entropy(logits, targets, pad_id, epsilon):
    vocab = logits.shape[-1]
    real = targets != pad_id
    soft = (1 - epsilon) * F.one_hot(targets[real], vocab) + epsilon / vocab
    divergence = F.kl_div(logits[real].log_softmax(-1), soft.to(logits.dtype), reduction="batchmean")
    return divergence - torch.xlogy(soft, soft).sum(-1).mean()


@smoothed_loss.alternative
def two_losses_with_a_mask(logits, targets, pad_id, epsilon):
    real = (targets != pad_id).float()
    logs = logits.log_softmax(-1)
    hard = -(logs * F.one_hot(targets, logits.size(-1))).sum(-1)
    smooth = -logs.sum(-1) / logits.size(-1)
    return (((1 - epsilon) * hard + epsilon * smooth) * real).sum() / real.sum()


# --- warmup_rate ----------------------------------------------------------------------------------------

warmup_rate = Exercise(
    training.warmup_rate,
    cases=[
        {"step": 2, "d_model": 4, "warmup": 5},
        {"step": 9, "d_model": 25, "warmup": 3},
        {"step": 6, "d_model": 9, "warmup": 6},
        {"step": 4000, "d_model": 512, "warmup": 4000},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Draw it: a straight line from the origin, and a curve that falls like one over the root of the step. Which of "
        "the two is smaller before they meet, and which after?",
        "Two numbers, step · warmup^(-1.5) and step^(-0.5). They are equal at step = warmup. The smaller one counts.",
        "Python's power is **, and -1.5 is the exponent: warmup**-1.5.",
        "return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)",
    ],
)


def expect_number(got, what: str) -> float:
    """`got` is a finite number, or a tensor with one."""
    if got is None:
        raise Failure(f"{sentence(what)} is None. Does every path through your code end in a `return`?")
    if isinstance(got, Tensor) and got.numel() == 1:
        got = got.item()
    if isinstance(got, bool) or not isinstance(got, int | float):
        raise Failure(f"{sentence(what)} should be a number, but it is {name_of_type(got)}.")
    expect(math.isfinite(got), f"{sentence(what)} is {got}.")
    return float(got)


def expect_rate(got, want: float, what: str) -> None:
    """`got` is `want` up to rounding, however small the rates are."""
    number = expect_number(got, what)
    if not is_close(torch.tensor(number), torch.tensor(want), rtol=1e-4, atol=0.0):
        raise Failure(
            f"{sentence(what)} should be {want:.6g}, but it is {number:.6g} ({number / want:.4g} times as much)."
        )


@warmup_rate.property("the rate is a positive number", points=1)
def rate_is_positive(subject, case):
    got = expect_number(subject(*case.values()), "the rate")
    expect(got > 0, f"The rate is {got:g}. A learning rate is positive, also at the first step.")


@warmup_rate.property("during the warm-up it rises in a straight line from 0", points=1)
def rate_rises(subject, case):
    _, d_model, warmup = case.values()
    first = expect_number(subject(1, d_model, warmup), "the rate at step 1")
    for step in (2, warmup - 1, warmup):
        what = f"the rate at step {step} of a warm-up of {warmup} steps ({step} times that of step 1)"
        expect_rate(subject(step, d_model, warmup), step * first, what)


@warmup_rate.property("after the warm-up it falls with the root of the step", points=1)
def rate_falls(subject, case):
    _, d_model, warmup = case.values()
    top = expect_number(subject(warmup, d_model, warmup), "the rate at the end of the warm-up")
    for factor in (4, 9):
        what = f"the rate at step {factor} · {warmup} ({factor**0.5:g} times smaller than at the end of the warm-up)"
        expect_rate(subject(factor * warmup, d_model, warmup), top / factor**0.5, what)


@warmup_rate.property("its top is 1 / √(d_model · warmup), at step = warmup", points=1)
def rate_at_the_top(subject, case):
    _, d_model, warmup = case.values()
    what = f"the rate at step {warmup} with d_model = {d_model}, warmup = {warmup}"
    expect_rate(subject(warmup, d_model, warmup), (d_model * warmup) ** -0.5, what)


@warmup_rate.property("it is d_model^-½ · min(step^-½, step · warmup^-1½) at every step", points=1)
def rate_values(subject, case):
    step, d_model, warmup = case.values()
    steps = (step, step + 1, 2 * warmup, 100_000)
    for at, got in [(at, subject(at, d_model, warmup)) for at in steps]:
        want = training.warmup_rate(at, d_model, warmup)
        expect_rate(got, want, f"the rate at step {at} with d_model = {d_model}, warmup = {warmup}")


@warmup_rate.misconception
def takes_the_larger(step, d_model, warmup):
    """Your rate is huge at the beginning, falls until the end of the warm-up and rises for ever after it: you take the
    larger of the two parts where the smaller one counts."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * max(rising, falling)


@warmup_rate.misconception
def rises_with_the_root(step, d_model, warmup):
    """Your second part is the root of the step, which rises. It has to fall: the exponent is -0.5."""
    rising = step * warmup**-1.5
    falling = step**0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_with_the_step(step, d_model, warmup):
    """Your rate falls with the step itself, 1 / step. It falls with the root of the step, which is slower, and only so
    do the two parts meet at step = warmup."""
    rising = step * warmup**-1.5
    falling = step**-1.0
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def warms_up_with_the_root_of_warmup(step, d_model, warmup):
    """You wrote warmup^(-0.5) in the rising part. It meets the falling part at step = warmup only with the exponent
    -1.5; like this there is hardly any warm-up."""
    rising = step * warmup**-0.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def warms_up_by_the_share(step, d_model, warmup):
    """Your rising part is step / warmup, which reaches 1 at the end of the warm-up. It has to reach warmup^(-0.5), so
    that it meets the falling part there."""
    rising = step / warmup
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_relative_to_the_top(step, d_model, warmup):
    """Your curve has the right form but its top is d_model^(-0.5), whatever the warm-up. A longer warm-up has a lower
    top: 1 / √(d_model · warmup)."""
    rising = step / warmup
    falling = (warmup / step) ** 0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def forgets_d_model(step, d_model, warmup):
    """d_model plays no part in your rate. Wider models get smaller steps: there is a factor d_model^(-0.5)."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return min(rising, falling)


@warmup_rate.misconception
def multiplies_by_the_root_of_d_model(step, d_model, warmup):
    """You multiply by the root of d_model. Wider models get smaller steps: the exponent is -0.5."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**0.5 * min(rising, falling)


@warmup_rate.misconception
def divides_by_d_model(step, d_model, warmup):
    """You divide by d_model itself. The exponent is -0.5, its root."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-1.0 * min(rising, falling)


@warmup_rate.misconception
def gives_d_model_the_exponent_of_warmup(step, d_model, warmup):
    """The exponent -1.5 belongs to warmup. That of d_model is -0.5."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-1.5 * min(rising, falling)


@warmup_rate.misconception
def scales_only_the_falling_part(step, d_model, warmup):
    """The factor with d_model stands before one of the two parts only. It belongs before the whole minimum: mind the
    brackets."""
    rising = step * warmup**-1.5
    falling = d_model**-0.5 * step**-0.5
    return min(rising, falling)


@warmup_rate.misconception
def scales_only_the_rising_part(step, d_model, warmup):
    """The factor with d_model stands before one of the two parts only. It belongs before the whole minimum: mind the
    brackets."""
    rising = d_model**-0.5 * step * warmup**-1.5
    falling = step**-0.5
    return min(rising, falling)


@warmup_rate.misconception
def counts_steps_from_zero(step, d_model, warmup):
    """You add 1 to the step. Steps are counted from 1 here, as in the paper: the first call has step = 1."""
    step = step + 1
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def one_step_behind(step, d_model, warmup):
    """You are one step behind, so the first two steps have the same rate. Steps are counted from 1: use step as it
    is."""
    step = max(step - 1, 1)
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def only_falls(step, d_model, warmup):
    """There is no warm-up: your rate is largest at the first step. The rising part is missing, or it is so steep that
    it is never the smaller one: step is *multiplied* by warmup to the power -1.5."""
    falling = step**-0.5
    return d_model**-0.5 * falling


@warmup_rate.misconception
def only_rises(step, d_model, warmup):
    """Your rate never stops rising. After the warm-up it falls with the root of the step."""
    rising = step * warmup**-1.5
    return d_model**-0.5 * rising


@warmup_rate.misconception
def stays_at_the_top(step, d_model, warmup):
    """After the warm-up your rate stays where it is. It falls with the root of the step."""
    rising = step * warmup**-1.5
    falling = warmup**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def falls_in_a_straight_line(step, d_model, warmup):
    """After the warm-up your rate falls in a straight line and reaches 0. It falls with the root of the step, and never
    reaches 0."""
    rising = step * warmup**-1.5
    falling = warmup**-0.5 * max(0.0, 2 - step / warmup)
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def swaps_step_and_warmup(step, d_model, warmup):
    """Step and warmup have changed places. The straight line is a multiple of step, and warmup says how steep it is."""
    rising = warmup * step**-1.5
    falling = warmup**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def multiplies_by_a_usual_rate(step, d_model, warmup):
    """You multiply by a usual learning rate on top. The formula is the whole rate, not a factor for another one: like
    this nothing is learned."""
    rising = step * warmup**-1.5
    falling = step**-0.5
    return 1e-3 * d_model**-0.5 * min(rising, falling)


@warmup_rate.misconception
def drops_the_fraction(step, d_model, warmup):
    """You divide whole numbers and drop the fraction (//): during the whole warm-up the rate is 0."""
    rising = step // warmup * warmup**-0.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


@warmup_rate.alternative
def with_two_branches(step, d_model, warmup):
    top = 1 / math.sqrt(d_model * warmup)
    if step < warmup:
        return top * step / warmup
    return top * math.sqrt(warmup / step)


@warmup_rate.alternative
def in_tensors(step, d_model, warmup):
    step = torch.tensor(float(step))
    return torch.minimum(step.rsqrt(), step / warmup**1.5) / d_model**0.5


@warmup_rate.alternative
def in_numpy(step, d_model, warmup):
    return np.float64(d_model) ** -0.5 * np.min([step**-0.5, step * warmup**-1.5])


@warmup_rate.alternative
def by_logarithms(step, d_model, warmup):
    return math.exp(-0.5 * math.log(d_model) + min(-0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup)))


# --- train_step -----------------------------------------------------------------------------------------

train_step = Exercise(
    training.train_step,
    cases=[
        {
            "setting": TinyTraining.random(vocab=5, d_model=2, seed=40, learning_rate=0.5),
            "source": torch.tensor([[3, 4]]),
            "targets": torch.tensor([[4, 2, 0]]),
            "bos_id": 1,
            "pad_id": 0,
            "max_norm": 0.2,
        },
        {
            "setting": TinyTraining.random(vocab=9, d_model=4, seed=50, learning_rate=0.25),
            "source": torch.tensor([[6, 5, 7, 4], [4, 8, 2, 3], [7, 7, 2, 3]]),
            "targets": torch.tensor([[8, 0, 7, 5, 2], [5, 2, 3, 3, 3], [4, 6, 2, 3, 3]]),
            "bos_id": 1,
            "pad_id": 3,
            "max_norm": 0.1,
        },
    ],
    minutes=15,
    difficulty=2,
    hints=[
        "Seven small things in a row: training mode, forget the old gradients, logits, loss, backward, clip, step. For "
        "the second and the last there is the optimizer, for the clipping torch.nn.utils.clip_grad_norm_.",
        "The decoder is given the true targets, one place to the right: reference.shift_right(targets, bos_id). The "
        "loss compares the logits with targets as they are: reference.sequence_loss(logits, targets, pad_id).",
        "Clipping works on gradients. So they have to be there (after backward) and not used yet (before step).",
        "model.train(); optimizer.zero_grad(); logits = model(source, …); loss = …; loss.backward(); "
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm); optimizer.step(); return loss.item()",
    ],
)

HUGE = 1e6  # no gradient is as long


def stepped(subject, case, max_norm: float, left_over: float | None = None):
    """The loss that was returned, and what is left of the model, after one step."""
    setting, source, targets, bos_id, pad_id, _ = case.values()
    setting = dataclasses.replace(setting, left_over=left_over)
    return subject.effect(setting, source, targets, bos_id, pad_id, max_norm)


def expect_parameters(got: dict, want: dict, what: str) -> None:
    for name, value in want.items():
        expect_close(got[name], value, f"{what} (parameter {name!r})")


def expect_same_step(subject, case, max_norm: float, left_over: float | None, what: str) -> None:
    _, seen = stepped(subject, case, max_norm, left_over)
    _, wanted = stepped(Subject(training.train_step), case, max_norm, left_over)
    untouched = all(is_close(seen["parameters"][name], value) for name, value in case["setting"].weights.items())
    expect(
        not untouched,
        "The parameters are what they were before: the optimizer never made a step, or its gradients were 0.",
    )
    expect_parameters(seen["parameters"], wanted["parameters"], what)


@train_step.property("it returns the loss of the batch before the step", points=1)
def step_returns_the_loss(subject, case):
    got, _ = stepped(subject, case, HUGE)
    want, _ = stepped(Subject(training.train_step), case, HUGE)
    number = expect_number(got, "the returned loss")
    expect(
        is_close(torch.tensor(number), torch.tensor(want)),
        f"The returned loss should be {want:.5g}, but it is {number:.5g}.",
    )


@train_step.property("teacher forcing: in training mode the model is given the true targets, shifted", points=1)
def step_forces_the_targets(subject, case):
    _, source, targets, bos_id, _, _ = case.values()
    _, seen = stepped(subject, case, HUGE)
    expect(seen["calls"], "The model was never called.")
    call = seen["calls"][0]
    expect_ids(call["source"], source, "the source ids that the model was called with")
    expect_ids(call["given"], training.shift_right(targets, bos_id), "what the decoder was given")
    expect(call["training"], "The model was in evaluation mode during the step: dropout would be switched off.")


@train_step.property("with a huge max_norm it is one plain step down the gradient", points=2)
def step_follows_the_gradient(subject, case):
    expect_same_step(subject, case, HUGE, None, "after one step with a huge max_norm")


@train_step.property("what stood in .grad before does not count", points=1)
def step_forgets_old_gradients(subject, case):
    expect_same_step(subject, case, HUGE, 3.0, "after one step of a model whose .grad was full of 3s before")


@train_step.property("longer gradients are shortened to max_norm, all parameters together", points=2)
def step_clips(subject, case):
    max_norm = case["max_norm"]
    expect_same_step(subject, case, max_norm, None, f"after one step with max_norm = {max_norm}")


@train_step.misconception
def gives_the_targets_unshifted(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You give the decoder the targets unshifted: at each position it sees the token that it is asked for, and learns
    nothing but to copy it."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, targets)
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def compares_with_the_shifted_targets(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """Your loss compares the logits with the *shifted* targets, that is with what the decoder was given: it is trained
    to repeat its input. The shifted ones go in, the targets are what should come out."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, training.shift_right(targets, bos_id), pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def gives_its_own_guesses(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You give the decoder its own guesses. Teacher forcing gives it the true targets, whatever it would have said
    itself."""
    model.train()
    optimizer.zero_grad()
    guesses = model(source, training.shift_right(targets, bos_id)).argmax(dim=-1)
    logits = model(source, training.shift_right(guesses, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def generates_word_by_word(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You let the decoder write the sentence by itself, word by word, as after training. Teacher forcing gives it the
    true targets, all at once."""
    model.train()
    optimizer.zero_grad()
    given = training.shift_right(targets, bos_id)[:, :1]
    for _ in range(targets.shape[1] - 1):
        given = torch.cat([given, model(source, given)[:, -1:].argmax(dim=-1)], dim=1)
    logits = model(source, given)
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def exchanges_source_and_targets(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The two arguments of the model have changed places: the source comes first, then what the decoder is given."""
    model.train()
    optimizer.zero_grad()
    logits = model(training.shift_right(targets, bos_id), source)
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def begins_with_padding(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The decoder's input begins with PAD. It begins with BOS."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, pad_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def counts_the_padding(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """Your loss counts padding, and so the model is trained to say PAD. Only real targets count."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def forgets_training_mode(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The model is in evaluation mode, so there is no dropout during training. A step of training begins with
    model.train()."""
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def keeps_old_gradients(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """backward() *adds* to what stands in .grad, and nobody cleared it before: old gradients count again. Clear them
    before backward; if you do so only after the step, what stood there before the first call still counts."""
    model.train()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def zeroes_before_the_step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You clear the gradients between backward and step, so the optimizer finds none and nothing changes. Clear them
    before backward."""
    model.train()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


@train_step.misconception
def makes_no_step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The gradients are there, but nobody uses them: the step of the optimizer is missing (without its brackets, step
    is only looked at)."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item()


@train_step.misconception
def steps_twice(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You make two steps with the same gradients. One batch, one step."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.step()
    return loss.item()


@train_step.misconception
def does_not_clip(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The gradients are used as they are, however long. Clip them between backward and step: before backward there is
    nothing to clip yet, and after the step it is too late."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    optimizer.step()
    return loss.item()


@train_step.misconception
def clips_every_number(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You cut every single number of the gradient off at max_norm. That bends its direction. Its length is meant: all
    numbers are multiplied by the same factor."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def clips_each_parameter_alone(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You shorten the gradient of each parameter by itself. That bends the direction of the whole. The length of all
    gradients together is meant, and one factor for all of them."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    for parameter in model.parameters():
        nn.utils.clip_grad_norm_(parameter, max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def normalises_always(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You bring every gradient to the length max_norm, short ones too. Only longer ones are shortened; short ones stay
    as they are."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    length = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if length < max_norm:
        for parameter in model.parameters():
            parameter.grad *= max_norm / length
    optimizer.step()
    return loss.item()


@train_step.misconception
def clips_by_the_largest_number(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You measure the gradient by its largest number. Its length is meant: the root of the sum of all squares."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm, float("inf"))
    optimizer.step()
    return loss.item()


@train_step.misconception
def clips_the_parameters(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You clip the parameters themselves. It is the gradient that must not be too long; the model keeps its
    numbers."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.clamp_(-max_norm, max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def clips_the_loss(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You limit the loss. A loss above the limit then has no gradient at all, and nothing is learned from it. It is the
    gradient that is shortened."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.clamp(max=max_norm).backward()
    optimizer.step()
    return loss.item()


@train_step.misconception
def climbs(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You go up the gradient: the loss becomes larger. The optimizer subtracts by itself; backward is called on the
    loss, without a minus."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    (-loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def returns_the_loss_after_the_step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You compute the loss again after the step. The loss before the step is asked for; it is there already, and a
    second forward pass costs time."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    logits = model(source, training.shift_right(targets, bos_id))
    return training.sequence_loss(logits, targets, pad_id).item()


@train_step.misconception
def returns_the_length_of_the_gradient(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You return what clip_grad_norm_ returned: the length of the gradient. The loss is asked for."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    length = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return length.item()


@train_step.misconception
def steps_without_backward(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """There is no backward(): the optimizer finds no gradients, and nothing changes."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    optimizer.step()
    return loss.item()


@train_step.alternative
def with_gradients_by_hand(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train(True)
    given = F.pad(targets[:, :-1], (1, 0), value=bos_id)
    loss = F.cross_entropy(model(source, given).transpose(1, 2), targets, ignore_index=pad_id)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    length = torch.sqrt(sum((g**2).sum() for g in gradients))
    factor = min(1.0, max_norm / length.item())
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = factor * gradient
    optimizer.step()
    return loss


@train_step.alternative
def zeroing_twice(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.zero_grad(set_to_none=False)
    model.train()
    loss = training.sequence_loss(
        logits=model(source, training.shift_right(targets, bos_id)), targets=targets, pad_id=pad_id
    )
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], max_norm, norm_type=2.0)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


@train_step.alternative
def zeroing_just_before_backward(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train()
    given = torch.cat([torch.full((len(targets), 1), bos_id), targets], dim=1)[:, :-1]
    logits = model(src_ids=source, tgt_ids=given)
    real = targets != pad_id
    loss = F.cross_entropy(logits[real], targets[real])
    optimizer.zero_grad()
    loss.backward()
    squares = [p.grad.pow(2).sum() for p in model.parameters()]
    length = torch.stack(squares).sum().sqrt()
    if length > max_norm:
        for p in model.parameters():
            p.grad.mul_(max_norm / length)
    optimizer.step()
    return loss.detach()


@train_step.alternative
def with_a_closure(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    def closure():
        model.train()
        optimizer.zero_grad()
        loss = training.sequence_loss(model(source, training.shift_right(targets, bos_id)), targets, pad_id)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        return loss

    return optimizer.step(closure).item()


# --- accumulate_gradients -------------------------------------------------------------------------------

accumulate_gradients = Exercise(
    training.accumulate_gradients,
    cases=[
        {
            "setting": TinyTraining.random(vocab=5, d_model=2, seed=60),
            "batches": [
                (torch.tensor([[3, 4]]), torch.tensor([[4, 3, 2]])),
                (torch.tensor([[4]]), torch.tensor([[2, 0]])),
            ],
            "bos_id": 1,
            "pad_id": 0,
        },
        {
            "setting": TinyTraining.random(vocab=8, d_model=3, seed=70),
            "batches": [
                (torch.tensor([[6, 5, 7, 4], [4, 2, 3, 3]]), torch.tensor([[7, 0, 7, 5, 2], [5, 4, 2, 3, 3]])),
                (torch.tensor([[7, 2], [5, 2], [4, 2]]), torch.tensor([[2, 3], [6, 2], [2, 3]])),
                (torch.tensor([[4, 6, 2]]), torch.tensor([[0, 6, 4, 2]])),
            ],
            "bos_id": 1,
            "pad_id": 3,
        },
    ],
    minutes=15,
    difficulty=3,
    hints=[
        "One large batch would take the mean over all its real targets. What is the share of one small batch in that "
        "mean? Not 1 / (number of batches): think of a batch of 3 targets beside one of 1.",
        "Count the real targets of all batches first. A batch's mean loss times (its real targets / all real targets) "
        "is its part of the large mean.",
        "backward() adds to .grad by itself. So clear the gradients once, before the loop, and call backward in the "
        "loop: it also frees the memory of that batch.",
        "total = sum of (targets != pad_id).sum(); in the loop: loss = reference.sequence_loss(…) * n / total; "
        "loss.backward(); mean_loss += loss.item()",
    ],
)


def accumulated(subject, case, batches=None, left_over: float | None = None):
    """The loss that was returned, and the gradients that stand in the model afterwards."""
    setting, own, bos_id, pad_id = case.values()
    setting = dataclasses.replace(setting, left_over=left_over)
    return subject.effect(setting, own if batches is None else batches, bos_id, pad_id)


def expect_same_gradients(subject, case, batches, left_over: float | None, what: str) -> None:
    _, seen = accumulated(subject, case, batches, left_over)
    _, wanted = accumulated(Subject(training.accumulate_gradients), case, batches, left_over)
    expect_parameters(seen["parameters"], wanted["parameters"], "the model itself, which should stay as it is")
    zero = not any(value.any() for value in seen["gradients"].values())
    expect(not zero, "No gradient is left in .grad: it is None or 0 everywhere.")
    expect_parameters(seen["gradients"], wanted["gradients"], f"the gradient {what}")


@accumulate_gradients.property("it returns a number, and runs each batch by itself, shifted", points=1)
def accumulation_runs_every_batch(subject, case):
    got, seen = accumulated(subject, case)
    expect_number(got, "the returned loss")
    given = [call["given"] for call in seen["calls"]]
    wanted = [training.shift_right(targets, case["bos_id"]) for _, targets in case["batches"]]
    expect(
        len(given) == len(wanted),
        f"There are {len(wanted)} batches, but the model was called {len(given)} times. Each batch is run once.",
    )
    for i, (one, other) in enumerate(zip(given, wanted)):
        expect_ids(one, other, f"what the decoder was given for batch {i}")


@accumulate_gradients.property("the same batch three times leaves the gradient of that batch once", points=2)
def accumulation_is_a_mean(subject, case):
    batches = [case["batches"][0]] * 3
    expect_same_gradients(subject, case, batches, None, "of three times the same batch (that of one large batch)")


@accumulate_gradients.property("every real target counts the same, whichever batch it is in", points=2)
def accumulation_weighs_targets(subject, case):
    counts = [int((targets != case["pad_id"]).sum()) for _, targets in case["batches"]]
    what = f"of batches with {', '.join(map(str, counts))} real targets"
    expect_same_gradients(subject, case, None, None, what)


@accumulate_gradients.property("it returns the mean loss over all real targets", points=1)
def accumulation_returns_the_mean(subject, case):
    got, _ = accumulated(subject, case)
    want, _ = accumulated(Subject(training.accumulate_gradients), case)
    number = expect_number(got, "the returned loss")
    expect(
        is_close(torch.tensor(number), torch.tensor(want)),
        f"The returned loss should be {want:.5g}, but it is {number:.5g}.",
    )


@accumulate_gradients.property("what stood in .grad before does not count", points=1)
def accumulation_starts_at_zero(subject, case):
    expect_same_gradients(subject, case, None, 3.0, "of a model whose .grad was full of 3s before")


@accumulate_gradients.property("the memory of one batch is freed before the next one is run", points=1)
def accumulation_frees_memory(subject, case):
    _, seen = accumulated(subject, case)
    waiting = max(call["open graphs"] for call in seen["calls"])
    expect(
        waiting == 0,
        f"When the last batch was run, {waiting} earlier ones still waited for their backward(): all of them are in "
        "memory at once, as with one large batch.",
    )


@accumulate_gradients.misconception
def adds_up_means(model, batches, bos_id, pad_id):
    """You add up the gradients of mean losses. With n batches the result is n times that of one large batch: it acts
    like a learning rate n times larger. Each batch has to be weighted by its share."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id)
        loss.backward()
        mean_loss += loss.item() * share
    return mean_loss


@accumulate_gradients.misconception
def adds_up_means_of_both(model, batches, bos_id, pad_id):
    """You add up the mean losses and their gradients. With n batches both are n times those of one large batch. Each
    batch has to be weighted by its share."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        loss = training.sequence_loss(logits, targets, pad_id)
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def adds_up_means_and_divides_the_loss(model, batches, bos_id, pad_id):
    """You divide the loss that you return, but not the one on which you call backward: the gradient is n times too
    large. Weight the loss before backward."""
    model.zero_grad()
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        loss = training.sequence_loss(logits, targets, pad_id)
        loss.backward()
        mean_loss += loss.item() / len(batches)
    return mean_loss


@accumulate_gradients.misconception
def divides_by_the_number_of_batches(model, batches, bos_id, pad_id):
    """You give every batch the same weight, 1 / n. That is right only if all have equally many real targets: a word in
    a short batch counts for more than one in a long batch."""
    model.zero_grad()
    total = len(batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = 1 / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def weighs_by_sentences(model, batches, bos_id, pad_id):
    """You weight a batch by its number of sentences. The mean is over targets: a batch weighs as much as it has real
    targets."""
    model.zero_grad()
    total = sum(len(targets) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = len(targets) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def weighs_by_positions(model, batches, bos_id, pad_id):
    """You weight a batch by all its positions, padding included. A batch weighs as much as it has *real* targets."""
    model.zero_grad()
    total = sum(targets.numel() for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = targets.numel() / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def adds_up_sums(model, batches, bos_id, pad_id):
    """You take the sum over the targets and never divide. The gradient then grows with the number of targets; that of
    the mean is asked for."""
    model.zero_grad()
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum())
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def divides_twice(model, batches, bos_id, pad_id):
    """You divide twice: by the number of targets and by the number of batches. The shares of all batches have to add up
    to 1."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total / len(batches)
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def divides_by_the_running_total(model, batches, bos_id, pad_id):
    """You divide by the targets counted so far, so the first batch weighs too much. All of them have to be counted
    before the first backward."""
    model.zero_grad()
    total = 0
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        total += int((targets != pad_id).sum())
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def clears_in_the_loop(model, batches, bos_id, pad_id):
    """You clear the gradients before every batch, so only the last one is left. Clear them once, before the loop."""
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        model.zero_grad()
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def clears_at_the_end(model, batches, bos_id, pad_id):
    """You clear the gradients at the end, so nothing is left in .grad for the optimizer. Clear them before the first
    batch."""
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    model.zero_grad()
    return mean_loss


@accumulate_gradients.misconception
def never_clears(model, batches, bos_id, pad_id):
    """You never clear the gradients: what stood in .grad before is counted again. Clear them once, before the loop."""
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def one_backward_at_the_end(model, batches, bos_id, pad_id):
    """You add up the losses and call backward once at the end. The gradient is right, but all batches are in memory
    together: that is what accumulation is to avoid. Call backward for each batch; it adds to .grad."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        mean_loss += loss
    mean_loss.backward()
    return mean_loss.item()


@accumulate_gradients.misconception
def backward_on_the_running_sum(model, batches, bos_id, pad_id):
    """You call backward on the running sum of the losses: the second call goes through the first batch's graph again,
    which is freed already. Call it on the loss of the batch alone; .grad keeps the sum."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        mean_loss += loss
        mean_loss.backward()
    return mean_loss.item()


@accumulate_gradients.misconception
def backward_of_the_last_batch(model, batches, bos_id, pad_id):
    """backward stands behind the loop: only the last batch has a gradient. Call it for every batch."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        mean_loss += loss.item()
    loss.backward()
    return mean_loss


@accumulate_gradients.misconception
def returns_in_the_loop(model, batches, bos_id, pad_id):
    """The return stands inside of the loop: only the first batch is run."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
        return mean_loss


@accumulate_gradients.misconception
def makes_steps_of_its_own(model, batches, bos_id, pad_id):
    """You change the parameters after each batch. Then the next batch meets another model, and this is ordinary
    training in small batches. Leave the gradients in .grad; the optimizer makes one step, later."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        optimizer.step()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def accumulates_without_the_shift(model, batches, bos_id, pad_id):
    """You give the decoder the targets unshifted: at each position it sees the token that it is asked for."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, targets)
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def returns_the_last_loss(model, batches, bos_id, pad_id):
    """The gradient is right, but you return the loss of the last batch alone. The mean over all real targets is asked
    for: add up the weighted losses."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id)
        (loss * share).backward()
        mean_loss = loss.item()
    return mean_loss


@accumulate_gradients.misconception
def returns_the_last_weighted_loss(model, batches, bos_id, pad_id):
    """The gradient is right, but you return the weighted loss of the last batch alone. Add up those of all batches: +=
    instead of =."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss = loss.item()
    return mean_loss


@accumulate_gradients.misconception
def returns_the_mean_of_means(model, batches, bos_id, pad_id):
    """The gradient is right, but the loss that you return is the mean of the batches' means. Weight it like the
    gradient: every real target counts the same."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id)
        (loss * share).backward()
        mean_loss += loss.item() / len(batches)
    return mean_loss


@accumulate_gradients.misconception
def returns_the_sum_of_means(model, batches, bos_id, pad_id):
    """The gradient is right, but the loss that you return is the sum of the batches' means. Weight it like the
    gradient: every real target counts the same."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id)
        (loss * share).backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.alternative
def with_sums(model, batches, bos_id, pad_id):
    model.zero_grad()
    total = sum((targets != pad_id).sum() for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        given = F.pad(targets[:, :-1], (1, 0), value=bos_id)
        logits = model(source, given).transpose(1, 2)
        loss = F.cross_entropy(logits, targets, ignore_index=pad_id, reduction="sum") / total
        loss.backward()
        mean_loss = mean_loss + loss.detach()
    return mean_loss


@accumulate_gradients.alternative
def dividing_the_gradients_at_the_end(model, batches, bos_id, pad_id):
    for parameter in model.parameters():
        parameter.grad = None
    losses, count = 0.0, 0
    for source, targets in batches:
        real = targets != pad_id
        logits = model(source, training.shift_right(targets, bos_id))
        loss = F.cross_entropy(logits[real], targets[real], reduction="sum")
        loss.backward()
        losses += loss.item()
        count += real.sum().item()
    for parameter in model.parameters():
        parameter.grad /= count
    return losses / count


@accumulate_gradients.alternative
def with_gradients_kept_by_hand(model, batches, bos_id, pad_id):
    parameters = list(model.parameters())
    sums = [torch.zeros_like(p) for p in parameters]
    weights = [(targets != pad_id).sum().item() for _, targets in batches]
    losses = []
    for (source, targets), weight in zip(batches, weights):
        loss = training.sequence_loss(model(source, training.shift_right(targets, bos_id)), targets, pad_id)
        for kept, new in zip(sums, torch.autograd.grad(loss, parameters)):
            kept += new * weight
        losses.append(loss.item() * weight)
    for parameter, kept in zip(parameters, sums):
        parameter.grad = kept / sum(weights)
    return sum(losses) / sum(weights)


@accumulate_gradients.alternative
def in_training_mode_with_a_running_mean(model, batches, bos_id, pad_id):
    model.train()
    model.zero_grad(set_to_none=False)
    seen, mean_loss = 0, 0.0
    for source, targets in batches:
        count = int(targets.ne(pad_id).sum())
        seen += count
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= (seen - count) / seen
        loss = training.sequence_loss(model(source, training.shift_right(targets, bos_id)), targets, pad_id)
        (loss * count / seen).backward()
        mean_loss += (loss.item() - mean_loss) * count / seen
    return mean_loss
