"""Masks: who may look at whom.

A mask is boolean and **True where attention is allowed**, as in torch's `scaled_dot_product_attention`.
Its last axis runs over the keys, the one before over the queries: `mask[..., i, j]` answers "may i attend to j?".

A Transformer has three of them, and each answers a question of its own:

    encoder self-attention   which keys are real tokens?                   padding_mask
    decoder self-attention   which keys are real, and not in the future?   decoder_mask
    cross-attention          which keys of the *source* are real?          cross_mask
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

# --- the masks ------------------------------------------------------------------------------------------


def padding_mask(lengths: Tensor, max_len: int) -> Tensor:
    """Which places of a padded batch hold a real token?

    lengths: (batch,) the number of real tokens in each sentence. They come first, the padding last.
    Returns: (batch, max_len) boolean, True on real tokens, False on padding.
    """
    require_lengths(lengths, max_len)
    positions = torch.arange(max_len, device=lengths.device)  # (max_len,)
    return positions < lengths[:, None]  # (batch, max_len)


def causal_mask(n: int) -> Tensor:
    """May position i attend to position j? Only if j is not in the future.

    Returns: (n, n) boolean, `mask[i, j]` is True where j <= i.
    """
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0)  # (query, key)


def decoder_mask(lengths: Tensor, n: int) -> Tensor:
    """The mask of a decoder's self-attention: it hides the future and the padding.

    Only keys are hidden. The row of a padded query follows the same rule, so no row is ever empty.

    lengths: (batch,) the number of real tokens in each sentence, at least 1; n: the padded length.
    Returns: (batch, n, n) boolean, True where key j is a real token and j <= i.
    """
    real = padding_mask(lengths, n)  # (batch, n)
    real_keys = real[:, None, :]  # (batch, 1, key): the same for every query
    past = causal_mask(n).to(lengths.device)  # (query, key): the same for every sentence
    return real_keys & past  # (batch, query, key)


def cross_mask(key_lengths: Tensor, query_len: int, key_len: int) -> Tensor:
    """The mask of cross-attention: every target position sees every real source position.

    key_lengths: (batch,) number of real source positions; key_len: the padded number; query_len: target positions.
    Returns: (batch, query_len, key_len) boolean, True where the key is real.
    """
    real = padding_mask(key_lengths, key_len)  # (batch, key)
    real_keys = real[:, None, :]  # (batch, 1, key)
    return real_keys.expand(-1, query_len, -1)  # (batch, query, key)


def window_mask(n: int, radius: int) -> Tensor:
    """Local attention: a position sees itself and the positions up to `radius` steps away, on both sides.

    Returns: (n, n) boolean, True where |i - j| <= radius.
    """
    positions = torch.arange(n)
    steps = positions[:, None] - positions  # (query, key): i - j
    distance = steps.abs()
    return distance <= radius


# --- masks at work --------------------------------------------------------------------------------------


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis, restricted to the allowed keys.

    scores: (..., query, key); mask: broadcastable to it, True where allowed.
    Returns: (..., query, key). A hidden key gets weight 0. A row in which nothing is allowed is all 0.
    """
    allowed = allowed_places(mask, scores)  # broadcasts to (..., query, key)
    visible = scores.masked_fill(~allowed, -math.inf)
    weights = visible.softmax(dim=-1)  # NaN in a row without a single allowed key …
    empty = ~allowed.any(dim=-1, keepdim=True)  # (..., query, 1)
    return weights.masked_fill(empty, 0.0) if empty.any() else weights  # … and 0 from here on


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in which each query sees only the keys its row of the mask allows.

    q: (..., query, d_k); k: (..., key, d_k); v: (..., key, d_v); mask: broadcastable to (..., query, key).
    Returns: output (..., query, d_v), weights (..., query, key); both are 0 for a query that may attend to nothing.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)  # (..., query, key)
    scores = scores / math.sqrt(d_k)
    weights = masked_softmax(scores, mask)
    output = weights @ v  # (..., query, d_v)
    return output, weights


def additive_mask(mask: Tensor) -> Tensor:
    """The same mask as numbers to be *added* to the scores.

    mask: (...) boolean, True where allowed.
    Returns: (...) float, 0 where allowed and -inf where hidden.
    """
    allowed = mask.bool()
    nothing = torch.zeros(mask.shape, device=mask.device)
    return nothing.masked_fill(~allowed, -math.inf)


# --- looking at masks -----------------------------------------------------------------------------------


def leak_map(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """How strongly does each output position depend on each input position?

    function: (time, d) -> (time, d'); x: (time, d).
    Returns: (time, time), the length of the gradient of output i (summed over its features) with respect to input j.
    Exactly 0 means that input j does not influence output i, by any path through the function.
    """
    x = x.detach().clone().requires_grad_()
    outputs = function(x)
    slopes = [torch.autograd.grad(output.sum(), x, retain_graph=True)[0] for output in outputs]
    return torch.stack(slopes).norm(dim=-1)  # (output position, input position)


# --- clear errors for wrong arguments --------------------------------------------------------------------


def require_lengths(lengths: Tensor, max_len: int) -> None:
    """Raise unless `lengths` holds one integer per sentence, between 0 and `max_len`."""
    if lengths.dim() != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(
            f"lengths should be integers of shape (batch,), "
            f"but this is {lengths.dtype} of shape {tuple(lengths.shape)}."
        )
    if (lengths < 0).any() or (lengths > max_len).any():
        raise ValueError(f"Every length must lie between 0 and max_len = {max_len}, but they are {lengths.tolist()}.")


def allowed_places(mask: Tensor, scores: Tensor) -> Tensor:
    """The mask as booleans that broadcast to the scores, or an error that says why they cannot."""
    if mask.is_floating_point() and ((mask != 0) & (mask != 1)).any():
        raise ValueError(
            "This looks like an additive mask (0 and -inf). Pass a boolean one: True where attention is allowed."
        )
    try:
        mask.expand(scores.shape)
    except RuntimeError:
        raise ValueError(
            f"A mask of shape {tuple(mask.shape)} does not fit scores of shape {tuple(scores.shape)}. Shapes are "
            "compared from the right; a mask for each sentence needs an axis for the heads: mask[:, None]."
        ) from None
    return mask.to(scores.device).bool()
