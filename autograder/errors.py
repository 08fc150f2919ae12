"""The one exception that the grader raises on purpose, in a module of its own: catching it imports no nbgrader."""

from __future__ import annotations


class CourseError(Exception):
    """Something the instructor has to fix. The message says how."""
