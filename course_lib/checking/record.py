"""What was tried and how it went, in one small file beside the notebooks. Nothing leaves the machine."""

from __future__ import annotations

import json
import os
from itertools import chain, count
from pathlib import Path
from typing import Any

from course_lib.surroundings import is_graded_run

from .report import Report

FILE_NAME = ".course_progress.json"


DRIVE = Path("/content/drive/MyDrive")  # Google Drive in Colab, where it is mounted


def location() -> Path:
    """The file: COURSE_PROGRESS if set, else on a mounted Drive, else in the current folder, which notebooks share."""
    if "COURSE_PROGRESS" in os.environ:
        return Path(os.environ["COURSE_PROGRESS"])
    return (DRIVE if DRIVE.is_dir() else Path()) / FILE_NAME


def read() -> dict[str, dict[str, Any]]:
    """exercise name -> {"points", "max_points", "outcome", "attempts", "hints"}; empty if there is no good file."""
    return read_good() or {}


def read_good() -> dict[str, dict[str, Any]] | None:
    place = location()
    if place.parent == DRIVE and not place.exists():  # mounted only now: what was done before still counts
        place = Path(FILE_NAME)
    try:
        entries = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return entries if isinstance(entries, dict) else None


def entry(name: str) -> dict[str, Any]:
    found = read().get(name)
    blank = {"points": 0.0, "max_points": 0.0, "outcome": "not attempted", "attempts": 0, "hints": 0}
    return {**blank, **found} if isinstance(found, dict) else blank


def note_report(report: Report) -> None:
    """Keep the best result, and count the real attempts."""
    old = entry(report.name)
    best = report if report.points >= old["points"] else None
    attempts = old["attempts"] + (report.outcome != "not attempted" and report.is_attempt)
    new = {"points": best.points, "outcome": best.outcome} if best else {}
    write(report.name, {**old, **new, "max_points": report.max_points, "attempts": attempts})


def note_hint(name: str) -> int:
    """Count a hint as given. Returns how many were given before."""
    old = entry(name)
    write(name, {**old, "hints": old["hints"] + 1})
    return int(old["hints"])


def write(name: str, values: dict[str, Any]) -> None:
    """Change one entry. If the folder cannot be written to, the student can continue without a record."""
    if is_graded_run():  # of somebody else's notebook
        return
    entries = {**read(), name: values}
    draft = location().with_name(location().name + ".new")
    try:
        draft.write_text(json.dumps(entries, indent=1, sort_keys=True), encoding="utf-8")
        if location().exists() and read_good() is None:
            location().rename(place_for_damaged())
        draft.replace(location())
    except OSError:
        return


def place_for_damaged() -> Path:
    """A new name for a file that cannot be read: a person may still be able to recover it."""
    marks = chain(["damaged"], (f"damaged {number}" for number in count(2)))
    places = (location().with_name(f"{location().stem} ({mark}).json") for mark in marks)
    return next(place for place in places if not place.exists())
