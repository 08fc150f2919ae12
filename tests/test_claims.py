"""Claims: what the text says of an output is checked where the solved notebook is executed, and nowhere else."""

from __future__ import annotations

import pytest
import torch
from course import with_claims

from autograder import build, claims
from autograder.claims import ClaimFailed, claim

WITHOUT = """\
# %% [markdown]
# # 2 · Masks

# %%
loss = 0.25

# %% [markdown]
# The loss is small.
"""
WITH = WITHOUT.replace("loss = 0.25\n", 'loss = 0.25\n\n# %% claims\nclaim("the loss is small", loss < 0.1)\n')


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "SOLUTIONS", tmp_path)
    return tmp_path / "02_masks.py"


def test_what_holds_is_passed_over():
    for holds in (True, 1 < 2, torch.tensor(3.0) > 2, torch.tensor(3.0).double().numpy() > 2):
        assert claim("it holds", holds) is None


@pytest.mark.parametrize("holds", [False, torch.tensor(1.0) > 2])
def test_what_does_not_hold_is_said_in_the_texts_own_words(holds):
    with pytest.raises(ClaimFailed, match="RoPE is worst"):
        claim("RoPE is worst", holds)


@pytest.mark.parametrize("holds", [0.3, 1, "yes", None, torch.tensor(0.3)])
def test_what_is_no_comparison_is_refused(holds):
    with pytest.raises(TypeError, match="a yes or no"):
        claim("RoPE is worst", holds)


def test_claims_are_in_nothing_that_a_student_gets(source):
    """Releases, submissions that are rebuilt, and notebooks/ are all made from this one."""
    source.write_text(WITHOUT)
    without = build.as_text(build.solution_notebook("02_masks"))
    source.write_text(WITH)
    assert build.as_text(build.solution_notebook("02_masks")) == without
    assert "claim(" in build.as_text(build.solution_notebook("02_masks", claims=True))


def test_claims_are_put_behind_the_cell_they_speak_of(source):
    source.write_text(WITH)
    cells = with_claims(build.solution_notebook("02_masks").cells, "02_masks")
    assert [cell.source for cell in cells] == [
        cell.source for cell in build.solution_notebook("02_masks", claims=True).cells
    ]


def test_a_false_claim_fails_the_executed_notebook_with_its_sentence(source, capsys):
    source.write_text(WITH)
    assert claims.main(["02_masks"]) == 1
    assert "02_masks: ClaimFailed: The text says" in (said := capsys.readouterr().err) and "the loss is small" in said
    source.write_text(WITH.replace("0.25", "0.05"))
    assert claims.main([]) == 0
    assert "02_masks: every claim holds" in capsys.readouterr().out
