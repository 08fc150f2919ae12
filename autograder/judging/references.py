"""What student code may use of `course_lib` while it is graded.

Inside the walls there is no file of the course. The judge sends the text of the modules that notebooks import. In place
of each exercise that is not graded yet, and of everything built on one, a stand-in is sent that raises `ReferenceUsed`.
Once an exercise is graded, its reference is revealed: later exercises may build on it, whatever the answer was.
"""

from __future__ import annotations

import ast
import functools
import marshal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from autograder.walls.inside.runner import file_of
from autograder.walls.inside.wire import encode
from course_lib.exercises import all_exercises

COURSE_LIB = Path(__file__).resolve().parents[2] / "course_lib"
SENTENCE = (
    "{name} of course_lib is the course's own reference for an exercise that is still to be graded. "
    "It earns nothing here: write it yourself."
)
WITHHELD_MODULE = "course_lib.withheld"
WITHHELD_SOURCE = '''"""Stand-ins for references."""


class ReferenceUsed(Exception):
    """An answer calls the course's own reference."""
'''
PACKAGE_SOURCE = "from .student import check, exercises, hint, progress, solution, yours\n"
STUDENT_SOURCE = '''"""While a notebook is graded, the judge does the checks: most of these do nothing."""

import importlib


def check(*args, **kwargs):
    """Nothing: the judge checks."""


hint = solution = progress = exercises = check


def yours(name, obj):
    """The course's own: what comes later must not depend on whether this answer is right."""
    return getattr(importlib.import_module(MODULES[name]), name)
'''
INTERACTIVE_SOURCE = '''"""While a notebook is graded, nobody uses its interactive figures: each of them does
nothing."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *args, **kwargs: None
'''
USED_BY_THE_RUNNER = ("bench", "devices", "inputs", "programs", "settings")

Definition = tuple[str, str]  # module, name


@dataclass(frozen=True)
class Module:
    """A module of the course: its text, its top-level functions and classes, and what its names stand for."""

    name: str
    source: str
    definitions: dict[str, ast.FunctionDef | ast.ClassDef]
    imported: dict[str, tuple[str, str]]  # local name -> (module, name or "" for the module itself)

    def mentions(self, node: ast.AST) -> Iterator[Definition]:
        """The functions and classes of the course that a piece of code names."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.definitions:
                yield self.name, part.id
            elif isinstance(part, ast.Name) and part.id in self.imported:
                yield self.imported[part.id]
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                module, name = self.imported.get(part.value.id, ("", ""))
                if module and not name:
                    yield module, part.attr


@functools.cache
def modules() -> dict[str, Module]:
    """The modules that notebooks may import: all but the checks, the exercises and the student's commands."""
    paths = [path for path in sorted(COURSE_LIB.glob("*.py")) if path.stem not in ("__init__", "student")]
    return {f"course_lib.{path.stem}": parsed(path) for path in paths}


def parsed(path: Path) -> Module:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    definitions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level == 1 or (node.module or "").startswith("course_lib")):
            base = ".".join(filter(None, ["course_lib", (node.module or "").removeprefix("course_lib").strip(".")]))
            for alias in node.names:
                is_module = base == "course_lib"
                target = (f"course_lib.{alias.name}", "") if is_module else (base, alias.name)
                imported[alias.asname or alias.name] = target
    return Module(f"course_lib.{path.stem}", source, definitions, imported)


@functools.cache
def withheld(graded: int) -> frozenset[Definition]:
    """What is withheld when the first `graded` exercises of the course are done: the others, and all that uses them."""
    found = {(e.reference.__module__, e.name) for e in list(all_exercises().values())[graded:]}
    while True:
        more = {
            (module.name, name)
            for module in modules().values()
            for name, node in module.definitions.items()
            if (module.name, name) not in found and not found.isdisjoint(module.mentions(node))
        }
        if not more:
            return frozenset(found)
        found |= more


def position(exercise: str) -> int:
    """The place of an exercise in the course."""
    return list(all_exercises()).index(exercise)


@functools.cache
def visible_sources(exercise: str) -> dict[str, str]:
    """module -> text, as it is when `exercise` is the next to be graded."""
    hidden = withheld(position(exercise))
    sources = {name: with_stand_ins(module, hidden) for name, module in modules().items()}
    for name in USED_BY_THE_RUNNER:
        sources[f"course_lib.checking.{name}"] = (COURSE_LIB / "checking" / f"{name}.py").read_text(encoding="utf-8")
    return sources | {
        "course_lib": PACKAGE_SOURCE,
        "course_lib.checking": "",
        "course_lib.interactive": INTERACTIVE_SOURCE,
        "course_lib.student": f"{STUDENT_SOURCE}\n\nMODULES = {modules_of_references()!r}\n",
        WITHHELD_MODULE: WITHHELD_SOURCE,
    }


def modules_of_references() -> dict[str, str]:
    """exercise -> the module of its reference."""
    return {e.name: e.reference.__module__ for e in all_exercises().values()}


def with_stand_ins(module: Module, hidden: frozenset[Definition]) -> str:
    """The module's text with a stand-in for each definition that is withheld."""
    lines = module.source.splitlines()
    needed = [node for name, node in module.definitions.items() if (module.name, name) in hidden]
    for node in sorted(needed, key=first_line, reverse=True):
        lines[first_line(node) - 1 : node.end_lineno] = stand_in(node).splitlines()
    return "\n".join(lines) + "\n"


def first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def stand_in(node: ast.FunctionDef | ast.ClassDef) -> str:
    """A stand-in with the same name and docstring that only raises an error."""
    words = SENTENCE.format(name=node.name)
    doc = repr(ast.get_docstring(node) or "")
    betrayal = f"from {WITHHELD_MODULE} import ReferenceUsed; raise ReferenceUsed({words!r})"
    if isinstance(node, ast.FunctionDef):
        return f"def {node.name}(*args, **kwargs):\n    {doc}\n    {betrayal}"
    return f"class {node.name}:\n    {doc}\n\n    def __init__(self, *args, **kwargs):\n        {betrayal}"


@functools.cache
def revealed_after(exercise: str, following: str | None = None) -> list[tuple[str, str, str]]:
    """(module, name, source) of everything that may be used once `exercise` is graded, and might not before.

    following: the next one in the notebook. Those between the two are not in it, and nobody has to write them.
    """
    done = position(exercise) + 1
    done = done if following is None else max(done, position(following))
    before, after = withheld(position(exercise)), withheld(done)
    found = sorted(before - after, key=lambda one: (one[0], first_line(modules()[one[0]].definitions[one[1]])))
    return [(module, name, source_of(module, name)) for module, name in found]


@functools.cache
def message_that_reveals(exercise: str, following: str | None = None) -> bytes:
    """What is sent to a runner when `exercise` is graded: also compiled, since every runner needs it."""
    definitions = [
        (module, name, source, compiled(source, file_of(module)))
        for module, name, source in revealed_after(exercise, following)
    ]
    return encode({"do": "reveal", "definitions": definitions})


def compiled(source: str, file: str) -> Tensor:
    """The bytes of a code object, as a runner of the same Python reads them."""
    return torch.frombuffer(bytearray(marshal.dumps(compile(source, file, "exec"))), dtype=torch.uint8)


def source_of(module: str, name: str) -> str:
    node = modules()[module].definitions[name]
    return "\n".join(modules()[module].source.splitlines()[first_line(node) - 1 : node.end_lineno])
