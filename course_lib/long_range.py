"""One task that needs a long memory, and three kinds of models that read: recurrent, convolutional, attentive.

A sequence is noise in which a few things are said, "a is 3", "b is 0", each at a random place and in a single symbol.
Its last symbol asks for one of them, "b?", and the model has to say the value.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.positions import sinusoidal_encoding
from course_lib.settings import device_of

NOISE, THINGS, VALUES = 8, 6, 4  # how many symbols of noise there are, things that can be said, and values of each
ASK = NOISE + THINGS * VALUES  # the symbol that asks for thing 0; the others follow
VOCABULARY = ASK + THINGS
LENGTH, BATCH_SIZE, RATE = 64, 64, 4e-3


def made_sequences(batch: int, length: int, things: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences of noise with `things` sayings each, and a question at the end.

    Returns: ids (batch, length); the values asked for (batch,), from 0 to VALUES - 1; and how many steps before the end
    each was said (batch,), from 1 to length - 1.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(NOISE, (batch, length), generator=generator)
    places = torch.rand(batch, length - 1, generator=generator).argsort(dim=1)[:, :things]  # no two are the same
    values = torch.randint(VALUES, (batch, things), generator=generator)
    ids.scatter_(1, places, NOISE + VALUES * torch.arange(things) + values)
    asked = torch.randint(things, (batch, 1), generator=generator)
    ids[:, -1:] = ASK + asked
    return ids, values.gather(1, asked)[:, 0], length - 1 - places.gather(1, asked)[:, 0]


def written_out(ids: Tensor) -> str:
    """A sequence (length,) for the eye: a dot for noise, a3 for "a is 3", a? for the question."""
    names = ["·"] * NOISE
    names += [f"{thing}{value}" for thing in "abcdef" for value in range(VALUES)]
    names += [f"{thing}?" for thing in "abcdef"]
    return " ".join(names[symbol] for symbol in ids.tolist())


class Recurrent(nn.Module):
    """One step after the other, everything it knows in one state. `kind`: nn.RNN is plain, nn.GRU has gates."""

    def __init__(self, d_model: int, kind: type[nn.RNN] | type[nn.GRU]):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, d_model)
        self.steps = kind(d_model, d_model, batch_first=True)
        self.output = nn.Linear(d_model, VALUES)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, length). Returns: logits (batch, VALUES)."""
        states, _ = self.steps(self.embedding(ids))  # (batch, length, d_model)
        return self.output(states[:, -1])


class Convolutional(nn.Module):
    """A stack of causal convolutions: each layer sees `width` positions, its own and those before."""

    def __init__(self, d_model: int, num_layers: int, width: int):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(VOCABULARY, d_model)
        self.layers = nn.ModuleList(nn.Conv1d(d_model, d_model, width) for _ in range(num_layers))
        self.output = nn.Linear(d_model, VALUES)

    def reach(self) -> int:
        """How many steps back the last position can see."""
        return len(self.layers) * (self.width - 1)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, length). Returns: logits (batch, VALUES)."""
        x = self.embedding(ids).transpose(1, 2)  # (batch, d_model, length)
        for layer in self.layers:
            x = F.relu(layer(F.pad(x, (self.width - 1, 0))))
        return self.output(x[:, :, -1])


class Attentive(nn.Module):
    """Causal self-attention, one head, sinusoidal positions: every position sees all earlier ones at once."""

    def __init__(self, d_model: int, num_layers: int):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(num_layers))
        self.projections = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(num_layers))
        self.output = nn.Linear(d_model, VALUES)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, length). Returns: logits (batch, VALUES)."""
        x = self.embedding(ids)  # (batch, length, d_model)
        x = x + sinusoidal_encoding(ids.shape[1], x.shape[2]).to(x)
        for norm, project in zip(self.norms, self.projections):
            q, k, v = project(norm(x)).chunk(3, dim=-1)  # (batch, length, d_model) each
            scores = q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5  # (batch, length, length)
            future = torch.ones_like(scores[0], dtype=torch.bool).triu(diagonal=1)
            x = x + scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ v
        return self.output(x[:, -1])


def train_reader(model: nn.Module, things: int, steps: Iterable[int], length: int = LENGTH) -> None:
    """One step of Adam on new sequences for each number in `steps`, which is their seed."""
    device = device_of(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for step in steps:
        ids, values, _ = made_sequences(BATCH_SIZE, length, things, seed=step)
        loss = F.cross_entropy(model(ids.to(device)), values.to(device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def right_by_distance(model: nn.Module, things: int, sequences: int, length: int = LENGTH) -> tuple[float, list[float]]:
    """How often the model is right on new sequences: on all, and by eighths of the distance, nearest first."""
    device = device_of(model)
    ids, values, distances = made_sequences(sequences, length, things, seed=10**9)
    right = (model(ids.to(device)).argmax(dim=-1).cpu() == values).double()  # (sequences,)
    eighths = (8 * (distances - 1)).div(length - 1, rounding_mode="floor")  # (sequences,), 0 to 7
    return right.mean().item(), [right[eighths == eighth].mean().item() for eighth in range(8)]
