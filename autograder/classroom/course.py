"""The folder of a class (see `class_folder`) as nbgrader knows it, and what this grader keeps in it.

class.toml                                 what the instructor decides (see `class_file`); maybe a roster beside it
nbgrader_config.py                         nbgrader's configuration, which holds for every command here too

source/02_masks/02_masks.ipynb             the instructor's notebook with solutions, written by `make build`
release/02_masks/02_masks.ipynb            what students get
submitted/ada/02_masks/02_masks.ipynb      what came back
earlier/ada/02_masks/2026-03-02_10-30-00.ipynb   what it replaced there
autograded/ada/02_masks/02_masks.ipynb     with the judge's reports
feedback/ada/02_masks/02_masks.html        for the student
verdicts/02_masks/ada.json                 what the judge found, for the report and for regrading
collected.json                             what the LMS calls the submissions, and what could not be placed
hidden_seed                                the secret that this class's hidden cases are made from (see `seed`)
gradebook.db                               nbgrader's database (any other by its address)
kept/                                      versions that a person had edited, before a command replaced them
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook
from traitlets.config import Config

from autograder.classroom.class_file import Rules, read_rules
from autograder.classroom.class_folder import configuration
from autograder.classroom.roster import Roster, read_roster
from autograder.classroom.seed import FILE, read_seed
from autograder.errors import CourseError as CourseError
from autograder.files import Ledger, ledger_of
from autograder.suggest import DEFAULT, command

# Beside a submission: when it was handed in, and under which secret name its feedback goes back. nbgrader's exchange
# asks for both.
STAMP, SECRET = "timestamp.txt", "submission_secret.txt"


def put_own_commands_on_path() -> None:
    """nbgrader starts `alembic` by its bare name, which is not on the PATH of an environment that is not activated."""
    own = str(Path(sys.executable).parent)
    if own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", "")])


@dataclass(frozen=True)
class Course:
    """Where a course lies, and the address of its gradebook."""

    root: Path = Path(DEFAULT)
    db: str = ""  # if it is not the one in the configuration

    def command(self, *words: str) -> str:
        """A command to suggest for this class."""
        return command(self.root, *words, db=self.db)

    @property
    def db_url(self) -> str:
        return self.db or str(self.config().CourseDirectory.db_url)

    @property
    def course_id(self) -> str:
        return str(self.config().CourseDirectory.course_id)

    def config(self) -> Config:
        """What nbgrader is told, and by it every command here."""
        return configuration(self.root, self.db)

    def rules(self) -> Rules:
        """What the class's own file says."""
        return read_rules(self.root)

    def roster(self) -> Roster:
        """Who is in the class, if it has a roster."""
        return read_roster(self.root)

    @property
    def ledger(self) -> Ledger:
        """Every file that a command writes goes through it: a version that a person has edited is kept."""
        return ledger_of(self.root)

    def gradebook(self) -> Gradebook:
        """nbgrader's gradebook, to be used in a `with` statement."""
        put_own_commands_on_path()
        return Gradebook(self.db_url, self.course_id)

    def hidden_seed(self) -> str:
        """What the hidden cases of this class are made from. Raises: CourseError if it is missing."""
        return read_seed(self.root / FILE)

    def source(self, assignment: str) -> Path:
        return self.root / "source" / assignment / f"{assignment}.ipynb"

    def release(self, assignment: str) -> Path:
        return self.root / "release" / assignment / f"{assignment}.ipynb"

    def submitted(self, assignment: str, student: str) -> Path:
        return self.root / "submitted" / student / assignment / f"{assignment}.ipynb"

    def earlier(self, assignment: str, student: str) -> Path:
        """The folder of what a student's later submissions have replaced."""
        return self.root / "earlier" / student / assignment

    def autograded(self, assignment: str, student: str) -> Path:
        return self.root / "autograded" / student / assignment / f"{assignment}.ipynb"

    def feedback(self, assignment: str, student: str) -> Path:
        return self.root / "feedback" / student / assignment / f"{assignment}.html"

    def verdict(self, assignment: str, student: str) -> Path:
        return self.root / "verdicts" / assignment / f"{student}.json"

    def released(self) -> list[str]:
        """The assignments that have been released, in order."""
        return sorted(path.name for path in (self.root / "release").glob("*") if self.release(path.name).exists())

    def students(self, assignment: str) -> list[str]:
        """Everybody who has a folder of submissions for an assignment, whatever is in it."""
        return sorted(path.parent.name for path in (self.root / "submitted").glob(f"*/{assignment}") if path.is_dir())
