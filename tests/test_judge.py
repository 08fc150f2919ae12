"""The judge and its runners: who gets which points, what is said, and what becomes of code that misbehaves."""

from __future__ import annotations

import copy
import json
import signal
import socket
import types

import nbformat
import pytest
import torch
from classroom import (
    ENOUGH,
    by_name,
    full,
    impatient_with,
    judged,
    released,
    score,
    solutions,
    submission,
    with_one_exercise,
)
from IPython.core.inputtransformer2 import TransformerManager
from torch import nn

from autograder.authoring import build
from autograder.judging import judge, work
from autograder.judging.judge import USES_THE_REFERENCE, grade_id_of
from autograder.judging.needed import could_define
from autograder.judging.work import Task
from autograder.walls.inside.walls import Limits
from autograder.walls.inside.warm import look_for_magics_only_where_they_can_be
from autograder.walls.inside.wire import Channel
from autograder.walls.runners import Clock, Runner, RunnerError, positions_in, seconds_in
from autograder.walls.warm import Silence, Warm
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]
STEM = "02_masks"


def with_answer(code, **others):
    return submission(STEM, solutions(STEM) | {"causal_mask": code} | others)


def others_are_right(result):
    return all(score(e) == full(e) for name, e in by_name(result).items() if name != "causal_mask")


# --- honest work -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", build.stems())
def test_solutions_get_every_point_and_only_what_they_need_is_run(stem):
    result = judged(stem, submission(stem, solutions(stem)))
    assert result.verdict.status == "graded"
    assert [(e.name, score(e), e.outcome) for e in result.verdict.exercises] == [
        (e.name, full(e), "right") for e in result.verdict.exercises
    ]
    assert result.verdict.notes == ()
    graded = [c for c in released(stem).cells if c.metadata.get("nbgrader", {}).get("grade") and c.cell_type == "code"]
    assert len(graded) == 2 * len(result.verdict.exercises)


@pytest.mark.parametrize("stem", build.stems())
def test_an_untouched_notebook_gets_nothing(stem):
    result = judged(stem, released(stem))
    assert result.verdict.points == 0
    assert {e.outcome for e in result.verdict.exercises} == {"not attempted"}


def test_a_notebook_may_change_its_folder():
    """As notebooks from Colab do. IPython notes it in its profile, which a runner cannot write to."""
    result = judged(STEM, with_answer("%cd .\n" + solutions(STEM)["causal_mask"]))
    assert score(by_name(result)["causal_mask"]) == full(by_name(result)["causal_mask"])


def test_a_known_mistake_is_named_and_gets_its_part():
    result = judged(STEM, with_answer("def causal_mask(n):\n    return torch.ones(n, n).tril(1)"))
    found = by_name(result)["causal_mask"]
    assert (found.points, found.hidden_points, found.outcome) == (1.0, 0.0, "wrong")
    assert found.misconception == "peeks_one_ahead"
    assert "one step into the future" in found.sentence
    assert others_are_right(result)


def test_the_judged_notebook_is_what_nbgrader_expects():
    result = judged(STEM, with_answer("def causal_mask(n):\n    return torch.ones(n, n).tril(1)"))
    notebook = nbformat.from_dict(json.loads(result.notebook))
    nbformat.validate(notebook)
    cells = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}
    (output,) = cells["causal_mask_check"].outputs
    assert output.data["text/plain"] == "1"
    assert "one step into the future" in output.data["text/html"]
    (output,) = cells["causal_mask_hidden"].outputs
    assert output.data["text/plain"] == "0"
    assert "n =" not in output.data["text/html"]


def test_helpers_in_extra_cells_and_printing_are_fine():
    notebook = with_answer("def causal_mask(n):\n    print('hello')\n    return my_triangle(n)")
    place = next(i for i, c in enumerate(notebook.cells) if c.source.startswith("def causal_mask"))
    notebook.cells.insert(place, nbformat.v4.new_code_cell("def my_triangle(n):\n    return torch.ones(n, n).tril()"))
    result = judged(STEM, notebook)
    assert result.verdict.points == result.verdict.max_points


def test_an_answer_may_use_what_a_demonstration_has_defined():
    name = "everything_allowed"  # made by the first demonstration
    code = f"def causal_mask(n):\n    assert {name} is not None\n    return torch.ones(n, n).tril()"
    assert others_are_right(result := judged(STEM, with_answer(code)))
    assert score(by_name(result)["causal_mask"]) == full(by_name(result)["causal_mask"])


def test_an_answer_that_reaches_for_a_name_in_a_roundabout_way_gets_it():
    code = (
        "import inspect\ndef causal_mask(n):\n"
        "    assert inspect.currentframe().f_globals['everything_allowed'] is not None\n"
        "    return torch.ones(n, n).tril()"
    )
    result = judged(STEM, with_answer(code))
    assert score(by_name(result)["causal_mask"]) in (0.0, full(by_name(result)["causal_mask"]))
    assert others_are_right(result)


def test_each_answer_is_judged_as_it_was_at_its_place():
    """A later cell redefines a helper: the earlier answer was right when it was checked."""
    notebook = with_answer(
        "def helper(n):\n    return torch.ones(n, n).tril()\n\ndef causal_mask(n):\n    return helper(n)"
    )
    notebook.cells.append(nbformat.v4.new_code_cell("def helper(n):\n    return None"))
    result = judged(STEM, notebook)
    assert result.verdict.points == result.verdict.max_points


def test_a_reference_of_an_earlier_exercise_may_be_used():
    """The notebook offers it: a wrong answer costs nothing further down."""
    code = "def decoder_mask(lengths, n):\n    real = reference.padding_mask(lengths, n)[:, None, :]\n"
    code += "    return real & reference.causal_mask(n)"
    wrong = "def causal_mask(n):\n    return None"
    result = judged(STEM, submission(STEM, solutions(STEM) | {"decoder_mask": code, "causal_mask": wrong}))
    assert score(by_name(result)["causal_mask"]) == 0
    assert others_are_right(result)


def test_a_demonstration_on_the_students_own_code_costs_nothing_where_that_is_wrong():
    """Inside the walls `yours` gives the course's own, once the exercise has been graded."""
    code = "def decoder_mask(lengths, n):\n    return reference.padding_mask(lengths, n)[:, None, :] & triangle(n)"
    wrong = "def causal_mask(n):\n    return None"
    notebook = submission(STEM, solutions(STEM) | {"decoder_mask": code, "causal_mask": wrong})
    place = next(i for i, c in enumerate(notebook.cells) if c.source.startswith("def decoder_mask"))
    demonstration = 'from course_lib import yours\n\ntriangle = yours("causal_mask", causal_mask)'
    notebook.cells.insert(place, nbformat.v4.new_code_cell(demonstration))
    result = judged(STEM, notebook)
    assert score(by_name(result)["causal_mask"]) == 0
    assert others_are_right(result)


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_syntax_error_costs_its_exercise_and_is_quoted():
    result = judged(STEM, with_answer("def causal_mask(n:\n    return 1"))
    found = by_name(result)["causal_mask"]
    assert (score(found), found.outcome) == (0, "raised")
    assert "SyntaxError" in found.message
    assert others_are_right(result)


def test_a_missing_name_is_said():
    result = judged(STEM, with_answer("def causal_masks(n):\n    return torch.ones(n, n).tril()"))
    assert "There is no causal_mask" in by_name(result)["causal_mask"].message
    assert others_are_right(result)


def test_an_error_is_quoted_with_its_line():
    result = judged(STEM, with_answer("def causal_mask(n):\n    return 1 / 0"))
    assert "ZeroDivisionError" in by_name(result)["causal_mask"].message
    assert "line 2:  return 1 / 0" in by_name(result)["causal_mask"].message


MISBEHAVIOUR = {
    "a loop in the answer": ("def causal_mask(n):\n    while True: pass", "did not finish within 2 seconds"),
    "a loop in the cell": ("while True: pass", "did not finish within 2 seconds"),
    "a loop that swallows interrupts": (
        "def causal_mask(n):\n  while True:\n    try:\n      while True: pass\n    except BaseException: pass",
        "did not finish within 2 seconds",
    ),
    "a loop in C": ("def causal_mask(n):\n    return 3 ** (10 ** 9)", "did not finish within 2 seconds"),
    "an exit in the answer": ("import os\ndef causal_mask(n):\n    os._exit(0)", "ended itself"),
    "an exit in the cell": ("import os\nos._exit(0)", "ended itself"),
    "a crash": ("import ctypes\ndef causal_mask(n):\n    ctypes.string_at(0)", "segmentation fault"),
    "an abort": ("import os\ndef causal_mask(n):\n    os.abort()", "aborted itself"),
}


@pytest.mark.parametrize(("code", "words"), MISBEHAVIOUR.values(), ids=MISBEHAVIOUR.keys())
def test_misbehaviour_costs_its_own_exercise_only(code, words):
    with impatient_with("causal_mask", seconds=2.0):
        result = judged(STEM, with_answer(code))
    found = by_name(result)["causal_mask"]
    assert (score(found), found.outcome) == (0, "raised")
    assert words in found.message
    assert others_are_right(result)
    assert any(words in note for note in result.verdict.notes)


def test_a_mistake_before_a_crash_is_told():
    """All questions about a property are sent together, and the process ends at the last of them."""
    code = "import os\ndef causal_mask(n):\n    if n == 7: os._exit(0)\n    return torch.ones(n, n + 1)"
    result = judged(STEM, with_answer(code))
    found = by_name(result)["causal_mask"]
    assert (score(found), found.outcome) == (0, "wrong")
    assert "(4, 5)" in found.message
    assert others_are_right(result)
    assert any("ended itself" in note for note in result.verdict.notes)


@pytest.mark.parametrize(("deed", "words"), [("os._exit(0)", "ended itself"), ("while True: pass", "did not finish")])
def test_points_are_kept_where_the_search_for_the_mistake_fails(deed, words):
    """Three properties are asked about before it is known that the second one fails; the fourth only to find out why
    it does."""
    asked = 3 * len(all_exercises()["causal_mask"].cases)
    code = f"""
import os
calls = []
def causal_mask(n):
    calls.append(n)
    if len(calls) > {asked}:
        {deed}
    return torch.ones(n, n)"""
    with impatient_with("causal_mask", seconds=2.0):
        result = judged(STEM, with_answer(code))
    found = by_name(result)["causal_mask"]
    assert (found.points, found.outcome) == (1, "wrong")
    assert "The first row allows" in found.message
    assert others_are_right(result)
    assert any(words in note for note in result.verdict.notes)


def test_a_cell_that_takes_too_long_when_it_is_run_again_costs_the_cells_after_it_nothing(monkeypatch):
    """Whether a cell finishes in time depends on how busy the machine is."""
    slow = "slow = 'a cell of one's own'"
    notebook = with_answer("import os\ndef causal_mask(n):\n    os._exit(0)")
    answer = next(i for i, cell in enumerate(notebook.cells) if grade_id_of(cell) == "padding_mask")
    notebook.cells.insert(answer, nbformat.v4.new_code_cell(slow))
    run, runners = Runner.run, []

    def slower_again(self, source, seconds):
        if source == slow:
            runners.append(self)
        is_slow = source == slow and len(runners) == 2
        return run(self, "while True: pass", 0.2) if is_slow else run(self, source, seconds)

    monkeypatch.setattr(Runner, "run", slower_again)
    result = judged(STEM, notebook)
    assert len(runners) > 1 and others_are_right(result)
    assert any("when it was run again" in note for note in result.verdict.notes)


def test_an_unknown_signal_has_its_number():
    """Signals 34 and up have no name of their own."""
    result = judged(STEM, with_answer("import os\ndef causal_mask(n):\n    os.kill(os.getpid(), 40)"))
    assert "was ended by signal 40" in by_name(result)["causal_mask"].message
    assert others_are_right(result)


def test_what_only_a_notebook_can_do_costs_no_answer():
    before = "%matplotlib inline\n!pip install -q torch\n%pip install torch\nfiles = !ls\nassert files == []\n"
    before += "@torch.compile(dynamic=True)\n@torch.compile\n"
    result = judged(STEM, with_answer(before + solutions(STEM)["causal_mask"]))
    assert score(by_name(result)["causal_mask"]) == full(by_name(result)["causal_mask"])
    assert "Not run by the grader: pip install -q torch" in result.notebook


class ShortClock(Clock):
    """The time is up when a number of questions has been asked, however fast the machine is."""

    def __init__(self, seconds, questions):
        super().__init__(seconds)
        self.questions = questions

    def at_most(self, seconds):
        self.questions -= 1
        if self.questions < 0:
            self.deadline = 0.0
        return super().at_most(seconds)


def test_what_was_graded_before_the_time_was_up_stays_graded(monkeypatch):
    """One budget for everything: restarts, second runs, demonstrations."""
    notebook = submission(STEM, solutions(STEM))
    asked = []
    monkeypatch.setattr(judge, "Clock", lambda seconds: asked.append(ShortClock(seconds, 10**9)) or asked[-1])
    in_time = judged(STEM, notebook).verdict
    assert in_time.points == 49
    half = (10**9 - asked[0].questions) // 3
    monkeypatch.setattr(judge, "Clock", lambda seconds: ShortClock(seconds, half))
    found = judged(STEM, notebook).verdict
    assert found.status == "graded" and found.digest != in_time.digest  # with more time it is graded again
    first, *_, last = found.exercises
    assert first.points == first.max_points and first.hidden_points == 0
    assert (last.points, last.outcome) == (0, "raised")
    assert "for the whole submission were used up" in last.message
    assert sum("were used up" in note for note in found.notes) == 1


def test_a_run_that_finds_no_time_keeps_what_the_run_before_it_has_found(monkeypatch):
    """A name is missing that a demonstration defines: everything is run once more, and the time is up."""
    code = "def window_mask(n, radius):\n    return eval('everything' + '_allowed')"
    trials = []

    class Trial(judge.Trial):
        def __init__(self, *details, **more):
            super().__init__(*details, **more)
            trials.append(self)
            if len(trials) == 2:
                self.submission.clock.deadline = 0.0

    monkeypatch.setattr(judge, "Trial", Trial)
    monkeypatch.setattr("autograder.judging.needed.REACHES_EVERYTHING", set())
    found = judged(STEM, submission(STEM, solutions(STEM) | {"window_mask": code}))
    assert len(trials) == 3
    assert by_name(found)["padding_mask"].points == by_name(found)["padding_mask"].max_points


def test_a_misspelt_name_does_not_run_the_demonstrations(monkeypatch):
    """In notebook 8, a typing error would otherwise cost the time of a training."""
    trials = []

    class Trial(judge.Trial):
        def __init__(self, submission, judged, to_run, **more):
            super().__init__(submission, judged, to_run, **more)
            trials.append(to_run == submission.code_cells())

    monkeypatch.setattr(judge, "Trial", Trial)
    result = judged(STEM, with_answer("def causal_mask(n):\n    return troch.ones(n, n).tril()"))
    assert "troch" in by_name(result)["causal_mask"].message
    assert trials == [False, False]


@pytest.mark.parametrize("stem", build.stems())
def test_no_notebook_has_a_demonstration_that_could_define_any_name(stem):
    """Then a misspelt name would run them all: a training in notebooks 8 and 9."""
    rebuilt = work.rebuilt(Task(stem, "student", json.dumps(released(stem)), json.dumps(released(stem)), ""))
    one = judge.Submission(rebuilt, None, ENOUGH, Limits(), "", Clock(1.0))
    skipped = one.code_cells() - one.needed_cells()
    assert skipped
    assert not could_define({"troch"}, [one.cells[i].source for i in skipped])


def test_code_that_ends_its_process_in_every_answer_is_given_up():
    answers = {name: f"import os\ndef {name}(*args):\n    os._exit(0)" for name in solutions(STEM)}
    result = judged(STEM, submission(STEM, answers))
    assert result.verdict.status == "graded"
    assert result.verdict.points == 0
    assert len(result.verdict.exercises) == 8


def test_a_lost_warm_process_is_replaced():
    work.warm_process().process.kill()
    result = judged(STEM, with_answer("def causal_mask(n):\n    return torch.ones(n, n).tril()"))
    assert result.verdict.points == result.verdict.max_points


class Slow:
    """A warm process on a machine so busy that news of a runner's end takes a second."""

    def fork(self, limits):
        ours, theirs = socket.socketpair()
        Channel(theirs).send({"walls": []})
        theirs.close()
        return 7, ours

    def hear_of_the_end(self, pid, seconds):
        if seconds < 1:
            raise Silence
        return {"ended": pid, "peak": 0, "cpu": 0.0, "status": signal.SIGSEGV}

    def tell(self, order):
        pass


def test_how_a_runner_ended_is_told_on_a_busy_machine_too():
    runner = Runner(Slow(), Limits())
    with pytest.raises(RunnerError, match="segmentation fault"):
        runner.request(1, "run", source="")


def test_a_warm_process_that_cannot_start_flags_the_submission(monkeypatch):
    def broken(*_):
        from autograder.walls.warm import WarmError

        raise WarmError("no such luck")

    monkeypatch.setattr(Warm, "fork", broken)
    result = judged(STEM, released(STEM))
    assert result.verdict.status == "flagged"
    assert "no such luck" in result.verdict.reason


# --- tests that a student writes -------------------------------------------------------------------------------------

A_TEST = "accepts_causal_mask"


def judged_test(text, extra=""):
    """The verdict on a test, the output of its hidden cell, and the result. extra: a cell of the student's own."""
    stem = "14_you_are_the_grader"
    master = with_one_exercise(stem, A_TEST)
    notebook = copy.deepcopy(master)
    place = next(i for i, cell in enumerate(notebook.cells) if grade_id_of(cell) == A_TEST)
    notebook.cells[place].source = text
    if extra:
        notebook.cells.insert(place, nbformat.v4.new_code_cell(extra))
    result = work.do(Task(stem, "student", json.dumps(notebook), json.dumps(master), "", ENOUGH))
    cells = nbformat.from_dict(json.loads(result.notebook)).cells
    (hidden,) = next(cell.outputs for cell in cells if grade_id_of(cell) == f"{A_TEST}_hidden")
    return by_name(result)[A_TEST], hidden.data, result


def test_a_written_test_is_judged_by_what_it_misses():
    text = "def accepts_causal_mask(f):\n    assert f(4).eq(own_mask(4)).all()\n    return True"
    found, hidden, _ = judged_test(text, "def own_mask(n):\n    return torch.ones(n, n).tril()")
    assert (found.points, found.hidden_points, found.outcome) == (3.0, 1.0, "wrong")
    assert found.misconception == "lets_through_has_an_axis_too_many"
    assert "Your mask has more axes than (n, n)" in found.sentence
    assert found.message.startswith("The smallest input that shows it: n = 1.")
    assert hidden["text/plain"] == "1"
    assert "more axes than (n, n)" in hidden["text/html"] and "n = 1" not in hidden["text/html"]


def test_a_test_that_takes_code_apart_is_shown_to_a_person():
    text = "def accepts_causal_mask(f):\n    return 'tril' in own_look(f)"
    result = judged_test(text, "def own_look(f):\n    return f.__code__.co_names")[2]
    assert [note for note in result.verdict.notes if "accepts_causal_mask" in note and "`__code__`" in note]
    assert not judged_test("def accepts_causal_mask(f):\n    return True")[2].verdict.notes


@pytest.mark.parametrize(
    "imports",
    [
        "from course_lib.checking import bench",
        "import course_lib.checking.bench",
        "from course_lib import checking, masks",
    ],
)
def test_who_reaches_into_the_checks_is_shown_to_a_person(imports):
    """What asks an answer is in its process, where code could make it say that no argument was changed."""
    notes = judged(STEM, with_answer(f"{imports}\n\n{solutions(STEM)['causal_mask']}")).verdict.notes
    assert "A cell mentions `course_lib.checking`, the code of the checks. Please look at it." in notes


def test_an_error_in_a_written_test_is_quoted():
    found, _, _ = judged_test("def accepts_causal_mask(f):\n    return f(4).equal(waht)")
    assert (found.points, found.outcome) == (0.0, "raised")
    assert "name 'waht' is not defined" in found.message and "line 2:  return f(4).equal(waht)" in found.message


# --- references ------------------------------------------------------------------------------------------------------

WAYS_TO_THE_REFERENCE = [
    "from course_lib.masks import causal_mask",
    "causal_mask = reference.causal_mask",
    "def causal_mask(n):\n    return reference.causal_mask(n)",
    "import course_lib.masks\ndef causal_mask(n):\n    return course_lib.masks.causal_mask(n)",
    "def causal_mask(n):\n    return reference.decoder_mask(torch.tensor([n]), n)[0]",
    "from course_lib.transformer import Transformer\ndef causal_mask(n):\n    return Transformer(n)",
    'from course_lib import yours\ncausal_mask = yours("causal_mask", None)',
]


@pytest.mark.parametrize("code", WAYS_TO_THE_REFERENCE)
def test_the_reference_as_the_answer_earns_nothing_and_is_named(code):
    result = judged(STEM, with_answer(code))
    found = by_name(result)["causal_mask"]
    assert score(found) == 0
    assert found.misconception == USES_THE_REFERENCE
    assert "own reference" in found.message
    assert others_are_right(result)


def test_walls_time_and_memory_are_recorded():
    verdict = judged(STEM, released(STEM)).verdict
    assert verdict.walls == tuple(work.warm_process().walls)
    assert verdict.seconds > 0
    assert verdict.peak_megabytes > 10


def test_a_module_of_absurd_size_costs_the_judge_nothing():
    """On torch's meta device it costs the student nothing either. The judge would draw numbers for all of it."""

    class Huge(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.table = nn.Parameter(torch.empty(8000, 8000, device="meta"))

    class Many(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.tables = nn.ParameterList([torch.empty(1)] * 5000)

    for module, words in ((Huge, "64,000,000 numbers in 1 parameters"), (Many, "5,000 numbers in 5,000 parameters")):
        report = grade(all_exercises()["FeedForward"], Subject(module))
        assert words in next(check.message for check in report.checks if check.passed is False)


@pytest.mark.parametrize(
    "cell",
    [
        "%time 1\n",
        "x = !ls\n",
        "x?\n",
        "%%capture\nprint(1)\n",
        "if True:\n    %time 1\n",
        "text = '''\n%time 1\n!ls\nx?\n'''\n",
        "x = (1\n%2)\n",
        "await something()\n",
        "x = \n",
    ],
)
def test_magics_are_found_where_they_can_be(cell):
    shell = types.SimpleNamespace(input_transformer_manager=TransformerManager())
    look_for_magics_only_where_they_can_be(shell)
    assert shell.input_transformer_manager.transform_cell(cell) == TransformerManager().transform_cell(cell)


def test_what_a_process_tells_of_itself_is_taken_with_caps():
    assert positions_in([*range(100_000)]) == tuple(range(32))
    assert positions_in([1, True, -1, 10**4000, "a", None]) == (1,)
    assert positions_in({"a": 1}) == positions_in(None) == ()
    assert [seconds_in(told) for told in (0.5, float("nan"), float("inf"), -1.0, 10**400, "1", None)] == [0.5] + [
        0.0
    ] * 6
