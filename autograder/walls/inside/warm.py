"""The warm process: it has imported what notebooks import, and forks a runner for each submission in milliseconds.

It is started before anything of the course is read, and reads nothing of it: a fork copies memory. It stays on one
thread and never runs a backward pass, since a forked child would hang on threads that it does not have.

    python -m inside.warm CONTROL_FD

The judge sends {"do": "fork", …} with the runner's end of a connection, {"do": "interrupt"} and {"do": "kill"};
back come {"pid": …} and, when a runner has ended, {"ended": pid, "status": …, "peak": bytes, "cpu": seconds}.

{"do": "prepare"} comes with a connection from which the text of the course is read, as all runners of one notebook may
see it. A child of the warm process imports it and serves in its place until {"do": "leave"}. The warm process itself
never holds it: what one notebook may see has to be written in another, and freed memory can still be read.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from . import runner, walls


def warm_shell() -> Any:
    """An IPython shell that has everything imported, and has shown a traceback once (the first is slow)."""
    os.environ.setdefault("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt
    import torch
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    torch.set_num_threads(1)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.xmode = "Minimal"
    config.InteractiveShell.autocall = 0
    shell = InteractiveShell.instance(config=config)
    vars(shell)["_showtraceback"] = lambda *_: None  # the judge is told of errors in its own way
    vars(shell)["_tee"] = lambda channel: contextlib.nullcontext()  # otherwise it keeps everything that is ever printed
    shell.db = {}  # %cd notes in it where it has been, and a runner cannot write to the files of a profile
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    torch.softmax(torch.ones(2, 3) @ torch.ones(3, 2), dim=-1)
    plt.close(plt.figure())
    out = sys.stdout
    sys.stdout = runner.Printed()
    shell.run_cell("1 / 0", store_history=False)
    sys.stdout = out
    return shell


def make_an_optimiser() -> None:
    """The first one imports a part of torch that no other code needs, which takes a second and much memory."""
    import torch

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


class Warm:
    """Forks runners on demand, passes interrupts and kills on to them, and tells when one has ended."""

    def __init__(self, control: socket.socket, shell: Any):
        self.control = control
        self.shell = shell
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
            case "interrupt" if order["pid"] in self.running:
                os.kill(order["pid"], signal.SIGINT)
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
                with socket.socket(fileno=fd).makefile("rb") as file:
                    runner.import_course(json.load(file))
                if trains:
                    make_an_optimiser()
                runner.rehearse(self.shell)
                be_easy_to_fork()
                self.tell({"prepared": True})
                self.serve()
            finally:
                os._exit(0)
        os.close(fd)
        os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # nobody is left to be told
            self.tell({"left": True})

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
            signal.signal(signal.SIGINT, signal.default_int_handler)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):  # what is written past Python must not fill a pipe that all runners share
                os.dup2(nowhere, standard)
            connection = socket.socket(fileno=fd)
            limits = walls.Limits(**order["limits"])
            secrets = map(Path, order["hidden"])
            standing = walls.confine(
                limits, scratch=scratch, hidden=list(secrets), keep=[0, 1, 2, fd], walls=order["walls"]
            )
            runner.Channel(connection).send({"walls": standing})
            runner.serve(connection, self.shell)
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


LARGE_PAGE = 2 * 2**20
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def be_easy_to_fork() -> None:
    """A fork copies a table with an entry for each page: with few large pages it takes a third of the time.

    Where the kernel does not have them, nothing happens.
    """
    gc.collect()
    gc.freeze()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        fields = [line.split() for line in maps]
    for place, rights, _, _, inode, *_ in fields:
        start, end = (int(number, 16) for number in place.split("-"))
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
