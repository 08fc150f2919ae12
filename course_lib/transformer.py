"""The Transformer: two stacks, two embeddings, two masks and an output layer.

    source ids → embedding + positions → encoder ─────────┐ memory
    target ids → embedding + positions → decoder ─────────┴→ output layer → logits

The model takes ids alone. It finds the padding itself (`pad_id`) and builds all the masks, so that no caller can forget
one. Three tools go with it: a formula for the number of parameters, a copy into `nn.Transformer` to compare with, and a
search for positions that see what they should not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from course_lib.encoder_decoder import Decoder, DecoderLayer, Encoder
from course_lib.masks import causal_mask
from course_lib.positions import PositionalEncoding
from course_lib.sublayers import TokenEmbedding

# --- the model ------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """An encoder-decoder that turns source ids and the targets so far into logits for the next targets.

    `tie_weights`: the output layer uses the target embedding's table, and so does the source embedding if both
    vocabularies have the same size (the paper has one vocabulary for both languages). The row of `pad_id` then learns
    as an output, and is masked as an input.
    """

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
        norm_first: bool = True,
        tie_weights: bool = False,
        pad_id: int = 0,
        max_len: int = 1024,
    ):
        super().__init__()
        self.pad_id = pad_id
        self.src_embedding = TokenEmbedding(src_vocab, d_model, pad_id)
        self.tgt_embedding = TokenEmbedding(tgt_vocab, d_model, pad_id)
        self.positions = PositionalEncoding(d_model, max_len)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers, dropout, norm_first)
        self.decoder = Decoder(d_model, num_heads, d_ff, num_layers, dropout, norm_first)
        self.output = nn.Linear(d_model, tgt_vocab, bias=False)
        self.apply(initialise)
        if tie_weights:
            self.output.weight = self.tgt_embedding.table.weight
            if src_vocab == tgt_vocab:
                self.src_embedding.table = self.tgt_embedding.table

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """
        src_ids: (batch, source); tgt_ids: (batch, target), what the decoder is given, BOS first.
        Returns: logits (batch, target, tgt_vocab); row i is about the token that follows tgt_ids[:, i].
        """
        memory = self.encode(src_ids)
        return self.decode(tgt_ids, memory, src_ids)

    def encode(self, src_ids: Tensor) -> Tensor:
        """src_ids: (batch, source). Returns: the memory (batch, source, d_model)."""
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)  # (batch, source, d_model)
        x = self.dropout(self.positions(x))
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids: Tensor, memory: Tensor, src_ids: Tensor) -> Tensor:
        """tgt_ids: (batch, target); memory: (batch, source, d_model), made from src_ids. Returns: logits."""
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)  # (batch, target, d_model)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)  # (batch, target, tgt_vocab)

    def source_mask(self, src_ids: Tensor) -> Tensor:
        """Which source positions are real, for the encoder and for cross-attention alike: (batch, 1, source)."""
        real = src_ids != self.pad_id  # (batch, source)
        return real[:, None, :]

    def target_mask(self, tgt_ids: Tensor) -> Tensor:
        """Which targets each target may see: real ones that are not in its future. (batch, target, target)."""
        real = tgt_ids != self.pad_id  # (batch, target)
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)  # (target, target)
        return real[:, None, :] & past


def initialise(module: nn.Module) -> None:
    """Xavier's uniform weights and zero biases for every linear layer. Embeddings and norms set their own."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def require_ids(ids: Tensor, vocab_size: int, pad_id: int, name: str) -> None:
    """Raise unless `ids` is a batch (batch, time) of tokens of the vocabulary, with a real token in every row."""
    if ids.dim() != 2 or ids.is_floating_point():
        raise ValueError(f"{name} should be whole numbers (batch, time), but is {ids.dtype} of {tuple(ids.shape)}.")
    if ids.numel() == 0:
        raise ValueError(
            f"{name} is empty: its shape is {tuple(ids.shape)}. Give at least one sentence with one token."
        )
    smallest, largest = int(ids.min()), int(ids.max())
    if smallest < 0 or largest >= vocab_size:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(
            f"{name} holds the id {wrong}, but the vocabulary has the ids 0 to {vocab_size - 1}: "
            "use the vocabulary that the model was built for, or build the model with a larger one."
        )
    if (ids == pad_id).all(dim=1).any():
        row = int((ids == pad_id).all(dim=1).nonzero()[0])
        raise ValueError(f"Row {row} of {name} is nothing but padding (id {pad_id}): leave empty sentences out.")


def cross_attention_weights(model: Transformer, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
    """Where each target position looks in the source.

    Layers never compute their weights. So the inputs of each cross-attention's queries are recorded, and the attention
    is computed once more, this time with weights.

    Returns: (layer, batch, head, target, source).
    """
    attentions = [layer.cross_attention for layer in decoder_layers(model)]
    queries: list[Tensor] = []
    hooks = [a.w_q.register_forward_pre_hook(lambda _, inputs: queries.append(inputs[0])) for a in attentions]
    memory = model.encode(src_ids)
    model.decode(tgt_ids, memory, src_ids)
    for hook in hooks:
        hook.remove()
    mask = model.source_mask(src_ids)
    return torch.stack([a(query, memory, memory, mask)[1] for a, query in zip(attentions, queries)])


def decoder_layers(model: Transformer) -> list[DecoderLayer]:
    """The layers of the decoder, as what they are: a ModuleList only knows that they are modules."""
    return cast(list[DecoderLayer], list(model.decoder.layers))


# --- how many parameters --------------------------------------------------------------------------------


def transformer_parameters(
    table_rows: int, d_model: int, d_ff: int, encoder_layers: int, decoder_layers: int, extra_norms: int = 0
) -> int:
    """The number of parameters of a Transformer, by formula. Biases everywhere except in the embedding tables.

    table_rows: the rows of d_model numbers in all tables together: tokens, learned positions, segments; and the output
    layer's, unless it shares a token table. encoder_layers: layers without cross-attention (those of BERT and GPT too).
    decoder_layers: layers with it. extra_norms: norms outside the layers.
    """
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)  # W_Q, W_K, W_V, W_O; the number of heads changes nothing
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model  # gain and bias
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


# --- the same model in torch.nn -------------------------------------------------------------------------

TORCH_NAMES = {
    ".attention.": ".self_attn.",
    ".self_attention.": ".self_attn.",
    ".cross_attention.": ".multihead_attn.",
    ".w_o.": ".out_proj.",
    ".feed_forward.w_1.": ".linear1.",
    ".feed_forward.w_2.": ".linear2.",
    ".norm_1.": ".norm1.",
    ".norm_2.": ".norm2.",
    ".norm_3.": ".norm3.",
    ".gain": ".weight",
}


def torch_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of both stacks under the names that `nn.Transformer` gives them.

    state: the state dict of a `Transformer`. Embeddings and the output layer have no place in `nn.Transformer`.
    Torch keeps W_Q, W_K and W_V of an attention in one matrix, one below the other: `in_proj_weight`; and their
    biases in one vector, `in_proj_bias`.
    """
    result: dict[str, Tensor] = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue  # a table or the output layer
        if ".w_k." in name or ".w_v." in name:
            continue  # goes with its w_q
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)  # (3 · d_model, d_model), or (3 · d_model,) for the bias
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result


def copy_into_torch(model: Transformer, torch_model: nn.Transformer) -> None:
    """Give an `nn.Transformer` of the same sizes the weights of `model`.

    Its final norms are taken out where `model` has none (post-norm mode): the paper has none there either.
    """
    if isinstance(model.encoder.norm, nn.Identity):
        torch_model.encoder.norm = None
        torch_model.decoder.norm = None
    torch_model.load_state_dict(torch_state(model.state_dict()))


# --- who sees whom --------------------------------------------------------------------------------------


def find_the_leak(function: Callable[[Tensor], Tensor], ids: Tensor, vocab_size: int) -> Tensor:
    """Which output positions change when one input token is replaced by another?

    function: (batch, time) ids -> (batch, time', features), such as `lambda ids: model(src, ids)`.
    ids: (time,), the tokens to start from. Each in turn is replaced by another token of the vocabulary.
    Returns: (time', time) boolean, True where output i depends on input j. In a decoder nothing is True where j > i.
    """
    before = function(ids[None])[0]  # (time', features)
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1  # another token, whichever it was
        after = function(changed[None])[0]  # (time', features)
        moved = (after != before).any(dim=-1)  # (time',)
        columns.append(moved)
    return torch.stack(columns, dim=1)  # (output position, input position)


# --- inputs that are not text ---------------------------------------------------------------------------


def subsampled_lengths(lengths: Tensor, kernel: int, stride: int) -> Tensor:
    """The number of frames of each recording after a convolution over time, without padding at the ends.

    Only windows that lie entirely within the recording count: window i covers the inputs
    i·stride to i·stride + kernel - 1. A recording shorter than the kernel has none left.

    lengths: (batch,) whole numbers. Returns: (batch,) whole numbers.
    """
    last_start = lengths - kernel  # where the last window that fits begins, at most
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=0)
