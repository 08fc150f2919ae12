"""The other kind of exercise: write the test.

The student's function is given an implementation of another exercise and says whether it is right. It is tried on that
exercise's own answers: it should accept the reference and every alternative, and reject every misconception. Points are
given for the share of mistakes caught and the share of right answers accepted. A test that accepts everything, or
rejects everything, earns nothing, and one that guesses nearly always earns nothing too.

The *misconceptions* of such an exercise are wrong tests, and its *alternatives* are other tests that catch everything.
Its cases are not written down but drawn: which implementation is asked about when, and in which disguise.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bench import StudentError
from .disguise import Implementation, disguised
from .exercise import REGISTRY, Case, Exercise, Property
from .expect import expect
from .subject import Subject

ACCEPTS, CATCHES = "it accepts what is right", "it catches the mistakes"
TIMES = 2  # how often a test is asked about the same implementation, each time in another disguise


@dataclass(kw_only=True)
class WrittenTest(Exercise):
    """A test to write. Its reference, misconceptions and alternatives are tests of the exercise `tested`."""

    cases: Sequence[Case] = ()
    tested: Exercise
    shown: Sequence[str]  # the mistakes that the visible check tries; the others are tried when it is graded
    about: Sequence[str] | None = None  # the mistakes that count; None: all that the tested exercise knows
    left_out: Mapping[str, str] = field(default_factory=dict)  # mistake -> why a good test may let it through
    points: float = 4.0
    hidden_points: float = 2.0

    def __post_init__(self) -> None:
        unknown = {*self.shown, *(self.about or ()), *self.left_out} - self.known.keys()
        if unknown:
            raise ValueError(f"{self.tested.name} has no misconception {', '.join(sorted(unknown))}.")
        super().__post_init__()
        self.properties = [Property(ACCEPTS, 0.0, accepts_the_right), Property(CATCHES, self.points, rejects_the_wrong)]

    @property
    def known(self) -> dict[str, Implementation]:
        return {wrong.__name__: wrong for wrong in self.tested.misconceptions}

    @property
    def mistakes(self) -> dict[str, Implementation]:
        """All mistakes that count, those that the visible check tries first."""
        wanted = self.known if self.about is None else self.about
        return {name: self.known[name] for name in dict.fromkeys([*self.shown, *wanted]) if name not in self.left_out}

    @property
    def right(self) -> dict[str, Implementation]:
        """All right implementations."""
        found = (self.tested.reference, *self.tested.alternatives)
        return {implementation.__name__: implementation for implementation in found}

    def questions(self, seed: str = "", everything: bool = False) -> list[Case]:
        """What a test is asked, about everything or about what is shown; the same for the same seed.

        The questions come in rounds. Each round has one right implementation, and no mistake twice: from what it has
        met before in a round, a test learns nothing about the next one. Where only a few mistakes are tried, the right
        implementations are asked about twice as well, so that guessing does not pay.
        """
        return drawn(self.name, seed, everything)


@functools.lru_cache(maxsize=256)
def drawn(name: str, seed: str, everything: bool) -> list[Case]:
    """The questions about an exercise."""
    exercise = REGISTRY[name]
    assert isinstance(exercise, WrittenTest)
    dice = random.Random(f"{name} {seed}")
    names = exercise.mistakes if everything else exercise.shown
    right = list(exercise.right.items()) * (1 if everything else TIMES)
    rounds: list[list[tuple[str, Implementation, bool]]] = [[(name, one, True)] for name, one in right]
    dice.shuffle(rounds)
    for mistake in names:
        for questions in dice.sample(rounds, k=min(TIMES, len(rounds))):
            questions.append((mistake, exercise.mistakes[mistake], False))
    return [
        {"program": disguised(exercise.tested, one, dice), "stands_for": name, "is_right": is_right, "round": number}
        for number, questions in enumerate(rounds)
        for name, one, is_right in dice.sample(questions, k=len(questions))
    ]


@dataclass(frozen=True)
class Reply:
    """What a test says about the implementation of a case. An error is a rejection, whoever raises it."""

    case: Case
    value: Any = False
    error: StudentError | None = None

    @property
    def accepts(self) -> bool:
        return self.value is True

    @property
    def is_right(self) -> bool:
        return self.accepts == self.case["is_right"]


def reply_to(subject: Subject, case: Case) -> Reply:
    try:
        value, _ = subject.effect(case["program"])
    except StudentError as error:
        return Reply(case, error=error)
    return Reply(case, value)


def accepts_the_right(subject: Subject, case: Case) -> None:
    expect(not case["is_right"] or reply_to(subject, case).is_right, f"It refuses {case['stands_for']}.")


def rejects_the_wrong(subject: Subject, case: Case) -> None:
    expect(case["is_right"] or reply_to(subject, case).is_right, f"It accepts {case['stands_for']}.")


def whole_points(points: float, accepted: float, caught: float) -> float:
    """Points for these shares of right implementations and of mistakes: none for a test that cannot tell them apart."""
    return float(math.floor(points * max(0.0, accepted + caught - 1) + 1e-9))
