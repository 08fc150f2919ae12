"""The exercise `transformer`: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, is_close
from course_lib.checking.subject import Event
from course_lib.encoder_decoder import Decoder, Encoder
from course_lib.exercises.transformer.shared import numbers
from course_lib.masks import causal_mask, padding_mask
from course_lib.positions import PositionalEncoding
from course_lib.sublayers import TokenEmbedding
from course_lib.transformer import Transformer, require_ids

INPUTS = ("src_ids", "tgt_ids")


transformer = Exercise(
    reference.Transformer,
    cases=[
        {
            "src_vocab": 7,
            "tgt_vocab": 9,
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 8,
            "num_layers": 1,
            "dropout": 0.2,
            "norm_first": True,
            "tie_weights": False,
            "pad_id": 0,
            "max_len": 8,
            "src_ids": torch.tensor([[3, 6, 2, 5, 1], [4, 1, 0, 0, 0]]),
            "tgt_ids": torch.tensor([[1, 5, 7], [1, 8, 0]]),
        },
        {
            "src_vocab": 11,
            "tgt_vocab": 10,
            "d_model": 6,
            "num_heads": 3,
            "d_ff": 10,
            "num_layers": 2,
            "dropout": 0.4,
            "norm_first": False,
            "tie_weights": False,
            "pad_id": 2,
            "max_len": 9,
            "src_ids": torch.tensor([[2, 9, 4, 10], [5, 2, 7, 8], [3, 6, 0, 2]]),
            "tgt_ids": torch.tensor([[1, 6, 9, 0], [1, 2, 4, 8], [1, 7, 2, 3]]),
        },
    ],
    minutes=25,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Begin with the masks. A token is real if its id is not self.pad_id. Write down, for each of the three "
        "attentions, where its queries (rows) and its keys (columns) come from: padding is hidden among the keys.",
        "source_mask needs an axis of length 1 for the queries: (batch, 1, source). target_mask is that of the targets "
        "AND causal_mask(n): (batch, 1, target) & (target, target) gives (batch, target, target).",
        "encode: ids → self.src_embedding → self.positions → self.dropout → self.encoder(x, source mask). decode "
        "is the "
        "same with the targets' table, but the decoder takes four things: x, memory, the target's mask and the "
        "source's.",
        "The last step of decode is self.output(x), with no softmax after it. forward calls encode, then decode.",
        "mask = (src_ids != self.pad_id)[:, None, :]; x = self.dropout(self.positions(self.src_embedding(src_ids))); "
        "return self.encoder(x, mask). And: self.decoder(x, memory, self.target_mask(tgt_ids), "
        "self.source_mask(src_ids)).",
    ],
)


def building(case, **changes):
    """The arguments of the constructor."""
    return [changes.get(name, value) for name, value in case.items() if name not in INPUTS]


@functools.cache
def right_model(*args):
    model = Transformer(*args).double().eval().requires_grad_(False)
    model.load_state_dict(numbers(*args), strict=False)
    return model


RIGHT_ANSWERS: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def right_logits(case, dropout=0.0):
    """What the reference gives: in training, if there is dropout, which must then be so small that it drops nothing."""
    known, answer = RIGHT_ANSWERS.get((id(case), dropout), (None, None))
    if known is not case:
        model = right_model(*building(case, dropout=dropout)).train(dropout > 0)
        answer = model(case["src_ids"], case["tgt_ids"])
        RIGHT_ANSWERS[id(case), dropout] = (case, answer)
    return answer


@functools.cache
def standard_name(name):
    return re.sub(r"(norm\w*)\.(weight|gamma)$", r"\1.gain", name)


def place(shapes, wanted):
    """The numbers under the names that the student's parameters have.

    The names of the task are always understood; so are torch's own, if somebody has an nn.Transformer inside.
    """
    standard = {standard_name(name): name for name in shapes}
    if standard.keys() == wanted.keys():
        return {standard[name]: tensor for name, tensor in wanted.items()}
    left = dict(wanted) | reference.torch_state(wanted)
    placed = {}
    for name, shape in shapes.items():
        word = name.lower()
        fitting = [key for key, tensor in left.items() if tuple(tensor.shape) == shape]
        named = [key for key in fitting if key.startswith(("encoder.", "decoder.")) and name.endswith(key)]
        if not named:
            tables = [key for key in fitting if not key.startswith(("encoder.", "decoder."))]
            is_output = any(part in word for part in ("out", "linear", "proj", "gener", "head", "fc"))
            named = sorted(tables, key=lambda key: key.startswith("output") != is_output)
        if not named:
            break
        placed[name] = left.pop(named[0])
    if placed.keys() != shapes.keys():
        unknown = [f"{name} {shape}" for name, shape in shapes.items() if name not in placed]
        missing = [name for name in wanted if name not in standard]
        raise Failure(
            "The check fills your parameters with its own numbers, under the names that the given __init__ makes. "
            + (f"It does not know {', '.join(unknown[:4])}. " if unknown else "")
            + (f"It misses {', '.join(missing[:4])}." if missing else "")
        )
    return placed


def filled(subject, case, **changes):
    """The student's model, filled with the check's numbers."""
    built = subject.build(*building(case, **changes))
    fill(built, case)
    return built


TABLES = {"source": "src_embedding.table.weight", "target": "tgt_embedding.table.weight"}


def fill(built, case, other_padding=()):
    """Put the check's numbers in. `other_padding`: the sides whose table is to have another row for padding."""
    wanted = numbers_with_other_padding(case["pad_id"], tuple(other_padding), *building(case, dropout=0.0))
    built.load(place({name: tuple(shape) for name, shape in built.shapes().items()}, wanted))


@functools.cache
def numbers_with_other_padding(pad_id, sides, *args):
    wanted = dict(numbers(*args))
    for table in (TABLES[side] for side in sides if TABLES[side] in wanted):
        wanted[table] = wanted[table].clone()
        wanted[table][pad_id] += 1.5
    return wanted


def logits_of(built, case, src_ids=None, tgt_ids=None):
    """What `forward` gives, with 0 at padded places of the target."""
    src_ids = case["src_ids"] if src_ids is None else src_ids
    tgt_ids = case["tgt_ids"] if tgt_ids is None else tgt_ids
    got = built(src_ids, tgt_ids)
    shape = (*tgt_ids.shape, case["tgt_vocab"])
    if isinstance(got, Tensor) and tuple(got.shape) == shape and got.is_floating_point():
        is_real = tgt_ids != case["pad_id"]
        got = got.masked_fill(~is_real[..., None], 0.0)
        built.trace[-1] = Event("call", tuple(got[is_real]))  # place by place: so it shows where two models differ
    return expect_floats(got, shape, "the result (batch, target, tgt_vocab)")


def logits_with(built, case, side, others):
    """For each of the other src_ids or tgt_ids: the logits for the case, and for the case with these ids instead.

    One batch is enough if the case, which is in it twice, gets the same answer twice. If not (a dropout that is never
    switched off, or sentences that see each other), a second batch holds nothing but the case, so that each pair of
    answers comes from the same place of a batch and only the ids differ.
    """
    count = 2 + len(others)
    ids = {name: case[name].repeat(count, 1) for name in INPUTS}
    ids[side] = torch.cat([case[side], *others, case[side]])
    first, *answers, again = logits_of(built, case, **ids).unflatten(0, (count, -1))
    if is_close(again, first, rtol=0.0, atol=1e-9):
        return [(first, answer) for answer in answers]
    ids[side] = case[side].repeat(count, 1)
    return list(zip(logits_of(built, case, **ids).unflatten(0, (count, -1))[1:-1], answers))


@transformer.property("source ids and target ids become logits (batch, target, tgt_vocab)", points=1)
def transformer_shape(subject, case):
    logits_of(filled(subject, case), case)


@transformer.property("every target position sees every real token of the source", points=1)
def transformer_source(subject, case):
    columns = range(case["src_ids"].shape[1])
    sources = [replace_column(case["src_ids"], column, case["pad_id"], case["src_vocab"]) for column in columns]
    answers = logits_with(filled(subject, case), case, "src_ids", sources)
    is_real = case["tgt_ids"] != case["pad_id"]
    for column, changed, (before, after) in zip(columns, sources, answers):
        moved = ((after - before).abs() > 1e-9).any(dim=-1)  # (batch, target)
        replaced = (changed != case["src_ids"])[:, column]
        deaf = (replaced[:, None] & is_real & ~moved).nonzero().tolist()
        if deaf:
            sentence, position = deaf[0]
            raise Failure(
                f"The logits at target position {position} (of sentence {sentence}) do not change when the source "
                f"token at position {column} is replaced."
            )


@transformer.property("a target position sees itself and what came before, never what comes after", points=2)
def transformer_future(subject, case):
    columns = range(case["tgt_ids"].shape[1] - 1, 0, -1)
    targets = [replace_column(case["tgt_ids"], later, case["pad_id"], case["tgt_vocab"]) for later in columns]
    answers = logits_with(filled(subject, case), case, "tgt_ids", targets)
    for later, changed, (before, after) in zip(columns, targets, answers):
        moved = ((after - before).abs() > 1e-9).any(dim=-1)  # (batch, target)
        early = moved[:, :later].nonzero().tolist()
        if early:
            sentence, position = early[0]
            raise Failure(
                f"The logits at target position {position} (of sentence {sentence}) change when the token at position "
                f"{later} is replaced. That one comes later: in use it is not known yet."
            )
        still = ((changed != case["tgt_ids"])[:, later] & ~moved[:, later]).nonzero().flatten().tolist()
        expect(
            not still,
            f"The logits at target position {later} stay the same whatever token stands at position {later}: a "
            "position should see itself.",
        )


def replace_column(ids, column, pad_id, vocab_size):
    """The ids with other real tokens in one column; padding stays padding."""
    others = (ids[:, column] + 1) % vocab_size
    others = torch.where(others == pad_id, (others + 1) % vocab_size, others)
    result = ids.clone()
    result[:, column] = torch.where(ids[:, column] == pad_id, pad_id, others)
    return result


@transformer.property("padding has no influence, neither in the source nor in the target", points=2)
def transformer_padding(subject, case):
    built = filled(subject, case)
    before = logits_of(built, case)
    if not moved_by_other_padding(built, case, before, TABLES):
        return
    for side, padded in (("source", case["src_ids"]), ("target", case["tgt_ids"])):
        places = moved_by_other_padding(built, case, before, [side])
        if places:
            sentence, position = places[0]
            raise Failure(
                f"The {side}'s padding is attended to: with another vector for <pad> (id {case['pad_id']}) in the "
                f"table, the logits at target position {position} of sentence {sentence} change. That sentence is "
                f"{padded[sentence].tolist()}."
            )


def moved_by_other_padding(built, case, before, sides):
    """The places whose logits change with another vector for padding in the tables of these sides."""
    fill(built, case, sides)
    moved = (logits_of(built, case) - before).abs() > 1e-9
    if case["tie_weights"]:
        moved[..., case["pad_id"]] = False  # there the table is the output layer
    return moved.any(dim=-1).nonzero().tolist()


@transformer.property("the logits are those of the formula, and every weight learns from them", points=1)
def transformer_values(subject, case):
    built = filled(subject, case)
    is_real = (case["tgt_ids"] != case["pad_id"])[..., None]
    expect_close(logits_of(built, case), right_logits(case) * is_real, "the result at real positions")
    slopes = built.parameter_gradients(case["src_ids"], case["tgt_ids"])
    idle = [name for name, slope in slopes.items() if slope.dim() > 1 and slope.abs().max() < 1e-12]
    built.note("idle", len(idle))
    expect(
        not idle,
        f"The result is right, but no gradient comes back to {', '.join(idle[:3])}{' …' if len(idle) > 3 else ''}. "
        "Is a tensor detached on the way (detach, .data, torch.no_grad)?",
    )


# So little that nothing is ever dropped, while what is kept grows by the factor 1 / (1 - p).
LITTLE_DROPOUT = 1e-7


@transformer.property("in training, dropout is applied to embedding plus position, on both sides", points=1)
def transformer_dropout(subject, case):
    """Asked with very little dropout: with much of it, almost nothing of the source would reach the target."""
    built = filled(subject, case, dropout=LITTLE_DROPOUT)
    with built.unobserved():
        before = logits_of(built, case)
        built.train()
        growth = (logits_of(built, case) - before) / LITTLE_DROPOUT
    built.note("growth under a little dropout", growth)
    is_real = (case["tgt_ids"] != case["pad_id"])[..., None]
    want = (right_logits(case, dropout=LITTLE_DROPOUT) - right_logits(case)) / LITTLE_DROPOUT * is_real
    expect(
        is_close(growth, want, rtol=1e-3, atol=1e-3),
        "In evaluation the result is right; in training it is not. Dropout should be applied once to the source's "
        "embedding plus position and once to the target's, and otherwise only inside the layers.",
    )


@transformer.advice("what `forward` makes is on the device of the ids")
def transformer_device(subject, case):
    expect(
        filled(subject, case).makes_tensors_on_the_device(case["src_ids"], case["tgt_ids"]),
        "On a GPU your model would fail: a tensor that it makes in `forward` stays on the CPU, where it meets others. "
        "Put masks on the device of the ids.",
    )


@transformer.misconception
class ForgetsTheFuture(Transformer):
    """Your target mask hides padding but not the future.

    So every position sees the very token that it has to predict.
    """

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :]


@transformer.misconception
class ForgetsTheMaskOfTheEncoder(Transformer):
    """The encoder gets no mask.

    So real source words look at padding there.
    """

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.dropout(self.positions(x))
        return self.encoder(x)


@transformer.misconception
class ForgetsTheMaskOfTheMemory(Transformer):
    """Cross-attention gets no mask.

    So the targets look at the source's padding. The encoder's mask does not help them, since the memory has a vector
    for every place, padded ones too.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids))
        return self.output(x)


@transformer.misconception
class ForgetsThePaddingOfTheTarget(Transformer):
    """Your target mask hides the future but not padding.

    If padding stands at the end, nobody notices; but it may stand anywhere.
    """

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return past


@transformer.misconception
class ForgetsPositionsInTheSource(Transformer):
    """The source words get no positions.

    So to your encoder a sentence is a bag of words.
    """

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.dropout(x)
        return self.encoder(x, self.source_mask(src_ids))


@transformer.misconception
class ForgetsPositionsInTheTarget(Transformer):
    """The target words get no positions. The decoder needs them as the encoder does."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(x)
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class ReturnsProbabilities(Transformer):
    """You return probabilities. The model returns logits: the loss applies the softmax itself.

    A second softmax would flatten everything.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x).softmax(dim=-1)


@transformer.misconception
class ReturnsLogProbabilities(Transformer):
    """You return log-probabilities. The model returns logits: the loss applies the (log-)softmax itself."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x).log_softmax(dim=-1)


@transformer.misconception
class ReturnsTheHiddenVectors(Transformer):
    """The output layer is missing: you return the decoder's vectors, not one number for each word of the vocabulary."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return x


@transformer.misconception
class InvertsTheSourceMask(Transformer):
    """Your source mask is True on padding. In this course True means that attention is allowed."""

    def source_mask(self, src_ids):
        real = src_ids == self.pad_id
        return real[:, None, :]


@transformer.misconception
class InvertsTheTargetMask(Transformer):
    """Your target mask is inverted: True where attention should be hidden. True means that attention is allowed."""

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return ~(real[:, None, :] & past)


@transformer.misconception
class TakesZeroForPadding(Transformer):
    """You compare with 0. Padding is whatever id the model was built with: self.pad_id."""

    def source_mask(self, src_ids):
        real = src_ids != 0
        return real[:, None, :]

    def target_mask(self, tgt_ids):
        real = tgt_ids != 0
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] & past


@transformer.misconception
class CountsInsteadOfLooking(Transformer):
    """You count the real tokens and hide everything after that many places. Padding may stand anywhere: decide for each
    place whether it is padding.
    """

    def source_mask(self, src_ids):
        real = padding_mask((src_ids != self.pad_id).sum(dim=1), src_ids.shape[1])
        return real[:, None, :]

    def target_mask(self, tgt_ids):
        real = padding_mask((tgt_ids != self.pad_id).sum(dim=1), tgt_ids.shape[1])
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] & past


@transformer.misconception
class HidesSourceQueries(Transformer):
    """Your source mask lies along the queries. It has to hide padded *keys*: the last axis."""

    def source_mask(self, src_ids):
        real = src_ids != self.pad_id
        return real[:, :, None]


@transformer.misconception
class HidesTargetQueries(Transformer):
    """Your target mask hides padded queries. It has to hide padded *keys*: padding belongs to the last axis."""

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, :, None] & past


@transformer.misconception
class SwapsTheMasks(Transformer):
    """The decoder's two masks are swapped. First comes the one for self-attention, over the targets, then
    the one for the memory, over the source.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.source_mask(src_ids), self.target_mask(tgt_ids))
        return self.output(x)


@transformer.misconception
class HidesTheMemoryByTheTargets(Transformer):
    """For cross-attention you made the mask from the targets. Its keys are the source words."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(tgt_ids))
        return self.output(x)


@transformer.misconception
class MakesTheMemoryCausal(Transformer):
    """You hide the source's future from the targets. The source is known from the start: only padding is hidden
    there.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        past = torch.ones(tgt_ids.shape[1], src_ids.shape[1], dtype=torch.bool).tril()
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids) & past)
        return self.output(x)


@transformer.misconception
class MakesTheEncoderCausal(Transformer):
    """You hide the future in the encoder too. The source is known from the start: there every word may see every
    other.
    """

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.dropout(self.positions(x))
        return self.encoder(x, self.source_mask(src_ids) & causal_mask(src_ids.shape[1]))


@transformer.misconception
class ShowsTheFutureAlone(Transformer):
    """Your causal mask is transposed: a position sees itself and what comes after it, not what came before."""

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device).T
        return real[:, None, :] & past


@transformer.misconception
class HidesThePresent(Transformer):
    """Your target mask hides each position from itself. It may see itself: its own token is not the one to predict."""

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device).tril(-1)
        return real[:, None, :] & past


@transformer.misconception
class JoinsTheMasksWithOr(Transformer):
    """You join the two parts of the target mask with "or". A key must be real *and* not in the future."""

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] | past


@transformer.misconception
class ReadsTargetsInTheSourceTable(Transformer):
    """You look up the targets in the source's table. Each language has its own."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.src_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class SkipsTheEncoder(Transformer):
    """The encoder is never used: your memory is the source's embedding."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.dropout(self.positions(x))
        return x


@transformer.misconception
class PutsTheMemoryFirst(Transformer):
    """The decoder's x is the target. You gave it the memory as x, and the target as memory."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(memory, x, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class AddsPositionsTwice(Transformer):
    """self.positions(x) is x with the position vectors added already; you add it to x once more."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.dropout(x + self.positions(x))
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(x + self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class ScalesTwice(Transformer):
    """You multiply the embeddings by √d_model; TokenEmbedding has done so already."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids) * self.src_embedding.scale
        x = self.dropout(self.positions(x))
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids) * self.tgt_embedding.scale
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class ForgetsTheScale(Transformer):
    """You use the tables directly instead of calling TokenEmbedding, and so without the factor √d_model."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding.table(src_ids)
        x = self.dropout(self.positions(x))
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding.table(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class ShiftsTheTargetsInside(Transformer):
    """You cut off the last target inside the model. The targets come in already shifted: the caller keeps the labels,
    and the model only sees what the decoder is given.
    """

    def forward(self, src_ids, tgt_ids):
        memory = self.encode(src_ids)
        return self.decode(tgt_ids[:, :-1], memory, src_ids)


@transformer.misconception
class ReturnsTheLastPosition(Transformer):
    """You return the last position alone. In training every target position predicts its own next token at once."""

    def forward(self, src_ids, tgt_ids):
        memory = self.encode(src_ids)
        return self.decode(tgt_ids, memory, src_ids)[:, -1]


@transformer.misconception
class ForgetsTheEmbeddingsDropout(Transformer):
    """Dropout on the sum of embedding and position is missing, on both sides.

    The layers have their own, but this one is yours to apply.
    """

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.positions(x)
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.positions(x)
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class DropsOutBeforeThePositions(Transformer):
    """You apply dropout to the embedding and add the positions after it. Apply it to the sum of both."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.positions(self.dropout(x))
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.positions(self.dropout(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class DropsOutTheLogits(Transformer):
    """You apply dropout after the decoder too, before or after the output layer. It belongs on embedding plus
    position, and inside the layers.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(self.dropout(x))


@transformer.misconception
class AlwaysTiesTheOutput(Transformer):
    """You multiply by the target table instead of using self.output. They are one matrix only if the weights are
    tied.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return x @ self.tgt_embedding.table.weight.T


@transformer.misconception
class MakesTheSourceMaskOfNumbers(Transformer):
    """Your source mask holds the numbers 0 and 1, as floats. Leave it boolean.

    Torch's fused attention, inside the layers, adds a mask of floats to the scores.
    """

    def source_mask(self, src_ids):
        real = (src_ids != self.pad_id).double()
        return real[:, None, :]


@transformer.misconception
class MakesMasksOfWholeNumbers(Transformer):
    """Your masks hold the numbers 0 and 1. Torch's fused attention, inside the layers, needs them to be boolean."""

    def source_mask(self, src_ids):
        real = (src_ids != self.pad_id).long()
        return real[:, None, :]

    def target_mask(self, tgt_ids):
        real = (tgt_ids != self.pad_id).long()
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] & past


@transformer.misconception
class MakesMasksOfSmallNumbers(Transformer):
    """Your masks hold the integers 0 and 1. Torch's fused attention, inside the layers, needs them to be boolean."""

    def source_mask(self, src_ids):
        real = (src_ids != self.pad_id).int()
        return real[:, None, :]

    def target_mask(self, tgt_ids):
        real = (tgt_ids != self.pad_id).int()
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] & past


@transformer.misconception
class TakesSmallIdsForPadding(Transformer):
    """You take every id up to self.pad_id for padding. Only that one id is padding; smaller ones are words."""

    def source_mask(self, src_ids):
        real = src_ids > self.pad_id
        return real[:, None, :]

    def target_mask(self, tgt_ids):
        real = tgt_ids > self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] & past


@transformer.misconception
class ForgetsTheDropoutOfTheSource(Transformer):
    """Dropout on the source's embedding plus position is missing. It is applied on both sides, source and target."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = self.positions(x)
        return self.encoder(x, self.source_mask(src_ids))


@transformer.misconception
class ForgetsTheDropoutOfTheTarget(Transformer):
    """Dropout on the target's embedding plus position is missing. It is applied on both sides, source and target."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.positions(x)
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class CutsTheMemoryOff(Transformer):
    """The memory is detached.

    The numbers are right, but no gradient goes back to the encoder, which then never learns.
    """

    def forward(self, src_ids, tgt_ids):
        memory = self.encode(src_ids)
        return self.decode(tgt_ids, memory.detach(), src_ids)


@transformer.misconception
class MakesTheTriangleAsLongAsTheSource(Transformer):
    """Your causal mask is as long as the source. It belongs to the targets' self-attention: make it as long as the
    target.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids, src_ids), self.source_mask(src_ids))
        return self.output(x)

    def target_mask(self, tgt_ids, src_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(src_ids.shape[1]).to(tgt_ids.device)
        return real[:, None, :] & past


@transformer.misconception
class HidesTheMemoryByTheTargetMask(Transformer):
    """Cross-attention gets the target mask. Its keys are the source words, and of these only padding is hidden."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.target_mask(tgt_ids))
        return self.output(x)


@transformer.misconception
class HidesTheTargetsByTheSourceMask(Transformer):
    """The decoder's self-attention gets the source mask. Its keys are the targets."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.source_mask(src_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class ReadsTheSourceInTheTargetTable(Transformer):
    """You look up the source in the target's table. Each language has its own."""

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.tgt_embedding(src_ids)
        x = self.dropout(self.positions(x))
        return self.encoder(x, self.source_mask(src_ids))


@transformer.misconception
class GivesTheMemoryPositionsAgain(Transformer):
    """You add positions to the memory. The source's words had theirs before the encoder."""

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, self.positions(memory), self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class SkipsTheDecoder(Transformer):
    """The decoder is never used: the targets go through the encoder.

    So they never see the source.
    """

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = self.dropout(self.positions(x))
        x = self.encoder(x, self.target_mask(tgt_ids))
        return self.output(x)


@transformer.misconception
class DropsOutInEvaluationToo(Transformer):
    """Dropout is active in evaluation as well. The module self.dropout knows whether the model is training;
    F.dropout has to be told.
    """

    def encode(self, src_ids):
        require_ids(src_ids, self.src_embedding.table.num_embeddings, self.pad_id, "src_ids")
        x = self.src_embedding(src_ids)
        x = F.dropout(self.positions(x), self.dropout.p)
        return self.encoder(x, self.source_mask(src_ids))

    def decode(self, tgt_ids, memory, src_ids):
        require_ids(tgt_ids, self.tgt_embedding.table.num_embeddings, self.pad_id, "tgt_ids")
        x = self.tgt_embedding(tgt_ids)
        x = F.dropout(self.positions(x), self.dropout.p)
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)


@transformer.misconception
class ForgetsTheQueryAxisOfTheSource(Transformer):
    """Your source mask has no axis for the queries: it is (batch, source). It should be (batch, 1, source), so that
    every query gets the same.

    Torch takes its rows for queries, not for sentences.
    """

    def source_mask(self, src_ids):
        real = src_ids != self.pad_id
        return real


@transformer.misconception
class ForgetsTheQueryAxisOfTheTarget(Transformer):
    """You join (batch, target) and (target, target). The padding needs an axis for the queries in between: (batch, 1,
    target).

    Otherwise a sentence of the batch is taken for a query.
    """

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)
        return real & past


@transformer.alternative
class AllInForward(nn.Module):
    """Everything in one method; the masks have an axis for the heads."""

    def __init__(
        self,
        src_vocab,
        tgt_vocab,
        d_model,
        num_heads,
        d_ff,
        num_layers,
        dropout=0.0,
        norm_first=True,
        tie_weights=False,
        pad_id=0,
        max_len=1024,
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
        if tie_weights:
            self.output.weight = self.tgt_embedding.table.weight
            if src_vocab == tgt_vocab:
                self.src_embedding.table = self.tgt_embedding.table

    def forward(self, src_ids, tgt_ids):
        source = src_ids.ne(self.pad_id)[:, None, None, :]
        n = tgt_ids.shape[1]
        target = torch.stack([tgt_ids[:, j] != self.pad_id for j in range(n)], dim=-1)[:, None, None, :]
        steps = torch.arange(n, device=tgt_ids.device)
        target = target & (steps[:, None] >= steps)
        memory = self.encoder(self.dropout(self.positions(self.src_embedding(src_ids))), source)
        hidden = self.decoder(self.dropout(self.positions(self.tgt_embedding(tgt_ids))), memory, target, source)
        return hidden @ self.output.weight.T


@transformer.alternative
class WithWholeMasks(Transformer):
    """The masks are written out for every query."""

    def source_mask(self, src_ids):
        return (src_ids != self.pad_id).unsqueeze(1).repeat(1, src_ids.size(1), 1)

    def target_mask(self, tgt_ids):
        n = tgt_ids.size(1)
        allowed = torch.zeros(len(tgt_ids), n, n, dtype=torch.bool, device=tgt_ids.device)
        for b, row in enumerate(tgt_ids.tolist()):
            for i in range(n):
                for j in range(i + 1):
                    allowed[b, i, j] = row[j] != self.pad_id
        return allowed

    def decode(self, tgt_ids, memory, src_ids):
        x = self.dropout(self.positions(self.tgt_embedding(tgt_ids)))
        across = (src_ids != self.pad_id)[:, None, :].expand(-1, tgt_ids.size(1), -1)
        for layer in self.decoder.layers:
            x = layer(x, memory, self.target_mask(tgt_ids), across)
        return self.output(self.decoder.norm(x))


@transformer.alternative
class PaddedQueriesHiddenToo(Transformer):
    """What padded queries see does not matter, as long as they see something."""

    def target_mask(self, tgt_ids):
        real = tgt_ids != self.pad_id
        both = real[:, :, None] & real[:, None, :] & causal_mask(tgt_ids.shape[1]).to(real.device)
        return both | torch.eye(tgt_ids.shape[1], dtype=torch.bool, device=real.device) & ~real[:, :, None]


@transformer.alternative
class AdditiveSourceMask(Transformer):
    """Torch's fused attention adds a mask of numbers to the scores: 0 and -inf say the same as True and False."""

    def source_mask(self, src_ids):
        real = src_ids != self.pad_id
        return torch.zeros(real.shape, device=real.device).masked_fill(~real, -torch.inf)[:, None, :]


@transformer.alternative
class SentenceBySentence(Transformer):
    """Each sentence on its own, without the padding at its end."""

    def forward(self, src_ids, tgt_ids):
        rows = [
            super(SentenceBySentence, self).forward(s[None], t[None]) for s, t in zip(src_ids, tgt_ids, strict=True)
        ]
        return torch.cat(rows)


@transformer.alternative
class TorchInside(nn.Module):
    """nn.Transformer with the opposite masks, other names and other norms."""

    def __init__(
        self,
        src_vocab,
        tgt_vocab,
        d_model,
        num_heads,
        d_ff,
        num_layers,
        dropout=0.0,
        norm_first=True,
        tie_weights=False,
        pad_id=0,
        max_len=1024,
    ):
        super().__init__()
        self.pad, self.d_model = pad_id, d_model
        self.emb_src = nn.Embedding(src_vocab, d_model)
        self.emb_tgt = nn.Embedding(tgt_vocab, d_model)
        self.pe = PositionalEncoding(d_model, max_len)
        self.drop = nn.Dropout(dropout)
        self.core = nn.Transformer(
            d_model, num_heads, num_layers, num_layers, d_ff, dropout, batch_first=True, norm_first=norm_first
        )
        if not norm_first:
            self.core.encoder.norm = self.core.decoder.norm = None
        self.generator = nn.Linear(d_model, tgt_vocab, bias=False)
        if tie_weights:
            self.generator.weight = self.emb_tgt.weight
            if src_vocab == tgt_vocab:
                self.emb_src = self.emb_tgt

    def forward(self, src_ids, tgt_ids):
        n = tgt_ids.shape[1]
        hidden = self.core(
            self.drop(self.pe(self.emb_src(src_ids) * math.sqrt(self.d_model))),
            self.drop(self.pe(self.emb_tgt(tgt_ids) * math.sqrt(self.d_model))),
            tgt_mask=torch.ones(n, n, dtype=torch.bool, device=tgt_ids.device).triu(1),
            src_key_padding_mask=src_ids == self.pad,
            tgt_key_padding_mask=tgt_ids == self.pad,
            memory_key_padding_mask=src_ids == self.pad,
        )
        return self.generator(hidden)
