"""Start here: four small tools that the rest of the course relies on.

A batch is a tensor `(batch, time, feature)`: several examples, each with several steps, each step a vector.
Nothing here loops over examples where a broadcast or a batched product does the same in one step.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def softmax(x: Tensor, dim: int) -> Tensor:
    """Turn the numbers along `dim` into shares: positive, and 1 in total.

    x: any shape, floating point. Returns: the same shape; along `dim` it is exp(x) / sum of exp(x).

    The largest number is subtracted first. That changes no share, since numerator and denominator shrink by the same
    factor, but now the largest exponent is exp(0) = 1, and nothing overflows.
    """
    largest = x.max(dim=dim, keepdim=True).values  # as x, with length 1 along dim
    exponentials = torch.exp(x - largest)
    total = exponentials.sum(dim=dim, keepdim=True)  # as x, with length 1 along dim
    return exponentials / total


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """How far is each point of `a` from each point of `b`?

    a: (batch, n, d); b: (batch, m, d).
    Returns: (batch, n, m); entry [s, i, j] is the sum over f of (a[s, i, f] - b[s, j, f])².
    """
    left = a.unsqueeze(2)  # (batch, n, 1, d)
    right = b.unsqueeze(1)  # (batch, 1, m, d)
    differences = left - right  # (batch, n, m, d)
    return differences.pow(2).sum(dim=3)  # (batch, n, m)


def batch_matmul(a: Tensor, b: Tensor) -> Tensor:
    """One matrix product for each example of the batch.

    a: (batch, n, d); b: (batch, d, m). Returns: (batch, n, m); example s is a[s] @ b[s].
    """
    return a @ b  # (batch, n, m), as torch.bmm(a, b)


def pad_batch(sequences: Sequence[Tensor], pad_id: int, max_len: int | None = None) -> tuple[Tensor, Tensor]:
    """Put sequences of different lengths into one rectangle.

    sequences: 1-D integer tensors. pad_id fills the unused places at the end of a row.
    The rectangle is as wide as the longest sequence, or exactly `max_len` wide if that is given: longer sequences
    lose their end, and shorter ones are padded up to it even if none is that long.
    Returns: batch (batch, width) of integers, lengths (batch,): how many entries of each row are real.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)  # (batch, width)
    lengths = torch.zeros(len(sequences), dtype=torch.long)  # (batch,)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths
