"""No point is given on the word of the process in which student code runs.

Each answer here gets around the watch that runs beside it, or rewrites what a model remembers. It earns no more than
the same answer without its trick.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from classroom import by_name, full, judged, score, solutions, submission
from torch import nn

from autograder.judging.ready_made import forbidden_in
from course_lib import training
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises
from course_lib.positions import sinusoidal_encoding

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]
STEM = "05_sublayers"
FORBIDS = all_exercises()["LayerNorm"].forbids


def a_norm(body: str, before: str = "") -> str:
    """An answer to LayerNorm with the work done in `body`. It prints that it was there."""
    return f"""
{before}
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.shape, self.eps = (d_model,), eps

    def forward(self, x):
        {body}


print("I was here")
"""


FORMULA = (
    "return self.gain * (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt() + self.bias"
)
TORCHS = "x, self.shape, self.gain, self.bias, self.eps"
EVASIONS = {
    "by aten": a_norm(f"return torch.ops.aten.native_layer_norm({TORCHS})[0]"),
    "in a thread": a_norm(
        "box = []; t = Thread(target=lambda: box.append(work(self, x))); t.start(); t.join(); return box[0]",
        f"from threading import Thread\n\n\ndef work(self, x):\n    return F.layer_norm({TORCHS})\n\n",
    ),
    "compiled": a_norm(
        f"return fast({TORCHS})",
        "def slow(x, shape: list[int], gain, bias, eps: float):\n"
        "    return torch.layer_norm(x, shape, gain, bias, eps)\n\n\nfast = torch.jit.script(slow)\n\n",
    ),
    "with the watch switched off": a_norm(
        f"with torch._C.DisableTorchFunction():\n            return F.layer_norm({TORCHS})"
    ),
    "behaving while watched": a_norm(
        f"return F.layer_norm({TORCHS}) if not torch.overrides._get_current_function_mode() else x"
    ),
    "under another name": a_norm(f"return tools['a']({TORCHS})", "tools = {'a': F.layer_norm}\n\n"),
    "imported": a_norm(f"return n({TORCHS})", "from torch.nn.functional import layer_norm as n\n\n"),
    "by a name put together": a_norm(f"return getattr(F, 'layer' + '_norm')({TORCHS})"),
    "as a torch function": a_norm(f"return torch.square({TORCHS})", "torch.square = F.layer_norm\n\n"),
    "put in afterwards": a_norm("return x") + f"\n\nLayerNorm.forward = lambda self, x: F.layer_norm({TORCHS})",
    "put in by a helper": a_norm("return x")
    + f"\n\ndef mend(a):\n    a.forward = lambda self, x: F.layer_norm({TORCHS})\n\n\nmend(LayerNorm)",
    "everything imported": "from torch.nn import *\nBase = LayerNorm\nclass LayerNorm(Base): pass",
    "below a magic": "%%capture\n" + a_norm(f"return F.layer_norm({TORCHS})"),
}
HONEST = {
    "a formula": a_norm(FORMULA),
    "compared with torch's": a_norm(FORMULA)
    + "\n\ndef same(own, other):\n    return torch.allclose(own(4)(x), other(4)(x))\n\n\nx = torch.randn(2, 4)\n"
    "x.requires_grad = True\nassert same(LayerNorm, nn.LayerNorm)\nprint(F.layer_norm(x, (4,)))",
    "timed": "%%time\n" + a_norm(FORMULA),
    "with a helper": a_norm(
        "return spread(x, self.eps) * self.gain + self.bias", "def spread(x, eps):\n    return x\n\n"
    ),
}


@pytest.mark.parametrize("name", EVASIONS)
def test_the_source_shows_what_does_the_work(name):
    assert forbidden_in("LayerNorm", FORBIDS, [EVASIONS[name]])


@pytest.mark.parametrize("name", HONEST)
def test_a_formula_of_ones_own_may_stand_beside_torchs(name):
    assert forbidden_in("LayerNorm", FORBIDS, [HONEST[name]]) is None


@pytest.mark.parametrize("name", ["by aten", "in a thread", "compiled", "with the watch switched off"])
def test_the_judge_gives_no_point_for_a_norm_that_hides(name):
    result = judged(STEM, submission(STEM, solutions(STEM) | {"LayerNorm": EVASIONS[name]}))
    norm = by_name(result)["LayerNorm"]
    assert score(norm) == 0
    assert "Write the formula yourself" in norm.message
    assert "I was here" in str(result.notebook)
    others = [e for e in result.verdict.exercises if e.name != "LayerNorm"]
    assert all(score(e) == full(e) for e in others)


@pytest.mark.parametrize("name", ["compared with torch's", "a formula"])
def test_the_judge_gives_all_points_for_a_formula(name):
    result = judged(STEM, submission(STEM, solutions(STEM) | {"LayerNorm": HONEST[name]}))
    norm = by_name(result)["LayerNorm"]
    assert score(norm) == full(norm), norm.message


# --- what a model remembers ------------------------------------------------------------------------------------------


def points(name: str, answer) -> float:
    return grade(all_exercises()[name], Subject(answer)).points


def step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """A right step, except for the mode of the model."""
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss


def test_a_rewritten_memory_of_the_mode_earns_nothing():
    rewritten = []

    def in_evaluation(*args):
        return step(*args).item()

    def says_in_training(model, *args):
        result = step(model, *args).item()
        for call in model.calls:
            call["training"] = True
            rewritten.append(call)
        return result

    assert points("train_step", says_in_training) == points("train_step", in_evaluation) == 1
    assert rewritten


def test_a_rewritten_memory_of_the_batches_earns_nothing():
    def unshifted(model, batches, bos_id, pad_id):
        model.zero_grad()
        for source, targets in batches:
            training.sequence_loss(model(source, targets), targets, pad_id).backward()
        return 0.0

    def says_shifted(model, batches, bos_id, pad_id):
        result = unshifted(model, batches, bos_id, pad_id)
        for call, (_, targets) in zip(model.calls, batches):
            call["given"] = training.shift_right(targets, bos_id)
        return result

    assert points("accumulate_gradients", says_shifted) == points("accumulate_gradients", unshifted) == 0


def test_memory_is_advice():
    """Only the process in which the code runs knows how many graphs were open. It costs no point, visible or hidden."""
    exercise = all_exercises()["accumulate_gradients"]

    def at_once(model, batches, bos_id, pad_id):
        model.zero_grad()
        counts = [int((targets != pad_id).sum()) for _, targets in batches]
        losses = [
            training.sequence_loss(model(source, training.shift_right(targets, bos_id)), targets, pad_id) * count
            for (source, targets), count in zip(batches, counts)
        ]
        loss = sum(losses) / sum(counts)
        loss.backward()
        return loss.item()

    report = grade(exercise, Subject(at_once))
    assert not report.passed
    assert report.points == report.max_points == exercise.max_points


# --- exemptions ------------------------------------------------------------------------------------------------------


def test_who_changes_an_input_is_not_spared_the_gradients():
    def detached(x, dim):
        return F.softmax(x.detach(), dim)

    def detached_and_changed(x, dim):
        result = F.softmax(x.detach(), dim)
        x.data += 1
        return result

    assert points("softmax", detached_and_changed) <= points("softmax", detached)


class OnlyEven(nn.Module):
    """Positions for an even d_model, and garbage for an odd one."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("table", sinusoidal_encoding(max_len, d_model) * (1 - d_model % 2), persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype)


class WrongWhenProbed(OnlyEven):
    """As if it were another mistake, where the even width beside an odd one is asked."""

    def forward(self, x):
        return super().forward(x) + (x.shape == (1, 2, 4))


class KeepsItElsewhere(OnlyEven):
    """A buffer for show; what is added is kept in a list, which no device watch follows."""

    def __init__(self, d_model, max_len=5000):
        super().__init__(d_model, max_len)
        self.kept = [sinusoidal_encoding(max_len, d_model)]

    def forward(self, x):
        return x + torch.tensor(self.kept[0][: x.shape[1]].tolist(), dtype=x.dtype)


def test_no_width_is_spared():
    assert points("PositionalEncoding", WrongWhenProbed) <= points("PositionalEncoding", OnlyEven) == 5


def test_a_buffer_for_show_is_no_buffer():
    assert points("PositionalEncoding", KeepsItElsewhere) == 3
