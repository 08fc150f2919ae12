"""The exercise `accepts_decoder_layer`: which leaks a test has to catch, and what people really test instead."""

from __future__ import annotations

import torch

from course_lib import you_are_the_grader
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises.encoder_decoder import decoder_layer as tested

FLOW = (  # mistakes by which an output sees something other than it should
    "LooksAtItselfTwice",
    "LooksAtItselfTwiceUnmasked",
    "LooksAtItselfWithTheMemoryMask",
    "LetsTheSourceAsk",
    "LetsTheSourceAskWithItsMask",
    "TakesValuesFromTheTargets",
    "TakesKeysFromTheTargets",
    "MixesUpTheMasks",
    "UsesTheTargetMaskForBoth",
    "UsesTheMemoryMaskForBoth",
    "ForgetsTheCausalMask",
    "ForgetsTheSourceMask",
    "ForgetsBothMasks",
    "InvertsTheTargetMask",
    "InvertsTheSourceMask",
    "MasksTheSourceCausally",
    "LeavesOutTheCrossAttention",
    "LeavesOutTheSelfAttention",
    "BuildsItsOwnTriangle",
    "AddsATriangle",
    "TransposesTheTargetMask",
    "ForgetsBatchFirst",
)

accepts_decoder_layer = WrittenTest(
    you_are_the_grader.accepts_decoder_layer,
    tested=tested,
    shown=(
        "LooksAtItselfTwice",
        "LetsTheSourceAsk",
        "MixesUpTheMasks",
        "ForgetsTheCausalMask",
        "ForgetsTheSourceMask",
        "InvertsTheTargetMask",
        "MasksTheSourceCausally",
        "LeavesOutTheCrossAttention",
        "LeavesOutTheSelfAttention",
        "BuildsItsOwnTriangle",
        "TransposesTheTargetMask",
        "ForgetsBatchFirst",
    ),
    about=FLOW,
    minutes=7,
    difficulty=3,
    hints=[
        "Build a layer in evaluation mode, and give it a batch of at least 2 with random x and memory, a causal mask, "
        "and a memory mask that hides the padding of a shorter source.",
        "With x.requires_grad_(), who_sees_whom(layer(x, memory, mask, memory_mask), x) should equal the mask, and "
        "the same for memory the memory mask: nothing more, and nothing less.",
        "Some layers ignore your mask and build a triangle of their own. A second mask that is not causal finds them; "
        "its diagonal should be True, since each output sees its own target along the residual path.",
        "Try norm_first=True and False, with target and source lengths that differ from each other and from the batch.",
    ],
)


@accepts_decoder_layer.misconception
def accepts_everything(DecoderLayer):
    """Your test accepts whatever it is given: it has not caught a single mistake."""
    return True


@accepts_decoder_layer.misconception
def rejects_everything(DecoderLayer):
    """Your test rejects whatever it is given. A right implementation has to pass."""
    return False


@accepts_decoder_layer.misconception
def looks_at_the_shape(DecoderLayer):
    """Your test catches no more than a run and a look at the shape do. Who sees whom?"""
    torch.manual_seed(0)
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    mask = torch.ones(4, 4, dtype=torch.bool).tril().expand(3, 4, 4)
    real = torch.ones(3, 1, 5, dtype=torch.bool)
    return DecoderLayer(8, 2, 12, 0.0, True).eval()(x, memory, mask, real).shape == x.shape


@accepts_decoder_layer.misconception
def looks_at_the_future(DecoderLayer):
    """Your test asks one thing: that changing the last target changes no earlier output. What of the source, of other
    masks, and of what has to be seen?"""
    torch.manual_seed(0)
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    changed = x.clone()
    changed[:, -1] = torch.randn(8)
    masks = torch.ones(4, 4, dtype=torch.bool).tril().expand(3, 4, 4), torch.ones(3, 1, 5, dtype=torch.bool)
    layer = DecoderLayer(8, 2, 12, 0.0, True).eval()
    before, after = layer(x, memory, *masks), layer(changed, memory, *masks)
    return torch.allclose(before[:, :-1], after[:, :-1], atol=1e-6)


@accepts_decoder_layer.misconception
def looks_for_leaks_alone(DecoderLayer):
    """Your test looks for what must not be seen, and never checks that what must be seen is seen. A layer that sees
    nothing leaks nothing."""
    torch.manual_seed(0)
    mask = torch.ones(4, 4, dtype=torch.bool).tril().expand(3, 4, 4)
    real = (torch.arange(5) < torch.tensor([[5], [2], [3]])).unsqueeze(1)
    x, memory = torch.randn(3, 4, 8, requires_grad=True), torch.randn(3, 5, 8, requires_grad=True)
    result = DecoderLayer(8, 2, 12, 0.0, True).eval()(x, memory, mask, real)
    for t in range(4):
        total = (result[:, t] @ torch.arange(8.0)).sum()
        to_x, to_memory = torch.autograd.grad(total, (x, memory), retain_graph=True, allow_unused=True)
        if to_x is not None and to_x[:, t + 1 :].any():
            return False
        if to_memory is not None and to_memory[~real[:, 0]].any():
            return False
    return True


@accepts_decoder_layer.misconception
def tries_the_causal_mask_alone(DecoderLayer):
    """Your test tries no other mask than the causal one. A layer that ignores your mask and makes a triangle of its own
    goes unseen."""
    torch.manual_seed(0)
    mask = torch.ones(1, 4, 4, dtype=torch.bool).tril()
    real = torch.tensor([[[True, True, True, False, False]]])
    for norm_first in (True, False):
        x, memory = torch.randn(1, 4, 8, requires_grad=True), torch.randn(1, 5, 8, requires_grad=True)
        result = DecoderLayer(8, 2, 12, 0.0, norm_first).eval()(x, memory, mask, real)
        for t in range(4):
            slopes = torch.autograd.grad((result[:, t] @ torch.arange(8.0)).sum(), (x, memory), retain_graph=True)
            for slope, allowed in zip(slopes, (mask[:, t], real[:, 0])):
                if not torch.equal(slope.abs().amax(-1) > 0, allowed):
                    return False
    return True


@accepts_decoder_layer.alternative
def by_perturbation(DecoderLayer):
    torch.manual_seed(1)
    batch, targets, sources = 2, 5, 3
    triangle = torch.ones(targets, targets, dtype=torch.bool).tril()
    chosen = torch.rand(batch, targets, targets) < 0.6
    chosen |= torch.eye(targets, dtype=torch.bool)
    real = torch.tensor([[[True, True, False]], [[True, True, True]]])
    for norm_first in (True, False):
        layer = DecoderLayer(12, 3, 10, 0.0, norm_first).double().eval()
        for mask in (triangle.expand(batch, -1, -1), chosen):
            x, memory = torch.randn(batch, targets, 12).double(), torch.randn(batch, sources, 12).double()
            with torch.no_grad():
                before = layer(x, memory, mask, real)
                assert before.shape == x.shape
                for t in range(targets):
                    changed = x.clone()
                    changed[:, t] += torch.randn(12)
                    moved = (layer(changed, memory, mask, real) != before).any(-1)
                    assert torch.equal(moved, mask[:, :, t])
                for s in range(sources):
                    changed = memory.clone()
                    changed[:, s] += torch.randn(12)
                    moved = (layer(x, changed, mask, real) != before).any(-1)
                    assert torch.equal(moved, real[:, :, s].expand(-1, targets))
    return True


@accepts_decoder_layer.alternative
def by_jacobians(DecoderLayer):
    torch.manual_seed(2)
    for norm_first in (False, True):
        layer = DecoderLayer(4, 2, 6, 0.0, norm_first).eval()
        mask = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 0, 1]]).bool().expand(2, 3, 3)
        real = torch.tensor([[[1, 1, 1, 0]], [[1, 0, 1, 1]]]).bool()
        x, memory = torch.randn(2, 3, 4), torch.randn(2, 4, 4)

        def run(x, memory, layer=layer, mask=mask, real=real):
            return layer(x, memory, mask, real)

        to_x, to_memory = torch.autograd.functional.jacobian(run, (x, memory))
        to_x, to_memory = (slopes.abs().sum((2, 5)) > 0 for slopes in (to_x, to_memory))
        for a in range(2):
            for b in range(2):
                same = a == b
                if not torch.equal(to_x[a, :, b], mask[a] & same):
                    return False
                if not torch.equal(to_memory[a, :, b], real[a].expand(3, 4) & same):
                    return False
    return True


@accepts_decoder_layer.alternative
def by_noise(DecoderLayer):
    torch.manual_seed(3)
    for norm_first in (True, False):
        layer = DecoderLayer(6, 2, 5, 0.0, norm_first).double().eval()
        for mask in (torch.ones(5, 5).tril().bool(), torch.rand(5, 5) < 0.5):
            mask = (mask | torch.eye(5, dtype=torch.bool)).expand(3, 5, 5)
            lengths = torch.tensor([4, 1, 2])
            real = (torch.arange(4) < lengths[:, None])[:, None]
            x, memory = torch.randn(3, 5, 6).double(), torch.randn(3, 4, 6).double()
            result = layer(x, memory, mask, real)
            if result.shape != x.shape:
                return False
            other = torch.where(real.transpose(1, 2), memory, torch.randn_like(memory))
            if not torch.equal(layer(x, other, mask, real), result):
                return False
            for row in range(3):
                for place in range(int(lengths[row])):
                    other = memory.clone()
                    other[row, place] = torch.randn(6)
                    moved = (layer(x, other, mask, real) != result).any(-1)
                    if not moved[row].all() or moved.sum() != 5:
                        return False
            for i in range(5):
                hidden = ~mask[0, i]
                other = torch.where(hidden[:, None], torch.randn_like(x), x)
                if not torch.equal(layer(other, memory, mask, real)[:, i], result[:, i]):
                    return False
                for j in mask[0, i].nonzero().flatten().tolist():
                    other = x.clone()
                    other[:, j] = torch.randn(6)
                    if not (layer(other, memory, mask, real)[:, i] != result[:, i]).any(-1).all():
                        return False
    return True
