"""Classification: an encoder that reads.

    ids → embedding + positions → encoder → one vector per sequence → head → logits, one per class

The encoder gives a vector for every position; a class needs one for the whole sequence. `masked_mean` makes it, and
`SequenceClassifier` puts the parts together. `confusion_matrix` shows which classes it mixes up.

Labels are expensive and text is cheap. So the same encoder first learns from text alone: some tokens are hidden
(`mask_tokens`) and it names them (`masked_lm_loss`). After that a few labels are enough (`fine_tune`). `wordpiece` cuts
words into the pieces that such models read, and `bert_parameters` counts what is trained in the best known of them.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.encoder_decoder import Encoder
from course_lib.positions import LearnedPositions
from course_lib.sublayers import TokenEmbedding
from course_lib.transformer import require_ids

IGNORED = -100  # the target at places that the loss leaves out, as in torch's cross-entropy
UNKNOWN = "[UNK]"

# --- a classifier ---------------------------------------------------------------------------------------


def masked_mean(x: Tensor, real: Tensor) -> Tensor:
    """One vector per sequence: the mean over its real positions. Padding plays no part.

    x: (..., time, d); real: (..., time) boolean, True at real positions.
    Returns: (..., d). A sequence without any real position gives zeros.
    """
    hidden = ~real.unsqueeze(-1)  # (..., time, 1)
    kept = x.masked_fill(hidden, 0.0)  # (..., time, d)
    total = kept.sum(dim=-2)  # (..., d)
    count = real.sum(dim=-1, keepdim=True)  # (..., 1)
    return total / count.clamp(min=1)


class SequenceClassifier(nn.Module):
    """An encoder, the mean over the real positions, and a linear layer with one output per class.

    It finds the padding itself (`pad_id`). Padding is neither attended to nor counted in the mean.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        max_len: int,
        pad_id: int = 0,
    ):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time), at least one real token in every row. Returns: logits (batch, num_classes)."""
        real = ids != self.pad_id  # (batch, time)
        vectors = self.encode(ids)  # (batch, time, d_model)
        pooled = masked_mean(vectors, real)  # (batch, d_model)
        return self.head(pooled)

    def encode(self, ids: Tensor) -> Tensor:
        """ids: (batch, time). Returns: one vector for every position, (batch, time, d_model)."""
        require_ids(ids, self.embedding.table.num_embeddings, self.pad_id, "ids")
        real = ids != self.pad_id  # (batch, time)
        x = self.embedding(ids)  # (batch, time, d_model)
        x = self.positions(x)
        return self.encoder(x, real[:, None, :])


def confusion_matrix(predicted: Tensor, actual: Tensor, num_classes: int) -> Tensor:
    """How often each class was taken for each class: `matrix[i, j]` examples of class i were called j.

    predicted, actual: (n,) class numbers from 0 to num_classes - 1.
    Returns: (num_classes, num_classes) whole numbers; the row is the actual class, the column the predicted one.
    """
    pairs = actual * num_classes + predicted  # (n,): one number for each pair of classes
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


# --- words in pieces ------------------------------------------------------------------------------------


def wordpiece(word: str, vocabulary: Set[str]) -> list[str]:
    """Cut a word into pieces of the vocabulary, from the left, each as long as possible.

    Pieces after the first have "##" in front, in the vocabulary and in the result: "walking" → ["walk", "##ing"].
    The cut never goes back: where no piece fits, the whole word becomes ["[UNK]"], even if shorter pieces before that
    place would have led on.

    word: at least one letter; upper and lower case are different letters. Returns: the pieces.
    """
    pieces: list[str] = []
    rest = word
    for _ in word:  # there are never more pieces than letters
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


# --- learning from text alone -------------------------------------------------------------------------------


class MaskedLanguageModel(SequenceClassifier):
    """The same encoder with the vocabulary for classes, and asked at every position instead of once per sequence."""

    def __init__(
        self, vocab_size: int, d_model: int, num_heads: int, d_ff: int, num_layers: int, max_len: int, pad_id: int = 0
    ):
        super().__init__(vocab_size, vocab_size, d_model, num_heads, d_ff, num_layers, max_len, pad_id)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time), some of them masked. Returns: logits (batch, time, vocab_size)."""
        vectors = self.encode(ids)  # (batch, time, d_model)
        return self.head(vectors)


def mask_tokens(
    ids: Tensor, may_be_chosen: Tensor, choice: Tensor, action: Tensor, random_ids: Tensor, mask_id: int
) -> tuple[Tensor, Tensor]:
    """BERT's task: some tokens of a text are hidden, and the model is asked for them.

    A place is chosen if it may be and its `choice` is below 0.15. What the model sees at a chosen place depends on its
    `action`: below 0.8 the mask token, from 0.8 and below 0.9 the random token, else the token itself.

    ids, random_ids: (batch, time) tokens; may_be_chosen: (batch, time) boolean, False at padding and special tokens;
    choice, action: (batch, time) numbers drawn uniformly from [0, 1).
    Returns: inputs (batch, time), and targets (batch, time): the true token at chosen places, -100 at all others.
    """
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


def masked_lm_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy at the chosen places: the mean of -log p(target) over all targets that are not -100.

    logits: (batch, time, vocab); targets: (batch, time).
    Returns: a number, in nats. If no place is chosen it is 0, and backward() can still be called on it.
    """
    chosen = targets != IGNORED  # (batch, time)
    log_probabilities = logits[chosen].log_softmax(dim=-1)  # (chosen, vocab)
    tokens = targets[chosen]  # (chosen,)
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))  # (chosen, 1)
    return losses.sum() / max(len(tokens), 1)


# --- and then from a few labels -------------------------------------------------------------------------


def fine_tune(
    model: SequenceClassifier, num_classes: int, body_rate: float, head_rate: float, frozen_layers: int
) -> list[dict[str, Any]]:
    """Prepare a pre-trained model for a new task: a new head, the lowest parts frozen, a rate for each of the others.

    `model.head` becomes a new linear layer with `num_classes` outputs. Embedding, positions and the first
    `frozen_layers` layers of the encoder are frozen: their parameters need no gradients. What is left of the body (the
    other layers and the encoder's norm) learns with `body_rate`, the head with `head_rate`.

    Returns: the parameters that learn, in groups as optimisers take them: `{"params": [...], "lr": rate}`.
    """
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)  # on its device, and as precise
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


# --- how large it is ------------------------------------------------------------------------------------


def bert_parameters(vocab_size: int, max_len: int, num_segments: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """How many numbers BERT learns before it gets a head.

    Three tables are added up and normalised: tokens, positions and segments (first or second sentence). Then come the
    encoder layers, with biases in every linear layer and two norms each, and at the end the pooler, a linear layer with
    d_model inputs and outputs on the first position's vector. A norm has a gain and a bias.
    """
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler
