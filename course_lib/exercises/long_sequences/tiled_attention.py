"""The exercise `tiled_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.exercises.long_sequences.shared import expect_nothing_from_the_future

tiled = Exercise(
    long_sequences.tiled_attention,
    cases=[
        {
            "q": normal(3, 2, seed=310),
            "k": normal(5, 2, seed=311),
            "v": normal(5, 4, seed=312),
            "tile": 2,
            "causal": False,
        },
        {
            "q": normal(2, 7, 3, seed=313, scale=1.5),
            "k": normal(2, 7, 3, seed=314, scale=1.5),
            "v": normal(2, 7, 5, seed=315),
            "tile": 3,
            "causal": True,
        },
        {
            "q": normal(2, 3, 4, 5, seed=316),
            "k": normal(2, 3, 9, 5, seed=317),
            "v": normal(2, 3, 9, 6, seed=318),
            "tile": 4,
            "causal": False,
        },
    ],
    minutes=10,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Three things are carried from tile to tile: the maximum of each query's scores, the sum of "
        "exp(score - maximum), and the sum of exp(score - maximum) · value. All three belong to the scores seen "
        "so far.",
        "When the maximum grows, both sums are multiplied by exp(old maximum - new maximum). Then the new tile is "
        "added to both. The output is divided by the sum once, after the last tile.",
        "In a causal tile, key number `start + column` is compared with the query's own number. Later keys get -inf "
        "before the maximum is taken.",
        "shrink = exp(maximum - new_maximum); weights = exp(scores - new_maximum); "
        "total = total * shrink + weights.sum(dim=-1, keepdim=True); output = output * shrink + weights @ v_tile.",
    ],
)


def right_attention(q, k, v, causal):
    """The usual form, with all scores at once."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(dim=-1) @ v


def tiled_answer(subject, q, k, v, tile, causal):
    return expect_floats(subject(q, k, v, tile, causal), (*q.shape[:-1], v.shape[-1]))


def expect_attention(subject, q, k, v, tile, causal, when):
    got = tiled_answer(subject, q, k, v, tile, causal)
    expect_close(got, right_attention(q, k, v, causal), f"the output{when}")


@tiled.property("the output has one row for each query, as long as a value", points=1)
def tiled_shape(subject, case):
    q, k, v, tile, _ = case.values()
    tiled_answer(subject, q, k, v, tile, False)


@tiled.property("with one tile for all keys, it is softmax(q kᵀ / √d_k) v", points=1)
def tiled_whole(subject, case):
    q, k, v, _, _ = case.values()
    expect_attention(subject, q, k, v, k.shape[-2], False, " with one tile")


@tiled.property("several tiles give the same output", points=2)
def tiled_several(subject, case):
    q, k, v, tile, _ = case.values()
    for size in (tile, 1):
        expect_attention(subject, q, k, v, size, False, f" with tiles of {size}")


@tiled.property(
    "a shorter last tile counts like the others, and one tile may have room for more than all keys", points=1
)
def tiled_ragged(subject, case):
    q, k, v, _, _ = case.values()
    n = k.shape[-2]
    for size in (n - 1, n + 2):
        expect_attention(subject, q, k, v, size, False, f" with {n} keys and tiles of {size}")


@tiled.property("causal: no query sees a later key, in any tile", points=1)
def tiled_future(subject, case):
    q, k, v, tile, _ = as_long_as_the_keys(case)
    got = tiled_answer(subject, q, k, v, tile, True)
    for wrt, what in ((1, "keys"), (2, "values")):
        expect_nothing_from_the_future(subject, (q, k, v, tile, True), wrt, got, what)


@tiled.property("causal: the output is that of causal attention", points=1)
def tiled_causal(subject, case):
    q, k, v, tile, _ = as_long_as_the_keys(case)
    for size in (tile, k.shape[-2]):
        expect_attention(subject, q, k, v, size, True, f" of causal attention with tiles of {size}")


def as_long_as_the_keys(case):
    """Causal attention has as many queries as keys."""
    q, k, v, tile, causal = case.values()
    n = min(q.shape[-2], k.shape[-2])
    return q[..., :n, :], k[..., :n, :], v[..., :n, :], tile, causal


@tiled.property("scores of a thousand and more are no trouble, above 0 and below", points=1)
def tiled_large(subject, case):
    q, k, v, tile, causal = case.values()
    expect_attention(subject, 400 * q, k, v, tile, causal, " for large scores")
    alike = k[..., :1, :] + 0.0001 * k  # so that all scores of a query are large at once, of either sign
    expect_attention(subject, 4000 * q, alike, v, tile, False, " for scores that are all far from 0")
    q, k, v, _, _ = as_long_as_the_keys(case)
    larger = torch.cat([k[..., :-1, :], 100 * q[..., :1, :]], dim=-2)  # the first query must not see the last key
    expect_attention(subject, 400 * q, larger, v, tile, True, " where a hidden score is by far the largest")


@tiled.advice("no tensor with all scores is made")
def tiled_is_small(subject, case):
    n_q, n_k = 40, 120
    q, k, v = normal(n_q, 3, seed=331), normal(n_k, 3, seed=332), normal(n_k, 2, seed=333)
    largest = subject.largest_tensor(q, k, v, 12, False)
    expect(
        largest < n_q * n_k,
        f"For {n_q} queries, {n_k} keys and tiles of 12 you make a tensor of {largest} numbers: as many as there are "
        f"scores, {n_q} · {n_k}, or more. With tiles, {n_q} · 12 scores at a time are enough.",
    )


@tiled.misconception
def does_not_scale(q, k, v, tile, causal):
    """You do not divide the scores by √d_k."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1)
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def divides_by_d_k(q, k, v, tile, causal):
    """You divide the scores by d_k. The scale is its square root."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / q.shape[-1]
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def divides_by_the_size_of_a_value(q, k, v, tile, causal):
    """You divide the scores by √d_v. The dot products are of queries and keys: √d_k."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(v.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def divides_by_the_length_of_a_tile(q, k, v, tile, causal):
    """You divide the scores by the square root of the number of keys in the tile. It is √d_k that counts."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(k_tile.shape[-2])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def softmax_of_each_tile_added(q, k, v, tile, causal):
    """You take the softmax of each tile by itself and add up the results.

    The weights of a query add up to the number of tiles."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.softmax(scores, dim=-1)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ v_tile
        maximum = new_maximum
    return output


@tiled.misconception
def mean_of_the_tiles(q, k, v, tile, causal):
    """You take the softmax of each tile by itself and average the results. A tile with large scores has to count
    for more."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.softmax(scores, dim=-1)
        total = total + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def output_not_rescaled(q, k, v, tile, causal):
    """You rescale the sum of the weights when the maximum grows, but not the output. Both hold terms relative to
    the old maximum."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def total_not_rescaled(q, k, v, tile, causal):
    """You rescale the output when the maximum grows, but not the sum of the weights. Both hold terms relative to
    the old maximum."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def nothing_rescaled(q, k, v, tile, causal):
    """Neither the output nor the sum of the weights is rescaled when the maximum grows. Both hold terms relative to
    the old maximum."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def shrinks_upside_down(q, k, v, tile, causal):
    """You multiply by exp(new maximum - old maximum). A larger maximum makes the old terms smaller."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_zeros(*q.shape[:-1], 1)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(new_maximum - maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def new_tile_shrunk_as_well(q, k, v, tile, causal):
    """You rescale the new tile together with the old sums. Its weights are relative to the new maximum already."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = (total + weights.sum(dim=-1, keepdim=True)) * shrink
        output = (output + weights @ v_tile) * shrink
        maximum = new_maximum
    return output / total


@tiled.misconception
def forgets_earlier_tiles(q, k, v, tile, causal):
    """You keep nothing of the tiles before the last one."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = weights.sum(dim=-1, keepdim=True)
        output = weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def output_of_the_last_tile(q, k, v, tile, causal):
    """Your output holds the values of the last tile only. Those of the earlier tiles have to be added, rescaled."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def total_of_the_last_tile(q, k, v, tile, causal):
    """You divide by the weights of the last tile alone. The sum runs over all tiles."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def never_divides(q, k, v, tile, causal):
    """You never divide by the sum of the weights."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output


@tiled.misconception
def divides_in_every_tile(q, k, v, tile, causal):
    """You divide by the sum of the weights after every tile and keep the quotient. Divide once, at the end."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        output = output / total
        maximum = new_maximum
    return output


@tiled.misconception
def subtracts_the_maximum_of_a_hidden_tile(q, k, v, tile, causal):
    """In a tile that lies wholly in the future of a query, all scores are -inf, and so is the maximum that you
    subtract. It should be the maximum of all scores so far, which is finite.

    (-inf) - (-inf) is NaN."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = scores.amax(dim=-1, keepdim=True)
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def subtracts_no_maximum(q, k, v, tile, causal):
    """You take exp(score) without subtracting a maximum.

    For a score above 709 that is infinite, and inf / inf is NaN."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.ones_like(maximum)
        weights = torch.exp(scores)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def subtracts_one_maximum_for_all_rows(q, k, v, tile, causal):
    """You subtract one maximum for all queries. Every query has its own.

    Where all scores of a query lie far below it, every weight becomes 0, and 0 / 0 is NaN."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.max())
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def maximum_starts_with_zero(q, k, v, tile, causal):
    """Your maximum starts as 0, which may be larger than every score of a query.

    Where all scores lie far below it, every weight becomes 0, and 0 / 0 is NaN."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_zeros(*q.shape[:-1], 1)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def ignores_causal(q, k, v, tile, causal):
    """You do not look at `causal`: every query sees every key."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def always_causal(q, k, v, tile, causal):
    """You always hide later keys, not only if `causal` is true."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        keys = start + torch.arange(k_tile.shape[-2], device=q.device)
        scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def causal_the_wrong_way(q, k, v, tile, causal):
    """If causal, you hide the earlier keys and leave the later ones."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys < queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def hides_the_position_itself(q, k, v, tile, causal):
    """If causal, you hide the key at the position of the query, too. A position sees itself."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys >= queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def sees_one_key_ahead(q, k, v, tile, causal):
    """If causal, every query sees one key of its future."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries + 1, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def counts_keys_from_the_tile(q, k, v, tile, causal):
    """If causal, you number the keys of every tile from 0. The first key of a tile is key number `start`."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def numbers_tiles_not_keys(q, k, v, tile, causal):
    """If causal, you add the number of the tile to the column. The first key of a tile has the number of all keys
    before it."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start // tile + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def hides_with_zero(q, k, v, tile, causal):
    """If causal, you set the scores of later keys to 0. exp(0) is 1: a hidden key has to get weight 0."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, 0.0)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def hides_after_the_exponential(q, k, v, tile, causal):
    """If causal, you take the maximum over hidden scores as well, and set their weights to 0 afterwards.

    Where a hidden score is far larger than the others, all weights become 0, and 0 / 0 is NaN."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        if causal:
            weights = weights.masked_fill(keys > queries, 0.0)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def drops_a_short_tile(q, k, v, tile, causal):
    """You leave out the keys after the last whole tile. The last tile may be shorter."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k // tile * tile, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def tiles_counted_for_queries(q, k, v, tile, causal):
    """You count the tiles by the number of queries. Tiles are cut from the keys."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_q, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.misconception
def first_tile_only(q, k, v, tile, causal):
    """You stop after the first tile."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]
        v_tile = v[..., start : start + tile, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
        break
    return output / total


@tiled.misconception
def tiles_overlap(q, k, v, tile, causal):
    """Your tiles overlap by one key, which is counted twice."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile + 1, :]
        v_tile = v[..., start : start + tile + 1, :]
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total


@tiled.alternative
def by_the_fused_operator(q, k, v, tile, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


@tiled.alternative
def keeps_the_output_divided(q, k, v, tile, causal):
    q = q / q.shape[-1] ** 0.5
    output, log_sum = 0.0, torch.full(q.shape[:-1], -torch.inf)
    row = torch.arange(q.shape[-2]).unsqueeze(-1)
    for first in range(0, k.shape[-2], tile):
        scores = torch.einsum("...qd,...kd->...qk", q, k[..., first : first + tile, :])
        if causal:
            column = torch.arange(first, first + scores.shape[-1])
            scores = torch.where(column <= row, scores, -1e30)
        new = torch.logaddexp(log_sum, scores.logsumexp(-1))
        share = (log_sum - new).exp().unsqueeze(-1)
        output = share * output + (scores - new.unsqueeze(-1)).exp() @ v[..., first : first + tile, :]
        log_sum = new
    return output


@tiled.alternative
def tiles_of_queries_as_well(q, k, v, tile, causal):
    d, rows = q.shape[-1], []
    for top in range(0, q.shape[-2], tile):
        part = q[..., top : top + tile, :]
        m = torch.full((*part.shape[:-1], 1), -1e300)
        s, o = torch.zeros_like(m), torch.zeros(*part.shape[:-1], v.shape[-1])
        for left in range(0, k.shape[-2], tile):
            if causal and left > top + tile - 1:
                break  # this tile lies wholly in the future
            scores = part @ k[..., left : left + tile, :].mT * d**-0.5
            if causal:
                hidden = torch.ones_like(scores).triu(top - left + 1).bool()
                scores = scores.masked_fill(hidden, -1e300)
            new = torch.maximum(m, scores.max(-1, keepdim=True).values)
            p = (scores - new).exp()
            s = s * (m - new).exp() + p.sum(-1, keepdim=True)
            o = o * (m - new).exp() + p @ v[..., left : left + tile, :]
            m = new
        rows.append(o / s)
    return torch.cat(rows, dim=-2)


@tiled.alternative
def in_two_passes(q, k, v, tile, causal):
    places = torch.arange(q.shape[-2])[:, None]
    pieces, offset = [], 0
    for part in k.split(tile, dim=-2):
        scores = (q @ part.transpose(-1, -2)).div(math.sqrt(q.size(-1)))
        if causal:
            scores[..., places < offset + torch.arange(part.shape[-2])] = -math.inf
        pieces.append(scores)
        offset += part.shape[-2]
    top = torch.stack([piece.amax(-1) for piece in pieces]).amax(0)[..., None]
    shares = [torch.exp(piece - top) for piece in pieces]
    norm = sum(share.sum(-1, keepdim=True) for share in shares)
    return sum((share / norm) @ part for share, part in zip(shares, v.split(tile, dim=-2)))


@tiled.alternative
def query_by_query(q, k, v, tile, causal):
    rows = []
    for i in range(q.shape[-2]):
        last = i + 1 if causal else k.shape[-2]
        scores = (k[..., :last, :] * q[..., i : i + 1, :]).sum(-1) / math.sqrt(q.shape[-1])
        rows.append((scores.softmax(-1)[..., None] * v[..., :last, :]).sum(-2))
    return torch.stack(rows, dim=-2)


@tiled.alternative
def updates_in_place(q, k, v, tile, causal):
    m = torch.full((*q.shape[:-1], 1), -1e30)
    total, out = torch.zeros_like(m), torch.zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k.shape[-2], tile):
        end = min(start + tile, k.shape[-2])
        s = q.matmul(k[..., start:end, :].transpose(-1, -2)).mul_(q.shape[-1] ** -0.5)
        if causal:
            for i in range(q.shape[-2]):
                s[..., i, max(0, i + 1 - start) :] = -torch.inf
        new = torch.max(m, s.max(-1, keepdim=True).values)
        s.sub_(new).exp_()
        total.mul_(torch.exp(m - new)).add_(s.sum(-1, keepdim=True))
        out.mul_(torch.exp(m - new)).add_(s @ v[..., start:end, :])
        m = new
    return out.div_(total)
