"""The project's own files agree with each other, and the package holds what it should."""

import re
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from conftest import build_wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

pytestmark = pytest.mark.xdist_group("packaging")  # one process builds the wheel

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def requirements(*groups: str) -> list[Requirement]:
    """The direct dependencies of the course, with those of the named extras."""
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][group] for group in groups)]
    return [Requirement(text) for texts in lists for text in texts]


def pins(lines: list[str]) -> dict[str, str]:
    """Name and version of every ``name==version`` among the lines."""
    pairs = [line.strip().split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


CONSTRAINTS = pins((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())
CONDA = [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)]
CONDA_PIP = next(entry["pip"] for entry in ENVIRONMENT["dependencies"] if isinstance(entry, dict))


@pytest.mark.parametrize("requirement", requirements("lab", "grader", "test"), ids=str)
def test_every_direct_dependency_is_pinned_within_its_range(requirement: Requirement) -> None:
    version = CONSTRAINTS[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(Version(version))


def test_constraints_are_plain_versions() -> None:
    """A local version (such as ``+cpu``) or an address would work on one machine only."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    odd = [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)]
    assert odd == []


def test_environment_yml_has_the_same_pins_and_python() -> None:
    direct = [canonicalize_name(requirement.name) for requirement in requirements("lab", "grader")]
    assert pins(CONDA_PIP) == {name: CONSTRAINTS[name] for name in direct}
    assert f"python{PROJECT['requires-python']}" in CONDA
    assert "--constraint constraints.txt" in CONDA_PIP
    assert "-e .[lab,grader]" in CONDA_PIP


def test_makefile_takes_the_pythons_that_the_project_takes() -> None:
    """The Makefile cannot read pyproject.toml before it has a Python, so the range stands in it once more."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    bounds = re.findall(r"not \(3, (\d+)\) <= sys\.version_info < \(3, (\d+)\)", makefile)
    assert [f">=3.{low},<3.{high}" for low, high in bounds] == [PROJECT["requires-python"]]


def test_licence_is_the_one_declared() -> None:
    assert PROJECT["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("BSD 3-Clause License")


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """The paths inside the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_every_file_of_both_packages(source_copy: Path, wheel_names: set[str]) -> None:
    files = [path for name in ("course_lib", "autograder") for path in (source_copy / name).rglob("*")]
    expected = {path.relative_to(source_copy).as_posix() for path in files if path.is_file()}
    assert "course_lib/__init__.py" in expected
    assert expected <= wheel_names


def test_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"course_lib", "autograder"}


def test_wheel_holds_no_students_work(source_copy: Path, tmp_path: Path) -> None:
    """A course that is being graded keeps its submissions inside autograder/."""
    checkout = tmp_path / "checkout"
    shutil.copytree(source_copy, checkout, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info"))
    for name in ("submitted/ada/masks/timestamp.txt", "feedback/ada/masks/masks.html", "gradebook.db"):
        path = checkout / "autograder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("private")
    with zipfile.ZipFile(build_wheel(checkout, tmp_path)) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    assert b"private" not in contents
