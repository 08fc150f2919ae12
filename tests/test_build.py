"""The builder: students' notebooks are what the sources say, and sources with mistakes are refused."""

from __future__ import annotations

import re

import nbformat
import pytest
from release import released_notebook as released

from autograder.authoring import build
from autograder.hidden import all_hidden
from course_lib.exercises import TOPICS, all_exercises

STEMS = build.stems()
every_notebook = pytest.mark.parametrize("stem", STEMS)


def grade_cells(notebook):
    return {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}


def test_there_is_one_source_for_each_topic():
    assert [stem.partition("_")[2] for stem in STEMS] == list(TOPICS)


def test_committed_files_are_up_to_date():
    assert build.stale_files(build.build()) == [], "run `make build` and commit what it changed"


@every_notebook
def test_released_notebook_is_ready_for_students(stem):
    notebook = released(stem)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    text = "\n".join(cell.source for cell in notebook.cells)
    assert not re.search("BEGIN SOLUTION|END SOLUTION|HIDDEN TESTS|check_hidden|MARK SCHEME", text)
    assert "{{" not in text
    assert "What you can do now" in text


@every_notebook
def test_every_exercise_of_the_topic_is_in_the_notebook(stem):
    cells = grade_cells(released(stem))
    exercises = [e for e in all_exercises().values() if e.topic == stem.partition("_")[2]]
    assert exercises
    for exercise in exercises:
        assert "raise NotImplementedError()" in cells[exercise.name].source
        assert cells[exercise.name].metadata.nbgrader.solution
        assert cells[f"{exercise.name}_check"].metadata.nbgrader.points == exercise.max_points
        assert cells[f"{exercise.name}_hidden"].metadata.nbgrader.points == all_hidden()[exercise.name].points


@every_notebook
def test_there_is_a_written_question_marked_by_hand(stem):
    written = [c for c in released(stem).cells if c.cell_type == "markdown" and "nbgrader" in c.metadata]
    assert written and all(cell.metadata.nbgrader.grade and cell.metadata.nbgrader.points > 0 for cell in written)


@every_notebook
def test_nothing_in_the_text_is_loaded_from_elsewhere(stem):
    for cell in released(stem).cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"!\[|<img|<svg|```mermaid|<script|<iframe", cell.source), cell.source[:200]


@every_notebook
def test_neighbours_are_linked(stem):
    place = STEMS.index(stem)
    last = released(stem).cells[-1].source
    for neighbour in STEMS[max(place - 1, 0) : place] + STEMS[place + 1 : place + 2]:
        assert f"({neighbour}.ipynb)" in last


# --- sources with mistakes ------------------------------------------------------------------------------

TITLE = "# %% [markdown]\n# # Masks\n\n"
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
STUB = f"{TITLE}# %% exercise causal_mask\ndef causal_mask(n):\n{BEGIN}    return 1\n{END}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (TITLE + "# %% excercise causal_mask\n1\n", "there is no kind of cell called"),
        (TITLE + "# %% exercise casual_mask\n1\n", "no exercise casual_mask"),
        (TITLE + "# %% exercise causal_mask\n1\n", "BEGIN SOLUTION"),
        (TITLE + "# %% check causal_mask\ncheck(other)\n", "only the line check"),
        (TITLE + "# %% setup\n1\n\n# %% setup\n2\n", "Two cells are called"),
        ("# %%\n1\n", "first cell has to be the title"),
        (TITLE + '# %%\ntriangle = yours("causal_mask", causal_mask)\n', "after the check of causal_mask"),
        (TITLE + "# %% [markdown]\n# {{question why_causal}}\n", "no cell `answer why_causal`"),
        (TITLE + "# %% [markdown]\n# {{exersise causal_mask}}\n", "{{exersise causal_mask}} is not one of the marks"),
        (TITLE + "# %% answer why 3 [markdown]\n# Because.\n", "answer why needs ### BEGIN SOLUTION"),
        (STUB.replace(END, ""), "exercise causal_mask needs ### BEGIN SOLUTION and, below it, ### END SOLUTION"),
        (STUB.replace(BEGIN, "").replace(END, END + BEGIN), "BEGIN SOLUTION and, below it, ### END SOLUTION"),
        (STUB.replace("exercise causal_mask", ""), "neither an exercise nor an answer contains a solution"),
        (STUB.replace("(n)", "(length)"), r"takes \(length\), but in course_lib/masks.py it takes \(n\)"),
        (STUB.replace("def causal_mask", "def mask"), "does not define causal_mask"),
        (STUB.replace("def causal_mask", "de causal_mask"), "not valid Python: invalid syntax"),
    ],
)
def test_mistakes_in_a_source_are_named(tmp_path, monkeypatch, source, words):
    (tmp_path / "02_masks.py").write_text(source)
    monkeypatch.setattr(build, "SOLUTIONS", tmp_path)
    with pytest.raises(build.SourceError, match=words):
        build.solution_notebook("02_masks")


def test_what_a_class_takes_is_what_its_init_takes():
    assert build.arguments_in(
        "class A:\n    def f(self, x): ...\n    def __init__(self, a, *b, c=1, **d): ...", "A"
    ) == [*"abcd"]
    assert build.arguments_in("class A(B): ...", "A") == []


CELL = re.compile(r"# %% exercise window_mask\n.*?(?=# %% )", re.DOTALL)


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (CELL, "the notebook has no cell `# %% exercise window_mask`"),
        (re.compile(r"# %% check window_mask\n.*\n"), "the notebook has no cell `# %% check window_mask`"),
        (re.compile(r"\{\{exercise window_mask\}\}"), "the notebook has no {{exercise window_mask}} in its text"),
    ],
)
def test_an_exercise_that_is_registered_has_to_be_in_the_notebook(tmp_path, monkeypatch, left_out, words):
    source, count = left_out.subn("", build.source_text("02_masks"))
    assert count == 1
    (tmp_path / "02_masks.py").write_text(source)
    (tmp_path / "glossary.md").write_text((build.SOLUTIONS / "glossary.md").read_text())
    monkeypatch.setattr(build, "SOLUTIONS", tmp_path)
    with pytest.raises(build.SourceError, match=f"masks/__init__.py has the exercise window_mask, but {words}"):
        build.build()


def built(tmp_path, monkeypatch, source):
    (tmp_path / "02_masks.py").write_text(TITLE + source)
    monkeypatch.setattr(build, "SOLUTIONS", tmp_path)
    return build.solution_notebook("02_masks").cells[2:-1]


def test_a_figure_is_folded_behind_its_title(tmp_path, monkeypatch):
    (cell,) = built(tmp_path, monkeypatch, "# %% figure Who sees whom?\nplt.show()\n")
    assert cell.source == "# Figure: Who sees whom?\n# @title Figure: Who sees whom?\nplt.show()"
    assert cell.metadata == {"cellView": "form", "jupyter": {"source_hidden": True}}


def test_a_question_says_its_points(tmp_path, monkeypatch):
    solved = "# ### BEGIN SOLUTION\n# Because.\n# ### END SOLUTION\n"
    source = f"# %% [markdown]\n# {{{{question why}}}}. Why?\n\n# %% answer why 3 [markdown]\n{solved}"
    question, answer = built(tmp_path, monkeypatch, source)
    assert question.source == "**In your own words** · 3 points, marked by hand. Why?"
    assert answer.metadata.nbgrader.points == 3


def test_check_option_tells_what_is_out_of_date(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "WORK", tmp_path / "work")
    monkeypatch.setattr(build, "build", lambda: {tmp_path / "a.ipynb": "new"})
    (tmp_path / "a.ipynb").write_text("old")
    assert build.main(["--check"]) == 1
    assert "out of date: a.ipynb" in capsys.readouterr().err
    assert (tmp_path / "a.ipynb").read_text() == "old"
    assert build.main([]) == 0
    assert (tmp_path / "a.ipynb").read_text() == "new"
    assert build.main(["--check"]) == 0


def test_no_notebook_takes_a_newcomer_more_than_two_and_a_half_hours():
    assert build.MOST_MINUTES == 150
    assert build.too_long() == []


def test_the_build_says_which_notebook_takes_too_long(monkeypatch):
    monkeypatch.setattr(build, "minutes_of", lambda stem: 155 if stem == "02_masks" else 150)
    (sentence,) = build.too_long()
    assert sentence.startswith("02_masks would take a newcomer 155 minutes. No notebook may take more than 150")
