"""The rows of one submission in nbgrader's tables: those that nbgrader's own Gradebook would write.

Statements instead of nbgrader's objects, because every submission of a class comes through here: to load, compare and
save an object for each cell takes several times as long. Nothing is committed here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from sqlalchemy import Connection, bindparam, insert, select, update

ASSIGNMENT, NOTEBOOK, CELL = Assignment.__table__, Notebook.__table__, BaseCell.__table__
STUDENT, SUBMISSION, SUBMITTED = Student.__table__, SubmittedAssignment.__table__, SubmittedNotebook.__table__
GRADE, COMMENT = Grade.__table__, Comment.__table__
GRADED, COMMENTED = {"GradeCell", "TaskCell"}, {"SolutionCell", "TaskCell"}  # nbgrader's types of cells


def enter_student(db: Connection, student: str, known: dict[str, str]) -> None:
    """Add somebody, or what is known about somebody who is there."""
    if db.execute(select(STUDENT.c.id).where(STUDENT.c.id == student)).first() is None:
        db.execute(insert(STUDENT), {"id": student, **known})
    elif known:
        db.execute(update(STUDENT).where(STUDENT.c.id == student).values(known))


def enter_submission(db: Connection, assignment: str, student: str, known: dict[str, Any]) -> tuple[str, bool]:
    """Add a submission, or what is known about one that is there. Returns: its id, and whether it was late."""
    master = db.execute(select(ASSIGNMENT.c.id, ASSIGNMENT.c.duedate).where(ASSIGNMENT.c.name == assignment)).one()
    found = db.execute(
        select(SUBMISSION.c.id, SUBMISSION.c.timestamp, SUBMISSION.c.extension).where(
            SUBMISSION.c.assignment_id == master.id, SUBMISSION.c.student_id == student
        )
    ).first()
    if found is None:
        return add_submission(db, master.id, student, known), is_late(master.duedate, **known)
    if known:
        db.execute(update(SUBMISSION).where(SUBMISSION.c.id == found.id).values(known))
    return found.id, is_late(master.duedate, **{"timestamp": found.timestamp, "extension": found.extension, **known})


def is_late(due: datetime | None, timestamp: datetime | None = None, extension: timedelta | None = None) -> bool:
    return timestamp is not None and due is not None and timestamp > due + (extension or timedelta())


def add_submission(db: Connection, assignment_id: str, student: str, known: dict[str, Any]) -> str:
    """A submission with a place for each score and each comment of its notebooks. Returns: its id."""
    submission = new_uuid()
    db.execute(insert(SUBMISSION), {"id": submission, "assignment_id": assignment_id, "student_id": student, **known})
    for master in db.scalars(select(NOTEBOOK.c.id).where(NOTEBOOK.c.assignment_id == assignment_id)).all():
        notebook = new_uuid()
        db.execute(insert(SUBMITTED), {"id": notebook, "notebook_id": master, "assignment_id": submission})
        cells = db.execute(select(CELL.c.id, CELL.c.type).where(CELL.c.notebook_id == master)).all()
        for table, types in ((GRADE, GRADED), (COMMENT, COMMENTED)):
            rows = [{"cell_id": cell.id, "notebook_id": notebook} for cell in cells if cell.type in types]
            if rows:
                db.execute(insert(table), rows)
    return submission


def submitted_notebook(db: Connection, submission: str, name: str) -> str:
    """The id of a notebook of a submission, without a penalty for lateness."""
    found = (
        select(SUBMITTED.c.id).join(NOTEBOOK).where(SUBMITTED.c.assignment_id == submission, NOTEBOOK.c.name == name)
    )
    notebook = db.scalars(found).one()
    db.execute(update(SUBMITTED).where(SUBMITTED.c.id == notebook).values(late_submission_penalty=None))
    return str(notebook)


def enter_scores(db: Connection, notebook: str, score_of: Callable[[str], float | None]) -> None:
    """The machine's score of each graded cell, by its name, and whether a person has to look."""
    found = select(GRADE.c.id, GRADE.c.manual_score, CELL.c.name).join(CELL, isouter=True)
    rows = []
    for grade in db.execute(found.where(GRADE.c.notebook_id == notebook)):
        score = score_of(grade.name)
        rows.append({"row": grade.id, "score": score, "open": grade.manual_score is not None or score is None})
    if rows:
        change = update(GRADE).where(GRADE.c.id == bindparam("row"))
        db.execute(change.values(auto_score=bindparam("score"), needs_manual_grade=bindparam("open")), rows)


def enter_comments(db: Connection, notebook: str, comment_on: Callable[[str], str | None]) -> None:
    """The machine's comment on each answer, by the name of its cell."""
    found = select(COMMENT.c.id, CELL.c.name).join(CELL, isouter=True).where(COMMENT.c.notebook_id == notebook)
    rows = [{"row": comment.id, "comment": comment_on(comment.name)} for comment in db.execute(found)]
    if rows:
        change = update(COMMENT).where(COMMENT.c.id == bindparam("row"))
        db.execute(change.values(auto_comment=bindparam("comment")), rows)
