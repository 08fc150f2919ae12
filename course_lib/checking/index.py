"""The index of mistakes: the signature of every misconception and every variant, computed once and kept in a file.

`python -m course_lib.checking` brings the file up to date; only exercises that have changed are computed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .exercise import Case, Exercise
from .merge import merged
from .ours import Program, Question, ask, known_answers
from .properties import Examination, no_garbage_collection, one_thread
from .signature import ERROR, Signature, matching, signature_of
from .subject import Event, Subject
from .variants import variants_of

FILE = Path(__file__).with_name("index.npz")
ENGINE = ("bench.py", "changes.py", "variants.py", "signature.py")
SAMPLE = 16  # misconceptions that are tried in order to choose a property

# Of two variants that behave alike, the one of the earlier kind is the likelier slip.
KINDS = (
    "axis", "size", "dropped", "exchanged", "sign", "operator", "comparison", "function", "option", "slice", "range",
    "default", "condition", "constant", "name", "twice", "moved", "in place", "detached",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """What is known about the programs of one exercise: their ids and signatures, and the reference's signature
    separately."""

    prop: int  # the property whose questions the signatures answer
    reference: Signature  # (answers,)
    ids: tuple[str, ...]  # of misconceptions, then of variants, then of pairs of misconceptions
    signatures: np.ndarray  # (programs, answers)


def questions_of(exercise: Exercise, prop: int, cases: Sequence[Case]) -> list[Question]:
    return [(exercise.properties[prop], case) for case in cases]


# --- making it ------------------------------------------------------------------------------------------------------


def make_entry(exercise: Exercise, cases: Sequence[Case]) -> Entry:
    """Ask every misconception and every variant of an exercise. Takes seconds."""
    with one_thread(), no_garbage_collection():
        prop = most_telling_property(exercise, cases)
        questions = questions_of(exercise, prop, cases)
        reference = traces_of(exercise.reference, questions)
        own = signature_of(reference, reference)
        rows = {m.__name__: signature_of(traces_of(m, questions), reference) for m in exercise.misconceptions}
        rows |= dict(telling_variants(exercise, questions, reference, own, cases))
        rows |= dict(telling_pairs(exercise, questions, reference, own))
        return Entry(prop, own, tuple(rows), np.stack(list(rows.values())))


def traces_of(program: Program, questions: Iterable[Question]) -> list[list[Event]]:
    return [ask(program, question).trace for question in questions]


def most_telling_property(exercise: Exercise, cases: Sequence[Case]) -> int:
    """The property under which most misconceptions give a wrong value rather than an error."""
    step = max(1, len(exercise.misconceptions) // SAMPLE)
    sample = exercise.misconceptions[::step]

    def telling(prop: int) -> int:
        questions = questions_of(exercise, prop, cases)
        reference = traces_of(exercise.reference, questions)
        own = signature_of(reference, reference)
        rows = (signature_of(traces_of(mistake, questions), reference) for mistake in sample)
        return sum(bool((differs_in_a_value(row, own)).any()) for row in rows)

    return max(range(len(exercise.properties)), key=telling)  # of several, the first


def differs_in_a_value(row: np.ndarray, own: Signature) -> np.ndarray:
    """Where an answer differs from the reference's and is not an error: (..., answers)."""
    return ~matching(own, row) & ~np.isnan(row) & (row < ERROR)


def telling_variants(
    exercise: Exercise,
    questions: Sequence[Question],
    reference: Sequence[list[Event]],
    own: Signature,
    cases: Sequence[Case],
) -> Iterator[tuple[str, Signature]]:
    """The variants that are wrong and give some value, one of each behaviour."""
    seen: set[bytes] = set()
    sources: set[str] = set()
    for variant in sorted(variants_of(exercise.reference), key=lambda v: KINDS.index(v.kind)):
        if variant.source in sources or variant.program is None:
            continue
        sources.add(variant.source)
        row = signature_of(traces_of(variant.program, questions), reference)
        if differs_in_a_value(row, own).any():
            key = np.round(row, 3).tobytes()
            if key not in seen:
                seen.add(key)
                yield variant.id, row
        elif matching(own, row).all() and not Examination(exercise, Subject(variant.program), cases).passes():
            yield variant.id, row  # right under this property, wrong under another


def telling_pairs(
    exercise: Exercise, questions: Sequence[Question], reference: Sequence[list[Event]], own: Signature
) -> Iterator[tuple[str, Signature]]:
    """The pairs of misconceptions that can be merged and together give a wrong value."""
    for first, second in combinations(exercise.misconceptions, 2):
        both = merged(exercise.reference, first, second)
        if both is not None:
            row = signature_of(traces_of(both, questions), reference)
            if differs_in_a_value(row, own).any():
                yield f"{first.__name__} + {second.__name__}", row


# --- using it -------------------------------------------------------------------------------------------------------


def without_variants(exercise: Exercise, cases: Sequence[Case]) -> Entry:
    """An entry for cases that are not in the file, with misconceptions only: asking every variant takes too long."""
    known = stored(exercise.name)
    prop = known.prop if known and known.prop < len(exercise.properties) else 0
    questions = questions_of(exercise, prop, cases)
    reference = [known_answers(exercise.reference, question).trace for question in questions]
    rows = [
        signature_of([known_answers(mistake, question).trace for question in questions], reference)
        for mistake in exercise.misconceptions
    ]
    ids = tuple(mistake.__name__ for mistake in exercise.misconceptions)
    return Entry(prop, signature_of(reference, reference), ids, np.stack(rows))


@functools.cache
def shipped(exercise_name: str) -> Entry | None:
    """The entry of an exercise in the file; None if the exercise has changed since."""
    return None if exercise_name in out_of_date([exercise_name]) else stored(exercise_name)


def stored(name: str) -> Entry | None:
    """The entry in the file, up to date or not."""
    found = stored_entries()
    if name not in found["digests"]:
        return None
    about, arrays = found["about"][name], found["arrays"]
    return Entry(about["property"], arrays[f"{name}.reference"], tuple(about["ids"]), arrays[f"{name}.signatures"])


@functools.cache
def stored_entries() -> dict[str, Any]:
    if not FILE.exists():
        return {"digests": {}, "about": {}, "arrays": {}}
    arrays = np.load(FILE)
    about = json.loads(arrays["about"].tobytes())
    return {"digests": about["digests"], "about": about["exercises"], "arrays": arrays}


# --- keeping it up to date ------------------------------------------------------------------------------------------


def digest_of(exercise: Exercise) -> str:
    """Changes with everything that an entry is made from."""
    own = Path(sys.modules[exercise.properties[0].holds.__module__].__file__ or "")
    reference = Path(sys.modules[exercise.reference.__module__].__file__ or "")
    files = [own, own.with_name("shared.py"), reference, *(Path(__file__).with_name(name) for name in ENGINE)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() if file.exists() else b"")
    return digest.hexdigest()[:16]


def out_of_date(names: Iterable[str] | None = None) -> list[str]:
    """The exercises whose entries are out of date, among those named (default: all)."""
    from course_lib.exercises import exercises_to_build

    digests = stored_entries()["digests"]
    exercises = exercises_to_build()
    return [name for name in names or exercises if digests.get(name) != digest_of(exercises[name])]


def entry_for(name: str) -> Entry:
    from course_lib.exercises import all_exercises

    exercise = all_exercises()[name]
    return make_entry(exercise, exercise.cases)


def update(names: Sequence[str]) -> None:
    """Compute these entries again and keep the others."""
    from course_lib.exercises import all_exercises

    digests = stored_entries()["digests"] | {name: digest_of(all_exercises()[name]) for name in names}
    kept = {name: stored(name) for name in all_exercises() if name not in names}
    made: dict[str, Entry] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for name, entry in zip(names, pool.map(entry_for, names)):
            print(f"{name}: {len(entry.ids)} programs", flush=True)
            made[name] = entry
    entries = {name: entry for name, entry in (kept | made).items() if entry is not None}
    about = {
        "digests": {name: digests[name] for name in sorted(entries)},
        "exercises": {n: {"property": e.prop, "ids": e.ids} for n, e in sorted(entries.items())},
    }
    arrays = {f"{n}.reference": e.reference for n, e in sorted(entries.items())}
    arrays |= {f"{n}.signatures": e.signatures for n, e in sorted(entries.items())}
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    draft = FILE.with_name("draft.npz")
    np.savez_compressed(draft, about=text, **arrays)  # type: ignore[arg-type]
    draft.replace(FILE)
