"""Written answers, all to one question on one page, and their marks.

written/02_masks/why_low_loss.html   the question, the model answer, the rubric, all answers; marks can be entered there
written/02_masks/why_low_loss.csv    the same marks as a table, for a spreadsheet

`mark_written` first enters the marks that a person has put into the table (or has saved from the page), then writes
both anew from the gradebook, which formgrader shows too. What was recorded when the table was written is kept beside
it, in .why_low_loss.json: so it is known which marks are new, and a mark that was given in formgrader since then is
not overwritten.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from markupsafe import Markup
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder.classroom.answers import grade_id_of
from autograder.classroom.book import one_at_a_time, open_book, penalise_again
from autograder.classroom.course import Course, CourseError
from autograder.reporting.export import defused, undivided
from autograder.reporting.feedback import QUESTION, cleaned_markdown
from autograder.reporting.gradebook import Mark, has_gradebook, people, written_marks
from autograder.reporting.report import rendered

COLUMNS = ("question", "student", "name", "answer", "mark", "comment")
SOLUTION_MARK = re.compile(r"^### (?:BEGIN|END) SOLUTION\s*?$", re.MULTILINE)
RUBRIC = re.compile(r"^\*\*Rubric\*\*\s*$(.*)", re.DOTALL | re.MULTILINE)
CRITERION = re.compile(r"^- ([\d.]+) points?: (.+(?:\n  .+)*)", re.MULTILINE)


@dataclass(frozen=True)
class Criterion:
    """One line of a rubric."""

    points: float
    text: str


@dataclass(frozen=True)
class Question:
    """What was asked, what a full answer is like, and what is worth a point."""

    assignment: str
    name: str
    points: float
    asked: str
    model: str
    rubric: tuple[Criterion, ...]

    @property
    def id(self) -> str:
        return f"{self.assignment}/{self.name}"


@dataclass(frozen=True)
class Answer:
    """What one student wrote, and its mark in the gradebook."""

    mark: Mark
    name: str  # of the student
    text: str
    pictures: Mapping[str, object]  # that were pasted into it
    page: Markup

    @property
    def digest(self) -> str:
        """Tells whether it is still the answer that was marked."""
        return digest(self.text + (json.dumps(self.pictures, sort_keys=True) if self.pictures else ""))


@dataclass
class Outcome:
    """What came of entering the marks of a question."""

    question: Question
    page: Path
    table: Path
    answers: int = 0
    marked: int = 0
    blank: int = 0
    changes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One line of a table that a person has filled in."""

    question: str
    student: str
    answer: str
    mark: str
    comment: str
    where: str  # file and line


def digest(text: str) -> str:
    """A few letters that differ for another text. White space does not matter."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:8]


def mark_written(course: Course, assignments: Sequence[str], tables: Sequence[Path] = ()) -> list[Outcome]:
    """Enter the marks that these tables and those in written/ hold, and write pages and tables again."""
    if not has_gradebook(course) or not assignments:
        raise CourseError(
            f"Nothing has been graded yet, so there is nothing to mark. First run: {course.command('grade')}"
        )
    given = [row for path in tables for row in rows_in(path)]
    require_tables(course, assignments, given)
    outcomes = []
    with one_at_a_time(course):
        for assignment in assignments:
            marks = written_marks(course, assignment)
            for question in questions_of(course, assignment):
                own = [mark for mark in marks if mark.question == question.name]
                outcomes.append(one_question(course, question, own, given))
            with open_book(course) as gradebook:
                penalise_again(course, gradebook, assignment)
    return outcomes


def require_tables(course: Course, assignments: Sequence[str], given: Iterable[Row]) -> None:
    """Refuse a table that cannot be read, and marks for a question that nobody asked, before anything is entered."""
    known = [question for assignment in assignments for question in questions_of(course, assignment)]
    for question in known:
        own = table_beside_page(course, question)
        if own.exists():
            list(rows_in(own))
    for row in given:
        if row.question not in {question.id for question in known}:
            raise CourseError(
                f"{row.where}: there is no written question {row.question!r} among those that were graded. "
                "Nothing was entered."
            )


def table_beside_page(course: Course, question: Question) -> Path:
    return course.root / "written" / question.assignment / f"{question.name}.csv"


def one_question(course: Course, question: Question, marks: Sequence[Mark], given: Iterable[Row]) -> Outcome:
    folder = course.root / "written" / question.assignment
    outcome = Outcome(question, folder / f"{question.name}.html", table_beside_page(course, question))
    answers = answers_to(course, question, marks)
    rows = [row for row in given if row.question == question.id]
    is_by_a_person = outcome.table.exists() and not course.ledger.is_as_written(outcome.table)
    rows += list(rows_in(outcome.table)) if is_by_a_person else []
    memory = folder / f".{question.name}.json"
    before = remembered(memory)
    with open_book(course) as gradebook:
        for row in rows:
            enter(gradebook, question, {a.mark.student: a for a in answers}, before, row, outcome)
        outcome.problems += reopened(gradebook, question, answers, before)
        gradebook.db.commit()
    current = [m for m in written_marks(course, question.assignment) if m.question == question.name]
    answers = answers_to(course, question, current)
    outcome.blank = sum(mark.is_blank and mark.score is None for mark in current)
    outcome.answers, outcome.marked = len(answers), sum(answer.mark.score is not None for answer in answers)
    write_down(course, outcome, answers, memory, before)
    return outcome


# --- what was asked and answered ------------------------------------------------------------------------


def questions_of(course: Course, assignment: str) -> list[Question]:
    """The written questions of an assignment, from its source and its release."""
    path = course.source(assignment) if course.source(assignment).exists() else course.release(assignment)
    if not path.exists():
        raise CourseError(f"{assignment} has not been released. Run: {course.command('release', assignment)}")
    found, asked = [], ""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("grade"):
            found.append(question(assignment, cell, asked))
        elif cell.cell_type == "markdown" and (here := QUESTION.search(cell.source)):
            asked = here[0]
    return found


def question(assignment: str, cell: NotebookNode, asked: str) -> Question:
    text = SOLUTION_MARK.sub("", cell.source).strip()
    points = float(cell.metadata.nbgrader.points)
    return Question(
        assignment=assignment,
        name=grade_id_of(cell),
        points=points,
        asked=asked,
        model=RUBRIC.sub("", text).strip(),
        rubric=worth(points, criteria_in(text)),
    )


def criteria_in(model_answer: str) -> tuple[Criterion, ...]:
    """The rubric below a model answer: `**Rubric**`, then lines like `- 1 point: …`."""
    found = RUBRIC.search(model_answer)
    lines = CRITERION.findall(found[1]) if found else []
    return tuple(Criterion(float(points), " ".join(text.split())) for points, text in lines)


def worth(points: float, rubric: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    """The rubric for a question to which the class gives a different number of points."""
    total = sum(criterion.points for criterion in rubric)
    return tuple(Criterion(round(c.points * points / total, 2), c.text) for c in rubric)


def answers_to(course: Course, question: Question, marks: Sequence[Mark]) -> list[Answer]:
    """All answers but the empty ones, equal ones side by side, and in no order that tells whose they are."""
    names = people(course)
    found = []
    for mark in marks:
        if mark.is_blank and mark.score is None:
            continue
        text, attachments = answer_in(course.autograded(question.assignment, mark.student), question.name)
        page = Markup(cleaned_markdown(text, attachments))
        found.append(Answer(mark, names.get(mark.student, mark.student), text, attachments, page))
    return sorted(found, key=lambda answer: (answer.digest, digest(answer.mark.student)))


def answer_in(notebook: Path, name: str) -> tuple[str, Mapping[str, object]]:
    """The student's text and the pictures in it; a word about it if the notebook cannot be read."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        cell = next(c for c in cells if c["metadata"].get("nbgrader", {}).get("grade_id") == name)
        return "".join(cell["source"]), cell.get("attachments") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return "*(This answer cannot be read. Look into the submission.)*", {}


# --- entering marks -------------------------------------------------------------------------------------


def rows_in(path: Path) -> Iterator[Row]:
    """The lines of a table, as spreadsheets of all countries write it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    missing = {"question", "student", "mark"} - set(lines.fieldnames or ())
    if missing:
        raise CourseError(f"{path} has no column {sorted(missing)[0]!r}. The first line has to name the columns.")
    for line in lines:
        cell = {name: undefused((line.get(name) or "").strip()) for name in COLUMNS}
        where = f"{path.name}, line {lines.line_num}"
        yield Row(cell["question"], cell["student"], cell["answer"], cell["mark"], cell["comment"], where)


def undefused(text: str) -> str:
    """Without the ' that `export.defused` puts in front of what a spreadsheet would take for a formula."""
    return text[1:] if text.startswith("'") and defused(text[1:]) == text else text


Remembered = dict[str, tuple[float | None, str, str]]  # student -> mark, comment, digest of the answer


def remembered(path: Path) -> Remembered:
    """What the gradebook said when the table was written."""
    try:
        return {
            student: (mark, comment, what) for student, (mark, comment, what) in json.loads(path.read_text()).items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def enter(
    gradebook: Gradebook,
    question: Question,
    answers: Mapping[str, Answer],
    before: Remembered,
    row: Row,
    outcome: Outcome,
) -> None:
    """Enter one line of a table, or say why not. An empty mark or comment changes nothing."""
    answer = answers.get(row.student)
    if answer is None:
        if row.mark or row.comment:
            outcome.problems.append(f"{row.where}: {row.student or 'nobody'} has no answer to {question.id}.")
        return
    now, comment_now = answer.mark.score, answer.mark.comment
    old, old_comment, _ = before.get(row.student, (now, comment_now, ""))
    mark = mark_in(row, question, outcome)
    is_new = mark is not None and mark != now and mark != old
    is_new_comment = row.comment not in ("", comment_now, old_comment)
    if not is_new and not is_new_comment:
        return
    if row.answer and row.answer != answer.digest:
        outcome.problems.append(f"{row.where}: {row.student} has handed in another answer since. Look at it again.")
        return
    if is_new and now != old:
        said = "no mark" if now is None else f"{now:g}"
        outcome.problems.append(f"{row.where}: {row.student} has been given {said} elsewhere since. That was kept.")
        return
    write(gradebook, question, row.student, mark if is_new else now, row.comment if is_new_comment else comment_now)
    if is_new:
        first = "no mark" if now is None else f"{now:g}"
        outcome.changes.append(f"{answer.name}: {first} → {mark:g}")
    else:
        outcome.changes.append(f"{answer.name}: a comment")


def mark_in(row: Row, question: Question, outcome: Outcome) -> float | None:
    if not row.mark:
        return None
    try:
        mark = float(row.mark.replace(",", "."))
    except ValueError:
        outcome.problems.append(f"{row.where}: {row.mark[:40]!r} is not a number.")
        return None
    if not 0 <= mark <= question.points:
        outcome.problems.append(f"{row.where}: {question.id} is worth 0 to {question.points:g} points, not {mark:g}.")
        return None
    return mark


def write(gradebook: Gradebook, question: Question, student: str, mark: float | None, comment: str) -> None:
    """As formgrader does."""
    place = question.name, question.assignment, question.assignment, student
    grade = gradebook.find_grade(*place)
    grade.manual_score = mark
    grade.needs_manual_grade = mark is None and grade.auto_score is None
    gradebook.find_comment(*place).manual_comment = comment or None


def close_what_is_marked(course: Course, assignment: str) -> None:
    """After regrading: an answer that is still the one that was marked does not wait for a person."""
    again = [mark for mark in written_marks(course, assignment) if mark.graded_since]
    if not again:
        return
    with one_at_a_time(course), open_book(course) as gradebook:
        for question in questions_of(course, assignment):
            own = answers_to(course, question, [mark for mark in again if mark.question == question.name])
            memory = course.root / "written" / assignment / f".{question.name}.json"
            reopened(gradebook, question, own, remembered(memory))
        gradebook.db.commit()


def reopened(gradebook: Gradebook, question: Question, answers: Iterable[Answer], before: Remembered) -> Iterable[str]:
    """After regrading nbgrader marks a submission as waiting for a person again. Undo that if the answer is
    still the one that was marked. Returns: a sentence for each that is another one now."""
    problems = []
    for answer in answers:
        mark, _, what = before.get(answer.mark.student, (None, "", ""))
        if not answer.mark.graded_since or mark is None or mark != answer.mark.score:
            continue
        if what == answer.digest:
            place = question.name, question.assignment, question.assignment, answer.mark.student
            gradebook.find_grade(*place).needs_manual_grade = False
        else:
            problems.append(
                f"{answer.name} has handed in another answer since it was marked {mark:g}. Look at it again."
            )
    return problems


# --- page and table -------------------------------------------------------------------------------------


def write_down(course: Course, outcome: Outcome, answers: Sequence[Answer], memory: Path, before: Remembered) -> None:
    """Write page and table as the gradebook has it. A table of a person's that says the same stays as it is."""
    page = rendered(
        "written.html.j2",
        question=outcome.question,
        asked=Markup(cleaned_markdown(outcome.question.asked, {})),
        model=Markup(cleaned_markdown(outcome.question.model, {})),
        answers=answers,
        blank=outcome.blank,
        columns=COLUMNS,
        course_id=course.course_id,
        command=course.command,
    )
    course.ledger.write(outcome.page, page)
    if not (outcome.table.exists() and says_the_same(outcome.table, answers)):
        course.ledger.write(outcome.table, table_of(outcome.question, answers))
    state: Remembered = {
        answer.mark.student: (answer.mark.score, answer.mark.comment, marked_digest(answer, before))
        for answer in answers
    }
    course.ledger.write(memory, json.dumps(state, indent=0, sort_keys=True))


def says_the_same(table: Path, answers: Sequence[Answer]) -> bool:
    """Whether everything in a table is in the gradebook, and the other way round."""
    said = {row.student: (row.answer, row.mark.replace(",", "."), row.comment) for row in rows_in(table)}
    return said == {a.mark.student: (a.digest, mark_text(a), a.mark.comment.strip()) for a in answers}


def mark_text(answer: Answer) -> str:
    return "" if answer.mark.score is None else f"{answer.mark.score:g}"


def marked_digest(answer: Answer, before: Remembered) -> str:
    """Of the answer that has the mark: of an earlier one, as long as nobody has marked the new one."""
    mark, _, what = before.get(answer.mark.student, (None, "", ""))
    return what if answer.mark.graded_since and mark is not None and mark == answer.mark.score else answer.digest


def table_of(question: Question, answers: Iterable[Answer]) -> str:
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    lines.writerow(COLUMNS)
    for a in answers:
        cells = (question.id, a.mark.student, undivided(a.name), a.digest, mark_text(a), a.mark.comment)
        lines.writerow([defused(cell) for cell in cells])
    return table.getvalue()
