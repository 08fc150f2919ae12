"""What a notebook calls: `check`, `hint`, `solution`, `progress` and `exercises`."""

from __future__ import annotations

import html
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from .checking import record
from .checking.exercise import Exercise
from .checking.grading import grade, refusal
from .checking.report import Report
from .checking.subject import Subject

NOT_GIVEN = object()
SECONDS = 10.0  # of computing, on one input


@dataclass(frozen=True)
class Note:
    """A short text that shows itself well in a notebook and in a terminal."""

    text: str
    code: bool = False

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        escaped = html.escape(self.text)
        return f"<pre>{escaped}</pre>" if self.code else f'<div style="max-width:60em">{escaped}</div>'


@dataclass(frozen=True)
class ExerciseInfo:
    """One line of the list of exercises."""

    name: str
    topic: str
    points: float
    hidden_points: float  # more when it is graded
    minutes: int
    difficulty: int


@dataclass(frozen=True)
class Table:
    """A small table that shows itself well in a notebook and in a terminal."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="text-align:left">{html.escape(c)}</th>' for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(c)}</td>' for c in row) + "</tr>"
            for row in self.rows
        )
        return f"<table><tr>{head}</tr>{body}</table>"


class ExerciseList(tuple[ExerciseInfo, ...]):
    """All exercises, in the order of the course."""

    def table(self) -> Table:
        rows = [
            (e.name, e.topic, f"{e.points:g}", f"+ {e.hidden_points:g}", str(e.minutes), "●" * e.difficulty)
            for e in self
        ]
        return Table(("exercise", "topic", "points here", "when graded", "minutes", "difficulty"), tuple(rows))

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def check(exercise: Any, obj: Any = NOT_GIVEN, *, practice: bool = False, seconds: float | None = SECONDS) -> Report:
    """Check an answer: `check(causal_mask)`, `check("causal_mask")`, or `check("causal_mask", anything)`.

    With `practice=True` the report is shown and nothing is recorded: no attempt, no progress.
    Code that computes for longer than `seconds` on one input is stopped; None lets it run.

    The report has `.name`, `.points`, `.max_points`, `.passed`, `.outcome` ("not attempted", "raised", "wrong" or
    "right"), `.checks` and `.misconception`. As the last line of a graded cell it gives nbgrader the exact score.
    """
    if obj is NOT_GIVEN and isinstance(exercise, str):
        obj = defined_in_the_notebook(find(exercise).name)
    elif obj is NOT_GIVEN:
        if not hasattr(exercise, "__name__"):
            raise TypeError('Say which exercise this is: check("causal_mask", answer).')
        exercise, obj = exercise.__name__, exercise
    found = find(exercise)
    limit = None if record.is_graded_run() else seconds  # nbgrader has its own
    report = refusal(found, obj) or grade(found, Subject(obj), seconds=limit)
    later = 0.0 if record.is_graded_run() else found.hidden_points
    report = replace(report, hints_given=record.entry(found.name)["hints"], hidden_points=later)
    if not practice:
        record.note_report(report)
    return report


def defined_in_the_notebook(name: str) -> Any:
    """The object of this name in the notebook, or in the program that was started."""
    namespace = vars(sys.modules["__main__"])  # also a notebook's: its kernel is the program
    if name not in namespace:
        raise NameError(f"There is no {name} in this notebook yet. Run the cell that defines it first.")
    return namespace[name]


def hint(name: str) -> Note:
    """The next hint for an exercise, from a nudge to nearly the code. After the last one they start again."""
    found = find(name)
    given = record.note_hint(found.name)
    number = given % len(found.hints)
    again = "You have seen all of them; from the start again. " if given and number == 0 else ""
    return Note(f"{again}Hint {number + 1} of {len(found.hints)}: {found.hints[number]}")


def solution(name: str) -> Note:
    """The reference for an exercise, once you have had a real attempt checked."""
    found = find(name)
    if not record.entry(found.name)["attempts"]:
        return Note(
            f"Try it once yourself first: write something, run check({found.name}), and the solution opens. "
            f'hint("{found.name}") helps to begin.'
        )
    return Note(inspect.getsource(found.reference), code=True)


def exercises() -> ExerciseList:
    """Every exercise of the course with its topic, points, minutes and difficulty."""
    return ExerciseList(
        ExerciseInfo(e.name, e.topic, e.max_points, e.hidden_points, e.minutes, e.difficulty)
        for e in registry().values()
    )


def progress() -> Table:
    """What is done in this course so far, from the file beside the notebooks."""
    marks = {"right": "✓ done", "wrong": "◐ begun", "raised": "◐ begun", "stopped": "◐ begun", "not attempted": "○"}
    rows = []
    total = 0.0
    for found in registry().values():
        entry = record.entry(found.name)
        total += entry["points"]
        points = f"{entry['points']:g} / {found.max_points:g}"
        rows.append((found.topic, found.name, marks[entry["outcome"]], points, f"+ {found.hidden_points:g}"))
    possible, later = (sum(getattr(e, kind) for e in registry().values()) for kind in ("max_points", "hidden_points"))
    rows.append(("all", "", "", f"{total:g} / {possible:g}", f"+ {later:g}"))
    return Table(("topic", "exercise", "state", "points here", "when graded"), tuple(rows))


def registry() -> dict[str, Exercise]:
    """All exercises by name. Imported only when needed: building their cases takes a moment."""
    from .exercises import all_exercises

    return all_exercises()


def find(name: Any) -> Exercise:
    known: Sequence[str] = list(registry())
    if not isinstance(name, str):
        raise TypeError(f"An exercise is named by a string such as {known[0]!r}, not by {type(name).__name__}.")
    if name not in known:
        near = get_close_matches(name, known, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else " exercises() lists all of them."
        raise ValueError(f"There is no exercise called {name!r}.{guess}")
    return registry()[name]
