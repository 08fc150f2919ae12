"""The exercise `ctc_loss`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import speech
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_close, name_of_type
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Event, Subject
from course_lib.exercises.decoding.shared import asked
from course_lib.speech import LOG_ZERO, ctc_collapse


def frames_of(time, vocab, seed):
    return normal(time, vocab, seed=seed, scale=1.5).log_softmax(dim=-1)


ctc = Exercise(
    speech.ctc_loss,
    cases=[
        {"log_probs": frames_of(4, 3, seed=1), "target": torch.tensor([2, 1]), "blank": 0},
        {"log_probs": frames_of(6, 4, seed=2), "target": torch.tensor([0, 0, 3]), "blank": 2},
        {"log_probs": frames_of(7, 5, seed=3), "target": torch.tensor([3, 1, 1, 3]), "blank": 4},
        {"log_probs": frames_of(3, 6, seed=4), "target": torch.tensor([1, 5, 2]), "blank": 3},
    ],
    minutes=13,
    difficulty=3,
    hidden_points=2,
    hints=[
        "Write down the states of the target (2, 1): blank, 2, blank, 1, blank. In which of them may a path be at the "
        "first frame? From which states can it come to the last 1?",
        "alpha[s] is the log of the sum over all paths that are in state s now. At the first frame only alpha[0] and "
        "alpha[1] are possible; everything else is -1e30.",
        "A new frame: three old alphas lead to state s: alpha[s] (stay), alpha[s - 1] (step), and alpha[s - 2] (leave "
        "out a blank), the last only if state s is not a blank and differs from state s - 2. torch.logsumexp of the "
        "three, plus the frame's log-probability of the label of s.",
        "All states at once: step is alpha moved by one place (torch.cat of -1e30 and alpha[:-1]), skip by two places, "
        "and -1e30 where leaving out is not allowed.",
        "At the end a path is in one of the last two states: -torch.logsumexp(alpha[-2:], dim=0).",
    ],
)

INFINITE = 1e6


def essence(answer):
    """A number. Everything above 1e6 counts as infinite, and is the same."""
    if isinstance(answer, Tensor) and answer.numel() == 1 and answer.is_floating_point():
        answer = float(answer)
    return max(-INFINITE, min(answer, INFINITE)) if isinstance(answer, float) and answer == answer else answer


def loss_of(subject, log_probs, target, blank):
    """The student's loss as a number; `INFINITE` if it counts as that."""
    answer = asked(subject, (log_probs, target, blank), essence)
    if answer is None:
        raise Failure("The loss is None. Does every path through your code end in a `return`?")
    if isinstance(answer, Tensor):
        expect(
            answer.dim() <= 1 and answer.numel() == 1,
            f"The loss should be one number, but its shape is {tuple(answer.shape)}.",
        )
        expect(
            answer.is_floating_point(), f"The loss should be a floating point number, but its dtype is {answer.dtype}."
        )
    else:
        raise Failure(f"The loss should be a torch tensor with one number, but it is {name_of_type(answer)}.")
    value = essence(answer)
    expect(value == value, "The loss is NaN (not a number). Is -inf subtracted from -inf somewhere?")
    return value


def frame_count(time):
    return "1 frame" if time == 1 else f"{time} frames"


def expect_loss(subject, log_probs, target, blank):
    got, want = loss_of(subject, log_probs, target, blank), float(speech.ctc_loss(log_probs, target, blank))
    shown = "infinite" if got == INFINITE else f"{got:.4f}"
    expect(
        abs(got - want) <= 1e-5 + 1e-4 * abs(want),
        f"{frame_count(len(log_probs))}, target {target.tolist()}, blank {blank}: the loss should be {want:.4f}, but "
        f"yours is {shown}.",
    )


@ctc.property("the loss is one number", points=1)
def ctc_is_a_number(subject, case):
    loss_of(subject, *case.values())


@ctc.property("one label over all frames: the paths begin and end with blanks or with the label", points=1)
def ctc_of_one_label(subject, case):
    log_probs, target, blank = case.values()
    expect_loss(subject, log_probs[:1], target[:1], blank)
    expect_loss(subject, log_probs, target[:1], blank)


@ctc.property("the sum runs over all paths that collapse to the target", points=3)
def ctc_of_the_target(subject, case):
    log_probs, target, blank = case.values()
    expect_loss(subject, log_probs, target[:2], blank)
    expect_loss(subject, log_probs, target, blank)


@ctc.property("a target that no path can give is infinitely unlikely", points=1)
def ctc_of_the_impossible(subject, case):
    log_probs, target, blank = case.values()
    twice = torch.stack([target[0], target[0]])
    for too_long, time in ((target, len(target) - 1), (twice, 2)):
        got = loss_of(subject, log_probs[:time], too_long, blank)
        why = "which need a blank between them" if too_long is twice else "one frame for each label at the least"
        expect(
            got == INFINITE,
            f"{frame_count(time)} cannot hold the labels {too_long.tolist()}, {why}: "
            f"the loss should be infinite, but yours is {got:.4g}.",
        )


@ctc.property("in logarithms all the way: a very unlikely target has a large loss, not an infinite one", points=1)
def ctc_of_the_unlikely(subject, case):
    log_probs, target, blank = case.values()
    logits = 400.0 * log_probs
    expect_loss(subject, logits.log_softmax(dim=-1), target, blank)


@ctc.property("the gradient is right", points=1)
def ctc_gradient(subject, case):
    log_probs, target, blank = case.values()
    got = slope_of_logits(subject, log_probs, target, blank)
    expect(
        not got.isnan().any(),
        "The gradient of the loss is NaN. The log-sum-exp of nothing but -inf has no gradient: take -1e30 for the "
        "logarithm of 0.",
    )
    expect(got.any(), "No gradient reaches log_probs: somewhere the numbers leave torch's graph.")
    want = slope_of_logits(Subject(speech.ctc_loss), log_probs, target, blank)
    expect_close(got, want, "the gradient of the loss with respect to the logits behind log_probs")


def slope_of_logits(subject, log_probs, target, blank):
    """The gradient with respect to logits whose log-softmax is log_probs.

    torch's own ctc_loss counts on such a log-softmax and gives this gradient at once; for it nothing changes here.
    """
    before = len(subject.trace)
    slope = subject.gradient(log_probs, target, blank, wrt=0, at=(...,))
    slope = slope - log_probs.exp() * slope.sum(dim=-1, keepdim=True)
    events = [event for event in subject.trace[before:] if event.question == "changed"]
    subject.trace[before:] = [*events, Event("gradient", slope)]
    return slope


# --- wrong answers ----------------------------------------------------------------------------------------


@ctc.misconception
def takes_the_best_path(log_probs, target, blank=0):
    """You take the largest of the three ways into a state, and so the best single path. The loss adds up all paths: a
    log-sum-exp, not a maximum."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.stack([stay, step, skip]).amax(dim=0) + frame[states]
    return -alpha[-2:].amax(dim=0)


@ctc.misconception
def maximum_on_the_way(log_probs, target, blank=0):
    """On the way you take the largest of the three ways into a state. All of them have to be added up: a log-sum-exp,
    not a maximum."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.stack([stay, step, skip]).amax(dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def maximum_at_the_end(log_probs, target, blank=0):
    """At the end you take the larger of the last two states. Both kinds of paths count: add them up by a
    log-sum-exp."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -alpha[-2:].amax(dim=0)


@ctc.misconception
def adds_logarithms(log_probs, target, blank=0):
    """You add up the logarithms of the three ways into a state, which multiplies their probabilities. The probabilities
    have to be added up: a log-sum-exp."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        ways = torch.stack([stay, step, skip])
        alpha = torch.where(ways > LOG_ZERO / 2, ways, 0.0).sum(dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def skips_between_equal_labels(log_probs, target, blank=0):
    """Your paths leave out the blank between two equal labels, too. Without it the two collapse into one."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = states[2:] != blank

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def skips_labels(log_probs, target, blank=0):
    """Your paths may leave out labels: they skip from one blank to the next. Only a blank can be left out, between two
    different labels."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] == blank) | (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def skips_everywhere(log_probs, target, blank=0):
    """Your paths may leave out every state, labels and the blanks between equal labels too. Only a blank between two
    different labels can be left out."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = True

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def never_skips(log_probs, target, blank=0):
    """Your paths never leave out a blank. Between two different labels they may: nothing there would collapse."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        alpha = torch.logsumexp(torch.stack([stay, step]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def skips_between_equal_labels_alone(log_probs, target, blank=0):
    """Your paths leave out a blank between two equal labels and nowhere else. It is the other way round: they may
    between two different labels."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] == states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def never_stays(log_probs, target, blank=0):
    """Your paths never stay in a state: each label lasts one frame. It may last for several: they collapse into one."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def never_steps(log_probs, target, blank=0):
    """Your paths never step to the next state: from a label they cannot reach the blank after it. One of the three
    ways into a state, alpha[s - 1], is missing."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def begins_with_the_blank_alone(log_probs, target, blank=0):
    """All your paths begin with the blank. They may begin with the first label, too."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:1] = log_probs[0, states[:1]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def begins_with_the_label_alone(log_probs, target, blank=0):
    """All your paths begin with the first label. They may begin with a blank, too."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[1:2] = log_probs[0, states[1:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def begins_anywhere(log_probs, target, blank=0):
    """Your paths begin in any state: those that begin late say the end of the target alone. They begin with the first
    blank or the first label."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs[0, states]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def ends_with_the_blank_alone(log_probs, target, blank=0):
    """All your paths end with the blank. They may end with the last label, too."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -alpha[-1]


@ctc.misconception
def ends_with_the_label_alone(log_probs, target, blank=0):
    """All your paths end with the last label. They may end with a blank after it, too."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -alpha[-2]


@ctc.misconception
def ends_anywhere(log_probs, target, blank=0):
    """Your paths end in any state: those that end early say the beginning of the target alone. They end with the last
    label or the last blank."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha, dim=0)


@ctc.misconception
def has_no_blanks(log_probs, target, blank=0):
    """Your states are the labels alone, without blanks between them. A path may have a blank before, between and after
    them."""
    states = target
    never = log_probs.new_full((1,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:1] = log_probs[0, states[:1]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never, alpha[:-1]])
        alpha = torch.logsumexp(torch.stack([stay, step]), dim=0) + frame[states]
    return -alpha[-1]


@ctc.misconception
def blank_is_always_zero(log_probs, target, blank=0):
    """Your blank is always 0. It is the label `blank`, whichever that is."""
    blank = 0
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def blank_is_the_last_label(log_probs, target, blank=0):
    """Your blank is always the last entry of the vocabulary. It is the label `blank`, whichever that is."""
    blank = log_probs.shape[1] - 1
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def leaves_out_the_last_frame(log_probs, target, blank=0):
    """The last frame never counts: your loop ends one frame too early."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:-1]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def counts_the_first_frame_twice(log_probs, target, blank=0):
    """The first frame counts twice: once at the start, and once more in the loop. The loop begins at the second
    frame."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def forgets_the_first_emission(log_probs, target, blank=0):
    """The first frame's own probabilities are missing: your paths begin with log 1 = 0. They begin with what the first
    frame says of their label."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = 0.0
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def returns_the_log_probability(log_probs, target, blank=0):
    """You return the logarithm of the probability. The loss is its negative."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def returns_the_probability(log_probs, target, blank=0):
    """You return the probability itself. The loss is its negative logarithm."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return torch.logsumexp(alpha[-2:], dim=0).exp()


@ctc.misconception
def divides_by_the_labels(log_probs, target, blank=0):
    """You divide the loss by the number of labels, as torch does with reduction="mean". Here nothing is divided."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0) / len(target)


@ctc.misconception
def divides_by_the_frames(log_probs, target, blank=0):
    """You divide the loss by the number of frames. Here nothing is divided."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0) / len(log_probs)


@ctc.misconception
def minus_infinity_for_log_zero(log_probs, target, blank=0):
    """The gradient of your loss is NaN. You use -inf for the logarithm of 0, and the log-sum-exp of nothing but -inf
    has no gradient. -1e30 is as good, and its gradient is 0."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), -math.inf)
    alpha = log_probs.new_full((len(states),), -math.inf)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, -math.inf)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def small_number_for_log_zero(log_probs, target, blank=0):
    """Your number for the logarithm of 0 is -100, and paths that do not exist still count a little. -1e30 is small
    enough."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), -100.0)
    alpha = log_probs.new_full((len(states),), -100.0)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, -100.0)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def zero_for_log_zero(log_probs, target, blank=0):
    """You begin with 0 for states that are not possible yet. That is the logarithm of 1, and such paths count in full.
    The logarithm of 0 is -inf: take -1e30."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_zeros(len(states))
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0)


@ctc.misconception
def sums_bare_exponentials(log_probs, target, blank=0):
    """You add up by log(sum of exp). The exponentials of very negative numbers are 0, and their logarithm is -inf.
    torch.logsumexp subtracts the largest number first."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.stack([stay, step, skip]).exp().sum(dim=0).log() + frame[states]
    return -alpha[-2:].exp().sum(dim=0).log()


@ctc.misconception
def multiplies_probabilities(log_probs, target, blank=0):
    """You add up and multiply probabilities, and take the logarithm at the end. Probabilities of many frames are too
    small for the number format and become 0: stay in logarithms all the way."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_zeros(2)
    alpha = log_probs.new_zeros(len(states))
    alpha[:2] = log_probs[0, states[:2]].exp()
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, 0.0)
        alpha = (stay + step + skip) * frame[states].exp()
    return -alpha[-2:].sum().log()


@ctc.misconception
def leaves_the_graph(log_probs, target, blank=0):
    """Your loss is right, but no gradient comes back from it: somewhere the numbers leave torch's graph (.item(),
    float, .detach(), torch.tensor, no_grad)."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((2,), LOG_ZERO)
    alpha = log_probs.new_full((len(states),), LOG_ZERO)
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        stay = alpha
        step = torch.cat([never[:1], alpha[:-1]])
        skip = torch.cat([never, alpha[:-2]])
        skip = torch.where(may_skip, skip, LOG_ZERO)
        alpha = torch.logsumexp(torch.stack([stay, step, skip]), dim=0) + frame[states]
    return -torch.logsumexp(alpha[-2:], dim=0).detach()


@ctc.misconception
def reads_one_label_per_frame(log_probs, target, blank=0):
    """You take frame i for label i, as if there were one frame for each label. Nobody says which frame belongs to which
    label: the loss adds up all the ways."""
    first = log_probs[: len(target)]
    return -first.gather(1, target[: len(first), None]).sum()


@ctc.misconception
def uses_new_values_too_early(log_probs, target, blank=0):
    """You change alpha in place, state by state, and read it again for the next state: a path then passes several
    states in one frame. Take all three ways from the frame before."""
    states = torch.full((2 * len(target) + 1,), blank, device=target.device)
    states[1::2] = target
    may_skip = torch.zeros(len(states), dtype=torch.bool, device=target.device)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])

    never = log_probs.new_full((), LOG_ZERO)
    alpha = [log_probs[0, states[0]], log_probs[0, states[1]], *[never] * (len(states) - 2)]
    for frame in log_probs[1:]:
        for s in range(len(states)):
            step = alpha[s - 1] if s >= 1 else never
            skip = alpha[s - 2] if may_skip[s] else never
            alpha[s] = torch.logsumexp(torch.stack([alpha[s], step, skip]), dim=0) + frame[states[s]]
    return -torch.logsumexp(torch.stack(alpha[-2:]), dim=0)


@ctc.alternative
def with_torch(log_probs, target, blank=0):
    lengths = torch.tensor([len(log_probs)]), torch.tensor([len(target)])
    return F.ctc_loss(log_probs[:, None], target[None], *lengths, blank=blank, reduction="none")


@ctc.alternative
def with_loops(log_probs, target, blank=0):
    labels = [blank]
    for label in target.tolist():
        labels += [label, blank]
    time, states = len(log_probs), len(labels)
    alpha = [[None] * states for _ in range(time)]
    alpha[0][0], alpha[0][1] = log_probs[0, labels[0]], log_probs[0, labels[1]]
    for t in range(1, time):
        for s in range(states):
            ways = [alpha[t - 1][s]]
            if s >= 1:
                ways.append(alpha[t - 1][s - 1])
            if s >= 2 and labels[s] != blank and labels[s] != labels[s - 2]:
                ways.append(alpha[t - 1][s - 2])
            ways = [way for way in ways if way is not None]
            if ways:
                alpha[t][s] = torch.stack(ways).logsumexp(0) + log_probs[t, labels[s]]
    ends = [end for end in alpha[-1][-2:] if end is not None]
    return -torch.stack(ends).logsumexp(0) if ends else torch.tensor(math.inf, dtype=log_probs.dtype)


@ctc.alternative
def by_all_paths(log_probs, target, blank=0):
    time, vocab = log_probs.shape
    wanted = target.tolist()
    labels = sorted({blank, *wanted})
    paths = [path for path in product(labels, repeat=time) if ctc_collapse(path, blank) == wanted]
    if not paths:
        return log_probs.sum() * 0 + math.inf
    chosen = log_probs[torch.arange(time), torch.tensor(paths)]
    return -chosen.sum(dim=1).logsumexp(dim=0)


@ctc.alternative
def from_the_end(log_probs, target, blank=0):
    labels = torch.full((2 * len(target) + 1,), blank)
    labels[1::2] = target
    emitted = log_probs[:, labels].flip(0)
    skips = (labels[:-2] != blank) & (labels[:-2] != labels[2:])
    beta = torch.full_like(emitted[0], -1e9)
    beta[-2:] = emitted[0, -2:]
    for row in emitted[1:]:
        after = F.pad(beta, (0, 2), value=-1e9)
        far = torch.where(F.pad(skips, (0, 2)), after[2:], -1e9)
        beta = torch.logaddexp(torch.logaddexp(beta, after[1:-1]), far) + row
    return -torch.logaddexp(beta[0], beta[1])


@ctc.alternative
def with_a_matrix(log_probs, target, blank=0):
    labels = [blank, *(each for label in target.tolist() for each in (label, blank))]
    n = len(labels)
    allowed = torch.eye(n) + torch.diag(torch.ones(n - 1), 1)
    for s in range(3, n, 2):
        allowed[s - 2, s] = labels[s] != labels[s - 2]
    moves = torch.where(allowed > 0, 0.0, -1e30).to(log_probs)
    start = torch.full((n,), -1e30).to(log_probs)
    start[:2] = 0
    alpha = start + log_probs[0, labels]
    for t in range(1, len(log_probs)):
        alpha = torch.logsumexp(alpha[:, None] + moves, dim=0) + log_probs[t, labels]
    return -alpha[-2:].logsumexp(dim=0)
