"""What the student sees: a report in a notebook, in Colab or in a terminal, and a number for nbgrader."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from course_lib.colours import readable
from course_lib.surroundings import in_kernel

from .difference import Difference

# "stopped": it ran too long, or somebody interrupted it
Outcome = Literal["not attempted", "raised", "stopped", "wrong", "right"]

MARKS = {True: "✓", False: "✗", None: "–"}
SPOKEN = {True: "passed", False: "failed", None: "not reached"}  # what a screen reader says in place of a mark
# Blue and orange rather than green and red, and a mark beside each: nobody has to tell two colours apart.
COLOURS = {True: "#0072B2", False: "#D55E00", None: "#777777"}
WIDTH = 100


@dataclass(frozen=True)
class Diagnosis:
    """The mistake behind a wrong answer: its id, and the sentence for the student."""

    id: str
    sentence: str


@dataclass(frozen=True)
class CheckResult:
    """One property of the report. `passed` is None where it was not reached."""

    name: str
    passed: bool | None
    message: str
    points: float
    max_points: float
    difference: Difference | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of one check. Shows itself in a notebook or a terminal."""

    name: str
    outcome: Outcome
    checks: tuple[CheckResult, ...]
    diagnosis: Diagnosis | None = None
    num_hints: int = 0
    advice: str = ""  # on an error: what often leads to it
    printed: tuple[tuple[str, str], ...] = ()  # for some inputs: what the student's code printed
    hints_given: int = 0
    hints: tuple[str, ...] = ()  # to unfold in the report, one inside the other
    hidden_points: float = 0.0  # that are given when it is graded
    is_attempt: bool = True  # not just the same answer to everything

    @property
    def points(self) -> float:
        return round(float(sum(check.points for check in self.checks)), 2)

    @property
    def max_points(self) -> float:
        return round(float(sum(check.max_points for check in self.checks)), 2)

    def worth(self, max_points: float) -> Report:
        """The same report with another maximum of points, as a class may have decided."""
        if max_points == self.max_points or not self.max_points:
            return self
        factor = max_points / self.max_points
        scaled = (replace(c, points=c.points * factor, max_points=c.max_points * factor) for c in self.checks)
        return replace(self, checks=tuple(scaled))

    @property
    def score(self) -> str:
        more = f", {self.hidden_points:g} more when graded" if self.hidden_points else ""
        return f"{self.points:g} of {self.max_points:g} points{' here' if more else ''}{more}"

    @property
    def passed(self) -> bool:
        return self.outcome == "right"

    @property
    def misconception(self) -> str | None:
        """The id of the mistake, if it is a known one; two ids joined by ` + ` for a pair."""
        return self.diagnosis.id if self.diagnosis else None

    def __str__(self) -> str:
        score = self.score
        lines = [f"{self.name:<{72 - len(score)}}{score}"]
        for check in self.checks:
            note = " (not reached)" if check.passed is None else ""
            lines.append(f"  {MARKS[check.passed]} {check.name}{note}")
            if check.passed is False:
                lines += [indented(text) for text in (*self.explanation(check), *self.offer(check))]
        for where, text in self.printed:
            lines += [f"  {self.printed_title(where)}", textwrap.indent(text.rstrip(), " " * 6)]
        return "\n".join(lines)

    __repr__ = __str__

    def explanation(self, check: CheckResult) -> list[str]:
        """What to say about a failed check: the named mistake first, then what was seen."""
        texts = [self.diagnosis.sentence] if self.diagnosis and self.is_first_failure(check) else []
        texts += [check.message, self.advice]
        return [text for text in texts if text]

    def is_first_failure(self, check: CheckResult) -> bool:
        """Most reports have only one: the first failure ends a run. The report on a written test may have two."""
        return check is next((each for each in self.checks if each.passed is False), None)

    def offer(self, check: CheckResult) -> list[str]:
        """Where to get help."""
        if not self.num_hints or not self.is_first_failure(check):
            return []
        number = self.hints_given % self.num_hints + 1
        return [f'Stuck? hint("{self.name}") gives hint {number} of {self.num_hints}.']

    def folded_hints(self) -> str:
        """The hints, each to be unfolded once the one before it is open."""
        text = ""
        for number, hint in reversed(list(enumerate(self.hints, start=1))):
            text = (
                f'<details style="padding-left:12px"><summary style="cursor:pointer">Hint {number} of '
                f"{len(self.hints)}</summary>{marked_up(hint)}{text}</details>"
            )
        return text

    @staticmethod
    def printed_title(where: str) -> str:
        return f"{where}your code printed" if where else "Your code printed"

    def as_html(self) -> str:
        head_colour = COLOURS[self.passed]
        title = (
            f'<div style="font-weight:bold;border-left:4px solid {head_colour};padding-left:8px">'
            f"<code>{html.escape(self.name)}</code>&emsp;{self.score}</div>"
        )
        rows = "".join(self.row(check) for check in self.checks)
        rows += "".join(
            f'<div style="padding-left:12px">{html.escape(self.printed_title(where))}'
            f'<pre style="margin:0 0 4px 20px">{html.escape(text)}</pre></div>'
            for where, text in self.printed
        )
        return f'<div class="course-report" style="line-height:1.5;margin:4px 0">{title}{rows}</div>'

    def row(self, check: CheckResult) -> str:
        style = f"{readable(COLOURS[check.passed])};font-weight:bold"
        mark = f'<span role="img" aria-label="{SPOKEN[check.passed]}" style="{style}">{MARKS[check.passed]}</span>'
        note = " <i>(not reached)</i>" if check.passed is None else ""
        text = f'<div style="padding-left:12px">{mark} {html.escape(check.name)}{note}</div>'
        if check.passed is False:
            is_first = self.is_first_failure(check)
            named, *rest = [*self.explanation(check), *([] if self.hints else self.offer(check))]
            first = f"<b>{marked_up(named)}</b>" if self.diagnosis and is_first else marked_up(named)
            body = "<br>".join([first, *map(marked_up, rest)])
            picture = check.difference.as_html() if check.difference else ""
            hints = self.folded_hints() if is_first else ""
            text += f'<div style="padding:2px 0 4px 32px">{body}{picture}{hints}</div>'
        return text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Mapping[str, str]:
        """HTML for the reader. In a kernel the plain text is the score alone: nbgrader reads partial credit there."""
        return self.for_nbgrader() if in_kernel() else {"text/html": self.as_html(), "text/plain": str(self)}

    def for_nbgrader(self) -> Mapping[str, str]:
        """The output of a graded cell: HTML for the reader, and as plain text the score alone."""
        return {"text/html": self.as_html(), "text/plain": f"{self.points:g}"}


def marked_up(text: str) -> str:
    """The text as HTML. Text between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def indented(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False)
