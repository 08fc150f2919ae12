"""Which mistake is it? A wrong answer is compared with every misconception, and then with pairs of them.

The comparison is of behaviour: the same questions are put to both, and all answers have to agree.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .exercise import Case, Exercise, Property
from .merge import merged
from .subject import Event, Subject, same_trace

Program = Callable[..., Any]


@dataclass(frozen=True)
class Diagnosis:
    """The misconception behind a wrong answer: its id, and the sentence for the student."""

    id: str
    sentence: str


def diagnose(exercise: Exercise, subject: Subject, cases: Sequence[Case]) -> Diagnosis | None:
    """The misconception, or the pair of misconceptions, that answers every question as the subject does."""
    questions = [(prop, case) for prop in exercise.properties for case in cases]
    observed = [answers(subject, prop, case) for prop, case in questions]
    only_errors = all(isinstance(event.answer, str) for seen in observed for event in seen)
    for mistakes, program in candidates(exercise):
        if only_errors and len(mistakes) > 1:
            break  # one error message can have many causes: too little to accuse somebody of two mistakes
        suspect = Subject(program)
        if all(
            same_trace(seen, answers(suspect, prop, case))
            for seen, (prop, case) in zip(observed, questions, strict=True)
        ):
            return Diagnosis(
                id=" + ".join(mistake.__name__ for mistake in mistakes),
                sentence=" And: ".join(sentence_of(mistake) for mistake in mistakes),
            )
    return None


def candidates(exercise: Exercise) -> Iterator[tuple[tuple[Program, ...], Program]]:
    """First the misconceptions, then the pairs that can be merged into one program."""
    for mistake in exercise.misconceptions:
        yield (mistake,), mistake
    for first, second in combinations(exercise.misconceptions, 2):
        both = merged(exercise.reference, first, second)
        if both is not None:
            yield (first, second), both


def answers(subject: Subject, prop: Property, case: Case) -> list[Event]:
    """Everything a subject answers while one property is checked on one case."""
    asked = subject.fresh()
    # A property counts on those before it, which need not hold here: whatever goes wrong, the answers so far count.
    with contextlib.suppress(Exception):
        prop.holds(asked, case)
    return asked.trace


def sentence_of(mistake: Program) -> str:
    """A misconception's sentence for the student: its docstring, on one line."""
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").split())
