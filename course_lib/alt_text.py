"""What a picture shows, in words: for readers who do not see it, and where pictures do not load.

JupyterLab and Colab show a picture of matplotlib without an `alt`, whatever its metadata say. So a figure shows itself
as HTML, with the alt text, and as a plain PNG for programs that take no HTML.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image  # matplotlib cannot do without it either

CELL_TITLE = re.compile(r"# Figure: (.+)")  # the first line of a cell that draws, as the build writes it
MOST_NAMES = 8  # of curves in one panel


def describe_pictures() -> None:
    """Let every figure of this notebook carry its alt text. Does nothing where there is no notebook."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is None:
        return

    def shown(figure: Figure) -> tuple[dict[str, str], dict[str, Any]]:
        cells = shell.user_ns.get("In") or [""]
        return as_outputs(figure, title_of_cell(cells[-1]))

    shell.display_formatter.mimebundle_formatter.for_type(Figure, shown)


def title_of_cell(source: str) -> str:
    found = CELL_TITLE.match(source)
    return found[1].strip() if found else ""


def as_outputs(figure: Figure, title: str = "") -> tuple[dict[str, str], dict[str, Any]]:
    """What a notebook keeps of a figure, and the metadata of that."""
    alt, picture = alt_text(figure, title), as_png(figure)
    element = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{picture}">'
    return {"image/png": picture, "text/html": element, "text/plain": alt}, {"image/png": {"alt": alt}}


def as_png(figure: Figure) -> str:
    """The picture in base64. With 256 colours it is half as large, which makes up for keeping it twice."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", bbox_inches="tight", facecolor="white")
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def alt_text(figure: Figure, title: str = "") -> str:
    """The title of the picture and its label (`figure.set_label("…")`), then each panel in words."""
    panels = [words for ax in figure.axes for words in described(ax) if words]
    heads = [title, plain(figure.get_suptitle()), plain(str(figure.get_label()))]
    names = dict.fromkeys(filter(None, [*heads, *panels]))
    return " ".join(name if name[-1] in ".?!" else f"{name}." for name in names) or "A picture without a title."


def described(ax: Axes) -> Iterator[str]:
    """A panel: its title, what its axes show, and the names of its curves."""
    if not ax.get_visible() or not (ax.has_data() or ax.get_title()):
        return
    title = " ".join(filter(None, (plain(ax.get_title(where)) for where in ("left", "center", "right"))))
    up, across = plain(ax.get_ylabel()), plain(ax.get_xlabel())
    if ax.images:
        labels = ", ".join([f"rows: {up}"] * bool(up) + [f"columns: {across}"] * bool(across))
    else:
        labels = f"{up} over {across}" if up and across else up or across
    legend = ax.get_legend()
    names = [plain(text.get_text()) for text in legend.get_texts()] if legend else []
    curves = ", ".join(names[:MOST_NAMES]) + (" and others" if len(names) > MOST_NAMES else "")
    head = f"{title} ({labels})" if title and labels else title or labels
    yield f"{head}: {curves}" if head and curves else head or curves


def plain(text: str) -> str:
    """A label without the signs that make a formula of it."""
    return " ".join(re.sub(r"[$\\{}]", "", text).split())
