"""The exercise `strided_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.exercises.masks.shared import first_place, keys_in, mask_from, refuse

strided = Exercise(
    long_sequences.strided_mask,
    cases=[
        {"length": 7, "stride": 3},
        {"length": 12, "stride": 4},
        {"length": 5, "stride": 2},
        {"length": 3, "stride": 6},
        {"length": 4, "stride": 1},
    ],
    minutes=4,
    difficulty=2,
    hints=[
        "Which keys does query 6 see if the stride is 3? The last three: 6, 5, 4. And before them, every third one.",
        "Everything depends on the distance i - j. Make a matrix of all distances, queries down, keys across.",
        "Near: the distance is less than the stride. Far: it is a multiple of the stride. And it is never negative.",
        "(distance >= 0) & ((distance < stride) | (distance % stride == 0)).",
    ],
)


def strided_answer(subject, case):
    length, stride = case.values()
    return mask_from(subject, (length, stride), (length, length))


@strided.property("the mask is length × length, True or False", points=1)
def strided_shape(subject, case):
    strided_answer(subject, case)


@strided.property("the first `stride` queries see everything up to themselves", points=1)
def strided_first(subject, case):
    answer, want = strided_answer(subject, case), strided.want(case)
    for query in range(min(case["stride"], case["length"])):
        if not answer[query].equal(want[query]):
            message = f"Query {query} sees {keys_in(answer[query])}. It should see {keys_in(want[query])}."
            refuse(message, answer, want)


@strided.property("no query sees a later key", points=1)
def strided_future(subject, case):
    answer, want = strided_answer(subject, case), strided.want(case)
    future = answer.triu(1)
    if future.any():
        query, key = first_place(future)
        refuse(f"Query {query} sees key {key}, which lies in its future.", answer, want)


@strided.property("every query sees the last `stride` positions, its own included", points=1)
def strided_near(subject, case):
    answer, want = strided_answer(subject, case), strided.want(case)
    everything = torch.ones_like(want)
    near = everything.tril() & everything.triu(1 - case["stride"])
    missing = near & ~answer
    if missing.any():
        query, key = first_place(missing)
        refuse(
            f"Query {query} does not see key {key}. Their distance is {query - key}; all up to "
            f"{case['stride'] - 1} are allowed.",
            answer,
            want,
        )


@strided.property("before these, every query sees every stride-th position, and no other", points=2)
def strided_far(subject, case):
    answer, want = strided_answer(subject, case), strided.want(case)
    for query in range(case["length"]):
        if not answer[query].equal(want[query]):
            message = f"Query {query} sees {keys_in(answer[query])}. It should see {keys_in(want[query])}."
            refuse(message, answer, want)


@strided.misconception
def sees_the_future(length, stride):
    """You do not hide the future. A query sees no later key."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return near | far


@strided.misconception
def far_keys_in_the_future(length, stride):
    """You let a query see every stride-th key of its future. All later keys are hidden."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return ((distance >= 0) & near) | far


@strided.misconception
def near_keys_in_the_future(length, stride):
    """Your window reaches into the future as well. All later keys are hidden."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return near & (distance > -stride) | ((distance >= 0) & far)


@strided.misconception
def near_keys_only(length, stride):
    """You allow the last positions only. Every stride-th position before them is seen, too."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return (distance >= 0) & near


@strided.misconception
def far_keys_only(length, stride):
    """You allow every stride-th position only. All of the last `stride` positions are seen, too."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return (distance >= 0) & far


@strided.misconception
def near_and_far_at_once(length, stride):
    """You ask for both at once: near and a multiple of the stride. Either is enough.

    Every query is left with itself alone."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return (distance >= 0) & (near & far)


@strided.misconception
def window_too_large(length, stride):
    """Your window reaches too far back. `stride` positions, its own among them, are the distances 0 to stride - 1."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride + 2
    far = distance % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def window_one_too_small(length, stride):
    """Your window holds one position too few. `stride` positions, its own among them, are the distances 0 to
    stride - 1."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride - 1
    far = distance % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def hides_itself(length, stride):
    """You hide the position itself. Its own key is among those that a query sees."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return (distance > 0) & (near | far)


@strided.misconception
def columns_at_multiples(length, stride):
    """You allow the keys whose own number is a multiple of the stride. It is the distance between query and key
    that has to be one."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = positions[None, :] % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def columns_at_the_end_of_blocks(length, stride):
    """You allow the last key of every block of `stride`, the same for all queries. Here the distance between query
    and key has to be a multiple of the stride."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = positions[None, :] % stride == stride - 1
    return (distance >= 0) & (near | far)


@strided.misconception
def rows_at_multiples(length, stride):
    """You let the queries whose number is a multiple of the stride see everything before them. Every query sees
    every stride-th key."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = positions[:, None] % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def window_in_fixed_blocks(length, stride):
    """You cut the sequence into blocks of `stride` and let a query see its block. The window moves along: the last
    `stride` positions, wherever they are."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = positions[:, None] // stride == positions[None, :] // stride
    far = distance % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def one_step_off(length, stride):
    """Your far keys are one step off: their distance should be a multiple of the stride."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 1 % stride
    return (distance >= 0) & (near | far)


@strided.misconception
def all_but_the_multiples(length, stride):
    """Of the keys further back, you allow those whose distance is not a multiple of the stride. It should be the other
    way round."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride != 0
    return (distance >= 0) & (near | far)


@strided.misconception
def stride_beyond_the_window(length, stride):
    """You step through the far keys with stride + 1. Every stride-th position is seen."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % (stride + 1) == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def hidden_is_true(length, stride):
    """Your mask is True where attention is hidden. In this course True means allowed."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return ~((distance >= 0) & (near | far))


@strided.misconception
def turned_over(length, stride):
    """You swapped queries and keys: rows are queries, columns are keys.

    So a query sees its future instead of its past."""
    positions = torch.arange(length)
    distance = positions[None, :] - positions[:, None]
    near = distance < stride
    far = distance % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def everything_before(length, stride):
    """You allow every earlier key. Far back, only every stride-th one is seen."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    return distance >= 0


@strided.misconception
def window_of_the_square_root(length, stride):
    """You take the square root of the stride for the window. The window holds `stride` positions."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance * distance < stride
    far = distance % stride == 0
    return (distance >= 0) & (near | far)


@strided.misconception
def far_only_once(length, stride):
    """You allow one key beyond the window, at a distance of the stride. All multiples of the stride are seen."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance == stride
    return (distance >= 0) & (near | far)


@strided.misconception
def numbers_instead_of_truth(length, stride):
    """You return where attention is allowed as 0 and hidden as -inf, as it is added to scores. A mask of True and
    False is asked for."""
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]
    near = distance < stride
    far = distance % stride == 0
    allowed = (distance >= 0) & (near | far)
    return torch.zeros(length, length).masked_fill(~allowed, -torch.inf)


@strided.alternative
def two_masks_joined(length, stride):
    near = torch.ones(length, length).tril() * torch.ones(length, length).triu(1 - stride)
    far = torch.zeros(length, length)
    for i in range(length):
        far[i, i % stride : i + 1 : stride] = 1
    return torch.maximum(near, far)


@strided.alternative
def strided_in_loops(length, stride):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(i + 1):
            if i - j < stride or (i - j) % stride == 0:
                mask[i, j] = True
    return mask


@strided.alternative
def strided_by_slices(length, stride):
    mask = torch.zeros(length, length, dtype=torch.int64)
    for i in range(length):
        mask[i, max(0, i - stride + 1) : i + 1] = 1
        mask[i, [j for j in range(i, -1, -stride)]] = 1
    return mask


@strided.alternative
def same_remainder(length, stride):
    i, j = torch.meshgrid(torch.arange(length), torch.arange(length), indexing="ij")
    return (j <= i) & ((i % stride == j % stride) | (i < j + stride))


@strided.alternative
def strided_with_an_offset(length, stride):
    i, j = torch.arange(length).unsqueeze(1), torch.arange(length).unsqueeze(0)
    return ((i - j) % stride).eq(0).logical_or(j + stride > i).logical_and(j <= i).float()


@strided.alternative
def sum_of_diagonals(length, stride):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for distance in sorted({*range(min(stride, length)), *range(0, length, stride)}):
        mask |= torch.diag(torch.ones(length - distance), -distance).bool()
    return mask
