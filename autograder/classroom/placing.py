"""Where a notebook goes: submitted/STUDENT/ASSIGNMENT/, and earlier/ for every version that is replaced."""

from __future__ import annotations

import filecmp
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from nbgrader.utils import parse_utc

from autograder.classroom.class_file import Rules
from autograder.classroom.course import SECRET, STAMP, Course
from autograder.classroom.roster import Roster

TIMESTAMP = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader's exchange writes it
EARLIER = "%Y-%m-%d_%H-%M-%S"  # the names of versions in earlier/


def existing_date(target: Path) -> datetime:
    """When a submission was handed in: as nbgrader reads it, otherwise when its file was written."""
    try:
        return parse_utc((target.parent / STAMP).read_text(encoding="utf-8").strip()).replace(tzinfo=UTC)
    except (OSError, ValueError, OverflowError):
        return datetime.fromtimestamp(target.stat().st_mtime, UTC)


def keep_earlier(target: Path, folder: Path) -> Path:
    """Copy a submission that is about to be replaced to where nothing is ever replaced."""
    return keep_as_earlier(target, existing_date(target), folder)


def keep_as_earlier(file: Path, date: datetime, folder: Path) -> Path:
    """Copy a version to where nothing is ever replaced, under the date on which it was handed in."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{date:{EARLIER}}"
    names = (f"{stem}_{number}.ipynb" if number else f"{stem}.ipynb" for number in count())
    kept = next(
        path for name in names if not (path := folder / name).exists() or filecmp.cmp(file, path, shallow=False)
    )
    if not kept.exists():
        draft = kept.with_suffix(".part")
        shutil.copy2(file, draft)
        os.replace(draft, kept)
    return kept


def choose_version(course: Course, assignment: str, student: str, rules: Rules, roster: Roster) -> str:
    """If the last version on time counts: put it into submitted/. Returns: a sentence if that changed something.

    A version that came too late is kept in earlier/ and returns when the deadline is extended.
    """
    target = course.submitted(assignment, student)
    limit = deadline(assignment, student, rules, roster)
    if rules.counts != "last_on_time" or limit is None or not target.is_file():
        return ""
    versions = {target: existing_date(target)} | dict(earlier_versions(course.earlier(assignment, student)))
    on_time = {path: date for path, date in versions.items() if date <= limit}
    among = on_time or versions
    chosen, before = max(among, key=lambda path: among[path]), versions[target]
    if target in among and among[chosen] - before < timedelta(seconds=1):  # names in earlier/ have no fractions
        return ""
    keep_earlier(target, course.earlier(assignment, student))
    write_submission(chosen, among[chosen], target)
    counts = f"the version of {rules.shown(among[chosen])} counts"
    if not on_time:
        return f"None was on time, so {counts}: it is the last."
    if before > limit:
        return f"It was late ({rules.shown(before)}) and is kept, but {counts}: it is the last one on time."
    return f"Now {counts}: it is the last one on time."


def deadline(assignment: str, student: str, rules: Rules, roster: Roster) -> datetime | None:
    """Until when something of this student's is on time, in UTC."""
    due = rules.of(assignment).due_for(student, roster.extra_time(student))
    return None if due is None else due.replace(tzinfo=UTC) + timedelta(minutes=rules.late.grace_minutes)


def earlier_versions(folder: Path) -> Iterator[tuple[Path, datetime]]:
    for path in sorted(folder.glob("*.ipynb")):
        with suppress(ValueError):
            yield path, datetime.strptime(path.stem[:19], EARLIER).replace(tzinfo=UTC)


def write_submission(file: Path, date: datetime | None, target: Path, secret: Path | None = None) -> None:
    """Put a notebook and its date in place, so that nobody ever sees half of it, or the wrong date with it.

    A new folder appears at once with all of it. In an old one the date goes first and comes last: while there is none,
    the file's own is the right one.
    """
    home = target.parent
    draft = home.parent.parent / f".collecting-{secrets.token_hex(4)}"
    try:
        draft.mkdir(parents=True)
        shutil.copyfile(file, draft / target.name)
        if secret:
            shutil.copyfile(secret, draft / SECRET)
        if date:
            os.utime(draft / target.name, (date.timestamp(),) * 2)
            write_stamp(draft / STAMP, date)
        home.parent.mkdir(exist_ok=True)
        if not home.exists() or not any(home.iterdir()):
            os.rename(draft, home)
            return
        (home / STAMP).unlink(missing_ok=True)
        os.replace(draft / target.name, target)
        if secret:
            os.replace(draft / SECRET, home / SECRET)
        if date:
            os.replace(draft / STAMP, home / STAMP)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_stamp(path: Path, date: datetime) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(date.strftime(TIMESTAMP) + "\n", encoding="utf-8")
    os.replace(draft, path)
