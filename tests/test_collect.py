"""Placing a download: every notebook in its place, or in the report with the reason why not."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count, product
from pathlib import Path

import pytest
from downloads import (
    MONDAY,
    TUESDAY,
    class_with_releases,
    date_in_nbgrader,
    notebook,
    only,
    put,
    reason,
    who,
    zipped,
)

from autograder.classroom import collect as collecting
from autograder.classroom.collect import collect
from autograder.classroom.course import Course, CourseError
from autograder.classroom.placing import choose_version, existing_date


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return class_with_releases(tmp_path / "course")


# --- the arguments --------------------------------------------------------------------------------------


def test_one_assignment_only(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ada/03_positions.ipynb", notebook("03_positions"))
    put(download, "ben/x.ipynb", b"{broken")
    collected = collect(course, download, "02_masks")
    assert who(collected) == {"ada/02_masks.ipynb": ("ada", "02_masks"), "ben/x.ipynb": ("ben", "02_masks")}
    assert "It is for 03_positions, but only 02_masks" in reason(collected, "ada/03_positions.ipynb")


def test_a_pattern(course: Course, download: Path) -> None:
    put(download, "week3/masks/student=ada/02_masks.ipynb")
    put(download, "week3/masks/somebody/02_masks.ipynb")
    put(download, "week3/positions/student=ben/x.ipynb", b"{broken")
    collected = collect(course, download, pattern=r"student=(?P<student>\w+)/")
    assert who(collected) == {"week3/masks/student=ada/02_masks.ipynb": ("ada", "02_masks")}
    assert reason(collected, "week3/masks/somebody/02_masks.ipynb") == "The pattern does not match its path."
    assert "Neither its name" in reason(collected, "week3/positions/student=ben/x.ipynb")


def test_a_pattern_with_the_assignment(course: Course, download: Path) -> None:
    put(download, "02_masks/x/ada.ipynb", b"{broken")
    put(download, "04_unknown/x/ada.ipynb", b"{broken")
    collected = collect(course, download, pattern=r"(?P<assignment>\w+)/x/(?P<student>\w+)")
    assert who(collected) == {"02_masks/x/ada.ipynb": ("ada", "02_masks")}
    assert "04_unknown, which is not released" in reason(collected, "04_unknown/x/ada.ipynb")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"pattern": "(?P<student"}, "is not a regular expression"),
        ({"pattern": "(.*)"}, "has no group for the student"),
        ({"assignment": "99_nothing"}, "no released assignment 99_nothing. Released are: 02_masks, 03_positions"),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments: dict[str, str], why: str, course: Course, download: Path) -> None:
    with pytest.raises(CourseError) as raised:
        collect(course, download, **arguments)
    assert why in str(raised.value)


def test_wrong_downloads_get_a_sentence(course: Course, download: Path, tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="does not exist"):
        collect(course, tmp_path / "nowhere")
    with pytest.raises(CourseError, match="neither a folder nor a zip"):
        collect(course, put(tmp_path, "file.rar", b"Rar!"))
    with pytest.raises(CourseError, match=r"Nothing is released yet.*autograder release"):
        collect(Course(tmp_path / "empty"), download)


# --- people and versions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada Lovelace/02_masks.ipynb", "Ada_Lovelace/02_masks.ipynb"),
        ("ada/02_masks.ipynb", "Ada/03_positions.ipynb"),
        ("Zoe/02_masks.ipynb", "Zoë/02_masks.ipynb"),
        ("Ada_1_assignsubmission_file_/02_masks.ipynb", "Ada_2_assignsubmission_file_/02_masks.ipynb"),
        ("lovelaceada_1_5_02_masks.ipynb", "lovelaceada_2_6_02_masks.ipynb"),
    ],
)
def test_two_people_are_never_mixed(one: str, other: str, course: Course, download: Path) -> None:
    put(
        download.parent,
        "d.zip",
        zipped({p: notebook("03_positions" if "03" in p else "02_masks") for p in (one, other)}),
    )
    collected = collect(course, download.parent / "d.zip")
    assert collected.placed == ()
    assert "would both be" in reason(collected, one)
    assert "would both be" in reason(collected, other)


def test_moodle_numbers_people_anew_in_each_assignment(course: Course, download: Path) -> None:
    put(download, "Ada_1_assignsubmission_file_/02_masks.ipynb")
    put(download, "Ada_2_assignsubmission_file_/03_positions.ipynb", notebook("03_positions"))
    assert {each.student for each in collect(course, download).placed} == {"Ada"}


def test_the_newest_version_counts_by_date(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", notebook(remark="new"), TUESDAY)
    put(download, "ada/02_masks (1).ipynb", notebook(remark="old"), MONDAY)
    collected = collect(course, download)
    assert only(collected).path == "ada/02_masks.ipynb"
    assert "chosen from 2 versions" in only(collected).reason
    assert reason(collected, "ada/02_masks (1).ipynb") == "ada/02_masks.ipynb is newer, so that one counts."


@pytest.mark.parametrize("names", [("02_masks.ipynb", "02_masks (2).ipynb", "02_masks (10).ipynb")])
def test_then_by_the_number_behind_the_name(names: tuple[str, ...], course: Course, download: Path) -> None:
    for name in names:
        put(download, f"ada/{name}", notebook(remark=name))
    assert only(collect(course, download)).path == f"ada/{names[-1]}"


def test_canvas_versions_and_late_ones(course: Course, download: Path) -> None:
    put(download, "lovelaceada_LATE_12_67_02_masks-2.ipynb", notebook(remark="b"))
    put(download, "lovelaceada_12_66_02_masks-1.ipynb", notebook(remark="a"))
    placed = only(collect(course, download))
    assert placed.path == "lovelaceada_LATE_12_67_02_masks-2.ipynb"
    assert placed.reason.endswith("It was chosen from 2 versions. Canvas says that it was late.")


def test_a_scratch_notebook_does_not_beat_the_submission(course: Course, download: Path) -> None:
    put(download, "ada/02_masks/02_masks.ipynb", date=MONDAY)
    put(download, "ada/02_masks/scratch.ipynb", b'{"nbformat": 4, "cells": []}', TUESDAY)
    collected = collect(course, download, "02_masks")
    assert only(collected).path == "ada/02_masks/02_masks.ipynb"
    assert "certain to be 02_masks" in reason(collected, "ada/02_masks/scratch.ipynb")


def test_a_version_in_an_older_folder(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", notebook(remark="new"), TUESDAY)
    put(download, "ada/old/02_masks.ipynb", notebook(remark="old"), MONDAY)
    assert only(collect(course, download)).student == "ada"


# --- dates and what is there already --------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_nbgrader_reads_the_date_in_utc(
    packed: bool, course: Course, download: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        put(download, "ada/02_masks.ipynb")
        path = put(download.parent, "d.zip", zipped({"ada/02_masks.ipynb": notebook()})) if packed else download
        collect(course, path)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert date_in_nbgrader(course, "ada") == MONDAY.replace(tzinfo=None)


def test_a_zip_that_says_utc_is_believed(course: Course, tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("ada/02_masks.ipynb", (2001, 1, 1, 0, 0, 0))
    entry.extra = b"UT\x05\x00\x01" + int(MONDAY.timestamp()).to_bytes(4, "little")
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr(entry, notebook())
    collect(course, tmp_path / "d.zip")
    assert date_in_nbgrader(course, "ada") == MONDAY.replace(tzinfo=None)


def test_the_local_time_of_a_zip_is_that_of_the_class(course: Course, tmp_path: Path) -> None:
    """A server in UTC must not take somebody in Tokyo for late."""
    (course.root / "class.toml").write_text(
        'time_zone = "Asia/Tokyo"\n[assignments.02_masks]\ndue = "2026-03-02 23:59"\n'
    )
    entry = zipfile.ZipInfo("ada/02_masks.ipynb", (2026, 3, 2, 23, 30, 0))
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr(entry, notebook())
    placed = only(collect(course, tmp_path / "d.zip"))
    assert "late" not in placed.reason
    assert date_in_nbgrader(course, "ada") == datetime(2026, 3, 2, 14, 30)


def test_what_was_there_in_time_is_not_called_late_by_the_date_of_another_download(
    course: Course, download: Path
) -> None:
    (course.root / "class.toml").write_text('time_zone = "UTC"\n[assignments.02_masks]\ndue = "2026-03-02 23:59"\n')
    put(download, "ada/02_masks.ipynb")
    collect(course, download)
    put(download, "ada/02_masks.ipynb", date=TUESDAY)
    placed = only(collect(course, download))
    assert placed.outcome == "unchanged" and "late" not in placed.reason


def test_no_date_no_timestamp(course: Course, tmp_path: Path) -> None:
    collect(course, put(tmp_path, "d.zip", zipped({"ada/02_masks.ipynb": notebook()}, date=None)))
    assert date_in_nbgrader(course, "ada") is None
    assert course.submitted("02_masks", "ada").exists()


def test_collecting_twice_changes_nothing(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    collect(course, download)
    put(download, "ada/02_masks.ipynb", date=TUESDAY)
    placed = only(collect(course, download))
    assert (placed.outcome, date_in_nbgrader(course, "ada")) == ("unchanged", MONDAY.replace(tzinfo=None))


def test_the_same_file_with_an_earlier_date_was_handed_in_then(course: Course, download: Path) -> None:
    (course.root / "class.toml").write_text('time_zone = "UTC"\n')
    put(download, "ada/02_masks.ipynb", date=TUESDAY)  # unpacked on Tuesday
    collect(course, download)
    zip_file = put(download.parent, "submissions.zip", zipped({"ada/02_masks.ipynb": notebook()}, MONDAY))
    placed = only(collect(course, zip_file))
    assert (placed.outcome, date_in_nbgrader(course, "ada")) == ("unchanged", MONDAY.replace(tzinfo=None))
    assert "It was there on 2026-03-02 10:30 UTC already, and that date counts now." in placed.reason


def test_only_a_newer_one_replaces(course: Course, download: Path) -> None:
    (course.root / "class.toml").write_text('time_zone = "Asia/Tokyo"\n')
    put(download, "ada/02_masks.ipynb", notebook(remark="first"), MONDAY)
    collect(course, download)
    put(download, "ada/02_masks.ipynb", notebook(remark="second"), TUESDAY)
    placed = only(collect(course, download))
    assert placed.outcome == "replaced"
    kept = "earlier/ada/02_masks/2026-03-02_10-30-00.ipynb"
    assert placed.reason.endswith(f"It replaces the submission of 2026-03-02 19:30 JST, which is kept as {kept}.")
    assert (course.root / kept).read_bytes() == notebook(remark="first")
    assert date_in_nbgrader(course, "ada") == TUESDAY.replace(tzinfo=None)

    put(download, "ada/02_masks.ipynb", notebook(remark="first"), MONDAY)
    collected = collect(course, download)
    assert collected.placed == ()
    assert "has a submission of 2026-03-03 17:00 JST, and this one is not newer" in reason(
        collected, "ada/02_masks.ipynb"
    )
    assert course.submitted("02_masks", "ada").read_bytes() == notebook(remark="second")


def test_an_unreadable_timestamp_is_no_reason_to_stop(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", notebook(remark="second"), TUESDAY)
    old = put(course.root, "submitted/ada/02_masks/02_masks.ipynb", date=MONDAY)
    (old.parent / "timestamp.txt").write_text("yesterday, I think")
    assert only(collect(course, download)).outcome == "replaced"


# --- nothing is lost ------------------------------------------------------------------------------------


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_version_that_was_ever_collected_is_kept(course: Course, download: Path) -> None:
    for day in range(1, 6):
        put(download, "ada/02_masks.ipynb", notebook(remark=str(day)), datetime(2026, 3, day, tzinfo=UTC))
        collect(course, download)
    (course.submitted("02_masks", "ada").parent / "timestamp.txt").write_text("2026-03-01 00:00:00 UTC")
    put(download, "ada/02_masks.ipynb", notebook(remark="again"), datetime(2026, 3, 9, tzinfo=UTC))
    collect(course, download)
    found = [
        json.loads(content)["metadata"]["remark"]
        for name, content in everything(course.root).items()
        if "release" not in name and name.endswith(".ipynb")
    ]
    assert sorted(found) == ["1", "2", "3", "4", "5", "again"]
    assert "earlier/ada/02_masks/2026-03-01_00-00-00_1.ipynb" in everything(course.root)


def test_an_earlier_submission_counts_if_now_there_is_none(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/02_masks.ipynb")
    collect(course, download)
    (download / "ben" / "02_masks.ipynb").rename(download / "ben" / "essay.docx")
    collected = collect(course, download, "02_masks")
    assert "What ben handed in before still counts." in reason(collected, "ben")


STEPS = [
    (os, "replace"),
    (os, "rename"),
    (os, "utime"),
    (shutil, "copyfile"),
    (Path, "mkdir"),
    (Path, "write_text"),
    (Path, "unlink"),
]


@pytest.mark.parametrize("replaces", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_stopping_at_any_moment_leaves_a_consistent_state(
    replaces: bool, when: str, course: Course, download: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at each step of writing leaves the old work with its date or the new with its own, never a mix."""
    old, new = notebook(remark="old"), notebook(remark="new")
    target = course.submitted("02_masks", "ada")
    put(download, "ada/02_masks.ipynb", new, TUESDAY)
    releases = collecting.Releases(course)
    monkeypatch.setattr(collecting, "Releases", lambda course: releases)
    stopped = 0
    for (module, name), call in product(STEPS, range(4)):
        for folder in ("submitted", "earlier"):
            shutil.rmtree(course.root / folder, ignore_errors=True)
        if replaces:
            put(course.root, "submitted/ada/02_masks/02_masks.ipynb", old, MONDAY)
            (target.parent / "timestamp.txt").write_text("2026-03-02 10:30:00 UTC")
        with monkeypatch.context() as patched:
            patched.setattr(module, name, stopping(getattr(module, name), call, when))
            try:
                collect(course, download)
            except KeyboardInterrupt:
                stopped += 1
        if target.exists():
            assert existing_date(target) == {new: TUESDAY, old: MONDAY}[target.read_bytes()], (name, call)
        else:
            assert not replaces and course.students("02_masks") == []
        assert not replaces or old in everything(course.root).values()
        collect(course, download)
        assert target.read_bytes() == new
        assert date_in_nbgrader(course, "ada") == TUESDAY.replace(tzinfo=None)
        assert sorted(os.listdir(target.parent)) == ["02_masks.ipynb", "timestamp.txt"]
    assert stopped >= 7


def stopping(original: Callable, call: int, when: str) -> Callable:
    """The function, with a Ctrl-C before or after its nth call."""
    calls = count()

    def stop(*arguments: object, **options: object) -> object:
        is_last = next(calls) == call
        if is_last and when == "before":
            raise KeyboardInterrupt
        result = original(*arguments, **options)
        if is_last:
            raise KeyboardInterrupt
        return result

    return stop


# --- the last one on time -------------------------------------------------------------------------------


def test_the_last_on_time_counts_and_a_later_deadline_brings_the_late_one_back(course: Course, download: Path) -> None:
    rules = 'time_zone = "UTC"\ncounts = "last_on_time"\n[assignments.02_masks]\ndue = "2026-03-02 12:00"\n'
    (course.root / "class.toml").write_text(rules)
    target = course.submitted("02_masks", "ada")
    put(download, "ada/02_masks.ipynb", notebook(remark="on time"), MONDAY)
    put(download, "ada/02_masks (1).ipynb", notebook(remark="late"), TUESDAY)
    collected = collect(course, download)
    late = "It was late (2026-03-03 08:00 UTC) and is kept"
    choice = "the version of 2026-03-02 10:30 UTC counts: it is the last one on time"
    assert only(collected).reason == f"It is 02_masks of ada. {late}, but {choice}."
    sentence = "ada/02_masks (1).ipynb is newer, and the last one on time counts."
    assert reason(collected, "ada/02_masks.ipynb") == sentence
    assert target.read_bytes() == notebook(remark="on time")
    assert (target.parent / "timestamp.txt").read_text().startswith("2026-03-02 10:30")
    put(download, "ada/02_masks (2).ipynb", notebook(remark="later still"), datetime(2026, 3, 4, 8, tzinfo=UTC))
    assert (
        only(collect(course, download)).reason
        == f"It is 02_masks of ada. {late.replace('-03 ', '-04 ')}, but {choice}."
    )
    assert target.read_bytes() == notebook(remark="on time")
    (course.root / "class.toml").write_text(rules + '[extensions.02_masks]\nada = "1 day"\n')
    choose_version(course, "02_masks", "ada", course.rules(), course.roster())
    assert target.read_bytes() == notebook(remark="late")
    assert (target.parent / "timestamp.txt").read_text().startswith("2026-03-03 08:00")


def test_if_nothing_was_on_time_the_last_counts(course: Course, download: Path) -> None:
    rules = 'time_zone = "UTC"\ncounts = "last_on_time"\n[assignments.02_masks]\ndue = "2026-03-01 12:00"\n'
    (course.root / "class.toml").write_text(rules)
    put(download, "ada/02_masks.ipynb", notebook(remark="late"), MONDAY)
    put(download, "ada/02_masks (1).ipynb", notebook(remark="later"), TUESDAY)
    collect(course, download)
    assert course.submitted("02_masks", "ada").read_bytes() == notebook(remark="later")


def test_of_what_was_handed_in_at_once_the_newest_counts(course: Course, download: Path) -> None:
    """Drafts that lie in the same archive were handed in at the same moment: none of them is an earlier version."""
    rules = 'time_zone = "UTC"\ncounts = "last_on_time"\n[assignments.02_masks]\ndue = "2026-03-02 12:00"\n'
    (course.root / "class.toml").write_text(rules)
    drafts = {f"draft {n}/02_masks.ipynb": notebook(remark=f"draft {n}") for n in range(3)}
    newest = {"02_masks (1).ipynb": notebook(remark="on time")}
    put(download, "ada/first.zip", zipped(drafts | newest), MONDAY)
    put(download, "ada/02_masks.ipynb", notebook(remark="late"), TUESDAY)
    put(download, "ben/02_masks.ipynb")
    collect(course, download)
    assert course.submitted("02_masks", "ada").read_bytes() == notebook(remark="on time")
    kept = [path.read_bytes() for path in course.earlier("02_masks", "ada").iterdir()]
    assert sorted(kept) == sorted([notebook(remark="on time"), notebook(remark="late")])


def test_what_is_late_by_its_date_says_so(course: Course, download: Path) -> None:
    """The date of a file may be that of a download: whoever sees this can extend the deadline."""
    (course.root / "class.toml").write_text(
        'time_zone = "Europe/Berlin"\n'
        '[assignments.02_masks]\ndue = "2026-03-02 12:00"\n[extensions.02_masks]\ncy = "2 days"\n'
    )
    for student, date in (("ada", MONDAY), ("ben", TUESDAY), ("cy", TUESDAY)):
        put(download, f"{student}/02_masks.ipynb", date=date)
    late = {
        each.student: "By its date, 2026-03-03 09:00 CET, it is late." in each.reason
        for each in collect(course, download).placed
    }
    assert late == {"ada": False, "ben": True, "cy": False}


def test_an_archive_that_cannot_be_opened_is_reported_once(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/homework.zip", b"no zip")
    put(download, "cy/essay.docx", b"text")
    lost = {each.path: each.reason for each in collect(course, download).unplaced if each.is_lost}
    assert lost.keys() == {"ben/homework.zip", "cy"}
