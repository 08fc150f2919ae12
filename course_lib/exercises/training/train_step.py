"""The exercise `train_step`: what must hold, and what people really write instead."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import training
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, is_close
from course_lib.checking.settings import TinyTraining
from course_lib.checking.subject import Subject
from course_lib.exercises.training.shared import (
    expect_ids,
    expect_no_graph,
    expect_number,
    expect_parameters,
)

train_step = Exercise(
    training.train_step,
    cases=[
        {
            "model": TinyTraining.random(vocab=5, d_model=2, seed=40, learning_rate=0.5),
            "source": torch.tensor([[3, 4]]),
            "targets": torch.tensor([[4, 2, 0]]),
            "bos_id": 1,
            "pad_id": 0,
            "max_norm": 0.2,
        },
        {
            "model": TinyTraining.random(vocab=9, d_model=4, seed=50, learning_rate=0.25),
            "source": torch.tensor([[6, 5, 7, 4], [4, 8, 2, 3], [7, 7, 2, 3]]),
            "targets": torch.tensor([[8, 0, 7, 5, 2], [5, 2, 3, 3, 3], [4, 6, 2, 3, 3]]),
            "bos_id": 1,
            "pad_id": 3,
            "max_norm": 0.1,
        },
    ],
    minutes=15,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Seven small things in a row: training mode, forget the old gradients, logits, loss, backward, clip, step. For "
        "the second and the last there is the optimizer, for the clipping torch.nn.utils.clip_grad_norm_.",
        "The decoder is given the true targets, one place to the right: own_shift(targets, bos_id). The loss "
        "compares the logits with targets as they are: own_loss(logits, targets, pad_id).",
        "Clipping works on gradients. So they have to be there (after backward) and not used yet (before step).",
        "model.train(); optimizer.zero_grad(); logits = model(source, …); loss = …; loss.backward(); "
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm); optimizer.step(); return loss.item()",
    ],
)

HUGE = 1e6  # no gradient is that long


def stepped(subject, case, max_norm: float, left_over: float | None = None):
    """The loss that was returned, whether it has a graph, and the state of the model after one step."""
    setting, source, targets, bos_id, pad_id, _ = case.values()
    setting = dataclasses.replace(setting, left_over=left_over)
    (loss, has_graph), seen = subject.effect(setting, source, targets, bos_id, pad_id, max_norm)
    return loss, has_graph, seen


KEPT: dict = {}  # a diagnosis asks for the right answer a hundred times


def rightly_stepped(case, max_norm: float, left_over: float | None = None):
    """The same of the reference."""
    key = (*case.values(), max_norm, left_over)  # tensors and settings are told apart as objects
    if key not in KEPT:
        KEPT[key] = stepped(Subject(training.train_step), case, max_norm, left_over)
    return KEPT[key]


def expect_same_step(subject, case, max_norm: float, left_over: float | None, what: str) -> None:
    *_, seen = stepped(subject, case, max_norm, left_over)
    *_, wanted = rightly_stepped(case, max_norm, left_over)
    untouched = all(is_close(seen["parameters"][name], value) for name, value in case["model"].weights.items())
    expect(
        not untouched,
        "The parameters are what they were before: the optimizer never made a step, or its gradients were 0.",
    )
    expect_parameters(seen["parameters"], wanted["parameters"], "the parameter", what)


@train_step.property("it returns the loss of the batch before the step", points=1)
def step_returns_the_loss(subject, case):
    got, *_ = stepped(subject, case, HUGE)
    want, *_ = rightly_stepped(case, HUGE)
    number = expect_number(got, "the returned loss")
    expect(
        is_close(torch.tensor(number), torch.tensor(want)),
        f"The returned loss should be {want:.5g}, but it is {number:.5g}.",
    )


@train_step.property("teacher forcing: in training mode the model is given the true targets, shifted", points=0)
def step_forces_the_targets(subject, case):
    _, source, targets, bos_id, _, _ = case.values()
    *_, seen = stepped(subject, case, HUGE)
    expect(seen["calls"], "The model was never called.")
    call = seen["calls"][0]
    expect_ids(call["source"], source, "the source ids that the model was called with")
    given = call["given"]
    if given.dim() == 2:
        given = given[:, : targets.shape[1]]  # what is given beyond that is hidden by the causal mask
    expect_ids(given, training.shift_right(targets, bos_id), "what the decoder was given")
    expect(call["training"], "The model was in evaluation mode during the step: dropout would be switched off.")


@train_step.property("with a huge max_norm it is one plain step down the gradient", points=2)
def step_follows_the_gradient(subject, case):
    expect_same_step(subject, case, HUGE, None, "after one step with a huge max_norm")


@train_step.property("what was in .grad before does not count", points=1)
def step_forgets_old_gradients(subject, case):
    expect_same_step(subject, case, HUGE, 3.0, "after one step of a model whose .grad was full of 3s before")


@train_step.property("longer gradients are shortened to max_norm, all parameters together", points=2)
def step_clips(subject, case):
    max_norm = case["max_norm"]
    expect_same_step(subject, case, max_norm, None, f"after one step with max_norm = {max_norm}")


@train_step.property("what it returns is a plain number: the memory of the batch is free again", points=1)
def step_keeps_no_graph(subject, case):
    _, has_graph, _ = stepped(subject, case, HUGE)
    expect_no_graph(has_graph)


@train_step.misconception
def gives_the_targets_unshifted(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You give the decoder the targets unshifted.

    At each position it sees the token that it is asked for, and learns nothing but to copy it."""
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
    """Your loss compares the logits with the *shifted* targets, that is with what the decoder was given. The shifted
    ones go in, the targets are what should come out.

    The model is trained to repeat its input."""
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
    """The two arguments of the model are swapped: the source comes first, then what the decoder is given."""
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
    """Your loss counts padding. Only real targets count.

    The model is trained to say PAD."""
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
    """The model is in evaluation mode during the step. A step of training begins with training mode.

    As it is, there is no dropout."""
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def keeps_old_gradients(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The old gradients are not cleared before backward(), which *adds* to what is in .grad. If you clear them only
    after the step, what was there before the first call still counts."""
    model.train()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def zeroes_before_the_step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You clear the gradients between backward and step. Clear them before backward.

    The optimizer finds none, and nothing changes."""
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
    """The gradients are there, but nothing uses them: the step of the optimizer is missing (without its brackets, step
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
    """You clip every single number of the gradient at max_norm. It is its length that counts: all numbers are
    multiplied by the same factor.

    Clipping numbers one by one changes the gradient's direction."""
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
    """You shorten the gradient of each parameter by itself. It is the length of all gradients together that
    counts, with one factor for all of them.

    That changes the direction of the whole gradient."""
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
    """You measure the gradient by its largest number. Measure its length: the root of the sum of all squares."""
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
    """You limit the loss. It is the gradient that is shortened.

    A loss above the limit has no gradient at all, and nothing is learned from it."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.clamp(max=max_norm).backward()
    optimizer.step()
    return loss.item()


@train_step.misconception
def climbs(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You go up the gradient. The optimizer subtracts by itself; backward is called on the loss, without a minus.

    The loss becomes larger."""
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
    """You compute the loss again after the step. Return the loss before the step, which you already have.

    A second forward pass costs time."""
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
def measures_again_after_the_step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You compute the loss again after the step. Return the loss before the step, which you already have.

    A second forward pass costs time."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    with torch.no_grad():
        logits = model(source, training.shift_right(targets, bos_id))
    return training.sequence_loss(logits, targets, pad_id).item()


@train_step.misconception
def returns_the_length_of_the_gradient(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You return what clip_grad_norm_ returned: the length of the gradient. Return the loss."""
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
    """There is no backward().

    The optimizer finds no gradients, and nothing changes."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    optimizer.step()
    return loss.item()


@train_step.misconception
def takes_the_targets_to_begin_with_bos(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You treat the targets as if BOS stood at their beginning: all but the last go in, all but the first should come
    out. But they begin with the first word.

    The first word is never predicted, and the model is never given BOS."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, targets[:, :-1])
    loss = training.sequence_loss(logits, targets[:, 1:], pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def sums_the_loss(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """Your loss is a sum over the targets. It should be the mean.

    The gradient grows with the size of the batch."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id) * (targets != pad_id).sum()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def runs_without_gradients(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """The loss has no graph behind it (no_grad, detach, item or a new tensor cut it off). Call backward on the loss as
    it comes out of the model."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id)).detach()
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def shifts_the_source(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You shift the source and give the decoder the targets as they are. The source stays as it is; it is the decoder's
    input that is shifted."""
    model.train()
    optimizer.zero_grad()
    logits = model(training.shift_right(source, bos_id), targets)
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def shifts_the_source_too(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You shift the source as well. Only the decoder's input is shifted; the encoder reads the whole source."""
    model.train()
    optimizer.zero_grad()
    logits = model(training.shift_right(source, bos_id), training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@train_step.misconception
def returns_the_graph(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You return the loss as a tensor with its graph. Return a number.

    Whoever collects the losses keeps the memory of every forward pass."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss


@train_step.misconception
def clips_by_the_sum(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You measure the gradient by the sum of its absolute values. Its length is meant: the root of the sum of all
    squares."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm, 1.0)
    optimizer.step()
    return loss.item()


@train_step.misconception
def returns_the_sum_of_losses(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """You return the sum of the losses of all targets. The loss is their mean, the number on which backward is
    called."""
    model.train()
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item() * int((targets != pad_id).sum())


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
    return loss.detach()


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
def dropping_the_last_logits(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train()
    first = torch.full_like(targets[:, :1], bos_id)
    logits = model(source, torch.cat([first, targets], dim=1))[:, :-1]
    loss = training.sequence_loss(logits, targets, pad_id)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


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
