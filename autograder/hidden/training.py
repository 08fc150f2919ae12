"""Hidden cases on training."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.checking.settings import TinyTraining
from course_lib.exercises import training

Hidden(
    training.shift_right,
    points=1,
    cases=[
        {"targets": torch.tensor([[9, 8, 5, 2, 0, 0]]), "bos_id": 4},
        {"targets": torch.tensor([[3, 7, 2], [5, 2, 6], [8, 4, 2], [2, 6, 6]]), "bos_id": 0},
        {"targets": torch.tensor([[7, 6, 9, 4, 8], [4, 5, 5, 2, 2]]), "bos_id": 3},
    ],
)

LOSSES = [
    {
        "logits": normal(2, 3, 4, seed=101, scale=2),
        "targets": torch.tensor([[2, 0, 1], [3, 1, 1]]),
        "pad_id": 1,
    },
    {
        "logits": normal(4, 3, 6, seed=102),
        "targets": torch.tensor([[1, 2, 5], [4, 0, 5], [2, 5, 5], [3, 3, 1]]),
        "pad_id": 5,
    },
]

Hidden(training.sequence_loss, points=1, cases=LOSSES)

Hidden(
    training.smoothed_loss,
    points=1,
    cases=[{**case, "epsilon": epsilon} for case, epsilon in zip(LOSSES, (0.05, 0.4))],
)

Hidden(
    training.warmup_rate,
    points=1,
    cases=[
        {"step": 3, "d_model": 16, "warmup": 7},
        {"step": 50, "d_model": 36, "warmup": 10},
        {"step": 4, "d_model": 7, "warmup": 4},
    ],
)

Hidden(
    training.train_step,
    points=2,
    cases=[
        {
            "model": TinyTraining.random(vocab=7, d_model=3, seed=110, learning_rate=0.3),
            "source": torch.tensor([[6, 5, 4, 2], [3, 4, 2, 0]]),
            "targets": torch.tensor([[5, 6, 2], [4, 2, 0]]),
            "bos_id": 1,
            "pad_id": 0,
            "max_norm": 0.15,
        },
        {
            "model": TinyTraining.random(vocab=10, d_model=2, seed=120, learning_rate=0.1),
            "source": torch.tensor([[3, 5], [8, 6], [7, 2], [6, 2]]),
            "targets": torch.tensor([[5, 0, 7, 2, 9], [4, 4, 2, 9, 9], [2, 9, 9, 9, 9], [8, 0, 0, 3, 2]]),
            "bos_id": 1,
            "pad_id": 9,
            "max_norm": 0.25,
        },
    ],
)

Hidden(
    training.accumulate_gradients,
    points=2,
    cases=[
        {
            "model": TinyTraining.random(vocab=6, d_model=4, seed=130),
            "batches": [
                (torch.tensor([[3], [5]]), torch.tensor([[4, 3, 5, 2], [2, 0, 0, 0]])),
                (torch.tensor([[4, 4]]), torch.tensor([[5, 2, 0]])),
            ],
            "bos_id": 1,
            "pad_id": 0,
        },
        {
            "model": TinyTraining.random(vocab=9, d_model=2, seed=140),
            "batches": [
                (torch.tensor([[4, 6, 2]]), torch.tensor([[7, 2]])),
                (torch.tensor([[7, 2], [5, 2], [4, 2]]), torch.tensor([[2, 8, 8], [6, 0, 2], [4, 2, 8]])),
                (torch.tensor([[6, 5, 7, 4], [4, 2, 3, 3]]), torch.tensor([[7, 0, 7, 5, 2], [5, 4, 2, 8, 8]])),
                (torch.tensor([[3]]), torch.tensor([[2, 8, 8, 8]])),
            ],
            "bos_id": 1,
            "pad_id": 8,
        },
    ],
)
