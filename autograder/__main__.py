"""The grader's commands: `python -m autograder --help`."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    from autograder.cli import main
except ModuleNotFoundError as error:
    is_repository = Path(__file__).resolve().parents[1].joinpath("pyproject.toml").exists()
    what_to_do = (
        "In the course's folder: pip install -e '.[grader]'"
        if is_repository
        else "Install the wheel of the grader once more, without --no-deps."
    )
    print(f"The grader needs {error.name}. {what_to_do}", file=sys.stderr)
    sys.exit(1)

if __name__ == "__main__":
    sys.exit(main())
