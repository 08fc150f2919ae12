"""The exercise `train_bpe`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type
from course_lib.exercises.decoding.shared import asked
from course_lib.exercises.language_model.shared import (
    as_whole,
    merge_each_on_its_own,
    merge_first,
    merge_from_the_right,
)
from course_lib.language_model import merge_pair

training = Exercise(
    language_model.train_bpe,
    cases=[
        {
            "counts": {" low": 5, " lower": 2, " newest": 6, " widest": 3},
            "num_merges": 5,
        },
        {
            "counts": {"aaaa": 2, "baaab": 1, " bb": 7},
            "num_merges": 6,
        },
        {
            "counts": {" été": 4, " thé": 3, " ôté": 2, " tête": 4, "né": 1},
            "num_merges": 8,
        },
        {
            "counts": {"zb": 3, " ca": 3, "db": 2, "ca": 1, " zz": 1},
            "num_merges": 20,
        },
        {
            "counts": {"abcbc": 2, "xyxy": 3, "cab": 4, "yx": 1, "a": 9},
            "num_merges": 4,
        },
    ],
    minutes=12,
    difficulty=3,
    hidden_points=2,
    hints=[
        "One round has three steps: count all pairs of neighbours, choose one, merge it in every chunk. Write the "
        "round first, and the loop around it afterwards.",
        "list(chunk.encode('utf-8')) are the bytes of a chunk as whole numbers. Keep each chunk's ids together with "
        "its count: a pair in a chunk that occurs 6 times counts 6 times.",
        "pairwise(ids), or zip(ids, ids[1:]), gives the pairs of neighbours. A Counter adds up their counts.",
        "min(pairs, key=lambda pair: (-pairs[pair], pair)) is the most frequent pair, and of equally frequent ones the "
        "smaller. If there is no pair at all, stop.",
        "reference.merge_pair(ids, pair, new_id) replaces a pair in one chunk. The ids of the next round are what it "
        "returns.",
    ],
)


def as_pairs(answer):
    """Merges as a tuple of pairs of ints, however they are packed; everything else as it is."""
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    if not isinstance(answer, list | tuple):
        return answer
    listed = [pair.tolist() if hasattr(pair, "tolist") else pair for pair in answer]
    return tuple(tuple(map(as_whole, pair)) if isinstance(pair, list | tuple) else pair for pair in listed)


def learned(subject, counts, num_merges):
    """The student's merges."""
    answer = asked(subject, (counts, num_merges), as_pairs)
    expect(answer is not None, "The result is None. Does every path through your code end in a `return`?")
    merges = as_pairs(answer)
    expect(isinstance(merges, tuple), f"The result should be a list of pairs of ids, but it is {name_of_type(answer)}.")
    for number, pair in enumerate(merges):
        if not isinstance(pair, tuple) or len(pair) != 2 or any(type(piece) is not int for piece in pair):
            parts = map(name_of_type, pair if isinstance(pair, tuple) else [pair])
            raise Failure(f"Each merge should be a pair of ids, two ints, but merge {number} is: {', '.join(parts)}.")
    return list(merges)


def in_words(pair, merges):
    """The two pieces of a pair as text, if these ids are known."""
    try:
        return " and ".join(repr(language_model.bpe_decode([piece], merges)) for piece in pair)
    except IndexError:
        return "an id that no merge before it has made"


def times(count):
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def expect_merges(got, counts, num_merges):
    """The first merge that is not the right one is shown, with how often the pairs occur there."""
    want = language_model.train_bpe(counts, num_merges)
    for number, (mine, right) in enumerate(zip(got, want, strict=False)):
        if mine == right:
            continue
        pairs = Counter()
        for chunk, count in counts.items():
            for pair in pairwise(language_model.bpe_encode(chunk, want[:number])):
                pairs[pair] += count
        raise Failure(
            f"Learned from {counts}: merge {number} should be {right}, {in_words(right, want[:number])}, which occurs "
            f"{times(pairs[right])} at that point, but yours is {mine}, {in_words(mine, want[:number])}, which occurs "
            f"{times(pairs[mine])}."
        )
    return want


@training.property("the first merge is the pair of bytes that occurs most often", points=2)
def training_first(subject, case):
    got = learned(subject, case["counts"], 1)
    want = expect_merges(got, case["counts"], 1)
    expect(len(got) == len(want), f"One merge is asked for, but you return {len(got)}: {got}.")


@training.property("a chunk's count counts: the more often it occurs, the earlier its pairs are merged", points=1)
def training_counts(subject, case):
    rising = {chunk: 10**place for place, chunk in enumerate(case["counts"])}
    expect_merges(learned(subject, rising, 1), rising, 1)


@training.property("each further merge is the most frequent pair of what the merges before have left", points=2)
def training_further(subject, case):
    expect_merges(learned(subject, *case.values()), *case.values())


@training.property("of equally frequent pairs, the smaller one", points=1)
def training_ties(subject, case):
    alike = {chunk: 1 for chunk in case["counts"]}
    expect_merges(learned(subject, alike, case["num_merges"]), alike, case["num_merges"])


@training.property("num_merges of them, or fewer if no pair is left", points=1)
def training_length(subject, case):
    few = {"abab": 2, "c": 5}
    for counts, num_merges in ((few, 300), (case["counts"], case["num_merges"]), (few, 7), ({"x": 3}, 2)):
        got = learned(subject, counts, num_merges)
        want = expect_merges(got, counts, num_merges)
        expect(
            len(got) == len(want),
            f"Learned from {counts} with num_merges = {num_merges}: there should be {len(want)} merges, but you return "
            f"{len(got)}.",
        )


@training.misconception
def ignores_the_counts(counts, num_merges):
    """Every chunk counts once, however often it occurs. Its pairs occur as often as the chunk does."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, _ in chunks:
            for pair in pairwise(ids):
                pairs[pair] += 1
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def larger_pair_of_equals(counts, num_merges):
    """Of equally frequent pairs you take the larger one. The smaller one is asked for."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def first_pair_of_equals(counts, num_merges):
    """Of equally frequent pairs you take the one that comes first in the text. The smaller one is asked for.

    max and most_common keep the order in which pairs were counted, and so the merges would depend on the order of the
    chunks."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: pairs[pair])
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def rarest_pair(counts, num_merges):
    """You merge the pair that occurs least often. The most frequent one is wanted."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def across_chunks(counts, num_merges):
    """The end of one chunk and the beginning of the next count as neighbours. Pairs are inside a chunk only.

    Whether two chunks are neighbours in the dictionary says nothing about the text."""
    chunks = [([byte for chunk, count in counts.items() for byte in chunk.encode("utf-8") * count], 1)]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def characters_for_bytes(counts, num_merges):
    """You begin with the numbers of the characters. Begin with the bytes of their UTF-8 code: all ids below 256 are
    bytes, and a letter such as é is two of them."""
    chunks = [([ord(character) for character in chunk], count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def ids_from_255(counts, num_merges):
    """Your first merge makes the id 255, which is a byte. The bytes are 0 to 255, so the first new id is 256."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(255, 255 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def ids_from_257(counts, num_merges):
    """Your first merge makes the id 257. The bytes are 0 to 255, so the first new id is 256."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(257, 257 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def ids_from_zero(counts, num_merges):
    """Your merges make the ids 0, 1, 2, …. Those are bytes already: the first new id is 256."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(0, num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def one_id_for_all(counts, num_merges):
    """Every merge makes the same id, 256. Each new piece needs an id of its own: 256, 257, 258, …."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for _ in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, 256), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def merges_the_first_only(counts, num_merges):
    """In each chunk you merge the pair only where it occurs first. It is merged everywhere."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_first(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def merges_from_the_right(counts, num_merges):
    """You merge from the right: of "aaa" the last two. Merge from left to right, the first two."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_from_the_right(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def uses_a_piece_twice(counts, num_merges):
    """Of "aaa" you make two new pieces: the a in the middle is used twice. What has been merged is gone: continue after
    it."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_each_on_its_own(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def never_merges(counts, num_merges):
    """You count in the same text every time: the pair that was chosen is never merged in it.

    A new piece cannot become part of a larger one."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for _ in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
    return merges


@training.misconception
def the_most_common_at_once(counts, num_merges):
    """You count once and take the num_merges most frequent pairs of bytes. Count again after every merge.

    Pieces of more than two bytes never come up."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    pairs = Counter()
    for ids, count in chunks:
        for pair in pairwise(ids):
            pairs[pair] += count
    merges = sorted(pairs, key=lambda pair: (-pairs[pair], pair))
    return merges[:num_merges]


@training.misconception
def once_for_each_chunk(counts, num_merges):
    """A pair that occurs twice in a chunk counts once there. Count every place where it occurs."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in set(pairwise(ids)):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def without_overlaps(counts, num_merges):
    """You count (a, a) once in "aaa". Every two neighbours are a pair, also where pairs overlap: it counts twice."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in set(pairwise(ids)):
                pairs[pair] += count * merge_pair(ids, pair, new_id).count(new_id)
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def pairs_side_by_side(counts, num_merges):
    """You count the pairs at places 0 and 1, 2 and 3, and so on. Every two neighbours are a pair: 1 and 2 too."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in zip(ids[::2], ids[1::2], strict=False):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def in_any_order(counts, num_merges):
    """You count (a, b) and (b, a) as one pair. The order of the pieces matters."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[min(pair), max(pair)] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def stops_at_single_pairs(counts, num_merges):
    """You stop when no pair occurs twice. Stop only when there is no pair left.

    With num_merges there is another limit already: whoever calls the function chooses how far to go."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs or max(pairs.values()) < 2:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def num_merges_is_the_vocabulary(counts, num_merges):
    """You take num_merges for the size of the vocabulary, with the 256 bytes in it. It counts the merges alone."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def goes_on_without_pairs(counts, num_merges):
    """You choose the best pair even when there is none. When every chunk is a single piece, stop."""
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.misconception
def without_the_space(counts, num_merges):
    """You strip the spaces from the chunks. The space before a word belongs to it: " low" has four bytes."""
    chunks = [(list(chunk.strip().encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges


@training.alternative
def by_updating_the_counts(counts, num_merges):
    """Only chunks that hold the pair are counted again."""
    words = [[list(chunk.encode()), count] for chunk, count in counts.items()]
    pairs, where = Counter(), defaultdict(set)

    def count_in(number, sign):
        ids, count = words[number]
        for pair in pairwise(ids):
            pairs[pair] += sign * count
            where[pair].add(number)

    for number in range(len(words)):
        count_in(number, +1)
    merges = []
    while len(merges) < num_merges and any(pairs.values()):
        best = max(pairs, key=lambda pair: (pairs[pair], -pair[0], -pair[1]))
        for number in where.pop(best):
            count_in(number, -1)
            words[number][0] = merge_pair(words[number][0], best, 256 + len(merges))
            count_in(number, +1)
        merges.append(best)
    return merges


@training.alternative
def with_text_and_regular_expressions(counts, num_merges):
    """Each piece is one character of a private alphabet, and each chunk a string of them."""
    chunks = {"".join(map(chr, chunk.encode())): count for chunk, count in counts.items()}
    merges = []
    for i in range(num_merges):
        found = Counter()
        for text, count in chunks.items():
            for a, b in pairwise(text):
                found[a + b] += count
        if found:
            most = max(found.values())
            best = sorted(pair for pair, count in found.items() if count == most)[0]
            chunks = {re.sub(re.escape(best), chr(256 + i), text): count for text, count in chunks.items()}
            merges += [[ord(best[0]), ord(best[1])]]
    return merges


@training.alternative
def with_nested_loops(counts, num_merges):
    words = []
    for chunk in counts:
        words.append(([int(byte) for byte in bytearray(chunk, "utf8")], counts[chunk]))
    result, next_id = [], 256
    while next_id - 256 < num_merges:
        table = {}
        for ids, count in words:
            for i in range(len(ids) - 1):
                key = (ids[i], ids[i + 1])
                table[key] = table.get(key, 0) + count
        winner = None
        for key, count in table.items():
            if winner is None or count > table[winner] or (count == table[winner] and key < winner):
                winner = key
        if winner is None:
            return tuple(result)
        for ids, _ in words:
            i = 0
            while i < len(ids) - 1:
                if (ids[i], ids[i + 1]) == winner:
                    ids[i : i + 2] = [next_id]
                i += 1
        result.append(winner)
        next_id += 1
    return tuple(result)
