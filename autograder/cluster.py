"""The same work on a Dask cluster, for a class that is too large for one machine.

Every worker of the cluster needs this package installed, and starts a warm process of its own for its first submission.
A worker that dies costs nothing: its submissions are judged again elsewhere, and only the coordinator writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from distributed import Client, as_completed
from distributed.scheduler import KilledWorker

from autograder import work
from autograder.course import CourseError
from autograder.grade import lost
from autograder.work import Result, Task

CONNECT_SECONDS = 10


class ClusterWorkers:
    """The workers of a cluster, known by the address of its scheduler."""

    def __init__(self, address: str):
        try:
            self.client = Client(address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise CourseError(f"There is no Dask scheduler at {address} ({error}). Start one: dask scheduler") from None
        if not self.client.scheduler_info(n_workers=-1)["workers"]:
            self.client.close()
            advice = f"Start one: dask worker {address} --nthreads 1"
            raise CourseError(f"The scheduler at {address} has no workers. {advice}")

    def __enter__(self) -> ClusterWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def results(self, tasks: Sequence[Task]) -> Iterator[Result]:
        # Not pure: a task that was judged before is judged again if the coordinator says so.
        running = {self.client.submit(work.do, task, pure=False): task for task in tasks}
        with contextlib.ExitStack() as stack:
            stack.callback(self.client.cancel, list(running))
            for future in as_completed(list(running)):
                try:
                    yield future.result()
                except KilledWorker:
                    yield lost(running[future])
                future.release()
