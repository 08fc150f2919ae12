"""The exercise `causal_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_mask
from course_lib.exercises.masks.shared import first_place, keys_in, mask_from, refuse

causal_mask = Exercise(
    masks.causal_mask,
    cases=[{"n": 4}, {"n": 1}, {"n": 7}],
    minutes=5,
    difficulty=1,
    hints=[
        "Row i belongs to query i. Write the four rows of the 4 × 4 mask on paper: what is allowed?",
        "The allowed places form a triangle, and the diagonal belongs to it. torch has a function for triangles.",
        "torch.tril keeps the lower triangle of a matrix. What matrix do you give it, and of which dtype?",
        "One line: torch.tril(torch.ones(n, n, dtype=torch.bool)).",
    ],
)


def causal_answer(subject, case):
    return mask_from(subject, (case["n"],), (case["n"], case["n"]))


@causal_mask.property("the mask is n × n, True or False", points=1)
def causal_shape(subject, case):
    causal_answer(subject, case)


@causal_mask.property("the first position sees only itself, the last one sees all", points=1)
def causal_ends(subject, case):
    answer, want = causal_answer(subject, case), causal_mask.want(case)
    for row, name in ((0, "first"), (-1, "last")):
        if not answer[row].equal(want[row]):
            message = f"The {name} row allows {keys_in(answer[row])}. It should allow {keys_in(want[row])}."
            refuse(message, answer, want)


@causal_mask.property("no position may look at a later one", points=1)
def causal_future(subject, case):
    answer = causal_answer(subject, case)
    future = torch.triu(answer, diagonal=1)
    if future.any():
        query, key = first_place(future)
        refuse(f"Query {query} sees key {key}, which lies in its future.", answer, causal_mask.want(case))


@causal_mask.property("every position may look at itself and at all earlier ones", points=1)
def causal_past(subject, case):
    expect_mask(causal_answer(subject, case), causal_mask.want(case))


@causal_mask.misconception
def shows_the_future(n):
    """You keep the upper triangle. Row i is the query, and it may look left (to the past), not right."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.triu(everything, diagonal=0)


@causal_mask.misconception
def hides_the_diagonal(n):
    """You leave out the diagonal. A position may see itself.

    As it is, your first row can attend to nothing at all."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=-1)


@causal_mask.misconception
def peeks_one_ahead(n):
    """Your triangle reaches one diagonal too far.

    So each position sees one step into the future."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=1)


@causal_mask.misconception
def marks_what_is_hidden(n):
    """Your mask is True where attention is forbidden. In this course True means allowed."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return ~torch.tril(everything, diagonal=0)


@causal_mask.misconception
def allows_everything(n):
    """You hide nothing: every position sees the whole sequence, its own future included."""
    return torch.ones(n, n, dtype=torch.bool)


@causal_mask.misconception
def sees_only_itself(n):
    """Each position sees only itself: the past is hidden too."""
    return torch.eye(n, dtype=torch.bool)


@causal_mask.misconception
def sees_only_the_last_step(n):
    """Each position sees itself and the one before it. It may see the whole past, back to position 0."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0) & torch.triu(everything, diagonal=-1)


@causal_mask.misconception
def counts_the_keys_backwards(n):
    """Your rows are in reverse order: the first query sees all keys, the last one sees only one. The first should see
    the fewest."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0).flip(0)


@causal_mask.misconception
def is_additive(n):
    """You return an additive mask (0 and -inf), to be added to the scores. Return a boolean one."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.zeros(n, n).masked_fill(~torch.tril(everything, diagonal=0), -math.inf)


@causal_mask.misconception
def marks_the_future_one_step_on(n):
    """You mark what is forbidden, and your triangle begins one diagonal too late. In this course True means allowed."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.triu(everything, diagonal=2)


@causal_mask.misconception
def counts_the_queries_backwards(n):
    """Your columns are in reverse order: the first query sees the last key. It should see the first one, itself."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0).flip(1)


@causal_mask.misconception
def has_an_axis_too_many(n):
    """Your mask has more axes than (n, n). Further axes are added later, where they are needed.

    Its entries are right."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0)[None]


@causal_mask.alternative
def by_comparison(n):
    positions = torch.arange(n)
    return positions[:, None] >= positions


@causal_mask.alternative
def row_by_row(n):
    rows = [[1] * (i + 1) + [0] * (n - 1 - i) for i in range(n)]
    return torch.tensor(rows)


@causal_mask.alternative
def inverted_upper_triangle(n):
    return ~torch.triu(torch.ones(n, n), diagonal=1).bool()


@causal_mask.alternative
def by_indices(n):
    mask = torch.ones(n, n)
    mask[tuple(torch.triu_indices(n, n, offset=1))] = 0
    return mask


@causal_mask.alternative
def transposed_upper_triangle(n):
    return torch.ones(n, n, dtype=torch.uint8).triu().mT
