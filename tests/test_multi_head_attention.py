"""Multi-head attention: the reference, the packings that are understood, and answers with two mistakes."""

from __future__ import annotations

import math
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import check
from course_lib import multi_head_attention as mha
from course_lib.checking.diagnosis import deed_of
from course_lib.checking.inputs import normal, random_mask
from course_lib.checking.subject import Subject
from course_lib.checking.weights import AttentionWeights, load_weights, packings, role_of
from course_lib.exercises import all_exercises
from course_lib.masks import causal_mask

# The module: its package has the exercise under the same name.
exercises = import_module("course_lib.exercises.multi_head_attention.multi_head_attention")


def mistakes_of(name):
    return {mistake.__name__: mistake for mistake in all_exercises()[name].misconceptions}


# --- the reference --------------------------------------------------------------------------------------


def test_split_cuts_each_token_into_blocks():
    x = torch.arange(12).reshape(1, 2, 6)
    assert mha.split_heads(x, 2).tolist() == [[[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]]


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_merge_undoes_split(num_heads):
    x = normal(2, 5, 12)
    assert torch.equal(mha.merge_heads(mha.split_heads(x, num_heads)), x)


def test_size_that_cannot_be_shared_out():
    with pytest.raises(ValueError, match=r"d_model = 8 .* num_heads = 3"):
        mha.split_heads(normal(1, 2, 8), 3)
    with pytest.raises(ValueError, match="num_heads = 3"):
        mha.MultiHeadAttention(8, 3)


@pytest.mark.parametrize(
    ("d_model", "num_heads", "bias", "count"),
    [(256, 4, False, 262_144), (256, 4, True, 263_168), (512, 8, True, 1_050_624), (6, 2, True, 168)],
)
def test_parameter_counts(d_model, num_heads, bias, count):
    assert mha.multi_head_parameters(d_model, num_heads, bias) == count
    torchs = nn.MultiheadAttention(d_model, num_heads, bias=bias)
    assert sum(p.numel() for p in torchs.parameters()) == count


def test_parameter_count_is_that_of_the_module():
    module = mha.MultiHeadAttention(12, 4)
    assert sum(p.numel() for p in module.parameters()) == mha.multi_head_parameters(12, 4, True)


def torchs_twin(module: mha.MultiHeadAttention) -> nn.MultiheadAttention:
    d_model = module.w_q.in_features
    twin = nn.MultiheadAttention(d_model, module.num_heads, batch_first=True, dtype=torch.float64).eval()
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([module.w_q.weight, module.w_k.weight, module.w_v.weight]))
        twin.in_proj_bias.copy_(torch.cat([module.w_q.bias, module.w_k.bias, module.w_v.bias]))
    twin.out_proj.load_state_dict(module.w_o.state_dict())
    return twin


@pytest.mark.parametrize("mask", [None, random_mask(4, 6, seed=1), random_mask(3, 4, 6, seed=2)])
def test_agrees_with_torch(mask):
    module = mha.MultiHeadAttention(10, 5).double().eval()
    query, key, value = normal(3, 4, 10, seed=3), normal(3, 6, 10, seed=4), normal(3, 6, 10, seed=5)
    hidden = None
    if mask is not None:
        hidden = ~mask.repeat_interleave(5, dim=0) if mask.dim() == 3 else ~mask
    want = torchs_twin(module)(query, key, value, attn_mask=hidden, average_attn_weights=False)
    got = module(query, key, value, mask)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("shape", [(5, 5), (2, 5, 5), (2, 1, 5, 5), (2, 3, 5, 5)])
def test_masks_of_every_shape_broadcast_over_the_heads(shape):
    module = mha.MultiHeadAttention(6, 3).double().eval()
    x = normal(2, 5, 6)
    mask = causal_mask(5).expand(shape)
    assert torch.equal(module(x, x, x, mask)[0], module(x, x, x, causal_mask(5))[0])


def test_mask_of_a_strange_shape():
    with pytest.raises(ValueError, match=r"not \(4,\)"):
        mha.with_head_axis(torch.ones(4, dtype=torch.bool))


def test_query_that_may_see_nothing_gets_zero_weights():
    module = mha.MultiHeadAttention(6, 2).double().eval()
    x = normal(1, 3, 6)
    mask = causal_mask(3)
    mask[1] = False
    output, weights = module(x, x, x, mask)
    assert not weights[:, :, 1].any()
    torch.testing.assert_close(output[0, 1], module.w_o.bias)


def test_head_zero_depends_on_every_input_feature():
    module = mha.MultiHeadAttention(16, 4).double()
    x = normal(1, 3, 16).requires_grad_()
    mha.split_heads(module.w_q(x), 4)[0, 0, 0].sum().backward()
    assert (x.grad[0, 0] != 0).all() and not x.grad[0, 1:].any()


def test_attention_without_positions_does_not_know_the_order():
    module = mha.MultiHeadAttention(12, 3).double().eval()
    x = normal(2, 5, 12)
    order = torch.tensor([3, 0, 4, 1, 2])
    permuted = x[:, order]
    torch.testing.assert_close(module(permuted, permuted, permuted)[0], module(x, x, x)[0][:, order])


def test_einsum_form_is_the_module_without_biases():
    module = mha.MultiHeadAttention(12, 4).double().eval()
    for layer in (module.w_q, module.w_k, module.w_v, module.w_o):
        nn.init.zeros_(layer.bias)
    x = normal(2, 5, 12)
    weights = [layer.weight.T for layer in (module.w_q, module.w_k, module.w_v, module.w_o)]
    torch.testing.assert_close(mha.multi_head_einsum(x, *weights, 4), module(x, x, x)[0])


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_grouped_queries_agree_with_torch(groups):
    q, k, v = normal(2, 6, 3, 4, seed=1), normal(2, groups, 5, 4, seed=2), normal(2, groups, 5, 7, seed=3)
    torch.testing.assert_close(
        mha.grouped_query_attention(q, k, v)[0], F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    )


def test_groups_that_cannot_be_shared():
    with pytest.raises(ValueError, match="6 query heads cannot share 4"):
        mha.grouped_query_attention(normal(1, 6, 2, 3), normal(1, 4, 2, 3), normal(1, 4, 2, 3))


# --- packings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("w_q.weight", "q"),
        ("W_K", "k"),
        ("Wv.weight", "v"),
        ("toqueries.weight", "q"),
        ("key_proj.weight", "k"),
        ("linear_values.weight", "v"),
        ("heads.#.query.weight", "q"),
        ("fc_out.weight", "o"),
        ("unifyheads.bias", "o"),
        ("w_concat.weight", "o"),
        ("w_ks.weight", "k"),
        ("qProjection.weight", "q"),
        ("bq", "q"),
        ("proj.weight", None),
        ("linears.#.weight", None),
        ("qkv.weight", None),
        ("in_proj_weight", None),
    ],
)
def test_names_speak_of_roles(name, role):
    assert role_of(name) == role


@pytest.mark.parametrize("layout", ["rhk", "hrk", "krh", "hkr"])
def test_every_order_of_a_packed_matrix_is_among_the_candidates(layout):
    weights = AttentionWeights.random(10, 2)
    shapes = {"qkv.weight": (30, 10), "qkv.bias": (30,), "proj.weight": (10, 10), "proj.bias": (10,)}
    wanted = weights.matrix("qkv", (layout, "m"))
    assert any(torch.equal(state["qkv.weight"], wanted) for state in packings(shapes, weights))


@pytest.mark.parametrize(
    ("shape", "index"),
    [((2, 10, 5), (1, 3, 2)), ((10, 2, 5), (3, 1, 2)), ((2, 5, 10), (1, 2, 3)), ((10, 10), (3, 7))],
)
def test_tensors_for_einsum_hold_the_same_numbers(shape, index):
    """Head 1, its feature 2, model feature 3: row 7 and column 3 of the matrix of a Linear."""
    weights = AttentionWeights.random(10, 2)
    shapes = {f"w_{role}": shape for role in "qkv"} | {"w_o": (10, 10)}
    state = packings(shapes, weights)[0]
    assert state["w_k"][index] == weights.matrices["k"][7, 3]


@pytest.mark.parametrize(
    ("num_heads", "name"), [(5, "heads.{head}.{role}"), (3, "heads.{head}.{role}"), (3, "maps.{role}.{head}")]
)
def test_lists_in_a_list_are_understood(num_heads, name):
    d_k = 4 if num_heads == 3 else 2
    weights = AttentionWeights.random(num_heads * d_k, num_heads)
    shapes = {
        name.format(head=h, role=r) + ".weight": (d_k, weights.d_model) for h in range(num_heads) for r in range(3)
    }
    shapes |= {"out.weight": (weights.d_model, weights.d_model)}
    wanted = weights.matrices["k"].unflatten(0, (num_heads, d_k))[2]  # the keys of head 2
    asked = name.format(head=2, role=1) + ".weight"
    assert any(torch.equal(state[asked], wanted) for state in packings(dict(sorted(shapes.items())), weights))


def test_shapes_that_nobody_knows_have_no_packing():
    assert packings({"strange": (7, 7)}, AttentionWeights.random(10, 2)) == []


def test_loading_finds_the_packing_and_leaves_no_trace():
    case = exercises.multi_head_attention.cases[0]
    built = Subject(exercises.PackedHeadByHead).build(10, 2, 0.4)
    asked = len(built.trace)
    output, _ = exercises.right_answer(case)
    assert load_weights(built, exercises.weights_of(case), exercises.inputs_of(case), output)
    assert [event.question for event in built.trace[asked:]] == ["number of parameters"]
    torch.testing.assert_close(built(*exercises.inputs_of(case))[0], output)


# --- wrong answers written in another way ---------------------------------------------------------------


def test_packed_answer_with_the_wrong_scale_is_named():
    class Packed(exercises.OnePackedLinear):
        def attend(self, q, k, v, mask, dropout):
            return super().attend(q / math.sqrt(self.h), k, v, mask, dropout)

    assert check("MultiHeadAttention", Packed).misconception == "ScalesByTheModelSize"


def test_heads_in_a_list_without_output_projection_are_named():
    class Listed(exercises.OneModuleAHead):
        def __init__(self, d_model, num_heads, dropout=0.0):
            super().__init__(d_model, num_heads, dropout)
            self.proj = nn.Identity()

    assert check("MultiHeadAttention", Listed).misconception == "HasNoOutputProjection"


def test_torchs_module_with_the_mask_passed_on_unchanged_is_named():
    class Unconverted(exercises.AroundTorchsOwn):
        def forward(self, query, key, value, mask=None):
            return super().forward(query, key, value, None if mask is None else ~mask)

    assert check("MultiHeadAttention", Unconverted).misconception == "InvertsTheMask"


def test_head_axis_for_every_mask_is_named():
    class EveryMask(exercises.OnePackedLinear):
        def attend(self, q, k, v, mask, dropout):
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            if mask is not None:
                scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
            weights = F.dropout(scores.softmax(dim=-1), dropout, self.training)
            return weights @ v, weights

    report = check("MultiHeadAttention", EveryMask)
    assert report.misconception is None  # there is nothing but an error
    assert deed_of(mistakes_of("MultiHeadAttention")["FillsAsIfEveryMaskWereABatch"]) in report.advice


def test_dropout_that_does_not_rescale_is_explained():
    class Blanks(nn.Dropout):
        def forward(self, x):
            return x * (torch.rand_like(x) > self.p) if self.training else x

    class Unscaled(mha.MultiHeadAttention):
        def __init__(self, d_model, num_heads, dropout=0.0):
            super().__init__(d_model, num_heads)
            self.dropout = Blanks(dropout)

    report = check("MultiHeadAttention", Unscaled)
    assert report.points == 7 and "1 - dropout" in report.checks[-1].message


def test_weights_without_gradient_are_noticed():
    class Detached(mha.MultiHeadAttention):
        def forward(self, query, key, value, mask=None):
            self.dropout.register_forward_hook(lambda module, inputs, output: output.detach())
            return super().forward(query, key, value, mask)

    report = check("MultiHeadAttention", Detached)
    assert report.points == 5 and "detached" in str(report)


def test_unknown_packing_is_explained():
    class SideBySide(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.left, self.right = nn.Linear(d_model, 1), nn.Linear(d_model, d_model - 1)

        def forward(self, x):
            return torch.cat([self.left(x), self.right(x)], dim=-1)

    class Strange(mha.MultiHeadAttention):
        def __init__(self, d_model, num_heads, dropout=0.0):
            super().__init__(d_model, num_heads, dropout)
            self.w_o = SideBySide(d_model)

    report = check("MultiHeadAttention", Strange)
    assert report.outcome == "wrong" and report.points == 2
    assert any("w_q, w_k, w_v and w_o" in c.message for c in report.checks)


def test_split_by_view_is_named():
    def split_heads(x, num_heads):
        return x.contiguous().view(x.size(0), num_heads, x.size(1), -1)

    assert check("split_heads", split_heads).misconception == "reshapes_alone"


def test_merge_by_view_is_named():
    def merge_heads(x):
        return x.permute(0, 2, 1, 3).view(x.size(0), x.size(2), -1)

    report = check("merge_heads", merge_heads)
    assert report.misconception is None  # there is nothing but an error
    assert deed_of(mistakes_of("merge_heads")["views_what_is_not_contiguous"]) in report.advice


def test_count_with_heads_of_full_size_is_named():
    def multi_head_parameters(d_model, num_heads, bias):
        return sum(
            p.numel() for _ in range(num_heads) for p in nn.MultiheadAttention(d_model, 1, bias=bias).parameters()
        )

    report = check("multi_head_parameters", multi_head_parameters)
    assert not report.passed and "too many" in str(report)


def test_groups_by_repeat_are_named():
    def grouped_query_attention(q, k, v):
        k, v = (torch.cat([x] * (q.shape[1] // x.shape[1]), dim=1) for x in (k, v))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return weights @ v, weights

    assert check("grouped_query_attention", grouped_query_attention).misconception == "tiles_the_groups"


# --- only true sentences --------------------------------------------------------------------------------


def test_full_size_heads_without_biases_are_named_truly():
    report = check("multi_head_parameters", lambda k, h, bias: 3 * h * k * k + k * k)
    assert report.misconception == "both#full_size_heads_but_one_w_o&never_counts_biases"


@pytest.mark.parametrize(
    "count", [lambda k, h, bias: 3 * h * (k // h) ** 2 + k * k, lambda k, h, bias: 3 * k * (k // h) + k * k]
)
def test_two_ways_to_one_count_get_a_sentence_that_is_true_of_both(count):
    report = check("multi_head_parameters", lambda k, h, bias: count(k, h, bias) + 4 * k * bias)
    assert report.misconception == "counts_one_head"
    assert "for all heads together: that is one head" not in str(report)


def test_a_count_of_one_head_without_w_o_is_not_said_to_count_three_whole_maps():
    report = check("multi_head_parameters", lambda k, h, bias: 3 * k * (k // h) + 3 * k * bias)
    assert report.misconception == "both#leaves_out_w_o&counts_one_head"
    assert "three maps of" not in report.diagnosis.sentence


def test_a_count_without_w_o_and_always_with_biases():
    report = check("multi_head_parameters", lambda k, h, bias: 3 * k * k + 3 * k)
    assert report.misconception == "leaves_out_w_o_and_always_counts_biases"


def test_dropout_that_stays_on_behind_the_returned_weights():
    class Answer(mha.MultiHeadAttention):
        def forward(self, query, key, value, mask=None):
            q, k, v = self.project(query, key, value)
            weights = self.share_out(q @ k.mT / q.shape[-1] ** 0.5, mask)
            return self.w_o(mha.merge_heads(F.dropout(weights, self.dropout.p) @ v)), weights

    assert check("MultiHeadAttention", Answer).misconception == "DropsBehindTheWeightsInEvaluation"


def test_a_count_for_other_arguments_says_for_which():
    message = check("multi_head_parameters", lambda k, h, bias: 7).checks[1].message
    assert "bias = True: With num_heads = 1 and bias = False instead, the result should be 144, and it is 7" in message


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("split_heads", lambda x, h: 2 * mha.split_heads(x, h)),
        ("merge_heads", lambda x: mha.merge_heads(x) + 1),
    ],
)
def test_changed_numbers_are_not_called_mixed_tokens(name, wrong):
    report = check(name, wrong)
    assert report.points == 1 and "mixed" not in str(report) and "numbers only move" in str(report)


def test_mixed_tokens_are_shown():
    message = check("merge_heads", lambda x: x.reshape(len(x), x.shape[2], -1)).checks[1].message
    assert "time step 0 should hold [0.0, 1.0, 2.0, 6.0, 7.0, 8.0]" in message
    assert "holds [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]" in message


def test_keys_and_values_from_the_query_are_named():
    """However the mask is applied: sizes that do not fit do not mean that the axis for the heads is missing."""

    class FromTheQuery(exercises.OnePackedLinear):
        def forward(self, query, key, value, mask=None):
            return super().forward(query, query, query, mask)

    report = check("MultiHeadAttention", FromTheQuery)
    assert report.misconception == "ReadsTheQueryAlone"
    assert "axis for the heads" not in str(report)


def test_layers_in_a_plain_list_are_explained():
    class Listed(exercises.OneModuleAHead):
        def __init__(self, d_model, num_heads, dropout=0.0):
            super().__init__(d_model, num_heads, dropout)
            heads = list(self.heads)
            del self.heads
            self.heads = heads

    report = check("MultiHeadAttention", Listed)
    assert report.points == 0 and "nn.ModuleList" in report.checks[0].message
    assert "dtype" not in report.checks[0].message


@pytest.mark.parametrize(("p", "words"), [(0.15, "not with the probability 0.4"), (0.6, "divided by dropout")])
def test_weights_dropped_at_another_rate_are_explained(p, words):
    class OtherRate(mha.MultiHeadAttention):
        def __init__(self, d_model, num_heads, dropout=0.0):
            super().__init__(d_model, num_heads, p)

    report = check("MultiHeadAttention", OtherRate)
    assert report.points == 7 and words in report.checks[-1].message


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_an_input_cut_off_from_the_gradient_is_noticed(name):
    class CutOff(mha.MultiHeadAttention):
        def forward(self, query, key, value, mask=None):
            inputs = {"query": query, "key": key, "value": value}
            inputs[name] = inputs[name].detach()
            return super().forward(**inputs, mask=mask)

    report = check("MultiHeadAttention", CutOff)
    assert report.points == 5 and f"the output with respect to {name}" in str(report)


def test_a_hidden_score_of_minus_1000_is_not_hidden_enough():
    class Filled(exercises.OnePackedLinear):
        def attend(self, q, k, v, mask, dropout):
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            if mask is not None:
                scores = scores.masked_fill(~(mask[:, None] if mask.dim() == 3 else mask), -1000.0)
            weights = F.dropout(scores.softmax(dim=-1), dropout, self.training)
            return weights @ v, weights

    report = check("MultiHeadAttention", Filled)
    assert report.points == 2 and "A key that the mask hides still gets weight" in str(report)


def test_with_wrong_scores_nobody_is_sent_to_the_groups():
    def grouped_query_attention(q, k, v):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        weights = (q @ k.mT / 8).softmax(-1)
        return weights @ v, weights

    report = check("grouped_query_attention", grouped_query_attention)
    assert report.points == 1 and "tensor of weights" in str(report) and "group 1" not in str(report)


def test_a_wrong_group_is_named_in_numbers():
    def grouped_query_attention(q, k, v):
        sharing = q.shape[1] // k.shape[1]
        groups = [(h // sharing + (h == 1)) % k.shape[1] for h in range(q.shape[1])]
        return mha.grouped_query_attention(q, k[:, groups], v[:, groups])

    message = check("grouped_query_attention", grouped_query_attention).checks[1].message
    assert "head 1 should look at the keys of group 0, but its weights are those over group 1" in message


def test_where_to_look_when_the_einsum_is_wrong():
    def cut_wrongly(x, w_q, w_k, w_v, w_o, num_heads):
        return mha.multi_head_einsum(x, w_q.flip(1) if num_heads > 1 else w_q, w_k, w_v, w_o, num_heads)

    def scaled_wrongly(x, w_q, w_k, w_v, w_o, num_heads):
        return mha.multi_head_einsum(x, w_q / 3, w_k, w_v, w_o, num_heads)

    assert "With num_heads = 1 your result is right" in str(check("multi_head_einsum", cut_wrongly))
    assert "With num_heads = 1 it is wrong too" in str(check("multi_head_einsum", scaled_wrongly))


# --- two mistakes ---------------------------------------------------------------------------------------


def test_wrong_scale_and_no_output_projection():
    class Two(nn.Module):
        def __init__(self, d_model, num_heads, dropout=0.0):
            super().__init__()
            self.h, self.d = num_heads, d_model
            self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
            self.drop = nn.Dropout(dropout)

        def forward(self, query, key, value, mask=None):
            b = query.size(0)
            q = self.w_q(query).view(b, -1, self.h, self.d // self.h).transpose(1, 2)
            k = self.w_k(key).view(b, -1, self.h, self.d // self.h).transpose(1, 2)
            v = self.w_v(value).view(b, -1, self.h, self.d // self.h).transpose(1, 2)
            scores = q @ k.mT / self.d**0.5
            if mask is not None:
                scores = scores.masked_fill(~(mask[:, None] if mask.dim() == 3 else mask), -1e9)
            weights = self.drop(scores.softmax(-1))
            return (weights @ v).transpose(1, 2).flatten(2), weights

    found = check("MultiHeadAttention", Two).misconception
    assert set(found.split(" + ")) == {"ForgetsTheOutputProjection", "ScalesByTheModelSize"}


def test_values_from_the_key_and_no_dropout():
    class Two(exercises.WithTheFusedOperator):
        def forward(self, query, key, value, mask=None):
            self.p = 0.0
            return super().forward(query, key, key, mask)

    found = check("MultiHeadAttention", Two).misconception
    assert set(found.split(" + ")) == {"ReadsValuesFromTheKey", "NeverDrops"}


def test_inverted_mask_and_lost_scale():
    class Two(exercises.OnePackedLinear):
        def attend(self, q, k, v, mask, dropout):
            return super().attend(q * q.size(-1) ** 0.5, k, v, None if mask is None else ~mask, dropout)

    found = check("MultiHeadAttention", Two).misconception
    assert set(found.split(" + ")) == {"InvertsTheMask", "ForgetsTheScale"}


def test_transposed_matrices_and_lost_scale():
    def multi_head_einsum(x, w_q, w_k, w_v, w_o, num_heads):
        q, k, v = (mha.split_heads(F.linear(x, w), num_heads) for w in (w_q, w_k, w_v))
        return F.linear(mha.merge_heads((q @ k.mT).softmax(-1) @ v), w_o)

    found = check("multi_head_einsum", multi_head_einsum).misconception
    assert set(found.split(" + ")) == {"both#transposes_the_matrices&leaves_out_the_scale"}


def test_tiled_groups_and_softmax_over_the_queries():
    def grouped_query_attention(q, k, v):
        sharing = q.shape[1] // k.shape[1]
        scores = q @ k.repeat(1, sharing, 1, 1).mT / q.shape[-1] ** 0.5
        weights = F.softmax(scores, dim=2)
        return weights @ v.repeat(1, sharing, 1, 1), weights

    found = check("grouped_query_attention", grouped_query_attention).misconception
    assert set(found.split(" + ")) == {"tiles_the_groups", "shares_out_over_the_queries"}


def test_no_w_o_and_no_biases_in_the_count():
    def multi_head_parameters(d_model, num_heads, bias):
        return 3 * d_model * d_model

    found = check("multi_head_parameters", multi_head_parameters).misconception
    assert set(found.split(" + ")) == {"both#leaves_out_w_o_but_not_its_bias&never_counts_biases"}


def by_exponentials(scores):
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


def einsum_by_exponentials(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (mha.split_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    return mha.merge_heads(by_exponentials(q @ k.mT / q.shape[-1] ** 0.5) @ v) @ w_o


def groups_by_exponentials(q, k, v):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    weights = by_exponentials(q @ k.mT / q.shape[-1] ** 0.5)
    return weights @ v, weights


@pytest.mark.parametrize(
    ("name", "answer"),
    [("multi_head_einsum", einsum_by_exponentials), ("grouped_query_attention", groups_by_exponentials)],
)
def test_overflow_costs_only_its_own_point(name, answer):
    report = check(name, answer)
    assert (report.points, report.misconception) == (report.max_points - 1, "overflows")
