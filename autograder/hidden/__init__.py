"""The cases that only the grader runs: one module a topic, with the same engine as the visible checks.

Hidden cases ask the same properties of other inputs. Their points are given only if everything holds, and their
report names the mistake but shows no case.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.checking.exercise import Case, Exercise
from course_lib.checking.grading import grade, refusal
from course_lib.checking.report import CheckResult, Report
from course_lib.checking.subject import Subject
from course_lib.exercises import TOPICS

HIDDEN: dict[str, Hidden] = {}

TITLE = "it also holds on the cases that only the grader runs"
SENTENCES = {
    "not attempted": "Nothing is written here yet.",
    "raised": "Your code raised an error on one of them.",
    "wrong": "It does not hold on one of them.",
}


@dataclass(frozen=True)
class Hidden:
    """The hidden cases of one exercise, and the points for passing all of them."""

    exercise: Exercise
    cases: Sequence[Case]
    points: float

    def __post_init__(self) -> None:
        HIDDEN[self.exercise.name] = self


@functools.cache
def all_hidden() -> dict[str, Hidden]:
    """exercise name -> its hidden cases."""
    for topic in TOPICS:
        importlib.import_module(f"{__name__}.{topic}")
    return HIDDEN


def check_hidden(name: str, obj: Any) -> Report:
    """Check an answer on the hidden cases of the exercise `name`. Shows the score to nbgrader as `check` does."""
    hidden = all_hidden()[name]
    return conceal(hidden, refusal(hidden.exercise, obj) or grade(hidden.exercise, Subject(obj), hidden.cases))


def conceal(hidden: Hidden, report: Report) -> Report:
    """The report without the cases: one line, all points or none."""
    points = hidden.points if report.passed else 0.0
    result = CheckResult(TITLE, report.passed, SENTENCES.get(report.outcome, ""), points, hidden.points)
    return Report(report.name, report.outcome, (result,), report.diagnosis)
