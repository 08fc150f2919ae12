"""Exercises on dot-product attention: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, expect_tuple, name_of_type
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject

# --- soft_lookup ----------------------------------------------------------------------------------------

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
    expect_close(after, before, "with keys and values both in reverse order, the result")


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


# --- self_attention -------------------------------------------------------------------------------------

self_attention = Exercise(
    reference.self_attention,
    cases=[
        {"x": normal(3, 2, seed=1)},
        {"x": normal(5, 4, seed=2, scale=0.7)},
        {"x": normal(4, 6, seed=3, scale=2.5)},
        {"x": normal(1, 3, seed=4)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Look at one position i first. It is a soft_lookup: what is its query, what are the keys, what are the values?",
        "For position i: score every x[j] with x[i], itself included; softmax; add up weights[j] * x[j].",
        "Collect the outputs of all positions in a list and make one tensor of it with torch.stack.",
        "for i in range(x.shape[0]): weights = (x @ x[i]).softmax(dim=0); outputs.append(weights @ x).",
    ],
)


def attended(subject, x):
    return expect_floats(subject(x), tuple(x.shape), "the result")


@self_attention.property("one vector comes out for each that goes in", points=1)
def self_attention_shape(subject, case):
    attended(subject, case["x"])


@self_attention.property("equal vectors stay as they are", points=1)
def self_attention_of_equal_vectors(subject, case):
    same = case["x"][:1].repeat(len(case["x"]), 1)
    expect_close(attended(subject, same), same, f"with every row of x set to {shown(same[0])}, the result")


@self_attention.property("tokens in another order give the same outputs in that order", points=1)
def self_attention_is_equivariant(subject, case):
    x = case["x"]
    expect_close(attended(subject, x.flip(0)), attended(subject, x).flip(0), "with x in reverse order, the result")


@self_attention.property("row i is the sum of all x_j, weighted by the softmax of x_i · x_j", points=2)
def self_attention_result(subject, case):
    expect_close(subject(case["x"]), reference.self_attention(**case))


@self_attention.misconception
def leaves_itself_out(x):
    """Your positions look at the others only. A position is compared with itself too: j runs over all positions."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] if j != i else torch.tensor(-math.inf) for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def looks_back_only(x):
    """Position i looks at the positions up to i only. Here everybody sees everybody: j runs over all positions."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(i + 1)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(i + 1):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_without_softmax(x):
    """You use the dot products themselves as weights: a softmax has to make them positive with the sum 1."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_divides_by_the_sum(x):
    """You divide the dot products by their sum, without the exponential: weights come out negative."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores / scores.sum()
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_is_scaled(x):
    """You divide by √d. That comes later in this notebook; here the dot products go into the softmax as they are."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] / math.sqrt(x.shape[1]) for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_by_angle(x):
    """You compare by cosine (vectors of length 1). Here the plain dot product is wanted, in which length counts."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([F.normalize(x[i], dim=0) @ F.normalize(x[j], dim=0) for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def keeps_the_last_term(x):
    """Each round of your inner loop replaces the sum instead of adding to it: only the last term is left."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def adds_itself_unweighted(x):
    """You weight x_i, the asking vector, instead of x_j: every output is the input again."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[i]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def keeps_the_input_too(x):
    """You start the sum at x_i itself: the input is added to the result. Start it at 0."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = x[i]
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_returns_weights(x):
    """You return the weights. The output is one vector for each position: the weighted sum of all x_j."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(weights)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_normalises_columns(x):
    """Your softmax runs over the queries (i). For each i, the weights over all j have to sum to 1."""
    scores = x @ x.T
    weights = scores.softmax(dim=0)
    return weights @ x


@self_attention.misconception
def self_attention_normalises_everything(x):
    """Your weights sum to 1 over the whole matrix. Every position has weights of its own, and each row sums to 1."""
    scores = x @ x.T
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    return weights @ x


@self_attention.misconception
def compares_the_features(x):
    """You compare features with each other (xᵀ x is d × d). Tokens are compared with tokens: time × time."""
    scores = x.T @ x
    weights = scores.softmax(dim=-1)
    return x @ weights


@self_attention.misconception
def writes_into_the_input(x):
    """You write each output over x[i], and later positions then read the changed x. Collect the outputs elsewhere."""
    for i in range(x.shape[0]):
        scores = x @ x[i]
        weights = scores.softmax(dim=0)
        x[i] = weights @ x
    return x


@self_attention.misconception
def returns_the_last_position(x):
    """You return the output of the last position only. All positions have one: collect them and stack them."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return output


@self_attention.misconception
def self_attention_not_normalised(x):
    """Your weights are exp(score), but they do not sum to 1: divide each row by its sum."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.exp()
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def adds_up_earlier_positions_only(x):
    """Your weights are right, but the sum stops before i: add up over all positions, i and later ones included."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(i):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_twice_normalised(x):
    """You apply the softmax twice. The second one makes the weights nearly equal."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0).softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_is_a_mean(x):
    """All your weights are equal: the dot products have no influence."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = torch.ones_like(scores) / time
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_averages_again(x):
    """You divide the weighted sum by the number of positions. The weights sum to 1 already."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output / time)
    return torch.stack(outputs)


@self_attention.alternative
def self_attention_at_once(x):
    return (x @ x.T).softmax(dim=1) @ x


@self_attention.alternative
def self_attention_by_numbers(x):
    rows = x.tolist()
    outputs = []
    for query in rows:
        exponentials = [math.exp(sum(a * b for a, b in zip(query, key))) for key in rows]
        total = sum(exponentials)
        mixed = [sum(e / total * row[c] for e, row in zip(exponentials, rows)) for c in range(len(query))]
        outputs.append(mixed)
    return torch.tensor(outputs)


@self_attention.alternative
def self_attention_into_zeros(x):
    y = torch.zeros(x.shape)
    for i, x_i in enumerate(x):
        w = torch.exp(x @ x_i - (x @ x_i).max())
        y[i] = (w[:, None] * x).sum(0) / w.sum()
    return y


@self_attention.alternative
def self_attention_of_columns(x):
    weights = torch.einsum("id,jd->ji", x, x).softmax(dim=0)
    return (x.T @ weights).T


@self_attention.alternative
def self_attention_by_lookups(x):
    return torch.stack([reference.soft_lookup(x_i, x, x) for x_i in x])


# --- batched_self_attention -----------------------------------------------------------------------------

batched_self_attention = Exercise(
    reference.batched_self_attention,
    cases=[
        {"x": normal(2, 3, 4, seed=5, scale=0.8)},
        {"x": normal(3, 5, 2, seed=6)},
        {"x": normal(4, 4, 4, seed=7, scale=0.7)},
        {"x": normal(2, 6, 3, seed=8, scale=3)},
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Write the scores of one sequence as one matrix product first: which two matrices give a (time, time) result?",
        "With a batch in front, .T turns all axes around. transpose(1, 2) swaps the last two alone.",
        "scores is (batch, query, key). A query shares out its attention over the keys: which axis is that?",
        "scores = x @ x.transpose(1, 2); weights = scores.softmax(dim=2); return weights @ x.",
    ],
)


@batched_self_attention.property("the result has the shape (batch, time, d)", points=1)
def batched_shape(subject, case):
    attended(subject, case["x"])


@batched_self_attention.property("sequences of a batch do not see each other", points=1)
def batched_sequences_are_apart(subject, case):
    together = attended(subject, case["x"])
    alone = torch.cat([attended(subject, sequence[None]) for sequence in case["x"]])
    expect_close(together, alone, "the batch, compared with what its sequences give one by one,")


@batched_self_attention.property("equal vectors stay as they are", points=1)
def batched_equal_vectors(subject, case):
    same = case["x"][:, :1].expand_as(case["x"]).contiguous()
    expect_close(attended(subject, same), same, "with all vectors of a sequence equal, the result")


@batched_self_attention.property("tokens in another order give the same outputs in that order", points=1)
def batched_is_equivariant(subject, case):
    x = case["x"]
    expect_close(attended(subject, x.flip(1)), attended(subject, x).flip(1), "with x in reverse order, the result")


@batched_self_attention.property("every sequence gets what self_attention gives it", points=1)
def batched_result(subject, case):
    expect_close(subject(case["x"]), torch.stack([reference.self_attention(x) for x in case["x"]]))


@batched_self_attention.misconception
def softmax_over_the_queries(x):
    """Your softmax runs over the queries (axis 1). Each query shares out its attention over the keys: axis 2."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_the_batch(x):
    """Your softmax runs over the batch (axis 0): sequences that have nothing to do with each other compete."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=0)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_the_whole_matrix(x):
    """Your weights sum to 1 over the whole matrix of a sequence. Every row has to sum to 1."""
    scores = x @ x.transpose(1, 2)
    weights = scores.flatten(1).softmax(dim=1).view_as(scores)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_without_softmax(x):
    """The softmax is missing: you use the dot products themselves as weights."""
    scores = x @ x.transpose(1, 2)
    weights = scores
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_is_scaled(x):
    """You divide by √d. That comes a little later; this exercise repeats self_attention, without a scale."""
    scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[2])
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def reverses_all_axes(x):
    """.T turns all three axes around, the batch included. Swap the last two axes only."""
    scores = x @ x.T
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def swaps_batch_and_time(x):
    """You swap batch and time: the tokens of different sequences meet each other. Swap the last two axes."""
    scores = x @ x.transpose(0, 1)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def multiplies_without_transposing(x):
    """You multiply x by itself without swapping axes: rows have to meet rows, so the second x has to be turned."""
    scores = x @ x
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def reshapes_instead_of_transposing(x):
    """view and reshape keep the order of the numbers and cut it into other rows: vectors fall apart. Transpose."""
    scores = x @ x.reshape(x.shape[0], x.shape[2], x.shape[1])
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_compares_features(x):
    """You compare features with features (d × d). Tokens are compared with tokens: (batch, time, time)."""
    scores = x.transpose(1, 2) @ x
    weights = scores.softmax(dim=2)
    output = x @ weights
    return output


@batched_self_attention.misconception
def joins_the_sequences(x):
    """You join all sequences of the batch into one long one, so that they see each other. Keep the batch axis apart."""
    tokens = x.reshape(-1, x.shape[2])
    scores = tokens @ tokens.transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ tokens
    return output.view_as(x)


@batched_self_attention.misconception
def first_sequence_for_all(x):
    """Every sequence is mixed with the weights of the first one. Each has scores of its own."""
    scores = x[0] @ x[0].transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_returns_weights(x):
    """You return the weights. The output is made with them: one weighted sum of vectors for each position."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return weights


@batched_self_attention.misconception
def batched_looks_back_only(x):
    """Later positions are hidden in your version. Nothing is masked here: every position sees the whole sequence."""
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(torch.ones_like(scores).triu(diagonal=1).bool(), -math.inf)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_leaves_itself_out(x):
    """You hide the diagonal. A position is compared with itself too."""
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(torch.eye(x.shape[1]).bool(), -math.inf)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_by_angle(x):
    """You compare by cosine: all vectors are brought to length 1 first. The plain dot product is wanted."""
    scores = F.normalize(x, dim=2) @ F.normalize(x, dim=2).transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def last_sequence_for_all(x):
    """Every sequence is mixed with the weights of the last one. Each has scores of its own."""
    scores = x[-1] @ x[-1].transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_everything(x):
    """Your weights sum to 1 over the whole batch. Every row of every sequence has to sum to 1 by itself."""
    scores = x @ x.transpose(1, 2)
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_not_normalised(x):
    """Your weights are exp(score), but the rows do not sum to 1: divide each row by its sum."""
    scores = x @ x.transpose(1, 2)
    weights = scores.exp()
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_softmax_twice(x):
    """You apply the softmax twice. The second one makes the weights nearly equal."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2).softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_keeps_the_input(x):
    """You add x to the result. That comes in a later notebook; here the weighted sum alone is wanted."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x + x
    return output


@batched_self_attention.alternative
def batched_with_bmm(x):
    return torch.bmm(F.softmax(torch.bmm(x, x.permute(0, 2, 1)), dim=-1), x)


@batched_self_attention.alternative
def batched_by_einsum(x):
    weights = torch.einsum("bid,bjd->bij", x, x).softmax(-1)
    return torch.einsum("bij,bjd->bid", weights, x)


@batched_self_attention.alternative
def batched_by_broadcasting(x):
    scores = (x[:, :, None] * x[:, None]).sum(-1)
    exponentials = scores.sub(scores.amax(-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return (weights[..., None] * x[:, None]).sum(dim=2)


@batched_self_attention.alternative
def batched_fused(x):
    return F.scaled_dot_product_attention(x, x, x, scale=1.0)


@batched_self_attention.alternative
def batched_one_by_one(x):
    return torch.stack([(s @ s.T).softmax(1) @ s for s in x.float()])


@batched_self_attention.alternative
def batched_not_contiguous(x):
    weights = torch.softmax(x @ x.mT, dim=1)  # the scores are symmetric: column j holds what row j should
    return (x.mT @ weights).mT


# --- attention_scores -----------------------------------------------------------------------------------

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
    expect_close(scores_of(subject, 2 * q, k), 2 * once, "with 2 · q, the matrix of scores")
    expect_close(scores_of(subject, q, 2 * k), 2 * once, "with 2 · k, the matrix of scores")


@attention_scores.property("apart from a common factor, score [i, j] is the dot product of query i and key j", points=1)
def scores_are_proportional_to_products(subject, case):
    q, k = case.values()
    got, products = scores_of(subject, q, k), q @ k.mT
    factor = float((got.double() * products).sum() / (products * products).sum())
    expect(factor > 0, "The scores should grow with the dot products q · k, but they do not.")
    expect_close(got, factor * products, f"compared with {factor:.4g} · q kᵀ, the matrix of scores")


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


# --- scaled_dot_product_attention -----------------------------------------------------------------------

scaled_dot_product_attention = Exercise(
    reference.scaled_dot_product_attention,
    cases=[
        {"q": normal(2, 3, seed=15), "k": normal(4, 3, seed=16), "v": normal(4, 5, seed=17)},
        {"q": normal(2, 5, 6, seed=18), "k": normal(2, 3, 6, seed=19), "v": normal(2, 3, 4, seed=20)},
        {
            "q": normal(2, 3, 4, 7, seed=21, scale=3),
            "k": normal(2, 3, 6, 7, seed=22, scale=3),
            "v": normal(2, 3, 6, 5, seed=23),
        },
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Three steps again: scores, weights, output. You have written the first one already.",
        "The softmax runs over the keys. In a matrix of shape (…, query, key) that is the last axis.",
        "output has the shape (…, n, d_v): multiply weights (…, n, m) by v (…, m, d_v). Return output, then weights.",
        "weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1); return weights @ v, weights.",
    ],
)


def attention_of(subject, case):
    return expect_tuple(subject(*case.values()), ("output", "weights"))


@scaled_dot_product_attention.property("output is (…, n, d_v) and weights are (…, n, m)", points=1)
def attention_shapes(subject, case):
    output, weights = attention_of(subject, case)
    expect(weights is not None, "The second result is None: the weights are wanted too, not the output alone.")
    want_output, want_weights = reference.scaled_dot_product_attention(**case)
    expect_floats(output, tuple(want_output.shape), "the output")
    expect_floats(weights, tuple(want_weights.shape), "the matrix of weights")


@scaled_dot_product_attention.property("each row of the weights is a probability distribution", points=1)
def attention_rows(subject, case):
    weights = attention_of(subject, case)[1]
    expect(weights.min() >= -1e-6, f"There is a negative weight: {weights.min():.4g}.")
    sums = weights.sum(dim=-1)
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


@scaled_dot_product_attention.property("the weights are softmax(q kᵀ / √d_k)", points=2)
def attention_weights(subject, case):
    weights = attention_of(subject, case)[1]
    expect_close(weights, reference.scaled_dot_product_attention(**case)[1], "the matrix of weights")


@scaled_dot_product_attention.property("gradients flow back to q, k and v", points=1)
def attention_gradients(subject, case):
    slopes = [subject.gradient(*case.values(), wrt=position, at=(0,)) for position in range(3)]
    if subject.changed_inputs:
        return  # the last property speaks of that
    right = Subject(reference.scaled_dot_product_attention)
    for position, (name, slope) in enumerate(zip("qkv", slopes)):
        expect(
            slope.abs().max() > 1e-9,
            f"The output does not react to {name}: its gradient is 0 everywhere, so nothing before it could learn.",
        )
        want = right.gradient(*case.values(), wrt=position, at=(0,))
        expect_close(slope, want, f"the gradient of output[0].sum() with respect to {name}")


@scaled_dot_product_attention.property("the output is the sum of the values with these weights", points=1)
def attention_output(subject, case):
    output = attention_of(subject, case)[0]
    expect_close(output, reference.scaled_dot_product_attention(**case)[0], "the output")


@scaled_dot_product_attention.misconception
def attention_without_scale(q, k, v):
    """The scores are not divided by √d_k."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_d_k(q, k, v):
    """You divide by d_k; its square root is wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / d_k
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_multiplies_by_root(q, k, v):
    """You multiply the scores by √d_k. Divide: they are too large, not too small."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores * math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_d_v(q, k, v):
    """You take d_k from the values. It is the width of queries and keys, whose products are to be scaled."""
    d_k = v.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_number_of_keys(q, k, v):
    """You divide by the root of the number of keys. It is the width d_k, the last axis, that counts."""
    d_k = k.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_number_of_queries(q, k, v):
    """You divide by the root of the number of queries. It is the width d_k, the last axis, that counts."""
    d_k = q.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_second_axis(q, k, v):
    """You take the length of axis 1 for d_k. That fits one matrix; with a batch in front, the width is axis -1."""
    d_k = q.shape[1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scales_the_weights(q, k, v):
    """You divide by √d_k after the softmax, so the rows no longer sum to 1. The scores are scaled, before it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1) / math.sqrt(d_k)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scales_in_place(q, k, v):
    """The result is right, but you scale q in place: the caller's own tensor is changed, and a second call differs."""
    d_k = q.shape[-1]
    q.div_(math.sqrt(d_k))
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_over_queries(q, k, v):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_axis_one(q, k, v):
    """Your softmax runs over axis 1. That is the key axis of one matrix only; with a batch in front it is the last."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_axis_zero(q, k, v):
    """Your softmax runs over the first axis. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=0)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_the_whole_matrix(q, k, v):
    """Your weights sum to 1 over the whole matrix. Every query has weights of its own: each row sums to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.flatten(-2).softmax(dim=-1).view_as(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_two_softmaxes(q, k, v):
    """You apply the softmax twice. The second one makes all weights nearly equal."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_sigmoid(q, k, v):
    """You use a sigmoid: each weight is decided alone, and the rows do not sum to 1. Keys compete: softmax."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.sigmoid()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_log_softmax(q, k, v):
    """log_softmax gives the logarithms of the weights. The weights themselves are wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.log_softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_softmax(q, k, v):
    """The softmax is missing: scores can be negative and do not sum to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_the_sum(q, k, v):
    """You divide the scores by their sum, without the exponential: negative scores become negative weights."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_picks_the_best(q, k, v):
    """Each of your queries takes its best key alone. In soft attention every key has a share."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(v.dtype)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_cosine(q, k, v):
    """You compare by cosine: q and k are brought to length 1. The dot product, divided by √d_k, is wanted."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_scaled_cosine(q, k, v):
    """You bring q and k to length 1 and divide by √d_k as well. Only the division is wanted."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_turns_all_axes(q, k, v):
    """.T turns all axes of k around, not just the last two: beyond a single matrix the wrong things meet."""
    d_k = q.shape[-1]
    scores = q @ k.T
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_transposing(q, k, v):
    """k is not transposed: row i of q has to meet the rows of k, so these have to become columns."""
    d_k = q.shape[-1]
    scores = q @ k
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_swaps_fixed_axes(q, k, v):
    """You swap axes 1 and 2, counted from the front. That fits three axes only; counted from the end it always fits."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(1, 2)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_reshapes_the_keys(q, k, v):
    """view and reshape cut the same row of numbers into other pieces: the keys fall apart. Transpose instead."""
    d_k = q.shape[-1]
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_sums_with_scores(q, k, v):
    """The weights are right, but the output is made with the scores: the softmax is left out of the sum."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = scores @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_averages_the_keys(q, k, v):
    """Your output is made of the keys. Keys are for comparing; what is summed up are the values."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ k
    return output, weights


@scaled_dot_product_attention.misconception
def attention_compares_with_values(q, k, v):
    """You compare keys with keys: the queries have no influence."""
    d_k = q.shape[-1]
    scores = k @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_weights_first(q, k, v):
    """The two results stand in the wrong order: the output comes first, the weights second."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return weights, output


@scaled_dot_product_attention.misconception
def attention_returns_output_only(q, k, v):
    """Only the output comes back. Return the weights too, as the second of two results."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output


@scaled_dot_product_attention.misconception
def attention_returns_scores(q, k, v):
    """The second result holds the scores, before the softmax. The weights after it are wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, scores


@scaled_dot_product_attention.misconception
def attention_hides_the_future(q, k, v):
    """You hide later keys. Nothing is masked here: every query sees every key."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    scores = scores.masked_fill(torch.ones_like(scores).triu(diagonal=1).bool(), -math.inf)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_drops_weights(q, k, v):
    """Your dropout is always on, so the same input gives random results. This exercise has no dropout."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.dropout(scores.softmax(dim=-1), p=0.1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_the_gradient(q, k, v):
    """The numbers are right, but the weights are cut off from the gradient (.detach(), .data): q and k cannot learn."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).detach()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_all_gradients(q, k, v):
    """The numbers are right, but no gradient comes through (.item(), .numpy(), no_grad, …): nothing could learn."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = (weights @ v).detach()
    return output, weights


@scaled_dot_product_attention.misconception
def attention_leaves_the_axis_open(q, k, v):
    """You do not say along which axis the softmax runs, and torch guesses: with three axes it takes the first.
    Name the last."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.softmax(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_everything(q, k, v):
    """Your weights sum to 1 over the whole tensor. Every row of every matrix has to sum to 1 by itself."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_does_not_normalise(q, k, v):
    """Your weights are exp(score), but the rows do not sum to 1: divide each row by its sum."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.exp()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_no_weights(q, k, v):
    """The second result is None. Return the weights there: we want to look at them."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, None


@scaled_dot_product_attention.misconception
def attention_divides_by_eight(q, k, v):
    """You divide by 8. That is √64 and right for vectors of 64 features only: take the width of these vectors."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / 8
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_first_axis(q, k, v):
    """You divide by the root of the length of the first axis. It is the width d_k, the last axis, that counts."""
    d_k = q.shape[0]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_power_before_division(q, k, v):
    """Powers bind tighter than /: d_k ** 1/2 is d_k divided by 2. Write math.sqrt(d_k) or d_k ** 0.5."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (d_k / 2)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_twice_d_k(q, k, v):
    """Powers bind tighter than /: d_k ** -1/2 is 1 / (2 d_k). Write math.sqrt(d_k) or d_k ** -0.5."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (2 * d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_tensor_root_of_a_number(q, k, v):
    """torch.sqrt takes a tensor, and d_k is a plain number: math.sqrt takes that."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / torch.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_softmaxes_the_output(q, k, v):
    """You apply the softmax after the values are summed up. It belongs before: it makes the weights of the sum."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = (scores @ v).softmax(dim=-1)
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_transposed_weights(q, k, v):
    """Your weights have a row for each key. A row belongs to a query, a column to a key."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights.transpose(-2, -1)


@scaled_dot_product_attention.misconception
def attention_returns_unscaled_weights(q, k, v):
    """Scores are scaled for the output, but the weights that you return are not the ones it was made with."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, (scores * math.sqrt(d_k)).softmax(dim=-1)


@scaled_dot_product_attention.alternative
def attention_by_einsum(q, k, v):
    weights = torch.einsum("...id,...jd->...ij", q / q.shape[-1] ** 0.5, k).softmax(-1)
    return torch.einsum("...ij,...jv->...iv", weights, v), weights


@scaled_dot_product_attention.alternative
def attention_fused(q, k, v):
    identity = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


@scaled_dot_product_attention.alternative
def attention_by_exponentials(q, k, v):
    root = q.size(-1) ** 0.25
    exponentials = torch.exp((q / root) @ (k / root).mT)
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights.matmul(v), weights


@scaled_dot_product_attention.alternative
def attention_query_by_query(q, k, v):
    outputs, rows = [], []
    for i in range(q.shape[-2]):
        scores = (q[..., i, None, :] * k).sum(-1) / math.sqrt(k.shape[-1])
        row = torch.softmax(scores, -1)
        rows.append(row)
        outputs.append((row[..., None] * v).sum(-2))
    return [torch.stack(outputs, -2), torch.stack(rows, -2)]


@scaled_dot_product_attention.alternative
def attention_from_the_keys(q, k, v):
    weights = F.softmax(k.float() @ q.float().mT * q.shape[-1] ** -0.5, dim=-2)
    return (v.float().mT @ weights).mT, weights.mT


# --- project_qkv ----------------------------------------------------------------------------------------

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
        "The matrices are (d_in, d_out), so that x stands on the left: (…, time, d_in) @ (d_in, d_out).",
        "q = x @ w_q, and the other two in the same way; return q, k, v in this order.",
    ],
)


def projections_of(subject, case):
    members = expect_tuple(subject(*case.values()), ("q", "k", "v"))
    wants = reference.project_qkv(**case)
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
    """Queries and keys have changed places."""
    q = x @ w_k
    k = x @ w_q
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def keys_and_values_swapped(x, w_q, w_k, w_v):
    """Keys and values have changed places: the order is q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return q, v, k


@project_qkv.misconception
def values_first(x, w_q, w_k, w_v):
    """The three come back in the wrong order: it is q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return v, k, q


@project_qkv.misconception
def multiplies_by_the_transposed(x, w_q, w_k, w_v):
    """You multiply by the transposed matrices. F.linear and nn.Linear do that: their weights are (d_out, d_in),
    these (d_in, d_out)."""
    q = x @ w_q.T
    k = x @ w_k.T
    v = x @ w_v.T
    return q, k, v


@project_qkv.misconception
def multiplies_from_the_left(x, w_q, w_k, w_v):
    """The matrices stand on the left of x. A token is a row of x, so x stands on the left: x times w."""
    q = w_q @ x
    k = w_k @ x
    v = w_v @ x
    return q, k, v


@project_qkv.misconception
def projects_one_after_the_other(x, w_q, w_k, w_v):
    """You project the result of the projection before. All three start from x."""
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
    """You divide the queries by √d_k here. Attention does that itself: done twice, the scores become too small."""
    q = x @ w_q / math.sqrt(w_q.shape[1])
    k = x @ w_k
    v = x @ w_v
    return q, k, v


@project_qkv.misconception
def projects_with_relu(x, w_q, w_k, w_v):
    """There is a ReLU in your projections. They are linear: a plain matrix product each."""
    q = (x @ w_q).relu()
    k = (x @ w_k).relu()
    v = (x @ w_v).relu()
    return q, k, v


@project_qkv.misconception
def packs_the_three(x, w_q, w_k, w_v):
    """All three stand side by side in one tensor. Return them as three: q, k, v."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return torch.cat([q, k, v], dim=-1)


@project_qkv.misconception
def projects_one_sequence_only(x, w_q, w_k, w_v):
    """torch.mm multiplies two plain matrices: with a batch in front of x it fails. @ takes any number of leading
    axes."""
    q = torch.mm(x, w_q)
    k = torch.mm(x, w_k)
    v = torch.mm(x, w_v)
    return q, k, v


@project_qkv.misconception
def multiplies_the_transposed_from_the_left(x, w_q, w_k, w_v):
    """w.T @ x would be right if a token were a column of x. Here a token is a row: x times w."""
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
def projects_the_features_apart(x, w_q, w_k, w_v):
    """There is a softmax on your queries and keys. The projections are plain matrix products; the softmax comes
    later."""
    q = (x @ w_q).softmax(dim=-1)
    k = (x @ w_k).softmax(dim=-1)
    v = x @ w_v
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


# --- attention_cost -------------------------------------------------------------------------------------

attention_cost = Exercise(
    reference.attention_cost,
    cases=[{"n": 3, "d": 2}, {"n": 10, "d": 7}, {"n": 1024, "d": 512}, {"n": 1, "d": 5}],
    minutes=6,
    difficulty=1,
    hints=[
        "A product of an (a, b) matrix and a (b, c) matrix has a·c entries. How many multiplications is one entry?",
        "One entry takes b multiplications, so the whole product takes a·b·c. Which six products are there?",
        "A projection is (n, d) @ (d, d). The scores are (n, d) @ (d, n). The weighted sum is (n, n) @ (n, d).",
        "Four projections of n·d·d each; scores and weighted sum of n·n·d each. Return the two totals as a tuple.",
    ],
)


def whole_number(value, what):
    """`value` as an int, from an int, a whole float or a tensor with one entry."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if value is None:
        raise Failure(f"{what} is None. Does every path through your code end in a `return`?")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Failure(f"{what} should be a whole number, but it is {name_of_type(value)}.")
    expect(value == round(value), f"{what} should be a whole number, but it is {value!r}.")
    return round(value)


def cost_of(subject, n, d):
    projections, attention = expect_tuple(subject(n, d), ("projections", "attention"))
    return whole_number(projections, "The cost of the projections"), whole_number(attention, "The cost of attention")


@attention_cost.property("two whole numbers come back", points=1)
def cost_is_two_numbers(subject, case):
    cost_of(subject, case["n"], case["d"])


@attention_cost.property("twice as many tokens: projections cost 2 times as much, attention 4 times", points=1)
def cost_of_more_tokens(subject, case):
    n, d = case.values()
    once, twice = cost_of(subject, n, d), cost_of(subject, 2 * n, d)
    for name, factor, before, after in zip(("projections", "attention"), (2, 4), once, twice):
        expect_factor(name, factor, before, after, f"n goes from {n} to {2 * n}")


@attention_cost.property("twice as many features: projections cost 4 times as much, attention 2 times", points=1)
def cost_of_more_features(subject, case):
    n, d = case.values()
    once, twice = cost_of(subject, n, d), cost_of(subject, n, 2 * d)
    for name, factor, before, after in zip(("projections", "attention"), (4, 2), once, twice):
        expect_factor(name, factor, before, after, f"d goes from {d} to {2 * d}")


def expect_factor(name, factor, before, after, change):
    expect(
        after == factor * before,
        f"When {change}, the cost of the {name} part should become {factor} times as large, "
        f"but it goes from {before} to {after}.",
    )


@attention_cost.property("the projections are counted right", points=1)
def cost_of_projections(subject, case):
    got, want = cost_of(subject, **case)[0], reference.attention_cost(**case)[0]
    expect(got == want, f"The cost of the projections should be {want}, but it is {got}.")


@attention_cost.property("scores and weighted sum are counted right", points=1)
def cost_of_attention(subject, case):
    got, want = cost_of(subject, **case)[1], reference.attention_cost(**case)[1]
    expect(got == want, f"The cost of scores and weighted sum should be {want}, but it is {got}.")


@attention_cost.misconception
def counts_three_projections(n, d):
    """You count three projections. The result of attention is projected as well: queries, keys, values, output."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 3 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_one_projection(n, d):
    """You count one projection only. There are four: queries, keys, values, output."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def forgets_the_weighted_sum(n, d):
    """You count the scores only. The weighted sum of the values is a product of the same size."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = 0
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_scores_not_products(n, d):
    """You count n² for one of the two products. Each of the n² pairs takes d multiplications, in the scores and in
    the sum."""
    projection = n * d * d
    scores = n * n
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_entries_of_both(n, d):
    """You count n² for the scores and for the sum. Each of the n² pairs takes d multiplications, in both products."""
    projection = n * d * d
    scores = n * n
    weighted_sum = n * n
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_outputs_of_the_sum(n, d):
    """You count n · d for the weighted sum: those are its entries. Each of them takes n multiplications."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_parameters(n, d):
    """d² is the number of parameters of a projection. It is applied to every one of the n tokens."""
    projection = d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_entries_of_projections(n, d):
    """n · d is the number of entries of a projection. Each of them is a dot product of d features."""
    projection = n * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def projections_mix_tokens(n, d):
    """You let the projections grow with n². They treat each token alone: d² multiplications a token."""
    projection = n * n * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_additions_too(n, d):
    """You count additions as well (2 operations for each product, as FLOPs are counted). Count multiplications only."""
    projection = 2 * n * d * d
    scores = 2 * n * n * d
    weighted_sum = 2 * n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def swaps_the_costs(n, d):
    """The two numbers stand in the wrong order: projections first, then attention."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return attention, projections


@attention_cost.misconception
def adds_the_costs(n, d):
    """You return one total. The two parts are wanted one by one: (projections, attention)."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections + attention


@attention_cost.misconception
def multiplies_the_costs(n, d):
    """You multiply the cost of the scores by that of the weighted sum. They are done one after the other: add."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores * weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_the_scaling(n, d):
    """You count the scaling of the n² scores too. Only the multiplications in the matrix products are asked for."""
    projection = n * d * d
    scores = n * n * d + n * n
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_half_of_the_pairs(n, d):
    """You count each pair of tokens once. Score (i, j) and score (j, i) are different numbers: n² of them."""
    projection = n * d * d
    scores = n * (n + 1) // 2 * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_biases(n, d):
    """You count n · d more for each projection. A bias is added, not multiplied, and these projections have none."""
    projection = n * d * d + n * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def attention_grows_with_the_length_only(n, d):
    """You let attention cost n · d² a product, like a projection. Every token meets every token: n² · d."""
    projection = n * d * d
    scores = n * d * d
    weighted_sum = n * d * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def attention_squares_both(n, d):
    """You count n² · d² for each product. There are n² scores, and each takes d multiplications."""
    projection = n * d * d
    scores = n * n * d * d
    weighted_sum = n * n * d * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.alternative
def cost_in_one_line(n, d):
    return 4 * n * d**2, 2 * n**2 * d


@attention_cost.alternative
def cost_by_products(n, d):
    def product(a, b, c):
        return a * b * c

    steps = {"q": (n, d, d), "k": (n, d, d), "v": (n, d, d), "out": (n, d, d)}
    return [sum(product(*s) for s in steps.values()), product(n, d, n) + product(n, n, d)]


@attention_cost.alternative
def cost_as_floats(n, d):
    return 4.0 * n * d * d, 2.0 * n * n * d


@attention_cost.alternative
def cost_as_tensors(n, d):
    n, d = torch.tensor(n), torch.tensor(d)
    return 4 * n * d * d, 2 * n * n * d


def shown(vector: Tensor) -> str:
    """A small vector for a sentence."""
    return "[" + ", ".join(f"{value:.4g}" for value in vector.tolist()) + "]"
