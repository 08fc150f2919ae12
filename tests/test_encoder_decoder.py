"""Encoder and decoder: the references against torch's own, and what students are told."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import encoder_decoder as reference
from course_lib.checking.grading import grade
from course_lib.checking.merge import merged
from course_lib.checking.parts import Sizes, placements
from course_lib.checking.subject import Subject
from course_lib.encoder_decoder import Decoder, DecoderLayer, Encoder, EncoderLayer, fused_attention
from course_lib.exercises import all_exercises
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.sublayers import FeedForward, LayerNorm, residual_post_norm, residual_pre_norm

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


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_of_the_papers_sizes():
    layer = EncoderLayer(512, 8, 2048)
    assert count(layer.attention) == 1_050_624 and count(layer.feed_forward) == 2_099_712
    assert count(layer) == 3_152_384
    assert count(Encoder(512, 8, 2048, 6, norm_first=False)) == 6 * 3_152_384


@both_norms
def test_a_silent_layer_lets_x_through(norm_first):
    layer = EncoderLayer(3, 1, 5, norm_first=norm_first).eval()
    for linear in (layer.attention.w_o, layer.feed_forward.w_2):
        nn.init.zeros_(linear.weight), nn.init.zeros_(linear.bias)
    result = layer(torch.tensor([[[1.0, 2.0, 6.0]]]))
    want = [1.0, 2.0, 6.0] if norm_first else [-0.9258, -0.4629, 1.3887]
    torch.testing.assert_close(result[0, 0], torch.tensor(want), atol=1e-4, rtol=0)


def test_full_dropout_removes_every_update():
    x, memory = normal(2, 4, D_MODEL), normal(2, 5, D_MODEL)
    layer = DecoderLayer(D_MODEL, HEADS, D_FF, dropout=1.0).double().train()
    torch.testing.assert_close(layer(x, memory, causal_mask(4)), x)


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_a_stack_needs_a_layer(stack):
    with pytest.raises(ValueError, match="at least one layer"):
        stack(D_MODEL, HEADS, D_FF, 0)


@pytest.mark.parametrize("shape", [(3, 5, D_MODEL), (2, 5, D_MODEL + 1)], ids=["sentences", "features"])
def test_memory_has_to_belong_to_the_targets(shape):
    decoder = Decoder(D_MODEL, HEADS, D_FF, 1)
    with pytest.raises(ValueError, match="do not belong together"):
        decoder(torch.zeros(2, 4, D_MODEL), torch.zeros(*shape))


# --- students' answers ----------------------------------------------------------------------------------


def report_on(name: str, answer: type):
    return grade(all_exercises()[name], Subject(answer))


class EncoderParts(nn.Module):
    """The `__init__` that the notebook gives."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first


class DecoderParts(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.norm_3 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first


@pytest.mark.parametrize(("name", "parts"), [("EncoderLayer", EncoderParts), ("DecoderLayer", DecoderParts)])
def test_given_parts_with_nothing_written_are_not_attempted(name, parts):
    class Untouched(parts):
        def forward(self, *inputs):
            raise NotImplementedError()

    report = report_on(name, Untouched)
    assert report.outcome == "not attempted" and report.points == 0


def test_a_forward_inside_of_init_is_not_taken_for_nothing():
    report = report_on("EncoderLayer", EncoderParts)  # no forward at all: torch raises NotImplementedError itself
    assert report.outcome == "raised" and report.points == 0
    assert "forward" in str(report)


class KeepsTheNormalisedX(EncoderParts):
    """The same mistake in other words: x is overwritten by the norm in pre-norm mode."""

    def forward(self, x, mask=None):
        if self.norm_first:
            x = self.norm_1(x)
        x = x + self.dropout(self.attention(x, x, x, mask)[0])
        if not self.norm_first:
            x = self.norm_1(x)
        if self.norm_first:
            x = self.norm_2(x)
        x = x + self.dropout(self.feed_forward(x))
        return x if self.norm_first else self.norm_2(x)


class OneNormForAll(EncoderParts):
    def forward(self, x, mask=None):
        for step in (lambda h: self.attention(h, h, h, mask)[0], self.feed_forward):
            read = self.norm_1(x) if self.norm_first else x
            x = x + self.dropout(step(read))
            x = x if self.norm_first else self.norm_1(x)
        return x


class NeverPreNorm(EncoderParts):
    def forward(self, x, mask=None):
        h = self.norm_1(x + self.dropout(self.attention(x, x, x, mask)[0]))
        return self.norm_2(h + self.dropout(self.feed_forward(h)))


class NoDropoutAtAll(EncoderParts):
    def forward(self, x, mask=None):
        if self.norm_first:
            h = self.norm_1(x)
            x = x + self.attention(h, h, h, mask)[0]
            return x + self.feed_forward(self.norm_2(x))
        x = self.norm_1(x + self.attention(x, x, x, mask)[0])
        return self.norm_2(x + self.feed_forward(x))


class DropoutAsAFunction(EncoderParts):
    """F.dropout, which does not know about evaluation, in one of the sub-layers."""

    forgets = "attention"

    def drop(self, update, sublayer):
        return F.dropout(update, self.dropout.p) if sublayer == self.forgets else self.dropout(update)

    def forward(self, x, mask=None):
        if self.norm_first:
            h = self.norm_1(x)
            x = x + self.drop(self.attention(h, h, h, mask)[0], "attention")
            return x + self.drop(self.feed_forward(self.norm_2(x)), "network")
        x = self.norm_1(x + self.drop(self.attention(x, x, x, mask)[0], "attention"))
        return self.norm_2(x + self.drop(self.feed_forward(x), "network"))


class DropoutAsAFunctionInTheNetwork(DropoutAsAFunction):
    forgets = "network"


class NeverPreNormNorAMask(EncoderParts):
    def forward(self, x, mask=None):
        x = self.norm_1(x + self.dropout(self.attention(x, x, x)[0]))
        x = self.norm_2(x + self.dropout(self.feed_forward(x)))
        return x


class AsksItself(DecoderParts):
    def forward(self, x, memory, mask=None, memory_mask=None):
        for attention, norm in ((self.self_attention, self.norm_1), (self.cross_attention, self.norm_2)):
            h = norm(x) if self.norm_first else x
            x = x + self.dropout(attention(h, h, h, mask)[0])
            x = x if self.norm_first else norm(x)
        if self.norm_first:
            return x + self.dropout(self.feed_forward(self.norm_3(x)))
        return self.norm_3(x + self.dropout(self.feed_forward(x)))


class NoMasksForTheTargetsAndTheSource(DecoderParts):
    def forward(self, x, memory, mask=None, memory_mask=None):
        steps = [
            (lambda h: self.self_attention(h, h, h, mask)[0], self.norm_1),
            (lambda h: self.cross_attention(h, memory, memory)[0], self.norm_1),
            (self.feed_forward, self.norm_3),
        ]
        for step, norm in steps:
            x = x + self.dropout(step(norm(x))) if self.norm_first else norm(x + self.dropout(step(x)))
        return x


class OneLayerOften(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        self.layer = EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first)
        self.times = num_layers
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for _ in range(self.times):
            x = self.layer(x, mask)
        return self.norm(x)


class NoNormAndNoMask(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        layers = [EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x)
        return x


class StackOf(nn.Module):
    """The `__init__` of a right stack."""

    layer: type[nn.Module] = DecoderLayer

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        layers = [self.layer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()


class OneMaskTwice(StackOf):
    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=mask)
        return self.norm(x)


class IgnoresTheMask(StackOf):
    def forward(self, x, memory, mask=None, memory_mask=None):
        triangle = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        for layer in self.layers:
            x = layer(x, memory, triangle, memory_mask)
        return self.norm(x)


class HasNoCrossAttention(StackOf):
    layer = EncoderLayer

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class KeepsANormUnused(StackOf):
    layer = EncoderLayer

    def __init__(self, d_model, *rest):
        super().__init__(d_model, *rest)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class NormWhereItBelongs(nn.Module):
    """A norm that is there in both modes, as many write it, and used in pre-norm mode alone."""

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        self.layers = self.made(
            [EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)]
        )
        self.norm = LayerNorm(d_model)
        self.norm_first = norm_first

    def made(self, layers):
        return nn.ModuleList(layers)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x) if self.norm_first else x


class OneLayerTwiceBesideANorm(NormWhereItBelongs):
    def made(self, layers):
        return nn.ModuleList([layers[0]] * len(layers))


class ListBesideANorm(NormWhereItBelongs):
    def made(self, layers):
        return layers


class HasNoNorm(KeepsANormUnused):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.norm


class SeesATriangle(DecoderParts):
    def forward(self, x, memory, mask=None, memory_mask=None):
        triangle = causal_mask(x.shape[1])
        steps = [
            (lambda h: self.self_attention(h, h, h, triangle)[0], self.norm_1),
            (lambda h: self.cross_attention(h, memory, memory, memory_mask)[0], self.norm_2),
            (self.feed_forward, self.norm_3),
        ]
        for step, norm in steps:
            x = x + self.dropout(step(norm(x))) if self.norm_first else norm(x + self.dropout(step(x)))
        return x


class LearnsHalf(EncoderParts):
    def forward(self, x, mask=None):
        for step, norm in ((lambda h: self.attention(h, h, h, mask)[0], self.norm_1), (self.detached, self.norm_2)):
            x = x + self.dropout(step(norm(x))) if self.norm_first else norm(x + self.dropout(step(x)))
        return x

    def detached(self, h):
        return self.feed_forward(h.detach())


class OneNormInPreNorm(EncoderLayer):
    def forward(self, x, mask=None):
        if not self.norm_first:
            return super().forward(x, mask)
        h = self.norm_1(x)
        x = x + self.dropout(self.attention(h, h, h, mask)[0])
        return x + self.dropout(self.feed_forward(x))


class NoSourceMaskAndNoDropout(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        around = residual_pre_norm if self.norm_first else residual_post_norm
        x = around(x, lambda h: self.self_attention(h, h, h, mask)[0], self.norm_1)
        x = around(x, lambda h: self.cross_attention(h, memory, memory)[0], self.norm_2)
        return around(x, self.feed_forward, self.norm_3)


@pytest.mark.parametrize(
    ("name", "answer", "mistake"),
    [
        ("EncoderLayer", OneNormInPreNorm, "ForgetsTheSecondNormInPreNorm"),
        ("DecoderLayer", NoSourceMaskAndNoDropout, "ForgetsTheSourceMask + DropsNothingAtAll"),
        ("EncoderLayer", KeepsTheNormalisedX, "AddsToTheNormalised"),
        ("EncoderLayer", OneNormForAll, "UsesOneNormTwice"),
        ("EncoderLayer", NeverPreNorm, "AlwaysPostNorm"),
        ("EncoderLayer", NoDropoutAtAll, "DropsNothing"),
        ("EncoderLayer", DropoutAsAFunction, "DropsTheAttentionInEvaluationToo"),
        ("EncoderLayer", DropoutAsAFunctionInTheNetwork, "DropsTheFeedForwardInEvaluationToo"),
        ("EncoderLayer", NeverPreNormNorAMask, "ForgetsTheMask + AlwaysPostNorm"),
        ("DecoderLayer", AsksItself, "LooksAtItselfTwice"),
        (
            "DecoderLayer",
            NoMasksForTheTargetsAndTheSource,
            "ForgetsTheSourceMask + UsesTheFirstNormForTheSource",
        ),
        ("Encoder", OneLayerOften, "SharesOneLayer"),
        ("Encoder", NoNormAndNoMask, "ForgetsTheNormAtTheEnd + ForgetsTheMask"),
        ("Encoder", KeepsANormUnused, "ForgetsTheNormAtTheEnd"),
        ("Encoder", OneLayerTwiceBesideANorm, "SharesOneLayer"),
        ("Encoder", ListBesideANorm, "HidesTheLayersInAList"),
        ("Encoder", HasNoNorm, "BuildsNoNorm"),
        ("Decoder", OneMaskTwice, "UsesTheTargetMaskForBoth"),
        ("Decoder", IgnoresTheMask, "BuildsItsOwnTriangle"),
        ("Decoder", HasNoCrossAttention, "IsMadeOfEncoderLayers"),
        ("DecoderLayer", SeesATriangle, "BuildsItsOwnTriangle"),
        ("EncoderLayer", LearnsHalf, "CutsTheNetworkOff"),
    ],
)
def test_mistakes_in_other_words_are_named(name, answer, mistake):
    report = report_on(name, answer)
    assert report.misconception == mistake, report


def test_sentences_that_meet_are_told_even_if_nothing_is_named():
    class Mixes(EncoderLayer):
        def forward(self, x, mask=None):
            return super().forward(x, mask) + 0.1 * x.mean(dim=0)

    report = report_on("EncoderLayer", Mixes)
    assert report.misconception is None and report.points == 1
    assert "Sentences of a batch never meet" in " ".join(str(report).split())


def test_a_stack_of_wrong_layers_is_told_where_the_mistake_may_lie():
    class LoudLayer(EncoderLayer):
        def transform(self, h):
            return 2 * super().transform(h)

    class OfMyOwnLayers(StackOf):
        layer = LoudLayer

        def forward(self, x, mask=None):
            for layer in self.layers:
                x = layer(x, mask)
            return self.norm(x)

    report = report_on("Encoder", OfMyOwnLayers)
    assert report.misconception is None
    assert "If your layers are not reference.EncoderLayer, the mistake may lie in them" in " ".join(str(report).split())


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_a_stack_that_hands_its_input_on_earns_the_shape_alone(stack):
    class HandsOn(stack):
        def forward(self, x, *others):
            return x

    assert report_on(stack.__name__, HandsOn).points == 1


def test_parameters_that_cannot_be_told_apart_are_listed():
    class Odd(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.strange = nn.Linear(sizes[0], sizes[0])

        def forward(self, x, mask=None):
            return self.strange(x)

    report = report_on("EncoderLayer", Odd)
    assert report.outcome == "wrong" and report.points == 1
    assert "strange.weight (6, 6)" in str(report)


# --- which parameter is which ---------------------------------------------------------------------------

SIZES = Sizes(D_MODEL, D_FF, HEADS)


def states_for(module: nn.Module, wanted: nn.Module) -> list[dict[str, torch.Tensor]]:
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    return list(placements(shapes, dict(wanted.named_parameters()), SIZES))


def test_known_names_leave_no_choice():
    ours = randomised(EncoderLayer(D_MODEL, HEADS, D_FF))
    (state,) = states_for(ours, ours)
    assert all(torch.equal(state[name], parameter) for name, parameter in ours.named_parameters())


def test_torchs_decoder_layer_is_filled_in_the_natural_way_first():
    ours = randomised(DecoderLayer(D_MODEL, HEADS, D_FF))
    theirs = nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, 0.0, batch_first=True, norm_first=True).double()
    states = states_for(theirs, ours)
    assert len(states) >= 12  # two attentions and three norms in every order
    theirs.load_state_dict(states[0])
    x, memory = normal(2, 4, D_MODEL), normal(2, 5, D_MODEL)
    torch.testing.assert_close(theirs(x, memory), ours(x, memory))


def test_a_missing_part_fits_nowhere():
    ours = EncoderLayer(D_MODEL, HEADS, D_FF)
    without_a_norm = nn.ModuleDict({"attention": ours.attention, "network": ours.feed_forward, "norm": ours.norm_1})
    assert states_for(without_a_norm, ours) == []


def test_wrong_answers_that_derive_from_the_reference_can_be_merged():
    wrong = {mistake.__name__: mistake for mistake in all_exercises()["EncoderLayer"].misconceptions}
    both = merged(reference.EncoderLayer, wrong["ForgetsTheMask"], wrong["ForgetsThePath"])
    assert both is not None and issubclass(both, nn.Module) and not issubclass(both, reference.EncoderLayer)
    assert report_on("EncoderLayer", both).misconception == "both#ForgetsTheMask&ForgetsThePath"
    assert merged(reference.EncoderLayer, wrong["ForgetsTheMask"], wrong["InvertsTheMask"]) is None


class AsksFromTheSource(DecoderLayer):
    def residual(self, x, sublayer, norm):
        return x + sublayer(norm(x)) if self.norm_first else norm(x + sublayer(x))

    def attend_to_source(self, h, memory, memory_mask):
        return self.dropout(self.cross_attention(memory, h, h)[0])


def test_an_error_in_other_words_is_no_second_mistake():
    assert report_on("DecoderLayer", AsksFromTheSource).misconception == "LetsTheSourceAsk"


class HasOneLayer(Encoder):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__(d_model, num_heads, d_ff, 1, dropout, norm_first)


def test_a_single_layer_is_not_said_to_be_shared():
    report = report_on("Encoder", HasOneLayer)
    assert report.misconception == "BuildsOneLayer"
    (said,) = (result.message for result in report.checks if result.passed is False)
    assert "those of one layer" in said and "share" not in said
