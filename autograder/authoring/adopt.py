"""Moves the course to a repository of your own: `make adopt REPOSITORY=https://github.com/you/your-course`.

Where the course lives is said in one place, `[tool.course]` in pyproject.toml. Colab links and the set-up cell of every
notebook derive from it, so after this comes `make build`.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from autograder.authoring.bootstrap import PROJECT_FILE
from autograder.files import write_whole

ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
BRANCH = re.compile(r"[\w./-]+")


class AdoptError(Exception):
    """An address or branch that Colab could not open."""


def adopt(repository: str, branch: str = "main", project_file: Path = PROJECT_FILE) -> None:
    """Write where the course lives; everything else in the file stays as it is."""
    repository = repository.strip().removesuffix("/").removesuffix(".git")
    if not ADDRESS.fullmatch(repository):
        raise AdoptError(
            f"Colab opens notebooks of public GitHub repositories alone, and {repository!r} is no address of one: "
            "it looks like https://github.com/you/your-course."
        )
    if not BRANCH.fullmatch(branch):
        raise AdoptError(f"{branch!r} cannot be the name of a branch.")
    text = project_file.read_text(encoding="utf-8")
    table = f'[tool.course]\nrepository = "{repository}"\nbranch = "{branch}"\n'
    changed, count = re.subn(r'\[tool\.course\]\nrepository = ".*"\nbranch = ".*"\n', table, text)
    if count != 1:
        raise AdoptError(f"{project_file} has no [tool.course] with a repository and a branch, one below the other.")
    write_whole(project_file, changed.encode())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.authoring.adopt", description=adopt.__doc__)
    parser.add_argument("repository", help="its address, for example https://github.com/you/your-course")
    parser.add_argument("branch", nargs="?", default="main", help="(default: main)")
    options = parser.parse_args()
    try:
        adopt(options.repository, options.branch)
    except AdoptError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
