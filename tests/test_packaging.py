"""The project's own files agree with each other, and the package holds what it should."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from conftest import build_wheel, index_is_reachable, skipped_for_want_of
from grading import STEM, hand_in, solved
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from autograder.classroom.course import Course
from autograder.judging.verdict import read_verdict

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


@pytest.mark.parametrize("requirement", requirements("lab", "grader", "book", "test"), ids=str)
def test_every_direct_dependency_is_pinned_within_its_range(requirement: Requirement) -> None:
    version = CONSTRAINTS[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(Version(version))


def test_constraints_are_plain_versions() -> None:
    """A local version (such as ``+cpu``) or an address would work on one machine only."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    odd = [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)]
    assert odd == []


# --- every promised Python can install every pin -----------------------------------------------------------------

LOCK = runpy.run_path(str(ROOT / ".ci" / "lock.py"))
PYTHONS = LOCK["promised_pythons"](PROJECT["requires-python"])


def installed_as_pinned() -> list[metadata.Distribution]:
    """What is installed here at exactly the version in constraints.txt (a local build counts as its version)."""
    found = [each for each in metadata.distributions() if each.metadata["Name"]]
    return [each for each in found if each.version.split("+")[0] == CONSTRAINTS.get(canonicalize_name(each.name))]


def is_pure(distribution: metadata.Distribution) -> bool:
    return "Tag: py3-none-any" in (distribution.read_text("WHEEL") or "")


def test_the_promised_pythons_are_those_of_the_classifiers() -> None:
    assert [f"Programming Language :: Python :: {python}" for python in PYTHONS] == [
        text for text in PROJECT["classifiers"] if text.startswith("Programming Language :: Python :: 3.")
    ]


def test_every_pin_admits_every_promised_python() -> None:
    """The first patch release of each as well: Debian 12 has 3.11.2, which cannot install a pin that wants 3.11.5."""
    wanted = {each.name: each.metadata.get("Requires-Python") or "" for each in installed_as_pinned()}
    assert "jupyterlab" in wanted
    patches = [f"{python}.{patch}" for python in PYTHONS for patch in (0, 99)]
    assert {name: text for name, text in wanted.items() if not all(p in SpecifierSet(text) for p in patches)} == {}


def brought_by(requirement: Requirement, found: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """(name, extras) of the requirement and of all that it requires, as far as they are installed here."""
    key = (canonicalize_name(requirement.name), *sorted(requirement.extras))
    if key in found:
        return found
    try:
        distribution = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:  # for another platform
        return found
    found.add(key)
    for each in map(Requirement, distribution.requires or []):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            brought_by(each, found)
    return found


def test_every_package_that_the_course_brings_is_pinned() -> None:
    """What is not pinned may be a different version next month."""
    found: set[tuple[str, ...]] = set()
    for requirement in requirements("lab", "grader", "book", "test"):
        brought_by(requirement, found)
    assert {name for name, *_ in found} - CONSTRAINTS.keys() == set()


def test_what_pytorch_brings_without_the_cpu_build_is_pinned() -> None:
    """On Linux its CUDA build is pip's default; the CPU build's metadata know nothing of these."""
    assert {"cuda-toolkit", "nvidia-cublas", "nvidia-cudnn-cu13", "triton"} <= CONSTRAINTS.keys()


RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"  # has shown by its own installation that it can


@pytest.mark.parametrize("python", sorted({PYTHONS[0], PYTHONS[-1]} - {RUNNING}))
def test_the_index_has_a_wheel_of_every_compiled_pin(python: str) -> None:
    """For the lowest and the highest Python; what is pure Python needs no more than the metadata above. PyTorch is left
    to `make lock`: not every index can give its metadata without half a gigabyte."""
    if not index_is_reachable():
        pytest.skip("pip reaches no package index, so nobody can say what another Python would install")
    compiled = [each.name for each in installed_as_pinned() if not is_pure(each) and each.name != "torch"]
    assert "numpy" in compiled
    LOCK["dry_run"](python, "--no-deps", *(f"{name}=={CONSTRAINTS[canonicalize_name(name)]}" for name in compiled))


def test_lock_writes_what_pip_reports_and_the_same_into_environment_yml() -> None:
    report = {"install": [{"metadata": {"name": n, "version": v}} for n, v in [("Zed", "2.1"), ("a_b", "1.0.post1")]]}
    pins = LOCK["constraints"](report)
    assert pins.splitlines()[1:] == ["a_b==1.0.post1", "Zed==2.1"]
    before = "  - python>=3.11\n  - pip:\n      - --constraint constraints.txt\n      - A-b==0.9\n      - -e .[lab]\n"
    assert LOCK["repinned"](before, pins) == before.replace("0.9", "1.0.post1")
    assert LOCK["repinned"]((ROOT / "environment.yml").read_text(), (ROOT / "constraints.txt").read_text()) == (
        ROOT / "environment.yml"
    ).read_text(encoding="utf-8")


def test_make_shows_why_pip_could_not_install(tmp_path: Path) -> None:
    """A conflict's reason is among the lines that pip's own -q leaves out."""
    for name in ("Makefile", "install.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "constraints.txt").write_text("pip==0.0.1\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PIP"))}
    environment["PIP_NO_INDEX"] = "1"
    command = ["make", "-C", tmp_path, "lab", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "pip==0.0.1" in done.stderr
    assert "run the same command again" in done.stderr
    assert not (tmp_path / ".venv" / "lab.ready").exists()


def test_environment_yml_has_the_same_pins_and_python() -> None:
    direct = [canonicalize_name(requirement.name) for requirement in requirements("lab", "grader")]
    assert pins(CONDA_PIP) == {name: CONSTRAINTS[name] for name in direct}
    assert f"python{PROJECT['requires-python']}" in CONDA
    assert "--constraint constraints.txt" in CONDA_PIP
    assert "-e .[lab,grader]" in CONDA_PIP


def test_conda_can_take_environment_yml_from_another_folder(source_copy: Path) -> None:
    """conda writes the lines for pip into a file beside environment.yml, and starts pip there."""
    requirements_file = source_copy / "condaenv.test.requirements.txt"
    requirements_file.write_text("\n".join(CONDA_PIP), encoding="utf-8")
    only_look = ["--dry-run", "--no-index", "--no-deps", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "install", "-U", *only_look, "-r", requirements_file]
    done = subprocess.run(command, cwd=source_copy, capture_output=True, text=True)
    requirements_file.unlink()
    assert done.returncode == 0, done.stderr
    assert "Would install transformer-course" in done.stdout


def test_makefile_takes_the_pythons_that_the_project_takes() -> None:
    """The Makefile cannot read pyproject.toml before it has a Python, so the range is repeated there."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    bounds = re.findall(r"not \(3, (\d+)\) <= sys\.version_info < \(3, (\d+)\)", makefile)
    assert [f">=3.{low},<3.{high}" for low, high in bounds] == [PROJECT["requires-python"]]


def test_skipped_tests_say_what_to_install() -> None:
    reasons = ["Skipped: there is no Chromium on this machine", "Skipped: no Chromium here", "Skipped: only on Fridays"]
    reasons.append("Skipped: this would do harm: bubblewrap is not installed: `apt-get install bubblewrap`")
    line = "Skipped for want of bubblewrap (1), chromium (2): on Debian, apt-get install bubblewrap chromium"
    assert skipped_for_want_of(reasons) == line
    assert skipped_for_want_of(["Skipped: only on Fridays"]) == ""


def test_licence_is_the_one_declared() -> None:
    assert PROJECT["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("BSD 3-Clause License")


def test_the_source_distribution_holds_every_file_of_the_project(source_copy: Path, tmp_path: Path) -> None:
    """So that its tests run where it is unpacked, and every command of the Makefile."""
    checkout = tmp_path / "checkout"
    shutil.copytree(source_copy, checkout, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info", "__pycache__"))
    files = files_of(checkout, "")
    command = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([sys.executable, "-c", command], cwd=checkout, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as unpacked:
        names = {name.partition("/")[2] for name in unpacked.getnames()}
    assert files - names == set()


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """The paths inside the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files_of(source: Path, package: str) -> set[str]:
    found = {path.relative_to(source).as_posix() for path in (source / package).rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name}  # the wheel is made by a module of the package


def test_what_students_install_is_course_lib_and_no_grader(source_copy: Path, wheel_names: set[str]) -> None:
    assert files_of(source_copy, "course_lib") <= wheel_names
    assert {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name} == {"course_lib"}


@pytest.fixture(scope="module")
def graders_wheel(source_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grader")
    command = [sys.executable, "-m", "autograder.authoring.wheel", folder]
    subprocess.run(command, cwd=source_copy, env={**os.environ, "PYTHONPATH": str(source_copy)}, check=True)
    (made,) = folder.glob("*.whl")
    assert made.name.startswith("transformer_course_grader-")
    return made


def test_the_instructors_wheel_is_the_grader_with_its_sources(source_copy: Path, graders_wheel: Path) -> None:
    with zipfile.ZipFile(graders_wheel) as archive:
        names = set(archive.namelist())
    assert files_of(source_copy, "autograder") <= names
    assert {f"autograder/sources/{name}" for name in files_of(source_copy, "solutions")} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"autograder"}


def test_a_class_is_graded_with_installed_wheels_alone(wheel: Path, graders_wheel: Path, tmp_path: Path) -> None:
    """From init to export, with nothing of this checkout in reach."""
    packages = tmp_path / "lib" / "site-packages"
    for each in (wheel, graders_wheel):
        with zipfile.ZipFile(each) as archive:
            archive.extractall(packages)
    forget_this_checkout = "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in f.__module__]"
    (tmp_path / "sitecustomize.py").write_text(f"import sys; {forget_this_checkout}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(packages)])}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "autograder", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("init")
    run("release", STEM)
    course = Course(tmp_path / "class")
    hand_in(course, "ada", solved())
    assert "1 graded" in run("grade", STEM)
    verdict = read_verdict(course.verdict(STEM, "ada"))
    assert verdict.points == verdict.max_points > 0
    run("export")
    where = "import autograder, course_lib; print(autograder.__file__, course_lib.__file__)"
    done = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.count(str(packages)) == 2, done.stdout


def test_wheels_hold_no_students_work(source_copy: Path, tmp_path: Path) -> None:
    """Wherever somebody keeps a class."""
    checkout = tmp_path / "checkout"
    shutil.copytree(source_copy, checkout, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info"))
    for name in ("submitted/ada/masks/timestamp.txt", "feedback/ada/masks/masks.html", "gradebook.db"):
        for folder in ("autograder", "class", "course_lib"):
            path = checkout / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("private")
    command = [sys.executable, "-m", "autograder.authoring.wheel", tmp_path]
    subprocess.run(command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True)
    build_wheel(checkout, tmp_path)
    wheels = list(tmp_path.glob("*.whl"))
    assert len(wheels) == 2
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            assert b"private" not in [archive.read(name) for name in archive.namelist()]


def test_an_editable_installation_has_both_packages() -> None:
    """The one that `make` has made, from anywhere."""
    command = "import autograder, course_lib, autograder.hidden; print(autograder.__file__)"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", command], cwd="/", env=alone, capture_output=True, text=True)
    assert Path(done.stdout.strip()).parents[1] == ROOT, done.stderr
