"""A recogniser of spoken digits: features in, digits out, by CTC and by attention, over one encoder.

    wave → log-mel features → convolutions (time / 4) → encoder ─┬→ CTC: one label for each frame
                                                                 └→ decoder with cross-attention: one digit at a time

Digit d has the id 3 + d. PAD is 0, and it is CTC's blank too; BOS is 1 and EOS is 2. CTC never has to say BOS or EOS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.encoder_decoder import Decoder, DecoderLayer, Encoder
from course_lib.masks import causal_mask, padding_mask
from course_lib.positions import PositionalEncoding
from course_lib.settings import device_of
from course_lib.speech import ConvFrontEnd, ctc_collapse, edit_distance, log_mel, mel_filterbank, pad_features
from course_lib.sublayers import TokenEmbedding
from course_lib.training import cosine_rate, sequence_loss, shift_right
from course_lib.transformer import initialise
from course_lib.translation import BOS, EOS, PAD
from course_lib.voices import RATE, Utterance, Voice, draw_utterances, loudest_one

BLANK, FIRST_DIGIT, VOCABULARY = PAD, 3, 13
LENGTH, HOP, N_MELS = 256, 80, 32  # a frame has 32 ms and begins 10 ms after the one before
WEIGHTS = Path(__file__).with_name("recogniser.pt")
MOST_DIGITS = 12  # a decoder that does not find an end is stopped here
CTC_WEIGHT = 0.3
FRAME_SECONDS = (LENGTH + 6 * HOP) / RATE  # two convolutions of width 3 see 7 frames

# --- data -----------------------------------------------------------------------------------------------

LogMel = Callable[[Tensor, int, int, Tensor], Tensor]
Pad = Callable[[list[Tensor]], tuple[Tensor, Tensor]]
Distance = Callable[[list[int], list[int]], int]


class Recording(NamedTuple):
    """The features of an utterance, (time, N_MELS), and the ids of its digits, (digits,)."""

    features: Tensor
    ids: Tensor


class Batch(NamedTuple):
    """features: (batch, time, N_MELS); lengths: (batch,), real frames; targets: (batch, digits + 1), EOS, padding."""

    features: Tensor
    lengths: Tensor
    targets: Tensor


def features_of(wave: Tensor, log_mel: LogMel = log_mel, filters: Tensor | None = None) -> Tensor:
    """Log-mel features without the loudness and the colouring by the microphone: (time, N_MELS).

    The loudest sample becomes 1. Each filter's mean over the recording is subtracted, then everything is divided by the
    standard deviation of all.
    """
    filters = mel_filterbank(N_MELS, LENGTH, RATE) if filters is None else filters
    energies = log_mel(loudest_one(wave), LENGTH, HOP, filters)  # (time, N_MELS)
    centred = energies - energies.mean(dim=0)
    return centred / centred.std()


def record(utterances: Iterable[Utterance], log_mel: LogMel = log_mel) -> list[Recording]:
    """Features and ids of each utterance."""
    filters = mel_filterbank(N_MELS, LENGTH, RATE)
    return [
        Recording(features_of(each.wave, log_mel, filters), torch.tensor(each.digits) + FIRST_DIGIT)
        for each in utterances
    ]


def make_batch(recordings: Sequence[Recording], pad: Pad = pad_features) -> Batch:
    """Recordings of different lengths in one padded batch, EOS after the digits of each."""
    features, lengths = pad([each.features for each in recordings])
    rows = [F.pad(each.ids, (0, 1), value=EOS) for each in recordings]
    return Batch(features, lengths, nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD))


def batches_of(
    recordings: Sequence[Recording], batch_size: int, steps: int, seed: int, pad: Pad = pad_features
) -> Iterator[Batch]:
    """`steps` batches drawn at random, each recording changed by `disturb`.

    In a batch the recordings are of similar length, so that little of it is padding.
    """
    generator = torch.Generator().manual_seed(seed)
    by_length = sorted(recordings, key=lambda each: len(each.features))
    for _ in range(steps):
        middle = int(torch.randint(len(by_length), (), generator=generator))
        low = min(max(middle - 4 * batch_size, 0), max(len(by_length) - 8 * batch_size, 0))
        near = torch.randint(low, min(low + 8 * batch_size, len(by_length)), (batch_size,), generator=generator)
        chosen = [by_length[i] for i in near.tolist()]
        yield make_batch([Recording(disturb(each.features, generator), each.ids) for each in chosen], pad)


def disturb(features: Tensor, generator: torch.Generator) -> Tensor:
    """Another speed, 0.8 to 1.6 times as long, then gaps: a band of up to 6 filters and one of up to 8 frames are 0.

    0 is the mean. Nothing of this changes what was said. features: (time, N_MELS). Returns: (other time, N_MELS).
    """
    draw = torch.rand(5, generator=generator).tolist()
    time = int(len(features) * (0.8 + 0.8 * draw[0]))
    stretched = F.interpolate(features.T[None], size=time, mode="linear")[0].T.clone()
    height, width = int(7 * draw[1]), int(9 * draw[2])
    low, start = int((N_MELS - height) * draw[3]), int((time - width) * draw[4])
    stretched[:, low : low + height] = 0.0
    stretched[start : start + width] = 0.0
    return stretched


# --- the model ------------------------------------------------------------------------------------------


class Recogniser(nn.Module):
    """A Transformer whose source is sound. A convolutional front end takes the place of the source embedding."""

    def __init__(
        self,
        d_model: int = 96,
        num_heads: int = 4,
        d_ff: int = 192,
        encoder_layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.0,
        front_end: Callable[[int, int], nn.Module] = ConvFrontEnd,
    ):
        super().__init__()
        self.front_end = front_end(N_MELS, d_model)
        self.positions = PositionalEncoding(d_model, 1024)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(d_model, num_heads, d_ff, encoder_layers, dropout)
        self.ctc = nn.Linear(d_model, VOCABULARY)
        self.embedding = TokenEmbedding(VOCABULARY, d_model, PAD)
        self.decoder = Decoder(d_model, num_heads, d_ff, decoder_layers, dropout)
        self.output = nn.Linear(d_model, VOCABULARY)
        for part in (self.encoder, self.decoder, self.embedding, self.ctc, self.output):
            part.apply(initialise)

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """features: (batch, time, N_MELS); lengths: (batch,). Returns: memory (batch, time', d_model), new lengths.

        The mask is made from the lengths *after* the front end.
        """
        x, lengths = self.front_end(features, lengths)
        x = self.dropout(self.positions(x))
        return self.encoder(x, padding_mask(lengths, x.shape[1])[:, None]), lengths

    def decode(self, ids: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """ids: (batch, target), BOS first; memory, lengths as from `encode`. Returns: (batch, target, VOCABULARY)."""
        x = self.dropout(self.positions(self.embedding(ids)))
        past = causal_mask(ids.shape[1]).to(ids.device)
        real = padding_mask(lengths, memory.shape[1])[:, None]  # (batch, 1, time')
        return self.output(self.decoder(x, memory, past[None], real))

    def forward(self, features: Tensor, lengths: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns: log-probabilities of CTC (batch, time', VOCABULARY), lengths (batch,), the decoder's logits."""
        memory, lengths = self.encode(features, lengths)
        return self.ctc(memory).log_softmax(dim=-1), lengths, self.decode(ids, memory, lengths)


def load_recogniser(**sizes: Any) -> Recogniser:
    """The model that comes with the course, trained by `python -m benchmarks.train_recogniser`."""
    model = Recogniser(**sizes)
    model.load_state_dict(torch.load(WEIGHTS, map_location="cpu", weights_only=True))  # half precision in the file
    return model.eval()


def save_recogniser(model: Recogniser, path: Path = WEIGHTS) -> None:
    """Write the weights in half precision."""
    torch.save({name: value.half() for name, value in model.state_dict().items()}, path)


# --- training -------------------------------------------------------------------------------------------


def both_losses(model: Recogniser, batch: Batch) -> tuple[Tensor, Tensor]:
    """CTC's loss for each digit, and the decoder's cross-entropy."""
    device = device_of(model)
    features, lengths, targets = (each.to(device) for each in batch)
    log_probs, frames, logits = model(features, lengths, shift_right(targets, BOS))
    digits = (targets > EOS).sum(dim=1)  # (batch,)
    labels = targets[targets > EOS]  # all rows, one after the other
    total = F.ctc_loss(log_probs.transpose(0, 1), labels, frames, digits, BLANK, reduction="sum", zero_infinity=True)
    return total / len(labels), sequence_loss(logits, targets, PAD)


def train_recogniser(
    model: Recogniser,
    batches: Iterable[Batch],
    steps: int,
    ctc_weight: float = CTC_WEIGHT,
    peak: float = 3e-3,
    report: Callable[[int, float], None] | None = None,
) -> list[tuple[float, float]]:
    """A step of Adam on each batch, on ctc_weight · CTC + (1 - ctc_weight) · attention.

    The rate rises for a tenth of the steps and falls along a cosine. Returns: both losses of every step.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
    losses = []
    for step, batch in enumerate(batches, start=1):
        for group in optimizer.param_groups:
            group["lr"] = cosine_rate(step, steps, peak, warmup=steps // 10 + 1)
        model.train()
        ctc, attention = both_losses(model, batch)
        loss = ctc_weight * ctc + (1 - ctc_weight) * attention
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        losses.append((ctc.item(), attention.item()))
        if report is not None:
            report(step, loss.item())
    model.eval()
    return losses


def training_recordings(voices: Sequence[Voice], number: int, seed: int, log_mel: LogMel = log_mel) -> list[Recording]:
    """Sequences of 1 to 6 digits, with noise between 0 and 40 decibels below them."""
    return record(draw_utterances(voices, number, seed, decibels=(0, 40), shortest=1), log_mel)


# --- recognition ----------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """The digits of each recording: by CTC, by the decoder, and by both together."""

    ctc: list[list[int]]
    attention: list[list[int]]
    both: list[list[int]]


@torch.no_grad()
def recognise(model: Recogniser, recordings: Sequence[Recording], ctc_weight: float = CTC_WEIGHT) -> Heard:
    """What the model hears.

    By CTC: the best label of each frame, collapsed. By attention: greedy decoding. By both: of these two, the one with
    the larger ctc_weight · log P of CTC + (1 - ctc_weight) · log P of the decoder.
    """
    heard = Heard([], [], [])
    order = sorted(range(len(recordings)), key=lambda i: len(recordings[i].features))
    model.eval()
    for start in range(0, len(order), 64):
        rows = [recordings[i] for i in order[start : start + 64]]
        batch = make_batch(rows)
        device = device_of(model)
        memory, lengths = model.encode(batch.features.to(device), batch.lengths.to(device))
        log_probs = model.ctc(memory).log_softmax(dim=-1)  # (batch, time', VOCABULARY)
        by_ctc = read_ctc(log_probs, lengths)
        by_attention = read_decoder(model, memory, lengths)
        scores = [
            ctc_weight * ctc_score(log_probs, lengths, ids)
            + (1 - ctc_weight) * decoder_score(model, memory, lengths, ids)
            for ids in (by_ctc, by_attention)
        ]
        first = (scores[0] >= scores[1]).tolist()
        heard.ctc.extend(by_ctc)
        heard.attention.extend(by_attention)
        heard.both.extend(a if better else b for a, b, better in zip(by_ctc, by_attention, first))
    back = [order.index(i) for i in range(len(order))]
    return Heard(*([digits_of(ways[i]) for i in back] for ways in heard))


def digits_of(ids: Iterable[int]) -> list[int]:
    """The digits that the ids stand for; whatever is not a digit is left out."""
    return [i - FIRST_DIGIT for i in ids if i >= FIRST_DIGIT]


def read_ctc(log_probs: Tensor, lengths: Tensor) -> list[list[int]]:
    """The best label of each real frame, collapsed."""
    best = log_probs.argmax(dim=-1).tolist()
    return [ctc_collapse(row[:length], BLANK) for row, length in zip(best, lengths.tolist())]


def read_decoder(model: Recogniser, memory: Tensor, lengths: Tensor) -> list[list[int]]:
    """Greedy decoding, without EOS."""
    ids = torch.full((len(memory), 1), BOS, device=memory.device)
    for _ in range(MOST_DIGITS):
        following = model.decode(ids, memory, lengths)[:, -1].argmax(dim=-1)
        ids = torch.cat([ids, following[:, None]], dim=1)
        if (ids == EOS).any(dim=1).all():
            break
    rows = ids[:, 1:].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def ctc_score(log_probs: Tensor, lengths: Tensor, ids: Sequence[Sequence[int]]) -> Tensor:
    """log P of each row of ids by CTC: (batch,)."""
    targets = torch.tensor([label for row in ids for label in row], device=log_probs.device, dtype=torch.long)
    counts = torch.tensor([len(row) for row in ids], device=log_probs.device)
    return -F.ctc_loss(log_probs.transpose(0, 1), targets, lengths, counts, BLANK, reduction="none")


def decoder_score(model: Recogniser, memory: Tensor, lengths: Tensor, ids: Sequence[Sequence[int]]) -> Tensor:
    """log P of each row of ids, and of EOS after it, by the decoder: (batch,)."""
    rows = [torch.tensor([*row, EOS]) for row in ids]
    targets = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(memory.device)
    log_probs = model.decode(shift_right(targets, BOS), memory, lengths).log_softmax(dim=-1)
    chosen = log_probs.gather(dim=-1, index=targets[:, :, None]).squeeze(-1)
    return chosen.masked_fill(targets == PAD, 0.0).sum(dim=1)


@torch.no_grad()
def alignment(model: Recogniser, recording: Recording) -> Tensor:
    """Where each head of the last cross-attention listens as the decoder names each digit: (head, digits + 1, time').

    The last row belongs to EOS. Layers never compute their weights, so the attention is done once more, with weights.
    """
    attention = cast(DecoderLayer, model.decoder.layers[-1]).cross_attention
    queries: list[Tensor] = []
    hook = attention.w_q.register_forward_pre_hook(lambda _, inputs: queries.append(inputs[0]))
    batch = Batch(*(each.to(device_of(model)) for each in make_batch([recording])))
    memory, lengths = model.encode(batch.features, batch.lengths)
    model.decode(shift_right(batch.targets, BOS), memory, lengths)
    hook.remove()
    return attention(queries[0], memory, memory)[1][0].cpu()


def shares_of_heads(model: Recogniser, utterances: Sequence[Utterance]) -> Tensor:
    """How much of each head's attention falls on the digit that is being named, on average: (head,)."""
    pairs = zip(utterances, record(utterances))
    shares = [[share_inside(head, said.places) for head in alignment(model, recorded)] for said, recorded in pairs]
    return torch.tensor(shares).mean(dim=0)


def share_inside(weights: Tensor, places: Sequence[tuple[int, int]]) -> float:
    """How much of the attention of each digit falls on frames that overlap with its own sound, on average.

    weights: (digits + 1, time'), those of one head; places: begin and end of each digit, in samples.
    """
    begins = seconds_of_frames(weights.shape[1])
    ends = begins + FRAME_SECONDS
    shares = []
    for row, (start, end) in zip(weights, places):
        inside = (ends > start / RATE) & (begins < end / RATE)
        shares.append(row[inside].sum().item())
    return sum(shares) / len(shares)


def seconds_of_frames(number: int) -> Tensor:
    """When each frame of the encoder begins: (number,). The front end makes one of every four."""
    return torch.arange(number) * 4 * HOP / RATE


def error_rate(
    heard: Sequence[Sequence[int]], said: Sequence[Sequence[int]], distance: Distance = edit_distance
) -> float:
    """Wrong, missing and superfluous digits for each digit that was said."""
    wrong = sum(distance(list(truth), list(guess)) for truth, guess in zip(said, heard, strict=True))
    return wrong / sum(map(len, said))
