"""CONTRIBUTING's map of both packages is true to the imports: each goes down, and every module is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("hidden", "walls.inside", "exercises", "interactive")  # one place in the picture for all of their modules
# The index of mistakes is computed from the exercises, which are imported when it is built, not before.
UPWARD = {("checking.index", "exercises")}


def picture(package: str) -> dict[str, int]:
    """module -> its line in the picture."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- map of {package} -->\n```\n(.*?)```\n<!-- end -->", text, re.DOTALL)
    places: dict[str, int] = {}
    for number, line in enumerate(found.splitlines()):
        if package == "course_lib" and "└─►" in line:
            break  # the references
        named = re.sub(r"[┐│┘├└─►]", " ", line)
        head = re.split(r"\s{2,}(?=[a-z])", named.strip())[0] if named.strip() else ""
        for name in re.findall(r"[a-z_]+(?:\.[a-z_]+)?", head if "►" in line or head.startswith("checking.") else ""):
            places[name] = number
    return places


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / package).with_suffix("").parts).removesuffix(".__init__")
        if name not in ("__init__", "__main__") and not name.endswith(".__main__"):
            yield name, path


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module imports, wherever in it."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def place(name: str, places: dict[str, int]) -> str | None:
    """The entry of the picture that stands for a module, or for a name in one."""
    for entry in (".".join(name.split(".")[:length]) for length in (2, 1)):
        if entry in places:
            return entry
    return None


@pytest.mark.parametrize("package", ["autograder", "course_lib"])
def test_every_import_goes_down(package: str) -> None:
    places = picture(package)
    assert len(places) > 20
    upward = set()
    for name, path in modules(package):
        own = place(name, places)
        for target in imported(path):
            there = place(target.partition(".")[2], places) if target.startswith(f"{package}.") else None
            if own and there and places[there] < places[own]:
                upward.add((own, there))
    assert upward - UPWARD == set()


def test_every_module_of_the_grader_and_of_the_engine_is_in_the_picture() -> None:
    grader, engine = picture("autograder"), picture("course_lib")
    missing = [name for name, _ in modules("autograder") if "." in name and place(name, grader) is None]
    rooms = {name.split(".")[0] for name in grader if "." in name} | {"classroom", "judging", "walls"}
    assert [name for name in missing if name not in rooms] == []
    checking = [name for name, _ in modules("course_lib") if name.startswith("checking.")]
    assert [name for name in checking if name not in engine] == []
    there = {name for name, _ in [*modules("autograder"), *modules("course_lib")]} | set(ROOMS)
    assert set(grader) | set(engine) <= there | {"course_lib"}


def test_the_docstring_of_each_package_names_its_modules() -> None:
    packages = {path.parent for path in (ROOT / "autograder").rglob("__init__.py")} | {ROOT / "course_lib/checking"}
    missing = []
    for package in packages - {ROOT / "autograder/hidden"}:  # a module for each topic
        said = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
        own = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
        missing += [f"{package.name}: {name}" for name in sorted(own) if f"`{name}`" not in said]
    assert missing == []


def test_course_lib_never_imports_the_grader() -> None:
    found = [name for name, path in modules("course_lib") if any(t.startswith("autograder") for t in imported(path))]
    assert found == []
