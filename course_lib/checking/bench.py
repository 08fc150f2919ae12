"""The *bench*: where the student's object lies, and the operations that run beside it.

Everything that has to touch the object happens here: calling it, building it, following gradients through it. What goes
in and what comes out is plain data, so a bench may also be in another process.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .devices import DeviceWatch, tensors_in, tensors_left_behind

COURSE_FOLDER = str(Path(__file__).parent.parent)
LIBRARY_FOLDERS = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


Place = int | tuple[int, ...]  # of a tuple's member, or of a member of its member

PRINTED_AT_MOST = 600  # characters of one call

# Asked of every value, so made once: `tuple | list` would be made anew each time.
SEQUENCES, COLLECTIONS, SCALARS = (tuple, list), (tuple, list, set), (bool, int, float, str)
# Most values are one of these or a tensor, and it takes long to find out what they are not.
WITHOUT_TENSORS = frozenset([type(None), *SCALARS, FunctionType])


@dataclass(frozen=True)
class Opaque:
    """Stands for a value that is not plain data: only the name of its type is known."""

    type_name: str


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


class NotPossible(Exception):
    """What was asked cannot be done with this object. The message is for the student."""


@dataclass(frozen=True)
class Answer:
    """The value that came back, and the positions of the arguments that the call has changed."""

    value: Any
    changed: tuple[int, ...] = ()


class Bench:
    """One object of the student's, in this process."""

    def __init__(self, obj: Any):
        self.obj = obj

    def ask(self, operation: str, *details: Any) -> Answer:
        """The answer of one of the operations below; raises StudentError, NotAttempted or NotPossible."""
        try:
            with UsualGradients():
                return getattr(self, operation)(*details)
        except (StudentError, NotAttempted, NotPossible):
            raise
        except Exception as error:  # a result so strange that the operation itself stumbled over it
            reason = f"{type(error).__name__}: {error}"
            raise NotPossible(f"The result could not be examined ({reason}).") from None

    def kind(self) -> Answer:
        """What it is: "class", "function" or, if it cannot even be called, the name of its type."""
        if inspect.isclass(self.obj):
            return Answer("class")
        return Answer("function" if callable(self.obj) else type(self.obj).__name__)

    def call(self, args: Sequence[Any]) -> Answer:
        result, changed = run(self.obj, args)
        return Answer(plain(result), changed)

    def gradient(self, args: Sequence[Any], wrt: Place, at: tuple[Any, ...], output: Place) -> Answer:
        copies = [copy_of(argument) for argument in args]
        source = member(copies, wrt).requires_grad_()
        result, changed = run(self.obj, copies, copy=False)
        if isinstance(result, tuple | list):
            try:
                result = member(result, output)
            except (LookupError, TypeError):
                raise NotPossible("A result with more members was expected.") from None
        if not isinstance(result, Tensor):
            raise NotPossible(f"A tensor was expected, but a value of type {type(result).__name__} came back.")
        slope = None
        if result.requires_grad:
            try:
                (slope,) = torch.autograd.grad(result[at].sum(), source, allow_unused=True)
            except RuntimeError as error:  # for example a tensor that was changed in place after autograd had saved it
                reason = str(error).partition(".")[0].partition(":")[0]
                raise NotPossible(f"The gradient of the result cannot be computed: {reason}.") from None
        return Answer(torch.zeros_like(source) if slope is None else slope.detach(), changed)

    def gradients(self, args: Sequence[Any]) -> Answer:
        """What flows back from a fixed mixture of the result: into each input, and (in two numbers) the parameters.

        Two numbers, because the same parameters can be packed in many ways: neither depends on the packing.
        """
        copies = [copy_of(argument) for argument in args]
        inputs = [copy.requires_grad_() for copy in copies if isinstance(copy, Tensor) and copy.is_floating_point()]
        parameters = [p for p in self.obj.parameters() if p.requires_grad] if isinstance(self.obj, nn.Module) else []
        try:
            result, _ = run(self.obj, copies, copy=False)
        except StudentError:  # it works without gradients, as numpy does
            return Answer("not possible")
        parts = [part for part in (result if isinstance(result, tuple | list) else [result]) if flows(part)]
        if not parts or not inputs + parameters:
            return Answer("nothing flows")
        weights = [torch.cos(torch.arange(p.numel(), dtype=p.dtype)).reshape(p.shape) for p in parts]
        mixture = sum(((part * weight).sum() for part, weight in zip(parts, weights)), torch.zeros(()))
        try:
            slopes = torch.autograd.grad(mixture, [*inputs, *parameters], allow_unused=True)
        except RuntimeError:
            return Answer("not possible")
        found = [torch.zeros(()) if slope is None else slope.detach().clone() for slope in slopes]
        rest = [slope.double() for slope in found[len(inputs) :]]
        total, size = (sum(float(f(slope)) for slope in rest) for f in (torch.sum, lambda t: (t * t).sum()))
        return Answer((*found[: len(inputs)], total, size))

    def has_graph(self, args: Sequence[Any]) -> Answer:
        """Whether backward() can be called on the result, if the inputs ask for gradients."""
        copies = [copy_of(argument) for argument in args]
        for tensor in copies:
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                tensor.requires_grad_()
        result, changed = run(self.obj, copies, copy=False)
        return Answer(flows(result), changed)

    def effect(self, setting: Any, args: Sequence[Any]) -> Answer:
        live = setting.make()
        result, changed = run(self.obj, (*live, *map(copy_of, args)), copy=False)
        return Answer((plain(setting.read(result, *live)), plain(setting.look_at(*live))), changed)

    def build(self, args: Sequence[Any]) -> Answer:
        """The value is another bench, with the instance on it."""
        if not inspect.isclass(self.obj):
            raise NotPossible("A class was expected here, but this is not one. Pass the class itself, without ().")
        instance, changed = run(self.obj, args)
        if not isinstance(instance, nn.Module):
            raise NotPossible("The class does not derive from nn.Module.")
        return Answer(Bench(instance.eval()), changed)

    # --- of an instance of nn.Module ---

    def shapes(self) -> Answer:
        return Answer({name: tuple(p.shape) for name, p in self.obj.named_parameters() if p.requires_grad})

    def buffers(self) -> Answer:
        return Answer({name: tuple(buffer.shape) for name, buffer in self.obj.named_buffers()})

    def state(self) -> Answer:
        return Answer({name: tensor.detach().clone() for name, tensor in self.obj.state_dict().items()})

    def load(self, tensors: Mapping[str, Tensor]) -> Answer:
        for dtype in {tensor.dtype for tensor in tensors.values()}:
            if any(held.dtype != dtype for held in (*self.obj.parameters(), *self.obj.buffers())):
                self.obj.to(dtype)  # makes new buffers
        held_as = dict(self.obj.named_parameters()) | dict(self.obj.named_buffers())
        with torch.no_grad():
            for name, value in tensors.items():
                held_as[name].copy_(value)
        return Answer(None)

    def train(self, mode: bool) -> Answer:
        self.obj.train(mode)
        return Answer(None)

    def moves_to_another_device(self, args: Sequence[Any]) -> Answer:
        with DeviceWatch(tensors_left_behind(self.obj)) as watch:
            run(self.obj, args)
        return Answer(not watch.failed)

    def makes_tensors_on_the_device(self, args: Sequence[Any]) -> Answer:
        with DeviceWatch(follows_new=True) as watch:
            run(self.obj, args)
        return Answer(not watch.failed)

    def largest_tensor(self, args: Sequence[Any]) -> Answer:
        with SizeWatch() as watch:
            run(self.obj, args)
        return Answer(watch.largest)

    def operators(self, args: Sequence[Any]) -> Answer:
        with OperatorWatch() as watch:
            run(self.obj, args)
        return Answer(sorted(watch.names))

    def parameter_gradients(self, args: Sequence[Any]) -> Answer:
        self.obj.zero_grad()
        result, changed = run(self.obj, args)
        first = result[0] if isinstance(result, tuple | list) else result
        if isinstance(first, Tensor) and first.requires_grad:
            (first**2).sum().backward()
        gradients = {
            name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone().to_dense()
            for name, p in self.obj.named_parameters()
            if p.requires_grad
        }
        return Answer(gradients, changed)


def member(value: Any, place: Place) -> Any:
    """What is at a place in a tuple."""
    for step in (place,) if isinstance(place, int) else place:
        value = value[step]
    return value


def flows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.requires_grad


class OperatorWatch(TorchFunctionMode):
    """Notes the names of torch's functions and methods that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


class SizeWatch(TorchFunctionMode):
    """Notes how many numbers the largest tensor of floating point numbers has that a function of torch returns."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in([result]):
            if tensor.is_floating_point():
                self.largest = max(self.largest, tensor.numel())
        return result


def run(function: Any, args: Sequence[Any], copy: bool = True) -> tuple[Any, tuple[int, ...]]:
    """The result of calling the student's function with copies of `args`, and the positions of those it changed."""
    dtype = dtype_of([*args, function])
    try:
        return run_once(function, args, copy, dtype)
    except StudentError as error:
        if dtype in (None, torch.get_default_dtype()) or "dtype" not in error.message.replace("scalar type", "dtype"):
            raise
        with contextlib.suppress(StudentError):  # code that turns its inputs into float32 itself
            return run_once(function, args, copy, None)
        raise


def run_once(function: Any, args: Sequence[Any], copy: bool, dtype: torch.dtype | None) -> tuple[Any, tuple[int, ...]]:
    copies = [copy_of(argument) for argument in args]
    before, given = (args, copies) if copy else (copies, args)
    try:
        with Calm(dtype):
            result = function(*given)
    except (Exception, SystemExit) as error:
        # The stub raises it without a message; torch's own (an operator that does not exist) carry one.
        if isinstance(error, NotImplementedError) and not str(error):
            raise NotAttempted from None
        raise locate(error) from None
    pairs = enumerate(zip(before, given, strict=True))
    return result, tuple(position for position, (old, new) in pairs if not same_input(old, new))


class UsualGradients:
    """Around an operation: autograd as it is unless somebody changes it. A cell of the student's may have switched
    gradients off for good, or the search for anomalies on, which stops at a NaN that is hidden later.
    """

    def __enter__(self) -> None:
        self.are_on, self.are_searched = torch.is_grad_enabled(), torch.is_anomaly_enabled()
        if not self.are_on:
            torch.set_grad_enabled(True)
        if self.are_searched:
            torch.autograd.set_detect_anomaly(False)

    def __exit__(self, *error: Any) -> None:
        if torch.is_grad_enabled() is not self.are_on:
            torch.set_grad_enabled(self.are_on)
        if self.are_searched:
            torch.autograd.set_detect_anomaly(True)


class Calm:
    """Around a call of the student's code: no output, no warnings, and the same random numbers for everyone, none
    taken from the student's own stream. Tensors that it makes without naming a dtype are as precise as its inputs:
    checks compute in float64, and nobody who writes `torch.zeros(n, m)` should have to know.

    Anything on stderr in a graded cell would cost all of its points in nbgrader. A context manager for each of these
    would take longer than the call itself, of which a check makes hundreds.
    """

    def __init__(self, dtype: torch.dtype | None):
        self.dtype = dtype

    def __enter__(self) -> None:
        self.usual_dtype = torch.get_default_dtype()
        if self.dtype is not None and self.dtype is not self.usual_dtype:
            torch.set_default_dtype(self.dtype)
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")
        self.numbers = torch.default_generator.get_state()
        torch.default_generator.manual_seed(0)  # torch.manual_seed would cost more than the call it seeds
        self.before = sys.stdout, sys.stderr
        self.printed = Shortened()
        sys.stdout, sys.stderr = self.printed, io.StringIO()

    def __exit__(self, *error: Any) -> None:
        if torch.get_default_dtype() is not self.usual_dtype:  # the student's code may have changed it, too
            torch.set_default_dtype(self.usual_dtype)
        sys.stdout, sys.stderr = self.before
        torch.default_generator.set_state(self.numbers)
        self.warnings.__exit__(*error)
        if printed := self.printed.getvalue():
            HEARD.append(printed)


HEARD: list[str] = []  # what the student's code has printed since `listening` began


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Collects what the student's code prints inside, a text for each call."""
    HEARD.clear()
    yield HEARD


class Shortened(io.StringIO):
    """Keeps the beginning of what is written: an endless print costs no memory."""

    def write(self, text: str) -> int:
        room = PRINTED_AT_MOST - self.tell()
        if room > 0:
            super().write(text[:room])
        return len(text)


def dtype_of(value: Any) -> torch.dtype | None:
    """The dtype of the first tensor with floating point numbers, if there is one."""
    if type(value) in WITHOUT_TENSORS:
        return None
    if isinstance(value, Tensor):
        return value.dtype if value.is_floating_point() else None
    if isinstance(value, nn.Module):
        return next((p.dtype for p in value.parameters() if p.is_floating_point()), None)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, SEQUENCES):
        return next((dtype for item in value if (dtype := dtype_of(item)) is not None), None)
    if is_dataclass(value) and not isinstance(value, type):
        return dtype_of([getattr(value, field.name) for field in fields(value)])
    return None


def copy_of(value: Any) -> Any:
    """A deep copy of plain data."""
    if type(value) in WITHOUT_TENSORS:
        return value
    if isinstance(value, Tensor):
        return own_copy(value)
    if isinstance(value, COLLECTIONS):
        return type(value)(copy_of(item) for item in value)
    if isinstance(value, dict):
        return {key: copy_of(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):  # a function as an argument, with tensors in it
        return replace(value, **{field.name: copy_of(getattr(value, field.name)) for field in fields(value)})
    return value


def own_copy(tensor: Tensor) -> Tensor:
    """The numbers of a tensor, without the way to them."""
    return (tensor.detach() if tensor.requires_grad else tensor).clone()


def same_input(old: Any, new: Any) -> bool:
    """Whether an argument is as it was before the call."""
    if type(old) in WITHOUT_TENSORS:
        return bool(old == new)
    if isinstance(old, Tensor):
        if old.shape != new.shape:
            return False
        if new.requires_grad:
            new = new.detach()
        return torch.equal(old, new) or torch.equal(torch.nan_to_num(old), torch.nan_to_num(new))
    if isinstance(old, SEQUENCES):
        return len(old) == len(new) and all(map(same_input, old, new))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(same_input(old[key], new[key]) for key in old)
    if is_dataclass(old) and not isinstance(old, type):
        return all(same_input(getattr(old, field.name), getattr(new, field.name)) for field in fields(old))
    return bool(old == new)


def plain(value: Any) -> Any:
    """`value` as plain data: tensors, numbers, strings and containers of these; anything else becomes Opaque."""
    if isinstance(value, Tensor):
        tensor = own_copy(value)
        if type(tensor) is not Tensor:
            tensor = tensor.as_subclass(Tensor)
        return Opaque("nested or sparse tensor") if tensor.is_nested or tensor.layout != torch.strided else tensor
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, SCALARS):
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
    """Whether a file is the student's own: a notebook cell or a file outside the libraries."""
    return not filename.startswith((COURSE_FOLDER, *LIBRARY_FOLDERS, "<frozen"))
