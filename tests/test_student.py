"""What a notebook calls: check, yours, hint, solution, progress, exercises."""

from __future__ import annotations

import json
import sys
import time

import pytest
import torch

import course_lib
from autograder.authoring import build
from course_lib import check, exercises, hint, masks, progress, solution, yours
from course_lib.checking import record
from course_lib.notebooks import all_notebooks
from course_lib.student import groups


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


def test_yours_is_your_own_code_once_it_passes(capsys, empty_folder):
    assert yours("causal_mask", causal_mask) is causal_mask
    assert capsys.readouterr() == ("", "")
    assert list(empty_folder.iterdir()) == [], "no attempt is recorded"


def stub(n):
    raise NotImplementedError()


def talks_and_is_wrong(n):
    print("hello")
    return torch.ones(n, n)


@pytest.mark.parametrize("answer", [stub, talks_and_is_wrong, None, 3, causal_mask(3)])
@pytest.mark.parametrize("graded", [False, True])
def test_yours_is_the_courses_own_otherwise_and_says_so_in_one_line(answer, graded, capsys, empty_folder, monkeypatch):
    if graded:
        monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert yours("causal_mask", answer) is masks.causal_mask
    sentence = "Your causal_mask does not pass its check yet, so the course's own is used here.\n"
    assert capsys.readouterr() == (sentence, "")
    assert list(empty_folder.iterdir()) == []


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
    assert texts[4].endswith(texts[0])


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
    assert "✓ causal_mask" in row and "4 of 4, 1 more when graded" in row
    assert record.entry("causal_mask")["attempts"] == 2


def test_progress_unfolds_only_what_is_begun():
    check(causal_mask)
    text = repr(progress())
    begun = next(line for line in text.splitlines() if line.startswith("2 · Masks"))
    assert "━" in begun and "padding_mask" in text and "softmax" not in text.replace("masked_softmax", "")
    page = progress()._repr_html_()
    assert page.count("<details") == len(all_notebooks()) and page.count("<details open") == 1


def test_points_are_the_same_number_everywhere():
    """In a notebook's title, in the map, in the list of exercises and in the progress."""
    _, _, *lines = build.course_map().splitlines()
    for group, stem, line in zip(groups(), build.stems(), lines, strict=True):
        points = f"{group.all_points:g}"
        assert f" · {points} points (" in build.worth(stem)
        assert stem in line and line.endswith(f"| {points} |")
        assert f"{group.notebook.title} · {len(group.lines)} exercises · {points} points" in repr(exercises())
        assert f"  0 of {points} points" in repr(progress())
        cells = build.solution_notebook(stem).cells
        graded = [c.metadata.nbgrader for c in cells if c.metadata.get("nbgrader", {}).get("grade")]
        assert group.all_points == sum(details.points for details in graded)


def test_a_solution_is_coloured_and_no_line_of_it_is_broken():
    check(causal_mask)
    page = solution("causal_mask")._repr_html_()
    assert "white-space:pre;overflow-x:auto" in page and '<span style="color' in page


def test_a_solution_shows_without_pygments(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    check(causal_mask)
    assert "def causal_mask(n: int) -&gt; Tensor:" in solution("causal_mask")._repr_html_()


def test_a_failing_check_offers_its_hints_one_inside_the_other():
    page = check("causal_mask", lambda n: torch.ones(n, n)).as_html()
    places = [page.index(f"Hint {number} of 4") for number in (1, 2, 3, 4)]
    assert places == sorted(places) and page.count("</details></details></details></details>") == 1
    assert record.entry("causal_mask")["hints"] == 0, "nobody can tell whether one was opened"
    assert "<details" not in check(causal_mask).as_html()


def test_no_hints_while_graded(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert "<details" not in check("causal_mask", lambda n: torch.ones(n, n)).as_html()


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


def test_progress_is_kept_on_a_mounted_drive(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(record, "DRIVE", tmp_path / "MyDrive")
    record.note_hint("softmax")
    (tmp_path / "MyDrive").mkdir()
    record.note_hint("softmax")  # counts on from what was noted before the Drive was there
    assert json.loads((tmp_path / "MyDrive" / record.FILE_NAME).read_text())["softmax"]["hints"] == 2
    assert json.loads((tmp_path / record.FILE_NAME).read_text())["softmax"]["hints"] == 1


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "no/such/folder/progress.json")
    assert check(causal_mask).passed


# --- at the desk ----------------------------------------------------------------------------------------------------


def test_what_an_answer_prints_is_shown_once_for_each_input():
    def talks(n):
        print(f"n is {n}")
        return torch.ones(n, n).triu()

    text = str(check("causal_mask", talks))
    assert text.count("n is 4") == 1 and "your code printed" in text
    assert "n is 4" in check("causal_mask", talks).as_html()


def test_an_endless_print_is_shortened():
    def chatters(n):
        for _ in range(10**5):
            print("again and again")
        return torch.ones(n, n).tril()

    report = check("causal_mask", chatters)
    assert report.passed and len(str(report)) < 4000


@pytest.mark.parametrize("wait", [False, True])
def test_endless_code_is_stopped_with_a_sentence(wait):
    def endless(n):
        while True:
            time.sleep(1000 if wait else 0)

    report = check("causal_mask", endless, seconds=0.2)
    assert report.outcome == "stopped" and report.points == 0
    assert "On the input n = 4: your code was still running after 0.2 s" in " ".join(str(report).split())


def test_an_interrupt_says_what_was_running():
    def interrupted(n):
        raise KeyboardInterrupt

    assert "your code was interrupted" in " ".join(str(check("causal_mask", interrupted)).split())


def test_no_alarm_is_left_behind():
    for _ in range(20):
        check("causal_mask", lambda n: torch.ones(n, n).tril(), seconds=0.05)
    time.sleep(0.2)


def test_a_name_alone_checks_what_the_notebook_defines(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "causal_mask", lambda n: torch.ones(n, n).tril(), raising=False)
    assert check("causal_mask").passed
    monkeypatch.delattr(main, "causal_mask")
    with pytest.raises(NameError, match="no causal_mask in this notebook yet"):
        check("causal_mask")


def test_hints_say_when_they_start_over_and_a_check_offers_the_next():
    wrong = torch.ones
    assert "gives hint 1 of" in str(check("causal_mask", lambda n: wrong(n, n)))
    texts = [str(hint("causal_mask")) for _ in range(5)]
    assert "gives hint 2 of" in str(check("causal_mask", lambda n: wrong(n, n)))
    assert texts[4].startswith("You have seen all of them; they start again. Hint 1 of")


def test_a_constant_is_no_attempt():
    check("causal_mask", lambda n: 0)
    assert "Try it once yourself first" in str(solution("causal_mask"))
    check("causal_mask", lambda n: torch.ones(n, n))
    assert "def causal_mask" in str(solution("causal_mask"))


def test_a_failing_mask_shows_the_picture_with_the_first_difference_marked():
    page = check("causal_mask", lambda n: torch.ones(n, n).triu()).as_html()
    assert "expected" in page and "yours" in page and page.count("2px solid") == 3
