"""Positions: telling attention where a token stands.

Attention sees a set of vectors, not a sequence. Order has to be put in, and there are three places for it:

- add a vector to each token: `sinusoidal_encoding` (a fixed formula) or `LearnedPositions` (a table that is trained);
- turn queries and keys by an angle that grows with the position: `apply_rope`;
- lower the score of keys that are far away: `alibi_bias`.

Tables are *interleaved*, as in the paper: columns 2i and 2i+1 are the sine and the cosine of one frequency. The pair
with index i has the frequency 10000^(-2i/d_model): 1 radian per step for the first pair, slower and slower after it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# --- a fixed table --------------------------------------------------------------------------------------


def sinusoidal_encoding(n: int, d_model: int) -> Tensor:
    """The fixed position vectors of the Transformer paper, one row per position, counted from 0.

    Returns: (n, d_model), `table[pos, 2i] = sin(pos / 10000^(2i/d_model))`, `table[pos, 2i+1]` its cosine.
    If d_model is odd, the last column is a sine without its cosine.
    """
    if n < 0 or d_model < 1:
        raise ValueError(f"There is no table with {n} positions and {d_model} columns.")
    positions = torch.arange(0, n)  # (n,)
    columns = torch.arange(0, d_model)  # (d_model,)
    pairs = columns // 2  # 0, 0, 1, 1, 2, 2, …: two columns share one frequency
    frequencies = 10000.0 ** (-2 * pairs / d_model)  # (d_model,)
    angles = positions[:, None] * frequencies[None, :]  # (n, d_model)
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


def concatenated_encoding(n: int, d_model: int) -> Tensor:
    """The table of the tensor2tensor library, which differs from the paper in two ways.

    All sines are in the first half of the columns and all cosines in the second, and the slowest pair has exactly
    the frequency 1/10000: the exponent is i / (d_model/2 - 1).

    Returns: (n, d_model), for an even d_model.
    """
    if d_model % 2:
        raise ValueError(f"d_model = {d_model} is odd: sines and cosines cannot have half the columns each.")
    half = d_model // 2
    frequencies = 10000.0 ** (-torch.arange(half) / max(half - 1, 1))  # (d_model/2,)
    angles = torch.arange(n)[:, None] * frequencies  # (n, d_model/2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class PositionalEncoding(nn.Module):
    """Adds the sinusoidal table to a batch of sequences. There is nothing to train in it.

    The table is computed once, for `max_len` positions. It is a buffer: it follows the module to another device,
    and no optimiser ever sees it. It is not saved with the weights, since a formula can be computed again.
    """

    table: Tensor

    def __init__(self, d_model: int, max_len: int = 5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)  # (max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, d_model). Returns: the same shape and dtype, position vectors added."""
        n = x.shape[1]
        if n > len(self.table):
            raise ValueError(f"The input has {n} positions, but the table has only {len(self.table)}: raise max_len.")
        rows = self.table[:n]  # (time, d_model)
        return x + rows.to(x.dtype)


def shift_matrix(k: int, d_model: int) -> Tensor:
    """The matrix that moves a position vector by k steps, wherever it stands: PE(pos + k) = M @ PE(pos).

    Each pair (sine, cosine) is turned by k times its own frequency; pairs do not mix.

    Returns: (d_model, d_model), for an even d_model.
    """
    if d_model % 2:
        raise ValueError(f"d_model = {d_model} is odd: the last sine has no cosine to turn with.")
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1  # the rows and columns of this pair's sine and cosine
        matrix[s, s] = math.cos(angle)  # sin(a + angle) = cos(angle) sin(a) + sin(angle) cos(a)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)  # cos(a + angle) = -sin(angle) sin(a) + cos(angle) cos(a)
        matrix[c, c] = math.cos(angle)
    return matrix


# --- a table that is trained ----------------------------------------------------------------------------


class LearnedPositions(nn.Module):
    """Adds one trained vector per position. Positions from `max_len` on have none."""

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, d_model). Returns: the same shape, row t of the table added at position t."""
        n = x.shape[1]
        if n > self.table.num_embeddings:
            raise ValueError(f"The input has {n} positions, but only {self.table.num_embeddings} have a vector.")
        positions = torch.arange(0, n, device=x.device)  # (time,)
        rows = self.table(positions)  # (time, d_model)
        return x + rows


# --- positions inside attention -------------------------------------------------------------------------


def apply_rope(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions: turn each pair of features by its position times the pair's frequency.

    If queries and keys are both turned, q·k depends on the distance between the two positions, not on where they are.
    The pairs are the features (0, 1), (2, 3), …; pair i has the frequency 10000^(-2i/d).

    x: (..., time, d) with an even d; positions: (time,), any numbers.
    Returns: (..., time, d), of the dtype of x.
    """
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"The last axis has {d} features; pairs need an even number.")
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)  # (d/2,)
    angles = positions[:, None] * frequencies[None, :]  # (time, d/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]  # (..., time, d/2): the two features of each pair
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)  # (..., time, d/2, 2)
    return turned.flatten(start_dim=-2)


def alibi_bias(num_heads: int, n: int) -> Tensor:
    """A penalty on distance, to be added to the scores before the softmax: -slope × (i - j), one slope per head.

    With p the largest power of two that is at most num_heads, the first p slopes are 2^(-8s/p) for s = 1, 2, …, p.
    Heads beyond p take every second slope of the series for 2p heads: 2^(-4s/p) for s = 1, 3, 5, ….

    Returns: (num_heads, n, n), bias[head, i, j] for query i and key j. (The causal mask hides j > i; there the penalty
    is -slope × (j - i).)
    """
    if num_heads < 1:
        raise ValueError("Attention needs at least one head.")
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)  # (num_heads,)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()  # (query, key)
    return -slopes[:, None, None] * distance  # (head, query, key)
