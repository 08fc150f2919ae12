"""`python -m benchmarks` runs every measurement and prints its table; names choose some; --list names them.

Exit code 1 if a target is missed. Times are CPU times on one thread: they depend on the machine, ratios hardly do.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from types import ModuleType

import torch

from benchmarks.tables import Row, machine, markdown

NAMES = ["checks", "reversal", "translator", "speed", "cache"]


def title(module: ModuleType) -> str:
    """The first line of what the module says about itself."""
    return str(module.__doc__).splitlines()[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--list", action="store_true", help="only say what can be measured")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    modules = [importlib.import_module(f"benchmarks.{name}") for name in arguments.names or NAMES]
    if arguments.list:
        for module in modules:
            print(f"{module.__name__.split('.')[-1]:12} {title(module)}")
        return 0
    torch.set_num_threads(1)
    print(f"Measured with {machine()}.")
    missed: list[Row] = []
    for module in modules:
        rows = module.run()
        print(f"\n### {title(module)}\n\n{markdown(rows)}", flush=True)
        missed += [row for row in rows if not row.met]
    for row in missed:
        print(f"\nMissed: {row.what}: {row.measured}, wanted {row.target}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
