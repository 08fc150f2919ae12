"""Questions that are asked before they are needed.

A check always asks a right answer the same questions. So many of them are sent in one message, and the answers come
back together; a check then takes them one by one, as if it had just asked. An answer counts only for a question that
is, byte for byte, the one that was asked. Whatever else a check asks is asked when it comes up. A student's process is
asked nothing that a right answer would not be asked, in the same order.

Several properties ask the same. Such a question is asked each time, and its details are sent once; if the answer is
the same as before, the student's process says so instead of repeating it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from autograder.walls.inside.wire import AGAIN, WireError, bytes_of, encode
from course_lib.checking import memory

BEGINNING = b""  # in the life of a function or class
SCALARS, COLLECTIONS = frozenset([type(None), bool, int, float, str]), (tuple, list, set)
MOST_KEYS = 4096  # that are remembered
MOST_NUMBERS = 10_000  # in the details of a question that are kept in memory; inputs of a case have hundreds


@dataclass(frozen=True)
class Question:
    """What is asked of a bench, and the number that a module has if one is built."""

    bench: int
    operation: str
    details: tuple[Any, ...]
    built: int | None
    key: bytes  # the same for the same question after the same questions


class Script:
    """Everything that will be asked if all answers are as expected, in parts: a failing check skips the rest."""

    def __init__(self, parts: Sequence[Sequence[Question]]):
        self.parts = [tuple(part) for part in parts if part]
        self.part_of: dict[bytes, list[int]] = defaultdict(list)
        for number, part in enumerate(self.parts):
            for question in part:
                self.part_of[question.key].append(number)
        self.messages: dict[tuple[int, int], bytes] = {}

    def message(self, first: int, beyond: int) -> bytes:
        """The message that asks these parts."""
        if (first, beyond) not in self.messages:
            details: dict[bytes, tuple[int, tuple[Any, ...]]] = {}
            asked = []
            for q in itertools.chain(*self.parts[first:beyond]):
                number, _ = details.setdefault(key_of(BEGINNING, "", q.details), (len(details), q.details))
                asked.append([q.bench, q.operation, number, q.built, self.name_of(q)])
            message = {"do": "answer", "details": [each for _, each in details.values()], "questions": asked}
            self.messages[first, beyond] = encode(message)
        return self.messages[first, beyond]

    def name_of(self, question: Question) -> int | None:
        """The same number for the same question, if it is asked several times."""
        return int.from_bytes(question.key[:6], "big") if len(self.part_of[question.key]) > 1 else None


class Reading:
    """How far a script has been asked. The number of parts asked at once doubles each time."""

    def __init__(self, script: Script, at_once: int = 1):
        self.script = script
        self.at_once = at_once
        self.left = set(range(len(script.parts)))

    def first_parts(self) -> tuple[int, int]:
        found = self.next_parts(self.script.parts[0][0].key)
        assert found is not None
        return found

    def next_parts(self, key: bytes) -> tuple[int, int] | None:
        """The parts to ask now, if this question is in one not asked yet: the first, and the one after the last."""
        first = next((part for part in self.script.part_of.get(key, ()) if part in self.left), None)
        if first is None:
            return None
        is_in_order = self.script.parts[first][0].key == key and first == min(self.left)
        last = first
        while is_in_order and last + 1 in self.left and last + 1 < first + self.at_once:
            last += 1
        self.left -= set(range(first, last + 1))
        self.at_once *= 2
        return first, last + 1


def key_of(before: bytes, operation: str, details: Sequence[Any]) -> bytes:
    """A digest of a question and of everything that the same object was asked before it."""
    digest = hashlib.blake2b(before, digest_size=16)
    feed(digest, operation)
    feed(digest, tuple(details))
    return digest.digest()


class Keys:
    """Keys of questions, those known already without reading the details again: most are about the inputs of a case,
    which are the same objects for every answer."""

    def __init__(self) -> None:
        self.known: dict[Hashable, tuple[bytes, Sequence[Any]]] = {}  # with the details, whose ids must not be reused

    def key_of(self, before: bytes, operation: str, details: Sequence[Any]) -> bytes:
        if numbers_in(details) > MOST_NUMBERS:  # as large as a student's module: they are not for every answer
            return key_of(before, operation, details)
        seen = (before, operation, memory.key_of(details))
        if seen not in self.known:
            if len(self.known) >= MOST_KEYS:
                self.known.clear()
            self.known[seen] = key_of(before, operation, details), details
        return self.known[seen][0]


def numbers_in(value: Any) -> int:
    """How many numbers the tensors in plain data have."""
    if type(value) in SCALARS:
        return 0
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, COLLECTIONS):
        return 0
    return sum(map(numbers_in, value))


def feed(digest: Any, value: Any) -> None:
    """Put a value into a digest, with its type, so that no two values look alike."""
    if type(value) in SCALARS:
        text = repr(value)
        digest.update(f"{type(value).__name__} {len(text)} {text} ".encode())
    elif isinstance(value, Tensor):
        digest.update(f"tensor {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(bytes_of(value))
    elif isinstance(value, COLLECTIONS):
        digest.update(f"{type(value).__name__} {len(value)} ".encode())
        for item in sorted(value, key=repr) if isinstance(value, set) else value:
            feed(digest, item)
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)} ".encode())
        for name, item in value.items():
            feed(digest, name)
            feed(digest, item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        digest.update(f"{type(value).__module__}.{type(value).__qualname__} ".encode())
        for field in dataclasses.fields(value):
            feed(digest, getattr(value, field.name))
    else:
        text = repr(value)
        digest.update(f"{type(value).__name__} {len(text)} {text} ".encode())


Message = tuple[bytes, bytes]  # its text, and the bytes of its tensors


class Answers:
    """The answers to many questions, which arrive in order and may be taken in any order.

    latest: the last answer to each question that is asked several times, shared by all that is asked of one object.
    """

    def __init__(self, questions: Sequence[Question], latest: dict[bytes, Message] | None = None):
        self.questions = questions
        self.latest = {} if latest is None else latest
        self.expected = len(questions)
        self.messages: list[Message | None] = []  # as they arrived; None: taken
        self.bytes = 0
        self.places: dict[bytes, deque[int]] = defaultdict(deque)
        for place, question in enumerate(questions):
            self.places[question.key].append(place)

    @property
    def are_complete(self) -> bool:
        return len(self.messages) >= self.expected

    def add(self, message: Message) -> None:
        """The next answer. Raises WireError if it is to be the same as before, and there was none before."""
        key = self.questions[len(self.messages)].key
        self.bytes += sum(map(len, message))
        if message[0] != AGAIN:
            self.latest[key] = message
        elif key not in self.latest:
            raise WireError("There was no such answer before.")
        self.messages.append(self.latest[key])

    def end(self) -> None:
        """No more will arrive, and the last message was not an answer."""
        self.messages.pop()
        self.expected = len(self.messages)

    def place_of(self, key: bytes) -> int | None:
        """The place of the next answer to a question that is not taken, if there is or may be one."""
        places = self.places.get(key)
        return places[0] if places and places[0] < self.expected else None

    def take(self, key: bytes) -> Message:
        """The answer, which has to be there."""
        place = self.places[key].popleft()
        message, self.messages[place] = self.messages[place], None
        assert message is not None
        return message
