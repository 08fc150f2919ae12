"""The minutes of a notebook: for reading it and doing its exercises."""

from __future__ import annotations

import nbformat
import pytest

from autograder.authoring.minutes import minutes, minutes_of_cell
from course_lib.exercises import all_exercises


def cell(text: str, title: str = "", kind: str = "code"):
    made = nbformat.v4.new_code_cell(text) if kind == "code" else nbformat.v4.new_markdown_cell(text)
    made.metadata["title"] = title
    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (cell("word " * 280, kind="markdown"), 2.0),
        (cell("word " * 139 + "$a + b = c$", kind="markdown"), 1.0),  # a formula counts as a word
        (cell("x = 1\n\n" * 12), 1.0),
        (cell("x = 1\n" * 11 + "plt.show()"), 1.5),
        (cell("x = 1\n" * 200, "figure What is seen"), 0.5),
        (cell("x = 1\n### BEGIN SOLUTION\n" + "y = 2\n" * 50 + "### END SOLUTION", "exercise f"), 1 / 12),
        (cell("check(f)", "check f"), 0.0),
        (cell("claim('', True)", "claims"), 0.0),
        (cell("a model answer " * 100, "answer why 2", "markdown"), 5.0),
    ],
)
def test_what_a_cell_takes(made, expected):
    assert minutes_of_cell(made) == pytest.approx(expected)


def test_exercises_are_added_and_the_sum_is_rounded():
    exercise = all_exercises()["causal_mask"]
    assert exercise.minutes_for_newcomers == 8
    text = cell("word " * 700, kind="markdown")
    assert minutes([text], [exercise, exercise]) == 20
    written = cell("", "answer own_experiment 4", kind="markdown")
    assert minutes([text, cell("{{question own_experiment}}", kind="markdown"), written], [exercise, exercise]) == 25
    assert (
        minutes([text, cell("{{open_question own_experiment}}", kind="markdown"), written], [exercise, exercise]) == 20
    )
