"""A small causal model that learns about positions in one of five ways. Notebook 3 trains it to compare them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.masks import causal_mask
from course_lib.positions import LearnedPositions, PositionalEncoding, alibi_bias, apply_rope

SCHEMES = ("none", "sinusoidal", "learned", "RoPE", "ALiBi")


class PositionModel(nn.Module):
    """Predicts the next symbol. `scheme`, one of SCHEMES, says how it learns about positions."""

    def __init__(
        self,
        scheme: str,
        num_symbols: int = 8,
        d_model: int = 32,
        num_heads: int = 4,
        layers: int = 2,
        longest: int = 256,
    ):
        super().__init__()
        if scheme not in SCHEMES:
            raise ValueError(f"There is no scheme {scheme!r}. There are: {', '.join(SCHEMES)}.")
        self.scheme, self.num_heads = scheme, num_heads
        self.embedding, self.out = nn.Embedding(num_symbols, d_model), nn.Linear(d_model, num_symbols)
        self.add_positions: nn.Module = nn.Identity()
        if scheme == "sinusoidal":
            self.add_positions = PositionalEncoding(d_model, longest)
        if scheme == "learned":
            self.add_positions = LearnedPositions(longest, d_model)
        self.qkv = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(layers))
        self.think = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(d_model), nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model)
            )
            for _ in range(layers)
        )

    def forward(self, symbols: Tensor) -> Tensor:
        """symbols: (batch, time). Returns: logits (batch, time, num_symbols)."""
        x = self.add_positions(self.embedding(symbols))  # (batch, time, d_model)
        bias = self.bias(x.shape[1]).to(x.device)
        for qkv, mix, think in zip(self.qkv, self.mix, self.think, strict=True):
            q, k, v = self.split_heads(qkv(F.layer_norm(x, x.shape[-1:])))
            if self.scheme == "RoPE":
                positions = torch.arange(x.shape[1], device=x.device)
                q, k = apply_rope(q, positions), apply_rope(k, positions)
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)  # (batch, head, time, d_k)
            x = x + mix(attended.transpose(1, 2).flatten(start_dim=2))
            x = x + think(x)
        return self.out(F.layer_norm(x, x.shape[-1:]))

    def bias(self, n: int) -> Tensor:
        """What is added to the scores: (n, n), or (head, n, n) with ALiBi. The future is hidden."""
        bias = torch.zeros(n, n).masked_fill(~causal_mask(n), -math.inf)
        return bias + alibi_bias(self.num_heads, n) if self.scheme == "ALiBi" else bias

    def split_heads(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """qkv: (batch, time, 3 * d_model). Returns: q, k and v, each (batch, head, time, d_k)."""
        return qkv.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind()
