"""What `collect` remembers: under which name and number the LMS knows each submission, and what could not be placed.

It is kept in collected.json in the class's folder. Exports need the LMS's own names, and whoever handed in something
that belongs to nobody has to appear in the report and in the exports until it is placed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder.classroom.course import Course

FILE = "collected.json"


@dataclass(frozen=True)
class LmsName:
    """The name that an LMS gave a submission: its feedback has to go back under the same name."""

    lms: str  # "Moodle" or "Canvas"
    name: str
    number: str  # Moodle's of the participant in this assignment, Canvas' of the user
    upload: str = ""  # Canvas' of the file


@dataclass(frozen=True)
class Lost:
    """A person's work that could not be placed, and why."""

    download: str
    path: str
    reason: str
    folder: str = ""  # in which the download lay: many are called submissions.zip
    digest: str = ""  # of the notebook, if it is one


def read(course: Course) -> dict[str, Any]:
    """The content of the file; empty if it cannot be read."""
    try:
        data = json.loads((course.root / FILE).read_text(encoding="utf-8"))
        return data if isinstance(data, dict) else {}
    except (OSError, ValueError):
        return {}


def lms_names(course: Course, assignment: str) -> dict[str, LmsName]:
    """student -> what the LMS called the submission of this assignment."""
    own = read(course).get("names", {}).get(assignment, {})
    return {student: LmsName(**entry) for student, entry in own.items()}


def lost_work(course: Course) -> list[Lost]:
    """What was handed in but could not be assigned to anybody so far."""
    return [Lost(**entry) for entry in read(course).get("lost", [])]


def remember(
    course: Course,
    download: Path,
    names: Iterable[tuple[str, str, LmsName]],
    lost: Iterable[Lost],
    placed: Collection[tuple[str, str]] = (),
) -> None:
    """Note what came of collecting a download. What an earlier look at the same download said is forgotten, and so is
    what has been placed now: an LMS gives each download another name.

    download: its whole path. names: (assignment, student, name). placed: (path, digest) of the notebooks that were
    placed. Both have to agree, since somebody may hand in a copy of another's notebook.
    """
    before = read(course)
    known = before.get("names", {})
    for assignment, student, name in names:
        known.setdefault(assignment, {})[student] = asdict(name)
    this = download.name, str(download.parent)
    kept = [
        entry
        for entry in lost_work(course)
        if (entry.download, entry.folder) != this and (entry.path, entry.digest) not in placed
    ]
    data = {"names": known, "lost": [asdict(entry) for entry in [*kept, *lost]]}
    if before or known or data["lost"]:
        course.ledger.write(course.root / FILE, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
