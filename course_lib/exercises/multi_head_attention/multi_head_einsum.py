"""The exercise `multi_head_einsum`: what must hold, and what people really write instead."""

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
    is_close,
)
from course_lib.checking.inputs import normal
from course_lib.masks import causal_mask


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
        {"x": normal(3, 4, 6, seed=60, scale=30), **matrices(6, 61), "num_heads": 3},  # scores beyond 1000
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Give each axis a letter: b batch, n query, m key, e feature of the model, h head, d feature of a head.",
        "Cut the columns of w_q into heads: w_q.reshape(d_model, num_heads, d_k) has axes e h d. Then q is "
        'einsum("bne,ehd->bhnd", x, w_q).',
        'The scores keep b and h, sum over d and run over n and m: "bhnd,bhmd->bhnm". The rows of w_o belong to the '
        "heads: w_o.reshape(num_heads, d_k, d_model) has axes h d e.",
        'The last line can merge the heads and apply w_o at once: einsum("bhnd,hde->bne", heads, w_o). Any way to the '
        "same numbers is accepted: split_heads(x @ w_q, num_heads) is one.",
    ],
)


def is_ordinary(case) -> bool:
    """Large scores have a property of their own, so that an overflow costs no other points."""
    return bool(case["x"].abs().max() < 25)


@multi_head_einsum.property("the result is (batch, time, d_model)", points=1)
def einsum_shape(subject, case):
    if is_ordinary(case):
        expect_floats(subject(*case.values()), tuple(case["x"].shape))


@multi_head_einsum.property("head i uses its own columns of w_q, w_k, w_v and its own rows of w_o", points=1)
def einsum_values(subject, case):
    if not is_ordinary(case):
        return
    got = expect_floats(subject(*case.values()), tuple(case["x"].shape))
    try:
        expect_close(got, multi_head_einsum.want(case))
    except Failure as failure:
        raise Failure(f"{failure.message} {what_one_head_shows(subject, case)}", failure.difference) from None


def what_one_head_shows(subject, case):
    """Where to look: the cutting into heads, or what comes before it."""
    single = {**case, "num_heads": 1}
    with subject.unobserved():
        got = subject(*single.values())
    if isinstance(got, torch.Tensor) and is_close(got, reference.multi_head_einsum(**single)):
        return "With num_heads = 1 your result is right, so look at how the matrices and results are cut into heads."
    return "With num_heads = 1 it is wrong too, so look at the projections (w_o too), the scores and the softmax first."


@multi_head_einsum.property("reordering the tokens reorders the result and changes nothing else", points=1)
def einsum_equivariance(subject, case):
    if not is_ordinary(case):
        return
    backwards = {**case, "x": case["x"].flip(1)}
    expect_close(
        subject(*backwards.values()),
        reference.multi_head_einsum(**backwards),
        "the result for the same tokens in reverse order",
    )


@multi_head_einsum.property("gradients come back to x and to all four matrices", points=1)
def einsum_gradients(subject, case):
    if not is_ordinary(case):
        return
    einsum_values(subject, case)
    subject.require_untouched_inputs()
    for position, name in enumerate(("x", "w_q", "w_k", "w_v", "w_o")):
        got = subject.gradient(*case.values(), wrt=position, at=(0, 1))
        expect_close(got, slope(case, name), f"the gradient of the result's token [0, 1] with respect to {name}")


@multi_head_einsum.property("scores beyond 1000 give the right result too", points=1)
def einsum_far_from_zero(subject, case):
    got = expect_floats(subject(*case.values()), tuple(case["x"].shape))
    expect_close(got, multi_head_einsum.want(case))


def slope(case, name):
    """The reference's gradient of token 1 of sequence 0."""
    variable = case[name].clone().requires_grad_()
    result = reference.multi_head_einsum(**{**case, name: variable})
    (gradient,) = torch.autograd.grad(result[0, 1].sum(), variable)
    return gradient


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
    q = torch.einsum("bnhe,hed->bhnd", x_heads, w_q)
    k = torch.einsum("bmhe,hed->bhmd", x_heads, w_k)
    v = torch.einsum("bmhe,hed->bhmd", x_heads, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def takes_the_heads_from_the_rows(x, w_q, w_k, w_v, w_o, num_heads):
    """You take w_q, w_k and w_v transposed: your head i owns a block of rows. Rows belong to the input features; a head
    owns a block of columns.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(num_heads, d_k, d_model)
    w_k = w_k.reshape(num_heads, d_k, d_model)
    w_v = w_v.reshape(num_heads, d_k, d_model)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,hde->bhnd", x, w_q)
    k = torch.einsum("bme,hde->bhmd", x, w_k)
    v = torch.einsum("bme,hde->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def cuts_the_columns_wrongly(x, w_q, w_k, w_v, w_o, num_heads):
    """You reshape (d_model, d_model) straight into (head, d_model, d_k). The columns split into (head, d_k); the rows
    stay.

    As it is, each row is cut into pieces that go to different heads.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(num_heads, d_model, d_k)
    w_k = w_k.reshape(num_heads, d_model, d_k)
    w_v = w_v.reshape(num_heads, d_model, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,hed->bhnd", x, w_q)
    k = torch.einsum("bme,hed->bhmd", x, w_k)
    v = torch.einsum("bme,hed->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def interleaves_the_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """Your head i takes every num_heads-th column. It should own a block of neighbouring columns."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_k = w_k.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_v = w_v.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def transposes_the_matrices(x, w_q, w_k, w_v, w_o, num_heads):
    """You use the matrices transposed, as nn.Linear stores them: (out, in). Here they are used as x @ w."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.T.reshape(d_model, num_heads, d_k)
    w_k = w_k.T.reshape(d_model, num_heads, d_k)
    w_v = w_v.T.reshape(d_model, num_heads, d_k)
    w_o = w_o.T.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def cuts_w_o_into_columns(x, w_q, w_k, w_v, w_o, num_heads):
    """You use w_o transposed: its columns are shared out over the heads. The heads' results come in at its rows."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.T.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def merges_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    """You merge the heads with a reshape alone. The head axis has to come right before the d_k axis; then the two
    become one.

    As it is, each token of the result holds pieces of several tokens.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return heads.reshape(x.shape) @ w_o.reshape(d_model, d_model)


@multi_head_einsum.misconception
def splits_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    """You cut out the heads with a reshape alone. First give each token its heads, then swap the time axis and the
    head axis.

    As it is, each head holds pieces of several tokens.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bnhd", x, w_q).reshape(len(x), num_heads, -1, d_k)
    k = torch.einsum("bme,ehd->bmhd", x, w_k).reshape(len(x), num_heads, -1, d_k)
    v = torch.einsum("bme,ehd->bmhd", x, w_v).reshape(len(x), num_heads, -1, d_k)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def forgets_w_o(x, w_q, w_k, w_v, w_o, num_heads):
    """w_o is never used.

    So the heads' results stand side by side and are never mixed.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return heads.transpose(1, 2).reshape(x.shape)


@multi_head_einsum.misconception
def ignores_num_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """num_heads has no effect: this is attention with one large head."""
    d_model = x.shape[-1]
    num_heads, d_k = 1, d_model
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def adds_up_the_scores_of_all_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """The head axis is missing from your scores: the heads' scores are added up.

    So all heads look at the same place.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bnm", q, k).unsqueeze(1).expand(-1, num_heads, -1, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def reads_the_value_of_the_query(x, w_q, w_k, w_v, w_o, num_heads):
    """In your last sum the values carry the query's index. They carry the key's.

    As it is, each token just gets its own value back.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhnd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def scales_by_d_model(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by √d_model. Each dot product has only d_k terms, so √d_k of the head is right."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_model)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def leaves_out_the_scale(x, w_q, w_k, w_v, w_o, num_heads):
    """The scores are not divided by √d_k."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def softmax_over_the_queries(x, w_q, w_k, w_v, w_o, num_heads):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def exchanges_query_and_key(x, w_q, w_k, w_v, w_o, num_heads):
    """Query and key have changed places in your scores: a row belongs to a query, a column to a key."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", k, q) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def divides_by_d_k(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by d_k. Divide by its square root."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / d_k
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def multiplies_by_the_root(x, w_q, w_k, w_v, w_o, num_heads):
    """You multiply the scores by √d_k. They are divided by it."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) * math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def takes_the_power_first(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by d_k / 2. Powers bind tighter than /, so d_k ** 1/2 is not the root."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / (d_k / 2)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def scales_by_the_number_of_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by √num_heads. It is the size d_k of a head that counts."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(num_heads)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def scales_by_the_length(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by the root of the number of tokens. It is the size d_k of a head that counts."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(x.shape[1])
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def scales_the_weights(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide by √d_k after the softmax. Divide the scores, before it.

    As it is, the rows of the weights no longer sum to 1.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k)
    weights = scores.softmax(dim=-1) / math.sqrt(d_k)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def softmax_over_the_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """Your softmax runs over the heads. In each head, each query shares out its attention over the keys:
    the last axis.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def softmax_over_the_whole_map(x, w_q, w_k, w_v, w_o, num_heads):
    """Your softmax runs over all queries and keys of a head at once. Every query has weights of its own
    that sum to 1.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.flatten(2).softmax(dim=-1).reshape(scores.shape)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def applies_the_softmax_twice(x, w_q, w_k, w_v, w_o, num_heads):
    """You apply the softmax twice.

    The second one makes all weights nearly equal.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def leaves_the_softmax_out(x, w_q, w_k, w_v, w_o, num_heads):
    """The softmax is missing: you weight the values with the scores themselves."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def uses_a_sigmoid(x, w_q, w_k, w_v, w_o, num_heads):
    """You use a sigmoid, which decides each weight on its own. The keys have to compete: use softmax.

    As it is, the rows of the weights do not sum to 1.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.sigmoid()
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def uses_the_logarithms(x, w_q, w_k, w_v, w_o, num_heads):
    """You use log_softmax, the logarithms of the weights. Use the weights themselves."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.log_softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def turns_the_sign(x, w_q, w_k, w_v, w_o, num_heads):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The keys that fit least get the most."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = -torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def picks_the_best_key(x, w_q, w_k, w_v, w_o, num_heads):
    """Each of your queries takes only its best key. In soft attention every key has a share."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def never_divides_by_the_sum(x, w_q, w_k, w_v, w_o, num_heads):
    """Your weights are exp(score), and the rows are not divided by their sums."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.exp()
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def divides_the_scores_by_their_sum(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by their sum, without the exponential.

    So negative scores become negative weights.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def overflows(x, w_q, w_k, w_v, w_o, num_heads):
    """You take exp of the raw scores. torch's softmax subtracts each row's maximum first, which changes nothing but
    keeps the numbers small.

    As it is, large scores become inf, and inf / inf is NaN.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def compares_by_cosine(x, w_q, w_k, w_v, w_o, num_heads):
    """The lengths of queries and keys have no influence on your scores, only their directions. Use the dot product,
    divided by √d_k.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", F.normalize(q, dim=-1), F.normalize(k, dim=-1))
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def sums_up_the_keys(x, w_q, w_k, w_v, w_o, num_heads):
    """Your output is made of the keys, x w_k. Keys are for comparing; the values are summed, x w_v."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, k)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def shares_one_projection(x, w_q, w_k, w_v, w_o, num_heads):
    """w_q makes your queries, keys and values alike. Each has a matrix of its own."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_q)
    v = torch.einsum("bme,ehd->bhmd", x, w_q)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def makes_the_keys_with_w_q(x, w_q, w_k, w_v, w_o, num_heads):
    """Your keys are made with w_q. They have a matrix of their own: w_k."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_q)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def exchanges_keys_and_values(x, w_q, w_k, w_v, w_o, num_heads):
    """w_k and w_v have changed places: you compare with what should be read, and read what should be compared."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_v)
    v = torch.einsum("bme,ehd->bhmd", x, w_k)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def cuts_off_negative_projections(x, w_q, w_k, w_v, w_o, num_heads):
    """You apply a ReLU to the projections. They are linear, with nothing after them.

    As it is, no score can be negative.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q).relu()
    k = torch.einsum("bme,ehd->bhmd", x, w_k).relu()
    v = torch.einsum("bme,ehd->bhmd", x, w_v).relu()
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def interleaves_the_results(x, w_q, w_k, w_v, w_o, num_heads):
    """You put the heads' results together feature by feature, one from each head in turn. Each head's d_k features stay
    together as one block.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return heads.permute(0, 2, 3, 1).reshape(x.shape) @ w_o.reshape(d_model, d_model)


@multi_head_einsum.misconception
def adds_the_input(x, w_q, w_k, w_v, w_o, num_heads):
    """You add x to the result. The residual connection belongs to the layer around attention, not to
    attention itself.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return x + torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def hides_the_future(x, w_q, w_k, w_v, w_o, num_heads):
    """You hide later tokens. Nothing is masked here: every query sees every key."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    scores = scores.masked_fill(~causal_mask(x.shape[1]), -math.inf)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def attends_across_the_batch(x, w_q, w_k, w_v, w_o, num_heads):
    """You take the first axis for time. It is the batch: each sequence attends within itself.

    As it is, the sequences of the batch look at each other, and the tokens of one sequence do not.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("nbe,ehd->bhnd", x, w_q)
    k = torch.einsum("mbe,ehd->bhmd", x, w_k)
    v = torch.einsum("mbe,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->nbe", heads, w_o)


@multi_head_einsum.misconception
def cuts_off_the_weights(x, w_q, w_k, w_v, w_o, num_heads):
    """The weights are cut off from the gradient (.detach(), .data).

    The numbers are right, but w_q and w_k could not learn.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).detach()
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def cuts_off_every_gradient(x, w_q, w_k, w_v, w_o, num_heads):
    """No gradient comes back through your result (.detach(), .data, no_grad, a new tensor).

    The numbers are right, but nothing could learn.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o).detach()


@multi_head_einsum.misconception
def scales_x_in_place(x, w_q, w_k, w_v, w_o, num_heads):
    """You change x in place. The caller still needs it: work on a new tensor."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    x /= d_k**0.25
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x * d_k**0.25, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def rounds_the_root(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by √d_k rounded down to a whole number. Use the root itself."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / int(math.sqrt(d_k))
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def subtracts_one_maximum_for_all(x, w_q, w_k, w_v, w_o, num_heads):
    """You subtract the maximum of the whole tensor before exp. Each row has a maximum of its own.

    As it is, a row whose scores lie far below it becomes 0 / 0, which is NaN.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bne,ehd->bhnd", x, w_q)
    k = torch.einsum("bme,ehd->bhmd", x, w_k)
    v = torch.einsum("bme,ehd->bhmd", x, w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    shifted = (scores - scores.max()).exp()
    weights = shifted / shifted.sum(dim=-1, keepdim=True)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


@multi_head_einsum.misconception
def projects_twice(x, w_q, w_k, w_v, w_o, num_heads):
    """You project twice: what w_q, w_k and w_v have made goes through them again. x goes through each of them once."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bnf,fe,ehd->bhnd", x, w_q.flatten(1), w_q)
    k = torch.einsum("bmf,fe,ehd->bhmd", x, w_k.flatten(1), w_k)
    v = torch.einsum("bmf,fe,ehd->bhmd", x, w_v.flatten(1), w_v)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o)


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
    scores = torch.einsum("bne,ehd,fhd,bmf->bhnm", x, w_q, w_k, x) * w_q.shape[-1] ** -0.5
    values = torch.einsum("bme,ehd,hdf->bhmf", x, w_v, w_o.unflatten(0, (num_heads, -1)))
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
