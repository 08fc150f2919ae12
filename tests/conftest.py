"""Settings and fixtures shared by the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Before torch and matplotlib are imported anywhere: test processes share the cores, and no test has a screen.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def source_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is built from: building in place would leave files in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, copy)
    for package in ("course_lib", "autograder"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="session")
def wheel(source_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course, built."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run([*command, source_copy], check=True)
    return next(folder.glob("transformer_course-*.whl"))
