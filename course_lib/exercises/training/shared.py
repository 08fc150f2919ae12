"""What the exercises of this topic have in common."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_lib.checking.expect import Failure, expect, expect_close, expect_tensor, is_close, name_of_type, sentence
from course_lib.checking.inputs import normal

LOSS_CASES = [
    {"logits": normal(1, 2, 3, seed=1), "targets": torch.tensor([[2, 1]]), "pad_id": 1},
    {"logits": normal(2, 4, 5, seed=2, scale=2), "targets": torch.tensor([[3, 0, 4, 2], [1, 2, 2, 2]]), "pad_id": 2},
    {
        "logits": normal(3, 5, 7, seed=3, scale=2),
        "targets": torch.tensor([[4, 1, 6, 2, 0], [5, 0, 0, 0, 0], [3, 3, 2, 0, 0]]),
        "pad_id": 0,
    },
]

LARGE = 1000.0


def expect_ids(got, want: Tensor, what: str) -> None:
    """`got` holds the whole numbers of `want`."""
    expect_tensor(got, what=what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contains NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold ids, whole numbers, but its dtype is {got.dtype}.")
    expect_close(got.double(), want.double(), what)


def one_number(got, what: str) -> Tensor:
    """`got` is a tensor with one number in it."""
    got = expect_tensor(got, what=what)
    return got.reshape(()) if got.numel() == 1 else expect_tensor(got, (), what)


def expect_loss(got, want: Tensor, what: str) -> None:
    """`got` is a tensor with the one number `want`."""
    got = one_number(got, what)
    if not got.is_floating_point():
        raise Failure(f"{sentence(what)} should be a floating point number, but its dtype is {got.dtype}.")
    number, right = got.item(), want.item()
    if math.isnan(number):
        raise Failure(f"{sentence(what)} is NaN (not a number): it comes from inf - inf, inf / inf or 0 / 0.")
    if not is_close(torch.tensor(number), torch.tensor(right)):
        raise Failure(f"{sentence(what)} should be {right:.5g}, but it is {number:.5g}.")


def without_padding(targets: Tensor, pad_id: int, vocab: int) -> Tensor:
    """The same targets with a real token wherever there was padding."""
    return targets.masked_fill(targets == pad_id, (pad_id + 1) % vocab)


def real_rows(logits: Tensor, targets: Tensor, pad_id: int) -> str:
    real = int((targets != pad_id).sum())
    return f"({real} of {targets.numel()} targets are real)"


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


def expect_no_graph(has_graph: bool) -> None:
    """What was returned does not keep the forward pass in memory."""
    expect(
        not has_graph,
        "The loss that you return is a tensor with the whole graph of the forward pass behind it: whoever collects the "
        "losses keeps the memory of every step. Return a number.",
    )


def expect_parameters(got: dict, want: dict, what: str, when: str) -> None:
    """Parameters or their gradients, each under its name, are the wanted ones."""
    for name, value in want.items():
        expect_close(got[name], value, f"{what} {name!r} {when}")
