"""One program with two mistakes, out of two programs with one mistake each.

A student may divide by the wrong number *and* mask the wrong axis. Nobody writes all pairs of mistakes by hand.
Instead the two wrong programs are merged, token by token, with the reference as their common ancestor, the way a
version control system merges two branches. Where both change the same place there is no such program.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import itertools
import sys
import textwrap
import tokenize
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

Token = tuple[int, str]
Edit = tuple[int, int, list[Token]]


@functools.cache
def merged(
    reference: Callable[..., Any], first: Callable[..., Any], second: Callable[..., Any]
) -> Callable[..., Any] | None:
    """A program that makes the mistakes of both, or None if they touch the same place."""
    name = reference.__name__
    ancestor = tokens_of(reference, reference)
    changes = edits_of(reference, first)
    changes = changes + [edit for edit in edits_of(reference, second) if edit not in changes]
    edits = sorted(changes, key=lambda edit: edit[:2])
    if any(interfere(ancestor, *both) for both in itertools.pairwise(edits)):
        return None
    # The reference's names win: in the exercises, `masked_softmax` may be an exercise and not the function.
    namespace = {**vars(sys.modules[first.__module__]), **vars(sys.modules[reference.__module__])}
    try:
        exec(compile(tokenize.untokenize(apply_edits(ancestor, edits)), f"<{name}>", "exec"), namespace)
    except (SyntaxError, NameError):
        return None
    return namespace[name]


def interfere(ancestor: Sequence[Token], left: Edit, right: Edit) -> bool:
    """Whether two edits right beside each other would make a third thing: -1 changed to -2 and to 1 does not give 2.

    Neighbouring lines are the exception: both can be left out.
    """
    (_, end, first), (start, _, second) = left, right
    leaves_out_both = end == start and not first and not second
    return end >= start and not (leaves_out_both and ancestor[end - 1][0] == tokenize.NEWLINE)


class Simplifier(ast.NodeTransformer):
    """Leaves out decorators, docstrings and annotations, which do nothing.

    Turns `masks.masked_softmax`, as other modules say it, into `masked_softmax`, as the module itself does.
    """

    def __init__(self, names_of_the_module: set[str]):
        self.names_of_the_module = names_of_the_module

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.names_of_the_module:
            return ast.Name(node.attr, node.ctx)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.without_comments(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.without_comments(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def without_comments(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)


@functools.cache
def tokens_of(program: Callable[..., Any], reference: Callable[..., Any]) -> list[Token]:
    """The tokens of a function or class, under the reference's name, without decorators, docstrings and annotations.

    A class that derives from the reference takes from it what it does not say itself.
    """
    members = members_of(program, reference)
    if isinstance(program, type) and program.__base__ is reference:
        own = {name: tokens for name, tokens in members.items() if callable(vars(program).get(name))}
        members = members_of(reference, reference) | own
    end = [(tokenize.DEDENT, "")] if isinstance(program, type) else []
    return [*itertools.chain(*members.values()), *end, (tokenize.ENDMARKER, "")]


@functools.cache
def members_of(program: Callable[..., Any], reference: Callable[..., Any]) -> dict[str, list[Token]]:
    """The tokens of a class: its first line (under no name), and its methods. A function has itself for a member."""
    module = sys.modules[reference.__module__]
    aliases = {name for name, value in vars(sys.modules[program.__module__]).items() if value is module}
    definition = Simplifier(aliases).visit(definition_of(program))
    definition.name = reference.__name__
    if isinstance(definition, ast.FunctionDef):
        return {definition.name: tokens_in(ast.unparse(definition))}
    body, definition.body = definition.body, [ast.Pass()]
    first_line = tokens_in(ast.unparse(definition))[:-3]  # up to the indentation, without `pass` and what ends it
    texts = [ast.unparse(node) for node in body]
    members = {getattr(node, "name", text): tokens_in_class(text) for node, text in zip(body, texts)}
    return {"": first_line, **members}


def tokens_in_class(text: str) -> list[Token]:
    """The tokens of something in a class, with the indentation that it has there."""
    return tokens_in("class _:\n" + textwrap.indent(text, "    "))[5:-1]


def tokens_in(text: str) -> list[Token]:
    """The tokens of some lines of code, without the one that marks the end."""
    tokens = tokenize.generate_tokens(io.StringIO(text + "\n").readline)
    return [(token.type, token.string) for token in tokens][:-1]


def completed(program: Callable[..., Any], reference: Callable[..., Any]) -> ast.stmt:
    """The syntax tree of a program. One that derives from the reference takes from it what it does not say itself."""
    definition = definition_of(program)
    if not (isinstance(program, type) and program.__base__ is reference):
        return definition
    parent = definition_of(reference)
    assert isinstance(definition, ast.ClassDef) and isinstance(parent, ast.ClassDef)
    own = {node.name: node for node in definition.body if isinstance(node, ast.FunctionDef)}
    parent.body = [own.pop(getattr(node, "name", ""), node) for node in parent.body]
    parent.body.extend(own.values())
    return parent


def definition_of(program: Callable[..., Any]) -> ast.stmt:
    """The syntax tree of a function or class, free to be changed."""
    source = sources_in(program.__module__).get(program.__qualname__) or inspect.getsource(program)
    return ast.parse(textwrap.dedent(source)).body[0]


@functools.cache
def sources_in(module: str) -> dict[str, str]:
    """All functions and classes of a module. `inspect` would read the whole file for every single class."""
    text = inspect.getsource(sys.modules[module])
    lines = text.splitlines(keepends=True)
    definitions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {node.name: "".join(lines[node.lineno - 1 : node.end_lineno]) for node in definitions}


@functools.cache
def edits_of(reference: Callable[..., Any], program: Callable[..., Any]) -> list[Edit]:
    """What turns the reference into the program. Cached, since each program is part of many pairs."""
    return edits_between(tokens_of(reference, reference), tokens_of(program, reference))


def edits_between(ancestor: Sequence[Token], changed: Sequence[Token]) -> list[Edit]:
    before = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ancestor, changed))))
    rest = zip(reversed(ancestor[before:]), reversed(changed[before:]))
    after = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], rest)))
    old, new = ancestor[before : len(ancestor) - after], changed[before : len(changed) - after]
    matcher = SequenceMatcher(None, old, new, autojunk=False)  # slow, so it is used only for the middle
    return [
        (before + i1, before + i2, list(new[j1:j2])) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    ]


def apply_edits(ancestor: Sequence[Token], edits: Sequence[Edit]) -> list[Token]:
    result: list[Token] = []
    position = 0
    for start, end, replacement in edits:
        result += [*ancestor[position:start], *replacement]
        position = end
    return result + list(ancestor[position:])
