"""Hidden cases: drawn from a class's own seed, which stays secret and stays the same."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from grading import STEM, Here, hand_in, solved
from torch import Tensor
from traitlets.config import PyFileConfigLoader

from autograder import cli
from autograder import hidden as hidden_package
from autograder.authoring.release import release
from autograder.classroom import seed as seeds
from autograder.classroom.course import Course, CourseError
from autograder.classroom.grade import grade
from autograder.classroom.seed import ENVIRONMENT, PUBLIC, digest_of, prepare_seed, read_seed, write_seed
from autograder.hidden import Draw, all_hidden, check_hidden, chosen
from autograder.judging.verdict import read_verdict
from benchmarks.hidden import faults
from course_lib.checking.exercise import Property
from course_lib.checking.expect import expect
from course_lib.exercises import all_exercises, exercises_to_build

pytestmark = pytest.mark.xdist_group("hidden")  # one process grades the class

# --- drawing ---------------------------------------------------------------------------------------------------------


def test_the_same_words_draw_the_same_on_every_machine_and_version():
    draw = Draw("a seed", "an exercise")
    assert [draw.integer(1, 100) for _ in range(5)] == GOLDEN_INTEGERS
    assert draw.normal(2, 3).tolist() == GOLDEN_NUMBERS
    assert draw.shuffled("abcdef") == GOLDEN_LETTERS


GOLDEN_INTEGERS = [59, 87, 99, 17, 65]
GOLDEN_NUMBERS = [[0.17, -0.48, -0.61], [-0.12, -0.08, -1.75]]
GOLDEN_LETTERS = list("fabdec")


@pytest.fixture
def draw():
    return Draw("any")


def test_sizes_of_a_case_differ(draw):
    for _ in range(100):
        sizes = draw.sizes((2, 4), (2, 5), (3, 5))
        assert len(set(sizes)) == 3
        assert all(low <= size <= high for size, (low, high) in zip(sizes, [(2, 4), (2, 5), (3, 5)]))


def test_every_row_of_a_mask_has_both(draw):
    mask = draw.mask(4, 5, 2)
    assert mask.any(dim=-1).all() and not mask.all(dim=-1).any()
    assert draw.mask(7).shape == (7,)


def test_lengths_have_the_longest_and_a_shorter_one(draw):
    for _ in range(50):
        lengths = draw.lengths(4, 6)
        assert lengths.max() == 6 and 1 <= lengths.min() < 6


def test_normal_numbers(draw):
    numbers = draw.normal(40, 50, scale=2)
    assert numbers.dtype == torch.float64 and torch.equal(numbers, (100 * numbers).round() / 100)
    assert abs(numbers.mean()) < 0.2 and abs(numbers.std() - 2) < 0.2
    assert draw.normal(2, dtype=torch.float32).dtype == torch.float32


def test_ids_leave_out_what_they_should(draw):
    assert set(draw.ids(30, 10, vocab=5, without=[0, 3]).flatten().tolist()) == {1, 2, 4}


# --- cases -----------------------------------------------------------------------------------------------------------


def written(value):
    """Everything in a case, as text."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, dict):
        return {name: written(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    return written(vars(value)) if hasattr(value, "__dataclass_fields__") else repr(value)


@pytest.mark.parametrize("name", all_exercises())
def test_other_classes_have_other_cases_and_one_class_always_the_same(name):
    hidden = all_hidden()[name]
    first = str(written(hidden.make(Draw("one class", name))))
    assert str(written(hidden.make(Draw("one class", name)))) == first
    assert str(written(hidden.make(Draw("another class", name)))) != first


@pytest.mark.parametrize("name", exercises_to_build())
def test_hidden_cases_have_the_arguments_of_the_visible_ones(name):
    (arguments,) = {tuple(case) for case in all_exercises()[name].cases}
    assert {tuple(case) for case in all_hidden()[name].cases(PUBLIC)} == {arguments}


def squares(n):
    return n * n


def adds_two(n):
    return n + 2


def is_twice_as_much(subject, case):
    expect(case["n"] > 0 and subject(case["n"]) == 2 * case["n"], "It is not twice as much.")


DOUBLING = SimpleNamespace(
    name="double",
    reference=lambda n: 2 * n,
    alternatives=[lambda n: n + n],
    misconceptions=[squares, adds_two],
    properties=[Property("it is twice as much", 1.0, is_twice_as_much)],
)


def test_unfair_cases_are_left_out_and_more_are_drawn_until_each_mistake_shows():
    draws = [[{"n": -1}, {"n": 2}], [{"n": 2}, {"n": -3}], [{"n": 2}, {"n": 5}], [{"n": 7}]]
    assert chosen(DOUBLING, draws) == [{"n": 2}, {"n": 5}]
    with pytest.raises(RuntimeError, match="No hidden case of double shows squares"):
        chosen(DOUBLING, draws[:2])


def test_a_fault_of_hidden_cases_is_found():
    hidden = all_hidden()["causal_mask"]
    assert list(faults(hidden, "any")) == []
    too_easy = replace(hidden, exercise=all_exercises()["window_mask"], make=lambda draw: [])
    object.__setattr__(too_easy, "cases", lambda seed: [{"n": 1, "radius": 0}])
    assert any(fault.endswith("gets through") for fault in faults(too_easy, "any"))


def test_a_wrong_answer_is_told_nothing_of_the_case():
    report = check_hidden("squared_distances", lambda a, b: torch.cdist(a, b), PUBLIC)
    assert report.points == 0
    assert not re.search(r"input|shape|tensor|\d\.\d\d", report.checks[0].message)


def test_cases_of_an_exercise_that_is_gone_are_named(monkeypatch):
    assert "window_mask" in all_hidden()
    monkeypatch.delattr(sys.modules["course_lib.exercises.masks"], "window_mask")
    monkeypatch.delitem(sys.modules, "autograder.hidden.masks")
    monkeypatch.setattr(hidden_package, "HIDDEN", {})
    words = (
        "hidden/masks.py makes cases for window_mask, but course_lib/exercises/masks/__init__.py has no such exercise"
    )
    with pytest.raises(CourseError, match=words):
        hidden_package.import_cases("masks")


# --- the seed of a class ---------------------------------------------------------------------------------------------


def test_a_seed_is_secret_long_and_kept(tmp_path):
    first = prepare_seed(tmp_path)
    assert len(first) == 32 and first != prepare_seed_of_another(tmp_path)
    assert prepare_seed(tmp_path) == first == read_seed(tmp_path / "hidden_seed")
    assert stat.S_IMODE((tmp_path / "hidden_seed").stat().st_mode) == 0o600


def prepare_seed_of_another(tmp_path):
    (tmp_path / "another").mkdir()
    return prepare_seed(tmp_path / "another")


def test_a_new_seed_is_made_only_if_told_so_and_the_old_one_is_kept(tmp_path):
    first = prepare_seed(tmp_path)
    second = prepare_seed(tmp_path, new=True)
    assert second != first == read_seed(tmp_path / "hidden_seed.1")
    prepare_seed(tmp_path, new=True)
    assert read_seed(tmp_path / "hidden_seed.1") == first and read_seed(tmp_path / "hidden_seed.2") == second


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe\x00"])
def test_a_seed_that_is_none_is_refused_with_a_sentence(tmp_path, content):
    (tmp_path / "hidden_seed").write_bytes(content)
    with pytest.raises(CourseError, match=r"hidden_seed.*(is empty|cannot be read)"):
        prepare_seed(tmp_path)


def test_a_digest_tells_seeds_apart_and_nothing_else():
    assert digest_of("a") != digest_of("b")
    assert len(digest_of("a")) == 12


# --- a process that plain nbgrader has started -----------------------------------------------------------------------


def test_without_a_class_the_seed_is_the_public_one(monkeypatch):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert seeds.seed_of_this_process() == PUBLIC


def test_nbgraders_configuration_tells_kernels_where_the_seed_of_their_class_is(graded, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "somewhere else")
    assert graded.config() and os.environ[ENVIRONMENT] == "somewhere else"
    PyFileConfigLoader("nbgrader_config.py", path=str(graded.root)).load_config()  # as nbgrader's own commands do
    assert seeds.seed_of_this_process() == graded.hidden_seed() != PUBLIC
    assert check_hidden("causal_mask", all_exercises()["causal_mask"].reference).passed


def test_a_kernel_of_a_class_without_its_seed_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "hidden_seed"))
    with pytest.raises(CourseError, match="hidden_seed is missing"):
        check_hidden("causal_mask", all_exercises()["causal_mask"].reference)


# --- a class from release to regrading -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class of one. Copy it before you change it."""
    course = Course(tmp_path_factory.mktemp("class") / "course")
    release(course, [STEM])
    hand_in(course, "ada", solved(causal_mask="def causal_mask(n):\n    return torch.ones(n, n).bool()"))
    assert grade(course, STEM, Here()).graded[0].status == "graded"
    return course


@pytest.fixture
def again(graded, tmp_path):
    shutil.copytree(graded.root, tmp_path / "course")
    return Course(tmp_path / "course")


def test_the_seed_is_in_no_other_file_of_the_class(graded):
    secret = graded.hidden_seed().encode()
    found = [path.name for path in graded.root.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert found == ["hidden_seed"]
    assert (graded.root / ".gitignore").read_text() == "hidden_seed*\n"


def test_a_verdict_says_with_which_seed(graded):
    assert read_verdict(graded.verdict(STEM, "ada")).hidden_seed == digest_of(graded.hidden_seed())


def test_another_seed_is_a_reason_to_grade_again(again):
    workers = Here()
    assert grade(again, STEM, workers).unchanged == ["ada"]
    write_seed(again.root / "hidden_seed", "another")
    summary = grade(again, STEM, workers)
    assert workers.asked == ["ada"] and summary.changes == []
    assert read_verdict(again.verdict(STEM, "ada")).hidden_seed == digest_of("another")


def test_nothing_is_graded_or_released_without_the_seed_of_before(again):
    (again.root / "hidden_seed").unlink()
    with pytest.raises(CourseError, match=r"hidden_seed is missing.*backup.*--new-seed"):
        grade(again, STEM, Here())
    with pytest.raises(CourseError, match=r"hidden_seed is missing.*backup.*--new-seed"):
        release(again, [STEM])
    assert not (again.root / "hidden_seed").exists()
    assert cli.main(["release", STEM, "--new-seed", "--course", str(again.root)]) == 0
    assert again.hidden_seed()


def test_what_was_released_without_a_seed_gets_one_as_long_as_nothing_is_graded(again):
    """nbgrader's own `generate_assignment`, and formgrader's button for it, know nothing of seeds."""
    (again.root / "hidden_seed").unlink()
    shutil.rmtree(again.root / "autograded")
    with pytest.raises(CourseError, match=r"hidden_seed is missing.*Run: .*python -m autograder release"):
        grade(again, STEM, Here())
    assert prepare_seed(again.root)
