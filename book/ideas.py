"""What a misconception is about: axis, mask polarity, scale, shift, … The list is book/ideas.toml."""

from __future__ import annotations

import functools
import re
import tokenize
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.reporting.words import in_words
from course_lib.checking.diagnosis import deed_of
from course_lib.checking.merge import edits_of, tokens_of

FILE = Path(__file__).with_name("ideas.toml")
SENTENCE = re.compile(r"(?<=[.:!?]) +")  # where the first one ends; the rest says what would be right
LAYOUT = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL}

Program = Callable[..., Any]


@dataclass(frozen=True)
class Idea:
    """An entry of ideas.toml."""

    id: str
    title: str
    about: str
    words: str = ""
    exercises: str = ""
    change: str = ""

    def is_in(self, text: str) -> bool:
        return bool(self.words) and re.search(self.words, text, re.IGNORECASE) is not None

    def is_about(self, exercise: str) -> bool:
        return bool(self.exercises) and re.search(self.exercises, exercise) is not None


@functools.cache
def all_ideas() -> tuple[Idea, ...]:
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return tuple(Idea(id=name, **fields) for name, fields in entries.items())


def ideas_of(reference: Program, mistake: Program) -> list[str]:
    """The ideas that a misconception is about, by its words and its exercise; if there are none, by how it differs."""
    text = f"{in_words(mistake.__name__)}. {SENTENCE.split(deed_of(mistake), maxsplit=1)[0]}"
    found = [idea.id for idea in all_ideas() if idea.is_in(text) or idea.is_about(reference.__name__)]
    return found or [idea.id for idea in all_ideas() if idea.change == change_of(reference, mistake)]


def change_of(reference: Program, mistake: Program) -> str:
    """What was done to the code of the reference: "left out", "added" or "replaced"."""
    before = tokens_of(reference, reference)
    edits = edits_of(reference, mistake)
    removed = any(kind not in LAYOUT for start, end, _ in edits for kind, _ in before[start:end])
    added = any(kind not in LAYOUT for *_, new in edits for kind, _ in new)
    return "replaced" if added == removed else "added" if added else "left out"
