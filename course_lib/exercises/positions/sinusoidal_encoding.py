"""The exercise `sinusoidal_encoding`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats
from course_lib.exercises.positions.shared import for_an_even_width

sinusoidal_encoding = Exercise(
    reference.sinusoidal_encoding,
    cases=[
        {"n": 3, "d_model": 4},
        {"n": 5, "d_model": 6},
        {"n": 1, "d_model": 8},
        {"n": 4, "d_model": 7},
        {"n": 30, "d_model": 12},
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Fill in the 3 × 4 table by hand first: row 1 is sin(1), cos(1), sin(1/100), cos(1/100). Which columns share "
        "a number inside the brackets?",
        "Column c belongs to the pair i = c // 2. So the exponents of columns 0, 1, 2, 3, 4, 5 are 0, 0, 2, 2, 4, 4, "
        "each over d_model.",
        "A table of all angles has a row per position and a column per frequency: positions[:, None] * frequencies.",
        "Take the sine of every angle, then overwrite the columns 1::2 with the cosine of the same angles. Slicing the "
        "angles with 1::2 as well makes an odd d_model work by itself.",
    ],
)


def encoding_of(subject, case):
    return expect_floats(subject(case["n"], case["d_model"]), (case["n"], case["d_model"]), "the table")


@sinusoidal_encoding.property("the table has one row per position and one column per dimension", points=1)
@for_an_even_width
def encoding_shape(subject, case):
    encoding_of(subject, case)


@sinusoidal_encoding.property("position 0 is 0, 1, 0, 1, …", points=1)
@for_an_even_width
def encoding_of_position_zero(subject, case):
    row = encoding_of(subject, case)[0]
    want = torch.arange(case["d_model"]) % 2
    expect_close(row, want.double(), "the first row (sin 0 = 0 and cos 0 = 1 in turn)")


@sinusoidal_encoding.property("the first pair of columns is sin(pos), cos(pos)", points=1)
@for_an_even_width
def encoding_of_the_first_pair(subject, case):
    pair = encoding_of(subject, case)[:, :2]
    pos = torch.arange(case["n"], dtype=torch.float64)
    expect_close(pair, torch.stack([pos.sin(), pos.cos()], dim=1), "the first pair of columns")


@sinusoidal_encoding.property("the two columns of a pair belong to one angle: sin² + cos² = 1", points=1)
@for_an_even_width
def encoding_pairs(subject, case):
    squares = encoding_of(subject, case).unflatten(1, (-1, 2)).square().sum(dim=-1)
    expect_close(squares, torch.ones_like(squares), "the sum of squares of columns 2i and 2i+1")


@sinusoidal_encoding.property("pair i has the frequency 10000^(-2i/d_model)", points=1)
@for_an_even_width
def encoding_values(subject, case):
    expect_close(subject(case["n"], case["d_model"]), sinusoidal_encoding.want(case), "the table", atol=1e-4)


@sinusoidal_encoding.property("an odd d_model ends with a sine", points=1)
def encoding_of_an_odd_width(subject, case):
    if case["d_model"] % 2 == 0:
        return
    even = {**case, "d_model": case["d_model"] - 1}
    with subject.unobserved():
        # If this is wrong, the mistake is another one, and an odd width would only hide it.
        expect_close(encoding_of(subject, even), reference.sinusoidal_encoding(**even), "the table", atol=1e-4)
    expect_close(encoding_of(subject, case), sinusoidal_encoding.want(case), "the table", atol=1e-4)


@sinusoidal_encoding.misconception
def takes_the_column_for_the_pair(n, d_model):
    """You use the column number as i. The i of the formula counts pairs of columns.

    As it is, your exponents are twice as large as they should be, and a cosine no longer shares its sine's
    frequency."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def gives_the_cosine_its_own_frequency(n, d_model):
    """You use the odd column numbers in the exponent too. Sine and cosine of a pair share one frequency, that of the
    even column."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns / 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def doubles_the_exponent(n, d_model):
    """Your frequencies are 10000^(-4i/d_model), with i the number of the pair. The exponent is 2i/d_model: the number
    of the even column, over d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-4 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def halves_the_exponent(n, d_model):
    """Your frequencies are 10000^(-i/d_model), with i the number of the pair. The exponent is 2i/d_model: the number of
    the even column, over d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def swaps_sine_and_cosine(n, d_model):
    """Sine and cosine are swapped: the even columns (0, 2, …) are sines."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.cos()
    table[:, 1::2] = angles[:, 1::2].sin()
    return table


@sinusoidal_encoding.misconception
def has_another_base(n, d_model):
    """Your base is 1000; the formula has 10000."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 1000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def floors_the_log(n, d_model):
    """A // in your exponent rounds -log(10000)/d_model down to a whole number before it is used. Look at the order in
    which your operators are applied."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = torch.exp(2 * pairs * (-math.log(10000.0) / d_model // 2))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def swaps_base_and_exponent(n, d_model):
    """Base and exponent are swapped: 10000 is raised to a power, it is not the power."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = (2 * pairs / d_model) ** (1 / 10000.0)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def divides_as_integers(n, d_model):
    """All your columns have the same frequency, 1. Each pair has its own: 10000^(-2i/d_model).

    If your exponent is an integer division, it is always 0."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-(2 * pairs // d_model))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def counts_from_one(n, d_model):
    """Your positions start at 1. The first token stands at position 0.

    Its row is 0, 1, 0, 1, …"""
    positions = torch.arange(1, n + 1)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def transposes_the_table(n, d_model):
    """You return the table with rows and columns swapped: positions go down, dimensions go across."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table.T


@sinusoidal_encoding.misconception
def alternates_over_the_rows(n, d_model):
    """Sine and cosine alternate from row to row in your table. They alternate from column to column."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[1::2] = angles[1::2].cos()
    return table


@sinusoidal_encoding.misconception
def multiplies_by_the_power(n, d_model):
    """You multiply pos by 10000^(2i/d_model) where the formula divides.

    So your angles grow from pair to pair."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def puts_all_sines_first(n, d_model):
    """Sines and cosines are in two halves of your table. Here they alternate: sin, cos, sin, cos, …"""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = torch.cat([angles[:, 0::2].sin(), angles[:, 1::2].cos()], dim=1)
    return table


@sinusoidal_encoding.misconception
def stretches_to_the_last_frequency(n, d_model):
    """Your exponent is i/(d_model/2 - 1), so that the last pair reaches 1/10000 (one library does that). The formula
    has 2i/d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-pairs / (d_model // 2 - 1))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def is_all_sines(n, d_model):
    """You use sines alone: the odd columns should be cosines."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    return table


@sinusoidal_encoding.misconception
def divides_the_position_by_n(n, d_model):
    """You divide the position by the length. A position's vector must not depend on how long the text is."""
    positions = torch.arange(0, n) / n
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def halves_the_width_and_rounds(n, d_model):
    """Your exponent is i divided by d_model // 2, which is rounded down if d_model is odd. Divide 2i by d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-pairs / (d_model // 2))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def needs_an_even_width(n, d_model):
    """Your code needs as many cosines as sines. An odd d_model has one more sine: its last column is a sine without a
    partner."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 0::2].cos()
    return table


@sinusoidal_encoding.misconception
def writes_past_an_odd_width(n, d_model):
    """With an odd d_model your loop writes a cosine past the last column. That column is a sine without a partner."""
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for column in range(0, d_model, 2):
            angle = pos / 10000 ** (column / d_model)
            table[pos, column] = math.sin(angle)
            table[pos, column + 1] = math.cos(angle)
    return table


@sinusoidal_encoding.misconception
def writes_a_power_as_xor(n, d_model):
    """In Python ^ is not a power but the bitwise exclusive or (10000 ^ 2 is 10002). A power is written **."""
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for column in range(d_model):
            angle = pos / (10000 ^ (2 * (column // 2) / d_model))
            table[pos, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@sinusoidal_encoding.misconception
def writes_a_power_of_tensors_as_xor(n, d_model):
    """In Python ^ is not a power but the bitwise exclusive or (10000 ^ 2 is 10002). A power is written **."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ^ (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def divides_by_the_length(n, d_model):
    """Your exponent is 2i over the number of positions. It is 2i over the number of columns, d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / n)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def mixes_two_logarithms(n, d_model):
    """You combined exp with the base-10 logarithm. exp undoes the natural logarithm: log10(10000) is 4, but ln(10000)
    is 9.21."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = torch.exp(-2 * pairs / d_model * math.log10(10000.0))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def leaves_the_cosines_out(n, d_model):
    """You leave the odd columns at 0: the cosines are missing."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = 0.0
    return table


@sinusoidal_encoding.misconception
def leaves_an_odd_column_empty(n, d_model):
    """Your d_model // 2 pairs never reach the last column of an odd d_model. It is a sine without a partner.

    So that column stays 0."""
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            table[pos, 2 * i] = math.sin(angle)
            table[pos, 2 * i + 1] = math.cos(angle)
    return table


@sinusoidal_encoding.misconception
def makes_an_odd_width_even(n, d_model):
    """You make one column too many if d_model is odd: the last sine has no cosine. Cut it off."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model + d_model % 2)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def measures_in_degrees(n, d_model):
    """You treat the angles as degrees. sin and cos expect radians, and the formula is already in radians."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :] * math.pi / 180
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def zeroes_position_zero(n, d_model):
    """You set the row of position 0 to 0. It is a position like any other.

    Its row is 0, 1, 0, 1, …"""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    table[0] = 0.0
    return table


@sinusoidal_encoding.misconception
def counts_the_pairs_from_one(n, d_model):
    """You count the pairs from 1. The first pair has i = 0 and the frequency 1."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2 + 1
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def has_no_sines(n, d_model):
    """You use cosines alone: the even columns should be sines."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.cos()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def returns_the_angles(n, d_model):
    """You return the angles. The table holds their sines and cosines."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    return angles


@sinusoidal_encoding.misconception
def divides_by_ten_thousand_times(n, d_model):
    """You divide pos by 10000 and multiply by 2i/d_model. In the formula 2i/d_model is the power of 10000."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 2 * pairs / d_model / 10000.0
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def does_not_divide_the_exponent(n, d_model):
    """You do not divide the exponent by d_model: it is 2i where the formula has 2i/d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2.0 * pairs)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.misconception
def swaps_the_two_sizes(n, d_model):
    """n and d_model are swapped: the table has n rows, one per position, and d_model columns."""
    positions = torch.arange(0, d_model)
    columns = torch.arange(0, n)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / n)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@sinusoidal_encoding.alternative
def in_two_loops(n, d_model):
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for column in range(d_model):
            angle = pos / 10000 ** (2 * (column // 2) / d_model)
            table[pos, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@sinusoidal_encoding.alternative
def with_exp_and_log(n, d_model):
    position = torch.arange(n).unsqueeze(1).float()
    div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    pe = torch.zeros(n, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term[: d_model // 2])
    return pe


@sinusoidal_encoding.alternative
def with_a_phase(n, d_model):
    """cos(a) = sin(a + π/2)."""
    columns = torch.arange(d_model, dtype=torch.float64)
    angles = torch.outer(torch.arange(n, dtype=torch.float64), 10000 ** -((columns - columns % 2) / d_model))
    return torch.sin(angles + (columns % 2) * math.pi / 2)


@sinusoidal_encoding.alternative
def by_multiplying_complex_numbers(n, d_model):
    """e^{i·pos·f} in powers of e^{i·f}: the imaginary part is the sine, the real part the cosine."""
    frequencies = torch.tensor([1e-4 ** (2 * i / d_model) for i in range((d_model + 1) // 2)])
    turns = torch.polar(torch.ones(n, len(frequencies)), torch.arange(n)[:, None] * frequencies)
    return torch.stack([turns.imag, turns.real], dim=-1).flatten(1)[:, :d_model]


@sinusoidal_encoding.alternative
def column_by_column_and_not_contiguous(n, d_model):
    pos = torch.arange(n)
    functions = (torch.sin, torch.cos)
    columns = [functions[c % 2](pos / math.pow(1e4, (c - c % 2) / d_model)) for c in range(d_model)]
    return torch.stack(columns).T
