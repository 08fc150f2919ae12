"""Long sequences: naive, tiled and fused attention, one head of width 64, up to 8,192 positions.

All three give the same result. Extra memory is what the operating system had to add to the process for one forward
pass, beside the inputs; each measurement has a process of its own (Linux only). The targets are ratios at the greatest
length.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.tables import Row, at_least, side_by_side
from course_lib.dot_product_attention import scaled_dot_product_attention
from course_lib.long_sequences import tiled_attention

LENGTHS = [1024, 2048, 4096, 8192]
D_K, TILE = 64, 128
PROC = Path("/proc/self")


def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v)[0]


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return tiled_attention(q, k, v, TILE, causal=False)


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


WAYS = {"naive": naive, "tiled": tiled, "fused": fused}


def new_inputs(length: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 1, length, D_K, generator=generator) for _ in range(3)]  # (batch, head, time, d_k)


def extra_megabytes(way: Callable[[Tensor, Tensor, Tensor], Tensor], length: int) -> float:
    """How much more memory than before one call needs at most."""
    torch.set_num_threads(1)
    way(*new_inputs(16))  # libraries that are loaded at the first call
    inputs = new_inputs(length)
    (PROC / "clear_refs").write_text("5")  # resets the peak
    before = most_megabytes()
    way(*inputs)
    return most_megabytes() - before


def most_megabytes() -> float:
    """The most memory that this process has had."""
    (line,) = (line for line in (PROC / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def memory_of(way: Callable[[Tensor, Tensor, Tensor], Tensor], length: int) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(extra_megabytes, way, length).result()


def run() -> list[Row]:
    rows = []
    for length in LENGTHS:
        inputs = new_inputs(length)
        furthest = max((way(*inputs) - naive(*inputs)).abs().max().item() for way in WAYS.values())
        seconds = dict(zip(WAYS, side_by_side([partial(way, *inputs) for way in WAYS.values()], rounds=5)))
        megabytes = {name: memory_of(way, length) for name, way in WAYS.items()}
        measured = " / ".join(f"{seconds[name]:.3f} s, {megabytes[name]:.0f} MB" for name in WAYS)
        rows.append(Row(f"{length} positions: {' / '.join(WAYS)}", measured))
        rows.append(Row("… largest difference", f"{furthest:.0e}", "≤ 1e-05", furthest <= 1e-5))
    what = f"{LENGTHS[-1]} positions"
    return [
        *rows,
        at_least(f"{what}: memory, naive to tiled", megabytes["naive"] / megabytes["tiled"], 10, "×"),
        at_least(f"{what}: memory, naive to fused", megabytes["naive"] / megabytes["fused"], 20, "×"),
        at_least(f"{what}: time, naive to tiled", seconds["naive"] / seconds["tiled"], 1, "×"),
        at_least(f"{what}: time, naive to fused", seconds["naive"] / seconds["fused"], 1.5, "×"),
    ]
