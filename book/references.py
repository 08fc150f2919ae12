"""The works that the notebooks cite, from book/references.toml, and the page that lists them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autograder.authoring.build import glossary_notebook, solution_notebook, stems, title

FILE = Path(__file__).with_name("references.toml")
# The last name before a year: "Su et al. (2021)", "Jain and Wallace 2019", "Bloem, 2019".
CITATION = re.compile(r"([A-ZÀ-Ý][\w’'-]+)( et al\.)?,? \(?((?:19|20)\d\d)(?!\d)")
NO_NAMES = {"In", "ALBERT", "RoBERTa", "February", "November"}  # words before a year that name no author
HEAD = """\
# References

The works that the notebooks cite, each with links to the notebooks that cite it."""


class Citation(NamedTuple):
    """A name and a year in a text. The name is the first author's if others are not named, else the last one's."""

    name: str
    is_first: bool
    year: int


@dataclass(frozen=True)
class Work:
    """An entry of references.toml."""

    id: str
    authors: list[str]
    year: int
    title: str
    where: str
    cited_as: int = 0
    only_in: str = ""

    def answers(self, citation: Citation, stem: str) -> bool:
        """Whether the citation means this work, in this notebook."""
        surnames = [author.partition(",")[0] for author in self.authors]
        named = surnames[0] if citation.is_first else surnames[-1]
        is_named = named == citation.name and citation.year in (self.year, self.cited_as)
        return is_named and stem.startswith(self.only_in)

    @property
    def citation(self) -> str:
        *first, last = self.authors
        joint = " " if last == "and others" else " and "
        names = ", ".join(first) + (joint if first else "") + last
        return f"{names} ({self.year}): *{self.title}*. {self.where}."


def works() -> list[Work]:
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [Work(id=name, **fields) for name, fields in entries.items()]


def citations(text: str) -> Iterator[Citation]:
    """All citations in a text."""
    for found in CITATION.finditer(" ".join(text.split())):
        if found[1] not in NO_NAMES:
            yield Citation(found[1], bool(found[2]), int(found[3]))


def cited() -> dict[str, set[Citation]]:
    """What each notebook cites in its texts, model answers included, and the glossary."""
    notebooks = {stem: solution_notebook(stem) for stem in stems()} | {"glossary": glossary_notebook()}
    return {
        stem: {found for cell in notebook.cells if cell.cell_type == "markdown" for found in citations(cell.source)}
        for stem, notebook in notebooks.items()
    }


def page() -> str:
    """All works with full citations, each with links to the notebooks that cite it."""
    found = cited()
    lines = []
    for work in works():
        where = [stem for stem, citations in found.items() if any(work.answers(one, stem) for one in citations)]
        links = ", ".join(f"[{number_of(stem)}](<{stem}.md>)" for stem in where)
        lines.append(f"- {work.citation} → {links}")
    return "\n\n".join([HEAD, "\n".join(lines)]) + "\n"


def number_of(stem: str) -> str:
    return "glossary" if stem == "glossary" else title(stem).partition(" ·")[0]
