"""The exercise `multi_head_parameters`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
from torch import nn

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    name_of_type,
    sentence,
)

multi_head_parameters = Exercise(
    reference.multi_head_parameters,
    cases=[
        {"d_model": 6, "num_heads": 2, "bias": True},
        {"d_model": 20, "num_heads": 5, "bias": True},
        {"d_model": 256, "num_heads": 4, "bias": True},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "Count one head first: how many rows and columns does the matrix that makes its queries have?",
        "One head: three matrices of d_model × d_k. Then all heads. Then W_O, which takes in all heads side by side.",
        "num_heads · d_k = d_model, so num_heads drops out. A bias has one number for each output of its map.",
        "Four matrices of d_model × d_model in all, and with bias=True four times d_model more.",
    ],
)


def count_answer(subject, d_model, num_heads, bias):
    got = subject(d_model, num_heads, bias)
    if got is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if isinstance(got, torch.Tensor) and got.numel() == 1:
        got = got.item()
    if isinstance(got, bool) or not isinstance(got, int | float):
        raise Failure(f"The result should be a whole number, but it is {name_of_type(got)}.")
    expect(got == int(got) and got > 0, f"The result should be a positive whole number, but it is {got!r}.")
    return int(got)


def expect_count(subject, case, **changes):
    asked = {**case, **changes}
    want = reference.multi_head_parameters(**asked)
    got = count_answer(subject, **asked)
    differing = " and ".join(f"{name} = {value}" for name, value in changes.items() if value != case[name])
    where = f"with {differing} instead, " if differing else ""
    off = f"{abs(got - want)} too {'few' if got < want else 'many'}"
    expect(got == want, sentence(f"{where}the result should be {want}, and it is {got}: {off}."))


@multi_head_parameters.property("the result is a positive whole number", points=1)
def count_is_a_number(subject, case):
    count_answer(subject, **case)


@multi_head_parameters.property("one head with all features needs 4 matrices", points=1)
def count_one_head(subject, case):
    expect_count(subject, case, num_heads=1, bias=False)


@multi_head_parameters.property("more heads do not need more parameters", points=1)
def count_without_biases(subject, case):
    expect_count(subject, case, bias=False)


@multi_head_parameters.property("the biases are counted where there are some", points=1)
def count_with_biases(subject, case):
    expect_count(subject, case)


@multi_head_parameters.misconception
def leaves_out_w_o(d_model, num_heads, bias):
    """One map of d_model × d_model numbers is missing from your count, with its bias. Queries, keys and values have one
    each, all heads together; W_O, which mixes the heads' results, is a fourth.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = 0
    biases = 3 * num_heads * d_k if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def leaves_out_w_o_but_not_its_bias(d_model, num_heads, bias):
    """One matrix of d_model² numbers is missing from your count. Queries, keys and values have one each, all heads
    together; W_O, which mixes the heads' results, is a fourth.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = 0
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def gives_every_head_the_full_size(d_model, num_heads, bias):
    """You give every head full d_model × d_model matrices, W_O included. Each head projects to d_k = d_model /
    num_heads features only.

    As it is, W_O too takes in num_heads times as many features as it should.
    """
    d_k = d_model
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def full_size_heads_but_one_w_o(d_model, num_heads, bias):
    """You give every head full d_model × d_model matrices for its queries, keys and values. Each head projects to d_k =
    d_model / num_heads features only.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_model
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def counts_one_head(d_model, num_heads, bias):
    """You count 3 · d_model · d_k numbers for the queries, keys and values of all heads together. That is what one head
    has: each head reads all d_model features, and there are num_heads heads.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return one_head + output + biases


@multi_head_parameters.misconception
def counts_one_projection(d_model, num_heads, bias):
    """A head has three matrices: for its queries, its keys and its values. You count one."""
    d_k = d_model // num_heads
    one_head = d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def takes_w_o_for_one_heads_size(d_model, num_heads, bias):
    """Your W_O takes in d_k features. It takes in all heads side by side: num_heads · d_k."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def never_counts_biases(d_model, num_heads, bias):
    """The biases are missing: with bias=True each of the four maps adds one number to each of its outputs."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def always_counts_biases(d_model, num_heads, bias):
    """You count the biases whether or not there are any."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def counts_the_output_bias_alone(d_model, num_heads, bias):
    """You count only the bias of W_O. The projections for queries, keys and values have biases too."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def leaves_out_the_output_bias(d_model, num_heads, bias):
    """The bias of W_O is missing."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def counts_one_bias_a_map(d_model, num_heads, bias):
    """You count one bias number for each map. A bias has one number for each output."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 4 if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def counts_the_biases_of_one_head(d_model, num_heads, bias):
    """You count the biases of one head; each head has its own."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def counts_a_single_head(d_model, num_heads, bias):
    """You count a single head: its own three matrices, and the part of W_O that takes in its result. There are
    num_heads heads.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = d_k * d_model
    biases = 3 * d_k + d_model if bias else 0
    return one_head + output + biases


@multi_head_parameters.misconception
def counts_whole_attentions(d_model, num_heads, bias):
    """You count num_heads whole attentions, each with full d_model × d_model matrices and a W_O of its own. A head
    projects to d_k = d_model / num_heads features only, and there is one W_O.
    """
    d_k = d_model // num_heads
    one_head = 4 * d_model * d_model
    output = 0
    biases = 4 * num_heads * d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def gives_every_head_a_bias_of_w_o(d_model, num_heads, bias):
    """You count a bias of W_O for each head. W_O is one map for all heads, with one bias of d_model numbers."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + num_heads * d_model if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def counts_one_bias_a_map_of_each_head(d_model, num_heads, bias):
    """You count one bias number for each map of each head. A bias has one number for each output."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads + 1 if bias else 0
    return num_heads * one_head + output + biases


@multi_head_parameters.misconception
def leaves_out_w_o_and_always_counts_biases(d_model, num_heads, bias):
    """You count three maps of d_model × d_model numbers; W_O, which mixes the heads' results, is a fourth. And you
    count biases whether or not there are any."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    biases = 3 * num_heads * d_k
    return num_heads * one_head + biases


@multi_head_parameters.alternative
def in_one_line(d_model, num_heads, bias):
    return 4 * d_model * (d_model + bias)


@multi_head_parameters.alternative
def by_asking_torch(d_model, num_heads, bias):
    return sum(p.numel() for p in nn.MultiheadAttention(d_model, num_heads, bias=bias).parameters())


@multi_head_parameters.alternative
def by_building_the_layers(d_model, num_heads, bias):
    d_k = d_model // num_heads
    layers = [nn.Linear(d_model, d_k, bias=bias) for _ in range(3 * num_heads)]
    layers.append(nn.Linear(num_heads * d_k, d_model, bias=bias))
    return sum(math.prod(p.shape) for layer in layers for p in layer.parameters())


@multi_head_parameters.alternative
def as_a_float(d_model, num_heads, bias):
    total = 0.0
    for _ in "qkvo":
        total += d_model**2
        if bias:
            total += d_model
    return total
