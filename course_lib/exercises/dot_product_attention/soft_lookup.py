"""The exercise `soft_lookup`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.dot_product_attention.shared import FAR, ROUNDED, shown, with_feature

soft_lookup = Exercise(
    reference.soft_lookup,
    cases=[
        {"query": normal(3, seed=11), "keys": normal(4, 3, seed=111), "values": normal(4, 2, seed=12)},
        {
            "query": normal(5, seed=27, scale=0.8),
            "keys": normal(6, 5, seed=127, scale=0.8),
            "values": normal(6, 3, seed=28),
        },
        {
            "query": normal(2, seed=18, scale=3),
            "keys": normal(5, 2, seed=118, scale=3),
            "values": normal(5, 4, seed=19),
        },
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "Three steps: one score for each key, weights that sum to 1, one average of the values.",
        "keys has the shape (m, d) and query has (d,). Which product of the two has the shape (m,)?",
        "softmax turns m scores into m weights. The answer is w_1 v_1 + … + w_m v_m, and (m,) @ (m, d_v) is that sum.",
        "weights = (keys @ query).softmax(dim=0), and then weights @ values.",
    ],
)


@soft_lookup.property("the result is one vector, as wide as a value", points=1)
def lookup_shape(subject, case):
    expect_floats(subject(*case.values()), (case["values"].shape[1],), "the result")


@soft_lookup.property("a query five times as long finds the value of the best key", points=1)
def lookup_becomes_hard(subject, case):
    query, keys, values = case.values()
    best = int((keys @ query).argmax())
    got = subject(5 * query, keys, values)
    what = f"with 5 · query, for which the score of key {best} stands out, the result"
    expect_close(got, reference.soft_lookup(5 * query, keys, values), what, rtol=0.1, atol=0.1)


@soft_lookup.property("if all values are the same, that value comes back", points=1)
def lookup_of_equal_values(subject, case):
    same = case["values"][:1].expand_as(case["values"])
    got = subject(case["query"], case["keys"], same)
    expect_close(got, same[0], f"with every row of values set to {shown(same[0])}, the result")


@soft_lookup.property("the result is the softmax-weighted sum of the values", points=2)
def lookup_result(subject, case):
    expect_close(subject(*case.values()), soft_lookup.want(case))


@soft_lookup.property("scores around 1000 and -1000 give the right result too", points=1)
def lookup_far_from_zero(subject, case):
    """The same number added to all scores changes no weight."""
    query, keys, values = case.values()
    want = soft_lookup.want(case)
    for sign, change in ((1, "added to"), (-1, "subtracted from")):
        got = subject(with_feature(query, sign * FAR), with_feature(keys), values)
        what = (
            f"with one more feature, {sign * FAR:g} in the query and {FAR:g} in each key, so that {FAR * FAR:g} is "
            f"{change} every score and no weight changes, the result"
        )
        expect_close(got, want, what, rtol=ROUNDED, atol=ROUNDED)


@soft_lookup.misconception
def takes_the_best_only(query, keys, values):
    """You return the value of the best key alone: a hard look-up. Here every value contributes, according to its
    weight."""
    scores = keys @ query
    weights = F.one_hot(scores.argmax(), len(scores)).to(values.dtype)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_without_softmax(query, keys, values):
    """You use the scores themselves as weights. A softmax turns them into weights.

    Scores can be negative and do not sum to 1.
    """
    scores = keys @ query
    weights = scores
    result = weights @ values
    return result


@soft_lookup.misconception
def divides_by_the_sum(query, keys, values):
    """You divide the scores by their sum, without the exponential.

    Negative scores become negative weights.
    """
    scores = keys @ query
    weights = scores / scores.sum()
    result = weights @ values
    return result


@soft_lookup.misconception
def forgets_to_normalise(query, keys, values):
    """Your weights are exp(score). They still have to be divided by their sum.

    They do not sum to 1.
    """
    scores = keys @ query
    weights = scores.exp()
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_angle(query, keys, values):
    """You compare by cosine: query and keys are normalised to length 1 first. Use the plain dot product here."""
    scores = F.normalize(keys, dim=1) @ F.normalize(query, dim=0)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_cosine_of_the_keys(query, keys, values):
    """You normalise the keys to length 1 before comparing. Use the plain dot product here, in which a longer key counts
    for more."""
    scores = F.normalize(keys, dim=1) @ query
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_distance(query, keys, values):
    """You score by distance. Here a key's score is its dot product with the query."""
    scores = -(keys - query).norm(dim=1)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_prefers_what_does_not_fit(query, keys, values):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The key that fits least gets the most.
    """
    scores = keys @ query
    weights = (-scores).softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_is_scaled(query, keys, values):
    """You divide the scores by √d. That comes a few exercises later; this one has no scale yet."""
    scores = keys @ query / math.sqrt(query.shape[0])
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_is_a_plain_mean(query, keys, values):
    """You give every value the same weight.

    The query has no influence.
    """
    scores = keys @ query
    weights = torch.ones_like(scores) / len(scores)
    result = weights @ values
    return result


@soft_lookup.misconception
def softmax_twice(query, keys, values):
    """You apply the softmax twice.

    The second one makes the weights nearly equal.
    """
    scores = keys @ query
    weights = scores.softmax(dim=0).softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def takes_log_weights(query, keys, values):
    """You take the logarithms of the weights (log_softmax). Use the weights themselves.

    Logarithms of weights are never positive.
    """
    scores = keys @ query
    weights = scores.log_softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def does_not_add_up(query, keys, values):
    """You multiply every value by its weight but do not add up the results.

    That gives one vector per key instead of a single one.
    """
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights[:, None] * values
    return result


@soft_lookup.misconception
def returns_the_lookup_weights(query, keys, values):
    """You return the weights. The answer is the weighted sum of the values."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights @ values
    return weights


@soft_lookup.misconception
def returns_the_values(query, keys, values):
    """You return the values as they are. Return one vector: their weighted sum."""
    return values


@soft_lookup.misconception
def averages_the_keys(query, keys, values):
    """You average the keys. Keys are only for comparing; the result is made from the values."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights @ keys
    return result


@soft_lookup.misconception
def averages_after_weighting(query, keys, values):
    """You divide the weighted sum by the number of values. Keep the sum itself.

    The weights already sum to 1, so it is an average already.
    """
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights @ values / len(values)
    return result


@soft_lookup.misconception
def adds_up_the_features(query, keys, values):
    """You sum along the wrong axis. Sum over the entries, and keep the features of a value apart."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = (weights[:, None] * values).sum(dim=1)
    return result


@soft_lookup.misconception
def scores_added_over_the_entries(query, keys, values):
    """You sum the products over the entries. Sum over the features: one score for each key.

    You get one score for each feature.
    """
    scores = (keys * query).sum(dim=0)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_with_sigmoid(query, keys, values):
    """You use a sigmoid, which sets each weight independently. The keys have to compete with each other: use a softmax.

    The weights do not sum to 1.
    """
    scores = keys @ query
    weights = scores.sigmoid()
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_without_sign(query, keys, values):
    """Your scores ignore the sign of the dot products. A negative one means that key and query do not fit."""
    scores = (keys @ query).abs()
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_divides_by_d(query, keys, values):
    """You divide the scores by d. This exercise has no scale yet."""
    scores = keys @ query / query.shape[0]
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_scaled_by_the_number_of_keys(query, keys, values):
    """You divide the scores by the square root of the number of keys. This exercise has no scale."""
    scores = keys @ query / math.sqrt(len(keys))
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_cosine_of_the_query(query, keys, values):
    """You normalise the query to length 1 before comparing. Use the plain dot product, in which its length counts."""
    scores = keys @ F.normalize(query, dim=0)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_squared_distance(query, keys, values):
    """You score by squared distance. Here a key's score is its dot product with the query."""
    scores = -(keys - query).pow(2).sum(dim=1)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_keeps_an_axis(query, keys, values):
    """Your result has an extra first axis of length 1. Return a plain vector: (d_v,)."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = (weights @ values).unsqueeze(0)
    return result


@soft_lookup.misconception
def lookup_adds_all_values(query, keys, values):
    """You add up the values without their weights. Each should count in proportion to how well its key fits the
    query."""
    scores = keys @ query
    weights = torch.ones_like(scores)
    result = weights @ values
    return result


# Last, so that in a pair the coarser mistake is told first.
@soft_lookup.misconception
def lookup_overflows(query, keys, values):
    """You take the exponential of the scores as they are, and scores can be large. Subtracting one number from all the
    scores of a query changes no weight: choose it so that no exponent is large.

    exp of a large score is inf, and inf / inf is NaN.
    """
    scores = keys @ query
    weights = scores.exp() / scores.exp().sum()
    result = weights @ values
    return result


@soft_lookup.alternative
def lookup_in_a_loop(query, keys, values):
    scores = [sum(float(a) * float(b) for a, b in zip(key, query)) for key in keys]
    exponentials = [math.exp(score - max(scores)) for score in scores]
    total = sum(exponentials)
    result = torch.zeros(values.shape[1])
    for exponential, value in zip(exponentials, values):
        result += exponential / total * value
    return result


@soft_lookup.alternative
def lookup_by_einsum(query, keys, values):
    return torch.einsum("n,nv->v", torch.softmax(torch.einsum("d,nd->n", query, keys), dim=-1), values)


@soft_lookup.alternative
def lookup_elementwise(query, keys, values):
    scores = (query * keys).sum(dim=1, keepdim=True)
    exponentials = torch.exp(scores - scores.max())
    return (exponentials * values).sum(dim=0) / exponentials.sum()


@soft_lookup.alternative
def lookup_fused(query, keys, values):
    return F.scaled_dot_product_attention(query[None], keys, values, scale=1.0)[0]


@soft_lookup.alternative
def lookup_in_single_precision(query, keys, values):
    query, keys, values = query.float(), keys.float(), values.float()
    return values.T.matmul(F.softmax(query.matmul(keys.T), dim=0))
