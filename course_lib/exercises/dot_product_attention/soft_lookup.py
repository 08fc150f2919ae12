"""The exercise `soft_lookup`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_agreement, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.dot_product_attention.shared import shown

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
        "keys has the shape (n, d) and query has (d,). Which product of the two has the shape (n,)?",
        "softmax makes n weights of n scores. The answer is w_1 v_1 + … + w_n v_n, and (n,) @ (n, d_v) is that sum.",
        "weights = (keys @ query).softmax(dim=0), and then weights @ values.",
    ],
)


def looked_up(subject, query, keys, values):
    return expect_floats(subject(query, keys, values), (values.shape[1],), "the result")


@soft_lookup.property("the result is one vector of the size of a value", points=1)
def lookup_shape(subject, case):
    looked_up(subject, *case.values())


@soft_lookup.property("if all values are the same, that value comes back", points=1)
def lookup_of_equal_values(subject, case):
    same = case["values"][:1].expand_as(case["values"])
    got = looked_up(subject, case["query"], case["keys"], same)
    expect_close(got, same[0], f"with every row of values set to {shown(same[0])}, the result")


@soft_lookup.property("the order of the entries does not matter", points=1)
def lookup_in_another_order(subject, case):
    query, keys, values = case.values()
    before = looked_up(subject, query, keys, values)
    after = looked_up(subject, query, keys.flip(0), values.flip(0))
    expect_agreement(after, before, "With keys and values both in reverse order your result is not the same as before.")


@soft_lookup.property("a query ten times as long finds the value of the best key", points=1)
def lookup_becomes_hard(subject, case):
    query, keys, values = case.values()
    best = int((keys @ query).argmax())
    got = looked_up(subject, 10 * query, keys, values)
    what = f"with 10 · query, for which the score of key {best} stands out, the result"
    expect_close(got, values[best], what, rtol=0.01, atol=0.01)


@soft_lookup.property("the result is the softmax-weighted sum of the values", points=2)
def lookup_result(subject, case):
    expect_close(subject(*case.values()), reference.soft_lookup(**case))


@soft_lookup.misconception
def takes_the_best_only(query, keys, values):
    """This is a hard look-up: it returns the value of the best key alone. Here every value takes part, by its
    weight."""
    scores = keys @ query
    weights = F.one_hot(scores.argmax(), len(scores)).to(values.dtype)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_without_softmax(query, keys, values):
    """You use the scores themselves as weights. They can be negative and do not sum to 1: a softmax makes weights
    of them."""
    scores = keys @ query
    weights = scores
    result = weights @ values
    return result


@soft_lookup.misconception
def divides_by_the_sum(query, keys, values):
    """You divide the scores by their sum, without the exponential. Negative scores then become negative weights."""
    scores = keys @ query
    weights = scores / scores.sum()
    result = weights @ values
    return result


@soft_lookup.misconception
def forgets_to_normalise(query, keys, values):
    """Your weights are exp(score), but they do not sum to 1: divide by their sum."""
    scores = keys @ query
    weights = scores.exp()
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_angle(query, keys, values):
    """You compare by cosine: query and keys are brought to length 1 first. Here the plain dot product is wanted."""
    scores = F.normalize(keys, dim=1) @ F.normalize(query, dim=0)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_by_cosine_of_the_keys(query, keys, values):
    """You bring the keys to length 1 before comparing. Here a longer key counts for more: the plain dot product is
    wanted."""
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
    """Your weights are upside down: the key that fits least gets the most. A high score must give a high weight."""
    scores = keys @ query
    weights = (-scores).softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_is_scaled(query, keys, values):
    """You divide the scores by √d. That is how it ends, some exercises later; this one has no scale yet."""
    scores = keys @ query / math.sqrt(query.shape[0])
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def lookup_is_a_plain_mean(query, keys, values):
    """Every value has the same weight in your result: the query has no influence."""
    scores = keys @ query
    weights = torch.ones_like(scores) / len(scores)
    result = weights @ values
    return result


@soft_lookup.misconception
def softmax_twice(query, keys, values):
    """You apply the softmax twice. The second one makes the weights nearly equal."""
    scores = keys @ query
    weights = scores.softmax(dim=0).softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def takes_log_weights(query, keys, values):
    """These are the logarithms of the weights (log_softmax): they are negative. The weights themselves are wanted."""
    scores = keys @ query
    weights = scores.log_softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.misconception
def does_not_add_up(query, keys, values):
    """You multiply every value by its weight but do not add them up: there should be one vector, not one for each
    key."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights[:, None] * values
    return result


@soft_lookup.misconception
def returns_the_lookup_weights(query, keys, values):
    """You return the weights. They are the way to the answer; the answer is the weighted sum of the values."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights @ values
    return weights


@soft_lookup.misconception
def averages_the_keys(query, keys, values):
    """You average the keys. Keys are only for comparing; what comes back is made of the values."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights @ keys
    return result


@soft_lookup.misconception
def averages_after_weighting(query, keys, values):
    """You take the mean of the weighted values. The weights sum to 1 already: a plain sum is the average."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = weights @ values / len(values)
    return result


@soft_lookup.misconception
def adds_up_the_features(query, keys, values):
    """You add up along the wrong axis: the sum runs over the entries, and the features of a value stay apart."""
    scores = keys @ query
    weights = scores.softmax(dim=0)
    result = (weights[:, None] * values).sum(dim=1)
    return result


@soft_lookup.misconception
def scores_added_over_the_entries(query, keys, values):
    """Your scores are added up over the entries: one for each feature. Add over the features: one for each key."""
    scores = (keys * query).sum(dim=0)
    weights = scores.softmax(dim=0)
    result = weights @ values
    return result


@soft_lookup.alternative
def lookup_in_a_loop(query, keys, values):
    exponentials = [math.exp(sum(float(a) * float(b) for a, b in zip(key, query))) for key in keys]
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
