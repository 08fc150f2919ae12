"""What is there to do and what is done, notebook by notebook, for a notebook or a terminal."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.notebooks import Notebook

from .report import COLOURS

WIDTH = 20  # of a bar, in characters


STATES = {"○": "not begun", "◐": "begun", "✓": "right"}


@dataclass(frozen=True)
class Line:
    """One exercise."""

    name: str
    points: float  # earned here
    max_points: float  # to be earned here
    hidden_points: float  # to be earned when it is graded
    minutes: int
    difficulty: int
    state: str = "○"  # one of STATES


@dataclass(frozen=True)
class Group:
    """A notebook and its exercises."""

    notebook: Notebook
    lines: tuple[Line, ...]

    @property
    def points(self) -> float:
        return sum(line.points for line in self.lines)

    @property
    def here(self) -> float:
        return sum(line.max_points for line in self.lines)

    @property
    def later(self) -> float:
        """What can only be earned when the notebook is graded."""
        return sum(line.hidden_points for line in self.lines) + self.notebook.written_points

    @property
    def all_points(self) -> float:
        return self.here + self.later

    @property
    def is_begun(self) -> bool:
        return any(line.state != "○" for line in self.lines)


@dataclass(frozen=True)
class Progress:
    """How far somebody is: a bar for each notebook, and the exercises of those that are begun."""

    groups: tuple[Group, ...]

    @property
    def points(self) -> float:
        return sum(group.points for group in self.groups)

    def __repr__(self) -> str:
        widest = max(len(group.notebook.title) for group in self.groups)
        text = []
        for group in self.groups:
            text.append(f"{group.notebook.title:<{widest}}  {text_bar(group)}  {score(group)}")
            if group.is_begun:
                text += [f"    {line.state} {line.name:<{widest}}  {earned(line)}" for line in group.lines]
        return "\n".join([*text, self.summary()])

    def summary(self) -> str:
        possible, later = sum(g.all_points for g in self.groups), sum(g.later for g in self.groups)
        return (
            f"{self.points:g} of {possible:g} points; {later:g} of them are given when the notebooks are graded, "
            "for hidden cases and for written answers."
        )

    def _repr_html_(self) -> str:
        parts = [
            folded(
                f"{html_bar(group)}<b>{html.escape(group.notebook.title)}</b>&emsp;{score(group)}",
                table([(labelled(line.state), f"<code>{line.name}</code>", earned(line)) for line in group.lines]),
                is_open=group.is_begun,
            )
            for group in self.groups
        ]
        return f'<div class="course-progress">{"".join(parts)}<div>{html.escape(self.summary())}</div></div>'


@dataclass(frozen=True)
class Contents:
    """All exercises, a line for each notebook; the exercises themselves unfold."""

    groups: tuple[Group, ...]

    def __repr__(self) -> str:
        text = []
        for group in self.groups:
            text.append(f"{group.notebook.title} · {worth(group)}")
            text += [f"    {line.name:<30}{details(line)}" for line in group.lines]
        return "\n".join(text)

    def _repr_html_(self) -> str:
        parts = [
            folded(
                f"<b>{html.escape(group.notebook.title)}</b> · {worth(group)}",
                table([(f"<code>{line.name}</code>", details(line)) for line in group.lines]),
            )
            for group in self.groups
        ]
        return f'<div class="course-exercises">{"".join(parts)}</div>'


def labelled(state: str) -> str:
    """A state's sign with the word that a screen reader says for it."""
    return f'<span role="img" aria-label="{STATES[state]}">{state}</span>'


def score(group: Group) -> str:
    done = ", all checks passed" if all(line.state == "✓" for line in group.lines) else ""
    return f"{group.points:g} of {group.all_points:g} points{done}"


def earned(line: Line) -> str:
    return f"{line.points:g} of {line.max_points:g}, {line.hidden_points:g} more when graded"


def worth(group: Group) -> str:
    exercises = f"{len(group.lines)} exercise{'' if len(group.lines) == 1 else 's'}"
    return f"{exercises} · {group.all_points:g} points · about {group.notebook.minutes} minutes"


def details(line: Line) -> str:
    points = line.max_points + line.hidden_points
    return f"{points:g} points · about {line.minutes} minutes · {'●' * line.difficulty}{'○' * (3 - line.difficulty)}"


def text_bar(group: Group) -> str:
    """━━━━━╌╌╌╌···: earned, still to be earned here, only when graded."""
    earned_width = round(WIDTH * group.points / group.all_points)
    later = round(WIDTH * group.later / group.all_points)
    return "━" * earned_width + "╌" * (WIDTH - earned_width - later) + "·" * later


def html_bar(group: Group) -> str:
    """The same, drawn: a frame that fills from the left. Its grey end comes when the notebook is graded."""
    shares = [
        (group.points, COLOURS[True]),
        (group.here - group.points, "transparent"),
        (group.later, "rgba(128,128,128,.25)"),
    ]
    block = "display:inline-block;height:.8em"
    pieces = "".join(
        f'<span style="{block};width:{100 * part / group.all_points:.2f}%;background:{colour}"></span>'
        for part, colour in shares
    )
    frame = (
        f"{block};width:10em;margin-right:.8em;line-height:0;white-space:nowrap;outline:1px solid rgba(128,128,128,.6)"
    )
    return f'<span style="{frame}">{pieces}</span>'


def folded(head: str, body: str, is_open: bool = False) -> str:
    opened = " open" if is_open else ""
    return f'<details{opened} style="margin:2px 0"><summary style="cursor:pointer">{head}</summary>{body}</details>'


def table(rows: Sequence[tuple[str, ...]]) -> str:
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f'<table style="margin:2px 0 6px 1.5em">{body}</table>'
