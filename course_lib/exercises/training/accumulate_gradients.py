"""The exercise `accumulate_gradients`: what must hold, and what people really write instead."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F

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

accumulate_gradients = Exercise(
    training.accumulate_gradients,
    cases=[
        {
            "model": TinyTraining.random(vocab=5, d_model=2, seed=60),
            "batches": [
                (torch.tensor([[3, 4]]), torch.tensor([[4, 3, 2]])),
                (torch.tensor([[4]]), torch.tensor([[2, 0]])),
            ],
            "bos_id": 1,
            "pad_id": 0,
        },
        {
            "model": TinyTraining.random(vocab=8, d_model=3, seed=70),
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
    hidden_points=2,
    hints=[
        "One large batch would take the mean over all its real targets. What is the share of one small batch in that "
        "mean? Not 1 / (number of batches): think of a batch of 3 targets beside one of 1.",
        "Count the real targets of all batches first. A batch's mean loss times (its real targets / all real targets) "
        "is its part of the large mean.",
        "backward() adds to .grad by itself. So clear the gradients once, before the loop, and call backward in the "
        "loop: it also frees the memory of that batch.",
        "total = sum of (targets != pad_id).sum(); in the loop: loss = own_loss(…) * n / total; "
        "loss.backward(); mean_loss += loss.item()",
    ],
)


def accumulated(subject, case, batches=None, left_over: float | None = None):
    """The loss that was returned, whether it has a graph, and the gradients in the model afterwards."""
    setting, own, bos_id, pad_id = case.values()
    setting = dataclasses.replace(setting, left_over=left_over)
    (loss, has_graph), seen = subject.effect(setting, own if batches is None else batches, bos_id, pad_id)
    return loss, has_graph, seen


KEPT: dict = {}  # a diagnosis asks for the right answer a hundred times


def rightly_accumulated(case, batches=None, left_over: float | None = None):
    """The same of the reference."""
    own = case["batches"] if batches is None else batches
    key = (case["model"], *(tensor for batch in own for tensor in batch), left_over)  # told apart as objects
    if key not in KEPT:
        KEPT[key] = accumulated(Subject(training.accumulate_gradients), case, batches, left_over)
    return KEPT[key]


def expect_same_gradients(subject, case, batches, left_over: float | None, what: str) -> None:
    *_, seen = accumulated(subject, case, batches, left_over)
    *_, wanted = rightly_accumulated(case, batches, left_over)
    expect_parameters(seen["parameters"], wanted["parameters"], "the parameter", "(it should stay as it is)")
    zero = not any(value.any() for value in seen["gradients"].values())
    expect(not zero, "No gradient is left in .grad: it is None or 0 everywhere.")
    expect_parameters(seen["gradients"], wanted["gradients"], "the gradient of the parameter", what)


@accumulate_gradients.property("it returns a number, and runs each batch by itself, with shifted targets", points=0)
def accumulation_runs_every_batch(subject, case):
    got, _, seen = accumulated(subject, case)
    expect_number(got, "the returned loss")
    left = [(call["source"], call["given"]) for call in seen["calls"]]
    batches = len(case["batches"])
    expect(
        len(left) == batches,
        f"There are {batches} batches, but the model was called {len(left)} times. Each batch is run once.",
    )
    for i, (source, targets) in enumerate(case["batches"]):
        wanted = training.shift_right(targets, case["bos_id"])
        own = next((pair for pair in left if torch.equal(pair[0], source)), None)
        expect(
            own is not None,
            f"The model was never called with the source ids of batch {i}, {source.tolist()}.",
        )
        given = own[1]
        if given.dim() == 2:
            given = given[:, : targets.shape[1]]  # what is given beyond that is hidden by the causal mask
        expect_ids(given, wanted, f"what the decoder was given for batch {i}")


@accumulate_gradients.property("the same batch three times leaves the gradient of that batch once", points=3)
def accumulation_is_a_mean(subject, case):
    batches = [case["batches"][0]] * 3
    expect_same_gradients(subject, case, batches, None, "for the same batch three times")


@accumulate_gradients.property("every real target counts the same, whichever batch it is in", points=2)
def accumulation_weighs_targets(subject, case):
    counts = [int((targets != case["pad_id"]).sum()) for _, targets in case["batches"]]
    what = f"for batches with {', '.join(map(str, counts))} real targets"
    expect_same_gradients(subject, case, None, None, what)


@accumulate_gradients.property("it returns the mean loss over all real targets", points=1)
def accumulation_returns_the_mean(subject, case):
    got, *_ = accumulated(subject, case)
    want, *_ = rightly_accumulated(case)
    number = expect_number(got, "the returned loss")
    expect(
        is_close(torch.tensor(number), torch.tensor(want)),
        f"The returned loss should be {want:.5g}, but it is {number:.5g}.",
    )


@accumulate_gradients.property("what was in .grad before does not count", points=1)
def accumulation_starts_at_zero(subject, case):
    expect_same_gradients(subject, case, None, 3.0, "in a model whose .grad was full of 3s before")


@accumulate_gradients.property("what it returns is a plain number: the memory of the batches is free again", points=1)
def accumulation_keeps_no_graph(subject, case):
    _, has_graph, _ = accumulated(subject, case)
    expect_no_graph(has_graph)


@accumulate_gradients.advice("the memory of one batch is freed before the next one is run")
def accumulation_frees_memory(subject, case):
    *_, seen = accumulated(subject, case)
    waiting = max(call["open graphs"] for call in seen["calls"])
    expect(
        waiting == 0,
        f"When the last batch was run, {waiting} earlier ones still needed their backward(): all of them are in "
        "memory at once, as with one large batch.",
    )


@accumulate_gradients.misconception
def adds_up_means(model, batches, bos_id, pad_id):
    """You add up the gradients of mean losses. Each batch has to be weighted by its share of the real targets.

    It acts like a learning rate that grows with the number of batches."""
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
    """You add up the mean losses and their gradients. Each batch has to be weighted by its share of the real targets.

    Both grow with the number of batches."""
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
    """You divide the loss that you return, but not the one on which you call backward. Weight the loss before backward.

    The gradient grows with the number of batches."""
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
    """You give every batch the same weight, 1 / n. That is right only if all have equally many real targets.

    A word in a short batch counts for more than one in a long batch."""
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
    """You take the sum over the targets and never divide. It should be the mean.

    The gradient grows with the number of targets."""
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
def adds_up_sums_and_divides_the_loss(model, batches, bos_id, pad_id):
    """The loss that you return is divided by the number of targets, but the gradients are those of the undivided sums.
    Both belong to the mean.

    The gradient grows with the number of targets."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum())
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item() / total
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
    """You divide by the targets counted so far. All of them have to be counted before the first backward.

    The first batch weighs too much."""
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
    """You clear the gradients before every batch. Clear them once, before the loop.

    Only the last batch's gradient is left."""
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
def leaves_no_gradient(model, batches, bos_id, pad_id):
    """You leave nothing in .grad for the optimizer. Clear it before the first batch and not later, and let torch record
    what the backward of each batch needs."""
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
    """You never clear the gradients. Clear them once, before the loop.

    What was in .grad before is counted again."""
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
    """You add up the losses and call backward once at the end. Call backward for each batch; it adds to .grad.

    The gradient is right, but all batches are in memory together: that is what accumulation is meant to avoid."""
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
    """You call backward on the running sum of the losses. Call it on the loss of the batch alone; .grad keeps the sum.

    The second call goes through the first batch's graph again, which is freed already."""
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
    """backward is called after the loop. Call it for every batch.

    Only the last batch has a gradient."""
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
    """The return stands inside the loop.

    Only the first batch is run."""
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
    """You change the parameters after each batch. Leave the gradients in .grad; the optimizer makes one step, later.

    The next batch meets another model: this is ordinary training in small batches."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def accumulates_without_the_shift(model, batches, bos_id, pad_id):
    """You give the decoder the targets unshifted.

    At each position it sees the token that it is asked for."""
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
    """You return the loss of the last batch alone. Return the mean over all real targets: add up the weighted
    losses.

    The gradient is right."""
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
    """You return the weighted loss of the last batch alone. Add up those of all batches.

    The gradient is right."""
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
    """The loss that you return is the mean of the batches' means. Weight it like the gradient: every real target counts
    the same.

    The gradient is right."""
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
    """The loss that you return is the sum of the batches' means. Weight it like the gradient: every real target counts
    the same.

    The gradient is right."""
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


@accumulate_gradients.misconception
def forgets_backward(model, batches, bos_id, pad_id):
    """There is no backward().

    Nothing is left in .grad."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def accumulates_padding(model, batches, bos_id, pad_id):
    """Your loss counts padding. Only real targets count, in the loss as in the weights."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def keeps_every_graph(model, batches, bos_id, pad_id):
    """You add up the losses as tensors, and return the sum with all their graphs. Return a number.

    The graphs of all batches are kept as long as the result."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss
    return mean_loss


@accumulate_gradients.misconception
def accumulates_with_a_shifted_source(model, batches, bos_id, pad_id):
    """You shift the source as well. Only the decoder's input is shifted."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(training.shift_right(source, bos_id), training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def compares_with_shifted_targets(model, batches, bos_id, pad_id):
    """Your loss compares the logits with the *shifted* targets. The shifted ones go in, the targets are what should
    come out."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, training.shift_right(targets, bos_id), pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def divides_by_the_batches_own_targets(model, batches, bos_id, pad_id):
    """You divide the mean of a batch by its number of real targets once more. sequence_loss has done that already."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = 1 / int((targets != pad_id).sum())
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss


@accumulate_gradients.misconception
def divides_the_returned_loss_again(model, batches, bos_id, pad_id):
    """You divide the loss that you return by the number of batches. The weighted losses add up to the mean already.

    The gradient is right."""
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, training.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = training.sequence_loss(logits, targets, pad_id) * share
        loss.backward()
        mean_loss += loss.item()
    return mean_loss / len(batches)


@accumulate_gradients.alternative
def dropping_the_last_logits(model, batches, bos_id, pad_id):
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, F.pad(targets, (1, 0), value=bos_id))[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, reduction="sum") / total
        loss.backward()
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
