"""Feedback pages: nbgrader's own, one file each, to be read without a network.

autograded/ada/02_masks/02_masks.ipynb -> feedback/ada/02_masks/02_masks.html

`FeedbackExporter` is nbgrader's HTML export with a template of this course (templates/course_feedback/). It is named in
nbgrader_config.py, so `nbgrader generate_feedback` and formgrader write the same pages as `write_feedback`.

- Formulas become MathML, which browsers show by themselves.
- Whatever a student wrote or printed is hostile until it is cleaned: only harmless elements, attributes and classes
  are left, and the page's Content-Security-Policy forbids scripts and all requests.
- Pictures are part of the page, those that were pasted into a written answer too.
- A page begins with the student's name, the score and a list of mistakes. Then come the answers with what the checks
  say, under the headings of their sections. The course's own text and demonstrations are left out: most are not run
  when a submission is graded, and the text speaks of their outputs.
- The text of hidden tests is left out, long outputs are shortened.
"""

from __future__ import annotations

import functools
import html
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbgrader
import nh3
from jinja2 import pass_context
from math_core import LatexError, LatexToMathML
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES
from traitlets.config import Config

from autograder.classroom.book import came_by_exchange, complete_for_exchange, copy_along
from autograder.classroom.course import SECRET, STAMP, Course, CourseError
from autograder.judging.rebuild import as_dict, as_text, pictures, printable
from autograder.judging.verdict import NOT_RUN, ExerciseVerdict, Verdict, read_verdict
from autograder.reporting.gradebook import awaiting_cells, names_in
from autograder.walls.warm import processors
from autograder.working_copy import cell_id

TEMPLATES = Path(__file__).resolve().parent / "templates"
NBGRADER_TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"

# A picture comes first: its HTML says no more, and may be too long to be cleaned.
SHOWN_TYPES = ["image/png", "image/jpeg", "text/html", "text/markdown", "text/latex", "text/plain"]
ENOUGH_FOR_TWO = 8  # pages that are worth a second process
MOST_OUTPUTS = 30  # of a cell
MOST_LINES = 200  # of an output
MOST_CHARACTERS = 20_000  # of a source, or of an output that is text
MOST_OF_MARKDOWN = 25_000  # characters beside pictures: the time for some texts grows with the square of their length
WIDEST_CODE, LONGEST_GAP = 1_000, 150  # characters of a line, and of white space: so does the time for their colours
MOST_OF_OPEN_CELLS = 250_000  # characters of all cells that nbgrader does not know; those of the course have 60,000
MOST_OF_A_REPORT = 100_000  # characters of HTML; the largest real ones have 80,000
MOST_OF_A_PICTURE = 3_000_000  # characters of base64
MOST_OF_A_PASTED_PICTURE = 15_000_000  # a photograph of a sheet of paper may be an answer
MOST_OF_AN_ALT = 1_000  # characters
MOST_OF_A_FORMULA = 1_000  # characters: the converter is recursive and compiled, and would end the process

# --- formulas -------------------------------------------------------------------------------------------

to_mathml = LatexToMathML(macros={"substack": r"\begin{subarray}{c}#1\end{subarray}"}, fancy_error=False)
# A definition can make a formula of any depth out of a few characters.
DEFINITION = re.compile(r"#|\\(?:[egx]?def|(?:future)?let|(?:(?:re)?new|provide|Declare)[a-zA-Z]+)(?![a-zA-Z])")


def formula(latex: str, *, display: bool) -> str:
    """MathML of a formula, or its LaTeX unchanged if it cannot be converted."""
    if len(latex) <= MOST_OF_A_FORMULA and not DEFINITION.search(latex):
        try:
            return str(to_mathml.convert_with_local_state(latex, displaystyle=display))
        except LatexError:
            pass
    return f"<code>{html.escape(latex)}</code>"


class FormulaRenderer(IPythonRenderer):
    """Puts a numbered place in the page for each formula and for each picture that was pasted.

    They are filled in when the rest has been cleaned.
    """

    # Nobody can guess it. A place is an element: in an attribute it would be escaped, and never filled.
    PLACE = f"formula-{secrets.token_hex(8)}"
    FOUND = re.compile(rf'<code class="{PLACE}">(\d+)</code>')
    PASTED = "attachment:"
    PASTED_IN_HTML = re.compile(r"""<img\b[^<>]*\ssrc\s*=\s*["']?(attachment:[^"'<>]+)[^<>]*>""", re.IGNORECASE)

    def __init__(self, attachments: Any = None):
        super().__init__(escape=False, exclude_anchor_links=True)
        self.pictures = pictures(attachments)
        self.elements: list[str] = []

    def put(self, element: str) -> str:
        self.elements.append(element)
        return f'<code class="{self.PLACE}">{len(self.elements) - 1}</code>'

    def place(self, latex: str, *, display: bool) -> str:
        return self.put(formula(latex, display=display))

    def block_math(self, body: str) -> str:
        return self.place(body, display=True)

    def inline_math(self, body: str) -> str:
        return self.place(body, display=False)

    def latex_environment(self, name: str, body: str) -> str:
        return self.place(rf"\begin{{{name}}}{body}\end{{{name}}}", display=True)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return self.put(self.picture(url, text)) if url.startswith(self.PASTED) else super().image(text, url, title)

    def block_html(self, html: str) -> str:
        return super().block_html(self.with_pictures(html))

    def inline_html(self, html: str) -> str:
        return super().inline_html(self.with_pictures(html))

    def with_pictures(self, text: str) -> str:
        return self.PASTED_IN_HTML.sub(lambda found: self.put(self.picture(found[1], "")), text)

    def picture(self, address: str, description: str) -> str:
        """A picture that was pasted into the cell, or a note that it is missing."""
        name = address.removeprefix(self.PASTED)
        bundle = self.pictures.get(name) or self.pictures.get(unquote(name))
        if not bundle:
            return f"<em>(The picture {html.escape(name)} is not in the notebook.)</em>"
        [(kind, data)] = bundle.items()
        if len(data) > MOST_OF_A_PASTED_PICTURE:
            return f"<em>(The picture {html.escape(name)} is too large to be shown here.)</em>"
        words = html.escape(html.unescape(re.sub(r"<[^>]*>", "", description)) or "a picture")
        return f'<img alt="{words}" src="data:{kind};base64,{"".join(data.split())}">'

    def filled(self, page: str) -> str:
        return self.FOUND.sub(lambda found: self.elements[int(found[1])], page)


# --- hostile text ---------------------------------------------------------------------------------------

# What the reports of checks use. Nothing here can lay one part of the page over another.
STYLES = {
    *("background", "border", "border-collapse", "border-left", "color", "font-size", "font-weight", "line-height"),
    *("margin", "margin-top", "padding", "padding-left", "text-align", "vertical-align"),
}
MIXED = r"color-mix\(in srgb, #[0-9a-fA-F]{6} \d+%, currentColor\)"
STYLE_VALUE = re.compile(
    rf"(?:(?:#[0-9a-fA-F]{{3,8}}|rgba?\([\d., ]+\)|{MIXED}|[a-z]+|(?:\d++(?:\.\d++)?|\.\d++)(?:px|em|%)?)(?: +|$))+"
)
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
PICTURE = re.compile(rf"data:image/(?:png|jpeg|gif);base64,{BASE64.pattern}")
PICTURE_IN_TEXT = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/]{99,}=*")
LONG_GAP = re.compile(rf"\s{{{LONGEST_GAP}}}")
LINK = re.compile(r"#|https?:|mailto:")
WITHOUT_ALT = re.compile(r"<img\b(?![^>]* alt=)")


@lru_cache(maxsize=10_000)
def kept_attribute(tag: str, name: str, value: str) -> str | None:
    """The harmless part of an attribute's value, or None. Links lead within the page or to a website."""
    if name == "style":
        pairs = [[part.strip() for part in rule.split(":", 1)] for rule in value.split(";") if ":" in rule]
        return ";".join(f"{key}:{what}" for key, what in pairs if key in STYLES and STYLE_VALUE.fullmatch(what)) or None
    if name == "src":
        return value if PICTURE.fullmatch(value) else None
    if name == "href":
        return value if LINK.match(value) else None
    if name == "role":
        return value if value == "img" else None
    return value


CLEANER = nh3.Cleaner(
    tags=nh3.ALLOWED_TAGS - {"area", "map"},
    attributes={
        "a": {"href", "title"},
        "details": {"open"},
        "img": {"src", "alt", "title"},
        "ol": {"start"},
        **{tag: {"style"} for tag in ("div", "table", "tr")},
        "span": {"style", "role", "aria-label"},
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
    """HTML in which nothing runs, loads or covers something else, and every picture has an alt text."""
    return WITHOUT_ALT.sub('<img alt="a picture"', str(CLEANER.clean(page)))


def cleaned_markdown(source: str, attachments: Any) -> str:
    """The HTML of a text, or the text as it is if no HTML can be made of it."""
    renderer = FormulaRenderer(attachments)
    try:
        if len(without_pictures(source)) > MOST_OF_MARKDOWN:
            raise ValueError
        return renderer.filled(cleaned(MarkdownWithMath(renderer=renderer).render(source)))
    except (ValueError, TypeError, LookupError, RecursionError):  # deeply nested quotations
        return f"<pre>{html.escape(sound(source))}</pre>"


def without_pictures(source: str) -> str:
    """A text without the pictures that Colab puts into it."""
    return PICTURE_IN_TEXT.sub("", source)


@lru_cache(maxsize=2_000)
def highlighted(source: str) -> str:
    """Code in colours, if that does not take too long."""
    if LONG_GAP.search(source) or any(len(line) > WIDEST_CODE for line in source.splitlines()):
        return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
    return str(in_colours(source))


# A class has most of its cells in common.
markdown_without_pictures = lru_cache(maxsize=2_000)(lambda source: cleaned_markdown(source, {}))
in_colours = Highlight2HTML(pygments_lexer="ipython3")
dark_code = lru_cache(lambda: HtmlFormatter(style="github-dark").get_style_defs(".highlight"))


@pass_context
def common_markdown(context: Any, source: str) -> str:
    """The filter for texts in a feedback page and, by nbgrader_config.py, in formgrader's."""
    attachments = context.get("cell", {}).get("attachments")
    return cleaned_markdown(source, attachments) if attachments else markdown_without_pictures(source)


def sound(value: Any) -> Any:
    """The same without halves of characters (lone surrogates), which no file can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [sound(each) for each in value]
    if isinstance(value, dict):
        return NotebookNode({sound(key): sound(each) for key, each in value.items()})
    return value


# --- what is left out -----------------------------------------------------------------------------------

HIDDEN_TESTS = re.compile(r"(?ms)^[^\n]*BEGIN HIDDEN TESTS.*?(?:END HIDDEN TESTS[^\n]*(?:\n|\Z)|\Z)")


NOT_SHOWN = "(an output that is not shown here)"
GRADE_ID = re.compile(r"[\w-]+", re.ASCII)  # nbgrader's own rule


def tidy(cell: NotebookNode) -> None:
    """Leave out hidden tests and whatever is too long. Metadata that would shape the page goes too."""
    details = as_dict(as_dict(cell.get("metadata")).get("nbgrader"))
    is_test = bool(details.get("grade") and not details.get("solution"))  # nothing in it is the student's
    cell.cell_type = cell.get("cell_type") if cell.get("cell_type") in ("code", "markdown") else "raw"
    cell.source = as_text(cell.get("source"))
    if is_test:
        cell.source = HIDDEN_TESTS.sub("", cell.source).rstrip()
    is_text = cell.cell_type == "markdown"
    if not is_text or shortened(without_pictures(cell.source)) != without_pictures(cell.source):
        cell.source = shortened(cell.source)
    cell.metadata = NotebookNode(kept_metadata(as_dict(cell.get("metadata")), details))
    if cell.cell_type != "code":
        return
    outputs = cell.get("outputs")
    outputs = outputs if isinstance(outputs, list) else []
    cell.outputs = [shown_output(as_dict(output), is_test) for output in outputs[:MOST_OUTPUTS]]
    if len(outputs) > MOST_OUTPUTS:
        cell.outputs.append(remark(f"… and {len(outputs) - MOST_OUTPUTS} more outputs"))


def within_measure(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """The cells without those of the student's own that would make the page too long to open."""
    kept, room, left_out = [], MOST_OF_OPEN_CELLS, 0
    for cell in cells:
        if "nbgrader" not in cell.metadata:
            room -= len(cell.source) + sum(map(length_of_text, cell.get("outputs", [])))
            if room < 0:
                left_out += 1
                continue
        kept.append(cell)
    if left_out:
        text = f"*{left_out} more cells that you added are not shown here. Your notebook still has them.*"
        kept.append(new_markdown_cell(text))
    return kept


def length_of_text(output: NotebookNode) -> int:
    """How much there is to read in an output. A picture is not text."""
    texts = [output.get("text", ""), *output.get("traceback", [])]
    texts += [content for kind, content in output.get("data", {}).items() if kind.startswith("text/")]
    return sum(map(len, texts))


def kept_metadata(metadata: dict[str, Any], details: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What nbgrader knows of the cell, and whether it is folded in the notebook."""
    if GRADE_ID.fullmatch(as_text(details.get("grade_id"))):
        yield "nbgrader", details
    if "jupyter" in metadata and not details.get("solution"):
        yield "jupyter", NotebookNode(as_dict(metadata["jupyter"]))


def shown_output(output: dict[str, Any], is_test: bool) -> NotebookNode:
    """An output reduced to what the page shows of it."""
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return NotebookNode(output_type="stream", name=name, text=shortened(as_text(output.get("text"))))
    if kind == "error":
        name, value = (as_text(output.get(key)) for key in ("ename", "evalue"))
        traceback = output.get("traceback")
        lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, list) else []
        # The traceback of a test shows the lines of the test.
        text = shortened("\n".join([] if is_test else lines) or f"{name}: {value}")
        return NotebookNode(output_type="error", ename=name, evalue=value, traceback=[text])
    if kind not in ("display_data", "execute_result"):
        return remark(NOT_SHOWN)
    data = NotebookNode(shown_data(as_dict(output.get("data"))))
    count = {"execution_count": None} if kind == "execute_result" else {}
    described = as_dict(as_dict(output.get("metadata")).get("image/png"))
    metadata = NotebookNode(alt=as_text(described.get("alt"))[:MOST_OF_AN_ALT])
    return NotebookNode(output_type=kind, metadata=metadata, data=data, **count)


def remark(text: str) -> NotebookNode:
    return NotebookNode(output_type="stream", name="stdout", text=text)


def shown_data(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The one representation of an output that the page shows."""
    kind = next((kind for kind in SHOWN_TYPES if isinstance(data.get(kind), str)), "")
    report = kind == "text/html" and len(data[kind]) <= MOST_OF_A_REPORT
    picture = kind.startswith("image/") and len(data[kind]) <= MOST_OF_A_PICTURE and BASE64.fullmatch(data[kind])
    if report or picture:
        yield kind, data[kind]
    elif kind in ("text/markdown", "text/latex", "text/plain"):
        yield kind, shortened(data[kind])
    else:
        yield "text/plain", NOT_SHOWN


def shortened(text: str) -> str:
    """The beginning of a long text, with a note on what is missing."""
    lines = text[:MOST_CHARACTERS].split("\n", MOST_LINES)
    kept = "\n".join(lines[:MOST_LINES])
    left_out = len(text) - len(kept)
    return text if left_out == 0 else f"{kept}\n… {left_out} more characters"


# --- what stands above the answers ----------------------------------------------------------------------


@dataclass(frozen=True)
class Mistake:
    """An exercise in which points were lost, what to say about it, and where it is on the page."""

    exercise: str
    sentence: str
    anchor: str


@dataclass(frozen=True)
class Page:
    """What a page says above the notebook."""

    title: str
    name: str = ""  # of the student
    mistakes: tuple[Mistake, ...] = ()
    awaiting: frozenset[str] = frozenset()  # grade ids without a score, before a person has looked at them
    is_reading: bool = False  # the notebook as it was released, of no student's
    not_run: str = ""  # why what was handed in could not be run: then the notebook below is the released one


@dataclass
class Book:
    """What the pages of an assignment need from the gradebook, asked for once."""

    names: dict[str, str] = field(default_factory=dict)
    awaiting: dict[str, set[str]] = field(default_factory=dict)  # student -> grade ids


def book_of(db_url: str, assignment: str) -> Book:
    with Gradebook(db_url) as gradebook:
        return Book(names_in(gradebook), awaiting_cells(gradebook, assignment))


def verdict_beside(notebook_folder: str, assignment: str, student: str) -> Verdict | None:
    """The verdict that lies in the same course; None if there is none, as after nbgrader's own grading."""
    folder = Path(notebook_folder).resolve()
    if len(folder.parents) < 3:
        return None
    path = folder.parents[2] / "verdicts" / assignment / f"{student}.json"  # from autograded/STUDENT/ASSIGNMENT
    try:
        return read_verdict(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def mistakes_in(verdict: Verdict) -> tuple[Mistake, ...]:
    answers = verdict.exercises
    return tuple(mistake(a) for a in answers if a.points + a.hidden_points < a.max_points + a.hidden_max_points)


def mistake(answer: ExerciseVerdict) -> Mistake:
    if answer.outcome == "not attempted":
        return Mistake(answer.name, "There is no answer here yet.", answer.name)
    if answer.outcome == "not run":
        return Mistake(answer.name, "It could not be run, so it has no points.", f"{answer.name}_check")
    if answer.points >= answer.max_points:
        named = f" {answer.sentence}" if answer.sentence else ""
        return Mistake(
            answer.name, f"Right on the cases that you saw, not on all hidden ones.{named}", f"{answer.name}_hidden"
        )
    sentence = answer.sentence or shortened_line(answer.message) or "Not all of its checks pass."
    return Mistake(answer.name, sentence, f"{answer.name}_check")


def shortened_line(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


# --- which cells are shown ------------------------------------------------------------------------------

QUESTION = re.compile(r"^\*\*(?:In your own words|Open-ended)\*\*.*", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{2,3} .+$", re.MULTILINE)


def is_the_courses_own(cell: NotebookNode) -> bool:
    """A cell that the student has neither added nor changed: its id is made from its text (`authoring.build`)."""
    return re.sub(r"-\d+$", "", as_text(cell.get("id"))) == cell_id(as_text(cell.get("source")))


def students_cells(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Answers, checks, and what the student added, each under the heading of its section or below its question."""
    kept: list[NotebookNode] = []
    heading = question = ""
    for cell in cells:
        details = as_dict(as_dict(cell.get("metadata")).get("nbgrader"))
        if not details and is_the_courses_own(cell):
            text = as_text(cell.get("source")) if cell.get("cell_type") == "markdown" else ""
            heading = (HEADING.findall(text) or [heading])[-1]
            asked = QUESTION.search(text)
            question = asked[0] if asked else question
            continue
        if details and not any(details.get(role) for role in ("grade", "solution", "task")):
            continue  # the set-up
        is_written = bool(details.get("grade")) and cell.get("cell_type") == "markdown"
        above = [part for part in (heading, question if is_written else "") if part]
        kept += [new_markdown_cell("\n\n".join(above))] if above else []
        heading, question = "", "" if is_written else question
        kept.append(cell)
    return kept


def without_note(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """The cells without the one that says why a submission could not be run."""
    return [cell for cell in cells if cell.get("id") != NOT_RUN]


def title_of(cells: Sequence[NotebookNode]) -> str:
    """The title of a notebook of the course, or nothing."""
    first = as_text(cells[0].get("source")) if cells and is_the_courses_own(cells[0]) else ""
    return next((line.removeprefix("# ") for line in first.splitlines() if line.startswith("# ")), "")


# --- the page -------------------------------------------------------------------------------------------


class FeedbackExporter(HTMLExporter):
    """nbconvert's HTML export with the template of this course, and with filters that trust nobody."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.books: dict[tuple[str, str], Book] = {}

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

    def _create_environment(self) -> Any:
        environment = super()._create_environment()
        environment.globals["dark_code"] = dark_code
        return environment

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return common_markdown(context, source)

    def from_notebook_node(  # type: ignore[override]
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **options: Any
    ) -> tuple[str, dict[str, Any]]:
        nb = sound(nb)
        resources = {} if resources is None else resources
        resources["page"] = page = self.page(nb, resources)
        if page.not_run:
            nb.cells = without_note(nb.cells)  # the page says the same above
        if not page.is_reading:
            nb.cells = students_cells(nb.cells)
        for cell in nb.cells:
            tidy(cell)
        nb.cells = within_measure(nb.cells)
        # HTMLExporter would parse the finished page once more, for what this template has no need of.
        return super(HTMLExporter, self).from_notebook_node(nb, resources, **options)

    def page(self, nb: NotebookNode, resources: dict[str, Any]) -> Page:
        title, known = title_of(without_note(nb.cells)), resources.get("nbgrader")
        if known is None:
            return Page(title, is_reading=True)
        student, assignment = known["student"], known["assignment"]
        key = known["db_url"], assignment
        book = self.books.setdefault(key, self.books.get(key) or book_of(*key))
        verdict = verdict_beside(resources.get("metadata", {}).get("path", ""), assignment, student)
        is_run = verdict is None or verdict.status == "graded"
        return Page(
            title=title or known["notebook"],
            name=book.names.get(student, student),
            mistakes=mistakes_in(verdict) if verdict and is_run else (),
            not_run="" if verdict is None or is_run else verdict.reason,
            awaiting=frozenset(book.awaiting.get(student, ())),
        )


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
        raise CourseError(
            f"Nobody has been graded in {assignment} yet. First run: {course.command('grade', assignment)}"
        )
    written, failed = [], []
    by_exchange = came_by_exchange(course, assignment)
    for student, page, why in rendered(converter, course, assignment, chosen):
        try:
            if page is not None:
                written.append(write_page(page, course, assignment, student))
                if by_exchange:
                    complete_for_exchange(course, course.feedback(assignment, student).parent)
        except OSError as error:
            why = reason_of(error)
        failed += [f"{student}: {why}"] if why else []
        progress(student)
    if failed:
        heading = f"{assignment}: feedback pages written: {len(written)}. These were not:"
        raise CourseError("\n".join([heading, *failed]))
    return written


def write_reading(course: Course, assignment: str) -> Path:
    """Write the text of a released notebook as a page to link to, reading/02_masks.html in the course's folder."""
    config = course.config()
    page, _ = FeedbackExporter(config=config).from_filename(str(course.release(assignment)))
    target = course.root / "reading" / f"{assignment}.html"
    course.ledger.write(target, page)
    return target


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


Rendered = tuple[str, str | None, str]  # student, page, or why there is none


def rendered(
    converter: GenerateFeedback, course: Course, assignment: str, students: Sequence[str]
) -> Iterator[Rendered]:
    """The pages, in the order of the students. Many are made by as many processes as there are processors."""
    render = functools.partial(page_or_reason, converter, course)
    if len(students) < ENOUGH_FOR_TWO or processors() == 1:
        yield from (render(assignment, student) for student in students)
        return
    # Here and once: the first to open a new gradebook writes in it, and two at a time would be in each other's way.
    key = str(converter.coursedir.db_url), assignment
    converter.exporter.books[key] = book_of(*key)
    todo = deque(students)
    FORKED[:] = [render]  # what a forked process inherits need not be sent to it
    with ProcessPoolExecutor(processors(), mp_context=get_context("fork")) as pool:
        try:
            for result in pool.map(render_in_child, [assignment] * len(students), students, chunksize=4):
                todo.popleft()
                yield result
        except BrokenProcessPool:  # a process has died of a page
            yield from (render(assignment, student) for student in todo)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


FORKED: list[Callable[[str, str], Rendered]] = []


def render_in_child(assignment: str, student: str) -> Rendered:
    return FORKED[0](assignment, student)


def page_or_reason(converter: GenerateFeedback, course: Course, assignment: str, student: str) -> Rendered:
    try:
        return student, page_of(converter, course, assignment, student), ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # also what compiled code panics with: one page must not cost the others
        return student, None, reason_of(error)


def reason_of(error: BaseException) -> str:
    return printable(str(error)[:300]) or type(error).__name__


def page_of(converter: GenerateFeedback, course: Course, assignment: str, student: str) -> str:
    notebook = course.autograded(assignment, student)
    resources = converter.init_single_notebook_resources(str(notebook))
    page, _ = converter.exporter.from_filename(str(notebook), resources=resources)
    return str(page)


def write_page(page: str, course: Course, assignment: str, student: str) -> Path:
    notebook = course.autograded(assignment, student)
    target = course.feedback(assignment, student)
    course.ledger.write(target, page)
    for name in (STAMP, SECRET):
        copy_along(course, notebook.parent / name, target.parent)
    return target
