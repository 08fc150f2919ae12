"""Lets an assignment gain or lose exercises after submissions have been entered.

nbgrader refuses to: it would not know what to do with the grades. Here the cells that stay keep their grades, comments
and marks by hand; a new cell gets an empty grade in every submission, to be filled in by the next grading; what was
given by hand for a cell that goes is returned, to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import (
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SolutionCell,
    SourceCell,
)


@dataclass(frozen=True)
class Mark:
    """The mark that a person gave for a cell that no longer exists."""

    student: str
    cell: str
    score: float | None
    comment: str | None


def match_cells(gradebook: Gradebook, assignment: str, source: NotebookNode) -> list[Mark]:
    """Give the gradebook's notebook the cells of this source, if there are submissions; otherwise nbgrader's own step
    will do it. Returns: marks by hand of cells that are gone."""
    try:
        notebook = gradebook.find_notebook(assignment, assignment)
    except MissingEntry:
        return []
    if not notebook.submissions:
        return []
    graded = [cell for cell in source.cells if utils.is_grade(cell)]
    answers = [cell for cell in source.cells if utils.is_solution(cell)]
    known = [cell for cell in source.cells if utils.is_grade(cell) or utils.is_solution(cell) or utils.is_locked(cell)]
    lost = [
        *drop(gradebook, notebook.grade_cells, names(graded)),
        *drop(gradebook, notebook.solution_cells, names(answers)),
    ]
    for old in [old for old in notebook.source_cells if old.name not in names(known)]:
        gradebook.db.delete(old)
    gradebook.db.flush()
    gradebook.db.expire_all()
    add(gradebook, notebook, graded, answers, known)
    gradebook.db.commit()
    return lost


def names(cells: Iterable[NotebookNode]) -> set[str]:
    return {cell.metadata.nbgrader.grade_id for cell in cells}


def drop(gradebook: Gradebook, cells: Iterable[BaseCell], wanted: set[str]) -> list[Mark]:
    """Remove the cells that are not wanted, with what was entered for them."""
    lost = []
    for cell in [cell for cell in cells if cell.name not in wanted]:
        for entry in [*cell.grades, *cell.comments]:
            score, comment = getattr(entry, "manual_score", None), getattr(entry, "manual_comment", None)
            if score is not None or comment:
                lost.append(Mark(entry.notebook.student.id, cell.name, score, comment))
            gradebook.db.delete(entry)
        gradebook.db.flush()
        gradebook.db.delete(cell)
    return lost


def add(
    gradebook: Gradebook,
    notebook: Notebook,
    graded: Iterable[NotebookNode],
    answers: Iterable[NotebookNode],
    known: Iterable[NotebookNode],
) -> None:
    """Enter the cells that are new, and an empty grade or comment for each in every submission."""
    for cell in graded:
        grade_id, points = cell.metadata.nbgrader.grade_id, cell.metadata.nbgrader.points
        if grade_id not in {old.name for old in notebook.grade_cells}:
            new = GradeCell(name=grade_id, notebook=notebook, max_score=points, cell_type=cell.cell_type)
            gradebook.db.add(new)
            gradebook.db.flush()
            gradebook.db.add_all([Grade(cell_id=new.id, notebook=submitted) for submitted in notebook.submissions])
    for cell in answers:
        grade_id = cell.metadata.nbgrader.grade_id
        if grade_id not in {old.name for old in notebook.solution_cells}:
            new = SolutionCell(name=grade_id, notebook=notebook)
            gradebook.db.add(new)
            gradebook.db.flush()
            gradebook.db.add_all([Comment(cell_id=new.id, notebook=submitted) for submitted in notebook.submissions])
    for cell in known:
        grade_id = cell.metadata.nbgrader.grade_id
        if grade_id not in {old.name for old in notebook.source_cells}:
            gradebook.db.add(SourceCell(name=grade_id, notebook=notebook, cell_type=cell.cell_type, source=cell.source))
