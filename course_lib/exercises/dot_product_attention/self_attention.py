"""The exercise `self_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close
from course_lib.checking.inputs import normal
from course_lib.exercises.dot_product_attention.shared import FAR, ROUNDED, attended, shown, with_feature

self_attention = Exercise(
    reference.self_attention,
    cases=[
        {"x": normal(3, 2, seed=16)},
        {"x": normal(5, 4, seed=19, scale=0.7)},
        {"x": normal(4, 6, seed=11, scale=1.2)},
        {"x": normal(1, 3, seed=4)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Look at one position i first. It is a soft_lookup: what is its query, what are the keys, what are the values?",
        "For position i: score every x[j] with x[i], itself included; softmax; add up weights[j] * x[j].",
        "Collect the outputs of all positions in a list and turn it into one tensor with torch.stack.",
        "for i in range(x.shape[0]): weights = (x @ x[i]).softmax(dim=0); outputs.append(weights @ x).",
    ],
)


@self_attention.property("one vector comes out for each vector that goes in", points=1)
def self_attention_shape(subject, case):
    attended(subject, case["x"])


@self_attention.property("with vectors five times as long, each finds the vector that fits it best", points=1)
def self_attention_becomes_hard(subject, case):
    long = 5 * case["x"]
    what = "with 5 · x, for which row i is nearly the x_j with the largest x_i · x_j, the result"
    expect_close(subject(long), reference.self_attention(long), what, rtol=0.1, atol=0.1)


@self_attention.property("equal vectors stay as they are", points=1)
def self_attention_of_equal_vectors(subject, case):
    same = case["x"][:1].repeat(len(case["x"]), 1)
    expect_close(subject(same), same, f"with every row of x set to {shown(same[0])}, the result")


@self_attention.property("row i is the sum of all x_j, weighted by the softmax of x_i · x_j", points=1)
def self_attention_result(subject, case):
    expect_close(subject(case["x"]), self_attention.want(case))


@self_attention.property("dot products around 1000 give the right result too", points=1)
def self_attention_far_from_zero(subject, case):
    """The same number added to all scores changes no weight."""
    want = with_feature(self_attention.want(case))
    what = (
        f"with one more feature, {FAR:g} in every vector, so that {FAR * FAR:g} is added to every dot product and no "
        "weight changes, the result"
    )
    expect_close(subject(with_feature(case["x"])), want, what, rtol=ROUNDED, atol=ROUNDED)


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
    """Position i looks only at the positions up to i. Here every position sees all of them: j runs over all
    positions."""
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
    """You use the dot products themselves as weights. A softmax has to make them positive, with sum 1."""
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
    """You divide the dot products by their sum, without the exponential.

    Weights come out negative.
    """
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
    """You compare by cosine: all vectors are normalised to length 1. Use the plain dot product here, in which length
    counts."""
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
    """Each round of your inner loop replaces the sum instead of adding to it.

    Only the last term is left.
    """
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
    """Each of your outputs is just the input again. Sum the weighted x_j, not x_i, the query."""
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
    """You add x_i itself to the weighted sum. Return the sum alone: it starts at 0."""
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
    """Your weights sum to 1 over the queries (i). For each i, the weights over all j have to sum to 1.

    The softmax runs along the wrong axis, a sum has lost its axis, or the weights are transposed."""
    scores = x @ x.T
    weights = scores.softmax(dim=0)
    return weights @ x


@self_attention.misconception
def self_attention_normalises_everything(x):
    """Your softmax runs over the whole matrix. Every position has weights of its own, which sum to 1."""
    scores = x @ x.T
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    return weights @ x


@self_attention.misconception
def compares_the_features(x):
    """You compare features with each other. Tokens are compared with tokens: time × time.

    xᵀ x is d × d.
    """
    scores = x.T @ x
    weights = scores.softmax(dim=-1)
    return x @ weights


@self_attention.misconception
def writes_into_the_input(x):
    """You overwrite x[i] with each output. Collect the outputs elsewhere.

    Later positions read the changed x.
    """
    for i in range(x.shape[0]):
        scores = x @ x[i]
        weights = scores.softmax(dim=0)
        x[i] = weights @ x
    return x


@self_attention.misconception
def writes_into_a_copy_of_the_input(x):
    """You overwrite the vectors that later positions still read. Collect the outputs elsewhere.

    Later positions read the changed vectors.
    """
    x = x.clone()
    for i in range(x.shape[0]):
        scores = x @ x[i]
        weights = scores.softmax(dim=0)
        x[i] = weights @ x
    return x


@self_attention.misconception
def returns_the_last_position(x):
    """You return the output of the last position only. Collect the outputs of all positions and stack them."""
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
    """Your weights are exp(score). They still have to be divided by their sum.

    They do not sum to 1.
    """
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
    """Your sum stops before i. Add up over all positions, i and later ones included."""
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
    """You apply the softmax twice.

    The second one makes the weights nearly equal.
    """
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
    """You give every vector the same weight.

    The dot products have no influence.
    """
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
    """You divide the weighted sum by the number of positions. Keep the sum itself.

    The weights sum to 1 already.
    """
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


@self_attention.misconception
def self_attention_with_sigmoid(x):
    """You use a sigmoid, which sets each weight independently. The positions have to compete with each other: use a
    softmax.

    The weights of a position do not sum to 1.
    """
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.sigmoid()
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_with_log_softmax(x):
    """You take the logarithms of the weights (log_softmax). Use the weights themselves.

    Logarithms of weights are never positive.
    """
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.log_softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_turns_the_sign(x):
    """Your scores have the wrong sign: vectors that fit must get a large weight.

    The vectors that fit least get the most.
    """
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([-x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_by_distance(x):
    """You compare by distance. Here the score is the dot product x_i · x_j."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([-(x[i] - x[j]).norm() for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_divides_by_d(x):
    """You divide the dot products by d. This exercise has no scale."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] / x.shape[1] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_scaled_by_length(x):
    """You divide by the square root of the number of positions. This exercise has no scale."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] / math.sqrt(time) for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def self_attention_picks_the_best(x):
    """Each of your positions takes only the vector that fits best. In soft attention every vector has a share."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = F.one_hot(scores.argmax(), time).to(x.dtype)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def every_position_asks_like_the_first(x):
    """You compare every x_j with x_0, whichever position is the query. For position i the comparison is with x_i."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[0] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def looks_forward_only(x):
    """Position i looks only at itself and later positions. Here every position sees all of them: j runs over all
    positions."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(i, time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(i, time):
            output = output + weights[j - i] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def uses_the_weight_of_i(x):
    """You multiply every x_j by the weight of position i. Each x_j has a weight of its own."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[i] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def does_not_stack(x):
    """You return a list of vectors. Return one tensor (time, d): stack them."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return outputs


@self_attention.misconception
def joins_the_outputs(x):
    """You join the outputs end to end with torch.cat. Each has to be a row of its own: torch.stack makes a new axis."""
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.softmax(dim=0)
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.cat(outputs)


@self_attention.misconception
def self_attention_returns_a_pair(x):
    """You return the weights as well. Return the output alone."""
    scores = x @ x.T
    weights = scores.softmax(dim=1)
    return weights @ x, weights


# Last, so that in a pair the coarser mistake is told first.
@self_attention.misconception
def self_attention_overflows(x):
    """You take the exponential of the scores as they are, and scores can be large. Subtracting one number from all the
    scores of a query changes no weight: choose it so that no exponent is large.

    exp of a large score is inf, and inf / inf is NaN.
    """
    time = x.shape[0]
    outputs = []
    for i in range(time):
        scores = torch.stack([x[i] @ x[j] for j in range(time)])
        weights = scores.exp() / scores.exp().sum()
        output = torch.zeros_like(x[i])
        for j in range(time):
            output = output + weights[j] * x[j]
        outputs.append(output)
    return torch.stack(outputs)


@self_attention.misconception
def compares_the_features_along_columns(x):
    """You compare features with each other. Tokens are compared with tokens: time × time.

    xᵀ x is d × d.
    """
    scores = x.T @ x
    weights = scores.softmax(dim=-1)
    return (weights @ x.T).T


@self_attention.misconception
def normalises_scaled_columns(x):
    """Your weights sum to 1 over the queries (i); for each i, the weights over all j have to sum to 1. And you divide
    by √d, which comes later in this notebook."""
    scores = x @ x.T / math.sqrt(x.shape[1])
    weights = scores.softmax(dim=0)
    return weights @ x


@self_attention.alternative
def self_attention_at_once(x):
    return (x @ x.T).softmax(dim=1) @ x


@self_attention.alternative
def self_attention_by_numbers(x):
    rows = x.tolist()
    outputs = []
    for query in rows:
        scores = [sum(a * b for a, b in zip(query, key)) for key in rows]
        exponentials = [math.exp(score - max(scores)) for score in scores]
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
