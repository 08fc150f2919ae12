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

# A check should not take longer than half a second, and to build a module takes longer than to call a function.
MOST_PAIRS, MOST_PAIRS_OF_CLASSES = 1000, 80


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
    alone = {
        mistake: [compared(answers(Subject(mistake), *q), r, seen) for q, r, seen in zip(questions, right, observed)]
        for mistake in exercise.misconceptions
    }

    def is_unlikely(pair: tuple[Program, Program]) -> bool:
        return not all(map(can_explain, *(alone[mistake] for mistake in pair)))

    pairs = sorted(combinations(exercise.misconceptions, 2), key=is_unlikely)
    programs = ((pair, merged(exercise.reference, *pair)) for pair in pairs)
    most = MOST_PAIRS_OF_CLASSES if exercise.is_class else MOST_PAIRS
    yield from islice(((pair, program) for pair, program in programs if program is not None), most)


def compared(trace: list[Event], right: list[Event], seen: list[Event]) -> list[tuple[bool, bool]]:
    """For each single answer: is it right, and is it the one that was seen? Empty if these are other questions."""
    parts = [parts_of(events) for events in (trace, right, seen)]
    if len(set(map(len, parts))) > 1:
        return []
    return [(same_answer(got, wanted), same_answer(got, other)) for got, wanted, other in zip(*parts)]


def can_explain(first: list[tuple[bool, bool]], second: list[tuple[bool, bool]]) -> bool:
    """Where one of two mistakes does no harm, both together should look like the other one alone."""
    return all(
        (not one_is_right or two_was_seen) and (not two_is_right or one_was_seen)
        for (one_is_right, one_was_seen), (two_is_right, two_was_seen) in zip(first, second)
    )


def parts_of(trace: Sequence[Event]) -> list[Any]:
    """The single answers in a trace: of a pair (output, weights), each one."""
    return [part for event in trace for part in (event.answer if isinstance(event.answer, tuple) else [event.answer])]


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
