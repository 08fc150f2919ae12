"""A *subject*: the student's function or class, asked in plain data.

A check never touches the student's object. It calls the subject with tensors and numbers and gets tensors and
numbers back. The object lies on a `bench`, here in the same process; a grader can give the subject a bench in a
separate process.

Every answer is written into `trace`. Two objects with equal traces behave alike, whatever their code looks like:
that is how a wrong answer is recognised.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .bench import Bench, NotAttempted, NotPossible, Place, StudentError
from .expect import Failure, as_shape, is_close

CHANGED_AN_INPUT = (
    "Your code changed one of its inputs in place; the caller still needs it. Work on a copy, x.clone() or dict(x), or "
    "make a new one: x * 2 instead of x.mul_(2), masked_fill instead of masked_fill_."
)
MOST_PARAMETERS, MOST_NUMBERS = 2_000, 4_000_000  # of a module; those that checks build have thousands of numbers


@dataclass(frozen=True)
class Event:
    """One answer of a subject: what was asked, and what came back."""

    question: str
    answer: Any
    is_error: bool = False  # the student's code raised, and the answer is the error's text


class Subject:
    """The student's object, or the bench on which it lies."""

    is_thorough = False

    def __init__(self, obj: Any, trace: list[Event] | None = None, changed_inputs: set[str] | None = None):
        self.bench = obj if isinstance(obj, Bench) else Bench(obj)
        self.trace: list[Event] = [] if trace is None else trace
        self.changed_inputs: set[str] = set() if changed_inputs is None else changed_inputs
        self.last_arguments: tuple[Any, ...] = ()  # of the last call

    def __call__(self, *args: Any) -> Any:
        """The result of calling the object with copies of `args`, as plain data."""
        self.last_arguments = args
        answer = self._note("call", self._ask("call", args))
        if self.is_thorough:
            self._note("gradients", self._ask("gradients", args))
        return answer

    def gradient(self, *args: Any, wrt: Place, at: tuple[Any, ...] = (), output: Place = 0) -> Tensor:
        """d(sum of result[at]) / d(args[wrt]); zeros where nothing flows. A tuple's member `output` is taken.

        (1, 0) is the first member of the second argument or result.
        """
        return self._note("gradient", self._ask("gradient", args, wrt, at, output))

    def require_untouched_inputs(self) -> None:
        """Nothing so far has changed an input. Otherwise gradients with respect to it mean nothing."""
        if self.changed_inputs:
            raise Failure(CHANGED_AN_INPUT)

    def has_graph(self, *args: Any) -> bool:
        """Whether backward() can be called on the result."""
        return bool(self._note("has graph", self._ask("has_graph", args)))

    def effect(self, setting: Any, *args: Any) -> tuple[Any, dict[str, Any]]:
        """The result, and what the call did to live objects (a model, an optimiser).

        They are made from `setting` (see `settings`) on the bench and handed over before the other arguments. A result
        that is not plain data is also put into words by the setting.
        """
        return self._note("effect", self._ask("effect", setting, args))

    def largest_tensor(self, *args: Any) -> int:
        """How many floating point numbers the largest tensor has that a call makes. Leaves no trace."""
        with self.unobserved():
            return int(self._ask("largest_tensor", args))

    def build(self, *args: Any) -> Built:
        """An instance of the student's class, made with `args`."""
        bench = self._ask("build", args)
        self._note("build", None)
        built = Built(bench, self.trace, self.changed_inputs)
        built.is_thorough = self.is_thorough
        return built

    def fresh(self, is_thorough: bool = False) -> Subject:
        """The same subject with nothing asked yet. If thorough, every call is also asked for its gradients."""
        subject = Subject(self.bench)
        subject.is_thorough = is_thorough
        return subject

    @contextlib.contextmanager
    def unobserved(self) -> Iterator[None]:
        """What is asked inside leaves no trace: for trying things out."""
        noted, is_thorough = len(self.trace), self.is_thorough
        self.is_thorough = False
        yield
        self.is_thorough = is_thorough
        del self.trace[noted:]

    def note(self, question: str, answer: Any) -> None:
        """Put into the trace what counts of an unobserved answer, where several answers mean the same."""
        self._note(question, answer)

    def _note(self, question: str, answer: Any) -> Any:
        self.trace.append(Event(question, answer))
        return answer

    def _ask(self, operation: str, *details: Any) -> Any:
        question = operation.replace("_", " ")
        try:
            answer = self.bench.ask(operation, *details)
        except NotAttempted:
            self._note(question, "not attempted")
            raise
        except StudentError as error:
            self.trace.append(Event(question, str(error), is_error=True))
            raise
        except NotPossible as reason:
            self._note(question, "not possible")
            raise Failure(str(reason)) from None
        for position in answer.changed:
            self.changed_inputs.add(str(position))
            self._note("changed", position)
        return answer.value


class Built(Subject):
    """An instance of the student's module. Calling it runs `forward`."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The trainable parameters: name -> shape."""
        found: dict[str, tuple[int, ...]] = self._ask("shapes")
        numbers = sum(math.prod(shape) for shape in found.values())
        self._note("number of parameters", numbers)
        if len(found) > MOST_PARAMETERS or numbers > MOST_NUMBERS:
            size = f"{numbers:,} numbers in {len(found):,} parameters"
            raise Failure(f"Your module has {size}: far more than these small inputs ask for. Are the sizes right?")
        return found

    def buffers(self) -> dict[str, tuple[int, ...]]:
        """The buffers, saved or not: name -> shape. Leaves no trace: equal modules may keep other things besides."""
        with self.unobserved():
            return self._ask("buffers")

    def state(self) -> dict[str, Tensor]:
        """Everything that a checkpoint would hold: parameters and persistent buffers."""
        return self._ask("state")

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put values into the parameters and buffers of these names, and make the module as precise as they are."""
        self._ask("load", tensors)

    def train(self, mode: bool = True) -> None:
        """Switch between training (dropout active) and evaluation."""
        self._ask("train", mode)

    def moves_to_another_device(self, *args: Any) -> bool:
        """Whether the module, moved by `.to(device)`, would take along the tensors that it needs."""
        return bool(self._note("moves to another device", self._ask("moves_to_another_device", args)))

    def makes_tensors_on_the_device(self, *args: Any) -> bool:
        """Whether new tensors would be on the device of those that they meet. Leaves no trace."""
        with self.unobserved():
            return bool(self._ask("makes_tensors_on_the_device", args))

    def operators(self, *args: Any) -> list[str]:
        """The names of torch's functions and methods that a call uses. Leaves no trace: equal programs may differ."""
        with self.unobserved():
            return self._ask("operators", args)

    def parameter_gradients(self, *args: Any) -> dict[str, Tensor]:
        """d(sum of squares of the result) / d(each trainable parameter)."""
        return self._ask("parameter_gradients", args)


def same_trace(first: Sequence[Event], second: Sequence[Event]) -> bool:
    """Whether two subjects gave the same answers to the same questions."""
    return len(first) == len(second) and all(map(same_event, first, second))


def same_event(first: Event, second: Event) -> bool:
    same = same_gradients if first.question == "gradients" else same_answer
    return first.question == second.question and same(first.answer, second.answer)


def same_gradients(first: Any, second: Any) -> bool:
    """Equality where both are numbers: what comes out of 0/0 or of an overflow depends on how a formula is written."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(same_gradients, first, second))
    if isinstance(first, Tensor) and isinstance(second, Tensor) and first.shape == second.shape:
        known = first.isfinite() & second.isfinite()
        return same_answer(first[known], second[known])
    if isinstance(first, float) and isinstance(second, float):
        return not math.isfinite(first) or not math.isfinite(second) or same_answer(first, second)
    return same_answer(first, second)


def same_answer(first: Any, second: Any) -> bool:
    """Equality of plain data, up to rounding. A tensor with one number counts as the number.

    Floating point numbers of another precision are other answers; what is True or False may come as any dtype.
    """
    if isinstance(first, Tensor) != isinstance(second, Tensor):
        first, second = ((x.item() if isinstance(x, Tensor) and x.numel() == 1 else x) for x in (first, second))
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        if first.shape == second.shape and first.dtype == second.dtype:
            return is_close(first, second)
        if is_mask(first) and is_mask(second):
            return same_mask(first, second)
        some_floats = first.is_floating_point() or second.is_floating_point()
        return is_close(first, second) and (first.dtype == second.dtype or not some_floats)
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return len(first) == len(second) and all(map(same_answer, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same_answer(first[key], second[key]) for key in first)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return same_number(first, second)
    return type(first) is type(second) and bool(first == second)


def same_number(first: float, second: float) -> bool:
    try:
        is_close = abs(first - second) <= 1e-5 + 1e-4 * abs(second)
    except OverflowError:  # a whole number beyond all floating point numbers
        is_close = False
    return first == second or is_close or (first != first and second != second)


def is_mask(tensor: Tensor) -> bool:
    """Whether a tensor holds nothing but truth values, of whatever dtype."""
    return tensor.dtype == torch.bool or bool(((tensor == 0) | (tensor == 1)).all())


def same_mask(first: Tensor, second: Tensor) -> bool:
    """Whether two masks say the same: (batch, 1, key) may stand for (batch, query, key)."""
    small, large = sorted((first, second), key=Tensor.numel)
    widened = as_shape(small, tuple(large.shape))
    return widened is not None and is_close(widened, large)
