"""The exercise `beam_search`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import heapq
import math

import torch
from torch import Tensor

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_tuple,
    name_of_type,
)
from course_lib.checking.inputs import NextTokenTable
from course_lib.exercises.decoding.shared import as_number, asked, expect_ids, random_model


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
        # The best sentence ends as a continuation of the second prefix.
        {
            "next_logits": random_model(6, 1, seed=4),
            "beam_size": 2,
            "bos_id": 0,
            "eos_id": 1,
            "max_len": 5,
            "alpha": 1.0,
        },
    ],
    minutes=15,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Keep two things: `prefixes` (beam, time), at first one row with BOS, and `totals` (beam,), the "
        "log-probability of each. One round continues every prefix with every token: (beam, vocab) candidates.",
        "A candidate's total is its prefix's total plus the log-probability of the token. Flatten the candidates, take "
        "the topk of all of them together: place // vocab_size says which prefix, place % vocab_size which token.",
        "prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1). Those that end in EOS, or have max_len "
        "tokens, go into a list `finished` with their score total / length**alpha; the others stay for the next round.",
        "over = (tokens == eos_id) | (length == max_len) is a boolean mask: prefixes[over] go into the list, "
        "prefixes[~over] and totals[~over] go on. At the end, max(finished) by score.",
    ],
)


def as_list_and_number(answer):
    """Ids as a list of numbers and the score as a number, if that is what they are."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return answer
    ids, score = answer
    ids = ids.flatten().tolist() if isinstance(ids, Tensor) else ids
    ids = [as_number(token) for token in ids] if isinstance(ids, list | tuple) else ids
    return ids, as_number(score)


def beam_answer(subject, arguments):
    """The student's ids as a list of numbers, and their score as a number."""
    ids, score = expect_tuple(asked(subject, arguments, as_list_and_number), ("ids", "score"))
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
    want, _ = beam.want(case)
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
    dead_end = {**case, "next_logits": garden_path(case), "beam_size": 2, "max_len": 4, "alpha": 1.0}
    text = "With another model, whose best sentence falls out of the beam after two words, and max_len = 4: "
    compare_with_the_best(beam_answer(subject, dead_end.values())[0], dead_end, text)


def garden_path(case):
    """A model whose best sentence begins so badly that a beam of two loses it.

    After the first word: EOS 0.52 or the same word 0.46. After the second: the same word 0.6, and then EOS for certain.
    """
    vocab, bos_id, eos_id = case["next_logits"].start.shape[-1], case["bos_id"], case["eos_id"]
    first, second = [token for token in range(vocab) if token not in (bos_id, eos_id)][:2]
    table = torch.full((2, vocab, vocab), -20.0, dtype=torch.float64)
    table[0, bos_id, first], table[0, bos_id, second] = math.log(0.6), math.log(0.4)
    table[0, first, eos_id], table[0, first, first] = math.log(0.52), math.log(0.46)
    table[0, second, second], table[0, second, eos_id] = math.log(0.6), math.log(0.38)
    table[1, second, eos_id] = 20.0
    return NextTokenTable(torch.zeros(1, vocab, dtype=torch.float64), table)


def compare_with_the_best(ids, case, text=""):
    want, best = beam.want(case)
    if ids == want:
        return
    text += f"With beam_size = {case['beam_size']} and alpha = {case['alpha']:g} the best is {want}, score {best:.4g}."
    if is_sentence(ids, case):
        mine = log_probability(case["next_logits"], case["bos_id"], ids) / len(ids) ** case["alpha"]
        text += f" Yours is {ids}, whose score is {mine:.4g}."
    raise Failure(text)


@beam.misconception
def adds_raw_logits(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You add up raw logits. Turn them into log-probabilities first.

    Logits of two different prefixes cannot be compared."""
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
    """Parent and token are swapped. In the flattened (beam, vocab) candidates, place // vocab_size is the
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
    """You divide a flat place by the size of the beam. A row of the candidates has vocab_size entries: divide by
    that."""
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
    """The new tokens are appended to the wrong prefixes: token i of the top list goes to prefix i, whichever prefix it
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
    """Only one prefix survives each round, whatever beam_size says.

    That is greedy decoding."""
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
    """You take the first sentence that ends. Collect all that end and compare their scores.

    It is a short one; a longer one that was still going on may turn out better."""
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
    """A sentence goes on after its EOS. Those that end have to be set aside, and only the others continued."""
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
    """A sentence that has ended is noted down, and then continued after its EOS all the same. Only the unfinished
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
    """What is unfinished after max_len tokens is thrown away. It counts as it stands, with its score so far."""
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
    """You take a place from the beam for every sentence that has ended, as in some other forms of beam search. Here
    every round keeps beam_size continuations again."""
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
def endings_take_no_place(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """In your beam a sentence that ends takes no place: beam_size unfinished prefixes always go on, as in some
    libraries. Here the best beam_size candidates are taken first, and those that end among them are set aside."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().sort(descending=True)
        parents, tokens = places // vocab_size, places % vocab_size
        inside = (tokens != eos_id).cumsum(dim=0) - (tokens != eos_id).int() < beam_size
        totals, parents, tokens = totals[inside], parents[inside], tokens[inside]
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
def sets_every_ending_aside(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You set every continuation with EOS aside, however improbable, and beam_size unfinished prefixes go on. Here the
    best beam_size candidates are taken first, and only those among them that end are set aside."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().sort(descending=True)
        parents, tokens = places // vocab_size, places % vocab_size
        inside = ((tokens != eos_id).cumsum(dim=0) <= beam_size) | (tokens == eos_id)
        inside &= totals > -torch.inf
        totals, parents, tokens = totals[inside], parents[inside], tokens[inside]
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
    """The length plays no part in your score: alpha is not used.

    Long sentences, with more factors below 1, hardly ever win."""
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
    """You multiply by length^alpha. Divide.

    Log-probabilities are negative: multiplying makes long sentences still worse."""
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
def compares_totals_at_the_end(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """At the end you choose the sentence with the largest log-probability. The best score decides: divide by
    length^alpha before you compare."""
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
    return best, score / len(best) ** alpha


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
    """You return the log-probability beside the sentence. The score is that divided by length^alpha.

    The sentence is right."""
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
    """The two results are swapped: the ids come first, then the score."""
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


@beam.misconception
def never_prunes_across_prefixes(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You keep the best beam_size continuations of *each* prefix. All continuations of all prefixes compete for
    beam_size places.

    The number of prefixes grows with every round."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        worst = candidates.topk(min(beam_size, vocab_size), dim=1).values[:, -1:]
        places = (candidates >= worst).flatten().nonzero().flatten()
        totals = candidates.flatten()[places]
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
def divides_the_total_in_every_round(next_logits, beam_size, bos_id, eos_id, max_len, alpha):
    """You divide the totals by length^alpha in every round and go on with the result. The total stays a sum of
    log-probabilities; only the score of a finished sentence is divided."""
    prefixes = torch.tensor([[bos_id]])
    totals = torch.zeros(1)
    finished = []
    for length in range(1, max_len + 1):
        log_probabilities = next_logits(prefixes).log_softmax(dim=-1)
        vocab_size = log_probabilities.shape[-1]
        candidates = totals[:, None] + log_probabilities
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        totals = totals / length**alpha
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
    """Keeps the best so far, and compares by normalised scores within a round: all have the same length there."""
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
