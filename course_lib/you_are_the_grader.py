"""Programs that were published with a mistake, mended.

Each of them ran, and the loss fell. Notebook 14 measures what was wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.training import Batch, sequence_loss, shift_right


def next_token_loss(model: Callable[[Tensor], Tensor], ids: Tensor, pad_id: int) -> Tensor:
    """The mean of -log p(next token) over all next tokens of the batch that are not padding.

    model: ids (batch, time) ↦ logits (batch, time, vocab). It is causal: position t has seen tokens 0 to t.
    ids: (batch, time). Returns: a number, in nats.
    """
    given, wanted = ids[:, :-1], ids[:, 1:]  # (batch, time - 1) each
    log_probabilities = model(given).log_softmax(dim=-1)  # (batch, time - 1, vocab)
    chosen = log_probabilities.gather(dim=-1, index=wanted.unsqueeze(-1))  # (batch, time - 1, 1)
    losses = -chosen.squeeze(-1)  # (batch, time - 1)
    real = wanted != pad_id
    return losses[real].mean()


def causal_heads(q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Tensor:
    """Causal attention in each head: head i owns features i·d_k to (i+1)·d_k - 1 of q, k, v and of the result.

    q, k, v: (batch, time, d_model), already projected; `num_heads` divides d_model.
    Returns: (batch, time, d_model).
    """
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (batch, head, time, time)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)  # (batch, time, d_model)


def dropout(x: Tensor, noise: Tensor, p: float, training: bool) -> Tensor:
    """In training, set each feature to 0 with probability p, and keep the expected value of all features.

    noise: the shape of x, uniform between 0 and 1; a feature is kept where the noise is at least p. 0 <= p < 1.
    Returns: the shape of x. In evaluation, x as it is.
    """
    if not training:
        return x
    kept = noise >= p
    return x * kept / (1 - p)


def perplexity(model: nn.Module, batches: Sequence[Batch], bos_id: int, pad_id: int) -> float:
    """exp(mean of -log p(target)) over all real targets of all batches, with the model in evaluation mode.

    batches: pairs of source ids (batch, source) and target ids (batch, target).
    """
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))  # (batch, target, vocab)
        loss = sequence_loss(logits, targets, pad_id)
        number = int((targets != pad_id).sum())
        total += loss.item() * number
        count += number
    return math.exp(total / count)
