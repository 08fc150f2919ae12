"""Grades and findings as files: for people, for Moodle, for Canvas.

grades.csv          one line for each student and assignment that somebody handed in, with what is still to be marked
exercises.csv       one line for each student and exercise; for a student without any, one that says why
misconceptions.csv  one line for each misconception somebody holds
not_placed.csv      what was handed in and could not be placed

If it is known what the LMS calls people (by the roster, or by the names of what was collected):

canvas.csv                 Canvas: Gradebook, Import
moodle.csv                 Moodle: Grades, Import, CSV file; people are known by their e-mail address or number
moodle_02_masks.csv        Moodle: the assignment, Upload grading worksheet
moodle_02_masks.zip        Moodle: the assignment, Upload multiple feedback files in a zip
canvas_02_masks.zip        Canvas: the assignment, Upload Submissions (it attaches them as comments)

In these nobody gets a zero for what they did not hand in. The gradebooks have an empty cell for it, which takes away a
grade that somebody has entered in the LMS; the worksheet has no line for it, and leaves the grade as it is.

A spreadsheet would take a cell that begins with =, +, - or @ for a formula, and names come from students. Such a cell
gets a ' in front, which spreadsheets read as "this is text".
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from nbgrader.api import Assignment, SubmittedAssignment

from autograder.classroom.collected import LmsName, lms_names, lost_work
from autograder.classroom.course import Course, CourseError
from autograder.classroom.roster import Person
from autograder.reporting.report import graded_assignments, has_gradebook, holders, read_verdicts, sentence_for

FORMULA_SIGNS = "=+-@＝＋－＠"  # the wide ones too, which some spreadsheets read as the others
BEHIND_A_SEPARATOR = re.compile(rf"([;\t]\s*)(?=[{re.escape(FORMULA_SIGNS)}])")


def export(course: Course, folder: Path) -> list[Path]:
    """Write the files into the folder; UTF-8, always in the same order."""
    if not has_gradebook(course):
        raise CourseError(f"There is no gradebook yet, so there are no grades. First run: {course.command('grade')}")
    folder.mkdir(parents=True, exist_ok=True)
    lines = grade_lines(course)
    written = [
        write_table(course, folder / "grades.csv", GRADE_COLUMNS, [line.cells() for line in lines]),
        write_table(course, folder / "exercises.csv", EXERCISE_COLUMNS, exercise_rows(course)),
        write_table(course, folder / "misconceptions.csv", MISCONCEPTION_COLUMNS, misconception_rows(course)),
    ]
    lost = [(each.download, each.path, each.reason) for each in lost_work(course)]
    if lost or (folder / "not_placed.csv").exists():
        written.append(write_table(course, folder / "not_placed.csv", ("download", "file", "reason"), lost))
    return [*written, *export_for_lms(course, folder, lines)]


# --- grades ---------------------------------------------------------------------------------------------

GRADE_COLUMNS = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "group", "handed_in"),
    *("raw_score", "late_submission_penalty", "score", "max_score", "awaits_marks"),
)


@dataclass(frozen=True)
class Line:
    """One student in one assignment."""

    assignment: str
    person: Person
    max_score: float
    due: str = ""
    handed_in: str = ""  # when; empty if it is not known, or if nothing was handed in
    raw_score: float | None = None  # None: nothing was handed in
    penalty: float = 0.0
    awaits_marks: bool = False

    @property
    def score(self) -> float | None:
        return None if self.raw_score is None else max(0.0, round(self.raw_score - self.penalty, 4))

    def cells(self) -> Sequence[str | float]:
        p = self.person
        known = (self.assignment, self.due, self.handed_in, p.id, p.last_name, p.first_name, p.email, p.group)
        if self.raw_score is None or self.score is None:
            return *known, "no", "", "", "", self.max_score, ""
        return (
            *known,
            "yes",
            round(self.raw_score, 4),
            self.penalty,
            self.score,
            self.max_score,
            "yes" if self.awaits_marks else "",
        )


def grade_lines(course: Course) -> list[Line]:
    """By assignment and name: everybody in the gradebook or on the roster, in all that somebody handed in."""
    roster = course.roster()
    with course.gradebook() as gradebook:
        entered = {s.id: Person(s.id, s.first_name or "", s.last_name or "", s.email or "") for s in gradebook.students}
        people = sorted(
            ({**entered, **roster.by_id}).values(),
            key=lambda p: (p.last_name.casefold(), p.first_name.casefold(), p.id),
        )
        lines = []
        for assignment in sorted(gradebook.assignments, key=lambda a: a.name):
            handed_in = {s.student_id: s for s in assignment.submissions}
            due = str(assignment.duedate or "")
            if handed_in:
                lines += [line_of(assignment, due, person, handed_in.get(person.id)) for person in people]
        return lines


def line_of(assignment: Assignment, due: str, person: Person, submission: SubmittedAssignment | None) -> Line:
    if submission is None:
        return Line(assignment.name, person, float(assignment.max_score), due)
    return Line(
        assignment.name,
        person,
        float(submission.max_score),
        str(submission.duedate or ""),  # with an extension
        str(submission.timestamp or ""),
        float(submission.score),
        float(submission.late_submission_penalty or 0.0),
        bool(submission.needs_manual_grade),
    )


# --- findings -------------------------------------------------------------------------------------------

EXERCISE_COLUMNS = (
    "student",
    "assignment",
    "exercise",
    "outcome",
    "points",
    "max_points",
    "hidden_points",
    "hidden_max_points",
    "misconception",
)
MISCONCEPTION_COLUMNS = ("assignment", "exercise", "misconception", "sentence", "students", "student_ids")


def exercise_rows(course: Course) -> Iterator[Sequence[str | float]]:
    """By assignment and student, the exercises in the order of the notebook."""
    for assignment in graded_assignments(course):
        for verdict in read_verdicts(course, assignment):
            if not verdict.exercises:
                yield verdict.student, assignment, "", f"{verdict.status}: {verdict.reason}", 0.0, 0.0, 0.0, 0.0, ""
            for e in verdict.exercises:
                points = map(float, (e.points, e.max_points, e.hidden_points, e.hidden_max_points))
                yield verdict.student, assignment, e.name, e.outcome, *points, e.misconception or ""


def misconception_rows(course: Course) -> Iterator[Sequence[str | float]]:
    """By assignment, the most frequent first. Ids are separated by semicolons."""
    for assignment in graded_assignments(course):
        held = holders(read_verdicts(course, assignment))
        for (exercise, name), those in sorted(held.items(), key=lambda item: (-len(item[1]), item[0])):
            sentence = sentence_for(exercise, name, those[0][1])
            yield assignment, exercise, name, sentence, len(those), "; ".join(student for student, _ in those)


# --- for an LMS -----------------------------------------------------------------------------------------


def export_for_lms(course: Course, folder: Path, lines: Sequence[Line]) -> Iterator[Path]:
    """Files that Canvas and Moodle can import directly, for people whose names there are known."""
    assignments = list(dict.fromkeys(line.assignment for line in lines))
    names = {assignment: lms_names(course, assignment) for assignment in assignments}
    canvas = {s: n.number for known in names.values() for s, n in known.items() if n.lms == "Canvas"}
    roster = course.roster()
    if canvas or any(person.canvas_id for person in roster.people):
        yield write_canvas_gradebook(course, folder / "canvas.csv", lines, canvas)
    if any(person.email or person.number for person in roster.people):
        yield write_moodle_gradebook(course, folder / "moodle.csv", lines)
    for assignment in assignments:
        own = [line for line in lines if line.assignment == assignment]
        for lms in ("Moodle", "Canvas"):
            known = {student: name for student, name in names[assignment].items() if name.lms == lms}
            if lms == "Moodle" and known:
                yield write_worksheet(course, folder / f"moodle_{assignment}.csv", own, known)
            if pages := feedback_pages(course, assignment, known):
                yield write_zip(course, folder / f"{lms.lower()}_{assignment}.zip", pages)


def write_canvas_gradebook(course: Course, path: Path, lines: Sequence[Line], numbers: Mapping[str, str]) -> Path:
    """One line for each student with a number of Canvas, a column for each assignment."""
    heads = course.roster().canvas_heads
    worth = {line.assignment: line.max_score for line in lines}
    columns = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(heads.get(name, name) for name in worth)]
    scores = Scores(lines)
    rows: list[Sequence[str | float]] = [["    Points Possible", "", "", "", "", *worth.values()]]
    for person in people_in(lines):
        number = person.canvas_id or numbers.get(person.id, "")
        if number:
            known = [person.sortable_name, number, person.number, person.username, person.group]
            rows.append([*known, *scores.of(person, worth)])
    return write_table(course, path, columns, rows, csv.QUOTE_MINIMAL)


IN_MOODLE = {"ID number": "number", "Username": "username", "Email address": "email"}  # what can identify people there


def write_moodle_gradebook(course: Course, path: Path, lines: Sequence[Line]) -> Path:
    """One line for each student whom Moodle can find.

    Moodle takes a line whose cell in the column that identifies people is empty for one about the student of the line
    before. So there is a column only for what everybody in the table has.
    """
    known = [p for p in people_in(lines) if p.email or p.number]
    needed = "email" if 2 * sum(bool(p.email) for p in known) >= len(known) else "number"
    people = [p for p in known if getattr(p, needed)]
    own = {head: name for head, name in IN_MOODLE.items() if all(getattr(p, name) for p in people)}
    worth = {line.assignment: line.max_score for line in lines}
    scores = Scores(lines)
    rows = [
        [p.first_name, p.last_name, *(getattr(p, name) for name in own.values()), *scores.of(p, worth)] for p in people
    ]
    return write_table(course, path, ["First name", "Last name", *own, *worth], rows, csv.QUOTE_MINIMAL)


def people_in(lines: Sequence[Line]) -> list[Person]:
    return list({line.person.id: line.person for line in lines}.values())


class Scores:
    """By student and assignment."""

    def __init__(self, lines: Sequence[Line]):
        self.known = {(line.person.id, line.assignment): line.score for line in lines}

    def of(self, person: Person, assignments: Iterable[str]) -> list[str | float]:
        """Empty if nothing was handed in."""
        found = (self.known.get((person.id, assignment)) for assignment in assignments)
        return ["" if score is None else score for score in found]


# Without Moodle's column "Feedback comments": an empty cell would delete what somebody has written there.
WORKSHEET = (
    *("Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed"),
    *("Last modified (submission)", "Last modified (grade)"),
)


def write_worksheet(course: Course, path: Path, lines: Sequence[Line], names: Mapping[str, LmsName]) -> Path:
    """Moodle's grading worksheet.

    Moodle skips a line whose grade was modified there after the date in it. Marks by hand come long after the verdict,
    so the date is that of the export: only what somebody changes in Moodle after it is safe from this table.
    """
    now = f"{datetime.now(course.rules().zone):%d %B %Y, %I:%M %p}"
    rows = []
    for line in lines:
        name = names.get(line.person.id)
        if name is None or line.score is None:
            continue
        known = (f"Participant {name.number}", name.name, line.person.email, "Submitted for grading")
        rows.append((*known, line.score, line.max_score, "Yes", line.handed_in, now))
    return write_table(course, path, WORKSHEET, rows, csv.QUOTE_MINIMAL)


def feedback_pages(course: Course, assignment: str, names: Mapping[str, LmsName]) -> dict[str, Path]:
    """The name of each page as the LMS wants it -> the page."""
    found = {}
    for student, name in sorted(names.items()):
        page = course.feedback(assignment, student)
        if not page.exists():
            continue
        if name.lms == "Moodle":  # it splits names at _, and knows the student by the number
            found[f"{name.name.replace('_', ' ')}_{name.number}_assignfeedback_file_/{page.name}"] = page
        else:
            found[f"{name.name}_{name.number}_{name.upload}_{page.name}"] = page
    return found


def write_zip(course: Course, path: Path, pages: Mapping[str, Path]) -> Path:
    """The same bytes for the same pages: no dates."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, page in pages.items():
            archive.writestr(zipfile.ZipInfo(name), page.read_bytes(), zipfile.ZIP_DEFLATED)
    course.ledger.write(path, packed.getvalue())
    return path


# --- cells ----------------------------------------------------------------------------------------------


def write_table(
    course: Course,
    path: Path,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | float]],
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC,
) -> Path:
    table = io.StringIO()
    writer = csv.writer(table, quoting=quoting)
    writer.writerow(columns)
    writer.writerows([undivided(value) if isinstance(value, str) else value for value in row] for row in rows)
    course.ledger.write(path, table.getvalue().encode("utf-8", errors="backslashreplace"))
    return path


def undivided(text: str) -> str:
    """The same for spreadsheets that divide a line at semicolons or tabs, as they do in many countries."""
    return defused(BEHIND_A_SEPARATOR.sub(r"\1'", text))


def defused(text: str) -> str:
    """The text, with a ' in front if a spreadsheet would take it for a formula."""
    is_formula = text.lstrip()[:1] in FORMULA_SIGNS if text.strip() else False
    return f"'{text}" if is_formula or text[:1] in ("\t", "\r", "\n") else text
