"""Submissions for tests of the grader: the release of a notebook with answers in it, judged without a course folder."""

from __future__ import annotations

import copy
import functools
import json
from dataclasses import replace
from typing import Any
from unittest import mock

from nbformat import NotebookNode
from release import released_notebook

from autograder.authoring import build
from autograder.judging import judge, work
from autograder.judging.judge import Patience, exercise_of, grade_id_of
from autograder.judging.verdict import ExerciseVerdict
from autograder.judging.work import Result, Task


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


def with_one_exercise(stem: str, name: str) -> NotebookNode:
    """The release with nothing in it but the set-up and this exercise."""
    ids = (name, f"{name}_check", f"{name}_hidden")
    cells = [c for c in released(stem).cells if grade_id_of(c) in ids or grade_id_of(c).startswith("setup_")]
    return copy.deepcopy(NotebookNode({**released(stem), "cells": cells}))


ENOUGH = Patience(cell=300.0)  # however busy the machine is


def judged(stem: str, notebook: NotebookNode | str, walls: tuple[str, ...] | None = None) -> Result:
    """What the grader makes of a submission. The warm process stays for the next one in this process."""
    text = notebook if isinstance(notebook, str) else json.dumps(notebook)
    master = json.dumps(released(stem))
    return work.do(Task(stem, "student", text, master, "", ENOUGH, walls=walls))


def impatient_with(name: str, seconds: float) -> Any:
    """A context in which one exercise, known to be endless, gets this many seconds. A short limit for all of the
    notebook would now and then stop honest code on a busy machine."""

    class Trial(judge.Trial):
        def take(self, i: int, cell: NotebookNode) -> None:
            patience = self.patience
            if name in (exercise_of(cell), grade_id_of(cell)):
                self.patience = replace(patience, cell=seconds)
            super().take(i, cell)
            self.patience = patience

    return mock.patch.object(judge, "Trial", Trial)


def by_name(result: Result) -> dict[str, ExerciseVerdict]:
    return {exercise.name: exercise for exercise in result.verdict.exercises}


def score(exercise: ExerciseVerdict) -> float:
    return exercise.points + exercise.hidden_points


def full(exercise: ExerciseVerdict) -> float:
    return exercise.max_points + exercise.hidden_max_points
