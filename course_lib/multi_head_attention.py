"""Multi-head attention: several small attentions side by side, each with its own projections.

The projections come first, the split second: each head sees *all* features of a token, through its own slice of the
projection matrices. Heads are an axis like any other: `(batch, head, time, d_k)`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from course_lib.masks import masked_softmax


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Give each head its own block of neighbouring features.

    x: (batch, time, d_model); `num_heads` divides d_model.
    Returns: (batch, head, time, d_k) with d_k = d_model / num_heads. Head i holds features i·d_k to (i+1)·d_k - 1.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)  # (batch, time, head, d_k): cuts each token, moves nothing
    return x.transpose(1, 2)  # (batch, head, time, d_k)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads' results side by side again: the inverse of `split_heads`.

    x: (batch, head, time, d_k). Returns: (batch, time, head · d_k).
    """
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 2)  # (batch, time, head, d_k)
    return x.reshape(batch, time, num_heads * d_k)  # (batch, time, d_model)


def size_of_a_head(d_model: int, num_heads: int) -> int:
    """d_k = d_model / num_heads, or a clear error if it is not a whole number."""
    if num_heads < 1 or d_model % num_heads:
        raise ValueError(f"d_model = {d_model} cannot be divided evenly among num_heads = {num_heads}.")
    return d_model // num_heads


def multi_head_parameters(d_model: int, num_heads: int, bias: bool) -> int:
    """How many numbers multi-head attention learns: W_Q, W_K and W_V of every head, W_O, and their biases if wanted.

    Each head projects d_model features to d_k = d_model / num_heads, three times. W_O maps the heads' results, side
    by side, back to d_model features. With `bias`, each of these maps adds one learned number to each of its outputs.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k  # W_Q, W_K and W_V of one head
    output = num_heads * d_k * d_model  # W_O
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O, with head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i).

    The matrices of all heads are kept in one large one: head i owns outputs i·d_k to (i+1)·d_k - 1 of w_q, w_k, w_v.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """
        query: (batch, query, d_model); key and value: (batch, key, d_model).
        mask: (query, key) or (batch, query, key), True where attention is allowed; None allows everything.
        Returns: output (batch, query, d_model), weights (batch, head, query, key).
        """
        q, k, v = self.project(query, key, value)  # (batch, head, query or key, d_k) each
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)  # (batch, head, query, key)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v  # (batch, head, query, d_k)
        return self.w_o(merge_heads(heads)), weights

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of all heads: (batch, head, query or key, d_k) each."""
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        return q, k, v

    def share_out(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """The weights of each query over the keys it may see, which sum to 1: (batch, head, query, key)."""
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)  # (batch, 1, query, key) or (query, key)
        return masked_softmax(scores, mask)


def with_head_axis(mask: Tensor) -> Tensor:
    """A mask that broadcasts over the heads of (batch, head, query, key), with nothing copied.

    mask: (query, key), (batch, query, key), or already with a head axis: (batch, 1 or head, query, key).
    """
    if mask.dim() not in (2, 3, 4):
        raise ValueError(f"A mask is (query, key) or (batch, query, key), not {tuple(mask.shape)}.")
    if mask.dim() == 3:
        return mask.unsqueeze(1)  # (batch, 1, query, key)
    return mask


def multi_head_einsum(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
    """Multi-head self-attention of x with given matrices, without biases, masks or dropout.

    x: (batch, time, d_model); each matrix: (d_model, d_model), used as `x @ w`. Head i owns columns i·d_k to
    (i+1)·d_k - 1 of w_q, w_k, w_v, and the same rows of w_o. Returns: (batch, time, d_model).
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)  # (d_model, head, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)  # (head, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)  # (batch, head, query, key)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention in which several query heads share one head of keys and values.

    q: (batch, head, query, d_k); k: (batch, group, key, d_k); v: (batch, group, key, d_v); `group` divides `head`.
    Query head i reads group i // (head / group): neighbouring heads share.
    Returns: output (batch, head, query, d_v), weights (batch, head, query, key).
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups  # query heads in one group
    k = k.repeat_interleave(sharing, dim=1)  # (batch, head, key, d_k)
    v = v.repeat_interleave(sharing, dim=1)  # (batch, head, key, d_v)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (batch, head, query, key)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights
