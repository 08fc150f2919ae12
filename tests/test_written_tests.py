"""Tests to write: what every such exercise has to prove, and what the engine makes of a student's test."""

from __future__ import annotations

import inspect
import random
import sys
from collections import Counter
from dataclasses import replace

import pytest
import torch

from autograder.classroom.seed import PUBLIC
from autograder.hidden import all_hidden, check_hidden, conceal
from course_lib import check
from course_lib.checking.diagnosis import sentence_of
from course_lib.checking.disguise import disguised
from course_lib.checking.grading import grade, refusal
from course_lib.checking.report import Report
from course_lib.checking.subject import Subject
from course_lib.checking.tried import Findings, shown_by
from course_lib.checking.written_test import Reply, WrittenTest, whole_points
from course_lib.exercises import written_tests

EXERCISES = list(written_tests().values())
CAUSAL = written_tests()["accepts_causal_mask"]

every_test = pytest.mark.parametrize(
    "exercise", [pytest.param(e, id=e.name, marks=pytest.mark.xdist_group(e.name)) for e in EXERCISES]
)


def report_on(exercise: WrittenTest, test) -> Report:
    return refusal(exercise, test) or grade(exercise, Subject(test))


def text_of(report: Report) -> str:
    return " ".join(str(report).split())


# --- every test to write ------------------------------------------------------------------------------------------


@every_test
def test_is_complete(exercise):
    assert len(exercise.right) >= 4
    assert 5 <= len(exercise.shown) < len(exercise.mistakes), "some mistakes are met only when it is graded"
    assert all(exercise.left_out.values())
    assert len(exercise.misconceptions) >= 5 and len(exercise.alternatives) >= 3 and len(exercise.hints) >= 3
    assert exercise.max_points == exercise.points > 0 < exercise.hidden_points


@every_test
def test_right_tests_get_every_point(exercise):
    seen = report_on(exercise, exercise.reference)
    assert seen.passed and seen.points == exercise.points, seen
    for right in (exercise.reference, *exercise.alternatives):  # what is shown is among what is hidden
        hidden = check_hidden(exercise.name, right, PUBLIC)
        assert hidden.passed and hidden.points == exercise.hidden_points, (right.__name__, hidden)


@every_test
def test_wrong_tests_are_told_what_they_come_to(exercise):
    for wrong in exercise.misconceptions:
        seen = report_on(exercise, wrong)
        assert seen.outcome == "wrong" and seen.points < exercise.points, wrong.__name__
        assert seen.misconception == wrong.__name__ and sentence_of(wrong) in text_of(seen), (wrong.__name__, seen)
    hidden = check_hidden(exercise.name, exercise.misconceptions[-1], PUBLIC)
    assert not hidden.passed and hidden.points < exercise.hidden_points
    assert "input" not in hidden.checks[0].message


@every_test
@pytest.mark.parametrize("says", [True, False])
def test_the_same_answer_to_everything_earns_nothing(exercise, says):
    assert report_on(exercise, lambda implementation: says).points == 0
    assert check_hidden(exercise.name, lambda implementation: says, PUBLIC).points == 0


@every_test
def test_every_mistake_has_an_input_that_shows_it(exercise):
    for name in exercise.mistakes:
        assert shown_by(exercise.tested.name, name).startswith("The smallest input that shows it: ")


@every_test
def test_a_disguise_changes_nothing_but_the_code(exercise):
    for original in (*exercise.right.values(), *exercise.mistakes.values()):
        (made,) = disguised(exercise.tested, original, random.Random(5)).make()
        seen, wanted = (grade(exercise.tested, Subject(one), is_diagnosed=False) for one in (made, original))
        assert (seen.outcome, seen.points) == (wanted.outcome, wanted.points), original.__name__


# --- the disguise ---------------------------------------------------------------------------------------------------


def made(name: str, seed: int = 0):
    implementation = {**CAUSAL.right, **CAUSAL.mistakes}[name]
    return disguised(CAUSAL.tested, implementation, random.Random(seed)).make()[0]


def looks(function) -> tuple:
    """What can be seen of a function without calling it, except its code and the order of its store."""
    code = function.__code__
    kinds = Counter(type(value).__name__ for value in function.__globals__.values())
    (store,) = (value for value in function.__globals__.values() if isinstance(value, list))
    named = (function.__name__, function.__qualname__, function.__module__, function.__doc__, function.__defaults__)
    return (
        *named,
        code.co_filename,
        code.co_firstlineno,
        kinds,
        Counter(map(repr, store)),
    )


NAMED = {"getattr", "range", "abs"}  # by the code of every implementation; the last two by what only takes time


def test_implementations_look_alike():
    everything = [made(name) for name in (*CAUSAL.right, *CAUSAL.mistakes)]
    assert all(looks(one) == looks(everything[0]) for one in everything)
    assert {name for one in everything for name in one.__code__.co_names if not name.startswith("_")} == NAMED
    assert {line for one in everything for *_, line in one.__code__.co_lines()} <= {1, None}
    with pytest.raises(OSError):
        inspect.getsource(everything[0])


def test_a_program_is_never_twice_the_same_code():
    codes = {(one.__code__.co_code, one.__code__.co_consts) for one in (made("peeks_one_ahead", s) for s in range(8))}
    assert len(codes) == 8


# --- the questions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("everything", "times"), [(True, 1), (False, 2)])
def test_no_round_has_two_right_implementations_or_a_mistake_twice(everything, times):
    questions = CAUSAL.questions("a class", everything)
    rounds = {case["round"] for case in questions}
    assert len(rounds) == times * len(CAUSAL.right)
    for number in rounds:
        here = [case for case in questions if case["round"] == number]
        assert sum(case["is_right"] for case in here) == 1
        assert len({case["stands_for"] for case in here}) == len(here)
    asked = Counter(case["stands_for"] for case in questions)
    mistakes = CAUSAL.mistakes if everything else CAUSAL.shown
    assert {asked[name] for name in CAUSAL.right} == {times} and {asked[name] for name in mistakes} == {2}


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("accepted", [0.2, 0.5, 0.8])
def test_guessing_does_not_pay(everything, accepted):
    dice, questions = random.Random(0), CAUSAL.questions("a class", everything)
    guesses = [[Reply(case, dice.random() < accepted) for case in questions] for _ in range(500)]
    reports = [Findings(CAUSAL, replies).report(is_diagnosed=False) for replies in guesses]
    if everything:
        reports = [conceal(all_hidden()[CAUSAL.name], report) for report in reports]
    assert sum(report.points > 0 for report in reports) <= 5


def test_the_same_program_does_not_take_the_same_time_twice():
    """Counted in calls. Otherwise some right implementations would be known by it: no mistake makes as few."""

    def calls(function) -> int:
        events: list[str] = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            function(4)
        finally:
            sys.setprofile(None)
        return len(events)

    right, wrong = (Counter(calls(made(name, s)) // 30 for s in range(40)) for name in ("by_comparison", "is_additive"))
    assert (right & wrong).total() > 20


def test_a_seed_draws_order_and_disguise_and_nothing_is_shown_of_it():
    first, again, other = (CAUSAL.questions(seed) for seed in ("one", "one", "another"))
    assert first == again != other
    assert [case["stands_for"] for case in first] != [case["stands_for"] for case in other]
    assert not {case["program"] for case in first} & {case["program"] for case in other}
    names = {case["stands_for"] for case in first} - {CAUSAL.tested.name}
    assert not [case for case in first if any(name in case["program"].source for name in names)]


# --- the report -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "caught", "points"),
    [(1, 1, 4), (1, 0, 0), (0, 1, 0), (0.5, 0.5, 0), (1, 0.99, 3), (1, 0.75, 3), (0.5, 1, 2), (0.2, 0.3, 0)],
)
def test_points_by_the_shares(accepted, caught, points):
    assert whole_points(4.0, accepted, caught) == points


def test_what_slips_through_is_named_with_the_smallest_input_that_shows_it():
    def hides_the_future(causal_mask):
        mask = causal_mask(3).double()
        return mask.shape == (3, 3) and torch.equal(mask.triu(), torch.eye(3).double()) and bool(mask[1, 0])

    report = report_on(CAUSAL, hides_the_future)
    assert report.misconception == "lets_through_sees_only_the_last_step" and report.points == 3
    assert [check.name for check in report.checks] == [
        "it accepts what is right: 6 of 6",
        "it catches the mistakes: 6 of 7",
    ]
    assert 'through, `sees_only_the_last_step`: "Each position sees itself and the one before it.' in text_of(report)
    assert "The smallest input that shows it: n = 3. There its own check says:" in text_of(report)


def test_a_right_implementation_that_is_refused_is_shown_with_its_difference():
    def wants_whole_numbers(causal_mask):
        mask = causal_mask(4)
        return mask.dtype == torch.int64 and mask.equal(torch.ones(4, 4).tril().long())

    report = report_on(CAUSAL, wants_whole_numbers)
    assert report.misconception == "refuses_causal_mask + refuses_by_comparison + refuses_inverted_upper_triangle"
    assert "Your test refuses a right implementation, `causal_mask`. It is the course's own." in text_of(report)
    assert "Also refused: `by_comparison`" in text_of(report)
    only_bool = next(wrong for wrong in CAUSAL.misconceptions if wrong.__name__ == "wants_booleans")
    said = text_of(report_on(CAUSAL, only_bool))
    assert "`row_by_row`. It returns torch.int64, where the course's own returns torch.bool." in said


def test_where_both_go_wrong_both_are_said_and_help_is_offered_once():
    text = str(report_on(CAUSAL, lambda causal_mask: causal_mask(5).equal(torch.ones(5, 5).tril(1).bool())))
    assert text.count("Your test refuses a right implementation") == 1
    assert text.count("Your test lets a mistake through, `peeks_one_ahead`") == 1
    assert text.count("Stuck?") == 1


def test_an_error_is_a_rejection():
    def asserts(causal_mask):
        for n in (1, 5):
            mask = causal_mask(n)
            assert mask.shape == (n, n)
            assert mask.tolist() == torch.ones(n, n).tril().tolist()
        return True

    assert report_on(CAUSAL, asserts).passed
    report = report_on(CAUSAL, lambda causal_mask: 1 / 0)  # the student's own line
    assert (report.outcome, report.points) == ("raised", 0)
    assert "ZeroDivisionError" in text_of(report) and "the student's own line" in text_of(report)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "None: is a `return` missing?"),
        (1, "returned 1."),
        ("yes", "'yes'"),
        ([True], "a list with 1 entry."),
        (iter([True]), "a list_iterator."),
    ],
)
def test_only_truth_values_count(answer, words):
    report = report_on(CAUSAL, lambda causal_mask: answer)
    assert (report.outcome, report.points) == ("wrong", 0)
    assert "Return True to accept, False to reject" in text_of(report) and words in text_of(report)


def test_truth_values_may_be_torchs_or_numpys():
    def want(n):
        return torch.ones(n, n).tril()

    assert report_on(CAUSAL, lambda f: torch.tensor(all(f(n).tolist() == want(n).tolist() for n in (1, 4)))).passed
    assert report_on(CAUSAL, lambda f: (f(4).double().numpy() == want(4).numpy()).all() & (f(1).dim() == 2)).passed


def test_a_stub_is_not_attempted_and_an_endless_test_is_stopped(tmp_path, monkeypatch):
    def stub(causal_mask):
        raise NotImplementedError()

    def endless(causal_mask):
        while True:
            pass

    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    assert check("accepts_causal_mask", stub, practice=True).outcome == "not attempted"
    report = check("accepts_causal_mask", endless, practice=True, seconds=0.2)
    assert (report.outcome, report.points) == ("stopped", 0)
    assert "still running after 0.2 s" in text_of(report)
    assert check("accepts_causal_mask", torch.ones(2), practice=True).points == 0


def test_a_test_that_contradicts_itself_is_not_believed():
    """It rejects each mistake when it first meets it, and accepts it the second time."""
    met = set()

    def forgetful(causal_mask):
        rows = str(causal_mask(4).tolist())
        is_new = rows not in met
        met.add(rows)
        return CAUSAL.reference(causal_mask) or not is_new

    report = report_on(CAUSAL, forgetful)
    assert report.checks[0].passed and report.points == 0


def test_an_unknown_mistake_is_refused_when_the_exercise_is_written():
    with pytest.raises(ValueError, match="causal_mask has no misconception of_another_kind"):
        replace(CAUSAL, shown=("of_another_kind",))
