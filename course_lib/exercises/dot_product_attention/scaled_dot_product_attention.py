"""The exercise `scaled_dot_product_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import dot_product_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close, expect_floats, expect_tuple
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject

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
    ],
    minutes=10,
    difficulty=2,
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
    expect(weights is not None, "The second result is None: the weights are wanted too, not the output alone.")
    want_output, want_weights = reference.scaled_dot_product_attention(**case)
    expect_floats(output, tuple(want_output.shape), "the output")
    expect_floats(weights, tuple(want_weights.shape), "the matrix of weights")


@scaled_dot_product_attention.property("each row of the weights is a probability distribution", points=1)
def attention_rows(subject, case):
    weights = attention_of(subject, case)[1]
    expect(weights.min() >= -1e-6, f"There is a negative weight: {weights.min():.4g}.")
    sums = weights.sum(dim=-1)
    expect_close(sums, torch.ones_like(sums), "the sum of each row of the weights")


@scaled_dot_product_attention.property("the weights are softmax(q kᵀ / √d_k)", points=2)
def attention_weights(subject, case):
    weights = attention_of(subject, case)[1]
    expect_close(weights, reference.scaled_dot_product_attention(**case)[1], "the matrix of weights")


@scaled_dot_product_attention.property("gradients flow back to q, k and v", points=1)
def attention_gradients(subject, case):
    slopes = [subject.gradient(*case.values(), wrt=position, at=(0,)) for position in range(3)]
    if subject.changed_inputs:
        return  # the last property speaks of that
    right = Subject(reference.scaled_dot_product_attention)
    for position, (name, slope) in enumerate(zip("qkv", slopes)):
        expect(
            slope.abs().max() > 1e-9,
            f"The output does not react to {name}: its gradient is 0 everywhere, so nothing before it could learn.",
        )
        want = right.gradient(*case.values(), wrt=position, at=(0,))
        expect_close(slope, want, f"the gradient of output[0].sum() with respect to {name}")


@scaled_dot_product_attention.property("the output is the sum of the values with these weights", points=1)
def attention_output(subject, case):
    output = attention_of(subject, case)[0]
    expect_close(output, reference.scaled_dot_product_attention(**case)[0], "the output")


@scaled_dot_product_attention.misconception
def attention_without_scale(q, k, v):
    """The scores are not divided by √d_k."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_d_k(q, k, v):
    """You divide by d_k; its square root is wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / d_k
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_multiplies_by_root(q, k, v):
    """You multiply the scores by √d_k. Divide: they are too large, not too small."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores * math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_d_v(q, k, v):
    """You take d_k from the values. It is the width of queries and keys, whose products are to be scaled."""
    d_k = v.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_number_of_keys(q, k, v):
    """You divide by the root of the number of keys. It is the width d_k, the last axis, that counts."""
    d_k = k.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_number_of_queries(q, k, v):
    """You divide by the root of the number of queries. It is the width d_k, the last axis, that counts."""
    d_k = q.shape[-2]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_second_axis(q, k, v):
    """You take the length of axis 1 for d_k. That fits one matrix; with a batch in front, the width is axis -1."""
    d_k = q.shape[1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scales_the_weights(q, k, v):
    """You divide by √d_k after the softmax, so the rows no longer sum to 1. The scores are scaled, before it."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1) / math.sqrt(d_k)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scales_in_place(q, k, v):
    """The result is right, but you scale q in place: the caller's own tensor is changed, and a second call differs."""
    d_k = q.shape[-1]
    q.div_(math.sqrt(d_k))
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_over_queries(q, k, v):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-2)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_axis_one(q, k, v):
    """Your softmax runs over axis 1. That is the key axis of one matrix only; with a batch in front it is the last."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_axis_zero(q, k, v):
    """Your softmax runs over the first axis. Each query shares out its attention over the keys: the last axis."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=0)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_the_whole_matrix(q, k, v):
    """Your weights sum to 1 over the whole matrix. Every query has weights of its own: each row sums to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.flatten(-2).softmax(dim=-1).view_as(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_two_softmaxes(q, k, v):
    """You apply the softmax twice. The second one makes all weights nearly equal."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_sigmoid(q, k, v):
    """You use a sigmoid: each weight is decided alone, and the rows do not sum to 1. Keys compete: softmax."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.sigmoid()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_log_softmax(q, k, v):
    """log_softmax gives the logarithms of the weights. The weights themselves are wanted."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.log_softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_softmax(q, k, v):
    """The softmax is missing: scores can be negative and do not sum to 1."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_the_sum(q, k, v):
    """You divide the scores by their sum, without the exponential: negative scores become negative weights."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_picks_the_best(q, k, v):
    """Each of your queries takes its best key alone. In soft attention every key has a share."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(v.dtype)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_cosine(q, k, v):
    """You compare by cosine: q and k are brought to length 1. The dot product, divided by √d_k, is wanted."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_by_scaled_cosine(q, k, v):
    """You bring q and k to length 1 and divide by √d_k as well. Only the division is wanted."""
    d_k = q.shape[-1]
    scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_turns_all_axes(q, k, v):
    """.T turns all axes of k around, not just the last two: beyond a single matrix the wrong things meet."""
    d_k = q.shape[-1]
    scores = q @ k.T
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_without_transposing(q, k, v):
    """k is not transposed: row i of q has to meet the rows of k, so these have to become columns."""
    d_k = q.shape[-1]
    scores = q @ k
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_swaps_fixed_axes(q, k, v):
    """You swap axes 1 and 2, counted from the front. That fits three axes only; counted from the end it always fits."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(1, 2)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_reshapes_the_keys(q, k, v):
    """view and reshape cut the same row of numbers into other pieces: the keys fall apart. Transpose instead."""
    d_k = q.shape[-1]
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_sums_with_scores(q, k, v):
    """The weights are right, but the output is made with the scores: the softmax is left out of the sum."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = scores @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_averages_the_keys(q, k, v):
    """Your output is made of the keys. Keys are for comparing; what is summed up are the values."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ k
    return output, weights


@scaled_dot_product_attention.misconception
def attention_compares_with_values(q, k, v):
    """You compare keys with keys: the queries have no influence."""
    d_k = q.shape[-1]
    scores = k @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_returns_weights_first(q, k, v):
    """The two results stand in the wrong order: the output comes first, the weights second."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return weights, output


@scaled_dot_product_attention.misconception
def attention_returns_output_only(q, k, v):
    """Only the output comes back. Return the weights too, as the second of two results."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output


@scaled_dot_product_attention.misconception
def attention_returns_scores(q, k, v):
    """The second result holds the scores, before the softmax. The weights after it are wanted."""
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
    """Your dropout is always on, so the same input gives random results. This exercise has no dropout."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.dropout(scores.softmax(dim=-1), p=0.1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_the_gradient(q, k, v):
    """The numbers are right, but the weights are cut off from the gradient (.detach(), .data): q and k cannot learn."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1).detach()
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_cuts_all_gradients(q, k, v):
    """The numbers are right, but no gradient comes through (.item(), .numpy(), no_grad, …): nothing could learn."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = (weights @ v).detach()
    return output, weights


@scaled_dot_product_attention.misconception
def attention_leaves_the_axis_open(q, k, v):
    """You do not say along which axis the softmax runs, and torch guesses: with three axes it takes the first.
    Name the last."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = F.softmax(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_normalises_everything(q, k, v):
    """Your weights sum to 1 over the whole tensor. Every row of every matrix has to sum to 1 by itself."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.flatten().softmax(dim=0).view_as(scores)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_does_not_normalise(q, k, v):
    """Your weights are exp(score), but the rows do not sum to 1: divide each row by its sum."""
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
    """You divide by 8. That is √64 and right for vectors of 64 features only: take the width of these vectors."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / 8
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_scaled_by_first_axis(q, k, v):
    """You divide by the root of the length of the first axis. It is the width d_k, the last axis, that counts."""
    d_k = q.shape[0]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_power_before_division(q, k, v):
    """Powers bind tighter than /: d_k ** 1/2 is d_k divided by 2. Write math.sqrt(d_k) or d_k ** 0.5."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (d_k / 2)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_divides_by_twice_d_k(q, k, v):
    """Powers bind tighter than /: d_k ** -1/2 is 1 / (2 d_k). Write math.sqrt(d_k) or d_k ** -0.5."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / (2 * d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_with_tensor_root_of_a_number(q, k, v):
    """torch.sqrt takes a tensor, and d_k is a plain number: math.sqrt takes that."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / torch.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


@scaled_dot_product_attention.misconception
def attention_softmaxes_the_output(q, k, v):
    """You apply the softmax after the values are summed up. It belongs before: it makes the weights of the sum."""
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
    """Scores are scaled for the output, but the weights that you return are not the ones it was made with."""
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(d_k)
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, (scores * math.sqrt(d_k)).softmax(dim=-1)


@scaled_dot_product_attention.alternative
def attention_by_einsum(q, k, v):
    weights = torch.einsum("...id,...jd->...ij", q / q.shape[-1] ** 0.5, k).softmax(-1)
    return torch.einsum("...ij,...jv->...iv", weights, v), weights


@scaled_dot_product_attention.alternative
def attention_fused(q, k, v):
    identity = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-1], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


@scaled_dot_product_attention.alternative
def attention_by_exponentials(q, k, v):
    root = q.size(-1) ** 0.25
    exponentials = torch.exp((q / root) @ (k / root).mT)
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
    weights = F.softmax(k.float() @ q.float().mT * q.shape[-1] ** -0.5, dim=-2)
    return (v.float().mT @ weights).mT, weights.mT
