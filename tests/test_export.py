"""CSV files that a spreadsheet or an LMS can take: complete, in a stable order, and without formulas from students."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from made_up_class import ASSIGNMENT, HOSTILE_NAME, copy_of, make_class, mark_written_answers, with_answers

from autograder.classroom.course import Course, CourseError
from autograder.judging.verdict import verdicts
from autograder.reporting.export import cell, defused, export, misconception_rows

pytestmark = [
    pytest.mark.xdist_group("report"),  # one class for all of these
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own
]


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    return make_class(tmp_path_factory.mktemp("class"))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def exported(course: Course, folder: Path) -> dict[str, list[dict[str, str]]]:
    return {path.name: table(path) for path in export(course, folder)}


def test_grades_are_nbgraders_and_know_scores_by_hand(course, tmp_path):
    before = {line["student_id"]: line for line in exported(course, tmp_path)["grades.csv"]}
    assert float(before["ada"]["score"]) == float(before["ada"]["max_score"])
    assert before["ada"]["last_name"] == "Doe, ada"
    assert before["zed"]["score"] == "0.0"
    marked = copy_of(course, tmp_path)
    mark_written_answers(marked)
    after = {line["student_id"]: line for line in exported(marked, tmp_path)["grades.csv"]}
    assert float(after["alan"]["score"]) == float(before["alan"]["score"]) + 1
    assert all(None not in line and None not in line.values() for line in after.values())


def test_line_for_each_student_and_exercise(course, tmp_path):
    lines = [line for line in exported(course, tmp_path)["exercises.csv"] if line["exercise"]]
    expected = [(v.student, e) for v in verdicts(course, ASSIGNMENT) for e in v.exercises]
    assert len(lines) == len(expected) > 200
    for line, (student, exercise) in zip(lines, expected, strict=True):
        assert line["student"] == defused(student)
        assert line["exercise"] == exercise.name
        assert line["outcome"] == exercise.outcome
        assert [float(line[k]) for k in ("points", "max_points", "hidden_points", "hidden_max_points")] == [
            exercise.points,
            exercise.max_points,
            exercise.hidden_points,
            exercise.hidden_max_points,
        ]
        assert line["misconception"] == (exercise.misconception or "")


def test_broken_verdict_is_a_line_and_stops_nobody(course, tmp_path):
    broken = copy_of(course, tmp_path)
    broken.verdict(ASSIGNMENT, "ada").write_text("{")
    lines = exported(broken, tmp_path)["exercises.csv"]
    [line] = [line for line in lines if line["student"] == "ada"]
    assert line["outcome"].startswith("flagged: The verdict cannot be read")
    assert len({line["student"] for line in lines}) == len(list(verdicts(course, ASSIGNMENT)))


def test_line_for_each_misconception(course, tmp_path):
    lines = exported(course, tmp_path)["misconceptions.csv"]
    first = lines[0]
    assert (first["exercise"], first["misconception"]) == ("causal_mask", "hides_the_diagonal")
    assert first["sentence"].startswith("You leave out the diagonal.")
    assert int(first["students"]) == len(first["student_ids"].split("; ")) > 5
    counts = [int(line["students"]) for line in lines]
    assert counts == sorted(counts, reverse=True)


def test_two_mistakes_at_once_count_for_both(tmp_path):
    course = with_answers(tmp_path, {"eva": ("causal_mask", "peeks_one_ahead + is_additive")})
    found = {(name, count, ids) for _, _, name, _, count, ids in misconception_rows(course)}
    assert found == {("peeks_one_ahead", 1, "eva"), ("is_additive", 1, "eva")}


def test_export_is_the_same_each_time(course, tmp_path):
    first = [path.read_bytes() for path in export(course, tmp_path / "a")]
    assert first == [path.read_bytes() for path in export(course, tmp_path / "b")]
    assert not list(tmp_path.rglob("*.part"))


def test_no_cell_is_a_formula(course, tmp_path):
    for lines in exported(course, tmp_path).values():
        for line in lines:
            for text in line.values():
                assert not text.lstrip().startswith(("=", "+", "@"))
    assert any(line["student"] == f"'{HOSTILE_NAME}" for line in table(tmp_path / "exercises.csv"))
    assert all(line["first_name"] == "'=1+1" for line in table(tmp_path / "grades.csv"))


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@A1", "\t=1", "\r1", " =1", "＝1", "-cmd|' /C calc'!A0"])
def test_formulas_are_defused(text):
    assert defused(text) == "'" + text


@pytest.mark.parametrize("text", ["", "ada", "a=b", "1", "Doe, Jane", " ", "é"])
def test_other_text_is_left_as_it_is(text):
    assert defused(text) == text


@pytest.mark.parametrize("text", ["ada", "Doe, Jane", 'the "best"', "two\nlines", "a;b", "", "Zoë"])
def test_cell_reads_back_as_its_text(text):
    assert list(csv.reader(io.StringIO(f"x,{cell(text)}", newline=""))) == [["x", text]]


def test_without_a_gradebook_it_says_what_to_do(tmp_path):
    course = make_class(tmp_path / "class", gradebook=False)
    with pytest.raises(CourseError, match="autograder grade"):
        export(course, tmp_path / "out")
    assert not (tmp_path / "class" / "gradebook.db").exists()
