"""A mask to be painted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.interactive.attention import SENTENCE, require_names
from course_lib.interactive.figure import InteractiveFigure, brief, rounded
from course_lib.masks import causal_mask, masked_softmax
from course_lib.plotting import show_matrix

MOST_POSITIONS = 12  # more squares than that do not fit side by side


def paint_a_mask(
    n: int = 6, words: Sequence[str] | None = None, scores: Tensor | None = None, padded: int = 2, radius: int = 1
) -> InteractiveFigure:
    """A mask (n, n) that is painted by hand; which inputs can then influence which outputs, and the weights.

    Beside the mask: which input reaches which output through 1, 2 or 3 such layers, and the attention weights of one
    layer with the given scores. A row that may look at nothing is all 0. The mask is True (✓) where allowed.

    words: one for each position. scores: (n, n), random ones if not given. padded: how many positions at the end the
    preset "padding" hides. radius: how far the preset "window" sees.

    >>> paint_a_mask(4, words=["le", "chat", "dort", "."])  # doctest: +SKIP
    """
    if not 1 <= n <= MOST_POSITIONS:
        raise ValueError(f"n = {n}: the figure has room for 1 to {MOST_POSITIONS} positions.")
    if words is None:
        words = SENTENCE if n == len(SENTENCE) else [f"x{i}" for i in range(n)]
    require_names(words, n, "positions")
    if scores is None:
        scores = torch.randn(n, n, generator=torch.Generator().manual_seed(2))
    if scores.shape != (n, n) or not scores.isfinite().all():
        raise ValueError(f"scores should be ({n}, {n}) ordinary numbers, but the shape is {tuple(scores.shape)}.")
    table = scores.detach().to("cpu").double()

    def still(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        mask = causal_mask(n)
        names = brief(words)
        weights = masked_softmax(table, mask)
        show_matrix(mask.float(), "mask (1: may look)", row_names=names, column_names=names, ax=left)
        show_matrix(weights, "weights under this mask", row_names=names, column_names=names, ax=right)

    alt = (
        f"A mask of {n} × {n} squares that can be painted by hand, the inputs that reach each output through it, and "
        "the attention weights under it. It starts as the causal mask."
    )
    data = {"words": list(words), "scores": rounded(table.tolist()), "padded": padded, "radius": radius}
    return InteractiveFigure("paint_a_mask", data, alt, still, size=(7.5, 3.4))
