"""The map of the course: every notebook has its place, no two words meet, and no two colours look alike."""

from __future__ import annotations

from itertools import combinations

import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import pytest

from autograder.authoring import build
from course_lib import transformer_map
from course_lib.notebooks import Notebook, all_notebooks
from course_lib.plotting import PARTS, show_map, use_course_style

LATER = ("Classification", "Language models", "Speech", "Long sequences", "You are the grader")
PART_THREE = tuple(
    Notebook(f"{number}_{name.lower().replace(' ', '_')}", f"{number} · {name}", 100, 2)
    for number, name in enumerate(LATER, start=10)
)

YET_TO_COME = [later for later in PART_THREE if later.number not in {notebook.number for notebook in all_notebooks()}]


@pytest.fixture
def drawn(monkeypatch):
    """Draws a map and gives its axes."""
    with plt.rc_context():
        use_course_style()
        monkeypatch.setattr(plt, "show", lambda: None)

        def draw(here=None):
            plt.close("all")
            show_map(here)
            plt.gcf().draw_without_rendering()
            return plt.gca()

        yield draw
        plt.close("all")


@pytest.fixture
def with_part_three(monkeypatch):
    monkeypatch.setattr(transformer_map, "all_notebooks", lambda: (*all_notebooks(), *YET_TO_COME))
    monkeypatch.setattr(
        transformer_map,
        "find_notebook",
        lambda stem: next(n for n in (*all_notebooks(), *YET_TO_COME) if n.stem == stem),
    )


def test_the_contents_are_those_of_the_sources():
    assert [notebook.stem for notebook in all_notebooks()] == build.stems()


def words_of(ax):
    return {text.get_text(): text for text in ax.texts if text.get_text()}


def badges(ax):
    return [patch for patch in ax.patches if isinstance(patch, transformer_map.Circle)]


@pytest.mark.parametrize("here", [None, *(notebook.stem for notebook in all_notebooks())])
def test_every_notebook_is_on_the_map_and_one_is_marked(drawn, here):
    ax = drawn(here)
    words = words_of(ax)
    assert all(notebook.name in words and str(notebook.number) in words for notebook in all_notebooks())
    marked = [notebook.stem for notebook in all_notebooks() if words[notebook.name].get_weight() == "bold"]
    assert marked == ([] if here is None else [here])
    require_room(ax)


@pytest.mark.parametrize(
    ("topic", "parts"),
    [
        ("classification", {"self-attention", "feed-forward"}),
        ("language_model", {"causal self-attention", "feed-forward", "output layer, softmax"}),
        ("transformer", {"self-attention", "causal self-attention", "cross-attention", "output layer, softmax"}),
    ],
)
def test_a_model_of_one_stack_lights_up_that_stack(topic, parts):
    notebook = next(notebook for notebook in all_notebooks() if notebook.topic == topic)
    lit = [box for box in transformer_map.BOXES if transformer_map.is_about(notebook, box)]
    stacks = {box.x for box in lit} & {transformer_map.ENCODER, transformer_map.DECODER}
    assert len(stacks) == (2 if topic == "transformer" else 1) and parts <= {box.text for box in lit}
    assert ("cross-attention" in {box.text for box in lit}) == (topic == "transformer")


def test_there_is_room_for_what_comes_later(drawn, with_part_three):
    for here in (None, PART_THREE[-1].stem):
        ax = drawn(here)
        assert set(LATER) <= set(words_of(ax))
        require_room(ax)


def require_room(ax):
    """No text meets another one or a badge, and none leaves the picture."""
    texts = [text for text in ax.texts if text.get_text()]
    areas = {text.get_text() + f" at {text.get_position()}": text.get_window_extent() for text in texts}
    names = {name: area for name, area in areas.items() if not name.split(" at ")[0].isdigit()}
    for (one, area), (other, another) in combinations(areas.items(), 2):
        assert not area.overlaps(another), f"{one} meets {other}"
    for badge in badges(ax):
        assert not [name for name, area in names.items() if area.overlaps(badge.get_window_extent())]
    picture = ax.get_window_extent()
    assert all(picture.x0 <= a.x0 and a.x1 <= picture.x1 and picture.y0 <= a.y0 for a in areas.values())


def test_an_unknown_notebook_is_named():
    with pytest.raises(ValueError, match=r"no notebook '03_postions'\. There are: 00_start_here, "):
        show_map("03_postions")


# --- colours ----------------------------------------------------------------------------------------------

DEUTERANOPIA = np.array(  # Machado, Oliveira and Fernandes (2009), in linear RGB
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, seen_with: np.ndarray) -> np.ndarray:
    """CIE Lab: distances in it are about as large as they look."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(seen_with @ linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("eyes", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["most", "deuteranopia", "protanopia"])
def test_parts_can_be_told_apart(eyes):
    for (one, colour), (other, another) in combinations(PARTS.items(), 2):
        distance = np.linalg.norm(lab(colour, eyes) - lab(another, eyes))
        assert distance > 18, f"{one} and {other} look alike: {distance:.0f}"
