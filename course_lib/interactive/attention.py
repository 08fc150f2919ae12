"""Figures of attention: the scale, a query among keys, and what a trained model looks at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.interactive.figure import BLUE, GREEN, VERMILION, InteractiveFigure, brief, rounded

SENTENCE = ("the", "cat", "is", "on", "the", "mat")


def scale_and_softmax(
    scores: Sequence[float] = (0.3, 1.6, 0.5, -0.8, 0.1, 1.0), names: Sequence[str] = SENTENCE, scale: float = 1.0
) -> InteractiveFigure:
    """Scores, times a scale that is set by a slider, and their softmax, with its entropy.

    scores: one for each key, at the scale 1. names: as many.

    >>> scale_and_softmax([2.0, 1.0, -1.0], ["cat", "dog", "mat"])  # doctest: +SKIP
    """
    values = [float(score) for score in scores]
    require_names(names, len(values), "scores")
    require_finite(values, "scores")
    largest = max(8.0, scale)

    def still(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        scaled = torch.tensor(values) * scale
        draw_bars(left, names, scaled.tolist(), f"scores × {scale:g}", VERMILION)
        draw_bars(right, names, scaled.softmax(dim=0).tolist(), "weights: their softmax", BLUE)

    alt = (
        f"Bars: the scores of {len(values)} keys, and their weights after a softmax. A slider makes the scores larger "
        "or smaller: the larger they are, the more of the weight goes to the best key."
    )
    data = {"names": list(names), "scores": rounded(values), "scale": scale, "largest": largest}
    return InteractiveFigure("scale_and_softmax", data, alt, still)


def query_among_keys(
    keys: Sequence[Sequence[float]] = ((1.6, 0.4), (0.9, 1.5), (-1.0, 1.2), (-1.4, -0.9), (0.8, -1.5)),
    values: Sequence[Sequence[float]] | None = None,
    query: Sequence[float] = (1.7, -0.7),
    names: Sequence[str] | None = None,
    scaled: bool = True,
) -> InteractiveFigure:
    """A query in the plane, moved by hand: its weights on the keys, and the output.

    keys: (m, 2); values: (m, 2), the keys themselves if not given; query: (2,), where it starts.
    scaled: the scores are divided by √d_k = √2.

    >>> query_among_keys(keys=[[1, 0], [0, 1]], values=[[2, 0], [0, -1]])  # doctest: +SKIP
    """
    points = require_points(keys, "keys")
    contents = points if values is None else require_points(values, "values")
    if len(contents) != len(points):
        raise ValueError(f"There are {len(points)} keys and {len(contents)} values: each key needs one value.")
    start = require_points([query], "query")[0]
    names = [f"k{i}" for i in range(len(points))] if names is None else names
    require_names(names, len(points), "keys")
    reach = 1.25 * max(abs(number) for point in [*points, *contents, start] for number in point) or 1.0

    def still(figure: Figure) -> None:
        plane, right = figure.subplots(1, 2)
        scores = torch.tensor(points) @ torch.tensor(start) / (math.sqrt(2) if scaled else 1.0)
        weights = scores.softmax(dim=0)
        output = (weights @ torch.tensor(contents)).tolist()
        for point, name in zip(points, brief(names)):
            draw_arrow(plane, point, BLUE)
            length = math.hypot(*point) or 1.0
            outwards = (10 * point[0] / length, 10 * point[1] / length)
            plane.annotate(name, point, textcoords="offset points", xytext=outwards, ha="center", va="center")
        draw_arrow(plane, start, VERMILION)
        draw_arrow(plane, output, GREEN)
        plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        plane.set_title("keys (blue), query (orange), output (green)")
        draw_bars(right, names, weights.tolist(), "weights", BLUE)

    alt = (
        f"{len(points)} keys as arrows in the plane, a query among them, the weights that it gives to the keys, and "
        "the output, the weighted mean of the values. The query can be dragged, or moved with the arrow keys."
    )
    data = {
        "names": list(names),
        "keys": rounded(points),
        "values": rounded(contents),
        "query": rounded(start),
        "scaled": scaled,
        "reach": reach,
        "valuesAreKeys": contents == points,
    }
    return InteractiveFigure("query_among_keys", data, alt, still, size=(7.5, 3.4))


# --- still pictures -------------------------------------------------------------------------------------


def draw_bars(ax: Any, names: Sequence[str], values: Sequence[float], title: str, colour: str) -> None:
    """Horizontal bars with their numbers, the first on top."""
    drawn = ax.barh(range(len(values)), values, color=colour)
    ax.bar_label(drawn, fmt="%.2f", padding=3)
    ax.set_yticks(range(len(values)), brief(names))
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_title(title)


def draw_arrow(ax: Any, tip: Sequence[float], colour: str) -> None:
    """From the origin to the tip."""
    ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0})


# --- clear words for wrong arguments --------------------------------------------------------------------


def require_names(names: Sequence[str], count: int, what: str) -> None:
    """Raise unless there is one name for each of at least one thing."""
    if count == 0 or len(names) != count:
        raise ValueError(f"There are {count} {what} and {len(names)} names: give as many, and at least one.")


def require_finite(values: Sequence[float], what: str) -> None:
    """Raise if one of the values is not an ordinary number."""
    odd = [value for value in values if not math.isfinite(value)]
    if odd:
        raise ValueError(f"The {what} should be ordinary numbers, but one of them is {odd[0]}.")


def require_points(points: Sequence[Sequence[float]] | Tensor, what: str) -> list[list[float]]:
    """The points as lists of two numbers each, or an error that says what is wrong."""
    result = [[float(number) for number in point] for point in points]
    if not result or any(len(point) != 2 for point in result):
        raise ValueError(f"The {what} should be points of the plane, (…, 2), at least one: the figure has two axes.")
    for point in result:
        require_finite(point, what)
    return result
