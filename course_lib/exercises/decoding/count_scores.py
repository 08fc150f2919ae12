"""The exercise `count_scores`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import torch

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect_equal,
)
from course_lib.exercises.decoding.shared import as_number, asked

counting = Exercise(
    decoding.count_scores,
    cases=[{"n": n, "use_cache": use_cache} for n in (1, 2, 3, 10) for use_cache in (True, False)],
    minutes=4,
    difficulty=1,
    hints=[
        "Write n = 3 on paper. To write token 1 the model has 1 position in front of it (BOS), for token 2 it has 2, "
        "for token 3 it has 3. How many queries ask, and how many keys answer, at each step?",
        "Without a cache at step t: t queries and t keys, t · t scores. With a cache: 1 query and t keys.",
        "Add up over t = 1 … n. For n = 3: 1 + 4 + 9 = 14 without, 1 + 2 + 3 = 6 with a cache.",
    ],
)


def counted(subject, case):
    n, use_cache = case.values()
    got = asked(subject, (n, use_cache), as_number)
    want = decoding.count_scores(n, use_cache)
    expect_equal(got, want, f"the number of scores for n = {n} {'with' if use_cache else 'without'} a cache")


@counting.property("one token costs one score, with and without a cache", points=1)
def count_one(subject, case):
    if case["n"] == 1:
        counted(subject, case)


@counting.property("two tokens cost 1 + 2 scores with a cache, 1 + 4 without", points=1)
def count_two(subject, case):
    if case["n"] == 2:
        counted(subject, case)


@counting.property("n tokens with a cache", points=1)
def count_cached(subject, case):
    if case["use_cache"]:
        counted(subject, case)


@counting.property("n tokens without a cache", points=1)
def count_uncached(subject, case):
    if not case["use_cache"]:
        counted(subject, case)


@counting.misconception
def the_last_step_only(n, use_cache):
    """You count the last step alone. The steps before it cost something too: add them up."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total = queries * keys
    return total


@counting.misconception
def all_steps_as_long_as_the_last(n, use_cache):
    """You count every step as if all n positions were there already. At step t there are only t."""
    total = 0
    for t in range(1, n + 1):  # noqa: B007
        queries = 1 if use_cache else n
        keys = n
        total += queries * keys
    return total


@counting.misconception
def cache_makes_no_difference(n, use_cache):
    """The cache makes no difference in your count: with it there is a single query at each step."""
    total = 0
    for t in range(1, n + 1):
        queries = t
        keys = t
        total += queries * keys
    return total


@counting.misconception
def always_cached(n, use_cache):
    """You count one query at each step, with and without a cache. Without it every position asks again."""
    total = 0
    for t in range(1, n + 1):
        queries = 1
        keys = t
        total += queries * keys
    return total


@counting.misconception
def the_other_way_round(n, use_cache):
    """It is the other way round: with a cache there is one query at a time, without it all t positions ask again."""
    total = 0
    for t in range(1, n + 1):
        queries = t if use_cache else 1
        keys = t
        total += queries * keys
    return total


@counting.misconception
def one_key_with_a_cache(n, use_cache):
    """With a cache you count one score at each step, as for an RNN. The new query still meets the keys of all t
    positions."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = 1 if use_cache else t
        total += queries * keys
    return total


@counting.misconception
def counts_bos_twice(n, use_cache):
    """You count t + 1 positions at step t. There are t: BOS and the t - 1 tokens that are already written."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t + 1
        keys = t + 1
        total += queries * keys
    return total


@counting.misconception
def forgets_bos(n, use_cache):
    """You count t - 1 positions at step t. BOS is there before the first token, so at step t there are t."""
    total = 0
    for t in range(n):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total


@counting.misconception
def one_step_too_many(n, use_cache):
    """You count one step too many: n tokens take n steps, t = 1 … n."""
    total = 0
    for t in range(1, n + 2):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total


@counting.misconception
def half_of_the_square(n, use_cache):
    """Without a cache you count only the pairs that the causal mask allows. The scores are computed first, all t · t of
    them, and masked after that."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys if use_cache else queries * (keys + 1) // 2
    return total


@counting.misconception
def does_not_see_its_own_key(n, use_cache):
    """With a cache you count t - 1 keys at step t: the new position sees itself as well."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t - 1 if use_cache else t
        total += queries * keys
    return total


@counting.misconception
def square_in_total(n, use_cache):
    """Without a cache you count n · n in all. Every step before the last costs its own square too."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total if use_cache else n * n


@counting.misconception
def counts_the_queries(n, use_cache):
    """You add up the queries. Each of them meets the keys of all t positions."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries
    return total


@counting.misconception
def adds_queries_and_keys(n, use_cache):
    """You add the numbers of queries and keys. Each query meets each key: multiply."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries + keys
    return total


@counting.misconception
def adds_without_a_cache(n, use_cache):
    """Without a cache you add the numbers of queries and keys. Each query meets each key: multiply."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys if use_cache else queries + keys
    return total


@counting.misconception
def counts_the_steps(n, use_cache):
    """Your result is the number of steps, n. At step t every query meets the keys of all t positions."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += 1
    return total


@counting.alternative
def by_formulas(n, use_cache):
    return n * (n + 1) // 2 if use_cache else n * (n + 1) * (2 * n + 1) // 6


@counting.alternative
def as_a_sum(n, use_cache):
    return sum(t if use_cache else t**2 for t in range(n + 1))


@counting.alternative
def with_tensors(n, use_cache):
    t = torch.arange(1, n + 1)
    return t.sum() if use_cache else (t * t).sum()


@counting.alternative
def by_counting_pairs(n, use_cache):
    return len([0 for t in range(n) for q in range(t + 1) for k in range(t + 1) if q == t or not use_cache])
