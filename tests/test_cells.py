"""Cells run without IPython's ceremony do what they do with it, and the set-up is run once for all submissions."""

from __future__ import annotations

import json

import pytest
from classroom import judged, solutions, submission
from nbformat.v4 import new_code_cell

from autograder.judging import work
from autograder.judging.references import visible_sources
from autograder.walls.inside.walls import Limits
from autograder.walls.runners import CellOutput, Runner
from course_lib.exercises import all_exercises

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]
STEM = "02_masks"
SLOWLY = "\n"  # a cell that begins with an empty line is left to IPython
LOOK = "import inspect\nprint(sorted(n for n in globals() if n[0].isalpha() and n not in ('In', 'Out')))"

CELLS = {
    "a function": ["def f(x: int) -> int:\n    return x + 1", "print(f(1), inspect.getsource(f))"],
    "its line in an error": ["def f():\n    return 1 / 0", "f()"],
    "imports": ["import math\nfrom math import pi as p", "print(math.tau, p)"],
    "an error in the middle": ["x = 1\nprint('before')\n1 / 0\ny = 2", "print(x)", "print(y)"],
    "a statement that cannot be compiled": ["x = 1\nreturn x", "print(x)"],
    "not Python": ["x = 1\n)", "print(x)"],
    "an unfinished function": ["def f():\n", "f()"],
    "a value that is shown": ["x = 3\nx", "_"],
    "await at the top": ["import asyncio\nawait asyncio.sleep(0)\nx = 1", "print(x)"],
    "a magic": ["%matplotlib inline\nx = 1", "print(x)"],
    "a magic in between": ["x = 1\n!ls\ny = 2", "print(x, y)"],
    "prompts": ["In [1]: x = 3\n   ...: y = 4", ">>> z = x", "print(x, y, z)"],
    "indented": ["    x = 1\n    y = 2", "print(x, y)"],
    "the future": ["from __future__ import annotations", "def f(x: missing): ...", "print(f.__annotations__)"],
    "a warning": ["import warnings\nwarnings.warn('careful')", "warnings.warn('careful')"],
    "names of IPython": ["x = type(get_ipython()).__name__\ndisplay(x)\nprint(x)\ny = 1", "print(y)"],
    "a class with a global": [
        "class A:\n    n = 0\n\ndef f():\n    global m\n    m = A.n + 1\nf()\nx = m",
        "print(m, x)",
    ],
    "a docstring": ['"""About this cell."""\nx = 1', "print(x, __doc__)"],
    "exit": ["x = 1\nraise SystemExit(3)\ny = 2", "print(x)"],
    "an error that stops everything else": ["x = 1\nraise KeyboardInterrupt\ny = 2", "print(x)"],
    "a callback": [
        "count = []\nget_ipython().events.register('post_run_cell', lambda _: count.append(1))",
        "y = 1\nz = 2",
        "print(len(count))",
    ],
    "another way to show values": ["get_ipython().ast_node_interactivity = 'all'", "1\n2\nx = 3"],
    "another language": [
        "get_ipython().input_transformers_post.append(lambda lines: [line.replace('λ', '3') for line in lines])",
        "x = λ",
        "print(x)",
    ],
    "another way to handle errors": [
        "get_ipython().set_custom_exc((ValueError,), lambda *_, **__: print('handled'))",
        "x = 1\nraise ValueError(x)\ny = 2",
    ],
    "nothing": ["", "# a remark", "x = 1"],
}


@pytest.fixture
def fresh_runner():
    """Makes runners of notebook 2, and ends them."""
    made = []

    def new() -> Runner:
        warm = work.warm_process()
        warm.prepare("padding_mask", visible_sources("padding_mask"))
        made.append(Runner(warm, Limits()))
        return made[-1]

    yield new
    for runner in made:
        runner.bury()


def seen(output: CellOutput) -> tuple[str, str, tuple[str, str] | None]:
    return output.printed, output.complaints, output.error


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_does_what_it_does_with_ipython(name, fresh_runner):
    quick, slow = fresh_runner(), fresh_runner()
    for source in [LOOK, *CELLS[name], LOOK]:
        left, right = seen(quick.run(source, 60)), seen(slow.run(SLOWLY + source, 60))
        if left[2] and left[2][0] == "SystemExit":  # IPython also says how to leave it
            left, right = left[::2], right[::2]
        assert left == right, source


def test_a_cell_may_write_a_module_that_another_imports(fresh_runner):
    """As in a notebook's own folder. Each runner has another."""
    runner, other = fresh_runner(), fresh_runner()
    assert runner.run("%%writefile helpers.py\ndef f():\n    return 3", 60).error is None
    assert runner.run("from helpers import *\nprint(f())", 60).printed == "3\n"
    assert other.run("import helpers", 60).error == ("ModuleNotFoundError", "No module named 'helpers'")


def test_most_answers_are_run_without_ipython(fresh_runner):
    runner = fresh_runner()
    runner.run("get_ipython().run_cell = None", 60)  # the last cell that IPython could run
    for name in (name for name in solutions(STEM) if name in all_exercises()):
        source = solutions(STEM)[name]
        assert runner.run("import torch\nfrom torch import Tensor\n" + source, 60).error is None
    assert "not callable" in str(runner.run("1 + 1", 60).error), "IPython would have shown this"


OPENING = "print('once')\nimport random\nnumber = random.random()\nseen = []"


def test_the_opening_cell_is_run_once_for_all_runners():
    warm = work.warm_process()
    warm.prepare("padding_mask", visible_sources("padding_mask"), opening=OPENING)
    try:
        found = []
        for _ in range(2):
            runner = Runner(warm, Limits())
            found.append(runner.run("seen.append(1)\nprint(number, seen)", 60).printed)
            assert runner.opened.printed == "once\n"
            runner.bury()
        assert found[0] == found[1], "each runner has the state that the opening has left, and nothing of the other"
        runner = Runner(warm, Limits())
        runner.begin_anew()
        assert runner.run("number", 60).error == ("NameError", "name 'number' is not defined")
        runner.bury()
    finally:
        warm.prepare("padding_mask", visible_sources("padding_mask"))


SETUP = f"setup_{STEM}"
ABOVE = "try:\n    torch\nexcept NameError:\n    print('not imported yet')\nmath = 'theirs'"


def cells_of(result):
    return json.loads(result.notebook)["cells"]


def grade_id_of(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def test_a_cell_above_the_set_up_is_run_before_it():
    notebook = submission(STEM, solutions(STEM))
    set_up = next(i for i, cell in enumerate(notebook.cells) if grade_id_of(cell) == SETUP)
    notebook.cells.insert(set_up, new_code_cell(ABOVE))
    result = judged(STEM, notebook)
    assert result.verdict.points == result.verdict.max_points, "and the set-up after it"
    outputs = [output for cell in cells_of(result) for output in cell.get("outputs", [])]
    assert "not imported yet\n" in [output.get("text") for output in outputs]


def test_what_the_set_up_prints_is_shown():
    result = judged(STEM, submission(STEM, solutions(STEM)))
    (shown,) = next(cell["outputs"] for cell in cells_of(result) if grade_id_of(cell) == SETUP)
    assert shown["text"].startswith("Computing on the CPU")
