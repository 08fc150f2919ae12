"""The sub-layers of the reference."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.sublayers import (
    FeedForward,
    LayerNorm,
    RMSNorm,
    TokenEmbedding,
    masked_batch_statistics,
    residual_post_norm,
    residual_pre_norm,
)


def random_parameters(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double()


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_embedding_is_scaled_and_pads_with_zero():
    embedding = TokenEmbedding(vocab_size=7, d_model=9, pad_id=2)
    ids = torch.tensor([[1, 2, 6], [2, 0, 1]])
    vectors = embedding(ids)
    assert vectors.shape == (2, 3, 9)
    assert torch.equal(vectors[0, 0], embedding.table.weight[1] * 3)
    assert not vectors[ids == 2].any()
    vectors.sum().backward()
    assert not embedding.table.weight.grad[2].any() and embedding.table.weight.grad[1].all()


def test_embedding_starts_with_entries_of_size_one():
    torch.manual_seed(0)
    vectors = TokenEmbedding(1000, 64)(torch.arange(1, 1000)[None])
    assert vectors.std().item() == pytest.approx(1.0, abs=0.02)


def test_feed_forward_is_two_width_one_convolutions():
    layer = random_parameters(FeedForward(6, 10))
    x = normal(2, 5, 6)
    hidden = F.conv1d(x.mT, layer.w_1.weight[..., None], layer.w_1.bias).relu()
    torch.testing.assert_close(layer(x), F.conv1d(hidden, layer.w_2.weight[..., None], layer.w_2.bias).mT)


def test_feed_forward_has_dropout_in_training_only():
    layer = FeedForward(6, 10, dropout=0.5)
    x = torch.randn(2, 5, 6)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_norms_are_those_of_torch(eps):
    x = normal(2, 5, 6) * 0.3 + 1
    ours, theirs = random_parameters(LayerNorm(6, eps)), nn.LayerNorm(6, eps).double()
    theirs.load_state_dict({"weight": ours.gain, "bias": ours.bias})
    torch.testing.assert_close(ours(x), theirs(x))
    ours, theirs = random_parameters(RMSNorm(6, eps)), nn.RMSNorm(6, eps).double()
    theirs.load_state_dict({"weight": ours.gain})
    torch.testing.assert_close(ours(x), theirs(x))


def test_batch_statistics_leave_padding_out():
    x = normal(2, 4, 3)
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    x[~mask] = math.nan
    mean, variance = masked_batch_statistics(x, mask)
    torch.testing.assert_close(mean, x[mask].mean(dim=0))
    torch.testing.assert_close(variance, x[mask].var(dim=0, correction=0))
    with pytest.raises(ValueError, match="no real position"):
        masked_batch_statistics(x, torch.zeros(2, 4, dtype=torch.bool))


def test_residual_paths():
    x = normal(2, 3)
    torch.testing.assert_close(residual_post_norm(x, lambda h: 2 * h, lambda h: h + 1), 3 * x + 1)
    torch.testing.assert_close(residual_pre_norm(x, lambda h: 2 * h, lambda h: h + 1), x + 2 * (x + 1))
