"""The exercise `DecoderLayer`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import encoder_decoder as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal
from course_lib.encoder_decoder import DecoderLayer, fused_attention
from course_lib.exercises.encoder_decoder.shared import (
    add_residual_mistakes,
    answer_of,
    built_with_numbers,
    expect_dropout,
    expect_reach,
    expect_right,
    expect_shape,
    expect_silence,
    hidden_pairs,
    mask_of_both,
    onto_the_normalised,
    partial_mask,
    reach,
    reach_of_the_source,
    real,
    seen_so_far,
    without_norm,
    without_norm_in_post_norm,
    without_norm_in_pre_norm,
    without_path,
)
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.sublayers import FeedForward, LayerNorm, residual_post_norm, residual_pre_norm

decoder_layer = Exercise(
    reference.DecoderLayer,
    cases=[
        {
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 9,
            "dropout": 0.3,
            "norm_first": False,
            "x": normal(2, 3, 6, seed=21),
            "memory": normal(2, 4, 6, seed=22),
            "mask": partial_mask(2, 3, 3, seed=30),  # not causal: it is the mask that counts
            "memory_mask": partial_mask(2, 3, 4, seed=29),
        },
        {
            "d_model": 12,
            "num_heads": 3,
            "d_ff": 10,
            "dropout": 0.2,
            "norm_first": True,
            "x": normal(3, 5, 12, seed=25, scale=2),
            "memory": normal(3, 5, 12, seed=26),  # as long as x, so that swapped masks fit
            "mask": seen_so_far(5, 3, 4, width=5),
            "memory_mask": real(4, 1, 5, width=5),
        },
    ],
    minutes=15,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Three sub-layers instead of two: self-attention, cross-attention, feed-forward. The first and the last are as "
        "in the encoder layer.",
        "In the cross-attention the targets ask and the source answers: which of query, key and value is x, and which "
        "are memory?",
        "Each attention has its own mask: mask for the targets among themselves, memory_mask for the source. No norm "
        "of this layer touches memory.",
        "Pre-norm, second sub-layer: h = self.norm_2(x); output, _ = self.cross_attention(h, memory, memory, "
        "memory_mask); x = x + self.dropout(output). Post-norm: the query is x, then "
        "x = self.norm_2(x + self.dropout(output)).",
    ],
)


@decoder_layer.property("the result has the shape of x", points=1)
def decoder_layer_shape(subject, case):
    expect_shape(subject, DecoderLayer, case)


@decoder_layer.property("every target sees the targets that mask allows, and no others", points=1)
def decoder_layer_targets(subject, case):
    built = built_with_numbers(subject, DecoderLayer, case)
    answer_of(built, case)
    expect_reach(built, case, 0, reach(case["mask"], 1, case["x"].shape), "the target")


@decoder_layer.property("every target sees the source, except what memory_mask hides", points=1)
def decoder_layer_source(subject, case):
    built = built_with_numbers(subject, DecoderLayer, case)
    answer_of(built, case)
    expect_reach(built, case, 1, reach_of_the_source(case, 1), "the source")


@decoder_layer.property("x itself runs past all three sub-layers", points=1)
def decoder_layer_path(subject, case):
    expect_silence(subject, DecoderLayer, case)


@decoder_layer.property("post-norm (norm_first=False): norm(x + sublayer(x)), three times", points=1)
def decoder_layer_post(subject, case):
    if not case["norm_first"]:
        expect_right(subject, DecoderLayer, case)


@decoder_layer.property("pre-norm (norm_first=True): x + sublayer(norm(x)), three times", points=1)
def decoder_layer_pre(subject, case):
    if case["norm_first"]:
        expect_right(subject, DecoderLayer, case)


@decoder_layer.property("in training, dropout is applied to what each sub-layer adds, and to nothing else", points=1)
def decoder_layer_dropout(subject, case):
    expect_dropout(subject, DecoderLayer, case)


# Where a wrong answer raises an error, it calls the attention as students do: the fused one words its errors
# differently.


@decoder_layer.misconception
class LooksAtItselfTwice(DecoderLayer):
    """In the cross-attention keys and values come from the decoder. They should come from memory.

    As it is, the source is never looked at.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, h, h, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class LooksAtItselfTwiceUnmasked(DecoderLayer):
    """In the cross-attention keys and values come from the decoder, and nothing is masked. They should come from
    memory.

    As it is, the source is never looked at, and the future is.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, h, h, None)
        return self.dropout(output)


@decoder_layer.misconception
class LooksAtItselfWithTheMemoryMask(DecoderLayer):
    """In the cross-attention keys and values come from the decoder, while memory_mask is the source's. They should come
    from memory.

    As it is, the source is never looked at.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(h, h, h, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class LetsTheSourceAsk(DecoderLayer):
    """In the cross-attention the queries come from memory. They should come from the targets.

    As it is, the result has a row for each source position and not for each target.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, memory, h, h, None)
        return self.dropout(output)


@decoder_layer.misconception
class LetsTheSourceAskWithItsMask(DecoderLayer):
    """In the cross-attention the queries come from memory. They should come from the targets.

    As it is, the result has a row for each source position, and memory_mask does not fit.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(memory, h, h, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class TakesValuesFromTheTargets(DecoderLayer):
    """In the cross-attention the values come from the decoder. Keys and values both come from memory."""

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(h, memory, h, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class TakesKeysFromTheTargets(DecoderLayer):
    """In the cross-attention the keys come from the decoder. Keys and values both come from memory."""

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(h, h, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class MixesUpTheMasks(DecoderLayer):
    """The two masks are swapped: mask is for the targets among themselves, memory_mask for the source."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, memory_mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_targets(self, h, mask):
        output, _ = self.self_attention(h, h, h, mask)
        return self.dropout(output)

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(h, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class UsesTheTargetMaskForBoth(DecoderLayer):
    """Both attentions get the targets' mask. The cross-attention needs memory_mask, which has a column for each
    source position.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(h, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class UsesTheMemoryMaskForBoth(DecoderLayer):
    """Both attentions get the source's mask. The self-attention needs mask, which is about the targets."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, memory_mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_targets(self, h, mask):
        output, _ = self.self_attention(h, h, h, mask)
        return self.dropout(output)


@decoder_layer.misconception
class ForgetsTheCausalMask(DecoderLayer):
    """mask does not reach the self-attention.

    So every target sees the targets after it, which it is supposed to predict.
    """

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, None)
        return self.dropout(output)


@decoder_layer.misconception
class ForgetsTheSourceMask(DecoderLayer):
    """memory_mask does not reach the cross-attention.

    So the source's padding is attended to like any word.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, None)
        return self.dropout(output)


@decoder_layer.misconception
class ForgetsBothMasks(DecoderLayer):
    """Neither mask reaches an attention.

    So the future and the padding can be seen.
    """

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, None)
        return self.dropout(output)

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, None)
        return self.dropout(output)


@decoder_layer.misconception
class InvertsTheTargetMask(DecoderLayer):
    """The targets' mask gets inverted: in this course True means that attention is allowed."""

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, ~mask)
        return self.dropout(output)


@decoder_layer.misconception
class InvertsTheSourceMask(DecoderLayer):
    """The source's mask gets inverted: in this course True means that attention is allowed."""

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, None if memory_mask is None else ~memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class MasksTheSourceCausally(DecoderLayer):
    """A causal mask is applied to the source. The source is known from the beginning: every target may see all of it
    except the padding.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, mask_of_both(h, memory, memory_mask))
        return self.dropout(output)


@decoder_layer.misconception
class PassesATupleOn(DecoderLayer):
    """An attention returns a pair, (output, weights), and you pass on both as if they were one tensor. Take the
    first.
    """

    def attend_to_targets(self, h, mask):
        output = self.self_attention(h, h, h, mask)
        return self.dropout(output)

    def attend_to_source(self, h, memory, memory_mask):
        output = self.cross_attention(h, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class NormalisesTheMemoryToo(DecoderLayer):
    """norm_2 is applied to the memory as well. It is for the targets, which make the queries; the memory was normalised
    at the end of the encoder, and no norm of this layer touches it.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, self.norm_2(memory), self.norm_2(memory), memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class NormalisesTheMemoryInPreNorm(DecoderLayer):
    """In pre-norm mode norm_2 is applied to the memory as well. It is for the targets, which make the queries; no norm
    of this layer touches the memory.
    """

    def attend_to_source(self, h, memory, memory_mask):
        source = self.norm_2(memory) if self.norm_first else memory
        output = fused_attention(self.cross_attention, h, source, source, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class AsksTheSourceWithRawQueries(DecoderLayer):
    """In pre-norm mode the queries of the cross-attention are not normalised: norm_2 is for them."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, x, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_source(self, h, x, memory, memory_mask):
        output = fused_attention(self.cross_attention, x, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class ReadsRawTargets(DecoderLayer):
    """In pre-norm mode only the queries of the self-attention are normalised; keys and values come from x as it is.
    All three are the normalised tensor.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, x, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x

    def attend_to_targets(self, h, x, mask):
        output = fused_attention(self.self_attention, h, x, x, mask)
        return self.dropout(output)


@decoder_layer.misconception
class UsesTheFirstNormForTheSource(DecoderLayer):
    """norm_1 is used around the cross-attention too, and norm_2 around nothing. Each of the three sub-layers has its
    own norm.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class UsesTheSecondNormForTheFeedForward(DecoderLayer):
    """norm_2 is used around the feed-forward network too, and norm_3 around nothing. Each of the three sub-layers
    has its own norm.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_2)
        return x


@decoder_layer.misconception
class UsesTheFirstNormForTheFeedForward(DecoderLayer):
    """norm_1 is used around the feed-forward network too, and norm_3 around nothing. Each of the three sub-layers
    has its own norm.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_1)
        return x


@decoder_layer.misconception
class UsesOneNormThreeTimes(DecoderLayer):
    """One norm is used around all three sub-layers. Each has its own norm, with its own gain and bias."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_1)
        return x


@decoder_layer.misconception
class LooksAtTheSourceFirst(DecoderLayer):
    """The cross-attention comes before the self-attention. The targets look at each other first, then at the source."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ThinksBeforeItAsks(DecoderLayer):
    """Your feed-forward network comes before the cross-attention. It is the last of the three sub-layers."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_3)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        return x


@decoder_layer.misconception
class LeavesOutTheCrossAttention(DecoderLayer):
    """The cross-attention is missing. A decoder layer has three sub-layers.

    As it is, the source is never looked at.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class LeavesOutTheSelfAttention(DecoderLayer):
    """The self-attention is missing. A decoder layer has three sub-layers.

    As it is, the targets never look at each other.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class LeavesOutTheNetwork(DecoderLayer):
    """The feed-forward network is missing. A decoder layer has three sub-layers."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        return x


@decoder_layer.misconception
class UsesOneAttentionForBoth(DecoderLayer):
    """self_attention is used for the source too, and cross_attention for nothing. They are two modules, each with its
    own weights.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.self_attention, h, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class SwapsTheAttentions(DecoderLayer):
    """The two attentions are swapped: self_attention is for the targets, cross_attention for the source."""

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.cross_attention, h, h, h, mask)
        return self.dropout(output)

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.self_attention, h, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class ReturnsMoreThanTheTargets(DecoderLayer):
    """Your layer returns a tuple. A layer returns one tensor of the shape of x, so that the next layer can take it."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x, memory


@decoder_layer.misconception
class ForgetsThePathAroundTheSource(DecoderLayer):
    """The cross-attention's output replaces x: this sub-layer has no residual path."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = without_path(self, x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsThePathAroundTheTargets(DecoderLayer):
    """The self-attention's output replaces x: this sub-layer has no residual path."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = without_path(self, x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsThePathAroundTheNetwork(DecoderLayer):
    """The feed-forward network's output replaces x: this sub-layer has no residual path."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = without_path(self, x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheSource(DecoderLayer):
    """There is no norm around the cross-attention: norm_2 is never used."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = without_norm(self, x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheNetwork(DecoderLayer):
    """There is no norm around the feed-forward network: norm_3 is never used."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = without_norm(self, x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheTargetsInPreNorm(DecoderLayer):
    """In pre-norm mode there is no norm before the attention among the targets: norm_1 is not used there."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = without_norm_in_pre_norm(self, x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheTargetsInPostNorm(DecoderLayer):
    """In post-norm mode there is no norm after the attention among the targets: norm_1 is not used there."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = without_norm_in_post_norm(self, x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheSourceInPostNorm(DecoderLayer):
    """In post-norm mode there is no norm after the cross-attention: norm_2 is not used there."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = without_norm_in_post_norm(self, x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheNetworkInPreNorm(DecoderLayer):
    """In pre-norm mode there is no norm before the feed-forward network: norm_3 is not used there."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = without_norm_in_pre_norm(self, x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class ForgetsTheNormAroundTheNetworkInPostNorm(DecoderLayer):
    """In post-norm mode there is no norm after the feed-forward network: norm_3 is not used there."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = without_norm_in_post_norm(self, x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class DropsNothingAtAll(DecoderLayer):
    """Dropout is never applied to the sub-layers' outputs. Apply it to all three, before they are added to x."""

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, mask)
        return output

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, memory_mask)
        return output

    def transform(self, h):
        return self.feed_forward(h)


@decoder_layer.misconception
class DropsNothingInTheAttentions(DecoderLayer):
    """Dropout is applied to the feed-forward network's output, but not to the attentions'. Apply it to all three,
    before they are added.
    """

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, mask)
        return output

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, memory_mask)
        return output


@decoder_layer.misconception
class DropsNothingFromTheSource(DecoderLayer):
    """Dropout is not applied to the cross-attention's output. Apply it to all three outputs, before they are added."""

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, memory_mask)
        return output


@decoder_layer.misconception
class DropsNothingFromTheTargets(DecoderLayer):
    """Dropout is not applied to the self-attention's output. Apply it to all three outputs, before they are added."""

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, mask)
        return output


@decoder_layer.misconception
class DropsNothingFromTheNetwork(DecoderLayer):
    """Dropout is not applied to the feed-forward network's output. Apply it to all three outputs, before they are
    added.
    """

    def transform(self, h):
        return self.feed_forward(h)


@decoder_layer.misconception
class AddsTheMaskedInputAgain(DecoderLayer):
    """The residual path around the cross-attention starts at the layer's input. It should start at the output of the
    self-attention sub-layer.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        first = x
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        if self.norm_first:
            x = first + self.attend_to_source(self.norm_2(x), memory, memory_mask)
        else:
            x = self.norm_2(first + self.attend_to_source(x, memory, memory_mask))
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class CutsTheSourceOff(DecoderLayer):
    """The memory is detached.

    So no gradient goes back to the encoder, which then never learns.
    """

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory.detach(), memory.detach(), memory_mask)
        return self.dropout(output)


add_residual_mistakes(decoder_layer)


@decoder_layer.misconception
class AddsToTheNormalisedAroundTheTargets(DecoderLayer):
    """In pre-norm mode the result of the self-attention is added to the normalised x. The residual path carries x
    itself; the norm is for the sub-layer alone.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = onto_the_normalised(self, x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class AddsToTheNormalisedAroundTheSource(DecoderLayer):
    """In pre-norm mode the result of the cross-attention is added to the normalised x. The residual path carries x
    itself; the norm is for the sub-layer alone.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = onto_the_normalised(self, x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class AddsToTheNormalisedAroundTheNetwork(DecoderLayer):
    """In pre-norm mode the result of the feed-forward network is added to the normalised x. The residual path carries x
    itself; the norm is for the sub-layer alone.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = onto_the_normalised(self, x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class AddsTheInputAtTheEnd(DecoderLayer):
    """You add the layer's input once more at the end. The residual paths have carried it there already."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        first = x
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x + first


@decoder_layer.misconception
class SwapsTheFirstTwoNorms(DecoderLayer):
    """norm_1 and norm_2 are swapped: norm_1 belongs to the self-attention, norm_2 to the cross-attention."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_2)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_1)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class BuildsItsOwnTriangle(DecoderLayer):
    """You build a causal mask of your own and leave mask unused. Which targets may be seen is what mask says, and that
    need not be a triangle.
    """

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, causal_mask(h.shape[1]))
        return self.dropout(output)


@decoder_layer.misconception
class AddsATriangle(DecoderLayer):
    """You combine mask with a causal mask of your own. Which targets may be seen is what mask says, and that need not
    be a triangle.
    """

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, mask & causal_mask(h.shape[1]))
        return self.dropout(output)


@decoder_layer.misconception
class TransposesTheTargetMask(DecoderLayer):
    """You swap the last two axes of mask. Its rows are queries and its columns are keys already."""

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, mask.transpose(-2, -1))
        return self.dropout(output)


@decoder_layer.misconception
class TakesTheWeights(DecoderLayer):
    """You take the second value that an attention returns, its weights. The layer needs the first, the output."""

    def attend_to_targets(self, h, mask):
        _, output = self.self_attention(h, h, h, mask)
        return self.dropout(output)

    def attend_to_source(self, h, memory, memory_mask):
        _, output = self.cross_attention(h, memory, memory, memory_mask)
        return self.dropout(output)


@decoder_layer.misconception
class DropsInEvaluationToo(DecoderLayer):
    """Dropout is active in evaluation as well. The module self.dropout knows whether the model is training;
    F.dropout has to be told.
    """

    def attend_to_targets(self, h, mask):
        output = fused_attention(self.self_attention, h, h, h, mask)
        return F.dropout(output, self.dropout.p)

    def attend_to_source(self, h, memory, memory_mask):
        output = fused_attention(self.cross_attention, h, memory, memory, memory_mask)
        return F.dropout(output, self.dropout.p)

    def transform(self, h):
        return F.dropout(self.feed_forward(h), self.dropout.p)


@decoder_layer.misconception
class NormalisesTheResultToo(DecoderLayer):
    """In pre-norm mode your layer ends with a norm. A pre-norm layer ends with a sum; the one norm at the end belongs
    to the whole stack.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residual(x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return self.norm_3(x) if self.norm_first else x


@decoder_layer.misconception
class ForgetsTheNormAroundTheTargets(DecoderLayer):
    """There is no norm around the self-attention: norm_1 is never used."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = without_norm(self, x, lambda h: self.attend_to_targets(h, mask), self.norm_1)
        x = self.residual(x, lambda h: self.attend_to_source(h, memory, memory_mask), self.norm_2)
        x = self.residual(x, self.transform, self.norm_3)
        return x


@decoder_layer.misconception
class CutsTheNetworkOff(DecoderLayer):
    """What the feed-forward network reads is detached.

    The numbers are right, but what comes before the network does not learn from it.
    """

    def transform(self, h):
        return self.dropout(self.feed_forward(h.detach()))


@decoder_layer.misconception
class ForgetsBatchFirst(DecoderLayer):
    """nn.MultiheadAttention takes the first axis for time unless it is built with batch_first=True.

    So your sentences look at each other instead of at their own words.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        nn.Module.__init__(self)  # the reference's would make our attention too
        self.self_attention = nn.MultiheadAttention(d_model, num_heads, dropout)
        self.cross_attention = nn.MultiheadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.norm_3 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def attend_to_targets(self, h, mask):
        output, _ = self.self_attention(h, h, h, attn_mask=None if mask is None else ~mask)
        return self.dropout(output)

    def attend_to_source(self, h, memory, memory_mask):
        output, _ = self.cross_attention(h, memory, memory, attn_mask=None if memory_mask is None else ~memory_mask)
        return self.dropout(output)


@decoder_layer.alternative
class WithInnerFunctions(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        residual = residual_pre_norm if self.norm_first else residual_post_norm

        def attend_to_targets(h):
            output, _ = self.self_attention(h, h, h, mask)
            return self.dropout(output)

        def attend_to_source(h):
            output, _ = self.cross_attention(h, memory, memory, memory_mask)
            return self.dropout(output)

        def transform(h):
            return self.dropout(self.feed_forward(h))

        x = residual(x, attend_to_targets, self.norm_1)
        x = residual(x, attend_to_source, self.norm_2)
        x = residual(x, transform, self.norm_3)
        return x


@decoder_layer.alternative
class InBranches(nn.Module):
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

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            h = self.norm_1(x)
            x = x + self.dropout(self.self_attention(h, h, h, mask)[0])
            x = x + self.dropout(self.cross_attention(self.norm_2(x), memory, memory, memory_mask)[0])
            return x + self.dropout(self.feed_forward(self.norm_3(x)))
        x = self.norm_1(x + self.dropout(self.self_attention(x, x, x, mask)[0]))
        x = self.norm_2(x + self.dropout(self.cross_attention(x, memory, memory, memory_mask)[0]))
        return self.norm_3(x + self.dropout(self.feed_forward(x)))


@decoder_layer.alternative
class OfTorchsOwnParts(nn.Module):
    """Other names, another packing, the cross-attention made first."""

    def __init__(self, size, heads, hidden, p=0.0, pre=True):
        super().__init__()
        self.looks_over = nn.MultiheadAttention(size, heads, p, batch_first=True)
        self.looks_back = nn.MultiheadAttention(size, heads, p, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size))
        self.lns = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.drop = nn.Dropout(p)
        self.heads, self.pre = heads, pre

    def forward(self, x, memory, mask=None, memory_mask=None):
        mask, memory_mask = (hidden_pairs(m, x.shape[1], self.heads) for m in (mask, memory_mask))
        steps = [
            lambda h: self.looks_back(h, h, h, attn_mask=mask)[0],
            lambda h: self.looks_over(h, memory, memory, attn_mask=memory_mask)[0],
            self.mlp,
        ]
        for step, norm in zip(steps, self.lns, strict=True):
            x = x + self.drop(step(norm(x))) if self.pre else norm(x + self.drop(step(x)))
        return x


@decoder_layer.alternative
class TorchsOwnDecoderLayer(nn.TransformerDecoderLayer):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__(d_model, num_heads, d_ff, dropout, batch_first=True, norm_first=norm_first)
        self.num_heads = num_heads

    def forward(self, x, memory, mask=None, memory_mask=None):
        masks = (hidden_pairs(m, x.shape[1], self.num_heads) for m in (mask, memory_mask))
        return super().forward(x, memory, *masks)


@decoder_layer.alternative
class AroundAnEncoderLayer(nn.Module):
    """The outer two sub-layers as functions, with the sum kept in a separate stream."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__()
        self.norm_3, self.norm_2, self.norm_1 = (nn.LayerNorm(d_model) for _ in range(3))
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.p, self.norm_first = dropout, norm_first

    def around(self, x, norm, step):
        read = norm(x) if self.norm_first else x
        x = torch.stack([x, F.dropout(step(read), self.p, self.training)]).sum(dim=0)
        return x if self.norm_first else norm(x)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.around(x, self.norm_1, lambda h: self.self_attention(h, h, h, mask)[0])
        x = self.around(x, self.norm_2, lambda h: self.cross_attention(h, memory, memory, memory_mask)[0])
        return self.around(x, self.norm_3, self.feed_forward)
