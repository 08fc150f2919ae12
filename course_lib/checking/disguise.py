"""Implementations of an exercise, rewritten so that at a glance only their behaviour tells them apart.

A test that a student writes is tried on the exercise's own right and wrong answers. All of them have the same name and
the same surroundings, and neither a docstring nor a source. The functions, attributes and numbers that they use are
looked up by number in one store. It holds whatever any of them needs, each time in another order. Names of variables
and harmless statements are drawn each time, so the same program never has the same code twice, nor takes the same time
twice.

This is not a wall. A test runs in the same process as what it tests, so somebody who takes the disguise apart piece by
piece can read the code. That is more work than writing an honest test, and where the judge sees it, it leaves a note
for a person.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .exercise import REGISTRY, Exercise
from .merge import Simplifier, completed
from .programs import Program
from .sources import bindings, definitions_of, global_names, import_line, origin_of

Implementation = Callable[..., Any]
EXERCISES = "course_lib.exercises"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST_FILLERS = 3  # harmless statements in a function
LONGEST_FILLER = 40  # function calls in one of them
KEPT = ("super", "__class__")  # the compiler has to see these


def disguised(exercise: Exercise, implementation: Implementation, dice: random.Random) -> Program:
    """The implementation in a disguise that has never been used before."""
    around = surroundings(exercise.name)
    names = new_names(dice)
    store = Store(around, next(names), dice)
    tree = ast.parse("\n".join([*around.helpers.values(), text_of(implementation, exercise.reference)]))
    renamed = dict(zip(sorted(variables_in(tree)), names))
    for function in functions_in(tree):
        function.body = [store.visit(Rename(renamed).visit(statement)) for statement in function.body]
        add_fillers(function, names, dice)
    new_helpers = dict(zip(around.helpers, names))
    whole = [*around.imports.values(), ast.unparse(Rename(new_helpers).visit(tree)), store.text(new_helpers)]
    return Program(exercise.name, "\n".join(whole))


@functools.cache
def text_of(implementation: Implementation, reference: Implementation) -> str:
    """The implementation under the reference's name, without decorators, docstrings and annotations."""
    definition = completed(implementation, reference)
    definition.name = reference.__name__  # type: ignore[attr-defined]
    return bare(ast.unparse(definition))


def bare(text: str) -> str:
    """A piece of code without decorators, docstrings and annotations."""
    return ast.unparse(Simplifier(set()).visit(ast.parse(text)))


# --- the code -------------------------------------------------------------------------------------------------------


def functions_in(tree: ast.AST) -> list[ast.FunctionDef]:
    """The functions and methods of a program, without those inside others."""
    outer = [node for node in ast.iter_child_nodes(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [f for node in outer for f in ([node] if isinstance(node, ast.FunctionDef) else functions_in(node))]


def variables_in(tree: ast.Module) -> set[str]:
    """Names that are only assigned in functions. Not arguments: a caller may name those."""
    nodes = [node for function in functions_in(tree) for node in ast.walk(function)]
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
    declared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    return assigned - arguments - declared - global_names(ast.unparse(tree))


def new_names(dice: random.Random) -> Iterator[str]:
    """Random names, no two of them the same."""
    given: set[str] = set()
    while True:
        name = "_" + "".join(dice.choices(LETTERS, k=8))
        if name not in given:
            given.add(name)
            yield name


class Rename(ast.NodeTransformer):
    """Gives variables, or functions, other names."""

    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.names.get(node.name, node.name)
        return self.generic_visit(node)


def add_fillers(function: ast.FunctionDef, names: Iterator[str], dice: random.Random) -> None:
    """Adds statements that change nothing but take time: a random number of calls."""
    for _ in range(dice.randint(1, MOST_FILLERS)):
        name, calls = next(names), dice.randint(0, LONGEST_FILLER)
        filler = ast.parse(f"for {name} in range({calls}): abs({name})").body[0]
        function.body.insert(dice.randrange(len(function.body)), filler)


class Store(ast.NodeTransformer):
    """Replaces what a program names by places in a list: `torch.tril` becomes `getattr(store[7], store[3])`."""

    def __init__(self, around: Surroundings, name: str, dice: random.Random):
        self.name = name
        self.contents = dice.sample(sorted(around.contents), k=len(around.contents))
        self.places = {text: place for place, text in enumerate(self.contents)}
        self.outer = around.names

    def text(self, renamed: dict[str, str]) -> str:
        """The list itself, to be placed after everything that is in it."""
        return f"{self.name} = [{', '.join(renamed.get(text, text) for text in self.contents)}]"

    def at(self, text: str) -> ast.expr:
        return ast.Subscript(ast.Name(self.name, ast.Load()), ast.Constant(self.places[text]), ast.Load())

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self.at(repr(node.value)) if is_stored(node) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.at(node.id) if node.id in self.outer and isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return ast.Call(ast.Name("getattr", ast.Load()), [node.value, self.at(repr(node.attr))], [])

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node  # what is between its braces stays as it is


def is_stored(node: ast.Constant) -> bool:
    return node.value is None or isinstance(node.value, bool | int | float | str)


# --- what is around them --------------------------------------------------------------------------------------------


@functools.cache
def surroundings(exercise_name: str) -> Surroundings:
    """The imports and helpers of all implementations of an exercise: each is given those of the others too."""
    exercise = REGISTRY[exercise_name]
    found = Surroundings(exercise_name)
    for implementation in (exercise.reference, *exercise.alternatives, *exercise.misconceptions):
        modules = [implementation.__module__]
        if isinstance(implementation, type) and implementation.__base__ is exercise.reference:
            modules.insert(0, exercise.reference.__module__)  # there a name is what the reference means by it
        found.add(text_of(implementation, exercise.reference), modules)
    return found


class Surroundings:
    """What programs take from outside: name -> the line that imports it, or its own text; and all that they name."""

    def __init__(self, exercise_name: str) -> None:
        self.own = exercise_name
        self.imports: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.names: set[str] = set()
        self.contents: set[str] = set()  # of the store

    def add(self, text: str, modules: Sequence[str], but: Iterable[str] = ()) -> None:
        used = global_names(text) - {self.own, *but}
        self.names |= used - set(KEPT)
        nodes = list(ast.walk(ast.parse(text)))
        self.contents |= used - set(KEPT)
        self.contents |= {repr(node.value) for node in nodes if isinstance(node, ast.Constant) and is_stored(node)}
        self.contents |= {repr(node.attr) for node in nodes if isinstance(node, ast.Attribute)}
        for name in sorted(used - set(vars(builtins)) - set(KEPT)):
            module = next(module for module in modules if name in bindings(module))
            origin = origin_of(name, importlib.import_module(module))
            if origin[0].startswith(EXERCISES):
                self.write_out(*origin)
            else:
                self.note(self.imports, name, import_line(origin, name))

    def write_out(self, module: str, name: str) -> None:
        """A helper or constant of the exercises, which a student's process does not have."""
        text = bare(definitions_of(module)[name])
        if self.helpers.get(name) != text:
            self.add(text, [module], but={name})
            self.note(self.helpers, name, text)

    @staticmethod
    def note(texts: dict[str, str], name: str, text: str) -> None:
        if texts.setdefault(name, text) != text:
            raise ValueError(f"Two programs of an exercise mean different things by {name}.")
