"""What several exercises on decoding have in common."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_lib.checking.expect import (
    Failure,
    expect,
    expect_floats,
    expect_tensor,
    sentence,
)
from course_lib.checking.inputs import NextTokenTable, normal
from course_lib.checking.subject import Event


def expect_ids(got, shape=None, what="the result"):
    """`got` is a tensor of token ids, whole numbers of whatever dtype."""
    got = expect_tensor(got, shape, what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contains NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold token ids, whole numbers, but its dtype is {got.dtype}.")
    return got


def asked(subject, arguments, essence):
    """The subject's answer. Its trace records the essence, so that a mistake is recognised however the answer is
    packed."""
    before = len(subject.trace)
    answer = subject(*arguments)
    changes = [event for event in subject.trace[before:] if event.question == "changed"]
    subject.trace[before:] = [*changes, Event("call", essence(answer))]
    return answer


def as_number(answer):
    """A tensor with one entry, or a number, as a number."""
    return answer.item() if isinstance(answer, Tensor) and answer.numel() == 1 else answer


def random_model(vocab, rows, seed, never=(), favour=None, scale=1.5):
    """A model whose answers depend on the sentence and on the last three tokens. `never`: ids that it never writes."""
    start = normal(rows, vocab, seed=seed) + 0.001 * torch.arange(vocab)  # so that no two sums are equal
    start[:, list(never)] -= 30
    if favour is not None:
        start[:, favour[0]] += favour[1]
    return NextTokenTable(start, normal(3, vocab, vocab, seed=seed + 1, scale=scale))


def distinct(*shape, seed, scale=1.0):
    """Random logits, no two of which are equal."""
    return normal(*shape, seed=seed, scale=scale) + 0.001 * torch.arange(shape[-1])


def with_infinities(answer):
    """-1e9 and the like remove a token as well as -inf does."""
    if isinstance(answer, Tensor) and answer.is_floating_point():
        return answer.masked_fill(answer < -1e4, -math.inf)
    return answer


def filtered(subject, *arguments):
    """The student's logits and which tokens have a probability above 0 in them."""
    got = expect_floats(asked(subject, arguments, with_infinities), tuple(arguments[0].shape))
    probabilities = got.double().softmax(dim=-1)
    expect(not (got == math.inf).any(), "Your result has logits of +inf. What is removed gets -inf.")
    expect(
        not probabilities.isnan().any(),
        "A row of your result is -inf everywhere: no token is left in it. At least one has to stay.",
    )
    expect(
        (got < 0).any() or not torch.allclose(got.double().sum(dim=-1), torch.ones((), dtype=torch.float64)),
        "Each row of your result adds up to 1: these are probabilities. Logits are wanted; the softmax comes later.",
    )
    return got, probabilities > 1e-12


FAR_BELOW = 3000.0  # what removes a token has to be smaller than any logit


def expect_tokens_left(left, want, logits, asked_with=""):
    """The tokens that are left are those that should be. `asked_with`: what was asked instead of the case."""
    if torch.equal(left, want):
        return
    *row, _ = (int(i) for i in (left != want).nonzero()[0])
    tokens = [mask[tuple(row)].nonzero().flatten().tolist() for mask in (want, left)]
    values = [round(value, 3) for value in logits[tuple(row)].tolist()]
    raise Failure(
        f"{asked_with}Of the logits {values} the tokens {tokens[0]} should be left, but yours leaves {tokens[1]}."
    )


def expect_kept_unchanged(got, left, logits):
    """What is left has its old logit."""
    same = torch.isclose(got.double(), logits, rtol=1e-4, atol=1e-5) | ~left
    if not same.all():
        place = tuple(int(i) for i in (~same).nonzero()[0])
        raise Failure(
            f"A token that is left keeps its logit: at index {list(place)} it was {logits[place]:.4g}, "
            f"yours is {got[place]:.4g}."
        )
