"""The exercise `mask_tokens`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect_tensor, expect_tuple, sentence
from course_lib.classification import IGNORED


def marked(*rows: str) -> Tensor:
    """True wherever there is an x."""
    return torch.tensor([[place == "x" for place in row] for row in rows])


mask_tokens = Exercise(
    classification.mask_tokens,
    cases=[
        {
            "ids": torch.tensor([[1, 7, 4, 9, 5, 8, 0]]),
            "may_be_chosen": marked(".xxxxx."),
            "choice": torch.tensor([[0.03, 0.11, 0.64, 0.02, 0.2, 0.09, 0.05]]),
            "action": torch.tensor([[0.25, 0.31, 0.55, 0.83, 0.05, 0.97, 0.85]]),
            "random_ids": torch.tensor([[11, 12, 13, 14, 15, 16, 17]]),
            "mask_id": 3,
        },
        {
            "ids": torch.tensor([[6, 5, 9, 8, 2, 2], [10, 4, 6, 7, 5, 9], [4, 4, 8, 6, 10, 7]]),
            "may_be_chosen": marked("xxxx..", "xxxxxx", ".xxxxx"),
            "choice": torch.tensor(
                [
                    [0.14, 0.01, 0.33, 0.06, 0.04, 0.13],
                    [0.12, 0.88, 0.07, 0.95, 0.1, 0.51],
                    [0.08, 0.17, 0.03, 0.12, 0.02, 0.14],
                ]
            ),
            "action": torch.tensor(
                [
                    [0.6, 0.95, 0.86, 0.12, 0.5, 0.88],
                    [0.82, 0.06, 0.79, 0.84, 0.91, 0.1],
                    [0.03, 0.5, 0.87, 0.02, 0.7, 0.99],
                ]
            ),
            "random_ids": torch.tensor([[7, 9, 5, 10, 4, 6], [8, 6, 7, 5, 4, 10], [5, 8, 9, 4, 6, 6]]),
            "mask_id": 1,
        },
        {
            "ids": torch.tensor([[3, 4], [5, 6]]),
            "may_be_chosen": marked("xx", "x."),
            "choice": torch.tensor([[0.5, 0.9], [0.4, 0.05]]),
            "action": torch.tensor([[0.85, 0.2], [0.95, 0.3]]),
            "random_ids": torch.tensor([[7, 8], [9, 10]]),
            "mask_id": 0,
        },
    ],
    minutes=9,
    difficulty=2,
    hints=[
        "First three boolean tensors: which places are chosen, which of these show the mask, which show a random "
        "token. Everything else follows from them.",
        "chosen = may_be_chosen & (choice < 0.15). The brackets are needed: & binds tighter than <.",
        "torch.where(condition, a, b) takes a where the condition is True and b elsewhere, into a new tensor. One of "
        "the two may be a number.",
        "targets = torch.where(chosen, ids, -100). The inputs need two steps: the mask where chosen and action < 0.8, "
        "then random_ids where chosen and action is between 0.8 and 0.9.",
    ],
)


def answer_of(subject, case) -> tuple[Tensor, Tensor]:
    """The subject's inputs and targets: two tensors of whole numbers, each of the shape of ids."""
    inputs, targets = expect_tuple(subject(*case.values()), ("inputs", "targets"))
    shape = tuple(case["ids"].shape)
    return expect_tokens(inputs, shape, "the inputs"), expect_tokens(targets, shape, "the targets")


def expect_tokens(got, shape: tuple[int, ...], what: str) -> Tensor:
    got = expect_tensor(got, shape, what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contain NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold tokens, whole numbers, but the dtype is {got.dtype}.")
    return got


def chosen_in(case) -> Tensor:
    return case["may_be_chosen"] & (case["choice"] < 0.15)


def expect_inputs(subject, case, where: Tensor, wanted: Tensor, why: str) -> None:
    """At these places the inputs are what is wanted."""
    inputs, _ = answer_of(subject, case)
    wrong = (where & (inputs != wanted)).nonzero().tolist()
    if wrong:
        row, place = wrong[0]
        raise Failure(
            f"At place [{row}, {place}] {why}, choice = {case['choice'][row, place]:.2g} and action = "
            f"{case['action'][row, place]:.2g}. The input there should be {wanted[row, place]}, but it is "
            f"{inputs[row, place]} (mask_id is {case['mask_id']})."
        )


@mask_tokens.property("inputs and targets: two tensors of tokens, of the shape of ids", points=1)
def tokens_shape(subject, case):
    answer_of(subject, case)


@mask_tokens.property("targets are the true tokens at chosen places and -100 at all others", points=2)
def tokens_targets(subject, case):
    _, targets = answer_of(subject, case)
    chosen = chosen_in(case)
    missing = (chosen & (targets != case["ids"])).nonzero().tolist()
    if missing:
        row, place = missing[0]
        raise Failure(
            f"Place [{row}, {place}] is chosen: it may be, and choice = {case['choice'][row, place]:.2g}. Its target "
            f"should be the token {case['ids'][row, place]}, but it is {targets[row, place]}."
        )
    extra = (~chosen & (targets != IGNORED)).nonzero().tolist()
    if extra:
        row, place = extra[0]
        may = "may" if case["may_be_chosen"][row, place] else "may not"
        raise Failure(
            f"Place [{row}, {place}] is not chosen: it {may} be, and choice = {case['choice'][row, place]:.2g}. Its "
            f"target should be -100, but it is {targets[row, place]}."
        )


@mask_tokens.property("places that are not chosen show their token", points=1)
def tokens_not_chosen(subject, case):
    expect_inputs(subject, case, ~chosen_in(case), case["ids"], "(not chosen)")


@mask_tokens.property("80 % of the chosen places show the mask", points=1)
def tokens_masked(subject, case):
    where = chosen_in(case) & (case["action"] < 0.8)
    expect_inputs(subject, case, where, torch.full_like(case["ids"], case["mask_id"]), "(chosen)")


@mask_tokens.property("10 % show the random token, and 10 % their own", points=2)
def tokens_replaced(subject, case):
    chosen, action = chosen_in(case), case["action"]
    random = chosen & (action >= 0.8) & (action < 0.9)
    wanted = torch.where(random, case["random_ids"], case["ids"])
    expect_inputs(subject, case, chosen & (action >= 0.8), wanted, "(chosen)")


@mask_tokens.misconception
def asks_for_every_token(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are the true tokens everywhere. At places that were not chosen the target is -100.

    Most of the loss then comes from tokens that the model can simply copy."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = ids
    return inputs, targets


@mask_tokens.misconception
def asks_for_masked_tokens_alone(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You ask only for tokens that became the mask. All chosen places are asked for, the replaced and the unchanged
    ones too.

    The model would learn that a token that is not the mask needs no thought."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(masked, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def asks_for_changed_tokens_alone(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You ask only where the input was changed. A chosen token that stays unchanged is asked for as well.

    The model would learn that a token it is asked about is never the right one."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(masked | replaced, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def asks_for_what_it_shows(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are taken from the changed inputs. The true token is asked for, the one in `ids`.

    The model would be trained to answer with the mask."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, inputs, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def marks_ignored_places_with_0(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are 0 at places that were not chosen. -100 says that a place is left out; 0 is a token."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, 0)
    return inputs, targets


@mask_tokens.misconception
def marks_ignored_places_with_minus_1(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are -1 at places that were not chosen. The number that says that a place is left out is -100."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, -1)
    return inputs, targets


@mask_tokens.misconception
def marks_ignored_places_with_the_mask(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are mask_id at places that were not chosen. They should be -100 there: the mask is something that
    the model sees, never what it is asked for."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, mask_id)
    return inputs, targets


@mask_tokens.misconception
def asks_for_the_others(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are the wrong way round: the true tokens where a place was not chosen, and -100 where it was."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, IGNORED, ids)
    return inputs, targets


@mask_tokens.misconception
def chooses_forbidden_places(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You never look at may_be_chosen. Padding and special tokens must not be chosen."""
    chosen = choice < 0.15
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def chooses_only_forbidden_places(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You choose where may_be_chosen is False. It is True at tokens that may be chosen."""
    chosen = ~may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def chooses_85_percent(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You choose the places whose number is *above* 0.15. Those below it are chosen.

    That is 85 % of all tokens: hardly anything is left to read."""
    chosen = may_be_chosen & (choice >= 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def chooses_all_places(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You choose every place that may be chosen. Of these, only the ones whose `choice` is below 0.15 are."""
    chosen = may_be_chosen
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def masks_all_tokens_alike(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """The 80/10/10 is applied to all tokens. It is for the chosen ones; the others stay as they are."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = action < 0.8
    replaced = (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def masks_whatever_was_chosen(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Every chosen token becomes the mask. That is for 80 % of them; 10 % become random and 10 % stay.

    In use there are no masks, and a model that has only ever answered at masks has learned nothing about other
    places."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen
    replaced = chosen & False
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def replaces_the_last_20_percent(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """All chosen tokens with an action of 0.8 and more become random. From 0.9 on they stay as they are."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def keeps_the_last_20_percent(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """No token becomes random: from an action of 0.8 on yours stay as they are. Between 0.8 and 0.9 random_ids is
    shown."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def exchanges_random_and_unchanged(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Random and unchanged tokens have changed places: from 0.8 to 0.9 the random token is shown, from 0.9 on the
    token itself."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def takes_the_lowest_for_random(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You replace tokens whose action is below 0.1. Those are masked already; the random ones are between 0.8 and
    0.9.

    Only seven in ten of the chosen tokens are masked."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action < 0.1)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def overwrites_the_masks(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Every chosen token with an action below 0.9 becomes random, the ones below 0.8 too. Those are to show the
    mask."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def masks_with_both_shares(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You mask all chosen tokens with an action below 0.9. Between 0.8 and 0.9 the random token is shown."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.9)
    replaced = chosen & False
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def draws_once_for_both(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You use `choice` for both decisions. What happens to a chosen token is decided by `action`."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (choice < 0.8 * 0.15)
    replaced = chosen & (choice >= 0.8 * 0.15) & (choice < 0.9 * 0.15)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def exchanges_the_draws(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """`choice` and `action` have changed places: `choice` decides where, `action` what happens there."""
    chosen = may_be_chosen & (action < 0.15)
    masked = chosen & (choice < 0.8)
    replaced = chosen & (choice >= 0.8) & (choice < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def writes_into_ids(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """You write into `ids` itself, and take the targets from it afterwards. The caller still needs it, and the true
    tokens are gone: work on ids.clone()."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = ids
    inputs[masked] = mask_id
    inputs[replaced] = random_ids[replaced]
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def returns_targets_first(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """The two results are in the wrong order: inputs come first, targets second."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return targets, inputs


@mask_tokens.misconception
def returns_the_inputs_alone(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Only the inputs come back. The targets are needed too: (inputs, targets)."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs


@mask_tokens.misconception
def returns_the_chosen_places(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """Your targets are True and False: where to ask. They should hold what is asked for: the true tokens, and -100
    elsewhere."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = chosen
    return inputs, targets


@mask_tokens.misconception
def shows_the_ignored_number(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """The number -100 is in your inputs. It belongs in the targets; a model knows no such token."""
    chosen = may_be_chosen & (choice < 0.15)
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, IGNORED, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.misconception
def binds_and_too_tightly(ids, may_be_chosen, choice, action, random_ids, mask_id):
    """The brackets around `choice < 0.15` are missing. Python reads `a & b < c` as `(a & b) < c`."""
    chosen = may_be_chosen & choice < 0.15
    masked = chosen & (action < 0.8)
    replaced = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, random_ids, inputs)
    targets = torch.where(chosen, ids, IGNORED)
    return inputs, targets


@mask_tokens.alternative
def by_indexing(ids, may_be_chosen, choice, action, random_ids, mask_id):
    inputs, targets = ids.clone(), torch.full_like(ids, -100)
    chosen = may_be_chosen.bool() & (choice < 0.15)
    targets[chosen] = ids[chosen]
    inputs[chosen & (action < 0.9)] = random_ids[chosen & (action < 0.9)]
    inputs[chosen & (action < 0.8)] = mask_id
    return inputs, targets


@mask_tokens.alternative
def place_by_place(ids, may_be_chosen, choice, action, random_ids, mask_id):
    inputs, targets = ids.tolist(), [[-100] * ids.shape[1] for _ in ids]
    for i, row in enumerate(ids.tolist()):
        for j, token in enumerate(row):
            if may_be_chosen[i, j] and choice[i, j] <= 0.15:
                targets[i][j] = token
                if action[i, j] <= 0.8:
                    inputs[i][j] = mask_id
                elif action[i, j] <= 0.9:
                    inputs[i][j] = int(random_ids[i, j])
    return torch.tensor(inputs, dtype=torch.int32), torch.tensor(targets, dtype=torch.int32)


@mask_tokens.alternative
def by_masked_fill(ids, may_be_chosen, choice, action, random_ids, mask_id):
    left_out = ~may_be_chosen | (choice >= 0.15)
    targets = ids.masked_fill(left_out, -100)
    changed = random_ids.masked_fill(action < 0.8, mask_id)
    inputs = ids.masked_scatter(~left_out & (action < 0.9), changed[~left_out & (action < 0.9)])
    return [inputs, targets]


@mask_tokens.alternative
def by_arithmetic(ids, may_be_chosen, choice, action, random_ids, mask_id):
    chosen = (may_be_chosen * (choice < 0.15)).long()
    kind = (action < 0.8).long() + (action < 0.9).long()  # 2: mask, 1: random, 0: as it is
    shown = torch.stack([ids, random_ids, torch.full_like(ids, mask_id)])
    inputs = shown.gather(0, (chosen * kind)[None])[0]
    return inputs, chosen * ids - 100 * (1 - chosen)


@mask_tokens.alternative
def with_where_inside_where(ids, may_be_chosen, choice, action, random_ids, mask_id):
    chosen = torch.logical_and(may_be_chosen, choice.lt(0.15))
    shown = torch.where(action < 0.8, torch.tensor(mask_id), torch.where(action < 0.9, random_ids, ids))
    return torch.where(chosen, shown, ids), torch.where(chosen, ids, torch.tensor(-100))
