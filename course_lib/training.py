"""Training: from logits to a loss, from a loss to a step, from steps to a model.

Targets are rows of ids that end with EOS and are padded after it; BOS is not among them. The decoder gets the same
row moved one place to the right, BOS first (`shift_right`): at every position it has seen all targets before the one
that it is asked for. That is teacher forcing. Padding is never asked for and never counted.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.settings import device_of

Batch = tuple[Tensor, Tensor]  # source ids (batch, source), target ids (batch, target)
TrainStep = Callable[[nn.Module, torch.optim.Optimizer, Tensor, Tensor, int, int, float], float]

# --- the loss -------------------------------------------------------------------------------------------


def shift_right(targets: Tensor, bos_id: int) -> Tensor:
    """What the decoder is given: BOS, then every target but the last.

    targets: (batch, time). Returns: the same shape.
    """
    first = torch.full_like(targets[:, :1], bos_id)  # (batch, 1)
    return torch.cat([first, targets[:, :-1]], dim=1)  # (batch, time)


def sequence_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Cross-entropy: the mean of -log p(target) over all real targets of the batch.

    logits: (batch, time, vocab); targets: (batch, time). Returns: a number, in nats.
    """
    log_probabilities = logits.log_softmax(dim=-1)  # (batch, time, vocab)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))  # (batch, time, 1)
    losses = -chosen.squeeze(-1)  # (batch, time)
    real = targets != pad_id
    return losses[real].mean()


def smoothed_loss(logits: Tensor, targets: Tensor, pad_id: int, epsilon: float) -> Tensor:
    """Cross-entropy with softer targets: (1 - ε) on the right class, and ε spread over all V classes, it included.

    For one target y it is (1 - ε) · (-log p_y) + ε/V · Σ_v (-log p_v), then the mean over all real targets.
    (Torch's `label_smoothing` is the same. Others spread ε over the V - 1 wrong classes.)

    logits: (batch, time, vocab); targets: (batch, time). Returns: a number, in nats.
    """
    log_probabilities = logits.log_softmax(dim=-1)  # (batch, time, vocab)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)  # (batch, time)
    average = log_probabilities.mean(dim=-1)  # (batch, time)
    losses = -(1 - epsilon) * chosen - epsilon * average  # (batch, time)
    real = targets != pad_id
    return losses[real].mean()


# --- the learning rate ----------------------------------------------------------------------------------


def warmup_rate(step: int, d_model: int, warmup: int) -> float:
    """The paper's learning rate: d_model^-½ · min(step^-½, step · warmup^-1½). Steps are counted from 1.

    It rises in a straight line for `warmup` steps and falls as one over the root of the step after that.
    """
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)


def cosine_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Rises in a straight line to `peak` in `warmup` steps, then falls along half a cosine to 0 at step `steps`."""
    if step <= warmup:
        return peak * step / warmup
    done = (step - warmup) / (steps - warmup)  # from 0 to 1
    return peak * (1 + math.cos(math.pi * done)) / 2


# --- steps ----------------------------------------------------------------------------------------------


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    source: Tensor,
    targets: Tensor,
    bos_id: int,
    pad_id: int,
    max_norm: float,
) -> float:
    """One step of the optimiser on one batch.

    source: (batch, source); targets: (batch, target). If all gradients together are longer than `max_norm`, they are
    shortened to it. Returns: the loss before the step.
    """
    model.train()
    optimizer.zero_grad()
    logits = model(source, shift_right(targets, bos_id))  # (batch, target, vocab)
    loss = sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def train_step_with(shift: Callable[[Tensor, int], Tensor], loss: Callable[[Tensor, Tensor, int], Tensor]) -> TrainStep:
    """`train_step` with another `shift_right` and another `sequence_loss`: the same code, in which these names mean
    the given functions."""
    names = {**globals(), "shift_right": shift, "sequence_loss": loss}
    return FunctionType(train_step.__code__, names, "train_step")


def accumulate_gradients(model: nn.Module, batches: Sequence[Batch], bos_id: int, pad_id: int) -> float:
    """Leave in `.grad` what one large batch would leave, but with the memory of a small one.

    Every real target counts the same, whichever batch it is in: a batch weighs as much as it has targets.
    Returns: the mean loss over all real targets.
    """
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    if total == 0:
        raise ValueError(
            f"The targets of all batches are nothing but padding (id {pad_id}): there is nothing to learn."
        )
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = sequence_loss(logits, targets, pad_id) * share
        loss.backward()  # adds to .grad
        mean_loss += loss.item()
    return mean_loss


def fit(
    model: nn.Module,
    batches: Iterable[Batch],
    rate: Callable[[int], float],
    bos_id: int,
    pad_id: int,
    max_norm: float = 1.0,
    report: Callable[[int, float], None] | None = None,
    take_step: TrainStep = train_step,
    optimizer: torch.optim.Optimizer | None = None,
) -> list[float]:
    """Take one step on each batch, in the order given; step n, counted from 1, at the learning rate `rate(n)`.

    The batches need not be on the device of the model: each is moved to it.
    `report` is called with each step and its loss: `print_progress(100)` prints every hundredth, a `LossCurves` keeps
    them. `take_step` is called like `train_step`. `optimizer`: Adam if none is given; its learning rate is set here.
    Returns: the loss of every step.
    """
    if optimizer is None:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
    losses = []
    for step, (source, targets) in enumerate(batches, start=1):
        if not (targets != pad_id).any():
            raise ValueError(f"The targets of batch {step} are nothing but padding (id {pad_id}): leave it out.")
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        source, targets = source.to(device_of(model)), targets.to(device_of(model))
        losses.append(float(take_step(model, optimizer, source, targets, bos_id, pad_id, max_norm)))
        if report is not None:
            report(step, losses[-1])
    model.eval()
    return losses


class LossCurves:
    """A `report` for `fit` that keeps the loss of every step and, at regular intervals, the loss on other data.

    The other data are not trained on: source (row, source) and targets (row, target).
    """

    def __init__(self, model: nn.Module, source: Tensor, targets: Tensor, bos_id: int, pad_id: int, every: int):
        self.model = model
        self.data = source, targets
        self.ids = bos_id, pad_id
        self.every = every
        self.training: list[float] = []
        self.validation: list[tuple[int, float]] = []  # step and loss

    def __call__(self, step: int, loss: float) -> None:
        self.training.append(loss)
        if step % self.every == 0:
            self.validation.append((step, loss_without_training(self.model, *self.data, *self.ids)))


@torch.no_grad()
def loss_without_training(model: nn.Module, source: Tensor, targets: Tensor, bos_id: int, pad_id: int) -> float:
    """The loss in evaluation mode, on data that may be on another device. The model's mode stays as it was."""
    was_training = model.training
    model.eval()
    source, targets = source.to(device_of(model)), targets.to(device_of(model))
    loss = sequence_loss(model(source, shift_right(targets, bos_id)), targets, pad_id).item()
    model.train(was_training)
    return loss


def print_progress(every: int) -> Callable[[int, float], None]:
    """A `report` for `fit` that prints a line at regular intervals."""

    def report(step: int, loss: float) -> None:
        if step % every == 0:
            print(f"step {step:5d}   loss {loss:.3f}")

    return report


# --- memory ---------------------------------------------------------------------------------------------


class MemoryMeter(TorchDispatchMode):
    """How many bytes are taken by the tensors that are made inside `with MemoryMeter() as meter:`, on any machine.

    `meter.now` counts those that are still there, `meter.peak` is the most there ever were. Views cost nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.count(tensor.untyped_storage())
        return result

    def count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self.known:
            self.known.add(key)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, key, storage.nbytes())

    def forget(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size
