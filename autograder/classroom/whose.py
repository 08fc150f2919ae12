"""Whose a notebook is: what Moodle, Canvas, nbgrader, Colab, GitHub Classroom and people call files and folders.

The names that are understood are listed in `collect`. If the class has a roster, every submission belongs to somebody
on it. What is not certain is left to a person, with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Literal

from autograder.classroom.collected import LmsName
from autograder.classroom.download import Download, Found
from autograder.classroom.releases import Releases
from autograder.classroom.roster import Person, Roster, student_id

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-zA-Z]*(_.*)?", re.DOTALL)
CANVAS = re.compile(r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<number>\d+)_(?P<upload>\d+)_(?P<rest>.+)", re.DOTALL)
INBOUND = re.compile(
    r"(?P<name>[^+]+)\+(?P<assignment>[^+]+)\+(?P<day>\d{4}-\d\d-\d\d)[ _]"
    r"(?P<hour>\d\d)[:_-](?P<minute>\d\d)[:_-](?P<second>\d\d)(?:\.\d+)?[ _]UTC(?:\+.*)?"
)
VERSION = re.compile(r"(?:[-_ ]?\((?P<browser>\d{1,4})\)|-(?P<canvas>\d{1,4}))$")
COPY_OF = re.compile(r"(Copy[ _]of|Kopie[ _]von|Copie[ _]de|Copia[ _]de)[ _]", re.IGNORECASE)  # Colab, in any language
NOT_A_NAME = re.compile(
    r"\b(new version|from notebooks|copy|kopie|final|solutions?|solved|done|submission|answers?|homework|hw\d*|new"
    r"|v?\d{1,3})\b",
    re.IGNORECASE,
)
GIVEN_BY_TEACHERS = re.compile(r"(hw|homework|assignment|lab|week|ex|exercise|project|task|ps)\d*|\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Claim:
    """A notebook with the student and the assignment that it seems to belong to."""

    found: Found
    student: str
    person: str  # what the student is called in the download: two people may come down to one id
    assignment: str
    is_certain: bool  # the file itself says which assignment it is
    late: bool = False
    by: Literal["Moodle", "Canvas", "nbgrader", "pattern", "folder"] = "pattern"  # who says whose it is
    lms: LmsName | None = None

    @property
    def age(self) -> tuple[float, float, int]:
        """Larger is newer: by date, then by the number that an LMS or a browser adds to a name.

        The dates in a student's archive only tell this student's own versions from each other.
        """
        version = VERSION.search(self.found.stem)
        number = int(version["browser"] or version["canvas"]) if version else 0
        handed_in, own = (d.timestamp() if d else float("-inf") for d in (self.found.date, self.found.own_date))
        return handed_in, own, number


class Unclear(Exception):
    """It is not certain whose file it is, or which assignment. The message says why."""


class Whose:
    """Finds out whose each notebook of a download is, and which assignment."""

    def __init__(
        self,
        download: Download,
        name: str,
        releases: Releases,
        roster: Roster,
        assignment: str | None,
        rule: re.Pattern[str] | None,
    ):
        self.download = download
        self.name = name
        self.releases = releases
        self.roster = roster
        self.assignment = assignment
        self.rule = rule

    def claim(self, found: Found) -> Claim:
        if self.rule:
            return self.claim_by_pattern(found, self.rule)
        depth, match = lms_name(found)
        if match and self.is_from_lms(found, depth):
            return self.claim_by_lms(found, match)
        folder = self.name_of_folder(found)
        name = folder or self.name_beside_assignment(found.given[-1])
        if not name:
            raise Unclear(
                "Nothing in its path tells whose it is. Put it into a folder with the student's name, or use --pattern."
            )
        if "assignsubmission" in name:
            raise Unclear("Its name comes from Moodle, but those of other files beside it do not. Collect it alone.")
        return replace(self.claimed(found, name, name, is_folder=bool(folder)), by="folder")

    def claim_by_lms(self, found: Found, match: re.Match[str]) -> Claim:
        if match.re is INBOUND:
            found = replace(found, own_date=inbound_date(match), parcel=None)
            named = match["assignment"] if match["assignment"] in self.releases.names else None
            return replace(self.claimed(found, match["name"], match["name"], named), by="nbgrader")
        number = match["number"]
        if match.re is MOODLE:
            claim = self.claimed(found, match["name"], lms_person(match))
            return replace(claim, by="Moodle", lms=LmsName("Moodle", match["name"], number))
        claim = self.claimed(found, match["name"], lms_person(match), canvas_id=number)
        lms = LmsName("Canvas", match["name"], number, match["upload"])
        return replace(claim, by="Canvas", late=bool(match["late"]), lms=lms)

    def is_from_lms(self, found: Found, depth: int) -> bool:
        """Does a name that looks like an LMS's come from the LMS, or did a student give it to something in their own
        folder?"""
        if depth == 0:
            return True
        if depth > self.depth_of_all:
            return all(lms_name(other)[1] for other in self.download.notebooks)
        if len(self.lms_people) > 1:
            return True
        folder = "/".join(found.given[:depth])
        raise Unclear(f"It is not certain whether {folder} is a student's folder. If not, collect {folder} itself.")

    @cached_property
    def depth_of_all(self) -> int:
        """How many folders contain everything."""
        paths = [*(found.given for found in self.download.notebooks), *self.download.folders]
        most = min(len(found.home) for found in self.download.notebooks)
        depths = (depth for depth in range(most) if len({path[depth] for path in paths if len(path) > depth}) > 1)
        return next(depths, most)

    @cached_property
    def lms_people(self) -> set[str]:
        return {lms_person(match) for _, match in map(lms_name, self.download.notebooks) if match}

    def claim_by_pattern(self, found: Found, rule: re.Pattern[str]) -> Claim:
        match = rule.search("/".join(found.parts))
        if not match or not match["student"]:
            raise Unclear("The pattern does not match its path.")
        if found.parcel and match.end("student") > len("/".join(found.parcel.parts)):
            raise Unclear("The pattern finds the student's name only inside an archive that a student packed.")
        named = match["assignment"] if "assignment" in rule.groupindex else None
        if named and named not in self.releases.names:
            named = self.releases.named_in([named])
            if not named:
                raise Unclear(f"The pattern finds the assignment {match['assignment']}, which is not released.")
        return self.claimed(found, match["student"], match["student"], named=named)

    def claimed(
        self,
        found: Found,
        name: str,
        person: str,
        named: str | None = None,
        canvas_id: str = "",
        is_folder: bool = False,
    ) -> Claim:
        if self.roster:
            student = person = self.on_the_roster(name, canvas_id, is_folder).id
        else:
            student = student_id(name)
        if not student:
            raise Unclear(f"{name!r} cannot be the name of a folder. Rename it, or use --pattern.")
        assignment, is_certain = self.assignment_of(found, named)
        return Claim(found, student, person, assignment, is_certain)

    def on_the_roster(self, name: str, canvas_id: str = "", is_folder: bool = False) -> Person:
        """The person with this name. A repository's name begins with that of its assignment; then comes a login that
        its owner chose: if the roster knows logins, nothing else tells whose it is.
        """
        words = name.split("-") if is_folder else [name]
        by_login = is_folder and self.are_repositories and any(person.github for person in self.roster.people)
        people: list[Person] = []
        for skipped in range(1 + (self.shared_words(words) if is_folder else 0)):
            rest = "-".join(words[skipped:])
            people = people or (self.roster.with_login(rest) if by_login else self.roster.find([rest], canvas_id))
        if not people:
            raise Unclear(f"{name} is not on the roster, {self.roster.path}.")
        if len(people) > 1:
            raise Unclear(f"{name} may be {' or '.join(person.id for person in people)}, by the roster.")
        return people[0]

    def assignment_of(self, found: Found, named: str | None) -> tuple[str, bool]:
        """The assignment of a file, and whether the file itself says so by its name or content."""
        own = named or self.releases.named_in([found.stem])
        named = own or self.releases.named_in(reversed(found.parts[:-1]))
        told = self.releases.told_by(found.copy)
        if named and told and named != told:
            raise Unclear(f"Its name says {named}, but its content belongs to {told}.")
        assignment = named or told or self.assignment or self.releases.named_in([self.name])
        if not assignment:
            raise Unclear("Neither its name nor its content tells which assignment it is.")
        if self.assignment and assignment != self.assignment:
            raise Unclear(f"It is for {assignment}, but only {self.assignment} is being collected.")
        return assignment, bool(own or told)

    def name_of_folder(self, found: Found) -> str | None:
        """The name of the student's folder, if the folders are the students'."""
        folders = self.folders_of(found.home)
        if self.level is not None:
            folders = folders[self.level : self.level + 1]
        elif self.name_beside_assignment(
            found.given[-1]
        ):  # all in one folder, and told apart by the names of the files
            return None
        if len(folders) > 1:
            raise Unclear(
                f"It is not certain which of the folders {'/'.join(folders)} is the student's. Use --pattern."
            )
        return self.name_beside_assignment(folders[0]) or self.without_repository(folders[0]) if folders else None

    def without_repository(self, folder: str) -> str:
        """GitHub Classroom names a repository after the assignment and the student: masks-ada."""
        words = folder.split("-")
        if words[-1] in ("main", "master") and len(words) > 2:  # a zip of one branch
            words = words[:-1]
        return "-".join(words[self.words_of_repositories(words) :])

    def words_of_repositories(self, words: list[str]) -> int:
        """How many words at the beginning name the assignment: those that all folders share, up to the last word that
        may be part of an assignment's name. If git has made all of these folders, all that they share."""
        shared = self.shared_words(words)
        if self.are_repositories and len(self.students_folders) > 1:
            return shared
        return max((n + 1 for n in range(shared) if self.is_of_an_assignment(words[n])), default=0)

    def shared_words(self, words: list[str]) -> int:
        """With how many of these words the names of all students' folders begin."""
        others = [folder.split("-") for folder in self.students_folders]
        shared = 0
        while shared < min(map(len, [words, *others])) - 1 and all(o[shared] == words[shared] for o in others):
            shared += 1
        return shared

    @cached_property
    def students_folders(self) -> set[str]:
        homes = [self.folders_of(found.home) for found in self.download.notebooks]
        level = self.level or 0
        return {home[level] for home in homes if len(home) > level}

    @cached_property
    def are_repositories(self) -> bool:
        """Whether git has made all of the students' folders."""
        return bool(self.students_folders) and self.students_folders <= {r[-1] for r in self.download.repositories if r}

    def is_of_an_assignment(self, word: str) -> bool:
        known = {part for name in self.releases.names for part in re.split(r"[_\- ]+", name.casefold())}
        return word.casefold() in known or GIVEN_BY_TEACHERS.fullmatch(word) is not None

    @cached_property
    def level(self) -> int | None:
        """How deep the students' folders lie: where the folders begin to differ. None if they never do."""
        homes = [self.folders_of(found.home) for found in self.download.notebooks]
        everything = [*homes, *(self.folders_of(folder) for folder in self.download.folders)]
        for depth in range(max(map(len, everything), default=0)):
            if len({folders[depth] for folders in everything if len(folders) > depth}) > 1:
                inside_of_one = any(0 < len(home) == depth for home in homes)  # ada/a.ipynb beside ada/old/b.ipynb
                return depth - 1 if inside_of_one else depth
        return None

    def is_of_one_student(self, folder: tuple[str, ...]) -> bool:
        return len(self.folders_of(folder)) == (self.level or 0) + 1 and not self.is_assignment(folder[-1])

    def folders_of(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The folders that are not named after an assignment."""
        return tuple(part for part in parts if not self.is_assignment(part))

    def is_assignment(self, part: str) -> bool:
        return any(pattern.fullmatch(part) for pattern in self.releases.patterns.values())

    def name_beside_assignment(self, name: str) -> str | None:
        """What is left of a name without the assignment: ada_02_masks, 02_masks_ada, Copy of 02_masks (1)."""
        for pattern in self.releases.patterns.values():
            rest, times = pattern.subn(" ", VERSION.sub("", COPY_OF.sub("", name)))
            if times:
                rest = NOT_A_NAME.sub(" ", rest.replace("_", " "))
                return " ".join(rest.split()).strip(" -.,()") or None
        return None

    def id_of_folder(self, name: str, is_folder: bool) -> str:
        try:
            return self.on_the_roster(name, is_folder=is_folder).id if self.roster else student_id(name)
        except Unclear:
            return ""


def lms_name(found: Found) -> tuple[int, re.Match[str] | None]:
    """The outermost name in the way of an LMS, and how deep it lies: what is inside it is the student's."""
    for depth, part in enumerate(found.given):
        if match := MOODLE.fullmatch(part) or CANVAS.fullmatch(part) or INBOUND.fullmatch(part):
            return depth, match
    return 0, None


def is_inbound(found: Found) -> bool:
    match = lms_name(found)[1]
    return match is not None and match.re is INBOUND


def inbound_date(match: re.Match[str]) -> datetime | None:
    """When nbgrader's exchange took it."""
    try:
        return datetime.fromisoformat(f"{match['day']}T{match['hour']}:{match['minute']}:{match['second']}+00:00")
    except ValueError:
        return None


def lms_person(match: re.Match[str]) -> str:
    return match["name"] if match.re is INBOUND else f"{match['name']} ({match['number']})"


def moodle_person(folder: tuple[str, ...]) -> str:
    """Moodle makes one folder for a student's files and another for what was typed into the form."""
    match = MOODLE.fullmatch(folder[-1]) if folder else None
    return lms_person(match) if match else ""
