"""The exercise `scaled_dot_product_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.difference import Difference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, expect_floats, expect_tuple
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.exercises.dot_product_attention.shared import FAR, ROUNDED, with_feature

scaled_dot_product_attention = Exercise(
    reference.scaled_dot_product_attention,
    cases=[
        {"q": normal(2, 3, seed=15), "k": normal(4, 3, seed=16), "v": normal(4, 5, seed=17)},
        {"q": normal(2, 5, 6, seed=18), "k": normal(2, 3, 6, seed=19), "v": normal(2, 3, 4, seed=20)},
        {
            "q": normal(2, 3, 4, 7, seed=21, scale=3),
            "k": normal(2, 3, 6, 7, seed=22, scale=3),
            "v": normal(2, 3, 6, 5, seed=23),
        },
        {"q": normal(3, 2, seed=24), "k": normal(3, 2, seed=25), "v": normal(3, 4, seed=26)},
    ],
    minutes=10,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Three steps again: scores, weights, output. You have written the first one already.",
        "The softmax runs over the keys. In a matrix of shape (…, query, key) that is the last axis.",
        "output has the shape (…, n, d_v): multiply weights (…, n, m) by v (…, m, d_v). Return output, then weights.",
        "weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1); return weights @ v, weights.",
    ],
)


def attention_of(subject, case):
    return expect_tuple(subject(*case.values()), ("output", "weights"))


@scaled_dot_product_attention.property("output is (…, n, d_v) and weights are (…, n, m)", points=1)
def attention_shapes(subject, case):
    output, weights = attention_of(subject, case)
    expect(weights is not None, "The second result is None. Return the weights there, not the output alone.")
    want_output, want_weights = scaled_dot_product_attention.want(case)
    expect_floats(output, tuple(want_output.shape), "the output")
    expect_floats(weights, tuple(want_weights.shape), "the matrix of weights")


@scaled_dot_product_attention.property("each row of the weights sums to 1, and the best key has the most", points=1)
def attention_rows(subject, case):
    weights = attention_of(subject, case)[1]
    expect(weights.min() >= -1e-6, f"There is a negative weight: {weights.min():.4g}.")
    sums = weights.sum(dim=-1)
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")
    expect_the_best_key_first(weights, scaled_dot_product_attention.want(case)[1])


def expect_the_best_key_first(weights, want):
    """In each row the key that should have the largest weight has it, unless a second one comes near."""
    best = want.argmax(dim=-1, keepdim=True)
    second = want.scatter(-1, best, -1.0).amax(dim=-1, keepdim=True)
    share, others = weights.gather(-1, best), weights.scatter(-1, best, -1.0).amax(dim=-1, keepdim=True)
    wrong = (want.gather(-1, best) > second + 1e-4) & (share <= others)
    if wrong.any():
        *query, _ = first = tuple(wrong.nonzero()[0].tolist())
        raise Failure(
            f"Query {query} fits key {int(best[first])} best, but its weight of {share[first].item():.4g} is not the "
            "largest in the row.",
            Difference(weights, want),
        )


@scaled_dot_product_attention.property("the weights are softmax(q kᵀ / √d_k)", points=1)
def attention_weights(subject, case):
    weights = attention_of(subject, case)[1]
    expect_close(weights, scaled_dot_product_attention.want(case)[1], "the matrix of weights")


@scaled_dot_product_attention.property("the output is the sum of the values with these weights", points=1)
def attention_output(subject, case):
    output = attention_of(subject, case)[0]
    expect_close(output, scaled_dot_product_attention.want(case)[0], "the output")


@scaled_dot_product_attention.property("gradients flow back to q, k and v", points=1)
def attention_gradients(subject, case):
    attention_of(subject, case)
    subject.require_untouched_inputs()
    slopes = [subject.gradient(*case.values(), wrt=position, at=(0,)) for position in range(3)]
    right = Subject(reference.scaled_dot_product_attention)
    for position, (name, slope) in enumerate(zip("qkv", slopes)):
        want = right.gradient(*case.values(), wrt=position, at=(0,))
        expect(
            slope.abs().max() > 1e-9 or want.abs().max() <= 1e-9,
            f"The output does not react to {name}: its gradient is 0 everywhere, so nothing before it could learn.",
        )
        expect_close(slope, want, f"the gradient of output[0].sum() with respect to {name}")


@scaled_dot_product_attention.property("scores around 1000 and -1000 give the right result too", points=1)
def attention_far_from_zero(subject, case):
    """The same number added to all scores of a query changes none of its weights."""
    q, k, v = case.values()
    signs = 1.0 - 2 * (torch.arange(q.shape[-2]) % 2)[:, None]  # +1, -1, +1, …
    q, k = with_feature(q, 2 * FAR * signs), with_feature(k, 2 * FAR)
    output, weights = expect_tuple(subject(q, k, v), ("output", "weights"))
    want_output, want_weights = reference.scaled_dot_product_attention(q, k, v)
    far = (
        f"with one more feature, {2 * FAR:g} in every key and in queries 0, 2, …, {-2 * FAR:g} in the other queries, "
        f"so that the scores lie near ±{4 * FAR * FAR / math.sqrt(q.shape[-1]):.0f},"
    )
    expect_close(weights, want_weights, f"{far} the matrix of weights", rtol=ROUNDED, atol=ROUNDED)
    expect_close(output, want_output, f"{far} the output", rtol=ROUNDED, atol=ROUNDED)


@scaled_dot_product_attention.misconception
def attention_without_scale(q, k, v):
    """You do not divide the scores by √d_k."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_d_k(q, k, v):
    """You divide by d_k instead of its square root."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / d_k
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_multiplies_by_root(q, k, v):
    """You multiply the scores by √d_k instead of dividing.

    They are too large, not too small.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores * math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_d_v(q, k, v):
    """You take d_k from the values. It is the width of queries and keys, whose products are scaled."""
    d_k = v.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_number_of_keys(q, k, v):
    """You divide by the square root of the number of keys. What counts is the width d_k, the last axis."""
    d_k = k.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_number_of_queries(q, k, v):
    """You divide by the square root of the number of queries. What counts is the width d_k, the last axis."""
    d_k = q.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_second_axis(q, k, v):
    """You take the length of axis 1 for d_k. With a batch in front, the width is axis -1.

    Axis 1 is right for a single matrix only.
    """
    d_k = q.shape[1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scales_the_weights(q, k, v):
    """You divide by √d_k after the softmax. Scale the scores, before it.

    The rows no longer sum to 1.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1) / math.sqrt(d_k)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scales_in_place(q, k, v):
    """You scale q in place: the caller's own tensor is changed.

    The result is right, but a second call differs.
    """
    d_k = q.shape[-1]
    q.div_(math.sqrt(d_k))
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_over_queries(q, k, v):
    """Your softmax runs over the queries. Each query distributes its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_axis_one(q, k, v):
    """Your softmax runs over axis 1. With a batch in front, the keys are the last axis.

    Axis 1 is the key axis of one matrix only.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_axis_zero(q, k, v):
    """Your softmax runs over the first axis. Each query distributes its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=0)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_the_whole_matrix(q, k, v):
    """Your softmax runs over a whole matrix of scores. Every query has a softmax of its own: over its row."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.flatten(-2).softmax(dim=-1).view_as(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_two_softmaxes(q, k, v):
    """You apply the softmax twice.

    The second one makes all weights nearly equal.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_sigmoid(q, k, v):
    """You use a sigmoid, which sets each weight independently. The keys have to compete with each other: use a softmax.

    The rows do not sum to 1.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.sigmoid()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_log_softmax(q, k, v):
    """You take the logarithms of the weights (log_softmax). Use the weights themselves.

    Logarithms of weights are never positive.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.log_softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_softmax(q, k, v):
    """You use the scores themselves as weights: the softmax is missing.

    Scores can be negative and do not sum to 1.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_the_sum(q, k, v):
    """You divide the scores by their sum, without the exponential.

    Negative scores become negative weights.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_picks_the_best(q, k, v):
    """Each of your queries takes only its best key. In soft attention every key has a share."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(v.dtype)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_cosine(q, k, v):
    """You compare by cosine: q and k are normalised to length 1. Use the dot product, divided by √d_k."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_scaled_cosine(q, k, v):
    """You normalise q and k to length 1 and divide by √d_k as well. Only the division belongs here."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_turns_all_axes(q, k, v):
    """You reverse all axes of k, as .T does, not just the last two.

    With more than two axes the wrong vectors are multiplied.
    """
    d_k = q.shape[-1]
    scores = q @ k.T
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_transposing(q, k, v):
    """You do not transpose k. Row i of q has to be multiplied with the rows of k, so these have to become columns."""
    d_k = q.shape[-1]
    scores = q @ k
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_swaps_fixed_axes(q, k, v):
    """You swap axes 1 and 2, counted from the front. Counted from the end, the last two are always the right ones.

    1 and 2 are right only with exactly three axes.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(1, 2)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_reshapes_the_keys(q, k, v):
    """You reshape k where a transpose is needed.

    view and reshape keep the order of the numbers and only cut it at other places: the keys are torn apart.
    """
    d_k = q.shape[-1]
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_sums_with_scores(q, k, v):
    """You compute the output with the scores. Use the weights, after the softmax."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = scores @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_averages_the_keys(q, k, v):
    """You compute the output from the keys. Keys are only for comparing; sum the values."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ k
    return output, weights


@scaled_dot_product_attention.misconception
def attention_compares_keys_with_keys(q, k, v):
    """You compare keys with keys. Each query is compared with the keys.

    The queries have no influence.
    """
    d_k = q.shape[-1]
    scores = k @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_weights_first(q, k, v):
    """The two results are in the wrong order: the output comes first, the weights second."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return weights, output


@scaled_dot_product_attention.misconception
def attention_returns_output_only(q, k, v):
    """You return the output alone. Return the weights too, as the second of two results."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output


@scaled_dot_product_attention.misconception
def attention_returns_scores(q, k, v):
    """The second result holds the scores, before the softmax. Return the weights, after it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, scores


@scaled_dot_product_attention.misconception
def attention_hides_the_future(q, k, v):
    """You hide later keys. Nothing is masked here: every query sees every key."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    scores = scores.masked_fill(torch.ones_like(scores).triu(diagonal=1).bool(), -math.inf)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_drops_weights(q, k, v):
    """Your dropout is always on. This exercise has no dropout.

    The same input gives random results.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.dropout(scores.softmax(dim=-1), p=0.1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_the_gradient(q, k, v):
    """You cut the weights off from the gradient (.detach(), .data). Gradients have to flow back to q, k and v.

    The numbers are right, but q and k cannot learn.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).detach()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_all_gradients(q, k, v):
    """You cut the output off from the gradient (.item(), .numpy(), no_grad, …). Gradients have to flow back to q, k
    and v.

    The numbers are right, but nothing could learn.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = (weights @ v).detach()
    return output, weights.detach()


@scaled_dot_product_attention.misconception
def attention_leaves_the_axis_open(q, k, v):
    """You do not say along which axis the softmax runs, so torch guesses. Name the last axis.

    With three axes it takes the first.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.softmax(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_everything(q, k, v):
    """Your softmax runs over the whole tensor of scores. Every row of every matrix has a softmax of its own."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_does_not_normalise(q, k, v):
    """Your weights are exp(score). Each row still has to be divided by its sum.

    The rows do not sum to 1.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.exp()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_no_weights(q, k, v):
    """The second result is None. Return the weights there: we want to look at them."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, None


@scaled_dot_product_attention.misconception
def attention_divides_by_eight(q, k, v):
    """You divide by 8, whatever the width. That is √64, which is right only for vectors of 64 features."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / 8
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_first_axis(q, k, v):
    """You divide by the square root of the length of the first axis. What counts is the width d_k, the last axis."""
    d_k = q.shape[0]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_power_before_division(q, k, v):
    """You divide by d_k / 2. Powers bind tighter than /: d_k ** 1/2 is (d_k ** 1) / 2, not a root."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (d_k / 2)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_twice_d_k(q, k, v):
    """You divide by 2 d_k. Powers bind tighter than /: d_k ** -1/2 is (1 / d_k) / 2, not a root."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (2 * d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_tensor_root_of_a_number(q, k, v):
    """You pass a plain number to torch.sqrt, which takes a tensor. math.sqrt takes numbers."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / torch.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_softmaxes_the_output(q, k, v):
    """You apply the softmax after summing the values. It belongs before the sum: it makes the weights."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = (scores @ v).softmax(dim=-1)
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_transposed_weights(q, k, v):
    """Your weights have a row for each key. A row belongs to a query, a column to a key."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights.transpose(-2, -1)


@scaled_dot_product_attention.misconception
def attention_returns_unscaled_weights(q, k, v):
    """You return weights made from scores without the scale. The output is made with other weights: return those."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, (scores * math.sqrt(d_k)).softmax(dim=-1)


@scaled_dot_product_attention.misconception
def attention_divides_by_a_whole_root(q, k, v):
    """You round √d_k down to a whole number. Use the square root itself, not rounded."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / int(math.sqrt(d_k))
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_the_fourth_root(q, k, v):
    """You take the square root of d_k twice: that is its fourth root. Once is enough.

    The fourth root is right only where q and k are both divided by it.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(math.sqrt(d_k))
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_turns_the_sign(q, k, v):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The keys that fit least get the most.
    """
    d_k = q.shape[-1]
    scores = -q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_sign(q, k, v):
    """Your scores ignore the sign of the dot products. A negative one means that key and query do not fit."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    scores = scores.abs()
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_relu(q, k, v):
    """You set negative scores to 0 (a ReLU) before the softmax. The softmax takes them as they are.

    All keys that do not fit get the same weight.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.relu().softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_distance(q, k, v):
    """You score by distance. Here the score is the dot product, divided by √d_k."""
    d_k = q.shape[-1]
    scores = -torch.cdist(q, k)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_weighs_equally(q, k, v):
    """You give every key the same weight.

    The scores have no influence.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = torch.ones_like(scores) / scores.shape[-1]
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_averages_again(q, k, v):
    """You divide the weighted sum by the number of keys. Keep the sum itself.

    The weights sum to 1 already.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v / v.shape[-2]
    return output, weights


@scaled_dot_product_attention.misconception
def attention_compares_queries_with_queries(q, k, v):
    """You compare queries with queries. Each query is compared with the keys.

    The keys have no influence.
    """
    d_k = q.shape[-1]
    scores = q @ q.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_compares_keys_with_queries(q, k, v):
    """You compute k qᵀ, which has a row for each key. A row belongs to a query: q kᵀ."""
    d_k = q.shape[-1]
    scores = k @ q.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_sums_with_transposed_weights(q, k, v):
    """You transpose the weights before the sum. Row i of the weights belongs to query i, and so does row i of the
    output."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights.transpose(-2, -1) @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_number_of_keys(q, k, v):
    """You divide by the number of keys. Use the square root of the width d_k, the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / k.shape[-2]
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_softmaxes_the_values(q, k, v):
    """You apply a softmax to the values. Sum them as they are; the softmax is for the scores."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v.softmax(dim=-1)
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_three(q, k, v):
    """You return three results. Return two: output and weights."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights, scores


@scaled_dot_product_attention.misconception
def attention_cuts_the_keys(q, k, v):
    """You cut the keys off from the gradient (.detach(), .data). Gradients have to flow back to q, k and v.

    The numbers are right, but the keys cannot learn.
    """
    d_k = q.shape[-1]
    scores = q @ k.detach().transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_the_values(q, k, v):
    """You cut the values off from the gradient (.detach(), .data). Gradients have to flow back to q, k and v.

    The numbers are right, but the values cannot learn.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v.detach()
    return output, weights


@scaled_dot_product_attention.misconception
def attention_subtracts_the_overall_maximum(q, k, v):
    """You subtract the largest score of all before the exponential. Every row of scores needs a maximum of its own.

    A row that lies far below it becomes all zeros, and 0 / 0 is NaN.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    exponentials = (scores - scores.max()).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


# Last, so that in a pair the coarser mistake is told first.
@scaled_dot_product_attention.misconception
def attention_overflows(q, k, v):
    """You take the exponential of the scores as they are, and scores can be large. Subtracting one number from all the
    scores of a query changes no weight: choose it so that no exponent is large.

    exp of a large score is inf, and inf / inf is NaN.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.alternative
def attention_by_einsum(q, k, v):
    weights = torch.einsum("...id,...jd->...ij", q / q.shape[-1] ** 0.5, k).softmax(-1)
    return torch.einsum("...ij,...jv->...iv", weights, v), weights


@scaled_dot_product_attention.alternative
def attention_fused(q, k, v):
    identity = torch.eye(k.shape[-2]).to(k).expand(*k.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


@scaled_dot_product_attention.alternative
def attention_by_exponentials(q, k, v):
    root = q.size(-1) ** 0.25
    scores = (q / root) @ (k / root).mT
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights.matmul(v), weights


@scaled_dot_product_attention.alternative
def attention_query_by_query(q, k, v):
    outputs, rows = [], []
    for i in range(q.shape[-2]):
        scores = (q[..., i, None, :] * k).sum(-1) / math.sqrt(k.shape[-1])
        row = torch.softmax(scores, -1)
        rows.append(row)
        outputs.append((row[..., None] * v).sum(-2))
    return [torch.stack(outputs, -2), torch.stack(rows, -2)]


@scaled_dot_product_attention.alternative
def attention_from_the_keys(q, k, v):
    weights = F.softmax(k @ q.mT * q.shape[-1] ** -0.5, dim=-2)
    return (v.mT @ weights).mT, weights.mT
