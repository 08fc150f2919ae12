"""Every notebook, graded by plain nbgrader and looked at in JupyterLab.

The solutions get all points, the untouched release none, and known mistakes exactly what they are worth. What nbgrader
has executed is opened in a browser: all pictures and formulas show, and no request leaves the machine.
"""

from __future__ import annotations

import re
import shutil

import nbformat
import pytest
from course import solved, without_demonstrations
from lab import TOKEN, browser_page, find_chromium, open_notebook, run, wcag_problems
from playwright.sync_api import expect
from release import released_notebook, released_text

from autograder.authoring import build
from autograder.hidden import TITLE, all_hidden
from book import executed
from course_lib.exercises import all_exercises

# nbgrader fills in a submission before it adds it
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

CHROMIUM = find_chromium()
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

# All tests of one notebook run in one process, one after the other: they share what nbgrader has executed.
every_notebook = pytest.mark.parametrize(
    "stem", [pytest.param(stem, marks=pytest.mark.xdist_group(stem)) for stem in build.stems()]
)
with_masks = pytest.mark.xdist_group("02_masks")


@pytest.fixture
def page():
    with browser_page(CHROMIUM) as (page, elsewhere):
        yield page
        assert elsewhere == [], "requests left the machine"


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


# --- plain nbgrader ------------------------------------------------------------------------------------------------


@every_notebook
def test_nbgrader_generates_what_is_committed(course, stem):
    course.generate(stem)
    generated = build.as_text(course.notebook("release", stem))
    assert generated == released_text(stem)


@every_notebook
def test_solution_gets_every_point_and_runs_quietly_and_every_claim_of_the_text_holds(course, stem):
    notebook = solved(course, stem)
    assert course.scores("solution", stem) == course.full_scores(stem)
    problems = [o for o in outputs(notebook) if o.get("name") == "stderr" or o.output_type == "error"]
    assert problems == []
    if not executed.kept_at(stem, is_whole=False).exists():
        executed.keep(notebook, executed.kept_at(stem, is_whole=False))  # `make book` need not execute it again


@with_masks
def test_untouched_release_gets_nothing_and_its_demonstrations_run(course):
    """The judge is asked about every untouched notebook, and tests/test_devices.py runs their demonstrations. Those
    that do not depend on the answers have run in the solved notebook."""
    stem = "02_masks"
    notebook = course.grade("untouched", stem, {}, is_whole=False)
    assert set(course.scores("untouched", stem).values()) == {0.0}
    problems = [o for o in outputs(notebook) if o.get("name") == "stderr" or o.output_type == "error"]
    assert problems == []


def test_a_demonstration_is_left_out_only_if_no_answer_changes_it():
    answer = nbformat.v4.new_code_cell("def answer(x):\n    return x", metadata={"nbgrader": {"solution": True}})
    others = ["size = 3", "x = 4", 'mine = yours("answer", answer)', "y = mine(size)", "print(y)", "y = 1", "print(y)"]
    cells = [answer, *map(nbformat.v4.new_code_cell, others)]
    left = [cell.source for cell in without_demonstrations(cells, but_of_answers=True)]
    assert left == [answer.source, "size = 3", *others[2:5]]
    assert without_demonstrations(cells) == [answer]


def test_that_an_answer_is_shown_with_a_module_makes_no_other_use_of_the_module_depend_on_it():
    answer = nbformat.v4.new_code_cell("def answer(x):\n    return x", metadata={"nbgrader": {"solution": True}})
    shown = "import math\ntorch.manual_seed(0)\nprint(answer(torch.randn(2)))"
    others = ["import torch", shown, "torch.manual_seed(1)\nprint(torch.randn(2))", "print(math.pi)"]
    cells = [answer, *map(nbformat.v4.new_code_cell, others)]
    left = [cell.source for cell in without_demonstrations(cells, but_of_answers=True)]
    assert left == [answer.source, "import torch", shown]


MISTAKES = {
    "causal_mask": ("def causal_mask(n):\n    return torch.ones(n, n).tril(1)", 1.0, "one step into the future"),
    "padding_mask": ("def padding_mask(lengths, max_len):\n    return 1 / 0", 0.0, "ZeroDivisionError"),
    "window_mask": ("def window_mask(n):\n    return None", 0.0, "window_mask(n, radius)"),
}


def grade_the_mistakes(course):
    answers = course.solutions("02_masks") | {name: code for name, (code, _, _) in MISTAKES.items()}
    answers["additive_mask"] = "def additive_mask(mask):\nthis is not Python"
    course.grade("mistaken", "02_masks", answers, is_whole=False)


@with_masks
def test_known_mistakes_get_exactly_their_partial_credit(course):
    stem = "02_masks"
    grade_the_mistakes(course)
    expected = course.full_scores(stem)
    for name, (_, points, _) in MISTAKES.items():
        expected |= {f"{name}_check": points, f"{name}_hidden": 0.0}
    expected |= {"additive_mask_check": 0.0, "additive_mask_hidden": 0.0}
    assert course.scores("mistaken", stem) == expected


@with_masks
def test_feedback_names_the_mistakes(course):
    stem = "02_masks"
    grade_the_mistakes(course)
    course.nbgrader("generate_feedback", stem, "--student", "mistaken")
    page = (course.root / "feedback" / "mistaken" / stem / f"{stem}.html").read_text(encoding="utf-8")
    for _, _, words in MISTAKES.values():
        assert words in page
    of_masks = [name for name in all_hidden() if all_exercises()[name].topic == "masks"]
    assert page.count(TITLE) == len(of_masks) - 1  # additive_mask is not valid Python


@pytest.mark.xdist_group("00_start_here")
def test_validate_tells_right_from_wrong(course):
    stem = "00_start_here"
    solutions = course.solutions(stem)
    right = course.submit("right", stem, solutions, is_whole=False)
    assert "Success" in course.nbgrader("validate", right.name, folder=right.parent)
    solutions["softmax"] = "def softmax(x, dim):\n    return x.sum()"
    wrong = course.submit("wrong", stem, solutions, is_whole=False)
    told = course.nbgrader("validate", wrong.name, folder=wrong.parent)
    assert "VALIDATION FAILED" in told and "0 of 6 points" in told and "Partial credit" not in told


# --- seen in a browser ---------------------------------------------------------------------------------------------


@pytest.mark.browser
@in_a_browser
@every_notebook
def test_pictures_and_formulas_show(stem, course, folder, lab, page):
    notebook = solved(course, stem)
    shutil.copy(course.path("autograded", stem, "solution"), folder)
    pictures = sum("image/png" in output.get("data", {}) for output in outputs(notebook))
    with_formula = sum(
        bool(re.search(r"\$[^$]+\$", cell.source)) for cell in notebook.cells if cell.cell_type == "markdown"
    )
    assert pictures > 0
    open_notebook(page, lab, f"{stem}.ipynb")
    count_drawn = (
        "() => [...document.querySelectorAll('.jp-OutputArea img')]"
        ".filter(image => image.complete && image.naturalWidth > 50).length"
    )
    page.wait_for_function(f"({count_drawn})() === {pictures}")
    assert page.locator(".jp-OutputArea img:not([alt])").count() == 0
    count_typeset = (
        "() => [...document.querySelectorAll('.jp-MarkdownCell')]"
        ".filter(cell => cell.querySelector('mjx-container')).length"
    )
    page.wait_for_function(f"({count_typeset})() >= {with_formula}")
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    raw = page.locator(".jp-MarkdownOutput").all_inner_texts()
    assert not [text for text in raw if "{{" in text or "$$" in text]


@pytest.mark.browser
@in_a_browser
@pytest.mark.xdist_group("00_start_here")
def test_a_notebook_meets_wcag_aa_in_the_dark_theme_on_a_narrow_screen(course, folder, lab, page):
    solved(course, "00_start_here")
    shutil.copy(course.path("autograded", "00_start_here", "solution"), folder / "dark.ipynb")
    themes = f"{lab}/lab/api/settings/@jupyterlab/apputils-extension:themes?token={TOKEN}"
    page.request.put(themes, data={"raw": '{"theme": "JupyterLab Dark"}'})
    open_notebook(page, lab, "dark.ipynb")
    page.set_viewport_size({"width": 420, "height": 900})
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", "JupyterLab Dark")
    page.locator(".jp-OutputArea img").first.wait_for()
    found = wcag_problems(page, within=".jp-MarkdownOutput, .jp-OutputArea")
    page.request.put(themes, data={"raw": "{}"})
    assert [each for each in found if each[0] != "scrollable-region-focusable"] == []  # those boxes are JupyterLab's


WRONG = "def causal_mask(n):\n    return torch.ones(n, n).tril(1)"
RIGHT = "def causal_mask(n):\n    return torch.ones(n, n).tril()"


def cell_with(page, text):
    return page.locator(".jp-CodeCell", has_text=text).first


def write(page, cell, code):
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(code)


@pytest.mark.browser
@in_a_browser
@with_masks
def test_a_student_is_told_the_mistake_and_then_gets_the_points(folder, lab, page):
    name = "student.ipynb"
    notebook = released_notebook("02_masks")
    nbformat.write(notebook, folder / name)
    open_notebook(page, lab, name)
    run(page, cell_with(page, "use_course_style()"))
    answer, check = cell_with(page, "def causal_mask("), cell_with(page, 'check("causal_mask", causal_mask)')

    write(page, answer, WRONG)
    run(page, answer)
    run(page, check)
    report = check.locator(".course-report")
    report.get_by_text("each position sees one step into the future").wait_for()
    assert "1 of 4 points" in report.inner_text()

    write(page, answer, RIGHT)
    run(page, answer)
    run(page, check)
    report.get_by_text("4 of 4 points").wait_for()
    assert "✗" not in report.inner_text()


@pytest.mark.browser
@in_a_browser
@with_masks
def test_keys_pressed_in_an_interactive_figure_are_not_taken_by_jupyterlab(folder, lab, page):
    """Arrow keys would move JupyterLab's own selection, D D would delete the cell."""
    notebook = released_notebook("02_masks")
    cell = nbformat.v4.new_code_cell("from course_lib.interactive import scale_and_softmax\nscale_and_softmax()")
    notebook.cells = [cell]
    nbformat.write(notebook, folder / "figure.ipynb")
    open_notebook(page, lab, "figure.ipynb")
    run(page, page.locator(".jp-CodeCell"))
    page.locator(".cf-panel input").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowLeft", "d", "d"):
        page.keyboard.press(key)
    expect(page.locator(".cf-panel label output")).to_have_text("× 1.2")
    expect(page.locator(".course-still")).to_be_hidden()


@pytest.mark.browser
@in_a_browser
@with_masks
def test_validate_button_says_what_is_missing_and_what_is_done(folder, lab, page):
    """nbgrader's Validate, where students work: a notebook with one exercise, blank and then solved."""
    notebook = released_notebook("02_masks")
    wanted = ("bootstrap", "setup_02_masks", "causal_mask", "causal_mask_check", "causal_mask_hidden")
    notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") in wanted]
    name = "work/02_masks (new version).ipynb"
    (folder / "work").mkdir(exist_ok=True)
    nbformat.write(notebook, folder / name)
    open_notebook(page, lab, name)

    press_validate(page)
    dialog = page.locator(".jp-Dialog")
    dialog.get_by_text("failed").first.wait_for()
    assert "causal_mask" in dialog.inner_text()
    dialog.get_by_role("button", name="OK").click()

    write(page, cell_with(page, "def causal_mask("), RIGHT)
    press_validate(page)
    dialog.get_by_text("Success").first.wait_for()


def press_validate(page):
    page.get_by_role("button", name="Validate").first.click()
