"""*Signatures*: a program's behaviour in a few numbers, so that one wrong answer need not be compared with thousands.

A signature has one number for each single answer that the reference gives to a few questions, or for some of them if
these are many. Programs that behave alike have the same signature, up to rounding; the reverse need not be true, so
whatever a signature finds is then asked and compared in full.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .subject import Event, is_mask

TOLERANCE = 5e-4
MOST_ANSWERS = 12
ERROR = 1000.0  # far from every number that an answer can have
OTHER_QUESTIONS = math.nan

Signature = np.ndarray  # (answers,) float32


def signature_of(traces: Sequence[Sequence[Event]], reference: Sequence[Sequence[Event]]) -> Signature:
    """The signature of a program: its traces, in the order of the questions, beside those of the reference."""
    numbers: list[float] = []
    for trace, right in zip(traces, reference, strict=True):
        got, want = parts_of(trace), parts_of(right)
        column = [number_of(part) for part in got[: len(want)]]
        column += [OTHER_QUESTIONS] * (len(want) - len(column))
        numbers += column
    every = max(1, -(-len(numbers) // MOST_ANSWERS))
    return np.array(numbers[::every], dtype=np.float32).round(5)


def parts_of(trace: Sequence[Event]) -> list[Any]:
    """The single answers in a trace: of a pair (output, weights), each one."""
    return [part for event in trace for part in (event.answer if isinstance(event.answer, tuple) else [event.answer])]


def matching(signature: Signature, others: np.ndarray) -> np.ndarray:
    """Where others (..., answers) say the same: (..., answers), True also where neither was asked."""
    both_missing = np.isnan(others) & np.isnan(signature)
    return (np.abs(others - signature) <= TOLERANCE) | both_missing


def number_of(answer: Any) -> float:
    """One number for one answer. Answers that count as the same get the same number, up to rounding."""
    if isinstance(answer, str):
        return ERROR + zlib.crc32(answer.encode()) % 10007
    if isinstance(answer, dict):
        return sum(number_of(value) * (1 + zlib.crc32(key.encode()) % 13) for key, value in answer.items())
    if isinstance(answer, list | tuple):
        return sum(number_of_item(item) * (1 + 0.1 * position) for position, item in enumerate(answer))
    if isinstance(answer, Tensor):
        return number_of_tensor(answer)
    return math.asinh(float(answer)) if isinstance(answer, int | float) else -1.0


def number_of_item(item: Any) -> float:
    """Of a list. A word in it is a value like any other; an answer that is a text by itself is mostly an error's."""
    return zlib.crc32(item.encode()) % 10007 / 1000 if isinstance(item, str) else number_of(item)


def number_of_tensor(tensor: Tensor) -> float:
    if tensor.numel() == 1:
        tensor = tensor.reshape(1)
    elif tensor.numel() == 0 or is_mask(tensor):
        return float(tensor.double().mean().nan_to_num(3.0))  # the same for every shape that means the same mask
    values = squashed(tensor)
    weights = torch.cos(torch.arange(values.numel(), dtype=torch.float64))  # so that the order counts
    return float((values * weights).sum()) / math.sqrt(values.numel())


def squashed(tensor: Tensor) -> Tensor:
    """All values, large ones brought near, so that rounding stays rounding; NaN and infinities as numbers."""
    parts = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor  # torch warns of other ways
    return torch.asinh(parts.detach().double().flatten()).nan_to_num(40.0, 50.0, -50.0)
