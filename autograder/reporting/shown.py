"""All code of an assignment that a student may have from the course itself, or come to as others have before.

It is in the released notebook and its text, the solutions, the references of the whole course, the right and wrong
answers that the exercises know (as they are written there, and as they would be in a notebook), and the hints.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import nbformat
from nbformat import NotebookNode

from autograder.classroom.answers import grade_id_of, standing_alone
from autograder.classroom.course import Course
from autograder.reporting.similar import code_in, code_of_cells, fragments_shown
from course_lib.checking.exercise import Exercise
from course_lib.checking.merge import completed
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises import all_exercises


def known_fragments(course: Course, assignment: str, cells: Sequence[NotebookNode]) -> frozenset[int]:
    """The fragments (see `similar`) of everything that is known in an assignment. cells: of its release."""
    return fragments_shown([*code_of_cells(cells), *solved(course, assignment), *programs(cells)])


def solved(course: Course, assignment: str) -> list[str]:
    """The code of the instructor's notebook, if it is there."""
    path = course.source(assignment)
    return code_of_cells(nbformat.read(path, as_version=4).cells) if path.exists() else []


def programs(cells: Sequence[NotebookNode]) -> Iterator[str]:
    """The references of all exercises, and everything about those that this notebook has."""
    notebook = NotebookNode(cells=list(cells))
    names = {grade_id_of(cell) for cell in cells}
    for exercise in all_exercises().values():
        yield ast.unparse(completed(exercise.reference, exercise.reference))
        if exercise.name in names:
            yield from answers_to(exercise)
            tried = [*exercise.alternatives, *exercise.misconceptions]
            yield from standing_alone(exercise, tried, notebook).values()


def answers_to(exercise: Exercise) -> Iterator[str]:
    for program in (*exercise.alternatives, *exercise.misconceptions):
        yield ast.unparse(completed(program, exercise.reference))
    for hint in exercise.hints:
        yield hint
        yield from code_in(hint)
    if isinstance(exercise, WrittenTest):
        yield from answers_to(exercise.tested)
