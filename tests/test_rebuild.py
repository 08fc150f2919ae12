"""Rebuilding a submission: whatever comes in, out come the instructor's cells with the student's answers in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
from course import Course
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearOutput, DeduplicateIds, OverwriteCells, OverwriteKernelspec
from release import released_notebook, released_text

from autograder.authoring import build
from autograder.classroom.course import CourseError
from autograder.judging import rebuild as rebuilding
from autograder.judging.rebuild import (
    MOST_CELLS,
    MOST_CHARACTERS,
    MOST_CHARACTERS_OF_A_CELL,
    MOST_CHARACTERS_OF_CODE,
    MOST_NOTES,
    NotRebuilt,
    Rebuilt,
    master_notebook,
    rebuild,
    submitted_text,
)
from autograder.working_copy import cell_id

STEM = "02_masks"
NUMBERS = count()
SOLVED = "def causal_mask(n):\n    return torch.arange(n)[:, None] >= torch.arange(n)"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    made = Course(tmp_path_factory.mktemp("course"))
    made.generate(STEM)
    return made


@pytest.fixture(scope="module")
def gradebook(course: Course) -> Iterator[Gradebook]:
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "transformer") as opened:
        yield opened


@pytest.fixture(scope="module")
def released(course: Course) -> str:
    return course.path("release", STEM).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def master(course: Course, gradebook: Gradebook) -> NotebookNode:
    cells = gradebook.find_notebook(STEM, STEM).source_cells
    return master_notebook(course.notebook("release", STEM), {cell.name: cell for cell in cells})


@pytest.fixture
def submission(released: str) -> dict[str, Any]:
    """The JSON of an honest submission, to be spoiled: causal_mask is answered."""
    data = json.loads(released)
    cell(data, "causal_mask")["source"] = SOLVED
    return data


def cell(data: dict[str, Any], grade_id: str) -> dict[str, Any]:
    return next(c for c in data["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def position(data: dict[str, Any], grade_id: str) -> int:
    return data["cells"].index(cell(data, grade_id))


def code(text: Any, **metadata: Any) -> dict[str, Any]:
    return {**markdown(text), "cell_type": "code", "metadata": metadata, "outputs": [], "execution_count": None}


def markdown(text: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"new{next(NUMBERS)}", "metadata": {}, "source": text}


def tagged(data: dict[str, Any], grade_id: str, text: str) -> dict[str, Any]:
    """A new cell with the name of another one."""
    return code(text, nbgrader=dict(cell(data, grade_id)["metadata"]["nbgrader"]))


def redo(master: NotebookNode, data: Any) -> Rebuilt:
    result = rebuild(master, json.dumps(data))
    nbformat.validate(result.notebook)
    assert len(result.students) == len(result.notebook.cells)
    return result


def instructors(result: Rebuilt) -> list[NotebookNode]:
    return [c for c, is_students in zip(result.notebook.cells, result.students, strict=True) if not is_students]


def extras(result: Rebuilt) -> list[str]:
    return [c.source for c in result.notebook.cells if c.id.startswith("extra-")]


def without_metadata(data: dict[str, Any], *, ids: bool = False) -> dict[str, Any]:
    for each in data["cells"]:
        each["metadata"] = {}
        if not ids:
            each.pop("id", None)
    return data


def flagged(master: NotebookNode, data: Any) -> str:
    with pytest.raises(NotRebuilt) as raised:
        redo(master, data)
    assert raised.value.status == "flagged"
    return raised.value.reason


# --- the instructor's side ------------------------------------------------------------------------------


def test_the_master_has_the_hidden_tests_and_what_the_gradebook_says(
    master: NotebookNode, gradebook: Gradebook
) -> None:
    source = {c.name: c for c in gradebook.find_notebook(STEM, STEM).source_cells}
    marked = [c for c in master.cells if "nbgrader" in c.metadata]
    assert {c.metadata.nbgrader.grade_id for c in marked} == set(source)
    assert all(c.source == source[c.metadata.nbgrader.grade_id].source for c in marked)
    assert all(c.metadata.nbgrader.checksum == source[c.metadata.nbgrader.grade_id].checksum for c in marked)
    assert 'check_hidden("causal_mask", causal_mask)' in cell(master, "causal_mask_hidden").source


def test_points_edited_in_the_release_are_those_of_the_gradebook(
    master: NotebookNode, course: Course, gradebook: Gradebook
) -> None:
    release = course.notebook("release", STEM)
    cell(release, "causal_mask_check").metadata.nbgrader.points = 400
    cells = {c.name: c for c in gradebook.find_notebook(STEM, STEM).source_cells}
    assert master_notebook(release, cells) == master


@pytest.mark.parametrize("lost", ["gradebook", "release"])
def test_a_release_that_is_not_the_gradebooks_is_refused(lost: str, course: Course, gradebook: Gradebook) -> None:
    release = course.notebook("release", STEM)
    cells = {c.name: c for c in gradebook.find_notebook(STEM, STEM).source_cells}
    if lost == "gradebook":
        del cells["causal_mask"]
    else:
        release.cells.remove(cell(release, "causal_mask"))
    with pytest.raises(CourseError, match=r"causal_mask\. Release the assignment again"):
        master_notebook(release, cells)


# --- honest submissions: the same as nbgrader -----------------------------------------------------------


def stock(course: Course, data: dict[str, Any]) -> NotebookNode:
    """What nbgrader's own Autograde makes of a submission before it runs it.

    Without CheckCellMetadata, which changes nothing, and ends the whole run if a grade id is there twice.
    """
    notebook = nbformat.reads(json.dumps(data), as_version=4)
    about = {"notebook": STEM, "assignment": STEM, "db_url": f"sqlite:///{course.root / 'gradebook.db'}"}
    resources = {"nbgrader": about}
    for step in (ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells):
        notebook, resources = step().preprocess(notebook, resources)
    return notebook


def essence(notebook: NotebookNode) -> list[tuple[str, str, dict[str, Any]]]:
    return [(c.cell_type, c.source, dict(c.metadata.get("nbgrader", {}))) for c in notebook.cells]


def unmodified(data: dict[str, Any], solutions: dict[str, str]) -> None:
    pass


def solved(data: dict[str, Any], solutions: dict[str, str]) -> None:
    for name, text in solutions.items():
        cell(data, name)["source"] = text


def solved_with_cells_of_their_own(data: dict[str, Any], solutions: dict[str, str]) -> None:
    solved(data, solutions)
    data["cells"].insert(position(data, "causal_mask"), code("def helper(n):\n    return n"))
    data["cells"].insert(position(data, "causal_mask_check"), markdown("my thoughts"))
    data["cells"].insert(0, code("import os"))
    data["cells"].append({**markdown("raw"), "cell_type": "raw"})
    data["cells"].append(code(""))


def with_an_edited_demonstration_and_an_edited_check(data: dict[str, Any], solutions: dict[str, str]) -> None:
    demonstration = next(c for c in data["cells"] if "".join(c["source"]).startswith("torch.manual_seed(0)"))
    demonstration["source"] = "torch.manual_seed(12345)"
    cell(data, "causal_mask_check")["source"] = "4.0"


@pytest.mark.parametrize(
    "work", [unmodified, solved, solved_with_cells_of_their_own, with_an_edited_demonstration_and_an_edited_check]
)
def test_what_is_run_is_what_nbgrader_runs(
    work: Callable[..., None], course: Course, master: NotebookNode, released: str
) -> None:
    data = json.loads(released)
    work(data, course.solutions(STEM))
    result = redo(master, data)
    expected = stock(course, data)
    assert essence(result.notebook) == essence(expected)
    assert result.notebook.metadata.kernelspec == expected.metadata.kernelspec


def test_the_release_itself_gives_no_note_and_nothing_of_the_students(master: NotebookNode, released: str) -> None:
    result = rebuild(master, released)
    assert result.notes == ()
    assert result.notebook == master
    names = {c.metadata.nbgrader.grade_id for c in master.cells if c.metadata.get("nbgrader", {}).get("solution")}
    assert {c.id for c, yes in zip(result.notebook.cells, result.students, strict=True) if yes} == names
    assert result.answers == {name: cell(master, name).source for name in names}


def test_the_answer_is_the_students_text_to_the_letter(master: NotebookNode, submission: dict[str, Any]) -> None:
    text = "# café\r\ndef causal_mask(n):\n    return 1   \n\n\n"
    cell(submission, "causal_mask")["source"] = text
    result = redo(master, submission)
    assert result.answers["causal_mask"] == text == cell(result.notebook, "causal_mask").source
    assert result.notes == ()


def test_the_master_is_never_changed(master: NotebookNode, submission: dict[str, Any]) -> None:
    before = nbformat.writes(master)
    result = redo(master, submission)
    result.notebook.cells[3].metadata["x"] = 1
    result.notebook.metadata.kernelspec["name"] = "other"
    cell(result.notebook, "causal_mask_check").metadata.nbgrader.points = 0
    assert nbformat.writes(master) == before


# --- dishonest ones: nothing but text comes through -----------------------------------------------------


def tag_the_checks(data: dict[str, Any]) -> None:
    for each in data["cells"]:
        each["metadata"]["tags"] = ["skip-execution", "raises-exception"]


def retype_a_check(data: dict[str, Any]) -> None:
    cell(data, "causal_mask_check")["cell_type"] = "markdown"


def change_points(data: dict[str, Any]) -> None:
    cell(data, "causal_mask_check")["metadata"]["nbgrader"]["points"] = 1e9


def delete_the_checks(data: dict[str, Any]) -> None:
    names = ("causal_mask_check", "causal_mask_hidden", "bootstrap")
    data["cells"] = [c for c in data["cells"] if c not in [cell(data, name) for name in names]]


def paste_a_check_twice(data: dict[str, Any]) -> None:
    data["cells"].insert(3, json.loads(json.dumps(cell(data, "causal_mask_check"))))


def call_a_check_a_solution(data: dict[str, Any]) -> None:
    cell(data, "causal_mask_check")["metadata"]["nbgrader"].update(solution=True, locked=False, grade=False)
    cell(data, "causal_mask_check")["source"] = "4.0"


def edit_a_hidden_check(data: dict[str, Any]) -> None:
    cell(data, "causal_mask_hidden")["source"] = "1.0"


def forge_outputs(data: dict[str, Any]) -> None:
    output = {"output_type": "execute_result", "data": {"text/plain": "4.0"}, "metadata": {}, "execution_count": 1}
    cell(data, "causal_mask_check").update(outputs=[output], execution_count=7)


def reverse_the_cells(data: dict[str, Any]) -> None:
    data["cells"].reverse()


def change_the_kernel(data: dict[str, Any]) -> None:
    data["metadata"] = {"kernelspec": {"name": "evil", "display_name": "evil"}, "widgets": {"x": 1}}


def strange_ids(data: dict[str, Any]) -> None:
    for each in data["cells"]:
        each["id"] = "causal_mask_check"


ATTACKS = {
    tag_the_checks: "had the tags skip-execution, raises-exception",
    retype_a_check: "turned from code into markdown",
    change_points: "said points = 1000000000.0. It is 4.0 again",
    delete_the_checks: "missing and have been restored: bootstrap, causal_mask_check, causal_mask_hidden. A copy",
    paste_a_check_twice: "2 cells with the grade id causal_mask_check",
    call_a_check_a_solution: "The locked cell causal_mask_check was edited",
    edit_a_hidden_check: "The locked cell causal_mask_hidden was edited",
    forge_outputs: "",
    reverse_the_cells: "",
    change_the_kernel: "",
    strange_ids: "",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_on_the_cells_changes_nothing(
    attack: Callable[..., None], master: NotebookNode, submission: dict[str, Any]
) -> None:
    honest = redo(master, submission)
    attack(submission)
    attacked = redo(master, submission)
    assert attacked.notebook == honest.notebook
    assert attacked.students == honest.students
    assert attacked.answers == honest.answers
    assert any(ATTACKS[attack] in note for note in attacked.notes) or not ATTACKS[attack]


def test_cells_of_a_newer_release_get_one_note_that_accuses_nobody(master, submission):
    checks = ("_check", "_hidden")
    submission["cells"] = [
        each
        for each in submission["cells"]
        if not each["metadata"].get("nbgrader", {}).get("grade_id", "").endswith(checks)
    ]
    (note,) = [note for note in redo(master, submission).notes if "ocked cells" in note]
    assert re.fullmatch(r".* have been restored: (\w+, ){5}\w+ and \d+ more\. A copy that is older than .*", note), note


def test_a_cell_that_claims_to_be_a_check_is_an_extra_cell(master: NotebookNode, submission: dict[str, Any]) -> None:
    honest = redo(master, submission)
    place = position(submission, "causal_mask_check") + 1
    submission["cells"].insert(place, tagged(submission, "causal_mask_check", "4.0"))
    result = redo(master, submission)
    assert extras(result) == ["4.0"]
    assert instructors(result) == instructors(honest)
    assert "nbgrader" not in result.notebook.cells[place].metadata


def test_an_answer_that_claims_to_be_a_check_is_still_the_answer(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    honest = redo(master, submission)
    cell(submission, "causal_mask")["metadata"]["nbgrader"]["grade_id"] = "causal_mask_check"
    result = redo(master, submission)
    assert result.notebook == honest.notebook
    assert any("holds the answer to another exercise" in note for note in result.notes)


def test_swapped_grade_ids_are_put_right(master: NotebookNode, submission: dict[str, Any]) -> None:
    honest = redo(master, submission)
    one, other = cell(submission, "causal_mask"), cell(submission, "window_mask")
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    assert redo(master, submission).notebook == honest.notebook


def test_thousands_of_oddities_give_a_few_notes(master: NotebookNode, submission: dict[str, Any]) -> None:
    for each in submission["cells"]:
        for key in ("points", "grade", "solution", "locked"):
            each["metadata"].setdefault("nbgrader", {})[key] = "odd"
    notes = redo(master, submission).notes
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1].startswith("There are ")


# --- answers: deleted, doubled, retyped, merged ---------------------------------------------------------


@pytest.mark.parametrize("name", ["causal_mask", "why_low_loss"])
def test_a_deleted_answer_is_the_stub_again(name: str, master: NotebookNode, released: str) -> None:
    data = json.loads(released)
    data["cells"].remove(cell(data, name))
    result = redo(master, data)
    assert result.notebook == master
    assert result.answers[name] == cell(master, name).source
    assert result.notes == (f"The cell {name} is missing. It counts as not attempted.",)


@pytest.mark.parametrize("kind", ["markdown", "raw", "heading", None])
def test_a_retyped_answer_is_code_again(kind: str | None, master: NotebookNode, submission: dict[str, Any]) -> None:
    honest = redo(master, submission)
    cell(submission, "causal_mask")["cell_type"] = kind
    result = redo(master, submission)
    assert result.notebook == honest.notebook
    assert any("causal_mask was turned from code" in note for note in result.notes)


def test_of_two_copies_before_the_check_the_last_counts_as_in_nbgrader(
    master: NotebookNode, submission: dict[str, Any], course: Course
) -> None:
    second = SOLVED.replace(">=", ">")
    submission["cells"].insert(position(submission, "causal_mask") + 1, tagged(submission, "causal_mask", second))
    result = redo(master, submission)
    assert result.answers["causal_mask"] == second
    assert [c[1] for c in essence(result.notebook)] == [c[1] for c in essence(stock(course, submission))]
    assert "There are 2 cells with the grade id causal_mask." in result.notes


def test_a_copy_below_the_check_does_not_count(
    master: NotebookNode, submission: dict[str, Any], course: Course
) -> None:
    """nbgrader calls it the answer, but the check has met the other one by then: that is what it scores."""
    experiment = SOLVED.replace(">=", ">")
    submission["cells"].insert(
        position(submission, "causal_mask_hidden") + 1, tagged(submission, "causal_mask", experiment)
    )
    result = redo(master, submission)
    assert result.answers["causal_mask"] == SOLVED
    assert extras(result) == [experiment]
    assert [c[1] for c in essence(result.notebook)] == [c[1] for c in essence(stock(course, submission))]


def test_an_empty_copy_never_beats_an_answer(master: NotebookNode, submission: dict[str, Any], released: str) -> None:
    stub = "".join(cell(json.loads(released), "causal_mask")["source"])
    honest = redo(master, submission)
    submission["cells"].insert(position(submission, "causal_mask") + 1, tagged(submission, "causal_mask", stub))
    result = redo(master, submission)
    assert result.notebook == honest.notebook
    assert any("pasted again" in note for note in result.notes)


def test_a_split_answer_stays_whole(master: NotebookNode, submission: dict[str, Any]) -> None:
    """JupyterLab gives both halves of a split cell the same metadata."""
    place = position(submission, "causal_mask")
    submission["cells"].insert(place, tagged(submission, "causal_mask", "def helper():\n    return 1"))
    submission["cells"].insert(place + 2, tagged(submission, "causal_mask", "print(causal_mask(3))"))
    result = redo(master, submission)
    assert [c.source for c in result.notebook.cells[place : place + 3]] == [
        "def helper():\n    return 1",
        SOLVED,
        "print(causal_mask(3))",
    ]


def test_a_copied_cell_rewritten_for_a_deleted_answer(master: NotebookNode, submission: dict[str, Any]) -> None:
    text = "def window_mask(n, radius):\n    return 7"
    submission["cells"][position(submission, "window_mask")] = tagged(submission, "causal_mask", text)
    result = redo(master, submission)
    assert result.answers["causal_mask"] == SOLVED
    assert result.answers["window_mask"] == text


@pytest.mark.parametrize("text", [SOLVED, "causal_mask = lambda n: n", "# nothing that could be recognised\n1 + 1"])
def test_an_answer_in_a_new_cell_in_place_of_the_deleted_one(
    text: str, master: NotebookNode, submission: dict[str, Any]
) -> None:
    submission["cells"][position(submission, "causal_mask")] = code(text)
    result = redo(master, submission)
    assert result.answers["causal_mask"] == text
    assert extras(result) == []
    assert any("recognised by content" in note for note in result.notes)


def test_several_new_cells_in_place_of_a_deleted_one_are_for_a_person(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    place = position(submission, "causal_mask")
    submission["cells"][place : place + 1] = [code("x = 1"), code("y = 2")]
    assert "which cell is the answer causal_mask" in flagged(master, submission)


def test_two_answers_merged_into_one_cell(master: NotebookNode, submission: dict[str, Any]) -> None:
    submission["cells"].remove(cell(submission, "window_mask"))
    both = SOLVED + "\n\ndef window_mask(n, radius):\n    return 7"
    cell(submission, "causal_mask")["source"] = both
    result = redo(master, submission)
    assert result.answers["causal_mask"] == result.answers["window_mask"] == both
    assert cell(result.notebook, "window_mask").source.startswith("# window_mask is in another cell")
    assert "The answer window_mask is in the cell causal_mask." in result.notes


def test_an_untouched_answer_with_the_work_beside_it_is_noted(master: NotebookNode, submission: dict[str, Any]) -> None:
    submission["cells"].insert(position(submission, "why_low_loss") + 1, markdown("Because it cheats."))
    submission["cells"].append(code("def window_mask(n, radius):\n    return 7"))
    result = redo(master, submission)
    assert extras(result) == ["Because it cheats.", "def window_mask(n, radius):\n    return 7"]
    sentence = "is untouched, but the student wrote a cell of their own for it. Look at it."
    assert result.notes == (f"The cell why_low_loss {sentence}", f"The cell window_mask {sentence}")


def test_pictures_in_a_written_answer_are_kept_and_nothing_else(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    answer = cell(submission, "why_low_loss")
    answer["source"] = "![](attachment:a.png)"
    answer["attachments"] = {
        "a.png": {"image/png": "aGVsbG8="},
        "b.png": {"image/png": '"><script>'},
        "c": {"text/html": "aGVsbG8="},
        "\ud800": {"image/png": "aGVsbG8="},
        "d": 3,
    }
    result = redo(master, submission)
    assert cell(result.notebook, "why_low_loss").attachments == {"a.png": {"image/png": "aGVsbG8="}}


def test_deleted_text_and_demonstrations_are_back(master: NotebookNode, submission: dict[str, Any]) -> None:
    honest = redo(master, submission)
    submission["cells"] = [c for c in submission["cells"] if "nbgrader" in c["metadata"]]
    result = redo(master, submission)
    assert result.notebook == honest.notebook
    assert result.notes == ("Cells of the text or demonstrations are missing. They were restored.",)


def test_extra_cells_lose_everything_but_their_text(master: NotebookNode, submission: dict[str, Any]) -> None:
    strange = code("1 + 1", tags=["skip-execution"], nbgrader={"grade_id": "mine", "grade": True, "points": 5})
    strange["id"] = "causal_mask"
    strange["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "5.0"}]
    submission["cells"].insert(0, strange)
    result = redo(master, submission)
    expected = {"cell_type": "code", "metadata": {}, "source": "1 + 1", "outputs": [], "execution_count": None}
    assert result.notebook.cells[0] == {**expected, "id": "extra-1"}
    assert result.notes == ("A cell has the grade id 'mine', which the release does not have.",)


# --- lost metadata --------------------------------------------------------------------------------------


@cache
def master_of(stem: str) -> tuple[NotebookNode, dict[str, str]]:
    """The instructor's notebook and the solutions of any assignment, without a gradebook."""
    release = released_notebook(stem)
    solutions = {}
    for theirs, ours in zip(release.cells, build.solution_notebook(stem).cells, strict=True):
        if theirs.metadata.get("nbgrader", {}).get("solution"):
            solutions[theirs.metadata.nbgrader.grade_id] = ours.source
        else:
            theirs.source = ours.source
    return release, solutions


@pytest.mark.parametrize("stem", build.stems())
@pytest.mark.parametrize("how", ["no metadata", "Colab", "jupytext", "format 3"])
def test_every_notebook_is_recognised_without_its_metadata(how: str, stem: str) -> None:
    everything, solutions = master_of(stem)
    released = released_notebook(stem)
    for name, text in solutions.items():
        cell(released, name).source = text
    honest = redo(everything, released)
    assert honest.notes == ()
    assert honest.answers == solutions
    if how == "jupytext":
        text = jupytext.writes(
            released, fmt={"extension": ".py", "format_name": "percent", "cell_metadata_filter": "-all"}
        )
        released = jupytext.reads(text, fmt="py:percent")
    elif how == "format 3":
        released = nbformat.convert(released, 3)
    elif how == "Colab":
        for number, each in enumerate(released.cells):
            each.metadata = nbformat.from_dict({"id": f"colab{number}", "outputId": "x"})
            each.pop("id")
    else:
        without_metadata(released)
    result = redo(everything, released)
    assert result.notebook == honest.notebook
    assert result.answers == solutions
    assert how == "format 3" or len(result.notes) == 1


def test_cell_ids_alone_are_enough(master: NotebookNode, submission: dict[str, Any]) -> None:
    """An edited demonstration and an answer with nothing in it that could be recognised."""
    cell(submission, "causal_mask")["source"] = "1 + 1"
    demonstration = next(c for c in submission["cells"] if "".join(c["source"]).startswith("torch.manual_seed(0)"))
    demonstration["source"] = "torch.manual_seed(12345)"
    honest = redo(master, submission)
    assert redo(master, without_metadata(submission, ids=True)).notebook == honest.notebook


def test_without_metadata_other_points_in_the_text_do_not_matter(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    """The class may have changed them since."""
    question = next(c for c in submission["cells"] if "points, marked by hand" in "".join(c["source"]))
    behind = submission["cells"][submission["cells"].index(question) + 1]
    behind["source"] = "An answer."
    grade_id = behind["metadata"]["nbgrader"]["grade_id"]
    question["source"] = "".join(question["source"]).replace("2 points, marked", "7.5 points, marked")
    check = next(c for c in submission["cells"] if 'check("causal_mask"' in "".join(c["source"]))
    check["source"] = 'from course_lib import check\n\ncheck("causal_mask", causal_mask, points=6.5, hidden_points=1.5)'
    result = redo(master, without_metadata(submission))
    (answer,) = [c for c in result.notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    assert answer.source == "An answer."
    assert not any("locked" in note for note in result.notes)


def test_a_text_of_an_earlier_release_is_not_the_students(master: NotebookNode, submission: dict[str, Any]) -> None:
    """The line that says the points changes with them; the id of an untouched cell is made from its text."""
    honest = redo(master, submission)
    title, text = submission["cells"][0], "# 2 · Masks\n\nAs it was before.\n\n47 points"
    title.update(source=text, id=cell_id(text))
    assert redo(master, submission) == honest
    title["source"] = f"{text}, and a remark of my own"
    edited = redo(master, submission).notebook.cells[0]
    assert edited.source == title["source"]
    title["source"] = "\ud800"
    assert redo(master, submission).notebook.cells[0].source != honest.notebook.cells[0].source


def test_an_edited_demonstration_is_recognised_by_its_neighbours(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    demonstration = next(c for c in submission["cells"] if "".join(c["source"]).startswith("torch.manual_seed(0)"))
    demonstration["source"] = "torch.manual_seed(12345)"
    honest = redo(master, submission)
    assert redo(master, without_metadata(submission)).notebook == honest.notebook


def test_without_metadata_the_stub_beside_the_answer_is_not_the_answer(
    master: NotebookNode, submission: dict[str, Any], released: str
) -> None:
    honest = redo(master, submission)
    stub = "".join(cell(json.loads(released), "causal_mask")["source"])
    submission["cells"].insert(position(submission, "causal_mask"), code(stub))
    assert redo(master, without_metadata(submission)).notebook == honest.notebook


def test_without_metadata_the_cell_right_before_the_check_is_the_answer(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    first_try = "def causal_mask(n):\n    return None"
    submission["cells"].insert(position(submission, "causal_mask"), code(first_try))
    result = redo(master, without_metadata(submission))
    assert result.answers["causal_mask"] == SOLVED
    assert extras(result) == [first_try]


def test_without_metadata_two_candidates_are_for_a_person(master: NotebookNode, submission: dict[str, Any]) -> None:
    place = position(submission, "causal_mask") + 1
    submission["cells"].insert(place, code("def causal_mask(n):\n    return None"))
    submission["cells"].insert(place + 1, code("causal_mask(3)"))
    reason = flagged(master, without_metadata(submission))
    assert "which cell is the answer causal_mask: several cells define causal_mask" in reason


def test_without_metadata_a_missing_answer_is_for_a_person(master: NotebookNode, submission: dict[str, Any]) -> None:
    submission["cells"].remove(cell(submission, "causal_mask"))
    reason = flagged(master, without_metadata(submission))
    assert "which cell is the answer causal_mask: the notebook has lost its metadata" in reason


def test_an_answer_and_its_check_without_grade_ids_in_an_otherwise_whole_notebook(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    for name in ("causal_mask_check", "causal_mask_hidden"):
        cell(submission, name)["metadata"] = {}
    submission["cells"].remove(cell(submission, "causal_mask"))
    assert "causal_mask" in flagged(master, submission)


def test_a_written_answer_that_was_moved_in_a_notebook_that_lost_some_grade_ids(
    master: NotebookNode, submission: dict[str, Any]
) -> None:
    answer = cell(submission, "why_low_loss")
    submission["cells"].remove(answer)
    submission["cells"].append(markdown("Because it has seen the future."))
    assert "why_low_loss is missing" in "".join(redo(master, submission).notes)
    cell(submission, "causal_mask_check")["metadata"] = {}
    assert "which cell is the answer why_low_loss" in flagged(master, submission)


def test_another_notebook_is_for_a_person(master: NotebookNode) -> None:
    other = json.loads(released_text("03_positions"))
    assert "Is it another notebook?" in flagged(master, other)
    assert "Is it another notebook?" in flagged(master, without_metadata(other))


def test_a_notebook_with_nothing_but_locked_cells_is_zero(master: NotebookNode, submission: dict[str, Any]) -> None:
    submission["cells"] = [cell(submission, "causal_mask_check"), cell(submission, "bootstrap")]
    with pytest.raises(NotRebuilt) as raised:
        redo(master, submission)
    assert raised.value.status == "zeroed"
    assert "missing" in raised.value.reason


# --- files that are no notebooks, and values that are no values -----------------------------------------


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("", "zeroed", "empty"),
        ("\ufeff \n", "zeroed", "empty"),
        ("hello", "zeroed", "not valid JSON"),
        ('{"cells": [', "zeroed", "not valid JSON"),
        ('{"cells": [], "nbformat": ' + "9" * 5000 + "}", "zeroed", "not valid JSON"),
        ("[" * 100_000 + "]" * 100_000, "zeroed", "nested too deeply"),
        ("null", "zeroed", "not a notebook"),
        ("[1, 2]", "zeroed", "not a notebook"),
        ('{"a": 1}', "zeroed", "not a notebook"),
        ('{"nbformat": 4}', "zeroed", "no list of cells"),
        ('{"nbformat": 4, "cells": {"a": 1}}', "zeroed", "no list of cells"),
        ('{"nbformat": 4, "cells": []}', "zeroed", "empty"),
        ('{"nbformat": 4, "cells": [1, null, {}, {"source": " "}]}', "zeroed", "empty"),
        ('{"nbformat": 5, "cells": []}', "flagged", "unknown format 5"),
        ('{"cells": []}', "flagged", "unknown format None"),
        ('{"nbformat": {"a": 1}, "cells": []}', "flagged", "unknown format a dict"),
        ('{"nbformat": true, "cells": []}', "flagged", "unknown format True"),
        ('{"nbformat": NaN, "cells": []}', "flagged", "unknown format nan"),
        ('{"nbformat": 3, "worksheets": 7}', "flagged", "cannot be converted"),
        ('{"nbformat": 4, "cells": [' + "{}," * MOST_CELLS + "{}]}", "flagged", f"{MOST_CELLS + 1} cells"),
        (" " * (MOST_CHARACTERS + 1), "flagged", "too large"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_files_that_cannot_be_rebuilt(text: str, status: str, reason: str, master: NotebookNode) -> None:
    with pytest.raises(NotRebuilt) as raised:
        rebuild(master, text)
    assert raised.value.status == status
    assert reason in raised.value.reason == str(raised.value)
    assert raised.value.reason.endswith((".", "?"))


def test_a_cell_full_of_data_is_for_a_person(master: NotebookNode, submission: dict[str, Any]) -> None:
    cell(submission, "causal_mask")["source"] = "x" * (MOST_CHARACTERS_OF_A_CELL + 1)
    assert "500,000 characters" in flagged(master, submission)


def test_very_much_code_is_for_a_person(master: NotebookNode, submission: dict[str, Any]) -> None:
    """All of it is parsed, several times: in a file as large as a file may be, this would take minutes."""
    part = {"cell_type": "code", "source": "x" * (MOST_CHARACTERS_OF_CODE // 4), "metadata": {}}
    submission["cells"] += [{**part, "cell_type": "markdown"}] * 4  # pictures, perhaps
    assert redo(master, submission)
    submission["cells"] += [part] * 4
    assert "1,000,000 characters of code" in flagged(master, submission)


@pytest.mark.parametrize("text", ["1." * 200_000, "1 " * 200_000, " " * 200_000 + "?" * 200_000], ids=len)
def test_no_text_is_read_again_from_each_of_its_characters(
    text: str, master: NotebookNode, submission: dict[str, Any]
) -> None:
    """That would take a quarter of an hour."""
    submission["cells"].append({"cell_type": "code", "source": text, "metadata": {}})
    assert text in [cell.source for cell in redo(master, submission).notebook.cells]


@pytest.mark.parametrize(
    "value", [None, 3, float("nan"), 10**400, {"a": "b"}, [["x"]], [None, "a"], "\ud800", True, "é"]
)
@pytest.mark.parametrize(
    "key", ["source", "metadata", "cell_type", "id", "outputs", "attachments", "nbgrader", "grade_id", "tags", "points"]
)
def test_no_value_in_a_cell_does_harm(key: str, value: Any, master: NotebookNode, submission: dict[str, Any]) -> None:
    """Whatever is in an extra cell or in a check, the instructor's cells come out as they are."""
    for each in (code("1"), cell(submission, "window_mask_check")):
        holder = {"nbgrader": each["metadata"], "tags": each["metadata"]}.get(key, each)
        if key in ("grade_id", "points"):
            holder = each["metadata"].setdefault("nbgrader", {})
        holder[key] = value
        if each not in submission["cells"]:
            submission["cells"].append(each)
    result = redo(master, submission)
    nbformat.writes(result.notebook).encode()
    kept = [c for c in result.notebook.cells if not c.id.startswith("extra-")]
    assert [c for c in kept if c.id != "causal_mask"] == [c for c in master.cells if c.id != "causal_mask"]


def test_deeply_nested_values_do_no_harm(master: NotebookNode, submission: dict[str, Any]) -> None:
    cell(submission, "causal_mask_check")["metadata"]["nbgrader"]["points"] = "DEEP"
    nested = "[" * 900 + "]" * 900
    result = rebuild(master, json.dumps(submission).replace('"DEEP"', nested))
    assert any("said points = a list" in note for note in result.notes)


def test_notes_and_reasons_can_be_written_down(master: NotebookNode, submission: dict[str, Any]) -> None:
    details = cell(submission, "causal_mask_check")["metadata"]
    details["tags"] = ["\ud800\n\x1b[31m"]
    details["nbgrader"]["points"] = "\ud800"
    notes = redo(master, submission).notes
    assert any("had the tags ???[31m." in note for note in notes)
    assert any("said points = ?." in note for note in notes)
    with pytest.raises(NotRebuilt, match=r"unknown format \?"):
        redo(master, {"nbformat": "\ud800", "cells": []})


def test_a_file_is_read_whatever_its_bytes_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "02_masks.ipynb"
    path.write_bytes(b"\xef\xbb\xbf{\xff\r\n}")
    assert submitted_text(path) == "{\ufffd\r\n}"
    monkeypatch.setattr(rebuilding, "MOST_CHARACTERS", 2)
    assert len(submitted_text(path)) == 3


def test_lone_surrogates_in_an_answer_become_question_marks(master: NotebookNode, submission: dict[str, Any]) -> None:
    cell(submission, "why_low_loss")["source"] = ["a\ud800b", " 😀"]
    result = redo(master, submission)
    assert result.answers["why_low_loss"] == "a?b 😀"
    assert any("surrogates" in note for note in result.notes)
