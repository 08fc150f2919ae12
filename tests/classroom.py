"""Submissions for tests of the grader: the release of a notebook with answers in it, judged without a course folder."""

from __future__ import annotations

import copy
import functools
import json

from nbformat import NotebookNode
from release import released_notebook

from autograder import build, work
from autograder.judge import Patience
from autograder.verdict import ExerciseVerdict
from autograder.work import Result, Task


@functools.cache
def released(stem: str) -> NotebookNode:
    """What students get. Copy it before you change it."""
    return released_notebook(stem)


@functools.cache
def solutions(stem: str) -> dict[str, str]:
    """grade id -> the instructor's answer."""
    marked = [cell for cell in build.solution_notebook(stem).cells if "nbgrader" in cell.metadata]
    return {cell.metadata.nbgrader.grade_id: cell.source for cell in marked if cell.metadata.nbgrader.solution}


def submission(stem: str, answers: dict[str, str]) -> NotebookNode:
    """The release with these answers in the cells of these ids."""
    notebook = copy.deepcopy(released(stem))
    for cell in notebook.cells:
        cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    return notebook


def judged(
    stem: str, notebook: NotebookNode | str, seconds: float = 10.0, walls: tuple[str, ...] | None = None
) -> Result:
    """What the grader makes of a submission. The warm process stays for the next one in this process."""
    text = notebook if isinstance(notebook, str) else json.dumps(notebook)
    master = json.dumps(released(stem))
    return work.do(Task(stem, "student", text, master, "", Patience(cell=seconds), walls=walls))


def by_name(result: Result) -> dict[str, ExerciseVerdict]:
    return {exercise.name: exercise for exercise in result.verdict.exercises}


def score(exercise: ExerciseVerdict) -> float:
    return exercise.points + exercise.hidden_points


def full(exercise: ExerciseVerdict) -> float:
    return exercise.max_points + exercise.hidden_max_points
