"""Reviews from a small grammar: does the writer like it? Often the order of the words decides, not the words.

    the plot is dull but the music is lovely           likes it: what follows *but* counts
    the music is lovely but the plot is dull           does not: the same words in another order
    although the plot is dull , the music is lovely    likes it: *although* gives way
    the plot is dull although the music is lovely      does not
    the plot is not dull and the music is lovely       likes it
    the plot is dull and the music is not lovely       does not

Two reviews that consist of the same words and mean the opposite are **twins**. In a set of twins no single word, and no
bag of words, says anything about the answer. A clause is also written `i found the plot dull`, `i did not find …`.

A **note** is a list of opinions that agree: `lovely room , superb view , bed not shabby`. Words that appear together
mean similar things, so a reader can learn from notes without labels.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from course_lib.start_here import pad_batch

# --- the words ------------------------------------------------------------------------------------------

ASPECTS = {  # what a review of each kind talks about
    "film": ["plot", "cast", "music", "acting", "script", "ending", "dialogue", "camerawork"],
    "hotel": ["room", "bed", "view", "pool", "lobby", "garden", "balcony", "reception"],
    "meal": ["soup", "bread", "salad", "pasta", "dessert", "sauce", "coffee", "starter"],
}
GOOD = [
    "good", "great", "lovely", "fine", "superb", "excellent", "wonderful", "delightful", "charming", "brilliant",
    "pleasant", "impressive", "fantastic", "marvellous", "splendid", "amazing", "perfect", "enjoyable", "remarkable",
    "memorable", "beautiful", "outstanding", "magnificent", "admirable", "flawless", "terrific", "pleasing", "inspired",
    "stunning", "appealing",
]  # fmt: skip
BAD = [
    "bad", "awful", "dull", "poor", "dreadful", "terrible", "horrible", "mediocre", "boring", "disappointing",
    "unpleasant", "weak", "annoying", "hopeless", "tedious", "forgettable", "miserable", "dismal", "lousy", "ghastly",
    "ugly", "inferior", "pathetic", "deplorable", "faulty", "shabby", "dreary", "uninspired", "appalling", "bland",
]  # fmt: skip
BUT, ALTHOUGH = ("but", "yet"), ("although", "though")
PLAIN = ["the", "is", "was", "not", "never", "really", "i", "we", "found", "did", "find", "and", ","]

SPECIAL = ("<pad>", "[MASK]", "[CLS]", "[SEP]")
PAD, MASK, CLS, SEP = range(len(SPECIAL))
MAX_WORDS = 20  # no review has more, [CLS] included


@cache
def vocabulary() -> tuple[str, ...]:
    """Special tokens, then every word of the grammar; a word's place is its id."""
    aspects = [aspect for each in ASPECTS.values() for aspect in each]
    return (*SPECIAL, *PLAIN, *BUT, *ALTHOUGH, *aspects, *GOOD, *BAD)


# --- clauses --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """One opinion about one thing."""

    aspect: str
    adjective: str
    is_negated: bool

    @property
    def is_good(self) -> bool:
        return (self.adjective in GOOD) != self.is_negated

    def negated(self) -> Clause:
        return Clause(self.aspect, self.adjective, not self.is_negated)


@dataclass(frozen=True)
class Style:
    """How both clauses of a review are written, and what joins them if they disagree."""

    opinion: str  # is, was, i or we
    negation: str  # not or never
    stress: tuple[str, ...]  # ("really",) or nothing
    contrast: str  # one of BUT or ALTHOUGH
    concedes_first: bool  # of ALTHOUGH: does the review begin with it?

    def write(self, clause: Clause) -> tuple[str, ...]:
        said = (*self.stress, clause.adjective)
        thing = ("the", clause.aspect)
        if self.opinion in ("i", "we"):
            verb = ("did", "not", "find") if clause.is_negated else ("found",)
            return (self.opinion, *verb, *thing, *said)
        is_or_was = (self.opinion, self.negation) if clause.is_negated else (self.opinion,)
        return (*thing, *is_or_was, *said)

    def join(self, weak: Clause, strong: Clause) -> tuple[str, ...]:
        """A review in which `strong` has the last word, wherever it stands."""
        first, second = self.write(weak), self.write(strong)
        if weak.is_good == strong.is_good:
            return (*first, "and", *second)
        if self.contrast in BUT:
            return (*first, self.contrast, *second)
        if self.concedes_first:
            return (self.contrast, *first, ",", *second)
        return (*second, self.contrast, *first)


@dataclass(frozen=True)
class Review:
    """The words, whether the writer likes it, and what it is about."""

    words: tuple[str, ...]
    likes_it: bool
    kind: str

    def __str__(self) -> str:
        return " ".join(self.words).replace(" ,", ",")


def draw_style(dice: random.Random) -> Style:
    return Style(
        opinion=dice.choice(("is", "was", "i", "we")),
        negation=dice.choice(("not", "never")),
        stress=("really",) if dice.random() < 0.3 else (),
        contrast=dice.choice(BUT + ALTHOUGH),
        concedes_first=dice.random() < 0.5,
    )


def draw_clauses(dice: random.Random, kind: str, share_negated: float) -> tuple[Clause, Clause]:
    aspects = dice.sample(ASPECTS[kind], 2)
    adjectives = [dice.choice(dice.choice((GOOD, BAD))) for _ in aspects]
    first, second = (Clause(*each, dice.random() < share_negated) for each in zip(aspects, adjectives))
    return first, second


def draw_review(dice: random.Random) -> Review:
    """Any review of the grammar, as people might write it: three clauses of four are not negated."""
    kind = dice.choice(list(ASPECTS))
    weak, strong = draw_clauses(dice, kind, share_negated=0.25)
    return Review(draw_style(dice).join(weak, strong), strong.is_good, kind)


def draw_twins(dice: random.Random) -> tuple[Review, Review]:
    """Two reviews of the same words, one that likes it and one that does not.

    If the clauses disagree, the twin has them swapped. If they agree and one of them is negated, the
    negation moves to the other.
    """
    kind, style = dice.choice(list(ASPECTS)), draw_style(dice)
    while True:
        weak, strong = draw_clauses(dice, kind, share_negated=0.5)
        if weak.is_good != strong.is_good:
            other = strong, weak
        elif weak.is_negated != strong.is_negated:
            other = weak.negated(), strong.negated()
        else:
            continue
        reviews = [Review(style.join(*each), each[1].is_good, kind) for each in ((weak, strong), other)]
        return reviews[0], reviews[1]


def draw_note(dice: random.Random, opinions: int) -> Review:
    """A note about this many things, which are all good or all bad. One opinion of ten is negated."""
    kind, likes_it = dice.choice(list(ASPECTS)), dice.random() < 0.5
    words: list[str] = []
    for aspect in dice.sample(ASPECTS[kind], opinions):
        is_negated = dice.random() < 0.1
        adjective = dice.choice(GOOD if likes_it != is_negated else BAD)
        words += [aspect, "not", adjective, ","] if is_negated else [adjective, aspect, ","]
    return Review(tuple(words[:-1]), likes_it, kind)


# --- sets of them ---------------------------------------------------------------------------------------


def ordinary_reviews(number: int, seed: int) -> list[Review]:
    dice = random.Random(seed)
    return [draw_review(dice) for _ in range(number)]


def twins(number: int, seed: int) -> list[Review]:
    """This many reviews, an even number: each is followed by its twin."""
    dice = random.Random(seed)
    return [review for _ in range(number // 2) for review in draw_twins(dice)]


def notes(number: int, seed: int, opinions: int = 4) -> list[Review]:
    dice = random.Random(seed)
    return [draw_note(dice, opinions) for _ in range(number)]


def few_notes(number: int, seed: int) -> list[Review]:
    """This many notes with three opinions each, half of them good: labels that somebody could write in a minute."""
    drawn = notes(40 * number, seed, opinions=3)
    good, bad = ([note for note in drawn if note.likes_it == wanted] for wanted in (True, False))
    return good[: number // 2] + bad[: number // 2]


@cache
def word_ids() -> dict[str, int]:
    return {word: id_ for id_, word in enumerate(vocabulary())}


def encode_words(words: Sequence[str]) -> Tensor:
    """The ids of some words, (time,). Raises ValueError for words that the grammar does not have."""
    unknown = [word for word in words if word not in word_ids()]
    if unknown:
        raise ValueError(f"Not in the vocabulary: {', '.join(unknown)}. See reviews.vocabulary().")
    return torch.tensor([word_ids()[word] for word in words])


def encode_reviews(reviews: Iterable[Review]) -> tuple[Tensor, Tensor]:
    """Ids (review, time), padded, and labels (review,): 1 if the writer likes it, else 0."""
    listed = list(reviews)
    ids, _ = pad_batch([encode_words(review.words) for review in listed], PAD)
    return ids, torch.tensor([int(review.likes_it) for review in listed])
