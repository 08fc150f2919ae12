"""Where the sources of the notebooks lie: in the repository, or inside this package if it was installed as a wheel."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
BUNDLED = PACKAGE / "sources"  # only in the instructors' wheel, which `autograder.authoring.wheel` builds
PROJECT = BUNDLED if BUNDLED.is_dir() else PACKAGE.parent
SOLUTIONS = PROJECT / "solutions"
WRITTEN_ANSWER = re.compile(r"^# %% answer (\w+) ([\d.]+) \[markdown\]\s*$", re.MULTILINE)


def written_points_in(source: str) -> dict[str, float]:
    """The written answers of a source: name -> points."""
    return {name: float(points) for name, points in WRITTEN_ANSWER.findall(source)}
