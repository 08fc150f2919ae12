"""The exercise `EncoderLayer`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import encoder_decoder as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal
from course_lib.encoder_decoder import EncoderLayer, fused_attention
from course_lib.exercises.encoder_decoder.shared import (
    add_residual_mistakes,
    answer_of,
    built_with_numbers,
    expect_dropout,
    expect_reach,
    expect_right,
    expect_shape,
    expect_silence,
    onto_the_normalised,
    partial_mask,
    reach,
    real,
    without_norm,
    without_norm_in_post_norm,
    without_norm_in_pre_norm,
    without_path,
)
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.sublayers import FeedForward, LayerNorm, residual_post_norm, residual_pre_norm

encoder_layer = Exercise(
    reference.EncoderLayer,
    cases=[
        {
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 9,
            "dropout": 0.3,
            "norm_first": False,
            "x": normal(3, 4, 6, seed=1),
            "mask": real(3, 4, 2, width=4),
        },
        {
            "d_model": 12,
            "num_heads": 3,
            "d_ff": 7,
            "dropout": 0.4,
            "norm_first": True,
            "x": normal(2, 5, 12, seed=4, scale=2),
            "mask": partial_mask(2, 5, 5, seed=5),
        },
    ],
    minutes=15,
    difficulty=2,
    hidden_points=2,
    hints=[
        "There are two sub-layers, each with a residual path and a norm. Draw the path of x first.",
        "self.attention returns a pair, (output, weights), and the layer needs the first. Query, key and value are the "
        "same tensor, and the mask is passed as well.",
        "Dropout is applied to a sub-layer's output, before it is added to x. In pre-norm mode x itself stays as it "
        "is: only the sub-layer's copy is normalised.",
        "Post-norm, first sub-layer: output, _ = self.attention(x, x, x, mask); x = self.norm_1(x + "
        "self.dropout(output)). Pre-norm: h = self.norm_1(x), attention on h, x = x + self.dropout(output). "
        "Then the same with self.feed_forward and self.norm_2.",
    ],
)


@encoder_layer.property("the result has the shape of x", points=1)
def encoder_layer_shape(subject, case):
    expect_shape(subject, EncoderLayer, case)


@encoder_layer.property("each position depends on those that the mask lets it see, and on no others", points=1)
def encoder_layer_reach(subject, case):
    built = built_with_numbers(subject, EncoderLayer, case)
    answer_of(built, case)
    expect_reach(built, case, 0, reach(case["mask"], 1, case["x"].shape), "x")


@encoder_layer.property("x itself runs past both sub-layers", points=1)
def encoder_layer_path(subject, case):
    expect_silence(subject, EncoderLayer, case)


@encoder_layer.property("post-norm (norm_first=False): norm(x + sublayer(x)), twice", points=1)
def encoder_layer_post(subject, case):
    if not case["norm_first"]:
        expect_right(subject, EncoderLayer, case)


@encoder_layer.property("pre-norm (norm_first=True): x + sublayer(norm(x)), twice", points=1)
def encoder_layer_pre(subject, case):
    if case["norm_first"]:
        expect_right(subject, EncoderLayer, case)


@encoder_layer.property("in training, dropout is applied to what each sub-layer adds, and to nothing else", points=1)
def encoder_layer_dropout(subject, case):
    expect_dropout(subject, EncoderLayer, case)


@encoder_layer.misconception
class ForgetsTheMask(EncoderLayer):
    """The mask does not reach the attention.

    So padding is attended to like any word.
    """

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, None)
        return self.dropout(output)


@encoder_layer.misconception
class InvertsTheMask(EncoderLayer):
    """The mask gets inverted. In this course True means that attention is allowed."""

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, None if mask is None else ~mask)
        return self.dropout(output)


@encoder_layer.misconception
class TransposesTheMask(EncoderLayer):
    """You swap the last two axes of the mask. Its rows are queries and its columns are keys already."""

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, None if mask is None else mask.transpose(-2, -1))
        return self.dropout(output)


@encoder_layer.misconception
class MasksTheFuture(EncoderLayer):
    """You hide the future from every position. An encoder is not causal: use the mask that is given, and no other."""

    def attend(self, h, mask):
        output = fused_attention(
            self.attention, h, h, h, causal_mask(h.shape[1]) if mask is None else mask & causal_mask(h.shape[1])
        )
        return self.dropout(output)


@encoder_layer.misconception
class PassesTheTupleOn(EncoderLayer):
    """The attention returns a pair, (output, weights), and you pass on both as if they were one tensor. Take the
    first.
    """

    def attend(self, h, mask):
        output = self.attention(h, h, h, mask)
        return self.dropout(output)


@encoder_layer.misconception
class ReadsRawKeysAndValues(EncoderLayer):
    """In pre-norm mode only the queries are normalised; keys and values come from x as it is. All three are the
    normalised tensor.
    """

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, x, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x

    def attend(self, h, x, mask):
        output = fused_attention(self.attention, h, x, x, mask)
        return self.dropout(output)


@encoder_layer.misconception
class ReadsRawValues(EncoderLayer):
    """In pre-norm mode the values come from x as it is. Query, key and value are all the normalised tensor."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, x, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x

    def attend(self, h, x, mask):
        output = fused_attention(self.attention, h, h, x, mask)
        return self.dropout(output)


@encoder_layer.misconception
class AsksWithRawQueries(EncoderLayer):
    """In pre-norm mode the queries come from x as it is. Query, key and value are all the normalised tensor."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, x, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x

    def attend(self, h, x, mask):
        output = fused_attention(self.attention, x, h, h, mask)
        return self.dropout(output)


@encoder_layer.misconception
class UsesOneNormTwice(EncoderLayer):
    """norm_1 is used around both sub-layers and norm_2 around none. Each sub-layer has its own norm, with its
    own gain and bias.
    """

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_1)
        return x


@encoder_layer.misconception
class UsesTheSecondNormTwice(EncoderLayer):
    """norm_2 is used around both sub-layers and norm_1 around none. Each sub-layer has its own norm, with its
    own gain and bias.
    """

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class SwapsTheNorms(EncoderLayer):
    """The two norms are swapped: norm_1 belongs to the attention, norm_2 to the feed-forward network."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_1)
        return x


@encoder_layer.misconception
class TransformsFirst(EncoderLayer):
    """The feed-forward network comes first in your layer and the attention second. The attention should come first."""

    def forward(self, x, mask=None):
        x = self.residual(x, self.transform, self.norm_2)
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        return x


@encoder_layer.misconception
class LeavesOutTheFeedForward(EncoderLayer):
    """There is only one sub-layer: the feed-forward network with its norm and residual path is missing."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        return x


@encoder_layer.misconception
class LeavesOutTheAttention(EncoderLayer):
    """There is only one sub-layer: the attention with its norm and residual path is missing."""

    def forward(self, x, mask=None):
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class FeedsTheInputToBoth(EncoderLayer):
    """Both sub-layers read the layer's input. The feed-forward network should read the output of the attention
    sub-layer.
    """

    def forward(self, x, mask=None):
        first = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        if self.norm_first:
            return first + self.transform(self.norm_2(x))
        return self.norm_2(first + self.transform(x))


@encoder_layer.misconception
class ReturnsTheWeightsToo(EncoderLayer):
    """Your layer returns a tuple. A layer returns one tensor of the shape of x, so that the next layer can take it."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x, None


@encoder_layer.misconception
class ForgetsTheSecondPath(EncoderLayer):
    """The feed-forward network's output replaces x: the second sub-layer has no residual path."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = without_path(self, x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheFirstPath(EncoderLayer):
    """The attention's output replaces x: the first sub-layer has no residual path."""

    def forward(self, x, mask=None):
        x = without_path(self, x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheSecondNorm(EncoderLayer):
    """There is no norm around the feed-forward network: norm_2 is never used."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = without_norm(self, x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheFirstNorm(EncoderLayer):
    """There is no norm around the attention: norm_1 is never used."""

    def forward(self, x, mask=None):
        x = without_norm(self, x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheFirstNormInPreNorm(EncoderLayer):
    """In pre-norm mode there is no norm before the attention: norm_1 is not used there."""

    def forward(self, x, mask=None):
        x = without_norm_in_pre_norm(self, x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheFirstNormInPostNorm(EncoderLayer):
    """In post-norm mode there is no norm after the attention: norm_1 is not used there."""

    def forward(self, x, mask=None):
        x = without_norm_in_post_norm(self, x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheSecondNormInPreNorm(EncoderLayer):
    """In pre-norm mode there is no norm before the feed-forward network: norm_2 is not used there."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = without_norm_in_pre_norm(self, x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class ForgetsTheSecondNormInPostNorm(EncoderLayer):
    """In post-norm mode there is no norm after the feed-forward network: norm_2 is not used there."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = without_norm_in_post_norm(self, x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class DropsNothing(EncoderLayer):
    """Dropout is never applied to the sub-layers' outputs. Apply it to both, before they are added to x."""

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, mask)
        return output

    def transform(self, h):
        return self.feed_forward(h)


@encoder_layer.misconception
class DropsNothingOfTheAttention(EncoderLayer):
    """Dropout is applied to the feed-forward network's output, but not to the attention's. Apply it to both, before
    they are added.
    """

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, mask)
        return output


@encoder_layer.misconception
class DropsNothingOfTheFeedForward(EncoderLayer):
    """Dropout is applied to the attention's output, but not to the feed-forward network's. Apply it to both, before
    they are added.
    """

    def transform(self, h):
        return self.feed_forward(h)


@encoder_layer.misconception
class DropsInEvaluationToo(EncoderLayer):
    """Dropout is active in evaluation as well. The module self.dropout knows whether the model is training; F.dropout
    has to be told.
    """

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, mask)
        return F.dropout(output, self.dropout.p)

    def transform(self, h):
        return F.dropout(self.feed_forward(h), self.dropout.p)


@encoder_layer.misconception
class DropsTheAttentionInEvaluationToo(EncoderLayer):
    """Dropout on the attention's output is active in evaluation as well. The module self.dropout knows whether the
    model is training; F.dropout has to be told.
    """

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, mask)
        return F.dropout(output, self.dropout.p)


@encoder_layer.misconception
class DropsTheFeedForwardInEvaluationToo(EncoderLayer):
    """Dropout on the feed-forward network's output is active in evaluation as well. The module self.dropout knows
    whether the model is training; F.dropout has to be told.
    """

    def transform(self, h):
        return F.dropout(self.feed_forward(h), self.dropout.p)


@encoder_layer.misconception
class LooksTwice(EncoderLayer):
    """Your second sub-layer is the attention again. It should be the feed-forward network."""

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_2)
        return x


add_residual_mistakes(encoder_layer)


@encoder_layer.misconception
class AddsTheInputAgain(EncoderLayer):
    """The second residual path starts at the layer's input. It should start at the first sub-layer's output: the update
    is added to that.
    """

    def forward(self, x, mask=None):
        first = x
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        if self.norm_first:
            return first + self.transform(self.norm_2(x))
        return self.norm_2(first + self.transform(x))


@encoder_layer.misconception
class DropsTheSum(EncoderLayer):
    """Dropout is applied to the sum x + update. It belongs on the update, before it is added to x.

    As it is, x itself loses features.
    """

    def forward(self, x, mask=None):
        x = self.dropout(self.residual(x, lambda h: self.attend(h, mask), self.norm_1))
        x = self.dropout(self.residual(x, self.transform, self.norm_2))
        return x

    def attend(self, h, mask):
        output = fused_attention(self.attention, h, h, h, mask)
        return output

    def transform(self, h):
        return self.feed_forward(h)


# The next four use torch's attention. They call the `__init__` of `nn.Module`: the reference's would make ours too.


@encoder_layer.misconception
class ForgetsBatchFirst(EncoderLayer):
    """nn.MultiheadAttention takes the first axis for time unless it is built with batch_first=True.

    So your sentences look at each other instead of at their own words.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        nn.Module.__init__(self)
        self.attention = nn.MultiheadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def attend(self, h, mask):
        output, _ = self.attention(h, h, h, attn_mask=None if mask is None else ~mask)
        return self.dropout(output)


@encoder_layer.misconception
class ForgetsBatchFirstAndMisplacesTheMask(EncoderLayer):
    """nn.MultiheadAttention takes the first axis for time unless it is built with batch_first=True; and its fourth
    argument is key_padding_mask, (batch, key) with True on what is hidden, not our mask.

    So your sentences look at each other instead of at their own words.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        nn.Module.__init__(self)
        self.attention = nn.MultiheadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def attend(self, h, mask):
        output, _ = self.attention(h, h, h, mask)
        return self.dropout(output)


@encoder_layer.misconception
class MisplacesTheMask(EncoderLayer):
    """The fourth argument of nn.MultiheadAttention is key_padding_mask: (batch, key), True on what is hidden. A
    mask of pairs goes in as attn_mask, with True and False swapped.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        nn.Module.__init__(self)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def attend(self, h, mask):
        output, _ = self.attention(h, h, h, mask)
        return self.dropout(output)


@encoder_layer.misconception
class GivesTorchTheMaskUninverted(EncoderLayer):
    """nn.MultiheadAttention hides where its mask is True; ours allows there. Invert the mask when you pass it."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        nn.Module.__init__(self)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def attend(self, h, mask):
        pairs = None if mask is None else mask.expand(-1, h.shape[1], -1).repeat_interleave(self.attention.num_heads, 0)
        output, _ = self.attention(h, h, h, attn_mask=pairs)
        return self.dropout(output)


@encoder_layer.misconception
class AddsToTheNormalisedInTheFirst(EncoderLayer):
    """In pre-norm mode the attention's result is added to the normalised x. The residual path carries x as it
    came in; the norm is for the sub-layer alone.
    """

    def forward(self, x, mask=None):
        x = onto_the_normalised(self, x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class AddsToTheNormalisedInTheSecond(EncoderLayer):
    """In pre-norm mode the feed-forward network's result is added to the normalised x. The residual path carries
    x as it came out of the first sub-layer; the norm is for the sub-layer alone.
    """

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = onto_the_normalised(self, x, self.transform, self.norm_2)
        return x


@encoder_layer.misconception
class AddsTheInputAtTheEnd(EncoderLayer):
    """You add the layer's input once more at the end. Both residual paths have carried it there already."""

    def forward(self, x, mask=None):
        first = x
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return x + first


@encoder_layer.misconception
class NormalisesTheResultToo(EncoderLayer):
    """In pre-norm mode your layer ends with a norm. A pre-norm layer ends with a sum; the one norm at the end
    belongs to the whole stack.
    """

    def forward(self, x, mask=None):
        x = self.residual(x, lambda h: self.attend(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_2)
        return self.norm_2(x) if self.norm_first else x


@encoder_layer.misconception
class TakesTheWeights(EncoderLayer):
    """You take the second value that the attention returns, its weights. The layer needs the first, the output."""

    def attend(self, h, mask):
        _, output = self.attention(h, h, h, mask)
        return self.dropout(output)


@encoder_layer.misconception
class CutsTheNetworkOff(EncoderLayer):
    """What the feed-forward network reads is detached.

    The numbers are right, but what comes before the network does not learn from it.
    """

    def transform(self, h):
        return self.dropout(self.feed_forward(h.detach()))


@encoder_layer.misconception
class CutsTheAttentionOff(EncoderLayer):
    """What the attention reads is detached.

    The numbers are right, but what comes before the attention does not learn from it.
    """

    def attend(self, h, mask):
        output = fused_attention(self.attention, h.detach(), h.detach(), h.detach(), mask)
        return self.dropout(output)


@encoder_layer.alternative
class WithInnerFunctions(EncoderLayer):
    def forward(self, x, mask=None):
        residual = residual_pre_norm if self.norm_first else residual_post_norm

        def attend(h):
            output, _ = self.attention(h, h, h, mask)
            return self.dropout(output)

        def transform(h):
            return self.dropout(self.feed_forward(h))

        x = residual(x, attend, self.norm_1)
        x = residual(x, transform, self.norm_2)
        return x


@encoder_layer.alternative
class InTwoBranches(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x, mask=None):
        if self.norm_first:
            h = self.norm_1(x)
            x = x + self.dropout(self.attention(h, h, h, mask)[0])
            return x + self.dropout(self.feed_forward(self.norm_2(x)))
        x = self.norm_1(x + self.dropout(self.attention(x, x, x, mask)[0]))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))


@encoder_layer.alternative
class WithTorchsOwnParts(nn.Module):
    """Other names, another packing, norms made in another order."""

    def __init__(self, size, heads, hidden, p=0.0, pre=True):
        super().__init__()
        self.ln_ff, self.ln_attn = nn.LayerNorm(size), nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Dropout(p), nn.Linear(hidden, size))
        self.attn = nn.MultiheadAttention(size, heads, p, batch_first=True)
        self.drop_1, self.drop_2 = nn.Dropout(p), nn.Dropout(p)
        self.heads, self.pre = heads, pre

    def forward(self, x, mask=None):
        y = self.ln_attn(x) if self.pre else x
        if mask is not None:
            mask = ~mask.expand(-1, x.shape[1], -1).repeat_interleave(self.heads, 0)
        x = x + self.drop_1(self.attn(y, y, y, attn_mask=mask, need_weights=False)[0])
        x = x if self.pre else self.ln_attn(x)
        x = x + self.drop_2(self.mlp(self.ln_ff(x) if self.pre else x))
        return x if self.pre else self.ln_ff(x)


@encoder_layer.alternative
class TorchsOwnLayer(nn.TransformerEncoderLayer):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__(d_model, num_heads, d_ff, dropout, batch_first=True, norm_first=norm_first)
        self.num_heads = num_heads

    def forward(self, x, mask=None):
        if mask is not None:
            mask = torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, -math.inf)
            mask = mask.expand(-1, x.shape[1], -1).repeat_interleave(self.num_heads, dim=0)
        return super().forward(x, src_mask=mask)


@encoder_layer.alternative
class WithConvolutions(nn.Module):
    """The feed-forward network as two convolutions of width 1; a list of sub-layers; the gains called gamma."""

    class Norm(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.beta = nn.Parameter(torch.zeros(size))
            self.gamma = nn.Parameter(torch.ones(size))

        def forward(self, x):
            return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta)

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__()
        self.attend = MultiHeadAttention(d_model, num_heads)
        self.up = nn.Conv1d(d_model, d_ff, 1)
        self.down = nn.Conv1d(d_ff, d_model, 1)
        self.norms = nn.ModuleList([self.Norm(d_model), self.Norm(d_model)])
        self.p, self.norm_first = dropout, norm_first

    def forward(self, x, mask=None):
        steps = [
            lambda h: self.attend(h, h, h, mask)[0],
            lambda h: self.down(self.up(h.mT).relu()).mT,
        ]
        for step, norm in zip(steps, self.norms, strict=True):
            x = x + F.dropout(step(norm(x) if self.norm_first else x), self.p, self.training)
            if not self.norm_first:
                x = norm(x)
        return x
