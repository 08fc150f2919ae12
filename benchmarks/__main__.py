"""`python -m benchmarks` runs the measurements and prints their tables: all of them, or those named.

Exit code 1 if a target is missed. Times are CPU times on one thread: they depend on the machine, ratios hardly do.
`hidden`, `grading` and `thousand` run only if they are named: they take many minutes. The last two
measure wall-clock times of whole commands, and need a quiet machine.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from types import ModuleType
from typing import Any

import torch

from benchmarks.tables import Row, machine, markdown
from course_lib.exercises import exercises_to_build

ALWAYS = [
    *("checks", "mutation", "reversal", "translator", "pronunciation", "classification", "language_model", "speech"),
    "long_sequences",
    *("speed", "cache"),
]
OF_THE_GRADER = ["grading", "thousand"]
BY_EXERCISE = ["checks", "mutation", "hidden"]
NAMES = [*ALWAYS, "hidden", *OF_THE_GRADER]


def title(module: ModuleType) -> str:
    """The first line of the module's docstring."""
    return str(module.__doc__).splitlines()[0]


def load(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.{name}")


def settings(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The command line's options for this measurement."""
    said: dict[str, Any] = {}
    if name in OF_THE_GRADER and arguments.submissions:
        said["submissions"] = arguments.submissions
    if name == "grading":
        said["full"] = arguments.full
    if name in ("grading", "mutation"):
        said["write"] = arguments.write
    if name in BY_EXERCISE:
        said["only"] = arguments.only
    if name == "hidden" and arguments.seeds:
        said["seeds"] = arguments.seeds
    return said


def class_size(text: str) -> int:
    number = int(text)
    if number < 2:
        raise argparse.ArgumentTypeError("at least 2 submissions")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--list", action="store_true", help="only list what can be measured")
    parser.add_argument(
        "--submissions", nargs="+", type=class_size, metavar="N", help="grading (default: 12 60), thousand (1000)"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="hidden: number of classes, each with its own seed (30)")
    parser.add_argument("--full", action="store_true", help="grading: nbgrader grades the larger class too (minutes)")
    parser.add_argument(
        "--write", action="store_true", help="mutation: keep the rows; grading: put them into the README"
    )
    parser.add_argument("--only", nargs="+", metavar="EXERCISE", help="checks, mutation, hidden: these exercises only")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    unknown = set(arguments.only or ()) - set(exercises_to_build())
    if unknown:
        parser.error(f"there is no exercise {', '.join(sorted(unknown))}")
    if arguments.list:
        for name in arguments.names or NAMES:
            print(f"{name:15} {title(load(name))}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleaned up
    torch.set_num_threads(1)
    print(f"Measured with {machine()}.")
    missed: list[Row] = []
    for name in arguments.names or ALWAYS:
        module = load(name)
        rows = module.run(**settings(name, arguments))
        print(f"\n### {title(module)}\n\n{markdown(rows)}", flush=True)
        missed += [row for row in rows if not row.met]
    for row in missed:
        print(f"\nMissed: {row.what}: {row.measured}, wanted {row.target}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
