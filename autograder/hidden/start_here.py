"""Hidden cases on the warm-ups."""

from __future__ import annotations

import torch

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import start_here


@hidden(start_here.softmax)
def softmax(draw: Draw) -> list[Case]:
    n = draw.integer(3, 6)
    return [
        {"x": draw.normal(n, n, scale=2), "dim": -1},
        {"x": draw.normal(*draw.sizes((4, 7), (2, 5))), "dim": 0},
        {"x": draw.normal(*draw.sizes((2, 5), (2, 5), (2, 5), (2, 5)), scale=3), "dim": draw.choice([1, 2])},
        {"x": draw.normal(*draw.sizes((2, 4), (2, 4), (2, 4))), "dim": -3},
        {"x": draw.normal(1, draw.integer(20, 40)), "dim": 1},
    ]


@hidden(start_here.squared_distances)
def squared_distances(draw: Draw) -> list[Case]:
    batch, n, m, d = draw.sizes((2, 6), (2, 6), (2, 6), (2, 6))
    same, wide = draw.sizes((3, 4), (5, 7))
    batch_of_one, points = draw.sizes((3, 5), (6, 8))
    return [
        {"a": draw.normal(batch, n, d), "b": draw.normal(batch, m, d)},
        {"a": draw.normal(same, same, wide, scale=3), "b": draw.normal(same, same, wide, scale=3)},
        {"a": draw.normal(batch_of_one, 1, 2), "b": draw.normal(batch_of_one, points, 2)},
        {"a": draw.normal(2, n, 1, dtype=torch.float32), "b": draw.normal(2, n + 1, 1, dtype=torch.float32)},
    ]


@hidden(start_here.batch_matmul)
def batch_matmul(draw: Draw) -> list[Case]:
    batch, n, k, m = draw.sizes((2, 6), (2, 6), (2, 6), (2, 6))
    same, more = draw.sizes((3, 4), (5, 6))
    return [
        {"a": draw.normal(batch, n, k), "b": draw.normal(batch, k, m)},
        {"a": draw.normal(more, same, same, scale=3), "b": draw.normal(more, same, same, scale=3)},
        {"a": draw.normal(same, 1, more), "b": draw.normal(same, more, 2)},
        {"a": draw.normal(2, n, 1, dtype=torch.float32), "b": draw.normal(2, 1, n + 1, dtype=torch.float32)},
    ]


@hidden(start_here.pad_batch)
def pad_batch(draw: Draw) -> list[Case]:
    def sequences(pad_id: int, *lengths: int) -> list[torch.Tensor]:
        """All but the first hold the pad_id, as a real token."""
        made = [draw.ids(length, vocab=9) + 1 for length in lengths]
        for sequence in made[1:]:
            sequence[draw.integer(0, len(sequence) - 1)] = pad_id
        return made

    pad_id, other, third = draw.sizes((1, 9), (1, 9), (0, 9))
    longest, cut, short = draw.sizes((6, 8), (3, 5), (1, 2))
    return [
        {"sequences": sequences(pad_id, short, longest, cut), "pad_id": pad_id, "max_len": None},
        {
            "sequences": sequences(other, *draw.shuffled([longest, cut + 1, short, cut])),
            "pad_id": other,
            "max_len": cut,
        },
        {"sequences": sequences(third, short, cut), "pad_id": third, "max_len": longest},
        {"sequences": sequences(third, longest, longest), "pad_id": third, "max_len": 1},
    ]
