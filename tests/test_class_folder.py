"""The folder of a class: how it is made, and that its configuration holds for every command."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest
from grading import STEM, Here, hand_in, solved

from autograder import cli, work
from autograder.class_folder import make_class, require_class
from autograder.course import Course
from autograder.errors import CourseError
from autograder.grade import grade
from autograder.release import release

pytestmark = pytest.mark.xdist_group("judge")
PENALTY = """
from nbgrader.plugins import BasePlugin


class TenPoints(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 10.0


c.AssignLatePenalties.plugin_class = TenPoints
"""


@pytest.fixture(scope="module", autouse=True)
def warm_process():
    yield
    work.forget_warm_process()


def test_a_class_is_made_once(tmp_path, capsys):
    assert cli.main(["init", str(tmp_path / "my class")]) == 0
    made = {path.name for path in (tmp_path / "my class").iterdir()}
    assert made == {"nbgrader_config.py", "hidden_seed", "README.md", ".gitignore", "exchange"}
    assert len((tmp_path / "my class/README.md").read_text().strip().splitlines()) == 5  # a heading and three lines
    assert (tmp_path / "my class/hidden_seed").stat().st_mode & 0o077 == 0
    before = {path: path.read_bytes() for path in (tmp_path / "my class").iterdir() if path.is_file()}
    (tmp_path / "my class/README.md").write_text("mine")
    assert cli.main(["init", str(tmp_path / "my class")]) == 0
    assert (tmp_path / "my class/README.md").read_text() == "mine"
    assert (tmp_path / "my class/hidden_seed").read_bytes() == before[tmp_path / "my class/hidden_seed"]
    assert "nothing was changed" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["collect x", "grade", "feedback", "report", "export", f"judge {STEM} ada"])
def test_without_a_class_a_command_says_how_to_make_one(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.split()) == 1
    assert "python -m autograder init class" in capsys.readouterr().err
    assert not (tmp_path / "class").exists()


def test_a_class_in_the_former_place_is_named(tmp_path):
    (tmp_path / "autograder" / "submitted").mkdir(parents=True)
    with pytest.raises(CourseError, match=r"There is one in .*autograder: say --course"):
        require_class(tmp_path / "class")


def test_a_broken_configuration_gets_a_sentence(tmp_path):
    make_class(tmp_path)
    (tmp_path / "nbgrader_config.py").write_text("c = = 1")
    with pytest.raises(CourseError, match=r"nbgrader_config\.py cannot be read \(SyntaxError"):
        Course(tmp_path).config()


@pytest.fixture
def course(tmp_path, released_class):
    return Course(Path(shutil.copytree(released_class.root, tmp_path / "course")))


@pytest.fixture(scope="module")
def released_class(tmp_path_factory):
    made = Course(tmp_path_factory.mktemp("class"))
    release(made, [STEM])
    return made


def test_the_gradebook_of_the_configuration_is_the_one_that_is_written(course, tmp_path):
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write(
            f"\nc.CourseDirectory.db_url = 'sqlite:///{tmp_path}/elsewhere.db'\nc.CourseDirectory.course_id = 'x'"
        )
    assert course.course_id == "x"
    (course.root / "gradebook.db").unlink()
    release(course, [STEM])
    assert (tmp_path / "elsewhere.db").exists()
    assert not (course.root / "gradebook.db").exists()
    assert Course(course.root, "sqlite:////said.db").db_url == "sqlite:////said.db"


def score_of(course: Course, student: str) -> float:
    with course.gradebook() as gradebook:
        found = gradebook.find_submission(STEM, student)
        return found.score - found.late_submission_penalty


def due(course: Course, when: datetime.datetime) -> None:
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(STEM, duedate=when)


def test_a_penalty_of_the_class_counts_and_an_extended_deadline_takes_it_back(course):
    hand_in(course, "ada", solved(), "2026-09-02 10:00:00 UTC")
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write(PENALTY)
    due(course, datetime.datetime(2026, 9, 1))
    (verdict,) = grade(course, STEM, Here()).graded
    assert verdict.penalty == 10
    assert score_of(course, "ada") == verdict.points - 10
    assert grade(course, STEM, Here()).unchanged == ["ada"]
    due(course, datetime.datetime(2026, 9, 3))
    (change,) = grade(course, STEM, Here()).changes
    assert (change.before, change.after, change.exercises) == (
        verdict.points - 10,
        verdict.points,
        ("the late penalty",),
    )
    assert score_of(course, "ada") == verdict.points
