"""What the names in a program are: where a module gets them from, and how to say the same elsewhere."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import symtable
from collections.abc import Iterator
from functools import cache
from types import ModuleType

Definition = ast.FunctionDef | ast.ClassDef
Origin = tuple[str, str]  # module, and the name in it ("" for the module itself)


def global_names(text: str) -> set[str]:
    """The names that a piece of code takes from outside."""
    defined = {node.name for node in ast.parse(text).body if isinstance(node, Definition)}
    return {
        symbol.get_name()
        for table in tables_of(symtable.symtable(text, "answer", "exec"))
        for symbol in table.get_symbols()
        if symbol.is_referenced() and symbol.is_global() and not (table.get_type() == "module" and symbol.is_assigned())
    } - defined


def local_names(text: str) -> set[str]:
    """The names that are bound inside a piece of code."""
    tables = tables_of(symtable.symtable(text, "answer", "exec"))
    return {s.get_name() for table in tables for s in table.get_symbols() if s.is_local()}


def tables_of(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from tables_of(child)


@cache
def definitions_of(module: str) -> dict[str, str]:
    """name -> source of the functions, classes and constants of a module."""
    text = inspect.getsource(importlib.import_module(module))
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, Definition):
            found[node.name] = source
        elif isinstance(node, ast.Assign):
            found |= {target.id: source for target in node.targets if isinstance(target, ast.Name)}
    return found


@cache
def imports_of(text: str, module: str) -> dict[str, Origin]:
    """name -> where the module (or cell) imports it from."""
    found: dict[str, Origin] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = (alias.name if alias.asname else name, "")
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), module.rpartition(".")[0])
            found |= {alias.asname or alias.name: as_origin(source, alias.name) for alias in node.names}
    return found


def as_origin(module: str, name: str) -> Origin:
    """`from course_lib import masks` imports a module, `from course_lib import check` a function."""
    inner = f"{module}.{name}"
    return (inner, "") if is_module(inner) else (module, name)


@cache
def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what comes before the last dot is not a package
        return False


@cache
def bindings(module: str) -> set[str]:
    text = inspect.getsource(importlib.import_module(module))
    return {*definitions_of(module), *imports_of(text, module)}


def origin_of(name: str, module: ModuleType) -> Origin:
    """Where a name of a module comes from: its own definition, or what it imports."""
    if name in definitions_of(module.__name__):
        return module.__name__, name
    return imports_of(inspect.getsource(module), module.__name__)[name]


def import_line(origin: Origin, name: str) -> str:
    module, attribute = origin
    if attribute:
        return f"from {module} import {attribute}" + (f" as {name}" if name != attribute else "")
    parent, _, last = module.rpartition(".")
    if parent and name == last:
        return f"from {parent} import {last}"
    return f"import {module}" + (f" as {name}" if name != module else "")
