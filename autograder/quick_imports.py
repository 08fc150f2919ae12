"""Imports nbgrader without its extensions for Jupyter's server, which bring the whole server along and which no command
here uses. Called before anything imports nbgrader; afterwards they can be imported as usual.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGE = "nbgrader.server_extensions"
EXTENSIONS = tuple(
    f"{PACKAGE}.{name}" for name in ("assignment_list", "course_list", "validate_assignment", "formgrader")
)


class StandIn(ModuleType):
    """Is there while nbgrader is imported, which takes one function from each extension."""

    def load_jupyter_server_extension(self, app: Any) -> None:
        importlib.import_module(self.__name__).load_jupyter_server_extension(app)


def import_nbgrader() -> None:
    """Nothing happens where it is not installed: whoever needs it says so."""
    if "nbgrader" in sys.modules or importlib.util.find_spec("nbgrader") is None:
        return
    stand_ins = {name: StandIn(name) for name in EXTENSIONS}
    sys.modules.update(stand_ins)
    try:
        importlib.import_module("nbgrader")
    finally:
        for name in stand_ins:
            del sys.modules[name]
