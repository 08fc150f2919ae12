"""Decoding: from a model that rates the next token to a whole sentence.

Everything here asks a model one question only, `next_logits`: given the tokens so far, `(rows, time)` with BOS first,
how good is each token as the next one, `(rows, vocab)`? The search does not care where the answer comes from: a
Transformer, with or without a cache, or a table of five numbers.

Conventions: BOS starts every prefix and is never part of a result. EOS ends a sentence and belongs to the result.
`max_len` counts the tokens of the result, EOS included. Places after EOS hold `pad_id`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.encoder_decoder import DecoderLayer
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.transformer import Transformer, decoder_layers

NextLogits = Callable[[Tensor], Tensor]

# --- searching ------------------------------------------------------------------------------------------


def greedy_decode(next_logits: NextLogits, rows: int, bos_id: int, eos_id: int, pad_id: int, max_len: int) -> Tensor:
    """Take the best token, again and again, for `rows` sentences at once, until all have ended.

    Returns: (rows, time) with time ≤ max_len, without BOS, with EOS, padded after it.
    """
    ids = torch.full((rows, 1), bos_id)  # (rows, time)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)  # (rows, vocab)
        best = logits.argmax(dim=-1)  # (rows,)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


def beam_search(
    next_logits: NextLogits, beam_size: int, bos_id: int, eos_id: int, max_len: int, alpha: float
) -> tuple[list[int], float]:
    """Follow the `beam_size` best prefixes instead of one, for a single sentence.

    A sentence's score is its log-probability / length^alpha, where length counts its tokens, EOS included. In each
    round every prefix is continued in every way, and the best `beam_size` continuations by log-probability are kept.
    Those that end with EOS are set aside (their places in the beam are gone), the others go on. When nothing goes on,
    or `max_len` tokens are there (what is unfinished then counts as it stands), the best score wins.
    Returns: its ids without BOS, and its score.
    """
    prefixes = torch.tensor([[bos_id]])  # (beam, time)
    totals = torch.zeros(1)  # (beam,), log-probabilities
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)  # (beam, vocab)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities  # (beam, vocab)
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))  # (beam,)
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


# --- sampling -------------------------------------------------------------------------------------------


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest logits of each row; the others become -inf. (A tie with the k-th is kept too.)

    logits: (..., vocab). Returns: the same shape.
    """
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values  # (..., k), falling
    smallest_kept = largest[..., -1:]  # (..., 1)
    return logits.masked_fill(logits < smallest_kept, -math.inf)


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest tokens, most likely first, whose probabilities sum to p or more; the others become -inf.

    The token that crosses p is kept, so at least one always is.

    logits: (..., vocab). Returns: the same shape.
    """
    falling, order = logits.sort(dim=-1, descending=True)  # (..., vocab)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # what the more likely tokens have together
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


def sample(logits: Tensor, temperature: float, u: Tensor) -> Tensor:
    """Sample one token for each row, with the probabilities softmax(logits / temperature).

    Chance comes from outside: u holds a number between 0 (included) and 1 (excluded) for each row. Lay the
    probabilities end to end on a line from 0 to 1, token 0 first: the token whose piece holds u is drawn. In other
    words, the first token at which the running sum of the probabilities is greater than u.
    A temperature below 1 sharpens the distribution, above 1 flattens it. 0 is its limit: the best token, always.

    logits: (batch, vocab); u: (batch,). Returns: (batch,), token ids.
    """
    if temperature < 0:
        raise ValueError(f"A temperature is 0 or more, not {temperature}.")
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)  # (batch, vocab)
    ends = probabilities.cumsum(dim=-1)  # (batch, vocab): where each token's piece ends
    ends = ends / ends[:, -1:]  # the last one at exactly 1, whatever rounding did
    passed = ends <= u[:, None]  # pieces that lie wholly before u
    return passed.sum(dim=-1)


# --- asking a Transformer -------------------------------------------------------------------------------


def uncached(model: Transformer, src_ids: Tensor) -> NextLogits:
    """`next_logits` of a Transformer for these sources. The decoder reads the whole prefix again each time.

    src_ids: (rows, source), or (1, source) for any number of rows.
    """
    memory = model.encode(src_ids)  # once: it does not depend on the targets

    def next_logits(ids: Tensor) -> Tensor:
        rows = len(ids)
        prefix = ids.to(src_ids.device)
        logits = model.decode(prefix, memory.expand(rows, -1, -1), src_ids.expand(rows, -1))  # (rows, time, vocab)
        return logits[:, -1].to(ids.device)

    return next_logits


Cache = tuple[Tensor, Tensor]  # keys and values of all positions so far, each (batch, head, seen, d_k)


class CachedAttention(nn.Module):
    """Causal self-attention that is given a sequence in pieces, with the keys and values of the earlier ones.

    Pieces may be of any size. The results are those of one causal attention over the whole sequence.
    """

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """
        x: (batch, new, d_model), the next piece. cache: what the piece before returned; None: a sequence begins.
        Returns: output (batch, new, d_model), and the cache for the next piece, which has `new` positions more.
        """
        q = split_heads(self.w_q(x), self.num_heads)  # (batch, head, new, d_k)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)  # (batch, head, seen, d_k)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)  # (new, seen): the last new token sees all
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)  # (batch, head, new, d_k)
        return self.w_o(merge_heads(heads)), (k, v)


class CachedLayer:
    """One decoder layer that is given only the new positions. What it needs of the old ones and the source is kept.

    Its self-attention does what `CachedAttention` does. Since a piece is mostly a single token, for which every call of
    an operator counts, queries, keys and values come out of one product, and there is no mask where nothing is hidden.
    """

    def __init__(
        self,
        layer: DecoderLayer,
        memory: Tensor,
        memory_mask: Tensor,
        attention_class: type[nn.Module] | None = None,
    ):
        """memory: (batch, source, d_model); memory_mask: (batch, 1, source). attention_class: see `cached`."""
        self.layer = layer
        self.attention = None if attention_class is None else with_weights_of(layer, attention_class)
        projections = [layer.self_attention.w_q, layer.self_attention.w_k, layer.self_attention.w_v]
        self.qkv_weight = torch.cat([linear.weight for linear in projections])  # (3 · d_model, d_model)
        self.qkv_bias = torch.cat([linear.bias for linear in projections])
        self.cache: Cache | None = None
        cross = layer.cross_attention
        self.keys = split_heads(cross.w_k(memory), cross.num_heads)  # (batch, head, source, d_k)
        self.values = split_heads(cross.w_v(memory), cross.num_heads)
        self.mask = None if memory_mask.all() else memory_mask[:, None]  # (batch, 1, 1, source)

    def attend_to_itself(self, h: Tensor) -> Tensor:
        """h: (batch, new, d_model). Returns: the same shape."""
        if self.attention is not None:
            output, self.cache = self.attention(h, self.cache)
            return output
        attention = self.layer.self_attention
        qkv = F.linear(h, self.qkv_weight, self.qkv_bias)  # (batch, new, 3 · d_model)
        q, k, v = qkv.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)  # each (batch, head, new, d_k)
        if self.cache is not None:
            old_k, old_v = self.cache
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)  # (batch, head, seen, d_k)
        self.cache = k, v
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past_mask(q.shape[2], k.shape[2], h.device))
        return attention.w_o(merge_heads(heads))

    def attend_to_source(self, h: Tensor) -> Tensor:
        """h: (batch, new, d_model). Returns: the same shape."""
        cross = self.layer.cross_attention
        q = split_heads(cross.w_q(h), cross.num_heads)  # (batch, head, new, d_k)
        heads = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=self.mask)
        return cross.w_o(merge_heads(heads))

    def __call__(self, x: Tensor) -> Tensor:
        """x: (batch, new, d_model). Returns: the same shape."""
        layer = self.layer
        x = layer.residual(x, self.attend_to_itself, layer.norm_1)
        x = layer.residual(x, self.attend_to_source, layer.norm_2)
        return layer.residual(x, layer.feed_forward, layer.norm_3)


def with_weights_of(layer: DecoderLayer, attention_class: type[nn.Module]) -> nn.Module:
    """An attention of this class with the weights of a layer's self-attention."""
    given = layer.self_attention
    attention = attention_class(given.w_q.in_features, given.num_heads).to(given.w_q.weight.device)
    for name in ("w_q", "w_k", "w_v", "w_o"):
        getattr(attention, name).load_state_dict(getattr(given, name).state_dict())
    return attention.eval().requires_grad_(False)


def past_mask(new: int, seen: int, device: torch.device) -> Tensor | None:
    """Which of `seen` positions the last `new` may see: (new, seen). None for a single one, which sees all."""
    if new == 1:
        return None
    return causal_mask(seen)[-new:].to(device)


def cached(model: Transformer, src_ids: Tensor, attention_class: type[nn.Module] | None = None) -> NextLogits:
    """`next_logits` of a Transformer that computes each position once. Each call must continue the one before.

    src_ids: (rows, source). For a model in evaluation mode: there is no dropout here. attention_class: one like
    `CachedAttention` that does the self-attention, with the model's weights; if there is none, a faster way is taken.
    """
    memory = model.encode(src_ids)
    memory_mask = model.source_mask(src_ids)
    layers = [CachedLayer(layer, memory, memory_mask, attention_class) for layer in decoder_layers(model)]
    done = torch.empty(len(src_ids), 0, dtype=torch.long)  # (rows, seen)

    def next_logits(ids: Tensor) -> Tensor:
        nonlocal done
        seen, length = done.shape[1], ids.shape[1]
        require_continuation(ids, done, len(model.positions.table))
        done = ids
        new = ids[:, seen:].to(src_ids.device)  # (rows, new)
        x = model.tgt_embedding(new)  # (rows, new, d_model)
        x = x + model.positions.table[seen:length]  # positions go on, they do not start again at 0
        for layer in layers:
            x = layer(x)
        x = model.decoder.norm(x[:, -1])  # (rows, d_model)
        return model.output(x).to(ids.device)  # (rows, vocab)

    return next_logits


def require_continuation(ids: Tensor, done: Tensor, max_len: int) -> None:
    """Raise unless `ids` is `done` with something added, and no longer than the table of positions."""
    seen, length = done.shape[1], ids.shape[1]
    if length <= seen or not torch.equal(ids[:, :seen], done.to(ids.device)):
        raise ValueError("A cache can only go on where it stopped: use `uncached` for prefixes that change.")
    if length > max_len:
        raise ValueError(f"The prefix has {length} positions, but the table only {max_len}: raise the model's max_len.")


@torch.no_grad()
def generate(
    model: Transformer, src_ids: Tensor, bos_id: int, eos_id: int, max_len: int, use_cache: bool = True
) -> Tensor:
    """Greedy translations of a batch. Returns: (batch, time), as `greedy_decode`."""
    model.eval()
    next_logits = cached(model, src_ids) if use_cache else uncached(model, src_ids)
    return greedy_decode(next_logits, len(src_ids), bos_id, eos_id, model.pad_id, max_len)


# --- what it costs, and what is remembered --------------------------------------------------------------


def count_scores(n: int, use_cache: bool) -> int:
    """How many attention scores q·k one head computes while it writes n tokens, one after the other.

    To write token t, the model has t positions in front of it: BOS and t - 1 tokens. Without a cache all t are computed
    again, and every position is scored against every position: t · t scores. With a cache only the last position is
    computed, and it is scored against all t.
    """
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total


def rnn_influence(n: int, a: float, b: float) -> Tensor:
    """How strongly each input is still felt in the last state of the recurrence h_t = a · h_(t-1) + b · x_t, h_0 = 0.

    Returns: (n,), entry t - 1 is dh_n / dx_t = a^(n - t) · b, for t = 1 … n.
    """
    age = n - torch.arange(1, n + 1)  # (n,): how many steps ago each input came
    kept = torch.tensor(a, dtype=torch.float64) ** age  # a share |a| < 1 is kept at every step
    return kept * b


# --- how good is it? ------------------------------------------------------------------------------------

Tokens = Sequence[Hashable]


def exact_match(hypotheses: Sequence[Tokens], references: Sequence[Tokens]) -> float:
    """The share of sentences that are right to the last token, between 0 and 1."""
    require_pairs(hypotheses, references)
    right = sum(list(hypothesis) == list(reference) for hypothesis, reference in zip(hypotheses, references))
    return right / len(references)


def bleu(hypotheses: Sequence[Tokens], references: Sequence[Tokens]) -> float:
    """Corpus BLEU, between 0 and 100: BP · (p_1 p_2 p_3 p_4)^¼, one reference per sentence, nothing smoothed.

    p_n is the share of all n-grams of all hypotheses that also occur in their references; an n-gram counts at most as
    often as the reference has it. BP = min(1, e^(1 - ratio)), where ratio is the number of tokens in all references
    divided by that in all hypotheses. 0 if some p_n is 0.
    """
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()  # & takes the smaller count of each
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


def ngrams(tokens: Tokens, n: int) -> Counter[tuple[Hashable, ...]]:
    """How often each run of n neighbouring tokens occurs."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def require_pairs(hypotheses: Sequence[Tokens], references: Sequence[Tokens]) -> None:
    """Raise unless there is one reference for each hypothesis, and at least one of them."""
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses, {len(references)} references: give equally many, at least 1.")
