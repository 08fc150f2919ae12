"""What every exercise has to prove, whatever it is about."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor

from autograder.hidden import all_hidden, check_hidden
from autograder.seed import PUBLIC
from course_lib.checking import bench
from course_lib.checking.diagnosis import deed_of, sentence_of
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
    text = " ".join(str(report).split())
    if report.outcome == "raised" and report.misconception is None:
        # An error alone is no proof: the misconception is a common cause, unless it is one of several.
        assert deed_of(wrong) in text or not report.advice, report
    else:
        assert report.misconception == wrong.__name__, report
        assert sentence_of(wrong) in text


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


# --- answers that do nothing ------------------------------------------------------------------------------


def filled_with(fill, result):
    """The result with other contents: of tensors, and of numbers, lists and dicts."""
    if isinstance(result, Tensor):
        return fill(result)
    if isinstance(result, tuple | list):
        return type(result)(filled_with(fill, item) for item in result)
    if isinstance(result, dict):
        return {key: filled_with(fill, value) for key, value in result.items()}
    if isinstance(result, bool) or not isinstance(result, int | float):
        return result
    return type(result)(fill(torch.tensor(float(result))).item())


def identity_like(tensor: Tensor) -> Tensor:
    if tensor.dim() < 2:
        return torch.ones_like(tensor)
    return torch.eye(*tensor.shape[-2:]).to(tensor.dtype).expand(tensor.shape).clone()


def nonsense(exercise: Exercise):
    """Answers that need no idea: nothing but zeros, ones or the identity, and each of the arguments."""
    for fill in (torch.zeros_like, torch.ones_like, identity_like):
        yield (
            fill.__name__,
            (lambda *args, fill=fill: filled_with(fill, result_of(exercise, args)))
            if not exercise.is_class
            else module_that(lambda built, args, fill=fill: filled_with(fill, built(*args)), exercise),
        )
    for position in range(4):
        yield (
            f"argument {position}",
            (lambda *args, position=position: args[position % len(args)])
            if not exercise.is_class
            else module_that(lambda built, args, position=position: args[position % len(args)], exercise),
        )


def result_of(exercise: Exercise, args):
    """What the reference returns; a loss, where it would train the model that it is given."""
    return 0.5 if isinstance(args[0], torch.nn.Module) else exercise.reference(*args)


def module_that(forward, exercise: Exercise):
    class Nonsense(torch.nn.Module):
        def __init__(self, *args):
            super().__init__()
            self.hidden_from_torch = [exercise.reference(*args).eval()]  # it has no parameters of its own

        def forward(self, *args):
            return forward(self.hidden_from_torch[0].to(bench.dtype_of(args) or torch.float32), args)

    return Nonsense


@every_exercise
def test_nonsense_earns_at_most_a_quarter(exercise):
    for name, answer in nonsense(exercise):
        report = report_on(exercise, answer)
        assert report.points <= exercise.max_points / 4, (name, report)
