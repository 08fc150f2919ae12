"""What grading writes without nbgrader's and nbformat's help is what these would have written."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import nbformat
import pytest
from nbgrader.utils import parse_utc

from autograder.classroom import rows
from autograder.classroom.book import notebook_text
from autograder.classroom.course import Course
from autograder.files import indented_json

# nbgrader fills in a submission before it adds it
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

DUE = datetime(2026, 9, 1, 12)
ODD = 'a\nb\r\nc\x0bd\x85e\u2028f "\\ \x00 \x7f é 😀'


@pytest.fixture
def gradebook(tmp_path):
    """With an assignment of two notebooks, in which there is a cell of each type."""
    with Course(tmp_path).gradebook() as gradebook:
        gradebook.add_assignment("ps", duedate=DUE)
        for notebook in ("ps", "other"):
            gradebook.add_notebook(notebook, "ps")
            for name in ("one", "two"):
                gradebook.add_grade_cell(name, notebook, "ps", max_score=2, cell_type="code")
                gradebook.add_solution_cell(name, notebook, "ps")
            gradebook.add_task_cell("task", notebook, "ps", max_score=3, cell_type="markdown")
        gradebook.add_notebook("empty", "ps")
        yield gradebook


def contents(gradebook, student):
    """Everything that the tables say of a submission, but for the ids of its rows."""
    gradebook.db.expire_all()
    submission = gradebook.find_submission("ps", student)
    person = [submission.student.first_name, submission.student.last_name, submission.student.email]
    notebooks = {
        notebook.name: (
            [notebook.flagged, notebook.late_submission_penalty],
            sorted((g.cell_id, g.auto_score, g.manual_score, g.needs_manual_grade) for g in notebook.grades),
            sorted((c.cell_id, c.auto_comment, c.manual_comment) for c in notebook.comments),
        )
        for notebook in submission.notebooks
    }
    return person, submission.timestamp, submission.extension, submission.total_seconds_late > 0, notebooks


def test_a_new_submission_has_the_rows_of_nbgraders_own(gradebook):
    late = parse_utc("2026-09-02 10:00:00 UTC")
    gradebook.add_student("ada", first_name="Ada")
    gradebook.add_submission("ps", "ada", timestamp=late)
    db = gradebook.db.connection()
    rows.enter_student(db, "ben", {"first_name": "Ada"})
    _, is_late = rows.enter_submission(db, "ps", "ben", {"timestamp": late})
    gradebook.db.commit()
    assert is_late
    assert contents(gradebook, "ben") == contents(gradebook, "ada")


def test_what_is_there_is_changed_only_where_something_is_known(gradebook):
    gradebook.add_student("ada", first_name="Ada", email="ada@example.org")
    gradebook.add_submission("ps", "ada", timestamp=DUE + timedelta(hours=1), extension=timedelta(hours=2))
    given = gradebook.find_grade("one", "ps", "ps", "ada")
    given.manual_score = 1.5
    gradebook.find_submission_notebook("ps", "ps", "ada").late_submission_penalty = 1.0
    gradebook.db.commit()
    scores, words = {"one": 2.0, "two": None, "task": 0.0}, {"one": "No response.", "two": None, "task": None}
    db = gradebook.db.connection()
    rows.enter_student(db, "ada", {"last_name": "Lovelace"})
    submission, is_late = rows.enter_submission(db, "ps", "ada", {})
    notebook = rows.submitted_notebook(db, submission, "ps")
    rows.enter_scores(db, notebook, lambda name: scores[name])
    rows.enter_comments(db, notebook, lambda name: words[name])
    gradebook.db.commit()
    gradebook.db.expire_all()
    person, time, extension, by_nbgrader, _ = contents(gradebook, "ada")
    assert person == ["Ada", "Lovelace", "ada@example.org"]
    assert (time, extension, is_late, by_nbgrader) == (DUE + timedelta(hours=1), timedelta(hours=2), False, False)
    found = gradebook.find_submission_notebook("ps", "ps", "ada")
    assert found.late_submission_penalty is None
    assert {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade) for g in found.grades} == {
        "one": (2.0, 1.5, True),
        "two": (None, None, True),
        "task": (0.0, None, False),
    }
    assert {comment.name: comment.auto_comment for comment in found.comments} == words
    other = gradebook.find_submission_notebook("other", "ps", "ada")
    assert all(grade.auto_score is None and grade.needs_manual_grade for grade in other.grades)


@pytest.mark.parametrize(
    ("due", "time", "extension", "late"),
    [
        (DUE, DUE, None, False),
        (DUE, DUE + timedelta(seconds=1), None, True),
        (DUE, DUE + timedelta(days=1), timedelta(days=1), False),
        (DUE, DUE + timedelta(days=2), timedelta(days=1), True),
        (DUE, None, timedelta(days=1), False),
        (None, DUE, timedelta(days=1), False),
    ],
)
def test_lateness(due, time, extension, late):
    assert rows.is_late(due, time, extension) is late


def test_a_score_of_a_cell_that_is_gone_is_not_passed_over(gradebook):
    gradebook.add_student("ada")
    gradebook.add_submission("ps", "ada")
    gone = gradebook.find_grade_cell("two", "ps", "ps")
    gradebook.db.execute(rows.CELL.delete().where(rows.CELL.c.id == gone.id))
    db = gradebook.db.connection()
    notebook = rows.submitted_notebook(db, gradebook.find_submission("ps", "ada").id, "ps")
    with pytest.raises(KeyError):
        rows.enter_scores(db, notebook, {"one": 1.0, "two": 1.0, "task": 1.0}.__getitem__)


# --- text ------------------------------------------------------------------------------------------------------------


def anything(draw: random.Random, depth: int = 0) -> object:
    """Some value that JSON knows."""
    kinds = [None, True, False, 0, 1, -7, 10**20, 1.0, 2.5e-9, float("nan"), float("inf"), "", ODD, [], {}]
    if depth < 4 and draw.random() < 0.6:
        inner = [anything(draw, depth + 1) for _ in range(draw.randrange(4))]
        return inner if draw.random() < 0.5 else {draw.choice("zyxw") + ODD[:i]: each for i, each in enumerate(inner)}
    return draw.choice(kinds)


@pytest.mark.parametrize("sort_keys", [False, True])
def test_indented_json_is_that_of_the_standard_library(sort_keys):
    draw = random.Random(0)
    for value in ({"a": (1, "x")}, *(anything(draw) for _ in range(300))):
        expected = json.dumps(value, indent=1, ensure_ascii=False, sort_keys=sort_keys)
        assert indented_json(value, sort_keys) == expected


def test_the_text_of_a_notebook_is_that_of_nbformat():
    data = {
        "text/plain": ODD,
        "image/svg+xml": "<a>\n</a>",
        "image/png": "a\nb",
        "application/json": {"b": ODD, "a": 1},
    }
    v4 = nbformat.v4
    outputs = [v4.new_output("display_data", data), v4.new_output("stream", text=ODD), v4.new_output("error")]
    attached = v4.new_markdown_cell("![](a.png)", attachments={"a.png": {"image/png": "a\nb", "text/plain": "a\nb"}})
    cells = [v4.new_code_cell(ODD, outputs=outputs, metadata={"trusted": True, "z": 0}), attached, v4.new_raw_cell("")]
    notebook = v4.new_notebook(cells=cells, metadata={"signature": "x", "orig_nbformat": 3, "b": {"d": 1, "c": 2}})
    expected = v4.writes(notebook)
    before = json.dumps(notebook)
    assert notebook_text(notebook) == notebook_text(json.loads(before)) == expected
    assert json.dumps(notebook) == before
