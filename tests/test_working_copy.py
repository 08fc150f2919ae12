"""The student's copy in work/, and what every command does with files that a person has worked in: nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from made_up_class import make_class
from nbgrader.utils import compute_checksum
from release import released_notebook, released_text

from autograder import working_copy
from autograder.authoring import build
from autograder.authoring.release import release
from autograder.classroom.collect import collect
from autograder.classroom.course import Course
from autograder.files import Ledger, told_of_kept_files, write_whole
from autograder.reporting.export import export
from autograder.reporting.report import write_report
from autograder.working_copy import is_untouched, keep_work, prepare
from course_lib.checking import record

ROOT = Path(__file__).resolve().parents[1]
STEM = "02_masks"
NAME = f"{STEM}.ipynb"


@pytest.fixture
def notebooks(tmp_path):
    """A course with two notebooks."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for stem in (STEM, "03_positions"):
        (folder / f"{stem}.ipynb").write_text(released_text(stem), encoding="utf-8")
    return folder


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


def answered(path: Path, answer: str = "def causal_mask(n):\n    return torch.ones(n, n).tril().bool()") -> bytes:
    """Answer an exercise in a notebook; what the file holds then."""
    notebook = nbformat.read(path, as_version=4)
    next(cell for cell in notebook.cells if cell.id == "causal_mask").source = answer
    nbformat.write(notebook, path)
    return path.read_bytes()


def newer(path: Path, text: str = "A new paragraph.") -> bytes:
    """The course changes a notebook, as the build does it; what the file holds then."""
    notebook = released_notebook(STEM)
    notebook.cells.append(nbformat.v4.new_markdown_cell(text, id=working_copy.cell_id(text)))
    nbformat.write(notebook, path)
    return path.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


# --- has anybody worked in it? --------------------------------------------------------------------------


@pytest.mark.parametrize("stem", build.stems())
def test_every_notebook_as_built_is_untouched(stem):
    assert is_untouched(released_text(stem).encode())


def test_checksum_is_nbgraders():
    cells = [cell for cell in released_notebook(STEM).cells if "nbgrader" in cell.metadata]
    ours = [working_copy.checksum(cell.cell_type, cell.source, cell.metadata.nbgrader) for cell in cells]
    assert cells and ours == [compute_checksum(cell) for cell in cells]


def test_opening_and_saving_is_no_work():
    notebook = json.loads(released_text(STEM))
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.13.1"}
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        if cell["cell_type"] == "code":
            cell["execution_count"] = 7
    assert is_untouched(json.dumps(notebook).encode())


def change_answer(notebook):
    next(cell for cell in notebook.cells if cell.id == "causal_mask").source = "1"


def change_text(notebook):
    notebook.cells[0].source += " My remark."


def change_locked_cell(notebook):
    next(cell for cell in notebook.cells if cell.id == "causal_mask_check").source += "\n"


def add_cell(notebook):
    notebook.cells.append(nbformat.v4.new_markdown_cell("My notes."))


def run_a_cell(notebook):
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="hello")]


def paste_picture(notebook):
    notebook.cells[0].attachments = {"picture.png": {"image/png": "iVBORw0KGgo="}}


@pytest.mark.parametrize(
    "change", [change_answer, change_text, change_locked_cell, add_cell, run_a_cell, paste_picture]
)
def test_whatever_a_person_does_is_work(change):
    notebook = released_notebook(STEM)
    change(notebook)
    assert not is_untouched(nbformat.writes(notebook).encode())


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"{}", b'{"cells": []}', b'{"cells": [1]}', b"\xff"])
def test_what_is_no_notebook_of_the_course_counts_as_work(content):
    assert not is_untouched(content)


# --- the copy -------------------------------------------------------------------------------------------


def test_the_first_time_everything_is_copied(notebooks, work):
    assert prepare(notebooks, work) == []
    assert names(work) == names(notebooks)
    assert (work / NAME).read_bytes() == (notebooks / NAME).read_bytes()


def test_work_survives_every_further_start(notebooks, work):
    prepare(notebooks, work)
    mine = answered(work / NAME)
    (work / "my_notes.ipynb").write_text("mine")
    for _ in range(2):
        assert prepare(notebooks, work) == []
    assert (work / NAME).read_bytes() == mine
    assert names(work) == [NAME, "03_positions.ipynb", "my_notes.ipynb"]


def test_an_untouched_copy_follows_the_course(notebooks, work):
    prepare(notebooks, work)
    new = newer(notebooks / NAME)
    assert prepare(notebooks, work) == []
    assert (work / NAME).read_bytes() == new
    assert names(work) == [NAME, "03_positions.ipynb"]


def test_a_newer_notebook_is_put_beside_work_and_said_once(notebooks, work):
    prepare(notebooks, work)
    mine = answered(work / NAME)
    new = newer(notebooks / NAME)
    (sentence,) = prepare(notebooks, work)
    beside = work / f"{STEM} (new version).ipynb"
    assert "newer 02_masks.ipynb" in sentence and f"work/{beside.name}" in sentence
    assert (work / NAME).read_bytes() == mine and beside.read_bytes() == new
    assert prepare(notebooks, work) == []
    beside.unlink()  # not wanted
    assert prepare(notebooks, work) == []
    assert not beside.exists()


def test_the_new_version_is_replaced_by_a_newer_one_unless_it_was_worked_in(notebooks, work):
    prepare(notebooks, work)
    mine = answered(work / NAME)
    newer(notebooks / NAME, "Second.")
    prepare(notebooks, work)
    third = newer(notebooks / NAME, "Third.")
    prepare(notebooks, work)
    beside = work / f"{STEM} (new version).ipynb"
    assert beside.read_bytes() == third
    also_mine = answered(beside)
    fourth = newer(notebooks / NAME, "Fourth.")
    prepare(notebooks, work)
    assert (work / NAME).read_bytes() == mine
    assert beside.read_bytes() == also_mine
    assert (work / f"{STEM} (new version 2).ipynb").read_bytes() == fourth


def test_a_deleted_copy_is_made_again(notebooks, work):
    prepare(notebooks, work)
    (work / NAME).unlink()
    assert prepare(notebooks, work) == []
    assert (work / NAME).read_bytes() == (notebooks / NAME).read_bytes()


def test_without_the_list_of_what_was_given_nothing_is_lost(notebooks, work):
    prepare(notebooks, work)
    mine = answered(work / NAME)
    (work / working_copy.GIVEN).write_text('["damaged')
    prepare(notebooks, work)
    assert (work / NAME).read_bytes() == mine


def test_work_from_before_is_carried_over_and_stays_where_it_was(notebooks, work):
    """People used to work in notebooks/ itself."""
    old = answered(notebooks / NAME)
    (notebooks / "my_notes.ipynb").write_text("mine")
    (notebooks / "data").mkdir()
    (notebooks / "data" / "numbers.csv").write_text("1,2")
    (notebooks / record.FILE_NAME).write_text('{"softmax": {}}')
    sentences = prepare(notebooks, work)
    assert [s for s in sentences if f"notebooks/{NAME} has been worked on" in s]
    assert (work / NAME).read_bytes() == old == (notebooks / NAME).read_bytes()
    assert (work / "my_notes.ipynb").read_text() == "mine"
    assert (work / "data" / "numbers.csv").read_text() == "1,2"
    assert (work / record.FILE_NAME).read_text() == '{"softmax": {}}'
    new = newer(notebooks / NAME)  # by git, say
    prepare(notebooks, work)
    assert (work / NAME).read_bytes() == old
    assert (work / f"{STEM} (new version).ipynb").read_bytes() == new


def test_work_in_both_places_is_kept(notebooks, work):
    prepare(notebooks, work)
    mine = answered(work / NAME, "1")
    old = answered(notebooks / NAME, "2")
    (sentence,) = prepare(notebooks, work)
    assert f"work/{STEM} (from notebooks).ipynb" in sentence
    assert (work / NAME).read_bytes() == mine
    assert (work / f"{STEM} (from notebooks).ipynb").read_bytes() == old
    other = answered(notebooks / NAME, "3")
    prepare(notebooks, work)
    assert (work / f"{STEM} (from notebooks).ipynb").read_bytes() == old
    assert (work / f"{STEM} (from notebooks 2).ipynb").read_bytes() == other


def test_progress_in_the_copy_is_not_replaced(notebooks, work):
    prepare(notebooks, work)
    (work / record.FILE_NAME).write_text("new")
    (notebooks / record.FILE_NAME).write_text("old")
    prepare(notebooks, work)
    assert (work / record.FILE_NAME).read_text() == "new"
    assert working_copy.PROGRESS == record.FILE_NAME


@pytest.mark.parametrize("step", range(4))
def test_an_interruption_loses_nothing(notebooks, work, monkeypatch, step):
    prepare(notebooks, work)
    mine = answered(work / NAME)
    new = newer(notebooks / NAME)
    replace, calls = os.replace, []

    def interrupted(*paths):
        calls.append(paths)
        if len(calls) > step:
            raise KeyboardInterrupt
        replace(*paths)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt) if step < 2 else monkeypatch.context():
        prepare(notebooks, work)
    monkeypatch.undo()
    prepare(notebooks, work)
    assert (work / NAME).read_bytes() == mine
    assert (work / f"{STEM} (new version).ipynb").read_bytes() == new


def test_a_folder_or_link_of_that_name_is_left_alone(notebooks, work):
    (work / NAME).mkdir(parents=True)
    (work / "03_positions.ipynb").symlink_to("nowhere")
    prepare(notebooks, work)
    assert (work / NAME).is_dir() and (work / "03_positions.ipynb").is_symlink()


def test_command_needs_nothing_but_the_standard_library(notebooks, work, tmp_path):
    """And it says what is wrong in a sentence."""
    package = tmp_path / "autograder"
    package.mkdir()
    for name in ("__init__.py", "files.py", "working_copy.py"):
        shutil.copy(ROOT / "autograder" / name, package)
    command = [sys.executable, "-I", "-S", "-c", RUN.format(root=str(tmp_path))]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0 and "work/" in first.stdout and names(work) == names(notebooks)
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""
    shutil.rmtree(work)
    work.write_text("a file")
    blocked = subprocess.run(command, capture_output=True, text=True)
    assert blocked.returncode == 1 and "could not be put" in blocked.stderr and "Traceback" not in blocked.stderr
    shutil.rmtree(notebooks)
    missing = subprocess.run(command, capture_output=True, text=True)
    assert missing.returncode == 1 and "no folder called notebooks" in missing.stderr


RUN = "import sys; sys.path.insert(0, {root!r}); from autograder.working_copy import main; sys.exit(main())"


def test_everything_of_the_student_is_ignored_by_git(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("there is no git on this machine")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    written = [f"work/{NAME}", "work/my_notes.ipynb", f"work/{record.FILE_NAME}", "work/.course_given.json"]
    written += ["class/.written", "class/kept/report.html"]
    ignored = subprocess.run(["git", "check-ignore", *written], cwd=tmp_path, capture_output=True, text=True)
    assert ignored.stdout.split("\n")[:-1] == written


def test_lab_opens_the_copy(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(working_copy, "copy_notebooks", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["working_copy", "--open", "--port=9000"])
    monkeypatch.setattr(
        working_copy.subprocess,
        "run",
        lambda command, env: asked.append((command, env)) or SimpleNamespace(returncode=0),
    )
    assert working_copy.main() == 0
    (command, env), first = asked[0], build.stems()[0]
    assert command[1:4] == ["-m", "jupyter", "lab"] and command[-1] == "--port=9000"
    assert f"--LabApp.default_url=/lab/tree/{working_copy.WORK.name}/{first}.ipynb" in command
    settings = Path(env["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0])
    assert json.loads((settings / "labconfig" / "page_config.json").read_text())["disabledExtensions"][
        "@jupyter/nbgrader"
    ]
    assert "-m autograder.working_copy --open" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
def test_clean_leaves_what_a_person_made(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    mine = [f"work/{NAME}", "notebooks/my_notes.ipynb", "build/mine.txt", "dist/mine.txt", "sample_class/mine.txt"]
    for name in [*mine, ".venv/folder", ".mypy_cache/x", "course_lib/__pycache__/x"]:
        write_whole(tmp_path / name, b"x")
    subprocess.run(["make", "-s", "clean"], cwd=tmp_path, check=True)
    left = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(["Makefile", *mine])


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
@pytest.mark.parametrize("command", ["clean", "lab"])
def test_an_environment_that_make_did_not_make_is_left_alone(tmp_path, command):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    write_whole(tmp_path / ".venv" / "mine.txt", b"x")
    done = subprocess.run(["make", "-s", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "not made by make" in done.stderr
    assert (tmp_path / ".venv" / "mine.txt").exists()


# --- the build ------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch, notebooks):
    """A course in which the build makes one notebook, and a newer one than there is."""
    for name, value in {"ROOT": tmp_path, "NOTEBOOKS": notebooks, "WORK": tmp_path / "work"}.items():
        monkeypatch.setattr(build, name, value)
    monkeypatch.setattr(build, "COURSE", tmp_path / "class")
    (notebooks / "03_positions.ipynb").unlink()
    text = newer(tmp_path / "newer.ipynb").decode()
    monkeypatch.setattr(build, "build", lambda: {notebooks / NAME: text, build.COURSE / "source" / NAME: text})
    return tmp_path


def test_build_keeps_work_in_the_notebooks(checkout, notebooks, work, capsys):
    mine = answered(notebooks / NAME)
    (notebooks / "my_notes.ipynb").write_text("mine")
    shutil.copy(notebooks / NAME, notebooks / f"{STEM}-Copy1.ipynb")
    assert build.main([]) == 0
    assert f"work/{STEM} (from notebooks).ipynb" in capsys.readouterr().out
    assert (work / f"{STEM} (from notebooks).ipynb").read_bytes() == mine
    assert (notebooks / NAME).read_bytes() == (checkout / "newer.ipynb").read_bytes()
    assert (notebooks / "my_notes.ipynb").read_text() == "mine"
    assert (notebooks / f"{STEM}-Copy1.ipynb").read_bytes() == mine


def test_build_makes_no_second_copy_of_work_that_was_carried_over(checkout, notebooks, work):
    mine = answered(notebooks / NAME)
    shutil.copy(notebooks / NAME, notebooks / f"{STEM}-Copy1.ipynb")
    prepare(notebooks, work)
    assert keep_work(notebooks / NAME, work) == work / NAME
    build.main([])
    assert names(work) == [f"{STEM}-Copy1.ipynb", NAME] and (work / NAME).read_bytes() == mine


def test_build_replaces_what_it_made_without_a_word(checkout, notebooks, work, capsys):
    assert build.main([]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert (notebooks / NAME).read_bytes() == (checkout / "newer.ipynb").read_bytes()
    assert not work.exists()


def test_build_deletes_nothing_and_tells_of_a_notebook_without_a_source(checkout, notebooks, capsys):
    leftover = notebooks / "03_positions.ipynb"
    leftover.write_text(released_text("03_positions"), encoding="utf-8")
    assert build.main([]) == 0
    assert "notebooks/03_positions.ipynb has no source any more" in capsys.readouterr().out
    assert leftover.exists()
    assert build.main(["--check"]) == 1


def test_build_keeps_a_changed_solution_notebook(checkout, capsys):
    build.main([])
    source = checkout / "class" / "source" / NAME
    source.write_text("the instructor's")
    build.main([])
    assert (checkout / "class" / "kept" / "source" / NAME).read_text() == "the instructor's"
    assert "kept/source" in capsys.readouterr().out


def test_check_goes_by_git_where_somebody_has_worked(checkout, notebooks):
    if shutil.which("git") is None:
        pytest.skip("there is no git on this machine")
    build.main([])
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "notebooks"], [*who, "commit", "-q", "-m", "built"]):
        subprocess.run(["git", *command], cwd=checkout, check=True)
    assert build.main(["--check"]) == 0
    answered(notebooks / NAME)
    (notebooks / "my_notes.ipynb").write_text("mine")
    assert build.main(["--check"]) == 0
    subprocess.run(["git", *who, "commit", "-qam", "changed by hand"], cwd=checkout, check=True)
    assert build.main(["--check"]) == 1


# --- the commands of the grader -------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "course")


def test_what_stayed_as_written_is_replaced(ledger):
    path = ledger.root / "report.html"
    for text in ("one", "two"):
        ledger.write(path, text)
    assert path.read_text() == "two" and names(ledger.root) == ["report.html"]
    assert ledger.kept == []


def test_what_a_person_has_changed_is_kept_each_time(ledger):
    path = ledger.root / "feedback" / "ada" / "page.html"
    for number in range(3):
        ledger.write(path, f"ours {number}")
        path.write_text(f"theirs {number}")
    ledger.write(path, "ours")
    kept = [place for _, place in ledger.kept]
    assert [place.read_text() for place in kept] == ["theirs 0", "theirs 1", "theirs 2"]
    assert kept[0] == ledger.root / "kept" / "feedback" / "ada" / "page.html"


def test_a_file_that_was_always_a_persons_is_kept(ledger, tmp_path):
    grades = tmp_path / "elsewhere" / "grades.csv"
    write_whole(grades, b"my own table")
    ledger.write(grades, "ours")
    assert grades.read_text() == "ours"
    assert (tmp_path / "elsewhere" / "kept" / "grades.csv").read_text() == "my own table"


def test_the_ledger_is_shared_by_processes_and_survives_a_torn_line(ledger):
    path = ledger.root / "page.html"
    other = Ledger(ledger.root)
    ledger.write(path, "one")
    other.write(path, "two")
    ledger.write(path, "three")
    assert ledger.kept == other.kept == []
    with ledger.file.open("a") as file:
        file.write('["half a li')
    fresh = Ledger(ledger.root)
    fresh.write(path, "four")
    fresh.write(path, "five")
    assert path.read_text() == "five" and fresh.kept == []


def test_an_interruption_between_record_and_file_is_no_change_by_a_person(ledger, monkeypatch):
    path = ledger.root / "page.html"
    ledger.write(path, "one")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupt)
        ledger.write(path, "two")
    ledger.write(path, "three")
    assert ledger.kept == [] and path.read_text() == "three"


def interrupt(*_):
    raise KeyboardInterrupt


def test_release_keeps_what_an_instructor_has_made(tmp_path):
    course = Course(tmp_path / "course")
    release(course, [STEM])
    source, released = course.source(STEM), course.release(STEM)
    assert course.ledger.is_as_written(source) and course.ledger.is_as_written(released)
    source.write_text("my source")
    released.write_text("my release")
    (released.parent / "data.csv").write_text("1,2")
    release(course, [STEM])
    kept = course.root / "kept"
    assert (kept / "source" / STEM / NAME).read_text() == "my source"
    assert (kept / "release" / STEM / NAME).read_text() == "my release"
    assert (kept / "release" / STEM / "data.csv").read_text() == "1,2"
    assert is_untouched(released.read_bytes())
    assert len(told_of_kept_files()) == 3 and told_of_kept_files() == []


def test_collect_keeps_a_submission_that_an_instructor_has_mended(tmp_path):
    course = Course(tmp_path / "course")
    write_whole(course.release(STEM), released_text(STEM).encode())
    target = course.submitted(STEM, "ada")
    for day, name in enumerate(["first.zip", "second.zip"], start=1):
        hand_in(tmp_path / name, day)
        collect(course, tmp_path / name, STEM)
        if day == 1:
            first = answered(target)
    assert hashlib.sha256(target.read_bytes()).digest() != hashlib.sha256(first).digest()
    (kept,) = (course.root / "earlier" / "ada" / STEM).iterdir()
    assert kept.read_bytes() == first


@pytest.mark.xdist_group("report")  # the same class as in the tests of reports
def test_report_and_export_keep_what_an_instructor_has_made_of_them(tmp_path):
    course = make_class(tmp_path / "course")
    tables = tmp_path / "tables"
    pages = [write_report(course), *export(course, tables)]
    for page in pages:
        page.write_text(f"my {page.name}")
    assert [write_report(course), *export(course, tables)] == pages
    assert (course.root / "kept" / "report.html").read_text() == "my report.html"
    for page in pages[1:]:
        assert (tables / "kept" / page.name).read_text() == f"my {page.name}"
        assert course.ledger.is_as_written(page)


def hand_in(archive: Path, day: int) -> None:
    entry = zipfile.ZipInfo(f"ada/{NAME}", date_time=(2026, 3, 1 + day, 12, 0, 0))
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr(entry, released_text(STEM).replace("raise NotImplementedError()", f"return {day}"))


@pytest.mark.parametrize("label", ["new version", "new version 2", "from notebooks"])
def test_every_copy_can_be_handed_in(tmp_path, label):
    course = Course(tmp_path / "course")
    write_whole(course.release(STEM), released_text(STEM).encode())
    handed_in = tmp_path / "download" / "ada" / f"{STEM} ({label}).ipynb"
    write_whole(handed_in, released_text(STEM).encode())
    answered(handed_in)
    (placed,) = collect(course, tmp_path / "download").placed
    assert (placed.student, placed.assignment) == ("ada", STEM)
