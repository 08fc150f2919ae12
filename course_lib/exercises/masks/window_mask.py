"""The exercise `window_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_mask
from course_lib.exercises.masks.shared import first_place, keys_in, mask_from, refuse

window_mask = Exercise(
    masks.window_mask,
    cases=[
        {"n": 5, "radius": 1},
        {"n": 8, "radius": 2},
        {"n": 4, "radius": 0},
        {"n": 7, "radius": 3},
        {"n": 3, "radius": 9},
    ],
    minutes=6,
    difficulty=2,
    hints=[
        "Which keys may query 3 see if the radius is 1? And query 0, at the edge?",
        "The distance between query i and key j is |i - j|. Make a matrix of all distances first.",
        "positions[:, None] - positions is the matrix of all i - j.",
        "(torch.arange(n)[:, None] - torch.arange(n)).abs() <= radius.",
    ],
)


def window_answer(subject, case):
    n, radius = case.values()
    return mask_from(subject, (n, radius), (n, n))


@window_mask.property("the mask is n × n, True or False", points=1)
def window_shape(subject, case):
    window_answer(subject, case)


@window_mask.property("the first position sees itself and as many positions after it as the radius says", points=1)
def window_first(subject, case):
    answer, want = window_answer(subject, case), window_mask.want(case)
    if not answer[0].equal(want[0]):
        refuse(f"Query 0 sees {keys_in(answer[0])}. It should see {keys_in(want[0])}.", answer, want)


@window_mask.property("no query sees further than the radius", points=1)
def window_far(subject, case):
    answer, want = window_answer(subject, case), window_mask.want(case)
    far = answer & ~want
    if far.any():
        query, key = first_place(far)
        steps, radius = abs(query - key), case["radius"]
        refuse(f"Query {query} sees key {key}. Their distance is {steps}; the radius is {radius}.", answer, want)


@window_mask.property("every position sees all keys up to the radius, on both sides", points=1)
def window_exact(subject, case):
    expect_mask(window_answer(subject, case), window_mask.want(case))


@window_mask.misconception
def stops_one_short(n, radius):
    """Your window stops one step short: keys exactly `radius` steps away belong to it.

    So it is too small on each side."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance < radius


@window_mask.misconception
def reaches_one_too_far(n, radius):
    """Your window is one step too large: its last key is `radius` steps away, no further."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance <= radius + 1


@window_mask.misconception
def outside_the_window(n, radius):
    """Your mask is True outside of the window. In this course True means allowed."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance > radius


@window_mask.misconception
def past_without_limit(n, radius):
    """You compare j - i without its absolute value.

    So the future is limited to the radius, and the past is not."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = -steps
    return distance <= radius


@window_mask.misconception
def future_without_limit(n, radius):
    """You compare i - j without its absolute value.

    So the past is limited to the radius, and the future is not."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps
    return distance <= radius


@window_mask.misconception
def window_of_the_past(n, radius):
    """Your window reaches back only. It should reach `radius` steps to both sides; hiding the future is another mask's
    job."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius) & (steps >= 0)


@window_mask.misconception
def window_of_the_future(n, radius):
    """Your window reaches ahead only. It should reach `radius` steps to both sides."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius) & (steps <= 0)


@window_mask.misconception
def edge_of_the_window_only(n, radius):
    """You allow only keys exactly `radius` steps away. All nearer ones belong to the window too."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance == radius


@window_mask.misconception
def radius_taken_for_width(n, radius):
    """You halve the radius, as if it were the width of the whole window. It is the reach to each side: 2 · radius + 1
    keys."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance <= radius // 2


@window_mask.misconception
def not_itself(n, radius):
    """You leave out the position itself. It belongs to its own window: the distance 0 is allowed."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius) & (distance > 0)


@window_mask.misconception
def goes_round_the_corner(n, radius):
    """You let the window wrap around the ends: the first position sees the last one. A sequence is not a ring."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = torch.minimum(steps % n, -steps % n)
    return distance <= radius


@window_mask.misconception
def slice_begins_below_zero(n, radius):
    """Near the beginning your slice starts at a negative index, and Python counts that from the end. The window ends
    where the sequence does."""
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, i - radius : i + radius + 1] = True
    return mask


@window_mask.misconception
def fixed_blocks(n, radius):
    """You cut the sequence into fixed blocks. A window moves along: each position is in the middle of its own."""
    positions = torch.arange(n)
    block = positions // (radius + 1)
    return block[:, None] == block


@window_mask.misconception
def first_keys_for_everyone(n, radius):
    """You give every query the same first keys. The window depends on the query's own position."""
    positions = torch.arange(n)
    return (positions <= radius).expand(n, n)


@window_mask.misconception
def forgets_the_radius(n, radius):
    """You do not use the radius: each position sees its two neighbours, however far the window should reach."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance <= 1


@window_mask.misconception
def sees_only_itself(n, radius):
    """You allow each position only itself. The `radius` positions on both sides belong to its window too."""
    return torch.eye(n, dtype=torch.bool)


@window_mask.misconception
def radius_counted_twice(n, radius):
    """You double the radius. It already is the reach to each side."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return distance <= 2 * radius


@window_mask.misconception
def everything_within(n, radius):
    """You hide nothing: every position sees the whole sequence."""
    return torch.ones(n, n, dtype=torch.bool)


@window_mask.misconception
def one_side_falls_short(n, radius):
    """Your window ends one key too early on the right. A slice leaves out its end; both sides reach equally far."""
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, max(0, i - radius) : i + radius] = True
    return mask


@window_mask.misconception
def has_an_axis_too_many(n, radius):
    """Your mask has more axes than (n, n). Further axes are added later, where they are needed.

    Its entries are right."""
    positions = torch.arange(n)
    steps = positions[:, None] - positions
    distance = steps.abs()
    return (distance <= radius)[None]


@window_mask.alternative
def two_triangles(n, radius):
    everything = torch.ones(n, n)
    return everything.tril(radius) * everything.triu(-radius)


@window_mask.alternative
def slices_of_rows(n, radius):
    mask = torch.zeros(n, n, dtype=torch.int)
    for i in range(n):
        mask[i, max(0, i - radius) : i + radius + 1] = 1
    return mask


@window_mask.alternative
def nested_lists(n, radius):
    return torch.tensor([[abs(i - j) <= radius for j in range(n)] for i in range(n)])


@window_mask.alternative
def from_squares(n, radius):
    positions = torch.arange(n, dtype=torch.float64)
    return torch.cdist(positions[:, None], positions[:, None]) < radius + 0.5
