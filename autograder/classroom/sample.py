"""A fictitious class of 24, to see the grader at work and to test it.

`sample_class` writes a folder as a learning platform gives it. Each student is one small function below, whose
docstring says what this person did. The answers are the exercises' own alternatives and misconceptions, so it is known
what the grader has to find in each. `crowd` makes as many honest submissions as a measurement needs.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import json
import math
import os
import symtable
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.classroom.answers import cell_source, grade_id_of, standing_alone, with_names
from autograder.classroom.course import Course, CourseError
from autograder.files import Ledger
from autograder.judging.verdict import Status
from course_lib.checking.exercise import Exercise
from course_lib.checking.sources import tables_of
from course_lib.exercises import all_exercises

RIGHT, NOTHING = "right", "nothing"  # what is expected of an exercise, if not the id of a misconception

MOODLE = "{name}_"  # begins the names of folders that come from there
STUB = "raise NotImplementedError()"
WRITTEN_ANSWERS = (
    "The picture above shows it: what is hidden gets no weight, and so it cannot change the result.",
    "I would look at the shapes first. If they are right, then at the values on a very small example.",
    "It sees what it should not see. So it has nothing to learn, and later, when that is missing, it fails.",
    "I am not sure. I think that $softmax(x)$ is computed over the wrong axis.",
    "Because the loss is an average, and an average hides the few places that matter.",
)


@dataclass(frozen=True)
class SampleStudent:
    """One member of the class: what was handed in, and what the grader has to make of it."""

    id: str
    name: str
    kind: str
    says: str  # what this student did, in a sentence
    file: str  # what was handed in, inside the folder; a folder if there is no notebook in it
    status: Status | None  # None where there is nothing to grade, which `collect` has to say
    expected: dict[str, str]  # exercise -> RIGHT (full points), NOTHING (no points), or the id of its misconception
    submitted: datetime
    stock: bool  # whether stock nbgrader comes to the same scores


@dataclass(frozen=True)
class Kind:
    """A way to hand something in. `work` does it; its docstring says what it is."""

    work: Callable[[Work], None]
    name: str
    file: str
    status: Status | None
    hours_late: float
    stock: bool

    @property
    def id(self) -> str:
        """lindqvistmara, as Canvas calls people in the names of files; Mara_Lindqvist, as Moodle does."""
        first, last = self.name.split()
        return f"{first}_{last}" if self.file.startswith(MOODLE) else (last + first).lower()


CLASS: list[Kind] = []


def student(
    name: str,
    file: str = "{id}/{assignment}.ipynb",
    status: Status | None = "graded",
    days_late: float = 0,
    stock: bool = True,
) -> Callable[[Callable[[Work], None]], Callable[[Work], None]]:
    """Decorator: one more student of the class."""

    def enrol(work: Callable[[Work], None]) -> Callable[[Work], None]:
        hours_early = 3 + 7 * len(CLASS)
        CLASS.append(Kind(work, name, file, status, 24 * days_late if days_late else -hours_early, stock))
        return work

    return enrol


# --- what the students work with ------------------------------------------------------------------------


@dataclass(frozen=True)
class Desk:
    """One assignment: its released notebook, and all the answers that may be written into it."""

    course: Course
    assignment: str

    @cached_property
    def release(self) -> NotebookNode:
        return read_notebook(self.course.release(self.assignment), self.course.command("release"))

    @cached_property
    def source(self) -> NotebookNode:
        return read_notebook(self.course.source(self.assignment), "make build")

    @cached_property
    def exercises(self) -> list[Exercise]:
        """In the order of the notebook."""
        known = all_exercises()
        return [known[name] for name in map(grade_id_of, self.release.cells) if name in known]

    @cached_property
    def right(self) -> dict[str, list[str]]:
        """exercise -> right answers: the solution, then the alternatives."""
        return {
            e.name: [self.solution(e.name), *standing_alone(e, e.alternatives, self.release).values()]
            for e in self.exercises
        }

    @cached_property
    def wrong(self) -> dict[str, dict[str, str]]:
        """exercise -> misconception's id -> the answer of somebody who has it."""
        return {e.name: standing_alone(e, e.misconceptions, self.release) for e in self.exercises}

    def solution(self, name: str) -> str:
        lines = cell_source(self.source, name).splitlines()
        return "\n".join(line for line in lines if not line.strip().startswith("### "))


def read_notebook(path: Path, command: str) -> NotebookNode:
    if not path.exists():
        raise CourseError(f"There is no {path}: run `{command}` first, and check the assignment's name.")
    return nbformat.read(path, as_version=4)


@dataclass
class Work:
    """One student's notebook while it is being written."""

    desk: Desk
    notebook: NotebookNode = field(init=False)
    expected: dict[str, str] = field(init=False)
    text: str | None = None  # of the file, where it is not what the notebook says

    def __post_init__(self) -> None:
        self.notebook = copy.deepcopy(self.desk.release)
        self.expected = {exercise.name: NOTHING for exercise in self.desk.exercises}

    def exercise(self, place: int) -> Exercise:
        """The exercise at a place. Notebooks with few exercises are gone through again and again."""
        return self.desk.exercises[place % len(self.desk.exercises)]

    def cell(self, grade_id: str) -> NotebookNode:
        return next(cell for cell in self.notebook.cells if grade_id_of(cell) == grade_id)

    def put(self, place: int, text: str, expected: str) -> None:
        """Write an answer into the cell of an exercise."""
        name = self.exercise(place).name
        self.cell(name).source = text
        self.expected[name] = expected

    def stub(self, place: int) -> str:
        return cell_source(self.desk.release, self.exercise(place).name)

    def answer(self, place: int, turn: int = 0) -> None:
        """A right answer: turn 0 is the solution, the others are alternatives."""
        texts = self.desk.right[self.exercise(place).name]
        self.put(place, texts[turn % len(texts)], RIGHT)

    def answer_all(self, turn: int = 0) -> None:
        for place in range(len(self.desk.exercises)):
            self.answer(place, turn)
        self.write_prose(turn)

    def misunderstand(self, place: int, turn: int) -> None:
        """An answer with a misconception."""
        mistakes = list(self.desk.wrong[self.exercise(place).name].items())
        mistake, text = mistakes[turn % len(mistakes)]
        self.put(place, text, mistake)

    def write_prose(self, turn: int = 0) -> None:
        """Something in the cells that are marked by hand."""
        for cell in self.notebook.cells:
            if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = WRITTEN_ANSWERS[turn % len(WRITTEN_ANSWERS)]

    def as_text(self) -> str:
        return json.dumps(self.notebook, indent=1, ensure_ascii=False) + "\n" if self.text is None else self.text


# --- the class: people who hand in what one expects -----------------------------------------------------


@student("Mara Lindqvist")
def the_solution(work: Work) -> None:
    """Answers everything as the course itself does."""
    work.answer_all()


@student("Tomasz Wieczorek")
def other_ways(work: Work) -> None:
    """Answers everything correctly, and nothing as the course does."""
    work.answer_all(turn=1)


@student("Amara Okonjo", file="{id}/masks final (2).ipynb")
def renamed_file(work: Work) -> None:
    """Answers everything correctly, in yet other ways, and hands the file in under a name of her own."""
    work.answer_all(turn=2)


@student("Jonas Brandt")
def one_mistake(work: Work) -> None:
    """Has one misconception, the one that several others have too."""
    work.answer_all()
    work.misunderstand(0, turn=0)


@student("Priya Raman")
def two_mistakes(work: Work) -> None:
    """Has two misconceptions, both of which others share."""
    work.answer_all(turn=3)
    work.misunderstand(0, turn=0)
    work.misunderstand(2, turn=1)


@student("Lucas Ferreira")
def three_mistakes(work: Work) -> None:
    """Has three misconceptions, in three exercises."""
    work.answer_all(turn=1)
    work.misunderstand(0, turn=0)
    work.misunderstand(1, turn=4)
    work.misunderstand(3, turn=2)


@student("Inez Vasquez", file="{id}_LATE_40213_88012_{assignment}-1.ipynb", days_late=2)
def late(work: Work) -> None:
    """Hands in two days after the due date, through Canvas, with two misconceptions."""
    work.answer_all(turn=2)
    work.misunderstand(2, turn=1)
    work.misunderstand(4, turn=3)


@student("Hannah Keller")
def lent_her_notebook(work: Work) -> None:
    """Has two misconceptions, and lends the notebook to a friend."""
    shared_answers(work)


@student("Felix Aumann")
def borrowed_a_notebook(work: Work) -> None:
    """Hands in his friend's answers with other names and another layout."""
    shared_answers(work)
    for place in range(len(work.desk.exercises)):
        cell = work.cell(work.exercise(place).name)
        cell.source = disguised(cell.source)


def shared_answers(work: Work) -> None:
    """In her own way of writing: what the course itself knows may be the same in any two notebooks."""
    work.answer_all(turn=4)
    work.misunderstand(1, turn=4)
    work.misunderstand(3, turn=5)
    for place in range(len(work.desk.exercises)):
        cell = work.cell(work.exercise(place).name)
        cell.source = in_small_steps(cell.source)


@student("Oskar Nyman")
def blank(work: Work) -> None:
    """Hands in the notebook with a remark and no answer."""
    cell = work.cell(work.exercise(0).name)
    cell.source += "\n# I did not get to this."


@student("Leila Haddad")
def half_blank(work: Work) -> None:
    """Answers the first half correctly and does not get to the second."""
    for place in range(len(work.desk.exercises) // 2):
        work.answer(place, turn=1)


# --- the class: people whose code does not run ----------------------------------------------------------


@student("Daniel Osei")
def syntax_error(work: Work) -> None:
    """Leaves a bracket open in one answer; the others are right."""
    work.answer_all()
    work.put(1, work.stub(1).replace(STUB, "return torch.ones((2, 3)"), NOTHING)


@student("Yuki Tanabe")
def raises_when_called(work: Work) -> None:
    """Uses a name that does not exist: one answer raises an error as soon as it is called."""
    work.answer_all(turn=2)
    work.put(2, work.stub(2).replace(STUB, "return undefined_tensor.T"), NOTHING)


@student("Sofia Marchetti", stock=False)
def crashes(work: Work) -> None:
    """Reads from address 0 in one answer: the whole process is gone when it is called. The others are right."""
    work.answer_all()
    work.put(3, "import ctypes\n\n\n" + work.stub(3).replace(STUB, "ctypes.string_at(0)"), NOTHING)


@student("Ravi Menon", stock=False)
def endless_when_called(work: Work) -> None:
    """Waits for something that never happens, in one answer. The others are right."""
    work.answer_all(turn=1)
    work.put(2, work.stub(2).replace(STUB, "while True: pass"), NOTHING)


@student("Clara Dubois", stock=False)
def endless_in_a_cell(work: Work) -> None:
    """Left a loop without an end below an unfinished answer: this cell never ends. The other answers are right."""
    work.answer_all(turn=2)
    work.put(1, work.stub(1) + "\n\n\nattempts = 0\nwhile attempts < 10:\n    attempts -= 1", NOTHING)


# --- the class: files that something has happened to ----------------------------------------------------


@student("Mikkel Sorensen", status="zeroed", stock=False)
def broken_json(work: Work) -> None:
    """Hands in a file whose end is missing: it is not a notebook any more."""
    work.answer_all()
    text = work.as_text()
    work.text = text[: len(text) * 2 // 3]
    work.expected = {}


@student("Nadia Petrova", file="{id}/answers.txt", status=None, stock=False)
def no_notebook(work: Work) -> None:
    """Hands in a text file and no notebook."""
    work.text = "Dear all, my notebook does not open. I hope that this counts.\n"
    work.expected = {}


@student("Samuel Adeyemi")
def through_colab(work: Work) -> None:
    """Worked in Colab, which drops the cells' ids, adds metadata of its own, and saves the outputs."""
    work.answer_all(turn=3)
    work.misunderstand(0, turn=0)
    work.notebook.nbformat_minor = 0
    work.notebook.metadata["colab"] = {"provenance": [], "toc_visible": True}
    for number, cell in enumerate(work.notebook.cells):
        del cell["id"]
        cell.metadata["id"] = f"cOlAb{number:03d}"
        if cell.cell_type == "code":
            cell.metadata["colab"] = {"base_uri": "https://localhost:8080/"}
            cell.execution_count = number
            cell.outputs = [{"output_type": "stream", "name": "stdout", "text": f"cell {number} has run\n"}]


@student("Greta Holm", stock=False)
def lost_the_metadata(work: Work) -> None:
    """Used an editor that dropped all metadata of the cells, nbgrader's too, and their ids."""
    work.answer_all(turn=1)
    for cell in work.notebook.cells:
        del cell["id"]
        cell.metadata = {}
    work.notebook.nbformat_minor = 4


# --- the class: people who changed more than their answers ----------------------------------------------


@student("Victor Lam", file="{id}_{assignment}.ipynb")
def helper_in_a_cell_of_its_own(work: Work) -> None:
    """Wrote the first answer in an extra cell above, under another name, and refers to it in the answer."""
    work.answer_all()
    name = work.exercise(0).name
    cell = work.cell(name)
    helper = nbformat.v4.new_code_cell(cell.source.replace(name, f"my_{name}"), id="helper")
    work.notebook.cells.insert(work.notebook.cells.index(cell), helper)
    work.put(0, f"{name} = my_{name}", RIGHT)


@student("Elif Demir", file="{name}_51877_assignsubmission_file_/{assignment}.ipynb")
def edited_a_check(work: Work) -> None:
    """Changed a check to see more, and left it so; has one misconception."""
    work.answer_all(turn=2)
    work.misunderstand(1, turn=4)
    name = work.exercise(0).name
    work.cell(f"{name}_check").source = f"from course_lib import check\n\nprint({name})\nreport = check({name})"


@student("Pavel Novotny", stock=False)
def duplicated_a_cell(work: Work) -> None:
    """Copied the cell of an answer to keep it safe: two cells now have one name."""
    work.answer_all(turn=1)
    cell = work.cell(work.exercise(1).name)
    twin = copy.deepcopy(cell)
    twin.id = f"{cell.id}-copy"
    work.notebook.cells.insert(work.notebook.cells.index(cell), twin)


@student("Ines Moreau", stock=False)
def imports_the_reference(work: Work) -> None:
    """Answers one exercise by importing the course's own answer to it."""
    work.answer_all(turn=3)
    exercise = work.exercise(1)
    work.put(1, f"from {exercise.reference.__module__} import {exercise.name}", NOTHING)


# --- another way of writing, other names, other layout ----------------------------------------------------


def in_small_steps(text: str) -> str:
    """The same program, with a line and a name for each step of a long expression, as some people write."""
    return ast.unparse(ast.fix_missing_locations(SmallSteps().visit(ast.parse(text))))


class SmallSteps(ast.NodeTransformer):
    """Gives a name to each part of an expression that is more than a name, in the order in which Python needs them."""

    STEPS = (ast.Call, ast.BinOp, ast.Compare, ast.Subscript, ast.Attribute)
    TRANSPARENT = (*STEPS, ast.keyword, ast.UnaryOp, ast.Tuple, ast.List, ast.Slice)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self.rewritten(node.body)
        return node

    def rewritten(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            for block in ("body", "orelse", "finalbody"):
                if isinstance(inner := getattr(statement, block, None), list):
                    setattr(statement, block, self.rewritten(inner))
            if isinstance(statement, ast.Assign | ast.Return) and statement.value is not None:
                self.take_apart(statement.value, made)
            made.append(statement)
        return made

    def take_apart(self, node: Any, made: list[ast.stmt]) -> None:
        """Put the parts of an expression before it, except those that may run never or more than once."""
        for place, value in ast.iter_fields(node) if isinstance(node, self.TRANSPARENT) else ():
            if isinstance(value, list):
                setattr(node, place, [self.step(part, made) for part in value])
            elif isinstance(node, ast.Call) and value is node.func:
                self.take_apart(value, made)  # `x.sum` without its brackets is not a step
            elif isinstance(value, ast.AST):
                setattr(node, place, self.step(value, made))

    def step(self, node: Any, made: list[ast.stmt]) -> Any:
        self.take_apart(node, made)
        if not isinstance(node, self.STEPS) or is_super(node):
            return node
        name = f"step_{len(made)}"
        made.append(ast.Assign([ast.Name(name, ast.Store())], node, lineno=0))
        return ast.Name(name, ast.Load())


def is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def disguised(text: str) -> str:
    """The same program for a machine: local names changed, comments removed, new layout."""
    renamed = {name: f"{name}_" if len(name) > 1 else name * 2 for name in local_variables(text)}
    return "# my own solution\n" + ast.unparse(ast.parse(with_names(text, renamed)))


def local_variables(text: str) -> set[str]:
    """Variables that can be renamed without changing anything: not arguments, not names of inner functions."""
    tree = ast.parse(text)
    functions = [t for t in tables_of(symtable.symtable(text, "answer", "exec")) if isinstance(t, symtable.Function)]
    local = {name for table in functions for name in table.get_locals()}
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    outer = {name for table in functions for name in (*table.get_globals(), *table.get_nonlocals())}
    return {name for name in local - arguments - defined - outer if name.isidentifier()}


# --- writing them down ----------------------------------------------------------------------------------


def sample_due_date(assignment: str) -> datetime:
    """A Friday evening, one week after the previous assignment."""
    number = int(assignment.partition("_")[0])
    return datetime(2026, 9, 4, 18, tzinfo=UTC) + timedelta(weeks=number)


def sample_class(course: Course, assignment: str, folder: Path) -> list[SampleStudent]:
    """Write the submissions of 24 fictitious students into the folder, as a learning platform would give them."""
    desk = Desk(course, assignment)
    return [hand_in(desk, kind, folder) for kind in CLASS]


def hand_in(desk: Desk, kind: Kind, folder: Path) -> SampleStudent:
    work = Work(desk)
    kind.work(work)
    file = kind.file.format(id=kind.id, name=kind.name, assignment=desk.assignment)
    submitted = sample_due_date(desk.assignment) + timedelta(hours=kind.hours_late)
    write_dated(desk.course.ledger, folder / file, work.as_text(), submitted)
    says = " ".join(inspect.cleandoc(kind.work.__doc__ or "").split())
    return SampleStudent(
        kind.id, kind.name, kind.work.__name__, says, file, kind.status, work.expected, submitted, kind.stock
    )


def write_dated(ledger: Ledger, path: Path, text: str, when: datetime) -> None:
    """Write a file as if at that time: a platform keeps the time of submission in the file's date."""
    ledger.write(path, text)
    os.utime(path, (when.timestamp(), when.timestamp()))


def crowd(course: Course, assignment: str, count: int, folder: Path) -> list[SampleStudent]:
    """Write this many honest submissions, no two of them alike: right answers and misconceptions in turn.

    In every fifth of them somebody has misspelt a name.
    """
    desk = Desk(course, assignment)
    choices = [answers_in_turns(desk, exercise.name) for exercise in desk.exercises]
    possible = math.prod(map(len, choices))
    if count > possible:
        raise CourseError(f"{assignment} has {possible} different submissions; {count} are too many.")
    return [one_of_many(desk, choices, number, folder) for number in range(count)]


def answers_in_turns(desk: Desk, name: str) -> list[tuple[str, str]]:
    """(what is expected, the answer) of everything known about an exercise: one right, one wrong, one right, …"""
    right = [(RIGHT, text) for text in desk.right[name]]
    wrong = list(desk.wrong[name].items())
    mixed = itertools.zip_longest(right, wrong)
    return [choice for pair in mixed for choice in pair if choice is not None]


def one_of_many(desk: Desk, choices: list[list[tuple[str, str]]], number: int, folder: Path) -> SampleStudent:
    work = Work(desk)
    rest, shift = number, 0
    for place, texts in enumerate(choices):
        rest, digit = divmod(rest, len(texts))
        # Two neighbours differ in their first digit; shifted by the digits before, they differ in every answer.
        expected, text = texts[(digit + shift) % len(texts)]
        shift += digit
        if number % 5 == 4 and place == number // 5 % len(choices) and "torch." in text:
            text, expected = text.replace("torch.", "troch.", 1), NOTHING
        work.put(place, text, expected)
    work.write_prose(number)
    id, file = f"student{number:04d}", f"student{number:04d}/{desk.assignment}.ipynb"
    submitted = sample_due_date(desk.assignment) - timedelta(minutes=number + 1)
    write_dated(desk.course.ledger, folder / file, work.as_text(), submitted)
    return SampleStudent(
        id, f"Student {number}", "honest", "One of many.", file, "graded", work.expected, submitted, stock=True
    )
