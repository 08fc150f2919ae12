"""What the statements of a student's cells name, bind, hold and change, as far as the source shows."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib
import re
import symtable
import sys
from collections.abc import Iterable, Iterator

from autograder.judging.needed import as_python, changed_by, is_formatted_at_length, root_of

STAR = "*"  # what is imported if everything is
# Ways to reach code that no name in the source shows. No formula needs any of them.
BACK_DOORS = frozenset(
    [
        *("getattr", "__getattr__", "__getattribute__", "attrgetter", "methodcaller", "__dict__", "vars", "globals"),
        *("locals", "__globals__", "__builtins__", "builtins", "__subclasses__", "__mro__", "__bases__"),
        *("setattr", "delattr"),  # where they are not called
        *("eval", "exec", "compile", "__import__", "importlib", "import_module", "modules", "get_ipython"),
        *("gc", "ctypes", "sys", "inspect", "pickle", "load", "loads", "hub", "get_type_hints", "ForwardRef"),
        *("ops", "_C", "_VF", "_refs", "_decomp", "_prims", "jit", "fx", "library", "overrides", "utils"),  # of torch
        STAR,
        *("user_ns", "user_global_ns", "f_globals", "f_locals"),
        *("Transformer", "SyncBatchNorm"),  # norms are among the parts of these
        *("threading", "Thread", "multiprocessing", "ThreadPool"),  # no watch follows there
        *("f_builtins", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back"),  # of frames
        *("co_names", "co_consts", "co_code", "bltns", "measure", "update_wrapper"),  # run or find what a text says
        *("singledispatch", "singledispatchmethod", "get_args"),  # evaluate annotations
        *("ao", "quantization"),  # of torch: lists of its modules
        *("checking", "long_range", "position_model"),  # of the course: they run texts, or have norms of torch's
        *("_import_dotted_name", "_sys", "_os", "_getframe", "_type_convert", "_eval_type", "_evaluate", "_create_fn"),
    ]
)
OPTIONS = re.compile(r"^\s*(?:-\S+\s+)*")  # of a magic, before its code
MOST_OPTIONS = 20  # words before its code
TIMED = re.compile(r"^([ \t]*)%%?(?:time|timeit|prun|capture)\b[^\S\n]*(?:-\S+[^\S\n]*)*", re.MULTILINE)
MAGIC_LINE = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
MAGICS = {"run_line_magic", "run_cell_magic"}
ALL_NAMES = {"globals", "locals", "vars", "get_ipython"}  # functions that give access to all names
BY_NAME = {"__dict__", "user_ns", "user_global_ns", "f_globals", "f_locals", "__builtins__"}
EVALUATES = {"exec", "eval"}
SHOWS = {"print", "display", "len", "list", "set", "sorted", "str", "repr", "type", "dir", "bool"}
LOOKS = {"keys", "system", "getoutput", "magic", "__class__", "config", *MAGICS}
LOOKS_AT_ONE = {"get", "items", "values"}  # into the attributes of one object that the source names
BY_PATTERN = "__match_args__"  # a class pattern reads attributes, whose names need not occur in the source
RUNS_TEXTS = frozenset(["runpy", "code", "codeop", "doctest", "trace", "bdb", "mock"])  # modules, or replaces by name
# Of timeit, cProfile and pdb.
TAKES_TEXTS = frozenset(["timeit", "repeat", "Timer", "run", "runctx", "runcall", "runeval"])
MODULES_OF_TORCH = frozenset(["torch", "nn", "F"])
BELOW_TORCH = {"nn", "functional"}
UNFAMILIAR = "import"  # stands for a module with which no formula is written
PRIVATE = "_"  # stands for a private member of something
# What a formula may use of Python's and torch's objects although its name begins with an underscore.
NOT_PRIVATE = frozenset(
    [
        *(name for kind in (object, float, list, dict) for name in dir(kind)),
        *("__name__", "__qualname__", "__module__", "__version__", "__file__", "__all__", "__annotations__"),
        *("__call__", "__next__", "__enter__", "__exit__", "__post_init__", "__matmul__", "__rmatmul__"),
        *("_parameters", "_buffers", "_get_name", "_apply", "_version"),
    ]
)
ALWAYS_THERE = frozenset([*dir(builtins), "display", "exit", "quit", "In", "Out", "_", "__", "___"])
CHANGES_AN_ATTRIBUTE = {"setattr", "delattr", "__setattr__", "__delattr__"}
# What a formula may be written with. Among other modules are many that find an object by its name.
FAMILIAR_MODULES = frozenset(
    [
        *("torch", "numpy", "einops", "course_lib", "math", "cmath", "numbers", "random", "time", "warnings"),
        *("__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "itertools"),
        *("typing", "typing_extensions", "jaxtyping"),
    ]
)
MUTABLE = ast.Call | ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.GeneratorExp
PLAIN_DECORATORS = {"torch", "staticmethod", "classmethod", "property", "dataclass", "override"}
LISTS_OF_NAMES = {"__constants__", "__slots__"}


@functools.lru_cache(maxsize=8192)
def words_of(statement: ast.stmt) -> frozenset[str]:
    """Everything in a statement that may mean something forbidden, whatever it is used for, except names alone."""
    strange = [*(UNFAMILIAR for _ in unfamiliar_modules(statement)), *(PRIVATE for _ in private_members(statement))]
    return frozenset([*mentions(statement), *strange])


@functools.lru_cache(maxsize=8192)
def names_of(statement: ast.stmt) -> frozenset[str]:
    """All names that occur in a statement, those of a function's own variables among them."""
    return frozenset(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


@functools.lru_cache(maxsize=256)  # a submission is read once for each exercise that forbids something, and twice
def statements_of(source: str) -> tuple[ast.stmt, ...] | None:
    """The statements of a cell; none if it cannot run anyway, and None if it perhaps can but cannot be read."""
    if is_formatted_at_length(source):
        return None
    try:
        source = as_python(source)
    except ValueError:  # too many magics for IPython to take them apart
        try:
            tree = ast.parse(MAGIC_LINE.sub(r"\1pass", TIMED.sub(r"\1", source)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    except SyntaxError:
        return ()
    except (RecursionError, MemoryError):
        return None
    else:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return ()
        except (RecursionError, MemoryError):  # where it is run there may be no such limit
            return None
    return tuple(with_magics(tree.body))


def with_magics(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, and those in the line of a magic such as %time or below it, or in a text that is timed. What a
    cell writes to a file counts as if it were run."""
    for statement in statements:
        yield statement
        for node in ast.walk(statement):
            match node:
                case ast.Call(ast.Attribute(attr=attr) | ast.Name(id=attr), args) if attr in TAKES_TEXTS:
                    for text in args:
                        yield from code_of_a_magic(str(text.value)) if isinstance(text, ast.Constant) else ()
                case ast.Call(ast.Attribute(attr=attr), [_, *texts]) if attr in MAGICS:
                    for text in texts:
                        yield from code_of_a_magic(str(text.value)) if isinstance(text, ast.Constant) else ()


def code_of_a_magic(text: str) -> tuple[ast.stmt, ...]:
    """What it runs. Some options have a value, `-n 1`: whatever makes no sense as code is taken for one."""
    for _ in range(MOST_OPTIONS):
        text = OPTIONS.sub("", text)
        found = statements_of(text)
        if found or found is None:
            return found or ()
        _, _, text = text.partition(" ")
    return ()


def defined_by(statement: ast.stmt) -> frozenset[str]:
    """The global names that a statement may bind, wherever in it: also below an `if`, a `with`, a `global`."""
    return global_names(statement)[0]


def names_used(statement: ast.stmt) -> frozenset[str]:
    """The global names that a statement may read. What a function calls its own has nothing to do with them."""
    return global_names(statement)[1]


@functools.lru_cache(maxsize=8192)
def global_names(statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """The global names that a statement may bind, and those that it may read."""
    try:
        table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a very long formula: all names that occur in it
        names = names_of(statement)
        return names | {str(vars(statement).get("name", ""))}, names
    bound, read = set(), set()
    tables = [table]
    while tables:  # no recursion: students may nest functions as deeply as Python allows
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            is_global = table.get_type() == "module" or symbol.is_global()
            if is_global and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
            if symbol.is_referenced() and (is_global or table.get_type() == "class"):  # which looks further
                read.add(symbol.get_name())
    return frozenset(bound), frozenset(read)


def may_hold(name: str, statement: ast.stmt) -> bool:
    """Whether a statement that binds this name may bind it to an object in which something can be put later."""
    match statement:
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return value is not None and holds(value)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if statement.name == name:
            return any(map(is_made_mutable, ast.walk(statement)))
    return True


def is_made_mutable(node: ast.AST) -> bool:
    """Whether a function or class holds an object from when it is defined: a default, an attribute of the class."""
    match node:
        case ast.FunctionDef(args=args, decorator_list=wraps) | ast.AsyncFunctionDef(args=args, decorator_list=wraps):
            defaults = [default for default in (*args.defaults, *args.kw_defaults) if default is not None]
            return any(map(holds, defaults)) or any(map(wraps_anything, wraps))
        case ast.ClassDef(body=body, decorator_list=wraps, keywords=keywords):
            values = [each.value for each in body if isinstance(each, ast.Assign | ast.AnnAssign) and not is_list(each)]
            held = any(value is not None and holds(value) for value in values)
            return held or bool(keywords) or any(map(wraps_anything, wraps))
    return False


def holds(value: ast.AST) -> bool:
    return any(isinstance(node, MUTABLE) for node in ast.walk(value))


def is_list(statement: ast.Assign | ast.AnnAssign) -> bool:
    """Whether it is a list of names for torch or for Python."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return all(isinstance(target, ast.Name) and target.id in LISTS_OF_NAMES for target in targets)


def wraps_anything(decorator: ast.expr) -> bool:
    """Whether a decorator may return something else than what it decorates, such as a cached object."""
    return root_of(decorator.func if isinstance(decorator, ast.Call) else decorator) not in PLAIN_DECORATORS


def mentions(statement: ast.AST) -> Iterator[str]:
    """Names, attributes, whole texts and imported names that may mean something forbidden.

    A name alone is the student's own: what it means is said where it is defined or imported.
    """
    plain = set(map(id, plain_lookups(statement)))
    for node in ast.walk(statement):
        match node:
            case ast.Name(id="wraps") | ast.Attribute(attr="wraps") | ast.alias(name="wraps", asname=str()):
                yield from () if id(node) in plain else ["update_wrapper"]
            case ast.Name(id=name) if name in BACK_DOORS and id(node) not in plain:
                yield name
            case ast.Attribute(attr=name) | ast.Constant(value=str() as name):
                yield name
            case ast.ImportFrom(module=module, names=names):
                yield from (alias.name for alias in names)
                if module is not None and module.startswith("course_lib"):
                    yield from module.split(".")
            case ast.Import(names=names):
                yield from (part for alias in names for part in alias.name.split("."))
            case ast.MatchClass(patterns=[_, *_]) | ast.MatchClass(kwd_patterns=[_, *_]):
                yield BY_PATTERN


def plain_lookups(statement: ast.AST) -> Iterator[ast.expr]:
    """`getattr`, `setattr` and `functools.wraps` where they do nothing unusual: the name that is looked up stands
    there, what is set is looked at elsewhere, or nobody says which."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Name(id="getattr") as func, args=[_, ast.Constant(value=str()), *_]):
                yield func
            case ast.Call(func=ast.Name(id="setattr" | "delattr") as func):
                yield func
            case ast.Call(func=ast.Name(id="wraps") | ast.Attribute(attr="wraps") as func, args=[_], keywords=[]):
                yield func


def plainly_used(statement: ast.stmt) -> frozenset[str]:
    """The names of those that are used in no other way."""
    plain = set(map(id, plain_lookups(statement)))
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)] if plain else []
    others = {node.id for node in names if id(node) not in plain}
    return frozenset(node.id for node in names) - others


def private_members(statement: ast.AST) -> Iterator[tuple[str, str]]:
    """The private names that a statement takes from something, and what that is called; empty if it has no name."""
    for node in ast.walk(statement):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if name.startswith("_") and name not in NOT_PRIVATE:
                yield name, root_of(node)
            case ast.ImportFrom(names=names):
                yield from ((alias.name, "") for alias in names if alias.name.startswith("_"))


@functools.lru_cache(maxsize=8192)
def private_names_made(statement: ast.stmt) -> frozenset[str]:
    """The private names that a statement gives to something of its own."""
    found = set()
    for node in ast.walk(statement):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Constant(value=str() as name) if name.isidentifier():  # register_buffer("_table", …)
                found.add(name)
    return frozenset(name for name in found if name.startswith("_"))


def unfamiliar_modules(statement: ast.AST) -> Iterator[str]:
    """Imported modules that no formula is written with."""
    for node in ast.walk(statement):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str() as module):
                found = [module]
            case _:
                continue
        yield from (name for name in found if name.partition(".")[0] not in FAMILIAR_MODULES)


def at_hand(name: str, users: dict[str, list[ast.stmt]]) -> Iterator[ast.stmt]:
    """The statements that use this, or what was made by a statement that uses it. Takes them out of `users`."""
    names = [name]
    while names:
        for statement in users.pop(names.pop(), ()):
            names += defined_by(statement)
            yield statement


@functools.lru_cache(maxsize=8192)
def may_bind_anything(statement: ast.stmt) -> bool:
    """Whether a statement may bind names that it does not say, or run what does not stand there."""
    return imports_everything(statement) or writes_names(statement) or runs_anything(statement)


def runs_anything(statement: ast.stmt) -> bool:
    """Whether it imports what runs texts, passes on what sets an attribute or runs a text, or times a text that is put
    together."""
    called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
    for node in ast.walk(statement):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                parts = {part for alias in names for part in alias.name.split(".")}
                parts |= set((getattr(node, "module", "") or "").split("."))
                if not RUNS_TEXTS.isdisjoint(parts):
                    return True
            case ast.Name(id=name) if name in CHANGES_AN_ATTRIBUTE | EVALUATES and id(node) not in called:
                return True
            case ast.Call(ast.Attribute(attr=attr) | ast.Name(id=attr), args) if attr in TAKES_TEXTS:
                if any(isinstance(text, ast.BinOp | ast.JoinedStr) for text in args):
                    return True
    return False


@functools.lru_cache(maxsize=8192)
def sets_an_attribute(statement: ast.stmt) -> bool:
    """Whether a statement sets any attribute at all."""
    return any(map(is_attribute_set, ast.walk(statement)))


def is_attribute_set(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in CHANGES_AN_ATTRIBUTE
    return False


@functools.lru_cache(maxsize=8192)
def roots_changed(statement: ast.stmt) -> frozenset[str]:
    """The names of the objects that a statement changes by itself."""
    return frozenset(changed_by(statement))


def writes_names(statement: ast.stmt) -> bool:
    """Whether it may bind a name, or change what one stands for, without naming it."""
    looked_at = set(map(id, only_looked_at(statement)))
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in EVALUATES:
                return True
            case ast.Call(func=ast.Name(id=name)) if name in ALL_NAMES and id(node) not in looked_at:
                return True
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in BY_NAME and id(node) not in looked_at:
                return True
    return False


def only_looked_at(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions whose value is shown or compared, and goes nowhere else."""
    for node in ast.walk(statement):
        match node:
            case ast.Compare(left=left, comparators=others):
                yield from (left, *others)
            case ast.Expr(value=value) | ast.FormattedValue(value=value) | ast.If(test=value):
                yield value
            case ast.Call(func=ast.Name(id=name), args=args) if name in SHOWS:
                yield from args
            case ast.Call(ast.Attribute(attr=attr) | ast.Name(id=attr), keywords=named) if attr in TAKES_TEXTS:
                yield from (keyword.value for keyword in named if keyword.arg == "globals")
            case ast.Attribute(value=value, attr=attr) if attr in LOOKS:
                yield value
            case ast.Attribute(value=value, attr=attr) if attr in LOOKS_AT_ONE and is_of_one(value):
                yield value
            case ast.Subscript(value=value, ctx=ast.Load()) if is_of_one(value):
                yield value


def is_of_one(value: ast.expr) -> bool:
    """Whether these are the attributes of one object that the source names: vars(x), x.__dict__."""
    match value:
        case ast.Call(func=ast.Name(id="vars"), args=[_]) | ast.Attribute(attr="__dict__"):
            return True
    return False


@functools.lru_cache(maxsize=8192)
def files_named(statement: ast.stmt) -> frozenset[str]:
    """The modules whose files a statement names, unless it is a magic: what that writes is read."""
    found = set()
    to_visit: list[ast.AST] = [statement]
    while to_visit:
        node = to_visit.pop()
        match node:
            case ast.Call(ast.Attribute(attr=attr)) if attr in MAGICS:
                continue
            case ast.Constant(value=str() as text) if text.endswith(".py"):
                found.add(text.removesuffix(".py").rpartition("/")[2])
        to_visit += ast.iter_child_nodes(node)
    return frozenset(found)


def imports_everything(statement: ast.stmt) -> bool:
    """Whether it takes names out of torch without saying which, among them those of the answers."""
    return has_a_star(statement, below="torch.nn", without="torch.nn.functional")


def has_a_star(statement: ast.stmt, below: str = "torch", without: str = "") -> bool:
    """Whether it imports everything from a module below this one."""
    stars = [node for node in ast.walk(statement) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    return any((star.module or "").startswith(below) and star.module != without for star in stars)


def stars_in(statement: ast.stmt) -> Iterator[str]:
    """The modules out of which it imports everything."""
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield node.module or ""


@functools.lru_cache(maxsize=64)
def names_in_module(module: str) -> frozenset[str] | None:
    """What `from module import *` binds; None if nobody here knows.

    A student names the module, and to import one is to run it: that is done for modules of the course alone. Of others,
    those count that are imported anyway.
    """
    package = module.partition(".")[0]
    if package not in FAMILIAR_MODULES:
        return None
    if package == "course_lib" and not module.endswith("__main__"):
        with contextlib.suppress(ImportError):  # there is no such module
            importlib.import_module(module)
    members = vars(sys.modules[module]) if module in sys.modules else {}
    return frozenset(members.get("__all__", [name for name in members if not name.startswith("_")]))


def names_out_of_the_course(statement: ast.stmt) -> frozenset[str]:
    """The names that it imports from a module of the course without saying them."""
    modules = [module for module in stars_in(statement) if module.startswith("course_lib")]
    return frozenset().union(*(names_in_module(module) or () for module in modules))


def names_from_stars(statements: Iterable[ast.stmt]) -> frozenset[str] | None:
    """The names that they import without saying them; None if that cannot be known."""
    found = [names_in_module(module) for module in {each for one in statements for each in stars_in(one)}]
    return None if None in found else frozenset().union(*(names or () for names in found))


@functools.lru_cache(maxsize=8192)
def names_handed_on(statement: ast.stmt) -> frozenset[str]:
    """The names whose objects it passes on, or gives another name, instead of calling them. Of torch's modules: those
    that it passes on as a whole."""
    used = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
    used |= {id(node.value) for node in ast.walk(statement) if isinstance(node, ast.Attribute) and is_of_torch(node)}
    found = set()
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if id(node) not in used:
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(ast.Name(id=name), "nn"), attr=attr):
                if attr in BELOW_TORCH and name in MODULES_OF_TORCH and id(node) not in used:
                    found.add(name)
    return frozenset(found)


def is_of_torch(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in MODULES_OF_TORCH


def is_used_while_defined(name: str, statement: ast.stmt) -> bool:
    """Whether a definition reads this name before it is done: as a base, in a decorator, in the body of the class."""
    to_visit: list[ast.AST] = [statement]
    while to_visit:
        node = to_visit.pop()
        if isinstance(node, ast.Name) and node.id == name:
            return True
        later = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
        to_visit += [child for child in ast.iter_child_nodes(node) if child not in later]
    return False
