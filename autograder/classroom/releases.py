"""Which assignment a notebook belongs to, by its name or its content."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import nbformat

from autograder.classroom.course import Course
from autograder.judging.rebuild import (
    DEFINITION,
    Cell,
    Notes,
    NotRebuilt,
    plain,
    submitted_cells,
    submitted_text,
)

MOST_OF_THEM = 0.8  # of the cells that tell one release from another: people paste a cell of an earlier notebook


class Releases:
    """What only one release has: grade ids, texts of cells, names of functions."""

    def __init__(self, course: Course):
        self.names = course.released()
        self.patterns = {name: name_pattern(name) for name in self.names}
        self.texts: dict[str, set[str]] = {}
        owners: dict[tuple[str, str], set[str]] = defaultdict(set)
        for name in self.names:
            cells = nbformat.read(course.release(name), as_version=4).cells
            self.texts[name] = {plain(cell.source) for cell in cells}
            for cell in cells:
                details = cell.metadata.get("nbgrader", {})
                kinds = {"grade id", "definition" if details.get("solution") else "text"}
                for mark in marks(details.get("grade_id", ""), plain(cell.source)):
                    if mark[0] in kinds:
                        owners[mark].add(name)
        self.owner = {mark: next(iter(names)) for mark, names in owners.items() if len(names) == 1}

    def named_in(self, parts: Iterable[str]) -> str | None:
        """The assignment that the innermost part names, among the parts that name one."""
        for part in parts:
            named = [name for name in self.names if self.patterns[name].search(part)]
            if len(named) == 1:
                return named[0]
        return None

    def is_untouched(self, assignment: str, path: Path) -> bool:
        """Whether every text in it is that of the release: it may have been run, but nothing was written."""
        cells = [cell for cell in cells_of(path) if cell.plain]
        own = self.texts[assignment]
        return bool(cells) and all(cell.plain in own or cell.is_as_some_release_had_it for cell in cells)

    def told_by(self, path: Path) -> str | None:
        """The assignment that the content of a notebook belongs to, if it has something of one release only."""
        cells = cells_of(path)
        for kind in ("grade id", "text", "definition"):
            found = Counter(
                self.owner[mark]
                for cell in cells
                for mark in marks(cell.grade_id, cell.plain)
                if mark[0] == kind and mark in self.owner
            )
            if found:
                [(name, hits)] = found.most_common(1)
                return name if hits >= MOST_OF_THEM * found.total() else None
        return None


@lru_cache(maxsize=2)
def cells_of(path: Path) -> list[Cell]:
    """The cells of a notebook that was handed in; none if it is not one."""
    try:
        return submitted_cells(submitted_text(path), Notes())
    except (NotRebuilt, MemoryError):
        return []


def marks(grade_id: str, text: str) -> Iterator[tuple[str, str]]:
    """What identifies a cell."""
    if grade_id:
        yield "grade id", grade_id
    if len(text) > 20:  # shorter ones say nothing
        yield "text", text
    yield from (("definition", name) for name in DEFINITION.findall(text))


def name_pattern(assignment: str) -> re.Pattern[str]:
    """Finds the assignment's name in a file's: not inside a longer word, also with other signs between its words."""
    words = [re.escape(word) for word in re.split(r"[_\- ]+", assignment)]
    return re.compile(r"(?<![^\W_])" + r"[_\- ]".join(words) + r"(?![^\W_])", re.IGNORECASE)
