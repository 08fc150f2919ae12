"""Train the language model that the course ships: `python -m benchmarks.train_writer`.

It writes course_lib/writer.pt. The docstrings that it learns from differ a little between versions of Python.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from course_lib.docstrings import encode, make_corpus
from course_lib.training import print_progress
from course_lib.writing import (
    BATCH_SIZE,
    LENGTH,
    WEIGHTS,
    load_writer,
    new_writer,
    random_starts,
    save_writer,
    text_bits,
    train_on_text,
    writer_rate,
)

STEPS = 3000


def train_writer(
    seed: int,
    steps: int = STEPS,
    new_model: Callable[[], nn.Module] = new_writer,
    report: Callable[[int, float], None] | None = None,
) -> nn.Module:
    """Batches of 16 windows of 64 characters; the learning rate rises for 100 steps and falls along a cosine."""
    torch.manual_seed(seed)
    model = new_model()
    ids = encode(make_corpus().train)
    starts = random_starts(len(ids), LENGTH, BATCH_SIZE, steps, seed)
    train_on_text(model, ids, starts, writer_rate(steps), report=report)
    return model


def main() -> None:
    torch.set_num_threads(1)
    save_writer(train_writer(seed=1, report=print_progress(250)))
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e6:.1f} MB")
    print(f"{text_bits(load_writer(), encode(make_corpus().held_out)):.3f} bits per character of new modules")


if __name__ == "__main__":
    main()
