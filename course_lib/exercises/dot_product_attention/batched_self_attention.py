"""The exercise `batched_self_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_agreement, expect_close
from course_lib.checking.inputs import normal
from course_lib.exercises.dot_product_attention.shared import attended

batched_self_attention = Exercise(
    reference.batched_self_attention,
    cases=[
        {"x": normal(2, 3, 4, seed=5, scale=0.8)},
        {"x": normal(3, 5, 2, seed=6)},
        {"x": normal(4, 4, 4, seed=7, scale=0.7)},
        {"x": normal(2, 6, 3, seed=8, scale=3)},
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Write the scores of one sequence as one matrix product first: which two matrices give a (time, time) result?",
        "With a batch in front, .T turns all axes around. transpose(1, 2) swaps the last two alone.",
        "scores is (batch, query, key). A query shares out its attention over the keys: which axis is that?",
        "scores = x @ x.transpose(1, 2); weights = scores.softmax(dim=2); return weights @ x.",
    ],
)


@batched_self_attention.property("the result has the shape (batch, time, d)", points=1)
def batched_shape(subject, case):
    attended(subject, case["x"])


@batched_self_attention.property("sequences of a batch do not see each other", points=1)
def batched_sequences_are_apart(subject, case):
    together = attended(subject, case["x"])
    alone = torch.cat([attended(subject, sequence[None]) for sequence in case["x"]])
    expect_agreement(together, alone, "A sequence in the batch gets another result than the same sequence alone.")


@batched_self_attention.property("equal vectors stay as they are", points=1)
def batched_equal_vectors(subject, case):
    same = case["x"][:, :1].expand_as(case["x"]).contiguous()
    expect_close(attended(subject, same), same, "with all vectors of a sequence equal, the result")


@batched_self_attention.property("tokens in another order give the same outputs in that order", points=1)
def batched_is_equivariant(subject, case):
    x = case["x"]
    claim = "Your result for x in reverse order is not your result for x, reversed."
    expect_agreement(attended(subject, x.flip(1)), attended(subject, x).flip(1), claim)


@batched_self_attention.property("every sequence gets what self_attention gives it", points=1)
def batched_result(subject, case):
    expect_close(subject(case["x"]), torch.stack([reference.self_attention(x) for x in case["x"]]))


@batched_self_attention.misconception
def softmax_over_the_queries(x):
    """Your softmax runs over the queries (axis 1). Each query shares out its attention over the keys: axis 2."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_the_batch(x):
    """Your softmax runs over the batch (axis 0): sequences that have nothing to do with each other compete."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=0)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_the_whole_matrix(x):
    """Your weights sum to 1 over the whole matrix of a sequence. Every row has to sum to 1."""
    scores = x @ x.transpose(1, 2)
    weights = scores.flatten(1).softmax(dim=1).view_as(scores)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_without_softmax(x):
    """The softmax is missing: you use the dot products themselves as weights."""
    scores = x @ x.transpose(1, 2)
    weights = scores
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_is_scaled(x):
    """You divide by √d. That comes a little later; this exercise repeats self_attention, without a scale."""
    scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[2])
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def reverses_all_axes(x):
    """.T turns all three axes around, the batch included. Swap the last two axes only."""
    scores = x @ x.T
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def swaps_batch_and_time(x):
    """You swap batch and time: the tokens of different sequences meet each other. Swap the last two axes."""
    scores = x @ x.transpose(0, 1)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def multiplies_without_transposing(x):
    """You multiply x by itself without swapping axes: rows have to meet rows, so the second x has to be turned."""
    scores = x @ x
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def reshapes_instead_of_transposing(x):
    """view and reshape keep the order of the numbers and cut it into other rows: vectors fall apart. Transpose."""
    scores = x @ x.reshape(x.shape[0], x.shape[2], x.shape[1])
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_compares_features(x):
    """You compare features with features (d × d). Tokens are compared with tokens: (batch, time, time)."""
    scores = x.transpose(1, 2) @ x
    weights = scores.softmax(dim=2)
    output = x @ weights
    return output


@batched_self_attention.misconception
def joins_the_sequences(x):
    """You join all sequences of the batch into one long one, so that they see each other. Keep the batch axis apart."""
    tokens = x.reshape(-1, x.shape[2])
    scores = tokens @ tokens.transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ tokens
    return output.view_as(x)


@batched_self_attention.misconception
def first_sequence_for_all(x):
    """Every sequence is mixed with the weights of the first one. Each has scores of its own."""
    scores = x[0] @ x[0].transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_returns_weights(x):
    """You return the weights. The output is made with them: one weighted sum of vectors for each position."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return weights


@batched_self_attention.misconception
def batched_looks_back_only(x):
    """Later positions are hidden in your version. Nothing is masked here: every position sees the whole sequence."""
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(torch.ones_like(scores).triu(diagonal=1).bool(), -math.inf)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_leaves_itself_out(x):
    """You hide the diagonal. A position is compared with itself too."""
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(torch.eye(x.shape[1]).bool(), -math.inf)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_by_angle(x):
    """You compare by cosine: all vectors are brought to length 1 first. The plain dot product is wanted."""
    scores = F.normalize(x, dim=2) @ F.normalize(x, dim=2).transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def last_sequence_for_all(x):
    """Every sequence is mixed with the weights of the last one. Each has scores of its own."""
    scores = x[-1] @ x[-1].transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_everything(x):
    """Your weights sum to 1 over the whole batch. Every row of every sequence has to sum to 1 by itself."""
    scores = x @ x.transpose(1, 2)
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_not_normalised(x):
    """Your weights are exp(score), but the rows do not sum to 1: divide each row by its sum."""
    scores = x @ x.transpose(1, 2)
    weights = scores.exp()
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_softmax_twice(x):
    """You apply the softmax twice. The second one makes the weights nearly equal."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2).softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_keeps_the_input(x):
    """You add x to the result. That comes in a later notebook; here the weighted sum alone is wanted."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x + x
    return output


@batched_self_attention.alternative
def batched_with_bmm(x):
    return torch.bmm(F.softmax(torch.bmm(x, x.permute(0, 2, 1)), dim=-1), x)


@batched_self_attention.alternative
def batched_by_einsum(x):
    weights = torch.einsum("bid,bjd->bij", x, x).softmax(-1)
    return torch.einsum("bij,bjd->bid", weights, x)


@batched_self_attention.alternative
def batched_by_broadcasting(x):
    scores = (x[:, :, None] * x[:, None]).sum(-1)
    exponentials = scores.sub(scores.amax(-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return (weights[..., None] * x[:, None]).sum(dim=2)


@batched_self_attention.alternative
def batched_fused(x):
    return F.scaled_dot_product_attention(x, x, x, scale=1.0)


@batched_self_attention.alternative
def batched_one_by_one(x):
    return torch.stack([(s @ s.T).softmax(1) @ s for s in x.float()])


@batched_self_attention.alternative
def batched_not_contiguous(x):
    weights = torch.softmax(x @ x.mT, dim=1)  # the scores are symmetric: column j holds what row j should
    return (x.mT @ weights).mT
