"""The website: pages are written into a scratch folder, and Sphinx makes the site of them."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from autograder.authoring.bootstrap import course_settings
from autograder.authoring.build import course_map, glossary_notebook, stems
from autograder.authoring.coverage import pages as coverage_pages
from autograder.working_copy import ROOT
from book import references
from book.atlas import Atlas
from book.atlas_pages import atlas_pages
from book.executed import Outputs
from book.pages import FIGURES, Page, page_address, with_book_links
from course_lib.exercises import all_exercises

STATIC = Path(__file__).parent / "static"
TITLE = "Build the Transformer yourself"
ARROW = "Show or hide the pages of this part"
DOCS_LINK = re.compile(r"\]\(\.\./notebooks/(\w+)\.ipynb#([^)]+)\)")


class BookError(Exception):
    """A book that cannot be made. The message says why."""


@dataclass(frozen=True)
class Edition:
    """What a book holds."""

    with_solutions: bool = False
    is_whole: bool = False  # executed with the full trainings
    passed: frozenset[str] = frozenset()  # a student's edition: exercises whose atlas pages are in it

    @property
    def in_atlas(self) -> list[str]:
        """The exercises that have a page in the atlas."""
        return [name for name in all_exercises() if self.with_solutions or name in self.passed]


def build_site(edition: Edition, outputs: Mapping[str, Outputs], target: Path) -> None:
    """Write the site into `target`, in the place of an older one. `outputs`: of the notebooks that were executed."""
    require_own_folder(target)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        source.mkdir()
        extra = Path(scratch, "extra")
        (extra / FIGURES).mkdir(parents=True)
        write_pages(edition, outputs, source, extra)
        made = Path(scratch, "site")
        run_sphinx(edition, source, extra, made, Path(scratch, "doctrees"))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
    (target / MARK).write_text("", encoding="utf-8")


MARK = ".nojekyll"  # tells the pages of a repository to take the site as it is, and us that the folder is ours


def require_own_folder(target: Path) -> None:
    """Nothing is deleted but an older site."""
    if target.exists() and not (target.is_dir() and ((target / MARK).exists() or not any(target.iterdir()))):
        raise BookError(f"{target} exists and is not a site that this command made. Remove it, or name another folder.")


def write_pages(edition: Edition, outputs: Mapping[str, Outputs], source: Path, extra: Path) -> None:
    texts: dict[str, str] = {"index": front_page(edition)}
    in_atlas = frozenset(edition.in_atlas)
    for stem in stems():
        page = Page(stem, outputs.get(stem), edition.with_solutions, edition.is_whole, in_atlas)
        texts[stem] = page.text()
        for name, content in page.pictures.items():
            (extra / FIGURES / name).write_bytes(content)
    texts["glossary"] = "\n\n".join(with_book_links(cell.source) for cell in glossary_notebook().cells[:-1])
    texts["references"] = references.page()
    texts |= {path.stem: with_links_of_docs(text) for path, text in coverage_pages(ROOT / "docs").items()}
    if in_atlas:
        atlas = Atlas.of(edition.in_atlas)
        texts |= atlas_pages(atlas)
        (extra / "atlas.json").write_text(atlas.as_json(), encoding="utf-8")
    for name, text in texts.items():
        path = source / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def with_links_of_docs(text: str) -> str:
    """A page of docs/ with its links to notebooks as links to pages."""
    return DOCS_LINK.sub(lambda link: f"](<{page_address(link[1], link[2])}>)", text)


def front_page(edition: Edition) -> str:
    which = (
        "This is the **instructor's edition**: it has the solutions, model answers and the atlas of mistakes."
        if edition.with_solutions
        else "This is the **student's edition**: the exercises are stubs, with hints to unfold. The outputs were made "
        "with the course's own solutions."
    )
    how = (
        "All outputs come from the full trainings."
        if edition.is_whole
        else "Notebooks that train for minutes were executed with a shorter training; their pages say so."
    )
    repository = course_settings()["repository"]
    parts = [
        f"# {TITLE}",
        "A course of Jupyter notebooks in which you write the Transformer yourself, from the dot product to a model "
        "that you train as a translator, and whose checks name your mistake.",
        f"Here you can read all of it. To work through it, open a notebook in Colab or get the course from "
        f"[its repository]({repository}) and run `make lab`. Then a link *in your JupyterLab* opens your own copy "
        "at the section in which you are reading.",
        f"{which} {how}",
        "## The notebooks",
        with_book_links(course_map()),
        contents("The course", stems()),
        contents("Look it up", ["glossary", "coverage", "errata", "references"]),
    ]
    if edition.in_atlas:
        parts.append(contents("Mistakes", ["atlas/index", "atlas/ideas"]))
    return "\n\n".join(parts) + "\n"


def contents(caption: str, names: Sequence[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```"])


def heading_anchor(text: str) -> str:
    """JupyterLab's name for a heading, so that the notebooks' links hold in the book."""
    return text.replace(" ", "-")


def run_sphinx(edition: Edition, source: Path, extra: Path, target: Path, doctrees: Path) -> None:
    """Any warning, such as a link that leads nowhere, is an error."""
    settings = {
        "project": TITLE,
        "html_title": TITLE + (" (instructor's edition)" if edition.with_solutions else ""),
        "author": "The Transformer course authors",
        "language": "en",
        "extensions": ["myst_parser", "sphinx_copybutton", "book.mathml"],
        "html_theme": "sphinx_book_theme",
        "html_theme_options": {
            "repository_url": course_settings()["repository"],
            "use_repository_button": True,
            "use_download_button": False,
            "show_toc_level": 2,
            "navbar_persistent": [],  # one field for the search is enough
            "pygments_light_style": "a11y-high-contrast-light",
            "pygments_dark_style": "a11y-high-contrast-dark",
        },
        "html_static_path": [str(STATIC)],
        "html_css_files": ["book.css"],
        "html_context": {"default_mode": "auto"},  # light or dark, as the reader's system is
        "html_extra_path": [str(extra)],
        "html_math_renderer": "mathml",
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "copybutton_selector": "div.highlight pre",
        "myst_enable_extensions": ["dollarmath", "amsmath"],
        "myst_dmath_double_inline": True,
        "myst_heading_anchors": 4,
        "myst_heading_slug_func": f"{__name__}.{heading_anchor.__name__}",
        "myst_disable_syntax": ["myst_role", "myst_target", "myst_line_comment", "myst_block_break"],
        "highlight_language": "python",
        # Code is shown as people wrote it, whether or not it is Python.
        "suppress_warnings": ["misc.highlighting_failure"],
    }
    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(source), None, str(target), str(doctrees), "html", settings, status=None, warning=warnings
        )  # fmt: skip
        app.build(force_all=True)
    if warnings.getvalue():
        raise BookError(f"Sphinx does not accept a page:\n{warnings.getvalue()}")
    for path in target.rglob("*.html"):
        page = with_text_as_main(with_named_arrows(path.read_text(encoding="utf-8")))
        path.write_text(page, encoding="utf-8")
    shutil.rmtree(target / "_sources", ignore_errors=True)
    for leftover in (target / ".buildinfo", *(target / "_static").glob("*webpack-macros.html")):
        leftover.unlink(missing_ok=True)


def with_named_arrows(page: str) -> str:
    """The theme's arrows that open a part of the contents have no name for a screen reader."""
    return page.replace(
        '<summary><span class="toctree-toggle"', f'<summary aria-label="{ARROW}"><span class="toctree-toggle"'
    )


def with_text_as_main(page: str) -> str:
    """The theme counts buttons and contents as the main part of a page, so the search would quote them."""
    if '<article class="bd-article">' not in page:
        return page
    without = page.replace(
        '<main id="main-content" class="bd-main" role="main">', '<div id="main-content" class="bd-main">'
    )
    without = without.replace("</main>", "</div>")
    return without.replace('<article class="bd-article">', '<article class="bd-article" role="main">')
