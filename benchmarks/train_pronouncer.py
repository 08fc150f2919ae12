"""Train the model of pronunciation that the course ships: `python -m benchmarks.train_pronouncer`.

It writes course_lib/pronouncer.pt. The same machine and the same version of torch give the same weights again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from course_lib.pronunciation import (
    WEIGHTS,
    encode_entries,
    load_pronouncer,
    make_dictionary,
    new_pronouncer,
    phoneme_error_rate,
    pronounce,
    save_pronouncer,
    word_accuracy,
)
from course_lib.training import cosine_rate, fit, print_progress
from course_lib.transformer import Transformer
from course_lib.translation import BOS, PAD, random_batches

STEPS = 4000


def train_pronouncer(seed: int, steps: int = STEPS, report: Callable[[int, float], None] | None = None) -> Transformer:
    """The translator's recipe: batches of 64 words; the learning rate rises for 100 steps and falls along a cosine."""
    torch.manual_seed(seed)
    model = new_pronouncer()
    source, targets = encode_entries(make_dictionary().train)
    batches = random_batches(source, targets, batch_size=64, steps=steps, seed=seed)
    fit(model, batches, lambda step: cosine_rate(step, steps, peak=3e-3, warmup=100), BOS, PAD, report=report)
    return model


def main() -> None:
    torch.set_num_threads(1)
    save_pronouncer(train_pronouncer(seed=1, report=print_progress(200)))
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e6:.1f} MB")
    test = make_dictionary().test
    said = pronounce(load_pronouncer(), [entry.word for entry in test])
    share, errors = word_accuracy(said, test), phoneme_error_rate(said, test)
    print(f"{len(test)} new words: {share:.1%} right, {errors:.1%} of the sounds wrong")


if __name__ == "__main__":
    main()
