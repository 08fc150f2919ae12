"""The encoder and decoder of the reference against those of torch, weights copied."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.encoder_decoder import Decoder, DecoderLayer, Encoder, EncoderLayer, fused_attention
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention

D_MODEL, HEADS, D_FF = 12, 3, 20

both_norms = pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])


def randomised(module: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def copy_linear(ours: nn.Linear, theirs: nn.Linear) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_norm(ours: nn.Module, theirs: nn.LayerNorm) -> None:
    theirs.load_state_dict({"weight": ours.gain, "bias": ours.bias})


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    parts = [ours.w_q, ours.w_k, ours.w_v]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    copy_linear(ours.w_o, theirs.out_proj)


def copy_shared(ours: nn.Module, theirs: nn.Module, norms: int) -> None:
    copy_linear(ours.feed_forward.w_1, theirs.linear1)
    copy_linear(ours.feed_forward.w_2, theirs.linear2)
    for number in range(1, norms + 1):
        copy_norm(getattr(ours, f"norm_{number}"), getattr(theirs, f"norm{number}"))


def test_fused_attention_is_the_output_of_attention():
    attention = randomised(MultiHeadAttention(D_MODEL, HEADS))
    query, key, value = normal(2, 4, D_MODEL), normal(2, 5, D_MODEL), normal(2, 5, D_MODEL)
    real = torch.arange(5) < torch.tensor([5, 3])[:, None]
    for mask in (None, torch.ones(4, 5).tril().bool(), real[:, None]):
        expected, _ = attention(query, key, value, mask)
        torch.testing.assert_close(fused_attention(attention, query, key, value, mask), expected)


@both_norms
def test_encoder_layer_is_torchs(norm_first):
    ours = randomised(EncoderLayer(D_MODEL, HEADS, D_FF, norm_first=norm_first))
    theirs = nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, 0.0, batch_first=True, norm_first=norm_first).double()
    copy_attention(ours.attention, theirs.self_attn)
    copy_shared(ours, theirs, norms=2)
    x, real = normal(2, 5, D_MODEL), torch.arange(5) < torch.tensor([5, 3])[:, None]
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, real[:, None])[real], expected[real])


@both_norms
def test_decoder_layer_is_torchs(norm_first):
    ours = randomised(DecoderLayer(D_MODEL, HEADS, D_FF, norm_first=norm_first))
    theirs = nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, 0.0, batch_first=True, norm_first=norm_first).double()
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_shared(ours, theirs, norms=3)
    x, memory = normal(2, 4, D_MODEL), normal(2, 5, D_MODEL)
    real = torch.arange(5) < torch.tensor([5, 3])[:, None]
    expected = theirs(x, memory, tgt_mask=~causal_mask(4), memory_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, memory, causal_mask(4), real[:, None]), expected)


@both_norms
def test_stacks_are_their_layers_and_a_norm_in_pre_norm_mode(norm_first):
    x, memory = normal(2, 4, D_MODEL), normal(2, 5, D_MODEL)
    encoder = randomised(Encoder(D_MODEL, HEADS, D_FF, 3, norm_first=norm_first))
    decoder = randomised(Decoder(D_MODEL, HEADS, D_FF, 3, norm_first=norm_first))
    expected = encoder.layers[2](encoder.layers[1](encoder.layers[0](x)))
    torch.testing.assert_close(encoder(x), encoder.norm(expected))
    expected = x
    for layer in decoder.layers:
        expected = layer(expected, memory)
    torch.testing.assert_close(decoder(x, memory), decoder.norm(expected))
    assert isinstance(encoder.norm, nn.Identity) == isinstance(decoder.norm, nn.Identity) == (not norm_first)


def test_layers_share_nothing():
    encoder = Encoder(D_MODEL, HEADS, D_FF, 3)
    parameters = list(encoder.parameters())
    assert len({parameter.data_ptr() for parameter in parameters}) == len(parameters)


def test_encoder_is_blind_to_order_and_decoder_to_the_future():
    x, memory = normal(2, 4, D_MODEL), normal(2, 5, D_MODEL)
    encoder, decoder = randomised(Encoder(D_MODEL, HEADS, D_FF, 2)), randomised(Decoder(D_MODEL, HEADS, D_FF, 2))
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(encoder(x[:, order]), encoder(x)[:, order])
    changed = x.clone()
    changed[:, 2] += 1
    torch.testing.assert_close(
        decoder(changed, memory, causal_mask(4))[:, :2], decoder(x, memory, causal_mask(4))[:, :2], rtol=0, atol=0
    )


def test_dropout_in_training_only():
    encoder = Encoder(D_MODEL, HEADS, D_FF, 1, dropout=0.5).double()
    x = normal(2, 4, D_MODEL)
    assert not torch.equal(encoder(x), encoder(x))
    encoder.eval()
    assert torch.equal(encoder(x), encoder(x))


def test_heads_have_to_divide():
    with pytest.raises(ValueError, match="evenly"):
        EncoderLayer(d_model=10, num_heads=3, d_ff=20)
