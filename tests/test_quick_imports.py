"""nbgrader is imported without Jupyter's server, and can still load its extensions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAN = """
import sys
from autograder.quick_imports import import_nbgrader
import_nbgrader()
import nbgrader.api
assert "jupyter_server" not in sys.modules and "nbconvert" not in sys.modules, "imported for nothing"
"""
EXTENSIONS_WORK = (
    LEAN
    + """
import nbgrader.server_extensions.course_list as real
assert real.__file__, "this is the real one"
told = []
real.load_jupyter_server_extension = told.append
nbgrader.load_courses("the server")
assert told == ["the server"]
"""
)
LEFT_ALONE = """
import nbgrader, nbgrader.server_extensions.formgrader as real
from autograder.quick_imports import import_nbgrader
import_nbgrader()
import nbgrader.server_extensions.formgrader as again
assert again is real and nbgrader.load_formgrader is real.load_jupyter_server_extension
"""

NOT_INSTALLED = """
import sys
sys.path_importer_cache.clear()
sys.path = [place for place in sys.path if "site-packages" not in place]
from autograder.quick_imports import import_nbgrader
import_nbgrader()
assert not any(name.startswith("nbgrader") for name in sys.modules)
"""


def run_python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, cwd=ROOT)


def test_extensions_for_the_server_are_imported_when_they_are_loaded() -> None:
    run_python(EXTENSIONS_WORK)


def test_an_nbgrader_that_is_there_already_stays_as_it_is() -> None:
    run_python(LEFT_ALONE)


def test_where_there_is_no_nbgrader_nothing_happens() -> None:
    run_python(NOT_INSTALLED)
