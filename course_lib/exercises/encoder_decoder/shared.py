"""What the exercises of this topic have in common.

The layers are made of parts that are right already; what can go wrong is the wiring. So most wrong answers here are
the reference with one method written differently.

A case holds the arguments of the constructor, then those of `forward`. The check puts its own numbers into the
parameters and compares with the reference, which holds the same numbers.
"""

from __future__ import annotations

import functools
import math
from itertools import islice

import torch

from course_lib.checking.bench import NotAttempted, StudentError
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal, random_mask
from course_lib.checking.parts import Sizes, placements, random_numbers
from course_lib.checking.subject import Event
from course_lib.masks import causal_mask
from course_lib.sublayers import residual_post_norm, residual_pre_norm

BUILDING = ("d_model", "num_heads", "d_ff", "num_layers", "dropout", "norm_first")


def real(*lengths, width):
    """(batch, 1, width): True on the first places of each sentence."""
    return torch.arange(width) < torch.tensor(lengths)[:, None, None]


def seen_so_far(*lengths, width):
    """(batch, width, width): the causal mask, without the padding."""
    return real(*lengths, width=width) & causal_mask(width)


def partial_mask(*shape, seed):
    """A mask in which every query may see itself and some keys, and not others."""
    mask = random_mask(*shape, seed=seed)
    mask[..., -1] &= ~mask.all(dim=-1)
    if shape[-1] == shape[-2]:
        mask |= torch.eye(shape[-1], dtype=torch.bool)
        mask[..., 0, -1] = False
    return mask


def building(case, **changes):
    """The arguments of the constructor."""
    return [changes.get(name, case[name]) for name in BUILDING if name in case]


def inputs_of(case):
    """The arguments of `forward`; masks that are None are not passed unless something follows."""
    inputs = [value for name, value in case.items() if name not in BUILDING]
    while inputs[-1] is None:
        inputs.pop()
    return inputs


def without_masks(inputs):
    return [value for value in inputs if value is not None and value.is_floating_point()]


@functools.cache
def shapes_of(kind, *args):
    return {name: tuple(p.shape) for name, p in kind(*args).named_parameters()}


@functools.cache
def numbers(kind, *args, variant="full"):
    """The numbers for every parameter. "alike": all norms have the same; "silent": also, all sub-layers give 0."""
    state = random_numbers(shapes_of(kind, *args), seed=len(args))
    if variant != "full":
        gain, bias = normal(args[0], seed=1, scale=0.3) + 1, normal(args[0], seed=2, scale=0.3)
        state |= {name: gain if name.endswith("gain") else bias for name in state if "norm" in name}
    if variant == "silent":
        state |= {name: torch.zeros_like(state[name]) for name in state if ".w_o." in name or ".w_2." in name}
    return state


KEPT: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def kept(case, key, compute):
    """`compute()`, once for this case."""
    known, answer = KEPT.get((id(case), key), (None, None))
    if known is not case:
        answer = compute()
        KEPT[id(case), key] = (case, answer)
    return answer


def right_module(kind, case, variant, dropout=0.0):
    module = kind(*building(case, dropout=dropout)).double().eval().requires_grad_(False)
    module.load_state_dict(numbers(kind, *building(case, dropout=0.0), variant=variant))
    return module


def right_without_masks(kind, case):
    return kept(case, "no masks", lambda: right_module(kind, case, "full")(*without_masks(inputs_of(case))))


def right_answer(kind, case, variant="full"):
    return kept(case, variant, lambda: right_module(kind, case, variant)(*inputs_of(case)))


ONE_NUMBER = (0, 0, 1)  # of the result: it belongs to a real position, and a norm does not make its gradient 0


def right_slope(kind, case, variant="full", wrt=0):
    """d(one number of the result) / d(the input with this number)."""

    def compute():
        inputs = inputs_of(case)
        inputs[wrt] = inputs[wrt].clone().requires_grad_()
        return torch.autograd.grad(right_module(kind, case, variant)(*inputs)[ONE_NUMBER], inputs[wrt])[0]

    return kept(case, (variant, wrt), compute)


def with_everything_dropped(kind, case):
    return kept(case, "dropped", lambda: right_module(kind, case, "alike", dropout=1.0).train()(*inputs_of(case)))


def sizes_of(case):
    return Sizes(case["d_model"], case["d_ff"], case["num_heads"])


def own_shapes(built, case):
    """name -> shape. In post-norm mode a stack may hold a norm at the end that it does not use. That makes no
    difference, so it is not in the trace: otherwise no mistake of such a stack could be recognised."""
    with built.unobserved():
        shapes = built.shapes()
    may_be_idle = "num_layers" in case and not case["norm_first"]
    counted = [shape for name, shape in shapes.items() if not (may_be_idle and name.startswith("norm."))]
    built.note("number of parameters", sum(map(math.prod, counted)))
    return shapes


def ways_to_load(built, kind, case, variant="full"):
    wanted = numbers(kind, *building(case, dropout=0.0), variant=variant)
    shapes = {name: tuple(shape) for name, shape in own_shapes(built, case).items()}
    return placements(shapes, wanted, sizes_of(case))


def built_with_numbers(subject, kind, case, variant="full", **changes):
    """The student's module, filled in the most natural way."""
    return with_numbers(subject.build(*building(case, **changes)), kind, case, variant)


def with_numbers(built, kind, case, variant="full"):
    state = next(ways_to_load(built, kind, case, variant), None)
    if state is None:
        shapes = own_shapes(built, case)
        raise Failure(
            "The check fills your parameters with its own numbers and cannot tell which is which: "
            + ", ".join(f"{name} {tuple(shape)}" for name, shape in list(shapes.items())[:30])
            + ". The parts and names that the task gives are always understood."
        )
    built.load(state)
    return built


def expect_shape(subject, kind, case):
    """The result is a tensor of the shape of x, whatever the parameters are called."""
    built = subject.build(*building(case))
    state = next(ways_to_load(built, kind, case), None)
    inputs = inputs_of(case)
    if state is None:
        inputs = [i.float() if i is not None and i.is_floating_point() else i for i in inputs]
    else:
        built.load(state)
    got = expect_floats(built(*inputs), tuple(case["x"].shape))
    # For the diagnosis: a mistake may spoil some positions and not others, or show only if the sub-layers add
    # something.
    built.trace.append(Event("positions", tuple(got.flatten(0, 1))))
    expect_floats(built(*without_masks(inputs)), tuple(case["x"].shape), "the result without masks")
    if state is not None:
        built.load(next(ways_to_load(built, kind, case, "silent")))
        built(*inputs)


def answer_of(built, case):
    """What `forward` gives: one tensor of the shape of x."""
    return expect_floats(built(*inputs_of(case)), tuple(case["x"].shape))


def where_real(case, got, want):
    """`got`, but at padded places `want`: what is computed there does not matter."""
    mask = case["mask"]
    if mask is None:
        return got
    kept = mask.expand(-1, got.shape[1], -1).any(dim=1)  # (batch, time): some position may look at it
    return torch.where(kept[..., None], got, want)


def expect_right(subject, kind, case):
    """The module gives the reference's result, under at least one way to put the numbers into its parameters.

    So do the gradients of its inputs: what is detached shows in them alone.
    """
    built = built_with_numbers(subject, kind, case)
    got, want = answer_of(built, case), right_answer(kind, case)
    if not is_close(where_real(case, got, want), want) and not right_in_another_way(built, kind, case, want):
        expect_close(where_real(case, got, want), want)
    free = expect_floats(built(*without_masks(inputs_of(case))), tuple(case["x"].shape), "the result without masks")
    expect_close(free, right_without_masks(kind, case), "the result without masks")
    for wrt, name in enumerate(name for name in ("x", "memory") if name in case):
        slope = built.gradient(*inputs_of(case), wrt=wrt, at=ONE_NUMBER)
        expect(
            is_close(slope, right_slope(kind, case, wrt=wrt)),
            f"The result is right, but the gradient that comes back to {name} is not. Is a tensor detached on the way "
            "(detach, .data, torch.no_grad)?",
        )


def right_in_another_way(built, kind, case, want):
    """Whether the numbers, put into the parameters in a less natural way, give what is wanted."""
    with built.unobserved():
        for state in islice(ways_to_load(built, kind, case), 1, None):
            try:
                built.load(state)
                got = built(*inputs_of(case))
            except (StudentError, NotAttempted):
                continue
            if (
                isinstance(got, torch.Tensor)
                and got.shape == want.shape
                and is_close(where_real(case, got, want), want)
            ):
                return True
    return False


def expect_silence(subject, kind, case):
    """If no sub-layer adds anything, x comes through, and so does its gradient; only norms touch it."""
    built = built_with_numbers(subject, kind, case, variant="silent")
    got, want = answer_of(built, case), right_answer(kind, case, "silent")
    expect_close(where_real(case, got, want), want, "the result when every sub-layer gives 0")
    slope = built.gradient(*inputs_of(case), wrt=0, at=ONE_NUMBER)
    want = right_slope(kind, case, "silent")
    expect_close(slope, want, "the gradient that comes back to x when every sub-layer gives 0")


def expect_dropout(subject, kind, case):
    """A dropout of 1 removes all that the sub-layers add: in training x comes through alone, whatever the seed."""
    built = built_with_numbers(subject, kind, case, variant="alike", dropout=1.0)
    answer_of(built, case)
    built.train()
    got, want = answer_of(built, case), with_everything_dropped(kind, case)
    what = "the result in training with dropout = 1 instead, which removes all that the sub-layers add,"
    expect_close(where_real(case, got, want), want, what)


def expect_right_stack(subject, kind, layer_kind, case):
    """As `expect_right`, with a word about the layers: a stack of wrong layers is wrong too."""
    try:
        expect_right(subject, kind, case)
    except Failure as failure:
        name = layer_kind.__name__
        advice = f" If your layers are not reference.{name}, the mistake may lie in them."
        raise Failure(failure.message + advice, failure.difference) from None


def expect_reach(built, case, wrt, allowed, what):
    """Which places the result depends on, according to its gradient. allowed: (batch, time, place) boolean."""
    sentence = allowed.shape[0] - 1
    for row in sorted({0, int(allowed[sentence].sum(dim=-1).argmin()), allowed.shape[1] - 1}):
        slope = built.gradient(*inputs_of(case), wrt=wrt, at=(sentence, row)).abs().sum(dim=-1)  # (batch, place)
        others = [i for i in range(len(slope)) if i != sentence and slope[i].max() > 1e-9]
        expect(
            not others,
            f"The result for sentence {sentence} depends on {what} of sentence {others[0] if others else 0}. Sentences "
            "of a batch never meet. (Is the first axis the batch for every part?)",
        )
        for place, may in enumerate(allowed[sentence, row].tolist()):
            does = bool(slope[sentence, place] > 1e-9)
            if does and not may:
                raise Failure(
                    f"In sentence {sentence}, position {row} may not look at {what} at position {place}, but its "
                    "result depends on it."
                )
            if may and not does:
                raise Failure(
                    f"In sentence {sentence}, position {row} may look at {what} at position {place}, but its result "
                    "does not depend on it."
                )


def reach(mask, steps, shape):
    """(batch, time, time): what a position can know of after this many layers, itself included."""
    batch, time = shape[:2]
    once = torch.ones(batch, time, time) if mask is None else mask.expand(batch, time, time).float()
    once = (once + torch.eye(time)).clamp(max=1)
    result = once
    for _ in range(steps - 1):
        result = (result @ once).clamp(max=1)
    return result > 0


def reach_of_the_source(case, steps):
    """(batch, target, source): what of the source a target can know of after this many layers."""
    (batch, target), source = case["x"].shape[:2], case["memory"].shape[1]
    mask = case["memory_mask"]
    seen = torch.ones(batch, target, source) if mask is None else mask.expand(batch, target, source).float()
    if steps > 1:
        seen = reach(case["mask"], steps - 1, case["x"].shape).float() @ seen
    return seen > 0


def expect_layers(subject, kind, layer_kind, case):
    """num_layers layers, each with its own weights, and all of them take part."""
    built = subject.build(*building(case))
    expect_parameters(built, layer_kind, case)
    expect_every_layer(with_numbers(built, kind, case), case)


def expect_parameters(built, layer_kind, case):
    """As many numbers as num_layers separate layers have, and those of the norm at the end."""
    got = sum(math.prod(shape) for shape in own_shapes(built, case).values())
    one = sum(math.prod(s) for s in shapes_of(layer_kind, case["d_model"], case["num_heads"], case["d_ff"]).values())
    count, norm = case["num_layers"], 2 * case["d_model"]
    expect(
        got not in (0, norm),
        f"Yours has {got} trainable numbers: the layers' own are not among them. Are they kept where torch finds them?",
    )
    expect(
        count == 1 or got not in (one, one + norm),
        f"There are {got} trainable numbers, those of one layer. There should be {count} layers, each with its "
        "own weights.",
    )
    expect(
        got != count * one or not case["norm_first"],
        f"There are {got} trainable numbers, those of {count} layers. In pre-norm mode a norm comes after them, with "
        f"{norm} more.",
    )
    expect(
        got in (count * one, count * one + norm),
        f"{count} layers, each with its own weights, have {count * one} trainable numbers, and the norm at the end has "
        f"{norm} more. Yours has {got}. (Is each of them a reference.{layer_kind.__name__}?)",
    )


def expect_every_layer(built, case):
    """Each layer's parameters get a gradient."""
    slopes = built.parameter_gradients(*inputs_of(case))
    idle = [name for name, slope in slopes.items() if slope.dim() > 1 and slope.abs().max() < 1e-12]
    built.trace.append(Event("idle", len(idle)))
    expect(
        not idle,
        "These weights have no influence on the result: " + ", ".join(idle[:4]) + (" …" if len(idle) > 4 else ""),
    )


# --- used in wrong and in right answers ------------------------------------------------------------------


def without_path(layer, x, sublayer, norm):
    """A wrong way: the sub-layer's output replaces x."""
    return sublayer(norm(x)) if layer.norm_first else norm(sublayer(x))


def without_norm(layer, x, sublayer, norm):
    """A wrong way: the norm is not used."""
    return x + sublayer(x)


def without_norm_in_pre_norm(layer, x, sublayer, norm):
    """A wrong way: in pre-norm mode the norm is not used."""
    return x + sublayer(x) if layer.norm_first else norm(x + sublayer(x))


def without_norm_in_post_norm(layer, x, sublayer, norm):
    """A wrong way: in post-norm mode the norm is not used."""
    return x + sublayer(norm(x)) if layer.norm_first else x + sublayer(x)


def onto_the_normalised(layer, x, sublayer, norm):
    """A wrong way: in pre-norm mode the update is added to the normalised x."""
    if layer.norm_first:
        x = norm(x)
        return x + sublayer(x)
    return norm(x + sublayer(x))


def mask_of_both(x, memory, memory_mask):
    """The source's mask with a causal one laid over it, aligned at the first positions."""
    causal = torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool).tril()
    return causal if memory_mask is None else memory_mask & causal


def hidden_pairs(mask, rows, heads):
    """Our mask as nn.MultiheadAttention wants it: True where hidden, one for each sentence and head."""
    return None if mask is None else ~mask.expand(-1, rows, -1).repeat_interleave(heads, dim=0)


# --- wrong residual paths, the same in both kinds of layer -----------------------------------------------

RESIDUAL_MISTAKES: list = []


def residual_mistake(wrong):
    """Decorator: a misconception of every layer that has a method `residual`."""
    RESIDUAL_MISTAKES.append(wrong)
    return wrong


def add_residual_mistakes(exercise):
    """Make them misconceptions of this exercise: each becomes a class that derives from the exercise's reference."""
    for wrong in RESIDUAL_MISTAKES:
        # With the module's name in it, so that its source is found here, where it is written.
        members = {name: getattr(wrong, name) for name in ("__module__", "__doc__", "residual")}
        exercise.misconception(type(wrong.__name__, (exercise.reference,), members))


@residual_mistake
class ForgetsThePath:
    """There is no residual path: the sub-layer's output replaces x. It has to be added to x."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return sublayer(norm(x))
        return norm(sublayer(x))


@residual_mistake
class ForgetsThePathInPreNorm:
    """In pre-norm mode there is no residual path: the sub-layer's output replaces x. It has to be added to x."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return sublayer(norm(x))
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class ForgetsThePathInPostNorm:
    """In post-norm mode there is no residual path: the norm is applied to the sub-layer's output alone. It belongs on
    the sum of that output and x.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return norm(sublayer(x))


@residual_mistake
class AddsToTheNormalised:
    """In pre-norm mode you add the update to the normalised x. The residual path carries x as it came in; the norm
    is for the sub-layer alone.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            x = norm(x)
            return x + sublayer(x)
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class DoublesTheUpdate:
    """You add the sub-layer's output to itself: x was overwritten before the addition.

    So the update is doubled and the input is lost.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            x = sublayer(norm(x))
            return x + x
        x = sublayer(x)
        return norm(x + x)


@residual_mistake
class AlwaysPostNorm:
    """Your layer is post-norm whatever norm_first says. With norm_first=True the norm comes before the sub-layer, and
    the path of x stays free.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return norm(x + sublayer(x))
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class AlwaysPreNorm:
    """Your layer is pre-norm whatever norm_first says. With norm_first=False the sum is normalised: norm(x +
    sublayer(x)).
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return x + sublayer(norm(x))


@residual_mistake
class SwapsThePlacements:
    """Pre-norm and post-norm are swapped: norm_first=True asks for the norm before the sub-layer."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return norm(x + sublayer(x))
        return x + sublayer(norm(x))


@residual_mistake
class NormalisesTheUpdateAlone:
    """In post-norm mode you normalise only the sub-layer's output. Normalise the sum, with x in it."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return x + norm(sublayer(x))


@residual_mistake
class NormalisesTheUpdateInPreNorm:
    """In pre-norm mode your norm comes after the sub-layer, on the update. It comes before it: the sub-layer
    reads norm(x).
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return x + norm(sublayer(x))
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class NormalisesTheUpdateInBoth:
    """Your norm is on the update alone, in both modes. Post-norm normalises the sum x + update; pre-norm normalises
    what the sub-layer reads.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return x + norm(sublayer(x))
        return x + norm(sublayer(x))


@residual_mistake
class NormalisesThePathAlone:
    """In post-norm mode you normalise x and then add the update to it. Add first, then normalise the sum."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return norm(x) + sublayer(x)


@residual_mistake
class NormalisesTwice:
    """In pre-norm mode there is a norm before the sub-layer and another one on the sum. The second one belongs to
    post-norm.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return norm(x + sublayer(norm(x)))
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class NormalisesTwiceInPostNorm:
    """In post-norm mode there is a norm on the sum, and another one before the sub-layer. The second one belongs to
    pre-norm.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return norm(x + sublayer(norm(x)))


@residual_mistake
class NormalisesNothing:
    """The norms are never used. Post-norm normalises the sum, pre-norm what the sub-layer reads."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return x + sublayer(x)
        return x + sublayer(x)


@residual_mistake
class NormalisesNothingInPreNorm:
    """In pre-norm mode the norms are never used: the sub-layer has to read norm(x), not x."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return x + sublayer(x)
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class NormalisesNothingInPostNorm:
    """In post-norm mode the norms are never used: the sum x + sublayer(x) has to be normalised."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return residual_pre_norm(x, sublayer, norm)
        return x + sublayer(x)


@residual_mistake
class HandsOverTheSum:
    """In pre-norm mode you hand x + norm(x) to the sub-layer: the addition is inside the call. Add x to the sub-layer's
    output, outside the call.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return sublayer(x + norm(x))
        return residual_post_norm(x, sublayer, norm)


@residual_mistake
class CutsThePath:
    """x is detached on the residual path.

    The numbers are right, but no gradient comes back along that path, and it is what lets deep stacks learn.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return x.detach() + sublayer(norm(x))
        return norm(x.detach() + sublayer(x))


@residual_mistake
class DropsThePath:
    """Dropout is applied to x on its residual path. It belongs on the update alone: the path carries x untouched."""

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            return self.dropout(x) + sublayer(norm(x))
        return norm(self.dropout(x) + sublayer(x))


@residual_mistake
class AddsInPlace:
    """In pre-norm mode you add to x in place (+=). Make a new tensor of the sum.

    In place, the caller's tensor is changed, and autograd refuses it.
    """

    def residual(self, x, sublayer, norm):
        if self.norm_first:
            x += sublayer(norm(x))
            return x
        return residual_post_norm(x, sublayer, norm)
