"""The recogniser: its batches, its training, what it hears, and the one that comes with the course."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from fake_gpu import FakeGpu

from course_lib import recogniser
from course_lib.recogniser import (
    BLANK,
    FIRST_DIGIT,
    N_MELS,
    Batch,
    Recogniser,
    Recording,
    alignment,
    batches_of,
    both_losses,
    disturb,
    error_rate,
    features_of,
    load_recogniser,
    make_batch,
    recognise,
    record,
    save_recogniser,
    share_inside,
    shares_of_heads,
    train_recogniser,
    training_recordings,
)
from course_lib.speech import ctc_loss
from course_lib.translation import EOS, PAD
from course_lib.voices import RATE, load_voices, make_utterances


@pytest.fixture(scope="module")
def shipped() -> Recogniser:
    return load_recogniser()


@pytest.fixture(scope="module")
def utterances():
    return make_utterances(load_voices().unseen, 24, seed=8, decibels=(30, 30))


@pytest.fixture(scope="module")
def recordings(utterances):
    return record(utterances)


def small_recogniser() -> Recogniser:
    torch.manual_seed(0)
    return Recogniser(16, 2, 16, 1, 1)


# --- data -------------------------------------------------------------------------------------------------------------


def test_features_do_not_know_how_loud_it_was(utterances):
    wave = utterances[0].wave
    features = features_of(wave)
    assert features.mean(dim=0).abs().max() < 1e-5 and features.std().item() == pytest.approx(1.0)
    assert (features_of(0.1 * wave) - features).abs().max() < 1e-3


def test_a_batch(recordings):
    batch = make_batch(recordings[:3])
    longest = max(len(each.features) for each in recordings[:3])
    assert batch.features.shape == (3, longest, N_MELS)
    assert batch.lengths.tolist() == [len(each.features) for each in recordings[:3]]
    for row, each in zip(batch.targets, recordings):
        assert row[: len(each.ids) + 1].tolist() == [*each.ids.tolist(), EOS] and row[len(each.ids) + 1 :].eq(PAD).all()


def test_batches_are_the_same_for_a_seed_and_hold_similar_lengths(recordings):
    first, second = (list(batches_of(recordings, 4, 3, seed=1)) for _ in range(2))
    assert all(torch.equal(a.features, b.features) for a, b in zip(first, second))
    many = [Recording(torch.zeros(40 + i, N_MELS), torch.tensor([3])) for i in range(200)]
    for batch in batches_of(many, 4, 20, seed=1):
        assert batch.lengths.min() > 0.35 * batch.lengths.max()


def test_disturbing_changes_time_and_hides_bands(recordings):
    generator = torch.Generator().manual_seed(0)
    features = recordings[0].features
    changed = [disturb(features, generator) for _ in range(50)]
    factors = [len(each) / len(features) for each in changed]
    assert 0.79 < min(factors) < 0.95 and 1.4 < max(factors) < 1.61
    hidden = [each.eq(0).all(dim=0).sum().item() for each in changed]  # filters that are 0 all the time
    assert 3 < max(hidden) <= 6
    assert not torch.equal(features, changed[0]) and recordings[0].features.ne(0).any(dim=1).all()


def test_training_recordings_have_every_length():
    made = training_recordings(load_voices().train, 30, seed=2)
    assert {len(each.ids) for each in made} == {1, 2, 3, 4, 5, 6}


# --- the model --------------------------------------------------------------------------------------------------------


def test_padding_changes_nothing(recordings):
    model = small_recogniser().eval()
    short, batch = make_batch(recordings[:1]), make_batch(recordings[:4])
    loud = Batch(batch.features.clone(), batch.lengths, batch.targets)
    loud.features[0, int(batch.lengths[0]) :] = 5.0
    alone, length = model.encode(short.features, short.lengths)
    for other in (batch, loud):
        memory, lengths = model.encode(other.features, other.lengths)
        assert lengths[0] == length[0]
        assert torch.allclose(memory[0, : lengths[0]], alone[0], atol=1e-5)
        logits = model.decode(batch.targets[:1], memory[:1], lengths[:1])
        assert torch.allclose(logits, model.decode(batch.targets[:1], alone, length), atol=1e-5)


def test_the_decoder_does_not_see_what_comes(recordings):
    model = small_recogniser().eval()
    batch = make_batch(recordings[:1])
    memory, lengths = model.encode(batch.features, batch.lengths)
    changed = batch.targets.clone()
    changed[0, 2] = FIRST_DIGIT + (changed[0, 2] - FIRST_DIGIT + 1) % 10
    moved = (
        (model.decode(batch.targets, memory, lengths) - model.decode(changed, memory, lengths)).abs().amax(dim=-1)[0]
    )
    assert moved[:2].eq(0).all() and moved[2] > 0


def test_the_loss_is_that_of_the_notebook(recordings):
    model = small_recogniser().eval()
    batch = make_batch(recordings[:3])
    ctc, _ = both_losses(model, batch)
    memory, lengths = model.encode(batch.features, batch.lengths)
    log_probs = model.ctc(memory).log_softmax(dim=-1)
    rows = zip(log_probs, lengths.tolist(), recordings)
    total = sum(ctc_loss(row[:length], each.ids, BLANK) for row, length, each in rows)
    assert ctc.item() == pytest.approx(total.item() / sum(len(each.ids) for each in recordings[:3]), rel=1e-4)


def test_a_few_steps_lower_the_loss(recordings):
    model, seen = small_recogniser(), []
    batches = [make_batch(recordings[:8])] * 30
    losses = train_recogniser(model, batches, 30, report=lambda *it: seen.append(it))
    assert sum(losses[-1]) < 0.6 * sum(losses[0]) and not model.training
    assert [step for step, _ in seen] == list(range(1, 31))


# --- what it hears ----------------------------------------------------------------------------------------------------


def test_the_one_that_comes_with_the_course(shipped, utterances, recordings):
    assert recogniser.WEIGHTS.stat().st_size < 2e6
    heard = recognise(shipped, recordings)
    said = [each.digits for each in utterances]
    assert error_rate(heard.ctc, said) < 0.15 and error_rate(heard.both, said) < 0.15
    assert error_rate(heard.attention, said) < 0.25


def test_the_order_of_recordings_does_not_matter(shipped, recordings):
    forwards, backwards = recognise(shipped, recordings[:6]), recognise(shipped, recordings[:6][::-1])
    assert all(a == b[::-1] for a, b in zip(forwards, backwards))


def test_both_is_the_better_of_the_two():
    model = small_recogniser()  # untrained, so that the two disagree
    recordings = training_recordings(load_voices().train, 6, seed=1)
    by_decoder = recognise(model, recordings, ctc_weight=0.0)
    assert by_decoder.ctc != by_decoder.attention
    assert by_decoder.both == by_decoder.attention, "greedy decoding is what the decoder finds best"


def test_scores(shipped, recordings):
    """The decoder's score of its own row is that of its choices, one after the other."""
    batch = make_batch(recordings[:1])
    with torch.no_grad():
        memory, lengths = shipped.encode(batch.features, batch.lengths)
        ids = recogniser.read_decoder(shipped, memory, lengths)
        score, total = recogniser.decoder_score(shipped, memory, lengths, ids), 0.0
        given = [1]
        for label in [*ids[0], EOS]:
            total += shipped.decode(torch.tensor([given]), memory, lengths)[0, -1].log_softmax(dim=-1)[label].item()
            given.append(label)
        assert score.item() == pytest.approx(total, abs=1e-3)
        log_probs = shipped.ctc(memory).log_softmax(dim=-1)
        by_ctc = recogniser.ctc_score(log_probs, lengths, ids).item()
        assert by_ctc == pytest.approx(-ctc_loss(log_probs[0], torch.tensor(ids[0])).item(), rel=1e-4)


def test_a_recording_without_a_digit(shipped):
    """Nothing is said; both ways may answer with no digit at all, and their scores are still numbers."""
    noise = features_of(torch.randn(RATE, generator=torch.Generator().manual_seed(0)))
    heard = recognise(shipped, [Recording(noise, torch.tensor([], dtype=torch.long))])
    assert all(len(way) == 1 for way in heard)


def test_error_rate():
    assert error_rate([[1, 2], [3]], [(1, 2), (3,)]) == 0
    assert error_rate([[1], [3, 3, 3]], [(1, 2), (3,)]) == 1.0
    assert error_rate([[]], [(1, 2)], lambda a, b: 7) == 3.5
    with pytest.raises(ValueError, match="zip"):
        error_rate([[1]], [(1,), (2,)])


def test_alignment(shipped, utterances, recordings):
    weights = alignment(shipped, recordings[0])
    _, lengths = shipped.front_end(recordings[0].features[None], torch.tensor([len(recordings[0].features)]))
    assert weights.shape == (4, len(recordings[0].ids) + 1, int(lengths))
    assert torch.allclose(weights.sum(dim=-1), torch.ones(weights.shape[:2]), atol=1e-5)
    shares = shares_of_heads(shipped, utterances[:8])
    assert shares.shape == (4,) and shares.max() > 0.5


def test_share_inside():
    weights = F.one_hot(torch.tensor([0, 20, 3]), 40).float()  # (2 digits and EOS, 40 frames of 40 ms)
    places = [(0, RATE // 10), (RATE // 10, RATE // 5)]  # the second is looked for in the wrong place
    assert share_inside(weights, places) == 0.5


def test_weights_survive_the_file(tmp_path, shipped):
    save_recogniser(shipped, tmp_path / "weights.pt")
    kept = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert all(torch.equal(kept[name].float(), value) for name, value in shipped.state_dict().items())


def test_it_works_on_a_gpu(recordings):
    model = small_recogniser()
    with FakeGpu([*model.parameters(), *model.buffers()]):
        train_recogniser(model, [make_batch(recordings[:2])], 1)
        recognise(model, recordings[:2])
        assert alignment(model, recordings[0]).shape[0] == 2
