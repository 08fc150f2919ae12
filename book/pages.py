"""A notebook as a page of the book, in MyST markdown.

The text comes from the sources and the outputs from the executed notebook, matched by the ids of the cells. The
student's edition has the stubs in place of the solutions. Outputs of checks are left out in both: they are replaced by
what the check asks for, and by the hints, folded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions

from autograder.authoring.bootstrap import badge_markdown, course_settings
from autograder.authoring.build import header_line, solution_notebook, worth
from autograder.authoring.claims import cut_short
from book.executed import Outputs
from course_lib.alt_text import title_of_cell
from course_lib.checking.exercise import Exercise
from course_lib.exercises import all_exercises

LAB = "http://localhost:8888/lab/tree/work"  # where `make lab` serves a reader's own copy
FIGURES = "figures"  # the folder of the pictures
NOTEBOOK_LINK = re.compile(r"\]\((\w+)\.ipynb(?:#([^\s)\"]+))?((?:\s+\"[^\"]*\")?)\)")
FORMULA = re.compile(r"\$[^$]*\$")
FENCE = "``````````"
MARKS = re.compile(r"^ *### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\n?", re.MULTILINE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
WRITTEN = "*Your answer goes here, in the notebook.*"
SHORTENED = (
    "*The outputs on this page come from a shorter training than the one in your notebook: they show the same things, "
    "with other numbers. Where the text gives a number from the full training, the text is right.*"
)
NO_OUTPUTS = "*This page was made without executing the notebook: its outputs are missing.*"


@dataclass
class Page:
    """A page in the making: its lines, and the pictures that it shows."""

    stem: str
    outputs: Outputs | None  # None: the notebook was not executed
    with_solutions: bool = False
    is_whole: bool = False
    in_atlas: frozenset[str] = frozenset()  # exercises that have a page there
    pictures: dict[str, bytes] = field(default_factory=dict)  # file name -> content

    def text(self) -> str:
        """The whole page."""
        return "\n\n".join(part.strip("\n") for part in self.parts() if part.strip()) + "\n"

    def parts(self) -> Iterator[str]:
        notebook = solution_notebook(self.stem)
        cells = notebook.cells[:-1]  # without the links to its neighbours, which the book has itself
        first = cells.pop(0)
        yield with_book_links(first.source.removesuffix(f"\n\n{header_line(self.stem)}"))
        yield f"{worth(self.stem)}\n\n{open_links(self.stem, first.id, 'Open this notebook')}"
        if self.outputs is None:
            yield NO_OUTPUTS
        elif self.stem in cut_short() and not self.is_whole:
            yield SHORTENED
        for cell in cells:
            yield from self.markdown(cell) if cell.cell_type == "markdown" else self.code(cell)

    # --- text ---

    def markdown(self, cell: NotebookNode) -> Iterator[str]:
        if not cell.metadata.get("nbgrader", {}).get("solution"):
            yield with_section_links(with_book_links(cell.source), self.stem, cell.id)
        elif self.with_solutions:
            yield folded("A model answer", with_book_links(without_marks(cell.source)), kind="model-answer")
        else:
            yield WRITTEN

    # --- code ---

    def code(self, cell: NotebookNode) -> Iterator[str]:
        details = cell.metadata.get("nbgrader", {})
        name = details.get("grade_id", "")
        if name == "bootstrap" or name.endswith("_hidden"):
            return
        if name.startswith("setup_"):
            yield folded("Set-up: imports and helpers of this notebook", python(cell.source))
        elif details.get("solution"):
            yield python(without_marks(cell.source) if self.with_solutions else stub(cell))
        elif details.get("grade"):
            yield self.check(all_exercises()[name.removesuffix("_check")])
        elif title := title_of_cell(cell.source):
            yield from self.shown(cell, title)
            code = "\n".join(line for line in cell.source.split("\n") if not line.startswith(("# Figure:", "# @title")))
            yield folded("The code of this figure", python(code))
        else:
            yield python(cell.source)
            yield from self.shown(cell)

    def check(self, exercise: Exercise) -> str:
        """What takes the place of the check: what it asks for, the hints, and the link to the atlas."""
        demands = [f"- {prop.name} ({points(prop.points)})" for prop in exercise.properties if prop.points]
        more = f"- the same on cases that are not shown, when it is graded ({points(exercise.hidden_points)})"
        parts = [folded("What the check asks for", "\n".join([*demands, more]))]
        hints = ""
        for number, hint in reversed(list(enumerate(exercise.hints, start=1))):
            hints = folded(f"Hint {number} of {len(exercise.hints)}", f"{html_text(hint)}\n\n{hints}")
        parts.append(hints)
        if exercise.name in self.in_atlas:
            link = f"[{len(exercise.misconceptions)} known mistakes](atlas/{exercise.name}.md)"
            parts.append(f"In the atlas of mistakes: {link}.")
        return "\n\n".join(['<div class="exercise">', *parts, "</div>"])

    # --- outputs ---

    def shown(self, cell: NotebookNode, title: str = "") -> Iterator[str]:
        outputs = [self.output(output) for output in joined((self.outputs or {}).get(cell.id, []))]
        blocks = "\n".join(filter(None, outputs))
        if blocks and title:
            blocks = f'<figure class="drawn">\n{blocks}\n<figcaption>{html.escape(title)}</figcaption>\n</figure>'
        if blocks:
            yield raw(f'<div class="outputs">\n{blocks}\n</div>')

    def output(self, output: NotebookNode) -> str:
        """One output as HTML."""
        if output.output_type == "stream":
            return preformatted(output.text)
        if output.output_type == "error":
            return preformatted("\n".join(output.traceback))
        data = output.data
        is_interactive = "course-figure" in data.get("text/html", "")
        if "image/png" in data and not is_interactive:
            return self.picture(data["image/png"], output.metadata.get("image/png", {}).get("alt", ""))
        if is_interactive:
            return str(data["text/html"])
        if "text/html" in data:  # it may be wider than a telephone
            return f'<div class="wide" tabindex="0">{data["text/html"]}</div>'
        return preformatted(data.get("text/plain", ""))

    def picture(self, content: str, alt: str) -> str:
        """The picture as a file of its own: pages stay small, and browsers load it when it comes into view."""
        png = base64.b64decode(content)
        name = f"{self.stem}-{hashlib.sha256(png).hexdigest()[:12]}.png"
        self.pictures[name] = png
        width, height = (int.from_bytes(png[place : place + 4], "big") for place in (16, 20))
        size = f'width="{width}" height="{height}"'
        return f'<img alt="{html.escape(alt)}" src="{FIGURES}/{name}" {size} loading="lazy">'


def joined(outputs: list[NotebookNode]) -> Iterator[NotebookNode]:
    """The outputs, with what was printed in many pieces as one."""
    for kind, group in itertools.groupby(outputs, key=lambda output: output.output_type):
        if kind == "stream":
            yield NotebookNode(output_type=kind, text="".join(output.text for output in group))
        else:
            yield from group


def points(number: float) -> str:
    return f"{number:g} {'point' if number == 1 else 'points'}"


# --- pieces of MyST ---------------------------------------------------------------------------------------


def python(code: str) -> str:
    return f"{FENCE}python\n{code.strip(chr(10))}\n{FENCE}"


def raw(text: str) -> str:
    return f"{FENCE}{{raw}} html\n{text}\n{FENCE}"


def folded(summary: str, content: str, kind: str = "folded") -> str:
    """Something that opens at a click. The blank lines make markdown of the content."""
    return f'<details class="{kind}"><summary>{html.escape(summary)}</summary>\n\n{content}\n\n</details>'


def html_text(text: str) -> str:
    """Plain text with `code` in it, for readers: nothing else in it is markup."""
    escaped = html.escape(text, quote=False)
    return "<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped).replace("\n", "<br>") + "</p>"


def preformatted(text: str) -> str:
    """What a cell printed. What it wrote over (a progress bar) is left out."""
    lines = [line.rsplit("\r", 1)[-1] for line in ANSI.sub("", text).replace("\r\n", "\n").split("\n")]
    return f'<pre class="printed" tabindex="0">{html.escape(chr(10).join(lines).rstrip())}</pre>'


def with_book_links(text: str) -> str:
    """Links to notebooks as links to pages. JupyterLab's names for headings are the book's, too."""

    return NOTEBOOK_LINK.sub(lambda link: f"](<{page_address(link[1], link[2] or '')}>{link[3]})", text)


def page_address(stem: str, anchor: str) -> str:
    """The page of a notebook, at a heading. Formulas are not part of the names of headings here."""
    return f"{stem}.md#{FORMULA.sub('', unquote(anchor))}" if anchor else f"{stem}.md"


def with_section_links(text: str, stem: str, cell_id: str) -> str:
    """Below each heading of a section: the links that open the notebook there."""
    lines, is_code = [], False
    for line in text.split("\n"):
        is_code ^= line.startswith("```")
        lines.append(line)
        if line.startswith("## ") and not is_code:
            lines += ["", open_links(stem, cell_id, "Open this section"), ""]
    return "\n".join(lines)


def open_links(stem: str, cell_id: str, words: str) -> str:
    colab = re.search(r"\((.+)\)", badge_markdown(notebook=f"{stem}.ipynb", **course_settings()))
    assert colab is not None
    return (
        f'<p class="open-here">{words}: <a href="{colab[1]}#scrollTo={cell_id}">in Colab</a> · '
        f'<a href="{LAB}/{stem}.ipynb#cell-id={cell_id}" target="jupyterlab">in your JupyterLab</a></p>'
    )


def stub(cell: NotebookNode) -> str:
    """The cell as students get it: nbgrader's own step takes the solution out."""
    notebook_cell, _ = ClearSolutions().preprocess_cell(cell.copy(), {"language": "python"}, 0)
    return str(notebook_cell.source)


def without_marks(source: str) -> str:
    return MARKS.sub("", source)
