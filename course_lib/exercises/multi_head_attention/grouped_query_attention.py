"""The exercise `grouped_query_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect_close,
    expect_floats,
    expect_tuple,
    is_close,
)
from course_lib.checking.inputs import normal
from course_lib.exercises.multi_head_attention.shared import expect_distributions

grouped_query_attention = Exercise(
    reference.grouped_query_attention,
    cases=[
        {"q": normal(1, 4, 2, 3, seed=50), "k": normal(1, 2, 3, 3, seed=51), "v": normal(1, 2, 3, 2, seed=52)},
        {"q": normal(2, 6, 4, 5, seed=53), "k": normal(2, 2, 7, 5, seed=54), "v": normal(2, 2, 7, 8, seed=55)},
        {"q": normal(3, 8, 5, 2, seed=56, scale=3), "k": normal(3, 4, 6, 2, seed=57), "v": normal(3, 4, 6, 7, seed=58)},
        {  # scores beyond 1000
            "q": normal(2, 6, 4, 3, seed=59, scale=40),
            "k": normal(2, 3, 5, 3, seed=60, scale=40),
            "v": normal(2, 3, 5, 2, seed=61),
        },
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "With 4 query heads and 2 groups, heads 0 and 1 read group 0, heads 2 and 3 read group 1. Which number says "
        "how many heads share?",
        "The simplest way: make k and v as wide as q by repeating each group, then attend as always.",
        "torch.repeat_interleave repeats each entry in place (0, 0, 1, 1); repeat lays copies end to end (0, 1, 0, 1).",
        "k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1), the same for v, and then attention as always.",
    ],
)


def is_ordinary(case) -> bool:
    """Large scores have a property of their own, so that an overflow costs no other points."""
    return bool(case["q"].abs().max() < 25)


def grouped_answer(subject, case):
    output, weights = expect_tuple(subject(*case.values()), ("output", "weights"))
    batch, heads, time, _ = case["q"].shape
    expect_floats(output, (batch, heads, time, case["v"].shape[-1]), "the output")
    expect_floats(weights, (batch, heads, time, case["k"].shape[2]), "the tensor of weights")
    return output, weights


@grouped_query_attention.property("output (batch, head, query, d_v) and weights (batch, head, query, key)", points=1)
def grouped_shapes(subject, case):
    if is_ordinary(case):
        grouped_answer(subject, case)


@grouped_query_attention.property("head i has the weights softmax(q kᵀ / √d_k) over the keys of its group", points=1)
def grouped_weights(subject, case):
    if not is_ordinary(case):
        return
    _, weights = grouped_answer(subject, case)
    expect_distributions(weights)
    expect_right_groups(weights, case)
    expect_close(weights, grouped_query_attention.want(case)[1], "the tensor of weights")


def expect_right_groups(weights, case):
    """Weights that are right except for the group get a sentence about the group."""
    heads, groups = case["q"].shape[1], case["k"].shape[1]
    for head in range(heads):
        right = head // (heads // groups)
        of_group = [
            reference.grouped_query_attention(case["q"][:, [head]], *(case[name][:, [g]] for name in "kv"))[1]
            for g in range(groups)
        ]
        seen = [g for g in range(groups) if is_close(weights[:, [head]], of_group[g])]
        for group in seen if right not in seen else ():
            raise Failure(
                f"With {heads} heads and {groups} groups, head {head} should look at the keys of group {right}, but "
                f"its weights are those over group {group}."
            )


@grouped_query_attention.property("the output is the weighted sum of the values of that group", points=1)
def grouped_output(subject, case):
    if is_ordinary(case):
        output, _ = grouped_answer(subject, case)
        expect_close(output, grouped_query_attention.want(case)[0], "the output")


@grouped_query_attention.property(
    "with one group, all heads share it; with as many as heads, each has its own", points=1
)
def grouped_extremes(subject, case):
    if not is_ordinary(case):
        return
    heads = case["q"].shape[1]
    for groups, which in ((1, "the first group alone"), (heads, f"{heads} groups instead, one for each head")):
        k, v = (case[name][:, :1].repeat(1, groups, 1, 1) for name in "kv")
        k = k * torch.linspace(1, 2, groups, dtype=k.dtype)[:, None, None]
        output, _ = expect_tuple(subject(case["q"], k, v), ("output", "weights"))
        want, _ = reference.grouped_query_attention(case["q"], k, v)
        expect_close(output, want, f"the output for keys and values of {which}")


@grouped_query_attention.property("gradients go to the group of each head and to no other", points=1)
def grouped_gradients(subject, case):
    if not is_ordinary(case):
        return
    grouped_answer(subject, case)
    heads = case["q"].shape[1]
    subject.require_untouched_inputs()
    for position, name in enumerate(("queries", "keys", "values")):
        for head in sorted({0, 1, heads - 1}):
            at = (slice(None), head, 0, 0)
            got = subject.gradient(*case.values(), wrt=position, at=at)
            expect_close(got, slope(case, position, at), f"the gradient of head {head} with respect to the {name}")


@grouped_query_attention.property("scores beyond 1000 give the right result too", points=1)
def grouped_far_from_zero(subject, case):
    output, weights = grouped_answer(subject, case)
    want_output, want_weights = grouped_query_attention.want(case)
    expect_close(weights, want_weights, "the tensor of weights")
    expect_close(output, want_output, "the output")


def slope(case, position, at):
    """The reference's gradient of output[at] with respect to one of q, k and v."""
    args = list(case.values())
    args[position] = args[position].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(reference.grouped_query_attention(*args)[0][at].sum(), args[position])
    return gradient


@grouped_query_attention.misconception
def tiles_the_groups(q, k, v):
    """You repeat the groups as 0, 1, 0, 1, …. Neighbouring heads share a group: 0, 0, 1, 1, ….

    As it is, head i reads group i mod g.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat(1, sharing, 1, 1)
    v = v.repeat(1, sharing, 1, 1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def tiles_the_keys_alone(q, k, v):
    """You repeat the keys as 0, 1, 0, 1, …. Neighbouring heads share a group: 0, 0, 1, 1, …, as your values have it.

    As it is, a head searches in one group and reads from another.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat(1, sharing, 1, 1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def tiles_the_values_alone(q, k, v):
    """You repeat the values as 0, 1, 0, 1, …. Neighbouring heads share a group: 0, 0, 1, 1, …, as your keys have it.

    As it is, a head searches in one group and reads from another.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat(1, sharing, 1, 1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def does_not_share(q, k, v):
    """You use k and v as they come. q has more heads than k and v have groups: each group has to serve several query
    heads.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def repeats_the_positions(q, k, v):
    """You repeat along the key positions. It is the groups, on axis 1, that have to serve several heads."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=2)
    v = v.repeat_interleave(sharing, dim=2)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def reads_the_first_group_alone(q, k, v):
    """All your heads read group 0. Each group serves its own heads.

    That would be right only if there were a single group.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k[:, :1]
    v = v[:, :1]
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def averages_the_groups(q, k, v):
    """You average keys and values over the groups. Each head reads one group, and the groups stay apart."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.mean(dim=1, keepdim=True)
    v = v.mean(dim=1, keepdim=True)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def averages_the_queries(q, k, v):
    """You average the query heads of a group. Each query head keeps its own weights; only keys and values are
    shared.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    q = q.unflatten(1, (num_groups, sharing)).mean(dim=2)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def drops_query_heads(q, k, v):
    """You keep as many query heads as there are groups. All query heads stay; several of them share a group."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    q = q[:, ::sharing]
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def reads_the_groups_backwards(q, k, v):
    """Your heads read the groups from the last to the first."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.flip(1).repeat_interleave(sharing, dim=1)
    v = v.flip(1).repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def forgets_to_scale(q, k, v):
    """The scores are not divided by √d_k."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def scales_by_all_heads(q, k, v):
    """You divide by √(head · d_k). Each dot product has d_k terms."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(num_heads * d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def shares_out_over_the_queries(q, k, v):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    return weights @ v, weights


@grouped_query_attention.misconception
def returns_output_alone(q, k, v):
    """Only the output comes back. Return the weights too: (output, weights)."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v


@grouped_query_attention.misconception
def weights_come_first(q, k, v):
    """The two results are in the wrong order: the output comes first, the weights second."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights, weights @ v


@grouped_query_attention.misconception
def divides_by_d_k(q, k, v):
    """You divide the scores by d_k. Divide by its square root."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / d_k
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def multiplies_by_the_root(q, k, v):
    """You multiply the scores by √d_k. They are divided by it."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) * math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def takes_the_power_first(q, k, v):
    """You divide the scores by d_k / 2. Powers bind tighter than /, so d_k ** 1/2 is not the root."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / (d_k / 2)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def scales_by_the_number_of_heads(q, k, v):
    """You divide the scores by √head. It is the width d_k of queries and keys that counts."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(num_heads)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def scales_by_the_number_of_keys(q, k, v):
    """You divide the scores by the root of the number of keys. It is the width d_k of queries and keys that counts."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[2])
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def scales_by_d_v(q, k, v):
    """You divide the scores by √d_v, the width of the values. It is the width d_k of queries and keys that counts."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(v.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def scales_the_weights(q, k, v):
    """You divide by √d_k after the softmax. Divide the scores, before it.

    As it is, the rows of the weights no longer sum to 1.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1) / math.sqrt(d_k)
    return weights @ v, weights


@grouped_query_attention.misconception
def shares_out_over_the_heads(q, k, v):
    """Your softmax runs over the heads. In each head, each query shares out its attention over the keys:
    the last axis.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=1)
    return weights @ v, weights


@grouped_query_attention.misconception
def shares_out_over_the_whole_map(q, k, v):
    """Your softmax runs over all queries and keys of a head at once. Every query has weights of its own
    that sum to 1.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.flatten(2).softmax(dim=-1).reshape(scores.shape)
    return weights @ v, weights


@grouped_query_attention.misconception
def applies_the_softmax_twice(q, k, v):
    """You apply the softmax twice.

    The second one makes all weights nearly equal.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def leaves_the_softmax_out(q, k, v):
    """The softmax is missing: your weights are the scores themselves."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores
    return weights @ v, weights


@grouped_query_attention.misconception
def uses_a_sigmoid(q, k, v):
    """You use a sigmoid, which decides each weight on its own. The keys have to compete: use softmax.

    As it is, the rows of the weights do not sum to 1.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.sigmoid()
    return weights @ v, weights


@grouped_query_attention.misconception
def uses_the_logarithms(q, k, v):
    """You use log_softmax, the logarithms of the weights. Use the weights themselves."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.log_softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def never_divides_by_the_sum(q, k, v):
    """Your weights are exp(score), and the rows are not divided by their sums."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.exp()
    return weights @ v, weights


@grouped_query_attention.misconception
def divides_the_scores_by_their_sum(q, k, v):
    """You divide the scores by their sum, without the exponential.

    So negative scores become negative weights.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return weights @ v, weights


@grouped_query_attention.misconception
def overflows(q, k, v):
    """You take exp of the raw scores. torch's softmax subtracts each row's maximum first, which changes nothing but
    keeps the numbers small.

    As it is, large scores become inf, and inf / inf is NaN.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    return weights @ v, weights


@grouped_query_attention.misconception
def compares_by_cosine(q, k, v):
    """The lengths of queries and keys have no influence on your scores, only their directions. Use the dot product,
    divided by √d_k.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def turns_the_sign(q, k, v):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The keys that fit least get the most."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = -q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def picks_the_best_key(q, k, v):
    """Each of your queries takes only its best key. In soft attention every key has a share."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores)
    return weights @ v, weights


@grouped_query_attention.misconception
def hides_the_future(q, k, v):
    """You hide later keys. Nothing is masked here: every query sees every key."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    scores = scores.masked_fill(~torch.ones_like(scores).tril().bool(), -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def sums_up_the_keys(q, k, v):
    """Your output is made of the keys. Keys are for comparing; the values are summed."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ k, weights


@grouped_query_attention.misconception
def weights_with_the_scores(q, k, v):
    """Your output is made with the scores. It is made with the weights, after the softmax."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return scores @ v, weights


@grouped_query_attention.misconception
def returns_the_scores(q, k, v):
    """The second result holds the scores, before the softmax. Return the weights, after it."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, scores


@grouped_query_attention.misconception
def averages_the_weights(q, k, v):
    """You return the mean of the heads' weights. Each query head has its own map: (batch, head, query, key)."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights.mean(dim=1)


@grouped_query_attention.misconception
def merges_the_heads(q, k, v):
    """You put the heads' results side by side. Here they stay apart: (batch, head, query, d_v)."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return (weights @ v).transpose(1, 2).flatten(2), weights


@grouped_query_attention.misconception
def cuts_off_the_weights(q, k, v):
    """The weights are cut off from the gradient (.detach(), .data).

    The numbers are right, but q and k could not learn.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).detach()
    return weights @ v, weights


@grouped_query_attention.misconception
def cuts_off_every_gradient(q, k, v):
    """No gradient comes back through your output (.detach(), .data, no_grad, a new tensor).

    The numbers are right, but nothing could learn.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return (weights @ v).detach(), weights


@grouped_query_attention.misconception
def scales_in_place(q, k, v):
    """You change q in place. The caller still needs it: work on a new tensor."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    q /= math.sqrt(d_k)
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def rounds_the_root(q, k, v):
    """You divide the scores by √d_k rounded down to a whole number. Use the root itself."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / int(math.sqrt(d_k))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouped_query_attention.misconception
def subtracts_one_maximum_for_all(q, k, v):
    """You subtract the maximum of the whole tensor before exp. Each row has a maximum of its own.

    As it is, a row whose scores lie far below it becomes 0 / 0, which is NaN.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    shifted = (scores - scores.max()).exp()
    weights = shifted / shifted.sum(dim=-1, keepdim=True)
    return weights @ v, weights


@grouped_query_attention.misconception
def returns_no_weights(q, k, v):
    """The second result is None. The weights belong there: (output, weights)."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, None


@grouped_query_attention.alternative
def by_broadcasting(q, k, v):
    grouped = q.unflatten(1, (k.shape[1], -1))  # (batch, group, sharing, query, d_k)
    weights = (grouped @ k.unsqueeze(2).mT / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights @ v.unsqueeze(2)).flatten(1, 2), weights.flatten(1, 2)


@grouped_query_attention.alternative
def by_expanding(q, k, v):
    sharing = q.size(1) // k.size(1)
    k, v = (x[:, :, None].expand(-1, -1, sharing, -1, -1).reshape(x.size(0), -1, *x.shape[2:]) for x in (k, v))
    weights = F.softmax(q.matmul(k.mT) * q.size(-1) ** -0.5, dim=-1)
    return weights.matmul(v), weights


@grouped_query_attention.alternative
def head_after_head(q, k, v):
    sharing = q.shape[1] // k.shape[1]
    results = []
    for h in range(q.shape[1]):
        weights = torch.softmax(q[:, h] @ k[:, h // sharing].transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
        results.append((weights @ v[:, h // sharing], weights))
    return torch.stack([o for o, _ in results], 1), torch.stack([w for _, w in results], 1)


@grouped_query_attention.alternative
def by_einsum(q, k, v):
    grouped = q.unflatten(1, (k.shape[1], -1))
    weights = torch.einsum("bgrtd,bgsd->bgrts", grouped, k / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bgrts,bgsd->bgrtd", weights, v).flatten(1, 2), weights.flatten(1, 2)


@grouped_query_attention.alternative
def by_the_fused_operator(q, k, v):
    output = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    every_key = torch.eye(k.shape[2], dtype=q.dtype).expand(*k.shape[:3], k.shape[2])
    return output, F.scaled_dot_product_attention(q, k, every_key, enable_gqa=True)
