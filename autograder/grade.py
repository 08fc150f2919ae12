"""Grades a class: plans what is to be done, has it done by several workers, and writes the results.

One process writes: the gradebook, the autograded notebooks and the verdicts. Workers judge (see `work`), in processes
forked from this one or on a Dask cluster. A verdict is written when everything else of its submission is, so whatever
has a verdict is done, and an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Protocol

import nbformat
from nbgrader.api import Gradebook
from sqlalchemy.exc import SQLAlchemyError

from autograder import book, work
from autograder.course import Course, CourseError
from autograder.hidden import all_hidden
from autograder.judge import Patience, exercise_of
from autograder.rebuild import submitted_text
from autograder.verdict import Verdict, read_verdict, write_verdict
from autograder.warm import Warm
from autograder.work import Result, Task
from course_lib.exercises import all_exercises

ATTEMPTS = 2  # at a submission that takes its worker down


@dataclass(frozen=True)
class Change:
    """A submission whose score is another one after regrading."""

    student: str
    before: float
    after: float
    exercises: tuple[str, ...]  # in which it changed


@dataclass
class Summary:
    """What came of grading an assignment."""

    assignment: str
    graded: list[Verdict] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # not reached, after an interruption

    def with_status(self, status: str) -> list[Verdict]:
        return [verdict for verdict in self.graded if verdict.status == status]


class Workers(Protocol):
    """Whoever does the work: takes tasks, gives results in any order."""

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
    with book.open_book(course) as gradebook:
        tasks = plan(course, gradebook, assignment, students, patience or Patience(), walls)
        todo = [task for task in tasks if force or not is_done(course, task)]
        todo_names = {task.student for task in todo}
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
    return summary


def plan(
    course: Course,
    gradebook: Gradebook,
    assignment: str,
    students: Iterable[str] | None,
    patience: Patience,
    walls: tuple[str, ...] | None,
) -> list[Task]:
    """A task for each submission."""
    everybody = course.students(assignment)
    if not everybody:
        raise CourseError(
            f"There are no submissions of {assignment} in {course.root / 'submitted'}. "
            "Run: python -m autograder collect FOLDER"
        )
    chosen = everybody if students is None else list(students)
    missing = sorted(set(chosen) - set(everybody))
    if missing:
        raise CourseError(f"{missing[0]} has handed in nothing for {assignment}.")
    master = json.dumps(book.master_of(course, gradebook, assignment))
    tasks = []
    for student in chosen:
        text = handed_in(course, assignment, student)
        digest = work.digest(text, master, timestamp(course, assignment, student))
        tasks.append(Task(assignment, student, text, master, digest, patience, walls=walls))
    return tasks


def handed_in(course: Course, assignment: str, student: str) -> str | None:
    """The text of a submission, whatever bytes it is made of; None if there is no file."""
    path = course.submitted(assignment, student)
    return submitted_text(path) if path.is_file() else None


def timestamp(course: Course, assignment: str, student: str) -> str:
    path = course.submitted(assignment, student).parent / "timestamp.txt"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def is_done(course: Course, task: Task) -> bool:
    path = course.verdict(task.assignment, task.student)
    return path.exists() and read_verdict(path).digest == task.digest


# --- results --------------------------------------------------------------------------------------------------------


def save_or_flag(course: Course, gradebook: Gradebook, assignment: str, result: Result, summary: Summary) -> Verdict:
    """Enter a result; should that fail, enter that it did."""
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
    judged = None if result.notebook is None else nbformat.from_dict(json.loads(result.notebook))
    if judged is None:
        verdict = replace(verdict, exercises=without_points(course, assignment))
        course.autograded(assignment, verdict.student).unlink(missing_ok=True)
    else:
        book.save_autograded(course, assignment, verdict.student, judged)
    book.enter(course, gradebook, assignment, verdict.student, judged)
    if verdict.status == "flagged":
        book.flag(gradebook, assignment, verdict.student)
    path = course.verdict(assignment, verdict.student)
    if path.exists():
        summary.changes += changes(read_verdict(path), verdict)
    write_verdict(course, verdict)
    summary.graded.append(verdict)
    return verdict


def without_points(course: Course, assignment: str) -> tuple[work.ExerciseVerdict, ...]:
    """The exercises of an assignment, none of which could be run."""
    release = nbformat.read(course.release(assignment), as_version=4)
    names = dict.fromkeys(name for cell in release.cells if (name := exercise_of(cell)) is not None)
    return work.unwritten([(name, all_exercises()[name].max_points, all_hidden()[name].points) for name in names])


def changes(before: Verdict, after: Verdict) -> list[Change]:
    old = {e.name: e.points + e.hidden_points for e in before.exercises}
    new = {e.name: e.points + e.hidden_points for e in after.exercises}
    different = tuple(name for name in new if old.get(name, 0.0) != new[name])
    return [Change(after.student, before.points, after.points, different)] if different else []


# --- workers on this machine ----------------------------------------------------------------------------------------


class LocalWorkers:
    """Processes forked from this one, each with a warm process of its own that was started beforehand."""

    def __init__(self, warm: Sequence[Warm]):
        self.warm = list(warm)
        self.context = multiprocessing.get_context("fork")
        all_hidden()  # workers inherit what is loaded before they are forked: the exercises and their hidden cases
        self.pool = self.new_pool(self.warm)

    def new_pool(self, warm: Sequence[Warm]) -> ProcessPoolExecutor:
        queue = self.context.SimpleQueue()
        for number in range(len(warm)):
            queue.put(number)
        pool = ProcessPoolExecutor(len(self.warm), self.context, begin_work, (queue, list(warm)))
        pool.submit(bool).result()  # forks them now, while this process has no other thread
        return pool

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]:
        attempts = dict.fromkeys(tasks, 0)
        todo = list(tasks)
        while todo:
            running = {self.pool.submit(work.do, task): task for task in todo}
            todo = []
            for future, task in completed(running):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    attempts[task] += 1
                    if attempts[task] < ATTEMPTS:
                        todo.append(task)
                    else:
                        yield lost(task)
            if todo:
                self.pool.shutdown(wait=False, cancel_futures=True)
                self.pool = self.new_pool([])

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in self.warm:
            process.close()


def completed(running: dict[Future[Result], Task]) -> Iterator[tuple[Future[Result], Task]]:
    """The futures with their tasks, as they finish."""
    waiting = set(running)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield future, running[future]


def begin_work(queue: multiprocessing.SimpleQueue[int], warm: Sequence[Warm]) -> None:
    """In a new worker: take one of the warm processes, and leave Ctrl-C to the coordinator."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not queue.empty():
        work.OWN.append(warm[queue.get()])


def lost(task: Task) -> Result:
    """A submission that has taken its worker down twice."""
    reason = "The process that judged it ended twice without a result: a person has to look at this notebook."
    return Result(Verdict(task.student, task.assignment, "flagged", reason, digest=task.digest))
