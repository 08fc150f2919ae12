"""Placing a download: every notebook in its place, or in the report with the reason why not."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nbgrader.coursedir import CourseDirectory
from release import released_text

from autograder import collect as collecting
from autograder.collect import Collected, Placed, collect, student_id
from autograder.course import Course, CourseError

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
    """A notebook that was handed in. The remark makes it differ from others."""
    data = json.loads(released_text(stem))
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
        (["lovelaceada_12345_67890_02_masks.ipynb", "byronben_12_13_02_masks-1.ipynb"], ["byronben", "lovelaceada"]),
        (["lovelaceada_LATE_12345_67890_homework.ipynb"], ["lovelaceada"]),
        (["ada_02_masks.ipynb", "ben_02_masks.ipynb"], ["ada", "ben"]),
        (["02_masks_ada.ipynb", "02_masks-ben.ipynb", "02_masks_1234567.ipynb"], ["1234567", "ada", "ben"]),
        (["hw2/02_masks_ada.ipynb", "hw2/02_masks_ben.ipynb"], ["ada", "ben"]),
        (["ada_02_masks (1).ipynb"], ["ada"]),
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
        ("ada/02_masks.ipynb", notebook("03_positions"), "It is called 02_masks, but what is in it belongs to 03_pos"),
        ("02_masks.ipynb", notebook(), "Nothing in its path says whose it is"),
        ("class/ada/02_masks.ipynb", notebook(), "which of the folders class/ada is the student's"),
        ("++/02_masks.ipynb", notebook(), "No folder can be called after '++'"),
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
    assert "Give a pattern." in reason(collected, "class1/ada/02_masks.ipynb")
    assert "Give a pattern." in reason(collected, "class1/ben/02_masks.ipynb")


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
    assert "It is for 03_positions, and only 02_masks" in reason(collected, "ada/03_positions.ipynb")


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
    assert placed.reason.endswith("It replaces the submission of 2026-03-02 10:30 UTC.")
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
    assert "ben counts as having handed in nothing" in reason(collected, "ben")
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
