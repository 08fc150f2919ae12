"""The exercise `grouped_query_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
    expect_close,
    expect_floats,
    expect_tuple,
)
from course_lib.checking.inputs import normal

grouped_query_attention = Exercise(
    reference.grouped_query_attention,
    cases=[
        {"q": normal(1, 4, 2, 3, seed=50), "k": normal(1, 2, 3, 3, seed=51), "v": normal(1, 2, 3, 2, seed=52)},
        {"q": normal(2, 6, 4, 5, seed=53), "k": normal(2, 2, 7, 5, seed=54), "v": normal(2, 2, 7, 8, seed=55)},
        {"q": normal(3, 8, 5, 2, seed=56, scale=3), "k": normal(3, 4, 6, 2, seed=57), "v": normal(3, 4, 6, 7, seed=58)},
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


def grouped_answer(subject, case):
    output, weights = expect_tuple(subject(*case.values()), ("output", "weights"))
    batch, heads, time, _ = case["q"].shape
    expect_floats(output, (batch, heads, time, case["v"].shape[-1]), "the output")
    expect_floats(weights, (batch, heads, time, case["k"].shape[2]), "the weights")
    return output, weights


@grouped_query_attention.property("output (batch, head, query, d_v) and weights (batch, head, query, key)", points=1)
def grouped_shapes(subject, case):
    grouped_answer(subject, case)


@grouped_query_attention.property("each row of the weights is a probability distribution", points=1)
def grouped_rows(subject, case):
    _, weights = grouped_answer(subject, case)
    sums = weights.sum(dim=-1)
    expect(weights.min() >= -1e-6, "There is a negative weight.")
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


@grouped_query_attention.property(
    "with one group, all heads share it; with as many as heads, each has its own", points=1
)
def grouped_extremes(subject, case):
    heads = case["q"].shape[1]
    for groups in (1, heads):
        k, v = (case[name][:, :1].repeat(1, groups, 1, 1) for name in "kv")
        k = k * torch.linspace(1, 2, groups, dtype=k.dtype)[:, None, None]
        output, _ = expect_tuple(subject(case["q"], k, v), ("output", "weights"))
        want, _ = reference.grouped_query_attention(case["q"], k, v)
        expect_close(output, want, f"the output of {heads} heads over {groups} group{'s'[: groups - 1]}")


@grouped_query_attention.property("query head h reads group h // (head / group), and no other", points=1)
def grouped_sharing(subject, case):
    heads, groups = case["q"].shape[1], case["k"].shape[1]
    for position, name in ((1, "keys"), (2, "values")):
        for head in {0, 1, heads - 1}:
            gradient = subject.gradient(*case.values(), wrt=position, at=(slice(None), head, 0, 0))
            read = gradient.abs().sum(dim=(0, 2, 3)).nonzero().flatten().tolist()
            right = head // (heads // groups)
            expect(
                read == [right],
                f"With {heads} heads and {groups} groups, head {head} should read the {name} of group {right} alone, "
                f"but it reads those of {read or 'no group'}.",
            )


@grouped_query_attention.property("output and weights are those of scaled dot-product attention", points=2)
def grouped_values(subject, case):
    output, weights = grouped_answer(subject, case)
    want_output, want_weights = reference.grouped_query_attention(**case)
    expect_close(weights, want_weights, "the weights")
    expect_close(output, want_output, "the output")


@grouped_query_attention.misconception
def tiles_the_groups(q, k, v):
    """You repeat the groups as 0, 1, 0, 1, … so that head h reads group h mod G. Neighbouring heads share a group:
    0, 0, 1, 1, …
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
    """The keys are repeated as 0, 1, 0, 1, …, the values as 0, 0, 1, 1, …: a head searches in one group and reads
    from another.
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
    """The values are repeated as 0, 1, 0, 1, …, the keys as 0, 0, 1, 1, …: a head searches in one group and reads
    from another.
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
    """q has more heads than k and v have groups: each group has to serve several query heads."""
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
    """All your heads read group 0. That is right only if there is one group."""
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
    """The two results stand in the wrong order: the output comes first, the weights second."""
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
