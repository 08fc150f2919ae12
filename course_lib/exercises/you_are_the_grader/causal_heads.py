"""The exercise `causal_heads`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import you_are_the_grader as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.multi_head_attention import merge_heads, split_heads


def some_case(batch: int, time: int, d_model: int, num_heads: int, seed: int):
    q, k, v = (normal(batch, time, d_model, seed=seed + i) for i in range(3))
    return {"q": q, "k": k, "v": v, "num_heads": num_heads}


causal_heads = Exercise(
    reference.causal_heads,
    cases=[
        some_case(1, 3, 4, 2, seed=10),
        some_case(2, 5, 6, 3, seed=20),
        some_case(3, 4, 10, 2, seed=30),
        some_case(2, 1, 3, 1, seed=40),
    ],
    minutes=7,
    difficulty=2,
    hints=[
        "Follow one token: (batch, time, d_model). Its d_model numbers lie side by side in memory. Which of them go to "
        "head 0, and which numbers does .view(batch, num_heads, time, d_k) give to head 0?",
        "view and reshape never change the order of the numbers. Cut the last axis first, then swap two axes.",
        "Split: .view(batch, time, num_heads, d_k).transpose(1, 2). Merge is the same backwards: .transpose(1, 2), "
        "then .reshape(batch, time, d_model).",
        "Only the line that splits is wrong. `split_heads` of notebook 4 does it right.",
    ],
)


def attended(subject, case) -> Tensor:
    return expect_floats(subject(*case.values()), tuple(case["v"].shape), "the result")


def right(case) -> Tensor:
    return causal_heads.want(case)


@causal_heads.property("the result has the shape (batch, time, d_model)", points=1)
def heads_shape(subject, case):
    attended(subject, case)


@causal_heads.property("a changed token changes the outputs from its place on, and none before it", points=2)
def heads_see_no_future(subject, case):
    q, k, v, num_heads = case.values()
    before = attended(subject, case)
    for t in range(q.shape[1]):
        changed = [x.clone() for x in (q, k, v)]
        for x in changed:
            x[:, t] += 1.0
        after = expect_floats(subject(*changed, num_heads), tuple(v.shape), "the result")
        moved = (after - before).abs().amax(dim=(0, 2)) > 1e-6  # (time,)
        for place in range(len(moved)):
            what = f"Token {t} was changed, and the output at position {place}"
            expect(place >= t or not moved[place], f"{what} moved: it has seen the future.")
            expect(place < t or moved[place], f"{what} did not move: it should have seen that token.")


@causal_heads.property("no output changes when another sequence of the batch is changed", points=1)
def heads_stay_in_their_sequence(subject, case):
    q, k, v, num_heads = case.values()
    alone = [subject(*(x[i : i + 1] for x in (q, k, v)), num_heads) for i in range(len(q))]
    together = attended(subject, case)
    for i, row in enumerate(alone):
        row = expect_floats(row, tuple(v[:1].shape), "the result for one sequence")
        expect_close(together[i : i + 1], row, f"the result for sequence {i} in a batch, compared with it alone,")


@causal_heads.property("with one head it is causal attention", points=1)
def heads_of_one(subject, case):
    q, k, v, _ = case.values()
    one = {**case, "num_heads": 1}
    expect_close(attended(subject, one), right(one), "the result with one head")


@causal_heads.property("head i attends with features i·d_k to (i+1)·d_k - 1, and divides by √d_k", points=2)
def heads_values(subject, case):
    expect_close(attended(subject, case), right(case), f"the result with {case['num_heads']} heads")


@causal_heads.property("gradients flow back to q, k and v", points=1)
def heads_gradients(subject, case):
    attended(subject, case)
    if subject.changed_inputs:
        return  # the last property speaks of that
    right_subject = Subject(reference.causal_heads)
    for place, name in enumerate("qkv"):
        got = subject.gradient(*case.values(), wrt=place, at=(..., 0))
        want = right_subject.gradient(*case.values(), wrt=place, at=(..., 0))
        expect(got.any() or not want.any(), f"No gradient reaches {name}: somewhere the numbers leave torch's graph.")
        expect_close(got, want, f"the gradient with respect to {name}")


@causal_heads.misconception
def splits_by_view(q, k, v, num_heads):
    """The heads are cut out of the whole sequence by view. Cut the features of each token, then swap two axes.

    A head then holds pieces of other tokens, in the wrong places, and the causal mask no longer knows what is later."""
    batch, time, d_model = q.shape
    q, k, v = (x.reshape(batch, num_heads, time, d_model // num_heads) for x in (q, k, v))
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def splits_and_merges_by_view(q, k, v, num_heads):
    """The heads are cut out of the whole sequence by view, and put back the same way. Cut the features of each token,
    then swap two axes.

    No head sees the whole sequence: each has a stretch of the time axis to itself."""
    batch, time, d_model = q.shape
    q, k, v = (x.reshape(batch, num_heads, time, d_model // num_heads) for x in (q, k, v))
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return (weights @ v).reshape(batch, time, d_model)


@causal_heads.misconception
def merges_by_view(q, k, v, num_heads):
    """The split is right, but the heads are put together without swapping head and time back.

    The results of different positions end up in one row."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return (weights @ v).reshape(len(q), time, num_heads * d_k)


@causal_heads.misconception
def interleaves_the_heads(q, k, v, num_heads):
    """Head i takes every num_heads-th feature. It should take d_k neighbours."""
    q, k, v = (x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2) for x in (q, k, v))
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return (weights @ v).permute(0, 2, 3, 1).flatten(2)


@causal_heads.misconception
def scales_by_d_model(q, k, v, num_heads):
    """You divide the scores by √d_model. A head's queries and keys have d_k = d_model / num_heads features: divide by
    √d_k.

    With one head the two are the same."""
    d_model = q.shape[-1]
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_model)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def does_not_scale(q, k, v, num_heads):
    """The scores are not divided by √d_k."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def scales_by_time(q, k, v, num_heads):
    """You divide the scores by the root of the number of positions. Divide by √d_k."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(time)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def hides_nothing(q, k, v, num_heads):
    """There is no causal mask: every position sees the whole sequence."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def sees_one_step_ahead(q, k, v, num_heads):
    """Your triangle reaches one diagonal too far: each position sees the token after it."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril(diagonal=1)
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def sees_the_future_alone(q, k, v, num_heads):
    """The mask is the wrong way round: each position sees itself and what comes later."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).triu()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def masks_after_the_softmax(q, k, v, num_heads):
    """You hide the future after the softmax, so the weights of what is left do not sum to 1.

    And they still depend on the scores of later keys."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.softmax(dim=-1) * past
    return merge_heads(weights @ v)


@causal_heads.misconception
def attends_across_the_batch(q, k, v, num_heads):
    """You attend along the batch axis: the sequences of the batch look at each other. Time is axis 1.

    torch.nn.MultiheadAttention without batch_first=True does the same, and the shapes are right."""
    q, k, v = (split_heads(x.transpose(0, 1), num_heads) for x in (q, k, v))
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v).transpose(0, 1)


@causal_heads.misconception
def has_one_head(q, k, v, num_heads):
    """There is one head, whatever num_heads says."""
    q, k, v = split_heads(q, 1), split_heads(k, 1), split_heads(v, 1)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
    return merge_heads(weights @ v)


@causal_heads.misconception
def softmax_over_queries(q, k, v, num_heads):
    """Your softmax runs over the queries. For each query the weights of the keys should sum to 1."""
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    past = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~past, -torch.inf).softmax(dim=-2)
    return merge_heads(weights @ v)


@causal_heads.alternative
def fused(q, k, v, num_heads):
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


@causal_heads.alternative
def head_by_head(q, k, v, num_heads):
    time, d_k = q.shape[1], q.shape[2] // num_heads
    future = torch.full((time, time), -1e9).triu(1)
    results = []
    for one_q, one_k, one_v in zip(q.split(d_k, -1), k.split(d_k, -1), v.split(d_k, -1)):
        results.append((one_q @ one_k.mT / d_k**0.5 + future).softmax(-1) @ one_v)
    return torch.cat(results, dim=-1)


@causal_heads.alternative
def position_by_position(q, k, v, num_heads):
    d_k = q.shape[-1] // num_heads
    q, k, v = (x.unflatten(-1, (num_heads, d_k)) for x in (q, k, v))
    rows = []
    for t in range(q.shape[1]):
        scores = torch.einsum("bhd,bshd->bhs", q[:, t], k[:, : t + 1]) * d_k**-0.5
        rows.append(torch.einsum("bhs,bshd->bhd", scores.softmax(-1), v[:, : t + 1]).flatten(1))
    return torch.stack(rows, dim=1)


@causal_heads.alternative
def heads_in_the_batch(q, k, v, num_heads):
    batch, time, d_model = q.shape
    q, k, v = (torch.cat(x.chunk(num_heads, dim=-1)) for x in (q, k, v))  # (head · batch, time, d_k)
    scores = torch.bmm(q / (d_model / num_heads) ** 0.5, k.transpose(1, 2))
    later = torch.arange(time)[:, None] < torch.arange(time)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)).masked_fill(later, 0.0)
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.cat(torch.bmm(weights, v).chunk(num_heads), dim=-1)
