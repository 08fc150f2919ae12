"""Train the recogniser that the course ships: `python -m benchmarks.train_recogniser`.

It writes course_lib/recogniser.pt. The same machine and the same version of torch give the same weights again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from course_lib.recogniser import (
    CTC_WEIGHT,
    WEIGHTS,
    Recogniser,
    batches_of,
    error_rate,
    load_recogniser,
    recognise,
    record,
    save_recogniser,
    train_recogniser,
    training_recordings,
)
from course_lib.training import print_progress
from course_lib.voices import Voice, load_voices, make_utterances

STEPS, RECORDINGS = 1200, 6000  # of the notebook
SHIPPED_STEPS, SHIPPED_RECORDINGS = 3000, 12_000
BATCH_SIZE = 32
TESTS = 240  # utterances


def train(
    seed: int,
    steps: int = STEPS,
    number: int = RECORDINGS,
    ctc_weight: float = CTC_WEIGHT,
    report: Callable[[int, float], None] | None = None,
) -> Recogniser:
    """Rows of 1 to 6 digits of the 36 voices that are for training."""
    recordings = training_recordings(load_voices().train, number, seed)
    torch.manual_seed(seed)
    model = Recogniser()
    train_recogniser(model, batches_of(recordings, BATCH_SIZE, steps, seed), steps, ctc_weight, report=report)
    return model


def error_rates(model: Recogniser, voices: tuple[Voice, ...], decibels: float) -> dict[str, float]:
    """In per cent, by CTC, by the decoder, and by both."""
    tests = make_utterances(voices, TESTS, seed=99, decibels=(decibels, decibels))
    heard = recognise(model, record(tests))._asdict()
    said = [test.digits for test in tests]
    return {way: 100 * error_rate(digits, said) for way, digits in heard.items()}


def main() -> None:
    torch.set_num_threads(1)
    save_recogniser(train(1, SHIPPED_STEPS, SHIPPED_RECORDINGS, report=print_progress(250)))
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e6:.2f} MB")
    for group, voices in vars(load_voices()).items():
        for decibels in (30, 10, 0):
            rates = error_rates(load_recogniser(), voices, decibels)
            print(f"{group:14} {decibels:2} dB  " + "  ".join(f"{way} {rate:.1f} %" for way, rate in rates.items()))


if __name__ == "__main__":
    main()
