"""The judge's end of the warm process and of its runners.

A runner is another process with a student's code in it. It may answer, hang, die or lie; whatever it does comes out of
here as an answer in plain data, or as one of the exceptions of `course_lib.checking.bench`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from autograder.walls.foresight import BEGINNING, Answers, Keys, Message, Reading, Script
from autograder.walls.inside.walls import Limits
from autograder.walls.inside.wire import MOST_BYTES, Channel, Late, WireError, encode
from autograder.walls.warm import Silence, Warm, WarmError
from course_lib.checking.bench import Answer, Bench, NotAttempted, NotPossible, Opaque, StudentError

GRACE_SECONDS = 2.0  # between an interrupt and the end
DYING_SECONDS = 2.0  # time for a runner to end by itself, before it is killed
FOREVER = float("inf")
MOST_ARGUMENTS = 32  # of a question
ECHOES = itertools.count()
LAST_WORDS = 100  # the most bytes in the message that ends all others

Step = tuple[str, tuple[Any, ...]]  # an operation, and its details
HANGS_SECONDS = 120.0  # for what takes milliseconds, or seconds on a busy machine


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
        self.cpu_seconds = 0.0
        self.answers: Answers | None = None  # to questions that are being asked
        self.walls: tuple[str, ...] = ()
        try:
            self.walls = tuple(self.channel.receive(HANGS_SECONDS)["walls"])
        except (WireError, KeyError, TypeError):
            self.bury()
            raise WarmError(f"The walls could not be raised: the runner {self.how_it_ended}.") from None

    def request(self, seconds: float, do: str, *, limit: float = 0.0, **details: Any) -> dict[str, Any]:
        """The reply to a request within `seconds`, the rest of a limit. Raises TimeIsUp or RunnerError."""
        self.hear_all_answers(seconds, limit)
        self.require_life()
        granted = self.clock.at_most(seconds)
        try:
            self.channel.send({"do": do, **details}, granted)
            return as_reply(self.channel.receive(granted))
        except Late:
            self.stop_what_it_does()
            self.clock.at_most(seconds)
            raise TimeIsUp(f"It did not finish within {limit or seconds:g} seconds.") from None
        except WireError:
            self.bury()
            raise RunnerError(f"The student's process {self.how_it_ended}.") from None

    def require_life(self) -> None:
        if not self.alive:
            raise RunnerError(f"The student's process {self.how_it_ended}.")

    def reveal(self, message: bytes) -> None:
        """Reveal references before anything else is done."""
        self.channel.hold(message)

    def begin_anew(self) -> None:
        """Forget what the opening cell has defined, before anything else is done."""
        self.channel.hold(encode({"do": "begin_anew"}))

    def stop_what_it_does(self) -> None:
        """Interrupt it as Ctrl-C would, and kill it if it does not stop."""
        self.warm.interrupt(self.pid)
        deadline = time.monotonic() + GRACE_SECONDS
        try:
            if self.answers is None:
                self.channel.receive(GRACE_SECONDS)
            while self.answers is not None:
                self.hear_an_answer(max(0.0, deadline - time.monotonic()))
            self.hear_the_echo(deadline)
        except WireError:
            self.bury(moment=0.1)

    def hear_the_echo(self, deadline: float) -> None:
        """What was just finished is not stopped by an interrupt: that is then reported in a message that nobody waits
        for. So everything up to an echo is passed over."""
        number = next(ECHOES)
        self.channel.send({"do": "echo", "number": number}, GRACE_SECONDS)
        while self.channel.receive(max(0.0, deadline - time.monotonic())) != {"echo": number}:
            pass

    # --- many questions at once ---

    def ask_all(self, script: Script, first: int, beyond: int, seconds: float, latest: dict[bytes, Message]) -> Answers:
        """Ask parts of a script. The answers arrive when they are waited for, or before the next request."""
        self.hear_all_answers(seconds)
        self.require_life()
        try:
            self.channel.send_message(script.message(first, beyond), self.clock.at_most(seconds))
        except Late:
            self.bury(moment=0.1)
            raise TimeIsUp("It did not listen.") from None
        except WireError:
            self.bury()
            raise RunnerError(f"The student's process {self.how_it_ended}.") from None
        self.answers = Answers([question for part in script.parts[first:beyond] for question in part], latest)
        return self.answers

    def hear_answers(self, answers: Answers, place: int, seconds: float, limit: float) -> None:
        """Wait until the answer at a place of a script has arrived, or never will. Raises as `request` does."""
        deadline = time.monotonic() + self.clock.at_most(seconds)
        try:
            while self.answers is answers and len(answers.messages) <= place:
                self.hear_an_answer(deadline - time.monotonic())
        except Late:
            self.stop_what_it_does()
            if len(answers.messages) <= place:
                self.clock.at_most(seconds)
                raise TimeIsUp(f"It did not finish within {limit:g} seconds.") from None
        except WireError:
            self.bury()
            raise RunnerError(f"The student's process {self.how_it_ended}.") from None

    def hear_an_answer(self, seconds: float) -> None:
        answers = self.answers
        assert answers is not None
        text, blob = self.channel.receive_message(seconds)
        answers.add((text, blob))
        if answers.bytes > MOST_BYTES:
            raise WireError("The answers are too long.")
        if b"interrupted" in text[:LAST_WORDS] and "interrupted" in self.reply_in((text, blob)):
            answers.end()
        if answers.are_complete:
            self.answers = None

    def hear_all_answers(self, seconds: float, limit: float = 0.0) -> None:
        """Wait for answers that are not needed any more, before something else is asked."""
        if self.answers is not None:
            with contextlib.suppress(RunnerError):  # it was not asked for
                self.hear_answers(self.answers, self.answers.expected - 1, seconds, limit or seconds)
            self.answers = None

    def reply_in(self, message: Message) -> dict[str, Any]:
        try:
            return as_reply(self.channel.decoded(*message))
        except WireError:
            self.bury()
            raise RunnerError(f"The student's process {self.how_it_ended}.") from None

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
            self.peak_bytes, self.cpu_seconds = int(news["peak"]), float(news["cpu"])
            self.how_it_ended = "was stopped" if was_killed else describe_status(int(news["status"]))
            return

    def run(self, source: str, seconds: float) -> CellOutput:
        """Execute a cell."""
        return cell_output(self.request(seconds, "run", source=source))

    @property
    def opened(self) -> CellOutput:
        """What came of the opening cell."""
        return replace(cell_output(self.warm.opened), seconds=0.0)  # this submission took none of them

    def find(self, name: str, seconds: float, foreseen: Sequence[Reading] = ()) -> tuple[RemoteBench, str] | None:
        """The object of this name, and what it is; None if there is none. `foreseen`: what may be asked at once."""
        talk = Talk(self, seconds, foreseen)
        reply = talk.begin(name) if foreseen else self.request(seconds, "find", name=name)
        return None if "bench" not in reply else (RemoteBench(talk), str(reply.get("kind")))


def cell_output(reply: dict[str, Any]) -> CellOutput:
    error = reply.get("error")
    if "broken" in reply or "interrupted" in reply:
        error = ["Error", str(reply.get("broken", "interrupted"))]
    return CellOutput(
        printed=str(reply.get("printed", "")),
        complaints=str(reply.get("complaints", "")),
        error=(str(error[0]), str(error[1])) if isinstance(error, list) and len(error) == 2 else None,
        seconds=seconds_in(reply.get("seconds")),
    )


def seconds_in(told: Any) -> float:
    """A time that can be added to others."""
    return told if isinstance(told, float) and 0.0 <= told < HANGS_SECONDS * 60 else 0.0


class Talk:
    """Everything that is asked about one object. All of it together may take this many seconds."""

    def __init__(self, runner: Runner, seconds: float, foreseen: Sequence[Reading] = ()):
        self.runner = runner
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        self.readings = list(foreseen)
        self.asked: list[Answers] = []
        self.latest: dict[bytes, Message] = {}
        self.replies: dict[int, tuple[Message, dict[str, Any]]] = {}  # by the id of the message
        self.modules = itertools.count(1)

    @property
    def left(self) -> float:
        return max(0.1, self.deadline - time.monotonic())

    def begin(self, name: str) -> dict[str, Any]:
        """Ask what the object of this name is, and with the same message the first questions of the first script."""
        runner, reading = self.runner, self.readings[0]
        runner.hear_all_answers(self.left)
        runner.channel.hold(encode({"do": "find", "name": name}))
        self.asked.append(runner.ask_all(reading.script, *reading.first_parts(), self.left, self.latest))
        try:
            return as_reply(runner.channel.receive(runner.clock.at_most(self.left)))
        except Late:
            runner.bury(moment=0.1)
            raise TimeIsUp(f"It did not finish within {self.seconds:g} seconds.") from None
        except WireError:
            runner.bury()
            raise RunnerError(f"The student's process {runner.how_it_ended}.") from None

    def ask(self, bench: int, operation: str, details: Sequence[Any], built: int | None = None) -> dict[str, Any]:
        """The reply to a question that is asked now."""
        question = {"bench": bench, "operation": operation, "details": details, "built": built}
        return self.runner.request(self.left, "ask", limit=self.seconds, **question)

    def foreseen(self, key: bytes) -> tuple[dict[str, Any], int | None] | None:
        """The reply to a question that was asked at once with others, and the number of the module that it built."""
        while True:
            for answers in self.asked:
                place = answers.place_of(key)
                if place is not None:
                    self.runner.hear_answers(answers, place, self.left, self.seconds)
                    if answers.place_of(key) is not None:
                        return self.reply_in(answers.take(key)), answers.questions[place].built
            found = ((reading.script, parts) for reading in self.readings if (parts := reading.next_parts(key)))
            script, parts = next(found, (None, None))
            if script is None or parts is None:
                return None
            self.asked.append(self.runner.ask_all(script, *parts, self.left, self.latest))

    def reply_in(self, message: Message) -> dict[str, Any]:
        """What a message says. One that came several times is read once."""
        if id(message) not in self.replies:
            self.replies[id(message)] = message, self.runner.reply_in(message)
        return self.replies[id(message)][1]

    def end(self) -> None:
        """Nothing more is asked. What was asked ahead is waited for, as long as there is time."""
        if self.runner.alive:
            self.runner.hear_all_answers(self.left, self.seconds)

    def forget_what_was_foreseen(self) -> None:
        self.readings, self.asked = [], []


KEYS = Keys()


class RemoteBench(Bench):
    """A bench in a runner: a function or class, or a module that was built."""

    def __init__(
        self,
        talk: Talk,
        number: int = 0,
        key: bytes = BEGINNING,
        path: Sequence[Step] = (),
        is_ahead: bool = False,
    ):
        self.talk = talk
        self.number = number
        self.key = key  # of the last question
        self.path = list(path)  # of a module: how it was built, and what it was asked
        self.is_ahead = is_ahead  # of a module: it was asked everything in a script, not only what is on the path

    def ask(self, operation: str, *details: Any) -> Answer:
        key = KEYS.key_of(self.key, operation, details)
        foreseen = self.talk.foreseen(key) if self.is_ahead or not self.path else None
        if foreseen is None:
            number = self.here()
            built = next(self.talk.modules) if operation == "build" else None
            reply = self.talk.ask(number, operation, details, built)
        else:
            reply, built = foreseen
        if self.path:
            self.key = key
            self.path.append((operation, details))
        if "not attempted" in reply:
            raise NotAttempted
        if "not possible" in reply:
            raise NotPossible(str(reply["not possible"]))
        if "student error" in reply:
            raise student_error(reply["student error"])
        if "broken" in reply or "interrupted" in reply:
            raise StudentError("Error", str(reply.get("broken", "interrupted")))
        positions = positions_in(reply.get("changed"))
        if operation != "build":
            return Answer(reply.get("value"), positions)
        if built is None or "built" not in reply:
            raise NotPossible("The class could not be built.")
        path = [(operation, details)]
        return Answer(RemoteBench(self.talk, built, key, path, is_ahead=foreseen is not None), positions)

    def here(self) -> int:
        """The number of a bench that was asked what is on the path and nothing else. Perhaps one has to be made."""
        if self.is_ahead:
            self.is_ahead = False
            self.talk.forget_what_was_foreseen()  # other names, other modules: no script foresees what is asked of it
            (operation, details), *steps = self.path
            self.number = next(self.talk.modules)
            self.talk.ask(0, operation, details, self.number)
            for operation, details in steps:
                self.talk.ask(self.number, operation, details)
        return self.number


def positions_in(changed: Any) -> tuple[int, ...]:
    """Of arguments that were changed, as the runner tells; it may tell thousands."""
    told = changed[:MOST_ARGUMENTS] if isinstance(changed, list) else []
    return tuple(position for position in told if type(position) is int and 0 <= position < MOST_ARGUMENTS)


def as_reply(value: Any) -> dict[str, Any]:
    """What a runner said, if that is a reply."""
    return value if isinstance(value, dict) else {"broken": "The answer makes no sense."}


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
