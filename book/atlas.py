"""The atlas of mistakes: everything that the course knows about each misconception, made from the exercises.

`Atlas.of(names)` collects it, `as_json` writes it as docs/atlas_schema.json describes it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from autograder.authoring.build import stems
from autograder.reporting.report import difference
from autograder.reporting.words import in_words
from book.ideas import all_ideas, change_of, ideas_of
from course_lib.checking.diagnosis import deed_of, sentence_of
from course_lib.checking.difference import Difference
from course_lib.checking.exercise import Exercise
from course_lib.checking.properties import describe_case, no_garbage_collection, one_thread
from course_lib.checking.subject import Subject
from course_lib.checking.tried import accepts, examined, smallest
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises import all_exercises

SCHEMA = "docs/atlas_schema.json"

Program = Callable[..., Any]
Matrix = list[list[float | bool | str]]  # numbers that JSON does not know are texts: "nan", "inf", "-inf"


@dataclass(frozen=True)
class Line:
    """A line of a difference: "-" as the mistake has it, "+" as the reference has it, " " around them, "…" a gap."""

    sign: str
    code: str


@dataclass(frozen=True)
class Picture:
    """What comes out on the smallest input, and what should: the first matrix in which they differ."""

    expected: Matrix
    got: Matrix


@dataclass(frozen=True)
class Mistake:
    """A card of the atlas."""

    id: str
    title: str
    sentence: str
    done: str  # the part of the sentence that says what was done
    ideas: list[str]
    change: str  # what was done to the code of the reference: "left out", "added" or "replaced"
    difference: list[Line]
    input: str | None  # the smallest that shows it; a wrong test has none
    check_says: str
    picture: Picture | None
    lets_through: list[str]  # of a wrong test: mistakes that it accepts
    refuses: list[str]  # and right implementations that it rejects


@dataclass(frozen=True)
class Entry:
    """A page of the atlas."""

    name: str
    topic: str
    notebook: str
    call: str
    task: str
    reference: str
    properties: list[dict[str, Any]]
    misconceptions: list[Mistake]


@dataclass(frozen=True)
class Atlas:
    """All pages."""

    exercises: list[Entry]

    @classmethod
    def of(cls, names: Sequence[str]) -> Atlas:
        with one_thread(), no_garbage_collection():
            return cls([entry_of(all_exercises()[name]) for name in names])

    def as_json(self) -> str:
        content = {
            "schema": SCHEMA,
            "course": "transformer-course",
            "version": metadata.version("transformer-course"),
            "ideas": [{"id": idea.id, "title": idea.title, "about": idea.about} for idea in all_ideas()],
            "exercises": [dataclasses.asdict(entry) for entry in self.exercises],
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def entry_of(exercise: Exercise) -> Entry:
    return Entry(
        name=exercise.name,
        topic=exercise.topic,
        notebook=next(stem for stem in stems() if stem.partition("_")[2] == exercise.topic),
        call=exercise.call,
        task=inspect.getdoc(exercise.reference) or "",
        reference=inspect.getsource(exercise.reference).rstrip(),
        properties=[{"name": prop.name, "points": prop.points} for prop in exercise.properties],
        misconceptions=[mistake_of(exercise, wrong) for wrong in exercise.misconceptions],
    )


def mistake_of(exercise: Exercise, wrong: Program) -> Mistake:
    seen = seen_of_test if isinstance(exercise, WrittenTest) else seen_of
    return Mistake(
        id=wrong.__name__,
        title=in_words(wrong.__name__),
        sentence=sentence_of(wrong),
        done=deed_of(wrong),
        ideas=ideas_of(exercise.reference, wrong),
        change=change_of(exercise.reference, wrong),
        difference=[Line(sign, code) for sign, code in difference(exercise.reference, wrong)],
        **seen(exercise, wrong),
    )


def seen_of(exercise: Exercise, wrong: Program) -> dict[str, Any]:
    """The smallest input that shows a mistake, what the check says there, and a picture of it."""
    case = smallest(exercise, wrong)
    result = next(one for one in examined(exercise, wrong, case).results if one.passed is False)
    found = result.difference or difference_of_results(exercise, wrong, list(case.values()))
    return {
        "input": describe_case(case) or "nothing",
        "check_says": result.message.removeprefix(f"On the input {describe_case(case)}: "),
        "picture": picture(found) if found else None,
        "lets_through": [],
        "refuses": [],
    }


def seen_of_test(exercise: Exercise, wrong: Program) -> dict[str, Any]:
    """What a wrong test says about the implementations that it is tried on."""
    assert isinstance(exercise, WrittenTest)
    name = wrong.__name__
    return {
        "input": None,
        "check_says": "",
        "picture": None,
        "lets_through": [one for one in exercise.mistakes if accepts(exercise.name, name, one)],
        "refuses": [one for one in exercise.right if not accepts(exercise.name, name, one)],
    }


# --- pictures ---------------------------------------------------------------------------------------------


def difference_of_results(exercise: Exercise, wrong: Program, arguments: list[Any]) -> Difference | None:
    """Where the check has no picture: the first tensor of a function's result that differs."""
    if exercise.is_class:
        return None
    try:
        want, got = (list(tensors_in(Subject(program)(*arguments))) for program in (exercise.reference, wrong))
    except Exception:  # a mistake that raises, or a function that wants more than plain data
        return None
    differences = (Difference(g, w) for g, w in zip(got, want) if g.shape == w.shape and g.dim())
    return next((found for found in differences if found.where().any()), None)


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def picture(found: Difference) -> Picture | None:
    """The two matrices, a vector as a row; nothing if they are too large to be read."""
    if found.want.dim() == 1:
        found = Difference(found.got[None], found.want[None])
    matrices = [found.first_differing_matrix(tensor) for tensor in (found.want, found.got)]
    if any(matrix is None or matrix.numel() == 0 for matrix in matrices):
        return None
    want, got = (plain(matrix) for matrix in matrices if matrix is not None)
    return Picture(want, got)


def plain(matrix: Tensor) -> Matrix:
    """Numbers with six digits, as JSON can hold them."""
    values = matrix.detach().cpu()
    if values.dtype == torch.bool:
        return [[bool(value) for value in row] for row in values.tolist()]
    return [[number(float(value)) for value in row] for row in values.tolist()]


def number(value: float) -> float | str:
    return float(f"{value:.6g}") if abs(value) < float("inf") else str(value)
