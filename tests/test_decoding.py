"""The reference (searching, sampling, caching, scoring), the exercises' cases, and mistakes written differently."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.classroom.seed import PUBLIC
from autograder.hidden import all_hidden
from course_lib.checking.grading import grade
from course_lib.checking.inputs import NextTokenTable
from course_lib.checking.subject import Subject
from course_lib.decoding import (
    CachedAttention,
    beam_search,
    bleu,
    cached,
    count_scores,
    exact_match,
    generate,
    greedy_decode,
    rnn_influence,
    sample,
    top_k_filter,
    top_p_filter,
    uncached,
)
from course_lib.exercises import all_exercises
from course_lib.exercises import decoding as exercises
from course_lib.exercises.decoding.beam_search import toy_model
from course_lib.exercises.decoding.shared import random_model
from course_lib.masks import causal_mask
from course_lib.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
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
    drawn = sample(logits.expand(20_000, 4), 2.0, torch.rand(20_000, generator=torch.Generator().manual_seed(0)))
    shares = drawn.bincount(minlength=4) / 20_000
    torch.testing.assert_close(shares, (logits / 2).softmax(dim=-1), atol=0.01, rtol=0)
    assert sample(logits.expand(5, 4), 0.0, torch.rand(5)).tolist() == [0] * 5
    with pytest.raises(ValueError, match="0 or more"):
        sample(logits[None], -1.0, torch.zeros(1))


# --- caching --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[7], [1] * 7, [2, 3, 2], [1, 5, 1]])
def test_cached_attention_in_pieces_is_causal_attention(pieces):
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3).double()
    in_pieces = CachedAttention(12, 3).double()
    in_pieces.load_state_dict(attention.state_dict())
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    expected, _ = attention(x, x, x, causal_mask(7))
    cache, outputs = None, []
    for piece in x.split(pieces, dim=1):
        output, cache = in_pieces(piece, cache)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected)
    assert [tuple(part.shape) for part in cache] == [(2, 3, 7, 4)] * 2


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
def test_a_cached_attention_of_ones_own_drives_a_transformer():
    model = make_model(True)
    ids = torch.randint(3, VOCAB, (3, 8))
    calls = []

    class Own(CachedAttention):
        def forward(self, x, cache=None):
            calls.append(x.shape[1])
            return super().forward(x, cache)

    own, without = cached(model, SRC, Own), uncached(model, SRC)
    for length in (2, 3, 6, 8):
        torch.testing.assert_close(own(ids[:, :length]), without(ids[:, :length]))
    assert sorted(set(calls)) == [1, 2, 3]


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
    with pytest.raises(ValueError, match="at least 1"):
        exact_match([], [])
    with pytest.raises(ValueError, match="2 hypotheses, 1 references"):
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


# --- the exercises -----------------------------------------------------------------------------------


def report(name, answer):
    return grade(all_exercises()[name], Subject(answer))


def named(name, answer):
    return report(name, answer).misconception


def test_greedy_takes_0_20_and_beam_2_finds_0_36():
    model = toy_model()
    assert greedy_decode(model, 1, bos_id=0, eos_id=1, pad_id=0, max_len=5).tolist() == [[2, 4, 1]]
    for beam_size, ids, probability in ((1, [2, 4, 1], 0.2), (2, [3, 5, 1], 0.36), (3, [3, 5, 1], 0.36)):
        found, score = beam_search(model, beam_size, bos_id=0, eos_id=1, max_len=5, alpha=0.0)
        assert found == ids
        assert math.exp(score) == pytest.approx(probability)


def test_greedy_rows_do_not_touch_each_other():
    case = exercises.greedy.cases[1]
    together = greedy_decode(*case.values())
    model = case["next_logits"]
    for row in range(case["rows"]):
        alone = NextTokenTable(model.start[row : row + 1], model.table)
        ids = greedy_decode(alone, 1, case["bos_id"], case["eos_id"], case["pad_id"], case["max_len"])
        real = together[row][together[row] != case["pad_id"]]
        assert ids[0].tolist() == real.tolist()


def every_case(name):
    return [*all_exercises()[name].cases, *all_hidden()[name].cases(PUBLIC)]


def test_greedy_cases_end_at_different_times():
    """One case at least in which a row ends early, one in which a row never ends."""
    widths = []
    for case in exercises.greedy.cases:
        ids = greedy_decode(*case.values())
        ends = (ids == case["eos_id"]).any(dim=1)
        widths.append((ids.shape[1] == case["max_len"], bool(ends.all()), bool((ids == case["pad_id"]).any())))
    assert any(padded for _, _, padded in widths) and any(not all_end for _, all_end, _ in widths)
    assert any(all_end and not full for full, all_end, _ in widths)


def test_no_case_is_decided_by_rounding():
    """A model in single precision, and one that is a little off, give the same sentences."""
    for case in (*every_case("greedy_decode"), *every_case("beam_search")):
        model = case["next_logits"]
        search = greedy_decode if "rows" in case else beam_search
        want = search(*case.values())
        for factor in (1.0, 1 + 1e-5):
            rounded = NextTokenTable(model.start.float() * factor, model.table.float() * factor)
            got = search(*{**case, "next_logits": rounded}.values())
            assert torch.equal(got, want) if "rows" in case else got[0] == want[0]


def test_a_table_model_explains_wrong_input():
    model = random_model(5, 3, seed=0)
    with pytest.raises(ValueError, match=r"\(rows, time\)"):
        model(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="3 sentences"):
        model(torch.tensor([[1], [2]]))


def test_sample_by_hand():
    logits = torch.tensor([0.1, 0.45, 0.15, 0.3]).log().expand(6, -1)
    u = torch.tensor([0.0, 0.09, 0.11, 0.54, 0.56, 0.99])
    assert sample(logits, 1.0, u).tolist() == [0, 0, 1, 1, 2, 3]
    assert sample(logits, 0.0, u).tolist() == [1] * 6


def test_sample_never_leaves_the_vocabulary():
    logits = torch.zeros(1000, 7)
    u = torch.full((1000,), 1 - 2**-24)  # the largest float below 1
    assert int(sample(logits, 1.0, u).max()) == 6


def test_draws_of_the_cases_are_far_from_the_borders():
    """Rounding in float32 must not decide which token is drawn."""
    even = (torch.arange(200).double() + 0.5) / 200
    for case in every_case("sample"):
        logits, temperature, u = case.values()
        for T in (1.0, temperature):
            ends = (logits / T).softmax(dim=-1).cumsum(dim=-1)[:, :-1]
            assert (ends - u[:, None]).abs().min() > 1e-4
        ends = (logits[:1] / temperature).softmax(dim=-1).cumsum(dim=-1)[0, :-1]
        assert (ends[:, None] - even).abs().min() > 1e-6


def test_top_k_and_top_p_by_hand():
    probabilities = torch.tensor([0.1, 0.45, 0.15, 0.3])
    assert top_k_filter(probabilities.log(), 3).isfinite().tolist() == [False, True, True, True]
    assert top_p_filter(probabilities.log(), 0.7).isfinite().tolist() == [False, True, False, True]
    assert top_p_filter(probabilities.log(), 0.8).isfinite().tolist() == [False, True, True, True]
    assert top_p_filter(probabilities.log(), 0.1).isfinite().tolist() == [False, True, False, False]
    assert torch.equal(top_k_filter(probabilities, 9), probabilities)


def test_filters_of_the_cases_are_clear_cut():
    for case in every_case("top_k_filter"):
        assert case["logits"].sort(dim=-1).values.diff(dim=-1).min() > 5e-4
    for case in every_case("top_p_filter"):
        falling = case["logits"].softmax(dim=-1).sort(dim=-1, descending=True).values
        assert (falling.cumsum(dim=-1) - case["p"]).abs().min() > 1e-4


def test_scores_for_64_tokens():
    assert count_scores(64, use_cache=False) == 89_440
    assert count_scores(64, use_cache=True) == 2_080


def test_influence_is_the_gradient_of_the_recurrence():
    x = torch.randn(9, dtype=torch.float64, requires_grad=True)
    h = torch.zeros((), dtype=torch.float64)
    for value in x:
        h = -0.7 * h + 1.3 * value
    (slope,) = torch.autograd.grad(h, x)
    assert torch.allclose(rnn_influence(9, -0.7, 1.3), slope)
    assert rnn_influence(3, 0.5, 2.0).tolist() == [0.5, 1.0, 2.0]


# --- mistakes, written otherwise ------------------------------------------------------------------------


def test_greedy_in_a_list_that_never_stops():
    def answer(next_logits, rows, bos_id, eos_id, pad_id, max_len):
        prefixes = [[bos_id] for _ in range(rows)]
        for _ in range(max_len):
            for row, token in enumerate(next_logits(torch.tensor(prefixes)).argmax(dim=1).tolist()):
                prefixes[row].append(token)
        return torch.tensor(prefixes)[:, 1:]

    assert named("greedy_decode", answer) == "never_looks_for_eos"


def test_greedy_that_keeps_bos_and_repeats_eos():
    def answer(next_logits, rows, bos_id, eos_id, pad_id, max_len):
        ids = torch.full([rows, 1], bos_id)
        done = torch.zeros(rows).bool()
        steps = 0
        while steps < max_len and not done.all():
            token = next_logits(ids).max(dim=1)[1]
            token[done] = eos_id
            done = done | (token == eos_id)
            ids = torch.hstack([ids, token.unsqueeze(1)])
            steps += 1
        return ids

    assert named("greedy_decode", answer) == "both#repeats_eos&returns_bos"


def beam_with(score, step=lambda logits: logits.log_softmax(dim=1), keep=lambda ids, eos_id: ids):
    """A beam search with lists. `score` of a total and a length, `step` from logits to summands, `keep` of the ids."""

    def answer(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
        alive, finished = [((), 0.0)], []
        for length in range(1, max_len + 1):
            children = []
            for ids, total in alive:
                values = step(next_logits(torch.tensor([[bos_id, *ids]])))[0].tolist()
                children += [((*ids, token), total + value) for token, value in enumerate(values)]
            children = sorted(children, key=lambda child: -child[1])[:beam_size]
            finished += [c for c in children if c[0][-1] == eos_id or length == max_len]
            alive = [c for c in children if c not in finished]
            if not alive:
                break
        best, ids = max((score(total, len(ids), alpha), ids) for ids, total in finished)
        return keep(list(ids), eos_id), best

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (beam_with(lambda total, n, alpha: total * n**alpha), "multiplies_by_the_length"),
        (beam_with(lambda total, n, alpha: total / (n + 1) ** alpha), "counts_bos_in_the_length"),
        (beam_with(lambda total, n, alpha: total), "ignores_alpha"),
        (beam_with(lambda total, n, alpha: total / n**alpha, step=lambda x: x.softmax(dim=1)), "adds_probabilities"),
        (
            beam_with(lambda total, n, alpha: total, step=lambda logits: logits),
            "adds_raw_logits + ignores_alpha",
        ),
        (
            beam_with(
                lambda total, n, alpha: total / (n + 1) ** alpha, keep=lambda ids, eos: [t for t in ids if t != eos]
            ),
            "counts_bos_in_the_length + cuts_eos_off",
        ),
    ],
)
def test_beam_searches_in_lists_are_understood(answer, mistake):
    assert report("beam_search", beam_with(lambda total, n, alpha: total / n**alpha)).passed
    assert named("beam_search", answer) == mistake


def test_sampling_with_two_mistakes():
    def answer(logits, temperature, u):
        if temperature == 0:
            return logits.argmax(-1)
        ends = torch.softmax(logits * temperature, dim=-1).cumsum(-1)
        return torch.searchsorted(ends, u[:, None]).squeeze(-1)  # not right=True

    assert named("sample", answer) == "multiplies_by_the_temperature + draws_the_impossible"


def test_top_k_with_a_tiny_positive_fill():
    def answer(logits, k):
        result = torch.full_like(logits, 1e-10)
        values, places = logits.topk(min(k, logits.shape[-1]))
        return result.scatter(-1, places, values)

    assert named("top_k_filter", answer) == "fills_with_zero"


def test_top_p_with_the_usual_forgotten_shift():
    def answer(logits, p):
        ordered, places = torch.sort(logits, descending=True)
        remove = ordered.softmax(-1).cumsum(-1) > p
        return logits.masked_fill(torch.zeros_like(remove).scatter(-1, places, remove), float("-inf"))

    assert named("top_p_filter", answer) == "drops_the_token_that_crosses"


def test_a_cache_in_a_class_attribute():
    class Answer(nn.Module):
        store = None

        def __init__(self, d_model, num_heads):
            super().__init__()
            Answer.store = None
            self.h = num_heads
            self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

        def forward(self, x, cache=None):
            q, k, v = (split_heads(w(x), self.h) for w in (self.w_q, self.w_k, self.w_v))
            if Answer.store is not None:
                k, v = torch.cat([Answer.store[0], k], dim=2), torch.cat([Answer.store[1], v], dim=2)
            Answer.store = (k, v)
            mask = torch.ones(q.shape[2], k.shape[2]).bool().tril(k.shape[2] - q.shape[2])
            return self.w_o(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))), (k, v)

    assert named("CachedAttention", Answer) == "never_begins_anew"


def test_a_cache_with_is_causal():
    """torch's own flag puts the triangle at the first key."""

    class Answer(CachedAttention):
        def forward(self, x, cache=None):
            q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
            if cache is not None:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.w_o(merge_heads(y)), (k, v)

    assert named("CachedAttention", Answer) == "mask_begins_at_the_first_key"


def test_a_cache_with_two_mistakes():
    class Answer(CachedAttention):
        def forward(self, x, cache=None):
            q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
            if cache is not None:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            mask = torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return merge_heads(y), (k, v)

    assert named("CachedAttention", Answer) == "both#mask_begins_at_the_first_key&forgets_the_last_projection"


def test_bleu_with_two_mistakes():
    def answer(hypotheses, references):
        product = 1.0
        for n in range(1, 5):
            right = total = 0
            for h, r in zip(hypotheses, references, strict=True):
                grams = [tuple(h[i : i + n]) for i in range(len(h) - n + 1)]
                known = {tuple(r[i : i + n]) for i in range(len(r) - n + 1)}
                right += sum(gram in known for gram in grams)
                total += len(grams)
            product *= right / total if total else 0.0
        return 100 * product**0.25

    assert named("bleu", answer) == "counts_repetitions + no_brevity_penalty"


def test_a_removed_logit_of_minus_1e9_hides_no_mistake():
    def answer(logits, k):
        limit = logits.topk(min(k, logits.shape[-1])).values[..., :1]
        return torch.where(logits < limit, -1e9, logits)

    assert named("top_k_filter", answer) == "compares_with_the_largest"


def test_a_cache_that_is_packed_otherwise_hides_no_mistake():
    """Keys and values unsplit, in a dictionary, and the triangle in the wrong place."""

    class Answer(CachedAttention):
        def forward(self, x, cache=None):
            now = {"k": self.w_k(x), "v": self.w_v(x)}
            if cache is not None:
                now = {name: torch.cat([cache[name], now[name]], dim=1) for name in now}
            q, k, v = (split_heads(part, self.num_heads) for part in (self.w_q(x), now["k"], now["v"]))
            mask = torch.ones(q.shape[2], k.shape[2]).tril().bool()
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self.w_o(merge_heads(y)), now

    assert named("CachedAttention", Answer) == "mask_begins_at_the_first_key"


def test_a_cache_of_lists_that_grows_in_place():
    class Answer(CachedAttention):
        def forward(self, x, cache=None):
            cache = cache or {"k": [], "v": []}
            cache["k"].append(split_heads(self.w_k(x), self.num_heads))
            cache["v"].append(split_heads(self.w_v(x), self.num_heads))
            k, v = (torch.cat(parts, dim=2) for parts in cache.values())
            mask = torch.ones(x.shape[1], k.shape[2]).tril(k.shape[2] - x.shape[1]).bool()
            y = F.scaled_dot_product_attention(split_heads(self.w_q(x), self.num_heads), k, v, attn_mask=mask)
            return self.w_o(merge_heads(y)), cache

    assert named("CachedAttention", Answer) == "writes_into_the_old_cache"


# --- what is said is true of the answer -------------------------------------------------------------------


def top_k_thrown_away(logits, k):
    limit = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    logits.masked_fill(logits < limit, -math.inf)
    return logits


def top_p_thrown_away(logits, p):
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    falling.masked_fill(probabilities.cumsum(dim=-1) - probabilities >= p, -math.inf)
    return torch.empty_like(logits).scatter(-1, order, falling)


def sample_the_wrong_way_round(logits, temperature, u):
    if temperature == 0:
        return logits.argmax(dim=-1)
    ends = (logits / temperature).softmax(dim=-1).cumsum(dim=-1)
    return (ends > u[:, None]).sum(dim=-1)


def sample_without_the_maximum(logits, temperature, u):
    if temperature == 0:
        return logits.argmax(dim=-1)
    weights = torch.exp(logits / temperature)
    return (weights.cumsum(dim=-1) / weights.sum(dim=-1, keepdim=True) <= u[:, None]).sum(dim=-1)


def scores_as_queries(n, use_cache):
    return sum(1 if use_cache else t for t in range(1, n + 1))


def greedy_that_runs_on(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    ids = torch.full((rows, max_len + 1), pad_id)
    ids[:, 0] = bos_id
    for t in range(max_len):
        over = (ids[:, 1 : t + 1] == eos_id).any(dim=1)
        ids[:, t + 1] = next_logits(ids[:, : t + 1]).argmax(dim=-1).masked_fill(over, pad_id)
    return ids[:, 1:]


def greedy_that_stops_at_padding(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    ids = torch.full((rows, 1), bos_id)
    for _ in range(max_len):
        over = (ids[:, -1] == eos_id) | (ids[:, -1] == pad_id)
        if over.all():
            break
        ids = torch.cat([ids, next_logits(ids).argmax(dim=-1).masked_fill(over, pad_id)[:, None]], dim=1)
    return ids[:, 1:]


def beam_that_never_prunes(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    alive, finished = [([], 0.0)], []
    for _ in range(max_len):
        children = []
        for ids, total in alive:
            values, tokens = next_logits(torch.tensor([[bos_id, *ids]])).log_softmax(-1)[0].topk(beam_size)
            children += [([*ids, t], total + value) for t, value in zip(tokens.tolist(), values.tolist(), strict=True)]
        alive = [child for child in children if child[0][-1] != eos_id]
        finished += [child for child in children if child[0][-1] == eos_id]
    score, ids = max((total / len(ids) ** alpha, ids) for ids, total in finished + alive)
    return ids, score


def beam_that_sets_every_ending_aside(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    beam, finished = [(0.0, [bos_id])], []
    for _ in range(max_len):
        rows = next_logits(torch.tensor([prefix for _, prefix in beam])).log_softmax(dim=-1).tolist()
        longer = [(total + row[t], [*prefix, t]) for (total, prefix), row in zip(beam, rows) for t in range(len(row))]
        longer = [candidate for candidate in longer if candidate[0] > -math.inf]
        finished += [candidate for candidate in longer if candidate[1][-1] == eos_id]
        beam = sorted((c for c in longer if c[1][-1] != eos_id), reverse=True)[:beam_size]
        if not beam:
            break
    score, ids = max((total / (len(prefix) - 1) ** alpha, prefix[1:]) for total, prefix in finished + beam)
    return ids, score


def sample_at_one_temperature(logits, temperature, u):
    return (logits.softmax(-1).cumsum(-1) <= u[:, None]).sum(-1)


class AttentionOverTheBatch(CachedAttention):
    def forward(self, x, cache=None):
        output, cache = super().forward(x.transpose(0, 1), cache)
        return output.transpose(0, 1), cache


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistake"),
    [
        ("beam_search", beam_that_sets_every_ending_aside, "sets_every_ending_aside"),
        ("sample", sample_at_one_temperature, "ignores_the_temperature_at_zero_too"),
        ("CachedAttention", AttentionOverTheBatch, "attends_across_the_batch"),
        ("count_scores", lambda n, use_cache: n * (n + 1) // (1 + use_cache), "adds_without_a_cache"),
        ("top_k_filter", top_k_thrown_away, "removes_nothing"),
        ("top_p_filter", top_p_thrown_away, "removes_nothing"),
        ("sample", sample_the_wrong_way_round, "counts_what_lies_behind"),
        ("sample", sample_without_the_maximum, "exponentials_of_the_scores_as_they_are"),
        ("count_scores", scores_as_queries, "counts_the_queries"),
        ("greedy_decode", greedy_that_runs_on, "runs_on_to_max_len"),
        ("greedy_decode", greedy_that_stops_at_padding, "stops_at_padding"),
        ("beam_search", beam_that_never_prunes, "never_prunes_across_prefixes"),
    ],
)
def test_what_was_done_is_named(exercise, wrong, mistake):
    assert named(exercise, wrong) == mistake


def test_logits_that_stay_sorted_are_not_said_to_be_as_they_came_in():
    def sorted_and_thrown_away(logits, p):
        falling, _ = logits.sort(-1, descending=True)
        falling.masked_fill(falling.softmax(-1).cumsum(-1) > p, -math.inf)
        return falling

    seen = report("top_p_filter", sorted_and_thrown_away)
    assert seen.misconception == "stays_sorted + removes_nothing"
    assert "as they came in" not in seen.diagnosis.sentence


class AttentionByHand(CachedAttention):
    """Exponentials of the scores as they are."""

    def forward(self, x, cache=None):
        q, k, v = (split_heads(layer(x), self.num_heads) for layer in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = scores.exp() * torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2])
        return self.w_o(merge_heads(weights / weights.sum(-1, keepdim=True) @ v)), (k, v)


def test_a_cache_without_the_maximum_is_refused():
    seen = report("CachedAttention", AttentionByHand)
    assert not seen.passed and seen.misconception in ("exponentials_overflow", None)


class CacheOfAnotherLayout(CachedAttention):
    """Keys and values as (batch, seen, head, d_k)."""

    def forward(self, x, cache=None):
        output, (k, v) = super().forward(x, None if cache is None else tuple(part.transpose(1, 2) for part in cache))
        return output, (k.transpose(1, 2), v.transpose(1, 2))


class CacheInADictionary(CachedAttention):
    def forward(self, x, cache=None):
        output, (k, v) = super().forward(x, None if cache is None else (cache["k"], cache["v"]))
        return output, {"k": k, "v": v}


@pytest.mark.parametrize("answer", [CacheOfAnotherLayout, CacheInADictionary])
def test_the_cache_has_the_layout_of_the_notebook(answer):
    seen = report("CachedAttention", answer)
    assert seen.outcome == "wrong" and seen.misconception is None
    assert "(batch, head, seen, d_k)" in next(result.message for result in seen.checks if result.passed is False)


def test_returned_probabilities_are_called_probabilities():
    seen = report("top_p_filter", lambda logits, p: logits.softmax(dim=-1))
    assert seen.misconception == "is_nothing_but_a_softmax"
    assert "these are probabilities" in next(result.message for result in seen.checks if result.passed is False)


@pytest.mark.parametrize(
    ("exercise", "nonsense"),
    [
        ("top_p_filter", lambda logits, p: logits.clone()),
        ("top_p_filter", lambda logits, p: torch.zeros_like(logits)),
        ("rnn_influence", lambda n, a, b: torch.full((n,), b)),
        ("rnn_influence", lambda n, a, b: torch.zeros(n)),
        ("sample", lambda logits, temperature, u: logits.argmax(dim=-1)),
        ("bleu", lambda hypotheses, references: 100.0 * (hypotheses == references)),
    ],
)
def test_nonsense_earns_at_most_a_quarter(exercise, nonsense):
    seen = report(exercise, nonsense)
    assert seen.points <= seen.max_points / 4


def test_counts_are_asked_of_the_case_itself():
    seen = report("count_scores", lambda n, use_cache: 1)
    message = next(result.message for result in seen.checks if result.passed is False)
    assert "On the input n = 2, use_cache = True" in message and "for n = 2 with a cache" in message


class CacheWithDropout(CachedAttention):
    def forward(self, x, cache=None):
        output, cache = super().forward(x, cache)
        return F.dropout(output, 0.1, self.training), cache


class CacheOfDetachedInputs(CachedAttention):
    def forward(self, x, cache=None):
        return super().forward(x.data, cache)


def test_a_cache_is_asked_in_training_mode_and_for_gradients():
    assert not report("CachedAttention", CacheWithDropout).passed
    assert named("CachedAttention", CacheOfDetachedInputs) == "cuts_the_input_off"


class DetachesItsCache(CachedAttention):
    def forward(self, x, cache=None):
        output, (keys, values) = super().forward(x, cache)
        return output, (keys.detach(), values.detach())


class DetachesTheOldCache(CachedAttention):
    def forward(self, x, cache=None):
        return super().forward(x, cache and tuple(part.detach() for part in cache))


@pytest.mark.parametrize("wrong", [DetachesItsCache, DetachesTheOldCache])
def test_gradients_flow_through_the_cache(wrong):
    (said,) = (result.message for result in report("CachedAttention", wrong).checks if result.passed is False)
    assert "No gradient flows through the cache" in said


class DetachesTheOldValues(CachedAttention):
    def forward(self, x, cache=None):
        return super().forward(x, cache and (cache[0], cache[1].detach()))


def test_it_is_told_whether_keys_or_values_are_cut_off():
    told = str(report("CachedAttention", DetachesTheOldValues))
    assert "where `v` is computed" in told and "where `k` is computed" not in told
    assert named("CachedAttention", DetachesTheOldCache) == "cuts_off_the_old_pieces"
    assert named("CachedAttention", DetachesItsCache) == "stores_cut_off_tensors"


def test_a_wrong_influence_is_named_in_single_precision_too():
    assert named("rnn_influence", lambda n, a, b: torch.tensor([a ** (n - t) for t in range(1, n + 1)])) == "forgets_b"
