"""Which mistake is it? A wrong answer is compared with misconceptions, with variants, and with pairs of misconceptions.

The comparison is of behaviour: the same questions are put to both, and all answers have to agree, gradients and
precision included. A name is given only if it explains a wrong value. Two are considered only if neither explains
everything alone, no small change of the reference does, and no other pair does; they are given only if each alone
explains a wrong value that the other alone does not. Otherwise the student is told what would lead to the same, which
is true whatever was written. An error alone explains nothing: many mistakes lead to the same one, so there the
misconception is mentioned as a common cause and not as the student's own. Nor is a second mistake needed to explain
how an error is worded.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .index import Entry, shipped, without_variants
from .merge import merged
from .ours import Program, known_answers
from .properties import Examination
from .report import Diagnosis
from .signature import Signature, matching, parts_of, signature_of
from .subject import Event, same_answer
from .variants import Variant, variants_of


@dataclass(frozen=True)
class Advice:
    """What often leads to an error such as this one."""

    sentence: str


def diagnose(examination: Examination) -> Diagnosis | Advice | None:
    """The mistake that answers every question as the subject does, if there is one and it explains a wrong value."""
    exercise, cases = examination.exercise, examination.cases
    if cases is exercise.cases:
        return Search(examination, shipped(exercise.name) or without_variants(exercise, cases)).finding()
    visible = Examination(exercise, examination.subject, exercise.cases).run()
    if visible.outcome != "right":
        return diagnose(visible)
    return Search(examination, without_variants(exercise, cases)).finding()


class Search:
    """The search for the program behind one wrong answer."""

    def __init__(self, examination: Examination, entry: Entry):
        self.examination = examination
        self.exercise = examination.exercise
        self.reference = self.exercise.reference
        self.mistakes = {mistake.__name__: mistake for mistake in self.exercise.misconceptions}
        self.entry = entry
        self.seen = self.signature()

    def finding(self) -> Diagnosis | Advice | None:
        if self.examination.outcome == "raised" and not self.has_a_wrong_value():
            return self.advice()
        names = self.candidates()
        for name in names:
            if not is_pair(name) and (found := self.named(name)) is not None:
                return found
        pairs = [self.pair(name) for name in names if is_pair(name)]
        pairs = [pair for pair in pairs if self.agrees(merged(self.reference, *pair))]
        for mistake in itertools.chain(*pairs):
            if self.agrees(mistake, up_to_errors=True):
                return Diagnosis(mistake.__name__, sentence_of(mistake))
        if len(pairs) != 1:
            return None
        return named_pair(*pairs[0]) if self.each_explains_something(*pairs[0]) else described_pair(*pairs[0])

    # --- what was seen ---

    def signature(self) -> Signature:
        numbers = range(len(self.examination.cases))
        traces = [self.examination.trace(self.entry.prop, number) for number in numbers]
        return signature_of(traces, [self.right(self.entry.prop, number) for number in numbers])

    def right(self, prop: int, number: int, is_thorough: bool = False) -> list[Event]:
        question = (self.exercise.properties[prop], self.examination.cases[number])
        return known_answers(self.reference, question, is_thorough=is_thorough).trace

    def questions(self) -> Iterator[tuple[int, int, bool]]:
        """Property, case, and whether gradients are asked for: first under the property of the signatures."""
        prop, cases = self.entry.prop, range(len(self.examination.cases))
        others = [i for i in range(len(self.exercise.properties)) if i != prop]
        yield from ((prop, number, False) for number in cases)
        yield from ((other, number, False) for other in others for number in cases)
        calling = [i for i in (prop, *others) if any(event.question == "call" for event in self.right(i, 0))]
        yield from ((i, number, True) for i in calling[:1] for number in cases)

    def has_a_wrong_value(self) -> bool:
        """Whether some answer is wrong, rather than an error."""
        return any(
            wrong_value(self.examination.trace(*question), self.right(*question)) for question in self.questions()
        )

    @functools.cached_property
    def is_wrong_in_shape(self) -> bool:
        """Whether every value is right: then what is wrong is a shape that otherwise means the same."""
        return not self.has_a_wrong_value()

    # --- one mistake ---

    def candidates(self) -> list[str]:
        """The ids of the programs whose signature is the one that was seen."""
        same = np.atleast_1d(matching(self.seen, self.entry.signatures).all(axis=-1))
        return [name for name, is_same in zip(self.entry.ids, same) if is_same]

    def program(self, name: str) -> Program | Variant:
        if name in self.mistakes:
            return self.mistakes[name]
        return variants_of(self.reference)[int(name.partition("#")[2])]

    def named(self, name: str) -> Diagnosis | None:
        mistake = self.program(name)
        program = mistake.program if isinstance(mistake, Variant) else mistake
        if not self.agrees(program):
            return None
        return Diagnosis(name, mistake.sentence if isinstance(mistake, Variant) else sentence_of(mistake))

    def agrees(self, program: Program | None, up_to_errors: bool = False) -> bool:
        """Whether a program answers every question as was seen. Up to errors: where both raise, whatever they raise."""
        if program is None:
            return False
        for prop, number, is_thorough in self.questions():
            seen = self.examination.trace(prop, number, is_thorough)
            question = (self.exercise.properties[prop], self.examination.cases[number])
            answers = known_answers(program, question, seen, is_thorough)
            if not answers.are(seen, up_to_errors) or (
                self.is_wrong_in_shape and axes_in(answers.trace) != axes_in(seen)
            ):
                return False
        return True

    def advice(self) -> Advice | None:
        """If there are only errors: the misconception that leads to the same ones, if there is exactly one."""
        causes = [m for m in self.exercise.misconceptions if m.__name__ in self.candidates() and self.agrees(m)]
        return Advice(f"A common cause of this error: {deed_of(causes[0])}") if len(causes) == 1 else None

    def pair(self, name: str) -> tuple[Program, Program]:
        """The misconceptions of a pair."""
        first, second = (self.mistakes[part] for part in name.split(" + "))
        return first, second

    def each_explains_something(self, first: Program, second: Program) -> bool:
        """Whether each of two mistakes alone gives a wrong value that was seen, and that the other does not give."""
        missing = [True, True]
        for prop, number, is_thorough in self.questions():
            question = (self.exercise.properties[prop], self.examination.cases[number])
            seen, right = self.examination.trace(prop, number, is_thorough), self.right(prop, number, is_thorough)
            alone = [known_answers(m, question, is_thorough=is_thorough).trace for m in (first, second)]
            for got, want, *given in zip(seen, right, *alone):
                if got.is_error or len({event.question for event in (got, want, *given)}) > 1:
                    break
                is_wrong = ~same_values(got.answer, want.answer)
                same = [same_values(got.answer, event.answer) for event in given]
                missing = [m and not (is_wrong & same[i] & ~same[1 - i]).any() for i, m in enumerate(missing)]
            if not any(missing):
                return True
        return False


def same_values(answer: Any, other: Any) -> np.ndarray:
    """Number by number, where two answers are equal. Answers of different shapes differ everywhere."""
    if isinstance(answer, dict) and isinstance(other, dict) and answer.keys() == other.keys():
        return same_values(list(answer.values()), [other[key] for key in answer])
    if isinstance(answer, tuple | list) and isinstance(other, tuple | list) and len(answer) == len(other) > 0:
        return np.concatenate([same_values(*parts) for parts in zip(answer, other)])
    both_tensors = isinstance(answer, Tensor) and isinstance(other, Tensor)
    if both_tensors and answer.shape == other.shape and answer.dtype == other.dtype:
        return torch.isclose(answer, other, rtol=1e-4, atol=1e-5, equal_nan=True).flatten().numpy()
    return np.full(count_of(answer), same_answer(answer, other))


def count_of(answer: Any) -> int:
    """How many single values an answer has."""
    if isinstance(answer, Tensor):
        return answer.numel()
    if isinstance(answer, dict):
        answer = list(answer.values())
    return sum(map(count_of, answer)) if isinstance(answer, tuple | list) else 1


def is_pair(name: str) -> bool:
    return " + " in name


def axes_in(trace: Sequence[Event]) -> list[int]:
    """How many axes each answer has."""
    return [part.dim() for part in parts_of(trace) if isinstance(part, Tensor)]


def wrong_value(seen: Sequence[Event], right: Sequence[Event]) -> bool:
    """Whether the first answer that is not the right one is a value."""
    for got, want in zip(seen, right):
        if got.question != want.question or not same_answer(got.answer, want.answer):
            return not got.is_error
    return False


def named_pair(first: Program, second: Program) -> Diagnosis:
    return Diagnosis(f"{first.__name__} + {second.__name__}", f"{deed_of(first)} And: {deed_of(second)}")


def described_pair(first: Program, second: Program) -> Diagnosis:
    """What two mistakes would lead to, without saying that the student made them."""
    sentence = (
        f"Your result is exactly what comes out if both of these are true: (1) {deed_of(first)} (2) {deed_of(second)}"
    )
    return Diagnosis(f"both#{first.__name__}&{second.__name__}", sentence)


def sentence_of(mistake: Program) -> str:
    """A misconception's sentences for the student: its docstring, on one line."""
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").split())


def deed_of(mistake: Program) -> str:
    """What was done, without what comes of it: the docstring's first paragraph.

    The paragraphs after it describe the consequences of this mistake alone; a second mistake may undo them.
    """
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").partition("\n\n")[0].split())
