# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · Speech: a Transformer that listens
#
# A sound goes in, text comes out. The model is the one you know, with two new questions. How does a sound become a
# sequence of vectors? And how can a model learn which part of the sound is which word, if nobody tells it? Here you
# build the answers, train a recogniser of spoken digits in about two minutes, and test it on voices that it has never
# heard, one of them a person's. If you like, the last one is yours.

# %% setup
import math
import os
from itertools import pairwise, product
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from IPython.display import Audio, display
from torch import Tensor, nn

from course_lib import check, hint, recogniser, solution, voices, yours
from course_lib import speech as reference
from course_lib.masks import padding_mask
from course_lib.plotting import COLOURS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.recogniser import HOP, LENGTH, N_MELS
from course_lib.settings import course_device
from course_lib.voices import RATE

use_course_style()
device = course_device()
FAST = os.environ.get("COURSE_FAST") == "1"  # for testing the notebook: the same cells, fewer recordings and steps

# %% figure Where we are
show_map("12_speech")

# %% [markdown]
# ## 1 · A sound is a sequence of numbers
#
# A microphone measures the pressure of the air; here 8,000 times per second, as telephones do. One such number is a
# *sample*, and all of them are the **waveform**. The recordings come with the course: 52 voices of two speech
# synthesisers (*espeak-ng* and *flite*) and one person's voice, each saying the ten digits. Sequences of digits such as
# 4 0 7 are put together from them, with pauses, at varying speed, and with some noise. Press play.

# %%
everybody = voices.load_voices()
for group in ("train", "unseen", "other_machine", "person"):
    print(f"{group:14} {len(getattr(everybody, group)):2} voices")
example = voices.make_utterances(everybody.train[:1], 1, seed=4, decibels=(30, 30))[0]
wave = example.wave
print(f"\n{example.voice} says {example.digits}: {len(wave):,} samples, {len(wave) / RATE:.2f} seconds")
display(Audio(wave.numpy(), rate=RATE))

# %% figure The waveform, and 30 milliseconds of it
middle = sum(example.places[1]) // 2
seconds = torch.arange(len(wave)) / RATE
figure, axes = plt.subplots(2, 1, figsize=(9, 4))
axes[0].plot(seconds, wave, linewidth=0.5)
for (start, end), digit in zip(example.places, example.digits):
    axes[0].axvspan(start / RATE, end / RATE, color=COLOURS[3], alpha=0.2, linewidth=0)
    axes[0].text((start + end) / 2 / RATE, 1.05, digit, ha="center")
axes[0].set(xlabel="seconds", ylabel="pressure", ylim=(-1.1, 1.3))
axes[1].plot(1000 * seconds[:240], wave[middle : middle + 240], ".-", linewidth=0.8, markersize=3)
axes[1].set(title=f"30 ms inside the {example.digits[1]}", xlabel="milliseconds", ylabel="pressure")
plt.show()

# %% claims
claim("52 voices of synthesisers and one person", len(everybody.person) == 1 and sum(
    len(group) for group in (everybody.train, everybody.unseen, everybody.other_machine)) == 52)  # fmt: skip

# %% [markdown]
# A vowel is a wave that repeats; its pitch is how often. Which vowel it is depends on its *frequencies*: the mouth lets
# some through and damps others. The {{term spectrum}} shows them.
#
# **The simple way, and why it fails:** take one spectrum of the whole recording. Whatever has been said is in it, but
# not *when*. Say the digits in reverse order:

# %%
voice = everybody.train[0]
forwards = torch.cat([voice.digits[d] for d in (4, 0, 7)])
backwards = torch.cat([voice.digits[d] for d in (7, 0, 4)])


def loudness_by_band(sound: Tensor, bands: int = 60) -> Tensor:
    """How much of the sound's power lies in each of 60 bands of frequency: (bands,), they sum to 1."""
    power = torch.fft.rfft(sound).abs().square()
    parts = torch.stack([part.sum() for part in power.tensor_split(bands)])
    return parts / parts.sum()


same = 1 - (loudness_by_band(forwards) - loudness_by_band(backwards)).abs().sum().item() / 2
print(f"4 0 7 and 7 0 4: {same:.1%} of the power is in the same bands")

# %% claims
claim("the two orders have nearly the same spectrum", same > 0.95)

# %% [markdown]
# ## 2 · Frames
#
# So the wave is cut into short pieces, {{term frame|frames}}: long enough for a few periods of the voice, short enough
# that the mouth hardly moves meanwhile. They overlap. With length $L$ and hop $H$, frame $i$ holds the samples
#
# $$\text{frame}_i = \big(x_{iH},\; x_{iH+1},\; \dots,\; x_{iH+L-1}\big) \qquad\qquad
# n_\text{frames} = 1 + \left\lfloor \frac{\text{samples} - L}{H} \right\rfloor$$
#
# What does not fill a frame at the end is dropped.
#
# {{exercise frames}}


# %% exercise frames
def frames(wave: Tensor, length: int, hop: int) -> Tensor:
    """Cut a recording into pieces of `length` samples. Each begins `hop` samples after the one before.

    wave: (samples,), at least `length` of them. Returns: (frames, length). Only whole frames count: what is left at the
    end is dropped.
    """
    ### BEGIN SOLUTION
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames)
    places = starts[:, None] + torch.arange(length)  # (frames, length)
    return wave[places]
    ### END SOLUTION


# %% check frames
check(frames)

# %% figure Five frames of 32 ms, 10 ms apart
own_frames = yours("frames", frames)
pieces = own_frames(wave, LENGTH, HOP)  # (frames, LENGTH)
print(f"{len(wave):,} samples become {tuple(pieces.shape)}")
first = middle // HOP
figure, ax = plt.subplots(figsize=(9, 3.2))
for i in range(5):
    start = (first + i) * HOP
    time = 1000 * (start + torch.arange(LENGTH)) / RATE
    ax.plot(time, pieces[first + i] - i, color=COLOURS[i], linewidth=1)
ax.set(title="Neighbouring frames share two thirds of their samples", xlabel="milliseconds", ylabel="frame")
ax.set_yticks(range(0, -5, -1), [first + i for i in range(5)])
plt.show()

# %% claims
claim("two thirds are shared", abs((LENGTH - HOP) / LENGTH - 2 / 3) < 0.03)

# %% [markdown]
# What is in one frame? Played once, it is too short to be more than a click. Repeated for a second, it is a vowel that
# stands still:

# %%
for name, sound in (("once", pieces[first]), ("for a second", pieces[first].repeat(RATE // LENGTH))):
    print(f"frame {first}, {name}:")
    display(Audio(sound.numpy(), rate=RATE))

# %% [markdown]
# The rattle in it is not speech. It comes from the edges, where the end of the frame meets its beginning.
#
# ## 3 · Windows
#
# Cutting leaves an edge at both ends of a frame, and an edge has all frequencies. Below is a pure tone of 440 Hz. Its
# spectrum should be one peak. Cut hard, its power spreads over the whole range: **leakage**. The remedy is to fade each
# frame in and out, by multiplying it by a window. Hann's is
#
# $$w_t = \tfrac12 \left(1 - \cos \frac{2 \pi t}{L}\right)$$

# %%
tone = torch.sin(2 * math.pi * 440 * torch.arange(LENGTH) / RATE)
window = torch.hann_window(LENGTH)
spectra = {"cut hard": torch.fft.rfft(tone), "Hann window": torch.fft.rfft(tone * window)}
in_decibels = {name: 20 * (s.abs() / s.abs().max() + 1e-9).log10() for name, s in spectra.items()}
bins = torch.arange(LENGTH // 2 + 1) * RATE / LENGTH  # the frequency of each entry, in hertz
far = bins > 1000
leak = {name: decibels[far].max().item() for name, decibels in in_decibels.items()}
print({name: f"loudest above 1,000 Hz: {value:.0f} dB" for name, value in leak.items()})

# %% figure A tone in a frame, and its spectrum
figure, axes = plt.subplots(1, 2, figsize=(10, 3))
for (name, decibels), sound, colour in zip(in_decibels.items(), (tone, tone * window), (COLOURS[1], COLOURS[0])):
    axes[0].plot(1000 * torch.arange(LENGTH) / RATE, sound, color=colour, linewidth=1, label=name)
    axes[1].plot(bins, decibels, color=colour, label=name)
axes[0].set(title="440 Hz, one frame", xlabel="milliseconds", ylabel="pressure")
axes[1].set(title="Its spectrum", xlabel="hertz", ylabel="decibels below the peak", ylim=(-120, 5))
axes[1].legend()
plt.show()

# %% claims
claim("the window keeps the tone in its place", leak["Hann window"] < leak["cut hard"] - 30)

# %% [markdown]
# We can hear the leakage. The same frame of the tone, eight times with pauses: cut hard it clicks, with a window it
# fades in and out.

# %%
for name, sound in (("cut hard", tone), ("Hann window", tone * window)):
    print(f"{name}:")
    display(Audio(F.pad(sound, (0, 3 * LENGTH)).repeat(8).numpy(), rate=RATE))

# %% [markdown]
# ## 4 · Mel filters
#
# A frame of 256 samples has 129 frequencies, equally spaced. The ear is not built like that. Listen to two steps of 50
# Hz, first from 200 to 250, then from 3,000 to 3,050:

# %%
apart = []  # in mel
for low in (200, 3000):
    tones = [torch.sin(2 * math.pi * hertz * torch.arange(RATE // 2) / RATE) for hertz in (low, low + 50)]
    apart.append(reference.hz_to_mel(torch.tensor([low, low + 50.0])).diff().item())
    print(f"from {low:,} to {low + 50:,} Hz: {apart[-1]:.0f} mel")
    display(Audio(torch.cat(tones).numpy(), rate=RATE))

# %% claims
claim("the first step is large, the second small", apart[0] > 3 * apart[1])

# %% [markdown]
# The first step sounds large, the second small. The **mel scale** is made so that equal steps sound equally large:
#
# $$\operatorname{mel}(f) = 2595 \, \log_{10}\!\left(1 + \frac{f}{700}\right) \qquad
# f(m) = 700 \left(10^{m / 2595} - 1\right)$$
#
# Put $n + 2$ corners $c_0, \dots, c_{n+1}$ at equal steps of mel from 0 Hz to half the sampling rate. Filter $i$ is a
# triangle over the frequencies in hertz: it rises from 0 at $c_i$ to 1 at $c_{i+1}$ and falls to 0 at $c_{i+2}$:
#
# $$\text{filter}_i(f) = \max\left(0,\; \min\left(\frac{f - c_i}{c_{i+1} - c_i},\;
# \frac{c_{i+2} - f}{c_{i+2} - c_{i+1}}\right)\right)$$
#
# `reference.hz_to_mel` and `reference.mel_to_hz` are given; both take and return tensors.
#
# {{exercise mel_filterbank}}


# %% exercise mel_filterbank
def mel_filterbank(n_filters: int, n_fft: int, sample_rate: int) -> Tensor:
    """Triangles over the frequencies of a spectrum: how much each bin counts in each filter.

    On the mel scale, n_filters + 2 corners are equally spaced from 0 Hz to sample_rate / 2. Filter i rises in a
    straight line over the frequencies in hertz, from 0 at corner i to 1 at corner i + 1. From there it falls to 0 at
    corner i + 2, and it is 0 everywhere else. Bin b of the spectrum has the frequency b · sample_rate / n_fft.

    n_fft: even. Returns: (n_filters, n_fft // 2 + 1).
    """
    ### BEGIN SOLUTION
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft
    top = reference.hz_to_mel(torch.tensor(sample_rate / 2))
    corners = reference.mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)
    ### END SOLUTION


# %% check mel_filterbank
check(mel_filterbank)

# %% figure 32 filters, narrow for low frequencies and wide for high ones
own_filterbank = yours("mel_filterbank", mel_filterbank)
filters = own_filterbank(N_MELS, LENGTH, RATE)  # (N_MELS, 129)
figure, ax = plt.subplots(figsize=(9, 2.6))
for i, row in enumerate(filters):
    ax.plot(bins, row, color=COLOURS[i % 2], linewidth=1, label=("even filters", "odd filters")[i] if i < 2 else None)
ax.set(title=f"{N_MELS} mel filters", xlabel="hertz", ylabel="weight", ylim=(0, 1.35))
ax.legend(loc="upper right", ncols=2)
plt.show()
below_1000 = (bins[filters.argmax(dim=1)] < 1000).sum().item()
print(f"{below_1000} of {N_MELS} filters have their peak below 1,000 Hz, a quarter of the range")

# %% claims
claim("half of the filters are below 1000 Hz", 13 <= below_1000 <= 17)

# %% [markdown]
# About half of the filters share the lowest quarter of the range. (A triangle that is narrower than the step between
# two frequencies of the spectrum does not reach its peak.) A filter lets through what lies under its triangle. Listen
# to a second of noise through three of them, from a hum to a hiss:

# %%
torch.manual_seed(0)
noise = torch.fft.rfft(torch.randn(RATE))  # the spectrum of one second
fine = own_filterbank(N_MELS, RATE, RATE)  # the same triangles, with one bin for each hertz
for i in (2, 14, 30):
    heard_through = torch.fft.irfft(noise * fine[i])
    print(f"noise through filter {i}, which has its peak at {fine[i].argmax().item():,} Hz:")
    display(Audio(heard_through.numpy(), rate=RATE))

# %% [markdown]
# ## 5 · Log energies
#
# Now put everything together. For each frame, take the window, the spectrum, the power, the sum in each filter, and the
# logarithm:
#
# $$\text{feature}_{i, m} = \ln\Big(\sum_b \text{filter}_{m}(b) \;
# \big|\operatorname{rfft}(w \cdot \text{frame}_i)_b\big|^2 + 10^{-6}\Big)$$
#
# The ear hears *ratios* of loudness, and in the logarithm a louder voice is only a constant that is added. Without it,
# one loud vowel would be all there is (the left picture below). The small number prevents $\ln 0$.
#
# {{exercise log_mel}}


# %% exercise log_mel
def log_mel(wave: Tensor, length: int, hop: int, filterbank: Tensor) -> Tensor:
    """The features of a recording: for each frame, the logarithm of the energy in each mel filter.

    Each frame is multiplied by `torch.hann_window(length)`. Its power spectrum is |rfft|², the energy of a filter the
    sum over the bins of filter · power, and the feature is the natural logarithm of energy + 1e-6.

    wave: (samples,); filterbank: (n_filters, length // 2 + 1). Returns: (frames, n_filters).
    """
    ### BEGIN SOLUTION
    pieces = reference.frames(wave, length, hop)  # (frames, length)
    window = torch.hann_window(length, dtype=wave.dtype)
    power = torch.fft.rfft(pieces * window).abs() ** 2  # (frames, bins)
    energies = power @ filterbank.T  # (frames, n_filters)
    return torch.log(energies + 1e-6)
    ### END SOLUTION


# %% check log_mel
check(log_mel)

# %% figure The same recording as power, and as log-mel energies
own_log_mel = yours("log_mel", log_mel)
power = torch.fft.rfft(reference.frames(wave, LENGTH, HOP) * window).abs() ** 2
features = own_log_mel(wave, LENGTH, HOP, filters)  # (frames, N_MELS)


def show_sound(image: Tensor, ax, title: str, label: str) -> None:
    """An image (time, height) with time from left to right."""
    drawn = ax.imshow(image.T, origin="lower", aspect="auto", extent=(0, len(image) * HOP / RATE, 0, image.shape[1]))
    ax.set(title=title, xlabel="seconds", ylabel=label)
    ax.figure.colorbar(drawn, ax=ax)


figure, axes = plt.subplots(1, 2, figsize=(11, 3.2))
show_sound(power, axes[0], "power", "frequency (129 bins)")
show_sound(features, axes[1], "log-mel energies", "mel filter")
for (start, end), digit in zip(example.places, example.digits):
    axes[1].text((start + end) / 2 / RATE, N_MELS - 3, digit, ha="center", color="white", fontweight="bold")
plt.show()

# %% [markdown]
# What have we thrown away? We can *hear* it: start from pure noise and shape it until its log-mel energies are these.

# %%
whisper = voices.sound_of(features, filters, HOP)
print("the recording:")
display(Audio(wave.numpy(), rate=RATE))
print("what the features kept:")
display(Audio(whisper.numpy(), rate=RATE))
its_features = own_log_mel(whisper, LENGTH, HOP, filters)
kept = torch.corrcoef(torch.stack([features.flatten(), its_features.flatten()]))[0, 1].item()
print(f"correlation of the two sounds' features: {kept:.2f}")

# %% claims
claim("the whisper has similar features", kept > 0.8)

# %% [markdown]
# A whisper: the words are there, the pitch is gone. That is what we want here, since *four* is a four at any pitch. (In
# Mandarin, where pitch tells words apart, it would be a loss.) Older systems go one step further: a cosine transform
# over the filters, of which the first 13 numbers are kept. Those are **MFCCs**; log-mel energies are often called
# **Fbank**. At the other end are models that read the *waveform itself* and learn their own filters, from far more
# data.
#
# One more step: we subtract from each filter its mean over the recording, and divide everything by the standard
# deviation. That removes the loudness and the colouring by the microphone. `recogniser.features_of` does it, with your
# `log_mel`.
#
# ## 6 · Batches of different lengths
#
# Two seconds of sound are 200 vectors, four seconds 400. In a batch the shorter one is padded with zeros, and a vector
# of lengths says what is real:
#
# $$\text{batch}: (B,\; \max_b T_b,\; n_\text{mels}) \qquad\qquad \text{lengths} = (T_1, \dots, T_B)$$
#
# {{exercise pad_features}}


# %% exercise pad_features
def pad_features(features: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Put the features of several recordings into one batch. Shorter ones are padded with zeros at the end.

    features: tensors (time, n_mels), each with its own time.
    Returns: batch (batch, longest time, n_mels), lengths (batch,): how many frames of each are real.
    """
    ### BEGIN SOLUTION
    lengths = torch.tensor([len(recording) for recording in features])
    batch = features[0].new_zeros(len(features), int(lengths.max()), features[0].shape[1])
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths
    ### END SOLUTION


# %% check pad_features
check(pad_features)

# %% figure A batch of three recordings
own_padding = yours("pad_features", pad_features)
three = recogniser.record(voices.make_utterances(everybody.train, 3, seed=7, decibels=(30, 30)), own_log_mel)
batch, lengths = own_padding([each.features for each in three])
figure, axes = plt.subplots(1, 3, figsize=(11, 2.4), sharey=True)
for row, length, each, ax in zip(batch, lengths.tolist(), three, axes):
    drawn = ax.imshow(row.T, origin="lower", aspect="auto", vmin=-3, vmax=3)
    ax.axvline(length - 0.5, color="white", linestyle="--")
    ax.set(title=f"{' '.join(map(str, recogniser.digits_of(each.ids.tolist())))}: {length} frames", xlabel="frame")
axes[0].set_ylabel("mel filter")
figure.colorbar(drawn, ax=axes, label="feature")
plt.show()

# %% [markdown]
# Right of the dashed line is padding.
#
# ## 7 · A front end that shortens time
#
# In notebook 7 the source embedding was a table. Sounds are not ids: the table is replaced by a feature extractor, here
# two {{term convolution|convolutions}} over time with width 3 and {{term stride}} 2. A hundred vectors per second
# become 25. That is still several per digit, and attention, which costs $T^2$, has 16 times less to do.
#
# $$T' = \left\lfloor \frac{T - 3}{2} \right\rfloor + 1, \quad \text{twice}$$
#
# The lengths shrink as well, and that is easy to forget. `reference.subsampled_lengths(lengths, kernel, stride)` is the
# function that you wrote in notebook 7.
#
# {{exercise ConvFrontEnd}}


# %% exercise ConvFrontEnd
class ConvFrontEnd(nn.Module):
    """Two convolutions over time, a ReLU after each. Each has kernel 3 and stride 2, so time becomes about a quarter.

    Nothing is padded at the ends. The first convolution goes from n_mels to d_model channels, the second from d_model
    to d_model, and both have a bias.
    """

    def __init__(self, n_mels: int, d_model: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.conv_1 = nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2)
        self.conv_2 = nn.Conv1d(d_model, d_model, kernel_size=3, stride=2)
        ### END SOLUTION

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """features: (batch, time, n_mels); lengths: (batch,), how many frames of each recording are real.

        Returns: (batch, time', d_model), and lengths (batch,): how many of the new frames saw nothing but real frames.
        """
        ### BEGIN SOLUTION
        x = features.transpose(1, 2)  # (batch, n_mels, time): a convolution wants channels before time
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        for _ in range(2):
            lengths = reference.subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths
        ### END SOLUTION


# %% check ConvFrontEnd
check(ConvFrontEnd)

# %% [markdown]
# **The classic mistake** is to make the mask from the *old* lengths. Nothing fails: each old length is larger than the
# new number of frames, so the mask simply hides nothing. Here it is in the trained model that comes with the course,
# whose decoder you will meet in the next section. Every recording is recognised alone, and then in a batch beside a
# long one, so that it has padding:


# %%
class OldLengths(recogniser.Recogniser):
    """The mistake: lengths from before the front end."""

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = self.front_end(features, lengths)
        x = self.positions(x)
        lengths = lengths.clamp(max=x.shape[1])  # all that a mask of this width can say
        return self.encoder(x, padding_mask(lengths, x.shape[1])[:, None]), lengths


listener = recogniser.load_recogniser().to(device)
mistaken = OldLengths().to(device).eval()
mistaken.load_state_dict(listener.state_dict())
some = recogniser.record(voices.make_utterances(everybody.unseen, 12 if FAST else 60, seed=5, decibels=(30, 30)))
long = recogniser.record(voices.make_utterances(everybody.unseen, 1, 6, decibels=(30, 30), shortest=12, longest=12))
said = [recogniser.digits_of(each.ids.tolist()) for each in some]
rates = {}
for name, model in (("new lengths", listener), ("old lengths", mistaken)):
    alone = [recogniser.recognise(model, [each]).attention[0] for each in some]
    beside = recogniser.recognise(model, some + long).attention[: len(some)]
    rates[name] = recogniser.error_rate(alone, said), recogniser.error_rate(beside, said)
    print(f"{name}: {rates[name][0]:6.1%} of the digits wrong alone, {rates[name][1]:6.1%} beside a long recording")

# %% claims
claim("with the right lengths padding changes nothing", rates["new lengths"][0] == rates["new lengths"][1])
claim("alone there is no difference", rates["new lengths"][0] == rates["old lengths"][0])
claim("with the old lengths padding ruins the result", rates["old lengths"][1] > rates["old lengths"][0] + 0.15)

# %% [markdown]
# With the right lengths nothing changes. With the old ones the decoder attends to padding, and far more digits are
# wrong. Alone, where there is no padding, all is well, so a test with one recording at a time would not have found it.
# (How wrong digits are counted: section 12.)
#
# ## 8 · Encoder and decoder
#
# After the front end everything is as in notebooks 6 and 7: positions, an {{term encoder}}, and a {{term decoder}} that
# says the digits one at a time, with {{term cross-attention}} to the encoder's frames:
#
# $$\text{features} \to \text{front end} \to + \text{positions} \to \text{encoder} \to \text{memory} \to
# \text{decoder} \to P(y_i \mid y_{<i}, \text{sound})$$
#
# In translation, cross-attention found the source word for each target word. Here it has to find the place in the sound
# where each digit is. Nobody says where that is. Does it find out? A short training, with your front end and your
# features, and the loss of notebook 8:

# %%
own_front_end = yours("ConvFrontEnd", ConvFrontEnd)
SHORT, STEPS, NUMBER = (2, 4, 40) if FAST else (300, 1200, 6000)
recordings = recogniser.training_recordings(everybody.train, NUMBER, seed=1, log_mel=own_log_mel)


def new_recogniser() -> recogniser.Recogniser:
    """Width 96, 4 heads, 2 encoder layers, 1 decoder layer; the same first weights each time."""
    torch.manual_seed(1)
    return recogniser.Recogniser(front_end=own_front_end).to(device)


def batches(steps: int):
    """The same batches each time: 32 recordings each, stretched, and with gaps."""
    return recogniser.batches_of(recordings, 32, steps, seed=1, pad=own_padding)


few = voices.make_utterances(everybody.unseen, 12 if FAST else 96, seed=16, decibels=(30, 30))  # to watch the training


def rates_of(model: recogniser.Recogniser) -> list[float]:
    """Error rates by CTC, by the decoder and by both (section 12), on unseen voices."""
    guesses = recogniser.recognise(model, recogniser.record(few, own_log_mel))
    return [recogniser.error_rate(guess, [each.digits for each in few]) for guess in guesses]


alone = new_recogniser()
print(f"{sum(p.numel() for p in alone.parameters()):,} parameters, {len(recordings):,} recordings")
alone_losses = recogniser.train_recogniser(alone, bar(batches(SHORT), "attention alone", SHORT), STEPS, ctc_weight=0)
error_alone = rates_of(alone)[1]
print(f"after {SHORT} steps {error_alone:.0%} of the digits are wrong")

# %% figure Where the decoder listens, after a short training with attention alone


def show_alignment(model: recogniser.Recogniser, utterance: voices.Utterance, title: str) -> float:
    """The weights of the best head over the waveform. Returns: how much of it falls on the right digit, on average."""
    others = voices.make_utterances(everybody.unseen, 2 if FAST else 24, seed=15, decibels=(30, 30))
    shares = recogniser.shares_of_heads(model, others)
    (recording,) = recogniser.record([utterance], own_log_mel)
    weights = recogniser.alignment(model, recording)[shares.argmax()]  # (digits + 1, time')
    share = shares.max().item()
    times = recogniser.seconds_of_frames(weights.shape[1]) + recogniser.FRAME_SECONDS / 2
    figure, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True, height_ratios=(1, 2))
    axes[0].plot(torch.arange(len(utterance.wave)) / RATE, utterance.wave, linewidth=0.5)
    for (start, end), digit in zip(utterance.places, utterance.digits):
        axes[0].axvspan(start / RATE, end / RATE, color=COLOURS[3], alpha=0.2, linewidth=0)
        axes[0].text((start + end) / 2 / RATE, 1.1, digit, ha="center")
    axes[0].set(title=f"{title}. In 24 recordings, {share:.0%} on the right digit", ylabel="pressure", ylim=(-1.1, 1.6))
    names = [*utterance.digits, "EOS"]
    drawn = axes[1].pcolormesh(times, range(len(names)), weights, shading="nearest", vmin=0)
    axes[1].set_yticks(range(len(names)), names)
    axes[1].set(xlabel="seconds", ylabel="decoder says", ylim=(len(names) - 0.5, -0.5))
    figure.colorbar(drawn, ax=axes[1], label="weight")
    plt.show()
    return share


listened_to = voices.make_utterances(everybody.unseen[3:4], 1, seed=14, decibels=(30, 30))[0]
share_alone = show_alignment(alone, listened_to, f"Attention alone, {SHORT} steps")

# %% claims
if not FAST:
    claim("a third of the attention is elsewhere", share_alone < 0.75)
    claim("and not by chance", share_alone > 0.4)
    claim("about half of the digits or more are wrong", error_alone > 0.45)

# %% [markdown]
# It has begun to: the diagonal shows, but it is blurred, and most digits are wrong. A decoder may look anywhere, in any
# order; it has to discover that speech runs from left to right. There is a loss that knows this from the beginning.
#
# ## 9 · CTC: collapse
#
# {{term CTC}} (*connectionist temporal classification*) has no decoder. Each frame of the encoder gives probabilities
# for the digits and for one more label, the {{term blank}} `_`: "nothing new here". One label per frame is a **path**,
# and it says more than the text: a digit lasts several frames. So paths are *collapsed*: first every run of the same
# label becomes one, then the blanks go.
#
# | path | says |
# |---|---|
# | `4 4 4 _ _ 7 7` | 4 7 |
# | `_ 4 _ _ 7 _ _` | 4 7 |
# | `4 4 _ 4 _ 7 _` | 4 4 7 |
# | `4 4 4 4 _ 7 _` | 4 7 |
#
# The third row shows what the blank is for: without it *four four* could not be expressed. **Spot the mistake:**
# "Remove the blanks first, then merge what is equal." Then the third path would say 4 7 as well.
#
# {{exercise ctc_collapse}}


# %% exercise ctc_collapse
def ctc_collapse(ids: list[int], blank: int = 0) -> list[int]:
    """What a path says: runs of the same label become one label, then the blanks go.

    ids: one label for each frame. Returns: the labels of the text. "a a _ a b b" (_ is the blank) says "a a b".
    """
    ### BEGIN SOLUTION
    kept, previous = [], None
    for label in ids:
        if label != previous and label != blank:
            kept.append(label)
        previous = label
    return kept
    ### END SOLUTION


# %% check ctc_collapse
check(ctc_collapse)

# %% [markdown]
# ## 10 · CTC: the sum over all paths
#
# Which path is the right one? We need not know. The probability of a text $y$ is the sum over **all** paths that say it
# ($\mathcal{B}$ is the collapse), and the loss is its negative logarithm:
#
# $$P(y) = \sum_{\pi :\, \mathcal{B}(\pi) = y} \;\prod_{t=1}^{T} p_t(\pi_t) \qquad\qquad \text{loss} = -\ln P(y)$$
#
# The simple way is to try every path. Three labels, blank, 1 and 2, and the text 1 1 2:

# %%
own_collapse = yours("ctc_collapse", ctc_collapse)


def loss_by_trying_all(log_probs: Tensor, target: list[int]) -> float:
    """-ln P of the target, path by path. log_probs: (time, vocab)."""
    time, vocab = log_probs.shape
    paths = [path for path in product(range(vocab), repeat=time) if own_collapse(list(path)) == target]
    total = sum(math.exp(sum(log_probs[t, label].item() for t, label in enumerate(path))) for path in paths)
    print(f"{time} frames: {vocab**time:5} paths, {len(paths):3} of them say {target}")
    return -math.log(total)


torch.manual_seed(0)
small = torch.randn(6, 3).log_softmax(dim=-1)
by_hand = [loss_by_trying_all(small[:time], [1, 1, 2]) for time in (4, 5, 6)]
print(f"one recording of 50 frames, 11 labels: {11**50:.0e} paths")

# %% claims
claim("there is one path of four frames", abs(by_hand[0] + small[range(4), [1, 0, 1, 2]].sum().item()) < 1e-5)

# %% [markdown]
# That is hopeless for a real recording. The **forward algorithm** does the same sum frame by frame. Write the text with
# a blank before, between and after its labels: the *states* $z = (\_, 1, \_, 1, \_, 2, \_)$. Every path that says the
# text walks through them from left to right. Let $\alpha_t(s)$ be the sum over all beginnings of paths that are in
# state $s$ at frame $t$. At each frame a path *stays*, takes a *step*, or *skips* a blank between two different labels:
#
# $$\alpha_1(1) = p_1(z_1), \quad \alpha_1(2) = p_1(z_2), \quad \alpha_1(s) = 0 \text{ for all others}$$
#
# $$\alpha_t(s) = p_t(z_s) \cdot \Big(\alpha_{t-1}(s) + \alpha_{t-1}(s - 1) +
# \underbrace{\alpha_{t-1}(s - 2)}_{\text{if } z_s \ne \_ \text{ and } z_s \ne z_{s-2}}\Big)$$
#
# $$P(y) = \alpha_T(\text{last label}) + \alpha_T(\text{last blank})$$
#
# Products of hundreds of probabilities underflow to 0, so everything is done with logarithms: products become sums, and
# sums become `torch.logsumexp`. Use $-10^{30}$ for $\ln 0$: the gradient of a log-sum-exp over nothing but $-\infty$ is
# NaN.
#
# {{exercise ctc_loss}}


# %% exercise ctc_loss
def ctc_loss(log_probs: Tensor, target: Tensor, blank: int = 0) -> Tensor:
    """-log of the probability that a path drawn frame by frame collapses to the target.

    log_probs: (time, vocab), the logarithms of the probabilities of each frame; target: (n,), at least one label, none
    of them the blank. Returns: a number, in nats, with gradients. They have to be finite, and those of a log-sum-exp
    over nothing but -inf are NaN: take -1e30 for the logarithm of 0. If no path collapses to the target, the loss is
    infinite, or any number above 1e6.
    """
    ### BEGIN SOLUTION
    states = torch.full((2 * len(target) + 1,), blank)  # blank, label, blank, label, …, blank
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), -1e30)
    alpha = log_probs.new_full((len(states),), -1e30)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.where(may_skip, torch.cat([never, alpha[:-2]]), -1e30)
        alpha = torch.logsumexp(torch.stack([alpha, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)
    ### END SOLUTION


# %% check ctc_loss
check(ctc_loss)

# %% [markdown]
# The same numbers as from trying all paths, and as from torch's own, which is written in C++ and takes whole batches:

# %%
own_ctc = yours("ctc_loss", ctc_loss)
target = torch.tensor([1, 1, 2])
print("all paths:", [f"{loss:.6f}" for loss in by_hand])
print("forward:  ", [f"{own_ctc(small[:time], target):.6f}" for time in (4, 5, 6)])
larger = torch.randn(50, 11, dtype=torch.double).log_softmax(dim=-1)
text = torch.tensor([4, 4, 7, 1, 10])
mine, theirs = own_ctc(larger, text), F.ctc_loss(larger[:, None], text[None], [50], [5], reduction="sum")
print(f"50 frames: forward {mine.item():.9f}, torch {theirs.item():.9f}")

# %% claims
apart = max(abs(own_ctc(small[:time], target).item() - loss) for time, loss in zip((4, 5, 6), by_hand))
claim("forward and all paths agree", apart < 1e-4)
claim("torch agrees", abs(mine.item() - theirs.item()) < 1e-9)

# %% [markdown]
# The gradient is worth a look. With respect to $\ln p_t(k)$ it is minus the probability that a path which says the text
# has label $k$ at frame $t$. So the loss itself finds out **which frame is which digit**. Here with the trained model
# and your loss:

# %% figure Your CTC loss finds the digits in the sound
(heard,) = recogniser.record([listened_to], own_log_mel)
with torch.no_grad():
    memory, _ = listener.encode(heard.features[None].to(device), torch.tensor([len(heard.features)]).to(device))
    frame_log_probs = listener.ctc(memory)[0].log_softmax(dim=-1).cpu()  # (time', 13)
frame_log_probs.requires_grad_()
(slope,) = torch.autograd.grad(own_ctc(frame_log_probs, heard.ids), frame_log_probs)
occupied = -slope[:, [0, *range(3, 13)]]  # blank and digits: (time', 11)
times = recogniser.seconds_of_frames(len(occupied)) + recogniser.FRAME_SECONDS / 2
figure, axes = plt.subplots(2, 1, figsize=(9, 4.2), sharex=True, height_ratios=(1, 2))
axes[0].plot(torch.arange(len(listened_to.wave)) / RATE, listened_to.wave, linewidth=0.5)
for (start, end), digit in zip(listened_to.places, listened_to.digits):
    axes[0].axvspan(start / RATE, end / RATE, color=COLOURS[3], alpha=0.2, linewidth=0)
    axes[0].text((start + end) / 2 / RATE, 1.1, digit, ha="center")
axes[0].set(ylabel="pressure", ylim=(-1.1, 1.6))
drawn = axes[1].pcolormesh(times, range(11), occupied.T, shading="nearest", vmin=0, vmax=1)
axes[1].set_yticks(range(11), ["blank", *range(10)])
axes[1].set(xlabel="seconds", ylabel="label")
figure.colorbar(drawn, ax=axes[1], label="probability")
plt.show()
blank_share = occupied[:, 0].mean().item()
print(f"{blank_share:.0%} of the frames are blank")

# %% claims
claim("each frame has one label", (occupied.sum(dim=1) - 1).abs().max() < 1e-3)
claim("most frames are blank", blank_share > 0.5)

# %% [markdown]
# A digit is named in one or two frames, and most frames are blank. Paths can only go forwards: it is built in that
# speech runs from left to right. The price: CTC decides at each frame *without knowing what it has said at the others*.
# The decoder of section 8 does know: it is given all digits so far.
#
# {{question too_short}}
#
# To save time, a friend adds two more convolutions with stride 2, so that a frame of the encoder stands for 160
# milliseconds instead of 40. For some recordings the CTC loss becomes infinite, for most it does not. Which ones, and
# why? Say how many frames the text 7 7 7 4 needs at least. Does the decoder have the same problem?

# %% answer too_short 2 [markdown]
# ### BEGIN SOLUTION
# Every label needs a frame of its own, and between two equal labels there has to be a blank. 7 7 7 4 needs 4 + 2 = 6
# frames: `7 _ 7 _ 7 4`. If fast speech leaves fewer frames than that, no path collapses to the text, its probability is
# 0 and the loss infinite. So it hits fast recordings, those with repeated digits first. (1 point.) The decoder does
# not: it may say any number of digits about any number of frames, and its loss stays finite, though it has to tell
# digits apart that share a frame. (1 point.)
#
# **Rubric**
#
# - 1 point: six frames, for the labels and the blanks between equal ones; so fast speech and repeated digits come
#   first; half a point without the number
# - 1 point: the decoder does not: its loss stays finite for any number of frames
# ### END SOLUTION

# %% [markdown]
# ## 11 · Both together
#
# Both can share one encoder (Watanabe et al. 2017). The CTC part teaches the encoder quickly where things are:
#
# $$\text{loss} = \lambda \cdot \text{CTC} + (1 - \lambda) \cdot \text{cross-entropy of the decoder}
# \qquad \lambda = 0.3$$
#
# The same weights at the beginning, the same batches, the same learning rates as in section 8. (If you cannot wait:
# with `TRAIN = False` you get the model that comes with the course.)

# %%
TRAIN = True
both = new_recogniser()
on_the_way = {}


def report(step: int, loss: float) -> None:
    if step == SHORT:
        on_the_way["CTC"], on_the_way["decoder"], _ = rates_of(both)


if TRAIN:
    steps = bar(batches(STEPS), "CTC and attention", STEPS)
    both_losses = recogniser.train_recogniser(both, steps, STEPS, report=report)
    print(f"wrong after {SHORT} steps:", {name: f"{rate:.0%}" for name, rate in on_the_way.items()})
    print(f"attention alone: {error_alone:.0%}")
if FAST or not TRAIN:
    both = listener

# %% figure Cross-entropy of the decoder, alone and with CTC beside it
figure, ax = plt.subplots(figsize=(8, 3))
curves = {"attention alone": (alone_losses, 1, COLOURS[1])}
if TRAIN:
    curves |= {"attention, CTC beside it": (both_losses, 1, COLOURS[0]), "CTC": (both_losses, 0, COLOURS[2])}
smoothed = {}
for name, (losses, column, colour) in curves.items():
    values = torch.tensor(losses)[:, column]
    width = min(25, len(values))
    smoothed[name] = values.unfold(0, width, 1).mean(dim=1)
    ax.plot(range(width, len(values) + 1), smoothed[name], color=colour, label=name)
ax.set(title="Mean over 25 steps", xlabel="step", ylabel="nats per digit", ylim=(0, 4))
ax.legend()
plt.show()
if TRAIN:
    print({name: f"{smoothed[name][SHORT - min(25, SHORT)]:.2f}" for name in curves}, f"after {SHORT} steps")

# %% figure Where the decoder listens now
share_both = show_alignment(both, listened_to, "CTC and attention")

# %% claims
claim("the decoder listens to the right digit", share_both > 0.6)
if not FAST:
    at = SHORT - 25
    claim("with CTC the decoder learns sooner",
        smoothed["attention, CTC beside it"][at].item() < smoothed["attention alone"][at].item() - 0.1)  # fmt: skip
    claim("and CTC itself is ahead of both", on_the_way["CTC"] < min(on_the_way["decoder"], error_alone))
    claim("the decoder listens better than before", share_both > share_alone + 0.1)

# %% [markdown]
# With CTC beside it the same decoder learns somewhat sooner, and CTC's own answers are ahead of both. At the end, most
# of the attention walks along the sound, digit by digit. Two equal digits in a row, such as the 4 4 here, are the
# hardest: section 13 measures that. (The lead does not last: a decoder trained alone for all 1,200 steps caught up,
# with the one seed that `python -m benchmarks speech` tries. What CTC adds then is a second answer.)
#
# To recognise with both, let each make a proposal, CTC by the best label of each frame and the decoder greedily, and
# take the one with the larger $\lambda \ln P_\text{CTC} + (1 - \lambda) \ln P_\text{decoder}$.
#
# ## 12 · How many mistakes?
#
# Somebody said 4 0 7 7, and the model heard 4 7 7. Compared place by place, two of four digits would be wrong, though
# only one is missing. The fair measure is the {{term edit distance}}: the smallest number of digits that have to be
# replaced, deleted or inserted to turn one sequence into the other. With $D_{i,j}$ for the first $i$ digits of $a$ and
# the first $j$ of $b$:
#
# $$D_{i,0} = i \qquad D_{0,j} = j \qquad D_{i,j} = \min\left(D_{i-1,j-1} + [a_i \ne b_j],\;\;
# D_{i-1,j} + 1,\;\; D_{i,j-1} + 1\right)$$
#
# The **error rate** is the sum of all distances divided by the number of all digits said. With words instead of digits
# it is the *word error rate* of speech recognition. It can be above 100 %.
#
# {{exercise edit_distance}}


# %% exercise edit_distance
def edit_distance(reference: list, hypothesis: list) -> int:
    """How many items have to be inserted, deleted or replaced, at the least, to turn one sequence into the other.

    reference, hypothesis: sequences of items that can be compared, either may be empty. Returns: a whole number.
    """
    ### BEGIN SOLUTION
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            current.append(min(previous[j] + (wanted != got), previous[j + 1] + 1, current[j] + 1))
        previous = current
    return previous[-1]
    ### END SOLUTION


# %% check edit_distance
check(edit_distance)

# %% figure The table of distances, from prefix to prefix
own_distance = yours("edit_distance", edit_distance)
words, guess = [4, 0, 7, 7], [4, 7, 7]
table = torch.tensor([[own_distance(words[:i], guess[:j]) for j in range(4)] for i in range(5)])
show_matrix(
    table.float(), "Edit distances of prefixes", rows="said", columns="heard",
    row_names=["nothing", *map(str, words)], column_names=["nothing", *map(str, guess)], numbers=True,
)  # fmt: skip
plt.show()

# %% claims
claim("one digit is missing", table[-1, -1] == 1)

# %% [markdown]
# The answer is at the bottom right: 1.
#
# ## 13 · Noise, and voices it has never heard
#
# Now the tests, from easy to hard: the voices of the training with new sequences of digits; other voices of the same
# synthesiser; voices of *another* synthesiser, flite, which was built from recordings of people; and a person. Each is
# tested with noise at 30, 10 and 0 decibels: the voice has 1,000, 10 and 1 times the power of the noise. Listen first:

# %%
for decibels in (30, 10, 0):
    noisy = voices.make_utterances(everybody.person, 1, seed=3, decibels=(decibels, decibels))[0]
    print(f"{noisy.voice}, {decibels} dB: {noisy.digits}")
    display(Audio(noisy.wave.numpy(), rate=RATE))

# %% figure Digit error rates
groups = {
    "voices of the training": everybody.train,
    "unseen voices": everybody.unseen,
    "another synthesiser": everybody.other_machine,
    "a person": everybody.person,
}
TESTS = 12 if FAST else 240  # utterances of 3 to 6 digits each
results, of_the_course = {}, {}
print(f"{'':29}{'your model':26}{'the model of the course'}")
print(f"{'':24}{'dB':>3}" + 2 * "     CTC  decoder   both  ")
for name, group in groups.items():
    for decibels in (30, 10, 0):
        tests = voices.make_utterances(group, TESTS, seed=99, decibels=(decibels, decibels))
        said, heard = [test.digits for test in tests], recogniser.record(tests, own_log_mel)
        for model, table in ((both, results), (listener, of_the_course)):
            guesses = recogniser.recognise(model, heard)
            table[name, decibels] = [recogniser.error_rate(guess, said, own_distance) for guess in guesses]
        cells = ["  ".join(f"{rate:6.1%}" for rate in table[name, decibels]) for table in (results, of_the_course)]
        print(f"{name:24}{decibels:3}  " + "    ".join(cells))
figure, ax = plt.subplots(figsize=(9, 3.4))
for i, decibels in enumerate((30, 10, 0)):
    heights = [100 * results[name, decibels][0] for name in groups]
    bars = ax.bar([place + 0.27 * (i - 1) for place in range(4)], heights, 0.25, label=f"{decibels} dB")
    ax.bar_label(bars, fmt="%.0f", fontsize=8)
ax.set_xticks(range(4), groups)
ax.set(title="Your model, by CTC: digits wrong, missing or too many", ylabel="% of the digits said")
ax.legend(title="noise")
plt.show()

# %% claims
if not FAST:
    by_ctc = {where: rates[0] for where, rates in results.items()}
    claim("another synthesiser is much harder", by_ctc["another synthesiser", 30] > 1.5 * by_ctc["unseen voices", 30])
    claim("so is a person", by_ctc["a person", 30] > 1.5 * by_ctc["unseen voices", 30])
    claim("about a third at 30 dB", all(0.2 < by_ctc[name, 30] < 0.45 for name in ("another synthesiser", "a person")))
    claim("about two thirds at 0 dB", all(0.55 < by_ctc[name, 0] < 0.8 for name in ("another synthesiser", "a person")))
    claim("nearly perfect", by_ctc["voices of the training", 30] < 0.03)
    claim("several times as many", by_ctc["unseen voices", 30] > 2 * by_ctc["voices of the training", 30])
    claim("more training helps", all(of_the_course[where][0] < rates[0] for where, rates in results.items()))
    claim("but does not close the gap", of_the_course["a person", 30][0] > 3 * of_the_course["unseen voices", 30][0])
    claim("noise hurts everywhere", all(by_ctc[name, 0] > by_ctc[name, 30] + 0.05 for name in groups))

# %% [markdown]
# On the voices of its training the recogniser is nearly perfect as long as there is little noise. On unseen voices of
# the same synthesiser it makes several times as many mistakes. On another synthesiser, or a person, about a third of
# the digits are wrong even at 30 dB, and two thirds at 0 dB. More training (the model of the course took 3,000 steps on
# twice as many recordings) helps, but does not close the gap. All training voices are made by the same formulas, and
# the model can rely on whatever these have in common and people do not. **A test on the voices of the training says
# little about the next person.** That is why real systems learn from thousands of speakers.
#
# Where does the decoder go wrong? Compare recordings in which a digit is said twice in a row with all others (the
# course's model, voices of the training):

# %%
tests = voices.make_utterances(everybody.train, 24 if FAST else 300, seed=123, decibels=(5, 30))
guesses = recogniser.recognise(listener, recogniser.record(tests))
with_repeat = {True: [], False: []}
for i, test in enumerate(tests):
    with_repeat[any(a == b for a, b in pairwise(test.digits))].append(i)
by_repeat = {}
for repeats, rows in with_repeat.items():
    said = [tests[i].digits for i in rows]
    by_repeat[repeats] = [recogniser.error_rate([way[i] for i in rows], said, own_distance) for way in guesses]
    print(f"{'with' if repeats else 'without':8} a repeated digit: {len(rows):3} rows; "
        f"wrong by CTC {by_repeat[repeats][0]:5.2%}, by the decoder {by_repeat[repeats][1]:5.2%}")  # fmt: skip

# %% claims
if not FAST:
    claim("the decoder stumbles over repeated digits", by_repeat[True][1] > 5 * by_repeat[False][1])
    claim("CTC does not", by_repeat[True][0] < 0.5 * by_repeat[True][1])

# %% [markdown]
# In *7 7* both sevens sound alike, so their keys are alike too. To attend to the second one, the decoder has to count.
# CTC has the blank for that.
#
# ## 14 · Which digits? And you?
#
# The person's ten digits one by one, and what is heard:

# %% figure What the person said, and what was heard
person = everybody.person[0]
confusion = torch.zeros(10, 10)
draws = torch.Generator().manual_seed(0)
singles = [voices.say(person, [digit], draws) for digit in range(10) for _ in range(2 if FAST else 20)]
singles = [voices.Utterance(voices.add_noise(u.wave, 30, draws), u.digits, u.places, u.voice) for u in singles]
for single, guess in zip(singles, recogniser.recognise(both, recogniser.record(singles, own_log_mel)).ctc):
    for digit in guess[:1]:
        confusion[single.digits[0], digit] += 1
confusion /= len(singles) / 10
figure, ax = plt.subplots(figsize=(5.6, 4.8))
show_matrix(
    confusion, "One digit at a time, 30 dB (share of 20 sayings)", rows="said by a person", columns="heard",
    row_names=list(map(str, range(10))), column_names=list(map(str, range(10))), numbers=True, ax=ax,
)  # fmt: skip
plt.show()

# %% [markdown]
# Where a row of the matrix sums to less than 1, sometimes nothing was heard at all.
#
# Now you. Record yourself saying three to six digits in English (no training recording had more), one after the other
# with hardly a pause, with any program that writes WAV files. Put the file beside this notebook as `my_digits.wav`. It
# stays on your computer.

# %%
MY_RECORDING = Path("my_digits.wav")
if MY_RECORDING.exists():
    mine = voices.trimmed(voices.read_wav(MY_RECORDING), silent=0.02)  # without the silence at both ends
    display(Audio(mine.numpy(), rate=RATE))
    my_features = recogniser.features_of(mine, own_log_mel)
    for name, model in (("your model", both), ("the course's model", listener)):
        guesses = recogniser.recognise(model, [recogniser.Recording(my_features, torch.tensor([], dtype=torch.long))])
        print(f"{name}: CTC hears {guesses.ctc[0]}, the decoder {guesses.attention[0]}, both {guesses.both[0]}")
else:
    print(f"There is no {MY_RECORDING} here: record some digits, save them under this name, and run this cell again.")

# %% [markdown]
# {{question the_next_speaker}}
#
# A friend has built a recogniser for a hospital and reports 2 % errors, "tested on recordings that were not used in
# training". They come from the same 40 people as the training. What would you ask her to measure, how would she divide
# the recordings, and what would you expect to see?

# %% answer the_next_speaker 2 [markdown]
# ### BEGIN SOLUTION
# Divide by speaker, not by recording: all recordings of some people are kept out of the training (and of every choice
# made on the way), and the error rate is measured on them, for each person separately; also at the noise and with the
# microphones of the hospital. (1 point.) I expect more errors, perhaps many times as many, and large differences
# between people; those whose voice, age or accent is unlike all 40 will fare worst. If the two figures were nearly
# equal, 40 people would have been enough; otherwise more speakers help more than more recordings of the same.
# (1 point.)
#
# **Rubric**
#
# - 1 point: divide by speaker, and measure on people who are in no part of the training
# - 1 point: expects more errors and differences between people, and says what follows from it
# ### END SOLUTION

# %% [markdown]
# ## 15 · What Conformer and its relatives change
#
# Attention sees everything at once, but a sound is local: a consonant is a matter of a few neighbouring frames. Our
# model leaves that to the front end. Three well-known encoders put convolutions into *every* layer:
#
# - **Conformer** (Gulati et al. 2020): half a feed-forward → attention → convolution → half a feed-forward, one after
#   the other. The convolution is gated and {{term depthwise convolution|depthwise}}. "Half" means that its output is
#   added to the residual path with a factor of ½.
# - **Branchformer** (Peng et al. 2022): two branches side by side, attention for the whole recording and a gated
#   convolution for the neighbourhood, then merged by a linear layer.
# - **E-Branchformer** (Kim et al. 2022): the same branches, merged with a depthwise convolution, and between two halves
#   of a feed-forward as in the Conformer.
#
# Mind the masks: such a convolution keeps the length, so its last windows reach into the padding. That has to be set to
# 0 before each of them, or it leaks into real frames. Here is the convolution of a Conformer (without its norm), and
# what happens at the end of a recording:


# %%
class ConvolutionModule(nn.Module):
    """Gate, depthwise convolution over time, projection: the part that the Conformer adds."""

    def __init__(self, d_model: int, width: int):
        super().__init__()
        self.enter = nn.Linear(d_model, 2 * d_model)
        self.depthwise = nn.Conv1d(d_model, d_model, width, padding=width // 2, groups=d_model)  # a filter per channel
        self.leave = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """x: (batch, time, d_model); real: (batch, time), or None for the mistake. Returns: the shape of x."""
        x = F.glu(self.enter(x), dim=-1)
        if real is not None:
            x = x.masked_fill(~real[:, :, None], 0.0)
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return self.leave(F.silu(x))


torch.manual_seed(0)
module = ConvolutionModule(16, width=7)
sound, real = torch.randn(1, 20, 16), torch.arange(20)[None] < 14
padded = sound.masked_fill(~real[:, :, None], 0.0)
other_padding = torch.where(real[:, :, None], sound, torch.randn(1, 20, 16))
moved = {}
for name, mask in (("without a mask", None), ("with a mask", real)):
    change = (module(padded, mask) - module(other_padding, mask)).abs().amax(dim=-1)[0, :14]
    moved[name] = (change > 1e-6).nonzero().flatten().tolist()
    print(f"{name}: real frames that change with the padding: {moved[name]}")
depthwise, full = (sum(p.numel() for p in m.parameters()) for m in (module.depthwise, nn.Conv1d(16, 16, 7)))
print(f"parameters: {depthwise} depthwise, {full} if every channel saw all others")

# %% claims
claim("the last three frames see the padding", moved["without a mask"] == [11, 12, 13])
claim("with a mask none does", moved["with a mask"] == [])

# %% [markdown]
# ## What you can do now
#
# Turn a sound into features and say what they keep; batch recordings and keep their lengths right after a front end
# that shortens them; align sound and text without being told how, by attention and by CTC; count mistakes fairly; and
# ask of every error rate *whose voice* it was measured on.
#
# **To read on**: Graves et al. (2006), *Connectionist Temporal Classification* · Chan et al. (2016), *Listen, Attend
# and Spell* · Watanabe et al. (2017), *Hybrid CTC/Attention Architecture for End-to-End Speech Recognition* · Park et
# al. (2019), *SpecAugment* · Gulati et al. (2020), *Conformer* · Peng et al. (2022), *Branchformer* · Kim et al.
# (2022), *E-Branchformer*.
