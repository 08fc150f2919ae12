"""Which demonstrations a submission needs."""

from __future__ import annotations

from autograder.needed import needed

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
