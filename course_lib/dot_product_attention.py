"""Dot-product attention: a look-up in which every entry answers, each in proportion to how well it fits.

Three words run through everything here. A **query** is what somebody is looking for, a **key** is the label on an
entry, a **value** is the content of that entry. A query is compared with all keys by the dot product, a softmax turns
the scores into weights that sum to 1, and the answer is the average of the values with these weights.

The functions go from one query to many, from no parameters to three matrices, in the order in which the notebook
builds them. Every query sees every key, and there is only one head: masks and more heads come later.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def soft_lookup(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The average of all values, each weighted by how well its key fits the query.

    query: (d,); keys: (m, d); values: (m, d_v), row j belongs to key j.
    Returns: (d_v,).
    """
    scores = keys @ query  # (m,)
    weights = scores.softmax(dim=0)  # (m,), they sum to 1
    result = weights @ values  # (d_v,)
    return result


def self_attention(x: Tensor) -> Tensor:
    """Every vector of a sequence looks up every vector of the sequence, itself included. No parameters, no scale.

    x: (time, d).
    Returns: (time, d), row i is the sum over j of w_ij x_j, where w_i = softmax over j of x_i · x_j.
    """
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])  # (time,)
        weights = scores.softmax(dim=0)  # (time,)
        output = torch.zeros_like(x[i])  # (d,)
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)  # (time, d)


def batched_self_attention(x: Tensor) -> Tensor:
    """`self_attention` of every sequence in a batch: two matrix products and a softmax instead of three loops.

    x: (batch, time, d).
    Returns: (batch, time, d).
    """
    scores = x @ x.transpose(1, 2)  # (batch, time, time), [b, i, j] is x_i · x_j of sequence b
    weights = scores.softmax(dim=2)  # (batch, time, time), every row sums to 1
    output = weights @ x  # (batch, time, d)
    return output


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """How well does each query fit each key? Their dot product, divided by √d_k.

    The dot product of two random vectors has a standard deviation of √d_k. Divided by it, the scores have a standard
    deviation of 1 whatever the width, and the softmax that follows does not saturate.

    q: (..., n, d_k); k: (..., m, d_k).
    Returns: (..., n, m).
    """
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)  # (..., n, m)
    scores = products / math.sqrt(d_k)
    return scores


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, and the weights it was made with.

    q: (..., n, d_k); k: (..., m, d_k); v: (..., m, d_v).
    Returns: output (..., n, d_v), weights (..., n, m).
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)  # (..., n, m)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)  # (..., n, m), every row sums to 1
    output = weights @ v  # (..., n, d_v)
    return output, weights


def project_qkv(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Three views of the same vectors, one for each of their roles.

    x: (..., time, d_in); w_q: (d_in, d_k); w_k: (d_in, d_k); w_v: (d_in, d_v).
    Returns: q (..., time, d_k), k (..., time, d_k), v (..., time, d_v).
    """
    q = x @ w_q  # (..., time, d_k)
    k = x @ w_k  # (..., time, d_k)
    v = x @ w_v  # (..., time, d_v)
    return q, k, v


def attention_cost(n: int, d: int) -> tuple[int, int]:
    """How many multiplications of two numbers one attention layer needs, for n tokens of width d.

    Only the matrix products are counted, with one head of width d_k = d_v = d: first the four projections (queries,
    keys, values, output), then the scores and the weighted sum.

    Returns: (projections, attention), two whole numbers.
    """
    if n < 0 or d < 0:
        raise ValueError(f"There are no {n} tokens of width {d}: both have to be 0 or more.")
    projection = n * d * d  # (n, d) @ (d, d)
    scores = n * n * d  # (n, d) @ (d, n)
    weighted_sum = n * n * d  # (n, n) @ (n, d)
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention
