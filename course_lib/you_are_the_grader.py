"""Programs that were published with a mistake, mended; and tests that tell right programs from wrong ones.

The published programs ran, and the loss fell. Notebook 14 measures what was wrong with them. Each test is given an
implementation, a function or a class, and says True or False.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.testing import WatchedModel
from course_lib.training import Batch, sequence_loss, shift_right

# --- published programs, mended ---------------------------------------------------------------------------


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


# --- tests: is this implementation right? -----------------------------------------------------------------


def accepts_causal_mask(causal_mask: Callable[[int], Tensor]) -> bool:
    """Is this implementation of `causal_mask(n)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """
    for n in (1, 2, 5):
        mask = causal_mask(n)
        want = torch.arange(n) <= torch.arange(n)[:, None]
        if mask.shape != want.shape or not mask.eq(want).all():  # 0 and 1 are as good as False and True
            return False
    return True


def accepts_attention(attention: Callable[..., Any]) -> bool:
    """Is this implementation of `scaled_dot_product_attention(q, k, v)`, which returns (output, weights), right?

    Returns: True if it is right, False if not. An error counts as False.
    """

    def slow_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """In loops, as the formula says it. q: (query, d_k); k: (key, d_k); v: (key, d_v)."""
        rows = []
        for query in q:
            scores = torch.stack([query.dot(key) / math.sqrt(len(key)) for key in k])  # (key,)
            rows.append(scores.softmax(dim=0))
        weights = torch.stack(rows)  # (query, key)
        return weights @ v, weights

    torch.manual_seed(0)
    inputs = torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 7)  # every size is different
    for scale in (1.0, 40.0):
        q, k, v = ((scale * x).requires_grad_() for x in inputs)
        output, weights = attention(q, k, v)
        slow = [slow_attention(*sequence) for sequence in zip(q, k, v)]
        for got, want in ((output, torch.stack([o for o, _ in slow])), (weights, torch.stack([w for _, w in slow]))):
            if got.shape != want.shape or not torch.allclose(got, want, rtol=1e-3, atol=1e-3):
                return False
        if not all(torch.equal(x, scale * before) for x, before in zip((q, k, v), inputs)):
            return False
        got_slopes = torch.autograd.grad(output.square().sum(), (q, k, v))
        want_slopes = torch.autograd.grad(torch.stack([o for o, _ in slow]).square().sum(), (q, k, v))
        if not all(torch.allclose(got, want, rtol=1e-2, atol=1e-2) for got, want in zip(got_slopes, want_slopes)):
            return False
    q, k, v = (x[0] for x in inputs)
    return torch.allclose(attention(q, k, v)[0], slow_attention(q, k, v)[0], atol=1e-4)


def accepts_positional_encoding(PositionalEncoding: type[nn.Module]) -> bool:
    """Is this implementation of the class `PositionalEncoding(d_model, max_len)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """

    def table(n: int, d_model: int) -> Tensor:
        """The sinusoidal table, number by number: (n, d_model)."""
        rows = []
        for position in range(n):
            angles = [position / 10000 ** (2 * (column // 2) / d_model) for column in range(d_model)]
            rows.append([math.cos(angle) if column % 2 else math.sin(angle) for column, angle in enumerate(angles)])
        return torch.tensor(rows)

    torch.manual_seed(0)
    for d_model, batch, time in ((6, 3, 5), (7, 5, 2), (4, 2, 11)):
        layer = PositionalEncoding(d_model, 11).train()
        x = torch.randn(batch, time, d_model, requires_grad=True)
        before = x.detach().clone()
        result = layer(x)
        if result.shape != x.shape or not torch.equal(x, before):
            return False
        if not torch.allclose(result, before + table(time, d_model), atol=1e-4):
            return False
        result.sum().backward()
        if x.grad is None or not torch.equal(x.grad, torch.ones_like(x)):
            return False
        if any(parameter.requires_grad for parameter in layer.parameters()) or not list(layer.buffers()):
            return False
        if layer(before.half()).dtype != torch.float16:
            return False
    return True


def who_sees_whom(output: Tensor, source: Tensor) -> Tensor:
    """Which positions of the output depend on which positions of the source, by gradients.

    output: (batch, time', d); source: (batch, time, d). Returns: (batch, time', time) boolean.
    """
    direction = torch.randn(output.shape[-1])  # after a LayerNorm, the sum of all features would be 0 for any input
    rows = []
    for place in range(output.shape[1]):
        number = (output[:, place] @ direction).sum()
        (slope,) = torch.autograd.grad(number, source, retain_graph=True, allow_unused=True)
        rows.append(torch.zeros_like(source) if slope is None else slope)
    return torch.stack(rows, dim=1).abs().amax(dim=-1) > 0


def accepts_decoder_layer(DecoderLayer: type[nn.Module]) -> bool:
    """Does information flow in `DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first)` as its masks say?

    Returns: True if it does, False if not. An error counts as False.
    """
    torch.manual_seed(0)
    batch, time, length = 3, 4, 5
    past = torch.ones(time, time, dtype=torch.bool).tril().expand(batch, -1, -1)
    others = torch.eye(time, dtype=torch.bool) | (torch.rand(batch, time, time) < 0.5)  # not only the past
    real = (torch.arange(length) < torch.tensor([[5], [2], [3]])).unsqueeze(1)  # (batch, 1, source)
    for norm_first in (True, False):
        layer = DecoderLayer(8, 2, 12, 0.0, norm_first).eval()
        for mask in (past, others):
            x, memory = (
                torch.randn(batch, time, 8, requires_grad=True),
                torch.randn(batch, length, 8, requires_grad=True),
            )
            result = layer(x, memory, mask, real)
            if result.shape != x.shape or not torch.equal(who_sees_whom(result, x), mask):
                return False
            if not torch.equal(who_sees_whom(result, memory), real.expand(-1, time, -1)):
                return False
    return True


def accepts_train_step(train_step: Callable[..., Any]) -> bool:
    """Is this implementation of `train_step(model, optimizer, source, targets, bos_id, pad_id, max_norm)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """
    torch.manual_seed(0)
    source, targets = torch.tensor([[3, 4, 5], [6, 2, 7]]), torch.tensor([[4, 3, 2, 0], [5, 2, 0, 0]])
    given = torch.tensor([[1, 4, 3, 2], [1, 5, 2, 0]])  # BOS, then all targets but the last
    for max_norm in (0.05, 1e6):  # clipped, and not
        model = WatchedModel(8, 3).eval()
        twin = copy.deepcopy(model)
        loss = F.cross_entropy(twin(source, given).transpose(1, 2), targets, ignore_index=0)
        slopes = torch.autograd.grad(loss, list(twin.parameters()))
        length = torch.cat([slope.flatten() for slope in slopes]).norm().item()  # of all together
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)  # left over from before
        returned = train_step(model, torch.optim.SGD(model.parameters(), lr=0.5), source, targets, 1, 0, max_norm)
        if isinstance(returned, Tensor) and returned.requires_grad:
            return False
        if abs(float(returned) - loss.item()) > 1e-4 or not model.modes[0]:
            return False
        for parameter, old, slope in zip(model.parameters(), twin.parameters(), slopes):
            want = old - 0.5 * min(1.0, max_norm / length) * slope
            if not torch.allclose(parameter, want, atol=1e-5):
                return False
    return True
