"""Serving a language model: many sequences come, grow and go in one memory for keys and values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


class TokenMemory(Protocol):
    """What gives each new token of a sequence its place, and takes all places of a sequence back."""

    def append(self, sequence: str) -> int: ...

    def free(self, sequence: str) -> None: ...


class Reserved:
    """Contiguous memory: a sequence gets all its places in a row when it begins, in the first gap that is wide enough.

    reserve: how many places a sequence gets, by its name.
    """

    def __init__(self, size: int, reserve: Callable[[str], int]):
        self.size = size
        self.reserve = reserve
        self.pieces: dict[str, range] = {}
        self.lengths: dict[str, int] = {}

    def append(self, sequence: str) -> int:
        """The place of the next token. Raises MemoryError if the sequence is new and no gap is wide enough."""
        if sequence not in self.pieces:
            self.pieces[sequence] = self.first_gap(self.reserve(sequence))
            self.lengths[sequence] = 0
        self.lengths[sequence] += 1
        return self.pieces[sequence][self.lengths[sequence] - 1]

    def first_gap(self, width: int) -> range:
        start = 0
        for piece in sorted(self.pieces.values(), key=lambda piece: piece.start):
            if piece.start - start >= width:
                break
            start = piece.stop
        if start + width > self.size:
            raise MemoryError("no gap is wide enough")
        return range(start, start + width)

    def free(self, sequence: str) -> None:
        del self.pieces[sequence], self.lengths[sequence]


class BlockPlaces(Protocol):
    """A block table, as the exercise describes it."""

    def append(self, sequence: str) -> tuple[int, int]: ...

    def free(self, sequence: str) -> None: ...


class Paged:
    """Memory in blocks: a block table says where each token goes."""

    def __init__(self, table: BlockPlaces, block_size: int):
        self.table = table
        self.block_size = block_size

    def append(self, sequence: str) -> int:
        block, offset = self.table.append(sequence)
        return block * self.block_size + offset

    def free(self, sequence: str) -> None:
        self.table.free(sequence)


@dataclass
class Service:
    """How many tokens and sequences were in memory after each step, and who has which places in the end."""

    held: list[int]
    running: list[int]
    finished: int
    places: dict[str, list[int]]


def serve(memory: TokenMemory, lengths: Sequence[int], steps: int) -> Service:
    """Let sequences of these lengths grow by one token per step, as many at once as the memory admits.

    They begin in this order. Where a running sequence finds no place, the one that began last gives up its memory and
    begins again later.
    """
    waiting = deque(range(len(lengths)))
    places: dict[int, list[int]] = {}  # of the running sequences, oldest first
    held, running, finished = [], [], 0
    for _ in range(steps):
        for number in list(places):
            while number in places:
                try:
                    places[number].append(memory.append(str(number)))
                    break
                except MemoryError:
                    newest = next(reversed(places))
                    memory.free(str(newest))
                    del places[newest]
                    waiting.appendleft(newest)
        while waiting:
            try:
                place = memory.append(str(waiting[0]))
            except MemoryError:
                break
            places[waiting.popleft()] = [place]
        held.append(sum(map(len, places.values())))
        running.append(len(places))
        for number in [number for number, own in places.items() if len(own) == lengths[number]]:
            memory.free(str(number))
            del places[number]
            finished += 1
    return Service(held, running, finished, {str(number): own for number, own in places.items()})


def answer_lengths(count: int, longest: int, mean: float, seed: int) -> list[int]:
    """Lengths of answers: most are short, a few long, none longer than `longest`."""
    generator = torch.Generator().manual_seed(seed)
    drawn = -mean * torch.rand(count, generator=generator).log()
    return drawn.long().clamp(1, longest).tolist()
