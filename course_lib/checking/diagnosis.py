"""Which mistake is it? A wrong answer is compared with misconceptions, with variants, and with pairs of misconceptions.

The comparison is of behaviour: the same questions are put to both, and all answers have to agree, gradients and
precision included. A name is given only if it explains a wrong value. An error alone explains nothing: many mistakes
lead to the same one, so there the misconception is mentioned as a common cause and not as the student's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .index import Entry, differs_in_a_value, shipped, without_variants
from .merge import merged
from .ours import Program, known_answers
from .properties import Examination
from .report import Diagnosis
from .signature import EXACTLY, Signature, matching, signature_of
from .subject import Event, same_answer
from .variants import Variant, variants_of

MOST_PAIRS = 40


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
        self.entry = entry
        self.seen = self.signature()

    def finding(self) -> Diagnosis | Advice | None:
        if not self.has_a_wrong_value():
            return self.advice()
        for name in self.candidates():
            found = self.named(name)
            if found is not None:
                return found
        pairs = [pair for pair in self.likely_pairs() if self.agrees(merged(self.exercise.reference, *pair))]
        return diagnosis_of_pair(*pairs[0]) if len(pairs) == 1 else None

    # --- what was seen ---

    def signature(self) -> Signature:
        numbers = range(len(self.examination.cases))
        traces = [self.examination.trace(self.entry.prop, number) for number in numbers]
        return signature_of(traces, [self.right(self.entry.prop, number) for number in numbers])

    def right(self, prop: int, number: int, is_thorough: bool = False) -> list[Event]:
        return self.ours(self.exercise.reference, prop, number, is_thorough)

    def ours(self, program: Program, prop: int, number: int, is_thorough: bool = False) -> list[Event]:
        question = (self.exercise.properties[prop], self.examination.cases[number])
        return known_answers(program, question, is_thorough=is_thorough).trace

    def questions(self) -> Iterator[tuple[int, int, bool]]:
        """Property, case, and whether gradients are asked for: first under the property of the signatures."""
        prop, cases = self.entry.prop, range(len(self.examination.cases))
        others = [i for i in range(len(self.exercise.properties)) if i != prop]
        yield from ((prop, number, False) for number in cases)
        yield from ((other, number, False) for other in others for number in cases)
        yield from ((prop, number, True) for number in cases)

    def has_a_wrong_value(self) -> bool:
        """Whether some answer is wrong, rather than an error."""
        return any(
            wrong_value(self.examination.trace(*question), self.right(*question)) for question in self.questions()
        )

    # --- one mistake ---

    def candidates(self) -> list[str]:
        """The ids of the programs whose signature is the one that was seen."""
        same = np.atleast_1d(matching(self.seen, self.entry.signatures).all(axis=-1))
        return [name for name, is_same in zip(self.entry.ids, same) if is_same]

    def program(self, name: str) -> Program | Variant:
        for mistake in self.exercise.misconceptions:
            if mistake.__name__ == name:
                return mistake
        return variants_of(self.exercise.reference)[int(name.partition("#")[2])]

    def named(self, name: str) -> Diagnosis | None:
        mistake = self.program(name)
        program = mistake.program if isinstance(mistake, Variant) else mistake
        if not self.agrees(program):
            return None
        return Diagnosis(name, mistake.sentence if isinstance(mistake, Variant) else sentence_of(mistake))

    def agrees(self, program: Program | None) -> bool:
        """Whether a program answers every question as was seen."""
        if program is None:
            return False
        for prop, number, is_thorough in self.questions():
            seen = self.examination.trace(prop, number, is_thorough)
            question = (self.exercise.properties[prop], self.examination.cases[number])
            if not known_answers(program, question, seen, is_thorough).are(seen):
                return False
        return True

    def advice(self) -> Advice | None:
        """Where there are nothing but errors: the misconception that leads to the same ones, if it is just one."""
        causes = [m for m in self.exercise.misconceptions if m.__name__ in self.candidates() and self.agrees(m)]
        return Advice(f"A common cause of this error: {deed_of(causes[0])}") if len(causes) == 1 else None

    # --- two mistakes ---

    def likely_pairs(self) -> list[tuple[Program, Program]]:
        """Pairs of misconceptions of which each explains, alone, a wrong value that the other does not."""
        mistakes = self.exercise.misconceptions
        rows = self.entry.signatures[: len(mistakes)]
        wrong = differs_in_a_value(self.seen, self.entry.reference)
        explains = matching(self.seen, rows) & wrong  # (misconceptions, answers)
        harmless = matching(self.entry.reference, rows, EXACTLY)
        was_seen = matching(self.seen, rows)
        found = []
        for i, j in combinations(np.flatnonzero(explains.any(axis=-1)), 2):
            each_explains = (explains[i] & ~explains[j]).any() and (explains[j] & ~explains[i]).any()
            # Where one of them does no harm, both together look like the other one alone.
            contradicted = (harmless[i] & ~was_seen[j]).any() or (harmless[j] & ~was_seen[i]).any()
            if each_explains and not contradicted:
                found.append((mistakes[i], mistakes[j]))
        return found[:MOST_PAIRS]


def wrong_value(seen: Sequence[Event], right: Sequence[Event]) -> bool:
    """Whether the first answer that is not the right one is a value."""
    for got, want in zip(seen, right):
        if got.question != want.question or not same_answer(got.answer, want.answer):
            return not got.is_error
    return False


def diagnosis_of_pair(first: Program, second: Program) -> Diagnosis:
    return Diagnosis(f"{first.__name__} + {second.__name__}", f"{deed_of(first)} And: {deed_of(second)}")


def sentence_of(mistake: Program) -> str:
    """A misconception's sentences for the student: its docstring, on one line."""
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").split())


def deed_of(mistake: Program) -> str:
    """What was done, without what comes of it: the docstring's first paragraph.

    The consequences in the paragraphs behind it are those of this mistake alone; a second mistake may undo them.
    """
    return " ".join(inspect.cleandoc(mistake.__doc__ or "").partition("\n\n")[0].split())
