"""Exercises on sub-layers: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
import math
import re
from itertools import permutations, product

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import sublayers as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, expect_tuple, is_close
from course_lib.checking.inputs import AffineMap, RowNorm, normal
from course_lib.checking.subject import Event, NotAttempted, StudentError
from course_lib.positions import sinusoidal_encoding
from course_lib.sublayers import check_positions, check_shape_is_kept, check_width, look_up

# --- the check's own numbers in the student's parameters ------------------------------------------------

ROLES = {
    "gain": {"gain", "gamma", "weight", "alpha", "scale", "g", "a", "w"},
    "bias": {"bias", "beta", "b", "shift", "offset"},
}


def role_of(name):
    """What a parameter of a norm is for, as far as its name says so."""
    word = re.sub(r"[\d_]+", "", name.rpartition(".")[2].lower())
    return next((role for role, words in ROLES.items() if word in words), None)


def fitted(tensor, shape):
    """The tensor in this shape, if axes of length 1 or a transpose are all that separates them; and if directly."""
    bare = tuple(size for size in shape if size != 1)
    if tuple(tensor.shape) == bare:
        return tensor.reshape(shape), True
    if tensor.dim() == 2 and tuple(tensor.mT.shape) == bare:
        return tensor.mT.reshape(shape), False
    return None, False


def fillings(shapes, numbers):
    """The ways to put the numbers into parameters of these shapes, the most natural one first."""
    key = (tuple(shapes.items()), tuple(map(id, numbers.values())))
    if key not in FILLINGS:
        FILLINGS[key] = (ways_to_fill(shapes, numbers), numbers)  # kept with the numbers, so that no id is used again
    return FILLINGS[key][0]


FILLINGS: dict = {}  # a diagnosis asks for the same few hundreds of times


def ways_to_fill(shapes, numbers):
    found = []
    for roles in permutations(numbers, len(shapes)):
        state, naturalness, certain = {}, 0, True
        for (name, shape), role in zip(shapes.items(), roles, strict=True):
            tensor, direct = fitted(numbers[role], shape)
            if tensor is None:
                break
            state[name] = tensor
            is_linear = direct and name.endswith("weight") and numbers[role].dim() == 2  # (out, in), as in nn.Linear
            alone = [fitted(other, shape)[0] is not None for other in numbers.values()].count(True) == 1
            naturalness += direct + 2 * (role_of(name) == role)
            certain &= is_linear or alone or role_of(name) == role
        else:
            found.append((naturalness, certain, state))
    found.sort(key=lambda way: -way[0])
    return [state for _, _, state in (found[:1] if found and found[0][1] else found)]


def fill(built, numbers, args, want):
    """Put the numbers into the module so that it answers `want`; if no way does, the most natural one.

    Returns False if they fit in no way; then the parameters hold other numbers.
    """
    shapes = built.shapes()
    ways = fillings(shapes, numbers) if len(shapes) <= len(numbers) else []
    if not ways:
        built.load({name: normal(*shape, seed=i, scale=0.4) for i, (name, shape) in enumerate(shapes.items())})
        return False
    for state in ways[1:] and ways:
        if answers_with(built, state, args, want):
            return True
    built.load(ways[0])
    return True


def answers_with(built, state, args, want):
    """Whether the module, loaded with this state, gives the wanted result. Leaves no trace."""
    with built.unobserved():
        try:
            built.load(state)
            got = built(*args)
        except (StudentError, NotAttempted):
            return False
    return isinstance(got, torch.Tensor) and is_close(got, want)


def filled(subject, sizes, numbers, args, want, must_fit=True):
    """The student's module, built with `sizes`, that holds the check's numbers."""
    built = subject.build(*sizes)
    if not fill(built, numbers, args, want) and must_fit:
        raise Failure(
            "The check fills your parameters with its own numbers and does not know this way to keep them: "
            f"{listing(built.shapes())}. The names in the docstring are always understood."
        )
    return built


def listing(shapes):
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items()) or "none"


def expect_count(built, want):
    shapes = built.shapes()
    got = sum(math.prod(shape) for shape in shapes.values())
    expect(got == want, f"There should be {want} trainable numbers, but there are {got}. They are: {listing(shapes)}.")


def expect_locality(got, want, position, what):
    """The gradient of one position: nothing comes from others, and what comes from itself is right."""
    elsewhere = got.clone()
    elsewhere[position] = 0.0
    expect(
        elsewhere.abs().max() < 1e-6,
        f"Position {list(position)} of the result depends on other positions of x. Each position is worked on alone.",
    )
    expect_close(got, want, what)


def slope(function, x, at):
    """The reference's gradient of result[at] with respect to x."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x)[at].sum(), x)
    return gradient


# --- TokenEmbedding -------------------------------------------------------------------------------------

embedding = Exercise(
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
        "nn.Embedding takes padding_idx. It zeroes that row once, when the table is made, and keeps "
        "gradients away from "
        "it. If you then fill the table with new numbers, who zeroes the row?",
        "nn.init.normal_ fills a tensor in place with numbers of the standard deviation std. A variance of "
        "1/d_model is "
        "a standard deviation of …?",
        "Writing into a parameter needs `with torch.no_grad():`. In forward: self.table(ids) * "
        "math.sqrt(d_model), so "
        "keep the factor in self.",
        "nn.init.normal_(self.table.weight, std=d_model**-0.5), then with torch.no_grad(): "
        "self.table.weight[pad_id] = 0.0.",
    ],
)


@functools.cache
def table_with(vocab_size, d_model, pad_id, pad_row=0.0):
    """The check's own table, with this value all over the row of padding."""
    table = normal(vocab_size, d_model, seed=vocab_size)
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


@embedding.property("every id becomes a vector: (batch, time, d_model)", points=1)
def embedding_shape(subject, case):
    built = embedding_with_table(subject, case, must_fit=False)
    expect_floats(built(case["ids"]), (*case["ids"].shape, case["d_model"]))


@embedding.property("one trainable row for each token: vocab_size · d_model numbers", points=1)
def embedding_parameters(subject, case):
    expect_count(subject.build(*sizes_of_table(case)), case["vocab_size"] * case["d_model"])


@embedding.property("each vector is the row of its token, times √d_model", points=2)
def embedding_values(subject, case):
    expect_close(embedding_with_table(subject, case)(case["ids"]), right_vectors(case))


@embedding.property("padding is the zero vector, and training leaves it so", points=1)
def embedding_padding(subject, case):
    built = subject.build(*sizes_of_table(case))
    with built.unobserved():
        vectors = expect_floats(built(torch.tensor([[case["pad_id"]]])))
    starts_at_zero = bool((vectors == 0).all())
    built.load({name: fitted(table_of(case, 0.5), shape)[0] for name, shape in built.shapes().items()})
    (gradient,) = built.parameter_gradients(case["ids"]).values()
    gradient = fitted(gradient, (case["vocab_size"], case["d_model"]))[0]
    moves = gradient.abs().amax(dim=-1) > 0
    built.trace.append(Event("padding", [starts_at_zero, *moves.tolist()]))
    expect(starts_at_zero, f"Just built, the vector of the padding id {case['pad_id']} is not zero.")
    expect(
        not moves[case["pad_id"]],
        f"The row of the padding id {case['pad_id']} gets a gradient: it is zero now, and the first step of training "
        "would move it.",
    )
    used = sorted(set(case["ids"].flatten().tolist()) - {case["pad_id"]})
    expect(moves[used].all(), "The row of a word that occurs gets no gradient: it could never be learned.")


@embedding.property("at the start, the entries of the vectors are about 1 in size", points=1)
def embedding_start(subject, case):
    d_model, many = case["d_model"], 600
    built = subject.build(many, d_model, case["pad_id"])
    with built.unobserved():
        vectors = expect_floats(built(torch.arange(many)[None]))
    size = float(vectors[0, torch.arange(many) != case["pad_id"]].double().pow(2).mean().sqrt())
    powers = {"1": 0.0, "√d": 0.5, "1/√d": -0.5, "d": 1.0, "1/d": -1.0}
    near = [name for name, power in powers.items() if abs(math.log(max(size, 1e-9) / d_model**power)) < 0.12]
    built.trace.append(Event("size at the start", near[0] if near else "another"))
    expect(
        near == ["1"],
        f"With d_model = {d_model} the entries of your vectors start with size {size:.2g} (root mean square). "
        "They should "
        "be about 1: the table starts with variance 1/d_model, and √d_model brings it to 1.",
    )


@embedding.misconception
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


@embedding.misconception
class UsesXavier(nn.Module):
    """You start the table as one starts a Linear (Xavier): then its numbers shrink with the size of the vocabulary.
    Their variance is 1/d_model.
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


@embedding.misconception
class ForgetsTheScale(nn.Module):
    """The row is returned as it is. It is multiplied by √d_model, so that it is not drowned by the position vectors."""

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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
class ScalesByTheLength(nn.Module):
    """Your factor is the root of the length of the sentence: the same word would get another vector in a longer
    sentence. It is √d_model.
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


@embedding.misconception
class LeavesTheTableAtOne(nn.Module):
    """nn.Embedding starts with numbers of variance 1. Multiplied by √d_model they are far too large: the table should
    start with variance 1/d_model.
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


@embedding.misconception
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


@embedding.misconception
class StartsAtTheScaleItself(nn.Module):
    """You start the table with standard deviation √d_model. It is the other way round: small rows, 1/√d_model, and the
    factor in forward makes them 1.
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


@embedding.misconception
class OverwritesThePaddingRow(nn.Module):
    """nn.Embedding zeroes the padding row when it is made, and then your own initialisation overwrites it with random
    numbers. Zero it afterwards.
    """

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model ** (-0.5))

    def forward(self, ids):
        rows = look_up(self.table, ids)
        return rows * self.scale


@embedding.misconception
class LetsPaddingLearn(nn.Module):
    """The padding row is zero at the start, but nothing protects it: it gets gradients and will be a word like any
    other. nn.Embedding has an argument for this.
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


@embedding.misconception
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


@embedding.misconception
class PadsWithZeroAlways(nn.Module):
    """You take id 0 for padding, whatever pad_id says."""

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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
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


@embedding.misconception
class CutsOffTheTable(nn.Module):
    """The vectors are right, but no gradient reaches the table: something detaches it."""

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


@embedding.alternative
class ParameterAndFunction(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        start = torch.randn(vocab_size, d_model) / d_model**0.5
        start[pad_id] = 0
        self.weight = nn.Parameter(start)
        self.pad_id = pad_id

    def forward(self, ids):
        return F.embedding(ids, self.weight, padding_idx=self.pad_id) * self.weight.shape[1] ** 0.5


@embedding.alternative
class OneHotTimesMatrix(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.matrix = nn.Linear(vocab_size, d_model, bias=False)
        nn.init.normal_(self.matrix.weight, std=1 / math.sqrt(d_model))
        self.register_buffer("real", (torch.arange(vocab_size) != pad_id).float())

    def forward(self, ids):
        one_hot = F.one_hot(ids, len(self.real)).to(self.matrix.weight.dtype) * self.real
        return self.matrix(one_hot) * math.sqrt(self.matrix.out_features)


@embedding.alternative
class PaddingHiddenInForward(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model)
        self.emb.weight.data.mul_(d_model**-0.5)
        self.pad_id, self.d_model = pad_id, d_model

    def forward(self, ids):
        vectors = self.emb(ids) * math.sqrt(self.d_model)
        return vectors.masked_fill((ids == self.pad_id)[..., None], 0.0)


@embedding.alternative
class SmallerByDivision(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.lookup = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        with torch.no_grad():
            self.lookup.weight /= math.sqrt(d_model)
        self.factor = nn.Buffer(torch.tensor(float(d_model)).sqrt())

    def forward(self, ids):
        return torch.stack([self.lookup(sentence) for sentence in ids]).mul(self.factor)


@embedding.alternative
class IndexesTheParameter(nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Parameter(torch.normal(0.0, d_model**-0.5, (vocab_size, d_model)))
        self.pad_id = pad_id

    def forward(self, ids):
        is_word = (ids != self.pad_id).unsqueeze(-1)
        return torch.where(is_word, self.table[ids], 0.0) * math.sqrt(self.table.size(-1))


# --- FeedForward ----------------------------------------------------------------------------------------

feeding = Exercise(
    reference.FeedForward,
    cases=[
        {"d_model": 3, "d_ff": 5, "dropout": 0.4, "x": normal(2, 4, 3, seed=31)},
        {"d_model": 6, "d_ff": 4, "dropout": 0.25, "x": normal(3, 2, 6, seed=32)},
        {"d_model": 4, "d_ff": 16, "dropout": 0.3, "x": normal(2, 7, 4, seed=33, scale=3)},
    ],
    minutes=8,
    difficulty=1,
    hints=[
        "Read the formula from the inside out: one Linear, the maximum with 0, one Linear. What are their widths?",
        "nn.Linear(d_in, d_out) works on the last axis, whatever stands in front of it: no loop over positions.",
        "In __init__: self.w_1, self.w_2 and self.dropout = nn.Dropout(dropout). In forward, dropout falls "
        "on the hidden "
        "values, after the ReLU and before the second Linear.",
        "return self.w_2(self.dropout(torch.relu(self.w_1(x))))",
    ],
)


@functools.cache
def feed_forward_numbers(d_model, d_ff):
    """Matrices as in nn.Linear: (out, in)."""
    return {
        "w_1.weight": normal(d_ff, d_model, seed=d_ff, scale=0.8),
        "w_1.bias": normal(d_ff, seed=d_ff + 1, scale=0.5),
        "w_2.weight": normal(d_model, d_ff, seed=d_ff + 2, scale=0.8),
        "w_2.bias": normal(d_model, seed=d_ff + 3, scale=0.5),
    }


def right_hidden(numbers, x):
    return torch.relu(x @ numbers["w_1.weight"].T + numbers["w_1.bias"])


def right_feed_forward(numbers, x):
    return right_hidden(numbers, x) @ numbers["w_2.weight"].T + numbers["w_2.bias"]


def feed_forward_with(subject, case, must_fit=True):
    numbers = feed_forward_numbers(case["d_model"], case["d_ff"])
    sizes = (case["d_model"], case["d_ff"], case["dropout"])
    return filled(subject, sizes, numbers, [case["x"]], right_feed_forward(numbers, case["x"]), must_fit), numbers


@feeding.property("the result has the shape of x", points=1)
def feed_forward_shape(subject, case):
    built, _ = feed_forward_with(subject, case, must_fit=False)
    expect_floats(built(case["x"]), tuple(case["x"].shape))


@feeding.property("two matrices and two biases: 2 · d_model · d_ff + d_ff + d_model numbers", points=1)
def feed_forward_parameters(subject, case):
    d_model, d_ff = case["d_model"], case["d_ff"]
    expect_count(subject.build(d_model, d_ff, case["dropout"]), 2 * d_model * d_ff + d_ff + d_model)


@feeding.property("no position influences another", points=1)
def feed_forward_locality(subject, case):
    built, _ = feed_forward_with(subject, case)
    got = built.gradient(case["x"], wrt=0, at=(0, 1))
    got[0, 1] = 0.0
    expect(
        got.abs().max() < 1e-9,
        "The result at position 1 depends on other positions of x. The same small network works on each "
        "position alone.",
    )


@feeding.property("the values are max(0, x W_1 + b_1) W_2 + b_2", points=2)
def feed_forward_values(subject, case):
    built, numbers = feed_forward_with(subject, case)
    expect_close(built(case["x"]), right_feed_forward(numbers, case["x"]))


@feeding.property("dropout falls on the hidden values, and in training alone", points=1)
def feed_forward_dropout(subject, case):
    x, numbers = normal(3, 9, 7, seed=34), feed_forward_numbers(7, 5)
    built = filled(subject, (7, 5, case["dropout"]), numbers, [x], right_feed_forward(numbers, x))
    expect_close(built(x), right_feed_forward(numbers, x), "the result in evaluation")
    built.train()
    # Where chance strikes differs between right answers, so the answer leaves no trace: what it shows does.
    with built.unobserved():
        outcome = what_is_dropped(expect_floats(built(x), tuple(x.shape)), numbers, x, case["dropout"])
    built.trace.append(Event("dropout", outcome))
    messages = {
        "nothing": f"With dropout {case['dropout']} the module answers in training as it does in evaluation.",
        "not rescaled": "In training hidden values are dropped, but what is left is not divided by 1 - dropout.",
        "kept instead of dropped": "What is left in training is divided by dropout; divide by 1 - dropout, "
        "as nn.Dropout does.",
        "the result": "In training it is entries of the result that are dropped. Here it is the hidden values.",
    }
    messages |= {
        "the input": "In training it is entries of x that are dropped. Here it is the hidden values.",
        "hidden values at another rate": "Hidden values are dropped, but not with the probability "
        "{case['dropout']}.",
    }
    other = "Something is dropped in training, but not just the hidden values between the ReLU and the second Linear."
    expect(outcome == "hidden values", messages.get(outcome, other))
    built.train(False)
    expect_close(built(x), right_feed_forward(numbers, x), "the result in evaluation, after training")


def what_is_dropped(result, numbers, x, dropout):
    """With fewer hidden values than features, the hidden values can be read off the result."""
    hidden = right_hidden(numbers, x)
    result, whole = result.double(), right_feed_forward(numbers, x)
    if is_close(result, whole):
        return "nothing"
    seen = (result - numbers["w_2.bias"]) @ torch.linalg.pinv(numbers["w_2.weight"]).T  # (batch, time, d_ff)
    if is_close(seen @ numbers["w_2.weight"].T + numbers["w_2.bias"], result):
        factors = (seen / hidden)[hidden > 1e-3]
        possible = {"hidden values": 1 / (1 - dropout), "not rescaled": 1.0, "kept instead of dropped": 1 / dropout}
        for name, kept in possible.items():
            if ((factors.abs() < 1e-4) | ((factors - kept).abs() < 1e-4)).all():
                return name
        kept = factors[factors.abs() > 1e-4]
        if len(kept) and is_close(kept, kept[:1].expand_as(kept)):
            return "hidden values at another rate"
        if comes_from_dropped_input(result, numbers, x, dropout):
            return "the input"
    kept = result != 0
    if not kept.all():
        return "the result" if is_close(result[kept], whole[kept] / (1 - dropout)) else "the result and more"
    return "something else"


def comes_from_dropped_input(result, numbers, x, dropout):
    """Whether each position of the result is the answer to x with some of its features missing."""
    every = torch.tensor(list(product((0.0, 1 / (1 - dropout)), repeat=x.shape[-1])), dtype=x.dtype)  # (2^d, d_model)
    possible = right_feed_forward(numbers, x.unsqueeze(-2) * every)  # (batch, time, 2^d, d_model)
    return bool(((possible - result.unsqueeze(-2)).abs().amax(dim=-1).amin(dim=-1) < 1e-4).all())


@feeding.misconception
class HasNoActivation(nn.Module):
    """There is nothing between your two matrices, so they are one matrix in the end. The ReLU in between is what makes
    the network more than a Linear.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class ActivatesAtTheEnd(nn.Module):
    """Your ReLU comes after the second Linear: then no output can be negative, and between the two matrices there is
    nothing. It belongs on the hidden values.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = self.dropout(hidden)
        return torch.relu(self.w_2(hidden))


@feeding.misconception
class ActivatesTwice(nn.Module):
    """A second ReLU stands after the second Linear, so no output can be negative. There is one only, in between."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return torch.relu(self.w_2(hidden))


@feeding.misconception
class ActivatesTheInput(nn.Module):
    """You apply the ReLU to x, before the first Linear. It belongs between the two Linears."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(torch.relu(x))
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class ActivatesTheInputToo(nn.Module):
    """You apply a ReLU to x as well: all that is negative in x is lost before the first Linear sees it."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(torch.relu(x))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesGelu(nn.Module):
    """You use GELU, as GPT and BERT do. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.gelu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesGeluApproximately(nn.Module):
    """You use the approximate GELU of GPT-2. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.gelu(hidden, approximate="tanh")
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesSilu(nn.Module):
    """You use SiLU (swish), as LLaMA does. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.silu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesTanh(nn.Module):
    """You use tanh. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.tanh(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesSigmoid(nn.Module):
    """You use the sigmoid. The formula here has max(0, ·), which is ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.sigmoid(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesLeakyRelu(nn.Module):
    """Your ReLU lets a little of the negative numbers through (leaky ReLU). The formula cuts them off: max(0, ·)."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = nn.functional.leaky_relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class UsesSoftmax(nn.Module):
    """You use a softmax between the two Linears. That is attention; here it is max(0, ·)."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.softmax(dim=-1)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class TakesTheMinimum(nn.Module):
    """You keep the negative numbers and cut the positive ones: max(0, ·) does the opposite."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.clamp(max=0)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class TakesAbsoluteValues(nn.Module):
    """You take absolute values; max(0, ·) turns negative numbers into 0."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = hidden.abs()
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class AddsTheResidual(nn.Module):
    """You add x to the result. The residual path is built around this network later; here x would be counted twice."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden) + x


@feeding.misconception
class NormalisesInside(nn.Module):
    """You normalise inside of the network. The norm stands outside, in the residual path."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return nn.functional.layer_norm(self.w_2(hidden), x.shape[-1:])


@feeding.misconception
class IsAWholeSubLayer(nn.Module):
    """You have built the whole sub-layer, with residual path and norm. Here it is the network alone; the path around
    it comes later.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.norm(x + self.w_2(hidden))


@feeding.misconception
class HasNoBiasesInside(nn.Module):
    """Your two Linears have no biases: b_1 and b_2 are missing."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class HasNoFirstBias(nn.Module):
    """The first Linear has no bias: b_1 is missing."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class HasNoSecondBias(nn.Module):
    """The second Linear has no bias: b_2 is missing."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class NeverWidens(nn.Module):
    """Your hidden layer has d_model values. It has d_ff: the network widens and narrows again."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_model)
        self.w_2 = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class TakesDFfForARatio(nn.Module):
    """You take d_ff for a factor and make the hidden layer d_ff · d_model wide. It is the width itself."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff * d_model)
        self.w_2 = nn.Linear(d_ff * d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class StaysWide(nn.Module):
    """The second Linear does not come back to d_model: a residual path needs the shape that came in."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class ForgetsTheSecondLinear(nn.Module):
    """You return the hidden values. The second Linear brings them back to d_model."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return hidden


@feeding.misconception
class LooksAtItsNeighbours(nn.Module):
    """Your convolutions are 3 positions wide, so each position mixes with its neighbours. With width 1 they are what a
    Linear is.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 3, padding=1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 3, padding=1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x.transpose(1, 2))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden).transpose(1, 2)


@feeding.misconception
class ConvolvesWithoutTransposing(nn.Module):
    """Conv1d wants the channels in the middle, (batch, d_model, time). Without a transpose it takes your time axis for
    channels.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class LeavesTheChannelsInTheMiddle(nn.Module):
    """Your convolutions are right, but the result still has the channels in the middle: (batch, d_model, time). Turn
    it back.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Conv1d(d_model, d_ff, 1)
        self.w_2 = nn.Conv1d(d_ff, d_model, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x.transpose(1, 2))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class AveragesOverTime(nn.Module):
    """You average over the positions somewhere. Each position has its own hidden values."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x).mean(dim=1, keepdim=True).expand(-1, x.shape[1], -1)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class ForgetsDropout(nn.Module):
    """Nothing is dropped in training. Dropout falls on the hidden values."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        return self.w_2(hidden)


@feeding.misconception
class DropsTheResult(nn.Module):
    """Your dropout falls on the result, after the second Linear. Here it falls on the hidden values, before it."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        return self.dropout(self.w_2(hidden))


@feeding.misconception
class DropsTwice(nn.Module):
    """You drop hidden values and entries of the result. Here it is the hidden values alone."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.dropout(self.w_2(hidden))


@feeding.misconception
class DropsTheInput(nn.Module):
    """Your dropout falls on x. Here it falls on the hidden values, after the ReLU."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(self.dropout(x))
        hidden = torch.relu(hidden)
        return self.w_2(hidden)


@feeding.misconception
class FixesTheDropout(nn.Module):
    """You drop with a fixed probability and not with the one that is given."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class DropsInputAndHidden(nn.Module):
    """You drop entries of x as well as hidden values. Here it is the hidden values alone."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(self.dropout(x))
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.misconception
class DropsInEvaluationToo(nn.Module):
    """You drop values in evaluation too, so the answers are random. nn.Dropout knows by itself; the function F.dropout
    has to be told: training=self.training.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = nn.functional.dropout(hidden, self.dropout.p)
        return self.w_2(hidden)


@feeding.misconception
class DropsWithoutRescaling(nn.Module):
    """What is kept is not divided by 1 - dropout: in evaluation the second Linear would see larger values than it was
    trained on.
    """

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden) * (1 - self.dropout.p if self.training else 1)
        return self.w_2(hidden)


@feeding.misconception
class KeepsWithTheProbability(nn.Module):
    """You take dropout for the probability to keep a value. It is the probability to drop one."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(1 - dropout)

    def forward(self, x):
        hidden = self.w_1(x)
        hidden = torch.relu(hidden)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)


@feeding.alternative
class AsOneSequence(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


@feeding.alternative
class AsTwoConvolutions(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.conv1 = nn.Conv1d(d_model, d_ff, kernel_size=1)
        self.conv2 = nn.Conv1d(d_ff, d_model, kernel_size=1)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.conv2(self.drop(F.relu(self.conv1(x.transpose(1, 2))))).transpose(1, 2)


@feeding.alternative
class WithItsOwnMatrices(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.W1 = nn.Parameter(torch.randn(d_model, d_ff) * d_model**-0.5)
        self.b1 = nn.Parameter(torch.zeros(d_ff))
        self.W2 = nn.Parameter(torch.randn(d_ff, d_model) * d_ff**-0.5)
        self.b2 = nn.Parameter(torch.zeros(1, 1, d_model))
        self.p = dropout

    def forward(self, x):
        hidden = (torch.einsum("btm,mf->btf", x, self.W1) + self.b1).clamp(min=0)
        return F.dropout(hidden, self.p, self.training) @ self.W2 + self.b2


@feeding.alternative
class DropsBeforeTheRelu(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.outer = nn.Linear(d_ff, d_model)
        self.inner = nn.Linear(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        # max(0, c·h) = c·max(0, h) for c ≥ 0: the order of the two makes no difference
        hidden = self.dropout(self.inner(x))
        return self.outer(torch.maximum(hidden, torch.zeros_like(hidden)))


@feeding.alternative
class PositionByPosition(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x):
        results = []
        for t in range(x.shape[1]):
            hidden = self.up(x[:, t])
            hidden = hidden * (hidden > 0)
            if self.training:
                hidden = hidden * (torch.rand_like(hidden) >= self.dropout) / (1 - self.dropout)
            results.append(self.down(hidden))
        return torch.stack(results, dim=1)


# --- LayerNorm ------------------------------------------------------------------------------------------

layer_norming = Exercise(
    reference.LayerNorm,
    cases=[
        {"d_model": 4, "eps": 1e-5, "x": torch.tensor([[1.0, 2.0, 3.0, 6.0], [4.0, 0.0, -2.0, 2.0]]).double()},
        {"d_model": 5, "eps": 0.4, "x": normal(2, 3, 5, seed=41) + 1.0},
        {"d_model": 3, "eps": 0.01, "x": torch.tensor([[[2.0, 2.0, 2.0], [1.0, 0.0, -4.0]]]).double()},
        {"d_model": 7, "eps": 1e-3, "x": normal(2, 3, 5, 7, seed=42, scale=0.05)},
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Each position is normalised by its own features: mean and variance are taken along the last axis, "
        "and that axis "
        "is kept with length 1, so that they can be subtracted and divided.",
        "The formula divides the sum of squares by d_model. torch.var and torch.std divide by d_model - 1 unless you "
        "pass unbiased=False (or correction=0).",
        "Where does the formula have eps: under the root or beside it? And what is under the root: variance "
        "or deviation?",
        "In __init__: self.gain = nn.Parameter(torch.ones(d_model)), and the bias likewise with zeros.",
        "mean = x.mean(dim=-1, keepdim=True); variance = (x - mean).pow(2).mean(dim=-1, keepdim=True); "
        "self.gain * (x - mean) / torch.sqrt(variance + self.eps) + self.bias",
    ],
)


@functools.cache
def norm_numbers(d_model):
    return {"gain": normal(d_model, seed=d_model) + 1.3, "bias": normal(d_model, seed=d_model + 1)}


def right_layer_norm(case, x=None):
    x = case["x"] if x is None else x
    numbers = norm_numbers(case["d_model"])
    return F.layer_norm(x, (case["d_model"],), numbers["gain"], numbers["bias"], case["eps"])


def layer_norm_with(subject, case, must_fit=True):
    numbers = norm_numbers(case["d_model"])
    return filled(subject, (case["d_model"], case["eps"]), numbers, [case["x"]], right_layer_norm(case), must_fit)


@layer_norming.property("the result has the shape of x", points=1)
def layer_norm_shape(subject, case):
    built = layer_norm_with(subject, case, must_fit=False)
    expect_floats(built(case["x"]), tuple(case["x"].shape))


@layer_norming.property("a gain and a bias for each feature, which change nothing at the start", points=1)
def layer_norm_parameters(subject, case):
    built = subject.build(case["d_model"], case["eps"])
    expect_count(built, 2 * case["d_model"])
    expect_start(built)


def expect_start(built):
    """A gain starts as ones, a bias as zeros; which is which may not be known."""
    starts = {name: sorted(set(tensor.flatten().tolist())) for name, tensor in built.state().items()}
    names = set(built.shapes())
    found = sorted(starts[name] for name in names)
    built.trace.append(Event("start", str(found)))
    want = sorted([[1.0], [0.0]][: len(names)])
    shown = "; ".join(f"{name} holds {starts[name][:3]}" for name in sorted(names))
    expect(
        found == want, f"At the start the gain is 1 everywhere{' and the bias 0' if len(names) > 1 else ''}. {shown}."
    )


@layer_norming.property("each position is normalised by itself", points=1)
def layer_norm_locality(subject, case):
    if has_flat_position(case):
        return
    built = layer_norm_with(subject, case)
    position = tuple(size - 1 for size in case["x"].shape[:-1])
    got = built.gradient(case["x"], wrt=0, at=(*position, 1))
    got[position] = 0.0
    expect(
        got.abs().max() < 1e-6,
        f"Position {list(position)} of the result depends on other positions of x: mean and variance are "
        "taken over too "
        "much, or over the wrong axis.",
    )


def has_flat_position(case):
    """Whether all features of some position are equal. A root has no slope there, and right answers differ in it."""
    return bool((case["x"].amax(dim=-1) == case["x"].amin(dim=-1)).any())


def just_built(subject, case):
    """The student's norm as it starts, but in double precision."""
    built = subject.build(case["d_model"], case["eps"])
    state = built.state()
    built.load({name: state[name].double() for name in built.shapes()})
    return built


@layer_norming.property("just built, it gives every position mean 0 and variance 1 (but for eps)", points=1)
def layer_norm_statistics(subject, case):
    got = expect_floats(just_built(subject, case)(case["x"]), tuple(case["x"].shape)).double()
    variance = case["x"].var(dim=-1, unbiased=False)
    means = got.mean(dim=-1)
    expect_close(means, torch.zeros_like(means), "the mean of each position of the result")
    want = variance / (variance + case["eps"])
    expect_close(got.var(dim=-1, unbiased=False), want, "the variance of each position of the result")


@layer_norming.property("the values, with gain, bias and eps in their places, and their gradients", points=2)
def layer_norm_values(subject, case):
    built = layer_norm_with(subject, case)
    expect_close(built(case["x"]), right_layer_norm(case))
    if not subject.changed_inputs and not has_flat_position(case):
        at = (*(0 for _ in case["x"].shape[:-1]), 1)
        want = slope(lambda x: right_layer_norm(case, x), case["x"], at)
        expect_close(built.gradient(case["x"], wrt=0, at=at), want, f"the gradient of the result at {list(at)}")


@layer_norming.misconception
class UsesStdPlusEps(nn.Module):
    """This is a norm that stands in many public programs: `x.std()`, which divides by d_model - 1, and eps beside the
    root. The formula divides by d_model and has eps under the root.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = x.var(dim=-1, keepdim=True)
        normalised = centred / (torch.sqrt(variance) + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class UsesTheUnbiasedVariance(nn.Module):
    """Your variance divides by d_model - 1 (as torch.var does unless told otherwise). The formula divides by d_model:
    it describes these features and does not estimate those of a larger population.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class PutsEpsBesideTheRoot(nn.Module):
    """You add eps to the standard deviation. In the formula it is added to the variance, under the root."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / (torch.sqrt(variance) + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class TakesTheRootOfTheDeviation(nn.Module):
    """You take a root twice: under your root there is already the standard deviation. Under the root stands the
    variance.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(torch.sqrt(variance) + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class DividesByTheVariance(nn.Module):
    """You divide by the variance and not by its root, the standard deviation: the result does not have variance 1."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / (variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class MultipliesByTheDeviation(nn.Module):
    """You multiply by the standard deviation; a position that varies much should become smaller."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred * torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class ForgetsEps(nn.Module):
    """There is no eps in your formula: where all features of a position are equal, it divides 0 by 0."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class FixesEps(nn.Module):
    """You do not use the eps that you are given, but a fixed one."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = 1e-05

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class TakesEpsForABound(nn.Module):
    """You use eps as a lower bound of the standard deviation. In the formula it is added to the variance, always."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance).clamp(min=self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class BoundsTheVariance(nn.Module):
    """You use eps as a lower bound of the variance. In the formula it is added, always."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance.clamp(min=self.eps))
        return self.gain * normalised + self.bias


@layer_norming.misconception
class SquaresEps(nn.Module):
    """You add eps². In the formula eps itself is added to the variance."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps**2)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NormalisesOverTime(nn.Module):
    """Your mean and variance are taken along the time axis, for each feature. LayerNorm takes them over the features
    of each position, the last axis.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-2, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-2, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NormalisesOverTheBatch(nn.Module):
    """Your mean and variance are taken along the first axis, over the batch: that is batch normalisation. LayerNorm
    takes them over the features of each position.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=0, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=0, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NormalisesWholeSentences(nn.Module):
    """You take one mean and one variance for all positions of a sentence. Each position has its own."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=(-2, -1), keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=(-2, -1), keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NormalisesEverythingAtOnce(nn.Module):
    """You take one mean and one variance for the whole tensor. Each position has its own: say along which axis."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean()
        centred = x - mean
        variance = centred.pow(2).mean()
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NormalisesLikeABatchNorm(nn.Module):
    """You take one mean and one variance for each feature, over batch and time: that is batch normalisation. LayerNorm
    takes them over the features of each position.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=tuple(range(x.dim() - 1)), keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=tuple(range(x.dim() - 1)), keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NormalisesAlongAxisOne(nn.Module):
    """You take mean and variance along axis 1. That is the time axis of (batch, time, d_model); the features are the
    last one, dim=-1.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class ForgetsKeepdim(nn.Module):
    """Your statistics have lost an axis, so they meet the wrong one. keepdim=True keeps it with length 1."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class SumsInsteadOfAveraging(nn.Module):
    """You add the squares up and never divide by d_model."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).sum(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class UsesAbsoluteDeviations(nn.Module):
    """You average absolute deviations. The variance is the mean of the squared ones."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.abs().mean(dim=-1, keepdim=True).pow(2)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class NeverSubtractsTheMean(nn.Module):
    """The mean is never subtracted: you divide by the root of the mean square. That is RMSNorm, which comes next."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class DividesTheRawInput(nn.Module):
    """The variance is right, but you divide x itself by its root. What is divided is x minus its mean."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class OnlyCentres(nn.Module):
    """You subtract the mean and never divide by the standard deviation."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred
        return self.gain * normalised + self.bias


@layer_norming.misconception
class HasNothingToLearn(nn.Module):
    """There is nothing to learn in your norm: gain and bias are missing, or they are plain tensors. nn.Parameter makes
    them trainable.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = torch.ones(d_model)
        self.bias = torch.zeros(d_model)
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class HasNoBiasAtAll(nn.Module):
    """Your norm has a gain and no bias."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised


@layer_norming.misconception
class ForgetsToApplyThem(nn.Module):
    """Gain and bias are there but never used."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return normalised


@layer_norming.misconception
class ForgetsTheGain(nn.Module):
    """The gain is there but never used."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return normalised + self.bias


@layer_norming.misconception
class ForgetsTheBias(nn.Module):
    """The bias is there but never used."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised


@layer_norming.misconception
class MultipliesTheBiasToo(nn.Module):
    """The gain multiplies your bias too. The bias is added at the end."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * (normalised + self.bias)


@layer_norming.misconception
class AddsOneToTheGain(nn.Module):
    """You multiply by 1 + gain. Then the gain would have to start at 0; here it starts at 1 and is the factor."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return (1 + self.gain) * normalised + self.bias


@layer_norming.misconception
class SharesOneGain(nn.Module):
    """You have one gain and one bias for all features. Each feature has its own: d_model of each."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class StartsAtZero(nn.Module):
    """Your gain starts at 0, so the norm answers the same for every x. It starts at 1."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class StartsTheBiasAtOne(nn.Module):
    """Your bias starts at 1. It starts at 0, so that the norm at first only normalises."""

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.misconception
class DetachesTheStatistics(nn.Module):
    """The values are right, but mean and variance are cut off from the gradient: they depend on x, and the gradient
    has to know.
    """

    def __init__(self, d_model, eps=1e-05):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean = x.detach().mean(dim=-1, keepdim=True)
        centred = x - mean
        variance = centred.detach().pow(2).mean(dim=-1, keepdim=True)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias


@layer_norming.alternative
class TorchsOwnModule(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)

    def forward(self, x):
        return self.norm(x)


@layer_norming.alternative
class ByVarMean(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.gamma + self.beta


@layer_norming.alternative
class MeanOfSquaresMinusSquareOfMean(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(1, d_model))
        self.q = nn.Parameter(torch.ones(1, d_model))
        self.eps = eps

    def forward(self, x):
        mean = x.sum(-1, keepdim=True) / x.size(-1)
        variance = (x * x).sum(-1, keepdim=True) / x.size(-1) - mean**2
        return torch.addcmul(self.p, (x - mean) / (variance + self.eps) ** 0.5, self.q).reshape(x.shape)


@layer_norming.alternative
class RowAfterRow(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        rows = []
        for row in x.reshape(-1, x.shape[-1]):
            centred = row - row.mean()
            rows.append(centred / (centred.dot(centred) / len(row) + self.eps).sqrt())
        return torch.stack(rows).view(*x.shape) * self.weight + self.bias


@layer_norming.alternative
class ByLengthOfTheCentred(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(d_model))
        self.b_2 = nn.Parameter(torch.zeros(d_model))
        self.eps, self.d_model = eps, d_model

    def forward(self, x):
        centring = torch.eye(self.d_model, dtype=x.dtype) - 1 / self.d_model
        centred = x @ centring
        squares = torch.einsum("...d,...d->...", centred, centred).unsqueeze(-1)
        return self.a_2 * centred * math.sqrt(self.d_model) / (squares + self.d_model * self.eps).sqrt() + self.b_2


# --- RMSNorm --------------------------------------------------------------------------------------------

rms_norming = Exercise(
    reference.RMSNorm,
    cases=[
        {"d_model": 4, "eps": 1e-6, "x": torch.tensor([[1.0, 1.0, 3.0, 5.0], [2.0, -2.0, 2.0, -2.0]]).double()},
        {"d_model": 5, "eps": 0.4, "x": normal(2, 3, 5, seed=51) + 1.0},
        {"d_model": 3, "eps": 0.01, "x": torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, -4.0]]]).double()},
        {"d_model": 7, "eps": 1e-3, "x": normal(2, 3, 5, 7, seed=52, scale=0.05)},
    ],
    minutes=6,
    difficulty=1,
    hints=[
        "The name is the recipe, read from right to left: square the features, take their mean, take the "
        "root. Then divide.",
        "No mean is subtracted and no bias is added. eps stands under the root, as before.",
        "The mean of the squares goes along the last axis, with keepdim=True.",
        "mean_square = x.pow(2).mean(dim=-1, keepdim=True); self.gain * x / torch.sqrt(mean_square + self.eps)",
    ],
)


def right_rms_norm(case, x=None):
    x = case["x"] if x is None else x
    return F.rms_norm(x, (case["d_model"],), norm_numbers(case["d_model"])["gain"], case["eps"])


def rms_norm_with(subject, case, must_fit=True):
    numbers = {"gain": norm_numbers(case["d_model"])["gain"]}
    return filled(subject, (case["d_model"], case["eps"]), numbers, [case["x"]], right_rms_norm(case), must_fit)


@rms_norming.property("the result has the shape of x", points=1)
def rms_norm_shape(subject, case):
    built = rms_norm_with(subject, case, must_fit=False)
    expect_floats(built(case["x"]), tuple(case["x"].shape))


@rms_norming.property("a gain for each feature and nothing else, which changes nothing at the start", points=1)
def rms_norm_parameters(subject, case):
    built = subject.build(case["d_model"], case["eps"])
    expect_count(built, case["d_model"])
    expect_start(built)


@rms_norming.property("each position is normalised by itself", points=1)
def rms_norm_locality(subject, case):
    if has_flat_position(case):
        return
    built = rms_norm_with(subject, case)
    position = tuple(size - 1 for size in case["x"].shape[:-1])
    got = built.gradient(case["x"], wrt=0, at=(*position, 1))
    got[position] = 0.0
    expect(
        got.abs().max() < 1e-6,
        f"Position {list(position)} of the result depends on other positions of x: the mean is taken over too "
        "much, or "
        "along the wrong axis.",
    )


@rms_norming.property("just built, it gives every position a mean square of 1 (but for eps)", points=1)
def rms_norm_statistics(subject, case):
    got = expect_floats(just_built(subject, case)(case["x"]), tuple(case["x"].shape)).double()
    mean_square = case["x"].pow(2).mean(dim=-1)
    want = mean_square / (mean_square + case["eps"])
    expect_close(got.pow(2).mean(dim=-1), want, "the mean square of each position of the result")


@rms_norming.property("the values, with gain and eps in their places, and their gradients", points=1)
def rms_norm_values(subject, case):
    built = rms_norm_with(subject, case)
    expect_close(built(case["x"]), right_rms_norm(case))
    if not subject.changed_inputs and not has_flat_position(case):
        at = (*(-1 for _ in case["x"].shape[:-1]), 1)
        want = slope(lambda x: right_rms_norm(case, x), case["x"], at)
        expect_close(built.gradient(case["x"], wrt=0, at=at), want, "the gradient of the result at the last position")


@rms_norming.misconception
class RmsPlusEps(nn.Module):
    """You add eps to the root mean square. In the formula it is added to the mean square, under the root."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / (torch.sqrt(mean_square) + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class UsesTheVariance(nn.Module):
    """You use the variance, that is squares of x minus its mean. RMSNorm squares x itself."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.var(dim=-1, keepdim=True, unbiased=False)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class UsesTheUnbiasedVarianceInstead(nn.Module):
    """You use torch.var: it subtracts the mean and divides by d_model - 1. RMSNorm takes the plain mean of x²."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.var(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class TakesTheRootTwice(nn.Module):
    """You take a root twice: under your root there is already a root mean square (or a standard deviation). Under the
    root stands the mean square.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(torch.sqrt(mean_square) + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class RootOfTheStandardDeviation(nn.Module):
    """Under your root stands the standard deviation of x. It should be the mean of x²."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.std(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class ForgetsTheRoot(nn.Module):
    """You divide by the mean square and forget the root: the result is not of size 1."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / (mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class MultipliesByTheRms(nn.Module):
    """You multiply by the root mean square; large positions should become smaller. rsqrt is 1 divided by the root."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x * torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class SubtractsTheMean(nn.Module):
    """You subtract the mean first: that is LayerNorm without its bias. RMSNorm leaves the mean where it is."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        x = x - x.mean(dim=-1, keepdim=True)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class DividesTheCentred(nn.Module):
    """You divide x minus its mean. RMSNorm divides x itself."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = (x - x.mean(dim=-1, keepdim=True)) / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class DividesByTheLength(nn.Module):
    """You divide by the length of the vector, the root of the *sum* of squares. It is the root of their mean: √d_model
    times less.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).sum(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class SquaresTheMean(nn.Module):
    """You square the mean. It is the mean of the squares: first square, then average."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.mean(dim=-1, keepdim=True).pow(2)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class AveragesAbsoluteValues(nn.Module):
    """You average absolute values. The root mean square squares first, and takes the root at the end."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.abs().mean(dim=-1, keepdim=True).pow(2)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class MeanSquareOverTime(nn.Module):
    """Your mean of squares goes along the time axis. It goes over the features of each position, the last axis."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-2, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class MeanSquareAlongAxisOne(nn.Module):
    """Your mean of squares goes along axis 1. That is the time axis of (batch, time, d_model); the features are the
    last one, dim=-1.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class MeanSquareOverTheBatch(nn.Module):
    """Your mean of squares goes along the first axis, the batch. It goes over the features of each position."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=0, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class MeanSquareOfASentence(nn.Module):
    """You take one mean square for all positions of a sentence. Each position has its own."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=(-2, -1), keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class MeanSquareOfEverything(nn.Module):
    """You take one mean square for the whole tensor. Each position has its own: say along which axis."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean()
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class LosesTheAxis(nn.Module):
    """Your mean square has lost an axis, so it is lined up with the wrong one. keepdim=True keeps it with length 1."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class HasABias(nn.Module):
    """Your norm has a bias. RMSNorm has a gain alone."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised + self.bias


@rms_norming.misconception
class HasNoGain(nn.Module):
    """There is nothing to learn in your norm: the gain is missing, or it is a plain tensor. nn.Parameter makes it
    trainable.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = torch.ones(d_model)
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class NeverAppliesTheGain(nn.Module):
    """The gain is there but never used."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return normalised


@rms_norming.misconception
class AddsOneToTheFactor(nn.Module):
    """You multiply by 1 + gain. Then the gain would have to start at 0; here it starts at 1 and is the factor."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return (1 + self.gain) * normalised


@rms_norming.misconception
class SharesOneGainForAll(nn.Module):
    """You have one gain for all features. Each feature has its own."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.eps = eps

    def forward(self, x):
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class StartsTheGainAtZero(nn.Module):
    """Your gain starts at 0, so the norm answers 0 to everything. It starts at 1."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class BoundsTheMeanSquare(nn.Module):
    """You use eps as a lower bound of the mean square. In the formula it is added, always."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square.clamp(min=self.eps))
        return self.gain * normalised


@rms_norming.misconception
class LeavesEpsOut(nn.Module):
    """There is no eps in your formula: a position of zeros (padding!) divides 0 by 0."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square)
        return self.gain * normalised


@rms_norming.misconception
class IgnoresTheGivenEps(nn.Module):
    """You do not use the eps that you are given, but a fixed one."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = 1e-06

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.misconception
class AddsTheSquareOfEps(nn.Module):
    """You add eps². In the formula eps itself is added to the mean square."""

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps**2)
        return self.gain * normalised


@rms_norming.misconception
class DetachesTheMeanSquare(nn.Module):
    """The values are right, but the mean square is cut off from the gradient: it depends on x, and the gradient has to
    know.
    """

    def __init__(self, d_model, eps=1e-06):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        check_width(x, self.gain)
        mean_square = x.detach().pow(2).mean(dim=-1, keepdim=True)
        normalised = x / torch.sqrt(mean_square + self.eps)
        return self.gain * normalised


@rms_norming.alternative
class TorchsOwnRmsNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.norm = nn.RMSNorm(d_model, eps=eps)

    def forward(self, x):
        return self.norm(x)


@rms_norming.alternative
class ByTheReciprocalRoot(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.variance_epsilon = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon))


@rms_norming.alternative
class ByTheLength(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1, 1, d_model))
        self.eps = eps

    def forward(self, x):
        d_model = x.shape[-1]
        length = torch.sqrt(x.square().sum(-1, keepdim=True) + d_model * self.eps)
        return (x / length * self.g * d_model**0.5).reshape(x.shape)


@rms_norming.alternative
class InSinglePrecisionInside(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y / (y.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()
        return y.type_as(x) * self.scale


@rms_norming.alternative
class ByEinsum(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        squares = torch.einsum("...d,...d->...", x, x) / x.size(-1)
        return torch.einsum("...d,...,d->...d", x, (squares + self.eps).pow(-0.5), self.gain)


# --- masked_batch_statistics ----------------------------------------------------------------------------


def real_positions(*lengths):
    """(batch, time), True on the first so many positions of each sentence."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


statistics = Exercise(
    reference.masked_batch_statistics,
    cases=[
        {
            "x": torch.tensor([[[1.0, 10.0], [3.0, 0.0]], [[5.0, 20.0], [9.0, 9.0]]]).double(),
            "mask": torch.tensor([[True, True], [True, False]]),
        },
        {"x": normal(2, 10, 3, seed=61) * real_positions(1, 10)[..., None] + 0.0, "mask": real_positions(1, 10)},
        {"x": normal(3, 5, 4, seed=62) + 2.0, "mask": real_positions(5, 2, 4)},
        {"x": normal(2, 4, 5, seed=63) - 1.0, "mask": real_positions(3, 4).flip(1)},
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "First the number of real positions: count the True in the mask. Every mean here divides by that number.",
        "x is (batch, time, d_model) and the mask (batch, time): the mask needs an axis of length 1 at the "
        "end before "
        "the two can meet.",
        "Set padding to 0 and add up over batch and time. For the variance, subtract the mean first; then "
        "padding is no "
        "longer 0 and has to be hidden a second time.",
        "Another way: x[mask] is a matrix with the real positions alone, (count, d_model).",
        "mean = x[mask].mean(dim=0); variance = (x[mask] - mean).pow(2).mean(dim=0)",
    ],
)


def statistics_answer(subject, case, x=None):
    x = case["x"] if x is None else x
    mean, variance = expect_tuple(subject(x, case["mask"]), ("mean", "variance"))
    width = (x.shape[-1],)
    return expect_floats(mean, width, "the mean"), expect_floats(variance, width, "the variance")


@statistics.property("mean and variance have one number for each feature: (d_model,)", points=1)
def statistics_shape(subject, case):
    statistics_answer(subject, case)


@statistics.property("the mean is that of the real positions, all of equal weight", points=1)
def statistics_mean(subject, case):
    mean, _ = statistics_answer(subject, case)
    expect_close(mean, case["x"][case["mask"]].mean(dim=0), "the mean")


@statistics.property("the variance is the mean squared distance of the real positions from that mean", points=1)
def statistics_variance(subject, case):
    _, variance = statistics_answer(subject, case)
    expect_close(variance, case["x"][case["mask"]].var(dim=0, unbiased=False), "the variance")


@statistics.property("what stands in the padding makes no difference", points=1)
def statistics_padding(subject, case):
    junk = case["x"].masked_fill(~case["mask"][..., None], 70.0)
    for name, got, want in zip(
        ("mean", "variance"), statistics_answer(subject, case, junk), statistics_answer(subject, case), strict=True
    ):
        expect_close(got, want, f"the {name}, with 70 in all padding,")


@statistics.property("gradients reach the real positions and no padding", points=1)
def statistics_gradient(subject, case):
    statistics_answer(subject, case)
    for output, name in enumerate(("mean", "variance") if not subject.changed_inputs else ()):
        got = subject.gradient(case["x"], case["mask"], wrt=0, output=output)
        want = slope_of_statistics(case, output)
        expect_close(got, want, f"the gradient of the {name} with respect to x")


def slope_of_statistics(case, output):
    x = case["x"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(reference.masked_batch_statistics(x, case["mask"])[output].sum(), x)
    return gradient


@statistics.misconception
def counts_padding(x, mask):
    """You never use the mask: padding is counted like real positions. That is exactly the trouble with batch
    normalisation.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.numel()
    total = x.sum(dim=(0, 1))
    mean = total / count
    centred = x - mean
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def zeroes_padding_but_counts_it(x, mask):
    """You set padding to 0 but still divide by all positions, batch · time. Divide by the number of real ones."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.numel()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def divides_by_the_sentences(x, mask):
    """You divide by the number of sentences. Divide by the number of real positions."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = x.shape[0]
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def divides_by_the_length(x, mask):
    """You divide by the length of the time axis. Divide by the number of real positions in the whole batch."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = x.shape[1]
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def divides_by_all_numbers(x, mask):
    """You divide by the number of real *numbers*, positions times d_model. A feature has one number for each real
    position.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.expand_as(x).sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def averages_squares_over_padding(x, mask):
    """The mean is right, but the squares are divided by all positions, padding included."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / real.numel()
    return (mean, variance)


@statistics.misconception
def takes_the_padding(x, mask):
    """Your mask is the wrong way round: True means a real position here, and you averaged the padding."""
    check_positions(x, mask)
    real = ~mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def uses_the_unbiased_variance(x, mask):
    """Your variance divides by the number of real positions minus 1. It divides by the number itself."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / (count - 1)
    return (mean, variance)


@statistics.misconception
def centres_padding_too(x, mask):
    """After the mean is subtracted, padding is no longer 0: its squares are in your variance. Hide it again."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = x.masked_fill(~real, 0.0) - mean
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def hides_padding_in_the_mean_alone(x, mask):
    """The mean is right, but padding is in your variance: its squares are added up too. Hide it there as well."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = x - mean
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def never_centres(x, mask):
    """You average the squares of x itself. The variance is about distances from the mean."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = x.masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance)


@statistics.misconception
def returns_the_deviation(x, mask):
    """You return the standard deviation; the variance is wanted, without the root."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean, variance.sqrt())


@statistics.misconception
def averages_the_sentences(x, mask):
    """You average each sentence and then the averages, so a word in a short sentence counts more. All real positions
    have equal weight.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum(dim=1)
    total = x.masked_fill(~real, 0.0).sum(dim=1)
    mean = (total / count).mean(dim=0)
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = (centred.pow(2).sum(dim=1) / count).mean(dim=0)
    return (mean, variance)


@statistics.misconception
def keeps_the_sentences_apart(x, mask):
    """You have one mean for each sentence. Batch statistics are taken over batch and time together."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum(dim=1)
    total = x.masked_fill(~real, 0.0).sum(dim=1)
    mean = total / count
    centred = (x - mean.unsqueeze(1)).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=1) / count
    return (mean, variance)


@statistics.misconception
def keeps_the_positions_apart(x, mask):
    """You have one mean for each place in time. Batch statistics are taken over batch and time together."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum(dim=0)
    total = x.masked_fill(~real, 0.0).sum(dim=0)
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=0) / count
    return (mean, variance)


@statistics.misconception
def averages_the_features(x, mask):
    """You average over the features of each position: that is layer normalisation. Batch statistics have one number
    for each feature.
    """
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = x.shape[-1]
    total = x.masked_fill(~real, 0.0).sum(dim=-1)
    mean = total / count
    centred = (x - mean.unsqueeze(-1)).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=-1) / count
    return (mean, variance)


@statistics.misconception
def makes_one_number(x, mask):
    """You average everything into one number. Each feature has its own mean and variance."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum() * x.shape[-1]
    total = x.masked_fill(~real, 0.0).sum()
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum() / count
    return (mean, variance)


@statistics.misconception
def spreads_one_number_out(x, mask):
    """You average over the features too. Each feature has its own mean and variance."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum() * x.shape[-1]
    total = x.masked_fill(~real, 0.0).sum().expand(x.shape[-1])
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum().expand(x.shape[-1]) / count
    return (mean, variance)


@statistics.misconception
def exchanges_the_two(x, mask):
    """The two results stand in the wrong order: the mean comes first, the variance second."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (variance, mean)


@statistics.misconception
def returns_the_mean_alone(x, mask):
    """Only the mean comes back. Return the variance too: (mean, variance)."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return mean


@statistics.misconception
def returns_sums(x, mask):
    """You never divide by the number of real positions: these are sums."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1))
    return (mean, variance)


@statistics.misconception
def forgets_to_divide_the_squares(x, mask):
    """The squares are added up, but never divided by the number of real positions."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1))
    return (mean, variance)


@statistics.misconception
def cuts_statistics_off(x, mask):
    """The numbers are right, but no gradient comes back through them: something detaches them."""
    check_positions(x, mask)
    real = mask.unsqueeze(-1)
    count = real.sum()
    total = x.masked_fill(~real, 0.0).sum(dim=(0, 1))
    mean = total / count
    centred = (x - mean).masked_fill(~real, 0.0)
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return (mean.detach(), variance.detach())


@statistics.alternative
def by_indexing(x, mask):
    real = x[mask]
    return real.mean(dim=0), real.var(dim=0, unbiased=False)


@statistics.alternative
def by_weights(x, mask):
    weights = mask.to(x.dtype) / mask.sum()
    mean = torch.einsum("bt,btd->d", weights, x)
    return mean, torch.einsum("bt,btd->d", weights, (x - mean) ** 2)


@statistics.alternative
def by_squares_minus_square(x, mask):
    m = mask[:, :, None].double()
    mean = (x * m).sum((0, 1)) / m.sum()
    return mean, (x**2 * m).sum((0, 1)) / m.sum() - mean**2


@statistics.alternative
def sentence_after_sentence(x, mask):
    rows = [x[b, t] for b in range(x.shape[0]) for t in range(x.shape[1]) if mask[b, t]]
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) * (row - mean) for row in rows) / len(rows)
    return [mean, variance]


@statistics.alternative
def by_where_and_var_mean(x, mask):
    flat = x.flatten(0, 1).transpose(0, 1)[:, mask.flatten()]  # (d_model, count)
    variance, mean = torch.var_mean(flat, dim=1, correction=0)
    return mean, variance


# --- residual_post_norm and residual_pre_norm -----------------------------------------------------------


def residual_case(*shape, seed, scale=1.0):
    d_model = shape[-1]
    return {
        "x": normal(*shape, seed=seed, scale=scale) + 0.5,
        "sublayer": AffineMap(normal(d_model, d_model, seed=seed + 1, scale=0.7), normal(d_model, seed=seed + 2)),
        "norm": RowNorm(normal(d_model, seed=seed + 3) + 1.5, normal(d_model, seed=seed + 4)),
    }


def nothing(case):
    """A sub-layer that answers 0 to everything."""
    d_model = case["x"].shape[-1]
    return AffineMap(torch.zeros(d_model, d_model).double(), torch.zeros(d_model).double())


def identity(case):
    """A norm that changes nothing."""
    d_model = case["x"].shape[-1]
    return AffineMap(torch.eye(d_model).double(), torch.zeros(d_model).double())


def residual_answer(subject, case, **changes):
    case = {**case, **changes}
    return expect_floats(subject(*case.values()), tuple(case["x"].shape))


post_norming = Exercise(
    reference.residual_post_norm,
    cases=[residual_case(2, 3, seed=71), residual_case(2, 3, 4, seed=76), residual_case(3, 2, 6, seed=81, scale=3)],
    minutes=4,
    difficulty=1,
    hints=[
        "sublayer and norm are functions: you call them with a tensor and get a tensor of the same shape.",
        "Three steps, from the inside out: what does the sub-layer make of x? Add it to x. Normalise the sum.",
        "return norm(x + sublayer(x))",
    ],
)


@post_norming.property("the result has the shape of x", points=1)
def post_norm_shape(subject, case):
    residual_answer(subject, case)


@post_norming.property("if the sub-layer adds nothing, norm(x) is left", points=1)
def post_norm_path(subject, case):
    got = residual_answer(subject, case, sublayer=nothing(case))
    expect_close(got, case["norm"](case["x"]), "the result, with a sub-layer that answers 0,")


@post_norming.property("if the norm changes nothing, x + sublayer(x) is left", points=1)
def post_norm_sum(subject, case):
    got = residual_answer(subject, case, norm=identity(case))
    expect_close(got, case["x"] + case["sublayer"](case["x"]), "the result, with a norm that changes nothing,")


@post_norming.property("the sum is normalised, and the gradient takes both paths", points=2)
def post_norm_values(subject, case):
    expect_close(residual_answer(subject, case), reference.residual_post_norm(**case))
    if not subject.changed_inputs:
        at = (*(0 for _ in case["x"].shape[:-1]), 1)
        want = slope(lambda x: reference.residual_post_norm(x, case["sublayer"], case["norm"]), case["x"], at)
        expect_close(subject.gradient(*case.values(), wrt=0, at=at), want, "the gradient with respect to x")


@post_norming.misconception
def computes_pre_norm(x, sublayer, norm):
    """This is pre-norm: you normalise what goes into the sub-layer. In post-norm the sub-layer gets x itself, and the
    sum is normalised.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update


@post_norming.misconception
def normalises_before_and_after(x, sublayer, norm):
    """You normalise twice, before the sub-layer and after the sum. Post-norm normalises the sum alone."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return norm(x + update)


@post_norming.misconception
def has_no_residual_path(x, sublayer, norm):
    """x itself is missing: you normalise what the sub-layer made and add nothing to it."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(update)


@post_norming.misconception
def forgets_the_norm(x, sublayer, norm):
    """The norm is never used: you return the plain sum."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@post_norming.misconception
def normalises_the_update(x, sublayer, norm):
    """You normalise what the sub-layer made and add x afterwards. The sum of both is normalised."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + norm(update)


@post_norming.misconception
def normalises_the_path(x, sublayer, norm):
    """You normalise x and add what the sub-layer made afterwards. The sum of both is normalised."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x) + update


@post_norming.misconception
def normalises_each(x, sublayer, norm):
    """You normalise x and the update each by itself. The sum of both is normalised."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x) + norm(update)


@post_norming.misconception
def doubles_the_update(x, sublayer, norm):
    """x was overwritten before the sum: you add the update to itself. Keep the x that came in."""
    update = x = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update)


@post_norming.misconception
def adds_inside_the_sublayer(x, sublayer, norm):
    """You add inside of the sub-layer's argument, so there is no path around it: x has to reach the sum untouched."""
    update = sublayer(x + norm(x))
    check_shape_is_kept(x, update)
    return update


@post_norming.misconception
def adds_x_after_the_norm(x, sublayer, norm):
    """You add x once more after the norm."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update) + x


@post_norming.misconception
def adds_x_to_the_normed_update_sum(x, sublayer, norm):
    """You normalise x first and use the result everywhere. In post-norm the sub-layer and the sum get x itself."""
    x = norm(x)
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@post_norming.misconception
def ignores_the_sublayer(x, sublayer, norm):
    """The sub-layer is never used: you normalise x alone."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x)


@post_norming.misconception
def subtracts_the_update(x, sublayer, norm):
    """You subtract the update. It is added."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x - update)


@post_norming.misconception
def multiplies_by_the_update(x, sublayer, norm):
    """You multiply x by the update. A residual path adds."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x * update)


@post_norming.misconception
def halves_the_sum(x, sublayer, norm):
    """You average x and the update. They are added, without a factor."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm((x + update) / 2)


@post_norming.misconception
def puts_them_side_by_side(x, sublayer, norm):
    """You put x and the update side by side. They are added: the shape stays the same."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return torch.cat([x, update], dim=-1)


@post_norming.misconception
def applies_the_norm_twice(x, sublayer, norm):
    """You apply the norm twice."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(norm(x + update))


@post_norming.misconception
def applies_the_sublayer_twice(x, sublayer, norm):
    """The sub-layer is applied twice, the second time to its own result."""
    update = sublayer(sublayer(x))
    check_shape_is_kept(x, update)
    return norm(x + update)


@post_norming.misconception
def adds_in_place(x, sublayer, norm):
    """You add into x in place. The caller still needs its x: write x + …, which makes a new tensor."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    x += update
    return norm(x)


@post_norming.misconception
def cuts_the_residual_path(x, sublayer, norm):
    """The numbers are right, but no gradient flows along the residual path: x is detached there."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x.detach() + update)


@post_norming.misconception
def cuts_the_sublayer(x, sublayer, norm):
    """The numbers are right, but no gradient flows through the sub-layer: it is detached."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update.detach())


@post_norming.alternative
def in_one_line(x, sublayer, norm):
    return norm(x + sublayer(x))


@post_norming.alternative
def with_torch_add(x, sublayer, norm):
    return norm(torch.add(sublayer(x), x))


@post_norming.alternative
def keeps_the_shortcut(x, sublayer, norm):
    shortcut = x
    x = sublayer(x)
    x = x + shortcut
    x = norm(x)
    return x


@post_norming.alternative
def by_stacking_and_summing(x, sublayer, norm):
    return norm(torch.stack([x, sublayer(x)], dim=-1).sum(-1))


@post_norming.alternative
def sentence_by_sentence(x, sublayer, norm):
    return torch.stack([norm(row + sublayer(row)) for row in x.unbind(0)])


pre_norming = Exercise(
    reference.residual_pre_norm,
    cases=[residual_case(2, 3, seed=86), residual_case(2, 3, 4, seed=91), residual_case(3, 2, 6, seed=96, scale=3)],
    minutes=4,
    difficulty=1,
    hints=[
        "The norm stands at the door of the sub-layer. On the path around it there is nothing at all.",
        "What does the sub-layer get? And what is its answer added to?",
        "return x + sublayer(norm(x))",
    ],
)


@pre_norming.property("the result has the shape of x", points=1)
def pre_norm_shape(subject, case):
    residual_answer(subject, case)


@pre_norming.property("if the sub-layer adds nothing, x itself is left", points=1)
def pre_norm_path(subject, case):
    got = residual_answer(subject, case, sublayer=nothing(case))
    expect_close(got, case["x"], "the result, with a sub-layer that answers 0,")


@pre_norming.property("if the norm changes nothing, x + sublayer(x) is left", points=1)
def pre_norm_sum(subject, case):
    got = residual_answer(subject, case, norm=identity(case))
    expect_close(got, case["x"] + case["sublayer"](case["x"]), "the result, with a norm that changes nothing,")


@pre_norming.property("the sub-layer gets norm(x), and the gradient takes both paths", points=2)
def pre_norm_values(subject, case):
    expect_close(residual_answer(subject, case), reference.residual_pre_norm(**case))
    if not subject.changed_inputs:
        at = (*(0 for _ in case["x"].shape[:-1]), 1)
        want = slope(lambda x: reference.residual_pre_norm(x, case["sublayer"], case["norm"]), case["x"], at)
        expect_close(subject.gradient(*case.values(), wrt=0, at=at), want, "the gradient with respect to x")


@pre_norming.misconception
def computes_post_norm(x, sublayer, norm):
    """This is post-norm: you normalise the sum. In pre-norm the norm stands in front of the sub-layer, and the sum is
    left alone.
    """
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x + update)


@pre_norming.misconception
def adds_to_the_normed(x, sublayer, norm):
    """You add the update to norm(x). The path around the sub-layer carries x itself: that is what lets gradients
    through.
    """
    x = norm(x)
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def normalises_the_sum_too(x, sublayer, norm):
    """You normalise the sum as well. Then the path is not free any more; in pre-norm the one norm after the last layer
    does that.
    """
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return norm(x + update)


@pre_norming.misconception
def normalises_what_comes_out(x, sublayer, norm):
    """You normalise what comes out of the sub-layer. Pre-norm normalises what goes in."""
    update = norm(sublayer(x))
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def normalises_both_sides(x, sublayer, norm):
    """You normalise what goes into the sub-layer and what comes out. Pre-norm normalises what goes in, and nothing
    else.
    """
    update = norm(sublayer(norm(x)))
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def normalises_the_path_alone(x, sublayer, norm):
    """You normalise the path around the sub-layer, and the sub-layer gets raw x. It is the other way round."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return norm(x) + update


@pre_norming.misconception
def leaves_the_norm_out(x, sublayer, norm):
    """The norm is never used."""
    update = sublayer(x)
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def leaves_the_path_out(x, sublayer, norm):
    """x itself is missing: you return what the sub-layer made and add nothing to it."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return update


@pre_norming.misconception
def adds_at_the_door(x, sublayer, norm):
    """You add inside of the sub-layer's argument, so there is no path around it: x has to reach the sum untouched."""
    update = sublayer(norm(x) + x)
    check_shape_is_kept(x, update)
    return update


@pre_norming.misconception
def adds_at_the_door_and_after(x, sublayer, norm):
    """What goes into your sub-layer is norm(x) + x. It gets norm(x) alone; x is added to its answer."""
    update = sublayer(norm(x) + x)
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def adds_the_update_to_itself(x, sublayer, norm):
    """x was overwritten before the sum: you add the update to itself. Keep the x that came in."""
    update = x = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def adds_x_after_a_norm(x, sublayer, norm):
    """You normalise the sum and add x once more. In pre-norm the sum is left alone."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return norm(x + update) + x


@pre_norming.misconception
def adds_x_twice(x, sublayer, norm):
    """x is in your sum twice."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update + x


@pre_norming.misconception
def forgets_the_sublayer(x, sublayer, norm):
    """The sub-layer is never used: you add norm(x) to x."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + norm(x)


@pre_norming.misconception
def applies_it_twice(x, sublayer, norm):
    """The sub-layer is applied twice, the second time to its own result."""
    update = sublayer(sublayer(norm(x)))
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def takes_the_update_away(x, sublayer, norm):
    """You subtract the update. It is added."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x - update


@pre_norming.misconception
def multiplies_x_and_update(x, sublayer, norm):
    """You multiply x by the update. A residual path adds."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x * update


@pre_norming.misconception
def averages_x_and_update(x, sublayer, norm):
    """You average x and the update. They are added, without a factor."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return (x + update) / 2


@pre_norming.misconception
def joins_x_and_update(x, sublayer, norm):
    """You put x and the update side by side. They are added: the shape stays the same."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return torch.cat([x, update], dim=-1)


@pre_norming.misconception
def norms_twice(x, sublayer, norm):
    """You apply the norm twice before the sub-layer."""
    update = sublayer(norm(norm(x)))
    check_shape_is_kept(x, update)
    return x + update


@pre_norming.misconception
def adds_into_x(x, sublayer, norm):
    """You add into x in place. The caller still needs its x: write x + …, which makes a new tensor."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    x += update
    return x


@pre_norming.misconception
def detaches_the_path(x, sublayer, norm):
    """The numbers are right, but no gradient flows along the residual path: x is detached there."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x.detach() + update


@pre_norming.misconception
def detaches_the_update(x, sublayer, norm):
    """The numbers are right, but no gradient flows through the sub-layer: it is detached."""
    update = sublayer(norm(x))
    check_shape_is_kept(x, update)
    return x + update.detach()


@pre_norming.alternative
def pre_in_one_line(x, sublayer, norm):
    return x + sublayer(norm(x))


@pre_norming.alternative
def pre_with_torch_add(x, sublayer, norm):
    return torch.add(sublayer(norm(x)), x)


@pre_norming.alternative
def pre_keeps_the_shortcut(x, sublayer, norm):
    shortcut = x
    x = norm(x)
    x = sublayer(x)
    return shortcut + x


@pre_norming.alternative
def pre_sentence_by_sentence(x, sublayer, norm):
    return torch.stack([row + sublayer(norm(row)) for row in x.unbind(0)])


@pre_norming.alternative
def pre_into_a_copy(x, sublayer, norm):
    result = x.clone()
    result += sublayer(norm(x))
    return result
