"""Where does this run: behind a notebook, in a terminal, or while somebody's work is graded?"""

from __future__ import annotations

import os
import sys


def in_kernel() -> bool:
    """Whether this runs behind a notebook, rather than in a terminal."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def is_graded_run() -> bool:
    """Whether nbgrader runs somebody's notebook."""
    return "NBGRADER_EXECUTION" in os.environ


def is_validated() -> bool:
    """Whether nbgrader's Validate runs the notebook, before it is handed in."""
    return os.environ.get("NBGRADER_EXECUTION") == "validate"


def somebody_watches() -> bool:
    """Whether what is printed now is read while it is printed."""
    return not is_graded_run() and (in_kernel() or sys.stdout.isatty())
