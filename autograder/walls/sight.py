"""What student code must not see, wherever it lies, and the proof that it does not.

Some of what Python needs may contain the course: /usr/src/app lies in /usr, an installed course lies among the
packages, a virtual environment may be made in the project's own folder. The walls close `secret_places`, and before
anything is graded a runner tries to read `witnesses` of them. If it can read one, nothing is graded.

Nothing here imports torch: it is needed before warm processes are started.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import site
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.classroom.class_folder import gradebook_address
from autograder.errors import CourseError
from autograder.walls.inside import walls

if TYPE_CHECKING:
    from autograder.walls.warm import Warm

ROOT = Path(__file__).resolve().parents[2]  # the project, or the folder that the course is installed in
PACKAGES = ("autograder", "course_lib")
DISTRIBUTION = "transformer-course"
AMONG_PACKAGES = ("site-packages", "dist-packages")
# What would be worth reading in a project, an installed course and a class. One file is tried for each pattern.
OF_A_PROJECT = (
    *("course_lib/masks.py", "course_lib/exercises/masks/*.py", "autograder/hidden/masks.py"),
    *("autograder/classroom/sample.py", "solutions/*.py", "tests/*.py", ".git/HEAD", ".git/config"),
    "autograder/sources/solutions/*.py",
)
OF_A_CLASS = (
    *("*.db", "submitted", "submitted/*/*/*.ipynb", "autograded/*/*/*.ipynb", "source/*/*.ipynb", "verdicts/*/*.json"),
    *(".git/HEAD", "nbgrader_config.py", "class.toml", "*.csv", "hidden_seed"),
)


def class_folders(course: Path, db: str = "") -> tuple[Path, ...]:
    """The folders of a class: its own, and that of its gradebook if it is a file elsewhere."""
    root = course.resolve()
    address = gradebook_address(root, db)
    path = urllib.parse.urlsplit(address).path
    is_file = address.startswith("sqlite") and path.strip("/")
    return tuple(dict.fromkeys([root, *([Path(path[1:]).resolve().parent] if is_file else [])]))


def secret_places(folders: Sequence[Path] = ()) -> list[Path]:
    """The project, the course wherever it is installed, and the folders of a class, each with its git repository."""
    own = [place for project in projects() for place in (project, *repository(project))]
    of_class = [place for folder in folders for place in (folder, *repository(folder))]
    found = dict.fromkeys([*own, *installed(), *of_class, *([Path(sys.pycache_prefix)] if sys.pycache_prefix else [])])
    return [place for place in found if place.exists() and place not in walls.needed_paths()]


def projects() -> list[Path]:
    """The folders that this package may have been run or installed from."""
    run_from = [] if ROOT.name in AMONG_PACKAGES else [ROOT]
    try:
        origin = importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        origin = None
    url = urllib.parse.urlsplit(json.loads(origin)["url"]) if origin else None
    if url is None or url.scheme != "file":
        return run_from
    return [*run_from, Path(urllib.request.url2pathname(url.path)).resolve()]


def installed() -> list[Path]:
    """The course among the packages of any Python whose packages are shown, not only where this one finds it first."""
    prefixes = {Path(path).resolve() for path in ("/usr", "/usr/local", sys.prefix, sys.base_prefix)}
    folders = [folder for prefix in prefixes for folder in prefix.glob("lib*/python3*/*-packages")]
    folders += [Path(site.getusersitepackages()), ROOT]
    return [(folder / package).resolve() for folder in folders for package in PACKAGES if (folder / package).is_dir()]


def repository(folder: Path) -> list[Path]:
    """The root of the git repository that a folder lies in, and where its history is."""
    for root in (folder, *folder.parents):
        git = root / ".git"
        if git.is_dir():
            return [root, git.resolve()]
        if git.is_file():
            return [root, git, *linked_history(git)]
    return []


def linked_history(git: Path) -> list[Path]:
    """The history of a worktree or a submodule lies elsewhere: its own part, and the part that it shares."""
    own = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
    shared = own / "commondir"
    return [own, (own / shared.read_text().strip()).resolve()] if shared.is_file() else [own]


def witnesses(folders: Sequence[Path] = ()) -> list[Path]:
    """Files and folders that exist, that are worth reading, and that student code must not be able to read."""
    roots = [*projects(), *dict.fromkeys(package.parent for package in installed())]
    histories = [place for folder in (*projects(), *folders) for place in repository(folder)]
    found = [*matching(roots, OF_A_PROJECT), *matching(folders, OF_A_CLASS), *matching(histories, ("HEAD",))]
    return list(dict.fromkeys(found))


def matching(folders: Sequence[Path], patterns: Sequence[str]) -> Iterator[Path]:
    """The first match of each pattern in each folder."""
    for folder, pattern in itertools.product(folders, patterns):
        yield from itertools.islice(folder.glob(pattern), 1)


def readable_inside(warm: Warm) -> list[str]:
    """The witnesses that a runner can read."""
    from autograder.walls.runners import HANGS_SECONDS, Runner
    from autograder.walls.warm import WarmError

    try:
        runner = Runner(warm, walls.Limits())
    except WarmError as error:
        last_words = str(error).strip().splitlines()[-1]
        raise CourseError(
            f"The process in which student code would run does not start ({last_words}). Behind the walls it sees "
            f"Python's own folders and those of its environment, {sys.prefix}, and needs torch, IPython and matplotlib "
            "in them."
        ) from None
    try:
        reply = runner.request(HANGS_SECONDS, "try_to_read", paths=[str(path) for path in witnesses(warm.folders)])
        return list(reply["readable"])
    finally:
        runner.bury()


def complaint(warm: Warm) -> str:
    """Why student code must not be run with this warm process, and what to do; empty if nothing can be read."""
    readable = readable_inside(warm)
    if not readable:
        return ""
    others = f" (and {len(readable) - 1} more)" if len(readable) > 1 else ""
    return (
        f"Student code could read {readable[0]}{others}, although these walls stand: {', '.join(warm.walls)}. "
        f"It lies in a folder that Python itself needs. Move the project and the class to folders of their own, for "
        f"example in your home, then try again"
    )


def require_blindness(warm: Warm) -> None:
    """Refuse to grade if a runner can read what it must not."""
    found = complaint(warm)
    if found:
        raise CourseError(f"{found}. Nothing was graded.")
