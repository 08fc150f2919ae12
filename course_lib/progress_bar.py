"""A bar for cells that take a while: `for step in bar(range(600), "training"): …`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from course_lib.surroundings import somebody_watches

T = TypeVar("T")
WIDTH = 30  # characters
SECONDS_BETWEEN = 0.2


def bar(items: Iterable[T], what: str = "", total: int | None = None) -> Iterator[T]:
    """The items themselves, while a line on stdout shows how far the loop is and how long it still takes.

    total: how many there are, where `len(items)` cannot say. Nothing is shown where nobody watches: while a notebook
    is graded, or in a program whose output goes to a file. In the end one short line stays.
    """
    return shown(items, what, total) if somebody_watches() else iter(items)


def shown(items: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    if total is None and isinstance(items, Sized):
        total = len(items)
    start = last = time.monotonic()
    done = widest = 0
    try:
        for item in items:
            if done == 0 or time.monotonic() - last >= SECONDS_BETWEEN:
                last = time.monotonic()
                widest = write_over(line(what, done, total, last - start), widest)
            yield item
            done += 1
    finally:
        outcome = "done" if total in (None, done) else "stopped"
        took = duration(time.monotonic() - start)
        write_over(f"{what or 'loop'}: {count(done, total)} {outcome} in {took}\n", widest)


def line(what: str, done: int, total: int | None, seconds: float) -> str:
    """training ━━━━━━━━━╌╌╌╌╌╌╌  120 of 600, about 8 s left."""
    if not total:
        return f"{what} {done}, {duration(seconds)}"
    filled = WIDTH * min(done, total) // total
    left = f", about {duration(seconds * (total - done) / done)} left" if done else ""
    return f"{what} {'━' * filled}{'╌' * (WIDTH - filled)} {count(done, total)}{left}"


def count(done: int, total: int | None) -> str:
    return str(done) if total is None else f"{done} of {total}"


def duration(seconds: float) -> str:
    """3 s, 1 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write_over(text: str, widest: int) -> int:
    """Write a line over the one before. Returns: the widest so far, all of which has to be overwritten."""
    ending = "\n" if text.endswith("\n") else ""
    text = text.rstrip("\n")
    sys.stdout.write(f"\r{text.ljust(widest)}{ending}")
    sys.stdout.flush()
    return max(widest, len(text))
