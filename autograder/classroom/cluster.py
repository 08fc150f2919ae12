"""The same work on a Dask cluster, for a class that is too large for one machine.

Every worker of the cluster needs this package installed, and starts a warm process of its own for its first submission.
A worker that dies costs nothing: its submissions are judged again elsewhere, and only the coordinator writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from distributed import Client, Future, as_completed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from autograder.classroom.course import CourseError
from autograder.classroom.grade import lost
from autograder.judging import work
from autograder.judging.work import Result, Task
from autograder.walls.warm import walled_off

CONNECT_SECONDS = 10


class ClusterWorkers:
    """The workers of a cluster, known by the address of its scheduler."""

    def __init__(self, address: str, without_walls: bool = False, folders: tuple[Path, ...] = ()):
        try:
            self.client = Client(address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise CourseError(f"There is no Dask scheduler at {address} ({error}). Start one: dask scheduler") from None
        try:
            self.inspect(address, without_walls, folders)
        except BaseException:
            self.client.close()
            raise

    def inspect(self, address: str, without_walls: bool, folders: tuple[Path, ...]) -> None:
        """Refuse workers that would judge differently, without walls, or behind walls that can be seen through."""
        try:
            found = self.client.run(what_judges_here, folders)
        except ImportError as error:
            advice = "install it there from the repository, with `pip install -e '.[grader,cluster]'`."
            raise CourseError(f"A worker of {address} cannot judge ({error}): {advice}") from None
        if not found:
            advice = f"Start one: dask worker {address} --nthreads 1"
            raise CourseError(f"The scheduler at {address} has no workers. {advice}")
        for worker, (engine, walled, leak) in found.items():
            if engine != work.engine_digest():
                raise CourseError(
                    f"The worker {worker} has another version of this course: install the same version there."
                )
            if not walled and not without_walls:
                advice = "Run there: python -m autograder doctor"
                raise CourseError(f"The worker {worker} has no wall around student code. {advice}")
            if leak and not without_walls:
                raise CourseError(f"On the worker {worker}: {leak}")

    def __enter__(self) -> ClusterWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]:
        # Not pure: a task that was judged before is judged again if the coordinator says so.
        running = {self.client.submit(work.do, task, pure=False): task for task in tasks}
        suspects = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.client.cancel, list(running))
            for future in as_completed(list(running)):
                result = outcome(future)
                if result is None:
                    suspects.append(running[future])
                else:
                    yield result
                future.release()
        # A dying worker loses its whole queue. Run alone, a submission shows whether it is to blame.
        for task in suspects:
            yield outcome(self.client.submit(work.do, task, pure=False)) or lost(task)


def outcome(future: Future) -> Result | None:
    """The result of a task; None if one worker after another has died while it had this task."""
    try:
        return cast(Result, future.result())
    except KilledWorker:
        return None
    except (OSError, FutureCancelledError) as error:
        saved = "What was finished is saved: the same command continues from there."
        raise CourseError(f"The cluster is gone ({error}). {saved}") from None


def what_judges_here(folders: tuple[Path, ...]) -> tuple[str, bool, str]:
    """On a worker: the version of the course, whether student code would be walled off, and what it could still
    read."""
    leak = ""
    try:
        with work.ONE_AT_A_TIME:
            work.warm_process(folders=folders)
    except CourseError as error:
        leak = str(error)
    return work.engine_digest(), walled_off(), leak
