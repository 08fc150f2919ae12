"""The exercise `residual_post_norm`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close
from course_lib.exercises.sublayers.shared import (
    identity,
    nothing,
    residual_answer,
    residual_case,
    slope,
)
from course_lib.sublayers import check_shape_is_kept

residual_post_norm = Exercise(
    reference.residual_post_norm,
    cases=[residual_case(2, 3, seed=71), residual_case(2, 3, 4, seed=76), residual_case(3, 2, 6, seed=81, scale=3)],
    minutes=4,
    difficulty=1,
    hints=[
        "sublayer and norm are functions: you call them with a tensor and get a tensor of the same shape.",
        "Three steps, from the inside out: what does the sub-layer make of x? Add it to x. Normalise the sum.",
        "return norm(x + sublayer(x))",
    ],
)


@residual_post_norm.property("the result has the shape of x", points=1)
def post_norm_shape(subject, case):
    residual_answer(subject, case)


@residual_post_norm.property("if the sub-layer adds nothing, norm(x) is left", points=1)
def post_norm_path(subject, case):
    got = residual_answer(subject, case, sublayer=nothing(case))
    expect_close(got, case["norm"](case["x"]), "the result, with a sub-layer that answers 0,")


@residual_post_norm.property("if the norm changes nothing, x + sublayer(x) is left", points=1)
def post_norm_sum(subject, case):
    got = residual_answer(subject, case, norm=identity(case))
    expect_close(got, case["x"] + case["sublayer"](case["x"]), "the result, with a norm that changes nothing,")


@residual_post_norm.property("the sum is normalised, and the gradient takes both paths", points=2)
def post_norm_values(subject, case):
    expect_close(residual_answer(subject, case), residual_post_norm.want(case))
    subject.require_untouched_inputs()
    at = (*(0 for _ in case["x"].shape[:-1]), 1)
    want = slope(lambda x: reference.residual_post_norm(x, case["sublayer"], case["norm"]), case["x"], at)
    expect_close(subject.gradient(*case.values(), wrt=0, at=at), want, "the gradient with respect to x")


@residual_post_norm.misconception
def computes_pre_norm(x, sublayer, norm):
    """This is pre-norm: you normalise what goes into the sub-layer. In post-norm the sub-layer gets x itself, and the
    sum is normalised.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update


@residual_post_norm.misconception
def normalises_before_and_after(x, sublayer, norm):
    """You normalise twice, before the sub-layer and at the end. Post-norm normalises the sum alone."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return norm(x + update)


@residual_post_norm.misconception
def has_no_residual_path(x, sublayer, norm):
    """x itself is missing: you normalise what the sub-layer made and add nothing to it."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(update)


@residual_post_norm.misconception
def forgets_the_norm(x, sublayer, norm):
    """The norm has no effect: you return the plain sum."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@residual_post_norm.misconception
def normalises_the_update(x, sublayer, norm):
    """You normalise what the sub-layer made and add x afterwards. It is their sum that has to be normalised."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + norm(update)


@residual_post_norm.misconception
def normalises_the_path(x, sublayer, norm):
    """You normalise x and add what the sub-layer made afterwards. It is their sum that has to be normalised."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x) + update


@residual_post_norm.misconception
def normalises_each(x, sublayer, norm):
    """You normalise x and the update each by itself. It is their sum that has to be normalised."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x) + norm(update)


@residual_post_norm.misconception
def doubles_the_update(x, sublayer, norm):
    """x was overwritten before the sum: you add the update to itself. The x that came in is wanted there."""
    update = x = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update)


@residual_post_norm.misconception
def adds_inside_the_sublayer(x, sublayer, norm):
    """You add inside the sub-layer's argument. x has to reach the sum untouched.

    As it is, there is no path around the sub-layer.
    """
    update = sublayer(x + norm(x))
    check_shape_is_kept(x, update)
    return update


@residual_post_norm.misconception
def adds_x_after_the_norm(x, sublayer, norm):
    """You add x once more after the norm. What comes out of the norm is the result."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update) + x


@residual_post_norm.misconception
def uses_the_normed_x_everywhere(x, sublayer, norm):
    """You normalise x first and use the result everywhere. In post-norm the sub-layer and the sum get x itself."""
    x = norm(x)
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@residual_post_norm.misconception
def ignores_the_sublayer(x, sublayer, norm):
    """What the sub-layer makes has no influence: you normalise x alone."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x)


@residual_post_norm.misconception
def subtracts_the_update(x, sublayer, norm):
    """You subtract the update. It should be added."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x - update)


@residual_post_norm.misconception
def multiplies_by_the_update(x, sublayer, norm):
    """You multiply x by the update. A residual connection adds."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x * update)


@residual_post_norm.misconception
def halves_the_sum(x, sublayer, norm):
    """You average x and the update. They should be added, without a factor."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm((x + update) / 2)


@residual_post_norm.misconception
def puts_them_side_by_side(x, sublayer, norm):
    """You put x and the update side by side. They should be added: the shape stays the same."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return torch.cat([x, update], dim=-1)


@residual_post_norm.misconception
def applies_the_norm_twice(x, sublayer, norm):
    """You apply the norm twice after the sum. Once is enough."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(norm(x + update))


@residual_post_norm.misconception
def applies_the_sublayer_twice(x, sublayer, norm):
    """The sub-layer is applied twice, the second time to its own result."""
    update = sublayer(sublayer(x))
    check_shape_is_kept(x, update)
    return norm(x + update)


@residual_post_norm.misconception
def adds_in_place(x, sublayer, norm):
    """You add into x in place. The caller still needs its x; x + … makes a new tensor."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    x += update
    return norm(x)


@residual_post_norm.misconception
def cuts_the_residual_path(x, sublayer, norm):
    """x is detached on the residual path.

    The numbers are right, but no gradient flows along that path.
    """
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x.detach() + update)


@residual_post_norm.misconception
def cuts_the_sublayer(x, sublayer, norm):
    """The sub-layer's answer is detached, or what goes into it.

    The numbers are right, but no gradient flows through the sub-layer.
    """
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update.detach())


@residual_post_norm.misconception
def cuts_off_every_gradient(x, sublayer, norm):
    """The result is detached (.detach(), .data, no_grad, a new tensor).

    The numbers are right, but no gradient comes back through it.
    """
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update).detach()


@residual_post_norm.misconception
def adds_the_update_twice(x, sublayer, norm):
    """You add the update twice. x and the update are added once each."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update + update)


@residual_post_norm.alternative
def in_one_line(x, sublayer, norm):
    return norm(x + sublayer(x))


@residual_post_norm.alternative
def with_torch_add(x, sublayer, norm):
    return norm(torch.add(sublayer(x), x))


@residual_post_norm.alternative
def keeps_the_shortcut(x, sublayer, norm):
    shortcut = x
    x = sublayer(x)
    x = x + shortcut
    x = norm(x)
    return x


@residual_post_norm.alternative
def by_stacking_and_summing(x, sublayer, norm):
    return norm(torch.stack([x, sublayer(x)], dim=-1).sum(-1))


@residual_post_norm.alternative
def sentence_by_sentence(x, sublayer, norm):
    return torch.stack([norm(row + sublayer(row)) for row in x.unbind(0)])
