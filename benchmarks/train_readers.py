"""Train the readers that the course ships: `python -m benchmarks.train_readers`.

It writes course_lib/readers.pt. The same machine and the same version of torch give the same weights again.
"""

from __future__ import annotations

import torch
from torch import nn

from course_lib import languages, reviews
from course_lib.classification import MaskedLanguageModel, SequenceClassifier
from course_lib.reader import (
    WEIGHTS,
    accuracy,
    batches_of,
    everything,
    load_judge,
    load_linguist,
    new_gap_filler,
    new_judge,
    new_linguist,
    pretrain,
    save_readers,
    train_classifier,
)

JUDGE_STEPS, LINGUIST_STEPS, PRETRAINING_STEPS = 600, 1200, 1500
SHIPPED_LINGUIST_STEPS = 1500


def training_reviews() -> tuple[torch.Tensor, torch.Tensor]:
    """10,000 ordinary reviews and 10,000 twins."""
    return reviews.encode_reviews(reviews.ordinary_reviews(10_000, seed=1) + reviews.twins(10_000, seed=2))


def train_judge(model: nn.Module, seed: int, rate: float = 3e-3) -> nn.Module:
    batches = batches_of(*training_reviews(), batch_size=64, steps=JUDGE_STEPS, seed=seed)
    train_classifier(model, batches, JUDGE_STEPS, everything(model, rate))
    return model


def train_linguist(seed: int, steps: int = LINGUIST_STEPS) -> SequenceClassifier:
    torch.manual_seed(seed)
    model = new_linguist()
    ids, labels = languages.encode_names(languages.make_names().train)
    batches = batches_of(ids, labels, batch_size=64, steps=steps, seed=seed)
    train_classifier(model, batches, steps, everything(model, 3e-3))
    return model


def train_gap_filler(seed: int, steps: int = PRETRAINING_STEPS) -> MaskedLanguageModel:
    """It reads 20,000 notes with gaps, and not one label."""
    torch.manual_seed(seed)
    model = new_gap_filler()
    ids, labels = reviews.encode_reviews(reviews.notes(20_000, seed=3))
    batches = (rows for rows, _ in batches_of(ids, labels, batch_size=64, steps=steps, seed=seed))
    pretrain(model, batches, steps, rate=3e-3, seed=seed)
    return model


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    save_readers(
        {
            "judge": train_judge(new_judge(), seed=1),
            "linguist": train_linguist(1, SHIPPED_LINGUIST_STEPS),
            "pretrained": train_gap_filler(1),
        }
    )
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e6:.2f} MB")
    judged = accuracy(load_judge(), *reviews.encode_reviews(reviews.twins(2000, seed=4)))
    named = accuracy(load_linguist(), *languages.encode_names(languages.make_names().test))
    print(f"judge: {judged:.1%} of twins right; linguist: {named:.1%} of names right")


if __name__ == "__main__":
    main()
