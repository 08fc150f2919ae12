"""The exercise `project_qkv`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats, expect_tuple
from course_lib.checking.inputs import normal

project_qkv = Exercise(
    reference.project_qkv,
    cases=[
        {
            "x": normal(2, 3, seed=24),
            "w_q": normal(3, 4, seed=25),
            "w_k": normal(3, 4, seed=26),
            "w_v": normal(3, 2, seed=27),
        },
        {
            "x": normal(2, 4, 5, seed=28),
            "w_q": normal(5, 3, seed=29),
            "w_k": normal(5, 3, seed=30),
            "w_v": normal(5, 6, seed=31),
        },
        {
            "x": normal(3, 2, 4, seed=32),
            "w_q": normal(4, 4, seed=33),
            "w_k": normal(4, 4, seed=34),
            "w_v": normal(4, 4, seed=35),
        },
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "Each of the three is one matrix product of x with its own matrix.",
        "The matrices are (d_in, d_out), so x goes on the left: (…, time, d_in) @ (d_in, d_out).",
        "q = x @ w_q, and the other two in the same way; return q, k, v in this order.",
    ],
)


def projections_of(subject, case):
    members = expect_tuple(subject(*case.values()), ("q", "k", "v"))
    wants = project_qkv.want(case)
    return [
        expect_floats(got, tuple(want.shape), f"the result {name}") for got, want, name in zip(members, wants, "qkv")
    ]


@project_qkv.property("q, k and v come back, each with its own width", points=1)
def projections_shapes(subject, case):
    projections_of(subject, case)


@project_qkv.property("the queries are x times w_q", points=1)
def projections_queries(subject, case):
    expect_close(projections_of(subject, case)[0], case["x"] @ case["w_q"], "the result q")


@project_qkv.property("the keys are x times w_k", points=1)
def projections_keys(subject, case):
    expect_close(projections_of(subject, case)[1], case["x"] @ case["w_k"], "the result k")


@project_qkv.property("the values are x times w_v", points=1)
def projections_values(subject, case):
    expect_close(projections_of(subject, case)[2], case["x"] @ case["w_v"], "the result v")


@project_qkv.misconception
def keys_with_the_query_matrix(x, w_q, w_k, w_v):
    """Your keys are made with w_q. Each role has a matrix of its own."""
    q = x @ w_q
    k = x @ w_q
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def queries_with_the_key_matrix(x, w_q, w_k, w_v):
    """Your queries are made with w_k. Each role has a matrix of its own."""
    q = x @ w_k
    k = x @ w_k
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def one_matrix_for_all(x, w_q, w_k, w_v):
    """You use w_q three times. Each role has a matrix of its own."""
    q = x @ w_q
    k = x @ w_q
    v = x @ w_q
    return q, k, v


@project_qkv.misconception
def values_with_the_key_matrix(x, w_q, w_k, w_v):
    """Your values are made with w_k. Each role has a matrix of its own."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_k
    return q, k, v


@project_qkv.misconception
def values_not_projected(x, w_q, w_k, w_v):
    """Your values are x itself. They have a matrix of their own too: w_v."""
    q = x @ w_q
    k = x @ w_k
    v = x
    return q, k, v


@project_qkv.misconception
def queries_and_keys_swapped(x, w_q, w_k, w_v):
    """Queries and keys are swapped."""
    q = x @ w_k
    k = x @ w_q
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def keys_and_values_swapped(x, w_q, w_k, w_v):
    """Keys and values are swapped: the order is q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return q, v, k


@project_qkv.misconception
def values_first(x, w_q, w_k, w_v):
    """You return the three in the order v, k, q. Return q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return v, k, q


@project_qkv.misconception
def multiplies_by_the_transposed(x, w_q, w_k, w_v):
    """You multiply by the transposed matrices. The given ones are (d_in, d_out) already.

    F.linear and nn.Linear transpose, because their weights are (d_out, d_in).
    """
    q = x @ w_q.T
    k = x @ w_k.T
    v = x @ w_v.T
    return q, k, v


@project_qkv.misconception
def multiplies_from_the_left(x, w_q, w_k, w_v):
    """You put the matrices on the left of x. A token is a row of x, so x goes on the left: x times w."""
    q = w_q @ x
    k = w_k @ x
    v = w_v @ x
    return q, k, v


@project_qkv.misconception
def projects_one_after_the_other(x, w_q, w_k, w_v):
    """You project the result of the previous projection. All three start from x."""
    q = x @ w_q
    k = q @ w_k
    v = k @ w_v
    return q, k, v


@project_qkv.misconception
def projects_the_projected_values(x, w_q, w_k, w_v):
    """Your values are made from the keys. All three start from x."""
    q = x @ w_q
    k = x @ w_k
    v = k @ w_v
    return q, k, v


@project_qkv.misconception
def queries_already_scaled(x, w_q, w_k, w_v):
    """You divide the queries by √d_k here. Attention does that itself.

    Done twice, the scores become too small.
    """
    q = x @ w_q / math.sqrt(w_q.shape[1])
    k = x @ w_k
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def projects_with_relu(x, w_q, w_k, w_v):
    """Your projections contain a ReLU. They are linear: each is a plain matrix product."""
    q = (x @ w_q).relu()
    k = (x @ w_k).relu()
    v = (x @ w_v).relu()
    return q, k, v


@project_qkv.misconception
def packs_the_three(x, w_q, w_k, w_v):
    """You return all three side by side in one tensor. Return three: q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return torch.cat([q, k, v], dim=-1)


@project_qkv.misconception
def cuts_into_three_equal_parts(x, w_q, w_k, w_v):
    """You cut the product with all three matrices into three equal parts. The values may be wider or narrower than the
    queries and keys: cut where each matrix ends."""
    together = x @ torch.cat([w_q, w_k, w_v], dim=1)
    return together.chunk(3, dim=-1)


@project_qkv.misconception
def projects_one_sequence_only(x, w_q, w_k, w_v):
    """You multiply with torch.mm, which takes two plain matrices. @ takes any number of leading axes.

    With a batch in front of x it fails.
    """
    q = torch.mm(x, w_q)
    k = torch.mm(x, w_k)
    v = torch.mm(x, w_v)
    return q, k, v


@project_qkv.misconception
def multiplies_the_transposed_from_the_left(x, w_q, w_k, w_v):
    """You compute w.T @ x. A token is a row of x: x times w.

    It would be right if a token were a column of x.
    """
    q = w_q.T @ x
    k = w_k.T @ x
    v = w_v.T @ x
    return q, k, v


@project_qkv.misconception
def queries_not_projected(x, w_q, w_k, w_v):
    """Your queries are x itself. They have a matrix of their own too: w_q."""
    q = x
    k = x @ w_k
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def queries_and_keys_with_softmax(x, w_q, w_k, w_v):
    """You apply a softmax to queries and keys. The projections are plain matrix products; the softmax comes later."""
    q = (x @ w_q).softmax(dim=-1)
    k = (x @ w_k).softmax(dim=-1)
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def keys_not_projected(x, w_q, w_k, w_v):
    """Your keys are x itself. They have a matrix of their own too: w_k."""
    q = x @ w_q
    k = x
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def keys_already_scaled(x, w_q, w_k, w_v):
    """You divide the keys by √d_k here. Attention does that itself.

    Done twice, the scores become too small.
    """
    q = x @ w_q
    k = x @ w_k / math.sqrt(w_k.shape[1])
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def values_with_relu(x, w_q, w_k, w_v):
    """You apply a ReLU to the values. The projections are linear: each is a plain matrix product."""
    q = x @ w_q
    k = x @ w_k
    v = (x @ w_v).relu()
    return q, k, v


@project_qkv.misconception
def queries_with_relu(x, w_q, w_k, w_v):
    """You apply a ReLU to the queries. The projections are linear: each is a plain matrix product."""
    q = (x @ w_q).relu()
    k = x @ w_k
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def values_with_softmax(x, w_q, w_k, w_v):
    """You apply a softmax to the values. The projections are plain matrix products; the softmax comes later."""
    q = x @ w_q
    k = x @ w_k
    v = (x @ w_v).softmax(dim=-1)
    return q, k, v


@project_qkv.misconception
def values_with_the_query_matrix(x, w_q, w_k, w_v):
    """Your values are made with w_q. Each role has a matrix of its own."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_q
    return q, k, v


@project_qkv.misconception
def the_key_matrix_for_all(x, w_q, w_k, w_v):
    """You use w_k three times. Each role has a matrix of its own."""
    q = x @ w_k
    k = x @ w_k
    v = x @ w_k
    return q, k, v


@project_qkv.misconception
def values_queries_keys(x, w_q, w_k, w_v):
    """You return the three in the order v, q, k. Return q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return v, q, k


@project_qkv.misconception
def forgets_the_values(x, w_q, w_k, w_v):
    """You return two results. Return three: q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return q, k


@project_qkv.misconception
def projects_to_length_one(x, w_q, w_k, w_v):
    """You normalise the projected vectors to length 1. The projections are plain matrix products."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return F.normalize(q, dim=-1), F.normalize(k, dim=-1), F.normalize(v, dim=-1)


@project_qkv.misconception
def multiplies_entry_by_entry(x, w_q, w_k, w_v):
    """You multiply entry by entry, as * does. A projection is a matrix product: @."""
    q = x * w_q
    k = x * w_k
    v = x * w_v
    return q, k, v


@project_qkv.alternative
def packed_into_one_product(x, w_q, w_k, w_v):
    sizes = [w.shape[1] for w in (w_q, w_k, w_v)]
    return (x @ torch.cat([w_q, w_k, w_v], dim=1)).split(sizes, dim=-1)


@project_qkv.alternative
def projected_by_einsum(x, w_q, w_k, w_v):
    return [torch.einsum("...i,io->...o", x, w) for w in (w_q, w_k, w_v)]


@project_qkv.alternative
def projected_by_linear(x, w_q, w_k, w_v):
    return F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)


@project_qkv.alternative
def projected_from_the_left(x, w_q, w_k, w_v):
    return tuple((w.T @ x.mT).mT for w in (w_q, w_k, w_v))


@project_qkv.alternative
def projected_feature_by_feature(x, w_q, w_k, w_v):
    def project(w):
        return torch.stack([(x * w[:, c]).sum(-1) for c in range(w.shape[1])], dim=-1).float()

    return project(w_q), project(w_k), project(w_v)
