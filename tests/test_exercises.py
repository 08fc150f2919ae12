"""What every exercise has to prove, whatever it is about."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor

from autograder.hidden import all_hidden, check_hidden
from autograder.seed import PUBLIC
from course_lib.checking.diagnosis import sentence_of
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade, refusal
from course_lib.checking.report import Report
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

EXERCISES = list(all_exercises().values())


def pairs(kind):
    return [
        pytest.param(e, program, id=f"{e.name}-{program.__name__}") for e in EXERCISES for program in getattr(e, kind)
    ]


every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)


def report_on(exercise: Exercise, obj) -> Report:
    return refusal(exercise, obj) or grade(exercise, Subject(obj))


def failed_message(report: Report) -> str:
    return next(check.message for check in report.checks if check.passed is False)


@every_exercise
def test_is_complete(exercise):
    assert len(exercise.properties) >= 4
    assert len(exercise.misconceptions) >= 5
    assert len(exercise.alternatives) >= 3
    assert len(exercise.hints) >= 3
    assert exercise.difficulty in (1, 2, 3) and exercise.minutes > 0
    assert all(prop.points > 0 for prop in exercise.properties)
    ids = [m.__name__ for m in exercise.misconceptions]
    assert len(set(ids)) == len(ids)


@every_exercise
def test_reference_is_right(exercise):
    report = report_on(exercise, exercise.reference)
    assert report.passed, report
    assert report.points == report.max_points == exercise.max_points
    assert check_hidden(exercise.name, exercise.reference, PUBLIC).passed


@pytest.mark.parametrize(("exercise", "right"), pairs("alternatives"))
def test_alternative_gets_full_points(exercise, right):
    report = report_on(exercise, right)
    assert report.passed and report.points == exercise.max_points, report
    assert check_hidden(exercise.name, right, PUBLIC).passed


@pytest.mark.parametrize(("exercise", "wrong"), pairs("misconceptions"))
def test_misconception_is_rejected_and_named(exercise, wrong):
    report = report_on(exercise, wrong)
    assert report.outcome in ("wrong", "raised")
    assert report.points < exercise.max_points
    assert report.misconception == wrong.__name__, report
    assert sentence_of(wrong) in " ".join(str(report).split())


@pytest.mark.parametrize(("exercise", "wrong"), pairs("misconceptions"))
def test_misconception_fails_the_hidden_cases_too(exercise, wrong):
    report = check_hidden(exercise.name, wrong, PUBLIC)
    assert report.points == 0 and report.max_points == all_hidden()[exercise.name].points
    assert "On the input" not in str(report)


# --- answers that are broken in general -----------------------------------------------------------------


def spoiled(exercise: Exercise, spoil):
    """The reference with `spoil(result, args)` between it and the caller."""
    if not exercise.is_class:
        return lambda *args: spoil(exercise.reference(*args), args)

    class Spoiled(exercise.reference):
        def forward(self, *args):
            return spoil(super().forward(*args), args)

    return Spoiled


def map_tensors(function, result):
    if isinstance(result, Tensor):
        return function(result)
    if isinstance(result, tuple):
        return tuple(map_tensors(function, item) for item in result)
    return result


def returns_tensors(exercise: Exercise) -> bool:
    """Whether the answer is a tensor or a tuple of tensors, rather than a number or a list."""
    seen = []
    report_on(exercise, spoiled(exercise, lambda result, args: seen.append(result) or result))
    first = seen[0][0] if isinstance(seen[0], tuple) else seen[0]
    return isinstance(first, Tensor)


TENSOR_EXERCISES = [exercise for exercise in EXERCISES if returns_tensors(exercise)]
every_tensor_exercise = pytest.mark.parametrize("exercise", TENSOR_EXERCISES, ids=lambda e: e.name)


@every_exercise
def test_untouched_stub_is_not_attempted(exercise):
    def stub(*args):
        raise NotImplementedError()

    class Stub(torch.nn.Module):
        def __init__(self, *args):
            raise NotImplementedError()

    report = report_on(exercise, Stub if exercise.is_class else stub)
    assert report.outcome == "not attempted" and report.points == 0
    assert report.misconception is None


@every_exercise
def test_exception_shows_the_students_line(exercise):
    def explode(result, args):
        return result / 0 if isinstance(result, int) else 1 / 0  # the student's own line

    report = report_on(exercise, spoiled(exercise, explode))
    assert report.outcome == "raised" and report.points == 0
    assert "ZeroDivisionError" in failed_message(report)
    assert "the student's own line" in failed_message(report)


@every_exercise
def test_not_callable(exercise):
    report = report_on(exercise, torch.ones(2))
    assert report.outcome == "wrong" and report.points == 0
    assert "Pass the" in failed_message(report)


@every_exercise
def test_wrong_number_of_arguments(exercise):
    class TooMany(torch.nn.Module):
        def __init__(self, *, needed):
            super().__init__()

    report = report_on(exercise, TooMany if exercise.is_class else lambda *, needed: None)
    assert report.outcome == "raised" and report.points == 0
    assert exercise.name in failed_message(report)


@every_exercise
def test_none(exercise):
    report = report_on(exercise, spoiled(exercise, lambda result, args: None))
    assert report.outcome == "wrong" and report.points == 0
    assert "None" in failed_message(report) and "return" in failed_message(report)


@every_exercise
def test_wrong_type(exercise):
    report = report_on(exercise, spoiled(exercise, lambda result, args: "a string"))
    assert report.outcome == "wrong" and report.points == 0
    assert "str" in failed_message(report)


@every_tensor_exercise
def test_wrong_shape(exercise):
    def widen(tensor):
        return torch.cat([tensor, tensor], dim=-1) if tensor.dim() else torch.stack([tensor, tensor])

    report = report_on(exercise, spoiled(exercise, lambda result, args: map_tensors(widen, result)))
    assert report.outcome == "wrong" and report.points < exercise.max_points
    assert "shape" in failed_message(report)


@every_tensor_exercise
def test_wrong_dtype(exercise):
    """Numbers where truth values belong, truth values where numbers belong: both get a sentence."""

    def swap(tensor):
        return (tensor.double() * 2 + 0.5) if tensor.dtype == torch.bool else tensor.bool()

    report = report_on(exercise, spoiled(exercise, lambda result, args: map_tensors(swap, result)))
    assert report.outcome == "wrong" and report.points < exercise.max_points
    assert any(word in failed_message(report) for word in ("dtype", "True and False", "floating"))


@every_tensor_exercise
def test_nan(exercise):
    def poison(tensor):
        return tensor * float("nan")

    report = report_on(exercise, spoiled(exercise, lambda result, args: map_tensors(poison, result)))
    assert report.outcome == "wrong" and report.points < exercise.max_points
    assert "nan" in failed_message(report).lower()


def takes_float_tensors(exercise: Exercise) -> bool:
    seen = []
    report_on(exercise, spoiled(exercise, lambda result, args: seen.append(args) or result))
    return any(isinstance(a, Tensor) and a.is_floating_point() for a in seen[0])


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if takes_float_tensors(e)], ids=lambda e: e.name)
def test_input_changed_in_place(exercise):
    def spoil(result, args):
        result = map_tensors(Tensor.clone, result)  # it may be a view of the input
        for argument in args:
            if isinstance(argument, Tensor) and argument.is_floating_point():
                argument.data.add_(1.0)
        return result

    report = report_on(exercise, spoiled(exercise, spoil))
    assert report.outcome == "wrong" and 0 < report.points < exercise.max_points
    assert "in place" in failed_message(report)


# --- the exercises together -----------------------------------------------------------------------------


def test_every_exercise_has_hidden_cases():
    assert set(all_hidden()) == set(all_exercises())


def test_references_are_documented():
    for exercise in EXERCISES:
        assert inspect.getdoc(exercise.reference), exercise.name
