"""Positions: the worked numbers of the notebook, what the references refuse, and answers with two mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises
from course_lib.exercises.positions.alibi_bias import slopes_by_recursion
from course_lib.position_model import SCHEMES, PositionModel
from course_lib.positions import (
    LearnedPositions,
    PositionalEncoding,
    alibi_bias,
    apply_rope,
    concatenated_encoding,
    shift_matrix,
    sinusoidal_encoding,
)


def named(name, obj):
    """The misconception that is found behind a wrong answer."""
    report = grade(all_exercises()[name], Subject(obj))
    assert not report.passed
    return report.misconception


# --- the references -------------------------------------------------------------------------------------


def test_worked_vectors():
    want = [[0, 1, 0, 1], [0.8415, 0.5403, 0.0100, 0.99995], [0.9093, -0.4161, 0.0200, 0.9998]]
    torch.testing.assert_close(sinusoidal_encoding(3, 4), torch.tensor(want), atol=5e-5, rtol=0)


def test_position_zero_at_full_width():
    row = sinusoidal_encoding(1, 512)[0]
    assert row.shape == (512,)
    assert row.tolist() == [0.0, 1.0] * 256


def test_early_columns_change_fastest():
    """Sign changes of the columns over positions 0 to 99: the early columns are the fine ones."""
    table = sinusoidal_encoding(100, 20)
    signs = table[1:, :8].sign()
    assert (signs.diff(dim=0) != 0).sum(dim=0).tolist() == [31, 32, 12, 13, 4, 5, 1, 2]


def test_every_position_has_its_own_row():
    assert len(sinusoidal_encoding(5000, 512).unique(dim=0)) == 5000


def test_single_precision_is_good_enough_for_5000_positions():
    exact = np.arange(5000)[:, None] / 10000 ** (np.arange(512) // 2 * 2 / 512)
    exact = np.where(np.arange(512) % 2 == 0, np.sin(exact), np.cos(exact))
    assert np.abs(sinusoidal_encoding(5000, 512).numpy() - exact).max() < 1e-3


def test_odd_width_ends_with_a_sine():
    table = sinusoidal_encoding(6, 5)
    assert table.shape == (6, 5)
    torch.testing.assert_close(table[:, 4], (torch.arange(6) / 10000 ** (4 / 5)).sin())


def test_layout_of_tensor2tensor():
    torch.testing.assert_close(concatenated_encoding(2, 4)[1], torch.tensor([0.84147, 0.0001, 0.5403, 1.0]))
    taken_in_turn = concatenated_encoding(20, 512).unflatten(1, (2, 256)).transpose(1, 2).flatten(1)
    difference = (taken_in_turn - sinusoidal_encoding(20, 512)).abs().max()
    assert 0.02 < difference < 0.03  # the frequencies differ a little too


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: sinusoidal_encoding(-1, 4), "-1 positions"),
        (lambda: sinusoidal_encoding(3, 0), "0 columns"),
        (lambda: concatenated_encoding(3, 5), "odd"),
        (lambda: shift_matrix(1, 3), "odd"),
        (lambda: apply_rope(torch.ones(2, 3), torch.arange(2)), "even"),
        (lambda: alibi_bias(0, 3), "at least one head"),
        (lambda: PositionalEncoding(4, 2)(torch.ones(1, 3, 4)), "3 positions"),
        (lambda: LearnedPositions(2, 4)(torch.ones(1, 3, 4)), "only 2"),
    ],
)
def test_bad_input_is_refused_in_words(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_no_positions_at_all():
    assert sinusoidal_encoding(0, 4).shape == (0, 4)
    assert alibi_bias(2, 0).shape == (2, 0, 0)


def test_the_fixed_table_is_neither_trained_nor_saved():
    module = PositionalEncoding(6, 10)
    assert not list(module.parameters()) and not module.state_dict()
    assert [name for name, _ in module.named_buffers()] == ["table"]
    assert module.to("meta").table.device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dtype_is_kept(dtype):
    x = torch.zeros(2, 3, 6, dtype=dtype)
    assert PositionalEncoding(6, 10)(x).dtype == dtype
    assert apply_rope(x, torch.arange(3)).dtype == dtype


def test_shifts_add_up():
    torch.testing.assert_close(shift_matrix(2, 8) @ shift_matrix(5, 8), shift_matrix(7, 8))
    torch.testing.assert_close(shift_matrix(-3, 8), shift_matrix(3, 8).T)


def test_sines_alone_cannot_be_shifted():
    """No matrix takes the sine columns of pos to those of pos + 1, while the full table has an exact one."""
    table = sinusoidal_encoding(201, 16).double()
    for columns, error in ((slice(None), 0.0), (slice(0, None, 2), 0.3)):
        before, after = table[:-1, columns], table[1:, columns]
        misfit = (before @ torch.linalg.lstsq(before, after).solution - after).square().mean().sqrt()
        assert misfit < 1e-5 if error == 0 else misfit > 0.1


def test_rope_scores_depend_on_the_distance():
    q, k = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)

    def score(i, j):
        return apply_rope(q[None], torch.tensor([i])) @ apply_rope(k[None], torch.tensor([j])).T

    torch.testing.assert_close(score(3, 1), score(40, 38), atol=1e-5, rtol=1e-5)
    assert (score(3, 1) - score(3, 2)).abs() > 1e-3


def test_rope_is_the_shift_of_the_sinusoids():
    """Turned by RoPE, the pairs (1, 0) become (cos, sin) of their position: the table with columns swapped."""
    x = torch.tensor([1.0, 0.0]).repeat(4).expand(5, 8)
    swapped = apply_rope(x, torch.arange(5)).unflatten(1, (4, 2)).flip(-1).flatten(1)
    torch.testing.assert_close(swapped, sinusoidal_encoding(5, 8))


@pytest.mark.parametrize("num_heads", range(1, 33))
def test_alibi_slopes_are_those_of_the_paper(num_heads):
    torch.testing.assert_close(-alibi_bias(num_heads, 2)[:, 1, 0], torch.tensor(slopes_by_recursion(num_heads)))


def test_alibi_slopes_of_eight_and_of_three_heads():
    assert (-alibi_bias(8, 2)[:, 1, 0]).tolist() == [2.0**-h for h in range(1, 9)]
    assert (-alibi_bias(3, 2)[:, 1, 0]).tolist() == [1 / 16, 1 / 256, 1 / 4]


def test_learned_rows_that_were_not_used_get_no_gradient():
    module = LearnedPositions(5, 3)
    module(torch.ones(2, 3, 3)).sum().backward()
    assert module.table.weight.grad.sum(dim=1).tolist() == [6.0, 6.0, 6.0, 0.0, 0.0]


# --- the model that notebook 3 compares them with ------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_future_changes_nothing_whatever_the_scheme(scheme):
    model = PositionModel(scheme, longest=9)
    symbols = torch.tensor([[3, 1, 4, 1, 5, 2, 6, 5, 3]])
    changed = symbols.clone()
    changed[:, 5:] = 0
    before, after = model(symbols), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_a_scheme_that_does_not_exist():
    with pytest.raises(ValueError, match="no scheme 'rope'"):
        PositionModel("rope")


# --- wrong answers, written in other ways ---------------------------------------------------------------


def test_table_with_the_doubled_exponents_of_a_loop():
    def answer(n, d_model):
        pe = torch.zeros(n, d_model)
        for pos in range(n):
            for i in range(d_model):
                angle = pos / (10000 ** ((2 * i) / d_model))
                pe[pos, i] = math.sin(angle) if i % 2 == 0 else math.cos(angle)
        return pe

    assert named("sinusoidal_encoding", answer) == "takes_the_column_for_the_pair"


def test_table_of_numpy_without_an_odd_width():
    def answer(n, d_model):
        position = torch.arange(n).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe = torch.zeros(n, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        return pe

    report = grade(all_exercises()["sinusoidal_encoding"], Subject(answer))
    assert report.misconception is None  # there is nothing but an error, for an odd width
    assert "A common cause of this error" in report.advice and "odd" in str(report)


def test_a_torch_error_is_not_an_empty_cell():
    report = grade(
        all_exercises()["sinusoidal_encoding"],
        Subject(lambda n, d_model: torch.arange(n) / 10000 ^ (torch.arange(d_model) / d_model)),
    )
    assert report.outcome == "raised"


def test_module_for_time_first():
    class Answer(nn.Module):
        def __init__(self, d_model, max_len):
            super().__init__()
            self.register_buffer("pe", sinusoidal_encoding(max_len, d_model).unsqueeze(1))

        def forward(self, x):
            return x + self.pe[: x.size(0)]

    assert named("PositionalEncoding", Answer) == "adds_along_the_batch"


def test_module_with_a_forgotten_buffer():
    class Answer(nn.Module):
        def __init__(self, d_model, max_len):
            super().__init__()
            self.pe = sinusoidal_encoding(max_len, d_model)[None]

        def forward(self, x):
            return x + self.pe[:, : x.shape[1]].to(x.dtype)

    assert named("PositionalEncoding", Answer) == "keeps_a_plain_attribute"


def module(forward, table=sinusoidal_encoding):
    """PositionalEncoding with another forward(self, x), and perhaps another table."""

    class Answer(nn.Module):
        def __init__(self, d_model, max_len):
            super().__init__()
            self.dropout = nn.Dropout(0.3)
            self.register_buffer("pe", table(max_len, d_model))

    Answer.forward = forward
    return Answer


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        (lambda self, x: self.dropout(x + self.pe[: x.size(1)].to(x.dtype)), "leaves_the_dropout_in"),
        (lambda self, x: x.data + self.pe[: x.size(1)].to(x.dtype), "cuts_x_off"),
        (lambda self, x: x + self.pe[: x.size(1)], "forgets_the_dtype"),
        (lambda self, x: x.to(self.pe.dtype) + self.pe[: x.size(1)], "makes_x_like_the_table"),
        (lambda self, x: x + self.pe[: x.size(0)].to(x.dtype), "slices_by_the_batch_size"),
    ],
)
def test_module_with_one_mistake(forward, name):
    assert named("PositionalEncoding", module(forward)) == name


def test_module_whose_table_has_its_sizes_in_the_wrong_order():
    def forward(self, x):
        return x + self.pe[: x.shape[1]].to(x.dtype)

    swapped = module(forward, lambda max_len, d_model: sinusoidal_encoding(d_model, max_len))
    report = grade(all_exercises()["PositionalEncoding"], Subject(swapped))
    assert report.misconception == "swaps_the_sizes_of_the_table"
    assert "your constructor's arguments or where the table is made" in " ".join(str(report).split())


@pytest.mark.parametrize("how", ["computed at each call", "frozen parameter", "frozen embedding"])
def test_module_without_a_buffer(how):
    class Answer(nn.Module):
        def __init__(self, d_model, max_len):
            super().__init__()
            table = sinusoidal_encoding(max_len, d_model)
            self.d_model = d_model
            if how == "frozen parameter":
                self.pe = nn.Parameter(table, requires_grad=False)
            elif how == "frozen embedding":
                self.pe = nn.Embedding.from_pretrained(table)

        def forward(self, x):
            if how == "computed at each call":
                return x + sinusoidal_encoding(x.shape[1], self.d_model).to(x)
            table = self.pe if how == "frozen parameter" else self.pe.weight
            return x + table[: x.shape[1]].to(x)

    assert named("PositionalEncoding", Answer) == "has_no_buffer"


def test_learned_table_that_is_frozen():
    class Answer(nn.Module):
        def __init__(self, max_len, d_model):
            super().__init__()
            self.wpe = nn.Embedding(max_len, d_model)
            self.wpe.weight.requires_grad_(False)

        def forward(self, x):
            return x + self.wpe(torch.arange(x.shape[1]))

    assert named("LearnedPositions", Answer) == "has_nothing_to_learn"


@pytest.mark.parametrize(
    ("embedding", "forward", "name"),
    [
        ({"padding_idx": 0}, lambda self, x: x + self.wpe.weight[: x.size(1)], None),
        ({"padding_idx": 0}, lambda self, x: x + self.wpe(torch.arange(x.size(1))), "has_a_padding_row"),
        ({}, lambda self, x: x + self.wpe(torch.arange(x.size(0))), "counts_the_sentences"),
        ({}, lambda self, x: self.drop(x + self.wpe(torch.arange(x.size(1)))), "leaves_dropout_after_the_sum"),
        ({}, lambda self, x: x.data + self.wpe(torch.arange(x.size(1))), "cuts_x_off"),
    ],
)
def test_learned_table_with_one_mistake(embedding, forward, name):
    class Answer(nn.Module):
        def __init__(self, max_len, d_model):
            super().__init__()
            self.wpe = nn.Embedding(max_len, d_model, **embedding)
            self.drop = nn.Dropout(0.5)

    Answer.forward = forward
    report = grade(all_exercises()["LearnedPositions"], Subject(Answer))
    assert report.passed == (name is None) and report.misconception == name


def test_rope_of_many_models():
    """rotate_half, as many repositories have it: right, but with the other pairing."""

    def answer(x, positions):
        d = x.shape[-1]
        inv_freq = 1.0 / (10000 ** (torch.arange(0, d, 2).float() / d))
        angles = torch.cat([torch.outer(positions.float(), inv_freq)] * 2, dim=-1)
        x1, x2 = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat([-x2, x1], dim=-1) * angles.sin()

    assert named("apply_rope", answer) == "pairs_first_with_second_half"


@pytest.mark.parametrize(("name", "most"), [("apply_rope", 1.5), ("shift_matrix", 1.5), ("alibi_bias", 1.25)])
@pytest.mark.parametrize("kind", ["an argument", "the identity"])
def test_answers_that_do_nothing_earn_a_quarter_at_most(name, most, kind):
    def answer(*args):
        if kind == "an argument":
            return args[0]
        return torch.eye(args[-1] if isinstance(args[-1], int) else len(args[-1])).expand(2, -1, -1).squeeze()

    assert grade(all_exercises()[name], Subject(answer)).points <= most


def test_alibi_with_signed_distances_the_wrong_way_round():
    def answer(num_heads, n):
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        return torch.tensor(slopes_by_recursion(num_heads)).view(-1, 1, 1) * (i - j)

    assert named("alibi_bias", answer) == "favours_far_keys"


# --- only true sentences --------------------------------------------------------------------------------


def sentence(name, obj):
    return grade(all_exercises()[name], Subject(obj)).diagnosis.sentence


def angles(n, d_model):
    return torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)


def test_a_table_without_frequencies_is_not_said_to_divide_as_integers():
    def answer(n, d_model):
        pos = torch.arange(n).float()[:, None]
        return torch.where(torch.arange(d_model) % 2 == 0, pos.sin(), pos.cos())

    assert "All your columns have the same frequency, 1." in sentence("sinusoidal_encoding", answer)


def test_cosines_in_the_first_half_are_not_called_sines():
    def answer(n, d_model):
        return torch.cat([angles(n, d_model).cos(), angles(n, d_model).sin()], -1)[:, :d_model]

    words = sentence("sinusoidal_encoding", answer)
    assert "two halves" in words and "sines in the first" not in words


def test_an_odd_column_left_empty_without_a_loop():
    def answer(n, d_model):
        table, even = torch.zeros(n, d_model), 2 * (d_model // 2)
        table[:, 0:even:2], table[:, 1::2] = (f(angles(n, d_model)[:, : d_model // 2]) for f in (torch.sin, torch.cos))
        return table

    assert "loop" not in sentence("sinusoidal_encoding", answer)


def test_slopes_without_the_minus_are_not_said_to_have_it():
    def answer(num_heads, n):
        slopes = torch.tensor([2 ** (8 * h / num_heads) for h in range(1, num_heads + 1)])
        return -slopes[:, None, None] * (torch.arange(n)[:, None] - torch.arange(n))

    words = sentence("alibi_bias", answer)
    assert "one series for every number of heads" in words and "2^(-8h/H)" not in words


# --- two mistakes at once -------------------------------------------------------------------------------


def test_table_with_two_mistakes():
    def answer(n, d_model):
        pe = torch.zeros(n, d_model)
        for pos in range(n):
            for column in range(d_model):
                angle = (pos + 1) / 10000 ** (column // 2 * 2 / d_model)
                pe[pos, column] = math.sin(angle) if column % 2 else math.cos(angle)
        return pe

    assert named("sinusoidal_encoding", answer) == "both#swaps_sine_and_cosine&counts_from_one"


def test_table_with_two_other_mistakes():
    def answer(n, d_model):
        frequencies = torch.pow(1000.0, -torch.arange(d_model) / d_model)
        angles = torch.outer(torch.arange(n), frequencies)
        angles[:, 1::2] += math.pi / 2
        return angles.sin()

    assert named("sinusoidal_encoding", answer) == "gives_the_cosine_its_own_frequency + has_another_base"


def test_a_second_mistake_does_not_hide_behind_an_odd_width():
    def answer(n, d_model):
        angles = torch.arange(n)[:, None] / 10000 ** (2 * torch.arange(0, d_model, 2) / d_model)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)  # has d_model + 1 columns if d_model is odd

    assert named("sinusoidal_encoding", answer) == "doubles_the_exponent + puts_all_sines_first"


def test_module_with_two_mistakes():
    class Answer(nn.Module):
        def __init__(self, d_model, max_len):
            super().__init__()
            self.scale = d_model**0.5
            self.pe = nn.Parameter(sinusoidal_encoding(max_len, d_model)[None])

        def forward(self, x):
            return self.scale * x + self.pe[:, : x.size(1)]

    assert named("PositionalEncoding", Answer) == "trains_the_table + scales_x"


def test_shift_with_two_mistakes():
    def answer(k, d_model):
        angles = [-k * 10000 ** (-i / d_model) for i in range(d_model // 2)]
        blocks = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles]
        return torch.block_diag(*blocks)

    assert named("shift_matrix", answer) == "shifts_backwards + halves_the_exponent_of_the_shift"


def test_rope_with_two_mistakes():
    def answer(x, positions):
        d, n = x.shape[-1], x.shape[-2]
        angles = torch.outer(torch.arange(n), 10000.0 ** (-torch.arange(0, d, 2) / d))
        a, b = x[..., 0::2], x[..., 1::2]
        out = torch.empty_like(x)
        out[..., 0::2] = a * angles.cos() + b * angles.sin()
        out[..., 1::2] = b * angles.cos() - a * angles.sin()
        return out

    assert named("apply_rope", answer) == "turns_clockwise + ignores_the_positions"


def test_alibi_with_two_mistakes():
    def answer(num_heads, n):
        slopes = 2.0 ** (-8.0 * torch.arange(1, num_heads + 1) / num_heads)
        distance = torch.arange(n).view(-1, 1) - torch.arange(n).view(1, -1)
        return torch.einsum("h,ij->hij", slopes, distance.abs())

    assert named("alibi_bias", answer) == "both#uses_one_series_for_any_number&favours_far_keys"


def test_learned_positions_with_two_mistakes():
    class Answer(nn.Module):
        def __init__(self, max_len, d_model):
            super().__init__()
            self.wpe = nn.Embedding(max_len, d_model)

        def forward(self, x):
            return x * self.wpe(torch.arange(1, x.shape[1] + 1))

    assert named("LearnedPositions", Answer) == "numbers_from_one + multiplies_with_the_learned_table"
