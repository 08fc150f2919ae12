"""What all interactive figures are: data, a script that runs in the reader's browser, and a still picture.

No kernel is needed to move them and nothing is fetched: the page that shows one holds all of it. The still picture is
what shows where scripts do not run (an untrusted notebook, GitHub, a PDF); the script hides it.
"""

from __future__ import annotations

import base64
import html
import io
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image  # matplotlib cannot do without it either

from course_lib.plotting import COLOURS

HERE = Path(__file__).parent
BLUE, VERMILION, GREEN = COLOURS[:3]
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9,
    "text.parse_math": False,  # a word may contain $
}


@dataclass(frozen=True)
class InteractiveFigure:
    """A figure that shows itself at the end of a cell. `name` is that of its script."""

    name: str
    data: Mapping[str, Any]  # what the script is given: numbers, texts and lists of them
    alt: str  # what is to be seen, in words
    draw_still: Callable[[Figure], None]
    size: tuple[float, float] = (7.5, 2.6)  # of the still picture, in inches

    def __repr__(self) -> str:
        return f"{self.alt} (An interactive figure: it shows in a notebook.)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"text/html": self.html, "image/png": self.still, "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt}}

    @cached_property
    def still(self) -> str:
        """The still picture, a PNG in base64."""
        with matplotlib.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the font may lack a letter of somebody's alphabet
            figure = Figure(figsize=self.size, dpi=80, layout="constrained")
            self.draw_still(figure)
            drawn, small = io.BytesIO(), io.BytesIO()
            figure.savefig(drawn, format="png", facecolor="white")
        Image.open(drawn).convert("RGB").quantize(64).save(small, format="png", optimize=True)
        return base64.b64encode(small.getvalue()).decode()

    @cached_property
    def html(self) -> str:
        """The whole figure as HTML. The same arguments give the same text, and no element has an id."""
        data = as_script(self.data)
        key = sha256(f"{self.name} {data}".encode()).hexdigest()[:12]
        script = "\n".join([source("shared.js"), source(f"{self.name}.js"), f'start("{key}", build, {data});'])
        return (
            f'<div class="course-figure" data-figure="{key}">\n'
            f'<div class="course-still"><img alt="{html.escape(self.alt)}" src="data:image/png;base64,{self.still}">\n'
            "<p>This is a still picture: run the cell, and the figure can be moved.</p></div>\n"
            f"<style>\n{source('shared.css')}</style>\n"
            f'<script>\n(() => {{\n"use strict";\n{script}\n}})();\n</script>\n</div>'
        )


@cache
def source(name: str) -> str:
    """One of the files beside this one."""
    return (HERE / name).read_text(encoding="utf-8")


def as_script(data: Mapping[str, Any]) -> str:
    """The data as JavaScript inside HTML: no text in it can end the script, whatever it says."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def rounded(values: Any) -> Any:
    """Numbers in nested lists with seven significant digits: more than anybody sees, and half the size."""
    return [rounded(value) for value in values] if isinstance(values, list) else float(f"{values:.7g}")


def brief(names: Sequence[str]) -> list[str]:
    """The names, none so long that it pushes a still picture aside."""
    return [name if len(name) <= 16 else f"{name[:15]}…" for name in names]
