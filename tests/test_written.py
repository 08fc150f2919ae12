"""Written answers: one page for a question, marks by page, table or formgrader, and none of them lost."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from lab import browser_page, find_chromium, wcag_problems
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from autograder.authoring import build
from autograder.classroom import book
from autograder.classroom.class_folder import CONFIG
from autograder.classroom.course import Course, CourseError
from autograder.cli import main
from autograder.reporting.feedback import write_feedback
from autograder.reporting.written import close_what_is_marked, criteria_in, mark_written

pytestmark = [
    pytest.mark.xdist_group("written"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own
]

STEM = "02_masks"
STUB = "YOUR ANSWER HERE"
MODEL = """### BEGIN SOLUTION
The *mask* is missing.

**Rubric**

- 1 point: names the mask,
  in any words
- 1 point: says why
### END SOLUTION"""
ANSWERS = {
    "ada": "It is the mask.",
    "ben": "No idea. <script>document.title = 'run'</script> $x^2$",
    "cem": "It is the mask.",
    "dora": STUB,
}


def notebook(text: str) -> NotebookNode:
    asked = new_markdown_cell(
        "Some text.\n\n**In your own words** · 2 points, marked by hand\n\nWhy *nonsense*?", id="q"
    )
    answer = build.marked(new_markdown_cell(text, id="why"), "why", solution=True, grade=True, points=2.0)
    made = nbformat.from_dict(new_notebook(cells=[asked, answer]))
    details = made.cells[1].metadata.nbgrader
    details.checksum = book.utils.compute_checksum(nbformat.from_dict({**made.cells[1], "source": STUB}))
    return made


def hand_in(course: Course, student: str, text: str, picture: str = "") -> None:
    """As `grade` does it: the notebook, then the gradebook."""
    judged = notebook(text)
    if picture:
        judged.cells[1].attachments = {"image.png": {"image/png": picture}}
    book.save_autograded(course, STEM, student, judged)
    with book.open_book(course) as gradebook:
        book.enter(course, gradebook, STEM, student, judged)


@pytest.fixture
def course(blank_class: Course, tmp_path: Path) -> Course:
    return Course(Path(shutil.copytree(blank_class.root, tmp_path / "class")))


@pytest.fixture(scope="module")
def blank_class(tmp_path_factory: pytest.TempPathFactory) -> Course:
    build.put_own_commands_on_path()
    course = Course(tmp_path_factory.mktemp("class"))
    for path, text in ((course.source(STEM), MODEL), (course.release(STEM), STUB)):
        path.parent.mkdir(parents=True)
        nbformat.write(notebook(text), path)
    with course.gradebook() as gradebook:
        gradebook.add_assignment(STEM)
        gradebook.add_notebook(STEM, STEM)
        gradebook.add_grade_cell("why", STEM, STEM, max_score=2.0, cell_type="markdown")
        gradebook.add_solution_cell("why", STEM, STEM)
        gradebook.add_student("ada", first_name="Ada", last_name="Lovelace")
    for student, text in ANSWERS.items():
        hand_in(course, student, text)
    return course


def table(course: Course) -> Path:
    return course.root / "written" / STEM / "why.csv"


def rows(course: Course) -> dict[str, dict[str, str]]:
    with table(course).open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def fill(course: Course, **marks: str) -> None:
    """As a person does in a spreadsheet: `2` or `2|a comment`."""
    filled = rows(course)
    for student, text in marks.items():
        filled[student]["mark"], _, filled[student]["comment"] = text.partition("|")
    with table(course).open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, next(iter(filled.values())))
        lines.writeheader()
        lines.writerows(filled.values())


def marked(course: Course) -> dict[str, tuple[float | None, bool, str | None]]:
    """What formgrader shows: the mark, whether it still waits, the comment."""
    with course.gradebook() as gradebook:
        found = {}
        for student in ANSWERS:
            grade, comment = (
                find("why", STEM, STEM, student) for find in (gradebook.find_grade, gradebook.find_comment)
            )
            found[student] = grade.manual_score, grade.needs_manual_grade, comment.manual_comment
        return found


def mark_in_formgrader(course: Course, student: str, mark: float) -> None:
    with course.gradebook() as gradebook:
        grade = gradebook.find_grade("why", STEM, STEM, student)
        grade.manual_score, grade.needs_manual_grade = mark, False
        gradebook.db.commit()


def test_page_and_table_hold_all_answers_but_the_empty_ones(course):
    (outcome,) = mark_written(course, [STEM])
    assert (outcome.answers, outcome.marked, outcome.blank) == (3, 0, 1)
    assert [c.points for c in outcome.question.rubric] == [1.0, 1.0]
    assert outcome.question.rubric[0].text == "names the mask, in any words"
    page = outcome.page.read_text(encoding="utf-8")
    for part in ("Why <em>nonsense</em>?", "The <em>mask</em> is missing.", "names the mask, in any words", "<msup>"):
        assert part in page
    assert "Some text." not in page and "BEGIN SOLUTION" not in page and page.count("<script>") == 1
    assert "1 left it empty" in page
    assert "Lovelace" not in page, "who marks does not see whose it is"
    order = re.findall('data-student="(\\w+)"', page)
    assert abs(order.index("ada") - order.index("cem")) == 1, "equal answers stand side by side"
    found = rows(course)
    assert list(found) == order and found["ada"]["name"] == "Ada Lovelace" and found["ada"]["mark"] == ""


def test_marks_in_the_table_are_entered_once_and_listed(course):
    mark_written(course, [STEM])
    fill(course, ada="2|Well said.", ben="0,5")
    (outcome,) = mark_written(course, [STEM])
    assert sorted(outcome.changes) == ["Ada Lovelace: no mark → 2", "ben: no mark → 0.5"] and not outcome.problems
    assert marked(course) == {
        "ada": (2.0, False, "Well said."),
        "ben": (0.5, False, None),
        "cem": (None, True, None),
        "dora": (None, False, None),
    }
    before = table(course).read_text()
    (again,) = mark_written(course, [STEM])
    assert not again.changes and not again.problems and table(course).read_text() == before
    assert not (course.root / "kept").exists(), "all of it is in the gradebook"
    table(course).write_text(before.replace("comment", "comment,notes", 1).replace(",Well said.", ",Well said.,mine"))
    assert not mark_written(course, [STEM])[0].changes and "mine" in table(course).read_text(), "a column of one's own"
    fill(course, ada="1|Well said.")
    assert mark_written(course, [STEM])[0].changes == ["Ada Lovelace: 2 → 1"]
    fill(course, ada="|")  # empty: nothing changes
    assert mark_written(course, [STEM])[0].changes == [] and marked(course)["ada"][0] == 1.0


def test_a_mark_given_in_formgrader_is_neither_lost_nor_overwritten(course):
    mark_written(course, [STEM])
    mark_in_formgrader(course, "ada", 2.0)
    assert not mark_written(course, [STEM])[0].changes
    assert rows(course)["ada"]["mark"] == "2"
    fill(course, ada="1", cem="2")
    mark_in_formgrader(course, "ada", 0.5)
    (outcome,) = mark_written(course, [STEM])
    assert outcome.changes == ["cem: no mark → 2"]
    (problem,) = outcome.problems
    assert "ada has been given 0.5 elsewhere since" in problem
    assert marked(course)["ada"][0] == 0.5 and rows(course)["ada"]["mark"] == "0.5"
    (kept,) = (course.root / "kept" / "written" / STEM).glob("why.csv")
    assert ",1," in kept.read_text(), "the table with the other mark is still there"


def test_marks_stay_through_regrading(course):
    mark_written(course, [STEM])
    fill(course, ada="2|Well said.", cem="1")
    mark_written(course, [STEM])
    hand_in(course, "ada", ANSWERS["ada"])  # graded anew
    hand_in(course, "cem", "Something else.")  # handed in again
    assert marked(course)["ada"] == (2.0, True, "Well said."), "nbgrader asks for a second look"
    close_what_is_marked(course, STEM)
    assert marked(course)["ada"] == (2.0, False, "Well said."), "the same answer needs none"
    assert marked(course)["cem"] == (1.0, True, None)
    (outcome,) = mark_written(course, [STEM])
    assert marked(course)["cem"] == (1.0, True, None)
    assert outcome.problems == ["cem has handed in another answer since it was marked 1. Look at it again."]
    assert len(mark_written(course, [STEM])[0].problems) == 1, "until somebody has"
    fill(course, cem="2")
    (outcome,) = mark_written(course, [STEM])
    assert outcome.changes == ["cem: 1 → 2"] and marked(course)["cem"] == (2.0, False, None)
    assert mark_written(course, [STEM])[0].problems == []


def test_a_penalty_is_a_part_of_the_marks_too(course):
    shutil.copy(CONFIG, course.root)
    (course.root / "class.toml").write_text(
        f'[late]\npercent_per_day = 10\n[assignments.{STEM}]\ndue = "2026-03-02 12:00"\n'
    )
    stamp = course.submitted(STEM, "ada").parent / "timestamp.txt"
    stamp.parent.mkdir(parents=True)
    stamp.write_text("2026-03-04 00:00 UTC")
    with book.open_book(course) as gradebook:
        book.enter_due_date(course, gradebook, STEM)
    hand_in(course, "ada", ANSWERS["ada"])
    mark_written(course, [STEM])
    fill(course, ada="2", ben="1")
    mark_written(course, [STEM])
    with course.gradebook() as gradebook:
        found = {s.student_id: s.late_submission_penalty for s in gradebook.assignment_submissions(STEM)}
    assert found["ada"] == pytest.approx(0.4) and found["ben"] == 0, "two days have begun"


def test_another_picture_is_another_answer(course):
    """A photograph of a sheet is called image.png each time."""
    answer = "![sheet](attachment:image.png)"
    hand_in(course, "ada", answer, "aaaa")
    hand_in(course, "cem", answer, "bbbb")
    mark_written(course, [STEM])
    assert len({rows(course)[student]["answer"] for student in ("ada", "cem")}) == 2
    fill(course, ada="0", cem="1")
    mark_written(course, [STEM])
    hand_in(course, "ada", answer, "cccc")
    hand_in(course, "cem", answer, "bbbb")
    (outcome,) = mark_written(course, [STEM])
    assert outcome.problems == ["Ada Lovelace has handed in another answer since it was marked 0. Look at it again."]
    assert marked(course)["ada"] == (0.0, True, None) and marked(course)["cem"] == (1.0, False, None)


def test_a_mark_for_an_answer_that_has_changed_is_not_entered(course):
    mark_written(course, [STEM])
    fill(course, ada="2")
    hand_in(course, "ada", "Something else.")
    (outcome,) = mark_written(course, [STEM])
    assert "ada has handed in another answer since" in outcome.problems[0]
    assert marked(course)["ada"][0] is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("question,student,mark\n02_masks/why,ada,3\n", "worth 0 to 2 points, not 3"),
        ("question,student,mark\n02_masks/why,ada,-1\n", "worth 0 to 2 points, not -1"),
        ("question,student,mark\n02_masks/why,ada,nan\n", "worth 0 to 2 points, not nan"),
        ("question,student,mark\n02_masks/why,ada,good\n", "'good' is not a number"),
        ("question,student,mark\n02_masks/why,zoe,1\n", "zoe has no answer"),
        ("question,student,mark\n02_masks/why,dora,1\n", "dora has no answer"),
    ],
)
def test_what_cannot_be_entered_is_said(course, tmp_path, text, problem):
    saved = tmp_path / "saved.csv"
    saved.write_text(text + "02_masks/why,ben,1\n", encoding="utf-8")
    (outcome,) = mark_written(course, [STEM], [saved])
    assert problem in outcome.problems[0] and outcome.problems[0].startswith("saved.csv, line 2: ")
    assert outcome.changes == ["ben: no mark → 1"], "one bad line does not stop the rest"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"student,mark\nada,1\n", "no column 'question'"),
        (b"", "no column"),
        (b"question,student,mark\n02_masks/gone,ada,1\n", "no written question '02_masks/gone'"),
    ],
)
def test_a_table_that_is_none_is_refused(course, tmp_path, data, message):
    saved = tmp_path / "saved.csv"
    saved.write_bytes(data)
    with pytest.raises(CourseError, match=message):
        mark_written(course, [STEM], [saved])


@pytest.mark.parametrize("line", ["02_masks/gone,ben,1\n", None])
def test_what_is_refused_is_refused_before_anything_is_entered(line, course, tmp_path):
    """Otherwise nobody would be told of the marks that were entered."""
    saved = tmp_path / "saved.csv"
    saved.write_text("question,student,mark\n02_masks/why,ada,1\n" + (line or ""), encoding="utf-8")
    if line is None:
        mark_written(course, [STEM])
        table(course).write_text("a,b\n")
    with pytest.raises(CourseError):
        mark_written(course, [STEM], [saved])
    assert marked(course)["ada"][0] is None


def test_nothing_graded_is_not_the_same_as_no_question(course, capsys):
    for path in course.root.glob("verdicts/*/*.json"):
        path.unlink()
    assert main(["--course", str(course.root), "written"]) == 1
    said = capsys.readouterr()
    assert "Nothing has been graded yet" in said.err and "no written questions" not in said.out


def test_tables_of_other_countries_are_read(course, tmp_path):
    saved = tmp_path / "saved.csv"
    saved.write_bytes("question;student;mark;comment\r\n02_masks/why;ada;1,5;schön\r\n".encode("cp1252"))
    assert mark_written(course, [STEM], [saved])[0].changes == ["Ada Lovelace: no mark → 1.5"]
    assert marked(course)["ada"] == (1.5, False, "schön")


def test_the_command_tells_what_it_did_and_the_feedback_shows_it(course, tmp_path, capsys):
    where = ["--course", str(course.root), "written"]
    assert main([*where, STEM]) == 0
    assert "3 answers, 0 marked, 1 left empty" in capsys.readouterr().out.replace("\n", " ")
    fill(course, ada="1|=See *above*.", ben="7")
    assert main([*where, STEM]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "entered: Ada Lovelace: no mark → 1" in said and "not entered: why.csv, line" in said
    write_feedback(course, STEM, ["ada"])
    page = course.feedback(STEM, "ada").read_text(encoding="utf-8")
    assert "1 of 2 points" in page and "=See <em>above</em>." in page and "not marked yet" not in page
    assert rows(course)["ada"]["comment"] == "'=See *above*.", "no spreadsheet takes it for a formula"
    assert mark_written(course, [STEM])[0].changes == []


def test_pages_that_do_not_have_the_marks_yet_are_told(course, capsys):
    """Otherwise an export would send students pages that say "not marked yet"."""
    where = ["--course", str(course.root), "written"]
    assert main([*where, STEM]) == 0
    write_feedback(course, STEM, ["ada"])
    assert main([*where, STEM]) == 0
    assert "older" not in capsys.readouterr().out
    fill(course, ada="1")
    assert main([*where, STEM]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 feedback page is older than this. To write them again: " in said
    assert f"autograder feedback {STEM}" in said


def test_nothing_graded_yet_says_what_to_do(tmp_path):
    with pytest.raises(CourseError, match="autograder grade"):
        mark_written(Course(tmp_path), [STEM])


@pytest.mark.parametrize("path", sorted(build.SOLUTIONS.glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_every_written_question_has_a_rubric_that_adds_up(path):
    found = re.findall(r"^# %% answer (\w+) (\d+) \[markdown\]\n(.*?)# ### END SOLUTION", path.read_text(), re.M | re.S)
    assert found
    for name, points, commented in found:
        text = re.sub(r"^# ?", "", commented, flags=re.MULTILINE)
        assert sum(criterion.points for criterion in criteria_in(text)) == float(points), name


# --- in a browser -----------------------------------------------------------------------------------------------------

CHROMIUM = find_chromium()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_marks_are_entered_on_the_page_and_survive_closing_it(course, tmp_path):
    (outcome,) = mark_written(course, [STEM])
    body = outcome.page.read_text(encoding="utf-8")
    complaints: list[str] = []
    with browser_page(CHROMIUM) as (tab, elsewhere):
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("dialog", lambda dialog: dialog.accept())
        tab.route("**/*", lambda route: route.fulfill(body=body, content_type="text/html; charset=utf-8"))
        tab.goto("http://127.0.0.1:9/")
        ada = tab.locator("article[data-student=ada]")
        ada.get_by_role("checkbox").nth(1).check()
        ada.get_by_role("textbox").fill('Say "why", too.')
        assert tab.locator("#progress").inner_text() == "1 of 3 marked, 1 not saved yet"
        tab.goto("about:blank")
        tab.goto("http://127.0.0.1:9/")
        assert tab.locator("article[data-student=ada] input[type=number]").input_value() == "1"
        tab.locator("article[data-student=ben] input[type=number]").fill("0.5")
        with tab.expect_download() as download:
            tab.get_by_role("button", name="Save the marks as a table").click()
        saved = tmp_path / "saved.csv"
        download.value.save_as(saved)
        assert tab.locator("#progress").inner_text() == "2 of 3 marked"
        for scheme, width in (("dark", 1200), ("light", 420)):
            tab.emulate_media(color_scheme=scheme)
            tab.set_viewport_size({"width": width, "height": 900})
            assert not tab.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            assert wcag_problems(tab) == [], scheme
        assert tab.title() == f"{STEM}/why · transformer" and complaints == [] and elsewhere == []
    (outcome,) = mark_written(course, [STEM], [saved])
    assert sorted(outcome.changes) == ["Ada Lovelace: no mark → 1", "ben: no mark → 0.5"]
    assert marked(course)["ada"] == (1.0, False, 'Say "why", too.')
