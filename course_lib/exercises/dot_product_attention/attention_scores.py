"""The exercise `attention_scores`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal

attention_scores = Exercise(
    reference.attention_scores,
    cases=[
        {"q": normal(2, 3, seed=9), "k": normal(4, 3, seed=10)},
        {"q": normal(2, 5, 6, seed=11), "k": normal(2, 3, 6, seed=12)},
        {"q": normal(2, 3, 4, 7, seed=13, scale=4), "k": normal(2, 3, 6, 7, seed=14, scale=4)},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "The score of query i and key j is their dot product, divided by the square root of their width.",
        "Shapes: (…, n, d_k) times something of shape (…, d_k, m) gives (…, n, m). Which axes of k are swapped?",
        "Count axes from the end, so that any number of leading axes works: the last is -1, the one before it -2.",
        "q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]).",
    ],
)


@attention_scores.property("there is one score for each query and key: (…, n, m)", points=1)
def scores_shape(subject, case):
    q, k = case.values()
    expect_floats(subject(q, k), (*q.shape[:-1], k.shape[-2]), "the matrix of scores")


@attention_scores.property("with a single feature (√d_k = 1) the scores are the plain products", points=1)
def scores_of_single_features(subject, case):
    q, k = (vectors[..., :1] for vectors in case.values())
    what = f"for the first features alone (q {tuple(q.shape)}, k {tuple(k.shape)}), the matrix of scores"
    expect_close(subject(q, k), q @ k.mT, what)


@attention_scores.property("for two matrices the scores are q kᵀ / √d_k", points=2)
def scores_of_two_matrices(subject, case):
    q, k = case.values()
    what = "the matrix of scores"
    if q.dim() > 2:
        q, k = (vectors.flatten(end_dim=-3)[-1] for vectors in (q, k))
        what = f"for the last two matrices alone (q {tuple(q.shape)}, k {tuple(k.shape)}), the matrix of scores"
    expect_close(subject(q, k), reference.attention_scores(q, k), what)


@attention_scores.property("any number of leading axes is allowed", points=1)
def scores_with_leading_axes(subject, case):
    expect_close(subject(*case.values()), attention_scores.want(case), "the matrix of scores")


@attention_scores.misconception
def scores_not_scaled(q, k):
    """You do not divide the dot products by √d_k."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products
    return scores


@attention_scores.misconception
def scores_divided_by_d_k(q, k):
    """You divide by d_k, or by √d_k twice. Divide by √d_k, once.

    The spread of a dot product grows as √d_k.
    """
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / d_k
    return scores


@attention_scores.misconception
def scores_multiplied_by_root(q, k):
    """You multiply by √d_k instead of dividing.

    The dot products are too large, not too small.
    """
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products * math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_divided_by_eight(q, k):
    """You divide by 8, whatever the width. That is √64, which is right only for vectors of 64 features."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / 8
    return scores


@attention_scores.misconception
def scores_scaled_by_number_of_keys(q, k):
    """You divide by the square root of the number of keys. What makes dot products large is the width d_k of the
    vectors."""
    d_k = k.shape[-2]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_by_number_of_queries(q, k):
    """You divide by the square root of the number of queries. What counts is the width d_k, the last axis."""
    d_k = q.shape[-2]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_by_first_axis(q, k):
    """You divide by the square root of the length of the first axis. What counts is the width d_k, the last axis."""
    d_k = q.shape[0]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_by_second_axis(q, k):
    """You take the length of axis 1 for d_k. With a batch in front, the width is axis -1.

    Axis 1 is right for a single matrix only.
    """
    d_k = q.shape[1]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_for_keys_by_queries(q, k):
    """Your matrix has a row for each key. A row belongs to a query, a column to a key: q kᵀ, not k qᵀ."""
    d_k = q.shape[-1]
    products = k @ q.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_by_angle(q, k):
    """You take the cosine, which ignores how long the vectors are. Divide the plain dot product by √d_k instead."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    return scores


@attention_scores.misconception
def scores_by_angle_and_scale(q, k):
    """You normalise the vectors to length 1 and divide by √d_k as well. Only the division belongs here."""
    d_k = q.shape[-1]
    products = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_softmax(q, k):
    """You have already applied the softmax. Return the scores before it."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = (products / math.sqrt(d_k)).softmax(dim=-1)
    return scores


@attention_scores.misconception
def scores_with_all_axes_turned(q, k):
    """You reverse all axes of k, as .T does, not just the last two.

    With more than two axes the wrong vectors are multiplied.
    """
    d_k = q.shape[-1]
    products = q @ k.T
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_without_transposing(q, k):
    """You do not transpose k. Row i of q has to be multiplied with the rows of k, so these have to become columns."""
    d_k = q.shape[-1]
    products = q @ k
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_fixed_axes(q, k):
    """You swap axes 1 and 2, counted from the front. Counted from the end, the last two are always the right ones.

    1 and 2 are right only with exactly three axes.
    """
    d_k = q.shape[-1]
    products = q @ k.transpose(1, 2)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_first_two_axes_swapped(q, k):
    """You swap axes 0 and 1. Counted from the end, the last two are always the right ones.

    0 and 1 are right only for a single matrix.
    """
    d_k = q.shape[-1]
    products = q @ k.transpose(0, 1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_of_reshaped_keys(q, k):
    """You reshape k where a transpose is needed.

    view and reshape keep the order of the numbers and only cut it at other places: the keys are torn apart.
    """
    d_k = q.shape[-1]
    products = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_in_place(q, k):
    """You scale q in place: the caller's own tensor is changed.

    The numbers are right, but a second call differs.
    """
    d_k = q.shape[-1]
    q.div_(math.sqrt(d_k))
    products = q @ k.transpose(-2, -1)
    scores = products
    return scores


@attention_scores.misconception
def scores_without_sign(q, k):
    """Your scores ignore the sign of the dot products. A negative one means that key and query do not fit."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products.abs() / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_relu(q, k):
    """You set negative scores to 0 (a ReLU). A negative dot product means that key and query do not fit."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products.relu() / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_by_distance(q, k):
    """You score by distance. Here the score is the dot product, divided by √d_k."""
    d_k = q.shape[-1]
    products = -torch.cdist(q, k)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_power_before_division(q, k):
    """You divide by d_k / 2. Powers bind tighter than /: d_k ** 1/2 is (d_k ** 1) / 2, not a root."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / (d_k / 2)
    return scores


@attention_scores.misconception
def scores_divided_by_twice_d_k(q, k):
    """You divide by 2 d_k. Powers bind tighter than /: d_k ** -1/2 is (1 / d_k) / 2, not a root."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / (2 * d_k)
    return scores


@attention_scores.misconception
def scores_with_tensor_root_of_a_number(q, k):
    """You pass a plain number to torch.sqrt, which takes a tensor. math.sqrt takes numbers."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / torch.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_turned_in_sign(q, k):
    """Your scores have the wrong sign: vectors that fit each other must have a large score."""
    d_k = q.shape[-1]
    products = -q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_divided_by_a_whole_root(q, k):
    """You round √d_k down to a whole number. Use the square root itself, not rounded."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / int(math.sqrt(d_k))
    return scores


@attention_scores.misconception
def scores_divided_by_the_fourth_root(q, k):
    """You take the square root of d_k twice: that is its fourth root. Once is enough.

    The fourth root is right only where q and k are both divided by it.
    """
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(math.sqrt(d_k))
    return scores


@attention_scores.misconception
def scores_divided_by_number_of_keys(q, k):
    """You divide by the number of keys. What makes dot products large is the width d_k of the vectors: use its square
    root."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / k.shape[-2]
    return scores


@attention_scores.misconception
def scores_of_queries_of_length_one(q, k):
    """You normalise the queries to length 1. Use the plain dot product, in which length counts."""
    d_k = q.shape[-1]
    products = F.normalize(q, dim=-1) @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_of_sums(q, k):
    """You add queries and keys. A score is their dot product: multiply feature by feature, then add up."""
    d_k = q.shape[-1]
    products = (q.unsqueeze(-2) + k.unsqueeze(-3)).sum(dim=-1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_hide_the_future(q, k):
    """You hide later keys. Nothing is masked here: every query has a score for every key."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores.masked_fill(torch.ones_like(scores).triu(diagonal=1).bool(), -math.inf)


@attention_scores.misconception
def scores_minus_their_maximum(q, k):
    """You subtract the maximum of each row. That belongs to the softmax, which is the next step."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores - scores.amax(dim=-1, keepdim=True)


@attention_scores.misconception
def scores_with_softmax_and_no_scale(q, k):
    """You have already applied the softmax; return the scores before it. And you do not divide the dot products by
    √d_k."""
    products = q @ k.transpose(-2, -1)
    return products.softmax(dim=-1)


@attention_scores.alternative
def scores_by_einsum(q, k):
    return torch.einsum("...id,...jd->...ij", q * q.shape[-1] ** -0.5, k)


@attention_scores.alternative
def scores_shared_scale(q, k):
    root = q.size(-1) ** 0.25
    return (q / root) @ (k / root).mT


@attention_scores.alternative
def scores_by_broadcasting(q, k):
    return (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(dim=-1) / torch.tensor(float(q.shape[-1])).sqrt()


@attention_scores.alternative
def scores_seen_from_the_keys(q, k):
    return (k @ q.mT).mT.div(math.sqrt(k.size(-1)))


@attention_scores.alternative
def scores_one_by_one(q, k):
    columns = [(q * k[..., j : j + 1, :]).sum(-1) for j in range(k.shape[-2])]
    return torch.stack(columns, dim=-1).float() / q.shape[-1] ** 0.5
