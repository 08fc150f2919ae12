"""The exercise `linear_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.long_sequences.shared import expect_nothing_from_the_future

linear = Exercise(
    long_sequences.linear_attention,
    cases=[
        {"q": normal(3, 2, seed=320), "k": normal(5, 2, seed=321), "v": normal(5, 4, seed=322), "causal": False},
        {"q": normal(6, 3, seed=323), "k": normal(6, 3, seed=324), "v": normal(6, 2, seed=325), "causal": True},
        {
            "q": normal(2, 3, 4, 5, seed=326),
            "k": normal(2, 3, 7, 5, seed=327),
            "v": normal(2, 3, 7, 6, seed=328),
            "causal": False,
        },
    ],
    minutes=10,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Write the weight of key j for query i as φ(q_i) · φ(k_j) divided by the sum over all keys. In the numerator, "
        "Σ_j (φ(q_i) · φ(k_j)) v_j: which part of it does not depend on i?",
        "Σ_j φ(k_j) v_jᵀ is a (d_k, d_v) matrix, the same for all queries. And the denominator is φ(q_i) · Σ_j φ(k_j).",
        "Not causal: state = φ(k)ᵀ @ v; total = φ(k).sum(dim=-2); output = (φ(q) @ state) / (φ(q) @ total[..., None]).",
        "Causal: state and total start at 0. At position i, add key and value number i first, then ask with query i.",
    ],
)


def right_linear_attention(q, k, v, causal):
    """The same with all weights at once."""
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-2, -1)  # (…, n_q, n_k)
    weights = weights.tril() if causal else weights
    return (weights / weights.sum(dim=-1, keepdim=True)) @ v


def linear_answer(subject, q, k, v, causal):
    return expect_floats(subject(q, k, v, causal), (*q.shape[:-1], v.shape[-1]))


@linear.property("the output has one row for each query, as long as a value", points=1)
def linear_shape(subject, case):
    q, k, v, _ = case.values()
    linear_answer(subject, q, k, v, False)


@linear.property("if all values are the same, so is the output: the weights of a query add up to 1", points=1)
def linear_shares(subject, case):
    q, k, v, _ = case.values()
    same = v[..., :1, :].expand_as(v).clone()
    got = linear_answer(subject, q, k, same, False)
    expect_close(got, same[..., :1, :].expand_as(got), "the output for values that are all the same")


@linear.property("all keys: the weights are in the proportion of φ(q) · φ(k)", points=2)
def linear_whole(subject, case):
    q, k, v, _ = case.values()
    expect_close(linear_answer(subject, q, k, v, False), right_linear_attention(q, k, v, False), "the output")


@linear.property("causal: no query depends on later keys and values", points=1)
def linear_future(subject, case):
    q, k, v = as_long_as_the_keys(case)
    got = linear_answer(subject, q, k, v, True)
    for wrt, what in ((1, "keys"), (2, "values")):
        expect_nothing_from_the_future(subject, (q, k, v, True), wrt, got, what)


@linear.property("causal: query i gets the shares of keys 0 to i", points=2)
def linear_causal(subject, case):
    q, k, v = as_long_as_the_keys(case)
    got = linear_answer(subject, q, k, v, True)
    expect_close(got, right_linear_attention(q, k, v, True), "the output if causal")


def as_long_as_the_keys(case):
    """Causal attention has as many queries as keys."""
    q, k, v, _ = case.values()
    n = min(q.shape[-2], k.shape[-2])
    return q[..., :n, :], k[..., :n, :], v[..., :n, :]


@linear.misconception
def forgets_the_one(q, k, v, causal):
    """You leave out the 1: φ(x) is elu(x) + 1.

    elu alone is negative for negative x, and so are some weights."""
    q, k = F.elu(q), F.elu(k)
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def one_inside_the_elu(q, k, v, causal):
    """You add the 1 before the elu. φ(x) is elu(x) + 1."""
    q, k = F.elu(q + 1), F.elu(k + 1)
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def relu_for_elu(q, k, v, causal):
    """You take relu(x) + 1. φ(x) is elu(x) + 1."""
    q, k = F.relu(q) + 1, F.relu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def relu_alone(q, k, v, causal):
    """You take relu(x) for φ(x). It is elu(x) + 1.

    Where everything is negative, no weight is left, and 0 / 0 is NaN."""
    q, k = F.relu(q), F.relu(k)
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def exponential_features(q, k, v, causal):
    """You take exp(x) for φ(x). It is elu(x) + 1, which grows like x and not like exp(x)."""
    q, k = torch.exp(q), torch.exp(k)
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def features_of_the_keys_only(q, k, v, causal):
    """You apply φ to the keys only. The queries go through it, too."""
    k = F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def features_of_the_queries_only(q, k, v, causal):
    """You apply φ to the queries only. The keys go through it, too."""
    q = F.elu(q) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def no_features(q, k, v, causal):
    """You use queries and keys as they are, without φ.

    Their products may be negative, or cancel out in the sum."""
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def softmax_features(q, k, v, causal):
    """You take a softmax over the features for φ. It is elu(x) + 1."""
    q, k = q.softmax(dim=-1), k.softmax(dim=-1)
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def features_of_the_values_too(q, k, v, causal):
    """You apply φ to the values as well. They are added up as they are."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    v = F.elu(v) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def scales_the_features_of_queries(q, k, v, causal):
    """You divide queries by √d_k before φ. Nothing is scaled here."""
    q, k = F.elu(q / math.sqrt(q.shape[-1])) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def never_normalises(q, k, v, causal):
    """You never divide by the sum of the weights."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return q @ state
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [query @ state]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def whole_not_normalised(q, k, v, causal):
    """If not causal, you do not divide by the sum of the weights."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return q @ state
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def causal_not_normalised(q, k, v, causal):
    """If causal, you do not divide by the sum of the weights."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [query @ state]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def divides_by_the_number_of_keys(q, k, v, causal):
    """You divide by the number of keys. The weights of a query add up to something else: divide by their sum."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / k.shape[-2]
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (i + 1)]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def divides_by_the_sum_of_the_keys(q, k, v, causal):
    """You divide by the sum of all φ(k), without the query. The weights are φ(q) · φ(k), and so is their sum."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / total.sum(dim=-1)[..., None, None]
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / total.sum(dim=-1)[..., None, None]]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def softmax_after_all(q, k, v, causal):
    """You take the softmax of q kᵀ / √d_k. Linear attention has no softmax: the weights are in the proportion of
    φ(q) · φ(k)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    hidden = torch.ones_like(scores).triu(1).bool() & causal
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v


@linear.misconception
def softmax_of_the_products(q, k, v, causal):
    """You take a softmax of the products φ(q) · φ(k). There is no softmax here: the products themselves are divided by
    their sum."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    scores = q @ k.transpose(-2, -1)
    hidden = torch.ones_like(scores).triu(1).bool() & causal
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v


@linear.misconception
def ignores_causal(q, k, v, causal):
    """You do not look at `causal`: every query sees every key."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if True:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def causal_means_the_opposite(q, k, v, causal):
    """You swapped the two forms: the running sum belongs to causal attention."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def asks_before_adding(q, k, v, causal):
    """If causal, you ask with query i before key i has been added. A position sees itself."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def whole_sum_below(q, k, v, causal):
    """If causal, you divide by the sum over all keys. Later keys have no weight, so they do not belong to the sum."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.sum(dim=-2)
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def state_forgets(q, k, v, causal):
    """If causal, you keep nothing of the earlier keys and values: the state has to add them up."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def total_forgets(q, k, v, causal):
    """If causal, you divide by the weight of key i alone. The sum runs over keys 0 to i."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def state_and_total_forget(q, k, v, causal):
    """If causal, every position sees itself only: both running sums have to keep the earlier keys."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = k[..., i, :, None] * v[..., i, None, :]
        total = k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs, dim=-2)


@linear.misconception
def runs_backwards(q, k, v, causal):
    """If causal, your running sum goes from the last position to the first.

    So every query sees its future."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in reversed(range(q.shape[-2])):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return torch.cat(outputs[::-1], dim=-2)


@linear.misconception
def takes_the_last_query(q, k, v, causal):
    """If causal, you return the last position only. Every position has an output."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v
        total = k.sum(dim=-2)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]
        outputs += [(query @ state) / (query @ total[..., None])]
    return outputs[-1]


@linear.alternative
def all_weights_at_once(q, k, v, causal):
    return right_linear_attention(q, k, v, causal)


@linear.alternative
def by_running_sums(q, k, v, causal):
    q, k = F.elu(q).add(1), F.elu(k).add(1)
    products = torch.einsum("...nd,...ne->...nde", k, v)
    if causal:
        state, total = products.cumsum(-3), k.cumsum(-2)
        return torch.einsum("...nd,...nde->...ne", q, state) / (q * total).sum(-1, keepdim=True)
    state, total = products.sum(-3), k.sum(-2)
    return torch.einsum("...nd,...de->...ne", q, state) / torch.einsum("...nd,...d->...n", q, total).unsqueeze(-1)


@linear.alternative
def piecewise_features(q, k, v, causal):
    def phi(x):
        return torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0)))

    a = torch.einsum("...qd,...kd->...qk", phi(q), phi(k))
    if causal:
        a = a * torch.tril(torch.ones(a.shape[-2:]))
    return a @ v / a.sum(-1)[..., None]


@linear.alternative
def a_column_of_ones(q, k, v, causal):
    q, k = torch.nn.ELU()(q) + 1, torch.nn.ELU()(k) + 1
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    if not causal:
        both = q @ (k.mT @ v)
    else:
        state, rows = 0, []
        for i in range(q.shape[-2]):
            state = state + k[..., i : i + 1, :].mT @ v[..., i : i + 1, :]
            rows.append(q[..., i : i + 1, :] @ state)
        both = torch.cat(rows, -2)
    return both[..., :-1] / both[..., -1:]


@linear.alternative
def query_by_query(q, k, v, causal):
    rows = []
    for i in range(q.shape[-2]):
        seen = i + 1 if causal else k.shape[-2]
        shares = ((F.elu(q[..., i : i + 1, :]) + 1) * (F.elu(k[..., :seen, :]) + 1)).sum(-1)
        shares = shares / (shares.sum(-1, keepdim=True) + 1e-9)
        rows.append((shares[..., None] * v[..., :seen, :]).sum(-2))
    return torch.stack(rows, -2)


@linear.alternative
def updates_in_place(q, k, v, causal):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return torch.softmax(torch.log(q @ k.mT), dim=-1) @ v
    out = torch.empty(*q.shape[:-1], v.shape[-1])
    state, total = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), torch.zeros_like(k[..., 0, :])
    for t in range(k.shape[-2]):
        state += torch.einsum("...d,...e->...de", k[..., t, :], v[..., t, :])
        total += k[..., t, :]
        out[..., t, :] = torch.einsum("...d,...de->...e", q[..., t, :], state)
        out[..., t, :] /= (q[..., t, :] * total).sum(-1, keepdim=True)
    return out
