"""Spelling to sound: how do you say a word that you have never heard? English words and names from a real dictionary.

A source is a word's letters, a target its sounds in the dictionary's own symbols (ARPAbet, `PHONEMES`): "cat" is
K AE T. Stress is left out. English spelling has no rule without exceptions, so this model makes real mistakes, and
its confidence tells roughly where. Ids, EOS and padding are as in `course_lib.translation`.
"""

from __future__ import annotations

import gzip
import re
import string
import unicodedata
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.decoding import beam_search, cached, generate, greedy_decode, uncached
from course_lib.settings import device_of
from course_lib.start_here import pad_batch
from course_lib.training import shift_right
from course_lib.transformer import Transformer
from course_lib.translation import BOS, EOS, PAD, Vocabulary

# --- sounds ---------------------------------------------------------------------------------------------


class Phoneme(NamedTuple):
    """How a sound is written in the International Phonetic Alphabet and in plain letters, and a word that has it."""

    ipa: str
    plain: str
    example: str


PHONEMES = {
    "AA": Phoneme("ɑ", "ah", "father"),
    "AE": Phoneme("æ", "a", "cat"),
    "AH": Phoneme("ə", "uh", "about"),  # and the vowel of "cup", ʌ: only stress tells them apart
    "AO": Phoneme("ɔ", "aw", "law"),
    "AW": Phoneme("aʊ", "ow", "cow"),
    "AY": Phoneme("aɪ", "eye", "my"),
    "B": Phoneme("b", "b", "bee"),
    "CH": Phoneme("tʃ", "ch", "cheese"),
    "D": Phoneme("d", "d", "day"),
    "DH": Phoneme("ð", "dh", "this"),
    "EH": Phoneme("ɛ", "eh", "bed"),
    "ER": Phoneme("ɚ", "er", "bird"),
    "EY": Phoneme("eɪ", "ay", "say"),
    "F": Phoneme("f", "f", "fish"),
    "G": Phoneme("ɡ", "g", "go"),
    "HH": Phoneme("h", "h", "hat"),
    "IH": Phoneme("ɪ", "i", "sit"),
    "IY": Phoneme("i", "ee", "see"),
    "JH": Phoneme("dʒ", "j", "joy"),
    "K": Phoneme("k", "k", "key"),
    "L": Phoneme("l", "l", "leg"),
    "M": Phoneme("m", "m", "man"),
    "N": Phoneme("n", "n", "no"),
    "NG": Phoneme("ŋ", "ng", "sing"),
    "OW": Phoneme("oʊ", "oh", "go"),
    "OY": Phoneme("ɔɪ", "oy", "boy"),
    "P": Phoneme("p", "p", "pen"),
    "R": Phoneme("ɹ", "r", "red"),
    "S": Phoneme("s", "s", "sun"),
    "SH": Phoneme("ʃ", "sh", "she"),
    "T": Phoneme("t", "t", "tea"),
    "TH": Phoneme("θ", "th", "thin"),
    "UH": Phoneme("ʊ", "uu", "book"),
    "UW": Phoneme("u", "oo", "moon"),
    "V": Phoneme("v", "v", "very"),
    "W": Phoneme("w", "w", "we"),
    "Y": Phoneme("j", "y", "yes"),
    "Z": Phoneme("z", "z", "zoo"),
    "ZH": Phoneme("ʒ", "zh", "vision"),
}


def to_ipa(pronunciation: str) -> str:
    """`K AE T` as /kæt/."""
    return "/" + "".join(PHONEMES[sound].ipa for sound in sounds_of(pronunciation)) + "/"


def respell(pronunciation: str) -> str:
    """`K AE T` as k·a·t, in letters that an English reader says right (`PHONEMES` has an example of each)."""
    return "·".join(PHONEMES[sound].plain for sound in sounds_of(pronunciation))


def sounds_of(pronunciation: str) -> list[str]:
    """`K AE T` as a list. Raises ValueError if one of them is not in `PHONEMES`."""
    sounds = pronunciation.split()
    unknown = [sound for sound in sounds if sound not in PHONEMES]
    if unknown:
        raise ValueError(f"Not a sound of this dictionary: {', '.join(unknown)}. It has {', '.join(PHONEMES)}.")
    return sounds


# --- words ----------------------------------------------------------------------------------------------

CMUDICT = Path(__file__).parent / "data" / "cmudict.txt.gz"
Sounds = tuple[str, ...]


def read_cmudict() -> dict[str, list[Sounds]]:
    """117,493 words and names, each with the ways to say it. The file was made by `python -m benchmarks.make_cmudict`.

    A line of it is a word and its pronunciations, with tabs between them: `tomato`, `T AH M EY T OW`, …
    """
    text = gzip.decompress(CMUDICT.read_bytes()).decode("ascii")
    rows = (line.split("\t") for line in text.splitlines())
    return {word: [tuple(way.split()) for way in ways] for word, *ways in rows}


class Entry(NamedTuple):
    """A word and all the ways to say it."""

    word: str
    pronunciations: list[Sounds]


class Dictionary(NamedTuple):
    """The words for training, for validation and for the test."""

    train: list[Entry]
    validation: list[Entry]
    test: list[Entry]


ENDINGS = re.compile(r"(?<=...)(?:able|ed|er|es|ful|ing|ion|less|ly|ment|ness|[deirsy])+$")


def family(word: str) -> str:
    """What is left of a word without its endings: *carry* and *carried*, but also *car*, belong to the same family."""
    stem = ENDINGS.sub("", word)
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem  # runn-ing


@cache
def make_dictionary() -> Dictionary:
    """Two words of a hundred for validation, two for the test, the others to train with.

    A checksum of its family decides where a word goes: always the same way, and never *carried* into the test while
    *carry* is among the words to train with. Compounds and names that look alike may still be on both sides. The words
    for validation and test are shuffled, so that the first hundred are a fair sample.
    """
    parts = Dictionary([], [], [])
    for word, pronunciations in read_cmudict().items():
        lot = checksum(family(word)) % 50
        part = {0: parts.validation, 1: parts.test}.get(lot, parts.train)
        part.append(Entry(word, pronunciations))
    parts.validation.sort(key=lambda entry: checksum(entry.word))
    parts.test.sort(key=lambda entry: checksum(entry.word))
    return parts


def checksum(word: str) -> int:
    """A number that depends on the letters alone, the same on every machine."""
    return zlib.crc32(word.encode())


@cache
def letter_vocabulary() -> Vocabulary:
    """The letters a to z, 29 ids."""
    return Vocabulary(string.ascii_lowercase)


@cache
def phoneme_vocabulary() -> Vocabulary:
    """The sounds, 42 ids."""
    return Vocabulary(list(PHONEMES))


MAX_LETTERS = 32  # the longest word of the dictionary has 28
MAX_SOUNDS = 40  # its pronunciation has 28; a model that does not find an end is stopped here
NO_ACCENT = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)


def plain_letters(word: str) -> str:
    """A word as the dictionary would write it: small letters from a to z, no accents, apostrophes, dots or hyphens.

    Raises ValueError for what is not one word in Latin letters.
    """
    small = word.strip().lower().translate(NO_ACCENT)
    bare = "".join(sign for sign in unicodedata.normalize("NFKD", small) if not unicodedata.combining(sign))
    letters = re.sub(r"['’.-]", "", bare)
    foreign = sorted(set(letters) - set(string.ascii_lowercase))
    if not letters:
        raise ValueError(f"There is no letter in {word!r}: give a word.")
    if " " in foreign:
        raise ValueError(f"{word!r} is more than one word: give them one by one, as in {word.split()}.")
    if foreign:
        raise ValueError(f"{word!r} has {' '.join(foreign)} in it: the model only knows the letters a to z.")
    if len(letters) > MAX_LETTERS:
        raise ValueError(f"{word!r} has {len(letters)} letters: the model takes {MAX_LETTERS} at most.")
    return letters


def encode_words(words: Sequence[str]) -> Tensor:
    """The ids of the letters of each word: (word, source), each row closed by EOS and padded."""
    if isinstance(words, str):
        raise ValueError(f"Give a list of words: [{words!r}].")
    if not words:
        raise ValueError("Give at least one word.")
    return pad_batch([letter_vocabulary().encode(plain_letters(word)) for word in words], PAD)[0]


def encode_entries(entries: Sequence[Entry]) -> tuple[Tensor, Tensor]:
    """Source ids (row, source) and target ids (row, target). A word has a row for each way to say it."""
    letters, phonemes = letter_vocabulary().ids, phoneme_vocabulary().ids
    source = [[letters[each] for each in entry.word] for entry in entries for _ in entry.pronunciations]
    targets = [[phonemes[each] for each in sounds] for entry in entries for sounds in entry.pronunciations]
    return closed_and_padded(source), closed_and_padded(targets)


def closed_and_padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """(row, time). Faster than `pad_batch`, which makes a tensor for each word and would take seconds."""
    width = max(map(len, rows)) + 1
    return torch.tensor([[*row, EOS, *[PAD] * (width - 1 - len(row))] for row in rows])


# --- the model ------------------------------------------------------------------------------------------

WEIGHTS = Path(__file__).with_name("pronouncer.pt")


def new_pronouncer(dropout: float = 0.0) -> Transformer:
    """The model before training: that of the translator with other vocabularies, 0.7 million parameters."""
    return Transformer(
        src_vocab=len(letter_vocabulary()),
        tgt_vocab=len(phoneme_vocabulary()),
        d_model=128,
        num_heads=4,
        d_ff=256,
        num_layers=2,
        dropout=dropout,
        pad_id=PAD,
        max_len=64,
    )


def load_pronouncer() -> Transformer:
    """The model that comes with the course, trained by `python -m benchmarks.train_pronouncer`."""
    model = new_pronouncer()
    model.load_state_dict(torch.load(WEIGHTS, map_location="cpu", weights_only=True))  # half precision in the file
    return model.eval()


def save_pronouncer(model: Transformer, path: Path = WEIGHTS) -> None:
    """Write the weights in half precision, as `save_translator` does."""
    torch.save({name: value.half() for name, value in model.state_dict().items()}, path)


def pronounce(model: Transformer, words: Sequence[str]) -> list[str]:
    """How the model says these words, by greedy decoding: `["K AE T", …]`."""
    ids = generate(model, encode_words(words).to(device_of(model)), BOS, EOS, max_len=MAX_SOUNDS)
    return [" ".join(phoneme_vocabulary().decode(row)) for row in ids]


@torch.no_grad()
def pronounce_by_beam(model: Transformer, words: Sequence[str], beam_size: int, alpha: float = 0.0) -> list[str]:
    """How the model says these words, by `beam_search`, one word after the other."""
    model.eval()
    results = []
    for row in encode_words(words).to(device_of(model)):
        next_logits = uncached(model, row[row != PAD][None])
        ids, _ = beam_search(next_logits, beam_size, BOS, EOS, MAX_SOUNDS, alpha)
        results.append(" ".join(phoneme_vocabulary().decode(ids)))
    return results


@torch.no_grad()
def draw_pronunciations(model: Transformer, word: str, number: int, choose: Callable[[Tensor], Tensor]) -> list[str]:
    """Say a word a number of times, each sound sampled.

    choose: given logits (rows, vocab), it returns the ids of the sounds to say next, (rows,); for example
    `lambda logits: sample(top_p_filter(logits, 0.9), 1.0, torch.rand(len(logits)))`.
    """
    model.eval()
    next_logits = cached(model, encode_words([word] * number).to(device_of(model)))

    def nothing_but_the_choice(ids: Tensor) -> Tensor:
        logits = next_logits(ids)
        return F.one_hot(choose(logits), logits.shape[-1])

    rows = greedy_decode(nothing_but_the_choice, number, BOS, EOS, PAD, max_len=MAX_SOUNDS)
    return [" ".join(phoneme_vocabulary().decode(row)) for row in rows]


@torch.no_grad()
def log_probability(model: Transformer, words: Sequence[str], pronunciations: Sequence[str]) -> Tensor:
    """What the model gives to each sound of a pronunciation, and to EOS after it, if all before it are as given.

    Returns: (word, time) on the CPU; 0 after EOS. A row's sum is the log-probability of the whole pronunciation.
    """
    targets, _ = pad_batch([phoneme_vocabulary().encode(sounds_of(each)) for each in pronunciations], PAD)
    device = device_of(model)
    source, targets = encode_words(words).to(device), targets.to(device)
    model.eval()
    every = model(source, shift_right(targets, BOS)).log_softmax(dim=-1)  # (word, time, sound)
    chosen = every.gather(dim=-1, index=targets[:, :, None]).squeeze(-1)  # (word, time)
    return chosen.masked_fill(targets == PAD, 0.0).cpu()


# --- how good is it? ------------------------------------------------------------------------------------


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """How many tokens have to be replaced, inserted or deleted to turn one sequence into the other."""
    row = list(range(len(b) + 1))  # row[j]: from the tokens of a so far to the first j of b
    for i, left in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(diagonal + (left != right), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def word_accuracy(pronunciations: Sequence[str], entries: Sequence[Entry]) -> float:
    """The share of words that are said in one of the dictionary's ways, to the last sound."""
    require_same_number(pronunciations, entries)
    return sum(is_right(each, entry) for each, entry in zip(pronunciations, entries)) / len(entries)


def is_right(pronunciation: str, entry: Entry) -> bool:
    return tuple(pronunciation.split()) in entry.pronunciations


def phoneme_error_rate(pronunciations: Sequence[str], entries: Sequence[Entry]) -> float:
    """The number of wrong, missing and superfluous sounds, divided by that of all sounds in the dictionary.

    Of the ways to say a word, the one that is nearest counts.
    """
    require_same_number(pronunciations, entries)
    wrong, total = 0, 0
    for pronunciation, entry in zip(pronunciations, entries):
        sounds = pronunciation.split()
        errors, length = min((edit_distance(sounds, way), len(way)) for way in entry.pronunciations)
        wrong += errors
        total += length
    return wrong / total


def require_same_number(pronunciations: Sequence[str], entries: Sequence[Entry]) -> None:
    if len(pronunciations) != len(entries) or not entries:
        raise ValueError(f"{len(pronunciations)} pronunciations, {len(entries)} words: give one for each, at least 1.")


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """How far confidence is from the truth: of ten answers at 90 %, nine should be right.

    The answers are sorted by confidence into ten bins. In each, the mean confidence is compared with the share that is
    right; the result is the mean distance, each bin counting as much as it has answers.

    confidence: (answer,), between 0 and 1; right: (answer,), boolean or 0 and 1.
    """
    bins = (10 * confidence).long().clamp(max=9)
    errors = [(confidence - right.to(confidence))[bins == each].sum().abs() for each in range(10)]
    return float(sum(errors) / len(confidence))


# --- baselines without a model --------------------------------------------------------------------------


@cache
def usual_sounds() -> dict[str, str]:
    """The sound that most often stands at a letter's place, in words with as many sounds as letters."""
    counts: dict[str, Counter[str]] = {letter: Counter() for letter in string.ascii_lowercase}
    for entry in make_dictionary().train:
        for sounds in entry.pronunciations:
            if len(sounds) == len(entry.word):
                for letter, sound in zip(entry.word, sounds):
                    counts[letter][sound] += 1
    return {letter: count.most_common(1)[0][0] for letter, count in counts.items()}


def letter_by_letter(words: Sequence[str]) -> list[str]:
    """Each letter by its usual sound."""
    return [" ".join(usual_sounds()[letter] for letter in plain_letters(word)) for word in words]


def like_the_nearest_word(words: Sequence[str]) -> list[str]:
    """Each word as its neighbour in the alphabetical list of the training words, the one that begins more like it."""
    known = sorted(make_dictionary().train)
    results = []
    for word in words:
        letters = plain_letters(word)
        place = bisect_left(known, letters, key=lambda entry: entry.word)
        neighbours = known[max(place - 1, 0) : place + 1]
        nearest = max(neighbours, key=lambda entry: common_beginning(entry.word, letters))
        results.append(" ".join(nearest.pronunciations[0]))
    return results


def common_beginning(a: str, b: str) -> int:
    """How many letters two words have in common before they differ."""
    return next((i for i, (left, right) in enumerate(zip(a, b)) if left != right), min(len(a), len(b)))
