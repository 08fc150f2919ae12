"""Implementations of an exercise, written so that nothing but their behaviour tells which is which.

A test that a student writes is tried on the exercise's own right and wrong answers. All of them have the same name,
the same things around them, no docstring and no source; names of variables and harmless statements are drawn anew each
time, so that the same program is never twice the same code.
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


def disguised(exercise: Exercise, implementation: Implementation, dice: random.Random) -> Program:
    """The implementation as no one has seen it before."""
    around = surroundings(exercise.name)
    tree = ast.parse(
        "\n".join([*around.imports.values(), *around.helpers.values(), text_of(implementation, exercise.reference)])
    )
    rename(tree, variables_in(tree) | around.helpers.keys(), dice)
    for function in functions_in(tree):
        add_fillers(function, dice)
    return Program(exercise.name, ast.unparse(tree))


@functools.cache
def text_of(implementation: Implementation, reference: Implementation) -> str:
    """The implementation under the reference's name, without decorators, docstrings and annotations."""
    definition = completed(implementation, reference)
    definition.name = reference.__name__  # type: ignore[attr-defined]
    return bare(ast.unparse(definition))


def bare(text: str) -> str:
    """A piece of code without decorators, docstrings and annotations."""
    return ast.unparse(Simplifier(set()).visit(ast.parse(text)))


# --- names and fillers ----------------------------------------------------------------------------------------------


def functions_in(definition: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(definition) if isinstance(node, ast.FunctionDef)]


def rename(tree: ast.Module, names: Iterable[str], dice: random.Random) -> None:
    """Give variables and helpers other names."""
    new = dict(zip(sorted(names), new_names(tree, dice)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = new.get(node.id, node.id)
        elif isinstance(node, ast.FunctionDef):
            node.name = new.get(node.name, node.name)


def variables_in(tree: ast.Module) -> set[str]:
    """The names that are assigned in functions and are nothing else anywhere: arguments can be named by a caller."""
    nodes = [node for function in functions_in(tree) for node in ast.walk(function)]
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
    declared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    return assigned - arguments - declared - global_names(ast.unparse(tree))


def new_names(definition: ast.AST, dice: random.Random) -> Iterator[str]:
    taken = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)} | set(vars(builtins))
    taken |= {node.arg for node in ast.walk(definition) if isinstance(node, ast.arg)}
    while True:
        name = "_" + "".join(dice.choices(LETTERS, k=6))
        if name not in taken:
            taken.add(name)
            yield name


def add_fillers(function: ast.FunctionDef, dice: random.Random) -> None:
    """Statements that do nothing, between those of the function."""
    names = new_names(function, dice)
    for _ in range(dice.randint(1, MOST_FILLERS)):
        filler = ast.parse(f"{next(names)} = {dice.randint(100, 10**6)}").body[0]
        function.body.insert(dice.randrange(len(function.body)), filler)


# --- what is around them --------------------------------------------------------------------------------------------


@functools.cache
def surroundings(exercise_name: str) -> Surroundings:
    """The imports and helpers of all implementations of an exercise: each is given those of the others, too."""
    exercise = REGISTRY[exercise_name]
    found = Surroundings()
    for implementation in (exercise.reference, *exercise.alternatives, *exercise.misconceptions):
        modules = [implementation.__module__]
        if isinstance(implementation, type) and implementation.__base__ is exercise.reference:
            modules.insert(0, exercise.reference.__module__)  # there a name is what the reference means by it
        found.add(text_of(implementation, exercise.reference), modules, but={exercise.name})
    return found


class Surroundings:
    """What programs take from outside: name -> the line that imports it, or its own text."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        self.helpers: dict[str, str] = {}

    def add(self, text: str, modules: Sequence[str], but: set[str]) -> None:
        for name in sorted(global_names(text) - but - set(vars(builtins))):
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
