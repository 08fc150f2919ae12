"""How two results differ: in words, and as a picture of target, yours and difference."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

LARGEST_PICTURE = 12  # rows and columns


@dataclass(frozen=True)
class Difference:
    """Two tensors of one shape with different values."""

    got: Tensor
    want: Tensor
    rtol: float = 1e-4
    atol: float = 1e-5

    def in_words(self) -> str:
        """A relation between the two if there is a simple one, and the first place where they differ."""
        return " ".join([*relations(self), self.first_place()])

    def first_place(self) -> str:
        index, place = self.first_index()
        return f"First difference {place}: expected {number(self.want[index])}, got {number(self.got[index])}."

    def first_index(self) -> tuple[tuple[int, ...], str]:
        index = tuple(int(i) for i in self.where().nonzero()[0])
        return index, f"at index {list(index)}" if index else "in the one value"

    def where(self) -> Tensor:
        got, want = self.got.to(torch.float64), self.want.to(torch.float64)
        return ~torch.isclose(got, want, rtol=self.rtol, atol=self.atol, equal_nan=True)

    def as_html(self, owner: str = "yours") -> str:
        """Target, yours and difference as three small coloured grids; nothing if they would be too large."""
        matrices = [self.first_differing_matrix(t) for t in (self.want, self.got)]
        if any(m is None for m in matrices):
            return ""
        want, got = (m.to(torch.float64) for m in matrices if m is not None)
        grids = [("expected", want), (owner, got), (f"{owner} − expected", got - want)]
        first = tuple(int(i) for i in self.where().nonzero()[0])[-2:]
        cells = "".join(
            f'<td style="padding:4px 14px 4px 0;vertical-align:top;text-align:left">{title}{grid(m, first)}</td>'
            for title, m in grids
        )
        return f'<table style="border:none;background:none"><tr style="background:none">{cells}</tr></table>'

    def first_differing_matrix(self, tensor: Tensor) -> Tensor | None:
        """The first matrix (last two axes) in which the two differ."""
        if tensor.dim() < 2 or max(tensor.shape[-2:]) > LARGEST_PICTURE:
            return None
        index = tuple(int(i) for i in self.where().nonzero()[0])[:-2]
        return tensor[index]


def relations(difference: Difference) -> Iterator[str]:
    """At most one sentence about a simple relation between the two tensors."""
    got, want = difference.got, difference.want
    if want.dtype == torch.bool and torch.equal(got, ~want):
        yield "It is exactly inverted: True and False are swapped."
        return
    got, want = got.to(torch.float64), want.to(torch.float64)

    def same(a: Tensor, b: Tensor) -> bool:
        return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-6)

    if not bool(want.isfinite().all() and got.isfinite().all()) or want.numel() < 3:
        return
    if not got.any():
        yield "All your values are 0."
        return
    weight = (want * want).sum()
    factor = (got * want).sum() / weight if weight > 0 else torch.tensor(1.0)
    if same(got, factor * want) and want.std() > 1e-6:
        yield f"Each of your values is {factor:.4g} times the expected one."
        return
    if same(got, want + (got - want).mean()) and want.std() > 1e-6:
        yield f"Each of your values is the expected one plus {(got - want).mean():.4g}."
        return
    if want.dim() >= 2 and want.shape[-1] == want.shape[-2] and same(got, want.mT):
        yield "It is the transpose of the expected one: rows and columns are swapped."
        return
    if want.std() < 1e-6:  # all alike: reversing or shifting it would change nothing
        return
    for axis in range(want.dim()):
        if want.shape[axis] > 1 and same(got, want.flip(axis)):
            yield f"It is the expected one in reverse order along axis {axis}."
            return
        most = want.shape[axis] - 1  # all places but the one at the end, into which anything may have moved
        for here, there in ((1, 0), (0, 1)):
            if most > 1 and same(got.narrow(axis, here, most), want.narrow(axis, there, most)):
                yield f"It is the expected one shifted by one place along axis {axis}."
                return


def describe_shape_mismatch(got: tuple[int, ...], want: tuple[int, ...], what: str) -> str:
    """A sentence on two shapes, with the likely slip where it is easily seen."""
    text = f"{what} should have shape {want}, but it has shape {got}."
    if sorted(got) == sorted(want) and len(got) == len(want) and len(set(want)) == len(want):
        order = next(p for p in permutations(range(len(want))) if tuple(got[i] for i in p) == want)
        *moved, last = [str(axis) for axis, source in enumerate(order) if axis != source]
        text += f" Axes {', '.join(moved)} and {last} are in another order."
    elif len(got) == len(want) + 1 and tuple(s for s in got if s != 1) == want:
        text += " There is one axis of length 1 too many."
    elif len(got) == len(want) - 1 and tuple(s for s in want if s != 1) == got:
        text += " An axis of length 1 is missing."
    elif len(got) < len(want):
        text += f" It has {len(got)} {'axis' if len(got) == 1 else 'axes'} instead of {len(want)}."
    return text


def number(value: Tensor) -> str:
    """One entry of a tensor for a person."""
    if value.dtype == torch.bool:
        return str(bool(value))
    return f"{value.item():.5g}"


def grid(matrix: Tensor, marked: tuple[int, ...]) -> str:
    """A small matrix as an HTML table: blue below zero, orange above, which colour-blind eyes can tell apart.

    The entry at `marked` has a frame.
    """
    finite = matrix[matrix.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() and finite.max() > 0 else 1.0
    rows = "".join(
        "<tr>" + "".join(cell(float(v), largest, (i, j) == marked) for j, v in enumerate(row)) + "</tr>"
        for i, row in enumerate(matrix)
    )
    return f'<table style="border-collapse:collapse;margin-top:3px">{rows}</table>'


def cell(value: float, largest: float, is_marked: bool) -> str:
    strength = min(abs(value) / largest, 1.0) if value == value else 1.0
    full = (86, 180, 233) if value < 0 else (230, 159, 0)
    colour = ",".join(f"{255 - 0.75 * strength * (255 - part):.0f}" for part in full)
    text = html.escape(f"{value:.3g}")
    style = (  # dark text on a light cell, whatever the page's own colours are
        f"background:rgb({colour});color:#111;padding:1px 5px;text-align:right;"
        f"border:{'2px solid rgba(213,94,0,1)' if is_marked else '1px solid rgba(128,128,128,.35)'};font-size:11px"
    )
    return f'<td style="{style}">{text}</td>'
