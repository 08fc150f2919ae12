"""The grader stays an nbgrader course: stock nbgrader gives honest work the same scores, formgrader shows them, and its
button grades with our judge."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import course as plain
import nbformat
import pytest
from classroom import ENOUGH, impatient_with
from grading import STEM, Here, comments, grades, hand_in, solved
from lab import TOKEN, browser_page, find_chromium, jupyterlab
from nbgrader.apps import NbGraderAPI

from autograder.authoring.release import quiet_nbgrader, release
from autograder.classroom.collect import collect
from autograder.classroom.course import Course
from autograder.classroom.grade import grade
from autograder.classroom.sample import sample_class
from autograder.judging import work
from autograder.judging.verdict import read_verdict
from autograder.walls.inside import walls

pytestmark = [
    pytest.mark.xdist_group("stock"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader fills in a submission before it adds it
]

# One of each kind; nbgrader takes its time. Of the other kinds these cannot be compared:
# - a crash ends nbgrader's kernel, and two cells of one name end its whole run: both get no scores there at all;
# - a broken JSON and a missing notebook are errors there, and here zeros with a reason;
# - lost metadata are zero points there, and matched by content here;
# - an import of the reference gets full points there, and none here;
# - an answer that never ends costs nbgrader its time-out for each of its checks; the endless cell shows the same.
# `python -m benchmarks grading` compares more of them.
COMPARED = {
    "three_mistakes",
    "blank",
    "syntax_error",
    "endless_in_a_cell",
    "through_colab",
    "helper_in_a_cell_of_its_own",
}
ENDLESS = "attempts -= 1"  # in the cell that never ends: it alone gets a short limit
SECONDS = 2


@pytest.fixture(scope="session")
def graded(tmp_path_factory):
    """(our course, graded by us; kind -> student)."""
    course = Course(tmp_path_factory.mktemp("stock") / "ours")
    release(course, [STEM])
    folder = course.root / "downloads"
    students = {student.kind: student.id for student in sample_class(course, STEM, folder=folder)}
    collect(course, folder, STEM)
    students = {kind: students[kind] for kind in COMPARED}
    for student in students.values():
        leave_out_demonstrations(course.submitted(STEM, student))
    honest = [student for kind, student in students.items() if kind != "endless_in_a_cell"]
    summary = grade(course, STEM, Here(), students=honest, patience=ENOUGH)
    assert len(summary.graded) == len(honest)
    endless = students["endless_in_a_cell"]
    with impatient_with(endless_cell(course, endless), SECONDS):
        (verdict,) = grade(course, STEM, Here(), students=[endless], patience=ENOUGH).graded
    assert verdict.status == "graded"
    work.forget_warm_process()
    return course, students


def leave_out_demonstrations(path):
    """Demonstrations change no score, and stock nbgrader would run them for each student."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = plain.without_demonstrations(notebook.cells)
    nbformat.write(notebook, path)


def endless_cell(course, student):
    """The id of the cell that never ends."""
    cells = nbformat.read(course.submitted(STEM, student), as_version=4).cells
    (name,) = [cell.metadata.nbgrader.grade_id for cell in cells if ENDLESS in cell.source]
    return name


@pytest.fixture
def ours(graded, tmp_path):
    """A copy of the graded course."""
    root = tmp_path / "course"
    shutil.copytree(graded[0].root, root)
    return Course(root), graded[1]


def entries(course, student):
    """Everything that the machine enters for a student, cell by cell."""
    scores = {name: (auto, needs) for name, (auto, _, _, needs) in grades(course, student).items()}
    return scores, {name: auto for name, (auto, _) in comments(course, student).items()}


def test_stock_nbgrader_gives_honest_work_the_same_scores_in_every_cell(graded, tmp_path):
    course, students = graded
    stock = plain.Course(tmp_path)
    with (tmp_path / "nbgrader_config.py").open("a") as config:
        config.write(
            f"c.ExecutePreprocessor.timeout_func = lambda cell: {SECONDS} if {ENDLESS!r} in cell.source else 600\n"
        )
    shutil.copy(course.root / "hidden_seed", tmp_path)
    for name in ("source", "release"):
        shutil.copytree(course.root / name, tmp_path / name)
    for student in students.values():
        shutil.copytree(course.root / "submitted" / student, tmp_path / "submitted" / student)
    stock.run_here("generate_assignment", STEM)
    stock.nbgrader("autograde", STEM)
    theirs = Course(tmp_path)
    found = {kind: entries(course, student) for kind, student in students.items()}
    assert found == {kind: entries(theirs, student) for kind, student in students.items()}
    scores = {kind: sum(auto or 0 for auto, _ in entered[0].values()) for kind, entered in found.items()}
    assert scores["blank"] == 0
    assert 0 < scores["three_mistakes"] < scores["helper_in_a_cell_of_its_own"]
    assert len(set(scores.values())) > 3


# --- formgrader's autograde button -----------------------------------------------------------------------------------


def press_the_button(course, student):
    """What formgrader does when its button is pressed."""
    config = course.config()
    config.Judge.seconds = ENOUGH.cell
    with quiet_nbgrader():
        return NbGraderAPI(config=config).autograde(STEM, student)


def test_the_button_gives_the_same_scores_behind_the_same_walls(ours):
    course, students = ours
    student = students["three_mistakes"]
    before, verdict = entries(course, student), read_verdict(course.verdict(STEM, student))
    with course.gradebook() as gradebook:
        gradebook.remove_submission(STEM, student)
    course.verdict(STEM, student).unlink()
    result = press_the_button(course, student)
    assert result["success"], result
    assert entries(course, student) == before
    after = read_verdict(course.verdict(STEM, student))
    assert after.walls == verdict.walls == tuple(wall.name for wall in walls.probe() if wall.works)
    assert after.exercises == verdict.exercises


def impatient_python(folder, name):
    """A Python that runs `autograder`, and gives one exercise, known to be endless, a short limit."""
    program = (
        "import runpy, sys; from classroom import impatient_with; sys.argv = sys.argv[2:]\n"
        f"with impatient_with({name!r}, {SECONDS}): runpy.run_module('autograder', run_name='__main__', alter_sys=True)"
    )
    path = folder / "python"
    quoted = shlex.join([sys.executable, "-c", program])
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(Path(__file__).parent))} exec {quoted} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_the_button_survives_a_hostile_submission(ours, tmp_path, monkeypatch):
    course, _ = ours
    hostile = {
        "causal_mask": "import os\nos._exit(0)",
        "padding_mask": "import time\ndef padding_mask(lengths, n):\n    while True: time.sleep(1)",
    }
    hand_in(course, "mallory", solved(**hostile))
    monkeypatch.setattr(sys, "executable", impatient_python(tmp_path, "padding_mask"))
    result = press_the_button(course, "mallory")
    assert result["success"], result
    scores = {name: auto for name, (auto, *_) in grades(course, "mallory").items()}
    lost = {f"{name}_{part}" for name in hostile for part in ("check", "hidden")}
    assert {name for name, auto in scores.items() if auto == 0} == lost


def test_the_button_says_why_a_notebook_cannot_be_graded(ours):
    course, _ = ours
    hand_in(course, "eve", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    result = press_the_button(course, "eve")
    verdict = read_verdict(course.verdict(STEM, "eve"))
    assert not result["success"]
    assert verdict.status != "graded"
    assert verdict.reason in result["log"]
    assert len(verdict.exercises) == 8


HOSTILE_TEXT = "Well. <script>window.ran = 1</script><img src=x onerror='window.ran = 2'> $x^2$"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PASTED = "\n\n![drawn](attachment:image.png) ![x](attachment:nothing.png)"


@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine")
def test_formgrader_shows_the_scores_its_button_grades_and_no_script_of_a_student_runs(ours, tmp_path):
    course, students = ours
    student = students["three_mistakes"]
    score = sum(auto or 0 for auto, *_ in grades(course, student).values())
    notebook = solved()
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "nbgrader" in cell.metadata:
            cell.source = HOSTILE_TEXT + PASTED
            cell.attachments = {"image.png": {"image/png": DOT}}
    hand_in(course, student, notebook)
    (tmp_path / "home").mkdir()
    with jupyterlab(course.root, tmp_path / "home") as address, browser_page(str(find_chromium())) as (page, _):
        page.goto(f"{address}/login?token={TOKEN}&next=/formgrader/manage_submissions/{STEM}")
        row = page.locator("tr", has=page.locator(".student-id", has_text=student))
        row.locator(".score", has_text=f"{score:g} / ").wait_for()
        row.locator(".autograde a").click()
        page.get_by_text(f"Successfully autograded '{STEM}' for student '{student}'").wait_for()
        with course.gradebook() as gradebook:
            number = gradebook.find_submission_notebook(STEM, STEM, student).id
        page.goto(f"{address}/formgrader/submissions/{number}/")
        page.locator("p", has_text="Well.").locator("math").wait_for()
        assert page.evaluate("window.ran") is None
        assert page.locator("img[alt=drawn]").first.evaluate("picture => picture.naturalWidth") == 1
    full = sum(e.max_points + e.hidden_max_points for e in read_verdict(course.verdict(STEM, student)).exercises)
    assert sum(auto or 0 for auto, *_ in grades(course, student).values()) == full > score
