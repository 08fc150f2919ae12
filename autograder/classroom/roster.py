"""The roster: who is in the class. A CSV file named in class.toml, your own or as Moodle or Canvas export it.

With a roster, every submission belongs to somebody on the list, or it is reported. Names and e-mail
addresses go into nbgrader's gradebook, extra time counts at every deadline, LMS numbers go into the exports.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path

from autograder.classroom.class_file import duration, read_rules
from autograder.errors import CourseError

# Our column -> what other programs call it. Compared in small letters, with single spaces for all other signs.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("student id",),
    "first_name": ("first name", "given name", "forename", "vorname"),
    "last_name": ("last name", "surname", "family name", "nachname"),
    "name": ("full name", "student", "student name", "vollstandiger name"),
    "email": ("email address", "e mail", "mail", "e mail address", "e mail adresse"),
    "group": ("groups", "section", "department", "gruppe", "gruppen"),
    "extra_time": ("extra time", "additional time", "zeitverlangerung"),
    "username": ("user name", "login", "login id", "sis login id", "anmeldename"),
    "number": ("id number", "student number", "matriculation number", "matrikelnummer", "sis user id", "sis id"),
    "canvas_id": ("canvas id", "canvas user id"),
    "github": ("github username", "github login", "git hub"),
}
ENCODINGS = ("utf-8-sig", "utf-16", "cp1252")
LONGEST_ID = 200  # bytes: file systems take names of 255, and endings have to fit
CANVAS_ASSIGNMENT = re.compile(r"\s*(?P<name>.+?) \(\d+\)\s*")
CANVAS_HEAD = "sis login id"  # a table with this column is Canvas' gradebook: its `ID` means another thing


@dataclass(frozen=True)
class Person:
    """Somebody in the class. `id` is the name of their folder and their id in the gradebook."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    group: str = ""
    extra_time: timedelta = timedelta()
    username: str = ""
    number: str = ""
    canvas_id: str = ""
    github: str = ""

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.id

    @property
    def sortable_name(self) -> str:
        return ", ".join(filter(None, [self.last_name, self.first_name])) or self.id

    def known_as(self) -> set[str]:
        """Every name that a download may have for this person."""
        first, last = self.first_name, self.last_name
        said = [self.id, self.username, self.number, self.email, self.email.partition("@")[0], self.github]
        said += [f"{first} {last}", f"{last} {first}"] if first and last else [first or last]
        return {key(text) for text in said} - {""}


@dataclass(frozen=True)
class Roster:
    people: Sequence[Person] = field(default_factory=tuple)
    path: Path | None = None
    canvas_heads: Mapping[str, str] = field(default_factory=dict)  # assignment -> Canvas' column, with its number

    def __bool__(self) -> bool:
        return bool(self.people)

    @cached_property
    def by_id(self) -> dict[str, Person]:
        return {person.id: person for person in self.people}

    def called(self, student: str) -> str:
        """`Ada Lovelace (al1815)`, as messages say it; the id alone of somebody whose name is not known."""
        person = self.by_id.get(student)
        return student if person is None or person.name == student else f"{person.name} ({student})"

    @cached_property
    def by_key(self) -> dict[str, set[str]]:
        """what somebody may be called -> ids."""
        found: dict[str, set[str]] = defaultdict(set)
        for person in self.people:
            for each in person.known_as():
                found[each].add(person.id)
        return found

    def find(self, said: Iterable[str], canvas_id: str = "") -> list[Person]:
        """The people that one of these names may mean. Canvas' number comes first, since it is certain."""
        if canvas_id:
            certain = [person for person in self.people if person.canvas_id == canvas_id]
            if certain:
                return certain
        ids = set().union(*(self.by_key.get(key(text), set()) for text in said))
        return [person for person in self.people if person.id in ids]

    def with_login(self, login: str) -> list[Person]:
        """Those with this login at GitHub, where k-goedel and kgoedel are two people."""
        return [person for person in self.people if person.github.casefold() == login.casefold() != ""]

    def extra_time(self, student: str) -> timedelta:
        person = self.by_id.get(student)
        return person.extra_time if person else timedelta()


def student_id(name: str) -> str:
    """A name as nbgrader can use it for a folder: letters, digits, _ - and . (no +, which it uses itself)."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    safe = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", letters)).strip("_.-")
    return safe[:100].encode()[:LONGEST_ID].decode(errors="ignore").strip("_.-")


def key(text: str) -> str:
    """A name without what programs change in it: accents, case, spaces and signs."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return re.sub(r"[\W_]+", "", letters.casefold())


def read_roster(folder: Path) -> Roster:
    """The roster of the class in this folder; an empty one if class.toml names none. Raises: CourseError."""
    name = read_rules(folder).roster
    if not name:
        return Roster()
    return roster_in(folder / name, content(folder / name))


@lru_cache(maxsize=4)  # asked for each submission
def roster_in(path: Path, data: bytes) -> Roster:
    people = [person for row in table(path, decoded(data)) if (person := person_of(row, path))]
    if not people:
        raise CourseError(f"{path}: this roster is empty.")
    seen: dict[str, Person] = {}
    for person in people:
        other = seen.setdefault(person.id.casefold(), person)
        if other is not person:
            raise CourseError(f"{path}: {other.name} and {person.name} have the same id {person.id}.")
    heads = {found["name"]: found[0] for found in map(CANVAS_ASSIGNMENT.fullmatch, lines_of(decoded(data))[0]) if found}
    return Roster(tuple(people), path, heads)


def table(path: Path, text: str) -> list[dict[str, str]]:
    """The lines of a CSV file, by our names of the columns."""
    lines = lines_of(text)
    if not lines:
        raise CourseError(f"{path} is empty.")
    head = text.partition("\n")[0]
    heads = [spaced(name) for name in lines[0]]
    columns = canvas_columns(heads) if CANVAS_HEAD in heads else [column_of(name) for name in heads]
    if not {"id", "number", "username", "email", "name", "last_name"} & set(columns):
        raise CourseError(
            f"{path}: its first line should name the columns, at least one of id, email, name; it says {head[:80]!r}."
        )
    return [dict(zip(columns, map(str.strip, line))) for line in lines[1:] if any(map(str.strip, line))]


def lines_of(text: str) -> list[list[str]]:
    separator = max(",;\t", key=text.partition("\n")[0].count)
    return list(csv.reader(text.splitlines(), delimiter=separator))


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CourseError(f"{path}, the roster that class.toml names, cannot be read ({error.strerror}).") from None


def decoded(data: bytes) -> str:
    for encoding in ENCODINGS:
        if encoding == "utf-16" and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            continue
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", errors="replace")


def spaced(head: str) -> str:
    """The name of a column in small letters, with single spaces."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", head) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", plain.casefold().replace("_", " ")))


def column_of(head: str) -> str:
    for column, others in COLUMNS.items():
        if head == column.replace("_", " ") or head in others:
            return column
    return f"({head})"


def canvas_columns(heads: Sequence[str]) -> list[str]:
    return ["canvas_id" if head == "id" else column_of(head) for head in heads]


def person_of(row: Mapping[str, str], path: Path) -> Person | None:
    """Somebody, or None for a line that is about nobody, such as Canvas' line of points."""
    first, last = row.get("first_name", ""), row.get("last_name", "")
    name = row.get("name", "")
    if name and not (first or last):
        if spaced(name) in ("points possible", "student test", "test student"):
            return None
        before, comma, after = name.partition(",")
        first, last = (after, before) if comma else (name.rpartition(" ")[0], name.rpartition(" ")[2])
    email = row.get("email", "")
    chosen = next(
        filter(
            None,
            [
                row.get("id"),
                row.get("username"),
                row.get("number"),
                email.partition("@")[0],
                name,
                f"{first} {last}".strip(),
            ],
        ),
        "",
    )
    own = student_id(chosen)
    if not own:
        return None
    said = row.get("extra_time", "")
    more = duration(said) or (duration(f"{said} days") if said else timedelta())
    if more is None:
        raise CourseError(f"{path}: the extra time of {own} is {said!r}. Write it as in 2 days or 36 hours.")
    return Person(
        own,
        first.strip(),
        last.strip(),
        email,
        row.get("group", ""),
        more,
        row.get("username", ""),
        row.get("number", ""),
        row.get("canvas_id", ""),
        row.get("github", ""),
    )
