"""The exercise `batch_matmul`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import start_here
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.checking.inputs import normal

batch_matmul = Exercise(
    start_here.batch_matmul,
    cases=[
        {"a": normal(1, 2, 3, seed=21), "b": normal(1, 3, 2, seed=22)},
        {"a": normal(2, 3, 4, seed=23), "b": normal(2, 4, 5, seed=24)},
        {"a": normal(3, 2, 2, seed=25, scale=3), "b": normal(3, 2, 2, seed=26, scale=3)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Do it for one example first: a[0] @ b[0]. Then for all of them, one after the other, in a loop.",
        "In the loop version, collect the products in a list; torch.stack turns it into one tensor (batch, n, m).",
        "Now without the loop: torch treats all axes but the last two as batch axes. Which operator does that?",
        "a @ b, or torch.bmm(a, b), or torch.einsum('snf,sfm->snm', a, b).",
    ],
)


@batch_matmul.property("there is one n × m matrix for each example: (batch, n, m)", points=1)
def matmul_shape(subject, case):
    a, b = case.values()
    expect_floats(subject(a, b), (a.shape[0], a.shape[1], b.shape[2]), "the product")


@batch_matmul.property("multiplying by the identity matrix changes nothing", points=1)
def matmul_with_identity(subject, case):
    a, _ = case.values()
    identity = torch.eye(a.shape[2], dtype=a.dtype).repeat(a.shape[0], 1, 1)
    expect_close(subject(a, identity), a, "the product of a with identity matrices")


@batch_matmul.property("it is right for a batch of one example", points=1)
def matmul_of_one_example(subject, case):
    a, b = (matrices[-1:] for matrices in case.values())
    what = f"for the last example alone (a {tuple(a.shape)}, b {tuple(b.shape)}), the product"
    expect_close(subject(a, b), start_here.batch_matmul(a, b), what)


@batch_matmul.property("entry [s, i, j] is the sum over f of a[s, i, f] · b[s, f, j]", points=2)
def matmul_values(subject, case):
    expect_close(subject(*case.values()), batch_matmul.want(case), "the product")


@batch_matmul.misconception
def multiplies_entry_by_entry(a, b):
    """You multiply entry by entry, as * does. A matrix product adds up products of a row with a column."""
    return a * b


@batch_matmul.misconception
def transposes_b(a, b):
    """You multiply rows of a with rows of b: b is transposed once too often."""
    return a @ b.transpose(1, 2)


@batch_matmul.misconception
def transposes_each_b(a, b):
    """You multiply rows of a with rows of b: each matrix of b is transposed once too often."""
    return torch.stack([one @ other.T for one, other in zip(a, b, strict=True)])


@batch_matmul.misconception
def reshapes_b(a, b):
    """You reshape b, which already has the right shape.

    A reshape does not exchange rows and columns: it cuts the same numbers into other rows.
    """
    return a @ b.reshape(b.shape[0], b.shape[2], b.shape[1])


@batch_matmul.misconception
def transposes_a(a, b):
    """You multiply columns of a with columns of b: a is transposed once too often."""
    return a.transpose(1, 2) @ b


@batch_matmul.misconception
def takes_the_first_b_for_all(a, b):
    """Every example is multiplied by the first matrix of b. Example s of a belongs to example s of b."""
    return a @ b[0]


@batch_matmul.misconception
def takes_the_last_b_for_all(a, b):
    """Every example is multiplied by the last matrix of b. Example s of a belongs to example s of b."""
    return a @ b[-1]


@batch_matmul.misconception
def repeats_the_first_product(a, b):
    """Every example gets the product of the first one. Each has a product of its own."""
    return (a[0] @ b[0]).expand(len(a), -1, -1)


@batch_matmul.misconception
def takes_the_first_a_for_all(a, b):
    """You use only the first matrix of a, for every example. Example s of a belongs to example s of b."""
    return a[0] @ b


@batch_matmul.misconception
def multiplies_every_example_with_every_other(a, b):
    """You multiply each example of a with each example of b. Example s belongs to example s alone.

    There are two batch axes in the result.
    """
    return torch.tensordot(a, b, dims=([2], [1]))


@batch_matmul.misconception
def adds_up_over_the_batch(a, b):
    """You sum the matrices of b over the examples too.

    Every result contains the matrices of all examples.
    """
    return a @ b.sum(dim=0)


@batch_matmul.misconception
def loses_the_batch(a, b):
    """You sum over the batch. Each example keeps a product of its own.

    One matrix is left.
    """
    return (a @ b).sum(dim=0)


@batch_matmul.misconception
def keeps_only_the_last_example(a, b):
    """Only the product of the last example is left: a loop has to collect the product of each of its rounds."""
    return (a @ b)[-1]


@batch_matmul.misconception
def keeps_only_the_first_example(a, b):
    """Only the product of the first example comes back, perhaps because a `return` is inside the loop. Collect the
    products of all examples."""
    return (a @ b)[0]


@batch_matmul.misconception
def returns_a_list(a, b):
    """You return a list of matrices. Return one tensor of shape (batch, n, m): stack them."""
    return list(a @ b)


@batch_matmul.misconception
def keeps_only_the_last_term(a, b):
    """Only the last term of each sum over f is left. Add them all up.

    In a loop over f, every term overwrites the one before it.
    """
    return a[:, :, -1:] @ b[:, -1:]


@batch_matmul.misconception
def keeps_only_the_first_term(a, b):
    """Only the first term of each sum over f is there. Add them all up."""
    return a[:, :, :1] @ b[:, :1]


@batch_matmul.misconception
def returns_the_transpose(a, b):
    """Each product comes out transposed: rows belong to a, columns to b."""
    return (a @ b).transpose(1, 2)


@batch_matmul.misconception
def multiplies_in_the_wrong_order(a, b):
    """You compute b times a. A matrix product depends on the order: a comes first."""
    return b @ a


@batch_matmul.misconception
def averages(a, b):
    """You take the mean over the shared axis. A matrix product takes the sum."""
    return a @ b / a.shape[2]


@batch_matmul.misconception
def divides_by_the_root(a, b):
    """You divide by the square root of the width. That belongs to attention; return the plain product here."""
    return a @ b / a.shape[2] ** 0.5


@batch_matmul.misconception
def forgets_the_sum_over_k(a, b):
    """You return the single products a[s, i, f] · b[s, f, j]. They still have to be summed over f."""
    return a.unsqueeze(3) * b.unsqueeze(1)


@batch_matmul.misconception
def sums_over_the_columns(a, b):
    """You sum over the columns of b. Sum over the axis that a and b share, of length d."""
    return (a.unsqueeze(3) * b.unsqueeze(1)).sum(dim=3)


@batch_matmul.misconception
def sums_over_the_rows(a, b):
    """You sum over the rows of a. Sum over the axis that a and b share, of length d."""
    return (a.unsqueeze(3) * b.unsqueeze(1)).sum(dim=1)


@batch_matmul.misconception
def glues_the_products_together(a, b):
    """You join the products along an axis that they already have. They need a new axis: torch.stack, not torch.cat.

    The batch axis is gone.
    """
    return (a @ b).flatten(0, 1)


@batch_matmul.misconception
def stacks_along_axis_1(a, b):
    """The batch axis comes second in your result. It belongs in front: (batch, n, m)."""
    return (a @ b).movedim(0, 1)


@batch_matmul.misconception
def stacks_along_the_end(a, b):
    """The batch axis comes last in your result. It belongs in front: (batch, n, m)."""
    return (a @ b).movedim(0, -1)


@batch_matmul.misconception
def takes_torch_mm(a, b):
    """torch.mm takes two plain matrices and no batches. There is a function for batches of matrices, and an
    operator."""
    return torch.mm(a, b)


@batch_matmul.misconception
def reverses_all_axes(a, b):
    """You reverse all axes of b, as .T does, the batch axis too. Nothing has to be transposed here."""
    return a @ b.T


@batch_matmul.alternative
def by_broadcasting(a, b):
    products = a.unsqueeze(3) * b.unsqueeze(1)  # (batch, n, k, m)
    return products.sum(dim=2)


@batch_matmul.alternative
def with_bmm(a, b):
    return torch.bmm(a, b)


@batch_matmul.alternative
def by_a_loop(a, b):
    return torch.stack([one @ other for one, other in zip(a, b, strict=True)])


@batch_matmul.alternative
def with_einsum(a, b):
    return torch.einsum("zij,zjk->zik", a, b)


@batch_matmul.alternative
def by_four_loops(a, b):
    (batch, n, _), m = a.shape, b.shape[2]
    result = torch.zeros(batch, n, m)
    for s in range(batch):
        for i in range(n):
            for j in range(m):
                for left, right in zip(a[s, i], b[s, :, j], strict=True):
                    result[s, i, j] += left * right
    return result


@batch_matmul.alternative
def transposed_twice(a, b):
    return (b.mT @ a.mT).mT


@batch_matmul.alternative
def by_outer_products(a, b):
    return sum(a[:, :, k, None] * b[:, None, k, :] for k in range(a.shape[-1]))
