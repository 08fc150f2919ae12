"""Feedback pages: formulas without a network, reports as the judge wrote them, and nothing of a student's that runs."""

import re
from pathlib import Path

import nbformat
import pytest
import torch
from course import Course as ScratchCourse
from lab import browser_page, find_chromium
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook

from autograder import build
from autograder.course import Course, CourseError
from autograder.feedback import FormulaRenderer, cleaned, cleaned_markdown, formula, shortened, tidy, write_feedback
from course_lib.checking.difference import Difference
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

pytestmark = pytest.mark.xdist_group("feedback")  # one process makes the course

STEM = "02_masks"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HOSTILE = """Text, $a < b$ and <b>bold</b>.

<script>document.title = 'run'</script>
<img src="x" onerror="document.title = 'run'">
<img src="https://example.org/spy.png">
<iframe src="https://example.org"></iframe>
<a href="javascript:document.title = 'run'">link</a>
<svg onload="document.title = 'run'"><script>document.title = 'run'</script></svg>
<math><mtext><style><img src=x onerror="document.title = 'run'"></style></mtext></math>
<div style="position:fixed;top:0;left:0;background:url(https://example.org/x.png)">over everything</div>
<form action="https://example.org"><button>send</button></form>
<meta http-equiv="refresh" content="0;url=https://example.org">
<base href="https://example.org">

[link](javascript:alert(1)) [link](data:text/html,x) ![spy](https://example.org/spy.png) <img src=x onerror=alert(1)>
![$\\text{" onerror="document.title = 'run'}$](data:image/png;base64,DOT)
""".replace("DOT", DOT)


def course_report(name: str, wrong: int = 0) -> NotebookNode:
    """The output of a check, as the judge writes it, of one of the exercise's misconceptions."""
    exercise = all_exercises()[name]
    report = grade(exercise, Subject(exercise.misconceptions[wrong]), exercise.cases)
    data = {"text/html": report.as_html(), "text/plain": f"{report.points:g}"}
    return new_output("execute_result", data, execution_count=1)


def autograded() -> NotebookNode:
    """A small notebook as the grader leaves it: one exercise, a written answer, everything a student could put in."""
    hidden = (
        "# The grader runs more cases.\n### BEGIN HIDDEN TESTS\n"
        'check_hidden("causal_mask", causal_mask)\n### END HIDDEN TESTS'
    )
    outputs = [
        new_output("stream", text="<script>document.title = 'run'</script>\n" + "line\n" * 5000),
        new_output("display_data", {"text/html": HOSTILE, "text/plain": "x"}),
        new_output("display_data", {"application/javascript": "document.title = 'run'", "text/plain": "plain <b>"}),
        new_output("display_data", {"image/svg+xml": "<svg onload=\"document.title = 'run'\"/>"}),
        new_output("display_data", {"text/markdown": HOSTILE}),
        new_output("display_data", {"text/latex": r"$\frac{1}{2}$"}),
        new_output("display_data", {"image/png": '"><script>document.title = 1</script>'}),
        new_output("display_data", {"image/png": DOT}, metadata={"width": "1 onerror=alert(1)"}),
        new_output("error", ename="<script>E", evalue="<img src=x>", traceback=["\x1b[31m<script>1</script>\x1b[0m"]),
    ]
    test_error = new_output(
        "error", ename="NameError", evalue="causal_mask", traceback=["the lines of the hidden test"]
    )
    cells = [
        new_markdown_cell("# Masks\n\n$$\\text{softmax}\\left(\\frac{Q K^\\top}{\\sqrt{d_k}}\\right) V$$"),
        build.marked(
            new_code_cell("def causal_mask(n):\n    print('<b>')", outputs=outputs), "causal_mask", solution=True
        ),
        build.marked(
            new_code_cell('check("causal_mask", causal_mask)', outputs=[course_report("causal_mask")]),
            "causal_mask_check",
            grade=True,
            locked=True,
            points=4.0,
        ),
        build.marked(
            new_code_cell(hidden, outputs=[test_error]), "causal_mask_hidden", grade=True, locked=True, points=1.0
        ),
        build.marked(new_markdown_cell(HOSTILE), "why_the_diagonal", solution=True, grade=True, points=2.0),
    ]
    return new_notebook(cells=cells)


def graded_course(root: Path, notebook: NotebookNode, students: list[str]) -> Course:
    """A course folder in which this notebook of each student has been graded."""
    build.put_own_commands_on_path()
    course = Course(root)
    with course.gradebook() as gradebook:
        gradebook.add_assignment(STEM)
        gradebook.add_notebook(STEM, STEM)
        for details in (cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata):
            if details.grade:
                max_score, kind = details.points, details.cell_type
                gradebook.add_grade_cell(details.grade_id, STEM, STEM, max_score=max_score, cell_type=kind)
            if details.solution:
                gradebook.add_solution_cell(details.grade_id, STEM, STEM)
        for student in students:
            gradebook.add_student(student)
            gradebook.add_submission(STEM, student)
            give_scores(gradebook, student)
            path = course.autograded(STEM, student)
            path.parent.mkdir(parents=True)
            nbformat.write(notebook, path)
    return course


def give_scores(gradebook: Gradebook, student: str) -> None:
    submission = gradebook.find_submission_notebook(STEM, STEM, student)
    for grade_entry in submission.grades:
        grade_entry.auto_score = 2.5 if grade_entry.name == "causal_mask_check" else 0
        grade_entry.manual_score = 1 if grade_entry.name == "why_the_diagonal" else None
    for comment in submission.comments:
        if comment.name == "why_the_diagonal":
            comment.manual_comment = "Think of $e^{-\\infty}$ again. <script>document.title = 'run'</script>"
    gradebook.db.commit()


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return graded_course(tmp_path_factory.mktemp("course"), autograded(), ["ada", "ben"])


@pytest.fixture(scope="module")
def page(course: Course) -> str:
    heard: list[str] = []
    written = write_feedback(course, STEM, progress=heard.append)
    assert heard == ["ada", "ben"]
    assert written == [course.feedback(STEM, "ada"), course.feedback(STEM, "ben")]
    return written[0].read_text(encoding="utf-8")


# --- the page -------------------------------------------------------------------------------------------


def test_scores_and_comments_are_shown(page: str) -> None:
    contents = page[page.index('<table id="toc">') : page.index("</table>")]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", contents))
    assert "Score 3.5 of 7" in text
    assert "causal_mask 2.5 of 4" in text
    assert "causal_mask , hidden cases 0 of 1" in text
    assert "why the diagonal (written answer) 1 of 2 comment" in text
    assert "Think of <math><msup><mi>e</mi>" in page


def test_the_report_is_shown_as_it_was_written(page: str) -> None:
    report = course_report("causal_mask").data["text/html"]
    sentence = all_exercises()["causal_mask"].misconceptions[0].__doc__
    assert sentence and sentence.split(":")[0] in report
    assert report.replace("&emsp;", "\u2003").replace("&quot;", '"').replace("&#x27;", "'") in page


def test_hidden_tests_are_not_shown(page: str) -> None:
    assert "The grader runs more cases." in page
    assert "HIDDEN TESTS" not in page
    assert "check_hidden" not in page
    assert "the lines of the hidden test" not in page
    assert "NameError: causal_mask" in page


def test_long_outputs_are_shortened(page: str) -> None:
    assert page.count("line\n") < 250
    assert "more characters" in page


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    assert "default-src 'none'; img-src data:;" in page
    assert not re.search(r"<(script|link|iframe|object|embed|form|base|svg)\b", page)
    assert not re.search(r"<[^>]*\s(src|action|data|poster|srcset)=(?![\"']?data:image/)", page)
    assert not re.search(r"<[^>]*\son\w+=", re.sub(r'alt="[^"]*"', "", page))
    assert not re.search(r"url\(|@import", page)


def test_a_missing_or_broken_notebook_costs_only_its_own_page(tmp_path: Path) -> None:
    course = graded_course(tmp_path, autograded(), ["ada", "ben", "cem"])
    course.autograded(STEM, "ada").write_text("{", encoding="utf-8")
    course.autograded(STEM, "ben").unlink()
    with pytest.raises(CourseError, match=r"(?s)written: 1\..*ada: .*ben: "):
        write_feedback(course, STEM, ["ada", "ben", "cem"])
    assert course.feedback(STEM, "cem").exists()
    assert not course.feedback(STEM, "ada").exists()


def test_an_assignment_that_nobody_was_graded_in_is_an_error(course: Course) -> None:
    with pytest.raises(CourseError, match="grade"):
        write_feedback(course, "09_decoding")


def test_stock_nbgrader_writes_the_same_page(course: Course, page: str) -> None:
    target = course.feedback(STEM, "ada")
    target.unlink()
    ScratchCourse(course.root).nbgrader("generate_feedback", STEM, "--student", "ada", "--force")
    assert target.read_text(encoding="utf-8").strip() == page.strip()


# --- formulas -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", build.stems())
def test_every_formula_of_the_course_becomes_mathml(stem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[str] = []
    original = FormulaRenderer.place

    def place(self: FormulaRenderer, latex: str, *, display: bool) -> str:
        placed.append(formula(latex, display=display))
        return original(self, latex, display=display)

    monkeypatch.setattr(FormulaRenderer, "place", place)
    texts = [cell.source for cell in build.solution_notebook(stem).cells if cell.cell_type == "markdown"]
    shown = [cleaned_markdown(text, {}) for text in texts]
    assert placed
    assert [made for made in placed if not made.startswith("<math")] == []
    assert sum(page.count("<math") for page in shown) == len(placed)
    assert not any("formula-" in page for page in shown)


def test_environments_and_both_kinds_of_delimiters() -> None:
    page = cleaned_markdown("$a$\n\n$$b$$\n\n\\begin{align}\nc &= d \\\\\ne &= f\n\\end{align}", {})
    assert page.count("<math") == 3
    assert page.count('<math display="block"') == 2
    assert page.count("<mtr>") == 2


@pytest.mark.parametrize(
    "latex",
    [
        "{" * 100_000,
        r"\sqrt" * 50_000,
        r"\def\a#1{#1#1#1#1#1#1#1#1}\a{\a{\a{\a{\a{\a{x}}}}}}",
        r"\newcommand{\a}{\sqrt\sqrt\sqrt}\a\a\a x",
        r"\notacommand",
        r"\frac{",
    ],
)
def test_what_is_no_formula_is_shown_as_it_stands(latex: str) -> None:
    assert formula(latex, display=True).startswith("<code>")


@pytest.mark.parametrize("piece", ["{", r"\sqrt", "x^", r"\left(", "a_{", r"\text{$", r"\begin{matrix}"])
def test_deep_formulas_do_not_end_the_process(piece: str) -> None:
    assert formula((piece * 1000)[:1000], display=True)


def test_a_formula_cannot_leave_its_element() -> None:
    page = cleaned_markdown(r"$\text{</math><script>1</script>}$ and $<img src=x>$", {})
    assert "<script" not in page and "<img" not in page
    assert page.count("</math>") == 2


def test_the_place_of_a_formula_cannot_be_forged_in_an_attribute() -> None:
    page = cleaned_markdown('![$x$" onerror="1](data:image/png;base64,AAAA)', {})
    assert "<math" not in page


# --- hostile text ---------------------------------------------------------------------------------------


def test_reports_survive_cleaning_to_the_last_style() -> None:
    want, got = torch.arange(12.0).reshape(3, 4) - 5, torch.ones(3, 4)
    picture = Difference(got=got, want=want).as_html()
    assert picture.count("<td") > 36
    assert re.findall('style="([^"]*)"', cleaned(picture)) == re.findall('style="([^"]*)"', picture)


@pytest.mark.parametrize(
    "style",
    [
        "position:fixed",
        "margin:-100px",
        "background:url(https://example.org)",
        "background:url(data:image/png;base64,AAAA)",
        "color:expression(alert(1))",
        "display:none",
        "width:100000px",
    ],
)
def test_styles_that_could_hide_or_load_are_dropped(style: str) -> None:
    assert cleaned(f'<div style="{style}">x</div>') == "<div>x</div>"


def test_classes_of_the_page_cannot_be_borrowed() -> None:
    assert cleaned('<div class="panel-heading" id="toc">x</div>') == '<div class="">x</div>'


def test_links_lead_to_websites_or_nowhere() -> None:
    kept = cleaned(
        '<a href="https://example.org">x</a><a href="03_positions.ipynb">y</a><a href="data:text/html,x">z</a>'
    )
    assert re.findall('href="([^"]*)"', kept) == ["https://example.org"]


def test_pictures_are_part_of_the_page_or_not_shown() -> None:
    assert "src" not in cleaned(
        '<img src="https://example.org/a.png"><img src="a.png"><img src="data:image/svg+xml,<svg/>">'
    )
    assert 'src="data:image/png;base64,AAAA"' in cleaned('<img src="data:image/png;base64,AAAA">')


def test_shortening_keeps_short_texts_whole() -> None:
    assert shortened("a\nb\n") == "a\nb\n"
    assert shortened("a\n" * 1000).endswith("a\n… 1601 more characters")
    assert len(shortened("a" * 1_000_000)) < 21_000


def test_metadata_that_shapes_the_page_is_dropped() -> None:
    cell = new_code_cell("x", metadata={"tags": ["a"], "nbgrader": {"grade_id": '"><script>', "solution": True}})
    tidy(cell)
    assert cell.metadata == {}


# --- in a browser ---------------------------------------------------------------------------------------

CHROMIUM = find_chromium()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_in_a_browser(course: Course, page: str) -> None:
    """Formulas have the shape of formulas; nothing runs, nothing leaves, nothing is complained about."""
    assert CHROMIUM
    complaints: list[str] = []
    with browser_page(CHROMIUM) as (tab, elsewhere):
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.route("**/*", lambda route: route.fulfill(body=page, content_type="text/html; charset=utf-8"), times=1)
        tab.goto("http://127.0.0.1:9/")
        assert tab.title() == STEM
        assert complaints == []
        assert elsewhere == []
        heights = tab.eval_on_selector_all("mfrac", "all => all.map(f => f.getBoundingClientRect().height)")
        line = tab.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
        assert heights and max(heights) > 1.5 * line
        numerator, denominator = tab.eval_on_selector_all(
            "mfrac:first-of-type > *", "all => all.slice(0, 2).map(part => part.getBoundingClientRect().top)"
        )
        assert numerator < denominator
        assert tab.locator(".course-report").inner_text().startswith("causal_mask")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.click("#toc a >> nth=0")
        assert tab.evaluate("scrollY") > 0
