"""The exercise `generate`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect
from course_lib.decoding import sample, top_k_filter
from course_lib.exercises.decoding.shared import asked, expect_ids
from course_lib.exercises.language_model.shared import language_model as a_model


def uniform(*numbers):
    return torch.tensor(numbers).double()


writing = Exercise(
    language_model.generate,
    cases=[
        {
            "model": a_model(5, seed=110),
            "prompt": torch.tensor([3, 1]),
            "new_tokens": 4,
            "temperature": 0.5,
            "top_k": 3,
            "draws": uniform(0.91, 0.37, 0.62, 0.08),
            "max_len": 3,
        },
        {
            "model": a_model(7, seed=120),
            "prompt": torch.tensor([0, 6, 2, 2, 5]),
            "new_tokens": 6,
            "temperature": 2.0,
            "top_k": 4,
            "draws": uniform(0.15, 0.88, 0.52, 0.97, 0.33, 0.71),
            "max_len": 4,
        },
        {
            "model": a_model(6, seed=130, scale=0.8),
            "prompt": torch.tensor([4]),
            "new_tokens": 8,
            "temperature": 1.4,
            "top_k": 5,
            "draws": uniform(0.44, 0.03, 0.79, 0.95, 0.26, 0.61, 0.85, 0.12),
            "max_len": 2,
        },
        {
            "model": a_model(4, seed=140),
            "prompt": torch.tensor([2, 0, 1]),
            "new_tokens": 3,
            "temperature": 0.8,
            "top_k": 2,
            "draws": uniform(0.93, 0.55, 0.98),
            "max_len": 1,
        },
    ],
    minutes=8,
    difficulty=2,
    hidden_points=2,
    hints=[
        "It is a loop over new_tokens. In each turn: ask the model about the ids so far, choose one token, put it "
        "after the others.",
        "The model wants a batch: ids[None] is (1, time). It answers for every position; what comes next is said at "
        "the last one: logits[:, -1], of shape (1, vocab_size).",
        "You have built the choice already: reference.top_k_filter(logits, top_k), then reference.sample(logits, "
        "temperature, draws[i : i + 1]) from notebook 09.",
        "The model is given only the last tokens, ids[-max_len:]; the result keeps all of them.",
        "with torch.no_grad(): around the call of the model; ids = torch.cat([ids, drawn]) at the end of each turn.",
    ],
)


def written(subject, case, **changes):
    """The student's ids: the prompt and as many tokens as were asked for."""
    case = {**case, **changes}
    answer = asked(subject, case.values(), lambda answer: answer.long() if is_whole(answer) else answer)
    return expect_ids(answer, (len(case["prompt"]) + case["new_tokens"],))


def is_whole(answer):
    return isinstance(answer, Tensor) and not answer.is_floating_point() and answer.dtype != torch.bool


def expect_written(subject, case, where, **changes):
    case = {**case, **changes}
    got, want = written(subject, case).tolist(), language_model.generate(*case.values()).tolist()
    if got == want:
        return
    start = len(case["prompt"])
    place = next(i for i, (mine, right) in enumerate(zip(got, want, strict=True)) if mine != right)
    if place < start:
        raise Failure(f"The result should begin with the prompt {want[:start]}, but yours begins with {got[:start]}.")
    raise Failure(
        f"{where}: after {want[:place]} the next token should be {want[place]}, but yours is {got[place]}. (draws[i] "
        f"is {float(case['draws'][place - start]):g} there.)"
    )


def everything(case):
    """No token is removed, and nothing is ever cut off."""
    return {"top_k": len(case["model"].start), "max_len": len(case["prompt"]) + case["new_tokens"]}


@writing.property("the prompt, and new_tokens ids after it", points=1)
def writing_shape(subject, case):
    got = written(subject, case, **everything(case))
    prompt, vocab = case["prompt"].tolist(), len(case["model"].start)
    begins = got[: len(prompt)].tolist()
    expect(begins == prompt, f"The result should begin with the prompt {prompt}, but yours begins with {begins}.")
    expect(
        bool(((got >= 0) & (got < vocab)).all()), f"The ids run from 0 to {vocab - 1}, but yours are {got.tolist()}."
    )


@writing.property("with top_k = 1, the most likely token after everything so far", points=1)
def writing_best(subject, case):
    changes = everything(case) | {"top_k": 1, "temperature": 1.0}
    expect_written(subject, case, "With top_k = 1, temperature 1 and no limit of the context", **changes)


@writing.property("with the whole vocabulary and temperature 1, draws[i] decides", points=2)
def writing_draws(subject, case):
    changes = everything(case) | {"temperature": 1.0}
    expect_written(subject, case, "With all tokens, temperature 1 and no limit of the context", **changes)


@writing.property("the temperature, and only the top_k most likely tokens", points=2)
def writing_filters(subject, case):
    limit = {"max_len": everything(case)["max_len"]}
    where = f"With temperature {case['temperature']:g}, {{}} and no limit of the context"
    expect_written(subject, case, where.format("all tokens"), **everything(case))
    expect_written(subject, case, where.format(f"top_k = {case['top_k']}"), **limit)


@writing.property("the model is given the last max_len tokens at most", points=1)
def writing_context(subject, case):
    words = f"temperature {case['temperature']:g}, top_k = {case['top_k']}, max_len = {case['max_len']}"
    expect_written(subject, case, f"With {words}")


@writing.property("no gradient is recorded while it writes", points=1)
def writing_gradients(subject, case):
    case = {**case, "model": dataclasses.replace(case["model"], answers_gradients=True)}
    got, want = written(subject, case), language_model.generate(*case.values())
    expect(
        torch.equal(got.long(), want),
        "The model was run while torch recorded gradients. That takes memory and time, and writing needs none of it.",
    )


@writing.misconception
def multiplies_by_the_temperature(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You multiply by the temperature. Divide: a high temperature flattens.

    As it is, a high temperature makes the distribution sharper."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, 1 / temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def divides_by_the_temperature_twice(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """The temperature counts twice. `sample` divides by it already: give it the logits as they are."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits / temperature, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def ignores_the_temperature(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """The temperature changes nothing in your draws. (Dividing probabilities after the softmax, and normalising again,
    undoes itself.)"""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, 1.0, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


def draw_from_divided_probabilities(logits, temperature, u):
    """A wrong way: the probabilities are divided, not the logits."""
    ends = (logits.softmax(dim=-1) / temperature).cumsum(dim=-1)
    return (ends <= u[:, None]).sum(dim=-1).clamp(max=logits.shape[-1] - 1)


@writing.misconception
def divides_the_probabilities(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You divide the probabilities by the temperature. The logits are divided, before the softmax.

    The probabilities no longer sum to 1."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = draw_from_divided_probabilities(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def always_the_best(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You always take the most likely token. draws[i] decides which one it is."""
    ids = prompt
    for _ in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = logits.argmax(dim=-1)
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def draws_by_its_own(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You draw with random numbers of your own. Here they are given, in draws, so that the text can be written
    again."""
    ids = prompt
    for _ in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = torch.multinomial((logits / temperature).softmax(dim=-1), num_samples=1)[0]
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def one_draw_for_all(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """Every token is drawn with the first number, draws[0]. Token number i has its own: draws[i]."""
    ids = prompt
    for _ in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[:1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def draws_from_the_end(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You use the numbers in draws from the last to the first. New token number i is drawn with draws[i]."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[len(draws) - 1 - i][None])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def from_the_other_end(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You lay the probabilities out from the last token to the first. The running sum begins with token 0."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, 1 - draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def ignores_top_k(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """top_k has no effect: unlikely tokens are never removed."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def keeps_the_least_likely(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You keep the top_k least likely tokens. The most likely ones have the largest logits."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = logits.masked_fill(top_k_filter(-logits, top_k).isinf(), -math.inf)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def removes_top_k(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You remove the top_k most likely tokens, if any others are left. They are the ones to keep."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        if top_k < logits.shape[-1]:
            logits = logits.masked_fill(top_k_filter(logits, top_k).isfinite(), -math.inf)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def one_token_more(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You keep one token more than top_k. (The k-th largest logit is at place k - 1 of a sorted row.)"""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k + 1)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def fills_with_zero(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """The tokens that are to be removed get the logit 0. That is an ordinary logit, exp(0) = 1: it takes -inf to remove
    a token."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k).nan_to_num(neginf=0.0)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


def draw_without_renormalising(logits, k, temperature, u):
    """A wrong way: the probabilities of removed tokens become 0, and the others stay as they were."""
    probabilities = (logits / temperature).softmax(dim=-1)
    kept = probabilities.masked_fill(top_k_filter(logits, k).isinf(), 0.0)
    return (kept.cumsum(dim=-1) <= u[:, None]).sum(dim=-1).clamp(max=logits.shape[-1] - 1)


@writing.misconception
def filters_probabilities(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You set the probabilities of removed tokens to 0 after the softmax, and the others no longer sum to 1. Remove
    tokens before the softmax, or divide by the sum of what is left."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        drawn = draw_without_renormalising(logits, top_k, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def returns_the_rank(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """What you draw is a place in the list of the most likely tokens, not the id of the token at that place."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = logits.topk(top_k).values
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def most_likely_first(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You lay out the probabilities from the most likely token to the least. Here the order is that of the ids, so that
    everybody draws the same.

    Your draws are fair too."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits, order = logits.topk(top_k)
        drawn = order[0, sample(logits, temperature, draws[i : i + 1])]
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def first_tokens_as_context(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You give the model the first max_len tokens. What comes next follows from the last ones."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[:max_len]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def never_cuts(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You give the model everything that is written so far. It may be given the last max_len tokens at most.

    A model has been trained on windows of some length, and beyond it what it says is worth little."""
    ids = prompt
    for i in range(new_tokens):
        context = ids
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def context_one_too_short(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """Your context is one token shorter than max_len, if that leaves any."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max(max_len - 1, 1) :]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def cuts_the_prompt_once(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """Only the prompt is cut to max_len tokens, before the loop. With every new token the context grows by one: cut it
    in each turn."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[max(0, len(prompt) - max_len) :]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def forgets_the_start_of_the_prompt(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You cut the prompt itself to max_len tokens, once, before the loop. Only what the model is given is cut, in each
    turn; the result holds all of the prompt."""
    ids = prompt[-max_len:]
    for i in range(new_tokens):
        with torch.no_grad():
            logits = model(ids[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def forgets_what_was_cut(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You cut the text itself to max_len tokens. Only the model's context is cut; the result holds everything."""
    ids = prompt
    for i in range(new_tokens):
        ids = ids[-max_len:]
        with torch.no_grad():
            logits = model(ids[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def last_token_alone(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You give the model nothing but the last token. It may be given the last max_len of them: the context is what it
    predicts from."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-1:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def asks_about_the_prompt(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """The model is given the prompt again and again, and never what was written since. Ask about everything so far."""
    ids = prompt
    for i in range(new_tokens):
        context = prompt[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def forgets_the_prompt(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You return the new tokens alone. The result begins with the prompt."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids[len(prompt) :]


@writing.misconception
def writes_in_front(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You put each new token in front of the text. It comes after it."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([drawn, ids])
    return ids


@writing.misconception
def logits_of_the_first_position(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You take the logits of the first position. They are about the second token of the context; the last position is
    about what comes next."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, 0]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def keeps_the_batch(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """Your result is (1, time + new_tokens): the batch that the model wants is still there. One row of ids is wanted:
    (time + new_tokens,)."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids[None]


@writing.misconception
def length_counts_the_prompt(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """You stop when prompt and new tokens together are new_tokens long. new_tokens counts the new ones alone."""
    ids = prompt
    for i in range(new_tokens - len(prompt)):
        context = ids[-max_len:]
        with torch.no_grad():
            logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.misconception
def records_gradients(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    """The model runs while torch records gradients. Switch that off with torch.no_grad().

    Torch keeps what backward would need, and nobody is going to call it."""
    ids = prompt
    for i in range(new_tokens):
        context = ids[-max_len:]
        logits = model(context[None])[:, -1]
        logits = top_k_filter(logits, top_k)
        drawn = sample(logits, temperature, draws[i : i + 1])
        ids = torch.cat([ids, drawn])
    return ids


@writing.alternative
def in_evaluation_mode(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    was_training, device = model.training, next(iter(model.parameters())).device
    model.eval()
    ids = prompt.to(device)
    with torch.no_grad():
        for draw in draws[:new_tokens]:
            logits = top_k_filter(model(ids[None, -max_len:])[:, -1], top_k)
            ids = torch.hstack([ids, sample(logits, temperature, draw[None])])
    model.train(was_training)
    return ids


@writing.alternative
def in_a_list(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    ids = prompt.tolist()
    for u in draws.tolist()[:new_tokens]:
        with torch.no_grad():
            row = model(torch.tensor([ids[-max_len:]]))[0, -1].tolist()
        limit = sorted(row, reverse=True)[:top_k][-1]
        weights = [math.exp((value - max(row)) / temperature) if value >= limit else 0.0 for value in row]
        rest = u * sum(weights)
        for token, weight in enumerate(weights):
            rest -= weight
            if rest < 0:
                ids.append(token)
                break
    return torch.tensor(ids)


@writing.alternative
def in_a_batch(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    ids = prompt.unsqueeze(0)
    with torch.inference_mode():
        for i in range(new_tokens):
            scores = model(ids if ids.size(1) <= max_len else ids[:, -max_len:])[:, -1, :] / temperature
            values, _ = torch.topk(scores, min(top_k, scores.size(-1)))
            scores = torch.where(scores < values[:, [-1]], torch.tensor(-1e9, dtype=scores.dtype), scores)
            ends = F.softmax(scores, dim=-1).cumsum(-1)
            chosen = torch.searchsorted(ends, draws[i].reshape(1, 1), right=True)
            ids = torch.cat((ids, chosen), dim=1)
    return ids.squeeze(0).clone()


@writing.alternative
def into_a_tensor_made_before(model, prompt, new_tokens, temperature, top_k, draws, max_len):
    text = torch.zeros(len(prompt) + new_tokens, dtype=torch.int64)
    text[: len(prompt)] = prompt
    for i, place in enumerate(range(len(prompt), len(text))):
        with torch.set_grad_enabled(False):
            logits = model(text[max(0, place - max_len) : place].unsqueeze(0)).squeeze(0)[-1]
        probabilities = torch.softmax(logits / temperature, dim=0)
        keep = torch.zeros_like(probabilities, dtype=torch.bool)
        keep[probabilities.argsort(descending=True)[:top_k]] = True
        probabilities = probabilities * keep
        probabilities = probabilities / probabilities.sum()
        text[place] = int((probabilities.cumsum(0) > draws[i]).nonzero()[0])
    return text
