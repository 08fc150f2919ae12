"""A *subject*: the student's function or class, asked in plain data.

A check never touches the student's object. It calls the subject with tensors and numbers and gets tensors and
numbers back. Here the object lives in the same process; a grader can put another class with the same methods in
its place, which sends the same questions to a process of its own.

Every answer is written into `trace`. Two objects with equal traces behave alike, whatever their code looks like:
that is how a wrong answer is recognised.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import math
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .devices import DeviceWatch, tensors_left_behind
from .expect import Failure, as_shape, is_close

ENGINE_FOLDER = str(Path(__file__).parent)
LIBRARY_FOLDERS = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class Opaque:
    """Stands for a value that is not plain data: only the name of its type is known."""

    type_name: str


@dataclass(frozen=True)
class Event:
    """One answer of a subject: what was asked, and what came back."""

    question: str
    answer: Any


class StudentError(Exception):
    """The student's code raised. Carries what a student needs to find the place."""

    def __init__(self, kind: str, message: str, line: str = "", line_number: int | None = None):
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind
        self.message = message
        self.line = line
        self.line_number = line_number


class NotAttempted(Exception):
    """The stub was reached: nothing has been written yet."""


@dataclass
class Subject:
    """The student's object in this process."""

    obj: Any
    trace: list[Event] = field(default_factory=list)
    changed_inputs: set[str] = field(default_factory=set)

    def __call__(self, *args: Any) -> Any:
        """The result of calling the object with copies of `args`, as plain data."""
        result, _ = self._run("call", self.obj, args)
        return self._note("call", plain(result))

    def gradient(self, *args: Any, wrt: int, at: tuple[Any, ...] = (), output: int = 0) -> Tensor:
        """d(sum of result[at]) / d(args[wrt]); zeros where nothing flows. A tuple's member `output` is taken."""
        copies = [copy_of(argument) for argument in args]
        copies[wrt] = copies[wrt].requires_grad_()
        result, _ = self._run("gradient", self.obj, copies, copy=False)
        if isinstance(result, tuple | list):
            result = result[output]
        if not isinstance(result, Tensor):
            raise Failure(f"A tensor was expected, but a value of type {type(result).__name__} came back.")
        slope = None
        if result.requires_grad:
            try:
                (slope,) = torch.autograd.grad(result[at].sum(), copies[wrt], allow_unused=True)
            except RuntimeError as error:  # say a tensor that was changed in place after autograd had saved it
                reason = str(error).partition(".")[0].partition(":")[0]
                self._note("gradient", "none")
                raise Failure(f"The gradient of the result cannot be computed: {reason}.") from None
        return self._note("gradient", torch.zeros_like(copies[wrt]) if slope is None else slope.detach())

    def build(self, *args: Any) -> Built:
        """An instance of the student's class, made with `args`."""
        if not inspect.isclass(self.obj):
            raise Failure("A class was expected here, but this is not one. Pass the class itself, without ().")
        instance, _ = self._run("build", self.obj, args)
        if not isinstance(instance, nn.Module):
            raise Failure("The class does not derive from nn.Module.")
        self._note("build", None)
        return Built(instance.eval(), self.trace, self.changed_inputs)

    def fresh(self) -> Subject:
        """The same subject with nothing asked yet."""
        return Subject(self.obj)

    @contextlib.contextmanager
    def unobserved(self) -> Iterator[None]:
        """What is asked inside leaves no trace: for trying things out."""
        noted = len(self.trace)
        yield
        del self.trace[noted:]

    def note(self, question: str, answer: Any) -> None:
        """Put into the trace what counts of an unobserved answer, where several answers mean the same."""
        self._note(question, answer)

    def _note(self, question: str, answer: Any) -> Any:
        self.trace.append(Event(question, answer))
        return answer

    def _run(self, question: str, call: Any, args: Sequence[Any], copy: bool = True) -> tuple[Any, list[Any]]:
        copies = [copy_of(argument) for argument in args] if copy else list(args)
        before = [copy_of(argument) for argument in copies]
        try:
            with quiet_and_seeded():
                result = call(*copies)
        except (Exception, SystemExit) as error:
            # The stub raises it without a message; torch's own (an operator that does not exist) carry one.
            if isinstance(error, NotImplementedError) and not str(error):
                self._note(question, "not attempted")
                raise NotAttempted from None
            located = locate(error)
            self._note(question, str(located))
            raise located from None
        for position, (old, new) in enumerate(zip(before, copies, strict=True)):
            if not same_input(old, new):
                self.changed_inputs.add(str(position))
                self._note("changed", position)
        return result, copies


@dataclass
class Built(Subject):
    """An instance of the student's module. Calling it runs `forward`."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The trainable parameters: name -> shape."""
        found = {name: tuple(p.shape) for name, p in self.obj.named_parameters() if p.requires_grad}
        self._note("number of parameters", sum(math.prod(shape) for shape in found.values()))
        return found

    def state(self) -> dict[str, Tensor]:
        """Everything that a checkpoint would hold: parameters and persistent buffers."""
        return {name: tensor.detach().clone() for name, tensor in self.obj.state_dict().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put values into the parameters of these names, and make the module as precise as they are."""
        parameters = dict(self.obj.named_parameters())
        for dtype in {tensor.dtype for tensor in tensors.values()}:
            self.obj.to(dtype)
        with torch.no_grad():
            for name, value in tensors.items():
                parameters[name].copy_(value)

    def train(self, mode: bool = True) -> None:
        """Switch between training (dropout active) and evaluation."""
        self.obj.train(mode)

    def moves_to_another_device(self, *args: Any) -> bool:
        """Whether the module, moved by `.to(device)`, would take along the tensors that it needs."""
        with DeviceWatch(tensors_left_behind(self.obj)) as watch, self.unobserved():
            self._run("moves to another device", self.obj, args)
        return bool(self._note("moves to another device", not watch.failed))

    def parameter_gradients(self, *args: Any) -> dict[str, Tensor]:
        """d(sum of squares of the result) / d(each trainable parameter)."""
        self.obj.zero_grad()
        result, _ = self._run("parameter gradients", self.obj, args)
        first = result[0] if isinstance(result, tuple | list) else result
        if isinstance(first, Tensor) and first.requires_grad:
            (first**2).sum().backward()
        return {
            name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
            for name, p in self.obj.named_parameters()
            if p.requires_grad
        }


@contextlib.contextmanager
def quiet_and_seeded() -> Iterator[None]:
    """Same random numbers for everyone, none taken from the student's own stream; no output.

    Anything on stderr in a graded cell would cost all of its points in nbgrader.
    """
    with (
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)  # torch.manual_seed would cost more than the call it seeds
        yield


def copy_of(value: Any) -> Any:
    """A deep copy of plain data."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, tuple | list):
        return type(value)(copy_of(item) for item in value)
    if isinstance(value, dict):
        return {key: copy_of(item) for key, item in value.items()}
    return value


def same_input(old: Any, new: Any) -> bool:
    """Whether an argument is as it was before the call."""
    if isinstance(old, Tensor):
        return old.shape == new.shape and torch.equal(torch.nan_to_num(old), torch.nan_to_num(new.detach()))
    if isinstance(old, tuple | list):
        return len(old) == len(new) and all(map(same_input, old, new))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(same_input(old[key], new[key]) for key in old)
    return bool(old == new)


def plain(value: Any) -> Any:
    """`value` as plain data: tensors, numbers, strings and containers of these; anything else becomes Opaque."""
    if isinstance(value, Tensor):
        return value.detach().clone().as_subclass(Tensor)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins."))


def locate(error: BaseException) -> StudentError:
    """The error with the last line of the student's own code on the way to it."""
    message = str(error).strip().splitlines()[0] if str(error).strip() else ""
    kind = type(error).__name__
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_students(frame.filename)]
    if not own:
        return StudentError(kind, message)
    last = own[-1]
    number = last.lineno or 0
    return StudentError(kind, message, linecache.getline(last.filename, number).strip(), number)


def is_students(filename: str) -> bool:
    """Whether a file is the student's own: a notebook cell or a file outside of the libraries."""
    return not filename.startswith((ENGINE_FOLDER, *LIBRARY_FOLDERS, "<frozen"))


def same_trace(first: Sequence[Event], second: Sequence[Event]) -> bool:
    """Whether two subjects gave the same answers to the same questions."""
    return len(first) == len(second) and all(
        one.question == two.question and same_answer(one.answer, two.answer)
        for one, two in zip(first, second, strict=True)
    )


def same_answer(first: Any, second: Any) -> bool:
    """Equality of plain data, up to rounding."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return same_mask(first, second) if is_mask(first) and is_mask(second) else is_close(first, second)
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return len(first) == len(second) and all(map(same_answer, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same_answer(first[key], second[key]) for key in first)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return abs(first - second) <= 1e-5 + 1e-4 * abs(second)
    return type(first) is type(second) and bool(first == second)


def is_mask(tensor: Tensor) -> bool:
    """Whether a tensor holds nothing but truth values, of whatever dtype."""
    return tensor.dtype == torch.bool or bool(((tensor == 0) | (tensor == 1)).all())


def same_mask(first: Tensor, second: Tensor) -> bool:
    """Whether two masks say the same: (batch, 1, key) may stand for (batch, query, key)."""
    small, large = sorted((first, second), key=Tensor.numel)
    widened = as_shape(small, tuple(large.shape))
    return widened is not None and is_close(widened, large)
