"""The whole model of the reference: torch's twin, padding, the future, bad input, parameter counts."""

from __future__ import annotations

import pytest
import torch
from release import released_notebook
from torch import nn

from autograder.authoring import build
from autograder.judging.needed import needed
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises
from course_lib.masks import causal_mask
from course_lib.transformer import (
    Transformer,
    copy_into_torch,
    cross_attention_weights,
    find_the_leak,
    subsampled_lengths,
    torch_state,
    transformer_parameters,
)

SRC_VOCAB, TGT_VOCAB, D_MODEL, HEADS, D_FF, LAYERS = 11, 13, 12, 3, 20, 2
SRC = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [1, 2, 3, 4, 0]])
TGT = torch.tensor([[1, 3, 5, 7], [1, 4, 0, 0], [1, 12, 11, 0]])


def make(norm_first: bool = True, **options) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(SRC_VOCAB, TGT_VOCAB, D_MODEL, HEADS, D_FF, LAYERS, norm_first=norm_first, max_len=9, **options)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.double().eval()


both_norms = pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])


@both_norms
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_gives_what_torch_gives(norm_first):
    ours = make(norm_first)
    theirs = nn.Transformer(D_MODEL, HEADS, LAYERS, LAYERS, D_FF, 0.0, batch_first=True, norm_first=norm_first)
    theirs = theirs.double()
    copy_into_torch(ours, theirs)
    result = theirs(
        ours.positions(ours.src_embedding(SRC)),
        ours.positions(ours.tgt_embedding(TGT)),
        tgt_mask=~causal_mask(TGT.shape[1]),
        src_key_padding_mask=SRC == 0,
        tgt_key_padding_mask=TGT == 0,
        memory_key_padding_mask=SRC == 0,
    )
    torch.testing.assert_close(ours(SRC, TGT)[TGT != 0], ours.output(result)[TGT != 0])
    assert set(torch_state(ours.state_dict())) == set(theirs.state_dict())


@both_norms
def test_padding_changes_nothing(norm_first):
    model = make(norm_first)
    together = model(SRC, TGT)
    alone = model(SRC[1:2, :3], TGT[1:2, :2])
    torch.testing.assert_close(together[1:2, :2], alone)


@both_norms
def test_no_target_sees_its_future_and_each_sees_the_whole_source(norm_first):
    model = make(norm_first)
    ids = torch.tensor([1, 5, TGT_VOCAB - 1, 7])
    seen = find_the_leak(lambda tgt: model(SRC[:1], tgt), ids, TGT_VOCAB)
    assert torch.equal(seen, causal_mask(4))
    sources = find_the_leak(lambda src: model(src, ids[None]), SRC[0], SRC_VOCAB)
    assert sources.shape == (4, 5) and sources.all()


def test_a_leak_is_found():
    model = make()
    model.target_mask = lambda ids: torch.ones(1, ids.shape[1], ids.shape[1], dtype=torch.bool)
    assert find_the_leak(lambda tgt: model(SRC[:1], tgt), torch.tensor([1, 5, 6]), TGT_VOCAB).all()


def test_encode_and_decode_are_the_two_halves():
    model = make()
    assert torch.equal(model.decode(TGT, model.encode(SRC), SRC), model(SRC, TGT))


def test_cross_attention_weights():
    model = make()
    weights = cross_attention_weights(model, SRC, TGT)
    assert weights.shape == (LAYERS, 3, HEADS, 4, 5)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert not weights[:, 1, :, :, 3:].any()


def test_tied_weights_are_one_table():
    model = Transformer(9, 9, D_MODEL, HEADS, D_FF, 1, tie_weights=True)
    assert model.output.weight is model.tgt_embedding.table.weight is model.src_embedding.table.weight
    assert sum(p.numel() for p in model.parameters()) == transformer_parameters(9, D_MODEL, D_FF, 1, 1, extra_norms=2)
    model = Transformer(8, 9, D_MODEL, HEADS, D_FF, 1, tie_weights=True)
    assert model.output.weight is model.tgt_embedding.table.weight is not model.src_embedding.table.weight


@both_norms
def test_parameters_by_formula(norm_first):
    rows = SRC_VOCAB + 2 * TGT_VOCAB
    expected = transformer_parameters(rows, D_MODEL, D_FF, LAYERS, LAYERS, extra_norms=2 if norm_first else 0)
    assert sum(p.numel() for p in make(norm_first).parameters()) == expected


def test_parameters_of_well_known_models():
    base = transformer_parameters(37_000, 512, 2048, encoder_layers=6, decoder_layers=6)
    assert base == 63_082_496  # the paper says 65 million
    gpt2_xl = transformer_parameters(50_257 + 1024, 1600, 6400, encoder_layers=48, decoder_layers=0, extra_norms=1)
    assert gpt2_xl == 1_557_611_200
    bert_large = transformer_parameters(
        30_522 + 512 + 2, 1024, 4096, encoder_layers=24, decoder_layers=0, extra_norms=1
    )
    pooler = 1024 * 1024 + 1024
    assert bert_large + pooler == 335_141_888


def test_initialisation():
    torch.manual_seed(0)
    model = Transformer(500, 600, 64, 4, 128, 2)
    ids = torch.randint(1, 500, (4, 10))
    assert 0.2 < model(ids, ids).std() < 2  # neither certain nor indifferent
    assert not model.encoder.layers[0].attention.w_q.bias.any()
    assert not model.src_embedding.table.weight[0].any()


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        (SRC, torch.full((3, 10), 4), "raise max_len"),
        (torch.full((3, 10), 4), TGT, "raise max_len"),
        (SRC, torch.full((3, 4), TGT_VOCAB), "id 13, but the vocabulary has the ids 0 to 12"),
        (torch.full((3, 4), -1), TGT, "id -1"),
        (torch.tensor([[3, 4], [0, 0], [5, 0]]), TGT, "Row 1 of src_ids is nothing but padding"),
        (torch.empty(0, 4, dtype=torch.long), torch.empty(0, 4, dtype=torch.long), "src_ids is empty"),
        (torch.empty(3, 0, dtype=torch.long), TGT, "src_ids is empty"),
        (SRC.double(), TGT, "whole numbers"),
        (SRC[0], TGT, "whole numbers"),
    ],
)
def test_bad_input_gets_a_clear_word(src, tgt, message):
    with pytest.raises(ValueError, match=message):
        make()(src, tgt)


def test_heads_have_to_divide():
    with pytest.raises(ValueError, match="evenly"):
        Transformer(9, 9, d_model=10, num_heads=3, d_ff=20, num_layers=1)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_lengths_behind_a_convolution(kernel, stride):
    lengths = torch.arange(12)
    expected = [len(range(0, n - kernel + 1, stride)) for n in lengths.tolist()]
    assert subsampled_lengths(lengths, kernel, stride).tolist() == expected


def test_lengths_of_the_notebook():
    assert subsampled_lengths(torch.tensor([60, 100]), kernel=2, stride=2).tolist() == [30, 50]


@both_norms
def test_torch_state_leaves_its_input_alone(norm_first):
    state = make(norm_first).state_dict()
    names = list(state)
    result = torch_state(state)
    assert list(state) == names
    attention = result["decoder.layers.1.multihead_attn.in_proj_weight"]
    assert attention.shape == (3 * D_MODEL, D_MODEL)
    assert torch.equal(attention[D_MODEL : 2 * D_MODEL], state["decoder.layers.1.cross_attention.w_k.weight"])
    assert ("encoder.norm.weight" in result) == norm_first


def test_a_leak_is_found_at_the_end_of_the_vocabulary():
    ids = torch.tensor([TGT_VOCAB - 1, 1])
    assert find_the_leak(lambda tgt: tgt[..., None].double(), ids, TGT_VOCAB).tolist() == [[True, False], [False, True]]


# --- wrong answers of students ----------------------------------------------------------------------------


class NoMasksAtAll(Transformer):
    """As somebody writes it who has never heard of masks."""

    def forward(self, src_ids, tgt_ids):
        memory = self.encoder(self.dropout(self.positions(self.src_embedding(src_ids))))
        return self.output(self.decoder(self.dropout(self.positions(self.tgt_embedding(tgt_ids))), memory))


class OnlyTheEncoderIsMasked(Transformer):
    def forward(self, src_ids, tgt_ids):
        source = (src_ids != self.pad_id).unsqueeze(1).unsqueeze(1)
        n = tgt_ids.size(1)
        target = (tgt_ids != self.pad_id)[:, None] & torch.ones(n, n).tril().bool()
        memory = self.encoder(self.dropout(self.positions(self.src_embedding(src_ids))), source)
        return self.output(self.decoder(self.dropout(self.positions(self.tgt_embedding(tgt_ids))), memory, target))


class BagOfWordsAndProbabilities(Transformer):
    def encode(self, src_ids):
        return self.encoder(self.dropout(self.src_embedding(src_ids)), self.source_mask(src_ids))

    def forward(self, src_ids, tgt_ids):
        return torch.softmax(super().forward(src_ids, tgt_ids), dim=-1)


class PadIsZero(Transformer):
    def source_mask(self, src_ids):
        return src_ids.bool().unsqueeze(1)

    def target_mask(self, tgt_ids):
        return (tgt_ids > 0).unsqueeze(1) & causal_mask(tgt_ids.shape[1])


def only_matrices(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    per_encoder = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model
    per_decoder = 8 * d_model**2 + 2 * d_model * d_ff + 6 * d_model
    return (
        table_rows * d_model + encoder_layers * per_encoder + decoder_layers * per_decoder + 2 * d_model * extra_norms
    )


def no_output_projection_and_no_extra_norms(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    attention = 3 * d_model * d_model + 3 * d_model
    network = 2 * d_model * d_ff + d_ff + d_model
    layers = encoder_layers * (attention + network + 4 * d_model)
    return table_rows * d_model + layers + decoder_layers * (2 * attention + network + 6 * d_model)


def values_before_keys_and_no_decoder(state):
    result = {}
    for name, tensor in torch_state(state).items():
        if name.startswith("decoder"):
            continue
        if "in_proj" in name:
            q, k, v = tensor.chunk(3)
            tensor = torch.cat([q, v, k])
        result[name] = tensor
    return result


def transposed_and_coarse(function, ids, vocab_size):
    rows = []
    before = function(ids[None])
    for j in range(len(ids)):
        other = ids.clone()
        other[j] += -1 if ids[j] == vocab_size - 1 else 1
        rows.append(((function(other[None]) - before).abs().amax(dim=-1) > 0.05)[0])
    return torch.stack(rows)


def by_the_last_token(function, ids, vocab_size):
    before = function(ids.view(1, -1))
    result = []
    for j in range(len(ids)):
        other = torch.cat([ids[:j], torch.tensor([vocab_size - 1]), ids[j + 1 :]])
        result.append((function(other.view(1, -1)) - before).abs().sum(dim=-1).squeeze(0) > 0)
    return torch.stack(result, dim=-1)


def halved(lengths, kernel, stride):
    return torch.tensor([n // stride for n in lengths.tolist()])


def every_start_and_below_zero(lengths, kernel, stride):
    return torch.tensor([n - (kernel - 1) for n in lengths.tolist()])


class NoDropoutOnTheSource(Transformer):
    def encode(self, src_ids):
        return self.encoder(self.positions(self.src_embedding(src_ids)), self.source_mask(src_ids))


class NoDropoutOnTheTarget(Transformer):
    def decode(self, tgt_ids, memory, src_ids):
        x = self.positions(self.tgt_embedding(tgt_ids))
        return self.output(self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids)))


class TriangleOfTheSource(Transformer):
    def forward(self, src_ids, tgt_ids):
        target = (tgt_ids != self.pad_id)[:, None] & causal_mask(src_ids.shape[1])
        memory = self.encode(src_ids)
        x = self.dropout(self.positions(self.tgt_embedding(tgt_ids)))
        return self.output(self.decoder(x, memory, target, self.source_mask(src_ids)))


class EncoderNeverLearns(Transformer):
    def encode(self, src_ids):
        return super().encode(src_ids).detach()


def coarse(function, ids, vocab_size):
    before = function(ids[None])[0]
    others = [torch.where(torch.arange(len(ids)) == j, (ids + 1) % vocab_size, ids) for j in range(len(ids))]
    return torch.stack([((function(o[None])[0] - before).abs() > 1e-3).any(dim=-1) for o in others], dim=1)


def whole_length(lengths, kernel, stride):
    return lengths // stride + 1


def ten_layers(state):
    return {name: value for name, value in torch_state(state).items() if ".layers.10." not in name}


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistakes"),
    [
        ("Transformer", OnlyTheEncoderIsMasked, {"ForgetsTheMaskOfTheMemory"}),
        ("Transformer", PadIsZero, {"TakesZeroForPadding"}),
        ("Transformer", BagOfWordsAndProbabilities, {"both#ForgetsPositionsInTheSource&ReturnsProbabilities"}),
        ("transformer_parameters", only_matrices, {"forgets_all_biases"}),
        (
            "transformer_parameters",
            no_output_projection_and_no_extra_norms,
            {"forgets_the_output_projection", "forgets_the_extra_norms"},
        ),
        ("torch_state", values_before_keys_and_no_decoder, {"both#packs_values_before_keys&forgets_the_decoder"}),
        ("find_the_leak", transposed_and_coarse, {"both#transposes_the_matrix&calls_small_changes_none"}),
        ("find_the_leak", by_the_last_token, {"replaces_by_the_last_token"}),
        ("subsampled_lengths", halved, {"divides_by_the_stride"}),
        ("subsampled_lengths", every_start_and_below_zero, {"both#forgets_the_stride&counts_below_zero"}),
        ("Transformer", NoDropoutOnTheSource, {"ForgetsTheDropoutOfTheSource"}),
        ("Transformer", NoDropoutOnTheTarget, {"ForgetsTheDropoutOfTheTarget"}),
        ("Transformer", TriangleOfTheSource, {""}),  # there is nothing but an error
        ("Transformer", EncoderNeverLearns, {"CutsTheMemoryOff"}),
        ("find_the_leak", coarse, {"calls_tiny_changes_none"}),
        ("subsampled_lengths", whole_length, {"forgets_the_kernel"}),
        ("torch_state", ten_layers, {"forgets_layers_with_two_digits"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_answer_is_named(exercise, wrong, mistakes):
    report = grade(all_exercises()[exercise], Subject(wrong))
    assert set((report.misconception or "").split(" + ")) == mistakes, report


class MaskOnTheCpu(Transformer):
    def target_mask(self, tgt_ids):
        return (tgt_ids != self.pad_id)[:, None] & causal_mask(tgt_ids.shape[1])


def test_a_mask_that_stays_on_the_cpu_is_told_and_costs_no_point():
    report = grade(all_exercises()["Transformer"], Subject(MaskOnTheCpu))
    assert not report.passed and report.points == report.max_points
    assert "your model would fail" in " ".join(str(report).split())
    assert report.diagnosis.sentence.endswith("if `to` is left out where `past` is computed.")


def test_three_mistakes_are_described_by_what_was_seen():
    report = grade(all_exercises()["Transformer"], Subject(NoMasksAtAll))
    failed = next(check for check in report.checks if check.passed is False)
    assert report.points == 2 and report.misconception is None
    assert "comes later" in failed.message


def test_a_model_that_ignores_the_source_earns_the_shape_alone():
    class HandsOn(Transformer):
        def forward(self, src_ids, tgt_ids):
            return nn.functional.one_hot(tgt_ids, self.output.out_features).double()

    report = grade(all_exercises()["Transformer"], Subject(HandsOn))
    assert report.points == 1 and "do not change" in str(report)


@pytest.mark.parametrize("fill", [torch.ones, torch.zeros])
def test_a_constant_matrix_is_no_instrument(fill):
    def constant(function, ids, vocab_size):
        return fill(function(ids[None]).shape[1], len(ids)).bool()

    report = grade(all_exercises()["find_the_leak"], Subject(constant))
    assert report.points == 1
    assert report.misconception in ("forgets_to_look_at_each_output", "asks_the_same_twice")


def test_numbers_where_truth_values_belong_are_not_told_of_masks():
    report = grade(all_exercises()["find_the_leak"], Subject(lambda function, ids, vocab_size: ids + 2))
    assert "True and False only" in report.checks[0].message and "allowed" not in report.checks[0].message


def test_a_count_says_what_was_asked():
    report = grade(all_exercises()["transformer_parameters"], Subject(lambda *sizes: 7))
    assert "without any layer or norm" in " ".join(str(report).split())


def test_other_parameters_get_a_sentence():
    class WithABias(Transformer):
        def __init__(self, *args):
            super().__init__(*args)
            self.output = nn.Linear(self.output.in_features, self.output.out_features)

    report = grade(all_exercises()["Transformer"], Subject(WithABias))
    assert report.points == 0 and "output.bias" in report.checks[0].message


def test_a_wrong_entry_of_the_state_is_called_by_its_name():
    def transposed(state):
        return {name: value.mT if "in_proj_weight" in name else value for name, value in torch_state(state).items()}

    report = grade(all_exercises()["torch_state"], Subject(transposed))
    (said,) = (result.message for result in report.checks if result.passed is False)
    assert "The entry 'encoder.layers.0.self_attn.in_proj_weight' should have shape" in said


def test_dropout_in_evaluation_is_not_taken_for_a_look_at_the_future():
    exercise = all_exercises()["Transformer"]
    wrong = next(m for m in exercise.misconceptions if m.__name__ == "DropsOutInEvaluationToo")
    report = grade(exercise, Subject(wrong), is_diagnosed=False)
    passed = {check.name: check.passed for check in report.checks}
    assert not report.passed
    assert passed["a target position sees itself and what came before, never what comes after"]


@pytest.mark.parametrize("is_solved", [True, False], ids=["solved", "untouched"])
def test_at_the_end_of_the_notebook_the_students_own_class_translates(is_solved, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stem = "07_transformer"
    notebook = build.solution_notebook(stem) if is_solved else released_notebook(stem)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    start = next(number for number, source in enumerate(sources) if 'yours("Transformer"' in source)
    names: dict[str, object] = {}
    for number in sorted(needed(sources, [number >= start for number in range(len(sources))])):
        exec(sources[number], names)
    said = capsys.readouterr().out
    assert "The cat is on the mat  →  le chat est sur le tapis" in said
    assert type(names["translator"]) is (names["Transformer"] if is_solved else Transformer)
    assert said.count("Your Transformer does not pass its check yet, so the course's own is used") == (not is_solved)
