"""Which statements may set an attribute of something that an answer uses: of its class, of a module of torch's?

Tests of one's own set attributes too: `x.requires_grad = True`, `mine.gain.data = torchs.weight.data`. Such a statement
is harmless if what it sets is certainly a number or a tensor, or if it certainly sets it on a tensor or a module that
was just made.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from autograder.judging.needed import root_of
from autograder.judging.statements import CHANGES_AN_ATTRIBUTE

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
TENSOR, MODULE, OWN = "a tensor", "a module of torch's", "an instance of the answer"
IMPORTED = ast.alias("*")  # stands for what is bound by an import
FACTORIES = frozenset(
    [
        *("tensor", "as_tensor", "zeros", "ones", "full", "empty", "eye", "arange", "linspace", "rand", "randn"),
        *("randint", "randperm", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
    ]
)
OF_TENSORS = frozenset(["data", "grad", "weight", "bias", "gain", "gamma", "beta", "scale", "shift", "eps", "mT", "T"])
GIVES_ITSELF = frozenset(["eval", "train", "to", "double", "float", "half", "requires_grad_", "cuda", "cpu"])
GIVES_A_TENSOR = GIVES_ITSELF | {"clone", "detach", "reshape", "view", "expand", "contiguous"}

Values = dict[str, list[ast.AST | None]]


@dataclass
class Objects:
    """What names stand for, as far as that is certain: at the top level, and inside a function."""

    answer: str
    values: Values  # of each name: all that it is ever bound to; None where that does not stand there
    arguments: frozenset[str] = frozenset()
    selves: frozenset[str] = frozenset()  # the first arguments of methods
    outside: Objects | None = None
    kinds: dict[str, str | None] = field(default_factory=dict)

    def inside(self, function: FUNCTIONS, is_method: bool) -> Objects:
        own = frozenset(each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg))
        body = [function.body] if isinstance(function, ast.Lambda) else function.body
        selves = frozenset([each.arg for each in function.args.args[:1]] if is_method else [])
        return Objects(self.answer, bound_in(body), self.arguments | own, self.selves - own | selves, self)

    def kind(self, name: str) -> str | None:
        """What all values of a name are, if they are the same."""
        if name in self.arguments:
            return None
        if name not in self.values:
            return None if self.outside is None else self.outside.kind(name)
        if name not in self.kinds:
            self.kinds[name] = None  # for whoever asks meanwhile
            found = {self.kind_of(value) for value in self.values[name]}
            self.kinds[name] = found.pop() if len(found) == 1 else None
        return self.kinds[name]

    def is_inside(self, target: ast.expr) -> bool:
        """Whether what is set lies in a tensor or in a module that was just made, and not in what that holds."""
        holder = target.value if isinstance(target, ast.Attribute) else target
        while isinstance(holder, ast.Attribute) and holder.attr in OF_TENSORS:
            holder = holder.value
        return isinstance(holder, ast.Name) and self.kind(holder.id) in (TENSOR, MODULE) and is_plain(target)

    def is_torchs(self, name: str) -> bool:
        """Whether `torch` or `nn` is what the notebook imports under this name."""
        if name in self.arguments or any(value is not IMPORTED for value in self.values.get(name, ())):
            return False
        return self.outside is None or self.outside.is_torchs(name)

    def kind_of(self, value: ast.AST | None) -> str | None:
        match value:
            case ast.Name(id=name):
                return self.kind(name)
            case ast.Call(func=ast.Name(id=name)) if name == self.answer and name not in self.arguments:
                return OWN
            case ast.Call(func=ast.Attribute(value=made, attr=attr)) if attr in GIVES_ITSELF:
                return self.kind_of(made)
            case ast.Call(func=ast.Attribute(value=place, attr=attr)) if self.is_torchs(root_of(place)):
                match place:
                    case ast.Name(id="torch"):
                        return TENSOR if attr in FACTORIES else None
                    case ast.Name(id="nn") | ast.Attribute(ast.Name(id="torch"), "nn"):
                        return TENSOR if attr == "Parameter" else MODULE if attr[:1].isupper() else None
        return None

    def is_number(self, value: ast.AST | None) -> bool:
        """Whether an expression is certainly a number, a text or a tensor."""
        match value:
            case ast.Constant():
                return True
            case ast.UnaryOp(operand=operand):
                return self.is_number(operand)
            case ast.BinOp(left=left, right=right):
                return self.is_number(left) and self.is_number(right)
            case ast.Subscript(value=inner):
                return self.is_number(inner)
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in GIVES_A_TENSOR:
                return self.is_number(inner)
            case ast.Attribute(attr=attr) if attr in OF_TENSORS and is_plain(value):
                return self.kind(root_of(value)) is not None
        return self.kind_of(value) == TENSOR


def is_plain(chain: ast.AST) -> bool:
    """Whether nothing in `x.a[0].b` leads to the class of an object."""
    return not any(isinstance(node, ast.Attribute) and node.attr.startswith("__") for node in ast.walk(chain))


def may_set_attributes(statement: ast.stmt, objects: Objects, of_arguments: bool = False) -> bool:
    """Whether a statement may set an attribute to more than a number, of something that it has not made itself.

    of_arguments: whether those of arguments count, except what a method sets of its own object.
    """
    try:
        return sets_attributes(statement, objects, of_arguments)
    except RecursionError:  # a very long formula
        return True


def sets_attributes(statement: ast.stmt, objects: Objects, of_arguments: bool) -> bool:
    to_visit: list[tuple[ast.AST, Objects, bool]] = [(statement, objects, False)]
    while to_visit:
        node, known, in_class = to_visit.pop()
        for target, value in attributes_set(node):
            root = root_of(target)
            is_argument = root in known.arguments and is_plain(target)
            is_own = is_argument and (not of_arguments or root in known.selves)
            if not (is_own or known.is_inside(target)) and not known.is_number(value):
                return True
        inner = known.inside(node, in_class) if isinstance(node, FUNCTIONS) else known
        to_visit += [(child, inner, isinstance(node, ast.ClassDef)) for child in ast.iter_child_nodes(node)]
    return False


def attributes_set(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The attributes that this node sets by itself, and to what; None where that does not stand there."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from ((part, own) for part, own in parts(target, value) if isinstance(part, ast.Attribute))
        case ast.AugAssign(target=ast.Attribute() as target, value=value):
            yield target, value
        case ast.AnnAssign(target=ast.Attribute() as target, value=value) if value is not None:
            yield target, value
        case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
            yield from ((part, None) for part, _ in parts(target, None) if isinstance(part, ast.Attribute))
        case ast.withitem(optional_vars=ast.expr() as target):
            yield from ((part, None) for part, _ in parts(target, None) if isinstance(part, ast.Attribute))
        case ast.Delete(targets=targets):
            yield from ((target, None) for target in targets if isinstance(target, ast.Attribute))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in CHANGES_AN_ATTRIBUTE:
            is_set = len(args) == 3 and isinstance(args[1], ast.Constant) and name == "setattr"
            yield (args[0], args[2]) if is_set else (node, None)


def parts(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets in a, b = c, d, and what each is set to."""
    if isinstance(target, ast.Starred):
        yield from parts(target.value, None)
    elif isinstance(target, ast.Tuple | ast.List):
        each = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else []
        is_clear = bool(each) and not any(isinstance(one, ast.Starred) for one in [*each, *target.elts])
        for place, inner in enumerate(target.elts):
            yield from parts(inner, each[place] if is_clear else None)
    else:
        yield target, value


def bound_in(body: Iterable[ast.AST]) -> Values:
    """What names are bound to here, but not in the functions and classes in between."""
    found: Values = defaultdict(list)
    seen: set[int] = set()
    to_visit = list(body)
    while to_visit:
        node = to_visit.pop()
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        match node:
            case ast.Assign(targets=targets, value=value):
                pairs = [pair for target in targets for pair in parts(target, value)]
            case ast.AnnAssign(target=target, value=value) if value is not None:
                pairs = [(target, value)]
        for place, own in pairs:
            if isinstance(place, ast.Name):
                found[place.id].append(own)
                seen.add(id(place))
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if id(node) not in seen:
                found[name].append(None)
            case ast.alias(name=name, asname=asname):
                found[asname or name.partition(".")[0]].append(IMPORTED)
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                found[name].append(None)
            case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
                found[name].append(None)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name].append(None)
                to_visit += [node for node in ast.walk(node) if isinstance(node, ast.Global | ast.Nonlocal)]
                continue
            case ast.Lambda():
                continue
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    found[name].append(None)
        to_visit += ast.iter_child_nodes(node)
    return dict(found)
