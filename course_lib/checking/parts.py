"""Which of a student's parameters is which, in modules that are made of attentions, feed-forward networks and norms.

A check has numbers for every parameter of the reference, by name. If the student's module has the same names, they
are put there. If not (torch's own attention inside, other attribute names, a Sequential), the parameters are told
apart by their shapes, and `placements` yields every way to put the numbers that the shapes allow, the most natural
one first. A module is right if it is right under one of them.

Two kinds of module are known: a layer, and a stack of layers with perhaps a norm at its end.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product

from torch import Tensor

from .inputs import normal
from .weights import ROLES, AttentionWeights, packings

Shape = tuple[int, ...]
State = dict[str, Tensor]

MOST_PLACEMENTS = 150
BIAS_NAMES = ("bias", "beta", "b", "b_2", "b2", "shift", "offset")


@dataclass(frozen=True)
class Sizes:
    """What is needed to recognise a parameter by its shape."""

    d_model: int
    d_ff: int
    num_heads: int


def random_numbers(shapes: Mapping[str, Shape], seed: int = 0) -> State:
    """A number for every parameter of a reference: unsaturated, and no gain is 1 and no bias 0."""
    state = {}
    for i, (name, shape) in enumerate(shapes.items()):
        if len(shape) > 1:
            state[name] = normal(*shape, seed=seed + i, scale=1.5 / math.sqrt(shape[-1]))
        else:
            state[name] = normal(*shape, seed=seed + i, scale=0.4) + (1.0 if name.endswith("gain") else 0.0)
    return state


def placements(shapes: Mapping[str, Shape], wanted: Mapping[str, Tensor], sizes: Sizes) -> Iterator[State]:
    """The ways to put the wanted numbers into parameters of these names and shapes. None if nothing fits."""
    renamed = {standard_name(name): name for name in shapes}
    if all(name in renamed and shapes[renamed[name]] == tuple(tensor.shape) for name, tensor in wanted.items()):
        placed = {renamed[name]: tensor for name, tensor in wanted.items()}
        yield placed | unused(shapes, placed)
        return
    yield from islice(by_shape(shapes, wanted, sizes), MOST_PLACEMENTS)


@functools.cache
def standard_name(name: str) -> str:
    """nn.LayerNorm calls its gain `weight`; everything else in `norm_1` is called as in the course."""
    return re.sub(r"(^|\.)(norm\w*)\.(weight|gamma)$", r"\1\2.gain", name)


def unused(shapes: Mapping[str, Shape], placed: Mapping[str, Tensor]) -> State:
    """Numbers for parameters that the reference does not have: they should have no effect."""
    return {name: unused_numbers(shape) for name, shape in shapes.items() if name not in placed}


@functools.cache
def unused_numbers(shape: Shape) -> Tensor:
    return normal(*shape, seed=7, scale=0.5)


# --- by shape -------------------------------------------------------------------------------------------


def by_shape(shapes: Mapping[str, Shape], wanted: Mapping[str, Tensor], sizes: Sizes) -> Iterator[State]:
    """All layers in the same way; what belongs to no layer is the norm at the end."""
    mine, theirs = split_layers(shapes), split_layers(wanted)
    is_stack = len(theirs) > 1 or "" not in theirs
    if not is_stack:
        mine = {"": dict(shapes)}
    layers = [key for key in theirs if key or not is_stack]
    if sorted(key for key in mine if key or not is_stack) != sorted(layers):
        return
    end: State = {}
    if is_stack:
        norms = norm_modules(mine.get("", {}), sizes.d_model)
        if "norm.gain" in wanted:
            if len(norms) != 1:
                return
            end = dict(zip(norms[0], (wanted["norm.gain"], wanted["norm.bias"]), strict=True))
    choices = [list(islice(layer_placements(mine[key], theirs[key], sizes), MOST_PLACEMENTS)) for key in layers]
    for states in zip(*choices, strict=False):
        placed = end | {name: tensor for state in states for name, tensor in state.items()}
        yield placed | unused(shapes, placed)


def split_layers(named: Mapping[str, object]) -> dict[str, dict]:
    """The parameters of each layer of a stack: the first number in a name says which. Whole names are kept."""
    layers: dict[str, dict] = {}
    for name, value in named.items():
        found = re.match(r"\D*?\.(\d+)\.", name)
        layers.setdefault(found[1] if found else "", {})[name] = value
    return layers


def layer_placements(shapes: Mapping[str, Shape], wanted: Mapping[str, Tensor], sizes: Sizes) -> Iterator[State]:
    """The ways to put one layer's numbers into parameters of these shapes."""
    start = common_start(wanted)
    wanted = {name.removeprefix(start): tensor for name, tensor in wanted.items()}
    network = feed_forward_parts(shapes, sizes)
    if network is None:
        return
    state = {name: wanted[f"feed_forward.{part}"].reshape(shapes[name]) for part, name in network.items()}
    norms = [pair for pair in norm_modules(shapes, sizes.d_model) if not set(pair) & set(network.values())]
    known = set(network.values()) | {name for pair in norms for name in pair}
    norm_names = [name.removesuffix(".gain") for name in wanted if name.endswith(".gain")]
    attention_names = [name.removesuffix(".w_q.weight") for name in wanted if name.endswith(".w_q.weight")]
    attentions = split_attentions({n: s for n, s in shapes.items() if n not in known}, len(attention_names))
    if len(norms) != len(norm_names) or len(attentions) != len(attention_names):
        return
    all_weights = [attention_weights(wanted, name, sizes) for name in attention_names]
    orders = [
        zip(*(packings(part, weights) for part, weights in zip(order, all_weights, strict=True)), strict=False)
        for order in permutations(attentions)
    ]
    for packed in zip(*orders, strict=False):  # every order in one packing, then every order in the next
        for chosen, pairs in product(packed, permutations(norms)):
            filled = dict(state)
            for packing in chosen:
                filled |= packing
            for (gain, bias), name in zip(pairs, norm_names, strict=True):
                filled |= {gain: wanted[f"{name}.gain"], bias: wanted[f"{name}.bias"]}
            yield filled


def common_start(names: Mapping[str, object]) -> str:
    """The place of a layer in its stack: `layers.0.`, or nothing if it stands alone."""
    found = re.match(r"\D*?\.\d+\.", next(iter(names)))
    return found[0] if found else ""


def attention_weights(wanted: Mapping[str, Tensor], name: str, sizes: Sizes) -> AttentionWeights:
    key = (name, *(id(wanted[f"{name}.w_{role}.weight"]) for role in ROLES))
    if key not in KEPT:
        matrices = {role: wanted[f"{name}.w_{role}.weight"] for role in ROLES}
        biases = {role: wanted[f"{name}.w_{role}.bias"] for role in ROLES}
        KEPT[key] = AttentionWeights(matrices, biases, sizes.num_heads)
    return KEPT[key]


KEPT: dict[tuple, AttentionWeights] = {}  # `packings` remembers its answers by the object it was asked with


def feed_forward_parts(shapes: Mapping[str, Shape], sizes: Sizes) -> dict[str, str] | None:
    """w_1.weight, w_1.bias, w_2.weight, w_2.bias -> name; two Linears or two convolutions of width 1."""
    wide, deep = sizes.d_ff, sizes.d_model
    found: dict[str, list[str]] = {"w_1.weight": [], "w_1.bias": [], "w_2.weight": [], "w_2.bias": []}
    for name, shape in shapes.items():
        bare = shape[:-1] if len(shape) == 3 and shape[-1] == 1 else shape
        for part, wanted in (("w_1.weight", (wide, deep)), ("w_2.weight", (deep, wide)), ("w_1.bias", (wide,))):
            if bare == wanted:
                found[part].append(name)
                if part == "w_2.weight" and shapes.get(sibling(name)) == (deep,):
                    found["w_2.bias"].append(sibling(name))
    if any(len(names) != 1 for names in found.values()):
        return None
    return {part: names[0] for part, names in found.items()}


def sibling(name: str) -> str:
    """The bias that belongs to a weight."""
    return re.sub(r"weight$", "bias", name)


def norm_modules(shapes: Mapping[str, Shape], d_model: int) -> list[tuple[str, str]]:
    """(gain, bias) of each module that holds two vectors of d_model numbers and nothing else."""
    modules: dict[str, list[str]] = {}
    for name in shapes:
        modules.setdefault(name.rpartition(".")[0], []).append(name)
    pairs = []
    for names in modules.values():
        if len(names) == 2 and all(tuple(shapes[name]) == (d_model,) for name in names):
            first, second = names
            backwards = first.rpartition(".")[2].lower() in BIAS_NAMES
            pairs.append((second, first) if backwards else (first, second))
    return pairs


def split_attentions(shapes: Mapping[str, Shape], count: int) -> list[dict[str, Shape]]:
    """The parameters of each attention: all if there is one, else those whose names begin alike."""
    if count == 1:
        return [dict(shapes)] if shapes else []
    start = common_start(shapes) if shapes else ""
    groups: dict[str, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        groups.setdefault(name.removeprefix(start).partition(".")[0], {})[name] = shape
    return list(groups.values()) if len(groups) == count else halves(shapes, count)


def halves(shapes: Mapping[str, Shape], count: int) -> list[dict[str, Shape]]:
    """The parameters in their order, cut into equal parts."""
    names: Sequence[str] = list(shapes)
    if not names or len(names) % count:
        return []
    size = len(names) // count
    return [{name: shapes[name] for name in names[i * size : (i + 1) * size]} for i in range(count)]
