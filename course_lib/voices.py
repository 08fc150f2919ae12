"""Spoken digits: recordings that come with the course, and how waves, sequences of digits and noise are made from them.

A wave is a tensor (samples,) with 8,000 samples per second. There are 52 voices of two speech synthesisers and one of a
person; each says the ten digits once. `make_utterances` puts digits of one voice together into sequences such as 4 0 7.
`python -m benchmarks.make_voices` has made the recordings.
"""

from __future__ import annotations

import math
import wave as wave_files
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

RATE = 8000  # samples per second
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DATA = Path(__file__).parent / "data"
VOICES, PERSON = DATA / "voices.npz", DATA / "person.npz"

# --- recordings -----------------------------------------------------------------------------------------


def mu_law_encode(wave: Tensor) -> Tensor:
    """Eight bits for each sample, finer near 0, as telephones do. wave: in [-1, 1]. Returns: 0 to 255, uint8."""
    squeezed = wave.sign() * torch.log1p(255 * wave.abs().clamp(max=1)) / math.log(256)  # in [-1, 1]
    return ((squeezed + 1) / 2 * 255).round().to(torch.uint8)


def mu_law_decode(codes: Tensor) -> Tensor:
    """The wave that the eight bits stand for, in [-1, 1]."""
    squeezed = codes.float() / 255 * 2 - 1
    return squeezed.sign() * (squeezed.abs() * math.log(256)).expm1() / 255


@dataclass(frozen=True)
class Voice:
    """A speaker and the ten digits as they say them: `digits[7]` is the wave of "seven"."""

    name: str
    digits: tuple[Tensor, ...]


@dataclass(frozen=True)
class Voices:
    """The voices to train with, and three kinds that no model is trained with."""

    train: tuple[Voice, ...]  # espeak-ng
    unseen: tuple[Voice, ...]  # other voices of espeak-ng
    other_machine: tuple[Voice, ...]  # flite, whose voices were built from recordings of people
    person: tuple[Voice, ...]  # a human being


@cache
def load_voices() -> Voices:
    """All voices that come with the course. Where they come from, and their licences: course_lib/data/LICENSES.md."""
    by_group: dict[str, list[Voice]] = {"train": [], "unseen": [], "other_machine": [], "person": []}
    for path in (VOICES, PERSON):
        for group, voice in read_voices(path):
            by_group[group].append(voice)
    return Voices(**{group: tuple(voices) for group, voices in by_group.items()})


def read_voices(path: Path) -> Iterator[tuple[str, Voice]]:
    """What group each voice of a file belongs to, and the voice."""
    with np.load(path) as file:
        codes, lengths = torch.from_numpy(file["codes"]), file["lengths"]  # (samples of all), (voice, 10)
        waves = mu_law_decode(codes).split(lengths.flatten().tolist())
        for i, name in enumerate(file["names"].tolist()):
            group, _, name = name.partition(" ")
            yield group, Voice(name, waves[10 * i : 10 * i + 10])


def write_voices(path: Path, voices: Sequence[tuple[str, Voice]]) -> None:
    """The opposite of `read_voices`. The same voices give the same bytes."""
    waves = [wave for _, voice in voices for wave in voice.digits]
    np.savez_compressed(
        path,
        codes=torch.cat([mu_law_encode(wave) for wave in waves]).numpy(),
        lengths=np.array([len(wave) for wave in waves], dtype=np.int32).reshape(len(voices), 10),
        names=np.array([f"{group} {voice.name}" for group, voice in voices]),
    )


def read_wav(path: Path | str) -> Tensor:
    """A recording as a wave of 8,000 samples per second: all channels together, the loudest sample ±1.

    Reads files of 8, 16, 24 or 32 bits per sample, not compressed, with any sampling rate.
    """
    with wave_files.open(str(path)) as file:
        width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
        raw = np.frombuffer(file.readframes(file.getnframes()), dtype=np.uint8).reshape(-1, channels, width)
    if len(raw) == 0:
        raise ValueError(f"{path} holds no sound.")
    if width == 1:  # 0 to 255, silence at 128
        values = raw[..., 0].astype(np.float64) - 128
    else:  # the lowest byte first, the sign in the highest
        highest = raw[..., -1].view(np.int8).astype(np.float64)
        lower = sum(raw[..., byte] * 256.0 ** (byte - width + 1) for byte in range(width - 1))
        values = highest + lower
    sound = torch.from_numpy(values.mean(axis=1)).float()  # (samples,)
    return loudest_one(resample(sound - sound.mean(), RATE / rate))


def loudest_one(wave: Tensor) -> Tensor:
    """The same sound, scaled so that its largest sample is 1 in size."""
    return wave / wave.abs().max().clamp(min=1e-9)


def trimmed(wave: Tensor, silent: float = 0.015) -> Tensor:
    """The sound without the silence at both ends, except for a hundredth of a second.

    silent: how loud silence may be, as a share of the loudest hundredth of a second.
    """
    step = RATE // 100
    loudness = wave[: len(wave) // step * step].view(-1, step).square().mean(dim=1).sqrt()
    loud = (loudness > silent * loudness.max()).nonzero().flatten().tolist()
    return wave[max(loud[0] - 1, 0) * step : (loud[-1] + 2) * step]


def resample(wave: Tensor, factor: float) -> Tensor:
    """The same sound with `factor` times as many samples per second; what they cannot hold is left out.

    Played at the old rate it is slower and lower if the factor is above 1.
    """
    samples = round(len(wave) * factor)
    spectrum = torch.fft.rfft(wave)[: samples // 2 + 1]
    return torch.fft.irfft(spectrum, n=samples) * (samples / len(wave))


# --- rows of digits -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Utterance:
    """A sequence of digits as one voice says it. `places[i]` is where digit i begins and ends, in samples."""

    wave: Tensor
    digits: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    voice: str


def say(voice: Voice, digits: Sequence[int], generator: torch.Generator) -> Utterance:
    """The digits one after the other, each at its own speed (± 12 %), with pauses of up to 0.12 seconds between."""

    def between(low: float, high: float) -> float:
        return low + (high - low) * torch.rand((), generator=generator).item()

    parts, places, now = [], [], 0
    for digit in digits:
        pause = int(between(0.01, 0.12) * RATE)
        sound = resample(voice.digits[digit], between(0.88, 1.12)) * between(0.6, 1.0)
        parts += [torch.zeros(pause), sound]
        places.append((now + pause, now + pause + len(sound)))
        now += pause + len(sound)
    end = torch.zeros(int(between(0.03, 0.12) * RATE))
    return Utterance(torch.cat([*parts, end]), tuple(digits), tuple(places), voice.name)


def add_noise(wave: Tensor, decibels: float, generator: torch.Generator | None = None) -> Tensor:
    """White noise on top, so much that the sound has 10^(decibels / 10) times its power."""
    noise = torch.randn(len(wave), generator=generator)
    power = wave.square().mean() / 10 ** (decibels / 10)
    return wave + noise * power.sqrt()


def draw_utterances(
    voices: Sequence[Voice],
    number: int,
    seed: int,
    decibels: tuple[float, float],
    shortest: int = 3,
    longest: int = 6,
) -> Iterator[Utterance]:
    """Sequences of `shortest` to `longest` digits, with noise somewhere between the two values of `decibels`.

    The voices take turns. The same seed gives the same utterances.
    """
    generator = torch.Generator().manual_seed(seed)
    low, high = decibels
    for i in range(number):
        count = int(torch.randint(shortest, longest + 1, (), generator=generator))
        digits = torch.randint(10, (count,), generator=generator).tolist()
        clean = say(voices[i % len(voices)], digits, generator)
        level = low + (high - low) * torch.rand((), generator=generator).item()
        noisy = add_noise(clean.wave, level, generator)
        yield Utterance(loudest_one(noisy), clean.digits, clean.places, clean.voice)


def make_utterances(
    voices: Sequence[Voice],
    number: int,
    seed: int,
    decibels: tuple[float, float],
    shortest: int = 3,
    longest: int = 6,
) -> list[Utterance]:
    """All of `draw_utterances` at once."""
    return list(draw_utterances(voices, number, seed, decibels, shortest, longest))


# --- back to sound --------------------------------------------------------------------------------------


def sound_of(log_energies: Tensor, filterbank: Tensor, hop: int, seed: int = 0) -> Tensor:
    """A sound with about these log-mel energies: noise whose spectrum is shaped frame by frame. It has no pitch.

    log_energies: (frames, n_filters); filterbank: (n_filters, bins). Returns: a wave, loudest sample ±1.
    """
    n_fft = 2 * (filterbank.shape[1] - 1)
    shares = filterbank / filterbank.sum(dim=0).clamp(min=1e-3)  # (n_filters, bins): which filters a bin asks
    density = (log_energies.exp() / filterbank.sum(dim=1)) @ shares  # (frames, bins): power of each bin
    window = torch.hann_window(n_fft)
    noise = torch.randn((len(log_energies) - 1) * hop + n_fft, generator=torch.Generator().manual_seed(seed))
    shaped = torch.fft.irfft(torch.fft.rfft(noise.unfold(0, n_fft, hop) * window) * density.sqrt(), n=n_fft)
    sound = torch.zeros(len(noise))
    for i, piece in enumerate(shaped * window):
        sound[i * hop : i * hop + n_fft] += piece
    return loudest_one(sound)
