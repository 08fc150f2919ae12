"""nbgrader's exchange carries an assignment to a student and back, with our grading and feedback in the middle: from
one Unix account to another where the tests may make accounts, otherwise within one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from accounts import ROOT, Person, accounts, open_folder, own_name
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


def go_the_whole_way(teacher: Person, student: Person, exchange: Path) -> None:
    folder = teacher.home / "class"
    teacher.run("autograder", "init", str(folder), folder=ROOT)
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\n")
    teacher.run("autograder", "release", STEM, "--course", str(folder), folder=ROOT)
    teacher.run("nbgrader", "release_assignment", STEM, folder=folder)

    config = student.home / "nbgrader_config.py"  # all that a student needs
    config.write_text(
        f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.course_id = 'transformer'\n"
    )
    student.run("nbgrader", "fetch_assignment", STEM, folder=student.home)
    notebook = student.home / STEM / f"{STEM}.ipynb"
    write_answers(notebook)
    student.run("nbgrader", "submit", STEM, folder=student.home)

    said = teacher.run("nbgrader", "collect", STEM, folder=folder)
    assert "cheating attempt" not in said
    collected = Course(folder).submitted(STEM, student.name).parent
    mailed = Course(folder).submitted(STEM, "ada").parent  # another one came by mail: no secret, no time
    copy = (
        f"from shutil import copytree; copytree({str(collected)!r}, {str(mailed)!r}, ignore=lambda *_: {NOT_BY_MAIL})"
    )
    teacher.run("timeit", "-n1", "-r1", copy, folder=ROOT)
    teacher.run("autograder", "grade", "--course", str(folder), folder=ROOT)
    verdict = read_verdict(Course(folder).verdict(STEM, student.name))
    assert verdict.status == "graded"
    assert verdict.points == verdict.max_points > 0
    teacher.run("autograder", "feedback", "--course", str(folder), folder=ROOT)
    teacher.run("nbgrader", "release_feedback", STEM, folder=folder)

    student.run("nbgrader", "fetch_feedback", STEM, folder=student.home)
    (page,) = (student.home / STEM / "feedback").rglob("*.html")
    assert page.read_bytes() == Course(folder).feedback(STEM, student.name).read_bytes()


def write_answers(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = solutions(STEM).get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    path.write_text(json.dumps(notebook), encoding="utf-8")


@pytest.mark.skipif(os.getuid() == 0, reason="as root the same is tried between two accounts")
def test_the_way_there_and_back_within_one_account(tmp_path: Path, exchange: Path) -> None:
    me = Person(own_name(), tmp_path)
    go_the_whole_way(me, me, exchange)


def test_the_way_there_and_back_between_two_accounts(exchange: Path) -> None:
    with accounts("teacher", "student") as (teacher, student):
        go_the_whole_way(teacher, student, exchange)
        verdict = teacher.home / "class" / "verdicts" / STEM / f"{student.name}.json"
        with pytest.raises(AssertionError, match="Permission denied"):  # the class is closed to students
            student.run("json.tool", str(verdict), folder=ROOT)
