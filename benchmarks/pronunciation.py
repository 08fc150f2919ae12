"""Spelling to sound: English words and names, 0.7 million parameters, 112,757 words of a dictionary to learn from.

Two seeds, 1000 steps each. Tested on 2,368 words of whose families (carry, carries, carried, …) none was in training.
A word is right if it is said in one of the dictionary's ways; sounds are counted by their edit distance from the
nearest one. Then the model that comes with the course, which was trained for 4000 steps; it is compared with itself on
1000 words, by greedy decoding and by a beam of 4. Finally, what is possible without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from benchmarks.tables import Row, at_least, at_most, timed
from benchmarks.train_pronouncer import train_pronouncer
from course_lib.pronunciation import (
    Entry,
    calibration_error,
    is_right,
    letter_by_letter,
    like_the_nearest_word,
    load_pronouncer,
    log_probability,
    make_dictionary,
    phoneme_error_rate,
    pronounce,
    pronounce_by_beam,
    word_accuracy,
)
from course_lib.transformer import Transformer

STEPS = 1000


def quality(name: str, said: Sequence[str], test: list[Entry], words_right: float, sounds_wrong: float) -> list[Row]:
    """How good these pronunciations are, in percent, with the targets of both measures."""
    return [
        at_least(f"{name}: words right", 100 * word_accuracy(said, test), words_right, " %"),
        at_most(f"{name}: sounds wrong", 100 * phoneme_error_rate(said, test), sounds_wrong, " %"),
    ]


def rows_about_the_shipped_one(model: Transformer, test: list[Entry]) -> list[Row]:
    words = [entry.word for entry in test]
    greedy = pronounce(model, words)
    confidence = log_probability(model, words, greedy).sum(dim=1).exp()  # (word,)
    right = torch.tensor([is_right(*each) for each in zip(greedy, test)])
    few = test[:1000]
    beam = pronounce_by_beam(model, [entry.word for entry in few], beam_size=4)
    gain = word_accuracy(beam, few) - word_accuracy(greedy[:1000], few)
    return [
        *quality("as shipped", greedy, test, words_right=57, sounds_wrong=12),
        at_least("as shipped: more words right with a beam of 4", 100 * gain, 0.5, " points"),
        at_most("as shipped: calibration error of whole words", 100 * calibration_error(confidence, right), 8, " %"),
    ]


def rows_without_a_model(test: list[Entry]) -> list[Row]:
    rows = []
    for name, say in (("letter by letter", letter_by_letter), ("like the nearest word", like_the_nearest_word)):
        said = say([entry.word for entry in test])
        share, errors = 100 * word_accuracy(said, test), 100 * phoneme_error_rate(said, test)
        rows.append(Row(f"{name}: words right, sounds wrong", f"{share:.2f} %, {errors:.2f} %"))
    return rows


def run() -> list[Row]:
    rows = []
    test = make_dictionary().test  # reading the dictionary is not counted as training
    for seed in (1, 2):
        model, seconds = timed(partial(train_pronouncer, seed, STEPS))
        said = pronounce(model, [entry.word for entry in test])
        rows += quality(f"seed {seed}", said, test, words_right=45, sounds_wrong=16)
        rows.append(at_most(f"seed {seed}: training, CPU time", seconds, 100, " s"))
    return rows + rows_about_the_shipped_one(load_pronouncer(), test) + rows_without_a_model(test)
