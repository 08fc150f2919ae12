"""A scratch copy of the nbgrader course in autograder/, and plain nbgrader in it: its commands and what they call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from lab import kernel_environment
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

from autograder.authoring import build
from autograder.authoring.release import quiet_nbgrader
from autograder.classroom.seed import write_seed
from autograder.judging.needed import Names, names_in, needed
from benchmarks.commands import plain_nbgrader_config

ENVIRONMENT = {**kernel_environment(), "COURSE_FAST": "1"}


class Course:
    """An instructor's folder: source/, release/, submitted/, autograded/, feedback/ and a gradebook."""

    def __init__(self, root: Path):
        self.root = root
        (root / "nbgrader_config.py").write_text(plain_nbgrader_config(), encoding="utf-8")
        write_seed(root / "hidden_seed", "a class of the tests")

    def nbgrader(self, *arguments: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=folder or self.root,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run_here(self, command: str, *arguments: str) -> None:
        """The same in this process: nbgrader takes longer to start than to do most of its work."""
        with mock.patch.dict(os.environ, ENVIRONMENT, clear=True), quiet_nbgrader():
            config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
            result: dict[str, Any] = getattr(NbGraderAPI(config=config), command)(*arguments)
        assert result["success"], result

    def path(self, kind: str, stem: str, student: str = "") -> Path:
        return self.root / kind / student / stem / f"{stem}.ipynb"

    def notebook(self, kind: str, stem: str, student: str = "") -> NotebookNode:
        return nbformat.read(self.path(kind, stem, student), as_version=4)

    def generate(self, stem: str) -> None:
        """Write the instructor's notebook and let nbgrader make the release of it."""
        source = self.path("source", stem)
        if not source.exists():
            source.parent.mkdir(parents=True)
            source.write_text(build.as_text(build.solution_notebook(stem)), encoding="utf-8")
            self.run_here("generate_assignment", stem)

    def submit(
        self, student: str, stem: str, answers: dict[str, str], claims: bool = False, is_whole: bool = True
    ) -> Path:
        """Hand in the release with these answers in the cells of these ids, and with the claims about its text.

        is_whole: whether it includes the demonstrations that do the same whatever the answers are.
        """
        self.generate(stem)
        notebook = self.notebook("release", stem)
        if claims:
            notebook.cells = with_claims(notebook.cells, stem)
        for cell in notebook.cells:
            cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
        if not is_whole:
            notebook.cells = without_demonstrations(notebook.cells, but_of_answers=True)
        target = self.path("submitted", stem, student)
        target.parent.mkdir(parents=True)
        nbformat.write(notebook, target)
        return target

    def grade(
        self, student: str, stem: str, answers: dict[str, str], claims: bool = False, is_whole: bool = True
    ) -> NotebookNode:
        """The autograded notebook of a student with these answers."""
        if not self.path("autograded", stem, student).exists():
            self.submit(student, stem, answers, claims, is_whole)
            self.run_here("autograde", stem, student)
        return self.notebook("autograded", stem, student)

    def solutions(self, stem: str) -> dict[str, str]:
        self.generate(stem)
        graded = [c for c in self.notebook("source", stem).cells if "nbgrader" in c.metadata]
        return {c.metadata.nbgrader.grade_id: c.source for c in graded if c.metadata.nbgrader.solution}

    def scores(self, student: str, stem: str) -> dict[str, float]:
        """grade id -> score, of the cells that are graded by the machine."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}", "transformer") as gradebook:
            submission = gradebook.find_submission_notebook(stem, stem, student)
            return {grade.name: grade.auto_score for grade in submission.grades if grade.cell.cell_type == "code"}

    def full_scores(self, stem: str) -> dict[str, float]:
        cells = self.notebook("release", stem).cells
        details = [c.metadata.nbgrader for c in cells if c.metadata.get("nbgrader", {}).get("grade")]
        return {d.grade_id: d.points for d in details if d.cell_type == "code"}


def solved(course: Course, stem: str) -> NotebookNode:
    """The notebook with all solutions and with the claims about its text, executed by nbgrader."""
    return course.grade("solution", stem, course.solutions(stem), claims=True)


def with_claims(cells: list[NotebookNode], stem: str) -> list[NotebookNode]:
    """The cells of a notebook, each followed by the claims that follow it in the source."""
    found: dict[str, list[NotebookNode]] = {}
    last = ""
    for cell in build.solution_notebook(stem, claims=True).cells:
        if cell.source.startswith(build.CLAIMS):
            found.setdefault(last, []).append(cell)
        else:
            last = cell.id
    return [one for cell in cells for one in (cell, *found.get(cell.id, []))]


def without_demonstrations(cells: list[NotebookNode], but_of_answers: bool = False) -> list[NotebookNode]:
    """The cells of nbgrader, with or without the demonstrations that depend on an answer, and what these need."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    kept = ["nbgrader" in cell.metadata for cell in code]
    if but_of_answers:
        kept = [is_kept or depends for is_kept, depends in zip(kept, depend_on_answers(code))]
    wanted = needed([cell.source for cell in code], kept)
    left_out = [cell for number, cell in enumerate(code) if number not in wanted]
    return [cell for cell in cells if not any(cell is other for other in left_out)]


def depend_on_answers(code: list[NotebookNode]) -> Iterator[bool]:
    """Of each cell, whether it is an answer or takes a name that an answer has made, by itself or through others."""
    names = [names_in(cell.source) for cell in code]
    modules = frozenset().union(*(found.imported for found in names if found))  # `needed` says why
    answered: frozenset[str] = frozenset()
    for cell, found in zip(code, names):
        found = found or Names(taken=answered)
        depends = cell.metadata.get("nbgrader", {}).get("solution", False) or bool(found.taken & answered)
        results = found.made - found.imported | found.changed - modules
        answered = answered | results if depends else answered - found.made
        yield depends
