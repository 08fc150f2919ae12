"""The grammar of reviews: what is liked, twins, notes, and words as numbers."""

from __future__ import annotations

import pytest

from course_lib.reviews import (
    ASPECTS,
    BAD,
    GOOD,
    MAX_WORDS,
    PAD,
    SPECIAL,
    Clause,
    Style,
    encode_reviews,
    encode_words,
    few_notes,
    notes,
    ordinary_reviews,
    twins,
    vocabulary,
)

LOVELY, DULL = Clause("music", "lovely", is_negated=False), Clause("plot", "dull", is_negated=False)


def style(**changes) -> Style:
    return Style(
        **{"opinion": "is", "negation": "not", "stress": (), "contrast": "but", "concedes_first": False, **changes}
    )


@pytest.mark.parametrize(
    ("how", "weak", "strong", "text"),
    [
        (style(), DULL, LOVELY, "the plot is dull but the music is lovely"),
        (style(contrast="although"), DULL, LOVELY, "the music is lovely although the plot is dull"),
        (style(contrast="though", concedes_first=True), LOVELY, DULL, "though the music is lovely , the plot is dull"),
        (style(), DULL.negated(), LOVELY, "the plot is not dull and the music is lovely"),
        (style(opinion="was", negation="never"), DULL, LOVELY.negated(),
         "the plot was dull and the music was never lovely"),
        (style(opinion="we", stress=("really",)), DULL, LOVELY,
         "we found the plot really dull but we found the music really lovely"),
        (style(opinion="i"), LOVELY.negated(), DULL, "i did not find the music lovely and i found the plot dull"),
    ],
)  # fmt: skip
def test_how_it_is_written(how, weak, strong, text):
    assert " ".join(how.join(weak, strong)) == text


def test_what_is_good():
    assert LOVELY.is_good and not LOVELY.negated().is_good
    assert not DULL.is_good and DULL.negated().is_good


def test_twins_have_the_same_words_and_opposite_meanings():
    drawn = twins(2000, seed=1)
    for one, other in zip(drawn[::2], drawn[1::2]):
        assert sorted(one.words) == sorted(other.words) and one.words != other.words
        assert one.likes_it != other.likes_it and one.kind == other.kind


def last_word(words: tuple[str, ...]) -> tuple[str, ...]:
    """Which words decide, by rules of its own."""
    for but in ("but", "yet", "and"):
        if but in words:
            return words[words.index(but) :]
    if "," in words:
        return words[words.index(",") :]
    return words[: next(i for i, word in enumerate(words) if word in ("although", "though"))]


@pytest.mark.parametrize("drawn", [ordinary_reviews(2000, seed=1), twins(2000, seed=2)], ids=["ordinary", "twins"])
def test_the_labels_are_what_a_reader_would_say(drawn):
    for review in drawn:
        said = last_word(review.words)
        is_good = any(word in GOOD for word in said) != any(word in ("not", "never") for word in said)
        assert is_good == review.likes_it, review
        assert len(review.words) < MAX_WORDS
        assert {word for word in review.words if any(word in each for each in ASPECTS.values())} <= set(
            ASPECTS[review.kind]
        )
    assert 0.4 < sum(review.likes_it for review in drawn) / len(drawn) < 0.6


def test_opinions_of_a_note_agree():
    for note in notes(1000, seed=1, opinions=4):
        opinions = " ".join(note.words).split(" , ")
        good = {any(word in GOOD for word in each.split()) != ("not" in each) for each in opinions}
        assert len(opinions) == 4 and good == {note.likes_it}


def test_few_notes_are_balanced():
    drawn = few_notes(8, seed=1)
    assert [note.likes_it for note in drawn] == [True] * 4 + [False] * 4
    assert all(note.words.count(",") == 2 for note in drawn)


def test_words():
    assert len(set(vocabulary())) == len(vocabulary()) and vocabulary()[: len(SPECIAL)] == SPECIAL
    assert len(GOOD) == len(BAD) == 30 and not set(GOOD) & set(BAD)
    with pytest.raises(ValueError, match=r"Not in the vocabulary: fishy\."):
        encode_words(["fishy"])


def test_reviews_as_numbers():
    drawn = ordinary_reviews(20, seed=3)
    ids, labels = encode_reviews(drawn)
    assert labels.tolist() == [int(review.likes_it) for review in drawn]
    for row, review in zip(ids.tolist(), drawn):
        assert [vocabulary()[i] for i in row if i != PAD] == list(review.words)


def test_the_same_seed_gives_the_same_reviews():
    assert twins(10, seed=5) == twins(10, seed=5) != twins(10, seed=6)
