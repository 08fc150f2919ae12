"""Classification: references of known numbers, parity with torch, and wrong answers that must be recognised."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import check
from course_lib.checking.settings import ABSENT, Pretrained
from course_lib.classification import (
    IGNORED,
    MaskedLanguageModel,
    SequenceClassifier,
    bert_parameters,
    confusion_matrix,
    fine_tune,
    mask_tokens,
    masked_lm_loss,
    masked_mean,
    wordpiece,
)
from course_lib.encoder_decoder import Encoder
from course_lib.positions import LearnedPositions
from course_lib.sublayers import TokenEmbedding

SIZES = {"vocab_size": 9, "d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 3, "max_len": 6}
IDS = torch.tensor([[3, 7, 2, 5], [4, 8, 0, 0]])


@pytest.fixture(autouse=True)
def own_progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


def small_classifier(num_classes: int = 3) -> SequenceClassifier:
    torch.manual_seed(0)
    return SequenceClassifier(num_classes=num_classes, **SIZES)


# --- one vector, one class ------------------------------------------------------------------------------


def test_masked_mean_by_hand():
    x = torch.tensor([[[2.0, -4.0], [4.0, 1.0], [9.0, 9.0]], [[5.0, 3.0], [1.0, 8.0], [7.0, 6.0]]])
    real = torch.tensor([[True, True, False], [False, False, False]])
    assert masked_mean(x, real).tolist() == [[3.0, -1.5], [0.0, 0.0]]
    assert masked_mean(x[0], real[0]).tolist() == [3.0, -1.5]


def test_masked_mean_ignores_even_nan_in_padding():
    x = torch.tensor([[[1.0], [torch.nan]]])
    assert masked_mean(x, torch.tensor([[True, False]])).item() == 1.0


def test_a_sequence_gets_the_same_logits_in_every_batch():
    model = small_classifier()
    alone = model(IDS[1:, :2])
    assert model(IDS).shape == (2, 3)
    torch.testing.assert_close(model(IDS)[1:], alone)
    torch.testing.assert_close(model(F.pad(IDS, (0, 2)))[1:], alone)


def test_a_classifier_sees_the_order_of_the_tokens():
    model = small_classifier()
    assert not torch.allclose(model(torch.tensor([[3, 7, 2]])), model(torch.tensor([[7, 3, 2]])))


def test_a_row_of_padding_is_refused():
    with pytest.raises(ValueError, match="Row 1 of ids is nothing but padding"):
        small_classifier()(torch.tensor([[3, 4], [0, 0]]))


def test_a_masked_language_model_is_the_same_model_asked_everywhere():
    torch.manual_seed(0)
    teacher = MaskedLanguageModel(**SIZES)
    student = small_classifier(num_classes=SIZES["vocab_size"])
    student.load_state_dict(teacher.state_dict())
    assert teacher(IDS).shape == (2, 4, 9)
    torch.testing.assert_close(masked_mean(teacher(IDS), IDS != 0), student(IDS))


def test_confusion_matrix_by_hand():
    predicted, actual = torch.tensor([0, 1, 1, 2, 1]), torch.tensor([0, 2, 1, 2, 2])
    assert confusion_matrix(predicted, actual, 4).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 2, 1, 0], [0, 0, 0, 0]]
    assert confusion_matrix(predicted[:0], actual[:0], 2).tolist() == [[0, 0], [0, 0]]


# --- pieces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "vocabulary", "pieces"),
    [
        ("walking", {"walk", "##ing", "##i"}, ["walk", "##ing"]),
        ("cat", {"cat", "c"}, ["cat"]),
        ("undo", {"un", "und", "##do"}, ["[UNK]"]),
        ("seaside", {"sea", "side"}, ["[UNK]"]),
        ("aaa", {"a", "##a"}, ["a", "##a", "##a"]),
    ],
)
def test_wordpiece_by_hand(word, vocabulary, pieces):
    assert wordpiece(word, vocabulary) == pieces


# --- learning from text ---------------------------------------------------------------------------------


def test_mask_tokens_by_hand():
    ids = torch.tensor([[1, 7, 4, 9, 5]])
    may_be_chosen = torch.tensor([[False, True, True, True, True]])
    choice = torch.tensor([[0.01, 0.1, 0.1, 0.1, 0.5]])
    action = torch.tensor([[0.1, 0.1, 0.85, 0.95, 0.1]])
    inputs, targets = mask_tokens(ids, may_be_chosen, choice, action, ids + 20, mask_id=3)
    assert inputs.tolist() == [[1, 3, 24, 9, 5]]
    assert targets.tolist() == [[-100, 7, 4, 9, -100]]


def test_mask_tokens_keeps_the_shares():
    torch.manual_seed(0)
    ids = torch.full((200, 100), 5)
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    inputs, targets = mask_tokens(ids, everywhere, torch.rand(ids.shape), torch.rand(ids.shape), ids + 1, mask_id=3)
    chosen = targets == 5
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.01)
    shares = [(inputs[chosen] == token).float().mean().item() for token in (3, 6, 5)]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.03)


def test_masked_lm_loss_is_torchs_cross_entropy():
    torch.manual_seed(0)
    logits = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[IGNORED, 4, IGNORED, 0, IGNORED], [IGNORED] * 5, [6, IGNORED, IGNORED, IGNORED, 2]])
    torch.testing.assert_close(masked_lm_loss(logits, targets), F.cross_entropy(logits.transpose(1, 2), targets))
    nothing = masked_lm_loss(logits, torch.full_like(targets, IGNORED))
    nothing.backward()
    assert nothing.item() == 0 and not logits.grad.any()


def test_masked_lm_loss_by_hand():
    """Probabilities 1/4 and 1/2 at the two chosen places: (ln 4 + ln 2) / 2."""
    probabilities = torch.tensor([[[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
    targets = torch.tensor([[2, 0, IGNORED]])
    assert masked_lm_loss(probabilities.log(), targets).item() == pytest.approx(1.0397, abs=1e-4)


# --- fine-tuning ----------------------------------------------------------------------------------------


def test_a_step_of_fine_tuning_moves_what_is_not_frozen():
    model = small_classifier()
    groups = fine_tune(model, 2, body_rate=1e-3, head_rate=1e-2, frozen_layers=2)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(groups)
    F.cross_entropy(model(IDS), torch.tensor([0, 1])).backward()
    optimizer.step()
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    frozen = ("embedding.", "positions.", "encoder.layers.0.", "encoder.layers.1.")
    assert moved and not any(name.startswith(frozen) for name in moved)
    assert {"head.weight", "head.bias", "encoder.norm.gain"} <= moved
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 1e-2]


def test_a_new_head_is_as_precise_as_the_old_one():
    model = small_classifier().double()
    fine_tune(model, 2, 0.1, 0.2, frozen_layers=3)
    assert model.head.weight.dtype == torch.float64 and model(IDS).shape == (2, 2)


def test_pretrained_reads_groups_in_every_form_that_optimisers_take():
    setting = Pretrained(num_classes=3, d_model=2, num_layers=1)
    (model,) = setting.make()
    named = {"params": model.head.named_parameters(), "lr": torch.tensor(0.5)}
    alone = {"params": model.encoder.norm.weight, "lr": 1}
    read = setting.read(({**named}, alone, {"params": [nn.Parameter(torch.ones(1)), model.head.bias]}), model)
    listed = {name: rate for name, rate in read["rates"].items() if rate != ABSENT}
    assert listed == {"encoder.norm.weight": 1.0, "head.bias": None, "head.weight": 0.5}
    assert read["twice"] == ["head.bias"] and read["strangers"] == 1


# --- counting -------------------------------------------------------------------------------------------


def test_bert_large_and_base():
    assert bert_parameters(30522, 512, 2, 1024, 4096, 24) == 335_141_888
    assert bert_parameters(30522, 512, 2, 768, 3072, 12) == 109_482_240


# --- known mistakes, written as somebody else would write them ------------------------------------------


def mean_without_care(x, real):
    return (x * real[..., None]).sum(-2) / real.sum(-1, keepdim=True)


def mean_of_everything(x, real):
    return torch.mean(x, dim=-2)


class MeansEverything(nn.Module):
    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.tokens = TokenEmbedding(vocab_size, d_model, pad_id)
        self.places = LearnedPositions(max_len, d_model)
        self.body = Encoder(d_model, num_heads, d_ff, num_layers)
        self.classify = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        return self.classify(self.body(self.places(self.tokens(ids))).mean(dim=1))


class FirstAsProbabilities(SequenceClassifier):
    def forward(self, ids):
        mask = (ids != self.pad_id).unsqueeze(1)
        return torch.softmax(self.head(self.encoder(self.positions(self.embedding(ids)), mask)[:, 0]), dim=1)


def matrix_by_fancy_indexing(predicted, actual, num_classes):
    matrix = torch.zeros(num_classes, num_classes)
    matrix[actual, predicted] += 1
    return matrix


def matrix_turned_and_fancy(predicted, actual, num_classes):
    return matrix_by_fancy_indexing(actual, predicted, num_classes)


def pieces_with_plain_entries(word, vocabulary):
    pieces = []
    while word:
        n = next((n for n in range(len(word), 0, -1) if word[:n] in vocabulary), 0)
        if not n:
            return ["[UNK]"]
        pieces.append("##" + word[:n] if pieces else word[:n])
        word = word[n:]
    return pieces


def pieces_short_and_cut_off(word, vocabulary):
    pieces, start = [], 0
    for end in range(1, len(word) + 1):
        piece = ("##" if start else "") + word[start:end]
        if piece in vocabulary:
            pieces.append(piece)
            start = end
    return pieces


def masks_everything_chosen(ids, may_be_chosen, choice, action, random_ids, mask_id):
    chosen = may_be_chosen & (choice < 0.15)
    return ids.masked_fill(chosen, mask_id), ids.masked_fill(~chosen, -100)


def masks_padding_and_never_keeps(ids, may_be_chosen, choice, action, random_ids, mask_id):
    chosen = choice < 0.15
    shown = torch.where(action < 0.8, mask_id, random_ids)
    return torch.where(chosen, shown, ids), torch.where(chosen, ids, -100)


def loss_of_torch(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def loss_over_everything(logits, targets):
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean()


def tuned_with_one_rate(model, num_classes, body_rate, head_rate, frozen_layers):
    model.head = nn.Linear(model.head.in_features, num_classes)
    for part in (model.embedding, model.positions, *model.encoder.layers[:frozen_layers]):
        part.requires_grad_(False)
    return [{"params": [p for p in model.parameters() if p.requires_grad], "lr": body_rate}]


def tuned_without_norm_and_new_head(model, num_classes, body_rate, head_rate, frozen_layers):
    old = list(model.head.parameters())
    model.head = nn.Linear(model.head.in_features, num_classes)
    for part in (model.embedding, model.positions, *model.encoder.layers[:frozen_layers]):
        part.requires_grad_(False)
    body = model.encoder.layers[frozen_layers:].parameters()
    return [{"params": body, "lr": body_rate}, {"params": old, "lr": head_rate}]


def frozen_by_an_attribute(model, num_classes, body_rate, head_rate, frozen_layers):
    model.head = nn.Linear(model.head.in_features, num_classes)
    model.embedding.requires_grad = model.positions.requires_grad = False
    for layer in model.encoder.layers[:frozen_layers]:
        layer.requires_grad = False
    body = [*model.encoder.layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": model.head.parameters(), "lr": head_rate}]


def twelve_d_squared(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    tables = (vocab_size + max_len + num_segments + 2) * d_model
    return tables + num_layers * (12 * d_model**2 + 13 * d_model) + d_model * (d_model + 1)


def without_pooler_and_norm(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    layer = 4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + 5 * d_model
    return (vocab_size + max_len + num_segments) * d_model + num_layers * layer


KNOWN = [
    ("masked_mean", mean_without_care, "divides_by_zero"),
    ("masked_mean", mean_of_everything, "averages_padding_too"),
    ("SequenceClassifier", MeansEverything, "KnowsNoPadding"),
    ("SequenceClassifier", FirstAsProbabilities, "both#TakesTheFirstPosition&ReturnsProbabilities"),
    ("confusion_matrix", matrix_by_fancy_indexing, "counts_each_pair_once"),
    ("confusion_matrix", matrix_turned_and_fancy, "both#exchanges_rows_and_columns&counts_each_pair_once"),
    ("wordpiece", pieces_with_plain_entries, "looks_pieces_up_without_marks"),
    ("wordpiece", pieces_short_and_cut_off, "takes_the_shortest + returns_the_pieces_before_the_gap"),
    ("mask_tokens", masks_everything_chosen, "masks_whatever_was_chosen"),
    ("mask_tokens", masks_padding_and_never_keeps, "chooses_forbidden_places + replaces_the_last_20_percent"),
    ("masked_lm_loss", loss_of_torch, "divides_by_zero"),
    ("masked_lm_loss", loss_over_everything, "divides_by_all_places"),
    ("fine_tune", tuned_with_one_rate, "gives_all_the_bodys_rate"),
    ("fine_tune", tuned_without_norm_and_new_head, "collects_the_old_head + forgets_the_norm"),
    ("fine_tune", frozen_by_an_attribute, "sets_it_on_the_module"),
    ("bert_parameters", twelve_d_squared, "assumes_four_times_the_width"),
    ("bert_parameters", without_pooler_and_norm, "both#forgets_the_pooler&forgets_the_norm_of_the_tables"),
]


@pytest.mark.parametrize(("name", "answer", "mistake"), KNOWN, ids=[answer.__name__ for _, answer, _ in KNOWN])
def test_mistakes_are_named(name, answer, mistake):
    report = check(name, answer)
    assert report.outcome == "wrong" and report.points < report.max_points
    assert report.misconception == mistake


def test_an_optimiser_is_not_what_is_asked_for():
    def returns_an_optimiser(model, *others):
        return torch.optim.AdamW(fine_tune(model, *others))

    report = check("fine_tune", returns_an_optimiser)
    assert report.points == 0
    assert "it is a torch.optim.adamw.AdamW. The caller makes the optimiser from the groups." in " ".join(
        str(report).split()
    )
