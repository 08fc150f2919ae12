"""What is in a download: the notebooks of a folder or a zip, and of the zips in it.

Links are not followed, and a problem with one file is reported with its name and affects only that file. Who handed in
a notebook, and when, is told by the name and the date that the download itself has for a file, folder or archive, since
those come from the LMS. Those inside an archive that a student packed are not used for this.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import count
from pathlib import Path
from typing import IO

from autograder.classroom.archives import (
    Budget,
    NoZip,
    TooMuch,
    entry_date,
    entry_name,
    opened_zip,
    why,
)
from autograder.classroom.course import SECRET, STAMP, CourseError
from autograder.judging.rebuild import printable

MOST_BYTES_OF_A_NOTEBOOK = 100_000_000  # grading flags smaller ones already
MOST_OTHERS_OF_AN_INNER_ZIP = 20  # files that are named in the report
LONGEST_PATH = 1_000  # characters, in an archive
DEEPEST_FOLDER = 40

NOTEBOOK = re.compile(r"(?P<stem>.+)\.ipynb(\.txt|\.json)?", re.IGNORECASE)  # some browsers add an ending
ARCHIVE = re.compile(r".+\.(tar|tgz|gz|bz2|xz|rar|7z)", re.IGNORECASE)
JUNK = re.compile(
    r"__MACOSX|\.ipynb_checkpoints|\.DS_Store|Thumbs\.db|desktop\.ini|\._.*|__pycache__|\.git", re.IGNORECASE
)
GIT = ".git"
MOST_BYTES_OF_A_SECRET = 1_000


@dataclass(frozen=True)
class Parcel:
    """An archive that a student packed, by the name and the date that the download has for it."""

    parts: tuple[str, ...]
    date: datetime | None


@dataclass(frozen=True)
class Found:
    """A notebook of the download."""

    parts: tuple[str, ...]  # folders, archives without their ending, and the file's name
    copy: Path
    own_date: datetime | None  # UTC
    parcel: Parcel | None = None  # if a student packed it: then its own name and date are whatever the student chose

    @property
    def path(self) -> str:
        return shown(self.parts)

    @property
    def stem(self) -> str:
        return without_ending(self.parts[-1])

    @property
    def given(self) -> tuple[str, ...]:
        """The names that the download itself has on the way to it, without an ending."""
        return self.parcel.parts if self.parcel else (*self.parts[:-1], self.stem)

    @property
    def home(self) -> tuple[str, ...]:
        """The folders of the download in which it lies. An archive is one."""
        return self.parcel.parts if self.parcel else self.parts[:-1]

    @property
    def digest(self) -> str:
        """Of its content: tells whether another download has the same notebook."""
        return hashlib.sha256(self.copy.read_bytes()).hexdigest()

    @property
    def date(self) -> datetime | None:
        """When it was handed in, in UTC."""
        return self.parcel.date if self.parcel else self.own_date


def shown(parts: tuple[str, ...]) -> str:
    """A path for the report: on one line, and not endless."""
    path = printable("/".join(parts))
    return path if len(path) <= 300 else f"{path[:200]}…{path[-99:]}"


def without_ending(name: str) -> str:
    match = NOTEBOOK.fullmatch(name)
    return match["stem"] if match else name


@dataclass(frozen=True)
class Unplaced:
    """A file of the download, or a student's folder, from which nothing was taken."""

    path: str
    reason: str
    is_lost: bool = False  # somebody's work, of which nothing counts
    digest: str = ""  # of a notebook that is lost


@dataclass
class Download:
    """Walks through a folder or a zip, and through the zips in it, and copies the notebooks to a scratch folder."""

    scratch: Path
    zone: tzinfo | None = None  # of the dates in a zip; None: that of this machine
    notebooks: list[Found] = field(default_factory=list)
    folders: set[tuple[str, ...]] = field(default_factory=set)  # of the download itself
    others: list[Unplaced] = field(default_factory=list)
    repositories: set[tuple[str, ...]] = field(default_factory=set)  # folders that git has made
    secrets: dict[tuple[str, ...], Path] = field(default_factory=dict)  # of nbgrader's exchange, by folder
    numbers: Iterator[int] = field(default_factory=count)  # nothing in the scratch folder has a name that was sent

    def read(self, downloaded: Path) -> None:
        name = printable(str(downloaded))
        if downloaded.is_dir():
            self.read_folder(downloaded)
        elif not downloaded.exists():
            raise CourseError(f"{name} does not exist.")
        elif not downloaded.is_file():
            raise CourseError(f"{name} is neither a folder nor a file.")
        else:
            try:
                self.read_zip(downloaded, (), Budget(), None)
            except NoZip as error:
                raise CourseError(f"{name} is neither a folder nor a zip file: {error}.") from None

    def read_folder(self, root: Path) -> None:
        waiting: list[tuple[str, tuple[str, ...]]] = [(str(root), ())]
        while waiting:
            folder, outside = waiting.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                if not outside:
                    raise CourseError(f"{printable(folder)} cannot be read: {error.strerror}.") from None
                self.leave_unread(outside, error)
                continue
            for entry in entries:
                parts = (*outside, entry.name)
                if entry.name == GIT:
                    self.repositories.add(outside)
                if JUNK.fullmatch(entry.name):
                    continue
                if entry.is_symlink():
                    self.leave(parts, "It is a link, and links are not followed.", is_lost=False)
                elif entry.is_dir():
                    self.folders.add(parts)
                    waiting.append((entry.path, parts))
                elif not entry.is_file():
                    self.leave(parts, "It is not an ordinary file.", is_lost=False)
                elif self.is_wanted(parts):
                    self.read_file(Path(entry.path), parts)

    def read_file(self, path: Path, parts: tuple[str, ...]) -> None:
        try:
            with path.open("rb") as stream:
                self.take(stream, parts, datetime.fromtimestamp(path.stat().st_mtime, UTC), Budget(), None)
        except (OSError, ValueError, OverflowError) as error:
            self.leave_unread(parts, error)

    def read_zip(self, path: Path, outside: tuple[str, ...], budget: Budget, parcel: Parcel | None) -> None:
        with opened_zip(path, budget.left.files) as archive:
            for entry in archive.infolist():
                budget.count_file()
                name = entry_name(entry)
                parts = (*outside, *(part for part in name.split("/") if part not in ("", ".")))
                if GIT in parts and parcel is None:
                    self.repositories.add(parts[: parts.index(GIT)])
                if not parts or any(JUNK.fullmatch(part) for part in parts):
                    continue
                if name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name):
                    self.leave(parts, "Its name leads out of the archive. That is not a name for a submission.")
                elif len(name) > LONGEST_PATH or len(parts) > DEEPEST_FOLDER:
                    self.leave(parts, "Its name is far too long. That is not a name for a submission.")
                else:
                    self.read_entry(archive, entry, parts, budget, parcel)

    def read_entry(
        self,
        archive: zipfile.ZipFile,
        entry: zipfile.ZipInfo,
        parts: tuple[str, ...],
        budget: Budget,
        parcel: Parcel | None,
    ) -> None:
        is_folder = entry_name(entry).endswith("/")
        if parcel is None:
            self.folders.update(parts[:depth] for depth in range(1, len(parts) + is_folder))
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if is_folder:
            return
        if kind == stat.S_IFLNK:
            self.leave(parts, "It is a link, and links are not followed.", is_lost=False)
        elif kind not in (0, stat.S_IFREG):
            self.leave(parts, "It is not an ordinary file.", is_lost=False)
        elif entry.flag_bits & 1:
            self.leave(parts, "It is protected by a password.")
        elif self.is_wanted(parts):
            try:
                with archive.open(entry) as stream:
                    self.take(stream, parts, entry_date(entry, self.zone), budget, parcel)
            except Exception as error:  # zipfile and its decompressors raise whatever they come upon
                self.leave(parts, f"It cannot be unpacked: {why(error)}.")

    def is_wanted(self, parts: tuple[str, ...]) -> bool:
        """Is it a notebook, or an archive that may hold some? Everything else is listed, and stays where it is."""
        name = parts[-1]
        if NOTEBOOK.fullmatch(name) or name.lower().endswith(".zip") or name == SECRET:
            return True
        if name == STAMP:
            return False
        if ARCHIVE.fullmatch(name):
            self.leave(parts, "It is an archive, but not a zip. Unpack it and collect again.")
        else:
            self.leave(parts, "It is not a notebook, so it was not copied.", is_lost=False)
        return False

    def take(
        self, stream: IO[bytes], parts: tuple[str, ...], date: datetime | None, budget: Budget, parcel: Parcel | None
    ) -> None:
        copy = self.scratch / str(next(self.numbers))
        taken = False
        try:
            if NOTEBOOK.fullmatch(parts[-1]):
                budget.copy(stream, copy, MOST_BYTES_OF_A_NOTEBOOK)
                self.notebooks.append(Found(parts, copy, date, parcel))
                taken = True
            elif parts[-1] == SECRET:
                budget.copy(stream, copy, MOST_BYTES_OF_A_SECRET)
                if not copy.read_bytes().isascii():  # nbgrader would stop at it, before others get their feedback
                    self.leave(parts, "It is not what nbgrader writes, so feedback is not released under it.", False)
                elif parcel is None:
                    self.secrets[parts[:-1]] = copy
                    taken = True
            else:
                inner = budget.for_inner_zip()
                inner.copy(stream, copy)
                self.read_inner_zip(
                    copy, parts, inner, parcel or Parcel((*parts[:-1], parts[-1][: -len(".zip")]), date)
                )
        except TooMuch as error:
            self.leave(parts, str(error))
        finally:
            if not taken:
                copy.unlink(missing_ok=True)

    def read_inner_zip(self, copy: Path, parts: tuple[str, ...], budget: Budget, parcel: Parcel) -> None:
        notebooks, others = len(self.notebooks), len(self.others)
        try:
            self.read_zip(copy, (*parts[:-1], parts[-1][: -len(".zip")]), budget, parcel)
        except NoZip as error:
            self.leave(parts, f"It cannot be opened as a zip: {error}.")
        except TooMuch:
            del self.notebooks[notebooks:]
            del self.others[others:]
            raise
        more = len(self.others) - others - MOST_OTHERS_OF_AN_INNER_ZIP
        if more > 0:
            del self.others[-more:]
            self.leave(parts, f"It holds {more} more files from which nothing was taken.", is_lost=False)

    def leave_unread(self, parts: tuple[str, ...], error: Exception) -> None:
        """What this machine could not read: nobody knows whether there is a notebook in the folders around it."""
        self.folders.difference_update(parts[:depth] for depth in range(1, len(parts) + 1))
        self.leave(parts, f"It cannot be read: {why(error)}.")

    def leave(self, parts: tuple[str, ...], reason: str, is_lost: bool = True) -> None:
        self.others.append(Unplaced(shown(parts), printable(reason), is_lost))
