"""Training: losses, learning rates and steps of the reference, and wrong answers that must be recognised."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from classroom import by_name, full, judged, score, solutions, submission
from release import released_notebook
from torch import nn

from autograder.authoring import build
from autograder.judging.needed import needed
from course_lib import check, training
from course_lib.checking.settings import TinyTraining
from course_lib.training import (
    LossCurves,
    MemoryMeter,
    accumulate_gradients,
    cosine_rate,
    fit,
    print_progress,
    sequence_loss,
    shift_right,
    smoothed_loss,
    train_step,
    train_step_with,
    warmup_rate,
)
from course_lib.transformer import Transformer
from course_lib.translation import copy_batches

PAD, BOS = 0, 1
BATCH = torch.tensor([[3, 4], [5, 2]]), torch.tensor([[4, 3, 2], [5, 2, 0]])
TARGETS = torch.tensor([[4, 5, 2, 0, 0], [6, 3, 7, 8, 2], [2, 0, 0, 0, 0]])


@pytest.fixture(autouse=True)
def own_progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


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


def test_fit_takes_the_steps_that_it_is_given():
    """Each step is the student's own, with the optimiser that was given, at the rate of the moment."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
    rates = []

    def own_step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
        rates.append(optimizer.param_groups[0]["lr"])
        assert (bos_id, pad_id, max_norm) == (BOS, PAD, 0.5)
        return torch.tensor(2.0)

    losses = fit(model, [BATCH] * 3, lambda step: step / 10, BOS, PAD, 0.5, take_step=own_step, optimizer=optimizer)
    assert losses == [2.0] * 3 and rates == [0.1, 0.2, 0.3]


def test_a_step_with_another_shift_and_another_loss_uses_both():
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    asked = []

    def shift(targets, bos_id):
        asked.append("shift")
        return shift_right(targets, bos_id)

    def loss(logits, targets, pad_id):
        asked.append("loss")
        return 2 * sequence_loss(logits, targets, pad_id)

    model.eval()  # the loss of a step is taken before it; this model has no dropout
    expected = 2 * sequence_loss(model(BATCH[0], shift_right(BATCH[1], BOS)), BATCH[1], PAD).item()
    assert train_step_with(shift, loss)(model, optimizer, *BATCH, BOS, PAD, 1.0) == pytest.approx(expected)
    assert asked == ["shift", "loss"]


def test_loss_curves_watch_other_data_without_training_on_it():
    model = small_model()
    curves = LossCurves(model, *BATCH, BOS, PAD, every=2)
    losses = fit(model, copy_batches(4, 5, seed=1), lambda step: 3e-3, BOS, PAD, report=curves)
    assert curves.training == losses and [step for step, _ in curves.validation] == [2, 4]
    unwatched = small_model()
    assert fit(unwatched, copy_batches(4, 5, seed=1), lambda step: 3e-3, BOS, PAD) == losses
    wanted = sequence_loss(model(BATCH[0], shift_right(BATCH[1], BOS)), BATCH[1], PAD).item()
    curves(6, 0.0)
    assert curves.validation[-1] == (6, pytest.approx(wanted))


def test_sequence_loss_by_hand():
    """Probabilities 1/4 and 1/2 for the two real targets: (ln 4 + ln 2) / 2. The padding says nothing."""
    probabilities = torch.tensor([[[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
    targets = torch.tensor([[2, 0, 1]])
    assert sequence_loss(probabilities.log(), targets, pad_id=1).item() == pytest.approx(1.5 * math.log(2))


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


def random_problem():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (3, 5), generator=generator)
    return logits, targets


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


def test_fit_says_which_batch_is_empty():
    model = TinyTraining.random(vocab=6, d_model=3, seed=1).make()[0]
    with pytest.raises(ValueError, match=r"batch 2 .* nothing but padding"):
        fit(model, [BATCH, (BATCH[0], torch.zeros(2, 3, dtype=torch.long))], lambda step: 0.05, 1, 0)


def test_accumulate_says_that_there_is_nothing_to_learn():
    model = TinyTraining.random(vocab=6, d_model=3, seed=1).make()[0]
    with pytest.raises(ValueError, match="nothing but padding"):
        accumulate_gradients(model, [(BATCH[0], torch.zeros(2, 3, dtype=torch.long))], 1, 0)


def test_memory_meter_counts_what_is_made_inside():
    before = torch.zeros(1000)
    with MemoryMeter() as meter:
        doubled = before * 2
        assert meter.now == 4000
        assert doubled.view(10, 100).T.shape == (100, 10) and meter.now == 4000
        (doubled + 1).sum()
        assert meter.now == 4000
    assert meter.peak >= 8000
    del doubled
    assert meter.now == 0


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
    return loss.item()


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


def accumulate_without_recording(model, batches, bos_id, pad_id):
    """Clears at the beginning, and never at the end."""
    model.zero_grad()
    total = sum(int((t != pad_id).sum()) for _, t in batches)
    mean_loss = 0.0
    for source, targets in batches:
        with torch.no_grad():
            loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id)
        mean_loss += loss.item() * int((targets != pad_id).sum()) / total
    return mean_loss


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
        ("accumulate_gradients", accumulate_without_recording, "leaves_no_gradient"),
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


def test_a_rate_at_another_step_than_the_inputs_is_told_as_such():
    report = check("warmup_rate", lambda step, d_model, warmup: min(step**0.5, step * warmup**1.5))
    asked = "On the input step = 2, d_model = 4, warmup = 5: With the same d_model and warmup, but at step 5, the rate"
    assert f"{asked} should be 0.223607, but it is 2.23607" in " ".join(str(report).split())


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
        ("sequence_loss", loss_in_bits_with_padding, {"both#counts_padding&counts_in_bits"}),
        ("smoothed_loss", smoothed_sum_of_the_wrong_share, {"exchanges_the_shares", "adds_up_all_targets"}),
        ("warmup_rate", rate_too_narrow_and_late, {"both#forgets_d_model&counts_steps_from_zero"}),
        ("train_step", step_unshifted_without_clipping, {"gives_the_targets_unshifted", "does_not_clip"}),
        ("accumulate_gradients", accumulate_unshifted_and_uncleared, {"accumulates_without_the_shift", "never_clears"}),
    ],
)
def test_two_mistakes_are_named_or_described(exercise, wrong, mistakes):
    report = check(exercise, wrong)
    assert report.misconception is not None, report
    assert set(report.misconception.split(" + ")) == mistakes


# --- what is said is true of the answer -------------------------------------------------------------------


def share(exercise, answer):
    report = check(exercise, answer)
    return report.points / report.max_points


def test_bos_everywhere_earns_little():
    assert share("shift_right", lambda targets, bos_id: torch.full_like(targets, bos_id)) <= 0.25


def test_a_roll_of_the_batch_is_not_taken_for_a_roll_of_the_rows():
    report = check("shift_right", lambda targets, bos_id: torch.roll(targets, 1, 0))
    assert report.misconception == "rolls_the_batch"


def test_a_constant_loss_is_wrong_and_nothing_breaks():
    report = check("sequence_loss", lambda logits, targets, pad_id: torch.tensor(1.0))
    assert report.outcome == "wrong" and report.points / report.max_points <= 0.25


def rate_without_minus_signs(step, d_model, warmup):
    return d_model**-0.5 * min(step**0.5, step * warmup**1.5)


def test_a_rate_without_minus_signs_is_named_as_such():
    assert check("warmup_rate", rate_without_minus_signs).misconception == "loses_both_minus_signs"


def test_the_step_itself_is_no_rate():
    assert share("warmup_rate", lambda step, d_model, warmup: step) <= 0.25


def step_on(model, optimizer, source, given, targets, pad_id, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = sequence_loss(model(source, given), targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss


def step_with_a_shifted_source(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    return step_on(model, optimizer, shift_right(source, bos_id), targets, targets, pad_id, max_norm).item()


def step_with_its_graph(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    return step_on(model, optimizer, source, shift_right(targets, bos_id), targets, pad_id, max_norm)


def accumulate_with_graphs(model, batches, bos_id, pad_id):
    model.zero_grad()
    total = sum((targets != pad_id).sum() for _, targets in batches)
    losses = []
    for source, targets in batches:
        logits = model(source, shift_right(targets, bos_id))
        losses.append(F.cross_entropy(logits.mT, targets, ignore_index=pad_id, reduction="sum") / total)
        losses[-1].backward()
    return torch.stack(losses).sum()


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistake"),
    [
        ("train_step", step_with_a_shifted_source, "shifts_the_source"),
        ("train_step", step_with_its_graph, "returns_the_graph"),
        ("accumulate_gradients", accumulate_with_graphs, "keeps_every_graph"),
    ],
)
def test_shifted_sources_and_kept_graphs_are_named(exercise, wrong, mistake):
    assert check(exercise, wrong).misconception == mistake


def test_batches_may_be_run_in_any_order():
    def backwards(model, batches, bos_id, pad_id):
        return accumulate_gradients(model, batches[::-1], bos_id, pad_id)

    assert check("accumulate_gradients", backwards).passed


def smoothed_after_a_softmax(logits, targets, pad_id, epsilon):
    probabilities = logits.softmax(-1)
    return F.cross_entropy(probabilities.mT, targets, ignore_index=pad_id, label_smoothing=epsilon)


def test_two_softmaxes_before_smoothing_are_named():
    assert check("smoothed_loss", smoothed_after_a_softmax).misconception == "smooths_after_two_softmaxes"


def test_padding_and_a_logarithm_of_a_softmax_are_named_together():
    def both(logits, targets, pad_id):
        return -logits.softmax(-1).gather(-1, targets[..., None]).log().mean()

    assert check("sequence_loss", both).misconception == "counts_padding + logarithm_of_a_softmax"


def test_two_neighbouring_lines_that_are_left_out_are_named_together():
    def step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
        loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        return loss.item()

    assert check("train_step", step).misconception == "forgets_training_mode + keeps_old_gradients"


# --- the student's own parts train ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_solved", [True, False], ids=["solved", "untouched"])
def test_the_students_own_loss_is_in_the_step_that_trains(is_solved, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = build.solution_notebook("08_training") if is_solved else released_notebook("08_training")
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    wanted = ["own_loss = yours(" in source or source.startswith("def train_step(") for source in sources]
    names: dict[str, Any] = {}
    for number in sorted(needed(sources, wanted)):
        exec(sources[number], names)
    said = capsys.readouterr().out
    for name in ("shift_right", "sequence_loss"):
        assert said.count(f"Your {name} does not pass its check yet, so the course's own is used") == (not is_solved)
    assert names["own_loss"] is (names["sequence_loss"] if is_solved else training.sequence_loss)
    if is_solved:
        calls = []
        names["own_loss"] = lambda *given: calls.append(1) or training.sequence_loss(*given)
        model = Transformer(9, 9, 8, 2, 16, 1)
        ids = torch.randint(1, 9, (2, 5))
        names["train_step"](model, torch.optim.SGD(model.parameters(), lr=0.1), ids, ids, 1, 0, 1.0)
        assert calls == [1]


def test_a_wrong_loss_costs_nothing_in_the_exercises_after_it():
    wrong = {"sequence_loss": "def sequence_loss(logits, targets, pad_id):\n    return logits.sum()"}
    result = judged("08_training", submission("08_training", solutions("08_training") | wrong))
    lost = [name for name, found in by_name(result).items() if score(found) < full(found)]
    assert lost == ["sequence_loss"]
