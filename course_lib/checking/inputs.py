"""Inputs for cases: the same on every machine, unsaturated, with negative numbers, in double precision."""

from __future__ import annotations

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
