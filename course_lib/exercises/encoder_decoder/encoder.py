"""The exercise `Encoder`: what must hold, and what people really write instead."""

from __future__ import annotations

import copy
import functools

from torch import nn

from course_lib import encoder_decoder as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal
from course_lib.encoder_decoder import Encoder, EncoderLayer, require_layers
from course_lib.exercises.encoder_decoder.shared import (
    answer_of,
    built_with_numbers,
    expect_dropout,
    expect_layers,
    expect_reach,
    expect_right_stack,
    expect_shape,
    reach,
    real,
)
from course_lib.sublayers import LayerNorm

encoder = Exercise(
    reference.Encoder,
    cases=[
        {
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 9,
            "num_layers": 2,
            "dropout": 0.3,
            "norm_first": True,
            "x": normal(2, 3, 6, seed=11),
            "mask": None,
        },
        {
            "d_model": 8,
            "num_heads": 4,
            "d_ff": 10,
            "num_layers": 3,
            "dropout": 0.2,
            "norm_first": False,
            "x": normal(3, 4, 8, seed=12),
            "mask": real(4, 2, 3, width=4),
        },
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "The output of each layer is the input of the next. One variable and one loop are enough.",
        "nn.ModuleList holds modules so that torch finds their parameters. Build a new layer for every place in it: "
        "the same object twice is one layer with one set of weights.",
        "In pre-norm mode the sum that leaves the last layer has not been normalised by anything: one more norm, after "
        "the loop. In post-norm mode the last layer has just done it.",
        "self.layers = nn.ModuleList(reference.EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in "
        "range(num_layers)); in forward: for layer in self.layers: x = layer(x, mask).",
    ],
)


@encoder.property("the result has the shape of x", points=1)
def encoder_shape(subject, case):
    expect_shape(subject, Encoder, case)


@encoder.property("num_layers layers, each with its own weights, and all of them take part", points=2)
def encoder_layers(subject, case):
    expect_layers(subject, Encoder, EncoderLayer, case)


@encoder.property("each position depends on those that the mask lets it see, and on no others", points=1)
def encoder_reach(subject, case):
    built = built_with_numbers(subject, Encoder, case)
    answer_of(built, case)
    expect_reach(built, case, 0, reach(case["mask"], case["num_layers"], case["x"].shape), "x")


@encoder.property("pre-norm: the layers in their order, then one more norm", points=1)
def encoder_pre(subject, case):
    if case["norm_first"]:
        expect_right_stack(subject, Encoder, EncoderLayer, case)


@encoder.property("post-norm: the layers in their order, and nothing else", points=1)
def encoder_post(subject, case):
    if not case["norm_first"]:
        expect_right_stack(subject, Encoder, EncoderLayer, case)


@encoder.property("dropout reaches every layer", points=1)
def encoder_dropout(subject, case):
    expect_dropout(subject, Encoder, case)


@encoder.misconception
class SharesOneLayer(nn.Module):
    """The same layer is used at every place of the stack. Every place needs its own layer.

    As it is, there is one set of weights, used again and again.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        layer = EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first)
        self.layers = nn.ModuleList([layer] * num_layers)
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class HidesTheLayersInAList(nn.Module):
    """Your layers are in a plain Python list, and torch does not look inside one. Use an nn.ModuleList.

    As it is, their parameters are never trained, saved or moved.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = [EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class BuildsOneLayerTooFew(nn.Module):
    """There is one layer too few: there should be num_layers.

    range(1, n) and range(n - 1) count n - 1.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers - 1)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class BuildsOneLayerTooMany(nn.Module):
    """There is one layer too many: there should be num_layers."""

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers + 1)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class BuildsOneLayer(nn.Module):
    """There is only one layer, whatever num_layers says."""

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first)])
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class ForgetsToPassThePlacement(nn.Module):
    """norm_first does not reach the layers: they are pre-norm whatever it says.

    In post-norm mode the stack and its layers disagree.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class ForgetsToPassTheDropout(nn.Module):
    """dropout does not reach the layers: they are built with its default, 0.

    So nothing is ever dropped.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, norm_first=norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class NormalisesAfterPostNormToo(nn.Module):
    """In post-norm mode you apply a norm after the last layer. That layer has just normalised its result itself:
    nothing more is needed there.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class NormalisesInTheWrongMode(nn.Module):
    """The norm at the end is applied in post-norm mode and not in pre-norm mode. It is the other way round.

    In pre-norm mode nothing has normalised the output of the last layer.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = nn.Identity() if norm_first else LayerNorm(d_model)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class ForgetsTheNormAtTheEnd(Encoder):
    """In pre-norm mode the norm at the end is never applied.

    So the sum that leaves the last layer is not normalised, and it grows with every layer.
    """

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


@encoder.misconception
class RunsEachLayerOnTheInput(Encoder):
    """Every layer gets the stack's input, and only the last one's output is kept. The output of each layer is the input
    of the next.

    As it is, depth has no effect.
    """

    def forward(self, x, mask=None):
        for layer in self.layers:
            out = layer(x, mask)
        return self.norm(out)


@encoder.misconception
class LeavesTheLoopEarly(Encoder):
    """Only the first layer runs, and its output is returned. (A return inside the loop ends it.)"""

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
            return self.norm(x)


@encoder.misconception
class RepeatsTheFirstLayer(Encoder):
    """The first layer runs num_layers times, and the others never do."""

    def forward(self, x, mask=None):
        for _ in self.layers:
            x = self.layers[0](x, mask)
        return self.norm(x)


@encoder.misconception
class RunsBackwards(Encoder):
    """The layers run from the last to the first. layers[0] comes first."""

    def forward(self, x, mask=None):
        for layer in reversed(self.layers):
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class NormalisesAfterEveryLayer(Encoder):
    """The norm at the end is applied after every layer. It should come once, after the last."""

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = self.norm(layer(x, mask))
        return x


@encoder.misconception
class NormalisesInTheLoopAndAfter(Encoder):
    """The norm at the end is applied after every layer, and once more at the end. It should come once, after the
    last layer.
    """

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = self.norm(layer(x, mask))
        return self.norm(x)


@encoder.misconception
class NormalisesTheInput(Encoder):
    """The norm comes before the first layer. It belongs after the last one.

    In pre-norm mode each layer normalises its own input, but nothing normalises the output of the last one.
    """

    def forward(self, x, mask=None):
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask)
        return x


@encoder.misconception
class AddsTheInputAtTheEnd(Encoder):
    """You add the stack's input to its result. The residual paths are inside the layers; there is none around the whole
    stack.
    """

    def forward(self, x, mask=None):
        source = x
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x + source)


@encoder.misconception
class AddsAroundEveryLayer(Encoder):
    """You add x to the output of each layer. The layers already have residual paths inside."""

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = x + layer(x, mask)
        return self.norm(x)


@encoder.misconception
class AddsUpTheLayers(Encoder):
    """You add up the outputs of all layers. Return the output of the last one."""

    def forward(self, x, mask=None):
        total = 0.0
        for layer in self.layers:
            x = layer(x, mask)
            total = total + x
        return self.norm(total)


@encoder.misconception
class ReturnsEveryLayer(Encoder):
    """You return the outputs of all layers. Return the output of the last one."""

    def forward(self, x, mask=None):
        results = []
        for layer in self.layers:
            x = layer(x, mask)
            results.append(self.norm(x))
        return results


@encoder.misconception
class ForgetsTheMask(Encoder):
    """The mask does not reach the attentions.

    So padding is attended to like any word.
    """

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, None)
        return self.norm(x)


@encoder.misconception
class MasksTheFirstLayerAlone(Encoder):
    """The mask reaches the first layer only. Every layer needs it: each has its own attention."""

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
            mask = None
        return self.norm(x)


@encoder.misconception
class InvertsTheMask(Encoder):
    """The mask gets inverted. In this course True means that attention is allowed."""

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, None if mask is None else ~mask)
        return self.norm(x)


@encoder.misconception
class CutsTheGradientBetweenLayers(Encoder):
    """x is detached between the layers.

    The numbers are right, but only the last layer can learn.
    """

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x.detach(), mask)
        return self.norm(x)


@encoder.misconception
class MixesUpTheArguments(nn.Module):
    """num_heads and d_ff are swapped when the layers are built: they take d_model, num_heads, d_ff, dropout,
    norm_first.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, d_ff, num_heads, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.misconception
class NormalisesTwiceAtTheEnd(Encoder):
    """The norm at the end is applied twice."""

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(self.norm(x))


@encoder.misconception
class BuildsNoNorm(nn.Module):
    """Your stack has no norm of its own. In pre-norm mode one comes after the last layer.

    Without it the sum that leaves the last layer is never normalised, and it grows with every layer.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


@encoder.misconception
class SwapsDropoutAndPlacement(nn.Module):
    """dropout and norm_first are swapped when the layers are built: they take d_model, num_heads, d_ff, dropout,
    norm_first.
    """

    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        require_layers(num_layers)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, norm_first, dropout) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@encoder.alternative
class WithCopies(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        first = EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first)
        self.layers = nn.ModuleList([copy.deepcopy(first) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.norm_first = norm_first

    def forward(self, x, mask=None):
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask)
        if self.norm_first:
            x = self.norm(x)
        return x


@encoder.alternative
class AsARecursion(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        self.blocks = nn.Sequential()
        while len(self.blocks) < num_layers:
            self.blocks.append(EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first))
        if norm_first:
            self.last = nn.LayerNorm(d_model)

    def forward(self, x, mask=None, depth=0):
        if depth == len(self.blocks):
            return self.last(x) if hasattr(self, "last") else x
        return self.forward(self.blocks[depth](x, mask), mask, depth + 1)


@encoder.alternative
class OfTorchsOwnLayers(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, dropout, batch_first=True, norm_first=norm_first)
        norm = nn.LayerNorm(d_model) if norm_first else None
        self.inner = nn.TransformerEncoder(layer, num_layers, norm, enable_nested_tensor=False)

    def forward(self, x, mask=None):
        hidden = None if mask is None else ~mask.squeeze(1)
        return self.inner(x, src_key_padding_mask=hidden)


@encoder.alternative
class WithAnAddedModuleForEach(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True):
        super().__init__()
        self.stack = nn.ModuleDict(
            {str(i): EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for i in range(num_layers)}
        )
        self.final_norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, x, mask=None):
        return self.final_norm(functools.reduce(lambda y, layer: layer(y, mask), self.stack.values(), x))
