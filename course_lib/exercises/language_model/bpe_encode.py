"""The exercise `bpe_encode`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import functools
from itertools import pairwise

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect
from course_lib.exercises.decoding.shared import asked
from course_lib.exercises.language_model.shared import (
    as_ids,
    expect_list_of_ids,
    merge_each_on_its_own,
    merge_first,
    merge_from_the_right,
)
from course_lib.language_model import merge_pair

A, B, C, D, E = b"abcde"

encoding = Exercise(
    language_model.bpe_encode,
    cases=[
        {
            "chunk": "abcab",
            "merges": [(B, C), (A, B), (A, 256)],
        },
        {
            "chunk": "aaaaabcd",
            "merges": [(A, A), (C, D), (B, C), (256, A), (256, 256), (B, 257)],
        },
        {
            "chunk": " déjà 5 € dé",
            "merges": [(195, 169), (ord("d"), 256), (195, 160), (ord("j"), 258), (ord(" "), 257), (257, 259)],
        },
        {
            "chunk": "bcdbcdeabcd",
            "merges": [(C, D), (D, B), (B, 256), (D, E), (A, B), (258, 258), (258, E), (A, 258)],
        },
        {
            "chunk": "c",
            "merges": [(C, D), (B, C)],
        },
    ],
    minutes=6,
    difficulty=2,
    hints=[
        "Begin as the training did: with the bytes of the chunk, list(chunk.encode('utf-8')).",
        "Then do again what was done in training, in the same order: the first merge everywhere in the chunk, then the "
        "second, and so on.",
        "enumerate(merges) gives each pair with its number; merge number i makes the id 256 + i.",
        "ids = reference.merge_pair(ids, pair, 256 + number), once for every merge.",
    ],
)


def encoded(subject, chunk, merges):
    return expect_list_of_ids(asked(subject, (chunk, merges), as_ids))


def expect_ids(got, chunk, merges):
    want = language_model.bpe_encode(chunk, merges)
    if got != want:
        shown = f"the merges {merges}" if merges else "no merges"
        expect(False, f"With {shown}, {chunk!r} should become {want}, but yours is {got}.")


@encoding.property("without merges, the ids are the bytes of the text", points=1)
def encoding_bytes(subject, case):
    expect_ids(encoded(subject, case["chunk"], []), case["chunk"], [])


@encoding.property("one merge: every place where the pair occurs, from left to right", points=2)
def encoding_one(subject, case):
    for chunk in (case["chunk"], "aaaaacaacaaa"):
        for merges in (case["merges"][:1], [(A, A)]):
            expect_ids(encoded(subject, chunk, merges), chunk, merges)


@encoding.property("all merges, in the order they were learned", points=2)
def encoding_all(subject, case):
    expect_ids(encoded(subject, *case.values()), *case.values())


@encoding.property("merges in a different order give different pieces", points=1)
def encoding_order(subject, case):
    for merges in ([(A, B), (B, C), (C, A)], [(B, C), (C, A), (A, B)], [(C, A), (A, B), (B, C)]):
        chunk = case["chunk"] + "cabcabc"
        expect_ids(encoded(subject, chunk, merges), chunk, merges)


@encoding.misconception
def characters_for_bytes(chunk, merges):
    """You begin with the numbers of the characters. Begin with the bytes of their UTF-8 code: é is two of them."""
    ids = [ord(character) for character in chunk]
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 256 + number)
    return ids


@encoding.misconception
def latin_1_bytes(chunk, merges):
    """Your bytes are those of Latin-1. The course uses UTF-8, in which é is two bytes, and in which every character can
    be written."""
    ids = list(chunk.encode("latin-1"))
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 256 + number)
    return ids


@encoding.misconception
def never_merges(chunk, merges):
    """You return the bytes: no merge is ever applied, or what it gives is thrown away."""
    ids = list(chunk.encode("utf-8"))
    return ids


@encoding.misconception
def last_learned_first(chunk, merges):
    """You apply the merges from the last to the first. They build on each other: the first one learned comes first."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in reversed(list(enumerate(merges))):
        ids = merge_pair(ids, pair, 256 + number)
    return ids


@encoding.misconception
def ids_from_255(chunk, merges):
    """Your first merge makes the id 255, which is a byte. Merge number 0 makes 256."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 255 + number)
    return ids


@encoding.misconception
def ids_from_257(chunk, merges):
    """Your first merge makes the id 257. Merge number 0 makes 256: the merges are counted from 0."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 257 + number)
    return ids


@encoding.misconception
def ids_from_zero(chunk, merges):
    """Your merges make the ids 0, 1, 2, …. Those are bytes already: merge number i makes 256 + i."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, number)
    return ids


@encoding.misconception
def counts_only_merges_that_apply(chunk, merges):
    """You give out new ids in the order in which merges apply to this chunk. A merge's id is its number in the list,
    whether or not the ones before it found anything."""
    ids = list(chunk.encode("utf-8"))
    number = 0
    for pair in merges:
        before, ids = ids, merge_pair(ids, pair, 256 + number)
        number += ids != before
    return ids


@encoding.misconception
def merges_the_first_only(chunk, merges):
    """Each merge is applied only where its pair occurs first. It is applied everywhere."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_first(ids, pair, 256 + number)
    return ids


@encoding.misconception
def merges_from_the_right(chunk, merges):
    """You merge from the right: of "aaa" the last two. Merge from left to right, the first two."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_from_the_right(ids, pair, 256 + number)
    return ids


@encoding.misconception
def uses_a_piece_twice(chunk, merges):
    """Of "aaa" you make two new pieces: the a in the middle is used twice. What has been merged is gone: continue after
    it."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_each_on_its_own(ids, pair, 256 + number)
    return ids


def merge_again(ids, pair, new_id):
    """A wrong way: the new piece may be followed by anything that was the pair's second half."""
    merged = []
    for piece in ids:
        if merged and (merged[-1], piece) == pair:
            merged[-1] = new_id
        elif merged and merged[-1] == new_id and piece == pair[1]:
            continue
        else:
            merged.append(piece)
    return merged


@encoding.misconception
def swallows_what_follows(chunk, merges):
    """After a merged pair you drop further pieces that equal its second one. A merge takes exactly two pieces.

    Of "aaa" with the merge (a, a) one piece is left instead of two."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_again(ids, pair, 256 + number)
    return ids


def longest_match(chunk, merges):
    """A wrong way: from left to right, always the longest piece that fits."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces.append(pieces[first] + pieces[second])
    left, ids = chunk.encode("utf-8"), []
    while left:
        fitting = [number for number, piece in enumerate(pieces) if left.startswith(piece)]
        best = max(fitting, key=lambda number: len(pieces[number]))
        ids.append(best)
        left = left[len(pieces[best]) :]
    return ids


@encoding.misconception
def by_the_longest_piece(chunk, merges):
    """From left to right you take the longest piece that fits. Apply the merges in the order they were learned: that
    may give other pieces.

    The model has seen only pieces that the merges make."""
    return longest_match(chunk, merges)


def leftmost_merge(ids, merges):
    """A wrong way: the first place at which any merge fits, or nothing."""
    for place, pair in enumerate(pairwise(ids)):
        if pair in merges:
            return [*ids[:place], 256 + merges.index(pair), *ids[place + 2 :]]
    return None


@encoding.misconception
def by_the_leftmost_pair(chunk, merges):
    """You merge the leftmost pair that any merge knows, again and again. Of all merges that fit, the one that was
    learned first comes first, wherever it occurs."""
    ids = list(chunk.encode("utf-8"))
    while (merged := leftmost_merge(ids, merges)) is not None:
        ids = merged
    return ids


def one_pass(ids, merges):
    """A wrong way: from left to right once, whatever merge fits; a new piece is not looked at again."""
    merged, place = [], 0
    while place < len(ids):
        pair = tuple(ids[place : place + 2])
        if pair in merges:
            merged.append(256 + merges.index(pair))
            place += 2
        else:
            merged.append(ids[place])
            place += 1
    return merged


@encoding.misconception
def one_pass_only(chunk, merges):
    """You go through the bytes once and merge what fits on the way. Every merge has its own pass, in the order they
    were learned: a new piece may be merged again."""
    ids = list(chunk.encode("utf-8"))
    return one_pass(ids, merges)


@encoding.misconception
def by_the_most_frequent_pair(chunk, merges):
    """You merge the pair that is most frequent in this chunk. What counts is the order in which the merges were
    learned.

    A chunk would be cut in other ways than in training."""
    ids = list(chunk.encode("utf-8"))
    while known := [pair for pair in pairwise(ids) if pair in merges]:
        pair = max(known, key=lambda pair: (known.count(pair), -merges.index(pair)))
        ids = merge_pair(ids, pair, 256 + merges.index(pair))
    return ids


@encoding.misconception
def stops_after_one_merge(chunk, merges):
    """You return as soon as one merge has changed something. All merges are applied, one after the other."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        before, ids = ids, merge_pair(ids, pair, 256 + number)
        if ids != before:
            return ids
    return ids


@encoding.misconception
def stops_at_a_merge_that_does_not_fit(chunk, merges):
    """You stop at the first merge that finds nothing in the chunk. Later ones may still fit: go through all of them."""
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        before, ids = ids, merge_pair(ids, pair, 256 + number)
        if ids == before:
            return ids
    return ids


@encoding.misconception
def merges_the_bytes_each_time(chunk, merges):
    """Every merge begins with the bytes again, and only the last one is kept. Each merge continues with what the one
    before has made."""
    ids = list(chunk.encode("utf-8"))
    merged = ids
    for number, pair in enumerate(merges):
        merged = merge_pair(ids, pair, 256 + number)
    return merged


@encoding.misconception
def without_the_space(chunk, merges):
    """You strip the spaces from the chunk. The space before a word belongs to it.

    The text could not be put together again."""
    ids = list(chunk.strip().encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 256 + number)
    return ids


@encoding.alternative
def earliest_pair_first(chunk, merges):
    """As in GPT-2: of all pairs in the chunk, the one learned first is merged, until none is known."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    ids = tuple(chunk.encode("utf-8"))
    while len(ids) > 1:
        best = min(pairwise(ids), key=lambda pair: ranks.get(pair, len(merges)))
        if best not in ranks:
            break
        out, i = [], 0
        while i < len(ids):
            if i + 1 < len(ids) and (ids[i], ids[i + 1]) == best:
                out.append(256 + ranks[best])
                i += 2
            else:
                out.append(ids[i])
                i += 1
        ids = tuple(out)
    return ids


@encoding.alternative
def as_a_string(chunk, merges):
    text = chunk.encode("utf-8").decode("latin-1")
    for new, (first, second) in enumerate(merges, start=256):
        text = text.replace(chr(first) + chr(second), chr(new))
    return list(map(ord, text))


@encoding.alternative
def in_place(chunk, merges):
    ids = [*bytes(chunk, "utf8")]
    for i, (a, b) in enumerate(merges):
        at = 0
        while at + 1 < len(ids):
            if ids[at] == a and ids[at + 1] == b:
                ids[at] = 256 + i
                del ids[at + 1]
            at += 1
    return ids


@encoding.alternative
def folded(chunk, merges):
    numbered = [(tuple(pair), 256 + i) for i, pair in enumerate(merges)]
    return functools.reduce(lambda ids, step: merge_pair(ids, *step), numbered, list(bytearray(chunk.encode())))
