"""Runs an exercise's properties on a subject, and keeps what the subject answered."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .bench import NotAttempted, StudentError, listening
from .difference import Difference
from .errors import in_plain_words
from .exercise import Case, Exercise
from .expect import Failure
from .memory import Memory, Moment
from .ours import known_answers
from .patience import TimeIsUp, at_most
from .report import CheckResult, Outcome, Report
from .signature import parts_of
from .subject import CHANGED_AN_INPUT, Event, Subject, same_answer

NOTHING_WRITTEN = "Nothing is written here yet: replace `raise NotImplementedError()` with your code."
SMALL = 12  # larger tensors are not shown in full


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: more do not help with small tensors, and are much slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A check makes many objects, and with torch imported, each garbage collection takes a while."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Examination:
    """The properties of an exercise on a subject, in their order, up to the first that fails."""

    def __init__(self, exercise: Exercise, subject: Subject, cases: Sequence[Case], seconds: float | None = None):
        self.exercise = exercise
        self.subject = subject
        self.cases = cases
        self.seconds = seconds  # that one property may take on one case
        self.printed: list[tuple[str, str]] = []  # the case, and what the student's code printed there
        self.outcome: Outcome = "right"
        self.results: list[CheckResult] = []
        self.changed_inputs: set[str] = set()
        self.traces: dict[tuple[int, int, bool], list[Event]] = {}
        self.start = Moment()  # of all that is asked of the subject

    def run(self) -> Examination:
        for position, prop in enumerate(self.exercise.properties):
            if self.outcome == "right":
                result, self.outcome = self.run_property(position)
            else:
                result = CheckResult(prop.name, None, "not reached", 0.0, prop.points)
            self.results.append(result)
        return self

    def passes(self) -> bool:
        """Whether every property holds; nothing more is asked than is needed to know."""
        return all(self.run_property(i)[1] == "right" for i in range(len(self.exercise.properties)))

    def asked(self, is_thorough: bool = False, recalls: bool = False) -> Subject:
        """The subject for one property on one case. `recalls`: what is known is not asked again."""
        return Subject(Memory(self.subject.bench, self.start, recalls)).fresh(is_thorough)

    def run_property(self, position: int) -> tuple[CheckResult, Outcome]:
        """One property on all cases. The last one also answers for what the object did to its inputs under any."""
        prop = self.exercise.properties[position]
        is_last = not any(later.points for later in self.exercise.properties[position + 1 :])
        for number, case in enumerate(self.cases):
            asked = self.asked()
            heard: list[str] = []
            try:
                with at_most(self.seconds), listening() as heard:
                    prop.holds(asked, case)
                self.changed_inputs |= asked.changed_inputs
                if is_last and self.changed_inputs:
                    raise Failure(CHANGED_AN_INPUT)
            except NotAttempted:
                return CheckResult(prop.name, False, NOTHING_WRITTEN, 0.0, prop.points), "not attempted"
            except StudentError as error:
                message = self.input_asked(asked, case) + describe_error(self.exercise, error)
                return CheckResult(prop.name, False, message, 0.0, prop.points), "raised"
            except (TimeIsUp, KeyboardInterrupt) as end:
                if self.seconds is None:  # nobody is waiting in a notebook: an interrupt is meant for the whole program
                    raise
                why = f"was still running after {self.seconds:g} s" if isinstance(end, TimeIsUp) else "was interrupted"
                message = f"{on_the_input(case)}your code {why}. Is there a loop that does not end?"
                return CheckResult(prop.name, False, message, 0.0, prop.points), "stopped"
            except Failure as failure:
                message = on_the_input(case) + failure.message
                difference = failure.difference or self.difference(position, number, asked.trace)
                return CheckResult(prop.name, False, message, 0.0, prop.points, difference), "wrong"
            except Exception as error:  # a result so strange that the property itself stumbled over it
                reason = f"{type(error).__name__}: {error}"
                message = f"{on_the_input(case)}the result could not be examined ({reason})."
                return CheckResult(prop.name, False, message, 0.0, prop.points), "wrong"
            finally:
                self.traces[position, number, False] = asked.trace
                if heard and (where := on_the_input(case)) not in dict(self.printed):
                    self.printed.append((where, heard[0]))
        return CheckResult(prop.name, True, "", prop.points, prop.points), "right"

    def input_asked(self, asked: Subject, case: Case) -> str:
        """The input of the last call: that of the case, unless a property has asked something else."""
        names = list(inspect.signature(self.exercise.reference).parameters)
        values = asked.last_arguments
        is_other = len(values) == len(names) and any(
            a is not b and not same_answer(a, b) for a, b in zip(values, case.values())
        )
        asked_about = dict(zip(names, values)) if is_other and not self.exercise.is_class else case
        return on_the_input(asked_about)

    def difference(self, position: int, number: int, trace: Sequence[Event]) -> Difference | None:
        """What can be drawn where a property failed without a picture: the last answer beside the reference's."""
        if not trace or trace[-1].question != "call":
            return None
        question = (self.exercise.properties[position], self.cases[number])
        right = known_answers(self.exercise.reference, question).trace[len(trace) - 1 : len(trace)]
        pairs = zip(parts_of(trace[-1:]), parts_of(right))
        return next((Difference(got, want) for got, want in pairs if can_be_drawn(got, want)), None)

    def ignores_its_input(self) -> bool:
        """Whether it gave the same answer to every question: that does not count as an attempt."""
        calls = [event.answer for trace in self.traces.values() for event in trace if event.question == "call"]
        return len(calls) > 1 and all(same_answer(calls[0], other) for other in calls[1:])

    def trace(self, position: int, number: int, is_thorough: bool = False) -> list[Event]:
        """Everything the subject answers while one property is checked on one case."""
        key = (position, number, is_thorough)
        if key not in self.traces:
            asked = self.asked(is_thorough, recalls=True)
            # A property counts on those before it, which need not hold here: the answers so far count.
            with contextlib.suppress(Exception):
                self.exercise.properties[position].holds(asked, self.cases[number])
            self.traces[key] = asked.trace
        return self.traces[key]


def failed(exercise: Exercise, outcome: Outcome, message: str) -> Report:
    """A report without a point: the first property fails with this message."""
    first, *rest = exercise.properties
    results = [CheckResult(first.name, False, message, 0.0, first.points)]
    results += [CheckResult(prop.name, None, "not reached", 0.0, prop.points) for prop in rest]
    return Report(exercise.name, outcome, tuple(results), None, num_hints=len(exercise.hints))


def can_be_drawn(got: Any, want: Any) -> bool:
    return (
        isinstance(got, Tensor)
        and isinstance(want, Tensor)
        and got.shape == want.shape
        and got.dim() >= 2
        and not got.is_complex()
        and bool(Difference(got, want).where().any())
    )


def describe_error(exercise: Exercise, error: StudentError) -> str:
    if error.line:
        explanation = in_plain_words(error.message)
        return f"your code raised {error} — in line {error.line_number}:  {error.line}  {explanation}".rstrip()
    if error.kind == "TypeError":
        return f"calling {exercise.call} did not work. {error.message}"
    return f"your code raised {error}"


def on_the_input(case: Case) -> str:
    """How a message about a case begins."""
    return f"On the input {describe_case(case)}: " if case else ""


def describe_case(case: Case) -> str:
    """The inputs of a case in one line."""
    return ", ".join(f"{name} = {describe_value(value)}" for name, value in case.items())


def describe_value(value: Any) -> str:
    if isinstance(value, Tensor):
        if value.numel() <= SMALL:
            return str(round_numbers(value.tolist()))
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, dict):
        if len(value) > SMALL:
            return f"a dict with {len(value)} entries"
        return "(" + describe_case(value) + ")"
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(repr, value))) + "}"
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor | list | tuple) for item in value):
        return "[" + ", ".join(describe_value(item) for item in value) + "]"
    return repr(value)


def round_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [round_numbers(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
