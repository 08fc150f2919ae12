"""Small changes of a program: each is one place of its syntax tree, what takes its place, and what that means.

The words complete "Your result is exactly what comes out if …". They say what was done and never what to write.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Change:
    """`node` becomes `replacement`; None takes a statement out."""

    kind: str
    node: ast.AST
    replacement: ast.AST | None
    words: str


@dataclass
class Place:
    """Where a node is: its statement, what that makes, and the names that are known there."""

    statement: ast.stmt
    makes: str
    names: Sequence[str] = ()
    layers: Sequence[str] = ()  # attributes of self that are layers of one kind
    defaults: dict[str, ast.expr] = field(default_factory=dict)
    axes: set[int] = field(default_factory=set)  # ids of the constants that name an axis

    @property
    def where(self) -> str:
        return f"where {self.makes} is computed" if self.makes else "in one of the steps"


Rule = Callable[[Any, Place], Iterator[Change]]
RULES: list[tuple[type[ast.AST], Rule]] = []


def rule(kind: type[ast.AST]) -> Callable[[Rule], Rule]:
    """Decorator: these changes can be made to nodes of this kind."""

    def register(function: Rule) -> Rule:
        RULES.append((kind, function))
        return function

    return register


def changes_of(node: ast.AST, place: Place) -> Iterator[Change]:
    """All changes that the rules know for one node."""
    for kind, function in RULES:
        if isinstance(node, kind):
            yield from function(node, place)


# --- axes and lengths -----------------------------------------------------------------------------------------------

REDUCTIONS = {
    "softmax", "log_softmax", "sum", "mean", "max", "min", "amax", "amin", "argmax", "any", "all", "cumsum", "var",
    "std", "sort", "topk", "logsumexp",
}  # fmt: skip
WITH_AXES = REDUCTIONS | {"unsqueeze", "squeeze", "cat", "stack", "repeat_interleave", "gather", "flatten", "size"}
AXES = (-1, -2, 0, 1, 2)


@rule(ast.Call)
def another_axis(node: ast.Call, place: Place) -> Iterator[Change]:
    name = name_of_call(node)
    for constant in axes_in(node):
        for axis in AXES:
            if axis != constant.value:
                words = f"`{name}` runs over" if name in REDUCTIONS else f"`{name}` works on"
                yield Change("axis", constant, ast.Constant(axis), f"{words} axis {axis} {place.where}")


@rule(ast.Call)
def other_axes_swapped(node: ast.Call, place: Place) -> Iterator[Change]:
    if name_of_call(node) != "transpose" or len(node.args) != 2:
        return
    for pair in ((-2, -1), (0, 1), (1, 2), (0, -1), (1, -1)):
        swapped = with_args(node, [ast.Constant(axis) for axis in pair])
        if ast.unparse(swapped) != ast.unparse(node):
            yield Change("axis", node, swapped, f"axes {pair[0]} and {pair[1]} are swapped {place.where}")


@rule(ast.Subscript)
def length_of_another_axis(node: ast.Subscript, place: Place) -> Iterator[Change]:
    if not (isinstance(node.value, ast.Attribute) and node.value.attr == "shape"):
        return
    if isinstance(node.slice, ast.Constant):
        for axis in AXES:
            if node.slice.value != axis:
                words = f"the length of axis {axis} of `{ast.unparse(node.value.value)}` is taken {place.where}"
                yield Change("size", node.slice, ast.Constant(axis), words)
        for name, axis in itertools.product(place.names, (-1, -2)):
            other = ast.Subscript(ast.Attribute(ast.Name(name, ast.Load()), "shape", ast.Load()), ast.Constant(axis))
            words = f"the length of axis {axis} of `{name}` is taken {place.where}"
            yield Change("size", node, other, words)


@rule(ast.Tuple)
def names_exchanged(node: ast.Tuple, place: Place) -> Iterator[Change]:
    """In `batch, time, d_model = x.shape`, or `q, k = …`."""
    if not isinstance(node.ctx, ast.Store):
        return
    for i in range(len(node.elts) - 1):
        elements = list(node.elts)
        elements[i], elements[i + 1] = elements[i + 1], elements[i]
        words = f"`{ast.unparse(elements[i + 1])}` and `{ast.unparse(elements[i])}` have changed places"
        yield Change("exchanged", node, ast.Tuple(elements, node.ctx), words)


# --- arithmetic -----------------------------------------------------------------------------------------------------

OTHER_OPERATORS: dict[type[ast.operator], list[tuple[type[ast.operator], str]]] = {
    ast.Add: [(ast.Sub, "subtracted instead of added"), (ast.Mult, "multiplied instead of added")],
    ast.Sub: [(ast.Add, "added instead of subtracted")],
    ast.Mult: [(ast.Div, "divided instead of multiplied"), (ast.Add, "added instead of multiplied")],
    ast.Div: [(ast.Mult, "multiplied instead of divided"), (ast.FloorDiv, "rounded down after a division")],
    ast.FloorDiv: [(ast.Mod, "replaced by the remainder of a division")],
    ast.Pow: [(ast.Mult, "multiplied instead of raised to a power")],
    ast.MatMult: [(ast.Mult, "multiplied element by element")],
    ast.BitAnd: [(ast.BitOr, "joined by or")],
    ast.BitOr: [(ast.BitAnd, "joined by and")],
}
LEFT_OUT = {
    ast.Add: "an addition", ast.Sub: "a subtraction", ast.Mult: "a multiplication", ast.Div: "a division",
    ast.Pow: "a power", ast.FloorDiv: "a division", ast.BitAnd: "one of two conditions",
    ast.BitOr: "one of two conditions", ast.MatMult: "a matrix product",
}  # fmt: skip


@rule(ast.BinOp)
def another_operator(node: ast.BinOp, place: Place) -> Iterator[Change]:
    for operator, words in OTHER_OPERATORS.get(type(node.op), []):
        changed = ast.BinOp(node.left, operator(), node.right)
        yield Change("operator", node, changed, f"something is {words} {place.where}")


@rule(ast.BinOp)
def operands_exchanged(node: ast.BinOp, place: Place) -> Iterator[Change]:
    if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
        words = f"the two sides of the {SIGNS[type(node.op)]} have changed places {place.where}"
        yield Change("exchanged", node, ast.BinOp(node.right, node.op, node.left), words)


SIGNS: dict[type[ast.operator], str] = {
    ast.Sub: "subtraction", ast.Div: "division", ast.MatMult: "matrix product", ast.Pow: "power",
}  # fmt: skip


@rule(ast.BinOp)
def one_side_alone(node: ast.BinOp, place: Place) -> Iterator[Change]:
    words = f"{LEFT_OUT.get(type(node.op), 'an operation')} is left out {place.where}"
    yield Change("dropped", node, node.left, words)
    if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr | ast.MatMult):
        yield Change("dropped", node, node.right, words)


@rule(ast.UnaryOp)
def without_the_sign(node: ast.UnaryOp, place: Place) -> Iterator[Change]:
    words = "the sign is the opposite one" if isinstance(node.op, ast.USub) else "the condition is inverted"
    yield Change("sign", node, node.operand, f"{words} {place.where}")


@rule(ast.Return)
def with_another_sign(node: ast.Return, place: Place) -> Iterator[Change]:
    if isinstance(node.value, ast.BinOp | ast.Name | ast.Call):
        negative = ast.Return(ast.UnaryOp(ast.USub(), node.value))
        yield Change("sign", node, negative, "the sign of the result is the opposite one")


@rule(ast.Constant)
def another_number(node: ast.Constant, place: Place) -> Iterator[Change]:
    if isinstance(node.value, bool):
        words = f"`{not node.value}` takes the place of `{node.value}` {place.where}"
        yield Change("constant", node, ast.Constant(not node.value), words)
    elif isinstance(node.value, int | float) and id(node) not in place.axes:
        for value in other_numbers(node.value):
            words = f"the number {value:g} takes the place of another number {place.where}"
            yield Change("constant", node, ast.Constant(value), words)


def other_numbers(value: float) -> list[float]:
    if isinstance(value, int):
        numbers: list[float] = [value + 1, value - 1, 2 * value, -value]
    else:
        numbers = [-value, 2 * value, value / 2, 1.0, 0.0]
    return [number for number in numbers if number != value]


@rule(ast.Compare)
def another_comparison(node: ast.Compare, place: Place) -> Iterator[Change]:
    others: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
        ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.LtE],
        ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq],
    }  # fmt: skip
    for operator in others.get(type(node.ops[0]), []):
        changed = ast.Compare(node.left, [operator()], node.comparators)
        words = f"the comparison is made with `{COMPARISONS[operator]}` {place.where}"
        yield Change("comparison", node, changed, words)


COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


# --- names ----------------------------------------------------------------------------------------------------------


@rule(ast.Name)
def another_name(node: ast.Name, place: Place) -> Iterator[Change]:
    if not isinstance(node.ctx, ast.Load) or node.id not in place.names:
        return
    for name in place.names:
        if name != node.id:
            words = f"`{name}` takes the place of another value {place.where}"
            yield Change("name", node, ast.Name(name, node.ctx), words)


@rule(ast.Attribute)
def another_layer(node: ast.Attribute, place: Place) -> Iterator[Change]:
    if isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == "self" and node.attr in place.layers:
        for name in place.layers:
            if name != node.attr:
                words = f"`{name}` takes the place of another layer {place.where}"
                yield Change("name", node, ast.Attribute(node.value, name, node.ctx), words)


@rule(ast.Name)
def default_instead(node: ast.Name, place: Place) -> Iterator[Change]:
    default = place.defaults.get(node.id)
    if isinstance(node.ctx, ast.Load) and default is not None:
        yield Change("default", node, default, f"`{node.id}` is ignored, and its default is used {place.where}")


# --- calls ----------------------------------------------------------------------------------------------------------

OTHER_FUNCTIONS: dict[str, Sequence[str]] = {
    "softmax": ("log_softmax", "sigmoid"), "log_softmax": ("softmax",), "sin": ("cos",), "cos": ("sin",),
    "tril": ("triu",), "triu": ("tril",), "any": ("all",), "all": ("any",), "mean": ("sum",), "sum": ("mean",),
    "max": ("min",), "min": ("max",), "amax": ("amin",), "argmax": ("argmin",), "exp": ("sigmoid",),
    "log": ("exp",), "sqrt": ("square", "log"), "relu": ("sigmoid", "tanh"), "ones": ("zeros",), "zeros": ("ones",),
    "ones_like": ("zeros_like",), "zeros_like": ("ones_like",), "rsqrt": ("sqrt",), "repeat_interleave": ("repeat",),
    "expand": ("repeat",), "reshape": ("view",), "cumsum": ("cumprod",), "train": ("eval",), "floor": ("ceil",),
}  # fmt: skip
IN_PLACE = {"masked_fill", "add", "sub", "mul", "div", "clamp", "pow", "exp", "relu", "sigmoid"}
NEVER_LEFT_OUT = {"super", "range", "len", "register_buffer", "isinstance", "arange", "full_like", "full", "int"}


@rule(ast.Call)
def another_function(node: ast.Call, place: Place) -> Iterator[Change]:
    for name in OTHER_FUNCTIONS.get(name_of_call(node), ()):
        words = f"`{name}` takes the place of `{name_of_call(node)}` {place.where}"
        renamed = copy.copy(node)
        if isinstance(node.func, ast.Attribute):
            renamed.func = ast.Attribute(node.func.value, name, node.func.ctx)
            keeps_options = name not in ("sigmoid", "square", "tanh")
            if not keeps_options:
                renamed.keywords, renamed.args = [], node.args if is_module(node.func.value) else []
            yield Change("function", node, renamed, words)
        elif isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            renamed.func = ast.Name(name, ast.Load())
            yield Change("function", node, renamed, words)


@rule(ast.Call)
def call_left_out(node: ast.Call, place: Place) -> Iterator[Change]:
    name = name_of_call(node)
    if name in NEVER_LEFT_OUT:
        return
    words = f"`{name}` is left out {place.where}"
    if isinstance(node.func, ast.Attribute) and not is_module(node.func.value) and not is_self(node.func.value):
        yield Change("dropped", node, node.func.value, words)
    elif node.args and not isinstance(node.args[0], ast.Starred):
        yield Change("dropped", node, node.args[0], words)


@rule(ast.Call)
def call_twice(node: ast.Call, place: Place) -> Iterator[Change]:
    name = name_of_call(node)
    if name in ("softmax", "log_softmax", "masked_softmax", "split_heads", "merge_heads", "norm", "dropout", "to"):
        return
    if isinstance(node.func, ast.Attribute) and is_self(node.func.value) and len(node.args) == 1:
        words = f"`{name}` is applied twice {place.where}"
        yield Change("twice", node, with_args(node, [node]), words)


@rule(ast.Call)
def arguments_exchanged(node: ast.Call, place: Place) -> Iterator[Change]:
    if any(id(constant) in place.axes for constant in node.args) or name_of_call(node) == "transpose":
        return
    for i in range(min(len(node.args), 3) - 1):
        args = list(node.args)
        args[i], args[i + 1] = args[i + 1], args[i]
        words = f"two arguments of `{name_of_call(node)}` have changed places {place.where}"
        yield Change("exchanged", node, with_args(node, args), words)


@rule(ast.Call)
def option_left_out(node: ast.Call, place: Place) -> Iterator[Change]:
    for keyword in node.keywords:
        shorter = copy.copy(node)
        shorter.keywords = [other for other in node.keywords if other is not keyword]
        words = f"`{name_of_call(node)}` is called without `{keyword.arg}` {place.where}"
        yield Change("option", node, shorter, words)


@rule(ast.Call)
def changed_in_place(node: ast.Call, place: Place) -> Iterator[Change]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in IN_PLACE and not is_module(node.func.value):
        changed = copy.copy(node)
        changed.func = ast.Attribute(node.func.value, node.func.attr + "_", node.func.ctx)
        words = f"`{node.func.attr}` changes its tensor in place {place.where}"
        yield Change("in place", node, changed, words)


# --- slices and loops -----------------------------------------------------------------------------------------------


@rule(ast.Call)
def another_range(node: ast.Call, place: Place) -> Iterator[Change]:
    if name_of_call(node) != "range":
        return
    start, stop = node.args[:2] if len(node.args) > 1 else [ast.Constant(0), node.args[0]]
    rest = node.args[2:]
    for words, first, last in (
        ("begins one turn too late", plus(start, 1), stop),
        ("ends one turn too early", start, plus(stop, -1)),
        ("makes one turn too many", start, plus(stop, 1)),
    ):
        yield Change("range", node, with_args(node, [first, last, *rest]), f"the loop {words} {place.where}")


@rule(ast.Slice)
def another_slice(node: ast.Slice, place: Place) -> Iterator[Change]:
    if node.lower is not None:
        yield Change("slice", node, ast.Slice(None, node.upper, node.step), f"the slice has no start {place.where}")
    if node.upper is not None:
        yield Change("slice", node, ast.Slice(node.lower, None, node.step), f"the slice has no end {place.where}")
        later = ast.Slice(node.lower, plus(node.upper, 1), node.step)
        yield Change("slice", node, later, f"the slice ends one place later {place.where}")


# --- statements -----------------------------------------------------------------------------------------------------


@rule(ast.Assign)
def step_left_out(node: ast.Assign, place: Place) -> Iterator[Change]:
    target = node.targets[0]
    if isinstance(target, ast.Name) and target.id in place.names:
        words = f"the step that computes `{target.id}` anew is left out, or its result is thrown away"
        yield Change("dropped", node, None, words)


@rule(ast.Expr)
def statement_left_out(node: ast.Expr, place: Place) -> Iterator[Change]:
    if isinstance(node.value, ast.Call):
        yield Change("dropped", node, None, f"the call of `{name_of_call(node.value)}` is left out")


@rule(ast.Assign)
def cut_off(node: ast.Assign, place: Place) -> Iterator[Change]:
    if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.BinOp | ast.Call):
        detached = ast.Assign(node.targets, method(node.value, "detach"))
        yield Change("detached", node, detached, f"the gradient is cut off {place.where}")


@rule(ast.Return)
def result_cut_off(node: ast.Return, place: Place) -> Iterator[Change]:
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    first = values[0]
    if isinstance(first, ast.BinOp | ast.Call | ast.Name):
        elements = [method(first, "detach"), *values[1:]]
        result = ast.Tuple(elements, ast.Load()) if len(elements) > 1 else elements[0]
        yield Change("detached", node, ast.Return(result), "the gradient is cut off at the result")


@rule(ast.Return)
def results_in_another_order(node: ast.Return, place: Place) -> Iterator[Change]:
    if isinstance(node.value, ast.Tuple):
        for i in range(len(node.value.elts) - 1):
            elements = list(node.value.elts)
            elements[i], elements[i + 1] = elements[i + 1], elements[i]
            yield Change(
                "exchanged",
                node,
                ast.Return(ast.Tuple(elements, ast.Load())),
                f"results {i + 1} and {i + 2} have changed places",
            )
        yield Change("dropped", node, ast.Return(node.value.elts[0]), "only the first of the results is returned")


@rule(ast.If)
def condition_ignored(node: ast.If, place: Place) -> Iterator[Change]:
    if any(isinstance(statement, ast.Raise) for statement in node.body):
        return  # a guard: what it refuses is never asked for
    for value in (True, False):
        fixed = ast.If(ast.Constant(value), node.body, node.orelse)
        words = f"what is decided by `{ast.unparse(node.test)}` is always done the {'first' if value else 'second'} way"
        yield Change("condition", node, fixed, words)


@rule(ast.IfExp)
def choice_ignored(node: ast.IfExp, place: Place) -> Iterator[Change]:
    for which, value in (("first", node.body), ("second", node.orelse)):
        words = f"what is decided by `{ast.unparse(node.test)}` is always done the {which} way {place.where}"
        yield Change("condition", node, value, words)


@rule(ast.FunctionDef)
def steps_exchanged(node: ast.FunctionDef, place: Place) -> Iterator[Change]:
    for i in range(len(node.body) - 2):
        first, second = node.body[i : i + 2]
        if isinstance(first, ast.Assign) and isinstance(second, ast.Assign) and depends_on(second, first):
            body = [*node.body[:i], second, first, *node.body[i + 2 :]]
            names = [f"`{ast.unparse(step.targets[0]).removeprefix('self.')}`" for step in (first, second)]
            swapped = copy.copy(node)
            swapped.body = body
            yield Change("moved", node, swapped, f"the steps that compute {names[0]} and {names[1]} change places")


def depends_on(later: ast.Assign, earlier: ast.Assign) -> bool:
    made = {node.id for target in earlier.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return any(isinstance(node, ast.Name) and node.id in made - {"self"} for node in ast.walk(later))


# --- building blocks ------------------------------------------------------------------------------------------------


def name_of_call(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def axes_in(node: ast.Call) -> list[ast.Constant]:
    """The constants of a call that name an axis, as `-1` in `x.sum(dim=-1)`."""
    named = [keyword.value for keyword in node.keywords if keyword.arg in ("dim", "axis")]
    if name_of_call(node) == "transpose":
        return []
    positional = node.args[-1:] if name_of_call(node) in WITH_AXES else []
    return [value for value in (*named, *positional) if isinstance(value, ast.Constant) and type(value.value) is int]


def is_module(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in ("torch", "nn", "F", "math")) or ast.unparse(node) == "nn.utils"


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def with_args(node: ast.Call, args: Sequence[ast.expr]) -> ast.Call:
    return ast.Call(node.func, list(args), node.keywords)


def method(value: ast.expr, name: str) -> ast.Call:
    return ast.Call(ast.Attribute(value, name, ast.Load()), [], [])


def plus(value: ast.expr, number: int) -> ast.expr:
    if isinstance(value, ast.Constant) and isinstance(value.value, int):
        return ast.Constant(value.value + number)
    return ast.BinOp(value, ast.Add() if number > 0 else ast.Sub(), ast.Constant(abs(number)))
