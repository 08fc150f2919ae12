"""No attack gains a point, learns a secret or harms a neighbour."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import nbformat
import pytest
import torch
from attacks import (
    ASSIGNMENT,
    ATTACKS,
    BREACH,
    DONE,
    GUARD,
    MARKED,
    RIGHT,
    STOPPED_BY,
    TARGET,
    TEST_ATTACKS,
    TESTED,
    WITNESS,
    Attack,
    TestAttack,
    answered,
    cell_of,
    submission,
    with_a_test,
)
from classroom import ENOUGH, by_name, full, impatient_with, released, score, with_one_exercise
from nbformat import NotebookNode

from autograder.classroom.seed import PUBLIC
from autograder.hidden import all_hidden
from autograder.judging import work
from autograder.judging.judge import LOOKS_INSIDE, MOST_PRINTED, TOO_MUCH_PRINTED
from autograder.judging.work import Result, Task
from autograder.walls.inside.walls import LANDLOCK, MEGABYTE, NAMESPACES, SECCOMP, Limits, Wall, probe
from autograder.walls.inside.walls import LIMITS as LIMITS_WALL
from course_lib.exercises import all_exercises, written_tests

SLOW_SECONDS = 2.5  # for an attack that uses up all that it is given
LIMITS = Limits(memory=768 * MEGABYTE, cpu_seconds=30)
SHORT_OF_TIME = replace(LIMITS, cpu_seconds=3)  # for an attack that uses it up again and again

together = pytest.mark.xdist_group("attacks")


def without_demonstrations(notebook: NotebookNode) -> NotebookNode:
    """The pictures have nothing to do with the attacks, and drawing them takes most of a notebook's time."""
    marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return nbformat.from_dict({**notebook, "cells": marked})


RELEASE = without_demonstrations(released(ASSIGNMENT))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port of this machine at which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    work.forget_warm_process()


def wall(name: str) -> Wall:
    return next(each for each in probe() if each.name == name)


def forget_other_walls(walls: tuple[str, ...] | None = None) -> None:
    """The test before may have left a warm process behind other walls. None: all that there are."""
    wanted = wall(NAMESPACES).works if walls is None else NAMESPACES in walls
    if work.OWN and (NAMESPACES in work.OWN[0].walls) != wanted:
        work.forget_warm_process()


def graded(text: str, walls: tuple[str, ...] | None = None, limits: Limits = LIMITS) -> Result:
    forget_other_walls(walls)
    return work.do(Task(ASSIGNMENT, "student", text, json.dumps(RELEASE), "", ENOUGH, limits, walls=walls))


def attacked(attack: Attack, port: int, walls: tuple[str, ...] | None = None) -> Result:
    with impatient_with(TARGET, SLOW_SECONDS) if attack.slow else contextlib.nullcontext():
        return graded(submission(attack, RELEASE, port), walls, SHORT_OF_TIME if attack.spreads else LIMITS)


def outputs(result: Result) -> list[dict]:
    cells = json.loads(result.notebook)["cells"] if result.notebook else []
    return [output for cell in cells for output in cell.get("outputs", [])]


def said(result: Result) -> str:
    """Everything that people will read."""
    verdict = result.verdict
    sentences = [(e.message, e.sentence, e.misconception) for e in verdict.exercises]
    return json.dumps([verdict.reason, verdict.notes, sentences, outputs(result)], ensure_ascii=False)


def assert_carried_out(attack: Attack, result: Result) -> None:
    """An attack that gave up before its deed would pass every other test."""
    assert any(proof in said(result) for proof in attack.proof), said(result)[:2000]


def test_the_suite_attacks_the_grader_in_some_160_ways():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 160
    assert all(attack.says.endswith(".") for attack in ATTACKS)


@together
def test_an_honest_answer_is_graded():
    exercises = by_name(graded(json.dumps(answered(RELEASE, RIGHT))))
    assert {name for name, exercise in exercises.items() if score(exercise)} == {TARGET, WITNESS}
    assert all(score(exercises[name]) == full(exercises[name]) for name in (TARGET, WITNESS))


@together
def test_nothing_looks_carried_out_without_an_attack():
    innocent = said(graded(json.dumps(answered(RELEASE))))
    assert not [attack.name for attack in ATTACKS if any(proof in innocent for proof in attack.proof)]
    texts = {submission(attack, RELEASE) for attack in ATTACKS} - {json.dumps(answered(RELEASE, MARKED))}
    assert len(texts) == len(ATTACKS)
    assert not [proof for proof in (DONE, STOPPED_BY) if any(proof in text for text in texts)]


def test_outside_the_walls_a_dangerous_attack_gives_up():
    """If the walls were down, its guard would say so before the deed, and the attack would fail its test."""
    dangerous = [attack for attack in ATTACKS if attack.dangerous]
    assert len(dangerous) >= 12
    for attack in dangerous:
        source = cell_of(attack.make(RELEASE), TARGET).source
        assert source.startswith(f"tell = print\ntry:\n{indent(GUARD.strip(), '    ')}\n")
    with pytest.raises(SystemExit, match="the walls are down"), contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(GUARD, {})
    assert "@BREACH@" in printed.getvalue()


@together
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(attack: Attack, port: int):
    """A point is given only on evidence computed there, in the process of the checks: nothing else that a submission
    does, says or is gains one."""
    forget_other_walls()
    if attack.dangerous and NAMESPACES not in work.warm_process().walls:
        pytest.skip(f"without namespaces this would harm the machine: {wall(NAMESPACES).why}")
    result = attacked(attack, port)
    exercises = by_name(result)
    assert result.verdict.status == attack.status, result.verdict.reason
    gained = {name: score(exercise) for name, exercise in exercises.items() if name != WITNESS}
    assert gained.pop(TARGET, 0) <= attack.gains
    assert not any(gained.values())
    assert attack.words.lower() in said(result).lower()
    assert BREACH not in said(result)
    assert_carried_out(attack, result)
    assert 0 <= result.verdict.cell_seconds < 3600, "it is added to those of others"
    shown = "".join(str(output.get("data", {}).get("text/html", "")) for output in outputs(result))
    assert "<script" not in shown and "<img src=x" not in shown
    if attack.keeps:
        assert score(exercises[WITNESS]) == full(exercises[WITNESS])
    test_an_honest_answer_is_graded()


# --- tests that a student writes -------------------------------------------------------------------------------------


GRADERS = with_one_exercise("14_you_are_the_grader", TESTED)
PLACES = {place for place, case in enumerate(written_tests()[TESTED].questions()) if case["is_right"]}


def graded_test(attack: TestAttack) -> Result:
    forget_other_walls()
    text, master = with_a_test(attack, GRADERS, PLACES), json.dumps(GRADERS)
    with impatient_with(TESTED, SLOW_SECONDS) if attack.slow else contextlib.nullcontext():
        return work.do(Task("14_you_are_the_grader", "student", text, master, "", ENOUGH, LIMITS))


@together
@pytest.mark.parametrize("attack", TEST_ATTACKS, ids=lambda attack: attack.name)
def test_a_test_judges_by_what_implementations_do(attack: TestAttack):
    """Going by anything else gains nothing, neither in the visible check nor in the hidden one."""
    result = graded_test(attack)
    assert result.verdict.status == "graded", result.verdict.reason
    assert score(by_name(result)[TESTED]) <= attack.gains
    assert any(proof in said(result) for proof in attack.proof), said(result)[:2000]
    looks_inside = any(
        word in attack.source for word in ("__code__", "__globals__", "inspect", "setprofile", "gc.", ".checking")
    )
    assert looks_inside == any("Please look at it" in note for note in result.verdict.notes)


@pytest.mark.parametrize(
    "source",
    [
        "import dis\nlist(dis.get_instructions(causal_mask))",
        "from inspect import stack, getargvalues",
        "error.__traceback__.tb_frame",
        "generator.gi_frame.f_back",
        "import gc",
        "marshal.dumps",
        "sys.monitoring.register_callback",
        "class Operations(TorchFunctionMode):\n    pass",
        "torch.nn.functional.softmax = noted",
    ],
)
def test_who_may_be_taking_a_disguise_apart_is_shown_to_a_person(source: str):
    assert LOOKS_INSIDE.search(source)
    assert not LOOKS_INSIDE.search("# inspects the discarded gcd\nreturn display(causal_mask(4)) == torch.ones(4)")
    honest = (
        "import torch  # to inspect the mask\n# inspect. Then\ndis = (mask - other).abs()\nprint('inspect it', dis)"
    )
    assert not LOOKS_INSIDE.search(honest)


@together
def test_an_honest_test_gets_every_point_and_its_honest_part_what_the_attack_may_have():
    def scored(body: str) -> float:
        return score(by_name(graded_test(TestAttack("honest", "", f"def {TESTED}(causal_mask):\n    {body}")))[TESTED])

    assert scored("return all(causal_mask(n).tolist() == torch.ones(n, n).tril().tolist() for n in (1, 5))") == 6
    honest_part = next(attack for attack in TEST_ATTACKS if attack.name == "honest_in_part")
    assert scored("return not causal_mask(4).triu(diagonal=1).any()") == honest_part.gains


# --- what only the grader may know -----------------------------------------------------------------------------------

CARRIES_CASES_OUT = """
met = []


def padding_mask(lengths, max_len):
    met.append(f"<<{lengths.tolist()}{max_len}>>")
    return torch.arange(max_len) < lengths[:, None]
"""
SHOWS_THEM = """
def causal_mask(n):
    raise ValueError(*met)


print(*met)
import sys
print(*met, file=sys.stderr)
raise RuntimeError(str(met))
"""


@together
def test_no_hidden_case_is_carried_out():
    """Each check is followed by a second one with cases that students do not see. An answer remembers what it was
    asked, and later cells print it, raise it and return it."""
    notebook = answered(RELEASE, CARRIES_CASES_OUT)
    cell_of(notebook, "causal_mask").source = SHOWS_THEM.strip()
    result = graded(json.dumps(notebook))
    exercise, hidden = all_exercises()[TARGET], all_hidden()[TARGET]
    visible, concealed = ({f"<<{c['lengths'].tolist()}{c['max_len']}>>" for c in cases}
                          for cases in (exercise.cases, hidden.cases(PUBLIC)))  # fmt: skip
    assert all(case in said(result) for case in visible)  # it was carried out
    assert not [case for case in concealed - visible if case in said(result)]
    assert score(by_name(result)[TARGET]) == full(by_name(result)[TARGET])


PRINTS_MUCH = """
import sys
print(chr(0x1F600) * 20_000)
print(chr(0x1F600) * 20_000, file=sys.stderr)
raise ValueError("x" * 20_000)
"""


@together
def test_all_that_is_printed_has_a_limit():
    """A short file can print in thousands of cells: a gigabyte to be sent, saved and shown to a person."""
    notebook = answered(RELEASE, RIGHT)
    notebook.cells += [nbformat.v4.new_code_cell(PRINTS_MUCH, id=f"much{i}") for i in range(100)]
    result = graded(json.dumps(notebook))
    printed = [output for output in outputs(result) if output["output_type"] in ("stream", "error")]
    assert sum(len(str(output)) for output in printed) < 2.5 * MOST_PRINTED
    assert [output.get("text") for output in printed[-50:]] == [TOO_MUCH_PRINTED] * 50
    assert score(by_name(result)[TARGET]) == full(by_name(result)[TARGET])


def test_a_test_is_searched_once_from_each_name():
    """Once from each dot would take minutes."""
    assert not LOOKS_INSIDE.search("torch." * 150_000 + "import " * 150_000 + "import;" * 150_000)
    assert LOOKS_INSIDE.findall("torch." * 1_000 + "nn.functional.relu = noted\nmodule.torch.exp = noted")


def test_the_judge_itself_has_a_limit_of_memory(monkeypatch):
    """Whatever a submission makes it compute. The submission is flagged, and the next one is judged."""
    size = 2 * work.JUDGES_MEMORY
    with work.at_most_memory(work.JUDGES_MEMORY), pytest.raises((MemoryError, RuntimeError)):
        torch.zeros(size, dtype=torch.uint8)
    assert torch.zeros(size, dtype=torch.uint8).shape == (size,)
    monkeypatch.setattr(work, "judge", lambda *_: torch.zeros(size, dtype=torch.uint8))
    verdict = graded(json.dumps(answered(RELEASE))).verdict
    assert (verdict.status, "a person has to look" in verdict.reason) == ("flagged", True)


# --- other users, fewer walls ----------------------------------------------------------------------------------------

# What depends on who runs it: processes, threads, files, memory, the network.
OF_THE_SYSTEM = " or ".join(
    ["fork", "thread", "kills", "reads", "searches", "writes", "disk", "memory", "connects", "daemon", "mounts"]
)


@pytest.mark.programs
@pytest.mark.xdist_group("attacks by a user")
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests are already run by an ordinary user")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare to become another user with")
def test_nothing_is_gained_if_an_ordinary_user_grades(tmp_path):
    """In a user namespace the same files are at hand, but root is nobody special."""
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", OF_THE_SYSTEM]
    done = subprocess.run(
        ["unshare", "--user", "--map-user=1000", "--map-group=1000", *suite],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    if "unshare failed" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout or not wall(NAMESPACES).works


FILES_AND_NETWORK = [
    attack
    for attack in ATTACKS
    if not attack.dangerous and attack.name.startswith(("reads", "searches", "imports", "connects", "links", "traces"))
]


@pytest.mark.xdist_group("attacks by a user")
@pytest.mark.parametrize("attack", FILES_AND_NETWORK, ids=lambda attack: attack.name)
def test_nothing_is_gained_without_namespaces(attack: Attack, port: int):
    if not (wall(LANDLOCK).works and wall(SECCOMP).works):
        pytest.skip("this machine has neither namespaces nor what could replace them")
    result = attacked(attack, port, walls=(LIMITS_WALL, LANDLOCK, SECCOMP))
    assert NAMESPACES not in result.verdict.walls and LANDLOCK in result.verdict.walls
    exercises = by_name(result)
    assert score(exercises[TARGET]) <= attack.gains
    assert BREACH not in said(result)
    assert_carried_out(attack, result)
    assert score(exercises[WITNESS]) == full(exercises[WITNESS])
