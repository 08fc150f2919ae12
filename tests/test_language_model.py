"""The reference (counting, measuring, the model, pieces, writing, scaling), and answers as people write them."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.checking.grading import grade
from course_lib.checking.inputs import CausalTable
from course_lib.checking.subject import Subject
from course_lib.decoding import sample, top_k_filter
from course_lib.encoder_decoder import EncoderLayer
from course_lib.exercises import all_exercises
from course_lib.language_model import (
    GPT,
    DecoderBlock,
    bits_per_character,
    bpe_decode,
    bpe_encode,
    fit_power_law,
    generate,
    merge_pair,
    ngram_model,
    text_windows,
    train_bpe,
)
from course_lib.masks import causal_mask
from course_lib.positions import apply_rope
from course_lib.sublayers import LayerNorm

TEXT = "the cat sat on the mat, the rat sat on the cat; naïve 😀 €5"


def report(exercise: str, answer):
    found = all_exercises()[exercise]
    return grade(found, Subject(answer))


def said(seen) -> str:
    return next(result.message for result in seen.checks if result.passed is False)


# --- counting and measuring -------------------------------------------------------------------------------


def test_a_bigram_model_by_hand():
    """In 0 1 2 0 1 1, token 0 is followed by 1 twice: (2 + ½) / (2 + 3 · ½)."""
    table = ngram_model(torch.tensor([0, 1, 2, 0, 1, 1]), 2, vocab_size=3, smoothing=0.5)
    assert table[0].tolist() == pytest.approx([0.5 / 3.5, 2.5 / 3.5, 0.5 / 3.5])
    assert table[2].tolist() == pytest.approx([1.5 / 2.5, 0.5 / 2.5, 0.5 / 2.5])


def test_a_unigram_model_is_the_share_of_each_token():
    table = ngram_model(torch.tensor([2, 0, 2, 2]), 1, vocab_size=3, smoothing=1e-9)
    assert table.tolist() == pytest.approx([0.25, 0.0, 0.75], abs=1e-6)


def test_every_context_has_a_distribution():
    ids = torch.randint(0, 5, (200,), generator=torch.Generator().manual_seed(0))
    table = ngram_model(ids, 3, vocab_size=5, smoothing=0.1)
    assert table.shape == (5, 5, 5) and torch.allclose(table.sum(dim=-1), torch.ones(5, 5))


def test_bits_of_a_fair_coin_and_of_a_pair_of_coins():
    """A token of two characters with probability ¼ costs as much for each character as two of probability ½."""
    assert bits_per_character(torch.tensor([0.5, 0.5]).log(), torch.tensor([1, 1])) == pytest.approx(1.0)
    assert bits_per_character(torch.tensor([0.25]).log(), torch.tensor([2])) == pytest.approx(1.0)


def test_bits_are_the_cross_entropy_of_torch():
    logits = torch.randn(9, 6, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(9) % 6
    chosen = logits.log_softmax(dim=-1)[torch.arange(9), targets]
    expected = F.cross_entropy(logits, targets).item() / math.log(2)
    assert bits_per_character(chosen, torch.ones(9)) == pytest.approx(expected, rel=1e-5)


def test_windows_are_one_place_apart():
    inputs, targets = text_windows(torch.tensor([7, 2, 9, 4, 1, 8]), torch.tensor([2, 0]), 3)
    assert inputs.tolist() == [[9, 4, 1], [7, 2, 9]] and targets.tolist() == [[4, 1, 8], [2, 9, 4]]


# --- the model --------------------------------------------------------------------------------------------


def small_model(seed=0):
    torch.manual_seed(seed)
    return GPT(vocab_size=13, d_model=12, num_heads=3, d_ff=20, num_layers=2).double().eval()


def test_the_block_is_an_encoder_layer_with_rope_and_a_causal_mask():
    """The same numbers from the layer of notebook 6, if its queries and keys are turned before they meet."""
    torch.manual_seed(0)
    block, layer = DecoderBlock(8, 2, 12).double(), EncoderLayer(8, 2, 12).double()
    layer.load_state_dict(block.state_dict())
    x = torch.randn(2, 5, 8, dtype=torch.float64)

    def attend(h, mask):
        q, k, v = layer.attention.project(h, h, h)
        q, k = (apply_rope(part, torch.arange(5)) for part in (q, k))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        return layer.attention.w_o((weights @ v).transpose(1, 2).flatten(2))

    layer.attend = attend
    assert torch.allclose(block(x), layer(x, causal_mask(5)), atol=1e-12)


def test_logits_depend_on_the_past_alone():
    model = small_model()
    ids = torch.tensor([[3, 1, 4, 1, 5, 9]])
    changed = ids.clone()
    changed[0, 3] = 2
    moved = (model(ids) - model(changed)).abs().amax(dim=-1)[0] > 1e-12
    assert moved.tolist() == [False, False, False, True, True, True]


def test_distances_count_and_places_do_not():
    """With one block, what a token says depends on how far the others are, not on where the window begins."""
    torch.manual_seed(0)
    block = DecoderBlock(8, 2, 12).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    q, k, _ = block.attention.project(x, x, x)
    near, far = (apply_rope(q, p)[0, 0] @ apply_rope(k, p)[0, 0].T for p in (torch.arange(6), torch.arange(6) + 900))
    assert torch.allclose(near, far, atol=1e-3)


def test_a_new_model_guesses_and_a_few_steps_lower_the_loss():
    torch.manual_seed(0)
    model = GPT(vocab_size=17, d_model=16, num_heads=2, d_ff=32, num_layers=1)
    ids = torch.arange(400) % 17
    inputs, targets = text_windows(ids, torch.arange(0, 320, 20), 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(17), abs=0.05) and losses[-1] < 0.5 * losses[0]


def test_the_table_is_used_at_both_ends():
    model = small_model()
    count = sum(parameter.numel() for parameter in model.parameters())
    block = sum(parameter.numel() for parameter in model.blocks[0].parameters())
    assert count == 13 * 12 + 2 * block + 2 * 12


# --- pieces -----------------------------------------------------------------------------------------------


def chunks_of(text: str) -> Counter[str]:
    words = text.split(" ")
    return Counter([words[0], *(f" {word}" for word in words[1:])])


def test_two_merges_by_hand():
    """`ab` three times and `abb` twice: (a, b) occurs 5 times, (b, b) twice; then (ab, b) twice."""
    assert train_bpe({"ab": 3, "abb": 2}, 2) == [(97, 98), (256, 98)]


def test_overlapping_pairs_count_and_are_merged_from_the_left():
    """In `aaaa` (a, a) occurs three times, more often than (b, c) occurs; it leaves (aa, aa)."""
    assert train_bpe({"aaaa": 1, "bc": 2}, 2) == [(97, 97), (98, 99)]
    assert merge_pair([97, 97, 97], (97, 97), 256) == [256, 97]
    assert merge_pair([97] * 5, (97, 97), 256) == [256, 256, 97]


def test_ties_go_to_the_smaller_pair_and_nothing_left_ends_it():
    assert train_bpe({"zy": 1, "ab": 1}, 5) == [(97, 98), (122, 121)]
    assert train_bpe({"x": 9}, 3) == []


def test_pieces_can_be_put_together_again():
    merges = train_bpe(chunks_of(TEXT), 30)
    for chunk in [*chunks_of(TEXT), "unseen", "日本語", ""]:
        ids = bpe_encode(chunk, merges)
        assert bpe_decode(ids, merges) == chunk and len(ids) <= len(chunk.encode())
    everything = [piece for chunk in TEXT.split(" ") for piece in bpe_encode(chunk, merges)]
    assert bpe_decode(everything, merges) == TEXT.replace(" ", "")


def test_encoding_cuts_as_training_did():
    """The chunks that training is left with are those that encoding makes of them."""
    counts = chunks_of(TEXT)
    merges = train_bpe(counts, 12)
    left = {chunk: list(chunk.encode()) for chunk in counts}
    for number, pair in enumerate(merges):
        left = {chunk: merge_pair(ids, pair, 256 + number) for chunk, ids in left.items()}
    assert left == {chunk: bpe_encode(chunk, merges) for chunk in counts}


def test_half_a_character_is_replaced():
    assert bpe_decode([104, 195], []) == "h\N{REPLACEMENT CHARACTER}"
    assert bpe_decode([256, 169], [(104, 195)]) == "hé"


# --- writing ----------------------------------------------------------------------------------------------


def test_writing_is_greedy_with_one_token_to_choose_from():
    model = small_model()
    prompt = torch.tensor([1, 2, 3])
    ids = generate(model, prompt, 5, temperature=0.7, top_k=1, draws=torch.rand(5), max_len=99)
    for place in range(3, 8):
        assert ids[place] == model(ids[None, :place])[0, -1].argmax()
    assert ids[:3].tolist() == [1, 2, 3] and not ids.requires_grad


def test_only_the_last_tokens_are_read():
    model = small_model()
    draws = torch.linspace(0.1, 0.9, 6)
    long, short = torch.tensor([5, 5, 5, 1, 2]), torch.tensor([1, 2])
    written = [generate(model, prompt, 6, 1.0, 13, draws, max_len=2)[-6:] for prompt in (long, short)]
    assert torch.equal(*written)


def test_over_many_draws_each_token_comes_as_often_as_its_probability():
    model = CausalTable(torch.tensor([2.0, 0.0, 1.0, -1.0]), torch.zeros(1, 4, 4))
    draws = (torch.arange(1000) + 0.5) / 1000
    written = generate(model, torch.tensor([0]), 1000, temperature=2.0, top_k=3, draws=draws, max_len=1)[1:]
    shares = torch.bincount(written, minlength=4) / 1000
    expected = (torch.tensor([2.0, 0.0, 1.0, -math.inf]) / 2).softmax(dim=-1)
    assert torch.allclose(shares, expected, atol=2e-3)


def test_the_models_of_the_checks_are_causal():
    model = CausalTable(torch.randn(5), torch.randn(3, 5, 5))
    whole = model(torch.tensor([[1, 4, 2, 0]]))
    assert torch.allclose(whole[:, :2], model(torch.tensor([[1, 4]])))


# --- scaling ----------------------------------------------------------------------------------------------


def test_a_law_is_found_again():
    sizes = torch.tensor([10.0, 300.0, 2000.0])
    scale, exponent = fit_power_law(sizes, 4.0 * sizes**-0.25)
    assert scale == pytest.approx(4.0, rel=1e-4) and exponent == pytest.approx(0.25, rel=1e-4)


def test_the_fit_is_that_of_numpy():
    sizes, losses = torch.tensor([1000, 4000, 9000, 50000]), torch.tensor([3.1, 2.2, 2.3, 1.4])
    slope, intercept = np.polyfit(np.log(sizes.numpy()), np.log(losses.numpy()), deg=1)
    assert fit_power_law(sizes, losses) == pytest.approx((math.exp(intercept), -slope), rel=1e-4)


# --- right answers, packed otherwise ------------------------------------------------------------------------


def merges_in_a_tensor(counts, num_merges):
    return torch.tensor(train_bpe(counts, num_merges)).reshape(-1, 2)


def merges_of_numpy_numbers(counts, num_merges):
    return [[np.int64(a), torch.tensor(b)] for a, b in train_bpe(counts, num_merges)]


def pieces_in_a_tensor(chunk, merges):
    return torch.tensor(bpe_encode(chunk, merges))


def bits_by_numpy(log_probabilities, lengths):
    return -np.sum(log_probabilities.numpy()) / np.log(2) / lengths.numpy().sum()


class WeightsLikeGPT2(GPT):
    """All matrices begin small, as GPT-2's do."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)


class NormInTheStack(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        self.table.weight.data.mul_(0.02)
        blocks = [DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)]
        self.body = nn.Sequential(*blocks, LayerNorm(d_model))

    def forward(self, ids):
        return self.body(self.table(ids)) @ self.table.weight.t()


@pytest.mark.parametrize(
    ("exercise", "right"),
    [
        ("train_bpe", merges_in_a_tensor),
        ("train_bpe", merges_of_numpy_numbers),
        ("bpe_encode", pieces_in_a_tensor),
        ("bits_per_character", bits_by_numpy),
        ("GPT", WeightsLikeGPT2),
        ("GPT", NormInTheStack),
    ],
)
def test_another_packing_is_right(exercise, right):
    assert report(exercise, right).passed


# --- known mistakes, written as somebody else would write them ----------------------------------------------


def windows_of_length_cut_twice(ids, starts, length):
    pieces = torch.stack([ids[start : start + length] for start in starts])
    return pieces[:, :-1], pieces[:, 1:]


def counts_by_fancy_indexing(ids, n, vocab_size, smoothing):
    counts = torch.zeros((vocab_size,) * n)
    counts[tuple(ids.unfold(0, n, 1).T)] += 1
    counts += smoothing
    return counts / counts.sum(-1, keepdim=True)


def perplexity(log_probabilities, lengths):
    return math.exp(-log_probabilities.sum() / lengths.sum())


def bpe_by_most_common(counts, num_merges):
    words, merges = [(list(chunk.encode()), count) for chunk, count in counts.items()], []
    while len(merges) < num_merges:
        pairs = Counter()
        for ids, count in words:
            pairs.update({pair: 0 for pair in pairwise(ids)})
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        ((best, _),) = pairs.most_common(1)
        words = [(merge_pair(ids, best, 256 + len(merges)), count) for ids, count in words]
        merges.append(best)
    return merges


def encode_with_a_stack(chunk, merges):
    ranks, pieces = {pair: 256 + i for i, pair in enumerate(merges)}, []
    for byte in chunk.encode():
        pieces.append(byte)
        while len(pieces) > 1 and (pieces[-2], pieces[-1]) in ranks:
            pieces[-2:] = [ranks[pieces[-2], pieces[-1]]]
    return pieces


def decode_into_characters(ids, merges):
    texts = [chr(byte) for byte in range(256)]
    for first, second in merges:
        texts.append(texts[first] + texts[second])
    return "".join(texts[piece] for piece in ids)


def generate_from_the_sorted_list(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    ids = prompt
    for u in draws[:new_tokens]:
        with torch.no_grad():
            values, tokens = model(ids[-max_len:][None])[0, -1].topk(top_k)
        place = ((values / temperature).softmax(-1).cumsum(-1) <= u).sum().clamp(max=len(values) - 1)
        ids = torch.cat([ids, tokens[place][None]])
    return ids


def detached_but_recorded(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    ids = prompt
    for i in range(new_tokens):
        logits = model(ids[-max_len:][None])[:, -1].detach()
        ids = torch.cat([ids, sample(top_k_filter(logits, top_k), temperature, draws[i : i + 1])])
    return ids


def line_through_the_numbers(sizes, losses):
    slope, intercept = np.polyfit(sizes, losses, deg=1)
    return intercept, -slope


class EncoderLayersWithAMask(GPT):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__(vocab_size, d_model, num_heads, d_ff, num_layers)
        self.blocks = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers))

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, causal_mask(ids.shape[1]))
        return F.linear(self.norm(x), self.embedding.weight)


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistake"),
    [
        ("text_windows", windows_of_length_cut_twice, "one_token_too_short"),
        ("ngram_model", counts_by_fancy_indexing, "counts_each_run_once"),
        ("bits_per_character", perplexity, "perplexity_of_a_character"),
        ("train_bpe", bpe_by_most_common, "first_pair_of_equals"),
        ("bpe_encode", encode_with_a_stack, "by_the_leftmost_pair"),
        ("bpe_decode", decode_into_characters, "text_byte_by_byte"),
        ("generate", generate_from_the_sorted_list, "most_likely_first"),
        ("generate", detached_but_recorded, "records_gradients"),
        ("fit_power_law", line_through_the_numbers, "without_logarithms"),
        ("GPT", EncoderLayersWithAMask, "ForgetsThePositions"),
    ],
)
def test_known_mistakes_in_other_words(exercise, wrong, mistake):
    assert report(exercise, wrong).misconception == mistake


# --- two mistakes at once -----------------------------------------------------------------------------------


def nats_for_each_token(log_probabilities, lengths):
    return -log_probabilities.mean().item()


def characters_without_counts(counts, num_merges):
    return [tuple(pair) for pair in learned_from_characters({chunk: 1 for chunk in counts}, num_merges)]


def learned_from_characters(counts, num_merges):
    words, merges = [([ord(letter) for letter in chunk], count) for chunk, count in counts.items()], []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter(pair for ids, _ in words for pair in pairwise(ids))
        if not pairs:
            break
        best = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[0]
        words = [(merge_pair(ids, best, new_id), count) for ids, count in words]
        merges.append(best)
    return merges


def characters_from_255(chunk, merges):
    ids = list(map(ord, chunk))
    for new_id, pair in enumerate(merges, start=255):
        ids = merge_pair(ids, pair, new_id)
    return ids


def pieces_exchanged_and_decoded_alone(ids, merges):
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces.append(pieces[second] + pieces[first])
    return "".join(pieces[piece].decode(errors="replace") for piece in ids)


def greedy_from_the_first_tokens(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    for _ in range(new_tokens):
        with torch.no_grad():
            prompt = torch.cat([prompt, model(prompt[:max_len][None])[:, -1].argmax(-1)])
    return prompt


def slope_and_logarithm(sizes, losses):
    slope, intercept = np.polyfit(np.log(sizes), np.log(losses), deg=1)
    return intercept, slope


class UntiedWithoutNorm(GPT):
    def __init__(self, vocab_size, d_model, *sizes):
        super().__init__(vocab_size, d_model, *sizes)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize(
    ("exercise", "wrong", "mistakes"),
    [
        ("bits_per_character", nats_for_each_token, {"both#nats_for_bits&bits_per_token"}),
        ("train_bpe", characters_without_counts, {"ignores_the_counts", "characters_for_bytes"}),
        ("bpe_encode", characters_from_255, {"characters_for_bytes", "ids_from_255"}),
        ("bpe_decode", pieces_exchanged_and_decoded_alone, {"parts_exchanged", "text_piece_by_piece"}),
        ("generate", greedy_from_the_first_tokens, {"always_the_best", "first_tokens_as_context"}),
        ("fit_power_law", slope_and_logarithm, {"returns_the_slope", "returns_the_intercept"}),
        ("GPT", UntiedWithoutNorm, {"ForgetsTheFinalNorm", "UntiesTheOutput"}),
    ],
)
def test_two_mistakes_are_named_or_described(exercise, wrong, mistakes):
    seen = report(exercise, wrong)
    assert seen.misconception is not None, seen
    assert set(seen.misconception.split(" + ")) == mistakes


# --- what is said is true of the answer ---------------------------------------------------------------------


def test_an_empty_answer_is_not_accused_of_anything():
    assert report("train_bpe", lambda counts, num_merges: []).misconception is None
    assert report("bpe_encode", lambda chunk, merges: []).misconception is None


def test_a_dictionary_of_merges_is_called_a_dictionary():
    seen = report("train_bpe", lambda counts, num_merges: {pair: 1 for pair in train_bpe(counts, num_merges)})
    assert "a list of pairs of ids, but it is a dict" in said(seen)


def test_merges_of_bytes_are_called_so():
    seen = report("train_bpe", lambda counts, num_merges: [(b"a", b"b")] * num_merges)
    assert "a pair of ids" in said(seen) and "bytes" in said(seen)


class BlocksOfTorch(GPT):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__(vocab_size, d_model, num_heads, d_ff, num_layers)
        layer = nn.TransformerEncoderLayer
        self.blocks = nn.ModuleList(
            layer(d_model, num_heads, d_ff, 0.0, batch_first=True, norm_first=True) for _ in range(num_layers)
        )

    def forward(self, ids):
        x = self.embedding(ids)
        hidden = ~causal_mask(ids.shape[1])
        for block in self.blocks:
            x = block(x, hidden)
        return self.norm(x) @ self.embedding.weight.T


def test_other_blocks_are_recognised_as_such():
    seen = report("GPT", BlocksOfTorch)
    assert not seen.passed and "are the blocks reference.DecoderBlock?" in said(seen)


class LearnsLittle(GPT):
    """The mean of the entries is far from 0: logits do not show it, since the norm before them has mean 0."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        nn.init.normal_(self.embedding.weight, mean=1.0, std=0.02)


def test_the_beginning_of_the_table_is_looked_at_itself():
    assert "have the mean 1 and the standard deviation" in said(report("GPT", LearnsLittle))


def test_words_that_repeat_the_prompt_earn_little():
    def repeats(model, prompt, new_tokens, *settings):
        return torch.cat([prompt, prompt[-1:].repeat(new_tokens)])

    seen = report("generate", repeats)
    assert seen.points <= seen.max_points / 4
