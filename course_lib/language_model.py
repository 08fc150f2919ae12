"""Language models: predict the next token of a text, and write by predicting again and again.

There is one kind of data, a long text as a sequence of ids, and one question: how likely is each id after those before
it? A table of counts answers it (`ngram_model`), and so does a decoder without an encoder (`GPT`). Both are judged by
the same number, the bits that they need for each character (`bits_per_character`). The ids stand for characters, or for
longer pieces of text that are learned from it (`train_bpe`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.decoding import sample, top_k_filter
from course_lib.multi_head_attention import MultiHeadAttention, merge_heads
from course_lib.positions import apply_rope
from course_lib.sublayers import FeedForward, LayerNorm, look_up, residual_pre_norm

# --- a text as data -------------------------------------------------------------------------------------


def text_windows(ids: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Cut windows out of one long text: what the model reads, and at each place the token that comes next.

    ids: (n,), the text; starts: (batch,), where each window begins, at most n - length - 1.
    Returns: inputs and targets, both (batch, length); targets[b, t] is the token after inputs[b, t].
    """
    steps = torch.arange(length, device=starts.device)  # (length,)
    places = starts[:, None] + steps[None, :]  # (batch, length)
    inputs = ids[places]
    targets = ids[places + 1]
    return inputs, targets


# --- a table of counts ----------------------------------------------------------------------------------


def ngram_model(ids: Tensor, n: int, vocab_size: int, smoothing: float) -> Tensor:
    """The probability of each token after the n - 1 tokens before it, by counting all runs of n tokens of a text.

    P(z | a … y) = (count of a … y z + smoothing) / (count of all runs that begin with a … y + smoothing · vocab_size).

    ids: (n_ids,) with n_ids ≥ n ≥ 1; smoothing > 0. Returns: vocab_size in each of n axes; entry [a, …, y, z] is
    P(z | a … y). For n = 1 there is no context: (vocab_size,), how likely each token is anywhere.
    """
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)  # (n_ids - n + 1, n)
    places = tuple(runs.T)  # one index for each axis
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)  # how often something follows each context
    return (counts + smoothing) / (totals + smoothing * vocab_size)


# --- how good is it? ------------------------------------------------------------------------------------


def bits_per_character(log_probabilities: Tensor, lengths: Tensor) -> float:
    """How many bits a model needs for each character of a text, whatever its tokens are.

    log_probabilities: (tokens,), the natural logarithm of the probability that the model gave to each token of the
    text; lengths: (tokens,), how many characters each of them stands for. Returns: all bits / all characters.
    """
    nats = -log_probabilities.sum()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


# --- the model ------------------------------------------------------------------------------------------


class DecoderBlock(nn.Module):
    """One layer of a decoder without an encoder: causal self-attention with rotary positions, then a feed-forward
    network, both pre-norm.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, d_model). Returns: the same shape; position t has seen positions 0 to t."""
        x = residual_pre_norm(x, self.attend, self.norm_1)
        return residual_pre_norm(x, self.feed_forward, self.norm_2)

    def attend(self, h: Tensor) -> Tensor:
        """h: (batch, time, d_model). Returns: the same shape. The mask and the positions are in here."""
        q, k, v = self.attention.project(h, h, h)  # (batch, head, time, d_k) each
        positions = torch.arange(h.shape[1], device=h.device)  # (time,)
        q, k = apply_rope(q, positions), apply_rope(k, positions)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (batch, head, time, d_k)
        return self.attention.w_o(merge_heads(heads))


class GPT(nn.Module):
    """A decoder without an encoder: ids in, logits for the next token out, at every position at once.

    `embedding` (nn.Embedding) is the table of the tokens, whose entries start as N(0, 0.02²). Its rows are used as they
    are, without a factor. `blocks` (nn.ModuleList) holds num_layers blocks; they know the positions and hide the
    future. `norm` (LayerNorm) comes after the last block. The output layer has no weights of its own: the logit of a
    token is the dot product with that token's row of the embedding table.
    """

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, d_ff: int, num_layers: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time). Returns: logits (batch, time, vocab_size); row t is about the token that follows t."""
        x = look_up(self.embedding, ids)  # (batch, time, d_model)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T  # (batch, time, vocab_size)


# --- pieces of text: byte-pair encoding -----------------------------------------------------------------

Pair = tuple[int, int]


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Replace each occurrence of the pair by `new_id`, from left to right: of "aaa", the first two are merged."""
    merged: list[int] = []
    place = 0
    while place < len(ids):
        if tuple(ids[place : place + 2]) == pair:
            merged.append(new_id)
            place += 2
        else:
            merged.append(ids[place])
            place += 1
    return merged


def train_bpe(counts: Mapping[str, int], num_merges: int) -> list[Pair]:
    """Learn which neighbouring pieces to join, from how often they occur. Pieces begin as the bytes of the UTF-8 text.

    counts: chunks of text (a word with the space before it) and how often each occurs. Pieces of different chunks are
    never neighbours. Ids 0 to 255 are the bytes, and merge number i (counted from 0) makes the id 256 + i. In each
    round, the pair of neighbours that occurs most often is merged everywhere. Every two neighbours are a pair: "aaa"
    holds (a, a) twice. Of pairs that are equally frequent, the smaller one is taken, as Python compares tuples.
    Returns: the merges in the order they were learned, num_merges of them, or fewer if no pair is left.
    """
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges: list[Pair] = []
    for new_id in range(256, 256 + num_merges):
        pairs: Counter[Pair] = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


def bpe_encode(chunk: str, merges: Sequence[Pair]) -> list[int]:
    """The ids of the pieces of one chunk: its UTF-8 bytes, then every merge in the order they were learned.

    merges: as `train_bpe` returns them; merge number i makes the id 256 + i.
    """
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 256 + number)
    return ids


def bpe_decode(ids: Sequence[int], merges: Sequence[Pair]) -> str:
    """The text of a sequence of pieces. A character may be spread over several pieces, so bytes are joined first and
    become text at the end; bytes that are not valid text become "\N{REPLACEMENT CHARACTER}" (errors="replace").
    """
    pieces = [bytes([byte]) for byte in range(256)]  # what each id stands for
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="replace")


# --- writing --------------------------------------------------------------------------------------------


def generate(
    model: Callable[[Tensor], Tensor],
    prompt: Tensor,
    new_tokens: int,
    temperature: float,
    top_k: int,
    draws: Tensor,
    max_len: int,
) -> Tensor:
    """Continue a prompt, one token after the other, without recording gradients.

    For each new token the model is given the last `max_len` tokens at most, as a batch of one. Of its logits for what
    follows, the `top_k` largest are kept. They are divided by the temperature (above 0) and become probabilities. The
    token drawn is the first at which their running sum, in the order of the ids, is greater than `draws[i]`.

    model: ids (batch, time) ↦ logits (batch, time, vocab_size); prompt: (time,), at least one token;
    draws: (new_tokens,), numbers from 0 (included) to 1 (excluded). Returns: (time + new_tokens,), the prompt first.
    """
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]  # (at most max_len,)
        with torch.no_grad():
            logits = model(context[None])[:, -1]  # (1, vocab_size): about the token that follows the last one
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])  # (1,)
        ids = torch.cat([ids, drawn])
    return ids


# --- larger models --------------------------------------------------------------------------------------


def fit_power_law(sizes: Tensor, losses: Tensor) -> tuple[float, float]:
    """The power law loss ≈ scale · size^(-exponent) that fits best: a straight line through the logarithms.

    log(loss) ≈ log(scale) - exponent · log(size), with the least sum of squared differences between the two sides.

    sizes and losses: (models,), positive, at least two different sizes. Returns: scale, exponent.
    """
    x = sizes.double().log()  # (models,)
    y = losses.double().log()
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()
