"""The exercise `accepts_positional_encoding`: which mistakes a test has to catch, and what people really test."""

from __future__ import annotations

import math

import torch

from course_lib import you_are_the_grader
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises.positions import positional_encoding as tested

accepts_positional_encoding = WrittenTest(
    you_are_the_grader.accepts_positional_encoding,
    tested=tested,
    shown=(
        "adds_along_the_batch",
        "adds_x_twice",
        "adds_the_whole_table",
        "trains_the_table",
        "keeps_a_plain_attribute",
        "scales_x",
        "skips_position_zero",
        "changes_x_in_place",
        "swaps_sine_and_cosine_in_the_table",
        "needs_an_even_width_for_the_table",
        "forgets_the_dtype",
        "leaves_the_dropout_in",
    ),
    left_out={"has_no_buffer": "A frozen parameter moves with the module and is not trained, as a buffer."},
    minutes=6,
    difficulty=2,
    hints=[
        "The result minus x is the table, whatever x is. Compute the table number by number, with math.sin and "
        "math.cos, and compare with atol=1e-4.",
        "Let batch, time, d_model and max_len all differ, and swap batch and time once: what is added along the wrong "
        "axis shows then. One width should be odd.",
        "Keep a copy of x, call layer.train(), and see afterwards: x unchanged, x.grad all ones after "
        "result.sum().backward(), no parameter that requires a gradient, something in layer.buffers().",
        "layer(x.half()).dtype should be torch.float16.",
    ],
)


@accepts_positional_encoding.misconception
def accepts_everything(PositionalEncoding):
    """Your test accepts whatever it is given: it has not caught a single mistake."""
    return True


@accepts_positional_encoding.misconception
def rejects_everything(PositionalEncoding):
    """Your test rejects whatever it is given. A right implementation has to pass."""
    return False


@accepts_positional_encoding.misconception
def looks_at_the_shape(PositionalEncoding):
    """Your test catches no more than a look at the shape does. Which numbers are added?"""
    return PositionalEncoding(6, 11)(torch.randn(3, 5, 6)).shape == (3, 5, 6)


@accepts_positional_encoding.misconception
def fills_the_table(PositionalEncoding):
    """Your test catches no more than one input of max_len positions does, in evaluation. Try fewer positions, too, and
    look at gradients, parameters, buffers, dtypes and an odd width."""
    x = torch.randn(1, 4, 4)
    angles = torch.arange(4)[:, None] / 10000 ** (torch.tensor([0, 0, 2, 2]) / 4)
    table = torch.where(torch.arange(4) % 2 == 0, angles.sin(), angles.cos())
    result = PositionalEncoding(4, 4).eval()(x.clone())
    return result.shape == x.shape and torch.allclose(result, x + table, atol=1e-4)


@accepts_positional_encoding.misconception
def compares_numbers_alone(PositionalEncoding):
    """Your test compares the numbers in evaluation, and no more. Training mode, gradients, parameters, buffers, dtypes
    and changed inputs go unseen."""
    for width in (6, 7):
        x = torch.randn(3, 5, width)
        angles = torch.arange(5)[:, None] / 10000 ** (2 * (torch.arange(width) // 2) / width)
        table = torch.where(torch.arange(width) % 2 == 0, angles.sin(), angles.cos())
        result = PositionalEncoding(width, 11).eval()(x.clone())
        if result.shape != x.shape or not torch.allclose(result, x + table, atol=1e-4):
            return False
    return True


@accepts_positional_encoding.misconception
def wants_a_certain_name(PositionalEncoding):
    """Your test looks for a buffer of a certain name. A right module may call it anything, and keep it in any shape."""
    layer = PositionalEncoding(6, 11)
    return dict(layer.named_buffers()).get("pe") is not None


@accepts_positional_encoding.alternative
def by_what_is_added(PositionalEncoding):
    torch.manual_seed(0)
    for width, batch, time in ((5, 2, 7), (8, 6, 3), (2, 3, 9)):
        layer = PositionalEncoding(width, 9)
        for mode in (True, False):
            layer.train(mode)
            x = torch.randn(batch, time, width, requires_grad=True)
            kept = x.detach().clone()
            added = layer(x) - kept
            assert added.shape == x.shape and added.dtype == x.dtype
            assert torch.equal(x, kept)
            assert torch.allclose(added, added[:1].expand_as(added), atol=1e-4)
            for t in range(time):
                for c in range(width):
                    angle = t / 10000 ** ((c - c % 2) / width)
                    assert abs(added[0, t, c].item() - (math.cos if c % 2 else math.sin)(angle)) < 1e-4
            assert torch.equal(torch.autograd.grad(added.sum(), x)[0], torch.ones_like(x))
        assert not [p for p in layer.parameters() if p.requires_grad]
        assert len(list(layer.buffers())) > 0
        assert layer(torch.zeros(1, 2, width, dtype=torch.float16)).dtype == torch.float16
    return True


@accepts_positional_encoding.alternative
def by_vectors(PositionalEncoding):
    def table(time, width):
        pairs = torch.arange(0, width, 2)
        angles = torch.arange(time).unsqueeze(1) * torch.exp(-math.log(10000.0) * pairs / width)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]

    torch.manual_seed(1)
    for batch, time, width, longest in ((4, 3, 6, 10), (2, 8, 7, 8), (1, 1, 3, 5)):
        layer = PositionalEncoding(width, longest).train()
        x = torch.randn(batch, time, width)
        leaf = x.clone().requires_grad_()
        result = layer(leaf)
        ok = result.shape == x.shape and torch.allclose(result, x + table(time, width), atol=1e-4)
        ok = ok and torch.equal(leaf, x)
        result.pow(2).sum().backward()
        ok = ok and torch.allclose(leaf.grad, 2 * result.detach(), atol=1e-4)
        ok = ok and not any(p.requires_grad for p in layer.parameters())
        ok = ok and any(b.numel() >= width for b in layer.buffers())
        ok = ok and layer(x.to(torch.bfloat16)).dtype == torch.bfloat16
        if not ok:
            return False
    return True


@accepts_positional_encoding.alternative
def by_zeros_and_noise(PositionalEncoding):
    torch.manual_seed(2)
    for width in (4, 9):
        layer = PositionalEncoding(width, 13)
        layer.train()
        if sum(p.numel() for p in layer.parameters() if p.requires_grad) or not list(layer.buffers()):
            return False
        rows = layer(torch.zeros(1, 13, width))[0]
        for c in range(width):
            angles = [t / 10000 ** (2 * (c // 2) / width) for t in range(13)]
            wanted = torch.tensor([math.cos(a) if c % 2 else math.sin(a) for a in angles])
            if not torch.allclose(rows[:, c], wanted, atol=1e-4):
                return False
        for batch, time in ((5, 3), (3, 5), (2, 13)):
            x = torch.randn(batch, time, width).requires_grad_()
            kept = x.detach().clone()
            result = layer(x)
            if result.shape != x.shape or not torch.allclose(result, kept + rows[:time], atol=1e-4):
                return False
            result.sum().backward()
            if x.grad is None or not torch.equal(x.detach(), kept) or not (x.grad == 1).all():
                return False
        if layer(torch.ones(2, 2, width).half()).dtype != torch.half:
            return False
    return True
