"""nbgrader's exchange carries an assignment to a student and back, with our grading and feedback in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from accounts import ROOT, Person, accounts_can_be_made, open_folder, own_name
from classroom import solutions
from grading import STEM

from autograder.classroom.course import Course
from autograder.judging.verdict import read_verdict

NOT_BY_MAIL = ["timestamp.txt", "submission_secret.txt"]
pytestmark = pytest.mark.xdist_group("exchange")


@pytest.fixture
def exchange() -> Iterator[Path]:
    """Open to everybody, as nbgrader wants it."""
    with open_folder("exchange") as folder:
        yield folder


def go_the_whole_way(me: Person, exchange: Path) -> None:
    """Within one account: as teacher in the folder of the class, as student at home."""
    folder = me.home / "class"
    me.run("autograder", "init", str(folder), folder=ROOT)
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\n")
    me.run("autograder", "release", STEM, "--course", str(folder), folder=ROOT)
    me.run("nbgrader", "release_assignment", STEM, folder=folder)

    config = me.home / "nbgrader_config.py"  # all that a student needs
    config.write_text(
        f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.course_id = 'transformer'\n"
    )
    me.run("nbgrader", "fetch_assignment", STEM, folder=me.home)
    notebook = me.home / STEM / f"{STEM}.ipynb"
    write_answers(notebook)
    me.run("nbgrader", "submit", STEM, folder=me.home)

    said = me.run("nbgrader", "collect", STEM, folder=folder)
    assert "cheating attempt" not in said
    collected = Course(folder).submitted(STEM, me.name).parent
    mailed = Course(folder).submitted(STEM, "ada").parent  # another one came by mail, without the secret and the time
    copy = (
        f"from shutil import copytree; copytree({str(collected)!r}, {str(mailed)!r}, ignore=lambda *_: {NOT_BY_MAIL})"
    )
    me.run("timeit", "-n1", "-r1", copy, folder=ROOT)
    me.run("autograder", "grade", "--course", str(folder), folder=ROOT)
    verdict = read_verdict(Course(folder).verdict(STEM, me.name))
    assert verdict.status == "graded"
    assert verdict.points == verdict.max_points > 0
    me.run("autograder", "feedback", "--course", str(folder), folder=ROOT)
    me.run("nbgrader", "release_feedback", STEM, folder=folder)

    me.run("nbgrader", "fetch_feedback", STEM, folder=me.home)
    (page,) = (me.home / STEM / "feedback").rglob("*.html")
    assert page.read_bytes() == Course(folder).feedback(STEM, me.name).read_bytes()


def write_answers(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = solutions(STEM).get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    path.write_text(json.dumps(notebook), encoding="utf-8")


@pytest.mark.skipif(accounts_can_be_made(), reason="the same is tried on a JupyterHub, between accounts")
def test_the_way_there_and_back(tmp_path: Path, exchange: Path) -> None:
    go_the_whole_way(Person(own_name(), tmp_path), exchange)
