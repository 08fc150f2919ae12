"""What student code can see of the course while it is graded."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import types
from functools import partial

import pytest
import torch
from torch import Tensor

from autograder.authoring import build
from autograder.judging import references
from autograder.judging.references import modules, position, revealed_after, visible_sources, withheld
from course_lib import masks
from course_lib.checking.subject import Subject, same_answer
from course_lib.exercises import TOPICS, all_exercises

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
    """References of exercises still to be graded are not in the student's process at all."""
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
    revealed = {(module, name): source for module, name, source in revealed_after("causal_mask")}
    assert revealed.keys() == {("course_lib.masks", "causal_mask"), ("course_lib.decoding", "past_mask")}
    assert all(source in modules()[module].source for (module, _), source in revealed.items())


@pytest.mark.parametrize("stem", build.stems())
def test_every_module_that_a_notebook_imports_is_sent(stem):
    code = "\n".join(cell.source for cell in build.solution_notebook(stem).cells if cell.cell_type == "code")
    imported = set(re.findall(r"^ *from (course_lib\.\w+) import", code, re.MULTILINE))
    assert imported <= visible_sources("softmax").keys()


# --- functions that give an exercise away under another name ---------------------------------------------------------


def arrangements(arguments: list) -> list[list]:
    """The ways in which a helper may want the arguments of an exercise."""
    device = torch.device("cpu")
    more = [[*arguments, device], [*arguments, *arguments], [*arguments, *arguments, device], arguments[::-1]]
    return [arguments, *more, *(arguments[:i] for i in range(1, len(arguments)))]


def answers_like(function, exercise) -> bool:
    """Whether a function answers most visible cases as the reference does, in one of these arrangements."""
    cases = [list(case.values()) for case in exercise.cases if all(map(is_small, case.values()))]
    wanted = [Subject(exercise.reference)(*case) for case in cases]
    ways = zip(*map(arrangements, cases))
    return any(2 * sum(map(partial(agrees, function), way, wanted)) > len(wanted) for way in ways)


def agrees(function, arguments, want) -> bool:
    try:
        return same_answer(Subject(function)(*arguments), want)
    except Exception:  # a function that is about something else
        return False


def test_the_search_finds_a_reference_under_another_name():
    def the_same(new, seen, device):
        return None if new == 1 else masks.causal_mask(seen)[-new:].to(device)

    assert answers_like(the_same, all_exercises()["causal_mask"])
    assert not answers_like(masks.padding_mask, all_exercises()["causal_mask"])


@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_that_may_be_used_gives_an_exercise_away(topic):
    """Whatever answers like an exercise's reference is withheld as long as the exercise is still to be graded."""
    functions = [e for e in all_exercises().values() if e.topic == topic and not e.is_class]
    plain = [e for e in functions if all(is_plain(value) for case in e.cases for value in case.values())]
    for exercise in plain:
        hidden = withheld(position(exercise.name))
        for module in (f"course_lib.{topic}" for topic in TOPICS):
            for name, node in modules()[module].definitions.items():
                if isinstance(node, ast.FunctionDef) and (module, name) not in hidden:
                    function = getattr(importlib.import_module(module), name)
                    assert not answers_like(function, exercise), f"{module}.{name} is {exercise.name}"


def is_plain(value) -> bool:
    return isinstance(value, Tensor | int | float | bool | str)


def is_small(value) -> bool:
    """A size that a function about something else may take without filling the memory."""
    return not isinstance(value, int | float) or abs(value) <= 100
