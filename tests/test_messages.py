"""The sentences that people read: no placeholder in them was left unfilled."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, is_close
from course_lib.checking.properties import one_thread
from course_lib.checking.signature import parts_of
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises, exercises_to_build

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("course_lib", "autograder") for path in (ROOT / folder).rglob("*.py"))

# A name in braces, with whatever follows it: {case['dropout']}, {n:.2f}, {len(x)}. Not LaTeX: e^{i·f}, \text{softmax}.
BRACES = re.compile(r"(?<![\^_\\\w{])\{[A-Za-z_]\w*([.\[(:!][^{}]*)?\}")

# What `str.format` or `str.replace` fills in later.
TEMPLATES = {
    "autograder/cli.py": {"{doctor}"},
    "autograder/classroom/sample.py": {"{name}", "{id}", "{assignment}"},
    "autograder/judging/references.py": {"{name}"},
    "autograder/reporting/feedback.py": {"{c}"},  # LaTeX, in a column
}


def literal_braces(text: str) -> list[str]:
    """Each expression in braces in a plain string of the program: the f before the string is missing."""
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [match[0] for node in strings if id(node) not in docstrings for match in BRACES.finditer(node.value)]


def test_braces_are_found_where_an_f_is_missing():
    forgotten = "a = 'rate {case[1]}'\nb = f'{a} and ' '{n:.2f}'\n"
    fine = "c = f'{a}'\nd = r'e^{i} \\text{softmax}'\nf = {'a': a}\n"
    assert literal_braces(forgotten + fine) == ["{case[1]}", "{n:.2f}"]


def test_no_string_shows_an_expression_in_braces():
    found = {path.relative_to(ROOT).as_posix(): set(literal_braces(path.read_text("utf-8"))) for path in SOURCES}
    assert {name: shown for name, shown in found.items() if shown} == TEMPLATES


def test_no_sentence_of_an_exercise_shows_an_expression_in_braces():
    for exercise in all_exercises().values():
        said = [*exercise.hints, *(prop.name for prop in exercise.properties)]
        said += [inspect.getdoc(program) or "" for program in (exercise.reference, *exercise.misconceptions)]
        assert not [text for text in said if BRACES.search(text)], exercise.name


# --- "expected" is what the formula gives -------------------------------------------------------------------


def first_failure(exercise: Exercise, program) -> Failure | None:
    """How the program fails on the first case; None if it raises instead."""
    for prop in exercise.properties:
        for case in exercise.cases[:1]:
            try:
                prop.holds(Subject(program), case)
            except Failure as failure:
                return failure
            except Exception:
                return None
    return None


def compared_with(exercise: Exercise, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """All that the checks compare the reference's own answers with, on the first case."""
    compared: list[Tensor] = []

    def noting(compare):
        def noted(got, want, *tolerances, **named):
            compared.append(want)
            return compare(got, want, *tolerances, **named)

        return noted

    with monkeypatch.context() as patch:
        patch.setattr(torch, "equal", noting(torch.equal))
        for name, module in list(sys.modules.items()):
            if name.startswith("course_lib.") and getattr(module, "is_close", None) is is_close:
                patch.setattr(module, "is_close", noting(is_close))
        for prop in exercise.properties:
            for case in exercise.cases[:1]:
                subject = Subject(exercise.reference)
                prop.holds(subject, case)
                compared += [part for part in parts_of(subject.trace) if isinstance(part, Tensor)]
    return compared


@pytest.mark.parametrize("exercise", exercises_to_build().values(), ids=lambda e: e.name)
def test_expected_values_are_not_made_of_the_students_own(exercise, monkeypatch):
    """What a wrong answer is shown as expected is something that a right answer is compared with too."""
    with one_thread():
        known = compared_with(exercise, monkeypatch)
        failures = {wrong.__name__: first_failure(exercise, wrong) for wrong in exercise.misconceptions}
    for name, failure in failures.items():
        if failure and failure.difference:
            want = failure.difference.want
            assert any(is_close(want, other) for other in known), (name, failure.message)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("rises_with_the_root", ["0.5 times that at step 5", "0.223607 at step 5", "0.894427 at step 20"]),
        ("counts_steps_from_zero", ["should be 0.223607, but it is 0.204124"]),  # 20^-0.5, from the formula
    ],
)
def test_warmup_rate_calls_no_rate_right_that_follows_from_a_wrong_one(wrong, said):
    exercise = all_exercises()["warmup_rate"]
    failure = first_failure(exercise, next(m for m in exercise.misconceptions if m.__name__ == wrong))
    assert failure is not None
    assert all(part in failure.message for part in said), failure.message
