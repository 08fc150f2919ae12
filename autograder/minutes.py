"""How long a notebook takes somebody to whom it is new: reading, looking at figures, and doing the exercises.

The rates are estimates for somebody who reads every sentence, runs every cell and writes every answer. An open-ended
experiment takes as long as one likes, and is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nbformat import NotebookNode

from course_lib.checking.exercise import Exercise

WORDS_A_MINUTE = 140
LINES_OF_CODE_A_MINUTE = 12
MINUTES_A_FIGURE = 0.5
MINUTES_A_WRITTEN_ANSWER = 5
ROUNDED_TO = 5

FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$]+\$", re.DOTALL)
SOLUTION = re.compile(r"### BEGIN SOLUTION.*?### END SOLUTION", re.DOTALL)
DRAWS = re.compile(r"\b(plt\.show|show_\w+)\(")


def minutes(cells: Iterable[NotebookNode], exercises: Iterable[Exercise]) -> int:
    """The minutes for a newcomer. `cells` as they are in the source: what each is called is in its metadata."""
    total = sum(minutes_of_cell(cell) for cell in cells)
    total += sum(exercise.minutes_for_newcomers for exercise in exercises)
    return ROUNDED_TO * round(total / ROUNDED_TO)


def minutes_of_cell(cell: NotebookNode) -> float:
    """The minutes to read it; of a written answer, to write it."""
    kind = cell.metadata.get("title", "").partition(" ")[0]
    if kind == "answer":
        return MINUTES_A_WRITTEN_ANSWER
    if cell.cell_type == "markdown":
        return len(FORMULA.sub(" formula ", cell.source).split()) / WORDS_A_MINUTE
    if kind in ("check", "claims", "setup"):
        return 0.0
    code = SOLUTION.sub("", cell.source)
    lines = 0 if kind == "figure" else sum(bool(line.strip()) for line in code.splitlines())
    is_figure = kind == "figure" or DRAWS.search(code) is not None
    return lines / LINES_OF_CODE_A_MINUTE + MINUTES_A_FIGURE * is_figure
