"""Writes files so that nothing a person has made is ever lost.

A file appears whole or not at all. A course folder remembers what the commands have written there. If a file has
changed since, a person has edited it, and it is moved to kept/ before a command replaces it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from itertools import count
from json.encoder import encode_basestring
from pathlib import Path

WORDS = {"None": "null", "True": "true", "False": "false", "{}": "{}", "[]": "[]"}  # Python's and JSON's


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees half of it, not even after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(content)
    os.replace(draft, path)


def indented_json(value: object, sort_keys: bool = False, margin: str = "\n") -> str:
    """As json.dumps(value, indent=1, ensure_ascii=False), which takes several times as long. Keys have to be strings.

    margin: the end of a line, and the indentation of the next.
    """
    if isinstance(value, str):
        return encode_basestring(value)
    inner = margin + " "
    if isinstance(value, dict) and value:
        items = sorted(value.items()) if sort_keys else value.items()
        lines = [f"{encode_basestring(key)}: {indented_json(item, sort_keys, inner)}" for key, item in items]
        return "{" + inner + f",{inner}".join(lines) + margin + "}"
    if isinstance(value, list | tuple) and value:
        return "[" + inner + f",{inner}".join([indented_json(item, sort_keys, inner) for item in value]) + margin + "]"
    return WORDS.get(repr(value)) or json.dumps(value)


def content_of(path: Path) -> bytes | None:
    """The content of the file; None if there is no readable file."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def numbered(path: Path) -> Iterator[Path]:
    """The path, then the same with (2), (3), … after its name."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem} ({number}){path.suffix}")


class Ledger:
    """What the commands have written into a course folder: a line for each file, in the hidden file .written."""

    def __init__(self, root: Path):
        self.root = root
        self.file = root / ".written"
        self.written: dict[str, set[str]] = {}  # path from the root -> digests
        self.read_so_far = 0
        self.kept: list[tuple[Path, Path]] = []  # where a person's file was, where it is now

    def write(self, path: Path, content: str | bytes) -> None:
        """Write a file. If a person has edited the one that is there, move that to kept/ first."""
        data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
        if content_of(path) != data:
            self.keep(path)
        self.record(path, data)  # before it is there: an interruption between the two costs nothing
        write_whole(path, data)

    def keep(self, path: Path) -> None:
        """Move a file to kept/, unless it is just as a command wrote it."""
        if not os.path.lexists(path) or self.is_as_written(path):
            return
        place = next(place for place in numbered(self.place_to_keep(path)) if not os.path.lexists(place))
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, place)
        self.kept.append((path, place))

    def record(self, path: Path, content: bytes) -> None:
        """Note that a command has written this."""
        digest = hashlib.sha256(content).hexdigest()
        if digest in self.digests(path):
            return
        self.root.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            torn = file.tell() > self.read_so_far  # a crash has left half a line
            file.write(("\n" if torn else "") + json.dumps([digest, self.name(path)]) + "\n")

    def is_as_written(self, path: Path) -> bool:
        content = content_of(path)
        return content is not None and hashlib.sha256(content).hexdigest() in self.digests(path)

    def digests(self, path: Path) -> set[str]:
        """Of everything that commands have ever written to this path."""
        self.read_on()
        return self.written.get(self.name(path), set())

    def read_on(self) -> None:
        """Read what has been added to the file since the last time, by whatever process."""
        try:
            with self.file.open("rb") as file:
                file.seek(self.read_so_far)
                lines = file.read()
        except OSError:
            return
        whole = lines[: lines.rfind(b"\n") + 1]
        self.read_so_far += len(whole)
        for line in whole.splitlines():
            try:
                digest, name = json.loads(line)
            except ValueError:  # torn by a crash
                continue
            self.written.setdefault(name, set()).add(digest)

    def name(self, path: Path) -> str:
        return os.path.relpath(path, self.root)

    def place_to_keep(self, path: Path) -> Path:
        """Not in the same folder: nbgrader would take it for another notebook of the assignment."""
        if path.is_relative_to(self.root):
            return self.root / "kept" / path.relative_to(self.root)
        return path.parent / "kept" / path.name


LEDGERS: dict[Path, Ledger] = {}


def ledger_of(root: Path) -> Ledger:
    return LEDGERS.setdefault(root, Ledger(root))


def told_of_kept_files() -> list[str]:
    """A sentence for each file that was moved to kept/ since the last time this was asked."""
    moved = [pair for ledger in LEDGERS.values() for pair in ledger.kept]
    for ledger in LEDGERS.values():
        ledger.kept.clear()
    return [f"{path} had been changed since it was written here. Your version is now {place}" for path, place in moved]
