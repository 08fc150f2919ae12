"""Checks: how long one takes, for every exercise.

Three kinds of answers are timed: the reference, every misconception, and a wrong answer that matches no known mistake.
Each is checked twice: cold, as at a student's first attempt, and warm, as at the second.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.tables import Row, timed
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import exercises_to_build

COLD, WARM = 0.3, 0.1  # seconds


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
    return result[::-1] + "?" if isinstance(result, str) else result + 17


def round_of_checks(exercise: Exercise, answers: list[Callable[..., Any]]) -> list[float]:
    gc.collect()
    gc.freeze()  # no student's process holds the programs of the exercises and answers before
    return [seconds(exercise, answer) for answer in answers]


def run(only: list[str] | None = None) -> list[Row]:
    rows = []
    for name, exercise in exercises_to_build().items():
        if only and name not in only:
            continue
        answers = [unknown_mistake(exercise), exercise.reference, *exercise.misconceptions]
        cold, warm = round_of_checks(exercise, answers), round_of_checks(exercise, answers)
        times = ", ".join(
            f"{name} {1e3 * max(first):.0f} / {1e3 * max(second):.0f} ms"
            for name, first, second in (
                ("unknown", cold[:1], warm[:1]),
                ("right", cold[1:2], warm[1:2]),
                ("slowest named", cold[2:], warm[2:]),
            )
        )
        met = max(cold) <= COLD and max(warm) <= WARM
        rows.append(Row(exercise.name, times, f"≤ {COLD:g} s cold, {WARM:g} s warm", met))
    return rows
