"""The exercise `smoothed_loss`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib import training
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_close
from course_lib.checking.subject import Subject
from course_lib.exercises.training.shared import (
    LARGE,
    LOSS_CASES,
    expect_loss,
    one_number,
    real_rows,
)

smoothed_loss = Exercise(
    training.smoothed_loss,
    cases=[{**case, "epsilon": epsilon} for case, epsilon in zip(LOSS_CASES, (0.3, 0.1, 0.2))],
    minutes=12,
    difficulty=2,
    hints=[
        "Start from your sequence_loss. One thing is new: beside -log p of the target there is a second term that "
        "looks at all words alike.",
        "The soft target is (1 - ε) times the one-hot target plus ε times the uniform distribution, so its "
        "cross-entropy is (1 - ε) times one cross-entropy plus ε times the other.",
        "The cross-entropy with the uniform distribution is the mean of -log p over the vocabulary: "
        "-log_probabilities.mean(dim=-1).",
        "losses = -(1 - epsilon) * chosen - epsilon * log_probabilities.mean(dim=-1), then the mean over real targets.",
    ],
)


@smoothed_loss.property("the loss is one number, a tensor", points=1)
def smoothed_is_a_number(subject, case):
    one_number(subject(*case.values()), "the loss")


@smoothed_loss.property("with ε = 0 it is the cross-entropy over the real targets", points=1)
def smoothed_by_nothing(subject, case):
    logits, targets, pad_id, _ = case.values()
    want = training.sequence_loss(logits, targets, pad_id)
    what = f"the loss with epsilon = 0 {real_rows(logits, targets, pad_id)}"
    expect_loss(subject(logits, targets, pad_id, 0.0), want, what)


@smoothed_loss.property("the soft targets add up to 1: equal logits cost ln V, whatever ε", points=1)
def smoothed_mass_is_one(subject, case):
    logits, targets, pad_id, epsilon = case.values()
    equal = torch.zeros_like(logits)
    want = torch.tensor(math.log(logits.shape[-1]), dtype=logits.dtype)
    for e in (epsilon, 0.5):
        what = f"the loss of equal logits (vocabulary {logits.shape[-1]}, epsilon = {e})"
        expect_loss(subject(equal, targets, pad_id, e), want, what)


@smoothed_loss.property("it is (1 - ε) · (-log p of the target) + ε · the mean of all -log p", points=2)
def smoothed_values(subject, case):
    logits, targets, pad_id, epsilon = case.values()
    for e in (epsilon, 1.0):
        want = training.smoothed_loss(logits, targets, pad_id, e)
        what = f"the loss with epsilon = {e} {real_rows(logits, targets, pad_id)}"
        expect_loss(subject(logits, targets, pad_id, e), want, what)


@smoothed_loss.property("its gradient is (p - q) / n, with the soft target q, and 0 at padding", points=1)
def smoothed_gradient(subject, case):
    slope = subject.gradient(*case.values(), wrt=0, at=(...,))
    expect(slope.any(), "No gradient reaches the logits: somewhere the numbers leave torch's graph.")
    want = Subject(training.smoothed_loss).gradient(*case.values(), wrt=0)
    expect_close(slope, want, "the gradient of the loss with respect to the logits")


@smoothed_loss.property("logits of ±1000 do no harm", points=1)
def smoothed_of_large_logits(subject, case):
    logits, targets, pad_id, epsilon = case.values()
    large = LARGE * logits.sign() + logits
    want = training.smoothed_loss(large, targets, pad_id, epsilon)
    expect_loss(subject(large, targets, pad_id, epsilon), want, "the loss of logits of about ±1000")


@smoothed_loss.misconception
def smooths_the_wrong_classes_only(logits, targets, pad_id, epsilon):
    """You spread ε over the V - 1 wrong words. Here it is spread over all V, the right one included, as in torch's
    label_smoothing."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.sum(dim=-1) - chosen) / (vocab - 1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_neither_target_nor_padding(logits, targets, pad_id, epsilon):
    """You spread ε over V - 2 words, without the right one and without PAD. Here it is spread over all V."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.sum(dim=-1) - chosen - log_probabilities[..., pad_id]) / (vocab - 2)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_without_padding(logits, targets, pad_id, epsilon):
    """You spread ε over all words but PAD. Here it is spread over all V, PAD too; it is the *positions* whose target is
    PAD that do not count."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.sum(dim=-1) - log_probabilities[..., pad_id]) / (vocab - 1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def exchanges_the_shares(logits, targets, pad_id, epsilon):
    """The two shares are swapped: the target gets ε and all words together 1 - ε. The target keeps the larger
    part, 1 - ε."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -epsilon * chosen - (1 - epsilon) * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def gives_every_word_epsilon(logits, targets, pad_id, epsilon):
    """Every word gets ε. All words together should get ε: each of them ε / V.

    The soft targets add up to more than 1."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.sum(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def takes_nothing_from_the_target(logits, targets, pad_id, epsilon):
    """The target keeps its full 1, and ε is given to all words on top. What is given to all words has to be taken from
    the target.

    The soft targets add up to 1 + ε."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def loses_the_share_of_the_others(logits, targets, pad_id, epsilon):
    """You take ε away from the target and give it to nobody. All words together get it.

    That only makes the loss smaller."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    losses = -(1 - epsilon) * chosen
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def does_not_smooth(logits, targets, pad_id, epsilon):
    """Nothing is smoothed: epsilon plays no part in your result."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    losses = -chosen
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def always_smooths_by_a_tenth(logits, targets, pad_id, epsilon):
    """You always smooth by 0.1. The caller says in epsilon how much."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - 0.1) * chosen - 0.1 * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def adds_instead_of_subtracting(logits, targets, pad_id, epsilon):
    """The second term has the wrong sign. Both terms are -log p.

    It rewards the model for making words unlikely."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen + epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def loss_has_no_minus(logits, targets, pad_id, epsilon):
    """The minus sign is missing. A loss is -log p, and logarithms of probabilities are negative."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = (1 - epsilon) * chosen + epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def averages_the_logits(logits, targets, pad_id, epsilon):
    """Your second term takes the mean of the logits. It has to be the mean of the log-probabilities."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = logits.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_the_prediction(logits, targets, pad_id, epsilon):
    """You smooth what the model says, (1 - ε) p + ε / V, and take its logarithm. It is the target that is smoothed: the
    mix is of two losses, not of two probabilities."""
    vocab = logits.shape[-1]
    log_probabilities = ((1 - epsilon) * logits.softmax(dim=-1) + epsilon / vocab).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    losses = -chosen
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_with_entropy(logits, targets, pad_id, epsilon):
    """Your second term is the entropy of the prediction, the mean of -log p weighted by p. All words count the same
    here: a plain mean."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = (log_probabilities.exp() * log_probabilities).sum(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def subtracts_the_entropy(logits, targets, pad_id, epsilon):
    """You take the KL divergence, the cross-entropy minus the entropy of the soft targets. It should be the
    cross-entropy.

    The gradient is the same, the number is not."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    soft = (1 - epsilon) * F.one_hot(targets, vocab) + epsilon / vocab
    losses = (torch.xlogy(soft, soft) - soft * log_probabilities).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def divides_by_the_vocabulary_too(logits, targets, pad_id, epsilon):
    """You divide by the size of the vocabulary once too often, as KLDivLoss with reduction="mean" does.

    The loss is V times too small."""
    vocab = logits.shape[-1]
    log_probabilities = logits.log_softmax(dim=-1)
    soft = (1 - epsilon) * F.one_hot(targets, vocab) + epsilon / vocab
    losses = -(soft * log_probabilities).mean(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def mixes_probabilities(logits, targets, pad_id, epsilon):
    """There is no logarithm: the terms are made of probabilities. -log p is needed in both of them."""
    log_probabilities = logits.softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def mixes_logits(logits, targets, pad_id, epsilon):
    """There is no softmax: you take the logits for log-probabilities."""
    log_probabilities = logits
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_over_time(logits, targets, pad_id, epsilon):
    """You take the mean of the log-probabilities over the positions of the sentence. The mean runs over the words, the
    last axis."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_padding_too(logits, targets, pad_id, epsilon):
    """Padding is counted like a word. Only real targets count."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    return losses.mean()


@smoothed_loss.misconception
def smooths_all_positions(logits, targets, pad_id, epsilon):
    """The first term leaves padding out, but the second is averaged over all positions, padding included. Both are
    about the real targets alone."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    real = targets != pad_id
    return -(1 - epsilon) * chosen[real].mean() - epsilon * average.mean()


@smoothed_loss.misconception
def divides_by_all_positions(logits, targets, pad_id, epsilon):
    """You set the losses of padding to 0 but still divide by all positions. Divide by the number of real targets.

    The more padding there is, the smaller your loss."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return (losses * real).mean()


@smoothed_loss.misconception
def adds_up_all_targets(logits, targets, pad_id, epsilon):
    """You take the sum over the real targets. It should be the mean.

    A sum grows with the batch."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].sum()


@smoothed_loss.misconception
def smooths_zero_as_padding(logits, targets, pad_id, epsilon):
    """You take the id 0 for padding, whatever pad_id says. The caller says which id it is; 0 may be a word."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != 0
    return losses[real].mean()


@smoothed_loss.misconception
def one_smoothed_loss_a_target(logits, targets, pad_id, epsilon):
    """You return one loss for each target. Return one number, their mean."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real]


@smoothed_loss.misconception
def cuts_the_graph(logits, targets, pad_id, epsilon):
    """The loss is cut out of torch's graph.

    The number is right, but no gradient comes back through it."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean().detach()


@smoothed_loss.misconception
def logarithm_after_the_softmax(logits, targets, pad_id, epsilon):
    """You take the softmax first and its logarithm afterwards. log_softmax does both in one and loses nothing.

    A probability that is too small to be stored becomes 0, and its logarithm infinite; smoothing looks at all words,
    even the least likely."""
    log_probabilities = logits.softmax(dim=-1).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def divides_by_the_sentences(logits, targets, pad_id, epsilon):
    """You divide the sum by the number of sentences. Divide by the number of real targets."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].sum() / len(targets)


@smoothed_loss.misconception
def averages_sentences_first(logits, targets, pad_id, epsilon):
    """You take the mean of each sentence first and then the mean of the sentences. Every real target counts the same.

    A word in a short sentence counts for more than one in a long sentence."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@smoothed_loss.misconception
def smooths_after_two_softmaxes(logits, targets, pad_id, epsilon):
    """There are two softmaxes. log_softmax, and torch's cross-entropy, want the logits as they are."""
    log_probabilities = logits.softmax(dim=-1).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def exponentials_of_large_logits(logits, targets, pad_id, epsilon):
    """You take exponentials of the logits as they are, without subtracting the largest first. log_softmax does that for
    you.

    The exponential of 1000 is too large to be stored."""
    log_probabilities = (logits.exp() / logits.exp().sum(dim=-1, keepdim=True)).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def logarithm_of_large_sums(logits, targets, pad_id, epsilon):
    """You subtract the logarithm of a sum of exponentials that overflows. Subtract the largest logit before the
    exponential, or use log_softmax.

    The exponential of 1000 is too large to be stored."""
    log_probabilities = logits - logits.exp().sum(dim=-1, keepdim=True).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def softmax_along_time(logits, targets, pad_id, epsilon):
    """Your softmax runs over the positions of the sentence. Each position is a choice between words: the words are the
    last axis."""
    log_probabilities = logits.log_softmax(dim=1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def softmax_along_the_batch(logits, targets, pad_id, epsilon):
    """Your softmax runs over the batch. The words are the last axis.

    As it is, sentences compete with each other."""
    log_probabilities = logits.log_softmax(dim=0)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def target_gets_no_share_of_epsilon(logits, targets, pad_id, epsilon):
    """The target gets 1 - ε and every other word ε / V. The share ε / V belongs to the target too.

    The soft targets add up to less than 1."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * (average - chosen / logits.shape[-1])
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def adds_a_constant(logits, targets, pad_id, epsilon):
    """Your second term is a constant, whatever the model says. It is the mean of -log p over all words."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = torch.full_like(chosen, -math.log(logits.shape[-1]))
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def returns_a_float(logits, targets, pad_id, epsilon):
    """You return a plain Python number. Return the tensor.

    A plain number has no graph behind it, so nothing can be learned from it."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean().item()


@smoothed_loss.misconception
def smooths_in_bits(logits, targets, pad_id, epsilon):
    """You take logarithms to the base 2. Use nats, the natural logarithm."""
    log_probabilities = logits.log_softmax(dim=-1) / math.log(2)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets != pad_id
    return losses[real].mean()


@smoothed_loss.misconception
def smooths_the_padding_alone(logits, targets, pad_id, epsilon):
    """Your mask is inverted: you keep the padding and leave the words out."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    average = log_probabilities.mean(dim=-1)
    losses = -(1 - epsilon) * chosen - epsilon * average
    real = targets == pad_id
    return losses[real].mean()


@smoothed_loss.alternative
def with_label_smoothing(logits, targets, pad_id, epsilon):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, label_smoothing=epsilon)


@smoothed_loss.alternative
def with_soft_targets(logits, targets, pad_id, epsilon):
    vocab = logits.shape[-1]
    soft = torch.full_like(logits, epsilon / vocab)
    soft.scatter_(-1, targets[..., None], 1 - epsilon + epsilon / vocab)
    real = targets != pad_id
    return F.cross_entropy(logits[real], soft[real])


@smoothed_loss.alternative
def target_by_target(logits, targets, pad_id, epsilon):
    losses = []
    for scores, target in zip(logits.flatten(0, 1), targets.flatten()):
        if target != pad_id:
            total = scores.logsumexp(0)
            losses.append((1 - epsilon) * (total - scores[target]) + epsilon * (total - scores.mean()))
    return torch.stack(losses).mean()


@smoothed_loss.alternative
def as_kl_plus_entropy(logits, targets, pad_id, epsilon):
    vocab = logits.shape[-1]
    real = targets != pad_id
    soft = (1 - epsilon) * F.one_hot(targets[real], vocab) + epsilon / vocab
    divergence = F.kl_div(logits[real].log_softmax(-1), soft.to(logits.dtype), reduction="batchmean")
    return divergence - torch.xlogy(soft, soft).sum(-1).mean()


@smoothed_loss.alternative
def two_losses_with_a_mask(logits, targets, pad_id, epsilon):
    real = (targets != pad_id).float()
    logs = logits.log_softmax(-1)
    hard = -(logs * F.one_hot(targets, logits.size(-1))).sum(-1)
    smooth = -logs.sum(-1) / logits.size(-1)
    return (((1 - epsilon) * hard + epsilon * smooth) * real).sum() / real.sum()
