"""What the judge found in one submission. Kept as a JSON file, for the report, for export and for regrading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.classroom.course import Course
from autograder.files import indented_json

Status = Literal["graded", "zeroed", "flagged"]
NOT_RUN = "not-run"  # the id of a cell that only the notebook has which stands for a submission that could not be run


@dataclass(frozen=True)
class ExerciseVerdict:
    """One exercise of one submission. `outcome` is a report's, or "not run" if the student's code never got that
    far."""

    name: str
    outcome: str
    points: float
    max_points: float
    hidden_points: float
    hidden_max_points: float
    misconception: str | None = None  # its id; two of them are joined by " + "
    sentence: str | None = None  # what the student is told about it
    message: str = ""  # of the first property that fails
    answer: str = ""  # the student's cell


@dataclass(frozen=True)
class Verdict:
    """One submission: graded, zeroed with a reason, or flagged for a person with a reason."""

    student: str
    assignment: str
    status: Status
    reason: str = ""
    exercises: tuple[ExerciseVerdict, ...] = ()
    notes: tuple[str, ...] = ()  # what was odd about the file, and what happened while it ran
    walls: tuple[str, ...] = ()  # behind which the student's code ran
    seconds: float = 0.0  # from taking the submission up to its verdict
    cell_seconds: float = 0.0  # of these, spent in the student's own cells
    peak_megabytes: float = 0.0  # of the process that ran the student's code
    digest: str = ""  # of the submitted file and of everything that judged it: equal digests need no regrading
    hidden_seed: str = ""  # a digest of it: tells whether two submissions met the same hidden cases
    graded_at: str = ""  # UTC, ISO 8601
    penalty: float = 0.0  # points taken off for lateness

    @property
    def points(self) -> float:
        return sum(e.points + e.hidden_points for e in self.exercises)

    @property
    def max_points(self) -> float:
        return sum(e.max_points + e.hidden_max_points for e in self.exercises)


def write_verdict(course: Course, verdict: Verdict) -> Path:
    """Write a verdict so that a reader never sees half of it."""
    path = course.verdict(verdict.assignment, verdict.student)
    course.ledger.write(path, indented_json(asdict(verdict)) + "\n")
    return path


def read_verdict(path: Path) -> Verdict:
    return verdict_from(json.loads(path.read_text(encoding="utf-8")))


def verdict_from(data: dict[str, Any]) -> Verdict:
    """The verdict from its JSON data."""
    exercises = tuple(ExerciseVerdict(**exercise) for exercise in data.pop("exercises"))
    if not all(isinstance(points, int | float) for e in exercises for points in (e.points, e.hidden_points)):
        raise ValueError("points that are not numbers")
    tuples: dict[str, Any] = {name: tuple(data.pop(name)) for name in ("notes", "walls")}
    return Verdict(exercises=exercises, **tuples, **data)


def verdicts(course: Course, assignment: str) -> Iterator[Verdict]:
    """The verdicts on all submissions of an assignment, by student."""
    for path in sorted(course.verdict(assignment, "*").parent.glob("*.json")):
        try:
            yield read_verdict(path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            advice = f"Run: {course.command('grade', assignment)}"
            reason = f"The verdict cannot be read ({type(error).__name__}: {str(error)[:100]}). {advice}"
            yield Verdict(path.stem, assignment, "flagged", reason)
