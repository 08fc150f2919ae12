"""Hidden cases on classification."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.settings import Pretrained
from course_lib.classification import IGNORED
from course_lib.exercises import classification


@hidden(classification.masked_mean)
def masked_mean(draw: Draw) -> list[Case]:
    """Always among them: padding in front, a sequence without any real position, one without padding, and no batch."""
    batch, time, d = draw.sizes((4, 6), (3, 7), (2, 5))
    real = draw.mask(batch, time)
    real[0] = False
    real[1] = True
    real[2, 0], real[2, -1] = False, True
    groups, rows, long, wide = draw.sizes((2, 3), (2, 4), (4, 6), (3, 7))
    return [
        {"x": draw.normal(batch, time, d, dtype=torch.float32) + 1, "real": real},
        {"x": draw.normal(groups, rows, long, wide, dtype=torch.float32) - 1, "real": draw.mask(groups, rows, long)},
        {"x": draw.normal(time + 1, d, scale=3, dtype=torch.float32), "real": draw.mask(time + 1)},
    ]


@hidden(classification.sequence_classifier)
def sequence_classifier(draw: Draw) -> list[Case]:
    """Always among them: padding in front, in the middle and at the end, and the token 0 where it is not padding.

    No two sizes are the same, and d_ff is not a multiple of d_model: so each parameter is known by its shape.
    """

    def case(heads: int, layers: int, pad_id: int) -> Case:
        vocab_size = draw.choice([12, 14, 15, 16])
        ids = draw.ids(3, 5, vocab=vocab_size, without=[pad_id])
        ids[0, :2] = torch.tensor([draw.integer(5, 7), draw.integer(8, 10)])  # different, so that their order counts
        ids[1, 0] = ids[1, 2] = pad_id
        ids[1, 1] = 0 if pad_id else 4
        ids[2, draw.integer(2, 3) :] = pad_id
        return {
            "vocab_size": vocab_size,
            "num_classes": draw.integer(2, 3),
            "d_model": heads * draw.choice([2, 3]) if heads == 2 else 9,
            "num_heads": heads,
            "d_ff": draw.choice([11, 13, 17]),
            "num_layers": layers,
            "max_len": draw.integer(7, 8),
            "pad_id": pad_id,
            "ids": ids,
        }

    return [case(2, 2, draw.integer(1, 4)), case(draw.choice([2, 3]), 1, 0)]


@hidden(classification.confusion_matrix)
def confusion_matrix(draw: Draw) -> list[Case]:
    """Always among them: a class that does not occur, examples that repeat, and a wrong answer for the last class."""

    def case(classes: int, seen: int, examples: int) -> Case:
        actual = draw.ids(examples, vocab=seen)
        predicted = torch.where(draw.mask(examples), actual, draw.ids(examples, vocab=seen))
        actual[:5] = torch.tensor([seen - 1, seen - 1, 0, seen - 1, 0])
        predicted[:5] = torch.tensor([0, 0, 0, seen - 1, 0])
        actual[-1], predicted[-1] = 0, 1  # a pair whose reverse need not be there
        return {"predicted": predicted, "actual": actual, "num_classes": classes}

    classes = draw.integer(4, 7)
    return [case(classes, classes - 1, draw.integer(8, 15)), case(2, 2, draw.integer(7, 11)), case(9, 9, 200)]


@hidden(classification.wordpiece, by_chance=True)
def wordpiece(draw: Draw) -> list[Case]:
    """Words of a few letters, and vocabularies of parts of them: some can be cut, others cannot."""
    return [word_and_vocabulary(draw) for _ in range(8)]


def word_and_vocabulary(draw: Draw) -> Case:
    word = "".join(draw.choice("abB") for _ in range(draw.integer(2, 8)))
    parts = {word[i : i + draw.integer(1, 4)] for i in draw.shuffled(range(len(word)))}
    entries = sorted({*parts, *(draw.choice(["a", "b", "ab", "bab", "aB"]) for _ in range(3))})
    vocabulary = {draw.choice(["", "##"]) + entry for entry in entries + entries}
    return {"word": word, "vocabulary": vocabulary - {word if draw.integer(0, 3) else ""}}


@hidden(classification.mask_tokens)
def mask_tokens(draw: Draw) -> list[Case]:
    """In the first row of the first case everything happens that can happen; the rest is drawn."""
    mask_id, vocab = draw.integer(1, 4), 30
    batch, time = draw.sizes((3, 4), (8, 12))
    choice, action = numbers_between_0_and_1(draw, batch, time), numbers_between_0_and_1(draw, batch, time)
    choice[0, :8] = torch.tensor([0.03, 0.13, 0.07, 0.11, 0.02, 0.22, 0.64, 0.09])
    action[0, :8] = torch.tensor([0.05, 0.62, 0.83, 0.96, 0.33, 0.06, 0.85, 0.21])
    may_be_chosen = draw.mask(batch, time)
    may_be_chosen[0, :7] = True
    may_be_chosen[0, 7] = False
    ids = draw.ids(batch, time, vocab=15, without=range(5))
    first = {
        "ids": ids,
        "may_be_chosen": may_be_chosen,
        "choice": choice,
        "action": action,
        "random_ids": draw.ids(batch, time, vocab=vocab, without=range(15)),
        "mask_id": mask_id,
    }
    return [first, {**first, "may_be_chosen": may_be_chosen & (ids < 10), "mask_id": vocab}]


def numbers_between_0_and_1(draw: Draw, *shape: int) -> Tensor:
    """None of them is a bound: what happens exactly there is left open."""
    percents = draw.ids(*shape, vocab=100, without=[15, 80, 90])
    return percents / 100


@hidden(classification.masked_lm_loss)
def masked_lm_loss(draw: Draw) -> list[Case]:
    """Rows with different numbers of chosen places, one of them with none; the token 0 is asked for."""

    def case(batch: int, time: int, vocab: int, dtype: torch.dtype = torch.float64) -> Case:
        targets = torch.where(draw.mask(batch, time), draw.ids(batch, time, vocab=vocab), IGNORED)
        targets[0] = IGNORED
        targets[0, 1:3] = torch.tensor([0, draw.integer(1, vocab - 1)])
        targets[1, :] = IGNORED
        targets[2, 1:] = IGNORED
        targets[2, 0] = draw.integer(1, vocab - 1)
        return {"logits": draw.normal(batch, time, vocab, scale=2, dtype=dtype), "targets": targets}

    return [
        case(*draw.sizes((3, 5), (4, 6), (6, 9))),
        case(*draw.sizes((4, 5), (6, 7), (3, 3)), dtype=torch.float32),
        {"logits": draw.normal(1, 2, 4), "targets": torch.tensor([[IGNORED, draw.integer(1, 3)]])},
    ]


@hidden(classification.fine_tune)
def fine_tune(draw: Draw) -> list[Case]:
    """Some layers frozen, none, and all but one; once with as many classes as before."""

    def case(layers: int, frozen: int, before: int, after: int) -> Case:
        body_rate, head_rate = draw.shuffled([draw.number(0.02, 0.2), draw.number(0.3, 0.9)])
        return {
            "model": Pretrained(before, draw.integer(2, 5), layers),
            "num_classes": after,
            "body_rate": body_rate,
            "head_rate": head_rate,
            "frozen_layers": frozen,
        }

    layers, classes = draw.integer(4, 6), draw.integer(2, 6)
    return [
        case(layers, draw.integer(1, layers - 2), classes, classes + draw.integer(1, 4)),
        case(layers, layers - 1, classes, classes),
        case(2, 0, classes + 2, classes),
    ]


@hidden(classification.bert_parameters)
def bert_parameters(draw: Draw) -> list[Case]:
    """Small sizes, all different, and large ones."""
    vocab_size, max_len, d_model, d_ff = draw.sizes((50, 90), (11, 40), (3, 9), (4, 30))
    small = {
        "vocab_size": vocab_size,
        "max_len": max_len,
        "num_segments": draw.integer(2, 4),
        "d_model": d_model,
        "d_ff": d_ff,
        "num_layers": draw.integer(2, 6),
    }
    large = {"vocab_size": 30_000, "max_len": 512, "num_segments": 3, "d_model": 768, "d_ff": 3000, "num_layers": 12}
    return [small, large]
