"""The glossary: `solutions/glossary.md` becomes notebooks/glossary.ipynb, and terms in the text become links to it.

## entropy                 an entry: the term, then one to four sentences
{{term entropy}}           in a notebook: a link; {{term entropy|entropies}} shows another word
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbformat import NotebookNode

FILE = "glossary.ipynb"
TERM_MARK = re.compile(r"\{\{term\s+([^|{}]+)(?:\|([^{}]+))?\}\}")
FIRST_SENTENCE = re.compile(r"(.+?[.!?])(?=\s|$)", re.DOTALL)


class GlossaryError(Exception):
    """A term without an entry, or an entry that cannot be read."""


class Glossary:
    """The entries by term, in alphabetical order."""

    def __init__(self, text: str):
        self.introduction, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
        entries = [part.partition("\n")[::2] for part in parts]
        self.entries = {term.strip(): body.strip() for term, body in entries}
        self.known = {term.casefold(): term for term in self.entries}
        if len(self.known) != len(entries):
            raise GlossaryError("glossary.md: two entries have the same name.")
        for term, body in self.entries.items():
            if not FIRST_SENTENCE.match(body):
                raise GlossaryError(f"glossary.md: the entry {term} has no sentence.")

    @classmethod
    def read(cls, path: Path) -> Glossary:
        return cls(path.read_text(encoding="utf-8"))

    def linked(self, text: str) -> str:
        """The text with its marks turned into links. The entry's first sentence is shown as a tooltip."""
        return TERM_MARK.sub(lambda mark: self.link(mark[1].strip(), (mark[2] or mark[1]).strip()), text)

    def link(self, term: str, shown: str) -> str:
        return f'[{shown}]({FILE}#{anchor(self.find(term))} "{self.tooltip(term)}")'

    def find(self, term: str) -> str:
        """The entry's name; capitals and line breaks make no difference."""
        name = " ".join(term.split())
        if name.casefold() not in self.known:
            raise GlossaryError(f"There is no entry {name!r} in solutions/glossary.md: write one.")
        return self.known[name.casefold()]

    def tooltip(self, term: str) -> str:
        """The first sentence as plain text: no formula or link is drawn there."""
        sentence = FIRST_SENTENCE.match(self.entries[self.find(term)])
        assert sentence is not None
        plain = TERM_MARK.sub(lambda mark: mark[2] or mark[1], sentence[1])
        return re.sub(r"[`$*]", "", " ".join(plain.split())).replace('"', "'")

    def used_in(self, text: str) -> set[str]:
        """The entries that a text links to."""
        return {self.find(mark[1].strip()) for mark in TERM_MARK.finditer(text)}

    def cells(self) -> list[NotebookNode]:
        """The notebook's cells: the introduction, then one for each entry."""
        texts = [self.introduction.strip()]
        for term in sorted(self.entries, key=str.casefold):
            texts.append(f"## {term}\n\n{self.linked_here(self.entries[term])}")
        return [nbformat.v4.new_markdown_cell(text) for text in texts]

    def linked_here(self, text: str) -> str:
        """An entry's own marks: links within the same notebook."""
        return TERM_MARK.sub(
            lambda mark: f"[{(mark[2] or mark[1]).strip()}](#{anchor(self.find(mark[1].strip()))})", text
        )


def anchor(term: str) -> str:
    """The name that JupyterLab gives a heading."""
    return quote(term.replace(" ", "-"))
