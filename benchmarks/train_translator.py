"""Train the translator that the course ships: `python -m benchmarks.train_translator` writes course_lib/translator.pt.

The same machine and the same version of torch give the same weights again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from course_lib.grammar import make_data
from course_lib.training import cosine_rate, fit, print_progress
from course_lib.transformer import Transformer
from course_lib.translation import (
    BOS,
    PAD,
    WEIGHTS,
    encode_pairs,
    load_translator,
    new_translator,
    random_batches,
    save_translator,
    translation_quality,
)

STEPS = 1000


def train_translator(seed: int, report: Callable[[int, float], None] | None = None) -> Transformer:
    """1000 steps of 64 sentences, without dropout; the learning rate rises for 100 steps and falls along a cosine."""
    torch.manual_seed(seed)
    model = new_translator()
    source, targets = encode_pairs(make_data().train)
    batches = random_batches(source, targets, batch_size=64, steps=STEPS, seed=seed)
    fit(model, batches, lambda step: cosine_rate(step, STEPS, peak=3e-3, warmup=100), BOS, PAD, report=report)
    return model


def main() -> None:
    torch.set_num_threads(1)
    save_translator(train_translator(seed=1, report=print_progress(100)))
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e6:.1f} MB")
    model = load_translator()
    for name, pairs in (("new sentences", make_data().test), ("unseen combinations", make_data().unseen)):
        exact, score = translation_quality(model, pairs)
        print(f"{name}: {exact:.1%} exact, BLEU {score:.1f}")


if __name__ == "__main__":
    main()
