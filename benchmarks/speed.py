"""Speed: the course's modules against those of torch.nn, of the same sizes, with the same input and masks.

The two take turns in one run. *Forward* is in training mode with the graph being recorded, *backward* is forward and
backward together. With weights, both return those of every head; without, as in every layer of a model, both use
torch's fused operator. Torch's fast path for inference (evaluation mode, no gradients) is not part of the comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.tables import Row, side_by_side
from course_lib.encoder_decoder import fused_attention
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.transformer import Transformer

LIMIT = 1.2
SIZES = [(64, 16, 128, 4), (16, 64, 256, 8), (4, 256, 512, 8)]  # batch, time, d_model, heads


def compare(what: str, ours: Callable[[], Tensor], theirs: Callable[[], Tensor], rounds: int) -> list[Row]:
    """Two rows: forward, and forward with backward."""

    def backward(forward: Callable[[], Tensor]) -> Callable[[], None]:
        return lambda: forward().pow(2).mean().backward()

    rows = []
    for name, pair in (("forward", [ours, theirs]), ("backward", [backward(ours), backward(theirs)])):
        mine, torchs = side_by_side(pair, rounds)
        measured = f"{1e3 * mine:.1f} / {1e3 * torchs:.1f} ms = {mine / torchs:.2f}×"
        rows.append(Row(f"{what}, {name}", measured, f"≤ {LIMIT}×", mine / torchs <= LIMIT))
    return rows


def attention_rows(batch: int, time: int, d_model: int, num_heads: int, weights: bool, rounds: int) -> list[Row]:
    ours = MultiHeadAttention(d_model, num_heads)
    theirs = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
    x = torch.randn(batch, time, d_model, requires_grad=True)
    allowed, hidden = causal_mask(time), ~causal_mask(time)

    def course() -> Tensor:
        return ours(x, x, x, allowed)[0] if weights else fused_attention(ours, x, x, x, allowed)

    return compare(
        f"attention {'with' if weights else 'without'} weights, {batch} × {time} × {d_model}",
        course,
        lambda: theirs(x, x, x, attn_mask=hidden, need_weights=weights, average_attn_weights=False)[0],
        rounds,
    )


def transformer_rows(batch: int, time: int, d_model: int, num_heads: int, rounds: int) -> list[Row]:
    """Both get the same ids: torch's stacks are put between our embeddings and our output layer."""
    d_ff, num_layers, vocab_size = 4 * d_model, 2, 1000
    ours = Transformer(vocab_size, vocab_size, d_model, num_heads, d_ff, num_layers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about nested tensors
        theirs = nn.Transformer(
            d_model, num_heads, num_layers, num_layers, d_ff, dropout=0.0, batch_first=True, norm_first=True
        )
    ids = torch.randint(1, vocab_size, (batch, time))
    ids[0, time // 2 :] = 0  # some padding
    hidden, future = ids == 0, ~causal_mask(time)

    def torchs() -> Tensor:
        source = ours.positions(ours.src_embedding(ids))
        target = ours.positions(ours.tgt_embedding(ids))
        result = theirs(
            source,
            target,
            tgt_mask=future,
            src_key_padding_mask=hidden,
            tgt_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
        )
        return ours.output(result)

    return compare(f"Transformer, {batch} × {time} × {d_model}", lambda: ours(ids, ids), torchs, rounds)


def run() -> list[Row]:
    torch.manual_seed(0)
    rows = []
    for weights in (False, True):
        for size in SIZES:
            rows += attention_rows(*size, weights, rounds=15)
    for size in SIZES:
        rows += transformer_rows(*size, rounds=7)
    return rows
