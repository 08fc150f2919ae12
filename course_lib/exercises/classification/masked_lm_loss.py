"""The exercise `masked_lm_loss`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Subject
from course_lib.classification import IGNORED
from course_lib.exercises.training.shared import LARGE, expect_loss, one_number

masked_lm_loss = Exercise(
    classification.masked_lm_loss,
    cases=[
        {"logits": normal(1, 4, 3, seed=1), "targets": torch.tensor([[-100, 2, 0, -100]])},
        {
            "logits": normal(2, 4, 5, seed=2, scale=2),
            "targets": torch.tensor([[3, -100, -100, 0], [-100, -100, 4, -100]]),
        },
        {
            "logits": normal(3, 6, 7, seed=3, scale=2),
            "targets": torch.tensor(
                [[-100, 5, -100, -100, 1, 0], [-100] * 6, [6, -100, -100, 2, -100, 3]],
            ),
        },
        {"logits": normal(2, 3, 4, seed=4), "targets": torch.tensor([[-100, -100, -100], [-100, 3, -100]])},
    ],
    minutes=7,
    difficulty=2,
    hints=[
        "It is the cross-entropy that you know, at some of the places. chosen = targets != -100 says at which.",
        "logits[chosen] has one row for each chosen place, (chosen, vocab), and targets[chosen] one token for each. "
        "Then log_softmax over the last axis, and gather picks one number of each row.",
        "The mean of no numbers at all is 0 / 0. A sum divided by a count is safer: the sum of an empty tensor is 0 "
        "and belongs to the graph, and the count can be kept at 1 or more.",
        'F.cross_entropy(logits[chosen], targets[chosen], reduction="sum") / max(int(chosen.sum()), 1)',
    ],
)


def with_a_target_everywhere(targets: Tensor) -> Tensor:
    return targets.masked_fill(targets == IGNORED, 1)


@masked_lm_loss.property("the loss is one number, a tensor", points=1)
def loss_is_a_number(subject, case):
    one_number(subject(*case.values()), "the loss")


@masked_lm_loss.property("if every place is chosen it is the mean of -log p(target)", points=1)
def loss_of_all_places(subject, case):
    logits, targets = case["logits"], with_a_target_everywhere(case["targets"])
    want = classification.masked_lm_loss(logits, targets)
    expect_loss(subject(logits, targets), want, "the loss of targets among which there is no -100")


@masked_lm_loss.property("places with target -100 do not count, neither in the sum nor in the number", points=2)
def loss_of_chosen_places(subject, case):
    count, places = int((case["targets"] != IGNORED).sum()), case["targets"].numel()
    want = masked_lm_loss.want(case)
    expect_loss(subject(*case.values()), want, f"the loss ({count} of {places} places are chosen)")


@masked_lm_loss.property("its gradient is (p - y) / n at the n chosen places, and 0 elsewhere", points=1)
def loss_gradient(subject, case):
    logits, targets = case.values()
    slope = subject.gradient(logits, targets, wrt=0, at=(...,))
    expect(slope.any(), "No gradient reaches the logits: somewhere the numbers leave torch's graph.")
    want = Subject(classification.masked_lm_loss).gradient(logits, targets, wrt=0)
    expect_close(slope, want, "the gradient of the loss with respect to the logits")


@masked_lm_loss.property("logits of ±1000 do no harm", points=1)
def loss_of_large_logits(subject, case):
    logits, targets = case.values()
    certain = LARGE * F.one_hot(targets.clamp(min=0), logits.shape[-1]).to(logits.dtype)
    what = "the loss of a model that gives every target a logit of 1000, and all other tokens 0,"
    expect_loss(subject(certain, targets), torch.zeros(()), what)
    large = LARGE * logits.sign() + logits
    expect_loss(
        subject(large, targets), classification.masked_lm_loss(large, targets), "the loss of logits of about ±1000"
    )


@masked_lm_loss.property("without any chosen place it is 0, and backward() still works", points=1)
def loss_of_nothing(subject, case):
    logits, nothing = case["logits"], torch.full_like(case["targets"], IGNORED)
    expect_loss(subject(logits, nothing), torch.zeros(()), "the loss if every target is -100")
    expect(
        subject.has_graph(logits, nothing),
        "If every target is -100 the loss is 0, as it should be, but backward() cannot be called on it: it does not "
        "come from the logits.",
    )
    slope = subject.gradient(logits, nothing, wrt=0, at=(...,))
    expect_close(slope, torch.zeros_like(logits), "the gradient of the loss if every target is -100")


@masked_lm_loss.misconception
def counts_every_place(logits, targets):
    """You count all places; those with target -100 as if token 0 were asked for there. They have to be left out."""
    targets = targets.clamp(min=0)
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def divides_by_all_places(logits, targets):
    """You add up the losses of the chosen places, but divide by all places. Divide by the number of chosen ones.

    Where 15 % are chosen, your loss is about a seventh of the right one."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / targets.numel()


@masked_lm_loss.misconception
def sums_over_the_places(logits, targets):
    """You take the sum over the chosen places. The mean is asked for.

    A sum grows with the batch."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum()


@masked_lm_loss.misconception
def divides_by_the_sentences(logits, targets):
    """You divide by the number of sentences. Divide by the number of chosen places."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / len(targets)


@masked_lm_loss.misconception
def divides_by_the_length(logits, targets):
    """You divide by the length of the sentences. Divide by the number of chosen places."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / targets.shape[1]


@masked_lm_loss.misconception
def averages_the_sentences(logits, targets):
    """You take the mean of each sentence first, and then the mean of the sentences. Every chosen place counts the
    same.

    A token in a sentence with few chosen places counts for more than others."""
    chosen = targets != IGNORED
    log_probabilities = logits.log_softmax(dim=-1)
    tokens = targets.clamp(min=0)
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1) * chosen
    means = losses.sum(dim=1) / chosen.sum(dim=1).clamp(min=1)
    return means.mean()


@masked_lm_loss.misconception
def averages_the_sentences_without_care(logits, targets):
    """You take the mean of each sentence first, and then the mean of the sentences. Every chosen place counts the
    same.

    A sentence without a chosen place makes the whole loss NaN."""
    chosen = targets != IGNORED
    log_probabilities = logits.log_softmax(dim=-1)
    tokens = targets.clamp(min=0)
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1) * chosen
    means = losses.sum(dim=1) / chosen.sum(dim=1)
    return means.mean()


@masked_lm_loss.misconception
def ignores_token_0(logits, targets):
    """You tell torch to leave out token 0 (ignore_index=0). The number that says that a place is left out is -100."""
    total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, reduction="sum")
    return total / max(int((targets != 0).sum()), 1)


@masked_lm_loss.misconception
def leaves_out_token_0(logits, targets):
    """You leave out places where the target is token 0. Only -100 says that a place does not count."""
    chosen = targets > 0
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def divides_by_zero(logits, targets):
    """Where no place is chosen you divide 0 by 0. The loss should be 0 then.

    Torch's own cross-entropy does so, too. The loss is NaN then, and so is every mean over batches that it goes
    into."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / len(tokens)


@masked_lm_loss.misconception
def returns_a_bare_zero(logits, targets):
    """Where no place is chosen you return a number that does not come from the logits. backward() has to work on it
    all the same.

    A training loop would stop with an error at the first such batch."""
    chosen = targets != IGNORED
    if not chosen.any():
        return torch.zeros(())
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def adds_one_to_the_count(logits, targets):
    """You divide by one more than the number of chosen places.

    That avoids 0 / 0, but makes every loss too small."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / (len(tokens) + 1)


@masked_lm_loss.misconception
def adds_a_little_too_much(logits, targets):
    """You add 0.001 or more to the number of chosen places before you divide. That changes every loss; only a count
    of 0 needs help."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / (len(tokens) + 1e-3)


@masked_lm_loss.misconception
def forgets_the_softmax(logits, targets):
    """You take the logits for log-probabilities. A log_softmax is missing."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen]
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def forgets_the_logarithm(logits, targets):
    """You take probabilities, without the logarithm.

    Such a loss hardly penalises a target that the model calls impossible."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def applies_the_softmax_twice(logits, targets):
    """You apply a softmax before the log_softmax. The logits go straight into the log_softmax.

    All probabilities come close to each other, and the model can never be sure."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].softmax(dim=-1).log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def underflows(logits, targets):
    """You compute probabilities first and their logarithm afterwards. log_softmax does both at once.

    Where a probability is too small for the computer it becomes 0, and its logarithm infinite."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].softmax(dim=-1).log()
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def overflows(logits, targets):
    """You compute exp(logits) yourself. log_softmax takes care of large logits.

    exp(1000) is infinite for a computer, and inf / inf is NaN."""
    chosen = targets != IGNORED
    powers = logits[chosen].exp()
    log_probabilities = (powers / powers.sum(dim=-1, keepdim=True)).log()
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def loses_the_minus(logits, targets):
    """The minus is missing: the loss is -log p(target).

    With every step the model would become worse."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def counts_in_bits(logits, targets):
    """You take the logarithm to base 2. The loss is in nats, with the natural logarithm."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1) / torch.log(torch.tensor(2.0))


@masked_lm_loss.misconception
def returns_the_perplexity(logits, targets):
    """You return the perplexity, exp(loss). The loss itself is asked for."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return (losses.sum() / max(len(tokens), 1)).exp()


@masked_lm_loss.misconception
def asks_at_the_other_places(logits, targets):
    """You ask at the places that were *not* chosen. A target of -100 says that a place does not count."""
    chosen = targets == IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen].clamp(min=0)
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def keeps_the_places_apart(logits, targets):
    """You return one loss for each place. Their mean is asked for, one number."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.squeeze(-1)


@masked_lm_loss.misconception
def asks_for_the_next_token(logits, targets):
    """Your targets are moved by one place: each place is asked for the token after it. That is a language model
    that writes; here each place is asked for its own token."""
    targets = torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], IGNORED)], dim=1)
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def cuts_the_gradient(logits, targets):
    """The loss is detached from the logits.

    The number is right, but the model cannot learn from it."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].detach().log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.misconception
def returns_a_plain_number(logits, targets):
    """You return a plain number (.item() or float). A tensor is asked for.

    There is nothing on which backward() could be called."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = -log_probabilities.gather(dim=-1, index=tokens.unsqueeze(-1))
    return (losses.sum() / max(len(tokens), 1)).item()


@masked_lm_loss.misconception
def measures_the_accuracy(logits, targets):
    """You count how often the largest logit is the target's. The loss looks at the target's probability.

    An accuracy has no gradient."""
    chosen = targets != IGNORED
    log_probabilities = logits[chosen].log_softmax(dim=-1)
    tokens = targets[chosen]
    losses = (logits[chosen].argmax(dim=-1) == tokens).to(logits.dtype)
    return losses.sum() / max(len(tokens), 1)


@masked_lm_loss.alternative
def with_torchs_cross_entropy(logits, targets):
    total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=-100)
    return total / (targets != -100).sum().clamp(min=1)


@masked_lm_loss.alternative
def by_zeroing_the_others(logits, targets):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")  # 0 at ignored places
    chosen = targets.ne(-100)
    return (losses * chosen).sum() / max(chosen.sum().item(), 1)


@masked_lm_loss.alternative
def with_one_hot_targets(logits, targets):
    chosen = targets >= 0
    hot = F.one_hot(targets.clamp(min=0), logits.shape[-1]) * chosen.unsqueeze(-1)
    surprise = logits.logsumexp(dim=-1, keepdim=True) - logits
    return torch.einsum("btv,btv->", surprise, hot.to(logits.dtype)) / chosen.sum().clamp(min=1)


@masked_lm_loss.alternative
def one_place_after_the_other(logits, targets):
    total, count = 0 * logits.sum(), 0
    for row, tokens in zip(logits, targets.tolist()):
        for scores, token in zip(row, tokens):
            if token != -100:
                total = total + torch.logsumexp(scores, 0) - scores[token]
                count += 1
    return total / count if count else total


@masked_lm_loss.alternative
def with_a_case_for_nothing(logits, targets):
    flat, wanted = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    if (wanted == -100).all():
        return (flat * 0.0).sum()
    return F.cross_entropy(flat, wanted)


@masked_lm_loss.alternative
def with_the_nan_replaced(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()).nan_to_num(0.0)


@masked_lm_loss.alternative
def in_single_precision(logits, targets):
    chosen = targets != -100
    loss = F.nll_loss(logits.float()[chosen].log_softmax(-1), targets[chosen], reduction="sum")
    return (loss / max(len(targets[chosen]), 1)).reshape(1)
