"""The progress bar: it changes nothing about the loop, and says nothing where nobody watches."""

from __future__ import annotations

import pytest

from course_lib import progress_bar
from course_lib.progress_bar import bar


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(progress_bar, "somebody_watches", lambda: True)
    monkeypatch.setattr(progress_bar, "SECONDS_BETWEEN", 0.0)


def test_nothing_is_written_where_nobody_watches(capsys):
    assert list(bar(range(3), "training")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_nothing_is_written_while_graded(monkeypatch, capsys):
    monkeypatch.setattr("course_lib.surroundings.in_kernel", lambda: True)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert list(bar(range(3))) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_the_line_is_written_over_and_one_stays(watched, capsys):
    assert list(bar(range(4), "training")) == [0, 1, 2, 3]
    out, err = capsys.readouterr()
    assert err == "" and out.count("\n") == 1
    *before, last = out.split("\r")
    assert "━━━━━━━╌" in before[2] and "1 of 4, about" in before[2]
    assert last.startswith("training: 4 of 4 done in 0 s")
    assert len(last.rstrip("\n")) >= max(map(len, before)), "what stood there before is covered"


def test_a_loop_that_is_left_says_so(watched, capsys):
    for step in bar(range(4), "training"):
        if step == 2:
            break
    assert "training: 2 of 4 stopped" in capsys.readouterr().out


def test_without_a_length_it_counts(watched, capsys):
    assert list(bar(iter("abc"), "reading")) == ["a", "b", "c"]
    assert "reading: 3 done" in capsys.readouterr().out
    assert list(bar(iter("abc"), "reading", total=3)) == ["a", "b", "c"]
    assert "reading: 3 of 3 done" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (80, "1 min 20 s")])
def test_durations(seconds, text):
    assert progress_bar.duration(seconds) == text
