"""Readers: how they are trained, those that come with the course, and what is measured of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from course_lib import languages, reader, reviews
from course_lib.classification import SequenceClassifier, fine_tune

SENTENCE = "although the plot is not dull , the music is really shabby"
IDS = reviews.encode_words(SENTENCE.split())[None]


@pytest.fixture(scope="module")
def judge() -> SequenceClassifier:
    return reader.load_judge()


@pytest.fixture(scope="module")
def some_twins():
    return reviews.encode_reviews(reviews.twins(300, seed=9))


# --- those that come with the course ----------------------------------------------------------------------------------


def test_the_judge_reads_twins(judge, some_twins):
    assert reader.accuracy(judge, *some_twins) > 0.98


def test_the_linguist_knows_most_names():
    ids, labels = languages.encode_names(languages.make_names().test[:500])
    assert reader.accuracy(reader.load_linguist(), ids, labels) > 0.7


def test_eight_labels_are_enough_for_the_pretrained_one():
    pretrained = reader.load_pretrained()
    model = SequenceClassifier(len(reviews.vocabulary()), len(reviews.vocabulary()), **reader.REVIEW_SIZES)
    model.load_state_dict(pretrained.state_dict())
    torch.manual_seed(1)
    groups = fine_tune(model, 2, 1e-3, 1e-2, frozen_layers=0)
    labelled = reviews.encode_reviews(reviews.few_notes(8, seed=101))
    reader.train_classifier(model, [labelled] * 60, 60, groups)
    assert reader.accuracy(model, *reviews.encode_reviews(reviews.notes(500, seed=6, opinions=3))) > 0.8


def test_the_files_are_small():
    assert reader.WEIGHTS.stat().st_size < 2e6


def test_weights_survive_the_file(tmp_path, judge):
    reader.save_readers({"judge": judge}, tmp_path / "readers.pt")
    kept = torch.load(tmp_path / "readers.pt", weights_only=True)["judge"]
    assert all(torch.equal(kept[name].float(), value) for name, value in judge.state_dict().items())


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_few_steps_lower_the_loss():
    data = reviews.encode_reviews(reviews.few_notes(16, seed=2))
    torch.manual_seed(0)
    model = reader.new_judge()
    losses = reader.train_classifier(model, [data] * 30, 30, reader.everything(model, 3e-3))
    assert losses[-1] < 0.3 * losses[0] and not model.training


def test_filling_gaps_lowers_the_loss():
    ids, _ = reviews.encode_reviews(reviews.notes(64, seed=2))
    torch.manual_seed(0)
    losses = reader.pretrain(reader.new_gap_filler(), [ids] * 40, 40, rate=3e-3, seed=1)
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_riddles_ask_for_words_alone():
    ids = F.pad(IDS, (0, 3)).repeat(200, 1)
    ids[:, 0] = reviews.CLS
    inputs, targets = reader.hide_words(ids, torch.Generator().manual_seed(0))
    assert targets[:, 0].eq(-100).all() and targets[:, -3:].eq(-100).all()
    chosen = targets != -100
    assert torch.equal(targets[chosen], ids[chosen]) and torch.equal(inputs[~chosen], ids[~chosen])


def test_groups_keep_their_own_rates():
    torch.manual_seed(0)
    model = reader.new_judge()
    body = {name: p.detach().clone() for name, p in model.encoder.named_parameters()}
    head = model.head.weight.detach().clone()
    groups = [
        {"params": list(model.encoder.parameters()), "lr": 0.0},
        {"params": list(model.head.parameters()), "lr": 0.1},
    ]
    reader.train_classifier(model, [(IDS, torch.tensor([1]))] * 3, 3, groups)
    assert all(torch.equal(p, body[name]) for name, p in model.encoder.named_parameters())
    assert not torch.equal(model.head.weight, head)


def test_batches_are_no_wider_than_they_need():
    ids = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0]])
    for rows, labels in reader.batches_of(ids, torch.tensor([0, 1]), batch_size=3, steps=5, seed=1):
        assert rows.shape == (3, 2 if 0 in labels else 1)


# --- other models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["mean", "max", "cls"])
def test_padding_plays_no_part_in_any_pooling(pool):
    torch.manual_seed(0)
    model = reader.PoolingClassifier(pool, reviews.CLS, len(reviews.vocabulary()), 3, **reader.REVIEW_SIZES).eval()
    assert torch.allclose(model(IDS), model(F.pad(IDS, (0, 4))), atol=1e-5)


def test_blind_models(some_twins):
    """Twins look the same to a bag of words and to attention without positions."""
    torch.manual_seed(0)
    ids, _ = some_twins
    for model in (reader.BagOfWords(len(reviews.vocabulary()), 2), reader.without_positions(reader.new_judge())):
        logits = model.eval()(ids)
        assert torch.allclose(logits[::2], logits[1::2], atol=1e-4)


# --- what did it look at? ---------------------------------------------------------------------------------------------


def test_its_own_attention_gives_its_own_answer(judge, some_twins):
    ids, _ = some_twins
    logits, weights = reader.logits_with_attention(judge, ids, lambda _, own: own)
    assert torch.allclose(logits, judge(ids), atol=1e-4)
    assert [w.shape for w in weights] == [(len(ids), 4, ids.shape[1], ids.shape[1])] * 2
    uniform, _ = reader.logits_with_attention(judge, ids, lambda _, own: torch.full_like(own, 1 / own.shape[-1]))
    assert not torch.allclose(uniform, logits, atol=0.1)


def test_attention_received_sums_to_one(judge, some_twins):
    ids, _ = some_twins
    received = reader.attention_received(judge, ids)
    assert torch.allclose(received.sum(dim=1), torch.ones(len(ids)), atol=1e-5)
    assert received[ids == reviews.PAD].eq(0).all()


def test_gradient_size_is_the_steepest_change(judge):
    vectors = judge.embedding(IDS).detach().requires_grad_()
    logits = judge.head(judge.encoder(judge.positions(vectors)).mean(dim=1))
    (logits[0].max() - logits[0].min()).backward()
    assert torch.allclose(reader.gradient_size(judge, IDS), vectors.grad.norm(dim=-1), rtol=1e-3)


def test_hiding_a_word_changes_the_margin(judge):
    effects = reader.effect_of_hiding(judge, IDS)
    logits = judge(IDS)
    classes = reader.two_best(logits)
    fallen = reader.margin(logits, classes) - reader.margin(judge(IDS[:, :-1]), classes)  # the last word left out
    assert effects.shape == IDS.shape and effects[0, -1].item() == pytest.approx(fallen.item(), abs=1e-4)


def test_another_attention_with_the_same_answer(judge):
    own_answer, other_answer, own, other = reader.other_attention(judge, IDS, steps=100)
    assert (own_answer - other_answer).abs().max() < 0.02
    assert all(torch.allclose(w.sum(dim=-1), torch.ones(4, IDS.shape[1])) for w in own + other)
    assert min(reader.distance_between(a, b).item() for a, b in zip(own, other)) > 0.3


def test_distance_between_weights():
    a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    assert reader.distance_between(a, a) == 0 and reader.distance_between(a, b) == 1
