"""Feedback pages: nbgrader's own, one file each, to be read without a network.

autograded/ada/02_masks/02_masks.ipynb -> feedback/ada/02_masks/02_masks.html

`FeedbackExporter` is nbgrader's HTML export with a template of this course (templates/course_feedback/). It is named in
nbgrader_config.py, so `nbgrader generate_feedback` and formgrader write the same pages as `write_feedback`.

- Formulas become MathML, which browsers show by themselves.
- Whatever a student wrote or printed is hostile until it is cleaned: only harmless elements, attributes and classes
  are left, pictures are part of the page, and the page's Content-Security-Policy forbids scripts and all requests.
- The text of hidden tests is left out, long outputs are shortened.
"""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbgrader
import nh3
from jinja2 import pass_context
from math_core import LatexError, LatexToMathML
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from pygments.token import STANDARD_TYPES
from traitlets.config import Config

from autograder.course import HERE, Course, CourseError

TEMPLATES = HERE / "templates"
NBGRADER_TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"

SHOWN_TYPES = ["text/html", "image/png", "image/jpeg", "text/markdown", "text/latex", "text/plain"]
MOST_OUTPUTS = 30  # of a cell
MOST_LINES = 200  # of an output
MOST_CHARACTERS = 20_000  # of a source, or of an output that is text
MOST_OF_A_REPORT = 100_000  # characters of HTML; the largest real ones have 80,000
MOST_OF_A_PICTURE = 3_000_000  # characters of base64
MOST_OF_A_FORMULA = 1_000  # characters: the converter is recursive and compiled, and would end the process

# --- formulas -------------------------------------------------------------------------------------------

to_mathml = LatexToMathML(macros={"substack": r"\begin{subarray}{c}#1\end{subarray}"}, fancy_error=False)
# A definition can make a formula of any depth out of a few characters.
DEFINITION = re.compile(r"#|\\(?:[egx]?def|(?:future)?let|(?:(?:re)?new|provide|Declare)[a-zA-Z]+)(?![a-zA-Z])")


def formula(latex: str, *, display: bool) -> str:
    """MathML of a formula, or its LaTeX as it stands if it is none that can be shown."""
    if len(latex) <= MOST_OF_A_FORMULA and not DEFINITION.search(latex):
        try:
            return str(to_mathml.convert_with_local_state(latex, displaystyle=display))
        except LatexError:
            pass
    return f"<code>{html.escape(latex)}</code>"


class FormulaRenderer(IPythonRenderer):
    """Puts a numbered place in the page for each formula. The formulas are filled in when the rest has been cleaned."""

    # Nobody can guess it. A place is an element: in an attribute it would be escaped, and never filled.
    PLACE = f"formula-{secrets.token_hex(8)}"
    FOUND = re.compile(rf'<code class="{PLACE}">(\d+)</code>')

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.formulas: list[str] = []

    def place(self, latex: str, *, display: bool) -> str:
        self.formulas.append(formula(latex, display=display))
        return f'<code class="{self.PLACE}">{len(self.formulas) - 1}</code>'

    def block_math(self, body: str) -> str:
        return self.place(body, display=True)

    def inline_math(self, body: str) -> str:
        return self.place(body, display=False)

    def latex_environment(self, name: str, body: str) -> str:
        return self.place(rf"\begin{{{name}}}{body}\end{{{name}}}", display=True)

    def filled(self, page: str) -> str:
        return self.FOUND.sub(lambda found: self.formulas[int(found[1])], page)


# --- hostile text ---------------------------------------------------------------------------------------

# What the reports of checks use. Nothing here can lay one part of the page over another.
STYLES = {
    *("background", "border", "border-collapse", "border-left", "color", "font-size", "font-weight", "line-height"),
    *("margin", "margin-top", "padding", "padding-left", "text-align", "vertical-align"),
}
STYLE_VALUE = re.compile(r"(?:(?:#[0-9a-fA-F]{3,8}|rgba?\([\d., ]+\)|[a-z]+|\d*\.?\d+(?:px|em|%)?)(?: +|$))+")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
PICTURE = re.compile(rf"data:image/(?:png|jpeg|gif);base64,{BASE64.pattern}")
LINK = re.compile(r"#|https?:|mailto:")


@lru_cache(maxsize=10_000)
def kept_attribute(tag: str, name: str, value: str) -> str | None:
    """The value of an attribute with what is harmless in it, or None. Links lead within the page or to a website."""
    if name == "style":
        pairs = [[part.strip() for part in rule.split(":", 1)] for rule in value.split(";") if ":" in rule]
        return ";".join(f"{key}:{what}" for key, what in pairs if key in STYLES and STYLE_VALUE.fullmatch(what)) or None
    if name == "src":
        return value if PICTURE.fullmatch(value) else None
    if name == "href":
        return value if LINK.match(value) else None
    return value


CLEANER = nh3.Cleaner(
    tags=nh3.ALLOWED_TAGS - {"area", "map"},
    attributes={
        "a": {"href", "title"},
        "details": {"open"},
        "img": {"src", "alt", "title"},
        "ol": {"start"},
        **{tag: {"style"} for tag in ("div", "span", "table", "tr")},
        **{tag: {"style", "align", "colspan", "rowspan"} for tag in ("td", "th")},
    },
    allowed_classes={
        "code": {FormulaRenderer.PLACE},
        "div": {"course-report", "highlight"},
        "span": set(STANDARD_TYPES.values()) - {""},
    },
    attribute_filter=kept_attribute,
    url_schemes={"http", "https", "mailto", "data"},
)


def cleaned(page: str) -> str:
    """HTML in which nothing runs, loads or covers something else."""
    return str(CLEANER.clean(page))


def cleaned_markdown(source: str, attachments: dict[str, Any]) -> str:
    renderer = FormulaRenderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return renderer.filled(cleaned(MarkdownWithMath(renderer=renderer).render(source)))


# A class has most of its cells in common.
common_markdown = lru_cache(maxsize=2_000)(lambda source: cleaned_markdown(source, {}))
highlighted = lru_cache(maxsize=2_000)(Highlight2HTML(pygments_lexer="ipython3"))


# --- what is left out -----------------------------------------------------------------------------------

HIDDEN_TESTS = re.compile(r"(?ms)^[^\n]*BEGIN HIDDEN TESTS.*?(?:END HIDDEN TESTS[^\n]*(?:\n|\Z)|\Z)")


GRADE_ID = re.compile(r"[\w-]+", re.ASCII)  # nbgrader's own rule


def tidy(cell: NotebookNode) -> None:
    """Leave out hidden tests and whatever is too long. Metadata that would shape the page goes too."""
    test = is_test(cell)
    if test:
        cell.source = HIDDEN_TESTS.sub("", cell.source).rstrip()
    cell.source = shortened(cell.source)
    cell.metadata = NotebookNode(kept_metadata(cell.metadata))
    if cell.cell_type != "code":
        return
    if len(cell.outputs) > MOST_OUTPUTS:
        note = f"… and {len(cell.outputs) - MOST_OUTPUTS} more outputs"
        cell.outputs = [*cell.outputs[:MOST_OUTPUTS], NotebookNode(output_type="stream", name="stdout", text=note)]
    for output in cell.outputs:
        if output.output_type == "stream":
            output.text = shortened(output.text)
        elif output.output_type == "error":
            last_line = f"{output.ename}: {output.evalue}"
            # The traceback of a test shows the lines of the test.
            output.traceback = [shortened(last_line if test else "\n".join(output.traceback) or last_line)]
        else:
            output.metadata = NotebookNode()
            output.data = NotebookNode(shown_data(output.data))


def kept_metadata(metadata: NotebookNode) -> Iterator[tuple[str, Any]]:
    """What nbgrader knows of the cell, and whether it is folded in the notebook."""
    details = metadata.get("nbgrader")
    if details and GRADE_ID.fullmatch(details.get("grade_id", "")):
        yield "nbgrader", details
    if "jupyter" in metadata and not (details and details.get("solution")):
        yield "jupyter", metadata["jupyter"]


def is_test(cell: NotebookNode) -> bool:
    """Whether the machine grades this cell, and the student did not write it."""
    details = cell.metadata.get("nbgrader", {})
    return bool(details.get("grade") and not details.get("solution"))


def shown_data(data: NotebookNode) -> Iterator[tuple[str, str]]:
    """The one representation of an output that the page shows."""
    kind = next((kind for kind in SHOWN_TYPES if isinstance(data.get(kind), str)), "")
    report = kind == "text/html" and len(data[kind]) <= MOST_OF_A_REPORT
    picture = kind.startswith("image/") and len(data[kind]) <= MOST_OF_A_PICTURE and BASE64.fullmatch(data[kind])
    if report or picture:
        yield kind, data[kind]
    elif kind in ("text/markdown", "text/latex", "text/plain"):
        yield kind, shortened(data[kind])
    else:
        yield "text/plain", "(an output that is not shown here)"


def shortened(text: str) -> str:
    """The beginning of a long text, with a note on what is missing."""
    lines = text[:MOST_CHARACTERS].split("\n", MOST_LINES)
    kept = "\n".join(lines[:MOST_LINES])
    left_out = len(text) - len(kept)
    return text if left_out == 0 else f"{kept}\n… {left_out} more characters"


# --- the page -------------------------------------------------------------------------------------------


class FeedbackExporter(HTMLExporter):
    """nbconvert's HTML export with the template of this course, and with filters that trust nobody."""

    @property
    def default_config(self) -> Config:
        config = super().default_config.copy()
        # In sections of their own names: nbgrader sets those of HTMLExporter.
        config.FeedbackExporter.template_name = "course_feedback"
        config.FeedbackExporter.filters = {}
        config.FeedbackExporter.extra_template_basedirs = [str(TEMPLATES), str(NBGRADER_TEMPLATES)]
        config.FeedbackExporter.extra_template_paths = [str(NBGRADER_TEMPLATES)]
        config.FeedbackExporter.optimistic_validation = True
        config.NbConvertBase.display_data_priority = SHOWN_TYPES
        config.CSSHTMLHeaderPreprocessor.style = "default"
        return config

    def default_filters(self) -> Iterator[tuple[str, Any]]:
        yield from super().default_filters()
        yield "cleaned", cleaned
        yield "highlight_code", lambda source, metadata=None: highlighted(source)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        attachments = context.get("cell", {}).get("attachments", {})
        return cleaned_markdown(source, attachments) if attachments else common_markdown(source)

    def from_notebook_node(  # type: ignore[override]
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **options: Any
    ) -> tuple[str, dict[str, Any]]:
        for cell in nb.cells:
            tidy(cell)
        # HTMLExporter would parse the finished page once more, for what this template has no need of.
        return super(HTMLExporter, self).from_notebook_node(nb, resources, **options)


def write_feedback(
    course: Course,
    assignment: str,
    students: Sequence[str] | None = None,
    progress: Callable[[str], None] = lambda student: None,
) -> list[Path]:
    """Write the pages of these students, or of everybody who has been graded. `progress` hears of each page."""
    converter = feedback_converter(course)
    chosen = graded_students(course, assignment) if students is None else students
    if not chosen:
        raise CourseError(f"Nobody has been graded in {assignment} yet. First: python -m autograder grade {assignment}")
    written, failed = [], []
    for student in chosen:
        try:
            written.append(write_page(converter, course, assignment, student))
        except (OSError, ValueError, MissingEntry) as error:
            failed.append(f"{student}: {error}")
        progress(student)
    if failed:
        raise CourseError("\n".join([f"Feedback pages written: {len(written)}. These were not:", *failed]))
    return written


def graded_students(course: Course, assignment: str) -> list[str]:
    return sorted(path.parent.parent.name for path in course.root.glob(f"autograded/*/{assignment}/{assignment}.ipynb"))


def feedback_converter(course: Course) -> GenerateFeedback:
    """nbgrader's converter, with one exporter for all pages."""
    config = course.config()
    converter = GenerateFeedback(coursedir=CourseDirectory(config=config), config=config)
    converter.exporter = converter.exporter_class(parent=converter, config=converter.config)
    for preprocessor in converter.preprocessors:
        converter.exporter.register_preprocessor(preprocessor)
    return converter


def write_page(converter: GenerateFeedback, course: Course, assignment: str, student: str) -> Path:
    notebook = course.autograded(assignment, student)
    resources = converter.init_single_notebook_resources(str(notebook))
    page, _ = converter.exporter.from_filename(str(notebook), resources=resources)
    target = course.feedback(assignment, student)
    course.ledger.write(target, page)
    timestamp = notebook.parent / "timestamp.txt"  # by it nbgrader sees that a page is older than a submission
    if timestamp.exists():
        course.ledger.write(target.parent / timestamp.name, timestamp.read_bytes())
    return target
