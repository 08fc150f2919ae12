"""Live objects for exercises that train a model: made of plain data, and read out as plain data.

An optimiser cannot be sent to another process, but the numbers that it starts from can. A `TinyTraining` holds these
numbers; the subject makes a model and an optimiser of them beside the student's code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .inputs import normal


class TinyModel(nn.Module):
    """Source ids and target ids in, logits out. It remembers how it was called."""

    def __init__(self, weights: Mapping[str, Tensor]):
        super().__init__()
        self.source_table = nn.Parameter(weights["source_table"].clone())
        self.target_table = nn.Parameter(weights["target_table"].clone())
        self.output = nn.Parameter(weights["output"].clone())
        self.output_bias = nn.Parameter(weights["output_bias"].clone())
        self.calls: list[dict[str, Any]] = []
        self.open_graphs = 0  # forward passes that still wait for their backward pass
        self.graphs: list[weakref.ref[Graph]] = []

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """src_ids: (batch, source); tgt_ids: (batch, target). Returns: logits (batch, target, vocab)."""
        call = {"source": src_ids, "given": tgt_ids, "training": self.training, "open graphs": self.open_graphs}
        self.calls.append(call)
        memory = self.source_table[src_ids].mean(dim=1, keepdim=True)  # (batch, 1, d_model)
        x = torch.tanh(self.target_table[tgt_ids] + memory)  # (batch, target, d_model)
        logits = x @ self.output + self.output_bias  # (batch, target, vocab)
        if logits.requires_grad:
            self.open_graphs += 1
            graph = Graph(self)
            self.graphs.append(weakref.ref(graph))
            logits.register_hook(graph)
        return logits

    def keeps_a_graph(self) -> bool:
        """Whether somebody still holds a tensor that was computed from logits with gradients."""
        return any(graph() is not None for graph in self.graphs)


class Graph:
    """Hangs on the graph of one forward pass: it is called by the backward pass and lives as long as the graph."""

    def __init__(self, model: TinyModel):
        self.model = model

    def __call__(self, gradient: Tensor) -> None:
        self.model.open_graphs -= 1


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

    `left_over`: what stands in every entry of `.grad` at the beginning; None if no gradient was ever computed.
    """

    weights: Mapping[str, Tensor]
    learning_rate: float | None = None
    left_over: float | None = None

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
        """(model,), or (model, optimizer). The model has just been evaluated: it is not in training mode."""
        model = TinyModel(self.weights).eval()
        if self.left_over is not None:
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, self.left_over)
        if self.learning_rate is None:
            return (model,)
        return model, Descent(model, self.learning_rate)

    def look_at(self, model: TinyModel, optimizer: Descent | None = None) -> dict[str, Any]:
        """The calls, the parameters, and the gradients where no optimiser has used them."""
        seen: dict[str, Any] = {
            "calls": model.calls,
            "open graphs": model.open_graphs,
            "graph is kept": model.keeps_a_graph(),
        }
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
