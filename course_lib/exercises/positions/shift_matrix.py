"""The exercise `shift_matrix`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.positions import sinusoidal_encoding

shift_matrix = Exercise(
    reference.shift_matrix,
    cases=[
        {"k": 1, "d_model": 2},
        {"k": 3, "d_model": 4},
        {"k": -2, "d_model": 6},
        {"k": 17, "d_model": 8},
        {"k": 0, "d_model": 10},
    ],
    minutes=12,
    difficulty=3,
    hints=[
        "Start with d_model = 2: one pair, frequency 1. Write out sin(pos + k) and cos(pos + k).",
        "sin(a + b) = sin a cos b + cos a sin b and cos(a + b) = cos a cos b - sin a sin b. The numbers in front of "
        "sin a and cos a are the four entries of a 2 × 2 block.",
        "A larger matrix has one such block for each pair on its diagonal, with b = k · 10000^(-2i/d_model), and zeros "
        "elsewhere.",
        "For pair i, with s = 2i and c = 2i + 1: matrix[s, s] = matrix[c, c] = cos b, matrix[s, c] = sin b, "
        "matrix[c, s] = -sin b.",
    ],
)


def shift_of(subject, case):
    d_model = case["d_model"]
    return expect_floats(subject(case["k"], d_model), (d_model, d_model), "the matrix").double()


@shift_matrix.property("the matrix is d_model × d_model", points=1)
def shift_shape(subject, case):
    shift_of(subject, case)


def vector_at(pos, d_model):
    """PE(pos) of any position, negative ones too, in double precision."""
    column = torch.arange(d_model)
    angles = pos * 10000.0 ** (-(column - column % 2).double() / d_model)
    return torch.where(column % 2 == 0, angles.sin(), angles.cos())


def expect_shift(matrix, pos, k):
    want = vector_at(pos + k, len(matrix))
    expect_close(
        matrix @ vector_at(pos, len(matrix)), want, f"M @ PE({pos}), which should be PE({pos + k}),", atol=1e-4
    )


@shift_matrix.property("M @ PE(0) = PE(k)", points=1)
def shift_of_position_zero(subject, case):
    expect_shift(shift_of(subject, case), 0, case["k"])


@shift_matrix.property("pairs do not mix: only the 2 × 2 blocks on the diagonal are filled", points=1)
def shift_blocks(subject, case):
    matrix = shift_of(subject, case)
    pair = torch.arange(case["d_model"]) // 2
    outside = matrix * (pair[:, None] != pair[None, :])
    expect_close(outside, torch.zeros_like(outside), "the part of the matrix outside the blocks")


@shift_matrix.property("it turns and does not stretch: every vector keeps its length", points=1)
def shift_is_orthogonal(subject, case):
    matrix = shift_of(subject, case)
    expect_close(
        matrix.T @ matrix,
        torch.eye(case["d_model"], dtype=torch.float64),
        "Mᵀ M, which is the identity for a rotation,",
    )


@shift_matrix.property("M @ PE(pos) = PE(pos + k), whatever pos is", points=2)
def shift_values(subject, case):
    matrix = shift_of(subject, case)
    for pos in (2, 3, 10, 40):
        expect_shift(matrix, pos, case["k"])


@shift_matrix.misconception
def shifts_backwards(k, d_model):
    """Your matrix turns the wrong way: the minus is at the wrong sine, the angle has an extra one, or the matrix is
    meant for row vectors.

    So it moves a vector back by k."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = -math.sin(angle)
        matrix[c, s] = math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def forgets_the_minus(k, d_model):
    """You give both sines of a block the same sign. In cos(a + b) = cos a cos b - sin a sin b one of them is a minus.

    As it is, your blocks are not rotations."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def turns_all_pairs_alike(k, d_model):
    """You turn every pair by the angle k. Each pair has a frequency of its own, and its angle is k times that."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def pairs_the_two_halves(k, d_model):
    """You pair column i with column i + d_model/2. In the interleaved table the columns 2i and 2i+1 are a pair."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = i, i + d_model // 2
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def doubles_the_exponent_of_the_shift(k, d_model):
    """Your frequencies are 10000^(-4i/d_model), with i the number of the pair. The exponent is 2i/d_model."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (4 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def halves_the_exponent_of_the_shift(k, d_model):
    """Your frequencies are 10000^(-i/d_model), with i the number of the pair. The exponent is 2i/d_model."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def multiplies_the_angle(k, d_model):
    """You multiply k by 10000^(2i/d_model) where you should divide: later pairs turn more slowly, not faster."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k * 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def swaps_sine_and_cosine_in_the_blocks(k, d_model):
    """Sine and cosine are swapped in your blocks: the cosines belong on the diagonal.

    For k = 0 the matrix should be the identity, and cos 0 = 1."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.sin(angle)
        matrix[s, c] = math.cos(angle)
        matrix[c, s] = -math.cos(angle)
        matrix[c, c] = math.sin(angle)
    return matrix


@shift_matrix.misconception
def scales_each_column(k, d_model):
    """You fill only the diagonal. To turn a pair, its sine needs a part of its cosine, and vice versa.

    As it is, each number is scaled by itself."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def always_shifts_by_one(k, d_model):
    """You do not use k in the angles.

    So the matrix shifts by one step, whatever k is."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = 1 / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def rolls_the_columns(k, d_model):
    """Your matrix moves the columns of a vector by k places. The shift is along the positions: it turns each pair and
    leaves every column where it is."""
    return torch.roll(torch.eye(d_model), k, dims=0)


@shift_matrix.misconception
def uses_the_base_1000_for_the_shift(k, d_model):
    """Your base is 1000; the table's is 10000."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 1000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def fits_one_position_only(k, d_model):
    """You make the matrix for one position: it maps PE(0) to PE(k). One M has to work for all positions."""
    start, end = sinusoidal_encoding(1, d_model)[0], sinusoidal_encoding(abs(k) + 1, d_model)[-1]
    if k < 0:
        end = end * torch.tensor([-1.0, 1.0]).repeat(d_model // 2)
    return torch.outer(end, start) / (start @ start)


@shift_matrix.misconception
def forgets_the_last_pair(k, d_model):
    """Your loop over the pairs stops one too early.

    So the last pair of columns has no block."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2 - 1):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def turns_in_degrees(k, d_model):
    """You treat the angles as degrees. sin and cos expect radians, and k times the frequency is already in radians."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model) * math.pi / 180
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def is_always_the_identity(k, d_model):
    """Your matrix is the identity: it changes nothing, whatever k is."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = 0 / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def leaves_the_other_pairs_alone(k, d_model):
    """Only the first pair is turned; the others stay where they are, or nearly so. Each pair has a frequency of its
    own, 10000^(-2i/d_model)."""
    matrix = torch.eye(d_model)
    for i in range(1):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def counts_the_pairs_from_one(k, d_model):
    """You count the pairs from 1. The first pair has i = 0 and the frequency 1."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * (i + 1) / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def has_two_minuses(k, d_model):
    """You give both sines of a block a minus. In sin(a + b) = sin a cos b + cos a sin b there is none.

    As it is, your blocks are not rotations."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = -math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.misconception
def swaps_sine_and_cosine_with_the_minus_last(k, d_model):
    """Sine and cosine are swapped in your blocks: the cosines belong on the diagonal.

    For k = 0 the matrix should be the identity, and cos 0 = 1."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.sin(angle)
        matrix[s, c] = math.cos(angle)
        matrix[c, s] = math.cos(angle)
        matrix[c, c] = -math.sin(angle)
    return matrix


@shift_matrix.misconception
def takes_the_size_of_k(k, d_model):
    """You ignore the sign of k. A negative k moves back."""
    k = abs(k)
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift_matrix.alternative
def as_a_block_diagonal(k, d_model):
    angles = [k * 1e-4 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*[torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles])


@shift_matrix.alternative
def as_a_matrix_exponential(k, d_model):
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    spin = torch.zeros(d_model, d_model, dtype=torch.float64)
    even = torch.arange(0, d_model, 2)
    spin[even, even + 1], spin[even + 1, even] = frequencies, -frequencies
    return torch.linalg.matrix_exp(k * spin)


@shift_matrix.alternative
def by_least_squares(k, d_model):
    """Found from many positions instead of a formula."""
    frequencies = 10000.0 ** (-(torch.arange(d_model, dtype=torch.float64) // 2) * 2 / d_model)
    pos = torch.arange(0, 40000, 7, dtype=torch.float64)[:, None]
    even = torch.arange(d_model) % 2 == 0
    before = torch.where(even, (pos * frequencies).sin(), (pos * frequencies).cos())
    after = torch.where(even, ((pos + k) * frequencies).sin(), ((pos + k) * frequencies).cos())
    return torch.linalg.lstsq(before, after).solution.T


@shift_matrix.alternative
def from_diagonals(k, d_model):
    angles = (k * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)).repeat_interleave(2)
    off = angles.sin() * (torch.arange(d_model) % 2 == 0)
    return torch.diag(angles.cos()) + torch.diag(off[:-1], 1) - torch.diag(off[:-1], -1)
