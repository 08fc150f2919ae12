"""Hidden cases on the whole model."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.inputs import AttentionModel, MixingModel
from course_lib.exercises import transformer
from course_lib.exercises.transformer.find_the_leak import mask_with
from course_lib.exercises.transformer.torch_state import course_state

BOS = 1


@hidden(transformer.transformer)
def whole_model(draw: Draw) -> list[Case]:
    tied, vocab = draw.integer(8, 10), draw.sizes((6, 11), (6, 11))
    pad_id, first_order = draw.integer(2, 5), draw.choice([True, False])
    return [
        model_case(draw, (tied, tied), (2, draw.choice([2, 3])), 1, first_order, True, pad_id),
        model_case(draw, vocab, draw.choice([(2, 4), (3, 2)]), 2, not first_order, False, 0),
    ]


def model_case(
    draw: Draw, vocab: tuple[int, ...], heads: tuple[int, int], layers: int, norm_first: bool, tied: bool, pad_id: int
) -> Case:
    batch, source, target = draw.sizes((2, 3), (3, 5), (3, 5))
    d_model = heads[0] * heads[1]
    return {
        "src_vocab": vocab[0],
        "tgt_vocab": vocab[1],
        "d_model": d_model,
        "num_heads": heads[0],
        "d_ff": d_model + draw.choice([1, 2, 3]),
        "num_layers": layers,
        "dropout": draw.number(0.2, 0.6),
        "norm_first": norm_first,
        "tie_weights": tied,
        "pad_id": pad_id,
        "max_len": max(source, target) + draw.integer(1, 3),
        "src_ids": padded_ids(draw, batch, source, vocab[0], pad_id),
        "tgt_ids": target_ids(draw, batch, target, vocab[1], pad_id),
    }


def padded_ids(draw: Draw, batch: int, time: int, vocab: int, pad_id: int) -> Tensor:
    """One sentence has padding before a real token, one at its end, and none is all padding."""
    ids = draw.ids(batch, time, vocab=vocab, without=[pad_id])
    ids[0, draw.integer(0, time - 2)] = pad_id
    ids[-1, -1] = pad_id
    return ids


def target_ids(draw: Draw, batch: int, time: int, vocab: int, pad_id: int) -> Tensor:
    ids = draw.ids(batch, time, vocab=vocab, without=[pad_id])
    ids[0, draw.integer(1, time - 2)] = pad_id
    ids[-1, -1] = pad_id
    ids[:, 0] = BOS
    return ids


@hidden(transformer.transformer_parameters)
def transformer_parameters(draw: Draw) -> list[Case]:
    def case(rows: int, d_model: int, d_ff: int, encoder_layers: int, decoder_layers: int, norms: int) -> Case:
        sizes = {"table_rows": rows, "d_model": d_model, "d_ff": d_ff}
        layers = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
        return {**sizes, **layers, "extra_norms": norms}

    return [
        case(*draw.sizes((9, 15), (3, 5), (4, 7), (2, 6), (2, 6)), draw.integer(2, 5)),
        case(draw.integer(30_000, 60_000), *draw.sizes((900, 1600), (2000, 6400)), draw.integer(12, 48), 0, 1),
        case(*draw.sizes((20, 60), (4, 9), (10, 30)), 1, draw.integer(3, 6), 2),
    ]


@hidden(transformer.torch_state)
def torch_state(draw: Draw) -> list[Case]:
    def state(layers: int, norm_first: bool, d_model: int, d_ff: int) -> dict[str, Tensor]:
        """With other numbers, in any order."""
        shapes = {name: tensor.shape for name, tensor in course_state(layers, norm_first, d_model, d_ff).items()}
        return {
            name: draw.normal(*shapes[name], scale=0.4) + (1.0 if name.endswith("gain") else 0.0)
            for name in draw.shuffled(list(shapes))
        }

    first, second = draw.shuffled([True, False])
    return [
        {"state": state(2, first, 2 * draw.integer(2, 4), draw.choice([5, 7, 9, 11]))},
        {"state": state(draw.choice([1, 3]), second, 4, draw.choice([5, 7, 9, 11]))},
        {"state": state(draw.integer(11, 13), second, 2, 3)},
    ]


@hidden(transformer.find_the_leak, by_chance=True)
def find_the_leak(draw: Draw) -> list[Case]:
    def case(outputs: int, inputs: int, features: int, vocab: int, hidden: int, only: int, weak: int) -> Case:
        ids = draw.ids(inputs, vocab=vocab)
        ids[0], ids[-1] = draw.sizes((0, vocab - 1), (0, vocab - 1))
        model = mixing(draw, outputs, inputs, features, vocab, hidden, only, weak)
        return {"function": model, "ids": ids, "vocab_size": vocab}

    n, vocab = draw.integer(4, 5), draw.integer(6, 9)
    later = [(i, j) for i in range(n) for j in range(i + 1, n)]
    leaks = draw.shuffled(later)[:2]
    attention = AttentionModel(draw.normal(vocab, 4), mask_with(n, *leaks))
    return [
        case(*draw.sizes((3, 5), (4, 5)), 3, 4, hidden=3, only=0, weak=1),
        {"function": attention, "ids": draw.ids(n, vocab=vocab), "vocab_size": vocab},
        case(*draw.sizes((2, 4), (3, 4)), draw.integer(3, 4), draw.integer(2, 3), hidden=2, only=2, weak=0),
    ]


def mixing(
    draw: Draw, outputs: int, inputs: int, features: int, vocab: int, hidden: int, only: int, weak: int
) -> MixingModel:
    """A model in which this many pairs (output, input) do not see each other, or only in one feature, or hardly.

    Each token's vector differs from every other's in each feature, and the features of all add up to 0.
    """
    table = torch.arange(1.0, vocab + 1).double()[:, None] * torch.tensor([1.0] * (features - 1) + [1.0 - features])
    weights = torch.ones(outputs, inputs, features, dtype=torch.float64)
    pairs = draw.shuffled(list(itertools.product(range(outputs), range(inputs))))
    for place, (i, j) in enumerate(pairs):
        weights[i, j] = draw.choice([-1, 1]) * draw.number(0.5, 2.0)
        if place < hidden:
            weights[i, j] = 0.0
        elif place < hidden + only:
            weights[i, j] *= torch.arange(features) == draw.integer(0, features - 1)
        elif place < hidden + only + weak:
            weights[i, j] *= 1e-3
    return MixingModel(table, weights)


@hidden(transformer.subsampled_lengths)
def subsampled_lengths(draw: Draw) -> list[Case]:
    """Always among them: windows that fit exactly, that do not fit whole, and recordings shorter than the window."""

    def case(kernel: int, stride: int) -> Case:
        lengths = [1, kernel - 1, *range(kernel, kernel + stride + 1), draw.integer(30, 99)]
        return {"lengths": torch.tensor(draw.shuffled(lengths)), "kernel": kernel, "stride": stride}

    stride = draw.integer(2, 4)
    much_wider = case(stride + draw.integer(2, 4), stride)  # more than a step wider than the shortest recording
    return [much_wider, case(*draw.sizes((2, 3), (4, 5))), case(draw.integer(3, 6), 2)]
