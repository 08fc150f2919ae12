"""Translator: English to French, 0.8 million parameters, 60 000 sentences from the grammar.

Two seeds, 1000 steps each. Tested on 1000 new sentences, and on 1000 sentences that each have an adjective–noun pair
which never occurred in training. The attention is compared with the grammar's own alignment of nouns, adjectives and
verbs. The last rows are about the translator that comes with the course.
"""

from __future__ import annotations

from functools import partial

from benchmarks.tables import Row, at_least, at_most, timed
from benchmarks.train_translator import train_translator
from course_lib.grammar import make_data
from course_lib.transformer import Transformer
from course_lib.translation import alignment_accuracy, load_translator, translation_quality


def rows_about(name: str, model: Transformer) -> list[Row]:
    data = make_data()
    exact, score = translation_quality(model, data.test)
    unseen, _ = translation_quality(model, data.unseen)
    best_layer = max(alignment_accuracy(model, data.test))
    return [
        at_least(f"{name}: new sentences, exact", 100 * exact, 95, " %"),
        at_least(f"{name}: new sentences, BLEU", score, 98),
        at_least(f"{name}: unseen combinations, exact", 100 * unseen, 92, " %"),
        at_least(f"{name}: attention on the right word, best layer", 100 * best_layer, 95, " %"),
    ]


def run() -> list[Row]:
    rows = []
    make_data()  # not counted as training
    for seed in (1, 2):
        model, seconds = timed(partial(train_translator, seed))
        rows += rows_about(f"seed {seed}", model)
        rows.append(at_most(f"seed {seed}: training, CPU time", seconds, 100, " s"))
    return rows + rows_about("as shipped", load_translator())
