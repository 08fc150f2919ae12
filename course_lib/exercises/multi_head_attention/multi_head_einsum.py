"""The exercise `multi_head_einsum`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect_close,
    expect_floats,
)
from course_lib.checking.inputs import normal


def matrices(d_model, seed):
    return {
        name: normal(d_model, d_model, seed=seed + i, scale=0.5) for i, name in enumerate(("w_q", "w_k", "w_v", "w_o"))
    }


multi_head_einsum = Exercise(
    reference.multi_head_einsum,
    cases=[
        {"x": normal(2, 3, 8, seed=20), **matrices(8, 21), "num_heads": 2},
        {"x": normal(3, 5, 12, seed=30), **matrices(12, 31), "num_heads": 4},
        {"x": normal(2, 6, 10, seed=40, scale=2), **matrices(10, 41), "num_heads": 5},
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Give each axis a letter: b batch, t query, s key, m feature of the model, h head, d feature of a head.",
        "Cut the columns of w_q into heads: w_q.reshape(d_model, num_heads, d_k) has axes m h d. Then q is "
        'einsum("btm,mhd->bhtd", x, w_q).',
        'The scores keep b and h, sum over d and run over t and s: "bhtd,bhsd->bhts". The rows of w_o belong to the '
        "heads: w_o.reshape(num_heads, d_k, d_model) has axes h d m.",
        'The last line can merge the heads and apply w_o at once: einsum("bhtd,hdm->btm", heads, w_o). Any way to the '
        "same numbers is accepted: reference.split_heads(x @ w_q, num_heads) is one.",
    ],
)


@multi_head_einsum.property("the result is (batch, time, d_model)", points=1)
def einsum_shape(subject, case):
    expect_floats(subject(*case.values()), tuple(case["x"].shape))


@multi_head_einsum.property("with one head it is softmax(Q Kᵀ / √d_model) V W_O", points=1)
def einsum_one_head(subject, case):
    single = {**case, "num_heads": 1}
    expect_close(subject(*single.values()), reference.multi_head_einsum(**single), "the result for num_heads = 1")


@multi_head_einsum.property("reordering the tokens reorders the result and changes nothing else", points=1)
def einsum_equivariance(subject, case):
    straight = expect_floats(subject(*case.values()), tuple(case["x"].shape))
    backwards = subject(*{**case, "x": case["x"].flip(1)}.values())
    expect_close(backwards, straight.flip(1), "the result for x in reverse order (wanted: your result for x, reversed)")


@multi_head_einsum.property("head i uses its own columns of w_q, w_k, w_v and its own rows of w_o", points=2)
def einsum_values(subject, case):
    expect_close(subject(*case.values()), reference.multi_head_einsum(**case))


def block_diagonal(w, num_heads):
    """The blocks on the diagonal: (head, d_k, d_k)."""
    d_k = len(w) // num_heads
    return torch.stack([w[i * d_k : (i + 1) * d_k, i * d_k : (i + 1) * d_k] for i in range(num_heads)])


@multi_head_einsum.misconception
def splits_x_before_projecting(x, w_q, w_k, w_v, w_o, num_heads):
    """You cut x into heads and project each piece with a block of the matrix. Each head reads all features of x:
    project first, cut afterwards.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    x_heads = x.reshape(*x.shape[:2], num_heads, d_k)
    w_q = block_diagonal(w_q, num_heads)
    w_k = block_diagonal(w_k, num_heads)
    w_v = block_diagonal(w_v, num_heads)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bthm,hmd->bhtd", x_heads, w_q)
    k = torch.einsum("bshm,hmd->bhsd", x_heads, w_k)
    v = torch.einsum("bshm,hmd->bhsd", x_heads, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def takes_the_heads_from_the_rows(x, w_q, w_k, w_v, w_o, num_heads):
    """Your head i owns rows of w_q, w_k and w_v. Rows belong to the input features; a head owns a block of columns."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(num_heads, d_k, d_model)
    w_k = w_k.reshape(num_heads, d_k, d_model)
    w_v = w_v.reshape(num_heads, d_k, d_model)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,hdm->bhtd", x, w_q)
    k = torch.einsum("bsm,hdm->bhsd", x, w_k)
    v = torch.einsum("bsm,hdm->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def cuts_the_columns_wrongly(x, w_q, w_k, w_v, w_o, num_heads):
    """You reshape (d_model, d_model) straight into (head, d_model, d_k), which cuts each row into pieces of
    different heads. The columns split into (head, d_k); the rows stay.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(num_heads, d_model, d_k)
    w_k = w_k.reshape(num_heads, d_model, d_k)
    w_v = w_v.reshape(num_heads, d_model, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,hmd->bhtd", x, w_q)
    k = torch.einsum("bsm,hmd->bhsd", x, w_k)
    v = torch.einsum("bsm,hmd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def interleaves_the_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """Your head i takes every num_heads-th column. It should own a block of neighbouring columns."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_k = w_k.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_v = w_v.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def transposes_the_matrices(x, w_q, w_k, w_v, w_o, num_heads):
    """You use the matrices as nn.Linear stores them (out, in). Here they are used as x @ w, without a transpose."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.T.reshape(d_model, num_heads, d_k)
    w_k = w_k.T.reshape(d_model, num_heads, d_k)
    w_v = w_v.T.reshape(d_model, num_heads, d_k)
    w_o = w_o.T.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def cuts_w_o_into_columns(x, w_q, w_k, w_v, w_o, num_heads):
    """You share out the columns of w_o over the heads. The heads' results come in at its rows."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.T.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def merges_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    """You merge the heads with a reshape alone, which scrambles the tokens. The head axis has to stand beside the
    d_k axis before the two become one.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return heads.reshape(x.shape) @ w_o.reshape(d_model, d_model)


@multi_head_einsum.misconception
def splits_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    """You cut the heads out with a reshape alone, so each head holds pieces of several tokens. First give each
    token its heads, then exchange the time axis and the head axis.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bthd", x, w_q).reshape(len(x), num_heads, -1, d_k)
    k = torch.einsum("bsm,mhd->bshd", x, w_k).reshape(len(x), num_heads, -1, d_k)
    v = torch.einsum("bsm,mhd->bshd", x, w_v).reshape(len(x), num_heads, -1, d_k)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def forgets_w_o(x, w_q, w_k, w_v, w_o, num_heads):
    """w_o is never used: the heads' results stand side by side and are never mixed."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return heads.transpose(1, 2).reshape(x.shape)


@multi_head_einsum.misconception
def ignores_num_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """num_heads is never used: this is attention with one large head."""
    d_model = x.shape[-1]
    num_heads, d_k = 1, d_model
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def adds_up_the_scores_of_all_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """The head axis is missing from your scores, so the heads' scores are added up and all heads look at the same
    place.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bts", q, k).unsqueeze(1).expand(-1, num_heads, -1, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def reads_the_value_of_the_query(x, w_q, w_k, w_v, w_o, num_heads):
    """In your last sum the values carry the query's index, so each token just gets its own value back."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhtd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def scales_by_d_model(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by √d_model. Each dot product has only d_k terms, so √d_k of the head is right."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_model)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def leaves_out_the_scale(x, w_q, w_k, w_v, w_o, num_heads):
    """The scores are not divided by √d_k."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def softmax_over_the_queries(x, w_q, w_k, w_v, w_o, num_heads):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.misconception
def exchanges_query_and_key(x, w_q, w_k, w_v, w_o, num_heads):
    """Query and key have changed places: the scores are transposed."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", k, q) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@multi_head_einsum.alternative
def by_splitting_and_merging(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (reference.split_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1)
    return reference.merge_heads(weights @ v) @ w_o


@multi_head_einsum.alternative
def one_head_after_the_other(x, w_q, w_k, w_v, w_o, num_heads):
    d_k = x.shape[-1] // num_heads
    output = torch.zeros_like(x)
    for i in range(num_heads):
        own = slice(i * d_k, (i + 1) * d_k)
        weights = ((x @ w_q[:, own]) @ (x @ w_k[:, own]).mT / math.sqrt(d_k)).softmax(-1)
        output = output + weights @ (x @ w_v[:, own]) @ w_o[own]
    return output


@multi_head_einsum.alternative
def in_two_einsums(x, w_q, w_k, w_v, w_o, num_heads):
    w_q, w_k, w_v = (w.unflatten(1, (num_heads, -1)) for w in (w_q, w_k, w_v))
    scores = torch.einsum("btm,mhd,nhd,bsn->bhts", x, w_q, w_k, x) * w_q.shape[-1] ** -0.5
    values = torch.einsum("bsm,mhd,hdn->bhsn", x, w_v, w_o.unflatten(0, (num_heads, -1)))
    return (scores.softmax(-1) @ values).sum(dim=1)


@multi_head_einsum.alternative
def with_scaled_dot_product_attention(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (torch.stack((x @ w).chunk(num_heads, dim=-1), dim=1) for w in (w_q, w_k, w_v))
    return torch.cat(F.scaled_dot_product_attention(q, k, v).unbind(1), dim=-1) @ w_o


@multi_head_einsum.alternative
def with_torchs_functional_form(x, w_q, w_k, w_v, w_o, num_heads):
    packed = torch.cat([w_q.T, w_k.T, w_v.T])
    output, _ = F.multi_head_attention_forward(
        *[x.transpose(0, 1)] * 3,
        x.shape[-1],
        num_heads,
        packed,
        None,
        None,
        None,
        False,
        0.0,
        w_o.T,
        None,
        training=False,
    )
    return output.transpose(0, 1)
