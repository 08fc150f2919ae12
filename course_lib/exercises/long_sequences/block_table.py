"""The exercise `BlockTable`: what must hold, and what people really write instead."""

from __future__ import annotations

import bisect
import heapq
from collections import defaultdict

import torch

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type
from course_lib.checking.settings import MethodCalls
from course_lib.checking.subject import Subject
from course_lib.exercises.long_sequences.shared import whole_number

block_table = Exercise(
    long_sequences.BlockTable,
    cases=[
        {"num_blocks": 4, "block_size": 2, "tokens": "aababc", "ended": "a", "later": "cbab"},
        {"num_blocks": 7, "block_size": 3, "tokens": "babbabbbcad", "ended": "b", "later": "dcbaaadb"},
        {"num_blocks": 5, "block_size": 1, "tokens": "abca", "ended": "b", "later": "ca"},
        {"num_blocks": 3, "block_size": 4, "tokens": "aabaaa", "ended": "a", "later": "bbba"},
    ],
    minutes=10,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Two things have to be known about a sequence: which blocks it has, in their order, and how many tokens. And "
        "one about the memory: which blocks are free.",
        "Token number p of a sequence is in its block number p // block_size, at place p % block_size. The sequence's "
        "own list says which block of the memory that is.",
        "A sequence needs a new block exactly when its number of tokens is a multiple of block_size, the first time "
        "included. Look whether a block is free before you change anything.",
        "block = min(self.free_blocks); self.free_blocks.remove(block); "
        "self.blocks.setdefault(sequence, []).append(block).",
    ],
)

Calls = list[tuple[str, tuple]]
KEPT: dict[tuple, MethodCalls] = {}  # the same questions are the same objects: what is known is not asked again
RIGHT: dict[MethodCalls, list] = {}  # what the reference answers


def appends(tokens: str) -> Calls:
    return [("append", (token,)) for token in tokens]


def lookups(tokens: str) -> Calls:
    """Every token that was appended, the last one of each sequence first."""
    positions = {name: reversed(range(tokens.count(name))) for name in sorted(set(tokens))}
    return [("lookup", (name, position)) for name in positions for position in positions[name]]


def ending(case) -> Calls:
    """A sequence ends, and others go on; a new one may use its name."""
    return [*appends(case["tokens"]), ("free", (case["ended"],)), *appends(case["later"])]


def known_at_the_end(case) -> str:
    return case["tokens"].replace(case["ended"], "") + case["later"]


def room_left(case) -> int:
    """How many tokens fit into the blocks that are free."""
    used = {block for block, _ in right_answers(case, appends(case["tokens"]))}
    return (case["num_blocks"] - len(used)) * case["block_size"]


def filling(case) -> Calls:
    """A new sequence takes all blocks that are left, and then two want one more."""
    return appends(case["tokens"] + "z" * room_left(case) + "zy")


def emptying(case) -> Calls:
    """After `filling`, every token is where it was; then the first sequence ends, and the two that waited go on."""
    placed = case["tokens"] + "z" * room_left(case)
    ended = ("free", (case["tokens"][0],))
    return [*filling(case), *lookups(placed), *appends(with_room(case)), ended, *appends("zy")]


def with_room(case) -> str:
    """The sequences whose last block is not full."""
    tokens = case["tokens"]
    return "".join(name for name in sorted(set(tokens)) if tokens.count(name) % case["block_size"])


def asked(case, calls: Calls) -> MethodCalls:
    arguments = (case["num_blocks"], case["block_size"])
    key = (*arguments, tuple(calls))
    return KEPT.setdefault(key, MethodCalls(arguments, tuple(calls), may_raise="MemoryError"))


def right_answers(case, calls: Calls) -> list:
    question = asked(case, calls)
    if question not in RIGHT:
        RIGHT[question] = Subject(long_sequences.BlockTable).effect(question)[0]
    return RIGHT[question]


def in_words(call) -> str:
    method, arguments = call
    return f"{method}({', '.join(map(repr, arguments))})"


def place(answer, call):
    """(block, offset), as whole numbers."""
    what = in_words(call)
    if answer is None:
        raise Failure(f"{what} returns None. Does every path through your code end in a `return`?")
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Failure(f"{what} should return (block, offset), but it returns {name_of_type(answer)}.")
    return tuple(whole_number(n, f"The {name} that {what} returns") for n, name in zip(answer, ("block", "offset")))


def story(calls, number) -> str:
    """What was called before, for a message."""
    before = calls[:number]
    if not before:
        return "the first call"
    shown = ", ".join(in_words(call) for call in before[-4:])
    return f"after {'…, ' if len(before) > 4 else ''}{shown}"


def expect_places(subject, case, calls: Calls) -> None:
    """Every call answers as it should."""
    got, _ = subject.effect(asked(case, calls))
    for number, (call, answer, want) in enumerate(zip(calls, got, right_answers(case, calls))):
        if call[0] == "free":
            continue
        where = f"{in_words(call)}, {story(calls, number)},"
        if want == "MemoryError":
            expect(answer == want, f"{where} should raise MemoryError, since no block is free; it returns {answer}.")
            continue
        expect(answer != "MemoryError", f"{where} raises MemoryError, but there is room: it should return {want}.")
        expect(place(answer, call) == tuple(want), f"{where} should return {tuple(want)}, but it returns {answer}.")


@block_table.property("append returns a block and an offset, both within the memory", points=1)
def table_returns_places(subject, case):
    calls = appends(case["tokens"])
    got, _ = subject.effect(asked(case, calls))
    for call, answer in zip(calls, got):
        expect(answer != "MemoryError", f"{in_words(call)} raises MemoryError although blocks are free.")
        block, offset = place(answer, call)
        expect(0 <= block < case["num_blocks"], f"Block {block} is none of the {case['num_blocks']} blocks from 0 on.")
        expect(0 <= offset < case["block_size"], f"Offset {offset} is not in a block of {case['block_size']} places.")


@block_table.property("no two tokens get the same place", points=1)
def table_gives_each_place_once(subject, case):
    calls = appends(case["tokens"])
    got, _ = subject.effect(asked(case, calls))
    taken: dict = {}
    for number, (call, answer) in enumerate(zip(calls, got)):
        where = place(answer, call)
        expect(where not in taken, f"Calls {taken.get(where)} and {number} of append both return {where}.")
        taken[where] = number


@block_table.property("a block is filled before the next is taken, and the smallest free one is taken", points=1)
def table_takes_blocks_in_order(subject, case):
    expect_places(subject, case, appends(case["tokens"]))


@block_table.property("lookup finds every token where append has put it", points=2)
def table_looks_up(subject, case):
    expect_places(subject, case, [*appends(case["tokens"]), *lookups(case["tokens"])])


@block_table.property("free gives all blocks back, and the name can begin again", points=2)
def table_frees(subject, case):
    expect_places(subject, case, ending(case))
    expect_places(subject, case, [*ending(case), *lookups(known_at_the_end(case))])


@block_table.property("without a free block, append raises MemoryError, and nothing has changed", points=1)
def table_is_full(subject, case):
    expect_places(subject, case, filling(case))
    expect_places(subject, case, emptying(case))


@block_table.misconception
class GivesOneBlockToAll(long_sequences.BlockTable):
    """You never take the block out of the free ones, so the next sequence gets the same one."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.misconception
class TakesABlockForEachToken(long_sequences.BlockTable):
    """You take a new block for every token. A block holds `block_size` of them; the next is taken when it is full."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if True:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position]
        return block, 0


@block_table.misconception
class TakesTheLargestBlock(long_sequences.BlockTable):
    """You take the free block with the largest number. The smallest is asked for."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = max(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.misconception
class TakesTheBlockFreedFirst(long_sequences.BlockTable):
    """You take the blocks in the order in which they became free. Of the free blocks, the one with the smallest
    number is taken."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = list(range(num_blocks))
        self.blocks = {}
        self.lengths = {}

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = self.free_blocks[0]
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)

    def free(self, sequence):
        self.free_blocks.extend(self.blocks.pop(sequence))
        del self.lengths[sequence]


@block_table.misconception
class TakesTheBlockFreedLast(long_sequences.BlockTable):
    """You take the block that became free last. Of the free blocks, the one with the smallest number is taken."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = list(reversed(range(num_blocks)))
        self.blocks = {}
        self.lengths = {}

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = self.free_blocks[-1]
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)

    def free(self, sequence):
        self.free_blocks.extend(self.blocks.pop(sequence))
        del self.lengths[sequence]


@block_table.misconception
class TakesTheEndOfTheList(long_sequences.BlockTable):
    """You take the block at the end of a list, where `pop` finds it: first the largest, later the one that was put
    there last. Of the free blocks, the one with the smallest number is taken."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = list(range(num_blocks))
        self.blocks = {}
        self.lengths = {}

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = self.free_blocks.pop()
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)

    def free(self, sequence):
        self.free_blocks.extend(self.blocks.pop(sequence))
        del self.lengths[sequence]


@block_table.misconception
class CountsBlocksFromOne(long_sequences.BlockTable):
    """You number the blocks from 1. They are counted from 0."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = set(range(1, num_blocks + 1))
        self.blocks = {}
        self.lengths = {}


@block_table.misconception
class HasOneBlockTooMany(long_sequences.BlockTable):
    """Your memory has one block too many: with num_blocks blocks, the last one is num_blocks - 1."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = set(range(num_blocks + 1))
        self.blocks = {}
        self.lengths = {}


@block_table.misconception
class HasOneBlockTooFew(long_sequences.BlockTable):
    """Your memory has one block too few: blocks 0 to num_blocks - 1 can be used."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = set(range(num_blocks - 1))
        self.blocks = {}
        self.lengths = {}


@block_table.misconception
class ExchangesTheSizes(long_sequences.BlockTable):
    """You swapped the two sizes: `num_blocks` comes first, then `block_size`."""

    def __init__(self, num_blocks, block_size):
        self.block_size = num_blocks
        self.free_blocks = set(range(block_size))
        self.blocks = {}
        self.lengths = {}


@block_table.misconception
class CountsPlacesFromOne(long_sequences.BlockTable):
    """You count the places in a block from 1. They are counted from 0."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position // self.block_size]
        return block, position % self.block_size + 1


@block_table.misconception
class ReturnsThePosition(long_sequences.BlockTable):
    """Your second number is the position in the sequence. The offset is the place within the block."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position // self.block_size]
        return block, position


@block_table.misconception
class ReturnsTheLogicalBlock(long_sequences.BlockTable):
    """You return which of the sequence's own blocks it is. The number of the block in the memory is asked for."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position // self.block_size]
        return position // self.block_size, position % self.block_size


@block_table.misconception
class ReturnsTheOffsetFirst(long_sequences.BlockTable):
    """You return the two numbers in the wrong order: the block comes first, then the offset."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position // self.block_size]
        return position % self.block_size, block


@block_table.misconception
class ReturnsOneAddress(long_sequences.BlockTable):
    """You return one number for the place. The block and the offset are asked for separately."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position // self.block_size]
        return block * self.block_size + position % self.block_size


@block_table.misconception
class ExchangesQuotientAndRemainder(long_sequences.BlockTable):
    """You swapped // and %: the quotient says which block of the sequence it is, the remainder says which
    place in it."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][position % self.block_size]
        return block, position // self.block_size


@block_table.misconception
class LooksInTheLastBlock(long_sequences.BlockTable):
    """You look into the last block of the sequence only. Earlier tokens are in its earlier blocks."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][-1]
        return block, position % self.block_size


@block_table.misconception
class LooksInTheFirstBlock(long_sequences.BlockTable):
    """You look into the first block of the sequence only. Later tokens are in its later blocks."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][0]
        return block, position % self.block_size


@block_table.misconception
class AssumesNeighbouringBlocks(long_sequences.BlockTable):
    """You count on from the sequence's first block. Its blocks may lie anywhere in the memory."""

    def lookup(self, sequence, position):
        block = self.blocks[sequence][0] + position // self.block_size
        return block, position % self.block_size


@block_table.misconception
class GivesNothingBack(long_sequences.BlockTable):
    """The blocks of a sequence that has ended are not free again."""

    def free(self, sequence):
        self.blocks.pop(sequence)
        del self.lengths[sequence]


@block_table.misconception
class GivesOneBlockBack(long_sequences.BlockTable):
    """You give back the last block of a sequence only. All of its blocks are free again."""

    def free(self, sequence):
        self.free_blocks.add(self.blocks.pop(sequence)[-1])
        del self.lengths[sequence]


@block_table.misconception
class GivesTheFirstBlockBack(long_sequences.BlockTable):
    """You give back the first block of a sequence only. All of its blocks are free again."""

    def free(self, sequence):
        self.free_blocks.add(self.blocks.pop(sequence)[0])
        del self.lengths[sequence]


@block_table.misconception
class KeepsTheOldBlocks(long_sequences.BlockTable):
    """You give the blocks back, but leave them in the list of the sequence. If the name begins again, its tokens
    are looked up in blocks that are no longer its own."""

    def free(self, sequence):
        self.free_blocks.update(self.blocks[sequence])
        del self.lengths[sequence]


@block_table.misconception
class FreesEverything(long_sequences.BlockTable):
    """You free the blocks of all sequences. Only those of the sequence that has ended are free."""

    def free(self, sequence):
        self.free_blocks.update(block for blocks in self.blocks.values() for block in blocks)
        self.blocks.pop(sequence)
        del self.lengths[sequence]


@block_table.misconception
class ReturnsNoneWhenFull(long_sequences.BlockTable):
    """You return None if no block is free. Raise MemoryError: nobody would notice otherwise."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                return None
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.misconception
class ReusesBlockZeroWhenFull(long_sequences.BlockTable):
    """If no block is free, you hand out block 0, which another sequence may be using. Raise MemoryError."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            block = min(self.free_blocks, default=0)
            self.free_blocks.discard(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.misconception
class CountsTheTokenThatFailed(long_sequences.BlockTable):
    """You count the token although no block was free for it. If append raises MemoryError, nothing may have
    changed."""

    def append(self, sequence):
        self.lengths[sequence] = self.lengths.get(sequence, 0) + 1
        length = self.lengths[sequence] - 1
        if length >= len(self.blocks.get(sequence, [])) * self.block_size:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        return self.lookup(sequence, length)


@block_table.misconception
class CountsBeforeItLooks(long_sequences.BlockTable):
    """You count the token before you know whether there is a block for it. If append raises MemoryError, nothing may
    have changed."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        self.lengths[sequence] = length + 1
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        return self.lookup(sequence, length)


@block_table.misconception
class RefusesWithRoomLeft(long_sequences.BlockTable):
    """You raise MemoryError whenever no block is free. A sequence whose last block has room needs none."""

    def append(self, sequence):
        if not self.free_blocks:
            raise MemoryError("no free block")
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.misconception
class RaisesAnotherError(long_sequences.BlockTable):
    """If no block is free, you raise an error other than MemoryError."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise RuntimeError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.misconception
class ReservesForTheNextToken(long_sequences.BlockTable):
    """You take the next block as soon as the last one is full. Take it when a token needs it.

    A block lies empty, and another sequence may want it."""

    def append(self, sequence):
        length = self.lengths.get(sequence, 0)
        while len(self.blocks.get(sequence, [])) * self.block_size <= length + 1:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)


@block_table.alternative
class WithAHeap:
    def __init__(self, num_blocks, block_size):
        self.size = block_size
        self.heap = list(range(num_blocks))
        heapq.heapify(self.heap)
        self.table = defaultdict(list)
        self.count = defaultdict(int)

    def append(self, sequence):
        if len(self.table[sequence]) * self.size == self.count[sequence]:
            if len(self.heap) == 0:
                raise MemoryError
            self.table[sequence].append(heapq.heappop(self.heap))
        self.count[sequence] += 1
        return self.table[sequence][-1], (self.count[sequence] - 1) % self.size

    def lookup(self, sequence, position):
        which, offset = divmod(position, self.size)
        return self.table[sequence][which], offset

    def free(self, sequence):
        for block in self.table.pop(sequence):
            heapq.heappush(self.heap, block)
        self.count.pop(sequence)


@block_table.alternative
class ListsOfPlaces:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.places = {}

    def append(self, sequence):
        mine = self.places.get(sequence, [])
        if mine and mine[-1][1] + 1 < self.block_size:
            new = [mine[-1][0], mine[-1][1] + 1]
        else:
            used = {block for places in self.places.values() for block, _ in places}
            unused = [block for block in range(self.num_blocks) if block not in used]
            if not unused:
                raise MemoryError("the memory is full")
            new = [unused[0], 0]
        self.places[sequence] = [*mine, new]
        return new

    def lookup(self, sequence, position):
        return self.places[sequence][position]

    def free(self, sequence):
        return self.places.pop(sequence)


@block_table.alternative
class OwnersOfBlocks:
    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.owner = [None] * num_blocks  # (sequence, which of its blocks)
        self.tokens = {}

    def append(self, sequence):
        position = self.tokens.setdefault(sequence, 0)
        if position % self.block_size == 0:
            try:
                self.owner[self.owner.index(None)] = (sequence, position // self.block_size)
            except ValueError:
                raise MemoryError(f"no block for {sequence}") from None
        self.tokens[sequence] += 1
        return self.lookup(sequence, position)

    def lookup(self, sequence, position):
        return self.owner.index((sequence, position // self.block_size)), position % self.block_size

    def free(self, sequence):
        self.owner = [None if owner and owner[0] == sequence else owner for owner in self.owner]
        del self.tokens[sequence]


@block_table.alternative
class SortedFreeList:
    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.unused = list(range(num_blocks))
        self.rows = {}

    def append(self, sequence):
        blocks, length = self.rows.get(sequence, ([], 0))
        if length == len(blocks) * self.block_size:
            if not self.unused:
                raise MemoryError("full")
            blocks = [*blocks, self.unused.pop(0)]
        self.rows[sequence] = (blocks, length + 1)
        return blocks[-1], length - (len(blocks) - 1) * self.block_size

    def lookup(self, sequence, position):
        blocks, _ = self.rows[sequence]
        return torch.tensor(blocks)[position // self.block_size], torch.tensor(position % self.block_size)

    def free(self, sequence):
        blocks, _ = self.rows.pop(sequence)
        for block in blocks:
            bisect.insort(self.unused, block)
        return len(self.unused)


@block_table.alternative
class MaskOfFreeBlocks(torch.nn.Module):
    def __init__(self, num_blocks, block_size):
        super().__init__()
        self.block_size = block_size
        self.is_free = torch.ones(num_blocks, dtype=torch.bool)
        self.table, self.length = {}, {}

    def append(self, sequence):
        n = self.length.get(sequence, 0)
        if n % self.block_size == 0:
            if not self.is_free.any():
                raise MemoryError("There is no free block.")
            block = int(self.is_free.int().argmax())
            self.is_free[block] = False
            self.table[sequence, n // self.block_size] = block
        self.length[sequence] = n + 1
        return self.lookup(sequence, n)

    def lookup(self, sequence, position):
        return (self.table[sequence, position // self.block_size], position % self.block_size)

    def free(self, sequence):
        for which in range(-(-self.length.pop(sequence) // self.block_size)):
            self.is_free[self.table.pop((sequence, which))] = True
