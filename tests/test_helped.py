"""Who needs help, and what the exercises tell about a class."""

from __future__ import annotations

import pytest

from autograder.judging.verdict import ExerciseVerdict, Verdict
from autograder.reporting.gradebook import Mark
from autograder.reporting.helped import who_needs_help
from autograder.reporting.items import exercise_items, written_items
from course_lib.exercises import all_exercises

NAMES = ("padding_mask", "masked_softmax", "causal_mask", "cross_mask")


def answer(name: str, outcome: str = "right", points: float = 4.0, hidden: float = 1.0) -> ExerciseVerdict:
    return ExerciseVerdict(name, outcome, points, 4.0, hidden, 1.0)


def verdict(student: str, *outcomes: str) -> Verdict:
    points = {"right": (4.0, 1.0)}
    answers = tuple(answer(name, o, *points.get(o, (0.0, 0.0))) for name, o in zip(NAMES, outcomes))
    return Verdict(student, "02_masks", "graded", "", answers)


def reasons(found, percents, everybody=(), handed_in=()):
    needing = who_needs_help("02_masks", found, everybody, handed_in, {"02_masks": percents})
    return {one.student: " ".join(one.reasons) for one in needing}


def test_blank_half_done_in_errors_and_low():
    empty = "not attempted"
    found = [
        verdict("blank", empty, empty, empty, empty),
        verdict("half", "right", "right", empty, empty),
        verdict("gaps", empty, "right", empty, "right"),
        verdict("errors", "right", "raised", "raised", "raised"),
        verdict("low", "right", "wrong", "wrong", "wrong"),
        verdict("one_gap", "right", "right", "right", empty),
        verdict("fine", "right", "right", "right", "wrong"),
    ]
    percents = {"blank": 0, "half": 50, "gaps": 50, "errors": 25, "low": 25, "one_gap": 75, "fine": 75}
    assert reasons(found, percents) == {
        "blank": "Handed in the notebook without a single answer.",
        "half": "No answer to 2 of 4 exercises: stopped before `causal_mask`.",
        "gaps": "No answer to 2 of 4 exercises.",
        "errors": "3 of 4 answers end in an error. Answered nearly everything, but only 25\u00a0% is right.",
        "low": "Answered nearly everything, but only 25\u00a0% is right.",
    }


def test_who_is_absent_comes_first_and_flagged_ones_are_not_absent():
    found = [verdict("half", "right", "right", "not attempted", "not attempted")]
    found.append(Verdict("flagged", "02_masks", "flagged", "Odd."))
    found.append(Verdict("text", "02_masks", "zeroed", "No notebook was handed in."))
    percents = {"02_masks": {"half": 50.0}, "01_dot": {"half": 50.0, "gone": 90.0}}
    everybody = ["half", "flagged", "waits", "gone", "never", "text"]
    needing = who_needs_help("02_masks", found, everybody, ["waits"], percents)
    assert [(one.student, one.reasons[0]) for one in needing][:3] == [
        ("never", "Has handed in nothing, nor anything in 1 other assignment."),
        ("gone", "Has handed in nothing."),
        ("text", "No notebook was handed in."),
    ]
    assert {one.student for one in needing} == {"never", "gone", "text", "half"}


@pytest.mark.parametrize(("score", "falls"), [(55.0, True), (70.0, False)])
def test_far_below_the_usual_is_measured_against_the_class(score, falls):
    """The class has 90 % elsewhere and 80 % here; this student has 92 % elsewhere, so 82 % is expected here."""
    others = {f"s{i}": 90.0 for i in range(5)} | {"eva": 92.0}
    here = {f"s{i}": 80.0 for i in range(5)} | {"eva": score}
    needing = who_needs_help(
        "02_masks",
        [verdict("eva", "right", "right", "right", "wrong")],
        [],
        [],
        {"00": others, "01": others, "02_masks": here},
    )
    said = [reason for one in needing for reason in one.reasons]
    assert said == (["55\u00a0%, although their other assignments suggest 82\u00a0%."] if falls else [])


def test_one_other_assignment_makes_no_usual():
    percents = {"01": {"eva": 100.0, "max": 100.0}, "02_masks": {"eva": 60.0, "max": 100.0}}
    assert not who_needs_help("02_masks", [verdict("eva", "right", "right", "right", "wrong")], [], [], percents)


# --- items ------------------------------------------------------------------------------------------------------------


def class_of(good: int, bad: int, in_one: str = "causal_mask") -> list[Verdict]:
    """Some have everything, some fail one exercise and half of the rest."""
    everything = [Verdict(f"g{i}", "02_masks", "graded", "", tuple(map(answer, NAMES))) for i in range(good)]
    failing = tuple(
        answer(name, "wrong", 1.0 if name == in_one else 2.0, 0.0 if name == in_one else 1.0) for name in NAMES
    )
    return everything + [Verdict(f"b{i}", "02_masks", "graded", "", failing) for i in range(bad)]


def test_difficulty_discrimination_and_hidden_cases():
    items = {item.name: item for item in exercise_items(class_of(9, 3))}
    item = items["causal_mask"]
    assert list(items) == list(NAMES) and item.students == 12
    assert item.share == pytest.approx((9 * 5 + 3 * 1) / 60)
    assert item.visible == pytest.approx((9 * 4 + 3 * 1) / 48) and item.hidden == pytest.approx(9 / 12)
    assert item.discrimination == pytest.approx(1.0)
    assert exercise_items(class_of(3, 3))[0].discrimination is None, "six are too few"
    assert exercise_items(class_of(12, 0))[0].remark == "Nearly everybody gets it right."


def test_an_exercise_that_the_better_ones_fail_is_named():
    pairs = [
        (answer("padding_mask", "wrong", i % 5, 0), answer("cross_mask", "wrong", 4 - i % 5, 0)) for i in range(20)
    ]
    mixed = [Verdict(f"s{i}", "02_masks", "graded", "", pair) for i, pair in enumerate(pairs)]
    assert {item.remark for item in exercise_items(mixed)} == {
        "Those who did well elsewhere fail here. Is the question clear?"
    }


def test_one_slip_of_a_good_student_does_not_accuse_an_exercise():
    """One of twelve loses one exercise and nothing else, and others are worse elsewhere."""
    right = ["right"] * 4
    found = [verdict(f"good{i}", *right) for i in range(9)]
    found += [verdict(f"weak{i}", *right[:3], "wrong") for i in range(2)]
    found.append(verdict("slip", "right", "right", "wrong", "right"))
    items = {item.name: item for item in exercise_items(found)}
    assert -0.2 < items["causal_mask"].discrimination < 0
    assert items["causal_mask"].remark == "Tells little about who did well elsewhere."


def test_properties_are_counted_among_those_who_got_there():
    exercise = all_exercises()["causal_mask"]
    first, second, *_ = exercise.properties
    stops = [0.0, first.points, first.points + second.points, exercise.max_points]
    found = [
        Verdict(f"s{i}", "02_masks", "graded", "", (answer("causal_mask", "wrong", p),)) for i, p in enumerate(stops)
    ]
    found.append(Verdict("blank", "02_masks", "graded", "", (answer("causal_mask", "not attempted", 0.0, 0.0),)))
    (item,) = exercise_items(found)
    assert [(s.reached, s.passed) for s in item.steps[:2]] == [(4, 3), (3, 2)]
    assert item.hardest in item.steps and item.hardest.lost() == 1


def test_written_answers_count_when_they_are_marked():
    found = class_of(2, 1)
    marks = [
        Mark("g0", "why", 2.0, 2.0, False, False, ""),
        Mark("g1", "why", 2.0, None, False, False, ""),
        Mark("b0", "why", 2.0, None, True, False, ""),
        Mark("stranger", "why", 2.0, 1.0, False, False, ""),
    ]
    (item,) = written_items(marks, found)
    assert (item.students, item.waiting, item.blank, item.share) == (2, 1, 1, 0.5)
