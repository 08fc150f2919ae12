"""Language model: the docstrings of the standard library in characters, tested on modules that were held out.

Two seeds of the notebook's model (0.6 million parameters) and of a smaller one. Beside them, on the same text:
nanoGPT's recipe for a CPU, given as much CPU time as the first model or more, and what is possible without a network.
Then the model that comes with the course. The text, and so every number, depends a little on the version of Python.
"""

from __future__ import annotations

import math
from functools import partial

from torch import nn

from benchmarks import nano_gpt
from benchmarks.tables import Row, at_most, timed
from benchmarks.train_writer import train_writer
from course_lib.docstrings import ALPHABET, Corpus, encode, make_corpus, share_of_known_lines
from course_lib.language_model import GPT
from course_lib.writing import backoff_log_probabilities, gzip_bits, load_writer, text_bits, xz_bits

STEPS, STEPS_OF_THE_SMALL = 2200, 1100


def new_small_writer() -> nn.Module:
    return GPT(len(ALPHABET), 96, 4, 384, 3)


def rows_of(name: str, model: nn.Module, seconds: float, bits: float, most_seconds: float) -> list[Row]:
    measured = text_bits(model, encode(make_corpus().held_out))
    return [
        at_most(f"{name}: bits per character", measured, bits),
        at_most(f"{name}: training, CPU time", seconds, most_seconds, " s"),
    ]


def rows_beside_nano_gpt(seconds: float, bits: float) -> list[Row]:
    """nanoGPT's recipe with its own number of iterations, or with more, if `seconds` allow."""
    _, of_a_few = timed(partial(nano_gpt.train, 1, 20))
    iterations = max(nano_gpt.ITERATIONS, math.ceil(seconds / of_a_few * 20))
    model, its_seconds = timed(partial(nano_gpt.train, 1, iterations))
    its_bits = text_bits(model, encode(make_corpus().held_out), nano_gpt.BLOCK)
    return [
        Row(f"nanoGPT's recipe, {iterations} iterations", f"{its_bits:.2f} bits in {its_seconds:.0f} s"),
        at_most("our bits per character beside its", bits, round(its_bits, 3)),
    ]


def rows_without_a_network(corpus: Corpus) -> list[Row]:
    train, held_out = encode(corpus.train), encode(corpus.held_out)
    bits = {
        f"{n}-gram": -backoff_log_probabilities(train, held_out, n, len(ALPHABET)).mean().item() / math.log(2)
        for n in (1, 2, 5)
    }
    bits["gzip"], bits["xz"] = gzip_bits(corpus.held_out), xz_bits(corpus.held_out)
    bits["xz primed with the training text"] = xz_bits(corpus.held_out, primed_with=corpus.train)
    rows = [Row(f"{name}: bits per character", f"{value:.2f}") for name, value in bits.items()]
    return [*rows, Row("held-out lines also in the training text", f"{100 * share_of_known_lines(corpus):.1f} %")]


def run() -> list[Row]:
    corpus = make_corpus()  # reading it is not counted as training
    held_out = encode(corpus.held_out)
    rows = []
    for seed in (1, 2):
        model, seconds = timed(partial(train_writer, seed, STEPS))
        rows += rows_of(f"d_model 128, seed {seed}", model, seconds, bits=2.10, most_seconds=200)
        if seed == 1:
            first = seconds, text_bits(model, held_out)
        small, seconds = timed(partial(train_writer, seed, STEPS_OF_THE_SMALL, new_small_writer))
        rows += rows_of(f"d_model 96, seed {seed}", small, seconds, bits=2.40, most_seconds=70)
    shipped = at_most("as shipped: bits per character", text_bits(load_writer(), held_out), 2.10)
    return [*rows, *rows_beside_nano_gpt(*first), shipped, *rows_without_a_network(corpus)]
