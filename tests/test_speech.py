"""The reference (features, batches, CTC, errors), and answers as people write them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises
from course_lib.speech import (
    ConvFrontEnd,
    ctc_collapse,
    ctc_loss,
    edit_distance,
    frames,
    hz_to_mel,
    log_mel,
    mel_filterbank,
    mel_to_hz,
    pad_features,
)


def report(exercise: str, answer):
    return grade(all_exercises()[exercise], Subject(answer))


def log_probabilities(time: int, vocab: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(time, vocab, generator=generator, dtype=torch.float64).log_softmax(dim=-1)


# --- features ---------------------------------------------------------------------------------------------


def test_frames_overlap_and_the_rest_is_dropped():
    assert frames(torch.arange(8.0), 4, 2).tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert frames(torch.arange(9.0), 4, 2).shape == (3, 4)


def test_the_mel_scale_there_and_back():
    assert float(hz_to_mel(torch.tensor(1000.0))) == pytest.approx(1000, abs=0.1)  # the scale's fixed point
    frequencies = torch.tensor([0.0, 50.0, 440.0, 4000.0])
    assert torch.allclose(mel_to_hz(hz_to_mel(frequencies)), frequencies, atol=1e-2)


def test_between_the_first_peak_and_the_last_the_triangles_add_up_to_one():
    bank = mel_filterbank(10, 512, 8000)
    assert bank.shape == (10, 257) and bank.min() == 0 and bank.max() <= 1
    peaks = bank.argmax(dim=1)
    assert torch.allclose(bank.sum(dim=0)[peaks[0] + 1 : peaks[-1]], torch.ones(()), atol=1e-5)
    assert (peaks.diff().diff() >= -1).all() and peaks.diff()[-1] > 3 * peaks.diff()[0]  # ever wider


def test_a_tone_is_loudest_in_the_filter_around_it():
    bank = mel_filterbank(20, 256, 8000)
    for frequency in (300.0, 1000.0, 2500.0):
        tone = torch.sin(2 * math.pi * frequency * torch.arange(1000) / 8000)
        loudest = log_mel(tone, 256, 80, bank).argmax(dim=1)
        assert (loudest == bank[:, round(frequency * 256 / 8000)].argmax()).all()


def test_silence_is_finite():
    features = log_mel(torch.zeros(600), 256, 80, mel_filterbank(20, 256, 8000))
    assert torch.allclose(features, torch.full((5, 20), math.log(1e-6)))


# --- batches ----------------------------------------------------------------------------------------------


def test_a_batch_of_two_recordings():
    batch, lengths = pad_features([torch.ones(2, 3), torch.ones(5, 3)])
    assert batch.shape == (2, 5, 3) and lengths.tolist() == [2, 5]
    assert batch[0].sum() == 6 and batch[1].sum() == 15


def test_a_recording_gives_the_same_frames_alone_and_in_a_batch():
    torch.manual_seed(0)
    front_end = ConvFrontEnd(6, 8)
    recordings = [torch.randn(time, 6) for time in (31, 18, 7, 6)]
    together, lengths = front_end(*pad_features(recordings))
    assert lengths.tolist() == [7, 3, 1, 0]
    for row, recording in enumerate(recordings[:3]):
        alone, length = front_end(recording[None], torch.tensor([len(recording)]))
        assert length == lengths[row]
        assert torch.allclose(alone[0], together[row, : lengths[row]], atol=1e-6)


# --- CTC --------------------------------------------------------------------------------------------------


def test_collapse_by_hand():
    assert ctc_collapse([1, 1, 0, 1, 2, 2]) == [1, 1, 2]
    assert ctc_collapse([0, 0, 0]) == []


def test_the_loss_is_torchs():
    for seed, target in enumerate(([1], [2, 1], [3, 3], [1, 2, 1, 4], [4, 4, 4])):
        logits = log_probabilities(7, 5, seed).requires_grad_()
        labels = torch.tensor(target)
        ours = ctc_loss(logits.log_softmax(dim=-1), labels)
        sizes = torch.tensor([7]), torch.tensor([len(target)])
        theirs = F.ctc_loss(logits.log_softmax(dim=-1)[:, None], labels[None], *sizes, reduction="none")[0]
        assert torch.allclose(ours, theirs)
        slopes = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (ours, theirs)]
        assert torch.allclose(*slopes, atol=1e-12)


def test_all_targets_together_have_probability_one():
    """Every path collapses to one target: the probabilities of all targets add up to 1."""
    log_probs = log_probabilities(4, 3)
    targets = [list(target) for n in range(1, 5) for target in itertools.product((1, 2), repeat=n)]
    total = sum(math.exp(-float(ctc_loss(log_probs, torch.tensor(target)))) for target in targets)
    silent = math.exp(float(log_probs[:, 0].sum()))  # the empty target: nothing but blanks
    assert total + silent == pytest.approx(1)


def test_double_letters_need_a_frame_more():
    assert ctc_loss(log_probabilities(2, 3), torch.tensor([1, 1])) > 1e6
    assert ctc_loss(log_probabilities(3, 3), torch.tensor([1, 1])) < 20
    assert ctc_loss(log_probabilities(2, 3), torch.tensor([1, 2])) < 20


# --- mistakes ---------------------------------------------------------------------------------------------


def test_edit_distance_by_hand():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance([1, 2, 3], []) == edit_distance([], [1, 2, 3]) == 3
    assert edit_distance(["one", "two", "three"], ["one", "three"]) == 1


# --- answers as people write them -------------------------------------------------------------------------


def test_a_loop_over_starts_that_stops_too_early():
    def answer(wave, length, hop):
        return torch.stack([wave[s : s + length] for s in range(0, len(wave) - length, hop)])

    assert report("frames", answer).misconception == "stops_before_an_exact_fit"


def test_filters_of_numpy_with_rounded_corners():
    def answer(n_filters, n_fft, sample_rate):
        top = 2595 * math.log10(1 + sample_rate / 1400)
        hertz = [700 * (10 ** (i * top / (n_filters + 1) / 2595) - 1) for i in range(n_filters + 2)]
        corners = [math.floor((n_fft + 1) * f / sample_rate) for f in hertz]
        bank = torch.zeros(n_filters, n_fft // 2 + 1)
        for i in range(n_filters):
            left, centre, right = corners[i : i + 3]
            for b in range(left, centre):
                bank[i, b] = (b - left) / (centre - left)
            for b in range(centre, right):
                bank[i, b] = (right - b) / (right - centre)
        return bank

    assert report("mel_filterbank", answer).misconception == "rounds_the_corners_down_to_bins"


def test_minus_infinity_makes_the_gradient_nan_and_nothing_else():
    def answer(log_probs, target, blank=0):
        labels = [blank]
        for label in target.tolist():
            labels += [label, blank]
        alpha = torch.full((len(labels),), -math.inf, dtype=log_probs.dtype)
        alpha[:2] = log_probs[0, labels[:2]]
        for t in range(1, len(log_probs)):
            new = []
            for s in range(len(labels)):
                ways = [alpha[s]] + ([alpha[s - 1]] if s else [])
                if s > 1 and labels[s] not in (blank, labels[s - 2]):
                    ways.append(alpha[s - 2])
                new.append(torch.logsumexp(torch.stack(ways), dim=0) + log_probs[t, labels[s]])
            alpha = torch.stack(new)
        return -torch.logsumexp(alpha[-2:], dim=0)

    seen = report("ctc_loss", answer)
    assert seen.misconception == "minus_infinity_for_log_zero"
    assert seen.points == seen.max_points - 1


def test_two_mistakes_in_one_front_end():
    class Answer(ConvFrontEnd):
        def forward(self, features, lengths):
            x = self.conv_2(torch.relu(self.conv_1(features.transpose(1, 2))))
            return x.transpose(1, 2), lengths

    assert report("ConvFrontEnd", Answer).misconception == "KeepsTheLengths + ForgetsTheLastReLU"
