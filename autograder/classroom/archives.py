"""What may be unpacked: archives that students packed, and how much of them.

They are untrusted. Nothing is unpacked under a name of its own, what becomes too large while it is unpacked is left
out, and an entry that zipfile refuses does not make the others unreadable.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import IO

from autograder.judging.rebuild import printable

MOST_BYTES_OF_AN_INNER_ZIP = 300_000_000  # all that one student's archive may unpack to, archives in it included
MOST_FILES_OF_AN_INNER_ZIP = 5_000
DEEPEST_ZIP = 3  # the LMS's, the student's, and one that somebody zipped again
UNKNOWN_DATE = (1980, 1, 1)  # what archives without dates say
DIRECTORY_ENTRY = b"PK\x01\x02"
SHORTEST_ENTRY = 46  # bytes, without names
NAME_IN_UTF_8 = 0x800


class TooMuch(Exception):
    """An archive that unpacks to more than a student could have written."""


class NoZip(Exception):
    """A file that cannot be opened as an archive. The message says why."""


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

    def copy(self, stream: IO[bytes], target: Path, most: float = float("inf")) -> None:
        """Copy a stream, and stop as soon as it is too long, whatever its header says."""
        with target.open("wb") as out:
            while chunk := stream.read(1 << 20):
                most -= len(chunk)
                self.left.bytes -= len(chunk)
                if most < 0 or self.left.bytes < 0:
                    raise TooMuch("It is far too large for a submission. Look at it by hand.")
                out.write(chunk)


class ZipStream(io.BufferedReader):
    """The file of an archive, as zipfile should see it.

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
    except Exception:  # of many kinds: zipfile does not expect hostile archives
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
    """An archive in which no entry can make the others unreadable. Raises: NoZip, TooMuch."""
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


def entry_date(entry: zipfile.ZipInfo, zone: tzinfo | None = None) -> datetime | None:
    """When the file was written, in UTC: by the field that says so, otherwise by the field in local time.

    zone: whose local time that is. The LMS's, as nearly as anybody knows, is that of the class; None: this machine's.
    """
    extra = entry.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == 0x5455 and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return datetime.fromtimestamp(struct.unpack("<i", extra[5:9])[0], UTC)
        extra = extra[4 + size :]
    if entry.date_time[:3] == UNKNOWN_DATE:
        return None
    try:
        return datetime(*entry.date_time, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
