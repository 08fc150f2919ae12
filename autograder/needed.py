"""Which of the instructor's cells does a submission need?

A notebook is full of demonstrations: pictures, worked numbers, timings. They use the references and not the answers, so a
grade does not depend on them, and most of a notebook's time goes into them. Only those are run that make something which
the student's own cells use, directly or through one another.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from IPython.core.inputtransformer2 import TransformerManager

REACHES_EVERYTHING = {"globals", "locals", "vars", "exec", "eval", "get_ipython", "__main__", "In", "Out", "_"}


def needed(cells: Sequence[str], by_student: Sequence[bool]) -> set[int]:
    """The positions of the cells to run. Everything, if the student's code might reach any name."""
    read = [names_in(source) for source in cells]
    wanted: set[str] = set()
    run = {i for i, own in enumerate(by_student) if own}
    for i in run:
        uses, _ = read[i] or (set(), set())
        wanted |= uses
    if wanted & REACHES_EVERYTHING:
        return set(range(len(cells)))
    while True:
        more = {i for i, found in enumerate(read) if i not in run and (found is None or found[1] & wanted)}
        if not more:
            return run
        run |= more
        for i in more:
            wanted |= (read[i] or (set(), set()))[0]


def names_in(source: str) -> tuple[set[str], set[str]] | None:
    """(names that a cell uses, names that it makes or changes); None if it cannot be parsed."""
    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    uses = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    uses |= {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return uses | {"__main__"} & set(imports), set(made_by(tree))


def made_by(tree: ast.Module) -> list[str]:
    """The names that the statements of a cell bind, and those of objects that they may change."""
    made: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.append(node.name)
        elif isinstance(node, ast.alias):
            made.append((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            made.append(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            made.append(root_of(node))
    for statement in tree.body:  # x.append(…), on a line of its own
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            made.append(root_of(statement.value.func))
    return made


def root_of(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
