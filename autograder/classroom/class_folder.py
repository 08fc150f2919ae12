"""The folder of a class: its configuration, its secret seed, and everything that is handed in and graded.

The instructor chooses where it is; it is never inside this package. What its `nbgrader_config.py` says holds for every
command here, for nbgrader's own commands and for formgrader alike. Nothing here imports torch or nbgrader: it is
needed before the processes that run student code are started.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.classroom import class_file
from autograder.classroom.seed import ENVIRONMENT, prepare_seed
from autograder.errors import CourseError
from autograder.suggest import DEFAULT, command

if TYPE_CHECKING:
    from traitlets.config import Config

PACKAGE = Path(__file__).resolve().parents[1]
CONFIG = Path(__file__).resolve().parent / "nbgrader_config.py"  # of a new class
README = """\
# A class of the Transformer course

`class.toml` holds what you decide: deadlines, penalties, extensions, exercises, points, roster. `nbgrader_config.py`
configures nbgrader. `hidden_seed` is the secret of the hidden cases: keep a backup, and show it to nobody.
Everything else here is made by the commands: `python -m autograder --help` lists them.
"""
IGNORED = "hidden_seed*\n"
# Only what this grader itself writes tells a class from any other folder.
SIGNS = ("hidden_seed", "submitted", "release", "gradebook.db")


def make_class(folder: Path, new_seed: bool = False) -> list[Path]:
    """Make what a class needs, and leave alone what is there. Returns: what was made."""
    make_folder(folder)
    wanted = {
        class_file.FILE: class_file.TEMPLATE,
        CONFIG.name: CONFIG.read_text(encoding="utf-8"),
        "README.md": README,
        ".gitignore": IGNORED,
    }
    made = [folder / name for name in wanted if not (folder / name).exists()]
    for path in made:
        path.write_text(wanted[path.name], encoding="utf-8")
    if new_seed or not (folder / "hidden_seed").exists():
        prepare_seed(folder, new_seed)
        made.append(folder / "hidden_seed")
    (folder / "exchange").mkdir(exist_ok=True)  # formgrader complains if it is missing
    return made


def make_folder(folder: Path) -> None:
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if is_new:
            folder.chmod(0o700)  # on a shared machine, nobody else may read submissions and marks
    except FileExistsError:
        raise CourseError(f"--course takes a folder, and {folder} is a file.") from None
    except OSError as error:
        raise CourseError(f"The folder {folder} cannot be made: {error.strerror}.") from None


def require_class(folder: Path) -> None:
    """Refuse a folder that is not a class, and name the command that makes one."""
    if folder.exists() and not folder.is_dir():
        raise CourseError(f"--course takes a folder, and {folder} is a file.")
    if any((folder / sign).exists() for sign in SIGNS):
        return
    former = [place for place in (PACKAGE, folder.parent / "autograder") if any((place / s).exists() for s in SIGNS)]
    advice = f"To make one: {command(folder, 'init')}"
    if folder == Path(DEFAULT).resolve() and (folder.parent / "hidden_seed").exists():
        advice = "The folder that you are in is one: say --course . or go to the folder above it."
    elif former:
        advice = f"There is one in {former[0]}: say --course {shlex.quote(str(former[0]))}, or move it here."
    raise CourseError(f"There is no class in {folder}. {advice}")


def configuration(folder: Path, db: str = "") -> Config:
    """What nbgrader is told: the class's own configuration (or that of a new class), for this folder and gradebook."""
    from traitlets.config import PyFileConfigLoader

    own = folder / CONFIG.name
    before = os.environ.get(ENVIRONMENT)
    try:
        config = PyFileConfigLoader(CONFIG.name, path=str((own if own.exists() else CONFIG).parent)).load_config()
    except CourseError:  # of class.toml, which it reads: this says what to do
        raise
    except Exception as error:
        raise CourseError(f"{own} cannot be read ({type(error).__name__}: {error}).") from None
    finally:  # it names the seed of the folder that it lies in, for kernels; none is started here
        if before is None:
            os.environ.pop(ENVIRONMENT, None)
        else:
            os.environ[ENVIRONMENT] = before
    config.CourseDirectory.root = str(folder)
    class_file.require_one_penalty(config, own)
    if db or not own.exists() or not config.CourseDirectory.db_url:
        config.CourseDirectory.db_url = db or f"sqlite:///{folder / 'gradebook.db'}"
    if not own.exists() or not config.Exchange.root:
        config.Exchange.root = str(folder / "exchange")
    return config


def gradebook_address(folder: Path, db: str = "") -> str:
    """`db` if it was given, otherwise what the class's configuration says."""
    if db or not (folder / CONFIG.name).exists():
        return db or f"sqlite:///{folder / 'gradebook.db'}"
    return str(configuration(folder).CourseDirectory.db_url)
