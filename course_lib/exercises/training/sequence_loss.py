"""The exercise `sequence_loss`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

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
    without_padding,
)

sequence_loss = Exercise(
    training.sequence_loss,
    cases=LOSS_CASES,
    minutes=15,
    difficulty=2,
    hints=[
        "Three things in turn: log-probabilities along the last axis, the one that belongs to each target, and the "
        "mean over those targets that are not padding.",
        "logits.log_softmax(dim=-1) gives the log-probabilities without underflow. gather(dim=-1, index=…) picks one "
        "number in each row; its index needs as many axes as the tensor: targets.unsqueeze(-1).",
        "Not by zeroing the padding and taking the mean over everything: then more padding makes the loss smaller. "
        "losses[targets != pad_id] holds the real ones alone.",
        "With torch's own function: F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id). It "
        "wants one axis for all positions.",
    ],
)


@sequence_loss.property("the loss is one number, a tensor", points=1)
def loss_is_a_number(subject, case):
    logits, targets, pad_id = case.values()
    one_number(subject(logits, targets, pad_id), "the loss")


@sequence_loss.property("without padding it is the mean of -log p(target)", points=2)
def loss_without_padding(subject, case):
    logits, targets, pad_id = case.values()
    targets = without_padding(targets, pad_id, logits.shape[-1])
    want = training.sequence_loss(logits, targets, pad_id)
    expect_loss(subject(logits, targets, pad_id), want, "the loss of targets among which there is no padding")


@sequence_loss.property("padding does not count, neither in the sum nor in the number of targets", points=2)
def loss_with_padding(subject, case):
    logits, targets, pad_id = case.values()
    want = training.sequence_loss(logits, targets, pad_id)
    what = f"the loss {real_rows(logits, targets, pad_id)}"
    expect_loss(subject(logits, targets, pad_id), want, what)


@sequence_loss.property("its gradient is (p - y) / n at the n real targets, and 0 at padding", points=1)
def loss_gradient(subject, case):
    logits, targets, pad_id = case.values()
    slope = subject.gradient(logits, targets, pad_id, wrt=0, at=(...,))
    expect(slope.any(), "No gradient reaches the logits: somewhere the numbers leave torch's graph.")
    want = Subject(training.sequence_loss).gradient(logits, targets, pad_id, wrt=0)
    expect_close(slope, want, "the gradient of the loss with respect to the logits")


@sequence_loss.property("logits of ±1000 do no harm", points=1)
def loss_of_large_logits(subject, case):
    logits, targets, pad_id = case.values()
    certain = LARGE * F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    what = "the loss of a model that gives every target a logit of 1000, and all other words 0,"
    expect_loss(subject(certain, targets, pad_id), torch.zeros(()), what)
    large = LARGE * logits.sign() + logits
    want = training.sequence_loss(large, targets, pad_id)
    expect_loss(subject(large, targets, pad_id), want, "the loss of logits of about ±1000")


@sequence_loss.misconception
def counts_padding(logits, targets, pad_id):
    """Padding is counted like a word. Only real targets count.

    The model is trained to say PAD, and much of the gradient goes there."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    return losses.mean()


@sequence_loss.misconception
def mean_over_padding_too(logits, targets, pad_id):
    """You set the losses of padding to 0 but still divide by all positions. Divide by the number of real targets.

    The more padding there is, the smaller your loss."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return (losses * real).mean()


@sequence_loss.misconception
def sums_over_targets(logits, targets, pad_id):
    """You take the sum over the real targets. It should be the mean.

    A sum grows with the batch."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].sum()


@sequence_loss.misconception
def divides_by_the_batch(logits, targets, pad_id):
    """You divide the sum by the number of sentences. Divide by the number of real targets.

    The loss then depends on the length of the sentences."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].sum() / len(targets)


@sequence_loss.misconception
def mean_of_sentence_means(logits, targets, pad_id):
    """You take the mean of each sentence first and then the mean of the sentences. Every real target counts the same.

    A word in a short sentence counts for more than one in a long sentence."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@sequence_loss.misconception
def counts_only_padding(logits, targets, pad_id):
    """Your mask is inverted: you keep the padding and leave the words out."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets == pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_zero_for_padding(logits, targets, pad_id):
    """You take the id 0 for padding, whatever pad_id says. The caller says which id it is; 0 may be a word."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != 0
    return losses[real].mean()


@sequence_loss.misconception
def drops_targets_whose_best_guess_is_padding(logits, targets, pad_id):
    """You leave out the positions where the model *says* padding. It is the target that decides what is real."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = logits.argmax(dim=-1) != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def has_no_minus(logits, targets, pad_id):
    """The minus sign is missing. A loss is -log p.

    Training would make the right word *less* likely."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_logits_for_log_probabilities(logits, targets, pad_id):
    """There is no softmax: you take the logits for log-probabilities.

    They are not normalised, so the model could lower this loss forever by making all logits larger."""
    log_probabilities = logits
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_probabilities(logits, targets, pad_id):
    """There is no logarithm: you average probabilities. The loss of a target is -log p.

    Where the model is confident and wrong, the gradient of -p vanishes; that of -log p does not."""
    log_probabilities = logits.softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_softmax_twice(logits, targets, pad_id):
    """There are two softmaxes. torch's cross-entropy (and log_softmax) wants the logits as they are and does the
    softmax itself."""
    log_probabilities = logits.softmax(dim=-1).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def softmax_over_time(logits, targets, pad_id):
    """Your softmax runs over the positions of the sentence. Each position has its own choice between words: the
    words are the last axis."""
    log_probabilities = logits.log_softmax(dim=1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def softmax_over_the_batch(logits, targets, pad_id):
    """Your softmax runs over the batch. The words are the last axis.

    As it is, sentences compete with each other."""
    log_probabilities = logits.log_softmax(dim=0)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def counts_in_bits(logits, targets, pad_id):
    """This is the loss in bits: the logarithm to the base 2. Use nats, the natural logarithm."""
    log_probabilities = logits.log_softmax(dim=-1) / math.log(2)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def takes_decimal_logarithms(logits, targets, pad_id):
    """This is the logarithm to the base 10. Use the natural one."""
    log_probabilities = logits.log_softmax(dim=-1) / math.log(10)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def returns_the_perplexity(logits, targets, pad_id):
    """This is the perplexity, e to the power of the loss. Return the loss itself."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean().exp()


@sequence_loss.misconception
def shifts_again(logits, targets, pad_id):
    """You shift the targets once more. The decoder's input was shifted already, so that logits[:, t] is about
    targets[:, t].

    The model is then trained to predict two words ahead."""
    logits = logits[:, :-1]
    targets = targets[:, 1:]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def shifts_the_other_way(logits, targets, pad_id):
    """You compare the logits of one position with the target of the position before. logits[:, t] is about
    targets[:, t]."""
    logits = logits[:, 1:]
    targets = targets[:, :-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def leaves_the_last_position_out(logits, targets, pad_id):
    """You leave the last position out. Its target counts as well.

    Often it is EOS, and a model that never learns EOS never stops."""
    logits = logits[:, :-1]
    targets = targets[:, :-1]
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def returns_one_loss_a_target(logits, targets, pad_id):
    """You return one loss for each target. Return one number, their mean.

    backward() needs a single number."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real]


@sequence_loss.misconception
def returns_a_python_number(logits, targets, pad_id):
    """You return a plain Python number. Return the tensor.

    A plain number has no graph behind it, so nothing can be learned from it."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean().item()


@sequence_loss.misconception
def detaches_the_loss(logits, targets, pad_id):
    """The loss is cut out of torch's graph (by detach, item, no_grad, or a new tensor made of plain numbers).

    The number is right, but no gradient comes back through it."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean().detach()


@sequence_loss.misconception
def averages_over_the_vocabulary(logits, targets, pad_id):
    """You divide by the size of the vocabulary as well. Each target has one loss, not one for each word."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean() / logits.shape[-1]


@sequence_loss.misconception
def blames_every_word(logits, targets, pad_id):
    """You take the mean of -log p over the whole vocabulary and never look at the targets. Only the target's own
    log-probability counts."""
    log_probabilities = logits.log_softmax(dim=-1)
    losses = -log_probabilities.mean(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def mixes_up_positions(logits, targets, pad_id):
    """Logits and targets are flattened in different orders. Flatten both as they are; a view cannot swap two axes.

    Most targets meet the logits of another position."""
    log_probabilities = logits.transpose(0, 1).reshape(logits.shape).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def turns_classes_into_axis_1_by_view(logits, targets, pad_id):
    """You bring the words to axis 1 with view or reshape, which cannot swap two axes. Swap them with transpose, or
    flatten logits and targets alike.

    view keeps the order of the numbers, so words and positions are mixed."""
    batch, time, vocab = logits.shape
    return F.cross_entropy(logits.reshape(batch, vocab, time), targets, ignore_index=pad_id)


@sequence_loss.misconception
def leaves_classes_on_the_last_axis(logits, targets, pad_id):
    """torch's cross-entropy looks for the words on axis 1, and yours are on the last axis. Flatten positions:
    (batch · time, vocab) and (batch · time)."""
    return F.cross_entropy(logits, targets, ignore_index=pad_id)


@sequence_loss.misconception
def misspells_ignore_index(logits, targets, pad_id):
    """There is no argument with this name: torch calls it ignore_index."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_idx=pad_id)


@sequence_loss.misconception
def removes_the_padding_column(logits, targets, pad_id):
    """You forbid the model the *word* PAD in its softmax. It is the positions whose target is PAD that must not count.

    That changes the loss of every real target."""
    logits = logits.index_fill(-1, torch.tensor(pad_id), float("-inf"))
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def zeroes_the_logits_of_padding(logits, targets, pad_id):
    """You set the logits of padding to 0 and count these positions all the same. Leave them out of the mean.

    Equal logits still have a loss, ln V."""
    real = targets != pad_id
    logits = logits * real.unsqueeze(-1)
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    return losses.mean()


@sequence_loss.misconception
def squares_the_difference(logits, targets, pad_id):
    """This is a squared error between probabilities and one-hot targets. The cross-entropy is -log of the target's
    probability."""
    probabilities = logits.softmax(dim=-1)
    chosen = F.one_hot(targets, logits.shape[-1])
    losses = ((probabilities - chosen) ** 2).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def subtracts_distributions(logits, targets, pad_id):
    """Your loss is 0 whatever the model says, as is the sum of all differences between prediction and one-hot target:
    both add up to 1. Compare by -log p of the target."""
    probabilities = logits.softmax(dim=-1)
    chosen = F.one_hot(targets, logits.shape[-1])
    losses = (probabilities - chosen).sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def adds_a_little_before_the_logarithm(logits, targets, pad_id):
    """You add a small number before the logarithm. log_softmax needs no such help.

    No loss can be larger than minus its logarithm, and where the model is very wrong the gradient disappears."""
    log_probabilities = torch.log(logits.softmax(dim=-1) + 1e-9)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def counts_padding_above_only(logits, targets, pad_id):
    """You divide by the number of real targets, but the sum above it still contains the padding. Leave it out of
    both."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses.sum() / real.sum()


@sequence_loss.misconception
def divides_by_the_length_of_time(logits, targets, pad_id):
    """You divide by the length of the time axis. Divide by the number of real targets.

    The loss then grows with the number of sentences."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].sum() / targets.shape[1]


@sequence_loss.misconception
def asks_yes_or_no_for_each_word(logits, targets, pad_id):
    """This is a binary cross-entropy: a yes or no for each word by itself. The words of a position compete for one
    total of 1, so there is one softmax and one -log p."""
    chosen = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    losses = F.binary_cross_entropy_with_logits(logits, chosen, reduction="none").sum(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


# Last, so that in a pair the coarser mistake is told first.
@sequence_loss.misconception
def logarithm_of_a_softmax(logits, targets, pad_id):
    """You take the softmax first and its logarithm afterwards. log_softmax does both in one and loses nothing.

    A probability that is too small to be stored becomes 0, and its loss infinite."""
    log_probabilities = logits.softmax(dim=-1).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def exponentials_overflow(logits, targets, pad_id):
    """You take exponentials of the logits as they are, without subtracting the largest first. log_softmax does that for
    you.

    The exponential of 1000 is too large to be stored."""
    log_probabilities = (logits.exp() / logits.exp().sum(dim=-1, keepdim=True)).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def logarithm_of_overflowing_sums(logits, targets, pad_id):
    """You subtract the logarithm of a sum of exponentials that overflows. Subtract the largest logit before the
    exponential, or use log_softmax.

    The exponential of 1000 is too large to be stored."""
    log_probabilities = logits - logits.exp().sum(dim=-1, keepdim=True).log()
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def logarithm_of_the_mean(logits, targets, pad_id):
    """You take the mean of the probabilities and then one logarithm. Each target has its own -log p, and the mean is
    over those."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.exp().gather(dim=-1, index=targets.unsqueeze(-1))
    losses = chosen.squeeze(-1)
    real = targets != pad_id
    return -losses[real].mean().log()


@sequence_loss.misconception
def looks_at_the_best_guess(logits, targets, pad_id):
    """You take the log-probability of the word that the model finds best. Take that of the target."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.amax(dim=-1, keepdim=True)
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def smooths_the_labels(logits, targets, pad_id):
    """You smooth the targets with 0.1. That is the next exercise; here the target counts alone."""
    log_probabilities = logits.log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -0.9 * chosen.squeeze(-1) - 0.1 * log_probabilities.mean(dim=-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.misconception
def clamps_the_logits(logits, targets, pad_id):
    """You limit the logits. They may be of any size, and log_softmax can deal with that."""
    log_probabilities = logits.clamp(-50, 50).log_softmax(dim=-1)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))
    losses = -chosen.squeeze(-1)
    real = targets != pad_id
    return losses[real].mean()


@sequence_loss.alternative
def with_torch(logits, targets, pad_id):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id)


@sequence_loss.alternative
def with_classes_on_axis_1(logits, targets, pad_id):
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id)


@sequence_loss.alternative
def on_log_probabilities(logits, targets, pad_id):
    log_probabilities = F.log_softmax(logits, dim=-1)
    loss = nn.CrossEntropyLoss(ignore_index=pad_id)  # a second log_softmax changes nothing
    return loss(log_probabilities.reshape(-1, logits.size(-1)), targets.reshape(-1))


@sequence_loss.alternative
def in_loops(logits, targets, pad_id):
    total, count = 0.0, 0
    for row, row_targets in zip(logits, targets):
        for scores, target in zip(row, row_targets.tolist()):
            if target != pad_id:
                total = total + torch.logsumexp(scores, 0) - scores[target]
                count += 1
    return total / count


@sequence_loss.alternative
def with_one_hot_targets(logits, targets, pad_id):
    wanted = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    wanted = wanted * (targets != pad_id).unsqueeze(-1)
    return -torch.einsum("btv,btv->", wanted, logits.log_softmax(-1)) / wanted.sum()


@sequence_loss.alternative
def with_class_weights_in_single_precision(logits, targets, pad_id):
    weight = torch.ones(logits.shape[-1])
    weight[pad_id] = 0
    return F.nll_loss(logits.float().log_softmax(-1).flatten(0, 1), targets.flatten(), weight=weight)
