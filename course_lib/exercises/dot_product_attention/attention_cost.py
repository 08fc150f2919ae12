"""The exercise `attention_cost`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_tuple, name_of_type

attention_cost = Exercise(
    reference.attention_cost,
    cases=[{"n": 3, "d": 2}, {"n": 10, "d": 7}, {"n": 1024, "d": 512}, {"n": 1, "d": 5}],
    minutes=6,
    difficulty=1,
    hints=[
        "A product of an (a, b) matrix and a (b, c) matrix has a·c entries. How many multiplications does one take?",
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


@attention_cost.property("two whole numbers come back, both greater than 0", points=1)
def cost_is_two_numbers(subject, case):
    wants = attention_cost.want(case)
    for part, number, want in zip(("projections", "attention"), cost_of(subject, **case), wants):
        expect(number > 0 or want == 0, f"The cost of the {part} part should be greater than 0, but it is {number}.")


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


@attention_cost.property("the projections are counted correctly", points=1)
def cost_of_projections(subject, case):
    got, want = cost_of(subject, **case)[0], attention_cost.want(case)[0]
    expect(got == want, f"The cost of the projections should be {want}, but it is {got}.")


@attention_cost.property("scores and weighted sum are counted correctly", points=1)
def cost_of_attention(subject, case):
    got, want = cost_of(subject, **case)[1], attention_cost.want(case)[1]
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
    """You count n · d for one of the two products, or each pair of tokens only once. All n² pairs count, and each of
    them takes d multiplications, in the scores and in the sum."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_parameters(n, d):
    """You count d² for a projection. It is applied to each of the n tokens.

    d² is the number of its parameters.
    """
    projection = d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_entries_of_projections(n, d):
    """You count n · d for a projection. Each of these entries is a dot product of d features."""
    projection = n * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def projections_mix_tokens(n, d):
    """You count n² · d for a projection. It treats each token alone: d² multiplications for each."""
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
    """You return the two numbers in the wrong order: projections first, then attention."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return attention, projections


@attention_cost.misconception
def adds_the_costs(n, d):
    """You return one total. Return the two parts separately: (projections, attention)."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections + attention


@attention_cost.misconception
def multiplies_the_costs(n, d):
    """You multiply the cost of the scores by that of the weighted sum. They are computed one after the other: add."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores * weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_the_scaling(n, d):
    """You count n² more for attention, as if each score took one further step: a scaling, an exponential or a division.
    Count only the multiplications in the matrix products."""
    projection = n * d * d
    scores = n * n * d + n * n
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_half_of_the_pairs(n, d):
    """You count each pair of tokens once in the scores. Score (i, j) and score (j, i) are different numbers: n² of
    them."""
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
    """You count n · d² for each product of attention, as for a projection. Every token meets every token: n² · d."""
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


@attention_cost.misconception
def counts_entries_of_queries_and_output(n, d):
    """You count n · d for the scores and for the weighted sum. Every token meets every token, with d multiplications
    for each pair: n² · d."""
    projection = n * d * d
    scores = n * d
    weighted_sum = n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_two_projections(n, d):
    """You count two projections. There are four: queries, keys, values, output."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 2 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_six_projections(n, d):
    """You count six projections. There are four (queries, keys, values, output); scores and weighted sum belong to the
    other number."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 6 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_three_products_of_attention(n, d):
    """You count three products of n² · d in attention. There are two: the scores and the weighted sum."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = 3 * scores
    return projections, attention


@attention_cost.misconception
def counts_the_sum_over_tokens_cubed(n, d):
    """You count n³ for one of the two products. Each of them takes d multiplications for each of the n² pairs."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * n
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_additions_of_projections_too(n, d):
    """You count additions as well in the projections (2 operations for each product). Count multiplications only."""
    projection = 2 * n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def counts_additions_of_attention_too(n, d):
    """You count additions as well in scores and weighted sum (2 operations for each product). Count multiplications
    only."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = 2 * (scores + weighted_sum)
    return projections, attention


@attention_cost.misconception
def counts_additions_instead(n, d):
    """You count the additions: a sum of d products has d - 1 of them. Count the multiplications."""
    projection = n * d * (d - 1)
    scores = n * n * (d - 1)
    weighted_sum = n * (n - 1) * d
    projections = 4 * projection
    attention = scores + weighted_sum
    return projections, attention


@attention_cost.misconception
def attention_includes_the_projections(n, d):
    """Your second number includes the projections too. It should count only scores and weighted sum."""
    projection = n * d * d
    scores = n * n * d
    weighted_sum = n * n * d
    projections = 4 * projection
    attention = scores + weighted_sum + projections
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
