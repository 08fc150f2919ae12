"""Results as rows of a table, each with the target that it has to meet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """One measurement. `met` says whether it reaches its target; without a target it always does."""

    what: str
    measured: str
    target: str = ""
    met: bool = True


def at_least(what: str, value: float, target: float, unit: str = "") -> Row:
    return Row(what, f"{value:.2f}{unit}", f"≥ {target:g}{unit}", value >= target)


def at_most(what: str, value: float, target: float, unit: str = "") -> Row:
    return Row(what, f"{value:.2f}{unit}", f"≤ {target:g}{unit}", value <= target)


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a markdown table."""
    lines = ["| what | measured | target | met |", "|---|---|---|---|"]
    for row in rows:
        met = ("yes" if row.met else "**no**") if row.target else ""
        lines.append(f"| {row.what} | {row.measured} | {row.target} | {met} |")
    return "\n".join(lines)


def timed(action: Callable[[], Result]) -> tuple[Result, float]:
    """The result of `action`, and the CPU time that it took, in all threads."""
    start = time.process_time()
    result = action()
    return result, time.process_time() - start


def side_by_side(actions: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The median CPU time of each action. They take turns, so that a busy moment hits all of them alike."""
    times: list[list[float]] = [[] for _ in actions]
    for action in actions:
        action()  # the first time is slower
    for _ in range(rounds):
        for action, own in zip(actions, times):
            own.append(timed(action)[1])
    return [sorted(own)[rounds // 2] for own in times]


def machine() -> str:
    """What the measurements were made on."""
    return f"torch {torch.__version__.split('+')[0]}, CPU, {torch.get_num_threads()} thread of {os.cpu_count()} cores"
