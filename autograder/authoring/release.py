"""Releases assignments: nbgrader's own generate step, from the notebooks with solutions to those that students get."""

from __future__ import annotations

import csv
import io
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from autograder.classroom.book import enter_due_date, one_at_a_time, open_book
from autograder.classroom.cells import Mark, give_back, has_submissions, match_cells
from autograder.classroom.class_folder import make_class
from autograder.classroom.course import Course, CourseError, put_own_commands_on_path
from autograder.files import write_whole


def release(
    course: Course,
    assignments: Sequence[str],
    new_seed: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the sources and generate the releases of these assignments. The first one makes the class's seed.

    `tell` is told what became of marks by hand.
    """
    from autograder.authoring.assignment import assignment_notebook
    from autograder.authoring.build import SourceError, as_text

    put_own_commands_on_path()
    make_class(course.root, new_seed)
    rules = course.rules()
    released = []
    with one_at_a_time(course), quiet_nbgrader():
        for assignment in assignments:
            try:
                source = assignment_notebook(rules.of(assignment))
            except SourceError as error:
                raise CourseError(f"The sources cannot be built, so {assignment} was not released. {error}") from None
            text = as_text(source)
            with open_book(course) as gradebook:
                is_rehearsed = has_submissions(gradebook, assignment)
            if is_rehearsed:
                rehearse(course, assignment, text)
            course.ledger.write(course.source(assignment), text)
            for path in released_files(course, assignment):  # nbgrader empties the folder
                course.ledger.keep(path)
            with open_book(course) as gradebook:
                for sentence in match(course, gradebook, assignment, source):
                    tell(sentence)
                gradebook.update_or_create_assignment(assignment)
                enter_due_date(course, gradebook, assignment)
            with old_release_unless_there_is_a_new_one(course, assignment):
                generate(course.config(), course.release(assignment))
            for path in released_files(course, assignment):
                course.ledger.record(path, path.read_bytes())
            with open_book(course) as gradebook:
                for sentence in marks_that_are_too_high(gradebook, assignment):
                    tell(sentence)
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


def rehearse(course: Course, assignment: str, source: str) -> None:
    """Release into a scratch folder: what nbgrader refuses must not cost the gradebook a mark. Raises: CourseError."""
    with tempfile.TemporaryDirectory(dir=course.root, prefix=".release") as scratch:
        config = course.config()
        config.CourseDirectory.root = scratch
        config.CourseDirectory.db_url = f"sqlite:///{scratch}/gradebook.db"
        trial = Course(Path(scratch))
        write_whole(trial.source(assignment), source.encode())
        generate(config, trial.release(assignment))


def generate(config: Config, target: Path) -> None:
    """nbgrader's own step, which makes this release. Raises: CourseError."""
    assignment = target.stem
    result = NbGraderAPI(config=config).generate_assignment(assignment, force=True)
    if result.get("error", "").rstrip().endswith(KeyboardInterrupt.__name__):  # which nbgrader takes for a failure
        raise KeyboardInterrupt
    if not result["success"] or not target.exists():
        raise CourseError(f"nbgrader could not release {assignment}:\n{result.get('log', '')}")


# --- marks of exercises that come and go ------------------------------------------------------------------------------

COLUMNS = ("student", "cell", "score", "comment")


def match(course: Course, gradebook: Gradebook, assignment: str, source: NotebookNode) -> list[str]:
    """Give the gradebook the cells of this source. Marks by hand for exercises that are dropped wait in kept/ until the
    exercise comes back. Returns: what was done with marks, in sentences."""
    path = course.root / "kept" / f"marks_of_dropped_exercises_{assignment}.csv"
    waiting = kept_marks(path)
    dropped = match_cells(gradebook, assignment, source, lambda lost: write_marks(path, [*waiting, *lost]))
    left = give_back(gradebook, assignment, waiting)
    write_marks(path, [*left, *dropped])
    told = []
    if dropped:
        told.append(
            f"{assignment}: marks given by hand that are kept until their exercise is back: {len(dropped)}, in {path}"
        )
    if len(left) < len(waiting):
        told.append(f"{assignment}: marks given by hand that count again: {len(waiting) - len(left)}")
    return told


def marks_that_are_too_high(gradebook: Gradebook, assignment: str) -> Iterator[str]:
    """A sentence for each cell that is worth less now than somebody has been given for it by hand."""
    for cell in gradebook.find_notebook(assignment, assignment).grade_cells:
        number = sum(grade.manual_score is not None and grade.manual_score > cell.max_score for grade in cell.grades)
        if number:
            yield (
                f"{assignment}: marks given by hand that are higher than what {cell.name} is worth now "
                f"({cell.max_score:g}): {number}. They count as they are until you change them."
            )


def kept_marks(path: Path) -> list[Mark]:
    """The marks in a table. Raises: CourseError if somebody has made it unreadable."""
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                Mark(one["student"], one["cell"], float(one["score"]) if one["score"] else None, one["comment"] or None)
                for one in csv.DictReader(file)
            ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CourseError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Repair it, or move it away."
        ) from None


def write_marks(path: Path, marks: Sequence[Mark]) -> None:
    if not marks:
        path.unlink(missing_ok=True)
        return
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows([COLUMNS, *([mark.student, mark.cell, mark.score, mark.comment] for mark in marks)])
    write_whole(path, lines.getvalue().encode())


def released_files(course: Course, assignment: str) -> list[Path]:
    return [path for path in course.release(assignment).parent.rglob("*") if not path.is_dir()]


class quiet_nbgrader:
    """nbgrader prints every step to the terminal; the commands print what matters themselves."""

    def __enter__(self) -> None:
        self.level = logging.getLogger("traitlets").level
        logging.getLogger("traitlets").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("traitlets").setLevel(self.level)
