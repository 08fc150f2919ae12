"""Writes what nbgrader's own `autograde` would write into its gradebook. One writer, one commit per submission."""

from __future__ import annotations

import fcntl
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbformat.v4.rwbase import split_lines, strip_transient
from nbgrader import utils
from nbgrader.api import Assignment, Grade, Gradebook, MissingEntry, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import Connection, make_url, select, text
from sqlalchemy.exc import ArgumentError, SAWarning, SQLAlchemyError

from autograder.classroom import rows
from autograder.classroom.class_folder import CONFIG
from autograder.classroom.course import SECRET, STAMP, Course, CourseError
from autograder.files import indented_json
from autograder.judging.rebuild import master_notebook

LOCK = ".grading"  # in the course folder, with the number of the process that grades it


@contextmanager
def open_book(course: Course) -> Iterator[Gradebook]:
    """The gradebook for one writer. SQLite does not wait for the disk after every statement."""
    with opened(course) as gradebook:
        if gradebook.engine.dialect.name == "sqlite":
            gradebook.db.execute(text("PRAGMA journal_mode = WAL"))
            gradebook.db.execute(text("PRAGMA synchronous = NORMAL"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # nbgrader fills in a submission before it adds it
            yield gradebook


def opened(course: Course) -> Gradebook:
    """Open the gradebook, or raise a CourseError that says why it cannot be opened."""
    try:
        address = make_url(course.db_url)
        return course.gradebook()
    except ImportError as error:
        raise CourseError(
            f"The driver for this gradebook is not installed ({error.name}). "
            "For PostgreSQL: pip install 'psycopg[binary]', and --db postgresql+psycopg://USER@HOST/DATABASE"
        ) from None
    except ArgumentError:
        raise CourseError(
            "--db takes the address of a database, for example postgresql+psycopg://USER@HOST/DATABASE"
        ) from None
    except SQLAlchemyError as error:
        why = str(getattr(error, "orig", error)).strip().partition("\n")[0]
        raise CourseError(f"The gradebook {address.render_as_string()} cannot be opened: {why}") from None


@contextmanager
def one_at_a_time(course: Course) -> Iterator[None]:
    """Only one process at a time grades a class or releases. When a process ends, however it ends, the lock is free."""
    with (course.root / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            advice = "Wait until it is done, or stop it with Ctrl-C."
            raise CourseError(
                f"This class is being graded or released already, by process {file.read().strip()}. {advice}"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def master_of(course: Course, gradebook: Gradebook, assignment: str) -> NotebookNode:
    """The instructor's notebook as it was released, hidden checks included."""
    release = nbformat.read(course.release(assignment), as_version=4)
    try:
        notebook = gradebook.find_notebook(assignment, assignment)
    except MissingEntry:
        advice = f"Run: {course.command('release', assignment)}"
        raise CourseError(f"This gradebook does not know {assignment}. {advice}") from None
    return master_notebook(release, {cell.name: cell for cell in notebook.source_cells})


@dataclass(frozen=True)
class Score:
    """What the gradebook gives a submission, and what lateness has taken off."""

    points: float
    penalty: float


def entered(gradebook: Gradebook, assignment: str) -> dict[str, Score]:
    """student -> score, of all who have a submission of an assignment in this gradebook."""
    found = (
        select(SubmittedAssignment.student_id, SubmittedAssignment.score, SubmittedAssignment.late_submission_penalty)
        .join(SubmittedAssignment.assignment)
        .where(Assignment.name == assignment)
        .order_by(SubmittedAssignment.student_id)
    )
    return {
        student: Score(max(0.0, round(points - penalty, 4)), penalty)
        for student, points, penalty in gradebook.db.execute(found)
    }


def enter(
    course: Course, gradebook: Gradebook, assignment: str, student: str, judged: dict[str, Any] | None
) -> tuple[tuple[str, ...], float]:
    """Enter a submission; without a notebook, all of its cells get 0. Returns: notes on what was odd, the penalty."""
    db = gradebook.db.connection()
    rows.enter_student(db, student, known_of(course, student))
    time, notes = submission_time(course, assignment, student)
    known: dict[str, Any] = {"timestamp": time} if time else {}
    rules = course.rules().of(assignment)
    if rules.due is not None:
        known["extension"] = rules.extension(student, course.roster().extra_time(student)) or None
    submission, is_late = rows.enter_submission(db, assignment, student, known)
    notebook = rows.submitted_notebook(db, submission, assignment)
    if judged is None:
        rows.enter_scores(db, notebook, lambda _: 0.0)
        rows.enter_comments(db, notebook, lambda _: None)
    else:
        enter_grades(db, notebook, judged)
    gradebook.db.commit()
    penalty = 0.0
    if judged is not None and is_late:
        penalise(course, assignment, student)
        gradebook.db.expire_all()
        submitted = gradebook.find_submission_notebook(assignment, assignment, student)
        penalty = float(submitted.late_submission_penalty or 0.0)
    gradebook.db.expunge_all()
    return notes, penalty


def known_of(course: Course, student: str) -> dict[str, str]:
    """What the roster knows of a student, as nbgrader calls it."""
    person = course.roster().by_id.get(student)
    if person is None:
        return {}
    found = {"first_name": person.first_name, "last_name": person.last_name, "email": person.email}
    found["lms_user_id"] = person.canvas_id
    return {name: value for name, value in found.items() if value}


def enter_due_date(course: Course, gradebook: Gradebook, assignment: str) -> None:
    """The deadline that class.toml says. If it says none, what the gradebook has stays."""
    due = course.rules().of(assignment).due
    if due is not None and gradebook.find_assignment(assignment).duedate != due:
        gradebook.update_or_create_assignment(assignment, duedate=due)


def lateness(course: Course, gradebook: Gradebook, assignment: str, student: str) -> str:
    """What a penalty for lateness depends on: when it was handed in, when it was due, and what the class says about
    it. Without a due date nothing is late."""
    due = course.rules().of(assignment).due_for(student, course.roster().extra_time(student))
    if due is None:
        due = gradebook.find_assignment(assignment).duedate
        with suppress(MissingEntry):
            due = due and gradebook.find_submission(assignment, student).duedate  # with an extension
    own = course.root / CONFIG.name
    rules = own.read_text(encoding="utf-8", errors="replace") if due is not None and own.is_file() else ""
    late = str(course.rules().late) if due is not None else ""
    return "\0".join([timestamp_text(course, assignment, student), str(due or ""), late, rules])


def timestamp_text(course: Course, assignment: str, student: str) -> str:
    """The content of timestamp.txt beside a submission; empty if there is none."""
    path = course.submitted(assignment, student).parent / "timestamp.txt"
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""


def submission_time(course: Course, assignment: str, student: str) -> tuple[datetime | None, tuple[str, ...]]:
    """When it was handed in, as far as is known, and a note if that cannot be understood."""
    stamp = timestamp_text(course, assignment, student)
    try:
        return (utils.parse_utc(stamp) if stamp else None), ()
    except (ValueError, OverflowError):
        return None, (
            f"timestamp.txt does not contain a time: {stamp[:40]!r}. It is not known whether the submission was late.",
        )


def enter_grades(db: Connection, notebook: str, judged: dict[str, Any]) -> None:
    """As nbgrader's SaveAutoGrades: the machine's score, "No response.", and whether a person has to look."""
    named = [(cell["metadata"].get("nbgrader", {}).get("grade_id"), cell) for cell in judged["cells"]]
    cells = {name: nbformat.from_dict(cell) for name, cell in named if name is not None}
    rows.enter_scores(db, notebook, lambda name: utils.determine_grade(cells[name])[0])
    rows.enter_comments(db, notebook, lambda name: "No response." if is_unchanged(cells[name]) else None)


def is_unchanged(cell: NotebookNode) -> bool:
    return bool(cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell))


def flag(gradebook: Gradebook, assignment: str, student: str) -> None:
    """Leave it to a person: formgrader shows the notebook as flagged, and every score is open."""
    notebook = gradebook.find_submission_notebook(assignment, assignment, student)
    notebook.flagged = True
    for grade in notebook.grades:
        grade.auto_score = None
        grade.needs_manual_grade = True
    gradebook.db.commit()


def unflag(gradebook: Gradebook, assignment: str, student: str) -> None:
    """Remove our flag if there is no reason for it any more. What a person has flagged stays flagged."""
    gradebook.find_submission_notebook(assignment, assignment, student).flagged = False
    gradebook.db.commit()


def penalise(course: Course, assignment: str, student: str) -> None:
    """By the plugin for late submissions that nbgrader is configured with; the default one takes nothing off."""
    from nbgrader.preprocessors import AssignLatePenalties  # brings nbconvert along, and most classes need neither

    names = {"notebook": assignment, "assignment": assignment, "student": student, "db_url": course.db_url}
    AssignLatePenalties(config=course.config()).preprocess(new_notebook(), {"nbgrader": names})


def penalise_again(course: Course, gradebook: Gradebook, assignment: str) -> None:
    """A penalty is a part of the score, and marks given by hand since the last grading have changed the score."""
    penalised = gradebook.db.scalars(
        select(SubmittedAssignment.student_id)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .where(SubmittedAssignment.name == assignment, SubmittedNotebook.late_submission_penalty.is_not(None))
        .where(Grade.manual_score.is_not(None))
        .distinct()
    ).all()
    gradebook.db.commit()  # each penalty is written through a connection of its own
    for student in penalised:
        penalise(course, assignment, student)
    gradebook.db.expire_all()


def save_autograded(course: Course, assignment: str, student: str, judged: dict[str, Any]) -> Path:
    """Write the judged notebook where nbgrader, formgrader and feedback look for it."""
    path = course.autograded(assignment, student)
    course.ledger.write(path, notebook_text(judged) + "\n")
    for name in (STAMP, SECRET):
        copy_along(course, course.submitted(assignment, student).parent / name, path.parent)
    return path


def notebook_text(notebook: dict[str, Any]) -> str:
    """As nbformat.v4.writes, which takes several times as long."""
    copy = nbformat.from_dict(notebook)  # a whole one: what follows changes it
    return indented_json(strip_transient(split_lines(copy)), sort_keys=True)


def copy_along(course: Course, file: Path, folder: Path) -> None:
    """Copy a file that lies beside a submission to where the next step of nbgrader looks for it, if there is one."""
    if file.is_file():
        course.ledger.write(folder / file.name, file.read_bytes())


def came_by_exchange(course: Course, assignment: str) -> bool:
    """Whether anybody has handed in an assignment through nbgrader's exchange."""
    return any(course.root.glob(f"submitted/*/{assignment}/{SECRET}"))


def complete_for_exchange(course: Course, folder: Path) -> None:
    """nbgrader's release_feedback stops at the first student without these files. Students whose work came in another
    way get them too: an empty time, and a secret that nobody knows."""
    for name, content in ((STAMP, ""), (SECRET, secrets.token_hex(16))):
        if not (folder / name).exists():
            course.ledger.write(folder / name, content)
