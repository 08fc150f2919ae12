"""The exercise `learned_positions`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
from torch import nn

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.positions.shared import expect_nothing_else_happens

learned_positions = Exercise(
    reference.LearnedPositions,
    cases=[
        {"max_len": 5, "d_model": 4, "x": normal(2, 3, 4, seed=11), "table": normal(5, 4, seed=12)},
        {"max_len": 6, "d_model": 3, "x": normal(4, 2, 3, seed=13), "table": normal(6, 3, seed=14)},
        {"max_len": 4, "d_model": 7, "x": normal(3, 4, 7, seed=15), "table": normal(4, 7, seed=16)},
        {"max_len": 8, "d_model": 2, "x": normal(1, 3, 2, seed=17), "table": normal(8, 2, seed=18)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "A learned table is an embedding, like that of the words; but what is looked up is the position, not the word.",
        "nn.Embedding(max_len, d_model) holds the table; nn.Parameter(torch.zeros(max_len, d_model)) works too.",
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


def learned_wanted(case):
    return case["x"] + case["table"][: case["x"].shape[1]]


@learned_positions.property("there is one trainable table, one row per position; the result is as large as x", points=1)
def learned_has_a_table(subject, case):
    built, _ = learned_module(subject, case)
    expect_floats(built(case["x"]), tuple(case["x"].shape))


@learned_positions.property("at position t, row t of the table is added", points=2)
def learned_values(subject, case):
    built, _ = learned_module(subject, case)
    expect_close(built(case["x"]), learned_wanted(case))


@learned_positions.property("the rows that were used learn, and no others", points=1)
def learned_gradients(subject, case):
    built, name = learned_module(subject, case)
    x, n = case["x"], case["x"].shape[1]
    slope = built.parameter_gradients(x)[name].reshape(case["table"].shape)
    built.note("gradient of the table", slope)
    want = torch.zeros_like(case["table"])
    want[:n] = 2 * learned_wanted(case).sum(dim=0)
    expect(slope.any(), "No gradient reaches the table: it would never be trained.")
    expect_close(slope, want, "the gradient of the table")


@learned_positions.property("nothing else happens to x: no dropout in training, and gradients pass", points=1)
def learned_leaves_x_alone(subject, case):
    built, _ = learned_module(subject, case)
    expect_nothing_else_happens(built, case["x"], learned_wanted(case))


@learned_positions.misconception
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


@learned_positions.misconception
class swaps_rows_and_columns(nn.Module):
    """Your table has d_model rows and max_len columns. It needs one row for each position."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(d_model, max_len)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table.weight[:, :n].T
        return x + rows


@learned_positions.misconception
class learns_one_number_a_position(nn.Module):
    """Your table holds one number for each position. A position needs a vector of d_model numbers.

    As it is, the same number is added to all features."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, 1)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class learns_one_vector_for_all(nn.Module):
    """Your module learns one vector and adds it everywhere. Each position needs a vector of its own.

    As it is, the tokens still do not know where they stand."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return x + self.table


@learned_positions.misconception
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


@learned_positions.misconception
class numbers_the_batch(nn.Module):
    """You number the sentences of the batch, not the tokens of a sentence. x is (batch, time, d_model): time is axis
    1."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[0]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows[:, None]


@learned_positions.misconception
class looks_up_the_features(nn.Module):
    """You look up x itself. What is looked up is the position: the whole numbers 0, 1, 2, …"""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = x
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class looks_up_the_last_position(nn.Module):
    """You look up a single number, the last position of x. Look up one position for each token.

    As it is, all tokens get the same row."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.tensor(n - 1, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class looks_up_the_length(nn.Module):
    """You look up a single number, the length of x. Look up one position for each token.

    As it is, all tokens get the same row."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.tensor(n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class numbers_from_one(nn.Module):
    """Your positions start at 1. Count from 0.

    As it is, row 0 is never used, and a text of full length has no row for its last token."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(1, n + 1, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class slices_from_one(nn.Module):
    """Your slice starts at row 1. Count from 0.

    As it is, row 0 is never used, and a text of full length has no row for its last token."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table.weight[1 : n + 1]
        return x + rows


@learned_positions.misconception
class takes_the_last_learned_rows(nn.Module):
    """You take the last rows of the table. The first token stands at position 0: take the first rows."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        rows = self.table.weight[-n:]
        return x + rows


@learned_positions.misconception
class numbers_backwards(nn.Module):
    """Your positions run backwards: the first token gets the highest number. It stands at position 0."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device).flip(0)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class multiplies_with_the_learned_table(nn.Module):
    """You multiply x by the rows of the table. They are added."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x * rows


@learned_positions.misconception
class returns_the_learned_rows_alone(nn.Module):
    """You return only the rows of the table: x itself is lost."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return rows.expand_as(x)


@learned_positions.misconception
class returns_the_learned_rows_without_a_batch(nn.Module):
    """You return only the rows of the table: x itself, with its batch axis, is lost."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return rows


@learned_positions.misconception
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


@learned_positions.misconception
class adds_learned_rows_in_place(nn.Module):
    """You write into the caller's tensor (x += …). Make a new one.

    A second call with the same x would add the positions a second time."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        x += rows
        return x


@learned_positions.misconception
class detaches_the_rows(nn.Module):
    """You take the rows of the table out of the graph (detach, .data or no_grad).

    So no gradient comes back to them, and they are never trained."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows.detach()


@learned_positions.misconception
class counts_the_sentences(nn.Module):
    """You take as many rows as the batch has sentences. x is (batch, time, d_model): time is axis 1."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[0]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class has_a_padding_row(nn.Module):
    """You make row 0 a padding row (padding_idx=0), which is never trained. Position 0 is a position like any other."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model, padding_idx=0)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x + rows


@learned_positions.misconception
class leaves_dropout_after_the_sum(nn.Module):
    """You apply dropout after the sum. This module only adds the table.

    In evaluation the result is right, in training it is not."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return self.dropout(x + rows)


@learned_positions.misconception
class drops_out_in_evaluation_too(nn.Module):
    """You apply dropout, and it is always on, in evaluation too. This module only adds the table."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return nn.functional.dropout(x + rows, 0.1)


@learned_positions.misconception
class cuts_x_off(nn.Module):
    """You take x out of the graph (detach, .data or no_grad). The gradient has to pass through this module.

    The numbers are right, but the embedding before it would never learn."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x.detach() + rows


@learned_positions.misconception
class scales_x_too(nn.Module):
    """You multiply x by √d_model as well. That belongs to the embedding layer; this module only adds positions."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return x * x.shape[-1] ** 0.5 + rows


@learned_positions.misconception
class appends_the_rows(nn.Module):
    """You append the rows to x, which makes it twice as wide. Here they are added."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        n = x.shape[1]
        positions = torch.arange(0, n, device=x.device)
        rows = self.table(positions)
        return torch.cat([x, rows.expand_as(x)], dim=-1)


@learned_positions.alternative
class BareParameter(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(max_len, d_model) * 0.02)

    def forward(self, x):
        return x + self.pos[: x.size(1)]


@learned_positions.alternative
class WithABatchAxis(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, max_len, d_model))

    def forward(self, x):
        batch, time, _ = x.shape
        return x + self.pos_embedding[:, :time].expand(batch, -1, -1)


@learned_positions.alternative
class LookedUpForEverySentence(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.wpe = nn.Embedding(max_len, d_model)

    def forward(self, x):
        positions = torch.arange(x.shape[1]).repeat(x.shape[0], 1)
        return self.wpe(positions) + x


@learned_positions.alternative
class OneHotTimesWeight(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table)

    def forward(self, x):
        one_hot = torch.eye(len(self.table), dtype=x.dtype)[: x.shape[1]]
        return torch.baddbmm(x, one_hot.expand(len(x), -1, -1), self.table.to(x.dtype).expand(len(x), -1, -1))
