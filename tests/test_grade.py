"""Grading a class: how each submission ends, what is entered, what is graded again, and what is kept."""

from __future__ import annotations

import html
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import classroom
import nbformat
import pytest
from grading import STEM, Here, autograder, comments, grades, hand_in, solved
from nbgrader.plugins import BasePlugin
from nbgrader.utils import determine_grade

from autograder.authoring import build
from autograder.authoring.release import release
from autograder.classroom import book
from autograder.classroom import grade as grade_module
from autograder.classroom.course import Course, CourseError
from autograder.classroom.grade import Change, LocalWorkers, grade, last_verdict
from autograder.cli import parser
from autograder.judging import work
from autograder.judging.judge import Patience
from autograder.judging.verdict import Verdict, read_verdict
from autograder.judging.work import Result, Task

pytestmark = pytest.mark.xdist_group("grade")
FULL = sum(  # of the code; a written answer is marked by a person
    cell.metadata.nbgrader.points
    for cell in classroom.released(STEM).cells
    if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade")
)
PEEKS = "def causal_mask(n):\n    return torch.ones(n, n).tril(1)"


class Pretending(Here):
    """Gives everybody the same judged notebook, and is interrupted before the student of this name."""

    def __init__(self, result: Result, stop_at: str = ""):
        super().__init__()
        self.result = result
        self.stop_at = stop_at

    def results(self, tasks):
        for task in tasks:
            if task.student == self.stop_at:
                raise KeyboardInterrupt
            self.asked.append(task.student)
            verdict = Verdict(task.student, STEM, "graded", exercises=self.result.verdict.exercises, digest=task.digest)
            yield Result(verdict, self.result.notebook)


def is_flagged(course, student):
    with course.gradebook() as gradebook:
        return gradebook.find_submission_notebook(STEM, STEM, student).flagged


def lost_metadata():
    """All metadata are gone, and everything that could have told the cells apart was rewritten too."""
    notebook = solved()
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"c{number}"
        if cell.cell_type == "code":
            cell.source = f"x{number} = {number}"
    return notebook


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A course with a released assignment and nobody in it."""
    course = Course(tmp_path_factory.mktemp("released"))
    release(course, [STEM])
    return course


@pytest.fixture
def course(released, tmp_path):
    """A copy of that course, to grade in."""
    root = tmp_path / "course"
    shutil.copytree(released.root, root)
    return Course(root)


@pytest.fixture(scope="module")
def graded(released, tmp_path_factory):
    """A class, graded once. Copy it before you change it."""
    root = tmp_path_factory.mktemp("graded") / "course"
    shutil.copytree(released.root, root)
    course = Course(root)
    hand_in(course, "ada", solved(), "2026-09-01 10:00:00 UTC")
    hand_in(course, "ben", solved(causal_mask=PEEKS))
    hand_in(course, "cleo", "{ broken")
    hand_in(course, "dan", None)
    hand_in(course, "eve", lost_metadata())
    hand_in(course, "fay", released.release(STEM).read_text(encoding="utf-8"), "no time at all")
    course.submitted(STEM, "gus").parent.mkdir(parents=True)
    course.submitted(STEM, "gus").write_bytes(b"\xff\xfe\x00\x80" * 100)
    hand_in(course, "hal", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    summary = grade(course, STEM, Here())
    work.forget_warm_process()
    return course, summary


@pytest.fixture
def again(graded, tmp_path):
    """A copy of the graded class."""
    root = tmp_path / "course"
    shutil.copytree(graded[0].root, root)
    return Course(root)


@pytest.fixture
def right(graded):
    """What came of a submission that is right."""
    course, _ = graded
    notebook = nbformat.read(course.autograded(STEM, "ada"), as_version=4)
    return Result(read_verdict(course.verdict(STEM, "ada")), json.dumps(notebook))


# --- each ends graded, zeroed or flagged -----------------------------------------------------------------------------


def test_each_submission_ends_graded_zeroed_or_flagged_with_a_reason(graded):
    """Every submission ends graded, zeroed with a reason, or flagged, and one bad file never stops the rest."""
    _, summary = graded
    ends = {v.student: (v.status, v.reason) for v in summary.graded}
    assert {student: status for student, (status, _) in ends.items()} == {
        "ada": "graded",
        "ben": "graded",
        "cleo": "zeroed",
        "dan": "zeroed",
        "eve": "flagged",
        "fay": "graded",
        "gus": "zeroed",
        "hal": "zeroed",
    }
    assert all(bool(reason) == (status != "graded") for status, reason in ends.values())
    assert ends["dan"][1] == "No notebook was handed in."
    assert summary.unchanged == summary.left == summary.changes == []


def test_points_are_entered_cell_by_cell(graded):
    course, _ = graded
    ada, ben = grades(course, "ada"), grades(course, "ben")
    assert sum(score for score, *_ in ada.values() if score is not None) == FULL
    assert {name for name in ada if ada[name] != ben[name]} == {"causal_mask_check", "causal_mask_hidden"}
    assert (ben["causal_mask_check"][0], ben["causal_mask_hidden"][0]) == (1.0, 0.0)
    assert {name for name, (score, _, _, needs) in ada.items() if needs} == {
        name for name, (score, *_) in ada.items() if score is None
    }


def test_an_untouched_notebook_has_no_points_and_no_response(graded):
    course, _ = graded
    assert {score for score, *_ in grades(course, "fay").values()} == {0.0}
    assert {auto for auto, _ in comments(course, "fay").values()} == {"No response."}


def test_what_was_zeroed_has_zeros_and_what_was_flagged_is_open(graded):
    course, _ = graded
    for student in ("cleo", "dan", "gus"):
        assert set(grades(course, student).values()) == {(0.0, None, None, False)}
        assert not is_flagged(course, student)
    assert set(grades(course, "eve").values()) == {(None, None, None, True)}
    assert is_flagged(course, "eve")


def test_verdicts_and_judged_notebooks_are_written(graded):
    course, summary = graded
    for verdict in summary.graded:
        assert read_verdict(course.verdict(STEM, verdict.student)) == verdict
        nbformat.validate(nbformat.read(course.autograded(STEM, verdict.student), as_version=4))
        assert len(verdict.exercises) == 8
        assert verdict.max_points == FULL
    assert (course.autograded(STEM, "ada").parent / "timestamp.txt").read_text() == "2026-09-01 10:00:00 UTC"


def test_notebooks_and_verdicts_are_written_as_by_the_libraries(graded):
    course, _ = graded
    for student in course.students(STEM):
        text = course.autograded(STEM, student).read_text(encoding="utf-8")
        assert text == nbformat.v4.writes(nbformat.from_dict(json.loads(text))) + "\n"
        text = course.verdict(STEM, student).read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


def test_what_was_not_run_has_a_notebook_that_says_why_and_in_which_no_check_passes(graded):
    course, _ = graded
    notebook = nbformat.read(course.autograded(STEM, "eve"), as_version=4)
    assert html.escape(read_verdict(course.verdict(STEM, "eve")).reason) in notebook.cells[0].source
    checks = [c for c in notebook.cells if c.cell_type == "code" and c.metadata.get("nbgrader", {}).get("grade")]
    assert len(checks) == 16
    assert {determine_grade(cell)[0] for cell in checks} == {0}


def test_a_file_that_cannot_be_read_costs_only_its_own(again, monkeypatch):
    """Root reads everything, so the refusal is staged."""
    real = grade_module.submitted_text

    def refused(path):
        if "ben" in path.parts:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(grade_module, "submitted_text", refused)
    grade(again, STEM, Here())
    verdict = read_verdict(again.verdict(STEM, "ben"))
    assert verdict.status == "flagged" and "cannot be read (Permission denied)" in verdict.reason
    assert read_verdict(again.verdict(STEM, "ada")).status == "graded"


def test_a_timestamp_that_is_none_is_noted(graded):
    course, _ = graded
    (note,) = read_verdict(course.verdict(STEM, "fay")).notes
    assert "'no time at all'" in note


# --- what is done again, and what is kept ----------------------------------------------------------------------------


def test_nothing_is_graded_again_if_nothing_has_changed(again):
    release(again, [STEM])
    workers = Here()
    summary = grade(again, STEM, workers)
    assert workers.asked == summary.graded == []
    assert summary.unchanged == ["ada", "ben", "cleo", "dan", "eve", "fay", "gus", "hal"]


def test_what_ran_out_of_time_is_graded_again_if_there_is_another_limit(again, right):
    class OutOfTime(Pretending):
        def results(self, tasks):
            for result, task in zip(super().results(tasks), tasks, strict=True):
                yield replace(result, verdict=replace(result.verdict, digest=task.digest_in_time))

    short = Patience(submission=5.0)
    grade(again, STEM, OutOfTime(right), students=["ada"], force=True, patience=short)
    assert grade(again, STEM, Here(), students=["ada"], patience=short).unchanged == ["ada"]
    workers = Pretending(right)
    grade(again, STEM, workers, students=["ada"])
    assert workers.asked == ["ada"]


def test_only_what_has_changed_is_graded_again_and_its_change_is_shown(again, right):
    hand_in(again, "ben", solved())
    workers = Pretending(right)
    summary = grade(again, STEM, workers)
    assert workers.asked == ["ben"]
    assert summary.changes == [Change("ben", FULL - 4, FULL, ("causal_mask",))]
    assert grades(again, "ben") == grades(again, "ada")


def test_a_new_time_of_submission_is_a_change(again, right):
    hand_in(again, "ben", None, "2026-09-02 10:00:00 UTC")
    workers = Pretending(right)
    grade(again, STEM, workers)
    assert workers.asked == ["ben"]


def test_only_these_students_each_once(again, right):
    workers = Pretending(right)
    grade(again, STEM, workers, students=["ben", "ada", "ben"], force=True)
    assert workers.asked == ["ben", "ada"]


def test_force_grades_everybody_again(again, right):
    workers = Pretending(right)
    summary = grade(again, STEM, workers, force=True)
    assert len(workers.asked) == len(summary.graded) == 8
    assert {change.student for change in summary.changes} == set(workers.asked) - {"ada"}


def test_what_students_hand_in_is_none_of_the_code_that_verdicts_depend_on(tmp_path):
    for name in ("__init__.py", "a.py", "inside/__init__.py", "inside/b.py", "submitted/ada/02_masks/helper.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in work.code_of(tmp_path)]
    assert found == ["__init__.py", "a.py", "inside/__init__.py", "inside/b.py"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda course: course.verdict(STEM, "ada").write_text("{ broken"),
        lambda course: course.verdict(STEM, "ada").write_text("[]"),
        lambda course: course.autograded(STEM, "ada").unlink(),
    ],
    ids=["a broken verdict", "a senseless verdict", "no judged notebook"],
)
def test_what_is_damaged_is_graded_again(again, right, damage):
    damage(again)
    workers = Pretending(right)
    grade(again, STEM, workers)
    assert workers.asked == ["ada"]
    assert last_verdict(again, STEM, "ada").points == FULL


def test_another_gradebook_is_filled_although_there_are_verdicts(released, again, right, tmp_path):
    shutil.copy(released.root / "gradebook.db", tmp_path / "other.db")
    elsewhere = Course(again.root, f"sqlite:///{tmp_path / 'other.db'}")
    workers = Pretending(right)
    grade(elsewhere, STEM, workers)
    assert len(workers.asked) == 8
    assert sum(score or 0 for score, *_ in grades(elsewhere, "ada").values()) == FULL


def test_what_a_person_gave_survives_regrading(again, right):
    with again.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(STEM, STEM, "ben")
        (given,) = [grade for grade in notebook.grades if grade.name == "causal_mask_check"]
        given.manual_score, given.extra_credit, given.needs_manual_grade = 3.5, 1.0, False
        (comment,) = [c for c in notebook.comments if c.name == "causal_mask"]
        comment.manual_comment = "Nearly."
        notebook.flagged = True
        gradebook.db.commit()
    hand_in(again, "ben", solved())
    grade(again, STEM, Pretending(right))
    auto, manual, extra, needs_a_look = grades(again, "ben")["causal_mask_check"]
    assert (auto, manual, extra, needs_a_look) == (4.0, 3.5, 1.0, True)
    assert comments(again, "ben")["causal_mask"] == (None, "Nearly.")
    assert is_flagged(again, "ben")
    hand_in(again, "ben", "{ broken")
    grade(again, STEM, Here())
    assert grades(again, "ben")["causal_mask_check"] == (0.0, 3.5, 1.0, True)


def test_a_flag_of_the_grader_goes_when_a_better_notebook_comes(again, right):
    hand_in(again, "eve", solved())
    grade(again, STEM, Pretending(right))
    assert not is_flagged(again, "eve")
    assert grades(again, "eve") == grades(again, "ada")


# --- late ------------------------------------------------------------------------------------------------------------


class TwoPointsOff(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 2.0


def penalty(course, student):
    with course.gradebook() as gradebook:
        found = gradebook.find_submission(STEM, student)
        return found.total_seconds_late, found.late_submission_penalty


def test_late_submissions_are_known_and_treated_as_nbgrader_is_told(again, right, monkeypatch):
    configured = Course.config

    def with_penalty(course):
        config = configured(course)
        config.AssignLatePenalties.plugin_class = TwoPointsOff
        return config

    with again.gradebook() as gradebook:
        gradebook.update_or_create_assignment(STEM, duedate=datetime(2026, 9, 1, 12, tzinfo=UTC).replace(tzinfo=None))
    hand_in(again, "ada", None, "2026-09-01 12:00:30 UTC")
    grade(again, STEM, Pretending(right))
    assert penalty(again, "ada") == (30, 0)  # nbgrader's own plugin takes nothing off
    monkeypatch.setattr(Course, "config", with_penalty)
    grade(again, STEM, Pretending(right), force=True, students=["ada"])
    assert penalty(again, "ada") == (30, 2)
    hand_in(again, "ada", None, "2026-09-01 11:00:00 UTC")
    grade(again, STEM, Pretending(right))
    assert penalty(again, "ada") == (0, 0)


# --- interruptions ---------------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_where_it_stopped(again, right):
    for student in ("ada", "ben", "cleo", "dan"):
        shutil.rmtree(again.verdict(STEM, student).parent, ignore_errors=True)
    summary = grade(again, STEM, Pretending(right, stop_at="dan"))
    assert [v.student for v in summary.graded] == ["ada", "ben", "cleo"]
    assert summary.left == ["dan", "eve", "fay", "gus", "hal"]
    workers = Pretending(right)
    summary = grade(again, STEM, workers)
    assert workers.asked == ["dan", "eve", "fay", "gus", "hal"]
    assert summary.unchanged == ["ada", "ben", "cleo"]


def test_a_full_disk_is_one_clear_sentence_and_what_was_finished_is_kept(again, right, monkeypatch):
    write = grade_module.write_verdict

    def full_after_ada(course, verdict):
        if verdict.student != "ada":
            raise OSError("No space left on device")
        return write(course, verdict)

    monkeypatch.setattr(grade_module, "write_verdict", full_after_ada)
    with pytest.raises(CourseError, match="No space left on device"):
        grade(again, STEM, Pretending(right), force=True)
    monkeypatch.undo()
    shutil.rmtree(again.verdict(STEM, "ada").parent)
    assert grade(again, STEM, Pretending(right)).left == []


def test_two_runs_at_once_are_refused(again, right):
    with (
        book.one_at_a_time(again),
        pytest.raises(CourseError, match=f"being graded or released already, by process {os.getpid()}"),
    ):
        grade(again, STEM, Pretending(right), force=True)
    grade(again, STEM, Pretending(right), force=True)


def test_the_lock_of_a_dead_process_holds_nobody_up(again, right):
    def die_with_the_lock():
        with book.one_at_a_time(again):
            os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=die_with_the_lock)
    process.start()
    process.join()
    assert (again.root / book.LOCK).read_text() == str(process.pid)
    assert len(grade(again, STEM, Pretending(right), force=True).graded) == 8


# --- workers that die ------------------------------------------------------------------------------------------------


def fake_do(task: Task) -> Result:
    """Kills its process, always or the first time, if the submission says so."""
    if task.submitted == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.submitted and task.submitted.startswith("/") and not os.path.exists(task.submitted):
        open(task.submitted, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if task.submitted == "endless":
        while True:
            time.sleep(1)
    return Result(Verdict(task.student, STEM, "graded", reason=str(os.getpid())))


def test_a_submission_that_never_ends_is_flagged_and_stops_nobody(monkeypatch):
    """Its judge should have ended by itself; the coordinator does not rely on that."""
    monkeypatch.setattr(work, "do", fake_do)
    monkeypatch.setattr("autograder.classroom.grade.Worker.close", close_without_warm)
    monkeypatch.setattr("autograder.classroom.grade.JUDGES_OWN_SECONDS", 0.0)
    monkeypatch.setattr("autograder.classroom.grade.LOOKING_SECONDS", 0.05)
    workers = LocalWorkers([None])
    tasks = [
        Task(STEM, "before", "harmless", "", ""),
        Task(STEM, "endless", "endless", "", "", Patience(submission=0.5)),
    ]
    found = {r.verdict.student: r.verdict for r in workers.results([*tasks, Task(STEM, "after", "harmless", "", "")])}
    workers.close()
    assert {name: verdict.status for name, verdict in found.items()} == {
        "before": "graded",
        "endless": "flagged",
        "after": "graded",
    }
    assert "took longer than a submission may take" in found["endless"].reason


@pytest.mark.parametrize("count", [1, 3])
def test_a_submission_that_kills_its_worker_costs_only_itself(monkeypatch, tmp_path, count):
    monkeypatch.setattr(work, "do", fake_do)
    monkeypatch.setattr("autograder.classroom.grade.Worker.close", close_without_warm)
    texts = dict.fromkeys(map(str, range(20)), "harmless") | {"3": "deadly", "5": str(tmp_path / "once"), "9": "deadly"}
    workers = LocalWorkers([None] * count)
    found = list(workers.results([Task(STEM, student, text, "", "") for student, text in texts.items()]))
    more = list(workers.results([Task(STEM, "later", "harmless", "", "")]))
    workers.close()
    assert sorted(int(result.verdict.student) for result in found) == list(range(20))
    flagged = {r.verdict.student: r.verdict.reason for r in found if r.verdict.status == "flagged"}
    assert set(flagged) == {"3", "9"}
    assert all("ended again and again" in reason for reason in flagged.values())
    assert [result.verdict.student for result in more] == ["later"]
    pids = {int(result.verdict.reason) for result in [*found, *more] if result.verdict.status == "graded"}
    assert os.getpid() not in pids
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_worker_goes_on_while_its_result_is_saved(monkeypatch):
    monkeypatch.setattr(work, "do", fake_do)
    monkeypatch.setattr("autograder.classroom.grade.Worker.close", close_without_warm)
    begun = []
    monkeypatch.setattr("autograder.classroom.grade.Worker.begin", lambda worker, task: begin(worker, begun, task))
    workers = LocalWorkers([None])
    results = workers.results([Task(STEM, student, "harmless", "", "") for student in ("ada", "bob", "eve")])
    assert (next(results).verdict.student, begun) == ("ada", ["ada", "bob"])
    assert [result.verdict.student for result in results] == ["bob", "eve"]
    workers.close()


def begin(worker, begun, task):
    begun.append(task.student)
    worker.connection.send(task)


def close_without_warm(worker):
    worker.connection.close()
    worker.process.kill()
    worker.process.join()


def test_workers_end_with_their_coordinator(monkeypatch):
    monkeypatch.setattr(work, "do", fake_do)
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def coordinate():
        workers = LocalWorkers([None, None])
        sender.send([worker.process.pid for worker in workers.workers])
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=coordinate)
    process.start()
    pids = receiver.recv()
    process.join()
    deadline = time.monotonic() + 600
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_fault_of_the_grader_flags_the_submission_and_stops_nobody(monkeypatch):
    def broken(*_):
        raise RecursionError("too deep")

    monkeypatch.setattr(work, "rebuild", broken)
    result = work.do(Task(STEM, "ada", "{}", "{}", ""))
    assert result.verdict.status == "flagged"
    assert "RecursionError: too deep" in result.verdict.reason


# --- the command line ------------------------------------------------------------------------------------------------


def run(monkeypatch, capsys, *arguments):
    """The command in this process: (exit code, what it printed, what it complained)."""
    from autograder import cli

    class NoWorkers:
        def __init__(self, jobs):
            pass

        def __enter__(self):
            return Here()

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(cli, "local_workers", NoWorkers)
    monkeypatch.setattr(cli.out, "_file", None)  # "file" would keep this test's captured output for ever
    code = cli.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("said", ["--course here --db there grade", "grade --db there --course here"])
def test_folder_and_gradebook_may_be_said_before_the_command_or_behind_it(said):
    options = parser().parse_args(said.split())
    assert (options.course, options.db) == (Path("here"), "there")


@pytest.mark.parametrize("option", ["--seconds=0", "--seconds=-1", "--budget=0", "--budget=nan", "--jobs=0"])
def test_limits_that_nobody_could_meet_are_refused(option, capsys):
    from autograder import cli

    with pytest.raises(SystemExit):
        cli.parser().parse_args(["grade", option])
    assert option.partition("=")[0] in capsys.readouterr().err


def test_without_a_word_it_is_the_folder_called_class():
    options = parser().parse_args(["grade"])
    assert (options.course.resolve(), options.db) == (Path.cwd() / "class", "")


COMMANDS = ("init", "release", "collect", "grade", "judge", "feedback", "report", "export", "doctor", "sample")


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)], ids="".join)
def test_every_command_explains_itself(command, capsys):
    from autograder import cli

    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "usage: python -m autograder" in said
    assert all(name in said for name in ([] if command else COMMANDS))


@pytest.mark.programs
def test_doctor_names_the_walls(monkeypatch, capsys):
    code, said, _ = run(monkeypatch, capsys, "doctor")
    assert "Landlock" in said
    assert code == (0 if "✓ │ namespaces" in said or "✓ │ Landlock" in said else 1)


ERRORS = {
    "nothing collected": (["grade", STEM], "There are no submissions of 02_masks in"),
    "nothing to grade": (["grade"], "There is nothing to grade."),
    "no scheduler": (
        ["grade", STEM, "--scheduler", "tcp://127.0.0.1:1"],
        "There is no Dask scheduler at tcp://127.0.0.1:1",
    ),
    "no address": (["grade", STEM, "--scheduler", "nonsense"], "There is no Dask scheduler at nonsense"),
}


@pytest.mark.parametrize(("arguments", "sentence"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_are_one_clear_sentence(released, monkeypatch, capsys, arguments, sentence):
    monkeypatch.setattr("autograder.classroom.cluster.CONNECT_SECONDS", 0.5)
    code, _, complaint = run(monkeypatch, capsys, "--course", released.root, *arguments)
    assert code == 1
    assert sentence in complaint
    assert "Traceback" not in complaint


GRADEBOOKS = {
    "no address": ("nonsense", "--db takes the address of a database"),
    "no driver": ("oracle+oracledb://x/y", "driver for this gradebook is not installed"),
    "no server": ("postgresql+psycopg://me:secret@127.0.0.1:1/x", "cannot be opened: "),
    "no folder": ("sqlite:////nowhere/gradebook.db", "cannot be opened: unable to open database file"),
}


@pytest.mark.parametrize(("address", "sentence"), GRADEBOOKS.values(), ids=GRADEBOOKS.keys())
def test_a_gradebook_that_cannot_be_used_is_one_clear_sentence(again, monkeypatch, capsys, address, sentence):
    code, _, complaint = run(monkeypatch, capsys, "--course", again.root, "--db", address, "grade")
    assert code == 1
    assert sentence in complaint.splitlines()[-1]
    assert "Traceback" not in complaint
    assert "secret" not in complaint


def test_a_gradebook_without_the_assignment_is_one_clear_sentence(again):
    with again.gradebook() as gradebook:
        gradebook.remove_assignment(STEM)
    with pytest.raises(CourseError, match="This gradebook does not know 02_masks"):
        grade(again, STEM, Here())


def test_an_unknown_student_is_one_clear_sentence(again, monkeypatch, capsys):
    code, _, complaint = run(monkeypatch, capsys, "--course", again.root, "grade", "--students", "ada", "zoe")
    assert (code, complaint.splitlines()[-1]) == (1, "zoe has handed in nothing.")


def test_a_machine_without_walls_grades_only_if_told(again, monkeypatch, capsys):
    monkeypatch.setattr("autograder.walls.warm.walled_off", lambda: False)
    code, _, complaint = run(monkeypatch, capsys, "--course", again.root, "grade")
    assert code == 1
    assert "no wall around student code" in complaint
    code, said, _ = run(monkeypatch, capsys, "--course", again.root, "grade", "--without-walls")
    assert code == 0
    assert "8 unchanged" in said


def test_the_summary_says_who_was_zeroed_or_flagged_and_what_changed(course, monkeypatch, capsys):
    hand_in(course, "cleo", "{ broken")
    hand_in(course, "d[red]an", None)
    code, said, _ = run(monkeypatch, capsys, "--course", course.root, "grade")
    assert code == 0
    assert "02_masks: 0 graded, 2 zeroed" in said
    assert "  zeroed: d[red]an — No notebook was handed in." in said


def test_ctrl_c_saves_what_is_done_and_the_same_command_goes_on(course):
    quick, endless = solved(), solved(causal_mask="def causal_mask(n):\n    while True: pass")
    hand_in(course, "ada", quick)
    hand_in(course, "zoe", endless)
    command = [sys.executable, "-m", "autograder", "--course", course.root, "grade", STEM, "--seconds", "300"]
    process = subprocess.Popen(
        command, cwd=work.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not course.verdict(STEM, "ada").exists() and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, complaint = process.communicate(timeout=600)
    assert process.returncode == 130, complaint
    assert "1 is left; the same command continues from here." in said
    assert "Traceback" not in complaint
    assert sum(score or 0 for score, *_ in grades(course, "ada").values()) == FULL
    assert not course.verdict(STEM, "zoe").exists()
    hand_in(course, "zoe", quick)
    done = autograder(course, "grade", STEM, "--jobs", "1")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    assert "02_masks: 1 graded, 1 unchanged" in done.stdout
    assert grades(course, "zoe") == grades(course, "ada")


def test_the_sample_class_goes_from_release_to_report(tmp_path):
    course = Course(tmp_path / "class")
    done = autograder(course, "sample")
    assert done.returncode == 0, done.stderr
    assert "22 graded, 2 zeroed" in done.stdout
    assert len(course.released()) == len(build.stems())
    students = course.students("02_masks")
    assert len(students) == 24
    assert all(course.verdict("02_masks", student).exists() for student in students)
    assert all(course.feedback("02_masks", student).exists() for student in students)
    report = (course.root / "report.html").read_text(encoding="utf-8")
    assert "Felix Aumann" in report and "Hannah Keller" in report
    assert [page.name for page in (course.root / "written" / "02_masks").glob("*.html")] == ["why_low_loss.html"]
    assert {path.name for path in (course.root / "export").iterdir()} == {
        *("grades.csv", "exercises.csv", "misconceptions.csv", "canvas.csv", "canvas_02_masks.zip"),
        *("moodle_02_masks.csv", "moodle_02_masks.zip"),
    }
