"""The exercise `positional_encoding`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_agreement, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.exercises.positions.shared import for_an_even_width
from course_lib.positions import sinusoidal_encoding

positional_encoding = Exercise(
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


@positional_encoding.property("the result has the shape and the dtype of x", points=1)
@for_an_even_width
def module_shape(subject, case):
    x = case["x"]
    got = expect_floats(module_of(subject, case)(x), tuple(x.shape))
    expect(
        got.dtype == x.dtype,
        f"x is {x.dtype} and the result is {got.dtype}. The next layer would refuse it: make the table {x.dtype}.",
    )


@positional_encoding.property("every sentence of the batch gets the same position vectors", points=1)
@for_an_even_width
def module_is_alike_for_all(subject, case):
    x = case["x"]
    built = module_of(subject, case)
    added = expect_floats(built(x), tuple(x.shape)) - x
    claim = "You add something else to one sentence than to the first."
    expect_agreement(added, added[:1].expand_as(added), claim)


@positional_encoding.property("x plus the first rows of the sinusoidal table", points=2)
@for_an_even_width
def module_values(subject, case):
    expect_close(module_of(subject, case)(case["x"]), module_wanted(case), atol=1e-4)


@positional_encoding.property("the table is a buffer: it moves with the module, and it is not trained", points=1)
@for_an_even_width
def module_has_a_buffer(subject, case):
    built = module_of(subject, case)
    trained = built.shapes()
    expect(not trained, f"The formula is fixed, but your module has the trainable parameter {list(trained)[:1]}.")
    expect(
        built.moves_to_another_device(case["x"]),
        "After module.to(another_device) your table stays behind on the old device, and adding it to x fails.",
    )


@positional_encoding.property("an odd d_model works as well", points=1)
def module_of_an_odd_width(subject, case):
    if case["d_model"] % 2 == 0:
        module_of(subject, case)(case["x"])  # the last property also looks at what became of x
        return
    even = {**case, "d_model": case["d_model"] - 1, "x": case["x"][..., 1:]}
    with subject.unobserved():
        got = module_of(subject, even)(even["x"])
    if isinstance(got, torch.Tensor) and is_close(got, module_wanted(even), atol=1e-4):
        expect_close(module_of(subject, case)(case["x"]), module_wanted(case), atol=1e-4)


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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
    """Your result holds the position vectors alone: x itself is lost."""

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
    """Your result is the slice of the table: x itself, with its batch axis, is lost."""

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
    """Your first token gets the vector of position 1. Counting starts at 0."""

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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.misconception
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


@positional_encoding.alternative
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


@positional_encoding.alternative
class FrozenEmbedding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.rows = nn.Embedding.from_pretrained(sinusoidal_encoding(max_len, d_model), freeze=True)

    def forward(self, x):
        return x + self.rows(torch.arange(x.shape[1], device=x.device))


@positional_encoding.alternative
class FrozenParameter(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.pe = nn.Parameter(sinusoidal_encoding(max_len, d_model), requires_grad=False)

    def forward(self, x):
        return torch.add(self.pe[: x.shape[-2]], x)


@positional_encoding.alternative
class ComputedAtEachCall(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        return x + sinusoidal_encoding(x.shape[1], self.d_model).to(x)


@positional_encoding.alternative
class PlainAttributeCarriedAlong(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.pe = sinusoidal_encoding(max_len, d_model).unsqueeze(1)

    def forward(self, x):
        rows = self.pe[: x.shape[1]].to(x.device)
        return (x.transpose(0, 1) + rows).transpose(0, 1)
