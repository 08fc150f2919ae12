"""A second device on a machine that has only one: its tensors compute on the CPU, and refuse to meet the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves

GPU = torch.device("meta")  # a device that torch knows by name everywhere


class FakeGpu(TorchFunctionMode):
    """`with FakeGpu(model.state_dict().values()): …` raises where a real GPU would. The given tensors live on it."""

    def __init__(self, tensors: Iterable[Tensor]):
        super().__init__()
        self.here = {id(tensor): tensor for tensor in tensors}  # kept alive, so that ids stay theirs

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if function == Tensor.device.__get__:
            return GPU if id(args[0]) in self.here else torch.device("cpu")
        wanted = next((x for x in (*args, *kwargs.values()) if isinstance(x, torch.device)), None)
        if wanted is not None or name == "cpu":
            on_cpu = torch.device("cpu")
            args = tuple(on_cpu if isinstance(x, torch.device) else x for x in args)
            kwargs = {key: on_cpu if isinstance(x, torch.device) else x for key, x in kwargs.items()}
            return self.placed(function(*args, **kwargs).clone(), wanted == GPU)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.dim() > 0]
        places = {id(tensor) in self.here for tensor in tensors}
        if len(places) == 2 and name not in ("__getitem__", "__setitem__", "copy_"):
            shapes = [(tuple(t.shape), id(t) in self.here) for t in tensors]
            raise RuntimeError(f"{resolve_name(function)}: tensors on two devices {shapes}")
        result = function(*args, **kwargs)
        on_gpu = any(id(x) in self.here for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor))
        for part in tree_leaves(result):
            if isinstance(part, Tensor):
                self.placed(part, on_gpu)
        return result

    def placed(self, tensor: Tensor, on_gpu: bool) -> Tensor:
        if on_gpu:
            self.here[id(tensor)] = tensor
        return tensor
