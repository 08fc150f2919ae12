"""Hidden cases on encoder and decoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import encoder_decoder
from course_lib.exercises.encoder_decoder.shared import real, seen_so_far


def building(draw: Draw, heads: int, d_k: int, norm_first: bool, **more: int) -> dict[str, Any]:
    """The arguments of a constructor.

    d_ff is not a multiple of d_model, so that it is known which matrix is which. And it is larger: with only a few
    hidden values, ReLU might turn all of them into 0.
    """
    d_model = heads * d_k
    sizes = {"d_model": d_model, "num_heads": heads, "d_ff": d_model + draw.choice([3, 5, 7])}
    return {**sizes, **more, "dropout": draw.number(0.1, 0.6), "norm_first": norm_first}


def lengths(draw: Draw, batch: int, longest: int) -> list[int]:
    """Lengths of sentences; the last one is shorter than the longest, since it is the one that is looked at."""
    others = [draw.integer(2, longest) for _ in range(batch - 2)]
    return [*draw.shuffled([longest, *others]), draw.integer(2, longest - 1)]


def partial_mask(draw: Draw, batch: int, time: int) -> Tensor:
    """(batch, time, time): every query may see itself and some keys, and not others."""
    mask = draw.mask(batch, time, time) | torch.eye(time, dtype=torch.bool)
    mask[..., 0, -1] = False
    return mask


def split(draw: Draw) -> tuple[int, int]:
    """Heads and the size of each."""
    return draw.choice([(2, 3), (2, 4), (2, 5), (3, 2), (3, 3), (4, 2)])


def both_orders(draw: Draw) -> list[bool]:
    """norm_first of two cases."""
    return draw.shuffled([True, False])


@hidden(encoder_decoder.encoder_layer)
def encoder_layer(draw: Draw) -> list[Case]:
    cases: list[Case] = []
    for norm_first in both_orders(draw):
        sizes = building(draw, *split(draw), norm_first)
        batch, time = draw.sizes((2, 3), (4, 6))
        x = draw.normal(batch, time, sizes["d_model"], scale=draw.choice([1, 2]))
        mask = partial_mask(draw, batch, time) if norm_first else real(*lengths(draw, batch, time), width=time)
        cases.append({**sizes, "x": x, "mask": mask})
    sizes = building(draw, 1, draw.integer(4, 5), draw.choice([True, False]))
    cases.append({**sizes, "x": draw.normal(draw.integer(4, 5), 3, sizes["d_model"]), "mask": None})
    return cases


@hidden(encoder_decoder.encoder)
def encoder(draw: Draw) -> list[Case]:
    cases: list[Case] = []
    for norm_first, layers in zip(both_orders(draw), (2, 4)):
        sizes = building(draw, *split(draw), norm_first, num_layers=layers)
        batch, time = draw.sizes((2, 3), (4, 5))
        mask = real(*lengths(draw, batch, time), width=time)
        cases.append({**in_order(sizes), "x": draw.normal(batch, time, sizes["d_model"]), "mask": mask})
    return cases


@hidden(encoder_decoder.decoder_layer)
def decoder_layer(draw: Draw) -> list[Case]:
    return [decoder_case(draw, building(draw, *split(draw), norm_first)) for norm_first in both_orders(draw)]


@hidden(encoder_decoder.decoder)
def decoder(draw: Draw) -> list[Case]:
    orders = zip(both_orders(draw), (2, 4))
    sizes = [building(draw, *split(draw), norm_first, num_layers=layers) for norm_first, layers in orders]
    return [decoder_case(draw, in_order(size)) for size in sizes]


def decoder_case(draw: Draw, sizes: dict[str, Any]) -> Case:
    batch, target, source = draw.sizes((2, 3), (4, 6), (4, 6))
    by_query = draw.mask(batch, target, source)
    return {
        **sizes,
        "x": draw.normal(batch, target, sizes["d_model"], scale=draw.choice([1, 2])),
        "memory": draw.normal(batch, source, sizes["d_model"]),
        # Only one of the two is causal: it is the mask that counts.
        "mask": partial_mask(draw, batch, target)
        if sizes["norm_first"]
        else seen_so_far(*lengths(draw, batch, target), width=target),
        "memory_mask": draw.choice([by_query, real(*lengths(draw, batch, source), width=source)]),
    }


def in_order(sizes: dict[str, Any]) -> dict[str, Any]:
    """In the order of the constructor's arguments."""
    names = ("d_model", "num_heads", "d_ff", "num_layers", "dropout", "norm_first")
    return {name: sizes[name] for name in names}
