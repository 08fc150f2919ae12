"""The exercise `attention_memory`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect
from course_lib.exercises.long_sequences.shared import whole_number

memory = Exercise(
    long_sequences.attention_memory,
    cases=[
        {"batch": 2, "num_heads": 3, "length": 5, "copies": 7, "bytes_per_number": 4},
        {"batch": 16, "num_heads": 1, "length": 1000, "copies": 4, "bytes_per_number": 4},
        {"batch": 1, "num_heads": 8, "length": 10, "copies": 6, "bytes_per_number": 2},
    ],
    minutes=3,
    difficulty=1,
    hints=[
        "How many scores are there for one head of one sequence? Every query meets every key.",
        "length · length scores for each head of each sequence in the batch, and `copies` such matrices.",
        "The number of matrices, times the entries of one matrix, times the bytes of one entry.",
        "batch * num_heads * copies * length**2 * bytes_per_number.",
    ],
)


def memory_of(subject, case, **changed):
    return whole_number(subject(*{**case, **changed}.values()), "The number of bytes")


@memory.property("a whole number comes back, greater than 0", points=1)
def memory_is_a_number(subject, case):
    found = memory_of(subject, case)
    expect(found > 0, f"The number of bytes should be greater than 0, but it is {found}.")


def expect_factor(subject, case, name, factor):
    before, after = memory_of(subject, case), memory_of(subject, case, **{name: 2 * case[name]})
    expect(
        after == factor * before,
        f"When {name} goes from {case[name]} to {2 * case[name]}, the memory should become {factor} times as large, "
        f"but it goes from {before} to {after}.",
    )


@memory.property("twice the length: four times the memory", points=1)
def memory_of_a_longer_sequence(subject, case):
    expect_factor(subject, case, "length", 4)


@memory.property("twice the batch, the heads, the copies or the bytes: twice the memory", points=1)
def memory_of_more_matrices(subject, case):
    for name in ("batch", "num_heads", "copies", "bytes_per_number"):
        expect_factor(subject, case, name, 2)


@memory.property("the number of bytes is right", points=1)
def memory_in_bytes(subject, case):
    found, want = memory_of(subject, case), memory.want(case)
    expect(found == want, f"It should be {want:,} bytes, but it is {found:,}.")


@memory.misconception
def one_score_for_each_token(batch, num_heads, length, copies, bytes_per_number):
    """You count `length` scores in a matrix. Every query has a score for every key: length times length."""
    pairs = length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def counts_the_sides_of_the_matrix(batch, num_heads, length, copies, bytes_per_number):
    """You count length + length for a matrix. It has length rows with length scores each: multiply."""
    pairs = length + length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def counts_each_pair_once(batch, num_heads, length, copies, bytes_per_number):
    """You count each pair of positions once. Score (i, j) and score (j, i) are different numbers, and both are kept."""
    pairs = length * (length + 1) // 2
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def leaves_out_a_position_with_itself(batch, num_heads, length, copies, bytes_per_number):
    """You leave out the pairs of a position with itself. The diagonal of the matrix is kept as well."""
    pairs = length * (length - 1)
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def cubes_the_length(batch, num_heads, length, copies, bytes_per_number):
    """You count length³ scores. A matrix has one score for each query and each key: length²."""
    pairs = length * length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def forgets_the_batch(batch, num_heads, length, copies, bytes_per_number):
    """You leave out the batch. Every sequence has score matrices of its own."""
    pairs = length * length
    matrices = num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def forgets_the_heads(batch, num_heads, length, copies, bytes_per_number):
    """You leave out the heads. Every head has a score matrix of its own."""
    pairs = length * length
    matrices = batch * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def divides_by_the_heads(batch, num_heads, length, copies, bytes_per_number):
    """You divide by the number of heads. Heads share the features, but each has a whole length × length matrix."""
    pairs = length * length
    matrices = batch * copies
    return matrices * pairs * bytes_per_number // num_heads


@memory.misconception
def forgets_the_copies(batch, num_heads, length, copies, bytes_per_number):
    """You leave out the copies. That many matrices of this size are kept at the same time."""
    pairs = length * length
    matrices = batch * num_heads
    return matrices * pairs * bytes_per_number


@memory.misconception
def counts_numbers_and_not_bytes(batch, num_heads, length, copies, bytes_per_number):
    """You count numbers. Each of them takes `bytes_per_number` bytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs


@memory.misconception
def counts_bits(batch, num_heads, length, copies, bytes_per_number):
    """You count bits. The question is how many bytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number * 8


@memory.misconception
def always_four_bytes(batch, num_heads, length, copies, bytes_per_number):
    """You count four bytes for every number. How many there are is an argument, `bytes_per_number`."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * 4


@memory.misconception
def adds_the_copies(batch, num_heads, length, copies, bytes_per_number):
    """You add the copies to the number of matrices. There are `copies` matrices for each head of each sequence:
    multiply."""
    pairs = length * length
    matrices = batch * num_heads + copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def one_matrix_for_the_whole_batch(batch, num_heads, length, copies, bytes_per_number):
    """You let the sequences of a batch attend to each other: the matrix is (batch · length) × (batch · length). Every
    sequence has its own length × length matrix."""
    pairs = (batch * length) * (batch * length)
    matrices = num_heads * copies
    return matrices * pairs * bytes_per_number


@memory.misconception
def one_copy_more(batch, num_heads, length, copies, bytes_per_number):
    """You count one matrix more than there are copies. The scores themselves are among the `copies`."""
    pairs = length * length
    matrices = batch * num_heads * (copies + 1)
    return matrices * pairs * bytes_per_number


@memory.misconception
def in_kilobytes(batch, num_heads, length, copies, bytes_per_number):
    """You divide by 1024. The number of bytes is asked for, not of kilobytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number / 1024


@memory.misconception
def in_megabytes(batch, num_heads, length, copies, bytes_per_number):
    """You divide by a million. The number of bytes is asked for, not of megabytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number / 1e6


@memory.misconception
def in_mebibytes(batch, num_heads, length, copies, bytes_per_number):
    """You divide by 1024². The number of bytes is asked for, not of megabytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number / 1024**2


@memory.misconception
def in_gigabytes(batch, num_heads, length, copies, bytes_per_number):
    """You divide by a billion (10⁹). The number of bytes is asked for, not of gigabytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number / 1e9


@memory.misconception
def in_gibibytes(batch, num_heads, length, copies, bytes_per_number):
    """You divide by 1024³. The number of bytes is asked for, not of gigabytes."""
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number / 1024**3


@memory.alternative
def memory_in_one_line(batch, num_heads, length, copies, bytes_per_number):
    return batch * num_heads * length**2 * copies * bytes_per_number


@memory.alternative
def memory_of_a_tensor(batch, num_heads, length, copies, bytes_per_number):
    scores = torch.empty(batch, num_heads, length, length, dtype=torch.uint8, device="meta")
    return scores.numel() * copies * bytes_per_number


@memory.alternative
def memory_as_a_product(batch, num_heads, length, copies, bytes_per_number):
    return math.prod([batch, num_heads, length, length, copies, bytes_per_number])


@memory.alternative
def memory_as_a_float(batch, num_heads, length, copies, bytes_per_number):
    return float(batch * num_heads) * length * length * copies * bytes_per_number


@memory.alternative
def memory_as_a_numbered_tensor(batch, num_heads, length, copies, bytes_per_number):
    return torch.tensor([batch, num_heads, length, length, copies, bytes_per_number]).prod()


@memory.alternative
def memory_head_by_head(batch, num_heads, length, copies, bytes_per_number):
    one = length * length * bytes_per_number
    return sum(one for _ in range(batch) for _ in range(num_heads)) * copies
