"""Commands that messages suggest can be pasted as they are: they name the class, and spaces do no harm."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder import cli, suggest
from autograder.classroom import seed
from autograder.classroom.book import master_of
from autograder.classroom.class_folder import make_class, require_class
from autograder.classroom.collect import collect
from autograder.classroom.course import Course, CourseError
from autograder.classroom.grade import Summary, require_current_points, require_submissions
from autograder.classroom.sample import read_notebook
from autograder.judging.verdict import verdicts
from autograder.reporting.export import export
from autograder.reporting.feedback import write_feedback
from autograder.reporting.report import read_verdicts, write_report
from autograder.reporting.written import mark_written, questions_of
from autograder.suggest import command
from autograder.walls.sight import complaint
from autograder.walls.warm import WarmError

PACKAGE = Path(__file__).resolve().parents[1] / "autograder"
STEM = "02_masks"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    folder = tmp_path / "my class of '26"
    make_class(folder)
    return Course(folder, f"sqlite:///{tmp_path / 'a gradebook.db'}")


def parsed(said: str) -> tuple[str, Path, str]:
    """What a suggested command would do, of which class and which gradebook. Raises SystemExit if it would not run."""
    python, *words = shlex.split(said)
    assert (shlex.quote(python), *words[:2]) == (suggest.PYTHON, "-m", "autograder")
    options = cli.parser().parse_args(words[2:])
    return options.run.__name__.removeprefix("run_"), options.course, options.db


def forced(course: Course) -> None:
    cli.show_summary(course, Summary(STEM, left=["ada", "o'neill"]), is_forced=True)


def points_have_changed(course: Course) -> None:
    cell = nbformat.v4.new_code_cell("check(causal_mask)")
    cell.metadata.nbgrader = {"grade_id": "causal_mask_check", "points": 99, "grade": True, "solution": False}
    require_current_points(course, course.rules().of(STEM), nbformat.v4.new_notebook(cells=[cell]))


def a_broken_verdict(course: Course) -> None:
    path = course.verdict(STEM, "ada")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    raise CourseError(next(verdicts(course, STEM)).reason)


def unknown_to_the_gradebook(course: Course) -> None:
    course.release(STEM).parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(), course.release(STEM))
    with course.gradebook() as gradebook:
        master_of(course, gradebook, STEM)


def released_but_empty(course: Course) -> None:
    course.release(STEM).parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(), course.release(STEM))
    require_submissions(course, STEM)


SAID: dict[str, tuple[Callable[[Course], object], str]] = {  # who says it, and which command is meant
    "no release": (lambda course: require_submissions(course, STEM), "release"),
    "no submissions": (released_but_empty, "collect"),
    "collecting without a release": (lambda course: collect(course, course.root), "release"),
    "points": (points_have_changed, "release"),
    "interrupted": (forced, "grade"),
    "an unknown assignment": (unknown_to_the_gradebook, "release"),
    "no feedback": (lambda course: write_feedback(course, STEM), "grade"),
    "no report": (write_report, "grade"),
    "no report on one": (lambda course: read_verdicts(course, STEM), "grade"),
    "no export": (lambda course: export(course, course.root), "grade"),
    "no answers": (lambda course: mark_written(course, [STEM]), "grade"),
    "no questions": (lambda course: questions_of(course, STEM), "release"),
    "a broken verdict": (a_broken_verdict, "grade"),
    "no sample": (lambda course: read_notebook(course.release(STEM), course.command("release")), "release"),
}


@pytest.mark.parametrize("which", SAID)
def test_a_suggested_command_names_its_class(which, course, capsys):
    raising, meant = SAID[which]
    try:
        raising(course)
        said = capsys.readouterr().out
    except CourseError as error:
        said = str(error)
    (found,) = re.findall(re.escape(suggest.PYTHON) + r"[^`\n]*", said)
    assert parsed(found) == (meant, course.root, course.db)


def test_so_do_those_of_the_seed_and_of_a_folder_that_is_no_class(course, tmp_path):
    for seed_is_empty, meant in ((False, "release"), (True, "release --new-seed")):
        (course.root / "hidden_seed").write_text("") if seed_is_empty else (course.root / "hidden_seed").unlink()
        with pytest.raises(CourseError) as error:
            seed.read_seed(course.root / "hidden_seed")
        assert str(error.value).endswith(f"autograder {meant} --course {shlex.quote(str(course.root))}")
    with pytest.raises(CourseError) as error:
        require_class(tmp_path / "no class")
    assert str(error.value).endswith(f"autograder init --course {shlex.quote(str(tmp_path / 'no class'))}")


def test_the_class_in_its_usual_place_needs_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(Path("class"), "grade", STEM) == f"{suggest.PYTHON} -m autograder grade {STEM}"


def test_python_is_the_one_that_runs(tmp_path):
    assert suggest.python(str(Path(sys.executable).parent)) == "python"
    assert suggest.python(str(tmp_path)) == shlex.quote(sys.executable)


def test_a_password_is_not_repeated(course):
    said = command(course.root, "grade", db="postgresql+psycopg://me:secret@host/name")
    assert "postgresql+psycopg://me:***@host/name" in said and "secret" not in said


def test_no_command_is_suggested_in_another_way():
    """Nothing that the package says contains a command, except what `suggest` makes."""
    words = re.compile(r"python -m autograder (?!--help|doctor)[a-z]")
    for path in sorted(PACKAGE.rglob("*.j2")):
        assert not words.search(path.read_text(encoding="utf-8")), path
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, documented) and ast.get_docstring(n)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                assert not words.search(node.value), (path, node.value)


NAMING_AN_ASSIGNMENT = {
    "release": ["release", "02_mask"],
    "release several": ["release", STEM, "02_mask"],
    "collect": ["collect", "download", "--assignment", "02_mask"],
    "grade": ["grade", "02_mask"],
    "judge": ["judge", "02_mask", "ada"],
    "feedback": ["feedback", "02_mask"],
    "written": ["written", "02_mask"],
    "report": ["report", "02_mask"],
    "sample": ["sample", "02_mask"],
}


@pytest.mark.parametrize("arguments", NAMING_AN_ASSIGNMENT.values(), ids=NAMING_AN_ASSIGNMENT.keys())
def test_a_mistyped_assignment_is_told_the_names_there_are(course, monkeypatch, capsys, arguments):
    (course.root / "class.toml").write_text('[assignments.first_weeks]\nnotebooks = ["00_start_here"]\n')
    monkeypatch.setattr(cli, "require_walls", lambda *_, **__: None)
    monkeypatch.setattr(cli, "local_workers", lambda _: contextlib.nullcontext())
    before = sorted(course.root.rglob("*"))
    assert cli.main(["--course", str(course.root), *arguments]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("There is no assignment 02_mask. There are: 02_masks, first_weeks, 00_start_here, 01_")
    assert suggest.PYTHON + " -m autograder" not in complaint, "no advice that would fail"
    assert sorted(course.root.rglob("*")) == before


def test_who_is_graded_alone_need_not_have_handed_in_everything(course, capsys):
    for stem, students in {"02_masks": ["ada", "ben"], "03_positions": ["ada"]}.items():
        course.release(stem).parent.mkdir(parents=True)
        course.release(stem).write_text("")
        for student in students:
            course.submitted(stem, student).parent.mkdir(parents=True)
    assert cli.handed_in_by(course, None) == cli.handed_in_by(course, ["ada"]) == ["02_masks", "03_positions"]
    assert cli.handed_in_by(course, ["ben"]) == ["02_masks"]
    with pytest.raises(CourseError, match="cy has handed in nothing"):
        cli.handed_in_by(course, ["ben", "cy"])
    assert cli.main(["--course", str(course.root), "feedback", "--students", "ben"]) == 1
    assert "grade --students ben --course" in capsys.readouterr().err


def test_a_process_behind_the_walls_that_does_not_start_is_a_sentence(monkeypatch):
    def silent(*_: object) -> None:
        raise WarmError("The warm process has ended.\nTraceback\nModuleNotFoundError: No module named 'torch'\n")

    monkeypatch.setattr("autograder.walls.runners.Runner", silent)
    with pytest.raises(CourseError, match=r"does not start \(ModuleNotFoundError: No module named 'torch'\)"):
        complaint(None)
