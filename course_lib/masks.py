"""Masks: who may look at whom.

A mask is boolean and **True where attention is allowed**, as in torch's `scaled_dot_product_attention`.
Its last axis runs over the keys, the one before over the queries: `mask[..., i, j]` answers "may i look at j?".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def causal_mask(n: int) -> Tensor:
    """May position i look at position j? Only if j is not in the future.

    Returns: (n, n) boolean, `mask[i, j]` is True where j <= i.
    """
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0)  # (query, key)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis, in which only the allowed keys take part.

    scores: (..., query, key); mask: broadcastable to it, True where allowed.
    Returns: (..., query, key). A hidden key gets weight 0. A row in which nothing is allowed is all 0.
    """
    scores = scores.masked_fill(~mask.bool(), -math.inf)  # (..., query, key)
    weights = scores.softmax(dim=-1)
    nothing_allowed = ~mask.bool().any(dim=-1, keepdim=True)  # (..., query, 1)
    return weights.masked_fill(nothing_allowed, 0.0)


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in which each query sees only the keys its row of the mask allows.

    q: (..., query, d_k); k: (..., key, d_k); v: (..., key, d_v); mask: broadcastable to (..., query, key).
    Returns: output (..., query, d_v), weights (..., query, key).
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (..., query, key)
    weights = masked_softmax(scores, mask)  # (..., query, key)
    return weights @ v, weights
