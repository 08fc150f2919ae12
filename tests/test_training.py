"""Losses, learning rates and steps of the reference."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.training import (
    accumulate_gradients,
    cosine_rate,
    fit,
    print_progress,
    sequence_loss,
    shift_right,
    smoothed_loss,
    train_step,
    warmup_rate,
)
from course_lib.transformer import Transformer
from course_lib.translation import copy_batches

PAD, BOS = 0, 1
TARGETS = torch.tensor([[4, 5, 2, 0, 0], [6, 3, 7, 8, 2], [2, 0, 0, 0, 0]])


def some_logits() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(3, 5, 9, dtype=torch.float64, requires_grad=True)


def small_model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(20, 20, 16, 2, 24, 1).double()


def test_shift_right():
    assert shift_right(TARGETS, BOS).tolist() == [[1, 4, 5, 2, 0], [1, 6, 3, 7, 8], [1, 2, 0, 0, 0]]
    assert shift_right(TARGETS, BOS).dtype == TARGETS.dtype


def test_sequence_loss_is_torchs_cross_entropy():
    logits = some_logits()
    loss = sequence_loss(logits, TARGETS, PAD)
    torch.testing.assert_close(loss, F.cross_entropy(logits.flatten(0, 1), TARGETS.flatten(), ignore_index=PAD))
    (slope,) = torch.autograd.grad(loss, logits)
    assert not slope[TARGETS == PAD].any() and slope[TARGETS != PAD].all()


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6])
def test_smoothed_loss_is_torchs(epsilon):
    logits = some_logits()
    expected = F.cross_entropy(logits.flatten(0, 1), TARGETS.flatten(), ignore_index=PAD, label_smoothing=epsilon)
    torch.testing.assert_close(smoothed_loss(logits, TARGETS, PAD, epsilon), expected)


def test_losses_survive_huge_logits():
    logits = some_logits() * 1e4
    assert sequence_loss(logits, TARGETS, PAD).isfinite() and smoothed_loss(logits, TARGETS, PAD, 0.1).isfinite()


def test_warmup_rate():
    assert warmup_rate(1, 512, 4000) == pytest.approx(512**-0.5 * 4000**-1.5)
    assert warmup_rate(2, 512, 4000) == pytest.approx(2 * warmup_rate(1, 512, 4000))
    assert warmup_rate(4000, 512, 4000) == pytest.approx(7e-4, rel=0.01)
    assert warmup_rate(16000, 512, 4000) == pytest.approx(warmup_rate(4000, 512, 4000) / 2)


def test_cosine_rate():
    assert [cosine_rate(step, 20, 0.4, warmup=4) for step in (1, 4, 12)] == pytest.approx([0.1, 0.4, 0.2])
    assert cosine_rate(20, 20, 0.4, warmup=4) == pytest.approx(0)


def test_train_step_lowers_the_loss_and_clips():
    model = small_model()
    ((source, targets),) = copy_batches(8, 1, seed=0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    first = train_step(model, optimizer, source, targets, BOS, PAD, max_norm=0.01)
    moved = torch.cat([(new - old).flatten() for new, old in zip(model.parameters(), before)])
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert isinstance(first, float)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = [train_step(model, optimizer, source, targets, BOS, PAD, max_norm=1.0) for _ in range(10)]
    assert losses[-1] < losses[0] <= first


def test_accumulated_gradients_are_those_of_the_large_batch():
    model = small_model()
    ((source, targets),) = copy_batches(9, 1, seed=0, shortest=1)
    together = copy.deepcopy(model)
    loss = sequence_loss(together(source, shift_right(targets, BOS)), targets, PAD)
    loss.backward()
    parts = [(source[:2], targets[:2]), (source[2:3], targets[2:3]), (source[3:], targets[3:])]
    for _ in range(2):  # the second time nothing is left of the first
        assert accumulate_gradients(model, parts, BOS, PAD) == pytest.approx(loss.item())
        for ours, theirs in zip(model.parameters(), together.parameters()):
            torch.testing.assert_close(ours.grad, theirs.grad)


def test_fit_trains_the_same_way_twice(capsys):
    def run() -> tuple[list[float], nn.Module]:
        model = small_model()
        return fit(model, copy_batches(16, 30, seed=1), lambda step: 3e-3, BOS, PAD, report=print_progress(10)), model

    losses, model = run()
    assert len(losses) == 30 and losses[-1] < losses[0] < math.log(20) + 1
    assert losses == run()[0]
    assert not model.training
    assert capsys.readouterr().out.splitlines()[0].startswith("step    10   loss")
