"""Modules that need not be built again.

The same constructor with the same arguments and the same random numbers makes the same module, and after loading the
same numbers the modules are the same again. Most misconceptions have their constructor from the reference, and so have
most pairs of them: it is run once, the check's numbers are loaded once, and each program gets a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn

from .bench import Answer, Bench

Plain = bool | int | float | str | tuple | None
HARMLESS = Plain | ModuleType | FunctionType | BuiltinFunctionType | type
FRESH = vars(nn.Module())
REGISTRIES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class Start:
    """A module that nobody uses: others are copied from it."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.shapes = Bench(module).shapes()
        self.loaded: dict[Hashable, tuple[Mapping[str, Tensor], Start]] = {}

    def after_loading(self, tensors: Mapping[str, Tensor]) -> Start:
        key = tuple((name, id(tensor)) for name, tensor in tensors.items())
        if key not in self.loaded:
            module = copied(self.module, {})
            Bench(module).load(tensors)
            self.loaded[key] = (tensors, Start(module))  # keeps the tensors, so that their ids stay their own
        return self.loaded[key][1]


STARTS: dict[Hashable, Start] = {}


class OwnBench(Bench):
    """A program of ours, whose modules are copied from one that the same constructor has made."""

    def build(self, args: Sequence[Any]) -> Answer:
        made_by = constructor(self.obj) if isinstance(self.obj, type) else None
        if made_by is None or not all(isinstance(argument, Plain) for argument in args):
            return super().build(args)
        key = (made_by, repr(args))
        if key not in STARTS:
            answer = super().build(args)
            if not can_be_copied(answer.value.obj):
                return answer
            STARTS[key] = Start(answer.value.obj)
        return Answer(Twin(self.obj, STARTS[key]))


class Twin(Bench):
    """A module that is copied when it is first needed. Until then its parameters are known, and can be loaded."""

    def __init__(self, kind: type[nn.Module], start: Start):
        self.type = kind
        self.start = start

    @functools.cached_property
    def obj(self) -> nn.Module:
        module = copied(self.start.module, {})
        module.__class__ = self.type
        return module

    @property
    def is_untouched(self) -> bool:
        return "obj" not in vars(self)

    def shapes(self) -> Answer:
        return self.start.shapes if self.is_untouched else super().shapes()

    def load(self, tensors: Mapping[str, Tensor]) -> Answer:
        if not self.is_untouched:
            return super().load(tensors)
        self.start = self.start.after_loading(tensors)
        return Answer(None)


@functools.cache
def constructor(program: type) -> Hashable:
    """What the modules of a class depend on besides the arguments; None if that is more than one function."""
    owner = next(kind for kind in program.__mro__ if "__init__" in vars(kind))
    function = vars(owner)["__init__"]
    if owner in nn.Module.__mro__ or not hasattr(function, "__code__"):
        return None
    names = names_in(function.__code__)
    own = {name for kind in program.__mro__ if kind not in nn.Module.__mro__ for name in vars(kind)}
    if names & (own - {"__init__"}):
        return None  # it uses other methods of the class, and one of these may be the mistake
    meanings = tuple((name, id(function.__globals__.get(name))) for name in sorted(names))
    return function.__code__, function.__defaults__, meanings, owner.__bases__


def names_in(code: CodeType) -> set[str]:
    """All names that a function uses, including those in the functions and comprehensions inside it."""
    return set(code.co_names).union(*(names_in(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def may_keep_something(kind: type) -> bool:
    """Whether modules of a class may leave something behind outside themselves.

    That is where the class has attributes besides methods, or where its methods use things of the notebook other than
    functions, classes, modules and plain values.
    """
    if kind.__module__.startswith("torch."):
        return False
    own = [item for base in kind.__mro__ if base not in nn.Module.__mro__ for item in vars(base).items()]
    methods = [value for _, value in own if isinstance(value, FunctionType)]
    return any(
        not (name.startswith("__") or callable(value) or isinstance(value, property | classmethod | staticmethod))
        for name, value in own
    ) or any(uses_something_else(method) for method in methods)


def uses_something_else(function: FunctionType) -> bool:
    """Whether it uses a value around it that could be changed."""
    around = [function.__globals__[name] for name in names_in(function.__code__) if name in function.__globals__]
    around += [cell.cell_contents for cell in function.__closure__ or () if cell_is_filled(cell)]
    return not all(isinstance(value, HARMLESS) for value in around)


def cell_is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def can_be_copied(module: nn.Module) -> bool:
    """Whether it consists of parameters, buffers, modules and plain settings alone."""
    return all(
        name in REGISTRIES or isinstance(value, Plain) or (name in FRESH and value == FRESH[name])
        for part in module.modules()
        for name, value in vars(part).items()
    )


def copied(module: nn.Module, known: dict[int, Any]) -> Any:
    """A module with the same numbers. `known`: the copies so far, since a layer or a table may be used twice."""
    if id(module) not in known:
        copy = known[id(module)] = object.__new__(type(module))
        parts = vars(module)
        vars(copy).update(
            parts,
            _parameters={name: copied_tensor(parameter, known) for name, parameter in parts["_parameters"].items()},
            _buffers={name: copied_tensor(buffer, known) for name, buffer in parts["_buffers"].items()},
            _modules={
                name: None if child is None else copied(child, known) for name, child in parts["_modules"].items()
            },
        )
    return known[id(module)]


def copied_tensor(tensor: Tensor | None, known: dict[int, Any]) -> Tensor | None:
    if tensor is not None and id(tensor) not in known:
        copy = tensor.detach().clone()
        known[id(tensor)] = nn.Parameter(copy, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else copy
    return None if tensor is None else known[id(tensor)]
