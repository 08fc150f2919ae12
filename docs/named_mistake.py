"""Takes the README's picture: `python docs/named_mistake.py` answers an exercise wrongly in JupyterLab and looks."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from lab import browser_page, find_chromium, jupyterlab, open_notebook  # noqa: E402
from release import released_notebook  # noqa: E402
from test_notebooks import WRONG, cell_with, run, write  # noqa: E402


def main() -> None:
    chromium = find_chromium()
    if chromium is None:
        sys.exit("This needs Chromium.")
    folder, home = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    notebook = released_notebook("02_masks")
    ids = ("setup_02_masks", "causal_mask", "causal_mask_check")
    notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") in ids]
    nbformat.write(notebook, folder / "masks.ipynb")
    with jupyterlab(folder, home) as address, browser_page(chromium) as (page, _):
        page.set_viewport_size({"width": 1200, "height": 1200})  # all of it in view
        open_notebook(page, address, "masks.ipynb")
        run(page, cell_with(page, "use_course_style()"))
        answer, check = cell_with(page, "def causal_mask("), cell_with(page, 'check("causal_mask", causal_mask)')
        write(page, answer, WRONG)
        run(page, answer)
        run(page, check)
        check.locator(".course-report").wait_for()
        top, bottom = answer.bounding_box(), check.bounding_box()
        assert top and bottom
        height = bottom["y"] + bottom["height"] - top["y"]
        clip = {"x": top["x"], "y": top["y"], "width": top["width"], "height": height}
        page.screenshot(path=ROOT / "docs/named_mistake.png", clip=clip)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
