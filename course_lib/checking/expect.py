"""What a property says when it is not satisfied.

Each `expect_…` looks at a value that came from a student's code and raises `Failure` with a sentence for them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .difference import Difference, describe_shape_mismatch

RTOL, ATOL = 1e-4, 1e-5


class Failure(Exception):
    """A property does not hold. The message is for the student; the difference can be drawn."""

    def __init__(self, message: str, difference: Difference | None = None):
        super().__init__(message)
        self.difference = difference

    @property
    def message(self) -> str:
        return str(self)


class Differs(Failure):
    """Two tensors differ. How they do is said at the end of the message, and put into words only if somebody reads it:
    a diagnosis tries many properties and reads none of their messages.
    """

    def __init__(self, message: str, got: Tensor, want: Tensor, rtol: float = RTOL, atol: float = ATOL):
        super().__init__(message, Difference(got, want, rtol, atol))

    def __str__(self) -> str:
        assert self.difference is not None
        return f"{super().__str__()} {self.difference.in_words()}"


def is_close(got: Tensor, want: Tensor, rtol: float = RTOL, atol: float = ATOL) -> bool:
    """Equality up to rounding, whatever the dtypes. NaN equals NaN."""
    if got.shape != want.shape:
        return False
    if got.dtype == want.dtype and torch.equal(got, want):  # much faster, and often enough
        return True
    dtype = torch.complex128 if got.is_complex() or want.is_complex() else torch.float64
    got, want = got.detach().to(dtype), want.detach().to(dtype)
    return torch.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)


def expect(condition: bool | Tensor, message: str) -> None:
    """Fail with `message` unless the condition holds."""
    if not bool(condition):
        raise Failure(message)


def expect_tensor(got: Any, shape: tuple[int, ...] | None = None, what: str = "the result") -> Tensor:
    """`got` is a tensor (of this shape)."""
    if got is None:
        raise Failure(f"{sentence(what)} is None. Does every path through your code end in a `return`?")
    if not isinstance(got, Tensor):
        raise Failure(f"{sentence(what)} should be a torch tensor, but it is {name_of_type(got)}.")
    if shape is not None and tuple(got.shape) != tuple(shape):
        raise Failure(describe_shape_mismatch(tuple(got.shape), tuple(shape), sentence(what)))
    return got


def expect_floats(got: Any, shape: tuple[int, ...] | None = None, what: str = "the result") -> Tensor:
    """`got` is a tensor of floating point numbers without NaN."""
    got = expect_tensor(got, shape, what)
    if not got.is_floating_point():
        raise Failure(f"{sentence(what)} should hold floating point numbers, but its dtype is {got.dtype}.")
    if got.isnan().any():
        where = tuple(int(i) for i in got.isnan().nonzero()[0])
        raise Failure(
            f"{sentence(what)} contains NaN (not a number), first at index {list(where)}. "
            "NaN comes from 0/0, inf/inf, inf - inf, or the softmax of a row in which every score is -inf."
        )
    return got


def expect_close(got: Any, want: Tensor, what: str = "the result", rtol: float = RTOL, atol: float = ATOL) -> Tensor:
    """`got` has the shape and the values of `want`, up to rounding."""
    got = expect_floats(got, tuple(want.shape), what)
    if not is_close(got, want, rtol, atol):
        raise Differs(f"{sentence(what)} has the right shape but wrong values.", got, want, rtol, atol)
    return got


def expect_truth_values(got: Any, shape: tuple[int, ...], what: str = "the mask") -> Tensor:
    """`got` as a boolean tensor of this shape: bool, or numbers 0 and 1, in any shape that means the same."""
    got = expect_tensor(got, what=what)
    if got.dtype != torch.bool:
        strange = got[(got != 0) & (got != 1)].flatten()
        if strange.numel():
            raise Failure(
                f"{sentence(what)} should hold True and False only, but it holds {strange[0].item():g}."
                + (" True means: attention is allowed here." if "mask" in what else "")
            )
    same = as_shape(got.bool(), shape)
    if same is None:
        raise Failure(describe_shape_mismatch(tuple(got.shape), shape, sentence(what)))
    return same


def expect_mask(got: Any, want: Tensor, what: str = "the mask") -> Tensor:
    """`got` says the same as the boolean `want`."""
    same = expect_truth_values(got, tuple(want.shape), what)
    if not torch.equal(same, want):
        raise Differs(f"{sentence(what)} has the right shape but wrong entries.", same, want)
    return same


def expect_equal(got: Any, want: Any, what: str = "the result") -> None:
    """`got` is exactly the number, string or list `want` (numbers: up to rounding)."""
    if got is None:
        raise Failure(f"{sentence(what)} is None. Does every path through your code end in a `return`?")
    if isinstance(got, Tensor) and got.numel() == 1 and isinstance(want, int | float):
        got = got.item()
    numbers = isinstance(want, int | float) and isinstance(got, int | float)
    if not numbers and type(got) is not type(want):
        raise Failure(f"{sentence(what)} should be {name_of_type(want)}, but it is {name_of_type(got)}.")
    equal = abs(got - want) <= ATOL + RTOL * abs(want) if numbers else got == want
    if not equal:
        raise Failure("{} should be {}, but it is {}.".format(sentence(what), *short_texts(want, got)))


def short_texts(*values: Any) -> list[str]:
    """How the values are written in a sentence: six digits of each number, or all of them if these look alike."""
    short = [f"{value:.6g}" if isinstance(value, float) else repr(value) for value in values]
    return short if len(set(short)) == len(short) else [repr(value) for value in values]


def expect_tuple(got: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """`got` is a tuple with as many members as there are names."""
    listing = "(" + ", ".join(names) + ")"
    if got is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if not isinstance(got, tuple | list):
        raise Failure(f"The result should be the tuple {listing}, but it is {name_of_type(got)}.")
    if len(got) != len(names):
        raise Failure(f"The result should be the tuple {listing}, but it has {len(got)} members.")
    return tuple(got)


def as_shape(got: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """`got` in `shape`, if they differ only by broadcasting or axes of length 1; otherwise None."""
    if got.shape == shape:
        return got
    without_ones = [size for size in got.shape if size != 1]
    if without_ones == [size for size in shape if size != 1] and got.numel() == torch.Size(shape).numel():
        return got.reshape(shape)
    if 2 <= got.dim() == len(shape) + 1 and got.shape[1] == 1:  # an axis for the heads
        got = got.squeeze(1)
    if got.dim() <= len(shape) and all(g in (1, s) for g, s in zip(got.shape[::-1], shape[::-1], strict=False)):
        return got.expand(shape)
    return None


def name_of_type(value: Any) -> str:
    """The type of a plain value in words."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"a tuple with {len(value)} {'member' if len(value) == 1 else 'members'}"
    if isinstance(value, list):
        return f"a list with {len(value)} {'entry' if len(value) == 1 else 'entries'}"
    if isinstance(value, bool | int | float | str):
        return f"{type(value).__name__} {value!r}"
    return f"a {getattr(value, 'type_name', type(value).__name__)}"


def sentence(what: str) -> str:
    """With a capital first letter."""
    return what[:1].upper() + what[1:]
