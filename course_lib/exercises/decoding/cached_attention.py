"""The exercise `CachedAttention`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_close,
    expect_floats,
    expect_tuple,
)
from course_lib.checking.inputs import normal
from course_lib.checking.weights import AttentionWeights, load_weights
from course_lib.exercises.decoding.shared import asked
from course_lib.multi_head_attention import merge_heads, split_heads


def pieces_case(batch, sizes, d_model, num_heads, seed):
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        "x": normal(batch, sum(sizes), d_model, seed=seed),
        "sizes": sizes,
    }


caching = Exercise(
    decoding.CachedAttention,
    cases=[
        pieces_case(2, [2, 3, 2], d_model=6, num_heads=3, seed=91),
        pieces_case(3, [1, 4], d_model=8, num_heads=2, seed=92),
        pieces_case(1, [3, 1, 1, 2], d_model=4, num_heads=1, seed=93),
    ],
    minutes=15,
    difficulty=3,
    hints=[
        "Write it without a cache first: project, split the heads, causal attention, merge, w_o. That is worth points "
        "already, if you return (output, (k, v)).",
        "Then the cache: the new keys are put behind the old ones, torch.cat([old_k, k], dim=2), the values likewise. "
        "The queries are only those of the new piece.",
        "Now the scores are (new, seen), not square. The last new position sees everything, the one before it "
        "everything but the last key, and so on: on which diagonal does the triangle end?",
        "torch.tril(torch.ones(new, seen, dtype=torch.bool), diagonal=seen - new) is the mask. With one new token it "
        "is a row of True.",
    ],
)


@functools.cache
def cache_weights(d_model, num_heads):
    return AttentionWeights.random(d_model, num_heads, seed=101)


def right_output(case):
    """The output for the whole sequence at once."""
    return whole_sequence(case["d_model"], case["num_heads"], case["x"])


@functools.lru_cache(maxsize=32)
def whole_sequence(d_model, num_heads, x):
    module = decoding.CachedAttention(d_model, num_heads).double()
    module.load_state_dict(cache_weights(d_model, num_heads).named())
    with torch.no_grad():
        return module(x)[0]


def built_with_cache(subject, case):
    built = subject.build(case["d_model"], case["num_heads"])
    weights = cache_weights(case["d_model"], case["num_heads"])
    if not load_weights(built, weights, (case["x"],), right_output(case)):
        shapes = ", ".join(f"{name} {shape}" for name, shape in built.shapes().items())
        raise Failure(
            f"The check fills your parameters with its own numbers and does not know this way to keep them: {shapes}. "
            "Four nn.Linear(d_model, d_model) called w_q, w_k, w_v and w_o are always understood."
        )
    return built


def output_and_size(answer):
    """The output, and how many numbers are in the cache: it may be packed in any way."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return answer
    return answer[0], numbers_in(answer[1])


def next_piece(built, piece, *cache):
    """Output and cache for one more piece."""
    output, cache = expect_tuple(asked(built, (piece, *cache), output_and_size), ("output", "cache"))
    output = expect_floats(output, tuple(piece.shape), "the output")
    expect(
        cache is not None, "The cache that you return is None. The next piece needs the keys and values of this one."
    )
    return output, cache


def in_pieces(built, x, sizes):
    """The outputs for a sequence given piece by piece, side by side, and the last cache."""
    outputs, cache = [], ()
    for piece in x.split(sizes, dim=1):
        output, cache = next_piece(built, piece, *cache)
        cache = (cache,)
        outputs.append(output)
    return torch.cat(outputs, dim=1), cache[0]


def numbers_in(cache):
    """How many numbers a cache holds, however it is packed."""
    if isinstance(cache, Tensor):
        return cache.numel()
    if isinstance(cache, tuple | list):
        return sum(map(numbers_in, cache))
    if isinstance(cache, dict):
        return sum(map(numbers_in, cache.values()))
    return 0


@caching.property("it returns (output, cache), and the output is (batch, new, d_model)", points=1)
def cache_form(subject, case):
    next_piece(built_with_cache(subject, case), case["x"])


@caching.property("a whole sequence at once: causal self-attention", points=1)
def cache_whole(subject, case):
    output, _ = next_piece(built_with_cache(subject, case), case["x"])
    expect_close(output, right_output(case), "the output for the whole sequence, without a cache,")


@caching.property("token by token, each with the cache of the one before: the same output", points=2)
def cache_tokens(subject, case):
    x = case["x"]
    output, _ = in_pieces(built_with_cache(subject, case), x, [1] * x.shape[1])
    expect_close(output, right_output(case), "the output, token by token with a cache,")


@caching.property("in pieces of any size: the same output", points=2)
def cache_pieces(subject, case):
    output, _ = in_pieces(built_with_cache(subject, case), case["x"], case["sizes"])
    expect_close(output, right_output(case), f"the output in pieces of {case['sizes']} tokens")


@caching.property("the cache holds the keys and values of all positions so far", points=1)
def cache_size(subject, case):
    x = case["x"]
    _, cache = in_pieces(built_with_cache(subject, case), x, case["sizes"])
    batch, time, d_model = x.shape
    expect(
        numbers_in(cache) == 2 * x.numel(),
        f"After {time} positions of {batch} sequences the cache holds keys and values, 2 · {batch} · {time} · "
        f"{d_model} = {2 * x.numel()} numbers. Yours holds {numbers_in(cache)}.",
    )


@caching.property("a new sequence begins with nothing, and one cache can be continued in two ways", points=1)
def cache_is_not_shared(subject, case):
    x, first = case["x"], case["sizes"][0]
    built = built_with_cache(subject, case)
    start, cache = next_piece(built, x[:, :first])
    other, _ = next_piece(built, x.flip(1))  # another sequence, in between
    again, _ = next_piece(built, x[:, first:].flip(1), cache)
    rest, _ = next_piece(built, x[:, first:], cache)
    expect_close(other, right_output({**case, "x": x.flip(1)}), "the output for a second sequence, begun with None,")
    turned = torch.cat([x[:, :first], x[:, first:].flip(1)], dim=1)
    expect_close(again, right_output({**case, "x": turned})[:, first:], "the output for one way to go on")
    expect_close(rest, right_output(case)[:, first:], "the output for another way to go on with the same cache")


@caching.misconception
class ignores_the_cache(nn.Module):
    """You accept the cache and never use it: each piece sees only itself."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class mask_begins_at_the_first_key(nn.Module):
    """Your causal triangle begins at the first key of all. The new positions come after the cached ones, so the
    triangle has to end at the last key: a single new token sees everything."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=0)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class no_mask_at_all(nn.Module):
    """Within a piece each position sees its own future: a cache does not replace the causal mask."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class masks_only_without_a_cache(nn.Module):
    """With a cache you leave the mask out. That is right for a single token; in a piece of several, the earlier ones
    must not see the later ones."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new if cache is None else seen)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class sees_one_too_far(nn.Module):
    """Each new position sees one step into its future: your triangle reaches one diagonal too far."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new + 1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class does_not_see_itself(nn.Module):
    """A new position does not see itself: your triangle ends one diagonal too early."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new - 1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class keeps_the_last_piece_only(nn.Module):
    """Your cache holds the last piece alone: what came before it is forgotten. The new keys and values are added to the
    old ones, they do not replace them."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        latest = (k, v)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), latest


@caching.misconception
class new_ones_come_first(nn.Module):
    """You put the new keys and values in front of the old ones. The order is the order of the sequence, and the mask
    counts on it: old first."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([k, old_k], dim=2)
            v = torch.cat([v, old_v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class keys_and_values_in_different_order(nn.Module):
    """Keys and values do not stand in the same order: a weight for one position meets the value of another."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([v, old_v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class joins_the_wrong_axis(nn.Module):
    """You put old and new together along the batch. A sequence grows along its time axis: (batch, head, time, d_k)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=0)
            v = torch.cat([old_v, v], dim=0)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class joins_the_heads(nn.Module):
    """You put old and new together along the heads. A sequence grows along its time axis: (batch, head, time, d_k)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=1)
            v = torch.cat([old_v, v], dim=1)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class remembers_keys_but_not_values(nn.Module):
    """Old keys are found, but their values are missing: both have to be kept."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([torch.zeros_like(old_v), v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class values_and_keys_change_places(nn.Module):
    """Keys and values change places in your cache: what goes in first has to come out first."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (v, k)


@caching.misconception
class caches_the_queries_too(nn.Module):
    """Your queries grow with the cache, and you compute the old positions' outputs again. Only the new positions ask;
    keys and values are all that has to be kept."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_q, old_k, old_v = cache
            q = torch.cat([old_q, q], dim=2)
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (q, k, v)


@caching.misconception
class remembers_the_input(nn.Module):
    """You keep the inputs and project all of them again for every piece. The output is right, but that is the very work
    that a cache saves: keep the keys and values."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        if cache is not None:
            x = torch.cat([cache, x], dim=1)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), x


@caching.misconception
class never_begins_anew(nn.Module):
    """Your module keeps the cache to itself and does not look at the one that it is given: a second sequence sees the
    first one's keys, and nobody can start anew."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if getattr(self, "kept", None) is not None:
            old_k, old_v = self.kept
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        self.kept = (k, v)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class writes_into_the_old_cache(nn.Module):
    """You write into the cache that you were given. Whoever gave it may want to go on from there in another way, as a
    beam search does: make a new one."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        else:
            cache = [k, v]
        cache[0], cache[1] = k, v
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), cache


@caching.misconception
class a_cache_is_never_empty(nn.Module):
    """You read the cache without asking whether there is one. A sequence begins with cache = None."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        old_k, old_v = cache
        k = torch.cat([old_k, k], dim=2)
        v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class forgets_the_scale(nn.Module):
    """The scores are not divided by √d_k."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=1.0)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class scale_of_the_whole_model(nn.Module):
    """You divide the scores by √d_model. Each head works with d_k = d_model / num_heads features: divide by √d_k."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=x.shape[-1] ** -0.5)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class forgets_the_last_projection(nn.Module):
    """The heads' results come out as they are: w_o is never applied."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return merge_heads(heads), (k, v)


@caching.misconception
class one_head_for_all(nn.Module):
    """You do not split the heads: num_heads plays no part."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = 1
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class returns_no_cache(nn.Module):
    """You return the output alone. The cache comes with it: (output, cache)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads))


@caching.alternative
class OnePackedProjection(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        if cache:
            k, v = (torch.cat(pair, dim=-2) for pair in zip(cache, (k, v), strict=True))
        positions = torch.arange(k.shape[-2])
        future = positions > positions[-t:, None]
        scores = (q @ k.mT / math.sqrt(d // self.h)).masked_fill(future, -1e9)
        y = scores.softmax(dim=-1) @ v
        return self.out(y.permute(0, 2, 1, 3).flatten(2)), [k, v]


@caching.alternative
class CacheBeforeSplitting(nn.Module):
    """Keeps keys and values as (batch, seen, d_model), in a dictionary, and splits them each time."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        now = {"k": self.key(x), "v": self.value(x)}
        if cache is not None:
            now = {name: torch.cat([cache[name], now[name]], dim=1) for name in now}
        q, k, v = (split_heads(t, self.heads) for t in (self.query(x), now["k"], now["v"]))
        mask = torch.ones(x.shape[1], k.shape[2]).tril(k.shape[2] - x.shape[1])
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = (scores + mask.log()).softmax(dim=-1)
        return self.proj(merge_heads(weights @ v)), now


@caching.alternative
class QueryAfterQuery(nn.Module):
    """Each new position attends to what there is when its turn comes: no mask needed."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        keys, values = cache if cache is not None else (k[:, :, :0], v[:, :, :0])
        outputs = []
        for t in range(x.shape[1]):
            keys = torch.cat([keys, k[:, :, t : t + 1]], dim=2)
            values = torch.cat([values, v[:, :, t : t + 1]], dim=2)
            scores = q[:, :, t : t + 1] @ keys.transpose(2, 3) * q.shape[-1] ** -0.5
            outputs.append(scores.softmax(dim=-1) @ values)
        return self.w_o(merge_heads(torch.cat(outputs, dim=2))), (keys, values)


@caching.alternative
class OneTensorForBoth(nn.Module):
    """Keys and values stacked in one tensor."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_kv = nn.Linear(d_model, 2 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        new = x.shape[1]
        kv = torch.stack([split_heads(part, self.num_heads) for part in self.to_kv(x).chunk(2, dim=-1)])
        if cache is not None:
            kv = torch.cat([cache, kv], dim=-2)
        seen = kv.shape[-2]
        mask = torch.arange(seen)[None, :] <= torch.arange(seen - new, seen)[:, None]
        y = F.scaled_dot_product_attention(split_heads(self.to_q(x), self.num_heads), kv[0], kv[1], attn_mask=mask)
        return self.to_out(y.transpose(1, 2).reshape(x.shape)), kv
