"""What the exercises of this topic have in common."""

from __future__ import annotations

import functools
import re
from itertools import permutations

import torch

from course_lib.checking.bench import NotAttempted, StudentError
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import AffineMap, RowNorm, normal
from course_lib.checking.subject import Event
from course_lib.exercises.multi_head_attention.shared import listing

ROLES = {
    "gain": {"gain", "gamma", "weight", "alpha", "scale", "g", "a", "w"},
    "bias": {"bias", "beta", "b", "shift", "offset"},
}

READY_MADE = {
    f"{prefix}{kind}_norm" for prefix in ("", "native_") for kind in ("layer", "rms", "group", "instance", "batch")
}
READY_MADE_MODULES = {"LayerNorm", "RMSNorm", "GroupNorm"} | {
    *(f"{kind}Norm{axes}d" for kind in ("Batch", "Instance", "LazyBatch", "LazyInstance") for axes in (1, 2, 3)),
    *(f"Transformer{part}{layer}" for part in ("Encoder", "Decoder") for layer in ("", "Layer")),
}
FORBIDDEN_NORMS = frozenset(READY_MADE | READY_MADE_MODULES)


def expect_own_norm(subject, built, x):
    """No ready-made norm of torch's does the work: the exercise says so."""
    used = READY_MADE & set(built.operators(x))
    subject.note("ready-made", bool(used))
    expect(not used, f"torch's own {' and '.join(sorted(used))} does the work here. Write the formula out yourself.")


def role_of(name):
    """What a parameter of a norm is for, as far as its name says so."""
    word = re.sub(r"[\d_]+", "", name.rpartition(".")[2].lower())
    return next((role for role, words in ROLES.items() if word in words), None)


def fitted(tensor, shape):
    """The tensor in this shape, if only axes of length 1 or a transpose differ; and whether no transpose was needed."""
    bare = tuple(size for size in shape if size != 1)
    if tuple(tensor.shape) == bare:
        return tensor.reshape(shape), True
    if tensor.dim() == 2 and tuple(tensor.mT.shape) == bare:
        return tensor.mT.reshape(shape), False
    return None, False


def fillings(shapes, numbers):
    """The ways to put the numbers into parameters of these shapes, the most natural one first."""
    key = (tuple(shapes.items()), tuple(map(id, numbers.values())))
    if key not in FILLINGS:
        FILLINGS[key] = (ways_to_fill(shapes, numbers), numbers)  # kept with the numbers, so that no id is used again
    return FILLINGS[key][0]


FILLINGS: dict = {}  # a diagnosis asks for the same few hundreds of times


def ways_to_fill(shapes, numbers):
    found = []
    for roles in permutations(numbers, len(shapes)):
        state, naturalness, certain = {}, 0, True
        for (name, shape), role in zip(shapes.items(), roles, strict=True):
            tensor, direct = fitted(numbers[role], shape)
            if tensor is None:
                break
            state[name] = tensor
            is_linear = direct and name.endswith("weight") and numbers[role].dim() == 2  # (out, in), as in nn.Linear
            alone = [fitted(other, shape)[0] is not None for other in numbers.values()].count(True) == 1
            naturalness += direct + 2 * (role_of(name) == role)
            certain &= is_linear or alone or role_of(name) == role
        else:
            found.append((naturalness, certain, state))
    found.sort(key=lambda way: -way[0])
    return [state for _, _, state in (found[:1] if found and found[0][1] else found)]


def fill(built, numbers, args, want):
    """Put the numbers into the module so that it answers `want`; if no way does, the most natural one.

    Returns False if they fit in no way; then the parameters hold other numbers.
    """
    shapes = built.shapes()
    ways = fillings(shapes, numbers) if len(shapes) <= len(numbers) else []
    if not ways:
        built.load({name: normal(*shape, seed=i, scale=0.4) for i, (name, shape) in enumerate(shapes.items())})
        return False
    for state in ways[1:] and ways:
        if answers_with(built, state, args, want):
            return True
    built.load(ways[0])
    return True


def answers_with(built, state, args, want):
    """Whether the module, loaded with this state, gives the wanted result. Leaves no trace."""
    with built.unobserved():
        try:
            built.load(state)
            got = built(*args)
        except (StudentError, NotAttempted):
            return False
    return isinstance(got, torch.Tensor) and is_close(got, want)


def filled(subject, sizes, numbers, args, want, must_fit=True):
    """The student's module, built with `sizes`, that holds the check's numbers."""
    built = subject.build(*sizes)
    if not fill(built, numbers, args, want) and must_fit:
        raise Failure(
            "The check fills your parameters with its own numbers and does not know this way to keep them: "
            f"{listing(built.shapes())}. The names in the docstring are always understood."
        )
    return built


def slope(function, x, at):
    """The reference's gradient of result[at] with respect to x."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x)[at].sum(), x)
    return gradient


def squared_gradient(function, numbers):
    """The sum of all squared slopes of sum(function(numbers)²): it is the same however the numbers are packed."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in numbers.items()}
    slopes = torch.autograd.grad(function(leaves).pow(2).sum(), list(leaves.values()))
    return sum(float(slope.pow(2).sum()) for slope in slopes)


def expect_gradients(built, x, function, numbers, at):
    """Gradients of function(numbers, x) reach x and all parameters. The values are right already."""
    built.require_untouched_inputs()
    of_x, slopes = built.gradient(x, wrt=0, at=at), built.parameter_gradients(x)
    got = sum(float(slope.pow(2).sum()) for slope in slopes.values())
    built.note("squared gradient", got)
    want = slope(lambda x: function(numbers, x), x, at)
    expect_close(of_x, want, f"the gradient of result[{', '.join(map(str, at))}] with respect to x")
    still = [name for name, slope in slopes.items() if not slope.any()]
    which = f" No gradient reaches {' and '.join(still)}." if still else ""
    expect(
        abs(got / squared_gradient(lambda numbers: function(numbers, x), numbers) - 1) < 1e-3,
        "The result is right, but its gradient does not come back to the parameters as it should: is something "
        f"detached (.detach(), .data, torch.no_grad, a new torch.tensor) on the way?{which}",
    )


def expect_same_in_training(built, x, want):
    """Training changes nothing: there is no dropout here."""
    built.train()
    got = expect_floats(built(x), tuple(want.shape), "the result in training")
    expect(
        is_close(got, want),
        "Your module gives different results after .train() and after .eval(). In this exercise nothing is dropped, "
        "and training makes no difference.",
    )
    built.train(False)


@functools.cache
def norm_numbers(d_model):
    return {"gain": normal(d_model, seed=d_model) + 1.3, "bias": normal(d_model, seed=d_model + 1)}


def expect_start(built):
    """A gain starts as ones, a bias as zeros; which is which may not be known."""
    starts = {name: sorted(set(tensor.flatten().tolist())) for name, tensor in built.state().items()}
    names = set(built.shapes())
    found = sorted(starts[name] for name in names)
    built.trace.append(Event("start", str(found)))
    want = sorted([[1.0], [0.0]][: len(names)])
    shown = "; ".join(f"{name} holds {starts[name][:3]}" for name in sorted(names))
    expect(
        found == want, f"At the start the gain is 1 everywhere{' and the bias 0' if len(names) > 1 else ''}. {shown}."
    )


def has_flat_position(case):
    """Whether all features of some position are equal. A root has no slope there, and right answers differ in it."""
    return bool((case["x"].amax(dim=-1) == case["x"].amin(dim=-1)).any())


def expect_positions_apart(built, case):
    """The result at a position depends on that position of x alone."""
    built(case["x"])
    built.require_untouched_inputs()
    if has_flat_position(case):
        return
    position = tuple(size - 1 for size in case["x"].shape[:-1])
    others = built.gradient(case["x"], wrt=0, at=(*position, 1))
    others[position] = 0.0
    expect(
        others.abs().max() < 1e-6,
        f"Position {list(position)} of the result depends on other positions of x: what it is divided by, or what is "
        "subtracted, is taken over too much, or along the wrong axis.",
    )


def just_built(subject, case):
    """The student's norm as it starts, but in double precision."""
    built = subject.build(case["d_model"], case["eps"])
    state = built.state()
    built.load({name: state[name].double() for name in built.shapes()})
    return built


def residual_case(*shape, seed, scale=1.0):
    d_model = shape[-1]
    return {
        "x": normal(*shape, seed=seed, scale=scale) + 0.5,
        "sublayer": AffineMap(normal(d_model, d_model, seed=seed + 1, scale=0.7), normal(d_model, seed=seed + 2)),
        "norm": RowNorm(normal(d_model, seed=seed + 3) + 1.5, normal(d_model, seed=seed + 4)),
    }


def nothing(case):
    """A sub-layer that answers 0 to everything."""
    d_model = case["x"].shape[-1]
    return AffineMap(torch.zeros(d_model, d_model).double(), torch.zeros(d_model).double())


def identity(case):
    """A norm that changes nothing."""
    d_model = case["x"].shape[-1]
    return AffineMap(torch.eye(d_model).double(), torch.zeros(d_model).double())


def residual_answer(subject, case, **changes):
    case = {**case, **changes}
    return expect_floats(subject(*case.values()), tuple(case["x"].shape))
