"""class.toml: what it says counts, and nonsense gets a sentence."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from grading import STEM, Here, grades, hand_in, solved
from nbgrader.apps import NbGraderAPI

from autograder.authoring import build
from autograder.authoring.assignment import assignment_notebook, assignments_of
from autograder.authoring.release import quiet_nbgrader, release
from autograder.classroom.class_file import TEMPLATE, AssignmentRules, Late, Rules, read_rules
from autograder.classroom.class_folder import make_class
from autograder.classroom.course import Course
from autograder.classroom.grade import grade
from autograder.cli import strangers
from autograder.errors import CourseError
from autograder.hidden import all_hidden
from autograder.judging import work
from autograder.judging.judge import exercises_in
from autograder.judging.verdict import read_verdict
from autograder.project import written_points_in
from autograder.reporting.gradebook import gradebook_entries
from autograder.reporting.written import mark_written
from course_lib import check
from course_lib.exercises import all_exercises

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]


def said(folder: Path, text: str) -> Rules:
    folder.mkdir(exist_ok=True)
    (folder / "class.toml").write_text(text, encoding="utf-8")
    return read_rules(folder)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_a_new_class_decides_nothing(tmp_path):
    make_class(tmp_path)
    assert read_rules(tmp_path) == Rules() == read_rules(tmp_path / "without a file")
    assert assignments_of(Rules())[0] == "00_start_here"


def test_every_line_of_the_new_file_can_be_used(tmp_path):
    """Each line, without its #, is understood and names things that exist."""
    used = [line for line in TEMPLATE.split("\n") if re.match(r"(# )?(\[|\w+ = )", line)]
    lines = [line.removeprefix("# ") for line in used]
    rules = said(tmp_path, "\n".join(lines))
    assert rules.late == Late(10, 50, 15)
    assert rules.counts == "last"
    assert assignments_of(rules) == ["02_masks", "first_weeks"]
    assert rules.of(STEM).due == datetime(2026, 11, 3, 22, 59)  # in Berlin it is an hour later
    assert rules.of(STEM).extension("ben") == timedelta(days=3)
    assert rules.of(STEM).due_for("ada") == datetime(2026, 11, 10, 22, 59)
    for name in assignments_of(rules):
        assignment_notebook(rules.of(name))


def test_the_example_of_the_readme_is_one(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", (work.ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    rules = said(tmp_path, example)
    assert rules.counts == "last_on_time"
    for name in assignments_of(rules):
        assignment_notebook(rules.of(name))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("counts = last", "cannot be read"),
        ('count = "last"', "nothing called 'count'. Did you mean counts"),
        ('counts = "first"', '"last" or "last_on_time"'),
        ('time_zone = "Berlin"', "no time zone 'Berlin'"),
        ("[late]\npercent_per_day = -1", "late.percent_per_day should be a number"),
        ('[assignments.02_masks]\ndue = "3 November"', 'as in "2026-11-03 23:59"'),
        ('[assignments.02_masks]\ndue = "2026-11-03"', "say the time too"),
        ('[assignments.02_masks]\ndrop = "window_mask"', "should be a list of names"),
        ('[assignments.02_masks]\ndrop = ["a"]\nexercises = ["b"]', "both drop and exercises"),
        ("[assignments.02_masks]\npoints = { causal_mask = 0.3 }", "whole or half points"),
        ('[extensions.02_masks]\nada = "3 days"', "needs a deadline to extend"),
        ('[assignments.02_masks]\ndeadline = "x"', "has nothing called 'deadline'"),
    ],
)
def test_what_cannot_be_meant_gets_a_sentence(text, why, tmp_path):
    with pytest.raises(CourseError, match=r"class\.toml") as error:
        said(tmp_path, text)
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[assignments.02_masks]\ndrop = ["causal_maks"]', "Did you mean causal_mask"),
        ("[assignments.first]\n", "There is no notebook first. .* notebooks = "),
        ('[assignments.first]\nnotebooks = ["02_masks", "01_dot_product_attention"]', "in the order of the course"),
        ('[assignments.02_masks]\nexercises = ["softmax"]', "02_masks has no exercise softmax"),
        (
            '[assignments.02_masks]\ndrop = ["why_low_loss"]\npoints = { why_low_loss = 3 }',
            "why_low_loss is a written question",
        ),
    ],
)
def test_names_that_there_are_not_get_a_sentence_when_it_is_released(text, why, tmp_path):
    rules = said(tmp_path, text)
    with pytest.raises(CourseError, match=why):
        assignment_notebook(rules.of(assignments_of(rules)[0]))


@pytest.mark.parametrize(
    ("late", "seconds", "penalty"),
    [
        (Late(), 86400, 0),
        (Late(10), 1, 4),
        (Late(10), 86400, 4),
        (Late(10), 86401, 8),
        (Late(10, 50), 99 * 86400, 20),
        (Late(10, 50, grace_minutes=15), 900, 0),
        (Late(10, 50, grace_minutes=15), 901, 4),
    ],
)
def test_what_lateness_costs(late, seconds, penalty):
    assert late.penalty(40, seconds) == penalty


@pytest.mark.parametrize(("wanted", "shown", "hidden"), [(12, 8, 4), (7, 4.5, 2.5), (1, 0.5, 0.5), (100, 66.5, 33.5)])
def test_points_are_shared_between_the_check_and_the_hidden_cases(wanted, shown, hidden):
    rules = AssignmentRules(STEM, (STEM,), points={"causal_mask": wanted})
    assert rules.worth("causal_mask", 4.0, 2.0) == (shown, hidden)
    assert rules.worth("padding_mask", 4.0, 2.0) == (4.0, 2.0)


def test_the_student_sees_the_points_of_the_class():
    exercise = all_exercises()["causal_mask"]
    full = check("causal_mask", exercise.reference, practice=True, points=9, hidden_points=3)
    assert full.score == "9 of 9 points here, 3 more when graded"
    half = check("causal_mask", exercise.misconceptions[0], practice=True, points=9, hidden_points=3)
    usual = check("causal_mask", exercise.misconceptions[0], practice=True)
    assert half.points == round(9 * usual.points / usual.max_points, 2) < 9


# --- from release to grade -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released_class(tmp_path_factory):
    made = Course(tmp_path_factory.mktemp("class"))
    release(made, [STEM])
    return made


@pytest.fixture
def course(tmp_path, released_class):
    return Course(Path(shutil.copytree(released_class.root, tmp_path / "course")))


def text_of(course: Course, assignment: str = STEM) -> str:
    return "\n".join(cell.source for cell in nbformat.read(course.release(assignment), as_version=4).cells)


CHOSEN = """
[assignments.02_masks]
drop = ["window_mask"]
points = { causal_mask = 9, QUESTION = 5 }
"""


def test_dropped_exercises_and_changed_points_in_mid_term(course):
    hand_in(course, "ada", solved())
    hand_in(
        course,
        "ben",
        solved(causal_mask="def causal_mask(n):\n    return torch.tril(torch.ones(n, n), diagonal=1).bool()"),
    )
    before = {v.student: v for v in grade(course, STEM, Here()).graded}
    question = next(name for name in grades(course, "ada") if not name.endswith(("_check", "_hidden")))
    said(course.root, CHOSEN.replace("QUESTION", question))
    with pytest.raises(CourseError, match="Release again"):
        grade(course, STEM, Here())
    release(course, [STEM])
    assert "**Exercise `window_mask`** · not counted in this class" in text_of(course)
    assert "5 points, marked by hand" in text_of(course)
    summary = grade(course, STEM, Here())
    assert all(set(change.exercises) == {"causal_mask", "window_mask (dropped)"} for change in summary.changes)
    assert {change.student for change in summary.changes} == {"ada", "ben"}
    after = {v.student: v for v in summary.graded}
    assert {c.student: (c.before, c.after) for c in summary.changes} == {
        student: (before[student].points, after[student].points) for student in after
    }
    ada, ben = after["ada"], after["ben"]
    assert ada.points == ada.max_points
    assert ada.notes == before["ada"].notes == ()  # nobody is told that they changed a locked cell
    assert [e.name for e in ada.exercises] == [e.name for e in before["ada"].exercises if e.name != "window_mask"]
    (own,) = [e for e in ada.exercises if e.name == "causal_mask"]
    assert own.max_points + own.hidden_max_points == own.points + own.hidden_points == 9
    (bens,) = [e for e in ben.exercises if e.name == "causal_mask"]
    (bens_before,) = [e for e in before["ben"].exercises if e.name == "causal_mask"]
    assert bens.points == round(bens_before.points * bens.max_points / bens_before.max_points, 2)
    with course.gradebook() as gradebook:
        entered = gradebook.find_submission(STEM, "ada")
        assert entered.score == ada.points
        assert gradebook.find_grade_cell(question, STEM, STEM).max_score == 5
    said(course.root, "")
    with pytest.raises(CourseError, match="Release again"):
        grade(course, STEM, Here())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("points = { QUESTION = 3 }", "QUESTION is worth 3 points now, but was worth 2"),
        ('notebooks = ["00_start_here", "02_masks"]', "made from 00_start_here, 02_masks by class.toml, but was"),
        ('notebooks = ["02_maks"]', "made from 02_maks by class.toml, but was released from 02_masks"),
        ("points = { causal_maks = 3 }", "names causal_maks, which 02_masks does not have"),
        ('exercises = ["softmax"]', "padding_mask does not count in 02_masks any more"),
    ],
)
def test_nothing_is_graded_until_the_release_agrees_with_the_file(text, why, course):
    hand_in(course, "ada", solved())
    question = next(name for name in written_points_in(build.source_text(STEM)))
    said(course.root, f"[assignments.{STEM}]\n{text.replace('QUESTION', question)}\n")
    with pytest.raises(CourseError, match=why.replace("QUESTION", question)):
        grade(course, STEM, Here())
    assert not course.autograded(STEM, "ada").exists()


def test_a_written_answer_with_the_usual_points_again_needs_a_release_too(course):
    (question, points), *_ = written_points_in(build.source_text(STEM)).items()
    said(course.root, f"[assignments.{STEM}]\npoints = {{ {question} = 5 }}\n")
    release(course, [STEM])
    hand_in(course, "ada", solved())
    assert grade(course, STEM, Here()).graded
    said(course.root, "")
    with pytest.raises(CourseError, match=f"{question} is worth {points:g} points now, but was worth 5"):
        grade(course, STEM, Here())


def test_an_assignment_made_from_two_notebooks(tmp_path):
    course = Course(tmp_path)
    said(
        tmp_path,
        '[assignments.both]\nnotebooks = ["00_start_here", "02_masks"]\nexercises = ["softmax", "causal_mask"]\n',
    )
    release(course, ["both"])
    notebook = nbformat.read(course.release("both"), as_version=4)
    assert exercises_in(notebook.cells) == ["softmax", "causal_mask"]
    assert text_of(course, "both").count("# @title Set-up") == 1
    sources = nbformat.read(course.source("both"), as_version=4).cells
    answers = {c.id: c.source for c in sources if c.metadata.get("nbgrader", {}).get("solution")}
    for cell in notebook.cells:
        if cell.id in ("softmax", "causal_mask"):
            cell.source = answers[cell.id]
    path = course.submitted("both", "ada")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook))
    (verdict,) = grade(course, "both", Here()).graded
    names = ("softmax", "causal_mask")
    worth = sum(all_exercises()[name].max_points + all_hidden()[name].points for name in names)
    assert (verdict.status, verdict.points, verdict.max_points) == ("graded", worth, worth)


DEADLINE = """
time_zone = "UTC"
roster = "roster.csv"
[late]
percent_per_day = 10
[assignments.02_masks]
due = "2026-09-01 12:00"
"""


def test_deadlines_penalties_and_extensions_are_those_of_the_file(course):
    (course.root / "roster.csv").write_text(
        "id,first_name,last_name,extra_time\nada,Ada,Lovelace,\nben,Ben,Byron,1 day\n"
    )
    said(course.root, DEADLINE)
    for student in ("ada", "ben"):
        hand_in(course, student, solved(), "2026-09-02 10:00:00 UTC")
    found = {v.student: v for v in grade(course, STEM, Here()).graded}
    full = found["ada"].points
    assert found["ada"].penalty == round(full / 10, 2)
    assert found["ben"].penalty == 0
    with course.gradebook() as gradebook:
        assert gradebook.find_student("ada").last_name == "Lovelace"
        assert gradebook.find_assignment(STEM).duedate == datetime(2026, 9, 1, 12)
        assert gradebook.find_submission(STEM, "ben").duedate == datetime(2026, 9, 2, 12)
    said(course.root, DEADLINE + '[extensions.02_masks]\nada = "2026-09-02 10:00"\n')
    assert strangers(course, STEM) == []
    (change,) = grade(course, STEM, Here()).changes
    assert (change.student, change.before, change.after) == ("ada", full - found["ada"].penalty, full)
    said(course.root, DEADLINE.replace("= 10", "= 20") + '[extensions.02_masks]\naad = "1 day"\n')
    assert strangers(course, STEM) == ["aad"]
    assert {c.student: c.after for c in grade(course, STEM, Here()).changes} == {"ada": full - round(full / 5, 2)}
    with course.gradebook() as gradebook:
        gradebook.find_submission_notebook(STEM, STEM, "ada").late_submission_penalty = None
        gradebook.db.commit()
    said(course.root, DEADLINE.replace("= 10", "= 30") + '[extensions.02_masks]\nben = "2026-09-01 20:00"\n')
    for student in ("ada", "ben"):
        with quiet_nbgrader():  # formgrader's button
            assert NbGraderAPI(config=course.config()).autograde(STEM, student, force=True)["success"]
        with course.gradebook() as gradebook:
            penalty = gradebook.find_submission(STEM, student).late_submission_penalty
        verdict = read_verdict(course.verdict(STEM, student))
        assert verdict.penalty == penalty == round(full * 0.3, 2)
    assert grade(course, STEM, Here()).changes == []


def test_a_deadline_that_was_removed_from_the_file_still_counts_and_that_is_said(course):
    said(course.root, DEADLINE.replace('roster = "roster.csv"\n', ""))
    hand_in(course, "ada", solved(), "2026-09-02 10:00:00 UTC")
    first = grade(course, STEM, Here())
    assert first.notes == [] and first.graded[0].penalty > 0
    said(course.root, 'time_zone = "Asia/Tokyo"\n[late]\npercent_per_day = 10\n')
    again = grade(course, STEM, Here())
    sentence = f"class.toml names no deadline for {STEM}, so that of the gradebook counts: 2026-09-01 21:00 JST."
    assert again.notes == [sentence]
    assert again.changes == []


def test_changed_scores_are_those_of_the_gradebook(course):
    """With marks given by hand, and without what another command has changed before."""
    said(course.root, DEADLINE.replace('roster = "roster.csv"\n', ""))
    hand_in(course, "ada", solved(), "2026-09-02 10:00:00 UTC")
    full = grade(course, STEM, Here()).graded[0].points

    def mark(points):
        with course.gradebook() as gradebook:
            notebook = gradebook.find_submission_notebook(STEM, STEM, "ada")
            next(grade for grade in notebook.grades if grade.auto_score is None).manual_score = points
            gradebook.db.commit()

    mark(2.0)
    mark_written(course, [STEM])  # which takes the penalty off the mark too
    assert grade(course, STEM, Here(), force=True).changes == []
    hand_in(course, "ada", solved(causal_mask="def causal_mask(n):\n    return None"))
    (change,) = grade(course, STEM, Here()).changes
    assert (change.before, change.exercises[0]) == (pytest.approx(0.9 * (full + 2)), "causal_mask")
    (entry,) = gradebook_entries(course, STEM).values()
    assert entry.by_hand == 1 and change.after == pytest.approx(entry.score - entry.penalty)
    mark(1.0)
    (again,) = grade(course, STEM, Here()).changes
    assert (again.before, again.exercises) == (pytest.approx(change.after - 1), ("the late penalty",))


def test_two_rules_for_lateness_are_refused(course):
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write('\nc.AssignLatePenalties.plugin_class = "nbgrader.plugins.LateSubmissionPlugin"\n')
    course.config()
    said(course.root, DEADLINE)
    with pytest.raises(CourseError, match="Remove one of them"):
        course.config()
