"""The exercise `accepts_attention`: which mistakes a test has to catch, and what people really test instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import you_are_the_grader
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises.dot_product_attention import scaled_dot_product_attention as tested

accepts_attention = WrittenTest(
    you_are_the_grader.accepts_attention,
    tested=tested,
    shown=(
        "attention_without_scale",
        "attention_divides_by_d_k",
        "attention_scaled_by_d_v",
        "attention_scales_in_place",
        "attention_normalises_over_queries",
        "attention_with_two_softmaxes",
        "attention_by_cosine",
        "attention_averages_the_keys",
        "attention_returns_scores",
        "attention_divides_by_a_whole_root",
        "attention_cuts_the_gradient",
        "attention_overflows",
    ),
    minutes=8,
    difficulty=2,
    hints=[
        "Write attention once more, as slowly and plainly as you can: for each query, the scores of all keys, their "
        "softmax, the weighted sum. Then compare both results with it, on random inputs.",
        "Choose sizes that all differ: batch 2, 3 queries, 5 keys, d_k = 6, d_v = 7. Compare shapes first, then "
        "torch.allclose with atol=1e-4: right answers add in another order.",
        "One more comparison with inputs 40 times as large finds overflow. Keep copies of q, k and v, and see whether "
        "they are unchanged after the call.",
        "The last mistakes give right outputs and wrong gradients. With q, k and v that require gradients, compare "
        "torch.autograd.grad(output.square().sum(), (q, k, v)) with that of your slow program.",
    ],
)


@accepts_attention.misconception
def accepts_everything(attention):
    """Your test accepts whatever it is given: it has not caught a single mistake."""
    return True


@accepts_attention.misconception
def rejects_everything(attention):
    """Your test rejects whatever it is given. A right implementation has to pass."""
    return False


@accepts_attention.misconception
def looks_at_the_shapes(attention):
    """Your test catches no more than a look at the two shapes does. Wrong numbers have right shapes, too."""
    output, weights = attention(torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 7))
    return output.shape == (2, 3, 7) and weights.shape == (2, 3, 5)


@accepts_attention.misconception
def sums_the_rows(attention):
    """Your test catches no more than this: that each row of the weights sums to 1. So do many wrong weights."""
    torch.manual_seed(0)
    _, weights = attention(torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 7))
    return torch.allclose(weights.sum(-1), torch.ones(2, 3), atol=1e-4)


@accepts_attention.misconception
def wants_the_last_digit(attention):
    """Your test wants every number to be exactly equal. Right programs add in another order and differ in the last
    digits: allow a small difference."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 7)
    output, weights = attention(q, k, v)
    wanted = (q @ k.mT / math.sqrt(6)).softmax(-1)
    return torch.equal(weights, wanted) and torch.equal(output, wanted @ v)


@accepts_attention.misconception
def tries_one_key(attention):
    """Your test tries one key. Then its weight is 1, whatever the scores are."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 1, 6), torch.randn(2, 1, 6), torch.randn(2, 1, 7)
    output, weights = attention(q, k, v)
    return torch.allclose(output, v) and torch.allclose(weights, torch.ones(2, 1, 1))


@accepts_attention.misconception
def compares_the_results_alone(attention):
    """Your test compares the results for ordinary numbers, and no more. It misses wrong gradients, changed inputs and
    overflow."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 7)
    wanted = (q @ k.mT / math.sqrt(6)).softmax(-1)
    right = wanted @ v
    output, weights = attention(q, k, v)
    if output.shape != right.shape or weights.shape != wanted.shape:
        return False
    return torch.allclose(weights, wanted, atol=1e-4) and torch.allclose(output, right, atol=1e-4)


@accepts_attention.alternative
def by_torchs_own(attention):
    torch.manual_seed(1)
    for scale in (1, 50):
        q, k, v = (
            (scale * torch.randn(*shape)).requires_grad_() for shape in ((3, 2, 4, 6), (3, 2, 5, 6), (3, 2, 5, 7))
        )
        kept = [x.detach().clone() for x in (q, k, v)]
        got = attention(q, k, v)
        assert len(got) == 2
        assert all(torch.equal(x, before) for x, before in zip((q, k, v), kept))
        wanted = (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, k, torch.eye(5).expand(3, 2, 5, 5)),
        )
        for mine, theirs in zip(got, wanted):
            assert mine.shape == theirs.shape
            assert torch.allclose(mine, theirs, rtol=1e-3, atol=1e-3)
        if scale == 1:
            slopes, right = (torch.autograd.grad(out.sin().sum(), (q, k, v)) for out in (got[0], wanted[0]))
            assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(slopes, right))
    return True


@accepts_attention.alternative
def by_einsum_in_double_precision(attention):
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(*s, generator=generator).double() for s in ((2, 4, 3), (2, 7, 3), (2, 7, 5)))

    def formula(q, k, v):
        scores = torch.einsum("bqd,bkd->bqk", q, k) / 3**0.5
        weights = scores.softmax(-1)
        return torch.einsum("bqk,bkd->bqd", weights, v), weights

    for factor in (1.0, 100.0):
        inputs = [(factor * x).requires_grad_() for x in (q, k, v)]
        copies = [x.detach().clone().requires_grad_() for x in inputs]
        output, weights = attention(*inputs)
        right, right_weights = formula(*copies)
        if output.shape != right.shape or weights.shape != right_weights.shape:
            return False
        near = {"rtol": 1e-3, "atol": 1e-3}
        if not torch.allclose(output, right, **near) or not torch.allclose(weights, right_weights, **near):
            return False
        (output**2).sum().backward()
        (right**2).sum().backward()
        if factor == 1 and any(not torch.allclose(x.grad, y.grad, **near) for x, y in zip(inputs, copies)):
            return False
        if any(not torch.equal(x, y) for x, y in zip(inputs, copies)):
            return False
    flat, _ = attention(q[0], k[0], v[0])
    return torch.allclose(flat, formula(q[:1], k[:1], v[:1])[0][0], atol=1e-4)


@accepts_attention.alternative
def by_numbers_in_lists(attention):
    torch.manual_seed(5)
    for scale in (1.0, 60.0):
        q, k, v = (scale * torch.randn(*shape) for shape in ((2, 3, 5), (2, 4, 5), (2, 4, 6)))
        for x in (q, k, v):
            x.requires_grad_()
        before = [x.tolist() for x in (q, k, v)]
        output, weights = attention(q, k, v)
        if [x.tolist() for x in (q, k, v)] != before:
            return False
        if tuple(output.shape) != (2, 3, 6) or tuple(weights.shape) != (2, 3, 4):
            return False
        total = 0.0
        for b in range(2):
            for i in range(3):
                scores = [sum(q[b, i, d] * k[b, j, d] for d in range(5)) / math.sqrt(5) for j in range(4)]
                shares = torch.stack(scores).softmax(0)
                if not (weights[b, i] - shares).abs().max() <= 1e-3:  # NaN is neither larger nor smaller
                    return False
                wanted = sum(shares[j] * v[b, j] for j in range(4))
                total = total + (wanted**3).sum()
                if not (output[b, i] - wanted).abs().max() <= 1e-3 * scale:
                    return False
        if scale == 1:
            slopes = torch.autograd.grad((output**3).sum(), (q, k, v))
            right = torch.autograd.grad(total, (q, k, v))
            if not all((a - b).abs().max() <= 1e-2 for a, b in zip(slopes, right)):
                return False
    alone, _ = attention(q[0], k[0], v[0])
    return torch.allclose(alone, output[0], rtol=1e-3, atol=1e-3)
