"""Does an answer use what its exercise forbids, such as torch's own norm? Read from the source.

While student code runs, the calls to torch are watched, but code can hide from a watch that runs beside it. The source
cannot be rewritten: the judge reads everything that an answer can reach by name, and what may reach further than its
names show (`getattr`, `exec`, torch's lower levels) counts as a way to the forbidden thing.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autograder.judging.needed import LONGEST_CELL, as_python, root_of

# Ways to reach code that no name in the source shows. No formula needs any of them.
BACK_DOORS = frozenset(
    [
        *("getattr", "__getattr__", "__getattribute__", "attrgetter", "methodcaller", "__dict__", "vars", "globals"),
        *("locals", "__globals__", "__builtins__", "builtins", "__subclasses__", "__mro__", "__bases__", "*"),
        *("eval", "exec", "compile", "__import__", "importlib", "import_module", "modules", "get_ipython"),
        *("gc", "ctypes", "sys", "inspect", "pickle", "load", "loads", "hub"),
        *("ops", "_C", "_VF", "_refs", "_decomp", "_prims", "jit", "fx", "library"),  # of torch
    ]
)
CHANGES_AN_ATTRIBUTE = {"setattr", "delattr"}


@dataclass
class Code:
    """The statements of a student's cells, and those among them that define a name."""

    statements: list[ast.stmt] = field(default_factory=list)
    defining: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def add(self, statement: ast.stmt) -> None:
        self.statements.append(statement)
        for name in defined_by(statement):
            self.defining.setdefault(name, []).append(statement)

    def behind(self, name: str) -> list[ast.stmt]:
        """Everything that runs, as far as names show, when this is used."""
        own = self.defining.get(name, [])
        changing = [statement for statement in self.statements if self.may_change(name, statement)]
        return self.reached([*changing, *own])

    def reached(self, statements: Iterable[ast.stmt], without: Collection[ast.stmt] = ()) -> list[ast.stmt]:
        """These, and what defines the names that they use."""
        seen = {id(statement) for statement in without}
        found, to_read = [], list(statements)
        while to_read:
            statement = to_read.pop()
            if id(statement) not in seen:
                seen.add(id(statement))
                found.append(statement)
                to_read += [maker for used in names_used(statement) for maker in self.defining.get(used, [])]
        return found

    def may_change(self, name: str, statement: ast.stmt) -> bool:
        """Whether a statement may put something in the place of this, or of one of torch's functions."""
        if changes_other_objects(statement) or imports_everything(statement):
            return True
        if not hands_over(name, statement):
            return False
        others = self.reached([statement], without=self.defining.get(name, []))
        return any(is_attribute_set(node) for other in others for node in ast.walk(other))


def forbidden_in(name: str, forbidden: Collection[str], cells: Sequence[str]) -> str | None:
    """The first forbidden name or back door that the answer called `name` uses; None if there is none."""
    code = Code()
    for source in cells:
        for statement in statements_of(source):
            code.add(statement)
    for statement in code.behind(name):
        for mentioned in mentions(statement):
            if mentioned in forbidden or mentioned in BACK_DOORS:
                return mentioned
    return None


def statements_of(source: str) -> Iterable[ast.stmt]:
    """The statements of a cell; none if it cannot run anyway. Below a magic such as %%time there is a cell too."""
    if len(source) > LONGEST_CELL:
        return
    try:
        tree = ast.parse(as_python(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in tree.body:
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [_, _, ast.Constant(str() as below)])):
                yield from statements_of(below)
            case _:
                yield statement


def defined_by(statement: ast.stmt) -> Iterator[str]:
    """The global names that a statement may bind, wherever in it: also below an `if`, a `with`, a `global`."""
    for node in ast.walk(statement):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=asname):
                yield (asname or name).partition(".")[0]


def names_used(statement: ast.AST) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def mentions(statement: ast.AST) -> Iterator[str]:
    """Names, attributes, whole texts and imported names that may mean something forbidden.

    A name alone is the student's own: what it means is said where it is defined or imported.
    """
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name) if name in BACK_DOORS:
                yield name
            case ast.Attribute(attr=name) | ast.Constant(value=str() as name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.name for alias in names)
            case ast.Import(names=names):
                yield from (part for alias in names for part in alias.name.split("."))


def is_attribute_set(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in CHANGES_AN_ATTRIBUTE
    return False


def changes_other_objects(statement: ast.stmt) -> bool:
    """Whether it may set an attribute of something that is not an argument: of a class or a module."""
    to_visit: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
    while to_visit:
        node, arguments = to_visit.pop()
        if is_attribute_set(node) and root_of(node) not in arguments:
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments |= {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        to_visit += [(child, arguments) for child in ast.iter_child_nodes(node)]
    return False


def imports_everything(statement: ast.stmt) -> bool:
    """Whether it takes names out of torch without saying which."""
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.nn") and node.names[0].name == "*"
        for node in ast.walk(statement)
    )


def hands_over(name: str, statement: ast.stmt) -> bool:
    """Whether it passes the object of this name on to other code instead of calling it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(isinstance(value, ast.Name) and value.id == name for value in given):
                return True
    return False
