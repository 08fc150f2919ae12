"""Hidden cases on the whole model."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib.checking.inputs import AttentionModel, normal
from course_lib.exercises import transformer
from course_lib.exercises.transformer.find_the_leak import mask_with, mixing
from course_lib.exercises.transformer.torch_state import course_state

Hidden(
    transformer.transformer,
    points=2,
    cases=[
        {
            "src_vocab": 8,
            "tgt_vocab": 8,
            "d_model": 4,
            "num_heads": 2,
            "d_ff": 7,
            "num_layers": 1,
            "dropout": 0.3,
            "norm_first": True,
            "tie_weights": True,
            "pad_id": 3,
            "max_len": 6,
            "src_ids": torch.tensor([[5, 3, 0, 7, 6], [1, 2, 4, 0, 3]]),
            "tgt_ids": torch.tensor([[1, 0, 5], [1, 3, 6]]),
        },
        {
            "src_vocab": 9,
            "tgt_vocab": 6,
            "d_model": 6,
            "num_heads": 3,
            "d_ff": 8,
            "num_layers": 2,
            "dropout": 0.5,
            "norm_first": False,
            "tie_weights": False,
            "pad_id": 0,
            "max_len": 7,
            "src_ids": torch.tensor([[4, 8, 1], [0, 7, 2], [6, 0, 0]]),
            "tgt_ids": torch.tensor([[1, 4, 2, 5], [1, 0, 0, 3], [1, 5, 2, 0]]),
        },
    ],
)

Hidden(
    transformer.transformer_parameters,
    points=1,
    cases=[
        {"table_rows": 9, "d_model": 3, "d_ff": 5, "encoder_layers": 3, "decoder_layers": 2, "extra_norms": 4},
        {
            "table_rows": 51_281,
            "d_model": 1600,
            "d_ff": 6400,
            "encoder_layers": 48,
            "decoder_layers": 0,
            "extra_norms": 1,
        },
        {"table_rows": 40, "d_model": 6, "d_ff": 25, "encoder_layers": 1, "decoder_layers": 5, "extra_norms": 2},
    ],
)

Hidden(
    transformer.torch_state,
    points=1,
    cases=[
        {"state": dict(course_state(2, False, 6, 10))},
        {"state": dict(course_state(1, True, 4, 10))},
    ],
)

Hidden(
    transformer.find_the_leak,
    points=2,
    cases=[
        {
            "function": mixing(4, 5, 3, 4, seed=21, hidden=[(0, 4), (3, 0), (2, 2)], weak=[(1, 1)]),
            "ids": torch.tensor([0, 3, 3, 1, 2]),
            "vocab_size": 4,
        },
        {
            "function": AttentionModel(normal(9, 4, seed=23), mask_with(5, (0, 2), (3, 4))),
            "ids": torch.tensor([8, 1, 7, 0, 8]),
            "vocab_size": 9,
        },
        {
            "function": mixing(3, 4, 3, 3, seed=25, hidden=[(0, 1), (2, 3)], only_feature=[(1, 1, 2), (2, 0, 0)]),
            "ids": torch.tensor([2, 1, 0, 2]),
            "vocab_size": 3,
        },
    ],
)

Hidden(
    transformer.subsampled_lengths,
    points=1,
    cases=[
        {"lengths": torch.tensor([4, 5, 6, 9, 10, 11]), "kernel": 4, "stride": 3},
        {"lengths": torch.tensor([1, 30, 6, 7, 3]), "kernel": 6, "stride": 4},
        {"lengths": torch.tensor([8, 2]), "kernel": 3, "stride": 2},
    ],
)
