"""The exercise `segment_memory`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats, expect_tuple, is_close
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject

segments = Exercise(
    long_sequences.segment_memory,
    cases=[
        {
            "segment": normal(1, 3, 2, seed=330),
            "memory": normal(1, 2, 2, seed=331),
            "w_q": normal(2, 4, seed=332),
            "w_k": normal(2, 4, seed=333),
            "w_v": normal(2, 5, seed=334),
            "keep": 4,
        },
        {
            "segment": normal(2, 4, 3, seed=335),
            "memory": normal(2, 6, 3, seed=336),
            "w_q": normal(3, 5, seed=337),
            "w_k": normal(3, 5, seed=338),
            "w_v": normal(3, 7, seed=339),
            "keep": 2,
        },
        {
            "segment": normal(3, 5, 4, seed=340),
            "memory": normal(3, 1, 4, seed=341),
            "w_q": normal(4, 2, seed=342),
            "w_k": normal(4, 2, seed=343),
            "w_v": normal(4, 6, seed=344),
            "keep": 9,
        },
    ],
    minutes=9,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Draw the mask for a memory of 2 and a segment of 3: three rows, five columns. The columns of the memory are "
        "all allowed; those of the segment form the usual triangle.",
        "Keys and values come from torch.cat([memory, segment], dim=1), queries from the segment alone. Query i is at "
        "place m + i of the joined sequence.",
        "detach() gives the same numbers without their history. The memory needs it when it comes in; the new memory "
        "needs it when it goes out.",
        "context[:, -keep:] are the last `keep` vectors; if there are fewer, it is all of them.",
        "scores.masked_fill(keys[None, :] > m + queries[:, None], -inf), then softmax over the keys, then @ v.",
    ],
)


def segment_answer(subject, case):
    segment, memory, _, _, w_v, keep = case.values()
    batch, n, d_model = segment.shape
    output, kept = expect_tuple(subject(*case.values()), ("output", "new memory"))
    length = min(keep, memory.shape[1] + n)
    return (
        expect_floats(output, (batch, n, w_v.shape[1]), "the output"),
        expect_floats(kept, (batch, length, d_model), "the new memory"),
    )


def expect_output(subject, case, when):
    output, _ = segment_answer(subject, case)
    expect_close(output, segments.want(case)[0], f"the output{when}")


@segments.property("an output for every position of the segment comes back, and the last `keep` vectors", points=1)
def segment_shapes(subject, case):
    segment_answer(subject, case)


@segments.property("without a memory, it is causal attention within the segment", points=1)
def segment_without_memory(subject, case):
    expect_output(subject, without_memory(case), " without a memory")


def without_memory(case):
    return {**case, "memory": case["memory"][:, :0], "keep": min(case["keep"], case["segment"].shape[1])}


@segments.property("no position sees a later one of its segment", points=1)
def segment_future(subject, case):
    output, _ = segment_answer(subject, case)
    changed = case["segment"].clone()
    changed[:, -1] += 1.0
    moved, _ = segment_answer(subject, {**case, "segment": changed})
    expect(
        is_close(moved[:, :-1], output[:, :-1]),
        "If the last vector of the segment changes, the output of earlier positions changes, too.",
    )


@segments.property("every position sees the whole memory, too", points=2)
def segment_with_memory(subject, case):
    expect_output(subject, case, "")


@segments.property("the new memory is the end of memory and segment together", points=1)
def segment_new_memory(subject, case):
    for keep in (case["keep"], 1, case["memory"].shape[1] + case["segment"].shape[1]):
        own = {**case, "keep": keep}
        _, kept = segment_answer(subject, own)
        expect_close(kept, long_sequences.segment_memory(**own)[1], f"the new memory for keep = {keep}")


def gradient(subject, case, wrt, output=0):
    return subject.gradient(*case.values(), wrt=wrt, output=output)


@segments.property(
    "gradients flow into the segment and the weights, none into the memory or out of the new one", points=1
)
def segment_gradients(subject, case):
    stopped = gradient(subject, case, wrt=1)
    if subject.changed_inputs:
        return  # gradients of other numbers than ours; that is reported at the end
    expect(not stopped.any(), "A gradient flows from the output into the memory.")
    later = gradient(subject, case, wrt=0, output=1)
    expect(not later.any(), "A gradient flows from the new memory into the segment.")
    own = Subject(long_sequences.segment_memory)
    for wrt, name in ((0, "the segment"), (2, "w_q"), (3, "w_k"), (4, "w_v")):
        expect_close(gradient(subject, case, wrt), gradient(own, case, wrt), f"the gradient of {name}")


@segments.misconception
def gradient_into_the_memory(segment, memory, w_q, w_k, w_v, keep):
    """The gradient of the output flows into the memory. It should stop there.

    The history of all earlier segments would have to stay in memory."""
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def new_memory_keeps_its_history(segment, memory, w_q, w_k, w_v, keep):
    """A gradient flows out of the new memory. It should be cut off from its history."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:]


@segments.misconception
def no_gradient_is_stopped(segment, memory, w_q, w_k, w_v, keep):
    """No gradient is stopped: one flows into the memory, and one out of the new memory."""
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:]


@segments.misconception
def detaches_the_segment_too(segment, memory, w_q, w_k, w_v, keep):
    """You detach the segment along with the memory. Keys and values of the segment need their gradient."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1).detach()
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def no_gradient_for_keys_and_values(segment, memory, w_q, w_k, w_v, keep):
    """You detach keys and values. Their weights need a gradient, and so does the segment: only the memory is
    detached."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = (context @ w_k).detach()
    v = (context @ w_v).detach()
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def detaches_the_memory_too_late(segment, memory, w_q, w_k, w_v, keep):
    """You detach the memory's keys and values instead of the memory itself. So w_k and w_v do not learn from it: detach
    it before the weights are applied."""
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = torch.cat([(memory @ w_k).detach(), segment @ w_k], dim=1)
    v = torch.cat([(memory @ w_v).detach(), segment @ w_v], dim=1)
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def cuts_the_memory_first(segment, memory, w_q, w_k, w_v, keep):
    """You cut the memory to `keep` vectors before the attention. The segment sees all of the memory that it is given;
    `keep` is about the new one."""
    memory = memory[:, -keep:].detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def ignores_the_memory(segment, memory, w_q, w_k, w_v, keep):
    """Your keys and values come from the segment alone. The memory belongs to them."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = segment @ w_k
    v = segment @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = torch.arange(n, device=segment.device)
    keys = torch.arange(n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def attends_to_the_memory_alone(segment, memory, w_q, w_k, w_v, keep):
    """Your keys and values come from the memory alone. The segment belongs to them, too."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = memory @ w_k
    v = memory @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def segment_before_memory(segment, memory, w_q, w_k, w_v, keep):
    """You put the segment before the memory. The memory is older: it comes first."""
    memory = memory.detach()
    context = torch.cat([segment, memory], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def queries_from_the_memory_too(segment, memory, w_q, w_k, w_v, keep):
    """You make queries for the memory as well. Only the positions of the segment have an output."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = context @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = torch.arange(m + n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def sees_the_whole_segment(segment, memory, w_q, w_k, w_v, keep):
    """You hide nothing: a position sees the later ones of its segment."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def mask_forgets_the_memory(segment, memory, w_q, w_k, w_v, keep):
    """You count the queries from 0, as if they were at the beginning of the memory. After a memory of m vectors,
    query i is at place m + i.

    As it is, some keys of its past are hidden from it."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def hides_the_position_itself(segment, memory, w_q, w_k, w_v, keep):
    """You hide the position itself. Query i sees key i of its segment."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] >= queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def sees_one_step_ahead(segment, memory, w_q, w_k, w_v, keep):
    """Every position sees one key of its future."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None] + 1, -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def hides_the_past(segment, memory, w_q, w_k, w_v, keep):
    """You hide the earlier keys and leave the later ones."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] < queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def memory_triangle(segment, memory, w_q, w_k, w_v, keep):
    """You let the window slide: query i does not see the first i vectors of the memory. Every position sees all of
    it."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill((keys[None, :] > queries[:, None]) | (keys[None, :] < queries[:, None] - m), -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def hides_with_zero(segment, memory, w_q, w_k, w_v, keep):
    """You set the scores of hidden keys to 0. exp(0) is 1: they have to get weight 0."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], 0.0)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def does_not_scale(segment, memory, w_q, w_k, w_v, keep):
    """You do not divide the scores by √d_k."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1)
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def divides_by_d_k(segment, memory, w_q, w_k, w_v, keep):
    """You divide the scores by d_k. The scale is its square root."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / q.shape[-1]
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def divides_by_root_d_model(segment, memory, w_q, w_k, w_v, keep):
    """You divide the scores by √d_model. The dot products are of queries and keys: √d_k."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(segment.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def no_softmax(segment, memory, w_q, w_k, w_v, keep):
    """You leave out the softmax, and hide keys by a score of 0."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], 0.0)
    output = scores @ v
    return output, context[:, -keep:].detach()


@segments.misconception
def remembers_the_segment_alone(segment, memory, w_q, w_k, w_v, keep):
    """Your new memory holds vectors of this segment only. If it is shorter than `keep`, older ones are kept, too."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, segment[:, -keep:].detach()


@segments.misconception
def keeps_the_old_memory(segment, memory, w_q, w_k, w_v, keep):
    """You return the old memory. The new one ends with the segment."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, memory[:, -keep:].detach()


@segments.misconception
def keeps_the_oldest(segment, memory, w_q, w_k, w_v, keep):
    """You keep the first vectors of memory and segment. The last ones are wanted."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, :keep].detach()


@segments.misconception
def keeps_everything(segment, memory, w_q, w_k, w_v, keep):
    """Your memory grows without end. Keep the last `keep` vectors."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context.detach()


@segments.misconception
def keeps_as_much_as_it_had(segment, memory, w_q, w_k, w_v, keep):
    """You keep as many vectors as the old memory had. `keep` says how many."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, context[:, n:].detach()


@segments.misconception
def remembers_the_keys(segment, memory, w_q, w_k, w_v, keep):
    """You keep keys. The memory holds vectors of the segment, from which keys and values are made anew."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output, k[:, -keep:].detach()


@segments.misconception
def returns_the_output_alone(segment, memory, w_q, w_k, w_v, keep):
    """You return the output without the new memory."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return output


@segments.misconception
def memory_first(segment, memory, w_q, w_k, w_v, keep):
    """You return the two in the wrong order: the output comes first, then the new memory."""
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)
    q = segment @ w_q
    k = context @ w_k
    v = context @ w_v
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v
    return context[:, -keep:].detach(), output


@segments.alternative
def by_the_fused_operator(segment, memory, w_q, w_k, w_v, keep):
    both = torch.cat((memory.detach(), segment), 1)
    n, m = segment.size(1), memory.size(1)
    allowed = torch.ones(n, m + n).tril(m).bool()
    output = F.scaled_dot_product_attention(segment @ w_q, both @ w_k, both @ w_v, attn_mask=allowed)
    return output, both.detach()[:, -keep:]


@segments.alternative
def memory_and_segment_apart(segment, memory, w_q, w_k, w_v, keep):
    with torch.no_grad():
        new = torch.cat([memory, segment], dim=1)
        new = new[:, max(0, new.shape[1] - keep) :].clone()
    old = memory.detach()
    q = (segment @ w_q) * w_q.shape[1] ** -0.5
    far = q @ (old @ w_k).mT
    near = q @ (segment @ w_k).mT
    near = near + torch.full(near.shape[-2:], -1e9).triu(1)
    shares = torch.cat([far, near], -1).softmax(-1)
    m = old.shape[1]
    return [shares[..., :m] @ (old @ w_v) + shares[..., m:] @ (segment @ w_v), new]


@segments.alternative
def position_by_position(segment, memory, w_q, w_k, w_v, keep):
    memory = memory.clone().detach()
    rows = []
    for i in range(segment.shape[1]):
        seen = torch.cat([memory, segment[:, : i + 1]], dim=1)
        query = segment[:, i : i + 1] @ w_q
        scores = torch.einsum("bqd,bkd->bqk", query, seen @ w_k) / math.sqrt(w_k.shape[-1])
        rows.append(torch.softmax(scores, dim=2) @ (seen @ w_v))
    everything = torch.cat([memory, segment.detach()], dim=1)
    return torch.cat(rows, dim=1), everything[:, -keep:]


@segments.alternative
def projected_weights_first(segment, memory, w_q, w_k, w_v, keep):
    context = torch.cat([memory.data, segment], dim=1)
    scores = segment @ (w_q @ w_k.T) @ context.transpose(1, 2) / w_q.size(1) ** 0.5
    n, total = scores.shape[-2:]
    later = torch.arange(total)[None] - (total - n) > torch.arange(n)[:, None]
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    return (weights @ context) @ w_v, context[:, -keep:].detach().clone()
