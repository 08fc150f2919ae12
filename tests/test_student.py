"""What a notebook calls: check, hint, solution, progress, exercises."""

from __future__ import annotations

import json

import pytest
import torch

import course_lib
from course_lib import check, exercises, hint, progress, solution
from course_lib.checking import record


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return tmp_path


def causal_mask(n):
    return torch.ones(n, n).tril()


def test_check_by_name_and_by_object():
    assert check(causal_mask).passed
    assert check("causal_mask", lambda n: torch.ones(n, n)).misconception == "allows_everything"


def test_the_function_exercises_is_not_hidden_by_the_package():
    check(causal_mask)
    assert course_lib.exercises is exercises
    assert any(e.name == "causal_mask" and e.topic == "masks" and e.minutes > 0 for e in exercises())
    assert "causal_mask" in repr(exercises())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: check("casual_mask", causal_mask), ValueError, "Did you mean 'causal_mask'"),
        (lambda: check("nothing like it", causal_mask), ValueError, r"exercises\(\)"),
        (lambda: check(torch.ones(2)), TypeError, "Say which exercise"),
        (lambda: hint(causal_mask), TypeError, "named by a string"),
    ],
)
def test_wrong_calls_say_what_to_do(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_hints_come_one_after_the_other_and_start_again():
    texts = [hint("causal_mask").text for _ in range(5)]
    assert texts[0].startswith("Hint 1 of 4") and texts[3].startswith("Hint 4 of 4")
    assert texts[4] == texts[0]


def test_solution_asks_for_one_real_attempt():
    assert "Try it once yourself" in solution("causal_mask").text

    def stub(n):
        raise NotImplementedError()

    check("causal_mask", stub)
    assert "Try it once yourself" in solution("causal_mask").text
    check("causal_mask", lambda n: torch.ones(n, n))
    assert "def causal_mask" in solution("causal_mask").text


def test_progress_keeps_the_best_result():
    assert "✓" not in repr(progress())
    check(causal_mask)
    check("causal_mask", lambda n: torch.ones(n, n))
    row = next(line for line in repr(progress()).splitlines() if " causal_mask " in line)
    assert "✓ done" in row and "4 / 4" in row
    assert record.entry("causal_mask")["attempts"] == 2


def test_a_spoiled_file_is_no_reason_to_stop(empty_folder):
    for content in ("{", "[]", '{"causal_mask": 3}'):
        (empty_folder / record.FILE_NAME).write_text(content)
        assert check(causal_mask).passed
        assert json.loads((empty_folder / record.FILE_NAME).read_text())["causal_mask"]["points"] == 4


def test_a_spoiled_file_is_kept(empty_folder):
    """A merge of two folders, say, has left marks in it: most of it can still be read by a person."""
    for content in ("{one", "{two"):
        (empty_folder / record.FILE_NAME).write_text(content)
        check(causal_mask)
    kept = sorted(path.read_text() for path in empty_folder.glob(".course_progress (damaged*).json"))
    assert kept == ["{one", "{two"]


def test_nothing_is_written_while_nbgrader_runs(empty_folder, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    check(causal_mask)
    hint("causal_mask")
    assert list(empty_folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "no/such/folder/progress.json")
    assert check(causal_mask).passed
