"""Our own programs as subjects: references, misconceptions, and pairs of misconceptions.

A diagnosis compares a student's answers with those of a hundred programs. So these are asked sparingly: no question
twice, and none after an answer that differs from the student's.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, cast

from .exercise import Case, Property
from .expect import Differs
from .memory import Memory, Moment
from .subject import Event, Subject, same_trace
from .twins import OwnBench

Program = Callable[..., Any]
Question = tuple[Property, Case]


@dataclass(frozen=True)
class Answers:
    """What a program answers to one question, up to its end or to the first answer that was not the expected one."""

    trace: list[Event]
    is_complete: bool

    def are(self, seen: Sequence[Event], up_to_errors: bool = False) -> bool:
        """Whether they are all the same as those that were seen; up to errors, all errors count as the same."""
        traces = (self.trace, seen)
        return self.is_complete and same_trace(*(map(without_text, traces) if up_to_errors else traces))

    def decide(self, seen: Sequence[Event]) -> bool:
        """Whether enough was asked to know that."""
        return self.is_complete or self.agreeing(seen) < len(self.trace)

    def agreeing(self, seen: Sequence[Event]) -> int:
        """How many of the first answers are those that were seen."""
        return len(list(takewhile(lambda pair: same_trace(*([event] for event in pair)), zip(self.trace, seen))))


def without_text(trace: Sequence[Event]) -> list[Event]:
    """A trace in which every error says the same."""
    return [replace(event, answer="an error") if event.is_error else event for event in trace]


MEMORY: dict[Program, Moment] = {}
KNOWN: dict[tuple[Program, str, int, bool], tuple[Case, Answers]] = {}


def known_answers(
    program: Program, question: Question, expected: Sequence[Event] | None = None, is_thorough: bool = False
) -> Answers:
    """What a program of ours answers; if it is not what was expected, perhaps not to the end.

    It is always the same, so it is asked once.
    """
    prop, case = question
    key = (program, prop.name, id(case), is_thorough)
    known_case, known = KNOWN.get(key, (None, None))
    if known is None or known_case is not case or not (known.is_complete or (expected and known.decide(expected))):
        known = ask(program, question, expected, is_thorough, MEMORY.setdefault(program, Moment()))
        KNOWN[key] = (case, known)
    return known


def ask(
    program: Program,
    question: Question,
    expected: Sequence[Event] | None = None,
    is_thorough: bool = False,
    start: Moment | None = None,
) -> Answers:
    """The answers of a program to one question, which ends when one of them is not the expected one.

    start: what it was asked before, if that is to be remembered.
    """
    bench = OwnBench(program)
    subject = Subject(bench if start is None else Memory(bench, start, recalls=True)).fresh(is_thorough)
    watch = Watch(subject.trace, expected)
    prop, case = question
    ends_with: object = ""
    try:
        prop.holds(cast(Subject, Watched(subject, watch)), case)
    except Departed:
        return Answers(subject.trace, is_complete=False)
    except Exception as error:  # as for every subject: the answers so far count
        ends_with = error
    if any(map(is_for_want_of_memory, [ends_with, *(event.answer for event in subject.trace if event.is_error)])):
        MEMORY.pop(program, None)
        raise MemoryError
    return Answers(subject.trace, is_complete=True)


def is_for_want_of_memory(what: object) -> bool:
    """Whether an error says nothing about the program: a judge has a limit of memory, and somebody's answers fill it.
    What is kept is for everybody's answers."""
    if isinstance(what, Differs):  # to put it into words takes long, and it is about numbers
        return False
    return isinstance(what, MemoryError) or "allocate memory" in str(what) or str(what).startswith("MemoryError")


class Departed(BaseException):
    """An answer is not the expected one, so nothing more needs to be asked. No property should catch this."""


class Watch:
    """Compares the answers of a subject with the expected ones, whenever more is asked."""

    def __init__(self, trace: list[Event], expected: Sequence[Event] | None):
        self.trace = trace
        self.expected = expected
        self.compared = 0  # answers
        self.is_paused = False

    def compare(self) -> None:
        """Raise `Departed` unless all answers that came since the last time are the expected ones."""
        if self.is_paused:
            return
        new = slice(self.compared, len(self.trace))
        self.compared = len(self.trace)
        if self.expected is not None and not same_trace(self.trace[new], self.expected[new]):
            raise Departed

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        was_paused, self.is_paused = self.is_paused, True  # one pause may lie in another
        yield
        self.is_paused = was_paused


class Watched:
    """A subject, or a module that it built, of which nothing is asked after an unexpected answer."""

    def __init__(self, subject: Subject, watch: Watch):
        self.subject = subject
        self.watch = watch

    def __call__(self, *args: Any) -> Any:
        return self.ask(self.subject, *args)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.subject, name)
        return functools.partial(self.ask, value) if callable(value) else value

    def ask(self, question: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self.watch.compare()
        answer = question(*args, **named)
        return Watched(answer, self.watch) if isinstance(answer, Subject) else answer

    @contextlib.contextmanager
    def unobserved(self) -> Iterator[None]:
        with self.subject.unobserved(), self.watch.paused():
            yield
