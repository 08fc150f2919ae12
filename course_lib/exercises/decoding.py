"""Exercises on decoding: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import Counter

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_close,
    expect_equal,
    expect_floats,
    expect_tensor,
    expect_tuple,
    name_of_type,
    sentence,
)
from course_lib.checking.inputs import NextTokenTable, normal
from course_lib.checking.weights import AttentionWeights, load_weights
from course_lib.decoding import ngrams, require_pairs
from course_lib.multi_head_attention import merge_heads, split_heads


def expect_ids(got, shape=None, what="the result"):
    """`got` is a tensor of token ids, whole numbers of whatever dtype."""
    got = expect_tensor(got, shape, what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contains NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold token ids, whole numbers, but its dtype is {got.dtype}.")
    return got


def random_model(vocab, rows, seed, never=(), favour=None, scale=1.5):
    """A model whose answers depend on the sentence and on the last three tokens. `never`: ids that are not for use."""
    start = normal(rows, vocab, seed=seed) + 0.001 * torch.arange(vocab)  # so that no two sums are equal
    start[:, list(never)] -= 30
    if favour is not None:
        start[:, favour[0]] += favour[1]
    return NextTokenTable(start, normal(3, vocab, vocab, seed=seed + 1, scale=scale))


def distinct(*shape, seed, scale=1.0):
    """Random logits, no two of which are equal."""
    return normal(*shape, seed=seed, scale=scale) + 0.001 * torch.arange(shape[-1])


# --- greedy_decode --------------------------------------------------------------------------------------


def greedy_case(vocab, rows, bos_id, eos_id, pad_id, max_len, seed, eos_bias=0.0):
    never = {bos_id, pad_id} - {eos_id}
    return {
        "next_logits": random_model(vocab, rows, seed, never, (eos_id, eos_bias)),
        "rows": rows,
        "bos_id": bos_id,
        "eos_id": eos_id,
        "pad_id": pad_id,
        "max_len": max_len,
    }


greedy = Exercise(
    decoding.greedy_decode,
    cases=[
        greedy_case(6, 2, bos_id=1, eos_id=2, pad_id=0, max_len=4, seed=0),
        greedy_case(9, 4, bos_id=5, eos_id=3, pad_id=7, max_len=9, seed=11, eos_bias=1.0),
        greedy_case(7, 3, bos_id=0, eos_id=6, pad_id=1, max_len=6, seed=21, eos_bias=2.0),
        greedy_case(8, 5, bos_id=2, eos_id=4, pad_id=3, max_len=1, seed=31, eos_bias=1.0),
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Begin with a column of BOS, (rows, 1). Then repeat: ask the model about everything so far, take the best "
        "token of each row, put it behind the others.",
        "Sentences end at different times. Keep a boolean tensor `ended` of shape (rows,), all False at first. A row "
        "that has ended gets pad_id instead of what the model says.",
        "torch.where(ended, pad_id, best) chooses row by row. After that, a row in which best is eos_id has ended too: "
        "ended = ended | (best == eos_id).",
        "Loop max_len times and break when ended.all(). The BOS column is cut off at the very end: ids[:, 1:].",
    ],
)


def greedy_want(case):
    return decoding.greedy_decode(*case.values())


def greedy_answer(subject, case):
    """The student's ids, without columns of padding behind the longest sentence: they do no harm."""
    got = expect_ids(subject(*case.values()))
    rows, max_len, width = case["rows"], case["max_len"], greedy_want(case).shape[1]
    fits = got.dim() == 2 and got.shape[0] == rows and got.shape[1] <= max_len
    expect(
        fits,
        f"The result should have shape (rows, time) = ({rows}, at most {max_len}), but it has shape "
        f"{tuple(got.shape)}. max_len = {max_len} counts the tokens of the result: EOS is one of them, BOS is not.",
    )
    if (got[:, width:] == case["pad_id"]).all():
        return got[:, :width]
    return got


@greedy.property("the result is (rows, time), token ids, at most max_len for each sentence", points=1)
def greedy_shape(subject, case):
    greedy_answer(subject, case)


@greedy.property("each sentence starts with the best token after BOS", points=1)
def greedy_first(subject, case):
    got, want = greedy_answer(subject, case), greedy_want(case)
    expect(
        got.shape[1] > 0 and torch.equal(got[:, 0], want[:, 0]),
        f"The first tokens of the sentences should be {want[:, 0].tolist()}, but yours are {got[:, :1].flatten().tolist()}.",
    )


@greedy.property("each further token is the best one after everything so far, up to EOS", points=2)
def greedy_tokens(subject, case):
    got, want = greedy_answer(subject, case), greedy_want(case)
    for row, (mine, right) in enumerate(zip(got.tolist(), want.tolist(), strict=True)):
        right = [token for token in right if token != case["pad_id"]]
        length = min(len(mine), len(right))
        expect(
            mine[:length] == right[:length],
            f"Sentence {row} should begin with {right[:length]} (EOS is {case['eos_id']}), but yours is {mine}.",
        )


@greedy.property("behind EOS there is nothing but padding", points=1)
def greedy_padding(subject, case):
    got, want = greedy_answer(subject, case), greedy_want(case)
    width = min(got.shape[1], want.shape[1])
    behind = (want == case["pad_id"])[:, :width]
    strange = got[:, :width][behind] != case["pad_id"]
    expect(
        not strange.any(),
        f"PAD is {case['pad_id']} and EOS is {case['eos_id']}. Expected {want.tolist()}, but got {got.tolist()}.",
    )


@greedy.property("it goes on until every sentence has ended, or has max_len tokens, and then stops", points=1)
def greedy_length(subject, case):
    got, want = greedy_answer(subject, case), greedy_want(case)
    expect(
        got.shape == want.shape,
        f"The longest sentence has {want.shape[1]} tokens with its EOS, and max_len is {case['max_len']}; "
        f"but your result has {got.shape[1]} columns: {got.tolist()}.",
    )


@greedy.misconception
def never_stops_at_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """A sentence that has ended goes on: behind EOS stands whatever the model says next. Remember which rows have ended
    and write padding into them."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def never_looks_for_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """EOS means nothing to your loop (do you wait for another id?): it always runs max_len times and writes on behind
    EOS in every sentence."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids[:, 1:]


@greedy.misconception
def stops_with_the_first(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You stop as soon as one sentence has ended. The others are cut off: go on until all have ended."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.any():
            break
    return ids[:, 1:]


@greedy.misconception
def forgets_who_has_ended(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You only know which sentences end at this very step. A sentence that ended two steps ago wakes up again: what
    has ended stays ended."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = best == eos_id
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def repeats_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You fill up with EOS behind the end. EOS stands once; the places behind it hold pad_id."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, eos_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def loses_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """EOS itself is missing: there is padding in its place. A row counts as ended only after its EOS has been written
    down."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        ended = ended | (best == eos_id)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def breaks_before_writing_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """The last step is missing: you leave the loop as soon as the last sentence says EOS, before that EOS is written
    down."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ended = ended | (best == eos_id)
        if ended.all():
            break
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids[:, 1:]


@greedy.misconception
def takes_the_worst(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You take the token with the smallest logit. The largest is the most likely one."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmin(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def best_row_instead_of_best_token(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """Your argmax runs over the sentences (axis 0). It has to run over the vocabulary, the last axis: one token for
    each row."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=0)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def same_token_for_all(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """Every sentence gets the token of sentence 0. Each row has logits of its own."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits[0].argmax(dim=-1).expand(rows)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def feeds_the_last_token_only(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You show the model the last token alone. It has no memory of its own: it needs the whole prefix, BOS first."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids[:, -1:])
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def drops_bos_after_the_first_step(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """BOS is only there at the first step. The model was trained with BOS in front of every prefix, also later."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids[:, 1:] if ids.shape[1] > 1 else ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def starts_with_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """Your prefix starts with EOS. A sentence begins with BOS."""
    ids = torch.full((rows, 1), eos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def starts_with_padding(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """Your prefix starts with PAD (or zeros). A sentence begins with BOS."""
    ids = torch.full((rows, 1), pad_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def one_token_too_many(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """A sentence can get max_len + 1 tokens. The loop runs at most max_len times, once for each token of the result."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len + 1):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def bos_counts_too(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """A sentence gets at most max_len - 1 tokens: you count BOS, but max_len counts the tokens of the result alone."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len - 1):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def returns_bos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """BOS is still in your result. It is only there to start the model: cut it off at the end."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids


@greedy.misconception
def draws_lots(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You draw the next token at random. Greedy means: always the most likely one."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = torch.multinomial(logits.softmax(dim=-1), num_samples=1).squeeze(-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.alternative
def all_steps_then_erased(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """Writes max_len tokens and erases afterwards what stands behind EOS: padded to max_len."""
    ids = torch.full((rows, 1), bos_id)
    for _ in range(max_len):
        ids = torch.cat([ids, next_logits(ids).argmax(-1, keepdim=True)], dim=1)
    ids = ids[:, 1:]
    ends = (ids == eos_id).int()
    behind = (ends.cumsum(dim=1) - ends) > 0
    return ids.masked_fill(behind, pad_id)


@greedy.alternative
def into_a_table(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    table = torch.full((rows, max_len + 1), pad_id, dtype=torch.int32)
    table[:, 0] = bos_id
    alive = torch.ones(rows).bool()
    length = 0
    while alive.any() and length < max_len:
        best = next_logits(table[:, : length + 1].long()).max(dim=1).indices.int()
        table[alive, length + 1] = best[alive]
        alive = alive & (best != eos_id)
        length += 1
    return table[:, 1 : length + 1]


@greedy.alternative
def with_lists(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    prefixes = [[bos_id] for _ in range(rows)]
    ended = [False] * rows
    while len(prefixes[0]) <= max_len and not all(ended):
        for row, scores in enumerate(next_logits(torch.tensor(prefixes)).log_softmax(dim=1).tolist()):
            token = pad_id if ended[row] else scores.index(max(scores))
            prefixes[row].append(token)
            ended[row] = ended[row] or token == eos_id
    return torch.tensor(prefixes)[:, 1:]


@greedy.alternative
def by_recursion(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    def more(ids, ended):
        if ids.shape[1] > max_len or ended.all():
            return ids
        best = next_logits(ids).topk(1).indices.squeeze(1).masked_fill(ended, pad_id)
        return more(torch.hstack([ids, best.unsqueeze(1)]), ended.logical_or(best.eq(eos_id)))

    return more(torch.empty(rows, 1).fill_(bos_id).long(), torch.zeros(rows).bool())[:, 1:]


# --- beam_search ----------------------------------------------------------------------------------------


def toy_model():
    """BOS, EOS, I, a, am, student: greedy says "I am" (0.5 · 0.4 = 0.20), but "a student" is 0.4 · 0.9 = 0.36."""
    table = torch.full((1, 6, 6), 1e-9, dtype=torch.float64)
    table[0, 0, 2:] = torch.tensor([0.5, 0.4, 0.05, 0.05]).double()
    table[0, 2, 3:] = torch.tensor([0.25, 0.4, 0.35]).double()
    table[0, 3, [2, 4, 5]] = torch.tensor([0.05, 0.05, 0.9]).double()
    table[0, [4, 5], 1] = 1.0
    return NextTokenTable(torch.zeros(1, 6, dtype=torch.float64), table.log())


def beam_case(vocab, beam_size, bos_id, eos_id, max_len, alpha, seed, eos_bias=0.0):
    return {
        "next_logits": random_model(vocab, 1, seed, {bos_id}, (eos_id, eos_bias), scale=0.8),
        "beam_size": beam_size,
        "bos_id": bos_id,
        "eos_id": eos_id,
        "max_len": max_len,
        "alpha": alpha,
    }


beam = Exercise(
    decoding.beam_search,
    cases=[
        {"next_logits": toy_model(), "beam_size": 2, "bos_id": 0, "eos_id": 1, "max_len": 5, "alpha": 1.0},
        beam_case(6, 3, bos_id=0, eos_id=2, max_len=4, alpha=0.7, seed=94, eos_bias=0.5),
        beam_case(5, 2, bos_id=4, eos_id=0, max_len=6, alpha=1.5, seed=52),
        beam_case(7, 4, bos_id=1, eos_id=3, max_len=5, alpha=1.0, seed=94, eos_bias=1.0),
        beam_case(4, 2, bos_id=3, eos_id=1, max_len=1, alpha=0.5, seed=51),
    ],
    minutes=15,
    difficulty=3,
    hints=[
        "Keep two things: `prefixes` (beam, time), at first one row with BOS, and `totals` (beam,), the log-probability "
        "of each. One round continues every prefix with every token: (beam, vocab) candidates.",
        "A candidate's total is its prefix's total plus the log-probability of the token. Flatten the candidates, take "
        "the topk of all of them together: place // vocab_size says which prefix, place % vocab_size which token.",
        "prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1). Those that end in EOS, or have max_len "
        "tokens, go into a list `finished` with their score total / length**alpha; the others stay for the next round.",
        "over = (tokens == eos_id) | (length == max_len) is a boolean mask: prefixes[over] go into the list, "
        "prefixes[~over] and totals[~over] go on. At the end, max(finished) by score.",
    ],
)


def beam_answer(subject, arguments):
    """The student's ids as a list of numbers, and their score as a number."""
    ids, score = expect_tuple(subject(*arguments), ("ids", "score"))
    expect(ids is not None and score is not None, "One of ids and score is None. What do you `return`?")
    if isinstance(ids, Tensor):
        ids = expect_ids(ids, what="ids").flatten().tolist()
    expect(isinstance(ids, list | tuple), f"ids should be a list of token ids, but it is {name_of_type(ids)}.")
    ids = [token.item() if isinstance(token, Tensor) and token.numel() == 1 else token for token in ids]
    whole = all(isinstance(token, int) or (isinstance(token, float) and token.is_integer()) for token in ids)
    expect(whole, f"ids should be a list of token ids, whole numbers, but it is {ids}.")
    if isinstance(score, Tensor) and score.numel() == 1:
        score = score.item()
    expect(isinstance(score, int | float), f"score should be a number, but it is {name_of_type(score)}.")
    expect(not math.isnan(score), "score is NaN (not a number).")
    return [int(token) for token in ids], float(score)


def log_probability(next_logits, bos_id, ids):
    """The log-probability of a sentence under the model."""
    total = 0.0
    for length in range(len(ids)):
        logits = next_logits(torch.tensor([[bos_id, *ids[:length]]]))
        total += float(logits.log_softmax(dim=-1)[0, ids[length]])
    return total


def is_sentence(ids, case):
    """Whether `ids` is a whole sentence, or one that max_len has cut off."""
    eos_id, max_len = case["eos_id"], case["max_len"]
    vocab = case["next_logits"].start.shape[-1]
    body, last = ids[:-1], ids[-1:]
    ends = last == [eos_id] or len(ids) == max_len
    return 0 < len(ids) <= max_len and eos_id not in body and ends and all(0 <= token < vocab for token in ids)


@beam.property("it returns (ids, score): one sentence without BOS, up to its EOS or max_len tokens", points=1)
def beam_form(subject, case):
    ids, _ = beam_answer(subject, case.values())
    expect(
        is_sentence(ids, case),
        f"BOS is {case['bos_id']}, EOS is {case['eos_id']}, max_len is {case['max_len']}: {ids} is not a sentence "
        "without BOS that ends with its first EOS, or has max_len tokens.",
    )


@beam.property("with beam_size 1 it is greedy decoding", points=1)
def beam_of_one(subject, case):
    case = {**case, "beam_size": 1}
    ids, _ = beam_answer(subject, case.values())
    want, _ = decoding.beam_search(**case)
    expect(ids == want, f"With beam_size = 1, greedy decoding gives {want}, but yours gives {ids}.")


@beam.property("the score is the sentence's log-probability / length^alpha", points=1)
def beam_score(subject, case):
    ids, score = beam_answer(subject, case.values())
    expect(is_sentence(ids, case), f"{ids} is not a sentence.")
    total = log_probability(case["next_logits"], case["bos_id"], ids)
    want = total / len(ids) ** case["alpha"]
    expect(
        abs(score - want) <= 1e-4 * (1 + abs(want)),
        f"Your sentence {ids} has the log-probability {total:.5g} and {len(ids)} tokens, so its score is {want:.5g}. "
        f"You return {score:.5g}.",
    )


@beam.property("with alpha = 0 the most likely sentence of the beam wins", points=1)
def beam_most_likely(subject, case):
    case = {**case, "alpha": 0.0}
    compare_with_the_best(beam_answer(subject, case.values())[0], case)


@beam.property("among sentences of different lengths the best score wins", points=2)
def beam_best(subject, case):
    compare_with_the_best(beam_answer(subject, case.values())[0], case)


def compare_with_the_best(ids, case):
    want, best = decoding.beam_search(**case)
    if ids == want:
        return
    text = f"With beam_size = {case['beam_size']} and alpha = {case['alpha']:g} the best is {want}, score {best:.4g}."
    if is_sentence(ids, case):
        mine = log_probability(case["next_logits"], case["bos_id"], ids) / len(ids) ** case["alpha"]
        text += f" Yours is {ids}, whose score is {mine:.4g}."
    raise Failure(text)


@beam.misconception
def adds_raw_logits(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You add up raw logits. Those of two different prefixes cannot be compared: turn them into log-probabilities
    first."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def adds_probabilities(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You add up probabilities. The probability of a sentence is a product of them: it is their logarithms that can
    be added."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def normalises_over_the_beam(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Your softmax runs over the prefixes of the beam (axis 0). Probabilities are shared out among the tokens of the
    vocabulary, for each prefix by itself."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=0)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def forgets_the_past(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You compare the candidates by their last token alone. A candidate's total is that of its prefix plus that of
    the new token."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def swaps_parent_and_token(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Parent and token have changed places. In the flattened (beam, vocab) candidates, place // vocab_size is the
    row, the prefix; place % vocab_size is the column, the token."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places % vocab_size, places // vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def divides_by_the_beam_size(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You take a flat place apart with the size of the beam. A row of the candidates has vocab_size entries: divide
    by that."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = beam_size
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def ignores_the_parents(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """The new tokens are put behind the wrong prefixes: token i of the top list goes to prefix i, whichever prefix it
    came from."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = torch.arange(len(places)) % len(prefixes), places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def one_child_for_each_prefix(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Each prefix gets exactly one child after the first round, its best. All children of all prefixes compete: one
    prefix may have several, another none."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        if length > 1:
            candidates = candidates.masked_fill(candidates < candidates.amax(dim=-1, keepdim=True), -math.inf)
            beam_size = len(prefixes)
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def keeps_one_prefix(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Only one prefix survives each round, whatever beam_size says. That is greedy decoding."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(1)
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


@beam.misconception
def keeps_the_worst(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You keep the least likely continuations. A log-probability is negative, and the one nearest to 0 is the best."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()), largest=False)
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


@beam.misconception
def stops_at_the_first_ending(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You take the first sentence that ends. It is a short one; a longer one that was still going on may turn out
    better: collect all that end and compare their scores."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if finished:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def sentences_never_end(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """A sentence goes on behind its EOS. Those that end have to be set aside, and only the others continued."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = torch.full_like(tokens, length == max_len).bool()
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def finished_ones_go_on_too(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """A sentence that has ended is noted down, and then continued behind its EOS all the same. Only the unfinished
    prefixes go on."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def throws_the_unfinished_away(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """What is unfinished after max_len tokens is lost. It counts as it stands, with its score so far."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = tokens == eos_id
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def finished_ones_make_the_beam_narrower(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Your beam becomes narrower with every sentence that ends, as in some other forms of beam search. Here every
    round keeps beam_size continuations again, however many sentences have ended."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size - len(finished), candidates.numel()))
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


@beam.misconception
def ignores_alpha(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """The length plays no part in your score: alpha is not used, and long sentences, with more factors below 1, hardly
    ever win."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item(), prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def multiplies_by_the_length(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You multiply by length^alpha. Log-probabilities are negative: that makes long sentences still worse. Divide."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() * length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def forgets_the_power(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You divide by the length itself, whatever alpha is. The length is raised to the power alpha."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def counts_bos_in_the_length(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Your length is one too large: it counts BOS. Only the tokens of the result count, EOS included."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / (length + 1) ** alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def leaves_eos_out_of_the_length(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Your length is one too small for sentences with EOS: EOS is a token of the result and counts."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / max(1, length - int(prefix[-1] == eos_id)) ** alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def another_length_penalty(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Your penalty is ((5 + length) / 6)^alpha, which is in use too. Here it is length^alpha."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / ((5 + length) / 6) ** alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def takes_the_worst_score(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You return the sentence with the smallest score. Scores are negative, and the largest, nearest to 0, wins."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = min(finished)
    return best, score


@beam.misconception
def returns_bos_too(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """BOS is still in your sentence. It is only there to start the model: cut it off."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix.tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score


@beam.misconception
def cuts_eos_off(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """EOS is missing at the end of your sentence: it belongs to the result."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return [token for token in best if token != eos_id], score


@beam.misconception
def one_round_too_few(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Your sentences have at most max_len - 1 tokens: you count BOS, but max_len counts the tokens of the result."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    max_len = max_len - 1
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
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


@beam.misconception
def returns_the_total(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """The sentence is right, but what you return beside it is its log-probability. The score is that divided by
    length^alpha."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return best, score * len(best) ** alpha


@beam.misconception
def score_comes_first(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """The two results have changed places: the ids come first, then the score."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    score, best = max(finished)
    return score, best


@beam.alternative
def with_lists_and_sorting(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    alive, finished = [([], 0.0)], []
    while alive:
        candidates = []
        for ids, total in alive:
            for token, value in enumerate(next_logits(torch.tensor([[bos_id, *ids]])).log_softmax(-1)[0].tolist()):
                candidates.append(([*ids, token], total + value))
        candidates.sort(key=lambda pair: -pair[1])
        kept = candidates[:beam_size]
        ended = [pair for pair in kept if pair[0][-1] == eos_id or len(pair[0]) == max_len]
        alive = [pair for pair in kept if pair not in ended]
        finished += ended
    scored = [(total / len(ids) ** alpha, ids) for ids, total in finished]
    score, ids = sorted(scored)[-1]
    return tuple(ids), score


@beam.alternative
def with_a_heap_and_probabilities(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Multiplies probabilities, and takes the logarithm at the end."""
    alive, best = [(1.0, (bos_id,))], None
    for length in range(1, max_len + 1):
        logits = next_logits(torch.tensor([ids for _, ids in alive]))
        rows = torch.softmax(logits.double(), dim=1).tolist()
        children = ((p * q, (*ids, t)) for (p, ids), row in zip(alive, rows, strict=True) for t, q in enumerate(row))
        alive = []
        for p, ids in heapq.nlargest(beam_size, children):
            if ids[-1] == eos_id or length == max_len:
                entry = (math.log(p) / length**alpha, ids[1:])
                best = entry if best is None or entry > best else best
            else:
                alive.append((p, ids))
        if not alive:
            break
    return torch.tensor(best[1]), torch.tensor(best[0])


@beam.alternative
def finished_ones_stay_masked(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """Keeps the best so far, and compares by normalised scores within a round: all have one length there."""
    ids, totals = torch.full((1, 1), bos_id), torch.zeros(1, 1).double()
    best_score, best_ids = -math.inf, []
    for length in range(1, max_len + 1):
        logits = next_logits(ids)
        scores = (totals + logits - logits.logsumexp(dim=1, keepdim=True)) / length**alpha
        kept = scores.reshape(-1).argsort(descending=True)[:beam_size]
        rows = torch.div(kept, scores.shape[1], rounding_mode="floor")
        tokens = kept - rows * scores.shape[1]
        totals = scores.reshape(-1)[kept].unsqueeze(1) * length**alpha
        ids = torch.hstack((ids[rows], tokens[:, None]))
        goes_on = []
        for i in range(len(ids)):
            if tokens[i] != eos_id and length < max_len:
                goes_on.append(i)
            elif totals[i].item() / length**alpha > best_score:
                best_score, best_ids = totals[i].item() / length**alpha, ids[i, 1:]
        if not goes_on:
            break
        ids, totals = ids[goes_on], totals[goes_on]
    return best_ids, best_score


# --- sample ---------------------------------------------------------------------------------------------

sampling = Exercise(
    decoding.sample,
    cases=[
        {
            "logits": torch.tensor([[2.0, 1.0, 0.5, -1.0]]).double(),
            "temperature": 0.5,
            "u": torch.tensor([0.9]).double(),
        },
        {
            "logits": normal(3, 5, seed=61),
            "temperature": 2.0,
            "u": torch.tensor([0.15, 0.62, 0.93]).double(),
        },
        {
            "logits": normal(6, 4, seed=62, scale=2),
            "temperature": 0.7,
            "u": torch.tensor([0.03, 0.97, 0.48, 0.71, 0.22, 0.55]).double(),
        },
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Three steps: divide the logits by the temperature, softmax, and then find the piece of the line on which u "
        "lies.",
        "probabilities.cumsum(dim=-1) says where each token's piece ends. Which pieces lie wholly before u?",
        "The number of pieces that end at or before u is the id of the token that is drawn. Count them with a "
        "comparison and a sum. Temperature 0 is a case of its own: the best token.",
        "(probabilities.cumsum(dim=-1) <= u[:, None]).sum(dim=-1).",
    ],
)


def sampled(subject, logits, temperature, u):
    return expect_ids(subject(logits, temperature, u), (len(logits),))


@sampling.property("one token id for each row, shape (batch,)", points=1)
def sample_shape(subject, case):
    got = sampled(subject, *case.values())
    vocab = case["logits"].shape[-1]
    expect(
        bool(((got >= 0) & (got < vocab)).all()),
        f"The ids run from 0 to {vocab - 1}, but yours are {got.tolist()}.",
    )


@sampling.property("at temperature 0 it is the best token, whatever u is", points=1)
def sample_cold(subject, case):
    logits, _, u = case.values()
    got, want = sampled(subject, logits, 0.0, u), logits.argmax(dim=-1)
    expect(
        torch.equal(got.long(), want),
        f"At temperature 0 the best tokens are {want.tolist()}, but yours are {got.tolist()}.",
    )


@sampling.property("at temperature 1, u falls into the piece of the token that is drawn", points=1)
def sample_pieces(subject, case):
    logits, _, u = case.values()
    compare_draws(sampled(subject, logits, 1.0, u), logits, 1.0, u)


@sampling.property(
    "over 200 evenly spread u, each token comes as often as softmax(logits / temperature) says", points=2
)
def sample_frequencies(subject, case):
    logits, temperature, _ = case.values()
    u = (torch.arange(200).double() + 0.5) / 200
    many = logits[:1].expand(200, -1).clone()
    got = sampled(subject, many, temperature, u)
    want = decoding.sample(many, temperature, u)
    vocab = logits.shape[-1]
    counts, right = (torch.bincount(ids.clamp(0, vocab - 1).long(), minlength=vocab).tolist() for ids in (got, want))
    expect(
        counts == right,
        f"For the logits {logits[0].tolist()} and temperature {temperature:g}, the {vocab} tokens should be drawn "
        f"{right} times, but yours are drawn {counts} times.",
    )
    compare_draws(sampled(subject, *case.values()), *case.values())


@sampling.property("a token with probability 0 is never drawn, not even for u = 0", points=1)
def sample_impossible(subject, case):
    logits, temperature, u = case.values()
    logits = torch.cat([torch.full((len(logits), 2), -math.inf).double(), logits], dim=1)
    u = torch.zeros_like(u)
    compare_draws(sampled(subject, logits, temperature, u), logits, temperature, u)


def compare_draws(got, logits, temperature, u):
    want = decoding.sample(logits, temperature, u)
    if torch.equal(got.long(), want):
        return
    row = int((got != want).nonzero()[0])
    ends = (logits[row] / temperature).softmax(dim=-1).cumsum(dim=-1)
    raise Failure(
        f"In row {row} the tokens' pieces end at {[round(float(e), 3) for e in ends]}, and u is {u[row]:.3g}: "
        f"that is token {int(want[row])}, but you draw {int(got[row])}."
    )


@sampling.misconception
def multiplies_by_the_temperature(logits, temperature, u):
    """You multiply by the temperature: heat makes your distribution sharper. Divide: a high temperature flattens."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits * temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def ignores_the_temperature(logits, temperature, u):
    """The temperature changes nothing in your probabilities. (Dividing them after the softmax, and normalising again,
    undoes itself.)"""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = logits.softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def divides_the_probabilities(logits, temperature, u):
    """You divide the probabilities by the temperature: they no longer sum to 1. The logits are divided, before the
    softmax."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = logits.softmax(dim=-1) / temperature
    ends = probabilities.cumsum(dim=-1)
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def divides_by_zero(logits, temperature, u):
    """Temperature 0 gives you 0/0. It is the limit of ever sharper distributions: the best token, without any draw."""
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def always_the_best(logits, temperature, u):
    """You always take the most likely token: u is not used, and nothing is drawn."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    return probabilities.argmax(dim=-1)


@sampling.misconception
def draws_by_its_own(logits, temperature, u):
    """You draw with a random number of your own. Here the number is given: u decides, so that the draw can be
    repeated."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    return torch.multinomial(probabilities, num_samples=1).squeeze(-1)


@sampling.misconception
def all_tokens_alike(logits, temperature, u):
    """Every token has the same chance: you cut the line into equal pieces, and the probabilities play no part."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits * 0).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def does_not_accumulate(logits, temperature, u):
    """You compare u with the probabilities themselves. It has to be compared with their running sum, the ends of the
    pieces."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def one_token_too_early(logits, temperature, u):
    """You take the last piece that ends before u. The token drawn is the next one, on whose piece u lies."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return (passed.sum(dim=-1) - 1).clamp(min=0)


@sampling.misconception
def one_token_too_late(logits, temperature, u):
    """You take the token behind the one on whose piece u lies. If no piece lies before u, the draw is token 0."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return (passed.sum(dim=-1) + 1).clamp(max=logits.shape[-1] - 1)


@sampling.misconception
def from_the_other_end(logits, temperature, u):
    """You lay the pieces out from the last token to the first. Token 0 begins at 0."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= 1 - u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def returns_the_rank(logits, temperature, u):
    """You sort the probabilities first, and what you return is a place in the sorted list, not the token's own id."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1).sort(dim=-1, descending=True).values
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def sorted_first(logits, temperature, u):
    """You lay the pieces out by falling probability. That draws fairly too, but here the order is that of the ids,
    token 0 first, so that everybody draws the same."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities, order = (logits / temperature).softmax(dim=-1).sort(dim=-1, descending=True)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return order.gather(1, passed.sum(dim=-1, keepdim=True)).squeeze(1)


@sampling.misconception
def softmax_over_the_batch(logits, temperature, u):
    """Your softmax runs over the rows of the batch. Each row is a distribution of its own, over the vocabulary."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=0)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def one_lot_for_all(logits, temperature, u):
    """Every row is drawn with the first number of u. Each row has its own."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[0]
    return passed.sum(dim=-1)


@sampling.misconception
def lots_along_the_vocabulary(logits, temperature, u):
    """Your u runs along the vocabulary instead of down the rows: it needs a new axis behind it, (batch, 1)."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u
    return passed.sum(dim=-1)


@sampling.misconception
def draws_the_impossible(logits, temperature, u):
    """For u = 0 you draw a token whose probability is 0. Its piece has no length, so it ends at u and does not hold it:
    the running sum has to be greater than u."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends < u[:, None]
    return passed.sum(dim=-1)


@sampling.misconception
def keeps_an_axis(logits, temperature, u):
    """Your result has an axis of length 1 left over. One number for each row is wanted: (batch,)."""
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return passed.sum(dim=-1, keepdim=True)


@sampling.misconception
def returns_the_probability(logits, temperature, u):
    """You return the probability of the token that was drawn. Its id is wanted."""
    if temperature == 0:
        return logits.softmax(dim=-1).amax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)
    ends = probabilities.cumsum(dim=-1)
    ends = ends / ends[:, -1:]
    passed = ends <= u[:, None]
    return probabilities.gather(1, passed.sum(dim=-1, keepdim=True)).squeeze(1)


@sampling.alternative
def by_searchsorted(logits, temperature, u):
    if temperature == 0:
        return logits.max(dim=-1).indices
    ends = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
    return torch.searchsorted(ends, u.unsqueeze(1), right=True).squeeze(1)


@sampling.alternative
def walking_along_the_line(logits, temperature, u):
    drawn = []
    for row, lot in zip(logits.tolist(), u.tolist(), strict=True):
        if temperature == 0:
            drawn.append(row.index(max(row)))
            continue
        weights = [math.exp((value - max(row)) / temperature) for value in row]
        rest = lot * sum(weights)
        for token, weight in enumerate(weights):  # noqa: B007
            if rest < weight:
                break
            rest -= weight
        drawn.append(token)
    return torch.tensor(drawn)


@sampling.alternative
def first_end_behind_u(logits, temperature, u):
    if temperature < 1e-6:
        return logits.argmax(-1).int()
    p = F.softmax(logits.float() / temperature, dim=1)
    return (p.cumsum(1) > u.float()[:, None]).int().argmax(dim=1)


@sampling.alternative
def by_comparing_with_a_triangle(logits, temperature, u):
    if temperature == 0:
        best = logits == logits.max(dim=1, keepdim=True).values
        return best.nonzero()[:, 1]
    p = (logits / temperature - (logits / temperature).logsumexp(1, keepdim=True)).exp()
    before = p @ torch.ones(p.shape[1], p.shape[1]).to(p).triu(1)  # the sum of the earlier ones
    inside = (before <= u[:, None]) & (u[:, None] < before + p)
    return inside.double().argmax(dim=1)


# --- top_k_filter ---------------------------------------------------------------------------------------

top_k = Exercise(
    decoding.top_k_filter,
    cases=[
        {"logits": torch.tensor([[1.0, 3.0, -2.0, 2.0]]).double(), "k": 2},
        {"logits": distinct(3, 6, seed=77), "k": 3},
        {"logits": distinct(2, 4, 7, seed=72, scale=3) - 4, "k": 1},
        {"logits": distinct(5, seed=73, scale=2) + 2, "k": 4},
    ],
    minutes=5,
    difficulty=1,
    hints=[
        "How large is the smallest logit that stays? Everything below it has to go.",
        "logits.topk(k, dim=-1).values are the k largest of each row, in falling order. The last of them is the limit.",
        "Keep an axis of length 1 for the limit, (..., 1), so that each row is compared with its own. k may be larger "
        "than the vocabulary: min(k, logits.shape[-1]).",
        "logits.masked_fill(logits < smallest_kept, -math.inf).",
    ],
)


def filtered(subject, *arguments):
    """The student's logits and which tokens have a probability above 0 in them."""
    got = expect_floats(subject(*arguments), tuple(arguments[0].shape))
    probabilities = got.double().softmax(dim=-1)
    expect(
        not probabilities.isnan().any(),
        "A row of your result is -inf everywhere: no token is left in it. At least one has to stay.",
    )
    return got, probabilities > 1e-12


def expect_tokens_left(left, want, logits):
    """The tokens that are left are those that should be."""
    if torch.equal(left, want):
        return
    *row, _ = (int(i) for i in (left != want).nonzero()[0])
    tokens = [mask[tuple(row)].nonzero().flatten().tolist() for mask in (want, left)]
    values = [round(value, 3) for value in logits[tuple(row)].tolist()]
    raise Failure(f"Of the logits {values} the tokens {tokens[0]} should be left, but yours leaves {tokens[1]}.")


def expect_kept_unchanged(got, left, logits):
    """What is left has its old logit."""
    same = torch.isclose(got.double(), logits, rtol=1e-4, atol=1e-5) | ~left
    if not same.all():
        place = tuple(int(i) for i in (~same).nonzero()[0])
        raise Failure(
            f"A token that is left keeps its logit: at index {list(place)} it was {logits[place]:.4g}, "
            f"yours is {got[place]:.4g}."
        )


@top_k.property("the result has the shape of the logits", points=1)
def top_k_shape(subject, case):
    filtered(subject, *case.values())


@top_k.property("in each row exactly k tokens are left; the others have probability 0", points=1)
def top_k_count(subject, case):
    _, left = filtered(subject, *case.values())
    counts = left.sum(dim=-1).flatten().tolist()
    expect(
        set(counts) == {case["k"]},
        f"k is {case['k']}, but after the softmax {counts} tokens have a probability above 0.",
    )


@top_k.property("these are the k most likely ones", points=1)
def top_k_which(subject, case):
    _, left = filtered(subject, *case.values())
    expect_tokens_left(left, decoding.top_k_filter(*case.values()).isfinite(), case["logits"])


@top_k.property("their logits are unchanged", points=1)
def top_k_values(subject, case):
    got, left = filtered(subject, *case.values())
    expect_kept_unchanged(got, left, case["logits"])


@top_k.property("if k is larger than the vocabulary, everything is left", points=1)
def top_k_all(subject, case):
    logits = case["logits"]
    got, left = filtered(subject, logits, logits.shape[-1] + 2)
    expect_tokens_left(left, torch.ones_like(left), logits)
    expect_kept_unchanged(got, left, logits)


@top_k.misconception
def fills_with_zero(logits, k):
    """The removed tokens get a logit of about 0, and that is an ordinary logit: exp(0) = 1. For probability 0 the logit
    has to be -inf, or very far below zero."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, 0.0)


@top_k.misconception
def fills_with_plus_infinity(logits, k):
    """The removed tokens get the logit +inf, which is as likely as can be. It is -inf that removes."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, math.inf)


@top_k.misconception
def compares_with_the_largest(logits, k):
    """Only the best token is left: you compare with the largest of the k, and the limit is the smallest of them."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., :1]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def drops_the_last_one(logits, k):
    """Only k - 1 tokens are left: the k-th best itself has to stay. Compare with <, not with <=."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits <= smallest_kept, -math.inf)


@top_k.misconception
def keeps_one_more(logits, k):
    """There are k + 1 tokens left. Count from 1: the k-th largest is the last that stays."""
    largest = logits.topk(min(k + 1, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def removes_the_best(logits, k):
    """It is the other way round: you remove the k most likely tokens and leave the others."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits >= smallest_kept, -math.inf)


@top_k.misconception
def keeps_the_smallest(logits, k):
    """The k least likely tokens are left. Take the largest logits."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1, largest=False).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits > smallest_kept, -math.inf)


@top_k.misconception
def one_limit_for_all(logits, k):
    """You take the k largest of the whole batch. Each row has its own k, and its own limit."""
    largest = logits.flatten().topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def along_the_first_axis(logits, k):
    """You compare along the first axis, across the sentences. The vocabulary is the last axis."""
    largest = logits.topk(min(k, logits.shape[0]), dim=0).values
    smallest_kept = largest[-1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def returns_the_k_values(logits, k):
    """You return the k values alone, and with them the knowledge which tokens they belong to is gone. The result has
    the whole vocabulary, -inf where a token is removed."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    return largest


@top_k.misconception
def returns_in_falling_order(logits, k):
    """Your result is sorted: the logits no longer stand at their tokens' places."""
    logits = logits.sort(dim=-1, descending=True).values
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.misconception
def returns_probabilities(logits, k):
    """These are probabilities. Logits are wanted: the softmax comes later, when a token is drawn."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf).softmax(dim=-1)


@top_k.misconception
def returns_log_probabilities(logits, k):
    """The logits that are left have changed: you normalised them. Leave that to the softmax of whoever draws."""
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf).log_softmax(dim=-1)


@top_k.misconception
def fails_for_a_large_k(logits, k):
    """There cannot be more tokens than the vocabulary has: a k larger than it is an error in topk. Then everything
    stays."""
    largest = logits.topk(k, dim=-1).values
    smallest_kept = largest[..., -1:]
    return logits.masked_fill(logits < smallest_kept, -math.inf)


@top_k.alternative
def by_sorting(logits, k):
    limit = logits.sort(dim=-1, descending=True).values[..., :k][..., -1].unsqueeze(-1)
    return torch.where(logits >= limit, logits, torch.finfo(logits.dtype).min)


@top_k.alternative
def by_scattering(logits, k):
    values, places = torch.topk(logits, min(k, logits.size(-1)))
    return torch.full_like(logits, -1e9).scatter_(-1, places, values)


@top_k.alternative
def by_rank(logits, k):
    rank = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
    return logits + torch.zeros_like(logits).masked_fill(rank >= k, -math.inf)


@top_k.alternative
def by_kthvalue(logits, k):
    vocab = logits.shape[-1]
    if k >= vocab:
        return logits.clone()
    limit = logits.kthvalue(vocab - k + 1, dim=-1, keepdim=True).values
    result = logits.clone()
    result[result < limit] = float("-inf")
    return result.float()


# --- top_p_filter ---------------------------------------------------------------------------------------

top_p = Exercise(
    decoding.top_p_filter,
    cases=[
        {"logits": torch.tensor([[0.1, 0.45, 0.15, 0.3]]).double().log(), "p": 0.7},
        {"logits": distinct(3, 6, seed=81), "p": 0.8},
        {"logits": distinct(4, 5, seed=82, scale=2), "p": 0.3},
        {"logits": distinct(2, 3, 7, seed=83, scale=1.5), "p": 0.95},
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Sort the logits, largest first, and take the softmax. Now the sum of the probabilities so far grows from left "
        "to right, and somewhere it reaches p.",
        "A token stays if the tokens before it have less than p together. What they have is the running sum without "
        "the token itself.",
        "falling, order = logits.sort(dim=-1, descending=True). Set falling to -inf where "
        "cumsum - probabilities >= p. Then everything has to go back to its own place.",
        "torch.empty_like(logits).scatter(-1, order, falling) puts the sorted values back: it writes falling[i] at "
        "place order[i].",
    ],
)


@top_p.property("the result has the shape of the logits, and a token is left in every row", points=1)
def top_p_shape(subject, case):
    filtered(subject, *case.values())


@top_p.property("the most likely token is always left", points=1)
def top_p_best(subject, case):
    logits = case["logits"]
    _, left = filtered(subject, *case.values())
    best = logits.argmax(dim=-1, keepdim=True)
    gone = ~left.gather(-1, best)
    if gone.any():
        place = tuple(int(i) for i in gone.nonzero()[0])[:-1]
        expect(False, f"In row {list(place)} token {int(best[place])} is the most likely one, but you removed it.")


@top_p.property("the tokens that are left have the probability p or more together, and none is too many", points=2)
def top_p_mass(subject, case):
    logits, p = case.values()
    _, left = filtered(subject, *case.values())
    probabilities = logits.softmax(dim=-1)
    mass = (probabilities * left).sum(dim=-1)
    least = probabilities.masked_fill(~left, math.inf).amin(dim=-1)
    for total, smallest in zip(mass.flatten().tolist(), least.flatten().tolist(), strict=True):
        expect(
            total >= p,
            f"p is {p}, but in one row the tokens that are left have only {total:.4g} together.",
        )
        expect(
            total - smallest < p,
            f"p is {p}. In one row the tokens that are left have {total:.4g} together, and without the least likely of "
            f"them still {total - smallest:.4g}: it is too many.",
        )


@top_p.property("exactly the fewest possible tokens are left, the most likely first", points=1)
def top_p_which(subject, case):
    _, left = filtered(subject, *case.values())
    expect_tokens_left(left, decoding.top_p_filter(*case.values()).isfinite(), case["logits"])


@top_p.property("their logits are unchanged", points=1)
def top_p_values(subject, case):
    got, left = filtered(subject, *case.values())
    expect_kept_unchanged(got, left, case["logits"])


@top_p.misconception
def drops_the_token_that_crosses(logits, p):
    """You remove the token with which the sum crosses p. Without it the sum is below p, and if the very first token is
    above p, nothing is left at all."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1)
    falling = falling.masked_fill(before > p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def drops_it_but_saves_the_first(logits, p):
    """You remove the token with which the sum crosses p, except if it is the first. It always stays: only what comes
    after it is too many."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1)
    before[..., 0] = 0.0
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def keeps_one_token_too_many(logits, p):
    """One token too many is left: the sum had reached p before it."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    before = torch.cat([torch.zeros_like(before[..., :1]), before[..., :-1]], dim=-1)
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def does_not_sort(logits, p):
    """You add up the probabilities in the order of the ids. Then a token stays because its id is small: sort first."""
    falling, order = logits, torch.arange(logits.shape[-1]).expand(logits.shape)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def sorts_upwards(logits, p):
    """You begin with the least likely tokens. Sort the other way: the most likely one comes first."""
    falling, order = logits.sort(dim=-1, descending=False)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def stays_sorted(logits, p):
    """The right number of tokens is left, but the result is still sorted: each logit has to go back to its own
    token's place."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return falling


@top_p.misconception
def gathers_instead_of_scattering(logits, p):
    """You put the sorted values back with the wrong map: order says where each came from, and indexing with it sorts
    once more. It has to be undone: scatter, or index with order.argsort()."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return falling.gather(dim=-1, index=order)


@top_p.misconception
def removes_in_the_wrong_places(logits, p):
    """You decide on the sorted tokens, and remove on the unsorted ones. The mask has to go back to the tokens' own
    places first."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    return logits.masked_fill(before >= p, -math.inf)


@top_p.misconception
def adds_up_logits(logits, p):
    """You add up logits. It is probabilities that sum to 1: softmax first."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def softmax_over_the_rows(logits, p):
    """Your softmax runs over the first axis. Each row is a distribution of its own, over the vocabulary."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=0)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def each_token_against_p(logits, p):
    """You compare each probability with p by itself. It is their sum, most likely first, that has to reach p."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    falling = falling.masked_fill((probabilities < p) & (probabilities < probabilities[..., :1]), -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def leaves_out_p(logits, p):
    """You cut off at 1 - p instead of p: the tokens that are left have the probability 1 - p or more together."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= 1 - p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def removes_the_head(logits, p):
    """It is the other way round: you remove the likely tokens and leave the tail."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before < p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def removed_ones_get_zero(logits, p):
    """The removed tokens get a logit of about 0, and that is an ordinary logit: exp(0) = 1. For probability 0 the logit
    has to be -inf, or very far below zero."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, 0.0)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def gives_back_probabilities(logits, p):
    """These are probabilities. Logits are wanted: unchanged for the tokens that stay, -inf for the others."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = probabilities.masked_fill(before >= p, 0.0)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def gives_back_log_probabilities(logits, p):
    """The logits that are left have changed: you normalised them. Leave that to the softmax of whoever draws."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = probabilities.log().masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.alternative
def row_by_row(logits, p):
    result = torch.full_like(logits, -math.inf)
    rows, kept = logits.reshape(-1, logits.shape[-1]), result.view(-1, logits.shape[-1])
    for i, row in enumerate(rows):
        total = 0.0
        probabilities = row.softmax(dim=0)
        for token in row.argsort(descending=True).tolist():
            if total >= p:
                break
            kept[i, token] = row[token]
            total += float(probabilities[token])
    return result


@top_p.alternative
def shifted_mask_and_scatter(logits, p):
    ordered, places = torch.sort(logits, descending=True)
    remove = ordered.softmax(-1).cumsum(-1) > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(torch.zeros_like(remove).scatter(-1, places, remove), -1e9)


@top_p.alternative
def by_the_inverse_order(logits, p):
    places = logits.argsort(dim=-1, descending=True)
    probabilities = logits.softmax(dim=-1).gather(-1, places)
    before = F.pad(probabilities.cumsum(dim=-1), (1, -1))
    keep = (before < p).gather(-1, places.argsort(dim=-1))
    return torch.where(keep, logits, float("-inf")).float()


@top_p.alternative
def by_all_pairs(logits, p):
    """What the more likely tokens have together, by comparing every token with every other."""
    probabilities = logits.softmax(dim=-1)
    larger = probabilities[..., None, :] > probabilities[..., :, None]
    before = (larger * probabilities[..., None, :]).sum(dim=-1)
    return logits.masked_fill(before >= p, torch.finfo(logits.dtype).min)


@top_p.alternative
def sorted_upwards_from_the_tail(logits, p):
    rising, order = logits.sort(dim=-1)
    tail = rising.softmax(dim=-1).cumsum(dim=-1)
    rising = rising.masked_fill(tail <= 1 - p, -math.inf)
    return rising.gather(-1, order.argsort(-1))


# --- CachedAttention ------------------------------------------------------------------------------------


def pieces_case(batch, sizes, d_model, num_heads, seed):
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        "x": normal(batch, sum(sizes), d_model, seed=seed),
        "sizes": sizes,
    }


caching = Exercise(
    decoding.CachedAttention,
    cases=[
        pieces_case(2, [2, 3, 2], d_model=6, num_heads=3, seed=91),
        pieces_case(3, [1, 4], d_model=8, num_heads=2, seed=92),
        pieces_case(1, [3, 1, 1, 2], d_model=4, num_heads=1, seed=93),
    ],
    minutes=15,
    difficulty=3,
    hints=[
        "Write it without a cache first: project, split the heads, causal attention, merge, w_o. That is worth points "
        "already, if you return (output, (k, v)).",
        "Then the cache: the new keys are put behind the old ones, torch.cat([old_k, k], dim=2), the values likewise. "
        "The queries are only those of the new piece.",
        "Now the scores are (new, seen), not square. The last new position sees everything, the one before it "
        "everything but the last key, and so on: on which diagonal does the triangle end?",
        "torch.tril(torch.ones(new, seen, dtype=torch.bool), diagonal=seen - new) is the mask. With one new token it is "
        "a row of True.",
    ],
)


@functools.cache
def cache_weights(d_model, num_heads):
    return AttentionWeights.random(d_model, num_heads, seed=101)


def right_output(case):
    """The output for the whole sequence at once."""
    return whole_sequence(case["d_model"], case["num_heads"], case["x"])


@functools.lru_cache(maxsize=32)
def whole_sequence(d_model, num_heads, x):
    module = decoding.CachedAttention(d_model, num_heads).double()
    module.load_state_dict(cache_weights(d_model, num_heads).named())
    with torch.no_grad():
        return module(x)[0]


def built_with_cache(subject, case):
    built = subject.build(case["d_model"], case["num_heads"])
    weights = cache_weights(case["d_model"], case["num_heads"])
    if not load_weights(built, weights, (case["x"],), right_output(case)):
        shapes = ", ".join(f"{name} {shape}" for name, shape in built.shapes().items())
        raise Failure(
            f"The check fills your parameters with its own numbers and does not know this way to keep them: {shapes}. "
            "Four nn.Linear(d_model, d_model) called w_q, w_k, w_v and w_o are always understood."
        )
    return built


def next_piece(built, piece, *cache):
    """Output and cache for one more piece."""
    output, cache = expect_tuple(built(piece, *cache), ("output", "cache"))
    output = expect_floats(output, tuple(piece.shape), "the output")
    expect(
        cache is not None, "The cache that you return is None. The next piece needs the keys and values of this one."
    )
    return output, cache


def in_pieces(built, x, sizes):
    """The outputs for a sequence given piece by piece, side by side, and the last cache."""
    outputs, cache = [], ()
    for piece in x.split(sizes, dim=1):
        output, cache = next_piece(built, piece, *cache)
        cache = (cache,)
        outputs.append(output)
    return torch.cat(outputs, dim=1), cache[0]


def numbers_in(cache):
    """How many numbers a cache holds, however it is packed."""
    if isinstance(cache, Tensor):
        return cache.numel()
    if isinstance(cache, tuple | list):
        return sum(map(numbers_in, cache))
    if isinstance(cache, dict):
        return sum(map(numbers_in, cache.values()))
    return 0


@caching.property("it returns (output, cache), and the output is (batch, new, d_model)", points=1)
def cache_form(subject, case):
    next_piece(built_with_cache(subject, case), case["x"])


@caching.property("a whole sequence at once: causal self-attention", points=1)
def cache_whole(subject, case):
    output, _ = next_piece(built_with_cache(subject, case), case["x"])
    expect_close(output, right_output(case), "the output for the whole sequence, without a cache,")


@caching.property("token by token, each with the cache of the one before: the same output", points=2)
def cache_tokens(subject, case):
    x = case["x"]
    output, _ = in_pieces(built_with_cache(subject, case), x, [1] * x.shape[1])
    expect_close(output, right_output(case), "the output, token by token with a cache,")


@caching.property("in pieces of any size: the same output", points=2)
def cache_pieces(subject, case):
    output, _ = in_pieces(built_with_cache(subject, case), case["x"], case["sizes"])
    expect_close(output, right_output(case), f"the output in pieces of {case['sizes']} tokens")


@caching.property("the cache holds the keys and values of all positions so far", points=1)
def cache_size(subject, case):
    x = case["x"]
    _, cache = in_pieces(built_with_cache(subject, case), x, case["sizes"])
    batch, time, d_model = x.shape
    expect(
        numbers_in(cache) == 2 * x.numel(),
        f"After {time} positions of {batch} sequences the cache holds keys and values, 2 · {batch} · {time} · {d_model} "
        f"= {2 * x.numel()} numbers. Yours holds {numbers_in(cache)}.",
    )


@caching.property("a new sequence begins with nothing, and one cache can be continued in two ways", points=1)
def cache_is_not_shared(subject, case):
    x, first = case["x"], case["sizes"][0]
    built = built_with_cache(subject, case)
    start, cache = next_piece(built, x[:, :first])
    other, _ = next_piece(built, x.flip(1))  # another sequence, in between
    again, _ = next_piece(built, x[:, first:].flip(1), cache)
    rest, _ = next_piece(built, x[:, first:], cache)
    expect_close(other, right_output({**case, "x": x.flip(1)}), "the output for a second sequence, begun with None,")
    turned = torch.cat([x[:, :first], x[:, first:].flip(1)], dim=1)
    expect_close(again, right_output({**case, "x": turned})[:, first:], "the output for one way to go on")
    expect_close(rest, right_output(case)[:, first:], "the output for another way to go on with the same cache")


@caching.misconception
class ignores_the_cache(nn.Module):
    """You accept the cache and never use it: each piece sees only itself."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class mask_begins_at_the_first_key(nn.Module):
    """Your causal triangle begins at the first key of all. The new positions come after the cached ones, so the
    triangle has to end at the last key: a single new token sees everything."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=0)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class no_mask_at_all(nn.Module):
    """Within a piece each position sees its own future: a cache does not replace the causal mask."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class masks_only_without_a_cache(nn.Module):
    """With a cache you leave the mask out. That is right for a single token; in a piece of several, the earlier ones
    must not see the later ones."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new if cache is None else seen)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class sees_one_too_far(nn.Module):
    """Each new position sees one step into its future: your triangle reaches one diagonal too far."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new + 1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class does_not_see_itself(nn.Module):
    """A new position does not see itself: your triangle ends one diagonal too early."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new - 1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class keeps_the_last_piece_only(nn.Module):
    """Your cache holds the last piece alone: what came before it is forgotten. The new keys and values are added to the
    old ones, they do not replace them."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        latest = (k, v)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), latest


@caching.misconception
class new_ones_come_first(nn.Module):
    """You put the new keys and values in front of the old ones. The order is the order of the sequence, and the mask
    counts on it: old first."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([k, old_k], dim=2)
            v = torch.cat([v, old_v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class keys_and_values_in_different_order(nn.Module):
    """Keys and values do not stand in the same order: a weight for one position meets the value of another."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([v, old_v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class joins_the_wrong_axis(nn.Module):
    """You put old and new together along the batch. A sequence grows along its time axis: (batch, head, time, d_k)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=0)
            v = torch.cat([old_v, v], dim=0)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class joins_the_heads(nn.Module):
    """You put old and new together along the heads. A sequence grows along its time axis: (batch, head, time, d_k)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=1)
            v = torch.cat([old_v, v], dim=1)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class remembers_keys_but_not_values(nn.Module):
    """Old keys are found, but their values are missing: both have to be kept."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([torch.zeros_like(old_v), v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class values_and_keys_change_places(nn.Module):
    """Keys and values change places in your cache: what goes in first has to come out first."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (v, k)


@caching.misconception
class caches_the_queries_too(nn.Module):
    """Your queries grow with the cache, and you compute the old positions' outputs again. Only the new positions ask;
    keys and values are all that has to be kept."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_q, old_k, old_v = cache
            q = torch.cat([old_q, q], dim=2)
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (q, k, v)


@caching.misconception
class remembers_the_input(nn.Module):
    """You keep the inputs and project all of them again for every piece. The output is right, but that is the very work
    that a cache saves: keep the keys and values."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        if cache is not None:
            x = torch.cat([cache, x], dim=1)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), x


@caching.misconception
class never_begins_anew(nn.Module):
    """Your module keeps the cache to itself and does not look at the one that it is given: a second sequence sees the
    first one's keys, and nobody can start anew."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if getattr(self, "kept", None) is not None:
            old_k, old_v = self.kept
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        self.kept = (k, v)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class a_cache_is_never_empty(nn.Module):
    """You read the cache without asking whether there is one. A sequence begins with cache = None."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        old_k, old_v = cache
        k = torch.cat([old_k, k], dim=2)
        v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class forgets_the_scale(nn.Module):
    """The scores are not divided by √d_k."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=1.0)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class scale_of_the_whole_model(nn.Module):
    """You divide the scores by √d_model. Each head works with d_k = d_model / num_heads features: divide by √d_k."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=x.shape[-1] ** -0.5)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class forgets_the_last_projection(nn.Module):
    """The heads' results come out as they are: w_o is never applied."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return merge_heads(heads), (k, v)


@caching.misconception
class one_head_for_all(nn.Module):
    """You do not split the heads: num_heads plays no part."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = 1
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class returns_no_cache(nn.Module):
    """You return the output alone. The cache comes with it: (output, cache)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads))


@caching.alternative
class OnePackedProjection(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        if cache:
            k, v = (torch.cat(pair, dim=-2) for pair in zip(cache, (k, v), strict=True))
        positions = torch.arange(k.shape[-2])
        future = positions > positions[-t:, None]
        scores = (q @ k.mT / math.sqrt(d // self.h)).masked_fill(future, -1e9)
        y = scores.softmax(dim=-1) @ v
        return self.out(y.permute(0, 2, 1, 3).flatten(2)), [k, v]


@caching.alternative
class CacheBeforeSplitting(nn.Module):
    """Keeps keys and values as (batch, seen, d_model), in a dictionary, and splits them each time."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        now = {"k": self.key(x), "v": self.value(x)}
        if cache is not None:
            now = {name: torch.cat([cache[name], now[name]], dim=1) for name in now}
        q, k, v = (split_heads(t, self.heads) for t in (self.query(x), now["k"], now["v"]))
        mask = torch.ones(x.shape[1], k.shape[2]).tril(k.shape[2] - x.shape[1])
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = (scores + mask.log()).softmax(dim=-1)
        return self.proj(merge_heads(weights @ v)), now


@caching.alternative
class QueryAfterQuery(nn.Module):
    """Each new position attends to what there is when its turn comes: no mask needed."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        keys, values = cache if cache is not None else (k[:, :, :0], v[:, :, :0])
        outputs = []
        for t in range(x.shape[1]):
            keys = torch.cat([keys, k[:, :, t : t + 1]], dim=2)
            values = torch.cat([values, v[:, :, t : t + 1]], dim=2)
            scores = q[:, :, t : t + 1] @ keys.transpose(2, 3) * q.shape[-1] ** -0.5
            outputs.append(scores.softmax(dim=-1) @ values)
        return self.w_o(merge_heads(torch.cat(outputs, dim=2))), (keys, values)


@caching.alternative
class OneTensorForBoth(nn.Module):
    """Keys and values stacked in one tensor."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_kv = nn.Linear(d_model, 2 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        new = x.shape[1]
        kv = torch.stack([split_heads(part, self.num_heads) for part in self.to_kv(x).chunk(2, dim=-1)])
        if cache is not None:
            kv = torch.cat([cache, kv], dim=-2)
        seen = kv.shape[-2]
        mask = torch.arange(seen)[None, :] <= torch.arange(seen - new, seen)[:, None]
        y = F.scaled_dot_product_attention(split_heads(self.to_q(x), self.num_heads), kv[0], kv[1], attn_mask=mask)
        return self.to_out(y.transpose(1, 2).reshape(x.shape)), kv


# --- count_scores ---------------------------------------------------------------------------------------

counting = Exercise(
    decoding.count_scores,
    cases=[{"n": 1, "use_cache": True}, {"n": 3, "use_cache": False}, {"n": 10, "use_cache": True}],
    minutes=4,
    difficulty=1,
    hints=[
        "Write n = 3 on paper. To write token 1 the model has 1 position in front of it (BOS), for token 2 it has 2, "
        "for token 3 it has 3. How many queries ask, and how many keys answer, at each step?",
        "Without a cache at step t: t queries and t keys, t · t scores. With a cache: 1 query and t keys.",
        "Add up over t = 1 … n. For n = 3: 1 + 4 + 9 = 14 without, 1 + 2 + 3 = 6 with a cache.",
    ],
)


def counted(subject, n, use_cache):
    got = subject(n, use_cache)
    want = decoding.count_scores(n, use_cache)
    expect_equal(got, want, f"the number of scores for n = {n} {'with' if use_cache else 'without'} a cache")


@counting.property("one token costs one score, with and without a cache", points=1)
def count_one(subject, case):
    counted(subject, 1, True)
    counted(subject, 1, False)


@counting.property("two tokens cost 1 + 2 scores with a cache, 1 + 4 without", points=1)
def count_two(subject, case):
    counted(subject, 2, True)
    counted(subject, 2, False)


@counting.property("n tokens with a cache", points=1)
def count_cached(subject, case):
    counted(subject, case["n"], True)


@counting.property("n tokens without a cache", points=1)
def count_uncached(subject, case):
    counted(subject, case["n"], False)


@counting.misconception
def the_last_step_only(n, use_cache):
    """You count the last step alone. The steps before it cost something too: add them up."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total = queries * keys
    return total


@counting.misconception
def all_steps_as_long_as_the_last(n, use_cache):
    """You count every step as if all n positions were there already. At step t there are only t."""
    total = 0
    for t in range(1, n + 1):  # noqa: B007
        queries = 1 if use_cache else n
        keys = n
        total += queries * keys
    return total


@counting.misconception
def cache_makes_no_difference(n, use_cache):
    """The cache makes no difference in your count: with it there is a single query at each step."""
    total = 0
    for t in range(1, n + 1):
        queries = t
        keys = t
        total += queries * keys
    return total


@counting.misconception
def always_cached(n, use_cache):
    """You count one query at each step, with and without a cache. Without it every position asks again."""
    total = 0
    for t in range(1, n + 1):
        queries = 1
        keys = t
        total += queries * keys
    return total


@counting.misconception
def the_other_way_round(n, use_cache):
    """It is the other way round: with a cache there is one query at a time, without it all t positions ask again."""
    total = 0
    for t in range(1, n + 1):
        queries = t if use_cache else 1
        keys = t
        total += queries * keys
    return total


@counting.misconception
def one_key_with_a_cache(n, use_cache):
    """With a cache you count one score at each step, as for an RNN. The new query still meets the keys of all t
    positions."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = 1 if use_cache else t
        total += queries * keys
    return total


@counting.misconception
def forgets_bos(n, use_cache):
    """You count t - 1 positions at step t. BOS is there before the first token, so at step t there are t."""
    total = 0
    for t in range(n):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total


@counting.misconception
def one_step_too_many(n, use_cache):
    """You count one step too many: n tokens take n steps, t = 1 … n."""
    total = 0
    for t in range(1, n + 2):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total


@counting.misconception
def half_of_the_square(n, use_cache):
    """Without a cache you count only the pairs that the causal mask allows. The scores are computed first, all t · t of
    them, and masked after that."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys if use_cache else queries * (keys + 1) // 2
    return total


@counting.misconception
def does_not_see_its_own_key(n, use_cache):
    """With a cache you count t - 1 keys at step t: the new position sees itself as well."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t - 1 if use_cache else t
        total += queries * keys
    return total


@counting.misconception
def square_in_total(n, use_cache):
    """Without a cache you count n · n in all. That is the last step alone: every step before it costs its own
    square."""
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        keys = t
        total += queries * keys
    return total if use_cache else n * n


@counting.alternative
def by_formulas(n, use_cache):
    return n * (n + 1) // 2 if use_cache else n * (n + 1) * (2 * n + 1) // 6


@counting.alternative
def as_a_sum(n, use_cache):
    return sum(t if use_cache else t**2 for t in range(n + 1))


@counting.alternative
def with_tensors(n, use_cache):
    t = torch.arange(1, n + 1)
    return t.sum() if use_cache else (t * t).sum()


@counting.alternative
def by_counting_pairs(n, use_cache):
    return len([0 for t in range(n) for q in range(t + 1) for k in range(t + 1) if q == t or not use_cache])


# --- rnn_influence --------------------------------------------------------------------------------------

forgetting = Exercise(
    decoding.rnn_influence,
    cases=[
        {"n": 4, "a": 0.5, "b": 2.0},
        {"n": 1, "a": 0.9, "b": 3.0},
        {"n": 6, "a": -0.8, "b": 0.5},
        {"n": 5, "a": 1.2, "b": -1.0},
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "Write out n = 3: h_3 = a h_2 + b x_3 = a (a h_1 + b x_2) + b x_3 = a² b x_1 + a b x_2 + b x_3.",
        "The newest input has the factor b. Each step further back has one more factor a.",
        "The exponents of a, from the first input to the last, are n - 1, n - 2, …, 1, 0.",
        "b * a ** torch.arange(n - 1, -1, -1), with a tensor of floating point numbers.",
    ],
)


def influence(subject, case):
    return expect_floats(subject(*case.values()), (case["n"],))


@forgetting.property("the result has one number for each input: (n,)", points=1)
def influence_shape(subject, case):
    influence(subject, case)


@forgetting.property("the last input counts b", points=1)
def influence_last(subject, case):
    last = float(influence(subject, case)[-1])
    expect_equal(last, case["b"], "the influence of the last input")


@forgetting.property("one step further back, the influence is a times as large", points=1)
def influence_ratio(subject, case):
    got = influence(subject, case).double()
    expect_close(got[:-1], case["a"] * got[1:], "your influence of each input but the last")


@forgetting.property("all of them are a^(n - t) · b", points=1)
def influence_values(subject, case):
    expect_close(subject(*case.values()), decoding.rnn_influence(*case.values()))


@forgetting.misconception
def newest_first(n, a, b):
    """It is the right list in reverse: entry 0 belongs to the first, oldest input, which has been weakened most."""
    age = torch.arange(0, n)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def one_factor_too_many(n, a, b):
    """Each input has one factor a too many. The last input comes in without any: h_n = … + b x_n."""
    age = n - torch.arange(0, n)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def weakened_from_the_start(n, a, b):
    """The last input has been weakened most: your exponent is the input's number, and it should be its age."""
    age = torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def forgets_b(n, a, b):
    """The factor b is missing: an input comes in as b x_t."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept


@forgetting.misconception
def b_at_every_step(n, a, b):
    """You multiply by b at every step. An input is multiplied by b once, when it comes in, and by a from then on."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a * b, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def multiplies_by_the_age(n, a, b):
    """You multiply a by the age. Every step multiplies by a once more, which makes a power."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) * age
    return kept * b


@forgetting.misconception
def fades_in_a_straight_line(n, a, b):
    """You take the same amount off at every step. The recurrence multiplies: the same *share* is kept at every step."""
    age = n - torch.arange(1, n + 1)
    kept = 1 - (1 - torch.tensor(a, dtype=torch.float64)) * age
    return kept * b


@forgetting.misconception
def loses_the_sign(n, a, b):
    """The sign of a is lost. A negative a makes the influence change its sign at every step."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(abs(a), dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def all_alike(n, a, b):
    """Every input counts the same in your answer. Each step multiplies what was there before by a."""
    age = n - torch.arange(1, n + 1)
    kept = torch.ones(n, dtype=torch.float64)
    return kept * b


@forgetting.misconception
def adds_them_up(n, a, b):
    """You return running sums. Each input's own influence is wanted, not that of all before it together."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return (kept * b).cumsum(0)


@forgetting.misconception
def normalised_to_one(n, a, b):
    """You made the influences sum to 1, as the weights of attention do. An RNN does not normalise them."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept / kept.sum() * b


@forgetting.alternative
def by_autograd(n, a, b):
    x = torch.zeros(n, requires_grad=True)
    h = torch.zeros(())
    for t in range(n):
        h = a * h + b * x[t]
    (slope,) = torch.autograd.grad(h, x)
    return slope


@forgetting.alternative
def by_one_impulse_after_the_other(n, a, b):
    influences = []
    for pulse in range(n):
        h = 0.0
        for t in range(n):
            h = a * h + b * (t == pulse)
        influences.append(h)
    return torch.tensor(influences)


@forgetting.alternative
def by_repeated_multiplication(n, a, b):
    factors = torch.full((n,), a)
    factors[0] = b
    return factors.cumprod(dim=0).flip(0)


@forgetting.alternative
def as_a_list_of_powers(n, a, b):
    return torch.tensor([b * a ** (n - 1 - i) for i in range(n)], dtype=torch.float64)


# --- bleu -----------------------------------------------------------------------------------------------


def sentences(*texts):
    return [text.split() for text in texts]


measuring = Exercise(
    decoding.bleu,
    cases=[
        {
            "hypotheses": sentences("the cat sees a small dog"),
            "references": sentences("the cat sees a small dog now"),
        },
        {
            "hypotheses": sentences("le chat voit le chien noir et le chat", "il ne dort pas"),
            "references": sentences("le chat noir voit le chien noir", "il ne dort pas ici"),
        },
        {
            "hypotheses": sentences("a b c d e a b c", "a b", "x y z b c d e"),
            "references": sentences("a b c d e", "a b c d e f g", "y b c d e x"),
        },
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Two parts: the precisions p_1 … p_4, and the penalty for being too short. Begin with p_1 of one sentence: how "
        "many of its words stand in the reference, each counted at most as often as there?",
        "ngrams gives a Counter, and the & of two Counters keeps the smaller count of each entry. Sum matches and totals "
        "over all sentences before you divide.",
        "The fourth root of a product is exp of the mean of the logarithms. If a precision is 0, the logarithm does not "
        "exist, and BLEU is 0.",
        "The penalty is min(1, exp(1 - r / h)), with r and h the numbers of tokens of all references and all "
        "hypotheses.",
    ],
)


def measured(subject, hypotheses, references, what):
    expect_equal(subject(hypotheses, references), decoding.bleu(hypotheses, references), what)


@measuring.property("a perfect translation gets 100", points=1)
def bleu_perfect(subject, case):
    references = [reference for reference in case["references"] if len(reference) >= 4]
    measured(subject, references, references, "the BLEU of the references themselves")


@measuring.property("if no four words in a row are right, BLEU is 0", points=1)
def bleu_zero(subject, case):
    backwards = [reference[::-1] for reference in case["references"]]
    measured(subject, backwards, case["references"], "the BLEU of the references, read backwards,")


@measuring.property("a translation that is longer than its reference is judged by its precisions alone", points=2)
def bleu_long(subject, case):
    hypotheses = [reference + reference[:3] for reference in case["references"]]
    measured(subject, hypotheses, case["references"], "the BLEU of references that begin once more at their end")


@measuring.property("one that is too short pays for it", points=1)
def bleu_short(subject, case):
    references = [reference for reference in case["references"] if len(reference) >= 5]
    measured(subject, [r[:-1] for r in references], references, "the BLEU of references without their last word")


@measuring.property("counts are summed over all sentences before anything is divided", points=2)
def bleu_corpus(subject, case):
    measured(subject, case["hypotheses"], case["references"], "BLEU")


@measuring.misconception
def counts_repetitions(hypotheses, references):
    """A word that is repeated counts every time. An n-gram counts at most as often as the reference has it: otherwise
    'the the the the' would be a fine translation."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += sum(count for gram, count in found.items() if gram in ngrams(reference, n))
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def counts_each_ngram_once(hypotheses, references):
    """You count every different n-gram once. One that the reference has twice may count twice."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += len(found.keys() & ngrams(reference, n).keys())
            total += len(found)
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def no_brevity_penalty(hypotheses, references):
    """Nothing happens to translations that are too short: two right words of a long sentence would be perfect. The
    brevity penalty is missing."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = 0.0
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def rewards_length(hypotheses, references):
    """A translation that is longer than its reference gets a bonus: the penalty is at most 1."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = 1 - reference_length / hypothesis_length
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def penalises_length(hypotheses, references):
    """You punish long translations and not short ones: r / h has h, the hypotheses' length, below."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - hypothesis_length / reference_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def plain_ratio_as_penalty(hypotheses, references):
    """Your penalty is h / r. It is e^(1 - r/h)."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = math.log(min(1.0, hypothesis_length / reference_length))
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def arithmetic_mean(hypotheses, references):
    """You take the ordinary mean of the four precisions. BLEU takes the geometric one: the fourth root of their
    product."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += matches / total / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty) * log_precision


@measuring.misconception
def product_without_root(hypotheses, references):
    """You multiply the four precisions and leave out the fourth root."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total)
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def single_words_only(hypotheses, references):
    """You look at single words only, and the order of the words does not matter. n runs from 1 to 4."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 1, 1, 1):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def four_word_runs_only(hypotheses, references):
    """You look at runs of four words only. All four lengths count, from 1 to 4."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (4, 4, 4, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def stops_at_three(hypotheses, references):
    """Your n stops at 3: range(1, 4) does not contain 4."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 3
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def recall_instead_of_precision(hypotheses, references):
    """You divide by the number of n-grams of the references. A precision divides by those of the hypotheses."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += ngrams(reference, n).total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def between_zero_and_one(hypotheses, references):
    """Your BLEU lies between 0 and 1. Here it is given between 0 and 100."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return math.exp(log_penalty + log_precision)


@measuring.misconception
def log_of_zero(hypotheses, references):
    """The logarithm of 0 does not exist. If no n-gram of some length is right, BLEU is 0."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def smoothed(hypotheses, references):
    """You add 1 to the counts so that no precision is 0. That is done for single sentences; here nothing is
    smoothed."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        log_precision += math.log((matches + 1) / (total + 1)) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def leaves_out_a_precision_of_zero(hypotheses, references):
    """You leave a precision of 0 out of the mean, and a translation without a single right run of words gets a good
    mark. One 0 makes the whole product 0."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            continue
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def mean_over_sentences(hypotheses, references):
    """You compute a BLEU for each sentence and take the mean. Matches and totals are summed over the whole corpus
    first;
    a short sentence without a run of four would count as 0."""
    scores = []
    for pair in zip(hypotheses, references):
        scores.append(decoding.bleu([pair[0]], [pair[1]]))
    return sum(scores) / len(scores)


@measuring.misconception
def mean_of_precisions(hypotheses, references):
    """You take each sentence's precision and average them: a sentence of two words counts as much as one of twenty. Sum
    the matches and the totals, then divide once."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total() / max(1, found.total())
            total += 1
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def any_reference_will_do(hypotheses, references):
    """You look for a sentence's n-grams in all references. Each translation is compared with its own reference."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):  # noqa: B007
            found = ngrams(hypothesis, n)
            matches += (found & sum((ngrams(each, n) for each in references), Counter())).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.alternative
def with_counts_by_hand(hypotheses, references):
    precisions = []
    for n in range(1, 5):
        right = everything = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            unused = [tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)]
            for i in range(len(hypothesis) - n + 1):
                everything += 1
                gram = tuple(hypothesis[i : i + n])
                if gram in unused:
                    unused.remove(gram)
                    right += 1
        precisions.append(right / everything if everything else 0.0)
    r, h = (sum(len(text) for text in texts) for texts in (references, hypotheses))
    penalty = 1.0 if h > r else math.exp(1 - r / h)
    return penalty * math.prod(precisions) ** 0.25 * 100


@measuring.alternative
def with_tensors_at_the_end(hypotheses, references):
    right, everything = torch.zeros(4).double(), torch.zeros(4).double()
    for h, r in zip(hypotheses, references, strict=True):
        for i in range(4):
            grams = [Counter(zip(*(text[k:] for k in range(i + 1)))) for text in (h, r)]
            right[i] += sum(min(count, grams[1][gram]) for gram, count in grams[0].items())
            everything[i] += max(0, len(h) - i)
    ratio = sum(map(len, references)) / sum(map(len, hypotheses))
    return 100 * (right / everything).log().mean().exp() * min(1.0, math.exp(1 - ratio))


@measuring.alternative
def by_the_geometric_mean(hypotheses, references):
    def share(n):
        pairs = [(ngrams(h, n), ngrams(r, n)) for h, r in zip(hypotheses, references, strict=True)]
        right = sum(sum((h & r).values()) for h, r in pairs)
        return right / max(1, sum(sum(h.values()) for h, _ in pairs))

    length = [sum(map(len, texts)) for texts in (hypotheses, references)]
    product = share(1) * share(2) * share(3) * share(4)
    return 100 * math.sqrt(math.sqrt(product)) * math.exp(-max(0.0, length[1] / length[0] - 1))
