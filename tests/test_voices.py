"""The recordings of spoken digits: where they come from, how they are stored, and what is made of them."""

from __future__ import annotations

import math
import wave as wave_files
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import make_voices
from course_lib.speech import log_mel, mel_filterbank
from course_lib.voices import (
    DATA,
    PERSON,
    RATE,
    VOICES,
    Voice,
    add_noise,
    load_voices,
    make_utterances,
    mu_law_decode,
    mu_law_encode,
    read_voices,
    read_wav,
    resample,
    say,
    sound_of,
    trimmed,
    write_voices,
)


def tone(hertz: float, seconds: float = 0.5, rate: int = RATE) -> torch.Tensor:
    return 0.5 * torch.sin(2 * math.pi * hertz * torch.arange(int(seconds * rate)) / rate)


def loudest_frequency(wave: torch.Tensor) -> float:
    return torch.fft.rfft(wave).abs().argmax().item() * RATE / len(wave)


def test_the_voices():
    every = load_voices()
    assert [len(group) for group in vars(every).values()] == [36, 12, 4, 1]
    everybody = [voice for group in vars(every).values() for voice in group]
    assert len({voice.name for voice in everybody}) == 53, "a voice on two sides"
    assert all(len(voice.digits) == 10 for voice in everybody)
    lengths = [len(wave) / RATE for voice in everybody for wave in voice.digits]
    assert min(lengths) > 0.12 and max(lengths) < 1
    loudest = [wave.abs().max().item() for voice in everybody for wave in voice.digits]
    assert min(loudest) > 0.8 and max(loudest) <= 1


def test_no_timbre_is_on_two_sides():
    timbres = [{voice.name.split()[0] for voice in group} for group in (load_voices().train, load_voices().unseen)]
    assert not timbres[0] & timbres[1]
    assert timbres == [set(make_voices.TRAIN), set(make_voices.UNSEEN)]


def test_they_are_small_and_have_their_licences_beside_them():
    assert VOICES.stat().st_size < 1.5e6 and PERSON.stat().st_size < 0.1e6
    licences = (DATA / "LICENSES.md").read_text(encoding="utf-8")
    assert "## voices.npz" in licences and "Allison Smith" in licences and "CC BY-SA 3.0" in licences


def test_the_wheel_holds_them(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        for path in (VOICES, PERSON):
            assert archive.read(f"course_lib/data/{path.name}") == path.read_bytes()


def test_eight_bits_are_enough():
    wave = torch.linspace(-1, 1, 2001)
    back = mu_law_decode(mu_law_encode(wave))
    assert (wave - back).abs().max() < 0.025
    assert ((wave - back).abs() <= 0.025 * wave.abs() + 0.0005).all(), "small samples are stored finely"


def test_a_file_of_voices(tmp_path):
    voice = Voice("Ann (en-us)", tuple(tone(200 + 10 * digit, 0.2 + 0.01 * digit) for digit in range(10)))
    write_voices(tmp_path / "one.npz", [("unseen", voice)])
    write_voices(tmp_path / "two.npz", [("unseen", voice)])
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    ((group, back),) = read_voices(tmp_path / "one.npz")
    assert (group, back.name) == ("unseen", "Ann (en-us)")
    assert all(len(a) == len(b) and (a - b).abs().max() < 0.02 for a, b in zip(voice.digits, back.digits))


def test_silence_is_cut_off():
    silence = torch.zeros(RATE // 2)
    kept = trimmed(torch.cat([silence, tone(440, 0.3), silence]))
    assert 0.3 <= len(kept) / RATE <= 0.33


@pytest.mark.parametrize(("width", "channels", "rate"), [(1, 1, 8000), (2, 2, 44_100), (3, 1, 16_000), (4, 2, 22_050)])
def test_any_plain_wav_can_be_read(tmp_path, width, channels, rate):
    sound = tone(440, 0.25, rate).double().numpy()
    numbers = np.round(sound * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        numbers += 128
    data = b"".join(int(n).to_bytes(width, "little", signed=width > 1) * channels for n in numbers)
    with wave_files.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    wave = read_wav(tmp_path / "tone.wav")
    assert len(wave) == 2000 and wave.abs().max().item() == pytest.approx(1.0)
    assert loudest_frequency(wave) == pytest.approx(440, abs=4)


def test_an_empty_wav_is_refused(tmp_path):
    with wave_files.open(str(tmp_path / "empty.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
    with pytest.raises(ValueError, match="holds no sound"):
        read_wav(tmp_path / "empty.wav")


def test_resampling_moves_the_pitch():
    slower = resample(tone(440), 1.25)
    assert len(slower) == 5000 and loudest_frequency(slower) == pytest.approx(352, abs=3)
    assert slower.std().item() == pytest.approx(tone(440).std().item(), rel=0.02)


def test_noise_is_as_loud_as_it_should_be():
    clean = tone(440, 5)
    for decibels in (30, 10, 0):
        noise = add_noise(clean, decibels, torch.Generator().manual_seed(0)) - clean
        measured = 10 * (clean.square().mean() / noise.square().mean()).log10()
        assert measured.item() == pytest.approx(decibels, abs=0.2)


def test_a_row_of_digits_says_where_they_are():
    voice = load_voices().train[0]
    said = say(voice, [4, 0, 7], torch.Generator().manual_seed(1))
    assert said.digits == (4, 0, 7) and len(said.places) == 3
    power = said.wave.square()
    inside = torch.zeros(len(power), dtype=torch.bool)
    for start, end in said.places:
        inside[start:end] = True
    assert power[inside].sum().item() == pytest.approx(power.sum().item(), rel=1e-6) and (~inside).any()


def test_utterances_are_the_same_for_a_seed():
    voices = load_voices().unseen
    first, second = (make_utterances(voices, 13, seed=3, decibels=(0, 30)) for _ in range(2))
    assert all(torch.equal(a.wave, b.wave) and a.digits == b.digits for a, b in zip(first, second))
    assert {len(each.digits) for each in first} <= {3, 4, 5, 6}
    assert [each.voice for each in first] == [voice.name for voice in (*voices, voices[0])]
    assert all(each.wave.abs().max().item() == pytest.approx(1.0) for each in first)


def test_a_sound_from_its_energies():
    filters = mel_filterbank(32, 256, RATE)
    wave = make_utterances(load_voices().train, 1, seed=4, decibels=(30, 30))[0].wave
    energies = log_mel(wave, 256, 80, filters)
    again = log_mel(sound_of(energies, filters, 80), 256, 80, filters)
    assert again.shape == energies.shape
    assert torch.corrcoef(torch.stack([energies.flatten(), again.flatten()]))[0, 1] > 0.9
