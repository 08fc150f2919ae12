"""Releases assignments: nbgrader's own generate step, from the notebooks with solutions to those that students get."""

from __future__ import annotations

import csv
import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbgrader.apps import NbGraderAPI

from autograder.classroom.book import enter_due_date, open_book
from autograder.classroom.cells import Mark, match_cells
from autograder.classroom.class_folder import make_class
from autograder.classroom.course import Course, CourseError, put_own_commands_on_path


def release(course: Course, assignments: Sequence[str], new_seed: bool = False) -> list[Path]:
    """Write the sources and generate the releases of these assignments. The first one makes the class's seed."""
    from autograder.authoring.assignment import assignment_notebook
    from autograder.authoring.build import SourceError, as_text

    put_own_commands_on_path()
    make_class(course.root, new_seed)
    rules = course.rules()
    released = []
    with quiet_nbgrader():
        api = NbGraderAPI(config=course.config())
        for assignment in assignments:
            try:
                source = assignment_notebook(rules.of(assignment))
            except SourceError as error:
                raise CourseError(
                    f"The sources cannot be built, so none of these assignments was released. {error}"
                ) from None
            course.ledger.write(course.source(assignment), as_text(source))
            for path in released_files(course, assignment):  # nbgrader empties the folder
                course.ledger.keep(path)
            with open_book(course) as gradebook:
                keep_marks(course, assignment, match_cells(gradebook, assignment, source))
                gradebook.update_or_create_assignment(assignment)
                enter_due_date(course, gradebook, assignment)
            with old_release_unless_there_is_a_new_one(course, assignment):
                result = api.generate_assignment(assignment, force=True)
                if not result["success"] or not course.release(assignment).exists():
                    raise CourseError(f"nbgrader could not release {assignment}:\n{result.get('log', '')}")
            for path in released_files(course, assignment):
                course.ledger.record(path, path.read_bytes())
            released.append(course.release(assignment))
    return released


@contextmanager
def old_release_unless_there_is_a_new_one(course: Course, assignment: str) -> Iterator[None]:
    """If a release fails, the earlier one stays as it was."""
    folder = course.release(assignment).parent
    with tempfile.TemporaryDirectory(dir=course.root, prefix=".release") as scratch:
        before = Path(scratch) / assignment
        if folder.exists():
            shutil.copytree(folder, before)
        try:
            yield
        except BaseException:
            if before.exists():
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(before, folder)
            raise


def keep_marks(course: Course, assignment: str, lost: Sequence[Mark]) -> None:
    """What was given by hand for exercises that are dropped: a line each in kept/, after those of earlier times."""
    if not lost:
        return
    path = course.root / "kept" / f"marks_of_dropped_exercises_{assignment}.csv"
    path.parent.mkdir(exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        if is_new:
            lines.writerow(["student", "cell", "score", "comment"])
        lines.writerows([mark.student, mark.cell, mark.score, mark.comment] for mark in lost)


def released_files(course: Course, assignment: str) -> list[Path]:
    return [path for path in course.release(assignment).parent.rglob("*") if not path.is_dir()]


class quiet_nbgrader:
    """nbgrader prints every step to the terminal; the commands print what matters themselves."""

    def __enter__(self) -> None:
        self.level = logging.getLogger("traitlets").level
        logging.getLogger("traitlets").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("traitlets").setLevel(self.level)
