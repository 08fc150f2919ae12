"""The exercise `top_p_filter`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect,
)
from course_lib.exercises.decoding.shared import (
    FAR_BELOW,
    distinct,
    expect_kept_unchanged,
    expect_tokens_left,
    filtered,
)

top_p = Exercise(
    decoding.top_p_filter,
    cases=[
        {"logits": torch.tensor([[0.1, 0.45, 0.15, 0.3]]).double().log(), "p": 0.7},
        {"logits": distinct(3, 6, seed=81), "p": 0.8},
        {"logits": distinct(4, 5, seed=82, scale=2), "p": 0.3},
        {"logits": distinct(2, 3, 7, seed=83, scale=1.5), "p": 0.95},
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Sort the logits, largest first, and take the softmax. Now the sum of the probabilities so far grows from left "
        "to right, and somewhere it reaches p.",
        "A token stays if the tokens before it have less than p together. What they have is the running sum without "
        "the token itself.",
        "falling, order = logits.sort(dim=-1, descending=True). Set falling to -inf where "
        "cumsum - probabilities >= p. Then everything has to go back to its own place.",
        "torch.empty_like(logits).scatter(-1, order, falling) puts the sorted values back: it writes falling[i] at "
        "place order[i].",
    ],
)


@top_p.property("the result has the shape of the logits, and a token is left in every row", points=1)
def top_p_shape(subject, case):
    filtered(subject, *case.values())


@top_p.property("the tokens that are left have probability p or more together, and none of them could go", points=2)
def top_p_mass(subject, case):
    logits, p = case.values()
    _, left = filtered(subject, *case.values())
    probabilities = logits.softmax(dim=-1)
    mass = (probabilities * left).sum(dim=-1)
    least = probabilities.masked_fill(~left, math.inf).amin(dim=-1)
    for total, smallest in zip(mass.flatten().tolist(), least.flatten().tolist(), strict=True):
        expect(
            total >= p,
            f"p is {p}, but in one row the tokens that are left have only {total:.4g} together.",
        )
        expect(
            total - smallest < p,
            f"p is {p}. In one row the tokens that are left have {total:.4g} together, and without the least likely of "
            f"them still {total - smallest:.4g}: that one is too many.",
        )


@top_p.property("the most likely token is always left", points=1)
def top_p_best(subject, case):
    logits = case["logits"]
    _, left = filtered(subject, *case.values())
    best = logits.argmax(dim=-1, keepdim=True)
    gone = ~left.gather(-1, best)
    if gone.any():
        place = tuple(int(i) for i in gone.nonzero()[0])[:-1]
        expect(False, f"In row {list(place)} token {int(best[place])} is the most likely one, but you removed it.")


@top_p.property("exactly the fewest possible tokens are left, the most likely first", points=1)
def top_p_which(subject, case):
    logits, p = case.values()
    want = decoding.top_p_filter(logits, p).isfinite()
    for lower, asked_with in ((0.0, ""), (FAR_BELOW, f"With all logits {FAR_BELOW:g} lower: ")):
        _, left = filtered(subject, logits - lower, p)
        expect_tokens_left(left, want, logits - lower, asked_with)


@top_p.property("their logits are unchanged", points=1)
def top_p_values(subject, case):
    got, left = filtered(subject, *case.values())
    expect_kept_unchanged(got, left, case["logits"])


@top_p.misconception
def drops_the_token_that_crosses(logits, p):
    """You remove the token with which the sum crosses p. It should stay.

    The tokens that are left have less than p together, and if the very first one is above p, nothing is left at all."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1)
    falling = falling.masked_fill(before > p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def drops_it_but_saves_the_first(logits, p):
    """You remove the token with which the sum crosses p, except if it is the first. It always stays: only what comes
    after that one is too many."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1)
    before[..., 0] = 0.0
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def keeps_one_token_too_many(logits, p):
    """You keep one token too many: the sum had reached p before it."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    before = torch.cat([torch.zeros_like(before[..., :1]), before[..., :-1]], dim=-1)
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def does_not_sort(logits, p):
    """You add up the probabilities in the order of the ids. Sort first, the most likely token in front.

    A token stays because its id is small."""
    falling, order = logits, torch.arange(logits.shape[-1]).expand(logits.shape)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def compares_each_probability(logits, p):
    """You keep the tokens whose own probability is p or more. It is the sum that has to reach p: add up, the most
    likely token first."""
    probabilities = logits.softmax(dim=-1)
    return logits.masked_fill(probabilities < p, -math.inf)


@top_p.misconception
def sorts_upwards(logits, p):
    """You begin with the least likely tokens. Sort the other way: the most likely one comes first."""
    falling, order = logits.sort(dim=-1, descending=False)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def stays_sorted(logits, p):
    """Your result is still sorted. Each logit has to go back to its own token's place."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return falling


@top_p.misconception
def gathers_instead_of_scattering(logits, p):
    """You put the sorted values back with the wrong map: indexing with the order sorts once more. The order has to be
    undone."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return falling.gather(dim=-1, index=order)


@top_p.misconception
def removes_in_the_wrong_places(logits, p):
    """You decide on the sorted tokens, and remove on the unsorted ones. The mask has to go back to the tokens' own
    places first."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    return logits.masked_fill(before >= p, -math.inf)


@top_p.misconception
def adds_up_logits(logits, p):
    """You add up logits. It is probabilities that sum to 1: softmax first."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def softmax_over_the_rows(logits, p):
    """Your softmax runs over the first axis. Each row is a distribution of its own, over the vocabulary."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=0)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def each_token_against_p(logits, p):
    """You compare each probability with p by itself. It is their sum, most likely first, that has to reach p."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    falling = falling.masked_fill((probabilities < p) & (probabilities < probabilities[..., :1]), -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def leaves_out_p(logits, p):
    """You compare with 1 - p instead of p."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= 1 - p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def removes_the_head(logits, p):
    """It is the other way round: you remove the likely tokens and leave the tail."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before < p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def removed_ones_get_zero(logits, p):
    """The removed tokens get a logit of about 0. To remove a token its logit has to be -inf, or very far below zero.

    0 is an ordinary logit: exp(0) = 1."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, 0.0)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def gives_back_probabilities(logits, p):
    """These are probabilities. Return logits: unchanged for the tokens that stay, -inf for the others."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = probabilities.masked_fill(before >= p, 0.0)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def gives_back_log_probabilities(logits, p):
    """You normalised the logits that are left. They stay as they are; leave that to the softmax before sampling."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = probabilities.log().masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def removes_nothing(logits, p):
    """You remove no token. (masked_fill returns a new tensor: what it returns has to be used.)

    Your result is the logits as they came in."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def removed_ones_get_minus_a_thousand(logits, p):
    """The removed tokens get a fixed negative logit. To remove a token for certain its logit has to be -inf, or lower
    than any logit can be.

    Where all logits are lower than yours, the removed tokens win."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -1000.0)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def exponentials_of_the_logits_as_they_are(logits, p):
    """You take exponentials of the logits as they are, without subtracting the largest first. The softmax of torch does
    that for you.

    The exponential of -3000 is 0, that of 3000 is infinite."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.exp() / falling.exp().sum(dim=-1, keepdim=True)
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def sums_exponentials(logits, p):
    """You add up exp(logit) without dividing by their sum. Probabilities sum to 1."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=falling)


@top_p.misconception
def is_nothing_but_a_softmax(logits, p):
    """You return the softmax of the logits. Return logits, with the unlikely tokens removed."""
    falling, order = logits.sort(dim=-1, descending=True)
    probabilities = falling.softmax(dim=-1)
    return torch.empty_like(logits).scatter(dim=-1, index=order, src=probabilities)


@top_p.alternative
def row_by_row(logits, p):
    result = torch.full_like(logits, -math.inf)
    rows, kept = logits.reshape(-1, logits.shape[-1]), result.view(-1, logits.shape[-1])
    for i, row in enumerate(rows):
        total = 0.0
        probabilities = row.softmax(dim=0)
        for token in row.argsort(descending=True).tolist():
            if total >= p:
                break
            kept[i, token] = row[token]
            total += float(probabilities[token])
    return result


@top_p.alternative
def shifted_mask_and_scatter(logits, p):
    ordered, places = torch.sort(logits, descending=True)
    remove = ordered.softmax(-1).cumsum(-1) > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(torch.zeros_like(remove).scatter(-1, places, remove), -1e9)


@top_p.alternative
def by_the_inverse_order(logits, p):
    places = logits.argsort(dim=-1, descending=True)
    probabilities = logits.softmax(dim=-1).gather(-1, places)
    before = F.pad(probabilities.cumsum(dim=-1), (1, -1))
    keep = (before < p).gather(-1, places.argsort(dim=-1))
    return torch.where(keep, logits, float("-inf")).float()


@top_p.alternative
def by_all_pairs(logits, p):
    """What the more likely tokens have together, by comparing every token with every other."""
    probabilities = logits.softmax(dim=-1)
    larger = probabilities[..., None, :] > probabilities[..., :, None]
    before = (larger * probabilities[..., None, :]).sum(dim=-1)
    return logits.masked_fill(before >= p, torch.finfo(logits.dtype).min)


@top_p.alternative
def sorted_upwards_from_the_tail(logits, p):
    rising, order = logits.sort(dim=-1)
    tail = rising.softmax(dim=-1).cumsum(dim=-1)
    rising = rising.masked_fill(tail <= 1 - p, -math.inf)
    return rising.gather(-1, order.argsort(-1))
