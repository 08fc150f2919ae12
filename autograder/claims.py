"""What the text says about its outputs, checked: `python -m autograder.claims [02_masks …]`.

A cell `# %% claims` of a source stands behind the cell whose numbers the text speaks of, and calls `claim`. Such cells
are only in the notebook that is executed here and by the tests; no student ever gets one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from nbformat import NotebookNode

SECONDS_FOR_A_CELL = 1800  # the longest one trains a translator


class ClaimFailed(Exception):
    """A sentence of the text that the cell above it contradicts."""


def claim(sentence: str, holds: object) -> None:
    """Raise `ClaimFailed` with this sentence unless it holds. `holds`: a comparison, of numbers or of tensors."""
    truth = holds.item() if hasattr(holds, "item") else holds
    if not isinstance(truth, bool):
        raise TypeError(f"Whether it holds is a yes or no, not {truth!r}: {sentence}")
    if not truth:
        raise ClaimFailed(f"The text says, and the cell above contradicts it: {sentence}")


def execute(stem: str) -> NotebookNode:
    """The solved notebook with its claims, executed. Raises `nbclient.exceptions.CellExecutionError`."""
    from nbclient import NotebookClient

    from autograder.build import solution_notebook

    notebook = solution_notebook(stem, claims=True)
    NotebookClient(notebook, timeout=SECONDS_FOR_A_CELL, kernel_name="python3").execute()
    return notebook


def main(arguments: Sequence[str] | None = None) -> int:
    from nbclient.exceptions import CellExecutionError

    from autograder.build import stems

    parser = argparse.ArgumentParser(prog="python -m autograder.claims", description="Does the text say what is so?")
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help=f"such as {stems()[-1]}; all of them if none")
    chosen = parser.parse_args(arguments).notebooks or stems()
    unknown = sorted(set(chosen) - set(stems()))
    if unknown:
        parser.error(f"there is no notebook {unknown[0]}. There are: {', '.join(stems())}.")
    failed = 0
    for stem in chosen:
        try:
            execute(stem)
            print(f"{stem}: every claim holds")
        except CellExecutionError as error:
            failed += 1
            print(f"{stem}: {error.ename}: {error.evalue}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
