"""Brings the index of mistakes up to date: `python -m course_lib.checking`."""

from __future__ import annotations

import argparse

from .index import out_of_date, update


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m course_lib.checking", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the index is up to date")
    parser.add_argument("names", nargs="*", help="exercises to compute again, whether or not they have changed")
    options = parser.parse_args()
    names = options.names or out_of_date()
    if options.check and names:
        raise SystemExit(f"The index of mistakes is out of date for: {', '.join(names)}. Run `make build`.")
    if names and not options.check:
        update(names)
    print("The index of mistakes is up to date.")


if __name__ == "__main__":
    main()
