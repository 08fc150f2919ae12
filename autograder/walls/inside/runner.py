"""A runner: executes the cells of one submission and answers the judge's questions about what they defined.

It shares its process with student code, so nothing that it says is believed without a check outside.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import linecache
import marshal
import os
import signal
import socket
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .cells import Cells
from .wire import AGAIN, Channel, WireError, encode, framed

HELD_AT_MOST = 2**20  # bytes of answers that are kept until all are there
PACKAGE = "course_lib"
SAME = framed(AGAIN)


class CourseModules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports `course_lib` from the text that the judge has sent: there is no file of it inside the walls."""

    def __init__(self, sources: Mapping[str, str]):
        self.sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE:
            return None
        if name not in self.sources:
            raise ModuleNotFoundError(f"The grader has no module {name}: it is not for answers.", name=name)
        is_package = any(other.startswith(f"{name}.") for other in self.sources)
        spec = importlib.machinery.ModuleSpec(name, self, is_package=is_package, origin=file_of(name))
        spec.has_location = True
        return spec

    def get_source(self, fullname: str) -> str:
        return self.sources[fullname]

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        keep_lines(file_of(name), self.sources[name])
        exec(compile(self.sources[name], file_of(name), "exec"), module.__dict__)


def import_course(sources: Mapping[str, str]) -> None:
    """Make `course_lib` importable, and import all of it that can be."""
    sys.meta_path.insert(0, CourseModules(sources))
    for name in sources:
        with contextlib.suppress(Exception):  # whoever imports it will see why
            importlib.import_module(name)


def file_of(module: str) -> str:
    return "/" + module.replace(".", "/") + ("/__init__.py" if module == PACKAGE else ".py")


def keep_lines(file: str, source: str) -> None:
    """So that tracebacks and inspect.getsource show the text."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)


class Runner:
    """Serves one judge until it hangs up."""

    def __init__(self, channel: Channel, cells: Cells):
        self.channel = channel
        self.cells = cells
        self.benches: dict[int, Any] = {}
        self.given: dict[int, bytes] = {}  # the last replies to questions that are asked several times
        self.may_be_stopped = False
        self.was_stopped = False

    @functools.cached_property
    def bench_module(self) -> Any:
        return importlib.import_module(f"{PACKAGE}.checking.bench")

    def serve(self) -> None:
        while True:
            try:
                reply = self.attend(**self.channel.receive())
            except WireError:
                return
            if reply is not None:
                self.reply(reply)

    def attend(self, do: str, **details: Any) -> dict[str, Any] | None:
        """The reply to a request, if there is one."""
        method = getattr(self, f"do_{do}")
        try:
            return method(**details) if do in ("answer", "echo") else self.stoppable(method, **details)
        except KeyboardInterrupt:
            return {"interrupted": True}
        except WireError:
            raise
        except Exception as error:  # student code may have broken whatever this relies on
            return {"broken": f"{type(error).__name__}: {error}"}

    def stoppable(self, do: Callable[..., Any], *details: Any, **named: Any) -> Any:
        """What comes of it. An interrupt ends it, and ends nothing else: a message of which only half was read or
        written would make nonsense of all that follow."""
        self.may_be_stopped = True
        try:
            if self.was_stopped:
                raise KeyboardInterrupt
            return do(*details, **named)
        finally:
            self.may_be_stopped = False

    def stop(self, *_: Any) -> None:
        """The handler of interrupts: one raises KeyboardInterrupt at most once."""
        self.was_stopped = True
        if self.may_be_stopped:
            self.may_be_stopped = False
            raise KeyboardInterrupt

    def reply(self, reply: dict[str, Any]) -> None:
        try:
            self.channel.send(reply)
        except WireError:
            raise
        except Exception:  # a value that cannot be sent
            self.channel.send({"broken": "The result cannot be sent."})

    def do_reveal(self, definitions: Sequence[tuple[str, str, str, torch.Tensor]]) -> None:
        """Put references into the place of their stand-ins, wherever these were imported to. There is no reply.

        definitions: module, name, text, and the bytes of the text's code.
        """
        with contextlib.suppress(Exception):  # student code may have broken whatever this relies on
            self.reveal(definitions)

    def reveal(self, definitions: Sequence[tuple[str, str, str, torch.Tensor]]) -> None:
        sources = sys.meta_path[0].sources  # type: ignore[attr-defined]
        places = [self.cells.shell.user_ns, *(vars(sys.modules[n]) for n in sources if n in sys.modules)]
        for module_name, name, source, code in definitions:
            if module_name not in sys.modules:
                sources[module_name] += "\n\n" + source
                continue
            module = sys.modules[module_name]
            stand_in = vars(module).get(name)
            exec(marshal.loads(code.numpy().tobytes()), vars(module))
            for other in places:
                if stand_in is not None and other.get(name) is stand_in:
                    other[name] = vars(module)[name]

    def do_try_to_read(self, paths: Sequence[str]) -> dict[str, Any]:
        """Which of these student code could read here. Asked before there is any."""
        return {"readable": [path for path in paths if can_be_read(path)]}

    def do_echo(self, number: int) -> dict[str, Any]:
        """Say that everything before this has been answered. The interrupt that the judge has sent before is over."""
        self.was_stopped = False
        return {"echo": number}

    def do_begin_anew(self) -> None:
        """Forget what the opening cell has defined: this submission has cells before it. There is no reply."""
        self.cells.forget_the_opening()

    def do_run(self, source: str) -> dict[str, Any]:
        """Execute a cell."""
        return self.cells.outcome(source)

    def do_find(self, name: str) -> dict[str, Any]:
        """A bench with the object of this name on it. Earlier benches are cleared away."""
        self.given = {}
        if name not in self.cells.shell.user_ns:
            self.benches = {}
            return {"missing": True}
        self.benches = {0: self.bench_module.Bench(self.cells.shell.user_ns[name])}
        return {"bench": 0, "kind": self.benches[0].kind().value}

    def do_answer(
        self, details: Sequence[Sequence[Any]], questions: Sequence[tuple[int, str, int, int | None, int | None]]
    ) -> None:
        """Answer many questions in their order, each in a message. An interrupt is the last of them.

        questions: with the place of their details, and a number if the same question is asked several times.
        """
        for bench, operation, place, built, number in questions:
            try:
                message = self.stoppable(self.answer, number, bench, operation, details[place], built)
            except KeyboardInterrupt:
                self.given = {}
                self.channel.hold(encode({"interrupted": True}))
                break
            except Exception as error:  # as in `attend`
                self.given = {}
                message = encode({"broken": f"{type(error).__name__}: {error}"})
            self.channel.hold(message)
            if len(self.channel.held) > HELD_AT_MOST:
                self.channel.send_message(b"")
        self.channel.send_message(b"")

    def answer(self, number: int | None, *question: Any) -> bytes:
        """The message with the reply to a question, or the one that says that it is the same again."""
        message = encode(self.do_ask(*question))
        if number is None:
            return message
        if self.given.get(number) == message:
            return SAME
        self.given[number] = message
        return message

    def do_ask(self, bench: int, operation: str, details: Sequence[Any], built: int | None = None) -> dict[str, Any]:
        """built: the number of the module, if one is built."""
        bench_module = self.bench_module
        try:
            answer = self.benches[bench].ask(operation, *details)
        except bench_module.NotAttempted:
            return {"not attempted": True}
        except bench_module.NotPossible as reason:
            return {"not possible": str(reason)}
        except bench_module.StudentError as error:
            return {"student error": [error.kind, error.message, error.line, error.line_number]}
        if isinstance(answer.value, bench_module.Bench):
            self.benches[-1 if built is None else built] = answer.value
            return {"built": True, "changed": list(answer.changed)}
        return {"value": answer.value, "changed": list(answer.changed)}


def can_be_read(path: str) -> bool:
    """Whether a file opens, or a folder lists anything."""
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def make_object(module: str, name: str, fields: dict[str, Any]) -> Any:
    """An argument that is a small callable of the course's own: plain data with a class around it."""
    return getattr(importlib.import_module(module), name)(**fields)


REHEARSED = """
def rehearsed(numbers, mask):
    if mask is None:
        raise ValueError("nothing to hide")
    return numbers.masked_fill(~mask, 0.0), [len(numbers)]
"""
REHEARSALS = 12  # until Python's interpreter has adapted to the code


def rehearse(cells: Cells) -> None:
    """Do what a runner does, with a function of ours. Runners that are forked afterwards need not do anything for the
    first time."""
    numbers = torch.arange(6.0).reshape(2, 3)
    details = [[[numbers, mask]] for mask in (numbers > 2, None)]
    questions = [[0, "call", place, None, number] for place, number in [*[(0, None), (0, 0)] * REHEARSALS, (1, None)]]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for _ in range(REHEARSALS):
            for message in ({"do": "run", "source": REHEARSED}, {"do": "find", "name": "rehearsed"}):
                ours.sendall(encode(message))
            ours.sendall(encode({"do": "answer", "details": details, "questions": questions}))
        ours.shutdown(socket.SHUT_WR)
        Runner(Channel(theirs, objects=make_object), cells).serve()
    del cells.shell.user_ns["rehearsed"]


def serve(connection: Any, cells: Cells, standing: Sequence[str]) -> None:
    """Say which walls stand and serve one judge over this connection. Then end the process without running anything of
    the student's again."""
    try:
        runner = Runner(Channel(connection, objects=make_object), cells)
        signal.signal(signal.SIGINT, runner.stop)
        runner.channel.send({"walls": standing})
        runner.serve()
    finally:
        os._exit(0)
