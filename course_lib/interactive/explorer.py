"""What a trained model looks at: all attention weights of one sentence, layer by layer and head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from course_lib.decoding import generate
from course_lib.grammar import MAX_WORDS
from course_lib.interactive.figure import InteractiveFigure, brief
from course_lib.masks import causal_mask
from course_lib.plotting import show_matrix
from course_lib.training import shift_right
from course_lib.transformer import Transformer
from course_lib.translation import BOS, EOS, english_vocabulary, french_vocabulary

MOST_NUMBERS = 12_000  # what 100 kB hold
ENCODER, DECODER, CROSS = "encoder, self", "decoder, self", "decoder, cross"


@dataclass(frozen=True)
class AttentionMap:
    """All weights of one kind of attention for one sentence."""

    kind: str
    queries: Sequence[str]  # one name per row of the weights
    keys: Sequence[str]  # one name per column
    weights: Tensor  # (layer, head, query, key)


def attention_explorer(maps: Sequence[AttentionMap]) -> InteractiveFigure:
    """Attention weights of a sentence: choose kind, layer and head, then point at a word.

    >>> attention_explorer(translation_attention(load_translator(), "the cat is on the mat"))  # doctest: +SKIP
    """
    require_maps(maps)
    last = maps[-1]

    def still(figure: Figure) -> None:
        title = f"{brief([last.kind])[0]}: last layer, mean of all heads"
        mean, rows, columns = last.weights[-1].mean(dim=0), brief(last.queries), brief(last.keys)
        show_matrix(mean, title, row_names=rows, column_names=columns, limits=(0, 1), ax=figure.subplots())

    alt = (
        f"Attention weights of {len(last.weights)} layers with {last.weights.shape[1]} heads as lines between words "
        f"and as a matrix, for {', '.join(each.kind for each in maps)}: kind, layer, head and word "
        "can be chosen."
    )
    data = [
        {"kind": m.kind, "queries": list(m.queries), "keys": list(m.keys), "weights": short(m.weights)} for m in maps
    ]
    return InteractiveFigure("attention_explorer", {"maps": data}, alt, still, size=(6.5, 4.2))


def require_maps(maps: Sequence[AttentionMap]) -> None:
    """Raise unless there is a map, each has the shape of its words, and all are small enough for a page."""
    if not maps:
        raise ValueError("There is nothing to show: give at least one AttentionMap.")
    for each in maps:
        wanted = (len(each.queries), len(each.keys))
        if each.weights.dim() != 4 or each.weights.shape[2:] != wanted:
            raise ValueError(
                f"{each.kind}: there are {wanted[0]} queries and {wanted[1]} keys, so the weights should be (layer, "
                f"head, {wanted[0]}, {wanted[1]}), but they are {tuple(each.weights.shape)}."
            )
        if not each.weights.isfinite().all():
            raise ValueError(f"{each.kind}: some weights are not finite. Is there a row that may look at nothing?")
    total = sum(each.weights.numel() for each in maps)
    if total > MOST_NUMBERS:
        raise ValueError(f"These are {total} weights, and the figure holds {MOST_NUMBERS}: take a shorter sentence.")


def short(weights: Tensor) -> list[list[list[list[float]]]]:
    """The weights as nested lists, with four decimals."""
    numbers = weights.detach().to("cpu").double()
    return [[[[round(w, 4) for w in row] for row in head] for head in layer] for layer in numbers.tolist()]


# --- a translator's weights -----------------------------------------------------------------------------


@torch.no_grad()
def translation_attention(model: Transformer, sentence: str) -> list[AttentionMap]:
    """All attention weights of a translator while it translates a sentence, greedily.

    model: the course's Transformer, or your own built from the same parts, for the vocabularies of
    `course_lib.translation`. The decoder's queries are written "read → written": at each position it has read one word
    and writes the next. A model that does not write <eos> is stopped after 17 words.
    """
    english, french = english_vocabulary(), french_vocabulary()
    device = next(model.parameters()).device
    source = english.encode(sentence.lower().removesuffix(".").split())[None].to(device)  # (1, source)
    was_training = model.training
    try:
        result = generate(model, source, BOS, EOS, MAX_WORDS + 1, use_cache=False).to(device)  # (1, target)
        given = shift_right(result, BOS)  # (1, target)
        weights = attention_weights(model, source, given)
    finally:
        model.train(was_training)
    asked = [english.words[i] for i in source[0].tolist()]
    read, written = ([french.words[i] for i in ids[0].tolist()] for ids in (given, result))
    steps = [f"{before} → {after}" for before, after in zip(read, written)]
    words = {ENCODER: (asked, asked), DECODER: (steps, read), CROSS: (steps, asked)}
    return [AttentionMap(kind, *words[kind], weights[kind]) for kind in (ENCODER, DECODER, CROSS)]


def attention_weights(model: Transformer, src_ids: Tensor, tgt_ids: Tensor) -> dict[str, Tensor]:
    """The weights of every attention of a model, for one sentence without padding: kind -> (layer, head, query, key).

    A fused layer never computes its weights, and never calls its attention: it uses the projections alone. So what
    goes into `w_q` and `w_k` is noted, and each attention is then asked for weights with the same inputs.

    src_ids: (1, source); tgt_ids: (1, target).
    """
    encoder = set(model.encoder.modules())
    attentions = [module for module in model.modules() if hasattr(module, "w_q") and hasattr(module, "w_k")]
    queries: dict[nn.Module, Tensor] = {}
    keys: dict[nn.Module, Tensor] = {}
    hooks = []
    for attention in attentions:
        hooks.append(note_input(attention.get_submodule("w_q"), attention, queries))
        hooks.append(note_input(attention.get_submodule("w_k"), attention, keys))
    try:
        model(src_ids, tgt_ids)
    finally:
        for hook in hooks:
            hook.remove()
    found: dict[str, list[Tensor]] = {ENCODER: [], DECODER: [], CROSS: []}
    for attention in queries:  # in the order in which they were used
        q, k = queries[attention], keys[attention]
        to_itself = q.shape == k.shape and torch.equal(q, k)
        kind = ENCODER if attention in encoder else DECODER if to_itself else CROSS
        mask = causal_mask(q.shape[1]).to(q.device) if kind == DECODER else None
        found[kind].append(require_weights(attention(q, k, k, mask))[0])  # (head, query, key)
    missing = [kind for kind, weights in found.items() if not weights]
    if missing:
        raise ValueError(
            f"The model used no attention of this kind: {'; '.join(missing)}. It should be built of MultiHeadAttention "
            "modules with projections w_q and w_k, as the course's is."
        )
    return {kind: torch.stack(weights) for kind, weights in found.items()}


def note_input(linear: nn.Module, attention: nn.Module, notes: dict[nn.Module, Tensor]) -> RemovableHandle:
    """From now on, note under `attention` what `linear` is given."""

    def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        notes[attention] = inputs[0]

    return linear.register_forward_pre_hook(note)


def require_weights(result: object) -> Tensor:
    """The weights out of what an attention returned, (batch, head, query, key)."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Tensor) and result[1].dim() == 4:
        return result[1]
    raise ValueError("An attention should return (output, weights), with weights (batch, head, query, key).")
