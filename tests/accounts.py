"""People with Unix accounts of their own, for tests of what passes between them."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from lab import kernel_environment

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Person:
    """Somebody with an account, a home and the course's environment."""

    name: str
    home: Path

    def run(self, *command: str, folder: Path) -> str:
        done = subprocess.run(
            [*self.becoming(), sys.executable, "-m", *command],
            cwd=folder,
            env={**kernel_environment(), "HOME": str(self.home), "USER": self.name, "COURSE_FAST": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{self.name}: {command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def becoming(self) -> list[str]:
        """What is put before a command that this person gives."""
        if self.name == own_name():
            return []
        become = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--clear-groups", "--"]
        return [*seen_by_all("CAP_SETUID", "CAP_SETGID"), *become]


def own_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def seen_by_all(*capabilities: str) -> list[str]:
    """What is put before a command of root's in which others take part. Python may lie in a folder that is closed
    to them, as root's home is: then the command gets a view of the machine in which only Python and the course are left
    in that folder."""
    needed = [Path(sys.base_prefix).resolve(), ROOT]
    closed = [f for path in needed for f in reversed(path.parents) if not f.stat().st_mode & 0o001]
    if not closed:
        return []
    inside = [path for path in needed if path.is_relative_to(closed[0])]
    ways = dict.fromkeys(f for path in inside for f in reversed(path.parents) if closed[0] in f.parents)
    shown = [part for way in ways for part in ("--perms", "0755", "--dir", way)]
    shown += [part for path in inside for part in ("--ro-bind", path, path)]
    may = [part for capability in capabilities for part in ("--cap-add", capability)]
    return list(map(str, ["bwrap", "--dev-bind", "/", "/", "--tmpfs", closed[0], *shown, *may, "--"]))


def accounts_can_be_made() -> bool:
    return os.getuid() == 0 and bool(shutil.which("useradd") and shutil.which("userdel"))


@contextlib.contextmanager
def accounts(*roles: str) -> Iterator[list[Person]]:
    """People who are new on this machine, and gone afterwards. Skips the test where that is not possible."""
    if not accounts_can_be_made():
        pytest.skip("only root can make accounts, with useradd")
    names = [f"{role}{secrets.token_hex(3)}" for role in roles]
    made: list[str] = []
    try:
        for name in names:
            subprocess.run(["useradd", "--create-home", "--user-group", name], check=True, capture_output=True)
            made.append(name)
        people = [Person(name, Path(pwd.getpwnam(name).pw_dir)) for name in names]
        try:
            people[0].run("autograder", "--help", folder=ROOT)
        except (AssertionError, OSError) as error:
            pytest.skip(f"another account cannot run the course from this checkout: {error}")
        yield people
    finally:
        for name in made:
            end_processes(pwd.getpwnam(name).pw_uid)
            subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


def end_processes(user: int) -> None:
    """End what an account still runs: a test that failed may have left something, and then the account would stay."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.uids().real == user:
                process.kill()
                process.wait()


@contextlib.contextmanager
def open_folder(name: str) -> Iterator[Path]:
    """A folder that everybody may write to. Not in pytest's own, which is closed to other accounts."""
    folder = Path("/tmp") / f"{name}-{secrets.token_hex(4)}"
    folder.mkdir()
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
