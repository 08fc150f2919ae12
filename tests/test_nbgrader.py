"""Plain nbgrader, as an instructor runs it: generate, validate, autograde, feedback.

The solutions get all points, the untouched release none, and known mistakes exactly what they are worth.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder import build
from autograder.hidden import all_hidden
from course_lib.exercises import all_exercises

MISTAKES = {
    "causal_mask": ("def causal_mask(n):\n    return torch.ones(n, n).tril(1)", 2.0, "one step into the future"),
    "padding_mask": ("def padding_mask(lengths, max_len):\n    return 1 / 0", 0.0, "ZeroDivisionError"),
    "window_mask": ("def window_mask(n):\n    return None", 0.0, "window_mask(n, radius)"),
}


class Course:
    """A scratch copy of the nbgrader course in autograder/, and nbgrader's commands in it."""

    def __init__(self, root: Path):
        self.root = root
        shutil.copy(build.COURSE / "nbgrader_config.py", root)
        for path, text in build.build().items():
            if path.is_relative_to(build.COURSE):
                target = root / path.relative_to(build.COURSE)
                target.parent.mkdir(parents=True)
                target.write_text(text, encoding="utf-8")

    def nbgrader(self, *arguments: str, folder: Path | None = None) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        python_path = os.pathsep.join([str(build.ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=folder or self.root,
            env={**os.environ, "PATH": path, "PYTHONPATH": python_path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def notebook(self, kind: str, stem: str, student: str = ""):
        return nbformat.read(self.root / kind / student / stem / f"{stem}.ipynb", as_version=4)

    def submit(self, student: str, stem: str, answers: dict[str, str]) -> Path:
        """Hand in the release with these answers in the cells of these ids."""
        notebook = self.notebook("release", stem)
        for cell in notebook.cells:
            cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
        target = self.root / "submitted" / student / stem / f"{stem}.ipynb"
        target.parent.mkdir(parents=True)
        nbformat.write(notebook, target)
        return target

    def solutions(self, stem: str) -> dict[str, str]:
        cells = self.notebook("source", stem).cells
        return {
            cell.metadata.nbgrader.grade_id: cell.source
            for cell in cells
            if cell.metadata.get("nbgrader", {}).get("solution")
        }

    def scores(self, student: str, stem: str) -> dict[str, float]:
        """grade id -> score, of the cells that are graded by the machine."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}", "transformer") as gradebook:
            submission = gradebook.find_submission_notebook(stem, stem, student)
            return {g.name: g.auto_score for g in submission.grades if g.cell.cell_type == "code"}

    def full_scores(self, stem: str) -> dict[str, float]:
        cells = self.notebook("release", stem).cells
        details = [c.metadata.nbgrader for c in cells if c.metadata.get("nbgrader", {}).get("grade")]
        return {d.grade_id: d.points for d in details if d.cell_type == "code"}


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    made = Course(tmp_path_factory.mktemp("course"))
    for stem in build.stems():
        made.nbgrader("generate_assignment", stem)
    return made


every_notebook = pytest.mark.parametrize("stem", build.stems())


@every_notebook
def test_nbgrader_generates_what_is_committed(course, stem):
    generated = build.as_text(course.notebook("release", stem))
    assert generated == (build.NOTEBOOKS / f"{stem}.ipynb").read_text(encoding="utf-8")


@every_notebook
def test_solution_gets_every_point(course, stem):
    course.submit("solution", stem, course.solutions(stem))
    course.nbgrader("autograde", stem, "--student", "solution")
    assert course.scores("solution", stem) == course.full_scores(stem)


@every_notebook
def test_untouched_release_gets_none(course, stem):
    course.submit("untouched", stem, {})
    course.nbgrader("autograde", stem, "--student", "untouched")
    assert set(course.scores("untouched", stem).values()) == {0.0}


def test_known_mistakes_get_exactly_their_partial_credit(course):
    stem = "02_masks"
    answers = course.solutions(stem) | {name: code for name, (code, _, _) in MISTAKES.items()}
    answers["additive_mask"] = course.notebook("release", stem).cells[0].source  # not even Python
    course.submit("mistaken", stem, answers)
    course.nbgrader("autograde", stem, "--student", "mistaken")
    expected = course.full_scores(stem)
    for name, (_, points, _) in MISTAKES.items():
        expected |= {f"{name}_check": points, f"{name}_hidden": 0.0}
    expected |= {"additive_mask_check": 0.0, "additive_mask_hidden": 0.0}
    assert course.scores("mistaken", stem) == expected

    course.nbgrader("generate_feedback", stem, "--student", "mistaken")
    page = (course.root / "feedback" / "mistaken" / stem / f"{stem}.html").read_text(encoding="utf-8")
    for _, _, words in MISTAKES.values():
        assert words in page
    for name in all_hidden():
        if all_exercises()[name].topic == "masks":
            assert f"{name} also meets cases" in page


def test_validate_tells_right_from_wrong(course, tmp_path):
    stem = "00_start_here"
    solutions = course.solutions(stem)
    right = course.submit("right", stem, solutions)
    assert "Success" in course.nbgrader("validate", right.name, folder=right.parent)
    solutions["softmax"] = "def softmax(x, dim):\n    return x"
    wrong = course.submit("wrong", stem, solutions)
    assert "VALIDATION FAILED" in course.nbgrader("validate", wrong.name, folder=wrong.parent)
