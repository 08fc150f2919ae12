"""Where the course teaches what its five source articles say: docs/coverage.md, and docs/errata.md for their mistakes.

Both pages are written by `make build` from docs/coverage.toml and docs/errata.toml. A row there has an id and

    articles = [1, 3]                                   the row is in the table of the first one
    idea = "…", or says = "…" and right = "…"
    taught = ["02 Padding"]                             the number of a notebook, and a heading without its own number
    exercises = ["padding_mask", "causal_mask/hides_the_diagonal"]      alone, or with the name of a misconception
    reason = "…"                                        why it is not taught, or not all of it
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from autograder.authoring.glossary import TERM_MARK, anchor
from course_lib.exercises import all_exercises

ARTICLES = {
    1: "A Transformer written from nothing, with speech recognition in mind",
    2: "The Transformer, from the outline to every formula",
    3: "The Transformer in plain words and pictures",
    4: "Embedding, positions and encoder layer in PyTorch",
    5: "Transformers from scratch, and the models that followed",
}
IDEAS_HEAD = """\
# What the source articles say, and where the course teaches it

The course has five source articles. Each of their ideas has one row, in the table of one article that has it; *also in*
names the others. The last two columns say where the course teaches it: the sections, each with the number of its
notebook, and the exercises in which you build it. [errata.md](errata.md) lists the mistakes of the articles."""
ERRATA_HEAD = """\
# Mistakes in the source articles, and where the course teaches it right

Each mistake that we found in the five source articles has one row. Many come back in the notebooks, as *spot the
mistake* and as bug hunts. Where a check knows the mistake, its name follows the exercise.
[coverage.md](coverage.md) lists the ideas of the articles."""
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"^\d+ · ")


class CoverageError(Exception):
    """A row that names what is not there. The message says which row, and what it named."""


@dataclass(frozen=True)
class Row:
    """An idea, or a mistake: what the article says and what is right."""

    id: str
    articles: list[int]
    idea: str = ""
    says: str = ""
    right: str = ""
    taught: list[str] = field(default_factory=list)
    exercises: list[str] = field(default_factory=list)
    reason: str = ""


class Section(NamedTuple):
    """A section of a notebook."""

    stem: str
    heading: str  # as the reader sees it, with its number

    @property
    def link(self) -> str:
        shown = f"{int(self.stem[:2])}: {NUMBER.sub('', self.heading)}"
        return f"[{shown}](../notebooks/{self.stem}.ipynb#{anchor(self.heading)})"


def read_rows(path: Path) -> list[Row]:
    """The rows of coverage.toml or of errata.toml."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Row(id=name, **fields) for name, fields in found.items()]


# --- what the rows name ---------------------------------------------------------------------------------


def headings(cells: list[NotebookNode]) -> Iterator[str]:
    """The headings below the title of a notebook, as the reader sees them."""
    for cell in cells:
        if cell.cell_type == "markdown" and not cell.metadata.get("title", "").startswith("answer"):
            for line in HEADING.findall(FENCED.sub("", cell.source)):
                yield TERM_MARK.sub(lambda mark: mark[2] or mark[1], line).replace("`", "").strip()


@functools.cache
def sections(stem: str) -> dict[str, Section]:
    """The sections of a notebook, by their headings without numbers."""
    from autograder.authoring.build import source_cells

    return {NUMBER.sub("", heading): Section(stem, heading) for heading in headings(source_cells(stem))}


def find_section(name: str) -> Section:
    """The section called, for example, "02 Padding"."""
    from autograder.authoring.build import stems

    number, _, heading = name.partition(" ")
    stem = next((stem for stem in stems() if stem.startswith(f"{number}_")), None)
    if stem is None:
        raise CoverageError(f"there is no notebook {number}")
    if heading not in sections(stem):
        raise CoverageError(f"solutions/{stem}.py has no heading {heading!r}")
    return sections(stem)[heading]


def shown_exercise(name: str) -> str:
    """An exercise, and the misconception that is named after it."""
    exercise, _, misconception = name.partition("/")
    if exercise not in all_exercises():
        raise CoverageError(f"there is no exercise {exercise!r}")
    if not misconception:
        return f"`{exercise}`"
    if misconception not in {known.__name__ for known in all_exercises()[exercise].misconceptions}:
        raise CoverageError(f"the exercise {exercise} has no misconception {misconception!r}")
    return f"`{exercise}` (`{misconception}`)"


# --- the two pages --------------------------------------------------------------------------------------


def pages(docs: Path) -> dict[Path, str]:
    """Both pages: path -> text."""
    ideas, errata = docs / "coverage.toml", docs / "errata.toml"
    return {ideas.with_suffix(".md"): ideas_page(ideas), errata.with_suffix(".md"): errata_page(errata)}


def ideas_page(source: Path) -> str:
    columns: dict[str, Callable[[Row], str]] = {
        "id": lambda row: row.id,
        "idea": lambda row: row.idea,
        "also in": lambda row: ", ".join(str(number) for number in row.articles[1:]),
        "taught in": taught_in,
        "exercises": with_exercises,
    }
    return page(IDEAS_HEAD, source, columns)


def errata_page(source: Path) -> str:
    columns: dict[str, Callable[[Row], str]] = {
        "id": lambda row: row.id,
        "the article says": lambda row: row.says,
        "right is": lambda row: row.right,
        "taught in": taught_in,
        "exercise (named mistake)": with_exercises,
    }
    return page(ERRATA_HEAD, source, columns)


def page(head: str, source: Path, columns: dict[str, Callable[[Row], str]]) -> str:
    """A table for each article. Raises: CoverageError, with a line for each row that names what is not there."""
    rows, texts, wrong = read_rows(source), {}, []
    for row in rows:
        try:
            texts[row.id] = line(row, columns)
        except CoverageError as error:
            wrong.append(f"docs/{source.name}, {error}")
    if wrong:
        raise CoverageError("\n".join(wrong))
    parts = [f"<!-- written by `make build` from {source.name} -->", head]
    for number, subject in ARTICLES.items():
        lines = [" | ".join(columns), "|".join("---" for _ in columns)]
        lines += [texts[row.id] for row in rows if row.articles[0] == number]
        parts += [f"## Article {number}: {subject}", "\n".join(f"| {each} |" for each in lines)]
    return "\n\n".join(parts) + "\n"


def line(row: Row, columns: dict[str, Callable[[Row], str]]) -> str:
    try:
        return " | ".join(make(row) for make in columns.values())
    except CoverageError as error:
        raise CoverageError(f"row {row.id}: {error}.") from None


def taught_in(row: Row) -> str:
    """The links to the sections, then the reason if there is one."""
    if not row.taught and not row.reason:
        raise CoverageError("it has neither a section nor a reason")
    links = [find_section(name).link for name in row.taught]
    return ", ".join(links) + (". " if links and row.reason else "") + row.reason


def with_exercises(row: Row) -> str:
    return ", ".join(shown_exercise(name) for name in row.exercises)
