"""The book and the atlas: what is in them, what is not, and how they look in a browser that reaches nothing else.

The site is built once, from the outputs of notebook 2 that the tests of the notebooks have made anyway.
"""

from __future__ import annotations

import functools
import http.server
import json
import re
import runpy
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jsonschema
import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
import yaml
from bs4 import BeautifulSoup
from course import solved
from lab import TOKEN, browser_page, find_chromium, wcag_problems
from playwright.sync_api import expect
from release import released_notebook

from autograder.authoring import build
from book import executed, references
from book.__main__ import passed_exercises
from book.atlas import Atlas
from book.ideas import all_ideas, ideas_of
from book.pages import Page, open_links
from book.site import BookError, Edition, build_site
from course_lib.alt_text import alt_text, as_outputs, title_of_cell
from course_lib.exercises import all_exercises
from course_lib.plotting import show_matrix

# nbgrader fills in a submission before it adds it; the theme is a little older than Sphinx
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = find_chromium()
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
with_masks = pytest.mark.xdist_group("02_masks")  # the tests of that notebook have executed it
STEM = "02_masks"
PASSED = frozenset({"causal_mask", "LayerNorm", "accepts_causal_mask"})  # a function, a class, a test to write
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
ELSEWHERE = {"colab.research.google.com", "github.com", "localhost"}


@pytest.fixture(scope="session")
def site(course, tmp_path_factory) -> Path:
    """The student's edition, with the atlas pages of a few exercises."""
    target = tmp_path_factory.mktemp("book") / "site"
    build_site(Edition(passed=PASSED), {STEM: executed.outputs_of(solved(course, STEM))}, target)
    return target


@pytest.fixture(scope="session")
def pages(site) -> dict[str, BeautifulSoup]:
    return {
        path.relative_to(site).as_posix(): BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for path in site.rglob("*.html")
    }


@pytest.fixture(scope="session")
def served(site) -> Iterator[str]:
    """The address of the site."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# --- what is in it ------------------------------------------------------------------------------------------------


def solutions_of(stem: str) -> dict[str, str]:
    """Name of the exercise or question -> what is between the marks."""
    cells = build.solution_notebook(stem).cells
    found = {cell.id: SOLUTION.findall(cell.source) for cell in cells}
    return {name: "\n".join(parts) for name, parts in found.items() if parts}


def squeezed(text: str) -> str:
    return "".join(text.split())


@with_masks
def test_no_line_of_a_solution_is_in_the_students_edition(pages):
    """Except what the student's notebooks or the hints say themselves, and the answers to what has been passed."""
    public = [cell.source for stem in build.stems() for cell in released_notebook(stem).cells]
    public += [hint for exercise in all_exercises().values() for hint in exercise.hints]
    known = squeezed("\n".join(public))
    book = squeezed("\n".join(page.get_text() for page in pages.values()))
    secret, leaked = 0, []
    for stem in build.stems():
        for name, solution in solutions_of(stem).items():
            lines = {squeezed(line) for line in solution.splitlines()} if name not in PASSED else set()
            lines = {line for line in lines if len(line) > 20 and line not in known}
            secret += len(lines)
            leaked += [(name, line) for line in lines if line in book]
    atlas = squeezed("\n".join(pages[f"atlas/{name}.html"].get_text() for name in PASSED))
    assert [(name, line) for name, line in leaked if line not in atlas] == []
    assert secret > 500


def test_the_instructors_edition_has_solutions_model_answers_and_links_to_the_atlas():
    student = Page(STEM, None).text()
    instructor = Page(STEM, None, with_solutions=True, in_atlas=frozenset(all_exercises())).text()
    for solution in solutions_of(STEM).values():
        assert solution.strip().splitlines()[0] in instructor
        assert solution.strip() not in student
    assert "### BEGIN" not in instructor and "raise NotImplementedError" in student
    assert "(atlas/window_mask.md)" in instructor and "atlas/" not in student


@with_masks
def test_every_link_and_file_of_the_site_is_there_and_every_other_address_is_known(site, pages):
    ids = {name: {tag["id"] for tag in page.find_all(id=True)} for name, page in pages.items()}
    broken, hosts, inside = [], set(), 0
    for name, page in pages.items():
        for tag in page.find_all(["a", "img", "script", "link"]):
            address = urlsplit(tag.get("href") or tag.get("src") or "")
            if address.scheme in ("http", "https"):
                assert tag.name == "a", f"{name} would load {address.geturl()}"
                hosts.add(address.hostname)
            elif address.scheme != "data" and (address.path or address.fragment):
                target = (site / name).parent.joinpath(unquote(address.path)) if address.path else site / name
                target = target.resolve()
                inside += 1
                anchors = ids.get(target.relative_to(site.resolve()).as_posix(), set())
                if not target.exists() or (address.fragment and unquote(address.fragment) not in anchors | {"", "#"}):
                    broken.append((name, address.geturl()))
    assert broken == []
    assert hosts <= ELSEWHERE
    assert inside > 1000


@with_masks
def test_every_picture_has_an_alt_text(pages):
    pictures = [image for page in pages.values() for image in page.find_all("img")]
    assert len(pictures) > 15
    assert [str(image)[:100] for image in pictures if len(image.get("alt", "")) < 10] == []


@with_masks
def test_a_page_has_stubs_hints_outputs_and_links_that_open_each_section(pages):
    page = pages[f"{STEM}.html"]
    text = page.get_text()
    assert "# YOUR CODE HERE" in text and "the output of 'the' is" in text
    assert "Hint 1 of 4" in text and not page.find("details", open=True)
    assert "of 4 points" not in text, "outputs of checks are left out"
    sections = len(page.select("section section > h2"))
    links = [link["href"] for link in page.select("section section > .open-here a")]
    assert sum("colab" in link and "#scrollTo=" in link for link in links) == sections > 8
    assert sum("/lab/tree/work/02_masks.ipynb#cell-id=" in link for link in links) == sections


@with_masks
def test_formulas_are_mathml_and_none_is_left_as_latex(pages):
    page = pages[f"{STEM}.html"]
    assert len(page.find_all("math")) > 20
    for code in page.find_all(["pre", "code", "script"]):
        code.decompose()
    assert not re.search(r"\$\$|\\frac|\\mathrm", page.get_text())


@with_masks
def test_glossary_coverage_errata_and_references_lead_to_the_notebooks(pages):
    for name in ("coverage.html", "errata.html", "references.html"):
        links = {link["href"].partition("#")[0] for link in pages[name].select("article a[href]")}
        assert {f"{stem}.html" for stem in ("01_dot_product_attention", STEM, "08_training")} <= links
    glossary = pages["glossary.html"]
    assert len(glossary.select("article h2")) == len(build.glossary().entries)


# --- in a browser -------------------------------------------------------------------------------------------------

# page, width, colours
VIEWS = [
    ("index.html", 1200, "light"),
    (f"{STEM}.html", 420, "dark"),
    ("coverage.html", 420, "light"),
    ("atlas/causal_mask.html", 1200, "light"),
    ("atlas/causal_mask.html", 420, "dark"),
]


@pytest.mark.browser
@in_a_browser
@with_masks
def test_pages_fit_a_telephone_and_meet_wcag_aa_in_light_and_dark(served):
    with browser_page(CHROMIUM) as (page, elsewhere):
        for name, width, colours in VIEWS:
            page.set_viewport_size({"width": width, "height": 1000})
            page.emulate_media(color_scheme=colours)
            page.goto(f"{served}/{name}")
            expect(page.locator("html")).to_have_attribute("data-theme", colours)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than {width}"
            assert wcag_problems(page) == [], f"{name}, {width} wide, {colours}"
        assert elsewhere == [], "requests left the machine"


@pytest.mark.browser
@in_a_browser
@with_masks
def test_figures_move_and_the_search_finds_without_a_kernel_or_a_network(site, served):
    with browser_page(CHROMIUM, files=site) as (page, elsewhere):
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(f"{served}/{STEM}.html")
        expect(page.locator(".course-still")).to_be_hidden()
        square = page.locator(".cf-cells button[aria-checked]").nth(1)  # the first word looks at the second
        expect(square).to_have_attribute("aria-checked", "false")
        square.click()
        expect(square).to_have_attribute("aria-checked", "true")
        assert page.locator("math").first.bounding_box()["height"] > 5
        assert complaints == []
        page.emulate_media(media="print")
        expect(page.locator(".bd-sidebar-primary")).to_be_hidden()
        expect(page.locator(".open-here").first).to_be_hidden()
        expect(page.locator("figure.drawn").first).to_be_visible()
        page.goto(f"{served}/search.html?q=polarity")
        page.locator("#search-results li a").first.wait_for()
        quoted = page.locator("#search-results .context")
        quoted.first.wait_for()
        assert "polarity" in quoted.first.inner_text().lower()
        assert not any("System Settings" in text for text in quoted.all_inner_texts()), "a menu is quoted"
        page.goto((site / "search.html").as_uri() + "?q=polarity")
        page.locator("#search-results li a").first.wait_for()
        assert elsewhere == [], "requests left the machine"


@pytest.mark.browser
@in_a_browser
@with_masks
def test_a_link_opens_the_readers_own_notebook_at_the_section(folder, lab):
    (folder / "work").mkdir(exist_ok=True)
    notebook = released_notebook(STEM)
    nbformat.write(notebook, folder / "work" / f"{STEM}.ipynb")
    section = next(cell for cell in notebook.cells if "## 9 " in cell.source)
    other = next(cell for cell in notebook.cells if "## 4 " in cell.source)
    links = [open_links(STEM, cell.id, "Open").replace("http://localhost:8888", lab) for cell in (section, other)]
    with browser_page(CHROMIUM) as (page, elsewhere):
        page.context.add_init_script("Object.defineProperty(window, 'innerWidth', {value: 420})")
        page.goto(f"{lab}/lab?token={TOKEN}")
        page.set_content("".join(links))
        with page.context.expect_page() as opened:
            page.get_by_text("in your JupyterLab").first.click()
        notebook_page = opened.value
        heading = notebook_page.locator("h2", has_text="Windows, and masks of your own")
        expect(heading).to_be_in_viewport()
        expect(notebook_page.locator(".jp-FileBrowser")).to_be_hidden()  # the screen is narrow
        page.get_by_text("in your JupyterLab").last.click()
        expect(notebook_page.locator("h2", has_text="The future")).to_be_in_viewport()
        expect(heading).not_to_be_in_viewport()
        assert elsewhere == [], "requests left the machine"


# --- the atlas ----------------------------------------------------------------------------------------------------


def test_every_misconception_belongs_to_an_idea_and_nearly_all_by_their_words():
    by_change = {idea.id for idea in all_ideas() if idea.change}
    found = [set(ideas_of(e.reference, wrong)) for e in all_exercises().values() for wrong in e.misconceptions]
    assert all(found)
    assert sum(not ideas & by_change for ideas in found) > 0.85 * len(found)
    assert set().union(*found) == {idea.id for idea in all_ideas()}


@pytest.mark.parametrize(
    "exercise, mistake, ideas",
    [
        ("causal_mask", "marks_what_is_hidden", {"mask", "mask_polarity"}),
        ("causal_mask", "peeks_one_ahead", {"mask", "future", "shift"}),
        ("shift_right", "rolls_around", {"shift"}),
        ("tiled_attention", "does_not_scale", {"scale"}),
        ("PositionalEncoding", "wants_a_graphics_card", {"device"}),
        ("residual_post_norm", "adds_in_place", {"in_place"}),
        ("sequence_loss", "softmax_over_the_batch", {"axis", "normalisation"}),
        ("bleu", "no_brevity_penalty", {"left_out"}),
    ],
)
def test_mistakes_are_found_under_their_ideas(exercise, mistake, ideas):
    known = all_exercises()[exercise]
    wrong = next(wrong for wrong in known.misconceptions if wrong.__name__ == mistake)
    assert ideas <= set(ideas_of(known.reference, wrong))


def fields_of(schema) -> Iterator[tuple[str, dict]]:
    """Every named field that a schema describes, at any depth."""
    for name, field in schema.get("properties", {}).items():
        yield name, field
        yield from fields_of(field)
    for part in (*filter(None, [schema.get("items")]), *schema.get("$defs", {}).values()):
        yield from fields_of(part)


@with_masks
def test_the_atlas_as_json_is_what_its_schema_says(site):
    content = json.loads((site / "atlas.json").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "docs" / "atlas_schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [name for name, field in fields_of(schema) if len(field.get("description", "")) < 10] == []
    jsonschema.validate(content, schema, jsonschema.Draft202012Validator)
    assert {entry["name"] for entry in content["exercises"]} == PASSED
    causal = next(entry for entry in content["exercises"] if entry["name"] == "causal_mask")
    peeks = next(card for card in causal["misconceptions"] if card["id"] == "peeks_one_ahead")
    assert peeks["input"] == "n = 2"
    assert peeks["picture"] == {"expected": [[1, 0], [1, 1]], "got": [[1, 1], [1, 1]]}
    changed = [line["code"].strip() for line in peeks["difference"] if line["sign"] in "+-"]
    assert changed == ["return torch.tril(everything, diagonal=1)", "return torch.tril(everything, diagonal=0)"]
    test = next(entry for entry in content["exercises"] if entry["name"] == "accepts_causal_mask")
    shape = next(card for card in test["misconceptions"] if card["id"] == "looks_at_the_shape")
    assert "hides_the_diagonal" in shape["lets_through"] and shape["input"] is None


@with_masks
def test_an_atlas_page_has_a_card_for_every_mistake_and_ideas_lead_to_it(pages):
    page = pages["atlas/causal_mask.html"]
    cards = page.select("section > h3")
    assert len(cards) == len(all_exercises()["causal_mask"].misconceptions)
    for word in ("hides the diagonal", "Your triangle reaches one diagonal too far.", "n = 2", "expected"):
        assert word in page.get_text()
    assert "atlas/window_mask.html" not in pages, "only what has been passed"
    links = [link["href"] for link in pages["atlas/idea_shift.html"].select("article a[href]")]
    assert "causal_mask.html#peeks-one-ahead" in links


def test_a_nan_can_be_written_as_json():
    """`masked_softmax` has mistakes whose result is NaN, which JSON does not know."""
    text = Atlas.of(["masked_softmax"]).as_json()
    assert '"nan"' in text and "NaN" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", text)


# --- references ---------------------------------------------------------------------------------------------------


def test_every_citation_means_exactly_one_entry_and_every_entry_is_cited():
    works, cited = references.works(), references.cited()
    meant = [(stem, one, [w.id for w in works if w.answers(one, stem)]) for stem, all_ in cited.items() for one in all_]
    assert [each for each in meant if len(each[2]) != 1] == []
    assert {work.id for work in works} == {ids[0] for _, _, ids in meant}
    assert [work.id for work in works] == sorted(work.id for work in works)


def test_citations_are_found_in_each_of_their_forms():
    text = "Su et al. (2021) and (Jain and Wallace 2019), in 2017; DeMillo, Lipton & Sayward (1978). In February 2019 …"
    assert list(references.citations(text)) == [("Su", True, 2021), ("Wallace", False, 2019), ("Sayward", False, 1978)]


# --- what it is made from -----------------------------------------------------------------------------------------


def test_text_can_change_without_executing_anything_again(monkeypatch):
    before = executed.digest_of(STEM, is_whole=False)
    assert executed.digest_of(STEM, is_whole=True) != before
    notebook = build.solution_notebook(STEM)
    monkeypatch.setattr(executed, "solution_notebook", lambda stem: notebook)
    next(cell for cell in notebook.cells if cell.cell_type == "markdown").source += "\n\nMore text."
    assert executed.digest_of(STEM, is_whole=False) == before
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += "\nprint(1)"
    assert executed.digest_of(STEM, is_whole=False) != before


def test_a_notebook_is_executed_once_and_older_outputs_are_dropped(monkeypatch, tmp_path):
    runs = []
    monkeypatch.setattr(executed, "CACHE", tmp_path)
    monkeypatch.setattr(executed, "execute", lambda notebook, is_whole: runs.append(is_whole) or notebook)
    for name in (f"{STEM}.fast.0123456789abcdef.ipynb", f"{STEM}.whole.0123456789abcdef.ipynb"):
        (tmp_path / name).write_text("{}")
    for _ in range(2):
        executed.executed(STEM, is_whole=False)
    assert runs == [False]
    kept = executed.kept_at(STEM, is_whole=False)
    assert sorted(tmp_path.iterdir()) == sorted([kept, tmp_path / f"{STEM}.whole.0123456789abcdef.ipynb"])


def test_without_its_tools_the_book_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sphinx.application", None)
    monkeypatch.delitem(sys.modules, "book.site", raising=False)
    with pytest.raises(SystemExit, match=r"python install\.py --book"):
        runpy.run_path(str(ROOT / "book" / "__main__.py"))


def test_passed_exercises_come_from_names_or_from_a_file_of_progress(tmp_path):
    progress = tmp_path / "progress.json"
    progress.write_text(json.dumps({"softmax": {"outcome": "right"}, "causal_mask": {"outcome": "wrong"}}))
    assert passed_exercises([str(progress), "window_mask"]) == {"softmax", "window_mask"}
    with pytest.raises(BookError, match="neither an exercise nor a readable file"):
        passed_exercises([str(tmp_path / "nothing.json")])


def test_the_workflow_publishes_what_make_book_makes():
    text = (ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8")
    assert "main" not in text, "whoever adopts the course under another branch changes one place only"
    workflow = yaml.safe_load(text)
    steps = workflow["jobs"]["book"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make book CPU=1"]
    paths = {step["uses"].partition("@")[0]: step["with"]["path"] for step in steps if "path" in step.get("with", {})}
    assert paths == {"actions/cache": executed.CACHE.name, "actions/upload-pages-artifact": "site"}


def test_no_folder_but_an_older_site_is_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BookError, match="Remove it, or name another"):
        build_site(Edition(), {}, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


# --- alt texts ----------------------------------------------------------------------------------------------------


def test_alt_texts_say_what_the_titles_axes_and_curves_say():
    figure, (left, right) = plt.subplots(1, 2)
    show_matrix(torch.eye(2), "the mask", ax=left)
    right.plot([1, 2], label="with $d_k$")
    right.set(xlabel="step", ylabel="loss")
    right.legend()
    title = title_of_cell("# Figure: Does it learn?\nplt.show()")
    words = "Does it learn? the mask (rows: query, columns: key). loss over step: with d_k."
    assert alt_text(figure, title) == words
    data, about = as_outputs(figure, title)
    assert f'<img alt="{words}"' in data["text/html"] and about == {"image/png": {"alt": words}}
    plt.close(figure)
