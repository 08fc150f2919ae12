"""Training: the references on numbers one can check by hand, and wrong answers that must be recognised."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import check
from course_lib.checking.settings import TinyTraining
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


@pytest.fixture(autouse=True)
def own_progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


# --- the references -------------------------------------------------------------------------------------


def test_shift_right_by_hand():
    targets = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    assert shift_right(targets, 1).tolist() == [[1, 5, 6, 7], [1, 8, 2, 0]]
    assert targets.tolist() == [[5, 6, 7, 2], [8, 2, 0, 0]]


def test_sequence_loss_by_hand():
    """Probabilities 1/4 and 1/2 for the two real targets: (ln 4 + ln 2) / 2. The padding says nothing."""
    probabilities = torch.tensor([[[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
    targets = torch.tensor([[2, 0, 1]])
    assert sequence_loss(probabilities.log(), targets, pad_id=1).item() == pytest.approx(1.5 * math.log(2))


def random_problem():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (3, 5), generator=generator)
    return logits, targets


def test_losses_agree_with_torch():
    logits, targets = random_problem()
    flat = logits.flatten(0, 1), targets.flatten()
    torch.testing.assert_close(sequence_loss(logits, targets, 3), F.cross_entropy(*flat, ignore_index=3))
    for epsilon in (0.0, 0.1, 1.0):
        want = F.cross_entropy(*flat, ignore_index=3, label_smoothing=epsilon)
        torch.testing.assert_close(smoothed_loss(logits, targets, 3, epsilon), want)


def test_cross_entropy_is_entropy_plus_divergence():
    """The notebook's numbers: truth q, prediction p."""
    p, q = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.6, 0.3, 0.1])
    cross_entropy = -(q * p.log()).sum().item()
    entropy = -(q * q.log()).sum().item()
    divergence = (q * (q / p).log()).sum().item()
    assert cross_entropy == pytest.approx(1.3962, abs=1e-4)
    assert entropy == pytest.approx(0.8979, abs=1e-4)
    assert divergence == pytest.approx(0.4982, abs=1e-4)
    assert cross_entropy == pytest.approx(entropy + divergence, abs=1e-6)


def test_the_gradient_of_the_loss_is_p_minus_y():
    logits, targets = random_problem()
    logits.requires_grad_()
    sequence_loss(logits, targets, pad_id=-1).backward()
    want = (logits.softmax(-1) - F.one_hot(targets, 7)) / targets.numel()
    torch.testing.assert_close(logits.grad, want.detach())


def test_the_best_prediction_under_smoothing_is_the_soft_target():
    soft = torch.tensor([0.1 / 4, 0.1 / 4, 0.9 + 0.1 / 4, 0.1 / 4], dtype=torch.float64)
    logits = soft.log()[None, None].requires_grad_()
    smoothed_loss(logits, torch.tensor([[2]]), pad_id=0, epsilon=0.1).backward()
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-12, rtol=0)


def test_a_batch_of_nothing_but_padding_has_no_loss():
    assert sequence_loss(torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.long), pad_id=0).isnan()


def test_warmup_rate_of_the_paper():
    assert warmup_rate(4000, 512, 4000) == pytest.approx(6.99e-4, rel=1e-3)
    assert warmup_rate(1, 512, 4000) == pytest.approx(1.747e-7, rel=1e-3)
    rates = [warmup_rate(step, 512, 4000) for step in range(1, 20_000)]
    assert max(rates) == rates[3999]


def test_cosine_rate():
    assert cosine_rate(50, 1000, peak=3e-3, warmup=100) == pytest.approx(1.5e-3)
    assert cosine_rate(100, 1000, peak=3e-3, warmup=100) == pytest.approx(3e-3)
    assert cosine_rate(550, 1000, peak=3e-3, warmup=100) == pytest.approx(1.5e-3)
    assert cosine_rate(1000, 1000, peak=3e-3, warmup=100) == pytest.approx(0.0)


BATCH = torch.tensor([[3, 4], [5, 2]]), torch.tensor([[4, 3, 2], [5, 2, 0]])


def test_train_step_goes_down_and_is_clipped():
    setting = TinyTraining.random(vocab=6, d_model=3, seed=1, learning_rate=0.5)
    model, optimizer = setting.make()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses = [train_step(model, optimizer, *BATCH, 1, 0, max_norm=0.01)]
    moved = sum((p - before[name]).pow(2).sum() for name, p in model.named_parameters()).sqrt().item()
    assert moved == pytest.approx(0.5 * 0.01, rel=1e-3)
    losses += [train_step(model, optimizer, *BATCH, 1, 0, max_norm=100.0) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert model.training


def test_accumulated_gradients_are_those_of_one_batch():
    sources, targets = BATCH
    parts = [(sources[:1], targets[:1]), (sources[1:], targets[1:, :2])]
    whole, small = (TinyTraining.random(vocab=6, d_model=3, seed=1).make()[0] for _ in range(2))
    loss = sequence_loss(whole(sources, shift_right(targets, 1)), targets, 0)
    loss.backward()
    assert accumulate_gradients(small, parts, 1, 0) == pytest.approx(loss.item())
    for one, other in zip(whole.parameters(), small.parameters()):
        torch.testing.assert_close(one.grad, other.grad)


def test_fit_learns_and_reports(capsys):
    model = TinyTraining.random(vocab=6, d_model=3, seed=1).make()[0]
    reported = []
    losses = fit(model, [BATCH] * 60, lambda step: 0.05, 1, 0, report=lambda step, loss: reported.append((step, loss)))
    assert losses[-1] < losses[0] / 2
    assert reported == list(enumerate(losses, start=1))
    assert not model.training
    for step in (1, 2):
        print_progress(2)(step, 1.5)
    assert capsys.readouterr().out == "step     2   loss 1.500\n"


def test_fit_says_which_batch_is_empty():
    model = TinyTraining.random(vocab=6, d_model=3, seed=1).make()[0]
    with pytest.raises(ValueError, match=r"batch 2 .* nothing but padding"):
        fit(model, [BATCH, (BATCH[0], torch.zeros(2, 3, dtype=torch.long))], lambda step: 0.05, 1, 0)


def test_accumulate_says_that_there_is_nothing_to_learn():
    model = TinyTraining.random(vocab=6, d_model=3, seed=1).make()[0]
    with pytest.raises(ValueError, match="nothing but padding"):
        accumulate_gradients(model, [(BATCH[0], torch.zeros(2, 3, dtype=torch.long))], 1, 0)


# --- known mistakes, written as somebody else would write them --------------------------------------------


def shift_by_slicing_both(targets, bos_id):
    return targets[:, 1:]


def shift_with_padding_in_front(targets, bos_id):
    return F.pad(targets[:, :-1], (1, 0))


def loss_of_everything(logits, targets, pad_id):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def loss_of_probabilities(logits, targets, pad_id):
    return F.cross_entropy(logits.softmax(-1).flatten(0, 1), targets.flatten(), ignore_index=pad_id)


def loss_summed(logits, targets, pad_id):
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum")


def loss_masked_mean(logits, targets, pad_id):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    losses[targets == pad_id] = 0
    return losses.mean()


def loss_with_a_naive_logarithm(logits, targets, pad_id):
    p = logits.exp() / logits.exp().sum(-1, keepdim=True)
    real = targets != pad_id
    return F.nll_loss(p[real].log(), targets[real])


def loss_ignoring_minus_100(logits, targets, pad_id):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def smoothed_with_kl(logits, targets, pad_id, epsilon):
    vocab = logits.shape[-1]
    soft = torch.full_like(logits, epsilon / vocab)
    soft.scatter_(-1, targets.unsqueeze(-1), 1 - epsilon + epsilon / vocab)
    real = targets != pad_id
    return F.kl_div(logits[real].log_softmax(-1), soft[real], reduction="batchmean")


def smoothed_over_the_others(logits, targets, pad_id, epsilon):
    vocab = logits.shape[-1]
    soft = torch.full_like(logits, epsilon / (vocab - 1))
    soft.scatter_(-1, targets.unsqueeze(-1), 1 - epsilon)
    real = targets != pad_id
    return F.cross_entropy(logits[real], soft[real])


def rate_divided(step, d_model, warmup):
    return min(step**-0.5, step / warmup**-1.5) / math.sqrt(d_model)


def rate_by_branches_the_wrong_way(step, d_model, warmup):
    return d_model**-0.5 * (step**-0.5 if step < warmup else step * warmup**-1.5)


def rate_without_width(step, d_model, warmup):
    return min(1 / math.sqrt(step), step / math.sqrt(warmup**3))


def step_with_late_clipping(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item()


def step_with_early_clipping(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    model.train()
    loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id)
    loss.backward()
    optimizer.step()
    return loss


def step_that_zeroes_late(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train()
    loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def step_in_evaluation_mode(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.eval()
    return fitted(model, optimizer, source, targets, bos_id, pad_id, max_norm)


def step_that_ignores_bos(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train()
    return fitted(model, optimizer, source, targets, bos_id, bos_id, max_norm)


def fitted(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    optimizer.zero_grad()
    given = shift_right(targets, bos_id)
    loss = F.cross_entropy(model(source, given).transpose(1, 2), targets, ignore_index=pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def accumulate_by_the_book(model, batches, bos_id, pad_id):
    for p in model.parameters():
        p.grad = None
    n = len(batches)
    losses = []
    for source, targets in batches:
        loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id)
        (loss / n).backward()
        losses.append(loss.item())
    return sum(losses) / n


def accumulate_all_at_once(model, batches, bos_id, pad_id):
    model.zero_grad()
    real = [(t != pad_id).sum() for _, t in batches]
    losses = [sequence_loss(model(s, shift_right(t, bos_id)), t, pad_id) for s, t in batches]
    loss = sum(one * n for one, n in zip(losses, real)) / sum(real)
    loss.backward()
    return loss.item()


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistake"),
    [
        ("shift_right", shift_with_padding_in_front, "starts_with_zeros"),
        ("sequence_loss", loss_of_everything, "counts_padding"),
        ("sequence_loss", loss_ignoring_minus_100, "counts_padding"),
        ("sequence_loss", loss_of_probabilities, "takes_softmax_twice"),
        ("sequence_loss", loss_summed, "sums_over_targets"),
        ("sequence_loss", loss_masked_mean, "mean_over_padding_too"),
        ("smoothed_loss", smoothed_with_kl, "subtracts_the_entropy"),
        ("smoothed_loss", smoothed_over_the_others, "smooths_the_wrong_classes_only"),
        ("warmup_rate", rate_divided, "only_falls"),
        ("warmup_rate", rate_by_branches_the_wrong_way, "takes_the_larger"),
        ("warmup_rate", rate_without_width, "forgets_d_model"),
        ("train_step", step_with_late_clipping, "does_not_clip"),
        ("train_step", step_with_early_clipping, "does_not_clip"),
        ("train_step", step_that_zeroes_late, "keeps_old_gradients"),
        ("train_step", step_in_evaluation_mode, "forgets_training_mode"),
        ("train_step", step_that_ignores_bos, "counts_the_padding"),
        ("accumulate_gradients", accumulate_by_the_book, "divides_by_the_number_of_batches"),
        ("accumulate_gradients", accumulate_all_at_once, "one_backward_at_the_end"),
    ],
)
def test_known_mistakes_in_other_words(exercise, wrong, mistake):
    assert check(exercise, wrong).misconception == mistake


@pytest.mark.parametrize(
    ("exercise", "wrong"), [("shift_right", shift_by_slicing_both), ("sequence_loss", loss_with_a_naive_logarithm)]
)
def test_wrong_in_a_way_of_their_own(exercise, wrong):
    report = check(exercise, wrong)
    assert report.outcome == "wrong" and report.points < report.max_points


# --- two mistakes at once ---------------------------------------------------------------------------------


def loss_in_bits_with_padding(logits, targets, pad_id):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / math.log(2)


def smoothed_sum_of_the_wrong_share(logits, targets, pad_id, epsilon):
    logs = logits.log_softmax(-1)
    hard = logs.gather(-1, targets[..., None])[..., 0]
    losses = -epsilon * hard - (1 - epsilon) * logs.mean(-1)
    return losses[targets != pad_id].sum()


def rate_too_narrow_and_late(step, d_model, warmup):
    step += 1
    return min(step**-0.5, step * warmup**-1.5)


def step_unshifted_without_clipping(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(source, targets).transpose(1, 2), targets, ignore_index=pad_id)
    loss.backward()
    optimizer.step()
    return loss.item()


def accumulate_unshifted_and_uncleared(model, batches, bos_id, pad_id):
    total = sum((t != pad_id).sum().item() for _, t in batches)
    whole = 0.0
    for source, targets in batches:
        logits = model(source, targets).transpose(1, 2)
        loss = F.cross_entropy(logits, targets, ignore_index=pad_id, reduction="sum") / total
        loss.backward()
        whole += loss.item()
    return whole


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistakes"),
    [
        ("sequence_loss", loss_in_bits_with_padding, {"counts_padding", "counts_in_bits"}),
        ("smoothed_loss", smoothed_sum_of_the_wrong_share, {"exchanges_the_shares", "adds_up_all_targets"}),
        ("warmup_rate", rate_too_narrow_and_late, {"forgets_d_model", "counts_steps_from_zero"}),
        ("train_step", step_unshifted_without_clipping, {"gives_the_targets_unshifted", "does_not_clip"}),
        ("accumulate_gradients", accumulate_unshifted_and_uncleared, {"accumulates_without_the_shift", "never_clears"}),
    ],
)
def test_two_mistakes_are_both_named(exercise, wrong, mistakes):
    report = check(exercise, wrong)
    assert report.misconception is not None, report
    assert set(report.misconception.split(" + ")) == mistakes
