"""Grades a class: plans what is to be done, has it done by several workers, and writes the results.

One process writes: the gradebook, the autograded notebooks and the verdicts. Workers judge (see `work`), in processes
forked from this one or on a Dask cluster. A verdict is written when everything else of its submission is, so whatever
has a verdict is done, and an interrupted run continues where it stopped.
"""

from __future__ import annotations

import contextlib
import gc
import html
import json
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, cast

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook
from sqlalchemy.exc import SQLAlchemyError

from autograder.classroom import book
from autograder.classroom.class_file import AssignmentRules
from autograder.classroom.course import Course, CourseError
from autograder.classroom.placing import choose_version
from autograder.hidden import all_hidden
from autograder.judging import work
from autograder.judging.judge import (
    CHECK,
    HIDDEN,
    SET_UP,
    Patience,
    error_output,
    exercise_of,
    exercises_in,
    grade_id_of,
    is_set_up,
    is_written_answer,
    optional_exercise,
    points_in,
)
from autograder.judging.rebuild import submitted_text
from autograder.judging.verdict import NOT_RUN, Verdict, read_verdict, write_verdict
from autograder.judging.work import Result, Task
from autograder.project import SOLUTIONS, written_points_in
from autograder.walls.sight import class_folders
from autograder.walls.warm import Warm
from course_lib.exercises import all_exercises

ATTEMPTS = 2  # at a submission that takes its worker down
# A judge watches over the time of its submission itself. This long after that time is up, it is stopped from outside.
JUDGES_OWN_SECONDS = 120.0
LOOKING_SECONDS = 1.0  # between two checks for overdue workers


@dataclass(frozen=True)
class Change:
    """A submission whose score changed when it was regraded."""

    student: str
    before: float
    after: float
    exercises: tuple[str, ...]  # in which it changed; maybe the late penalty


@dataclass
class Summary:
    """What came of grading an assignment."""

    assignment: str
    graded: list[Verdict] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # not reached, after an interruption
    notes: list[str] = field(default_factory=list)  # on the assignment

    def with_status(self, status: str) -> list[Verdict]:
        return [verdict for verdict in self.graded if verdict.status == status]


class Workers(Protocol):
    """The processes that do the work: they take tasks and give results in any order."""

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]: ...


def grade(
    course: Course,
    assignment: str,
    workers: Workers,
    *,
    students: Iterable[str] | None = None,
    force: bool = False,
    patience: Patience | None = None,
    walls: tuple[str, ...] | None = None,
    progress: Callable[[Verdict | str, int], None] = lambda _, __: None,
) -> Summary:
    """Grade the submissions of an assignment that are new or have changed (with `force`: all).

    `progress` is told of each submission that is done (its verdict, or the name if it is unchanged), and of how many.
    """
    summary = Summary(assignment)
    require_submissions(course, assignment)
    with book.one_at_a_time(course), book.open_book(course) as gradebook:
        tasks = plan(course, gradebook, assignment, students, patience or Patience(), walls)
        summary.notes += deadline_of_the_gradebook(course, gradebook, assignment)
        entered = book.entered(gradebook, assignment)
        todo = [task for task in tasks if force or task.student not in entered or not is_done(course, task)]
        todo_names = {task.student for task in todo}
        judged_before = {student: last_verdict(course, assignment, student) for student in todo_names}
        summary.unchanged = [task.student for task in tasks if task.student not in todo_names]
        for student in summary.unchanged:
            progress(student, len(tasks))
        left = dict.fromkeys(task.student for task in todo)
        try:
            for result in workers.results(todo):
                verdict = save_or_flag(course, gradebook, assignment, result, summary)
                del left[verdict.student]
                progress(verdict, len(tasks))
        except KeyboardInterrupt:
            summary.left = list(left)
        except (SQLAlchemyError, OSError) as error:
            saved = "What was finished is saved: the same command continues from there."
            raise CourseError(f"No more can be saved ({type(error).__name__}: {error}). {saved}") from error
        book.penalise_again(course, gradebook, assignment)  # marks may have been given in formgrader
        judged_now = {verdict.student: verdict for verdict in summary.graded}
        for student, now in book.entered(gradebook, assignment).items():
            old, new = judged_before.get(student), judged_now.get(student)
            before = with_dropped(entered.get(student), old, new)
            summary.changes += changes(student, before, now, different_exercises(old, new))
    return summary


def deadline_of_the_gradebook(course: Course, gradebook: Gradebook, assignment: str) -> Iterator[str]:
    """A sentence about a deadline that class.toml does not name: somebody may have removed it there."""
    rules = course.rules()
    due = gradebook.find_assignment(assignment).duedate
    if due is not None and rules.of(assignment).due is None:
        when = rules.shown(due.replace(tzinfo=UTC))
        yield f"class.toml names no deadline for {assignment}, so that of the gradebook counts: {when}."


def require_submissions(course: Course, assignment: str) -> list[str]:
    """Everybody who handed in something for a released assignment."""
    if not course.release(assignment).exists():
        raise CourseError(f"{assignment} has not been released. Run: {course.command('release', assignment)}")
    everybody = course.students(assignment)
    if not everybody:
        where = course.root / "submitted"
        advice = f"Run: {course.command('collect', 'DOWNLOAD')}"
        raise CourseError(f"There are no submissions of {assignment} in {where}. {advice}")
    return everybody


def plan(
    course: Course,
    gradebook: Gradebook,
    assignment: str,
    students: Iterable[str] | None,
    patience: Patience,
    walls: tuple[str, ...] | None,
) -> list[Task]:
    """A task for each submission."""
    everybody = require_submissions(course, assignment)
    chosen = everybody if students is None else list(dict.fromkeys(students))
    missing = sorted(set(chosen) - set(everybody))
    if missing:
        raise CourseError(f"{missing[0]} has handed in nothing for {assignment}.")
    seed = course.hidden_seed()
    released = book.master_of(course, gradebook, assignment)
    require_current_points(course, course.rules().of(assignment), released)
    book.enter_due_date(course, gradebook, assignment)
    master = json.dumps(released)
    folders = class_folders(course.root, course.db)
    tasks = []
    for student in chosen:
        choose_version(course, assignment, student, course.rules(), course.roster())
        text, unreadable = handed_in(course, assignment, student)
        digest = work.digest(text, master, seed, book.lateness(course, gradebook, assignment, student))
        task = Task(assignment, student, text, master, digest, patience, walls=walls, folders=folders, seed=seed)
        tasks.append(replace(task, unreadable=unreadable, digest="" if unreadable else digest))
    return tasks


def require_current_points(course: Course, rules: AssignmentRules, released: NotebookNode) -> None:
    """Refuse points and exercises that differ from those of the released notebook: a perfect answer could lose some."""
    release = course.command("release", rules.name)
    again = f"Release again, then grade (no submission and no mark is lost): {release}"
    for cell in released.cells:
        name = exercise_of(cell) if cell.cell_type == "code" else None
        if name is None:
            continue
        if rules.is_dropped(name):
            raise CourseError(f"{name} does not count in {rules.name} any more, by class.toml. {again}")
        visible, hidden = rules.worth(name, all_exercises()[name].max_points, all_hidden()[name].points)
        is_visible = cell.metadata.nbgrader.grade_id.endswith(CHECK)
        worth, points = visible if is_visible else hidden, cell.metadata.nbgrader.points
        if points != worth:
            raise CourseError(
                f"{name} is worth {worth:g} points on the {'visible' if is_visible else 'hidden'} cases now, but was "
                f"worth {points:g} when {rules.name} was released. {again}"
            )
    optional = [name for cell in released.cells if (name := optional_exercise(cell)) and not rules.is_dropped(name)]
    if optional:
        raise CourseError(f"{optional[0]} counts in {rules.name} now, by class.toml, and did not before. {again}")
    require_current_content(rules, released, again)


def require_current_content(rules: AssignmentRules, released: NotebookNode, again: str) -> None:
    """The same for the notebooks that an assignment is made of, and for written answers."""
    before = [grade_id_of(cell).removeprefix(SET_UP) for cell in released.cells if is_set_up(cell)]
    if before != list(rules.notebooks):
        now, then = ", ".join(rules.notebooks), ", ".join(before)
        raise CourseError(f"{rules.name} is made from {now} by class.toml, but was released from {then}. {again}")
    sources = [(SOLUTIONS / f"{stem}.py").read_text(encoding="utf-8") for stem in rules.notebooks]
    written = {name: points for source in sources for name, points in written_points_in(source).items()}
    for cell in filter(is_written_answer, released.cells):
        name, points = grade_id_of(cell), cell.metadata.nbgrader.points
        worth = rules.points.get(name, written.get(name, points))
        if points != worth:
            then = f"was worth {points:g} when {rules.name} was released"
            raise CourseError(f"{name} is worth {worth:g} points now, but {then}. {again}")
    topics = {stem.partition("_")[2] for stem in rules.notebooks}
    known = {exercise.name for exercise in all_exercises().values() if exercise.topic in topics} | written.keys()
    unknown = sorted({*rules.drop, *rules.exercises, *rules.points} - known)
    if unknown:
        raise CourseError(f"class.toml names {unknown[0]}, which {rules.name} does not have. Correct it. {again}")


def handed_in(course: Course, assignment: str, student: str) -> tuple[str | None, str]:
    """The text of a submission, whatever bytes it is made of, or None; and why it cannot be read, if it cannot."""
    path = course.submitted(assignment, student)
    try:
        return (submitted_text(path) if path.is_file() else None), ""
    except OSError as error:
        return None, f"{path.name} cannot be read ({error.strerror}): repair its permissions, then grade again."


def is_done(course: Course, task: Task) -> bool:
    """Whether there is a verdict on exactly this, and the judged notebook that belongs to it."""
    verdict = last_verdict(course, task.assignment, task.student)
    has_notebook = course.autograded(task.assignment, task.student).exists()
    return verdict is not None and verdict.digest in (task.digest, task.digest_in_time) and has_notebook


def last_verdict(course: Course, assignment: str, student: str) -> Verdict | None:
    """Also None if the file cannot be read: then the submission is graded again."""
    try:
        return read_verdict(course.verdict(assignment, student))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# --- results --------------------------------------------------------------------------------------------------------


def save_or_flag(course: Course, gradebook: Gradebook, assignment: str, result: Result, summary: Summary) -> Verdict:
    """Enter a result; if that fails, enter that it failed."""
    try:
        return save(course, gradebook, assignment, result, summary)
    except (SQLAlchemyError, OSError, ValueError, KeyError) as error:
        gradebook.db.rollback()
        reason = f"The result could not be entered ({type(error).__name__}: {error}): a person has to look."
        return save(
            course, gradebook, assignment, Result(replace(result.verdict, status="flagged", reason=reason)), summary
        )


def save(course: Course, gradebook: Gradebook, assignment: str, result: Result, summary: Summary) -> Verdict:
    """Enter a result everywhere, the verdict last."""
    verdict = result.verdict
    judged = None if result.notebook is None else json.loads(result.notebook)
    if judged is None:
        verdict = replace(verdict, exercises=without_points(course, assignment))
    book.save_autograded(course, assignment, verdict.student, judged or stand_in(course, verdict))
    verdict = enter(course, gradebook, verdict, judged)
    summary.graded.append(verdict)
    return verdict


def enter(course: Course, gradebook: Gradebook, verdict: Verdict, judged: dict[str, Any] | None) -> Verdict:
    """Enter a verdict in the gradebook, and write it down with what the gradebook made of it."""
    before = last_verdict(course, verdict.assignment, verdict.student)
    odd, penalty = book.enter(course, gradebook, verdict.assignment, verdict.student, judged)
    verdict = replace(verdict, notes=(*verdict.notes, *odd), penalty=penalty)
    if verdict.status == "flagged":
        book.flag(gradebook, verdict.assignment, verdict.student)
    elif before is not None and before.status == "flagged":
        book.unflag(gradebook, verdict.assignment, verdict.student)
    write_verdict(course, verdict)
    return verdict


def without_points(course: Course, assignment: str) -> tuple[work.ExerciseVerdict, ...]:
    """The exercises of an assignment, none of which could be run."""
    release = nbformat.read(course.release(assignment), as_version=4)
    worth = points_in(release.cells)
    return work.unwritten([(name, worth[name + CHECK], worth[name + HIDDEN]) for name in exercises_in(release.cells)])


def stand_in(course: Course, verdict: Verdict) -> NotebookNode:
    """What formgrader and feedback show of a submission that could not be run: the reason, and where to give points."""
    notebook = nbformat.read(course.release(verdict.assignment), as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":  # without an output, nbgrader would take a check for passed
            cell.outputs = [] if exercise_of(cell) is None else [error_output("NotRun", verdict.reason)]
    words = f"**This is not what was handed in, which could not be run.** {html.escape(verdict.reason)}"
    notebook.cells.insert(0, new_markdown_cell(words, id=NOT_RUN))
    return notebook


def changes(student: str, before: book.Score | None, after: book.Score, exercises: list[str]) -> list[Change]:
    """The change of a score in the gradebook, in which marks given by hand count too; empty if nothing changed."""
    if before is None:
        return []
    different = exercises + (["the late penalty"] if before.penalty != after.penalty else [])
    is_changed = bool(different) or before.points != after.points
    return [Change(student, before.points, after.points, tuple(different))] if is_changed else []


def with_dropped(entered: book.Score | None, before: Verdict | None, after: Verdict | None) -> book.Score | None:
    """The score before, with what `release` took out of the gradebook since: the points of dropped exercises."""
    if entered is None or before is None or after is None:
        return entered
    left = {e.name for e in after.exercises}
    dropped = sum(e.points + e.hidden_points for e in before.exercises if e.name not in left)
    return replace(entered, points=round(entered.points + dropped, 4))


def different_exercises(before: Verdict | None, after: Verdict | None) -> list[str]:
    if before is None or after is None:
        return []
    old = {e.name: e.points + e.hidden_points for e in before.exercises}
    new = {e.name: e.points + e.hidden_points for e in after.exercises}
    different = [name for name in new if old.get(name, 0.0) != new[name]]
    return different + [f"{name} (dropped)" for name in old if name not in new and old[name]]


# --- workers on this machine ----------------------------------------------------------------------------------------


class LocalWorkers:
    """Processes forked from this one, each with a warm process of its own that was started beforehand."""

    def __init__(self, warm: Sequence[Warm]):
        all_hidden()  # workers inherit what is loaded before they are forked: the exercises and their hidden cases
        gc.freeze()
        self.workers: list[Worker] = []
        for process in warm:
            self.hire(process)

    def hire(self, warm: Warm | None) -> Worker:
        worker = Worker(warm, [other.connection for other in self.workers])
        self.workers.append(worker)
        return worker

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]:
        waiting = deque((task, 1) for task in tasks)  # with the number of the attempt
        idle = list(self.workers)
        busy: dict[Connection, tuple[Worker, Task, int]] = {}
        found: list[Result] = []
        while waiting or busy:
            while waiting and idle:
                worker, (task, attempt) = idle.pop(), waiting.popleft()
                worker.begin(task)
                busy[worker.connection] = worker, task, attempt
            yield from found  # only now: while these are saved, everybody has something to do
            found = []
            for connection in self.wait_for_some(list(busy)):
                worker, task, attempt = busy.pop(connection)
                result = worker.result()
                idle.append(worker if result else self.replace(worker))
                if result:
                    found.append(result)
                elif worker.is_overdue:
                    found.append(never_finished(task))
                elif attempt < ATTEMPTS:
                    waiting.append((task, attempt + 1))
                else:
                    found.append(lost(task))
        yield from found

    def wait_for_some(self, busy: list[Connection]) -> list[Connection]:
        """The connections of workers that have finished, have died, or have been stopped because they never finish."""
        while True:
            done = wait(busy, timeout=LOOKING_SECONDS)
            if done:
                return cast(list[Connection], done)
            for worker in self.workers:
                if worker.connection in busy and worker.is_overdue:
                    worker.process.kill()

    def replace(self, dead: Worker) -> Worker:
        self.workers.remove(dead)
        dead.close()
        return self.hire(None)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


class Worker:
    """A process that judges what it is sent, one submission after another."""

    def __init__(self, warm: Warm | None, others: Sequence[Connection]):
        context = multiprocessing.get_context("fork")
        self.warm = warm
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=keep_judging, args=(theirs, warm, [self.connection, *others]), daemon=True
        )
        self.process.start()
        self.deadline = float("inf")
        theirs.close()

    @property
    def is_overdue(self) -> bool:
        return time.monotonic() > self.deadline

    def begin(self, task: Task) -> None:
        self.deadline = time.monotonic() + task.patience.submission + JUDGES_OWN_SECONDS
        with contextlib.suppress(OSError):  # it died while it was idle: `result` will notice
            self.connection.send(task)

    def result(self) -> Result | None:
        """What became of the task; None if the process has died of it."""
        try:
            return cast(Result, self.connection.recv())
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()
        if self.warm is not None:
            self.warm.close()


def keep_judging(connection: Connection, warm: Warm | None, of_others: Sequence[Connection]) -> None:
    """In a worker. Ctrl-C is left to the coordinator; when the coordinator hangs up, however it ends, so does this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in of_others:
        other.close()
    work.OWN[:] = [] if warm is None else [warm]
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(work.do(connection.recv()))


def never_finished(task: Task) -> Result:
    """A submission whose judging exceeds all limits."""
    reason = (
        "Judging it took longer than a submission may take, and was stopped: a person has to look at this notebook."
    )
    return Result(replace(work.blank_verdict(task), status="flagged", reason=reason))


def lost(task: Task) -> Result:
    """A submission that takes every worker down."""
    reason = "The process that judged it ended again and again without a result: a person has to look at this notebook."
    return Result(replace(work.blank_verdict(task), status="flagged", reason=reason))
