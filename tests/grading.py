"""A class in a scratch course, for tests of grading: handing in, a worker in this process, what the gradebook says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from classroom import solutions, submission
from nbformat import NotebookNode

from autograder.classroom.course import Course
from autograder.judging import work
from autograder.judging.work import Result, Task

STEM = "02_masks"


class Here:
    """Works in this process. Remembers whom it was asked to judge."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]:
        for task in tasks:
            self.asked.append(task.student)
            yield work.do(task)


def solved(**answers: str) -> NotebookNode:
    """A submission that is right except for these answers."""
    return submission(STEM, solutions(STEM) | answers)


def hand_in(course: Course, student: str, content: NotebookNode | str | None, timestamp: str = "") -> None:
    path = course.submitted(STEM, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    if timestamp:
        (path.parent / "timestamp.txt").write_text(timestamp)


def grades(course: Course, student: str) -> dict[str, tuple[float | None, float | None, float | None, bool]]:
    """grade id -> (auto score, manual score, extra credit, needs a person)."""
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(STEM, STEM, student)
        return {g.name: (g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade) for g in notebook.grades}


def comments(course: Course, student: str) -> dict[str, tuple[str | None, str | None]]:
    """grade id -> (what the machine says, what a person says)."""
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(STEM, STEM, student)
        return {c.name: (c.auto_comment, c.manual_comment) for c in notebook.comments}


def autograder(course: Course, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own."""
    command = [sys.executable, "-m", "autograder", "--course", course.root, *(["--db", course.db] if course.db else [])]
    return subprocess.run(
        [*map(str, command), *map(str, arguments)], cwd=work.ROOT, capture_output=True, text=True, timeout=1800
    )
