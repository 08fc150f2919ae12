"""Would a module work on another device? Answered on a machine that has only one.

`.to(device)` takes parameters and buffers along. A tensor kept as a plain attribute stays behind, and so does what is
sliced from it, until the code moves it with `.to(...)`. The first operation in which such a tensor meets any other one
would fail on a graphics card. This is watched for while the module runs as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class DeviceWatch(TorchFunctionMode):
    """Follows tensors that would have stayed behind. `failed`: one of them was combined with a moved tensor."""

    def __init__(self, stayed_behind: Iterable[Tensor]):
        super().__init__()
        self.stayed_behind = {id(tensor): tensor for tensor in stayed_behind}  # kept alive, so that ids stay theirs
        self.failed = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, Tensor)]
        behind = [id(tensor) in self.stayed_behind for tensor in tensors]
        if any(behind) and moves(func, [*args[1:], *(kwargs or {}).values()]):
            return result.clone()  # it may be the same tensor; from here on it counts as moved
        if any(behind):
            # A tensor without axes is a number, and numbers meet tensors of any device.
            self.failed |= any(not b and t.dim() > 0 for b, t in zip(behind, tensors, strict=True))
            if isinstance(result, Tensor):
                self.stayed_behind[id(result)] = result
        return result


def moves(function: Callable[..., Any], arguments: Iterable[Any]) -> bool:
    """Whether an operation takes a tensor to another device; `.to(dtype)` does not."""
    name = getattr(function, "__name__", "")
    says_where = any(isinstance(argument, Tensor | torch.device | str) for argument in arguments)
    return name in ("type_as", "cpu", "cuda") or (name == "to" and says_where)


def tensors_left_behind(module: nn.Module) -> list[Tensor]:
    """The tensors of a module and its parts that are neither parameters nor buffers."""
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
