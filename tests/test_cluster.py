"""Grading on a Dask cluster: a real scheduler and real workers on loopback, one of which is killed midway."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import psutil
import pytest
from distributed import Client
from grading import STEM, Here, autograder, grades, hand_in, solved
from lab import HANGS, free_port

from autograder.authoring.release import release
from autograder.classroom import book
from autograder.classroom.cluster import ClusterWorkers
from autograder.classroom.course import Course, CourseError
from autograder.classroom.grade import grade
from autograder.judging import work
from autograder.judging.verdict import Verdict, verdicts
from autograder.judging.work import Result, Task

pytestmark = pytest.mark.xdist_group("grade")
STUDENTS = [f"student{number}" for number in range(10)]


def start(*arguments: str) -> subprocess.Popen:
    """A part of the cluster, in a session of its own so that it can be killed with all that it has started."""
    settings = {"PYTHONPATH": str(work.ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=work.ROOT,
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler without workers."""
    port = str(free_port())
    process = start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    address = f"tcp://127.0.0.1:{port}"
    Client(address, timeout=HANGS).close()  # it listens
    yield address
    kill(process)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr("autograder.classroom.cluster.CONNECT_SECONDS", HANGS)


@pytest.fixture(scope="module")
def workers(scheduler):
    """Two workers, each a process under a nanny."""
    options = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
    started = [start("distributed.cli.dask_worker", scheduler, *options) for _ in range(2)]
    wait_for_workers(scheduler, 2)
    yield started
    for process in started:
        kill(process)


def wait_for_workers(address, count):
    with Client(address, timeout=HANGS) as client:
        client.wait_for_workers(count, timeout=HANGS)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Ten submissions of one notebook, no two alike in what they print."""
    course = Course(tmp_path_factory.mktemp("cluster") / "course")
    release(course, [STEM])
    for number, student in enumerate(STUDENTS):
        wrong = f"def causal_mask(n):\n    return torch.ones(n, n).tril({number})"
        hand_in(course, student, solved(causal_mask=wrong) if number != 7 else "{ broken")
    return course


def comparable(verdict):
    """Without what is measured."""
    return replace(verdict, seconds=0, cell_seconds=0, peak_megabytes=0, graded_at="")


def test_a_scheduler_without_workers_is_one_clear_sentence(scheduler):
    with pytest.raises(CourseError, match=r"has no workers\. Start one: dask worker tcp://"):
        ClusterWorkers(scheduler)


def test_a_worker_killed_midway_loses_nothing_and_nothing_is_entered_twice(scheduler, workers, course, monkeypatch):
    alone = Course(course.root.parent / "alone")
    shutil.copytree(course.root, alone.root)
    entered, done = Counter(), []
    enter = book.enter

    def counting(course, gradebook, assignment, student, judged):
        entered[student] += 1
        return enter(course, gradebook, assignment, student, judged)

    monkeypatch.setattr(book, "enter", counting)
    started_by_it = psutil.Process(workers[0].pid).children(recursive=True)

    def progress(verdict, total):
        done.append(verdict.student)
        if len(done) == 3:
            started_by_it.extend(psutil.Process(workers[0].pid).children(recursive=True))
            kill(workers[0])

    with ClusterWorkers(scheduler) as cluster:
        summary = grade(course, STEM, cluster, progress=progress)
    assert sorted(done) == STUDENTS
    assert entered == Counter(STUDENTS)
    assert summary.left == []
    psutil.wait_procs(started_by_it, timeout=HANGS)
    assert not any(process.is_running() and process.status() != "zombie" for process in started_by_it)

    grade(alone, STEM, Here())
    work.forget_warm_process()
    assert list(map(comparable, verdicts(course, STEM))) == list(map(comparable, verdicts(alone, STEM)))
    assert [grades(course, student) for student in STUDENTS] == [grades(alone, student) for student in STUDENTS]


def test_the_command_uses_the_cluster(scheduler, workers, course):
    grading = autograder(
        course, "grade", STEM, "--scheduler", scheduler, "--force", "--students", "student0", "student7"
    )
    assert grading.returncode == 0, grading.stderr
    assert "02_masks: 1 graded, 1 zeroed" in grading.stdout


def test_workers_with_another_version_are_refused(scheduler, workers, monkeypatch):
    monkeypatch.setattr(work, "engine_digest", lambda: "another")
    with pytest.raises(CourseError, match="has another version of this course"):
        ClusterWorkers(scheduler)


def test_a_submission_that_kills_every_worker_is_flagged(scheduler, workers, monkeypatch):
    def deadly(task):
        if task.student == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return Result(Verdict(task.student, STEM, "graded"))

    monkeypatch.setattr(work, "do", deadly)
    with ClusterWorkers(scheduler) as cluster:
        found = list(cluster.results([Task(STEM, name, "", "", "") for name in ("ada", "deadly", "ben")]))
    assert {result.verdict.student: result.verdict.status for result in found} == {
        "ada": "graded",
        "deadly": "flagged",
        "ben": "graded",
    }
