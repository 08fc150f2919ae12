"""The notebooks of the course: their numbers and names, what they take and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from course_lib.contents import CONTENTS


@dataclass(frozen=True)
class Notebook:
    """One notebook. `written_points` are those of its written answers, which a person marks."""

    stem: str
    title: str
    minutes: int  # for somebody to whom it is new
    written_points: float

    @property
    def topic(self) -> str:
        return self.stem.partition("_")[2]

    @property
    def number(self) -> int:
        return int(self.stem.partition("_")[0])

    @property
    def name(self) -> str:
        """The title without its number and without what follows a colon: "Masks"."""
        return self.title.rpartition(" · ")[2].partition(":")[0]


@cache
def all_notebooks() -> tuple[Notebook, ...]:
    return tuple(Notebook(*line) for line in CONTENTS)


def find_notebook(stem: str) -> Notebook:
    for notebook in all_notebooks():
        if notebook.stem == stem:
            return notebook
    raise ValueError(f"There is no notebook {stem!r}. There are: {', '.join(n.stem for n in all_notebooks())}.")
