"""Inputs for cases: the same on every machine, unsaturated, with negative numbers, in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normally distributed numbers, float64, rounded to two digits so that they can be printed and retyped."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).round(decimals=2)


def random_mask(*shape: int, seed: int = 0, share: float = 0.6) -> Tensor:
    """A boolean mask with about this share of True, at least one True in every row, and never symmetric by luck."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(*shape, generator=generator) < share
    mask[..., 0] |= ~mask.any(dim=-1)
    return mask


# --- functions as arguments: plain data that can be called, so that they can be sent to another process ----------


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x ↦ x W + b, for exercises that take a sub-layer."""

    weight: Tensor  # (d_in, d_out)
    bias: Tensor  # (d_out,)

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias

    def __repr__(self) -> str:
        return f"an affine map of {self.weight.shape[0]} features"


@dataclass(frozen=True, eq=False)
class RowNorm:
    """Layer normalisation with this gain and bias, for exercises that take a norm. Its eps is large, so that it shows
    by what its input was multiplied.
    """

    gain: Tensor  # (d_model,)
    bias: Tensor  # (d_model,)
    eps: float = 0.3

    def __call__(self, x: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)

    def __repr__(self) -> str:
        return f"a layer norm of {len(self.gain)} features"


@dataclass(frozen=True, eq=False)
class MixingModel:
    """ids (batch, time) ↦ (batch, time', features): each feature of output i is a weighted sum over the inputs'
    vectors.
    """

    table: Tensor  # (vocab_size, features)
    weights: Tensor  # (time', time, features)

    def __call__(self, ids: Tensor) -> Tensor:
        require_batch(ids, len(self.table))
        return torch.einsum("ijf,bjf->bif", self.weights, self.table[ids])

    def __repr__(self) -> str:
        return f"a model with {self.weights.shape[0]} outputs for {self.weights.shape[1]} inputs"


@dataclass(frozen=True, eq=False)
class AttentionModel:
    """ids (batch, time) ↦ (batch, time, features): one attention with this mask, and a residual path."""

    table: Tensor  # (vocab_size, features)
    mask: Tensor  # (time, time), True where attention is allowed

    def __call__(self, ids: Tensor) -> Tensor:
        require_batch(ids, len(self.table))
        x = self.table[ids]  # (batch, time, features)
        scores = (x @ x.transpose(-2, -1)).masked_fill(~self.mask, -torch.inf)
        return x + scores.softmax(dim=-1) @ x

    def __repr__(self) -> str:
        return f"an attention over {len(self.mask)} tokens"


def require_batch(ids: Tensor, vocab_size: int) -> None:
    """Raise unless ids are a batch of token numbers."""
    if not isinstance(ids, Tensor) or ids.dim() != 2:
        raise ValueError("The model takes a batch of ids: (batch, time).")
    if ids.is_floating_point() or ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(f"The model takes whole numbers from 0 to {vocab_size - 1}.")


@dataclass(frozen=True, eq=False)
class NextTokenTable:
    """A model for decoding that is nothing but numbers: what it says about the next token depends on the tokens so far.

    The logits after a prefix are start + table[0, last token] + table[1, last but one] + …, as far as the table goes.

    start: (rows, vocab), one row for each sentence, or (1, vocab) for any number; table: (age, vocab, vocab).
    """

    start: Tensor
    table: Tensor

    def __call__(self, ids: Tensor) -> Tensor:
        """ids: (rows, time). Returns: logits (rows, vocab)."""
        if ids.dim() != 2:
            raise ValueError(f"The model wants prefixes of shape (rows, time), not {tuple(ids.shape)}.")
        if len(self.start) not in (1, len(ids)):
            raise ValueError(
                f"The model was made for {len(self.start)} sentences, but it was given {len(ids)} prefixes."
            )
        logits = self.start.expand(len(ids), -1)  # (rows, vocab)
        for age in range(min(len(self.table), ids.shape[1])):
            logits = logits + self.table[age, ids[:, -1 - age]]
        return logits

    def __repr__(self) -> str:
        return f"a model with {self.start.shape[-1]} tokens"


@dataclass(frozen=True, eq=False)
class CausalTable:
    """A language model that is nothing but numbers: ids (batch, time) ↦ logits (batch, time, vocab).

    Where a module is promised, people ask it for its mode or its device before they use it, so it knows these too.
    The logits at a position are start + table[0, token there] + table[1, token before] + …, as far as the table goes.
    `answers_gradients`: it answers something else while torch records gradients, so that this can be seen.
    `can_be_trained`: its logits ask for gradients, as those of a model with parameters do.

    start: (vocab,); table: (age, vocab, vocab).
    """

    start: Tensor
    table: Tensor
    answers_gradients: bool = False
    can_be_trained: bool = False
    training: ClassVar[bool] = False

    def __call__(self, ids: Tensor) -> Tensor:
        require_batch(ids, len(self.start))
        batch, time = ids.shape
        logits = self.start.expand(batch, time, -1)  # (batch, time, vocab)
        for age in range(min(len(self.table), time)):
            nothing = self.start.new_zeros(batch, age, len(self.start))  # the first positions have nothing so old
            logits = logits + torch.cat([nothing, self.table[age, ids[:, : time - age]]], dim=1)
        if self.can_be_trained:
            return logits.clone().requires_grad_(torch.is_grad_enabled())
        return -logits if self.answers_gradients and torch.is_grad_enabled() else logits

    def train(self, mode: bool = True) -> CausalTable:
        """As a module without dropout: the mode makes no difference."""
        return self

    def eval(self) -> CausalTable:
        return self

    def parameters(self) -> Iterator[Tensor]:
        return iter((self.start, self.table))

    def __repr__(self) -> str:
        return f"a language model with {len(self.start)} tokens"
