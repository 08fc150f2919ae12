"""Runs an exercise's properties on a subject and makes the report."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .bench import Bench, NotAttempted, StudentError
from .diagnosis import diagnose
from .exercise import Case, Exercise
from .expect import Failure
from .report import CheckResult, Outcome, Report
from .subject import Subject

SMALL = 12  # tensors with at most so many entries are shown whole


def grade(exercise: Exercise, subject: Subject, cases: Sequence[Case] | None = None) -> Report:
    """The report on a subject: the properties in their order, up to the first that fails."""
    with one_thread(), no_garbage_collection():
        return graded(exercise, subject, exercise.cases if cases is None else cases)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Tensors as small as ours are no faster on several threads, and on a busy machine many times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A check makes many objects, and in a process that has imported torch each search for garbage takes a while."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def graded(exercise: Exercise, subject: Subject, cases: Sequence[Case]) -> Report:
    """The report on these cases."""
    results: list[CheckResult] = []
    outcome: Outcome = "right"
    changed_inputs: set[str] = set()
    for position, prop in enumerate(exercise.properties):
        if outcome != "right":
            results.append(CheckResult(prop.name, None, "not reached", 0.0, prop.points))
            continue
        is_last = position == len(exercise.properties) - 1
        result, outcome = run_property(exercise, position, subject, cases, changed_inputs, is_last)
        results.append(result)
    diagnosis = diagnose(exercise, subject, cases) if outcome in ("wrong", "raised") else None
    return Report(exercise.name, outcome, tuple(results), diagnosis, num_hints=len(exercise.hints))


def run_property(
    exercise: Exercise,
    position: int,
    subject: Subject,
    cases: Sequence[Case],
    changed_inputs: set[str],
    is_last: bool,
) -> tuple[CheckResult, Outcome]:
    """One property on all cases. The last one also answers for what the object did to its inputs under any of them."""
    prop = exercise.properties[position]
    for case in cases:
        asked = subject.fresh()
        where = f"On the input {describe_case(case)}: " if case else ""
        try:
            prop.holds(asked, case)
            changed_inputs |= asked.changed_inputs
            if is_last and changed_inputs:
                raise Failure(
                    "Your code changed one of its inputs in place; the caller still needs it. Work on a new tensor: "
                    "use x * 2 instead of x.mul_(2), masked_fill instead of masked_fill_."
                )
        except NotAttempted:
            message = "Nothing is written here yet: replace `raise NotImplementedError()` by your code."
            return CheckResult(prop.name, False, message, 0.0, prop.points), "not attempted"
        except StudentError as error:
            message = where + describe_error(exercise, error)
            return CheckResult(prop.name, False, message, 0.0, prop.points), "raised"
        except Failure as failure:
            message = where + failure.message
            return CheckResult(prop.name, False, message, 0.0, prop.points, failure.difference), "wrong"
        except Exception as error:  # a result so strange that the property itself stumbled over it
            message = f"{where}the result could not be examined ({type(error).__name__}: {error})."
            return CheckResult(prop.name, False, message, 0.0, prop.points), "wrong"
    return CheckResult(prop.name, True, "", prop.points, prop.points), "right"


def refusal(exercise: Exercise, obj: Any) -> Report | None:
    """A report on something that is not even a function or class, or None if it is."""
    return refusal_of_kind(exercise, Bench(obj).kind().value)


def refusal_of_kind(exercise: Exercise, kind: str) -> Report | None:
    """The same, where only is known what the bench says of it."""
    if exercise.is_class and kind != "class":
        return failed(exercise, "wrong", f"Pass the class itself: check({exercise.name}), without building it first.")
    if kind not in ("class", "function"):
        message = (
            f"This is {kind}, not a function. Pass the function itself: check({exercise.name}), without calling it."
        )
        return failed(exercise, "wrong", message)
    return None


def failed(exercise: Exercise, outcome: Outcome, message: str) -> Report:
    """A report without a point: the first property fails with this message."""
    first, *rest = exercise.properties
    results = [CheckResult(first.name, False, message, 0.0, first.points)]
    results += [CheckResult(prop.name, None, "not reached", 0.0, prop.points) for prop in rest]
    return Report(exercise.name, outcome, tuple(results), None, num_hints=len(exercise.hints))


def describe_error(exercise: Exercise, error: StudentError) -> str:
    if error.line:
        return f"your code raised {error} — in line {error.line_number}:  {error.line}"
    if error.kind == "TypeError":
        return f"calling {exercise.call} did not work. {error.message}"
    return f"your code raised {error}"


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
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor | list | tuple) for item in value):
        return "[" + ", ".join(describe_value(item) for item in value) + "]"
    return repr(value)


def round_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [round_numbers(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
