"""Decoding: the numbers of the notebook, parity of cached and uncached, bad input, and mistakes written otherwise."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from autograder.hidden import all_hidden
from course_lib import decoding
from course_lib.checking.grading import grade
from course_lib.checking.inputs import NextTokenTable
from course_lib.checking.subject import Subject
from course_lib.decoding import (
    beam_search,
    bleu,
    cached,
    count_scores,
    exact_match,
    generate,
    greedy_decode,
    ngrams,
    rnn_influence,
    sample,
    top_k_filter,
    top_p_filter,
    uncached,
)
from course_lib.exercises import all_exercises
from course_lib.exercises import decoding as exercises
from course_lib.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from course_lib.transformer import Transformer


def report(name, answer):
    return grade(all_exercises()[name], Subject(answer))


def named(name, answer):
    return report(name, answer).misconception


# --- searching ------------------------------------------------------------------------------------------


def test_greedy_takes_0_20_and_beam_2_finds_0_36():
    model = exercises.toy_model()
    assert greedy_decode(model, 1, bos_id=0, eos_id=1, pad_id=0, max_len=5).tolist() == [[2, 4, 1]]
    for beam_size, ids, probability in ((1, [2, 4, 1], 0.2), (2, [3, 5, 1], 0.36), (3, [3, 5, 1], 0.36)):
        found, score = beam_search(model, beam_size, bos_id=0, eos_id=1, max_len=5, alpha=0.0)
        assert found == ids
        assert math.exp(score) == pytest.approx(probability)


def test_a_wide_beam_is_an_exhaustive_search():
    case = exercises.beam_case(4, 4**4, bos_id=0, eos_id=1, max_len=4, alpha=0.8, seed=7)
    model = case["next_logits"]
    sentences = [[]]
    finished = []
    for _ in range(4):
        longer = [[*ids, token] for ids in sentences for token in range(4)]
        finished += [ids for ids in longer if ids[-1] == 1 or len(ids) == 4]
        sentences = [ids for ids in longer if ids[-1] != 1]
    best = max(finished, key=lambda ids: exercises.log_probability(model, 0, ids) / len(ids) ** 0.8)
    ids, score = beam_search(**case)
    assert ids == best
    assert score == pytest.approx(exercises.log_probability(model, 0, ids) / len(ids) ** 0.8)


def test_beam_of_one_is_greedy():
    for seed in range(5):
        case = exercises.beam_case(6, 1, bos_id=0, eos_id=2, max_len=6, alpha=1.0, seed=seed)
        greedy = greedy_decode(case["next_logits"], 1, bos_id=0, eos_id=2, pad_id=0, max_len=6)
        assert beam_search(**case)[0] == greedy[0].tolist()


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
    return [*all_exercises()[name].cases, *all_hidden()[name].cases]


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
    model = exercises.random_model(5, 3, seed=0)
    with pytest.raises(ValueError, match=r"\(rows, time\)"):
        model(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="3 sentences"):
        model(torch.tensor([[1], [2]]))


# --- drawing lots ---------------------------------------------------------------------------------------


def test_sample_by_hand():
    logits = torch.tensor([0.1, 0.45, 0.15, 0.3]).log().expand(6, -1)
    u = torch.tensor([0.0, 0.09, 0.11, 0.54, 0.56, 0.99])
    assert sample(logits, 1.0, u).tolist() == [0, 0, 1, 1, 2, 3]
    assert sample(logits, 0.0, u).tolist() == [1] * 6


def test_sample_draws_as_often_as_the_probabilities_say():
    torch.manual_seed(0)
    logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])
    shares = sample(logits.expand(20_000, -1), 0.7, torch.rand(20_000)).bincount(minlength=5) / 20_000
    assert torch.allclose(shares, (logits / 0.7).softmax(dim=-1), atol=0.015)


def test_sample_never_leaves_the_vocabulary():
    logits = torch.zeros(1000, 7)
    u = torch.full((1000,), 1 - 2**-24)  # the largest float below 1
    assert int(sample(logits, 1.0, u).max()) == 6


def test_sample_refuses_a_negative_temperature():
    with pytest.raises(ValueError, match="0 or more"):
        sample(torch.zeros(1, 2), -1.0, torch.zeros(1))


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


# --- the cache ------------------------------------------------------------------------------------------


def small_model(**options):
    torch.manual_seed(0)
    return Transformer(20, 23, d_model=16, num_heads=4, d_ff=32, num_layers=2, max_len=24, **options).eval()


@pytest.mark.parametrize("norm_first", [True, False])
def test_cached_and_uncached_agree(norm_first):
    model = small_model(norm_first=norm_first)
    source = torch.tensor([[4, 7, 5, 9, 2], [6, 8, 2, 0, 0], [3, 2, 0, 0, 0]])
    ids = torch.randint(3, 23, (3, 9))
    ids[:, 0] = 1
    slow, fast = uncached(model, source), cached(model, source)
    with torch.no_grad():
        for length in (2, 3, 6, 9):  # pieces of 2, 1, 3 and 3
            assert torch.allclose(slow(ids[:, :length]), fast(ids[:, :length]), atol=1e-5)


def test_generate_with_and_without_a_cache():
    model = small_model()
    source = torch.tensor([[4, 7, 5, 9, 2], [6, 8, 2, 0, 0]])
    both = [generate(model, source, 1, 2, max_len=12, use_cache=use_cache) for use_cache in (True, False)]
    assert torch.equal(*both) and both[0].shape[1] <= 12


def test_a_cache_refuses_another_prefix_and_a_prefix_that_is_too_long():
    model = small_model()
    next_logits = cached(model, torch.tensor([[4, 7, 2]]))
    next_logits(torch.tensor([[1, 5]]))
    with pytest.raises(ValueError, match="where it stopped"):
        next_logits(torch.tensor([[1, 6, 7]]))
    with pytest.raises(ValueError, match="where it stopped"):
        next_logits(torch.tensor([[1, 5]]))
    with pytest.raises(ValueError, match="raise the model's max_len"):
        next_logits(torch.cat([torch.tensor([[1, 5]]), torch.full((1, 30), 4)], dim=1))


def test_cached_attention_is_causal_multi_head_attention():
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3)
    one = decoding.cached_attention(attention)
    x = torch.randn(2, 7, 12)
    want, _ = attention(x, x, x, torch.ones(7, 7).tril().bool())
    cache, outputs = None, []
    for piece in x.split([2, 3, 2], dim=1):
        output, cache = one(piece, cache)
        outputs.append(output)
    assert torch.allclose(torch.cat(outputs, dim=1), want, atol=1e-6)
    assert [tuple(part.shape) for part in cache] == [(2, 3, 7, 4)] * 2


# --- costs and forgetting -------------------------------------------------------------------------------


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


# --- how good is it? ------------------------------------------------------------------------------------


def test_bleu_by_hand():
    reference = ["le", "petit", "chat", "voit", "le", "chien"]
    assert bleu([reference], [reference]) == pytest.approx(100)
    # 5/5, 4/4, 3/3, 2/2, and one word too short: e^(1 - 6/5)
    assert bleu([reference[:5]], [reference]) == pytest.approx(100 * math.exp(-0.2))
    # 6/7, 5/6, 4/5, 3/4, and long enough: the product telescopes to 3/7
    assert bleu([[*reference, "noir"]], [reference]) == pytest.approx(100 * (3 / 7) ** 0.25)
    assert bleu([["le"] * 6], [reference]) == 0.0
    assert bleu([[]], [reference]) == 0.0
    assert ngrams(["le", "chat", "voit", "le", "le"], 1)[("le",)] == 3


def test_exact_match():
    assert exact_match([["a", "b"], ("c",)], [["a", "b"], ["d"]]) == 0.5
    for measure in (exact_match, bleu):
        with pytest.raises(ValueError, match="as many"):
            measure([["a"]], [])


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

    assert named("greedy_decode", answer) == "repeats_eos + returns_bos"


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

    class Answer(decoding.CachedAttention):
        def forward(self, x, cache=None):
            q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
            if cache is not None:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.w_o(merge_heads(y)), (k, v)

    assert named("CachedAttention", Answer) == "mask_begins_at_the_first_key"


def test_a_cache_with_two_mistakes():
    class Answer(decoding.CachedAttention):
        def forward(self, x, cache=None):
            q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
            if cache is not None:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            mask = torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return merge_heads(y), (k, v)

    assert named("CachedAttention", Answer) == "mask_begins_at_the_first_key + forgets_the_last_projection"


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
