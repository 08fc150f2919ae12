"""The exercise `GPT`: what must hold, and what people really write instead.

A case holds the arguments of the constructor, then the ids. The check puts its own numbers into the parameters and
compares with the reference, which holds the same numbers.
"""

from __future__ import annotations

import functools
import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.checking.parts import random_numbers, standard_name
from course_lib.checking.subject import Event
from course_lib.encoder_decoder import EncoderLayer
from course_lib.language_model import GPT, DecoderBlock
from course_lib.multi_head_attention import merge_heads
from course_lib.positions import LearnedPositions, PositionalEncoding, apply_rope
from course_lib.sublayers import LayerNorm, TokenEmbedding, look_up, residual_post_norm

gpt = Exercise(
    language_model.GPT,
    cases=[
        {
            "vocab_size": 7,
            "d_model": 8,
            "num_heads": 4,
            "d_ff": 10,
            "num_layers": 2,
            "ids": torch.tensor([[3, 6, 2, 5], [4, 1, 1, 0]]),
        },
        {
            "vocab_size": 11,
            "d_model": 12,
            "num_heads": 2,
            "d_ff": 9,
            "num_layers": 3,
            "ids": torch.tensor([[9, 4, 10, 0, 2]]),
        },
    ],
    minutes=9,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Four things, one after the other: a row of the table for each id, the blocks, a norm, and a logit for each "
        "token of the vocabulary.",
        "In __init__: nn.Embedding(vocab_size, d_model), an nn.ModuleList with num_layers times "
        "reference.DecoderBlock(d_model, num_heads, d_ff), and reference.LayerNorm(d_model).",
        "The blocks know the positions and hide the future themselves: x = block(x) is all, in a loop. The norm comes "
        "after the loop.",
        "The dot product of x with every row of the table, for all positions at once, is x @ self.embedding.weight.T.",
        "nn.init.normal_(self.embedding.weight, std=0.02) makes the small beginning.",
    ],
)


def building(case):
    """The arguments of the constructor."""
    return [value for name, value in case.items() if name != "ids"]


@functools.cache
def shapes_of(*args):
    return {name: tuple(parameter.shape) for name, parameter in GPT(*args).named_parameters()}


@functools.cache
def numbers(*args):
    """A number for every parameter of the reference, by name."""
    return random_numbers(shapes_of(*args), seed=args[0])


@functools.cache
def right_model(*args):
    model = GPT(*args).double().eval().requires_grad_(False)
    model.load_state_dict(numbers(*args))
    return model


RIGHT_LOGITS: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def right_logits(case):
    known, logits = RIGHT_LOGITS.get(id(case), (None, None))
    if known is not case:
        logits = right_model(*building(case))(case["ids"])
        RIGHT_LOGITS[id(case)] = (case, logits)
    return logits


PART_OF_A_BLOCK = re.compile(r"(\d+)\.((?:attention|feed_forward|norm_\d)\..*)$")


def place(shapes, case):
    """The numbers under the names that the student's parameters have.

    The names of the task are always understood. Otherwise a parameter of a block is known by its name inside the block,
    a table by its shape, and the norm by its two vectors. A second table gets the numbers of the first one.
    """
    wanted = numbers(*building(case))
    d_model = case["d_model"]
    vectors = [wanted["norm.gain"], wanted["norm.bias"]]
    placed = {}
    for name, shape in shapes.items():
        known = wanted.get(standard_name(name))
        part = PART_OF_A_BLOCK.search(name)
        if known is None and part is not None:
            known = wanted.get(f"blocks.{part[1]}.{standard_name(part[2])}")
        if known is None and shape == (case["vocab_size"], d_model):
            known = wanted["embedding.weight"]
        if known is None and shape == (d_model,) and part is None and "norm.bias" not in shapes and vectors:
            known = vectors.pop(0)
        if known is None or tuple(known.shape) != shape:
            known = normal(*shape, seed=7, scale=0.5)  # a parameter that the reference does not have
        placed[name] = known
    return placed


def filled(subject, case):
    """The student's model with the check's numbers in it."""
    built = subject.build(*building(case))
    built.load(place({name: tuple(shape) for name, shape in built.shapes().items()}, case))
    return built


def logits_of(built, case, ids=None):
    """What `forward` gives."""
    ids = case["ids"] if ids is None else ids
    shape = (*ids.shape, case["vocab_size"])
    got = built(ids)
    if isinstance(got, Tensor) and tuple(got.shape) == shape:
        built.trace[-1] = Event("call", tuple(got.flatten(0, 1)))  # place by place: so it shows where two models differ
    return expect_floats(got, shape, "the result (batch, time, vocab_size)")


@gpt.property("ids become logits (batch, time, vocab_size)", points=1)
def gpt_shape(subject, case):
    logits_of(filled(subject, case), case)


@gpt.property("a position sees itself and all before it, and none of those after it", points=2)
def gpt_future(subject, case):
    built = filled(subject, case)
    ids = case["ids"][:1]
    time = ids.shape[1]
    changed = (ids + torch.eye(time, dtype=torch.long)) % case["vocab_size"]  # row j: another token at place j
    before, *after = logits_of(built, case, torch.cat([ids, changed]))
    for j, logits in enumerate(after):
        moved = ((logits - before).abs() > 1e-9).any(dim=-1).tolist()
        for i in range(time):
            if moved[i] and i < j:
                raise Failure(
                    f"The logits at position {i} change when the token at position {j} is replaced. That one comes "
                    "later: it is what the model has to predict."
                )
            if i >= j and not moved[i]:
                raise Failure(
                    f"The logits at position {i} stay the same when the token at position {j} is replaced. A position "
                    "sees itself and everything before it."
                )


@gpt.property("num_layers blocks with weights of their own, one norm, and one table for both ends", points=2)
def gpt_parameters(subject, case):
    built = subject.build(*building(case))
    found = {name: tuple(shape) for name, shape in built.shapes().items()}
    expect_count(sum(map(math.prod, found.values())), case)
    built.load(place(found, case))
    with built.unobserved():
        slopes = built.parameter_gradients(case["ids"])
    idle = [name for name, slope in slopes.items() if slope.dim() > 1 and slope.abs().max() < 1e-12]
    built.note("idle", len(idle))
    expect(
        not idle,
        "These weights have no influence on the result: " + ", ".join(idle[:4]) + (" …" if len(idle) > 4 else ""),
    )


def expect_count(got, case):
    """As many trainable numbers as a table, num_layers blocks and a norm have."""
    wanted = shapes_of(*building(case))
    table, norm = case["vocab_size"] * case["d_model"], 2 * case["d_model"]
    blocks = sum(math.prod(shape) for name, shape in wanted.items() if name.startswith("blocks."))
    count = case["num_layers"]
    parts = f"a table of {table}, {count} blocks of {blocks // count} and a norm of {norm}"
    right = table + blocks + norm
    expect(
        got != right + table,
        f"Yours has {got} trainable numbers, a whole table of {table} too many. The output layer uses the table of the "
        "embedding and has no weights of its own.",
    )
    expect(
        got != table + norm,
        f"Yours has {got} trainable numbers: a table of {table} and a norm of {norm}. The blocks' own are not among "
        "them. Are they kept where torch finds them?",
    )
    expect(
        count == 1 or got != table + blocks // count + norm,
        f"Yours has {got} trainable numbers: there is one block, but {count} are asked for, each with its own weights.",
    )
    expect(
        got != table + blocks,
        f"Yours has {got} trainable numbers: those of a table and {count} blocks. The norm after the last block has "
        f"{norm} more.",
    )
    expect(got == right, f"The model has {right} trainable numbers: {parts}. Yours has {got}.")


@gpt.property("the logits are those of the formula, in training too, and every weight learns from them", points=3)
def gpt_values(subject, case):
    built = filled(subject, case)
    try:
        expect_close(logits_of(built, case), right_logits(case))
    except Failure as failure:
        raise Failure(failure.message + strangers(built, case), failure.difference) from None
    slopes = built.parameter_gradients(case["ids"])
    tables = [slope for slope in slopes.values() if tuple(slope.shape) == (case["vocab_size"], case["d_model"])]
    slope = sum(tables, torch.zeros(())).double()
    built.note("gradient of the table", slope)
    expect(
        is_close(slope, right_table_slope(case)),
        "The logits are right, but the gradient of the embedding table is not. The table is used twice, at the input "
        "and at the output, and learns from both. Is it detached on the way (detach, .data, torch.no_grad), or does it "
        "have a padding_idx?",
    )
    built.train()
    with built.unobserved():
        is_same = is_close(logits_of(built, case), right_logits(case))
    built.note("right in training", is_same)
    expect(is_same, "In evaluation mode the logits are right, in training mode they are not. Is there a dropout?")


def strangers(built, case):
    """A word about parameters that the check does not know."""
    with built.unobserved():
        found = {name: tuple(shape) for name, shape in built.shapes().items()}
    placed, wanted = place(found, case), numbers(*building(case))
    unknown = [name for name, tensor in placed.items() if not any(tensor is known for known in wanted.values())]
    if not unknown:
        return ""
    return f" The check does not know {', '.join(unknown[:3])}: are the blocks reference.DecoderBlock?"


def right_table_slope(case):
    """d(sum of squares of the logits) / d(embedding table), as `parameter_gradients` computes it."""
    key = (id(case), "slope")
    known, slope = RIGHT_LOGITS.get(key, (None, None))
    if known is not case:
        model = GPT(*building(case)).double()
        model.load_state_dict(numbers(*building(case)))
        (model(case["ids"]) ** 2).sum().backward()
        slope = model.embedding.weight.grad
        RIGHT_LOGITS[key] = (case, slope)
    return slope


MANY_TOKENS = 150  # so that a mean and a standard deviation can be trusted


@gpt.property("a new model is undecided: the entries of its table start as N(0, 0.02²)", points=1)
def gpt_beginning(subject, case):
    built = subject.build(*building({**case, "vocab_size": MANY_TOKENS}))
    with built.unobserved():
        shape = (MANY_TOKENS, case["d_model"])
        tables = [tensor for tensor in built.state().values() if tuple(tensor.shape) == shape]
    expect(
        bool(tables), f"With vocab_size = {MANY_TOKENS} there should be a table of shape {shape}, but there is none."
    )
    mean, deviation = float(tables[0].mean()), float(tables[0].std())
    built.note("size of the entries", round(2 * math.log10(deviation + 1e-9)) / 2)  # roughly: they are drawn
    expect(
        abs(mean) < 0.005 and 0.013 < deviation < 0.03,
        f"The entries of the table of a new model have the mean {mean:.2g} and the standard deviation {deviation:.2g}. "
        "They should start with mean 0 and standard deviation 0.02.",
    )


@gpt.misconception
class ForgetsTheFinalNorm(GPT):
    """The norm after the last block is never applied.

    Nothing has normalised what the last block adds, and it grows with every layer."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class HasNoFinalNorm(nn.Module):
    """There is no norm after the last block.

    Nothing has normalised what the last block adds, and it grows with every layer."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class NormalisesTheEmbedding(GPT):
    """The norm comes before the first block. It belongs after the last one.

    Each block normalises its own input, but nothing normalises the output of the last one."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        x = self.norm(x)
        for block in self.blocks:
            x = block(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class NormalisesAfterEveryBlock(GPT):
    """The norm is applied after every block. It comes once, after the last."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = self.norm(block(x))
        return x @ self.embedding.weight.T


@gpt.misconception
class NormalisesTheLogits(nn.Module):
    """Your norm is applied to the logits, vocab_size of them. It belongs before the output layer, on d_model
    features."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(vocab_size)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x @ self.embedding.weight.T)


@gpt.misconception
class UntiesTheOutput(nn.Module):
    """The output layer has a table of its own. It should use the table of the embedding.

    Two tables are vocab_size · d_model numbers more to learn."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.output(x)


@gpt.misconception
class UntiesTheOutputWithABias(nn.Module):
    """The output layer has a table and biases of its own. It should use the embedding's table, without a bias."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.output(x)


@gpt.misconception
class TiesWithABias(nn.Module):
    """The output layer shares the table, but it has biases of its own. A logit is the dot product alone."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size)
        self.output.weight = self.embedding.weight

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.output(x)


@gpt.misconception
class DetachesTheTable(GPT):
    """At the output the table is detached (detach, .data, no_grad).

    The logits are right, but the table does not learn from what the output layer gets wrong."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.detach().T


@gpt.misconception
class PadsTokenZero(nn.Module):
    """Your embedding has padding_idx = 0. In a long text there is no padding, and id 0 is a token like the others.

    Its row learns nothing from the places where the token is read."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=0)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class UsesTheScaledEmbedding(nn.Module):
    """Your embedding is a TokenEmbedding, which multiplies its rows by √d_model and keeps a row for padding. Here the
    rows are used as they are, and there is no padding."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.table.weight.T


@gpt.misconception
class ScalesTheEmbedding(GPT):
    """You multiply the rows of the embedding by √d_model. Here they are used as they are: there are no position vectors
    beside them to be matched in size."""

    def forward(self, ids):
        x = look_up(self.embedding, ids) * math.sqrt(self.embedding.embedding_dim)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class ScalesTheLogits(GPT):
    """You divide the logits by √d_model. That belongs to attention; here the logits are the dot products as they
    are."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T / math.sqrt(self.embedding.embedding_dim)


@gpt.misconception
class AddsSinusoids(nn.Module):
    """You add sinusoidal positions to the embedding. The blocks turn their queries and keys by the position already
    (RoPE): nothing is added here."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.positions = PositionalEncoding(d_model, 64)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = self.positions(look_up(self.embedding, ids))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class LearnsPositions(nn.Module):
    """You add learned positions to the embedding. The blocks turn their queries and keys by the position already
    (RoPE): nothing is added here."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.positions = LearnedPositions(64, d_model)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = self.positions(look_up(self.embedding, ids))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class DropsTheEmbedding(GPT):
    """There is dropout in your model. It should have only the parts that the task names, and dropout is not one of
    them.

    In training mode some of its numbers are set to 0 at random."""

    def forward(self, ids):
        x = F.dropout(look_up(self.embedding, ids), 0.1, self.training)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class HidesTheBlocksInAList(nn.Module):
    """Your blocks are in a plain Python list, and torch does not look inside those. Use an nn.ModuleList.

    Their parameters are never trained, saved or moved."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = [DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class SharesOneBlock(nn.Module):
    """You use the same block at every place. Every place needs a block of its own.

    There is one set of weights, used again and again."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList([DecoderBlock(d_model, num_heads, d_ff)] * num_layers)
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class BuildsOneBlock(nn.Module):
    """There is only one block, whatever num_layers says."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList([DecoderBlock(d_model, num_heads, d_ff)])
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class RepeatsTheFirstBlock(GPT):
    """The first block runs num_layers times, and the others never do."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for _ in self.blocks:
            x = self.blocks[0](x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class RunsEachBlockOnTheEmbedding(GPT):
    """Every block gets the embedding, and only the last one's output is kept. The output of each block is the input of
    the next."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            y = block(x)
        x = self.norm(y)
        return x @ self.embedding.weight.T


@gpt.misconception
class RunsBackwards(GPT):
    """The blocks run from the last to the first. blocks[0] comes first."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in reversed(self.blocks):
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class AddsAroundEveryBlock(GPT):
    """You add x to the output of each block. The blocks have their residual paths inside."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = x + block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class ReturnsProbabilities(GPT):
    """You return probabilities. The model returns logits: the loss applies the softmax itself.

    A second softmax would flatten everything."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return (x @ self.embedding.weight.T).softmax(dim=-1)


@gpt.misconception
class ReturnsLogProbabilities(GPT):
    """You return log-probabilities. The model returns logits: the loss applies the (log-)softmax itself."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return (x @ self.embedding.weight.T).log_softmax(dim=-1)


@gpt.misconception
class ReturnsTheHiddenVectors(GPT):
    """The output layer is missing: you return d_model features for each position, not one number for each token of the
    vocabulary."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@gpt.misconception
class AnswersForTheLastPosition(GPT):
    """You return the logits of the last position alone. All positions are wanted: in training the model learns from
    every one of them."""

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x[:, -1] @ self.embedding.weight.T


@gpt.misconception
class LeavesOutTheLastToken(GPT):
    """You leave out the last token of the ids. The shift between inputs and targets is made by `text_windows`; the
    model answers for every token that it is given."""

    def forward(self, ids):
        x = look_up(self.embedding, ids[:, :-1])
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class UsesEncoderLayers(nn.Module):
    """Your blocks are EncoderLayers. They hide nothing unless they are given a mask, and they know no positions: use
    DecoderBlock."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


class BlockThatSeesAll(DecoderBlock):
    """A wrong block: the future is not hidden."""

    def attend(self, h):
        q, k, v = self.attention.project(h, h, h)
        positions = torch.arange(h.shape[1])
        heads = F.scaled_dot_product_attention(apply_rope(q, positions), apply_rope(k, positions), v)
        return self.attention.w_o(merge_heads(heads))


@gpt.misconception
class ForgetsTheFuture(nn.Module):
    """Your blocks do not hide the future.

    Every position sees the very token that it has to predict."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(BlockThatSeesAll(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


class BlockWithoutPositions(DecoderBlock):
    """A wrong block: queries and keys are not turned."""

    def attend(self, h):
        q, k, v = self.attention.project(h, h, h)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attention.w_o(merge_heads(heads))


@gpt.misconception
class ForgetsThePositions(nn.Module):
    """Your blocks know no positions: queries and keys are not turned (RoPE).

    To each attention, what came before is a bag of tokens."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(BlockWithoutPositions(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


class PostNormBlock(DecoderBlock):
    """A wrong block: the norms come after the sums."""

    def forward(self, x):
        x = residual_post_norm(x, self.attend, self.norm_1)
        return residual_post_norm(x, self.feed_forward, self.norm_2)


@gpt.misconception
class UsesPostNormBlocks(nn.Module):
    """Your blocks are post-norm: they normalise the sum of x and the update. Here the norm comes before each
    sub-layer, and the path of x stays free."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=0.02)
        self.blocks = nn.ModuleList(PostNormBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class BeginsWithLargeEntries(nn.Module):
    """The entries of your embedding table start as nn.Embedding makes them, N(0, 1). They should start as N(0, 0.02²).

    As an output layer such a table makes large logits: the untrained model is sure of its guesses, and its first loss
    lies far above that of an even guess, ln(vocab_size)."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.misconception
class BeginsWithUnitRows(nn.Module):
    """The entries of your embedding table start with the standard deviation 1/√d_model. They should start with 0.02.

    With rows of length 1 at both ends, a new model favours the token that it has just read."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=d_model**-0.5)
        self.blocks = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        x = look_up(self.embedding, ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.embedding.weight.T


@gpt.alternative
class WithSharedLinear(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.output = nn.Linear(d_model, vocab_size, bias=False)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.embedding.weight.data.mul_(0.02)
        self.output.weight = self.embedding.weight
        self.norm = nn.LayerNorm(d_model)
        self.blocks = nn.Sequential(*[DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])

    def forward(self, ids):
        return self.output(self.norm(self.blocks(self.embedding(ids))))


@gpt.alternative
class WithOtherNames(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, d_model),
                "h": nn.ModuleList([DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)]),
                "ln_f": nn.LayerNorm(d_model),
            }
        )
        torch.nn.init.trunc_normal_(self.transformer["wte"].weight, std=0.02)

    def forward(self, ids):
        x = F.embedding(ids, self.transformer["wte"].weight)
        for layer in self.transformer["h"]:
            x = layer(x)
        return F.linear(self.transformer["ln_f"](x), self.transformer["wte"].weight)


@gpt.alternative
class WithOneHotVectors(GPT):
    def forward(self, ids):
        table = self.embedding.weight
        x = F.one_hot(ids, len(table)).to(table.dtype) @ table
        for number in range(len(self.blocks)):
            x = self.blocks[number].forward(x)
        return torch.einsum("btd,vd->btv", self.norm(x), table)


@gpt.alternative
class WithABareTable(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(vocab_size, d_model))
        for number in range(num_layers):
            self.add_module(f"block_{number}", DecoderBlock(d_model, num_heads, d_ff))
        self.num_layers = num_layers
        self.final = LayerNorm(d_model)

    def forward(self, ids):
        x = self.table[ids]
        for number in range(self.num_layers):
            x = getattr(self, f"block_{number}")(x)
        return (self.table @ self.final(x).transpose(1, 2)).transpose(1, 2)
