"""The exercise `next_token_loss`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import you_are_the_grader as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect
from course_lib.checking.inputs import CausalTable, normal
from course_lib.exercises.training.shared import expect_loss, one_number, without_padding


def a_model(vocab: int, seed: int) -> CausalTable:
    """What it says depends on the last two tokens."""
    return CausalTable(normal(vocab, seed=seed), normal(2, vocab, vocab, seed=seed + 1))


next_token_loss = Exercise(
    reference.next_token_loss,
    cases=[
        {"model": a_model(4, seed=10), "ids": torch.tensor([[3, 2, 1, 0]]), "pad_id": 0},
        {
            "model": a_model(7, seed=20),
            "ids": torch.tensor([[5, 1, 0, 6, 6], [4, 2, 1, 3, 3], [2, 2, 3, 3, 3]]),
            "pad_id": 3,
        },
        {
            "model": a_model(6, seed=30),
            "ids": torch.tensor([[1, 5, 0, 4, 2, 3], [3, 4, 2, 0, 0, 0]]),
            "pad_id": 0,
        },
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "Write the row 7 4 9 2 on paper, and below each token what the model has seen there, and what it should be "
        "asked for there. How long is the row of questions?",
        "At position t the model has seen tokens 0 to t. It is asked for token t + 1. At the last position there is "
        "nothing to ask for.",
        "Two views of ids do it: what is given, ids[:, :-1], and what is wanted, ids[:, 1:]. The padding that must not "
        "count is padding among the wanted ones.",
        "logits = model(ids[:, :-1]), then F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), "
        "ignore_index=pad_id).",
    ],
)


def right(case, ids: Tensor) -> Tensor:
    return reference.next_token_loss(case["model"], ids, case["pad_id"])


@next_token_loss.property("the loss is one number, a tensor", points=1)
def next_is_a_number(subject, case):
    one_number(subject(*case.values()), "the loss")


@next_token_loss.property("position t is asked for token t + 1", points=3)
def next_is_next(subject, case):
    model, ids, pad_id = case.values()
    ids = without_padding(ids, pad_id, len(model.start))
    expect_loss(subject(model, ids, pad_id), right(case, ids), "the loss of ids among which there is no padding")


@next_token_loss.property("padding does not count, neither in the sum nor in the number of tokens", points=2)
def next_skips_padding(subject, case):
    model, ids, pad_id = case.values()
    number = int((ids[:, 1:] != pad_id).sum())
    what = f"the loss ({number} of {ids[:, 1:].numel()} next tokens are real)"
    expect_loss(subject(model, ids, pad_id), right(case, ids), what)


@next_token_loss.property("three more places of padding after every row change nothing", points=1)
def next_is_blind_to_padding(subject, case):
    model, ids, pad_id = case.values()
    longer = F.pad(ids, (0, 3), value=pad_id)
    expect_loss(subject(model, longer, pad_id), right(case, ids), "the loss with more padding after every row")


@next_token_loss.property("logits of thousands do no harm", points=1)
def next_of_large_logits(subject, case):
    model, ids, pad_id = case.values()
    large = CausalTable(1000 * model.start, 1000 * model.table)
    want = reference.next_token_loss(large, ids, pad_id)
    expect_loss(subject(large, ids, pad_id), want, "the loss of logits of about ±1000")


@next_token_loss.property("gradients flow back from the loss to the model", points=1)
def next_can_be_trained(subject, case):
    model, ids, pad_id = case.values()
    trained = dataclasses.replace(model, can_be_trained=True)
    expect(
        subject.has_graph(trained, ids, pad_id), "backward() cannot be called on the loss: it has left torch's graph."
    )


@next_token_loss.misconception
def asks_for_the_token_it_sees(model, ids, pad_id):
    """Each position is asked for the very token that it has just seen. It should be asked for the next one.

    Copying is enough: the loss goes to 0 on any text, and nothing about the next token is learned."""
    given, wanted = ids, ids
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def asks_for_the_token_after_the_next(model, ids, pad_id):
    """You shift by two places. Each position should be asked for the token right after it.

    This happens when both the data and the model shift."""
    given, wanted = ids[:, :-2], ids[:, 2:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def asks_for_the_token_before(model, ids, pad_id):
    """You shift the wrong way: each position is asked for the token *before* it, which the model has already seen.

    It has to remember, not to predict."""
    given, wanted = ids, ids
    log_probabilities = model(given).log_softmax(dim=-1)[:, 1:]
    wanted = wanted[:, :-1]
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def rolls_around(model, ids, pad_id):
    """You roll the row, so the last position is asked for the first token. Nothing comes after the last token."""
    given, wanted = ids, ids.roll(-1, dims=1)
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def drops_the_last_question(model, ids, pad_id):
    """You leave out one question too many: the last token is never asked for."""
    given, wanted = ids[:, :-2], ids[:, 1:-1]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def drops_the_first_question(model, ids, pad_id):
    """You leave out one question too many: the second token is never asked for."""
    given, wanted = ids[:, :-1], ids[:, 2:]
    log_probabilities = model(given).log_softmax(dim=-1)[:, 1:]
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def counts_padding(model, ids, pad_id):
    """Padding is counted like a word. Only real next tokens count.

    The model is trained to say PAD."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    return losses.mean()


@next_token_loss.misconception
def mean_over_padding_too(model, ids, pad_id):
    """You set the losses of padding to 0 but still divide by all positions. Divide by the number of real next tokens.

    The more padding there is, the smaller your loss."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return (losses * real).mean()


@next_token_loss.misconception
def skips_what_follows_padding(model, ids, pad_id):
    """You leave out the positions where padding is *given*. Padding that is *asked for* must not count.

    As it is, the first padding of every row is still asked for."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = given != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def takes_zero_for_padding(model, ids, pad_id):
    """You take the id 0 for padding, whatever pad_id says. The caller says which id it is; 0 may be a word."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != 0
    return losses[real].mean()


@next_token_loss.misconception
def sums_over_tokens(model, ids, pad_id):
    """You take the sum over the real next tokens. It should be the mean.

    A sum grows with the batch."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].sum()


@next_token_loss.misconception
def mean_of_row_means(model, ids, pad_id):
    """You take the mean of each row first and then the mean of the rows. Every real next token counts the same.

    A token in a short row counts for more than one in a long row."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@next_token_loss.misconception
def softmax_twice(model, ids, pad_id):
    """You take the softmax before cross_entropy, which takes it once more. It wants the logits as they are.

    Probabilities taken for logits lie within 1 of each other, so this loss can never come near 0."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).softmax(dim=-1).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def has_no_minus(model, ids, pad_id):
    """The minus sign is missing. A loss is -log p.

    Training would make the right token *less* likely."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.misconception
def takes_the_logarithm_of_a_softmax(model, ids, pad_id):
    """You take the logarithm of a softmax in two steps. log_softmax does both in one, without underflow.

    Where a probability is too small for the number format, its logarithm is -inf."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    log_probabilities = model(given).softmax(dim=-1).log()
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = wanted != pad_id
    return losses[real].mean()


@next_token_loss.alternative
def logits_cut_afterwards(model, ids, pad_id):
    logits = model(ids)[:, :-1]
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), ignore_index=pad_id)


@next_token_loss.alternative
def with_the_padding_renamed(model, ids, pad_id):
    labels = torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], pad_id)], dim=1)
    labels = labels.masked_fill(labels == pad_id, -100)
    return F.cross_entropy(model(ids).transpose(1, 2), labels)


@next_token_loss.alternative
def in_loops(model, ids, pad_id):
    losses = []
    for row in ids:
        logits = model(row[None])[0]
        for t in range(len(row) - 1):
            if row[t + 1] != pad_id:
                losses.append(logits[t].logsumexp(0) - logits[t, row[t + 1]])
    return torch.stack(losses).mean()


@next_token_loss.alternative
def a_sum_of_weights(model, ids, pad_id):
    log_probabilities = F.log_softmax(model(ids[:, :-1]), dim=-1)
    wanted = F.one_hot(ids[:, 1:], log_probabilities.shape[-1]).to(log_probabilities)
    wanted = wanted * (ids[:, 1:] != pad_id).unsqueeze(-1)
    return -(wanted * log_probabilities).sum() / wanted.sum()
