"""The exercise `masked_mean`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats, expect_tensor
from course_lib.checking.inputs import normal


def real_places(*rows: str) -> Tensor:
    """`xx.` is a sequence with two real positions and one of padding after them."""
    return torch.tensor([[place == "x" for place in row] for row in rows])


masked_mean = Exercise(
    classification.masked_mean,
    cases=[
        {
            "x": torch.tensor([[[2.0, -4.0], [4.0, 1.0], [9.0, 9.0]], [[5.0, 3.0], [-1.0, 8.0], [7.0, 6.0]]]),
            "real": real_places("xx.", "..x"),
        },
        {"x": normal(4, 5, 3, seed=1).float() + 1, "real": real_places("x.xx.", ".....", "xxxxx", ".x...")},
        {"x": normal(6, 2, seed=2).float(), "real": real_places("x.xxx.")[0]},
        {
            "x": normal(2, 3, 5, 4, seed=3).float() - 1,
            "real": torch.stack([real_places("xxxx.", "..xx.", "x...."), real_places("x.x.x", ".....", "...xx")]),
        },
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "A mean is a sum divided by a count. Padding must be missing in both.",
        "x is (..., time, d) and real (..., time). With an axis of length 1 at the end, real.unsqueeze(-1), the two "
        "can meet.",
        "x.masked_fill(~real.unsqueeze(-1), 0.0) sets padding to 0, so that it adds nothing to a sum over dim=-2. The "
        "count is real.sum(dim=-1, keepdim=True).",
        "If there is no real position, sum and count are 0. Divide by count.clamp(min=1), and 0 / 1 is what is wanted.",
    ],
)


def mean_of(subject, x: Tensor, real: Tensor) -> Tensor:
    """What the subject gives, of the right shape. There may still be NaN in it."""
    got = expect_tensor(subject(x, real), (*x.shape[:-2], x.shape[-1]))
    expect(got.is_floating_point(), f"The result should hold floating point numbers, but its dtype is {got.dtype}.")
    return got


def of_nonempty(tensor: Tensor, real: Tensor) -> Tensor:
    """The vectors of sequences that have a real position."""
    return tensor[real.any(dim=-1)]


def as_batch(case) -> tuple[Tensor, Tensor]:
    """The case as (batch, time, d) and (batch, time): other numbers of axes come later."""
    x, real = case.values()
    return x.reshape(-1, *x.shape[-2:]), real.reshape(-1, real.shape[-1])


@masked_mean.property("one vector per sequence: (batch, d)", points=1)
def mean_shape(subject, case):
    mean_of(subject, *as_batch(case))


@masked_mean.property("without padding it is the plain mean over the positions", points=1)
def mean_without_padding(subject, case):
    x, real = as_batch(case)
    got = mean_of(subject, x, torch.ones_like(real))
    expect_close(got, x.mean(dim=-2), "the mean of sequences without padding")


@masked_mean.property("padding is left out, of the sum and of the count, whatever it holds", points=2)
def mean_with_padding(subject, case):
    x, real = as_batch(case)
    want = of_nonempty(classification.masked_mean(x, real), real)
    got = of_nonempty(mean_of(subject, x, real), real)
    expect_close(got, want, "the mean over the real positions")
    junk = x.masked_fill(~real.unsqueeze(-1), 70.0)
    got = of_nonempty(mean_of(subject, junk, real), real)
    expect_close(got, want, "the mean for the same x, but with 70 in all padding,")


@masked_mean.property("a sequence without any real position gives zeros", points=1)
def mean_of_nothing(subject, case):
    x, real = as_batch(case)
    got = mean_of(subject, x, real & False)
    expect_floats(got, what="the mean of sequences without any real position")
    expect_close(got, torch.zeros_like(got), "the mean of sequences without any real position")
    expect_floats(mean_of(subject, x, real))


@masked_mean.property("there may be any number of axes before time", points=1)
def mean_of_any_rank(subject, case):
    x, real = case.values()
    axes = f"with x of shape {tuple(x.shape)} and real of shape {tuple(real.shape)}"
    expect_close(mean_of(subject, x, real), classification.masked_mean(x, real), f"the mean {axes}")


@masked_mean.property("gradients reach the real positions, equally, and no padding", points=1)
def mean_gradient(subject, case):
    x, real = case.values()
    expect(not mean_of(subject, x, real).isnan().any(), "There is NaN in the result.")
    subject.require_untouched_inputs()
    slope = subject.gradient(x, real, wrt=0)
    expect(slope.any(), "No gradient reaches x: somewhere the numbers leave torch's graph.")
    share = real / real.sum(dim=-1, keepdim=True).clamp(min=1)
    expect_close(slope, share.unsqueeze(-1).expand_as(x), "the gradient of the mean with respect to x")


@masked_mean.misconception
def averages_padding_too(x, real):
    """You take the mean over all positions. The mask plays no part.

    A short sequence in a long batch is mostly padding, and so is its mean."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return x.mean(dim=-2)


@masked_mean.misconception
def divides_by_the_length(x, real):
    """You leave padding out of the sum, but divide by the length of the time axis. Divide by the number of real
    positions.

    The more padding a sequence has, the smaller its mean."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = torch.tensor(x.shape[-2])
    return total / count.clamp(min=1)


@masked_mean.misconception
def adds_padding_up(x, real):
    """You add up all positions and divide by the number of real ones. Padding has to be left out of the sum, too."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = x.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def takes_the_sum(x, real):
    """You return the sum over the real positions. It has to be divided by their number.

    As it is, a long sequence gives a longer vector than a short one."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total


@masked_mean.misconception
def hides_the_real_positions(x, real):
    """You set the real positions to 0 and keep the padding. `real` is True at real positions."""
    hidden = real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def averages_the_padding(x, real):
    """You take the mean over the padding. `real` is True at real positions.

    Nothing of the sequence itself is in your result."""
    hidden = real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = (~real).sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def counts_the_padding(x, real):
    """You divide by the number of padded positions. Divide by the number of real ones."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = (~real).sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def takes_the_maximum(x, real):
    """You take the largest value of each feature. The mean is asked for.

    A maximum knows one position of each feature, a mean all of them."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, -torch.inf)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return torch.where(count > 0, kept.amax(dim=-2), 0.0)


@masked_mean.misconception
def takes_the_first_position(x, real):
    """You take the vector of the first position. The mean over all real positions is asked for."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return x[..., 0, :]


@masked_mean.misconception
def divides_by_zero(x, real):
    """Where there is no real position you divide by 0. Such a sequence should give zeros.

    0 / 0 is NaN, and with one NaN in it the loss of the whole batch is NaN."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / count


@masked_mean.misconception
def cures_the_nan_afterwards(x, real):
    """Where there is no real position you divide 0 by 0, and replace the NaN afterwards.

    The result is right, but its gradient is NaN all the same."""
    hidden = ~real.unsqueeze(-1)
    kept = x * ~hidden
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return (total / count).nan_to_num(0.0)


@masked_mean.misconception
def averages_all_if_nothing_is_real(x, real):
    """Where there is no real position you take the mean over all of them. Such a sequence should give zeros."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return torch.where(count > 0, total / count.clamp(min=1), x.mean(dim=-2))


@masked_mean.misconception
def handles_batches_alone(x, real):
    """Your axes are counted from the front, for x of shape (batch, time, d). There may be more axes before time, or
    none: counted from the end, time is always the last but one of x."""
    hidden = ~real.unsqueeze(2)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=1)
    count = real.sum(dim=1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def adds_one_to_the_count(x, real):
    """You divide by one more than the number of real positions.

    That avoids 0 / 0, but makes every mean too small."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / (count + 1)


@masked_mean.misconception
def adds_a_little_too_much(x, real):
    """You add 0.001 or more to the number of real positions before you divide. That changes every mean; only a count
    of 0 needs help."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / (count + 1e-3)


@masked_mean.misconception
def keeps_the_time_axis(x, real):
    """You keep the time axis, with length 1. The result has one vector per sequence, (..., d)."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2, keepdim=True)
    count = real.sum(dim=-1, keepdim=True)
    return total / count.unsqueeze(-1).clamp(min=1)


@masked_mean.misconception
def rounds_down(x, real):
    """You divide with //, which rounds down to whole numbers."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total // count.clamp(min=1)


@masked_mean.misconception
def counts_the_whole_batch(x, real):
    """You divide by the number of real positions in the whole batch. Each sequence has its own number."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum()
    return total / count.clamp(min=1)


@masked_mean.misconception
def averages_the_features(x, real):
    """You average over the features of each position. The mean runs over the positions, the last axis but one."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-1)
    count = real.sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def assumes_padding_at_the_end(x, real):
    """You take the first positions, as many as there are real ones. Real positions need not come first."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    places = torch.arange(x.shape[-2])
    first = places < real.sum(dim=-1, keepdim=True)
    total = (x * first.unsqueeze(-1)).sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1)


@masked_mean.misconception
def divides_by_the_root(x, real):
    """You divide by the root of the number of real positions. A mean divides by the number itself."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return total / count.clamp(min=1).sqrt()


@masked_mean.misconception
def takes_the_last_real_position(x, real):
    """You take the vector of the last real position. The mean over all real positions is asked for."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    places = torch.arange(x.shape[-2]) * real
    last = places.argmax(dim=-1)[..., None, None].expand(*kept.shape[:-2], 1, x.shape[-1])
    return kept.gather(-2, last).squeeze(-2)


@masked_mean.misconception
def cuts_the_gradient(x, real):
    """The result is detached from x.

    The numbers are right, but no gradient comes back: the encoder would learn nothing."""
    hidden = ~real.unsqueeze(-1)
    kept = x.masked_fill(hidden, 0.0)
    total = kept.sum(dim=-2)
    count = real.sum(dim=-1, keepdim=True)
    return (total / count.clamp(min=1)).detach()


@masked_mean.alternative
def by_multiplication(x, real):
    weights = real.unsqueeze(-1).float()
    return (x * weights).sum(-2) / weights.sum(-2).clamp(min=1e-9)


@masked_mean.alternative
def by_a_matrix_product(x, real):
    shares = real.to(x.dtype) / real.sum(-1, keepdim=True).clamp_min(1)
    return (shares.unsqueeze(-2) @ x).squeeze(-2)


@masked_mean.alternative
def with_einsum(x, real):
    total = torch.einsum("...td,...t->...d", x, real.to(x.dtype))
    return total / real.sum(dim=-1)[..., None].clamp(min=1e-6)


@masked_mean.alternative
def one_sequence_after_the_other(x, real):
    flat, places = x.reshape(-1, *x.shape[-2:]), real.reshape(-1, real.shape[-1])
    means = [row[here].mean(dim=0) if here.any() else row.new_zeros(row.shape[-1]) for row, here in zip(flat, places)]
    return torch.stack(means).reshape(*x.shape[:-2], x.shape[-1])


@masked_mean.alternative
def by_adding_indices(x, real):
    rows = torch.arange(real[..., 0].numel()).reshape(real.shape[:-1]).unsqueeze(-1).expand_as(real)
    total = torch.zeros(real[..., 0].numel(), x.shape[-1], dtype=x.dtype).index_add(0, rows[real], x[real])
    count = torch.bincount(rows[real], minlength=len(total)).unsqueeze(-1)
    return (total / count.clamp(min=1)).reshape(*x.shape[:-2], x.shape[-1])


@masked_mean.alternative
def with_nanmean(x, real):
    return torch.where(real[..., None], x, torch.nan).nanmean(dim=-2).nan_to_num(0.0)
