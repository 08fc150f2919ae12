"""The cases that only the grader runs: one module per topic, with the same engine as the visible checks.

Hidden cases ask the same properties of other inputs. They are not written down but drawn from a seed, and each class
has a secret one of its own (see `classroom/seed.py`): reading this folder tells how they are made, not what they are.
Their points are given only if everything holds, and their report names the mistake but shows no case.

A test that a student writes meets all mistakes that it should catch, in disguises and an order that are drawn from the
seed. It earns the same share of its hidden points as of its visible ones.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.classroom.seed import seed_of_this_process
from autograder.errors import CourseError
from autograder.hidden.draw import Draw as Draw
from course_lib.checking.exercise import Case as Case
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade, refusal
from course_lib.checking.properties import Examination, one_thread
from course_lib.checking.report import CheckResult, Report
from course_lib.checking.subject import Subject
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises import TOPICS, written_tests

Maker = Callable[[Draw], list[Case]]

HIDDEN: dict[str, Hidden] = {}

MOST_DRAWS = 1000
TITLE = "it also holds on the cases that only the grader runs"
SENTENCES = {
    "not attempted": "Nothing is written here yet.",
    "raised": "Your code raised an error on one of them.",
    "wrong": "It does not hold on one of them.",
}


@dataclass(frozen=True)
class Hidden:
    """How the hidden cases of one exercise are made. Its points are given for passing all of them."""

    exercise: Exercise
    make: Maker
    by_chance: bool

    @property
    def points(self) -> float:
        return self.exercise.hidden_points

    def cases(self, seed: str) -> list[Case]:
        """The cases of the classes with this seed, always the same."""
        return cases_of(self.exercise.name, seed)


def hidden(exercise: Exercise, by_chance: bool = False) -> Callable[[Maker], Maker]:
    """Decorator: this makes the hidden cases of the exercise.

    by_chance: whether a case is fair and shows a mistake depends on the numbers drawn, not on its structure alone.
    Then cases on which a right answer fails are left out, and more are drawn until every misconception fails on one.
    """

    def register(make: Maker) -> Maker:
        HIDDEN[exercise.name] = Hidden(exercise, make, by_chance)
        return make

    return register


@functools.lru_cache(maxsize=1024)
def cases_of(name: str, seed: str) -> list[Case]:
    hidden = all_hidden()[name]
    draws = (hidden.make(Draw(seed, name, str(number))) for number in range(MOST_DRAWS))
    with one_thread():
        return chosen(hidden.exercise, draws) if hidden.by_chance else next(draws)


def chosen(exercise: Exercise, draws: Iterable[Sequence[Case]]) -> list[Case]:
    """The fair cases of the first draw, and of later ones those that show a mistake which no case has shown yet."""
    cases: list[Case] = []
    right, slipping = [exercise.reference, *exercise.alternatives], exercise.misconceptions
    for number, drawn in enumerate(draws):
        for case in drawn:
            left = [wrong for wrong in slipping if passes(exercise, wrong, [case])]
            is_wanted = number == 0 or len(left) < len(slipping)
            if is_wanted and all(passes(exercise, program, [case]) for program in right):
                cases, slipping = [*cases, case], left
        if not slipping:
            return cases
    raise RuntimeError(f"No hidden case of {exercise.name} shows {slipping[0].__name__}.")


def passes(exercise: Exercise, program: Callable[..., Any], cases: Sequence[Case]) -> bool:
    """Whether all properties hold, and no input is changed. Nothing is reported or diagnosed."""
    return Examination(exercise, Subject(program), cases).passes()


@functools.cache
def all_hidden() -> dict[str, Hidden]:
    """exercise name -> its hidden cases."""
    for topic in TOPICS:
        import_cases(topic)
    for test in written_tests().values():
        hidden(test)(functools.partial(drawn_questions, test))
    return HIDDEN


def import_cases(topic: str) -> None:
    """Import the module of a topic. Raises: CourseError if it makes cases for an exercise that is gone."""
    package = importlib.import_module(f"course_lib.exercises.{topic}")
    try:
        importlib.import_module(f"{__name__}.{topic}")
    except AttributeError as error:
        if error.obj is not package:
            raise
        raise CourseError(
            f"autograder/hidden/{topic}.py makes cases for {error.name}, but course_lib/exercises/{topic}/__init__.py "
            "has no such exercise."
        ) from None


def drawn_questions(exercise: WrittenTest, draw: Draw) -> list[Case]:
    return exercise.questions(str(draw.integer(0, 10**15)), everything=True)


def check_hidden(name: str, obj: Any, seed: str | None = None, points: float | None = None) -> Report:
    """Check an answer on the hidden cases of the exercise `name`. Shows the score to nbgrader as `check` does.

    seed: of the cases. None: that of the class whose notebook this process executes.
    points: what the class gives for them, if that is not what the course gives.
    """
    hidden = all_hidden()[name]
    cases = hidden.cases(seed_of_this_process() if seed is None else seed)
    report = conceal(hidden, refusal(hidden.exercise, obj) or grade(hidden.exercise, Subject(obj), cases))
    return report if points is None else report.worth(points)


def conceal(hidden: Hidden, report: Report) -> Report:
    """The report without the cases: one line, all points or none; a written test gets its part of them. Advice that was
    not followed costs nothing."""
    has_all = report.points == report.max_points
    outcome = "right" if has_all else report.outcome
    points = hidden.points if has_all else 0.0
    if isinstance(hidden.exercise, WrittenTest):
        points = float(math.floor(hidden.points * report.points / hidden.exercise.points))
    result = CheckResult(TITLE, has_all, SENTENCES.get(outcome, ""), points, hidden.points)
    return Report(report.name, outcome, (result,), None if has_all else report.diagnosis)
