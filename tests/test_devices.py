"""Every notebook on a GPU, before anything in it is answered: its cells put models and data on `device`, nothing that
is there meets what is not, and where an answer is missing the course's own takes its place."""

from __future__ import annotations

import contextlib
import io
import itertools

import matplotlib.pyplot as plt
import pytest
import torch
from fake_gpu import GPU, FakeGpu, is_there
from release import released_notebook

import course_lib
from autograder.authoring import build
from course_lib import progress_bar, settings, training
from course_lib.exercises import all_exercises

# Arrays that a mode of torch looks at are converted in numpy's older way.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib")

LARGE = 2000  # parameters; on a smaller model a GPU is no faster
STEPS = 3  # of each loop that shows a bar
MORE_STEPS = {"05_sublayers": 20, "11_language_model": 20}  # their curves are means over this many


@pytest.fixture
def on_a_gpu(monkeypatch):
    """A GPU for all code that asks for one; the course's own trainings are shorter, and long loops end early."""
    monkeypatch.setenv("COURSE_FAST", "1")
    monkeypatch.setattr(settings, "course_device", lambda: GPU)
    monkeypatch.setattr(course_lib, "check", lambda *_, **__: None)
    monkeypatch.setattr(course_lib, "yours", lambda name, _: all_exercises()[name].reference)
    monkeypatch.setattr(training.LossCurves, "__init__", with_every_step(training.LossCurves.__init__))
    for optimiser in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        monkeypatch.setattr(optimiser, "step", refusing_the_cpu(optimiser.step))
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))


def with_every_step(init):
    return lambda *arguments, every, **others: init(*arguments, every=1, **others)


def refusing_the_cpu(step):
    def checked(optimiser, *arguments, **others):
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        size = sum(p.numel() for p in parameters)
        assert size < LARGE or all(map(is_there, parameters)), f"{size} parameters are trained on the CPU"
        return step(optimiser, *arguments, **others)

    return checked


@pytest.mark.parametrize("stem", build.stems())
def test_every_cell_runs_on_a_gpu(stem, on_a_gpu, monkeypatch):
    steps = MORE_STEPS.get(stem, STEPS)
    monkeypatch.setattr(progress_bar, "bar", lambda items, what="", total=None: itertools.islice(items, steps))
    namespace = {"__name__": "__main__"}
    for cell in released_notebook(stem).cells:
        if cell.cell_type == "code" and cell.id != "bootstrap" and not cell.id.endswith("_hidden"):
            with FakeGpu(), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(cell.source, f"{stem}, cell {cell.id}", "exec"), namespace)
