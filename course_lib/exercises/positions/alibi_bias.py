"""The exercise `alibi_bias`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import as_shape, expect, expect_close, expect_floats

alibi_bias = Exercise(
    reference.alibi_bias,
    cases=[
        {"num_heads": 2, "n": 3},
        {"num_heads": 8, "n": 5},
        {"num_heads": 1, "n": 4},
        {"num_heads": 3, "n": 4},
        {"num_heads": 7, "n": 6},
        {"num_heads": 20, "n": 3},
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Two tables are multiplied: one number for each head, and one distance for each pair (query, key).",
        "For 8 heads the slopes are 1/2, 1/4, …, 1/256. Check that your formula gives 1/2 for the first head.",
        "slopes[:, None, None] * distance multiplies (heads, 1, 1) by (n, n). And the bias must lower far keys.",
        "p = 2 ** int(math.log2(num_heads)); the first p slopes are 2 ** (-8 * s / p) for s in range(1, p + 1), the "
        "others 2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2).",
    ],
)


def penalty_of(subject, case):
    """What the softmax sees of the bias: row by row, the part up to the query, relative to the query itself."""
    num_heads, n = case["num_heads"], case["n"]
    with subject.unobserved():  # anything goes to the right of the query
        got = subject(num_heads, n)
    same = as_shape(got, (num_heads, n, n)) if isinstance(got, torch.Tensor) else None
    if same is None or same.isnan().any() or not same.is_floating_point():
        subject.note("call", got)
        expect_floats(got, (num_heads, n, n), "the bias")
    own = same.double().diagonal(dim1=-2, dim2=-1)
    past = torch.ones(n, n, dtype=torch.bool).tril()
    penalty = torch.where(past, same.double() - own[..., None], 0.0)
    subject.note("penalty", penalty)
    expect(own.isfinite().all(), "A position is not allowed to look at itself: the bias is infinite there.")
    return penalty


def penalty_wanted(case):
    return alibi_bias.want(case).double().tril()


@alibi_bias.property("there is one n × n table for each head", points=1)
def alibi_shape(subject, case):
    penalty_of(subject, case)


@alibi_bias.property("2, 4, 8, … heads: the slopes are 2^(-8s/h)", points=1)
def alibi_slopes_of_powers_of_two(subject, case):
    if math.log2(case["num_heads"]).is_integer():
        slopes = -penalty_wanted(case)[:, 1, 0]
        expect_close(-penalty_of(subject, case)[:, 1, 0], slopes, "the cost of one step, head by head,")


@alibi_bias.property("the further back a key is, the lower its bias", points=1)
def alibi_decreases(subject, case):
    penalty = penalty_of(subject, case)
    last = penalty[:, -1]  # the query that sees all keys
    expect(
        (last.diff(dim=-1) > 0).all(),
        f"For the last query, the bias of the keys 0, 1, 2, … in head 0 is {[round(v, 4) for v in last[0].tolist()]} "
        "(relative to its own): it should rise towards the query.",
    )


@alibi_bias.property("each step back costs the same", points=1)
def alibi_is_linear(subject, case):
    steps = penalty_of(subject, case)[:, -1].diff(dim=-1)  # of the query that sees all keys
    uneven = (steps - steps[:, :1]).abs() > 1e-5
    if uneven.any():
        head, _ = (int(i) for i in uneven.nonzero()[0])
        costs = [round(cost, 4) for cost in steps[head].flip(0).tolist()]
        expect(False, f"For the last query, the steps back in head {head} cost {costs}. They should all cost the same.")


@alibi_bias.property("other numbers of heads: the slopes of p heads, then every second slope of 2p heads", points=1)
def alibi_slopes_of_others(subject, case):
    slopes = -penalty_wanted(case)[:, 1, 0]
    expect_close(-penalty_of(subject, case)[:, 1, 0], slopes, "the cost of one step, head by head,")


@alibi_bias.misconception
def starts_at_head_zero(num_heads, n):
    """Your s starts at 0. The slopes are counted from 1: with 8 heads the first slope is 1/2 and the last 1/256.

    As it is, the first slope is 1."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(p)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def uses_one_series_for_any_number(num_heads, n):
    """You use one series for every number of heads, as if it were a power of two. 3 heads, say, take the two slopes of
    2 heads and then the first of 4 heads."""
    p = num_heads
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def takes_the_next_power_of_two(num_heads, n):
    """You take the first slopes of the next larger power of two. Begin with the largest power of two that is at most
    the number of heads, and add every second slope of the longer series."""
    p = 2 ** math.ceil(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, num_heads + 1)]
    between = []
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def takes_neighbours_of_the_longer_series(num_heads, n):
    """For the remaining heads you take the slopes one after the other from the longer series. Take every second one, s
    = 1, 3, 5, …: the others are there already."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, num_heads - p + 1)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def sorts_the_slopes(num_heads, n):
    """You sort the slopes. The slopes of the remaining heads come last, after the series of the first p heads."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(sorted(series + between, reverse=True))
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def puts_the_remaining_heads_first(num_heads, n):
    """You put the slopes of the remaining heads before the series of the first p heads. They come after it."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(between + series)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def gives_all_heads_one_slope(num_heads, n):
    """You give all heads the same slope. The number s of the slope belongs in the exponent."""
    p = 2 ** int(math.log2(num_heads))
    slopes = torch.tensor([2 ** (-8 / num_heads)] * num_heads)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def favours_far_keys(num_heads, n):
    """Your bias grows with the distance. It is a penalty: it needs a minus sign (or i and j are swapped).

    As it is, distant keys are favoured."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return slopes[:, None, None] * distance


@alibi_bias.misconception
def forgets_the_slopes(num_heads, n):
    """You do not multiply the distance by the head's slope.

    So every head has the slope 1."""
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -distance.float().expand(num_heads, n, n)


@alibi_bias.misconception
def penalises_the_future(num_heads, n):
    """Your bias is the same for all keys up to the query. The penalty belongs to these keys; right of the query the
    causal mask hides everything. Perhaps query and key are swapped.

    As it is, distant keys cost nothing."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[None, :] - positions[:, None]).clamp(min=0)
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def spaces_the_slopes_evenly(num_heads, n):
    """Your slopes are s/h, evenly spaced. They are powers of two: each is a fixed fraction of the one before."""
    slopes = torch.arange(1, num_heads + 1) / num_heads
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def halves_from_head_to_head(num_heads, n):
    """Your slopes are 2^(-s) for every number of heads. That is right only for 8 heads: the exponent is 8s/h."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-s) for s in range(1, num_heads + 1)]
    slopes = torch.tensor(series)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def divides_eight_by_the_head(num_heads, n):
    """Your exponent is 8/s. It should be 8s/h: the number of the slope multiplies, the number of heads divides."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 / s) for s in range(1, num_heads + 1)]
    slopes = torch.tensor(series)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def reverses_the_heads(num_heads, n):
    """Your slopes are in reverse order: the first is the steepest, the following ones are flatter."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(p, 0, -1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def drops_the_minus_of_the_exponent(num_heads, n):
    """You leave out the minus in the exponent: your slopes are 2^(+8s/h).

    So they lie above 1, up to 256."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def squares_the_distance(num_heads, n):
    """You square the distance. Every step back costs the same."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs() ** 2
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def gives_factors(num_heads, n):
    """You return factors between 0 and 1, to be multiplied. A bias is added to the scores before the softmax, which
    takes the exponential itself."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return (-slopes[:, None, None] * distance).exp()


@alibi_bias.misconception
def puts_the_heads_last(num_heads, n):
    """You make the heads the last axis. They come first: (heads, query, key), so that the bias fits the scores."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes * distance[:, :, None]


@alibi_bias.misconception
def returns_the_slopes_alone(num_heads, n):
    """You return the slopes, one number per head. Multiply them by the distances of all pairs of positions."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    return slopes


@alibi_bias.misconception
def takes_the_even_slopes(num_heads, n):
    """For the remaining heads you take s = 2, 4, 6, … of the longer series. Those are there already: take s = 1, 3, 5,
    …."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(2, 2 * (num_heads - p) + 1, 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi_bias.misconception
def has_no_axis_for_the_heads(num_heads, n):
    """You return one table for all heads. Each head has a slope and so a table of its own: (heads, query, key)."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[0] * distance


@alibi_bias.misconception
def takes_the_root_of_the_distance(num_heads, n):
    """You take the root of the distance. Every step back costs the same."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    between = [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs().sqrt()
    return -slopes[:, None, None] * distance


def slopes_by_recursion(num_heads):
    if math.log2(num_heads).is_integer():
        start = 2.0 ** (-(2.0 ** -(math.log2(num_heads) - 3)))
        return [start ** (i + 1) for i in range(num_heads)]
    closest = 2 ** math.floor(math.log2(num_heads))
    return slopes_by_recursion(closest) + slopes_by_recursion(2 * closest)[0::2][: num_heads - closest]


@alibi_bias.alternative
def one_row_for_all_queries(num_heads, n):
    """The softmax does not see a constant added to a row: slope × j is enough."""
    return torch.tensor(slopes_by_recursion(num_heads))[:, None, None] * torch.arange(n)


@alibi_bias.alternative
def with_the_mask_inside(num_heads, n):
    positions = torch.arange(n)
    signed = (positions[None, :] - positions[:, None]).float()
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    bias = torch.stack([slope * signed for slope in slopes_by_recursion(num_heads)])
    return bias.masked_fill(future, -math.inf)


@alibi_bias.alternative
def in_three_loops(num_heads, n):
    p = 1
    while 2 * p <= num_heads:
        p *= 2
    bias = torch.zeros(num_heads, n, n, dtype=torch.float64)
    for head in range(num_heads):
        exponent = 8 * (head + 1) / p if head < p else 4 * (2 * (head - p) + 1) / p
        for i in range(n):
            for j in range(n):
                bias[head, i, j] = (j - i) / 2**exponent
    return bias


@alibi_bias.alternative
def counting_the_distance_from_one(num_heads, n):
    slopes = torch.tensor(slopes_by_recursion(num_heads))
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    return torch.einsum("h,ij->hij", -slopes, (i - j + 1).float())[None]
