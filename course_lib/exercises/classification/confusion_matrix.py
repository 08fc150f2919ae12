"""The exercise `confusion_matrix`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Differs, expect, expect_tensor

confusion_matrix = Exercise(
    classification.confusion_matrix,
    cases=[
        {
            "predicted": torch.tensor([0, 1, 1, 2, 1, 1, 0]),
            "actual": torch.tensor([0, 2, 1, 2, 2, 0, 2]),
            "num_classes": 3,
        },
        {
            "predicted": torch.tensor([2, 0, 3, 3, 0, 2, 3, 0, 3]),
            "actual": torch.tensor([2, 1, 3, 2, 1, 0, 1, 0, 3]),
            "num_classes": 5,
        },
        {"predicted": torch.tensor([1, 1, 0, 1, 1]), "actual": torch.tensor([0, 1, 1, 0, 0]), "num_classes": 2},
        {
            "predicted": torch.arange(40) * 7 % 11 % 6,
            "actual": torch.arange(40) * 5 % 13 % 6,
            "num_classes": 6,
        },
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "Start with a square of zeros. Each example adds 1 at one place: which row, which column?",
        "for guess, truth in zip(predicted, actual): … is enough. The row is the truth.",
        "`matrix[actual, predicted] += 1` does not work: a place that is listed twice is raised only once. A loop "
        "works, or one number for each pair and torch.bincount.",
        "matrix = torch.zeros(num_classes, num_classes, dtype=torch.long); in the loop: matrix[truth, guess] += 1",
    ],
)


def matrix_of(subject, case) -> Tensor:
    """What the subject makes of a case: a square of whole numbers, of whatever dtype."""
    size = case["num_classes"]
    got = expect_tensor(subject(*case.values()), (size, size), "the matrix (num_classes, num_classes)")
    expect(
        not (got.is_floating_point() and got.isnan().any()),
        "The matrix contains NaN (not a number). Every entry is a whole number.",
    )
    expect(got.dtype != torch.bool, f"The matrix should hold whole numbers, but its dtype is {got.dtype}.")
    expect(
        torch.equal(got, got.round()) if got.is_floating_point() else True,
        "The matrix should hold whole numbers: how often, not which share.",
    )
    return got.long()


def expect_counts(got: list[int], want: list[int], what: str) -> None:
    expect(got == want, f"{what} should be {want}, but it is {got}.")


@confusion_matrix.property("a square of whole numbers: (num_classes, num_classes)", points=1)
def matrix_shape(subject, case):
    matrix_of(subject, case)


@confusion_matrix.property("every example is counted once", points=1)
def matrix_total(subject, case):
    got, examples = int(matrix_of(subject, case).sum()), len(case["actual"])
    expect(got == examples, f"There are {examples} examples, but the entries of your matrix add up to {got}.")


@confusion_matrix.property("the diagonal holds the right answers of each class", points=1)
def matrix_diagonal(subject, case):
    got = matrix_of(subject, case).diagonal().tolist()
    expect_counts(got, confusion_matrix.want(case).diagonal().tolist(), "The diagonal")


@confusion_matrix.property("each row adds up to the examples of its actual class", points=1)
def matrix_rows(subject, case):
    got = matrix_of(subject, case).sum(dim=1).tolist()
    expect_counts(got, confusion_matrix.want(case).sum(dim=1).tolist(), "The list of all sums of rows")


@confusion_matrix.property("every entry says how often that row was taken for that column", points=1)
def matrix_entries(subject, case):
    got, want = matrix_of(subject, case), confusion_matrix.want(case)
    if not torch.equal(got, want):
        raise Differs("The matrix has the right shape but wrong entries.", got, want)


@confusion_matrix.misconception
def exchanges_rows_and_columns(predicted, actual, num_classes):
    """Your rows are the predicted classes. The row is the actual class, the column the predicted one.

    Read in the usual way, your matrix says that dogs were called cats where cats were called dogs."""
    pairs = predicted * num_classes + actual
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def divides_by_all_examples(predicted, actual, num_classes):
    """You divide by the number of examples. Whole numbers are asked for: how often, not which share."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes) / len(actual)


@confusion_matrix.misconception
def divides_each_row(predicted, actual, num_classes):
    """You divide each row by its sum. Whole numbers are asked for: how often, not which share.

    Shares hide how many examples a class has."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    matrix = counts.reshape(num_classes, num_classes)
    return matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)


@confusion_matrix.misconception
def divides_each_column(predicted, actual, num_classes):
    """You divide each column by its sum. Whole numbers are asked for: how often, not which share."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    matrix = counts.reshape(num_classes, num_classes)
    return matrix / matrix.sum(dim=0, keepdim=True).clamp(min=1)


@confusion_matrix.misconception
def counts_each_pair_once(predicted, actual, num_classes):
    """Every pair is counted once, however often it occurs. (`matrix[actual, predicted] += 1` adds 1 to each place
    once, even if the place is listed many times.)"""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).clamp(max=1)


@confusion_matrix.misconception
def takes_the_size_from_the_examples(predicted, actual, num_classes):
    """Your matrix is as large as the classes that occur. It has num_classes rows and columns, even for a class that
    does not occur."""
    num_classes = int(torch.cat([predicted, actual]).max()) + 1
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def counts_mistakes_alone(predicted, actual, num_classes):
    """You leave out the right answers: your diagonal is 0. They belong there."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).fill_diagonal_(0)


@confusion_matrix.misconception
def counts_right_answers_alone(predicted, actual, num_classes):
    """You count only the right answers. What was taken for what, the entries beside the diagonal, is missing."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).diagonal().diag()


@confusion_matrix.misconception
def adds_the_classes(predicted, actual, num_classes):
    """You add the two class numbers to find the place. Then different pairs meet in the same place: 0 + 2 and 1 + 1."""
    pairs = actual + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def counts_both_ways(predicted, actual, num_classes):
    """You count each example in both directions. Class i called j is one thing, class j called i another.

    Your matrix is symmetric, and right answers count twice."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    matrix = counts.reshape(num_classes, num_classes)
    return matrix + matrix.T


@confusion_matrix.misconception
def appends_totals(predicted, actual, num_classes):
    """You append the sums of rows and columns. The matrix has num_classes rows and columns and no more."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    matrix = counts.reshape(num_classes, num_classes)
    matrix = torch.cat([matrix, matrix.sum(dim=0, keepdim=True)])
    return torch.cat([matrix, matrix.sum(dim=1, keepdim=True)], dim=1)


@confusion_matrix.misconception
def returns_the_accuracy(predicted, actual, num_classes):
    """You return the share of right answers, one number. It says how often the model is wrong, but not which classes
    it mixes up."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).trace() / len(actual)


@confusion_matrix.misconception
def counts_classes_from_one(predicted, actual, num_classes):
    """You take the classes to be counted from 1. They are numbered from 0 to num_classes - 1.

    Everything lands one row too high and one column too far left, and class 0 in the last ones."""
    pairs = (actual - 1) % num_classes * num_classes + (predicted - 1) % num_classes
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def starts_with_ones(predicted, actual, num_classes):
    """Your counts start at 1. They start at 0."""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes) + 1


@confusion_matrix.misconception
def counts_the_predictions(predicted, actual, num_classes):
    """You count how often each class was predicted, on the diagonal. Each entry is about a pair: the actual class
    and the predicted one."""
    pairs = predicted * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def counts_the_actual_classes(predicted, actual, num_classes):
    """You count how often each class occurs, on the diagonal. Each entry is about a pair: the actual class and the
    predicted one."""
    pairs = actual * num_classes + actual
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def leaves_out_the_last_example(predicted, actual, num_classes):
    """You leave out the last example."""
    pairs = (actual * num_classes + predicted)[:-1]
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


@confusion_matrix.misconception
def numbers_the_examples(predicted, actual, num_classes):
    """Your matrix has one row for each example. It has one for each class: examples of the same class are added up."""
    pairs = torch.arange(len(actual)) * num_classes + predicted
    counts = torch.bincount(pairs, minlength=len(actual) * num_classes)
    return counts.reshape(len(actual), num_classes)


@confusion_matrix.misconception
def shares_one_row(predicted, actual, num_classes):
    """All rows of your matrix are one and the same. (`[[0] * n] * n` is one list, n times: whatever is written into
    one row is in all of them.)"""
    pairs = actual * num_classes + predicted
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).sum(dim=0).expand(num_classes, -1)


@confusion_matrix.alternative
def one_example_after_the_other(predicted, actual, num_classes):
    matrix = torch.zeros(num_classes, num_classes)
    for guess, truth in zip(predicted.tolist(), actual.tolist()):
        matrix[truth, guess] += 1
    return matrix


@confusion_matrix.alternative
def by_comparing_classes(predicted, actual, num_classes):
    rows = [[int(((actual == i) & (predicted == j)).sum()) for j in range(num_classes)] for i in range(num_classes)]
    return torch.tensor(rows, dtype=torch.int32)


@confusion_matrix.alternative
def by_a_product_of_one_hots(predicted, actual, num_classes):
    return F.one_hot(actual, num_classes).T @ F.one_hot(predicted, num_classes)


@confusion_matrix.alternative
def with_index_put(predicted, actual, num_classes):
    matrix = predicted.new_zeros(num_classes, num_classes)
    return matrix.index_put_((actual, predicted), torch.tensor(1), accumulate=True)


@confusion_matrix.alternative
def by_scattering(predicted, actual, num_classes):
    flat = torch.zeros(num_classes**2, dtype=torch.float64)
    flat.scatter_add_(0, actual * num_classes + predicted, torch.ones(len(actual), dtype=torch.float64))
    return flat.view(num_classes, num_classes)


@confusion_matrix.alternative
def by_a_histogram(predicted, actual, num_classes):
    both = torch.stack([predicted, actual]).double()
    edges = torch.arange(num_classes + 1).double() - 0.5
    return torch.histogramdd(both.T.contiguous(), bins=[edges, edges]).hist.T.round().int()
