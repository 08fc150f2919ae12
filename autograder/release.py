"""Releases assignments: nbgrader's own generate step, from the notebooks with solutions to those that students get."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from nbgrader.apps import NbGraderAPI

from autograder.course import HERE, Course, CourseError, put_own_commands_on_path

CONFIG = HERE / "nbgrader_config.py"


def release(course: Course, assignments: Sequence[str]) -> list[Path]:
    """Write the sources and generate the releases of these assignments."""
    from autograder.build import as_text, solution_notebook, stems

    unknown = sorted(set(assignments) - set(stems()))
    if unknown:
        raise CourseError(f"There is no assignment {unknown[0]}. There are: {', '.join(stems())}.")
    put_own_commands_on_path()
    (course.root / "exchange").mkdir(parents=True, exist_ok=True)  # formgrader complains without it
    if not (course.root / CONFIG.name).exists():  # so that nbgrader's own commands and formgrader work there
        shutil.copy(CONFIG, course.root)
    released = []
    with quiet_nbgrader():
        api = NbGraderAPI(config=course.config())
        for assignment in assignments:
            source = course.source(assignment)
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(as_text(solution_notebook(assignment)), encoding="utf-8")
            result = api.generate_assignment(assignment, force=True)
            if not result["success"] or not course.release(assignment).exists():
                raise CourseError(f"nbgrader could not release {assignment}:\n{result.get('log', '')}")
            released.append(course.release(assignment))
    return released


class quiet_nbgrader:
    """nbgrader tells every step on the terminal; what matters of it we tell ourselves."""

    def __enter__(self) -> None:
        self.level = logging.getLogger("traitlets").level
        logging.getLogger("traitlets").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("traitlets").setLevel(self.level)
