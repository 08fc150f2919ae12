"""The grader's end of the warm process (see `inside/warm.py`).

Nothing here imports torch: warm processes are started first of all, and get ready while the grader does its own
imports.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.walls.inside import walls
from autograder.walls.sight import secret_places

INSIDE = Path(__file__).resolve().parent / "inside"
MOUNT = Path("/grader")
START_SECONDS = 600.0  # both are limits for a hang: a busy machine may take long for small things
FORK_SECONDS = 120.0
LOOKING_SECONDS = 0.02  # between two looks at whether the next one may be started


class WarmError(BaseException):
    """The warm process itself is lost, probably not because of the current submission."""


class Silence(WarmError):
    """Nothing was heard from the warm process in time."""


class Warm:
    """A warm process behind the walls that this machine has, which close the course and these folders of a class."""

    def __init__(self, use: Sequence[str] | None = None, folders: Sequence[Path] = ()):
        self.folders = tuple(folders)
        self.walls = [wall.name for wall in walls.probe() if wall.works and (use is None or wall.name in use)]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-s", "-m", "inside.warm", str(theirs.fileno())]
        self.home = tempfile.TemporaryDirectory(prefix="grader")
        secrets = secret_places(self.folders)
        self.hidden = [str(place) for place in secrets]  # hidden from a runner that is in no namespace
        environment = walls.clean_environment(Path(self.home.name)) | {"PYTHONPATH": str(INSIDE.parent)}
        if walls.NAMESPACES in self.walls:
            command = walls.wrapped(
                command,
                mounts={MOUNT / "inside": INSIDE},
                hidden=secrets,
                environment={"PYTHONPATH": str(MOUNT)},
            )
            self.hidden = []
        self.control = ours
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd=self.home.name,  # `-m` makes it a place to import from
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        self.ready = False
        self.prepared_for = ("", "")  # whose sources are imported already, and the cell that was run
        self.opened: dict[str, Any] = {}  # what came of that
        self.ends: dict[int, dict[str, Any]] = {}  # of runners that ended while something else was waited for

    @property
    def closes_files(self) -> bool:
        """Whether a wall that closes files is in use: without one there is nothing to prove."""
        return not {walls.NAMESPACES, walls.LANDLOCK}.isdisjoint(self.walls)

    def hear(self, seconds: float) -> dict[str, Any]:
        """The next thing that the warm process says."""
        self.control.settimeout(seconds)
        try:
            data = self.control.recv(65536)
        except TimeoutError:
            raise Silence("The warm process does not answer.") from None
        except OSError as error:
            raise WarmError(f"The warm process is gone ({error}).") from None
        if not data:
            said = self.process.stderr.read().decode(errors="replace")[-2000:] if self.process.stderr else ""
            raise WarmError(f"The warm process has ended.\n{said}")
        return json.loads(data)

    def tell(self, order: dict[str, Any], fd: int | None = None) -> None:
        try:
            socket.send_fds(self.control, [json.dumps(order).encode()], [] if fd is None else [fd])
        except OSError as error:
            raise WarmError(f"The warm process is gone ({error}).") from None

    def wait_until_ready(self) -> None:
        if not self.ready:
            self.hear(START_SECONDS)
            self.ready = True

    def prepare(self, name: str, sources: Mapping[str, str], trains: bool = False, opening: str = "") -> None:
        """Import the course before runners are forked, in the form in which they may see it.

        name: that of these sources. trains: whether runners are likely to make optimisers. opening: a cell that is run
        for all of them together; `opened` is what came of it.
        """
        if self.prepared_for == (name, opening):
            return
        self.wait_until_ready()
        if any(self.prepared_for):
            self.tell({"do": "leave"})
            self.hear_that("left")
        ours, theirs = socket.socketpair()
        with ours:
            self.tell({"do": "prepare", "trains": trains}, theirs.fileno())
            theirs.close()
            ours.sendall(json.dumps({"sources": sources, "opening": opening}).encode())
            ours.shutdown(socket.SHUT_WR)
            self.hear_that("prepared")
            with ours.makefile("rb") as file:
                self.opened = json.load(file)
        self.prepared_for = (name, opening)

    def hear_that(self, what: str) -> None:
        """Wait for this news. Runners may end meanwhile."""
        while what not in (news := self.hear(START_SECONDS)):
            if "ended" not in news:
                raise WarmError(f"The warm process could not get ready ({news}).")
            self.ends[news["ended"]] = news

    def fork(self, limits: walls.Limits) -> tuple[int, socket.socket]:
        """A new runner: its process id, and the connection to it."""
        self.wait_until_ready()
        ours, theirs = socket.socketpair()
        self.tell({"do": "fork", "limits": asdict(limits), "walls": self.walls, "hidden": self.hidden}, theirs.fileno())
        theirs.close()
        while "pid" not in (news := self.hear(FORK_SECONDS)):
            self.ends[news["ended"]] = news
        return int(news["pid"]), ours

    def interrupt(self, pid: int) -> None:
        """Interrupt a runner. Afterwards it has the signal, unless it has ended."""
        self.tell({"do": "interrupt", "pid": pid})
        self.hear_that("interrupted")

    def hear_of_the_end(self, pid: int, seconds: float) -> dict[str, Any]:
        """How a runner ended. Raises Silence if nothing is heard of it in time."""
        while pid not in self.ends:
            news = self.hear(seconds)
            self.ends[news["ended"]] = news
        return self.ends.pop(pid)

    def close(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        self.home.cleanup()


class Starting:
    """Warm processes that get ready while the grader does its own imports: as many at a time as leave it a processor,
    so that the first is ready soonest."""

    def __init__(self, count: int, folders: Sequence[Path] = ()):
        self.count = count
        self.folders = folders
        self.at_once = max(1, processors() - 1)
        self.started = [Warm(folders=folders) for _ in range(min(count, self.at_once))]
        self.is_awaited = threading.Event()
        self.thread = threading.Thread(target=self.start_the_others, daemon=True)
        self.thread.start()

    def start_the_others(self) -> None:
        for number in range(self.at_once, self.count):
            while not self.is_awaited.is_set() and not has_spoken(self.started[number - self.at_once]):
                pass
            if self.is_awaited.is_set():
                return
            self.started.append(Warm(folders=self.folders))

    def all(self) -> list[Warm]:
        """All of them; those whose turn has not come yet are started now."""
        self.is_awaited.set()
        self.thread.join()
        while len(self.started) < self.count:
            self.started.append(Warm(folders=self.folders))
        return self.started

    def close(self) -> None:
        """Stop those that were started."""
        self.is_awaited.set()
        self.thread.join()
        for warm in self.started:
            warm.close()


def has_spoken(warm: Warm) -> bool:
    """Whether it is ready, or has ended, after a moment. What it says is left to be heard."""
    return bool(select.select([warm.control], [], [], LOOKING_SECONDS)[0])


def walled_off() -> bool:
    """Whether this machine keeps student code from files and from the network."""
    return any(wall.works for wall in walls.probe() if wall.name in (walls.NAMESPACES, walls.LANDLOCK))


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
