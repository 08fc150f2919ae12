"""The whole model of the reference: torch's twin, padding, the future, bad input, parameter counts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.masks import causal_mask
from course_lib.transformer import (
    Transformer,
    copy_into_torch,
    cross_attention_weights,
    find_the_leak,
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
