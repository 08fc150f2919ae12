"""Exercises on multi-head attention: what must hold, and what people really write instead."""

from __future__ import annotations

import copy
import functools
import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_close,
    expect_floats,
    expect_tensor,
    expect_tuple,
    is_close,
    name_of_type,
)
from course_lib.checking.inputs import normal, random_mask
from course_lib.checking.subject import Event
from course_lib.checking.weights import AttentionWeights, load_weights
from course_lib.masks import causal_mask, masked_softmax
from course_lib.multi_head_attention import merge_heads, size_of_a_head, split_heads, with_head_axis

# --- split_heads ----------------------------------------------------------------------------------------

splitting = Exercise(
    reference.split_heads,
    cases=[
        {"x": torch.arange(12.0).reshape(1, 2, 6), "num_heads": 2},
        {"x": normal(2, 5, 12, seed=1), "num_heads": 3},
        {"x": normal(3, 4, 10, seed=2), "num_heads": 1},
        {"x": normal(2, 3, 4, seed=3), "num_heads": 4},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "Take one token, six features, two heads: which three features go to head 0? Nothing else has to happen to it.",
        "Two steps. First cut the last axis in two (head, d_k); then move the head axis in front of the time axis.",
        "After the cut the shape is (batch, time, head, d_k). Which two axes have to change places?",
        "x.reshape(batch, time, num_heads, d_model // num_heads), and then transpose(1, 2).",
    ],
)


def split_answer(subject, case):
    batch, time, d_model = case["x"].shape
    heads = case["num_heads"]
    return expect_floats(subject(*case.values()), (batch, heads, time, d_model // heads))


@splitting.property("the result is (batch, head, time, d_k)", points=1)
def split_shape(subject, case):
    split_answer(subject, case)


@splitting.property("every token keeps its own numbers", points=1)
def split_keeps_tokens(subject, case):
    got = split_answer(subject, case)
    together = got.transpose(1, 2).flatten(2)  # (batch, time, d_model)
    same = is_close(together.sort(dim=-1).values, case["x"].sort(dim=-1).values)
    expect(same, "At one time step the heads hold numbers of another time step: tokens were mixed.")


@splitting.property("head i holds features i·d_k to (i+1)·d_k - 1", points=1)
def split_values(subject, case):
    expect_close(subject(*case.values()), reference.split_heads(**case))


@splitting.property("the gradient of a head goes back to its own features and no others", points=1)
def split_gradient(subject, case):
    batch, time, d_model = case["x"].shape
    d_k = d_model // case["num_heads"]
    last = case["num_heads"] - 1
    want = torch.zeros(batch, time, d_model, dtype=case["x"].dtype)
    want[0, 1, last * d_k :] = 1.0
    got = subject.gradient(*case.values(), wrt=0, at=(0, last, 1))
    expect_close(got, want, f"the gradient of head {last} at time 1 with respect to x")


@splitting.misconception
def reshapes_alone(x, num_heads):
    """A reshape alone mixes tokens: your heads hold pieces of several tokens. Cut each token first (batch, time,
    head, d_k), then exchange time and head.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, num_heads, time, d_k)
    return x


@splitting.misconception
def forgets_the_exchange(x, num_heads):
    """The head axis still stands behind the time axis. Attention needs (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x


@splitting.misconception
def deals_the_features_out(x, num_heads):
    """You deal the features out like cards: head i gets every num_heads-th one. A head holds a block of
    neighbouring features.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, d_k, num_heads).transpose(2, 3)
    return x.transpose(1, 2)


@splitting.misconception
def exchanges_head_and_features(x, num_heads):
    """You exchange the last two axes, head and d_k. It is time and head that have to change places."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(2, 3)


@splitting.misconception
def puts_heads_before_the_batch(x, num_heads):
    """The head axis comes first in your result. The batch stays first: (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.permute(2, 0, 1, 3)


@splitting.misconception
def folds_heads_into_the_batch(x, num_heads):
    """You fold the heads into the batch axis. They get an axis of their own here: (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2).flatten(0, 1)


@splitting.misconception
def puts_time_last(x, num_heads):
    """Time and d_k have changed places. That is what the keys look like transposed; a split leaves d_k last."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.permute(0, 2, 3, 1)


@splitting.misconception
def takes_num_heads_for_d_k(x, num_heads):
    """You use num_heads as the size of a head. It is how many heads there are; each has size d_model / num_heads."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, d_k, num_heads)
    return x.transpose(1, 2)


@splitting.misconception
def transposes_before_the_cut(x, num_heads):
    """You exchange axes before you cut: then the reshape mixes time steps and features. Cut the feature axis first."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.transpose(1, 2).reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2)


@splitting.misconception
def gives_every_head_everything(x, num_heads):
    """Each of your heads holds all d_model features. The features are shared out: d_k for each head."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.unsqueeze(2).expand(batch, time, num_heads, d_model)
    return x.transpose(1, 2)


@splitting.misconception
def cuts_the_time_axis(x, num_heads):
    """You share out the time steps. Each head sees all time steps and its own block of features."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, num_heads, time // num_heads, d_model)
    return x


@splitting.misconception
def numbers_the_heads_backwards(x, num_heads):
    """Your heads stand in reverse order: head 0 owns the first block of features."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2).flip(1)


@splitting.misconception
def cuts_off_the_gradient(x, num_heads):
    """The numbers are right, but no gradient comes back through your result: it was detached or copied into a new
    tensor.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2).detach()


@splitting.alternative
def with_unflatten(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3).contiguous()


@splitting.alternative
def by_slicing(x, num_heads):
    d_k = x.shape[-1] // num_heads
    return torch.stack([x[:, :, i * d_k : (i + 1) * d_k] for i in range(num_heads)], dim=1)


@splitting.alternative
def by_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1)).transpose(0, 1)


@splitting.alternative
def the_transpose_first(x, num_heads):
    batch, time, d_model = x.shape
    return x.transpose(1, 2).reshape(batch, num_heads, d_model // num_heads, time).transpose(2, 3)


@splitting.alternative
def number_by_number(x, num_heads):
    d_k = x.size(2) // num_heads
    result = x.new_empty(x.size(0), num_heads, x.size(1), d_k)
    for feature in range(x.size(2)):
        result[:, feature // d_k, :, feature % d_k] = x[:, :, feature]
    return result


# --- merge_heads ----------------------------------------------------------------------------------------

merging = Exercise(
    reference.merge_heads,
    cases=[
        {"x": torch.arange(12.0).reshape(1, 2, 2, 3)},
        {"x": normal(2, 3, 5, 4, seed=4)},
        {"x": normal(3, 5, 2, 4, seed=5)},
        {"x": normal(2, 1, 4, 3, seed=6)},
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "Do the two steps of split_heads backwards, and the last one first.",
        "The head axis has to stand beside the d_k axis: (batch, time, head, d_k). Then the two become one.",
        "After a transpose, view refuses: the numbers do not lie in that order in memory. reshape copies if it must.",
        "x.transpose(1, 2).reshape(batch, time, num_heads * d_k).",
    ],
)


def merge_answer(subject, case):
    batch, heads, time, d_k = case["x"].shape
    return expect_floats(subject(case["x"]), (batch, time, heads * d_k))


@merging.property("the result is (batch, time, head · d_k)", points=1)
def merge_shape(subject, case):
    merge_answer(subject, case)


@merging.property("every time step holds what its heads hold", points=1)
def merge_keeps_tokens(subject, case):
    got = merge_answer(subject, case)
    want = case["x"].transpose(1, 2).flatten(2)
    same = is_close(got.sort(dim=-1).values, want.sort(dim=-1).values)
    expect(same, "A time step of the result holds numbers of another time step: tokens were mixed.")


@merging.property("merging what was split gives back the same tensor", points=1)
def merge_values(subject, case):
    merged = reference.merge_heads(case["x"])
    expect_close(subject(case["x"]), merged)
    split = reference.split_heads(merged, case["x"].shape[1])  # the same numbers, but not contiguous in memory
    expect_close(subject(split), merged, "the result for a tensor that is not contiguous")


@merging.property("the gradient comes back to every head", points=1)
def merge_gradient(subject, case):
    want = torch.zeros_like(case["x"])
    want[0, :, 1] = 1.0
    got = subject.gradient(case["x"], wrt=0, at=(0, 1))
    expect_close(got, want, "the gradient of time step 1 with respect to x")


@merging.misconception
def merges_by_reshape_alone(x):
    """A reshape alone scrambles tokens. The head axis has to stand beside the d_k axis before the two become one."""
    batch, num_heads, time, d_k = x.shape
    return x.reshape(batch, time, num_heads * d_k)


@merging.misconception
def averages_the_heads(x):
    """You average the heads. Their results stand side by side: head · d_k features."""
    batch, num_heads, time, d_k = x.shape
    return x.mean(dim=1)


@merging.misconception
def adds_the_heads_up(x):
    """You add the heads up. Their results stand side by side: head · d_k features."""
    batch, num_heads, time, d_k = x.shape
    return x.sum(dim=1)


@merging.misconception
def exchanges_time_and_features(x):
    """You exchange the last two axes. It is head and time that have to change places."""
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(2, 3)
    return x.reshape(batch, time, num_heads * d_k)


@merging.misconception
def interleaves_the_blocks(x):
    """You deal the heads' features out in turn. Each head's d_k features stay together as one block."""
    batch, num_heads, time, d_k = x.shape
    x = x.permute(0, 2, 3, 1)
    return x.reshape(batch, time, num_heads * d_k)


@merging.misconception
def leaves_four_axes(x):
    """Head and time have changed places, but the heads are still apart: head and d_k become one axis."""
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 2)
    return x


@merging.misconception
def puts_the_heads_one_after_another_in_time(x):
    """Your heads stand one after another along time. They stand side by side along the features."""
    batch, num_heads, time, d_k = x.shape
    return x.reshape(batch, num_heads * time, d_k)


@merging.misconception
def keeps_the_first_head_alone(x):
    """Only the first head's result is left. All heads' results stand side by side."""
    batch, num_heads, time, d_k = x.shape
    return x[:, 0]


@merging.misconception
def merges_the_heads_backwards(x):
    """Your heads stand in reverse order: head 0 owns the first block of features."""
    batch, num_heads, time, d_k = x.shape
    x = x.flip(1).transpose(1, 2)
    return x.reshape(batch, time, num_heads * d_k)


@merging.misconception
def views_what_is_not_contiguous(x):
    """After a transpose the numbers no longer lie in memory in the order of the axes, and `view` never copies. Use
    `reshape`, or `contiguous()` first.
    """
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 2)
    return x.view(batch, time, num_heads * d_k)


@merging.misconception
def takes_the_first_axis_for_the_heads(x):
    """You take the first axis for the heads and the second for the batch. It is (batch, head, time, d_k)."""
    batch, num_heads, time, d_k = x.shape
    x = x.permute(1, 2, 0, 3)
    return x.reshape(num_heads, time, batch * d_k)


@merging.misconception
def merges_without_gradient(x):
    """The numbers are right, but no gradient comes back through your result: it was detached or copied into a new
    tensor.
    """
    batch, num_heads, time, d_k = x.shape
    x = x.detach().transpose(1, 2)
    return x.reshape(batch, time, num_heads * d_k)


@merging.alternative
def with_flatten(x):
    return x.permute(0, 2, 1, 3).flatten(start_dim=2)


@merging.alternative
def with_contiguous_and_view(x):
    return x.transpose(1, 2).contiguous().view(x.size(0), -1, x.size(1) * x.size(3))


@merging.alternative
def by_concatenation(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@merging.alternative
def head_by_head(x):
    heads = []
    for i in range(x.shape[1]):
        heads.append(x[:, i])
    return torch.cat(heads, dim=2)


# --- multi_head_parameters ------------------------------------------------------------------------------

counting = Exercise(
    reference.multi_head_parameters,
    cases=[
        {"d_model": 6, "num_heads": 2, "bias": True},
        {"d_model": 20, "num_heads": 5, "bias": True},
        {"d_model": 256, "num_heads": 4, "bias": True},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "Count one head first: how many rows and columns has the matrix that makes its queries?",
        "One head: three matrices of d_model × d_k. Then all heads. Then W_O, which takes in all heads side by side.",
        "num_heads · d_k = d_model, so num_heads falls out. A bias has one number for each output of its map.",
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


def expect_count(subject, d_model, num_heads, bias):
    want = reference.multi_head_parameters(d_model, num_heads, bias)
    got = count_answer(subject, d_model, num_heads, bias)
    call = f"multi_head_parameters({d_model}, {num_heads}, {bias})"
    expect(got == want, f"{call} should be {want}, but it is {got}: {abs(got - want)} too {fewer(got, want)}.")


def fewer(got, want):
    return "few" if got < want else "many"


@counting.property("the result is a positive whole number", points=1)
def count_is_a_number(subject, case):
    count_answer(subject, **case)


@counting.property("one head with all features needs 4 matrices", points=1)
def count_one_head(subject, case):
    expect_count(subject, case["d_model"], 1, False)


@counting.property("more heads do not need more parameters", points=1)
def count_without_biases(subject, case):
    expect_count(subject, case["d_model"], case["num_heads"], False)


@counting.property("the biases are counted where there are some", points=1)
def count_with_biases(subject, case):
    expect_count(subject, **case)


@counting.misconception
def leaves_out_w_o(d_model, num_heads, bias):
    """W_O is missing: after the heads are put side by side, one more matrix mixes them."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = 0
    biases = 3 * num_heads * d_k if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def leaves_out_w_o_but_not_its_bias(d_model, num_heads, bias):
    """You count the bias of W_O but not its matrix."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = 0
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def gives_every_head_the_full_size(d_model, num_heads, bias):
    """You give every head full d_model × d_model matrices. Each head projects to d_k = d_model / num_heads features
    only.
    """
    d_k = d_model
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def full_size_heads_but_one_w_o(d_model, num_heads, bias):
    """You give every head full d_model × d_model matrices. Each head projects to d_k = d_model / num_heads features
    only.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_model
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def counts_one_head(d_model, num_heads, bias):
    """You count 3 · d_model · d_k for all heads together: that is one head. There are num_heads of them, and each
    reads all d_model features.
    """
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return one_head + output + biases


@counting.misconception
def counts_one_projection(d_model, num_heads, bias):
    """A head has three matrices: for its queries, its keys and its values. You count one."""
    d_k = d_model // num_heads
    one_head = d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def takes_w_o_for_one_heads_size(d_model, num_heads, bias):
    """Your W_O takes in d_k features. It takes in all heads side by side: num_heads · d_k."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def never_counts_biases(d_model, num_heads, bias):
    """The biases are missing: with bias=True each of the four maps adds one number to each of its outputs."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 0
    return num_heads * one_head + output + biases


@counting.misconception
def always_counts_biases(d_model, num_heads, bias):
    """You count the biases whether or not there are any."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model
    return num_heads * one_head + output + biases


@counting.misconception
def counts_the_output_bias_alone(d_model, num_heads, bias):
    """You count the bias of W_O alone. The projections for queries, keys and values have biases too."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def leaves_out_the_output_bias(d_model, num_heads, bias):
    """The bias of W_O is missing."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def counts_one_bias_a_map(d_model, num_heads, bias):
    """You count one number of bias for each map. A bias has one number for each output."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 4 if bias else 0
    return num_heads * one_head + output + biases


@counting.misconception
def counts_the_biases_of_one_head(d_model, num_heads, bias):
    """You count the biases of one head; each head has its own."""
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases


@counting.alternative
def in_one_line(d_model, num_heads, bias):
    return 4 * d_model * (d_model + bias)


@counting.alternative
def by_asking_torch(d_model, num_heads, bias):
    return sum(p.numel() for p in nn.MultiheadAttention(d_model, num_heads, bias=bias).parameters())


@counting.alternative
def by_building_the_layers(d_model, num_heads, bias):
    d_k = d_model // num_heads
    layers = [nn.Linear(d_model, d_k, bias=bias) for _ in range(3 * num_heads)]
    layers.append(nn.Linear(num_heads * d_k, d_model, bias=bias))
    return sum(math.prod(p.shape) for layer in layers for p in layer.parameters())


@counting.alternative
def as_a_float(d_model, num_heads, bias):
    total = 0.0
    for _ in "qkvo":
        total += d_model**2
        if bias:
            total += d_model
    return total


# --- MultiHeadAttention ---------------------------------------------------------------------------------


def partial_mask(*shape, seed):
    """A mask in which every query may see some keys and not others: then an inverted mask hides no row completely."""
    mask = random_mask(*shape, seed=seed)
    mask[..., -1] &= ~mask.all(dim=-1)
    return mask


attending = Exercise(
    reference.MultiHeadAttention,
    cases=[
        {
            "d_model": 10,
            "num_heads": 2,
            "dropout": 0.4,
            "query": normal(3, 4, 10, seed=11),
            "key": normal(3, 6, 10, seed=12),
            "value": normal(3, 6, 10, seed=13),
            "mask": partial_mask(3, 4, 6, seed=14),
        },
        {
            "d_model": 20,
            "num_heads": 5,
            "dropout": 0.3,
            "query": normal(2, 7, 20, seed=15),
            "key": normal(2, 7, 20, seed=15),
            "value": normal(2, 7, 20, seed=15),
            "mask": causal_mask(7) & ~causal_mask(7).tril(-4),  # only the last four positions
        },
        {
            "d_model": 24,
            "num_heads": 4,
            "dropout": 0.5,
            "query": normal(2, 5, 24, seed=16, scale=3),
            "key": normal(2, 3, 24, seed=17),
            "value": normal(2, 3, 24, seed=18),
            "mask": None,
        },
    ],
    minutes=20,
    difficulty=3,
    hints=[
        "Four steps: project each input and split it into heads; attend in all heads at once; merge; apply w_o.",
        "q comes from query through w_q, k from key through w_k, v from value through w_v. You have split_heads and "
        "merge_heads. What is d_k, once the heads are split?",
        "The scores are (batch, head, query, key). A mask (batch, query, key) needs an axis for the heads at place 1; "
        "a mask (query, key) fits as it is.",
        "Dropout is a module of its own: self.dropout = nn.Dropout(dropout) in __init__, and in forward, after the "
        "softmax, weights = self.dropout(weights). It knows by itself whether the model is training.",
        "q = split_heads(self.w_q(query), self.num_heads), and so on; scores = q @ k.transpose(-2, -1) / "
        "math.sqrt(d_k); weights = self.dropout(masked_softmax(scores, mask)); "
        "return self.w_o(merge_heads(weights @ v)), weights.",
    ],
)


def inputs_of(case):
    """What `forward` is called with. Without a mask, none is passed."""
    inputs = [case["query"], case["key"], case["value"]]
    return inputs if case["mask"] is None else [*inputs, case["mask"]]


@functools.cache
def numbers(d_model, num_heads):
    return AttentionWeights.random(d_model, num_heads, seed=num_heads)


def weights_of(case):
    return numbers(case["d_model"], case["num_heads"])


@functools.cache
def reference_module(d_model, num_heads):
    module = reference.MultiHeadAttention(d_model, num_heads).double().eval().requires_grad_(False)
    module.load_state_dict(numbers(d_model, num_heads).named())
    return module


RIGHT_ANSWERS: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def right_answer(case):
    """(output, weights) of the reference, with the numbers that the check uses."""
    known, answer = RIGHT_ANSWERS.get(id(case), (None, None))
    if known is not case:
        answer = reference_module(case["d_model"], case["num_heads"])(*inputs_of(case))
        RIGHT_ANSWERS[id(case)] = (case, answer)
    return answer


def built_with_weights(subject, case, must_be_known=True):
    built = subject.build(case["d_model"], case["num_heads"], case["dropout"])
    known = load_weights(built, weights_of(case), inputs_of(case), right_answer(case)[0])
    if must_be_known and not known:
        shapes = ", ".join(f"{name} {shape}" for name, shape in built.shapes().items())
        raise Failure(
            f"The check fills your parameters with its own numbers and does not know this way to keep them: {shapes}. "
            "Four nn.Linear(d_model, d_model) called w_q, w_k, w_v and w_o are always understood."
        )
    return built


def answer_of(built, case):
    output, weights = expect_tuple(built(*inputs_of(case)), ("output", "weights"))
    want_output, want_weights = right_answer(case)
    expect_floats(output, tuple(want_output.shape), "the output")
    expect_floats(weights, tuple(want_weights.shape), "the weights")
    return output, weights


@attending.property("output (batch, query, d_model) and weights (batch, head, query, key)", points=1)
def module_shapes(subject, case):
    answer_of(built_with_weights(subject, case, must_be_known=False), case)


@attending.property("four projections with biases: 4 · d_model² + 4 · d_model parameters", points=1)
def module_parameters(subject, case):
    built = subject.build(case["d_model"], case["num_heads"], case["dropout"])
    shapes = built.shapes()
    got = sum(math.prod(shape) for shape in shapes.values())
    want = reference.multi_head_parameters(case["d_model"], case["num_heads"], True)
    listing = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items()) or "none"
    expect(got == want, f"There should be {want} trainable numbers, but there are {got}. They are: {listing}.")


@attending.property("in each head, each query shares out 1 over the keys it may see", points=1)
def module_distributions(subject, case):
    _, weights = answer_of(built_with_weights(subject, case), case)
    if case["mask"] is not None:
        hidden = ~with_head_axis(case["mask"]).expand(weights.shape)
        largest = weights[hidden].abs().max()
        expect(largest < 1e-6, f"A key that the mask hides still gets weight {largest:.3g}.")
    sums = weights.sum(dim=-1)
    expect(weights.min() >= -1e-6, "There is a negative weight.")
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


@attending.property("the weights of head i are softmax(q_i k_iᵀ / √d_k)", points=2)
def module_weights(subject, case):
    _, weights = answer_of(built_with_weights(subject, case), case)
    expect_close(weights, right_answer(case)[1], "the weights")


@attending.property("the output is the heads' results side by side, through W_O", points=2)
def module_output(subject, case):
    built = built_with_weights(subject, case)
    output, _ = answer_of(built, case)
    expect_close(output, right_answer(case)[0], "the output")
    # However the parameters are packed, the sum of all squared slopes is the same.
    slopes = built.parameter_gradients(*inputs_of(case))
    got = sum(float((slope**2).sum()) for slope in slopes.values())
    built.trace.append(Event("squared gradient", got))
    expect(
        abs(got / squared_gradient(case) - 1) < 1e-3 or built.changed_inputs,
        "The output is right, but its gradient does not come back to all parameters as it should: is something "
        "detached (.detach(), .data, torch.no_grad, a new torch.tensor) on the way?",
    )


def squared_gradient(case):
    module = copy.deepcopy(reference_module(case["d_model"], case["num_heads"])).requires_grad_()
    (module(*inputs_of(case))[0] ** 2).sum().backward()
    return sum(float((p.grad**2).sum()) for p in module.parameters())


@attending.property("dropout falls on the weights, and in training alone", points=1)
def module_dropout(subject, case):
    built = built_with_weights(subject, case)
    answer_of(built, case)
    built.train()
    # Where chance strikes differs between right answers, so the answers leave no trace: what they show does.
    with built.unobserved():
        changes = not is_close(first_of(built(*inputs_of(case))), right_answer(case)[0])
        one_key = [case["query"], case["key"][:, :1], case["value"][:, :1]]
        outcome = what_is_dropped(first_of(built(*one_key)), case)
    built.trace.append(Event("dropout", (changes, outcome)))
    messages = {
        "nothing": f"With dropout {case['dropout']} the module answers in training as it does in evaluation."
        if not changes
        else "Something is dropped in training, but not the weights: with one single key its weight is never dropped.",
        "not rescaled": "In training weights are dropped, but those that are left are not divided by 1 - dropout.",
        "something else": "Something is dropped in training, but the output is not what comes of dropped weights: "
        "softmax first, then dropout on the weights, then the weighted sum, and nothing is dropped after that.",
    }
    expect(outcome == "weights", messages.get(outcome, messages["something else"]))


def first_of(answer):
    output = answer[0] if isinstance(answer, tuple | list) and answer else answer
    return expect_tensor(output, what="the output")


def what_is_dropped(output, case):
    """With a single key every weight is 1: under dropout each head's part is whole or missing, nothing in between."""
    module = reference_module(case["d_model"], case["num_heads"])
    with torch.no_grad():
        parts = split_heads(module.w_v(case["value"][:, :1]), case["num_heads"])  # (batch, head, 1, d_k)
        columns = module.w_o.weight.unflatten(1, (case["num_heads"], -1))  # (d_model, head, d_k)
        parts = torch.einsum("bhtd,mhd->bhtm", parts, columns)  # what each head adds to the output
        rows = output.double()
        whole = parts.sum(dim=1) + module.w_o.bias
        if output.shape != case["query"].shape:
            return "something else"
        if is_close(rows, whole.expand_as(rows)):
            return "nothing"
        for name, factor in (("weights", 1 / (1 - case["dropout"])), ("not rescaled", 1.0)):
            possible = torch.zeros(rows.shape[:2], dtype=torch.bool)
            for kept in product((0.0, factor), repeat=case["num_heads"]):
                want = torch.einsum("h,bhtm->btm", torch.tensor(kept, dtype=torch.float64), parts) + module.w_o.bias
                possible |= ((rows - want).abs() < 1e-4).all(dim=-1)
            if possible.all():
                return name
    return "zeros in the output" if bool((output == 0).any()) else "something else"


def cut_by_reshape(x, num_heads):
    batch, time, d_model = x.shape
    return x.reshape(batch, num_heads, time, d_model // num_heads)


def cut_interleaved(x, num_heads):
    batch, time, d_model = x.shape
    return x.reshape(batch, time, d_model // num_heads, num_heads).permute(0, 3, 1, 2)


def glue_by_reshape(x):
    batch, num_heads, time, d_k = x.shape
    return x.reshape(batch, time, num_heads * d_k)


@attending.misconception
class SplitsByReshapeAlone(nn.Module):
    """You cut the heads out with a reshape alone, so each head holds pieces of several tokens. First give each
    token its heads, then exchange the time axis and the head axis.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = cut_by_reshape(self.w_q(query), self.num_heads)
        k = cut_by_reshape(self.w_k(key), self.num_heads)
        v = cut_by_reshape(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class InterleavesTheHeads(nn.Module):
    """Your head i takes every num_heads-th feature. It should own a block of neighbours: outputs i·d_k to (i+1)·d_k
    - 1 of each projection.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = cut_interleaved(self.w_q(query), self.num_heads)
        k = cut_interleaved(self.w_k(key), self.num_heads)
        v = cut_interleaved(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class MergesWithoutTranspose(nn.Module):
    """You merge the heads with a reshape alone, which scrambles the tokens. The head axis has to stand beside the
    d_k axis before the two become one.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(glue_by_reshape(heads)), weights


@attending.misconception
class ForgetsTheOutputProjection(nn.Module):
    """W_O exists but is never applied: the heads' results stand side by side and are never mixed."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return merge_heads(heads), weights


@attending.misconception
class HasNoOutputProjection(nn.Module):
    """There is no W_O: after the merge, one more learned map mixes the heads."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return merge_heads(heads), weights


@attending.misconception
class HasNoBiases(nn.Module):
    """Your projections have no biases. Each of the four maps is a Linear with its bias here."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class IgnoresNumHeads(nn.Module):
    """num_heads is never used: this is attention with one large head."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = 1
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class TakesNumHeadsForTheHeadSize(nn.Module):
    """You use num_heads as the size of a head. It is how many heads there are; each has size d_model / num_heads."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class ReadsKeysAndValuesFromTheQuery(nn.Module):
    """You project keys and values from the query's input, so cross-attention never sees the other sequence."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(query), self.num_heads)
        v = split_heads(self.w_v(query), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class ReadsValuesFromTheKey(nn.Module):
    """You project the values from the key's input. They have an input of their own: `value`."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(key), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class UsesTheQueryLengthForTheKeys(nn.Module):
    """You reshape the keys and values with the query's length. In cross-attention the two lengths differ: each
    tensor has its own.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = self.w_k(key).reshape(len(query), query.shape[1], self.num_heads, q.shape[-1]).transpose(1, 2)
        v = self.w_v(value).reshape(len(query), query.shape[1], self.num_heads, q.shape[-1]).transpose(1, 2)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class UsesTheKeyLengthForTheQuery(nn.Module):
    """You reshape the query with the key's length. In cross-attention the two lengths differ: each tensor has its
    own.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = (
            self.w_q(query)
            .reshape(len(query), key.shape[1], self.num_heads, self.w_q.out_features // self.num_heads)
            .transpose(1, 2)
        )
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class SharesOneProjection(nn.Module):
    """One and the same matrix makes your queries, keys and values. Each needs its own: asking, being found and
    being read are three things.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_q(key), self.num_heads)
        v = split_heads(self.w_q(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class SharesKeyAndValueProjection(nn.Module):
    """Your values go through the key's projection. w_v has its own work: what is read need not be what is searched."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_k(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class ScalesByTheModelSize(nn.Module):
    """You divide the scores by √d_model. Each dot product has only d_k terms, so √d_k of the head is right."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class ForgetsTheScale(nn.Module):
    """The scores are not divided by √d_k."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class DividesByTheHeadSize(nn.Module):
    """You divide the scores by d_k; its square root is wanted."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / d_k
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class IgnoresTheMask(nn.Module):
    """The mask is accepted but never used: every key is visible."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = scores.softmax(dim=-1)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class InvertsTheMask(nn.Module):
    """You hide exactly the keys that are allowed. True means: attention is allowed here."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, ~mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class MasksAfterTheSoftmax(nn.Module):
    """You multiply by the mask after the softmax, so the rest no longer sums to 1. Hide the scores before it."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = scores.softmax(dim=-1) * mask
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class FillsWithZero(nn.Module):
    """You set hidden scores to 0, but exp(0) = 1 is no small weight. A hidden score has to be very negative."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = (scores * mask).softmax(dim=-1)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class ForgetsTheHeadAxisOfTheMask(nn.Module):
    """A mask (batch, query, key) meets scores (batch, head, query, key): without an axis for the heads its batch
    axis lands on the heads.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class TakesEveryMaskForABatch(nn.Module):
    """You insert the head axis into every mask. A (query, key) mask has no batch axis, so its query axis lands on
    the batch; only a (batch, query, key) mask needs the new axis.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask.unsqueeze(1)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class RepeatsTheMaskInTheWrongOrder(nn.Module):
    """You repeat the mask head by head over a tensor that is ordered sample by sample, so a sample gets another
    sample's mask.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask.repeat(self.num_heads, 1, 1).reshape(scores.shape) if mask.dim() == 3 else mask
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class NormalisesOverTheQueries(nn.Module):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-2)
        else:
            mask = with_head_axis(mask)
            weights = scores.masked_fill(~mask, -1e9).softmax(dim=-2)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class NormalisesOverTheHeads(nn.Module):
    """Your softmax runs over the heads. In each head, each query shares out its attention over the keys: the last
    axis.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=1)
        else:
            mask = with_head_axis(mask)
            weights = scores.masked_fill(~mask, -1e9).softmax(dim=1)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class AveragesTheWeights(nn.Module):
    """You return the mean of the heads' weights. Each head has its own map: (batch, head, query, key)."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights.mean(dim=1)


@attending.misconception
class ReturnsTheScores(nn.Module):
    """The second result should be the weights, after the softmax; you return the raw scores."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), scores


@attending.misconception
class ReturnsTheOutputAlone(nn.Module):
    """Only the output comes back. Return the weights too: (output, weights)."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(merge_heads(heads))


@attending.misconception
class ReturnsTheWeightsFirst(nn.Module):
    """The two results stand in the wrong order: the output comes first, the weights second."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return weights, self.w_o(merge_heads(heads))


@attending.misconception
class AddsTheInput(nn.Module):
    """You add the query's input to the output. The residual connection belongs to the layer around attention, not
    to attention itself.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return query + self.w_o(merge_heads(heads)), weights


@attending.misconception
class DropsInEvaluation(nn.Module):
    """Dropout stays on in evaluation, so the same input gives random answers. F.dropout has to be told
    `training=self.training`; nn.Dropout knows by itself.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        weights = F.dropout(weights, self.dropout.p)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class NeverDrops(nn.Module):
    """The dropout argument is accepted but nothing is ever dropped in training."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


@attending.misconception
class DropsTheOutput(nn.Module):
    """You drop entries of the output. Here dropout falls on the weights: some looks at keys are left out."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        heads = weights @ v
        return self.dropout(self.w_o(merge_heads(heads))), weights


@attending.misconception
class DropsTheScores(nn.Module):
    """You drop scores before the softmax. A dropped score is 0 there, which is no small weight; dropout falls on
    the weights after it.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
        scores = self.dropout(scores)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = with_head_axis(mask)
            weights = masked_softmax(scores, mask)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), weights


class Scaffold(nn.Module):
    """What the alternatives below have in common: attention of heads that are already split."""

    def attend(self, q, k, v, mask, dropout):
        scores = torch.matmul(q, k.transpose(2, 3)) * q.size(-1) ** -0.5
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 3 else mask[None, None]
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.dropout(torch.softmax(scores, dim=-1), dropout, training=self.training)
        return torch.matmul(weights, v), weights


@attending.alternative
class OnePackedLinear(Scaffold):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.d_model, self.p = num_heads, d_model, dropout
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        weight, bias = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
        inputs = zip((query, key, value), weight, bias)
        q, k, v = (F.linear(x, w, b).unflatten(-1, (self.h, -1)).transpose(1, 2) for x, w, b in inputs)
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.proj(heads.transpose(1, 2).flatten(2)), weights


@attending.alternative
class PackedHeadByHead(Scaffold):
    """All three projections of head 0 first, then those of head 1, …"""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        split = [self.c_attn(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (query, key, value)]
        q, k, v = (x.chunk(3, dim=-1)[i] for i, x in enumerate(split))
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.c_proj(heads.transpose(1, 2).flatten(2)), weights


@attending.alternative
class PackedFeatureByFeature(Scaffold):
    """One Linear whose outputs are ordered (d_k, role, head)."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_0 = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        split = [self.to_qkv(x).unflatten(-1, (-1, 3, self.h)).permute(3, 0, 4, 1, 2) for x in (query, key, value)]
        q, k, v = (x[i] for i, x in enumerate(split))
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.w_0(heads.transpose(1, 2).flatten(2)), weights


@attending.alternative
class QueryAndKeyValue(Scaffold):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.to_q = nn.Linear(d_model, d_model)
        self.to_kv = nn.Linear(d_model, 2 * d_model)
        self.to_out = nn.Sequential(nn.Linear(d_model, d_model))

    def forward(self, query, key, value, mask=None):
        k, v = self.to_kv(key).chunk(2, dim=-1)[0], self.to_kv(value).chunk(2, dim=-1)[1]
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (self.to_q(query), k, v))
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.to_out(heads.transpose(1, 2).flatten(2)), weights


@attending.alternative
class OneModuleAHead(nn.Module):
    class Head(nn.Module):
        def __init__(self, d_model, d_k, dropout):
            super().__init__()
            self.value = nn.Linear(d_model, d_k)
            self.key = nn.Linear(d_model, d_k)
            self.query = nn.Linear(d_model, d_k)
            self.dropout = nn.Dropout(dropout)

        def forward(self, query, key, value, mask):
            q, k, v = self.query(query), self.key(key), self.value(value)
            scores = q @ k.mT / math.sqrt(k.shape[-1])
            if mask is not None:
                scores = scores.masked_fill(mask.logical_not(), -math.inf)
            weights = self.dropout(scores.softmax(-1))
            return weights @ v, weights

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.heads = nn.ModuleList([self.Head(d_model, d_model // num_heads, dropout) for _ in range(num_heads)])
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        results = [head(query, key, value, mask) for head in self.heads]
        output = self.proj(torch.cat([output for output, _ in results], dim=-1))
        return output, torch.stack([weights for _, weights in results], dim=1)


@attending.alternative
class ThreeListsOfLinears(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size = d_model // num_heads
        self.output_layer = nn.Linear(d_model, d_model)
        self.Wq = nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads))
        self.Wk = nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads))
        self.Wv = nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads))
        self.drop = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        outputs, maps = [], []
        for to_q, to_k, to_v in zip(self.Wq, self.Wk, self.Wv):
            scores = torch.einsum("bqd,bkd->bqk", to_q(query), to_k(key)) / to_q.out_features**0.5
            if mask is not None:
                scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
            maps.append(self.drop(F.softmax(scores, dim=2)))
            outputs.append(torch.bmm(maps[-1], to_v(value)))
        return self.output_layer(torch.cat(outputs, dim=2)), torch.stack(maps, dim=1)


@attending.alternative
class TensorsForEinsum(Scaffold):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        d_k = d_model // num_heads
        self.p = dropout
        self.w_q = nn.Parameter(torch.randn(num_heads, d_model, d_k) * 0.02)
        self.w_k = nn.Parameter(torch.randn(num_heads, d_model, d_k) * 0.02)
        self.w_v = nn.Parameter(torch.randn(num_heads, d_model, d_k) * 0.02)
        self.w_o = nn.Parameter(torch.randn(num_heads, d_k, d_model) * 0.02)
        self.b_q = nn.Parameter(torch.zeros(num_heads, 1, d_k))
        self.b_k = nn.Parameter(torch.zeros(num_heads, 1, d_k))
        self.b_v = nn.Parameter(torch.zeros(num_heads, 1, d_k))
        self.b_o = nn.Parameter(torch.zeros(d_model))

    def forward(self, query, key, value, mask=None):
        q = torch.einsum("btm,hmd->bhtd", query, self.w_q) + self.b_q
        k = torch.einsum("btm,hmd->bhtd", key, self.w_k) + self.b_k
        v = torch.einsum("btm,hmd->bhtd", value, self.w_v) + self.b_v
        heads, weights = self.attend(q, k, v, mask, self.p)
        return torch.einsum("bhtd,hdm->btm", heads, self.w_o) + self.b_o, weights


@attending.alternative
class PlainMatrices(Scaffold):
    """Parameters used as x @ W, and one tensor for q, k and v."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.p = dropout
        self.W = nn.Parameter(torch.randn(3, d_model, num_heads, d_model // num_heads))
        self.b = nn.Parameter(torch.zeros(3, num_heads, 1, d_model // num_heads))
        self.W_out = nn.Parameter(torch.randn(d_model, d_model))
        self.b_out = nn.Parameter(torch.zeros(1, 1, d_model))

    def forward(self, query, key, value, mask=None):
        inputs = zip((query, key, value), self.W, self.b)
        q, k, v = (torch.einsum("btm,mhd->bhtd", x, w) + b for x, w, b in inputs)
        heads, weights = self.attend(q, k, v, mask, self.p)
        return heads.transpose(1, 2).flatten(2) @ self.W_out + self.b_out, weights


@attending.alternative
class WithTheFusedOperator(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.p = num_heads, dropout
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        split = [
            f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f, x in zip(self.linears, (query, key, value))
        ]
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        p = self.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(*split, attn_mask=mask, dropout_p=p)
        scores = split[0] @ split[1].mT / split[0].shape[-1] ** 0.5
        weights = scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.linears[-1](heads.transpose(1, 2).flatten(2)), weights


@attending.alternative
class AroundTorchsOwn(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.heads = num_heads
        self.attention = nn.MultiheadAttention(d_model, num_heads, dropout, batch_first=True)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = ~mask  # True hides, there
            if mask.dim() == 3:
                mask = mask.repeat_interleave(self.heads, dim=0)
        return self.attention(query, key, value, attn_mask=mask, average_attn_weights=False)


@attending.alternative
class FoldedIntoTheBatch(nn.Module):
    def __init__(self, k, heads, dropout=0.0):
        super().__init__()
        self.k, self.heads = k, heads
        self.tokeys = nn.Linear(k, k)
        self.toqueries = nn.Linear(k, k)
        self.tovalues = nn.Linear(k, k)
        self.unifyheads = nn.Linear(k, k)
        self.drop = nn.Dropout(dropout)

    def fold(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, -1).transpose(1, 2).contiguous().view(b * self.heads, t, -1)

    def forward(self, query, key, value, mask=None):
        queries = self.fold(self.toqueries(query)) / (self.k // self.heads) ** 0.25
        keys = self.fold(self.tokeys(key)) / (self.k // self.heads) ** 0.25
        dot = torch.bmm(queries, keys.transpose(1, 2))
        if mask is not None:
            dot.masked_fill_(~(mask if mask.dim() == 2 else mask.repeat_interleave(self.heads, dim=0)), -1e4)
        dot = self.drop(dot.softmax(dim=2))
        out = torch.bmm(dot, self.fold(self.tovalues(value)))
        b, t, k = query.shape
        out = out.view(b, self.heads, t, -1).transpose(1, 2).contiguous().view(b, t, k)
        return self.unifyheads(out), dot.view(b, self.heads, t, -1)


# --- multi_head_einsum ----------------------------------------------------------------------------------


def matrices(d_model, seed):
    return {
        name: normal(d_model, d_model, seed=seed + i, scale=0.5) for i, name in enumerate(("w_q", "w_k", "w_v", "w_o"))
    }


einsumming = Exercise(
    reference.multi_head_einsum,
    cases=[
        {"x": normal(2, 3, 8, seed=20), **matrices(8, 21), "num_heads": 2},
        {"x": normal(3, 5, 12, seed=30), **matrices(12, 31), "num_heads": 4},
        {"x": normal(2, 6, 10, seed=40, scale=2), **matrices(10, 41), "num_heads": 5},
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Give each axis a letter: b batch, t query, s key, m feature of the model, h head, d feature of a head.",
        "Cut the columns of w_q into heads: w_q.reshape(d_model, num_heads, d_k) has axes m h d. Then q is "
        'einsum("btm,mhd->bhtd", x, w_q).',
        'The scores keep b and h, sum over d and run over t and s: "bhtd,bhsd->bhts". The rows of w_o belong to the '
        "heads: w_o.reshape(num_heads, d_k, d_model) has axes h d m.",
        'The last line can merge the heads and apply w_o at once: einsum("bhtd,hdm->btm", heads, w_o). Any way to the '
        "same numbers is accepted: split_heads(x @ w_q, num_heads) is one.",
    ],
)


@einsumming.property("the result is (batch, time, d_model)", points=1)
def einsum_shape(subject, case):
    expect_floats(subject(*case.values()), tuple(case["x"].shape))


@einsumming.property("with one head it is softmax(Q Kᵀ / √d_model) V W_O", points=1)
def einsum_one_head(subject, case):
    single = {**case, "num_heads": 1}
    expect_close(subject(*single.values()), reference.multi_head_einsum(**single), "the result for num_heads = 1")


@einsumming.property("reordering the tokens reorders the result and changes nothing else", points=1)
def einsum_equivariance(subject, case):
    straight = expect_floats(subject(*case.values()), tuple(case["x"].shape))
    backwards = subject(*{**case, "x": case["x"].flip(1)}.values())
    expect_close(backwards, straight.flip(1), "the result for x in reverse order (wanted: your result for x, reversed)")


@einsumming.property("head i uses its own columns of w_q, w_k, w_v and its own rows of w_o", points=2)
def einsum_values(subject, case):
    expect_close(subject(*case.values()), reference.multi_head_einsum(**case))


def block_diagonal(w, num_heads):
    """The blocks on the diagonal: (head, d_k, d_k)."""
    d_k = len(w) // num_heads
    return torch.stack([w[i * d_k : (i + 1) * d_k, i * d_k : (i + 1) * d_k] for i in range(num_heads)])


@einsumming.misconception
def splits_x_before_projecting(x, w_q, w_k, w_v, w_o, num_heads):
    """You cut x into heads and project each piece with a block of the matrix. Each head reads all features of x:
    project first, cut afterwards.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    x_heads = x.reshape(*x.shape[:2], num_heads, d_k)
    w_q = block_diagonal(w_q, num_heads)
    w_k = block_diagonal(w_k, num_heads)
    w_v = block_diagonal(w_v, num_heads)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("bthm,hmd->bhtd", x_heads, w_q)
    k = torch.einsum("bshm,hmd->bhsd", x_heads, w_k)
    v = torch.einsum("bshm,hmd->bhsd", x_heads, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def takes_the_heads_from_the_rows(x, w_q, w_k, w_v, w_o, num_heads):
    """Your head i owns rows of w_q, w_k and w_v. Rows belong to the input features; a head owns a block of columns."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(num_heads, d_k, d_model)
    w_k = w_k.reshape(num_heads, d_k, d_model)
    w_v = w_v.reshape(num_heads, d_k, d_model)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,hdm->bhtd", x, w_q)
    k = torch.einsum("bsm,hdm->bhsd", x, w_k)
    v = torch.einsum("bsm,hdm->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def cuts_the_columns_wrongly(x, w_q, w_k, w_v, w_o, num_heads):
    """You reshape (d_model, d_model) straight into (head, d_model, d_k), which cuts each row into pieces of
    different heads. The columns split into (head, d_k); the rows stay.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(num_heads, d_model, d_k)
    w_k = w_k.reshape(num_heads, d_model, d_k)
    w_v = w_v.reshape(num_heads, d_model, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,hmd->bhtd", x, w_q)
    k = torch.einsum("bsm,hmd->bhsd", x, w_k)
    v = torch.einsum("bsm,hmd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def interleaves_the_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """Your head i takes every num_heads-th column. It should own a block of neighbouring columns."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_k = w_k.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_v = w_v.reshape(d_model, d_k, num_heads).transpose(1, 2)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def transposes_the_matrices(x, w_q, w_k, w_v, w_o, num_heads):
    """You use the matrices as nn.Linear stores them (out, in). Here they are used as x @ w, without a transpose."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.T.reshape(d_model, num_heads, d_k)
    w_k = w_k.T.reshape(d_model, num_heads, d_k)
    w_v = w_v.T.reshape(d_model, num_heads, d_k)
    w_o = w_o.T.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def cuts_w_o_into_columns(x, w_q, w_k, w_v, w_o, num_heads):
    """You share out the columns of w_o over the heads. The heads' results come in at its rows."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.T.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def merges_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    """You merge the heads with a reshape alone, which scrambles the tokens. The head axis has to stand beside the
    d_k axis before the two become one.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return heads.reshape(x.shape) @ w_o.reshape(d_model, d_model)


@einsumming.misconception
def splits_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    """You cut the heads out with a reshape alone, so each head holds pieces of several tokens. First give each
    token its heads, then exchange the time axis and the head axis.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bthd", x, w_q).reshape(len(x), num_heads, -1, d_k)
    k = torch.einsum("bsm,mhd->bshd", x, w_k).reshape(len(x), num_heads, -1, d_k)
    v = torch.einsum("bsm,mhd->bshd", x, w_v).reshape(len(x), num_heads, -1, d_k)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def forgets_w_o(x, w_q, w_k, w_v, w_o, num_heads):
    """w_o is never used: the heads' results stand side by side and are never mixed."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return heads.transpose(1, 2).reshape(x.shape)


@einsumming.misconception
def ignores_num_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """num_heads is never used: this is attention with one large head."""
    d_model = x.shape[-1]
    num_heads, d_k = 1, d_model
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def adds_up_the_scores_of_all_heads(x, w_q, w_k, w_v, w_o, num_heads):
    """The head axis is missing from your scores, so the heads' scores are added up and all heads look at the same
    place.
    """
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bts", q, k).unsqueeze(1).expand(-1, num_heads, -1, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def reads_the_value_of_the_query(x, w_q, w_k, w_v, w_o, num_heads):
    """In your last sum the values carry the query's index, so each token just gets its own value back."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhtd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def scales_by_d_model(x, w_q, w_k, w_v, w_o, num_heads):
    """You divide the scores by √d_model. Each dot product has only d_k terms, so √d_k of the head is right."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_model)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def leaves_out_the_scale(x, w_q, w_k, w_v, w_o, num_heads):
    """The scores are not divided by √d_k."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def softmax_over_the_queries(x, w_q, w_k, w_v, w_o, num_heads):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.misconception
def exchanges_query_and_key(x, w_q, w_k, w_v, w_o, num_heads):
    """Query and key have changed places: the scores are transposed."""
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q = w_q.reshape(d_model, num_heads, d_k)
    w_k = w_k.reshape(d_model, num_heads, d_k)
    w_v = w_v.reshape(d_model, num_heads, d_k)
    w_o = w_o.reshape(num_heads, d_k, d_model)
    q = torch.einsum("btm,mhd->bhtd", x, w_q)
    k = torch.einsum("bsm,mhd->bhsd", x, w_k)
    v = torch.einsum("bsm,mhd->bhsd", x, w_v)
    scores = torch.einsum("bhtd,bhsd->bhts", k, q) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o)


@einsumming.alternative
def by_splitting_and_merging(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (split_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1)
    return merge_heads(weights @ v) @ w_o


@einsumming.alternative
def one_head_after_the_other(x, w_q, w_k, w_v, w_o, num_heads):
    d_k = x.shape[-1] // num_heads
    output = torch.zeros_like(x)
    for i in range(num_heads):
        own = slice(i * d_k, (i + 1) * d_k)
        weights = ((x @ w_q[:, own]) @ (x @ w_k[:, own]).mT / math.sqrt(d_k)).softmax(-1)
        output = output + weights @ (x @ w_v[:, own]) @ w_o[own]
    return output


@einsumming.alternative
def in_two_einsums(x, w_q, w_k, w_v, w_o, num_heads):
    w_q, w_k, w_v = (w.unflatten(1, (num_heads, -1)) for w in (w_q, w_k, w_v))
    scores = torch.einsum("btm,mhd,nhd,bsn->bhts", x, w_q, w_k, x) * w_q.shape[-1] ** -0.5
    values = torch.einsum("bsm,mhd,hdn->bhsn", x, w_v, w_o.unflatten(0, (num_heads, -1)))
    return (scores.softmax(-1) @ values).sum(dim=1)


@einsumming.alternative
def with_scaled_dot_product_attention(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (torch.stack((x @ w).chunk(num_heads, dim=-1), dim=1) for w in (w_q, w_k, w_v))
    return torch.cat(F.scaled_dot_product_attention(q, k, v).unbind(1), dim=-1) @ w_o


@einsumming.alternative
def with_torchs_functional_form(x, w_q, w_k, w_v, w_o, num_heads):
    packed = torch.cat([w_q.T, w_k.T, w_v.T])
    output, _ = F.multi_head_attention_forward(
        *[x.transpose(0, 1)] * 3,
        x.shape[-1],
        num_heads,
        packed,
        None,
        None,
        None,
        False,
        0.0,
        w_o.T,
        None,
        training=False,
    )
    return output.transpose(0, 1)


# --- grouped_query_attention ----------------------------------------------------------------------------

grouping = Exercise(
    reference.grouped_query_attention,
    cases=[
        {"q": normal(1, 4, 2, 3, seed=50), "k": normal(1, 2, 3, 3, seed=51), "v": normal(1, 2, 3, 2, seed=52)},
        {"q": normal(2, 6, 4, 5, seed=53), "k": normal(2, 2, 7, 5, seed=54), "v": normal(2, 2, 7, 8, seed=55)},
        {"q": normal(3, 8, 5, 2, seed=56, scale=3), "k": normal(3, 4, 6, 2, seed=57), "v": normal(3, 4, 6, 7, seed=58)},
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "With 4 query heads and 2 groups, heads 0 and 1 read group 0, heads 2 and 3 read group 1. Which number says "
        "how many heads share?",
        "The simplest way: make k and v as wide as q by repeating each group, then attend as always.",
        "torch.repeat_interleave repeats each entry in place (0, 0, 1, 1); repeat lays copies end to end (0, 1, 0, 1).",
        "k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1), the same for v, and then attention as always.",
    ],
)


def grouped_answer(subject, case):
    output, weights = expect_tuple(subject(*case.values()), ("output", "weights"))
    batch, heads, time, _ = case["q"].shape
    expect_floats(output, (batch, heads, time, case["v"].shape[-1]), "the output")
    expect_floats(weights, (batch, heads, time, case["k"].shape[2]), "the weights")
    return output, weights


@grouping.property("output (batch, head, query, d_v) and weights (batch, head, query, key)", points=1)
def grouped_shapes(subject, case):
    grouped_answer(subject, case)


@grouping.property("each row of the weights is a probability distribution", points=1)
def grouped_rows(subject, case):
    _, weights = grouped_answer(subject, case)
    sums = weights.sum(dim=-1)
    expect(weights.min() >= -1e-6, "There is a negative weight.")
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


@grouping.property("with one group, all heads share it; with as many as heads, each has its own", points=1)
def grouped_extremes(subject, case):
    heads = case["q"].shape[1]
    for groups in (1, heads):
        k, v = (case[name][:, :1].repeat(1, groups, 1, 1) for name in "kv")
        k = k * torch.linspace(1, 2, groups, dtype=k.dtype)[:, None, None]
        output, _ = expect_tuple(subject(case["q"], k, v), ("output", "weights"))
        want, _ = reference.grouped_query_attention(case["q"], k, v)
        expect_close(output, want, f"the output of {heads} heads over {groups} group{'s'[: groups - 1]}")


@grouping.property("query head h reads group h // (head / group), and no other", points=1)
def grouped_sharing(subject, case):
    heads, groups = case["q"].shape[1], case["k"].shape[1]
    for position, name in ((1, "keys"), (2, "values")):
        for head in {0, 1, heads - 1}:
            gradient = subject.gradient(*case.values(), wrt=position, at=(slice(None), head, 0, 0))
            read = gradient.abs().sum(dim=(0, 2, 3)).nonzero().flatten().tolist()
            right = head // (heads // groups)
            expect(
                read == [right],
                f"With {heads} heads and {groups} groups, head {head} should read the {name} of group {right} alone, "
                f"but it reads those of {read or 'no group'}.",
            )


@grouping.property("output and weights are those of scaled dot-product attention", points=2)
def grouped_values(subject, case):
    output, weights = grouped_answer(subject, case)
    want_output, want_weights = reference.grouped_query_attention(**case)
    expect_close(weights, want_weights, "the weights")
    expect_close(output, want_output, "the output")


@grouping.misconception
def tiles_the_groups(q, k, v):
    """You repeat the groups as 0, 1, 0, 1, … so that head h reads group h mod G. Neighbouring heads share a group:
    0, 0, 1, 1, …
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat(1, sharing, 1, 1)
    v = v.repeat(1, sharing, 1, 1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def tiles_the_keys_alone(q, k, v):
    """The keys are repeated as 0, 1, 0, 1, …, the values as 0, 0, 1, 1, …: a head searches in one group and reads
    from another.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat(1, sharing, 1, 1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def tiles_the_values_alone(q, k, v):
    """The values are repeated as 0, 1, 0, 1, …, the keys as 0, 0, 1, 1, …: a head searches in one group and reads
    from another.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat(1, sharing, 1, 1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def does_not_share(q, k, v):
    """q has more heads than k and v have groups: each group has to serve several query heads."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def repeats_the_positions(q, k, v):
    """You repeat along the key positions. It is the groups, on axis 1, that have to serve several heads."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=2)
    v = v.repeat_interleave(sharing, dim=2)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def reads_the_first_group_alone(q, k, v):
    """All your heads read group 0. That is right only if there is one group."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k[:, :1]
    v = v[:, :1]
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def averages_the_groups(q, k, v):
    """You average keys and values over the groups. Each head reads one group, and the groups stay apart."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.mean(dim=1, keepdim=True)
    v = v.mean(dim=1, keepdim=True)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def averages_the_queries(q, k, v):
    """You average the query heads of a group. Each query head keeps its own weights; only keys and values are
    shared.
    """
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    q = q.unflatten(1, (num_groups, sharing)).mean(dim=2)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def drops_query_heads(q, k, v):
    """You keep as many query heads as there are groups. All query heads stay; several of them share a group."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    q = q[:, ::sharing]
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def reads_the_groups_backwards(q, k, v):
    """Your heads read the groups from the last to the first."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.flip(1).repeat_interleave(sharing, dim=1)
    v = v.flip(1).repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def forgets_to_scale(q, k, v):
    """The scores are not divided by √d_k."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def scales_by_all_heads(q, k, v):
    """You divide by √(head · d_k). Each dot product has d_k terms."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(num_heads * d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@grouping.misconception
def shares_out_over_the_queries(q, k, v):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    return weights @ v, weights


@grouping.misconception
def returns_output_alone(q, k, v):
    """Only the output comes back. Return the weights too: (output, weights)."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights @ v


@grouping.misconception
def weights_come_first(q, k, v):
    """The two results stand in the wrong order: the output comes first, the weights second."""
    num_heads, num_groups = q.shape[1], k.shape[1]
    if num_heads % num_groups:
        raise ValueError(f"{num_heads} query heads cannot share {num_groups} key heads evenly.")
    sharing = num_heads // num_groups
    k = k.repeat_interleave(sharing, dim=1)
    v = v.repeat_interleave(sharing, dim=1)
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return weights, weights @ v


@grouping.alternative
def by_broadcasting(q, k, v):
    grouped = q.unflatten(1, (k.shape[1], -1))  # (batch, group, sharing, query, d_k)
    weights = (grouped @ k.unsqueeze(2).mT / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights @ v.unsqueeze(2)).flatten(1, 2), weights.flatten(1, 2)


@grouping.alternative
def by_expanding(q, k, v):
    sharing = q.size(1) // k.size(1)
    k, v = (x[:, :, None].expand(-1, -1, sharing, -1, -1).reshape(x.size(0), -1, *x.shape[2:]) for x in (k, v))
    weights = F.softmax(q.matmul(k.mT) * q.size(-1) ** -0.5, dim=-1)
    return weights.matmul(v), weights


@grouping.alternative
def head_after_head(q, k, v):
    sharing = q.shape[1] // k.shape[1]
    results = []
    for h in range(q.shape[1]):
        weights = torch.softmax(q[:, h] @ k[:, h // sharing].transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
        results.append((weights @ v[:, h // sharing], weights))
    return torch.stack([o for o, _ in results], 1), torch.stack([w for _, w in results], 1)


@grouping.alternative
def by_einsum(q, k, v):
    grouped = q.unflatten(1, (k.shape[1], -1))
    weights = torch.einsum("bgrtd,bgsd->bgrts", grouped, k / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bgrts,bgsd->bgrtd", weights, v).flatten(1, 2), weights.flatten(1, 2)


@grouping.alternative
def by_the_fused_operator(q, k, v):
    output = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    every_key = torch.eye(k.shape[2], dtype=q.dtype).expand(*k.shape[:3], k.shape[2])
    return output, F.scaled_dot_product_attention(q, k, every_key, enable_gqa=True)
