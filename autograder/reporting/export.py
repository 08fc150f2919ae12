"""Grades and findings as CSV: for an LMS, by exercise, by misconception.

grades.csv          nbgrader's own export: one line for each student and assignment, with scores given by hand
exercises.csv       one line for each student and exercise; of a student with none, one that says why
misconceptions.csv  one line for each misconception somebody holds

A spreadsheet would take a cell that begins with =, +, - or @ for a formula, and names come from students. Such a cell
gets a ' in front, which spreadsheets read as "this is text".
"""

from __future__ import annotations

import csv
import io
import locale
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

from autograder.classroom.course import Course, CourseError
from autograder.reporting.report import graded_assignments, has_gradebook, holders, read_verdicts, sentence_for

FORMULA_SIGNS = "=+-@＝＋－＠"  # the wide ones too, which some spreadsheets read as the others


def export(course: Course, folder: Path) -> list[Path]:
    """Write the three CSV files into the folder; UTF-8, always in the same order."""
    if not has_gradebook(course):
        raise CourseError("There is no gradebook yet, so there are no grades. First run: python -m autograder grade")
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_grades(course, folder / "grades.csv"),
        write_table(course, folder / "exercises.csv", EXERCISE_COLUMNS, exercise_rows(course)),
        write_table(course, folder / "misconceptions.csv", MISCONCEPTION_COLUMNS, misconception_rows(course)),
    ]


# --- for an LMS -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuotedStudent:
    """A student whose texts are safe cells already: nbgrader's exporter writes them as they are, commas and all."""

    id: str
    last_name: str
    first_name: str
    email: str


class QuotedGradebook:
    """As much of a gradebook as nbgrader's exporter asks for, with safe texts and a fixed order."""

    def __init__(self, gradebook: Gradebook):
        self.gradebook = gradebook
        self.assignments = gradebook.assignments
        everybody = sorted(gradebook.students, key=lambda s: (s.last_name or "", s.first_name or "", s.id))
        self.ids = {cell(student.id): student.id for student in everybody}
        self.students = [
            QuotedStudent(*(cell(text or "") for text in (s.id, s.last_name, s.first_name, s.email))) for s in everybody
        ]

    def find_submission(self, assignment: str, student: str) -> Any:
        return self.gradebook.find_submission(assignment, self.ids[student])


def write_grades(course: Course, path: Path) -> Path:
    with course.gradebook() as gradebook, tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch, path.name)
        CsvExportPlugin(to=str(draft)).export(QuotedGradebook(gradebook))
        text = draft.read_text(encoding=locale.getpreferredencoding(False))  # nbgrader writes as the system likes it
    course.ledger.write(path, text)
    return path


# --- findings -------------------------------------------------------------------------------------------

EXERCISE_COLUMNS = (
    "student",
    "assignment",
    "exercise",
    "outcome",
    "points",
    "max_points",
    "hidden_points",
    "hidden_max_points",
    "misconception",
)
MISCONCEPTION_COLUMNS = ("assignment", "exercise", "misconception", "sentence", "students", "student_ids")


def exercise_rows(course: Course) -> Iterator[Sequence[str | float]]:
    """By assignment and student, the exercises in the order of the notebook."""
    for assignment in graded_assignments(course):
        for verdict in read_verdicts(course, assignment):
            if not verdict.exercises:
                yield verdict.student, assignment, "", f"{verdict.status}: {verdict.reason}", 0.0, 0.0, 0.0, 0.0, ""
            for e in verdict.exercises:
                points = map(float, (e.points, e.max_points, e.hidden_points, e.hidden_max_points))
                yield verdict.student, assignment, e.name, e.outcome, *points, e.misconception or ""


def misconception_rows(course: Course) -> Iterator[Sequence[str | float]]:
    """By assignment, the most frequent first. Ids are separated by semicolons."""
    for assignment in graded_assignments(course):
        held = holders(read_verdicts(course, assignment))
        for (exercise, name), those in sorted(held.items(), key=lambda item: (-len(item[1]), item[0])):
            sentence = sentence_for(exercise, name, those[0][1])
            yield assignment, exercise, name, sentence, len(those), "; ".join(student for student, _ in those)


# --- cells ----------------------------------------------------------------------------------------------


def write_table(course: Course, path: Path, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> Path:
    table = io.StringIO()
    writer = csv.writer(table, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    writer.writerows([defused(value) if isinstance(value, str) else value for value in row] for row in rows)
    course.ledger.write(path, table.getvalue().encode("utf-8", errors="backslashreplace"))
    return path


def defused(text: str) -> str:
    """The text, with a ' in front if a spreadsheet would take it for a formula."""
    is_formula = text.lstrip()[:1] in FORMULA_SIGNS if text.strip() else False
    return f"'{text}" if is_formula or text[:1] in ("\t", "\r", "\n") else text


def cell(text: str) -> str:
    """One cell as it stands in a CSV file: defused and quoted."""
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="").writerow([defused(text)])
    return buffer.getvalue()
