"""Grading: this grader beside stock nbgrader and otter-grader, on the same submissions of one notebook.

Wall-clock times of whole commands, one after another, each on a copy of the same course folder: run it on a quiet
machine, where it takes about ten minutes, most of them nbgrader's and otter-grader's. The submissions are made of the
exercises' own right and wrong answers, no two of them alike; in every fifth a name is misspelt. Then comes where the
CPU time of a submission goes, and what all notebooks of the course take (see `inside`). With --write, the figures are
put into the README, between its markers.

*Per submission* is the time in which the last three quarters of a class are finished, shared among them: no start-up
counts in it, and this grader's second process starts while the first has begun to grade. A virtual machine is not
equally fast all the time, so this grader grades the larger class before and after nbgrader: the mean of both counts,
and of the two start-ups the shorter one. nbgrader grades the smaller class; its time for the larger one is extended
from that, with its time per submission for each further one. With --full it grades both. otter-grader has a command for
one submission, and is measured on a few; its tests call the course's `check`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.authoring.release import release
from autograder.classroom.collect import collect
from autograder.classroom.course import Course
from autograder.classroom.sample import crowd
from autograder.judging.verdict import Verdict, verdicts
from autograder.walls.warm import processors
from benchmarks import inside
from benchmarks.commands import ROOT, CommandFailed, Run, environment, grader, plain_nbgrader_config
from benchmarks.commands import run as run_command
from benchmarks.tables import Row, at_least, at_most

ASSIGNMENT = "02_masks"
SUBMISSIONS = (12, 60)
FASTER_EACH, FASTER_WHOLE, WHOLE_AT = 150, 40, 60  # the targets; the second is for a class of that size
START_SECONDS = 2.5

OTTER = "otter-grader==7.0.0"
OTTER_SUBMISSIONS = 3  # one takes about as long as three with nbgrader
INSTALL_SECONDS = 900
OTTER_TEST = """OK_FORMAT = False

from otter.test_files import test_case

name = "{name}"
points = 1


@test_case()
def passes({name}):
    from course_lib import check

    assert check("{name}", {name}, practice=True).passed
"""


@dataclass(frozen=True)
class Graded:
    """A class that one of the graders has graded."""

    course: Course
    run: Run
    count: int
    again: Graded | None = None  # the same once more, later

    @property
    def finished(self) -> list[float]:
        """When each submission was written, in order."""
        paths = (self.course.root / "autograded").glob(f"*/{ASSIGNMENT}/{ASSIGNMENT}.ipynb")
        return sorted(path.stat().st_mtime for path in paths)

    @property
    def each(self) -> float:
        """Seconds per submission, without any start-up."""
        times = self.finished[self.count // 4 :]
        once = (times[-1] - times[0]) / (len(times) - 1)
        return once if self.again is None else statistics.mean([once, self.again.each])

    @property
    def verdicts(self) -> list[Verdict]:
        return list(verdicts(self.course, ASSIGNMENT))

    @property
    def start_up(self) -> float:
        """Until the first submission was taken up: when its verdict was written, less the time that it took."""
        found = self.verdicts
        written = [self.course.verdict(ASSIGNMENT, verdict.student).stat().st_mtime for verdict in found]
        once = min(time - verdict.seconds for time, verdict in zip(written, found)) - self.run.began
        return once if self.again is None else min(once, self.again.start_up)

    def scores(self) -> dict[tuple[str, str], float | None]:
        """(student, cell) -> the machine's score."""
        with self.course.gradebook() as gradebook:
            return {
                (submission.student.id, grade.name): grade.auto_score
                for submission in gradebook.notebook_submissions(ASSIGNMENT, ASSIGNMENT)
                for grade in submission.grades
            }


def run(submissions: Sequence[int] = SUBMISSIONS, full: bool = False, write: bool = False) -> list[Row]:
    """The table. Every grader grades the smaller class."""
    small, *_, large = sorted([min(submissions), *submissions])
    with tempfile.TemporaryDirectory(prefix="grading-") as name:
        folder = Path(name)
        course = make_class(folder / "class", large)
        ours = {n: by_this_grader(copy_of(course, folder / f"ours-{n}", n), n) for n in (small, large)}
        stock = {small: by_nbgrader(copy_of(course, folder / "nbgrader", small), small)}
        if full and large > small:
            stock[large] = by_nbgrader(copy_of(course, folder / "nbgrader-full", large), large)
        ours[large] = replace(ours[large], again=by_this_grader(copy_of(course, folder / "ours-again", large), large))
        alone = by_this_grader(copy_of(course, folder / "ours-alone", 1), 1)
        part = inside.profile(copy_of(course, folder / "profile", inside.PROFILED), ASSIGNMENT)
        factors = Factors(stock[small].each, part.wall_of_all_cells, part.wall, ours[large].each)
        otter: float | None = None
        rows_on_otter: list[Row]
        try:
            otter, rows_on_otter = measured_otter(install_otter(folder / "otter-venv"), course, folder / "otter", ours)
        except (CommandFailed, OSError, subprocess.SubprocessError) as error:
            last = str(error).strip().splitlines()[-1]
            rows_on_otter = [Row(OTTER, f"not measured: it could not be installed or run ({last})")]
        notebooks = inside.all_notebooks(folder / "notebooks")
        if write:
            put_into_readme(Figures(ours, stock, alone, otter, factors, part, notebooks))
        return [
            *time_rows(ours, stock),
            Row("this grader, one submission, whole command", f"{alone.run.seconds:.1f} s"),
            *scores_rows(ours[small], stock[small]),
            *inside_rows(ours[large]),
            *factors.rows(),
            *part.rows(),
            *notebooks.rows(),
            *memory_rows(ours[large], stock[small]),
            *rows_on_otter,
        ]


# --- the class ------------------------------------------------------------------------------------------------------


def make_class(folder: Path, count: int) -> Course:
    """A course with one released notebook and this many submissions of it."""
    folder.mkdir()
    course = Course(folder)
    release(course, [ASSIGNMENT])
    crowd(course, ASSIGNMENT, count, folder / "handed_in")
    collect(course, folder / "handed_in", ASSIGNMENT)
    return course


def copy_of(course: Course, folder: Path, count: int) -> Course:
    """The same course with only the first submissions, this many."""
    copy = Course(folder)
    for part in ("source", "release"):
        shutil.copytree(course.root / part, folder / part)
    for file in ("gradebook.db", "hidden_seed"):
        shutil.copy(course.root / file, folder)
    for student in course.students(ASSIGNMENT)[:count]:
        shutil.copytree(course.root / "submitted" / student, folder / "submitted" / student)
    return copy


# --- the graders ----------------------------------------------------------------------------------------------------


def by_this_grader(course: Course, count: int) -> Graded:
    return Graded(course, grader(course.root, "grade", ASSIGNMENT), count)


def by_nbgrader(course: Course, count: int) -> Graded:
    """nbgrader's own autograde, which executes each notebook in a kernel."""
    (course.root / "nbgrader_config.py").write_text(plain_nbgrader_config(), encoding="utf-8")
    return Graded(course, run_command([sys.executable, "-m", "nbgrader", "autograde", ASSIGNMENT], course.root), count)


@dataclass(frozen=True)
class Factors:
    """Seconds for a submission: nbgrader's, ours with one worker and all cells, ours with those needed, all workers."""

    stock: float
    all_cells: float
    needed_cells: float
    all_workers: float

    def rows(self) -> Iterator[Row]:
        yield Row("engine: nbgrader beside one worker that runs all cells, too", f"{self.stock / self.all_cells:.1f}×")
        yield Row(
            "cells not run: one worker with all cells beside one with those needed",
            f"{self.all_cells / self.needed_cells:.1f}×",
        )
        yield Row(f"cores: one worker beside {processors()}", f"{self.needed_cells / self.all_workers:.1f}×")

    def sentence(self) -> str:
        engine, skipped = self.stock / self.all_cells, self.all_cells / self.needed_cells
        return (
            f"Per submission this is {self.stock / self.all_workers:.0f}× as fast as stock nbgrader. Taken apart, with "
            f"one worker each: {engine:.1f}× comes from the engine (no kernel to start, with every cell run here too), "
            f"{skipped:.1f}× from cells that are not run (nbgrader executes every demonstration of a notebook, this "
            f"grader those that an answer uses), and {self.needed_cells / self.all_workers:.1f}× from {processors()} "
            "workers at a time."
        )


# --- the README -----------------------------------------------------------------------------------------------------

README = ROOT / "README.md"
BEGIN, END = "<!-- grading: written by `python -m benchmarks grading --write` -->", "<!-- end of grading -->"


@dataclass(frozen=True)
class Figures:
    """Everything that the README says about grading."""

    ours: dict[int, Graded]
    stock: dict[int, Graded]
    alone: Graded
    otter: float | None
    factors: Factors
    part: inside.Profile
    notebooks: inside.Notebooks

    def text(self) -> str:
        small, large = min(self.ours), max(self.ours)
        each, theirs = self.ours[large].each, self.stock[max(self.stock)].each
        peaks, kernel = self.ours[large].run.megabytes, self.stock[small].run.megabytes.get("kernel", 0.0)
        otter = "" if self.otter is None else f"{self.otter:.1f} s ({self.otter / self.alone.run.seconds:.1f}×)"
        same = next(scores_rows(self.ours[small], self.stock[small])).measured
        lines = [
            "| | this grader | stock nbgrader | otter-grader |",
            "|---|---|---|---|",
            f"| per submission, without start-up | {each:.3f} s | {theirs:.2f} s ({theirs / each:.0f}×) | |",
            f"| one submission, whole command | {self.alone.run.seconds:.1f} s | "
            f"{self.stock[small].run.seconds - (small - 1) * theirs:.1f} s (from {small}) | {otter} |",
            *(self.whole(count) for count in (small, large)),
            f"| until the first submission begins | {self.ours[large].start_up:.1f} s | | |",
            f"| memory | {peaks.get('judge', 0):.0f} MB per judge, {peaks.get('warm process', 0):.0f} MB for its warm "
            f"process, up to {peak_of_a_runner(self.ours[large]):.0f} MB for what runs student code (mostly shared) | "
            f"{kernel:.0f} MB per kernel | |",
        ]
        return "\n\n".join(
            [
                "\n".join(lines),
                f"Scores equal to nbgrader's: {same}. {self.factors.sentence()}",
                f"CPU time of a submission, in milliseconds: {self.part.sentence()}",
                "The other notebooks, with one worker:",
                self.notebooks.table(),
            ]
        )

    def whole(self, count: int) -> str:
        seconds, is_measured = nbgrader_seconds(self.stock, count)
        mine = self.ours[count].run.seconds
        note = "" if is_measured else "; extended from the smaller class"
        otter = "" if self.otter is None else f"{count * self.otter:.0f} s ({count * self.otter / mine:.0f}×; extended)"
        what = f"whole command, {count} submissions"
        return f"| {what} | {mine:.1f} s | {seconds:.0f} s ({seconds / mine:.0f}×{note}) | {otter} |"


def put_into_readme(figures: Figures) -> None:
    """Replace what is between the markers."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no place for the figures: {BEGIN} … {END}")
    README.write_text(f"{before}{BEGIN}\n{figures.text()}\n{END}{after}", encoding="utf-8")


# --- rows -----------------------------------------------------------------------------------------------------------


def time_rows(ours: dict[int, Graded], stock: dict[int, Graded]) -> Iterator[Row]:
    jobs = processors()
    for count, graded in sorted(ours.items()):
        yield Row(f"this grader, {count} submissions, whole command ({jobs} at a time)", f"{graded.run.seconds:.1f} s")
        yield at_most(f"this grader, {count} submissions, until the first begins", graded.start_up, START_SECONDS, " s")
    for count in sorted(ours):
        seconds, measured = nbgrader_seconds(stock, count)
        how = "" if measured else f" ({extended_from(stock)})"
        yield Row(f"nbgrader, {count} submissions, whole command", f"{seconds:.1f} s{how}")
    mine, theirs = ours[max(ours)].each, stock[max(stock)].each
    yield Row("this grader, per submission", f"{mine:.3f} s (of {max(ours)})")
    yield Row("nbgrader, per submission", f"{theirs:.2f} s (of {max(stock)})")
    yield at_least("faster than nbgrader, per submission", theirs / mine, FASTER_EACH, "×")
    for count, graded in sorted(ours.items()):
        ratio = nbgrader_seconds(stock, count)[0] / graded.run.seconds
        what = f"faster than nbgrader, whole command, {count} submissions"
        yield at_least(what, ratio, FASTER_WHOLE, "×") if count >= WHOLE_AT else Row(what, f"{ratio:.2f}×")


def nbgrader_seconds(stock: dict[int, Graded], count: int) -> tuple[float, bool]:
    """How long nbgrader takes for this many, and whether that was measured."""
    if count in stock:
        return stock[count].run.seconds, True
    known = stock[max(stock)]
    return known.run.seconds + (count - known.count) * known.each, False


def extended_from(stock: dict[int, Graded]) -> str:
    known = stock[max(stock)]
    return f"not measured: {known.run.seconds:.1f} s for {known.count}, and {known.each:.2f} s for each more"


def scores_rows(ours: Graded, stock: Graded) -> Iterator[Row]:
    mine, theirs = ours.scores(), stock.scores()
    same = sum(mine.get(key, "none") == score for key, score in theirs.items())
    yield Row("scores equal to nbgrader's", f"{same} of {len(theirs)} cells", "all", same == len(theirs) == len(mine))


def inside_rows(ours: Graded) -> Iterator[Row]:
    """What became of the submissions, where the time went, and which walls stood around them."""
    found = ours.verdicts
    graded = [verdict for verdict in found if verdict.status == "graded"]
    yield Row("graded, none zeroed or flagged", f"{len(graded)} of {ours.count}", "all", len(graded) == ours.count)
    cells = statistics.mean(verdict.cell_seconds for verdict in graded)
    beyond = statistics.mean(verdict.seconds - verdict.cell_seconds for verdict in graded)
    yield Row("a worker's time for one submission", f"{1e3 * (cells + beyond):.0f} ms")
    yield Row("… of it in the student's own cells", f"{1e3 * cells:.0f} ms")
    yield Row("… beyond them: process, walls, checks, diagnosis", f"{1e3 * beyond:.0f} ms")
    walls = sorted({", ".join(verdict.walls) or "none" for verdict in graded})
    yield Row("walls that stood", "; ".join(walls))


def peak_of_a_runner(ours: Graded) -> float:
    return max(verdict.peak_megabytes for verdict in ours.verdicts)


def memory_rows(ours: Graded, stock: Graded) -> Iterator[Row]:
    """Peaks of resident memory. Forked processes share most of it, so that the sum is an upper bound."""
    peaks = dict(ours.run.megabytes)
    runner = peak_of_a_runner(ours)
    for what in ("judge", "warm process"):
        if what in peaks:
            yield Row(f"memory of a worker's {what}, peak", f"{peaks[what]:.0f} MB")
    yield Row("memory of a runner, with what it shares with its warm process, peak", f"{runner:.0f} MB")
    if "coordinator" in peaks:
        yield Row("memory of the coordinator, peak", f"{peaks['coordinator']:.0f} MB")
    if "kernel" in stock.run.megabytes:
        yield Row("memory of nbgrader's kernel, peak", f"{stock.run.megabytes['kernel']:.0f} MB")


# --- otter-grader ---------------------------------------------------------------------------------------------------


def install_otter(folder: Path) -> Path:
    """An environment with otter-grader, which sees the packages of this one: the same torch, and only one on disk."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    seen = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in seen), encoding="utf-8")
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input", "-q"]
    done = subprocess.run(
        [*pip, "install", "-c", str(ROOT / "constraints.txt"), OTTER],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode != 0:
        raise CommandFailed(done.stderr)
    return python


def measured_otter(python: Path, course: Course, folder: Path, ours: dict[int, Graded]) -> tuple[float, list[Row]]:
    """Seconds for a submission, start-up included: it has no command for several."""
    verdict_on = {verdict.student: verdict for verdict in ours[max(ours)].verdicts}
    students = course.students(ASSIGNMENT)[:OTTER_SUBMISSIONS]
    otter = Otter(python, folder, [exercise.name for exercise in verdict_on[students[0]].exercises])
    seconds, same, total = [], 0, 0
    for student in students:
        run, passed = otter.grade(course.submitted(ASSIGNMENT, student), student)
        seconds.append(run.seconds)
        here = {exercise.name: exercise.points == exercise.max_points for exercise in verdict_on[student].exercises}
        same += sum(passed.get(name) == result for name, result in here.items())
        total += len(here)
    each = statistics.mean(seconds)
    return each, [
        Row(f"{OTTER}, one submission, whole command (`otter run`)", f"{each:.1f} s (mean of {len(students)})"),
        *(
            Row(f"faster than otter-grader, {n} submissions, start-up of both counted", f"{faster:.1f}×")
            for n, graded in sorted(ours.items())
            for faster in [n * each / graded.run.seconds]
        ),
        Row("visible checks decided as with otter-grader", f"{same} of {total}", "all", same == total),
    ]


class Otter:
    """otter-grader with one test for each exercise."""

    def __init__(self, python: Path, folder: Path, exercises: Sequence[str]):
        self.command: list[str | Path] = [python, "-m", "otter"]
        self.folder = folder
        self.env = environment()
        self.env["PATH"] = f"{python.parent}:{self.env['PATH']}"
        (folder / "tests").mkdir(parents=True)
        for name in exercises:
            (folder / "tests" / f"{name}.py").write_text(OTTER_TEST.format(name=name), encoding="utf-8")
        plain = ["--no-config", "--no-requirements", "--no-environment"]
        run_command([*self.command, "generate", "-t", "tests", "-o", "autograder.zip", *plain], folder, self.env)

    def grade(self, submission: Path, student: str) -> tuple[Run, dict[str, bool]]:
        """What it took, and for each exercise whether it passed."""
        results = self.folder / student
        results.mkdir()
        options = ["--no-logo", "-a", "autograder.zip", "-o", student]
        done = run_command([*self.command, "run", *options, submission], self.folder, self.env)
        tests = json.loads((results / "results.json").read_text(encoding="utf-8"))["tests"]
        return done, {test["name"]: test["score"] == test["max_score"] for test in tests if "score" in test}
