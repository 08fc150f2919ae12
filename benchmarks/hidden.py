"""Hidden cases: in class after class every right answer passes, and no misconception does.

Each class has a seed of its own, and with it hidden cases of its own. The suite proves them for one seed; this proves
them for many.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from autograder.hidden import Hidden, all_hidden, passes
from benchmarks.tables import Row
from course_lib.checking.properties import one_thread

SEEDS = 30


def run(seeds: int = SEEDS, only: list[str] | None = None) -> list[Row]:
    """A row for each exercise."""
    rows = []
    for name in only or all_hidden():
        hidden = all_hidden()[name]
        print("…", name, file=sys.stderr, flush=True)
        with one_thread():
            found = [fault for number in range(seeds) for fault in faults(hidden, f"class {number}")]
        rows.append(Row(name, f"{seeds} classes, {'; '.join(found) or 'no fault'}", "no fault", not found))
    return rows


def faults(hidden: Hidden, seed: str) -> Iterator[str]:
    """The right answers that fail on these hidden cases, and the misconceptions that pass."""
    exercise, cases = hidden.exercise, hidden.cases(seed)
    for program in (exercise.reference, *exercise.alternatives):
        if not passes(exercise, program, cases):
            yield f"{seed}: {program.__name__} is refused"
    for program in exercise.misconceptions:
        if passes(exercise, program, cases):
            yield f"{seed}: {program.__name__} gets through"
