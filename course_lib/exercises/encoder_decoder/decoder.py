"""The exercise `Decoder`: what must hold, and what people really write instead."""

from __future__ import annotations

import copy
import functools

from torch import nn

from course_lib import encoder_decoder as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal
from course_lib.encoder_decoder import Decoder, DecoderLayer, EncoderLayer, require_layers, require_partners
from course_lib.exercises.encoder_decoder.shared import (
    answer_of,
    built_with_numbers,
    expect_dropout,
    expect_layers,
    expect_reach,
    expect_right_stack,
    expect_shape,
    hidden_pairs,
    mask_of_both,
    partial_mask,
    reach,
    reach_of_the_source,
    real,
    seen_so_far,
)
from course_lib.masks import causal_mask
from course_lib.sublayers import LayerNorm

decoder = Exercise(
    reference.Decoder,
    cases=[
        {
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 9,
            "num_layers": 2,
            "dropout": 0.3,
            "norm_first": True,
            "x": normal(2, 3, 6, seed=31),
            "memory": normal(2, 4, 6, seed=32),
            "mask": partial_mask(2, 3, 3, seed=37),  # not causal: it is the mask that counts
            "memory_mask": real(4, 3, width=4),
        },
        {
            "d_model": 8,
            "num_heads": 4,
            "d_ff": 10,
            "num_layers": 1,
            "dropout": 0.2,
            "norm_first": False,
            "x": normal(3, 4, 8, seed=33),
            "memory": normal(3, 4, 8, seed=34),  # as long as x, so that swapped masks fit
            "mask": seen_so_far(2, 4, 3, width=4),
            "memory_mask": real(4, 3, 2, width=4),
        },
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "It is the encoder's stack again, with the memory and one more mask to hand to every layer.",
        "Every layer gets the same memory and the same masks; only x goes from layer to layer.",
        "x = layer(x, memory, mask, memory_mask) in the loop; after it the norm, if there is one.",
    ],
)


@decoder.property("the result has the shape of x", points=1)
def decoder_shape(subject, case):
    expect_shape(subject, Decoder, case)


@decoder.property("num_layers layers, each with its own weights, and all of them take part", points=2)
def decoder_layers(subject, case):
    expect_layers(subject, Decoder, DecoderLayer, case)


@decoder.property("every target sees the targets that mask allows, and no others", points=1)
def decoder_targets(subject, case):
    built = built_with_numbers(subject, Decoder, case)
    answer_of(built, case)
    expect_reach(built, case, 0, reach(case["mask"], case["num_layers"], case["x"].shape), "the target")


@decoder.property("every target sees the source, except what memory_mask hides", points=1)
def decoder_source(subject, case):
    built = built_with_numbers(subject, Decoder, case)
    answer_of(built, case)
    expect_reach(built, case, 1, reach_of_the_source(case, case["num_layers"]), "the source")


@decoder.property("pre-norm: the layers in their order, then one more norm", points=1)
def decoder_pre(subject, case):
    if case["norm_first"]:
        expect_right_stack(subject, Decoder, DecoderLayer, case)


@decoder.property("post-norm: the layers in their order, and nothing else", points=1)
def decoder_post(subject, case):
    if not case["norm_first"]:
        expect_right_stack(subject, Decoder, DecoderLayer, case)


@decoder.property("dropout reaches every layer", points=1)
def decoder_dropout(subject, case):
    expect_dropout(subject, Decoder, case)


@decoder.misconception
class SharesOneLayer(nn.Module):
    """The same layer is used at every place of the stack. Every place needs its own layer.

    As it is, there is one set of weights, used again and again.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        layer = DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first)
        self.layers = nn.ModuleList([layer] * num_layers)
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class HidesTheLayersInAList(nn.Module):
    """Your layers are in a plain Python list, and torch does not look inside one. Use an nn.ModuleList.

    As it is, their parameters are never trained, saved or moved.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = [DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class BuildsOneLayerTooFew(nn.Module):
    """There is one layer too few: there should be num_layers.

    range(1, n) and range(n - 1) count n - 1.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers - 1)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class BuildsOneLayerTooMany(nn.Module):
    """There is one layer too many: there should be num_layers."""

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers + 1)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class BuildsOneLayer(nn.Module):
    """There is only one layer, whatever num_layers says."""

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first)])
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class ForgetsToPassThePlacement(nn.Module):
    """norm_first does not reach the layers: they are pre-norm whatever it says.

    In post-norm mode the stack and its layers disagree.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(DecoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class ForgetsToPassTheDropout(nn.Module):
    """dropout does not reach the layers: they are built with its default, 0.

    So nothing is ever dropped.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, norm_first=norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class NormalisesAfterPostNormToo(nn.Module):
    """In post-norm mode you apply a norm after the last layer. That layer has just normalised its result itself:
    nothing more is needed there.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class NormalisesInTheWrongMode(nn.Module):
    """The norm at the end is applied in post-norm mode and not in pre-norm mode. It is the other way round.

    In pre-norm mode nothing has normalised the output of the last layer.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = nn.Identity() if norm_first else LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class ForgetsTheNormAtTheEnd(Decoder):
    """In pre-norm mode the norm at the end is never applied.

    So the sum that leaves the last layer is not normalised, and it grows with every layer.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x


@decoder.misconception
class RunsEachLayerOnTheInput(Decoder):
    """Every layer gets the stack's input, and only the last one's output is kept. The output of each layer is the input
    of the next.

    As it is, depth has no effect.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            out = layer(x, memory, mask, memory_mask)
        return self.norm(out)


@decoder.misconception
class LeavesTheLoopEarly(Decoder):
    """Only the first layer runs, and its output is returned. (A return inside the loop ends it.)"""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            return self.norm(x)


@decoder.misconception
class RepeatsTheFirstLayer(Decoder):
    """The first layer runs num_layers times, and the others never do."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for _ in self.layers:
            x = self.layers[0](x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class RunsBackwards(Decoder):
    """The layers run from the last to the first. layers[0] comes first."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in reversed(self.layers):
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class NormalisesAfterEveryLayer(Decoder):
    """The norm at the end is applied after every layer. It should come once, after the last."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = self.norm(layer(x, memory, mask, memory_mask))
        return x


@decoder.misconception
class NormalisesInTheLoopAndAfter(Decoder):
    """The norm at the end is applied after every layer, and once more at the end. It should come once, after the
    last layer.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = self.norm(layer(x, memory, mask, memory_mask))
        return self.norm(x)


@decoder.misconception
class NormalisesTheInput(Decoder):
    """The norm comes before the first layer. It belongs after the last one.

    In pre-norm mode each layer normalises its own input, but nothing normalises the output of the last one.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x


@decoder.misconception
class NormalisesTheMemoryInEveryLayer(Decoder):
    """The decoder's norm is applied to the memory between the layers. Every layer reads the same memory, as the encoder
    left it.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            memory = self.norm(memory)
        return self.norm(x)


@decoder.misconception
class AddsTheInputAtTheEnd(Decoder):
    """You add the stack's input to its result. The residual paths are inside the layers; there is none around the whole
    stack.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        source = x
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x + source)


@decoder.misconception
class AddsAroundEveryLayer(Decoder):
    """You add x to the output of each layer. The layers already have residual paths inside."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = x + layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class AddsUpTheLayers(Decoder):
    """You add up the outputs of all layers. Return the output of the last one."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        total = 0.0
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            total = total + x
        return self.norm(total)


@decoder.misconception
class ReturnsEveryLayer(Decoder):
    """You return the outputs of all layers. Return the output of the last one."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        results = []
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            results.append(self.norm(x))
        return results


@decoder.misconception
class ForgetsTheTargetMask(Decoder):
    """mask does not reach the self-attentions.

    So every target sees the targets after it.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, None, memory_mask)
        return self.norm(x)


@decoder.misconception
class MasksTheFirstLayerAlone(Decoder):
    """The mask reaches the first layer only. Every layer needs it: each has its own attention."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            mask = None
        return self.norm(x)


@decoder.misconception
class ForgetsTheMemoryMask(Decoder):
    """memory_mask does not reach the cross-attentions.

    So the source's padding is attended to like any word.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, None)
        return self.norm(x)


@decoder.misconception
class SwapsTheMasks(Decoder):
    """The two masks are swapped: mask is for the targets among themselves, memory_mask for the source."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, memory_mask, mask)
        return self.norm(x)


@decoder.misconception
class SwapsTargetAndMemory(Decoder):
    """x and memory are swapped: the layers refine x, and memory is what they look at."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(memory, x, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class HandsTheTargetOnAsMemory(Decoder):
    """After the first layer you use the layer's output as the memory as well. Every layer reads the same memory: the
    encoder's output.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            memory = x
            memory_mask = mask
        return self.norm(x)


@decoder.misconception
class LooksAtTheTargetForMemory(Decoder):
    """The layers get x as their memory.

    So the source never reaches the decoder.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, x, mask, mask)
        return self.norm(x)


@decoder.misconception
class NormalisesTheMemory(Decoder):
    """The decoder's norm is applied to the memory. Use the memory as it comes; this norm is for the decoder's own
    output.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        memory = self.norm(memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class ShowsTheMemoryToTheFirstLayerAlone(Decoder):
    """Only the first layer sees the memory. Every layer reads all of it."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
            memory = memory * 0
        return self.norm(x)


@decoder.misconception
class CutsTheGradientToTheSource(Decoder):
    """The memory is detached.

    So no gradient goes back to the encoder, which then never learns.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory.detach(), mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class MasksTheFutureOfTheSource(Decoder):
    """A causal mask is applied to the memory. The source is known from the beginning: every target may see all of it
    except the padding.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, mask_of_both(x, memory, memory_mask))
        return self.norm(x)


@decoder.misconception
class MixesUpTheArguments(nn.Module):
    """num_heads and d_ff are swapped when the layers are built: they take d_model, num_heads, d_ff, dropout,
    norm_first.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, d_ff, num_heads, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class NormalisesTwiceAtTheEnd(Decoder):
    """The norm at the end is applied twice."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(self.norm(x))


@decoder.misconception
class BuildsNoNorm(nn.Module):
    """Your stack has no norm of its own. In pre-norm mode one comes after the last layer.

    Without it the sum that leaves the last layer is never normalised, and it grows with every layer.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x


@decoder.misconception
class SwapsDropoutAndPlacement(nn.Module):
    """dropout and norm_first are swapped when the layers are built: they take d_model, num_heads, d_ff, dropout,
    norm_first.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, norm_first, dropout) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class UsesTheTargetMaskForBoth(Decoder):
    """Both kinds of attention get mask. It is for attention among the targets; the memory needs memory_mask, which has
    a column for each source position.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, mask)
        return self.norm(x)


@decoder.misconception
class UsesTheMemoryMaskForBoth(Decoder):
    """Both kinds of attention get memory_mask. It is for the source; attention among the targets needs mask."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, memory_mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class BuildsItsOwnTriangle(Decoder):
    """You build a causal mask of your own and leave mask unused. Which targets may be seen is what mask says, and that
    need not be a triangle.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, causal_mask(x.shape[1]), memory_mask)
        return self.norm(x)


@decoder.misconception
class AddsATriangle(Decoder):
    """You combine mask with a causal mask of your own. Which targets may be seen is what mask says, and that need not
    be a triangle.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(
                x, memory, causal_mask(x.shape[1]) if mask is None else mask & causal_mask(x.shape[1]), memory_mask
            )
        return self.norm(x)


@decoder.misconception
class IsMadeOfEncoderLayers(nn.Module):
    """Your stack is made of encoder layers. A decoder layer has one more sub-layer, the cross-attention.

    Nothing in your stack looks at the memory.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@decoder.misconception
class CutsTheGradientBetweenLayers(Decoder):
    """x is detached between the layers.

    The numbers are right, but only the last layer can learn.
    """

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x.detach(), memory, mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class InvertsTheTargetMask(Decoder):
    """mask gets inverted: in this course True means that attention is allowed."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, None if mask is None else ~mask, memory_mask)
        return self.norm(x)


@decoder.misconception
class InvertsTheMemoryMask(Decoder):
    """memory_mask gets inverted: in this course True means that attention is allowed."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        require_partners(x, memory)
        for layer in self.layers:
            x = layer(x, memory, mask, None if memory_mask is None else ~memory_mask)
        return self.norm(x)


@decoder.alternative
class WithCopiesOfALayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        first = DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first)
        self.layers = nn.ModuleList([copy.deepcopy(first) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.norm_first = norm_first

    def forward(self, x, memory, mask=None, memory_mask=None):
        for i in range(len(self.layers)):
            x = self.layers[i](x, memory, mask, memory_mask)
        return self.norm(x) if self.norm_first else x


@decoder.alternative
class AsARecursionOverTheLayers(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        self.blocks = nn.Sequential(
            *[DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)]
        )
        if norm_first:
            self.last = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None, depth=0):
        if depth == len(self.blocks):
            return self.last(x) if hasattr(self, "last") else x
        x = self.blocks[depth](x, memory=memory, mask=mask, memory_mask=memory_mask)
        return self.forward(x, memory, mask, memory_mask, depth + 1)


@decoder.alternative
class OfTorchsOwnDecoderLayers(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        layer = nn.TransformerDecoderLayer(d_model, num_heads, d_ff, dropout, batch_first=True, norm_first=norm_first)
        self.inner = nn.TransformerDecoder(layer, num_layers, nn.LayerNorm(d_model) if norm_first else None)
        self.num_heads = num_heads

    def forward(self, x, memory, mask=None, memory_mask=None):
        masks = (hidden_pairs(m, x.shape[1], self.num_heads) for m in (mask, memory_mask))
        return self.inner(x, memory, *masks)


@decoder.alternative
class WithAFold(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        self.tower = nn.ModuleDict(
            {str(i): DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for i in range(num_layers)}
        )
        self.final_norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, memory, mask=None, memory_mask=None):
        layers = self.tower.values()
        return self.final_norm(functools.reduce(lambda y, layer: layer(y, memory, mask, memory_mask), layers, x))
