"""The grader's commands: `python -m autograder --help`."""

from __future__ import annotations

import sys

try:
    from autograder.cli import main
except ModuleNotFoundError as error:
    print(f"The grader needs {error.name}. In the course's folder: pip install -e '.[grader]'", file=sys.stderr)
    sys.exit(1)

if __name__ == "__main__":
    sys.exit(main())
