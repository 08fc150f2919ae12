"""Models that write: how a GPT is trained on docstrings and judged, in bits, beside counting and compression.

A text is a sequence of ids (`course_lib.docstrings`). A model is judged by what it says of each token of a text that it
was not trained on, given the tokens before it. The model that comes with the course has the sizes of `new_writer`.
"""

from __future__ import annotations

import gzip
import lzma
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.decoding import sample, top_k_filter
from course_lib.docstrings import ALPHABET
from course_lib.language_model import GPT, text_windows
from course_lib.settings import device_of
from course_lib.training import cosine_rate

# --- the model and its training -------------------------------------------------------------------------

LENGTH = 64  # of the windows that the models are trained with
BATCH_SIZE = 16  # windows
WEIGHTS = Path(__file__).with_name("writer.pt")

Windows = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
Architecture = Callable[[int, int, int, int, int], nn.Module]


def new_writer(architecture: Architecture = GPT) -> nn.Module:
    """The model before training: 0.6 million parameters. `architecture` is called like `GPT`."""
    return architecture(len(ALPHABET), 128, 4, 512, 3)  # characters, d_model, heads, d_ff, layers


def load_writer(architecture: Architecture = GPT) -> nn.Module:
    """The model that comes with the course, trained by `python -m benchmarks.train_writer`.

    A class whose parameters have other names gets them in the order in which it made them. If that does not fit either,
    the course's own class is taken.
    """
    saved = torch.load(WEIGHTS, map_location="cpu", weights_only=True)  # half precision in the file
    model = new_writer(architecture)
    own = dict(model.named_parameters())
    if own.keys() != saved.keys():
        saved = dict(zip(own, saved.values()))
    if [value.shape for value in own.values()] != [saved[name].shape for name in own if name in saved]:
        print("Your class makes its parameters in a different order, so the course's own is used here.")
        return load_writer()
    model.load_state_dict(saved, strict=False)  # a tied table may have a second name
    return model.eval()


def save_writer(model: nn.Module, path: Path = WEIGHTS) -> None:
    """Write the weights in half precision."""
    torch.save({name: value.half() for name, value in model.state_dict().items()}, path)


def random_starts(number_of_ids: int, length: int, batch_size: int, steps: int, seed: int) -> Iterator[Tensor]:
    """Where the windows of each step begin: `steps` tensors (batch_size,), the same for a seed on every machine."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield torch.randint(0, number_of_ids - length, (batch_size,), generator=generator)


def train_on_text(
    model: nn.Module,
    ids: Tensor,
    starts: Iterator[Tensor],
    rate: Callable[[int], float],
    length: int = LENGTH,
    windows: Windows = text_windows,
    report: Callable[[int, float], None] | None = None,
) -> list[float]:
    """One step of Adam on each batch of windows; step n, counted from 1, at the learning rate `rate(n)`.

    ids: (n,), the training text; starts: see `random_starts`; `windows` is called like `text_windows`, `report` with
    each step and its loss. Returns: the loss of every step, in nats per token.
    """
    device = device_of(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
    losses = []
    for step, places in enumerate(starts, start=1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        inputs, targets = (each.to(device) for each in windows(ids, places, length))  # (batch, length) each
        model.train()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
        if report is not None:
            report(step, losses[-1])
    model.eval()
    return losses


def writer_rate(steps: int, peak: float = 3e-3) -> Callable[[int], float]:
    """The learning rate of a training of this many steps: up in a straight line, down along a cosine."""
    return lambda step: cosine_rate(step, steps, peak, warmup=min(100, steps // 4 + 1))


# --- how good is it? ------------------------------------------------------------------------------------


@torch.no_grad()
def log_probabilities(model: nn.Module, ids: Tensor, length: int = LENGTH) -> Tensor:
    """What the model gave to each token of a text but the first: (n - 1,) natural logarithms, on the CPU.

    The model reads overlapping windows of `length` tokens, and only the second half of each counts (of the first, all),
    so that it has seen at least half a window before each token. ids: (n,) with n > length.
    """
    if len(ids) <= length:
        raise ValueError(f"A text of {len(ids)} tokens is too short: it should have more than {length}.")
    model.eval()
    device = device_of(model)
    predicted = len(ids) - 1
    results = torch.empty(predicted)
    starts = torch.tensor([*range(0, predicted - length, length // 2), predicted - length])
    for batch in starts.split(64):
        inputs, targets = text_windows(ids, batch, length)
        logits = model(inputs.to(device)).cpu()  # (batch, length, vocab)
        each = -F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")  # (batch, length)
        for start, row in zip(batch.tolist(), each):
            begin = 0 if start == 0 else length // 2
            results[start + begin : start + length] = row[begin:]
    return results


def text_bits(model: nn.Module, ids: Tensor, length: int = LENGTH) -> float:
    """Bits per token of a text, which for a model of characters are bits per character."""
    return -log_probabilities(model, ids, length).mean().item() / math.log(2)


# --- writing --------------------------------------------------------------------------------------------


@torch.no_grad()
def write(
    model: nn.Module,
    prompts: Tensor,
    new_tokens: int,
    choose: Callable[[Tensor], Tensor],
    length: int = LENGTH,
) -> Tensor:
    """Continue several prompts at once, (rows, time). `choose` is given logits (rows, vocab) and returns ids (rows,).

    For example `lambda logits: sample(top_p_filter(logits, 0.9), 1.0, torch.rand(len(logits)))`. The model sees the
    last `length` tokens. Returns: (rows, time + new_tokens).
    """
    ids = prompts
    for _ in range(new_tokens):
        logits = model(ids[:, -length:].to(device_of(model)))[:, -1].cpu()  # (rows, vocab)
        ids = torch.cat([ids, choose(logits)[:, None]], dim=1)
    return ids


def sampler(temperature: float, top_k: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A `choose` for `write`: sample at this temperature from the `top_k` most likely tokens."""
    generator = torch.Generator().manual_seed(seed)
    return lambda logits: sample(top_k_filter(logits, top_k), temperature, torch.rand(len(logits), generator=generator))


# --- text as a number: arithmetic coding ----------------------------------------------------------------

NextProbabilities = Callable[[Tensor], Tensor]  # the ids so far (time,) -> the probability of each next id (vocab,)
RESOLUTION = 1 << 20  # probabilities are rounded to this many parts, and none to 0, so that sums are exact


def arithmetic_code(ids: Tensor, known: int, next_probabilities: NextProbabilities) -> str:
    """The bits of a text, "0110…", of which the reader knows the first `known` tokens.

    The interval from 0 to 1 is divided among all tokens in proportion to their probabilities; the piece of the token
    that comes next is divided in the same way, and so on. Any number in the last piece names the whole text; the one
    with the fewest bits is taken.
    """
    low, width = Fraction(0), Fraction(1)
    for place in range(known, len(ids)):
        parts = whole_parts(next_probabilities(ids[:place]))
        token = int(ids[place])
        low += width * Fraction(sum(parts[:token]), sum(parts))
        width *= Fraction(parts[token], sum(parts))
    bits = 0
    while True:
        number = math.ceil(low * 2**bits)  # the first number with this many bits in the interval
        if Fraction(number + 1, 2**bits) <= low + width:  # whatever may follow stays inside
            return format(number, f"0{bits}b") if bits else ""
        bits += 1


def arithmetic_decode(bits: str, known: Tensor, total: int, next_probabilities: NextProbabilities) -> Tensor:
    """The text of `total` tokens that these bits stand for, by a model that answers as the writer's did."""
    number = Fraction(int(bits or "0", 2), 2 ** len(bits))
    ids = known
    low, width = Fraction(0), Fraction(1)
    while len(ids) < total:
        parts = whole_parts(next_probabilities(ids))
        place = (number - low) / width * sum(parts)  # between 0 and the sum
        token, before = 0, 0
        while before + parts[token] <= place:
            before += parts[token]
            token += 1
        low += width * Fraction(before, sum(parts))
        width *= Fraction(parts[token], sum(parts))
        ids = torch.cat([ids, torch.tensor([token])])
    return ids


def whole_parts(probabilities: Tensor) -> list[int]:
    """Probabilities (vocab,) as whole numbers, at least 1."""
    parts: list[int] = (probabilities.double() * RESOLUTION).long().clamp(min=1).tolist()
    return parts


# --- without a network ----------------------------------------------------------------------------------


def backoff_log_probabilities(train: Tensor, ids: Tensor, n: int, vocab_size: int) -> Tensor:
    """What counting runs of up to n tokens gives to each token of a text but the first n - 1: (len(ids) - n + 1,).

    Where a context was seen c times, followed by t different tokens, the shorter context has the weight t / (c + t)
    (Witten and Bell's rule); the shortest of all finds every token equally likely.
    """
    text, new = train.numpy().astype(np.int64), ids.numpy().astype(np.int64)
    number = len(new) - n + 1
    probability = np.full(number, 1 / vocab_size)
    for order in range(1, n + 1):
        runs, counts = np.unique(codes(text, order, vocab_size), return_counts=True)
        contexts, first = np.unique(runs // vocab_size, return_index=True)  # runs are sorted, so contexts are too
        total = np.add.reduceat(counts, first)
        different = np.diff([*first, len(runs)])
        wanted = codes(new, order, vocab_size)[-number:]
        count = looked_up(wanted, runs, counts)
        seen = looked_up(wanted // vocab_size, contexts, total)
        kinds = looked_up(wanted // vocab_size, contexts, different)
        backed_off = (count + kinds * probability) / np.maximum(seen + kinds, 1)
        probability = np.where(seen > 0, backed_off, probability)
    return torch.from_numpy(np.log(probability))


def codes(ids: np.ndarray, order: int, vocab_size: int) -> np.ndarray:
    """One number for each run of `order` ids: (len(ids) - order + 1,)."""
    number = len(ids) - order + 1
    result = np.zeros(number, dtype=np.int64)
    for place in range(order):
        result = result * vocab_size + ids[place : place + number]
    return result


def looked_up(wanted: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The value of each wanted number in the sorted `known`; 0 where it is not among them."""
    places = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[places] == wanted, values[places], 0)


def gzip_bits(text: str) -> float:
    """Bits per character of a file that gzip makes of a text."""
    return 8 * len(gzip.compress(text.encode(), compresslevel=9)) / len(text)


def xz_bits(text: str, primed_with: str = "") -> float:
    """Bits per character by xz's method without its file header; or what the text adds after another one."""
    before = len(xz(primed_with)) if primed_with else 0
    return 8 * (len(xz(primed_with + text)) - before) / len(text)


def xz(text: str) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    return lzma.compress(text.encode(), format=lzma.FORMAT_RAW, filters=filters)


# --- memorisation ---------------------------------------------------------------------------------------


def longest_matches(text: str, known: str) -> list[int]:
    """For each place in a text, how many characters from there on occur in the `known` text in the same order."""
    lengths = []
    length = 0
    for start in range(len(text)):
        length = max(length - 1, 0)  # what was found from the place before, without its first character
        while start + length < len(text) and text[start : start + length + 1] in known:
            length += 1
        lengths.append(length)
    return lengths


def share_copied(text: str, known: str, at_least: int) -> float:
    """The share of the characters of a text that belong to a run of `at_least` characters of the known text."""
    copied = [False] * len(text)
    for start, length in enumerate(longest_matches(text, known)):
        if length >= at_least:
            copied[start : start + length] = [True] * length
    return sum(copied) / len(text)


# --- pieces ---------------------------------------------------------------------------------------------

CHUNK = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+")


def chunks_of(text: str) -> list[str]:
    """The text cut into words, numbers, runs of other marks, each with the space before it, and runs of white space."""
    return CHUNK.findall(text)
