"""The exercise `SequenceClassifier`: what must hold, and what people really write instead."""

from __future__ import annotations

import functools
import math
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import classification
from course_lib.checking.bench import StudentError
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, is_close
from course_lib.checking.parts import Sizes, placements, random_numbers, standard_name
from course_lib.classification import SequenceClassifier, masked_mean
from course_lib.encoder_decoder import Encoder
from course_lib.positions import LearnedPositions, PositionalEncoding
from course_lib.sublayers import TokenEmbedding
from course_lib.transformer import require_ids

sequence_classifier = Exercise(
    classification.SequenceClassifier,
    cases=[
        {
            "vocab_size": 11,
            "num_classes": 3,
            "d_model": 6,
            "num_heads": 2,
            "d_ff": 8,
            "num_layers": 1,
            "max_len": 7,
            "pad_id": 0,
            "ids": torch.tensor([[1, 2, 9, 7], [3, 8, 0, 0]]),
        },
        {
            "vocab_size": 13,
            "num_classes": 5,
            "d_model": 4,
            "num_heads": 2,
            "d_ff": 9,
            "num_layers": 2,
            "max_len": 6,
            "pad_id": 1,
            "ids": torch.tensor([[1, 4, 0, 12, 1], [7, 1, 10, 3, 0], [0, 6, 1, 1, 1]]),
        },
    ],
    minutes=14,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Five steps in a row: words, positions, encoder, one vector per sequence, head. Each is one line. Where does "
        "padding have to be kept out? In two of the five.",
        "real = ids != self.pad_id is (batch, time). The mean takes it as it is. The encoder's mask needs an axis for "
        "the queries: (batch, 1, time).",
        "self.positions(x) already returns x with the positions added. reference.Encoder(d_model, num_heads, d_ff, "
        "num_layers) is called with x and the mask.",
        "x = self.positions(self.embedding(ids)); vectors = self.encoder(x, real[:, None, :]); "
        "return self.head(reference.masked_mean(vectors, real))",
    ],
)


def building(case) -> tuple:
    """The arguments of the constructor."""
    return tuple(value for name, value in case.items() if name != "ids")


@functools.cache
def numbers(*args) -> dict[str, Tensor]:
    """A number for every parameter of the reference, by name."""
    shapes = {name: tuple(p.shape) for name, p in SequenceClassifier(*args).named_parameters()}
    return random_numbers(shapes, seed=3)


@functools.cache
def right_model(*args) -> SequenceClassifier:
    model = SequenceClassifier(*args).double().eval().requires_grad_(False)
    model.load_state_dict(numbers(*args))
    return model


RIGHT_ANSWERS: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def right_logits(case) -> Tensor:
    known, answer = RIGHT_ANSWERS.get(id(case), (None, None))
    if known is not case:
        answer = right_model(*building(case))(case["ids"])
        RIGHT_ANSWERS[id(case)] = (case, answer)
    return answer


def ways_to_load(built, case, wanted):
    """The ways to put the wanted numbers into the student's parameters, the most natural one first.

    The names of the task are always understood. Otherwise tables and head are recognised by their shapes, and the
    encoder's parameters as those of any encoder.
    """
    shapes = {name: tuple(shape) for name, shape in built.shapes().items()}
    known = {name: wanted.get(standard_name(name)) for name in shapes}
    if known and all(t is not None and tuple(t.shape) == shapes[name] for name, t in known.items()):
        yield known
        return
    placed = {}
    for key in ("embedding.table.weight", "positions.table.weight", "head.weight", "head.bias"):
        tensor = wanted[key]
        fitting = [n for n, s in shapes.items() if n not in placed and without_ones(s) == tuple(tensor.shape)]
        placed |= {name: tensor.reshape(shapes[name]) for name in fitting[:1]}
    left = {name: shape for name, shape in shapes.items() if name not in placed}
    inside = {n.removeprefix("encoder."): t for n, t in wanted.items() if n.startswith("encoder.")}
    sizes = Sizes(case["d_model"], case["d_ff"], case["num_heads"])
    for state in placements(left, inside, sizes):
        yield placed | state


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Positions may be a parameter of shape (1, max_len, d_model)."""
    return tuple(size for size in shape if size != 1)


def filled(subject, case, **changes):
    """The student's model with the check's numbers in it."""
    built = subject.build(*building(case))
    fill(built, case, **changes)
    return built


def fill(built, case, padding: float = 0.0) -> None:
    """Put the check's numbers in; `padding` is added to the table's row for padding."""
    state = next(ways_to_load(built, case, with_padding(case, padding)), None)
    if state is None:
        raise Failure(
            "The check fills your parameters with its own numbers and cannot tell which is which: "
            f"{unknown_parameters(built, case)}. The parts and names that the task gives are always understood."
        )
    built.load(state)


def unknown_parameters(built, case) -> str:
    """Those that the reference does not have, or not in this shape."""
    known = {(standard_name(name), tuple(tensor.shape)) for name, tensor in numbers(*building(case)).items()}
    shapes = {name: tuple(shape) for name, shape in built.shapes().items()}
    unknown = [f"{name} {shape}" for name, shape in shapes.items() if (standard_name(name), shape) not in known]
    return ", ".join(unknown[:8]) + (" …" if len(unknown) > 8 else "")


def with_padding(case, padding: float) -> dict[str, Tensor]:
    wanted = dict(numbers(*building(case)))
    table = wanted["embedding.table.weight"].clone()
    table[case["pad_id"]] += padding
    return {**wanted, "embedding.table.weight": table}


def logits_of(built, case, ids: Tensor | None = None) -> Tensor:
    """What `forward` gives: one row of logits for each sequence."""
    ids = case["ids"] if ids is None else ids
    return expect_floats(built(ids), (len(ids), case["num_classes"]), "the result (batch, num_classes)")


def differs(before: Tensor, after: Tensor) -> Tensor:
    """(batch,): which sequences get different logits."""
    return ((after - before).abs() > 1e-9).any(dim=-1)


@sequence_classifier.property("ids become logits (batch, num_classes)", points=1)
def classifier_shape(subject, case):
    logits_of(filled(subject, case), case)


@sequence_classifier.property("every real token has a say, and only in its own sequence", points=1)
def classifier_tokens(subject, case):
    built, ids = filled(subject, case), case["ids"]
    before = logits_of(built, case)
    places = (ids != case["pad_id"]).nonzero().tolist()
    others = [with_another_token(ids[row], place, case) for row, place in places]
    again, after = logits_of(built, case, torch.cat([ids, torch.stack(others)])).split([len(ids), len(others)])
    mixed = differs(before, again).nonzero().flatten().tolist()
    expect(not mixed, f"Put into a batch with more sequences, sequence {mixed[:1]} gets different logits.")
    for (row, place), logits in zip(places, after):
        moved = differs(before[row : row + 1], logits[None])
        expect(moved, f"With another token at place {place} of sequence {row} its logits stay the same.")


def with_another_token(row: Tensor, place: int, case) -> Tensor:
    """The sequence with another real token at this place."""
    token = int(row[place])
    others = (other % case["vocab_size"] for other in range(token + 1, token + 4))
    changed = row.clone()
    changed[place] = next(other for other in others if other != case["pad_id"])
    return changed


@sequence_classifier.property("the order of the tokens counts", points=1)
def classifier_order(subject, case):
    built, ids = filled(subject, case), case["ids"][:1]
    first, second = (ids[0] != case["pad_id"]).nonzero().flatten()[:2].tolist()
    swapped = ids.clone()
    swapped[0, first], swapped[0, second] = ids[0, second], ids[0, first]
    moved = differs(logits_of(built, case, ids), logits_of(built, case, swapped))
    expect(moved.all(), f"{ids[0].tolist()} and {swapped[0].tolist()} get the same logits. Are the positions added?")


@sequence_classifier.property("padding has no influence, neither what it is nor how much there is", points=2)
def classifier_padding(subject, case):
    built, ids, pad_id = filled(subject, case), case["ids"], case["pad_id"]
    before = logits_of(built, case)
    longer = torch.cat([ids, torch.full((len(ids), case["max_len"] - ids.shape[1]), pad_id)], dim=1)
    moved = differs(before, logits_of(built, case, longer)).nonzero().flatten().tolist()
    more = longer.shape[1] - ids.shape[1]
    places = "1 more place" if more == 1 else f"{more} more places"
    expect(
        not moved,
        f"With {places} of padding (id {pad_id}) at the end the logits of sequence {moved[:1]} change.",
    )
    fill(built, case, padding=1.5)
    moved = differs(before, logits_of(built, case)).nonzero().flatten().tolist()
    expect(
        not moved,
        f"With another vector for padding (id {pad_id}) in the table the logits of sequence {moved[:1]} change: "
        f"{ids[moved[0]].tolist() if moved else ''}.",
    )


@sequence_classifier.property("the logits are those of the formula, and every weight learns from them", points=2)
def classifier_values(subject, case):
    built = filled(subject, case)
    got, want = logits_of(built, case), right_logits(case)
    if not is_close(got, want) and not right_in_another_way(built, case, want):
        expect_close(got, want)
    slopes = built.parameter_gradients(case["ids"])
    idle = [name for name, slope in slopes.items() if slope.dim() > 1 and slope.abs().max() < 1e-12]
    built.note("idle", len(idle))
    expect(
        not idle,
        f"The result is right, but no gradient comes back to {', '.join(idle[:3])}{' …' if len(idle) > 3 else ''}. "
        "Is a tensor detached on the way (detach, .data, torch.no_grad)?",
    )
    deaf = tokens_without_gradient(slopes, case)
    built.note("tokens without gradient", deaf)
    expect(
        not deaf,
        f"No gradient reaches the vectors of the tokens {deaf} in the embedding's table, though they are among the "
        f"ids. Does the embedding know that padding is {case['pad_id']} here?",
    )


def tokens_without_gradient(slopes: dict[str, Tensor], case) -> list[int]:
    """The real tokens among the ids whose rows in the table learn nothing."""
    size = (case["vocab_size"], case["d_model"])
    table = next((slope for slope in slopes.values() if tuple(slope.shape) == size), None)
    tokens = [token for token in case["ids"].unique().tolist() if token != case["pad_id"]]
    return [] if table is None else [token for token in tokens if table[token].abs().max() < 1e-12]


def right_in_another_way(built, case, want: Tensor) -> bool:
    """Whether the numbers, put into the parameters in a less natural way, give what is wanted."""
    with built.unobserved():
        for state in islice(ways_to_load(built, case, numbers(*building(case))), 1, None):
            built.load(state)
            try:
                got = built(case["ids"])
            except StudentError:
                continue
            if isinstance(got, Tensor) and is_close(got, want):
                return True
    return False


@sequence_classifier.misconception
class ForgetsThePositions(SequenceClassifier):
    """The positions are never added.

    To your encoder a sequence is a bag of words: every order of the same tokens gets the same logits."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class ForgetsTheMask(SequenceClassifier):
    """The encoder gets no mask.

    Real tokens look at padding, and the logits depend on how long the other sequences of the batch are."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x)


@sequence_classifier.misconception
class InvertsTheMask(SequenceClassifier):
    """The encoder's mask is True on padding. True means that attention is allowed."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids == self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class MasksTheQueries(SequenceClassifier):
    """The mask hides padding among the queries: its axis of length 1 is the last. The *keys* are to be hidden,
    (batch, 1, time)."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, :, None])


@sequence_classifier.misconception
class TakesZeroForPadding(SequenceClassifier):
    """You take the id 0 for padding in the encoder's mask. Padding is whatever pad_id says."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != 0
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class LooksOnlyBack(SequenceClassifier):
    """The encoder's mask hides later positions, as in a decoder. Here every position may see all real ones."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        past = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        return self.encoder(x, real[:, None, :] & past)


@sequence_classifier.misconception
class UsesTheBareTable(SequenceClassifier):
    """You take the rows of the table as they are. TokenEmbedding multiplies them by √d_model.

    Beside the position vectors the words are too small."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding.table(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class ScalesTwice(SequenceClassifier):
    """You multiply by √d_model once more. The embedding does it already."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids) * self.embedding.scale
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class AddsTheInputTwice(SequenceClassifier):
    """You add what self.positions returns to the words. It returns words plus positions already."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = x + self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class SkipsTheEncoder(SequenceClassifier):
    """The encoder is never used.

    Each token is looked at by itself, and none knows what is around it."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return x


@sequence_classifier.misconception
class AddsPositionsBehindTheEncoder(SequenceClassifier):
    """You add the positions to the encoder's output. They have to be there before: attention needs them."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        return self.positions(self.encoder(x, real[:, None, :]))


@sequence_classifier.misconception
class ZeroesPaddingInsteadOfMasking(SequenceClassifier):
    """You set padding to 0 before the encoder instead of giving it a mask. A key of zeros is still a key, and gets
    attention."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x) * real[:, :, None]
        return self.encoder(x)


@sequence_classifier.misconception
class CountsPaddingInTheMean(SequenceClassifier):
    """The mean runs over all positions, padding included. It is the mean over the real ones.

    The same sequence gets different logits in a longer batch."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors.mean(dim=1)
        return self.head(pooled)


@sequence_classifier.misconception
class DividesByTheLength(SequenceClassifier):
    """You leave padding out of the sum but divide by the length of the batch. Divide by the number of real
    positions."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = (vectors * real[:, :, None]).mean(dim=1)
        return self.head(pooled)


@sequence_classifier.misconception
class AddsTheVectorsUp(SequenceClassifier):
    """You add up the vectors of the real positions. Their mean is asked for."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = (vectors * real[:, :, None]).sum(dim=1)
        return self.head(pooled)


@sequence_classifier.misconception
class TakesTheMaximum(SequenceClassifier):
    """You take the largest value of each feature. The mean over the real positions is asked for."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1)
        return self.head(pooled)


@sequence_classifier.misconception
class TakesTheFirstPosition(SequenceClassifier):
    """You take the vector of the first position. The mean over the real positions is asked for.

    Models with a [CLS] token in front do that; here the first position is a token like any other."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors[:, 0]
        return self.head(pooled)


@sequence_classifier.misconception
class TakesTheLastPosition(SequenceClassifier):
    """You take the vector of the last position. The mean over the real positions is asked for.

    In a short sequence the last position is padding."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors[:, -1]
        return self.head(pooled)


@sequence_classifier.misconception
class AveragesThePadding(SequenceClassifier):
    """The mean runs over the padding: the mask that you give it is the wrong way round."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, ~real)
        return self.head(pooled)


@sequence_classifier.misconception
class TakesZeroForPaddingInTheMean(SequenceClassifier):
    """You take the id 0 for padding in the mean. Padding is whatever pad_id says."""

    def forward(self, ids):
        real = ids != 0
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)


@sequence_classifier.misconception
class ReturnsProbabilities(SequenceClassifier):
    """You return probabilities. The classifier returns logits: the loss applies the softmax itself.

    A second softmax would flatten everything."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled).softmax(dim=-1)


@sequence_classifier.misconception
class ReturnsLogProbabilities(SequenceClassifier):
    """You return log-probabilities. The classifier returns logits: the loss applies the (log-)softmax itself."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled).log_softmax(dim=-1)


@sequence_classifier.misconception
class ReturnsTheClass(SequenceClassifier):
    """You return the number of the best class. The classifier returns logits, one number per class.

    A class number has no gradient."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled).argmax(dim=-1)


@sequence_classifier.misconception
class ReturnsThePooledVector(SequenceClassifier):
    """The head is missing: you return d_model features, not one number per class."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return pooled


@sequence_classifier.misconception
class AnswersAtEveryPosition(SequenceClassifier):
    """You return logits for every position. One answer per sequence is asked for."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors
        return self.head(pooled)


@sequence_classifier.misconception
class PutsATanhBeforeTheHead(SequenceClassifier):
    """You apply a tanh before the head. BERT's pooler does so; here the mean goes straight into the head."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(torch.tanh(pooled))


@sequence_classifier.misconception
class PutsAReluBeforeTheHead(SequenceClassifier):
    """You apply a ReLU before the head. The mean goes straight into it."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(torch.relu(pooled))


@sequence_classifier.misconception
class PutsAReluBehindTheHead(SequenceClassifier):
    """You apply a ReLU to the logits. They may be negative.

    All classes that the model votes against get the same 0."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return torch.relu(self.head(pooled))


@sequence_classifier.misconception
class MixesTheBatch(SequenceClassifier):
    """Your mean also runs over the batch. Each sequence has its own vector."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors[real].mean(dim=0).expand(len(ids), -1)
        return self.head(pooled)


@sequence_classifier.misconception
class CutsTheGradient(SequenceClassifier):
    """The pooled vector is detached.

    The logits are right, but only the head could learn."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled.detach())


@sequence_classifier.misconception
class KnowsNoPadding(SequenceClassifier):
    """Padding is treated like real tokens, in the encoder and in the mean. Both have to know where it is.

    The same sequence gets different logits in a longer batch."""

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = vectors.mean(dim=1)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x)


@sequence_classifier.misconception
class SkipsTheNormAtTheEnd(SequenceClassifier):
    """You run the encoder's layers yourself, without the norm after the last one. self.encoder(x, mask) does both."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        for layer in self.encoder.layers:
            x = layer(x, real[:, None, :])
        return x


@sequence_classifier.misconception
class ForgetsTheAxisOfTheQueries(SequenceClassifier):
    """The encoder's mask has shape (batch, time). It needs an axis for the queries, (batch, 1, time)."""

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real)


@sequence_classifier.misconception
class ComputesThePositions(nn.Module):
    """Your positions are the fixed ones of the sinusoidal table. Learned positions are asked for."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = PositionalEncoding(d_model, max_len)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class TellsTheEmbeddingNothing(nn.Module):
    """Your embedding is not told pad_id, and takes 0 for padding.

    The vector of token 0 stays zero and never learns."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class BuildsAPostNormEncoder(nn.Module):
    """Your encoder is a post-norm one (norm_first=False). The encoder's default is asked for: pre-norm, with a norm
    at the end."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers, norm_first=False)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class BuildsOneLayer(nn.Module):
    """Your encoder has one layer, whatever num_layers says."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, 1)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class BuildsOneHead(nn.Module):
    """Your attention has one head, whatever num_heads says."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, 1, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class BuildsAHeadWithoutBias(nn.Module):
    """Your head has no bias. It is a plain nn.Linear, with one more number for each class."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes, bias=False)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class BuildsAHeadForTheVocabulary(nn.Module):
    """Your head has one output for each token of the vocabulary. It has one for each class."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.misconception
class IgnoresThePadId(nn.Module):
    """You take the id 0 for padding, whatever pad_id says."""

    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = 0
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        real = ids != self.pad_id
        vectors = self.encode(ids)
        pooled = masked_mean(vectors, real)
        return self.head(pooled)

    def encode(self, ids):
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id
        x = self.embedding(ids)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


@sequence_classifier.alternative
class HeadBeforeTheMean(SequenceClassifier):
    def forward(self, ids):
        real = (ids != self.pad_id).to(self.head.weight.dtype)
        x = self.positions(self.embedding(ids))
        votes = self.head(self.encoder(x, mask=real[:, None, :].bool()))  # (batch, time, classes)
        return (votes * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)


@sequence_classifier.alternative
class OneSequenceAfterTheOther(SequenceClassifier):
    def forward(self, ids):
        rows = []
        for row in ids:
            x = self.positions(self.embedding(row[None]))[:, row != self.pad_id]
            rows.append(self.head(self.encoder(x).mean(dim=1)))
        return torch.cat(rows)


@sequence_classifier.alternative
class OwnNamesAndTables(nn.Module):
    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad, self.width = pad_id, d_model
        self.fc = nn.Linear(d_model, num_classes)
        self.body = Encoder(d_model, num_heads, d_ff, num_layers, dropout=0.0, norm_first=True)
        self.pos = nn.Parameter(0.02 * torch.randn(1, max_len, d_model))
        self.words = nn.Embedding(vocab_size, d_model)

    def forward(self, ids):
        real = torch.ne(ids, self.pad)
        x = self.words(ids) * math.sqrt(self.width) + self.pos[:, : ids.shape[1]]
        h = self.body(x, (real.unsqueeze(1) & real.unsqueeze(2)) | torch.eye(ids.shape[1], dtype=torch.bool))
        pooled = torch.einsum("btd,bt->bd", h, F.normalize(real.to(h.dtype), p=1, dim=1))
        return self.fc(pooled)


@sequence_classifier.alternative
class WithTorchsEncoder(nn.Module):
    def __init__(self, vocab_size, num_classes, d_model, num_heads, d_ff, num_layers, max_len, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id=pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, dropout=0.0, batch_first=True, norm_first=True)
        norm = nn.LayerNorm(d_model)
        self.encoder = nn.TransformerEncoder(layer, num_layers, norm, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids):
        padding = ids == self.pad_id
        vectors = self.encoder(self.positions(self.embedding(ids)), src_key_padding_mask=padding)
        return self.head(masked_mean(vectors, ~padding))
