"""Formulas for Sphinx as MathML, which browsers show by themselves: no script, no font to fetch."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from math_core import LatexError
from sphinx.application import Sphinx
from sphinx.errors import SphinxError

from autograder.reporting.feedback import to_mathml


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(converted(node, display=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math" tabindex="0">{converted(node, display=True)}</div>')
    raise nodes.SkipNode


def converted(node: nodes.Node, display: bool) -> str:
    try:
        return str(to_mathml.convert_with_local_state(node.astext(), displaystyle=display))
    except LatexError as error:
        raise SphinxError(f"{node.source}: the formula {node.astext()!r} cannot be shown: {error}") from None
