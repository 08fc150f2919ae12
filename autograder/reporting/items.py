"""Item analysis: what each exercise and each written question tells about a class, and about itself.

Difficulty is the mean share of the points. Discrimination is the correlation of the points in one exercise with those
in all others: near 0, an exercise does not tell who knows the subject; far below 0, those who know it fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation

from autograder.judging.verdict import ExerciseVerdict, Verdict
from autograder.reporting.gradebook import Mark
from course_lib.checking.exercise import Exercise
from course_lib.exercises import all_exercises

FEWEST = 10  # students, for a correlation that is worth a number
LITTLE = 0.2  # a correlation that is smaller, on either side of 0, says little: one student's slip makes as much
EASY = 0.95


@dataclass(frozen=True)
class Step:
    """A property of an exercise. A run ends at the first that fails, so later ones are reached by fewer."""

    name: str
    points: float
    reached: int
    passed: int

    def lost(self) -> int:
        return self.reached - self.passed


@dataclass(frozen=True)
class Item:
    """An exercise or a written question."""

    name: str
    students: int
    share: float  # of the points, on average
    discrimination: float | None  # None: too few, or all alike
    visible: float | None = None
    hidden: float | None = None
    steps: tuple[Step, ...] = ()
    waiting: int = 0  # written answers that have no mark yet
    blank: int = 0  # written answers that were left empty

    @property
    def hardest(self) -> Step | None:
        """The property at which most fail, of those who get there."""
        return max((step for step in self.steps if step.passed < step.reached), key=Step.lost, default=None)

    @property
    def remark(self) -> str:
        if self.discrimination is not None and self.discrimination < -LITTLE:
            return "Those who did well elsewhere fail here. Is the question clear?"
        if self.students and self.share >= EASY:
            return "Nearly everybody gets it right."
        if self.discrimination is not None and round(self.discrimination, 2) < LITTLE:
            return "Tells little about who did well elsewhere."
        if self.visible is not None and self.hidden is not None and self.visible - self.hidden >= 0.2:
            return "Many pass the visible cases and fail the hidden ones."
        return ""


def exercise_items(found: Sequence[Verdict]) -> list[Item]:
    """The exercises in the order of the notebook. What was not run says nothing; what was left empty counts 0; what is
    worth no points is left out."""
    graded = [v for v in found if v.status == "graded" and any(e.outcome != "not run" for e in v.exercises)]
    answers = [{e.name: e for e in verdict.exercises} for verdict in graded]
    in_order = (e for verdict in sorted(graded, key=lambda v: -len(v.exercises)) for e in verdict.exercises)
    names = dict.fromkeys(e.name for e in in_order if e.max_points + e.hidden_max_points > 0)
    return [exercise_item(name, [own for own in answers if name in own]) for name in names]


def exercise_item(name: str, answers: Sequence[dict[str, ExerciseVerdict]]) -> Item:
    these = [own[name] for own in answers]
    rest = [sum(points_of(e) for e in own.values() if e.name != name) for own in answers]
    return Item(
        name=name,
        students=len(these),
        share=share(sum(map(points_of, these)), sum(e.max_points + e.hidden_max_points for e in these)),
        discrimination=correlated([points_of(e) for e in these], rest),
        visible=share(sum(e.points for e in these), sum(e.max_points for e in these)),
        hidden=share(sum(e.hidden_points for e in these), sum(e.hidden_max_points for e in these)),
        steps=steps(name, these),
    )


def points_as_built(answer: ExerciseVerdict, exercise: Exercise) -> float:
    """The points in the checks that are shown, as if the class had left them as the exercise has them."""
    return round(share(answer.points, answer.max_points) * exercise.max_points, 6)


def points_of(answer: ExerciseVerdict) -> float:
    return answer.points + answer.hidden_points


def steps(name: str, answers: Sequence[ExerciseVerdict]) -> tuple[Step, ...]:
    """How far the answers get, without empty stubs."""
    exercise = all_exercises().get(name)
    if exercise is None:
        return ()
    tried = [points_as_built(a, exercise) for a in answers if a.outcome not in ("not attempted", "not run")]
    found, before = [], 0.0
    for prop in exercise.properties:
        after = before + prop.points
        reached = sum(points >= before for points in tried)
        found.append(Step(prop.name, prop.points, reached, sum(points >= after for points in tried)))
        before = after
    return tuple(found)


def written_items(marks: Sequence[Mark], found: Sequence[Verdict]) -> list[Item]:
    """The written questions. An answer that was left empty counts 0; one without a mark counts nowhere."""
    code = {verdict.student: verdict.points for verdict in found if verdict.status == "graded"}
    items = []
    for question in sorted({mark.question for mark in marks}):
        these = [mark for mark in marks if mark.question == question and mark.student in code]
        done = [mark for mark in these if not mark.awaits]
        scores = [mark.score or 0.0 for mark in done]
        items.append(
            Item(
                name=question,
                students=len(done),
                share=share(sum(scores), sum(mark.max_score for mark in done)),
                discrimination=correlated(scores, [code[mark.student] for mark in done]),
                waiting=len(these) - len(done),
                blank=sum(mark.is_blank and mark.score is None for mark in done),
            )
        )
    return items


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def correlated(first: Sequence[float], second: Sequence[float]) -> float | None:
    if len(first) < FEWEST:
        return None
    try:
        return correlation(first, second)
    except StatisticsError:  # all alike
        return None
