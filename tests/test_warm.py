"""Warm processes are started one after another, while the grader does its own imports."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from autograder.walls import warm


class Pretended:
    """A warm process that says that it is ready when the test wants it to."""

    started: ClassVar[list[Pretended]] = []

    def __init__(self, folders: Sequence[Path] = ()):
        self.control, self.other_end = socket.socketpair()
        self.is_closed = False
        Pretended.started.append(self)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Pretended]]:
    monkeypatch.setattr(warm, "Warm", Pretended)
    monkeypatch.setattr(warm, "processors", lambda: 2)
    Pretended.started.clear()
    yield Pretended.started
    for each in Pretended.started:
        each.control.close()
        each.other_end.close()


def test_the_next_is_started_when_one_is_ready(pretended: list[Pretended]) -> None:
    starting = warm.Starting(2)
    assert len(pretended) == 1, "the other processor is for the grader's own imports"
    pretended[0].other_end.send(b"ready")
    starting.thread.join(60)
    assert len(pretended) == 2
    assert pretended[0].control.recv(10) == b"ready", "what it said is still to be heard"
    assert starting.all() == pretended


def test_whoever_needs_them_all_does_not_wait_for_their_turn(pretended: list[Pretended]) -> None:
    starting = warm.Starting(4)
    assert starting.all() == pretended and len(pretended) == 4


def test_those_that_were_started_are_stopped(pretended: list[Pretended]) -> None:
    warm.Starting(3).close()
    assert pretended and all(each.is_closed for each in pretended)


def test_with_more_processors_several_get_ready_together(
    pretended: list[Pretended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "processors", lambda: 8)
    starting = warm.Starting(8)
    assert len(pretended) == 7
    starting.close()
