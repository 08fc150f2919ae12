"""What checks and progress show in a notebook can be read in JupyterLab's light and dark theme, and be heard."""

from __future__ import annotations

import pytest
import torch
from lab import browser_page, find_chromium, wcag_problems

from course_lib import progress
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

CHROMIUM = find_chromium()
# The page's and the text's colour in JupyterLab.
THEMES = {"light": ("#ffffff", "rgba(0, 0, 0, 0.87)"), "dark": ("#111111", "rgba(255, 255, 255, 0.87)")}


def shown() -> str:
    mask = all_exercises()["causal_mask"]
    wrong, right = (grade(mask, Subject(lambda n, k=k: torch.ones(n, n).tril(k).bool())) for k in (1, 0))
    return wrong.as_html() + right.as_html() + progress()._repr_html_()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_reports_and_progress_meet_wcag_aa_in_light_and_dark(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    body = shown()
    assert 'aria-label="failed"' in body and 'aria-label="passed"' in body and 'aria-label="not begun"' in body
    with browser_page(CHROMIUM) as (page, elsewhere):
        for theme, (ground, text) in THEMES.items():
            page.set_content(
                f'<html lang="en"><title>{theme}</title><body style="background:{ground};color:{text}"><main><h1>'
                f"{theme}</h1>{body}</main></body></html>"
            )
            page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
            assert wcag_problems(page) == [], theme
        assert elsewhere == []
