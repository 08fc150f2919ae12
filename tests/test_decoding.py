"""Searching, sampling, caching and scoring of the reference."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.decoding import (
    CachedAttention,
    beam_search,
    bleu,
    cached,
    exact_match,
    generate,
    greedy_decode,
    sample,
    top_k_filter,
    top_p_filter,
    uncached,
)
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.transformer import Transformer

PAD, BOS, EOS, VOCAB = 0, 1, 2, 7


def table_model(seed: int):
    """A model that only looks at the last token and at how many there are."""
    logits = 2 * torch.randn(12, VOCAB, VOCAB, generator=torch.Generator().manual_seed(seed))
    logits[..., [PAD, BOS]] = -math.inf

    def next_logits(ids: Tensor) -> Tensor:
        return logits[ids.shape[1] - 1, ids[:, -1]]

    return next_logits


def log_probability(next_logits, ids: list[int]) -> float:
    prefix, total = [BOS], 0.0
    for token in ids:
        total += next_logits(torch.tensor([prefix])).log_softmax(dim=-1)[0, token].item()
        prefix.append(token)
    return total


# --- searching ------------------------------------------------------------------------------------------


def test_greedy_takes_the_best_and_stops_at_eos():
    follower = {4: 3, 3: EOS, 5: EOS, EOS: 6, PAD: 6}

    def next_logits(ids: Tensor) -> Tensor:
        if ids.shape[1] == 1:
            best = torch.tensor([4, 5])
        else:
            best = torch.tensor([follower[token] for token in ids[:, -1].tolist()])
        return F.one_hot(best, VOCAB).float()

    assert greedy_decode(next_logits, 2, BOS, EOS, PAD, max_len=9).tolist() == [[4, 3, EOS], [5, EOS, PAD]]
    assert greedy_decode(next_logits, 2, BOS, EOS, PAD, max_len=1).tolist() == [[4], [5]]


def test_beam_of_one_is_greedy():
    for seed in range(10):
        model = table_model(seed)
        greedy = greedy_decode(model, 1, BOS, EOS, PAD, max_len=8)[0].tolist()
        ids, score = beam_search(model, 1, BOS, EOS, max_len=8, alpha=0.0)
        assert ids == greedy and score == pytest.approx(log_probability(model, greedy), rel=1e-5)


def all_sentences(max_len: int):
    words = range(3, VOCAB)
    for length in range(1, max_len + 1):
        for start in itertools.product(words, repeat=length - 1):
            yield [*start, EOS]
    yield from map(list, itertools.product(words, repeat=max_len))


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_a_wide_beam_finds_the_best_of_all_sentences(alpha):
    for seed in range(3):
        model = table_model(seed)
        ids, score = beam_search(model, 2000, BOS, EOS, max_len=4, alpha=alpha)
        scores = {tuple(s): log_probability(model, s) / len(s) ** alpha for s in all_sentences(4)}
        assert score == pytest.approx(max(scores.values()), rel=1e-5)
        assert tuple(ids) == max(scores, key=scores.get)


def test_a_beam_is_no_worse_than_greedy_here():
    for seed in range(20):
        model = table_model(seed)
        greedy = greedy_decode(model, 1, BOS, EOS, PAD, max_len=8)[0].tolist()
        assert beam_search(model, 4, BOS, EOS, 8, 0.0)[1] >= log_probability(model, greedy) - 1e-5


def test_length_penalty_favours_longer_sentences():
    lengths = [len(beam_search(table_model(5), 6, BOS, EOS, 8, alpha)[0]) for alpha in (0.0, 1.0, 3.0)]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


# --- sampling -------------------------------------------------------------------------------------------


def test_top_k():
    logits = torch.tensor([[1.0, 3.0, -2.0, 2.0], [0.0, -1.0, 5.0, -3.0]])
    kept = top_k_filter(logits, 2)
    assert torch.equal(kept > -math.inf, torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]).bool())
    assert torch.equal(kept[kept > -math.inf], logits[kept > -math.inf])
    assert torch.equal(top_k_filter(logits, 9), logits)


def test_top_p():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25], [0.9, 0.04, 0.03, 0.03]]).log()
    assert torch.equal(top_p_filter(logits, 0.6) > -math.inf, torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0]]).bool())
    assert torch.equal(top_p_filter(logits, 0.01).isfinite().sum(dim=-1), torch.tensor([1, 1]))
    torch.testing.assert_close(top_p_filter(logits, 1.1), logits)


def test_sample_follows_the_distribution():
    logits = torch.tensor([2.0, 0.0, -1.0, 1.0])
    drawn = sample(logits.expand(20_000, 4), 2.0, torch.Generator().manual_seed(0))
    shares = drawn.bincount(minlength=4) / 20_000
    torch.testing.assert_close(shares, (logits / 2).softmax(dim=-1), atol=0.01, rtol=0)
    assert sample(logits.expand(5, 4), 0.0).tolist() == [0] * 5
    with pytest.raises(ValueError, match="0 or more"):
        sample(logits[None], -1.0)


# --- caching --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[7], [1] * 7, [2, 3, 2], [1, 5, 1]])
def test_cached_attention_in_pieces_is_causal_attention(pieces):
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3).double()
    in_pieces = CachedAttention(12, 3).double()
    in_pieces.load_state_dict(attention.state_dict())
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    expected, _ = attention(x, x, x, causal_mask(7))
    for _ in range(2):
        in_pieces.reset()
        torch.testing.assert_close(torch.cat([in_pieces(piece) for piece in x.split(pieces, dim=1)], dim=1), expected)


def make_model(norm_first: bool) -> Transformer:
    torch.manual_seed(4)
    model = Transformer(11, VOCAB, 12, 3, 20, 2, norm_first=norm_first, max_len=9)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.eval()


SRC = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [1, 2, 3, 4, 0]])


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
@torch.no_grad()
def test_cached_logits_are_the_uncached_ones(norm_first):
    model = make_model(norm_first)
    ids = torch.randint(3, VOCAB, (3, 8))
    with_cache, without = cached(model, SRC), uncached(model, SRC)
    for length in (2, 3, 6, 8):
        torch.testing.assert_close(with_cache(ids[:, :length]), without(ids[:, :length]))
    assert torch.equal(
        generate(model, SRC, BOS, EOS, 8, use_cache=True), generate(model, SRC, BOS, EOS, 8, use_cache=False)
    )


@torch.no_grad()
def test_a_batch_gives_what_each_sentence_gives_alone():
    model = make_model(True)
    together = generate(model, SRC, BOS, EOS, 8)
    alone = generate(model, SRC[1:2, :3], BOS, EOS, 8)[0]
    assert together[1, : len(alone)].tolist() == alone.tolist()
    assert not together[1, len(alone) :].any()


@torch.no_grad()
def test_beam_search_of_a_transformer():
    model = make_model(True)
    ids, score = beam_search(uncached(model, SRC[:1]), 3, BOS, EOS, 8, alpha=0.6)
    assert 0 < len(ids) <= 8 and score < 0


@torch.no_grad()
def test_a_cache_refuses_another_prefix_and_too_long_a_one():
    model = make_model(True)
    with_cache = cached(model, SRC)
    with_cache(torch.full((3, 2), 3))
    with pytest.raises(ValueError, match="where it stopped"):
        with_cache(torch.full((3, 3), 4))
    with pytest.raises(ValueError, match="raise the model's max_len"):
        cached(model, SRC)(torch.full((3, 10), 3))
    with pytest.raises(ValueError, match="nothing but padding"):
        generate(model, torch.zeros(1, 3, dtype=torch.long), BOS, EOS, 8)


# --- scoring --------------------------------------------------------------------------------------------


def test_exact_match():
    assert exact_match([["a", "b"], ("c",)], [("a", "b"), ["d"]]) == 0.5
    with pytest.raises(ValueError, match="at least one"):
        exact_match([], [])
    with pytest.raises(ValueError, match="2 hypotheses and 1 references"):
        bleu([["a"], ["b"]], [["a"]])


def test_bleu_by_hand():
    reference = ["the", "cat", "sat", "on", "the", "mat"]
    assert bleu([reference], [reference]) == pytest.approx(100)
    # 5/6 words, 3/5 pairs, 2/4 triples, 1/3 fours
    hypothesis = ["the", "cat", "sat", "on", "a", "mat"]
    assert bleu([hypothesis], [reference]) == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    # every n-gram is right, but one word is missing
    assert bleu([reference[:5]], [reference]) == pytest.approx(100 * math.exp(1 - 6 / 5))
    # "the" counts twice at most
    assert bleu([["the"] * 7], [reference]) == 0
    # counts are added over the corpus before they are divided
    both = bleu([hypothesis, reference], [reference, reference])
    assert both == pytest.approx(100 * (11 / 12 * 8 / 10 * 6 / 8 * 4 / 6) ** 0.25)
