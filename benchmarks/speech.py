"""Speech: rows of 3 to 6 spoken digits; how many are wrong, missing or too many, per digit that was said.

Two seeds of the notebook's training (1,200 steps), then the model that comes with the course (3,000 steps). All are
tested on new rows of the 36 voices of the training, on 12 unseen voices of the same synthesiser, on 4 of another one,
and on one person, with noise at 30, 10 and 0 decibels. Beside it: the same features without learning, each digit of the
tested voices compared with those of half of the training voices by dynamic time warping.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.tables import Row, at_most, timed
from benchmarks.train_recogniser import error_rates, train
from course_lib.recogniser import Recogniser, features_of, load_recogniser
from course_lib.voices import Voice, load_voices

LEVELS = (30, 10, 0)
GROUPS = {
    "train": "voices of the training",
    "unseen": "unseen voices",
    "other_machine": "another synthesiser",
    "person": "a person",
}
MOST = {  # per cent, by CTC
    ("train", 30): 3, ("train", 10): 6, ("train", 0): 22,
    ("unseen", 30): 9, ("unseen", 10): 16, ("unseen", 0): 36,
    ("other_machine", 30): 36, ("person", 30): 44,
}  # fmt: skip


def rows_about(name: str, model: Recogniser) -> list[Row]:
    rows = []
    for group, voices in vars(load_voices()).items():
        for level in LEVELS:
            rates = error_rates(model, voices, level)
            what = f"{name}: {GROUPS[group]}, {level} dB"
            most = MOST.get((group, level))
            by_ctc = Row(f"{what}, CTC", f"{rates['ctc']:.2f} %")
            rows.append(by_ctc if most is None else at_most(f"{what}, CTC", rates["ctc"], most, " %"))
            rows.append(Row(f"{what}, decoder / both", f"{rates['attention']:.2f} / {rates['both']:.2f} %"))
    return rows


def time_warped(a: Tensor, b: Tensor) -> float:
    """The distance of two rows of features, (time, n_mels) each, along the best way to stretch one onto the other."""
    distances = torch.cdist(a, b).tolist()
    previous = [0.0] + [float("inf")] * len(b)
    for row in distances:
        current = [float("inf")]
        for j, distance in enumerate(row):
            current.append(distance + min(previous[j], previous[j + 1], current[j]))
        previous = current
    return previous[-1] / (len(a) + len(b))


def nearest_digit(wave: Tensor, known: list[tuple[int, Tensor]]) -> int:
    features = features_of(wave)
    return min(known, key=lambda other: time_warped(features, other[1]))[0]


def rows_without_learning(training: tuple[Voice, ...], tested: dict[str, tuple[Voice, ...]]) -> list[Row]:
    """One digit at a time, without noise: easier than rows, where nobody says where a digit begins."""
    known = [(digit, features_of(wave)) for voice in training for digit, wave in enumerate(voice.digits)]
    rows = []
    for group, voices in tested.items():
        pairs = [(digit, wave) for voice in voices for digit, wave in enumerate(voice.digits)]
        wrong = sum(nearest_digit(wave, known) != digit for digit, wave in pairs)
        rows.append(Row(f"time warping, single digits: {GROUPS[group]}", f"{100 * wrong / len(pairs):.2f} %"))
    return rows


def run() -> list[Row]:
    rows = []
    for seed in (1, 2):
        model, seconds = timed(partial(train, seed))
        rows += rows_about(f"seed {seed}", model)
        rows.append(at_most(f"seed {seed}: training, CPU time", seconds, 120, " s"))
    rows += rows_about("as shipped", load_recogniser())
    every = load_voices()
    tested = {"unseen": every.unseen, "other_machine": every.other_machine, "person": every.person}
    rows += rows_without_learning(every.train[::2], tested)
    alone = error_rates(train(1, ctc_weight=0.0), every.unseen, 30)["attention"]
    return [*rows, Row("seed 1, trained without CTC: unseen voices, 30 dB, decoder", f"{alone:.2f} %")]
