"""Claims: what the text says about an output is checked where the solved notebook is executed, and nowhere else."""

from __future__ import annotations

import shutil

import pytest
import torch
from course import with_claims

from autograder.authoring import build, claims
from autograder.authoring.claims import ClaimFailed, claim

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
    with pytest.raises(TypeError, match="True or False"):
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


# --- whole runs -----------------------------------------------------------------------------------------------------

# What follows `if not FAST` is executed here and by no other test.
CUT_SHORT = """\
# %% [markdown]
# # 2 · Masks

# %%
import os

from course_lib import masks

FAST = os.environ.get("COURSE_FAST") == "1"
loss = 0.25

# %% claims
if not FAST:
    claim("the loss is small", loss < 0.1 and all(x > 0 for x in [loss]))
claim("something is measured", loss > 0)
"""


def test_the_record_of_whole_runs_is_up_to_date_and_all_its_claims_hold():
    assert claims.problems() == []


def test_a_whole_run_keeps_what_held_and_what_failed(source, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_FAST", "1")  # of no effect
    source.write_text(CUT_SHORT)
    assert claims.problems() == ["02_masks has changed since its claims were last proved. Run `make claims`."]
    assert claims.main(["--check"]) == 1
    assert claims.main([]) == 1
    assert "the loss is small" in capsys.readouterr().out
    assert claims.out_of_date() == []
    assert claims.read_record()["02_masks"]["claims"] == [
        {"claim": "the loss is small", "holds": False, "measured": {"loss": 0.25}},
        {"claim": "something is measured", "holds": True, "measured": {"loss": 0.25}},
    ]
    (problem,) = claims.problems()
    assert "the loss is small {'loss': 0.25}" in problem
    source.write_text(CUT_SHORT.replace("0.25", "0.05"))
    assert claims.main([]) == 0
    assert "02_masks … every claim holds" in capsys.readouterr().out
    assert claims.problems() == [] and claims.main(["--check"]) == 0


def test_a_notebook_that_the_tests_execute_whole_needs_no_record(source, capsys):
    source.write_text(WITH)
    assert claims.out_of_date() == []
    source.write_text(WITH.replace("claim(", "raise ValueError("))
    assert claims.main(["02_masks"]) == 1
    assert "ValueError" in capsys.readouterr().out
    assert not claims.record_path().exists()


def test_words_make_no_proof_stale_but_code_modules_and_data_do(source, monkeypatch, tmp_path):
    library = tmp_path / "course_lib"
    shutil.copytree(claims.LIBRARY, library, ignore=shutil.ignore_patterns("checking", "exercises", "interactive"))
    monkeypatch.setattr(claims, "LIBRARY", library)
    text = CUT_SHORT.replace("import masks", "import translation")
    source.write_text(text)
    before = claims.digest_of("02_masks")

    def changed(path, old, new):
        was = path.read_bytes()
        assert old in was
        path.write_bytes(was.replace(old, new, 1))
        try:
            return claims.digest_of("02_masks") != before
        finally:
            path.write_bytes(was)

    assert not changed(source, b"# # 2", b"# Another word\n# # 2")
    assert not changed(source, b"loss = 0.25\n", b"# a comment\nloss = 0.25  # and another\n")
    assert not changed(library / "training.py", b'"""', b'"""Another word. ')
    assert not changed(library / "plotting.py", b"\nfrom torch import Tensor", b"\nx = 1\nfrom torch import Tensor")
    assert not changed(library / "decoding.py", b"give equally many", b"give the same number")  # in an error's message
    assert not changed(
        library / "masks.py", b"\n# --- masks at work", b"\ndef new_mask(n):\n    return n\n\n\n# --- masks at work"
    )
    assert not changed(library / "masks.py", b"distance <= radius", b"distance < radius")  # no translator has a window
    assert changed(library / "masks.py", b"torch.tril(everything, diagonal=0)", b"torch.tril(everything, diagonal=1)")
    assert changed(source, b"0.25", b"0.26")
    assert changed(library / "translation.py", b"LONGEST_ANSWER = 40", b"LONGEST_ANSWER = 41")
    assert changed(
        library / "sublayers.py", b"\nfrom torch import Tensor", b"\nx = 1\nfrom torch import Tensor"
    )  # by way of others
    assert changed(library / "translator.pt", b"PK", b"PQ")
    assert not changed(library / "pronouncer.pt", b"PK", b"PQ")


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ('print(f"{loss:.2f} bits é", "in all")', "print('loss:.2f', '')"),
        ('ax.set(title="Loss", xlabel="step")', "ax.set(title='', xlabel=\"step\")"),
        ('raise ValueError(\n    f"{n} words: "\n    "too many"\n)', "raise ValueError(\n    'n'\n)"),
        ('print(sample("greedy"))', 'print(sample("greedy"))'),
        ('x = f"{loss} bits"', 'x = f"{loss} bits"'),
    ],
)
def test_only_words_that_no_code_reads_are_left_out(code, left):
    assert claims.without_shown_texts(code) == left


@pytest.mark.parametrize(
    ("condition", "measured"),
    [
        ("a < 0.1", "{'a': a}"),
        ("not a < 2 * b < f(0)", "{'a': a, '2 * b': 2 * b, 'f(0)': f(0)}"),
        ("a > 1 and 3 > b", "{'a': a, 'b': b}"),
        ("all([x > 0 for x in a])", "{}"),
    ],
)
def test_what_a_claim_compares_is_measured(condition, measured):
    assert claims.with_measurements(f'claim("so", {condition})').endswith(f"claim('so', {condition}, {measured})")


def test_measured_values_are_kept_short_and_plain():
    assert [claims.plain(x) for x in (0.123456, torch.tensor(2.0), True, 7, [1, 2])] == [0.1235, 2.0, True, 7, "[1, 2]"]
    assert len(claims.plain("long " * 100)) == 80
