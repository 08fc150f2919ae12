"""Sub-layers: the references, the ways to keep parameters that are understood, and answers with two mistakes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import sublayers
from course_lib.checking.grading import grade
from course_lib.checking.inputs import AffineMap, RowNorm, normal
from course_lib.checking.subject import Subject
from course_lib.exercises import sublayers as exercises
from course_lib.exercises.sublayers.masked_batch_statistics import real_positions
from course_lib.exercises.sublayers.shared import fillings, norm_numbers

# --- embeddings -----------------------------------------------------------------------------------------


def test_embedding_is_the_row_times_the_root():
    module = sublayers.TokenEmbedding(7, 4, pad_id=2)
    ids = torch.tensor([[1, 2, 6]])
    torch.testing.assert_close(module(ids), module.table.weight[ids] * 2.0)
    assert not module(ids)[0, 1].any()


def test_embedding_starts_with_entries_of_size_one():
    torch.manual_seed(0)
    for d_model in (4, 64):
        vectors = sublayers.TokenEmbedding(2000, d_model)(torch.arange(1, 2000))
        assert abs(float(vectors.detach().std()) - 1) < 0.03


def test_padding_row_never_learns():
    module = sublayers.TokenEmbedding(5, 3, pad_id=4)
    module(torch.tensor([[0, 4, 1]])).sum().backward()
    assert not module.table.weight.grad[4].any() and module.table.weight.grad[0].all()


@pytest.mark.parametrize("bad", [7, -1])
def test_id_outside_of_the_vocabulary(bad):
    with pytest.raises(IndexError, match=r"7 rows, 0 to 6.*special tokens included"):
        sublayers.TokenEmbedding(7, 4)(torch.tensor([[1, bad]]))


# --- feed-forward ---------------------------------------------------------------------------------------


def test_feed_forward_is_two_convolutions_of_width_one():
    module = sublayers.FeedForward(6, 11).double()
    x = normal(2, 5, 6)
    channels = x.transpose(1, 2)  # (batch, d_model, time)
    hidden = F.conv1d(channels, module.w_1.weight[..., None], module.w_1.bias).relu()
    torch.testing.assert_close(
        F.conv1d(hidden, module.w_2.weight[..., None], module.w_2.bias).transpose(1, 2), module(x)
    )


def test_feed_forward_keeps_positions_apart():
    module = sublayers.FeedForward(3, 8).double()
    jacobian = torch.autograd.functional.jacobian(lambda x: module(x).sum(-1), normal(4, 3))  # (4, 4, 3)
    between = jacobian.abs().sum(-1)
    assert not between[~torch.eye(4, dtype=torch.bool)].any() and between.diagonal().all()


def test_feed_forward_has_dropout_in_training_only():
    module, x = sublayers.FeedForward(6, 10, dropout=0.5), torch.randn(2, 5, 6)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_feed_forward_size_of_the_paper():
    count = sum(p.numel() for p in sublayers.FeedForward(512, 2048).parameters())
    assert count == 2 * 512 * 2048 + 2048 + 512 == 2_099_712


def test_feed_forward_may_be_narrower_than_its_input():
    assert sublayers.FeedForward(8, 2)(torch.randn(1, 3, 8)).shape == (1, 3, 8)


# --- norms ----------------------------------------------------------------------------------------------


def test_layer_norm_by_hand():
    got = sublayers.LayerNorm(4, eps=0.0)(torch.tensor([1.0, 2.0, 3.0, 6.0]))  # mean 3, variance 14/4
    torch.testing.assert_close(got, torch.tensor([-1.0690, -0.5345, 0.0, 1.6036]), atol=1e-4, rtol=0)


def test_rms_norm_by_hand():
    got = sublayers.RMSNorm(4, eps=0.0)(torch.tensor([1.0, 1.0, 3.0, 5.0]))  # mean square 36/4 = 9
    torch.testing.assert_close(got, torch.tensor([1.0, 1.0, 3.0, 5.0]) / 3)


@pytest.mark.parametrize("eps", [1e-5, 0.5])
@pytest.mark.parametrize("shape", [(6,), (2, 6), (2, 3, 4, 6)])
def test_norms_agree_with_torch(shape, eps):
    x = normal(*shape, scale=0.3)
    gain, bias = normal(6, seed=1), normal(6, seed=2)
    layer_norm, rms_norm = sublayers.LayerNorm(6, eps).double(), sublayers.RMSNorm(6, eps).double()
    with torch.no_grad():
        layer_norm.gain.copy_(gain)
        layer_norm.bias.copy_(bias)
        rms_norm.gain.copy_(gain)
    torch.testing.assert_close(layer_norm(x), F.layer_norm(x, (6,), gain, bias, eps))
    torch.testing.assert_close(rms_norm(x), F.rms_norm(x, (6,), gain, eps))


def test_norm_of_a_flat_position_is_finite():
    assert not sublayers.LayerNorm(3)(torch.full((2, 3), 7.0)).any()
    assert not sublayers.RMSNorm(3)(torch.zeros(2, 3)).any()


@pytest.mark.parametrize("norm", [sublayers.LayerNorm, sublayers.RMSNorm])
def test_norm_of_another_width(norm):
    with pytest.raises(ValueError, match="4 features, but the last axis of x has length 1"):
        norm(4)(torch.ones(2, 1))


@pytest.mark.parametrize(("d", "ratio"), [(3, 0.8165), (8, 0.9354), (512, 0.9990)])
def test_unbiased_norm_is_smaller_by_a_known_factor(d, ratio):
    x = normal(5, d).float()
    unbiased = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(unbiased, ratio * sublayers.LayerNorm(d, eps=1e-12)(x), atol=1e-3, rtol=1e-3)


# --- batch statistics -----------------------------------------------------------------------------------


def test_statistics_of_lengths_one_and_ten():
    mask = real_positions(1, 10)
    assert int(mask.sum()) == 11 and mask.numel() == 20
    x = (normal(2, 10, 3) + 3.0) * mask[..., None]
    mean, variance = sublayers.masked_batch_statistics(x, mask)
    torch.testing.assert_close(mean, x[mask].mean(0))
    torch.testing.assert_close(variance, x[mask].var(0, unbiased=False))
    torch.testing.assert_close(x.mean((0, 1)), mean * 11 / 20)  # what batch normalisation would take


def test_statistics_do_not_mind_what_is_in_the_padding():
    mask = real_positions(3, 1)
    x = normal(2, 3, 4).masked_fill(~mask[..., None], math.nan)
    mean, variance = sublayers.masked_batch_statistics(x, mask)
    torch.testing.assert_close(mean, x[mask].mean(0))
    torch.testing.assert_close(variance, x[mask].var(0, unbiased=False))


def test_statistics_without_padding_are_those_of_batch_norm():
    x = normal(3, 4, 5)
    mean, variance = sublayers.masked_batch_statistics(x, torch.ones(3, 4, dtype=torch.bool))
    want = F.batch_norm(x.mT, None, None, training=True).mT
    torch.testing.assert_close((x - mean) / torch.sqrt(variance + 1e-5), want)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.bool), "False everywhere"),
        (torch.ones(2, 1, dtype=torch.bool), r"\(2, 3\) positions.*shape \(2, 1\)"),
        (torch.ones(2, 3), "True or False.*float32"),
    ],
)
def test_masks_that_cannot_be_used(mask, message):
    with pytest.raises(ValueError, match=message):
        sublayers.masked_batch_statistics(normal(2, 3, 4), mask)


# --- residual paths -------------------------------------------------------------------------------------


def test_residual_paths():
    x, double, shift = torch.tensor([[1.0, 2.0]]), lambda x: 2 * x, lambda x: x - 1
    assert sublayers.residual_post_norm(x, double, shift).tolist() == [[2.0, 5.0]]
    assert sublayers.residual_pre_norm(x, double, shift).tolist() == [[1.0, 4.0]]


@pytest.mark.parametrize("path", [sublayers.residual_post_norm, sublayers.residual_pre_norm])
def test_sublayer_that_changes_the_shape(path):
    with pytest.raises(ValueError, match=r"keeps the shape: \(2, 3\) went in, \(2, 1\) came out"):
        path(torch.ones(2, 3), lambda x: x[:, :1], lambda x: x)


def test_pre_norm_leaves_the_path_free():
    """With sub-layers that answer 0, twenty layers pass the gradient on as it is; post-norm does not."""

    def slope(path):
        x = normal(4, seed=5).requires_grad_()
        y = x
        for _ in range(20):
            y = path(y, lambda x: 0 * x, RowNorm(torch.full((4,), 0.5).double(), torch.zeros(4).double()))
        return torch.autograd.grad(y[0], x)[0]

    assert slope(sublayers.residual_pre_norm).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert slope(sublayers.residual_post_norm).abs().max() < 0.1


def test_functions_as_plain_data():
    d = AffineMap(torch.eye(2) * 3, torch.ones(2))
    assert d(torch.tensor([1.0, 2.0])).tolist() == [4.0, 7.0]
    assert "2 features" in repr(d) and "2 features" in repr(RowNorm(torch.ones(2), torch.zeros(2)))


# --- answers --------------------------------------------------------------------------------------------


def named(exercise, answer):
    return grade(exercise, Subject(answer)).misconception


class PublicNorm(nn.Module):
    """As many public programs write it."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class RootOfStd(PublicNorm):
    def forward(self, x):
        std = x.std(-1, keepdim=True)
        return self.a_2 * ((x - x.mean(-1, keepdim=True)) / torch.sqrt(std + self.eps)) + self.b_2


class BiasInside(PublicNorm):
    def forward(self, x):
        variance, mean = torch.var_mean(x, -1, keepdim=True)
        return self.a_2 * ((x - mean) / (variance + self.eps).sqrt() + self.b_2)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (PublicNorm, "UsesStdPlusEps"),
        (RootOfStd, "UsesTheUnbiasedVariance + TakesTheRootOfTheDeviation"),
        (BiasInside, "UsesTheUnbiasedVariance + MultipliesTheBiasToo"),
    ],
)
def test_layer_norms_are_named(answer, name):
    assert named(exercises.layer_norm, answer) == name


class BareTable(nn.Module):
    def __init__(self, vocab_size, hidden_size, pad_id=0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)

    def forward(self, x):
        return self.embedding(x)


class ScaledTable(BareTable):
    def forward(self, x):
        return self.embedding(x) * math.sqrt(self.embedding.embedding_dim)


class UnprotectedZero(BareTable):
    def __init__(self, vocab_size, hidden_size, pad_id=0):
        super().__init__(vocab_size, hidden_size)
        self.embedding.weight.data *= hidden_size**-0.5
        self.embedding.weight.data[pad_id] = 0

    def forward(self, x):
        return self.embedding(x) * self.embedding.embedding_dim


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (BareTable, "OnlyLooksUp"),
        (ScaledTable, "LeavesTheTableAtOne + HasNoPadding"),
        (UnprotectedZero, "both#ScalesByDModel&LetsPaddingLearn"),
    ],
)
def test_embeddings_are_named(answer, name):
    assert named(exercises.token_embedding, answer) == name


class OtherNames(nn.Module):
    def __init__(self, d_model, d_ff, p=0.1):
        super().__init__()
        self.fc1, self.fc2, self.drop = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.fc2(F.relu(self.fc1(x)))) + x


class GeluAndResultDropped(OtherNames):
    def forward(self, x):
        return self.fc2(F.gelu(self.drop(self.fc1(x)))) + x


class WholeSublayer(OtherNames):
    def __init__(self, d_model, d_ff, p=0.1):
        super().__init__(d_model, d_ff, p)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.layer_norm(x + self.drop(self.fc2(self.fc1(x).relu())))


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (OtherNames, "AddsTheResidual"),
        (GeluAndResultDropped, "both#UsesGelu&AddsTheResidual"),
        (WholeSublayer, "IsAWholeSubLayer"),
    ],
)
def test_feed_forwards_are_named(answer, name):
    assert named(exercises.feed_forward, answer) == name


def batch_norms_own(x, mask):
    return x.mean((0, 1)), x.var((0, 1))


def masked_once(x, mask):
    kept = x * mask[..., None]
    mean = kept.sum((0, 1)) / mask.sum()
    return mean, ((kept - mean) ** 2).sum((0, 1)) / (mask.sum() - 1)


def estimated_deviation(x, mask):
    return x[mask].mean(0), x[mask].std(0)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (batch_norms_own, "both#counts_padding&uses_the_unbiased_variance"),
        (masked_once, "both#uses_the_unbiased_variance&centres_padding_too"),
        (estimated_deviation, "both#uses_the_unbiased_variance&returns_the_deviation"),
    ],
)
def test_statistics_are_named(answer, name):
    assert named(exercises.masked_batch_statistics, answer) == name


def normed_first(x, sublayer, norm):
    x = norm(x)
    return x + sublayer(x)


def test_residual_paths_are_named():
    assert named(exercises.residual_pre_norm, normed_first) == "adds_to_the_normed"
    assert named(exercises.residual_post_norm, lambda x, f, norm: x + f(norm(x))) == "computes_pre_norm"
    assert named(exercises.residual_pre_norm, lambda x, f, norm: norm(x + f(x))) == "computes_post_norm"


class LengthOfTheVector(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return self.weight * x / (x.norm(dim=-1, keepdim=True) + self.eps)


def test_rms_norm_by_length_is_named():
    assert named(exercises.rms_norm, LengthOfTheVector) == "both#RmsPlusEps&DividesByTheLength"


# --- only true sentences --------------------------------------------------------------------------------


class StartsWith(nn.Module):
    """A table that is right except for how it starts."""

    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        with torch.no_grad():
            self.start(self.table.weight, d_model)
            self.table.weight[pad_id] = 0.0

    def forward(self, ids):
        return self.table(ids) * self.table.embedding_dim**0.5


def starts_with(start):
    return type("Answer", (StartsWith,), {"start": staticmethod(start)})


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (lambda weight, d: weight.normal_(std=d), "StartsWithDModel"),
        (lambda weight, d: weight.normal_(std=d**0.5), "StartsAtTheScaleItself"),
        (lambda weight, d: nn.init.xavier_normal_(weight), "UsesXavier"),
        (lambda weight, d: weight.normal_(std=0.02), "StartsAsGptDoes"),
        (lambda weight, d: weight.normal_(std=0.37), None),
        (lambda weight, d: weight.normal_(std=3.0 * d), None),
    ],
)
def test_how_a_table_starts_is_named_truly_or_not_at_all(start, name):
    assert named(exercises.token_embedding, starts_with(start)) == name


class AlongAxisTwo(PublicNorm):
    def forward(self, x):
        variance, mean = torch.var_mean(x, 2, correction=0, keepdim=True)
        return self.a_2 * (x - mean) / (variance + self.eps).sqrt() + self.b_2


def test_axis_two_is_neither_axis_one_nor_the_time_axis():
    assert named(exercises.layer_norm, AlongAxisTwo) == "NormalisesAlongAxisTwo"


class OnePlusGain(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return (1 + self.weight) * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()


class OnePlusGainFromZero(OnePlusGain):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)
        nn.init.zeros_(self.weight)


def test_one_plus_gain():
    from_one, from_zero = (grade(exercises.rms_norm, Subject(norm)) for norm in (OnePlusGain, OnePlusGainFromZero))
    assert from_one.misconception == "AddsOneToTheFactor"
    assert from_zero.misconception == "StartsTheGainAroundZero"
    assert "answers 0 to everything" not in str(from_zero)


class NoisyInTraining(OtherNames):
    def forward(self, x):
        return self.fc2(F.alpha_dropout(F.relu(self.fc1(x)), self.drop.p, self.training))


def test_another_kind_of_dropout_is_not_taken_for_a_known_one():
    report = grade(exercises.feed_forward, Subject(NoisyInTraining))
    assert report.points == 5 and report.misconception is None
    assert "not just the hidden values" in str(report)


def test_another_rate_of_dropout_is_told_in_numbers():
    class OtherRate(sublayers.FeedForward):
        def __init__(self, d_model, d_ff, dropout=0.0):
            super().__init__(d_model, d_ff, 0.15)

    message = grade(exercises.feed_forward, Subject(OtherRate)).checks[-1].message
    assert "not with the probability 0.4." in message


# --- what was not asked before --------------------------------------------------------------------------


def in_training_only(module, exercise):
    class Dropping(module):
        def forward(self, x):
            return F.dropout(super().forward(x), 0.2, self.training)

    return grade(exercise, Subject(Dropping))


@pytest.mark.parametrize(
    ("module", "exercise"),
    [
        (sublayers.TokenEmbedding, exercises.token_embedding),
        (sublayers.LayerNorm, exercises.layer_norm),
        (sublayers.RMSNorm, exercises.rms_norm),
    ],
)
def test_dropout_where_none_belongs_is_seen(module, exercise):
    report = in_training_only(module, exercise)
    assert not report.passed and "training makes no difference" in str(report).replace("\n      ", " ")


@pytest.mark.parametrize(
    ("module", "exercise"),
    [
        (sublayers.FeedForward, exercises.feed_forward),
        (sublayers.LayerNorm, exercises.layer_norm),
        (sublayers.RMSNorm, exercises.rms_norm),
    ],
)
def test_a_parameter_without_gradient_is_seen(module, exercise):
    class Frozen(module):
        def forward(self, x):
            first = next(self.parameters())
            with torch.no_grad():
                twin = type(self).__mro__[1](*self.sizes, **self.more).to(first.dtype).train(self.training)
                twin.load_state_dict(self.state_dict())
            next(twin.parameters()).requires_grad_(False)
            return module.forward(twin, x) + 0 * super().forward(x).detach()

        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            self.sizes, self.more = sizes, more

    report = grade(exercise, Subject(Frozen))
    assert not report.passed and "its gradient does not come back to the parameters" in str(report).replace(
        "\n      ", " "
    )


def test_linears_in_a_plain_list_are_explained():
    class Listed(nn.Module):
        def __init__(self, d_model, d_ff, dropout=0.0):
            super().__init__()
            self.first, self.rest = nn.Linear(d_model, d_ff), [nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)]

        def forward(self, x):
            x = self.first(x)
            for layer in self.rest:
                x = layer(x)
            return x

    report = grade(exercises.feed_forward, Subject(Listed))
    assert report.points == 0 and "nn.ModuleList" in report.checks[0].message


# --- the check's numbers in other people's parameters -----------------------------------------------------


def test_parameters_are_found_by_name_or_by_trying():
    numbers = norm_numbers(5)
    clear = fillings({"beta": (5,), "gamma": (1, 5)}, numbers)
    assert len(clear) == 1 and torch.equal(clear[0]["gamma"], numbers["gain"][None])
    unclear = fillings({"p": (5,), "q": (5,)}, numbers)
    assert len(unclear) == 2


def test_parameters_that_fit_nothing():
    assert fillings({"gain": (4,)}, norm_numbers(5)) == []
