"""The exercise `apply_rope`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch

from course_lib import positions as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.positions import sinusoidal_encoding

apply_rope = Exercise(
    reference.apply_rope,
    cases=[
        {"x": normal(2, 2, seed=21), "positions": torch.tensor([0, 1])},
        {"x": normal(3, 4, seed=22), "positions": torch.tensor([2, 3, 4])},
        {"x": normal(2, 3, 5, 8, seed=23), "positions": torch.tensor([7, 0, 3, 12, 4])},
    ],
    minutes=12,
    difficulty=3,
    hidden_points=2,
    hints=[
        "A point (a, b) turned by an angle is (a cos - b sin, a sin + b cos). Every pair of features is such a point.",
        "The angles form a table as before: positions[:, None] * frequencies, with one column per pair: (time, d/2).",
        "x[..., 0::2] holds the first features of all pairs, x[..., 1::2] the second ones: (..., time, d/2).",
        "To interleave the turned features again: torch.stack([first, second], dim=-1).flatten(-2).",
    ],
)


def rope_of(subject, case):
    return expect_floats(subject(case["x"], case["positions"]), tuple(case["x"].shape))


@apply_rope.property("the result has the shape of x", points=1)
def rope_shape(subject, case):
    rope_of(subject, case)


@apply_rope.property("the first pair of features is turned by the position itself", points=1)
def rope_first_pair(subject, case):
    pair = rope_of(subject, case)[..., :2]
    expect_close(pair, apply_rope.want(case)[..., :2], "the first pair of features", atol=1e-4)


@apply_rope.property("every vector keeps its length", points=1)
def rope_keeps_lengths(subject, case):
    lengths = rope_of(subject, case).norm(dim=-1)
    expect_close(lengths, case["x"].norm(dim=-1), "the length of each turned vector")


@apply_rope.property("q·k depends on the distance alone: moving both by 5 changes no score", points=1)
def rope_is_relative(subject, case):
    q, k = case["x"], case["x"].flip(-1)

    def scores(by):
        moved = case["positions"] + by
        return rope_of(subject, {"x": q, "positions": moved}) @ rope_of(subject, {"x": k, "positions": moved}).mT

    change = (scores(5) - scores(0)).abs().max()
    moved = (case["positions"] + 5).tolist()
    expect(
        change < 1e-4,
        f"with x as queries and its features in reverse order as keys, the scores change by up to {float(change):.4g} "
        f"if you are asked for the positions {moved} instead. They should not change: all distances are the same.",
    )


@apply_rope.property("pair (2i, 2i+1) is turned by position · 10000^(-2i/d), and gradients pass", points=2)
def rope_values(subject, case):
    expect_close(rope_of(subject, case), apply_rope.want(case), atol=1e-4)
    args = case["x"], case["positions"]
    want = Subject(reference.apply_rope).gradient(*args, wrt=0)
    expect_close(
        subject.gradient(*args, wrt=0), want, "the gradient of the sum of the result with respect to x", atol=1e-4
    )


@apply_rope.misconception
def forgets_the_minus_of_the_rotation(x, positions):
    """You give both sines of the rotation the same sign. One of them is a minus: (a cos - b sin, a sin + b cos).

    As it is, the vectors change their length."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos + second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_clockwise(x, positions):
    """You turn the wrong way. The minus belongs to the first feature of a pair: (a cos - b sin, a sin + b cos).

    The scores do not notice."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos + second * sin
    turned_second = second * cos - first * sin
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def pairs_first_with_second_half(x, positions):
    """You pair feature i with feature i + d/2. Here the pairs are (0, 1), (2, 3), …

    That is a correct RoPE, and many models use it, but it is not the pairing asked for here."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    return torch.cat([turned_first, turned_second], dim=-1)


@apply_rope.misconception
def leaves_the_halves_apart(x, positions):
    """You put all first features of the pairs before all second ones. Put each feature back in its old place: at
    position 0 nothing may change.

    The right pairs are turned."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    return torch.cat([turned_first, turned_second], dim=-1)


@apply_rope.misconception
def halves_the_exponent_of_rope(x, positions):
    """Your frequencies are 10000^(-i/d), with i the number of the pair. The exponent is 2i/d (or i over d/2)."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def doubles_the_exponent_of_rope(x, positions):
    """Your frequencies are 10000^(-4i/d), with i the number of the pair. The exponent is 2i/d (or i over d/2)."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-4 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_later_pairs_faster(x, positions):
    """Your frequencies grow from pair to pair: you multiply by 10000^(2i/d) where you should divide."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_every_pair_alike(x, positions):
    """You turn all pairs by the same angle, the position itself. Each pair has a frequency of its own."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = torch.ones(d // 2, device=x.device)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def has_the_base_1000(x, positions):
    """Your base is 1000; the formula has 10000."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 1000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def ignores_the_positions(x, positions):
    """You number the vectors 0, 1, 2, … yourself and ignore the argument positions.

    When a model writes one token at a time, x holds one vector, and its position is not 0."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    positions = torch.arange(0, x.shape[-2], device=x.device)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def numbers_the_heads(x, positions):
    """You make the angle depend on the axis before time. Positions run along time, the axis before the last.

    As it is, all vectors of a sequence are turned alike."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    positions = torch.arange(0, x.shape[1], device=x.device)[:, None]
    angles = positions[..., None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def adds_the_table(x, positions):
    """You add sines and cosines to x. RoPE turns x instead: the length of a vector stays as it was."""
    table = sinusoidal_encoding(int(positions.max()) + 1, x.shape[-1])
    return x + table[positions].to(x.dtype)


@apply_rope.misconception
def uses_the_turned_first(x, positions):
    """You overwrite the first feature and then use its new value to turn the second. Both need the old values."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = turned_first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def mixes_each_feature_with_itself(x, positions):
    """You add cos and sin times the same feature. To turn a pair, each feature needs a part of the other one."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos + first * sin
    turned_second = second * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def swaps_sine_and_cosine_of_rope(x, positions):
    """Sine and cosine are swapped: at angle 0 the cosine, 1, keeps a feature as it is."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def mixes_two_pairings(x, positions):
    """You mix two pairings: your angles are laid out for the pairs (i, i + d/2) and repeat after d/2 columns, but the
    features are turned in pairs (0, 1), (2, 3), ….

    So the two features of a pair get different angles."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = (positions[:, None] * frequencies[None, :]).repeat(1, 2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos[:, 0::2] - second * sin[:, 0::2]
    turned_second = first * sin[:, 1::2] + second * cos[:, 1::2]
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_halves_with_interleaved_angles(x, positions):
    """You mix two pairings: your angles are laid out for the pairs (0, 1), (2, 3), …, but you turn feature i together
    with feature i + d/2.

    So the two features of a pair get different angles."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = (positions[:, None] * frequencies[None, :]).repeat_interleave(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * cos + half * sin


@apply_rope.misconception
def turns_only_the_first_pair(x, positions):
    """Only the first pair is turned; the other features come out as they were, or nearly so. Each pair has a frequency
    of its own, 10000^(-2i/d)."""
    turned = x.clone()
    cos, sin = positions.to(x.dtype).cos(), positions.to(x.dtype).sin()
    turned[..., 0] = x[..., 0] * cos - x[..., 1] * sin
    turned[..., 1] = x[..., 0] * sin + x[..., 1] * cos
    return turned


@apply_rope.misconception
def turns_in_degrees_too(x, positions):
    """You treat the angles as degrees. sin and cos expect radians, and position times frequency is already in
    radians."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :] * math.pi / 180
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_twice(x, positions):
    """You turn every pair twice: the angle is 2 · position · frequency. Once is enough."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = 2 * positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def counts_positions_from_one(x, positions):
    """You add 1 to the positions. Use them as they are given: at position 0 nothing is turned."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = (positions + 1)[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def counts_the_pairs_from_one(x, positions):
    """You count the pairs from 1. The first pair has i = 0 and the frequency 1."""
    d = x.shape[-1]
    pairs = torch.arange(1, d // 2 + 1, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def adds_x_to_the_turned(x, positions):
    """You add the turned vector to x. It takes the place of x."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return x + turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_nothing(x, positions):
    """You return x as it is: nothing is turned."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = 0 * positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def divides_by_the_number_of_positions(x, positions):
    """You divide the position by the number of vectors. Use a position as it is given, however long the text is."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] / len(positions) * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_without_a_gradient(x, positions):
    """You take x out of the graph (detach, .data, no_grad or item).

    The numbers are right, but queries and keys cannot learn."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.detach()[..., 0::2], x.detach()[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def turns_in_place(x, positions):
    """You write the turned features into x itself. The second one is made from a first that has already changed, and
    the caller still needs x."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    x[..., 0::2] = first * cos - second * sin
    x[..., 1::2] = first * sin + second * cos
    return x


@apply_rope.misconception
def has_two_minuses(x, positions):
    """You give both sines of the rotation a minus. Only the first has one: (a cos - b sin, a sin + b cos).

    As it is, the vectors change their length."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = second * cos - first * sin
    turned = torch.stack([turned_first, turned_second], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def swaps_the_features_of_a_pair(x, positions):
    """You return the two features of each pair in the wrong order. Each keeps its place."""
    d = x.shape[-1]
    pairs = torch.arange(0, d // 2, device=x.device)
    frequencies = 10000.0 ** (-2 * pairs / d)
    angles = positions[:, None] * frequencies[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    turned = torch.stack([turned_second, turned_first], dim=-1)
    return turned.flatten(start_dim=-2)


@apply_rope.misconception
def stays_with_complex_numbers(x, positions):
    """You turn each pair as one complex number and return the complex numbers. A feature is real: from each complex
    number come two again, side by side."""
    return turned_as_complex_numbers(x, positions)


@apply_rope.misconception
def keeps_only_the_real_parts(x, positions):
    """You turn each pair as one complex number and return only its real part. That is the pair's first feature: the
    second one is lost."""
    return turned_as_complex_numbers(x, positions).real.to(x.dtype)


def turned_as_complex_numbers(x, positions):
    d = x.shape[-1]
    frequencies = 1.0 / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    turns = torch.polar(torch.ones(len(positions), d // 2, dtype=torch.float64), torch.outer(positions, frequencies))
    numbers = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return numbers * turns  # (..., time, d/2)


@apply_rope.alternative
def as_complex_numbers(x, positions):
    return torch.view_as_real(turned_as_complex_numbers(x, positions)).flatten(-2).to(x.dtype)


@apply_rope.alternative
def with_rotate_half_interleaved(x, positions):
    d = x.shape[-1]
    inverse = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    angles = torch.einsum("t,f->tf", positions.float(), inverse).repeat_interleave(2, dim=-1)
    swapped = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angles.cos() + swapped * angles.sin()


@apply_rope.alternative
def with_rotation_matrices(x, positions):
    d = x.shape[-1]
    rows = []
    for t, position in enumerate(positions):
        rotation = torch.zeros(d, d)
        for i in range(d // 2):
            angle = position / 10000 ** (2 * i / d)
            rotation[2 * i, 2 * i] = rotation[2 * i + 1, 2 * i + 1] = torch.cos(angle)
            rotation[2 * i + 1, 2 * i] = torch.sin(angle)
            rotation[2 * i, 2 * i + 1] = -torch.sin(angle)
        rows.append(x[..., t, :] @ rotation.T)
    return torch.stack(rows, dim=-2)


@apply_rope.alternative
def in_loops(x, positions):
    turned = torch.empty_like(x)
    for t, position in enumerate(positions.tolist()):
        for c in range(0, x.shape[-1], 2):
            angle = position * 10000 ** (-c / x.shape[-1])
            a, b = x[..., t, c], x[..., t, c + 1]
            turned[..., t, c] = a * math.cos(angle) - b * math.sin(angle)
            turned[..., t, c + 1] = a * math.sin(angle) + b * math.cos(angle)
    return turned


@apply_rope.alternative
def with_shift_matrices(x, positions):
    """The matrices of the exercise before turn the other way, since there the sine comes first."""
    rows = [x[..., t, :] @ reference.shift_matrix(int(p), x.shape[-1]).to(x) for t, p in enumerate(positions)]
    return torch.stack(rows, dim=-2)


@apply_rope.alternative
def written_into_slices(x, positions):
    d = x.size(-1)
    theta = positions.unsqueeze(-1) * torch.pow(torch.tensor(10000.0), -torch.arange(0, d, 2) / d)
    out = torch.zeros_like(x)
    out[..., 0::2] = x[..., 0::2] * theta.cos() - x[..., 1::2] * theta.sin()
    out[..., 1::2] = x[..., 0::2] * theta.sin() + x[..., 1::2] * theta.cos()
    return out
