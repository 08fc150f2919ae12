"""The seed of a class's hidden cases: a secret of its own, made at the first release and kept for good.

It lies in the class's folder, in a file that only its owner can read. It is in no notebook and in no verdict; a verdict
holds a short digest, which tells one seed from another. Another seed means other cases, so a seed that has gone
missing is never replaced silently.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from pathlib import Path

from autograder.errors import CourseError
from autograder.suggest import command

FILE = "hidden_seed"
ENVIRONMENT = "COURSE_HIDDEN_SEED"  # names the file to the kernels that plain nbgrader starts; see nbgrader_config.py
PUBLIC = "public"  # where there is no class: self-study, and the tests


def seed_of_this_process() -> str:
    """The seed of the class for which nbgrader has started this process; without a class, the public one."""
    path = os.environ.get(ENVIRONMENT)
    return read_seed(Path(path)) if path else PUBLIC


def read_seed(path: Path) -> str:
    """The seed in this file. Raises: CourseError with the reason."""
    try:
        seed = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise CourseError(missing(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}, the seed of this class's hidden cases, cannot be read ({error}).") from None
    if not seed:
        raise CourseError(f"{path} is empty. {advice(path)}")
    return seed


def advice(path: Path) -> str:
    return (
        "It holds the secret seed of this class's hidden cases, and another one would change scores: put it back from "
        "your backup. If it is lost, this makes another, and everything is graded again: "
        f"{command(path.parent, 'release', '--new-seed')}"
    )


def missing(path: Path) -> str:
    if was_graded(path.parent):
        return f"{path} is missing. {advice(path)}"
    how = command(path.parent, "release")
    return f"{path} is missing: it holds the secret seed of this class's hidden cases. Run: {how}"


def prepare_seed(folder: Path, new: bool = False) -> str:
    """The seed of the class in this folder; made if nothing has been graded with one that is now missing.

    new: make another one. The old one is kept beside it.
    """
    path = folder / FILE
    if path.exists() and not new:
        return read_seed(path)
    if was_graded(folder) and not new:
        raise CourseError(missing(path))
    if path.exists():
        os.replace(path, free_name(path))
    return write_seed(path, secrets.token_hex(16))


def write_seed(path: Path, seed: str) -> str:
    """Write it so that nobody else can read it, and nobody ever sees half of it."""
    descriptor, draft = tempfile.mkstemp(prefix=f"{FILE}.", dir=path.parent)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(seed + "\n")
    os.replace(draft, path)
    return seed


def free_name(path: Path) -> Path:
    number = 1
    while (found := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return found


def was_graded(folder: Path) -> bool:
    return any((folder / "autograded").glob("*/*/*.ipynb"))


def digest_of(seed: str) -> str:
    """Tells one seed from another, and says nothing about it."""
    return hashlib.sha256(f"hidden seed\0{seed}".encode()).hexdigest()[:12]
