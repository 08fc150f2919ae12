"""CSV files that a spreadsheet or an LMS can take: complete, in a stable order, and without formulas from students."""

from __future__ import annotations

import csv
import os
import time
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from made_up_class import ASSIGNMENT, HOSTILE_NAME, copy_of, make_class, mark_written_answers, with_answers

from autograder.classroom.collected import LmsName, Lost, remember
from autograder.classroom.course import Course, CourseError
from autograder.judging.verdict import verdicts
from autograder.reporting.export import defused, export, misconception_rows, write_table
from autograder.reporting.report import write_report

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
    return {path.name: table(path) for path in export(course, folder) if path.suffix == ".csv"}


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


@pytest.mark.parametrize("separator", [";", "\t"])
def test_no_part_of_a_cell_is_a_formula_where_other_signs_separate_cells(separator, course, tmp_path):
    """In many countries a spreadsheet splits lines at semicolons, even between quotation marks."""
    name = f"a{separator}=cmd|' -c calc'!A0{separator} @x{separator}.ipynb"
    path = write_table(course, tmp_path / "t.csv", ["file", "reason"], [[name, "Nobody knows."]])
    parts = [part.strip() for part in path.read_text(encoding="utf-8").split(separator)]
    assert len(parts) == 4 and not any(part.startswith(("=", "@")) for part in parts)


@pytest.mark.parametrize("text", ["", "ada", "a=b", "1", "Doe, Jane", " ", "é"])
def test_other_text_is_left_as_it_is(text):
    assert defused(text) == text


def test_without_a_gradebook_it_says_what_to_do(tmp_path):
    course = make_class(tmp_path / "class", gradebook=False)
    with pytest.raises(CourseError, match="autograder grade"):
        export(course, tmp_path / "out")
    assert not (tmp_path / "class" / "gradebook.db").exists()


# --- for Moodle and Canvas --------------------------------------------------------------------------------


CANVAS_ROSTER = """Student,ID,SIS User ID,SIS Login ID,Section,02_masks (77)
    Points Possible,,,,,51
"Lovelace, Ada",4711,al,ada,A,
"Turing, Alan",4712,at,alan,A,
"Absent, Anna",4713,aa,anna,A,
"""


@pytest.fixture
def known(course, tmp_path) -> Course:
    """The class with a roster, and with what the two LMS call the submissions of two students."""
    made = copy_of(course, tmp_path / "known")
    (made.root / "class.toml").write_text('roster = "roster.csv"')
    (made.root / "roster.csv").write_text(CANVAS_ROSTER)
    names = [
        (ASSIGNMENT, "ada", LmsName("Moodle", "Ada_Maria Lovelace", "412350")),
        (ASSIGNMENT, "alan", LmsName("Canvas", "turingalan", "4712", "67890")),
    ]
    remember(made, Path("download.zip"), names, [Lost("download.zip", "x/homework.ipynb", "Nobody knows whose it is.")])
    for student in ("ada", "alan"):
        made.feedback(ASSIGNMENT, student).parent.mkdir(parents=True, exist_ok=True)
        made.feedback(ASSIGNMENT, student).write_text(f"for {student}")
    with made.gradebook() as gradebook:
        gradebook.update_or_create_assignment("03_positions")
        gradebook.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "ada").grades[0].needs_manual_grade = True
        gradebook.db.commit()
    return made


def lines_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_canvas_takes_the_scores(known, tmp_path):
    """By its own numbers and the name of its own column. An assignment that nobody handed in has no column, and
    absence is not a zero."""
    export(known, tmp_path / "out")
    head, possible, *rows = lines_of(tmp_path / "out" / "canvas.csv")
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "02_masks (77)"]
    assert possible[0] == "    Points Possible"
    by_name = {row[0]: row for row in rows}
    assert by_name["Absent, Anna"] == ["Absent, Anna", "4713", "aa", "anna", "A", ""]
    assert float(by_name["Lovelace, Ada"][5]) == float(possible[5])
    assert set(by_name) == {"Absent, Anna", "Lovelace, Ada", "Turing, Alan"}


def test_moodle_takes_the_worksheet(known, tmp_path):
    export(known, tmp_path / "out")
    (line,) = table(tmp_path / "out" / f"moodle_{ASSIGNMENT}.csv")
    assert (line["Identifier"], line["Grade"]) == ("Participant 412350", line["Maximum Grade"])
    assert line["Last modified (grade)"]
    assert "Feedback comments" not in line, "an empty one would delete what somebody wrote in Moodle"


def test_marks_by_hand_reach_moodle_although_it_has_the_earlier_scores(known, tmp_path):
    """Moodle skips what it has changed after the date in the table, and it took the first table after the grading."""
    a_year_ago = time.time() - 365 * 86400
    os.utime(known.verdict(ASSIGNMENT, "ada"), (a_year_ago, a_year_ago))
    before = datetime.now().replace(second=0, microsecond=0)
    export(known, tmp_path / "out")
    (line,) = table(tmp_path / "out" / f"moodle_{ASSIGNMENT}.csv")
    assert datetime.strptime(line["Last modified (grade)"], "%d %B %Y, %I:%M %p") >= before


@pytest.mark.parametrize(
    ("roster", "head", "people"),
    [
        (
            "id,number,email\nada,17,ada@x.org\nalan,,alan@x.org\nbarbara,18,\n",
            ["First name", "Last name", "Email address", ASSIGNMENT],
            ["ada@x.org", "alan@x.org"],
        ),
        (
            "id,number,email\nada,17,ada@x.org\nalan,18,\nbarbara,19,\n",
            ["First name", "Last name", "ID number", ASSIGNMENT],
            ["17", "18", "19"],
        ),
    ],
)
def test_nobody_gets_the_grade_of_another_because_a_cell_is_empty(course, tmp_path, roster, head, people):
    """Moodle takes a line without the sign that it looks for as one more about the student of the line before."""
    made = copy_of(course, tmp_path / "known")
    (made.root / "class.toml").write_text('roster = "roster.csv"')
    (made.root / "roster.csv").write_text(roster)
    export(made, tmp_path / "out")
    found, *lines = lines_of(tmp_path / "out" / "moodle.csv")
    assert found == head
    assert sorted(line[2] for line in lines) == people


def test_feedback_goes_back_in_the_layout_of_each(known, tmp_path):
    export(known, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out" / f"moodle_{ASSIGNMENT}.zip") as archive:
        (name,) = archive.namelist()
        assert archive.read(name) == b"for ada"
    # What Moodle's importer does with a path: _ splits it into five, of which the second is the participant.
    assert name.split("_", 4) == ["Ada Maria Lovelace", "412350", "assignfeedback", "file", f"/{ASSIGNMENT}.html"]
    with zipfile.ZipFile(tmp_path / "out" / f"canvas_{ASSIGNMENT}.zip") as archive:
        (name,) = archive.namelist()
    # And Canvas: of the parts between _, the first two that are numbers are the user and the file.
    assert [part for part in name.split("_") if part.isdigit()][:2] == ["4712", "67890"]


def test_grades_say_who_is_absent_what_awaits_marks_and_what_was_not_placed(known, tmp_path):
    lines = {line["student_id"]: line for line in exported(known, tmp_path / "out")["grades.csv"]}
    assert {line["assignment"] for line in lines.values()} == {ASSIGNMENT}  # nobody handed in 03_positions
    assert (lines["anna"]["handed_in"], lines["anna"]["score"], lines["anna"]["last_name"]) == ("no", "", "Absent")
    assert (lines["ada"]["handed_in"], lines["ada"]["awaits_marks"]) == ("yes", "yes")
    (left,) = table(tmp_path / "out" / "not_placed.csv")
    assert left == {"download": "download.zip", "file": "x/homework.ipynb", "reason": "Nobody knows whose it is."}
    assert "<code>x/homework.ipynb</code>" in write_report(known).read_text(encoding="utf-8")
