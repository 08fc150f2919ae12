"""Who needs help: absent, blank, half done, in errors, low, or far below their own usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from autograder.judging.verdict import Verdict
from autograder.reporting.words import SPACE, counted

HALF_DONE = 0.25  # share of exercises without an answer, from which on it is worth a word
IN_ERRORS = 0.5  # share of exercises that end in an error, or are not reached
LOW = 50.0  # percent
BELOW = 25.0  # percentage points below what would be expected of them
BEFORE = 2  # other assignments that a "usual" is made of

Percents = Mapping[str, Mapping[str, float]]  # assignment -> student -> percent


@dataclass(frozen=True)
class NeedsHelp:
    """A student, and why. The most urgent come first."""

    student: str
    urgency: float
    reasons: tuple[str, ...]


def who_needs_help(
    assignment: str, found: Sequence[Verdict], everybody: Sequence[str], handed_in: Sequence[str], percents: Percents
) -> list[NeedsHelp]:
    """everybody: the class. handed_in: those with a submission, whatever became of it."""
    present = {*handed_in, *(verdict.student for verdict in found)}
    needing = [absent(student, percents) for student in everybody if student not in present]
    needing += [NeedsHelp(v.student, 100.0, (v.reason,)) for v in found if v.status == "zeroed" and v.reason]
    for verdict in (verdict for verdict in found if verdict.status == "graded" and verdict.exercises):
        percent = percents.get(assignment, {}).get(verdict.student, 0.0)
        reasons = [*about_answers(verdict), *about_score(verdict, percent), *about_usual(assignment, verdict, percents)]
        if reasons:
            needing.append(NeedsHelp(verdict.student, 100 - percent, tuple(reasons)))
    return sorted(needing, key=lambda one: (-one.urgency, one.student))


def absent(student: str, percents: Percents) -> NeedsHelp:
    missed = [name for name, scores in percents.items() if student not in scores]
    more = f", nor anything in {counted(len(missed) - 1, 'other assignment')}" if len(missed) > 1 else ""
    return NeedsHelp(student, 100.0 + len(missed), (f"Has handed in nothing{more}.",))


def about_answers(verdict: Verdict) -> list[str]:
    empty = [e.name for e in verdict.exercises if e.outcome == "not attempted"]
    errors = [e.name for e in verdict.exercises if e.outcome in ("raised", "stopped")]
    total = len(verdict.exercises)
    if len(empty) == total:
        return ["Handed in the notebook without a single answer."]
    reasons = []
    if len(empty) >= max(2, HALF_DONE * total):
        at_the_end = [e.name for e in verdict.exercises][-len(empty) :] == empty
        where = f": stopped before `{empty[0]}`" if at_the_end else ""
        reasons.append(f"No answer to {len(empty)} of {total} exercises{where}.")
    not_run = [e.name for e in verdict.exercises if e.outcome == "not run"]
    if len(errors) >= max(2, IN_ERRORS * total):
        reasons.append(f"{len(errors)} of {total} answers end in an error.")
    if len(not_run) >= max(2, IN_ERRORS * total):
        reasons.append(f"{len(not_run)} of {total} answers could not be run.")
    return reasons


def about_score(verdict: Verdict, percent: float) -> list[str]:
    tried = [e for e in verdict.exercises if e.outcome not in ("not attempted", "not run")]
    if percent >= LOW or len(tried) <= (1 - HALF_DONE) * len(verdict.exercises):
        return []  # what is missing has been said
    return [f"Answered nearly everything, but only {percent:.0f}{SPACE}% is right."]


def about_usual(assignment: str, verdict: Verdict, percents: Percents) -> list[str]:
    """Compared with the class each time: a hard assignment is hard for all."""
    others = [
        scores[verdict.student] - median(scores.values())
        for name, scores in percents.items()
        if name != assignment and verdict.student in scores
    ]
    own = percents.get(assignment, {})
    if len(others) < BEFORE or verdict.student not in own:
        return []
    expected = min(100.0, median(own.values()) + fmean(others))
    if own[verdict.student] > expected - BELOW:
        return []
    return [f"{own[verdict.student]:.0f}{SPACE}%, although their other assignments suggest {expected:.0f}{SPACE}%."]
