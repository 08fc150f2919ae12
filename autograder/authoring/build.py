"""Builds the notebooks: `python -m autograder.authoring.build` (or `make build`).

    solutions/02_masks.py                      the one hand-written source (jupytext percent format)
    -> class/source/02_masks/02_masks.ipynb          executable, with solutions; ignored by git
    -> notebooks/02_masks.ipynb                      the student's, made by nbgrader's own generate step; committed

A cell of the source says what it is in a few words after its `# %%`:

    # %% setup                             locked; imports
    # %% exercise causal_mask              the student writes between ### BEGIN SOLUTION and ### END SOLUTION
    # %% check causal_mask                 holds the line `check(causal_mask)`; its points come from the exercise
    # %% figure Who may look at whom       mostly draws; folded behind a first line that says so
    # %% claims                            says in code what the text says about the cell above; no student gets it
    # %% answer why_causal 2 [markdown]    a written answer, marked by hand, worth 2 points

What nbgrader needs to know is derived from these words. After each check a locked cell is added in which the grader
runs the hidden cases. In the text, `{{exercise causal_mask}}` becomes a line with points, minutes and difficulty,
`{{question why_causal}}` the line above a written answer (`{{open_question …}}` above one that needs an experiment of
the student's own, for which no minutes are counted), `{{term entropy}}` a link to the glossary, and `{{map}}` the
table of all notebooks.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import inspect
import json
import logging
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI

from autograder.authoring.bootstrap import badge_markdown, bootstrap_source, course_settings
from autograder.authoring.coverage import CoverageError, pages
from autograder.authoring.glossary import FILE as GLOSSARY
from autograder.authoring.glossary import Glossary, GlossaryError
from autograder.authoring.minutes import minutes
from autograder.classroom.course import Course, put_own_commands_on_path
from autograder.errors import CourseError
from autograder.files import content_of, told_of_kept_files, write_whole
from autograder.hidden import all_hidden
from autograder.project import SOLUTIONS, written_points_in
from autograder.suggest import DEFAULT
from autograder.working_copy import NOTEBOOKS, ROOT, WORK, cell_id, is_untouched, keep_work, shown
from course_lib.checking.exercise import Exercise
from course_lib.exercises import TOPICS, all_exercises

COURSE = ROOT / DEFAULT

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # in Colab and in JupyterLab
MAP_BEGIN, MAP_END = "<!-- map: written by `make build` -->", "<!-- end of map -->"
CONTENTS = ROOT / "course_lib" / "contents.py"
CONTENTS_HEAD = '''\
"""Written by `make build` from solutions/: stem, title, minutes and written points of each notebook."""

CONTENTS = ('''
CLAIMS = "from autograder.authoring.claims import claim\n\n"  # comes before each cell of claims
EXERCISE_MARK = re.compile(r"\{\{exercise (\w+)\}\}")
YOURS = re.compile(r"""\byours\(\s*["'](\w+)["']""")
QUESTION_MARK = re.compile(r"\{\{(open_)?question (\w+)\}\}")
UNKNOWN_MARK = re.compile(r"\{\{[^{}\n]*\}*")
SOLUTION_MARK = re.compile(r"### (BEGIN|END) SOLUTION")
MOST_MINUTES = 150  # that a notebook may take a newcomer


class SourceError(Exception):
    """A source that cannot be built. The message says where and what to do."""


def stems() -> list[str]:
    """The names of all notebooks, in order: 00_start_here, 01_dot_product_attention, …"""
    return sorted(path.stem for path in SOLUTIONS.glob("[0-9][0-9]_*.py"))


# --- from source to solution notebook -------------------------------------------------------------------


def solution_notebook(stem: str, claims: bool = False) -> NotebookNode:
    """The executable notebook with solutions, and with everything in it that nbgrader needs.

    claims: with the cells that prove the text. What students get is made from the notebook without them.
    """
    source = copy.deepcopy(source_cells(stem))
    cells = [made for cell in source if claims or words_of(cell) != ["claims"] for made in prepared(cell, stem)]
    if not cells or cells[0].cell_type != "markdown":
        raise SourceError(f"{stem}: the first cell has to be the title, in markdown.")
    cells[0].source = f"{cells[0].source}\n\n{header_line(stem)}"
    cells.insert(1, bootstrap_cell())
    cells.append(nbformat.v4.new_markdown_cell(footer_line(stem)))
    give_ids(cells)
    require_order(cells, stem)
    require_checked_before_yours(cells, stem)
    return new_notebook(cells)


def new_notebook(cells: list[NotebookNode]) -> NotebookNode:
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    notebook.nbformat_minor = 5
    return notebook


def source_cells(stem: str) -> list[NotebookNode]:
    """The cells as they were written; change only copies of them. What each is called is in its metadata."""
    return parsed(source_text(stem))


def source_text(stem: str) -> str:
    return (SOLUTIONS / f"{stem}.py").read_text(encoding="utf-8")


@functools.cache
def parsed(source: str) -> list[NotebookNode]:
    cells: list[NotebookNode] = jupytext.reads(source, fmt="py:percent").cells
    return cells


def words_of(cell: NotebookNode) -> list[str]:
    """The words after the `# %%` of a cell that has not been prepared yet."""
    words: list[str] = cell.metadata.get("title", "").split()
    return words


def prepared(cell: NotebookNode, stem: str) -> Iterator[NotebookNode]:
    """The cells that one cell of the source turns into."""
    words = words_of(cell)
    cell.metadata = nbformat.from_dict({})
    if cell.cell_type == "markdown":
        cell.source = with_marks_replaced(cell.source, stem)
    if words[:1] not in (["exercise"], ["answer"]) and SOLUTION_MARK.search(cell.source):
        raise SourceError(
            f"{stem}: a cell that is neither an exercise nor an answer contains a solution. Write `# %% exercise NAME` "
            f"above it, or remove the lines ### BEGIN SOLUTION and ### END SOLUTION:\n{cell.source}"
        )
    match words:
        case []:
            yield cell
        case ["figure", *title] if cell.cell_type == "code":
            cell.source = titled(cell.source, " ".join(title))
            cell.metadata.update(FOLDED)
            yield cell
        case ["claims"] if cell.cell_type == "code":
            cell.source = CLAIMS + cell.source
            yield cell
        case ["setup"]:
            yield marked(cell, f"setup_{stem}", locked=True)
        case ["exercise", name]:
            yield exercise_cell(cell, name, stem)
        case ["check", name]:
            yield from check_cells(cell, name, stem)
        case ["answer", name, points] if cell.cell_type == "markdown":
            require_solution(cell, f"answer {name}", stem)
            yield marked(cell, name, solution=True, grade=True, points=float(points))
        case _:
            raise SourceError(f"{stem}: there is no kind of cell called {' '.join(words)!r}.")


def with_marks_replaced(text: str, stem: str) -> str:
    """The text with every `{{…}}` replaced by what it stands for."""
    text = EXERCISE_MARK.sub(lambda mark: exercise_line(mark[1], stem), text)
    text = QUESTION_MARK.sub(lambda mark: question_line(mark[2], stem, is_open=bool(mark[1])), text)
    if "{{term" in text:
        text = with_terms_linked(text, stem)
    text = text.replace("{{map}}", course_map()) if "{{map}}" in text else text
    if unknown := UNKNOWN_MARK.search(text):
        known = "exercise, question, open_question, term, map"
        raise SourceError(f"{stem}: {unknown[0]} is not one of the marks that the build knows: {known}.")
    return text


def titled(source: str, title: str) -> str:
    """The code of a figure. JupyterLab shows the first line of a folded cell, Colab the title of its form."""
    return f"# Figure: {title}\n# @title Figure: {title}\n{source}" if title else source


def exercise_cell(cell: NotebookNode, name: str, stem: str) -> NotebookNode:
    exercise = known_exercise(name, stem)
    require_solution(cell, f"exercise {name}", stem)
    wanted = list(inspect.signature(exercise.reference).parameters)
    try:
        found = arguments_in(cell.source, name)
    except SyntaxError as error:
        raise SourceError(f"{stem}: the cell `exercise {name}` is not valid Python: {error}") from None
    if found is None:
        raise SourceError(f"{stem}: the cell `exercise {name}` does not define {name}.")
    if found != wanted:
        raise SourceError(
            f"{stem}: in the notebook, {name} takes ({', '.join(found)}), but in course_lib/{exercise.topic}.py it "
            f"takes ({', '.join(wanted)}). Give the arguments the same names and the same order."
        )
    return marked(cell, name, solution=True)


def require_solution(cell: NotebookNode, what: str, stem: str) -> None:
    """Only what stands between these marks is taken out of the students' notebook."""
    marks = SOLUTION_MARK.findall(cell.source)
    if not marks or marks != ["BEGIN", "END"] * (len(marks) // 2):
        raise SourceError(f"{stem}: the {what} needs ### BEGIN SOLUTION and, below it, ### END SOLUTION.")


def arguments_in(source: str, name: str) -> list[str] | None:
    """What the function, or the `__init__` of the class, of this name takes. None if the source does not define it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return arguments_of(node)
        if isinstance(node, ast.ClassDef) and node.name == name:
            makers = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            return [argument for maker in makers for argument in arguments_of(maker)[1:]]
    return None


def arguments_of(function: ast.FunctionDef) -> list[str]:
    return [node.arg for node in ast.iter_child_nodes(function.args) if isinstance(node, ast.arg)]


def check_cells(cell: NotebookNode, name: str, stem: str) -> Iterator[NotebookNode]:
    """The visible check, and the locked cell in which the grader runs the hidden cases."""
    exercise = known_exercise(name, stem)
    if cell.source.strip() != f"check({name})":
        raise SourceError(f"{stem}: the cell `check {name}` should hold only the line check({name}).")
    visible = nbformat.v4.new_code_cell(f'from course_lib import check\n\ncheck("{name}", {name})')
    yield marked(visible, f"{name}_check", grade=True, locked=True, points=exercise.max_points)
    hidden = nbformat.v4.new_code_cell(
        f"# When this notebook is graded, {name} also meets cases that are not shown here.\n"
        "### BEGIN HIDDEN TESTS\n"
        "from autograder.hidden import check_hidden\n\n"
        f'check_hidden("{name}", {name})\n'
        "### END HIDDEN TESTS"
    )
    points = all_hidden()[name].points
    yield marked(hidden, f"{name}_hidden", grade=True, locked=True, points=points)


def require_order(cells: list[NotebookNode], stem: str) -> None:
    """The grader withholds the references of exercises to come, so both have to agree on the order."""
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in cells]
    checked = [grade_id.removesuffix("_check") for grade_id in ids if grade_id.endswith("_check")]
    listed = [name for name in all_exercises() if name in checked]
    if checked != listed:
        raise SourceError(
            f"{stem}: the notebook has its exercises in the order {', '.join(checked)}, but "
            f"course_lib/exercises/{stem[3:]}/__init__.py says {', '.join(listed)}."
        )


def require_every_exercise(notebook: NotebookNode, stem: str) -> None:
    """The map and the points count every exercise that is registered, so the notebook has to hold each of them."""
    ids = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells}
    announced = EXERCISE_MARK.findall(source_text(stem))
    for exercise in exercises_of(stem):
        name = exercise.name
        there = {
            f"cell `# %% exercise {name}`": name in ids,
            f"cell `# %% check {name}`": f"{name}_check" in ids,
            f"{{{{exercise {name}}}}} in its text": name in announced,
        }
        for what, is_there in there.items():
            if not is_there:
                registered = f"course_lib/exercises/{exercise.topic}/__init__.py"
                raise SourceError(f"{stem}: {registered} has the exercise {name}, but the notebook has no {what}.")


def require_checked_before_yours(cells: list[NotebookNode], stem: str) -> None:
    """During grading `yours` returns the reference, which is available once the exercise has been graded."""
    still_to_come = [e.name for e in all_exercises().values() if TOPICS.index(e.topic) >= TOPICS.index(stem[3:])]
    for cell in cells:
        used = YOURS.findall(cell.source) if cell.cell_type == "code" else []
        for name in used:
            if name in still_to_come:
                raise SourceError(f'{stem}: yours("{name}", …) has to come after the check of {name}.')
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if grade_id.endswith("_hidden"):
            still_to_come.remove(grade_id.removesuffix("_hidden"))


def marked(
    cell: NotebookNode,
    grade_id: str,
    *,
    solution: bool = False,
    grade: bool = False,
    locked: bool = False,
    points: float | None = None,
) -> NotebookNode:
    """The cell with nbgrader's metadata."""
    details = {
        "grade_id": grade_id,
        "solution": solution,
        "grade": grade,
        "locked": locked,
        "task": False,
        "schema_version": 3,
        "cell_type": cell.cell_type,
    }
    if points is not None:
        details["points"] = points
    cell.metadata["nbgrader"] = nbformat.from_dict(details)
    return cell


def known_exercise(name: str, stem: str) -> Exercise:
    exercise = all_exercises().get(name)
    if exercise is None or exercise.topic != stem.partition("_")[2]:
        raise SourceError(f"{stem}: there is no exercise {name} in course_lib/exercises/{stem[3:]}/.")
    if name not in all_hidden():
        raise SourceError(f"{stem}: {name} has no hidden cases in autograder/hidden/{stem[3:]}.py.")
    return exercise


def exercise_line(name: str, stem: str) -> str:
    """Points, minutes and difficulty of an exercise, for the reader."""
    exercise = known_exercise(name, stem)
    points = f"{exercise.max_points:g} points here, {exercise.hidden_points:g} more when graded"
    minutes = exercise.minutes_for_newcomers
    stars = "●" * exercise.difficulty + "○" * (3 - exercise.difficulty)
    return f"**Exercise `{name}`** · {points} · about {minutes} minutes · difficulty {stars}"


def question_line(name: str, stem: str, is_open: bool = False) -> str:
    """What a written answer is worth, for the reader; for an open-ended one, that no minutes are counted."""
    points = written_points(stem).get(name)
    if points is None:
        raise SourceError(f"{stem}: there is no cell `answer {name}` for the question {name}.")
    if is_open:
        return f"**Open-ended** · {points:g} points, marked by hand · not counted in the minutes at the top"
    return f"**In your own words** · {points:g} points, marked by hand"


def written_points(stem: str) -> dict[str, float]:
    """The written answers of a notebook: name -> points."""
    return written_points_in(source_text(stem))


def header_line(stem: str) -> str:
    """What is below the title: how long the notebook takes, what it is worth, and the links."""
    badge = badge_markdown(notebook=f"{stem}.ipynb", **course_settings())
    return f"{worth(stem)}\n\n" + " · ".join([badge, *neighbour_links(stem)])


def worth(stem: str) -> str:
    points = points_of(stem)
    parts = f"{points.here:g} in the checks, {points.later:g} more when graded, {points.written:g} marked by hand"
    extra = ", the open-ended exercise not counted" if "{{open_question" in source_text(stem) else ""
    return f"About {minutes_of(stem)} minutes if this is new to you{extra} · {points.total:g} points ({parts})"


class Points(NamedTuple):
    """What a notebook is worth."""

    here: float  # in the checks that students see
    later: float  # in the hidden cases
    written: float

    @property
    def total(self) -> float:
        return sum(self)


def points_of(stem: str) -> Points:
    exercises = exercises_of(stem)
    here, later = sum(e.max_points for e in exercises), sum(e.hidden_points for e in exercises)
    return Points(here, later, sum(written_points(stem).values()))


def minutes_of(stem: str) -> int:
    return minutes(source_cells(stem), exercises_of(stem))


def too_long() -> list[str]:
    """A sentence for each notebook that takes a newcomer too long."""
    return [
        f"{stem} would take a newcomer {minutes_of(stem)} minutes. No notebook may take more than {MOST_MINUTES}: "
        "shorten it, or put the exercise into another one."
        for stem in stems()
        if minutes_of(stem) > MOST_MINUTES
    ]


def exercises_of(stem: str) -> list[Exercise]:
    return [e for e in all_exercises().values() if e.topic == stem.partition("_")[2]]


def footer_line(stem: str) -> str:
    return "---\n\n" + " · ".join(neighbour_links(stem))


def neighbour_links(stem: str) -> list[str]:
    every = stems()
    place = every.index(stem)
    links = []
    if place > 0:
        links.append(f"previous: [{every[place - 1]}]({every[place - 1]}.ipynb)")
    if place < len(every) - 1:
        links.append(f"next: [{every[place + 1]}]({every[place + 1]}.ipynb)")
    return links


def bootstrap_cell() -> NotebookNode:
    cell = nbformat.v4.new_code_cell(bootstrap_source(**course_settings()))
    cell.metadata.update(FOLDED)
    return marked(cell, "bootstrap", locked=True)


def give_ids(cells: list[NotebookNode]) -> None:
    """Ids that depend only on the content, so that a rebuild is identical to the last byte."""
    seen: dict[str, int] = {}
    for cell in cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        base = grade_id or cell_id(cell.source)
        count = seen[base] = seen.get(base, 0) + 1
        if grade_id and count > 1:
            raise SourceError(f"Two cells are called {grade_id!r}.")
        cell.id = base if count == 1 else f"{base}-{count}"


# --- the glossary ---------------------------------------------------------------------------------------


def glossary() -> Glossary:
    try:
        return Glossary.read(SOLUTIONS / "glossary.md")
    except GlossaryError as error:
        raise SourceError(str(error)) from None


def with_terms_linked(text: str, stem: str) -> str:
    try:
        return glossary().linked(text)
    except GlossaryError as error:
        raise SourceError(f"{stem}: {error}") from None


def unlinked_terms() -> list[str]:
    """The entries that no notebook links to."""
    texts = [source_text(stem) for stem in stems()]
    found = glossary()
    return sorted(set(found.entries) - found.used_in("\n".join(texts)), key=str.casefold)


def glossary_notebook() -> NotebookNode:
    """All entries; nothing in it is run or graded."""
    cells = glossary().cells()
    first = stems()[0]
    cells.append(nbformat.v4.new_markdown_cell(f"---\n\n[{title(first)}]({first}.ipynb)"))
    give_ids(cells)
    return new_notebook(cells)


# --- from solution notebook to student notebook ---------------------------------------------------------


def release(solutions: dict[str, str]) -> dict[str, str]:
    """The students' notebooks, made from the solution notebooks by nbgrader's generate step in a scratch course."""
    released = {}
    put_own_commands_on_path()
    with tempfile.TemporaryDirectory() as scratch:
        api = NbGraderAPI(config=Course(Path(scratch)).config())
        for stem, text in solutions.items():
            folder = Path(scratch, "source", stem)
            folder.mkdir(parents=True)
            (folder / f"{stem}.ipynb").write_text(text, encoding="utf-8")
            result = api.generate_assignment(stem)
            made = Path(scratch, "release", stem, f"{stem}.ipynb")
            if not result["success"] or not made.exists():
                raise SourceError(f"{stem}: nbgrader could not generate the assignment.\n{result.get('log', '')}")
            released[stem] = as_text(nbformat.read(made, as_version=4))
    return released


def as_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


# --- the map of the notebooks -----------------------------------------------------------------------------


def readme() -> str:
    """The README with its map of the notebooks brought up to date."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(MAP_BEGIN)
    _, end, after = rest.partition(MAP_END)
    if not end:
        raise SourceError(f"README.md: the lines {MAP_BEGIN!r} and {MAP_END!r} are missing.")
    return f"{before}{begin}\n{course_map_with_badges()}\n{end}{after}"


def course_map(folder: str = "") -> str:
    """A table with a line for each notebook: its title, what is built in it, minutes for a newcomer, and points."""
    lines = ["| notebook | you build | minutes | points |", "|---|---|---|---|"]
    for stem in stems():
        names = ", ".join(f"`{e.name}`" for e in exercises_of(stem))
        link = f"[{title(stem)}]({folder}{stem}.ipynb)"
        lines.append(f"| {link} | {names} | {minutes_of(stem)} | {points_of(stem).total:g} |")
    return "\n".join(lines)


def course_map_with_badges() -> str:
    """The map for the README: each line ends in the link that opens the notebook in Colab."""
    head, rule, *lines = course_map("notebooks/").splitlines()
    badges = [badge_markdown(notebook=f"{stem}.ipynb", **course_settings()) for stem in stems()]
    lines = [f"{line} {badge} |" for line, badge in zip(lines, badges, strict=True)]
    return "\n".join([f"{head} |", f"{rule}---|", *lines])


def contents() -> str:
    """The same for course_lib, which has no sources: the text of a module."""
    lines = [
        f"    ({json.dumps(stem)}, {json.dumps(title(stem), ensure_ascii=False)}, {minutes_of(stem)}, "
        f"{points_of(stem).written:g}),"
        for stem in stems()
    ]
    return "\n".join([CONTENTS_HEAD, *lines, ")", ""])


def title(stem: str) -> str:
    """The heading of a notebook: the first line of its source that is one."""
    lines = source_text(stem).splitlines()
    return next(line.removeprefix("# # ") for line in lines if line.startswith("# # "))


def coverage_pages() -> dict[Path, str]:
    """Which idea and which mistake of the source articles is taught where: docs/coverage.md and docs/errata.md."""
    try:
        return pages(ROOT / "docs")
    except CoverageError as error:
        raise SourceError(str(error)) from None


# --- the command ----------------------------------------------------------------------------------------


def build() -> dict[Path, str]:
    """Every file that is made from the sources: path -> content."""
    notebooks = {stem: solution_notebook(stem) for stem in stems()}
    for stem, notebook in notebooks.items():
        require_every_exercise(notebook, stem)
    solutions = {stem: as_text(notebook) for stem, notebook in notebooks.items()}
    files = {COURSE / "source" / stem / f"{stem}.ipynb": text for stem, text in solutions.items()}
    files |= {NOTEBOOKS / f"{stem}.ipynb": text for stem, text in release(solutions).items()}
    files |= {NOTEBOOKS / GLOSSARY: as_text(glossary_notebook())}
    return files | {CONTENTS: contents(), ROOT / "README.md": readme()} | coverage_pages()


def stale_files(files: dict[Path, str]) -> list[Path]:
    """The committed files that differ from what the sources give, and the notebooks that no longer have a source."""
    committed = {path: text for path, text in files.items() if not path.is_relative_to(COURSE)}
    changed = [path for path, text in committed.items() if not is_up_to_date(path, text)]
    return changed + [path for path in NOTEBOOKS.glob("*.ipynb") if path not in committed and is_leftover(path)]


def is_up_to_date(path: Path, text: str) -> bool:
    """Here or in git: if somebody has worked in a notebook of this checkout, that does not make it out of date."""
    return content_of(path) == text.encode() or in_git(path) == text.encode()


def has_work(path: Path) -> bool:
    return path.suffix == ".ipynb" and path.exists() and not is_untouched(content_of(path))


def is_leftover(path: Path) -> bool:
    """Was this notebook made from a source that has been renamed or removed since?"""
    return re.fullmatch(r"\d\d_\w+", path.stem) is not None and is_untouched(content_of(path))


def in_git(path: Path) -> bytes | None:
    """A file as it was last committed; None if it was not, or if there is no git here."""
    command = ["git", "show", f"HEAD:./{path.name}"]
    try:
        done = subprocess.run(command, cwd=path.parent, capture_output=True)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def write(path: Path, text: str) -> None:
    """Write a generated file. If somebody has worked in the one that is there, save that first."""
    if path.is_relative_to(COURSE):
        Course(COURSE).ledger.write(path, text)
        return
    if content_of(path) == text.encode():
        return
    if has_work(path):
        kept = keep_work(path, WORK)
        print(f"Somebody has worked in {path.relative_to(ROOT)}: that version was copied to {shown(kept)}")
    write_whole(path, text.encode())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.authoring.build", description="Build the notebooks.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something is out of date")
    options = parser.parse_args(arguments)
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    try:
        files = build()
    except (SourceError, CourseError) as error:
        print(error, file=sys.stderr)
        return 1
    stale = stale_files(files)
    if options.check:
        for path in stale:
            remedy = "make build" if path in files else "it has no source any more: delete it"
            print(f"out of date: {path.relative_to(ROOT)}  ({remedy})", file=sys.stderr)
        return 1 if stale else 0
    changed = [path for path, text in files.items() if content_of(path) != text.encode()]
    for path, text in files.items():
        write(path, text)
    for sentence in told_of_kept_files():
        print(sentence)
    for path in stale:
        if path not in files:
            print(f"{path.relative_to(ROOT)} has no source any more: delete it.")
    if unlinked := unlinked_terms():
        print(f"No notebook links to these entries of the glossary: {', '.join(unlinked)}")
    for sentence in too_long():
        print(sentence)
    changed = [path for path in changed if not path.is_relative_to(COURSE)]
    print(f"{len(stems())} notebooks built, {len(changed)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
