"""Archives and folders as students send them: one bad file costs only itself."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import socket
import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from downloads import (
    class_with_releases,
    notebook,
    only,
    put,
    reason,
    zipped,
)

from autograder.classroom import archives
from autograder.classroom import download as downloading
from autograder.classroom.collect import collect
from autograder.classroom.course import Course, CourseError


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return class_with_releases(tmp_path / "course")


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
    monkeypatch.setattr(downloading, "MOST_BYTES_OF_A_NOTEBOOK", 2_000_000)
    monkeypatch.setattr(archives, "MOST_BYTES_OF_AN_INNER_ZIP", 3_000_000)
    monkeypatch.setattr(archives, "MOST_FILES_OF_AN_INNER_ZIP", 50)
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
