"""The one exception that the grader raises on purpose. It stands apart: to catch it takes no nbgrader."""

from __future__ import annotations


class CourseError(Exception):
    """Something the instructor has to mend. The message says how."""
