"""The exercise `masked_batch_statistics`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_floats, expect_tuple
from course_lib.checking.inputs import normal
from course_lib.sublayers import check_positions


def real_positions(*lengths):
    """(batch, time), True on the first positions of each sentence, as many as its length."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


masked_batch_statistics = Exercise(
    reference.masked_batch_statistics,
    cases=[
        {
            "x": torch.tensor([[[1.0, 10.0], [3.0, 0.0]], [[5.0, 20.0], [9.0, 9.0]]]),
            "mask": torch.tensor([[True, True], [True, False]]),
        },
        {
            "x": (normal(2, 10, 3, seed=61) * real_positions(1, 10)[..., None] + 0.0).float(),
            "mask": real_positions(1, 10),
        },
        {"x": (normal(3, 5, 4, seed=62) + 2.0).float(), "mask": real_positions(5, 2, 4)},
        {"x": (normal(2, 4, 5, seed=63) - 1.0).float(), "mask": real_positions(3, 4).flip(1)},
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "First the number of real positions: count the True in the mask. Every mean here divides by that number.",
        "x is (batch, time, d_model) and the mask (batch, time): the mask needs an axis of length 1 at the "
        "end before "
        "the two can meet.",
        "Set padding to 0 and add up over batch and time. For the variance, subtract the mean first; then "
        "padding is no "
        "longer 0 and has to be hidden a second time.",
        "Another way: x[mask] is a matrix with only the real positions, (count, d_model).",
        "mean = x[mask].mean(dim=0); variance = (x[mask] - mean).pow(2).mean(dim=0)",
    ],
)


def statistics_answer(subject, case, x=None):
    """In single precision, whatever the case has, so that `mask.float()` can meet x in any operator."""
    x = (case["x"] if x is None else x).float()
    mean, variance = expect_tuple(subject(x, case["mask"]), ("mean", "variance"))
    width = (x.shape[-1],)
    return expect_floats(mean, width, "the mean"), expect_floats(variance, width, "the variance")


@masked_batch_statistics.property("mean and variance have one number for each feature: (d_model,)", points=1)
def statistics_shape(subject, case):
    statistics_answer(subject, case)


@masked_batch_statistics.property("the mean is that of the real positions, all of equal weight", points=1)
def statistics_mean(subject, case):
    mean, _ = statistics_answer(subject, case)
    expect_close(mean, case["x"][case["mask"]].mean(dim=0), "the mean")


@masked_batch_statistics.property(
    "the variance is the mean squared distance of real positions from that mean", points=1
)
def statistics_variance(subject, case):
    _, variance = statistics_answer(subject, case)
    expect_close(variance, case["x"][case["mask"]].var(dim=0, unbiased=False), "the variance")


@masked_batch_statistics.property("what the padding holds makes no difference", points=1)
def statistics_padding(subject, case):
    junk = case["x"].masked_fill(~case["mask"][..., None], 70.0)
    right = reference.masked_batch_statistics(case["x"], case["mask"])
    for name, got, want in zip(("mean", "variance"), statistics_answer(subject, case, junk), right, strict=True):
        expect_close(got, want, f"the {name} for the same x, but with 70 in all padding,")


@masked_batch_statistics.property("gradients reach the real positions and no padding", points=1)
def statistics_gradient(subject, case):
    statistics_answer(subject, case)
    subject.require_untouched_inputs()
    for output, name in enumerate(("mean", "variance")):
        got = subject.gradient(case["x"].float(), case["mask"], wrt=0, output=output)
        want = slope_of_statistics(case, output)
        expect_close(got, want, f"the gradient of the {name} with respect to x")


def slope_of_statistics(case, output):
    x = case["x"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(reference.masked_batch_statistics(x, case["mask"])[output].sum(), x)
    return gradient


@masked_batch_statistics.misconception
def counts_padding(x, mask):
    """The mask has no effect: padding is counted like real positions.

    That is exactly the trouble with batch normalisation.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.numel()
    total = x.sum(dim=(0, 1))
    mean = total / count
    centred = x - mean
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def zeroes_padding_but_counts_it(x, mask):
    """You set padding to 0 but still divide by all positions, batch · time. Divide by the number of real ones."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.numel()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def divides_by_the_sentences(x, mask):
    """You divide by the number of sentences. Divide by the number of real positions."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = x.shape[0]
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def divides_by_the_length(x, mask):
    """You divide by the length of the time axis. Divide by the number of real positions in the whole batch."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = x.shape[1]
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def divides_by_all_numbers(x, mask):
    """You divide by the number of real *numbers*, positions times d_model. A feature has one number for each real
    position.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.expand_as(x).sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def averages_squares_over_padding(x, mask):
    """You divide the squares by all positions, padding included. Divide them by the number of real ones."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / real.numel()
    return (mean, variance)


@masked_batch_statistics.misconception
def takes_the_padding(x, mask):
    """Your mask is the wrong way round: True means a real position here.

    So you have averaged the padding.
    """
    check_positions(x, mask)
    real = ~mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def uses_the_unbiased_variance(x, mask):
    """Your variance divides by the number of real positions minus 1. It divides by the number itself."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / (count - 1)
    return (mean, variance)


@masked_batch_statistics.misconception
def centres_padding_too(x, mask):
    """Padding is 0 before you subtract the mean, and not hidden again afterwards.

    Minus the mean it is no longer 0, so its squares are in your variance.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = x.masked_fill(~real, 0.0) - mean
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def hides_padding_in_the_mean_alone(x, mask):
    """Padding is in your variance: its squares are added up too. It has to be hidden there as well as in the mean."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = x - mean
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def never_centres(x, mask):
    """You average the squares of x itself. The variance is about distances from the mean."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = x.masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def returns_the_deviation(x, mask):
    """You return the standard deviation; the variance is wanted, without the root."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance.sqrt())


@masked_batch_statistics.misconception
def averages_the_sentences(x, mask):
    """You average each sentence and then the averages. All real positions have equal weight.

    As it is, a word in a short sentence counts more.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum(dim=1)
    total = x.masked_fill(~real, 0.0).sum(dim=1)
    mean = (total / count).mean(dim=0)
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = (centred.pow(2).sum(dim=1) / count).mean(dim=0)
    return (mean, variance)


@masked_batch_statistics.misconception
def keeps_the_sentences_apart(x, mask):
    """You have one mean for each sentence. Batch statistics are taken over batch and time together."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum(dim=1)
    total = x.masked_fill(~real, 0.0).sum(dim=1)
    mean = total / count
    centred = (x - mean.unsqueeze(1)).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=1) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def keeps_the_positions_apart(x, mask):
    """You have one mean for each place in time. Batch statistics are taken over batch and time together."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum(dim=0)
    total = x.masked_fill(~real, 0.0).sum(dim=0)
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=0) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def averages_the_features(x, mask):
    """You average over the features of each position: that is layer normalisation. Batch statistics have one number
    for each feature.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = x.shape[-1]
    total = x.masked_fill(~real, 0.0).sum(dim=-1)
    mean = total / count
    centred = (x - mean.unsqueeze(-1)).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=-1) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def makes_one_number(x, mask):
    """You average everything into one number. Each feature has its own mean and variance."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum() * x.shape[-1]
    total = x.masked_fill(~real, 0.0).sum()
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum() / count
    return (mean, variance)


@masked_batch_statistics.misconception
def spreads_one_number_out(x, mask):
    """You average over the features too. Each feature has its own mean and variance."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum() * x.shape[-1]
    total = x.masked_fill(~real, 0.0).sum().expand(x.shape[-1])
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum().expand(x.shape[-1]) / count
    return (mean, variance)


@masked_batch_statistics.misconception
def exchanges_the_two(x, mask):
    """The two results are in the wrong order: the mean comes first, the variance second."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (variance, mean)


@masked_batch_statistics.misconception
def returns_the_mean_alone(x, mask):
    """Only the mean comes back. The variance is wanted too: (mean, variance)."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return mean


@masked_batch_statistics.misconception
def returns_sums(x, mask):
    """You never divide by the number of real positions: these are sums."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1))
    return (mean, variance)


@masked_batch_statistics.misconception
def forgets_to_divide_the_squares(x, mask):
    """The squares are added up, but never divided by the number of real positions."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1))
    return (mean, variance)


@masked_batch_statistics.misconception
def cuts_statistics_off(x, mask):
    """Mean and variance are detached.

    The numbers are right, but no gradient comes back through them.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean.detach(), variance.detach())


@masked_batch_statistics.alternative
def by_indexing(x, mask):
    real = x[mask]
    return real.mean(dim=0), real.var(dim=0, unbiased=False)


@masked_batch_statistics.alternative
def by_weights(x, mask):
    weights = mask.to(x.dtype) / mask.sum()
    mean = torch.einsum("bt,btd->d", weights, x)
    return mean, torch.einsum("bt,btd->d", weights, (x - mean) ** 2)


@masked_batch_statistics.alternative
def by_einsum_with_floats(x, mask):
    real = mask.float()
    mean = torch.einsum("bt,btd->d", real, x) / real.sum()
    return mean, torch.einsum("bt,btd->d", real, (x - mean).square()) / real.sum()


@masked_batch_statistics.alternative
def by_squares_minus_square(x, mask):
    m = mask[:, :, None].double()
    mean = (x * m).sum((0, 1)) / m.sum()
    return mean, (x**2 * m).sum((0, 1)) / m.sum() - mean**2


@masked_batch_statistics.alternative
def sentence_after_sentence(x, mask):
    rows = [x[b, t] for b in range(x.shape[0]) for t in range(x.shape[1]) if mask[b, t]]
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) * (row - mean) for row in rows) / len(rows)
    return [mean, variance]


@masked_batch_statistics.alternative
def by_where_and_var_mean(x, mask):
    flat = x.flatten(0, 1).transpose(0, 1)[:, mask.flatten()]  # (d_model, count)
    variance, mean = torch.var_mean(flat, dim=1, correction=0)
    return mean, variance
