"""Which demonstrations a submission needs."""

from __future__ import annotations

import pytest

from autograder.judging import needed as module
from autograder.judging.needed import as_python, could_define, names_in, needed

SETUP = "import torch\nfrom torch import nn"
ANSWER = "def answer(x):\n    scores = torch.relu(x)\n    return scores"


def test_setup_is_needed_and_a_picture_is_not():
    cells = [SETUP, "x = torch.ones(3)\nprint(x)", ANSWER, "scores = answer(torch.ones(2))"]
    assert needed(cells, [False, False, True, False]) == {0, 2}


def test_local_names_of_an_answer_ask_for_nothing():
    cells = [SETUP, "scores = torch.ones(3)", ANSWER]
    assert needed(cells, [False, False, True]) == {0, 2}


def test_data_from_a_demonstration_is_needed_with_all_that_it_stands_on():
    cells = [SETUP, "size = 4", "table = torch.ones(size)", "other = 1", "def answer(i):\n    return table[i]"]
    assert needed(cells, [False, False, False, False, True]) == {0, 1, 2, 4}


def test_changes_count():
    cells = ["names = []", "names.append('a')", "names[0] = 'b'", "others = []", "def answer():\n    return names"]
    assert needed(cells, [False, False, False, False, True]) == {0, 1, 2, 4}


def test_seeding_a_library_does_not_count_as_changing_it():
    cells = [SETUP, "torch.manual_seed(0)\nprint(torch.rand(1))", ANSWER]
    assert needed(cells, [False, False, True]) == {0, 2}


def test_attributes_of_self_are_no_global_data():
    cells = [
        SETUP,
        "class A(nn.Module):\n    def f(self):\n        self.x = 1",
        "class B(nn.Module):\n    def f(self):\n        self.x = 2",
    ]
    assert needed(cells, [False, False, True]) == {0, 2}


def test_a_function_that_writes_a_global_name():
    cells = ["def count():\n    global total\n    total = 1", "def answer():\n    return total"]
    assert needed(cells, [False, True]) == {0, 1}


def test_magic_cells_of_the_instructor_are_run():
    assert needed(["%matplotlib inline", "x = 1", ANSWER], [False, False, True]) >= {2}


def test_a_broken_answer_asks_for_nothing_and_is_run_all_the_same():
    assert needed([SETUP, "x = 1", "def answer(:"], [False, False, True]) == {2}


def test_who_reaches_for_all_names_gets_all_cells():
    for way in ("globals()['x']", "eval('x')", "get_ipython().user_ns['x']"):
        assert needed([SETUP, "x = 1", f"def answer():\n    return {way}"], [False, False, True]) == {0, 1, 2}
    assert needed(["x = 1", "import __main__\ndef answer():\n    return __main__.x"], [False, True]) == {0, 1}


def test_helper_cells_of_the_student_are_run():
    assert needed(["x = 1", "def helper(): return 2", "def answer(): return helper()"], [False, True, True]) == {1, 2}


# --- what costs the judge time, or nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "magic", ["%cd .", "%matplotlib inline", "!pip install something", "%pip install \\\n  something"]
)
def test_a_magic_that_touches_no_name_asks_for_nothing(magic):
    cells = [SETUP, "x = torch.ones(3)", f"{magic}\n{ANSWER}"]
    assert needed(cells, [False, False, True]) == {0, 2}


def test_a_magic_that_runs_code_may_reach_every_name():
    cells = [SETUP, "x = torch.ones(3)", f"%time y = x\n{ANSWER}"]
    assert needed(cells, [False, False, True]) == {0, 1, 2}


def test_a_sum_of_many_terms_is_no_reason_to_give_up():
    found = names_in("total = " + " + ".join(["one"] * 1500))
    assert found is not None and found.taken == {"one"} and found.made == {"total"}


@pytest.mark.parametrize("source", ["%who\n" * 700, "%who\n" * 150 + "a = 1\n" * 10_000, "a = 1\n" * 50_000])
def test_what_is_expensive_to_read_is_not_read(monkeypatch, source):
    """IPython reads the cell again for each magic, and gives up after 500: neither may happen in the judge."""
    monkeypatch.setattr(module.TransformerManager, "transform_cell", lambda *_: pytest.fail("this takes minutes"))
    assert names_in(source) is None


@pytest.mark.parametrize("text", [" " * 200_000 + "x" * 200_000, "x = 1 " * 60_000, "x ? " * 100_000 + "x"], ids=len)
def test_magics_are_looked_for_once_in_a_line(text):
    """Once from each space would take a minute."""
    assert as_python(text) == text


def test_a_formatted_text_of_very_many_parts_is_not_read():
    """Python 3.11 would take a second for this one, and half a minute for one that is five times as long."""
    assert names_in("x = f'" + "{a}" * 30_000 + "'") is None
    assert names_in("x = '" + "{a}" * 30_000 + "'") is not None
    assert names_in("x = f'" + "{a}" * 1_000 + "'") is not None


def test_only_a_cell_that_could_define_a_name_is_worth_running_for_it():
    cells = ["table = torch.ones(3)", "def helper():\n    size = 4"]
    assert could_define({"table"}, cells) and could_define({"helper", "other"}, cells)
    assert not could_define({"tabel", "size"}, cells)
    assert could_define({"tabel"}, [*cells, "from torch import *"]) and could_define({"tabel"}, [*cells, "1 +"])
