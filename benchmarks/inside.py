"""Where the CPU time of a submission goes, and what the notebooks of the course take.

Submissions are judged in this process, as a worker does it, one after another. CPU time is that of the judge, of the
warm process and of the runners together; the first submission warms everything up and is not counted. A runner's own
account of its time is taken as it is, since it runs the course's own answers here.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from autograder.authoring.build import stems
from autograder.authoring.release import release
from autograder.classroom import book, grade
from autograder.classroom.collect import collect
from autograder.classroom.course import Course
from autograder.classroom.sample import crowd
from autograder.judging import judge, work
from autograder.judging.judge import Patience
from autograder.judging.work import Result, Task
from autograder.walls import runners
from autograder.walls.inside.walls import Limits
from benchmarks.tables import Row, at_most
from course_lib.checking import grading

PROFILED = 60
EMPTY_RUNNERS = 10
ROUNDS = 3
WITH_ALL_CELLS = 5  # submissions, which take some seconds each
OF_EACH_NOTEBOOK = 4
CPU_MILLISECONDS = 120  # a submission of the profiled notebook should take
TICKS = os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """CPU time of this process by what it does. What is done inside another part counts only there."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.doing = ["the rest of the judge"]
        self.since = time.process_time()

    def note(self) -> None:
        now = time.process_time()
        self.seconds[self.doing[-1]] += now - self.since
        self.since = now

    def timed(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            self.note()
            self.doing.append(what)
            try:
                return function(*args, **named)
            finally:
                self.note()
                self.doing.pop()

        return run


@dataclass(frozen=True)
class Profile:
    """Milliseconds for one submission."""

    parts: dict[str, float]  # of CPU time
    wall: float  # seconds, one worker
    wall_of_all_cells: float  # the same, if every cell is run

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    def rows(self) -> Iterator[Row]:
        yield at_most("CPU time of a submission", self.total, CPU_MILLISECONDS, " ms")
        for what, milliseconds in sorted(self.parts.items(), key=lambda item: -item[1]):
            yield Row(f"… {what}", f"{milliseconds:.1f} ms")

    def sentence(self) -> str:
        ordered = sorted(self.parts.items(), key=lambda item: -item[1])
        return f"{self.total:.0f}, of which " + ", ".join(f"{what} {value:.1f}" for what, value in ordered) + "."


def profile(course: Course, assignment: str) -> Profile:
    """Of the submissions of an assignment, which are entered into the gradebook of the course.

    They are judged several times, and the fastest time counts: on a virtual machine, the same work takes up to twice
    the CPU time while the host is busy with others.
    """
    watch = Stopwatch()
    first, *tasks = watch.timed("reading", planned)(course, assignment)
    try:
        work.do(first)
        with mock.patch.object(judge.Submission, "needed_cells", judge.Submission.code_cells):
            wall_of_all_cells = min(wall_of(tasks[:WITH_ALL_CELLS]) for _ in range(ROUNDS))
        rounds = [judged(tasks) for _ in range(ROUNDS)]
    finally:
        work.forget_warm_process()
    fastest = min(rounds, key=lambda one: sum(one.seconds.values()))
    with book.one_at_a_time(course), book.open_book(course) as gradebook:
        save = watch.timed("gradebook and files", grade.save)
        for result in fastest.results:
            save(course, gradebook, assignment, result, grade.Summary(assignment))
    count = len(tasks)
    of_the_coordinator = {what: watch.seconds[what] for what in ("reading", "gradebook and files")}
    parts = {what: 1e3 * value / count for what, value in (fastest.seconds | of_the_coordinator).items()}
    return Profile(parts, min(one.wall for one in rounds) / count, wall_of_all_cells)


@dataclass(frozen=True)
class Round:
    """All submissions, judged once: CPU seconds by what was done, seconds on the wall, and what came of them."""

    seconds: dict[str, float]
    wall: float
    results: list[Result]


def judged(tasks: Sequence[Task]) -> Round:
    watch = Stopwatch()
    forking = cpu_of_empty_runners()
    before = cpu_of_tree(work.OWN[0].process.pid)
    ended: list[float] = []
    with watched(watch, ended):
        watch.since = time.process_time()
        began = time.monotonic()
        results = [work.do(task) for task in tasks]
        watch.note()
        wall = time.monotonic() - began
    of_tree = cpu_of_tree(work.OWN[0].process.pid) - before
    cells = sum(result.verdict.cell_seconds for result in results)
    seconds = dict(watch.seconds)
    seconds["process and walls"] = forking * len(ended) + max(0.0, of_tree - sum(ended))
    seconds["cells"] = cells
    seconds["answering questions, in the student's process"] = max(0.0, sum(ended) - forking * len(ended) - cells)
    return Round(seconds, wall, results)


def planned(course: Course, assignment: str) -> list[Task]:
    with book.open_book(course) as gradebook:
        return grade.plan(course, gradebook, assignment, None, Patience(), None)


def wall_of(tasks: Sequence[Task]) -> float:
    """Seconds for one of these."""
    began = time.monotonic()
    for task in tasks:
        work.do(task)
    return (time.monotonic() - began) / len(tasks)


@contextlib.contextmanager
def watched(watch: Stopwatch, ended: list[float]) -> Iterator[None]:
    """The parts of judging are timed inside. `ended`: the CPU time of each runner."""
    original = runners.Runner.bury

    def bury(runner: runners.Runner, *args: Any, **named: Any) -> None:
        was_alive = runner.alive
        original(runner, *args, **named)
        if was_alive:
            ended.append(runner.cpu_seconds)

    timed = [
        (work, "rebuilt", "rebuilding the notebook"),
        (grading, "diagnose", "diagnosis"),
        (judge, "grade", "checks"),
        (judge, "write_reports", "reports"),
        (runners.RemoteBench, "ask", "asking questions, in the judge"),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, what in timed:
            stack.enter_context(mock.patch.object(place, name, watch.timed(what, getattr(place, name))))
        stack.enter_context(mock.patch.object(runners.Runner, "bury", bury))
        yield


def cpu_of_empty_runners() -> float:
    """CPU seconds of a runner that does nothing but raise its walls."""
    found = []
    for _ in range(EMPTY_RUNNERS):
        runner = runners.Runner(work.OWN[0], Limits())
        runner.bury()
        found.append(runner.cpu_seconds)
    return sum(found) / len(found)


def cpu_of_tree(pid: int) -> float:
    """CPU seconds of a process and of all that it has started, whether it has ended or not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / TICKS
    children = [
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return own + sum(cpu_of_tree(int(child)) for child in children)


# --- all notebooks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notebooks:
    """For each notebook: CPU seconds of a submission, wall-clock seconds, and how much of that is spent in cells."""

    measured: dict[str, tuple[float, float, float]]

    def rows(self) -> Iterator[Row]:
        for stem, (cpu, wall, cells) in self.measured.items():
            yield Row(
                f"{stem}, one worker, per submission", f"{wall:.2f} s, CPU {cpu:.2f} s, of it cells {cells:.2f} s"
            )

    def table(self) -> str:
        lines = ["| notebook | seconds per submission | CPU seconds | of them in cells |", "|---|---|---|---|"]
        lines += [
            f"| {stem} | {wall:.2f} | {cpu:.2f} | {cells:.2f} |" for stem, (cpu, wall, cells) in self.measured.items()
        ]
        return "\n".join(lines)


def all_notebooks(folder: Path) -> Notebooks:
    return Notebooks({stem: one_notebook(stem, folder / stem) for stem in stems()})


def one_notebook(stem: str, folder: Path) -> tuple[float, float, float]:
    folder.mkdir(parents=True)
    course = Course(folder)
    release(course, [stem])
    crowd(course, stem, OF_EACH_NOTEBOOK, folder / "handed_in")
    collect(course, folder / "handed_in", stem)
    first, *tasks = planned(course, stem)
    try:
        work.do(first)
        before = time.process_time() + cpu_of_tree(work.OWN[0].process.pid)
        began = time.monotonic()
        results: list[Result] = [work.do(task) for task in tasks]
        wall = time.monotonic() - began
        cpu = time.process_time() + cpu_of_tree(work.OWN[0].process.pid) - before
    finally:
        work.forget_warm_process()
    cells = sum(result.verdict.cell_seconds for result in results)
    return cpu / len(tasks), wall / len(tasks), cells / len(tasks)
