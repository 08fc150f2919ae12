"""Feedback pages: formulas without a network, reports as the judge wrote them, and nothing of a student's that runs."""

import html
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import classroom
import nbformat
import pytest
import torch
from course import Course as ScratchCourse
from lab import browser_page, contrast, find_chromium, wcag_problems
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.server_extensions.formgrader import handlers

from autograder.authoring import build
from autograder.classroom.course import Course, CourseError
from autograder.classroom.grade import stand_in
from autograder.cli import main
from autograder.judging.verdict import ExerciseVerdict, Verdict, write_verdict
from autograder.judging.work import unwritten
from autograder.reporting import feedback
from autograder.reporting.feedback import (
    QUESTION,
    FormulaRenderer,
    cleaned,
    cleaned_markdown,
    formula,
    shortened,
    tidy,
    write_feedback,
)
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
            gradebook.add_student(
                student, **({"first_name": "Ada", "last_name": "Lovelace"} if student == "ada" else {})
            )
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
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index("<main>") : page.index("</table>")]))
    assert "Ada Lovelace : 3.5 of 7 points." in text
    assert "Sum 3.5 of 7" in text
    assert "causal_mask 2.5 of 4" in text
    assert "causal_mask , hidden cases 0 of 1" in text
    assert "why the diagonal (written answer) 1 of 2 comment" in text
    assert "Think of <math><msup><mi>e</mi>" in page


@pytest.fixture(scope="module")
def whole_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a whole notebook: one mistake, one empty answer, a written answer without a mark, a cell added."""
    notebook = classroom.submission(STEM, {**classroom.solutions(STEM), "why_low_loss": "It sees the **answer**."})
    notebook.cells.insert(7, new_markdown_cell("A note of my own.", id="mine"))
    course = graded_course(tmp_path_factory.mktemp("whole"), notebook, ["ada"])
    with course.gradebook() as gradebook:
        gradebook.find_comment("window_mask", STEM, STEM, "ada").auto_comment = "No response."  # as nbgrader says it
        gradebook.find_comment("decoder_mask", STEM, STEM, "ada").manual_comment = "Nice."
        for entry in gradebook.find_submission_notebook(STEM, STEM, "ada").grades:
            is_code = entry.cell.cell_type == "code"
            entry.auto_score, entry.manual_score = entry.cell.max_score if is_code else None, None
            if entry.name == "causal_mask_check":
                entry.auto_score = 1.0
        gradebook.db.commit()
    answers = [
        ExerciseVerdict("padding_mask", "right", 4, 4, 1, 1),
        ExerciseVerdict("causal_mask", "wrong", 1, 4, 0, 1, "peeks_one_ahead", "Your triangle reaches too far.", "m"),
        ExerciseVerdict("decoder_mask", "right", 6, 6, 0, 1),
        ExerciseVerdict("cross_mask", "raised", 0, 4, 0, 1, None, None, "NameError: <b>x</b>\nline 2"),
        ExerciseVerdict("window_mask", "not attempted", 0, 4, 0, 1),
    ]
    write_verdict(course, Verdict("ada", STEM, "graded", "", tuple(answers)))
    (path,) = write_feedback(course, STEM)
    return path.read_text(encoding="utf-8")


def test_a_page_begins_with_name_score_and_mistakes(whole_page: str) -> None:
    head = whole_page[whole_page.index("<h1>") : whole_page.index("<h2>Points</h2>")]
    assert "<h1>2 · Masks: who may look at whom</h1>" in head
    assert "<b>Ada Lovelace</b>: 46 of 49 points so far. 2 more are not marked yet." in head
    assert re.findall(r'<a href="#(\w+)"><code>\w+</code></a>: (.*)</li>', head) == [
        ("causal_mask_check", "Your triangle reaches too far."),
        ("decoder_mask_hidden", "Right on the cases that you saw, not on all hidden ones."),
        ("cross_mask_check", "NameError: &lt;b&gt;x&lt;/b&gt; line 2"),
        ("window_mask", "There is no answer here yet."),
    ]
    for anchor in re.findall('href="#([^"]+)"', whole_page):
        assert whole_page.count(f'id="{anchor}"') == 1, anchor


def test_comments_of_a_person_are_listed_and_nbgraders_is_not(whole_page: str) -> None:
    points = whole_page[whole_page.index("<h2>Points</h2>") :]
    assert re.findall("comment on <code>(\\w+)</code>", points) == ["decoder_mask"]


def test_what_has_no_mark_is_not_called_0(whole_page: str) -> None:
    assert whole_page.count("not marked yet") == 3  # above, in the table, at the answer
    assert not re.search(r"\b0 of 2\b", whole_page)
    assert "Sum so far" in whole_page


def test_only_answers_checks_and_what_the_student_added_are_shown(whole_page: str) -> None:
    assert "A note of my own." in whole_page and "It sees the <strong>answer</strong>." in whole_page
    assert "A friend shows you a decoder" in whole_page, "the question above the written answer"
    assert "<h2>1 · Padding</h2>" in whole_page
    texts = [c.source for c in classroom.released(STEM).cells if c.cell_type == "markdown" and not c.metadata]
    shown = [line for text in texts for line in text.splitlines() if len(line) > 60 and html.escape(line) in whole_page]
    assert all("friend shows you" in line or "first, and why" in line for line in shown), shown
    assert "show_matrix" not in whole_page and "course_device" not in whole_page


def test_a_submission_that_could_not_be_run_says_why_and_shows_nothing_as_an_answer(tmp_path: Path) -> None:
    course = graded_course(tmp_path, classroom.released(STEM), ["ada"])
    copy = course.release(STEM)
    copy.parent.mkdir(parents=True)
    nbformat.write(classroom.released(STEM), copy)
    worth = [(e.name, e.max_points, 1.0) for e in all_exercises().values() if e.topic == "masks"]
    verdict = Verdict("ada", STEM, "zeroed", "The file is <b>no</b> notebook.", unwritten(worth))
    write_verdict(course, verdict)
    nbformat.write(stand_in(course, verdict), course.autograded(STEM, "ada"))
    (path,) = write_feedback(course, STEM)
    page = path.read_text(encoding="utf-8")
    head = page[page.index("<h1>") : page.index("<h2>Points</h2>")]
    assert "<h1>2 · Masks: who may look at whom</h1>" in head
    assert "<b>What was handed in could not be run.</b> The file is &lt;b&gt;no&lt;/b&gt; notebook.</p>" in head
    assert "What to look at" not in head, "the same eight times"
    assert "Below is the notebook as it was released, not what was handed in." in page
    assert "our answer" not in page
    for anchor in re.findall('href="#([^"]+)"', page):
        assert page.count(f'id="{anchor}"') == 1, anchor


def test_every_question_of_the_course_is_recognised() -> None:
    for stem in build.stems():
        asked = [text for c in build.solution_notebook(stem).cells if (text := QUESTION.search(c.source))]
        assert len(asked) == len(build.written_points(stem)), stem


def test_the_report_is_shown_as_it_was_written(page: str) -> None:
    report = course_report("causal_mask").data["text/html"]
    sentence = all_exercises()["causal_mask"].misconceptions[0].__doc__
    assert sentence and sentence.split(":")[0] in report
    shown = page.replace("<tbody>", "").replace("</tbody>", "")  # which the cleaner writes into every table
    assert report.replace("&emsp;", "\u2003").replace("&quot;", '"').replace("&#x27;", "'") in shown


def test_hidden_tests_are_not_shown(page: str) -> None:
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


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_enough_contrast(page: str, scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+): (#\w{6})", re.findall(r":root \{(.*?)\}", page, re.DOTALL)[scheme]))
    for text in ("ink", "soft", "accent", "warn"):
        for ground in ("paper", "code", "head", "note", "bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


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


@pytest.mark.parametrize("style", ["color:1.5em 20% .5px", "margin:10px 0 1.25em .5em", "color:#abc"])
def test_styles_of_numbers_are_kept(style: str) -> None:
    assert cleaned(f'<div style="{style}">x</div>') == f'<div style="{style}">x</div>'


@pytest.mark.parametrize("value", ["1" * 24_000 + "!", "1 " * 12_000 + "!", "1." * 12_000, "a" * 24_000 + "!"], ids=len)
def test_a_style_is_read_once(value: str) -> None:
    """A page has room for ten of these, and once from each digit would take a minute for them."""
    assert cleaned(f'<div style="color:{value}">x</div>' * 10) == "<div>x</div>" * 10


@pytest.mark.parametrize("role", ["alert", "status", "button", "heading", "img alert", "IMG"])
def test_roles_of_the_page_cannot_be_borrowed(role: str) -> None:
    """Nothing that a student wrote is read aloud as if the page said it."""
    assert cleaned(f'<span role="{role}">all points</span>') == "<span>all points</span>"
    assert cleaned('<span role="img">✓</span>') == '<span role="img">✓</span>'


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


def test_a_page_does_not_grow_with_the_cells_that_a_student_adds(tmp_path: Path) -> None:
    notebook = autograded()
    notebook.cells[:0] = [nbformat.v4.new_code_cell("x = 1 + 1  # again\n" * 1_000) for _ in range(300)]
    course = graded_course(tmp_path, notebook, ["ada"])
    write_feedback(course, STEM, ["ada"])
    page = course.feedback(STEM, "ada").read_text(encoding="utf-8")
    assert re.search(r"2\d\d more cells that you added are not shown here", page)
    assert len(page) < 2_500_000
    assert "NameError: causal_mask" in page


@pytest.mark.parametrize("piece", [" ", "<b>", "[", "\\begin{a}", "> ", "data:image/png;base64,"])
def test_a_text_that_would_take_minutes_is_shown_as_it_stands(piece: str) -> None:
    """Markdown of half a million characters would stop the pages of the whole class; formgrader's and `written` too."""
    source = "x" + piece * (400_000 // len(piece)) + "y"
    assert cleaned_markdown(source, {}) == f"<pre>{html.escape(source)}</pre>"


@pytest.mark.parametrize("piece", ["**", "a.", (" " * 99 + "\n")])
def test_code_that_would_take_minutes_has_no_colours(piece: str) -> None:
    source = "if True:\n" + piece * (15_000 // len(piece)) + "z"
    page = feedback.highlighted(source)
    assert html.escape(source) in page and "<span" not in page
    assert "<span" in feedback.highlighted("if True:\n    x = 1")


def test_a_picture_that_colab_put_into_the_text_is_shown_whole() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 30_000
    answer = NotebookNode(cell_type="markdown", metadata={}, source=f"See ![sheet]({picture}).\n\nMore.")
    tidy(answer)
    page = cleaned_markdown(answer.source, {})
    assert f'src="{picture}"' in page and "<p>More.</p>" in page


def test_shortening_keeps_short_texts_whole() -> None:
    assert shortened("a\nb\n") == "a\nb\n"
    assert shortened("a\n" * 1000).endswith("a\n… 1601 more characters")
    assert len(shortened("a" * 1_000_000)) < 21_000


def test_metadata_that_shapes_the_page_is_dropped() -> None:
    cell = new_code_cell("x", metadata={"tags": ["a"], "nbgrader": {"grade_id": '"><script>', "solution": True}})
    tidy(cell)
    assert cell.metadata == {}


# --- odd notebooks --------------------------------------------------------------------------------------

PASTED = {"image.png": {"image/png": DOT}}
SHOWN = f'src="data:image/png;base64,{DOT}"'


def text(source: Any, **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "markdown",
        "id": "odd-end" if source == "odd-end" else "odd",
        "metadata": {},
        "source": source,
        **more,
    }


def code(*outputs: Any, **more: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "id": "odd", "metadata": {}, "source": "1", "execution_count": 1}
    return {**cell, "outputs": list(outputs), **more}


def shows(data: Any, **more: Any) -> dict[str, Any]:
    return code({"output_type": "display_data", "metadata": {}, "data": data, **more})


ODD_CELLS: dict[str, tuple[dict[str, Any], str]] = {  # a cell, and what the page shows of it
    "a pasted picture": (
        text("![what I drew](attachment:image.png)", attachments=PASTED),
        f'alt="what I drew" {SHOWN}',
    ),
    "two pasted pictures": (text("![x](attachment:image.png) ![y](attachment:image.png)", attachments=PASTED), SHOWN),
    "a picture with a space": (
        text("![x](attachment:my%20b.png)", attachments={"my b.png": PASTED["image.png"]}),
        SHOWN,
    ),
    "a picture with an umlaut": (text("![x](attachment:für.png)", attachments={"für.png": PASTED["image.png"]}), SHOWN),
    "a picture as HTML": (text('<img width="9" src="attachment:image.png"/>', attachments=PASTED), SHOWN),
    "a picture as HTML in a line": (text("a <img src='attachment:image.png'> b", attachments=PASTED), SHOWN),
    "a picture in lines": (
        text("![x](attachment:a)", attachments={"a": {"image/png": f"{DOT[:50]}\n{DOT[50:]}\n"}}),
        SHOWN,
    ),
    "a photograph": (text("![x](attachment:a)", attachments={"a": {"image/jpeg": DOT}}), "data:image/jpeg;base64"),
    "a picture of two types": (
        text("![x](attachment:a)", attachments={"a": {"text/plain": "x", "image/png": DOT}}),
        SHOWN,
    ),
    "a missing picture": (text("![x](attachment:nothing.png)"), "(The picture nothing.png is not in the notebook.)"),
    "another picture": (text("![x](attachment:b.png)", attachments=PASTED), "(The picture b.png is not in"),
    "a missing picture as HTML": (text("<img src='attachment:<b>.png'> odd"), "odd"),
    "a name that is code": (text("![x](attachment:<script>1</script>)", attachments=PASTED), "odd-end"),
    "a description that is code": (
        text('![<script>1</script>" onerror="1](attachment:image.png)', attachments=PASTED),
        f'onerror=&quot;1" {SHOWN}',
    ),
    "an SVG picture": (
        text("![x](attachment:a)", attachments={"a": {"image/svg+xml": "<svg/>"}}),
        "(The picture a is not",
    ),
    "no base64": (text("![x](attachment:a)", attachments={"a": {"image/png": '"><script>'}}), "(The picture a is not"),
    "attachments in a list": (text("![x](attachment:a)", attachments=[1]), "odd-end"),
    "attachments that are text": (text("![x](attachment:a)", attachments="a"), "odd-end"),
    "attachments that are null": (text("![x](attachment:a)", attachments=None), "(The picture a is not"),
    "a picture in a list": (text("![x](attachment:a)", attachments={"a": [1]}), "odd-end"),
    "a picture that is a number": (
        text("![x](attachment:a)", attachments={"a": {"image/png": 7}}),
        "(The picture a is not",
    ),
    "quotations in quotations": (text("> " * 5_000 + "odd"), "odd"),
    "lists in lists": (text("".join(" " * 2 * i + "- x\n" for i in range(120))), "<li>x"),
    "brackets": (text("[" * 5_000), "[[[["),
    "links in links": (text("[a](" * 3_000), "[a]("),
    "stars": (text("*a **b " * 2_000), "odd-end"),
    "backticks": (text("`" * 9_999), "odd-end"),
    "open HTML": (text("<div><b><table><tr><td>odd<!-- <details>"), "odd"),
    "elements in elements": (text("<div>" * 3_900), "odd-end"),
    "half an element": (text("odd <a href='"), "odd"),
    "no LaTeX": (text(r"$\notacommand{$ and $$\frac{$$ and $\begin{x}$"), "notacommand"),
    "one dollar": (text("$x"), "$x"),
    "half a character": (text("odd \ud800 one"), "odd ? one"),
    "half a character in a picture's name": (text("![x](attachment:\ud800)", attachments={"\ud800": {}}), "odd-end"),
    "control characters": (text("odd\x00\x07\x1b[31m"), "odd"),
    "no text": (text(""), "odd-end"),
    "a text that is a number": (text(7), "odd-end"),
    "a text that is null": (text(None), "odd-end"),
    "metadata in a list": (text("odd", metadata=[]), "odd-end"),
    "metadata that are wrong": (text("odd", metadata={"nbgrader": 7, "jupyter": 7, "tags": 7}), "odd"),
    "a grade id that is a number": (text("odd", metadata={"nbgrader": {"grade_id": 7, "grade": True}}), "odd"),
    "an unknown type of cell": ({**text("odd"), "cell_type": "odd"}, "odd-end"),
    "a raw cell": ({**text("<script>odd"), "cell_type": "raw"}, "&lt;script&gt;odd"),
    "half a character in an output": (code({"output_type": "stream", "name": "stdout", "text": "odd \udfff"}), "odd ?"),
    "no text in an output": (code({"output_type": "stream", "name": "stdout", "text": None}), "odd-end"),
    "an unknown stream": (code({"output_type": "stream", "name": "<b>", "text": "odd"}), "odd"),
    "an error without words": (code({"output_type": "error", "ename": None, "evalue": 7, "traceback": "x"}), "odd-end"),
    "an error in pieces": (
        code({"output_type": "error", "ename": "E", "evalue": "odd", "traceback": [1, []]}),
        "E: odd",
    ),
    "an unknown type of output": (code({"output_type": "odd"}), "odd-end"),
    "no data": (shows({}), "an output that is not shown here"),
    "data in a list": (shows([1]), "odd-end"),
    "data that are numbers": (shows({"text/plain": 7, "text/html": {}, "image/png": None}), "not shown here"),
    "data of an unknown type": (shows({"application/x-odd": {"a": [1]}}), "not shown here"),
    "data in lines": (shows({"text/plain": ["odd\n", "lines"]}), "odd\nlines"),
    "a broken picture": (shows({"image/png": "iVBORw0KGgo"}), "iVBORw0KGgo"),
    "a picture that is none": (shows({"image/png": "<script>"}), "not shown here"),
    "a picture too large": (shows({"image/png": "A" * 3_000_001}), "not shown here"),
    "HTML without an end": (shows({"text/html": "<div>" * 19_000 + "odd"}), "odd"),
    "HTML far too long": (shows({"text/html": "x" * 200_000}), "not shown here"),
    "half a character in HTML": (shows({"text/html": "odd \ud800"}), "odd ?"),
    "many outputs": (
        code(*[{"output_type": "stream", "name": "stdout", "text": "x"}] * 2_000),
        "and 1970 more outputs",
    ),
    "a long output": (code({"output_type": "stream", "name": "stdout", "text": "x" * 2_000_000}), "more characters"),
    "outputs that are none": (code(outputs=7), "odd-end"),
    "an output that is none": (code(7), "odd-end"),
    "an output without a type": (code({"text": "x"}), "odd-end"),
}
NO_NOTEBOOKS = [
    "",
    "[]",
    "7",
    "{",
    '{"nbformat": 4}',
    '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 7}',
    "[" * 9_999,
]


@pytest.fixture(scope="module")
def odd_course(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, str]:
    """A course in which each student handed in one odd cell, and what was said when the pages were written."""
    students = [f"s{number}" for number in range(len(ODD_CELLS) + len(NO_NOTEBOOKS))]
    whole = json.loads(nbformat.writes(autograded()))
    course = graded_course(tmp_path_factory.mktemp("odd"), autograded(), students)
    contents = [
        json.dumps({**whole, "cells": [*whole["cells"][2:], cell, text("odd-end")]}) for cell, _ in ODD_CELLS.values()
    ]
    for student, content in zip(students, [*contents, *NO_NOTEBOOKS], strict=True):
        course.autograded(STEM, student).write_text(content, encoding="utf-8")
    with pytest.raises(CourseError) as raised:
        write_feedback(course, STEM, students)
    return course, str(raised.value)


# nbformat itself cannot read these; their students get a reason instead of a page
UNREADABLE = {
    "attachments in a list",
    "attachments that are text",
    "attachments that are null",
    "a picture in a list",
    "metadata in a list",
    "data in a list",
}
UNREADABLE |= {"an output that is none", "an output without a type", "outputs that are none"}


@pytest.mark.parametrize("what", ODD_CELLS)
def test_an_odd_cell_is_shown_or_the_reason_is_said(what: str, odd_course: tuple[Course, str]) -> None:
    course, said = odd_course
    number = list(ODD_CELLS).index(what)
    page = course.feedback(STEM, f"s{number}")
    if what in UNREADABLE and not page.exists():
        assert re.search(rf"(?m)^s{number}: .", said)
        return
    shown = page.read_text(encoding="utf-8")
    assert ODD_CELLS[what][1] in shown
    assert "odd-end" in shown or what == "open HTML"
    assert not re.search(r"<(script|iframe|svg)\b", shown)
    assert not re.search(r"<[^>]*\son\w+=", re.sub(r'alt="[^"]*"', "", shown))
    assert "attachment:" not in re.sub(r"<(pre|em|p)>.*?</\1>", "", shown, flags=re.DOTALL)


def test_who_has_no_notebook_has_a_reason(odd_course: tuple[Course, str]) -> None:
    course, said = odd_course
    for number in range(len(ODD_CELLS), len(ODD_CELLS) + len(NO_NOTEBOOKS)):
        assert re.search(rf"(?m)^s{number}: .", said)
        assert not course.feedback(STEM, f"s{number}").exists()


@pytest.mark.parametrize("what", [name for name in ODD_CELLS if "pictur" in name and name not in UNREADABLE])
def test_formgrader_shows_the_same_pictures(what: str, tmp_path: Path) -> None:
    cell, expected = ODD_CELLS[what]
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}), encoding="utf-8")
    if cell["cell_type"] != "markdown" or "\ud800" in cell["source"]:
        return
    page, _ = formgraders_exporter().from_filename(str(path), resources={"base_url": "", "index": 0, "total": 1})
    assert expected.split(" src=")[-1] in page


def formgraders_exporter() -> HTMLExporter:
    """As formgrader makes it from nbgrader_config.py."""
    config = Course(Path("a new class")).config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    return HTMLExporter(config=config)


def test_a_page_that_ends_in_a_panic_costs_only_itself(
    course: Course, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        """As compiled code raises it."""

    def render(converter: object, course: Course, assignment: str, student: str) -> str:
        if student == "ada":
            raise Panic("index out of bounds")
        return "a page"

    monkeypatch.setattr(feedback, "page_of", render)
    monkeypatch.setattr(feedback, "write_page", lambda page, course, assignment, student: Path(page))
    monkeypatch.setattr(feedback, "processors", lambda: 2)
    for others in (["ben"], [f"student{number}" for number in range(feedback.ENOUGH_FOR_TWO)]):  # here, in processes
        words = rf"02_masks: feedback pages written: {len(others)}\. These were not:\nada: index out of"
        with pytest.raises(CourseError, match=words):
            write_feedback(course, STEM, ["ada", *others])


def test_pages_from_several_processes_are_the_same_and_a_process_that_dies_costs_none(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()

    def render(converter: object, course: Course, assignment: str, student: str) -> str:
        if student == "student3" and os.getpid() != here:
            os._exit(1)
        return f"{student} {os.getpid() == here}"

    written: list[str] = []
    monkeypatch.setattr(feedback, "page_of", render)
    monkeypatch.setattr(feedback, "write_page", lambda page, *_: written.append(page) or Path(page))
    monkeypatch.setattr(feedback, "processors", lambda: 2)
    students = [f"student{number}" for number in range(4, 20)]
    write_feedback(course, STEM, students)
    assert written == [f"{student} False" for student in students]
    written.clear()
    write_feedback(course, STEM, ["student3", *students])
    assert [page.split()[0] for page in written] == ["student3", *students]


def test_one_assignment_does_not_stop_the_next(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = Course(Path(shutil.copytree(course.root, tmp_path / "copy", ignore=shutil.ignore_patterns("feedback"))))
    for stem in ("01_dot_product_attention", STEM):
        course.release(stem).parent.mkdir(parents=True)
        course.release(stem).write_text("{}")
        (course.root / "submitted" / "ada" / stem).mkdir(parents=True)
    broken = course.autograded("01_dot_product_attention", "ada")
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    assert main(["--course", str(course.root), "feedback"]) == 1
    assert "01_dot_product_attention: feedback pages written: 0. These were not:\nada: " in capsys.readouterr().err
    assert course.feedback(STEM, "ada").exists()


# --- in a browser ---------------------------------------------------------------------------------------

CHROMIUM = find_chromium()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_in_a_browser(course: Course, page: str) -> None:
    """Formulas have the shape of formulas; nothing runs, no request leaves, and the browser complains about nothing."""
    assert CHROMIUM
    complaints: list[str] = []
    with browser_page(CHROMIUM) as (tab, elsewhere):
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.route("**/*", lambda route: route.fulfill(body=page, content_type="text/html; charset=utf-8"), times=1)
        tab.goto("http://127.0.0.1:9/")
        assert tab.title() == f"{STEM} · Ada Lovelace"
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
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            assert wcag_problems(tab) == [], scheme
        marks = tab.locator(".course-report [role=img]").evaluate_all("all => all.map(mark => mark.ariaLabel)")
        assert {"passed", "failed"} <= set(marks)
        alts = tab.locator("img").evaluate_all("all => all.map(picture => picture.alt)")
        assert alts and all(alts)
