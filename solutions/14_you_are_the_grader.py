# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · You are the grader
#
# Until now a check told you what was wrong. Outside this course there is no check: code is published, it runs, the loss
# falls, and it is wrong. First you hunt for mistakes in four programs, each with a mistake that really was published.
# Then you change sides. You write **tests**, and they are graded by the mistakes of other people that they catch.

# %% setup
import copy
import math
import os
import warnings

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution, yours
from course_lib import you_are_the_grader as reference
from course_lib.language_model import GPT
from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.plotting import COLOURS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device
from course_lib.testing import WatchedModel, accepts, caught_by, known_mistakes, right_answers
from course_lib.training import sequence_loss, shift_right
from course_lib.training import train_step as right_step
from course_lib.transformer import Transformer, find_the_leak
from course_lib.translation import copy_batches

use_course_style()
device = course_device()
FAST = os.environ.get("COURSE_FAST") == "1"  # for testing the notebook: the same cells, fewer steps

# %% figure Where we are
show_map("14_you_are_the_grader")

# %% [markdown]
# ## 1 · "The loss falls" proves little
#
# Each check of this course is based on a list of mistakes that people really make. With these lists we can ask how good
# the most popular test is: *train it, and see whether the {{term loss}} falls*. Take all wrong training steps that the
# check of notebook 8 knows, and all wrong decoder layers of notebook 6, put each into a small Transformer, and let it
# learn one {{term batch}} by heart. We say that the loss falls if the last one is at least 10 % below the first.


# %%
def learn_by_heart(take_step, layer=None, steps: int = 4 if FAST else 25) -> list[float]:
    """The loss of each step on one batch: sequences that are to be copied."""
    torch.manual_seed(0)
    model = Transformer(20, 20, 16, 2, 32, 1)
    if layer is not None:
        model.decoder.layers[0] = layer(16, 2, 32)
    model.to(device)
    source, targets = (ids.to(device) for ids in next(iter(copy_batches(8, 1, seed=0))))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return [float(take_step(model, optimizer, source, targets, 1, 0, 1.0)) for _ in range(steps)]


def outcome(*program) -> str:
    """What somebody who only trains would see."""
    try:
        losses = learn_by_heart(*program)
    except Exception:
        return "raises an error"
    return "loss falls" if losses[-1] < 0.9 * losses[0] else "loss does not fall"


# %% figure What becomes of wrong programs in training
steps, layers = known_mistakes("train_step"), known_mistakes("DecoderLayer")
programs = {"training step": [(step,) for step in steps], "decoder layer": [(right_step, layer) for layer in layers]}
seen = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some of the wrong programs make torch complain
    for name, wrong in programs.items():
        seen[name] = [outcome(*program) for program in bar(wrong[:: 8 if FAST else 1], name)]
kinds = ("loss falls", "loss does not fall", "raises an error")
figure, ax = plt.subplots(figsize=(8, 2.2))
for row, outcomes in enumerate(seen.values()):
    left = 0
    for kind, colour in zip(kinds, (COLOURS[1], COLOURS[0], COLOURS[2])):
        count = outcomes.count(kind)
        bars = ax.barh(row, count, left=left, color=colour, label=kind if row == 0 else None)
        ax.bar_label(bars, [count or ""], label_type="center", color="white")
        left += count
ax.set(title="Known wrong programs, put into a Transformer and trained", xlabel="number of wrong programs")
ax.set_yticks(range(len(seen)), [f"wrong {name}s" for name in seen])
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.32), ncols=3, frameon=False)
plt.show()
everything = [one for outcomes in seen.values() for one in outcomes]
falls = everything.count("loss falls") / len(everything)
print(f"{falls:.0%} of {len(everything)} wrong programs have a loss that falls")

# %% claims
if not FAST:
    claim("of the right one, too", outcome(right_step) == "loss falls")
    claim("in nine of ten", falls > 0.86)
    cheats = next(step for step in steps if step.__name__ == "gives_the_targets_unshifted")
    claim("a cheat's loss falls faster", learn_by_heart(cheats)[-1] < 0.8 * learn_by_heart(right_step)[-1])

# %% [markdown]
# For nine out of ten the loss falls. {{term gradient|Gradients}} find a way around most mistakes, and a network with a
# mistake is often a slightly worse network, not a broken one. Some mistakes show only in a setting that was not used
# here, as in post-norm layers. And some losses even fall *faster*: those of programs that cheat.
#
# So you have to look for mistakes. The next four programs have the same story: each was published (rewritten here, but
# with its real mistake), it runs, and the shapes are right. For each, find the **symptom** by measuring, then write the
# program as it should be.
#
# ## 2 · First hunt: too good to be true
#
# A {{term language model}} is trained to predict the next {{term token}}. An article computes its loss like this:


# %%
def published_loss(model, ids, pad_id):
    logits = model(ids)  # (batch, time, vocab)
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), ignore_index=pad_id)


# %% [markdown]
# To judge a loss, you need to know what is *possible*. So train on something whose best loss is known: **random
# tokens**. Nobody can predict the next one of 11 equally likely tokens; the best possible loss is $\ln 11 \approx 2.40$
# {{term nat|nats}}. Fresh ones are drawn for each step, so that nothing can be learned by heart.


# %%
def train_on_chance(loss_of, model: nn.Module, steps: int = 40 if FAST else 200) -> list[float]:
    """The losses of a model that is trained on random tokens from 1 to 11."""
    torch.manual_seed(0)
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in bar(range(steps), "training"):
        ids = torch.randint(1, 12, (16, 20)).to(device)
        loss = loss_of(model, ids, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)
published_losses = train_on_chance(published_loss, GPT(12, 16, 2, 32, 1))
print(f"possible: {math.log(11):.3f}   reached: {published_losses[-1]:.3f}")

# %% claims
claim("nearly 0", published_losses[-1] < 0.1)

# %% [markdown]
# Nearly 0. A model that beats chance on random tokens has seen the answer. Where? Write down what the model has seen at
# position $t$, and what it is asked for there.
#
# $$L = \text{mean over all real next tokens of} \; -\log p(x_{t+1} \mid x_0 \dots x_t)$$
#
# {{exercise next_token_loss}}


# %% exercise next_token_loss
def next_token_loss(model, ids: Tensor, pad_id: int) -> Tensor:
    """The mean of -log p(next token) over all next tokens of the batch that are not padding.

    model: ids (batch, time) -> logits (batch, time, vocab). It is causal: position t has seen tokens 0 to t.
    ids: (batch, time). Returns: a number, in nats.
    """
    ### BEGIN SOLUTION
    logits = model(ids[:, :-1])  # (batch, time - 1, vocab)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=pad_id)
    ### END SOLUTION


# %% check next_token_loss
check(next_token_loss)

# %% figure The loss on random tokens, before and after
own_loss = yours("next_token_loss", next_token_loss)
torch.manual_seed(0)
mended_losses = train_on_chance(own_loss, GPT(12, 16, 2, 32, 1))
figure, ax = plt.subplots(figsize=(7, 2.8))
ax.plot(published_losses, label="as published")
ax.plot(mended_losses, label="mended")
ax.axhline(math.log(11), color="grey", linestyle=":", label="the best possible, ln 11")
ax.set(title="Trained on random tokens", xlabel="step", ylabel="loss (nats)", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %% claims
claim("the mended loss stays at what is possible", min(mended_losses[-10:]) > math.log(11) - 0.05)

# %% [markdown]
# The mended one stays where it must. The curve that looked wrong to a beginner is the right one.
#
# ## 3 · Second hunt: a mask that does not hide
#
# {{term causal|Causal}} attention with several {{term head|heads}}, given projected queries, keys and values. The
# {{term mask}} is right; you may check it.


# %%
def published_heads(q, k, v, num_heads):
    batch, time, d_model = q.shape
    d_k = d_model // num_heads
    q = q.view(batch, num_heads, time, d_k)  # (batch, head, time, d_k)
    k = k.view(batch, num_heads, time, d_k)
    v = v.view(batch, num_heads, time, d_k)
    scores = q @ k.transpose(2, 3) / math.sqrt(d_k)  # (batch, head, time, time)
    future = torch.ones(time, time, device=q.device).triu(diagonal=1).bool()
    weights = scores.masked_fill(future, -1e9).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, time, d_model)


class OneAttention(nn.Module):
    """A small language model around whatever attention it is given."""

    def __init__(self, attend, num_heads: int, vocab_size: int = 12, d_model: int = 16, max_len: int = 32):
        super().__init__()
        self.attend, self.num_heads = attend, num_heads
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.project = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]  # (batch, time, d_model)
        q, k, v = self.project(x).chunk(3, dim=-1)
        return self.out(x + self.attend(q.contiguous(), k.contiguous(), v.contiguous(), self.num_heads))


# %% [markdown]
# With the mended loss, on random tokens:

# %%
chance_losses = {}
for num_heads in (1, 2, 4):
    torch.manual_seed(0)
    chance_losses[num_heads] = train_on_chance(reference.next_token_loss, OneAttention(published_heads, num_heads))
    last = sum(chance_losses[num_heads][-10:]) / 10
    print(f"heads: {num_heads}   loss {last:.3f}   possible {math.log(11):.3f}")

# %% claims
claim("with one head nothing is seen", sum(chance_losses[1][-10:]) / 10 > math.log(11) - 0.03)
if not FAST:
    claim("with four heads it beats chance", sum(chance_losses[4][-10:]) / 10 < math.log(11) - 0.1)

# %% [markdown]
# With one head all is well. With four it beats chance: **the future leaks**. So the size at which you test decides what
# you see, and 1 is a bad size. Which token leaks where? Replace one token, run again, and see which outputs move
# (`find_the_leak` from notebook 7):

# %% figure Who sees whom, as published
ids = torch.tensor([1, 5, 3, 7, 2, 4, 8, 6])
leaks = {}
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for ax, num_heads in zip(axes, (1, 2, 4)):
    torch.manual_seed(0)
    model = OneAttention(published_heads, num_heads).double()
    with torch.no_grad():
        leaks[num_heads] = find_the_leak(model, ids, 12)
    show_matrix(
        leaks[num_heads].float(), f"{num_heads} head{'s' * (num_heads > 1)}", rows="output", columns="token replaced",
        numbers=False, limits=(0, 1), ax=ax,
    )  # fmt: skip
plt.suptitle("Yellow: the output depends on this token. Above the diagonal nothing may be yellow")
plt.show()

# %% claims
claim("one head is causal", not leaks[1].triu(1).any())
claim("two and four heads leak", bool(leaks[2].triu(1).any()) and bool(leaks[4].triu(1).any()))
claim("and do not see all of the past", not leaks[2].tril().sum() == 36)

# %% [markdown]
# Outputs see tokens of the future and miss tokens of the past. The mask hides places in a matrix; but the rows of that
# matrix are no longer tokens. Which line mixes them up?
#
# {{exercise causal_heads}}


# %% exercise causal_heads
def causal_heads(q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Tensor:
    """Causal attention in each head: head i owns features i*d_k to (i+1)*d_k - 1 of q, k, v and of the result.

    q, k, v: (batch, time, d_model), already projected; `num_heads` divides d_model.
    Returns: (batch, time, d_model).
    """
    ### BEGIN SOLUTION
    q, k, v = (split_heads(x, num_heads) for x in (q, k, v))  # (batch, head, time, d_k)
    time, d_k = q.shape[-2:]
    scores = q @ k.transpose(2, 3) / math.sqrt(d_k)  # (batch, head, time, time)
    future = torch.ones(time, time, device=q.device).triu(diagonal=1).bool()
    weights = scores.masked_fill(future, -1e9).softmax(dim=-1)
    return merge_heads(weights @ v)
    ### END SOLUTION


# %% check causal_heads
check(causal_heads)

# %% [markdown]
# There is a second published version: the split is right, and the scores are divided by $\sqrt{d_\text{model}}$. It
# leaks nothing, so no experiment above would show it. The check knows it. What other test could find it? (Section 8.)
#
# ## 4 · Third hunt: a matter of chance
#
# {{term dropout|Dropout}} sets each feature to 0 with probability $p$ in training, and does nothing in evaluation. "It
# zeroes some features at random", says a tutorial, and does just that:


# %%
def published_dropout(x, noise, p, training):
    """noise: the shape of x, uniform between 0 and 1."""
    if training:
        x = x.masked_fill(noise < p, 0.0)
    return x


# %% [markdown]
# A result of chance cannot be compared with a right answer. Its **mean** can, if you know how far a mean may deviate.
# The mean of $n$ draws with standard deviation $\sigma$ deviates by about $\sigma / \sqrt n$, the
# {{term standard error}}; a deviation of more than four of them happens about once in 16,000 tests. So the test needs
# no luck, only enough draws. What should the mean be? A layer that learns with dropout meets its input again without
# it, so the mean should stay what it was.

# %% figure The mean of dropped ones, over more and more draws
torch.manual_seed(0)
p, draws = 0.3, 20_000
noise = torch.rand(draws)
ones = torch.ones(draws)
count = torch.arange(1, draws + 1)
running = published_dropout(ones, noise, p, training=True).cumsum(0) / count
expected = reference.dropout(ones, noise, p, training=True).cumsum(0) / count
error = math.sqrt(p / (1 - p)) / count.sqrt()
figure, ax = plt.subplots(figsize=(7, 3))
ax.fill_between(count, 1 - 4 * error, 1 + 4 * error, color="grey", alpha=0.25, label="1 ± 4 standard errors")
ax.plot(count, running, label="as published")
ax.plot(count, expected, label="as it should be")
ax.set(title=f"Mean of a 1 after dropout with p = {p}", xlabel="draws", ylabel="mean so far", xscale="log", ylim=(0, 2))
ax.legend(frameon=False, loc="upper right")
plt.show()
first_outside = next(n for n in range(1, draws) if bool((running < 1 - 4 * error)[n:].all()))
print(f"from {first_outside} draws on the published mean is outside for good; in the end it is {running[-1]:.3f}")

# %% claims
claim("four standard errors: once in 16,000", 15_000 < 1 / math.erfc(4 / math.sqrt(2)) < 17_000)
claim("it settles at 1 - p", abs(running[-1] - 0.7) < 0.01)
claim("a hundred draws are enough", first_outside < 100)
claim("ten are not", running[9] > 1 - 4 * error[9])
claim("the right one is inside at the end", abs(expected[-1] - 1) < 4 * error[-1])

# %% [markdown]
# The published mean settles at $1 - p = 0.7$. With ten draws nobody could tell the difference; a hundred are enough. In
# a network it adds up:

# %%
x = torch.ones(1, 4000)
with_dropout, without = x, x
for layer in range(1, 7):
    with_dropout = published_dropout(with_dropout, torch.rand(1, 4000), 0.3, training=True)
    with_dropout = with_dropout.mean() * torch.ones_like(x)  # a layer that averages
    print(f"after layer {layer}: in training {with_dropout.mean():.3f}, in evaluation {without.mean():.3f}")

# %% claims
claim("after six layers, evaluation is more than 7 times larger", without.mean() / with_dropout.mean() > 7)

# %% [markdown]
# {{exercise dropout}}
#
# `noise` is an argument, so that the result can be tested exactly: **take chance out of the function**, and hand it in.


# %% exercise dropout
def dropout(x: Tensor, noise: Tensor, p: float, training: bool) -> Tensor:
    """In training, set each feature to 0 with probability p, and keep the expected value of all features.

    noise: the shape of x, uniform between 0 and 1; a feature is kept where the noise is at least p. 0 <= p < 1.
    Returns: the shape of x. In evaluation, x as it is.
    """
    ### BEGIN SOLUTION
    if not training:
        return x
    return x * (noise >= p) / (1 - p)
    ### END SOLUTION


# %% check dropout
check(dropout)

# %% [markdown]
# ## 5 · Fourth hunt: two mistakes at once
#
# A model is judged by its {{term perplexity}} on text that it was not trained on: $e$ to the mean loss, over all real
# targets. This is how a repository measures it:


# %%
def published_perplexity(model, batches, bos_id, pad_id):
    losses = []
    with torch.no_grad():
        for source, targets in batches:
            logits = model(source, shift_right(targets, bos_id))
            losses.append(sequence_loss(logits, targets, pad_id))
    return torch.stack(losses).mean().exp().item()


torch.manual_seed(0)
model = Transformer(20, 20, 16, 2, 32, 1, dropout=0.2).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for source, targets in bar(copy_batches(32, 20 if FAST else 150, seed=1), "training", total=20 if FAST else 150):
    right_step(model, optimizer, source.to(device), targets.to(device), 1, 0, 1.0)
((source, targets),) = copy_batches(64, 1, seed=2, shortest=1)
by_length = (targets != 0).sum(dim=1).argsort()
source, targets = source[by_length].to(device), targets[by_length].to(device)  # short sentences first


def dealt_out(size: int) -> list[tuple[Tensor, Tensor]]:
    """The same 64 sentences in batches of this size."""
    return list(zip(source.split(size), targets.split(size)))


# %% [markdown]
# Two questions that every measurement has to answer in the same way: *do I get the same number again?* and *does it
# depend on something that should not matter?* How the same 64 sentences are divided into batches should not matter.

# %%
again = [published_perplexity(model, dealt_out(64), 1, 0) for _ in range(3)]
print("the same three times:", ", ".join(f"{value:.3f}" for value in again))
model.eval()  # so that only the second question is asked
by_size = {size: published_perplexity(model, dealt_out(size), 1, 0) for size in (64, 32, 8, 1)}
model.train()
for size, value in by_size.items():
    print(f"batches of {size:2}: {value:.3f}")

# %% claims
claim("not the same again", max(again) - min(again) > 1e-4)
claim("it depends on the batches", max(by_size.values()) / min(by_size.values()) > 1.002)

# %% [markdown]
# Both answers are bad. (Some libraries sort sentences by length, as we did here, to save padding. Then the batches
# differ most.)
#
# {{exercise perplexity}}
#
# `shift_right(targets, bos_id)` and `sequence_loss(logits, targets, pad_id)` from notebook 8 are right.


# %% exercise perplexity
def perplexity(model: nn.Module, batches, bos_id: int, pad_id: int) -> float:
    """exp(mean of -log p(target)) over all real targets of all batches, with the model in evaluation mode.

    batches: pairs of source ids (batch, source) and target ids (batch, target).
    """
    ### BEGIN SOLUTION
    model.eval()
    total, count = 0.0, 0
    for source, targets in batches:
        with torch.no_grad():
            logits = model(source, shift_right(targets, bos_id))
        number = int((targets != pad_id).sum())
        total += sequence_loss(logits, targets, pad_id).item() * number
        count += number
    return math.exp(total / count)
    ### END SOLUTION


# %% check perplexity
check(perplexity)

# %%
own_perplexity = yours("perplexity", perplexity)
mended = {size: own_perplexity(model.train(), dealt_out(size), 1, 0) for size in (64, 64, 32, 8, 1)}
print("mended:", ", ".join(f"batches of {size}: {value:.4f}" for size, value in mended.items()))

# %% claims
claim("mended, nothing depends on the batches", max(mended.values()) - min(mended.values()) < 1e-3)

# %% [markdown]
# ## 6 · Which test catches which mistake?
#
# You have used four instruments: data whose best result is known, replacing a token, a mean over many draws, and
# changing what should not matter. Now let us be systematic. `softmax(x, dim)` from notebook 0 has a list of 45 known
# mistakes. Here are thirteen small tests of it, of many kinds:

# %%
torch.manual_seed(0)
X = torch.randn(2, 3, 4)  # all sizes differ
FAR = torch.tensor([[5000.0, 5001.0, 5000.0], [0.0, 1.0, 0.0], [-5000.0, -4999.0, -5000.0]])  # three times the same
ROW = torch.tensor([1.0, math.e, 1.0]) / (2 + math.e)  # the softmax of each row


def slow_softmax(x: Tensor) -> Tensor:
    """Along axis 1, number by number. x: (2, 3, 4)."""
    result = torch.empty_like(x)
    for i in range(2):
        for k in range(4):
            total = sum(math.exp(x[i, j, k]) for j in range(3))
            for j in range(3):
                result[i, j, k] = math.exp(x[i, j, k]) / total
    return result


def slope_of_the_sum(softmax) -> Tensor:
    x = X.clone().requires_grad_()
    softmax(x, -1).sum().backward()
    return x.grad


def leaves_unchanged(softmax) -> bool:
    x = X.clone()
    softmax(x, -1)
    return torch.equal(x, X)


softmax_tests = {  # each gets its own copy of the input
    "it has the shape of x": lambda s: s(X.clone(), -1).shape == X.shape,
    "an example: 0, ln 3": lambda s: torch.allclose(s(torch.tensor([0, math.log(3)]), -1), torch.tensor([0.25, 0.75])),
    "rows sum to 1": lambda s: torch.allclose(s(X.clone(), -1).sum(-1), torch.ones(2, 3)),
    "all are positive": lambda s: (s(X.clone(), -1) > 0).all(),
    "the order stays": lambda s: torch.equal(s(X.clone(), -1).argsort(-1), X.argsort(-1)),
    "x + 5 changes nothing": lambda s: torch.allclose(s(X + 5, -1), s(X.clone(), -1), atol=1e-5),
    "another axis sums to 1": lambda s: torch.allclose(s(X.clone(), 1).sum(1), torch.ones(2, 4)),
    "it equals the slow one": lambda s: torch.allclose(s(X.clone(), 1), slow_softmax(X), atol=1e-5),
    "rows far from 0": lambda s: torch.allclose(s(FAR.clone(), -1), ROW.expand(3, 3), atol=1e-3),
    "columns far from 0": lambda s: torch.allclose(s(FAR.T.clone(), 0), ROW[:, None].expand(3, 3), atol=1e-3),
    "numbers far apart": lambda s: torch.equal(s(FAR[:, 0].clone(), 0), torch.tensor([1.0, 0.0, 0.0])),
    "x stays as it is": leaves_unchanged,
    "the slope of a row's sum is 0": lambda s: slope_of_the_sum(s).abs().max() < 1e-5,
}

# %% figure Tests and mistakes
from itertools import combinations

wrong_softmaxes, right_softmaxes = known_mistakes("softmax"), right_answers("softmax")
refused = {name: caught_by(test, right_softmaxes) for name, test in softmax_tests.items()}
caught = {name: caught_by(test, wrong_softmaxes) for name, test in softmax_tests.items()}
mistakes = sorted((m.__name__ for m in wrong_softmaxes), key=lambda m: -sum(m in found for found in caught.values()))
together = set().union(*caught.values())
smallest = next(
    chosen
    for size in range(1, len(caught) + 1)
    for chosen in combinations(caught, size)
    if set().union(*(caught[name] for name in chosen)) == together
)
picture = torch.tensor([[m in found for m in mistakes] for found in caught.values()]).float()
names = [f"{'● ' * (name in smallest)}{name}  {len(found):2}" for name, found in caught.items()]
figure, ax = plt.subplots(figsize=(9.5, 4.2))
look = {"rows": "", "columns": "45 known mistakes", "row_names": names, "numbers": False}
show_matrix(picture, "Yellow: the test (row) catches the mistake (column); ● a smallest set of tests", ax=ax, **look)
ax.set_xticks([])
plt.show()
print(f"all together: {len(together)} of {len(mistakes)}; right answers refused: {sum(map(len, refused.values()))}")
print(f"{len(smallest)} of {len(caught)} tests catch as many: {' + '.join(smallest)}")

# %% claims
claim("45 mistakes, all caught together", len(mistakes) == 45 == len(together))
claim("no right answer is refused", not any(refused.values()))
claim("thirteen tests", len(softmax_tests) == 13)
claim("no test catches more than four fifths", max(map(len, caught.values())) < 0.8 * 45)
claim("the example catches fewer than half", len(caught["an example: 0, ln 3"]) < 22.5)
claim("so does the sum", len(caught["rows sum to 1"]) < 22.5)
claim("five are enough", len(smallest) == 5)
ordinary = [len(found) for name, found in caught.items() if "far" not in name]
claim("the slow one catches most of those on ordinary numbers", len(caught["it equals the slow one"]) == max(ordinary))
claim("about three quarters", 0.68 < len(caught["it equals the slow one"]) / 45 < 0.8)
beyond = caught["columns far from 0"] | caught["numbers far apart"]
claim("extremes find what the slow one does not", len(beyond - caught["it equals the slow one"]) > 3)
outputs = set().union(*(found for name, found in caught.items() if "stays as" not in name and "slope" not in name))
claim("gradients and side effects find what no output shows", len(outputs) < 45)

# %% [markdown]
# - **An example** by hand ("0 and ln 3 give ¼ and ¾") is where everybody begins. It catches fewer than half of them.
# - **A property** ("rows sum to 1") needs no expected numbers, and each alone is weak: many wrong answers sum to 1.
# - **A comparison with a slow and obvious program** catches three quarters. Loops over single numbers are hard to get
#   wrong.
# - **Extremes** find what the slow program does not, since it would overflow there itself.
# - **Gradients** and **side effects** find what no output shows.
#
# No test catches everything; five of different kinds do. (Each test has its own copy of the input. A program that
# writes into its input would otherwise change it for all programs after it, and the tests would report nonsense.)
#
# Now write your own. The rules for the next five exercises:
#
# - Your function is given an *implementation* and returns True if it is right, False if not. If it raises an error, or
#   the implementation does, that counts as False, so a failed `assert` is a rejection, too.
# - It is tried on right implementations (the course's own and quite different ones) and on known mistakes. The check
#   tries some of the mistakes; when your notebook is graded, all of them are tried, under other names. Most are tried
#   twice, and count only if your test gives the right answer both times.
# - With a share $a$ of right ones accepted and a share $c$ of mistakes caught you get
#   $\text{points} \times \max(0,\, a + c - 1)$, rounded down. Accepting everything earns nothing, and so does rejecting
#   everything.
#
# ## 7 · A test of causal masks
#
# `causal_mask(n)` is $(n, n)$ and allows exactly $j \le i$. Right answers come as truth values or as 0 and 1. What do
# you need to look at, and at which $n$?
#
# {{exercise accepts_causal_mask}}


# %% exercise accepts_causal_mask
def accepts_causal_mask(causal_mask) -> bool:
    """Is this implementation of `causal_mask(n)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """
    ### BEGIN SOLUTION
    for n in (1, 2, 5):
        mask = causal_mask(n)
        wanted = torch.ones(n, n).tril()
        if mask.shape != wanted.shape or not torch.equal(mask.double(), wanted.double()):
            return False
    return True
    ### END SOLUTION


# %% check accepts_causal_mask
check(accepts_causal_mask)

# %% [markdown]
# ## 8 · A test of attention: sizes, scale, tolerance
#
# For `scaled_dot_product_attention(q, k, v)`, which returns the output and the weights, write the slow program: for
# each query, for each key. Then three things decide what your test sees. We measure them with the course's own
# attention as the right answer and its 65 known mistakes.

# %% figure What a comparison sees
from course_lib.dot_product_attention import scaled_dot_product_attention

wrong_attentions = known_mistakes("scaled_dot_product_attention")
right_attentions = right_answers("scaled_dot_product_attention")


def compared(sizes=(2, 3, 5, 6, 7), scale: float = 1.0, tolerance: float = 1e-4):
    """A test that compares outputs and weights once. sizes: batch, queries, keys, d_k, d_v."""
    batch, queries, keys, d_k, d_v = sizes

    def test(attention) -> bool:
        torch.manual_seed(1)
        shapes = (batch, queries, d_k), (batch, keys, d_k), (batch, keys, d_v)
        inputs = [scale * torch.randn(*shape) for shape in shapes]
        pairs = zip(attention(*inputs), scaled_dot_product_attention(*inputs), strict=True)
        return all(got.shape == want.shape and torch.allclose(got, want, 0, tolerance) for got, want in pairs)

    return test


def number_caught(**settings) -> int:
    return len(caught_by(compared(**settings), wrong_attentions))


size_results = {
    "all sizes 1": number_caught(sizes=(1, 1, 1, 1, 1)),
    "all sizes 4": number_caught(sizes=(4, 4, 4, 4, 4)),
    "all different, d_k = 4": number_caught(sizes=(2, 3, 5, 4, 7)),
    "all different, d_k = 6": number_caught(),
}
scales = [10.0**e for e in (-3, -2, -1, 0, 1, 2, 3)]
scale_results = [number_caught(scale=scale) for scale in scales]
tolerances = [10.0**-e for e in range(9, -1, -1)]
tolerance_results = [number_caught(tolerance=tolerance) for tolerance in tolerances]
right_results = [sum(accepts(compared(tolerance=tolerance), a) for a in right_attentions) for tolerance in tolerances]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), gridspec_kw={"width_ratios": (1.1, 1, 1.2)})
axes[0].bar_label(axes[0].barh(list(size_results), list(size_results.values()), color=COLOURS[0]), padding=2)
axes[0].invert_yaxis()
axes[0].set(title="Sizes", xlabel="mistakes caught", xlim=(0, 75))
axes[1].plot(scales, scale_results, "o-")
axes[1].set(
    title="Scale of the inputs", xscale="log", xlabel="standard deviation", ylabel="mistakes caught", ylim=(0, 70)
)
axes[2].plot(tolerances, [100 * n / 65 for n in tolerance_results], "o-", label="mistakes caught")
axes[2].plot(tolerances, [100 * n / len(right_attentions) for n in right_results], "s-", label="right ones accepted")
axes[2].set(title="Tolerance", xscale="log", xlabel="absolute tolerance", ylabel="%", ylim=(0, 105))
axes[2].legend(frameon=False, loc="lower right", fontsize=8, handlelength=1.2)
plt.show()

# %% claims
claim("sizes of 1 hide most mistakes", size_results["all sizes 1"] < 65 / 3)
claim("different sizes catch more", size_results["all sizes 4"] < size_results["all different, d_k = 4"])
claim("d_k = 4 hides some", size_results["all different, d_k = 4"] < size_results["all different, d_k = 6"])
claim("tiny and huge inputs hide many", max(scale_results[0], scale_results[-1]) < 0.8 * scale_results[3])
claim("below 1e-6 most right answers are refused", right_results[2] < len(right_attentions) / 2)
claim("from 1e-6 on all are accepted", min(right_results[3:]) == len(right_attentions))
claim("from there to 0.01 it hardly matters", tolerance_results[3] - tolerance_results[7] <= 1)
claim("at 1 many slip through", tolerance_results[-1] < 0.8 * tolerance_results[5])
claim("a comparison of outputs alone leaves some", max(size_results.values()) < 65)
claim("there are 65", len(wrong_attentions) == 65 and len(right_attentions) == 6)
claim("NaN is not larger", not float("nan") > 1e-3)

# %% [markdown]
# - **Sizes.** With all sizes 1 there is one key and every weight is 1. With all sizes equal, an extra axis or a wrong
#   one goes unnoticed. Even $d_k = 4$ hides something: $\sqrt 4 = 4 / 2 = 2$. Make every size different, none of them
#   1, and avoid numbers that coincide like this.
# - **Scale.** Tiny inputs make all weights equal, huge ones give all weight to one key. Both hide what the scores were.
#   Use inputs with a standard deviation near 1, and add one extreme case for overflow.
# - **Tolerance.** The five other right answers differ from ours in the seventh digit, because they add in another
#   order. A tolerance below $10^{-6}$ refuses them; from there to $10^{-2}$ it hardly matters; at 1 wrong answers slip
#   through.
#   And beware of NaN, which is neither larger nor smaller than anything: `difference > 1e-3` is False for it, so ask
#   whether the difference is *within* the tolerance, as `torch.allclose` does.
#
# What remains are mistakes that no ordinary output shows: a cut gradient, an input that was changed, a special case.
# The shapes are `q` (..., query, $d_k$), `k` (..., key, $d_k$) and `v` (..., key, $d_v$), with any number of axes in
# front. A right answer may return a list instead of a tuple, so unpack it: `output, weights = attention(q, k, v)`.
#
# {{exercise accepts_attention}}


# %% exercise accepts_attention
def accepts_attention(attention) -> bool:
    """Is this implementation of `scaled_dot_product_attention(q, k, v)`, which returns (output, weights), right?

    Returns: True if it is right, False if not. An error counts as False.
    """

    ### BEGIN SOLUTION
    def slow_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """In loops, as the formula says it. q: (query, d_k); k: (key, d_k); v: (key, d_v)."""
        rows = []
        for query in q:
            scores = torch.stack([query.dot(key) / math.sqrt(len(key)) for key in k])  # (key,)
            rows.append(scores.softmax(dim=0))
        weights = torch.stack(rows)  # (query, key)
        return weights @ v, weights

    torch.manual_seed(0)
    inputs = torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 7)  # every size is different
    for scale in (1.0, 40.0):
        q, k, v = ((scale * x).requires_grad_() for x in inputs)
        output, weights = attention(q, k, v)
        slow = [slow_attention(*sequence) for sequence in zip(q, k, v)]
        for got, want in ((output, torch.stack([o for o, _ in slow])), (weights, torch.stack([w for _, w in slow]))):
            if got.shape != want.shape or not torch.allclose(got, want, rtol=1e-3, atol=1e-3):
                return False
        if not all(torch.equal(x, scale * before) for x, before in zip((q, k, v), inputs)):
            return False
        got_slopes = torch.autograd.grad(output.square().sum(), (q, k, v))
        want_slopes = torch.autograd.grad(torch.stack([o for o, _ in slow]).square().sum(), (q, k, v))
        if not all(torch.allclose(got, want, rtol=1e-2, atol=1e-2) for got, want in zip(got_slopes, want_slopes)):
            return False
    q, k, v = (x[0] for x in inputs)
    return torch.allclose(attention(q, k, v)[0], slow_attention(q, k, v)[0], atol=1e-4)

    ### END SOLUTION


# %% check accepts_attention
check(accepts_attention)

# %% [markdown]
# ## 9 · A test of a module: what must not happen
#
# `PositionalEncoding(d_model, max_len)` (notebook 3) adds the sinusoidal table to a batch $(b, t, d_\text{model})$. A
# class can be wrong in more ways than a function. Think of what should *not* happen: nothing is trained; `x` is not
# changed; its dtype is kept, in {{term half precision}}, too; nothing depends on the size of the batch, on `max_len`,
# or on the mode (it contains no dropout); the table is a {{term buffer}}, so that it moves along to another device; an
# odd width works, the last column being a sine. And of course:
#
# $$\text{result}_{b,t,2i} = x_{b,t,2i} + \sin\!\big(t / 10000^{2i/d}\big) \qquad
# \text{result}_{b,t,2i+1} = x_{b,t,2i+1} + \cos\!\big(t / 10000^{2i/d}\big)$$
#
# {{exercise accepts_positional_encoding}}


# %% exercise accepts_positional_encoding
def accepts_positional_encoding(PositionalEncoding) -> bool:
    """Is this implementation of the class `PositionalEncoding(d_model, max_len)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """

    ### BEGIN SOLUTION
    def table(n: int, d_model: int) -> Tensor:
        """The sinusoidal table, number by number: (n, d_model)."""
        rows = []
        for position in range(n):
            angles = [position / 10000 ** (2 * (column // 2) / d_model) for column in range(d_model)]
            rows.append([math.cos(angle) if column % 2 else math.sin(angle) for column, angle in enumerate(angles)])
        return torch.tensor(rows)

    torch.manual_seed(0)
    for d_model, batch, time in ((6, 3, 5), (7, 5, 2), (4, 2, 11)):
        layer = PositionalEncoding(d_model, 11).train()
        x = torch.randn(batch, time, d_model, requires_grad=True)
        before = x.detach().clone()
        result = layer(x)
        if result.shape != x.shape or not torch.equal(x, before):
            return False
        if not torch.allclose(result, before + table(time, d_model), atol=1e-4):
            return False
        result.sum().backward()
        if x.grad is None or not torch.equal(x.grad, torch.ones_like(x)):
            return False
        if any(parameter.requires_grad for parameter in layer.parameters()) or not list(layer.buffers()):
            return False
        if layer(before.half()).dtype != torch.float16:
            return False
    return True

    ### END SOLUTION


# %% check accepts_positional_encoding
check(accepts_positional_encoding)

# %% [markdown]
# ## 10 · A test for leaks: who influences whom
#
# For a whole decoder layer a slow program is long, and would have to be given the same weights. But one question needs
# neither: **does information flow exactly where the masks allow it?** There are two instruments. *Perturbation*: change
# one input, and see which outputs move. *Gradients*: an output that does not depend on an input has a gradient of
# exactly 0 to it, and one backward pass asks about all inputs at once:


# %%
def who_sees_whom(output: Tensor, source: Tensor) -> Tensor:
    """Which positions of the output depend on which positions of the source, by gradients.

    output: (batch, time', d); source: (batch, time, d). Returns: (batch, time', time) boolean.
    """
    direction = torch.randn(output.shape[-1])  # one number out of d features
    rows = []
    for place in range(output.shape[1]):
        number = (output[:, place] @ direction).sum()
        (slope,) = torch.autograd.grad(number, source, retain_graph=True, allow_unused=True)
        rows.append(torch.zeros_like(source) if slope is None else slope)
    return torch.stack(rows, dim=1).abs().amax(dim=-1) > 0


# %% figure A right decoder layer, and three that leak
from course_lib.encoder_decoder import DecoderLayer
from course_lib.masks import causal_mask as right_mask

wrong_layers = {layer.__name__: layer for layer in layers}
kinds = {
    "right": DecoderLayer,
    "mask forgotten": wrong_layers["ForgetsTheCausalMask"],
    "mask transposed": wrong_layers["TransposesTheTargetMask"],
    "source's mask for both": wrong_layers["UsesTheMemoryMaskForBoth"],
}
maps = {}
figure, axes = plt.subplots(1, 4, figsize=(10, 2.9))
for ax, (name, kind) in zip(axes, kinds.items(), strict=True):
    torch.manual_seed(0)
    x, memory = torch.randn(1, 6, 8, requires_grad=True), torch.randn(1, 6, 8)
    real = torch.tensor([[[True, True, True, True, False, False]]])  # the source has two places of padding
    maps[name] = who_sees_whom(kind(8, 2, 12)(x, memory, right_mask(6), real), x)[0]
    show_matrix(maps[name].float(), name, rows="output", columns="target", numbers=False, limits=(0, 1), ax=ax)
plt.suptitle("Yellow: the output depends on this target, by gradients")
plt.show()

# %% claims
claim("the right one is causal", torch.equal(maps["right"], right_mask(6)))
claim(
    "the others are not", all(not torch.equal(found, right_mask(6)) for name, found in maps.items() if name != "right")
)

# %% [markdown]
# In these pictures, source and target have the same length. That lets the last mistake run at all: with different
# lengths, the source's mask would not fit the targets, and torch would say so.
#
# Both instruments have a trap, and it is the same one. *How* do you change an input? Adding 1 to all features of the
# last target looks like a change. And *which* number do you take the gradient of? The sum of an output's features is
# the first that comes to mind.

# %%
torch.manual_seed(0)
leaking = wrong_layers["ForgetsTheCausalMask"](8, 2, 12).eval()
x, memory = torch.randn(1, 6, 8), torch.randn(1, 6, 8)
moves = {}
for name, change in (("add 1", torch.ones(8)), ("add noise", torch.randn(8))):
    changed = x.clone()
    changed[:, -1] += change  # the last target
    with torch.no_grad():
        before, after = leaking(x, memory, right_mask(6)), leaking(changed, memory, right_mask(6))
    moves[name] = (after - before)[:, :-1].abs().max().item()
    print(f"{name:10} the earlier outputs move by {moves[name]:.7f}")

post_norm = DecoderLayer(8, 2, 12, 0.0, False)  # ends with a norm
x.requires_grad_()
output = post_norm(x, memory, right_mask(6))[:, -1]  # it sees all targets
slopes = {}
for name, number in (("the sum", output.sum()), ("a random direction", (output @ torch.randn(8)).sum())):
    slopes[name] = torch.autograd.grad(number, x, retain_graph=True)[0].abs().max().item()
    print(f"{name:18} has a gradient of at most {slopes[name]:.7f}")

# %% claims
claim("the sum has hardly any gradient", slopes["the sum"] < 1e-4 * slopes["a random direction"])
claim("a constant goes unnoticed", moves["add 1"] < 1e-5)
claim("noise does not", moves["add noise"] > 1e-3)

# %% [markdown]
# {{term LayerNorm}} removes a constant that is added to all features, so the leak goes unseen; and after it the
# features always sum to 0, whatever the input is, so the sum has no gradient apart from rounding errors. Use noise, and
# a random direction.
#
# The layer is made as `DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first)` and called as `layer(x, memory,
# mask, memory_mask)`. The mask of the targets is $(b, t, t)$, that of the source $(b, 1, s)$. An output may depend on
# its own target, on the targets that `mask` allows, *whatever* mask it is, on the real places of its own source, and on
# nothing else; and it must depend on all of these. Only this flow counts here: the wrong norms and forgotten residual
# paths of notebook 6 are not among the mistakes. `who_sees_whom` is yours to use.
#
# {{exercise accepts_decoder_layer}}


# %% exercise accepts_decoder_layer
def accepts_decoder_layer(DecoderLayer) -> bool:
    """Does information flow in `DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first)` as its masks say?

    Returns: True if it does, False if not. An error counts as False.
    """
    ### BEGIN SOLUTION
    torch.manual_seed(0)
    batch, time, length = 3, 4, 5
    past = torch.ones(time, time, dtype=torch.bool).tril().expand(batch, -1, -1)
    others = torch.eye(time, dtype=torch.bool) | (torch.rand(batch, time, time) < 0.5)  # not only the past
    real = (torch.arange(length) < torch.tensor([[5], [2], [3]])).unsqueeze(1)  # (batch, 1, source)
    for norm_first in (True, False):
        layer = DecoderLayer(8, 2, 12, 0.0, norm_first).eval()
        for mask in (past, others):
            x = torch.randn(batch, time, 8, requires_grad=True)
            memory = torch.randn(batch, length, 8, requires_grad=True)
            result = layer(x, memory, mask, real)
            if result.shape != x.shape or not torch.equal(who_sees_whom(result, x), mask):
                return False
            if not torch.equal(who_sees_whom(result, memory), real.expand(-1, time, -1)):
                return False
    return True
    ### END SOLUTION


# %% check accepts_decoder_layer
check(accepts_decoder_layer)

# %% [markdown]
# ## 11 · A test of a training step
#
# `train_step(model, optimizer, source, targets, bos_id, pad_id, max_norm)` (notebook 8) changes things instead of
# returning them. To test it, let it work on something so small that you can **take the same step by hand**. Plain
# gradient descent is predictable: with the gradient $g$, all parameters together, and the learning rate $\eta$,
#
# $$\theta_\text{new} = \theta - \eta\, g \cdot \min\!\Big(1, \frac{\text{max\_norm}}{\lVert g \rVert}\Big)$$
#
# `WatchedModel(vocab_size, d_model)` is called as a Transformer is, has no dropout, and remembers in `modes` whether it
# was in training mode at each call. `copy.deepcopy(model)` makes a twin on which you can compute what is right. What
# could be left over from before? What if the gradient is short, what if it is long? What is returned, and does it keep
# the whole graph alive?
#
# {{exercise accepts_train_step}}


# %% exercise accepts_train_step
def accepts_train_step(train_step) -> bool:
    """Is this implementation of `train_step(model, optimizer, source, targets, bos_id, pad_id, max_norm)` right?

    Returns: True if it is right, False if not. An error counts as False.
    """
    ### BEGIN SOLUTION
    torch.manual_seed(0)
    source, targets = torch.tensor([[3, 4, 5], [6, 2, 7]]), torch.tensor([[4, 3, 2, 0], [5, 2, 0, 0]])
    given = torch.tensor([[1, 4, 3, 2], [1, 5, 2, 0]])  # BOS, then all targets but the last
    for max_norm in (0.05, 1e6):  # clipped, and not
        model = WatchedModel(8, 3).eval()
        twin = copy.deepcopy(model)
        loss = F.cross_entropy(twin(source, given).transpose(1, 2), targets, ignore_index=0)
        slopes = torch.autograd.grad(loss, list(twin.parameters()))
        length = torch.cat([slope.flatten() for slope in slopes]).norm().item()  # of all together
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)  # left over from before
        returned = train_step(model, torch.optim.SGD(model.parameters(), lr=0.5), source, targets, 1, 0, max_norm)
        if isinstance(returned, Tensor) and returned.requires_grad:
            return False
        if abs(float(returned) - loss.item()) > 1e-4 or not model.modes[0]:
            return False
        for parameter, old, slope in zip(model.parameters(), twin.parameters(), slopes):
            want = old - 0.5 * min(1.0, max_norm / length) * slope
            if not torch.allclose(parameter, want, atol=1e-5):
                return False
    return True
    ### END SOLUTION


# %% check accepts_train_step
check(accepts_train_step)

# %% figure Your tests against "the loss falls"
own_step_test = yours("accepts_train_step", accepts_train_step)
by_test = len(caught_by(own_step_test, steps))
by_loss = sum(one != "loss falls" for one in seen["training step"])
figure, ax = plt.subplots(figsize=(7, 1.9))
names = ["does the loss fall?", "a test of one step"]
shares = [100 * by_loss / len(seen["training step"]), 100 * by_test / len(steps)]
ax.bar_label(ax.barh(names, shares, color=[COLOURS[1], COLOURS[0]]), fmt="%.0f %%", padding=3)
ax.set(title="Wrong training steps that are noticed", xlabel="% of all known mistakes", xlim=(0, 115))
ax.invert_yaxis()
plt.show()

# %% claims
claim("a test of one step catches them all", by_test == len(steps))
if not FAST:
    claim("the falling loss notices a quarter at most", shares[0] < 30)

# %% [markdown]
# ## 12 · What a test cannot see
#
# A passed test says: *on these inputs, no difference was found.* It cannot say more. A program may be right wherever
# the test looks, and wrong elsewhere:


# %%
def right_up_to_64(n: int) -> Tensor:
    """Written by somebody with a table of 64 positions."""
    return torch.ones(n, n).tril(0 if n <= 64 else n).bool()


own_mask_test = yours("accepts_causal_mask", accepts_causal_mask)
print("accepted:", accepts(own_mask_test, right_up_to_64))
print("row 0 of 65 sees", int(right_up_to_64(65)[0].sum()), "keys")

# %% claims
claim("a test of small sizes accepts it", accepts(own_mask_test, right_up_to_64))
claim("and it is wrong", int(right_up_to_64(65)[0].sum()) == 65)

# %% [markdown]
# Nor does it see how much time or memory something takes, unless it measures; what happens on a device that it does not
# have; or that the question itself was the wrong one. And a test can be wrong, like any program. How would you find
# out? As we did: **give it programs of which you know whether they are right.** Break the right program on purpose, and
# see whether the test notices. That is called {{term mutation testing}}, and it is how the checks of this course are
# tested.
#
# {{question a_test_of_your_own}}. Take a piece of code that you have written or used outside of this course (or, if you
# have none, the front end of notebook 7 that shortens sound). Name two mistakes that would let it run and let the loss
# fall. For each, describe a test that catches it: which inputs, what is measured, which value is right and why, and
# which tolerance.

# %% answer a_test_of_your_own 4 [markdown]
# ### BEGIN SOLUTION
# One point for each mistake that is plausible and silent, one for each test that would catch it and accept right code.
# Example: the front end halves the number of frames. (1) The mask is built from the lengths before halving, so padding
# is attended to. Test: two recordings in a batch, lengths 60 and 100; replace the padding of the first by noise; its
# encoder output must not move. Weights of hidden keys are exactly 0, so a tolerance of 1e-6 is enough for rounding. (2)
# The features are normalised with the mean of the whole batch, so the result depends on the other recordings. Test: a
# recording alone and in a batch gives the same output, in evaluation mode, up to 1e-5 in float32, since sums are taken
# in another order.
#
# **Rubric**
#
# - 1 point: a first mistake that is plausible and silent
# - 1 point: a test that catches it and accepts right code: inputs, what is measured, the right value, the tolerance
# - 1 point: a second mistake that is plausible and silent
# - 1 point: a test that catches it and accepts right code
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# You began this course with a softmax and a check that told you whether it was right. You have built attention, masks,
# positions, heads, layers, a translator, a reader, a writer and a listener. And you have seen that the loss falls for
# nine out of ten wrong programs. **"It runs" is not "it is right"**, and now you can tell the difference:
#
# 1. Know the best possible result, and distrust anything better.
# 2. Change what must not matter; replace what must not be seen.
# 3. Compare with something slow and obvious, at sizes that all differ, with a tolerance that you can justify.
# 4. Take chance out, or average enough of it to know the error.
# 5. Test the test: give it something wrong.
#
# The next program that you write has no check below it. Write one first.
#
# **To read on**: Karpathy (2019), *A Recipe for Training Neural Networks* · Claessen & Hughes (2000), *QuickCheck: A
# Lightweight Tool for Random Testing of Haskell Programs* · DeMillo, Lipton & Sayward (1978), *Hints on Test Data
# Selection: Help for the Practicing Programmer*.
