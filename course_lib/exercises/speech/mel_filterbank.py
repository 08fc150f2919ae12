"""The exercise `mel_filterbank`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from course_lib import speech
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect_floats
from course_lib.exercises.decoding.shared import asked
from course_lib.speech import hz_to_mel, mel_to_hz

filters = Exercise(
    speech.mel_filterbank,
    cases=[
        {"n_filters": 3, "n_fft": 16, "sample_rate": 8000},
        {"n_filters": 5, "n_fft": 50, "sample_rate": 16000},
        {"n_filters": 8, "n_fft": 64, "sample_rate": 11000},
        {"n_filters": 2, "n_fft": 24, "sample_rate": 3000},
    ],
    minutes=9,
    difficulty=2,
    hints=[
        "Two lists of frequencies in hertz are all that is needed: those of the bins of the spectrum, and those of the "
        "n_filters + 2 corners.",
        "The corners are equally spaced in mel: hz_to_mel(sample_rate / 2) is the last one, torch.linspace makes the "
        "steps, and mel_to_hz brings them back to hertz. Filter i has the corners i, i + 1 and i + 2.",
        "A straight line from 0 at `left` to 1 at `centre` is (f - left) / (centre - left). One from 1 at `centre` to "
        "0 at `right` is (right - f) / (right - centre). A triangle is the smaller of the two, and 0 where that is "
        "negative.",
        "With left = corners[:-2, None], and centre and right alike, every line is a tensor (n_filters, bins) at once: "
        "torch.minimum(rising, falling).clamp(min=0).",
    ],
)

TOLERANCE = 1e-3  # single precision, and logarithms of both bases


def as_double(answer):
    return answer.double() if isinstance(answer, Tensor) and answer.is_floating_point() else answer


def bank(subject, n_filters, n_fft, sample_rate):
    """The student's filters, and how they should be."""
    arguments = (n_filters, n_fft, sample_rate)
    want = speech.mel_filterbank(*arguments).double()
    got = expect_floats(asked(subject, arguments, as_double), tuple(want.shape)).double()
    return got, want


def expect_filters(got, want, wrong, n_filters, n_fft, sample_rate):
    """Nothing is wrong, or the first wrong weight is shown."""
    if not wrong.any():
        return
    row, column = (int(i) for i in wrong.nonzero()[0])
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))[row : row + 3].tolist()
    left, centre, right = (f"{corner:.0f}" for corner in corners)
    raise Failure(
        f"{n_filters} filters, n_fft {n_fft}, {sample_rate} samples per second. Filter {row} has its corners at "
        f"{left}, {centre} and {right} Hz. At bin {column}, {column * sample_rate / n_fft:.0f} Hz, it should be "
        f"{want[row, column]:.3f}, but yours is {got[row, column]:.3f}."
    )


@filters.property("one row for each filter, one column for each bin from 0 Hz to half the sample rate", points=1)
def filters_shape(subject, case):
    bank(subject, *case.values())


@filters.property("each filter is above 0 between its outer corners, and 0 everywhere else", points=1)
def filters_support(subject, case):
    got, want = bank(subject, *case.values())
    clear = (want == 0) | (want > 10 * TOLERANCE)
    wrong = clear & ((got.abs() > TOLERANCE) != (want > 0))
    expect_filters(got, want, wrong, *case.values())


@filters.property("it rises to 1 and falls again in straight lines over the frequencies in hertz", points=3)
def filters_values(subject, case):
    got, want = bank(subject, *case.values())
    expect_filters(got, want, (got - want).abs() > TOLERANCE, *case.values())


@filters.property("the same holds for a spectrum that is ten times as fine", points=1)
def filters_fine(subject, case):
    arguments = (case["n_filters"], 10 * case["n_fft"], case["sample_rate"])
    got, want = bank(subject, *arguments)
    expect_filters(got, want, (got - want).abs() > TOLERANCE, *arguments)


@filters.misconception
def equally_spaced_in_hertz(n_filters, n_fft, sample_rate):
    """Your corners are equally spaced in hertz. They should be equally spaced on the mel scale.

    As it is, all your filters are equally wide."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    corners = torch.linspace(0.0, sample_rate / 2, n_filters + 2)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def straight_over_mel(n_filters, n_fft, sample_rate):
    """Your corners are right, but between them the lines are straight over the mel scale: you compare bins and corners
    in mel. Bring both to hertz."""
    bins = hz_to_mel(torch.arange(n_fft // 2 + 1) * sample_rate / n_fft)
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = torch.linspace(0.0, float(top), n_filters + 2)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def leaves_the_corners_in_mel(n_filters, n_fft, sample_rate):
    """Your corners are in mel and your bins in hertz. Bring the corners back to hertz before you compare."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = torch.linspace(0.0, float(top), n_filters + 2)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def mixes_two_logarithms(n_filters, n_fft, sample_rate):
    """Your way to the mel scale uses the natural logarithm, and your way back powers of 10. Both belong to the
    logarithm to base 10.

    As it is, your last corners lie far above half the sample rate."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = 2595 * torch.log(1 + torch.tensor(sample_rate / 2) / 700)
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def comes_back_with_the_exponential(n_filters, n_fft, sample_rate):
    """Your way to the mel scale uses the logarithm to base 10, and your way back powers of e. Both belong to base 10.

    As it is, your last corners lie far below half the sample rate."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = 700 * (torch.exp(torch.linspace(0.0, float(top), n_filters + 2) / 2595) - 1)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def forgets_the_minus_one(n_filters, n_fft, sample_rate):
    """On the way back to hertz you leave out the 1 that was added: 700 · 10^(mel / 2595) is 700 + f.

    So every corner lies 700 Hz too high, and no filter begins at 0 Hz."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2)) + 700
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def goes_up_to_the_sample_rate(n_filters, n_fft, sample_rate):
    """Your last corner lies at the sample rate. A recording holds frequencies up to half of it, and so do the bins."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(float(sample_rate)))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def one_corner_too_few(n_filters, n_fft, sample_rate):
    """You have n_filters + 1 corners, which makes n_filters - 1 triangles. Each filter has three corners and shares two
    with its neighbour: n_filters + 2 in all."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 1))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def two_corners_too_few(n_filters, n_fft, sample_rate):
    """You have n_filters corners, which makes n_filters - 2 triangles. Each filter has three corners and shares two
    with its neighbour: n_filters + 2 in all."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def first_peak_at_zero(n_filters, n_fft, sample_rate):
    """Your first filter has its peak at 0 Hz and your last one at half the sample rate. Those are outer corners, where
    these filters are 0."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = float(hz_to_mel(torch.tensor(sample_rate / 2)))
    step = top / (n_filters - 1)
    corners = mel_to_hz(torch.linspace(-step, top + step, n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def side_by_side(n_filters, n_fft, sample_rate):
    """Your triangles do not overlap: each begins where the one before ends. It should begin at the peak of the one
    before."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), 2 * n_filters + 1))
    left, centre, right = corners[:-2:2, None], corners[1:-1:2, None], corners[2::2, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def rectangles(n_filters, n_fft, sample_rate):
    """Your filters are 1 everywhere between their outer corners. They are triangles: 1 at the peak alone."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, right = corners[:-2, None], corners[2:, None]
    return ((bins > left) & (bins < right)).float()


@filters.misconception
def never_falls(n_filters, n_fft, sample_rate):
    """Your filters rise and never fall: beyond the peak they stay at 1. From the peak on they fall back to 0."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre = corners[:-2, None], corners[1:-1, None]
    rising = (bins - left) / (centre - left)
    return rising.clamp(min=0.0, max=1.0)


@filters.misconception
def stops_at_the_peak(n_filters, n_fft, sample_rate):
    """The falling half of your filters is missing: beyond the peak they are 0 at once. From there they fall to 0 in a
    straight line."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre = corners[:-2, None], corners[1:-1, None]
    rising = (bins - left) / (centre - left)
    return torch.where(bins <= centre, rising, 0.0).clamp(min=0.0)


@filters.misconception
def rises_again_beyond_the_peak(n_filters, n_fft, sample_rate):
    """Beyond the peak your filters drop to 0 and rise to 1 a second time. From the peak on they fall: (right - f) /
    (right - centre)."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (bins - centre) / (right - centre)
    inside = (bins > left) & (bins < right)
    return torch.where(bins <= centre, rising, falling) * inside


@filters.misconception
def takes_the_larger_line(n_filters, n_fft, sample_rate):
    """You take the larger of the two lines. A triangle lies under both: take the smaller one."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.maximum(rising, falling).clamp(min=0.0)


@filters.misconception
def adds_the_lines(n_filters, n_fft, sample_rate):
    """You add up the two lines, each kept between 0 and 1. A triangle is the smaller of the two."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return rising.clamp(0.0, 1.0) + falling.clamp(0.0, 1.0)


@filters.misconception
def leaves_negative_weights(n_filters, n_fft, sample_rate):
    """Your weights are negative outside the triangles, where the lines continue below 0. There they should be 0."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling)


@filters.misconception
def same_area(n_filters, n_fft, sample_rate):
    """Your triangles all have the same area: you multiply by 2 / (right - left), as some libraries do. Here every peak
    is 1."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0) * 2 / (right - left)


@filters.misconception
def rows_add_up_to_one(n_filters, n_fft, sample_rate):
    """You divide each filter by the sum of its weights. Here every peak is 1, and wide filters add up to more."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return triangles / triangles.sum(dim=1, keepdim=True).clamp(min=1e-9)


@filters.misconception
def scales_the_highest_bin_to_one(n_filters, n_fft, sample_rate):
    """You divide each filter by its largest weight. The peak of a triangle may lie between two bins, and then no bin
    has the weight 1."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return triangles / triangles.amax(dim=1, keepdim=True).clamp(min=1e-9)


@filters.misconception
def rounds_the_corners_down_to_bins(n_filters, n_fft, sample_rate):
    """You round the corners down to whole bins, by floor((n_fft + 1) · f / sample_rate) as in much public code. Here
    the corners stay where they are."""
    bins = torch.arange(n_fft // 2 + 1)
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    corners = torch.floor((n_fft + 1) * corners / sample_rate)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left).clamp(min=1)
    falling = (right - bins) / (right - centre).clamp(min=1)
    return torch.where(bins < centre, rising, falling).clamp(min=0.0)


@filters.misconception
def cuts_the_corners_to_bins(n_filters, n_fft, sample_rate):
    """You round the corners down to whole bins, by floor(n_fft · f / sample_rate). Here the corners stay where they
    are, between two bins as a rule."""
    bins = torch.arange(n_fft // 2 + 1)
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    corners = torch.floor(n_fft * corners / sample_rate)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left).clamp(min=1)
    falling = (right - bins) / (right - centre).clamp(min=1)
    return torch.where(bins < centre, rising, falling).clamp(min=0.0)


@filters.misconception
def rounds_the_corners_to_bins(n_filters, n_fft, sample_rate):
    """You round the corners to the nearest bins. Here they stay where they are, between two bins as a rule."""
    bins = torch.arange(n_fft // 2 + 1)
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    corners = torch.round(n_fft * corners / sample_rate)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left).clamp(min=1)
    falling = (right - bins) / (right - centre).clamp(min=1)
    return torch.where(bins < centre, rising, falling).clamp(min=0.0)


@filters.misconception
def forgets_the_last_bin(n_filters, n_fft, sample_rate):
    """The last bin is missing: you have n_fft // 2 of them. Bins from 0 Hz to half the sample rate, both included, are
    n_fft // 2 + 1."""
    bins = torch.arange(n_fft // 2) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def uses_all_bins(n_filters, n_fft, sample_rate):
    """You have a column for each of n_fft bins. For real numbers the upper half of the spectrum mirrors the lower:
    n_fft // 2 + 1 bins are enough."""
    bins = torch.arange(n_fft) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def spreads_the_bins_over_the_sample_rate(n_filters, n_fft, sample_rate):
    """You spread the bins from 0 Hz to the sample rate. Bin b has the frequency b · sample_rate / n_fft, and the last
    one lies at half the sample rate."""
    bins = torch.linspace(0.0, sample_rate, n_fft // 2 + 1)
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def divides_by_the_number_of_bins(n_filters, n_fft, sample_rate):
    """Your bins are sample_rate / 2 / (n_fft // 2 + 1) apart: you divide by their number. There is one step fewer than
    there are bins, and a step is sample_rate / n_fft."""
    bins = torch.arange(n_fft // 2 + 1) * (sample_rate / 2) / (n_fft // 2 + 1)
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def halves_the_frequencies_of_the_bins(n_filters, n_fft, sample_rate):
    """Your bins are sample_rate / 2 / n_fft apart, half as much as they should be. There are n_fft // 2 steps up to
    half the sample rate: a step is sample_rate / n_fft."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / 2 / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def counts_bins_from_one(n_filters, n_fft, sample_rate):
    """You count the bins from 1. The first one is at 0 Hz."""
    bins = torch.arange(1, n_fft // 2 + 2) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


@filters.misconception
def one_column_per_filter(n_filters, n_fft, sample_rate):
    """Your filters are columns: (bins, n_filters). Each filter is a row."""
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0).T


@filters.alternative
def with_loops(n_filters, n_fft, sample_rate):
    top = 2595 * math.log10(1 + sample_rate / 2 / 700)
    corners = [700 * (10 ** (i * top / (n_filters + 1) / 2595) - 1) for i in range(n_filters + 2)]
    result = torch.zeros(n_filters, n_fft // 2 + 1)
    for i in range(n_filters):
        left, centre, right = corners[i : i + 3]
        for b in range(n_fft // 2 + 1):
            f = b * sample_rate / n_fft
            if left < f <= centre:
                result[i, b] = (f - left) / (centre - left)
            elif centre < f < right:
                result[i, b] = (right - f) / (right - centre)
    return result


@filters.alternative
def with_natural_logarithms(n_filters, n_fft, sample_rate):
    top = math.log1p(sample_rate / 1400)
    corners = 700 * torch.expm1(torch.linspace(0, top, n_filters + 2, dtype=torch.float64))
    bins = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    slopes = corners[:, None] - bins
    widths = corners.diff()
    rising = -slopes[:-2] / widths[:-1, None]
    falling = slopes[2:] / widths[1:, None]
    return torch.relu(torch.min(rising, falling))


@filters.alternative
def by_interpolation(n_filters, n_fft, sample_rate):
    top = 2595 * np.log10(1 + sample_rate / 1400)
    corners = 700 * (10 ** (np.linspace(0, top, n_filters + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(n_fft, 1 / sample_rate)
    rows = [np.interp(bins, corners[i : i + 3], [0.0, 1.0, 0.0], left=0, right=0) for i in range(n_filters)]
    return torch.tensor(np.array(rows), dtype=torch.float32)


@filters.alternative
def with_where(n_filters, n_fft, sample_rate):
    frequencies = torch.fft.rfftfreq(n_fft, d=1 / sample_rate)
    mels = torch.linspace(0, 2595 * math.log10(1 + sample_rate / 1400), n_filters + 2)
    points = 700 * (torch.pow(10.0, mels / 2595) - 1)
    result = []
    for left, centre, right in zip(points[:-2], points[1:-1], points[2:]):
        side = torch.where(frequencies < centre, centre - left, right - centre)
        result.append((1 - (frequencies - centre).abs() / side).clamp(min=0))
    return torch.stack(result)


@filters.alternative
def as_a_product_of_lines(n_filters, n_fft, sample_rate):
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    corners = mel_to_hz(torch.linspace(0.0, hz_to_mel(torch.tensor(sample_rate / 2)).item(), n_filters + 2))
    heights = (bins - corners[:-1, None]) / corners.diff()[:, None]
    heights = heights.clamp(0.0, 1.0)
    return heights[:-1] * (1 - heights[1:])
