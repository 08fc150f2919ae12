"""A submission, rebuilt: the instructor's notebook with nothing of the student's in it but the student's text.

Nobody sanitises what a student hands in. The instructor's cells are taken, in the instructor's order, with the
instructor's types, points, ids and metadata, and the student's answers are put into their places. A tag, a changed
number of points, a deleted check or a retyped cell cannot do anything here, because nobody reads it, except for
telling the instructor.

Which cell of the file is which cell of the release?
1. by nbgrader's grade id;
2. where that is lost: the same text, the same cell id, the only cell that defines what the stub defined, and finally
the only cell between two neighbours that have been recognised. What is left over are the student's own extra cells.
Each stays after the cell that it came after. If it is not certain where an answer is, nothing is rebuilt: a person has
to look.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn

import nbformat
from nbformat import NotebookNode
from nbgrader.api import SourceCell
from nbgrader.utils import is_grade, is_locked, is_solution

from autograder.classroom.course import CourseError
from autograder.working_copy import cell_id, checksum

# A notebook with many pictures has some 10 MB. Reading one of this size costs about a second and half a gigabyte.
MOST_CHARACTERS = 64_000_000
# The longest answer of the course has 5,000 characters. More than this is data, and it would be stored several times.
MOST_CHARACTERS_OF_A_CELL = 500_000
MOST_CHARACTERS_OF_CODE = 1_000_000  # in all cells; a notebook of the course has 35,000, and all of it is parsed
MOST_CELLS = 2_000  # a notebook of the course has a hundred
MOST_NOTES = 30
MOST_NAMES = 6  # in one note

# In questions and in checks. Each run of digits and dots is tried once, or a long one would take for ever.
POINTS = re.compile(r"(?<![\w.])[\d.]++(?= points\b)|, points=[\d.]+, hidden_points=[\d.]+")
NUMBER_OF_ID = re.compile(r"-\d+$")  # of cells with equal texts
HIDDEN_TESTS = re.compile(r"^[^\n]*BEGIN HIDDEN TESTS.*?END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE)
DEFINITION = re.compile(r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
ASSIGNMENT = re.compile(r"^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


@dataclass(frozen=True)
class Rebuilt:
    """What is run, and saved as autograded."""

    notebook: NotebookNode
    students: tuple[bool, ...]  # for each cell: is it an answer, an extra cell or an edited demonstration?
    answers: dict[str, str]  # grade id of a solution cell -> the student's text
    notes: tuple[str, ...]  # for the instructor: what was odd about the file


class NotRebuilt(Exception):
    """A file from which no submission can be made: "zeroed" if nothing is in it, "flagged" if a person has to look."""

    def __init__(self, status: Literal["zeroed", "flagged"], reason: str):
        super().__init__(reason)
        self.status = status
        self.reason = reason


def master_notebook(release: NotebookNode, gradebook_cells: Mapping[str, SourceCell]) -> NotebookNode:
    """The release with what nbgrader's gradebook knows of its cells: the hidden tests, checksums, types and points.

    gradebook_cells: grade id -> cell, while the gradebook is open: `{c.name: c for c in notebook.source_cells}`.
    """
    master = nbformat.from_dict(release)
    unseen = dict(gradebook_cells)
    for cell in master.cells:
        details = cell.metadata.get("nbgrader", {})
        if "grade_id" not in details:
            continue
        source = unseen.pop(details.grade_id, None)
        if source is None:
            raise CourseError(f"The gradebook does not know the cell {details.grade_id}. Release the assignment again.")
        cell.cell_type, cell.source = source.cell_type, source.source
        details.update(cell_type=source.cell_type, locked=source.locked, checksum=source.checksum)
        if is_grade(cell):
            set_points(details, source)
    if unseen:
        raise CourseError(f"The release has lost the cell {next(iter(unseen))}. Release the assignment again.")
    return master


def set_points(details: NotebookNode, source: SourceCell) -> None:
    points = {cell.name: cell.max_score for cell in source.notebook.grade_cells}[source.name]
    if float(details.get("points", -1)) != points:
        details.points = points


def submitted_text(path: Path) -> str:
    """The text of a submitted file, whatever its bytes are, and no more of it than `rebuild` would read."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return file.read(MOST_CHARACTERS + 1)


def rebuild(master: NotebookNode, submitted: str) -> Rebuilt:
    """The instructor's notebook with the student's answers and extra cells.

    master: see `master_notebook`. submitted: the text of the file that was handed in, see `submitted_text`.
    Raises: NotRebuilt.
    """
    notes = Notes()
    cells = submitted_cells(submitted, notes)
    match = Match([Place(i, cell) for i, cell in enumerate(master.cells)], cells, notes)
    match.find_places()
    return assembled(master, match)


@dataclass
class Notes:
    """Sentences for the instructor; only a few, even if a file gives reason for thousands."""

    sentences: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        if sentence not in self.sentences[:MOST_NOTES]:
            self.sentences.append(sentence)

    def all(self) -> tuple[str, ...]:
        more = len(self.sentences) - MOST_NOTES
        return (*self.sentences[:MOST_NOTES], *([f"There are {more} more notes of this kind."] if more > 0 else []))


# --- reading the file -----------------------------------------------------------------------------------


class Cell:
    """One cell of the file that was handed in. Nothing in it is to be trusted, not even that it is a cell."""

    def __init__(self, cell: dict[str, Any], notes: Notes):
        kind = cell.get("cell_type")
        self.kind = kind if kind in ("code", "markdown", "raw") else "raw"
        self.text = text_of(cell.get("source"), notes)
        self.plain = plain(self.text)
        metadata = as_dict(cell.get("metadata"))
        self.details = as_dict(metadata.get("nbgrader"))
        self.grade_id = as_text(self.details.get("grade_id"))
        self.ids = {as_text(cell.get("id")), as_text(metadata.get("id"))} - {""}  # Colab keeps it in the metadata
        tags = metadata.get("tags")
        self.tags = [brief(tag) for tag in tags[:5]] if isinstance(tags, list) else []
        self.pictures = pictures(cell.get("attachments"))

    @cached_property
    def is_as_some_release_had_it(self) -> bool:
        """By nbgrader's checksum, or by an id that was made from the text. Somebody who forges one avoids a note, and
        gains nothing else."""
        if not self.details:
            return any(NUMBER_OF_ID.sub("", own) == cell_id(self.text) for own in self.ids)
        try:
            return bool(self.details["checksum"] == checksum(self.kind, self.text, self.details))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            return False

    @cached_property
    def defines(self) -> set[str]:
        return set(DEFINITION.findall(self.text))

    @cached_property
    def assigns(self) -> set[str]:
        return set(ASSIGNMENT.findall(self.text))


def submitted_cells(submitted: str, notes: Notes) -> list[Cell]:
    """The cells of the file, or NotRebuilt with the reason why there are none."""
    if len(submitted) > MOST_CHARACTERS:
        limit = f"more than {MOST_CHARACTERS / 1e6:.0f} million characters"
        raise NotRebuilt("flagged", f"The file is too large to be read ({limit}). Clear its outputs and grade again.")
    cells = notebook_data(submitted).get("cells")
    if not isinstance(cells, list):
        raise NotRebuilt("zeroed", "The file is JSON, but it has no list of cells: it is not a notebook.")
    if len(cells) > MOST_CELLS:
        raise NotRebuilt("flagged", f"The notebook has {len(cells)} cells. Look at it by hand.")
    if not all(isinstance(cell, dict) for cell in cells):
        notes.add("Something in the list of cells is not a cell. It was left out.")
    read = [Cell(cell, notes) for cell in cells if isinstance(cell, dict)]
    if not any(cell.plain for cell in read):
        raise NotRebuilt("zeroed", "The notebook is empty: none of its cells has any text.")
    if any(len(cell.text) > MOST_CHARACTERS_OF_A_CELL for cell in read):
        limit = f"{MOST_CHARACTERS_OF_A_CELL:,}"
        raise NotRebuilt("flagged", f"A cell has more than {limit} characters. Look at the notebook by hand.")
    if sum(len(cell.text) for cell in read if cell.kind == "code") > MOST_CHARACTERS_OF_CODE:
        limit = f"{MOST_CHARACTERS_OF_CODE:,}"
        raise NotRebuilt("flagged", f"There are more than {limit} characters of code. Look at the notebook by hand.")
    return read


def notebook_data(submitted: str) -> dict[str, Any]:
    """The JSON of a notebook in format 4; older formats are converted."""
    text = submitted.lstrip("\ufeff")
    if not text.strip():
        raise NotRebuilt("zeroed", "The file is empty.")
    try:
        data = json.loads(text)
    except RecursionError:
        raise NotRebuilt("zeroed", "The file is not a notebook: its JSON is nested too deeply to be read.") from None
    except ValueError as error:
        raise NotRebuilt("zeroed", f"The file is not a notebook: it is not valid JSON ({str(error)[:100]}).") from None
    if not isinstance(data, dict) or not {"cells", "worksheets", "nbformat"} & data.keys():
        raise NotRebuilt("zeroed", "The file is JSON, but not a notebook.")
    version = data.get("nbformat")
    if version == 4:
        return data
    if type(version) is int and 1 <= version <= 3:
        return converted(data)
    raise NotRebuilt("flagged", f"The notebook has the unknown format {brief(version)}. Save it in format 4.")


def converted(old: dict[str, Any]) -> dict[str, Any]:
    try:
        new: dict[str, Any] = nbformat.convert(nbformat.from_dict(old), to_version=4)
    except Exception:  # the converters trust their input, which is untrusted here
        raise NotRebuilt("flagged", "The notebook has an old format and cannot be converted to format 4.") from None
    return new


def text_of(source: Any, notes: Notes) -> str:
    """The text of a cell: a string, or a list of strings."""
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str))
    if not all(isinstance(line, str) for line in lines):
        notes.add("The text of a cell is not text, or only in part. What is not text was left out.")
    if not text.isascii():
        clean = text.encode("utf-8", "replace").decode("utf-8")
        if clean != text:
            notes.add("A text contains invalid characters (lone surrogates). They became question marks.")
        return clean
    return text


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def brief(value: Any) -> str:
    """A value out of the file, for a sentence. What is nested may be nested too deeply to be printed."""
    return printable(str(value)[:40]) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def printable(text: str) -> str:
    """A text that can be shown: no line ends, no control characters, no halves of characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


def pictures(attachments: Any) -> dict[str, dict[str, str]]:
    """The pictures that were pasted into a written answer, as far as they are nothing but pictures."""
    kept: dict[str, dict[str, str]] = {}
    for name, bundle in as_dict(attachments).items():
        for kind, data in as_dict(bundle).items():
            if name.isprintable() and kind in PICTURE_TYPES and isinstance(data, str) and BASE64.fullmatch(data):
                kept[name] = {kind: data}
    return kept


def plain(text: str) -> str:
    """A text without what editors and conversions change: line ends, and space at the ends of lines."""
    return "\n".join([line.rstrip() for line in text.strip().splitlines()])


def without_points(text: str) -> str:
    return POINTS.sub("", text)


def is_of_another_release(cell: Cell, place: Place) -> bool:
    """The class may have changed its points since. Without metadata, only the text tells."""
    if cell.is_as_some_release_had_it:
        return True
    return not cell.grade_id and without_points(cell.plain) == without_points(place.plain)


# --- which cell is which --------------------------------------------------------------------------------


class Place:
    """One cell of the instructor's notebook, for which the file may hold a cell."""

    def __init__(self, index: int, cell: NotebookNode):
        self.index = index
        self.cell = cell
        self.kind = cell.cell_type
        self.id = cell.get("id", "")
        self.details = cell.metadata.get("nbgrader", {})
        self.grade_id = self.details.get("grade_id", "")
        self.is_answer = is_solution(cell)
        self.is_locked = is_locked(cell)
        self.plain = plain(HIDDEN_TESTS.sub("", cell.source))  # as students see it
        self.names: set[str] = set()  # what only this answer defines

    @property
    def what(self) -> str:
        return f"The cell {self.grade_id}" if self.grade_id else "A cell of the text"


class Match:
    """The places of the instructor's notebook and the cells of the file, brought together."""

    def __init__(self, places: list[Place], cells: list[Cell], notes: Notes):
        self.places = places
        self.cells = cells
        self.notes = notes
        self.cell_at: dict[int, int] = {}  # index of a place -> index of the cell that belongs there
        self.place_of: dict[int, int] = {}  # the other way round
        self.elsewhere: dict[int, int] = {}  # index of a place -> index of the other answer's cell that answers it too
        self.answers = [place for place in places if place.is_answer]
        self.give_names()

    def give_names(self) -> None:
        """What an answer defines and no other instructor cell does; if possible, what the answer is named after."""
        defined = [set(DEFINITION.findall(place.cell.source)) for place in self.places]
        for answer in self.answers:
            others = set().union(*(names for i, names in enumerate(defined) if i != answer.index))
            own = defined[answer.index] - others
            answer.names = {answer.grade_id} if answer.grade_id in own else own

    def find_places(self) -> None:
        self.by_grade_id()
        has_grade_ids = bool(self.cell_at)
        self.by_text()
        self.by_cell_id()
        by_content = [answer for answer in self.missing_answers() if self.by_definition(answer)]
        by_content += [answer for answer in self.missing_answers() if self.by_neighbours(answer)]
        for place in self.places:
            if place.index not in self.cell_at and not place.is_answer and not place.is_locked:
                self.by_neighbours(place)
        if by_content:
            names = ", ".join(answer.grade_id for answer in by_content)
            self.notes.add(f"Answers without their grade ids were recognised by content and place: {names}.")
        self.judge_missing(has_grade_ids)
        self.note_what_changed()

    # The ways to recognise a cell, from the surest to the least sure.

    def by_grade_id(self) -> None:
        claims: dict[str, list[int]] = defaultdict(list)
        for number, cell in enumerate(self.cells):
            if cell.grade_id:
                claims[cell.grade_id].append(number)
        for place in sorted(self.places, key=lambda place: place.is_answer):  # answers last: they look for their checks
            claimed = claims.pop(place.grade_id, []) if place.grade_id else []
            copies = [number for number in claimed if not self.answers_another(self.cells[number], place)]
            if len(copies) < len(claimed):
                self.notes.add(f"A cell with the grade id {place.grade_id} holds the answer to another exercise.")
            if len(copies) > 1:
                self.notes.add(f"There are {len(copies)} cells with the grade id {place.grade_id}.")
            if copies:
                self.put(place, self.best_copy(place, copies))
        unknown = [
            name for name, own in claims.items() if not all(self.cells[n].is_as_some_release_had_it for n in own)
        ]
        if unknown:
            self.notes.add(f"A cell has the grade id {brief(unknown[0])!r}, which the release does not have.")

    def by_text(self) -> None:
        """By the same text, or, since a class may change its points, one that says other points."""
        for reading in (str, without_points):
            missing = [p for p in self.places if p.index not in self.cell_at and not p.is_answer and p.plain]
            wanted = {reading(place.plain): place for place in missing}
            for number in self.loose():
                place = wanted.pop(reading(self.cells[number].plain), None)
                if place:
                    self.put(place, number)

    def by_cell_id(self) -> None:
        by_id = {name: number for number in self.loose() for name in self.cells[number].ids}
        for place in self.places:
            number = by_id.get(place.id)
            if place.index in self.cell_at or number is None or number in self.place_of:
                continue
            if not self.answers_another(self.cells[number], place):
                self.put(place, number)

    def by_definition(self, answer: Place) -> bool:
        """The cell that defines what the stub defined, if there is only one, or the one right before the check."""
        loose = [(number, self.cells[number]) for number in self.loose()]
        candidates = (
            [number for number, cell in loose if cell.kind == "code" and cell.defines & answer.names]
            or [number for number, cell in loose if cell.kind == "code" and cell.assigns & answer.names]
            or [number for number, cell in loose if cell.defines & answer.names]
        )
        attempts = [number for number in candidates if self.cells[number].plain != answer.plain] or candidates[:1]
        if len({self.cells[number].plain for number in attempts}) > 1:
            attempts = [number for number in attempts if number == self.check_of(answer) - 1]
            if not attempts:
                names = " and ".join(sorted(answer.names))
                self.give_up(answer, f"several cells define {names}, and none of them is right before the check")
        if not attempts:
            return False
        self.put(answer, attempts[-1])
        return True

    def by_neighbours(self, place: Place) -> bool:
        """The only cell of its type between two neighbours that have been recognised."""
        rivals, between = self.gap_around(place)
        same_kind = [number for number in between if self.cells[number].kind == place.kind]
        if not same_kind and place.is_answer and len(rivals) == 1:
            same_kind = between
        if len(same_kind) != 1 or any(rival.kind == place.kind for rival in rivals if rival is not place):
            return False
        self.put(place, same_kind[0])
        return True

    # What they need.

    def put(self, place: Place, number: int) -> None:
        self.cell_at[place.index] = number
        self.place_of[number] = place.index

    def loose(self) -> list[int]:
        return [number for number in range(len(self.cells)) if number not in self.place_of]

    def missing_answers(self) -> list[Place]:
        return [answer for answer in self.answers if answer.index not in self.cell_at]

    def answers_another(self, cell: Cell, place: Place) -> bool:
        """Does this cell define what another exercise asks for, and not what belongs here?"""
        if not cell.defines or cell.plain == place.plain or cell.defines & place.names:
            return False
        return any(cell.defines & answer.names for answer in self.answers if answer is not place)

    def best_copy(self, place: Place, copies: list[int]) -> int:
        """The one of several cells with the same grade id that counts.

        nbgrader takes the last, and runs all of them in order; so the check meets the last one before it. The same
        here, but an untouched stub or a cell with something else in it never beats an answer.
        """
        if not place.is_answer:
            return next((number for number in copies if self.cells[number].plain == place.plain), copies[-1])
        attempts = [number for number in copies if self.cells[number].plain != place.plain] or copies
        naming = [number for number in attempts if self.cells[number].defines & place.names] or attempts
        check = self.check_of(place)
        return ([number for number in naming if number < check] or naming)[-1]

    def check_of(self, answer: Place) -> int:
        """The position of the cell after the answer in the file; far after all others if it is not known."""
        return self.cell_at.get(answer.index + 1, len(self.cells) + 1)

    def gap_around(self, place: Place) -> tuple[list[Place], list[int]]:
        """The places around this one that are still empty, and the cells that are there in the file."""
        before, after = place.index, place.index
        while before >= 0 and before not in self.cell_at:
            before -= 1
        while after < len(self.places) and after not in self.cell_at:
            after += 1
        start = self.cell_at.get(before, -1)
        stop = self.cell_at.get(after, len(self.cells))
        between = list(range(start + 1, stop))
        if any(number in self.place_of for number in between):  # the cells were moved around
            between = []
        return self.places[before + 1 : after], [number for number in between if self.cells[number].plain]

    # What is still missing, and what the instructor should know.

    def judge_missing(self, has_grade_ids: bool) -> None:
        """An answer that is not there was deleted, if that is certain. Otherwise a person has to look."""
        missing = self.missing_answers()
        if len(missing) == len(self.answers):
            self.nothing_recognised()
        for answer in missing:
            owner = self.owner_of(answer)
            if owner is not None:
                self.elsewhere[answer.index] = owner
                other = self.places[self.place_of[owner]].grade_id
                self.notes.add(f"The answer {answer.grade_id} is in the cell {other}.")
            elif not has_grade_ids or self.may_have_lost_its_id(answer):
                self.give_up(
                    answer, "the notebook has lost its metadata, and it is not certain which cell is this answer"
                )
            elif any(self.cells[number].kind == answer.kind for number in self.gap_around(answer)[1]):
                self.give_up(answer, "its cell is gone, and it is not certain which of several new cells replaces it")
            else:
                self.notes.add(f"The cell {answer.grade_id} is missing. It counts as not attempted.")

    def may_have_lost_its_id(self, answer: Place) -> bool:
        """Did other cells lose their grade ids: the check right after it, or any, with a cell left that might be it?"""
        lost = {i for i, number in self.cell_at.items() if self.places[i].grade_id and not self.cells[number].grade_id}
        loose = [self.cells[number] for number in self.loose()]
        return answer.index + 1 in lost or bool(lost and any(c.plain and c.kind == answer.kind for c in loose))

    def owner_of(self, answer: Place) -> int | None:
        """The cell of an earlier answer that holds this one too: two cells were merged."""
        earlier = [self.cell_at[a.index] for a in self.answers if a.index < answer.index and a.index in self.cell_at]
        return next((number for number in earlier if self.cells[number].defines & answer.names), None)

    def nothing_recognised(self) -> NoReturn:
        if any(self.cells[number].plain for number in self.loose()):
            reason = "No answer of this assignment can be recognised in the notebook. Is it another notebook?"
            raise NotRebuilt("flagged", reason)
        raise NotRebuilt("zeroed", "All answer cells are missing, and there is nothing else of the student's.")

    def give_up(self, answer: Place, why: str) -> NoReturn:
        raise NotRebuilt("flagged", f"It is not certain which cell is the answer {answer.grade_id}: {why}.")

    def note_what_changed(self) -> None:
        for place in self.places:
            number = self.cell_at.get(place.index)
            if number is not None:
                self.note_changes(place, self.cells[number])
        gone = [p for p in self.places if p.index not in self.cell_at and not p.is_answer]
        locked = [place.grade_id for place in gone if place.is_locked]
        if locked:
            self.notes.add(
                f"Locked cells were missing and have been restored: {some_of(locked)}. "
                "A copy that is older than the release may never have had them."
            )
        if any(not place.is_locked for place in gone):
            self.notes.add("Cells of the text or demonstrations are missing. They were restored.")

    def note_changes(self, place: Place, cell: Cell) -> None:
        is_older = place.is_locked and is_of_another_release(cell, place)
        if place.kind != cell.kind and (place.is_answer or place.is_locked):
            self.notes.add(f"{place.what} was turned from {place.kind} into {cell.kind}. It is {place.kind} again.")
        if place.is_locked and not is_older and cell.plain not in (place.plain, plain(place.cell.source)):
            self.notes.add(f"The locked cell {place.grade_id} was edited. The instructor's text was restored.")
        if not cell.grade_id or not place.grade_id:
            return
        if cell.grade_id != place.grade_id and not is_older:
            self.notes.add(f"{place.what} had the grade id {brief(cell.grade_id)!r}.")
        # The points of a written answer may be those of an earlier release: nobody can tell once it is answered.
        kept = (
            ()
            if is_older
            else ("grade", "solution", "locked")
            if place.is_answer
            else ("points", "grade", "solution", "locked")
        )
        for key in kept:
            if cell.details.get(key) != place.details.get(key) and key in place.details:
                changed = brief(cell.details.get(key))
                self.notes.add(f"{place.what} said {key} = {changed}. It is {place.details[key]} again.")
        if cell.tags:
            self.notes.add(f"{place.what} had the tags {', '.join(cell.tags)}. They were removed.")


def some_of(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"


# --- the notebook that is run ---------------------------------------------------------------------------


def assembled(master: NotebookNode, match: Match) -> Rebuilt:
    """The instructor's cells in their order, the student's text in the answers, the extra cells in between."""
    extras = extra_cells(match)
    cells: list[NotebookNode] = [extra_cell(cell) for cell in extras[-1]]
    students = [True] * len(cells)
    answers: dict[str, str] = {}
    for place in match.places:
        cell, is_students = filled(place, match)
        cells.append(cell)
        students.append(is_students)
        if place.is_answer:
            owner = match.elsewhere.get(place.index)
            answers[place.grade_id] = cell.source if owner is None else match.cells[owner].text
        cells += [extra_cell(extra) for extra in extras[place.index]]
        students += [True] * len(extras[place.index])
    give_ids(cells, {place.id for place in match.places})
    head = {key: value for key, value in master.items() if key != "cells"}
    notebook = nbformat.from_dict(head)
    notebook.cells = cells
    return Rebuilt(notebook, tuple(students), answers, match.notes.all())


def filled(place: Place, match: Match) -> tuple[NotebookNode, bool]:
    """The instructor's cell with the student's text where that is wanted, and whether the text is the student's."""
    cell = nbformat.from_dict(place.cell)
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    if place.index in match.elsewhere:
        cell.source = f"# {place.grade_id} is in another cell, further up."
        return cell, True
    number = match.cell_at.get(place.index)
    if number is None or place.is_locked:
        return cell, place.is_answer
    students = match.cells[number]
    edited = students.plain != place.plain and not students.is_as_some_release_had_it
    if place.is_answer or edited:
        cell.source = students.text
        if students.pictures and cell.cell_type != "code":
            cell.attachments = nbformat.from_dict(students.pictures)
    return cell, place.is_answer or edited


def extra_cells(match: Match) -> dict[int, list[Cell]]:
    """The student's own cells by the place that they follow (-1: before everything)."""
    stubs = {answer.plain: answer for answer in match.answers}
    locked = {place.plain for place in match.places if place.is_locked}
    extras: dict[int, list[Cell]] = defaultdict(list)
    behind = -1
    for number, cell in enumerate(match.cells):
        if number in match.place_of:
            behind = match.place_of[number]
        elif cell.plain and cell.plain in locked:
            match.notes.add("A check or another locked cell was pasted again. The copy was left out.")
        elif cell.plain and cell.plain in stubs:  # it would undo the answer
            match.notes.add(f"The empty cell {stubs[cell.plain].grade_id} was pasted again. The copy was left out.")
        else:
            extras[behind].append(cell)
            note_answer_in_extra(match, cell, behind)
    return extras


def note_answer_in_extra(match: Match, extra: Cell, behind: int) -> None:
    """An answer that is untouched, while what was asked for is in a cell of the student's own."""
    for answer in match.answers:
        number = match.cell_at.get(answer.index)
        if number is None or match.cells[number].plain != answer.plain:
            continue
        is_text_below = behind == answer.index and extra.plain and extra.kind == answer.kind == "markdown"
        if is_text_below or (extra.kind == "code" and extra.defines & answer.names):
            match.notes.add(
                f"{answer.what} is untouched, but the student wrote a cell of their own for it. Look at it."
            )


def extra_cell(cell: Cell) -> NotebookNode:
    made = NotebookNode(cell_type=cell.kind, metadata=NotebookNode(), source=cell.text)
    if cell.kind == "code":
        made.update(outputs=[], execution_count=None)
    elif cell.pictures and cell.kind == "markdown":
        made.attachments = nbformat.from_dict(cell.pictures)
    return made


def give_ids(cells: list[NotebookNode], used: set[str]) -> None:
    """Ids for the cells that have none: the same ones at each regrading, so that nothing changes without a reason."""
    count = 0
    for cell in cells:
        while "id" not in cell:
            count += 1
            if f"extra-{count}" not in used:
                cell.id = f"extra-{count}"
