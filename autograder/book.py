"""Writes into nbgrader's gradebook what nbgrader's own `autograde` would write. One writer, one commit a submission."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook, SubmittedNotebook
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import text
from sqlalchemy.exc import SAWarning

from autograder.course import Course, CourseError
from autograder.rebuild import master_notebook


@contextmanager
def open_book(course: Course) -> Iterator[Gradebook]:
    """The gradebook for one writer. SQLite is told not to wait for the disk after every line."""
    with course.gradebook() as gradebook:
        if gradebook.engine.dialect.name == "sqlite":
            gradebook.db.execute(text("PRAGMA journal_mode = WAL"))
            gradebook.db.execute(text("PRAGMA synchronous = NORMAL"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # nbgrader fills in a submission before it adds it
            yield gradebook


def master_of(course: Course, gradebook: Gradebook, assignment: str) -> NotebookNode:
    """The instructor's notebook as it was released, hidden checks included."""
    if not course.release(assignment).exists():
        raise CourseError(f"{assignment} has not been released. Run: python -m autograder release {assignment}")
    release = nbformat.read(course.release(assignment), as_version=4)
    notebook = gradebook.find_notebook(assignment, assignment)
    return master_notebook(release, {cell.name: cell for cell in notebook.source_cells})


def enter(course: Course, gradebook: Gradebook, assignment: str, student: str, judged: NotebookNode | None) -> float:
    """Enter a submission; without a notebook, all of its cells get 0. Returns: seconds late."""
    gradebook.update_or_create_student(student)
    handed_in = course.submitted(assignment, student).parent
    timestamp = utils.parse_utc((handed_in / "timestamp.txt").read_text()) if has_timestamp(handed_in) else None
    submission = gradebook.update_or_create_submission(
        assignment, student, **({"timestamp": timestamp} if timestamp else {})
    )
    (notebook,) = [nb for nb in submission.notebooks if nb.name == assignment]
    notebook.flagged = False
    if judged is None:
        enter_zeros(notebook)
    else:
        enter_grades(notebook, judged)
    late = float(submission.total_seconds_late)
    gradebook.db.commit()
    if judged is not None and late > 0:
        penalise(course, assignment, student, judged)
    gradebook.db.expunge_all()
    return late


def has_timestamp(folder: Path) -> bool:
    return (folder / "timestamp.txt").is_file()


def enter_grades(notebook: SubmittedNotebook, judged: NotebookNode) -> None:
    """As nbgrader's SaveAutoGrades: the machine's score, "No response.", and whether a person has to look."""
    cells = {c.metadata.nbgrader.grade_id: c for c in judged.cells if "grade_id" in c.metadata.get("nbgrader", {})}
    for grade in notebook.grades:
        grade.auto_score, _ = utils.determine_grade(cells[grade.name])
        grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
    for comment in notebook.comments:
        cell = cells[comment.name]
        unchanged = cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
        comment.auto_comment = "No response." if unchanged else None


def enter_zeros(notebook: SubmittedNotebook) -> None:
    for grade in notebook.grades:
        grade.auto_score = 0.0
        grade.needs_manual_grade = False


def flag(gradebook: Gradebook, assignment: str, student: str) -> None:
    """For a person: formgrader shows the notebook as flagged, and every score is open."""
    submission = gradebook.find_submission_notebook(assignment, assignment, student)
    submission.flagged = True
    for grade in submission.grades:
        grade.auto_score = None
        grade.needs_manual_grade = True
    gradebook.db.commit()


def penalise(course: Course, assignment: str, student: str, judged: NotebookNode) -> None:
    """By the plugin for late submissions that nbgrader is configured with; the default one takes nothing off."""
    names = {"notebook": assignment, "assignment": assignment, "student": student, "db_url": course.db_url}
    AssignLatePenalties(config=course.config()).preprocess(judged, {"nbgrader": names})


def save_autograded(course: Course, assignment: str, student: str, judged: NotebookNode) -> Path:
    """Write the judged notebook where nbgrader, formgrader and feedback look for it."""
    path = course.autograded(assignment, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(nbformat.writes(judged, version=nbformat.NO_CONVERT) + "\n", encoding="utf-8")
    os.replace(draft, path)
    handed_in = course.submitted(assignment, student).parent
    if has_timestamp(handed_in):
        (path.parent / "timestamp.txt").write_text((handed_in / "timestamp.txt").read_text())
    return path
