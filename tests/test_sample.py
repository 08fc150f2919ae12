"""The sample class is what it says: its answers stand alone, and behave as listed."""

from __future__ import annotations

import filecmp
import json
import os
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from release import released_text

from autograder.authoring import build
from autograder.classroom.answers import grade_id_of, setup_source, standing_alone
from autograder.classroom.collect import collect
from autograder.classroom.course import Course, CourseError
from autograder.classroom.sample import CLASS, NOTHING, RIGHT, crowd, disguised, sample_class, sample_due_date
from autograder.reporting.shown import known_fragments
from autograder.reporting.similar import similar_groups
from course_lib.checking.grading import grade, refusal
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

STEMS = build.stems()
NOT_CALLED = {"crashes", "endless_when_called", "endless_in_a_cell"}  # not in the process of the tests


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    """A course in which every assignment is released."""
    course = Course(tmp_path_factory.mktemp("course"))
    for stem in STEMS:
        for path, text in [
            (course.source(stem), build.as_text(build.solution_notebook(stem))),
            (course.release(stem), released_text(stem)),
        ]:
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
    return course


@pytest.fixture(scope="module")
def masks(course, tmp_path_factory):
    """The class on 02_masks, by kind, and its folder."""
    folder = tmp_path_factory.mktemp("download")
    return {student.kind: student for student in sample_class(course, "02_masks", folder)}, folder


def namespace(notebook) -> dict:
    names = {"__name__": "__main__"}
    exec(setup_source(notebook), names)
    return names


def report_on(name: str, text: str, names: dict):
    """The report on an answer that is run beside nothing but the set-up cell."""
    names = dict(names)
    exec(compile(text, f"<{name}>", "exec"), names)
    exercise = all_exercises()[name]
    return refusal(exercise, names[name]) or grade(exercise, Subject(names[name]))


def handed_in(student, folder: Path):
    return nbformat.read(folder / student.file, as_version=4)


def answers_in(notebook) -> dict[str, str]:
    return {grade_id_of(cell): cell.source for cell in notebook.cells if grade_id_of(cell) in all_exercises()}


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
def test_misconceptions_and_alternatives_stand_alone_and_behave_as_listed(course, stem):
    notebook = nbformat.read(course.release(stem), as_version=4)
    names = namespace(notebook)
    exercises = [e for e in all_exercises().values() if f"_{e.topic}" == stem[2:]]
    assert exercises
    for exercise in exercises:
        wrong = standing_alone(exercise, exercise.misconceptions, notebook)
        right = standing_alone(exercise, exercise.alternatives, notebook)
        assert len(wrong) >= 3 and len(right) >= 2, exercise.name
        for mistake, text in list(wrong.items())[:3]:
            report = report_on(exercise.name, text, names)
            is_a_common_cause = report.outcome == "raised" and "A common cause of this error" in str(report)
            assert report.misconception == mistake or is_a_common_cause, (exercise.name, mistake)
        for alternative, text in list(right.items())[:2]:
            assert report_on(exercise.name, text, names).passed, (exercise.name, alternative)


@pytest.mark.parametrize("stem", STEMS)
def test_no_answer_gives_itself_away(course, stem):
    """No docstring of a misconception, no decorator, nothing of the checks in what a student hands in."""
    notebook = nbformat.read(course.release(stem), as_version=4)
    for exercise in (e for e in all_exercises().values() if f"_{e.topic}" == stem[2:]):
        for program in exercise.misconceptions:
            for text in standing_alone(exercise, [program], notebook).values():
                assert program.__doc__.strip() not in text
                assert f"@{exercise.name}" not in text and ".misconception" not in text
                assert "course_lib.exercises" not in text and "course_lib.checking" not in text
                assert program.__name__ not in text or program.__name__ == exercise.name


# --- the class --------------------------------------------------------------------------------------------


def test_there_are_24_different_people(masks):
    students, _ = masks
    assert len(CLASS) == len(students) == 24
    assert len({student.id for student in students.values()}) == 24
    assert all(student.id.isascii() and student.id.isidentifier() for student in students.values())
    assert all(student.says.endswith(".") for student in students.values())


def test_every_answer_is_as_expected(masks):
    students, folder = masks
    names = None
    for kind, student in students.items():
        if kind in NOT_CALLED or student.status != "graded" or kind == "lost_the_metadata":
            continue
        notebook = handed_in(student, folder)
        names = names or namespace(notebook)
        helper = next((cell.source for cell in notebook.cells if cell.get("id") == "helper"), "")
        for name, text in answers_in(notebook).items():
            expected = student.expected[name]
            if kind in ("syntax_error", "imports_the_reference") and expected == NOTHING:
                continue
            report = report_on(name, f"{helper}\n\n{text}", names)
            if expected == RIGHT:
                assert report.passed, (kind, name, report)
            elif expected == NOTHING:
                assert report.points == 0, (kind, name, report)
            else:
                assert report.misconception == expected and not report.passed, (kind, name, report)


def test_some_misconceptions_are_shared(masks):
    students, _ = masks
    held = Counter(pair for student in students.values() for pair in student.expected.items())
    shared = [pair for pair, count in held.items() if pair[1] not in (RIGHT, NOTHING) and count >= 2]
    assert len(shared) >= 3
    assert max(held[pair] for pair in shared) >= 4


def test_those_that_must_not_run_here_say_so(masks):
    students, folder = masks
    for kind, sign in {"crashes": "ctypes", "endless_when_called": "while True", "endless_in_a_cell": "while"}.items():
        notebook = handed_in(students[kind], folder)
        (broken,) = [name for name, expected in students[kind].expected.items() if expected != RIGHT]
        assert sign in answers_in(notebook)[broken] and students[kind].expected[broken] == NOTHING


def test_syntax_error_is_one(masks):
    students, folder = masks
    texts = answers_in(handed_in(students["syntax_error"], folder))
    (broken,) = [name for name, expected in students["syntax_error"].expected.items() if expected == NOTHING]
    with pytest.raises(SyntaxError):
        compile(texts[broken], "answer", "exec")


def test_the_pair_is_nearly_identical(masks):
    students, folder = masks
    lent, borrowed = (answers_in(handed_in(students[k], folder)) for k in ("lent_her_notebook", "borrowed_a_notebook"))
    assert students["lent_her_notebook"].expected == students["borrowed_a_notebook"].expected
    assert all(lent[name] != borrowed[name] for name in lent)


def test_disguise_changes_names_and_layout_only():
    text = "def f(x):\n    total = x + 1  # one more\n    def g(total_2): return total * total_2\n    return g(total)\n"
    names: dict = {}
    exec(disguised(text), names)
    assert names["f"](2) == 9
    assert "total_ = x + 1" in disguised(text) and "one more" not in disguised(text)


def test_files_that_something_has_happened_to(masks):
    students, folder = masks
    with pytest.raises(json.JSONDecodeError):
        json.loads((folder / students["broken_json"].file).read_text(encoding="utf-8"))
    assert not list((folder / students["no_notebook"].id).glob("*.ipynb"))
    assert "02_masks" not in students["renamed_file"].file
    colab = json.loads((folder / students["through_colab"].file).read_text(encoding="utf-8"))
    assert "colab" in colab["metadata"] and not any("id" in cell for cell in colab["cells"])
    assert any("nbgrader" in cell["metadata"] for cell in colab["cells"])
    lost = json.loads((folder / students["lost_the_metadata"].file).read_text(encoding="utf-8"))
    assert not any("nbgrader" in cell["metadata"] for cell in lost["cells"])
    double = [grade_id_of(cell) for cell in handed_in(students["duplicated_a_cell"], folder).cells]
    assert [name for name, count in Counter(filter(None, double)).items() if count == 2]


def test_all_but_the_broken_ones_are_valid_notebooks(masks):
    students, folder = masks
    for student in students.values():
        if student.kind not in ("broken_json", "no_notebook", "lost_the_metadata", "through_colab"):
            nbformat.validate(handed_in(student, folder))


def test_dates(masks):
    students, folder = masks
    due = sample_due_date("02_masks")
    assert sample_due_date("03_positions") > due
    for student in students.values():
        assert os.stat(folder / student.file).st_mtime == student.submitted.timestamp()
        assert (student.submitted > due) == (student.kind == "late")
    assert (students["late"].submitted - due).days == 2


def test_the_same_every_time(course, masks, tmp_path):
    students, folder = masks
    again = sample_class(course, "02_masks", tmp_path)
    assert again == list(students.values())
    files = [student.file for student in again]
    assert filecmp.cmpfiles(folder, tmp_path, files, shallow=False) == (files, [], [])


@pytest.mark.parametrize("stem", STEMS)
def test_every_assignment_has_a_class(course, stem, tmp_path):
    students = sample_class(course, stem, tmp_path)
    assert len(students) == 24
    assert all((tmp_path / student.file).exists() for student in students)
    mistakes = {mistake for student in students for mistake in student.expected.values()} - {RIGHT, NOTHING}
    assert len(mistakes) >= 5
    whole = [s for s in students if s.status == "graded" and s.kind != "lost_the_metadata"]
    answers = {student.kind: answers_in(handed_in(student, tmp_path)) for student in whole}
    release = nbformat.read(course.release(stem), as_version=4)
    groups = similar_groups(answers, known_fragments(course, stem, release.cells))
    # Several share right answers of the course's, and several its misconceptions: that says nothing.
    assert [group.students for group in groups] == [("borrowed_a_notebook", "lent_her_notebook")]


def test_the_download_is_taken_as_it_is(course, masks):
    """`collect` finds everybody and every assignment, except the student who handed in no notebook."""
    students, folder = masks
    collected = collect(course, folder)
    assert {placed.assignment for placed in collected.placed} == {"02_masks"}
    handed_in = {student.id for student in students.values() if student.status is not None}
    assert {placed.student for placed in collected.placed} == handed_in
    assert {unplaced.path for unplaced in collected.unplaced} >= {students["no_notebook"].file}


def test_unreleased_assignment_says_what_to_do(tmp_path):
    with pytest.raises(CourseError, match="autograder release"):
        sample_class(Course(tmp_path), "02_masks", tmp_path)


# --- the crowd --------------------------------------------------------------------------------------------


def test_no_two_of_a_crowd_are_alike(course, tmp_path):
    students = crowd(course, "02_masks", 60, tmp_path)
    texts = {tuple(answers_in(handed_in(student, tmp_path)).values()) for student in students}
    assert len(texts) == len(students) == 60
    outcomes = Counter(expected == RIGHT for student in students for expected in student.expected.values())
    assert outcomes[True] > 100 and outcomes[False] > 100


def test_a_crowd_is_as_expected(course, tmp_path):
    names = None
    for student in crowd(course, "00_start_here", 8, tmp_path):
        notebook = handed_in(student, tmp_path)
        names = names or namespace(notebook)
        for name, text in answers_in(notebook).items():
            report = report_on(name, text, names)
            if report.outcome == "raised" and report.misconception is None:
                continue  # a misconception that does nothing but raise: an error alone is not named
            assert (RIGHT if report.passed else report.misconception) == student.expected[name]


def test_a_crowd_has_an_end(course, tmp_path):
    with pytest.raises(CourseError, match="too many"):
        crowd(course, "00_start_here", 10**9, tmp_path)
