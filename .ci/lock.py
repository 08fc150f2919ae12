"""Resolves all versions anew into constraints.txt and environment.yml; run by `make lock`.

pip resolves as if it were the lowest Python that pyproject.toml admits, so a package whose newest version wants a later
one is held back. PyTorch is the build that PyPI has, so what its CUDA build brings on Linux is pinned as well. Nothing
is installed, and of wheels only the metadata are read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Every version the course is tested with. Written by `make lock`; used by pip's -c.\n"


def promised_pythons(requires_python: str) -> list[str]:
    """The minor versions of Python that a project admits, the lowest first: `>=3.11,<3.14` is 3.11, 3.12, 3.13."""
    admitted = SpecifierSet(requires_python)
    return [f"3.{minor}" for minor in range(100) if f"3.{minor}.0" in admitted]


def direct_requirements(project: dict[str, Any], torch: str) -> list[str]:
    """What the course asks for by name, for all its purposes. `===` passes over local builds (+cpu)."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["lab"], *extras["grader"], *extras["book"], *extras["test"]]
    return [*wanted, "pip", f"torch==={torch}"]


def dry_run(python: str, *arguments: str) -> dict[str, Any]:
    """What pip would install for this Python, as pip's report says it."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--use-feature=fast-deps"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command += ["--python-version", python, "--only-binary=:all:", "--target", folder, "--report", str(report)]
        done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nNothing was changed: Python {python} cannot install this (pip's words above).")
        return dict(json.loads(report.read_text(encoding="utf-8")))


def constraints(report: dict[str, Any]) -> str:
    """The text of constraints.txt for what a report would install."""
    found = {entry["metadata"]["name"]: entry["metadata"]["version"] for entry in report["install"]}
    return HEADER + "".join(f"{name}=={found[name]}\n" for name in sorted(found, key=str.lower))


def repinned(environment: str, pins: str) -> str:
    """The text of environment.yml with the versions of constraints.txt."""
    versions = {canonicalize_name(name): version for name, version in re.findall(r"^(\S+)==(\S+)$", pins, re.M)}

    def with_new_version(line: re.Match[str]) -> str:
        return f"{line[1]}{line[2]}=={versions[canonicalize_name(line[2])]}"

    return re.sub(r"^( *- )([\w.-]+)==\S+$", with_new_version, environment, flags=re.M)


def main(torch: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, *others = promised_pythons(project["requires-python"])
    if sys.platform != "linux" or "{}.{}".format(*sys.version_info) != lowest:
        sys.exit(
            f"`make lock` needs Linux and Python {lowest}, the lowest that the course admits (PYTHON=/path/to/python): "
            "what a package requires may depend on both, and they require the most."
        )
    print(f"Resolving for Python {lowest} with torch=={torch}", flush=True)
    pins = constraints(dry_run(lowest, *direct_requirements(project, torch)))
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder) / "constraints.txt"
        new.write_text(re.sub(r"^torch==", "torch===", pins, flags=re.M), encoding="utf-8")
        for python in others:
            print(f"Looking whether Python {python} can install the same", flush=True)
            dry_run(python, "--no-deps", "-r", str(new))
    environment = ROOT / "environment.yml"
    environment.write_text(repinned(environment.read_text(encoding="utf-8"), pins), encoding="utf-8")
    (ROOT / "constraints.txt").write_text(pins, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
