"""The ways in which students pack the same parameters of multi-head attention.

Four Linears, one matrix for q, k and v, a list with one Linear per head, a tensor for einsum: all hold the same numbers
in another order. A check has one set of numbers and wants to know whether there is an order under which the
student's module is the reference. `packings` yields the orders that fit the shapes, the most natural one first.

The numbers are kept with one axis for each thing that can be ordered:

    r  role (query, key, value)        h  head        k  feature of a head        m  feature of the model

and a *layout* says how the axes are arranged in a parameter: ("rhk", "m") is one (3 · d_model, d_model) matrix in
which all of the query comes first and in it head 0; ("h", "m", "k") is a tensor of shape (head, d_model, d_k).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, permutations, product

import torch
from torch import Tensor

from .bench import NotAttempted, StudentError
from .expect import is_close
from .inputs import normal
from .subject import Built

Layout = tuple[str, ...]
Shape = tuple[int, ...]

MOST_CANDIDATES = 60
INPUT_ROLES = ("q", "k", "v")
ROLES = (*INPUT_ROLES, "o")


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """One set of numbers for multi-head attention. Matrices as in nn.Linear: (out, in)."""

    matrices: Mapping[str, Tensor]  # role -> (d_model, d_model)
    biases: Mapping[str, Tensor]  # role -> (d_model,)
    num_heads: int

    @classmethod
    def random(cls, d_model: int, num_heads: int, seed: int = 0) -> AttentionWeights:
        """Numbers of a size that leaves the softmax unsaturated, the same on every machine."""
        scale = 1.5 / math.sqrt(d_model)
        matrices = {r: normal(d_model, d_model, seed=seed + i, scale=scale) for i, r in enumerate(ROLES)}
        biases = {r: normal(d_model, seed=seed + 10 + i, scale=0.5) for i, r in enumerate(ROLES)}
        return cls(matrices, biases, num_heads)

    @property
    def d_model(self) -> int:
        return self.matrices["q"].shape[0]

    def named(self) -> dict[str, Tensor]:
        """As the state of a module with four Linears w_q, w_k, w_v, w_o."""
        matrices = {f"w_{role}.weight": tensor for role, tensor in self.matrices.items()}
        return matrices | {f"w_{role}.bias": tensor for role, tensor in self.biases.items()}

    def matrix(self, roles: Sequence[str], layout: Layout) -> Tensor:
        """The matrices of these roles in this layout."""
        if tuple(roles) == ("o",):  # its features of a head come in, those of the model go out
            return arranged(self.matrices["o"].unflatten(1, (self.num_heads, -1)), "mhk", layout)
        stacked = torch.stack([self.matrices[role].unflatten(0, (self.num_heads, -1)) for role in roles])
        return arranged(stacked, "rhkm", layout) if len(roles) > 1 else arranged(stacked[0], "hkm", layout)

    def bias(self, roles: Sequence[str], layout: Layout) -> Tensor:
        """The biases of these roles, in the order in which the layout of their matrices has them."""
        if tuple(roles) == ("o",):
            return self.biases["o"]
        stacked = torch.stack([self.biases[role].unflatten(0, (self.num_heads, -1)) for role in roles])
        order = "".join(layout).replace("m", "")
        return arranged(stacked, "rhk", (order,)) if len(roles) > 1 else arranged(stacked[0], "hk", (order,))


def arranged(tensor: Tensor, axes: str, layout: Layout) -> Tensor:
    """The tensor, whose axes are named, with its axes in the order of the layout and its groups flattened."""
    tensor = tensor.permute([axes.index(axis) for axis in "".join(layout)])
    sizes = dict(zip("".join(layout), tensor.shape, strict=True))
    return tensor.reshape([math.prod(sizes[axis] for axis in group) for group in layout])


# --- the student's parameters ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """A parameter, or a list of equal parameters with one member per head, that is to be filled."""

    names: tuple[str, ...]
    shape: Shape  # of the parameter; with a leading axis for the heads if there is one parameter per head
    is_linear: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def label(self) -> str:
        return re.sub(r"\d+", "#", self.names[0])

    def filled(self, tensor: Tensor, original: Mapping[str, Shape]) -> dict[str, Tensor]:
        parts = tensor.unbind(0) if len(self.names) > 1 else [tensor]
        return {name: part.reshape(original[name]) for name, part in zip(self.names, parts, strict=True)}


def readings_of(shapes: Mapping[str, Shape], d_model: int, num_heads: int) -> list[list[Slot]]:
    """The slots, and with three heads perhaps once more: of lists in a list, either the inner or the outer ones may
    be the heads.
    """
    first, second = (slots_of(shapes, d_model, num_heads, innermost) for innermost in (False, True))
    return [first] if first == second else [first, second]


def slots_of(shapes: Mapping[str, Shape], d_model: int, num_heads: int, innermost: bool = False) -> list[Slot]:
    """The parameters in their order; those with one per head are put together."""
    families: dict[tuple[str, Shape], list[str]] = {}
    for name, shape in shapes.items():
        families.setdefault((re.sub(r"\d+", "#", name), shape), []).append(name)
    slots = []
    for (label, shape), names in families.items():
        squeezed = tuple(length for length in shape if length != 1)
        if is_of_one_head(squeezed, d_model, num_heads):
            lists = lists_of_heads(names, num_heads, innermost)
            slots += [Slot(tuple(heads), (num_heads, *squeezed), label.endswith(".weight")) for heads in lists]
        else:
            slots += [Slot((name,), squeezed, label.endswith(".weight")) for name in names]
    return sorted(slots, key=lambda slot: list(shapes).index(slot.names[0]))


def is_of_one_head(shape: Shape, d_model: int, num_heads: int) -> bool:
    """Whether a parameter of this shape belongs to a single head: not a whole matrix, nor a whole bias."""
    size = math.prod(shape)
    whole = {n * unit for n in (1, 2, 3) for unit in (d_model, d_model * d_model)}
    is_part_of_a_matrix = len(shape) > 1 and d_model in shape and size < d_model * d_model
    return (is_part_of_a_matrix or size not in whole) and size * num_heads in whole


def lists_of_heads(names: Sequence[str], num_heads: int, innermost: bool) -> list[list[str]]:
    """Names that differ in their numbers, as lists with one name per head; each name by itself if there are none.

    In `heads.2.0.weight` and `maps.0.2.weight`, one of the numbers counts the heads and the other one the roles.
    """
    if len(names) == num_heads:
        return [list(names)]
    numbers = [tuple(re.findall(r"\d+", name)) for name in names]
    places = range(len(numbers[0]))
    for place in reversed(places) if innermost else places:
        lists: dict[tuple[str, ...], list[str]] = {}
        for name, indices in zip(names, numbers, strict=True):
            lists.setdefault((*indices[:place], *indices[place + 1 :]), []).append(name)
        if all(len(heads) == num_heads for heads in lists.values()):
            return list(lists.values())
    return [[name] for name in names]


AFFIXES = re.compile(
    r"^(w|to|fc|lin|linear|proj|project|in|b|bias|weight|weights|mat|matrix|layer|all|the|multi|head|heads|attn|attention)+|"
    r"(w|fc|lin|linear|proj|projection|net|layer|weight|weights|bias|mat|matrix|transform|heads|head)+$"
)
ROLE_WORDS = {
    "q": {"q", "qs", "query", "queries"},
    "k": {"k", "ks", "key", "keys"},
    "v": {"v", "vs", "val", "vals", "value", "values"},
    "o": {"o", "out", "output", "unify", "merge", "combine", "final", "concat", "mix", "last"},
}


def role_of(label: str) -> str | None:
    """The role that a parameter's name speaks of, if it does."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", ".", label).lower()
    for word in re.split(r"[^a-z]+", words):
        bare = AFFIXES.sub("", word)
        for role, known in ROLE_WORDS.items():
            if word in known or bare in known:
                return role
    return None


def role_sets(sizes: Sequence[int], unit: int) -> list[tuple[str, ...]] | None:
    """The sets of roles that parameters of these sizes must hold between them, in the usual order."""
    match sorted(size / unit for size in sizes):
        case [1, 1, 1, 1]:
            return [(role,) for role in ROLES]
        case [1, 3]:
            return [INPUT_ROLES, ("o",)]
        case [1, 1, 2]:
            return [("q",), ("k", "v"), ("o",)]
        case [1, 1, 1]:  # without an output projection
            return [(role,) for role in INPUT_ROLES]
        case [3]:
            return [INPUT_ROLES]
    return None


def assignments(slots: Sequence[Slot], unit: int) -> Iterator[dict[Slot, tuple[str, ...]]]:
    """Which slot holds which roles: as the names say, else in every order that the sizes allow, the usual first."""
    sets = role_sets([slot.size for slot in slots], unit)
    if sets is None:
        return
    named = {slot: role_of(slot.label) for slot in slots if slot.size == unit}
    known = {slot: (role,) for slot, role in named.items() if role is not None and (role,) in sets}
    if len(set(known.values())) < len(known):  # two slots claim one role: the names are not about roles
        known = {}
    open_slots = [slot for slot in slots if slot not in known]
    open_sets = [roles for roles in sets if roles not in known.values()]
    for order in permutations(open_sets):
        if all(slot.size == unit * len(roles) for slot, roles in zip(open_slots, order, strict=True)):
            held = {**known, **dict(zip(open_slots, order, strict=True))}
            yield {slot: held[slot] for slot in slots}


# --- layouts --------------------------------------------------------------------------------------------


def layouts_for(slot: Slot, roles: Sequence[str], sizes: Mapping[str, int]) -> list[Layout]:
    """The layouts that fit a slot's shape, the most natural first."""
    every: list[Layout]
    if len(roles) > 1:
        orders = ["rhk", "hrk", "krh", "hkr", "rkh", "khr"]
        every = [layout for order in orders for layout in ((order, "m"), ("m", order))]
        every += [("r", "hk", "m"), ("r", "m", "hk"), ("m", "r", "hk")]
        every += [("h", "rk", "m"), ("h", "m", "rk"), ("m", "h", "rk")]
        every += permutations("rhkm")
    elif tuple(roles) == ("o",):
        every = [("hk", "m"), ("m", "hk"), *permutations("hkm")]
    else:
        every = [("m", "hk"), ("hk", "m"), *permutations("hkm")]
    if slot.is_linear and len(slot.names) == 1:  # (out, in), as in nn.Linear
        every = [layout for layout in every if ("m" in layout[0]) == (tuple(roles) == ("o",))]
    sizes = {**sizes, "r": len(roles)}
    fitting = [layout for layout in every if shape_of(layout, sizes) == slot.shape]
    if len(slot.names) > 1:
        fitting = [layout for layout in fitting if layout[0] == "h"]
    return fitting


def shape_of(layout: Layout, sizes: Mapping[str, int]) -> Shape:
    return tuple(math.prod(sizes[axis] for axis in group) for group in layout)


def packings(shapes: Mapping[str, Shape], weights: AttentionWeights) -> list[dict[str, Tensor]]:
    """The states of a module with parameters of these shapes that hold these numbers, the most natural one first."""
    return packings_of(tuple(shapes.items()), weights)


@functools.lru_cache(maxsize=64)
def packings_of(named_shapes: tuple[tuple[str, Shape], ...], weights: AttentionWeights) -> list[dict[str, Tensor]]:
    shapes = dict(named_shapes)
    d_model, num_heads = weights.d_model, weights.num_heads
    sizes = {"h": num_heads, "k": d_model // num_heads, "m": d_model}
    found = (
        states(
            shapes,
            weights,
            [s for s in slots if s.size >= d_model**2],
            [s for s in slots if s.size < d_model**2],
            sizes,
        )
        for slots in readings_of(shapes, d_model, num_heads)
    )
    return list(islice(chain.from_iterable(found), MOST_CANDIDATES))


def states(
    shapes: Mapping[str, Shape],
    weights: AttentionWeights,
    matrices: Sequence[Slot],
    biases: Sequence[Slot],
    sizes: Mapping[str, int],
) -> Iterator[dict[str, Tensor]]:
    d_model = sizes["m"]
    for held in assignments(matrices, d_model * d_model):
        choices = [layouts_for(slot, roles, sizes) for slot, roles in held.items()]
        for chosen in product(*choices):
            if not consistent(held, chosen):
                continue
            state: dict[str, Tensor] = {}
            layouts = dict(zip(held.values(), chosen, strict=True))
            for (slot, roles), layout in zip(held.items(), chosen, strict=True):
                state |= slot.filled(weights.matrix(roles, layout), shapes)
            for slot, roles in bias_roles(biases, held, d_model).items():
                usual = ("rhk", "m") if len(roles) > 1 else ("hk", "m")
                tensor = weights.bias(roles, layouts.get(roles, usual))
                state |= slot.filled(tensor.reshape(len(slot.names), -1).squeeze(0), shapes)
            if state.keys() == shapes.keys():
                yield state


def consistent(held: Mapping[Slot, tuple[str, ...]], chosen: Sequence[Layout]) -> bool:
    """Nobody writes the query's matrix one way and the key's, of the same shape, another way."""
    seen: dict[tuple[Shape, bool], Layout] = {}
    for (slot, roles), layout in zip(held.items(), chosen, strict=True):
        if seen.setdefault((slot.shape, roles == ("o",)), layout) != layout:
            return False
    return True


def bias_roles(
    biases: Sequence[Slot], held: Mapping[Slot, tuple[str, ...]], d_model: int
) -> dict[Slot, tuple[str, ...]]:
    """Which bias belongs to which roles: those of the matrix of the same name, else by its own name, else by order."""
    by_label = {matrix.label.replace("weight", "").replace("bias", ""): roles for matrix, roles in held.items()}
    by_module = {matrix.names[0].rpartition(".weight")[0]: roles for matrix, roles in held.items() if matrix.is_linear}
    found: dict[Slot, tuple[str, ...]] = {}
    for slot in biases:
        roles = by_module.get(slot.names[0].rpartition(".bias")[0])
        roles = roles or by_label.get(slot.label.replace("weight", "").replace("bias", ""))
        if roles and slot.size == d_model * len(roles):
            found[slot] = roles
    if len(found) < len(biases):
        found = next(assignments(biases, d_model), found)
    return found


# --- loading --------------------------------------------------------------------------------------------


def load_weights(built: Built, weights: AttentionWeights, args: Sequence[object], want: Tensor) -> bool:
    """Load the packing under which the module answers `want` to `args`; if there is none, the most natural one.

    Returns False if the shapes fit no known packing; then the parameters hold other numbers.
    """
    shapes = {name: tuple(shape) for name, shape in built.shapes().items()}
    candidates = packings(shapes, weights)
    if not candidates:
        built.load({n: normal(*shape, seed=i, scale=0.3) for i, (n, shape) in enumerate(shapes.items())})
        return False
    if len(candidates) > 1:
        for state in candidates:
            if answers_with(built, state, args, want):
                return True
    built.load(candidates[0])
    return True


def answers_with(built: Built, state: Mapping[str, Tensor], args: Sequence[object], want: Tensor) -> bool:
    """Whether the module, loaded with this state, gives the wanted output. Leaves no trace."""
    with built.unobserved():
        try:
            built.load(state)
            got = built(*args)
        except (StudentError, NotAttempted):
            return False
    output = got[0] if isinstance(got, tuple | list) and got else got
    return isinstance(output, Tensor) and is_close(output, want)
