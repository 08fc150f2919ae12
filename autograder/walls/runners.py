"""The judge's end of the warm process and of its runners.

A runner is another process with a student's code in it. It may answer, hang, die or lie; whatever it does comes out of
here as an answer in plain data, or as one of the exceptions of `course_lib.checking.bench`.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from autograder.walls.inside.walls import Limits
from autograder.walls.inside.wire import Channel, Late, WireError
from autograder.walls.warm import Silence, Warm, WarmError
from course_lib.checking.bench import Answer, Bench, NotAttempted, NotPossible, Opaque, StudentError

GRACE_SECONDS = 2.0  # between an interrupt and the end
DYING_SECONDS = 2.0  # time for a runner to end by itself, before it is killed
FOREVER = float("inf")
HANGS_SECONDS = 120.0  # for what takes milliseconds, and on a machine that is busy with other things seconds


class RunnerError(BaseException):
    """The runner is lost. The message says how it ended.

    Not an `Exception`: it has to pass through properties, which take those for a fault of the answer.
    """


class TimeIsUp(RunnerError):
    """Student code did not finish in time. The runner may still be usable."""


class BudgetSpent(TimeIsUp):
    """The time for the whole submission is used up."""


class Clock:
    """The time that is left for a submission, whatever it is spent on."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds

    @property
    def is_spent(self) -> bool:
        return time.monotonic() >= self.deadline

    def at_most(self, seconds: float) -> float:
        """This many seconds, or what is left if that is less. Raises BudgetSpent."""
        if self.is_spent:
            raise BudgetSpent(f"The {self.seconds:g} seconds for the whole submission were used up.")
        return min(seconds, self.deadline - time.monotonic())


@dataclass(frozen=True)
class CellOutput:
    """What came of executing a cell."""

    printed: str
    complaints: str  # on stderr
    error: tuple[str, str] | None  # its type, and the first line of its message
    seconds: float


class Runner:
    """One process with one submission in it."""

    def __init__(self, warm: Warm, limits: Limits, clock: Clock | None = None):
        self.warm = warm
        self.clock = clock or Clock(FOREVER)
        self.pid, connection = warm.fork(limits)
        self.channel = Channel(connection, opaque=Opaque)
        self.alive = True
        self.how_it_ended = ""
        self.peak_bytes = 0
        self.walls: tuple[str, ...] = ()
        try:
            self.walls = tuple(self.channel.receive(HANGS_SECONDS)["walls"])
        except (WireError, KeyError, TypeError):
            self.bury()
            raise WarmError(f"The walls could not be raised: the runner {self.how_it_ended}.") from None

    def request(self, seconds: float, do: str, *, limit: float = 0.0, **details: Any) -> dict[str, Any]:
        """The reply to a request within `seconds`, the rest of a limit. Raises TimeIsUp or RunnerError."""
        if not self.alive:
            raise RunnerError(f"The student's process {self.how_it_ended}.")
        granted = self.clock.at_most(seconds)
        try:
            self.channel.send({"do": do, **details}, granted)
            reply = self.channel.receive(granted)
        except Late:
            self.stop_what_it_does()
            self.clock.at_most(seconds)
            raise TimeIsUp(f"It did not finish within {limit or seconds:g} seconds.") from None
        except WireError:
            self.bury()
            raise RunnerError(f"The student's process {self.how_it_ended}.") from None
        if not isinstance(reply, dict):
            return {"broken": "The answer makes no sense."}
        return reply

    def stop_what_it_does(self) -> None:
        """Interrupt it as Ctrl-C would, and kill it if it does not stop."""
        self.warm.tell({"do": "interrupt", "pid": self.pid})
        try:
            self.channel.receive(GRACE_SECONDS)
        except WireError:
            self.bury(moment=0.1)

    def bury(self, moment: float = DYING_SECONDS) -> None:
        """Kill it if it still lives after a moment, and note how it ended."""
        if not self.alive:
            return
        self.alive = False
        self.channel.close()
        was_killed = False
        deadline = time.monotonic() + HANGS_SECONDS
        while True:
            try:
                wait = moment if not was_killed else max(0.1, deadline - time.monotonic())
                news = self.warm.hear_of_the_end(self.pid, wait)
            except Silence:
                if was_killed:
                    raise WarmError("A runner could not be stopped.") from None
                was_killed = True
                self.warm.tell({"do": "kill", "pid": self.pid})
                continue
            self.peak_bytes = int(news["peak"])
            self.how_it_ended = "was stopped" if was_killed else describe_status(int(news["status"]))
            return

    def run(self, source: str, seconds: float) -> CellOutput:
        """Execute a cell."""
        reply = self.request(seconds, "run", source=source)
        error = reply.get("error")
        if "broken" in reply or "interrupted" in reply:
            error = ["Error", str(reply.get("broken", "interrupted"))]
        return CellOutput(
            printed=str(reply.get("printed", "")),
            complaints=str(reply.get("complaints", "")),
            error=(str(error[0]), str(error[1])) if isinstance(error, list) and len(error) == 2 else None,
            seconds=float(reply["seconds"]) if isinstance(reply.get("seconds"), float) else 0.0,
        )

    def find(self, name: str, seconds: float) -> tuple[RemoteBench, str] | None:
        """The object of this name, and what it is; None if there is none."""
        reply = self.request(seconds, "find", name=name)
        if "bench" not in reply:
            return None
        return RemoteBench(self, 0, seconds), str(reply.get("kind"))


class RemoteBench(Bench):
    """A bench in a runner. All questions together may take this many seconds."""

    def __init__(self, runner: Runner, number: int, seconds: float, deadline: float | None = None):
        self.runner = runner
        self.number = number
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds if deadline is None else deadline

    def ask(self, operation: str, *details: Any) -> Answer:
        left = max(0.1, self.deadline - time.monotonic())
        reply = self.runner.request(
            left, "ask", limit=self.seconds, bench=self.number, operation=operation, details=details
        )
        if "not attempted" in reply:
            raise NotAttempted
        if "not possible" in reply:
            raise NotPossible(str(reply["not possible"]))
        if "student error" in reply:
            raise student_error(reply["student error"])
        if "broken" in reply or "interrupted" in reply:
            raise StudentError("Error", str(reply.get("broken", "interrupted")))
        changed = reply.get("changed")
        positions = tuple(p for p in changed if isinstance(p, int)) if isinstance(changed, list) else ()
        if operation == "build":
            number = reply.get("bench")
            if not isinstance(number, int):
                raise NotPossible("The class could not be built.")
            return Answer(RemoteBench(self.runner, number, self.seconds, self.deadline), positions)
        return Answer(reply.get("value"), positions)


def student_error(parts: Any) -> StudentError:
    """The error as the runner tells it; it may tell nonsense."""
    kind, message, line, number = [*parts, None, None, None, None][:4] if isinstance(parts, list) else [None] * 4
    return StudentError(
        str(kind or "Error"), str(message or ""), str(line or ""), number if isinstance(number, int) else None
    )


def describe_status(status: int) -> str:
    """How a process ended, in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        reasons: dict[int, str] = {
            signal.SIGXCPU: "used up its CPU time",
            signal.SIGKILL: "was killed (too much memory or CPU time?)",
            signal.SIGSEGV: "crashed (segmentation fault)",
            signal.SIGABRT: "aborted itself",
            signal.SIGXFSZ: "wrote too large a file",
            signal.SIGSYS: "did something that the walls forbid",
        }
        return reasons.get(number, f"was ended by signal {number}")  # there are signals without a name
    return "ended itself"
