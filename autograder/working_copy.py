"""The student's own copy of the notebooks: `python -m autograder.working_copy`; with `--open` it is `make lab`.

    notebooks/02_masks.ipynb                      the course's
    -> work/02_masks.ipynb                        the student's, to work in; ignored by git
    -> work/02_masks (new version).ipynb          beside a copy with work in it, when the course's notebook has changed
    -> work/02_masks (from notebooks).ipynb       the same, when somebody has worked in notebooks/

Nothing is ever deleted, and a notebook is replaced only if every cell is as `make build` made it. The cell itself
shows that: its id, or nbgrader's checksum in it, is a digest of its text. So it makes no difference whether
the course came by git or as a zip file, and whether JupyterLab has opened and saved the notebook since.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from autograder.files import content_of, write_whole

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
WORK = ROOT / "work"
FIRST = "00_start_here.ipynb"
STUDENT_LAB = Path(__file__).resolve().parent / "student_lab"  # settings of JupyterLab, and an extension
PROGRESS = ".course_progress.json"  # written by course_lib.checking.record, which would import torch
GIVEN = ".course_given.json"  # which versions of each notebook have been handed out here
NEW_VERSION, FROM_NOTEBOOKS = "new version", "from notebooks"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.working_copy", description=copy_notebooks.__doc__)
    parser.add_argument("--open", action="store_true", help="then open JupyterLab, and pass all other options on to it")
    options, others = parser.parse_known_args()
    done = copy_notebooks()
    return open_lab(others) if options.open and done == 0 else done


def open_lab(options: list[str]) -> int:
    """JupyterLab on the first notebook, without nbgrader's menu and tabs, which are for instructors."""
    opened = f"--LabApp.default_url=/lab/tree/{WORK.name}/{FIRST}"
    quiet = ["--ServerApp.log_level=ERROR", "--LabApp.log_level=ERROR", f"--ServerApp.root_dir={ROOT}"]
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    fitting = [*(["--allow-root"] if is_root else []), *([] if has_screen else ["--no-browser"])]
    own = own_folders(WORK / ".jupyter") if not os.access(Path.home(), os.W_OK) else {}
    settings = os.pathsep.join(filter(None, [str(STUDENT_LAB), os.environ.get("JUPYTER_CONFIG_PATH")]))
    print("Starting JupyterLab (Ctrl-C stops it)", flush=True)
    extension = f"--LabApp.extra_labextensions_path={STUDENT_LAB / 'labextensions'}"
    command = [sys.executable, "-m", "jupyter", "lab", "-y", *fitting, *quiet, opened, extension, *options]
    try:
        return subprocess.run(command, env={**os.environ, **own, "JUPYTER_CONFIG_PATH": settings}).returncode
    except KeyboardInterrupt:
        return 130


def own_folders(place: Path) -> dict[str, str]:
    """Where Jupyter, IPython and matplotlib keep their files if the home folder cannot be written to."""
    print(f"Your home folder cannot be written to: Jupyter keeps its settings in {shown(place)}.")
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    return {name: str(place / name.lower()) for name in names}


def copy_notebooks() -> int:
    """Bring your own copies of the notebooks, in work/, up to date. Nothing that you wrote is changed."""
    if not NOTEBOOKS.is_dir():
        print(
            f"There is no folder called notebooks in {ROOT}. Get the whole course, and run this there.", file=sys.stderr
        )
        return 1
    try:
        is_first_time = not WORK.exists()
        sentences = prepare(NOTEBOOKS, WORK)
    except OSError as error:
        print(f"Your notebooks could not be put into {WORK}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if is_first_time:
        print("Your own copies of the notebooks are in work/. No command changes what you write there.")
    for sentence in sentences:
        print(sentence)
    return 0


def prepare(notebooks: Path, work: Path) -> list[str]:
    """Bring the student's copies up to date. Returns sentences that tell the student what happened."""
    work.mkdir(parents=True, exist_ok=True)
    given = read_given(work)
    sentences: list[str] = []
    for original in files_in(notebooks):
        copy = work / original.relative_to(notebooks)
        if original.suffix == ".ipynb":
            sentences += hand_out(original, copy, given.setdefault(copy.relative_to(work).as_posix(), []))
        elif not os.path.lexists(copy):
            write_whole(copy, original.read_bytes())
    write_whole(work / GIVEN, json.dumps(given, indent=1).encode())
    return sentences


def files_in(folder: Path) -> Iterator[Path]:
    """Every file that somebody could have put there, and the record of progress. Other hidden files belong to tools."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith(".") or name == PROGRESS)


def hand_out(original: Path, copy: Path, given: list[str]) -> Iterator[str]:
    """Copy a notebook to the student, or beside the student's. `given` are the digests of the versions handed out."""
    content = original.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    theirs = content_of(copy)
    if theirs == content:
        pass
    elif not os.path.lexists(copy) or is_untouched(theirs):
        write_whole(copy, content)
        if not is_untouched(content):
            yield f"{shown(original)} has been worked on: it has been copied to {shown(copy)}. Continue there."
    elif digest not in given:
        place = copy_beside(copy, content)
        if is_untouched(content):
            yield f"The course has a newer {copy.name}. Yours stays as it is; the newer one is {shown(place)}"
        else:
            yield f"{shown(original)} has been worked on, and so has {shown(copy)}: the first is now {shown(place)}"
    if digest not in given:
        given.append(digest)


def copy_beside(copy: Path, content: bytes) -> Path:
    """Write a version of a notebook beside the student's copy, without replacing anything that has been worked on."""
    label = NEW_VERSION if is_untouched(content) else FROM_NOTEBOOKS
    place = next(place for place in places_beside(copy, label) if may_hold(place, content))
    if content_of(place) != content:
        write_whole(place, content)
    return place


def places_beside(copy: Path, label: str) -> Iterator[Path]:
    for number in count(1):
        mark = f"({label})" if number == 1 else f"({label} {number})"
        yield copy.with_name(f"{copy.stem} {mark}{copy.suffix}")


def may_hold(place: Path, content: bytes) -> bool:
    there = content_of(place)
    return not os.path.lexists(place) or there == content or is_untouched(there)


def keep_work(original: Path, work: Path) -> Path:
    """Make sure that the working copy also holds a notebook that somebody has worked in. Returns its place there."""
    content = original.read_bytes()
    copies = [path for path in (work / original.name, *sorted(work.glob("*.ipynb"))) if content_of(path) == content]
    return copies[0] if copies else copy_beside(work / original.name, content)


def shown(path: Path) -> str:
    """A path as the student knows it: from the folder of the course."""
    return f"{path.parent.name}/{path.name}"


def read_given(work: Path) -> dict[str, list[str]]:
    try:
        given = json.loads((work / GIVEN).read_text(encoding="utf-8"))
        return {str(name): [str(digest) for digest in digests] for name, digests in given.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # then a newer version is offered again


# --- has anybody worked in it? --------------------------------------------------------------------------


def is_untouched(content: bytes | None) -> bool:
    """Is this a notebook of the course in which nobody has written or run anything?"""
    try:
        cells = json.loads(content or b"")["cells"]
        return bool(cells) and all(map(is_as_built, cells))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def is_as_built(cell: dict[str, Any]) -> bool:
    if cell.get("outputs") or cell.get("attachments"):
        return False
    text = "".join(cell["source"])
    details = cell["metadata"].get("nbgrader")
    if details is not None:
        return bool(details["checksum"] == checksum(cell["cell_type"], text, details))
    return re.sub(r"-\d+$", "", cell["id"]) == cell_id(text)


def cell_id(text: str) -> str:
    """The id of a cell that nbgrader has no name for. `autograder.authoring.build` gives it."""
    return hashlib.sha1(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()[:12]


def checksum(cell_type: str, text: str, details: dict[str, Any]) -> str:
    """nbgrader's checksum of a cell with these details; computed here because importing nbgrader takes a second."""
    grade, solution = details.get("grade", False), details.get("solution", False)
    locked = not solution and (grade or details.get("locked", False))
    points = str(float(details["points"])) if grade else ""
    parts = (text, cell_type, str(grade), str(solution), str(locked), details["grade_id"], points)
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
