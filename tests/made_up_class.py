"""A class of thirty made-up students who handed in 02_masks, as the grader leaves it behind: verdicts and a gradebook.

Outcomes, points and diagnoses are those of the real checks; only the students are invented.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from release import released_text

from autograder.authoring.build import put_own_commands_on_path
from autograder.classroom.course import Course
from autograder.classroom.seed import PUBLIC
from autograder.hidden import all_hidden, check_hidden
from autograder.judging.verdict import ExerciseVerdict, Verdict, write_verdict
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

ASSIGNMENT = "02_masks"
WALLS = ("limits", "namespaces", "landlock", "seccomp")
DUE = datetime.datetime(2026, 3, 2, 12, 0)
HOSTILE = (
    "<script>document.title = 'stolen'</script></style>\u202egnp.exe\u2066 javascript:alert(1) "
    "<img src=x onerror=alert(1)>"
)
HOSTILE_NAME = '=1+2,"<b>\u202eeve'

NAMES = (
    "ada",
    "alan",
    "barbara",
    "claude",
    "donald",
    "dorothy",
    "edsger",
    "emmy",
    "evelyn",
    "frances",
    "grace",
    "hedy",
    "ida",
    "joan",
    "john",
    "karen",
    "kathleen",
    "katherine",
    "ken",
    "leslie",
    "lynn",
    "margaret",
    "mary",
    "niklaus",
    "radia",
    "richard",
)

COPIED = '''def window_mask(n, width):
    """Which keys may a query see?"""
    # written by {who}
    {grid} = []
    for {row} in range(n):
        {line} = []
        for {column} in range(n):
            {far} = abs({row} - {column})
            if {far} <= width and {column} <= {row} + width * 2:
                {line}.append(True)
            else:
                {line}.append(False)
        {grid}.append({line})
    return torch.tensor({grid})
'''


def answer_in_hand(name: str, program: Callable[..., Any], comment: str = "") -> str:
    """The source of a program of the course as a student would have written it in the cell of an exercise."""
    source = re.sub(r"^@.*\n", "", inspect.getsource(program))
    return re.sub(r"^def \w+", f"def {name}", source) + comment


def judged(name: str, program: Callable[..., Any], answer: str | None = None) -> ExerciseVerdict:
    """The real verdict of the checks on a program."""
    exercise = all_exercises()[name]
    seen, hidden = grade(exercise, Subject(program)), check_hidden(name, program, PUBLIC)
    failed = next((check.message for check in seen.checks if check.passed is False), "")
    diagnosis = seen.diagnosis or hidden.diagnosis
    return ExerciseVerdict(
        name=name,
        outcome=seen.outcome,
        points=seen.points,
        max_points=seen.max_points,
        hidden_points=hidden.points,
        hidden_max_points=hidden.max_points,
        misconception=diagnosis.id if diagnosis else None,
        sentence=diagnosis.sentence if diagnosis else None,
        message=failed,
        answer=answer_in_hand(name, program) if answer is None else answer,
    )


def unreached(name: str, outcome: str, answer: str = "") -> ExerciseVerdict:
    most, hidden = all_exercises()[name].max_points, all_hidden()[name].points
    return ExerciseVerdict(name, outcome, 0.0, most, 0.0, hidden, answer=answer)


def checkerboard(n: int) -> torch.Tensor:
    """An answer that nobody has named."""
    places = torch.arange(n)
    return (places[:, None] + places) % 2 == 0


def forgetful(n: int) -> torch.Tensor:
    return torch.tril(torch.ones(n, n)).to(dtypo)  # type: ignore[name-defined]  # noqa: F821  raises, on purpose


def exercise_names() -> list[str]:
    return [name for name, exercise in all_exercises().items() if exercise.topic == "masks"]


def ordinary_answers(dice: random.Random, place: int) -> dict[str, ExerciseVerdict]:
    """Right answers, and here and there a mistake."""
    answers = {}
    for name in exercise_names():
        exercise = all_exercises()[name]
        right = [exercise.reference, *exercise.alternatives]
        wrong = exercise.misconceptions
        answers[name] = judged(name, dice.choice(wrong if dice.random() < 0.22 else right))
    favourite = {0: "hides_the_diagonal", 1: "hides_the_diagonal", 2: "peeks_one_ahead"}.get(place % 5)
    if favourite:
        program = next(m for m in all_exercises()["causal_mask"].misconceptions if m.__name__ == favourite)
        answers["causal_mask"] = judged("causal_mask", program)
    return answers


@functools.cache
def made_up_verdicts() -> list[Verdict]:
    """Thirty verdicts: graded, zeroed, flagged, slow, odd, hostile, alike."""
    dice = random.Random(5)
    classmates = {name: ordinary_answers(dice, place) for place, name in enumerate(NAMES)}
    for name in ("emmy", "ida", "ken"):
        classmates[name]["causal_mask"] = judged(
            "causal_mask", checkerboard, f"{inspect.getsource(checkerboard)}# {name}"
        )
    classmates["john"]["causal_mask"] = judged("causal_mask", forgetful)
    classmates["leslie"]["window_mask"] = unreached(
        "window_mask", "not attempted", "def window_mask(n, width):\n    ..."
    )
    first = {"who": "hedy", "grid": "grid", "row": "row", "line": "line", "column": "column", "far": "far"}
    second = {"who": "somebody else", "grid": "m", "row": "i", "line": "r", "column": "j", "far": "d"}
    copied = next(m for m in all_exercises()["window_mask"].misconceptions)
    for name, words in (("hedy", first), ("radia", second)):
        classmates[name]["window_mask"] = judged("window_mask", copied, COPIED.format(**words))
    verdicts = [
        verdict_on(name, tuple(answers.values()), place) for place, (name, answers) in enumerate(classmates.items())
    ]
    stopped = tuple(
        unreached(name, "raised" if i == 0 else "not run", "while True:\n    pass")
        for i, name in enumerate(exercise_names())
    )
    hostile = tuple(
        ExerciseVerdict(
            name, "wrong", 0.0, 4.0, 0.0, 1.0, None, None, HOSTILE, f"# {HOSTILE}\nx = {HOSTILE!r}\n" + HOSTILE
        )
        for name in exercise_names()
    )
    special = [
        Verdict("zed", ASSIGNMENT, "zeroed", "The file is not a notebook: it ends in the middle of its JSON."),
        Verdict("yara", ASSIGNMENT, "flagged", "Five cells lost their ids, and two of them could be causal_mask."),
        Verdict(
            "xaver", ASSIGNMENT, "graded", "", stopped, ("Stopped after 60 s in cell 12.",), WALLS, 61.5, 60.0, 812.0
        ),
        Verdict(HOSTILE_NAME, ASSIGNMENT, "flagged", HOSTILE, hostile, (HOSTILE,), (), 1.1, 0.2, 300.0),
    ]
    return verdicts + special


def verdict_on(name: str, exercises: tuple[ExerciseVerdict, ...], place: int) -> Verdict:
    notes = ("The file was called masks(1).ipynb.",) if name == "grace" else ()
    seconds = 9.0 if name == "mary" else 0.3 + place / 100
    moment = f"2026-03-02T18:{place:02}:00+00:00"
    return Verdict(name, ASSIGNMENT, "graded", "", exercises, notes, WALLS, seconds, seconds / 2, 310.0, "", moment)


def make_class(root: Path, gradebook: bool = True) -> Course:
    """The course folder of this class."""
    course = Course(root)
    course.release(ASSIGNMENT).parent.mkdir(parents=True)
    course.release(ASSIGNMENT).write_text(released_text(ASSIGNMENT), encoding="utf-8")
    found = made_up_verdicts()
    for verdict in found:
        write_verdict(course, verdict)
        (root / "submitted" / verdict.student / ASSIGNMENT).mkdir(parents=True)
    (root / "submitted" / "wim" / ASSIGNMENT).mkdir(parents=True)
    page = course.feedback(ASSIGNMENT, "ada")
    page.parent.mkdir(parents=True)
    page.write_text("feedback")
    if gradebook:
        fill_gradebook(course, found)
    return course


def fill_gradebook(course: Course, found: list[Verdict]) -> None:
    """Automatic scores for all that were graded or zeroed; some late, some marked by hand."""
    put_own_commands_on_path()
    with course.gradebook() as gradebook:
        gradebook.add_assignment(ASSIGNMENT, duedate=DUE)
        gradebook.add_notebook(ASSIGNMENT, ASSIGNMENT)
        for name in exercise_names():
            visible, hidden = all_exercises()[name].max_points, all_hidden()[name].points
            for cell, points in ((f"{name}_check", visible), (f"{name}_hidden", hidden)):
                gradebook.add_grade_cell(cell, ASSIGNMENT, ASSIGNMENT, max_score=points, cell_type="code")
        gradebook.add_grade_cell("why", ASSIGNMENT, ASSIGNMENT, max_score=2, cell_type="markdown")
        for verdict in found:
            if verdict.status == "flagged":
                continue
            gradebook.add_student(verdict.student, last_name=f"Doe, {verdict.student}", first_name="=1+1")
            late = datetime.timedelta(hours={"ken": 27, "ida": 1}.get(verdict.student, -3))
            submission = gradebook.add_submission(ASSIGNMENT, verdict.student, timestamp=DUE + late)
            scores = {f"{e.name}_check": e.points for e in verdict.exercises}
            scores |= {f"{e.name}_hidden": e.hidden_points for e in verdict.exercises}
            for grade_entry in submission.notebooks[0].grades:
                is_written = grade_entry.name == "why"
                grade_entry.auto_score = None if is_written else scores.get(grade_entry.name, 0.0)
                grade_entry.needs_manual_grade = is_written
                if verdict.student == "ada":
                    grade_entry.manual_score = grade_entry.max_score
                    grade_entry.needs_manual_grade = False
        gradebook.db.commit()


def mark_written_answers(course: Course) -> None:
    """The instructor gives everybody one of two points for the written answer."""
    with course.gradebook() as gradebook:
        for submission in gradebook.assignment_submissions(ASSIGNMENT):
            for entry in submission.notebooks[0].grades:
                if entry.name == "why":
                    entry.manual_score, entry.needs_manual_grade = 1.0, False
        gradebook.db.commit()


def with_answers(root: Path, mistakes: dict[str, tuple[str, str | None]]) -> Course:
    """A small class without a gradebook: student -> (exercise, the misconception behind a wrong answer)."""
    course = Course(root)
    for student, (name, misconception) in mistakes.items():
        answer = ExerciseVerdict(name, "wrong", 1.0, 4.0, 0.0, 1.0, misconception, "A sentence.", "A message.", "x = 1")
        write_verdict(course, Verdict(student, ASSIGNMENT, "graded", "", (answer,)))
    return course


def copy_of(course: Course, folder: Path) -> Course:
    """The same class once more, to be changed. To fill a gradebook takes seconds."""
    return Course(Path(shutil.copytree(course.root, folder / "copy")))
