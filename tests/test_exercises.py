"""What every exercise in which something is built has to prove, whatever it is about."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from autograder.classroom.seed import PUBLIC
from autograder.hidden import all_hidden, check_hidden, conceal
from course_lib.checking import bench
from course_lib.checking.diagnosis import deed_of, sentence_of
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import grade, refusal
from course_lib.checking.report import Report
from course_lib.checking.subject import Subject, same_answer
from course_lib.exercises import TOPICS, all_exercises, exercises_to_build

EXERCISES = list(exercises_to_build().values())
OUR_SLIP = re.compile(r"raised (NameError|AttributeError: module )")


def of_each(exercises):
    """All tests of one exercise run in one process: they share its hidden cases, and what its programs answer."""
    group = pytest.mark.xdist_group
    params = [pytest.param(exercise, id=exercise.name, marks=group(exercise.name)) for exercise in exercises]
    return pytest.mark.parametrize("exercise", params)


every_exercise = of_each(EXERCISES)


def report_on(exercise: Exercise, obj) -> Report:
    return refusal(exercise, obj) or grade(exercise, Subject(obj))


def require_none(found: list[str], what_to_do: str) -> None:
    """Fail with all that was found, which pytest would shorten otherwise, and with what an author can do about it."""
    assert not found, "\n\n".join([what_to_do, *found])


def failed_message(report: Report) -> str:
    return next(check.message for check in report.checks if check.passed is False)


@every_exercise
def test_is_complete(exercise):
    assert exercise.name in all_hidden(), f"write its hidden cases in autograder/hidden/{exercise.topic}.py"
    assert len(exercise.properties) >= 4
    assert len(exercise.misconceptions) >= 5
    assert len(exercise.alternatives) >= 3
    assert len(exercise.hints) >= 3
    assert exercise.difficulty in (1, 2, 3) and exercise.minutes > 0
    assert sum(prop.points > 0 for prop in exercise.properties) >= 2
    ids = [m.__name__ for m in exercise.misconceptions]
    assert len(set(ids)) == len(ids)


@every_exercise
def test_misconceptions_speak_in_sentences(exercise):
    paragraphs = {wrong.__name__: inspect.getdoc(wrong).split("\n\n") for wrong in exercise.misconceptions}
    cut = [f"{name}: {said}" for name, all_said in paragraphs.items() for said in all_said if not is_sentence(said)]
    require_none(cut, "Students read the docstrings of misconceptions: each paragraph ends a sentence.")


def is_sentence(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "?", "…", ")"))


@every_exercise
def test_cases_and_answers_have_the_arguments_of_the_reference(exercise):
    names = list(inspect.signature(exercise.reference).parameters)
    if not exercise.is_class:
        for case in exercise.cases:
            expected = [name for name in names if name in case]
            assert list(case) == expected, f"the arguments of the case {case} are not those of {exercise.call}"
    others = [*exercise.misconceptions, *exercise.alternatives]
    odd = [each.__name__ for each in others if not takes_as_many(each, len(names))]
    require_none(odd, f"These cannot be called as {exercise.call}:")


def takes_as_many(program, count: int) -> bool:
    try:
        inspect.signature(program).bind(*[None] * count)
    except TypeError:
        return False
    return True


@every_exercise
def test_reference_is_right(exercise):
    report = report_on(exercise, exercise.reference)
    assert report.passed, str(report)
    assert report.points == report.max_points == exercise.max_points
    assert check_hidden(exercise.name, exercise.reference, PUBLIC).passed, on_hidden_cases(exercise, exercise.reference)


def on_hidden_cases(exercise: Exercise, program) -> str:
    """The report that no student sees: with the hidden case on which it fails."""
    return f"on the hidden cases: {grade(exercise, Subject(program), all_hidden()[exercise.name].cases(PUBLIC))}"


@every_exercise
def test_alternatives_get_full_points(exercise):
    reports = {right: report_on(exercise, right) for right in exercise.alternatives}
    refused = [f"{right.__name__}: {report}" for right, report in reports.items() if not report.passed]
    what_to_do = "The check refuses these alternatives. If they are right, make it accept them."
    require_none(refused, what_to_do)
    assert {report.points for report in reports.values()} == {exercise.max_points}
    reports = {right: check_hidden(exercise.name, right, PUBLIC) for right in exercise.alternatives}
    refused = [right for right, report in reports.items() if not report.passed]
    require_none([f"{right.__name__}, {on_hidden_cases(exercise, right)}" for right in refused], what_to_do)


@every_exercise
def test_misconceptions_are_rejected_and_named(exercise):
    reports = {wrong: report_on(exercise, wrong) for wrong in exercise.misconceptions}
    broken = [f"{wrong.__name__}: {report}" for wrong, report in reports.items() if is_broken(report)]
    require_none(broken, "These misconceptions have a mistake of their own: they name something that does not exist.")
    accepted = [f"{wrong.__name__}: {report}" for wrong, report in reports.items() if not is_rejected(report)]
    require_none(accepted, "The check accepts these misconceptions. Add a case or a property that refuses them.")
    nameless = [
        f"{wrong.__name__} is called {report.misconception}: {report}"
        for wrong, report in reports.items()
        if not is_named(wrong, report)
    ]
    require_none(
        nameless,
        "These misconceptions are not named as themselves. If one gets the name of another, which does the same on all "
        "cases, add a case in which the two differ, or drop one of them.",
    )
    for case, answer in exercise.wanted.values():
        assert same_answer(answer, exercise.reference(**case)), "a property has changed the right answer that is kept"


def is_rejected(report: Report) -> bool:
    return report.outcome in ("wrong", "raised") and (report.points < report.max_points or is_advised(report))


def is_broken(report: Report) -> bool:
    return report.outcome == "raised" and OUR_SLIP.search(str(report)) is not None


def is_advised(report: Report) -> bool:
    """Whether nothing fails but advice, which costs no point."""
    return report.checks[-1].passed is False and report.checks[-1].max_points == 0


def is_named(wrong, report: Report) -> bool:
    text = " ".join(str(report).split())
    if report.outcome == "raised" and report.misconception is None:
        # An error alone proves nothing: the misconception is given as a common cause, unless it is one of several.
        return deed_of(wrong) in text or not report.advice
    return report.misconception == wrong.__name__ and sentence_of(wrong) in text


@every_exercise
def test_misconceptions_fail_the_hidden_cases_too(exercise):
    """The mistake need not be named again: that is done with the visible cases."""
    hidden = all_hidden()[exercise.name]
    cases = hidden.cases(PUBLIC)
    found = [(wrong, grade(exercise, Subject(wrong), cases, is_diagnosed=False)) for wrong in exercise.misconceptions]
    accepted = [wrong.__name__ for wrong, report in found if not is_rejected(report)]
    require_none(accepted, "On the hidden cases these misconceptions are right. Add a case on which they show.")
    reports = [(wrong, conceal(hidden, report)) for wrong, report in found if not is_advised(report)]
    assert [wrong.__name__ for wrong, report in reports if report.points != 0] == []
    assert {report.max_points for _, report in reports} == {hidden.points}
    assert not any("On the input" in str(report) for _, report in reports)


@every_exercise
def test_the_report_on_the_hidden_cases_names_the_mistake_and_shows_no_case(exercise):
    wrong = exercise.misconceptions[0]
    report = check_hidden(exercise.name, wrong, PUBLIC)
    assert report.points == 0
    assert report.misconception == report_on(exercise, wrong).misconception
    assert "On the input" not in str(report)


# --- answers that are broken in general -----------------------------------------------------------------


def spoiled(exercise: Exercise, spoil):
    """The reference with `spoil(result, args)` between it and the caller."""
    if not exercise.is_class:
        return lambda *args: spoil(exercise.reference(*args), args)
    name = method_asked(exercise)
    right = getattr(exercise.reference, name)
    spoiled_method = {name: lambda self, *args: spoil(right(self, *args), args)}
    return type("Spoiled", (exercise.reference,), spoiled_method)


def method_asked(exercise: Exercise) -> str:
    """The method of a class that is asked first: of a module, `forward`; of another class, the first one it has."""
    if issubclass(exercise.reference, torch.nn.Module):
        return "forward"
    return next(name for name in vars(exercise.reference) if not name.startswith("_"))


def map_tensors(function, result):
    if isinstance(result, Tensor):
        return function(result)
    if isinstance(result, tuple):
        return tuple(map_tensors(function, item) for item in result)
    return result


def first_call(exercise: Exercise) -> tuple[tuple, object]:
    """The arguments of the first call that a check makes, and what the reference answers."""
    seen = []
    answer = spoiled(exercise, lambda result, args: seen.append((args, result)) or result)
    report = grade(exercise, Subject(answer), exercise.cases[:1])
    assert seen, f"{exercise.topic}: the reference {exercise.name} gives no answer to the first case.\n{report}"
    return seen[0]


FIRST_CALLS = {exercise.name: first_call(exercise) for exercise in EXERCISES}


def returns_tensors(exercise: Exercise) -> bool:
    """Whether the answer is a tensor or a tuple of tensors, rather than a number or a list."""
    _, result = FIRST_CALLS[exercise.name]
    return isinstance(result[0] if isinstance(result, tuple) else result, Tensor)


every_tensor_exercise = of_each(exercise for exercise in EXERCISES if returns_tensors(exercise))


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
    args, _ = FIRST_CALLS[exercise.name]
    return any(isinstance(a, Tensor) and a.is_floating_point() for a in args)


@of_each(exercise for exercise in EXERCISES if takes_float_tensors(exercise))
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


@pytest.mark.parametrize("topic", TOPICS)
def test_each_file_has_an_exercise_of_its_own(topic):
    folder = Path(sys.modules["course_lib.exercises"].__file__).with_name(topic)
    files = sorted({path.stem for path in folder.glob("*.py")} - {"__init__", "shared"})
    names = sorted(exercise.name for exercise in all_exercises().values() if exercise.topic == topic)
    assert len(files) == len(names), (
        f"the files {', '.join(files)} make the exercises {', '.join(names)}: a file is not imported in __init__.py, "
        "or has the reference of another exercise"
    )


def test_references_are_documented():
    for exercise in EXERCISES:
        assert inspect.getdoc(exercise.reference), exercise.name


# --- answers that do nothing ------------------------------------------------------------------------------


def filled_with(fill, result):
    """The result with other contents: of tensors, and of numbers, texts, lists and dicts."""
    if isinstance(result, Tensor):
        return fill(result)
    if isinstance(result, tuple | list):
        return type(result)(filled_with(fill, item) for item in result)
    if isinstance(result, dict):
        return {key: filled_with(fill, value) for key, value in result.items()}
    if isinstance(result, str):
        return "".join(chr(filled_with(fill, ord(character))) for character in result)
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
            else object_that(lambda right, args, fill=fill: filled_with(fill, right(*args)), exercise),
        )
    for position in range(4):
        yield (
            f"argument {position}",
            (lambda *args, position=position: args[position % len(args)])
            if not exercise.is_class
            else object_that(lambda right, args, position=position: args[position % len(args)], exercise),
        )


def result_of(exercise: Exercise, args):
    """What the reference returns; a loss, where it would train the model that it is given."""
    return 0.5 if isinstance(args[0], torch.nn.Module) else exercise.reference(*args)


def object_that(answer, exercise: Exercise):
    """A class whose objects give a wrong answer; for modules, one without parameters."""
    if issubclass(exercise.reference, torch.nn.Module):
        return module_that(answer, exercise)
    name = method_asked(exercise)
    right = getattr(exercise.reference, name)
    method = {name: lambda self, *args: answer(lambda *same: right(self, *same), args)}
    return type("Nonsense", (exercise.reference,), method)


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
        assert report.points <= exercise.max_points / 4, f"{name} earns more than a quarter of the points: {report}"
