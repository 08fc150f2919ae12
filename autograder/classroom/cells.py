"""Lets an assignment gain or lose exercises after submissions have been entered.

nbgrader refuses to: it would not know what to do with the grades. Here the cells that stay keep their grades, comments
and marks by hand; a new cell gets an empty grade in every submission, to be filled in by the next grading; what was
given by hand for a cell that goes is returned, to be kept until it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def match_cells(
    gradebook: Gradebook, assignment: str, source: NotebookNode, keep: Callable[[list[Mark]], None]
) -> list[Mark]:
    """Give the gradebook's notebook the cells of this source, if there are submissions; otherwise nbgrader's own step
    will do it. `keep` gets the marks by hand of cells that are gone, before the gradebook forgets them for good.

    Returns: these marks.
    """
    if not has_submissions(gradebook, assignment):
        return []
    notebook = gradebook.find_notebook(assignment, assignment)
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
    try:
        keep(lost)
    except BaseException:
        gradebook.db.rollback()
        raise
    gradebook.db.commit()
    return lost


def has_submissions(gradebook: Gradebook, assignment: str) -> bool:
    """Whether anything of this assignment has been entered."""
    try:
        return bool(gradebook.find_notebook(assignment, assignment).submissions)
    except MissingEntry:
        return False


def give_back(gradebook: Gradebook, assignment: str, marks: Sequence[Mark]) -> list[Mark]:
    """Enter marks again whose cells are back. A mark that is there already, as after an interruption, stays.

    Returns: those whose cells, or submissions, still are not there.
    """
    left = []
    for mark in marks:
        where = (mark.cell, assignment, assignment, mark.student)
        try:
            if mark.score is not None:
                grade = gradebook.find_grade(*where)
                if grade.manual_score is None:
                    grade.manual_score, grade.needs_manual_grade = mark.score, False
            if mark.comment:
                comment = gradebook.find_comment(*where)
                comment.manual_comment = comment.manual_comment or mark.comment
        except MissingEntry:
            left.append(mark)
    gradebook.db.commit()
    return left


def name(cell: NotebookNode) -> str:
    return str(cell.metadata.nbgrader.grade_id)


def names(cells: Iterable[NotebookNode]) -> set[str]:
    return set(map(name, cells))


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
    for cell in new(graded, notebook.grade_cells):
        points = cell.metadata.nbgrader.points
        made = GradeCell(name=name(cell), notebook=notebook, max_score=points, cell_type=cell.cell_type)
        enter(gradebook, made, Grade, notebook)
    for cell in new(answers, notebook.solution_cells):
        enter(gradebook, SolutionCell(name=name(cell), notebook=notebook), Comment, notebook)
    for cell in new(known, notebook.source_cells):
        made = SourceCell(name=name(cell), notebook=notebook, cell_type=cell.cell_type, source=cell.source)
        gradebook.db.add(made)


def new(cells: Iterable[NotebookNode], old: Iterable[BaseCell]) -> list[NotebookNode]:
    """The cells that are not among the old ones."""
    there = {cell.name for cell in old}
    return [cell for cell in cells if name(cell) not in there]


def enter(gradebook: Gradebook, cell: BaseCell, empty: type[Grade | Comment], notebook: Notebook) -> None:
    """A cell, and something empty for it in every submission."""
    gradebook.db.add(cell)
    gradebook.db.flush()
    gradebook.db.add_all([empty(cell_id=cell.id, notebook=submitted) for submitted in notebook.submissions])
