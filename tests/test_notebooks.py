"""Every notebook, run and looked at: all solutions execute, and all pictures and formulas show in JupyterLab."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import nbformat
import pytest
from lab import browser_page, find_chromium, jupyterlab, kernel_environment, open_notebook
from nbclient import NotebookClient
from playwright.sync_api import expect

from autograder import build

STEMS = build.stems()
CHROMIUM = find_chromium()
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
every_notebook = pytest.mark.parametrize("stem", STEMS)


def executed(stem: str, folder: Path):
    """The solution notebook after running it from top to bottom in a fresh kernel, saved into `folder`."""
    target = folder / f"{stem}.ipynb"
    if not target.exists():
        notebook = build.solution_notebook(stem)
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute(env=kernel_environment())
        nbformat.write(notebook, target)
    return nbformat.read(target, as_version=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def lab(folder, tmp_path_factory):
    with jupyterlab(folder, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture
def page():
    with browser_page(CHROMIUM) as (page, elsewhere):
        yield page
        assert elsewhere == [], "requests left the machine"


def outputs(notebook):
    return [(cell, output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@every_notebook
def test_solution_runs_quietly_and_gets_every_point(stem, folder):
    notebook = executed(stem, folder)
    noise = [output.text for _, output in outputs(notebook) if output.get("name") == "stderr"]
    assert noise == []
    for cell in notebook.cells:
        details = cell.metadata.get("nbgrader", {})
        if details.get("grade") and cell.cell_type == "code":
            assert float(cell.outputs[-1].data["text/plain"]) == details.points, details.grade_id


@every_notebook
def test_every_picture_is_drawn_by_a_cell(stem, folder):
    assert any("image/png" in output.get("data", {}) for _, output in outputs(executed(stem, folder)))


@pytest.mark.browser
@in_a_browser
@every_notebook
def test_pictures_and_formulas_show(stem, folder, lab, page):
    notebook = executed(stem, folder)
    pictures = sum("image/png" in output.get("data", {}) for _, output in outputs(notebook))
    has_formula = [bool(re.search(r"\$[^$]+\$", c.source)) for c in notebook.cells if c.cell_type == "markdown"]
    open_notebook(page, lab, f"{stem}.ipynb")
    count_drawn = (
        "() => [...document.querySelectorAll('.jp-OutputArea img')]"
        ".filter(image => image.complete && image.naturalWidth > 50).length"
    )
    page.wait_for_function(f"({count_drawn})() === {pictures}")
    count_typeset = (
        "() => [...document.querySelectorAll('.jp-MarkdownCell')]"
        ".filter(cell => cell.querySelector('mjx-container')).length"
    )
    page.wait_for_function(f"({count_typeset})() >= {sum(has_formula)}")
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    raw = page.locator(".jp-MarkdownOutput").all_inner_texts()
    assert not [text for text in raw if "{{" in text or "$$" in text]


# --- a student at work ----------------------------------------------------------------------------------

WRONG = "def causal_mask(n):\n    return torch.ones(n, n).tril(1)"
RIGHT = "def causal_mask(n):\n    return torch.ones(n, n).tril()"


def cell_with(page, text):
    return page.locator(".jp-CodeCell", has_text=text).first


def run(page, cell):
    """Run a cell and wait until it has run. A click while JupyterLab is still settling may be lost: try again."""
    prompt = cell.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    for _ in range(5):
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(AssertionError):
            expect(prompt).to_have_text(re.compile(rf"^(?!{re.escape(before)})\[\d+\]:"), timeout=20_000)
            return
    raise AssertionError(f"the cell did not run: {cell.inner_text()[:200]}")


def write(page, cell, code):
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(code)


@pytest.mark.browser
@in_a_browser
def test_a_student_is_told_the_mistake_and_then_gets_the_points(folder, lab, page):
    name = "student.ipynb"
    notebook = nbformat.read(build.NOTEBOOKS / "02_masks.ipynb", as_version=4)
    nbformat.write(notebook, folder / name)
    open_notebook(page, lab, name)
    run(page, cell_with(page, "use_course_style()"))
    answer, check = cell_with(page, "def causal_mask("), cell_with(page, 'check("causal_mask", causal_mask)')

    write(page, answer, WRONG)
    run(page, answer)
    run(page, check)
    report = check.locator(".course-report")
    report.get_by_text("Each position sees one step into the future").wait_for()
    assert "2 of 4 points" in report.inner_text()

    write(page, answer, RIGHT)
    run(page, answer)
    run(page, check)
    report.get_by_text("4 of 4 points").wait_for()
    assert "✗" not in report.inner_text()


@pytest.mark.browser
@in_a_browser
def test_validate_button_says_what_is_missing_and_what_is_done(folder, lab, page):
    """nbgrader's Validate: a notebook with one exercise, blank and then solved."""
    notebook = nbformat.read(build.NOTEBOOKS / "02_masks.ipynb", as_version=4)
    wanted = ("bootstrap", "setup_02_masks", "causal_mask", "causal_mask_check", "causal_mask_hidden")
    notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") in wanted]
    nbformat.write(notebook, folder / "validated.ipynb")
    open_notebook(page, lab, "validated.ipynb")

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
