"""Exercises on positions: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, as_shape, expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.positions import sinusoidal_encoding

# --- sinusoidal_encoding --------------------------------------------------------------------------------

encoding = Exercise(
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
        "A table of all angles has one row a position and one column a frequency: positions[:, None] * frequencies.",
        "Take the sine of every angle, then overwrite the columns 1::2 with the cosine of the same angles. Slicing the "
        "angles with 1::2 as well makes an odd d_model work by itself.",
    ],
)


def encoding_of(subject, case):
    return expect_floats(subject(case["n"], case["d_model"]), (case["n"], case["d_model"]), "the table")


def for_an_even_width(holds):
    """A property that leaves out the cases with an odd d_model: they have a property of their own."""

    @functools.wraps(holds)
    def holds_if_even(subject, case):
        if case["d_model"] % 2 == 0:
            holds(subject, case)

    return holds_if_even


@encoding.property("the table has one row a position and one column a dimension", points=1)
@for_an_even_width
def encoding_shape(subject, case):
    encoding_of(subject, case)


@encoding.property("position 0 is 0, 1, 0, 1, …", points=1)
@for_an_even_width
def encoding_of_position_zero(subject, case):
    row = encoding_of(subject, case)[0]
    want = torch.arange(case["d_model"]) % 2
    expect_close(row, want.double(), "the first row (sin 0 = 0 and cos 0 = 1 in turn)")


@encoding.property("the first pair of columns is sin(pos), cos(pos)", points=1)
@for_an_even_width
def encoding_of_the_first_pair(subject, case):
    pair = encoding_of(subject, case)[:, :2]
    pos = torch.arange(case["n"], dtype=torch.float64)
    expect_close(pair, torch.stack([pos.sin(), pos.cos()], dim=1), "the first pair of columns")


@encoding.property("the two columns of a pair belong to one angle: sin² + cos² = 1", points=1)
@for_an_even_width
def encoding_pairs(subject, case):
    squares = encoding_of(subject, case).unflatten(1, (-1, 2)).square().sum(dim=-1)
    expect_close(squares, torch.ones_like(squares), "the sum of squares of columns 2i and 2i+1")


@encoding.property("pair i has the frequency 10000^(-2i/d_model)", points=1)
@for_an_even_width
def encoding_values(subject, case):
    expect_close(subject(case["n"], case["d_model"]), sinusoidal_encoding(**case), "the table", atol=1e-4)


@encoding.property("an odd d_model ends with a sine", points=1)
def encoding_of_an_odd_width(subject, case):
    if case["d_model"] % 2 == 0:
        return
    even = {**case, "d_model": case["d_model"] - 1}
    with subject.unobserved():
        is_right = is_close(encoding_of(subject, even), sinusoidal_encoding(**even), atol=1e-4)
    if is_right:  # otherwise the mistake is another one, and an odd width would only hide it
        expect_close(encoding_of(subject, case), sinusoidal_encoding(**case), "the table", atol=1e-4)


@encoding.misconception
def takes_the_column_for_the_pair(n, d_model):
    """You used the column number as i. The i of the formula counts pairs of columns, so your exponents are twice too
    large and a cosine no longer shares its sine's frequency."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def gives_the_cosine_its_own_frequency(n, d_model):
    """Your cosine columns have a frequency of their own: their exponent uses the odd column number. Sine and cosine of
    a pair share one frequency, that of the even column."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns / 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def doubles_the_exponent(n, d_model):
    """Your exponents are twice too large: the even column number already is 2i, and you multiplied it by 2 again."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-4 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def halves_the_exponent(n, d_model):
    """Your exponents are only half as large as they should be: i/d_model where the formula has 2i/d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def swaps_sine_and_cosine(n, d_model):
    """Sine and cosine have changed places: the even columns (0, 2, …) are sines."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.cos()
    table[:, 1::2] = angles[:, 1::2].sin()
    return table


@encoding.misconception
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


@encoding.misconception
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


@encoding.misconception
def swaps_base_and_exponent(n, d_model):
    """Base and exponent have changed places: 10000 is raised to a power, it is not the power."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = (2 * pairs / d_model) ** (1 / 10000.0)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def divides_as_integers(n, d_model):
    """Every column has the same frequency, 1: your exponent is an integer division, and it is always 0."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-(2 * pairs // d_model))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def counts_from_one(n, d_model):
    """Your positions start at 1. The first token stands at position 0, and its row is 0, 1, 0, 1, …"""
    positions = torch.arange(1, n + 1)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def transposes_the_table(n, d_model):
    """Rows and columns have changed places: positions go down, dimensions go across."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table.T


@encoding.misconception
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


@encoding.misconception
def multiplies_by_the_power(n, d_model):
    """You multiply pos by 10000^(2i/d_model) where the formula divides: your angles grow from pair to pair."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def puts_all_sines_first(n, d_model):
    """All your sines stand in the first half of the columns and all cosines in the second. Here they take turns:
    sin, cos, sin, cos, …"""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = torch.cat([angles[:, 0::2].sin(), angles[:, 1::2].cos()], dim=1)
    return table


@encoding.misconception
def stretches_to_the_last_frequency(n, d_model):
    """Your exponent is i/(d_model/2 - 1), so that the last pair reaches 1/10000 (one library does that, too). The
    formula has 2i/d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-pairs / (d_model // 2 - 1))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def is_all_sines(n, d_model):
    """There is no cosine in your table: the odd columns are sines as well."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    return table


@encoding.misconception
def divides_the_position_by_n(n, d_model):
    """You divided the position by the length. A position's vector must not depend on how long the text is."""
    positions = torch.arange(0, n) / n
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def halves_the_width_and_rounds(n, d_model):
    """For an odd d_model your exponent is i divided by d_model // 2, which is rounded down. Divide 2i by d_model."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-pairs / (d_model // 2))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def needs_an_even_width(n, d_model):
    """An odd d_model has one more sine than it has cosines, and your code wants as many of both. The last column then
    is a sine without a partner."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 0::2].cos()
    return table


@encoding.misconception
def writes_past_an_odd_width(n, d_model):
    """With an odd d_model your loop writes a cosine behind the last column. There the last column is a sine without a
    partner."""
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for column in range(0, d_model, 2):
            angle = pos / 10000 ** (column / d_model)
            table[pos, column] = math.sin(angle)
            table[pos, column + 1] = math.cos(angle)
    return table


@encoding.misconception
def writes_a_power_as_xor(n, d_model):
    """In Python ^ is not a power but the bitwise exclusive or (10000 ^ 2 is 10002). A power is written **."""
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for column in range(d_model):
            angle = pos / (10000 ^ (2 * (column // 2) / d_model))
            table[pos, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@encoding.misconception
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


@encoding.misconception
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


@encoding.misconception
def mixes_two_logarithms(n, d_model):
    """You combined exp with the logarithm to the base 10. exp undoes the natural logarithm: log10(10000) is 4, but
    ln(10000) is 9.21."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = torch.exp(-2 * pairs / d_model * math.log10(10000.0))
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.misconception
def leaves_the_cosines_out(n, d_model):
    """The odd columns of your table are 0: the cosines are missing."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = 0.0
    return table


@encoding.misconception
def leaves_an_odd_column_empty(n, d_model):
    """With an odd d_model the last column of your table stays 0: a loop over d_model // 2 pairs never reaches it. It
    is a sine without a partner."""
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            table[pos, 2 * i] = math.sin(angle)
            table[pos, 2 * i + 1] = math.cos(angle)
    return table


@encoding.misconception
def makes_an_odd_width_even(n, d_model):
    """For an odd d_model your table has one column too many: the last sine has no cosine. Cut it off."""
    positions = torch.arange(0, n)
    columns = torch.arange(0, d_model + d_model % 2)
    pairs = columns // 2
    frequencies = 10000.0 ** (-2 * pairs / d_model)
    angles = positions[:, None] * frequencies[None, :]
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table


@encoding.alternative
def in_two_loops(n, d_model):
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for column in range(d_model):
            angle = pos / 10000 ** (2 * (column // 2) / d_model)
            table[pos, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@encoding.alternative
def with_exp_and_log(n, d_model):
    position = torch.arange(n).unsqueeze(1).float()
    div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    pe = torch.zeros(n, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term[: d_model // 2])
    return pe


@encoding.alternative
def with_a_phase(n, d_model):
    """cos(a) = sin(a + π/2)."""
    columns = torch.arange(d_model, dtype=torch.float64)
    angles = torch.outer(torch.arange(n, dtype=torch.float64), 10000 ** -((columns - columns % 2) / d_model))
    return torch.sin(angles + (columns % 2) * math.pi / 2)


@encoding.alternative
def by_multiplying_complex_numbers(n, d_model):
    """e^{i·pos·f} in powers of e^{i·f}: the imaginary part is the sine, the real part the cosine."""
    frequencies = torch.tensor([1e-4 ** (2 * i / d_model) for i in range((d_model + 1) // 2)])
    turns = torch.polar(torch.ones(n, len(frequencies)), torch.arange(n)[:, None] * frequencies)
    return torch.stack([turns.imag, turns.real], dim=-1).flatten(1)[:, :d_model]


@encoding.alternative
def column_by_column_and_not_contiguous(n, d_model):
    pos = torch.arange(n)
    functions = (torch.sin, torch.cos)
    columns = [functions[c % 2](pos / math.pow(1e4, (c - c % 2) / d_model)) for c in range(d_model)]
    return torch.stack(columns).T


# --- PositionalEncoding ---------------------------------------------------------------------------------

module = Exercise(
    reference.PositionalEncoding,
    cases=[
        {"d_model": 4, "max_len": 5, "x": normal(2, 3, 4, seed=1).float()},
        {"d_model": 6, "max_len": 4, "x": normal(3, 4, 6, seed=2).float()},
        {"d_model": 5, "max_len": 9, "x": normal(1, 2, 5, seed=3).float()},
        {"d_model": 8, "max_len": 30, "x": normal(4, 7, 8, seed=4)},
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Two things happen at two times: the table is made once, in __init__; the right rows are added at every call.",
        "self.register_buffer(name, tensor) keeps a tensor that moves with the module and is no parameter.",
        "x has shape (batch, time, d_model). Which of the three sizes says how many rows of the table you need?",
        'In __init__: self.register_buffer("table", reference.sinusoidal_encoding(max_len, d_model)). '
        "In forward: return x + self.table[: x.shape[1]].",
    ],
)


def module_of(subject, case):
    return subject.build(case["d_model"], case["max_len"])


def module_wanted(case):
    x = case["x"]
    return x + sinusoidal_encoding(x.shape[1], case["d_model"]).to(x.dtype)


@module.property("the result has the shape and the dtype of x", points=1)
@for_an_even_width
def module_shape(subject, case):
    x = case["x"]
    got = expect_floats(module_of(subject, case)(x), tuple(x.shape))
    expect(
        got.dtype == x.dtype,
        f"x is {x.dtype} and the result is {got.dtype}. The next layer would refuse it: make the table {x.dtype}.",
    )


@module.property("every sentence of the batch gets the same position vectors", points=1)
@for_an_even_width
def module_is_alike_for_all(subject, case):
    x = case["x"]
    built = module_of(subject, case)
    added = expect_floats(built(x), tuple(x.shape)) - x
    expect_close(added, added[:1].expand_as(added), "what was added to each sentence, compared with the first,")


@module.property("x plus the first rows of the sinusoidal table", points=2)
@for_an_even_width
def module_values(subject, case):
    expect_close(module_of(subject, case)(case["x"]), module_wanted(case), atol=1e-4)


@module.property("the table is a buffer: it moves with the module, and it is not trained", points=1)
@for_an_even_width
def module_has_a_buffer(subject, case):
    built = module_of(subject, case)
    trained = built.shapes()
    expect(not trained, f"The formula is fixed, but your module has the trainable parameter {list(trained)[:1]}.")
    expect(
        built.moves_to_another_device(case["x"]),
        "After module.to(another_device) your table stays behind on the old device, and adding it to x fails.",
    )


@module.property("an odd d_model works as well", points=1)
def module_of_an_odd_width(subject, case):
    if case["d_model"] % 2 == 0:
        module_of(subject, case)(case["x"])  # the last property also looks at what became of x
        return
    even = {**case, "d_model": case["d_model"] - 1, "x": case["x"][..., 1:]}
    with subject.unobserved():
        got = module_of(subject, even)(even["x"])
    if isinstance(got, torch.Tensor) and is_close(got, module_wanted(even), atol=1e-4):
        expect_close(module_of(subject, case)(case["x"]), module_wanted(case), atol=1e-4)


@module.misconception
class adds_along_the_batch(nn.Module):
    """The rows of your table run along the batch: each sentence gets one vector for all of its tokens. x is
    (batch, time, d_model), and time is axis 1."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[0]
        rows = self.table[:n, None]
        return x + rows.to(x.dtype)


@module.misconception
class lets_the_table_run_along_the_first_axis(nn.Module):
    """Your rows have the shape (time, 1, d_model), which is made for inputs with time first. Here the batch is axis 0
    and time is axis 1."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n, None]
        return x + rows.to(x.dtype)


@module.misconception
class adds_x_twice(nn.Module):
    """x is in your result twice: 2x + table. The positions are added to x once."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype) + x


@module.misconception
class adds_the_whole_table(nn.Module):
    """You add all max_len rows, whatever the length of x. A short input needs only as many rows as it has tokens."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table
        return x + rows.to(x.dtype)


@module.misconception
class trains_the_table(nn.Module):
    """Your table is an nn.Parameter: the optimiser would change it. The sinusoids are fixed, there is nothing to
    learn in them."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.table = nn.Parameter(table)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@module.misconception
class keeps_a_plain_attribute(nn.Module):
    """Your table is a plain attribute, of which nn.Module knows nothing: module.to(device) leaves it behind. Register
    it as a buffer."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.table = table

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@module.misconception
class scales_x(nn.Module):
    """You multiplied x by √d_model as well. That belongs to the embedding layer; this module only adds positions."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x * math.sqrt(x.shape[-1]) + rows.to(x.dtype)


@module.misconception
class returns_the_positions_alone(nn.Module):
    """Your result holds the position vectors alone: x itself is lost."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return rows.to(x.dtype).expand_as(x)


@module.misconception
class returns_the_rows_alone(nn.Module):
    """Your result is the slice of the table: x itself, with its batch axis, is lost."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return rows.to(x.dtype)


@module.misconception
class takes_the_last_rows(nn.Module):
    """You took the last rows of the table. The first token stands at position 0: take the first rows."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[-n:]
        return x + rows.to(x.dtype)


@module.misconception
class skips_position_zero(nn.Module):
    """Your first token gets the vector of position 1. Counting starts at 0."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len + 1, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[1 : n + 1]
        return x + rows.to(x.dtype)


@module.misconception
class adds_one_row_to_all(nn.Module):
    """Every token gets the same row, the one of the position x.shape[1]. Each token needs the row of its own
    position: a slice, not one index."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len + 1, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[n]
        return x + rows.to(x.dtype)


@module.misconception
class multiplies_with_the_table(nn.Module):
    """You multiplied x by the table. Position vectors are added: at position 0 every sine is 0 and would erase x."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x * rows.to(x.dtype)


@module.misconception
class concatenates_the_positions(nn.Module):
    """You appended the position vectors to x, which makes it twice as wide. Here they are added."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return torch.cat([x, rows.to(x.dtype).expand_as(x)], dim=-1)


@module.misconception
class takes_max_len_first(nn.Module):
    """Your constructor has its arguments in the other order: d_model comes first, max_len second."""

    def __init__(self, max_len, d_model=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@module.misconception
class makes_a_wide_short_table(nn.Module):
    """The table got its two sizes in the wrong order: max_len rows, d_model columns."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(d_model, max_len)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:, :n].T
        return x + rows.to(x.dtype)


@module.misconception
class makes_the_table_double(nn.Module):
    """Your table is in double precision (numpy's default), and so the result is too, though x was not. The next
    layer would refuse it."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table.double(), persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows


@module.misconception
class changes_x_in_place(nn.Module):
    """x += … writes into the caller's tensor, so a second call would add the positions a second time. Make a new
    tensor."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        x += rows.to(x.dtype)
        return x


@module.misconception
class drops_out_always(nn.Module):
    """Your dropout is active in evaluation too: two calls with the same x differ. Leave it out here, or use
    nn.Dropout, which knows when training is over."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return F.dropout(x + rows.to(x.dtype), 0.1)


@module.misconception
class wants_a_graphics_card(nn.Module):
    """.cuda() asks for a graphics card, which this machine need not have. A buffer follows the module to wherever it
    is moved: there is nothing to do by hand."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n].cuda()
        return x + rows.to(x.dtype)


@module.misconception
class swaps_sine_and_cosine_in_the_table(nn.Module):
    """The slice and the sum are right, but in your table sine and cosine have changed places: even columns are
    sines."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        columns = torch.arange(d_model)
        angles = torch.arange(max_len)[:, None] / 10000 ** (2 * (columns // 2) / d_model)
        self.register_buffer("table", torch.where(columns % 2 == 0, angles.cos(), angles.sin()), persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@module.misconception
class puts_all_sines_first_in_the_table(nn.Module):
    """The slice and the sum are right, but in your table all sines come first and then all cosines. They take turns
    here."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@module.misconception
class needs_an_even_width_for_the_table(nn.Module):
    """An odd d_model has one more sine than it has cosines, and your table wants as many of both. Cut the last cosine
    off, or use sinusoidal_encoding."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@module.alternative
class SavedWithTheWeights(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)[:, : d_model // 2]
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


@module.alternative
class FrozenEmbedding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.rows = nn.Embedding.from_pretrained(sinusoidal_encoding(max_len, d_model), freeze=True)

    def forward(self, x):
        return x + self.rows(torch.arange(x.shape[1], device=x.device))


@module.alternative
class FrozenParameter(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.pe = nn.Parameter(sinusoidal_encoding(max_len, d_model), requires_grad=False)

    def forward(self, x):
        return torch.add(self.pe[: x.shape[-2]], x)


@module.alternative
class ComputedAtEachCall(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        return x + sinusoidal_encoding(x.shape[1], self.d_model).to(x)


@module.alternative
class PlainAttributeCarriedAlong(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.pe = sinusoidal_encoding(max_len, d_model).unsqueeze(1)

    def forward(self, x):
        rows = self.pe[: x.shape[1]].to(x.device)
        return (x.transpose(0, 1) + rows).transpose(0, 1)


# --- shift_matrix ---------------------------------------------------------------------------------------

shift = Exercise(
    reference.shift_matrix,
    cases=[
        {"k": 1, "d_model": 2},
        {"k": 3, "d_model": 4},
        {"k": -2, "d_model": 6},
        {"k": 17, "d_model": 8},
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


@shift.property("the matrix is d_model × d_model", points=1)
def shift_shape(subject, case):
    shift_of(subject, case)


@shift.property("a shift by 0 changes nothing", points=1)
def shift_by_zero(subject, case):
    matrix = shift_of(subject, {**case, "k": 0})
    expect_close(matrix, torch.eye(case["d_model"], dtype=torch.float64), "the matrix for k = 0")


@shift.property("pairs do not mix: only the 2 × 2 blocks on the diagonal are filled", points=1)
def shift_blocks(subject, case):
    matrix = shift_of(subject, case)
    pair = torch.arange(case["d_model"]) // 2
    outside = matrix * (pair[:, None] != pair[None, :])
    expect_close(outside, torch.zeros_like(outside), "the part of the matrix outside of the blocks")


@shift.property("it turns and does not stretch: every vector keeps its length", points=1)
def shift_is_orthogonal(subject, case):
    matrix = shift_of(subject, case)
    expect_close(matrix.T @ matrix, torch.eye(case["d_model"], dtype=torch.float64), "Mᵀ M, for a rotation the unit,")


@shift.property("M @ PE(pos) = PE(pos + k), whatever pos is", points=2)
def shift_values(subject, case):
    k, d_model = case["k"], case["d_model"]
    matrix = shift_of(subject, case)
    table = sinusoidal_encoding(60, d_model).double()
    for pos in (2, 3, 10, 40):
        expect_close(matrix @ table[pos], table[pos + k], f"M @ PE({pos}), compared with PE({pos} + {k}),", atol=1e-4)


@shift.misconception
def shifts_backwards(k, d_model):
    """Your matrix turns the wrong way: it moves a vector back by k. The minus sign stands at the wrong sine, or the
    matrix is meant for row vectors."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = -math.sin(angle)
        matrix[c, s] = math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
def forgets_the_minus(k, d_model):
    """Both sines in your blocks have the same sign, which is no rotation: cos(a + b) = cos a cos b - sin a sin b."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
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


@shift.misconception
def pairs_the_two_halves(k, d_model):
    """You paired column i with column i + d_model/2. In the interleaved table the columns 2i and 2i+1 are a pair."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = i, i + d_model // 2
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
def doubles_the_exponent_of_the_shift(k, d_model):
    """Your exponents are twice too large: pair i has the frequency 10000^(-2i/d_model), where i counts pairs."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (4 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
def halves_the_exponent_of_the_shift(k, d_model):
    """Your exponents are half as large as they should be: pair i has the frequency 10000^(-2i/d_model)."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
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


@shift.misconception
def swaps_sine_and_cosine_in_the_blocks(k, d_model):
    """Sine and cosine have changed places in your blocks: for k = 0 the cosine, 1, must stand on the diagonal."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.sin(angle)
        matrix[s, c] = math.cos(angle)
        matrix[c, s] = -math.cos(angle)
        matrix[c, c] = math.sin(angle)
    return matrix


@shift.misconception
def scales_each_column(k, d_model):
    """Your matrix only has a diagonal, so each number is scaled by itself. To turn a pair, its sine needs a part of
    its cosine, and the other way round."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
def always_shifts_by_one(k, d_model):
    """k does not enter your angles: the matrix shifts by one step, whatever k is."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = 1 / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.misconception
def rolls_the_columns(k, d_model):
    """Your matrix moves the columns of a vector by k places. The shift is along the positions: it turns each pair and
    leaves every column where it is."""
    return torch.roll(torch.eye(d_model), k, dims=0)


@shift.misconception
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


@shift.misconception
def fits_one_position_only(k, d_model):
    """Your matrix has been made for one position: it maps PE(0) to PE(k), but it fails elsewhere. One M has to do for
    all positions."""
    start, end = sinusoidal_encoding(1, d_model)[0], sinusoidal_encoding(abs(k) + 1, d_model)[-1]
    if k < 0:
        end = end * torch.tensor([-1.0, 1.0]).repeat(d_model // 2)
    return torch.outer(end, start) / (start @ start)


@shift.misconception
def forgets_the_last_pair(k, d_model):
    """The last pair of columns has no block in your matrix: the loop over the pairs stops one too early."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2 - 1):
        angle = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1
        matrix[s, s] = math.cos(angle)
        matrix[s, c] = math.sin(angle)
        matrix[c, s] = -math.sin(angle)
        matrix[c, c] = math.cos(angle)
    return matrix


@shift.alternative
def as_a_block_diagonal(k, d_model):
    angles = [k * 1e-4 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*[torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles])


@shift.alternative
def as_a_matrix_exponential(k, d_model):
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    spin = torch.zeros(d_model, d_model, dtype=torch.float64)
    even = torch.arange(0, d_model, 2)
    spin[even, even + 1], spin[even + 1, even] = frequencies, -frequencies
    return torch.linalg.matrix_exp(k * spin)


@shift.alternative
def by_least_squares(k, d_model):
    """Found from many positions instead of a formula."""
    frequencies = 10000.0 ** (-(torch.arange(d_model, dtype=torch.float64) // 2) * 2 / d_model)
    pos = torch.arange(0, 40000, 7, dtype=torch.float64)[:, None]
    even = torch.arange(d_model) % 2 == 0
    before = torch.where(even, (pos * frequencies).sin(), (pos * frequencies).cos())
    after = torch.where(even, ((pos + k) * frequencies).sin(), ((pos + k) * frequencies).cos())
    return torch.linalg.lstsq(before, after).solution.T


@shift.alternative
def from_diagonals(k, d_model):
    angles = (k * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)).repeat_interleave(2)
    off = angles.sin() * (torch.arange(d_model) % 2 == 0)
    return torch.diag(angles.cos()) + torch.diag(off[:-1], 1) - torch.diag(off[:-1], -1)


# --- LearnedPositions -----------------------------------------------------------------------------------

learned = Exercise(
    reference.LearnedPositions,
    cases=[
        {"max_len": 5, "d_model": 4, "x": normal(2, 3, 4, seed=11), "table": normal(5, 4, seed=12)},
        {"max_len": 6, "d_model": 3, "x": normal(4, 2, 3, seed=13), "table": normal(6, 3, seed=14)},
        {"max_len": 4, "d_model": 7, "x": normal(3, 4, 7, seed=15), "table": normal(4, 7, seed=16)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "A learned table is an embedding, like that of the words; but what is looked up is the position, not the word.",
        "nn.Embedding(max_len, d_model) holds the table; nn.Parameter(torch.zeros(max_len, d_model)) does as well.",
        "You need the rows 0, 1, …, time - 1. torch.arange makes these numbers (on the device of x).",
        "In forward: return x + self.table(torch.arange(x.shape[1], device=x.device)).",
    ],
)


def learned_module(subject, case):
    """The student's module with the case's table in it, and the name of its parameter."""
    built = subject.build(case["max_len"], case["d_model"])
    found = built.shapes()
    want = (case["max_len"], case["d_model"])
    if not found:
        raise Failure("There is no trainable parameter in your module: the table would never change.")
    sizes = {name: tuple(s for s in shape if s != 1) for name, shape in found.items()}
    names = [name for name, size in sizes.items() if size == tuple(s for s in want if s != 1)]
    if len(found) > 1:
        raise Failure(f"One trainable table of shape {want} is enough, but your module has {found}.")
    if not names:
        raise Failure(f"The trainable table should have shape {want}, but it has shape {next(iter(found.values()))}.")
    built.load({names[0]: case["table"].reshape(found[names[0]])})
    return built, names[0]


@learned.property("the result has the shape of x", points=1)
def learned_shape(subject, case):
    built = subject.build(case["max_len"], case["d_model"])
    with built.unobserved():  # every student's random start is another one
        expect_floats(built(case["x"].float()), tuple(case["x"].shape))


@learned.property("there is one trainable table, one row a position", points=1)
def learned_has_a_table(subject, case):
    learned_module(subject, case)


@learned.property("at position t, row t of the table is added", points=2)
def learned_values(subject, case):
    built, _ = learned_module(subject, case)
    want = case["x"] + case["table"][: case["x"].shape[1]]
    expect_close(built(case["x"]), want)


@learned.property("the rows that were used learn, and no others", points=1)
def learned_gradients(subject, case):
    built, name = learned_module(subject, case)
    x, n = case["x"], case["x"].shape[1]
    slope = built.parameter_gradients(x)[name].reshape(case["table"].shape)
    want = torch.zeros_like(case["table"])
    want[:n] = 2 * (x + case["table"][:n]).sum(dim=0)
    expect(slope.any(), "No gradient reaches the table: it would never be trained.")
    expect_close(slope, want, "the gradient of the table")


@learned.misconception
class has_nothing_to_learn(nn.Module):
    """There is nothing to train in your module. A tensor becomes trainable as an nn.Parameter or inside an
    nn.Embedding; a buffer or a plain attribute does not, nor does requires_grad=False."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.register_buffer("table", torch.zeros(max_len, d_model))

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows


@learned.misconception
class swaps_rows_and_columns(nn.Module):
    """Your table has d_model rows and max_len columns. It needs one row for each position."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(d_model, max_len)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table.weight[:, :n].T
        return x + rows


@learned.misconception
class learns_one_number_a_position(nn.Module):
    """Your table holds one number for each position, which is added to all features alike. A position needs a vector
    of d_model numbers."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, 1)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned.misconception
class learns_one_vector_for_all(nn.Module):
    """Your module learns one vector and adds it everywhere: the tokens still do not know where they stand. Each
    position needs a vector of its own."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return x + self.table


@learned.misconception
class adds_the_whole_learned_table(nn.Module):
    """You add all max_len rows, whatever the length of x. A short input needs only as many rows as it has tokens."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = self.table.num_embeddings
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned.misconception
class numbers_the_batch(nn.Module):
    """You number the sentences of the batch, not the tokens of a sentence: x is (batch, time, d_model), and time is
    axis 1."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[0]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows[:, None]


@learned.misconception
class looks_up_the_features(nn.Module):
    """You looked up x itself. What is looked up is the position: the whole numbers 0, 1, 2, …"""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = x
        rows = self.table(positions)
        return x + rows


@learned.misconception
class looks_up_the_length(nn.Module):
    """You looked up a single number, the length of x, so that all tokens get one and the same row. Look up one
    position for each token."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.tensor(n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned.misconception
class numbers_from_one(nn.Module):
    """Your positions start at 1, so row 0 is never used and a text of full length has no row for its last token.
    Count from 0."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(1, n + 1, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned.misconception
class slices_from_one(nn.Module):
    """Your slice starts at row 1, so row 0 is never used and a text of full length has no row for its last token.
    Count from 0."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table.weight[1 : n + 1]
        return x + rows


@learned.misconception
class takes_the_last_learned_rows(nn.Module):
    """You took the last rows of the table. The first token stands at position 0: take the first rows."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table.weight[-n:]
        return x + rows


@learned.misconception
class numbers_backwards(nn.Module):
    """Your positions run backwards: the first token gets the row of the last position."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device).flip(0)
        rows = self.table(positions)
        return x + rows


@learned.misconception
class multiplies_with_the_learned_table(nn.Module):
    """You multiplied x by the rows of the table. They are added."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x * rows


@learned.misconception
class returns_the_learned_rows_alone(nn.Module):
    """Your result holds the rows of the table alone: x itself is lost."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return rows.expand_as(x)


@learned.misconception
class returns_the_learned_rows_without_a_batch(nn.Module):
    """Your result holds the rows of the table alone: x itself, with its batch axis, is lost."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return rows


@learned.misconception
class adds_x_twice_to_the_rows(nn.Module):
    """x is in your result twice. The rows are added to x once."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows + x


@learned.misconception
class adds_learned_rows_in_place(nn.Module):
    """x += … writes into the caller's tensor, so a second call would add the positions a second time. Make a new
    tensor."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        x += rows
        return x


@learned.misconception
class detaches_the_rows(nn.Module):
    """The table is a parameter, but you took its rows out of the graph (detach, .data or no_grad): no gradient comes
    back to them, so they are never trained."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows.detach()


@learned.alternative
class BareParameter(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(max_len, d_model) * 0.02)

    def forward(self, x):
        return x + self.pos[: x.size(1)]


@learned.alternative
class WithABatchAxis(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, max_len, d_model))

    def forward(self, x):
        batch, time, _ = x.shape
        return x + self.pos_embedding[:, :time].expand(batch, -1, -1)


@learned.alternative
class LookedUpForEverySentence(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.wpe = nn.Embedding(max_len, d_model)

    def forward(self, x):
        positions = torch.arange(x.shape[1]).repeat(x.shape[0], 1)
        return self.wpe(positions) + x


@learned.alternative
class OneHotTimesWeight(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table)

    def forward(self, x):
        one_hot = torch.eye(len(self.table), dtype=x.dtype)[: x.shape[1]]
        return torch.baddbmm(x, one_hot.expand(len(x), -1, -1), self.table.to(x.dtype).expand(len(x), -1, -1))


# --- apply_rope -----------------------------------------------------------------------------------------

rope = Exercise(
    reference.apply_rope,
    cases=[
        {"x": normal(2, 2, seed=21), "positions": torch.tensor([0, 1])},
        {"x": normal(3, 4, seed=22), "positions": torch.tensor([2, 3, 4])},
        {"x": normal(2, 3, 5, 8, seed=23), "positions": torch.tensor([7, 0, 3, 12, 4])},
    ],
    minutes=12,
    difficulty=3,
    hints=[
        "A point (a, b) turned by an angle is (a cos - b sin, a sin + b cos). Every pair of features is such a point.",
        "The angles are a table as before: positions[:, None] * frequencies, now with one column a pair: (time, d/2).",
        "x[..., 0::2] holds the first features of all pairs, x[..., 1::2] the second ones: (..., time, d/2).",
        "To put the turned features back in turn: torch.stack([first, second], dim=-1).flatten(-2).",
    ],
)


def rope_of(subject, case):
    return expect_floats(subject(case["x"], case["positions"]), tuple(case["x"].shape))


@rope.property("the result has the shape of x", points=1)
def rope_shape(subject, case):
    rope_of(subject, case)


@rope.property("at position 0 nothing is turned", points=1)
def rope_at_zero(subject, case):
    at_zero = {**case, "positions": torch.zeros_like(case["positions"])}
    expect_close(rope_of(subject, at_zero), case["x"], "the result at position 0, compared with x,")


@rope.property("every vector keeps its length", points=1)
def rope_keeps_lengths(subject, case):
    lengths = rope_of(subject, case).norm(dim=-1)
    expect_close(lengths, case["x"].norm(dim=-1), "the length of each turned vector")


@rope.property("q·k depends on the distance alone: moving both by 5 changes no score", points=1)
def rope_is_relative(subject, case):
    q, k = case["x"], case["x"].flip(-1)

    def scores(by):
        moved = case["positions"] + by
        return rope_of(subject, {"x": q, "positions": moved}) @ rope_of(subject, {"x": k, "positions": moved}).mT

    expect_close(scores(5), scores(0), "the scores after moving all positions by 5", atol=1e-4)


@rope.property("pair (2i, 2i+1) is turned by position · 10000^(-2i/d)", points=2)
def rope_values(subject, case):
    expect_close(rope_of(subject, case), reference.apply_rope(**case), atol=1e-4)


@rope.misconception
def forgets_the_minus_of_the_rotation(x, positions):
    """Both sines in your rotation have the same sign, and the vectors change their length. One of them is a minus:
    (a cos - b sin, a sin + b cos)."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos + second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def turns_clockwise(x, positions):
    """You turn the other way round. The scores do not notice, but the minus belongs to the first feature of a pair:
    (a cos - b sin, a sin + b cos)."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos + second * sin
    turned_second = second * cos - first * sin
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def pairs_first_with_second_half(x, positions):
    """You paired feature i with feature i + d/2. That is a correct RoPE (many models have it), but with another
    pairing than asked for: here the pairs are (0, 1), (2, 3), …"""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    return torch.cat([turned_first, turned_second], dim=-1)


@rope.misconception
def leaves_the_halves_apart(x, positions):
    """You turned the right pairs, but put all first features before all second ones. Give each feature its old place
    back: at position 0 nothing may change."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    return torch.cat([turned_first, turned_second], dim=-1)


@rope.misconception
def halves_the_exponent_of_rope(x, positions):
    """Your exponents are half as large as they should be: i/d where the formula has 2i/d (or i over d/2)."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def doubles_the_exponent_of_rope(x, positions):
    """Your exponents are twice too large: 0, 2, 4, … over d already is 2i/d, and you doubled it again."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-4 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def turns_later_pairs_faster(x, positions):
    """Your frequencies grow from pair to pair: you multiply by 10000^(2i/d) where you should divide."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def turns_every_pair_alike(x, positions):
    """All pairs are turned by the same angle, the position itself. Each pair has a frequency of its own."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = torch.ones(d // 2, device=x.device)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def has_the_base_1000(x, positions):
    """Your base is 1000; the formula has 10000."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 1000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def ignores_the_positions(x, positions):
    """You number the vectors 0, 1, 2, … yourself and ignore the argument positions. Later, when a model writes one
    token at a time, x holds one vector and its position is not 0."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    positions = torch.arange(0, x.shape[-2], device=x.device)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def numbers_the_heads(x, positions):
    """Your angle depends on the axis before time (the head), so that all tokens of a head are turned alike. The
    position belongs to the axis before the last."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    positions = torch.arange(0, x.shape[1], device=x.device)[:, None]
    angles = positions[..., None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def adds_the_table(x, positions):
    """You added sines and cosines to x. RoPE turns x instead: the length of a vector stays as it was."""
    table = sinusoidal_encoding(int(positions.max()) + 1, x.shape[-1])
    return x + table[positions].to(x.dtype)


@rope.misconception
def uses_the_turned_first(x, positions):
    """You overwrote the first feature and then used its new value to turn the second. Both need the old values."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = turned_first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def mixes_each_feature_with_itself(x, positions):
    """You added cos and sin times the same feature. To turn a pair, each feature needs a part of the other one."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos + first * sin
    turned_second = second * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def swaps_sine_and_cosine_of_rope(x, positions):
    """Sine and cosine have changed places: at angle 0 the cosine, 1, keeps a feature as it is."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def mixes_two_pairings(x, positions):
    """Two pairings are mixed: your angles are laid out for the pairs (i, i + d/2) and repeat after d/2 columns, but the
    features are turned in pairs (0, 1), (2, 3), …, so the two of a pair get different angles."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = (positions[:, None] * frequencies[None, :]).repeat(1, 2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos[:, 0::2] - second * sin[:, 0::2]
    turned_second = first * sin[:, 1::2] + second * cos[:, 1::2]
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@rope.misconception
def turns_halves_with_interleaved_angles(x, positions):
    """Two pairings are mixed: your angles are laid out for the pairs (0, 1), (2, 3), …, but you turn feature i together
    with feature i + d/2, so the two of a pair get different angles."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = (positions[:, None] * frequencies[None, :]).repeat_interleave(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * cos + half * sin


@rope.misconception
def turns_only_the_first_pair(x, positions):
    """Only the first pair is turned; the other features are left as they were."""
    turned = x.clone()
    cos, sin = positions.to(x.dtype).cos(), positions.to(x.dtype).sin()
    turned[..., 0] = x[..., 0] * cos - x[..., 1] * sin
    turned[..., 1] = x[..., 0] * sin + x[..., 1] * cos
    return turned


@rope.alternative
def as_complex_numbers(x, positions):
    d = x.shape[-1]
    frequencies = 1.0 / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    turns = torch.polar(torch.ones(len(positions), d // 2, dtype=torch.float64), torch.outer(positions, frequencies))
    numbers = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(numbers * turns).flatten(-2).to(x.dtype)


@rope.alternative
def with_rotate_half_interleaved(x, positions):
    d = x.shape[-1]
    inverse = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    angles = torch.einsum("t,f->tf", positions.float(), inverse).repeat_interleave(2, dim=-1)
    swapped = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angles.cos() + swapped * angles.sin()


@rope.alternative
def in_loops(x, positions):
    turned = torch.empty_like(x)
    for t, position in enumerate(positions.tolist()):
        for c in range(0, x.shape[-1], 2):
            angle = position * 10000 ** (-c / x.shape[-1])
            a, b = x[..., t, c], x[..., t, c + 1]
            turned[..., t, c] = a * math.cos(angle) - b * math.sin(angle)
            turned[..., t, c + 1] = a * math.sin(angle) + b * math.cos(angle)
    return turned


@rope.alternative
def with_shift_matrices(x, positions):
    """The matrices of the exercise before turn the other way, since there the sine comes first."""
    rows = [x[..., t, :] @ reference.shift_matrix(int(p), x.shape[-1]).to(x) for t, p in enumerate(positions)]
    return torch.stack(rows, dim=-2)


@rope.alternative
def written_into_slices(x, positions):
    d = x.size(-1)
    theta = positions.unsqueeze(-1) * torch.pow(torch.tensor(10000.0), -torch.arange(0, d, 2) / d)
    out = torch.zeros_like(x)
    out[..., 0::2] = x[..., 0::2] * theta.cos() - x[..., 1::2] * theta.sin()
    out[..., 1::2] = x[..., 0::2] * theta.sin() + x[..., 1::2] * theta.cos()
    return out


# --- alibi_bias -----------------------------------------------------------------------------------------

alibi = Exercise(
    reference.alibi_bias,
    cases=[
        {"num_heads": 2, "n": 3},
        {"num_heads": 8, "n": 5},
        {"num_heads": 1, "n": 4},
        {"num_heads": 3, "n": 4},
        {"num_heads": 7, "n": 6},
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Two tables are multiplied: one number for each head, and one distance for each pair (query, key).",
        "For 8 heads the slopes are 1/2, 1/4, …, 1/256. Check that your formula gives 1/2 for the first head.",
        "slopes[:, None, None] * distance multiplies (heads, 1, 1) by (n, n). And the bias must lower far keys.",
        "p = 2 ** int(math.log2(num_heads)); the first p slopes are 2 ** (-8 * h / p) for h in range(1, p + 1), the "
        "others 2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2).",
    ],
)


def penalty_of(subject, case):
    """What the softmax sees of the bias: row by row, the part up to the query, relative to the query itself."""
    num_heads, n = case["num_heads"], case["n"]
    with subject.unobserved():  # what stands to the right of the query is free
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
    return reference.alibi_bias(**case).double().tril()


@alibi.property("there is one n × n table for each head", points=1)
def alibi_shape(subject, case):
    penalty_of(subject, case)


@alibi.property("the further back a key is, the lower its bias", points=1)
def alibi_decreases(subject, case):
    penalty = penalty_of(subject, case)
    last = penalty[:, -1]  # the query that sees all keys
    expect(
        (last.diff(dim=-1) > 0).all(),
        f"For the last query, the bias of the keys 0, 1, 2, … in head 0 is {[round(v, 4) for v in last[0].tolist()]} "
        "(relative to its own): it should rise towards the query.",
    )


@alibi.property("each step back costs a head the same", points=1)
def alibi_is_linear(subject, case):
    penalty = penalty_of(subject, case)
    positions = torch.arange(case["n"], dtype=torch.float64)
    distance = (positions[:, None] - positions).tril()
    step = -penalty[:, 1, 0]
    expect_close(penalty, -step[:, None, None] * distance, "the bias, compared with distance × the cost of one step,")


@alibi.property("2, 4, 8, … heads: the slopes are 2^(-8h/H)", points=1)
def alibi_slopes_of_powers_of_two(subject, case):
    if math.log2(case["num_heads"]).is_integer():
        slopes = -penalty_wanted(case)[:, 1, 0]
        expect_close(-penalty_of(subject, case)[:, 1, 0], slopes, "the cost of one step, head by head,")


@alibi.property("other numbers of heads: the series of p heads, then every second of the series of 2p", points=1)
def alibi_slopes_of_others(subject, case):
    slopes = -penalty_wanted(case)[:, 1, 0]
    expect_close(-penalty_of(subject, case)[:, 1, 0], slopes, "the cost of one step, head by head,")


@alibi.misconception
def starts_at_head_zero(num_heads, n):
    """Your h starts at 0, so the first slope is 1. The heads are counted from 1: with 8 heads the first slope is 1/2
    and the last 1/256."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(p)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def uses_one_series_for_any_number(num_heads, n):
    """You used 2^(-8h/H) for every number of heads. That series is meant for powers of two; 3 heads, say, take the two
    slopes of 2 heads and then the first of 4 heads."""
    p = num_heads
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def takes_the_next_power_of_two(num_heads, n):
    """You took the first slopes of the next larger power of two. Begin with the largest power of two that is at most
    the number of heads, and fill up with every second slope of the longer series."""
    p = 2 ** math.ceil(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, num_heads + 1)]
    between = []
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def takes_neighbours_of_the_longer_series(num_heads, n):
    """For the remaining heads you took the slopes one after the other from the longer series. Take every second one,
    h = 1, 3, 5, …: those between are there already."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, num_heads - p + 1)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def sorts_the_slopes(num_heads, n):
    """You sorted the slopes. The slopes of the remaining heads come last, after the series of the first p heads."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(sorted(series + between, reverse=True))
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def puts_the_remaining_heads_first(num_heads, n):
    """The slopes of the remaining heads stand before the series of the first p heads. They come after it."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(between + series)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def gives_all_heads_one_slope(num_heads, n):
    """All your heads have the same slope, 2^(-8/H). The head's number h belongs into the exponent."""
    p = 2 ** int(math.log2(num_heads))
    slopes = torch.tensor([2 ** (-8 / num_heads)] * num_heads)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def favours_far_keys(num_heads, n):
    """Your bias grows with the distance, so that far keys are favoured. It is a penalty: it needs a minus sign (or i
    and j have changed places)."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return slopes[:, None, None] * distance


@alibi.misconception
def forgets_the_slopes(num_heads, n):
    """Every head has the slope 1: the distance is not multiplied by the head's slope."""
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -distance.float().expand(num_heads, n, n)


@alibi.misconception
def penalises_the_future(num_heads, n):
    """Your bias is the same for all keys up to the query: far keys cost nothing. If there is a penalty, it stands right
    of the query, where the causal mask hides everything: query and key have changed places."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[None, :] - positions[:, None]).clamp(min=0)
    return -slopes[:, None, None] * distance


@alibi.misconception
def spaces_the_slopes_evenly(num_heads, n):
    """Your slopes are h/H, evenly spaced. They are powers of two: each is a fixed fraction of the one before."""
    slopes = torch.arange(1, num_heads + 1) / num_heads
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def halves_from_head_to_head(num_heads, n):
    """Your slopes are 2^(-h) for every number of heads. That is right for 8 heads only: the exponent is 8h/H."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-h) for h in range(1, num_heads + 1)]
    slopes = torch.tensor(series)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def divides_eight_by_the_head(num_heads, n):
    """Your exponent is 8/h. It is 8h/H: the head's number multiplies, the number of heads divides."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 / h) for h in range(1, num_heads + 1)]
    slopes = torch.tensor(series)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def reverses_the_heads(num_heads, n):
    """Your slopes stand in reverse order: the first head has the steepest, the following ones are flatter."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(p, 0, -1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def drops_the_minus_of_the_exponent(num_heads, n):
    """Your slopes are 2^(+8h/H), powers above 1, up to 256. The exponent is negative."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes[:, None, None] * distance


@alibi.misconception
def squares_the_distance(num_heads, n):
    """Your penalty grows with the square of the distance. Every step back costs a head the same."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs() ** 2
    return -slopes[:, None, None] * distance


@alibi.misconception
def gives_factors(num_heads, n):
    """You return factors between 0 and 1, to be multiplied. A bias is added to the scores before the softmax, which
    takes the exponential itself."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return (-slopes[:, None, None] * distance).exp()


@alibi.misconception
def puts_the_heads_last(num_heads, n):
    """The heads are your last axis. They come first: (heads, query, key), so that the bias fits the scores."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    positions = torch.arange(0, n)
    distance = (positions[:, None] - positions[None, :]).abs()
    return -slopes * distance[:, :, None]


@alibi.misconception
def returns_the_slopes_alone(num_heads, n):
    """You return the slopes, one number a head. Multiply them with the distances of all pairs of positions."""
    p = 2 ** int(math.log2(num_heads))
    series = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    between = [2 ** (-4 * h / p) for h in range(1, 2 * (num_heads - p), 2)]
    slopes = torch.tensor(series + between)
    return slopes


def slopes_by_recursion(num_heads):
    if math.log2(num_heads).is_integer():
        start = 2.0 ** (-(2.0 ** -(math.log2(num_heads) - 3)))
        return [start ** (i + 1) for i in range(num_heads)]
    closest = 2 ** math.floor(math.log2(num_heads))
    return slopes_by_recursion(closest) + slopes_by_recursion(2 * closest)[0::2][: num_heads - closest]


@alibi.alternative
def one_row_for_all_queries(num_heads, n):
    """The softmax does not see a constant added to a row: slope × j is enough."""
    return torch.tensor(slopes_by_recursion(num_heads))[:, None, None] * torch.arange(n)


@alibi.alternative
def with_the_mask_inside(num_heads, n):
    positions = torch.arange(n)
    signed = (positions[None, :] - positions[:, None]).float()
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    bias = torch.stack([slope * signed for slope in slopes_by_recursion(num_heads)])
    return bias.masked_fill(future, -math.inf)


@alibi.alternative
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


@alibi.alternative
def counting_the_distance_from_one(num_heads, n):
    slopes = torch.tensor(slopes_by_recursion(num_heads))
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    return torch.einsum("h,ij->hij", -slopes, (i - j + 1).float())[None]
