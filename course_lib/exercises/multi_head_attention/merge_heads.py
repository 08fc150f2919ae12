"""The exercise `merge_heads`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.multi_head_attention.shared import expect_only_moved, expect_tokens_apart

merge_heads = Exercise(
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
        "Undo the two steps of split_heads, the last one first.",
        "The head axis has to come right before the d_k axis: (batch, time, head, d_k). Then the two become one.",
        "After a transpose, view refuses: the numbers do not lie in that order in memory. reshape copies if it must.",
        "x.transpose(1, 2).reshape(batch, time, num_heads * d_k).",
    ],
)


def merge_answer(subject, case):
    batch, heads, time, d_k = case["x"].shape
    return expect_floats(subject(case["x"]), (batch, time, heads * d_k))


@merge_heads.property("the result is (batch, time, head · d_k)", points=1)
def merge_shape(subject, case):
    merge_answer(subject, case)


@merge_heads.property("every time step holds what its heads hold", points=1)
def merge_keeps_tokens(subject, case):
    got = merge_answer(subject, case)
    expect_only_moved(got, case["x"])
    expect_tokens_apart(got, case["x"].transpose(1, 2).flatten(2))


@merge_heads.property("merging what was split gives back the same tensor", points=1)
def merge_values(subject, case):
    merged = reference.merge_heads(case["x"])
    expect_close(subject(case["x"]), merged)
    split = reference.split_heads(merged, case["x"].shape[1])  # the same numbers, but not contiguous in memory
    expect_close(subject(split), merged, "the result for a tensor that is not contiguous")


@merge_heads.property("the gradient comes back to every head", points=1)
def merge_gradient(subject, case):
    want = torch.zeros_like(case["x"])
    want[0, :, 1] = 1.0
    got = subject.gradient(case["x"], wrt=0, at=(0, 1))
    expect_close(got, want, "the gradient of time step 1 with respect to x")


@merge_heads.misconception
def merges_by_reshape_alone(x):
    """You merge the heads with a reshape alone. The head axis has to come right before the d_k axis; then the two
    become one.

    As it is, each token of the result holds pieces of several tokens.
    """
    batch, num_heads, time, d_k = x.shape
    return x.reshape(batch, time, num_heads * d_k)


@merge_heads.misconception
def averages_the_heads(x):
    """You average the heads. Their results belong side by side: head · d_k features."""
    batch, num_heads, time, d_k = x.shape
    return x.mean(dim=1)


@merge_heads.misconception
def adds_the_heads_up(x):
    """You add the heads up. Their results belong side by side: head · d_k features."""
    batch, num_heads, time, d_k = x.shape
    return x.sum(dim=1)


@merge_heads.misconception
def exchanges_time_and_features(x):
    """You swap the last two axes. Head and time have to be swapped."""
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(2, 3)
    return x.reshape(batch, time, num_heads * d_k)


@merge_heads.misconception
def interleaves_the_blocks(x):
    """You take the heads' features in turn, one from each head. Each head's d_k features stay together as one block."""
    batch, num_heads, time, d_k = x.shape
    x = x.permute(0, 2, 3, 1)
    return x.reshape(batch, time, num_heads * d_k)


@merge_heads.misconception
def leaves_four_axes(x):
    """Head and time have changed places, but the heads are still apart: head and d_k become one axis."""
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 2)
    return x


@merge_heads.misconception
def puts_the_heads_one_after_another_in_time(x):
    """You put the heads one after another along time. They belong side by side along the features."""
    batch, num_heads, time, d_k = x.shape
    return x.reshape(batch, num_heads * time, d_k)


@merge_heads.misconception
def keeps_the_first_head_alone(x):
    """Only the first head's result is left. All heads' results belong side by side."""
    batch, num_heads, time, d_k = x.shape
    return x[:, 0]


@merge_heads.misconception
def merges_the_heads_backwards(x):
    """Your heads are in reverse order: head 0 owns the first block of features."""
    batch, num_heads, time, d_k = x.shape
    x = x.flip(1).transpose(1, 2)
    return x.reshape(batch, time, num_heads * d_k)


@merge_heads.misconception
def views_what_is_not_contiguous(x):
    """You use `view` on what was transposed. `view` never copies; `reshape` copies where it must, and `contiguous()`
    asks for the copy.

    After a transpose the numbers no longer lie in memory in the order of the axes, so `view` refuses.
    """
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 2)
    return x.view(batch, time, num_heads * d_k)


@merge_heads.misconception
def takes_the_first_axis_for_the_heads(x):
    """You take the first axis for the heads and the second for the batch. It is (batch, head, time, d_k)."""
    batch, num_heads, time, d_k = x.shape
    x = x.permute(1, 2, 0, 3)
    return x.reshape(num_heads, time, batch * d_k)


@merge_heads.misconception
def exchanges_head_and_features(x):
    """You swap the head axis and the d_k axis. Head and time have to be swapped.

    As it is, the reshape mixes time steps and heads.
    """
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 3)
    return x.reshape(batch, time, num_heads * d_k)


@merge_heads.misconception
def puts_time_before_the_batch(x):
    """Batch and time have changed places in your result. The batch stays first: (batch, time, head · d_k)."""
    batch, num_heads, time, d_k = x.shape
    x = x.permute(2, 0, 1, 3)
    return x.reshape(time, batch, num_heads * d_k)


@merge_heads.misconception
def merges_without_gradient(x):
    """No gradient comes back through your result: it was detached, or copied into a new tensor.

    The numbers are right, but what made x could not learn.
    """
    batch, num_heads, time, d_k = x.shape
    x = x.detach().transpose(1, 2)
    return x.reshape(batch, time, num_heads * d_k)


@merge_heads.alternative
def with_flatten(x):
    return x.permute(0, 2, 1, 3).flatten(start_dim=2)


@merge_heads.alternative
def with_contiguous_and_view(x):
    return x.transpose(1, 2).contiguous().view(x.size(0), -1, x.size(1) * x.size(3))


@merge_heads.alternative
def by_concatenation(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@merge_heads.alternative
def head_by_head(x):
    heads = []
    for i in range(x.shape[1]):
        heads.append(x[:, i])
    return torch.cat(heads, dim=2)
