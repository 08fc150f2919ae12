"""The check engine itself: what it says, what it tolerates, what it keeps to itself."""

from __future__ import annotations

import itertools
import sys
import warnings

import pytest
import torch
from torch import nn

from course_lib.checking.bench import Bench, Opaque, StudentError, plain
from course_lib.checking.difference import Difference, describe_shape_mismatch
from course_lib.checking.exercise import Property
from course_lib.checking.expect import Failure, as_shape, expect_equal, expect_mask, is_close
from course_lib.checking.grading import grade
from course_lib.checking.inputs import AffineMap
from course_lib.checking.memory import Memory, Moment
from course_lib.checking.merge import merged
from course_lib.checking.ours import ask, known_answers
from course_lib.checking.properties import Examination
from course_lib.checking.report import CheckResult, Report
from course_lib.checking.subject import Event, Subject, same_trace
from course_lib.checking.twins import constructor
from course_lib.exercises import all_exercises, exercises_to_build, masks, sublayers

CAUSAL = masks.causal_mask
ATTENTION = masks.masked_attention
LAYER_NORM = sublayers.layer_norm


def report_on(exercise, obj):
    return grade(exercise, Subject(obj))


def text(report):
    """The report on one line, so that line breaks do not matter."""
    return " ".join(str(report).split())


# --- reports --------------------------------------------------------------------------------------------


def test_report_names_the_mistake_and_stops_at_the_first_failure():
    report = report_on(CAUSAL, lambda n: torch.ones(n, n).tril(1))
    assert report.outcome == "wrong"
    assert (report.points, report.max_points, report.passed) == (1.0, 4.0, False)
    assert [check.passed for check in report.checks] == [True, False, None, None]
    assert report.misconception == "peeks_one_ahead"
    assert "each position sees one step into the future" in text(report)
    assert "1 of 4 points" in text(report)
    assert "(not reached)" in text(report)
    assert 'hint("causal_mask")' in text(report)


def test_right_answer_has_nothing_to_explain():
    report = report_on(CAUSAL, lambda n: torch.ones(n, n).tril())
    assert report.passed and report.misconception is None
    assert "hint" not in str(report)


def test_two_mistakes_are_named_as_a_pair():
    def two_mistakes(q, k, v, mask):
        scores = torch.einsum("...id,...jd->...ij", q, k) / q.size(-1)  # no root, and masked too late
        weights = torch.softmax(scores, -1) * mask
        return weights @ v, weights

    report = report_on(ATTENTION, two_mistakes)
    assert set(report.misconception.split(" + ")) == {"masks_after_the_softmax", "divides_by_d_k"}
    assert "after the softmax" in text(report) and "square root" in text(report)


def test_unknown_mistake_shows_the_first_difference():
    def unknown(n):
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        if n > 1:
            mask[-2, 0] = False
        return mask

    report = report_on(CAUSAL, unknown)
    assert report.misconception is None
    assert "On the input n = 4" in text(report)
    assert "First difference at index [2, 0]: expected True, got False." in text(report)
    assert "yours − expected" in report.as_html()


def test_html_escapes_what_comes_from_students_and_shows_code_as_code():
    failed = CheckResult("p", False, "`<script>alert(1)</script>` is not `view`.", 0.0, 1.0)
    page = Report("x", "wrong", (failed,)).as_html()
    assert "<script>" not in page and "is not <code>view</code>." in page


def test_mimebundle_in_a_terminal_is_the_whole_text():
    bundle = report_on(CAUSAL, lambda n: torch.ones(n, n))._repr_mimebundle_()
    assert bundle["text/plain"].startswith("causal_mask")
    assert "course-report" in bundle["text/html"]


# --- subjects -------------------------------------------------------------------------------------------


def test_students_output_and_warnings_stay_inside(capfd):
    def noisy(n):
        print("debugging")
        print("on stderr", file=sys.stderr)
        warnings.warn("a warning", stacklevel=1)
        return torch.ones(n, n).tril()

    assert report_on(CAUSAL, noisy).passed
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_students_random_stream_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    report_on(CAUSAL, lambda n: torch.rand(n, n) > 0.5)
    assert torch.equal(torch.rand(1), expected)


def test_random_answers_are_the_same_for_everyone():
    first, second = (Subject(lambda n: torch.rand(n))(3) for _ in range(2))
    assert torch.equal(first, second)


def test_exit_is_an_error_like_any_other():
    report = report_on(CAUSAL, lambda n: sys.exit(1))
    assert report.outcome == "raised" and report.points == 0


def test_not_implemented_later_on_is_not_attempted():
    def half(n):
        if n > 3:
            raise NotImplementedError
        return torch.ones(n, n)

    assert report_on(CAUSAL, half).outcome == "not attempted"


def test_gradient_is_zero_where_nothing_flows():
    subject = Subject(lambda x, y: (x * 2, None))
    x, y = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    assert subject.gradient(x, y, wrt=0).tolist() == [2, 2, 2]
    assert subject.gradient(x, y, wrt=0, at=(1,)).tolist() == [0, 2, 0]
    assert subject.gradient(x, y, wrt=1).tolist() == [0, 0, 0]


def test_changed_inputs_are_noticed_but_not_passed_on():
    x = torch.zeros(2)
    subject = Subject(lambda x: x.add_(1))
    subject(x)
    assert subject.changed_inputs == {"0"} and x.tolist() == [0, 0]


def test_so_are_changes_inside_of_a_function_that_is_an_argument():
    """A case is asked many times, and every question has it as it was."""
    layer = AffineMap(torch.eye(2), torch.zeros(2))
    subject = Subject(lambda x, layer: layer.bias.add_(1) + layer(x))
    answers = [subject(torch.ones(1, 2), layer).tolist() for _ in range(2)]
    assert answers == [[[3, 3]], [[3, 3]]]
    assert subject.changed_inputs == {"1"} and layer.bias.tolist() == [0, 0]


def test_a_result_that_an_operation_stumbles_over_is_an_answer_like_any_other():
    """So the judge, whose operations run in another process, hears what the notebook hears."""
    subject = Subject(lambda x: x[:1])
    with pytest.raises(Failure, match="could not be examined"):
        subject.gradient(torch.ones(3), wrt=0, at=(2,))
    assert [(event.question, event.answer) for event in subject.trace] == [("gradient", "not possible")]


def test_only_plain_data_comes_out():
    class Sneaky(torch.Tensor):
        pass

    assert type(plain(torch.ones(2).as_subclass(Sneaky))) is torch.Tensor
    assert plain({"a": object}) == {"a": Opaque("type")}
    assert plain((1, [2.0, None], "x")) == (1, [2.0, None], "x")


# --- tolerance ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (3, 1, 4), (3, 1, 1, 4)])
def test_mask_shapes_that_mean_the_same_are_accepted(shape):
    want = torch.rand(3, 4) > 0.5
    for dtype in (torch.bool, torch.int64, torch.float32):
        expect_mask(want.reshape(shape).to(dtype), want)


def test_broadcastable_mask_is_accepted_and_other_shapes_are_not():
    assert as_shape(torch.ones(2, 1, 5), (2, 3, 5)).shape == (2, 3, 5)
    assert as_shape(torch.ones(2, 1, 3, 5), (2, 3, 5)).shape == (2, 3, 5)
    assert as_shape(torch.ones(5, 3), (3, 5)) is None


def test_numbers_may_be_tensors_or_floats():
    expect_equal(torch.tensor(3), 3)
    expect_equal(3.0000001, 3)
    with pytest.raises(Failure, match="should be 3, but it is 4"):
        expect_equal(4, 3)


# --- differences in words -------------------------------------------------------------------------------

WANT = torch.tensor([[1.0, 2.0, 4.0], [3.0, -1.0, 0.5], [2.0, 7.0, -2.0]])


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (2.5 * WANT, "2.5 times"),
        (WANT + 3, "plus 3"),
        (WANT.T, "transpose"),
        (WANT.flip(0), "reverse order along axis 0"),
        (WANT.roll(1, 1), "shifted by one place along axis 1"),
        (torch.zeros(3, 3), "All your values are 0"),
    ],
)
def test_simple_relations_are_told(got, words):
    assert words in Difference(got, WANT).in_words()


@pytest.mark.parametrize("axis", [0, 1])
def test_one_line_in_a_neighbours_place_is_not_said_to_be_the_whole_moved(axis):
    got = WANT.clone()
    got.select(axis, 2).copy_(WANT.select(axis, 1))
    assert "moved" not in Difference(got, WANT).in_words()


def test_inverted_mask_is_told():
    want = torch.tensor([[True, False], [True, True]])
    assert "inverted" in Difference(~want, want).in_words()


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        ((2, 4, 3), (2, 3, 4), "another order"),
        ((2, 1, 3), (2, 3), "too many"),
        ((2, 3), (2, 1, 3), "missing"),
        ((3,), (2, 3, 5), "1 axis instead of 3"),
    ],
)
def test_shape_slips_are_told(got, want, words):
    assert words in describe_shape_mismatch(got, want, "The result")


# --- merging two mistakes -------------------------------------------------------------------------------


def test_mistakes_in_the_same_place_cannot_be_merged():
    wrong = {mistake.__name__: mistake for mistake in CAUSAL.misconceptions}
    assert merged(CAUSAL.reference, wrong["hides_the_diagonal"], wrong["peeks_one_ahead"]) is None


def test_edits_that_touch_are_not_merged():
    """`-1` changed to `-2` and to `1` does not give `2`."""
    wrong = {mistake.__name__: mistake for mistake in LAYER_NORM.misconceptions}
    assert merged(LAYER_NORM.reference, wrong["NormalisesOverTime"], wrong["NormalisesAlongAxisOne"]) is None


def test_two_mistakes_are_named_both_or_by_what_they_look_like():
    """Two mistakes may cancel out, or look like a third. What is said about a pair is said about just these two."""
    named = described = 0
    for exercise in exercises_to_build().values():
        for first in exercise.misconceptions[:3]:
            for second in exercise.misconceptions[3:6]:
                both = merged(exercise.reference, first, second)
                found = report_on(exercise, both).misconception if both else None
                if found is not None and " + " in found:
                    named += 1
                    assert set(found.split(" + ")) == {first.__name__, second.__name__}
                if found is not None and found.startswith("both#"):
                    described += 1
                    assert set(found.removeprefix("both#").split("&")) == {first.__name__, second.__name__}
    assert named > 0 and described > 0


# --- programs of ours, asked sparingly ------------------------------------------------------------------


def asks_thrice(subject, case):
    for number in case["numbers"]:
        subject(number)


def asks_in_secret(subject, case):
    with subject.unobserved():
        subject(case["numbers"][0])
    subject(case["numbers"][1])


def events(*numbers):
    return [Event("call", number) for number in numbers]


def test_after_an_unexpected_answer_nothing_more_is_asked():
    asked = []
    question = Property("three numbers", 1, asks_thrice), {"numbers": [1, 2, 3]}

    def double(number):
        asked.append(number)
        return 2 * number

    other = known_answers(double, question, events(2, 5, 6))
    assert asked == [1, 2] and not other.is_complete and not other.are(events(2, 5, 6))
    assert known_answers(double, question, events(2, 7, 6)) is other, "this one is already known to differ"
    same = known_answers(double, question, events(2, 4, 6))
    assert asked == [1, 2, 3] and same.are(events(2, 4, 6)), "what was answered is not asked again"
    assert same.trace[:2] == other.trace


def test_what_is_asked_in_secret_is_not_compared():
    question = Property("the second number", 1, asks_in_secret), {"numbers": [1, 2]}
    assert known_answers(lambda number: 2 * number, question, events(4)).are(events(4))


@pytest.mark.parametrize("exercise", [e for e in all_exercises().values() if e.is_class], ids=lambda e: e.name)
def test_a_copied_module_answers_like_one_that_was_built(exercise):
    case = exercise.cases[0]
    for program in [exercise.reference, *exercise.misconceptions[::6]]:
        for prop in exercise.properties:
            copied = known_answers(program, (prop, case)).trace
            built = Examination(exercise, Subject(program), [case]).trace(exercise.properties.index(prop), 0)
            assert same_trace(copied, built), (program.__name__, prop.name)


def test_constructors_are_told_apart():
    class Whole(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = torch.nn.Linear(size, size)

    class SameStart(Whole):
        def forward(self, x):
            return self.linear(x)

    class OtherStart(Whole):
        def __init__(self, size):
            super().__init__(size + 1)

    class InParts(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = self.make(size)

        def make(self, size):
            return torch.nn.Linear(size, size)

    assert constructor(Whole) == constructor(SameStart) != constructor(OtherStart)
    assert constructor(InParts) is None, "`make` may be another one in a class that derives from it"


# --- devices -------------------------------------------------------------------------------------------------------


class Keeps(torch.nn.Module):
    """Adds a table that is kept as a buffer, as a plain attribute, or as a plain attribute that is moved."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        table = torch.ones(5, 3)
        if how == "buffer":
            self.register_buffer("table", table)
        else:
            self.table = table

    def forward(self, x):
        table = self.table[: x.shape[1]]
        return x + (table.to(x.device) if self.how == "moved" else table.unsqueeze(0))


@pytest.mark.parametrize(("how", "moves"), [("buffer", True), ("plain", False), ("moved", True)])
def test_a_tensor_that_would_stay_behind_is_noticed(how, moves):
    assert Subject(Keeps).build(how).moves_to_another_device(torch.zeros(2, 4, 3)) is moves


class Applies(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def filled_in(x):
    result = torch.zeros_like(x)
    result[:, 0] = torch.ones(4)
    return result.copy_(torch.arange(4.0))


@pytest.mark.parametrize(
    ("function", "is_right"),
    [
        (lambda x: x + torch.ones(4), False),
        (lambda x: x + torch.ones(4, 4).tril()[0], False),
        (lambda x: torch.stack([x, torch.ones(4, 4)]), False),
        (lambda x: torch.where(torch.ones(4).bool(), x, 0.0), False),
        (lambda x: torch.arange(4)[x.long()[0]], False),
        (lambda x: x + torch.ones(4, device=x.device), True),
        (lambda x: x + torch.ones(4, 4).tril().to(x.device), True),
        (lambda x: x + torch.ones(4).to(x), True),
        (lambda x: x + torch.ones(4).type_as(x), True),
        (lambda x: x + torch.ones_like(x) + x.new_ones(4), True),
        (lambda x: x * torch.tensor(2.0), True),
        (lambda x: x[torch.arange(4)] + x, True),
        (lambda x: x + torch.arange(4.0).expand_as(x).to(x.device), True),
        (filled_in, True),
    ],
)
def test_a_new_tensor_on_the_cpu_is_noticed_where_a_gpu_would_refuse_it(function, is_right):
    assert Subject(Applies).build(function).makes_tensors_on_the_device(torch.zeros(4, 4)) is is_right


# --- what was answered already ------------------------------------------------------------------------------------


BUILT: list[str] = []


def note_building():
    BUILT.append("once more")


class Counting(nn.Module):
    """Gives the same answer to every call, or another; BUILT counts how often it is built.

    A counter in the class itself would be something that the class keeps, and then nothing is recalled."""

    def __init__(self, is_steady):
        super().__init__()
        note_building()
        self.weight = nn.Parameter(torch.zeros(2))
        self.is_steady, self.calls = is_steady, 0

    def forward(self, x):
        self.calls += 0 if self.is_steady else 1
        return x + self.weight + self.calls


ONES, STEADY_STATE = torch.ones(2), {"weight": torch.tensor([3.0, 4.0])}


def answers_of(bench, is_steady, questions):
    """What a filled module says: c is for call, g for gradient."""
    x, built = ONES, Subject(bench).build(is_steady)
    built.load(STEADY_STATE)
    return [built(x) if question == "c" else built.gradient(x, wrt=0) for question in questions]


@pytest.mark.parametrize("is_steady", [True, False])
def test_what_is_recalled_is_what_would_be_answered(is_steady):
    start = Moment()
    for questions in ("c", "gc", "cgc", "ccc"):
        fresh = answers_of(Bench(Counting), is_steady, questions)
        recalled = answers_of(Memory(Bench(Counting), start, recalls=True), is_steady, questions)
        assert all(map(torch.equal, fresh, recalled)), questions


def test_what_is_known_is_not_asked_again():
    start, calls = Moment(), []

    def double(x):
        calls.append(x)
        return 2 * x

    x = torch.ones(2)
    for recalls, asked in ((False, 1), (False, 2), (True, 2)):
        assert torch.equal(Subject(Memory(Bench(double), start, recalls))(x), 2 * x) and len(calls) == asked
    x += 1  # the same tensor, and another question
    assert torch.equal(Subject(Memory(Bench(double), start, recalls=True))(x), 2 * x) and len(calls) == 3


def test_a_steady_module_is_built_once_more_at_most():
    start = Moment()
    BUILT.clear()
    for questions in ("gc", "cg", "gg", "cc"):
        answers_of(Memory(Bench(Counting), start, recalls=True), True, questions)
    assert 1 <= len(BUILT) <= 2


def test_what_cannot_be_recalled_is_raised_again():
    start, calls = Moment(), []

    def raises(x):
        calls.append(x)
        raise ValueError("no")

    x = torch.ones(2)
    for _ in range(2):
        with pytest.raises(StudentError, match="no"):
            Subject(Memory(Bench(raises), start, recalls=True))(x)
    assert len(calls) == 1


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_an_answer_for_which_there_was_no_memory_is_not_remembered(error):
    """One submission may fill the judge's memory. The next is compared with what our programs really answer."""
    fails = [True]

    def program(n):
        if fails:
            raise error
        return CAUSAL.reference(n)

    question = (CAUSAL.properties[0], CAUSAL.cases[0])
    with pytest.raises(MemoryError):
        known_answers(program, question)
    fails.clear()
    assert same_trace(known_answers(program, question).trace, known_answers(CAUSAL.reference, question).trace)


def test_a_diagnosis_puts_no_difference_into_words(monkeypatch):
    """It compares many programs, and nobody reads what is wrong with each."""
    words = []
    monkeypatch.setattr(Difference, "in_words", lambda self: words.append(self) or "")
    softmax = all_exercises()["softmax"]
    questions = list(itertools.product(softmax.properties, softmax.cases))
    answers = [ask(mistake, question) for mistake in softmax.misconceptions for question in questions]
    assert answers and all(each.is_complete for each in answers) and not words


STRANGE = {
    "a number beyond all others": 10**400,
    "such numbers": [-(10**400), (1, 10**400)],
    "half a character": "\ud800",
    "no number": complex("nan"),
    "imaginary": torch.ones(2, 2) * 1j,
}


@pytest.mark.filterwarnings("error")  # a student would see a warning above the report
@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("name", ["softmax", "sequence_loss", "causal_mask", "train_step"])
def test_an_answer_that_is_no_number_or_no_text_is_wrong_and_nothing_else(name, value):
    report = grade(all_exercises()[name], Subject(lambda *_: value))
    assert (report.points, report.passed) == (0, False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["softmax", "apply_rope"])
@pytest.mark.parametrize("imaginary", [0j, 1j])
def test_complex_numbers_are_not_the_real_ones_in_them(name, imaginary):
    exercise = all_exercises()[name]
    report = grade(exercise, Subject(lambda *args: exercise.reference(*args) + imaginary))
    (failed,) = [each for each in report.checks if each.passed is False]
    assert "should hold floating point numbers, but its dtype is torch.complex128" in failed.message
    assert not is_close(torch.ones(3) + 1j, torch.ones(3)) and is_close(torch.ones(3) + 0j, torch.ones(3))


# --- what a cell has changed for good --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "switch, state, setting",
    [
        (torch.set_grad_enabled, torch.is_grad_enabled, False),
        (torch.autograd.set_detect_anomaly, torch.is_anomaly_enabled, True),
    ],
)
def test_a_right_answer_is_right_whatever_autograd_is_set_to(switch, state, setting):
    """Gradients are checked, and this exercise has a row whose NaN is hidden."""
    bench, question = Bench(masks.masked_softmax.reference), masks.masked_softmax.cases[0].values()
    usual = bench.ask("gradient", [*question], 0, (0, 0), 0).value
    before = state()
    switch(setting)
    try:
        report = grade(masks.masked_softmax, Subject(bench))
        unusual = bench.ask("gradient", [*question], 0, (0, 0), 0).value
        assert state() is setting
    finally:
        switch(before)
    assert report.passed, report
    assert torch.equal(usual, unusual) and usual.any()


def test_who_switches_gradients_off_has_no_gradients():
    def without(scores, mask):
        torch.set_grad_enabled(False)
        return masks.masked_softmax.reference(scores, mask)

    report = grade(masks.masked_softmax, Subject(without))
    assert not report.passed and torch.is_grad_enabled()
