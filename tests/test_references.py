"""What student code can see of the course while it is graded."""

from __future__ import annotations

import re
import sys
import types

import pytest

from autograder import build, references
from autograder.references import modules, position, revealed_after, visible_sources, withheld
from course_lib.exercises import all_exercises

NAMES = list(all_exercises())


def test_an_exercise_and_all_later_ones_are_withheld():
    for name in NAMES:
        hidden = withheld(position(name))
        for other in NAMES:
            reference = all_exercises()[other].reference
            assert ((reference.__module__, other) in hidden) == (position(other) >= position(name))


def test_what_is_built_on_a_withheld_exercise_is_withheld_too():
    hidden = withheld(position("MultiHeadAttention"))
    assert ("course_lib.encoder_decoder", "EncoderLayer") in hidden
    assert ("course_lib.translation", "translate") in hidden
    assert ("course_lib.masks", "causal_mask") not in hidden


@pytest.mark.parametrize("name", ["causal_mask", "MultiHeadAttention", "train_step"])
def test_no_line_of_a_withheld_reference_is_sent(name):
    sources = visible_sources(name)
    for module, definition in withheld(position(name)):
        lines = [line.strip() for line in references.source_of(module, definition).splitlines()]
        statements = [line for line in lines if line.startswith("return ") and len(line) > 30]
        for statement in statements:
            assert statement not in sources[module]


@pytest.mark.parametrize("name", NAMES[::7])
def test_all_that_is_sent_compiles(name):
    for module, source in visible_sources(name).items():
        compile(source, module, "exec")


def test_neither_checks_nor_exercises_nor_hidden_cases_are_sent():
    for name in visible_sources("softmax"):
        assert not name.startswith(("course_lib.exercises", "autograder"))
        assert name not in {f"course_lib.checking.{part}" for part in ("grading", "diagnosis", "exercise", "expect")}


def test_a_stand_in_keeps_name_and_docstring_and_raises(monkeypatch):
    module = types.ModuleType(references.WITHHELD_MODULE)
    exec(references.WITHHELD_SOURCE, vars(module))
    monkeypatch.setitem(sys.modules, references.WITHHELD_MODULE, module)
    namespace: dict = {}
    exec(references.stand_in(modules()["course_lib.masks"].definitions["causal_mask"]), namespace)
    assert "May position i attend" in namespace["causal_mask"].__doc__
    with pytest.raises(module.ReferenceUsed, match="own reference"):
        namespace["causal_mask"](3)


def test_revealing_one_after_the_other_reveals_everything():
    found = {(module, name) for exercise in NAMES for module, name, _ in revealed_after(exercise)}
    assert found == withheld(0)


def test_what_is_revealed_is_the_reference_itself():
    ((module, name, source),) = revealed_after("causal_mask")
    assert (module, name) == ("course_lib.masks", "causal_mask")
    assert source in modules()[module].source


@pytest.mark.parametrize("stem", build.stems())
def test_every_module_that_a_notebook_imports_is_sent(stem):
    code = "\n".join(cell.source for cell in build.solution_notebook(stem).cells if cell.cell_type == "code")
    imported = set(re.findall(r"^ *from (course_lib\.\w+) import", code, re.MULTILINE))
    assert imported <= visible_sources("softmax").keys()
