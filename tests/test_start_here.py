"""The warm-ups: the references on numbers one can check by hand, and wrong answers that must be recognised."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from course_lib import check
from course_lib.start_here import batch_matmul, pad_batch, softmax, squared_distances


@pytest.fixture(autouse=True)
def own_progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


# --- the references -------------------------------------------------------------------------------------


def test_softmax_by_hand():
    x = torch.tensor([0.0, math.log(3.0)])
    torch.testing.assert_close(softmax(x, 0), torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(softmax(x + 1000, 0), torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(softmax(torch.tensor([1.0, 2.0, 4.0]).log(), 0), torch.tensor([1.0, 2.0, 4.0]) / 7)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_softmax_agrees_with_torch(dim):
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(softmax(x, dim), torch.softmax(x, dim))
    torch.testing.assert_close(softmax(1e4 * x, dim), torch.softmax(1e4 * x, dim))


def test_softmax_of_one_number_is_1():
    assert softmax(torch.tensor([[-1e4], [1e4]]), 1).tolist() == [[1.0], [1.0]]


def test_softmax_keeps_the_dtype():
    assert softmax(torch.zeros(2), 0).dtype == torch.float32
    assert softmax(torch.zeros(2, dtype=torch.float64), 0).dtype == torch.float64


def test_softmax_says_which_axes_there_are():
    with pytest.raises(IndexError, match=r"range of \[-2, 1\]"):
        softmax(torch.zeros(2, 2), 2)


def test_squared_distances_by_hand():
    a = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    b = torch.tensor([[[0.0, 1.0], [3.0, 4.0], [6.0, 8.0]]])
    assert squared_distances(a, b).tolist() == [[[1.0, 25.0, 100.0], [18.0, 0.0, 25.0]]]


def test_squared_distances_agree_with_torch():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    b = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(squared_distances(a, b), torch.cdist(a, b) ** 2)


def test_batch_matmul_by_hand():
    a = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    b = torch.tensor([[[1.0], [10.0]], [[100.0], [1000.0]]])
    assert batch_matmul(a, b).tolist() == [[[21.0]], [[4300.0]]]


def test_batch_matmul_refuses_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError):
        batch_matmul(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))


THREE = [torch.tensor([5, 6, 7]), torch.tensor([8]), torch.tensor([9, 9, 9, 9, 4])]


def test_pad_batch_by_hand():
    batch, lengths = pad_batch(THREE, pad_id=0)
    assert batch.tolist() == [[5, 6, 7, 0, 0], [8, 0, 0, 0, 0], [9, 9, 9, 9, 4]]
    assert lengths.tolist() == [3, 1, 5]
    assert batch.dtype == lengths.dtype == torch.long


def test_pad_batch_cuts_and_widens_to_max_len():
    narrow, cut = pad_batch(THREE, pad_id=0, max_len=2)
    assert narrow.tolist() == [[5, 6], [8, 0], [9, 9]] and cut.tolist() == [2, 1, 2]
    wide, same = pad_batch(THREE, pad_id=0, max_len=7)
    assert wide.shape == (3, 7) and same.tolist() == [3, 1, 5]


def test_pad_batch_agrees_with_torch():
    torch.testing.assert_close(pad_batch(THREE, 3)[0], pad_sequence(THREE, batch_first=True, padding_value=3))


def test_pad_batch_of_nothing_and_of_empty_sequences():
    batch, lengths = pad_batch([], pad_id=0)
    assert batch.shape == (0, 0) and lengths.shape == (0,)
    batch, lengths = pad_batch([torch.tensor([], dtype=torch.long), torch.tensor([4])], pad_id=1)
    assert batch.tolist() == [[1], [4]] and lengths.tolist() == [0, 1]


def test_pad_batch_leaves_the_sequences_alone():
    pad_batch(THREE, pad_id=0, max_len=1)
    assert [len(sequence) for sequence in THREE] == [3, 1, 5]


# --- known mistakes, written as somebody else would write them --------------------------------------------


def softmax_naive(x, dim):
    return x.exp() / x.exp().sum(dim, keepdim=True)


def softmax_by_numpy(x, dim):
    weights = np.exp(x - x.amax(dim, keepdim=True))
    return weights / weights.sum(dim, keepdim=True)


def softmax_out_of_lists(x, dim):
    return torch.tensor(F.softmax(x, dim).tolist())


def softmax_of_the_flattened(x, dim):
    return x.flatten().softmax(0).view_as(x)


def softmax_with_a_cap(x, dim):
    weights = x.clip(max=700).exp()
    return weights / weights.sum(dim, keepdim=True)


def softmax_moved(x, dim):
    return x.swapaxes(dim, -1).softmax(-1)


def distances_by_cdist(a, b):
    return torch.cdist(a, b)


def distances_turned_over(a, b):
    return ((b[:, :, None] - a[:, None]) ** 2).sum(-1)


def distances_of_a_sum(a, b):
    return (a**2).sum(-1)[:, :, None] + (b**2).sum(-1)[:, None] + 2 * a @ b.mT


def matmul_by_einsum(a, b):
    return torch.einsum("bnk,ckm->bnm", a, b)


def matmul_last_round(a, b):
    for one, other in zip(a, b):
        product = one @ other
    return product


def matmul_that_overwrites(a, b):
    result = torch.zeros(a.shape[0], a.shape[1], b.shape[2])
    for k in range(a.shape[2]):
        result = a[:, :, k, None] * b[:, None, k]
    return result


def pad_on_the_left(sequences, pad_id, max_len=None):
    width = max_len or max(map(len, sequences))
    kept = [s[:width] for s in sequences]
    return torch.stack([F.pad(s, (width - len(s), 0), value=pad_id) for s in kept]), torch.tensor([*map(len, kept)])


def pad_and_count(sequences, pad_id, max_len=None):
    width = max_len or max(map(len, sequences))
    rows = [(s.tolist() + [pad_id] * width)[:width] for s in sequences]
    batch = torch.tensor(rows)
    return batch, (batch != pad_id).sum(1)


def pad_and_slice(sequences, pad_id, max_len=None):
    batch = pad_sequence(sequences, batch_first=True, padding_value=pad_id)[:, :max_len]
    return batch, torch.tensor([len(s[:max_len]) for s in sequences])


def softmax_with_the_maximum_at_the_end(x, dim):
    weights = (x - x.max(dim)[0][..., None]).exp()
    return weights / weights.sum(dim, keepdim=True)


def distances_with_b_at_the_end(a, b):
    return (a[:, :, None] - b[..., None]).pow(2).sum(-1)


def pad_with_float_lengths(sequences, pad_id, max_len=None):
    batch, lengths = pad_batch(sequences, pad_id, max_len)
    return batch, lengths.float()


@pytest.mark.parametrize(
    ("exercise", "wrong", "name"),
    [
        ("softmax", lambda x, dim: x.exp(), "returns_exp_of_x"),
        ("softmax", softmax_with_the_maximum_at_the_end, "puts_the_maximum_back_at_the_end"),
        ("softmax", lambda x, dim: torch.ones_like(x) / x.size(dim), "all_shares_are_equal"),
        ("squared_distances", distances_with_b_at_the_end, "new_axis_of_b_at_the_end"),
        ("softmax", softmax_naive, "overflows"),
        ("softmax", softmax_out_of_lists, "leaves_the_graph"),
        ("softmax", softmax_of_the_flattened, "one_total_for_everything"),
        ("softmax", softmax_with_a_cap, "clips_large_numbers"),
        ("softmax", softmax_moved, "leaves_the_axis_moved"),
        ("softmax", lambda x, dim: F.log_softmax(x, dim), "returns_logarithms"),
        ("softmax", lambda x, dim: (-x).softmax(dim), "turns_the_sign_around"),
        ("squared_distances", distances_by_cdist, "takes_the_root"),
        ("squared_distances", distances_turned_over, "has_a_and_b_exchanged"),
        ("squared_distances", distances_of_a_sum, "adds_the_points"),
        ("batch_matmul", matmul_by_einsum, "adds_up_over_the_batch"),
        ("batch_matmul", matmul_last_round, "keeps_only_the_last_example"),
        ("batch_matmul", matmul_that_overwrites, "keeps_only_the_last_term"),
        ("pad_batch", pad_on_the_left, "pads_on_the_left"),
        ("pad_batch", pad_and_count, "lengths_by_value"),
        ("pad_batch", pad_and_slice, "never_wider_than_the_longest"),
    ],
)
def test_known_mistake_in_other_words(exercise, wrong, name):
    assert check(exercise, wrong).misconception == name


def test_a_small_slip_is_described():
    assert "without `dtype` where `lengths` is computed" in told("pad_batch", pad_with_float_lengths)


def test_numpy_is_named_where_gradients_are_asked_for():
    report = check("softmax", softmax_by_numpy)
    assert report.misconception == "computes_in_numpy"
    assert "You compute in numpy" in told("softmax", softmax_by_numpy)


# --- two mistakes at once ---------------------------------------------------------------------------------


def softmax_naive_over_the_last_axis(x, dim):
    weights = x.exp()
    return weights / weights.sum(-1, keepdim=True)


def softmax_naive_without_keepdim(x, dim):
    weights = x.exp()
    return weights / weights.sum(dim)


def distances_turned_over_and_rooted(a, b):
    return (b[:, :, None] - a[:, None]).pow(2).sum(-1) ** 0.5


def distances_as_mean_absolute_error(a, b):
    return (a[:, :, None] - b[:, None]).abs().mean(-1)


def pad_time_first_without_limit(sequences, pad_id, max_len=None):
    return pad_sequence(sequences, padding_value=pad_id), torch.tensor([len(s) for s in sequences])


def pad_and_slice_with_old_lengths(sequences, pad_id, max_len=None):
    batch = pad_sequence(sequences, batch_first=True, padding_value=pad_id)[:, :max_len]
    return batch, torch.tensor([len(s) for s in sequences])


def pad_zeros_on_the_left(sequences, pad_id, max_len=None):
    width = max_len or max(map(len, sequences))
    kept = [s[:width] for s in sequences]
    return torch.stack([F.pad(s, (width - len(s), 0)) for s in kept]), torch.tensor([len(s) for s in kept])


def softmax_naive_over_everything(x, dim):
    return x.exp() / x.exp().sum()


def pad_zeros_and_count_by_value(sequences, pad_id, max_len=None):
    width = max_len or max(map(len, sequences))
    batch = torch.stack([F.pad(s[:width], (0, width - len(s[:width]))) for s in sequences])
    return batch, (batch != pad_id).sum(1)


@pytest.mark.parametrize(
    ("exercise", "wrong", "names"),
    [
        ("softmax", softmax_naive_over_the_last_axis, {"last_axis_and_overflows"}),
        ("softmax", softmax_naive_over_everything, {"one_total_and_overflows"}),
        ("softmax", softmax_naive_without_keepdim, {"both#sum_without_keepdim&overflows"}),
        ("squared_distances", distances_turned_over_and_rooted, {"both#has_a_and_b_exchanged&takes_the_root"}),
        ("squared_distances", distances_as_mean_absolute_error, {"both#takes_absolute_values&takes_the_mean"}),
        ("batch_matmul", lambda a, b: (a[0] @ b).mT, {"takes_the_first_a_for_all", "returns_the_transpose"}),
        ("pad_batch", pad_time_first_without_limit, {"ignores_max_len", "puts_time_first"}),
        ("pad_batch", pad_and_slice_with_old_lengths, {"never_wider_than_the_longest", "lengths_before_truncation"}),
        ("pad_batch", pad_zeros_on_the_left, {"pads_on_the_left", "pads_with_zero"}),
        ("pad_batch", pad_zeros_and_count_by_value, {"pads_with_zero_and_counts_by_value"}),
    ],
)
def test_two_mistakes_are_named_or_described(exercise, wrong, names):
    report = check(exercise, wrong)
    assert set(str(report.misconception).split(" + ")) == names, report


def told(exercise, wrong):
    return " ".join(str(check(exercise, wrong)).split())


def test_exponentials_are_not_said_to_be_at_most_one():
    assert "largest of them is 1" not in told("softmax", lambda x, dim: x.exp())


def test_absolute_values_that_are_not_added_up_are_not_called_squares():
    words = told("squared_distances", lambda a, b: (a.unsqueeze(2) - b.unsqueeze(1)).abs())
    assert "You take the absolute value of each difference" in words and "squares of the single" not in words


def test_order_of_the_new_axes_is_not_called_a_sum_over_points():
    assert "sum runs over the points" not in told("squared_distances", distances_with_b_at_the_end)


# --- what is and what is not a mistake ----------------------------------------------------------------------


def test_overflow_costs_only_its_own_points():
    report = check("softmax", softmax_naive)
    assert [c.passed for c in report.checks] == [True, True, True, True, False]


def test_equal_shares_earn_the_shape_alone():
    def equal_shares(x, dim):
        return torch.full_like(x, 1 / x.shape[dim])

    assert check("softmax", equal_shares).points == 1
    assert "The larger one should have the larger share" in told("softmax", equal_shares)


def test_zero_distances_earn_the_shape_alone():
    def zeros(a, b):
        return torch.zeros(a.shape[0], a.shape[1], b.shape[1])

    assert check("squared_distances", zeros).points == 1
    assert "as if two different points were the same" in told("squared_distances", zeros)


def test_a_width_that_fits_one_case_only_is_caught():
    def four_wide(sequences, pad_id, max_len=None):
        return pad_batch(sequences, pad_id, max_len or 4)

    assert not check("pad_batch", four_wide).passed


def test_writing_into_x_is_told_as_such():
    def in_place(x, dim):
        x -= x.amax(dim, keepdim=True)
        return x.softmax(dim)

    assert "changed one of its inputs in place" in told("softmax", in_place)


def test_silent_broadcast_of_a_square_is_caught():
    """Without keepdim a square input raises nothing; the check must not depend on an exception."""
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    wrong = x.exp() / x.exp().sum(1)
    assert wrong.shape == x.shape and not torch.allclose(wrong, softmax(x, 1))
    assert not check("softmax", lambda x, dim: torch.softmax(x, dim) if x.dim() != 2 else wrong.to(x)).passed


def test_integers_of_any_size_are_ids():
    def small(sequences, pad_id, max_len=None):
        batch, lengths = pad_batch(sequences, pad_id, max_len)
        return batch.to(torch.uint8), lengths.to(torch.int16)

    assert check("pad_batch", small).passed


def test_practice_leaves_no_trace(tmp_path):
    assert check("softmax", torch.softmax, practice=True).passed
    assert not (tmp_path / "progress.json").exists()
    check("softmax", torch.softmax)
    assert (tmp_path / "progress.json").exists()
