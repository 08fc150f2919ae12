"""The names in 32 languages: where they come from, how they are divided, and what counting letters gives."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest
import torch

from benchmarks import make_languages
from course_lib import languages
from course_lib.languages import CODES, LANGUAGES, MAX_LETTERS, NAMES, PAD, UNKNOWN, PieceCounts, encode_texts, letters


@pytest.fixture(scope="module")
def names():
    return languages.make_names()


def test_the_names(names):
    everything = names.train + names.test
    texts = [name.text for name in everything]
    assert (len(names.train), len(names.test)) == (19_702, 2_109)
    assert len({text.casefold() for text in texts}) == len(texts), "a name that two languages share"
    assert max(map(len, texts)) <= MAX_LETTERS
    assert {name.language for name in names.test} == set(range(len(CODES)))
    by_thing = {(name.thing, CODES[name.language]): name.text for name in everything}
    assert by_thing["territory DE", "pl"] == "Niemcy" and by_thing["language da", "fr"] == "danois"


def test_no_thing_is_on_two_sides(names):
    assert not {name.thing for name in names.train} & {name.thing for name in names.test}


def test_it_is_small_and_has_its_licence_beside_it():
    assert NAMES.stat().st_size < 0.3e6
    licences = (NAMES.parent / "LICENSES.md").read_text(encoding="utf-8")
    assert "Copyright © 2004-2025 Unicode, Inc." in licences and "SPDX-License-Identifier: Unicode-3.0" in licences


def test_how_it_was_made():
    locale = {"territories": {"DE": "Tyskland", "XX": "Ukendt (1990)"}, "languages": {"de": "tysk"}}
    danish = {
        **locale,
        "currency_names": {"ISK": "islandsk\xa0krone"},
        "time_zones": {"X": {"city": "Ho‑Chi"}, "Y": {}},
    }
    other = {**danish, "territories": {"DE": "Saksa"}, "time_zones": {}}
    assert make_languages.compact({"da": danish, "fi": other}) == (
        "da\tcity X\tHo-Chi\nda\tterritory DE\tTyskland\nfi\tterritory DE\tSaksa\n"
    )


def test_the_file_has_no_time_stamp_so_that_it_can_be_made_again():
    assert NAMES.read_bytes()[4:8] == bytes(4)
    assert gzip.decompress(NAMES.read_bytes()).startswith(b"en\t")


def test_the_wheel_holds_it(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("course_lib/data/languages.txt.gz") == NAMES.read_bytes()


def test_texts_as_numbers():
    ids = encode_texts(["Rom", "漢om", "x" * 60])
    assert ids.shape == (3, MAX_LETTERS)
    assert [letters()[i] for i in ids[0, :3].tolist()] == list("Rom") and ids[0, 3:].eq(PAD).all()
    assert ids[1, 0] == UNKNOWN and torch.equal(ids[1, 1:3], ids[0, 1:3])
    with pytest.raises(ValueError, match=r"Give a list of texts: \['Rom'\]"):
        encode_texts("Rom")
    with pytest.raises(ValueError, match="empty text"):
        encode_texts(["Rom", ""])


def test_pieces():
    assert languages.pieces("ab", longest=2) == [" ", "a", "b", " ", " a", "ab", "b "]


def test_counting_tells_most_languages_apart(names):
    actual = torch.tensor([name.language for name in names.test])
    guessed = PieceCounts(names.train).scores([name.text for name in names.test]).argmax(dim=-1)
    assert 0.75 < (guessed == actual).float().mean() < 0.9
    few = [languages.Name(text, CODES.index(code), "") for code, text in (("fi", "Saksa"), ("sv", "Tyskland"))]
    scores = PieceCounts(few, longest=2).scores(["Saksa", "land"])
    assert [list(LANGUAGES)[i] for i in scores.argmax(dim=-1).tolist()] == ["fi", "sv"]
