"""Proof by mutation: what a check says about every variant of its reference.

Each variant is wrong by construction, unless it is the reference in other words. So a variant that is *accepted* is
either equivalent or a hole in the check; and one that is *named elsewhere*, by a misconception about another
statement than the one that was changed, got a false name.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from .exercise import Exercise
from .grading import grade
from .merge import Simplifier, completed
from .ours import Program
from .subject import Subject
from .variants import FoldSigns, Variant, variants_of


@dataclass
class Findings:
    """The variants of one exercise, by what the check says about them."""

    variants: int = 0
    named: int = 0  # by a misconception about the statement that was changed
    described: int = 0  # as a variant: "Your result is exactly what comes out if …"
    accepted: list[Variant] = field(default_factory=list)
    elsewhere: list[tuple[Variant, str]] = field(default_factory=list)


def findings(exercise: Exercise, most: int | None = None) -> Findings:
    """Grade every variant of an exercise; at most this many, taken evenly from all of them."""
    found = Findings()
    touched = {mistake.__name__: lines_changed(exercise.reference, mistake) for mistake in exercise.misconceptions}
    variants = list(distinct_variants(exercise.reference))
    for variant in variants[:: 1 if most is None else -(-len(variants) // most)]:
        found.variants += 1
        report = grade(exercise, Subject(variant.program))
        if report.passed:
            found.accepted.append(variant)
        elif report.misconception is None:
            continue
        elif "#" in report.misconception:
            found.described += 1
        else:
            lines = touched_lines(text_of(exercise.reference, exercise.reference), variant.source.splitlines())
            names = report.misconception.split(" + ")
            if all(touched[name] & lines for name in names) or both_cut_the_gradient(exercise, variant, names):
                found.named += 1
            else:
                found.elsewhere.append((variant, report.misconception))
    return found


def both_cut_the_gradient(exercise: Exercise, variant: Variant, names: list[str]) -> bool:
    """Wherever the gradient is cut off, what is said about it is the same."""
    mistakes = [mistake for mistake in exercise.misconceptions if mistake.__name__ in names]
    return variant.kind == "detached" and all("detach" in str(text_of(m, exercise.reference)) for m in mistakes)


def edit_of(variant: Variant) -> str:
    """What a variant changes, in one line: the statements as they were → as they are."""
    before, after = text_of(variant.reference, variant.reference), variant.source.splitlines()
    pieces = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            pieces.append(" ⏎ ".join(map(str.strip, before[i1:i2])) + " → " + " ⏎ ".join(map(str.strip, after[j1:j2])))
    return " … ".join(pieces)


def distinct_variants(reference: Program) -> Iterator[Variant]:
    """The variants that can be defined, no two with the same text."""
    seen = {"\n".join(text_of(reference, reference))}
    for variant in variants_of(reference):
        if variant.source not in seen and variant.program is not None:
            seen.add(variant.source)
            yield variant


def lines_changed(reference: Program, mistake: Program) -> frozenset[int]:
    """The lines that a misconception changes, and those that hand a value to them or get one from them.

    `visible = scores` and `weights = scores.softmax()` in the place of `visible.softmax()` are one mistake.
    """
    lines = text_of(reference, reference)
    changed = touched_lines(lines, text_of(mistake, reference))
    made = {number: names_made(line) for number, line in enumerate(lines)}
    used = {number: names_used(line) for number, line in enumerate(lines)}
    near = {
        number
        for number in made
        for other in changed
        if (made[number] & used.get(other, set())) or (used[number] & made.get(other, set()))
    }
    return changed | near


def names_made(line: str) -> set[str]:
    left, equals, _ = line.partition(" = ")
    return set(re.findall(r"\w+", left)) - {"self"} if equals else set()


def names_used(line: str) -> set[str]:
    return set(re.findall(r"\w+", line.partition(" = ")[2] or line))


@functools.cache
def text_of(program: Program, reference: Program) -> list[str]:
    """A program as lines without docstrings and annotations, under the reference's name."""
    definition = completed(program, reference)
    definition.name = reference.__name__  # type: ignore[attr-defined]
    text = ast.unparse(Simplifier(set()).visit(definition))
    return ast.unparse(FoldSigns().visit(ast.parse(text))).splitlines()


def touched_lines(before: list[str], after: list[str]) -> frozenset[int]:
    """The lines of the one text that are not the same in the other; an insertion touches those around it."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    changed: set[int] = set()
    for tag, start, end, _, _ in matcher.get_opcodes():
        if tag == "insert":
            changed |= {start - 1, start}
        elif tag != "equal":
            changed |= set(range(start, end))
    return frozenset(changed)
