"""The commands that messages and pages suggest. Each can be pasted as it is, from the folder in which it was said."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

DEFAULT = "class"  # the folder of a class, in the working directory
PASSWORD = re.compile(r"(?<=:)[^:@/]+(?=@)")  # in the address of a gradebook


def command(folder: Path, *words: str, db: str = "") -> str:
    """`python -m autograder` with these words, for the class in this folder.

    db: the gradebook, if it is not the one of the class's configuration. A password in it is not repeated: messages
    are also kept in files.
    """
    if folder.resolve() != Path(DEFAULT).resolve():
        words = (*words, "--course", str(folder.resolve()))
    if db:
        words = (*words, "--db", PASSWORD.sub("***", db))
    return f"{PYTHON} -m autograder {shlex.join(words)}"


def python(path: str) -> str:
    """The Python that runs this: by its name if that finds it, as it does in an active environment."""
    found = shutil.which("python", path=path)
    return "python" if found and Path(found) == Path(sys.executable) else shlex.quote(sys.executable)


PYTHON = python(os.environ.get("PATH", ""))  # now, since `put_own_commands_on_path` changes it for this process
