"""Where the sources of the notebooks lie: in the repository, or inside this package if it was installed as a wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
BUNDLED = PACKAGE / "sources"  # only in the instructors' wheel, which `autograder.authoring.wheel` builds
PROJECT = BUNDLED if BUNDLED.is_dir() else PACKAGE.parent
