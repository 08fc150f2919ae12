"""The exercise `accepts_train_step`: which mistakes a test has to catch, and what people really test instead."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import you_are_the_grader
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises.training import train_step as tested
from course_lib.testing import WatchedModel
from course_lib.training import sequence_loss, shift_right

accepts_train_step = WrittenTest(
    you_are_the_grader.accepts_train_step,
    tested=tested,
    shown=(
        "gives_the_targets_unshifted",
        "begins_with_padding",
        "counts_the_padding",
        "forgets_training_mode",
        "keeps_old_gradients",
        "makes_no_step",
        "does_not_clip",
        "clips_each_parameter_alone",
        "normalises_always",
        "climbs",
        "returns_the_loss_after_the_step",
        "returns_the_graph",
    ),
    minutes=9,
    difficulty=3,
    hints=[
        "Make a WatchedModel and a deep copy of it. On the copy, compute what is right yourself: the shifted targets "
        "with BOS in front, cross-entropy without padding, backward. Then run train_step on the original.",
        "Use torch.optim.SGD with a learning rate of 0.5. Afterwards each parameter should be old - 0.5 * gradient, "
        "with all gradients together shortened to max_norm if they are longer. Try a small max_norm and a huge one.",
        "Put something into every .grad before the call, and put the model into evaluation mode: a right step forgets "
        "the first and changes the second. model.modes[0] says in which mode it was called.",
        "The returned loss is the one before the step, as a number: if it is a tensor, requires_grad is False.",
    ],
)


@accepts_train_step.misconception
def accepts_everything(train_step):
    """Your test accepts whatever it is given: it has not caught a single mistake."""
    return True


@accepts_train_step.misconception
def rejects_everything(train_step):
    """Your test rejects whatever it is given. A right implementation has to pass."""
    return False


@accepts_train_step.misconception
def watches_the_loss_fall(train_step):
    """Your test asks no more than whether the loss falls. In most wrong programs it falls, too."""
    torch.manual_seed(0)
    model = WatchedModel(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    source, targets = torch.tensor([[3, 4, 5], [6, 2, 7]]), torch.tensor([[4, 3, 2, 0], [5, 2, 0, 0]])
    losses = [float(train_step(model, optimizer, source, targets, 1, 0, 1.0)) for _ in range(30)]
    return losses[-1] < losses[0]


@accepts_train_step.misconception
def looks_whether_something_moved(train_step):
    """Your test asks no more than whether the parameters have changed. In which direction, and how far?"""
    torch.manual_seed(0)
    model = WatchedModel(8, 3)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    source, targets = torch.tensor([[3, 4, 5], [6, 2, 7]]), torch.tensor([[4, 3, 2, 0], [5, 2, 0, 0]])
    train_step(model, torch.optim.SGD(model.parameters(), lr=0.5), source, targets, 1, 0, 1.0)
    return any(not torch.equal(old, new) for old, new in zip(before, model.parameters()))


@accepts_train_step.misconception
def compares_the_loss_alone(train_step):
    """Your test compares the returned loss, and no more. What has become of the parameters?"""
    torch.manual_seed(0)
    model = WatchedModel(8, 3)
    source, targets = torch.tensor([[3, 4, 5], [6, 2, 7]]), torch.tensor([[4, 3, 2, 0], [5, 2, 0, 0]])
    wanted = sequence_loss(model(source, shift_right(targets, 1)), targets, 0).item()
    got = train_step(model, torch.optim.SGD(model.parameters(), lr=0.5), source, targets, 1, 0, 1.0)
    return abs(float(got) - wanted) < 1e-4


@accepts_train_step.misconception
def never_clips(train_step):
    """Your test never gives a max_norm that is shorter than the gradient. Wrong clipping goes unseen."""
    torch.manual_seed(0)
    model = WatchedModel(8, 3).eval()
    twin = copy.deepcopy(model)
    source, targets = torch.tensor([[3, 4, 5], [6, 2, 7]]), torch.tensor([[4, 3, 2, 0], [5, 2, 0, 0]])
    wanted = sequence_loss(twin(source, shift_right(targets, 1)), targets, 0)
    wanted.backward()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    got = train_step(model, torch.optim.SGD(model.parameters(), lr=0.5), source, targets, 1, 0, 1e6)
    if abs(float(got) - wanted.item()) > 1e-4 or not model.modes[0] or getattr(got, "requires_grad", False):
        return False
    pairs = zip(model.parameters(), twin.parameters())
    return all(torch.allclose(new, old - 0.5 * old.grad, atol=1e-5) for new, old in pairs)


@accepts_train_step.alternative
def beside_an_own_step(train_step):
    def own_step(model, optimizer, source, targets, bos, pad, max_norm):
        model.train()
        optimizer.zero_grad()
        given = F.pad(targets, (1, 0), value=bos)[:, :-1]
        loss = F.cross_entropy(model(source, given).flatten(0, 1), targets.flatten(), ignore_index=pad)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        return loss.item()

    torch.manual_seed(1)
    for max_norm in (0.03, 500.0):
        models = [WatchedModel(9, 4).eval()]
        models.append(copy.deepcopy(models[0]))
        results = []
        for model, step in zip(models, (train_step, own_step)):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
            for _ in range(2):
                source, targets = torch.tensor([[5, 6], [7, 3]]), torch.tensor([[8, 0, 4, 2, 3], [6, 2, 3, 3, 3]])
                results.append(step(model, optimizer, source, targets, 1, 3, max_norm))
                assert all(model.modes)
                model.eval()
                model.modes.clear()
        assert not any(isinstance(result, torch.Tensor) and result.requires_grad for result in results)
        assert abs(float(results[0]) - results[2]) < 1e-4 and abs(float(results[1]) - results[3]) < 1e-4
        for mine, right in zip(*(model.parameters() for model in models)):
            assert torch.allclose(mine, right, atol=1e-5)
    return True


@accepts_train_step.alternative
def by_the_distance_that_was_moved(train_step):
    torch.manual_seed(2)
    source, targets = torch.tensor([[3, 5, 4], [6, 7, 2]]), torch.tensor([[4, 6, 2, 0], [2, 0, 0, 0]])
    for max_norm in (0.02, 1e5):
        model = WatchedModel(8, 5).eval()
        old = [p.detach().clone() for p in model.parameters()]
        given = torch.tensor([[1, 4, 6, 2], [1, 2, 0, 0]])
        table = model(source, given).log_softmax(-1)
        real = [(0, 0), (0, 1), (0, 2), (1, 0)]
        loss = -sum(table[b, t, targets[b, t]] for b, t in real) / 4
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        model.modes.clear()
        for p in model.parameters():
            p.grad = torch.full_like(p, -2.0)
        got = train_step(model, torch.optim.SGD(model.parameters(), lr=1.0), source, targets, 1, 0, max_norm)
        if isinstance(got, torch.Tensor) and got.grad_fn is not None:
            return False
        if abs(float(got) - loss.item()) > 1e-4 or model.modes[0] is not True:
            return False
        moved = torch.cat([(before - p.detach()).flatten() for before, p in zip(old, model.parameters())])
        slope = torch.cat([s.flatten() for s in slopes])
        length = min(slope.norm().item(), max_norm)
        if not torch.allclose(moved, slope / slope.norm() * length, atol=1e-5):
            return False
    return True


@accepts_train_step.alternative
def with_hooks(train_step):
    torch.manual_seed(3)
    bos, pad = 4, 0
    source, targets = torch.tensor([[1, 2, 3], [3, 2, 1]]), torch.tensor([[5, 3, 2, 0], [6, 2, 0, 0]])
    for max_norm in (0.04, 1e4):
        model = WatchedModel(7, 3)
        twin = copy.deepcopy(model)
        modes = []
        model.register_forward_pre_hook(lambda module, inputs, modes=modes: modes.append(module.training))
        model.eval()
        (model.output.sum() + model.source_table.sum() + model.target_table.sum()).backward()
        loss = train_step(model, torch.optim.SGD(model.parameters(), lr=0.2), source, targets, bos, pad, max_norm)
        right = sequence_loss(twin(source, shift_right(targets, bos)), targets, pad)
        right.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), max_norm)
        torch.optim.SGD(twin.parameters(), lr=0.2).step()
        if not modes[0] or getattr(loss, "grad_fn", None) is not None or abs(float(loss) - right.item()) > 1e-4:
            return False
        for name, value in twin.state_dict().items():
            if not torch.allclose(model.state_dict()[name], value, atol=1e-5):
                return False
    return True
