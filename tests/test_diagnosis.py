"""Which mistake is it: variants, pairs, errors, and the index that finds them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benchmarks.mutation import advice, judged
from course_lib.checking.diagnosis import same_values
from course_lib.checking.errors import in_plain_words
from course_lib.checking.grading import grade
from course_lib.checking.index import make_entry, out_of_date, shipped
from course_lib.checking.mutation import findings, text_of
from course_lib.checking.signature import matching, number_of
from course_lib.checking.subject import Subject
from course_lib.checking.variants import variants_of
from course_lib.exercises import exercises_to_build

EXERCISES = exercises_to_build()  # a small change of a good test may be a good test
MOST_VARIANTS = 30  # of one exercise in this test; `python -m benchmarks mutation` takes all


def report_on(name, answer):
    return grade(EXERCISES[name], Subject(answer))


# --- variants -------------------------------------------------------------------------------------------------------


def test_an_unlisted_slip_is_described():
    def another_power(step, d_model, warmup):
        return d_model**-0.5 * min(step**-0.5, step * warmup**-0.75)

    report = report_on("warmup_rate", another_power)
    words = "exactly what comes out if the number -0.75 takes the place of another number where `rising` is computed"
    assert words in report.diagnosis.sentence


def test_a_variant_never_shows_the_line_to_write():
    for exercise in EXERCISES.values():
        lines = {line.strip() for line in text_of(exercise.reference, exercise.reference)}
        for variant in variants_of(exercise.reference)[::7]:
            assert not any(line in variant.sentence for line in lines if len(line) > 12), variant.sentence


# --- proof by mutation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in EXERCISES])
def test_variants_are_rejected_and_named_only_at_their_own_place(name):
    found = findings(EXERCISES[name], MOST_VARIANTS)
    line = judged(name, found)
    *_, holes, false_names = line
    assert (holes, false_names) == ([], []), "\n".join(advice([line]))
    assert found.variants >= 8


# --- a name explains a wrong value ----------------------------------------------------------------------------------


def test_an_error_alone_is_not_named():
    report = report_on("merge_heads", lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1))
    assert report.outcome == "raised" and report.misconception is None
    assert report.advice.startswith("A common cause of this error:")


def test_the_right_values_of_another_precision_are_another_answer():
    exercise = EXERCISES["softmax"]
    mistake = next(m for m in exercise.misconceptions if report_on("softmax", m).misconception == m.__name__)
    assert report_on("softmax", lambda x, dim: mistake(x, dim).half()).misconception != mistake.__name__


def test_gradients_count():
    exercise = EXERCISES["scaled_dot_product_attention"]
    mistake = {m.__name__: m for m in exercise.misconceptions}["attention_with_two_softmaxes"]

    def detached(q, k, v):
        output, weights = mistake(q, k, v)
        return output.detach(), weights.detach()

    assert report_on("scaled_dot_product_attention", mistake).misconception == "attention_with_two_softmaxes"
    both = report_on("scaled_dot_product_attention", detached)
    assert both.misconception == "attention_with_two_softmaxes + attention_cuts_all_gradients"


# --- two mistakes ---------------------------------------------------------------------------------------------------


def table_from_one_with_the_halves_swapped(max_len, d_model):
    angles = torch.arange(1, max_len + 1)[:, None] * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)


def test_two_mistakes_that_show_only_together_are_described_and_nobody_is_accused():
    report = report_on("sinusoidal_encoding", table_from_one_with_the_halves_swapped)
    assert report.misconception == "both#swaps_sine_and_cosine&counts_from_one"
    assert report.diagnosis.sentence.startswith("Your result is exactly what comes out if both of these are true: (1) ")


def test_two_mistakes_are_named_if_each_explains_a_value_of_its_own():
    def unscaled_and_after_the_softmax(q, k, v, mask):
        weights = (q @ k.mT).softmax(dim=-1) * mask
        return weights @ v, weights

    report = report_on("masked_attention", unscaled_and_after_the_softmax)
    assert report.misconception == "masks_after_the_softmax + forgets_the_scale"
    assert "exactly what comes out if" not in report.diagnosis.sentence


def test_answers_are_compared_number_by_number():
    ones = torch.ones(3)
    assert same_values(ones, torch.tensor([1.0, 2.0, 1.0])).tolist() == [True, False, True]
    assert same_values((ones, {"a": 1, "b": 2}), (ones, {"a": 1, "b": 3})).tolist() == [True, True, True, True, False]
    assert same_values(ones, torch.ones(2)).tolist() == [False] * 3, "another shape is another answer throughout"
    assert same_values((ones, 1), 1).tolist() == [False] * 4
    halves = ones / 2
    assert same_values(halves, halves.double()).tolist() == [False] * 3, "so is another precision"


# --- the index ------------------------------------------------------------------------------------------------------


def test_the_index_is_up_to_date():
    assert out_of_date() == [], "run `make build`"


@pytest.mark.parametrize("name", ["causal_mask", "softmax", "RMSNorm"])
def test_the_index_says_what_the_programs_do(name):
    exercise = EXERCISES[name]
    made, stored = make_entry(exercise, exercise.cases), shipped(name)
    assert made.prop == stored.prop and made.ids == stored.ids
    assert matching(made.reference, stored.reference).all()
    assert all(matching(one, other).all() for one, other in zip(made.signatures, stored.signatures))


def test_answers_that_count_as_the_same_have_one_number():
    mask = torch.tensor([[True, False, True]])
    assert number_of(mask) == number_of(mask.float()) == number_of(mask.expand(4, 3))
    assert number_of(torch.tensor([3.0])) == pytest.approx(number_of(3))
    x = torch.randn(5, 4)
    assert number_of(x) == pytest.approx(number_of(x + 1e-6), abs=1e-5)
    assert abs(number_of(x) - number_of(x.flip(0))) > 1e-3
    assert np.isfinite(number_of(torch.tensor([[math.nan, math.inf, -math.inf, 1e30]])))


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda: torch.ones(2, 3) @ torch.ones(4, 5), "here their lengths are 3 and 4"),
        (lambda: torch.ones(2, 2, 3) @ torch.ones(2, 4, 5), "here their lengths are 3 and 4"),
        (lambda: torch.ones(2, 3) @ torch.ones(4), "here their lengths are 3 and 4"),
        (lambda: torch.ones(2, 3) + torch.ones(2, 4), "along axis 1 one has length 3 and the other 4"),
        (
            lambda: torch.stack([torch.ones(5), torch.ones(4)]),
            "entry 0 of the list has shape [5], and entry 1 has shape [4]",
        ),
        (lambda: torch.nn.Conv1d(2, 4, 3)(torch.ones(2, 11, 2)), "has 2 channels. An input of shape [2, 11, 2] has 11"),
        (lambda: torch.ones(6).view(4, 2), "A tensor with 6 numbers cannot have the shape [4, 2]"),
        (lambda: torch.ones(2, 3).T.view(6), "`reshape` does"),
        (lambda: torch.ones(2, 2) @ torch.ones(2, 2).double(), "different dtypes"),
        (lambda: torch.ones(2, 2).softmax(2), "There is no axis 2 here"),
        (lambda: torch.sqrt(4), "functions in `math`"),
        (lambda: torch.ones(3)[5], "index 5 does not exist"),
        (lambda: torch.ones(3, requires_grad=True).numpy(), "torch's own functions"),
        (lambda: torch.ones(3).sum().backward(), "cut off from the parameters"),
    ],
)
def test_common_errors_are_put_in_plain_words(action, words):
    with pytest.raises(Exception) as raised:
        action()
    assert words in in_plain_words(str(raised.value))


def test_a_forgotten_super_is_explained():
    class Forgetful(torch.nn.Module):
        def __init__(self, d_model, eps=1e-5):
            self.gain = torch.nn.Linear(d_model, d_model)

    report = report_on("LayerNorm", Forgetful)
    assert "super().__init__()" in str(report)
