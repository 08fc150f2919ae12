"""Long sequences: where the n² of attention goes, how to get by without it, and what cheaper forms give up.

The scores of n queries and n keys fill an n × n matrix (`attention_memory`). It need not exist as a whole: a softmax
can be computed piece by piece (`online_softmax`), and so can attention (`tiled_attention`), with the same result.
Cheaper but different are masks that leave out most pairs (`strided_mask`), attention without a softmax
(`linear_attention`), and a memory of the segments before (`segment_memory`). Two more save memory elsewhere: a
`BlockTable` where keys and values are kept, and `checkpointed` where activations are kept for the backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# --- what it costs --------------------------------------------------------------------------------------


def attention_memory(batch: int, num_heads: int, length: int, copies: int, bytes_per_number: int) -> int:
    """How many bytes the score matrices of one attention layer take.

    Every head of every sequence has one score for each pair of a query and a key. `copies`: how many matrices of this
    size are kept, for example the scores, the weights, and the gradient of each.
    """
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number


# --- exact, piece by piece ------------------------------------------------------------------------------


def online_softmax(chunks: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """What the softmax of a long row needs to know, from one pass over its pieces.

    chunks: the scores in pieces along the last axis, (…, c) each, where c may differ. A score may be -inf, and so may
    a whole chunk, but not a whole row. Returns: the maximum m of each row, and the sum s of exp(score - m) over the
    row, (…) each. So exp(score - m) / s is the softmax.
    """
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)  # not -inf: (-inf) - (-inf) is NaN
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)  # the old sum, as seen from the new maximum
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, tile: int, causal: bool) -> Tensor:
    """softmax(q kᵀ / √d_k) v, with `tile` keys at a time: no tensor with all scores is ever made.

    q: (…, n_q, d_k); k: (…, n_k, d_k); v: (…, n_k, d_v); the last tile may be shorter.
    causal: query i attends to keys 0 to i only (then n_q = n_k). Returns: (…, n_q, d_v).
    """
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]  # (n_q, 1)
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)  # (…, n_q, 1)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (…, n_q, d_v): the weighted sum so far, not yet divided
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]  # (…, tile, d_k)
        v_tile = v[..., start : start + tile, :]  # (…, tile, d_v)
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (…, n_q, tile)
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)  # (tile,)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)  # (…, n_q, tile)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


# --- cheaper and different ------------------------------------------------------------------------------


def strided_mask(length: int, stride: int) -> Tensor:
    """Which keys a query may see: the last `stride` positions, its own included, and before them every stride-th one.

    That is, query i sees key j ≤ i if i - j is less than `stride` or a multiple of it.

    Returns: (length, length), True where attention is allowed.
    """
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]  # (query, key)
    near = distance < stride
    far = distance % stride == 0
    return (distance >= 0) & (near | far)


def linear_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Attention without a softmax: the weight of key j for query i is proportional to φ(q_i) · φ(k_j).

    φ(x) = elu(x) + 1 is positive; the weights of a query are divided by their sum, and no score is scaled.
    causal: query i attends to keys 0 to i only, by a running sum over the positions (then n_q = n_k).

    q: (…, n_q, d_k); k: (…, n_k, d_k); v: (…, n_k, d_v). Returns: (…, n_q, d_v).
    """
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v  # (…, d_k, d_v)
        total = k.sum(dim=-2)  # (…, d_k)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])  # (…, d_k, d_v)
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])  # (…, d_k)
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]  # (…, 1, d_k)
        outputs += [(query @ state) / (query @ total[..., None])]  # (…, 1, d_v)
    return torch.cat(outputs, dim=-2)


# --- further back ---------------------------------------------------------------------------------------


def segment_memory(
    segment: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, keep: int
) -> tuple[Tensor, Tensor]:
    """Causal attention of one segment of a long text, which also sees what was kept of the segments before.

    Queries come from the segment; keys and values from the memory and the segment, in this order. Position i of the
    segment sees the whole memory and positions 0 to i of the segment. Scores are divided by √d_k. No gradient flows
    into the memory, nor out of the memory that is returned.

    segment: (batch, n, d_model); memory: (batch, m, d_model), m may be 0; w_q, w_k: (d_model, d_k);
    w_v: (d_model, d_v). Returns: output (batch, n, d_v), and the new memory: the last `keep` vectors of memory and
    segment together (all of them if there are fewer; keep ≥ 1).
    """
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)  # (batch, m + n, d_model)
    q = segment @ w_q  # (batch, n, d_k)
    k = context @ w_k  # (batch, m + n, d_k)
    v = context @ w_v  # (batch, m + n, d_v)
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)  # the place of each query in the context
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (batch, n, m + n)
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v  # (batch, n, d_v)
    return output, context[:, -keep:].detach()


# --- serving: keys and values in blocks -----------------------------------------------------------------


class BlockTable:
    """Where the keys and values of each sequence lie, in a memory of `num_blocks` blocks with `block_size` places each.

    A sequence gets its blocks one at a time, when its last one is full, and they may lie anywhere. Of the free blocks,
    the one with the smallest number is taken. Blocks and places in a block are counted from 0.
    """

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.free_blocks = set(range(num_blocks))
        self.blocks: dict[str, list[int]] = {}  # of each sequence, in the order of its tokens
        self.lengths: dict[str, int] = {}  # of each sequence, in tokens

    def append(self, sequence: str) -> tuple[int, int]:
        """Make room for the next token of a sequence. A name that is not known yet begins a new sequence.

        Returns: (block, offset), where its key and value go. Raises MemoryError if it needs a block and none is free;
        then nothing has changed.
        """
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)

    def lookup(self, sequence: str, position: int) -> tuple[int, int]:
        """(block, offset) of the token at this position of a sequence, for a position that has been appended."""
        block = self.blocks[sequence][position // self.block_size]
        return block, position % self.block_size

    def free(self, sequence: str) -> None:
        """The sequence has ended: all of its blocks are free again, and its name is not known any more."""
        self.free_blocks.update(self.blocks.pop(sequence))
        del self.lengths[sequence]


# --- training: compute twice, keep less -----------------------------------------------------------------


def checkpointed(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """function(x), with nothing but x kept for the backward pass: there the function is computed a second time.

    The function is called once here, and once more in the backward pass. The gradients of x, and of all parameters
    that the function uses, are those of function(x).

    x: a tensor that requires gradients. Returns: what the function returns, a tensor.
    """

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:  # torch records no gradients in here
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx: Any, slope: Tensor) -> Tensor | None:
            """slope: the gradient of the loss with respect to the result. Returns: that with respect to x."""
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)  # fills .grad of the parameters, and of x
            return x.grad

    return Recompute.apply(x)
