"""The tables of what the course's source articles say: no row is lost, and what a row names is there."""

from __future__ import annotations

import re

import pytest

from autograder.authoring import build, coverage
from autograder.authoring.coverage import CoverageError, Row, find_section, read_rows, shown_exercise, taught_in

DOCS = build.ROOT / "docs"
IDEAS, ERRATA = read_rows(DOCS / "coverage.toml"), read_rows(DOCS / "errata.toml")
STEMS = build.stems()
every_row = pytest.mark.parametrize("rows", [IDEAS, ERRATA], ids=["ideas", "errata"])


def test_every_idea_and_every_mistake_has_one_row():
    assert [row.id for row in IDEAS] == [f"C{number:03}" for number in range(1, 235)]
    assert [row.id for row in ERRATA] == [f"E{number:03}" for number in range(1, 137)]


def test_the_pages_have_each_of_them_once():
    for name, letter, number in (("coverage.md", "C", 234), ("errata.md", "E", 136)):
        text = (DOCS / name).read_text(encoding="utf-8")
        found = re.findall(rf"^\| ({letter}\d+) \|", text, re.MULTILINE)
        assert sorted(found) == [f"{letter}{i:03}" for i in range(1, number + 1)]


@every_row
def test_rows_say_what_they_are_about(rows):
    for row in rows:
        assert row.articles and set(row.articles) <= set(coverage.ARTICLES), row.id
        assert bool(row.idea) != bool(row.says), row.id
        assert row.reason or (row.taught and (row.idea or row.right)), row.id
        assert "|" not in row.idea + row.says + row.right + row.reason, f"{row.id}: a | ends the cell of a table"


@every_row
def test_what_rows_name_is_there(rows):
    missing = []
    for row in rows:
        for find, names in ((find_section, row.taught), (shown_exercise, row.exercises)):
            for name in names:
                try:
                    find(name)
                except CoverageError as error:
                    missing.append(f"{row.id}: {error}")
    assert not missing, "\n".join(missing)


@every_row
def test_nothing_is_named_twice(rows):
    for row in rows:
        assert len(set(row.taught)) == len(row.taught), row.id
        assert len(set(row.exercises)) == len(row.exercises), row.id


def test_links_lead_to_headings_of_notebooks():
    text = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("coverage.md", "errata.md"))
    links = set(re.findall(r"\(\.\./notebooks/(\w+)\.ipynb#([^)]*)\)", text))
    known = {(stem, coverage.anchor(section.heading)) for stem in STEMS for section in coverage.sections(stem).values()}
    assert len(links) > 100 and links <= known
    assert all((build.NOTEBOOKS / f"{stem}.ipynb").exists() for stem in STEMS)


def test_headings_are_found_as_the_reader_sees_them():
    assert find_section("02 Padding").heading == "1 · Padding"
    assert find_section("05 Post-norm: as in the paper").heading == "Post-norm: as in the paper"
    assert find_section("02 Padding").link == "[2: Padding](../notebooks/02_masks.ipynb#1-%C2%B7-Padding)"


def test_answers_are_no_headings():
    for stem in STEMS:
        assert not {"BEGIN SOLUTION", "END SOLUTION"} & set(coverage.sections(stem))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Row("C001", [1], "an idea"), "row C001: it has neither a section nor a reason"),
        (Row("C002", [1], "an idea", taught=["99 Padding"]), "row C002: there is no notebook 99"),
        (Row("C003", [1], "an idea", taught=["02 Paddin"]), "row C003: solutions/02_masks.py has no heading 'Paddin'"),
        (Row("C004", [1], "an idea", reason="-", exercises=["mask"]), "row C004: there is no exercise 'mask'"),
        (
            Row("C005", [1], "an idea", reason="-", exercises=["causal_mask/slip"]),
            "row C005: the exercise causal_mask has no misconception 'slip'",
        ),
    ],
)
def test_a_row_that_names_nothing_is_refused(row, message):
    columns = {"taught in": taught_in, "exercises": coverage.with_exercises}
    with pytest.raises(CoverageError, match=re.escape(message)):
        coverage.line(row, columns)


def test_all_rows_that_name_nothing_are_told_at_once(tmp_path):
    rows = "\n".join(f'[C00{i}]\narticles = [1]\nidea = "-"\nreason = "-"\nexercises = ["gone{i}"]' for i in (1, 2))
    (tmp_path / "coverage.toml").write_text(rows)
    with pytest.raises(CoverageError) as raised:
        coverage.ideas_page(tmp_path / "coverage.toml")
    assert str(raised.value).splitlines() == [
        f"docs/coverage.toml, row C00{i}: there is no exercise 'gone{i}'." for i in (1, 2)
    ]


def test_a_reason_stands_behind_the_sections():
    row = Row("E001", [1], says="a slip", taught=["02 Padding"], reason="Not all of it.")
    assert taught_in(row).endswith("Padding). Not all of it.")
