"""What a notebook calls: `check`, `yours`, `hint`, `solution`, `progress` and `exercises`."""

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
from .checking.overview import Contents, Group, Line, Progress
from .checking.report import Report
from .checking.subject import Subject
from .notebooks import all_notebooks
from .surroundings import is_graded_run, is_validated

NOT_GIVEN = object()
SECONDS = 10.0  # of computing, on one input


@dataclass(frozen=True)
class Note:
    """A short text that is readable in a notebook and in a terminal."""

    text: str
    code: bool = False

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return coloured(self.text) if self.code else f'<div style="max-width:60em">{html.escape(self.text)}</div>'


def coloured(code: str) -> str:
    """Python code as HTML: coloured if Pygments is installed, as Jupyter does; long lines can be scrolled."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer

        text = highlight(code, PythonLexer(), HtmlFormatter(nowrap=True, noclasses=True))
    except ImportError:
        text = html.escape(code)
    style = "white-space:pre;overflow-x:auto;background:#f8f8f8;color:#111;padding:8px;line-height:1.4"
    return f'<pre class="course-code" style="{style}">{text}</pre>'


@dataclass(frozen=True)
class ExerciseInfo:
    """One exercise of the list."""

    name: str
    topic: str
    points: float
    hidden_points: float  # more when it is graded
    minutes: int
    difficulty: int


class ExerciseList(tuple[ExerciseInfo, ...]):
    """All exercises, in the order of the course."""

    def __repr__(self) -> str:
        return repr(Contents(groups()))

    def _repr_html_(self) -> str:
        return Contents(groups())._repr_html_()


class NoPoints(Exception):
    """A report on an answer without points. As a result, nbgrader's Validate would call it "partial credit"."""

    def _render_traceback_(self) -> list[str]:  # IPython's hook for an exception that shows itself
        return [str(self)]


def check(
    exercise: Any,
    obj: Any = NOT_GIVEN,
    *,
    practice: bool = False,
    seconds: float | None = SECONDS,
    points: float | None = None,
    hidden_points: float | None = None,
) -> Report:
    """Check an answer: `check(causal_mask)`, `check("causal_mask")`, or `check("causal_mask", anything)`.

    With `practice=True` the report is shown and nothing is recorded: no attempt, no progress.
    Code that computes for longer than `seconds` on one input is stopped; None lets it run.
    `points` and `hidden_points` are what a class gives for the exercise, if that is not what the course gives.

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
    limit = None if is_graded_run() else seconds  # nbgrader has its own
    report = refusal(found, obj) or grade(found, Subject(obj), seconds=limit)
    later = found.hidden_points if hidden_points is None else hidden_points
    later = 0.0 if is_graded_run() else later
    hints = () if is_graded_run() else tuple(found.hints)
    given = record.entry(found.name)["hints"]
    report = replace(report, hints_given=given, hints=hints, hidden_points=later)
    if not practice:
        record.note_report(report)
    if is_validated() and not practice and report.points == 0:
        raise NoPoints(str(report))
    return report if points is None else report.worth(points)


def yours(name: str, obj: Any) -> Any:
    """`obj` if it passes the check of this exercise now, else the course's own: `attend = yours("attend", attend)`.

    For demonstrations after a check: what you wrote drives them as soon as it is right. Nothing is recorded.
    """
    found = find(name)
    limit = None if is_graded_run() else SECONDS
    if refusal(found, obj) is None and grade(found, Subject(obj), seconds=limit, is_diagnosed=False).passed:
        return obj
    print(f"Your {found.name} does not pass its check yet, so the course's own is used here.")
    return found.reference


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
    again = "You have seen all of them; they start again. " if given and number == 0 else ""
    return Note(f"{again}Hint {number + 1} of {len(found.hints)}: {found.hints[number]}")


def solution(name: str) -> Note:
    """The reference for an exercise, once you have had a real attempt checked."""
    found = find(name)
    if not record.entry(found.name)["attempts"]:
        return Note(
            f"Try it once yourself first: write something, run check({found.name}), and the solution opens. "
            f'hint("{found.name}") helps you to start.'
        )
    return Note(inspect.getsource(found.reference), code=True)


def exercises() -> ExerciseList:
    """Every exercise of the course with its topic, points, minutes and difficulty."""
    return ExerciseList(
        ExerciseInfo(e.name, e.topic, e.max_points, e.hidden_points, e.minutes_for_newcomers, e.difficulty)
        for e in registry().values()
    )


def progress() -> Progress:
    """What you have done in this course so far, from the file beside the notebooks."""
    return Progress(groups())


def groups() -> tuple[Group, ...]:
    """The exercises by notebook, and how far each is."""
    lines = {found.name: line_of(found) for found in registry().values()}
    return tuple(
        Group(notebook, tuple(lines[e.name] for e in registry().values() if e.topic == notebook.topic))
        for notebook in all_notebooks()
    )


def line_of(found: Exercise) -> Line:
    entry = record.entry(found.name)
    return Line(
        found.name,
        points=entry["points"],
        max_points=found.max_points,
        hidden_points=found.hidden_points,
        minutes=found.minutes_for_newcomers,
        difficulty=found.difficulty,
        state={"right": "✓", "not attempted": "○"}.get(entry["outcome"], "◐"),
    )


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
