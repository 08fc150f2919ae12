"""The exercise `causal_mask`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import masks
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
    expect_mask,
    expect_truth_values,
)

causal_mask = Exercise(
    masks.causal_mask,
    cases=[{"n": 4}, {"n": 1}, {"n": 7}],
    minutes=5,
    difficulty=1,
    hints=[
        "Row i is the question of position i. Write the four rows of the 4 × 4 mask on paper: what is allowed?",
        "The allowed places form a triangle, and the diagonal belongs to it. torch has a function for triangles.",
        "torch.tril keeps the lower triangle of a matrix. What matrix do you give it, and of which dtype?",
        "One line: torch.tril(torch.ones(n, n, dtype=torch.bool)).",
    ],
)


def causal_answer(subject, case):
    return expect_truth_values(subject(case["n"]), (case["n"], case["n"]))


@causal_mask.property("the mask is n × n, True or False", points=1)
def causal_shape(subject, case):
    causal_answer(subject, case)


@causal_mask.property("every position may look at itself", points=1)
def causal_diagonal(subject, case):
    diagonal = causal_answer(subject, case).diagonal()
    expect(diagonal.all(), "A position on the diagonal is hidden: position i must see position i.")


@causal_mask.property("no position may look at a later one", points=1)
def causal_future(subject, case):
    future = torch.triu(causal_answer(subject, case), diagonal=1)
    expect(not future.any(), "There is a True above the diagonal: a position sees its own future.")


@causal_mask.property("every position may look at all earlier ones", points=1)
def causal_past(subject, case):
    expect_mask(subject(case["n"]), masks.causal_mask(case["n"]))


@causal_mask.misconception
def shows_the_future(n):
    """Your triangle is the wrong one: row i is the query, and it may look left (to the past), not right."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.triu(everything, diagonal=0)


@causal_mask.misconception
def hides_the_diagonal(n):
    """A position must see itself: your first row can attend to nothing at all. Keep the diagonal."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=-1)


@causal_mask.misconception
def peeks_one_ahead(n):
    """Each position sees one step into the future: your triangle reaches one diagonal too far."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=1)


@causal_mask.misconception
def marks_what_is_hidden(n):
    """Your mask is True where attention is forbidden. In this course True means allowed."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return ~torch.tril(everything, diagonal=0)


@causal_mask.misconception
def allows_everything(n):
    """Nothing is hidden: every position sees the whole sequence, its own future included."""
    return torch.ones(n, n, dtype=torch.bool)


@causal_mask.misconception
def sees_only_itself(n):
    """Each position sees itself alone: the past is hidden too."""
    return torch.eye(n, dtype=torch.bool)


@causal_mask.misconception
def sees_only_the_last_step(n):
    """Each position sees itself and the one before it. It may see the whole past, back to position 0."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0) & torch.triu(everything, diagonal=-1)


@causal_mask.misconception
def counts_the_keys_backwards(n):
    """Your triangle leans to the wrong side: the last query sees one key, the first sees all. The first sees least."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.tril(everything, diagonal=0).flip(0)


@causal_mask.misconception
def is_additive(n):
    """This is an additive mask (0 and -inf), meant to be added to the scores. Here a boolean one is wanted."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return torch.zeros(n, n).masked_fill(~torch.tril(everything, diagonal=0), -math.inf)


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
def with_axes_for_batch_and_heads(n):
    return torch.ones(n, n, dtype=torch.uint8).triu().mT[None, None]
