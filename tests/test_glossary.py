"""The glossary: every term that a notebook links to has an entry, and every entry is readable."""

from __future__ import annotations

import re

import pytest

from autograder.authoring import build
from autograder.authoring.glossary import Glossary, GlossaryError
from autograder.working_copy import is_untouched

SMALL = Glossary('# Glossary\n\nIntro.\n\n## nat\n\nA unit. See {{term bit}}.\n\n## bit\n\nA $1$ or "0".\nMore.\n')


def test_a_term_becomes_a_link_with_its_first_sentence():
    assert SMALL.linked("a {{term nat}}, {{term bit|bits}}") == (
        """a [nat](glossary.ipynb#nat "A unit."), [bits](glossary.ipynb#bit "A 1 or '0'.")"""
    )


def test_capitals_make_no_difference():
    assert SMALL.linked("{{term Nat}}s") == '[Nat](glossary.ipynb#nat "A unit.")s'


def test_a_mark_may_be_broken_into_two_lines():
    assert SMALL.linked("a {{term\nnat|nats}}") == 'a [nats](glossary.ipynb#nat "A unit.")'


def test_entries_are_sorted_and_link_to_each_other():
    assert [cell.source for cell in SMALL.cells()] == [
        "# Glossary\n\nIntro.",
        '## bit\n\nA $1$ or "0".\nMore.',
        "## nat\n\nA unit. See [bit](#bit).",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [("## nat\n\nA.\n\n## Nat\n\nB.\n", "same name"), ("## nat\n\n## bit\n\nB.\n", "nat has no sentence")],
)
def test_mistakes_in_the_glossary_are_named(text, words):
    with pytest.raises(GlossaryError, match=words):
        Glossary(text)


def test_entries_without_a_link_are_known(tmp_path, monkeypatch):
    (tmp_path / "glossary.md").write_text("## nat\n\nA unit.\n\n## bit\n\nA unit, as the {{term nat}} is.\n")
    (tmp_path / "02_masks.py").write_text("# %% [markdown]\n# # Masks\n# {{term nat|nats}}\n")
    monkeypatch.setattr(build, "SOLUTIONS", tmp_path)
    assert build.unlinked_terms() == ["bit"]


def test_an_unknown_term_is_refused(tmp_path, monkeypatch):
    (tmp_path / "glossary.md").write_text("## nat\n\nA unit.\n")
    (tmp_path / "02_masks.py").write_text("# %% [markdown]\n# # Masks\n# {{term entropie}}\n")
    monkeypatch.setattr(build, "SOLUTIONS", tmp_path)
    with pytest.raises(build.SourceError, match=r"02_masks: There is no entry 'entropie' in solutions/glossary\.md"):
        build.solution_notebook("02_masks")


def test_entries_are_short_and_their_links_lead_somewhere():
    glossary = build.glossary()
    for term, body in glossary.entries.items():
        plain = re.sub(r"\$[^$]*\$|`[^`]*`|\d\.\d", "x", body)
        assert len(re.findall(r"[.!?](?=\s|$)", plain)) <= 5, f"{term}: at most four sentences or so"
        assert term not in glossary.used_in(body)
        assert len(glossary.tooltip(term)) < 320, term
        assert "\\" not in glossary.tooltip(term), f"{term}: the first sentence is shown without its formulas drawn"


def test_the_notebook_counts_as_untouched_so_a_newer_one_replaces_it():
    assert is_untouched(build.as_text(build.glossary_notebook()).encode())


def test_every_entry_is_linked_from_a_notebook():
    assert build.unlinked_terms() == []
