"""Which mistake is it? A wrong answer is compared with every misconception, and then with pairs of them.

The comparison is of behaviour: the same questions are put to both, and all answers have to agree.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

from .exercise import Case, Exercise, Property
from .merge import merged
from .subject import Event, Subject, same_answer, same_trace

Program = Callable[..., Any]

MOST_PAIRS = 250  # a check should not take longer than half a second


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
    for mistakes, program in candidates(exercise, questions[: len(cases)], observed):
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


def candidates(
    exercise: Exercise, questions: Sequence[tuple[Property, Case]], observed: Sequence[list[Event]]
) -> Iterator[tuple[tuple[Program, ...], Program]]:
    """First the misconceptions, then the pairs that can be merged into one program, likely ones before others."""
    for mistake in exercise.misconceptions:
        yield (mistake,), mistake
    right = [answers(Subject(exercise.reference), *question) for question in questions]
    seen = [differing(*traces) for traces in zip(observed, right)]
    alone = {
        mistake: [differing(answers(Subject(mistake), *question), wanted) for question, wanted in zip(questions, right)]
        for mistake in exercise.misconceptions
    }

    def is_unlikely(pair: tuple[Program, Program]) -> bool:
        return not all(can_explain(*sets) for sets in zip(seen, *(alone[mistake] for mistake in pair)))

    pairs = sorted(combinations(exercise.misconceptions, 2), key=is_unlikely)
    programs = ((pair, merged(exercise.reference, *pair)) for pair in pairs)
    yield from islice(((pair, program) for pair, program in programs if program is not None), MOST_PAIRS)


def can_explain(seen: set[int] | None, first: set[int] | None, second: set[int] | None) -> bool:
    """Two mistakes together mostly spoil what one of them spoils, and nothing else. None: not to be compared."""
    return seen is None or first is None or second is None or seen == first | second


def differing(trace: Sequence[Event], right: Sequence[Event]) -> set[int] | None:
    """Which of the answers in a trace are not the right ones; None if they are answers to other questions."""
    got, want = (
        [part for event in events for part in (event.answer if isinstance(event.answer, tuple) else [event.answer])]
        for events in (trace, right)
    )
    if len(got) != len(want):
        return None
    return {place for place, pair in enumerate(zip(got, want)) if not same_answer(*pair)}


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
