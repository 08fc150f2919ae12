"""Encoder and decoder: attention and feed-forward networks, stacked.

    encoder layer   self-attention → feed-forward
    decoder layer   masked self-attention → cross-attention to the encoder's output → feed-forward

Each sub-layer has a residual path and a norm, which can be in two places:

    post-norm (`norm_first=False`)   x = norm(x + sublayer(x))    the paper
    pre-norm  (`norm_first=True`)    x = x + sublayer(norm(x))    GPT-2, Llama and most large language models

In pre-norm mode nothing has normalised the sum that leaves the last layer, so each stack ends with one more norm. In
post-norm mode the last layer has just done it, and there is none, as in the paper. (`nn.Transformer` has one in both.)

Masks are True where attention is allowed and broadcast to `(batch, query, key)`. Dropout sits where the paper has it,
on each sub-layer's output before it is added, and, as in torch, on the attention weights and the hidden layer too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.multi_head_attention import MultiHeadAttention, merge_heads, split_heads, with_head_axis
from course_lib.sublayers import FeedForward, LayerNorm, residual_post_norm, residual_pre_norm

# --- attention inside a model ---------------------------------------------------------------------------


def fused_attention(
    attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """The output of `attention(query, key, value, mask)` without its weights: the same numbers, faster.

    Inside a model nobody looks at the weights, and torch's fused operator never stores them.

    query: (batch, query, d_model); key and value: (batch, key, d_model). Returns: (batch, query, d_model).
    """
    q = split_heads(attention.w_q(query), attention.num_heads)  # (batch, head, query, d_k)
    k = split_heads(attention.w_k(key), attention.num_heads)  # (batch, head, key, d_k)
    v = split_heads(attention.w_v(value), attention.num_heads)
    if k.shape[2] != v.shape[2]:  # the fused operator would read beyond the end of the shorter one
        raise ValueError(f"There are {k.shape[2]} keys and {v.shape[2]} values: each key needs one value.")
    if mask is not None:
        mask = with_head_axis(mask)  # (batch, 1, query, key)
    dropout = attention.dropout.p if attention.training else 0.0
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)  # (batch, head, query, d_k)
    return attention.w_o(merge_heads(heads))


# --- encoder --------------------------------------------------------------------------------------------


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual path and a norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (batch, time, d_model); mask: (batch, 1 or time, time). Returns: the shape of x."""
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x

    def attend(self, h: Tensor, mask: Tensor | None) -> Tensor:
        """The first sub-layer: every position attends to those that the mask allows."""
        output = fused_attention(self.attention, h, h, h, mask)
        return self.dropout(output)

    def transform(self, h: Tensor) -> Tensor:
        """The second sub-layer: each position by itself."""
        return self.dropout(self.feed_forward(h))

    def residual(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
        """A sub-layer with its residual path, and the norm before it or after the sum."""
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return residual_post_norm(x, sublayer, norm)


class Encoder(nn.Module):
    """A stack of encoder layers, each with its own weights."""

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, num_layers: int, dropout: float = 0.0, norm_first: bool = True
    ):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (batch, time, d_model); mask: (batch, 1 or time, time). Returns: the shape of x."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


# --- decoder --------------------------------------------------------------------------------------------


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the source, and a feed-forward network."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.norm_3 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """
        x: (batch, target, d_model); memory: (batch, source, d_model), the encoder's output. No norm here touches it.
        mask: (batch, target, target); memory_mask: (batch, 1 or target, source). Returns: the shape of x.
        """
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_targets(self, h: Tensor, mask: Tensor | None) -> Tensor:
        """The first sub-layer: the targets attend to each other."""
        output = fused_attention(self.self_attention, h, h, h, mask)
        return self.dropout(output)

    def attend_to_source(self, h: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        """The second sub-layer: queries from the targets, keys and values from the source."""
        output = fused_attention(self.cross_attention, h, memory, memory, memory_mask)
        return self.dropout(output)

    def transform(self, h: Tensor) -> Tensor:
        """The third sub-layer: each position by itself."""
        return self.dropout(self.feed_forward(h))

    def residual(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
        """A sub-layer with its residual path, and the norm before it or after the sum."""
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return residual_post_norm(x, sublayer, norm)


class Decoder(nn.Module):
    """A stack of decoder layers. All of them read the same memory: the output of the *last* encoder layer."""

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, num_layers: int, dropout: float = 0.0, norm_first: bool = True
    ):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """
        x: (batch, target, d_model); memory: (batch, source, d_model).
        mask: (batch, target, target); memory_mask: (batch, 1 or target, source). Returns: the shape of x.
        """
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


# --- bad input ------------------------------------------------------------------------------------------


def require_layers(num_layers: int) -> None:
    """A stack without layers would silently return its input."""
    if num_layers < 1:
        raise ValueError(f"A stack needs at least one layer, but num_layers = {num_layers}.")


def require_partners(x: Tensor, memory: Tensor) -> None:
    """Each target sentence needs the memory of its own source sentence, with as many features."""
    if x.shape[0] != memory.shape[0] or x.shape[-1] != memory.shape[-1]:
        raise ValueError(
            f"x {tuple(x.shape)} and memory {tuple(memory.shape)} do not belong together: they need the same number "
            "of sentences (first axis) and of features (last axis). Only their lengths may differ."
        )
