"""A seeded source of sizes, numbers and tensors, for hidden cases."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from typing import TypeVar, overload

import torch
from torch import Tensor

Item = TypeVar("Item")
Range = tuple[int, int]  # from … to …, both included


class Draw:
    """Sizes and tensors that depend on nothing but the words it is made with.

    All of it comes from `random.Random.random`, the one method whose numbers Python promises never to change. torch
    makes no such promise for its generators, and a class that is regraded next year has to meet the same cases.
    """

    def __init__(self, *words: str):
        digest = hashlib.sha256("\0".join(words).encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def number(self, low: float, high: float) -> float:
        """A number between low and high, with two digits."""
        return round(low + self._random.random() * (high - low), 2)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in items]

    @overload
    def sizes(self, first: Range, second: Range, /) -> tuple[int, int]: ...
    @overload
    def sizes(self, first: Range, second: Range, third: Range, /) -> tuple[int, int, int]: ...
    @overload
    def sizes(self, first: Range, second: Range, third: Range, fourth: Range, /) -> tuple[int, int, int, int]: ...
    @overload
    def sizes(
        self, first: Range, second: Range, third: Range, fourth: Range, fifth: Range, /
    ) -> tuple[int, int, int, int, int]: ...

    def sizes(self, *ranges: Range) -> tuple[int, ...]:
        """One size from each range, all of them different: an axis that is mistaken for another one shows."""
        while True:
            found = tuple(self.integer(low, high) for low, high in ranges)
            if len(set(found)) == len(found):
                return found

    def lengths(self, count: int, longest: int, shortest: int = 1) -> Tensor:
        """Lengths of sentences, one of them the longest and another one shorter, in any order. count: 2 or more."""
        others = [self.integer(shortest, longest) for _ in range(count - 2)]
        return torch.tensor(self.shuffled([longest, self.integer(shortest, longest - 1), *others]))

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """Normally distributed numbers with two digits."""
        values = [round(scale * self._gauss(), 2) for _ in range(math.prod(shape))]
        return torch.tensor(values, dtype=torch.float64).reshape(shape).to(dtype)

    def _gauss(self) -> float:
        radius = math.sqrt(-2.0 * math.log(1.0 - self._random.random()))
        return radius * math.cos(2.0 * math.pi * self._random.random())

    def distinct(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Such numbers, no two of which are equal in a row."""
        return self.normal(*shape, scale=scale) + 0.001 * torch.arange(shape[-1])

    def ids(self, *shape: int, vocab: int, without: Sequence[int] = ()) -> Tensor:
        """Token ids below `vocab`, except some."""
        allowed = [token for token in range(vocab) if token not in without]
        return torch.tensor([self.choice(allowed) for _ in range(math.prod(shape))]).reshape(shape)

    def mask(self, *shape: int) -> Tensor:
        """A boolean mask with True and False in every row. The last size: 2 or more."""
        *rows, width = shape
        values = [self._row_of_a_mask(width) for _ in range(math.prod(rows))]
        return torch.tensor(values).reshape(shape)

    def _row_of_a_mask(self, width: int) -> list[bool]:
        row = [self._random.random() < 0.6 for _ in range(width - 2)]
        return self.shuffled([True, False, *row])
