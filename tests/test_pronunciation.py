"""The pronouncing dictionary, and the model of pronunciation that comes with the course."""

from __future__ import annotations

import gzip
import math
import zipfile
from pathlib import Path

import pytest
import torch
from fake_gpu import FakeGpu

from benchmarks import make_cmudict
from course_lib.decoding import sample, top_k_filter
from course_lib.pronunciation import (
    CMUDICT,
    MAX_LETTERS,
    MAX_SOUNDS,
    PHONEMES,
    WEIGHTS,
    Entry,
    calibration_error,
    draw_pronunciations,
    edit_distance,
    encode_entries,
    encode_words,
    family,
    letter_by_letter,
    letter_vocabulary,
    like_the_nearest_word,
    load_pronouncer,
    log_probability,
    make_dictionary,
    new_pronouncer,
    phoneme_error_rate,
    phoneme_vocabulary,
    plain_letters,
    pronounce,
    pronounce_by_beam,
    read_cmudict,
    respell,
    save_pronouncer,
    to_ipa,
    word_accuracy,
)
from course_lib.translation import EOS, PAD

DATA = CMUDICT.parent


@pytest.fixture(scope="module")
def dictionary():
    return read_cmudict()


@pytest.fixture(scope="module")
def model():
    return load_pronouncer()


# --- the dictionary ---------------------------------------------------------------------------------------------------


def test_the_dictionary(dictionary):
    assert len(dictionary) == 117_493
    assert dictionary["tomato"] == [("T", "AH", "M", "EY", "T", "OW"), ("T", "AH", "M", "AA", "T", "OW")]
    assert all(plain_letters(word) == word for word in dictionary)
    ways = [way for ways in dictionary.values() for way in ways]
    assert {sound for way in ways for sound in way} == set(PHONEMES)
    assert max(map(len, dictionary)) < MAX_LETTERS and max(map(len, ways)) < MAX_SOUNDS


def test_it_is_small_and_has_its_licence_beside_it():
    assert CMUDICT.stat().st_size < 1e6 and WEIGHTS.stat().st_size < 2e6
    licences = (DATA / "LICENSES.md").read_text(encoding="utf-8")
    assert (
        "Copyright (C) 1993-2015 Carnegie Mellon University" in licences and "PROVIDED BY CARNEGIE MELLON" in licences
    )
    data = {path.name for path in DATA.iterdir()} - {"LICENSES.md"}
    assert {name for name in data if f"## {name}" not in licences} == set()


def test_how_it_was_made():
    lines = [
        "'bout B AW1 T",
        "a.m. EY2 EH1 M",
        "aalborg AO1 L B AO0 R G # place, danish",
        "aalborg(2) AA1 L B AO0 R G",
        "abstract AE0 B S T R AE1 K T",
        "abstract(2) AE1 B S T R AE2 K T",
        "x-ray EH1 K S R EY2",
    ]
    assert make_cmudict.compact(lines) == "aalborg\tAO L B AO R G\tAA L B AO R G\nabstract\tAE B S T R AE K T\n"


def test_the_file_has_no_time_stamp_so_that_it_can_be_made_again():
    assert CMUDICT.read_bytes()[4:8] == bytes(4)
    assert gzip.decompress(CMUDICT.read_bytes()).startswith(b"a\tAH\tEY\n")


def test_the_wheel_holds_it(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("course_lib/data/cmudict.txt.gz") == CMUDICT.read_bytes()
        assert archive.read("course_lib/pronouncer.pt") == WEIGHTS.read_bytes()
        assert "course_lib/data/LICENSES.md" in archive.namelist()


@pytest.mark.parametrize(
    "words", ["carry carries carried carrying", "run runs runner running", "happy happily happiness", "nation nations"]
)
def test_families(words):
    assert len({family(word) for word in words.split()}) == 1


def test_no_family_is_on_two_sides():
    train, validation, test = make_dictionary()
    assert (len(train), len(validation), len(test)) == (112_757, 2_368, 2_368)
    assert [entry.word for entry in test[:3]] == ["maxion", "situate", "interagency"]  # on every machine
    families = [{family(entry.word) for entry in part} for part in (train, validation, test)]
    assert not families[0] & families[1] and not families[0] & families[2] and not families[1] & families[2]
    assert len({entry.word for part in make_dictionary() for entry in part}) == 117_493


def test_entries_as_numbers():
    entries = [Entry("the", [("DH", "AH"), ("DH", "IY")]), Entry("cats", [("K", "AE", "T", "S")])]
    source, targets = encode_entries(entries)
    assert source.shape == (3, 5) and targets.shape == (3, 5)
    assert [letter_vocabulary().decode(row) for row in source] == [list("the"), list("the"), list("cats")]
    assert [phoneme_vocabulary().decode(row) for row in targets] == [["DH", "AH"], ["DH", "IY"], ["K", "AE", "T", "S"]]
    assert source[0].tolist()[3:] == [EOS, PAD] and targets[2, 4] == EOS
    assert torch.equal(encode_words(["the", "The", "cats"]), source)


# --- words that people type -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (" Cat ", "cat"),
        ("O'Brien", "obrien"),
        ("O’Brien", "obrien"),
        ("Jean-Luc", "jeanluc"),
        ("café", "cafe"),
        ("Åsa", "asa"),
        ("Zoë", "zoe"),
        ("Łukasz", "lukasz"),
        ("Straße", "strasse"),
        ("Nguyễn", "nguyen"),
        ("İpek", "ipek"),
        ("Çağlar", "caglar"),
    ],
)
def test_accents_and_marks_are_left_out(typed, read):
    assert plain_letters(typed) == read


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "There is no letter in ''"),
        (" - ", "There is no letter in ' - '"),
        ("Ada Lovelace", r"more than one word: give them one by one, as in \['Ada', 'Lovelace'\]"),
        ("r2d2", "'r2d2' has 2 in it: the model only knows the letters a to z"),
        ("Анна", "'Анна' has а н in it"),
        ("小明", "in it: the model only knows"),
        ("ha" * 20, "has 40 letters: the model takes 32 at most"),
    ],
)
def test_what_is_not_a_word_is_refused_with_a_sentence(typed, sentence):
    with pytest.raises(ValueError, match=sentence):
        plain_letters(typed)


def test_a_list_of_words_is_wanted(model):
    with pytest.raises(ValueError, match=r"Give a list of words: \['cat'\]"):
        pronounce(model, "cat")
    with pytest.raises(ValueError, match="at least one word"):
        pronounce(model, [])


def test_sounds_for_people():
    assert to_ipa("K AE T") == "/kæt/" and respell("K AE T") == "k·a·t"
    assert respell("TH IH NG K IH NG") == "th·i·ng·k·i·ng"
    with pytest.raises(ValueError, match="Not a sound of this dictionary: XX"):
        to_ipa("K XX T")
    with pytest.raises(ValueError, match="EY1"):
        respell("EY1")


def test_the_example_of_a_sound_has_it(dictionary):
    for sound, phoneme in PHONEMES.items():
        assert any(sound in way for way in dictionary[phoneme.example]), sound


# --- measures ---------------------------------------------------------------------------------------------------------


def test_edit_distance():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
    assert edit_distance(["K", "AE", "T"], ["K", "AE", "T", "S"]) == 1


def test_the_nearest_way_counts(dictionary):
    entries = [Entry("tomato", dictionary["tomato"]), Entry("cat", [("K", "AE", "T")])]
    assert word_accuracy(["T AH M AA T OW", "K AA T"], entries) == 0.5
    assert phoneme_error_rate(["T AH M AA T OW", "K AA T"], entries) == pytest.approx(1 / 9)
    assert phoneme_error_rate(["", "K AE T"], entries) == pytest.approx(6 / 9)
    with pytest.raises(ValueError, match="1 pronunciations, 2 words"):
        word_accuracy(["K AE T"], entries)


def test_calibration_error():
    confidence = torch.tensor([0.95, 0.95, 0.25, 0.25])
    assert calibration_error(confidence, torch.tensor([True, True, False, False])) == pytest.approx((0.05 + 0.25) / 2)
    assert calibration_error(torch.ones(3), torch.ones(3)) == 0


def test_what_can_be_had_without_a_model():
    assert letter_by_letter(["Cat"]) == ["K AH T"]
    test = make_dictionary().test
    words = [entry.word for entry in test]
    for baseline in (letter_by_letter, like_the_nearest_word):
        said = baseline(words)
        assert word_accuracy(said, test) < 0.1 and 0.4 < phoneme_error_rate(said, test) < 0.6
    assert like_the_nearest_word(["aaaa", "zzzz"])  # before the first and after the last


# --- the model --------------------------------------------------------------------------------------------------------


def test_the_shipped_model_is_good_and_not_perfect(model):
    assert not model.training
    assert pronounce(model, ["cat", "Mat", "transformer"]) == ["K AE T", "M AE T", "T R AE N S F AO R M ER"]
    test = make_dictionary().test[:500]
    said = pronounce(model, [entry.word for entry in test])
    assert 0.55 <= word_accuracy(said, test) <= 0.75
    assert 0.06 <= phoneme_error_rate(said, test) <= 0.13


def test_a_beam_finds_what_is_more_likely(model):
    words = [entry.word for entry in make_dictionary().test[:20]]
    greedy, beam = pronounce(model, words), pronounce_by_beam(model, words, beam_size=4)
    assert pronounce_by_beam(model, words[:5], beam_size=1) == greedy[:5]
    gain = log_probability(model, words, beam).sum(dim=1) - log_probability(model, words, greedy).sum(dim=1)
    assert gain.mean() > 0


def test_log_probabilities_are_those_of_the_words_alone(model):
    together = log_probability(model, ["cat", "transformers"], ["K AE T", "T R AE N S F AO R M ER Z"])
    alone = log_probability(model, ["cat"], ["K AE T"])
    assert together.shape == (2, 12) and alone.shape == (1, 4)
    torch.testing.assert_close(together[0, :4], alone[0])
    assert not together[0, 4:].any() and math.exp(alone.sum()) > 0.5


def drawn_by_lot(logits):
    return sample(logits, 1.0, torch.rand(len(logits)))


def test_lots_are_drawn(model):
    torch.manual_seed(0)
    drawn = draw_pronunciations(model, "bahdanau", 20, drawn_by_lot)
    assert len(drawn) == 20 and len(set(drawn)) > 5
    surest = draw_pronunciations(model, "cat", 3, lambda logits: top_k_filter(logits, 1).argmax(dim=-1))
    assert surest == ["K AE T"] * 3


def test_it_works_on_a_gpu():
    fresh = new_pronouncer()
    with FakeGpu([*fresh.parameters(), *fresh.buffers()]):
        assert len(pronounce(fresh, ["cat", "mats"])) == 2
        assert len(pronounce_by_beam(fresh, ["cat"], beam_size=2)) == 1
        assert (
            len(draw_pronunciations(fresh, "cat", 2, lambda logits: sample(logits, 1.0, torch.rand(len(logits))))) == 2
        )
        assert log_probability(fresh, ["cat"], ["K AE T"]).shape == (1, 4)


def test_a_new_model_can_be_kept(tmp_path):
    torch.manual_seed(0)
    fresh = new_pronouncer()
    assert sum(each.numel() for each in fresh.parameters()) == 677_504
    save_pronouncer(fresh, tmp_path / "fresh.pt")
    state = torch.load(tmp_path / "fresh.pt", weights_only=True)
    assert all(torch.equal(state[name].float(), value.half().float()) for name, value in fresh.state_dict().items())
