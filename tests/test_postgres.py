"""The gradebook in PostgreSQL: the same scores as in SQLite, from a real server that the test starts."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from grading import STEM, Here, autograder, comments, grades, hand_in, solved
from lab import HANGS

from autograder.authoring.release import release
from autograder.classroom.course import Course
from autograder.classroom.grade import grade
from autograder.judging import work

pytestmark = [pytest.mark.xdist_group("grade"), pytest.mark.programs]


def server_binaries() -> Path | None:
    """The folder of the server's programs: POSTGRES_BIN, or where Debian keeps them, or one of the path."""
    usual = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), os.environ["PATH"]]
    initdb = shutil.which("initdb", path=os.environ.get("POSTGRES_BIN") or os.pathsep.join(usual))
    return Path(initdb).resolve().parent if initdb else None


def server_user() -> str:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    known = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@pytest.fixture(scope="module")
def address():
    """A server on a socket in a folder of its own; nothing is open to the network."""
    binaries = server_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has little room
    user = server_user()
    shutil.chown(folder, user)
    as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    as_user |= {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}}
    data = folder / "data"
    make = [binaries / "initdb", "-D", data, "-U", "teacher", "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(make, check=True, capture_output=True, **as_user)
    settings = [f"unix_socket_directories={folder}", "listen_addresses=", "fsync=off"]
    command = [binaries / "postgres", "-D", data, *(part for setting in settings for part in ("-c", setting))]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, **as_user)
    try:
        while subprocess.run([binaries / "pg_isready", "-h", folder], capture_output=True).returncode != 0:
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        yield f"postgresql+psycopg://teacher@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(HANGS)
        shutil.rmtree(folder)


def stopped_after(count):
    class Stopped(Here):
        def results(self, tasks):
            yield from super().results(tasks[:count])
            raise KeyboardInterrupt

    return Stopped()


def test_postgres_holds_the_same_scores_as_sqlite(address, tmp_path):
    lite = Course(tmp_path / "lite")
    release(lite, [STEM])
    hand_in(lite, "ada", solved(), "2026-09-01 10:00:00 UTC")
    hand_in(lite, "ben", solved(causal_mask="def causal_mask(n):\n    return torch.ones(n, n).tril(1)"))
    hand_in(lite, "cleo", "{ broken")
    hand_in(lite, "dan", lite.release(STEM).read_text(encoding="utf-8"))
    shutil.copytree(lite.root, tmp_path / "large", ignore=shutil.ignore_patterns("*.db"))
    large = Course(tmp_path / "large", address)
    release(large, [STEM])

    grade(lite, STEM, Here())
    summary = grade(large, STEM, stopped_after(2))
    assert ([v.student for v in summary.graded], summary.left) == (["ada", "ben"], ["cleo", "dan"])
    work.forget_warm_process()
    done = autograder(large, "grade", STEM, "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "02_masks: 1 graded, 1 zeroed, 2 unchanged" in done.stdout

    for student in ("ada", "ben", "cleo", "dan"):
        assert grades(large, student) == grades(lite, student)
        assert comments(large, student) == comments(lite, student)
    assert not (large.root / "gradebook.db").exists()

    for course in (lite, large):
        done = autograder(course, "feedback", STEM, "--students", "ben")
        assert done.returncode == 0, done.stderr
    page = large.feedback(STEM, "ben").read_text(encoding="utf-8")
    assert page == lite.feedback(STEM, "ben").read_text(encoding="utf-8")
