"""A text to learn from that every Python installation brings with it: the docstrings of the standard library.

The sources are read and parsed, no module is imported. The text is the same each time for one installation; it differs
a little between versions of Python. What some installations lack or later versions dropped is left out everywhere.
"""

from __future__ import annotations

import ast
import string
import sysconfig
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

ALPHABET = "\n " + string.digits + string.ascii_letters + string.punctuation  # 96 characters
ID_OF = {character: number for number, character in enumerate(ALPHABET)}

OFTEN_MISSING = {"ensurepip", "idlelib", "lib2to3", "distutils", "site-packages", "dist-packages", "tkinter", "turtle"}
OF_DEVELOPERS = {"test", "tests", "idle_test", "turtledemo", "pydoc_data", "__pycache__"}
DROPPED = {
    *(
        "aifc",
        "asynchat",
        "asyncore",
        "cgi",
        "cgitb",
        "chunk",
        "crypt",
        "imghdr",
        "imp",
        "mailcap",
        "msilib",
        "nntplib",
    ),
    *("pipes", "smtpd", "sndhdr", "sre_compile", "sre_constants", "sre_parse", "sunau", "telnetlib", "uu", "xdrlib"),
}
LEFT_OUT = OFTEN_MISSING | OF_DEVELOPERS | DROPPED
HELD_OUT = 10  # one module of this many


class Corpus(NamedTuple):
    """One long text to train with, and another to test on. They come from different modules."""

    train: str
    held_out: str


@cache
def make_corpus(one_of: int = 1) -> Corpus:
    """The docstrings of the standard library; `one_of=8` reads about an eighth of the modules, in less time.

    A checksum of its path, such as `email/utils.py`, decides where a module goes: the same way on every machine.
    """
    parts: dict[bool, list[str]] = {True: [], False: []}
    root = Path(sysconfig.get_path("stdlib"))
    for path in module_files(root):
        lot = zlib.crc32(path.relative_to(root).as_posix().encode())
        if lot // HELD_OUT % one_of == 0:
            found = docstrings_of(path.read_text(encoding="utf-8", errors="replace"))
            parts[lot % HELD_OUT == 0] += [in_the_alphabet(each) for each in found]
    return Corpus("\n\n".join(parts[False]), "\n\n".join(parts[True]))


def module_files(root: Path) -> list[Path]:
    """The Python files below a folder in the order of their names, without those that are left out."""
    found = []
    for path in sorted(root.iterdir()):
        if path.stem in LEFT_OUT or path.name.startswith(("config-", "_sysconfigdata")):
            continue
        if path.is_dir():
            found += module_files(path)
        elif path.suffix == ".py":
            found.append(path)
    return found


def docstrings_of(source: str) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions, in the order of the source, without indentation."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    for node in sorted(found, key=lambda node: getattr(node, "lineno", 0)):
        text = ast.get_docstring(node)
        if text:
            yield text


def in_the_alphabet(text: str) -> str:
    """The text without the few characters that ALPHABET lacks."""
    return "".join(character for character in text if character in ID_OF)


def encode(text: str) -> Tensor:
    """The ids of the characters, (characters,). Raises ValueError for a character that ALPHABET lacks."""
    foreign = sorted(set(text) - set(ID_OF))
    if foreign:
        raise ValueError(f"The model only knows the characters of a plain keyboard, not {' '.join(foreign)!r}.")
    return torch.tensor([ID_OF[character] for character in text], dtype=torch.long)


def decode(ids: Tensor) -> str:
    """The text of character ids (characters,)."""
    return "".join(ALPHABET[number] for number in ids.tolist())


def share_of_known_lines(corpus: Corpus) -> float:
    """The share of the held-out lines that also occur in the training text; empty and very short ones not counted."""
    known = set(corpus.train.splitlines())
    lines = [line for line in corpus.held_out.splitlines() if len(line.strip()) > 10]
    return sum(line in known for line in lines) / len(lines)
