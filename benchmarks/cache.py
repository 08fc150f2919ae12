"""Cache: greedy decoding with and without cached keys and values.

A Transformer of 2 + 2 layers writes one sentence of a given length, both ways, with the same tokens. The gain depends
on the model's size: the smaller it is, the more of each step is the cost of calling an operator at all, which no cache
saves. Two sizes show the difference; the target is the same for both.
"""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.tables import Row, side_by_side
from course_lib.decoding import generate
from course_lib.transformer import Transformer

LENGTHS = [32, 64, 128, 256, 512]
NEVER = -1  # an EOS that no model can choose: every sentence gets its full length


def ratios(d_model: int) -> tuple[list[Row], list[float]]:
    """One row for each length, and how many times faster the cache made it."""
    torch.manual_seed(0)
    model = Transformer(100, 100, d_model, num_heads=d_model // 32, d_ff=4 * d_model, num_layers=2)
    source = torch.randint(3, 100, (1, 16))
    rows, found = [], []
    for length in LENGTHS:
        write = partial(generate, model, source, 1, NEVER, length)
        assert torch.equal(write(use_cache=True), write(use_cache=False))
        actions = [partial(write, use_cache=True), partial(write, use_cache=False)]
        with_cache, without = side_by_side(actions, rounds=3)
        found.append(without / with_cache)
        measured = f"{without:.2f} s without, {with_cache:.2f} s with: {found[-1]:.1f}×"
        rows.append(Row(f"d_model {d_model}, {length} tokens", measured))
    return rows, found


def run() -> list[Row]:
    rows = []
    for d_model in (128, 256):
        measured, found = ratios(d_model)
        grows = found == sorted(found)
        rows += [
            *measured,
            Row(f"d_model {d_model}: ratio at {LENGTHS[-1]} tokens", f"{found[-1]:.1f}×", "≥ 6×", found[-1] >= 6),
            Row(f"d_model {d_model}: ratio grows with the length", "yes" if grows else "no", "yes", grows),
        ]
    return rows
