"""class.toml: everything that an instructor decides about a class, in one file.

`init` makes it with everything commented out. `release`, `collect`, `grade` and `export` read it each time, and so do
nbgrader's own commands and formgrader, by way of the class's nbgrader_config.py. It is read without nbgrader or torch.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder.errors import CourseError

if TYPE_CHECKING:
    from traitlets.config import Config

FILE = "class.toml"
TEMPLATE = """\
# Everything that you decide about this class. Remove the # in front of a line, change it, and save the file: the next
# command of `python -m autograder` uses it. After a change to exercises or points, release first, then grade.

# time_zone = "Europe/Berlin"     # of dates here, in messages and in an LMS's zip (default: that of this machine)
# roster = "roster.csv"           # who is in this class; its columns are described in the course's README

# Which version counts if somebody hands in several times: "last", or "last_on_time": the last one before the deadline,
# and the last of all if none was on time. The others are kept in earlier/.
# counts = "last"

[late]
# What lateness costs, in percent of the score for each day that has begun, and at most.
# percent_per_day = 10
# at_most_percent = 50
# grace_minutes = 15              # up to this late still counts as on time

# An assignment for each notebook that you use. As long as none is named, `release` releases all notebooks.
# [assignments.02_masks]
# due = "2026-11-03 23:59"
# drop = ["window_mask"]                             # stays in the notebook, without points
# points = { causal_mask = 8, why_low_loss = 3 } # of an exercise with its hidden cases, or of a written answer
#
# [assignments.first_weeks]       # made from several notebooks, with only these exercises counting
# notebooks = ["00_start_here", "01_dot_product_attention"]
# exercises = ["softmax", "self_attention"]
# due = "2026-11-10 23:59"

# More time for somebody: until a date, or this much longer. (This replaces the roster's extra_time.)
# [extensions.02_masks]
# ada = "2026-11-10 23:59"
# ben = "3 days"
"""
KEYS = ("time_zone", "roster", "counts", "late", "assignments", "extensions")
OF_LATE = ("percent_per_day", "at_most_percent", "grace_minutes")
OF_AN_ASSIGNMENT = ("due", "drop", "exercises", "points", "notebooks")
SECONDS = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800}
DURATION = re.compile(r"\+?\s*(?P<number>\d+(?:[.,]\d+)?)\s*(?P<unit>minute|hour|day|week)s?", re.IGNORECASE)
SMALLEST = 0.5  # of a point


@dataclass(frozen=True)
class Late:
    """What lateness costs."""

    percent_per_day: float = 0.0
    at_most_percent: float = 100.0
    grace_minutes: float = 0.0

    def penalty(self, score: float, seconds_late: float) -> float:
        """The points that are taken off this score."""
        late = seconds_late - 60 * self.grace_minutes
        if late <= 0:
            return 0.0
        percent = min(self.at_most_percent, self.percent_per_day * math.ceil(late / SECONDS["day"]))
        return round(score * percent / 100, 2)


@dataclass(frozen=True)
class AssignmentRules:
    """What the class says about one assignment."""

    name: str
    notebooks: tuple[str, ...]
    due: datetime | None = None  # UTC, without a time zone, as nbgrader has it
    drop: frozenset[str] = frozenset()
    exercises: frozenset[str] = frozenset()  # if there are any: only these count
    points: Mapping[str, float] = field(default_factory=dict)
    extensions: Mapping[str, datetime | timedelta] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it is one whole notebook of the course, unchanged."""
        return self.notebooks == (self.name,) and not (self.drop or self.exercises or self.points)

    def is_dropped(self, exercise: str) -> bool:
        return exercise in self.drop or (bool(self.exercises) and exercise not in self.exercises)

    def worth(self, exercise: str, visible: float, hidden: float) -> tuple[float, float]:
        """The points of an exercise in its check and on the hidden cases, of which the course gives it these."""
        wanted = self.points.get(exercise)
        if wanted is None or not visible + hidden:
            return visible, hidden
        if not hidden:
            return wanted, 0.0
        share = round(wanted * visible / (visible + hidden) / SMALLEST) * SMALLEST
        shown = min(max(share, SMALLEST), wanted - SMALLEST)
        return shown, wanted - shown

    def extension(self, student: str, extra_time: timedelta = timedelta()) -> timedelta:
        """How much later than the others a student may hand in. An extension replaces `extra_time`, the roster's."""
        if self.due is None:
            return timedelta()
        said = self.extensions.get(student, extra_time)
        later = said - self.due if isinstance(said, datetime) else said
        return max(later, timedelta())

    def due_for(self, student: str, extra_time: timedelta = timedelta()) -> datetime | None:
        return None if self.due is None else self.due + self.extension(student, extra_time)


@dataclass(frozen=True)
class Rules:
    """What class.toml says. Without the file, the defaults."""

    roster: str = ""
    counts: Literal["last", "last_on_time"] = "last"
    late: Late = field(default_factory=Late)
    assignments: Mapping[str, AssignmentRules] = field(default_factory=dict)
    zone: tzinfo | None = None  # None: that of this machine

    def shown(self, moment: datetime) -> str:
        """A moment as a person in this class reads it: 2026-11-03 23:59 CET."""
        return f"{moment.astimezone(self.zone):%Y-%m-%d %H:%M %Z}"

    def of(self, assignment: str) -> AssignmentRules:
        return self.assignments.get(assignment) or AssignmentRules(assignment, (assignment,))


def read_rules(folder: Path) -> Rules:
    """What the class in this folder says. Raises: CourseError that says what is wrong and where."""
    path = folder / FILE
    try:
        return rules_in(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Rules()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CourseError(f"{path} cannot be read: {error}") from None
    except Mistake as mistake:
        raise CourseError(f"{path}: {mistake}") from None


@functools.lru_cache(maxsize=4)  # asked for each submission
def rules_in(content: str) -> Rules:
    return rules_from(tomllib.loads(content))


class Mistake(Exception):
    """Something in the file that makes no sense."""


def rules_from(data: dict[str, Any]) -> Rules:
    known("", data, KEYS)
    zone = zone_of(data.get("time_zone"))
    counts = data.get("counts", "last")
    if counts not in ("last", "last_on_time"):
        raise Mistake(f'counts is "last" or "last_on_time", not {counts!r}.')
    late = table("late", data.get("late", {}))
    known("late", late, OF_LATE)
    extensions = table("extensions", data.get("extensions", {}))
    named = table("assignments", data.get("assignments", {}))
    for name in extensions:
        if name not in named or "due" not in table(name, named[name]):
            raise Mistake(f"[extensions.{name}] needs a deadline to extend: due = … in [assignments.{name}].")
    return Rules(
        roster=text("roster", data.get("roster", "")),
        counts=cast(Literal["last", "last_on_time"], counts),
        late=Late(**{key: number(f"late.{key}", value) for key, value in late.items()}),
        assignments={
            name: assignment_rules(name, table(name, own), table(name, extensions.get(name, {})), zone)
            for name, own in named.items()
        },
        zone=zone,
    )


def assignment_rules(
    name: str, data: dict[str, Any], extensions: dict[str, Any], zone: tzinfo | None
) -> AssignmentRules:
    where = f"assignments.{name}"
    if not re.fullmatch(r"[\w-]+", name):
        raise Mistake(f"{name!r} cannot be the name of an assignment: letters, digits, - and _ only.")
    known(where, data, OF_AN_ASSIGNMENT)
    if data.get("drop") and data.get("exercises"):
        raise Mistake(f"[{where}] has both drop and exercises: use only one of them.")
    points = {
        key: number(f"{where}.points.{key}", value) for key, value in table(where, data.get("points", {})).items()
    }
    for exercise, worth in points.items():
        if worth < 2 * SMALLEST or worth % SMALLEST:
            raise Mistake(f"{where}.points.{exercise} is {worth:g}: whole or half points, and at least 1.")
    return AssignmentRules(
        name,
        notebooks=tuple(names(f"{where}.notebooks", data.get("notebooks", [name]))),
        due=moment(f"{where}.due", data["due"], zone) if "due" in data else None,
        drop=frozenset(names(f"{where}.drop", data.get("drop", []))),
        exercises=frozenset(names(f"{where}.exercises", data.get("exercises", []))),
        points=points,
        extensions={
            student: more_time(f"extensions.{name}.{student}", value, zone) for student, value in extensions.items()
        },
    )


# --- single values ------------------------------------------------------------------------------------------------


def known(where: str, data: Iterable[str], keys: tuple[str, ...]) -> None:
    for key in data:
        if key not in keys:
            near = get_close_matches(key, keys, n=1)
            guess = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(keys)}."
            raise Mistake(f"{f'[{where}]' if where else 'it'} has nothing called {key!r}. {guess}")


def table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mistake(f"{where} should be a table, not {value!r}.")
    return value


def text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Mistake(f"{where} should be a text in quotation marks, not {value!r}.")
    return value


def names(where: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Mistake(f'{where} should be a list of names, as in ["causal_mask"], not {value!r}.')
    return value


def number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
        raise Mistake(f"{where} should be a number that is not negative, not {value!r}.")
    return float(value)


def zone_of(value: Any) -> tzinfo | None:
    if value is None:
        return None
    try:
        return ZoneInfo(text("time_zone", value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Mistake(
            f"this machine knows no time zone {value!r}; one is called, for example, Europe/Berlin."
        ) from None


def moment(where: str, value: Any, zone: tzinfo | None) -> datetime:
    """A date and time, in UTC and without a time zone."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(text(where, value).strip())
    except ValueError:
        raise Mistake(f'{where} should be a date and a time, as in "2026-11-03 23:59", not {value!r}.') from None
    if isinstance(value, str) and not re.search(r"\d[T ]\d", value.strip()):
        raise Mistake(f'{where} is {value!r}: say the time too, as in "{value.strip()} 23:59".')
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone) if zone else found.astimezone()
    return found.astimezone(UTC).replace(tzinfo=None)


def more_time(where: str, value: Any, zone: tzinfo | None) -> datetime | timedelta:
    return duration(value) or moment(where, value, zone) if isinstance(value, str) else moment(where, value, zone)


def duration(said: str) -> timedelta | None:
    """`3 days`, `36 hours`; None if it is neither."""
    match = DURATION.fullmatch(said.strip())
    if not match:
        return None
    return timedelta(seconds=float(match["number"].replace(",", ".")) * SECONDS[match["unit"].lower()])


# --- for nbgrader -------------------------------------------------------------------------------------------------


PLUGIN = "autograder.classroom.late.LatePenalty"


def configure(config: Config, folder: Path) -> None:
    """Make nbgrader's own commands and formgrader use class.toml; the class's nbgrader_config.py calls this."""
    rules = read_rules(folder)
    config.AssignLatePenalties.plugin_class = PLUGIN
    config.LatePenalty.folder = str(folder)
    config.ExchangeCollect.before_duedate = rules.counts == "last_on_time"


def require_one_penalty(config: Config, path: Path) -> None:
    """Refuse two rules for lateness: that of class.toml, and a plugin in nbgrader's configuration."""
    if config.AssignLatePenalties.get("plugin_class", PLUGIN) != PLUGIN and read_rules(path.parent).late != Late():
        raise CourseError(
            f"{path} has its own plugin for late submissions, and [late] in {FILE} also says what lateness costs. "
            "Remove one of them."
        )
