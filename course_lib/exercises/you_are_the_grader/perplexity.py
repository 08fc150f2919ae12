"""The exercise `perplexity`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import you_are_the_grader as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, is_close
from course_lib.checking.settings import TinyTraining
from course_lib.checking.subject import Subject
from course_lib.exercises.training.shared import expect_ids, expect_number
from course_lib.training import sequence_loss, shift_right

perplexity = Exercise(
    reference.perplexity,
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
    minutes=7,
    difficulty=2,
    hints=[
        "Two symptoms, two mistakes. Why does the same model give another number every time? And why does the number "
        "depend on how the sentences are divided into batches?",
        "The first is a mode of the model: dropout is switched off by model.eval().",
        "The second is a mean of means. A batch of 3 targets and a batch of 300 should not have the same say. Add up "
        "the losses of all real targets, count the targets, divide once.",
        "The mean loss of a batch times its number of real targets is the sum: total += loss.item() * number; "
        "count += number. Undo the logarithm at the very end: math.exp(total / count).",
    ],
)


def measured(subject, case, batches=None):
    """What was returned, and what the model has seen. It is in training mode at the beginning."""
    setting, own, bos_id, pad_id = case.values()
    setting = dataclasses.replace(setting, is_training=True)
    (result, _), seen = subject.effect(setting, own if batches is None else batches, bos_id, pad_id)
    return result, seen


KEPT: dict = {}  # a diagnosis asks for the right answer a hundred times


def right(case, batches=None) -> float:
    own = case["batches"] if batches is None else batches
    key = (case["model"], *(tensor for batch in own for tensor in batch))  # told apart as objects
    if key not in KEPT:
        KEPT[key] = measured(Subject(reference.perplexity), case, batches)[0]
    return KEPT[key]


def expect_perplexity(subject, case, batches, what: str) -> None:
    got, _ = measured(subject, case, batches)
    number, want = expect_number(got, "the perplexity"), right(case, batches)
    expect(
        is_close(torch.tensor(number), torch.tensor(want)),
        f"The perplexity {what} should be {want:.5g}, but it is {number:.5g}.",
    )


@perplexity.property("it returns a number, and runs the model on every batch, with the targets shifted", points=0)
def perplexity_runs_every_batch(subject, case):
    got, seen = measured(subject, case)
    expect_number(got, "the perplexity")
    calls = [(torch.atleast_2d(call["source"]), torch.atleast_2d(call["given"])) for call in seen["calls"]]
    rows = [row for source, given in calls for row in zip(source, given)]
    for i, (source, targets) in enumerate(case["batches"]):
        wanted = shift_right(targets, case["bos_id"])
        for j, (asked, right, target) in enumerate(zip(source, wanted, targets)):
            given = [own for ids, own in rows if torch.equal(ids, asked)]
            expect(given, f"The model was never called with the source ids of batch {i}, row {j}: {asked.tolist()}.")
            real = int((target != case["pad_id"]).sum())
            if not any(is_begun_by(own, right, real) for own in given):
                expect_ids(given[0], right, f"what the decoder was given for batch {i}, row {j},")


def is_begun_by(given: Tensor, right: Tensor, real: int) -> bool:
    """Whether the decoder was given the right ids. A sentence by itself may come without its padding, and what stands
    beyond its targets is hidden by the causal mask."""
    length = min(len(given), len(right))
    return length >= real and torch.equal(given[:length], right[:length])


@perplexity.property("the model is in evaluation mode", points=0)
def perplexity_evaluates(subject, case):
    _, seen = measured(subject, case)
    expect(
        not any(call["training"] for call in seen["calls"]),
        "The model was in training mode: its dropout was active.",
    )


@perplexity.property("of one batch it is exp(mean loss), and padding does not count", points=4)
def perplexity_of_one_batch(subject, case):
    for i, batch in enumerate(case["batches"]):
        expect_perplexity(subject, case, [batch], f"of batch {i} alone")


@perplexity.property("every real target counts the same, whichever batch it is in", points=4)
def perplexity_weighs_targets(subject, case):
    counts = [int((targets != case["pad_id"]).sum()) for _, targets in case["batches"]]
    expect_perplexity(subject, case, None, f"of batches with {', '.join(map(str, counts))} real targets")


@perplexity.advice("no gradients are recorded")
def perplexity_records_nothing(subject, case):
    _, seen = measured(subject, case)
    expect(
        all(call["open graphs"] == 0 for call in seen["calls"]),  # those of the batches before
        "The model was run with gradients switched on: memory for a backward pass that never comes.",
    )


@perplexity.misconception
def leaves_dropout_on(model, batches, bos_id, pad_id):
    """The model stays in training mode, so its dropout is active.

    The same model and the same text give another number every time."""
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def mean_of_batch_means(model, batches, bos_id, pad_id):
    """You take the mean of the batches' means. Every real target should count the same, whichever batch it is in.

    A target in a small batch counts for more than one in a large batch, and the number depends on how the sentences are
    divided into batches."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item()
        count += 1
    return math.exp(total / count)


@perplexity.misconception
def mean_of_batch_perplexities(model, batches, bos_id, pad_id):
    """You take the mean of the batches' perplexities. The mean is taken of the losses; exp comes last.

    exp is convex, so the mean of perplexities is too large wherever the batches differ."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += math.exp(loss.item())
        count += 1
    return total / count


@perplexity.misconception
def weighted_mean_of_batch_perplexities(model, batches, bos_id, pad_id):
    """You take the mean of the batches' perplexities, weighted by their targets. The mean is taken of the losses; exp
    comes last."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += math.exp(loss.item()) * number
        count += number
    return total / count


@perplexity.misconception
def weighs_by_sentences(model, batches, bos_id, pad_id):
    """You weigh each batch by its number of sentences. Its weight is the number of its real targets.

    A long sentence has more to say than a short one."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = len(targets)
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def weighs_by_all_positions(model, batches, bos_id, pad_id):
    """You weigh each batch by all its positions, padding included. Its weight is the number of its real targets.

    The number depends on how much padding there is."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = targets.numel()
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def divides_by_all_positions(model, batches, bos_id, pad_id):
    """You add up the losses of the real targets but divide by the number of all positions, padding included.

    More padding makes the model look better."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += targets.numel()
    return math.exp(total / count)


@perplexity.misconception
def returns_the_loss(model, batches, bos_id, pad_id):
    """You return the mean loss. The perplexity is exp of it."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return total / count


@perplexity.misconception
def two_to_the_nats(model, batches, bos_id, pad_id):
    """You compute 2 to the power of a loss in nats. Nats go with e; 2 goes with bits."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return 2 ** (total / count)


@perplexity.misconception
def bits_for_perplexity(model, batches, bos_id, pad_id):
    """You return the loss in bits. The perplexity is exp of the loss in nats."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return total / count / math.log(2)


@perplexity.misconception
def sums_the_losses(model, batches, bos_id, pad_id):
    """You take exp of the sum of all losses. It should be exp of their mean."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(total)


@perplexity.misconception
def exp_of_the_log_probability(model, batches, bos_id, pad_id):
    """You take exp of the mean of log p. The minus is missing: the loss is -log p.

    The result is below 1: one divided by the perplexity."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(-total / count)


@perplexity.misconception
def is_not_shifted(model, batches, bos_id, pad_id):
    """You give the decoder the targets themselves. It should be given the targets shifted by one place: shift_right.

    At each position it sees the token that it is asked for."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, targets)
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def counts_padding(model, batches, bos_id, pad_id):
    """Padding is counted like a word, in the losses and in their number. Only real targets count."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, -1)
        number = targets.numel()
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def takes_zero_for_padding(model, batches, bos_id, pad_id):
    """You take the id 0 for padding, whatever pad_id says. The caller says which id it is; 0 may be a word."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, 0)
        number = int((targets != 0).sum())
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def forgets_the_batches_before(model, batches, bos_id, pad_id):
    """You start to count again in each batch, so only the last batch counts."""
    model.eval()
    for source, targets in batches:
        total, count = 0.0, 0
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.misconception
def records_gradients(model, batches, bos_id, pad_id):
    """You run the model with gradients switched on. Evaluation needs none: torch.no_grad().

    The result is right, but torch keeps everything that a backward pass would need."""
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        logits = model(source, shift_right(targets, bos_id))
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(total / count)


@perplexity.alternative
def token_by_token(model, batches, bos_id, pad_id):
    model.train(False)
    losses = []
    with torch.inference_mode():
        for source, targets in batches:
            table = model(source, F.pad(targets, (1, 0), value=bos_id)[:, :-1]).log_softmax(-1)
            for row, wanted in zip(table, targets):
                losses += [-p[token] for p, token in zip(row, wanted) if token != pad_id]
    return torch.stack(losses).mean().exp().item()


@perplexity.alternative
def sentence_by_sentence(model, batches, bos_id, pad_id):
    model.eval()
    losses = []
    with torch.no_grad():
        for source, targets in batches:
            for sentence, wanted in zip(source, targets):
                wanted = wanted[None, : int((wanted != pad_id).sum())]
                logits = model(sentence[None], shift_right(wanted, bos_id))
                losses += F.cross_entropy(logits[0], wanted[0], reduction="none").tolist()
    return math.exp(sum(losses) / len(losses))


@perplexity.alternative
def dropping_the_last_logits(model, batches, bos_id, pad_id):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for source, targets in batches:
            logits = model(source, F.pad(targets, (1, 0), value=bos_id))[:, :-1]
            total += F.cross_entropy(logits[targets != pad_id], targets[targets != pad_id], reduction="sum").item()
            count += targets.ne(pad_id).sum().item()
    return math.exp(total / count)


@perplexity.alternative
def with_sums(model, batches, bos_id, pad_id):
    model.eval()
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for source, targets in batches:
        first = torch.full((len(targets), 1), bos_id)
        with torch.no_grad():
            logits = model(source, torch.cat([first, targets[:, :-1]], dim=1))
        total += F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum")
        count += (targets != pad_id).sum()
    return torch.exp(total / count)


@perplexity.alternative
def by_powers_of_two(model, batches, bos_id, pad_id):
    was_training = model.training
    model.eval()
    bits = []
    with torch.no_grad():
        for source, targets in batches:
            logits = model(source, shift_right(targets, bos_id))
            flat = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            bits.append(flat[targets.flatten() != pad_id] / math.log(2))
    model.train(was_training)
    return 2 ** torch.cat(bits).mean().item()
