"""A scratch copy of the nbgrader course in autograder/, and nbgrader's own commands in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
from lab import kernel_environment
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder import build
from autograder.seed import write_seed
from benchmarks.commands import plain_nbgrader_config


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
            env={**kernel_environment(), "COURSE_FAST": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

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
            self.nbgrader("generate_assignment", stem)

    def submit(self, student: str, stem: str, answers: dict[str, str]) -> Path:
        """Hand in the release with these answers in the cells of these ids."""
        self.generate(stem)
        notebook = self.notebook("release", stem)
        for cell in notebook.cells:
            cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
        target = self.path("submitted", stem, student)
        target.parent.mkdir(parents=True)
        nbformat.write(notebook, target)
        return target

    def grade(self, student: str, stem: str, answers: dict[str, str]) -> NotebookNode:
        """The autograded notebook of a student with these answers."""
        if not self.path("autograded", stem, student).exists():
            self.submit(student, stem, answers)
            self.nbgrader("autograde", stem, "--student", student)
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
