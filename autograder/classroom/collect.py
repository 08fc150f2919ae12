"""Imports a download: every notebook goes to submitted/STUDENT/ASSIGNMENT/, or the report says why not.

Recognised without being told:

    ada/02_masks/02_masks.ipynb, ada/02_masks.ipynb                    a folder for each student
    ada/Copy of 02_masks.ipynb, ada/homework.ipynb                     renamed: the content says which assignment it is
    Ada Lovelace_12345_assignsubmission_file_/anything.ipynb           Moodle, with folders
    Ada Lovelace_12345_assignsubmission_file_anything.ipynb            Moodle, without
    lovelaceada_LATE_12345_67890_02_masks-1.ipynb                      Canvas
    ada+02_masks+2026-03-02 10:30:00.000000 UTC+x/02_masks.ipynb       the inbound folder of nbgrader's exchange
    masks-ada/02_masks.ipynb, beside masks-ben/02_masks.ipynb          repositories of GitHub Classroom
    ada_02_masks.ipynb, Copy_of_02_masks_ada.ipynb                     all in one folder, from Colab too

Anything else by a pattern. If class.toml names a roster, everybody is somebody on it. A notebook in which nothing was
written is no submission. Who handed in a notebook, and when, is read from the name and the date that the download
itself has for a file, folder or archive, since those come from the LMS. Those inside an archive that a student packed
are not used for this.

The download is untrusted, like everything that students send: nothing is unpacked under a name of its own, links are
not followed, what becomes too large while it is unpacked is left out, and a problem with one file is reported with its
name and affects only that file. A submission that is replaced is kept in earlier/.
"""

from __future__ import annotations

import errno
import filecmp
import io
import os
import re
import secrets
import shutil
import stat
import struct
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import count
from pathlib import Path
from typing import IO, Literal

import nbformat
from nbgrader.utils import parse_utc

from autograder.classroom.class_file import Rules
from autograder.classroom.collected import LmsName, Lost, remember
from autograder.classroom.course import Course, CourseError
from autograder.classroom.roster import Person, Roster
from autograder.classroom.roster import student_id as student_id
from autograder.judging.rebuild import (
    DEFINITION,
    Cell,
    Notes,
    NotRebuilt,
    plain,
    printable,
    submitted_cells,
    submitted_text,
)

MOST_BYTES_OF_A_NOTEBOOK = 100_000_000  # grading flags smaller ones already
MOST_BYTES_OF_AN_INNER_ZIP = 300_000_000  # all that one student's archive may unpack to, archives in it included
MOST_FILES_OF_AN_INNER_ZIP = 5_000
MOST_OTHERS_OF_AN_INNER_ZIP = 20  # files that are named in the report
DEEPEST_ZIP = 3  # the LMS's, the student's, and one that somebody zipped again
LONGEST_PATH = 1_000  # characters, in an archive
DEEPEST_FOLDER = 40

NOTEBOOK = re.compile(r"(?P<stem>.+)\.ipynb(\.txt|\.json)?", re.IGNORECASE)  # some browsers add an ending
ARCHIVE = re.compile(r".+\.(tar|tgz|gz|bz2|xz|rar|7z)", re.IGNORECASE)
JUNK = re.compile(
    r"__MACOSX|\.ipynb_checkpoints|\.DS_Store|Thumbs\.db|desktop\.ini|\._.*|__pycache__|\.git", re.IGNORECASE
)
GIT = ".git"
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-zA-Z]*(_.*)?", re.DOTALL)
CANVAS = re.compile(r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<number>\d+)_(?P<upload>\d+)_(?P<rest>.+)", re.DOTALL)
INBOUND = re.compile(
    r"(?P<name>[^+]+)\+(?P<assignment>[^+]+)\+(?P<day>\d{4}-\d\d-\d\d)[ _]"
    r"(?P<hour>\d\d)[:_-](?P<minute>\d\d)[:_-](?P<second>\d\d)(?:\.\d+)?[ _]UTC(?:\+.*)?"
)
VERSION = re.compile(r"(?:[-_ ]?\((?P<browser>\d{1,4})\)|-(?P<canvas>\d{1,4}))$")
COPY_OF = re.compile(r"(Copy[ _]of|Kopie[ _]von|Copie[ _]de|Copia[ _]de)[ _]", re.IGNORECASE)  # Colab, in any language
NOT_A_NAME = re.compile(
    r"\b(new version|from notebooks|copy|kopie|final|solutions?|solved|done|submission|answers?|homework|hw\d*|new"
    r"|v?\d{1,3})\b",
    re.IGNORECASE,
)
GIVEN_BY_TEACHERS = re.compile(r"(hw|homework|assignment|lab|week|ex|exercise|project|task|ps)\d*|\d+", re.IGNORECASE)
FEWEST_DATES = 3  # that have to agree before it is suspicious
SAME_TIME = 60.0  # seconds
MOST_OF_THEM = 0.8  # of the cells that tell one release from another: people paste a cell of an earlier notebook
UNKNOWN_DATE = (1980, 1, 1)  # what archives without dates say
NO_NOTEBOOK = "There is no notebook in this student's folder."
TIMESTAMP = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader's exchange writes it


@dataclass(frozen=True)
class Placed:
    """A notebook that lies in submitted/ now, or lay there already."""

    path: str  # in the download
    student: str
    assignment: str
    outcome: Literal["new", "unchanged", "replaced"]
    reason: str


@dataclass(frozen=True)
class Unplaced:
    """A file of the download, or a student's folder, from which nothing was taken."""

    path: str
    reason: str
    is_lost: bool = False  # somebody's work, of which nothing counts


@dataclass(frozen=True)
class Collected:
    placed: tuple[Placed, ...]
    unplaced: tuple[Unplaced, ...]
    warnings: tuple[str, ...] = ()


def collect(course: Course, downloaded: Path, assignment: str | None = None, pattern: str | None = None) -> Collected:
    """Put the notebooks of a folder or zip into the course's submitted/ folder.

    assignment: take the files for this one. Else their names say which one they are for, or their contents.
    pattern: a regular expression that is searched in the path of each file (with / between folders), with a group
        `student` and, if it likes, a group `assignment`: r"(?P<student>[^/]+)/week\\d/(?P<assignment>\\w+)".
    """
    if not course.released():
        raise CourseError(
            "Nothing is released yet, so files cannot be assigned to assignments. Release the assignments first."
        )
    if assignment is not None and assignment not in course.released():
        names = ", ".join(course.released())
        raise CourseError(f"There is no released assignment {assignment}. Released are: {names}.")
    rule = checked_pattern(pattern) if pattern is not None else None
    with tempfile.TemporaryDirectory() as scratch:
        download = Download(Path(scratch))
        download.read(downloaded)
        collector = Collector(course, download, downloaded.stem, assignment, rule)
        collected = collector.collect()
    whole = downloaded.resolve()
    left = [each for each in collected.unplaced if each.is_lost]
    lost = [Lost(whole.name, each.path, each.reason, str(whole.parent)) for each in left]
    remember(course, whole, collector.lms_names, lost)
    return collected


def checked_pattern(pattern: str) -> re.Pattern[str]:
    try:
        rule = re.compile(pattern)
    except re.error as error:
        raise CourseError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None
    if "student" not in rule.groupindex:
        raise CourseError(f"The pattern {pattern!r} has no group for the student: put (?P<student>…) around that part.")
    return rule


# --- what is in the download ----------------------------------------------------------------------------


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
    parcel: Parcel | None = None  # if a student packed it: then its own name and date are what the student likes

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
    def date(self) -> datetime | None:
        """When it was handed in, in UTC."""
        return self.parcel.date if self.parcel else self.own_date


def shown(parts: tuple[str, ...]) -> str:
    """A path for the report: of one line, and not endless."""
    path = printable("/".join(parts))
    return path if len(path) <= 300 else f"{path[:200]}…{path[-99:]}"


def without_ending(name: str) -> str:
    match = NOTEBOOK.fullmatch(name)
    return match["stem"] if match else name


class TooMuch(Exception):
    """An archive that unpacks to more than a student could have written."""


class NoZip(Exception):
    """A file that cannot be opened as an archive. The message says why."""


@dataclass
class Download:
    """Walks through a folder or a zip, and through the zips in it, and copies the notebooks to a scratch folder."""

    scratch: Path
    notebooks: list[Found] = field(default_factory=list)
    folders: set[tuple[str, ...]] = field(default_factory=set)  # of the download itself
    others: list[Unplaced] = field(default_factory=list)
    repositories: set[tuple[str, ...]] = field(default_factory=set)  # folders that git has made
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
                    self.take(stream, parts, entry_date(entry), budget, parcel)
            except Exception as error:  # zipfile and its decompressors raise whatever they come upon
                self.leave(parts, f"It cannot be unpacked: {why(error)}.")

    def is_wanted(self, parts: tuple[str, ...]) -> bool:
        """Is it a notebook, or an archive that may hold some? All else is listed, and stays where it is."""
        name = parts[-1]
        if NOTEBOOK.fullmatch(name) or name.lower().endswith(".zip"):
            return True
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
            else:
                inner = budget.for_inner_zip()
                inner.copy(stream, copy, MOST_BYTES_OF_AN_INNER_ZIP)
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


def why(error: BaseException) -> str:
    """What went wrong, as part of a sentence."""
    said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return printable(said[:200]).rstrip(".")


@dataclass
class Allowance:
    """What one student's archive may still unpack to."""

    bytes: float
    files: float


@dataclass(frozen=True)
class Budget:
    """The outermost folder or archive comes from the LMS and is as large as the class; those inside have a limit."""

    left: Allowance = field(default_factory=lambda: Allowance(float("inf"), float("inf")))
    depth: int = 1

    def for_inner_zip(self) -> Budget:
        """The budget of an archive in this one. Archives in a student's archive share what is left of its own."""
        if self.depth == DEEPEST_ZIP:
            raise TooMuch("It is an archive in an archive in an archive. Unpack it by hand.")
        outermost = self.depth == 1
        left = Allowance(MOST_BYTES_OF_AN_INNER_ZIP, MOST_FILES_OF_AN_INNER_ZIP) if outermost else self.left
        return Budget(left, self.depth + 1)

    def count_file(self) -> None:
        self.left.files -= 1
        if self.left.files < 0:
            raise TooMuch(f"It holds more than {MOST_FILES_OF_AN_INNER_ZIP:,} files. Look at it by hand.")

    def copy(self, stream: IO[bytes], target: Path, most: int) -> None:
        """Copy a stream, and stop as soon as it is too long, whatever its header says."""
        with target.open("wb") as out:
            while chunk := stream.read(1 << 20):
                most -= len(chunk)
                self.left.bytes -= len(chunk)
                if most < 0 or self.left.bytes < 0:
                    raise TooMuch("It is far too large for a submission. Look at it by hand.")
                out.write(chunk)


# --- zips -----------------------------------------------------------------------------------------------

DIRECTORY_ENTRY = b"PK\x01\x02"
SHORTEST_ENTRY = 46  # bytes, without names
NAME_IN_UTF_8 = 0x800


class ZipStream(io.BufferedReader):
    """The file of an archive, as zipfile is to see it.

    zipfile makes an object of each entry before anybody can count them, and refuses the whole archive for one entry
    that it does not like. So the directory is counted as it is read and, if `mends`, made of entries that it likes.
    """

    def __init__(self, path: Path, most_files: float):
        super().__init__(io.FileIO(path))
        self.most_files = most_files
        self.opening = True
        self.mends = False

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not self.opening or not data.startswith(DIRECTORY_ENTRY):
            return data
        mended = []
        end = 0
        for number, entry in enumerate(directory_entries(data), start=1):
            if number > self.most_files:
                raise TooMuch(f"It holds more than {MOST_FILES_OF_AN_INNER_ZIP:,} files. Look at it by hand.")
            end += len(entry)
            if self.mends:
                mended.append(entry if is_readable(entry) else simplified(entry))
        return b"".join(mended) + data[end:] if self.mends else data


def directory_entries(directory: bytes) -> Iterator[bytes]:
    """The entries of an archive's directory, one after another, up to the first that is not an entry."""
    start = 0
    while directory.startswith(DIRECTORY_ENTRY, start) and start + SHORTEST_ENTRY <= len(directory):
        stop = start + SHORTEST_ENTRY + sum(struct.unpack_from("<3H", directory, start + 28))
        yield directory[start:stop]
        start = stop


def is_readable(entry: bytes) -> bool:
    """Would zipfile take an archive with nothing but this entry in its directory?"""
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 1, 1, len(entry), 0, 0)
    try:
        zipfile.ZipFile(io.BytesIO(entry + end)).close()
    except Exception:  # of many kinds: zipfile expects archives of programs, not of enemies
        return False
    return True


def simplified(entry: bytes) -> bytes:
    """An entry of the same length without what zipfile may refuse. The checksum tells whether its content is right."""
    flags, extra, comment = (struct.unpack_from("<H", entry, place)[0] for place in (8, 30, 32))
    if extra + comment > 0xFFFF:
        return entry
    made = bytearray(entry)
    made[6] = 20  # the version that is needed to unpack it
    struct.pack_into("<H", made, 8, flags & ~NAME_IN_UTF_8)
    struct.pack_into("<2H", made, 30, 0, extra + comment)  # what was extra is a comment now
    return bytes(made)


@contextmanager
def opened_zip(path: Path, most_files: float) -> Iterator[zipfile.ZipFile]:
    """An archive without the entries' power to make each other unreadable. Raises: NoZip, TooMuch."""
    with ExitStack() as files:
        try:
            stream = files.enter_context(ZipStream(path, most_files))
            archive = files.enter_context(directory_read(stream))
        except TooMuch:
            raise
        except Exception as error:  # see `is_readable`
            raise NoZip(why(error)) from None
        stream.opening = False
        yield archive


def directory_read(stream: ZipStream) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(stream)
    except TooMuch:
        raise
    except Exception:  # see `is_readable`
        stream.mends = True
        return zipfile.ZipFile(stream)


def entry_name(entry: zipfile.ZipInfo) -> str:
    """The name of a zip entry. Some programs write UTF-8 and do not say so."""
    name = entry.filename
    if not entry.flag_bits & NAME_IN_UTF_8:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return name.replace("\\", "/")


def entry_date(entry: zipfile.ZipInfo) -> datetime | None:
    """When the file was written, in UTC: by the field that says so, else by the field in local time."""
    extra = entry.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == 0x5455 and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return datetime.fromtimestamp(struct.unpack("<i", extra[5:9])[0], UTC)
        extra = extra[4 + size :]
    if entry.date_time[:3] == UNKNOWN_DATE:
        return None
    try:
        return datetime(*entry.date_time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# --- whose it is, and which assignment ------------------------------------------------------------------


class Releases:
    """What only one release has: grade ids, texts of cells, names of functions."""

    def __init__(self, course: Course):
        self.names = course.released()
        self.patterns = {name: name_pattern(name) for name in self.names}
        self.texts: dict[str, set[str]] = {}
        owners: dict[tuple[str, str], set[str]] = defaultdict(set)
        for name in self.names:
            cells = nbformat.read(course.release(name), as_version=4).cells
            self.texts[name] = {plain(cell.source) for cell in cells}
            for cell in cells:
                details = cell.metadata.get("nbgrader", {})
                kinds = {"grade id", "definition" if details.get("solution") else "text"}
                for mark in marks(details.get("grade_id", ""), plain(cell.source)):
                    if mark[0] in kinds:
                        owners[mark].add(name)
        self.owner = {mark: next(iter(names)) for mark, names in owners.items() if len(names) == 1}

    def named_in(self, parts: Iterable[str]) -> str | None:
        """The assignment that the innermost part names, among the parts that name one."""
        for part in parts:
            named = [name for name in self.names if self.patterns[name].search(part)]
            if len(named) == 1:
                return named[0]
        return None

    def is_untouched(self, assignment: str, path: Path) -> bool:
        """Whether every text in it is that of the release: it may have been run, but nothing was written."""
        cells = [cell for cell in cells_of(path) if cell.plain]
        own = self.texts[assignment]
        return bool(cells) and all(cell.plain in own or cell.is_as_some_release_had_it for cell in cells)

    def told_by(self, path: Path) -> str | None:
        """The assignment that the content of a notebook belongs to, if it has something of one release only."""
        cells = cells_of(path)
        for kind in ("grade id", "text", "definition"):
            found = Counter(
                self.owner[mark]
                for cell in cells
                for mark in marks(cell.grade_id, cell.plain)
                if mark[0] == kind and mark in self.owner
            )
            if found:
                [(name, hits)] = found.most_common(1)
                return name if hits >= MOST_OF_THEM * found.total() else None
        return None


@lru_cache(maxsize=2)
def cells_of(path: Path) -> list[Cell]:
    """The cells of a notebook that was handed in; none if it is not one."""
    try:
        return submitted_cells(submitted_text(path), Notes())
    except (NotRebuilt, MemoryError):
        return []


def marks(grade_id: str, text: str) -> Iterator[tuple[str, str]]:
    """What identifies a cell."""
    if grade_id:
        yield "grade id", grade_id
    if len(text) > 20:  # shorter ones say nothing
        yield "text", text
    yield from (("definition", name) for name in DEFINITION.findall(text))


def name_pattern(assignment: str) -> re.Pattern[str]:
    """Finds the assignment's name in a file's: not inside a longer word, also with other signs between its words."""
    words = [re.escape(word) for word in re.split(r"[_\- ]+", assignment)]
    return re.compile(r"(?<![^\W_])" + r"[_\- ]".join(words) + r"(?![^\W_])", re.IGNORECASE)


@dataclass(frozen=True)
class Claim:
    """A notebook with the student and the assignment that it seems to belong to."""

    found: Found
    student: str
    person: str  # what the student is called in the download: two people may come down to one id
    assignment: str
    is_certain: bool  # the file itself says which assignment it is
    late: bool = False
    by: Literal["Moodle", "Canvas", "nbgrader", "pattern", "folder"] = "pattern"  # who says whose it is
    lms: LmsName | None = None

    @property
    def age(self) -> tuple[float, float, int]:
        """Larger is newer: by date, then by the number that an LMS or a browser adds to a name.

        The dates in a student's archive only tell this student's own versions from each other.
        """
        version = VERSION.search(self.found.stem)
        number = int(version["browser"] or version["canvas"]) if version else 0
        handed_in, own = (d.timestamp() if d else float("-inf") for d in (self.found.date, self.found.own_date))
        return handed_in, own, number


class Unclear(Exception):
    """It is not certain whose file it is, or which assignment. The message says why."""


class Collector:
    """Finds out whose each notebook is, and places it."""

    def __init__(
        self, course: Course, download: Download, name: str, assignment: str | None, rule: re.Pattern[str] | None
    ):
        self.course = course
        self.download = download
        self.name = name
        self.assignment = assignment
        self.rule = rule
        self.releases = Releases(course)
        self.rules = course.rules()
        self.roster = course.roster()
        self.placed: list[Placed] = []
        self.unplaced = list(download.others)
        self.lms_names: list[tuple[str, str, LmsName]] = []  # assignment, student, what the LMS calls it

    def collect(self) -> Collected:
        claims: list[Claim] = []
        for found in self.download.notebooks:
            try:
                claim = self.claim(found)
            except Unclear as error:
                self.leave(found, str(error), is_lost=True)
                continue
            if self.releases.is_untouched(claim.assignment, found.copy):
                self.leave(found, f"Nothing was written in it: {claim.student} handed in {claim.assignment} unchanged.")
            else:
                claims.append(claim)
        for versions in self.by_submission(self.without_namesakes(claims)):
            self.place_newest(versions)
        self.choose_versions()
        self.report_empty_folders()
        self.placed.sort(key=lambda placed: (placed.assignment, placed.student))
        self.unplaced.sort(key=lambda unplaced: unplaced.path)
        return Collected(tuple(self.placed), tuple(self.unplaced), tuple(self.warnings()))

    def leave(self, found: Found, reason: str, is_lost: bool = False) -> None:
        self.unplaced.append(Unplaced(found.path, printable(reason), is_lost))

    def warnings(self) -> Iterator[str]:
        dates = [found.date.timestamp() for found in self.download.notebooks if found.date and not is_inbound(found)]
        if len(dates) >= FEWEST_DATES and max(dates) - min(dates) <= SAME_TIME:
            when = f"{datetime.fromtimestamp(min(dates), UTC):%Y-%m-%d %H:%M} UTC"
            yield (
                f"All {len(dates)} files have the same date, {when}. That is when they were downloaded or "
                "unpacked, not when they were handed in: they do not tell what was late, or which version is newer."
            )

    # Whose it is.

    def claim(self, found: Found) -> Claim:
        if self.rule:
            return self.claim_by_pattern(found, self.rule)
        depth, match = lms_name(found)
        if match and self.is_from_lms(found, depth):
            return self.claim_by_lms(found, match)
        folder = self.name_of_folder(found)
        name = folder or self.name_beside_assignment(found.given[-1])
        if not name:
            raise Unclear(
                "Nothing in its path tells whose it is. Put it into a folder with the student's name, or use --pattern."
            )
        if "assignsubmission" in name:
            raise Unclear("Its name comes from Moodle, but those of other files beside it do not. Collect it alone.")
        return replace(self.claimed(found, name, name, is_folder=bool(folder)), by="folder")

    def claim_by_lms(self, found: Found, match: re.Match[str]) -> Claim:
        if match.re is INBOUND:
            found = replace(found, own_date=inbound_date(match), parcel=None)
            named = match["assignment"] if match["assignment"] in self.releases.names else None
            return replace(self.claimed(found, match["name"], match["name"], named), by="nbgrader")
        number = match["number"]
        if match.re is MOODLE:
            claim = self.claimed(found, match["name"], lms_person(match))
            return replace(claim, by="Moodle", lms=LmsName("Moodle", match["name"], number))
        claim = self.claimed(found, match["name"], lms_person(match), canvas_id=number)
        lms = LmsName("Canvas", match["name"], number, match["upload"])
        return replace(claim, by="Canvas", late=bool(match["late"]), lms=lms)

    def is_from_lms(self, found: Found, depth: int) -> bool:
        """Is a name that looks like an LMS's one, or did a student give it to something in their own folder?"""
        if depth == 0:
            return True
        if depth > self.depth_of_all:
            return all(lms_name(other)[1] for other in self.download.notebooks)
        if len(self.lms_people) > 1:
            return True
        folder = "/".join(found.given[:depth])
        raise Unclear(f"It is not certain whether {folder} is a student's folder. If not, collect {folder} itself.")

    @cached_property
    def depth_of_all(self) -> int:
        """How many folders contain everything."""
        paths = [*(found.given for found in self.download.notebooks), *self.download.folders]
        most = min(len(found.home) for found in self.download.notebooks)
        depths = (depth for depth in range(most) if len({path[depth] for path in paths if len(path) > depth}) > 1)
        return next(depths, most)

    @cached_property
    def lms_people(self) -> set[str]:
        return {lms_person(match) for _, match in map(lms_name, self.download.notebooks) if match}

    def claim_by_pattern(self, found: Found, rule: re.Pattern[str]) -> Claim:
        match = rule.search("/".join(found.parts))
        if not match or not match["student"]:
            raise Unclear("The pattern does not match its path.")
        if found.parcel and match.end("student") > len("/".join(found.parcel.parts)):
            raise Unclear("The pattern finds the student's name only inside an archive that a student packed.")
        named = match["assignment"] if "assignment" in rule.groupindex else None
        if named and named not in self.releases.names:
            named = self.releases.named_in([named])
            if not named:
                raise Unclear(f"The pattern finds the assignment {match['assignment']}, which is not released.")
        return self.claimed(found, match["student"], match["student"], named=named)

    def claimed(
        self,
        found: Found,
        name: str,
        person: str,
        named: str | None = None,
        canvas_id: str = "",
        is_folder: bool = False,
    ) -> Claim:
        if self.roster:
            student = person = self.on_the_roster(name, canvas_id, is_folder).id
        else:
            student = student_id(name)
        if not student:
            raise Unclear(f"{name!r} cannot be the name of a folder. Rename it, or use --pattern.")
        assignment, is_certain = self.assignment_of(found, named)
        return Claim(found, student, person, assignment, is_certain)

    def on_the_roster(self, name: str, canvas_id: str = "", is_folder: bool = False) -> Person:
        """The person with this name. A repository's name begins with that of its assignment; then comes a login that
        its owner chose: if the roster knows logins, nothing else tells whose it is.
        """
        words = name.split("-") if is_folder else [name]
        by_login = is_folder and self.are_repositories and any(person.github for person in self.roster.people)
        people: list[Person] = []
        for skipped in range(1 + (self.shared_words(words) if is_folder else 0)):
            rest = "-".join(words[skipped:])
            people = people or (self.roster.with_login(rest) if by_login else self.roster.find([rest], canvas_id))
        if not people:
            raise Unclear(f"{name} is not on the roster, {self.roster.path}.")
        if len(people) > 1:
            raise Unclear(f"{name} may be {' or '.join(person.id for person in people)}, by the roster.")
        return people[0]

    def assignment_of(self, found: Found, named: str | None) -> tuple[str, bool]:
        """The assignment of a file, and whether the file itself says so by its name or content."""
        own = named or self.releases.named_in([found.stem])
        named = own or self.releases.named_in(reversed(found.parts[:-1]))
        told = self.releases.told_by(found.copy)
        if named and told and named != told:
            raise Unclear(f"Its name says {named}, but its content belongs to {told}.")
        assignment = named or told or self.assignment or self.releases.named_in([self.name])
        if not assignment:
            raise Unclear("Neither its name nor its content tells which assignment it is.")
        if self.assignment and assignment != self.assignment:
            raise Unclear(f"It is for {assignment}, but only {self.assignment} is being collected.")
        return assignment, bool(own or told)

    def name_of_folder(self, found: Found) -> str | None:
        """The name of the student's folder, if the folders are the students'."""
        folders = self.folders_of(found.home)
        if self.level is not None:
            folders = folders[self.level : self.level + 1]
        elif self.name_beside_assignment(
            found.given[-1]
        ):  # all in one folder, and told apart by the names of the files
            return None
        if len(folders) > 1:
            raise Unclear(
                f"It is not certain which of the folders {'/'.join(folders)} is the student's. Use --pattern."
            )
        return self.name_beside_assignment(folders[0]) or self.without_repository(folders[0]) if folders else None

    def without_repository(self, folder: str) -> str:
        """GitHub Classroom names a repository after the assignment and the student: masks-ada."""
        words = folder.split("-")
        if words[-1] in ("main", "master") and len(words) > 2:  # a zip of one branch
            words = words[:-1]
        return "-".join(words[self.words_of_repositories(words) :])

    def words_of_repositories(self, words: list[str]) -> int:
        """How many words in front stand for the assignment: those that all folders share, up to the last that an
        assignment may be called by. If git has made all of these folders, then all that they share."""
        shared = self.shared_words(words)
        if self.are_repositories and len(self.students_folders) > 1:
            return shared
        return max((n + 1 for n in range(shared) if self.is_of_an_assignment(words[n])), default=0)

    def shared_words(self, words: list[str]) -> int:
        """With how many of these words the names of all students' folders begin."""
        others = [folder.split("-") for folder in self.students_folders]
        shared = 0
        while shared < min(map(len, [words, *others])) - 1 and all(o[shared] == words[shared] for o in others):
            shared += 1
        return shared

    @cached_property
    def students_folders(self) -> set[str]:
        homes = [self.folders_of(found.home) for found in self.download.notebooks]
        level = self.level or 0
        return {home[level] for home in homes if len(home) > level}

    @cached_property
    def are_repositories(self) -> bool:
        """Whether git has made all of the students' folders."""
        return bool(self.students_folders) and self.students_folders <= {r[-1] for r in self.download.repositories if r}

    def is_of_an_assignment(self, word: str) -> bool:
        known = {part for name in self.releases.names for part in re.split(r"[_\- ]+", name.casefold())}
        return word.casefold() in known or GIVEN_BY_TEACHERS.fullmatch(word) is not None

    @cached_property
    def level(self) -> int | None:
        """How deep the students' folders lie: where the folders begin to differ. None if they never do."""
        homes = [self.folders_of(found.home) for found in self.download.notebooks]
        everything = [*homes, *(self.folders_of(folder) for folder in self.download.folders)]
        for depth in range(max(map(len, everything), default=0)):
            if len({folders[depth] for folders in everything if len(folders) > depth}) > 1:
                inside_of_one = any(0 < len(home) == depth for home in homes)  # ada/a.ipynb beside ada/old/b.ipynb
                return depth - 1 if inside_of_one else depth
        return None

    def folders_of(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The folders that are not named after an assignment."""
        return tuple(part for part in parts if not self.is_assignment(part))

    def is_assignment(self, part: str) -> bool:
        return any(pattern.fullmatch(part) for pattern in self.releases.patterns.values())

    def name_beside_assignment(self, name: str) -> str | None:
        """What is left of a name without the assignment: ada_02_masks, 02_masks_ada, Copy of 02_masks (1)."""
        for pattern in self.releases.patterns.values():
            rest, times = pattern.subn(" ", VERSION.sub("", COPY_OF.sub("", name)))
            if times:
                rest = NOT_A_NAME.sub(" ", rest.replace("_", " "))
                return " ".join(rest.split()).strip(" -.,()") or None
        return None

    # One file for each.

    def without_namesakes(self, claims: list[Claim]) -> list[Claim]:
        """All but those who would get the same id: two people's work must never be mixed."""
        people: dict[tuple[str, str], set[str]] = defaultdict(set)
        for claim in claims:
            people[self.folder_key(claim)].add(claim.person)
        kept = []
        for claim in claims:
            others = people[self.folder_key(claim)] - {claim.person}
            if others:
                names = ", ".join(sorted(others))
                sentence = f"{claim.person} and {names} would both be {claim.student}. Rename one of them."
                self.leave(claim.found, sentence, is_lost=True)
            else:
                kept.append(claim)
        return kept

    def folder_key(self, claim: Claim) -> tuple[str, str]:
        """Some file systems treat Ada and ada as equal. Moodle gives people new numbers in each assignment."""
        return claim.student.casefold(), claim.assignment if claim.by == "Moodle" else ""

    def by_submission(self, claims: list[Claim]) -> list[list[Claim]]:
        groups: dict[tuple[str, str], list[Claim]] = defaultdict(list)
        for claim in claims:
            groups[claim.student, claim.assignment].append(claim)
        return list(groups.values())

    def place_newest(self, versions: list[Claim]) -> None:
        if self.are_of_different_people(versions):
            for claim in versions:
                folder = "/".join(claim.found.home)
                sentence = f"It is not certain that {folder} belongs to {claim.person}. Use --pattern."
                self.leave(claim.found, sentence, is_lost=True)
            return
        *older, newest = sorted(versions, key=lambda claim: (claim.is_certain, claim.age))
        moments = {newest.found.date}
        for claim in reversed(older):
            why = "newer" if claim.is_certain == newest.is_certain else f"certain to be {newest.assignment}"
            self.leave(claim.found, f"{newest.found.path} is {why}, so that one counts.")
            is_a_draft = claim.found.date in moments  # handed in together with a newer one
            moments.add(claim.found.date)
            if self.rules.counts == "last_on_time" and claim.found.date and not is_a_draft:
                keep_as_earlier(
                    claim.found.copy, claim.found.date, self.course.earlier(claim.assignment, claim.student)
                )
        remarks = [f"It was chosen from {len(versions)} versions."] if older else []
        if newest.late:
            remarks.append("Canvas says that it was late.")
        self.place(newest, remarks)

    def choose_versions(self) -> None:
        """If the last one on time counts, put it in the place of one that came too late."""
        for number, placed in enumerate(self.placed):
            sentence = choose_version(self.course, placed.assignment, placed.student, self.rules, self.roster)
            if sentence:
                self.placed[number] = replace(placed, reason=f"{placed.reason} {sentence}")

    def are_of_different_people(self, versions: list[Claim]) -> bool:
        """Does a folder hold further folders, each with this assignment, and no notebook? A class, perhaps."""
        if not all(claim.by == "folder" for claim in versions):
            return False
        homes = {self.folders_of(claim.found.home)[(self.level or 0) + 1 :] for claim in versions}
        return len(homes) > 1 and () not in homes

    def place(self, claim: Claim, remarks: list[str]) -> None:
        try:
            self.place_beside_earlier(claim, remarks)
        except OSError as error:
            self.leave(claim.found, f"It cannot be written to {claim.student}'s folder: {why(error)}.", is_lost=True)

    def place_beside_earlier(self, claim: Claim, remarks: list[str]) -> None:
        target = self.course.submitted(claim.assignment, claim.student)
        outcome: Literal["new", "unchanged", "replaced"] = "new"
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists():
            before = f"{existing_date(target):%Y-%m-%d %H:%M} UTC"
            if filecmp.cmp(target, claim.found.copy, shallow=False):
                outcome = "unchanged"
                remarks.append("The same file is there already.")
            elif claim.found.date and claim.found.date > existing_date(target):
                outcome = "replaced"
                kept = keep_earlier(target, self.course.earlier(claim.assignment, claim.student))
                where = kept.relative_to(self.course.root)
                remarks.append(f"It replaces the submission of {before}, which is kept as {where}.")
            else:
                self.leave(claim.found, f"{claim.student} has a submission of {before}, and this one is not newer.")
                return
        if outcome != "unchanged":
            write_submission(claim.found, target)
        elif claim.found.date and not (target.parent / STAMP).exists():  # never known, or interrupted before it was
            write_stamp(target.parent / STAMP, claim.found.date)
        if claim.found.stem != claim.assignment:
            remarks.insert(0, f"It is called {target.name} now.")
        if claim.lms is not None:
            self.lms_names.append((claim.assignment, claim.student, claim.lms))
        reason = " ".join([f"It is {claim.assignment} of {claim.student}.", *remarks])
        self.placed.append(Placed(claim.found.path, claim.student, claim.assignment, outcome, reason))

    def report_empty_folders(self) -> None:
        """Somebody has handed in something, but no notebook."""
        full = {found.home[:depth] for found in self.download.notebooks for depth in range(len(found.home) + 1)}
        people = {moodle_person(folder) for folder in full}
        for folder in self.download.folders - full:
            is_students = len(self.folders_of(folder)) == (self.level or 0) + 1 and not self.is_assignment(folder[-1])
            if is_students and moodle_person(folder) not in people - {""}:
                told = self.without_notebook(folder)
                self.unplaced.append(Unplaced(shown(folder), told, is_lost=told == NO_NOTEBOOK))

    def without_notebook(self, folder: tuple[str, ...]) -> str:
        """If it is known what this is a download of, the student gets an empty submission: zeros with a reason."""
        sentence = NO_NOTEBOOK
        moodle = MOODLE.fullmatch(folder[-1])
        student = self.id_of_folder(moodle["name"] if moodle else folder[-1], is_folder=moodle is None)
        if not self.assignment or not student:
            return sentence
        target = self.course.submitted(self.assignment, student)
        if target.exists():
            return f"{sentence} What {student} handed in before still counts."
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{sentence} No folder can be made for {student}: {why(error)}."
        return f"{sentence} {student} counts as having handed in an empty notebook."

    def id_of_folder(self, name: str, is_folder: bool) -> str:
        try:
            return self.on_the_roster(name, is_folder=is_folder).id if self.roster else student_id(name)
        except Unclear:
            return ""


def lms_name(found: Found) -> tuple[int, re.Match[str] | None]:
    """The outermost name in the way of an LMS, and how deep it lies: what is inside it is the student's."""
    for depth, part in enumerate(found.given):
        if match := MOODLE.fullmatch(part) or CANVAS.fullmatch(part) or INBOUND.fullmatch(part):
            return depth, match
    return 0, None


def is_inbound(found: Found) -> bool:
    match = lms_name(found)[1]
    return match is not None and match.re is INBOUND


def inbound_date(match: re.Match[str]) -> datetime | None:
    """When nbgrader's exchange took it."""
    try:
        return datetime.fromisoformat(f"{match['day']}T{match['hour']}:{match['minute']}:{match['second']}+00:00")
    except ValueError:
        return None


def lms_person(match: re.Match[str]) -> str:
    return match["name"] if match.re is INBOUND else f"{match['name']} ({match['number']})"


def moodle_person(folder: tuple[str, ...]) -> str:
    """Moodle makes one folder for a student's files and another for what was typed into the form."""
    match = MOODLE.fullmatch(folder[-1]) if folder else None
    return lms_person(match) if match else ""


# --- in submitted/ --------------------------------------------------------------------------------------

STAMP = "timestamp.txt"
EARLIER = "%Y-%m-%d_%H-%M-%S"  # the names of versions in earlier/


def existing_date(target: Path) -> datetime:
    """When a submission was handed in: as nbgrader reads it, else when its file was written."""
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
    """If the last version on time counts: have it lie in submitted/. Returns: a sentence if that changed something.

    A version that came too late is kept in earlier/ and returns when the deadline is extended.
    """
    target = course.submitted(assignment, student)
    due = rules.of(assignment).due_for(student, roster.extra_time(student))
    if rules.counts != "last_on_time" or due is None or not target.is_file():
        return ""
    limit = due.replace(tzinfo=UTC) + timedelta(minutes=rules.late.grace_minutes)
    versions = {target: existing_date(target)} | dict(earlier_versions(course.earlier(assignment, student)))
    on_time = {path: date for path, date in versions.items() if date <= limit}
    among = on_time or versions
    chosen, before = max(among, key=lambda path: among[path]), versions[target]
    if target in among and among[chosen] - before < timedelta(seconds=1):  # names in earlier/ have no fractions
        return ""
    keep_earlier(target, course.earlier(assignment, student))
    write_submission(Found((chosen.name,), chosen, among[chosen]), target)
    late = f"The one of {before:%Y-%m-%d %H:%M} UTC was late and is kept." if before > limit else ""
    return f"The version of {among[chosen]:%Y-%m-%d %H:%M} UTC counts. {late}".strip()


def earlier_versions(folder: Path) -> Iterator[tuple[Path, datetime]]:
    for path in sorted(folder.glob("*.ipynb")):
        with suppress(ValueError):
            yield path, datetime.strptime(path.stem[:19], EARLIER).replace(tzinfo=UTC)


def write_submission(found: Found, target: Path) -> None:
    """Put a notebook and its date in place, so that nobody ever sees half of it, or the wrong date with it.

    A new folder appears at once with both. In an old one the date goes first and comes last: while there is none,
    the file's own is the right one.
    """
    home = target.parent
    draft = home.parent.parent / f".collecting-{secrets.token_hex(4)}"
    try:
        draft.mkdir(parents=True)
        shutil.copyfile(found.copy, draft / target.name)
        if found.date:
            os.utime(draft / target.name, (found.date.timestamp(),) * 2)
            write_stamp(draft / STAMP, found.date)
        home.parent.mkdir(exist_ok=True)
        if not home.exists() or not any(home.iterdir()):
            os.rename(draft, home)
            return
        (home / STAMP).unlink(missing_ok=True)
        os.replace(draft / target.name, target)
        if found.date:
            os.replace(draft / STAMP, home / STAMP)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_stamp(path: Path, date: datetime) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(date.strftime(TIMESTAMP) + "\n", encoding="utf-8")
    os.replace(draft, path)
