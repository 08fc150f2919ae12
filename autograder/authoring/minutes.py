"""How long a notebook takes somebody to whom it is new: reading, looking at figures, and doing the exercises.

The rates are estimates for somebody who reads every sentence, runs every cell and writes every answer. An open-ended
experiment takes as long as one likes, and is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nbformat import NotebookNode

from course_lib.checking.exercise import Exercise

WORDS_A_MINUTE = 140
LINES_OF_CODE_A_MINUTE = 12
MINUTES_A_FIGURE = 0.5
MINUTES_A_WRITTEN_ANSWER = 5
ROUNDED_TO = 5

FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$]+\$", re.DOTALL)
SOLUTION = re.compile(r"### BEGIN SOLUTION.*?### END SOLUTION", re.DOTALL)
OPEN_ENDED = re.compile(r"\{\{open_question (\w+)\}\}")
DRAWS = re.compile(r"\b(plt\.show|show_\w+)\(")


def minutes(cells: Sequence[NotebookNode], exercises: Iterable[Exercise]) -> int:
    """The minutes for a newcomer. `cells` as they are in the source: what each is called is in its metadata."""
    not_counted = {name for cell in cells for name in OPEN_ENDED.findall(cell.source)}
    total = sum(minutes_of_cell(cell) for cell in cells if name_of(cell) not in not_counted)
    total += sum(exercise.minutes_for_newcomers for exercise in exercises)
    return ROUNDED_TO * round(total / ROUNDED_TO)


def name_of(cell: NotebookNode) -> str:
    """What an answer is called, if it is one: answer why_causal 2."""
    words = cell.metadata.get("title", "").split()
    return str(words[1]) if words[:1] == ["answer"] else ""


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
