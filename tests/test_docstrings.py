"""The docstrings of the standard library as a text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from course_lib import docstrings
from course_lib.docstrings import ALPHABET, Corpus, decode, docstrings_of, encode, make_corpus, share_of_known_lines

SOURCE = '''
"""A module."""

class Thing:
    """A thing.

    Its margin is taken off,
        what stands further in stays there.
    """

    def act(self):
        "Acts."
        value = 1
        "no docstring"

    async def wait(self): "Waits."

    def nothing(self):
        return None

def last():
    """Last."""
'''


@pytest.fixture(scope="module")
def small() -> Corpus:
    return make_corpus(one_of=10)


def test_docstrings_in_the_order_of_the_source():
    assert list(docstrings_of(SOURCE)) == [
        "A module.",
        "A thing.\n\nIts margin is taken off,\n    what stands further in stays there.",
        "Acts.",
        "Waits.",
        "Last.",
    ]


def test_only_characters_of_the_alphabet(small):
    assert len(ALPHABET) == len(set(ALPHABET)) == 96
    assert set(small.train) | set(small.held_out) <= set(ALPHABET)
    assert docstrings.in_the_alphabet("naïve\tπ = 3\n") == "nave = 3\n"


def test_text_to_ids_and_back(small):
    ids = encode(small.held_out)
    assert ids.dtype == torch.long and ids.max() < 96
    assert decode(ids) == small.held_out
    with pytest.raises(ValueError, match="not 'ä π'"):
        encode("Bär, πr")


def test_which_files(tmp_path: Path):
    for name in ("b.py", "a/__init__.py", "a/c.py", "a/test/d.py", "test/e.py", "turtle.py", "f.txt", "tkinter/g.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in docstrings.module_files(tmp_path)]
    assert found == ["a/__init__.py", "a/c.py", "b.py"]


def test_the_path_of_a_module_decides_where_its_text_goes(small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The same modules are held out whatever else is installed."""
    names = [f"module{number}" for number in range(60)]
    for name in names:
        (tmp_path / f"{name}.py").write_text(f'"""{name}."""')
    monkeypatch.setattr(docstrings.sysconfig, "get_path", lambda _: str(tmp_path))
    everything = make_corpus.__wrapped__()
    held_out = everything.held_out.split("\n\n")
    assert sorted(everything.train.split("\n\n") + held_out) == sorted(f"{name}." for name in names)
    assert 2 <= len(held_out) <= 12
    for name in names[::2]:
        (tmp_path / f"{name}.py").unlink()
    fewer = make_corpus.__wrapped__()
    assert fewer.held_out.split("\n\n") == [text for text in held_out if text[:-1] in names[1::2]]


def test_known_lines():
    corpus = Corpus("Return the length of it.\n\nshort\n", "Return the length of it.\nReturn something else.\nshort\n")
    assert share_of_known_lines(corpus) == 0.5


def test_nothing_is_imported():
    """Some modules do things when they are imported: `this` prints, `antigravity` opens a browser."""
    before = set(sys.modules)
    make_corpus.__wrapped__(one_of=20)
    assert set(sys.modules) == before
