"""What nbgrader's gradebook knows about a class: people, scores, and the marks of written answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import (
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    SolutionCell,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy import make_url

from autograder.classroom.course import Course


@dataclass(frozen=True)
class Entry:
    """What the gradebook knows about one submission."""

    score: float
    max_score: float
    code_score: float
    max_code_score: float
    seconds_late: float
    penalty: float
    by_hand: int  # scores given by a person
    awaits_marks: bool


@dataclass(frozen=True)
class Mark:
    """One written answer as the gradebook has it."""

    student: str
    question: str
    max_score: float
    score: float | None  # given by a person
    is_blank: bool  # nothing was written, so there is nothing to mark
    graded_since: bool  # it was graded again after it had been marked
    comment: str

    @property
    def awaits(self) -> bool:
        return self.score is None and not self.is_blank


def has_gradebook(course: Course) -> bool:
    """Whether there is one already: opening an SQLite file that is not there would create it."""
    url = make_url(course.db_url)
    return url.get_backend_name() != "sqlite" or Path(url.database or "").exists()


def people(course: Course) -> dict[str, str]:
    """id -> the name to show, of everybody on the roster or in the gradebook."""
    found = {person.id: person.name for person in course.roster().by_id.values()}
    if has_gradebook(course):
        with course.gradebook() as gradebook:
            found = full_names(gradebook) | {id: name for id, name in found.items() if name}
    return told_apart(found)


def class_list(course: Course) -> list[str]:
    """The ids of all who are in the class: those on the roster, or, without one, all in the gradebook."""
    return sorted(course.roster().by_id or people(course))


def names_in(gradebook: Gradebook) -> dict[str, str]:
    """id -> the name to show, of everybody in the gradebook, into which the roster's names go."""
    return told_apart(full_names(gradebook))


def full_names(gradebook: Gradebook) -> dict[str, str]:
    return {s.id: " ".join(filter(None, (s.first_name, s.last_name))).strip() for s in gradebook.students}


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Whoever has no name is called by the id, and two of one name are told apart by it."""
    times = Counter(names.values())
    return {id: (f"{name} ({id})" if times[name] > 1 else name) if name else id for id, name in names.items()}


def awaiting_cells(gradebook: Gradebook, assignment: str) -> dict[str, set[str]]:
    """student -> the grade ids that have no score before a person has looked at them."""
    rows = (
        gradebook.db.query(SubmittedAssignment.student_id, BaseCell.name)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == Grade.cell_id)
        .filter(SubmittedAssignment.name == assignment, Grade.manual_score.is_(None), Grade.auto_score.is_(None))
    )
    found: dict[str, set[str]] = {}
    for student, cell in rows:
        found.setdefault(student, set()).add(cell)
    return found


def gradebook_entries(course: Course, assignment: str) -> dict[str, Entry]:
    """student -> what the gradebook knows."""
    if not has_gradebook(course):
        return {}
    awaiting = {mark.student for mark in written_marks(course, assignment) if mark.awaits}
    with course.gradebook() as gradebook:
        by_hand = Counter(
            student
            for (student,) in gradebook.db.query(SubmittedAssignment.student_id)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .filter(SubmittedAssignment.name == assignment, Grade.manual_score.is_not(None))
        )
        return {
            s.student_id: Entry(
                score=s.score,
                max_score=s.max_score,
                code_score=s.code_score,
                max_code_score=s.max_code_score,
                seconds_late=s.total_seconds_late,
                penalty=s.late_submission_penalty or 0.0,
                by_hand=by_hand[s.student_id],
                awaits_marks=s.student_id in awaiting,
            )
            for s in gradebook.assignment_submissions(assignment)
        }


def written_marks(course: Course, assignment: str) -> list[Mark]:
    """The marks of all written answers of an assignment, by question and student."""
    if not has_gradebook(course):
        return []
    with course.gradebook() as gradebook:
        submitted = gradebook.db.query(SubmittedAssignment.student_id).join(
            SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id
        )
        comments = (
            submitted.add_columns(SolutionCell.name, Comment.manual_comment)
            .join(Comment, Comment.notebook_id == SubmittedNotebook.id)
            .join(SolutionCell, SolutionCell.id == Comment.cell_id)
            .filter(SubmittedAssignment.name == assignment, Comment.manual_comment.is_not(None))
        )
        said = {(student, question): comment for student, question, comment in comments}
        grades = (
            submitted.add_columns(
                GradeCell.name, GradeCell.max_score, Grade.manual_score, Grade.auto_score, Grade.needs_manual_grade
            )
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .join(GradeCell, GradeCell.id == Grade.cell_id)
            .filter(SubmittedAssignment.name == assignment, GradeCell.cell_type == "markdown")
        )
        found = [
            Mark(
                student,
                name,
                most,
                by_hand,
                auto is not None,
                by_hand is not None and open_,
                said.get((student, name), ""),
            )
            for student, name, most, by_hand, auto, open_ in grades
        ]
    return sorted(found, key=lambda mark: (mark.question, mark.student))
