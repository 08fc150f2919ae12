"""An assignment as a class wants it: one notebook or several in one, some exercises without points, others worth more.

What is built here is the instructor's notebook, with solutions, as `build.solution_notebook` makes it of one source.
An exercise that does not count stays where it is, with its check and its text: later sections may be read with it, and
whoever likes may still do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import nbformat
from nbformat import NotebookNode

from autograder.authoring import build
from autograder.classroom.class_file import AssignmentRules, Rules
from autograder.classroom.course import Course
from autograder.errors import CourseError
from autograder.hidden import all_hidden
from autograder.judging.judge import CHECK, HIDDEN, OPTIONAL, exercises_in, grade_id_of, is_written_answer
from course_lib.exercises import all_exercises


def assignments_of(rules: Rules) -> list[str]:
    """What is released by default: the assignments in class.toml, or every notebook if it has none."""
    return list(rules.assignments) or build.stems()


def require_assignment(course: Course, name: str) -> None:
    """Refuse a name that is neither a notebook of the course nor an assignment of the class. Raises: CourseError."""
    known = list(dict.fromkeys([*course.rules().assignments, *build.stems(), *course.released()]))
    if name not in known:
        raise CourseError(there_is_no("assignment", name, known))


def there_is_no(what: str, name: str, known: Sequence[str]) -> str:
    """A sentence that lists the known names, those that look most like this one first."""
    near = get_close_matches(name, known)
    listed = [*near, *(each for each in known if each not in near)]
    return f"There is no {what} {name}. There are: {', '.join(listed)}."


def assignment_notebook(rules: AssignmentRules) -> NotebookNode:
    """The instructor's notebook of an assignment. Raises: CourseError."""
    require_notebooks(rules)
    if rules.is_plain:
        return build.solution_notebook(rules.name)
    parts = [build.solution_notebook(stem).cells for stem in rules.notebooks]
    cells = parts[0] if len(parts) == 1 else joined(parts, rules)
    require_names(rules, cells)
    for name in exercises_in(cells):
        if rules.is_dropped(name):
            cells = without_points(cells, name)
        elif name in rules.points:
            give_points(cells, rules, name)
    for cell in cells:
        if is_written_answer(cell) and grade_id_of(cell) in rules.points:
            give_points_by_hand(cells, cell, rules.points[grade_id_of(cell)])
    if not exercises_in(cells):
        raise CourseError(f"class.toml: {rules.name} has no exercise left.")
    say_what_it_is_worth(cells, rules)
    build.give_ids(cells)
    return build.new_notebook(cells)


def require_notebooks(rules: AssignmentRules) -> None:
    stems = build.stems()
    unknown = [stem for stem in rules.notebooks if stem not in stems]
    if unknown:
        is_own = rules.notebooks == (rules.name,)  # class.toml names an assignment, and no notebooks for it
        hint = f" An assignment of another name says in class.toml, in [assignments.{rules.name}]: notebooks = […]"
        raise CourseError(there_is_no("notebook", unknown[0], stems) + (hint if is_own else ""))
    if list(rules.notebooks) != sorted(set(rules.notebooks)):
        raise CourseError(f"class.toml: the notebooks of {rules.name} have to be in the order of the course.")


def require_names(rules: AssignmentRules, cells: Sequence[NotebookNode]) -> None:
    known = exercises_in(cells)
    written = [grade_id_of(cell) for cell in cells if is_written_answer(cell)]
    chosen = [(said, known) for said in [*rules.drop, *rules.exercises]]
    for said, choice in [*chosen, *((said, [*known, *written]) for said in rules.points)]:
        if said in written and choice is known:
            raise CourseError(
                f"class.toml: {rules.name}: {said} is a written question, and drop and exercises name exercises only. "
                f"Its points can be changed: points = {{ {said} = 1 }}"
            )
        if said not in choice:
            near = get_close_matches(said, choice, n=1)
            guess = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(choice)}."
            raise CourseError(f"class.toml: {rules.name} has no exercise {said}.{guess}")


def joined(parts: Sequence[list[NotebookNode]], rules: AssignmentRules) -> list[NotebookNode]:
    """The notebooks one after another: one set-up cell, no links from one to the next."""
    cells: list[NotebookNode] = []
    for stem, part in zip(rules.notebooks, parts, strict=True):
        own = part[:-1]  # the last one has only links
        own[0].source = own[0].source.replace(build.header_line(stem), build.worth(stem))
        cells += own if not cells else [cell for cell in own if grade_id_of(cell) != "bootstrap"]
    title = f"# {rules.name.replace('_', ' ')}\n\nMade from {', '.join(rules.notebooks)}."
    return [nbformat.v4.new_markdown_cell(title), *cells]


def without_points(cells: list[NotebookNode], name: str) -> list[NotebookNode]:
    """Make the check one without points, remove the hidden one, and say so in the text."""
    for cell in cells:
        if grade_id_of(cell) == name + CHECK:
            build.marked(cell, name + OPTIONAL, locked=True)
            cell.metadata.nbgrader.pop("points", None)
    say(cells, name, "not counted in this class")
    return [cell for cell in cells if grade_id_of(cell) != name + HIDDEN]


def give_points(cells: list[NotebookNode], rules: AssignmentRules, name: str) -> None:
    visible, hidden = rules.worth(name, all_exercises()[name].max_points, all_hidden()[name].points)
    for cell in cells:
        if grade_id_of(cell) == name + CHECK:
            cell.metadata.nbgrader.points = visible
            old, new = f"{name})", f"{name}, points={visible:g}, hidden_points={hidden:g})"
            cell.source = cell.source.replace(old, new)
        elif grade_id_of(cell) == name + HIDDEN:
            cell.metadata.nbgrader.points = hidden
            cell.source = cell.source.replace(f"{name})", f"{name}, points={hidden:g})")
    say(cells, name, f"{visible:g} points here, {hidden:g} more when graded")


def give_points_by_hand(cells: list[NotebookNode], answer: NotebookNode, points: float) -> None:
    """The line above a written answer says its points."""
    before = f"{answer.metadata.nbgrader.points:g} points, marked by hand"
    answer.metadata.nbgrader.points = points
    place = next(i for i, cell in enumerate(cells) if cell is answer)
    for cell in reversed(cells[:place]):
        if cell.cell_type == "markdown" and before in cell.source:
            cell.source = cell.source.replace(before, f"{points:g} points, marked by hand")
            return


def say(cells: list[NotebookNode], name: str, words: str) -> None:
    """Write what an exercise is worth in this class into the line that shows its points."""
    exercise = all_exercises()[name]
    before = f"{exercise.max_points:g} points here, {exercise.hidden_points:g} more when graded"
    for cell in cells:
        if cell.cell_type == "markdown" and f"**Exercise `{name}`** · {before}" in cell.source:
            cell.source = cell.source.replace(f"`{name}`** · {before}", f"`{name}`** · {words}")


def say_what_it_is_worth(cells: list[NotebookNode], rules: AssignmentRules) -> None:
    """The line under each title says the points of the course: here, those of the class."""
    graded = [cell.metadata.nbgrader for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]
    total = sum(details.points for details in graded)
    later = sum(details.points for details in graded if details.grade_id.endswith(HIDDEN))
    by_hand = sum(cell.metadata.nbgrader.points for cell in cells if is_written_answer(cell))
    here = total - later - by_hand
    parts = f"{here:g} in the checks, {later:g} more when graded, {by_hand:g} marked by hand"
    words = f"{total:g} points in this class ({parts})"
    if len(rules.notebooks) > 1:
        cells[0].source += f"\n\n{words}"
    for stem in rules.notebooks:
        minutes, _, _ = build.worth(stem).partition(" · ")
        for cell in cells:
            if build.worth(stem) in cell.source:
                line = minutes if len(rules.notebooks) > 1 else f"{minutes} · {words}"
                cell.source = cell.source.replace(build.worth(stem), line)
