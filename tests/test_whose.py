"""Whose a notebook of a download is, and which assignment: what names tell, and what they do not."""

from __future__ import annotations

import json
import os
import zipfile
from datetime import datetime
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
    zipped,
)
from release import released_text

from autograder import cli
from autograder.classroom.collect import collect
from autograder.classroom.collected import lms_names, lost_work
from autograder.classroom.course import Course, CourseError
from autograder.classroom.roster import student_id


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return class_with_releases(tmp_path / "course")


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


def test_what_nbgrader_needs_to_return_feedback_comes_along(course: Course, download: Path) -> None:
    folder = "frank+02_masks+2026-03-03 08:00:00.123456 UTC+abc"
    put(download, f"{folder}/02_masks.ipynb")
    put(download, f"{folder}/submission_secret.txt", b"under this name")
    put(download, f"{folder}/timestamp.txt", b"2026-03-03 08:00:00 UTC")
    put(download, f"{folder}/more.zip", zipped({"submission_secret.txt": b"a student packed this"}))
    collected = collect(course, download)
    assert only(collected).student == "frank"
    assert collected.unplaced == ()
    assert (course.submitted("02_masks", "frank").parent / "submission_secret.txt").read_bytes() == b"under this name"


def test_a_secret_at_which_nbgrader_would_stop_is_left_behind(course: Course, download: Path) -> None:
    """It reads the secrets of a whole class as text, one after another, when feedback is released."""
    folder = "frank+02_masks+2026-03-03 08:00:00.123456 UTC+abc"
    put(download, f"{folder}/02_masks.ipynb")
    put(download, f"{folder}/submission_secret.txt", b"\xff\xfe")
    collected = collect(course, download)
    assert only(collected).student == "frank"
    assert "not what nbgrader writes" in reason(collected, f"{folder}/submission_secret.txt")
    assert not (course.submitted("02_masks", "frank").parent / "submission_secret.txt").exists()


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
    (course.root / "class.toml").write_text('time_zone = "Europe/Berlin"\n')
    for name in ("ada", "ben", "cy"):
        put(download, f"{name}/02_masks.ipynb")
    (warning,) = collect(course, download).warnings
    assert "All 3 files have the same date, 2026-03-02 11:30 CET" in warning
    assert "collect the zip file as the LMS gave it" in warning
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


TWO_COLUMNS = """Student,Student ID
Ada Lovelace,al1815
"Byron, Ben",bb
"""


@pytest.mark.parametrize(
    "roster", [OWN, CANVAS_EXPORT, MOODLE_EXPORT, TWO_COLUMNS], ids=["own", "Canvas", "Moodle", "two columns"]
)
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


def test_what_was_placed_is_listed_by_name(course: Course, download: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_roster(course, OWN)
    put(download, "al1815/02_masks.ipynb")
    put(download, "bb/02_masks.ipynb", released_text("02_masks").encode())
    assert cli.main(["collect", str(download), "--course", str(course.root)]) == 0
    said = capsys.readouterr().out
    assert "  Ada Lovelace (al1815), 02_masks: al1815/02_masks.ipynb.\n" in said
    assert "Nothing was written in it: Ben Byron (bb) handed in 02_masks unchanged." in said


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


def test_what_was_lost_is_forgotten_when_it_is_placed_from_another_download(course: Course, tmp_path: Path) -> None:
    """An LMS, or a browser, gives each download another name. Somebody else's copy is another person's work."""
    with_roster(course, "id,name\nada,Ada Lovelace\n")
    files = {
        f"{name}_7_assignsubmission_file_/02_masks.ipynb": notebook() for name in ("Ada Lovelace", "Ben B", "Eve E")
    }
    collect(course, put(tmp_path, "monday.zip", zipped(files)))
    with_roster(course, "id,name\nada,Ada Lovelace\nben,Ben B\n")
    del files["Eve E_7_assignsubmission_file_/02_masks.ipynb"]
    collected = collect(course, put(tmp_path, "tuesday.zip", zipped(files)))
    assert {placed.student for placed in collected.placed} == {"ada", "ben"}
    assert [lost.path for lost in lost_work(course)] == ["Eve E_7_assignsubmission_file_/02_masks.ipynb"]


def test_another_download_of_the_same_name_forgets_nothing(course: Course, tmp_path: Path) -> None:
    """Canvas calls each of its downloads submissions.zip."""
    for week, name in (("week 1", "first"), ("week 2", "second"), ("week 2", "third")):
        put(tmp_path, f"{week}/submissions.zip", zipped({f"{name}.ipynb": notebook()}))
        collect(course, tmp_path / week / "submissions.zip")
    assert [lost.path for lost in lost_work(course)] == ["first.ipynb", "third.ipynb"]
