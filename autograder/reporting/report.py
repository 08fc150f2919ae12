"""The class report: one HTML page that tells an instructor what to say in the next lecture.

`write_report` reads the verdicts and, where there is one, nbgrader's gradebook (scores given by hand, late times), and
writes a page that needs nothing else: no network, no other file, no JavaScript. Everything students wrote passes
through `visible` and through the template's escaping.
"""

from __future__ import annotations

import ast
import base64
import difflib
import functools
import hashlib
import itertools
import json
import re
import tokenize
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbgrader.api import Grade, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import make_url

from autograder.classroom.collected import Lost, lost_work
from autograder.classroom.course import Course, CourseError
from autograder.hidden import TITLE as HIDDEN_CASES_HOLD
from autograder.judging.verdict import ExerciseVerdict, Verdict, verdicts
from autograder.reporting.similar import Known, Pair, plain_code, similar_pairs
from course_lib.checking.diagnosis import sentence_of
from course_lib.checking.exercise import Exercise
from course_lib.checking.merge import completed, tokens_of
from course_lib.checking.tried import A_RIGHT_ONE, LETS_THROUGH, sentence_about
from course_lib.checking.written_test import ACCEPTS, WrittenTest
from course_lib.exercises import all_exercises

OUTCOMES = ("right", "partly", "wrong", "raised", "not attempted", "not run")
EXAMPLES = 2
MOST_TALKING_POINTS = 3
FREQUENT = 0.1  # share of the class from which on a mistake is worth a word to all
MOST_PAIRS = 15
MOST_GROUPS = 20
MOST_SLOW = 5
SLOW = 2.0  # times the median
LINES, WIDTH = 40, 140  # of an answer that is shown
SPACE = "\u00a0"  # a space that keeps a number and its unit on one line


# --- what is known about a class ------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """What the gradebook knows about one submission."""

    score: float
    max_score: float
    code_score: float
    max_code_score: float
    seconds_late: float
    penalty: float
    by_hand: int  # scores given by a person
    awaits_marks: bool


@dataclass(frozen=True)
class Submission:
    """One student's verdict, and their score as it stands."""

    verdict: Verdict
    entry: Entry | None
    score: float
    max_score: float
    feedback: str  # the address of the feedback page beside the report, or ""

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
class Misconception:
    """A known mistake, who made it, and what helps to speak about it."""

    exercise: str
    id: str
    sentence: str
    students: tuple[str, ...]
    properties: tuple[str, ...]  # what fails, the most frequent first
    hints: tuple[str, ...]
    difference: tuple[tuple[str, str], ...]  # (sign, line): "-" as the mistake has it, "+" as it should be
    examples: tuple[str, ...]

    @property
    def title(self) -> str:
        return in_words(self.id)

    @property
    def is_shared(self) -> bool:
        return len(self.students) > 1


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
    pairs: tuple[Pair, ...]

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
        """Graded, but with something to know about."""
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
    def talking_points(self) -> list[str]:
        """What to talk about tomorrow, the most useful first."""
        points = []
        shared = [m for m in self.misconceptions if m.is_shared and len(m.students) >= FREQUENT * len(self.submissions)]
        for m in shared[:MOST_TALKING_POINTS]:
            points.append(f"`{m.exercise}`: {share_of(m.students, self.submissions)} made the mistake “{m.title}”.")
        covered = {m.exercise for m in shared[:MOST_TALKING_POINTS]}
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


def assignment_report(course: Course, assignment: str) -> AssignmentReport:
    """Everything about one assignment."""
    found = read_verdicts(course, assignment)
    entries = gradebook_entries(course, assignment)
    code_only = any(entry.awaits_marks for entry in entries.values())
    most = max(verdict.max_points for verdict in found)
    submissions = tuple(
        Submission(
            v, entries.get(v.student), *score_of(v, entries.get(v.student), code_only, most), feedback(course, v)
        )
        for v in found
    )
    cells = release_cells(course, assignment)
    with_verdict = {verdict.student for verdict in found}
    return AssignmentReport(
        name=assignment,
        title=title_in(cells) or assignment,
        submissions=submissions,
        ungraded=tuple(student for student in course.students(assignment) if student not in with_verdict),
        code_only=code_only,
        successes=tuple(successes(found)),
        misconceptions=tuple(misconceptions(found)),
        nameless=tuple(nameless_failures(found)),
        pairs=tuple(near_identical(found, cells)),
    )


def read_verdicts(course: Course, assignment: str) -> list[Verdict]:
    found = list(verdicts(course, assignment))
    if not found:
        raise CourseError(f"{assignment} has no verdicts yet. First run: python -m autograder grade {assignment}")
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
    return ", ".join(verdict.walls) or ("none recorded" if verdict.exercises else "the code was not run")


def feedback(course: Course, verdict: Verdict) -> str:
    page = course.feedback(verdict.assignment, verdict.student)
    return quote(str(page.relative_to(course.root))) if page.exists() else ""


def has_gradebook(course: Course) -> bool:
    """Whether there is one already: to open an SQLite file that is not there would make it."""
    url = make_url(course.db_url)
    return url.get_backend_name() != "sqlite" or Path(url.database or "").exists()


def gradebook_entries(course: Course, assignment: str) -> dict[str, Entry]:
    """student -> what the gradebook knows."""
    if not has_gradebook(course):
        return {}
    with course.gradebook() as gradebook:
        by_hand = Counter(
            student
            for (student,) in gradebook.db.query(SubmittedAssignment.student_id)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .filter(SubmittedAssignment.name == assignment, Grade.manual_score.is_not(None))
        )
        return {
            s.student_id: Entry(
                score=s.score,
                max_score=s.max_score,
                code_score=s.code_score,
                max_code_score=s.max_code_score,
                seconds_late=s.total_seconds_late,
                penalty=s.late_submission_penalty or 0.0,
                by_hand=by_hand[s.student_id],
                awaits_marks=bool(s.needs_manual_grade),
            )
            for s in gradebook.assignment_submissions(assignment)
        }


def release_cells(course: Course, assignment: str) -> list[dict[str, Any]]:
    """The cells of the released notebook, if there is one."""
    path = course.release(assignment)
    return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []


def title_in(cells: Sequence[Mapping[str, Any]]) -> str:
    lines = "".join(cells[0]["source"]).splitlines() if cells else []
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")


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
    """One of OUTCOMES. Right is who has all points; who has some and no error is partly right."""
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
    failed = (prop.name for prop, so_far in zip(exercise.properties, earned) if answer.points < so_far)
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


def misconceptions(found: Sequence[Verdict]) -> list[Misconception]:
    """The class's misconceptions, the most frequent first."""
    ranked = sorted(holders(found).items(), key=lambda item: (-len(item[1]), item[0]))
    return [misconception(exercise, name, held) for (exercise, name), held in ranked]


def misconception(exercise_name: str, name: str, held: Sequence[Holder]) -> Misconception:
    exercise = all_exercises().get(exercise_name)
    compared = programs_behind(exercise, name)
    answers = sorted((answer for _, answer in held), key=lambda answer: answer.misconception != name)
    return Misconception(
        exercise=exercise_name,
        id=name,
        sentence=sentence_for(exercise_name, name, answers[0]),
        students=tuple(student for student, _ in held),
        properties=tuple(prop for prop, _ in Counter(map(failed_property, answers)).most_common(2)),
        hints=tuple(exercise.hints[:2]) if exercise else (),
        difference=difference(*compared) if compared else (),
        examples=examples(answers),
    )


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
    """What the course says about a misconception, or what the student was told if it is none of the course's."""
    exercise = all_exercises().get(exercise_name)
    program = program_of(exercise, name)
    if isinstance(exercise, WrittenTest) and program is None:
        return sentence_about(exercise, name) or answer.sentence or ""
    return sentence_of(program) if program else answer.sentence or ""


@functools.cache
def difference(right: Callable[..., Any], wrong: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """The lines in which a misconception differs from the reference, with some around them."""
    before, after = (
        ast.unparse(ast.parse(tokenize.untokenize(tokens_of(program, right)))).splitlines()
        for program in (wrong, right)
    )
    lines = itertools.islice(difflib.unified_diff(before, after, n=2, lineterm=""), 2, None)  # without its two headers
    shown = [("…", "") if line.startswith("@@") else (line[0], line[1:]) for line in lines]
    return tuple(shown[1:])  # the first line says where it begins, which nobody asks


def examples(answers: Iterable[ExerciseVerdict]) -> tuple[str, ...]:
    """A few different answers, without what could tell whose they are."""
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


def near_identical(found: Sequence[Verdict], cells: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """Pairs of students with nearly the same answers."""
    stubs = {cell["metadata"].get("nbgrader", {}).get("grade_id"): "".join(cell["source"]) for cell in cells}
    answers = {verdict.student: {a.name: a.answer for a in verdict.exercises if a.answer} for verdict in found}
    names = {name for texts in answers.values() for name in texts}
    return similar_pairs(answers, {name: known_answers(name, stubs.get(name, "")) for name in names})


def known_answers(name: str, stub: str) -> Known:
    exercise = all_exercises().get(name)
    if exercise is None:
        return Known((), stub)
    programs = (exercise.reference, *exercise.alternatives, *exercise.misconceptions)
    return Known([ast.unparse(completed(program, exercise.reference)) for program in programs], stub)


# --- words ----------------------------------------------------------------------------------------------


def in_words(name: str) -> str:
    """`hides_the_diagonal` and `HidesTheDiagonal` as words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower()


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(parts: Sequence[str]) -> str:
    """one, two and three"""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def share_of(part: Sequence[Any], whole: Sequence[Any]) -> str:
    return f"{len(part)} of {counted(len(whole), 'student')} ({100 * len(part) / len(whole):.0f}{SPACE}%)"


def duration(seconds: float) -> str:
    """`3 days 2 hours`: the two largest units that matter."""
    minutes = max(1, round(seconds / 60))
    units = {"day": minutes // 1440, "hour": minutes // 60 % 24, "minute": minutes % 60}
    return " ".join([counted(number, unit) for unit, number in units.items() if number][:2])


def shortened(text: str, lines: int = LINES, width: int = WIDTH) -> str:
    """The beginning of a text that may be endless. Says how much was left out."""
    kept = text[: 4 * lines * width].splitlines()
    cut = [line if len(line) <= width else line[: width - 1] + "…" for line in kept[:lines]]
    missing = len(text.splitlines()) - len(cut)
    return "\n".join([*cut, f"… {counted(missing, 'more line')}"] if missing > 0 else cut)


def visible(text: str) -> str:
    """Signs that would turn the writing direction, hide text or break the page are shown by their number."""
    return "".join(character if is_plain(character) else f"\\u{ord(character):04x}" for character in text)


def is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


# --- the page -------------------------------------------------------------------------------------------


def write_report(course: Course, assignments: Sequence[str] | None = None) -> Path:
    """Write the report on these assignments (or on all that have been graded) to report.html in the course's folder."""
    names = list(assignments) if assignments is not None else graded_assignments(course)
    if not names:
        raise CourseError(
            "Nothing has been graded yet, so there is nothing to report. First: python -m autograder grade"
        )
    page = rendered([assignment_report(course, name) for name in names], course.course_id, lost_work(course))
    target = course.root / "report.html"
    course.ledger.write(target, page)
    return target


def rendered(reports: Sequence[AssignmentReport], course_id: str, lost: Sequence[Lost] = ()) -> str:
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
    limits = {"most_pairs": MOST_PAIRS, "most_groups": MOST_GROUPS, "slow": SLOW}
    template = environment.get_template("report.html.j2")
    return template.render(reports=reports, course_id=course_id, lost=lost, outcomes=OUTCOMES, **limits)


def script_digest(script: str) -> str:
    """What the page's security policy asks for: the one script of the page may run, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
