"""An exercise's misconceptions and alternatives as the cells that students would have handed in.

A wrong answer of `course_lib/exercises` lives among helpers, constants and imports, and some derive from the
reference. In a notebook it has to stand alone: under the exercise's name, in the stub that the student was given,
together with everything that it needs and that the notebook's set-up cell does not import.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from nbformat import NotebookNode

from autograder.judging.references import modules, position, withheld
from course_lib.checking.exercise import Exercise
from course_lib.checking.merge import completed
from course_lib.checking.sources import (
    Definition,
    Origin,
    bindings,
    definitions_of,
    global_names,
    import_line,
    imports_of,
    local_names,
    origin_of,
)

Program = Callable[..., Any]

EXERCISES = "course_lib.exercises"


class CannotStandAlone(Exception):
    """The program needs something that a student's notebook does not have, such as the reference itself."""


def standing_alone(exercise: Exercise, programs: Sequence[Program], notebook: NotebookNode) -> dict[str, str]:
    """program's name -> the student's cell, for those of the programs that can be handed in."""
    cells = {}
    for program in programs:
        try:
            cells[program.__name__] = answer(exercise, program, notebook)
        except CannotStandAlone:
            continue
    return cells


def answer(exercise: Exercise, program: Program, notebook: NotebookNode) -> str:
    """The cell of a student of this (released) notebook who answers with the program."""
    text = definition_text(exercise, program)
    needs = Needs(exercise, known_names(setup_source(notebook)))
    modules = [module_of(program)]
    if derives(exercise, program):
        modules.insert(0, module_of(exercise.reference))  # first: a name means there what it means to the reference
    text = needs.satisfied(text, modules)
    written = in_the_stub(text, cell_source(notebook, exercise.name), exercise.name)
    return "\n\n\n".join(part for part in ("\n".join(needs.imports), *needs.helpers, written) if part)


def cell_source(notebook: NotebookNode, grade_id: str) -> str:
    """The source of the cell with this grade id."""
    return str(next(cell.source for cell in notebook.cells if grade_id_of(cell) == grade_id))


def setup_source(notebook: NotebookNode) -> str:
    """The cell that imports what the answers may use."""
    return str(next(cell.source for cell in notebook.cells if grade_id_of(cell).startswith("setup_")))


def grade_id_of(cell: NotebookNode) -> str:
    """nbgrader's name of a cell, or nothing."""
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


# --- the program under the exercise's name --------------------------------------------------------------


def definition_text(exercise: Exercise, program: Program) -> str:
    """The program's source without decorators and docstring, under the name of the exercise."""
    if derives(exercise, program):
        if "super(" in own_text(program):
            raise CannotStandAlone(f"{program.__name__} calls the reference")
        text = ast.unparse(completed(program, exercise.reference))
    else:
        text = own_text(program)
    definition = first_definition(text)
    lines = text.splitlines()
    lines[definition.lineno - 1] = lines[definition.lineno - 1].replace(definition.name, exercise.name, 1)
    del lines[: definition.lineno - 1]
    lines = without_docstring(first_definition("\n".join(lines)), lines)
    return without_guards("\n".join(lines))


def derives(exercise: Exercise, program: Program) -> bool:
    return isinstance(program, type) and program.__base__ is exercise.reference


def own_text(program: Program) -> str:
    return textwrap.dedent(definitions_of(program.__module__)[program.__name__])


def first_definition(text: str) -> Definition:
    return next(node for node in ast.parse(text).body if isinstance(node, Definition))


def without_docstring(definition: Definition, lines: list[str]) -> list[str]:
    """Remove docstrings: that of a misconception tells the student what is wrong, and no student writes that."""
    if ast.get_docstring(definition) is None or len(definition.body) == 1:
        return lines
    first = definition.body[0]
    rest = lines[first.end_lineno :]
    while rest and not rest[0].strip():
        rest = rest[1:]
    return lines[: first.lineno - 1] + rest


def without_guards(text: str) -> str:
    """The reference checks its arguments by `require_…`; students do not."""
    lines = text.splitlines()
    guards = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr) and is_guard(node.value)]
    for node in sorted(guards, key=lambda node: node.lineno, reverse=True):
        del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)


def is_guard(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name.startswith("require_")


# --- what the program needs -----------------------------------------------------------------------------


@dataclass
class Needs:
    """The imports and helpers that an answer needs besides what the notebook's set-up cell imports."""

    exercise: Exercise
    known: dict[Origin, str]  # what the set-up cell imports -> the name it has there
    imports: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    met: set[str] = field(default_factory=set)

    def satisfied(self, text: str, modules: Sequence[ModuleType]) -> str:
        """The text with names that the notebook knows, or that are in `imports` or `helpers`."""
        renamed = {}
        taken = local_names(text)
        for name in sorted(global_names(text) - {self.exercise.name} - set(vars(builtins))):
            module = next((module for module in modules if name in bindings(module.__name__)), None)
            if module is None:
                raise CannotStandAlone(name)
            origin = origin_of(name, module)
            self.refuse_references(text, name, origin)
            if origin in self.known and name not in taken:
                renamed[name] = self.known[origin]
            else:
                self.bring(name, origin)
        return with_names(text, renamed)

    def refuse_references(self, text: str, name: str, origin: Origin) -> None:
        """Refuse an answer that uses a reference that is still withheld, above all its own."""
        module, attribute = origin
        if module not in modules():  # where the references are
            return
        used = {(module, attribute)}
        if not attribute:
            used = {(module, node.attr) for node in attributes_of(text, name)}
        if used & withheld(position(self.exercise.name)):
            raise CannotStandAlone(f"{name} leads to a reference")

    def bring(self, name: str, origin: Origin) -> None:
        """Make the name usable in the notebook."""
        if origin[0].startswith(EXERCISES):
            self.write_out(importlib.import_module(origin[0]), origin[1])
        else:
            self.note(self.imports, import_line(origin, name))

    def write_out(self, module: ModuleType, name: str) -> None:
        """A helper or constant of the exercises: students have to write it themselves."""
        if name in self.met:
            return
        self.met.add(name)
        if isinstance(getattr(module, name), Exercise):
            raise CannotStandAlone(name)
        source = definitions_of(module.__name__).get(name)
        if source is None:
            raise CannotStandAlone(name)
        self.note(self.helpers, self.satisfied(source, [module]))

    def note(self, texts: list[str], text: str) -> None:
        if text not in texts:
            texts.append(text)


def module_of(program: Program) -> ModuleType:
    return importlib.import_module(program.__module__)


def attributes_of(text: str, name: str) -> list[ast.Attribute]:
    """Where a piece of code says `name.something`."""
    attributes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    return [node for node in attributes if isinstance(node.value, ast.Name) and node.value.id == name]


def with_names(text: str, renamed: dict[str, str]) -> str:
    """The text with its outer names changed."""
    changed = {old: new for old, new in renamed.items() if old != new}
    lines = text.encode().splitlines()  # syntax trees count in bytes
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id in changed]
    for node in sorted(names, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1]
        new = changed[node.id].encode()
        lines[node.lineno - 1] = line[: node.col_offset] + new + line[node.end_col_offset :]
    return b"\n".join(lines).decode()


# --- what a set-up cell brings ------------------------------------------------------------------------------


def known_names(setup: str) -> dict[Origin, str]:
    """What a set-up cell imports -> the name that it gives it."""
    return {origin: name for name, origin in imports_of(setup, "").items()}


# --- the stub that the student was given ----------------------------------------------------------------


def in_the_stub(text: str, stub: str, name: str) -> str:
    """The answer written into the stub: signatures with annotations and docstrings stay where they fit."""
    given = dict(parts_of(stub, name))
    lines, around = text.splitlines(), stub.splitlines()
    for path, node in sorted(parts_of(text, name), key=lambda part: part[1].lineno, reverse=True):
        if path in given and fits(given[path], node):
            lines[head(node, lines)] = around[head(given[path], around)] + [""] * isinstance(node, ast.ClassDef)
    definition = given[(name,)]
    around[definition.lineno - 1 : definition.end_lineno] = lines
    return "\n".join(around)


def parts_of(text: str, name: str) -> list[tuple[tuple[str, ...], Definition]]:
    """The definition of this name, and its methods: path -> syntax tree."""
    found: list[tuple[tuple[str, ...], Definition]] = []
    for node in ast.parse(text).body:
        if isinstance(node, Definition) and node.name == name:
            found.append(((name,), node))
            if isinstance(node, ast.ClassDef):
                found += [((name, inner.name), inner) for inner in node.body if isinstance(inner, ast.FunctionDef)]
    return found


def fits(given: Definition, written: Definition) -> bool:
    """Whether the head of the stub fits what was written: same arguments with the same defaults."""
    if written.body[0].lineno == written.lineno or type(given) is not type(written):
        return False
    if isinstance(given, ast.ClassDef) and isinstance(written, ast.ClassDef):
        return [ast.dump(base) for base in given.bases] == [ast.dump(base) for base in written.bases]
    assert isinstance(given, ast.FunctionDef) and isinstance(written, ast.FunctionDef)
    return bare(given.args) == bare(written.args)


def bare(arguments: ast.arguments) -> str:
    """Arguments without their annotations."""
    arguments = copy.deepcopy(arguments)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(arguments)


def head(definition: Definition, lines: list[str]) -> slice:
    """Where the lines from `def` to the end of the docstring are, or to the colon if there is none."""
    first = definition.body[0]
    if ast.get_docstring(definition) is not None:
        return slice(definition.lineno - 1, first.end_lineno)
    end = first.lineno - 1
    while lines[end - 1].lstrip().startswith("#") or not lines[end - 1].strip():
        end -= 1
    return slice(definition.lineno - 1, end)
