"""Imports a download: every notebook goes to submitted/STUDENT/ASSIGNMENT/, or the report says why not.

These are recognised without any options:

    ada/02_masks/02_masks.ipynb, ada/02_masks.ipynb                    a folder for each student
    ada/Copy of 02_masks.ipynb, ada/homework.ipynb                     renamed: the content says which assignment it is
    Ada Lovelace_12345_assignsubmission_file_/anything.ipynb           Moodle, with folders
    Ada Lovelace_12345_assignsubmission_file_anything.ipynb            Moodle, without
    lovelaceada_LATE_12345_67890_02_masks-1.ipynb                      Canvas
    ada+02_masks+2026-03-02 10:30:00.000000 UTC+x/02_masks.ipynb       the inbound folder of nbgrader's exchange
    masks-ada/02_masks.ipynb, beside masks-ben/02_masks.ipynb          repositories of GitHub Classroom
    ada_02_masks.ipynb, Copy_of_02_masks_ada.ipynb                     all in one folder, from Colab too

Anything else needs a pattern. If class.toml names a roster, every submission belongs to somebody on it. A notebook in
which nothing was written is not a submission. A submission that is replaced is kept in earlier/.

`download` finds the notebooks and `archives` unpacks them, `whose` and `releases` tell whose each is and which
assignment, `placing` writes; this module decides.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from autograder.classroom.archives import why
from autograder.classroom.collected import LmsName, Lost, remember
from autograder.classroom.course import STAMP, Course, CourseError
from autograder.classroom.download import Download, Found, Unplaced, shown
from autograder.classroom.placing import (
    choose_version,
    deadline,
    existing_date,
    keep_as_earlier,
    keep_earlier,
    write_stamp,
    write_submission,
)
from autograder.classroom.releases import Releases
from autograder.classroom.whose import MOODLE, Claim, Unclear, Whose, is_inbound, moodle_person
from autograder.judging.rebuild import printable

FEWEST_DATES = 3  # that have to agree before it is suspicious
SAME_TIME = 60.0  # seconds
NO_NOTEBOOK = "There is no notebook in this student's folder."


@dataclass(frozen=True)
class Placed:
    """A notebook that lies in submitted/ now, or lay there already."""

    path: str  # in the download
    student: str
    assignment: str
    outcome: Literal["new", "unchanged", "replaced"]
    reason: str


@dataclass(frozen=True)
class Collected:
    placed: tuple[Placed, ...]
    unplaced: tuple[Unplaced, ...]
    warnings: tuple[str, ...] = ()


def collect(course: Course, downloaded: Path, assignment: str | None = None, pattern: str | None = None) -> Collected:
    """Put the notebooks of a folder or zip into the course's submitted/ folder.

    assignment: take the files for this one. Otherwise their names say which one they are for, or their contents.
    pattern: a regular expression that is searched in the path of each file (with / between folders), with a group
        `student` and, optionally, a group `assignment`: r"(?P<student>[^/]+)/week\\d/(?P<assignment>\\w+)".
    """
    if not course.released():
        first = course.command("release")
        raise CourseError(f"Nothing is released yet, so files cannot be assigned to assignments. First run: {first}")
    if assignment is not None and assignment not in course.released():
        names = ", ".join(course.released())
        raise CourseError(f"There is no released assignment {assignment}. Released are: {names}.")
    rule = checked_pattern(pattern) if pattern is not None else None
    with tempfile.TemporaryDirectory() as scratch:
        download = Download(Path(scratch), course.rules().zone)
        download.read(downloaded)
        collector = Collector(course, download, downloaded.stem, assignment, rule)
        collected = collector.collect()
    whole = downloaded.resolve()
    left = [each for each in collected.unplaced if each.is_lost]
    lost = [Lost(whole.name, each.path, each.reason, str(whole.parent), each.digest) for each in left]
    remember(course, whole, collector.lms_names, lost, collector.taken)
    return collected


def checked_pattern(pattern: str) -> re.Pattern[str]:
    try:
        rule = re.compile(pattern)
    except re.error as error:
        raise CourseError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None
    if "student" not in rule.groupindex:
        raise CourseError(f"The pattern {pattern!r} has no group for the student: put (?P<student>…) around that part.")
    return rule


class Collector:
    """Places the notebooks of a download, one for each student and assignment."""

    def __init__(
        self, course: Course, download: Download, name: str, assignment: str | None, rule: re.Pattern[str] | None
    ):
        self.course = course
        self.download = download
        self.assignment = assignment
        self.releases = Releases(course)
        self.rules = course.rules()
        self.roster = course.roster()
        self.whose = Whose(download, name, self.releases, self.roster, assignment, rule)
        self.placed: list[Placed] = []
        self.taken: set[tuple[str, str]] = set()  # path and digest of what was placed
        self.unplaced = list(download.others)
        self.lms_names: list[tuple[str, str, LmsName]] = []  # assignment, student, what the LMS calls it

    def collect(self) -> Collected:
        claims: list[Claim] = []
        for found in self.download.notebooks:
            try:
                claim = self.whose.claim(found)
            except Unclear as error:
                self.leave(found, str(error), is_lost=True)
                continue
            if self.releases.is_untouched(claim.assignment, found.copy):
                who = self.roster.called(claim.student)
                self.leave(found, f"Nothing was written in it: {who} handed in {claim.assignment} unchanged.")
            else:
                claims.append(claim)
        for versions in self.by_submission(self.without_namesakes(claims)):
            self.place_newest(versions)
        self.choose_versions()
        self.report_empty_folders()
        self.placed.sort(key=lambda placed: (placed.assignment, placed.student))
        self.unplaced.sort(key=lambda unplaced: unplaced.path)
        return Collected(tuple(self.placed), tuple(self.unplaced), tuple(self.warnings()))

    def leave(self, found: Found, reason: str, is_lost: bool = False) -> None:
        self.unplaced.append(Unplaced(found.path, printable(reason), is_lost, found.digest if is_lost else ""))

    def warnings(self) -> Iterator[str]:
        dates = [found.date.timestamp() for found in self.download.notebooks if found.date and not is_inbound(found)]
        if len(dates) >= FEWEST_DATES and max(dates) - min(dates) <= SAME_TIME:
            when = self.rules.shown(datetime.fromtimestamp(min(dates), UTC))
            yield (
                f"All {len(dates)} files have the same date, {when}. That is when they were downloaded or "
                "unpacked, not when they were handed in: they do not tell what was late, or which version is newer. If "
                "lateness costs points, collect the zip file as the LMS gave it: the earlier dates in it will count."
            )

    def without_namesakes(self, claims: list[Claim]) -> list[Claim]:
        """All but those who would get the same id: two people's work must never be mixed."""
        people: dict[tuple[str, str], set[str]] = defaultdict(set)
        for claim in claims:
            people[self.folder_key(claim)].add(claim.person)
        kept = []
        for claim in claims:
            others = people[self.folder_key(claim)] - {claim.person}
            if others:
                names = ", ".join(sorted(others))
                sentence = f"{claim.person} and {names} would both be {claim.student}. Rename one of them."
                self.leave(claim.found, sentence, is_lost=True)
            else:
                kept.append(claim)
        return kept

    def folder_key(self, claim: Claim) -> tuple[str, str]:
        """Some file systems treat Ada and ada as equal. Moodle gives people new numbers in each assignment."""
        return claim.student.casefold(), claim.assignment if claim.by == "Moodle" else ""

    def by_submission(self, claims: list[Claim]) -> list[list[Claim]]:
        groups: dict[tuple[str, str], list[Claim]] = defaultdict(list)
        for claim in claims:
            groups[claim.student, claim.assignment].append(claim)
        return list(groups.values())

    def place_newest(self, versions: list[Claim]) -> None:
        if self.are_of_different_people(versions):
            for claim in versions:
                folder = "/".join(claim.found.home)
                sentence = f"It is not certain that {folder} belongs to {claim.person}. Use --pattern."
                self.leave(claim.found, sentence, is_lost=True)
            return
        *older, newest = sorted(versions, key=lambda claim: (claim.is_certain, claim.age))
        moments = {newest.found.date}
        for claim in reversed(older):
            why = "newer" if claim.is_certain == newest.is_certain else f"certain to be {newest.assignment}"
            is_a_draft = claim.found.date in moments  # handed in together with a newer one
            moments.add(claim.found.date)
            may_count = self.rules.counts == "last_on_time" and claim.found.date is not None and not is_a_draft
            is_open = may_count and deadline(claim.assignment, claim.student, self.rules, self.roster) is not None
            what_counts = "and the last one on time counts" if is_open else "so that one counts"
            self.leave(claim.found, f"{newest.found.path} is {why}, {what_counts}.")
            if may_count and claim.found.date:
                keep_as_earlier(
                    claim.found.copy, claim.found.date, self.course.earlier(claim.assignment, claim.student)
                )
        remarks = [f"It was chosen from {len(versions)} versions."] if older else []
        if newest.late:
            remarks.append("Canvas says that it was late.")
        self.place(newest, remarks)

    def choose_versions(self) -> None:
        """If the last one on time counts, put it in the place of one that came too late.

        What was said about placing that one is no longer true: only the choice is said.
        """
        for number, placed in enumerate(self.placed):
            sentence = choose_version(self.course, placed.assignment, placed.student, self.rules, self.roster)
            if sentence:
                self.placed[number] = replace(
                    placed, reason=f"It is {placed.assignment} of {placed.student}. {sentence}"
                )

    def are_of_different_people(self, versions: list[Claim]) -> bool:
        """Does a folder hold further folders, each with this assignment, and no notebook? It may be a class."""
        if not all(claim.by == "folder" for claim in versions):
            return False
        homes = {self.whose.folders_of(claim.found.home)[(self.whose.level or 0) + 1 :] for claim in versions}
        return len(homes) > 1 and () not in homes

    def place(self, claim: Claim, remarks: list[str]) -> None:
        try:
            self.place_beside_earlier(claim, remarks)
        except OSError as error:
            self.leave(claim.found, f"It cannot be written to {claim.student}'s folder: {why(error)}.", is_lost=True)

    def place_beside_earlier(self, claim: Claim, remarks: list[str]) -> None:
        target = self.course.submitted(claim.assignment, claim.student)
        outcome: Literal["new", "unchanged", "replaced"] = "new"
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists():
            before = self.rules.shown(existing_date(target))
            if filecmp.cmp(target, claim.found.copy, shallow=False):
                outcome = "unchanged"
                remarks.append("The same file is there already.")
            elif claim.found.date and claim.found.date > existing_date(target):
                outcome = "replaced"
                kept = keep_earlier(target, self.course.earlier(claim.assignment, claim.student))
                where = kept.relative_to(self.course.root)
                remarks.append(f"It replaces the submission of {before}, which is kept as {where}.")
            else:
                self.leave(claim.found, f"{claim.student} has a submission of {before}, and this one is not newer.")
                return
        if outcome != "unchanged":
            secret = self.download.secrets.get(claim.found.home) if claim.by == "nbgrader" else None
            write_submission(claim.found.copy, claim.found.date, target, secret)
        elif claim.found.date and not (target.parent / STAMP).exists():  # never known, or interrupted before it was
            write_stamp(target.parent / STAMP, claim.found.date)
        elif claim.found.date and claim.found.date < existing_date(target):
            remarks.append(f"It was there on {self.rules.shown(claim.found.date)} already, and that date counts now.")
            write_stamp(target.parent / STAMP, claim.found.date)
        if claim.found.date and self.is_late(claim, counts := existing_date(target)):
            remarks.append(f"By its date, {self.rules.shown(counts)}, it is late.")
        if claim.found.stem != claim.assignment:
            remarks.insert(0, f"It is called {target.name} now.")
        if claim.lms is not None:
            self.lms_names.append((claim.assignment, claim.student, claim.lms))
        self.taken.add((claim.found.path, claim.found.digest))
        reason = " ".join([f"It is {claim.assignment} of {claim.student}.", *remarks])
        self.placed.append(Placed(claim.found.path, claim.student, claim.assignment, outcome, reason))

    def is_late(self, claim: Claim, date: datetime) -> bool:
        limit = deadline(claim.assignment, claim.student, self.rules, self.roster)
        return limit is not None and date > limit

    def report_empty_folders(self) -> None:
        """Somebody has handed in something, but no notebook."""
        full = {found.home[:depth] for found in self.download.notebooks for depth in range(len(found.home) + 1)}
        people = {moodle_person(folder) for folder in full}
        for folder in self.download.folders - full:
            if self.holds_lost_work(folder):
                continue  # which is reported by itself
            if self.whose.is_of_one_student(folder) and moodle_person(folder) not in people - {""}:
                told = self.without_notebook(folder)
                self.unplaced.append(Unplaced(shown(folder), told, is_lost=told == NO_NOTEBOOK))

    def holds_lost_work(self, folder: tuple[str, ...]) -> bool:
        """Whether something in it could not be read, so that it is not known whether there is a notebook."""
        inside = shown(folder) + "/"
        return not self.assignment and any(each.is_lost and each.path.startswith(inside) for each in self.unplaced)

    def without_notebook(self, folder: tuple[str, ...]) -> str:
        """If it is known what this is a download of, the student gets an empty submission: zeros with a reason."""
        sentence = NO_NOTEBOOK
        moodle = MOODLE.fullmatch(folder[-1])
        student = self.whose.id_of_folder(moodle["name"] if moodle else folder[-1], is_folder=moodle is None)
        if not self.assignment or not student:
            return sentence
        target = self.course.submitted(self.assignment, student)
        if target.exists():
            return f"{sentence} What {student} handed in before still counts."
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{sentence} No folder can be made for {student}: {why(error)}."
        return f"{sentence} {student} counts as having handed in an empty notebook."
