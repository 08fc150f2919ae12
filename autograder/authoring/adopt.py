"""Moves the course to a repository of your own: `make adopt REPOSITORY=https://github.com/you/your-course`.

The address of the course is in one place only, `[tool.course]` in pyproject.toml. The Colab links and the set-up cell
of every notebook are made from it, so `make adopt` runs `make build` afterwards.
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
    """Write the new address of the course into pyproject.toml. Nothing else in that file changes."""
    repository = repository.strip().removesuffix("/").removesuffix(".git")
    if not ADDRESS.fullmatch(repository):
        raise AdoptError(
            f"Colab opens notebooks only from public GitHub repositories, and {repository!r} is not one. "
            "Its address should look like https://github.com/you/your-course"
        )
    if not BRANCH.fullmatch(branch):
        raise AdoptError(f"{branch!r} cannot be the name of a branch.")
    text = project_file.read_text(encoding="utf-8")
    table = f'[tool.course]\nrepository = "{repository}"\nbranch = "{branch}"\n'
    changed, count = re.subn(r'\[tool\.course\]\nrepository = ".*"\nbranch = ".*"\n', table, text)
    if count != 1:
        raise AdoptError(f"{project_file} has no [tool.course] with a repository and a branch, in this order.")
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
