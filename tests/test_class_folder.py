"""The folder of a class: how it is made, and that its configuration holds for every command."""

from __future__ import annotations

import dataclasses
import datetime
import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from grading import STEM, Here, hand_in, solved
from nbgrader.apps import NbGraderAPI

from autograder import cli
from autograder.authoring import build
from autograder.authoring.release import release
from autograder.classroom import book
from autograder.classroom.class_folder import make_class, require_class
from autograder.classroom.course import Course
from autograder.classroom.grade import Change, Summary, grade
from autograder.errors import CourseError
from autograder.judging import work
from autograder.judging.verdict import Verdict
from course_lib.exercises import all_exercises

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]
PENALTY = """
from nbgrader.plugins import BasePlugin


class TenPoints(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 10.0


c.AssignLatePenalties.plugin_class = TenPoints
"""


def test_a_class_is_made_once(tmp_path, capsys):
    assert cli.main(["init", str(tmp_path / "my class")]) == 0
    made = {path.name for path in (tmp_path / "my class").iterdir()}
    assert made == {"class.toml", "nbgrader_config.py", "hidden_seed", "README.md", ".gitignore", "exchange"}
    assert (tmp_path / "my class").stat().st_mode & 0o077 == 0
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
    assert capsys.readouterr().err.strip().endswith("python -m autograder init")
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


def test_a_mistake_in_class_toml_is_not_blamed_on_the_configuration(tmp_path):
    make_class(tmp_path)
    (tmp_path / "class.toml").write_text("late = 1")
    with pytest.raises(CourseError, match=r"class\.toml") as error:
        Course(tmp_path).config()
    assert "nbgrader_config" not in str(error.value)


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


# --- an assignment that changes in mid-term --------------------------------------------------------------------------


def test_changed_points_want_a_new_release_and_then_everybody_is_graded_by_them(course, monkeypatch):
    hand_in(course, "ada", solved())
    (before,) = grade(course, STEM, Here()).graded
    exercise = all_exercises()["causal_mask"]
    first, *rest = exercise.properties
    for points in (first.points + 3, first.points - 0.5):
        monkeypatch.setattr(exercise, "properties", [dataclasses.replace(first, points=points), *rest])
        with pytest.raises(CourseError, match=f"release {STEM}"):
            grade(course, STEM, Here())
        release(course, [STEM])
        (after,) = grade(course, STEM, Here()).graded
        assert (after.status, after.points) == ("graded", before.points - first.points + points)
        assert score_of(course, "ada") == after.points == after.max_points


def without(name: str):
    """The instructor's notebook after an exercise was dropped."""
    notebook = build.solution_notebook(STEM)
    ids = (name, f"{name}_check", f"{name}_hidden")
    notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") not in ids]
    return notebook


def marked_by_hand(course: Course, cell: str, score: float | None = None) -> float | None:
    with course.gradebook() as gradebook:
        found = gradebook.find_grade(cell, STEM, STEM, "ada")
        if score is not None:
            found.manual_score = score
            gradebook.db.commit()
        return found.manual_score


def test_an_exercise_may_be_dropped_and_added_again_without_losing_a_mark(course, monkeypatch):
    hand_in(course, "ada", solved())
    (before,) = grade(course, STEM, Here()).graded
    with course.gradebook() as gradebook:
        (question, *_) = [c.name for c in gradebook.find_notebook(STEM, STEM).grade_cells if c.cell_type == "markdown"]
    marked_by_hand(course, question, 1.5)
    marked_by_hand(course, "causal_mask_check", 2.5)
    whole = build.solution_notebook(STEM)
    smaller = without("causal_mask")
    monkeypatch.setattr(build, "solution_notebook", lambda stem: smaller)
    told: list[str] = []
    release(course, [STEM], tell=told.append)
    (after,) = grade(course, STEM, Here()).graded
    assert {e.name for e in before.exercises} - {e.name for e in after.exercises} == {"causal_mask"}
    assert [(e.name, e.message) for e in after.exercises if e.outcome != "right"] == []
    assert after.points == after.max_points
    assert marked_by_hand(course, question) == 1.5
    table = course.root / f"kept/marks_of_dropped_exercises_{STEM}.csv"
    assert table.read_text().splitlines()[1:] == ["ada,causal_mask_check,2.5,"]
    monkeypatch.setattr(build, "solution_notebook", lambda stem: whole)
    release(course, [STEM], tell=told.append)
    (again,) = grade(course, STEM, Here()).graded
    assert [e.name for e in again.exercises] == [e.name for e in before.exercises]
    assert (again.points, marked_by_hand(course, question)) == (before.points, 1.5)
    assert marked_by_hand(course, "causal_mask_check") == 2.5
    assert not table.exists()
    (own,) = [e for e in before.exercises if e.name == "causal_mask"]
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(STEM, "ada").score == before.points + 1.5 - own.points + 2.5
    assert ["kept until" in sentence for sentence in told] == [True, False]
    assert told[1] == f"{STEM}: marks given by hand that count again: 1"


def test_a_release_that_fails_leaves_the_former_one_and_every_mark(course, monkeypatch):
    hand_in(course, "ada", solved())
    grade(course, STEM, Here())
    marked_by_hand(course, "causal_mask_check", 2.5)
    before, source = course.release(STEM).read_bytes(), course.source(STEM).read_bytes()
    broken = without("causal_mask")
    broken.cells[-1].metadata["nbgrader"] = {"grade": True, "schema_version": 3}  # what nbgrader does not understand
    monkeypatch.setattr(build, "solution_notebook", lambda stem: broken)
    with pytest.raises(CourseError, match="could not release"):
        release(course, [STEM])
    assert (course.release(STEM).read_bytes(), course.source(STEM).read_bytes()) == (before, source)
    assert marked_by_hand(course, "causal_mask_check") == 2.5
    assert grade(course, STEM, Here()).unchanged == ["ada"]
    assert not list(course.root.glob(".release*"))


def test_marks_that_cannot_be_kept_stop_a_release_before_it_drops_anything(course, monkeypatch):
    hand_in(course, "ada", solved())
    grade(course, STEM, Here())
    marked_by_hand(course, "causal_mask_check", 2.5)
    (course.root / "kept").write_text("a file where the folder should be")
    smaller = without("causal_mask")
    monkeypatch.setattr(build, "solution_notebook", lambda stem: smaller)
    with pytest.raises(FileExistsError):
        release(course, [STEM])
    assert marked_by_hand(course, "causal_mask_check") == 2.5
    assert grade(course, STEM, Here()).unchanged == ["ada"]


def test_a_mark_that_never_left_is_not_replaced_by_an_older_one(course, monkeypatch):
    """As after an interruption between keeping the marks and dropping them."""
    hand_in(course, "ada", solved())
    grade(course, STEM, Here())
    marked_by_hand(course, "causal_mask_check", 2.5)
    (course.root / "kept").mkdir()
    table = course.root / f"kept/marks_of_dropped_exercises_{STEM}.csv"
    table.write_text("student,cell,score,comment\nada,causal_mask_check,1.0,\n")
    release(course, [STEM])
    assert marked_by_hand(course, "causal_mask_check") == 2.5
    assert not table.exists()


def test_an_interrupt_that_reaches_nbgrader_is_no_failure(course, monkeypatch, capsys):
    def interrupted(*_, **__):
        return {"success": False, "log": "[ERROR] Canceled", "error": "Traceback …\nKeyboardInterrupt\n"}

    monkeypatch.setattr(NbGraderAPI, "generate_assignment", interrupted)
    before = course.release(STEM).read_bytes()
    assert cli.main(["--course", str(course.root), "release", STEM]) == 130
    assert "Stopped" in capsys.readouterr().err
    assert course.release(STEM).read_bytes() == before


def test_marks_that_are_higher_than_the_points_now_are_told(course):
    hand_in(course, "ada", solved())
    grade(course, STEM, Here())
    marked_by_hand(course, "why_low_loss", 2.0)
    (course.root / "class.toml").write_text(f"[assignments.{STEM}]\npoints = {{ why_low_loss = 1 }}\n")
    told: list[str] = []
    release(course, [STEM], tell=told.append)
    assert told == [
        f"{STEM}: marks given by hand that are higher than what why_low_loss is worth now (1): 1. They count as they "
        "are until you change them."
    ]
    assert marked_by_hand(course, "why_low_loss") == 2.0


def test_a_release_that_fails_says_what_was_released_before_it(course, capsys):
    (course.root / "class.toml").write_text(f'[assignments.{STEM}]\n[assignments.03_positions]\ndrop = ["x"]\n')
    assert cli.main(["--course", str(course.root), "release"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("1 released: ")
    assert "03_positions has no exercise x" in said.err


def test_nothing_is_released_while_the_class_is_being_graded(course):
    before = course.release(STEM).stat().st_mtime_ns
    with book.one_at_a_time(course), pytest.raises(CourseError, match="is being graded or released already"):
        release(course, [STEM])
    assert course.release(STEM).stat().st_mtime_ns == before


def test_a_table_of_marks_that_cannot_be_read_stops_a_release_before_it_drops_anything(course, monkeypatch):
    hand_in(course, "ada", solved())
    grade(course, STEM, Here())
    marked_by_hand(course, "causal_mask_check", 2.5)
    (course.root / "kept").mkdir()
    (course.root / f"kept/marks_of_dropped_exercises_{STEM}.csv").write_text("student,cell,score,comment\nada,x,two,\n")
    smaller = without("causal_mask")
    monkeypatch.setattr(build, "solution_notebook", lambda stem: smaller)
    with pytest.raises(CourseError, match=r"kept/marks_of_dropped_exercises_02_masks.csv cannot be read"):
        release(course, [STEM])
    assert marked_by_hand(course, "causal_mask_check") == 2.5


# --- sentences -------------------------------------------------------------------------------------------------------


def test_without_dask_a_scheduler_gets_its_sentence(course, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "autograder.classroom.cluster", raising=False)
    assert cli.main(["--course", str(course.root), "grade", "--scheduler", "tcp://127.0.0.1:1"]) == 1
    assert "pip install -c constraints.txt distributed" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("is_there_before", [True, False])
def test_a_folder_that_others_may_open_is_named(is_there_before, tmp_path, capsys):
    folder = tmp_path / "my class"
    if is_there_before:
        folder.mkdir()
        folder.chmod(0o755)
    assert cli.main(["init", str(folder)]) == 0
    assert (f"chmod 700 '{folder}'" in capsys.readouterr().out) is is_there_before
    assert bool(folder.stat().st_mode & 0o077) is is_there_before, "what is there is left alone"


def test_what_the_machine_refuses_is_one_clear_sentence(course, monkeypatch, capsys):
    hand_in(course, "ada", solved())
    grade(course, STEM, Here())
    where = ["--course", str(course.root)]
    (course.root / "export").write_text("a file where the folder should be")
    assert cli.main([*where, "export"]) == 1
    assert f"{course.root}/export: File exists." in capsys.readouterr().err

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        assert cli.main([*where, "report"]) == 1
    assert capsys.readouterr().err.startswith("No space left on device.")
    (course.root / "gradebook.db").write_bytes(b"no database " * 100)
    for suffix in ("-wal", "-shm"):
        (course.root / f"gradebook.db{suffix}").unlink(missing_ok=True)
    assert cli.main([*where, "report"]) == 1
    assert "The gradebook cannot be used: file is not a database." in capsys.readouterr().err


def test_a_fault_of_the_grader_keeps_its_traceback(course, monkeypatch):
    monkeypatch.setattr("autograder.reporting.report.graded_assignments", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["--course", str(course.root), "report"])


def test_whoever_is_in_the_folder_of_the_class_is_told_so(course, monkeypatch, capsys):
    """nbgrader's commands have to be given there, so people are."""
    monkeypatch.chdir(course.root)
    assert cli.main(["grade"]) == 1
    assert "The folder that you are in is one: say --course ." in capsys.readouterr().err
    assert cli.main(["report", "--course", "."]) == 1
    assert "Nothing has been graded yet" in capsys.readouterr().err


def test_a_source_that_cannot_be_built_gets_its_sentence_and_the_old_release_stays(course, monkeypatch, capsys):
    def broken(stem):
        raise build.SourceError(f"{stem}: the exercise needs ### BEGIN SOLUTION")

    monkeypatch.setattr(build, "solution_notebook", broken)
    before = course.release(STEM).read_bytes()
    assert cli.main(["--course", str(course.root), "release", STEM]) == 1
    said = capsys.readouterr().err
    assert "The sources cannot be built" in said and "BEGIN SOLUTION" in said
    assert course.release(STEM).read_bytes() == before


def test_an_interrupted_regrading_says_how_to_go_on(capsys):
    """The same command with --force would begin from the start."""
    cli.show_summary(Course(), Summary(STEM, left=["ada", "ben"]), is_forced=True)
    said = capsys.readouterr().out
    assert "the same command" not in said
    assert "2 are left, with the earlier results." in said
    assert f"python -m autograder grade {STEM} --force --students ada ben" in said


def test_after_an_interrupted_regrading_of_everything_each_assignment_has_its_command(capsys):
    options = cli.parser().parse_args(["grade", "--force"])
    cli.show_what_remains(Course(), ["03_positions", "05_sublayers"], options)
    for line, assignment in zip(capsys.readouterr().out.splitlines(), ("03_positions", "05_sublayers"), strict=True):
        assert line.startswith(f"{assignment} was not reached: ")
        assert line.endswith(f"python -m autograder grade {assignment} --force")
    cli.show_what_remains(Course(), ["03_positions"], cli.parser().parse_args(["grade"]))
    assert capsys.readouterr().out == ""


def test_people_may_be_named_as_the_roster_knows_them(tmp_path):
    """Messages call them `Ada Lovelace (17)`: whoever types the name must not read that she has handed in nothing."""
    make_class(tmp_path)
    (tmp_path / "class.toml").write_text('roster = "people.csv"')
    (tmp_path / "people.csv").write_text(
        "id,name,email\n17,Ada Lovelace,ada@x.org\n18,Eva E,e@x.org\n19,Eva E,f@x.org\n"
    )
    said = ["ada lovelace", "17", "ada@x.org", "Eva E", "nobody"]
    options = cli.parser().parse_args(["grade", "--course", str(tmp_path), "--students", *said])
    cli.course_of(options)
    assert options.students == ["17", "17", "17", "Eva E", "nobody"]


def test_messages_name_people_as_the_roster_does(tmp_path, capsys):
    (tmp_path / "class.toml").write_text('roster = "people.csv"')
    (tmp_path / "people.csv").write_text("id,name\n17,Ada Lovelace\n18,\n")
    zeroed = [Verdict(student, STEM, "zeroed", "There is no notebook.") for student in ("17", "18", "19")]
    changed = [Change("17", 3, 4, ("causal_mask",))]
    cli.show_summary(Course(tmp_path), Summary(STEM, graded=zeroed, changes=changed))
    said = capsys.readouterr().out
    assert [line.split(" — ")[0] for line in said.splitlines() if "zeroed:" in line] == [
        "  zeroed: Ada Lovelace (17)",
        "  zeroed: 18",
        "  zeroed: 19",
    ]
    assert "│ Ada Lovelace (17) │" in said


def test_without_its_packages_the_grader_says_what_to_install():
    program = "import runpy, sys; sys.modules['rich'] = None; runpy.run_module('autograder', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], cwd=work.ROOT, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "The grader needs rich" in done.stderr and "pip install -e '.[grader]'" in done.stderr
