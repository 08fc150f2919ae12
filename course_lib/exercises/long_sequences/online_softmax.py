"""The exercise `online_softmax`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import long_sequences
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats, expect_tuple
from course_lib.checking.inputs import normal

online = Exercise(
    long_sequences.online_softmax,
    cases=[
        {"chunks": [torch.tensor([2.0, -1.0, 0.5]).double(), torch.tensor([0.25, 3.0]).double()]},
        {"chunks": [torch.tensor([[-2.5, -1.5], [0.5, 4.0]]), torch.tensor([[-0.5, -1.0, -3.0], [1.0, 2.0, 0.0]])]},
        {"chunks": [normal(2, 3, size, seed=300 + i, scale=2.0) for i, size in enumerate((4, 1, 5, 2))]},
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "You have seen some scores and know their maximum m and the sum s of exp(score - m). Now a larger score M "
        "comes. By which factor does every term of s change?",
        "exp(score - M) = exp(score - m) · exp(m - M), so the whole sum is multiplied by exp(m - M). The new scores "
        "are added after that.",
        "Keep both maxima until the sum has been rescaled: new_maximum = torch.maximum(maximum, chunk.amax(dim=-1)).",
        "What is the maximum before the first chunk? With -inf, a first chunk of nothing but -inf gives "
        "(-inf) - (-inf), which is NaN. The smallest finite number, torch.finfo(dtype).min, does not.",
        "total = total * exp(maximum - new_maximum) + exp(chunk - new_maximum[..., None]).sum(dim=-1).",
    ],
)


def whole_softmax(chunks):
    """The maximum and the sum, from all scores at once."""
    scores = torch.cat(list(chunks), dim=-1)
    maximum = scores.amax(dim=-1)
    return maximum, torch.exp(scores - maximum[..., None]).sum(dim=-1)


def online_answer(subject, chunks):
    shape = tuple(chunks[0].shape[:-1])
    maximum, total = expect_tuple(subject(chunks), ("maximum", "total"))
    return expect_floats(maximum, shape, "the maximum"), expect_floats(total, shape, "the sum")


def expect_whole_softmax(subject, chunks, when=""):
    maximum, total = online_answer(subject, chunks)
    want_maximum, want_total = whole_softmax(chunks)
    expect_close(maximum, want_maximum, f"the maximum{when}")
    expect_close(total, want_total, f"the sum{when}")


@online.property("a maximum and a sum come back, one of each for every row", points=1)
def online_shapes(subject, case):
    online_answer(subject, case["chunks"])


@online.property("with one chunk, they are the maximum of its scores and the sum of exp(score - maximum)", points=1)
def online_first_chunk(subject, case):
    expect_whole_softmax(subject, case["chunks"][:1], " of a single chunk")


@online.property("the maximum is that of all scores", points=1)
def online_maximum(subject, case):
    maximum, _ = online_answer(subject, case["chunks"])
    expect_close(maximum, whole_softmax(case["chunks"])[0], "the maximum of all chunks")


@online.property("the sum is that over all scores, whichever chunk holds the maximum", points=2)
def online_sum(subject, case):
    for chunks in (case["chunks"], case["chunks"][::-1], sorted_chunks(case["chunks"])):
        expect_whole_softmax(subject, chunks)


def sorted_chunks(chunks):
    """The same scores, rising: every chunk has a new maximum."""
    scores = torch.cat(chunks, dim=-1).sort(dim=-1).values
    return list(scores.split([chunk.shape[-1] for chunk in chunks], dim=-1))


@online.property("scores near 1000 or -1000 are no trouble", points=1)
def online_large_scores(subject, case):
    for shift in (1000.0, -1000.0):
        expect_whole_softmax(subject, [chunk + shift for chunk in case["chunks"]], f" of scores near {shift:g}")


@online.property("scores of -inf count for nothing, even if a chunk holds nothing else", points=1)
def online_hidden_scores(subject, case):
    chunks = case["chunks"]
    hidden = torch.full_like(chunks[0], -torch.inf)
    expect_whole_softmax(subject, [*chunks, hidden], " with a last chunk of -inf")
    expect_whole_softmax(subject, [torch.cat([chunks[0], hidden], dim=-1), *chunks[1:]], " with a few scores of -inf")
    maximum, total = expect_tuple(subject([hidden, *chunks]), ("maximum", "total"))
    expect(
        not maximum.isnan().any() and not total.isnan().any(),
        "With a first chunk of nothing but -inf, the result contains NaN: (-inf) - (-inf) is not a number.",
    )
    for got, want, what in zip((maximum, total), whole_softmax(chunks), ("the maximum", "the sum")):
        expect_close(got, want, f"{what} with a first chunk of -inf")


@online.misconception
def does_not_rescale(chunks):
    """The sum of the earlier chunks stays as it was when a larger score comes. Its terms were taken relative to the
    old maximum, and have to be brought to the new one.

    As it is, the earlier scores count for too much."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def rescales_upside_down(chunks):
    """You multiply the old sum by exp(new maximum - old maximum). A larger maximum makes the old terms smaller: it
    is the other way round."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].amax(dim=-1)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(new_maximum - maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def rescales_without_exp(chunks):
    """You multiply the old sum by the difference of the two maxima. Its terms are exponentials, so the factor is an
    exponential too: exp of that difference."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * (maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def rescales_by_the_ratio(chunks):
    """You multiply the old sum by the ratio of the two maxima. Its terms are exponentials, so the factor is exp of
    their difference."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].amax(dim=-1)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * (maximum / new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def rescales_the_new_scores_too(chunks):
    """You rescale the sum after the new scores have been added. These are relative to the new maximum already:
    rescale the old sum alone."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        total = total * torch.exp(maximum - new_maximum)
        maximum = new_maximum
    return maximum, total


@online.misconception
def forgets_the_old_sum(chunks):
    """You start the sum anew with every chunk. The terms of the earlier chunks belong to it, too."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def maximum_of_the_last_chunk(chunks):
    """You take the maximum of each chunk by itself. It has to be the maximum of all scores so far."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = chunk.amax(dim=-1)
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def maximum_of_the_first_chunk(chunks):
    """You keep the maximum of the first chunk. A later chunk may hold a larger score."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].amax(dim=-1)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = maximum
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def takes_the_minimum(chunks):
    """You keep the smallest score instead of the largest."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).max)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.minimum(maximum, chunk.amin(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def one_maximum_for_all_rows(chunks):
    """You take one maximum over all rows. Every row has its own."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.max())
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def does_not_shift(chunks):
    """You add up exp(score) without subtracting the maximum."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total + torch.exp(chunk).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def shifts_by_the_chunks_own_maximum(chunks):
    """You subtract each chunk's own maximum from its scores. All terms of the sum have to be relative to the same
    number: the maximum so far."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - chunk.amax(dim=-1, keepdim=True)).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def shifts_by_the_old_maximum(chunks):
    """You subtract the maximum before this chunk from its scores. The chunk may hold a larger one, and the sum is
    rescaled to that."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].amax(dim=-1)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def rescales_by_the_chunks_maximum(chunks):
    """You compare the old maximum with the maximum of the chunk alone. If that is smaller, nothing has to be
    rescaled: compare with the new maximum of all scores so far."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - chunk.amax(dim=-1))
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def starts_with_minus_infinity(chunks):
    """As long as all scores are -inf, so is your maximum.

    The next step subtracts it: (-inf) - (-inf) makes NaN of everything."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, -torch.inf)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def maximum_starts_with_zero(chunks):
    """Your maximum starts as 0. If all scores of a row are negative, it stays 0, which is none of them."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, 0.0)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def leaves_out_the_first_chunk(chunks):
    """You leave out the first chunk."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks[1:]:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def leaves_out_the_last_chunk(chunks):
    """You leave out the last chunk."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks[:-1]:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def takes_the_mean(chunks):
    """You take the mean of the terms of each chunk. The softmax divides by the sum of all terms."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).mean(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def divides_by_the_number_of_chunks(chunks):
    """You divide the sum by the number of chunks. It is a sum over all scores, however they were cut up."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total / len(chunks)


@online.misconception
def returns_the_logarithm(chunks):
    """You return the logarithm of the sum. The sum itself is asked for."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total.log()


@online.misconception
def returns_the_log_sum_exp(chunks):
    """Your second number is log Σ exp(score), the logarithm with the maximum added again. The sum of exp(score -
    maximum) is asked for."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, maximum + total.log()


@online.misconception
def returns_the_sum_first(chunks):
    """You return the two in the wrong order: the maximum comes first, then the sum."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return total, maximum


@online.misconception
def returns_the_softmax(chunks):
    """You return the softmax itself. What is asked for is what it is made with: the maximum and the sum of every
    row."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return torch.exp(torch.cat(list(chunks), dim=-1) - maximum[..., None]) / total[..., None]


@online.misconception
def adds_up_the_chunks_shares(chunks):
    """You divide the terms of each chunk by their own sum. Each chunk then adds 1, whatever its scores are."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.softmax(chunk, dim=-1).sum(dim=-1)
        maximum = new_maximum
    return maximum, total


@online.misconception
def counts_new_maxima_only(chunks):
    """You add a chunk only if it holds a new maximum. The other chunks have terms, too: smaller ones."""
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)
        total = total + torch.where(new_maximum > maximum, torch.exp(chunk - new_maximum[..., None]).sum(dim=-1), 0.0)
        maximum = new_maximum
    return maximum, total


@online.alternative
def all_at_once(chunks):
    scores = torch.cat(list(chunks), -1)
    maximum = scores.max(-1, keepdim=True)[0]
    return maximum.squeeze(-1), (scores - maximum).exp().sum(-1)


@online.alternative
def by_log_sum_exp(chunks):
    maximum = torch.stack([chunk.amax(-1) for chunk in chunks]).amax(0)
    whole = torch.stack([chunk.logsumexp(-1) for chunk in chunks]).logsumexp(0)
    return [maximum, torch.exp(whole - maximum)]


@online.alternative
def score_by_score(chunks):
    maximum, total = torch.full_like(chunks[0][..., 0], -torch.inf), torch.zeros_like(chunks[0][..., 0])
    for chunk in chunks:
        for score in chunk.unbind(-1):
            larger = score > maximum
            old = torch.where(torch.isinf(score), score, maximum - score).exp()
            new = torch.where(torch.isinf(score), score, score - maximum).exp()
            total = torch.where(larger, total * old + 1, total + new)
            maximum = torch.where(larger, score, maximum)
    return maximum, total


@online.alternative
def with_a_guard(chunks):
    maximum, total = None, None
    for chunk in chunks:
        here = chunk.max(dim=-1).values
        if maximum is None:
            maximum, total = here, torch.exp(chunk - here.clamp(min=-1e30).unsqueeze(-1)).sum(-1)
            continue
        new = torch.maximum(maximum, here)
        safe = torch.where(new == -torch.inf, torch.zeros_like(new), new)
        total = total * torch.exp(maximum - safe) + torch.exp(chunk - safe.unsqueeze(-1)).sum(-1)
        maximum = new
    return maximum, total


@online.alternative
def from_the_end(chunks):
    maximum = chunks[-1].amax(dim=-1)
    for chunk in chunks:
        maximum = torch.maximum(maximum, chunk.amax(dim=-1))
    total = 0
    for chunk in reversed(chunks):
        total = total + torch.exp(chunk - maximum[..., None]).sum(dim=-1)
    return maximum, total


@online.alternative
def merges_two_at_a_time(chunks):
    def summary(chunk):
        top = chunk.amax(-1, keepdim=True)
        return top, torch.nan_to_num(torch.exp(chunk - top), nan=0.0).sum(-1, keepdim=True)

    def joined(first, second):
        top = torch.maximum(first[0], second[0])
        return top, sum(torch.nan_to_num(s * torch.exp(m - top), nan=0.0) for m, s in (first, second))

    parts = [summary(chunk) for chunk in chunks]
    while len(parts) > 1:
        parts = [joined(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0][0][..., 0], parts[0][1][..., 0]
