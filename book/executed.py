"""The outputs of the notebooks: executed once, and kept until the code that they depend on changes.

A notebook is executed with the solutions, by the tests or by `make book`. What it showed is kept in .book/, under a
digest of its code, of the modules and data that it uses, of what draws, and of torch's version. Text may change without
anything being executed again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from autograder.authoring.build import solution_notebook
from autograder.authoring.claims import (
    FAST,
    LIBRARY,
    SECONDS_FOR_A_CELL,
    data_used_by,
    modules_used_by,
    parts_used_by,
    without_words,
)
from autograder.files import write_whole
from autograder.working_copy import ROOT

CACHE = ROOT / ".book"
# Parts of course_lib that shape what is seen. The rest of what `autograder.authoring.claims` leaves out only checks.
DRAWS = (
    "alt_text.py", "checking/difference.py", "checking/overview.py", "checking/report.py", "colours.py", "interactive",
    "plotting.py", "progress_bar.py", "student.py", "transformer_map.py",
)  # fmt: skip

Outputs = Mapping[str, list[NotebookNode]]  # id of a cell -> what it showed


def digest_of(stem: str, is_whole: bool) -> str:
    """Changes with whatever the outputs of a notebook depend on."""
    code = "\n".join(cell.source for cell in solution_notebook(stem).cells if cell.cell_type == "code")
    modules = modules_used_by(code)
    texts = [without_words(text) for text in (code, *parts_used_by(code, modules))]
    digest = hashlib.sha256("\0".join([*texts, metadata.version("torch"), str(is_whole)]).encode())
    for path in (*data_used_by(modules), *drawing_files()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def drawing_files() -> Iterator[Path]:
    for name in DRAWS:
        path = LIBRARY / name
        yield from sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]


def kept_at(stem: str, is_whole: bool) -> Path:
    return CACHE / f"{stem}.{'whole' if is_whole else 'fast'}.{digest_of(stem, is_whole)}.ipynb"


def executed(stem: str, is_whole: bool) -> NotebookNode:
    """The solved notebook with its outputs, from the cache if it is there."""
    path = kept_at(stem, is_whole)
    if not path.exists():
        keep(execute(solution_notebook(stem), is_whole), path)
    return nbformat.read(path, as_version=4)


def keep(notebook: NotebookNode, path: Path) -> None:
    """Put an executed notebook into the cache, in the place of an older one. The tests do so too."""
    path.parent.mkdir(exist_ok=True)
    write_whole(path, nbformat.writes(notebook).encode())
    for older in CACHE.glob(path.name.replace(path.suffixes[-2], ".*")):
        if older != path:
            older.unlink()


def execute(notebook: NotebookNode, is_whole: bool) -> NotebookNode:
    """Raises `nbclient.exceptions.CellExecutionError`."""
    environment = {name: value for name, value in os.environ.items() if name not in (FAST, "MPLBACKEND")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    if not is_whole:
        environment[FAST] = "1"
    with tempfile.TemporaryDirectory() as folder:  # where the checks leave their record of progress
        client = NotebookClient(
            notebook,
            timeout=SECONDS_FOR_A_CELL,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment)
    return notebook


def outputs_of(notebook: NotebookNode) -> Outputs:
    """What each cell of an executed notebook showed."""
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
