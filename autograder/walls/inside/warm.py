"""The warm process: it has imported what notebooks import, and forks a runner for each submission in milliseconds.

It is started before anything of the course is read, and reads nothing of it: a fork copies memory. It stays on one
thread and never runs a backward pass, since a forked child would hang on threads that it does not have.

    python -m inside.warm CONTROL_FD

The judge sends {"do": "fork", …} with the runner's end of a connection, {"do": "interrupt"} and {"do": "kill"};
back come {"pid": …}, {"interrupted": pid} and, when a runner has ended, {"ended": pid, "status": …, "peak": bytes,
"cpu": seconds}.

{"do": "prepare"} comes with a connection from which the text of the course is read, as all runners of one notebook may
see it, and the cell that all of them begin with. A child of the warm process imports the text, runs the cell, writes
back what came of that, and serves in the warm process's place until {"do": "leave"}. The warm process itself never
holds the text: what one notebook may see has to be written in another, and freed memory can still be read.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import runner, walls
from .cells import Cells, Printed


def warm_shell() -> Any:
    """An IPython shell that has everything imported, and has shown a value and a traceback (the first are slow)."""
    os.environ.setdefault("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt
    import torch
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    torch.set_num_threads(1)
    set_seeds_quickly()
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.xmode = "Minimal"
    config.InteractiveShell.autocall = 0
    shell = InteractiveShell.instance(config=config)
    vars(shell)["_showtraceback"] = lambda *_: None  # the judge is told of errors in its own way
    vars(shell)["_tee"] = lambda channel: contextlib.nullcontext()  # otherwise it keeps everything that is ever printed
    look_for_magics_only_where_they_can_be(shell)
    tolerate_what_cannot_be_done(shell)
    shell.db = {}  # %cd notes in it where it has been, and a runner cannot write to the files of a profile
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    torch.softmax(torch.ones(2, 3) @ torch.ones(3, 2), dim=-1)
    plt.close(plt.figure())
    assert shell.display_formatter is not None
    shell.display_formatter.format(0)
    out = sys.stdout
    sys.stdout = Printed()
    shell.run_cell("1 / 0", store_history=False)
    sys.stdout = out
    return shell


def set_seeds_quickly() -> None:
    """For each kind of device, torch.manual_seed writes down where it was called from, in case the device refuses the
    seed later. In a runner there will never be a device, and this takes a hundred times as long as the rest.
    """
    for device in ("cuda", "xpu", "mtia"):
        module = importlib.import_module(f"torch.{device}")
        if hasattr(module, "traceback"):
            vars(module)["traceback"] = types.SimpleNamespace(format_stack=list)


def look_for_magics_only_where_they_can_be(shell: Any) -> None:
    """IPython takes each cell apart into tokens, several times longer than it takes to run it. No line of a cell that
    is Python already can be a magic, a shell command or a question mark."""
    manager = shell.input_transformer_manager
    transform = manager.do_token_transforms

    def transformed(lines: list[str]) -> list[str]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those are for when it is compiled to be run
                compile("".join(lines), "<cell>", "exec", ast.PyCF_ONLY_AST)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return transform(lines)
        return lines

    manager.do_token_transforms = transformed


def tolerate_what_cannot_be_done(shell: Any) -> None:
    """`%matplotlib inline` and `!pip install …` do something in a notebook. Here they would raise an error, and the
    answer below them in the same cell would not be defined. There is no screen, and commands cannot be run: so nothing
    is done, and the cell continues. The same holds for torch.compile, which runs a compiler."""
    import torch
    from IPython.utils.text import LSString, SList

    def refuse(command: str) -> None:
        print(f"Not run by the grader: {command}")
        shell.user_ns["_exit_code"] = 126  # as a shell says that a command cannot be run

    def refuse_with_output(command: str, split: bool = True, depth: int = 0) -> Any:
        refuse(command)
        return SList() if split else LSString("")

    def leave_as_it_is(model: Any = None, **_: Any) -> Any:
        return leave_as_it_is if model is None else model

    vars(torch)["compile"] = leave_as_it_is
    vars(shell)["enable_matplotlib"] = lambda gui=None: (gui, "agg")
    vars(shell)["system"] = refuse
    vars(shell)["getoutput"] = refuse_with_output


def make_an_optimiser() -> None:
    """The first one imports a part of torch that no other code needs, which takes a second and much memory."""
    import torch

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


class Warm:
    """Forks runners on demand, passes interrupts and kills on to them, and tells when one has ended."""

    def __init__(self, control: socket.socket, shell: Any):
        self.control = control
        self.cells = Cells(shell)
        self.running: dict[int, Path] = {}  # pid -> its scratch folder
        self.listen_to_children()

    def listen_to_children(self) -> None:
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([self.control.fileno(), self.woken], [], [])
            if self.woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.woken, 4096)
                self.bury_the_dead()
            if self.control.fileno() in ready and not self.obey():
                return

    def obey(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self.control, 65536, 1)
        if not data:
            return False
        order = json.loads(data)
        match order["do"]:
            case "fork":
                self.fork(fds[0], order)
            case "interrupt":
                if order["pid"] in self.running:
                    os.kill(order["pid"], signal.SIGINT)
                self.tell({"interrupted": order["pid"]})
            case "kill" if order["pid"] in self.running:
                os.kill(order["pid"], signal.SIGKILL)
            case "prepare":
                self.prepare(fds[0], order["trains"])
            case "leave":
                return False
        return True

    def prepare(self, fd: int, trains: bool) -> None:
        """Let a child import the course and serve in this process's place, until it is told to leave.

        trains: whether there are optimisers in the notebook.
        """
        pid = os.fork()
        if pid == 0:
            try:
                walls.die_with(os.getppid())
                self.listen_to_children()
                with socket.socket(fileno=fd) as connection:
                    self.read_and_open(connection, trains)
                be_easy_to_fork()
                self.tell({"prepared": True})
                self.serve()
            finally:
                os._exit(0)
        os.close(fd)
        os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # nobody is left to be told
            self.tell({"left": True})

    def read_and_open(self, connection: socket.socket, trains: bool) -> None:
        """Import the course, and run the cell that all submissions begin with."""
        with connection.makefile("rb") as file:
            sent = json.load(file)
        runner.import_course(sent["sources"])
        if trains:
            make_an_optimiser()
        runner.rehearse(self.cells)
        outcome = self.cells.open_with(sent["opening"])
        connection.sendall(json.dumps(outcome).encode())

    def fork(self, fd: int, order: dict[str, Any]) -> None:
        scratch = Path(tempfile.mkdtemp(prefix="scratch"))
        walls.get_ready([Path(path) for path in order["hidden"]], scratch)
        pid = os.fork()
        if pid == 0:
            self.become_a_runner(fd, order, scratch)
        os.close(fd)
        self.running[pid] = scratch
        self.tell({"pid": pid})

    def become_a_runner(self, fd: int, order: dict[str, Any], scratch: Path) -> None:
        """In the child: raise the walls, say which stand, and serve. Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):  # what is written past Python must not fill a pipe that all runners share
                os.dup2(nowhere, standard)
            connection = socket.socket(fileno=fd)
            limits = walls.Limits(**order["limits"])
            secrets = map(Path, order["hidden"])
            standing = walls.confine(
                limits, scratch=scratch, hidden=list(secrets), keep=[0, 1, 2, fd], walls=order["walls"]
            )
            sys.path[0] = ""  # where a notebook is run: a cell may write a module there, and another import it
            runner.serve(connection, self.cells, standing)
        finally:
            os._exit(1)

    def bury_the_dead(self) -> None:
        while self.running:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            shutil.rmtree(self.running.pop(pid), ignore_errors=True)
            cpu = usage.ru_utime + usage.ru_stime
            self.tell({"ended": pid, "status": status, "peak": usage.ru_maxrss * 1024, "cpu": cpu})

    def tell(self, message: dict[str, Any]) -> None:
        self.control.send(json.dumps(message).encode())


GAPS: list[bytes] = []  # what fills them
LARGEST_SMALL_OBJECT, STEP = 512, 16  # of Python's own allocator, which has a list of free places for each step
LARGEST_GAP = 2**16


def fill_the_gaps() -> None:
    """Memory that was freed lies scattered between what is in use, and whoever is forked would use it up place by
    place: for each a page has to be copied. So it is used up here, and a runner begins with pages of its own.
    """
    known = [place for place, rights, _ in mapped_memory() if rights == "rw-p"]

    def is_gap(address: int) -> bool:
        first, beyond = known[max(0, bisect.bisect(known, (address, sys.maxsize)) - 1)]
        return first <= address < beyond

    for size in range(LARGEST_SMALL_OBJECT, 2 * STEP, -STEP):
        while is_gap(id(filling := bytes(size - sys.getsizeof(b"")))):
            GAPS.append(filling)
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    beyond = libc.malloc(LARGEST_GAP * 3 // 2)  # the rest of the memory that it has at hand is in one piece
    known = [(first, beyond if first <= beyond < end else end) for first, end in known]
    for size in (*(LARGEST_GAP >> i for i in range(6)), *range(1024, STEP, -STEP)):
        while is_gap(libc.malloc(size) or sys.maxsize):
            pass


def mapped_memory() -> Iterator[tuple[tuple[int, int], str, str]]:
    """Of each part of the memory: its first address and the one beyond, the rights to it, and the number of a file."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            place, rights, _, _, inode, *_ = line.split()
            first, beyond = place.split("-")
            yield (int(first, 16), int(beyond, 16)), rights, inode


LARGE_PAGE = 2 * 2**20
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def be_easy_to_fork() -> None:
    """A fork copies a table with an entry for each page: with few large pages it takes a third of the time.

    Where the kernel does not have them, nothing happens.
    """
    gc.collect()
    fill_the_gaps()
    gc.freeze()
    for (start, end), rights, inode in list(mapped_memory()):
        first, beyond = -(-start // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
        if rights == "rw-p" and inode == "0" and first < beyond:
            for advice in (MADV_HUGEPAGE, MADV_COLLAPSE):
                ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(beyond - first), advice)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # while the imports run
    shell = warm_shell()
    walls.hide_memory()
    gc.freeze()
    gc.enable()
    server = Warm(control, shell)
    server.tell({"ready": True})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator handles Ctrl-C at the terminal
    server.serve()


if __name__ == "__main__":
    main()
