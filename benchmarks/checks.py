"""Checks: how long one takes, for every exercise.

Three answers are timed: the reference; the misconception that takes longest to name; and a wrong answer that is nothing
known, for which every misconception and every pair has to be tried. The last comes first, when nothing is prepared yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.tables import Row, timed
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

LIMIT = 0.5  # seconds


def seconds(exercise: Exercise, answer: Callable[..., Any]) -> float:
    """The CPU time of one check. It runs on one thread, so on a quiet machine this is the time a student waits."""
    return timed(lambda: grade(exercise, Subject(answer)))[1]


def unknown_mistake(exercise: Exercise) -> Callable[..., Any]:
    """The reference, slightly off everywhere: right shapes, wrong values, and no misconception."""
    if not exercise.is_class:
        return lambda *args: disturbed(exercise.reference(*args))

    class Disturbed(exercise.reference):  # type: ignore[name-defined]
        def forward(self, *args: Any) -> Any:
            return disturbed(super().forward(*args))

    return Disturbed


def disturbed(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.flip(-1) if result.dtype in (torch.bool, torch.int64) else result * 1.07 + 0.013
    if isinstance(result, tuple | list):
        return type(result)(disturbed(item) for item in result)
    if isinstance(result, dict):
        return {key: disturbed(value) for key, value in result.items()}
    return result + 17


def run() -> list[Row]:
    rows = []
    for exercise in all_exercises().values():
        first = seconds(exercise, unknown_mistake(exercise))  # merges all pairs; later checks find them merged
        right = seconds(exercise, exercise.reference)
        named = max(seconds(exercise, wrong) for wrong in exercise.misconceptions)
        times = (
            f"right {1e3 * right:.0f} ms, named mistake up to {1e3 * named:.0f} ms, unknown one {1e3 * first:.0f} ms"
        )
        slowest = max(first, right, named)
        rows.append(Row(exercise.name, times, f"≤ {LIMIT:g} s", slowest <= LIMIT))
    return rows
