"""Downloads for tests: folders and zips with notebooks in them, and a class to collect them into."""

from __future__ import annotations

import io
import json
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from release import released_text

from autograder.classroom.collect import Collected, Placed
from autograder.classroom.course import Course

STEMS = ("02_masks", "03_positions")
MONDAY = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
TUESDAY = datetime(2026, 3, 3, 8, 0, tzinfo=UTC)


def class_with_releases(folder: Path) -> Course:
    """A class in which two assignments are released."""
    made = Course(folder)
    for stem in STEMS:
        made.release(stem).parent.mkdir(parents=True)
        made.release(stem).write_text(released_text(stem), encoding="utf-8")
    return made


def notebook(stem: str = "02_masks", remark: str = "") -> bytes:
    """A notebook that was handed in, with something written in it. The remark makes it differ from others."""
    data = json.loads(released_text(stem))
    answer = next(cell for cell in data["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
    answer["source"] = [*answer["source"], "\n# mine"]
    data["metadata"]["remark"] = remark
    return json.dumps(data).encode()


def put(folder: Path, name: str, content: bytes | None = None, date: datetime = MONDAY) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(notebook() if content is None else content)
    os.utime(path, (date.timestamp(),) * 2)
    return path


def zipped(entries: dict[str, bytes], date: datetime | None = MONDAY) -> bytes:
    """A zip with these files. Its dates are in local time, as those of every zip are."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            local = date.astimezone().timetuple()[:6] if date else (1980, 1, 1, 0, 0, 0)
            archive.writestr(zipfile.ZipInfo(name, local), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def who(collected: Collected) -> dict[str, tuple[str, str]]:
    return {each.path: (each.student, each.assignment) for each in collected.placed}


def reason(collected: Collected, path: str) -> str:
    [why] = [each.reason for each in collected.unplaced if each.path == path]
    return why


def only(collected: Collected) -> Placed:
    [placed] = collected.placed
    return placed


def date_in_nbgrader(course: Course, student: str) -> datetime | None:
    path = course.submitted("02_masks", student).parent
    return CourseDirectory(root=str(course.root)).get_existing_timestamp(str(path))
