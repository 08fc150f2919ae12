"""Dot-product attention: the numbers of the notebook, agreement with torch, and how wrong answers are named."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.checking.grading import grade
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.dot_product_attention import (
    attention_cost,
    attention_scores,
    batched_self_attention,
    project_qkv,
    scaled_dot_product_attention,
    self_attention,
    soft_lookup,
)
from course_lib.exercises import all_exercises


def close(got, want, tolerance=1e-9):
    return torch.allclose(got, torch.as_tensor(want, dtype=got.dtype), rtol=0, atol=tolerance)


# --- the numbers that the notebook works out by hand ---------------------------------------------------------


def test_animal_lookup():
    query = torch.tensor([1.5, 1.0, 0.5, 0.5, -2.0])
    keys = torch.tensor(
        [
            [1.0, 1.0, 0.0, 0.0, -0.5],
            [0.0, 1.0, 0.5, 1.0, -0.5],
            [0.0, 1.0, 0.0, 0.0, -0.5],
            [0.0, 0.0, 1.0, 1.0, -0.5],
            [0.0, 0.0, 0.0, 0.0, 2.0],
        ]
    )
    assert close(keys @ query, [3.5, 2.75, 2.0, 2.0, -4.0])
    weights = soft_lookup(query, keys, torch.eye(5))
    assert close(weights, [0.521, 0.246, 0.116, 0.116, 0.0003], 5e-4)
    assert 0 < weights[4] < 3e-4


def test_dividing_by_eight():
    q = torch.zeros(1, 64, dtype=torch.float64)
    q[0, 0] = 1
    k = torch.zeros(2, 64, dtype=torch.float64)
    k[:, 0] = torch.tensor([112.0, 96.0])
    assert close(attention_scores(q, k), [[14.0, 12.0]])
    _, weights = scaled_dot_product_attention(q, k, k)
    assert close(weights, [[0.8808, 0.1192]], 5e-5)
    assert (q @ k.T).softmax(dim=-1)[0, 1] < 2e-7


def test_worked_example():
    unit = math.sqrt(2) * math.log(2)  # one step of the query doubles a weight
    q = unit * torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    k = torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    v = torch.tensor([[24.0, 0.0], [0.0, 24.0], [12.0, 12.0], [0.0, 0.0]], dtype=torch.float64)
    output, weights = scaled_dot_product_attention(q, k, v)
    eighths = torch.tensor([[2.0, 1.0, 4.0, 1.0], [1.0, 4.0, 1.0, 2.0]]) / 8
    assert close(weights[:2], eighths)
    assert close(weights[2], [1 / 6, 2 / 6, 2 / 6, 1 / 6])
    assert close(output, [[12.0, 9.0], [4.5, 13.5], [8.0, 12.0]])


def test_costs_meet_at_twice_the_width():
    assert attention_cost(1024, 512) == (1073741824, 1073741824)
    projections, attention = attention_cost(10, 512)
    assert projections / attention == 102.4


# --- agreement ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_attention_is_that_of_torch(leading):
    q, k, v = (normal(*leading, rows, width, seed=rows) for rows, width in ((4, 6), (5, 6), (5, 7)))
    output, weights = scaled_dot_product_attention(q, k, v)
    assert close(output, F.scaled_dot_product_attention(q, k, v))
    assert close(weights, attention_scores(q, k).softmax(dim=-1))


def test_loop_and_matrix_form_are_the_same():
    x = normal(3, 5, 4, seed=1, scale=0.7)
    assert close(batched_self_attention(x), torch.stack([self_attention(s) for s in x]))
    assert close(batched_self_attention(x), F.scaled_dot_product_attention(x, x, x, scale=1.0))
    assert close(self_attention(x[0])[2], soft_lookup(x[0, 2], x[0], x[0]))


def test_tokens_in_another_order():
    x, w_q, w_k, w_v = normal(7, 5, seed=2), normal(5, 3, seed=3), normal(5, 3, seed=4), normal(5, 6, seed=5)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    before, _ = scaled_dot_product_attention(*project_qkv(x, w_q, w_k, w_v))
    after, _ = scaled_dot_product_attention(*project_qkv(x[order], w_q, w_k, w_v))
    assert close(after, before[order])


def test_equal_values_make_the_weights_irrelevant():
    v = torch.tensor([[2.0, -1.0]], dtype=torch.float64).expand(4, 2)
    first = scaled_dot_product_attention(normal(3, 2, seed=6), normal(4, 2, seed=7), v)
    second = scaled_dot_product_attention(normal(3, 2, seed=8), normal(4, 2, seed=9), v)
    assert not torch.allclose(first[1], second[1], atol=0.1)
    assert close(first[0], second[0])


def test_extremes():
    assert close(self_attention(torch.tensor([[3.0, -1.0]])), [[3.0, -1.0]])
    huge = torch.tensor([[1e4, 0.0], [0.0, 1e4]])
    assert close(self_attention(huge), huge)
    assert scaled_dot_product_attention(torch.ones(0, 3), torch.ones(2, 3), torch.ones(2, 4))[0].shape == (0, 4)
    assert attention_cost(0, 512) == (0, 0)


def test_bad_input():
    with pytest.raises(ValueError, match="no -1 tokens"):
        attention_cost(-1, 4)
    with pytest.raises(RuntimeError, match="shape"):
        scaled_dot_product_attention(torch.ones(2, 3), torch.ones(4, 5), torch.ones(4, 5))
    with pytest.raises(RuntimeError, match=r"shape|size"):
        project_qkv(torch.ones(2, 3), torch.ones(4, 5), torch.ones(4, 5), torch.ones(4, 5))


# --- wrong answers --------------------------------------------------------------------------------------------


def named(name, answer):
    report = grade(all_exercises()[name], Subject(answer))
    assert not report.passed
    return report.misconception


def unscaled_over_queries(q, k, v):
    a = torch.softmax(torch.matmul(q, k.mT), -2)
    return a.matmul(v), a


def columns_of_einsum(q, k, v):
    weights = torch.einsum("...id,...jd->...ij", q, k).div(q.size(-1) ** 0.5)
    weights = weights.exp() / weights.exp().sum(-2, keepdim=True)
    return weights @ v, weights


def d_k_and_scores_returned(q, k, v):
    logits = torch.einsum("...id,...jd->...ij", q, k) / q.size(-1)
    return F.softmax(logits, -1) @ v, logits


def key_width_and_wrong_order(q, k, v):
    p = F.softmax(q @ k.mT * v.size(-1) ** -0.5, dim=-1)
    return p, p @ v


def loops_over_the_past_and_scales(x):
    rows = []
    for t in range(len(x)):
        seen = x[: t + 1]
        rows.append(torch.softmax(seen @ x[t] / x.shape[1] ** 0.5, 0) @ seen)
    return torch.stack(rows)


def three_projections_and_one_product(n, d):
    return 3 * n * d**2, n**2 * d


def scaled_and_over_queries(x):
    w = torch.softmax(torch.bmm(x, x.mT) * x.size(-1) ** -0.5, dim=-2)
    return torch.bmm(w, x)


def shared_matrix_and_no_values(x, w_q, w_k, w_v):
    return x.matmul(w_q), x.matmul(w_q), x


@pytest.mark.parametrize(
    ("name", "answer", "both"),
    [
        (
            "scaled_dot_product_attention",
            unscaled_over_queries,
            {"attention_without_scale", "attention_normalises_over_queries"},
        ),
        (
            "scaled_dot_product_attention",
            columns_of_einsum,
            {"None"},  # the two touch the same line, so nothing proves both
        ),
        (
            "scaled_dot_product_attention",
            d_k_and_scores_returned,
            {"both#attention_divides_by_d_k&attention_returns_scores"},
        ),
        (
            "scaled_dot_product_attention",
            key_width_and_wrong_order,
            {"attention_scaled_by_d_v", "attention_returns_weights_first"},
        ),
        ("self_attention", loops_over_the_past_and_scales, {"looks_back_only", "self_attention_is_scaled"}),
        ("attention_cost", three_projections_and_one_product, {"counts_three_projections", "forgets_the_weighted_sum"}),
        ("batched_self_attention", scaled_and_over_queries, {"both#softmax_over_the_queries&batched_is_scaled"}),
        ("project_qkv", shared_matrix_and_no_values, {"keys_with_the_query_matrix", "values_not_projected"}),
    ],
)
def test_two_mistakes_are_named_or_described(name, answer, both):
    assert set(str(named(name, answer)).split(" + ")) == both


def sentence(name, answer):
    return grade(all_exercises()[name], Subject(answer)).diagnosis.sentence


def test_whoever_returns_x_is_not_said_to_weight_it():
    assert "weight x_i" not in sentence("self_attention", lambda x: x.clone())


def test_columns_normalised_by_a_sum_without_its_axis():
    def answer(x):
        exponentials = (x @ x.T - (x @ x.T).max()).exp()
        return exponentials / exponentials.sum(-1) @ x

    assert "a sum has lost its axis" in sentence("self_attention", answer)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("soft_lookup", lambda query, keys, values: torch.sigmoid(keys @ query) @ values / len(values)),
        ("batched_self_attention", lambda x: x @ x.mT @ x / x.shape[1]),
    ],
)
def test_weights_that_do_not_sum_to_1_are_not_said_to(name, answer):
    words = sentence(name, answer)
    assert "You divide the weighted sum by the number of" in words and "already" not in words


def test_distances_with_a_plus_are_not_called_dot_products_turned_around():
    words = sentence("soft_lookup", lambda query, keys, values: (keys - query).norm(dim=-1).softmax(0) @ values)
    assert "You score by distance." in words and "the wrong sign" in words


def test_a_softmax_that_is_counted_is_not_called_a_scaling_alone():
    assert "an exponential" in sentence("attention_cost", lambda n, d: (4 * n * d * d, 2 * n * n * d + n * n))


@pytest.mark.parametrize(
    ("name", "answer", "mistake"),
    [
        ("self_attention", lambda x: (x @ x.T / x.shape[1] ** 0.5).softmax(0) @ x, "normalises_scaled_columns"),
        (
            "self_attention",
            lambda x: ((x.T @ x).softmax(-1) @ x.T).T,
            "compares_the_features_along_columns",
        ),
        ("attention_scores", lambda q, k: (q @ k.mT).softmax(-1), "scores_with_softmax_and_no_scale"),
    ],
)
def test_two_mistakes_at_one_place_have_a_name(name, answer, mistake):
    assert named(name, answer) == mistake


def nearest(query, keys, values):
    return values[max(range(len(keys)), key=lambda j: float(keys[j] @ query))]


def causal_by_tril(x):
    scores = (x @ x.T).masked_fill(~torch.ones(len(x), len(x)).tril().bool(), -1e9)
    return scores.softmax(-1) @ x


def cosine_by_torch(q, k):
    return F.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1)


def squared_scale(q, k):
    scale = q.shape[-1] ** -0.5
    return (q * scale) @ (k * scale).mT


def no_grad(q, k, v):
    with torch.no_grad():
        return scaled_dot_product_attention(q, k, v)


def flops(n, d):
    return 8 * n * d * d, 4 * n * n * d


def by_the_formula(scores, dim):
    return scores.exp() / scores.exp().sum(dim, keepdim=True)


def lookup_by_the_formula(query, keys, values):
    return by_the_formula(keys @ query, 0) @ values


def self_attention_by_the_formula(x):
    return torch.stack([by_the_formula(x @ x_i, 0) @ x for x_i in x])


def batched_by_the_formula(x):
    return by_the_formula(torch.bmm(x, x.mT), -1) @ x


def attention_by_the_formula(q, k, v):
    weights = by_the_formula(q @ k.mT / q.size(-1) ** 0.5, -1)
    return weights @ v, weights


def one_maximum_for_all(q, k, v):
    scores = q @ k.mT / q.size(-1) ** 0.5
    weights = by_the_formula(scores - scores.max(), -1)
    return weights @ v, weights


def whole_root(q, k, v):
    weights = torch.softmax(q @ k.mT / (q.size(-1) ** 0.5 // 1), -1)
    return weights @ v, weights


def transposed_weights(q, k, v):
    weights = attention_scores(q, k).softmax(-1)
    return weights.mT @ v, weights


@pytest.mark.parametrize(
    ("name", "answer", "mistake"),
    [
        ("soft_lookup", nearest, "takes_the_best_only"),
        ("self_attention", causal_by_tril, "looks_back_only"),
        ("attention_scores", cosine_by_torch, "scores_by_angle"),
        ("attention_scores", squared_scale, "scores_divided_by_d_k"),
        ("scaled_dot_product_attention", no_grad, "attention_cuts_all_gradients"),
        ("attention_cost", flops, "counts_additions_too"),
        ("attention_cost", lambda n, d: (4 * n * d**2, 2 * n * d), "counts_entries_of_queries_and_output"),
        ("soft_lookup", lookup_by_the_formula, "lookup_overflows"),
        ("self_attention", self_attention_by_the_formula, "self_attention_overflows"),
        ("batched_self_attention", batched_by_the_formula, "batched_overflows"),
        ("scaled_dot_product_attention", attention_by_the_formula, "attention_overflows"),
        ("scaled_dot_product_attention", one_maximum_for_all, "attention_subtracts_the_overall_maximum"),
        ("scaled_dot_product_attention", whole_root, "attention_divides_by_a_whole_root"),
        ("scaled_dot_product_attention", transposed_weights, "attention_sums_with_transposed_weights"),
    ],
)
def test_mistakes_are_named_however_they_are_written(name, answer, mistake):
    assert named(name, answer) == mistake


def equal_weights(q, k, v):
    weights = torch.full((*q.shape[:-1], k.shape[-2]), 1 / k.shape[-2])
    return weights @ v, weights


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("soft_lookup", lambda query, keys, values: values.mean(0)),
        ("soft_lookup", lambda query, keys, values: values[0]),
        ("self_attention", lambda x: x),
        ("self_attention", lambda x: x.mean(0).expand_as(x)),
        ("batched_self_attention", lambda x: x),
        ("attention_scores", lambda q, k: torch.zeros(*q.shape[:-1], k.shape[-2])),
        ("scaled_dot_product_attention", equal_weights),
        ("attention_cost", lambda n, d: (0, 0)),
    ],
)
def test_an_answer_that_does_not_compare_earns_at_most_the_shape(name, answer):
    assert grade(all_exercises()[name], Subject(answer)).points <= 1


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("soft_lookup", lookup_by_the_formula),
        ("self_attention", self_attention_by_the_formula),
        ("batched_self_attention", batched_by_the_formula),
        ("scaled_dot_product_attention", attention_by_the_formula),
    ],
)
def test_overflow_costs_only_its_own_point_and_says_on_what(name, answer):
    report = grade(all_exercises()[name], Subject(answer))
    assert [check.passed for check in report.checks] == [True] * (len(report.checks) - 1) + [False]
    assert "one more feature" in report.checks[-1].message


def test_cost_of_single_entries_is_not_called_a_missing_sum():
    report = grade(all_exercises()["attention_cost"], Subject(lambda n, d: (4 * n * d**2, 2 * n * d)))
    assert "You count n · d for the scores and for the weighted sum" in " ".join(str(report).split())


def fused_beside_a_matrix_of_its_own(q, k, v):
    identity = torch.eye(k.shape[-2]).expand(*k.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


def in_single_precision(q, k, v):
    weights = (q.float() @ k.float().mT * q.shape[-1] ** -0.5).softmax(-1)
    return weights @ v.float(), weights


@pytest.mark.parametrize("answer", [fused_beside_a_matrix_of_its_own, in_single_precision])
def test_nobody_has_to_think_of_dtypes(answer):
    assert grade(all_exercises()["scaled_dot_product_attention"], Subject(answer)).passed
