"""Live objects for exercises that need them: made of plain data, and read out as plain data.

An optimiser cannot be sent to another process, but the numbers that it starts from can. A `TinyTraining` holds these
numbers; the subject makes a model and an optimiser of them beside the student's code. A `BackwardPass` makes a function
whose gradients are asked for, and `MethodCalls` keep an object of the student's own class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .bench import NotPossible, StudentError, flows, run
from .inputs import normal


class TinyModel(nn.Module):
    """Source ids and target ids in, logits out. It remembers how it was called.

    What it remembers is good for a sentence to the student, not for points: code that runs beside it can rewrite it. If
    `mode_matters`, training mode can be seen from the gradients, which cannot be made up; if `drops`, from the logits:
    half of the features are dropped, always the same ones.
    """

    def __init__(self, weights: Mapping[str, Tensor], mode_matters: bool = False, drops: bool = False):
        super().__init__()
        self.mode_matters, self.drops = mode_matters, drops
        self.source_table = nn.Parameter(weights["source_table"].clone())
        self.target_table = nn.Parameter(weights["target_table"].clone())
        self.output = nn.Parameter(weights["output"].clone())
        self.output_bias = nn.Parameter(weights["output_bias"].clone())
        self.calls: list[dict[str, Any]] = []
        self.open_graphs = 0  # forward passes that still wait for their backward pass

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """src_ids: (batch, source); tgt_ids: (batch, target). Returns: logits (batch, target, vocab)."""
        call = {"source": src_ids, "given": tgt_ids, "training": self.training, "open graphs": self.open_graphs}
        self.calls.append(call)
        memory = self.source_table[src_ids].mean(dim=1, keepdim=True)  # (batch, 1, d_model)
        x = torch.tanh(self.target_table[tgt_ids] + memory)  # (batch, target, d_model)
        if self.mode_matters and self.training:
            x = x + 0.5 * (x - x.detach())  # the same numbers; their gradients are half as large again
        if self.drops and self.training:
            x = x * 2.0 * (torch.arange(x.shape[-1]) % 2)
        logits = x @ self.output + self.output_bias  # (batch, target, vocab)
        if logits.requires_grad:
            self.open_graphs += 1
            logits.register_hook(self.close_graph)
        return logits

    def close_graph(self, gradient: Tensor) -> None:
        self.open_graphs -= 1


class Descent:
    """Plain gradient descent with the methods of a torch optimiser, the first of which costs a second of imports."""

    def __init__(self, model: nn.Module, learning_rate: float):
        self.param_groups: list[dict[str, Any]] = [{"params": list(model.parameters()), "lr": learning_rate}]
        self.steps = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = closure() if closure is not None else None
        self.steps += 1
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter -= group["lr"] * parameter.grad
        return loss


@dataclass(frozen=True, eq=False)
class TinyTraining:
    """A tiny model, and plain gradient descent on it if there is a learning rate.

    `left_over`: the value of every entry of `.grad` at the beginning; None if no gradient was ever computed.
    `is_training`: whether the model is in training mode at the beginning, and drops; otherwise it was just evaluated.
    """

    weights: Mapping[str, Tensor]
    learning_rate: float | None = None
    left_over: float | None = None
    is_training: bool = False

    @classmethod
    def random(cls, vocab: int, d_model: int, seed: int, learning_rate: float | None = None) -> TinyTraining:
        """Numbers that leave the softmax unsaturated, the same on every machine."""
        shapes = {
            "source_table": (vocab, d_model),
            "target_table": (vocab, d_model),
            "output": (d_model, vocab),
            "output_bias": (vocab,),
        }
        weights = {name: normal(*shape, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())}
        return cls(weights, learning_rate)

    def make(self) -> tuple[Any, ...]:
        """(model,), or (model, optimizer)."""
        mode_matters = self.learning_rate is not None and not self.is_training
        model = TinyModel(self.weights, mode_matters, drops=self.is_training).train(self.is_training)
        if self.left_over is not None:
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, self.left_over)
        if self.learning_rate is None:
            return (model,)
        return model, Descent(model, self.learning_rate)

    def read(self, result: Any, *live: Any) -> Any:
        """What was returned, and whether it still holds the graph of the forward pass."""
        return result, isinstance(result, Tensor) and result.requires_grad

    def look_at(self, model: TinyModel, optimizer: Descent | None = None) -> dict[str, Any]:
        """The calls, the parameters, and the gradients where no optimiser has used them."""
        seen: dict[str, Any] = {"calls": model.calls, "open graphs": model.open_graphs}
        seen["parameters"] = {name: p.detach().clone() for name, p in model.named_parameters()}
        if optimizer is not None:
            seen["steps"] = optimizer.steps
        else:
            seen["gradients"] = {
                name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
                for name, p in model.named_parameters()
            }
        return seen

    def __repr__(self) -> str:
        return f"a tiny model of {len(self.weights['output_bias'])} words"


class TinyTable(nn.Module):
    """As an embedding or learned positions hold it."""

    def __init__(self, rows: int, d_model: int):
        super().__init__()
        self.table = nn.Embedding(rows, d_model)


class TinyEncoder(nn.Module):
    """Layers and a norm, without attention."""

    def __init__(self, d_model: int, num_layers: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.norm(x)


class TinyClassifier(nn.Module):
    """Ids in, logits out: with the parts of a `SequenceClassifier`, each as small as can be."""

    def __init__(self, num_classes: int, d_model: int, num_layers: int):
        super().__init__()
        self.embedding = TinyTable(6, d_model)
        self.positions = TinyTable(3, d_model)
        self.encoder = TinyEncoder(d_model, num_layers)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, 3). Returns: logits (batch, num_classes)."""
        x = self.embedding.table(ids) + self.positions.table.weight
        return self.head(self.encoder(x).mean(dim=1))


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A classifier whose body has learned something, for an exercise that prepares it for another task."""

    num_classes: int
    d_model: int
    num_layers: int

    def make(self) -> tuple[Any, ...]:
        """(model,)"""
        model = TinyClassifier(self.num_classes, self.d_model, self.num_layers).double()
        for name, parameter in model.named_parameters():
            parameter.data = learned_numbers(name, parameter)
        return (model,)

    def read(self, result: Any, model: nn.Module) -> Any:
        """Groups of parameters, by name: the rate of each (`ABSENT` if it is in no group), and which occur twice or
        are not the model's.
        """
        groups = groups_in(result)
        if groups is None:
            return result
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        rates = [(names.get(id(parameter)), rate) for parameters, rate in groups for parameter in parameters]
        own = sorted(name for name, _ in rates if name is not None)
        return {
            "rates": {name: dict(rates).get(name, ABSENT) for name in names.values()},
            "twice": sorted({name for name in own if own.count(name) > 1}),
            "strangers": len(rates) - len(own),
        }

    def look_at(self, model: nn.Module) -> dict[str, Any]:
        """What has become of the model: what it gives, which parameters learn, which numbers are the old ones."""
        logits: Any
        try:
            with torch.no_grad():
                logits = list(model(torch.tensor([[2, 5, 1], [4, 3, 0]])).shape)
        except Exception as error:  # with a head that does not fit
            logits = f"{type(error).__name__}: {error}"
        parameters = dict(model.named_parameters())
        old = {name for name, p in parameters.items() if torch.equal(p, learned_numbers(name, p))}
        return {
            "logits": logits,
            "learns": {name: p.requires_grad for name, p in parameters.items()},
            "misplaced": any("requires_grad" in vars(module) for module in model.modules()),
            "old head": any(name.startswith("head.") for name in old),
            "changed": [name for name in parameters if name not in old and name.startswith(BODY)],
        }

    def __repr__(self) -> str:
        return f"a classifier of {self.num_classes} classes with {self.num_layers} layers"


ABSENT = -1.0  # in the place of a rate
BODY = ("embedding.", "positions.", "encoder.")


def learned_numbers(name: str, parameter: Tensor) -> Tensor:
    """What stands for the result of pre-training: numbers that no new layer starts with."""
    places = torch.arange(parameter.numel(), dtype=torch.float64)
    return 0.3 * torch.cos(places + len(name)).reshape(parameter.shape)


def groups_in(result: Any) -> list[tuple[list[Tensor], Any]] | None:
    """The parameters and the rate of each group, in all the forms that torch's optimisers take; None if it is not one
    of them."""
    if not isinstance(result, list | tuple) or not result:
        return None
    if not all(isinstance(group, dict) and "params" in group for group in result):
        return None
    return [(parameters_in(group["params"]), rate_in(group.get("lr"))) for group in result]


def parameters_in(params: Any) -> list[Tensor]:
    """One parameter, several, or several with their names."""
    several = [params] if isinstance(params, Tensor) else list(params)
    return [item[1] if isinstance(item, tuple) else item for item in several]


def rate_in(rate: Any) -> float | None:
    """The rate as a number; None if the group has none."""
    return None if rate is None else float(rate)


# --- a function and its backward pass -----------------------------------------------------------------------------


class TinyFunction:
    """x ↦ volume · tanh(x W + b). The volume is not a parameter, and may differ in the next call.

    It is not a module: whatever can be called is a function, and need not say which parameters it uses.
    """

    def __init__(self, weight: Tensor, bias: Tensor):
        self.weight = weight.clone().requires_grad_()
        self.bias = bias.clone().requires_grad_()
        self.volume = torch.ones_like(bias[0])
        self.leaf = torch.zeros(0)  # that x is computed from

    def __call__(self, x: Tensor) -> Tensor:
        return self.volume * torch.tanh(x @ self.weight + self.bias)

    def __repr__(self) -> str:
        return f"a function with {self.weight.numel() + self.bias.numel()} parameters"


@dataclass(frozen=True, eq=False)
class BackwardPass:
    """A function with parameters and an x for it, for an exercise that computes function(x) in its own way; then the
    backward pass.

    `before`: the factor between the leaf and x; with 1, x is the leaf itself. `volume`: of the function, from the end
    of the forward pass on. What is computed before the backward pass does not know of it.
    """

    x: Tensor  # (…, d_in)
    weight: Tensor  # (d_in, d_out)
    bias: Tensor  # (d_out,)
    before: float = 1.0
    volume: float = 1.0

    def make(self) -> tuple[Any, ...]:
        """(function, x)"""
        function = TinyFunction(self.weight, self.bias)
        function.leaf = self.x.clone().requires_grad_()
        return function, function.leaf if self.before == 1.0 else self.before * function.leaf

    def read(self, result: Any, function: TinyFunction, x: Tensor) -> Any:
        """The result, and the gradients of a fixed mixture of its numbers: None if there is no way back."""
        value = result.detach().clone() if isinstance(result, Tensor) else result
        function.volume = torch.full_like(function.volume, self.volume)
        if flows(result):
            weights = 1 + torch.arange(result.numel(), dtype=result.dtype).reshape(result.shape) % 5
            run((result * weights).sum().backward, ())
        gradients = {"x": function.leaf.grad, "weight": function.weight.grad, "bias": function.bias.grad}
        return value, {name: None if g is None else g.clone() for name, g in gradients.items()}

    def look_at(self, function: TinyFunction, x: Tensor) -> dict[str, Any]:
        """Whether the parameters have changed."""
        return {"same parameters": torch.equal(function.weight, self.weight) and torch.equal(function.bias, self.bias)}

    def __repr__(self) -> str:
        return f"a function of {len(self.weight)} features and an x of shape {tuple(self.x.shape)}"


# --- an object that is used for a while ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MethodCalls:
    """An object of the student's class, and methods that are called on it, one after the other.

    `may_raise`: the name of an error that is an answer. Any other is a mistake, and ends the calls.
    """

    arguments: Sequence[Any]  # of the constructor
    calls: Sequence[tuple[str, Sequence[Any]]]  # method, arguments
    may_raise: str = ""

    def make(self) -> tuple[Any, ...]:
        """The arguments of the constructor."""
        return tuple(self.arguments)

    def read(self, made: Any, *arguments: Any) -> Any:
        """What each of the calls returns."""
        return [self.answer(made, method, given) for method, given in self.calls]

    def answer(self, made: Any, method: str, given: Sequence[Any]) -> Any:
        if not callable(getattr(made, method, None)):
            raise NotPossible(f"The class has no method `{method}`.")
        try:
            return run(getattr(made, method), given)[0]
        except StudentError as error:
            if error.kind != self.may_raise:
                raise
            return error.kind

    def look_at(self, *arguments: Any) -> dict[str, Any]:
        """What the object has become is asked by calling its methods."""
        return {}
