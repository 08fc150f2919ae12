"""The exercise `greedy_decode`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
)
from course_lib.exercises.decoding.shared import asked, expect_ids, random_model


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
    hidden_points=2,
    hints=[
        "Begin with a column of BOS, (rows, 1). Then repeat: ask the model about everything so far, take the best "
        "token of each row, append it.",
        "Sentences end at different times. Keep a boolean tensor `ended` of shape (rows,), all False at first. A row "
        "that has ended gets pad_id instead of what the model says.",
        "torch.where(ended, pad_id, best) chooses row by row. After that, a row in which best is eos_id has ended too: "
        "ended = ended | (best == eos_id).",
        "Loop max_len times and break when ended.all(). The BOS column is cut off at the very end: ids[:, 1:].",
    ],
)


def greedy_want(case):
    return decoding.greedy_decode(*case.values())


def without_empty_columns(answer, case):
    """The answer up to the last column that holds something other than padding, if it is a table at all."""
    if not isinstance(answer, Tensor) or answer.dim() != 2 or answer.shape[1] > case["max_len"]:
        return answer
    full = (answer != case["pad_id"]).any(dim=0).nonzero().flatten().tolist()
    return answer[:, : full[-1] + 1] if full else answer


def greedy_answer(subject, case):
    """The student's ids, without columns of padding after the longest sentence: they do no harm."""
    got = expect_ids(asked(subject, case.values(), lambda answer: without_empty_columns(answer, case)))
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
        f"The first tokens should be {want[:, 0].tolist()}, but yours are {got[:, :1].flatten().tolist()}.",
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


@greedy.property("after EOS there is nothing but padding", points=1)
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
    got, want = expect_ids(subject(*case.values())), greedy_want(case)
    expect(
        got.shape == want.shape,
        f"The longest sentence has {want.shape[1]} tokens with its EOS, and max_len is {case['max_len']}; "
        f"but your result has shape {tuple(got.shape)}: {got.tolist()}.",
    )
    case = {**case, "next_logits": fond_of_padding(case)}
    got, want = expect_ids(subject(*case.values())), greedy_want(case)
    expect(
        torch.equal(got.long(), want),
        f"With a model that likes to say PAD ({case['pad_id']}), which ends nothing (EOS is {case['eos_id']}), "
        f"the result should be {want.tolist()}, but yours is {got.tolist()}.",
    )


def fond_of_padding(case):
    """The same model, but PAD is a token that it likes."""
    start = case["next_logits"].start.clone()
    start[:, case["pad_id"]] += 32
    return dataclasses.replace(case["next_logits"], start=start)


@greedy.misconception
def never_stops_at_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You never write padding into a sentence that has ended. Remember which rows have ended.

    After EOS comes whatever the model says next."""
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
    """EOS means nothing to your loop (do you wait for another id?).

    It always runs max_len times and keeps writing after EOS in every sentence."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids[:, 1:]


@greedy.misconception
def stops_with_the_first(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You stop as soon as one sentence has ended. Go on until all have ended.

    The others are cut off."""
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
    """You only know which sentences end at this very step. What has ended stays ended.

    A sentence that ended two steps ago starts again."""
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
def waits_for_all_at_once(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You stop only if all sentences get their EOS in the same step. Each may end at its own time: look at which have
    ended so far."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if (best == eos_id).all():
            break
    return ids[:, 1:]


@greedy.misconception
def repeats_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You fill up with EOS after the end. EOS occurs once; the places after it hold pad_id."""
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
def padding_is_always_zero(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You fill up with 0 after EOS. Which id stands for padding is given: pad_id."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, 0, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def loses_eos(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You count a row as ended before its EOS has been written down.

    There is padding in the place of EOS."""
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
    """You leave the loop as soon as the last sentence says EOS, before that EOS is written down.

    The last token is missing."""
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
    """BOS is only there at the first step. The model was trained with BOS in front of every prefix, longer ones too."""
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
    """Your loop can run max_len + 1 times. It runs at most max_len times, once for each token of the result."""
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
    """Your loop runs at most max_len - 1 times: you count BOS, but max_len counts the tokens of the result alone."""
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


@greedy.misconception
def runs_on_to_max_len(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You always run max_len times. Stop when every sentence has had its EOS.

    Columns of nothing but padding stand at the end of your result, and the model was run for nothing."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
    return ids[:, 1:]


@greedy.misconception
def stops_at_padding(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You take PAD for an end as well. Only EOS ends a sentence."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id) | (best == pad_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def asks_about_what_has_ended_only(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You write padding into the sentences that go on, and tokens into those that have ended: the two choices are
    swapped."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.argmax(dim=-1)
        best = torch.where(ended, best, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.misconception
def second_best(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """You take the token with the second largest logit. The largest is the most likely one."""
    ids = torch.full((rows, 1), bos_id)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        logits = next_logits(ids)
        best = logits.topk(2, dim=-1).indices[:, 1]
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


@greedy.alternative
def all_steps_then_erased(next_logits, rows, bos_id, eos_id, pad_id, max_len):
    """Writes max_len tokens and then erases everything after EOS."""
    ids = torch.full((rows, 1), bos_id)
    for _ in range(max_len):
        ids = torch.cat([ids, next_logits(ids).argmax(-1, keepdim=True)], dim=1)
    ids = ids[:, 1:]
    ends = (ids == eos_id).int()
    behind = (ends.cumsum(dim=1) - ends) > 0
    longest = (~behind).any(dim=0).sum()
    return ids.masked_fill(behind, pad_id)[:, :longest]


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
