"""Mutation: what the checks say about every small change of every reference.

Each variant of a reference is wrong, unless it is the reference in other words: those are listed in
`equivalent_variants.txt`. An accepted variant that is not listed there is a hole in a check. A variant that is named by
a misconception about a statement other than the changed one got a false name, unless it is listed in
`same_mistakes.txt`. Both have to be 0. With `--write`, the rows are kept in `mutation.md`, their sums in the README.
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.tables import Row
from course_lib.checking.mutation import Findings, edit_of, findings
from course_lib.exercises import exercises_to_build

EQUIVALENT = Path(__file__).with_name("equivalent_variants.txt")
SAME_MISTAKE = Path(__file__).with_name("same_mistakes.txt")
TABLE = Path(__file__).with_name("mutation.md")
README = Path(__file__).parents[1] / "README.md"
IN_README = re.compile(r"[\d,]+; [\d,]+ are accepted")
HEAD = """# What the checks say about small changes of the references

Written by `python -m benchmarks mutation --write`. Each variant is a reference under one small change. *Equivalent*: it
may be accepted, and is listed in `equivalent_variants.txt`. *Named*: by a misconception about the changed statement.
*Described*: "Your result is exactly what comes out if …". *Accepted* and *named elsewhere* have to be 0.

| exercise | variants | equivalent | rejected | named | described | accepted | named elsewhere |
|---|---|---|---|---|---|---|---|
"""
Line = tuple[str, int, int, int, int, list[str], list[str]]


def listed(file: Path, name: str) -> set[str]:
    """What a file says about an exercise: `exercise | text`, one on each line."""
    lines = (line.split(" | ", 1) for line in file.read_text(encoding="utf-8").splitlines() if " | " in line)
    return {text for exercise, text in lines if exercise == name}


def line_of(name: str) -> Line:
    return judged(name, findings(exercises_to_build()[name]))


def judged(name: str, found: Findings) -> Line:
    """The findings about an exercise, without what is listed."""
    accepted = [edit_of(variant) for variant in found.accepted]
    elsewhere = [f"{edit_of(variant)}: {mistake}" for variant, mistake in found.elsewhere]
    holes = [edit for edit in accepted if edit not in listed(EQUIVALENT, name)]
    false_names = [text for text in elsewhere if text not in listed(SAME_MISTAKE, name)]
    named = found.named + len(elsewhere) - len(false_names)
    return name, found.variants, named, found.described, len(accepted) - len(holes), holes, false_names


def table(lines: list[Line]) -> str:
    """One row for each exercise, then the totals."""
    rows = []
    for name, variants, named, described, equivalent, holes, elsewhere in [*lines, total(lines)]:
        rejected = variants - equivalent - len(holes)
        numbers = (variants, equivalent, rejected, named, described, len(holes), len(elsewhere))
        rows.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    return HEAD + "\n".join(rows) + "\n"


def kept_lines() -> dict[str, Line]:
    """The table's lines, by exercise. A table holds no names of variants: each that has to be 0 is counted only."""
    lines: dict[str, Line] = {}
    for row in re.findall(r"^\| (\w+)((?: \| \d+){7}) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE):
        variants, equivalent, _, named, described, holes, elsewhere = map(int, row[1].split(" | ")[1:])
        lines[row[0]] = (row[0], variants, named, described, equivalent, ["?"] * holes, ["?"] * elsewhere)
    return lines


def keep(lines: list[Line]) -> None:
    """Write the table: these lines in place of the former ones of the same exercises. Its sums go into the README."""
    known = kept_lines() | {line[0]: line for line in lines}
    every = [known[name] for name in exercises_to_build() if name in known]
    TABLE.write_text(table(every), encoding="utf-8")
    README.write_text(IN_README.sub(in_readme(every), README.read_text(encoding="utf-8")), encoding="utf-8")


def in_readme(lines: list[Line]) -> str:
    _, variants, _, _, equivalent, *_ = total(lines)
    return f"{variants:,}; {equivalent:,} are accepted"


def run(write: bool = False, only: list[str] | None = None) -> list[Row]:
    rows = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        lines = list(pool.map(line_of, only or exercises_to_build()))
    if write:
        keep(lines)
    for name, variants, named, described, equivalent, holes, elsewhere in [*lines, total(lines)]:
        rejected = variants - equivalent - len(holes)
        measured = (
            f"{variants} variants, {equivalent} equivalent, {rejected} rejected ({named} named, {described} described),"
            f" {len(holes)} accepted, {len(elsewhere)} named elsewhere"
        )
        rows.append(Row(name, measured, "0 accepted, 0 elsewhere", not holes and not elsewhere))
    for sentence in advice(lines):
        print(sentence)
    return rows


def advice(lines: list[Line]) -> list[str]:
    """What is to be done about variants that are accepted or have a false name, with the lines that may be copied."""
    accepted = [f"{name} | {text}" for name, *_, holes, _ in lines for text in holes]
    elsewhere = [f"{name} | {text}" for name, *_, false_names in lines for text in false_names]
    said = []
    if accepted:
        said += [f"Accepted. Add a case or a property; if they are right, copy these lines to {EQUIVALENT.name}:"]
        said += accepted
    if elsewhere:
        said += [
            "Named by a misconception about another line. Add a case in which the two differ; if they are the same"
        ]
        said += [f"mistake, copy these lines to {SAME_MISTAKE.name}:", *elsewhere]
    return said


def total(lines: list[Line]) -> Line:
    variants, named, described, equivalent = (sum(line[i] for line in lines) for i in (1, 2, 3, 4))  # type: ignore[misc]
    holes = [hole for line in lines for hole in line[5]]
    elsewhere = [text for line in lines for text in line[6]]
    return "all exercises", variants, named, described, equivalent, holes, elsewhere
