"""The exercise `batched_self_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close
from course_lib.checking.inputs import normal
from course_lib.exercises.dot_product_attention.shared import FAR, ROUNDED, attended, with_feature

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
        "With a batch axis in front, .T reverses all axes. transpose(1, 2) swaps only the last two.",
        "scores is (batch, query, key). A query distributes its attention over the keys: which axis is that?",
        "scores = x @ x.transpose(1, 2); weights = scores.softmax(dim=2); return weights @ x.",
    ],
)


@batched_self_attention.property("the result has the shape (batch, time, d)", points=1)
def batched_shape(subject, case):
    attended(subject, case["x"])


@batched_self_attention.property("a batch of one sequence gets what self_attention gives it", points=1)
def batched_single_sequence(subject, case):
    last = case["x"][-1:]
    what = f"for the last sequence alone, a batch of shape {tuple(last.shape)}, the result"
    expect_close(subject(last), reference.batched_self_attention(last), what)


@batched_self_attention.property("the sequences of a batch do not see each other", points=1)
def batched_sequences_are_apart(subject, case):
    x = case["x"].clone()
    x[1:] = 0
    got = attended(subject, x)[0]
    what = "with every sequence but the first set to 0, the result for the first"
    expect_close(got, reference.batched_self_attention(x)[0], what)


@batched_self_attention.property("every sequence gets what self_attention gives it", points=1)
def batched_result(subject, case):
    expect_close(subject(case["x"]), torch.stack([reference.self_attention(x) for x in case["x"]]))


@batched_self_attention.property("dot products around 1000 give the right result too", points=1)
def batched_far_from_zero(subject, case):
    """The same number added to all scores of a sequence changes no weight."""
    x = case["x"]
    features = FAR * (torch.arange(len(x)) % 2 == 0).to(x.dtype)[:, None, None]  # 32, 0, 32, …
    want = with_feature(reference.batched_self_attention(x), features)
    what = (
        f"with one more feature, {FAR:g} in sequences 0, 2, … and 0 in the others, so that {FAR * FAR:g} is added to "
        "every dot product of the former and no weight changes, the result"
    )
    expect_close(subject(with_feature(x, features)), want, what, rtol=ROUNDED, atol=ROUNDED)


@batched_self_attention.misconception
def softmax_over_the_queries(x):
    """Your weights sum to 1 over the queries: the softmax runs over axis 1, or the weights are transposed. Each query
    distributes its attention over the keys: axis 2."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_the_batch(x):
    """Your softmax runs over the batch (axis 0). Each query distributes its attention over the keys: axis 2.

    Sequences that have nothing to do with each other compete.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=0)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_the_whole_matrix(x):
    """Your softmax runs over the whole matrix of a sequence. Each row has a softmax of its own."""
    scores = x @ x.transpose(1, 2)
    weights = scores.flatten(1).softmax(dim=1).view_as(scores)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_without_softmax(x):
    """You use the dot products themselves as weights: the softmax is missing."""
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
    """You reverse all three axes, as .T does, the batch axis included. Swap the last two axes only."""
    scores = x @ x.T
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def swaps_batch_and_time(x):
    """You swap batch and time. Swap the last two axes.

    The tokens of different sequences meet each other.
    """
    scores = x @ x.transpose(0, 1)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def multiplies_without_transposing(x):
    """You multiply x by itself without swapping axes. Rows have to be multiplied with rows, so the second x has to be
    transposed."""
    scores = x @ x
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def reshapes_instead_of_transposing(x):
    """You reshape where a transpose is needed.

    view and reshape keep the order of the numbers and only cut it into rows at other places: the vectors are torn
    apart.
    """
    scores = x @ x.reshape(x.shape[0], x.shape[2], x.shape[1])
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_compares_features(x):
    """You compare features with features. Tokens are compared with tokens: (batch, time, time).

    The scores are d × d.
    """
    scores = x.transpose(1, 2) @ x
    weights = scores.softmax(dim=2)
    output = x @ weights
    return output


@batched_self_attention.misconception
def joins_the_sequences(x):
    """You join all sequences of the batch into one long one. Keep the batch axis separate.

    The sequences see each other.
    """
    tokens = x.reshape(-1, x.shape[2])
    scores = tokens @ tokens.transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ tokens
    return output.view_as(x)


@batched_self_attention.misconception
def first_sequence_for_all(x):
    """You take the weights of the first sequence for all of them. Each has scores of its own."""
    scores = x[0] @ x[0].transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_returns_weights(x):
    """You return the weights. Use them to make the output: one weighted sum of vectors for each position."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return weights


@batched_self_attention.misconception
def batched_looks_back_only(x):
    """You hide later positions. Nothing is masked here: every position sees the whole sequence."""
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(torch.ones_like(scores).triu(diagonal=1).bool(), -math.inf)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_looks_forward_only(x):
    """You hide earlier positions. Nothing is masked here: every position sees the whole sequence."""
    scores = x @ x.transpose(1, 2)
    scores = scores.masked_fill(torch.ones_like(scores).tril(diagonal=-1).bool(), -math.inf)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_adds_the_scores_of_all(x):
    """You add up the scores of all sequences. Each has scores of its own."""
    scores = (x @ x.transpose(1, 2)).sum(dim=0, keepdim=True)
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
    """You compare by cosine: all vectors are normalised to length 1 first. Use the plain dot product."""
    scores = F.normalize(x, dim=2) @ F.normalize(x, dim=2).transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def last_sequence_for_all(x):
    """You take the weights of the last sequence for all of them. Each has scores of its own."""
    scores = x[-1] @ x[-1].transpose(0, 1)
    weights = scores.softmax(dim=1)
    output = weights @ x
    return output


@batched_self_attention.misconception
def softmax_over_everything(x):
    """Your softmax runs over the whole batch at once. Every row of every sequence has a softmax of its own."""
    scores = x @ x.transpose(1, 2)
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_not_normalised(x):
    """Your weights are exp(score). Each row still has to be divided by its sum.

    The rows do not sum to 1.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.exp()
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_softmax_twice(x):
    """You apply the softmax twice.

    The second one makes the weights nearly equal.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2).softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_keeps_the_input(x):
    """You add x to the result. That comes in a later notebook; return the weighted sum alone here."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x + x
    return output


@batched_self_attention.misconception
def batched_with_sigmoid(x):
    """You use a sigmoid, which sets each weight independently. The positions have to compete with each other: use a
    softmax.

    The rows of the weights do not sum to 1.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.sigmoid()
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_with_log_softmax(x):
    """You take the logarithms of the weights (log_softmax). Use the weights themselves.

    Logarithms of weights are never positive.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.log_softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_divides_by_the_sum(x):
    """You divide the dot products by their sum, without the exponential.

    Weights come out negative.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores / scores.sum(dim=2, keepdim=True)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_picks_the_best(x):
    """Each of your positions takes only the vector that fits best. In soft attention every vector has a share."""
    scores = x @ x.transpose(1, 2)
    weights = F.one_hot(scores.argmax(dim=2), x.shape[1]).to(x.dtype)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_is_a_mean(x):
    """You give every vector of a sequence the same weight.

    The dot products have no influence.
    """
    scores = x @ x.transpose(1, 2)
    weights = torch.ones_like(scores) / x.shape[1]
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_turns_the_sign(x):
    """Your scores have the wrong sign: vectors that fit must get a large weight.

    The vectors that fit least get the most.
    """
    scores = -x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_divides_by_d(x):
    """You divide the dot products by d. This exercise repeats self_attention, without a scale."""
    scores = x @ x.transpose(1, 2) / x.shape[2]
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_scaled_by_length(x):
    """You divide by the square root of the number of positions. This exercise repeats self_attention, without a
    scale."""
    scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[1])
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output


@batched_self_attention.misconception
def batched_averages_again(x):
    """You divide the weighted sum by the number of positions. Keep the sum itself.

    The weights sum to 1 already.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x / x.shape[1]
    return output


@batched_self_attention.misconception
def batched_returns_a_pair(x):
    """You return the weights as well. Return the output alone."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output, weights


@batched_self_attention.misconception
def batched_returns_x(x):
    """You return x as it is: what was computed from it, if anything, is thrown away."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return x


@batched_self_attention.misconception
def batched_transposes_the_output(x):
    """You transpose the output: it is (batch, d, time). The vectors stay rows: (batch, time, d)."""
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output.transpose(1, 2)


@batched_self_attention.misconception
def batched_attends_over_the_batch(x):
    """You take axis 0 for time and axis 1 for the batch. In this course the batch axis comes first.

    Tokens at the same place of different sequences attend to each other.
    """
    x = x.transpose(0, 1)
    scores = x @ x.transpose(1, 2)
    weights = scores.softmax(dim=2)
    output = weights @ x
    return output.transpose(0, 1)


@batched_self_attention.misconception
def batched_subtracts_the_overall_maximum(x):
    """You subtract the largest score of the whole batch before the exponential. Every row of scores needs a maximum of
    its own.

    A row that lies far below it becomes all zeros, and 0 / 0 is NaN.
    """
    scores = x @ x.transpose(1, 2)
    exponentials = (scores - scores.max()).exp()
    weights = exponentials / exponentials.sum(dim=2, keepdim=True)
    output = weights @ x
    return output


# Last, so that in a pair the coarser mistake is told first.
@batched_self_attention.misconception
def batched_overflows(x):
    """You take the exponential of the scores as they are, and scores can be large. Subtracting one number from all the
    scores of a query changes no weight: choose it so that no exponent is large.

    exp of a large score is inf, and inf / inf is NaN.
    """
    scores = x @ x.transpose(1, 2)
    weights = scores.exp() / scores.exp().sum(dim=2, keepdim=True)
    output = weights @ x
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
