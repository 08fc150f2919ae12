"""The exercise `log_mel`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from course_lib import speech
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.exercises.decoding.shared import asked
from course_lib.speech import frames


def bank(n_filters, bins, seed):
    """Any weights will do for filters, as long as they are positive."""
    return normal(n_filters, bins, seed=seed).abs() + 0.1


features = Exercise(
    speech.log_mel,
    cases=[
        {
            "wave": normal(13, seed=1),
            "length": 6,
            "hop": 4,
            "filterbank": torch.tensor([[0.5, 1.0, 0.0, 0.0], [0.0, 0.25, 1.0, 0.75]]).double(),
        },
        {"wave": normal(40, seed=2, scale=2), "length": 16, "hop": 5, "filterbank": bank(3, 9, seed=3)},
        {"wave": normal(31, seed=4), "length": 9, "hop": 7, "filterbank": bank(2, 5, seed=5)},
        {"wave": normal(23, seed=6, scale=1.5), "length": 8, "hop": 3, "filterbank": bank(7, 5, seed=7)},
    ],
    minutes=5,
    difficulty=2,
    hints=[
        "Five steps, one line each: frames, window, spectrum, filters, logarithm. `frames` is the exercise above; "
        "reference.frames is there, too.",
        "The window has `length` numbers, and a product with (frames, length) multiplies every frame by it. "
        "torch.fft.rfft(…) works along the last axis and gives (frames, length // 2 + 1) complex numbers.",
        "The power of a complex number is its absolute value squared: spectrum.abs() ** 2. Every filter is a weighted "
        "sum over the bins: a matrix product with filterbank.T.",
        "torch.log(power @ filterbank.T + 1e-6). The small number is added before the logarithm.",
    ],
)

LOUD, QUIET = 100.0, 1e-3


def as_double(answer):
    """Without infinities, which cannot be compared; the precision does not matter here."""
    if isinstance(answer, Tensor) and answer.is_complex():
        return torch.view_as_real(answer.detach().resolve_conj())
    if isinstance(answer, Tensor) and answer.is_floating_point():
        return answer.double().clamp(min=-1e6)
    return answer


def features_of(subject, wave, length, hop, filterbank):
    """The student's features, and how they should be."""
    want = speech.log_mel(wave.double(), length, hop, filterbank.double())
    got = expect_floats(asked(subject, (wave, length, hop, filterbank), as_double), tuple(want.shape)).double()
    return got, want


def expect_features(got, want, what):
    wrong = ~torch.isclose(got, want, rtol=1e-4, atol=1e-4)
    if wrong.any():
        frame, filter_ = (int(i) for i in wrong.nonzero()[0])
        raise Failure(
            f"{what}: frame {frame}, filter {filter_} should be {want[frame, filter_]:.4f}, but yours is "
            f"{got[frame, filter_]:.4f}."
        )


def told(case):
    return f"A recording of {len(case['wave'])} samples, length {case['length']}, hop {case['hop']}"


@features.property("one row for each frame, one column for each filter", points=1)
def features_shape(subject, case):
    features_of(subject, *case.values())


@features.property("a recording twice as loud has four times the energy: log 4 is added to every feature", points=1)
def features_of_a_louder_recording(subject, case):
    louder = {**case, "wave": LOUD * case["wave"]}
    twice = {**case, "wave": 2 * LOUD * case["wave"]}
    low, _ = features_of(subject, *louder.values())
    high, _ = features_of(subject, *twice.values())
    grown = high - low
    if not is_close(grown, torch.full_like(grown, math.log(4)), atol=1e-3):
        frame, filter_ = (int(i) for i in (grown - math.log(4)).abs().gt(1e-3).nonzero()[0])
        raise Failure(
            f"{told(case)}, is made twice as loud. Frame {frame}, filter {filter_} should grow by log 4 = "
            f"{math.log(4):.4f}, but yours grows by {grown[frame, filter_]:.4f}."
        )


@features.property("window, power spectrum, filters and logarithm are right", points=3)
def features_values(subject, case):
    expect_features(*features_of(subject, *case.values()), told(case))


@features.property(
    "1e-6 is added to the energy: it counts in near silence, and keeps silence from being -inf", points=1
)
def features_of_silence(subject, case):
    silent = {**case, "wave": torch.zeros_like(case["wave"])}
    expect_features(*features_of(subject, *silent.values()), f"{told(case)}, all of them 0")
    quiet = {**case, "wave": QUIET * case["wave"]}
    expect_features(*features_of(subject, *quiet.values()), f"{told(case)}, in which no sample is above 0.01")


@features.misconception
def forgets_the_window(wave, length, hop, filterbank):
    """You take the spectrum of the bare frames. Each is multiplied by a Hann window first.

    A frame cut off at its ends spreads every tone over all the bins."""
    pieces = frames(wave, length, hop)
    spectrum = torch.fft.rfft(pieces, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def uses_the_symmetric_window(wave, length, hop, filterbank):
    """Your Hann window is the symmetric one, which is 0 at both ends (periodic=False, np.hanning). Here it is
    torch.hann_window(length), which is 0 at its beginning alone."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, periodic=False, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def uses_a_hamming_window(wave, length, hop, filterbank):
    """Your window is a Hamming window. Here it is a Hann window."""
    pieces = frames(wave, length, hop)
    window = torch.hamming_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def window_over_the_recording(wave, length, hop, filterbank):
    """You multiply the whole recording by one window. Every frame gets a window of its own."""
    window = torch.hann_window(len(wave), dtype=wave.dtype, device=wave.device)
    pieces = frames(wave * window, length, hop)
    spectrum = torch.fft.rfft(pieces, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def applies_the_window_twice(wave, length, hop, filterbank):
    """You multiply each frame by the window twice. Once is enough."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window**2, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def magnitude_for_power(wave, length, hop, filterbank):
    """You take the absolute value of the spectrum. The power is its square."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs()
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def squares_after_the_filters(wave, length, hop, filterbank):
    """You add up absolute values in each filter and square the sum. Square first: the filters add up energies."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs()
    energies = (power @ filterbank.T) ** 2
    return torch.log(energies + 1e-6)


@features.misconception
def drops_the_imaginary_part(wave, length, hop, filterbank):
    """You square the real part of the spectrum and drop the imaginary part. The power is real² + imaginary².

    What you get depends on where in its swing a tone is cut."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.real**2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def squares_complex_numbers(wave, length, hop, filterbank):
    """You square the complex numbers of the spectrum and keep the real part, real² - imaginary². The power is real² +
    imaginary²: take the absolute value before the square.

    A power cannot be negative, and yours can: then its logarithm is NaN."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = (spectrum**2).real
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def logarithm_to_base_ten(wave, length, hop, filterbank):
    """You take the logarithm to base 10. The natural logarithm is asked for."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log10(energies + 1e-6)


@features.misconception
def decibels(wave, length, hop, filterbank):
    """Your features are in decibels: 10 times the logarithm to base 10. The natural logarithm is asked for."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return 10 * torch.log10(energies + 1e-6)


@features.misconception
def decibels_of_the_magnitude(wave, length, hop, filterbank):
    """Your features are 20 times the logarithm to base 10 of absolute values that were added up. Square the absolute
    values before you add them up, and take the natural logarithm."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs()
    energies = power @ filterbank.T
    return 20 * torch.log10(energies + 1e-6)


@features.misconception
def logarithm_to_base_two(wave, length, hop, filterbank):
    """You take the logarithm to base 2. The natural logarithm is asked for."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log2(energies + 1e-6)


@features.misconception
def forgets_the_logarithm(wave, length, hop, filterbank):
    """You return the energies themselves. Their logarithm is missing."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return energies + 1e-6


@features.misconception
def adds_one(wave, length, hop, filterbank):
    """You add 1 to the energies (log1p). It should be 1e-6, so that quiet sounds differ from silence."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1)


@features.misconception
def adds_nothing(wave, length, hop, filterbank):
    """You take the logarithm of the bare energies. 1e-6 has to be added first: in silence the energy is 0, and its
    logarithm is -inf."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies)


@features.misconception
def clamps_at_the_small_number(wave, length, hop, filterbank):
    """You raise energies below 1e-6 to 1e-6. Here it is added to every energy."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies.clamp(min=1e-6))


@features.misconception
def adds_too_little(wave, length, hop, filterbank):
    """You add 1e-10 to the energies. It should be 1e-6."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-10)


@features.misconception
def adds_to_every_bin(wave, length, hop, filterbank):
    """You add 1e-6 to the power of every bin, before the filters. It is added once, to the energy of each filter."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2 + 1e-6
    energies = power @ filterbank.T
    return torch.log(energies)


@features.misconception
def logarithm_before_the_filters(wave, length, hop, filterbank):
    """You take the logarithm of the power in each bin and apply the filters to that. Energies are added up first; the
    logarithm comes last."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    return torch.log(power + 1e-6) @ filterbank.T


@features.misconception
def forgets_the_filters(wave, length, hop, filterbank):
    """You return the logarithm of the power in every bin. The mel filters are missing."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    return torch.log(power + 1e-6)


@features.misconception
def divides_by_the_filters_sum(wave, length, hop, filterbank):
    """You divide each energy by the sum of the filter's weights. The energy of a filter is the plain sum of filter ·
    power."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T / filterbank.sum(dim=1)
    return torch.log(energies + 1e-6)


@features.misconception
def divides_by_the_length(wave, length, hop, filterbank):
    """Your power is |rfft|² divided by the length of a frame (norm="ortho" does that). Here nothing is divided."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2 / length
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def scales_the_spectrum(wave, length, hop, filterbank):
    """Your spectrum is divided by the length of a frame (norm="forward" does that). Here the power is |rfft|², and
    nothing is divided."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1) / length
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def subtracts_the_mean_over_time(wave, length, hop, filterbank):
    """You subtract the mean over the frames from each feature. Here the features are the logarithms themselves."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    logarithms = torch.log(energies + 1e-6)
    return logarithms - logarithms.mean(dim=0)


@features.misconception
def centres_the_frames(wave, length, hop, filterbank):
    """Your frames are centred at multiples of the hop, with half a frame added at both ends, as torch.stft does unless
    it is told center=False. Here a frame begins there."""
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.stft(wave, length, hop, window=window, center=True, return_complex=True).T
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def frames_side_by_side(wave, length, hop, filterbank):
    """Your frames lie side by side, and the hop plays no part. Each begins `hop` samples after the one before."""
    pieces = frames(wave, length, length)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T
    return torch.log(energies + 1e-6)


@features.misconception
def one_column_per_frame(wave, length, hop, filterbank):
    """Your frames are columns: (n_filters, frames). Each frame is a row."""
    pieces = frames(wave, length, hop)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)
    power = spectrum.abs() ** 2
    energies = filterbank @ power.T
    return torch.log(energies + 1e-6)


@features.alternative
def with_stft(wave, length, hop, filterbank):
    window = torch.hann_window(length).to(wave)
    spectrum = torch.stft(wave, length, hop_length=hop, window=window, center=False, return_complex=True)
    return torch.log(filterbank @ spectrum.abs().pow(2) + 1e-6).T


@features.alternative
def with_real_and_imaginary_parts(wave, length, hop, filterbank):
    pieces = wave.unfold(0, length, hop) * torch.hann_window(length)
    parts = torch.view_as_real(torch.fft.rfft(pieces))
    return (torch.einsum("tbc,mb->tm", parts**2, filterbank) + 1e-6).log()


@features.alternative
def with_numpy(wave, length, hop, filterbank):
    samples, weights = wave.numpy(), filterbank.numpy()
    window = np.hanning(length + 1)[:-1]
    rows = []
    for start in range(0, len(samples) - length + 1, hop):
        power = np.abs(np.fft.rfft(samples[start : start + length] * window)) ** 2
        rows.append(np.log(weights @ power + 1e-6))
    return torch.tensor(np.stack(rows))


@features.alternative
def with_sines_and_cosines(wave, length, hop, filterbank):
    steps = torch.arange(length).to(wave)
    window = 0.5 - 0.5 * torch.cos(2 * math.pi * steps / length)
    angles = 2 * math.pi * torch.outer(steps, torch.arange(length // 2 + 1).to(wave)) / length
    pieces = torch.stack([wave[s : s + length] for s in range(0, len(wave) - length + 1, hop)]) * window
    power = (pieces @ angles.cos()) ** 2 + (pieces @ angles.sin()) ** 2
    return torch.log(power @ filterbank.T + 1e-6)


@features.alternative
def with_the_full_spectrum(wave, length, hop, filterbank):
    spectrum = torch.fft.fft(frames(wave, length, hop) * torch.hann_window(length, dtype=wave.dtype))
    power = (spectrum * spectrum.conj()).real[:, : length // 2 + 1]
    return torch.log((power[:, None, :] * filterbank).sum(-1) + 1e-6)
