"""Small words and numbers for pages that people read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LINES, WIDTH = 40, 140  # of an answer that is shown
SPACE = "\u00a0"  # a space that keeps a number and its unit on one line


def in_words(name: str) -> str:
    """`hides_the_diagonal` and `HidesTheDiagonal` as words, and `AddsABias` as "adds a bias"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=A)(?=[A-Z][a-z])", " ", name).replace("_", " ").lower()


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(parts: Sequence[str]) -> str:
    """one, two and three"""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def percent(part: float, whole: float) -> str:
    return f"{100 * part / (whole or 1):.0f}{SPACE}%"


def duration(seconds: float) -> str:
    """`3 days 2 hours`: the two largest units that matter."""
    minutes = max(1, round(seconds / 60))
    units = {"day": minutes // 1440, "hour": minutes // 60 % 24, "minute": minutes % 60}
    return " ".join([counted(number, unit) for unit, number in units.items() if number][:2])


def shortened(text: str, lines: int = LINES, width: int = WIDTH) -> str:
    """The beginning of a text that may be endless. Says how much was left out."""
    kept = text[: 4 * lines * width].splitlines()
    cut = [line if len(line) <= width else line[: width - 1] + "…" for line in kept[:lines]]
    missing = len(text.splitlines()) - len(cut)
    return "\n".join([*cut, f"… {counted(missing, 'more line')}"] if missing > 0 else cut)


def visible(text: str) -> str:
    """Signs that would turn the writing direction, hide text or break the page are shown by their number."""
    return "".join(character if is_plain(character) else f"\\u{ord(character):04x}" for character in text)


def is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"
