"""A thousand submissions of one notebook, from an empty course folder to gradebook, feedback and report.

Every step is the command that an instructor would give, with its wall-clock time: run it on a quiet machine. The
submissions are honest ones, no two of them alike, made of the exercises' own right and wrong answers; in every fifth a
name is misspelt.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.classroom.course import Course
from autograder.classroom.sample import crowd
from autograder.judging.verdict import verdicts
from autograder.walls.warm import processors
from benchmarks.commands import Run, grader
from benchmarks.tables import Row, at_most

ASSIGNMENT = "02_masks"
SUBMISSIONS = (1000,)
GRADED_SECONDS, ALL_SECONDS = 90, 150  # the targets, for a class of that size


def run(submissions: Sequence[int] = SUBMISSIONS) -> list[Row]:
    """The table, for the largest of these numbers."""
    count = max(submissions)
    with tempfile.TemporaryDirectory(prefix="thousand-") as name:
        course, handed_in = Course(Path(name) / "course"), Path(name) / "handed_in"
        course.root.mkdir()
        steps = {"release": grader(course.root, "release", ASSIGNMENT)}
        crowd(course, ASSIGNMENT, count, handed_in)
        steps["collect"] = grader(course.root, "collect", str(handed_in), "--assignment", ASSIGNMENT)
        for step in ("grade", "feedback", "report", "export"):
            steps[step] = grader(course.root, step)
        return [*step_rows(steps, count), *outcome_rows(course, count), *size_rows(course, steps["grade"])]


def step_rows(steps: dict[str, Run], count: int) -> Iterator[Row]:
    is_whole_class = count == max(SUBMISSIONS)
    for step, done in steps.items():
        what = f"`python -m autograder {step}`"
        is_wanted = step == "grade" and is_whole_class
        yield at_most(what, done.seconds, GRADED_SECONDS, " s") if is_wanted else Row(what, f"{done.seconds:.1f} s")
    together = sum(done.seconds for done in steps.values())
    what = "all steps together"
    yield at_most(what, together, ALL_SECONDS, " s") if is_whole_class else Row(what, f"{together:.0f} s")
    rate = count / steps["grade"].seconds
    yield Row(f"graded per second, {processors()} at a time", f"{rate:.1f} submissions")


def outcome_rows(course: Course, count: int) -> Iterator[Row]:
    """What became of the submissions, and that none was lost on the way."""
    found = list(verdicts(course, ASSIGNMENT))
    statuses = Counter(verdict.status for verdict in found)
    words = ", ".join(f"{statuses[status]} {status}" for status in ("graded", "zeroed", "flagged"))
    yield Row("verdicts", words, f"{count} graded", statuses["graded"] == count)
    with course.gradebook() as gradebook:
        submissions = gradebook.notebook_submissions(ASSIGNMENT, ASSIGNMENT)
        scores = {submission.student.id: submission.score for submission in submissions}
    yield Row("submissions in the gradebook", str(len(submissions)), str(count), len(submissions) == count)
    same = sum(abs(scores.get(verdict.student, -1.0) - verdict.points) < 1e-6 for verdict in found)
    yield Row("… with the score of their verdict", str(same), str(count), same == count)
    files = {"autograded notebooks": "autograded/*/*/*.ipynb", "feedback pages": "feedback/*/*/*.html"}
    for what, pattern in files.items():
        made = sum(1 for _ in course.root.glob(pattern))
        yield Row(what, str(made), str(count), made == count)


def size_rows(course: Course, grading: Run) -> Iterator[Row]:
    for what, megabytes in sorted(grading.megabytes.items()):
        if what in ("coordinator", "judge", "warm process", "runner"):
            yield Row(f"memory while grading: {what}, peak", f"{megabytes:.0f} MB")
    yield Row("size of the gradebook", f"{megabytes_in(course.root / 'gradebook.db'):.1f} MB")
    for part in ("autograded", "feedback", "verdicts"):
        yield Row(f"size of {part}/", f"{sum(megabytes_in(p) for p in (course.root / part).rglob('*')):.0f} MB")


def megabytes_in(path: Path) -> float:
    return path.stat().st_size / 2**20 if path.is_file() else 0.0
