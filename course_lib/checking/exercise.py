"""What an exercise is.

An exercise has a reference, cases to run it on, and three lists of small functions:

- *properties*: what must hold, each with its own points, from coarse to fine. One without points only says earlier,
and in better words, what a later one would find; at the end it is advice;
- *misconceptions*: wrong answers that people really give. The function's name is the misconception's id, its
  docstring the sentence for the student, its body the mistake;
- *alternatives*: right answers that are written quite differently.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .subject import Subject

Case = Mapping[str, Any]
Implementation = TypeVar("Implementation", bound=Callable[..., Any])
PropertyFunction = Callable[[Subject, Case], None]

REGISTRY: dict[str, Exercise] = {}
MOST_WANTED = 100  # cases whose right answer is kept; an exercise has fewer


@dataclass(frozen=True)
class Property:
    """One thing that must hold on every case."""

    name: str
    points: float
    holds: PropertyFunction


@dataclass
class Exercise:
    """One thing to build, and everything that is known about how people build it."""

    reference: Callable[..., Any]
    cases: Sequence[Case]
    hints: Sequence[str]
    minutes: int
    difficulty: int
    hidden_points: float = 1.0  # given when it is graded, on the hidden cases
    forbids: frozenset[str] = (
        frozenset()
    )  # functions that would do all the work: the judge looks for them in the source too
    properties: list[Property] = field(default_factory=list)
    misconceptions: list[Callable[..., Any]] = field(default_factory=list)
    alternatives: list[Callable[..., Any]] = field(default_factory=list)
    wanted: dict[int, tuple[Case, Any]] = field(default_factory=dict, repr=False)  # by the id of a case, which is kept

    def __post_init__(self) -> None:
        if self.name in REGISTRY and REGISTRY[self.name].topic != self.topic:
            raise ValueError(f"There are two exercises called {self.name}.")
        REGISTRY[self.name] = self

    @property
    def name(self) -> str:
        return self.reference.__name__

    @property
    def topic(self) -> str:
        """The stem shared by the notebook, the reference, the exercises, the hidden cases and the tests."""
        return self.reference.__module__.rsplit(".", 1)[-1]

    @property
    def max_points(self) -> float:
        return float(sum(p.points for p in self.properties))

    @property
    def minutes_for_newcomers(self) -> int:
        """`minutes` are those of somebody who has just understood the text."""
        return round(1.5 * self.minutes)

    @property
    def is_class(self) -> bool:
        return inspect.isclass(self.reference)

    def want(self, case: Case) -> Any:
        """What the reference answers to a case. Most properties need it, for every answer that is checked, and it is
        computed once. Do not change it."""
        if id(case) not in self.wanted:
            if len(self.wanted) >= MOST_WANTED:
                self.wanted.clear()
            self.wanted[id(case)] = case, self.reference(**case)
        return self.wanted[id(case)][1]

    @property
    def call(self) -> str:
        """How the checks call it: `causal_mask(n)`."""
        return f"{self.name}({', '.join(inspect.signature(self.reference).parameters)})"

    def property(self, name: str, points: float) -> Callable[[PropertyFunction], PropertyFunction]:
        """Decorator: this must hold on every case. Write them from coarse to fine: the first failure ends a run."""

        def register(function: PropertyFunction) -> PropertyFunction:
            self.properties.append(Property(name, points, function))
            return function

        return register

    def advice(self, name: str) -> Callable[[PropertyFunction], PropertyFunction]:
        """Decorator: should hold too, but is worth no points. For what the judge knows only from the process in which
        the student's code runs. Advice comes last."""
        return self.property(name, points=0)

    def misconception(self, wrong: Implementation) -> Implementation:
        """Decorator: a wrong answer that people really give."""
        if not inspect.getdoc(wrong):
            raise ValueError(f"The misconception {wrong.__name__} needs a docstring: the sentence for the student.")
        self.misconceptions.append(wrong)
        return wrong

    def alternative(self, right: Implementation) -> Implementation:
        """Decorator: a right answer that is written differently from the reference."""
        self.alternatives.append(right)
        return right
