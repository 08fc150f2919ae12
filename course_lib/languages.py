"""Which language is this? Names of places, languages and currencies in 32 languages, read letter by letter.

The names come from a real collection (CLDR), so nobody made them easy: Danish and Norwegian differ little, Welsh from
everything. A name is a sequence of ids, one for each sign, padded at the end.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

# --- the names ------------------------------------------------------------------------------------------

NAMES = Path(__file__).parent / "data" / "languages.txt.gz"
LANGUAGES = {
    "en": "English",
    "de": "German",
    "nl": "Dutch",
    "af": "Afrikaans",
    "da": "Danish",
    "nb": "Norwegian",
    "sv": "Swedish",
    "is": "Icelandic",
    "fr": "French",
    "it": "Italian",
    "es": "Spanish",
    "gl": "Galician",
    "pt": "Portuguese",
    "ca": "Catalan",
    "ro": "Romanian",
    "ga": "Irish",
    "cy": "Welsh",
    "pl": "Polish",
    "cs": "Czech",
    "sk": "Slovak",
    "sl": "Slovenian",
    "hr": "Croatian",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "sq": "Albanian",
    "fi": "Finnish",
    "et": "Estonian",
    "hu": "Hungarian",
    "tr": "Turkish",
    "eu": "Basque",
    "id": "Indonesian",
    "sw": "Swahili",
}  # related languages are side by side
CODES = list(LANGUAGES)  # a language's place here is its class
MAX_LETTERS = 40
SPECIAL = ("<pad>", "<unknown>", "[CLS]")
PAD, UNKNOWN, CLS = range(len(SPECIAL))


class Name(NamedTuple):
    """A name, the number of its language, and what it names: `territory DK` is Denmark."""

    text: str
    language: int
    thing: str


class Names(NamedTuple):
    """The names to learn from and those to test on."""

    train: list[Name]
    test: list[Name]


def read_names() -> list[Name]:
    """All names. `python -m benchmarks.make_languages` has made the file: code, thing and name, with tabs between."""
    rows = (line.split("\t") for line in gzip.decompress(NAMES.read_bytes()).decode().splitlines())
    return [Name(text, CODES.index(code), thing) for code, thing, text in rows]


@cache
def make_names() -> Names:
    """The names of one thing in ten are for the test, in all languages; the others are for training.

    So no name of the test, and no country, city or currency, was met in training in any language. A checksum decides,
    always the same way. The test is shuffled, so that its first hundred names are a fair sample.
    """
    parts = Names([], [])
    for name in read_names():
        (parts.test if checksum(name.thing) % 10 == 0 else parts.train).append(name)
    parts.test.sort(key=lambda name: checksum(name.text))
    return parts


def checksum(text: str) -> int:
    """A number without meaning, the same on every machine."""
    return zlib.crc32(text.encode())


@cache
def letters() -> tuple[str, ...]:
    """Special tokens, then every sign of the names to train with; a sign's place is its id."""
    return (*SPECIAL, *sorted({sign for name in make_names().train for sign in name.text}))


@cache
def letter_ids() -> dict[str, int]:
    return {sign: id_ for id_, sign in enumerate(letters())}


def encode_texts(texts: Sequence[str]) -> Tensor:
    """Texts as rows of ids, (text, time), cut off after MAX_LETTERS signs and padded."""
    if isinstance(texts, str):
        raise ValueError(f"Give a list of texts: [{texts!r}].")
    if not all(texts):
        raise ValueError("There is an empty text: give at least one letter.")
    ids = letter_ids()
    rows = [[ids.get(sign, UNKNOWN) for sign in text[:MAX_LETTERS]] for text in texts]
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def encode_names(names: Sequence[Name]) -> tuple[Tensor, Tensor]:
    """Ids (name, time) and the numbers of the languages (name,)."""
    return encode_texts([name.text for name in names]), torch.tensor([name.language for name in names])


# --- without a model ------------------------------------------------------------------------------------


def pieces(text: str, longest: int) -> list[str]:
    """All runs of 1 to `longest` signs, with a space before and after the text."""
    framed = f" {text} "
    return [framed[i : i + n] for n in range(1, longest + 1) for i in range(len(framed) - n + 1)]


class PieceCounts:
    """Naive Bayes: how often does each language use each run of 1 to 3 signs? The likeliest language wins.

    The logarithms of the shares are added up as if the runs of a name had nothing to do with each other.
    """

    def __init__(self, names: Sequence[Name], longest: int = 3):
        self.longest = longest
        counts = [Counter[str]() for _ in CODES]
        for name in names:
            counts[name.language].update(pieces(name.text, longest))
        known = sorted(set().union(*counts))
        self.rows = {piece: row for row, piece in enumerate(known)}
        table = torch.tensor([[float(count[piece]) for count in counts] for piece in known]) + 0.1  # (piece, language)
        unseen = torch.full((1, len(CODES)), 0.1)
        self.log_shares = torch.cat([table, unseen]).div(table.sum(dim=0)).log()  # the last row: unknown pieces
        languages = torch.tensor([name.language for name in names])
        self.log_prior = torch.bincount(languages, minlength=len(CODES)).div(len(names)).log()

    def scores(self, texts: Sequence[str]) -> Tensor:
        """(text, language), the larger the likelier."""
        unknown = len(self.rows)
        rows = [[self.rows.get(piece, unknown) for piece in pieces(text, self.longest)] for text in texts]
        return torch.stack([self.log_shares[torch.tensor(row)].sum(dim=0) + self.log_prior for row in rows])
