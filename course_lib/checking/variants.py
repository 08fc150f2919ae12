"""*Variants*: the reference under one small change.

Nobody can list every mistake. But most wrong answers are the right one with a small slip: another axis, a step left
out, two things swapped. `changes` knows what slips there are; here they are made, one at a time, at every place of a
reference. A wrong answer that behaves exactly like one of these programs can be told so.
"""

from __future__ import annotations

import ast
import copy
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .changes import Change, Place, axes_in, changes_of
from .merge import Simplifier, definition_of

Program = Callable[..., Any]
# Python has one object for each of these, in all trees: there must be no number on it.
SHARED = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


@dataclass(frozen=True)
class Variant:
    """The reference with one small change."""

    reference: Program
    number: int  # of the change, among all that can be made to this reference
    kind: str
    words: str
    line: int  # of the changed statement, in the reference as `source_of` writes it

    @property
    def id(self) -> str:
        return f"{self.kind.replace(' ', '_')}@{self.line}#{self.number}"

    @property
    def sentence(self) -> str:
        return f"Your result is exactly what comes out if {self.words}."

    @functools.cached_property
    def source(self) -> str:
        tree, changes = changeable(self.reference)
        return ast.unparse(changed(tree, changes[self.number]))

    @functools.cached_property
    def program(self) -> Program | None:
        """The program itself; None if the change leaves nothing that can be defined."""
        namespace = dict(vars(sys.modules[self.reference.__module__]))
        try:
            exec(compile(self.source, f"<{self.reference.__name__}>", "exec"), namespace)
        except Exception:
            return None
        return namespace[self.reference.__name__]


@functools.cache
def variants_of(reference: Program) -> tuple[Variant, ...]:
    """All variants of a reference. Some may be the same program, or the reference itself in other words."""
    tree, changes = changeable(reference)
    lines = lines_of(tree)
    return tuple(
        Variant(reference, number, change.kind, change.words, lines[change.node.number])  # type: ignore[attr-defined]
        for number, change in enumerate(changes)
    )


@functools.cache
def changeable(reference: Program) -> tuple[ast.stmt, list[Change]]:
    """A reference's syntax tree, its nodes numbered, and all changes that can be made to it."""
    tree = simplified(reference)
    for number, node in enumerate(ast.walk(tree)):
        if not isinstance(node, SHARED):
            node.number = number  # type: ignore[attr-defined]
    return tree, list(all_changes(tree))


def simplified(program: Program) -> ast.stmt:
    """The syntax tree of a program without docstrings and annotations, negative numbers in one piece."""
    text = ast.unparse(Simplifier(set()).visit(definition_of(program)))
    return FoldSigns().visit(ast.parse(text).body[0])


class FoldSigns(ast.NodeTransformer):
    """Makes `-1` one constant: to Python it is the number 1 after a sign."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return ast.Constant(-node.operand.value)  # type: ignore[operator]
        return node


def changed(tree: ast.stmt, change: Change) -> ast.stmt:
    """A copy of the tree in which one change is made."""
    number = change.node.number  # type: ignore[attr-defined]
    replacement = copy.deepcopy(change.replacement)

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return replacement if getattr(node, "number", None) == number else self.generic_visit(node)

    return ast.fix_missing_locations(Swap().visit(copy.deepcopy(tree)))


def lines_of(tree: ast.stmt) -> dict[int, int]:
    """For the number of each node: the line of the innermost statement that it belongs to."""
    lines: dict[int, int] = {}
    for statement in (node for node in ast.walk(tree) if isinstance(node, ast.stmt)):  # outer ones come first
        numbers = (node.number for node in ast.walk(statement) if not isinstance(node, SHARED))  # type: ignore[attr-defined]
        lines.update((number, statement.lineno) for number in numbers)
    return lines


def all_changes(tree: ast.stmt) -> Iterator[Change]:
    """Every change at every place: statement by statement, from the outside in."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    layers = layers_of(tree)
    defaults = {name: value for function in functions for name, value in defaults_of(function).items()}
    for function in functions:
        yield from changes_of(function, Place(function, ""))
        known = [argument.arg for argument in function.args.args if argument.arg != "self"]
        for statement in body_of(function):
            place = Place(statement, makes(statement), tuple(known), layers, defaults)
            parts = list(own_parts(statement))
            place.axes = {id(axis) for part in parts if isinstance(part, ast.Call) for axis in axes_in(part)}
            for part in parts:
                yield from changes_of(part, place)
            known += [name for name in names_made_by(statement) if name not in known]


def body_of(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements of a function, those inside loops and conditions too, but not those of guards that raise."""
    waiting = list(function.body)
    while waiting:
        statement = waiting.pop(0)
        if isinstance(statement, ast.FunctionDef) or is_guard(statement):
            continue
        yield statement
        waiting = [*getattr(statement, "body", []), *getattr(statement, "orelse", []), *waiting]


def is_guard(statement: ast.stmt) -> bool:
    """Whether a statement only refuses bad arguments, which no check asks for; or calls `super().__init__()`."""
    if isinstance(statement, ast.If):
        return any(isinstance(inner, ast.Raise) for inner in statement.body)
    called = ast.unparse(statement.value) if isinstance(statement, ast.Expr) else ""
    return called.startswith(("super()", "require_", "check_", "size_of_a_head("))


def own_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of the statements inside it."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from ast.walk(child)


def makes(statement: ast.stmt) -> str:
    """What a statement computes, in words of the program."""
    match statement:
        case ast.Assign(targets=[target, *_]) | ast.AugAssign(target=target):
            return f"`{ast.unparse(target).removeprefix('self.').strip('()')}`"
        case ast.Return():
            return "the result"
    return ""


def names_made_by(statement: ast.stmt) -> list[str]:
    targets: list[ast.AST] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, ast.For):
        targets = [statement.target]
    return [
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def layers_of(tree: ast.AST) -> tuple[str, ...]:
    """The attributes of self that are made by calls, that is, layers."""
    return tuple(
        node.targets[0].attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
    )


def defaults_of(function: ast.FunctionDef) -> dict[str, ast.expr]:
    arguments = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    return {argument.arg: default for argument, default in zip(arguments, function.args.defaults)}
