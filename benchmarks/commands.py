"""Whole commands, measured from outside: wall-clock time, and the peak memory of their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.classroom.class_folder import CONFIG

ROOT = Path(__file__).resolve().parents[1]
PROC = Path("/proc")
LOOK_SECONDS = 0.5  # between two readings of the memory; peaks are the kernel's own, so that nothing is missed
GRACE_SECONDS = 20.0  # for an interrupted command to clean up


class CommandFailed(Exception):
    """A command that was to be measured has failed. The message has the end of what it said."""


@dataclass(frozen=True)
class Run:
    """A command that has ended well."""

    began: float  # as time.time()
    seconds: float  # wall clock
    megabytes: Mapping[str, float]  # what a process was -> the peak of the largest such process; empty without /proc


def environment() -> dict[str, str]:
    """The environment of a user in this folder, without settings that tests, notebooks or containers make."""
    others = ("JUPYTER", "IPYTHON", "MPLBACKEND", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT)}


def run(command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> Run:
    """Run a command in a folder to its end. Nothing of it is left running, however this ends. Raises: CommandFailed."""
    print("…", *command[1:], file=sys.stderr, flush=True)
    with tempfile.TemporaryFile() as said:
        began, start = time.time(), time.monotonic()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=dict(env or environment()),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            peaks = watch(process)
        finally:
            stop(process)
        seconds = time.monotonic() - start
        if process.returncode != 0:
            said.seek(0)
            words = said.read().decode(errors="replace")[-3000:]
            raise CommandFailed(f"{' '.join(map(str, command))} ended with code {process.returncode}:\n{words}")
    return Run(began, seconds, peaks)


def grader(course: Path, *arguments: str) -> Run:
    """One of this grader's own commands on a course folder."""
    return run([sys.executable, "-m", "autograder", "--course", str(course), *arguments], ROOT)


def watch(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """Wait for the end of a process, and watch the memory of everything that it starts."""
    peaks: dict[str, float] = {}
    while True:
        try:
            process.wait(LOOK_SECONDS)
            return peaks
        except subprocess.TimeoutExpired:
            for what, megabytes in memory_of(process.pid):
                peaks[what] = max(megabytes, peaks.get(what, 0.0))


def stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C, and by force if that does not help."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# --- processes ------------------------------------------------------------------------------------------------------


def memory_of(first: int) -> list[tuple[str, float]]:
    """What each process is that descends from the first, and its peak so far, in megabytes."""
    parents = {int(path.name): parent_of(path) for path in PROC.glob("[0-9]*")}
    found, todo = [], [(first, "coordinator")]
    while todo:
        pid, what = todo.pop()
        peak = peak_of(PROC / str(pid))
        if peak:
            found.append((what, peak))
        todo += [(child, kind_of(child, what)) for child, parent in parents.items() if parent == pid]
    return found


def kind_of(pid: int, parent: str) -> str:
    """What a process is, by its command line: a forked one has that of its parent."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "gone"
    if Path(words[0]).name == "bwrap":
        return "wrapper"
    if "inside.warm" in words:
        return "runner" if parent in ("warm process", "runner") else "warm process"
    if any("ipykernel" in word for word in words):
        return "kernel"
    return "judge" if parent == "coordinator" else "helper"


def parent_of(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):  # it has ended meanwhile
        return 0


def peak_of(path: Path) -> float:
    try:
        lines = (path / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def plain_nbgrader_config() -> str:
    """The course's configuration without our judge: nbgrader executes the notebooks itself."""
    config = CONFIG.read_text(encoding="utf-8")
    return config + 'c.Autograde.pop("autograde_preprocessors")\n'
