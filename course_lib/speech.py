"""Speech: from a waveform to features, from features to text.

    wave → frames → window → power spectrum → mel filters → logarithm: features, (time, n_mels)
    features → convolutions that shorten time → encoder → text

A recording is one long sequence of numbers. `frames` cuts it into short pieces, and `log_mel` describes each of them by
the energies that `mel_filterbank` collects. `pad_features` makes a batch of recordings of different lengths, and
`ConvFrontEnd` shortens it and says how long each recording is afterwards.

Nobody says which frame belongs to which letter. CTC adds up over all ways in which they might (`ctc_loss`), and
`ctc_collapse` reads the text from one of those ways. `edit_distance` counts the mistakes in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.transformer import subsampled_lengths

LOG_ZERO = -1e30  # as good as -inf, the logarithm of 0, but the gradients of a log-sum-exp over it are not NaN

# --- from a wave to features ----------------------------------------------------------------------------


def frames(wave: Tensor, length: int, hop: int) -> Tensor:
    """Cut a recording into pieces of `length` samples. Each begins `hop` samples after the one before.

    wave: (samples,), at least `length` of them. Returns: (frames, length). Only whole frames count: what is left at the
    end is dropped.
    """
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)  # (frames,)
    steps = torch.arange(length, device=wave.device)  # (length,)
    places = starts[:, None] + steps[None, :]  # (frames, length)
    return wave[places]


def hz_to_mel(frequency: Tensor) -> Tensor:
    """A frequency in hertz on the mel scale, on which equal steps sound equally large."""
    return 2595 * torch.log10(1 + frequency / 700)


def mel_to_hz(mel: Tensor) -> Tensor:
    """The frequency in hertz that has this place on the mel scale."""
    return 700 * (10 ** (mel / 2595) - 1)


def mel_filterbank(n_filters: int, n_fft: int, sample_rate: int) -> Tensor:
    """Triangles over the frequencies of a spectrum: how much each bin counts in each filter.

    On the mel scale, n_filters + 2 corners are equally spaced from 0 Hz to sample_rate / 2. Filter i rises in a
    straight line over the frequencies in hertz, from 0 at corner i to 1 at corner i + 1. From there it falls to 0 at
    corner i + 2, and it is 0 everywhere else. Bin b of the spectrum has the frequency b · sample_rate / n_fft.

    n_fft: even. Returns: (n_filters, n_fft // 2 + 1).
    """
    bins = torch.arange(n_fft // 2 + 1) * sample_rate / n_fft  # (bins,): in hertz
    top = hz_to_mel(torch.tensor(sample_rate / 2))
    corners = mel_to_hz(torch.linspace(0.0, float(top), n_filters + 2))  # (n_filters + 2,): in hertz
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]  # (n_filters, 1) each
    rising = (bins - left) / (centre - left)  # (n_filters, bins)
    falling = (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0)


def log_mel(wave: Tensor, length: int, hop: int, filterbank: Tensor) -> Tensor:
    """The features of a recording: for each frame, the logarithm of the energy in each mel filter.

    Each frame is multiplied by `torch.hann_window(length)`. Its power spectrum is |rfft|², the energy of a filter the
    sum over the bins of filter · power, and the feature is the natural logarithm of energy + 1e-6.

    wave: (samples,); filterbank: (n_filters, length // 2 + 1). Returns: (frames, n_filters).
    """
    pieces = frames(wave, length, hop)  # (frames, length)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)  # (length,)
    spectrum = torch.fft.rfft(pieces * window, dim=-1)  # (frames, bins), complex
    power = spectrum.abs() ** 2
    energies = power @ filterbank.T  # (frames, n_filters)
    return torch.log(energies + 1e-6)


# --- batches --------------------------------------------------------------------------------------------


def pad_features(features: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Put the features of several recordings into one batch. Shorter ones are padded with zeros at the end.

    features: tensors (time, n_mels), each with its own time.
    Returns: batch (batch, longest time, n_mels), lengths (batch,): how many frames of each are real.
    """
    lengths = torch.tensor([len(recording) for recording in features])  # (batch,)
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths


class ConvFrontEnd(nn.Module):
    """Two convolutions over time, a ReLU after each. Each has kernel 3 and stride 2, so time becomes about a quarter.

    `conv_1` (nn.Conv1d) goes from n_mels to d_model channels, `conv_2` from d_model to d_model. Both have a bias, and
    nothing is padded at the ends.
    """

    def __init__(self, n_mels: int, d_model: int):
        super().__init__()
        self.conv_1 = nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2)
        self.conv_2 = nn.Conv1d(d_model, d_model, kernel_size=3, stride=2)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """features: (batch, time, n_mels); lengths: (batch,), how many frames of each recording are real.

        Returns: (batch, time', d_model), and lengths (batch,): how many of the new frames saw nothing but real frames.
        """
        x = features.transpose(1, 2)  # (batch, n_mels, time): a convolution wants channels before time
        x = torch.relu(self.conv_1(x))  # (batch, d_model, about time / 2)
        x = torch.relu(self.conv_2(x))  # (batch, d_model, time')
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


# --- CTC: which frame is which letter? ------------------------------------------------------------------


def ctc_collapse(ids: Sequence[int], blank: int = 0) -> list[int]:
    """What a path says: runs of the same label become one label, then the blanks go.

    ids: one label for each frame. Returns: the labels of the text. "a a _ a b b" (_ is the blank) says "a a b".
    """
    kept: list[int] = []
    previous = None
    for label in ids:
        if label != previous and label != blank:
            kept.append(label)
        previous = label
    return kept


def ctc_loss(log_probs: Tensor, target: Tensor, blank: int = 0) -> Tensor:
    """-log of the probability that a path drawn frame by frame collapses to the target.

    That is the sum over all such paths. The forward algorithm takes it in a number of steps that grows with time ·
    target, in logarithms all the way. States are the target's labels with a blank before, between and after them. At
    each frame a path stays in its state, moves on to the next, or leaves out a blank between two different labels.

    log_probs: (time, vocab), the logarithms of the probabilities of each frame; target: (n,), at least one label, none
    of them the blank. Returns: a number, in nats, with gradients. They have to be finite, and those of a log-sum-exp
    over nothing but -inf are NaN: take -1e30 for the logarithm of 0. If no path collapses to the target, the loss is
    infinite, or any number above 1e6.
    """
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)  # blank, label, blank, label, …, blank
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)  # (states,): log of the sum over all paths that end there
    alpha[:2] = log_probs[0, states[:2]]  # a path begins with the first blank or the first label
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)  # a path ends with the last label or the last blank


# --- how many mistakes? ---------------------------------------------------------------------------------


def edit_distance(reference: Sequence[Any], hypothesis: Sequence[Any]) -> int:
    """How many items have to be inserted, deleted or replaced, at the least, to turn one sequence into the other.

    reference, hypothesis: sequences of items that can be compared, either may be empty. Returns: a whole number.
    """
    previous = list(range(len(hypothesis) + 1))  # from nothing to each beginning of the hypothesis: insert all of it
    for i, wanted in enumerate(reference):
        current = [i + 1]  # to nothing: delete all so far
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]
