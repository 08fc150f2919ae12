"""Masks: the reference against numbers worked out by hand and against torch, and answers with known mistakes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib import check, masks

X = torch.tensor([[0.5, 0.1, 0.3], [0.7, 0.2, 0.9], [0.6, 0.4, 0.8], [0.8, 0.3, 0.5]], dtype=torch.float64)
W_K = torch.tensor([[0.5, 0.1, 0.3], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]], dtype=torch.float64)


def mistake(name, answer):
    report = check(name, answer)
    assert not report.passed
    return report.misconception


# --- the reference --------------------------------------------------------------------------------------


def test_padding_mask_by_hand():
    assert masks.padding_mask(torch.tensor([2, 4]), 4).tolist() == [[True, True, False, False], [True] * 4]


def test_padding_mask_of_an_empty_sentence_and_of_no_sentence():
    assert not masks.padding_mask(torch.tensor([0]), 3).any()
    assert masks.padding_mask(torch.tensor([], dtype=torch.long), 3).shape == (0, 3)


def test_causal_mask_first_row_sees_itself():
    assert masks.causal_mask(4).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_decoder_mask_by_hand():
    mask = masks.decoder_mask(torch.tensor([2]), 3)
    assert mask.int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]


def test_decoder_mask_never_has_an_empty_row():
    assert masks.decoder_mask(torch.arange(1, 8), 7).any(dim=-1).all()


def test_cross_mask_of_the_audio_example():
    mask = masks.cross_mask(torch.tensor([600, 800]), 8, 800)
    assert mask.shape == (2, 8, 800)
    assert mask.sum(dim=-1).unique(dim=1).flatten().tolist() == [600, 800]


def test_window_mask_is_symmetric_and_grows_to_everything():
    assert torch.equal(masks.window_mask(6, 2), masks.window_mask(6, 2).T)
    assert torch.equal(masks.window_mask(5, 0), torch.eye(5).bool())
    assert masks.window_mask(5, 4).all()


def test_masked_softmax_in_three_rows():
    scores = torch.tensor([[0.0, math.log(3.0), 7.0]] * 3)
    mask = torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()
    want = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(masks.masked_softmax(scores, mask), want)


def test_masked_softmax_accepts_zeros_and_ones():
    scores, mask = torch.randn(2, 3), torch.tensor([[1, 0, 1], [0, 1, 1]])
    want = masks.masked_softmax(scores, mask.bool())
    assert torch.equal(masks.masked_softmax(scores, mask), want)
    assert torch.equal(masks.masked_softmax(scores, mask.float()), want)


def test_gradients_are_finite_although_a_row_is_empty():
    q, k, v = (torch.randn(3, 4, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 0]]).bool()
    output, _ = masks.masked_attention(q, k, v, mask)
    output[0].sum().backward()
    assert all(t.grad.isfinite().all() for t in (q, k, v))


def test_worked_example_of_four_words():
    output, weights = masks.masked_attention(X, X @ W_K, X, masks.causal_mask(4))
    assert torch.allclose((X @ W_K)[1], torch.tensor([0.66, 0.30, 0.77]).double())
    want_weights = [[1, 0, 0, 0], [0.4105, 0.5895, 0, 0], [0.2648, 0.3710, 0.3642, 0], [0.2047, 0.2732, 0.2684, 0.2537]]
    want_output = [[0.5, 0.1, 0.3], [0.6179, 0.1590, 0.6537], [0.6106, 0.2464, 0.7047], [0.6576, 0.2586, 0.6488]]
    assert torch.allclose(weights, torch.tensor(want_weights).double(), atol=5e-5)
    assert torch.allclose(output, torch.tensor(want_output).double(), atol=5e-5)


@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 3, 5, 4)])
def test_parity_with_torch(shape):
    q, k, v = (torch.randn(shape, dtype=torch.float64) for _ in range(3))
    output, _ = masks.masked_attention(q, k, v, masks.causal_mask(5))
    assert torch.allclose(output, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    added = F.scaled_dot_product_attention(q, k, v, attn_mask=masks.additive_mask(masks.causal_mask(5)).double())
    assert torch.allclose(output, added)


def test_parity_with_torch_on_an_empty_row():
    q, k, v = (torch.randn(1, 2, 4) for _ in range(3))
    mask = torch.tensor([[1, 0], [0, 0]]).bool()
    output, weights = masks.masked_attention(q, k, v, mask)
    assert not weights[0, 1].any() and not output[0, 1].any()
    assert torch.allclose(output, F.scaled_dot_product_attention(q, k, v, attn_mask=mask).nan_to_num(), atol=1e-6)


def test_padding_cannot_be_felt():
    q, k, v = (torch.randn(2, 5, 3) for _ in range(3))
    mask = masks.padding_mask(torch.tensor([3, 5]), 5)[:, None, :]
    before, _ = masks.masked_attention(q, k, v, mask)
    k[0, 3:], v[0, 3:] = 99.0, -99.0
    after, _ = masks.masked_attention(q, k, v, mask)
    assert torch.equal(before, after)


def test_leak_map_is_the_mask():
    x = torch.randn(5, 4)
    for mask in (masks.causal_mask(5), masks.window_mask(5, 1)):
        leaks = masks.leak_map(lambda x, mask=mask: masks.masked_attention(x, x, x, mask)[0], x)
        assert torch.equal(leaks > 0, mask)


# --- wrong arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[4], [-1]])
def test_lengths_out_of_range(lengths):
    with pytest.raises(ValueError, match="between 0 and max_len = 3"):
        masks.padding_mask(torch.tensor(lengths), 3)


def test_lengths_of_a_strange_kind():
    with pytest.raises(ValueError, match="integers"):
        masks.padding_mask(torch.tensor([1.0]), 3)
    with pytest.raises(ValueError, match="integers"):
        masks.decoder_mask(torch.tensor([[1]]), 3)


def test_mask_that_does_not_fit():
    with pytest.raises(ValueError, match=r"mask\[:, None\]"):
        masks.masked_softmax(torch.randn(2, 3, 4, 4), torch.ones(2, 4, 4).bool())


def test_additive_mask_in_place_of_a_boolean_one():
    with pytest.raises(ValueError, match="additive"):
        masks.masked_softmax(torch.randn(3, 3), masks.additive_mask(masks.causal_mask(3)))


# --- answers that are wrong in two ways -----------------------------------------------------------------


def test_attention_with_d_k_and_the_mask_inverted():
    def answer(q, k, v, mask):
        weights = masks.masked_softmax(q @ k.mT / q.size(-1), mask.logical_not())
        return weights @ v, weights

    assert mistake("masked_attention", answer) == "both#inverts_the_mask&divides_by_d_k"


def test_attention_without_scale_and_with_the_results_swapped():
    def answer(q, k, v, mask):
        weights = torch.einsum("...id,...jd->...ij", q, k).masked_fill(~mask, -1e9).softmax(-1) * mask
        return weights, weights @ v

    assert mistake("masked_attention", answer) == "forgets_the_scale + returns_weights_first"


def test_attention_masked_after_the_softmax_without_scale():
    def answer(q, k, v, mask):
        weights = F.softmax(q @ k.mT, dim=-1) * mask
        return weights @ v, weights

    assert mistake("masked_attention", answer) == "masks_after_the_softmax + forgets_the_scale"


def test_softmax_over_the_queries_with_nan_left():
    def answer(scores, mask):
        return torch.softmax(torch.where(mask, scores, -math.inf), -2)

    assert mistake("masked_softmax", answer) == "empty_rows_are_nan + over_the_queries"


def test_decoder_with_the_rows_hidden_and_the_other_polarity():
    def answer(lengths, n):
        padded = torch.arange(n) >= lengths[:, None]
        return torch.ones(n, n).triu(1).bool() | padded[:, None, :] | padded[:, :, None]

    assert mistake("decoder_mask", answer) == "both#hides_queries_too&true_means_hidden"


def test_padding_that_counts_from_one_and_marks_the_padding():
    def answer(lengths, max_len):
        return torch.stack([torch.arange(1, max_len + 1) >= length for length in lengths])

    assert mistake("padding_mask", answer) == "both#marks_the_padding&hides_the_last_token"


def sentence(name, answer):
    return check(name, answer).diagnosis.sentence


def test_softmax_with_a_number_not_negative_enough_is_not_said_to_take_the_wrong_maximum():
    words = sentence("masked_softmax", lambda scores, mask: scores.masked_fill(~mask, -50.0).softmax(-1) * mask)
    assert "not negative enough" in words and "maximum" not in words and "-50" not in words


@pytest.mark.parametrize(("dim", "axis"), [(-2, "the queries"), (0, "the first axis")])
def test_softmax_along_the_wrong_axis_with_hidden_weights_set_to_0_has_one_mistake(dim, axis):
    def answer(scores, mask):
        return scores.masked_fill(~mask, -1e9).softmax(dim) * mask

    words = sentence("masked_softmax", answer)
    assert f"Your softmax runs over {axis}." in words and "And:" not in words


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores, mask: scores.masked_fill(mask, -math.inf),
        lambda scores, mask: scores.masked_fill(mask, -1e9),
        lambda scores, mask: scores + mask * -1e9,
    ],
)
def test_softmax_with_the_mask_inverted_and_nothing_done_for_empty_rows(hide):
    assert "so the allowed keys are hidden" in sentence("masked_softmax", lambda s, mask: hide(s, mask).softmax(-1))


def test_weights_of_another_softmax_returned():
    def answer(q, k, v, mask):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return masks.masked_softmax(scores, mask) @ v, scores.softmax(-1)

    assert mistake("masked_attention", answer) == "returns_the_weights_of_another_softmax"


@pytest.mark.parametrize(
    ("answer", "untrue"),
    [
        (lambda mask: mask * -100.0, ("-inf", "-100 on the hidden")),
        (lambda mask: mask.float() * -math.inf, ("hidden ones at 0", "On the allowed places that is 0")),
        (lambda mask: torch.where(mask, math.inf, 0.0), ("lower", "+inf on the hidden")),
        (lambda mask: torch.where(mask, -math.inf, 1.0), ("hidden ones at 0", "1 on the allowed")),
    ],
)
def test_an_inverted_additive_mask_is_told_nothing_that_holds_of_the_other_mistake_alone(answer, untrue):
    words = sentence("additive_mask", answer)
    assert "You take the allowed places for the hidden ones" in words and not any(text in words for text in untrue)


def test_padding_on_the_left_and_one_too_many_is_not_said_to_count_from_one():
    words = sentence("padding_mask", lambda lengths, n: torch.arange(n) >= n - lengths[:, None] - 1)
    assert "padding in front" in words and "from 1" not in words


def test_a_window_short_in_the_past_alone_is_not_said_to_leave_out_both_ends():
    words = sentence("window_mask", lambda n, radius: torch.arange(n)[:, None] - torch.arange(n) < radius)
    assert "one step short" in words and "You leave out the keys exactly" not in words


def test_cross_marks_the_padding_but_one():
    def answer(key_lengths, query_len, key_len):
        return (torch.arange(key_len) > key_lengths[:, None]).unsqueeze(1)

    assert mistake("cross_mask", answer) == "true_on_the_source_padding_but_one"


def test_decoder_that_sees_the_padding_and_only_the_future_is_not_said_to_hide_the_future():
    words = sentence("decoder_mask", lambda lengths, n: torch.ones(len(lengths), n, n).triu())
    assert "does not depend on the lengths" in words and "hide the future" not in words


# --- the same mistakes in other clothes -----------------------------------------------------------------


def test_padding_slices_from_minus_zero():
    def answer(lengths, max_len):
        rows = []
        for length in lengths.tolist():
            row = [1] * max_len
            row[-(max_len - length) :] = [0] * (max_len if length == max_len else max_len - length)
            rows.append(row)
        return torch.tensor(rows)

    assert mistake("padding_mask", answer) == "slices_from_minus_zero"


def test_causal_upper_triangle_marked():
    assert mistake("causal_mask", lambda n: torch.triu(torch.ones(n, n), 1)) == "marks_what_is_hidden"


def test_decoder_adds_truth_values():
    def answer(lengths, n):
        return masks.padding_mask(lengths, n).unsqueeze(1) + torch.tril(torch.ones(n, n, dtype=torch.bool))

    assert mistake("decoder_mask", answer) == "either_is_enough"


def test_decoder_with_the_padding_on_the_query_axis():
    def answer(lengths, n):
        return masks.padding_mask(lengths, n).unsqueeze(-1) & masks.causal_mask(n)

    assert mistake("decoder_mask", answer) == "hides_queries_too"


def test_decoder_rows_of_padded_queries_may_see_any_real_key():
    def answer(lengths, n):
        mask = masks.decoder_mask(lengths, n)
        for row, length in enumerate(lengths):
            mask[row, length:, 1:] = False
        return mask

    assert check("decoder_mask", answer).passed


def test_cross_counts_the_target():
    def answer(key_lengths, query_len, key_len):
        return masks.cross_mask(key_lengths, query_len, key_len) & masks.causal_mask(9)[:query_len, :key_len]

    assert mistake("cross_mask", answer) == "source_in_order_of_time"


def test_softmax_zeros_written_in_place():
    def answer(scores, mask):
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        weights[weights.isnan()] = 0.0
        return weights

    report = check("masked_softmax", answer)
    assert report.misconception == "writes_into_the_weights"
    assert report.points == report.max_points - 1
    assert "gradient of the result cannot be computed" in str(report)


def test_softmax_nan_to_num_after_an_additive_mask():
    def answer(scores, mask):
        return torch.nan_to_num((scores + masks.additive_mask(mask)).softmax(-1), nan=0.0)

    assert mistake("masked_softmax", answer) == "gradient_is_nan"


def test_softmax_with_bert_s_constant_leaves_an_empty_row_uniform():
    def answer(scores, mask):
        return F.softmax(torch.where(mask, scores, torch.tensor(-10000.0, dtype=scores.dtype)), dim=-1)

    assert mistake("masked_softmax", answer) == "empty_rows_are_shared_out"


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (lambda scores, mask: scores.softmax(-1), "ignores_the_mask"),
        (lambda scores, mask: (scores * mask).softmax(-1), "hidden_score_is_zero_in_empty_rows_too"),
        (lambda scores, mask: scores.masked_fill(~mask, 1e-9).softmax(-1), "hidden_score_is_zero_in_empty_rows_too"),
    ],
)
def test_softmax_that_hides_nothing_is_not_told_of_nan(answer, name):
    report = check("masked_softmax", answer)
    assert report.misconception == name and "NaN" not in str(report)


def test_softmax_that_looks_for_empty_rows_along_axis_1():
    def answer(scores, mask):
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return weights.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)

    assert mistake("masked_softmax", answer) == "looks_for_empty_rows_along_axis_1"


def test_softmax_filled_with_minus_thousand():
    def answer(scores, mask):
        return torch.where(mask.any(-1, keepdim=True), scores.masked_fill(~mask, -1000.0).softmax(-1), 0.0)

    assert mistake("masked_softmax", answer) == "hidden_score_is_minus_thousand"


@pytest.mark.parametrize("exponentials", [lambda s, m: s.exp() * m, lambda s, m: torch.where(m, s, -math.inf).exp()])
def test_softmax_without_the_maximum(exponentials):
    def answer(scores, mask):
        e = exponentials(scores, mask)
        return e / e.sum(dim=-1, keepdim=True)

    assert mistake("masked_softmax", answer) == "exponential_overflows"


def test_weights_that_ignore_the_scores_earn_their_shape_alone():
    def answer(scores, mask):
        allowed = mask.expand(scores.shape).double()
        return allowed / allowed.sum(dim=-1, keepdim=True).clamp(min=1.0)

    assert check("masked_softmax", answer).points == 1


def test_attention_with_the_fused_operator_and_the_wrong_polarity():
    def answer(q, k, v, mask):
        weights = F.scaled_dot_product_attention(q, k, torch.eye(k.shape[-2]).to(q).expand(*k.shape[:-1], -1), ~mask)
        return weights.nan_to_num() @ v, weights.nan_to_num()

    assert mistake("masked_attention", answer) == "inverts_the_mask"


@pytest.mark.parametrize(
    ("weights", "name"),
    [
        (lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1), "empty_rows_are_nan"),
        (lambda s, m: torch.where(m, s, -1e4).softmax(-1), "empty_rows_are_shared_out"),
        (lambda s, m: s.masked_fill(~m, -math.inf).exp().div(s.exp().mul(m).nansum(-1, True)), "exponential_overflows"),
        (lambda s, m: s.softmax(-1), "ignores_the_mask"),
    ],
)
def test_attention_knows_the_mistakes_of_the_softmax(weights, name):
    def answer(q, k, v, mask):
        found = weights(q @ k.mT / math.sqrt(q.shape[-1]), mask)
        return found @ v, found

    assert mistake("masked_attention", answer) == name


def test_attention_that_ignores_queries_and_keys_earns_its_shapes_alone():
    def answer(q, k, v, mask):
        weights = mask / mask.sum(dim=-1, keepdim=True).clamp(min=1)
        weights = weights.expand(*q.shape[:-1], -1).to(v.dtype)
        return weights @ v, weights

    assert check("masked_attention", answer).points == 1


def test_additive_from_one_minus_the_mask():
    assert mistake("additive_mask", lambda mask: (1 - mask.float()) * float("-inf")) == "zero_times_infinity"
    assert mistake("additive_mask", lambda mask: mask.float().masked_fill(~mask, -math.inf)) == "one_on_the_allowed"
    assert mistake("additive_mask", lambda mask: mask.int() - 1.0) == "only_minus_one"


def test_window_through_triangles():
    def answer(n, radius):
        return torch.ones(n, n).tril(radius - 1) * torch.ones(n, n).triu(1 - radius)

    assert mistake("window_mask", answer) == "stops_one_short"
    assert mistake("window_mask", lambda n, radius: torch.ones(n, n).tril(radius)) == "past_without_limit"


def test_a_wrong_mask_is_named_in_any_shape_that_broadcasts():
    def answer(key_lengths, query_len, key_len):
        return ~masks.padding_mask(key_lengths, key_len)[:, None, :]

    assert mistake("cross_mask", answer) == "true_on_the_source_padding"
    assert mistake("decoder_mask", lambda lengths, n: torch.ones(n, n).tril()) == "forgets_the_padding"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("padding_mask", lambda lengths, n: masks.padding_mask(lengths, n)[:, None, None]),
        ("causal_mask", lambda n: masks.causal_mask(n)[None, None]),
        ("decoder_mask", lambda lengths, n: masks.decoder_mask(lengths, n).unsqueeze(1)),
        ("cross_mask", lambda lengths, m, n: masks.padding_mask(lengths, n)[:, None, None, :].float()),
        ("window_mask", lambda n, radius: masks.window_mask(n, radius).unsqueeze(0)),
    ],
)
def test_a_mask_with_an_axis_too_many_would_be_refused_by_attention(name, answer):
    report = check(name, answer)
    assert report.points == 0 and "more axes than" in " ".join(str(report).split())
    assert report.misconception in ("has_an_axis_too_many", "an_axis_for_the_heads", None)


@pytest.mark.parametrize("name", ["padding_mask", "causal_mask", "decoder_mask", "cross_mask", "window_mask"])
@pytest.mark.parametrize("value", [torch.zeros_like, torch.ones_like])
def test_a_mask_that_is_the_same_everywhere_earns_its_shape_alone(name, value):
    reference = getattr(masks, name)
    assert check(name, lambda *args: value(reference(*args))).points == 1


def test_a_failing_mask_shows_a_picture():
    report = check("window_mask", lambda n, radius: torch.eye(n).bool())
    assert report.points == 1 and "yours − expected" in report.as_html()


def test_an_error_message_alone_accuses_nobody_of_two_mistakes():
    def answer(lengths, max_len):
        return torch.ones(max_len, max_len) + torch.ones(len(lengths) + 7)

    report = check("padding_mask", answer)
    assert report.outcome == "raised" and report.misconception is None
