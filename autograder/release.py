"""Releases assignments: nbgrader's own generate step, from the notebooks with solutions to those that students get."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from nbgrader.apps import NbGraderAPI

from autograder.class_folder import make_class
from autograder.course import Course, CourseError, put_own_commands_on_path


def release(course: Course, assignments: Sequence[str], new_seed: bool = False) -> list[Path]:
    """Write the sources and generate the releases of these assignments. The first one makes the class's seed."""
    from autograder.build import as_text, solution_notebook, stems

    unknown = sorted(set(assignments) - set(stems()))
    if unknown:
        raise CourseError(f"There is no assignment {unknown[0]}. There are: {', '.join(stems())}.")
    put_own_commands_on_path()
    make_class(course.root, new_seed)
    released = []
    with quiet_nbgrader():
        api = NbGraderAPI(config=course.config())
        for assignment in assignments:
            course.ledger.write(course.source(assignment), as_text(solution_notebook(assignment)))
            for path in released_files(course, assignment):  # nbgrader empties the folder
                course.ledger.keep(path)
            result = api.generate_assignment(assignment, force=True)
            if not result["success"] or not course.release(assignment).exists():
                raise CourseError(f"nbgrader could not release {assignment}:\n{result.get('log', '')}")
            for path in released_files(course, assignment):
                course.ledger.record(path, path.read_bytes())
            released.append(course.release(assignment))
    return released


def released_files(course: Course, assignment: str) -> list[Path]:
    return [path for path in course.release(assignment).parent.rglob("*") if not path.is_dir()]


class quiet_nbgrader:
    """nbgrader tells every step on the terminal; what matters of it we tell ourselves."""

    def __enter__(self) -> None:
        self.level = logging.getLogger("traitlets").level
        logging.getLogger("traitlets").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("traitlets").setLevel(self.level)
