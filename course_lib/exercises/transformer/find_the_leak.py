"""The exercise `find_the_leak`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch

from course_lib import transformer as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_truth_values
from course_lib.checking.inputs import AttentionModel, MixingModel, normal
from course_lib.masks import causal_mask


def mixing(outputs, inputs, features, vocab_size, seed, hidden, only_feature=(), weak=()):
    """A model in which exactly the pairs (output, input) in `hidden` do not see each other.

    Each token's vector differs from every other's in each feature, and the features of all add up to 0.
    """
    table = torch.arange(1.0, vocab_size + 1).double()[:, None] * torch.tensor(
        [1.0] * (features - 1) + [1.0 - features]
    )
    weights = normal(outputs, inputs, 1, seed=seed).sign() * (0.5 + normal(outputs, inputs, 1, seed=seed + 1).abs())
    weights = weights.expand(outputs, inputs, features).clone()
    for i, j in hidden:
        weights[i, j] = 0.0
    for i, j, feature in only_feature:
        weights[i, j] *= torch.arange(features) == feature
    for i, j in weak:
        weights[i, j] = 3e-4 * weights[i, j].sign()
    return MixingModel(table, weights)


def upper(n, *but):
    """All pairs (i, j) with j after i, except some."""
    return [(i, j) for i in range(n) for j in range(i + 1, n) if (i, j) not in but]


def mask_with(n, *leaks):
    mask = causal_mask(n)
    for i, j in leaks:
        mask[i, j] = True
    return mask


find_the_leak = Exercise(
    reference.find_the_leak,
    cases=[
        {
            "function": mixing(3, 3, 2, 5, seed=1, hidden=upper(3)),
            "ids": torch.tensor([1, 3, 2]),
            "vocab_size": 5,
        },
        {
            "function": AttentionModel(normal(7, 3, seed=4), mask_with(4, (1, 3))),
            "ids": torch.tensor([2, 6, 0, 5]),
            "vocab_size": 7,
        },
        {
            "function": mixing(
                5, 4, 3, 6, seed=7, hidden=[(0, 1), (0, 3), (2, 2), (4, 0), (4, 1)], weak=[(3, 2), (1, 0)]
            ),
            "ids": torch.tensor([0, 5, 3, 5]),
            "vocab_size": 6,
        },
        {
            "function": mixing(2, 3, 4, 2, seed=9, hidden=[(0, 2)], only_feature=[(0, 1, 3), (1, 0, 0), (1, 2, 1)]),
            "ids": torch.tensor([1, 0, 1]),
            "vocab_size": 2,
        },
    ],
    minutes=15,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Run the model twice: once with the sentence as it is, once with one token replaced. Outputs that differ "
        "depend on "
        "that token. Do this for every token.",
        "function wants a batch: ids[None] is a batch of one sentence. Take a fresh copy of ids for each token "
        "(ids.clone()), and make sure that the new token differs from the old one and is in the vocabulary.",
        "An output position has changed if any of its features has: (after != before).any(dim=-1). What is hidden has "
        "weight exactly 0, so you may compare exactly.",
        "One column for each replaced token: torch.stack(columns, dim=1) is (output, input).",
    ],
)


def truth(case):
    return find_the_leak.want(case)


def influence(subject, case):
    return expect_truth_values(subject(*case.values()), tuple(truth(case).shape), "the matrix (output, input)")


@find_the_leak.property("the result has a truth value for each output (row) and each input (column)", points=1)
def leak_shape(subject, case):
    influence(subject, case)


@find_the_leak.property("True where a token changes an output, False where it does not", points=2)
def leak_matrix(subject, case):
    expect_influences(influence(subject, case), case, except_for=truth(case) & ~is_plain(case))


@find_the_leak.property("a small change is an influence too, and so is one of a single feature", points=1)
def leak_small(subject, case):
    expect_influences(influence(subject, case), case)


def expect_influences(got, case, except_for=None):
    """The matrix is right, except for some squares that are not compared."""
    want = truth(case)
    wrong = got != want if except_for is None else (got != want) & ~except_for
    if wrong.any():
        i, j = wrong.nonzero()[0].tolist()
        if want[i, j]:
            raise Failure(f"Output {i} depends on input {j}, but your matrix has False there.")
        raise Failure(f"Output {i} does not depend on input {j}, but your matrix has True there.")


def is_plain(case):
    """(output, input) boolean: a change of the token moves every feature of the output, and by far."""
    function, ids, vocab_size = case.values()
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = (ids[j] + 1) % vocab_size
        columns.append(((function(changed[None]) - function(ids[None]))[0].abs() > 0.2).all(dim=-1))
    return torch.stack(columns, dim=1)


@find_the_leak.property("it finds the one open square in an attention's mask", points=1)
def leak_in_attention(subject, case):
    n = len(case["ids"])
    if n < 3:
        return
    for square in ((0, n - 1), (n - 2, n - 1)):
        model = AttentionModel(normal(case["vocab_size"], 3, seed=n), mask_with(n, square))
        got = expect_truth_values(subject(model, case["ids"], case["vocab_size"]), (n, n), "the matrix (output, input)")
        future = got.triu(1).nonzero().tolist()
        expect(
            future == [list(square)],
            f"Asked about the same ids, but with another model: an attention whose mask is causal except for one "
            f"square, where query {square[0]} sees key {square[1]}. Above the diagonal, your matrix is True at "
            f"{future or 'no place'}.",
        )


@find_the_leak.misconception
def transposes_the_matrix(function, ids, vocab_size):
    """Rows and columns are swapped: rows are outputs, columns are the inputs that were replaced."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=0)


@find_the_leak.misconception
def asks_for_all_features(function, ids, vocab_size):
    """You ask whether *all* features of an output have changed. One is enough: it has seen the token."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).all(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def looks_at_the_first_feature(function, ids, vocab_size):
    """You compare one feature of each output. A token may show in any of them."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before)[:, 0]
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def compares_sums(function, ids, vocab_size):
    """You compare sums over the features. Compare feature by feature.

    In a sum, changes may cancel.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after.sum(dim=-1) - before.sum(dim=-1)).abs() > 1e-9
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def lets_changes_cancel(function, ids, vocab_size):
    """You add up the differences of the features with their signs and ask whether the sum is above 0. Take absolute
    values, or ask for any.

    With signs they may cancel, or be negative.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after - before).sum(dim=-1) > 1e-9
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def sees_only_what_grows(function, ids, vocab_size):
    """You count a change only if no number shrinks. A number may shrink as well."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after > before).any(dim=-1) & (after >= before).all(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def calls_small_changes_none(function, ids, vocab_size):
    """You overlook small changes: your threshold is too coarse. What is truly hidden has weight exactly 0, and any
    change at all is a leak.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = ((after - before).abs() > 0.05).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def calls_tiny_changes_none(function, ids, vocab_size):
    """You overlook very small changes. What is truly hidden has weight exactly 0, and any change at all is a leak."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = ((after - before).abs() > 1e-3).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def compares_the_best_guesses(function, ids, vocab_size):
    """You look only at which feature of an output is the largest. An output depends on a token if any of its numbers
    changes."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = after.argmax(dim=-1) != before.argmax(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def changes_everything_from_there_on(function, ids, vocab_size):
    """You replace every token from j on. Replace one at a time.

    Otherwise you cannot tell which of them was seen.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j:] = torch.where(ids[j:] + 1 < vocab_size, ids[j:] + 1, ids[j:] - 1)
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def keeps_earlier_changes(function, ids, vocab_size):
    """Earlier replacements are still in the sentence when you try the next: start from the original each time."""
    before = function(ids[None])[0]
    columns = []
    changed = ids.clone()
    for j in range(len(ids)):
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def changes_the_callers_ids(function, ids, vocab_size):
    """`changed = ids` does not copy: you replace the token in the caller's sentence.

    So all replacements pile up.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def leaves_the_vocabulary(function, ids, vocab_size):
    """The new token may lie outside the vocabulary: the last token has no successor."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def replaces_by_token_zero(function, ids, vocab_size):
    """You replace every token by 0. The new token has to differ from the old one.

    Where the token already is 0, nothing changes and nothing is seen.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = 0
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def replaces_by_the_last_token(function, ids, vocab_size):
    """You replace every token by the last one of the vocabulary. The new token has to differ from the old one.

    Where that token already stands, nothing changes and nothing is seen.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = vocab_size - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def compares_with_the_one_before(function, ids, vocab_size):
    """You compare each result with the previous one, in which another token was replaced. Compare with the
    original.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
        before = after
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def shows_what_does_not_change(function, ids, vocab_size):
    """Your matrix is inverted: True has to mean that the output depends on the input."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after == before).all(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def shows_the_future_alone(function, ids, vocab_size):
    """You show only the future. The matrix should show every influence, that of earlier tokens too."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1).triu(1)


@find_the_leak.misconception
def forgets_the_batch_axis(function, ids, vocab_size):
    """You hand the model a sentence without a batch axis. It takes a batch, even of a single sentence: (1, time)."""
    before = function(ids)[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed)[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def swaps_instead_of_replacing(function, ids, vocab_size):
    """You swap two tokens. Replace one.

    A swap changes two places at once, or none if they are equal.
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j], changed[j - 1] = ids[j - 1], ids[j]
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def forgets_to_look_at_each_output(function, ids, vocab_size):
    """All rows of your matrix are the same. Decide for each output position whether it has changed."""
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any()
        columns.append(moved.expand(len(before)))
    return torch.stack(columns, dim=1)


@find_the_leak.misconception
def assumes_as_many_outputs_as_inputs(function, ids, vocab_size):
    """You assume that there are as many outputs as inputs. There are as many rows as the function has outputs."""
    before = function(ids[None])[0]
    result = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]
        moved = (after != before).any(dim=-1)
        result[:, j] = moved
    return result


@find_the_leak.misconception
def asks_the_same_twice(function, ids, vocab_size):
    """Your matrix is False everywhere: nothing that you compare ever differs. (Does the model get the changed
    sentence?)
    """
    before = function(ids[None])[0]
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(ids[None])[0]
        moved = (after != before).any(dim=-1)
        columns.append(moved)
    return torch.stack(columns, dim=1)


@find_the_leak.alternative
def all_in_one_batch(function, ids, vocab_size):
    n = len(ids)
    other = torch.where(ids == 0, 1, 0)
    sentences = torch.where(torch.eye(n, dtype=torch.bool), other, ids.expand(n, n))
    outputs = function(torch.cat([ids[None], sentences]))
    return ((outputs[1:] - outputs[0]).abs().amax(dim=-1) > 1e-8).T


@find_the_leak.alternative
def with_a_small_tolerance(function, ids, vocab_size):
    before = function(ids.unsqueeze(0)).squeeze(0)
    rows = []
    for i in range(before.shape[0]):
        row = []
        for j in range(ids.numel()):
            changed = ids.tolist()
            changed[j] = (changed[j] - 1) % vocab_size
            after = function(torch.tensor([changed]))[0]
            row.append(not torch.allclose(after[i], before[i], rtol=0, atol=1e-6))
        rows.append(row)
    return torch.tensor(rows)


@find_the_leak.alternative
def tries_every_token(function, ids, vocab_size):
    before = function(ids[None])
    result = torch.zeros(before.shape[1], len(ids))
    for j in range(len(ids)):
        for token in range(vocab_size):
            changed = torch.cat([ids[:j], torch.tensor([token]), ids[j + 1 :]])
            result[:, j] += (function(changed[None]) - before)[0].norm(dim=-1)
    return (result > 0).int()


@find_the_leak.alternative
def at_random(function, ids, vocab_size):
    before = function(ids[None])[0]
    step = torch.randint(1, vocab_size, ids.shape)
    different = (ids + step) % vocab_size
    columns = []
    for j in range(len(ids)):
        changed = torch.where(torch.arange(len(ids)) == j, different, ids)
        columns.append((function(changed[None])[0] - before).abs().sum(-1).ne(0))
    return torch.stack(columns).t()
