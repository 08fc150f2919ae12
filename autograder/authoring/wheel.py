"""Builds the instructors' wheel: `python -m autograder.authoring.wheel FOLDER` (or `make wheel`).

    transformer_course-…            course_lib: what students install, without a grader
    transformer_course_grader-…     autograder with its hidden cases, and the sources of the notebooks

The second one is built from a copy of this package with solutions/ and pyproject.toml in its folder `sources`: with it,
and with the first, everything that an instructor does works without the repository. Do not give it to students.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from autograder.project import PACKAGE, PROJECT


def settings() -> str:
    """The pyproject.toml of the second wheel, from that of the project."""
    whole = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    project = whole["project"]
    extras = project["optional-dependencies"]
    dependencies = [f"{project['name']}=={project['version']}", *extras["grader"]]
    return f"""\
[build-system]
requires = {json.dumps(whole["build-system"]["requires"])}
build-backend = "setuptools.build_meta"

[project]
name = "{project["name"]}-grader"
version = "{project["version"]}"
description = "Grades the notebooks of {project["name"]}. For instructors only: it holds the solutions."
requires-python = "{project["requires-python"]}"
license = "{project["license"]}"
dependencies = {json.dumps(dependencies)}

[project.optional-dependencies]
cluster = {json.dumps(extras["cluster"])}
postgres = {json.dumps(extras["postgres"])}

[tool.setuptools.package-data]
autograder = ["sources/**", "student_lab/**"]
"autograder.reporting" = ["templates/*/*"]
"*" = {json.dumps(whole["tool"]["setuptools"]["package-data"]["*"])}

[tool.setuptools.packages.find]
include = ["autograder*"]
exclude = ["autograder.sources*"]
namespaces = false
"""


def prepare(folder: Path) -> None:
    """Put into a folder what the second wheel is built from."""
    package = folder / "autograder"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        PROJECT / "solutions", package / "sources" / "solutions", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(PROJECT / "pyproject.toml", package / "sources")
    (folder / "pyproject.toml").write_text(settings(), encoding="utf-8")


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
        return subprocess.run([*command, "-w", sys.argv[1], scratch]).returncode


if __name__ == "__main__":
    sys.exit(main())
