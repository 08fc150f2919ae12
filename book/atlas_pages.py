"""The atlas as pages: one for each exercise, one for each idea, and two that list them."""

from __future__ import annotations

import html
from collections.abc import Iterator

import torch
from torch import Tensor

from autograder.authoring.build import title
from book.atlas import Atlas, Entry, Matrix, Mistake, Picture
from book.ideas import Idea, all_ideas
from book.pages import FENCE, html_text, points, python, raw
from course_lib.checking.difference import Difference

INDEX_HEAD = """\
# The atlas of mistakes

What people get wrong, exercise by exercise. Each mistake has a card: its name, the sentence that a student is told, the
lines in which it differs from the course's own answer (`-` as in the mistake, `+` as it should be), the smallest input
that shows it, and what comes out there. [By idea](ideas.md) lists the same by what they are about."""
IDEAS_HEAD = """\
# Mistakes by idea

What the mistakes are about. A mistake belongs to an idea if its name, or the first sentence about it, has a word of
that idea, or if its exercise is about nothing else; many belong to more than one."""


def atlas_pages(atlas: Atlas) -> dict[str, str]:
    """Name of the page -> text."""
    pages = {f"atlas/{entry.name}": page_of(entry) for entry in atlas.exercises}
    used = [idea for idea in all_ideas() if any(of_idea(entry, idea) for entry in atlas.exercises)]
    pages |= {f"atlas/idea_{idea.id}": page_of_idea(idea, atlas) for idea in used}
    pages["atlas/index"] = index(atlas)
    pages["atlas/ideas"] = index_of_ideas(used, atlas)
    return pages


def of_idea(entry: Entry, idea: Idea) -> list[Mistake]:
    return [mistake for mistake in entry.misconceptions if idea.id in mistake.ideas]


def listed(names: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", ":maxdepth: 1", "", *names, "```"])


# --- one exercise -----------------------------------------------------------------------------------------


def page_of(entry: Entry) -> str:
    parts = [
        f"# {entry.name}",
        f"An exercise of [{title(entry.notebook)}](../{entry.notebook}.md). "
        f"Known mistakes: {len(entry.misconceptions)}.",
        "## The task",
        f"`{entry.call}`",
        *(html_text(paragraph) for paragraph in entry.task.split("\n\n")),
        "## The right idea",
        "\n".join(f"- {prop['name']} ({points(prop['points'])})" for prop in entry.properties if prop["points"]),
        python(entry.reference),
        "## Known mistakes",
        *(part for mistake in entry.misconceptions for part in card(mistake)),
    ]
    return "\n\n".join(parts) + "\n"


def card(mistake: Mistake) -> Iterator[str]:
    yield f"### {mistake.title}"
    yield html_text(mistake.sentence)
    titles = {idea.id: idea.title for idea in all_ideas()}
    links = " · ".join(f"[{titles[name]}](idea_{name}.md)" for name in mistake.ideas)
    yield f"Idea: {links}"
    yield f"{FENCE}diff\n" + "\n".join(f"{line.sign}{line.code}".rstrip() for line in mistake.difference) + f"\n{FENCE}"
    if mistake.input is not None:
        yield f"<p><strong>The smallest input that shows it:</strong> {html.escape(mistake.input)}</p>"
        yield f"<p><strong>There the check says:</strong> {html.escape(mistake.check_says)}</p>"
    if mistake.lets_through:
        yield f"**Such a test lets through:** {', '.join(f'`{name}`' for name in mistake.lets_through)}"
    if mistake.refuses:
        yield f"**Such a test refuses what is right:** {', '.join(f'`{name}`' for name in mistake.refuses)}"
    if mistake.picture:
        yield raw(f'<div class="picture-of-a-mistake">{drawn(mistake.picture)}</div>')


def drawn(picture: Picture) -> str:
    """The three grids that a failing check shows."""
    return Difference(as_tensor(picture.got), as_tensor(picture.expected)).as_html("mistake")


def as_tensor(matrix: Matrix) -> Tensor:
    is_bool = all(isinstance(value, bool) for row in matrix for value in row)
    values = torch.tensor([[float(value) for value in row] for row in matrix], dtype=torch.float64)
    return values.bool() if is_bool else values


# --- the lists --------------------------------------------------------------------------------------------


def anchor(mistake: Mistake) -> str:
    return mistake.title.replace(" ", "-")


def page_of_idea(idea: Idea, atlas: Atlas) -> str:
    parts = [f"# {idea.title}", idea.about]
    for entry in atlas.exercises:
        found = of_idea(entry, idea)
        if found:
            parts.append(f"## {entry.name}")
            parts.append("\n".join(f"- [{m.title}](<{entry.name}.md#{anchor(m)}>): {plain(m.done)}" for m in found))
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """A sentence in a list: code stays code, and nothing else in it is markup."""
    return html_text(text).removeprefix("<p>").removesuffix("</p>")


def index(atlas: Atlas) -> str:
    lines = ["| notebook | exercise | mistakes |", "|---|---|---|"]
    for entry in atlas.exercises:
        link = f"[{title(entry.notebook)}](../{entry.notebook}.md)"
        lines.append(f"| {link} | [`{entry.name}`]({entry.name}.md) | {len(entry.misconceptions)} |")
    return "\n\n".join([INDEX_HEAD, "\n".join(lines), listed([entry.name for entry in atlas.exercises])]) + "\n"


def index_of_ideas(ideas: list[Idea], atlas: Atlas) -> str:
    lines = ["| idea | what it is about | mistakes |", "|---|---|---|"]
    for idea in ideas:
        count = sum(len(of_idea(entry, idea)) for entry in atlas.exercises)
        lines.append(f"| [{idea.title}](idea_{idea.id}.md) | {idea.about} | {count} |")
    return "\n\n".join([IDEAS_HEAD, "\n".join(lines), listed([f"idea_{idea.id}" for idea in ideas])]) + "\n"
