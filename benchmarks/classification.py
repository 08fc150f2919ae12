"""Reading: reviews whose order decides, names in 32 languages, and eight labels after filling gaps.

Two seeds each. Reviews: a model with positions, the same without, and a bag of words, all trained on ordinary reviews
and on twins (the same words, the opposite meaning) and tested on 2,000 new twins. Languages: 1,200 steps; tested on
names of things of which no name in any language was in training; beside it the model that comes with the course (1,500
steps) and what counting letters gives. Eight labels: the mean over five draws of eight labelled notes, each with 100
steps; pre-training reads 20,000 notes with gaps and no labels.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from statistics import mean

import torch
from torch import nn

from benchmarks.tables import Row, at_least, at_most, timed
from benchmarks.train_readers import train_gap_filler, train_judge, train_linguist
from course_lib import languages, reviews
from course_lib.classification import MaskedLanguageModel, SequenceClassifier, fine_tune
from course_lib.reader import (
    REVIEW_SIZES,
    BagOfWords,
    accuracy,
    everything,
    load_linguist,
    new_judge,
    train_classifier,
    without_positions,
)

DRAWS = 5


def rows_about_reviews(seed: int) -> list[Row]:
    twins = reviews.encode_reviews(reviews.twins(2000, seed=4))
    torch.manual_seed(seed)
    judge, seconds = timed(partial(train_judge, new_judge(), seed))
    blind = train_judge(without_positions(new_judge()), seed)
    bag = train_judge(BagOfWords(len(reviews.vocabulary()), 2), seed, rate=3e-2)
    return [
        at_least(f"seed {seed}: twins, with positions", 100 * accuracy(judge, *twins), 98, " %"),
        at_most(f"seed {seed}: twins, without positions", 100 * accuracy(blind, *twins), 55, " %"),
        at_most(f"seed {seed}: twins, bag of words", 100 * accuracy(bag, *twins), 55, " %"),
        at_most(f"seed {seed}: training with positions, CPU time", seconds, 20, " s"),
    ]


def rows_about_languages(seed: int) -> list[Row]:
    test = languages.encode_names(languages.make_names().test)
    model, seconds = timed(partial(train_linguist, seed))
    return [
        at_least(f"seed {seed}: names of new things", 100 * accuracy(model, *test), 66, " %"),
        at_most(f"seed {seed}: training, CPU time", seconds, 60, " s"),
    ]


def rows_beside_them() -> list[Row]:
    names = languages.make_names()
    ids, actual = languages.encode_names(names.test)
    usual = Counter(name.language for name in names.train).most_common(1)[0][0]
    counted = languages.PieceCounts(names.train).scores([name.text for name in names.test]).argmax(dim=-1)
    return [
        at_least("as shipped: names of new things", 100 * accuracy(load_linguist(), ids, actual), 70, " %"),
        Row("counts of 1 to 3 letters", f"{100 * (counted == actual).float().mean():.2f} %"),
        Row("the most frequent language", f"{100 * (actual == usual).float().mean():.2f} %"),
    ]


def rows_about_few_labels(seed: int) -> list[Row]:
    pretrained, seconds = timed(partial(train_gap_filler, seed))
    shares = [few_labels(pretrained, 100 * seed + draw) for draw in range(DRAWS)]
    tuned, fresh, bag = (mean(column) for column in zip(*shares))
    return [
        at_least(f"seed {seed}: eight labels, pre-trained", 100 * tuned, 85, " %"),
        at_most(f"seed {seed}: eight labels, from scratch", 100 * fresh, 75, " %"),
        at_most(f"seed {seed}: eight labels, bag of words", 100 * bag, 75, " %"),
        at_most(f"seed {seed}: pre-training, CPU time", seconds, 40, " s"),
    ]


def few_labels(pretrained: MaskedLanguageModel, seed: int) -> tuple[float, float, float]:
    """How well eight labels are used: by the pre-trained model, by one that begins with nothing, by a bag of words."""
    torch.manual_seed(seed)
    size = len(reviews.vocabulary())
    tuned = SequenceClassifier(size, size, **REVIEW_SIZES)
    tuned.load_state_dict(pretrained.state_dict())
    fresh, bag = new_judge(), BagOfWords(size, 2)
    groups = {tuned: fine_tune(tuned, 2, 1e-3, 1e-2, 0), fresh: everything(fresh, 1e-3), bag: everything(bag, 1e-1)}
    return tuple(share_right(model, each, seed) for model, each in groups.items())  # type: ignore[return-value]


def share_right(model: nn.Module, groups: list[dict], seed: int) -> float:
    labelled = reviews.encode_reviews(reviews.few_notes(8, seed))
    train_classifier(model, [labelled] * 100, 100, groups)
    return accuracy(model, *reviews.encode_reviews(reviews.notes(2000, seed=6, opinions=3)))


def run() -> list[Row]:
    seeds = (1, 2)
    rows = [row for seed in seeds for row in rows_about_reviews(seed)]
    rows += [row for seed in seeds for row in rows_about_languages(seed)]
    rows += rows_beside_them()
    return rows + [row for seed in seeds for row in rows_about_few_labels(seed)]
