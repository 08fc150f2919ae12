"""What a right answer to an exercise is asked: the scripts that are sent to a runner at once (see `walls.foresight`).

They are recorded from the reference, which is asked here what a student's answer will be asked there.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from autograder.hidden import all_hidden
from autograder.walls.foresight import BEGINNING, Question, Reading, Script, key_of
from course_lib.checking.bench import Answer, Bench
from course_lib.checking.exercise import Case, Exercise
from course_lib.checking.index import stored
from course_lib.checking.ours import known_answers
from course_lib.checking.properties import Examination, no_garbage_collection, one_thread
from course_lib.checking.report import CheckResult
from course_lib.checking.subject import Subject
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises import all_exercises

CHECKED, DIAGNOSED = 1_000_000, 2_000_000  # numbers of modules in these scripts: each has one meaning


@functools.lru_cache(maxsize=512)
def scripts_for(name: str, hidden_seed: str | None = None) -> tuple[Script, ...]:
    """What is asked in order to check an exercise, a part for each case of each property, and in order to look for the
    mistake.

    hidden_seed: for its hidden cases.
    """
    exercise = all_exercises()[name]
    if isinstance(exercise, WrittenTest):
        return ()
    cases = exercise.cases if hidden_seed is None else all_hidden()[name].cases(hidden_seed)
    with one_thread(), no_garbage_collection():
        checked, diagnosed = Recording(exercise, CHECKED), Recording(exercise, DIAGNOSED)
        examination = Examination(exercise, Subject(checked.bench), cases)
        for position, case in itertools.product(range(len(exercise.properties)), cases):
            checked.parts.append([])
            examination.cases = [case]
            examination.run_property(position)
        if hidden_seed is None:
            ask_for_gradients(diagnosed, cases)
    return tuple(script for recording in (checked, diagnosed) for script in recording.scripts())


def foreseen(name: str, hidden_seed: str | None = None, seen: Sequence[CheckResult] = ()) -> list[Reading]:
    """The scripts of an exercise, to be read once.

    seen: what came of the properties on the visible cases. Those that hold there will probably hold on the hidden ones,
    and the next one will probably fail on the first of them.
    """
    scripts = scripts_for(name, hidden_seed)
    if not scripts:
        return []
    count = len(all_exercises()[name].cases if hidden_seed is None else all_hidden()[name].cases(hidden_seed))
    hold = sum(check.passed is True for check in seen)
    return [Reading(script, count * hold + 1 if seen else count) for script in scripts]


def ask_for_gradients(recording: Recording, cases: Sequence[Case]) -> None:
    """As a diagnosis does, when it knows the answers to everything else."""
    exercise = recording.exercise
    recording.parts.append([])
    known = stored(exercise.name)
    first = known.prop if known is not None and known.prop < len(exercise.properties) else 0
    for prop in [exercise.properties[first], *exercise.properties]:
        if any(event.question == "call" for event in known_answers(exercise.reference, (prop, cases[0])).trace):
            for case in cases:
                with contextlib.suppress(Exception):
                    prop.holds(Subject(recording.bench).fresh(is_thorough=True), case)
            break
    if not exercise.is_class:
        recording.parts[-1] = [q for q in recording.parts[-1] if q.operation == "gradients"]


class Recording:
    """Everything that an exercise's reference is asked."""

    def __init__(self, exercise: Exercise, first_module: int):
        self.exercise = exercise
        self.parts: list[list[Question]] = []
        self.modules: Iterator[int] = itertools.count(first_module)
        self.answered: dict[int, Tensor] = {}  # by id; kept alive, so that no id has two meanings
        self.is_asked_with_answers = False
        self.bench = RecordedBench(self, Bench(exercise.reference))

    def scripts(self) -> list[Script]:
        """One script, or none if something was asked with a tensor that a property has changed since.

        Also none if a question holds an answer to an earlier one: sent ahead, it would give a right answer away.
        """
        if self.is_asked_with_answers:
            return []
        before = {0: BEGINNING}
        for question in itertools.chain(*self.parts):
            key = key_of(before.get(question.bench, BEGINNING), question.operation, question.details)
            if key != question.key:
                return []
            if question.bench:
                before[question.bench] = key
            if question.built is not None:
                before[question.built] = key
        return [Script(self.parts)] if any(self.parts) else []


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in plain data."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list | set | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)


class RecordedBench(Bench):
    """A bench that notes what it is asked. It shows no object, as one in another process does not."""

    def __init__(self, recording: Recording, bench: Bench, number: int = 0, key: bytes = BEGINNING):
        self.recording = recording
        self.bench = bench
        self.number = number
        self.key = key

    def ask(self, operation: str, *details: Any) -> Answer:
        key = key_of(self.key, operation, details)
        answered = self.recording.answered
        self.recording.is_asked_with_answers |= any(id(tensor) in answered for tensor in tensors_in(details))
        built = next(self.recording.modules) if operation == "build" else None
        self.recording.parts[-1].append(Question(self.number, operation, details, built, key))
        if self.number:
            self.key = key
        answer = self.bench.ask(operation, *details)
        if built is None:
            answered |= {id(tensor): tensor for tensor in tensors_in(answer.value)}
            return answer
        return Answer(RecordedBench(self.recording, answer.value, built, key), answer.changed)
