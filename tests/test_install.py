"""install.py: what a person is told while it works, and when it cannot."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import install  # noqa: E402

# What students run, also on Windows.
FOR_EVERY_SYSTEM = [
    ROOT / "install.py",
    *(ROOT / "autograder" / name for name in ("__init__.py", "files.py", "working_copy.py")),
    *sorted((ROOT / "course_lib").rglob("*.py")),
]
POSIX_ONLY = {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


@pytest.mark.parametrize(
    "line, news",
    [
        (
            "  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (181.4 MB)\n",
            "downloading torch, 181.4 MB",
        ),
        (
            "Downloading https://example.org/x/jupyterlab-4.6.6-py3-none-any.whl (17.3 MB)",
            "downloading jupyterlab, 17.3 MB",
        ),
        ("  Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)", ""),
        (
            "Installing collected packages: a, b, c, d, e, f, g, h, i, j",
            "unpacking 10 packages: the last part of this step, a minute or more",
        ),
        ("Installing collected packages: pip, setuptools", ""),
        ("Collecting torch", ""),
    ],
)
def test_large_downloads_are_told(line, news):
    assert install.told(line) == news


@pytest.mark.parametrize(
    "said, advice",
    [
        ("WARNING: Retrying … NewConnectionError(…)\nERROR: Cannot install a because of conflicts", "needs a network"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"),
        ("ERROR: Could not install packages: [Errno 30] Read-only file system: '/x'", "cannot be written to"),
    ],
)
def test_a_failure_with_a_known_cause_says_what_to_do_and_no_more(said, advice):
    told = install.reason(f"Collecting x\n{said}\n")
    assert advice in told and "ERROR" not in told and "Collecting" not in told
    assert "run the same command again" in told


def test_a_failure_with_an_unknown_cause_shows_what_pip_says():
    told = install.reason("Collecting x\nERROR: Cannot install a==1 and b==2\nwhy\n")
    assert (
        "If pip uses a mirror, does it have every package? pip says:\n\nERROR: Cannot install a==1 and b==2\nwhy"
        in told
    )
    assert "Collecting" not in told


def test_an_environment_of_somebody_else_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "VENV", tmp_path / ".venv")
    (tmp_path / ".venv").mkdir()
    assert "that the course did not make" in install.make_environment()
    assert list((tmp_path / ".venv").iterdir()) == []


def test_only_pytorch_comes_from_pytorchs_own_index(tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(install, "make_environment", lambda: "")
    monkeypatch.setattr(install, "VENV", tmp_path)
    monkeypatch.setattr(install, "pip", lambda *arguments: calls.append(arguments) or len(calls) < 3)
    assert install.install("lab", cpu=True) == 1  # the third call fails
    first, torch, rest = calls
    assert torch == ("--index-url", install.CPU_INDEX, "--no-deps", "torch")
    assert install.CPU_INDEX not in first + rest and ".[lab,grader]" in rest
    assert "Step 4 of 4" in capsys.readouterr().out


def test_make_does_not_install_again_what_was_installed_without_it(tmp_path, monkeypatch):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / ".venv" / "folder").touch()
    monkeypatch.setattr(install, "ROOT", tmp_path.resolve())
    monkeypatch.setattr(install, "VENV", tmp_path / ".venv")
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    run = subprocess.run

    def complete(purpose: str, pip_works: bool) -> list[str]:
        """What `make` takes for installed after install.py has run for a purpose."""
        with monkeypatch.context() as patch:
            patch.setattr(install, "pip", lambda *_: pip_works)
            patch.setattr(install.subprocess, "run", lambda *_, **__: None)
            assert install.install(purpose, cpu=False) == (0 if pip_works else 1)
        asked = {name: ["make", "-q", f".venv/{name}.ready"] for name in install.PURPOSES}
        return [name for name, ask in asked.items() if run(ask, cwd=tmp_path, env=environment).returncode == 0]

    assert complete("lab", pip_works=True) == ["lab"]
    assert complete("test", pip_works=True) == ["lab", "book", "test"]
    assert complete("book", pip_works=True) == ["lab", "book"]
    assert complete("book", pip_works=False) == []


def test_without_a_network_it_ends_with_a_sentence(tmp_path):
    for name in ("install.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    nowhere = {"PIP_INDEX_URL": "https://127.0.0.1:9/simple", "PIP_RETRIES": "1", "PIP_EXTRA_INDEX_URL": ""}
    environment = {
        **os.environ,
        **nowhere,
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
    }
    command = [sys.executable, "install.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "Step 2 of 3" in done.stdout
    assert "the first installation needs a network" in done.stderr
    assert "Traceback" not in done.stderr and "conflict" not in done.stderr


def imported_by(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


def test_what_students_run_starts_without_the_modules_that_only_posix_has():
    """As on Windows: also nothing that the course imports may need them at once."""
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
sys.modules |= dict.fromkeys({sorted(POSIX_ONLY - {"posix"})!r})
import install, autograder.working_copy, course_lib.student, course_lib.interactive
from course_lib.exercises import all_exercises
print(len(all_exercises()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 100, done.stderr


def test_what_students_run_imports_nothing_that_only_posix_has():
    assert len(FOR_EVERY_SYSTEM) > 100
    assert {
        path.name: imported_by(path) & POSIX_ONLY for path in FOR_EVERY_SYSTEM if imported_by(path) & POSIX_ONLY
    } == {}
