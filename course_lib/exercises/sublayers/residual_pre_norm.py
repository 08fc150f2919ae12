"""The exercise `residual_pre_norm`: what must hold, and what people really write instead."""

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

residual_pre_norm = Exercise(
    reference.residual_pre_norm,
    cases=[residual_case(2, 3, seed=86), residual_case(2, 3, 4, seed=91), residual_case(3, 2, 6, seed=96, scale=3)],
    minutes=4,
    difficulty=1,
    hints=[
        "The norm comes right before the sub-layer. On the path around it there is nothing at all.",
        "What does the sub-layer get? And what is its answer added to?",
        "return x + sublayer(norm(x))",
    ],
)


@residual_pre_norm.property("the result has the shape of x", points=1)
def pre_norm_shape(subject, case):
    residual_answer(subject, case)


@residual_pre_norm.property("if the norm changes nothing, x + sublayer(x) is left", points=1)
def pre_norm_sum(subject, case):
    got = residual_answer(subject, case, norm=identity(case))
    expect_close(got, case["x"] + case["sublayer"](case["x"]), "the result, with a norm that changes nothing,")


@residual_pre_norm.property("if the sub-layer adds nothing, x itself is left", points=1)
def pre_norm_path(subject, case):
    got = residual_answer(subject, case, sublayer=nothing(case))
    expect_close(got, case["x"], "the result, with a sub-layer that answers 0,")


@residual_pre_norm.property("the sub-layer gets norm(x), and the gradient takes both paths", points=2)
def pre_norm_values(subject, case):
    expect_close(residual_answer(subject, case), residual_pre_norm.want(case))
    subject.require_untouched_inputs()
    at = (*(0 for _ in case["x"].shape[:-1]), 1)
    want = slope(lambda x: reference.residual_pre_norm(x, case["sublayer"], case["norm"]), case["x"], at)
    expect_close(subject.gradient(*case.values(), wrt=0, at=at), want, "the gradient with respect to x")


@residual_pre_norm.misconception
def computes_post_norm(x, sublayer, norm):
    """This is post-norm: you normalise the sum. In pre-norm the norm comes before the sub-layer, and the sum is
    left alone.
    """
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update)


@residual_pre_norm.misconception
def adds_to_the_normed(x, sublayer, norm):
    """You add the update to norm(x). The path around the sub-layer carries x itself.

    As it is, the path is not free any more: every gradient has to go through the norm.
    """
    x = norm(x)
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def normalises_the_sum_too(x, sublayer, norm):
    """You normalise the sum as well. In pre-norm it is left alone; one norm after the last layer does that.

    As it is, the path is not free any more.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return norm(x + update)


@residual_pre_norm.misconception
def normalises_what_comes_out(x, sublayer, norm):
    """You normalise what comes out of the sub-layer. Pre-norm normalises what goes in."""
    update = norm(sublayer(x))
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def normalises_both_sides(x, sublayer, norm):
    """You normalise what goes into the sub-layer and what comes out. Pre-norm normalises what goes in, and nothing
    else.
    """
    update = norm(sublayer(norm(x)))
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def normalises_the_path_alone(x, sublayer, norm):
    """You normalise the path around the sub-layer, and the sub-layer gets raw x. It is the other way round."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x) + update


@residual_pre_norm.misconception
def leaves_the_norm_out(x, sublayer, norm):
    """The norm has no effect: the sub-layer gets x itself."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def leaves_the_path_out(x, sublayer, norm):
    """x itself is missing: you return what the sub-layer made and add nothing to it."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return update


@residual_pre_norm.misconception
def adds_at_the_door(x, sublayer, norm):
    """You add inside the sub-layer's argument. x has to reach the sum untouched.

    As it is, there is no path around the sub-layer.
    """
    update = sublayer(norm(x) + x)
    check_shape_is_kept(x, update)
    return update


@residual_pre_norm.misconception
def adds_at_the_door_and_after(x, sublayer, norm):
    """What goes into your sub-layer is norm(x) + x. It gets norm(x) alone; x is added to its answer."""
    update = sublayer(norm(x) + x)
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def adds_the_update_to_itself(x, sublayer, norm):
    """x was overwritten before the sum: you add the update to itself. The x that came in is wanted there."""
    update = x = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def adds_x_after_a_norm(x, sublayer, norm):
    """You normalise the sum and add x once more. In pre-norm the sum is left alone."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return norm(x + update) + x


@residual_pre_norm.misconception
def adds_x_twice(x, sublayer, norm):
    """x is in your sum twice."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update + x


@residual_pre_norm.misconception
def forgets_the_sublayer(x, sublayer, norm):
    """What the sub-layer makes has no influence: you add norm(x) to x."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + norm(x)


@residual_pre_norm.misconception
def applies_it_twice(x, sublayer, norm):
    """The sub-layer is applied twice, the second time to its own result."""
    update = sublayer(sublayer(norm(x)))
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def takes_the_update_away(x, sublayer, norm):
    """You subtract the update. It should be added."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x - update


@residual_pre_norm.misconception
def multiplies_x_and_update(x, sublayer, norm):
    """You multiply x by the update. A residual connection adds."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x * update


@residual_pre_norm.misconception
def averages_x_and_update(x, sublayer, norm):
    """You average x and the update. They should be added, without a factor."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return (x + update) / 2


@residual_pre_norm.misconception
def joins_x_and_update(x, sublayer, norm):
    """You put x and the update side by side. They should be added: the shape stays the same."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return torch.cat([x, update], dim=-1)


@residual_pre_norm.misconception
def norms_twice(x, sublayer, norm):
    """You apply the norm twice before the sub-layer."""
    update = sublayer(norm(norm(x)))
    check_shape_is_kept(x, update)
    return x + update


@residual_pre_norm.misconception
def adds_into_x(x, sublayer, norm):
    """You add into x in place. The caller still needs its x; x + … makes a new tensor."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    x += update
    return x


@residual_pre_norm.misconception
def detaches_the_path(x, sublayer, norm):
    """x is detached on the residual path.

    The numbers are right, but no gradient flows along that path.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x.detach() + update


@residual_pre_norm.misconception
def detaches_the_update(x, sublayer, norm):
    """The sub-layer's answer is detached, or what goes into it.

    The numbers are right, but no gradient flows through the sub-layer.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update.detach()


@residual_pre_norm.misconception
def cuts_off_every_gradient(x, sublayer, norm):
    """The result is detached (.detach(), .data, no_grad, a new tensor).

    The numbers are right, but no gradient comes back through it.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return (x + update).detach()


@residual_pre_norm.misconception
def adds_the_update_twice(x, sublayer, norm):
    """You add the update twice. x and the update are added once each."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update + update


@residual_pre_norm.alternative
def pre_in_one_line(x, sublayer, norm):
    return x + sublayer(norm(x))


@residual_pre_norm.alternative
def pre_with_torch_add(x, sublayer, norm):
    return torch.add(sublayer(norm(x)), x)


@residual_pre_norm.alternative
def pre_keeps_the_shortcut(x, sublayer, norm):
    shortcut = x
    x = norm(x)
    x = sublayer(x)
    return shortcut + x


@residual_pre_norm.alternative
def pre_sentence_by_sentence(x, sublayer, norm):
    return torch.stack([row + sublayer(norm(row)) for row in x.unbind(0)])


@residual_pre_norm.alternative
def pre_into_a_copy(x, sublayer, norm):
    result = x.clone()
    result += sublayer(norm(x))
    return result
