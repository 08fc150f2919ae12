"""The exercise `split_heads`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.multi_head_attention.shared import expect_only_moved, expect_tokens_apart
from course_lib.multi_head_attention import size_of_a_head

split_heads = Exercise(
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
        "After the cut the shape is (batch, time, head, d_k). Which two axes have to be swapped?",
        "x.reshape(batch, time, num_heads, d_model // num_heads), and then transpose(1, 2).",
    ],
)


def split_answer(subject, case):
    batch, time, d_model = case["x"].shape
    heads = case["num_heads"]
    return expect_floats(subject(*case.values()), (batch, heads, time, d_model // heads))


@split_heads.property("the result is (batch, head, time, d_k)", points=1)
def split_shape(subject, case):
    split_answer(subject, case)


@split_heads.property("every token keeps its own numbers", points=1)
def split_keeps_tokens(subject, case):
    got = split_answer(subject, case)
    expect_only_moved(got, case["x"])
    together = got.transpose(1, 2).flatten(2)  # (batch, time, d_model)
    expect_tokens_apart(together, case["x"])


@split_heads.property("head i holds features i·d_k to (i+1)·d_k - 1", points=1)
def split_values(subject, case):
    expect_close(subject(*case.values()), split_heads.want(case))


@split_heads.property("the gradient of a head goes back to its own features and no others", points=1)
def split_gradient(subject, case):
    batch, time, d_model = case["x"].shape
    d_k = d_model // case["num_heads"]
    last = case["num_heads"] - 1
    want = torch.zeros(batch, time, d_model, dtype=case["x"].dtype)
    want[0, 1, last * d_k :] = 1.0
    got = subject.gradient(*case.values(), wrt=0, at=(0, last, 1))
    expect_close(got, want, f"the gradient of head {last} at time 1 with respect to x")


@split_heads.misconception
def reshapes_alone(x, num_heads):
    """You cut out the heads with a reshape alone. Cut each token first, (batch, time, head, d_k), then swap time
    and head.

    As it is, your heads hold pieces of several tokens.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, num_heads, time, d_k)
    return x


@split_heads.misconception
def forgets_the_exchange(x, num_heads):
    """The head axis still comes after the time axis. Attention needs (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x


@split_heads.misconception
def deals_the_features_out(x, num_heads):
    """You deal the features out in turn: head i gets every num_heads-th one. A head holds a block of neighbouring
    features.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, d_k, num_heads).transpose(2, 3)
    return x.transpose(1, 2)


@split_heads.misconception
def exchanges_head_and_features(x, num_heads):
    """You swap the last two axes, head and d_k. Time and head have to be swapped."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(2, 3)


@split_heads.misconception
def puts_heads_before_the_batch(x, num_heads):
    """The head axis comes first in your result. The batch stays first: (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.permute(2, 0, 1, 3)


@split_heads.misconception
def folds_heads_into_the_batch(x, num_heads):
    """You fold the heads into the batch axis. They get an axis of their own here: (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2).flatten(0, 1)


@split_heads.misconception
def puts_time_last(x, num_heads):
    """Time and d_k have changed places. A split leaves d_k last.

    That is what the keys look like once they are transposed.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.permute(0, 2, 3, 1)


@split_heads.misconception
def takes_num_heads_for_d_k(x, num_heads):
    """You use num_heads as the size of a head. It is how many heads there are; each has size d_model / num_heads."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, d_k, num_heads)
    return x.transpose(1, 2)


@split_heads.misconception
def transposes_before_the_cut(x, num_heads):
    """You swap axes before you cut. Cut the feature axis first.

    As it is, the reshape mixes time steps and features.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.transpose(1, 2).reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2)


@split_heads.misconception
def reshapes_what_is_transposed(x, num_heads):
    """You swap time and features and then reshape straight into (batch, head, time, d_k). Cut the feature axis
    while it is still the last one; time and head are to be swapped.

    As it is, the reshape mixes time steps and features.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.transpose(1, 2).reshape(batch, num_heads, time, d_k)
    return x


@split_heads.misconception
def cuts_in_the_wrong_order(x, num_heads):
    """You reshape straight into (batch, head, time, d_k) and then swap head and time. Cut each token first,
    (batch, time, head, d_k), and then swap the two.

    As it is, your heads hold pieces of several tokens, and the axes are in the wrong order.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, num_heads, time, d_k)
    return x.transpose(1, 2)


@split_heads.misconception
def puts_time_before_the_batch(x, num_heads):
    """Batch and time have changed places in your result. The batch stays first: (batch, head, time, d_k)."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.permute(1, 2, 0, 3)


@split_heads.misconception
def gives_every_head_everything(x, num_heads):
    """Each of your heads holds all d_model features. The features are shared out: d_k for each head."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.unsqueeze(2).expand(batch, time, num_heads, d_model)
    return x.transpose(1, 2)


@split_heads.misconception
def cuts_the_time_axis(x, num_heads):
    """You share out the time steps. Each head sees all time steps and its own block of features."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, num_heads, time // num_heads, d_model)
    return x


@split_heads.misconception
def numbers_the_heads_backwards(x, num_heads):
    """Your heads are in reverse order: head 0 owns the first block of features."""
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2).flip(1)


@split_heads.misconception
def cuts_off_the_gradient(x, num_heads):
    """No gradient comes back through your result: it was detached, or copied into a new tensor.

    The numbers are right, but what made x could not learn.
    """
    batch, time, d_model = x.shape
    d_k = size_of_a_head(d_model, num_heads)
    x = x.reshape(batch, time, num_heads, d_k)
    return x.transpose(1, 2).detach()


@split_heads.alternative
def with_unflatten(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3).contiguous()


@split_heads.alternative
def by_slicing(x, num_heads):
    d_k = x.shape[-1] // num_heads
    return torch.stack([x[:, :, i * d_k : (i + 1) * d_k] for i in range(num_heads)], dim=1)


@split_heads.alternative
def by_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1)).transpose(0, 1)


@split_heads.alternative
def the_transpose_first(x, num_heads):
    batch, time, d_model = x.shape
    return x.transpose(1, 2).reshape(batch, num_heads, d_model // num_heads, time).transpose(2, 3)


@split_heads.alternative
def number_by_number(x, num_heads):
    d_k = x.size(2) // num_heads
    result = x.new_empty(x.size(0), num_heads, x.size(1), d_k)
    for feature in range(x.size(2)):
        result[:, feature // d_k, :, feature % d_k] = x[:, :, feature]
    return result
