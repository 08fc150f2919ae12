"""The exercise `positional_encoding`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.exercises.positions.shared import expect_nothing_else_happens, for_an_even_width
from course_lib.positions import sinusoidal_encoding

positional_encoding = Exercise(
    reference.PositionalEncoding,
    cases=[
        {"d_model": 4, "max_len": 5, "x": normal(2, 3, 4, seed=1).float()},
        {"d_model": 6, "max_len": 4, "x": normal(3, 4, 6, seed=2).float()},
        {"d_model": 5, "max_len": 9, "x": normal(1, 2, 5, seed=3).float()},
        {"d_model": 8, "max_len": 30, "x": normal(4, 7, 8, seed=4)},
        {"d_model": 4, "max_len": 1, "x": normal(3, 1, 4, seed=5).float()},
        {"d_model": 6, "max_len": 3, "x": normal(1, 2, 6, seed=6).float()},
        {"d_model": 10, "max_len": 6, "x": normal(2, 3, 10, seed=7).half()},
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Two things happen at different times: the table is made once, in __init__; the right rows are added in every "
        "call.",
        "self.register_buffer(name, tensor) keeps a tensor that moves with the module and is not a parameter.",
        "x has shape (batch, time, d_model). Which of the three sizes says how many rows of the table you need?",
        'In __init__: self.register_buffer("table", reference.sinusoidal_encoding(max_len, d_model)). '
        "In forward: return x + self.table[: x.shape[1]].to(x.dtype).",
    ],
)


def module_of(subject, case):
    return subject.build(case["d_model"], case["max_len"])


def module_wanted(case):
    x = case["x"]
    return x + sinusoidal_encoding(x.shape[1], case["d_model"]).to(x.dtype)


def is_half(case):
    return case["x"].dtype == torch.half


def in_full_precision(holds):
    """A property that leaves out x in half precision, and an odd d_model: each has a property of its own."""

    def holds_in_full_precision(subject, case):
        if not is_half(case):
            holds(subject, case)

    return for_an_even_width(holds_in_full_precision)


@positional_encoding.property("the result has the shape and the dtype of x", points=1)
@in_full_precision
def module_shape(subject, case):
    x = case["x"]
    built = module_of(subject, case)
    got = expect_floats(built(x), tuple(x.shape))
    built.note("dtype", str(got.dtype))
    expect(got.dtype == x.dtype, f"x is {x.dtype}, but the result is {got.dtype}. The next layer would refuse it.")


@positional_encoding.property("x plus the first rows of the sinusoidal table", points=2)
@in_full_precision
def module_values(subject, case):
    x = case["x"]
    got = expect_floats(module_of(subject, case)(x), tuple(x.shape))
    added = got - x
    other = [b for b in range(len(x)) if not is_close(added[b], added[0], atol=1e-4)]
    if other:
        expect(False, f"What you add to sentence {other[0]} of the batch is not what you add to sentence 0.")
    expect_close(got, module_wanted(case), atol=1e-4)


@positional_encoding.property("the table is a buffer: it moves with the module, and it is not trained", points=1)
@in_full_precision
def module_has_a_buffer(subject, case):
    built = module_of(subject, case)
    trained = built.shapes()
    expect(
        not trained, f"The formula is fixed, but your module has the trainable parameter {next(iter(trained), None)}."
    )
    expect(
        built.moves_to_another_device(case["x"]),
        "After module.to(another_device) your table stays behind on the old device, and adding it to x fails.",
    )
    size = case["max_len"] * case["d_model"]
    tables = {name: shape for name, shape in built.buffers().items() if math.prod(shape) == size}
    built.note("keeps the table as a buffer", bool(tables))
    expect(tables, f"No buffer of your module holds a table of {case['max_len']} × {case['d_model']} numbers.")
    expect_buffer_is_used(built, case, tables)


def expect_buffer_is_used(built, case, tables):
    """With other numbers in its buffer, the module adds those."""
    x = case["x"]
    other = normal(case["max_len"], case["d_model"], seed=case["max_len"]).float()
    with built.unobserved():
        built.load({name: other.reshape(shape) for name, shape in tables.items()})
        got = expect_floats(built(x), tuple(x.shape))
    is_used = is_close(got, x + other[: x.shape[1]].to(x.dtype), atol=1e-4)
    built.note("adds what is in the buffer", is_used)
    expect(is_used, "With other numbers in your buffer the result stays as it was: what you add is kept elsewhere.")


@positional_encoding.property("nothing else happens to x: precision kept, no dropout, gradients pass", points=1)
@for_an_even_width
def module_leaves_x_alone(subject, case):
    if not is_half(case):
        expect_nothing_else_happens(module_of(subject, case), case["x"], module_wanted(case))
        return
    expect_right_without_a_trace(subject, {**case, "x": case["x"].float()})
    with subject.unobserved():  # the last digits depend on when the table is rounded
        got = expect_floats(module_of(subject, case)(case["x"]), tuple(case["x"].shape))
    subject.note("dtype", str(got.dtype))
    expect(
        got.dtype == torch.half,
        f"x is in half precision (torch.float16), but the result is {got.dtype}. The next layer would refuse it.",
    )
    expect_close(got, module_wanted(case), atol=1e-2)


def expect_right_without_a_trace(subject, case):
    """The module is right here. If it is not, the mistake is not the one that the property is about."""
    with subject.unobserved():
        expect_close(module_of(subject, case)(case["x"]), module_wanted(case), atol=1e-4)


@positional_encoding.property("an odd d_model works as well", points=1)
def module_of_an_odd_width(subject, case):
    if case["d_model"] % 2 == 0:
        return
    even = {**case, "d_model": case["d_model"] - 1, "x": case["x"][..., 1:]}
    expect_right_without_a_trace(subject, even)
    expect_close(module_of(subject, case)(case["x"]), module_wanted(case), atol=1e-4)


@positional_encoding.misconception
class adds_along_the_batch(nn.Module):
    """You let the rows of the table run along the batch. x is (batch, time, d_model): time is axis 1.

    As it is, each sentence gets one vector for all of its tokens."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[0]
        rows = self.table[:n, None]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class lets_the_table_run_along_the_first_axis(nn.Module):
    """You give the rows the shape (time, 1, d_model), which is made for inputs with time first. Here the batch is axis
    0 and time is axis 1."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n, None]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class adds_x_twice(nn.Module):
    """x is in your result twice. The positions are added to x once."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype) + x


@positional_encoding.misconception
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


@positional_encoding.misconception
class trains_the_table(nn.Module):
    """You make the table an nn.Parameter that is trained. The sinusoids are fixed: there is nothing to learn in them.

    As it is, the optimiser would change it."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.table = nn.Parameter(table)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class keeps_a_plain_attribute(nn.Module):
    """You keep the table as a plain attribute, which nn.Module knows nothing about. Register it as a buffer.

    As it is, module.to(device) leaves it behind."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.table = table

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
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


@positional_encoding.misconception
class returns_the_positions_alone(nn.Module):
    """You return only the position vectors: x itself is lost."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return rows.to(x.dtype).expand_as(x)


@positional_encoding.misconception
class returns_the_rows_alone(nn.Module):
    """You return the rows of the table: x itself, with its batch axis, is lost."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return rows.to(x.dtype)


@positional_encoding.misconception
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


@positional_encoding.misconception
class skips_position_zero(nn.Module):
    """You give the first token the vector of position 1. Counting starts at 0."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len + 1, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[1 : n + 1]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class adds_one_row_to_all(nn.Module):
    """You add the same row to every token, that of position x.shape[1]. Each token needs the row of its own position: a
    slice, not one index."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len + 1, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class multiplies_with_the_table(nn.Module):
    """You multiply x by the table. Position vectors are added.

    At position 0 every sine is 0 and erases its feature of x."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x * rows.to(x.dtype)


@positional_encoding.misconception
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


@positional_encoding.misconception
class swaps_the_sizes_of_the_table(nn.Module):
    """Your table has d_model rows and max_len columns: the two sizes are swapped, in your constructor's arguments or
    where the table is made. It needs max_len rows."""

    def __init__(self, max_len, d_model=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class makes_a_wide_short_table(nn.Module):
    """You make a table of d_model rows and max_len columns and transpose it. That is not the same: the formula divides
    by the number of columns, d_model."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(d_model, max_len)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:, :n].T
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class makes_the_table_double(nn.Module):
    """Your table is in double precision (numpy's default), and you add it as it is. The result needs the dtype of x.

    As it is, the result is in double precision too, though x was not."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table.double(), persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows


@positional_encoding.misconception
class changes_x_in_place(nn.Module):
    """You write into the caller's tensor (x += …). Make a new one.

    A second call with the same x would add the positions a second time."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        x += rows.to(x.dtype)
        return x


@positional_encoding.misconception
class drops_out_always(nn.Module):
    """You apply dropout, and it is always on, in evaluation too. This module only adds the table."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return F.dropout(x + rows.to(x.dtype), 0.1)


@positional_encoding.misconception
class wants_a_graphics_card(nn.Module):
    """You call .cuda(), which needs a GPU that the machine may not have. A buffer moves with the module: there is
    nothing to do by hand."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n].cuda()
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class swaps_sine_and_cosine_in_the_table(nn.Module):
    """In your table sine and cosine are swapped: even columns are sines.

    The slice and the sum are right."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        columns = torch.arange(d_model)
        angles = torch.arange(max_len)[:, None] / 10000 ** (2 * (columns // 2) / d_model)
        self.register_buffer("table", torch.where(columns % 2 == 0, angles.cos(), angles.sin()), persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class puts_all_sines_first_in_the_table(nn.Module):
    """In your table sines and cosines are in two halves. Here they alternate.

    The slice and the sum are right."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class needs_an_even_width_for_the_table(nn.Module):
    """Your table needs as many cosines as sines. An odd d_model has one more sine.

    Cut the last cosine off, or use sinusoidal_encoding."""

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


@positional_encoding.misconception
class leaves_the_dropout_in(nn.Module):
    """You apply dropout after the sum, as some tutorials do. This module only adds the table; dropout comes later in
    the course.

    In evaluation the result is right, in training it is not."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return self.dropout(x + rows.to(x.dtype))


@positional_encoding.misconception
class cuts_x_off(nn.Module):
    """You take x out of the graph (detach, .data or no_grad). The gradient has to pass through this module.

    The numbers are right, but the embedding before it would never learn."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x.detach() + rows.to(x.dtype)


@positional_encoding.misconception
class forgets_the_dtype(nn.Module):
    """You add the table in its own dtype. The result needs the dtype of x.

    If x is in half precision, the result is not, and the next layer would refuse it."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows


@positional_encoding.misconception
class makes_x_like_the_table(nn.Module):
    """You convert x to the dtype of the table. The table has to follow x: the result needs the dtype of x."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x.to(rows.dtype) + rows


@positional_encoding.misconception
class has_no_buffer(nn.Module):
    """No buffer of your module holds the table. Compute it once, for max_len positions, and register it: a buffer moves
    with the module and is not trained.

    The numbers are right."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.table = nn.Parameter(table, requires_grad=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class slices_by_the_batch_size(nn.Module):
    """You take as many rows as the batch has sentences. x is (batch, time, d_model): time is axis 1."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[0]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.misconception
class zeroes_the_first_row(nn.Module):
    """You set row 0 of the table to 0. Position 0 is a position like any other: its row is 0, 1, 0, 1, …"""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        table = sinusoidal_encoding(max_len, d_model)
        table[0] = 0.0
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table[:n]
        return x + rows.to(x.dtype)


@positional_encoding.alternative
class SavedWithTheWeights(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)[:, : d_model // 2]
        self.register_buffer("pe", pe)

    def forward(self, x):
        return (x + self.pe[:, : x.size(1)]).to(x.dtype)


@positional_encoding.alternative
class LookedUp(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.register_buffer("rows", sinusoidal_encoding(max_len, d_model).double())

    def forward(self, x):
        return x + F.embedding(torch.arange(x.shape[1], device=x.device), self.rows).type_as(x)


@positional_encoding.alternative
class TimeFirst(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.register_buffer("pe", sinusoidal_encoding(max_len, d_model).unsqueeze(1))

    def forward(self, x):
        rows = self.pe[: x.shape[1]].to(x)
        return (x.transpose(0, 1) + rows).transpose(0, 1)


@positional_encoding.alternative
class WithARequiresGradFlag(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.register_buffer("pe", sinusoidal_encoding(max_len, d_model))

    def forward(self, x):
        return torch.add(self.pe[: x.shape[-2]].to(x.dtype).requires_grad_(False), x)
