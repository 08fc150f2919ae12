"""Runs an exercise's properties on a subject and makes the report."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from .bench import Bench
from .diagnosis import Advice, Diagnosis, diagnose
from .exercise import Case, Exercise
from .patience import TimeIsUp, at_most
from .properties import Examination, failed, no_garbage_collection, one_thread
from .report import Report
from .subject import Subject
from .tried import tried
from .written_test import WrittenTest

# What looking for a mistake may raise about numbers beyond all floating point, broken text or very large answers.
TOO_STRANGE = (ArithmeticError, ValueError, MemoryError)
MOST_PRINTED = 3  # number of inputs for which the student's printed output is shown


def grade(
    exercise: Exercise,
    subject: Subject,
    cases: Sequence[Case] | None = None,
    seconds: float | None = None,
    is_diagnosed: bool = True,
    examined: Callable[[Report], object] = lambda report: None,
) -> Report:
    """The report on a subject: the properties in their order, up to the first that fails.

    seconds: how long the student's code may take for one property on one input; None for no limit.
    is_diagnosed: whether the mistake is looked for.
    examined: told the report before that, since looking for a mistake may end the process that the subject is in.
    """
    with one_thread(), no_garbage_collection():
        if isinstance(exercise, WrittenTest):
            return tried(exercise, lambda number: subject, cases, seconds, is_diagnosed)
        examination = Examination(exercise, subject, exercise.cases if cases is None else cases, seconds).run()
        examined(report_on(examination))
        finding = None
        if is_diagnosed and examination.outcome in ("wrong", "raised"):
            with contextlib.suppress(TimeIsUp, *TOO_STRANGE), at_most(seconds):
                finding = diagnose(examination)
        return report_on(examination, finding)


def report_on(examination: Examination, finding: Diagnosis | Advice | None = None) -> Report:
    return Report(
        examination.exercise.name,
        examination.outcome,
        tuple(examination.results),
        finding if isinstance(finding, Diagnosis) else None,
        num_hints=len(examination.exercise.hints),
        advice=finding.sentence if isinstance(finding, Advice) else "",
        printed=tuple(examination.printed[:MOST_PRINTED]),
        is_attempt=examination.outcome == "right" or not examination.ignores_its_input(),
    )


def refusal(exercise: Exercise, obj: Any) -> Report | None:
    """A report on something that is not even a function or class, or None if it is."""
    return refusal_of_kind(exercise, Bench(obj).kind().value)


def refusal_of_kind(exercise: Exercise, kind: str) -> Report | None:
    """The same, if only the bench's description of it is known."""
    if exercise.is_class and kind != "class":
        return failed(exercise, "wrong", f"Pass the class itself: check({exercise.name}), without building it first.")
    if kind not in ("class", "function"):
        message = (
            f"This is {kind}, not a function. Pass the function itself: check({exercise.name}), without calling it."
        )
        return failed(exercise, "wrong", message)
    return None
