"""Sub-layers: everything in a Transformer that is not attention.

There are five plain things, each of them a few lines: a table of word vectors, a small network applied to every
position in the same way, a normalisation, a residual connection around every sub-layer, and dropout.

All of them work on one position at a time, along the last axis: `(..., d_model)` in, `(..., d_model)` out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

# --- words become vectors -------------------------------------------------------------------------------


class TokenEmbedding(nn.Module):
    """A table with one row for each token, multiplied by √d_model.

    The rows start as N(0, 1/d_model): of length about 1, which suits the output layer that may share them. The factor
    √d_model brings each entry to size 1, so that the position vectors (entries up to 1) do not drown the words.
    The row of `pad_id` is zero and stays zero: it gets no gradient.
    """

    def __init__(self, vocab_size: int, d_model: int, pad_id: int = 0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model**-0.5)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time) whole numbers below vocab_size. Returns: (batch, time, d_model)."""
        rows = look_up(self.table, ids)  # (batch, time, d_model)
        return rows * self.scale


def look_up(table: nn.Embedding, ids: Tensor) -> Tensor:
    """The rows of the table with these numbers, or a clear error if there is no such row."""
    try:
        return table(ids)
    except IndexError:
        rows, largest, smallest = table.num_embeddings, int(ids.max()), int(ids.min())
        raise IndexError(
            f"The table has {rows} rows, 0 to {rows - 1}, but the ids go from {smallest} to {largest}. "
            "vocab_size counts the words of the vocabulary, special tokens included; it is not the sentence's length."
        ) from None


# --- one small network for every position ---------------------------------------------------------------


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2: widen, cut at zero, narrow again. Each position on its own."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., d_model). Returns: the same shape."""
        hidden = self.w_1(x)  # (..., d_ff)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)  # (..., d_model)


# --- normalisation --------------------------------------------------------------------------------------


class LayerNorm(nn.Module):
    """gain · (x - mean) / √(variance + eps) + bias, with the mean and variance of each position's own features.

    The variance is the biased one (divided by d_model, not by d_model - 1), and eps is inside the root.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., d_model). Returns: the same shape."""
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)  # (..., 1)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)  # (..., 1)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


class RMSNorm(nn.Module):
    """gain · x / √(mean of x² + eps): LayerNorm without the mean and without the bias."""

    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., d_model). Returns: the same shape."""
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)  # (..., 1)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


def check_width(x: Tensor, gain: Tensor) -> None:
    """A tensor with one feature would be broadcast silently; it gets a clear error instead."""
    if x.shape[-1] != len(gain):
        raise ValueError(f"This norm is for {len(gain)} features, but the last axis of x has length {x.shape[-1]}.")


def masked_batch_statistics(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What batch normalisation would need: mean and variance of each feature over all real positions of the batch.

    Padding must not be counted. That is the trouble: a sentence's numbers then depend on its neighbours in the batch.

    x: (batch, time, d_model); mask: (batch, time), True on real positions.
    Returns: mean (d_model,), variance (d_model,), the biased one (divided by the number of real positions).
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)  # (batch, time, 1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))  # (d_model,)
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)  # (batch, time, d_model)
    variance = centred.pow(2).sum(dim=(0, 1)) / count  # (d_model,)
    return mean, variance


def check_positions(x: Tensor, mask: Tensor) -> None:
    """A mask of truth values for each position of x, and not all of them False."""
    if mask.shape != x.shape[:-1] or mask.dtype != torch.bool:
        raise ValueError(
            f"The mask should hold True or False for each of the {tuple(x.shape[:-1])} positions of x, "
            f"but it is {mask.dtype} of shape {tuple(mask.shape)}."
        )
    if not mask.any():
        raise ValueError("There is no real position in this batch: the mask is False everywhere.")


# --- the residual connection ----------------------------------------------------------------------------------


def residual_post_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """norm(x + sublayer(x)), as in the paper: the path around the sub-layers runs through every norm.

    x: (..., d_model); sublayer and norm keep the shape. Returns: the same shape.
    """
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update)


def residual_pre_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """x + sublayer(norm(x)): the path from the first layer to the last is never touched.

    x: (..., d_model); sublayer and norm keep the shape. Returns: the same shape.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update


def check_shape_is_kept(x: Tensor, update: Tensor) -> None:
    """What is added to x must look like x: broadcasting would hide a sub-layer that went wrong."""
    if update.shape != x.shape:
        raise ValueError(
            f"A residual connection needs a sub-layer that keeps the shape: {tuple(x.shape)} went in, "
            f"{tuple(update.shape)} came out."
        )
