"""Which of the instructor's cells does a submission need?

A notebook is full of demonstrations: pictures, worked numbers, timings. They use the references and not the answers, so
a grade does not depend on them, and most of a notebook's time goes into them. Only those are run whose results the
student's own cells use, directly or through one another. (If this ever misses one, a NameError shows it, and the judge
runs everything if a cell that was not run could define the name.)
"""

from __future__ import annotations

import ast
import functools
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

HARMLESS_MAGIC = re.compile(
    r"^([ \t]*)(?:!|%(?:autoreload|cd|conda|config|env|load_ext|matplotlib|pip|pwd)\b)(?:.*\\\n)*.*$", re.MULTILINE
)
MAGIC = re.compile(r"^[ \t]*+(?:[%!?]|.*\?[ \t]*$|\w[\w, ]*=[ \t]*[%!])", re.MULTILINE)
MOST_WORK_ON_MAGICS = 200_000  # magics times characters: half a second
FORMATTED = re.compile(r"(?<![^\W_])(?:[fF][rR]?|[rR][fF])[\"']")
MOST_WORK_ON_FORMATTED_TEXT = 500_000_000  # braces times characters: a tenth of a second for Python 3.11
LONGEST_CELL = 100_000  # characters; the longest answer of the course has 5,000
REACHES_EVERYTHING = {"globals", "locals", "vars", "exec", "eval", "get_ipython", "__main__", "In", "Out", "_"}


@dataclass(frozen=True)
class Names:
    """The global names that a cell takes from others, those that it makes, and those whose objects it may change."""

    taken: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()


def needed(cells: Sequence[str], by_student: Sequence[bool]) -> set[int]:
    """The positions of the cells to run: all of them, if the student's code might use any name."""
    parsed = [names_in(source) for source in cells]
    names = [found or Names() for found in parsed]
    run = {i for i, own in enumerate(by_student) if own}
    if any(names[i].taken & REACHES_EVERYTHING for i in run):
        return set(range(len(cells)))
    run |= {i for i, found in enumerate(parsed) if found is None}
    modules = frozenset().union(*(found.imported for found in names))  # torch.manual_seed(0) changes no data of ours
    makes = [found.made | (found.changed - modules) for found in names]
    to_serve = list(run)
    while to_serve:
        user = to_serve.pop()
        makers = {i for i in range(user) if i not in run and not makes[i].isdisjoint(names[user].taken)}
        run |= makers
        to_serve += makers
    return run


def could_define(missing: Iterable[str], cells: Iterable[str]) -> bool:
    """Whether one of these cells may define one of these names, as far as can be seen."""
    found = [names_in(source) for source in cells]
    return any(names is None or "*" in names.imported or not names.made.isdisjoint(missing) for names in found)


def made_in(source: str) -> frozenset[str]:
    """The global names that a cell makes, as far as can be seen."""
    found = names_in(source)
    return frozenset() if found is None else found.made


@functools.lru_cache(maxsize=4096)  # the instructor's cells are the same in every submission
def names_in(source: str) -> Names | None:
    """What a cell takes and makes; None if it cannot be parsed, or only at great expense."""
    if len(source) > LONGEST_CELL or is_formatted_at_length(source):
        return None
    try:
        source = as_python(source)
        tree = ast.parse(source)
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imported = {(a.asname or a.name).partition(".")[0] for a in ast.walk(tree) if isinstance(a, ast.alias)}
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    bound |= set(written_by_functions(table))
    changed = set(changed_by(tree))
    taken = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()} - bound
    taken |= set(taken_by_functions(table)) - bound
    taken |= changed - bound
    if "__main__" in imported:
        taken.add("__main__")
    return Names(frozenset(taken), frozenset(bound), frozenset(changed), frozenset(imported))


def is_formatted_at_length(source: str) -> bool:
    """Whether Python may take very long to read the formatted texts in a cell: it reads each again for each brace."""
    is_much = source.count("{") * len(source) > MOST_WORK_ON_FORMATTED_TEXT
    return is_much and FORMATTED.search(source) is not None


def as_python(source: str) -> str:
    """The cell without IPython's magics. Raises ValueError if there are too many of them.

    Those that touch no name of the notebook are left out. For each of the others IPython reads the whole cell again.
    """
    source = HARMLESS_MAGIC.sub(r"\1pass", source)
    magics = len(MAGIC.findall(source))
    if magics * len(source) > MOST_WORK_ON_MAGICS:
        raise ValueError("too many magics")
    return TransformerManager().transform_cell(source) if magics else source


def taken_by_functions(table: symtable.SymbolTable) -> Iterator[str]:
    """Global names that functions and classes in a cell read."""
    for child in table.get_children():
        yield from (s.get_name() for s in child.get_symbols() if s.is_global() and s.is_referenced())
        yield from taken_by_functions(child)


def written_by_functions(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that functions declare `global` and assign."""
    for child in table.get_children():
        yield from (s.get_name() for s in child.get_symbols() if s.is_declared_global() and s.is_assigned())
        yield from written_by_functions(child)


def changed_by(tree: ast.AST) -> Iterator[str]:
    """The names of objects that a cell changes by itself: `x[0] = 1`, `x.a = 1`, `x.append(1)` on a line of its own."""
    to_visit = [tree]
    while to_visit:  # no recursion: a sum of a thousand terms is a tree of that depth
        for node in ast.iter_child_nodes(to_visit.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                continue  # their names are their own
            to_visit.append(node)
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                yield root_of(node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                if isinstance(node.value.func, ast.Attribute):
                    yield root_of(node.value.func)
            elif isinstance(node, ast.AugAssign):
                yield root_of(node.target)


def root_of(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
