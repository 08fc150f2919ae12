"""The exercise `attention_scores`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_agreement, expect_close, expect_floats
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
        "Shapes: (…, n, d_k) times something of shape (…, d_k, m) gives (…, n, m). Which two axes of k change places?",
        "Count axes from the end, so that it works with any number of leading ones: the last is -1, the one before -2.",
        "q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]).",
    ],
)


def scores_of(subject, q, k):
    return expect_floats(subject(q, k), (*q.shape[:-1], k.shape[-2]), "the matrix of scores")


@attention_scores.property("one score for each pair of a query and a key: shape (…, n, m)", points=1)
def scores_shape(subject, case):
    scores_of(subject, *case.values())


@attention_scores.property("a query or a key twice as long has scores twice as large", points=1)
def scores_are_linear(subject, case):
    q, k = case.values()
    once = scores_of(subject, q, k)
    expect_agreement(
        scores_of(subject, 2 * q, k), 2 * once, "Your scores for 2 · q and k are not twice those for q and k."
    )
    expect_agreement(
        scores_of(subject, q, 2 * k), 2 * once, "Your scores for q and 2 · k are not twice those for q and k."
    )


@attention_scores.property("apart from a common factor, score [i, j] is the dot product of query i and key j", points=1)
def scores_are_proportional_to_products(subject, case):
    q, k = case.values()
    got, products = scores_of(subject, q, k), q @ k.mT
    factor = float((got.double() * products).sum() / (products * products).sum())
    expect(factor > 0, "The scores should grow with the dot products q · k, but they do not.")
    claim = f"Your scores are no multiple of q kᵀ. The nearest is {factor:.4g} · q kᵀ, and it differs from them."
    expect_agreement(got, factor * products, claim)


@attention_scores.property("the common factor is 1 / √d_k", points=2)
def scores_are_scaled(subject, case):
    expect_close(subject(*case.values()), reference.attention_scores(**case), "the matrix of scores")


@attention_scores.misconception
def scores_not_scaled(q, k):
    """The dot products are right, but they are not divided by √d_k."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products
    return scores


@attention_scores.misconception
def scores_divided_by_d_k(q, k):
    """You divide by d_k, or by √d_k twice; once by its square root is wanted. The spread of a dot product grows
    like √d_k."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / d_k
    return scores


@attention_scores.misconception
def scores_multiplied_by_root(q, k):
    """You multiply by √d_k. The scores are too large, not too small: divide."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products * math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_divided_by_eight(q, k):
    """You divide by 8. That is √64 and right for vectors of 64 features only: take the width of these vectors."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / 8
    return scores


@attention_scores.misconception
def scores_scaled_by_number_of_keys(q, k):
    """You divide by the root of the number of keys. It is the width d_k of the vectors that makes dot products
    large."""
    d_k = k.shape[-2]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_by_number_of_queries(q, k):
    """You divide by the root of the number of queries. It is the width d_k, the last axis, that counts."""
    d_k = q.shape[-2]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_by_first_axis(q, k):
    """You divide by the root of the length of the first axis. It is the width d_k, the last axis, that counts."""
    d_k = q.shape[0]
    products = q @ k.transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_by_second_axis(q, k):
    """You take the length of axis 1 for d_k. That is right for one matrix; with a batch in front, the width is
    axis -1."""
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
    """This is the cosine: it forgets how long the vectors are. Divide the plain dot product by √d_k instead."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    return scores


@attention_scores.misconception
def scores_by_angle_and_scale(q, k):
    """You bring the vectors to length 1 and divide by √d_k as well. Only the division is wanted."""
    d_k = q.shape[-1]
    products = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_softmax(q, k):
    """These are the weights already: the softmax belongs to the next step. Here the scores before it are wanted."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = (products / math.sqrt(d_k)).softmax(dim=-1)
    return scores


@attention_scores.misconception
def scores_with_all_axes_turned(q, k):
    """.T turns all axes of k around, not just the last two: beyond a single matrix the wrong things meet."""
    d_k = q.shape[-1]
    products = q @ k.T
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_without_transposing(q, k):
    """k is not transposed: row i of q has to meet the rows of k, so these have to become columns."""
    d_k = q.shape[-1]
    products = q @ k
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_fixed_axes(q, k):
    """You swap axes 1 and 2, counted from the front. That fits three axes only; counted from the end it always fits."""
    d_k = q.shape[-1]
    products = q @ k.transpose(1, 2)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_with_first_two_axes_swapped(q, k):
    """You swap axes 0 and 1. That fits one matrix only; counted from the end (-2 and -1) it always fits."""
    d_k = q.shape[-1]
    products = q @ k.transpose(0, 1)
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_of_reshaped_keys(q, k):
    """view and reshape cut the same row of numbers into other pieces: the keys fall apart. Transpose instead."""
    d_k = q.shape[-1]
    products = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = products / math.sqrt(d_k)
    return scores


@attention_scores.misconception
def scores_scaled_in_place(q, k):
    """The numbers are right, but you scale q in place: the caller's own tensor is changed, and a second call
    differs."""
    d_k = q.shape[-1]
    q.div_(math.sqrt(d_k))
    products = q @ k.transpose(-2, -1)
    scores = products
    return scores


@attention_scores.misconception
def scores_without_sign(q, k):
    """Your scores have lost their sign. A negative dot product means that key and query do not fit."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products.abs() / math.sqrt(d_k)
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
    """Powers bind tighter than /: d_k ** 1/2 is d_k divided by 2. Write math.sqrt(d_k) or d_k ** 0.5."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / (d_k / 2)
    return scores


@attention_scores.misconception
def scores_divided_by_twice_d_k(q, k):
    """Powers bind tighter than /: d_k ** -1/2 is 1 / (2 d_k). Write math.sqrt(d_k) or d_k ** -0.5."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / (2 * d_k)
    return scores


@attention_scores.misconception
def scores_with_tensor_root_of_a_number(q, k):
    """torch.sqrt takes a tensor, and d_k is a plain number: math.sqrt takes that."""
    d_k = q.shape[-1]
    products = q @ k.transpose(-2, -1)
    scores = products / torch.sqrt(d_k)
    return scores


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
