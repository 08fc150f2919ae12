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
    name_of_type,
)
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
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
    hidden_points=2,
    hints=[
        "Write it without a cache first: project, split the heads, causal attention, merge, w_o. That is worth points "
        "already, if you return (output, (k, v)).",
        "Then the cache: the new keys go after the old ones, torch.cat([old_k, k], dim=2), the values likewise. "
        "The queries are only those of the new piece.",
        "Now the scores are (new, seen), not square. The last new position sees everything, the one before it "
        "everything but the last key, and so on: on which diagonal does the triangle end?",
        "torch.tril(torch.ones(new, seen, dtype=torch.bool), diagonal=seen - new) is the mask. With one new token it "
        "is a row of True.",
    ],
)


LARGE = 100


@functools.lru_cache(maxsize=32)
def enlarged(x):
    """The same sequence with scores that overflow in an exponential."""
    return LARGE * x


@functools.cache
def cache_weights(d_model, num_heads):
    return AttentionWeights.random(d_model, num_heads, seed=101)


def right_output(case):
    """The output for the whole sequence at once."""
    return whole_sequence(case["d_model"], case["num_heads"], case["x"])[0]


def right_module(d_model, num_heads):
    module = decoding.CachedAttention(d_model, num_heads).double()
    module.load_state_dict(cache_weights(d_model, num_heads).named())
    return module


@functools.lru_cache(maxsize=32)
def right_slope(d_model, num_heads, x):
    """The gradient of the last position's output with respect to x."""
    return Subject(right_module(d_model, num_heads)).gradient(x, wrt=0, at=(0, -1))


@functools.lru_cache(maxsize=32)
def whole_sequence(d_model, num_heads, x):
    module = right_module(d_model, num_heads)
    with torch.no_grad():
        return module(x)


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


def expect_keys_and_values(cache, case):
    """A cache as the notebook describes it: (keys, values), each (batch, head, seen, d_k)."""
    _, want = whole_sequence(case["d_model"], case["num_heads"], case["x"])
    pair = list(cache) if isinstance(cache, Tensor | tuple | list) else []
    expect(
        len(pair) == 2 and all(isinstance(part, Tensor) for part in pair),
        f"The cache should be (keys, values), two tensors (batch, head, seen, d_k), but it is {name_of_type(cache)}.",
    )
    for name, part, right in zip(("keys", "values"), pair, want, strict=True):
        expect_close(part, right, f"what the cache holds in the place of the {name}, (batch, head, seen, d_k),")


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
    large = {**case, "x": enlarged(case["x"])}
    output, _ = in_pieces(built_with_cache(subject, case), large["x"], case["sizes"])
    expect_close(output, right_output(large), f"the output for x times {LARGE}, with large scores,")


@caching.property("the cache is (keys, values) of all positions so far, each (batch, head, seen, d_k)", points=1)
def cache_size(subject, case):
    x = case["x"]
    _, cache = in_pieces(built_with_cache(subject, case), x, case["sizes"])
    batch, time, d_model = x.shape
    expect(
        numbers_in(cache) == 2 * x.numel(),
        f"After {time} positions of {batch} sequences the cache holds keys and values, 2 · {batch} · {time} · "
        f"{d_model} = {2 * x.numel()} numbers. Yours holds {numbers_in(cache)}.",
    )
    expect_keys_and_values(cache, case)


@caching.property("a new sequence begins with nothing, a cache can be continued in two ways, gradients flow", points=1)
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
    expect_learns(built, case)


def expect_learns(built, case):
    """The same output in training mode, and a gradient that comes back to x."""
    x = case["x"]
    built.train()
    output, _ = next_piece(built, x)
    expect_close(output, right_output(case), "the output in training mode (there is no dropout here)")
    slope = built.gradient(x, wrt=0, at=(0, -1))
    expect(slope.any(), "No gradient reaches x: somewhere the numbers leave torch's graph.")
    expect_close(slope, right_slope(case["d_model"], case["num_heads"], x), "the gradient of the last output")
    expect_learns_through_the_cache(built, case)


def expect_learns_through_the_cache(built, case):
    """A gradient flows from a piece into the keys and values of the piece before, and on to its x."""
    first, second = case["x"].split([case["sizes"][0], case["x"].shape[1] - case["sizes"][0]], dim=1)
    with built.unobserved():
        _, cache = next_piece(built, first)
        is_pair = isinstance(cache, tuple | list) and len(cache) == 2 and all(isinstance(c, Tensor) for c in cache)
        members = (0, 1) if is_pair else ()  # nothing is asked of a cache that is packed in another way
        is_made = [bool(built.gradient(first, wrt=0, output=(1, member)).any()) for member in members]
        is_used = [bool(built.gradient(second, cache, wrt=(1, member)).any()) for member in members]
    if not all(is_made + is_used):
        built.note("gradient through the cache", (is_made, is_used))  # of the keys, of the values
        raise Failure(
            "No gradient flows through the cache: somewhere keys or values leave torch's graph (detach, no_grad)."
        )


@caching.misconception
class ignores_the_cache(nn.Module):
    """You accept the cache and never use it.

    Each piece sees only itself."""

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
    triangle has to end at the last key.

    A single new token should see everything."""

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
    """There is no causal mask. A cache does not replace it.

    Within a piece each position sees its own future."""

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
    """With a cache you leave the mask out. That is right for a single token only.

    In a piece of several tokens the earlier ones see the later ones."""

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
    """Your triangle reaches one diagonal too far.

    Each new position sees one step into its future."""

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
    """Your triangle ends one diagonal too early.

    A new position does not see itself."""

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
    """You return the last piece's keys and values alone. They are added to the old ones and do not replace them.

    What came before the last piece is forgotten."""

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
    """Keys and values are not in the same order.

    A weight for one position meets the value of another."""

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
    """You keep the old keys but not their values. Both have to be kept."""

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
    """Keys and values are swapped in your cache: what goes in first has to come out first."""

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
    """You keep the queries as well, and compute the old positions' outputs again. Only the new positions ask; keys and
    values are all that has to be kept."""

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
    """You keep the inputs and project all of them again for every piece. Keep the keys and values.

    The output is right, but that is the very work that a cache saves."""

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
    """Your module keeps the cache to itself and does not look at the one that it is given.

    A second sequence sees the first one's keys, and nobody can start anew."""

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
    """You write into the cache that you were given. Make a new one.

    Whoever gave it may want to go on from there in another way, as a beam search does."""

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


@caching.misconception
class softmax_over_the_queries(decoding.CachedAttention):
    """Your softmax runs over the queries. Each query shares out its attention among the keys, the last axis."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).softmax(dim=-2)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class has_no_softmax(decoding.CachedAttention):
    """There is no softmax: you use the scores themselves as weights."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, 0.0)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class applies_the_softmax_twice(decoding.CachedAttention):
    """You apply the softmax twice.

    The second one makes all weights nearly equal, and hidden keys get a share again."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).softmax(dim=-1).softmax(dim=-1)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class uses_a_sigmoid(decoding.CachedAttention):
    """You use a sigmoid, which decides each weight on its own. The keys have to compete: use a softmax."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).sigmoid()
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class uses_the_logarithms(decoding.CachedAttention):
    """You use log_softmax, the logarithms of the weights. The weights themselves are wanted."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).log_softmax(dim=-1)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class turns_the_sign(decoding.CachedAttention):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The keys that fit least get the most."""

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
        scores = -q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).softmax(dim=-1)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class picks_the_best_key(decoding.CachedAttention):
    """Each of your queries takes only its best key. In soft attention every key has a share."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = F.one_hot(scores.masked_fill(~past, -math.inf).argmax(dim=-1), seen).to(scores)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class cuts_off_the_weights(decoding.CachedAttention):
    """The weights are cut off from the gradient (.detach(), .data).

    The numbers are right, but w_q and w_k could not learn."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).softmax(dim=-1).detach()
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class exponentials_overflow(decoding.CachedAttention):
    """You take exponentials of the scores as they are, without subtracting the largest first. The softmax of torch does
    that for you.

    Large scores overflow, and the weights become NaN."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~past, -math.inf).exp()
        weights = weights / weights.sum(dim=-1, keepdim=True)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class multiplies_the_scores_by_the_mask(decoding.CachedAttention):
    """You multiply the scores by the mask. A score of 0 is an ordinary score.

    The future still gets weight."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = (scores * past).softmax(dim=-1)
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class masks_after_the_softmax(decoding.CachedAttention):
    """You hide the future after the softmax. It has to be hidden before.

    The weights no longer add up to 1."""

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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1) * past
        heads = weights @ v
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class sees_the_future_alone(decoding.CachedAttention):
    """Your mask is inverted. True means that attention is allowed."""

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
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=~past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class divides_by_d_k(decoding.CachedAttention):
    """You divide the scores by d_k. Divide by its root."""

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
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=1 / q.shape[-1])
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class multiplies_by_the_root(decoding.CachedAttention):
    """You multiply the scores by √d_k. Divide."""

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
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=q.shape[-1] ** 0.5)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class scale_of_the_keys(decoding.CachedAttention):
    """You divide the scores by the root of the number of keys. Divide by √d_k."""

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
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=seen**-0.5)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class scale_of_the_heads(decoding.CachedAttention):
    """You divide the scores by the root of the number of heads. Divide by √d_k."""

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
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past, scale=self.num_heads**-0.5)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class weighs_the_keys(decoding.CachedAttention):
    """You average the keys. The output is made of the values."""

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
        heads = F.scaled_dot_product_attention(q, k, k, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class projects_through_relu(decoding.CachedAttention):
    """You put the projections through a ReLU. Queries, keys and values come out of the linear layers as they are."""

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x).relu(), self.num_heads)
        k = split_heads(self.w_k(x).relu(), self.num_heads)
        v = split_heads(self.w_v(x).relu(), self.num_heads)
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
class one_layer_for_all_three(decoding.CachedAttention):
    """Queries, keys and values all come from the same layer. Each has its own."""

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_q(x), self.num_heads)
        v = split_heads(self.w_q(x), self.num_heads)
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
class attends_across_the_batch(decoding.CachedAttention):
    """You take the first axis for time. It is the batch: each sequence attends within itself.

    As it is, the sequences of the batch look at each other, and the tokens of one sequence do not."""

    def forward(self, x, cache=None):
        x = x.transpose(0, 1)
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
        return self.w_o(merge_heads(heads)).transpose(0, 1), (k, v)


@caching.misconception
class merges_heads_without_exchanging_axes(decoding.CachedAttention):
    """You bring the heads together with view or reshape alone. They stand before the time axis: swap the two axes
    first, as merge_heads does.

    Tokens and heads are mixed."""

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
        return self.w_o(heads.reshape(x.shape)), (k, v)


@caching.misconception
class cuts_the_input_off(decoding.CachedAttention):
    """You cut x out of torch's graph (by detach, data or a new tensor).

    The numbers are right, but no gradient comes back to the layers before."""

    def forward(self, x, cache=None):
        x = x.detach()
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
class cuts_off_the_old_pieces(decoding.CachedAttention):
    """You cut both the old keys and the old values off from the gradient (detach, no_grad). Here it flows through the
    cache.

    The numbers are right, but an earlier piece does not learn from what later ones make of it."""

    def forward(self, x, cache=None):
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k.detach(), k], dim=2)
            v = torch.cat([old_v.detach(), v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        return self.w_o(merge_heads(heads)), (k, v)


@caching.misconception
class stores_cut_off_tensors(decoding.CachedAttention):
    """You put keys and values into the cache without their graph (detach, no_grad). Here gradients flow through the
    cache.

    The numbers are right, but an earlier piece does not learn from what later ones make of it."""

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
        return self.w_o(merge_heads(heads)), (k.detach(), v.detach())


@caching.misconception
class hides_the_past_in_the_scores(decoding.CachedAttention):
    """You fill the scores where attention is allowed. The others have to be filled: masked_fill is told what to hide.

    A query that may see everything is left with nothing: NaN."""

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
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(past, -torch.inf)
        heads = scores.softmax(dim=-1) @ v
        return self.w_o(merge_heads(heads)), (k, v)


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
class AddsAMask(nn.Module):
    """Adds the logarithm of the mask to the scores, and returns the cache as a list."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.heads) for w in (self.query, self.key, self.value))
        if cache is not None:
            k, v = (torch.cat([old, new], dim=-2) for old, new in zip(cache, (k, v), strict=True))
        mask = torch.ones(x.shape[1], k.shape[2]).tril(k.shape[2] - x.shape[1])
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = (scores + mask.log()).softmax(dim=-1)
        return self.proj(merge_heads(weights @ v)), [k, v]


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
