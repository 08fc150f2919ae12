"""Cache: greedy decoding with and without remembered keys and values.

A Transformer of 2 + 2 layers and d_model 256 writes one sentence of a given length, both ways, with the same tokens.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.tables import Row, side_by_side
from course_lib.decoding import generate
from course_lib.transformer import Transformer

LENGTHS = [32, 64, 128, 256, 512]
NEVER = -1  # an EOS that no model can choose: every sentence gets its full length


def run() -> list[Row]:
    torch.manual_seed(0)
    model = Transformer(100, 100, d_model=256, num_heads=8, d_ff=1024, num_layers=2)
    source = torch.randint(3, 100, (1, 16))
    rows, ratios = [], []
    for length in LENGTHS:
        tokens: dict[bool, Tensor] = {}

        def write(use_cache: bool, length: int = length, tokens: dict[bool, Tensor] = tokens) -> None:
            tokens[use_cache] = generate(model, source, 1, NEVER, length, use_cache)

        with_cache, without = side_by_side([partial(write, True), partial(write, False)], rounds=3)
        assert torch.equal(tokens[True], tokens[False])
        ratios.append(without / with_cache)
        rows.append(Row(f"{length} tokens", f"{without:.2f} s without, {with_cache:.2f} s with: {ratios[-1]:.1f}×"))
    rows.append(Row(f"ratio at {LENGTHS[-1]} tokens", f"{ratios[-1]:.1f}×", "≥ 6×", ratios[-1] >= 6))
    rows.append(
        Row("ratio grows with the length", "yes" if ratios == sorted(ratios) else "no", "yes", ratios == sorted(ratios))
    )
    return rows
