"""The map of the course: the Transformer as a picture, on which each notebook is a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, FancyBboxPatch

from course_lib.colours import PARTS
from course_lib.notebooks import Notebook, all_notebooks, find_notebook

WIDTH, HEIGHT = 118.0, 70.0  # of the picture; all places below are in these units
STRIP = 10.0  # more height, for the notebooks that lie beyond the picture
INCHES = 11 / WIDTH
INK, GREY, HERE = "#222222", "#767676", "#000000"
WRITTEN_IN_WHITE = ("mask", "positions", "output")


@dataclass(frozen=True)
class Box:
    """A part of the model: the centre of its box, and the notebooks (by topic) that are about it."""

    text: str
    part: str
    x: float
    y: float
    topics: tuple[str, ...]
    width: float = 17.0
    height: float = 4.0


INSIDE, ENCODER, DECODER = 12.5, 63.0, 90.0  # the middle of the attention and of the two stacks
ATTENTION, MASKS, HEADS = ("dot_product_attention",), ("masks",), ("multi_head_attention",)
SUBLAYERS, POSITIONS = ("sublayers",), ("positions",)
OUTPUT = ("transformer", "training", "decoding")
BOXES = (
    Box("query", "attention", INSIDE - 5.3, 14, ATTENTION, 5),
    Box("key", "attention", INSIDE, 14, ATTENTION, 5),
    Box("value", "attention", INSIDE + 5.3, 14, ATTENTION, 5),
    Box(r"scores  $QK^\top/\sqrt{d_k}$", "attention", INSIDE, 22.5, ATTENTION, 15.6, 5),
    Box("mask", "mask", INSIDE, 30.5, MASKS, 15.6),
    Box("softmax", "attention", INSIDE, 38, (*ATTENTION, "start_here"), 15.6),
    Box("weighted sum of values", "attention", INSIDE, 45.5, ATTENTION, 15.6),
    Box("embedding", "embedding", ENCODER, 11, SUBLAYERS),
    Box("+ position", "positions", ENCODER, 17, POSITIONS),
    Box("self-attention", "attention", ENCODER, 27, (*HEADS, "masks")),
    Box("add & norm", "norm", ENCODER, 32, SUBLAYERS, height=3),
    Box("feed-forward", "feed_forward", ENCODER, 38, SUBLAYERS),
    Box("add & norm", "norm", ENCODER, 43, SUBLAYERS, height=3),
    Box("embedding", "embedding", DECODER, 11, SUBLAYERS),
    Box("+ position", "positions", DECODER, 17, POSITIONS),
    Box("causal self-attention", "attention", DECODER, 27, (*HEADS, "masks")),
    Box("add & norm", "norm", DECODER, 32, SUBLAYERS, height=3),
    Box("cross-attention", "attention", DECODER, 38, (*HEADS, "masks")),
    Box("add & norm", "norm", DECODER, 43, SUBLAYERS, height=3),
    Box("feed-forward", "feed_forward", DECODER, 49, SUBLAYERS),
    Box("add & norm", "norm", DECODER, 54, SUBLAYERS, height=3),
    Box("output layer, softmax", "output", DECODER, 61, OUTPUT),
)
PLACES = {  # topic -> where its badge is; the name stands to the right of it
    "start_here": (40.0, 3.0),
    "dot_product_attention": (24.6, 22.5),
    "masks": (24.6, 30.5),
    "multi_head_attention": (5.0, 54.0),
    "positions": (105.0, 17.0),
    "sublayers": (105.0, 43.0),
    "encoder_decoder": (54.0, 53.0),
    "transformer": (51.0, 66.5),
    "training": (93.0, 67.5),
    "decoding": (105.0, 63.8),
}
ABOUT_EVERYTHING = ("encoder_decoder", "transformer", "training", "decoding")
CROSS = (38, 43)  # where the decoder's cross-attention is, and its norm


def show_map(here: str | None = None) -> None:
    """Draw the Transformer as a map of the course, with the place of the notebook `here` ("03_positions") marked."""
    marked = None if here is None else find_notebook(here)
    beyond = [notebook for notebook in all_notebooks() if notebook.topic not in PLACES]
    bottom = -STRIP if beyond else 0.0
    figure, ax = plt.subplots(figsize=(WIDTH * INCHES, (HEIGHT - bottom) * INCHES), layout="none")
    figure.set_label(
        "A map of the Transformer: attention on the left, encoder and decoder on the right, and at each part the "
        "number of the notebook that builds it" + (f"; {marked.title} is marked" if marked else "")
    )
    ax.set_position((0, 0, 1, 1))
    ax.set(xlim=(0, WIDTH), ylim=(bottom, HEIGHT), aspect="equal")
    ax.axis("off")
    draw_frames(ax)
    draw_ways(ax)
    for box in BOXES:
        draw_box(ax, box, is_pale=marked is not None and not is_about(marked, box))
    places = PLACES | places_beyond(beyond)
    for notebook in all_notebooks():
        draw_badge(ax, notebook, *places[notebook.topic], is_here=notebook == marked)
    plt.show()


def is_about(notebook: Notebook, box: Box) -> bool:
    """Whether a part of the picture belongs to a notebook. Those from 6 on are about the whole, or about one stack."""
    if notebook.topic == "classification":
        return box.x != DECODER
    if notebook.topic == "language_model":
        return box.x != ENCODER and not (box.x == DECODER and box.y in CROSS)
    return notebook.topic in box.topics or notebook.topic in ABOUT_EVERYTHING or notebook.topic not in PLACES


def places_beyond(notebooks: Sequence[Notebook]) -> dict[str, tuple[float, float]]:
    """Notebooks that go beyond the picture are below it, side by side."""
    room = WIDTH / max(len(notebooks), 1)
    return {notebook.topic: (3.0 + i * room, -STRIP / 2) for i, notebook in enumerate(notebooks)}


def draw_frames(ax: Any) -> None:
    for step in (2.0, 1.0, 0.0):  # several heads, one behind the other
        frame(ax, 2 + step, 8.5 + step, 43, 41, "#B0B0B0")
    ax.text(43.5, 10.2, "inside each attention", ha="right", va="center", color=GREY, fontsize=7.5, style="italic")
    frame(ax, 49.5, 6.5, 53, 57.5, "#B0B0B0", facecolor="#FAFAFA", linestyle=(0, (4, 3)))
    for middle, height, name in ((ENCODER, 25, "encoder"), (DECODER, 36, "decoder")):
        frame(ax, middle - 10.5, 22.5, 21, height, PARTS[name], linewidth=1.8)
        label = {"ha": "right", "va": "center", "color": PARTS[name], "fontsize": 7.5}
        ax.text(middle + 9.8, 21.3 + height, f"{name} × N", **label)


def frame(ax: Any, x: float, y: float, width: float, height: float, edge: str, **look: Any) -> None:
    shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1.5")
    shape.set(**{"facecolor": "white", "edgecolor": edge, "linewidth": 1.0, **look})
    ax.add_patch(shape)


def draw_ways(ax: Any) -> None:
    """All that flows: from box to box, around the sub-layers, from encoder to decoder, and back to the input."""
    for column in (INSIDE, ENCODER, DECODER):
        boxes = [box for box in BOXES if box.x == column]
        for below, above in pairwise(boxes):
            way(ax, (column, below.y + below.height / 2), (column, above.y - above.height / 2))
    way(ax, (INSIDE - 5.3, 16), (INSIDE - 5.3, 20))
    way(ax, (INSIDE + 5.3, 16), (INSIDE + 5.3, 18), (INSIDE + 9.3, 18), (INSIDE + 9.3, 45.5), (INSIDE + 7.8, 45.5))
    for column in (ENCODER, DECODER):
        way(ax, (column, 4.6), (column, 9))
        norms = [box.y for box in BOXES if box.x == column and box.part == "norm"]
        for norm in norms:
            fork = norm - 8.2  # where the residual connection leaves the stream
            way(ax, (column, fork), (column - 9.5, fork), (column - 9.5, norm), (column - 8.5, norm))
    way(ax, (ENCODER, 44.5), (ENCODER, 49.5), (ENCODER + 13.5, 49.5), (ENCODER + 13.5, 38), (DECODER - 8.5, 38))
    ax.text(ENCODER + 13.2, 50.7, "memory", ha="right", va="center", color=GREY, fontsize=7.5, style="italic")
    way(ax, (DECODER, 63), (DECODER, 68.5))
    way(ax, (DECODER + 8.5, 61), (WIDTH - 2, 61), (WIDTH - 2, 3), (DECODER + 9.5, 3))
    ax.plot([45, ENCODER - 8.5], [27, 27], ":", color=GREY, linewidth=1.1)
    for column, words in ((ENCODER, "the cat is on the mat"), (DECODER, "<bos> le chat est sur")):
        ax.text(column, 3, words, ha="center", va="center", color=INK, fontsize=8, family="monospace")


def way(ax: Any, *points: tuple[float, float]) -> None:
    """A line through these points with an arrow at its end."""
    arrow = {"arrowstyle": "-|>", "color": GREY, "linewidth": 1.1, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
    ax.plot(*zip(*points[:-1]), color=GREY, linewidth=1.1, solid_joinstyle="round", zorder=1.5)
    ax.annotate("", points[-1], points[-2], arrowprops=arrow, zorder=1.5)


def draw_box(ax: Any, box: Box, is_pale: bool) -> None:
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    shape = FancyBboxPatch(corner, box.width, box.height, boxstyle="round,pad=0,rounding_size=0.8", zorder=2)
    shape.set(facecolor=paler(PARTS[box.part]) if is_pale else PARTS[box.part], edgecolor="white", linewidth=0.8)
    ax.add_patch(shape)
    dark = box.part in WRITTEN_IN_WHITE and not is_pale
    colour = "white" if dark else "#555555" if is_pale else INK
    ax.text(box.x, box.y, box.text, ha="center", va="center", fontsize=7.5, color=colour, zorder=3)


def paler(colour: str) -> tuple[float, ...]:
    """The colour mixed with four times as much white."""
    red, green, blue = to_rgb(colour)
    return tuple(0.8 + 0.2 * share for share in (red, green, blue))


def draw_badge(ax: Any, notebook: Notebook, x: float, y: float, is_here: bool) -> None:
    """A round badge with the notebook's number, its name beside it."""
    badge = Circle((x, y), 2.1 if is_here else 1.6, zorder=4)
    badge.set(facecolor=HERE if is_here else "white", edgecolor=INK, linewidth=1.0)
    ax.add_patch(badge)
    look = {"ha": "center", "va": "center_baseline", "weight": "bold", "zorder": 5}
    ax.text(x, y, str(notebook.number), fontsize=9 if is_here else 8, color="white" if is_here else INK, **look)
    weight, size = ("bold", 9) if is_here else ("normal", 8.5)
    name = ax.text(x + 2.7, y, notebook.name, va="center_baseline", fontsize=size, weight=weight, color=INK, zorder=5)
    if is_here:
        name.set_bbox({"facecolor": "#FFF3B0", "edgecolor": "none", "boxstyle": "round,pad=0.2"})
