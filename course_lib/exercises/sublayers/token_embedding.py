"""The exercise `TokenEmbedding`: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.multi_head_attention.shared import expect_count
from course_lib.exercises.sublayers.shared import expect_same_in_training, filled, fitted
from course_lib.positions import sinusoidal_encoding
from course_lib.sublayers import look_up

token_embedding = Exercise(
    reference.TokenEmbedding,
    cases=[
        {"vocab_size": 7, "d_model": 4, "pad_id": 0, "ids": torch.tensor([[1, 2, 6], [4, 0, 0]])},
        {"vocab_size": 11, "d_model": 9, "pad_id": 3, "ids": torch.tensor([[10, 0, 5, 1], [2, 2, 3, 3], [0, 7, 9, 3]])},
        {"vocab_size": 5, "d_model": 6, "pad_id": 4, "ids": torch.tensor([[0, 1, 2, 3, 4]])},
    ],
    minutes=10,
    difficulty=1,
    hints=[
        "Three things: a table (nn.Embedding does the looking up), its numbers at the start, and a factor in forward.",
        "nn.Embedding takes padding_idx. It zeroes that row once, when the table is made, and keeps gradients "
        "away from it. If you then fill the table with new numbers, who zeroes the row?",
        "nn.init.normal_ fills a tensor in place with numbers of the standard deviation std. A variance of "
        "1/d_model is a standard deviation of …?",
        "Writing into a parameter needs `with torch.no_grad():`. In forward: self.table(ids) * "
        "math.sqrt(d_model), so keep the factor in self.",
        "nn.init.normal_(self.table.weight, std=d_model**-0.5), then with torch.no_grad(): "
        "self.table.weight[pad_id] = 0.0.",
    ],
)


@functools.cache
def table_with(vocab_size, d_model, pad_id, pad_row=0.0):
    """The check's own table, with this value in the whole row of padding. In single precision, as modules are made:
    code cannot take a precision from ids.
    """
    table = normal(vocab_size, d_model, seed=vocab_size).float()
    table[pad_id] = pad_row
    return table


def table_of(case, pad_row=0.0):
    return table_with(*sizes_of_table(case), pad_row)


def sizes_of_table(case):
    return case["vocab_size"], case["d_model"], case["pad_id"]


def right_vectors(case):
    return table_of(case)[case["ids"]] * math.sqrt(case["d_model"])


def embedding_with_table(subject, case, must_fit=True):
    return filled(
        subject, sizes_of_table(case), {"table": table_of(case)}, [case["ids"]], right_vectors(case), must_fit
    )


@token_embedding.property(
    "every id becomes a vector, (batch, time, d_model), out of vocab_size trainable rows", points=1
)
def embedding_shape(subject, case):
    built = embedding_with_table(subject, case, must_fit=False)
    expect_floats(built(case["ids"]), (*case["ids"].shape, case["d_model"]))
    expect_count(built, case["vocab_size"] * case["d_model"])


@token_embedding.property("each vector is the row of its token, times √d_model", points=3)
def embedding_values(subject, case):
    built = embedding_with_table(subject, case)
    expect_close(built(case["ids"]), right_vectors(case))
    expect_same_in_training(built, case["ids"], right_vectors(case))


@token_embedding.property("padding is the zero vector, and training leaves it so", points=1)
def embedding_padding(subject, case):
    built, pad_id = subject.build(*sizes_of_table(case)), case["pad_id"]
    with built.unobserved():
        vectors = expect_floats(built(torch.arange(case["vocab_size"])[None]))[0]
    zeros = (vectors == 0).all(dim=-1).nonzero().flatten().tolist()
    built.note("zero at the start", zeros)
    built.load({name: fitted(table_of(case, 0.5), shape)[0] for name, shape in built.shapes().items()})
    (gradient,) = built.parameter_gradients(case["ids"]).values()
    gradient = fitted(gradient.to_dense(), (case["vocab_size"], case["d_model"]))[0]
    built.note("gradient of the table", gradient)
    expect(pad_id in zeros, f"Just built, the vector of the padding id {pad_id} is not zero.")
    expect(zeros == [pad_id], f"Just built, the vectors of the ids {zeros} are zero. Only that of {pad_id} should be.")
    expect(
        not gradient[pad_id].any(),
        f"The row of the padding id {pad_id} gets a gradient: it is zero now, and the first step of training would "
        "move it.",
    )
    used = sorted(set(case["ids"].flatten().tolist()) - {pad_id})
    expect(
        gradient[used].any(dim=-1).all(), "The row of a word that occurs gets no gradient: it could never be learned."
    )
    expect_close(gradient, slope_of_the_table(case), "the gradient of the squared vectors with respect to the table")


def slope_of_the_table(case):
    table = table_of(case, 0.5).clone().requires_grad_()
    vectors = F.embedding(case["ids"], table, padding_idx=case["pad_id"]) * math.sqrt(case["d_model"])
    return torch.autograd.grad(vectors.pow(2).sum(), table)[0]


MANY = 1000  # words, to see how the table starts


@token_embedding.property("at the start, the entries of the vectors are about 1 in size", points=1)
def embedding_start(subject, case):
    d_model = case["d_model"]
    built = subject.build(MANY, d_model, case["pad_id"])
    with built.unobserved():
        vectors = expect_floats(built(torch.arange(MANY)[None]))
    size = float(vectors[0, torch.arange(MANY) != case["pad_id"]].double().pow(2).mean().sqrt())
    # Right answers start with different random numbers. What is recorded is where the size comes from, if known.
    known = [name for name, usual in usual_sizes(d_model).items() if abs(math.log(max(size, 1e-9) / usual)) < 0.12]
    built.note("size at the start", known or size)
    expect(
        "1" in known,
        f"With d_model = {d_model} the entries of your vectors start with size {size:.2g} (root mean square). They "
        "should be about 1: the table starts with variance 1/d_model, and √d_model brings it to 1.",
    )


def usual_sizes(d_model):
    """The sizes of vectors that result from the usual ways to start a table; the factor √d_model included or not."""
    powers = {"1": 0.0, "√d": 0.5, "1/√d": -0.5, "d": 1.0, "1/d": -1.0, "d√d": 1.5, "d²": 2.0, "1/d²": -2.0}
    sizes = {name: d_model**power for name, power in powers.items()}
    deviations = {
        "Xavier": (2 / (MANY + d_model)) ** 0.5,
        "0.02": 0.02,
        "±0.1": 0.1 / 3**0.5,
        "He": (2 / d_model) ** 0.5,
    }
    for name, deviation in deviations.items():
        sizes |= {name: deviation, f"√d · {name}": d_model**0.5 * deviation}
    return sizes


@token_embedding.misconception
class OnlyLooksUp(nn.Module):
    """This is a bare table. Three things are missing: the factor √d_model, the small numbers to start with, and a row
    of zeros for padding.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=1.0)

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows


@token_embedding.misconception
class UsesXavier(nn.Module):
    """You initialise the table like a Linear (Xavier). Its numbers should have the variance 1/d_model.

    As it is, they shrink with the size of the vocabulary.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.xavier_uniform_(self.table.weight)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class ForgetsTheScale(nn.Module):
    """The row is returned as it is. It should be multiplied by √d_model.

    As it is, the position vectors drown it.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows


@token_embedding.misconception
class ScalesByDModel(nn.Module):
    """You multiply by d_model; the factor is its square root."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = d_model
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class DividesByTheRoot(nn.Module):
    """You divide by √d_model, as attention does with its scores. Embeddings are multiplied by it."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows / self.scale


@token_embedding.misconception
class ScalesByTheVocabulary(nn.Module):
    """You multiply by √vocab_size. The factor is the root of d_model, the size of a vector, and not of the number of
    words.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(vocab_size)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class ScalesByTheNumberOfWords(nn.Module):
    """You multiply by vocab_size. The factor is √d_model: the root of the size of a vector."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = vocab_size
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class AddsPositionsToo(nn.Module):
    """Something is added to the rows that depends on the position. Positions are added outside, by their own module."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale + sinusoidal_encoding(ids.shape[1], rows.shape[-1]).to(rows)


@token_embedding.misconception
class ScalesByTheLength(nn.Module):
    """Your factor is the root of the length of the sentence. It should be √d_model.

    As it is, the same word gets another vector in a longer sentence.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * math.sqrt(ids.shape[1])


@token_embedding.misconception
class LeavesTheTableAtOne(nn.Module):
    """Your table starts with numbers of variance 1, as nn.Embedding makes them. It should start with variance
    1/d_model.

    Multiplied by √d_model they are far too large.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=1.0)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class TakesTheVarianceForTheDeviation(nn.Module):
    """`std` is a standard deviation, and you gave it the variance 1/d_model. Its root is wanted."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-1))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class StartsAtTheScaleItself(nn.Module):
    """You start the table with standard deviation √d_model. It is the other way round: 1/√d_model.

    The factor in forward then brings the entries to 1.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model**0.5)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class OverwritesThePaddingRow(nn.Module):
    """The padding row is not zero at the start. nn.Embedding zeroes it when it is made, and numbers that are filled
    in afterwards overwrite that.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class LetsPaddingLearn(nn.Module):
    """The padding row is zero at the start, but nothing protects it. nn.Embedding has an argument for this.

    As it is, it gets gradients and becomes a word like any other.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class HasNoPadding(nn.Module):
    """Padding is a token like any other in your table. Its row should be zero and get no gradient."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class PadsWithZeroAlways(nn.Module):
    """You use id 0 for padding, whatever pad_id says."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=0)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[0] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class ExchangesTheSizes(nn.Module):
    """The two sizes of the table have changed places: it has vocab_size rows of d_model numbers each."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(d_model, vocab_size, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class AddsARow(nn.Module):
    """Your table has vocab_size + 1 rows. The padding id is one of the vocab_size ids already."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size + 1, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class FreezesTheTable(nn.Module):
    """There is nothing to learn in your table: it is frozen (`from_pretrained` does that unless told otherwise), or a
    plain tensor that no optimizer finds.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id).requires_grad_(False)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class NormalisesTheVectors(nn.Module):
    """You bring every vector to the same length. Only the factor √d_model is asked for: how long a row is may be
    learned.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return nn.functional.normalize(rows, dim=-1) * self.scale


@token_embedding.misconception
class CutsOffTheTable(nn.Module):
    """Something detaches your vectors.

    They are right, but no gradient reaches the table.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows.detach() * self.scale


@token_embedding.misconception
class StartsWithDModel(nn.Module):
    """You start the table with standard deviation d_model. It should be 1/√d_model.

    Multiplied by √d_model the entries are far too large.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class StartsAsGptDoes(nn.Module):
    """You start the table with standard deviation 0.02, as GPT and BERT do. Here it is 1/√d_model.

    As it is, the position vectors drown the words.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=0.02)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class StartsInASmallRange(nn.Module):
    """You start the table with numbers between -0.1 and 0.1. They should be normally distributed with variance
    1/d_model.

    As it is, the position vectors drown the words.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.uniform_(self.table.weight, -0.1, 0.1)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class StartsAtZero(nn.Module):
    """Your table starts with zeros. Its numbers should be normally distributed with variance 1/d_model.

    As it is, all words start alike.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.zeros_(self.table.weight)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class ZeroesRowZero(nn.Module):
    """You set row 0 to zero, whatever pad_id says."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[0] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.misconception
class DropsEntries(nn.Module):
    """You drop entries of the vectors in training. This exercise has no dropout: that comes after the positions are
    added.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return nn.functional.dropout(rows * self.scale, 0.1, self.training)


@token_embedding.misconception
class AddsTheScale(nn.Module):
    """You add √d_model to the rows. They should be multiplied by it."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows + self.scale


@token_embedding.misconception
class ScalesByHalf(nn.Module):
    """You multiply by d_model / 2. Powers bind tighter than /, so d_model ** 1/2 is not the root."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = d_model / 2
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@token_embedding.alternative
class ParameterAndFunction(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        start = torch.randn(vocab_size, d_model) / d_model**0.5
        start[pad_id] = 0
        self.weight = nn.Parameter(start)
        self.pad_id = pad_id

    def forward(self, ids):
        return F.embedding(ids, self.weight, padding_idx=self.pad_id) * self.weight.shape[1] ** 0.5


@token_embedding.alternative
class OneHotTimesMatrix(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.matrix = nn.Linear(vocab_size, d_model, bias=False)
        nn.init.normal_(self.matrix.weight, std=1 / math.sqrt(d_model))
        self.register_buffer("real", (torch.arange(vocab_size) != pad_id).float())

    def forward(self, ids):
        one_hot = F.one_hot(ids, len(self.real)).to(self.matrix.weight.dtype) * self.real
        return self.matrix(one_hot) * math.sqrt(self.matrix.out_features)


@token_embedding.alternative
class OneHotTimesTheTable(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.table.weight.data.normal_(std=d_model**-0.5)
        self.pad_id = pad_id

    def forward(self, ids):
        one_hot = F.one_hot(ids, self.table.num_embeddings).float()
        one_hot[..., self.pad_id] = 0
        return one_hot @ self.table.weight * self.table.embedding_dim**0.5


@token_embedding.alternative
class PaddingHiddenInForward(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model)
        self.emb.weight.data.mul_(d_model**-0.5)
        self.pad_id, self.d_model = pad_id, d_model

    def forward(self, ids):
        vectors = self.emb(ids) * math.sqrt(self.d_model)
        return vectors.masked_fill((ids == self.pad_id)[..., None], 0.0)


@token_embedding.alternative
class SmallerByDivision(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.lookup = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        with torch.no_grad():
            self.lookup.weight /= math.sqrt(d_model)
        self.factor = nn.Buffer(torch.tensor(float(d_model)).sqrt())

    def forward(self, ids):
        return torch.stack([self.lookup(sentence) for sentence in ids]).mul(self.factor)


@token_embedding.alternative
class DerivedFromTorchs(nn.Embedding):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__(vocab_size, d_model, padding_idx=pad_id, sparse=True)

    def reset_parameters(self):
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        self._fill_padding_idx_with_zero()

    def forward(self, ids):
        return super().forward(ids) * self.embedding_dim**0.5


@token_embedding.alternative
class IndexesTheParameter(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Parameter(torch.normal(0.0, d_model**-0.5, (vocab_size, d_model)))
        self.pad_id = pad_id

    def forward(self, ids):
        is_word = (ids != self.pad_id).unsqueeze(-1)
        return torch.where(is_word, self.table[ids], 0.0) * math.sqrt(self.table.size(-1))
