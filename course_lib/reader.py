"""Readers: small encoders that classify, what they are compared with, and a look at what they have read.

A batch of a task is `ids` (batch, time), padded with 0, and `labels` (batch,). Three trained readers come with the
course, made by `python -m benchmarks.train_readers`: one has read notes with gaps and knows no labels
(`load_pretrained`), one judges reviews (`load_judge`), one tells languages apart (`load_linguist`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import languages, reviews
from course_lib.classification import (
    MaskedLanguageModel,
    SequenceClassifier,
    mask_tokens,
    masked_lm_loss,
    masked_mean,
)
from course_lib.encoder_decoder import EncoderLayer
from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.settings import device_of
from course_lib.training import cosine_rate

PAD = 0
Batch = tuple[Tensor, Tensor]
MaskTokens = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]
MaskedLoss = Callable[[Tensor, Tensor], Tensor]

# --- models ---------------------------------------------------------------------------------------------

WEIGHTS = Path(__file__).with_name("readers.pt")
REVIEW_SIZES = {"d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 2, "max_len": reviews.MAX_WORDS}
LANGUAGE_SIZES = {
    "d_model": 96,
    "num_heads": 4,
    "d_ff": 192,
    "num_layers": 2,
    "max_len": languages.MAX_LETTERS + 1,
}  # and [CLS]


def new_judge(make: Callable[..., nn.Module] = SequenceClassifier) -> Any:
    """A reader of reviews with two classes, not yet trained. `make` is a class with the signature of the reference."""
    return make(len(reviews.vocabulary()), 2, **REVIEW_SIZES)


def new_linguist(make: Callable[..., nn.Module] = SequenceClassifier) -> Any:
    """A reader of names with a class for each language, not yet trained."""
    return make(len(languages.letters()), len(languages.CODES), **LANGUAGE_SIZES)


def new_gap_filler() -> MaskedLanguageModel:
    """A reader of notes that names hidden words, not yet trained."""
    return MaskedLanguageModel(len(reviews.vocabulary()), **REVIEW_SIZES)


def load_judge() -> SequenceClassifier:
    """The judge that comes with the course: does the writer like it?"""
    return cast(SequenceClassifier, load_weights(new_judge(), "judge"))


def load_linguist() -> SequenceClassifier:
    """The linguist that comes with the course: which language is this?"""
    return cast(SequenceClassifier, load_weights(new_linguist(), "linguist"))


def load_pretrained() -> MaskedLanguageModel:
    """The reader that comes with the course and has only ever filled gaps."""
    return cast(MaskedLanguageModel, load_weights(new_gap_filler(), "pretrained"))


def load_weights(model: nn.Module, name: str) -> nn.Module:
    model.load_state_dict(
        torch.load(WEIGHTS, map_location="cpu", weights_only=True)[name]
    )  # half precision in the file
    return model.eval()


def save_readers(models: dict[str, nn.Module], path: Path = WEIGHTS) -> None:
    """Write the weights of all readers into one file, in half precision."""
    states = {name: {key: value.half() for key, value in model.state_dict().items()} for name, model in models.items()}
    torch.save(states, path)


def without_positions(model: SequenceClassifier) -> SequenceClassifier:
    """The same model, blind to order: nothing tells it where a token is. The model is changed."""
    model.positions = cast(Any, nn.Identity())
    return model


class BagOfWords(nn.Module):
    """Each word has a score for each class, and the scores are added up. Order plays no part, nor do combinations."""

    def __init__(self, vocab_size: int, num_classes: int):
        super().__init__()
        self.scores = nn.EmbeddingBag(vocab_size, num_classes, mode="sum", padding_idx=PAD)
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time). Returns: logits (batch, num_classes)."""
        return self.scores(ids) + self.bias


class PoolingClassifier(SequenceClassifier):
    """A classifier that makes one vector of many in another way: `pool` is "mean", "max" or "cls".

    With "cls" a token [CLS] is put in front of every row, and its vector stands for all of them.
    """

    def __init__(self, pool: str, cls_id: int, *sizes: int, **more: int):
        super().__init__(*sizes, **more)
        self.pool, self.cls_id = pool, cls_id

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time). Returns: logits (batch, num_classes)."""
        if self.pool == "cls":
            vectors = self.encode(F.pad(ids, (1, 0), value=self.cls_id))
            return self.head(vectors[:, 0])
        vectors, real = self.encode(ids), ids != self.pad_id  # (batch, time, d_model), (batch, time)
        if self.pool == "max":
            return self.head(vectors.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1))
        return self.head(masked_mean(vectors, real))


# --- training -------------------------------------------------------------------------------------------


def batches_of(ids: Tensor, labels: Tensor, batch_size: int, steps: int, seed: int) -> Iterator[Batch]:
    """`steps` batches of rows drawn at random, each no wider than its longest row. The same seed, the same batches."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(ids), (batch_size,), generator=generator)
        longest = int((ids[rows] != PAD).sum(dim=1).max())
        yield ids[rows, :longest], labels[rows]


def train_classifier(
    model: nn.Module, batches: Iterable[Batch], steps: int, groups: Sequence[dict[str, Any]], max_norm: float = 1.0
) -> list[float]:
    """A step of AdamW on each batch. Returns: the loss of every step.

    groups: as optimisers take them, `{"params": …, "lr": …}`. Their learning rates are the highest: they rise for a
    tenth of the steps and fall along a cosine.
    """
    optimizer = torch.optim.AdamW(groups)
    peaks = [group["lr"] for group in optimizer.param_groups]
    losses = []
    model.train()
    for step, (ids, labels) in enumerate(batches, start=1):
        for group, peak in zip(optimizer.param_groups, peaks):
            group["lr"] = cosine_rate(step, steps, peak, warmup=max(1, steps // 10))
        loss = F.cross_entropy(model(ids.to(device_of(model))), labels.to(device_of(model)))
        losses.append(take_step(model, optimizer, loss, max_norm))
    model.eval()
    return losses


def take_step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, max_norm: float) -> float:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def everything(model: nn.Module, rate: float) -> list[dict[str, Any]]:
    """All parameters of a model as one group."""
    return [{"params": list(model.parameters()), "lr": rate}]


def pretrain(
    model: MaskedLanguageModel,
    batches: Iterable[Tensor],
    steps: int,
    rate: float,
    seed: int,
    mask: MaskTokens = mask_tokens,
    loss_of: MaskedLoss = masked_lm_loss,
) -> list[float]:
    """Fill gaps in rows of ids (batch, time), one step of Adam on each batch. Returns: the loss of every step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    model.train()
    for step, ids in enumerate(batches, start=1):
        for group in optimizer.param_groups:
            group["lr"] = cosine_rate(step, steps, rate, warmup=max(1, steps // 10))
        inputs, targets = (each.to(device_of(model)) for each in hide_words(ids, generator, mask))
        losses.append(take_step(model, optimizer, loss_of(model(inputs), targets), max_norm=1.0))
    model.eval()
    return losses


def hide_words(ids: Tensor, generator: torch.Generator, mask: MaskTokens = mask_tokens) -> tuple[Tensor, Tensor]:
    """New gaps in reviews (batch, time). Returns: inputs with gaps, and targets. Padding is never asked for."""
    choice, action = torch.rand(2, *ids.shape, generator=generator)
    first_word = len(reviews.SPECIAL)
    random_ids = torch.randint(first_word, len(reviews.vocabulary()), ids.shape, generator=generator)
    return mask(ids, ids >= first_word, choice, action, random_ids, reviews.MASK)


# --- how good is it? ------------------------------------------------------------------------------------


@torch.no_grad()
def probabilities(model: nn.Module, ids: Tensor, batch_size: int = 500) -> Tensor:
    """What the model believes: (row, class), on the CPU."""
    model.eval()
    parts = [model(rows.to(device_of(model))).softmax(dim=-1).cpu() for rows in ids.split(batch_size)]
    return torch.cat(parts)


def accuracy(model: nn.Module, ids: Tensor, labels: Tensor) -> float:
    """The share of rows whose likeliest class is the right one."""
    return (probabilities(model, ids).argmax(dim=-1) == labels).float().mean().item()


# --- what did it look at? -------------------------------------------------------------------------------


def logits_with_attention(
    model: SequenceClassifier, ids: Tensor, change: Callable[[int, Tensor], Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The logits, if the attention weights of each layer are replaced by others.

    change: given a layer's number and its own weights (batch, head, query, key), it returns those to be used.
    Returns: logits (batch, num_classes), and each layer's own weights.
    """
    x = model.positions(model.embedding(ids))  # (batch, time, d_model)
    real = ids != model.pad_id
    kept = []
    for number, layer in enumerate(cast(list[EncoderLayer], list(model.encoder.layers))):
        h = layer.norm_1(x)
        own = layer.attention(h, h, h, real[:, None, :])[1]  # (batch, head, query, key)
        kept.append(own)
        values = split_heads(layer.attention.w_v(h), layer.attention.num_heads)  # (batch, head, key, d_k)
        x = x + layer.attention.w_o(merge_heads(change(number, own) @ values))
        x = x + layer.transform(layer.norm_2(x))
    return model.head(masked_mean(model.encoder.norm(x), real)), kept


def attention_received(model: SequenceClassifier, ids: Tensor) -> Tensor:
    """How much each token is looked at: the mean over layers, heads and real queries, (batch, time)."""
    with torch.no_grad():
        _, weights = logits_with_attention(model, ids, lambda _, own: own)
    received = torch.stack(weights).mean(dim=(0, 2))  # (batch, query, key)
    real = (ids != model.pad_id).to(received)
    return (received * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True)


def gradient_size(model: SequenceClassifier, ids: Tensor) -> Tensor:
    """How strongly the answer depends on each token's vector: the length of the margin's gradient, (batch, time)."""
    vectors = model.embedding(ids).detach().requires_grad_()  # (batch, time, d_model)
    real = ids != model.pad_id
    logits = model.head(masked_mean(model.encoder(model.positions(vectors), real[:, None, :]), real))
    (gradient,) = torch.autograd.grad(margin(logits, two_best(logits)).sum(), vectors)
    return gradient.norm(dim=-1) * real


@torch.no_grad()
def effect_of_hiding(model: SequenceClassifier, ids: Tensor) -> Tensor:
    """How much the margin of the answer falls if a token is hidden from the model, one at a time: (batch, time).

    A hidden token stays where it is, but nobody attends to it, and it is missing in the mean. Negative: without the
    token the model would be surer.
    """
    model.eval()
    logits = model(ids)
    classes = two_best(logits)
    effects = torch.zeros(ids.shape)
    for place in range(ids.shape[1]):
        hidden = ids.clone()
        hidden[:, place] = model.pad_id
        effects[:, place] = margin(logits, classes) - margin(model(hidden), classes)
    return effects


def two_best(logits: Tensor) -> Tensor:
    """The likeliest class and the next, (batch, 2)."""
    return logits.topk(2, dim=-1).indices


def margin(logits: Tensor, classes: Tensor) -> Tensor:
    """How far the first of two classes is ahead of the second: (batch,)."""
    ahead = logits.gather(1, classes)
    return ahead[:, 0] - ahead[:, 1]


def other_attention(
    model: SequenceClassifier, ids: Tensor, steps: int = 200
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """Search for attention weights as different as possible that give the same answer, for one row of ids (1, time).

    Returns: the probabilities with its own weights and with the others, (class,) each; the weights themselves, one
    tensor (head, query, key) for each layer, its own and the others.
    """

    def answer_with(others: list[Tensor]) -> Tensor:
        return logits_with_attention(model, ids, lambda layer, _: others[layer])[0]

    with torch.no_grad():
        logits, own = logits_with_attention(model, ids, lambda _, weights: weights)
    scores = [weights.clamp(min=1e-4).log().requires_grad_() for weights in own]  # begin near the model's own
    optimizer = torch.optim.Adam(scores, lr=0.2)
    for _ in range(steps):
        others = [score.softmax(dim=-1) for score in scores]
        distance = torch.stack([distance_between(a, b) for a, b in zip(own, others)]).mean()
        loss = 10 * (answer_with(others) - logits).pow(2).sum() - distance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        others = [score.softmax(dim=-1) for score in scores]
        answer = answer_with(others)
    own_weights, other_weights = [w[0] for w in own], [w[0] for w in others]
    return logits.softmax(dim=-1)[0], answer.softmax(dim=-1)[0], own_weights, other_weights


def distance_between(a: Tensor, b: Tensor) -> Tensor:
    """How much of the attention lies elsewhere: 0 for equal weights, 1 for weights that share no key. The mean."""
    return (a - b).abs().sum(dim=-1).mean() / 2
