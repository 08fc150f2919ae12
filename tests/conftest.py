"""Settings and fixtures shared by the tests."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import autograder  # noqa: F401  before any nbformat, whose import is a second quicker then

if TYPE_CHECKING:
    from course import Course

# Before torch and matplotlib are imported anywhere: test processes share the cores, and no test has a screen.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# A script's `make test &` would ignore Ctrl-C, and so would every process that the tests start; some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
# What a reason for skipping says -> Debian's package.
WANTED = {"bubblewrap is not installed": "bubblewrap", "no Chromium": "chromium", "no PostgreSQL": "postgresql"}


MOST_WORKERS = 9  # each has PyTorch in memory, and now and then a kernel or a browser beside it


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`. One more than there are cores: a test often waits for a browser, a kernel or a limit of time."""
    return min((os.cpu_count() or 1) + 1, MOST_WORKERS)


@pytest.hookimpl(trylast=True)  # after pytest-xdist has written the groups into the ids
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of a group share what is expensive. Without the groups each would make it anew, and nobody would notice."""
    if getattr(config.option, "loadgroup", False):
        lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError(f"pytest-xdist has lost the group of {lost[0]}: pytest is newer than it can handle")


def skipped_for_want_of(reasons: list[str]) -> str:
    """One line about the tests that were skipped for a program that is not there; empty if there are none."""
    missing = Counter(package for reason in reasons for words, package in WANTED.items() if words in reason)
    counts = ", ".join(f"{package} ({count})" for package, count in sorted(missing.items()))
    return f"Skipped for want of {counts}: on Debian, apt-get install {' '.join(sorted(missing))}" if missing else ""


@pytest.hookimpl(wrapper=True, tryfirst=True)  # below pytest's own summary
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    reports = terminalreporter.stats.get("skipped", [])
    line = skipped_for_want_of([report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)])
    if line:
        terminalreporter.write_line(line, yellow=True)


@pytest.hookimpl(tryfirst=True)  # before any fixture draws
def pytest_runtest_setup() -> None:
    """Every test draws the same random numbers in every run, whichever tests its process had before.

    And nbgrader is asked once for the version of its gradebook: it starts a process of a second for each new one.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
    nbgrader = sys.modules.get("nbgrader.api")
    if nbgrader is not None and not hasattr(nbgrader.get_alembic_version, "cache_info"):
        vars(nbgrader)["get_alembic_version"] = functools.cache(nbgrader.get_alembic_version)


@pytest.fixture(autouse=True)
def no_word_of_earlier_tests() -> None:
    """At its end a command lists the files that it moved to kept/: only those of its own run, not of the test
    before."""
    files = sys.modules.get("autograder.files")
    if files is not None:
        files.told_of_kept_files()
    # nbgrader sets these while it runs in this process, and leaves them behind when what it runs raises.
    for name in ("NBGRADER_EXECUTION", "NBGRADER_VALIDATING"):
        os.environ.pop(name, None)


@pytest.fixture
def download(tmp_path: Path) -> Path:
    """An empty folder for what an LMS or a student sends."""
    folder = tmp_path / "download"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def source_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project as git would store it: building in place would leave files in the checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("only a git checkout knows which files belong to the project")
    copy = tmp_path_factory.mktemp("source")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():  # otherwise it was deleted since the last commit
            shutil.copy(ROOT / name, copy / name)
    return copy


@functools.cache
def index_is_reachable() -> bool:
    """Does the index that pip is set to answer? Folders of wheels and second indexes do not count."""
    probe = [sys.executable, "-m", "pip", "index", "versions", "numpy", "--retries=0", "--timeout=15"]
    alone = {**os.environ, "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    return subprocess.run(probe, env=alone, capture_output=True).returncode == 0


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the course's wheel into ``folder``."""
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run([*command, source], check=True)
    return next(folder.glob("transformer_course-*.whl"))


@pytest.fixture(scope="session")
def wheel(source_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course, built."""
    return build_wheel(source_copy, tmp_path_factory.mktemp("wheel"))


# --- what the tests of one process share: all tests of a notebook run in one, one after the other ---------------------


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """An instructor's folder. `solved` (tests/course.py) executes a notebook in it, once."""
    from course import Course

    return Course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def warm_process() -> Iterator[None]:
    """Submissions of a module are judged with one warm process, which ends with the module."""
    from autograder.judging import work

    yield
    work.forget_warm_process()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What JupyterLab shows."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def lab(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab."""
    from lab import jupyterlab

    with jupyterlab(folder, tmp_path_factory.mktemp("home")) as address:
        yield address
