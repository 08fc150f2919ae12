"""`python -m book`: makes the book from the notebooks; `make book` does the same."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from nbclient.exceptions import CellExecutionError

from autograder.authoring.build import SourceError, stems
from autograder.working_copy import ROOT
from book.executed import executed, kept_at, outputs_of
from course_lib.exercises import all_exercises

try:
    from book.site import BookError, Edition, build_site
except ModuleNotFoundError as error:  # `make lab` installs only what the notebooks need
    sys.exit(f"{error.name} is not installed, and the book needs it. Run this first: python install.py --book")


def passed_exercises(arguments: Sequence[str]) -> frozenset[str]:
    """Each argument is the name of an exercise, or a file of progress as notebooks keep it in .course_progress.json."""
    found: set[str] = set()
    for argument in arguments:
        if argument in all_exercises():
            found.add(argument)
            continue
        try:
            entries = json.loads(Path(argument).read_text(encoding="utf-8"))
            found |= {name for name, entry in entries.items() if entry["outcome"] == "right"}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            raise BookError(f"{argument} is neither an exercise nor a readable file of progress.") from None
    return frozenset(found) & all_exercises().keys()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m book", description="Build a website from the notebooks.")
    parser.add_argument("--solutions", action="store_true", help="the instructor's edition, with solutions and atlas")
    parser.add_argument(
        "--passed", nargs="+", default=[], metavar="WHAT",
        help="add the atlas pages of these exercises: names, or a file such as work/.course_progress.json",
    )  # fmt: skip
    parser.add_argument(
        "--whole", action="store_true", help="execute the notebooks with the full trainings, which takes far longer"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder of the site (default: site/)")
    options = parser.parse_args(arguments)
    try:
        edition = Edition(options.solutions, options.whole, passed_exercises(options.passed))
        outputs = {}
        for stem in stems():
            if not kept_at(stem, options.whole).exists():
                print(f"executing {stem} …", flush=True)
            outputs[stem] = outputs_of(executed(stem, options.whole))
        print("making the pages …", flush=True)
        build_site(edition, outputs, options.out)
    except (BookError, SourceError, CellExecutionError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The book is in {options.out}: open {options.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
