"""Which mistake is it? A wrong answer is compared with every misconception, and then with pairs of them.

The comparison is of behaviour: the same questions are put to both, and all answers have to agree.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import torch
from torch import Tensor

from .exercise import Case, Exercise, Property
from .merge import merged
from .ours import Program, Question, known_answers
from .subject import Event, Subject, same_answer

Pair = tuple[Program, Program]

# A check should not take longer than half a second. To ask a module takes longer than to ask a function, and where
# there are more misconceptions, more of the time goes into these.
MOST_PAIRS = 1000
LEAST_PAIRS_OF_CLASSES, PROGRAMS_OF_CLASSES = 30, 1400
ENOUGH_CASES = 2  # to see which pairs are likely


@dataclass(frozen=True)
class Diagnosis:
    """The misconception behind a wrong answer: its id, and the sentence for the student."""

    id: str
    sentence: str


def diagnose(exercise: Exercise, subject: Subject, cases: Sequence[Case]) -> Diagnosis | None:
    """The misconception, or the pair of misconceptions, that answers every question as the subject does."""
    questions = [(prop, case) for prop in exercise.properties for case in cases]
    numbers = range(len(questions))

    @functools.cache
    def seen(number: int) -> list[Event]:
        return answers(subject, *questions[number])

    def agrees(program: Program) -> bool:
        return all(known_answers(program, questions[i], seen(i)).are(seen(i)) for i in numbers)

    for mistake in exercise.misconceptions:
        if agrees(mistake):
            return Diagnosis(mistake.__name__, sentence_of(mistake))
    if all(isinstance(event.answer, str) for i in numbers for event in seen(i)):
        return None  # one error message can have many causes: too little to accuse somebody of two mistakes
    telling = [(questions[i], seen(i)) for i in numbers[: min(len(cases), ENOUGH_CASES)]]
    for (first, second), program in merged_pairs(exercise, likely_pairs(exercise, telling)):
        if agrees(program):
            return Diagnosis(
                id=f"{first.__name__} + {second.__name__}",
                sentence=f"{deed_of(first)} And: {deed_of(second)}",
            )
    return None


def merged_pairs(exercise: Exercise, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Program]]:
    """The first pairs that can be merged into one program, each with the program."""
    programs = ((pair, merged(exercise.reference, *pair)) for pair in pairs)
    return islice(((pair, program) for pair, program in programs if program is not None), most_pairs(exercise))


def most_pairs(exercise: Exercise) -> int:
    if not exercise.is_class:
        return MOST_PAIRS
    return max(LEAST_PAIRS_OF_CLASSES, PROGRAMS_OF_CLASSES // len(exercise.misconceptions))


def likely_pairs(exercise: Exercise, telling: Sequence[tuple[Question, list[Event]]]) -> list[Pair]:
    """Pairs of misconceptions, in the order in which their answers alone speak for both together.

    telling: some questions, and what was seen. Pairs of classes against which an answer speaks are left out.
    """
    pairs = list(combinations(exercise.misconceptions, 2))
    evidence: dict[Pair, list[int]] = {pair: [] for pair in pairs}
    distance = dict.fromkeys(exercise.misconceptions, 0.0)
    for question, seen in telling:
        right = known_answers(exercise.reference, question).trace
        alone = {}
        for mistake in {mistake for pair in pairs for mistake in pair}:
            trace = known_answers(mistake, question, seen).until_they_depart(seen)
            alone[mistake] = compared(trace, right, seen)
            distance[mistake] += remoteness(trace, seen)
        for first, second in pairs:
            evidence[first, second].append(evidence_for(alone[first], alone[second]))
        if exercise.is_class:
            pairs = [pair for pair in pairs if -1 not in evidence[pair]]

    def likelihood(pair: Pair) -> tuple[float, ...]:
        """First what speaks for the two; where that is equal, how near the answer is to that of one or the other."""
        counts = evidence[pair]
        near, far = sorted(distance[mistake] for mistake in pair)
        return (-1 if -1 in counts else sum(counts)), -near, -far

    return sorted(pairs, key=likelihood, reverse=True)


def compared(trace: Sequence[Event], right: Sequence[Event], seen: Sequence[Event]) -> list[tuple[bool, bool]]:
    """For each single answer: is it right, and is it the one that was seen? Empty if these are other questions."""
    parts = [parts_of(events[: len(trace)]) for events in (trace, right, seen)]
    if len(set(map(len, parts))) > 1:
        return []
    return [(same_answer(got, wanted), same_answer(got, other)) for got, wanted, other in zip(*parts)]


def remoteness(trace: Sequence[Event], seen: Sequence[Event]) -> float:
    """How far the numbers in a trace are from those that were seen: 0 if they are the same, at most 1.

    Each is measured by its own size: mistakes may make a result a hundred times too large.
    """
    parts = zip(parts_of(trace), parts_of(seen[: len(trace)]))
    gaps = [gap(got, other) for got, other in parts if isinstance(other, Tensor) and other.is_floating_point()]
    return torch.cat(gaps).mean().item() if gaps else 1.0


def gap(got: Any, other: Tensor) -> Tensor:
    """For each number: |got - other| / (|got| + |other|); 1 if these are no numbers that can be compared."""
    if not isinstance(got, Tensor) or got.shape != other.shape:
        return torch.ones(other.numel(), dtype=torch.float64)
    got, other = got.double().flatten(), other.double().flatten()
    return ((got - other).abs() / (got.abs() + other.abs() + 1e-12)).nan_to_num(1.0)


def evidence_for(first: list[tuple[bool, bool]], second: list[tuple[bool, bool]]) -> int:
    """Where one of two mistakes does no harm, both together should look like the other one alone. How often do they?

    -1 if they do not once.
    """
    count = 0
    for (one_is_right, one_was_seen), (two_is_right, two_was_seen) in zip(first, second):
        if (one_is_right and not two_was_seen) or (two_is_right and not one_was_seen):
            return -1
        count += one_is_right != two_is_right
    return count


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
    """A misconception's sentences for the student: its docstring, on one line."""
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").split())


def deed_of(mistake: Program) -> str:
    """What was done, without what comes of it: the docstring's first paragraph.

    The consequences in the paragraphs behind it are those of this mistake alone; a second mistake may undo them.
    """
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").partition("\n\n")[0].split())
