"""Pictures in one style: colours that colour-blind readers can tell apart, labels on every axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from torch import Tensor

from course_lib.alt_text import describe_pictures
from course_lib.colours import COLOURS, DIVERGING, PARTS, SEQUENTIAL
from course_lib.transformer_map import show_map

__all__ = ["COLOURS", "DIVERGING", "PARTS", "SEQUENTIAL", "show_map", "show_matrix", "use_course_style"]


def use_course_style() -> None:
    """Set matplotlib up for the course. Call it once, in a notebook's set-up cell."""
    describe_pictures()
    plt.rcParams.update(
        {
            "axes.prop_cycle": plt.cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "image.cmap": SEQUENTIAL,
            "lines.linewidth": 1.8,
        }
    )


def show_matrix(
    matrix: Tensor,
    title: str = "",
    *,
    rows: str = "query",
    columns: str = "key",
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    numbers: bool | None = None,
    diverging: bool = False,
    limits: tuple[float, float] | None = None,
    colourbar: bool = False,
    ax: Any = None,
) -> Any:
    """Draw a matrix (rows, columns) as a grid of coloured squares.

    Small ones carry their numbers. `diverging` is for values on both sides of zero; `limits` fixes the colours so
    that several pictures can be compared.
    """
    values = matrix.detach().to("cpu").double().numpy()
    height, width = values.shape
    if ax is None:
        _, ax = plt.subplots(figsize=(max(2.5, 0.55 * width + 1.2), max(2.0, 0.5 * height + 1.0)))
    if limits is None and diverging:
        largest = float(abs(values).max()) or 1.0
        limits = (-largest, largest)
    low, high = limits or (float(values.min()), float(values.max()))
    image = ax.imshow(values, cmap=DIVERGING if diverging else SEQUENTIAL, vmin=low, vmax=high, aspect="auto")
    if numbers if numbers is not None else max(height, width) <= 8:
        write_numbers(ax, values, low, high, diverging)
    ax.set(title=title, xlabel=columns, ylabel=rows)
    name_ticks(ax.xaxis, width, column_names)
    name_ticks(ax.yaxis, height, row_names)
    ax.tick_params(length=0)
    if column_names and max(map(len, column_names)) > 3:
        ax.tick_params(axis="x", rotation=45)
    if colourbar:
        plt.colorbar(image, ax=ax, shrink=0.9)
    return ax


def write_numbers(ax: Any, values: Any, low: float, high: float, diverging: bool) -> None:
    """The value in each square, in black or white, whichever can be read on its colour."""
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            share = (value - low) / (high - low) if high > low else 0.5
            dark = abs(share - 0.5) > 0.3 if diverging else share < 0.5
            text = f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
            ax.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")


def name_ticks(axis: Any, count: int, names: Sequence[str] | None) -> None:
    """A tick for every entry if they have names or are few; otherwise matplotlib chooses."""
    if names is not None:
        axis.set_ticks(range(count), list(names))
    elif count <= 12:
        axis.set_ticks(range(count))
