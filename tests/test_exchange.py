"""nbgrader's exchange carries an assignment to a student and back, with our grading and feedback in the middle: from
one Unix account to another where the tests may make accounts, otherwise within one."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from classroom import solutions
from grading import STEM
from lab import kernel_environment

from autograder.classroom.course import Course
from autograder.judging.verdict import read_verdict

ROOT = Path(__file__).resolve().parents[1]
NOT_BY_MAIL = ["timestamp.txt", "submission_secret.txt"]
pytestmark = pytest.mark.xdist_group("exchange")


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
        """What is put before a command that this person gives. Python may lie in a folder that is closed to others, as
        root's home is: then they get a view of the machine in which only Python and the course are left in it."""
        if self.name == own_name():
            return []
        become = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--clear-groups", "--"]
        needed = [Path(sys.base_prefix).resolve(), ROOT]
        closed = [f for path in needed for f in reversed(path.parents) if not f.stat().st_mode & 0o001]
        if not closed:
            return become
        inside = [path for path in needed if path.is_relative_to(closed[0])]
        ways = dict.fromkeys(f for path in inside for f in reversed(path.parents) if closed[0] in f.parents)
        shown = [part for way in ways for part in ("--perms", "0755", "--dir", way)]
        shown += [part for path in inside for part in ("--ro-bind", path, path)]
        may = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return list(map(str, ["bwrap", "--dev-bind", "/", "/", "--tmpfs", closed[0], *shown, *may, "--", *become]))


def own_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture(scope="module")
def two_accounts() -> Iterator[tuple[Person, Person]]:
    """A teacher and a student, new on this machine and gone afterwards."""
    if os.getuid() != 0 or not shutil.which("useradd") or not shutil.which("userdel"):
        pytest.skip("only root can make accounts, with useradd")
    names = [f"{role}{secrets.token_hex(3)}" for role in ("teacher", "student")]
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
        yield people[0], people[1]
    finally:
        for name in made:
            subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


@pytest.fixture
def exchange() -> Iterator[Path]:
    """Open to everybody, as nbgrader wants it. Not in pytest's own folder, which is closed to other accounts."""
    folder = Path("/tmp") / f"exchange-{secrets.token_hex(4)}"
    folder.mkdir()
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def go_the_whole_way(teacher: Person, student: Person, exchange: Path) -> None:
    folder = teacher.home / "class"
    teacher.run("autograder", "init", str(folder), folder=ROOT)
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\n")
    teacher.run("autograder", "release", STEM, "--course", str(folder), folder=ROOT)
    teacher.run("nbgrader", "release_assignment", STEM, folder=folder)

    config = student.home / "nbgrader_config.py"  # all that a student needs
    config.write_text(
        f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.course_id = 'transformer'\n"
    )
    student.run("nbgrader", "fetch_assignment", STEM, folder=student.home)
    notebook = student.home / STEM / f"{STEM}.ipynb"
    write_answers(notebook)
    student.run("nbgrader", "submit", STEM, folder=student.home)

    said = teacher.run("nbgrader", "collect", STEM, folder=folder)
    assert "cheating attempt" not in said
    collected = Course(folder).submitted(STEM, student.name).parent
    mailed = Course(folder).submitted(STEM, "ada").parent  # another one came by mail, without the secret and the time
    copy = (
        f"from shutil import copytree; copytree({str(collected)!r}, {str(mailed)!r}, ignore=lambda *_: {NOT_BY_MAIL})"
    )
    teacher.run("timeit", "-n1", "-r1", copy, folder=ROOT)
    teacher.run("autograder", "grade", "--course", str(folder), folder=ROOT)
    verdict = read_verdict(Course(folder).verdict(STEM, student.name))
    assert verdict.status == "graded"
    assert verdict.points == verdict.max_points > 0
    teacher.run("autograder", "feedback", "--course", str(folder), folder=ROOT)
    teacher.run("nbgrader", "release_feedback", STEM, folder=folder)

    student.run("nbgrader", "fetch_feedback", STEM, folder=student.home)
    (page,) = (student.home / STEM / "feedback").rglob("*.html")
    assert page.read_bytes() == Course(folder).feedback(STEM, student.name).read_bytes()


def write_answers(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = solutions(STEM).get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    path.write_text(json.dumps(notebook), encoding="utf-8")


@pytest.mark.skipif(os.getuid() == 0, reason="as root the same is tried between two accounts")
def test_the_way_there_and_back_within_one_account(tmp_path: Path, exchange: Path) -> None:
    me = Person(own_name(), tmp_path)
    go_the_whole_way(me, me, exchange)


def test_the_way_there_and_back_between_two_accounts(two_accounts: tuple[Person, Person], exchange: Path) -> None:
    teacher, student = two_accounts
    go_the_whole_way(teacher, student, exchange)
    with pytest.raises(AssertionError, match="Permission denied"):  # the class is closed to students
        student.run("json.tool", str(teacher.home / "class" / "verdicts" / STEM / f"{student.name}.json"), folder=ROOT)
