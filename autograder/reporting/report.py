"""The class report: one HTML page that tells an instructor who needs help, and what to say in the next lecture.

`write_report` reads the verdicts and, where there is one, nbgrader's gradebook (names, scores given by hand, late
times), and writes pages that need nothing else: no network, no JavaScript. Everything students wrote passes through
`visible` and through the template's escaping.

report.html       everything, or report_02_masks.html for one assignment alone, report_of_ada.html for one student
projector.html    what to talk about tomorrow, large, and with nothing in it that a student wrote
reading/02_masks.html   the text of the notebook, to which the others link
"""

from __future__ import annotations

import ast
import base64
import difflib
import functools
import hashlib
import itertools
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from typing import Any
from urllib.parse import quote

import nbformat
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from nbformat import NotebookNode

from autograder.classroom.collected import lost_work
from autograder.classroom.course import Course, CourseError
from autograder.hidden import TITLE as HIDDEN_CASES_HOLD
from autograder.judging.verdict import ExerciseVerdict, Verdict, verdicts
from autograder.reporting.feedback import write_reading
from autograder.reporting.gradebook import Entry, Mark, class_list, gradebook_entries, people, written_marks
from autograder.reporting.gradebook import has_gradebook as has_gradebook
from autograder.reporting.helped import NeedsHelp, who_needs_help
from autograder.reporting.items import Item, exercise_items, points_as_built, written_items
from autograder.reporting.shown import known_fragments
from autograder.reporting.similar import Group, plain_code, similar_groups
from autograder.reporting.words import SPACE, counted, duration, in_words, listed, percent, shortened, visible
from course_lib.checking.diagnosis import sentence_of
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade
from course_lib.checking.merge import tokens_of
from course_lib.checking.subject import Subject
from course_lib.checking.tried import A_RIGHT_ONE, LETS_THROUGH, sentence_about
from course_lib.checking.written_test import ACCEPTS, WrittenTest
from course_lib.exercises import all_exercises

OUTCOMES = ("right", "partly", "wrong", "raised", "not attempted", "not run")
EXAMPLES = 2
MOST_TALKING_POINTS = 5
FREQUENT = 0.25  # share of those who failed an exercise, from which on their mistake is worth a word to all
MOST_GROUPS_ALIKE = 15
MOST_GROUPS = 20
MOST_SLOW = 5
SLOW = 2.0  # times the median


# --- what is known about a class ------------------------------------------------------------------------


@dataclass(frozen=True)
class Submission:
    """One student's verdict, and their current score."""

    verdict: Verdict
    entry: Entry | None
    score: float
    max_score: float
    feedback: str  # the address of the feedback page beside the report, or ""
    name: str = ""  # of the student
    marks: tuple[Mark, ...] = ()  # of the written answers

    @property
    def student(self) -> str:
        return self.verdict.student

    @property
    def percent(self) -> float:
        return 100 * self.score / self.max_score if self.max_score else 0.0

    @property
    def seconds_late(self) -> float:
        return self.entry.seconds_late if self.entry else 0.0


@dataclass(frozen=True)
class Success:
    """How the class did in one exercise."""

    exercise: str
    counts: Mapping[str, int]  # outcome -> students
    mean_points: float
    max_points: float

    @property
    def share_right(self) -> float:
        return self.counts["right"] / max(1, sum(self.counts.values()))


@dataclass(frozen=True)
class Section:
    """Where an exercise is in the text of the notebook."""

    title: str
    link: str  # to the reading page, or "" if there is none


@dataclass(frozen=True)
class Shown:
    """What the check says about a mistake on a small input, and a picture of expected and got if there is one."""

    message: str
    picture: Markup


@dataclass(frozen=True)
class Misconception:
    """A known mistake, who made it, and what helps to speak about it."""

    exercise: str
    id: str
    sentence: str
    students: tuple[str, ...]
    failed: int  # students who failed the exercise, for whatever reason
    properties: tuple[str, ...]  # what fails, the most frequent first
    program: str  # the course's own version of it, or "" if it has none
    shown: Shown
    difference: tuple[tuple[str, str], ...]  # (sign, line): "-" as the mistake has it, "+" as it should be
    examples: tuple[str, ...]
    section: Section

    @property
    def title(self) -> str:
        return in_words(self.id)

    @property
    def is_shared(self) -> bool:
        return len(self.students) > 1

    @property
    def how_many(self) -> str:
        """`7 of the 9 who failed (78 %)`"""
        made, failed = len(self.students), max(self.failed, len(self.students))
        if failed == 1:
            return "the only one who failed"
        all_of_them = f"all {failed} who failed"
        return all_of_them if made == failed else f"{made} of the {failed} who failed ({percent(made, failed)})"


@dataclass(frozen=True)
class Nameless:
    """Answers to one exercise that fail the same property in a way nobody has named yet."""

    exercise: str
    property: str
    students: tuple[str, ...]
    messages: tuple[tuple[str, int], ...]  # what the students were told, and how many of them
    examples: tuple[str, ...]


@dataclass(frozen=True)
class AssignmentReport:
    """Everything the page says about one assignment."""

    name: str
    title: str
    submissions: tuple[Submission, ...]
    ungraded: tuple[str, ...]  # handed in, no verdict yet
    code_only: bool  # the scores leave out written answers, since not all are marked
    successes: tuple[Success, ...]
    misconceptions: tuple[Misconception, ...]
    nameless: tuple[Nameless, ...]
    alike: tuple[Group, ...]
    names: Mapping[str, str]  # of the students: id -> name
    items: tuple[Item, ...] = ()
    questions: tuple[Item, ...] = ()  # the written ones
    needing_help: tuple[NeedsHelp, ...] = ()

    def with_status(self, status: str) -> list[Submission]:
        return [s for s in self.submissions if s.verdict.status == status]

    @property
    def scored(self) -> list[Submission]:
        """Those with a score: a flagged submission has none before a person has looked at it."""
        return [s for s in self.submissions if s.verdict.status != "flagged"]

    @property
    def median_percent(self) -> float | None:
        return median(s.percent for s in self.scored) if self.scored else None

    @property
    def histogram(self) -> list[tuple[str, int]]:
        """(range of percent, students) for ten ranges."""
        places = Counter(min(9, max(0, int(s.percent // 10))) for s in self.scored)
        return [(f"{10 * i}–{100 if i == 9 else 10 * i + 9}", places[i]) for i in range(10)]

    @property
    def late(self) -> list[Submission]:
        return sorted((s for s in self.submissions if s.seconds_late > 0), key=lambda s: -s.seconds_late)

    @property
    def median_seconds(self) -> float:
        return median(s.verdict.seconds for s in self.submissions)

    @property
    def slow(self) -> list[Submission]:
        slow = [s for s in self.submissions if s.verdict.seconds > SLOW * self.median_seconds > 0]
        return sorted(slow, key=lambda s: -s.verdict.seconds)[:MOST_SLOW]

    @property
    def odd(self) -> list[Submission]:
        """Graded, but with a remark."""
        return [s for s in self.with_status("graded") if s.verdict.notes or s.verdict.reason]

    @property
    def walls(self) -> list[tuple[str, int]]:
        """(behind what the students' code ran, how many submissions)"""
        return Counter(walls_of(s.verdict) for s in self.submissions).most_common()

    @property
    def by_hand(self) -> int:
        return sum(s.entry.by_hand for s in self.submissions if s.entry)

    @property
    def awaiting_marks(self) -> int:
        return sum(s.entry.awaits_marks for s in self.submissions if s.entry)

    @property
    def penalised(self) -> int:
        return sum(bool(s.entry.penalty) for s in self.submissions if s.entry)

    @property
    def graded_at(self) -> str:
        return max((s.verdict.graded_at for s in self.submissions), default="")

    @property
    def summary(self) -> str:
        """The assignment in one or two sentences."""
        parts = [f"{len(self.with_status('graded'))} graded"]
        for status in ("zeroed", "flagged"):
            if self.with_status(status):
                parts.append(f"{len(self.with_status(status))} {status}")
        if self.ungraded:
            parts.append(f"{len(self.ungraded)} not graded yet")
        text = f"{counted(len(self.submissions) + len(self.ungraded), 'student')} handed in: {listed(parts)}."
        if self.median_percent is not None:
            text += f" The median score is {self.median_percent:.0f}{SPACE}%."
        return text

    @property
    def to_talk_about(self) -> list[Misconception]:
        """The mistakes made by many of those who failed an exercise, the most frequent first."""
        worth_it = [m for m in self.misconceptions if m.is_shared and len(m.students) >= FREQUENT * m.failed]
        return worth_it[:MOST_TALKING_POINTS]

    @property
    def talking_points(self) -> list[str]:
        """What else to talk about tomorrow."""
        points = []
        covered = {m.exercise for m in self.to_talk_about}
        hardest = min(self.successes, key=lambda s: s.share_right, default=None)
        if hardest and hardest.share_right < 0.5 and hardest.exercise not in covered:
            points.append(
                f"`{hardest.exercise}`: {hardest.counts['right'] or 'none'} of "
                f"{counted(len(self.submissions), 'student')} got it right"
                + (f", and {hardest.counts['not attempted']} did not try." if hardest.counts["not attempted"] else ".")
            )
        new = self.nameless[0] if self.nameless else None
        if new and len(new.students) > 2:
            points.append(
                f"`{new.exercise}`: {counted(len(new.students), 'answer')} fail at “{new.property}” in a way "
                "that has no name yet. Look at the examples: it may be a new misconception."
            )
        return points

    def name_of(self, student: str) -> str:
        return self.names.get(student, student)

    @property
    def percents(self) -> dict[str, float]:
        return percents_of(self.submissions)


def submissions_of(course: Course, found: Sequence[Verdict], assignment: str) -> tuple[Submission, ...]:
    """The submissions to an assignment with their scores, and with the names and marks of their authors."""
    entries = gradebook_entries(course, assignment)
    names = people(course)
    marks: dict[str, list[Mark]] = defaultdict(list)
    for mark in written_marks(course, assignment):
        marks[mark.student].append(mark)
    code_only = any(entry.awaits_marks for entry in entries.values())
    most = max(verdict.max_points for verdict in found)
    return tuple(
        Submission(
            v,
            entries.get(v.student),
            *score_of(v, entries.get(v.student), code_only, most),
            feedback(course, v),
            names.get(v.student, v.student),
            tuple(marks[v.student]),
        )
        for v in found
    )


def percents_of(submissions: Sequence[Submission]) -> dict[str, float]:
    """student -> percent, of those with a score: a flagged submission has none before a person has looked at it."""
    return {s.student: s.percent for s in submissions if s.verdict.status != "flagged"}


def assignment_report(course: Course, assignment: str, compared: bool = True) -> AssignmentReport:
    """Everything about one assignment, except what only the others tell (see `with_help`).

    compared: whether to look for near-identical answers, which takes most of the time.
    """
    found = read_verdicts(course, assignment)
    submissions = submissions_of(course, found, assignment)
    marks = [mark for submission in submissions for mark in submission.marks]
    cells = release_cells(course, assignment)
    with_verdict = {verdict.student for verdict in found}
    return AssignmentReport(
        name=assignment,
        title=title_in(cells) or assignment,
        submissions=submissions,
        ungraded=tuple(student for student in course.students(assignment) if student not in with_verdict),
        code_only=any(s.entry.awaits_marks for s in submissions if s.entry),
        successes=tuple(successes(found)),
        misconceptions=tuple(misconceptions(found, sections(assignment, cells))),
        nameless=tuple(nameless_failures(found)),
        alike=tuple(near_identical(course, assignment, found, cells)) if compared else (),
        names=people(course),
        items=tuple(exercise_items(found)),
        questions=tuple(written_items(marks, found)),
    )


def with_help(
    report: AssignmentReport, everybody: Sequence[str], others: Mapping[str, Mapping[str, float]]
) -> AssignmentReport:
    """The report with those who need help. everybody: the class. others: assignment -> student -> percent."""
    verdicts = [submission.verdict for submission in report.submissions]
    handed_in = [*report.ungraded, *(verdict.student for verdict in verdicts)]
    needing = who_needs_help(report.name, verdicts, everybody, handed_in, others)
    return replace(report, needing_help=tuple(needing))


def read_verdicts(course: Course, assignment: str) -> list[Verdict]:
    found = list(verdicts(course, assignment))
    if not found:
        raise CourseError(f"{assignment} has no verdicts yet. First run: {course.command('grade', assignment)}")
    return found


def graded_assignments(course: Course) -> list[str]:
    """The assignments that have verdicts, in order."""
    return sorted({path.parent.name for path in (course.root / "verdicts").glob("*/*.json")})


def score_of(verdict: Verdict, entry: Entry | None, code_only: bool, most: float) -> tuple[float, float]:
    """(score, maximum): the gradebook's, which knows what was given by hand, or else the verdict's."""
    if entry is None:
        return verdict.points, verdict.max_points or most
    return (entry.code_score, entry.max_code_score) if code_only else (entry.score, entry.max_score)


def walls_of(verdict: Verdict) -> str:
    is_run = any(answer.outcome != "not run" for answer in verdict.exercises)
    return ", ".join(verdict.walls) or ("none recorded" if is_run else "the code was not run")


def feedback(course: Course, verdict: Verdict) -> str:
    page = course.feedback(verdict.assignment, verdict.student)
    return quote(str(page.relative_to(course.root))) if page.exists() else ""


def release_cells(course: Course, assignment: str) -> list[NotebookNode]:
    """The cells of the released notebook, if there is one."""
    path = course.release(assignment)
    return list(nbformat.read(path, as_version=4).cells) if path.exists() else []


def title_in(cells: Sequence[NotebookNode]) -> str:
    lines = cells[0].source.splitlines() if cells else []
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")


def sections(assignment: str, cells: Sequence[NotebookNode]) -> dict[str, Section]:
    """exercise -> the section of the notebook that it is in."""
    found, heading = {}, ""
    for cell in cells:
        if cell.cell_type == "markdown":
            headings = [line.lstrip("# ") for line in cell.source.splitlines() if line.startswith(("## ", "### "))]
            heading = headings[-1] if headings else heading
        elif name := cell.metadata.get("nbgrader", {}).get("grade_id"):
            found[name] = Section(heading, f"reading/{quote(assignment)}.html#{quote(name)}")
    return found


# --- exercises ------------------------------------------------------------------------------------------


def successes(found: Sequence[Verdict]) -> list[Success]:
    """How the class did in each exercise, in the order of the notebook."""
    answers: dict[str, list[ExerciseVerdict]] = {}
    for verdict in sorted(found, key=lambda v: -len(v.exercises)):
        for exercise in verdict.exercises:
            answers.setdefault(exercise.name, []).append(exercise)
    rows = []
    for name, given in answers.items():
        counts = Counter(outcome_of(answer) for answer in given)
        counts["not run"] += len(found) - len(given)
        points = mean(answer.points + answer.hidden_points for answer in given)
        most = max(answer.max_points + answer.hidden_max_points for answer in given)
        rows.append(Success(name, {outcome: counts[outcome] for outcome in OUTCOMES}, points, most))
    return rows


def outcome_of(answer: ExerciseVerdict) -> str:
    """One of OUTCOMES: right with all points, partly right with some of them and no error."""
    points, most = answer.points + answer.hidden_points, answer.max_points + answer.hidden_max_points
    if answer.outcome in ("right", "wrong"):
        if answer.outcome == "right" and points >= most:
            return "right"
        return "partly" if points > 0 else "wrong"
    return answer.outcome if answer.outcome in OUTCOMES else "not run"


def failed_property(answer: ExerciseVerdict) -> str:
    """The property at which an answer fails. A run ends at the first that fails, so the points tell which it is."""
    exercise = all_exercises().get(answer.name)
    if exercise is None:
        return "an exercise that the course no longer has"
    if isinstance(exercise, WrittenTest) and A_RIGHT_ONE in f"{answer.sentence} {answer.message}":
        return ACCEPTS
    earned = itertools.accumulate(prop.points for prop in exercise.properties)
    reached = points_as_built(answer, exercise)
    failed = (prop.name for prop, so_far in zip(exercise.properties, earned) if reached < so_far)
    return next(failed, HIDDEN_CASES_HOLD)


# --- misconceptions -------------------------------------------------------------------------------------

Holder = tuple[str, ExerciseVerdict]  # a student, and the answer


def holders(found: Sequence[Verdict]) -> dict[tuple[str, str], list[Holder]]:
    """(exercise, misconception) -> who holds it. Somebody with two mistakes at once holds both."""
    held: dict[tuple[str, str], list[Holder]] = defaultdict(list)
    for verdict in found:
        for answer in verdict.exercises:
            for name in (answer.misconception or "").split(" + "):
                if name:
                    held[answer.name, name].append((verdict.student, answer))
    return held


def misconceptions(found: Sequence[Verdict], sections: Mapping[str, Section]) -> list[Misconception]:
    """The class's misconceptions, the most frequent first."""
    failed = Counter(e.name for v in found for e in v.exercises if outcome_of(e) in ("partly", "wrong", "raised"))
    ranked = sorted(holders(found).items(), key=lambda item: (-len(item[1]), item[0]))
    nowhere = Section("", "")
    return [
        misconception(exercise, name, held, failed[exercise], sections.get(exercise, nowhere))
        for (exercise, name), held in ranked
    ]


def misconception(
    exercise_name: str, name: str, held: Sequence[Holder], failed: int, section: Section
) -> Misconception:
    exercise = all_exercises().get(exercise_name)
    compared = programs_behind(exercise, name)
    answers = sorted((answer for _, answer in held), key=lambda answer: answer.misconception != name)
    return Misconception(
        exercise=exercise_name,
        id=name,
        sentence=sentence_for(exercise_name, name, answers[0]),
        students=tuple(student for student, _ in held),
        failed=failed,
        properties=tuple(prop for prop, _ in Counter(map(failed_property, answers)).most_common(2)),
        program=source_of(*compared) if compared else "",
        shown=shown(exercise, name) or Shown(most_frequent_message(answers), Markup("")),
        difference=difference(*compared) if compared else (),
        examples=examples(answers),
        section=section,
    )


def most_frequent_message(answers: Sequence[ExerciseVerdict]) -> str:
    return Counter(answer.message for answer in answers).most_common(1)[0][0]


def shown(exercise: Exercise | None, name: str) -> Shown | None:
    """What the check says about the course's own version of a mistake: nothing in it comes from a student."""
    if isinstance(exercise, WrittenTest) and name.startswith(LETS_THROUGH):
        return shown(exercise.tested, name.removeprefix(LETS_THROUGH))
    program = program_of(exercise, name)
    return check_of(exercise.name, program) if exercise and program else None


@functools.cache
def check_of(exercise: str, program: Callable[..., Any]) -> Shown | None:
    report = grade(all_exercises()[exercise], Subject(program), is_diagnosed=False)
    failed = next((check for check in report.checks if check.passed is False), None)
    if failed is None:
        return None
    return Shown(failed.message, Markup(failed.difference.as_html() if failed.difference else ""))


def program_of(exercise: Exercise | None, name: str) -> Callable[..., Any] | None:
    known = exercise.misconceptions if exercise else []
    return next((program for program in known if program.__name__ == name), None)


def programs_behind(exercise: Exercise | None, name: str) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The right program and the one with the mistake. Of a test that lets a mistake through: that mistake."""
    if isinstance(exercise, WrittenTest) and name.startswith(LETS_THROUGH):
        return programs_behind(exercise.tested, name.removeprefix(LETS_THROUGH))
    program = program_of(exercise, name)
    return (exercise.reference, program) if exercise and program else None


def sentence_for(exercise_name: str, name: str, answer: ExerciseVerdict) -> str:
    """What the course says about a misconception, or what the student was told if the course does not have it."""
    exercise = all_exercises().get(exercise_name)
    program = program_of(exercise, name)
    if isinstance(exercise, WrittenTest) and program is None:
        return sentence_about(exercise, name) or answer.sentence or ""
    return sentence_of(program) if program else answer.sentence or ""


@functools.cache
def source_of(right: Callable[..., Any], program: Callable[..., Any]) -> str:
    """A program in the words of the reference, as plain code."""
    return ast.unparse(ast.parse(tokenize.untokenize(tokens_of(program, right))))


@functools.cache
def difference(right: Callable[..., Any], wrong: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """The lines in which a misconception differs from the reference, with some around them."""
    whole = [source_of(right, program) for program in (wrong, right)]
    return lines_that_differ(*without_asides(*whole)) or lines_that_differ(*whole)


def lines_that_differ(before: str, after: str) -> tuple[tuple[str, str], ...]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    shown = [("…", "") if line.startswith("@@") else (line[0], line[1:]) for line in itertools.islice(lines, 2, None)]
    return tuple(shown[1:])  # the first line says where it begins, which nobody asks


def without_asides(*programs: str) -> Iterator[str]:
    """Two programs without what no mistake is about: annotations, and arguments that only one of them refuses."""
    trees = [ast.parse(program) for program in programs]
    refusals = [{ast.unparse(node) for node in ast.walk(tree) if is_refusal(node)} for tree in trees]
    shared = set.intersection(*refusals)
    for tree in trees:
        plain = ast.unparse(WithoutAsides(shared).visit(tree))
        # What derives from the reference cannot say super(), and means the same.
        yield plain.replace("nn.Module.__init__(self)", "super().__init__()")


def is_refusal(node: ast.AST) -> bool:
    """`if …: raise …`"""
    return isinstance(node, ast.If) and not node.orelse and all(isinstance(each, ast.Raise) for each in node.body)


class WithoutAsides(ast.NodeTransformer):
    def __init__(self, refusals_to_keep: set[str]):
        self.refusals_to_keep = refusals_to_keep

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if is_refusal(node) and ast.unparse(node) not in self.refusals_to_keep:
            return None
        return self.generic_visit(node)


def examples(answers: Iterable[ExerciseVerdict]) -> tuple[str, ...]:
    """A few different answers, without anything that tells whose they are."""
    different = dict.fromkeys(plain_code(answer.answer).strip() for answer in answers)
    return tuple(itertools.islice((shortened(text) for text in different if text), EXAMPLES))


def nameless_failures(found: Sequence[Verdict]) -> list[Nameless]:
    """Answers that fail without a known name, by exercise and property, the largest group first."""
    groups: dict[tuple[str, str], list[Holder]] = defaultdict(list)
    for verdict in found:
        for answer in verdict.exercises:
            if outcome_of(answer) in ("partly", "wrong", "raised") and not answer.misconception:
                groups[answer.name, failed_property(answer)].append((verdict.student, answer))
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        Nameless(
            exercise=exercise,
            property=prop,
            students=tuple(student for student, _ in held),
            messages=tuple(Counter(answer.message for _, answer in held if answer.message).most_common(3)),
            examples=examples(answer for _, answer in held),
        )
        for (exercise, prop), held in ranked
    ]


def near_identical(
    course: Course, assignment: str, found: Sequence[Verdict], cells: Sequence[NotebookNode]
) -> list[Group]:
    """Groups of students with nearly the same answers."""
    answers = {verdict.student: {a.name: a.answer for a in verdict.exercises if a.answer} for verdict in found}
    return similar_groups(answers, known_fragments(course, assignment, cells))


# --- the page -------------------------------------------------------------------------------------------


def write_report(course: Course, assignments: Sequence[str] | None = None, student: str = "") -> Path:
    """Write the report on all assignments that have been graded to report.html in the course's folder, or on these
    alone, or on one student; with it the projector's page and the texts that they link to."""
    graded = graded_assignments(course)
    if not graded and assignments is None:
        raise CourseError(
            f"Nothing has been graded yet, so there is nothing to report. First run: {course.command('grade')}"
        )
    wanted = graded if assignments is None else list(assignments)
    reports = {name: assignment_report(course, name, compared=not student) for name in wanted}
    percents = {name: reports[name].percents if name in reports else others_percents(course, name) for name in graded}
    everybody = class_list(course)
    chosen = [with_help(report, everybody, percents) for report in reports.values()]
    for report in chosen:
        if course.release(report.name).exists():
            write_reading(course, report.name)
    if student:
        return write_student(course, chosen, student)
    projector = rendered("projector.html.j2", reports=chosen, course_id=course.course_id)
    course.ledger.write(course.root / named("projector", assignments), projector)
    target = course.root / named("report", assignments)
    last = max((report.graded_at for report in chosen), default="")
    page = rendered(
        "report.html.j2",
        reports=chosen,
        course_id=course.course_id,
        everybody=sorted({*everybody, *(student for report in chosen for student in report.percents)}),
        last_graded=course.rules().shown(datetime.fromisoformat(last)) if last else "",
        lost=lost_work(course),
        projector=named("projector", assignments),
        command=course.command,
    )
    course.ledger.write(target, page)
    return target


def others_percents(course: Course, assignment: str) -> dict[str, float]:
    return percents_of(submissions_of(course, read_verdicts(course, assignment), assignment))


def named(page: str, assignments: Sequence[str] | None) -> str:
    return f"{'_'.join([page, *(assignments or ())])}.html"


def write_student(course: Course, reports: Sequence[AssignmentReport], student: str) -> Path:
    """One student across assignments."""
    names = {s.student: s.student for report in reports for s in report.submissions} | people(course)
    student = id_of(student, names)
    name = names[student]
    rows = [(report, next((s for s in report.submissions if s.student == student), None)) for report in reports]
    target = course.root / f"report_of_{student}.html"
    page = rendered("student.html.j2", rows=rows, student=student, name=name, course_id=course.course_id)
    course.ledger.write(target, page)
    return target


def id_of(student: str, names: Mapping[str, str]) -> str:
    """The id of a student who was named by id or by name. names: id -> name. Raises: CourseError."""
    if student in names:
        return student
    found = [own for own, name in names.items() if name.casefold() == student.casefold()]
    if len(found) > 1:
        raise CourseError(f"{student} may be {' or '.join(found)}: use the id.")
    if not found:
        raise CourseError(f"There is no student {student} in this class.")
    return found[0]


def rendered(template: str, **values: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": counted,
        "duration": duration,
        "in_words": in_words,
        "shortened": shortened,
        "sha256": script_digest,
    }
    limits = {"most_alike": MOST_GROUPS_ALIKE, "most_groups": MOST_GROUPS, "slow": SLOW, "outcomes": OUTCOMES}
    return environment.get_template(template).render(**limits, **values)


def script_digest(script: str) -> str:
    """What the page's security policy asks for: the one script of the page may run, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
