"""The set-up cell at the top of every notebook, and the link that opens a notebook in Colab.

Both say where the course lives, and both take it from one place: ``[tool.course]`` in ``pyproject.toml``.
"""

import tomllib
from pathlib import Path

from autograder.project import PROJECT

PROJECT_FILE = PROJECT / "pyproject.toml"

# Students see this cell, so it stays short and plain. It must run on Colab's old IPython (7.34) and print
# nothing when all is well, since stderr output costs points. `_render_traceback_` is IPython's hook for an
# exception that shows itself: the cell fails, and so stops the notebook, with one sentence and no traceback.
BOOTSTRAP = """\
# @title Set-up: run this cell first. It does nothing where the course is installed.
import importlib.util

if importlib.util.find_spec("course_lib") is None:
    import os
    import subprocess
    import sys

    class SetUpNeeded(Exception):
        def _render_traceback_(self):
            return [str(self)]

    try:
        import google.colab
    except ImportError:
        raise SetUpNeeded(
            "The course is not installed here: get it from @REPOSITORY@, "
            "run `make lab` in its folder, and open this notebook there."
        ) from None

    # --no-deps: the course needs only what Colab has, and must not move any of it to another version.
    package = os.environ.get("COURSE_PACKAGE", "git+@REPOSITORY@@@BRANCH@")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries=0", "--timeout=10", package]
    nobody_to_ask = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}  # else git waits for a password
    said = "no answer within three minutes: timed out"
    try:
        done = subprocess.run(install, capture_output=True, text=True, timeout=180, env=nobody_to_ask)
        said = done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired:
        pass
    if said:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        reasons = [line for sign in ("fatal:", "error: path", "ERROR:", "×") for line in lines if line.startswith(sign)]
        reason = (reasons or lines)[0]
        no_network = any(sign in reason for sign in ("resolve host", "onnect", "timed out", "unreachable"))
        advice = "Check the network" if no_network else "Check that this address and branch exist and are public"
        raise SetUpNeeded(
            "The course could not be installed from " + package + " (" + reason + "). "
            + advice + ", then run this cell again."
        )
    importlib.invalidate_caches()
"""


def course_settings(project_file: Path = PROJECT_FILE) -> dict[str, str]:
    """Where the course lives: ``repository`` (its web address) and ``branch``."""
    course = tomllib.loads(project_file.read_text(encoding="utf-8"))["tool"]["course"]
    return {"repository": course["repository"], "branch": course["branch"]}


def bootstrap_source(repository: str, branch: str) -> str:
    """The text of the set-up cell.

    Where ``course_lib`` can be imported the cell does nothing. In Colab it installs the course, from the
    requirement in the environment variable ``COURSE_PACKAGE`` if that is set. Elsewhere, or if the
    installation fails, it stops the notebook with one sentence that says what to do.
    """
    return BOOTSTRAP.replace("@REPOSITORY@", repository).replace("@BRANCH@", branch).rstrip("\n")


def badge_markdown(repository: str, branch: str, notebook: str) -> str:
    """A link that opens ``notebook`` (such as ``"02_masks"``) in Colab.

    It is text and not the usual picture: with a remote picture, opening the notebook would need the network.
    """
    path = repository.removeprefix("https://github.com/").removesuffix("/")
    file = notebook.removesuffix(".ipynb") + ".ipynb"
    return f"[Open in Colab](https://colab.research.google.com/github/{path}/blob/{branch}/notebooks/{file})"
