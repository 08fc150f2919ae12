"""Student code sees nothing of the course and of the class, in whatever folders these, Python and its packages lie."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from autograder import cli
from autograder.errors import CourseError
from autograder.judging import work
from autograder.walls import sight
from autograder.walls.inside import walls
from autograder.walls.inside.walls import LANDLOCK, NAMESPACES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are walls on Linux alone")

ROOT = Path(__file__).resolve().parents[1]
SYSTEM_PYTHON = Path("/usr/bin/python3")

# In a staged layout: makes a warm process's command and runs something else by it, in namespaces and then without them.
# Everything that can be read comes back, and whether an honest import works. `shown` is what /usr is to a real
# installation: a folder that student code has to see.
STAGE = """
import json, os, subprocess, sys, tempfile
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])["path"]
from autograder.walls.inside import walls
from autograder.walls import warm

stage = json.loads(sys.argv[1])
standing = [wall.name for wall in walls.probe() if wall.works]
walls.SYSTEM_FOLDERS += tuple(stage["shown"])
started, Popen = [], subprocess.Popen

class Started:
    def __init__(self, command, **_):
        started.append(command)

def run(*use):
    subprocess.Popen = Started
    options = {"folders": [Path(folder) for folder in stage["folders"]]} if stage["folders"] else {}
    made = warm.Warm(use, **options)
    subprocess.Popen = Popen
    return made

TRY = '''
import json, os, sys
found = []
for path in json.loads(sys.argv[1]):
    try:
        if os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1):
            found.append(path)
    except OSError:
        pass
try:
    import honest
except ImportError:
    found.append("honest code is locked out")
print(json.dumps(found))
'''
words = [TRY, json.dumps(stage["tried"])]
found = {}
if walls.NAMESPACES in standing:
    run(walls.NAMESPACES)
    command = started[-1]
    command = [*command[: command.index("--") + 1], sys.executable, "-s", "-c", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    found[walls.NAMESPACES] = json.loads(done.stdout) if done.returncode == 0 else done.stderr
if walls.LANDLOCK in standing:
    hidden = [Path(path) for path in run(walls.LANDLOCK).hidden]
    reader, writer = os.pipe()
    if os.fork() == 0:
        with tempfile.TemporaryDirectory() as scratch:
            walls.confine(walls.Limits(), scratch=Path(scratch), hidden=hidden, keep=[1, 2, writer],
                          walls=[walls.LANDLOCK])
            os.dup2(writer, 1)
            sys.argv = ["try", words[1]]
            sys.path[:] = [path for path in sys.path if path not in stage["path"]]
            exec(TRY)
            sys.stdout.flush()
            os._exit(0)
    os.close(writer)
    os.wait()
    found[walls.LANDLOCK] = json.loads(open(reader).read() or '"died"')
print(json.dumps(found))
"""


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def course_in(folder: Path) -> list[Path]:
    """The packages, as far as walls need them, with a reference and hidden cases: as a project or among others."""
    for name in ("__init__.py", "errors.py", "suggest.py", "classroom", "walls"):
        source = ROOT / "autograder" / name
        if source.is_dir():
            shutil.copytree(source, folder / "autograder" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            write(folder / "autograder" / name, source.read_text())
    names = ("course_lib/masks.py", "course_lib/exercises/masks/causal_mask.py", "autograder/hidden/masks.py")
    return [write(folder / name) for name in names]


def project_in(folder: Path) -> list[Path]:
    """A clone of the project: what must not be read in it."""
    return [*course_in(folder), *(write(folder / name) for name in ("solutions/02_masks.py", ".git/HEAD", "notes.txt"))]


def class_in(folder: Path) -> list[Path]:
    names = ("gradebook.db", "submitted/ada/02_masks/02_masks.ipynb", "verdicts/02_masks/ada.json")
    return [*(write(folder / name) for name in names), folder / "submitted"]


def environment_in(folder: Path, python: Path = Path(sys.executable)) -> Path:
    """A virtual environment's Python. A package in it is all that honest code needs."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    write(packages_of(folder) / "honest.py", "")
    return folder / "bin" / "python"


def packages_of(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def base_python() -> Path:
    """The Python that this one's virtual environment is made of."""
    return Path(sys.executable).resolve()


def seen(
    python: Path,
    tried: Sequence[Path],
    *,
    path: Sequence[Path] = (),
    shown: Sequence[Path] = (),
    folders: Sequence[Path] = (),
) -> dict[str, list[str]]:
    """What can be read although it must not, behind namespaces and behind Landlock alone."""
    assert all(place.exists() for place in tried)
    if not any(wall.works for wall in walls.probe() if wall.name in (NAMESPACES, LANDLOCK)):
        pytest.skip("this machine has no wall that closes files")
    lists = {"tried": tried, "path": path, "shown": shown, "folders": folders}
    stage = json.dumps({name: [str(place) for place in places] for name, places in lists.items()})
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, "-s", "-c", STAGE, stage], env=kept, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found
    return {wall: readable for wall, readable in found.items() if readable}


@pytest.fixture
def usr(tmp_path: Path) -> Path:
    """A folder that student code has to see, as it has to see /usr. Others may pass."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (tmp_path / "usr").mkdir()
    return tmp_path / "usr"


@pytest.mark.parametrize("name", ["src/app", "src/my course/Übung"])
def test_a_project_in_a_folder_that_is_shown(usr: Path, name: str) -> None:
    app = usr / name
    python = environment_in(app / ".venv")
    assert seen(python, [*project_in(app), *class_in(app / "autograder")], path=[app], shown=[usr]) == {}


def test_an_environment_elsewhere(usr: Path) -> None:
    python = environment_in(usr.parent / "environments" / "course")
    assert seen(python, project_in(usr / "src/app"), path=[usr / "src/app"], shown=[usr]) == {}


def test_python_by_a_link_in_a_home(usr: Path) -> None:
    """Of the link, only the link is shown: not the folder it lies in, and not the one above."""
    home = usr.parent / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3").symlink_to(base_python())
    python = environment_in(home / "course" / ".venv", home / "bin" / "python3")
    others = [write(home / name) for name in (".ssh/id_rsa", "bin/secret", "lib/secret")]
    tried = [*others, *project_in(home / "course"), *class_in(home / "class")]
    assert seen(python, tried, path=[home / "course"]) == {}


def test_an_environment_made_in_the_project_or_in_a_home(usr: Path) -> None:
    app = usr.parent / "app"
    assert seen(environment_in(app), project_in(app), path=[app]) == {}
    home = usr.parent / "home"
    tried = [*project_in(home / "course"), write(home / ".ssh/id_rsa"), *class_in(home / "class")]
    assert seen(environment_in(home), tried, path=[home / "course"]) == {}


def test_a_course_installed_among_the_packages(usr: Path) -> None:
    python = environment_in(usr / "venv")
    tried = course_in(packages_of(usr / "venv"))
    assert seen(python, tried, shown=[usr]) == {}


def test_the_project_that_an_installed_course_was_made_of(usr: Path) -> None:
    """`pip install .` in /usr/src/app, then run from anywhere: pip has noted where the course came from."""
    python = environment_in(usr / "venv")
    packages, app = packages_of(usr / "venv"), usr / "src" / "my app"
    write(packages / "transformer_course-1.0.0.dist-info/METADATA", "Name: transformer-course\nVersion: 1.0.0\n")
    write(packages / "transformer_course-1.0.0.dist-info/direct_url.json", json.dumps({"url": app.as_uri()}))
    assert seen(python, [*course_in(packages), *project_in(app)], shown=[usr]) == {}


def test_an_installed_copy_beside_the_project_that_is_run(usr: Path) -> None:
    python = environment_in(usr / "venv")
    app = usr.parent / "app"
    tried = [*course_in(packages_of(usr / "venv")), *project_in(app)]
    assert seen(python, tried, path=[app], shown=[usr]) == {}


def test_a_project_reached_by_a_link(usr: Path) -> None:
    app = usr / "src" / "app"
    environment_in(app / ".venv")
    tried = project_in(app)
    link = usr.parent / "link"
    link.symlink_to(app)
    tried += [link / path.relative_to(app) for path in tried]
    assert seen(link / ".venv/bin/python", tried, path=[link], shown=[usr]) == {}


def test_an_environment_that_is_a_link_in_the_project(usr: Path) -> None:
    app = usr / "src" / "app"
    environment_in(usr.parent / "environments" / "course")
    tried = project_in(app)
    (app / ".venv").symlink_to("../../../environments/course")
    assert seen(app / ".venv/bin/python", tried, path=[app], shown=[usr]) == {}


def test_a_class_outside_the_project_with_its_history(usr: Path) -> None:
    app, teaching = usr.parent / "app", usr / "share" / "teaching"
    project_in(app)
    tried = [*class_in(teaching / "2026"), write(teaching / ".git/HEAD"), write(teaching / "notes.txt")]
    python = environment_in(app / ".venv")
    assert seen(python, tried, path=[app], shown=[usr], folders=[teaching / "2026"]) == {}


def test_a_linked_worktree_has_its_history_elsewhere(usr: Path) -> None:
    app, main = usr.parent / "app", usr / "main"
    course_in(app)
    write(app / ".git", f"gitdir: {main}/.git/worktrees/app\n")
    tried = [write(main / ".git/HEAD"), write(main / ".git/worktrees/app/HEAD")]
    write(main / ".git/worktrees/app/commondir", "../..\n")
    assert seen(environment_in(app / ".venv"), tried, path=[app], shown=[usr]) == {}


@pytest.mark.skipif(not SYSTEM_PYTHON.exists(), reason="this system has no Python of its own")
def test_the_system_s_own_python(usr: Path) -> None:
    found = seen(SYSTEM_PYTHON, project_in(usr / "src/app"), path=[usr / "src/app"], shown=[usr])
    assert all(readable == ["honest code is locked out"] for readable in found.values())  # it has no such package


def test_the_innermost_decides() -> None:
    shown = [Path(path) for path in ("/usr", "/usr/src/app/.venv/lib", "/usr/lib")]
    hidden = [Path(path) for path in ("/", "/usr/src/app", "/usr/src/app/.venv/lib/course", "/home/me")]
    assert walls._layers(shown, hidden) == {
        Path("/usr"): True,
        Path("/usr/src/app"): False,
        Path("/usr/src/app/.venv/lib"): True,
        Path("/usr/src/app/.venv/lib/course"): False,
    }


def test_links_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "real" / "bin").mkdir(parents=True)
    write(tmp_path / "real/bin/python3.11")
    (tmp_path / "real/bin/python").symlink_to("python3.11")
    (tmp_path / "current").symlink_to("real")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("../current/bin/python")
    found = list(walls.links_on_the_way(tmp_path / "bin/python"))
    assert found == [tmp_path / "bin/python", tmp_path / "current", tmp_path / "real/bin/python"]


def test_the_folders_of_a_class(tmp_path: Path) -> None:
    assert sight.class_folders(tmp_path) == (tmp_path,)
    assert sight.class_folders(tmp_path, "postgresql+psycopg://me@host/grades") == (tmp_path,)
    assert sight.class_folders(tmp_path, "sqlite:////data/grades/x.db") == (tmp_path, Path("/data/grades"))
    assert sight.class_folders(tmp_path, "sqlite://") == (tmp_path,)


def test_witnesses_are_of_every_kind(tmp_path: Path) -> None:
    class_in(tmp_path)
    found = {str(path.relative_to(base)) for base in (ROOT, tmp_path) for path in sight.witnesses([tmp_path])
             if path.is_relative_to(base)}  # fmt: skip
    assert {"course_lib/masks.py", "autograder/hidden/masks.py", "gradebook.db", "submitted"} <= found
    assert "submitted/ada/02_masks/02_masks.ipynb" in found
    assert any(name.startswith("solutions/") for name in found)


# --- the proof, in a real runner -------------------------------------------------------------------------------------


@pytest.fixture
def a_readable_secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """As if the course lay where the walls do not close it: in the standard library."""
    if not any(wall.works for wall in walls.probe() if wall.name in (NAMESPACES, LANDLOCK)):
        pytest.skip("this machine has no wall that closes files")
    secret = Path(os.__file__).resolve()
    real = sight.witnesses
    monkeypatch.setattr(sight, "witnesses", lambda folders=(): [*real(folders), secret])
    return str(secret)


def run_command(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """A command whose sentences are not broken into lines."""
    for name in ("out", "err"):
        monkeypatch.setattr(getattr(cli, name), "print", functools.partial(getattr(cli, name).print, soft_wrap=True))
    return cli.main([str(word) for word in words])


def test_nothing_is_graded_if_a_runner_can_read_a_secret(
    a_readable_secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "--course", tmp_path, "grade", "--jobs", 1) == 1
    said = capsys.readouterr().err
    assert f"Student code could read {a_readable_secret}" in said
    assert "Nothing was graded." in said and "Move the project" in said


class Idle:
    """In place of a warm process: nothing is started."""

    closes_files = True
    walls = (NAMESPACES,)

    def __init__(self, use: object = None, folders: tuple[Path, ...] = ()) -> None:
        self.folders = folders

    def close(self) -> None:
        pass


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "OWN", [])
    monkeypatch.setattr(work, "Warm", Idle)
    monkeypatch.setattr("autograder.walls.warm.Warm", Idle)


def test_nor_by_a_worker_on_its_own(idle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "readable_inside", lambda warm: ["/usr/src/app/solutions/02_masks.py"])
    with pytest.raises(CourseError, match=r"Student code could read /usr/src/app/solutions/02_masks\.py"):
        work.warm_process()
    assert work.OWN == []


def test_doctor_says_what_can_be_read(
    idle: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autograder.walls.warm.walled_off", lambda: True)
    monkeypatch.setattr(sight, "readable_inside", lambda warm: ["/usr/src/app/.git/HEAD", "/usr/src/app/x"])
    assert run_command(monkeypatch, "doctor") == 1
    assert "✗ Student code could read /usr/src/app/.git/HEAD (and 1 more)" in capsys.readouterr().out


def test_doctor_says_that_nothing_can_be_read(
    idle: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autograder.walls.warm.walled_off", lambda: True)
    monkeypatch.setattr(sight, "readable_inside", lambda warm: [])
    assert run_command(monkeypatch, "doctor") == 0
    assert "✓ Student code tried to read" in capsys.readouterr().out


def test_the_folder_of_a_sample_class_must_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autograder.walls.warm.walled_off", lambda: True)
    file = write(tmp_path / "file")
    for course, sentence in ((file, "is a file"), (file / "below", "cannot be made")):
        assert run_command(monkeypatch, "--course", course, "sample") == 1
        assert sentence in capsys.readouterr().err


def test_a_worker_hides_the_class_of_each_task(idle: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "readable_inside", lambda warm: [])
    first = work.warm_process(folders=(tmp_path,))
    assert work.warm_process() is work.warm_process(folders=(tmp_path,)) is first
    second = work.warm_process(folders=(tmp_path / "other",))
    assert second is not first and second.folders == (tmp_path / "other",)
