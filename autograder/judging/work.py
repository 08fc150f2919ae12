"""The work on one submission, as a function of plain data that can be done anywhere and repeated.

A task carries the text of the submission and of the instructor's notebook; a result carries the verdict and the judged
notebook. Nothing is read from the course folder or written to it, so a task may run in another process or on another
machine, and only the coordinator writes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.classroom.seed import PUBLIC, digest_of
from autograder.judging.judge import Judged, Patience, judge
from autograder.judging.rebuild import NotRebuilt, Rebuilt, rebuild
from autograder.judging.verdict import ExerciseVerdict, Verdict
from autograder.walls.inside.walls import Limits
from autograder.walls.runners import RunnerError
from autograder.walls.sight import require_blindness
from autograder.walls.warm import Warm, WarmError

STATM = Path("/proc/self/statm")
JUDGES_MEMORY = 1024 * 2**20  # bytes beyond what the judge has already: far more than an honest submission takes
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Task:
    """One submission to judge. `submitted` is None if there is no file."""

    assignment: str
    student: str
    submitted: str | None
    master: str
    digest: str
    patience: Patience = field(default_factory=Patience)
    limits: Limits = field(default_factory=lambda: Limits(cpu_seconds=900))  # each cell has its own, tighter limit
    walls: tuple[str, ...] | None = None  # to use at most these; None: all that there are
    folders: tuple[Path, ...] = ()  # of the class: student code must not see them, where this machine has them
    seed: str = field(default=PUBLIC, repr=False)  # of the hidden cases
    unreadable: str = ""  # why there is a file but no text

    @property
    def digest_in_time(self) -> str:
        """The digest of a verdict that could be another one if there were more time."""
        return f"{self.digest} in {self.patience}"


@dataclass(frozen=True)
class Result:
    """The verdict, and the judged notebook as text if there is one."""

    verdict: Verdict
    notebook: str | None = None


def do(task: Task) -> Result:
    """Judge one submission. Whatever is wrong with it ends in a verdict."""
    start = time.monotonic()
    verdict = blank_verdict(task)
    try:
        if task.unreadable:
            raise NotRebuilt("flagged", task.unreadable)
        if task.submitted is None:
            raise NotRebuilt("zeroed", "No notebook was handed in.")
        judged = judge_behind_walls(task)
    except NotRebuilt as refusal:
        result = Result(replace(verdict, status=refusal.status, reason=refusal.reason))
    except (Exception, RunnerError, WarmError) as error:  # one bad submission must not stop the class
        reason = f"The grader itself failed on it ({type(error).__name__}: {error}): a person has to look."
        result = Result(replace(verdict, status="flagged", reason=reason))
    else:
        done = replace(
            verdict,
            status="graded",
            exercises=tuple(judged.exercises),
            notes=tuple(judged.notes),
            walls=judged.walls,
            cell_seconds=round(judged.cell_seconds, 3),
            peak_megabytes=round(judged.peak_bytes / 2**20, 1),
            digest=task.digest_in_time if judged.ran_out_of_time else task.digest,
        )
        result = Result(done, json.dumps(judged.notebook))
    finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return replace(
        result, verdict=replace(result.verdict, seconds=round(time.monotonic() - start, 3), graded_at=finished)
    )


def blank_verdict(task: Task) -> Verdict:
    """What is known before anything is judged."""
    return Verdict(task.student, task.assignment, "zeroed", digest=task.digest, hidden_seed=digest_of(task.seed))


def judge_behind_walls(task: Task) -> Judged:
    """Judge with this process's warm process. If that is lost, try again with a new one."""
    with ONE_AT_A_TIME:
        try:
            return judge_with(warm_process(task.walls, task.folders), task)
        except WarmError:
            forget_warm_process()
            return judge_with(warm_process(task.walls, task.folders), task)


def judge_with(warm: Warm, task: Task) -> Judged:
    with at_most_memory(JUDGES_MEMORY):
        return judge(rebuilt(task), warm, task.patience, task.limits, task.seed)


@contextlib.contextmanager
def at_most_memory(more: int) -> Iterator[None]:
    """Limit how many more bytes this process may map: what a runner sends may need a lot of memory here."""
    if not STATM.exists():  # not Linux: there are no walls around student code either
        yield
        return
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    allowed = mapped_bytes() + more
    resource.setrlimit(
        resource.RLIMIT_AS, (allowed if before == resource.RLIM_INFINITY else min(before, allowed), most)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


def mapped_bytes() -> int:
    """The address space of this process."""
    return int(STATM.read_text().split()[0]) * resource.getpagesize()


def rebuilt(task: Task) -> Rebuilt:
    return rebuild(parsed(task.master), task.submitted or "")


@functools.lru_cache(maxsize=4)
def parsed(master: str) -> NotebookNode:
    return nbformat.from_dict(json.loads(master))


# --- this process's warm process ------------------------------------------------------------------------------------

OWN: list[Warm] = []
ONE_AT_A_TIME = threading.Lock()  # a warm process serves one judge; a Dask worker may have several threads


def warm_process(walls: tuple[str, ...] | None = None, folders: tuple[Path, ...] = ()) -> Warm:
    """The warm process of this worker; started and tested if there is none that hides these folders."""
    if OWN and not set(folders) <= set(OWN[0].folders):
        forget_warm_process()
    if not OWN:
        OWN.append(Warm(walls, folders))
        if OWN[0].closes_files:
            prove_blindness(OWN[0])
    return OWN[0]


def prove_blindness(warm: Warm) -> None:
    try:
        require_blindness(warm)
    except BaseException:
        forget_warm_process()
        raise


def forget_warm_process() -> None:
    while OWN:
        OWN.pop().close()


# --- what a verdict depends on --------------------------------------------------------------------------------------


def digest(submitted: str | None, master: str, seed: str, lateness: str = "") -> str:
    """Changes if the submission, the released notebook, the hidden cases or anything that judges has changed.

    lateness: what a penalty depends on.
    """
    judges = [master, digest_of(seed), engine_digest()]
    text = "\0".join([submitted if submitted is not None else "", lateness, *judges])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def engine_digest() -> str:
    """Of all code of the course and of its grader."""
    found = hashlib.sha256()
    for package in ("autograder", "course_lib"):
        for path in code_of(ROOT / package):
            found.update(path.read_bytes())
    return found.hexdigest()


def code_of(package: Path) -> Iterator[Path]:
    """The modules of a package, without the folders of a class that may lie in it."""
    for path in sorted(package.iterdir()):
        if path.suffix == ".py":
            yield path
        elif (path / "__init__.py").exists():
            yield from code_of(path)


def unwritten(exercises: list[tuple[str, float, float]]) -> tuple[ExerciseVerdict, ...]:
    """The exercises of a submission that could not be run, without a point."""
    return tuple(ExerciseVerdict(name, "not run", 0.0, points, 0.0, hidden) for name, points, hidden in exercises)
