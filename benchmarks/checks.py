"""How long a check takes, for every exercise: `python -m benchmarks.checks`.

Four answers are timed: the reference; the misconception that takes longest to name; a wrong answer that is nothing
known, for which every misconception and every pair has to be tried; and the very first check of a fresh process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises


def seconds(exercise: Exercise, answer: Callable[..., Any]) -> float:
    """The best of three: what the machine does besides is not the check's fault."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        grade(exercise, Subject(answer))
        times.append(time.perf_counter() - start)
    return min(times)


def unknown_mistake(exercise: Exercise) -> Callable[..., Any]:
    """The reference, slightly off everywhere: right shapes, wrong values, and no misconception."""
    if not exercise.is_class:
        return lambda *args: disturbed(exercise.reference(*args))

    class Disturbed(exercise.reference):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any) -> Any:
            return disturbed(super().forward(*args))

    return Disturbed


def disturbed(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.flip(-1) if result.dtype in (torch.bool, torch.int64) else result * 1.07 + 0.013
    if isinstance(result, tuple):
        return tuple(disturbed(item) for item in result)
    return result + 17


def first_check_seconds(exercise: Exercise) -> float:
    """A fresh process's first check, without the import of torch, which a student's notebook has already done."""
    code = (
        "import time, torch; start = time.perf_counter();"
        "from course_lib.exercises import all_exercises;"
        "from course_lib.checking.grading import grade;"
        "from course_lib.checking.subject import Subject;"
        f"e = all_exercises()['{exercise.name}'];"
        "grade(e, Subject(e.misconceptions[-1])); print(time.perf_counter() - start)"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    torch.set_num_threads(1)
    print("| exercise | right | slowest named mistake | unknown mistake | named pairs tried |")
    print("|---|---|---|---|---|")
    slowest = 0.0
    for exercise in all_exercises().values():
        named = max(seconds(exercise, wrong) for wrong in exercise.misconceptions)
        right, unknown = seconds(exercise, exercise.reference), seconds(exercise, unknown_mistake(exercise))
        slowest = max(slowest, right, named, unknown)
        pairs = len(exercise.misconceptions) * (len(exercise.misconceptions) - 1) // 2
        print(f"| {exercise.name} | {right * 1e3:.0f} ms | {named * 1e3:.0f} ms | {unknown * 1e3:.0f} ms | {pairs} |")
    last = list(all_exercises().values())[-1]
    print(f"\nSlowest check: {slowest:.2f} s. First check of a fresh process: {first_check_seconds(last):.2f} s.")


if __name__ == "__main__":
    main()
