"""The exercise `self_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_agreement, expect_close
from course_lib.checking.inputs import normal
from course_lib.exercises.dot_product_attention.shared import attended, shown

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
    claim = "Your result for x in reverse order is not your result for x, reversed."
    expect_agreement(attended(subject, x.flip(0)), attended(subject, x).flip(0), claim)


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
