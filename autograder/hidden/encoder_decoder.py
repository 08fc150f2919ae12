"""Hidden cases on encoder and decoder."""

from __future__ import annotations

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import encoder_decoder
from course_lib.exercises.encoder_decoder.shared import partial_mask, real, seen_so_far

Hidden(
    encoder_decoder.encoder_layer,
    points=2,
    cases=[
        {
            "d_model": 10,
            "num_heads": 2,
            "d_ff": 7,
            "dropout": 0.35,
            "norm_first": True,
            "x": normal(3, 4, 10, seed=101, scale=2),
            "mask": partial_mask(3, 4, 4, seed=102),
        },
        {
            "d_model": 9,
            "num_heads": 3,
            "d_ff": 14,
            "dropout": 0.25,
            "norm_first": False,
            "x": normal(2, 6, 9, seed=103),
            "mask": real(4, 5, width=6),
        },
        {
            "d_model": 4,
            "num_heads": 1,
            "d_ff": 5,
            "dropout": 0.6,
            "norm_first": True,
            "x": normal(5, 3, 4, seed=104),
            "mask": None,
        },
    ],
)

Hidden(
    encoder_decoder.encoder,
    points=1,
    cases=[
        {
            "d_model": 10,
            "num_heads": 5,
            "d_ff": 6,
            "num_layers": 2,
            "dropout": 0.35,
            "norm_first": False,
            "x": normal(3, 4, 10, seed=111, scale=2),
            "mask": real(3, 4, 2, width=4),
        },
        {
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 11,
            "num_layers": 4,
            "dropout": 0.15,
            "norm_first": True,
            "x": normal(2, 5, 6, seed=112),
            "mask": real(4, 3, width=5),
        },
    ],
)

Hidden(
    encoder_decoder.decoder_layer,
    points=2,
    cases=[
        {
            "d_model": 10,
            "num_heads": 2,
            "d_ff": 7,
            "dropout": 0.35,
            "norm_first": True,
            "x": normal(3, 4, 10, seed=121, scale=2),
            "memory": normal(3, 6, 10, seed=122),
            "mask": seen_so_far(4, 2, 3, width=4),
            "memory_mask": partial_mask(3, 4, 6, seed=123),
        },
        {
            "d_model": 9,
            "num_heads": 3,
            "d_ff": 14,
            "dropout": 0.25,
            "norm_first": False,
            "x": normal(2, 6, 9, seed=124),
            "memory": normal(2, 5, 9, seed=125),
            "mask": seen_so_far(5, 6, width=6),
            "memory_mask": real(5, 3, width=5),
        },
    ],
)

Hidden(
    encoder_decoder.decoder,
    points=1,
    cases=[
        {
            "d_model": 10,
            "num_heads": 5,
            "d_ff": 6,
            "num_layers": 2,
            "dropout": 0.35,
            "norm_first": False,
            "x": normal(3, 4, 10, seed=131, scale=2),
            "memory": normal(3, 5, 10, seed=132),
            "mask": seen_so_far(4, 3, 2, width=4),
            "memory_mask": real(3, 5, 4, width=5),
        },
        {
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 11,
            "num_layers": 4,
            "dropout": 0.15,
            "norm_first": True,
            "x": normal(2, 5, 6, seed=133),
            "memory": normal(2, 3, 6, seed=134),
            "mask": seen_so_far(5, 4, width=5),
            "memory_mask": real(3, 2, width=3),
        },
    ],
)
