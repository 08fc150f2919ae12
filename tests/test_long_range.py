"""A task that needs a long memory, and the models that read it."""

from __future__ import annotations

import pytest
import torch
from fake_gpu import FakeGpu
from torch import nn

from course_lib.long_range import (
    ASK,
    NOISE,
    THINGS,
    VALUES,
    VOCABULARY,
    Attentive,
    Convolutional,
    Recurrent,
    made_sequences,
    right_by_distance,
    train_reader,
    written_out,
)

MODELS = {
    "plain": lambda: Recurrent(8, nn.RNN),
    "gates": lambda: Recurrent(8, nn.GRU),
    "convolutions": lambda: Convolutional(8, num_layers=2, width=3),
    "attention": lambda: Attentive(8, num_layers=2),
}


@pytest.mark.parametrize("things", [1, THINGS])
def test_the_value_stands_where_the_distance_says(things):
    ids, values, distances = made_sequences(50, 20, things, seed=1)
    asked = ids[:, -1] - ASK
    said = ids[torch.arange(50), 19 - distances]
    assert torch.equal(said, NOISE + VALUES * asked + values)
    assert ((ids[:, :-1] >= NOISE).sum(dim=1) == things).all() and (ids < VOCABULARY).all()
    assert distances.min() >= 1 and distances.max() <= 19 and len(distances.unique()) > 10


def test_sequences_are_the_same_for_a_seed():
    assert torch.equal(made_sequences(3, 9, 2, seed=4)[0], made_sequences(3, 9, 2, seed=4)[0])
    assert not torch.equal(made_sequences(3, 9, 2, seed=4)[0], made_sequences(3, 9, 2, seed=5)[0])


def test_written_out():
    assert written_out(torch.tensor([0, NOISE, NOISE + 5, 7, ASK + 1])) == "· a0 b1 · b?"


@pytest.mark.parametrize("name", MODELS)
def test_what_each_model_can_see(name):
    """All positions, except that convolutions see only those within their reach."""
    torch.manual_seed(0)
    model = MODELS[name]().double()
    ids = torch.randint(NOISE, (1, 12))
    felt = []
    for place in range(12):
        changed = ids.clone()
        changed[0, place] = ASK
        felt.append(not torch.equal(model(changed), model(ids)))
    reach = model.reach() if isinstance(model, Convolutional) else 11
    assert felt == [11 - place <= reach for place in range(12)]


def test_attention_learns_in_a_few_steps():
    torch.manual_seed(0)
    model = Attentive(32, num_layers=1)
    train_reader(model, 1, range(60), length=12)
    share, by_distance = right_by_distance(model, 1, 200, length=12)
    assert share > 0.9 and len(by_distance) == 8


def test_shares_by_distance_are_of_the_right_answers():
    class Near(nn.Module):
        """Knows the value if it was said at most 4 steps before the end of 9."""

        def __init__(self):
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, ids):
            said = (ids[:, 4:8] - NOISE).amax(dim=1)
            known = nn.functional.one_hot(said.clamp(min=0) % VALUES, VALUES) * (said >= 0)[:, None]
            return known + torch.eye(VALUES)[0] / 2  # otherwise it says 0

    share, by_distance = right_by_distance(Near(), 1, 2000, length=9)
    assert by_distance[:4] == [1.0] * 4
    assert all(0.15 < far < 0.35 for far in by_distance[4:]) and 0.5 < share < 0.75


def test_training_on_a_gpu():
    model = Attentive(8, num_layers=1)
    with FakeGpu(model.state_dict(keep_vars=True).values()):
        train_reader(model, 2, range(2), length=8)
        right_by_distance(model, 2, 300, length=9)
