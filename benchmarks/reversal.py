"""Reversal: a small encoder-decoder learns to reverse sequences of 4 to 16 symbols.

Two seeds; new sequences to test on; a sequence counts only if every symbol of it is right.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.tables import Row, at_least, at_most, timed
from course_lib.decoding import exact_match, generate
from course_lib.training import cosine_rate, fit
from course_lib.transformer import Transformer
from course_lib.translation import BOS, EOS, PAD, copy_batches

STEPS = 600


def new_model() -> Transformer:
    return Transformer(20, 20, d_model=64, num_heads=4, d_ff=128, num_layers=1, pad_id=PAD, max_len=64)


def train(seed: int) -> Transformer:
    torch.manual_seed(seed)
    model = new_model()
    batches = copy_batches(64, STEPS, seed, reverse=True)
    fit(model, batches, lambda step: cosine_rate(step, STEPS, peak=3e-3, warmup=100), BOS, PAD)
    return model


def test(model: Transformer, seed: int) -> float:
    """The share of 1000 new sequences that the model reverses without a mistake."""
    ((source, targets),) = copy_batches(1000, 1, seed, reverse=True)
    results = generate(model, source, BOS, EOS, max_len=targets.shape[1])
    return exact_match(without_padding(results), without_padding(targets))


def without_padding(ids: Tensor) -> list[list[int]]:
    return [row[row != PAD].tolist() for row in ids]


def run() -> list[Row]:
    rows = []
    for seed in (1, 2):
        model, seconds = timed(partial(train, seed))
        rows.append(at_least(f"seed {seed}: exact", 100 * test(model, seed + 1000), 98, " %"))
        rows.append(at_most(f"seed {seed}: training, CPU time", seconds, 20, " s"))
    return rows
