"""Finding mistakes: the repaired programs, and the published ones, which must be recognised."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.checking.grading import grade
from course_lib.checking.report import Report
from course_lib.checking.settings import TinyTraining
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises
from course_lib.training import sequence_loss, shift_right
from course_lib.transformer import find_the_leak
from course_lib.you_are_the_grader import causal_heads, dropout, next_token_loss, perplexity


def report(name: str, answer) -> Report:
    return grade(all_exercises()[name], Subject(answer))


# --- the mended programs ----------------------------------------------------------------------------------


def test_next_token_loss_by_hand():
    """After token 1 the model gives token 2 probability 1/4; after token 2 it gives token 0 probability 1/2."""

    def model(ids):
        table = torch.tensor([[1.0, 1, 1], [2, 1, 1], [2, 1, 1]])
        return table.log()[ids]

    ids = torch.tensor([[1, 2, 0, 9]]).clamp(max=2)
    assert next_token_loss(model, ids[:, :3], pad_id=-1).item() == pytest.approx((math.log(4) + math.log(2)) / 2)
    assert next_token_loss(model, ids[:, :3], pad_id=0).item() == pytest.approx(math.log(4))


def test_causal_heads_are_torchs():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    layer = nn.MultiheadAttention(12, 3, bias=False, batch_first=True).double()
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    wanted, _ = layer(x, x, x, attn_mask=hidden, need_weights=False)
    q, k, v = F.linear(x, layer.in_proj_weight).chunk(3, dim=-1)
    torch.testing.assert_close(F.linear(causal_heads(q, k, v, 3), layer.out_proj.weight), wanted)


def test_dropout_keeps_the_mean_and_drops_the_share():
    torch.manual_seed(0)
    x, noise = torch.full((200_000,), 3.0), torch.rand(200_000)
    result = dropout(x, noise, 0.3, training=True)
    assert (result == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert result.mean().item() == pytest.approx(3.0, abs=0.03)
    assert torch.equal(dropout(x, noise, 0.3, training=False), x)


BATCHES = [
    (torch.tensor([[3, 4], [5, 2]]), torch.tensor([[4, 3, 2], [5, 2, 0]])),
    (torch.tensor([[3]]), torch.tensor([[2, 0]])),
]


def test_perplexity_does_not_depend_on_the_batches():
    setting = TinyTraining.random(vocab=6, d_model=3, seed=1)
    (model,) = dataclasses.replace(setting, is_training=True).make()
    assert model.training
    one_by_one = [(source[i : i + 1], targets[i : i + 1]) for source, targets in BATCHES for i in range(len(source))]
    whole = perplexity(model, BATCHES, 1, 0)
    assert whole == pytest.approx(perplexity(model, one_by_one, 1, 0))
    assert not model.training and not any(call["training"] for call in model.calls)


# --- what was published -----------------------------------------------------------------------------------


def published_loss(model, ids, pad_id):
    logits = model(ids)
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), ignore_index=pad_id)


def published_heads(q, k, v, num_heads):
    batch, time, d_model = q.shape
    d_k = d_model // num_heads
    q, k, v = (x.contiguous().view(batch, num_heads, time, d_k) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(d_k)
    future = torch.triu(torch.ones(time, time), diagonal=1).bool()
    weights = scores.masked_fill(future, -1e9).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, time, d_model)


def published_dropout(x, noise, p, training):
    if training:
        x = x.masked_fill(noise < p, 0.0)
    return x


def published_perplexity(model, batches, bos_id, pad_id):
    losses = []
    with torch.no_grad():
        for source, targets in batches:
            logits = model(source, shift_right(targets, bos_id))
            losses.append(sequence_loss(logits, targets, pad_id))
    return torch.stack(losses).mean().exp().item()


@pytest.mark.parametrize(
    ("exercise", "published", "mistakes"),
    [
        ("next_token_loss", published_loss, {"asks_for_the_token_it_sees"}),
        ("causal_heads", published_heads, {"splits_by_view"}),
        ("dropout", published_dropout, {"does_not_scale"}),
        ("perplexity", published_perplexity, {"leaves_dropout_on", "mean_of_batch_means"}),
    ],
)
def test_the_published_program_is_named_and_earns_little(exercise, published, mistakes):
    seen = report(exercise, published)
    assert seen.misconception is not None, seen
    assert set(re.split(r" \+ |&", seen.misconception.removeprefix("both#"))) == mistakes
    assert seen.points <= seen.max_points / 4


def half_mended_perplexity(model, batches, bos_id, pad_id):
    model.eval()
    return published_perplexity(model, batches, bos_id, pad_id)


def half_mended_heads(q, k, v, num_heads):
    """Split in the right way, and scaled by the whole width, as another article has it."""
    d_k = q.shape[-1] // num_heads
    q, k, v = (x.unflatten(-1, (num_heads, d_k)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(num_heads * d_k)
    scores = scores + torch.full(scores.shape[-2:], -1e9).triu(1)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def dropout_that_is_always_on(x, noise, p, training):
    return torch.where(noise < p, 0.0, x / (1 - p))


@pytest.mark.parametrize(
    ("exercise", "mended", "mistake"),
    [
        ("perplexity", half_mended_perplexity, "mean_of_batch_means"),
        ("causal_heads", half_mended_heads, "scales_by_d_model"),
        ("dropout", dropout_that_is_always_on, "always_drops"),
        ("dropout", lambda x, noise, p, training: x * (noise >= p) / p if training else x, "divides_by_p"),
        ("dropout", lambda x, noise, p, training: F.dropout(x, p, training), "leaves_it_to_torch"),
    ],
)
def test_what_is_still_wrong_is_named(exercise, mended, mistake):
    assert report(exercise, mended).misconception == mistake


def test_the_published_heads_leak():
    torch.manual_seed(0)
    table = torch.randn(9, 8, dtype=torch.float64)
    ids = torch.tensor([1, 5, 3, 7])
    leaks = {
        heads: find_the_leak(lambda ids, heads=heads: heads(table[ids], table[ids], table[ids], 2), ids, 9)
        for heads in (published_heads, causal_heads)
    }
    assert leaks[published_heads].triu(1).any() and not leaks[causal_heads].triu(1).any()
