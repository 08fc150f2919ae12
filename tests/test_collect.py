"""Placing a download: every notebook in its place, or in the report with the reason why not."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import socket
import stat
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count, product
from pathlib import Path

import pytest
from nbgrader.coursedir import CourseDirectory
from release import released_text

from autograder.classroom import collect as collecting
from autograder.classroom.collect import Collected, Placed, collect, student_id
from autograder.classroom.collected import lms_names, lost_work
from autograder.classroom.course import Course, CourseError

STEMS = ("02_masks", "03_positions")
MONDAY = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
TUESDAY = datetime(2026, 3, 3, 8, 0, tzinfo=UTC)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = Course(tmp_path / "course")
    for stem in STEMS:
        made.release(stem).parent.mkdir(parents=True)
        made.release(stem).write_text(released_text(stem), encoding="utf-8")
    return made


@pytest.fixture
def download(tmp_path: Path) -> Path:
    folder = tmp_path / "download"
    folder.mkdir()
    return folder


def notebook(stem: str = "02_masks", remark: str = "") -> bytes:
    """A notebook that was handed in, with something written in it. The remark makes it differ from others."""
    data = json.loads(released_text(stem))
    answer = next(cell for cell in data["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
    answer["source"] = [*answer["source"], "\n# mine"]
    data["metadata"]["remark"] = remark
    return json.dumps(data).encode()


def put(folder: Path, name: str, content: bytes | None = None, date: datetime = MONDAY) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(notebook() if content is None else content)
    os.utime(path, (date.timestamp(),) * 2)
    return path


def zipped(entries: dict[str, bytes], date: datetime | None = MONDAY) -> bytes:
    """A zip with these files. Its dates are in local time, as those of every zip are."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            local = date.astimezone().timetuple()[:6] if date else (1980, 1, 1, 0, 0, 0)
            archive.writestr(zipfile.ZipInfo(name, local), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def who(collected: Collected) -> dict[str, tuple[str, str]]:
    return {each.path: (each.student, each.assignment) for each in collected.placed}


def reason(collected: Collected, path: str) -> str:
    [why] = [each.reason for each in collected.unplaced if each.path == path]
    return why


def only(collected: Collected) -> Placed:
    [placed] = collected.placed
    return placed


# --- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "students"),
    [
        (["ada/02_masks/02_masks.ipynb", "ben/02_masks/02_masks.ipynb"], ["ada", "ben"]),
        (["ada/02_masks/02_masks.ipynb"], ["ada"]),
        (["02_masks/ada/02_masks.ipynb", "02_masks/ben/x.ipynb"], ["ada", "ben"]),
        (["ada/02_masks.ipynb", "ben/02_masks.ipynb"], ["ada", "ben"]),
        (["ada/02_masks.ipynb"], ["ada"]),
        (["class/ada/02_masks.ipynb", "class/ben/02_masks.ipynb", "class/readme.txt"], ["ada", "ben"]),
        (["ada/02_masks.ipynb", "ben/mine/02_masks.ipynb"], ["ada", "ben"]),
        (["ada/Copy of 02_masks.ipynb", "ben/Kopie von 02_masks.ipynb"], ["ada", "ben"]),
        (["ada/02_masks (2).ipynb", "ben/02_masks_final.ipynb"], ["ada", "ben"]),
        (["ada/02_masks_final.ipynb"], ["ada"]),
        (["ada/homework.ipynb", "ben/Untitled1.ipynb"], ["ada", "ben"]),
        (["ada/02_MASKS.IPYNB", "ben/02-masks.ipynb.txt", "cy/02 masks.ipynb.json"], ["ada", "ben", "cy"]),
        (["ada - 02_masks/notebook.ipynb", "ben - 02_masks/notebook.ipynb"], ["ada", "ben"]),
        (["Ada Lovelace_12345_assignsubmission_file_/02_masks.ipynb"], ["Ada_Lovelace"]),
        (["Ada Lovelace_12345_assignsubmission_file_/my solution.ipynb"], ["Ada_Lovelace"]),
        (["Ada Lovelace_12345_assignsubmission_file_/a/b/x.ipynb"], ["Ada_Lovelace"]),
        (["Zoë O'Neill-Müller_7_assignsubmission_file_/x.ipynb"], ["Zoe_O_Neill-Muller"]),
        (
            ["Ada Lovelace_12_assignsubmission_file_my work.ipynb", "Ben_13_assignsubmission_file_x.ipynb"],
            ["Ada_Lovelace", "Ben"],
        ),
        (["hw2/Ada_1_assignsubmission_file_/x.ipynb", "hw2/Ben_2_assignsubmission_file_/x.ipynb"], ["Ada", "Ben"]),
        (["hw2/lovelaceada_1_2_x.ipynb", "hw2/byronben_3_4_x.ipynb", "hw2/readme.txt"], ["byronben", "lovelaceada"]),
        (["lovelaceada_12345_67890_02_masks.ipynb", "byronben_12_13_02_masks-1.ipynb"], ["byronben", "lovelaceada"]),
        (["lovelaceada_LATE_12345_67890_homework.ipynb"], ["lovelaceada"]),
        (["ada_02_masks.ipynb", "ben_02_masks.ipynb"], ["ada", "ben"]),
        (["02_masks_ada.ipynb", "02_masks-ben.ipynb", "02_masks_1234567.ipynb"], ["1234567", "ada", "ben"]),
        (["hw2/02_masks_ada.ipynb", "hw2/02_masks_ben.ipynb"], ["ada", "ben"]),
        (["ada_02_masks (1).ipynb"], ["ada"]),
        (["Grace Hopper_412350_assignsubmission_file_02_masks.ipynb"], ["Grace_Hopper"]),
        (["Grace Hopper_412350_assignsubmission_file/x.ipynb"], ["Grace_Hopper"]),
        (["Copy_of_02_masks_bob.ipynb", "Copy of Copy of 02_masks - eve.ipynb"], ["bob", "eve"]),
        (["Copy_of_bob_02_masks.ipynb"], ["bob"]),
        (["frank+02_masks+2026-03-02 10:30:00.123456 UTC+abc/02_masks.ipynb"], ["frank"]),
        (
            [
                "inbound/eve+02_masks+2026-03-02 10_30_00 UTC/x.ipynb",
                "inbound/bob+02_masks+2026-03-02 10_30_00 UTC/x.ipynb",
            ],
            ["bob", "eve"],
        ),
        (["masks-kgoedel/02_masks.ipynb"], ["kgoedel"]),
        (["masks-kgoedel-main/02_masks.ipynb"], ["kgoedel"]),
        (
            ["02-masks-submissions/02-masks-ada-l/x.ipynb", "02-masks-submissions/02-masks-ada-b/x.ipynb"],
            ["ada-b", "ada-l"],
        ),
        (["hw2-masks-ada/x.ipynb", "hw2-masks-ben/x.ipynb"], ["ada", "ben"]),
        (["anna-a/x.ipynb", "anna-b/x.ipynb"], ["anna-a", "anna-b"]),
    ],
    ids=lambda value: value[0] if "." in value[0] else None,
)
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_names_that_are_understood(
    paths: list[str], students: list[str], packed: bool, course: Course, download: Path
) -> None:
    files = {path: b"notes" if path.endswith("readme.txt") else notebook() for path in paths}
    for path, content in files.items():
        put(download, path, content)
    if packed:
        download = put(download.parent, "download.zip", zipped(files))
    collected = collect(course, download)
    assert [each.student for each in collected.placed] == students
    assert {each.assignment for each in collected.placed} == {"02_masks"}
    for student in students:
        assert course.submitted("02_masks", student).read_bytes() == notebook()
    assert all(each.path.endswith("readme.txt") for each in collected.unplaced)


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Ada Lovelace", "Ada_Lovelace"),
        ("ada+x@uni.org", "ada_x_uni.org"),
        ("../../etc/passwd", "etc_passwd"),
        (".hidden", "hidden"),
        ("李明", "李明"),
        ("Łukasz Żółć", "Łukasz_Zołc"),
        ("..", ""),
        ("a" * 300, "a" * 100),
        ("李" * 300, "李" * 66),
        ("\U00020000" * 300, "\U00020000" * 50),
    ],
)
def test_student_ids_are_safe_names_of_folders(name: str, student: str) -> None:
    assert student_id(name) == student


def test_a_renamed_file_says_so(course: Course, download: Path) -> None:
    put(download, "ada/homework.ipynb", notebook("03_positions"))
    placed = only(collect(course, download))
    assert (placed.outcome, placed.assignment) == ("new", "03_positions")
    assert placed.reason == "It is 03_positions of ada. It is called 03_positions.ipynb now."


@pytest.mark.parametrize("lost", ["metadata", "metadata and text"])
def test_the_content_alone_tells_the_assignment(lost: str, course: Course, download: Path) -> None:
    data = json.loads(notebook("03_positions"))
    for cell in data["cells"]:
        cell["metadata"] = {}
    if lost == "metadata and text":
        data["cells"] = [cell for cell in data["cells"] if "".join(cell["source"]).startswith(("def ", "class "))]
    put(download, "ada/homework.ipynb", json.dumps(data).encode())
    assert only(collect(course, download)).assignment == "03_positions"


def test_a_pasted_cell_of_another_notebook_does_not_mislead(course: Course, download: Path) -> None:
    data = json.loads(notebook("03_positions"))
    data["cells"].append(next(c for c in json.loads(notebook())["cells"] if c["id"] == "causal_mask"))
    put(download, "ada/homework.ipynb", json.dumps(data).encode())
    assert only(collect(course, download)).assignment == "03_positions"


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        ("ada/homework.ipynb", b'{"nbformat": 4, "cells": []}', "Neither its name nor its content"),
        ("ada/homework.ipynb", b"not json", "Neither its name nor its content"),
        ("ada/02_masks.ipynb", notebook("03_positions"), "Its name says 02_masks, but its content belongs to 03_pos"),
        ("02_masks.ipynb", notebook(), "Nothing in its path tells whose it is"),
        ("class/ada/02_masks.ipynb", notebook(), "which of the folders class/ada is the student's"),
        ("++/02_masks.ipynb", notebook(), "'++' cannot be the name of a folder"),
    ],
)
def test_what_is_not_certain_is_reported(path: str, content: bytes, why: str, course: Course, download: Path) -> None:
    put(download, path, content)
    collected = collect(course, download)
    assert collected.placed == ()
    assert why in reason(collected, path)
    assert not (course.root / "submitted").exists()


def test_classes_are_not_taken_for_students(course: Course, download: Path) -> None:
    for path in ("class1/ada", "class1/ben", "class2/cy"):
        put(download, f"{path}/02_masks.ipynb", notebook(remark=path))
    collected = collect(course, download)
    assert "Use --pattern." in reason(collected, "class1/ada/02_masks.ipynb")
    assert "Use --pattern." in reason(collected, "class1/ben/02_masks.ipynb")


def test_a_broken_notebook_is_placed_by_its_name(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", b"{broken")
    assert only(collect(course, download)).outcome == "new"
    assert course.submitted("02_masks", "ada").read_bytes() == b"{broken"


def test_the_name_of_the_download_is_the_last_hint(course: Course, tmp_path: Path) -> None:
    path = put(tmp_path, "Course-02_masks-77.zip", zipped({"Ada_1_assignsubmission_file_/x.ipynb": b"{broken"}))
    assert only(collect(course, path)).assignment == "02_masks"


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
    with pytest.raises(CourseError, match="Release the assignments first"):
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


# --- what students call things in their own archives and folders --------------------------------------------

GRACE, FORGED = notebook(remark="Grace's"), notebook(remark="forged")
FORGERIES = {
    "Canvas, in a zip": (
        {
            "hoppergrace_2_98_02_masks.ipynb": GRACE,
            "lovelaceada_1_97_hw.zip": {"hoppergrace_2_99_02_masks.ipynb": FORGED},
        },
        ("hoppergrace", "lovelaceada"),
    ),
    "Canvas, in a zip in a zip": (
        {
            "hoppergrace_2_98_02_masks.ipynb": GRACE,
            "lovelaceada_1_97_hw.zip": {"hoppergrace_2_99_hw.zip": {"hoppergrace_2_99_02_masks.ipynb": FORGED}},
        },
        ("hoppergrace", "lovelaceada"),
    ),
    "Canvas, as a name of the student's own": (
        {"hoppergrace_2_98_02_masks.ipynb": GRACE, "lovelaceada_1_97_hoppergrace_2_99_02_masks.ipynb": FORGED},
        ("hoppergrace", "lovelaceada"),
    ),
    "Moodle, in a zip": (
        {
            "Grace Hopper_22_assignsubmission_file_/02_masks.ipynb": GRACE,
            "Ada_1_assignsubmission_file_/hw.zip": {"Grace Hopper_22_assignsubmission_file_/02_masks.ipynb": FORGED},
        },
        ("Grace_Hopper", "Ada"),
    ),
    "Moodle, in a folder": (
        {
            "Grace Hopper_22_assignsubmission_file_/02_masks.ipynb": GRACE,
            "Ada_1_assignsubmission_file_/Grace Hopper_22_assignsubmission_file_/02_masks.ipynb": FORGED,
        },
        ("Grace_Hopper", "Ada"),
    ),
    "Moodle's flat names": (
        {
            "Grace Hopper_22_assignsubmission_file_02_masks.ipynb": GRACE,
            "Ada_1_assignsubmission_file_Grace Hopper_22_assignsubmission_file_02_masks.ipynb": FORGED,
        },
        ("Grace_Hopper", "Ada"),
    ),
    "folders, a zip with a folder": (
        {
            "grace/02_masks.ipynb": GRACE,
            "ada/hw.zip": {"grace/02_masks.ipynb": FORGED, "../grace/02_masks.ipynb": FORGED},
        },
        ("grace", "ada"),
    ),
    "folders, a Moodle folder in one": (
        {"grace/02_masks.ipynb": GRACE, "ada/grace_2_assignsubmission_file_/02_masks.ipynb": FORGED},
        ("grace", "ada"),
    ),
    "folders, a Canvas name in one": (
        {"grace/02_masks.ipynb": GRACE, "ada/grace_2_99_02_masks.ipynb": FORGED},
        ("grace", "ada"),
    ),
    "zips, one for each": (
        {"grace.zip": {"02_masks.ipynb": GRACE}, "ada.zip": {"grace/02_masks.ipynb": FORGED}},
        ("grace", "ada"),
    ),
    "all in one folder": (
        {"grace_02_masks.ipynb": GRACE, "ada_02_masks.zip": {"grace_02_masks.ipynb": FORGED}},
        ("grace", "ada"),
    ),
}


def packed(files: dict, date: datetime) -> bytes:
    """A zip with these files; a dictionary in it is a zip too."""
    return zipped(
        {name: packed(what, TUESDAY) if isinstance(what, dict) else what for name, what in files.items()}, date
    )


@pytest.mark.parametrize("way", ["folder", "zip"])
@pytest.mark.parametrize("name", FORGERIES)
def test_nobody_hands_in_for_somebody_else(name: str, way: str, course: Course, download: Path) -> None:
    files, (grace, ada) = FORGERIES[name]
    if way == "zip":
        download = put(download.parent, "d.zip", packed(files, MONDAY))
    else:
        for path, content in files.items():
            put(download, path, packed(content, TUESDAY) if isinstance(content, dict) else content)
    collected = collect(course, download)
    assert {each.student for each in collected.placed} == {grace, ada}
    assert course.submitted("02_masks", grace).read_bytes() == GRACE
    assert course.submitted("02_masks", ada).read_bytes() == FORGED
    assert {date_in_nbgrader(course, student) for student in (grace, ada)} == {MONDAY.replace(tzinfo=None)}


def test_a_pattern_finds_nobody_in_a_students_archive(course: Course, tmp_path: Path) -> None:
    files = {
        "x/student=ada/hw.zip": {"student=grace/02_masks.ipynb": FORGED},
        "x/hw.zip": {"student=grace/a.ipynb": FORGED},
    }
    collected = collect(course, put(tmp_path, "d.zip", packed(files, MONDAY)), pattern=r"student=(?P<student>\w+)/")
    assert only(collected).student == "ada"
    assert "inside an archive that a student packed" in reason(collected, "x/hw/student=grace/a.ipynb")
    greedy = collect(course, tmp_path / "d.zip", pattern=r".*student=(?P<student>\w+)/")
    assert greedy.placed == ()


@pytest.mark.parametrize("name", ["hoppergrace_2_99_02_masks.ipynb", "Grace_2_assignsubmission_file_/02_masks.ipynb"])
@pytest.mark.parametrize("other", ["02_masks.ipynb", None])
def test_a_lone_folder_may_be_a_students(name: str, other: str | None, course: Course, download: Path) -> None:
    put(download, f"ada/{name}")
    if other:
        put(download, f"ada/{other}", notebook(remark="other"))
    collected = collect(course, download)
    assert "not certain whether ada is a student's folder. If not, collect ada itself" in reason(
        collected, f"ada/{name}"
    )
    assert {each.student for each in collected.placed} <= {"ada"}


def test_a_folder_in_an_archive_is_nobody_and_hides_nobody(course: Course, download: Path) -> None:
    put(
        download,
        "Ada_1_assignsubmission_file_/hw.zip",
        zipped({"Grace_2_assignsubmission_file_/02_masks.ipynb": FORGED}),
    )
    put(download, "Grace_2_assignsubmission_file_/essay.docx", b"x")
    collected = collect(course, download, "02_masks")
    assert "Grace counts as having handed in an empty notebook" in reason(collected, "Grace_2_assignsubmission_file_")
    put(download, "Ada_1_assignsubmission_file_/hw.zip", zipped({"Kim_3_assignsubmission_file_/": b""}))
    assert "Kim" not in [each.split("_")[0] for each in course.students("02_masks")]


def test_versions_in_an_archive_are_told_apart_by_their_own_dates(course: Course, download: Path) -> None:
    newer, older = (
        zipfile.ZipInfo("b/02_masks.ipynb", (2020, 1, 2, 0, 0, 0)),
        zipfile.ZipInfo("a/02_masks.ipynb", (2020, 1, 1, 0, 0, 0)),
    )
    with zipfile.ZipFile(put(download, "ada.zip", b""), "w") as archive:
        archive.writestr(newer, notebook(remark="newer"))
        archive.writestr(older, notebook(remark="older"))
    os.utime(download / "ada.zip", (MONDAY.timestamp(),) * 2)
    assert only(collect(course, download)).path == "ada/b/02_masks.ipynb"
    assert date_in_nbgrader(course, "ada") == MONDAY.replace(tzinfo=None)


# --- dates and what is there already --------------------------------------------------------------------


def date_in_nbgrader(course: Course, student: str) -> datetime | None:
    path = course.submitted("02_masks", student).parent
    return CourseDirectory(root=str(course.root)).get_existing_timestamp(str(path))


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


def test_only_a_newer_one_replaces(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", notebook(remark="first"), MONDAY)
    collect(course, download)
    put(download, "ada/02_masks.ipynb", notebook(remark="second"), TUESDAY)
    placed = only(collect(course, download))
    assert placed.outcome == "replaced"
    kept = "earlier/ada/02_masks/2026-03-02_10-30-00.ipynb"
    assert placed.reason.endswith(f"It replaces the submission of 2026-03-02 10:30 UTC, which is kept as {kept}.")
    assert (course.root / kept).read_bytes() == notebook(remark="first")
    assert date_in_nbgrader(course, "ada") == TUESDAY.replace(tzinfo=None)

    put(download, "ada/02_masks.ipynb", notebook(remark="first"), MONDAY)
    collected = collect(course, download)
    assert collected.placed == ()
    assert "has a submission of 2026-03-03 08:00 UTC, and this one is not newer" in reason(
        collected, "ada/02_masks.ipynb"
    )
    assert course.submitted("02_masks", "ada").read_bytes() == notebook(remark="second")


def test_an_unreadable_timestamp_is_no_reason_to_stop(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", notebook(remark="second"), TUESDAY)
    old = put(course.root, "submitted/ada/02_masks/02_masks.ipynb", date=MONDAY)
    (old.parent / "timestamp.txt").write_text("yesterday, I think")
    assert only(collect(course, download)).outcome == "replaced"


# --- what else lies in a download -----------------------------------------------------------------------


def test_other_files_are_listed_and_not_copied(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ada/report.pdf", b"%PDF")
    put(download, "ada/all.tar.gz", b"x")
    collected = collect(course, download)
    assert reason(collected, "ada/report.pdf") == "It is not a notebook, so it was not copied."
    assert "Unpack it and collect again" in reason(collected, "ada/all.tar.gz")
    assert sorted(os.listdir(course.submitted("02_masks", "ada").parent)) == ["02_masks.ipynb", "timestamp.txt"]


def test_junk_is_passed_over(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    for name in (
        "__MACOSX/._x.ipynb",
        "ada/.ipynb_checkpoints/02_masks-checkpoint.ipynb",
        "ada/Thumbs.db",
        ".DS_Store",
    ):
        put(download, name)
    collected = collect(course, download)
    assert len(collected.placed) == 1
    assert collected.unplaced == ()


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_a_student_without_a_notebook_is_reported(packed: bool, course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/essay.docx", b"x")
    (download / "cy").mkdir()
    if packed:
        shutil.make_archive(str(download), "zip", download)
    collected = collect(course, download.with_suffix(".zip") if packed else download)
    assert reason(collected, "ben") == reason(collected, "cy") == "There is no notebook in this student's folder."


def test_who_hands_in_no_notebook_of_a_known_assignment_has_an_empty_submission(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/essay.docx", b"x")
    collected = collect(course, download, assignment="02_masks")
    assert "ben counts as having handed in an empty notebook" in reason(collected, "ben")
    assert course.students("02_masks") == ["ada", "ben"]
    assert not course.submitted("02_masks", "ben").exists()


def test_what_was_typed_into_moodles_form_is_no_second_student(course: Course, download: Path) -> None:
    put(download, "Ada_1_assignsubmission_file_/02_masks.ipynb")
    put(download, "Ada_1_assignsubmission_onlinetext_/onlinetext.html", b"<p>see file</p>")
    put(download, "Ben_2_assignsubmission_onlinetext_/onlinetext.html", b"<p>sorry</p>")
    collected = collect(course, download)
    folders = [each.path for each in collected.unplaced if "no notebook in this" in each.reason]
    assert folders == ["Ben_2_assignsubmission_onlinetext_"]


def test_zips_in_a_zip(course: Course, tmp_path: Path) -> None:
    inner = zipped({"work/02_masks.ipynb": notebook()})
    again = zipped({"inner.zip": inner})
    path = put(
        tmp_path,
        "d.zip",
        zipped(
            {
                "Ada_1_assignsubmission_file_/homework.zip": inner,
                "Ben_2_assignsubmission_file_/homework.zip": again,
                "Cy_3_assignsubmission_file_/homework.zip": zipped({"again.zip": again}),
                "Dan_4_assignsubmission_file_/homework.zip": b"not a zip",
                "byroneve_12_34_homework.zip": inner,
            }
        ),
    )
    collected = collect(course, path)
    assert [each.student for each in collected.placed] == ["Ada", "Ben", "byroneve"]
    assert "Unpack it by hand" in reason(collected, "Cy_3_assignsubmission_file_/homework/again/inner.zip")
    assert "cannot be opened as a zip" in reason(collected, "Dan_4_assignsubmission_file_/homework.zip")


def test_a_zip_in_a_folder(course: Course, download: Path) -> None:
    put(download, "ada/homework.zip", zipped({"02_masks.ipynb": notebook()}))
    put(download, "ben/02_masks.ipynb")
    assert [each.student for each in collect(course, download).placed] == ["ada", "ben"]


def test_names_that_lead_elsewhere_are_refused(course: Course, tmp_path: Path) -> None:
    names = ["../ada/02_masks.ipynb", "/etc/ada/02_masks.ipynb", "C:\\ada\\02_masks.ipynb", "a/../../b/02_masks.ipynb"]
    collected = collect(course, put(tmp_path, "d.zip", zipped({name: notebook() for name in names})))
    assert collected.placed == ()
    assert len(collected.unplaced) == 4
    assert all("leads out of the archive" in each.reason for each in collected.unplaced)


def test_links_are_not_followed(course: Course, download: Path, tmp_path: Path) -> None:
    secret = put(tmp_path, "secret.ipynb")
    (download / "ada").mkdir()
    (download / "ada" / "02_masks.ipynb").symlink_to(secret)
    (download / "ben").symlink_to(tmp_path)
    os.mkfifo(download / "ada" / "03_positions.ipynb")
    collected = collect(course, download)
    assert "It is a link" in reason(collected, "ada/02_masks.ipynb")
    assert "It is a link" in reason(collected, "ben")
    assert "not an ordinary file" in reason(collected, "ada/03_positions.ipynb")

    link = zipfile.ZipInfo("ada/02_masks.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr(link, str(secret))
    assert "It is a link" in reason(collect(course, tmp_path / "d.zip"), "ada/02_masks.ipynb")
    assert not (course.root / "submitted").exists()


def test_bombs_cost_only_themselves(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_BYTES_OF_A_NOTEBOOK", 2_000_000)
    monkeypatch.setattr(collecting, "MOST_BYTES_OF_AN_INNER_ZIP", 3_000_000)
    monkeypatch.setattr(collecting, "MOST_FILES_OF_AN_INNER_ZIP", 50)
    nothing = b" " * 2_500_000
    layer = zipped({f"{i}.ipynb": b" " * 1_000_000 for i in range(9)})
    path = put(
        tmp_path,
        "d.zip",
        zipped(
            {
                "ada/02_masks.ipynb": notebook(),
                "ben/02_masks.ipynb": nothing,
                "cy/x.zip": zipped({f"{i}.zip": layer for i in range(9)}),
                "dan/x.zip": zipped({f"{i}.ipynb": b"" for i in range(100)}),
            }
        ),
    )
    collected = collect(course, path)
    assert only(collected).student == "ada"
    assert "far too large" in reason(collected, "ben/02_masks.ipynb")
    assert "more than 50 files" in reason(collected, "dan/x.zip")
    assert all(
        "far too large" in each.reason
        for each in collected.unplaced
        if each.path.endswith(".zip") and "cy" in each.path
    )
    assert any(each.path.startswith("cy/x") for each in collected.unplaced)


def test_a_damaged_entry_costs_only_itself(course: Course, tmp_path: Path) -> None:
    packed = bytearray(zipped({"ada/02_masks.ipynb": notebook(), "ben/02_masks.ipynb": notebook(remark="b")}))
    packed[200:260] = b"\xff" * 60
    collected = collect(course, put(tmp_path, "d.zip", bytes(packed)))
    assert only(collected).student == "ben"
    assert "cannot be unpacked" in reason(collected, "ada/02_masks.ipynb")


def test_names_in_utf_8_that_do_not_say_so(course: Course, tmp_path: Path) -> None:
    packed = zipped({"Zo\u00eb/02_masks.ipynb": notebook()})
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.infolist()[0].flag_bits & 0x800
    unsaid = packed.replace(b"\x00\x08\x08\x00", b"\x00\x00\x08\x00")
    assert unsaid != packed
    assert only(collect(course, put(tmp_path, "d.zip", unsaid))).path == "Zoë/02_masks.ipynb"


def test_strange_characters_in_names_are_not_printed(course: Course, tmp_path: Path) -> None:
    collected = collect(course, put(tmp_path, "d.zip", zipped({"ada\x1b[31m\n/02_masks.ipynb": notebook()})))
    assert only(collected).path == "ada?[31m?/02_masks.ipynb"
    assert only(collected).student == "ada_31m"


# --- one bad file ---------------------------------------------------------------------------------------

BIG = notebook(remark="x" * 3000)
Mend = Callable[
    [bytearray, int, int], object
]  # changes an archive, given where its last entry is listed in its directory and where it begins


def at(place: int, new: bytes, *, in_directory: bool = True) -> Mend:
    """Write these bytes at this place of the last entry, in the directory or where its content begins."""

    def write(archive: bytearray, listed: int, begins: int) -> None:
        start = (listed if in_directory else begins) + place
        archive[start : start + len(new)] = new

    return write


def mode(kind: int) -> Mend:
    return at(38, ((kind | 0o644) << 16).to_bytes(4, "little"))


def nothing(archive: bytearray, listed: int, begins: int) -> None:
    """A name can be enough."""


def with_extra(extra: bytes) -> Mend:
    """Put an extra field after the last name in the directory."""

    def insert(archive: bytearray, listed: int, begins: int) -> None:
        behind = listed + 46 + int.from_bytes(archive[listed + 28 : listed + 30], "little")
        archive[listed + 30 : listed + 32] = len(extra).to_bytes(2, "little")
        archive[behind:behind] = extra
        end = archive.rindex(b"PK\x05\x06") + 12
        archive[end : end + 4] = (int.from_bytes(archive[end : end + 4], "little") + len(extra)).to_bytes(4, "little")

    return insert


NB = "ben/02_masks.ipynb"
GARBAGE = b"\xa5" * 200
BAD_ENTRIES: dict[
    str, tuple[str, int, Mend, str | None]
] = {  # name, compression, damage, what is said (None: it is placed)
    "a name that is not the UTF-8 it says": (NB, zipfile.ZIP_STORED, at(8, b"\x00\x08"), None),
    "nor is it anything else": ("ben\xe9/02_masks.ipynb", zipfile.ZIP_STORED, at(49, b"\xff\xff"), "name in directory"),
    "version 20": (NB, zipfile.ZIP_DEFLATED, at(6, b"\xc8"), None),
    "broken extra fields": (NB, zipfile.ZIP_DEFLATED, with_extra(b"\x01\x00\xff\x00abc"), None),
    "broken LZMA": (NB, zipfile.ZIP_LZMA, at(80, GARBAGE, in_directory=False), "cannot be unpacked"),
    "broken LZMA properties": (NB, zipfile.ZIP_LZMA, at(48, GARBAGE, in_directory=False), "cannot be unpacked"),
    "broken bzip2": (NB, zipfile.ZIP_BZIP2, at(80, GARBAGE, in_directory=False), "cannot be unpacked"),
    "broken deflate": (NB, zipfile.ZIP_DEFLATED, at(80, GARBAGE, in_directory=False), "cannot be unpacked"),
    "another content": (NB, zipfile.ZIP_STORED, at(80, GARBAGE, in_directory=False), "Bad CRC-32"),
    "an unknown compression": (NB, zipfile.ZIP_DEFLATED, at(10, b"\x61\x00"), "compression"),
    "a content elsewhere": (NB, zipfile.ZIP_DEFLATED, at(42, b"\xff\xff\xff\x7f"), "cannot be unpacked"),
    "a content before the file": (NB, zipfile.ZIP_DEFLATED, at(42, b"\x01\x00\x00\x00"), "cannot be unpacked"),
    "another name inside": (NB, zipfile.ZIP_DEFLATED, at(30, b"dan", in_directory=False), "differ"),
    "a password": (NB, zipfile.ZIP_DEFLATED, at(8, b"\x01\x00"), "protected by a password"),
    "strong encryption": (NB, zipfile.ZIP_DEFLATED, at(8, b"\x40\x00"), "encryption"),
    "a date that is none": (NB, zipfile.ZIP_DEFLATED, at(12, b"\xff\xff\xff\xff"), None),
    "a link": (NB, zipfile.ZIP_DEFLATED, mode(stat.S_IFLNK), "It is a link"),
    "a pipe": (NB, zipfile.ZIP_DEFLATED, mode(stat.S_IFIFO), "not an ordinary file"),
    "a device": (NB, zipfile.ZIP_DEFLATED, mode(stat.S_IFCHR), "not an ordinary file"),
    "an absolute path": ("/ben/02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, "leads out of the archive"),
    "a path upwards": ("ben/../../02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, "leads out of the archive"),
    "a drive": ("C:\\ben\\02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, "leads out of the archive"),
    "backslashes": ("ben\\02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, None),
    "a name without an end": ("ben/" + "x" * 60_000 + ".ipynb", zipfile.ZIP_DEFLATED, nothing, "far too long"),
    "folders without an end": ("a/" * 20_000 + "02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, "far too long"),
    "a device's name": ("CON/02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, None),
    "control characters": ("ben\x00\x07\x1b[2J/02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, "not a notebook"),
    "a name that turns about": ("ben\u202e/02_masks.ipynb", zipfile.ZIP_DEFLATED, nothing, None),
    "a folder called a notebook": (
        "ben/02_masks.ipynb/",
        zipfile.ZIP_DEFLATED,
        nothing,
        "no notebook in this student's folder",
    ),
    "no name": ("./", zipfile.ZIP_DEFLATED, nothing, None),
}


def with_bad_entry(name: str, compression: int, damage: Mend) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        archive.writestr("ada/02_masks.ipynb", notebook())
        archive.writestr(name, b"" if name.endswith("/") else BIG)
    raw = bytearray(packed.getvalue())
    listed = raw.rindex(b"PK\x01\x02")
    damage(raw, listed, int.from_bytes(raw[listed + 42 : listed + 46], "little"))
    return bytes(raw)


@pytest.mark.parametrize("what", BAD_ENTRIES)
def test_a_bad_entry_of_the_download_costs_only_itself(what: str, course: Course, tmp_path: Path) -> None:
    name, compression, damage, said = BAD_ENTRIES[what]
    collected = collect(course, put(tmp_path, "d.zip", with_bad_entry(name, compression, damage)))
    assert course.submitted("02_masks", "ada").read_bytes() == notebook()
    others = [each.student for each in collected.placed if each.student != "ada"]
    reasons = " ".join(each.reason for each in collected.unplaced)
    assert (len(others) == 1 or name == "./") and not reasons if said is None else said in reasons and not others
    assert all(each.path.isprintable() and len(each.path) <= 300 for each in (*collected.placed, *collected.unplaced))


@pytest.mark.parametrize("what", BAD_ENTRIES)
def test_a_bad_entry_of_a_students_archive_costs_only_itself(what: str, course: Course, download: Path) -> None:
    name, compression, damage, said = BAD_ENTRIES[what]
    put(download, "ada/hw.zip", with_bad_entry(name, compression, damage))
    put(download, "cy/02_masks.ipynb")
    collected = collect(course, download)
    assert {each.student for each in collected.placed} == {"ada", "cy"}
    assert said is None or said in " ".join(each.reason for each in collected.unplaced) or name.endswith("/")


def damaged(content: bytes, seed: int) -> bytes:
    """The content with a few bytes changed, or cut off somewhere."""
    chance = random.Random(seed)
    if seed % 5 == 0:
        return content[: chance.randrange(len(content))]
    made = bytearray(content)
    for _ in range(chance.randrange(1, 12)):
        near_the_end = seed % 2 and chance.random() < 0.9  # where the directory is
        place = chance.randrange(len(made) - 300 if near_the_end else 0, len(made))
        made[place] = chance.randrange(256)
    return bytes(made)


def test_whatever_is_wrong_with_an_archive_costs_only_its_student(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    content = zipped({f"{name}/02_masks.ipynb": b"{}" * 50 for name in ("é", "b")})
    for seed in range(400):
        put(download, f"s{seed:03}/hw.zip", damaged(content, seed))
    collected = collect(course, download)
    placed = {each.student for each in collected.placed}
    reported = {each.path.split("/")[0] for each in collected.unplaced}
    assert "ada" in placed
    assert {f"s{seed:03}" for seed in range(400)} <= placed | reported


def test_whatever_is_wrong_with_the_download_is_a_sentence(course: Course, tmp_path: Path) -> None:
    content = zipped({"é/02_masks.ipynb": b"{}", "ada/02_masks.ipynb": b"{}"})
    for seed in range(60):
        with suppress(CourseError):
            collect(course, put(tmp_path, "d.zip", damaged(content, seed)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be opened as a zip"),
        (zipped({"a.ipynb": b"x"})[:-30], "cannot be opened as a zip"),
        (b"PK\x05\x06" + bytes(18), "There is no notebook"),
        (b"PK\x05\x06" + b"\xff" * 18, "cannot be opened as a zip"),
        (zipped({f"{i}.txt": b"" for i in range(5_001)}), "more than 5,000 files"),
        (zipped({f"{i}.txt": b"" for i in range(200)}), "holds 180 more files from which nothing was taken"),
        (zipped({"b.zip": zipped({f"{i}.txt": b"" for i in range(5_001)})}), "more than 5,000 files"),
    ],
    ids=["empty", "cut off", "without entries", "impossible numbers", "many", "some", "many, once more packed"],
)
def test_a_bad_archive_costs_only_itself(content: bytes, said: str, course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/hw.zip", content)
    collected = collect(course, download)
    assert only(collected).student == "ada"
    assert said in " ".join(each.reason for each in collected.unplaced)
    assert len(collected.unplaced) < 25


def test_too_many_entries_are_never_listed(course: Course, download: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/hw.zip", zipped({f"{i}.txt": b"" for i in range(6_000)}))
    made = []
    original = zipfile.ZipInfo.__init__
    monkeypatch.setattr(
        zipfile.ZipInfo, "__init__", lambda self, *a, **k: [made.append(1), original(self, *a, **k)][-1]
    )
    assert only(collect(course, download)).student == "ada"
    assert made == []


BAD_NOTEBOOKS = {
    "no JSON": b"{broken",
    "nothing": b"",
    "only space": b" \n",
    "a list": b"[1, 2]",
    "a number": b"1e999",
    "NaN": b'{"nbformat": 4, "cells": [NaN, Infinity]}',
    "a number without an end": b'{"nbformat": ' + b"9" * 5_000 + b', "cells": []}',
    "deep lists": b"[" * 200_000,
    "deep cells": b'{"nbformat": 4, "cells": ' + b"[" * 500 + b"]" * 500 + b"}",
    "deep metadata": b'{"nbformat": 4, "cells": [{"metadata": ' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}]}",
    "cells that are none": b'{"nbformat": 4, "cells": [1, null, "x", [], {"source": 7, "metadata": [], "id": {}}]}',
    "texts that are none": b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1, null, "def f(n): 1"]}]}',
    "lone surrogates": b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "# \\ud800 and some more"}]}',
    "attachments that are none": b'{"nbformat": 4, "cells": [{"attachments": {"a": [1], "b": {"image/png": 3}}}]}',
    "no UTF-8": b'{"nbformat": 4, "cells": [{"source": "\xff\xfe"}]}',
    "UTF-16": '{"nbformat": 4, "cells": []}'.encode("utf-16"),
    "zeros": bytes(5_000),
    "format 3": b'{"nbformat": 3, "worksheets": 5}',
    "format 2": b'{"nbformat": 2, "worksheets": [{"cells": [{"cell_type": 3}]}]}',
    "a format of text": b'{"nbformat": "4", "cells": {}}',
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
}


@pytest.mark.parametrize("what", BAD_NOTEBOOKS)
def test_a_bad_notebook_is_placed_by_its_name_as_it_is(what: str, course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb", BAD_NOTEBOOKS[what])
    put(download, "ben/homework.ipynb", BAD_NOTEBOOKS[what])
    put(download, "cy/02_masks.ipynb")
    collected = collect(course, download)
    assert {"ada", "cy"} <= {each.student for each in collected.placed}
    assert course.submitted("02_masks", "ada").read_bytes() == BAD_NOTEBOOKS[what]
    assert "ben" in [each.student for each in collected.placed] or reason(collected, "ben/homework.ipynb")


def test_a_notebook_of_200_megabytes_costs_only_itself(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    with put(download, "ben/02_masks.ipynb", b"").open("wb") as file:
        file.truncate(200_000_000)
    collected = collect(course, download)
    assert only(collected).student == "ada"
    assert "far too large" in reason(collected, "ben/02_masks.ipynb")


def test_strange_things_in_a_folder_cost_only_themselves(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    (download / "ben" / "02_masks.ipynb").mkdir(parents=True)
    (download / "cy").mkdir()
    os.mkfifo(download / "cy" / "02_masks.ipynb")
    os.mkfifo(download / "cy" / "hw.zip")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(download / "cy")  # addresses of sockets are short
        try:
            listening.bind("x.ipynb")
        finally:
            os.chdir(here)
        (download / "cy" / "old.ipynb").symlink_to("/dev/zero")
        collected = collect(course, download)
    assert only(collected).student == "ada"
    for name in ("02_masks.ipynb", "hw.zip", "x.ipynb"):
        assert reason(collected, f"cy/{name}") == "It is not an ordinary file."
    assert "It is a link" in reason(collected, "cy/old.ipynb")
    assert "no notebook" in reason(collected, "ben")


def test_names_that_are_no_text_are_told_apart(course: Course, download: Path) -> None:
    put(download, "ada/02_masks.ipynb")
    for name in (b"caf\xe9", b"caf\xe8", b"\xff\xfe"):
        folder = os.fsencode(download) + b"/" + name
        os.mkdir(folder)
        Path(os.fsdecode(folder), "02_masks.ipynb").write_bytes(notebook(remark=repr(name)))
    collected = collect(course, download)
    assert only(collected).student == "ada"
    said = [each.reason for each in collected.unplaced if each.path == "caf?/02_masks.ipynb"]
    assert said == ["caf? and caf? would both be caf. Rename one of them."] * 2
    assert "cannot be the name of a folder" in reason(collected, "??/02_masks.ipynb")


@pytest.mark.parametrize("unreadable", ["ben/02_masks.ipynb", "ben"])
def test_what_may_not_be_read_costs_only_itself(
    unreadable: str, course: Course, download: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for an ordinary user: the tests may be run by root, who may read everything."""
    put(download, "ada/02_masks.ipynb")
    put(download, "ben/02_masks.ipynb")
    forbidden = str(download / unreadable)

    def refusing(original: Callable) -> Callable:
        def refuse(path: object, *rest: object, **options: object) -> object:
            if str(path) == forbidden:
                raise PermissionError(errno.EACCES, "Permission denied")
            return original(path, *rest, **options)

        return refuse

    monkeypatch.setattr(Path, "open", refusing(Path.open))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    collected = collect(course, download, "02_masks")
    assert only(collected).student == "ada"
    assert [(each.path, each.reason) for each in collected.unplaced] == [
        (unreadable, "It cannot be read: Permission denied.")
    ]
    assert course.students("02_masks") == ["ada"]


def test_a_download_that_is_no_file_is_a_sentence(course: Course, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(CourseError, match="neither a folder nor a file"):
        collect(course, tmp_path / "pipe.zip")


def test_a_long_name_is_shortened_and_placed(course: Course, tmp_path: Path) -> None:
    path = put(
        tmp_path, "d.zip", zipped({f"{'李' * 150}/02_masks.ipynb": notebook(), "ada/02_masks.ipynb": notebook()})
    )
    assert [each.student for each in collect(course, path).placed] == ["ada", "李" * 66]


@pytest.mark.parametrize(
    "in_the_way", ["submitted/ben", "submitted/ben/02_masks", "submitted/ben/02_masks/02_masks.ipynb/x"]
)
def test_something_in_the_way_costs_only_one_student(in_the_way: str, course: Course, download: Path) -> None:
    for student in ("ada", "ben", "cy"):
        put(download, f"{student}/02_masks.ipynb")
    put(course.root, in_the_way, b"mine")
    collected = collect(course, download)
    assert [each.student for each in collected.placed] == ["ada", "cy"]
    assert "cannot be written to ben's folder" in reason(collected, "ben/02_masks.ipynb")
    assert (course.root / in_the_way).read_bytes() == b"mine"


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
            assert collecting.existing_date(target) == {new: TUESDAY, old: MONDAY}[target.read_bytes()], (name, call)
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


# --- who is not invented, and what does not count -------------------------------------------------------


def test_repositories_of_any_name(course: Course, download: Path) -> None:
    """What the names of all folders share is the assignment's name, if git has made every one of them."""
    for name in ("transformers-spring-kgoedel", "transformers-spring-ada-l"):
        put(download, f"{name}/02_masks.ipynb")
        put(download, f"{name}/.git/HEAD", b"ref")
    assert {each.student for each in collect(course, download).placed} == {"kgoedel", "ada-l"}


def test_inbound_folders_say_when_it_was_handed_in(course: Course, download: Path) -> None:
    put(download, "frank+02_masks+2026-03-03 08:00:00.123456 UTC+abc/02_masks.ipynb", date=MONDAY)
    collect(course, download)
    stamp = course.submitted("02_masks", "frank").parent / "timestamp.txt"
    assert stamp.read_text().startswith("2026-03-03 08:00:00")


def test_an_untouched_notebook_is_no_submission(course: Course, download: Path) -> None:
    data = json.loads(released_text("02_masks"))
    put(download, "ada/02_masks.ipynb", json.dumps(data).encode())
    for cell in data["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "ran"}]
    put(download, "ben/02_masks.ipynb", json.dumps(data).encode())
    put(download, "cy/02_masks.ipynb")
    collected = collect(course, download)
    assert [each.student for each in collected.placed] == ["cy"]
    assert "Nothing was written in it" in reason(collected, "ada/02_masks.ipynb")
    assert "Nothing was written in it" in reason(collected, "ben/02_masks.ipynb")
    assert not course.submitted("02_masks", "ben").exists()


def test_dates_that_all_agree_get_a_warning(course: Course, download: Path) -> None:
    for name in ("ada", "ben", "cy"):
        put(download, f"{name}/02_masks.ipynb")
    (warning,) = collect(course, download).warnings
    assert "All 3 files have the same date, 2026-03-02 10:30 UTC" in warning
    put(download, "ben/02_masks.ipynb", date=TUESDAY)
    assert collect(course, download).warnings == ()


def with_roster(course: Course, text: str) -> None:
    (course.root / "class.toml").write_text('roster = "people.csv"\n')
    (course.root / "people.csv").write_text(text, encoding="utf-8")


OWN = """id;first name;last name;e-mail;group;extra time;canvas id;github
al1815;Ada;Lovelace;ada@uni.org;A;2 days;4711;kgoedel
bb;Ben;Byron;b.byron@uni.org;B;;4712;
"""
CANVAS_EXPORT = """Student,ID,SIS User ID,SIS Login ID,Section,02_masks (77)
    Points Possible,,,,,51
"Lovelace, Ada",4711,al1815,al1815,A,
"Byron, Ben",4712,bb,bb,A,
"""
MOODLE_EXPORT = """\ufeff"First name",Surname,"ID number",Username,"Email address"
Ada,Lovelace,99,al1815,ada@uni.org
Ben,Byron,98,bb,b.byron@uni.org
"""


@pytest.mark.parametrize("roster", [OWN, CANVAS_EXPORT, MOODLE_EXPORT], ids=["own", "Canvas", "Moodle"])
def test_with_a_roster_everybody_is_on_it(roster: str, course: Course, download: Path) -> None:
    with_roster(course, roster)
    put(download, "Ada Lovelace_412350_assignsubmission_file_/x.ipynb")
    put(download, "Benjamin Franklin_412351_assignsubmission_file_/x.ipynb")
    collected = collect(course, download)
    assert [each.student for each in collected.placed] == ["al1815"]
    left = "Benjamin Franklin_412351_assignsubmission_file_/x.ipynb"
    assert "Benjamin Franklin is not on the roster" in reason(collected, left)
    assert [lost.path for lost in lost_work(course)] == [left]
    assert lms_names(course, "02_masks")["al1815"].number == "412350"


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("lovelaceada_4711_67890_x.ipynb", "al1815"),
        ("smithann_4712_67890_x.ipynb", "bb"),
        ("masks-kgoedel/x.ipynb", "al1815"),
        ("BB/x.ipynb", "bb"),
        ("b.byron/x.ipynb", "bb"),
        ("Byron, Ben/x.ipynb", "bb"),
        ("whatever-al1815/x.ipynb", "al1815"),
    ],
)
def test_names_that_the_roster_explains(path: str, student: str, course: Course, download: Path) -> None:
    with_roster(course, OWN)
    put(download, path)
    assert only(collect(course, download)).student == student


@pytest.mark.parametrize(
    "stranger",
    [
        "Eve Ada Lovelace_412351_assignsubmission_file_/x.ipynb",
        "eve al1815/x.ipynb",
        "eve-al1815/x.ipynb",
        "eve_al1815_02_masks.ipynb",
    ],
)
def test_nobody_becomes_another_by_ending_with_the_name(stranger: str, course: Course, download: Path) -> None:
    with_roster(course, OWN)
    own = "Ada Lovelace_412350_assignsubmission_file_/x.ipynb" if "assign" in stranger else "al1815/x.ipynb"
    put(download, own, notebook(remark="Ada's"), MONDAY)
    put(download, stranger, notebook(remark="a stranger's"), TUESDAY)
    collected = collect(course, download)
    assert course.submitted("02_masks", "al1815").read_bytes() == notebook(remark="Ada's")
    assert [lost.path for lost in lost_work(course)] == [stranger], collected


@pytest.mark.parametrize("login", ["al1815", "k-goedel", "eve-kgoedel", "ada", "Ada-Lovelace"])
def test_who_chooses_a_login_does_not_choose_whose_a_repository_is(login: str, course: Course, download: Path) -> None:
    """People choose their own logins on GitHub: if the roster has logins, only an exact match counts."""
    with_roster(course, OWN)
    for name, remark, date in (("masks-KGoedel", "Ada's", MONDAY), (f"masks-{login}", "a stranger's", TUESDAY)):
        put(download, f"{name}/02_masks.ipynb", notebook(remark=remark), date)
        put(download, f"{name}/.git/HEAD", b"ref")
    collect(course, download)
    assert course.submitted("02_masks", "al1815").read_bytes() == notebook(remark="Ada's")
    assert [lost.path for lost in lost_work(course)] == [f"masks-{login}/02_masks.ipynb"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "should name the columns"),
        ("id,name\n", "this roster is empty"),
        ("id,name\nada,Ada\nAda,Ada B\n", "have the same id"),
        ("id,extra_time\nada,soon\n", "the extra time of ada is 'soon'"),
    ],
)
def test_a_roster_that_cannot_be_meant_gets_a_sentence(text: str, why: str, course: Course, download: Path) -> None:
    with_roster(course, text)
    with pytest.raises(CourseError, match=why):
        collect(course, download)


def test_what_was_lost_is_forgotten_when_it_is_placed(course: Course, download: Path) -> None:
    path = put(download, "homework.ipynb")
    collect(course, download)
    assert [lost.path for lost in lost_work(course)] == ["homework.ipynb"]
    (download / "ada").mkdir()
    path.rename(download / "ada" / "homework.ipynb")
    assert only(collect(course, download)).student == "ada"
    assert lost_work(course) == []


def test_another_download_of_the_same_name_forgets_nothing(course: Course, tmp_path: Path) -> None:
    """Canvas calls each of its downloads submissions.zip."""
    for week, name in (("week 1", "first"), ("week 2", "second"), ("week 2", "third")):
        put(tmp_path, f"{week}/submissions.zip", zipped({f"{name}.ipynb": notebook()}))
        collect(course, tmp_path / week / "submissions.zip")
    assert [lost.path for lost in lost_work(course)] == ["first.ipynb", "third.ipynb"]


# --- the last one on time -------------------------------------------------------------------------------


def test_the_last_on_time_counts_and_a_later_deadline_brings_the_late_one_back(course: Course, download: Path) -> None:
    rules = 'time_zone = "UTC"\ncounts = "last_on_time"\n[assignments.02_masks]\ndue = "2026-03-02 12:00"\n'
    (course.root / "class.toml").write_text(rules)
    target = course.submitted("02_masks", "ada")
    put(download, "ada/02_masks.ipynb", notebook(remark="on time"), MONDAY)
    put(download, "ada/02_masks (1).ipynb", notebook(remark="late"), TUESDAY)
    placed = only(collect(course, download))
    assert "was late and is kept" in placed.reason
    assert target.read_bytes() == notebook(remark="on time")
    assert (target.parent / "timestamp.txt").read_text().startswith("2026-03-02 10:30")
    collect(course, download)
    assert target.read_bytes() == notebook(remark="on time")
    (course.root / "class.toml").write_text(rules + '[extensions.02_masks]\nada = "1 day"\n')
    collecting.choose_version(course, "02_masks", "ada", course.rules(), course.roster())
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
