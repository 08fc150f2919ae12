"""The exercise `torch_state`: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
import re
import warnings

import torch
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, name_of_type
from course_lib.checking.inputs import normal
from course_lib.exercises.transformer.shared import numbers
from course_lib.masks import causal_mask
from course_lib.transformer import TORCH_NAMES, Transformer


@functools.cache
def course_state(num_layers, norm_first, d_model, d_ff):
    """The state dict of a whole `Transformer`, with numbers that tell every place apart."""
    return numbers(5, 7, d_model, 2, d_ff, num_layers, 0.0, norm_first, False, 0, 8)


MANY_LAYERS = 11  # the last one's number has two digits


torch_state = Exercise(
    reference.torch_state,
    cases=[
        {"state": dict(course_state(1, False, 4, 6))},
        {"state": dict(reversed(course_state(2, True, 6, 8).items()))},
        {"state": dict(course_state(MANY_LAYERS, False, 2, 3))},
    ],
    minutes=15,
    difficulty=2,
    hints=[
        "Walk through state.items(). Most entries need a new name and nothing else; some are left out; w_q, w_k "
        "and w_v "
        "of an attention become one entry.",
        "Do the three in one go when you meet a name with '.w_q.': its two companions are found by replacing "
        "that part of "
        "the name. Skip names with '.w_k.' or '.w_v.'.",
        "One below the other is torch.cat([q, k, v], dim=0). It serves the biases as well. '….w_q.weight' becomes "
        "'….in_proj_weight': there is no dot before weight.",
        "for ours, theirs in TORCH_NAMES.items(): name = name.replace(ours, theirs)",
    ],
)


def torch_transformer(d_model, num_heads, num_layers, d_ff, norm_first):
    with warnings.catch_warnings():  # about an optimisation that nobody asked for
        warnings.simplefilter("ignore")
        return nn.Transformer(
            d_model, num_heads, num_layers, num_layers, d_ff, 0.0, batch_first=True, norm_first=norm_first
        )


@functools.cache
def torch_shapes(num_layers, norm_first, d_model, d_ff):
    """name -> shape in an nn.Transformer of this size; the final norms are taken out in post-norm mode."""
    with torch.device("meta"):
        model = torch_transformer(d_model, 1, num_layers, d_ff, norm_first)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    return {n: s for n, s in shapes.items() if norm_first or n.partition(".")[2].partition(".")[0] != "norm"}


def wanted_shapes(case):
    state = case["state"]
    layers = 1 + max(int(part) for name in state for part in name.split(".") if part.isdigit())
    d_ff, d_model = state["encoder.layers.0.feed_forward.w_1.weight"].shape
    return torch_shapes(layers, "encoder.norm.gain" in state, d_model, d_ff)


def renamed_state(subject, case):
    """What the subject gives: a dict of tensors."""
    got = subject(case["state"])
    if got is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if not isinstance(got, dict):
        raise Failure(f"The result should be a dict from names to tensors, but it is {name_of_type(got)}.")
    strange = [name for name, value in got.items() if not isinstance(value, Tensor)]
    expect(not strange, f"The entry {strange[0] if strange else ''!r} of your result is not a tensor.")
    return got


@torch_state.property("the names are those of nn.Transformer, all of them and no others", points=1)
def state_names(subject, case):
    got, want = renamed_state(subject, case), wanted_shapes(case)
    extra = sorted(set(got) - set(want))
    missing = [name for name in want if name not in got]
    expect(
        not extra or not missing,
        f"nn.Transformer has no {extra[0] if extra else ''!r}, and it misses {missing[0] if missing else ''!r}.",
    )
    expect(not extra, f"nn.Transformer has no {extra[0] if extra else ''!r} ({len(extra)} names too many).")
    expect(not missing, f"nn.Transformer misses {missing[0] if missing else ''!r} ({len(missing)} names in all).")


@torch_state.property("in_proj holds W_Q, then W_K, then W_V, one below the other, and likewise their biases", points=1)
def state_packing(subject, case):
    got, want = renamed_state(subject, case), reference.torch_state(case["state"])
    for name, tensor in want.items():
        if "in_proj" in name:
            expect_close(got.get(name), tensor, f"the entry {name!r}")


@torch_state.property("every tensor has the shape that nn.Transformer wants", points=1)
def state_shapes(subject, case):
    got, want = renamed_state(subject, case), wanted_shapes(case)
    for name, shape in want.items():
        expect_floats(got.get(name), shape, f"the entry {name!r}")


@torch_state.property("everything else is where it belongs", points=1)
def state_values(subject, case):
    got, want = renamed_state(subject, case), reference.torch_state(case["state"])
    for name, tensor in want.items():
        expect_close(got.get(name), tensor, f"the entry {name!r}")


@torch_state.property("nn.Transformer with these weights computes what the Transformer computes", points=1)
def state_parity(subject, case):
    got = renamed_state(subject, case)
    if len(wanted_shapes(case)) > MOST_TENSORS:
        return  # every value has been compared; two deep models would take long to run
    ours, theirs, args, want = parity_partners(id(case), case)
    try:
        theirs.load_state_dict({name: tensor.double() for name, tensor in got.items()})
    except RuntimeError as error:
        raise Failure(f"nn.Transformer does not take this state: {str(error).splitlines()[-1].strip()}") from None
    with torch.no_grad():
        expect_close(theirs(*args, tgt_mask=~causal_mask(args[1].shape[1])), want, "the result of nn.Transformer")


MOST_TENSORS = 100
PARTNERS: dict = {}


def parity_partners(key, case):
    """Both models, inputs for them, and what the course's gives."""
    if PARTNERS.get(key, (None,))[0] is not case:
        state = case["state"]
        d_ff, d_model = state["encoder.layers.0.feed_forward.w_1.weight"].shape
        norm_first = "encoder.norm.gain" in state
        layers = 1 + max(int(part) for name in state for part in name.split(".") if part.isdigit())
        ours = Transformer(5, 7, d_model, 2, d_ff, layers, 0.0, norm_first, max_len=8).double().eval()
        ours.load_state_dict(state)
        theirs = torch_transformer(d_model, 2, layers, d_ff, norm_first)
        if not norm_first:
            theirs.encoder.norm = theirs.decoder.norm = None
        x, y = normal(2, 4, d_model, seed=1), normal(2, 3, d_model, seed=2)
        with torch.no_grad():
            want = ours.decoder(y, ours.encoder(x), causal_mask(3))
        PARTNERS[key] = (case, ours, theirs.double().eval(), (x, y), want)
    return PARTNERS[key][1:]


@torch_state.misconception
def keeps_the_tables(state):
    """nn.Transformer has no embeddings and no output layer: leave those of ours out."""
    result = {}
    for name, value in state.items():
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def packs_side_by_side(state):
    """You put the three matrices side by side. Rows are outputs in nn.Linear, so they go one below the other."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=-1)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def stacks_the_three(state):
    """You stacked the three along a new axis. Torch wants one long matrix: (3 · d_model, d_model)."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.stack([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def packs_keys_first(state):
    """Torch's order is query, key, value. You put the keys first."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([k, value, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def packs_values_before_keys(state):
    """Torch's order is query, key, value. Your keys and values are swapped."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, v, k], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def packs_the_query_alone(state):
    """Only the query's matrix arrives in in_proj. The key's and the value's belong below it."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def packs_the_query_three_times(state):
    """All three parts of your in_proj are the query's. Take each from its own entry of the state."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            value = torch.cat([value, value, value], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def transposes_the_matrices(state):
    """You transposed the matrices. Both models keep a matrix as (outputs, inputs): leave them as they are."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value.T if value.dim() == 2 else value
    return result


@torch_state.misconception
def transposes_before_packing(state):
    """You transposed W_Q, W_K and W_V before you put them together. Both models keep a matrix as (outputs, inputs)."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([part.T if part.dim() == 2 else part for part in (value, k, v)], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def puts_a_dot_into_in_proj(state):
    """The packed entries are called in_proj_weight and in_proj_bias: they are parameters of the attention itself, with
    no dot before the last word.
    """
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj.")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def keeps_the_three_beside_the_packed(state):
    """w_k and w_v are still there beside the packed entry. They are part of it now: leave them out."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def keeps_our_names(state):
    """Only the packed entries have torch's names. The others need them too: nn.Transformer does not know ours."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        result[name] = value
    return result


@torch_state.misconception
def forgets_the_decoder(state):
    """The decoder's stack is missing from your result."""
    result = {}
    for name, value in state.items():
        if not name.startswith("encoder."):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def forgets_the_final_norms(state):
    """The norms at the end of the two stacks are missing. They belong to the stacks, not to a layer."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.layers.", "decoder.layers.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def forgets_the_biases(state):
    """Your result has no biases."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name or name.endswith(".bias"):
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def forgets_to_pack_the_biases(state):
    """The biases of query, key and value have to be packed like their matrices: in_proj_bias has 3 · d_model
    numbers.
    """
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0) if value.dim() == 2 else value
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


SWAPPED_ATTENTIONS = TORCH_NAMES | {".self_attention.": ".multihead_attn.", ".cross_attention.": ".self_attn."}


SWAPPED_LINEARS = TORCH_NAMES | {".feed_forward.w_1.": ".linear2.", ".feed_forward.w_2.": ".linear1."}


SWAPPED_NORMS = TORCH_NAMES | {".norm_2.": ".norm3.", ".norm_3.": ".norm2."}


@torch_state.misconception
def swaps_the_decoders_attentions(state):
    """In the decoder, torch's self_attn is ours, and our cross-attention is its multihead_attn. You swapped them."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in SWAPPED_ATTENTIONS.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def swaps_the_networks_layers(state):
    """linear1 is the layer that widens, our w_1, and linear2 the one that narrows. You swapped them."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in SWAPPED_LINEARS.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def numbers_the_norms_otherwise(state):
    """Norm 2 and norm 3 are swapped. Both models number the norms in the order of the sub-layers."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in (SWAPPED_NORMS if name.startswith("decoder.") else TORCH_NAMES).items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.misconception
def forgets_layers_with_two_digits(state):
    """The layers from number 10 on are missing from your result. A stack may have any number of layers."""
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")) or re.search(r"\.\d\d+\.", name):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


@torch_state.alternative
def layer_by_layer(state):
    result = {}
    for stack, attentions in (
        ("encoder", {"attention": "self_attn"}),
        ("decoder", {"self_attention": "self_attn", "cross_attention": "multihead_attn"}),
    ):
        i = 0
        while f"{stack}.layers.{i}.norm_1.gain" in state:
            here = f"{stack}.layers.{i}."
            for ours, theirs in attentions.items():
                for kind in ("weight", "bias"):
                    packed = torch.vstack if kind == "weight" else torch.hstack
                    parts = [state[f"{here}{ours}.w_{letter}.{kind}"] for letter in "qkv"]
                    result[f"{here}{theirs}.in_proj_{kind}"] = packed(parts)
                    result[f"{here}{theirs}.out_proj.{kind}"] = state[f"{here}{ours}.w_o.{kind}"]
            for j in (1, 2):
                for kind in ("weight", "bias"):
                    result[f"{here}linear{j}.{kind}"] = state[f"{here}feed_forward.w_{j}.{kind}"]
            for j in range(1, len(attentions) + 2):
                result[f"{here}norm{j}.weight"] = state[f"{here}norm_{j}.gain"]
                result[f"{here}norm{j}.bias"] = state[f"{here}norm_{j}.bias"]
            i += 1
        if f"{stack}.norm.gain" in state:
            result[f"{stack}.norm.weight"] = state[f"{stack}.norm.gain"]
            result[f"{stack}.norm.bias"] = state[f"{stack}.norm.bias"]
    return result


@torch_state.alternative
def with_regular_expressions(state):
    kept = {name: tensor for name, tensor in state.items() if re.match(r"(en|de)coder\.", name)}
    result = {}
    for name, tensor in kept.items():
        new = re.sub(r"norm_(\d)", r"norm\1", name).replace("gain", "weight")
        new = re.sub(r"feed_forward\.w_(\d)", r"linear\1", new)
        new = re.sub(r"\.(self_)?attention", ".self_attn", new).replace("cross_attention", "multihead_attn")
        new = new.replace("w_o", "out_proj")
        found = re.search(r"\.w_([qkv])\.(weight|bias)$", new)
        if found is None:
            result[new] = tensor.clone()
            continue
        target = new[: found.start()] + ".in_proj_" + found[2]
        size = tensor.shape[0]
        if target not in result:
            result[target] = tensor.new_empty(3 * size, *tensor.shape[1:])
        row = "qkv".index(found[1]) * size
        result[target][row : row + size] = tensor
    return result


@torch_state.alternative
def in_single_precision(state):
    whole = reference.torch_state({name: tensor.float() for name, tensor in state.items()})
    return {name: whole[name] for name in sorted(whole, reverse=True)}
