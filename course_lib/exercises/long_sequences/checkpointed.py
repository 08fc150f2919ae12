"""The exercise `checkpointed`: what must hold, and what people really write instead."""

from __future__ import annotations

import dataclasses

import torch
from torch.utils.checkpoint import checkpoint

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.checking.settings import BackwardPass

checkpoints = Exercise(
    long_sequences.checkpointed,
    cases=[
        {"function": BackwardPass(normal(2, 3, seed=350), normal(3, 4, seed=351), normal(4, seed=352))},
        {"function": BackwardPass(normal(3, 5, 2, seed=353), normal(2, 2, seed=354), normal(2, seed=355))},
    ],
    minutes=8,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Inside the `forward` of a torch.autograd.Function nothing is recorded: function(x) leaves no activations "
        "behind. What does `backward` need in order to compute them again?",
        "ctx.save_for_backward(x) in forward; (x,) = ctx.saved_tensors in backward. There, detach x from its history "
        "and let it require gradients: x.detach().requires_grad_().",
        "Nothing is recorded in `backward` either, unless you ask for it: with torch.enable_grad(): "
        "result = function(x).",
        "result.backward(slope) fills x.grad and the .grad of all parameters of the function. Return x.grad.",
    ],
)

KEPT: dict[tuple, BackwardPass] = {}  # the same questions are the same objects: what is known is not asked again
RIGHT: dict[BackwardPass, tuple] = {}


def passing(case, before: float = 1.0, volume: float = 1.0) -> BackwardPass:
    key = (case["function"], before, volume)
    if key not in KEPT:
        KEPT[key] = dataclasses.replace(case["function"], before=before, volume=volume)
    return KEPT[key]


def ordinary(setting: BackwardPass):
    """The result and the gradients without a checkpoint, of a function that has its later volume from the start."""
    if setting not in RIGHT:
        function, x = setting.make()
        function.volume = torch.full_like(function.volume, setting.volume)
        RIGHT[setting] = setting.read(function(x), function, x)
    return RIGHT[setting]


def answer(subject, setting: BackwardPass):
    """The result and the gradients."""
    read, seen = subject.effect(setting)
    result, gradients = read
    want = ordinary(dataclasses.replace(setting, volume=1.0))[0]
    result = expect_floats(result, tuple(want.shape))
    expect(seen["same parameters"], "The parameters of the function have changed. They should stay as they are.")
    return result, gradients


def expect_gradient(subject, gradients, setting, name, what):
    if subject.changed_inputs:
        return  # x has other numbers now; that is reported at the end
    got, want = gradients[name], ordinary(setting)[1][name]
    if got is None:
        raise Failure(f"The backward pass brings no gradient to {what}.")
    expect_close(got, want, f"the gradient of {what}")


@checkpoints.property("the result is function(x)", points=1)
def checkpoint_result(subject, case):
    setting = passing(case)
    expect_close(answer(subject, setting)[0], ordinary(setting)[0])


@checkpoints.property("x gets the gradient that it gets from function(x)", points=2)
def checkpoint_gradient_of_x(subject, case):
    setting = passing(case)
    expect_gradient(subject, answer(subject, setting)[1], setting, "x", "x")


@checkpoints.property("so do the parameters of the function", points=2)
def checkpoint_gradients_of_parameters(subject, case):
    setting = passing(case)
    for name in ("weight", "bias"):
        expect_gradient(subject, answer(subject, setting)[1], setting, name, f"the function's {name}")


@checkpoints.property("it works in the middle of a network: the gradient flows on to what x was made from", points=1)
def checkpoint_in_the_middle(subject, case):
    setting = passing(case, before=1.5)
    _, gradients = answer(subject, setting)
    expect_gradient(subject, gradients, setting, "x", "what x was made from")


@checkpoints.property("the function is computed again in the backward pass", points=2)
def checkpoint_recomputes(subject, case):
    setting = passing(case, volume=3.0)
    result, gradients = answer(subject, setting)
    expect_close(result, ordinary(passing(case))[0])
    for name in ("x", "weight", "bias"):
        got, want = gradients[name], ordinary(setting)[1][name]
        first = ordinary(passing(case))[1][name]
        if got is not None and not is_close(got, want) and is_close(got, first):
            raise Failure(
                f"Between the two passes the function was changed: its result is now {setting.volume:g} times as "
                f"large. Computed again, it has a gradient {setting.volume:g} times as large; yours is that of the "
                "forward pass."
            )
        expect_gradient(subject, gradients, setting, name, name)


@checkpoints.misconception
def keeps_the_activations(function, x):
    """Your backward pass uses what was computed in the forward pass. The function is not computed again.

    As it is, all of its activations were kept until then."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return x.grad

    return function(x)


@checkpoints.misconception
def no_gradient_at_all(function, x):
    """No gradient arrives, neither at x nor at the parameters. Either your result has no history, or your backward
    pass does not go back through the function."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return x.grad

    return Recompute.apply(x).detach()


@checkpoints.misconception
def cuts_x_off(function, x):
    """No gradient reaches x, and the function is not computed again in the backward pass: the parameters get the
    gradient of the first computation."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return x.grad

    return function(x.detach())


@checkpoints.misconception
def loses_the_gradient_of_x(function, x):
    """No gradient comes back for x, although the parameters get theirs. What comes before x in a network learns
    nothing."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return None

    return Recompute.apply(x)


@checkpoints.misconception
def no_gradient_for_the_parameters(function, x):
    """You compute the gradient of x only. The parameters of the function get none."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            (gradient,) = torch.autograd.grad(result, x, slope)
            return gradient

    return Recompute.apply(x)


@checkpoints.misconception
def ignores_the_slope(function, x):
    """You go back from the sum of the result, as if every number of it counted 1 in the loss. How much each counts
    is what `backward` is given."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(torch.ones_like(result))
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def goes_back_from_the_mean(function, x):
    """You go back from a mean over the numbers of the result. The contributions are added up."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope / slope.numel())
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def averages_the_slope(function, x):
    """You give every number of the result the same slope, their mean. Each has its own."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope.mean().expand_as(result))
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def counts_the_gradient_of_x_twice(function, x):
    """You compute again with the very x of the forward pass. The inner backward fills its .grad, and what you
    return is added to that: it counts twice. Detach it first."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def goes_back_twice(function, x):
    """You go back through the function twice, so every gradient is counted twice."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope, retain_graph=True)
            result.backward(slope)
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def parameters_counted_twice(function, x):
    """The gradients of the parameters are counted twice: you go back once for them and once more for x."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope, retain_graph=True)
            own = x.grad.clone()
            result.backward(slope)
            return own

    return Recompute.apply(x)


@checkpoints.misconception
def forgets_to_record(function, x):
    """You compute the function again without recording it. Inside `backward` torch records nothing unless it is
    told to."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            result = function(x)
            result.backward(slope)
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def recomputes_from_zeros(function, x):
    """You compute the function again at another x than in the forward pass: at zeros."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = torch.zeros_like(x).requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return x.grad

    return Recompute.apply(x)


@checkpoints.misconception
def x_for_the_gradient(function, x):
    """You return x itself where its gradient is asked for."""

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)
            return x.detach()

    return Recompute.apply(x)


@checkpoints.alternative
def by_torch_reentrant(function, x):
    return checkpoint(function, x, use_reentrant=True)


@checkpoints.alternative
def by_torch_with_hooks(function, x):
    return checkpoint(function, x, use_reentrant=False)


@checkpoints.alternative
def with_the_function_as_an_argument(function, x):
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run, ctx.x = run, x.detach()
            with torch.no_grad():
                return run(x)

        @staticmethod
        def backward(ctx, *slopes):
            x = ctx.x.clone().requires_grad_(True)
            with torch.enable_grad():
                y = ctx.run(x)
                (y * slopes[0]).sum().backward()
            return None, x.grad

    return Checkpoint.apply(function, x)


@checkpoints.alternative
def x_from_the_call(function, x):
    kept = x.detach()

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return function(x)

        @staticmethod
        def backward(ctx, slope):
            torch.set_grad_enabled(True)
            again = kept.requires_grad_()
            again.grad = None
            torch.autograd.backward([function(again)], [slope])
            torch.set_grad_enabled(False)
            return again.grad

    return Checkpoint.apply(x)
