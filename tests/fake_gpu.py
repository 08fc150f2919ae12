"""A second device on a machine that has only one: its tensors compute on the CPU, and refuse to meet the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves

GPU = torch.device("meta")  # a device that torch knows by name everywhere
MARK = "is_on_the_fake_gpu"  # an attribute of the tensors that live there
DEVICE_OF = Tensor.device.__get__
PUT_INTO = Tensor.data.__set__  # as `model.to(device)` does with every parameter
NEEDS_CPU = ("numpy", "__array__", "__dlpack__")
BETWEEN_DEVICES = ("copy_", "__setitem__", "_has_compatible_shallow_copy_type")  # these take both


class FakeGpu(TorchFunctionMode):
    """`with FakeGpu(model.state_dict().values()): …` raises where a real GPU would. The given tensors live on it."""

    def __init__(self, tensors: Iterable[Tensor] = ()):
        super().__init__()
        for tensor in tensors:
            placed(tensor, True)

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if function == DEVICE_OF:
            return GPU if is_there(args[0]) else torch.device("cpu")
        if function == PUT_INTO:
            placed(args[0], is_there(args[1]))
            return function(*args)
        if function is torch.device:
            return function(*args, **kwargs)
        if name == "_parse_to":  # what `model.to(device)` and `model.to(tensor)` do with their argument
            device, *rest = function(*args, **kwargs)
            return GPU if any(map(is_there, args)) else device, *rest
        if name == "to" and isinstance(args[1], Tensor):
            return placed(function(*args, **kwargs).clone(), is_there(args[1]))
        wanted = next((x for x in (*args, *kwargs.values()) if is_device(x)), None)
        if wanted is not None or name == "cpu":
            args = tuple("cpu" if is_device(x) else x for x in args)
            kwargs = {key: "cpu" if is_device(x) else x for key, x in kwargs.items()}
            return placed(function(*args, **kwargs).clone(), wanted == GPU)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        refuse_what_a_gpu_refuses(function, name, tensors)
        result = function(*args, **kwargs)
        on_gpu = is_there(tensors[0]) if name == "__getitem__" else any(map(is_there, tensors))
        for part in tree_leaves(result):
            if isinstance(part, Tensor):
                placed(part, on_gpu)
        return result


def is_device(argument: object) -> bool:
    return isinstance(argument, torch.device) or (isinstance(argument, str) and argument == "cpu")


def is_there(tensor: object) -> bool:
    return getattr(tensor, MARK, False)


def placed(tensor: Tensor, on_gpu: bool) -> Tensor:
    if on_gpu != is_there(tensor):
        setattr(tensor, MARK, on_gpu)
    return tensor


def refuse_what_a_gpu_refuses(function: Callable[..., Any], name: str, tensors: list[Tensor]) -> None:
    if name in NEEDS_CPU and is_there(tensors[0]):
        raise TypeError(f"{resolve_name(function)}: the tensor is on the GPU, use .cpu() first")
    met = [tensor for tensor in tensors if tensor.dim() > 0]  # single numbers may come from anywhere
    may_meet = name in BETWEEN_DEVICES or (name == "__getitem__" and is_there(tensors[0]))
    if len(set(map(is_there, met))) == 2 and not may_meet:
        shapes = [(tuple(tensor.shape), is_there(tensor)) for tensor in met]
        raise RuntimeError(f"{resolve_name(function)}: tensors on two devices {shapes}")
