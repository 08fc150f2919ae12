"""Would a module work on another device? Answered on a machine that has only one.

`.to(device)` takes parameters and buffers along. A tensor kept as a plain attribute stays behind. A tensor that
`forward` makes without naming a device is on the CPU. Both stay there until the code moves them with `.to(...)`, and so
does what is computed from them. The first operation in which such a tensor meets any other one would fail on a graphics
card. This is watched for while the module runs as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

COPIES = ("copy_", "__setitem__")  # from any device into the first tensor
USES_THE_FIRST = ("expand_as", "view_as", "reshape_as")  # and only the shape of the second


class DeviceWatch(TorchFunctionMode):
    """Follows tensors that would be on the CPU. `failed`: one of them was combined with a moved tensor.

    stayed_behind: those that are there from the start. follows_new: whether new ones are followed too.
    """

    def __init__(self, stayed_behind: Iterable[Tensor] = (), follows_new: bool = False):
        super().__init__()
        self.on_cpu = {id(tensor): tensor for tensor in stayed_behind}  # kept alive, so that ids stay theirs
        self.follows_new = follows_new
        self.failed = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        given = list(tensors_in([*args, *kwargs.values()]))
        if not given:
            is_new_here = self.follows_new and not any(map(is_device, [*args, *kwargs.values()]))
            return self.note(result) if is_new_here else result
        on_cpu = [id(tensor) in self.on_cpu for tensor in given]
        if not any(on_cpu) or name in COPIES:
            return result
        if moves(func, [*args[1:], *kwargs.values()]):
            return result.clone()  # it may be the same tensor; from here on it counts as moved
        if name in USES_THE_FIRST or (name == "__getitem__" and not on_cpu[0]):
            return self.note(result) if on_cpu[0] else result
        # A tensor without axes is a number, and numbers meet tensors of any device.
        met = {there for there, tensor in zip(on_cpu, given, strict=True) if tensor.dim() > 0}
        self.failed |= len(met) == 2
        return result if met == {False} else self.note(result)

    def note(self, result: Any) -> Any:
        self.on_cpu |= {id(tensor): tensor for tensor in tensors_in([result])}
        return result


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among these values, and in lists and tuples among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def is_device(argument: Any) -> bool:
    return isinstance(argument, (torch.device, str))


def moves(function: Callable[..., Any], arguments: Iterable[Any]) -> bool:
    """Whether an operation takes a tensor to another device; `.to(dtype)` does not."""
    name = getattr(function, "__name__", "")
    says_where = any(isinstance(argument, Tensor) or is_device(argument) for argument in arguments)
    return name in ("type_as", "cpu", "cuda") or (name == "to" and says_where)


def tensors_left_behind(module: nn.Module) -> list[Tensor]:
    """The tensors of a module and its parts that are neither parameters nor buffers."""
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
