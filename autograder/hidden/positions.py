"""Hidden cases on positions."""

from __future__ import annotations

import torch

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import positions


def even(draw: Draw, low: int, high: int) -> int:
    """An even number from low to high."""
    return 2 * draw.integer((low + 1) // 2, high // 2)


@hidden(positions.sinusoidal_encoding)
def sinusoidal_encoding(draw: Draw) -> list[Case]:
    return [
        {"n": draw.integer(5, 9), "d_model": 4},
        {"n": draw.integer(6, 12), "d_model": 2 * draw.integer(2, 6) + 1},
        {"n": draw.integer(40, 80), "d_model": even(draw, 14, 30)},
        {"n": 1, "d_model": even(draw, 6, 12)},
    ]


@hidden(positions.positional_encoding)
def positional_encoding(draw: Draw) -> list[Case]:
    def case(batch: int, time: int, d_model: int, spare: int, dtype: torch.dtype) -> Case:
        return {"d_model": d_model, "max_len": time + spare, "x": draw.normal(batch, time, d_model, dtype=dtype)}

    return [
        case(*draw.sizes((2, 4), (5, 7)), even(draw, 8, 14), draw.integer(1, 9), torch.float32),
        case(2, draw.integer(4, 8), 2 * draw.integer(2, 5) + 1, 0, torch.float32),
        case(*draw.sizes((3, 5), (6, 12)), 4, draw.integer(20, 60), torch.float64),
        case(3, 1, even(draw, 4, 8), draw.integer(1, 5), torch.float32),
        case(2, draw.integer(3, 5), even(draw, 6, 10), draw.integer(1, 5), torch.float16),
    ]


@hidden(positions.shift_matrix)
def shift_matrix(draw: Draw) -> list[Case]:
    """The property looks at positions 2 to 40 of a table with 60 rows: a shift has to stay within it."""
    return [
        {"k": draw.integer(4, 8), "d_model": 6},
        {"k": draw.choice([-1, -2]), "d_model": even(draw, 4, 8)},
        {"k": draw.integer(9, 16), "d_model": even(draw, 10, 16)},
        {"k": draw.integer(2, 12), "d_model": 2},
    ]


@hidden(positions.learned_positions)
def learned_positions(draw: Draw) -> list[Case]:
    def case(batch: int, time: int, max_len: int, d_model: int) -> Case:
        return {
            "max_len": max_len,
            "d_model": d_model,
            "x": draw.normal(batch, time, d_model),
            "table": draw.normal(max_len, d_model),
        }

    batch, time, d_model = draw.sizes((2, 4), (4, 7), (3, 9))
    return [
        case(batch, time, *draw.sizes((8, 12), (3, 9))),
        case(batch, time, time, d_model),
        case(draw.integer(2, 3), 1, *draw.sizes((4, 8), (4, 8))),
    ]


@hidden(positions.apply_rope)
def apply_rope(draw: Draw) -> list[Case]:
    time = draw.integer(4, 6)
    start = draw.integer(2, 9)
    return [
        {"x": draw.normal(time, 6), "positions": torch.tensor(draw.shuffled(range(1, 10))[:time])},
        {"x": draw.normal(3, 2, time, even(draw, 8, 12)), "positions": torch.arange(start, start + time)},
        {"x": draw.normal(2, 1, 3, 2, 4), "positions": torch.tensor(draw.sizes((0, 30), (0, 30)))},
        {"x": draw.normal(1, even(draw, 4, 8)), "positions": torch.tensor([draw.integer(1, 40)])},
    ]


@hidden(positions.alibi_bias)
def alibi_bias(draw: Draw) -> list[Case]:
    with_rest = draw.choice([6, 7, 11, 12, 13])  # two heads or more beyond a power of two
    return [
        {"num_heads": 4, "n": draw.integer(5, 9)},
        {"num_heads": with_rest, "n": draw.integer(3, 6)},
        {"num_heads": draw.choice([5, 9, 17]), "n": draw.integer(4, 7)},
        {"num_heads": 16, "n": 2},
    ]
