"""The exercise `multi_head_attention`: what must hold, and what people really write instead."""

from __future__ import annotations

import copy
import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib import multi_head_attention as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_close,
    expect_floats,
    expect_tensor,
    expect_tuple,
    is_close,
)
from course_lib.checking.inputs import normal, random_mask
from course_lib.checking.subject import Event
from course_lib.checking.weights import AttentionWeights, load_weights
from course_lib.exercises.multi_head_attention.shared import (
    expect_count,
    expect_distributions,
    layers_in_plain_lists_explained,
    listing,
)
from course_lib.masks import causal_mask, masked_softmax
from course_lib.multi_head_attention import MultiHeadAttention, size_of_a_head, with_head_axis


def partial_mask(*shape, seed):
    """A mask in which every query may see some keys and not others: then an inverted mask hides no row completely."""
    mask = random_mask(*shape, seed=seed)
    mask[..., -1] &= ~mask.all(dim=-1)
    return mask


multi_head_attention = Exercise(
    reference.MultiHeadAttention,
    cases=[
        {
            "d_model": 10,
            "num_heads": 2,
            "dropout": 0.4,
            "query": normal(3, 4, 10, seed=11),
            "key": normal(3, 6, 10, seed=12),
            "value": normal(3, 6, 10, seed=13),
            "mask": partial_mask(3, 4, 6, seed=14),
        },
        {
            "d_model": 20,
            "num_heads": 5,
            "dropout": 0.3,
            "query": normal(2, 7, 20, seed=15, scale=30),  # scores beyond 1000
            "key": normal(2, 7, 20, seed=15, scale=30),
            "value": normal(2, 7, 20, seed=15, scale=30),
            "mask": causal_mask(7) & ~causal_mask(7).tril(-4),  # only the last four positions
        },
        {
            "d_model": 24,
            "num_heads": 4,
            "dropout": 0.5,
            "query": normal(2, 5, 24, seed=16, scale=3),
            "key": normal(2, 3, 24, seed=17),
            "value": normal(2, 3, 24, seed=18),
            "mask": None,
        },
        {
            "d_model": 18,
            "num_heads": 6,
            "dropout": 0.2,
            "query": normal(3, 5, 18, seed=19),
            "key": normal(3, 5, 18, seed=19),
            "value": normal(3, 5, 18, seed=19),
            "mask": None,
        },
    ],
    minutes=20,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Four steps: project each input and split it into heads; attend in all heads at once; merge; apply w_o.",
        "q comes from query through w_q, k from key through w_k, v from value through w_v. You have split_heads and "
        "merge_heads. What is d_k, once the heads are split?",
        "The scores are (batch, head, query, key). A mask (batch, query, key) needs an axis for the heads at place 1; "
        "a mask (query, key) fits as it is.",
        "Dropout is a module of its own: self.dropout = nn.Dropout(dropout) in __init__, and in forward, after the "
        "softmax, weights = self.dropout(weights). It knows by itself whether the model is training.",
        "q = split_heads(self.w_q(query), self.num_heads), and so on; scores = q @ k.transpose(-2, -1) / "
        "math.sqrt(d_k); weights = self.dropout(masked_softmax(scores, mask)); "
        "return self.w_o(merge_heads(weights @ v)), weights.",
    ],
)


def inputs_of(case):
    """What `forward` is called with. Without a mask, none is passed."""
    inputs = [case["query"], case["key"], case["value"]]
    return inputs if case["mask"] is None else [*inputs, case["mask"]]


@functools.cache
def numbers(d_model, num_heads):
    return AttentionWeights.random(d_model, num_heads, seed=num_heads)


def weights_of(case):
    return numbers(case["d_model"], case["num_heads"])


@functools.cache
def reference_module(d_model, num_heads):
    module = reference.MultiHeadAttention(d_model, num_heads).double().eval().requires_grad_(False)
    module.load_state_dict(numbers(d_model, num_heads).named())
    return module


RIGHT_ANSWERS: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def right_answer(case):
    """(output, weights) of the reference, with the numbers that the check uses."""
    known, answer = RIGHT_ANSWERS.get(id(case), (None, None))
    if known is not case:
        answer = reference_module(case["d_model"], case["num_heads"])(*inputs_of(case))
        RIGHT_ANSWERS[id(case)] = (case, answer)
    return answer


def built_with_weights(subject, case, must_be_known=True):
    built = subject.build(case["d_model"], case["num_heads"], case["dropout"])
    known = load_weights(built, weights_of(case), inputs_of(case), right_answer(case)[0])
    if must_be_known and not known:
        raise Failure(
            "The check fills your parameters with its own numbers and does not know this way to keep them: "
            f"{listing(built.shapes())}. "
            "Four nn.Linear(d_model, d_model) called w_q, w_k, w_v and w_o are always understood."
        )
    return built


def answer_of(built, case):
    output, weights = expect_tuple(built(*inputs_of(case)), ("output", "weights"))
    want_output, want_weights = right_answer(case)
    expect_floats(output, tuple(want_output.shape), "the output")
    expect_floats(weights, tuple(want_weights.shape), "the tensor of weights")
    return output, weights


@multi_head_attention.property("output (batch, query, d_model) and weights (batch, head, query, key)", points=1)
def module_shapes(subject, case):
    built = built_with_weights(subject, case, must_be_known=False)
    with layers_in_plain_lists_explained(built, reference.multi_head_parameters(case["d_model"], 1, True)):
        answer_of(built, case)


@multi_head_attention.property("four projections with biases: 4 · d_model² + 4 · d_model parameters", points=1)
def module_parameters(subject, case):
    built = subject.build(case["d_model"], case["num_heads"], case["dropout"])
    expect_count(built, reference.multi_head_parameters(case["d_model"], case["num_heads"], True))


@multi_head_attention.property("in each head, the weights of a query sum to 1 over the keys it may see", points=1)
def module_distributions(subject, case):
    _, weights = answer_of(built_with_weights(subject, case), case)
    if case["mask"] is not None:
        hidden = ~with_head_axis(case["mask"]).expand(weights.shape)
        largest = weights[hidden].abs().max()
        expect(largest < 1e-6, f"A key that the mask hides still gets weight {largest:.3g}.")
    expect_distributions(weights)


@multi_head_attention.property("the weights of head i are softmax(q_i k_iᵀ / √d_k)", points=2)
def module_weights(subject, case):
    _, weights = answer_of(built_with_weights(subject, case), case)
    expect_close(weights, right_answer(case)[1], "the tensor of weights")


@multi_head_attention.property("the output is the heads' results side by side, through W_O", points=2)
def module_output(subject, case):
    built = built_with_weights(subject, case)
    output, _ = answer_of(built, case)
    expect_close(output, right_answer(case)[0], "the output")
    built.require_untouched_inputs()
    # However the parameters are packed, the sum of all squared slopes is the same.
    slopes = built.parameter_gradients(*inputs_of(case))
    got = sum(float((slope**2).sum()) for slope in slopes.values())
    built.trace.append(Event("squared gradient", got))
    expect(
        abs(got / squared_gradient(case) - 1) < 1e-3,
        "The output is right, but its gradient does not come back to all parameters as it should: is something "
        "detached (.detach(), .data, torch.no_grad, a new torch.tensor) on the way?",
    )
    for position, name in enumerate(("query", "key", "value")):
        got_slope = built.gradient(*inputs_of(case), wrt=position)
        expect_close(got_slope, slope(case, position), f"the gradient of the output with respect to {name}")


def squared_gradient(case):
    module = copy.deepcopy(reference_module(case["d_model"], case["num_heads"])).requires_grad_()
    (module(*inputs_of(case))[0] ** 2).sum().backward()
    return sum(float((p.grad**2).sum()) for p in module.parameters())


def slope(case, position):
    """The reference's gradient of the output with respect to one of query, key and value."""
    inputs = inputs_of(case)
    inputs[position] = inputs[position].clone().requires_grad_()
    output, _ = reference_module(case["d_model"], case["num_heads"])(*inputs)
    return torch.autograd.grad(output.sum(), inputs[position])[0]


@multi_head_attention.property("dropout is applied to the weights, in training only", points=1)
def module_dropout(subject, case):
    built = built_with_weights(subject, case)
    answer_of(built, case)
    built.train()
    # Right answers differ in what they drop at random. So the answer itself is not recorded, only what it shows.
    one_key = [case["query"], case["key"][:, :1], case["value"][:, :1]]
    with built.unobserved():
        changes = not is_close(first_of(built(*inputs_of(case))), right_answer(case)[0])
        output = first_of(built(*one_key))
    outcome = what_is_dropped(output, case)
    # An answer that cannot be explained equals no other.
    built.note("dropout", (changes, output if outcome == "something else" else outcome))
    messages = {
        "nothing": f"With dropout {case['dropout']} the module answers in training as it does in evaluation."
        if not changes
        else "Something is dropped in training, but not the weights: with one single key its weight is never dropped.",
        "not rescaled": "In training weights are dropped, but those that are left are not divided by 1 - dropout.",
        "kept instead of dropped": "The weights that are left in training are divided by dropout; divide by "
        "1 - dropout, as nn.Dropout does.",
        "at another rate": f"In training weights are dropped, but not with the probability {case['dropout']}: those "
        "that are left are divided by a number other than 1 - dropout.",
        "the output": "In training, entries of the output are dropped. Here the weights should be.",
        "something else": "Something is dropped in training, but the output does not follow from dropped weights: "
        "softmax first, then dropout on the weights, then the weighted sum, and nothing is dropped after that.",
    }
    expect(outcome == "weights", messages.get(outcome, messages["something else"]))


def first_of(answer):
    output = answer[0] if isinstance(answer, tuple | list) and answer else answer
    return expect_tensor(output, what="the output")


def what_is_dropped(output, case):
    """With a single key every weight is 1, so dropout removes a head's part or multiplies it by a fixed factor."""
    module = reference_module(case["d_model"], case["num_heads"])
    if output.shape != case["query"].shape:
        return "something else"
    parts = reference.split_heads(module.w_v(case["value"][:, :1]), case["num_heads"])  # (batch, head, 1, d_k)
    columns = module.w_o.weight.unflatten(1, (case["num_heads"], -1))  # (d_model, head, d_k)
    parts = torch.einsum("bhtd,mhd->bmh", parts, columns)  # what each head adds to the output
    seen = (output.double() - module.w_o.bias).mT  # (batch, d_model, query)
    factors = torch.linalg.lstsq(parts, seen).solution  # (batch, head, query)
    if not is_close(parts @ factors, seen):
        left = output != 0
        whole = (parts.sum(dim=-1, keepdim=True).mT + module.w_o.bias).expand_as(output) / (1 - case["dropout"])
        if left.all():
            return "something else"
        rates = output[left] / whole[left]
        if is_close(rates, rates[:1].expand_as(rates)):
            return "the output" if is_close(rates[:1], torch.ones(1)) else "the output at another rate"
        return "the output and more"
    kept = factors[factors.abs() > 1e-4]
    if not len(kept) or not is_close(kept, kept[:1].expand_as(kept)):
        return "something else"
    if is_close(kept[:1], torch.ones(1)):
        return "nothing" if len(kept) == factors.numel() else "not rescaled"
    known = {"weights": 1 / (1 - case["dropout"]), "kept instead of dropped": 1 / case["dropout"]}
    return next((name for name, factor in known.items() if abs(kept[0] - factor) < 1e-3), "at another rate")


# Most wrong answers are the reference with one method written differently. One with an `__init__` of its own calls that
# of `nn.Module`: the reference's would make the part that is to be missing.


def cut_by_reshape(x, num_heads):
    batch, time, d_model = x.shape
    return x.reshape(batch, num_heads, time, d_model // num_heads)


def cut_interleaved(x, num_heads):
    batch, time, d_model = x.shape
    return x.reshape(batch, time, d_model // num_heads, num_heads).permute(0, 3, 1, 2)


def glue_by_reshape(x):
    batch, num_heads, time, d_k = x.shape
    return x.reshape(batch, time, num_heads * d_k)


@multi_head_attention.misconception
class SplitsByReshapeAlone(MultiHeadAttention):
    """You cut out the heads with a reshape alone. First give each token its heads, then swap the time axis and the
    head axis.

    As it is, each head holds pieces of several tokens.
    """

    def project(self, query, key, value):
        q = cut_by_reshape(self.w_q(query), self.num_heads)
        k = cut_by_reshape(self.w_k(key), self.num_heads)
        v = cut_by_reshape(self.w_v(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class InterleavesTheHeads(MultiHeadAttention):
    """Your head i takes every num_heads-th feature. It should own a block of neighbours: outputs i·d_k to (i+1)·d_k
    - 1 of each projection.
    """

    def project(self, query, key, value):
        q = cut_interleaved(self.w_q(query), self.num_heads)
        k = cut_interleaved(self.w_k(key), self.num_heads)
        v = cut_interleaved(self.w_v(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class MergesWithoutTranspose(MultiHeadAttention):
    """You merge the heads with a reshape alone. The head axis has to come right before the d_k axis; then the two
    become one.

    As it is, each token of the output holds pieces of several tokens.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(glue_by_reshape(heads)), weights


@multi_head_attention.misconception
class ForgetsTheOutputProjection(MultiHeadAttention):
    """W_O exists but is never applied.

    So the heads' results stand side by side and are never mixed.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return reference.merge_heads(heads), weights


@multi_head_attention.misconception
class HasNoOutputProjection(MultiHeadAttention):
    """There is no W_O: after the merge, one more learned map mixes the heads."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return reference.merge_heads(heads), weights


@multi_head_attention.misconception
class HasNoBiases(MultiHeadAttention):
    """Your projections have no biases. Each of the four maps is a Linear with its bias here."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)


@multi_head_attention.misconception
class IgnoresNumHeads(MultiHeadAttention):
    """num_heads has no effect: this is attention with one large head."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = 1
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)


@multi_head_attention.misconception
class TakesNumHeadsForTheHeadSize(MultiHeadAttention):
    """You use num_heads as the size of a head. It is how many heads there are; each has size d_model / num_heads."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)


@multi_head_attention.misconception
class ReadsKeysAndValuesFromTheQuery(MultiHeadAttention):
    """You project keys and values from the query's input. Keys come from `key`, values from `value`.

    As it is, cross-attention never sees the other sequence.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_k(query), self.num_heads)
        v = reference.split_heads(self.w_v(query), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class ReadsValuesFromTheKey(MultiHeadAttention):
    """You project the values from the key's input. They have an input of their own: `value`."""

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_k(key), self.num_heads)
        v = reference.split_heads(self.w_v(key), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class UsesTheQueryLengthForTheKeys(MultiHeadAttention):
    """You reshape the keys and values with the query's length. In cross-attention the two lengths differ: each
    tensor has its own.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = self.w_k(key).reshape(len(query), query.shape[1], self.num_heads, q.shape[-1]).transpose(1, 2)
        v = self.w_v(value).reshape(len(query), query.shape[1], self.num_heads, q.shape[-1]).transpose(1, 2)
        return q, k, v


@multi_head_attention.misconception
class UsesTheKeyLengthForTheQuery(MultiHeadAttention):
    """You reshape the query with the key's length. In cross-attention the two lengths differ: each tensor has its
    own.
    """

    def project(self, query, key, value):
        q = (
            self.w_q(query)
            .reshape(len(query), key.shape[1], self.num_heads, self.w_q.out_features // self.num_heads)
            .transpose(1, 2)
        )
        k = reference.split_heads(self.w_k(key), self.num_heads)
        v = reference.split_heads(self.w_v(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class SharesOneProjection(MultiHeadAttention):
    """One and the same matrix makes your queries, keys and values. Each has its own: a query asks, a key is found, a
    value is read.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_q(key), self.num_heads)
        v = reference.split_heads(self.w_q(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class SharesKeyAndValueProjection(MultiHeadAttention):
    """Your values go through the key's projection. w_v has its own job: what is read need not be what is searched."""

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_k(key), self.num_heads)
        v = reference.split_heads(self.w_k(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class ScalesByTheModelSize(MultiHeadAttention):
    """You divide the scores by √d_model. Each dot product has only d_k terms, so √d_k of the head is right."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(query.shape[-1])) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ForgetsTheScale(MultiHeadAttention):
    """The scores are not divided by √d_k."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class DividesByTheHeadSize(MultiHeadAttention):
    """You divide the scores by d_k. Divide by its square root."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / d_k) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class IgnoresTheMask(MultiHeadAttention):
    """The mask has no effect: it is never used, or what masked_fill returns is thrown away.

    So every key is visible.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return scores.softmax(dim=-1)


@multi_head_attention.misconception
class InvertsTheMask(MultiHeadAttention):
    """You hide exactly the keys that are allowed. True means: attention is allowed here."""

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return masked_softmax(scores, ~mask)


@multi_head_attention.misconception
class MasksAfterTheSoftmax(MultiHeadAttention):
    """You multiply by the mask after the softmax. Hide the scores before it.

    As it is, the weights that are left no longer sum to 1.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return scores.softmax(dim=-1) * mask


@multi_head_attention.misconception
class FillsWithZero(MultiHeadAttention):
    """You set hidden scores to 0, or to a tiny number. A hidden score has to be very negative: exp(0) = 1 is not a
    small weight.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return (scores * mask).softmax(dim=-1)


@multi_head_attention.misconception
class ForgetsTheHeadAxisOfTheMask(MultiHeadAttention):
    """Your mask meets the scores (batch, head, query, key) without an axis for the heads at place 1.

    So the batch axis of a (batch, query, key) mask lands on the heads.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = mask
        return masked_softmax(scores, mask)


@multi_head_attention.misconception
class TakesEveryMaskForABatch(MultiHeadAttention):
    """You insert the head axis into every mask. Only a (batch, query, key) mask needs it; a (query, key) mask has no
    batch axis and fits as it is.

    As it is, the query axis of a (query, key) mask lands on the batch.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = mask.unsqueeze(1)
        return masked_softmax(scores, mask)


@multi_head_attention.misconception
class FillsWithoutTheHeadAxis(MultiHeadAttention):
    """Your mask meets the scores (batch, head, query, key) without an axis for the heads at place 1.

    So the batch axis of a (batch, query, key) mask lands on the heads.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = mask
        return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@multi_head_attention.misconception
class FillsAsIfEveryMaskWereABatch(MultiHeadAttention):
    """You insert the head axis into every mask. Only a (batch, query, key) mask needs it; a (query, key) mask has no
    batch axis and fits as it is.

    As it is, the query axis of a (query, key) mask lands on the batch.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = mask.unsqueeze(1)
        return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@multi_head_attention.misconception
class RepeatsTheMaskInTheWrongOrder(MultiHeadAttention):
    """You repeat the mask head by head over a tensor that is ordered sample by sample.

    So a sample gets another sample's mask.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = mask.repeat(self.num_heads, 1, 1).reshape(scores.shape) if mask.dim() == 3 else mask
        return masked_softmax(scores, mask)


@multi_head_attention.misconception
class NormalisesOverTheQueries(MultiHeadAttention):
    """Your softmax runs over the queries. Each query shares out its attention over the keys: the last axis."""

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-2)
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -1e9).softmax(dim=-2)


@multi_head_attention.misconception
class NormalisesOverTheHeads(MultiHeadAttention):
    """Your softmax runs over the heads. In each head, each query shares out its attention over the keys: the last
    axis.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=1)
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -1e9).softmax(dim=1)


@multi_head_attention.misconception
class AveragesTheWeights(MultiHeadAttention):
    """You return the mean of the heads' weights. Each head has its own map: (batch, head, query, key)."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights.mean(dim=1)


@multi_head_attention.misconception
class ReturnsTheScores(MultiHeadAttention):
    """The second result should be the weights, after the softmax; you return the raw scores."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), scores


@multi_head_attention.misconception
class ReturnsTheOutputAlone(MultiHeadAttention):
    """Only the output comes back. Return the weights too: (output, weights)."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads))


@multi_head_attention.misconception
class ReturnsTheWeightsFirst(MultiHeadAttention):
    """The two results are in the wrong order: the output comes first, the weights second."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return weights, self.w_o(reference.merge_heads(heads))


@multi_head_attention.misconception
class AddsTheInput(MultiHeadAttention):
    """You add the query's input to the output. The residual connection belongs to the layer around attention, not
    to attention itself.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return query + self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class DropsInEvaluation(MultiHeadAttention):
    """Dropout stays on in evaluation. F.dropout has to be told `training=self.training`; nn.Dropout knows by itself.

    As it is, the same input gives random answers.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = F.dropout(weights, self.dropout.p)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class NeverDrops(MultiHeadAttention):
    """Nothing is ever dropped in training: the dropout argument has no effect."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class DropsTheOutput(MultiHeadAttention):
    """You drop entries of the output. Here dropout is applied to the weights: a query misses some of its keys."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        heads = weights @ v
        return self.dropout(self.w_o(reference.merge_heads(heads))), weights


@multi_head_attention.misconception
class DropsTheScores(MultiHeadAttention):
    """What you drop comes before the softmax: scores, queries or keys. Dropout is applied to the weights, after it.

    As it is, dropout never removes a key completely.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights

    def share_out(self, scores, mask):
        scores = self.dropout(scores)
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return masked_softmax(scores, mask)


@multi_head_attention.misconception
class MultipliesByTheRoot(MultiHeadAttention):
    """You multiply the scores by √d_k. They are divided by it."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q * math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class TakesThePowerFirst(MultiHeadAttention):
    """You divide the scores by d_k / 2. Powers bind tighter than /, so d_k ** 1/2 is not the root."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / (d_k / 2)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class RoundsTheRoot(MultiHeadAttention):
    """You divide the scores by √d_k rounded down to a whole number. Use the root itself."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / int(math.sqrt(d_k))) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ScalesByTheNumberOfHeads(MultiHeadAttention):
    """You divide the scores by √num_heads. It is the size d_k of a head that counts."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(self.num_heads)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ScalesTheWeights(MultiHeadAttention):
    """You divide by √d_k after the softmax. Divide the scores, before it.

    As it is, the rows of the weights no longer sum to 1.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = q @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask) / math.sqrt(d_k)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ComparesByCosine(MultiHeadAttention):
    """The lengths of queries and keys have no influence on your scores, only their directions. Use the dot product,
    divided by √d_k.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class NormalisesOverTheWholeMap(MultiHeadAttention):
    """Your softmax runs over all queries and keys of a head at once. Every query has weights of its own
    that sum to 1.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.flatten(2).softmax(dim=-1).reshape(scores.shape)
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -math.inf).flatten(2).softmax(dim=-1).reshape(scores.shape)


@multi_head_attention.misconception
class AppliesTheSoftmaxTwice(MultiHeadAttention):
    """You apply the softmax twice.

    The second one makes all weights nearly equal, and hidden keys get a share again.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1).softmax(dim=-1)
        mask = with_head_axis(mask)
        return masked_softmax(scores, mask).softmax(dim=-1)


@multi_head_attention.misconception
class LeavesTheSoftmaxOut(MultiHeadAttention):
    """The softmax is missing: your weights are the scores themselves."""

    def share_out(self, scores, mask):
        if mask is None:
            return scores
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -1e9)


@multi_head_attention.misconception
class UsesASigmoid(MultiHeadAttention):
    """You use a sigmoid, which decides each weight on its own. The keys have to compete: use softmax.

    As it is, the rows of the weights do not sum to 1.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.sigmoid()
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -math.inf).sigmoid()


@multi_head_attention.misconception
class TurnsTheSign(MultiHeadAttention):
    """Your scores have the wrong sign: a key that fits must get a large weight.

    The keys that fit least get the most.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return (-scores).softmax(dim=-1)
        mask = with_head_axis(mask)
        return masked_softmax(-scores, mask)


@multi_head_attention.misconception
class PicksTheBestKey(MultiHeadAttention):
    """Each of your queries takes only its best key. In soft attention every key has a share."""

    def share_out(self, scores, mask):
        if mask is None:
            return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores)
        mask = with_head_axis(mask)
        best = scores.masked_fill(~mask, -math.inf).argmax(dim=-1)
        return F.one_hot(best, scores.shape[-1]).to(scores)


@multi_head_attention.misconception
class UsesTheLogarithms(MultiHeadAttention):
    """You use log_softmax, the logarithms of the weights. Use the weights themselves."""

    def share_out(self, scores, mask):
        if mask is None:
            return scores.log_softmax(dim=-1)
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -math.inf).log_softmax(dim=-1)


@multi_head_attention.misconception
class NeverDividesByTheSum(MultiHeadAttention):
    """Your weights are exp(score), and the rows are not divided by their sums."""

    def share_out(self, scores, mask):
        if mask is None:
            return scores.exp()
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -math.inf).exp()


@multi_head_attention.misconception
class Overflows(MultiHeadAttention):
    """You take exp of the raw scores. torch's softmax subtracts each row's maximum first, which changes nothing but
    keeps the numbers small.

    As it is, large scores become inf, and inf / inf is NaN.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        mask = with_head_axis(mask)
        scores = scores.masked_fill(~mask, -math.inf)
        return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


@multi_head_attention.misconception
class OverflowsAtHiddenKeysToo(MultiHeadAttention):
    """You take exp of the raw scores, hidden ones included, and multiply by the mask. torch's softmax subtracts each
    row's maximum first, which changes nothing but keeps the numbers small.

    As it is, large scores become inf, and inf / inf and 0 · inf are NaN.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        mask = with_head_axis(mask)
        shares = scores.exp() * mask
        return shares / shares.sum(dim=-1, keepdim=True)


@multi_head_attention.misconception
class SubtractsOneMaximumForAll(MultiHeadAttention):
    """You subtract the maximum of the whole tensor before exp. Each row has a maximum of its own.

    As it is, a row whose scores lie far below it becomes 0 / 0, which is NaN.
    """

    def share_out(self, scores, mask):
        if mask is None:
            shifted = (scores - scores.max()).exp()
            return shifted / shifted.sum(dim=-1, keepdim=True)
        mask = with_head_axis(mask)
        shifted = (scores.masked_fill(~mask, -math.inf) - scores.max()).exp()
        return shifted / shifted.sum(dim=-1, keepdim=True)


@multi_head_attention.misconception
class FillsWithTooLittle(MultiHeadAttention):
    """You fill hidden scores with -10. That is not negative enough: a hidden score has to be so negative that exp turns
    it into 0.

    As it is, hidden keys keep a little weight.
    """

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -10.0).softmax(dim=-1)


@multi_head_attention.misconception
class SumsUpTheKeys(MultiHeadAttention):
    """Your output is made of the keys. Keys are for comparing; the values are summed."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ k
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ExchangesKeysAndValues(MultiHeadAttention):
    """`key` and `value` have changed places: you compare with what should be read, and read what should be compared."""

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_k(value), self.num_heads)
        v = reference.split_heads(self.w_v(key), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class MakesTheKeysWithWq(MultiHeadAttention):
    """Your keys are made by w_q. They have a projection of their own: w_k."""

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_q(key), self.num_heads)
        v = reference.split_heads(self.w_v(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class ActivatesTheProjections(MultiHeadAttention):
    """You apply a ReLU to the projections. They are linear, with nothing after them.

    As it is, no score can be negative.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query).relu(), self.num_heads)
        k = reference.split_heads(self.w_k(key).relu(), self.num_heads)
        v = reference.split_heads(self.w_v(value).relu(), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class ProjectsTwice(MultiHeadAttention):
    """You project twice: what w_q, w_k and w_v have made goes through them again. Each input goes through its
    projection once.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(self.w_q(query)), self.num_heads)
        k = reference.split_heads(self.w_k(self.w_k(key)), self.num_heads)
        v = reference.split_heads(self.w_v(self.w_v(value)), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class ReadsTheQueryAlone(MultiHeadAttention):
    """You project keys and values from the query's input. Keys come from `key`, values from `value`.

    As it is, cross-attention never sees the other sequence.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_k(query), self.num_heads)
        v = reference.split_heads(self.w_v(query), self.num_heads)
        return q, k, v

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@multi_head_attention.misconception
class AttendsAcrossTheBatch(MultiHeadAttention):
    """You take the first axis for time. It is the batch: each sequence attends within itself, or to its own keys.

    As it is, the sequences of the batch look at each other, and the tokens of one sequence do not.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1))
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)).transpose(0, 1), weights


@multi_head_attention.misconception
class InterleavesTheResults(MultiHeadAttention):
    """You put the heads' results together feature by feature, one from each head in turn. Each head's d_k features stay
    together as one block.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(heads.permute(0, 2, 3, 1).flatten(2)), weights


@multi_head_attention.misconception
class ReturnsNoWeights(MultiHeadAttention):
    """The second result is None. The weights belong there: (output, weights)."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), None


@multi_head_attention.misconception
class CutsOffTheWeights(MultiHeadAttention):
    """The weights are cut off from the gradient (.detach(), .data).

    The numbers are right, but w_q and w_k could not learn.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights).detach()
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class CutsOffItsInputs(MultiHeadAttention):
    """The inputs are cut off from the gradient (.detach(), .data).

    The numbers are right, but nothing below this module could learn.
    """

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query.detach()), self.num_heads)
        k = reference.split_heads(self.w_k(key.detach()), self.num_heads)
        v = reference.split_heads(self.w_v(value.detach()), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class GivesEveryHeadTheFullSize(MultiHeadAttention):
    """Each of your heads has d_model features. The features are shared out: d_k = d_model / num_heads for each head."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, num_heads * d_model)
        self.w_k = nn.Linear(d_model, num_heads * d_model)
        self.w_v = nn.Linear(d_model, num_heads * d_model)
        self.w_o = nn.Linear(num_heads * d_model, d_model)
        self.dropout = nn.Dropout(dropout)


@multi_head_attention.misconception
class HasOneProjection(MultiHeadAttention):
    """There is one layer for queries, keys and values together. Each has its own: a query asks, a key is found, a
    value is read.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def project(self, query, key, value):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_q(key), self.num_heads)
        v = reference.split_heads(self.w_q(value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class KeepsItsLayersInAList(MultiHeadAttention):
    """Your layers are in a plain Python list, where a module does not find them: nn.ModuleList keeps layers that it
    knows.

    So no optimizer trains them, and .to(device) and state_dict() miss them.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.projections = [nn.Linear(d_model, d_model) for _ in range(3)]
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def project(self, query, key, value):
        q = reference.split_heads(self.projections[0](query), self.num_heads)
        k = reference.split_heads(self.projections[1](key), self.num_heads)
        v = reference.split_heads(self.projections[2](value), self.num_heads)
        return q, k, v


@multi_head_attention.misconception
class HasABiasInWoAlone(MultiHeadAttention):
    """The projections for queries, keys and values have no biases. Each of the four maps is a Linear with its bias
    here.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)


@multi_head_attention.misconception
class DropsWeightsAndOutput(MultiHeadAttention):
    """You drop entries of the output as well as weights. Here it is the weights alone; the layer around attention drops
    parts of its output.
    """

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.dropout(self.w_o(reference.merge_heads(heads))), weights


@multi_head_attention.misconception
class FixesTheDropout(MultiHeadAttention):
    """You drop with a probability of your own instead of the given one."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.1)


@multi_head_attention.misconception
class KeepsWithTheProbability(MultiHeadAttention):
    """You take dropout for the probability of keeping a weight. It is the probability of dropping one."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(1 - dropout)


@multi_head_attention.misconception
class DividesByTheModelSize(MultiHeadAttention):
    """You divide the scores by d_model. Each dot product has d_k terms, so divide by the root of that number."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / query.shape[-1]) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ScalesByTheNumberOfKeys(MultiHeadAttention):
    """You divide the scores by the root of the number of keys. It is the size d_k of a head that counts."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(k.shape[-2])) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class ScalesByTheNumberOfQueries(MultiHeadAttention):
    """You divide the scores by the root of the number of queries. It is the size d_k of a head that counts."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(q.shape[-2])) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        weights = self.dropout(weights)
        heads = weights @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.misconception
class AddsTheMask(MultiHeadAttention):
    """You add the mask to the scores, True as 1 and False as 0. A hidden score has to become very negative."""

    def share_out(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = with_head_axis(mask)
        return (scores + mask).softmax(dim=-1)


@multi_head_attention.misconception
class HasNoBiasInWo(MultiHeadAttention):
    """W_O has no bias. Each of the four maps is a Linear with its bias here."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        nn.Module.__init__(self)
        size_of_a_head(d_model, num_heads)
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)


@multi_head_attention.misconception
class DropsBehindTheWeightsInEvaluation(MultiHeadAttention):
    """Dropout stays on in evaluation. F.dropout has to be told `training=self.training`; nn.Dropout knows by itself.

    The weights that you return are whole, but those that make the output are not."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        d_k = q.shape[-1]
        scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)
        weights = self.share_out(scores, mask)
        heads = F.dropout(weights, self.dropout.p) @ v
        return self.w_o(reference.merge_heads(heads)), weights


@multi_head_attention.alternative
class InOneMethod(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model = {d_model} cannot be shared out over {num_heads} heads.")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = reference.split_heads(self.w_q(query), self.num_heads)
        k = reference.split_heads(self.w_k(key), self.num_heads)
        v = reference.split_heads(self.w_v(value), self.num_heads)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        return self.w_o(reference.merge_heads(weights @ v)), weights


class Scaffold(nn.Module):
    """What the alternatives below have in common: attention of heads that are already split."""

    def attend(self, q, k, v, mask, dropout):
        scores = torch.matmul(q, k.transpose(2, 3)) * q.size(-1) ** -0.5
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 3 else mask[None, None]
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.dropout(torch.softmax(scores, dim=-1), dropout, training=self.training)
        return torch.matmul(weights, v), weights


@multi_head_attention.alternative
class OnePackedLinear(Scaffold):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.d_model, self.p = num_heads, d_model, dropout
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        weight, bias = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
        inputs = zip((query, key, value), weight, bias)
        q, k, v = (F.linear(x, w, b).unflatten(-1, (self.h, -1)).transpose(1, 2) for x, w, b in inputs)
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.proj(heads.transpose(1, 2).flatten(2)), weights


@multi_head_attention.alternative
class PackedHeadByHead(Scaffold):
    """All three projections of head 0 first, then those of head 1, …"""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        split = [self.c_attn(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (query, key, value)]
        q, k, v = (x.chunk(3, dim=-1)[i] for i, x in enumerate(split))
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.c_proj(heads.transpose(1, 2).flatten(2)), weights


@multi_head_attention.alternative
class PackedFeatureByFeature(Scaffold):
    """One Linear whose outputs are ordered (d_k, role, head)."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_0 = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        split = [self.to_qkv(x).unflatten(-1, (-1, 3, self.h)).permute(3, 0, 4, 1, 2) for x in (query, key, value)]
        q, k, v = (x[i] for i, x in enumerate(split))
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.w_0(heads.transpose(1, 2).flatten(2)), weights


@multi_head_attention.alternative
class QueryAndKeyValue(Scaffold):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.to_q = nn.Linear(d_model, d_model)
        self.to_kv = nn.Linear(d_model, 2 * d_model)
        self.to_out = nn.Sequential(nn.Linear(d_model, d_model))

    def forward(self, query, key, value, mask=None):
        k, v = self.to_kv(key).chunk(2, dim=-1)[0], self.to_kv(value).chunk(2, dim=-1)[1]
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (self.to_q(query), k, v))
        heads, weights = self.attend(q, k, v, mask, self.p)
        return self.to_out(heads.transpose(1, 2).flatten(2)), weights


@multi_head_attention.alternative
class OneModuleAHead(nn.Module):
    class Head(nn.Module):
        def __init__(self, d_model, d_k, dropout):
            super().__init__()
            self.value = nn.Linear(d_model, d_k)
            self.key = nn.Linear(d_model, d_k)
            self.query = nn.Linear(d_model, d_k)
            self.dropout = nn.Dropout(dropout)

        def forward(self, query, key, value, mask):
            q, k, v = self.query(query), self.key(key), self.value(value)
            scores = q @ k.mT / math.sqrt(k.shape[-1])
            if mask is not None:
                scores = scores.masked_fill(mask.logical_not(), -math.inf)
            weights = self.dropout(scores.softmax(-1))
            return weights @ v, weights

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.heads = nn.ModuleList([self.Head(d_model, d_model // num_heads, dropout) for _ in range(num_heads)])
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        results = [head(query, key, value, mask) for head in self.heads]
        output = self.proj(torch.cat([output for output, _ in results], dim=-1))
        return output, torch.stack([weights for _, weights in results], dim=1)


@multi_head_attention.alternative
class ThreeListsOfLinears(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size = d_model // num_heads
        self.output_layer = nn.Linear(d_model, d_model)
        self.Wq = nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads))
        self.Wk = nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads))
        self.Wv = nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads))
        self.drop = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        outputs, maps = [], []
        for to_q, to_k, to_v in zip(self.Wq, self.Wk, self.Wv):
            scores = torch.einsum("bqd,bkd->bqk", to_q(query), to_k(key)) / to_q.out_features**0.5
            if mask is not None:
                scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
            maps.append(self.drop(F.softmax(scores, dim=2)))
            outputs.append(torch.bmm(maps[-1], to_v(value)))
        return self.output_layer(torch.cat(outputs, dim=2)), torch.stack(maps, dim=1)


@multi_head_attention.alternative
class ListsInAList(nn.Module):
    """For each head a list with its three projections."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size = d_model // num_heads
        self.heads = nn.ModuleList(nn.ModuleList(nn.Linear(d_model, size) for _ in range(3)) for _ in range(num_heads))
        self.mix = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        outputs, maps = [], []
        for to_q, to_k, to_v in self.heads:
            scores = to_q(query) @ to_k(key).mT / math.sqrt(to_q.out_features)
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            maps.append(self.drop(scores.softmax(dim=-1)))
            outputs.append(maps[-1] @ to_v(value))
        return self.mix(torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


@multi_head_attention.alternative
class OneListForEachRole(nn.Module):
    """One list each for queries, keys and values, with one Linear per head, and the three in one list."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        size = d_model // num_heads
        self.maps = nn.ModuleList(nn.ModuleList(nn.Linear(d_model, size) for _ in range(num_heads)) for _ in range(3))
        self.out = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            torch.stack([to_head(x) for to_head in role], dim=1) for role, x in zip(self.maps, (query, key, value))
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~(mask[:, None] if mask.dim() == 3 else mask), -math.inf)
        weights = self.drop(scores.softmax(dim=-1))
        return self.out((weights @ v).transpose(1, 2).flatten(2)), weights


@multi_head_attention.alternative
class TensorsForEinsum(Scaffold):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        d_k = d_model // num_heads
        self.p = dropout
        self.w_q = nn.Parameter(torch.randn(num_heads, d_model, d_k) * 0.02)
        self.w_k = nn.Parameter(torch.randn(num_heads, d_model, d_k) * 0.02)
        self.w_v = nn.Parameter(torch.randn(num_heads, d_model, d_k) * 0.02)
        self.w_o = nn.Parameter(torch.randn(num_heads, d_k, d_model) * 0.02)
        self.b_q = nn.Parameter(torch.zeros(num_heads, 1, d_k))
        self.b_k = nn.Parameter(torch.zeros(num_heads, 1, d_k))
        self.b_v = nn.Parameter(torch.zeros(num_heads, 1, d_k))
        self.b_o = nn.Parameter(torch.zeros(d_model))

    def forward(self, query, key, value, mask=None):
        q = torch.einsum("btm,hmd->bhtd", query, self.w_q) + self.b_q
        k = torch.einsum("btm,hmd->bhtd", key, self.w_k) + self.b_k
        v = torch.einsum("btm,hmd->bhtd", value, self.w_v) + self.b_v
        heads, weights = self.attend(q, k, v, mask, self.p)
        return torch.einsum("bhtd,hdm->btm", heads, self.w_o) + self.b_o, weights


@multi_head_attention.alternative
class PlainMatrices(Scaffold):
    """Parameters used as x @ W, and one tensor for q, k and v."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.p = dropout
        self.W = nn.Parameter(torch.randn(3, d_model, num_heads, d_model // num_heads))
        self.b = nn.Parameter(torch.zeros(3, num_heads, 1, d_model // num_heads))
        self.W_out = nn.Parameter(torch.randn(d_model, d_model))
        self.b_out = nn.Parameter(torch.zeros(1, 1, d_model))

    def forward(self, query, key, value, mask=None):
        inputs = zip((query, key, value), self.W, self.b)
        q, k, v = (torch.einsum("btm,mhd->bhtd", x, w) + b for x, w, b in inputs)
        heads, weights = self.attend(q, k, v, mask, self.p)
        return heads.transpose(1, 2).flatten(2) @ self.W_out + self.b_out, weights


@multi_head_attention.alternative
class WithTheFusedOperator(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.p = num_heads, dropout
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        split = [
            f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f, x in zip(self.linears, (query, key, value))
        ]
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        p = self.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(*split, attn_mask=mask, dropout_p=p)
        scores = split[0] @ split[1].mT / split[0].shape[-1] ** 0.5
        weights = scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.linears[-1](heads.transpose(1, 2).flatten(2)), weights


@multi_head_attention.alternative
class AroundTorchsOwn(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.heads = num_heads
        self.attention = nn.MultiheadAttention(d_model, num_heads, dropout, batch_first=True)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = ~mask  # there, True hides
            if mask.dim() == 3:
                mask = mask.repeat_interleave(self.heads, dim=0)
        return self.attention(query, key, value, attn_mask=mask, average_attn_weights=False)


@multi_head_attention.alternative
class FoldedIntoTheBatch(nn.Module):
    def __init__(self, k, heads, dropout=0.0):
        super().__init__()
        self.k, self.heads = k, heads
        self.tokeys = nn.Linear(k, k)
        self.toqueries = nn.Linear(k, k)
        self.tovalues = nn.Linear(k, k)
        self.unifyheads = nn.Linear(k, k)
        self.drop = nn.Dropout(dropout)

    def fold(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, -1).transpose(1, 2).contiguous().view(b * self.heads, t, -1)

    def forward(self, query, key, value, mask=None):
        queries = self.fold(self.toqueries(query)) / (self.k // self.heads) ** 0.25
        keys = self.fold(self.tokeys(key)) / (self.k // self.heads) ** 0.25
        dot = torch.bmm(queries, keys.transpose(1, 2))
        if mask is not None:
            dot.masked_fill_(~(mask if mask.dim() == 2 else mask.repeat_interleave(self.heads, dim=0)), -1e4)
        dot = self.drop(dot.softmax(dim=2))
        out = torch.bmm(dot, self.fold(self.tovalues(value)))
        b, t, k = query.shape
        out = out.view(b, self.heads, t, -1).transpose(1, 2).contiguous().view(b, t, k)
        return self.unifyheads(out), dot.view(b, self.heads, t, -1)
