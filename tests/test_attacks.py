"""No attack gains a point, learns a secret or harms a neighbour."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import nbformat
import pytest
from attacks import ASSIGNMENT, ATTACKS, BREACH, RIGHT, TARGET, WITNESS, Attack, answered, submission
from nbformat import NotebookNode

from autograder.build import NOTEBOOKS
from autograder.hidden import all_hidden
from autograder.inside.walls import MEGABYTE, NAMESPACES, Limits
from autograder.judge import Judged, Patience, judge
from autograder.rebuild import NotRebuilt, rebuild
from autograder.runners import Warm
from course_lib.exercises import all_exercises


def without_demonstrations(notebook: NotebookNode) -> NotebookNode:
    """The pictures have nothing to do with the attacks, and to draw them takes most of a notebook's time."""
    notebook.cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return notebook


RELEASE = without_demonstrations(nbformat.read(NOTEBOOKS / f"{ASSIGNMENT}.ipynb", as_version=4))
PATIENCE = Patience(cell=4.0, demonstration=60.0)
LIMITS = Limits(memory=768 * MEGABYTE, cpu_seconds=30)

pytestmark = pytest.mark.xdist_group("attacks")


@dataclass(frozen=True)
class Outcome:
    """What came of a submission."""

    status: str
    points: dict[str, float]
    said: str  # everything that people will read
    shown: str  # everything that a browser will show as HTML


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    warm = Warm()
    yield warm
    warm.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port of this machine at which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def outcome(text: str, warm: Warm) -> Outcome:
    try:
        rebuilt = rebuild(RELEASE, text)
    except NotRebuilt as refusal:
        return Outcome(refusal.status, {}, refusal.reason, "")
    judged = judge(rebuilt, warm, PATIENCE, LIMITS)
    points = {verdict.name: verdict.points + verdict.hidden_points for verdict in judged.exercises}
    return Outcome("graded", points, said_in(judged), shown_in(judged))


def said_in(judged: Judged) -> str:
    outputs = [output for cell in judged.notebook.cells for output in cell.get("outputs", [])]
    sentences = [text for e in judged.exercises for text in (e.message, e.sentence or "", e.misconception or "")]
    return json.dumps([outputs, judged.notes, sentences], ensure_ascii=False)


def shown_in(judged: Judged) -> str:
    outputs = [output for cell in judged.notebook.cells for output in cell.get("outputs", [])]
    return "".join(str(output.get("data", {}).get("text/html", "")) for output in outputs)


def full_points(name: str) -> float:
    return all_exercises()[name].max_points + all_hidden()[name].points


def test_there_are_many_attacks():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 60
    assert all(attack.says.endswith(".") for attack in ATTACKS)


def test_an_honest_answer_is_graded(warm):
    points = outcome(json.dumps(answered(RELEASE, RIGHT)), warm).points
    assert {name for name, earned in points.items() if earned} == {TARGET, WITNESS}
    assert points[TARGET] == full_points(TARGET) and points[WITNESS] == full_points(WITNESS)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(attack: Attack, warm: Warm, port: int):
    if attack.dangerous and NAMESPACES not in warm.walls:
        pytest.skip("without namespaces this would harm the machine")
    found = outcome(submission(attack, RELEASE, port), warm)
    assert found.status == attack.status
    assert found.points.get(TARGET, 0) <= attack.gains
    assert attack.words.lower() in found.said.lower()
    assert BREACH not in found.said
    assert "<script" not in found.shown and "<img src=x" not in found.shown
    others = {name: points for name, points in found.points.items() if name not in (TARGET, WITNESS)}
    assert not any(others.values())
    if attack.keeps:
        assert found.points[WITNESS] == full_points(WITNESS)
    test_an_honest_answer_is_graded(warm)
